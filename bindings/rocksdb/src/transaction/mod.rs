//! Transactions of `TransactionDB` and `OptimisticTransactionDB`.
//!
//! Both collect their writes in a batch with an index, and read through it.
//!
//! - A locking transaction locks each key that it writes or reads for update (`locks`). With a
//!   snapshot, a key that was changed since is refused. The commit writes the batch.
//! - An optimistic transaction records these keys. Its commit is a transaction of the engine, which
//!   began with the first such key, or with the snapshot, and which reads them: it fails if one of
//!   them was changed since. So a key that was first touched late is checked from an earlier moment
//!   than in RocksDB: more conflicts, never fewer.
//!
//! There is no two-phase commit: vLSM's WAL has no prepared transactions.

mod functions;
pub(crate) mod locks;
mod stores;

use crate::bag::Bag;
use crate::batch::index::read_through;
use crate::batch::rep::Op;
use crate::batch::rocksdb_writebatch_wi_t;
use crate::call::{Outcome, changed};
use crate::snapshot::Seen;
use crate::status::{Failure, Kind};
use crate::store::{Family, Store};
use engine::{Snapshot, Transaction, WriteOptions};
use locks::Key;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vlsm_handle::Owned;

/// How a transaction protects its keys from others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rules {
    /// By locks, for which it waits at most this long.
    Locking(Option<Duration>),
    /// By a check at its commit.
    Optimistic,
}

/// A transaction.
pub(crate) struct Txn {
    store: Arc<Store>,
    rules: Rules,
    options: WriteOptions,
    owner: u64,
    writes: rocksdb_writebatch_wi_t,
    /// The keys that others must not change.
    keys: BTreeSet<Key>,
    snapshot: Option<Arc<Seen>>,
    /// The engine's transaction from which an optimistic check begins.
    basis: Option<Transaction>,
    ended: bool,
    /// A copy of the writes that the program may read.
    lent: Option<Box<rocksdb_writebatch_wi_t>>,
}

impl Txn {
    pub(crate) fn new(
        store: &Arc<Store>,
        rules: Rules,
        options: WriteOptions,
        with_snapshot: bool,
    ) -> Self {
        let mut txn = Self {
            store: store.clone(),
            rules,
            options,
            owner: store.locks.owner(),
            writes: rocksdb_writebatch_wi_t::new(),
            keys: BTreeSet::new(),
            snapshot: None,
            basis: None,
            ended: false,
            lent: None,
        };
        if with_snapshot {
            txn.set_snapshot();
        }
        txn
    }

    fn set_snapshot(&mut self) {
        // The basis comes first, so that changes in between are conflicts and are not missed.
        if matches!(self.rules, Rules::Optimistic) {
            self.basis.get_or_insert_with(|| self.store.db.transaction());
        }
        self.snapshot = Some(Arc::new(Seen { snapshot: self.store.db.snapshot() }));
    }

    fn check_open(&self) -> Outcome {
        match self.ended {
            false => Ok(()),
            true => Err(Failure::argument("Transaction has already been committed or aborted.")),
        }
    }

    /// Protects a key from other transactions.
    fn claim(&mut self, family: &Family, key: &[u8]) -> Outcome {
        self.check_open()?;
        let claimed = (family.id, key.to_vec());
        if self.keys.contains(&claimed) {
            return Ok(());
        }
        match self.rules {
            Rules::Optimistic => {
                self.basis.get_or_insert_with(|| self.store.db.transaction());
            }
            Rules::Locking(limit) => {
                self.store.locks.lock(self.owner, &claimed, limit)?;
                if let Some(seen) = &self.snapshot
                    && let Err(failure) = unchanged(&seen.snapshot, family, key)
                {
                    self.store.locks.unlock(self.owner, [&claimed]);
                    return Err(failure);
                }
            }
        }
        self.keys.insert(claimed);
        Ok(())
    }

    /// Adds a write to a key.
    pub(crate) fn write(&mut self, family: &Family, key: &[u8], op: Op<'_>) -> Outcome {
        self.claim(family, key)?;
        self.writes.add(op);
        Ok(())
    }

    /// The value of a key, with the transaction's writes.
    fn get(&self, family: &Family, options: &Bag, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        let index = self.writes.index.lock();
        let below = |family: &Family| Ok(crate::db::read(family, options, key)?.map(Into::into));
        read_through(&index, &self.store, family.id, key, below)
    }

    /// Like `get`, and protects the key from other transactions.
    fn get_for_update(
        &mut self,
        family: &Family,
        options: &Bag,
        key: &[u8],
    ) -> Outcome<Option<Vec<u8>>> {
        self.claim(family, key)?;
        self.get(family, options, key)
    }

    fn commit(&mut self) -> Outcome {
        self.check_open()?;
        match self.rules {
            Rules::Locking(_) => self.writes.batch.write(&self.store, self.options)?,
            Rules::Optimistic => self.commit_checked()?,
        }
        self.release();
        self.ended = true;
        Ok(())
    }

    fn commit_checked(&mut self) -> Outcome {
        if self.writes.batch.count() == 0 {
            return self.check_reads();
        }
        // Also reports a write that could not be added.
        self.writes.batch.for_engine(&self.store)?;
        let basis = self.basis.take();
        let mut transaction = basis.unwrap_or_else(|| self.store.db.transaction());
        for (id, key) in &self.keys {
            // The read counts for conflicts; the value is not needed.
            transaction.contains_key(&self.store.family(*id)?.keyspace, key)?;
        }
        for op in self.writes.batch.ops() {
            match op? {
                Op::Put(id, key, value) => {
                    transaction.put(&self.store.family(id)?.keyspace, key, value)?;
                }
                Op::Merge(id, key, value) => {
                    transaction.merge(&self.store.family(id)?.keyspace, key, value)?;
                }
                Op::Delete(id, key) | Op::SingleDelete(id, key) => {
                    transaction.delete(&self.store.family(id)?.keyspace, key)?;
                }
                Op::DeleteRange(..) | Op::LogData(_) => {}
            }
        }
        Ok(transaction.commit_with(self.options)?)
    }

    /// The check for a commit without writes, which the engine would not check.
    fn check_reads(&mut self) -> Outcome {
        let Some(basis) = self.basis.take() else { return Ok(()) };
        for (id, key) in &self.keys {
            let family = self.store.family(*id)?;
            if basis.get(&family.keyspace, key)? != family.keyspace.get(key)? {
                return Err(changed_since());
            }
        }
        Ok(())
    }

    /// Discards its writes and releases its keys.
    fn rollback(&mut self) {
        self.release();
    }

    fn release(&mut self) {
        self.store.locks.unlock(self.owner, &self.keys);
        self.keys.clear();
        self.writes.clear();
        self.basis = None;
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        self.store.locks.unlock(self.owner, &self.keys);
    }
}

/// Whether a key has the value that a snapshot shows.
fn unchanged(snapshot: &Snapshot, family: &Family, key: &[u8]) -> Outcome {
    match snapshot.get(&family.keyspace, key)? == family.keyspace.get(key)? {
        true => Ok(()),
        false => Err(changed_since()),
    }
}

fn changed_since() -> Failure {
    Failure::new(Kind::Busy, "a key of the transaction was changed by others")
}

/// A transaction's handle.
pub struct rocksdb_transaction_t(Owned<Txn>);

impl rocksdb_transaction_t {
    fn new(txn: Txn) -> Self {
        Self(Owned::new(txn))
    }
}

/// The transaction of a handle.
unsafe fn of<'a>(txn: *mut rocksdb_transaction_t) -> Outcome<&'a mut Txn> {
    Ok(unsafe { changed(txn, "the transaction")? }.0.get_mut()?)
}
