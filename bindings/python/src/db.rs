//! Stores.
//!
//! A store is the keyspace `default` with the operations on the whole store. It is closed at the
//! end of a `with` block, by `close`, or with the last object that uses it.

use crate::batch::Batch;
use crate::errors::Failure;
use crate::held::{Store, close, opened, outside};
use crate::keyspace::Keyspace;
use crate::opening::Opening;
use crate::options::{keyspace_options, write_options};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;

/// An open store: the keyspace `default`, and the operations on all keyspaces.
#[pyclass(frozen, extends = Keyspace, module = "vlsm")]
pub struct Db {
    held: Store,
}

#[pymethods]
impl Db {
    /// Opens the store in a folder. If there is none and `create` is true, it is created.
    ///
    /// `options` is a text in TOML as in docs/mechanisms.md, or the same as a dictionary;
    /// `merge_operators` maps names to functions. `follow` opens a store for reading that another
    /// process may be writing: `catch_up` makes its later writes visible.
    #[new]
    #[pyo3(signature = (path, **arguments))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let opening = Opening::of(arguments)?;
        let db = outside(py, || Ok(opening.open(path)?))?;
        let default = Keyspace::new(&db, db.default_keyspace());
        Ok(PyClassInitializer::from(default).add_subclass(Self { held: opened(db) }))
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<vlsm.Db {:?}>", self.held.get()?.path()))
    }

    /// The folder of the store.
    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        Ok(self.held.get()?.path().to_owned())
    }

    /// Opens the keyspace with this name.
    fn keyspace(&self, py: Python<'_>, name: &str) -> PyResult<Keyspace> {
        outside(py, || {
            let db = self.held.get()?;
            Ok(Keyspace::new(db, db.keyspace(name)?))
        })
    }

    /// Opens the keyspace with this name, or creates it with these options.
    #[pyo3(signature = (name, **options))]
    fn create_keyspace(
        &self,
        py: Python<'_>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Keyspace> {
        let options = keyspace_options(options)?;
        outside(py, || {
            let db = self.held.get()?;
            Ok(Keyspace::new(db, db.create_keyspace(name, options)?))
        })
    }

    /// Removes a keyspace and all its data.
    fn drop_keyspace(&self, py: Python<'_>, keyspace: PyRef<'_, Keyspace>) -> PyResult<()> {
        let keyspace = &*keyspace;
        outside(py, || Ok(self.held.get()?.drop_keyspace(keyspace.inner()?)?))
    }

    /// The names of all keyspaces.
    fn keyspaces(&self) -> PyResult<Vec<String>> {
        Ok(self.held.get()?.keyspaces())
    }

    /// Makes a batch, which is written at the end of its `with` block or by `write`.
    #[pyo3(signature = (*, durability = None, deadline = None))]
    fn batch(&self, durability: Option<&str>, deadline: Option<f64>) -> PyResult<Batch> {
        Ok(Batch::new(self.held.get()?.clone(), write_options(durability, deadline)?))
    }

    /// Takes a snapshot of all keyspaces.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        outside(py, || {
            let db = self.held.get()?;
            Ok(Snapshot::new(db.snapshot(), db.default_keyspace()))
        })
    }

    /// Begins a transaction, which is committed at the end of its `with` block or by `commit`.
    fn transaction(&self, py: Python<'_>) -> PyResult<Transaction> {
        outside(py, || Ok(Transaction::new(self.held.get()?)))
    }

    /// Runs `work(transaction)` in a transaction and commits it. After a conflict `work` runs again
    /// in a new transaction, so it should have no other effects. If it raises, nothing is written.
    #[pyo3(signature = (work, *, durability = None, deadline = None))]
    fn transact(
        &self,
        py: Python<'_>,
        work: Py<PyAny>,
        durability: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let options = write_options(durability, deadline)?;
        outside(py, || {
            let db = self.held.get()?;
            db.try_transact_with(options, |own| {
                let call = |py: Python<'_>| {
                    Transaction::lend(py, db, own, work.bind(py)).map(Bound::unbind)
                };
                Ok::<_, Failure>(Python::try_attach(call).ok_or(engine::Error::Closed)??)
            })
        })
    }

    /// Waits until all writes so far are on the device.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || Ok(self.held.get()?.sync()?))
    }

    /// Flushes all memtables and waits until that is done.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || Ok(self.held.get()?.flush()?))
    }

    /// Waits until nothing is left to flush or to compact.
    fn wait_idle(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || Ok(self.held.get()?.wait_idle()?))
    }

    /// Makes later writes of the writing process visible, in a store that was opened with `follow`.
    fn catch_up(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || Ok(self.held.get()?.catch_up().map(|_| ())?))
    }

    /// Copies the present state of the store into a new folder.
    fn checkpoint(&self, py: Python<'_>, target: PathBuf) -> PyResult<()> {
        outside(py, || Ok(self.held.get()?.checkpoint(target).map(|_| ())?))
    }

    /// The counters in the text format of Prometheus.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        outside(py, || Ok(self.held.get()?.stats().prometheus()))
    }

    /// Closes the store: other objects that use it then raise `Closed`. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || close(self.held.get()?))
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// Checks a checkpoint and copies it into a new folder.
#[pyfunction]
pub fn restore(py: Python<'_>, checkpoint: PathBuf, target: PathBuf) -> PyResult<()> {
    outside(py, || Ok(engine::restore(checkpoint, target).map(|_| ())?))
}
