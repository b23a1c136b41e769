//! Transactions: reads and writes that take effect together, as if no other write came in between.
//!
//! Used as a context manager, a transaction is committed at the end of the block, unless the block
//! raises. `Db.transact` runs a function again after a `Conflict`.

use crate::errors::Failure;
use crate::held::{Data, Held, outside};
use crate::iter::{Items, Pairs, What};
use crate::keyspace::{Keyspace, Range, value_or};
use crate::options::{seconds, write_options};
use engine::Error;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A transaction. Without `keyspace` its calls use the keyspace `default`.
#[pyclass(frozen, module = "vlsm")]
pub struct Transaction {
    held: Mutex<Option<Held<Option<engine::Transaction>>>>,
    default: Held<engine::Keyspace>,
}

impl Transaction {
    pub fn new(db: &engine::Db) -> Self {
        let held = Mutex::new(Some(Held::new(Some(db.transaction()))));
        Self { held, default: Held::new(db.default_keyspace()) }
    }

    /// Calls `work` with a transaction of the engine, and takes the transaction back afterwards,
    /// unless `work` has ended it.
    pub fn lend<'py>(
        py: Python<'py>,
        db: &engine::Db,
        own: &mut engine::Transaction,
        work: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lent = Bound::new(py, Self::new(db))?;
        let swap = |own: &mut engine::Transaction| {
            let mut held = lent.get().held.lock();
            let there = held.as_mut().and_then(|held| held.get_mut().ok()?.as_mut());
            if let Some(transaction) = there {
                std::mem::swap(transaction, own);
            }
        };
        swap(own);
        let result = work.call1((&lent,));
        swap(own);
        lent.get().rollback(py);
        result
    }

    fn with<T>(
        &self,
        keyspace: Option<&Keyspace>,
        work: impl FnOnce(&mut engine::Transaction, &engine::Keyspace) -> engine::Result<T>,
    ) -> Result<T, Failure> {
        let keyspace = keyspace.map_or_else(|| self.default.get(), Keyspace::inner)?;
        let mut held = self.held.lock();
        let transaction = held.as_mut().ok_or_else(Self::ended)?.get_mut()?;
        Ok(work(transaction.as_mut().ok_or_else(Self::ended)?, keyspace)?)
    }

    fn ended() -> Failure {
        let why = "the transaction was committed or rolled back: begin another one";
        Error::InvalidArgument(why.into()).into()
    }
}

#[pymethods]
impl Transaction {
    /// The value of a key as the transaction has written it, or else as of the begin of the
    /// transaction.
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
        let found = outside(py, || self.with(keyspace, |txn, keyspace| txn.get(keyspace, key)))?;
        Ok(value_or(py, found, default))
    }

    /// The pairs of a range, with the transaction's writes so far.
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
            self.with(keyspace, |txn, keyspace| {
                Ok(match range {
                    Range::Ends(lo, hi) => txn.range(keyspace, (lo, hi)),
                    Range::Prefix(prefix) => txn.prefix(keyspace, prefix),
                })
            })
        })?;
        Ok(Items::new(Pairs::WithOwnWrites(Box::new(pairs)), What::Items, reverse))
    }

    /// Sets a key to a value. If `ttl` is given, the value expires after that many seconds.
    #[pyo3(signature = (key, value, *, ttl = None, keyspace = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (key, value) = (Data::of(key)?, Data::of(value)?);
        let ttl = ttl.map(|of| seconds(of, "ttl")).transpose()?;
        let (key, value, keyspace) = (key.bytes(), value.bytes(), keyspace.as_deref());
        outside(py, || {
            self.with(keyspace, |txn, keyspace| match ttl {
                Some(ttl) => txn.put_with_ttl(keyspace, key, value, ttl),
                None => txn.put(keyspace, key, value),
            })
        })
    }

    /// Removes a key.
    #[pyo3(signature = (key, *, keyspace = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (key, keyspace) = (Data::of(key)?, keyspace.as_deref());
        let key = key.bytes();
        outside(py, || self.with(keyspace, |txn, keyspace| txn.delete(keyspace, key)))
    }

    /// Removes a range of keys.
    #[pyo3(signature = (lo = None, hi = None, *, keyspace = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (range, keyspace) = (Range::of(lo, hi, None)?.ends(), keyspace.as_deref());
        outside(py, || self.with(keyspace, |txn, keyspace| txn.delete_range(keyspace, range)))
    }

    /// Writes an operand of the merge operator, which changes the value without reading it.
    #[pyo3(signature = (key, operand, *, keyspace = None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (key, operand) = (Data::of(key)?, Data::of(operand)?);
        let (key, operand, keyspace) = (key.bytes(), operand.bytes(), keyspace.as_deref());
        outside(py, || self.with(keyspace, |txn, keyspace| txn.merge(keyspace, key, operand)))
    }

    /// Sets a savepoint after the writes so far. Savepoints may be nested.
    fn savepoint(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || {
            self.with(None, |txn, _| {
                txn.savepoint();
                Ok(())
            })
        })
    }

    /// Undoes the writes since the last savepoint, and removes it.
    fn rollback_to_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || self.with(None, |txn, _| txn.rollback_to_savepoint()))
    }

    /// Ends the transaction without writing anything.
    fn rollback(&self, py: Python<'_>) {
        let held = py.detach(|| self.held.lock().take());
        drop(held);
    }

    /// Commits the transaction and ends it. Raises `Conflict` if data that it read was changed.
    #[pyo3(signature = (*, durability = None, deadline = None))]
    fn commit(
        &self,
        py: Python<'_>,
        durability: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let options = write_options(durability, deadline)?;
        outside(py, || {
            let mut held = self.held.lock();
            let transaction = held.as_mut().ok_or_else(Self::ended)?.get_mut()?.take();
            Ok(transaction.ok_or_else(Self::ended)?.commit_with(options)?)
        })
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if !raised.get_item(0)?.is_none() {
            self.rollback(py);
            return Ok(());
        }
        let ended = py.detach(|| self.held.lock().as_ref().is_none());
        if ended { Ok(()) } else { self.commit(py, None, None) }
    }
}
