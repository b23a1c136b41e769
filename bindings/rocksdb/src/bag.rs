//! RocksDB objects that only hold options: named numbers, and other objects by name.
//!
//! `options.txt` has a row for each option: its default, and whether vLSM has a counterpart. The
//! setters and getters are generated from the rows at build time. Every option can be read back as
//! it was set. Its status takes effect when a store is opened.

use crate::call::{Outcome, changed, give, shared};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The value of an option. Unsigned numbers are kept by their bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Int(i64),
    Real(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
        }
    }
}

/// A type of C that an option may have.
pub(crate) trait Scalar: Sized {
    fn value(self) -> Value;
    fn of(value: Value) -> Self;
}

macro_rules! integers {
    ($($what:ty),*) => {$(
        impl Scalar for $what {
            fn value(self) -> Value {
                Value::Int(self as i64)
            }
            fn of(value: Value) -> Self {
                match value {
                    Value::Int(number) => number as $what,
                    Value::Real(number) => number as $what,
                }
            }
        }
    )*};
}

integers!(i8, u8, i32, u32, i64, u64, usize);

impl Scalar for f64 {
    fn value(self) -> Value {
        Value::Real(self)
    }
    fn of(value: Value) -> Self {
        match value {
            Value::Int(number) => number as Self,
            Value::Real(number) => number,
        }
    }
}

impl Scalar for bool {
    fn value(self) -> Value {
        Value::Int(self.into())
    }
    fn of(value: Value) -> Self {
        i64::of(value) != 0
    }
}

/// Another object: only its presence counts.
impl<T> Scalar for *mut T {
    fn value(self) -> Value {
        Value::Int((!self.is_null()).into())
    }
    fn of(_: Value) -> Self {
        std::ptr::null_mut()
    }
}

/// The counterpart of an option in vLSM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It has a counterpart.
    Mapped,
    /// It changes no result: it is accepted, and logged when it is not the default.
    Harmless,
    /// Any other value than the default would have a meaning that vLSM does not have.
    Refused,
}

/// A row of `options.txt`.
pub(crate) struct Row {
    pub object: &'static str,
    pub key: &'static str,
    pub default: Value,
    pub status: Status,
    pub note: &'static str,
}

/// The row of an option.
pub(crate) fn row(object: &str, key: &str) -> Option<&'static Row> {
    let at =
        crate::generated::ROWS.binary_search_by(|row| (row.object, row.key).cmp(&(object, key)));
    at.ok().map(|at| &crate::generated::ROWS[at])
}

/// Options of one kind. C has many names for this type.
#[derive(Clone)]
pub struct Bag {
    pub(crate) object: &'static str,
    pub(crate) values: BTreeMap<&'static str, Value>,
    objects: BTreeMap<&'static str, Arc<dyn Any + Send + Sync>>,
}

impl Bag {
    pub(crate) fn new(object: &'static str) -> Self {
        Self { object, values: BTreeMap::new(), objects: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, key: &'static str, value: Value) {
        self.values.insert(key, value);
    }

    pub(crate) fn get<T: Scalar>(&self, key: &'static str) -> T {
        let default = || row(self.object, key).map_or(Value::Int(0), |row| row.default);
        T::of(self.values.get(key).copied().unwrap_or_else(default))
    }

    /// The value of an option, if it was set.
    pub(crate) fn given<T: Scalar>(&self, key: &'static str) -> Option<T> {
        self.values.get(key).copied().map(T::of)
    }

    pub(crate) fn flag(&self, key: &'static str) -> bool {
        self.get(key)
    }

    /// Stores an object, and replaces an earlier one.
    pub(crate) fn keep<T: Any + Send + Sync>(&mut self, key: &'static str, object: Arc<T>) {
        self.objects.insert(key, object);
    }

    pub(crate) fn forget(&mut self, key: &'static str) {
        self.objects.remove(key);
    }

    pub(crate) fn kept<T: Any + Send + Sync>(&self, key: &'static str) -> Option<Arc<T>> {
        self.objects.get(key).cloned()?.downcast().ok()
    }

    /// The options that differ from the default, with their rows.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&'static Row, Value)> + '_ {
        let rows =
            self.values.iter().filter_map(|(key, value)| Some((row(self.object, key)?, *value)));
        rows.filter(|(row, value)| f64::of(row.default) != f64::of(*value))
    }
}

/// A handle to new options, as C sees it.
pub(crate) fn new(object: &'static str) -> *mut Bag {
    give(Bag::new(object))
}

pub(crate) unsafe fn set(bag: *mut Bag, key: &'static str, value: impl Scalar) -> Outcome {
    unsafe { changed(bag, "the options")? }.set(key, value.value());
    Ok(())
}

pub(crate) unsafe fn get<T: Scalar>(bag: *const Bag, key: &'static str) -> Outcome<T> {
    Ok(unsafe { shared(bag, "the options")? }.get(key))
}
