//! The module `vlsm._vlsm`, which the package `vlsm` re-exports under its own name.
//!
//! A `Db` is itself a `Keyspace`: `default`, which every store has. So both are mappings from bytes
//! to bytes. `python/vlsm/_vlsm.pyi` has every call with its types.

mod batch;
mod columns;
mod db;
mod errors;
mod held;
mod iter;
mod keyspace;
mod opening;
mod operators;
mod options;
mod snapshot;
mod transaction;

/// The module.
#[pyo3::pymodule]
mod _vlsm {
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::db::{Db, restore};
    #[pymodule_export]
    use crate::held::close_all;
    #[pymodule_export]
    use crate::iter::Items;
    #[pymodule_export]
    use crate::keyspace::Keyspace;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::transaction::Transaction;
}
