//! Errors of the engine as exceptions of `vlsm.errors`.
//!
//! The classes are written in Python, because some of them have two parents.

use engine::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use vlsm_handle::Forked;

/// An error on its way to Python.
pub enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// The value was used in a forked process.
    Forked(Forked),
    /// A Python exception.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Forked> for Failure {
    fn from(forked: Forked) -> Self {
        Self::Forked(forked)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let (class, text, keyspace) = match &failure {
            Failure::Python(_) => {
                let Failure::Python(error) = failure else { unreachable!("just seen") };
                return error;
            }
            Failure::Engine(error) => (class(error), error.to_string(), error.keyspace()),
            Failure::Forked(forked) => ("Forked", forked.to_string(), None),
        };
        let made = Python::try_attach(|py| {
            let class = py.import("vlsm.errors").and_then(|module| module.getattr(class));
            let made = class.and_then(|class| class.call1((text.as_str(),))).and_then(|error| {
                error.setattr("keyspace", keyspace)?;
                Ok(error)
            });
            made.map_or_else(|error| error, PyErr::from_value)
        });
        made.unwrap_or_else(|| PyRuntimeError::new_err(text))
    }
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } => "IoError",
        Error::Corruption { .. } => "Corruption",
        Error::NoSpace { .. } => "NoSpace",
        Error::ReadOnly { .. } => "ReadOnly",
        Error::OpenedReadOnly => "OpenedReadOnly",
        Error::CannotFollow { .. } => "CannotFollow",
        Error::Locked { .. } => "Locked",
        Error::Missing { .. } => "Missing",
        Error::NotAStore { .. } => "NotAStore",
        Error::UsedUp { .. } => "UsedUp",
        Error::AlreadyExists { .. } => "AlreadyExists",
        Error::FormatVersion { .. } => "FormatVersion",
        Error::InvalidOption { .. } => "InvalidOption",
        Error::InvalidArgument(_) | Error::KeyspaceNeeded(_) => "InvalidArgument",
        Error::NoSuchKeyspace(_) => "NoSuchKeyspace",
        Error::KeyspaceDropped(_) => "KeyspaceDropped",
        Error::NameTaken(_) | Error::OptionFixed { .. } | Error::KeyspaceExists { .. } => {
            "KeyspaceExists"
        }
        Error::UnknownMergeOperator { .. }
        | Error::OperandRefused { .. }
        | Error::MergeFailed { .. } => "MergeError",
        Error::Busy { .. } => "Busy",
        Error::Conflict { .. } => "Conflict",
        Error::Closed => "Closed",
        _ => "Internal",
    }
}
