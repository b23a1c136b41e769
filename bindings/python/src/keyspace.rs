//! Keyspaces: mappings from bytes to bytes, with more operations than a dictionary has.
//!
//! For an absent key `keyspace[key]` raises `KeyError`, while `get` and `delete` raise nothing.
//! Iterators show the keyspace as of their creation, whatever is written meanwhile.

use crate::errors::Failure;
use crate::held::{Data, Held, outside};
use crate::iter::{Items, Pairs, What};
use crate::options::{keyspace_options, seconds, write_options};
use engine::Bytes;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::ops::Bound as End;

/// A range from arguments: its limits, or a prefix.
pub enum Range {
    Ends(End<Bytes>, End<Bytes>),
    Prefix(Bytes),
}

impl Range {
    /// `lo` is inclusive, `hi` exclusive; None means no limit. A prefix cannot be combined with
    /// them.
    ///
    /// # Errors
    /// `TypeError` for anything but bytes, `InvalidArgument` for a prefix together with limits.
    pub fn of(
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        let copy = |data: Data<'_>| Bytes::copy_from_slice(data.bytes());
        let [lo, hi, prefix] = [Data::perhaps(lo)?, Data::perhaps(hi)?, Data::perhaps(prefix)?]
            .map(|data| data.map(copy));
        match (lo, hi, prefix) {
            (None, None, Some(prefix)) => Ok(Self::Prefix(prefix)),
            (_, _, Some(_)) => {
                let why = "a prefix cannot be combined with lo and hi: leave them out";
                Err(engine::Error::InvalidArgument(why.into()).into())
            }
            (lo, hi, None) => Ok(Self::Ends(
                lo.map_or(End::Unbounded, End::Included),
                hi.map_or(End::Unbounded, End::Excluded),
            )),
        }
    }

    /// The limits, for calls without a prefix.
    pub fn ends(self) -> (End<Bytes>, End<Bytes>) {
        match self {
            Self::Ends(lo, hi) => (lo, hi),
            Self::Prefix(_) => unreachable!("only made where a prefix is an argument"),
        }
    }
}

/// A value, or another object in its place.
pub fn value_or<'py>(
    py: Python<'py>,
    found: Option<Bytes>,
    default: Option<Bound<'py, PyAny>>,
) -> Option<Bound<'py, PyAny>> {
    found.map(|value| PyBytes::new(py, &value).into_any()).or(default)
}

/// A pair as a tuple.
pub fn pair(py: Python<'_>, (key, value): (Bytes, Bytes)) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, [PyBytes::new(py, &key), PyBytes::new(py, &value)])
}

/// A mapping from bytes to bytes, in the order of the keys.
#[pyclass(frozen, subclass, mapping, weakref, module = "vlsm")]
pub struct Keyspace {
    db: Held<engine::Db>,
    held: Held<engine::Keyspace>,
}

impl Keyspace {
    pub fn new(db: &engine::Db, keyspace: engine::Keyspace) -> Self {
        Self { db: Held::new(db.clone()), held: Held::new(keyspace) }
    }

    /// The keyspace of the engine.
    ///
    /// # Errors
    /// In a forked process.
    pub fn inner(&self) -> Result<&engine::Keyspace, Failure> {
        self.held.get()
    }

    fn pairs(&self, py: Python<'_>, range: Range, what: What, reverse: bool) -> PyResult<Items> {
        let pairs = outside(py, || {
            let keyspace = self.inner()?;
            Ok(match range {
                Range::Ends(lo, hi) => keyspace.range((lo, hi)),
                Range::Prefix(prefix) => keyspace.prefix(prefix),
            })
        })?;
        Ok(Items::new(Pairs::Plain(Box::new(pairs)), what, reverse))
    }

    fn find(&self, py: Python<'_>, key: &Data<'_>) -> PyResult<Option<Bytes>> {
        let key = key.bytes();
        outside(py, || Ok(self.inner()?.get(key)?))
    }

    /// Removes a key in one step, so that of two threads only one finds it.
    fn take(&self, py: Python<'_>, key: &Data<'_>) -> PyResult<Option<Bytes>> {
        let key = key.bytes();
        outside(py, || Ok(self.inner()?.fetch_update(key, |_| None::<Vec<u8>>)?))
    }

    fn missing(key: &Bound<'_, PyAny>) -> PyErr {
        PyKeyError::new_err(key.clone().unbind())
    }
}

#[pymethods]
impl Keyspace {
    /// The name of the keyspace.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.inner()?.name())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<vlsm.Keyspace {:?}>", self.inner()?.name()))
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(value_or(py, self.find(py, &Data::of(key)?)?, default))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.find(py, &Data::of(key)?)?;
        value_or(py, found, None).ok_or_else(|| Self::missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = Data::of(key)?;
        let key = key.bytes();
        outside(py, || Ok(self.inner()?.contains_key(key)?))
    }

    /// The values of many keys as of one moment, read in one round; None for each absent key.
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keys = keys.try_iter()?.map(|key| Data::of(&key?));
        let keys = keys.collect::<PyResult<Vec<Data<'_>>>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(Data::bytes).collect();
        let found = outside(py, || {
            let found: engine::Result<Vec<_>> = self.inner()?.multi_get(keys).into_iter().collect();
            Ok(found?)
        })?;
        let found = found.into_iter().map(|value| value.map(|value| PyBytes::new(py, &value)));
        PyList::new(py, found.collect::<Vec<_>>())
    }

    /// Sets a key to a value. If `ttl` is given, the value expires after that many seconds.
    #[pyo3(signature = (key, value, *, ttl = None, durability = None, deadline = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
        durability: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let (key, value) = (Data::of(key)?, Data::of(value)?);
        let options = write_options(durability, deadline)?;
        let ttl = ttl.map(|of| seconds(of, "ttl")).transpose()?;
        let (key, value) = (key.bytes(), value.bytes());
        outside(py, || {
            let keyspace = self.inner()?;
            match ttl {
                Some(ttl) => keyspace.put_with_ttl_with(key, value, ttl, options)?,
                None => keyspace.put_with(key, value, options)?,
            }
            Ok(())
        })
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, None, None, None)
    }

    /// Removes a key. An absent key is no error.
    #[pyo3(signature = (key, *, durability = None, deadline = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        durability: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let (key, options) = (Data::of(key)?, write_options(durability, deadline)?);
        let key = key.bytes();
        outside(py, || Ok(self.inner()?.delete_with(key, options)?))
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.take(py, &Data::of(key)?)?.map(drop).ok_or_else(|| Self::missing(key))
    }

    /// Removes all keys from `lo` (inclusive) to `hi` (exclusive); None means no limit.
    #[pyo3(signature = (lo = None, hi = None, *, durability = None, deadline = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        durability: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let (range, options) =
            (Range::of(lo, hi, None)?.ends(), write_options(durability, deadline)?);
        outside(py, || Ok(self.inner()?.delete_range_with(range, options)?))
    }

    /// Writes an operand of the keyspace's merge operator, which changes the value without reading
    /// it.
    #[pyo3(signature = (key, operand, *, durability = None, deadline = None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
        durability: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let (key, operand) = (Data::of(key)?, Data::of(operand)?);
        let options = write_options(durability, deadline)?;
        let (key, operand) = (key.bytes(), operand.bytes());
        outside(py, || Ok(self.inner()?.merge_with(key, operand, options)?))
    }

    /// Sets a key to `new` if it has the value `expected`; None stands for an absent key. Returns
    /// whether the value was as expected.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        expected: Option<&Bound<'_, PyAny>>,
        new: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (key, expected, new) = (Data::of(key)?, Data::perhaps(expected)?, Data::perhaps(new)?);
        let key = key.bytes();
        let (expected, new) = (expected.as_ref().map(Data::bytes), new.as_ref().map(Data::bytes));
        outside(py, || Ok(self.inner()?.compare_and_swap(key, expected, new)?.is_ok()))
    }

    /// Replaces the value of a key with `update(value)`, in one step. None stands for an absent
    /// key, before and after. Returns the previous value. `update` runs again if another write came
    /// in between.
    fn fetch_update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        update: Py<PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = Data::of(key)?;
        let key = key.bytes();
        let before = outside(py, || {
            let keyspace = self.inner()?;
            self.db.get()?.try_transact(|transaction| {
                let before = transaction.get(keyspace, key)?;
                let after = Python::try_attach(|py| {
                    let before = before.as_deref().map(|before| PyBytes::new(py, before));
                    let after = update.bind(py).call1((before,))?;
                    Ok::<_, PyErr>(Data::perhaps(Some(&after))?.map(|after| after.bytes().to_vec()))
                });
                match after.ok_or(engine::Error::Closed)?? {
                    Some(after) => transaction.put(keyspace, key, after)?,
                    None if before.is_some() => transaction.delete(keyspace, key)?,
                    None => {}
                }
                Ok::<_, Failure>(before)
            })
        })?;
        Ok(before.map(|before| PyBytes::new(py, &before)))
    }

    /// Sets a key to a value if it is absent. Returns the value that the key has afterwards.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (key, value) = (Data::of(key)?, Data::of(value)?);
        let (key, value) = (key.bytes(), value.bytes());
        let there = outside(py, || Ok(self.inner()?.insert_if_absent(key, value)?))?;
        Ok(PyBytes::new(py, there.as_deref().unwrap_or(value)))
    }

    /// Removes a key and returns its value, or `default`.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let default = match default.len() {
            0 => None,
            1 => Some(default.get_item(0)?),
            _ => return Err(PyTypeError::new_err("pop takes a key and at most one default")),
        };
        let taken = self.take(py, &Data::of(key)?)?;
        value_or(py, taken, default).ok_or_else(|| Self::missing(key))
    }

    /// Removes the first pair and returns it.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let taken = outside(py, || {
            let keyspace = self.inner()?;
            while let Some((key, value)) = keyspace.first()? {
                if keyspace.compare_and_swap(&key, Some(&value), None)?.is_ok() {
                    return Ok(Some((key, value)));
                }
            }
            Ok(None)
        })?;
        let empty = || PyKeyError::new_err("the keyspace is empty");
        pair(py, taken.ok_or_else(empty)?)
    }

    /// Puts all pairs of a mapping, or of an iterable of pairs, as one batch.
    fn update(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = match pairs.hasattr("items")? {
            true => pairs.call_method0("items")?,
            false => pairs.clone(),
        };
        let keyspace = self.inner()?;
        let mut batch = engine::Batch::new();
        for pair in pairs.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            batch.put(keyspace, Data::of(&key)?.bytes(), Data::of(&value)?.bytes());
        }
        outside(py, || Ok(self.db.get()?.write(&batch, engine::WriteOptions::default())?))
    }

    /// The first pair, or None.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        outside(py, || Ok(self.inner()?.first()?))?.map(|found| pair(py, found)).transpose()
    }

    /// The last pair, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        outside(py, || Ok(self.inner()?.last()?))?.map(|found| pair(py, found)).transpose()
    }

    /// The keys of a range, in order.
    #[pyo3(signature = (lo = None, hi = None, *, prefix = None, reverse = false))]
    fn keys(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Items> {
        self.pairs(py, Range::of(lo, hi, prefix)?, What::Keys, reverse)
    }

    /// The values of a range, in the order of their keys.
    #[pyo3(signature = (lo = None, hi = None, *, prefix = None, reverse = false))]
    fn values(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Items> {
        self.pairs(py, Range::of(lo, hi, prefix)?, What::Values, reverse)
    }

    /// The pairs of a range, in the order of their keys.
    #[pyo3(signature = (lo = None, hi = None, *, prefix = None, reverse = false))]
    fn items(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Items> {
        self.pairs(py, Range::of(lo, hi, prefix)?, What::Items, reverse)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.pairs(py, Range::Ends(End::Unbounded, End::Unbounded), What::Keys, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Items> {
        self.pairs(py, Range::Ends(End::Unbounded, End::Unbounded), What::Keys, true)
    }

    /// Counts the keys, by reading all of them.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let count = outside(py, || Ok(self.inner()?.len()?))?;
        Ok(usize::try_from(count)?)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        outside(py, || Ok(!self.inner()?.is_empty()?))
    }

    /// Removes all data of the keyspace, at the cost of one record.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        outside(py, || Ok(self.inner()?.clear()?))
    }

    /// Renames the keyspace.
    fn rename(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        outside(py, || Ok(self.inner()?.rename(name)?))
    }

    /// Changes the options. Options that are left out become those of the store.
    #[pyo3(signature = (**options))]
    fn set_options(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let options = keyspace_options(options)?;
        outside(py, || Ok(self.inner()?.set_options(options)?))
    }

    /// Compacts a range down to the last level and waits until that is done.
    #[pyo3(signature = (lo = None, hi = None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let range = Range::of(lo, hi, None)?.ends();
        outside(py, || Ok(self.inner()?.compact_range(range)?))
    }

    /// Estimates the bytes and the number of entries of a range.
    #[pyo3(signature = (lo = None, hi = None))]
    fn approximate_size(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64)> {
        let range = Range::of(lo, hi, None)?.ends();
        let size = outside(py, || Ok(self.inner()?.approximate_size(range)?))?;
        Ok((size.bytes.0, size.entries))
    }
}
