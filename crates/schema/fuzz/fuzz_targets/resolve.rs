//! Looks for texts that the reading of time expressions cannot bear. `crates/schema/time/README.md` says how to run it.

#![no_main]

#[path = "../../tests/time_fuzz/mod.rs"]
mod time_fuzz;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    time_fuzz::case(bytes).check();
});
