//! Columns: many pairs as a few `bytes` objects, for numpy and pyarrow.
//!
//! A column is the concatenation of its entries, and their places: the offset at which each begins
//! and, at the end, the offset at which the last one ends. This is the layout of Arrow's
//! `LargeBinary`, so no Python code runs for single entries. `python/vlsm/columns.py` wraps
//! columns.

use crate::errors::Failure;
use engine::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Keys and values.
pub struct Columns {
    keys: Column,
    values: Column,
}

struct Column {
    bytes: Vec<u8>,
    places: Vec<u8>,
}

impl Column {
    fn new() -> Self {
        Self { bytes: Vec::new(), places: 0u64.to_ne_bytes().to_vec() }
    }

    fn push(&mut self, entry: &[u8]) {
        self.bytes.extend_from_slice(entry);
        self.places.extend_from_slice(&(self.bytes.len() as u64).to_ne_bytes());
    }
}

impl Columns {
    pub fn new() -> Self {
        Self { keys: Column::new(), values: Column::new() }
    }

    pub fn rows(&self) -> usize {
        self.keys.places.len() / size_of::<u64>() - 1
    }

    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.keys.push(key);
        self.values.push(value);
    }
}

impl<'py> IntoPyObject<'py> for Columns {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Self { keys, values } = self;
        let parts = [keys.bytes, keys.places, values.bytes, values.places];
        PyTuple::new(py, parts.map(|part| PyBytes::new(py, &part)))
    }
}

/// The entries of a column.
///
/// # Errors
/// Places that lie outside of the bytes, decrease, or are not 64-bit numbers.
pub fn entries<'a>(
    bytes: &'a [u8],
    places: &'a [u8],
    what: &'static str,
) -> Result<impl ExactSizeIterator<Item = Result<&'a [u8], Failure>>, Failure> {
    let wrong = move |why: String| {
        Failure::Engine(Error::InvalidArgument(format!("the offsets of the {what}: {why}")))
    };
    let (places, rest) = places.as_chunks::<{ size_of::<u64>() }>();
    if !rest.is_empty() || places.is_empty() {
        return Err(wrong("they must be 64-bit numbers, one more than entries".into()));
    }
    Ok(places.windows(2).map(move |ends| {
        let [from, to] = [0, 1].map(|end| u64::from_ne_bytes(ends[end]));
        let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
        range.and_then(|(from, to)| bytes.get(from..to)).ok_or_else(|| {
            let have = bytes.len();
            wrong(format!("an entry from {from} to {to} is not within {have} bytes"))
        })
    }))
}
