//! What memloom's programs share.

// Both panic when their reader has gone: `say!` and `writeln!` do not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

use std::io::{self, ErrorKind};
use std::process::ExitCode;

pub mod device;
pub mod extract;
pub mod interrupt;
pub mod memory;
pub mod models;
pub mod progress;
pub mod say;
pub mod sft;
pub mod when;

/// What a program does before anything else. A file that reaches the system's limit of sizes (`ulimit -f`) then is an
/// error of the write, which is printed like any other, and not the silent end of the program.
pub fn begin() {
    #[cfg(unix)]
    // SAFETY: no handler is installed: the signal is ignored from now on.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// A reader that closed its end of our output has seen enough: that is no error, and changes no exit code.
///
/// # Errors
/// Any other error of a write.
pub fn unless_reader_left(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Ends a program: prints the error with its causes and gives 2, "could not run". A reader that
/// closed its end of our output is no error.
pub fn exit_code(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match outcome {
        Ok(code) => return code,
        Err(error) => error,
    };
    let io = error.downcast_ref::<io::Error>();
    if io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    say!("error: {}", mem_remote::chain(error.as_ref()));
    ExitCode::from(2)
}
