//! The objects that Java holds, by number.
//!
//! A number is never used twice. A call first takes a reference to its object, so an object that
//! another thread closes meanwhile lives until the call returns. Every object keeps its store open.
//!
//! The exit of the JVM. Writes may be acknowledged before they leave the process (`Lazy`, `NoWal`).
//! A shutdown hook makes them durable, and does not close the stores, because other hooks may be
//! about to use them: it sets `EXITING` and then syncs every store. A write that saw `EXITING`
//! unset was complete before it was set, so that sync covers it. Any other write syncs by itself
//! before it returns.

use crate::call::in_operator;
use crate::error::{Failure, Outcome};
use dashmap::DashMap;
use engine::{Durability, Error, WriteOptions};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

/// An open store.
pub struct Store {
    pub db: engine::Db,
    pub default: engine::Keyspace,
    /// Whether there were writes outside the WAL.
    unlogged: AtomicBool,
}

impl Store {
    /// A store that is made durable at the exit of the JVM.
    pub fn new(db: engine::Db) -> Arc<Self> {
        let default = db.default_keyspace();
        let store = Arc::new(Self { db, default, unlogged: AtomicBool::new(false) });
        let mut open = OPEN.lock();
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&store));
        store
    }

    /// Writes with options; see above for the exit of the JVM.
    pub fn write<T>(
        &self,
        options: WriteOptions,
        work: impl FnOnce(WriteOptions) -> Outcome<T>,
    ) -> Outcome<T> {
        let durability = options.durability.unwrap_or(self.db.options().durability);
        match durability {
            Durability::NoWal => self.unlogged.store(true, Ordering::SeqCst),
            Durability::Sync | Durability::Buffered => return work(options),
            // Lazy, and kinds that may be added later.
            _ => {}
        }
        let result = work(options)?;
        if EXITING.load(Ordering::SeqCst) {
            self.settle()?;
        }
        Ok(result)
    }

    /// Makes all acknowledged writes durable.
    fn settle(&self) -> engine::Result<()> {
        if self.unlogged.load(Ordering::SeqCst) {
            self.db.flush()?;
        }
        self.db.sync()
    }
}

static OPEN: Mutex<Vec<Weak<Store>>> = Mutex::new(Vec::new());
static EXITING: AtomicBool = AtomicBool::new(false);

/// Makes all acknowledged writes durable, in all stores, and every write from now on.
///
/// # Errors
/// The first one; the other stores are synced nevertheless.
pub fn exit() -> Outcome<()> {
    EXITING.store(true, Ordering::SeqCst);
    let stores = OPEN.lock().clone();
    let settle = |store: Arc<Store>| match store.settle() {
        Ok(()) | Err(Error::Closed | Error::OpenedReadOnly) => Ok(()),
        Err(error) => Err(error.into()),
    };
    let results = stores.iter().filter_map(Weak::upgrade).map(settle).collect::<Vec<_>>();
    results.into_iter().collect()
}

/// An object that Java holds.
pub enum Object {
    Db(Arc<Store>),
    Keyspace(Arc<Store>, engine::Keyspace),
    Snapshot(Arc<Store>, engine::Snapshot),
    /// None when it has ended.
    Transaction(Arc<Store>, Mutex<Option<engine::Transaction>>),
    Cursor(Mutex<crate::cursor::Cursor>),
}

static OBJECTS: LazyLock<DashMap<i64, Arc<Object>>> = LazyLock::new(DashMap::new);
/// 0 stands for no object.
static NEXT: AtomicI64 = AtomicI64::new(1);

/// Adds an object and returns its number.
pub fn add(object: Object) -> i64 {
    share(Arc::new(object))
}

/// Like [`add`], for an object that others hold, too.
pub fn share(object: Arc<Object>) -> i64 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    OBJECTS.insert(id, object);
    id
}

/// The object of a number; `what` is its kind, for the error.
pub fn find(id: i64, what: &'static str) -> Outcome<Arc<Object>> {
    OBJECTS.get(&id).map(|found| found.clone()).ok_or(Failure::Closed(what))
}

/// Removes an object. A store closes with its last one, which must not happen in one of its own
/// threads.
#[allow(clippy::disallowed_methods, reason = "a store that closes has no environment to ask")]
pub fn remove(id: i64) {
    let removed = OBJECTS.remove(&id);
    if in_operator() {
        std::thread::spawn(move || drop(removed));
    }
}

fn other(what: &'static str) -> Failure {
    Failure::argument(format!("the handle is not one of a {what}"))
}

/// The store of a number.
pub fn store(id: i64) -> Outcome<Arc<Store>> {
    match &*find(id, "store")? {
        Object::Db(store) => Ok(store.clone()),
        _ => Err(other("store")),
    }
}

impl Object {
    /// The store that the object belongs to.
    pub fn store(&self) -> Outcome<&Arc<Store>> {
        match self {
            Self::Db(store)
            | Self::Keyspace(store, _)
            | Self::Snapshot(store, _)
            | Self::Transaction(store, _) => Ok(store),
            Self::Cursor(_) => Err(other("store")),
        }
    }

    /// The keyspace that the object is.
    pub fn keyspace(&self) -> Outcome<&engine::Keyspace> {
        match self {
            Self::Db(store) => Ok(&store.default),
            Self::Keyspace(_, keyspace) => Ok(keyspace),
            _ => Err(other("keyspace")),
        }
    }
}
