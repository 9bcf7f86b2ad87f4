//! Ctrl-C: the first ends the work where nothing is lost, the second ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::say;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Listens from now on; what it returns is set by the first Ctrl-C.
pub fn listen() -> &'static AtomicBool {
    let listening = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        say!("stopping; once more to stop at once");
    });
    if let Err(error) = listening {
        say!("warning: Ctrl-C will end the run at once: {error}");
    }
    &INTERRUPTED
}
