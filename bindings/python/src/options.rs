//! Options of writes and of keyspaces, from keyword arguments.
//!
//! Times are seconds as numbers, as everywhere in Python.

use crate::errors::Failure;
use engine::{ByteCount, Compression, Durability, Error, KeyspaceOptions, WriteOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use std::time::Duration;

/// The options of a store as a text in TOML, from such a text or from a dictionary.
///
/// # Errors
/// `TypeError` for anything else.
pub fn toml(options: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = options.cast::<PyString>() {
        return text.extract();
    }
    let Ok(options) = options.cast::<PyDict>() else {
        let kind = options.get_type().name()?;
        return Err(PyTypeError::new_err(format!("options are a str or a dict, not {kind}")));
    };
    let lines = options.iter().map(|(name, value)| line(&name, &value));
    lines.collect::<PyResult<Vec<_>>>().map(|lines| lines.join("\n"))
}

fn line(name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(format!("{} = {}", quoted(name.cast::<PyString>()?)?, literal(value)?))
}

fn literal(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(truth.is_true().to_string());
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return value.str()?.extract();
    }
    if let Ok(text) = value.cast::<PyString>() {
        return quoted(text);
    }
    if let Ok(table) = value.cast::<PyDict>() {
        let entries = table.iter().map(|(name, value)| line(&name, &value));
        let entries = entries.collect::<PyResult<Vec<_>>>()?;
        return Ok(format!("{{ {} }}", entries.join(", ")));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "an option is a str, a number, a bool or a dict of these, not {kind}"
    )))
}

/// A text as a basic string of TOML, which has the same escapes as JSON.
fn quoted(text: &Bound<'_, PyString>) -> PyResult<String> {
    text.py().import("json")?.call_method1("dumps", (text,))?.extract()
}

/// A time in seconds.
///
/// # Errors
/// The time is negative or not a number.
pub fn seconds(of: f64, what: &str) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(of).map_err(|_| {
        let why = format!("{what} is {of:e}: a number of seconds is expected, as in {what}=0.5");
        Failure::Engine(Error::InvalidArgument(why))
    })
}

/// The options of a write.
///
/// # Errors
/// An unknown durability; those of [`seconds`].
pub fn write_options(
    durability: Option<&str>,
    deadline: Option<f64>,
) -> Result<WriteOptions, Failure> {
    let mut options = WriteOptions::default();
    options.durability = match durability {
        None => None,
        Some("sync") => Some(Durability::Sync),
        Some("buffered") => Some(Durability::Buffered),
        Some("lazy") => Some(Durability::Lazy),
        Some("no_wal") => Some(Durability::NoWal),
        Some(other) => {
            let why = format!(
                "unknown durability {other:?}: use \"sync\", \"buffered\", \"lazy\" or \"no_wal\""
            );
            return Err(Error::InvalidArgument(why).into());
        }
    };
    options.deadline = deadline.map(|of| seconds(of, "deadline")).transpose()?;
    Ok(options)
}

/// The options of a keyspace, from keyword arguments.
///
/// # Errors
/// `TypeError` for an unknown option, or one of a wrong type; an unknown compression; those of
/// [`seconds`].
pub fn keyspace_options(arguments: Option<&Bound<'_, PyDict>>) -> PyResult<KeyspaceOptions> {
    let mut options = KeyspaceOptions::new();
    for (name, value) in arguments.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        match name.extract::<String>()?.as_str() {
            "merge_operator" => options.merge_operator = value.extract()?,
            "ttl" => options.ttl = Some(seconds(value.extract()?, "ttl")?),
            "compression" => options.compression = Some(vec![compression(value.extract()?)?]),
            "block_bytes" => options.block_bytes = Some(ByteCount(value.extract()?)),
            "bits_per_key" => options.bits_per_key = value.extract()?,
            "memtable_bytes" => options.memtable_bytes = Some(ByteCount(value.extract()?)),
            "splits" => {
                let splits = value.extract::<Vec<Vec<u8>>>()?;
                options.splits = splits.into_iter().map(Into::into).collect();
            }
            other => {
                let why = format!("a keyspace has no option {other}: they are {KEYSPACE_OPTIONS}");
                return Err(PyTypeError::new_err(why));
            }
        }
    }
    Ok(options)
}

const KEYSPACE_OPTIONS: &str =
    "merge_operator, ttl, compression, block_bytes, bits_per_key, memtable_bytes and splits";

fn compression(name: String) -> Result<Compression, Failure> {
    match name.as_str() {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        other => {
            let why = format!("unknown compression {other:?}: use \"none\", \"lz4\" or \"zstd\"");
            Err(Error::InvalidArgument(why).into())
        }
    }
}
