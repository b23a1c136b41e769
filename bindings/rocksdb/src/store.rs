//! An open store, its column families, and the handles of both for C.
//!
//! A column family is a keyspace with a number, which write batches use. The numbers are valid
//! while the store is open: 0 is `default`, the others follow in the order of their creation. A
//! handle refuses to be used in a process that was forked from the one that made it
//! (`vlsm_handle`).

use crate::call::{Outcome, shared};
use crate::operators::Slot;
use crate::options::shapes::Transform;
use crate::status::Failure;
use crate::transaction::locks::Locks;
use engine::{Db, Keyspace};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use vlsm_handle::Owned;

/// A column family.
pub(crate) struct Family {
    pub id: u32,
    pub name: String,
    pub keyspace: Keyspace,
    pub prefix: Option<Arc<Transform>>,
    pub slot: Option<Arc<Slot>>,
}

/// How a store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
    Secondary,
}

/// An open store.
pub(crate) struct Store {
    pub db: Db,
    pub access: Access,
    /// The WAL is written when the program requests it, not with each write.
    pub manual_wal: bool,
    pub slots: Vec<Arc<Slot>>,
    pub families: RwLock<Vec<Arc<Family>>>,
    pub next_id: AtomicU32,
    /// Held while a column family is made.
    pub making: Mutex<()>,
    pub locks: Locks,
    /// The milliseconds that a write, and a transaction, of a `TransactionDB` waits for a lock.
    pub lock_millis: Mutex<i64>,
    pub txn_lock_millis: Mutex<i64>,
}

impl Store {
    /// The column family `default`.
    pub(crate) fn main(&self) -> Outcome<Arc<Family>> {
        self.family(0)
    }

    /// The column family with this number.
    pub(crate) fn family(&self, id: u32) -> Outcome<Arc<Family>> {
        let families = self.families.read();
        let found = families.iter().find(|family| family.id == id);
        found.cloned().ok_or_else(|| {
            Failure::argument(format!(
                "Invalid column family specified in write batch: {id} is not open in this store"
            ))
        })
    }

    /// Registers a column family.
    pub(crate) fn add(
        &self,
        keyspace: Keyspace,
        prefix: Option<Arc<Transform>>,
        slot: Option<Arc<Slot>>,
    ) -> Arc<Family> {
        let name = keyspace.name();
        let id = match name == engine::DEFAULT_KEYSPACE {
            true => 0,
            false => self.next_id.fetch_add(1, Ordering::Relaxed),
        };
        let family = Arc::new(Family { id, name, keyspace, prefix, slot });
        self.families.write().push(family.clone());
        family
    }
}

/// A store's handle.
pub struct rocksdb_t(Owned<Arc<Store>>);

/// A column family's handle.
pub struct rocksdb_column_family_handle_t(Owned<(Arc<Store>, Arc<Family>)>);

impl rocksdb_t {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self(Owned::new(store))
    }
}

impl rocksdb_column_family_handle_t {
    pub(crate) fn new(store: &Arc<Store>, family: Arc<Family>) -> Self {
        Self(Owned::new((store.clone(), family)))
    }

    pub(crate) fn family(&self) -> Outcome<&Arc<Family>> {
        Ok(&self.0.get()?.1)
    }
}

/// The store of a handle.
pub(crate) unsafe fn store<'a>(db: *const rocksdb_t) -> Outcome<&'a Arc<Store>> {
    Ok(unsafe { shared(db, "the database")? }.0.get()?)
}

/// A store and one of its column families; NULL stands for `default`.
pub(crate) unsafe fn place<'a>(
    db: *const rocksdb_t,
    family: *const rocksdb_column_family_handle_t,
) -> Outcome<(&'a Arc<Store>, Arc<Family>)> {
    let store = unsafe { store(db)? };
    Ok((store, unsafe { family_of(store, family)? }))
}

/// A column family of a store; NULL stands for `default`.
pub(crate) unsafe fn family_of(
    store: &Arc<Store>,
    family: *const rocksdb_column_family_handle_t,
) -> Outcome<Arc<Family>> {
    let Some(handle) = (unsafe { family.as_ref() }) else { return store.main() };
    let (of, family) = handle.0.get()?;
    match Arc::ptr_eq(of, store) {
        true => Ok(family.clone()),
        false => Err(Failure::argument("the column family belongs to another database")),
    }
}
