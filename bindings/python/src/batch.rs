//! Batches: writes that take effect together or not at all.
//!
//! Used as a context manager, a batch is written at the end of the block, unless the block raises.

use crate::columns::entries;
use crate::errors::Failure;
use crate::held::{Data, Held, outside};
use crate::keyspace::{Keyspace, Range};
use crate::options::{seconds, write_options};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A batch. Without `keyspace` its calls use the keyspace `default`.
#[pyclass(frozen, module = "vlsm")]
pub struct Batch {
    db: Held<engine::Db>,
    default: Held<engine::Keyspace>,
    writes: Mutex<Held<engine::Batch>>,
    options: engine::WriteOptions,
}

impl Batch {
    pub fn new(db: engine::Db, options: engine::WriteOptions) -> Self {
        let default = Held::new(db.default_keyspace());
        let writes = Mutex::new(Held::new(engine::Batch::new()));
        Self { db: Held::new(db), default, writes, options }
    }

    fn add(
        &self,
        keyspace: Option<&Keyspace>,
        change: impl FnOnce(&mut engine::Batch, &engine::Keyspace),
    ) -> Result<(), Failure> {
        let keyspace = keyspace.map_or_else(|| self.default.get(), Keyspace::inner)?;
        change(self.writes.lock().get_mut()?, keyspace);
        Ok(())
    }
}

#[pymethods]
impl Batch {
    /// Adds a put. If `ttl` is given, the value expires after that many seconds.
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
            self.add(keyspace, |batch, keyspace| match ttl {
                Some(ttl) => batch.put_with_ttl(keyspace, key, value, ttl),
                None => batch.put(keyspace, key, value),
            })
        })
    }

    /// Adds puts of many pairs, as [`Items::columns`](crate::iter::Items) returns them.
    #[pyo3(signature = (keys, key_places, values, value_places, *, keyspace = None))]
    fn put_columns(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        key_places: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        value_places: &Bound<'_, PyAny>,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<()> {
        let keys = [Data::of(keys)?, Data::of(key_places)?];
        let values = [Data::of(values)?, Data::of(value_places)?];
        let [keys, key_places] = keys.each_ref().map(Data::bytes);
        let [values, value_places] = values.each_ref().map(Data::bytes);
        let keyspace = keyspace.as_deref();
        outside(py, || {
            let keys = entries(keys, key_places, "keys")?;
            let values = entries(values, value_places, "values")?;
            if keys.len() != values.len() {
                let why = format!("{} keys and {} values", keys.len(), values.len());
                return Err(engine::Error::InvalidArgument(why).into());
            }
            // All pairs are checked before the first is added.
            let pairs = keys.zip(values).map(|(key, value)| Ok((key?, value?)));
            let pairs = pairs.collect::<Result<Vec<_>, Failure>>()?;
            self.add(keyspace, |batch, keyspace| {
                pairs.iter().for_each(|(key, value)| batch.put(keyspace, key, value));
            })
        })
    }

    /// Adds a delete.
    #[pyo3(signature = (key, *, keyspace = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (key, keyspace) = (Data::of(key)?, keyspace.as_deref());
        let key = key.bytes();
        outside(py, || self.add(keyspace, |batch, keyspace| batch.delete(keyspace, key)))
    }

    /// Adds a delete of a range.
    #[pyo3(signature = (lo = None, hi = None, *, keyspace = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        lo: Option<&Bound<'_, PyAny>>,
        hi: Option<&Bound<'_, PyAny>>,
        keyspace: Option<PyRef<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (range, keyspace) = (Range::of(lo, hi, None)?.ends(), keyspace.as_deref());
        outside(py, || self.add(keyspace, |batch, keyspace| batch.delete_range(keyspace, range)))
    }

    /// Adds an operand of the keyspace's merge operator.
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
        outside(py, || self.add(keyspace, |batch, keyspace| batch.merge(keyspace, key, operand)))
    }

    /// Writes the batch atomically, all of it or nothing, and empties it.
    #[pyo3(signature = (*, durability = None, deadline = None))]
    fn write(
        &self,
        py: Python<'_>,
        durability: Option<&str>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let mut options = write_options(durability, deadline)?;
        options.durability = options.durability.or(self.options.durability);
        options.deadline = options.deadline.or(self.options.deadline);
        outside(py, || {
            let mut writes = self.writes.lock();
            let writes = writes.get_mut()?;
            self.db.get()?.write(writes, options)?;
            *writes = engine::Batch::new();
            Ok(())
        })
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        match raised.get_item(0)?.is_none() {
            true => self.write(py, None, None),
            false => Ok(()),
        }
    }
}
