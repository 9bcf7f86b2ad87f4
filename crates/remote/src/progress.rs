//! What a fetch tells the program that runs it.

/// Receives the course of a fetch. Programs draw a bar or print lines; tests stay quiet.
pub trait Progress {
    /// One line for a person: a source that was passed over, a wait, a resumption.
    fn note(&mut self, line: &str) {
        let _ = line;
    }

    /// Work on `what` begins; `total_bytes` where it is known.
    fn begin(&mut self, what: &str, total_bytes: Option<u64>) {
        let _ = (what, total_bytes);
    }

    /// This many more bytes have arrived since the last call.
    fn advance(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// What [`Progress::begin`] announced is over, well or ill.
    fn end(&mut self) {}
}

/// Tells nobody.
pub struct Quiet;

impl Progress for Quiet {}
