//! Snapshots: all keyspaces as they were at one moment.
//!
//! A snapshot keeps the data that it shows on the disk. Used as a context manager, it is released
//! at the end of the block.

use crate::errors::Failure;
use crate::held::{Data, Held, outside};
use crate::iter::{Items, Pairs, What};
use crate::keyspace::{Keyspace, Range, value_or};
use parking_lot::RwLock;
use pyo3::prelude::*;

/// A snapshot of a store. Without `keyspace` its calls use the keyspace `default`.
#[pyclass(frozen, module = "vlsm")]
pub struct Snapshot {
    held: RwLock<Option<Held<engine::Snapshot>>>,
    default: Held<engine::Keyspace>,
}

impl Snapshot {
    pub fn new(snapshot: engine::Snapshot, default: engine::Keyspace) -> Self {
        Self { held: RwLock::new(Some(Held::new(snapshot))), default: Held::new(default) }
    }

    fn with<T>(
        &self,
        keyspace: Option<&Keyspace>,
        work: impl FnOnce(&engine::Snapshot, &engine::Keyspace) -> engine::Result<T>,
    ) -> Result<T, Failure> {
        let held = self.held.read();
        let released = || engine::Error::InvalidArgument("the snapshot was released".into());
        let snapshot = held.as_ref().ok_or_else(released)?.get()?;
        let keyspace = keyspace.map_or_else(|| self.default.get(), Keyspace::inner)?;
        Ok(work(snapshot, keyspace)?)
    }
}

#[pymethods]
impl Snapshot {
    /// The value of a key at that moment, or `default`.
    #[pyo3(signature = (key, default = None, *, keyspace = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        keyspace: Option<PyRef<'py, Keyspace>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = Data::of(key)?;
        let (key, keyspace) = (key.bytes(), keyspace.as_deref());
        let found = outside(py, || self.with(keyspace, |at, keyspace| at.get(keyspace, key)))?;
        Ok(value_or(py, found, default))
    }

    /// The pairs of a range at that moment.
    #[pyo3(signature = (lo = None, hi = None, *, prefix = None, reverse = false, keyspace = None))]
    fn items(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<Items> {
        let (range, keyspace) = (Range::of(lo, hi, prefix)?, keyspace.as_deref());
        let pairs = outside(py, || {
            self.with(keyspace, |at, keyspace| {
                Ok(match range {
                    Range::Ends(lo, hi) => at.range(keyspace, (lo, hi)),
                    Range::Prefix(prefix) => at.prefix(keyspace, prefix),
                })
            })
        })?;
        Ok(Items::new(Pairs::Plain(Box::new(pairs)), What::Items, reverse))
    }

    /// Releases the snapshot and the data that it keeps.
    fn release(&self, py: Python<'_>) {
        let held = py.detach(|| self.held.write().take());
        drop(held);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) {
        self.release(py);
    }
}
