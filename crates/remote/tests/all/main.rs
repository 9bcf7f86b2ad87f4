//! Whole fetches against fake sources: a pip that is a shell script, a hub on the loopback
//! interface, a cache laid out by hand. Nothing leaves this machine.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cache;
mod hub;
mod local;
mod pip;
mod support;
