//! Handles may be used on both sides of `catch_unwind`, because a panic of the caller's code leaves
//! no partial change. A write is in the store completely or not at all, and a panic during one of
//! the engine's own changes makes the store read-only (`Shared::watch`). A panic that drops the
//! last handle closes the store (`handle`).

use crate::batch::Batch;
use crate::db::Db;
use crate::iter::Iter;
use crate::keyspace::Keyspace;
use crate::snapshot::Snapshot;
use crate::transaction::{Transaction, TransactionIter};
use std::panic::{RefUnwindSafe, UnwindSafe};

macro_rules! unwind_safe {
    ($($name:ident)*) => {$(
        impl UnwindSafe for $name {}
        impl RefUnwindSafe for $name {}
    )*};
}

unwind_safe!(Batch Db Keyspace Snapshot Iter Transaction TransactionIter);
