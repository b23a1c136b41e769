//! How Python objects hold parts of a store, and how calls leave the interpreter.
//!
//! 1. Every call that may wait runs without the interpreter's lock, because the store's threads
//!    need the lock to call a merge operator in Python.
//! 2. Dropping the last handle, which closes the store, also runs without it. When the interpreter
//!    is finalizing, nothing is dropped any more: all acknowledged writes are in the files.
//! 3. In a forked process every call is an error ([`Owned`]).
//! 4. When the interpreter exits, `atexit` first closes the stores that are still open
//!    ([`close_all`]), so that writes that were acknowledged but are still in the process are not
//!    lost.

use crate::errors::Failure;
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use std::sync::{Arc, Weak};
use vlsm_handle::Owned;

/// A store, which only its `Db` holds.
pub type Store = Arc<Held<engine::Db>>;

/// The stores that may be open. This lock is only taken together with the interpreter's lock, so
/// never during a fork.
static OPEN: Mutex<Vec<Weak<Held<engine::Db>>>> = Mutex::new(Vec::new());

/// A store that is closed at the exit of the interpreter.
pub fn opened(db: engine::Db) -> Store {
    let store = Arc::new(Held::new(db));
    let mut open = OPEN.lock();
    open.retain(|other| other.strong_count() > 0);
    open.push(Arc::downgrade(&store));
    store
}

/// Closes all stores before the interpreter exits.
///
/// # Errors
/// The first error of a store that could not be closed; the others are closed nevertheless.
#[pyfunction]
#[pyo3(name = "_close_all")]
pub fn close_all(py: Python<'_>) -> PyResult<()> {
    let open = std::mem::take(&mut *OPEN.lock());
    let close = |store: Store| outside(py, || close(store.get()?));
    let results = open.iter().filter_map(Weak::upgrade).map(close).collect::<Vec<_>>();
    results.into_iter().collect()
}

/// Closes a store. It is no error if it is already closed.
///
/// # Errors
/// Those of the engine.
pub fn close(db: &engine::Db) -> Result<(), Failure> {
    match db.clone().close() {
        Ok(()) | Err(engine::Error::Closed) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A value of a store.
pub struct Held<T: Send>(Option<Owned<T>>);

impl<T: Send> Held<T> {
    pub fn new(value: T) -> Self {
        Self(Some(Owned::new(value)))
    }

    /// The value.
    ///
    /// # Errors
    /// In a forked process.
    pub fn get(&self) -> Result<&T, Failure> {
        Ok(self.0.as_ref().expect("taken only when dropped").get()?)
    }

    /// Like [`Held::get`].
    ///
    /// # Errors
    /// Like [`Held::get`].
    pub fn get_mut(&mut self) -> Result<&mut T, Failure> {
        Ok(self.0.as_mut().expect("taken only when dropped").get_mut()?)
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        let mut value = self.0.take();
        if Python::try_attach(|py| py.detach(|| drop(value.take()))).is_none() {
            std::mem::forget(value);
        }
    }
}

/// The bytes of an argument. They cannot be changed while they are used.
pub struct Data<'py>(Bound<'py, PyBytes>);

impl<'py> Data<'py> {
    /// The bytes of `bytes`, `bytearray` or a `memoryview`. The last two are copied.
    ///
    /// # Errors
    /// `TypeError` for anything else.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(bytes.clone()));
        }
        if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
            let copy = object.py().get_type::<PyBytes>().call1((object,))?;
            return Ok(Self(copy.cast_into::<PyBytes>()?));
        }
        let kind = object.get_type().name()?.to_string();
        let advice = if kind == "str" { ": encode it, as in key.encode()" } else { "" };
        Err(PyTypeError::new_err(format!("keys and values are bytes, not {kind}{advice}")))
    }

    /// Like [`Data::of`], for an argument that may be None.
    ///
    /// # Errors
    /// As [`Data::of`].
    pub fn perhaps(object: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Self>> {
        object.filter(|object| !object.is_none()).map(Self::of).transpose()
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Runs a call without the interpreter's lock.
///
/// # Errors
/// Those of the call, as exceptions.
pub fn outside<T: Send>(
    py: Python<'_>,
    work: impl Send + FnOnce() -> Result<T, Failure>,
) -> PyResult<T> {
    Ok(py.detach(work)?)
}
