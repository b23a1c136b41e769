//! Failures of a command: one line on stderr, and an exit code.
//!
//! 1: it failed, or something was not found. 2: the command line was wrong. A closed pipe (`vlsm
//! scan … | head`) is not a failure: the program ends at once, silently, with 0.

use crate::paint::Paint;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// The outcome of a command.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command failed, with the problem and the remedy.
    Failed(String),
    /// The command line was wrong.
    Usage(String),
    /// The reader of the output has closed the pipe.
    PipeClosed,
}

impl Failure {
    /// A failure with this message.
    pub fn new(what: impl Display) -> Self {
        Self::Failed(what.to_string())
    }

    /// A wrong argument.
    pub fn usage(what: impl Display) -> Self {
        Self::Usage(what.to_string())
    }

    /// A failed operation on a file that the user named.
    pub fn file(op: &str, path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("{op} {}: {error}", path.display()))
    }

    /// Prints the message in the name of this program and returns the exit code.
    #[must_use]
    pub fn report(self, program: &str) -> ExitCode {
        let (code, what) = match self {
            Self::PipeClosed => return ExitCode::SUCCESS,
            Self::Failed(what) => (1, what),
            Self::Usage(what) => (2, format!("{what} (see {program} --help)")),
        };
        say(format_args!("{} {what}", Paint::Error.err(format_args!("{program}:"))));
        ExitCode::from(code)
    }
}

/// An I/O error without a file concerns stdout, where the data goes.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::Failed(format!("cannot write the output: {error}")),
        }
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self::Failed(what)
    }
}

impl From<vlsm_core::Error> for Failure {
    fn from(error: vlsm_core::Error) -> Self {
        use vlsm_core::Error as E;
        match error {
            E::InvalidOption { .. } | E::InvalidArgument(_) | E::OperandRefused { .. } => {
                Self::usage(error)
            }
            _ => Self::new(error),
        }
    }
}

/// A line on stderr, which may be closed.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
