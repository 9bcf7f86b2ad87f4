//! Reads time expressions in many texts made of table words, and says how long the slowest took.
//!
//! `cargo run --release -p mem-schema --example time_fuzz -- <count> [seed] [most words]`. A text that cannot be read
//! ends the program with a panic, which shows the text. With `CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true` overflows
//! panic too.

#[path = "../tests/time_fuzz/mod.rs"]
mod time_fuzz;

use std::{
    env,
    error::Error,
    time::{Duration, Instant},
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> = env::args()
        .skip(1)
        .map(|of| of.parse())
        .collect::<Result<_, _>>()?;
    let count = *arguments.first().ok_or("how many texts?")?;
    let seed = arguments.get(1).copied().unwrap_or(1).max(1);
    let most = arguments.get(2).copied().unwrap_or(16).max(1) as usize;
    let mut source = time_fuzz::Bytes(seed);
    let mut bytes = Vec::new();
    let mut found = 0;
    let mut slowest = (Duration::ZERO, String::new());
    let begun = Instant::now();
    for done in 1..=count {
        source.next(most, &mut bytes);
        let case = time_fuzz::case(&bytes);
        let mut took = timed(|| found += case.check().len());
        // Not what else the machine did, and not the tables that the first texts wait for.
        for _ in 0..3 {
            if took <= slowest.0 {
                break;
            }
            took = took.min(timed(|| drop(case.check())));
        }
        if took > slowest.0 {
            slowest = (took, format!("{case:?}"));
        }
        if done % 1_000_000 == 0 || done == count {
            println!(
                "{done} texts, {found} expressions, {:.0} s, slowest {:?}: {}",
                begun.elapsed().as_secs_f64(),
                slowest.0,
                slowest.1
            );
        }
    }
    Ok(())
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}
