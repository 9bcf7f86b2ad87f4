//! The only code of memloom that opens a socket: models are fetched here.
//!
//! [`catalogue`] knows what can be fetched, [`places`] where it goes, [`fetch()`] brings it, and
//! [`manifest`] tells later what lies there. A fetch tries its sources in a fixed order, checks
//! every byte it can check, and can be interrupted at any moment.

pub mod catalogue;
mod error;
mod fetch;
mod intake;
pub mod manifest;
pub mod places;
mod progress;
mod sources;

pub use error::{Attempt, Error, chain};
pub use fetch::{Fetched, Request, Source, fetch};
pub use progress::{Progress, Quiet};
