//! Errors with the texts of RocksDB. Programs read the kind from the text before the first colon.
//!
//! The rest is the engine's own text, which names the remedy.

use engine::Error;
use std::fmt::Display;
use vlsm_handle::Forked;

/// The kinds of RocksDB's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    NotFound,
    Corruption,
    NotSupported,
    Argument,
    Io,
    Incomplete,
    Shutdown,
    TimedOut,
    Busy,
    FamilyDropped,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound: ",
            Self::Corruption => "Corruption: ",
            Self::NotSupported => "Not implemented: ",
            Self::Argument => "Invalid argument: ",
            Self::Io => "IO error: ",
            Self::Incomplete => "Result incomplete: ",
            Self::Shutdown => "Shutdown in progress: ",
            Self::TimedOut => "Operation timed out: ",
            Self::Busy => "Resource busy: ",
            Self::FamilyDropped => "Column family dropped: ",
        }
    }
}

/// A failure of a call.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub kind: Kind,
    what: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, what: impl Display) -> Self {
        Self { kind, what: what.to_string() }
    }

    /// An invalid argument.
    pub(crate) fn argument(what: impl Display) -> Self {
        Self::new(Kind::Argument, what)
    }

    /// A function or option that vLSM does not have.
    pub(crate) fn missing(what: impl Display) -> Self {
        Self::new(Kind::NotSupported, what)
    }

    pub(crate) fn panicked() -> Self {
        let what = "internal error (please report it): the library panicked; stderr has the place";
        Self::new(Kind::Corruption, what)
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.kind.prefix(), self.what)
    }
}

impl From<Forked> for Failure {
    fn from(forked: Forked) -> Self {
        Self::new(Kind::Argument, forked)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Kind::Io, error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Io { .. } | Error::NoSpace { .. } | Error::ReadOnly { .. } => Kind::Io,
            Error::Locked { path, .. } => {
                let lock = path.join("LOCK");
                return Self::new(Kind::Io, format!("lock {}: {error}", lock.display()));
            }
            Error::MergeFailed { .. } => {
                return Self::new(Kind::Corruption, format!("Merge operator failed: {error}"));
            }
            Error::Corruption { .. } => Kind::Corruption,
            Error::OpenedReadOnly => {
                let what = "Not supported operation in read only mode.";
                return Self::new(Kind::NotSupported, what);
            }
            Error::Missing { path } => {
                let what = "does not exist (create_if_missing is false)";
                return Self::argument(format!("{}: {what}", path.display()));
            }
            Error::AlreadyExists { path } => {
                let what = "exists (error_if_exists is true)";
                return Self::argument(format!("{}: {what}", path.display()));
            }
            Error::NoSuchKeyspace(name) => {
                return Self::argument(format!("Column family not found: {name}"));
            }
            Error::KeyspaceDropped(_) => Kind::FamilyDropped,
            Error::Busy { .. } => Kind::Incomplete,
            Error::Conflict { .. } => Kind::Busy,
            Error::Closed => Kind::Shutdown,
            Error::CannotFollow { .. } | Error::Internal(_) => Kind::Corruption,
            _ => Kind::Argument,
        };
        Self::new(kind, error)
    }
}
