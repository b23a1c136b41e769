//! The write path, in the order a batch goes through it: [`gate`] → [`commit`] (sequence, memtable,
//! WAL, publish; [`large`] for large batches) with [`rotate`] when a memtable is full and
//! [`wal_stage`] for the bytes. [`turn`] is for what is ordered among batches and is none.

pub(crate) mod commit;
pub(crate) mod gate;
pub(crate) mod large;
pub(crate) mod rotate;
pub(crate) mod turn;
pub(crate) mod wal_stage;
