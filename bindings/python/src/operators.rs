//! Merge operators in Python: a function of a key, the previous value (or None) and a list of
//! operands, which returns the new value.
//!
//! The store's threads call it, with the interpreter's lock. If it raises or does not return bytes,
//! the operands cannot be combined: the key cannot be read, and nothing is lost. The same holds
//! while the interpreter is finalizing.

use crate::held::Data;
use engine::MergeOperator;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// A function as a merge operator.
pub struct Operator {
    pub name: String,
    pub function: Py<PyAny>,
}

impl MergeOperator for Operator {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Python::try_attach(|py| {
            let operands = operands.iter().map(|operand| PyBytes::new(py, operand));
            let base = base.map(|base| PyBytes::new(py, base));
            let merged = PyList::new(py, operands.collect::<Vec<_>>()).and_then(|operands| {
                let arguments = (PyBytes::new(py, key), base, operands);
                self.function.bind(py).call1(arguments)
            });
            match merged.and_then(|value| Ok(Data::of(&value)?.bytes().to_vec())) {
                Ok(value) => Some(value),
                Err(error) => {
                    // No caller waits for this error, so Python reports it like an error of
                    // `__del__`.
                    error.write_unraisable(py, Some(self.function.bind(py)));
                    None
                }
            }
        })?
    }
}
