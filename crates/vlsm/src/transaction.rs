//! Transactions: reads and writes that take effect together, or not at all.
//!
//! Concurrency control is optimistic. A transaction reads from the snapshot that it took when it
//! began, and from its own writes, which only it sees. It records every key, and every part of a
//! range, that it read. Its batch then goes through the commit like any other
//! ([`Writer::write_checked`]), with one condition: none of these reads may have changed before the
//! batch gets its sequence numbers. If no other batch has got any since the snapshot, nothing has
//! changed. Otherwise:
//! 1. From here on committing batches leave notes of their keys ([`Writer::begin_check`]).
//! 2. The reads are compared with the visible writes since the snapshot ([`Reader::changed`]).
//! 3. The reads are compared with the notes. The newest notes are compared in the step that gives
//!    the batch its sequence numbers.
//!
//! So committed transactions are serializable, in the order of their batches. A transaction that
//! wrote nothing needs no check: its place in that order is that of its snapshot. A transaction
//! that read nothing needs no check either. The iterators are in [`iter`].
//!
//! [`Writer::begin_check`]: crate::write::Writer::begin_check
//! [`Reader::changed`]: crate::read::Reader::changed
//! [`Writer::write_checked`]: crate::write::Writer::write_checked

mod iter;

pub use iter::TransactionIter;

use crate::batch::Batch;
use crate::bounds::KeyBounds;
use crate::db::Db;
use crate::handle::Handle;
use crate::keyspace::Keyspace;
use crate::options::WriteOptions;
use crate::own_writes::{OwnWrites, Say};
use crate::read::changes::Reads;
use crate::shared::latency::Timed;
use crate::snapshot::Snapshot;
use crate::write::batch::other_store;
use crate::write::commit::Basis;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::key::successor;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{ConflictKind, Error, Result};
use vlsm_disk::Env;

/// The most times that [`Db::transact`] runs a transaction.
pub const TRANSACT_TRIES: u32 = 100;
/// The first and the largest bound of the random pauses between the tries of [`Db::transact`].
const PAUSE: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Reads and writes that take effect together, as if no other write happened in between.
///
/// A transaction reads the store as it was at [`Db::transaction`], with its own writes on top. Its
/// writes are visible to others after [`Transaction::commit`]. The commit fails with
/// [`Error::Conflict`], and writes nothing, if another write has changed a key or a part of a range
/// that the transaction read. The transaction must then run again; [`Db::transact`] does this by
/// itself. Writes to keys that were not read cause no conflict, with two exceptions: a keyspace
/// that was cleared or dropped since the transaction began; and an ingest, or very many or very
/// large writes, during the commit, into regions that the transaction has read from. Dropping a
/// transaction discards it.
///
/// While a transaction exists it keeps old versions alive, as a snapshot does, and holds its writes
/// in memory. Values that expire and compaction filters cause no conflicts.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// use vlsm::{Db, Error};
///
/// let db = Db::open(folder.path().join("store"))?;
/// let accounts = db.default_keyspace();
/// accounts.put("ada", "7")?;
///
/// let mut transaction = db.transaction();
/// let before = transaction.get(&accounts, "ada")?;
/// assert_eq!(before.as_deref(), Some(&b"7"[..]));
/// transaction.put(&accounts, "ada", "8")?;
/// accounts.put("ada", "9")?; // somebody else is faster
/// assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
/// assert_eq!(accounts.get("ada")?.as_deref(), Some(&b"9"[..]));
/// # db.close()
/// # }
/// ```
pub struct Transaction {
    snapshot: Snapshot,
    batch: Batch,
    /// The writes of the batch up to the last read, as reads see them. Each read adds later writes.
    own: Mutex<Arc<OwnWrites>>,
    reads: Arc<Mutex<Reads>>,
    /// The number of writes at each savepoint.
    savepoints: Vec<usize>,
    /// A write was refused because its keyspace was cleared since the begin. Only a new transaction
    /// can make this write.
    outdated: bool,
}

impl Db {
    /// Begins a transaction on the store as it is now.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        Transaction::begin(&self.engine)
    }

    /// Runs `work` in a transaction and commits it. After a conflict it runs again, with growing
    /// pauses, up to [`TRANSACT_TRIES`] times in all. `work` should have no other effects.
    ///
    /// If `work` returns an error, nothing is written and the error is returned. To end without
    /// writes and without an error, call [`Transaction::rollback`]. For errors of your own use
    /// [`Db::try_transact`].
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let visits = db.default_keyspace();
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         scope.spawn(|| {
    ///             for _ in 0..100 {
    ///                 db.transact(|transaction| {
    ///                     let count = transaction.get(&visits, "ada")?;
    ///                     let count = count.map_or(0, |bytes| bytes.len());
    ///                     transaction.put(&visits, "ada", "x".repeat(count + 1))
    ///                 })
    ///                 .unwrap();
    ///             }
    ///         });
    ///     }
    /// });
    /// assert_eq!(visits.get("ada")?.map(|count| count.len()), Some(200));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `work`; [`Error::Conflict`] after the last try; any error of
    /// [`Transaction::commit`].
    pub fn transact<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.transact_with(WriteOptions::default(), work)
    }

    /// As [`Db::transact`], with options for the commit.
    ///
    /// # Errors
    /// As [`Db::transact`]; [`Error::Busy`] if a deadline was given and passed in one of the
    /// commits.
    pub fn transact_with<T>(
        &self,
        options: WriteOptions,
        work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        transact(&self.engine, options, work)
    }

    /// As [`Db::transact`], for work with an error type of its own. Such an error ends the
    /// transaction, and nothing is written.
    ///
    /// ```
    /// enum Refused {
    ///     SoldOut,
    ///     Store(vlsm::Error),
    /// }
    ///
    /// impl From<vlsm::Error> for Refused {
    ///     fn from(error: vlsm::Error) -> Self {
    ///         Self::Store(error)
    ///     }
    /// }
    ///
    /// /// Takes the last seat, or none.
    /// fn book(db: &vlsm::Db, name: &str) -> Result<(), Refused> {
    ///     let seats = db.default_keyspace();
    ///     db.try_transact(|transaction| {
    ///         transaction.put(&seats, name, "booked")?;
    ///         match transaction.get(&seats, "last")? {
    ///             None => Ok(transaction.put(&seats, "last", name)?),
    ///             Some(_) => Err(Refused::SoldOut),
    ///         }
    ///     })
    /// }
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// assert!(book(&db, "ada").is_ok());
    /// assert!(matches!(book(&db, "alan"), Err(Refused::SoldOut)));
    /// assert_eq!(db.get("alan")?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn try_transact<T, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.try_transact_with(WriteOptions::default(), work)
    }

    /// As [`Db::try_transact`], with options for the commit.
    ///
    /// # Errors
    /// As [`Db::transact_with`].
    pub fn try_transact_with<T, E: From<Error>>(
        &self,
        options: WriteOptions,
        work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        transact(&self.engine, options, work)
    }
}

/// Runs and commits a transaction, and repeats it after a conflict.
pub(crate) fn transact<T, E: From<Error>>(
    engine: &Handle,
    options: WriteOptions,
    mut work: impl FnMut(&mut Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let mut pause = PAUSE;
    let mut tries = 1;
    loop {
        let mut transaction = Transaction::begin(engine);
        let (error, conflict) = match work(&mut transaction) {
            Ok(result) => match transaction.commit_with(options) {
                Ok(()) => return Ok(result),
                Err(error) => {
                    let conflict = matches!(error, Error::Conflict { .. });
                    (E::from(error), conflict)
                }
            },
            Err(error) => (error, transaction.outdated),
        };
        if !conflict || tries == TRANSACT_TRIES {
            return Err(error);
        }
        tries += 1;
        pause_up_to(&*engine.shared.env, pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Waits for a random time up to `most`, so that the same transactions do not conflict again.
fn pause_up_to(env: &dyn Env, most: Duration) {
    let part = env.random() % (most.as_nanos() as u64).max(1);
    let condition = env.condition(Duration::ZERO);
    let until = env.now() + Duration::from_nanos(part);
    while env.now() < until {
        condition.wait(condition.epoch(), Some(until));
    }
}

impl Transaction {
    fn begin(engine: &Handle) -> Self {
        Self {
            snapshot: Snapshot::new(engine),
            batch: Batch::new(),
            own: Mutex::default(),
            reads: Arc::default(),
            savepoints: Vec::new(),
            outdated: false,
        }
    }

    /// The state of the store that the transaction reads, without its own writes. Reads of this
    /// snapshot cause no conflict.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The value of a key, as of the transaction's begin and with its own writes.
    ///
    /// # Errors
    /// As [`Snapshot::get`]; [`Error::InvalidArgument`] if the transaction has read too much for
    /// its commit to check.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        if keyspace.info.store != self.snapshot.held.engine.shared.store_uid {
            return Err(other_store());
        }
        let held = &self.snapshot.held;
        let trees = held.engine.reader.trees_at(&keyspace.info, held.at.seq)?;
        let tree = trees.tree(keyspace.info.region_of(key));
        let below = || {
            self.reads.lock().add_key(tree, key)?;
            self.snapshot.get(keyspace, key)
        };
        if self.batch.is_empty() || planted::is(Bug::OwnWriteUnseen) {
            return below();
        }
        let say = self.own().say(tree, key, held.at.now)?;
        say.value(&keyspace.info.made().rules, key, below)
    }

    /// The same as [`Transaction::get`], for users of pessimistic transactions. Here the commit
    /// checks every read, and nothing is locked.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_for_update(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        self.get(keyspace, key)
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// The values of several keys, in their order. Each key has a result of its own. Like
    /// [`Keyspace::multi_get`], it reads blocks that are not in memory in parallel.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Bytes>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        if keyspace.info.store != self.snapshot.held.engine.shared.store_uid {
            return keys.iter().map(|_| Err(other_store())).collect();
        }
        let (info, held) = (&keyspace.info, &self.snapshot.held);
        let trees = match held.engine.reader.trees_at(info, held.at.seq) {
            Ok(trees) => trees,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let tree_of = |key: &[u8]| trees.tree(info.region_of(key));
        let own = self.own().clone();
        let say = |key: &K| match planted::is(Bug::OwnWriteUnseen) {
            true => Ok(Say::Nothing),
            false => own.say(tree_of(key.as_ref()), key.as_ref(), held.at.now),
        };
        let says: Vec<_> = keys.iter().map(say).collect();
        let undecided = |say: &Result<Say>| matches!(say, Ok(Say::Nothing | Say::Operands(_)));
        let asked = keys.iter().zip(&says).filter(|(_, say)| undecided(say));
        let asked: Vec<&[u8]> = asked.map(|(key, _)| key.as_ref()).collect();
        let noted = {
            let mut reads = self.reads.lock();
            asked.iter().try_for_each(|key| reads.add_key(tree_of(key), key))
        };
        let below = match noted {
            Ok(()) => self.snapshot.multi_get(keyspace, &asked),
            Err(error) => asked.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut below = below.into_iter();
        let mut below = || below.next().expect("each undecided key was asked for");
        let made = info.made();
        let rules = &made.rules;
        let value = |(key, say): (&K, Result<Say>)| say?.value(rules, key.as_ref(), &mut below);
        keys.iter().zip(says).map(value).collect()
    }

    /// The pair with the smallest key of a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Bytes, Bytes)>> {
        self.iter(keyspace).next().transpose()
    }

    /// The pair with the largest key of a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Bytes, Bytes)>> {
        self.iter(keyspace).next_back().transpose()
    }

    /// Whether a keyspace has no pair.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn is_empty(&self, keyspace: &Keyspace) -> Result<bool> {
        Ok(self.first(keyspace)?.is_none())
    }

    /// The number of pairs of a keyspace. The call counts the pairs, so it reads all of them.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn len(&self, keyspace: &Keyspace) -> Result<u64> {
        self.iter(keyspace).try_fold(0, |count, pair| pair.map(|_| count + 1))
    }

    /// All pairs of a keyspace. As [`Transaction::range`].
    #[must_use]
    pub fn iter(&self, keyspace: &Keyspace) -> TransactionIter {
        self.within(keyspace, Bound::Unbounded, Bound::Unbounded)
    }

    /// The pairs of a keyspace within a range of keys, with the writes that the transaction has
    /// made so far. The commit checks the part of the range that the iterator has walked over: from
    /// each end to the last pair that it returned from that end.
    #[must_use]
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyBounds) -> TransactionIter {
        let (lo, hi) = range.key_bounds();
        self.within(keyspace, lo, hi)
    }

    /// The pairs of a keyspace whose keys begin with `prefix`. As [`Transaction::range`].
    #[must_use]
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> TransactionIter {
        let prefix = prefix.as_ref();
        let hi = successor(prefix).map_or(Bound::Unbounded, |end| Bound::Excluded(end.into()));
        self.within(keyspace, Bound::Included(Bytes::copy_from_slice(prefix)), hi)
    }

    /// Sets a key of a keyspace to a value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key or value over the limits, a transaction of more than
    /// [`MAX_BATCH_LEN`](crate::MAX_BATCH_LEN) bytes, or a keyspace of another store;
    /// [`Error::KeyspaceDropped`]; [`Error::Conflict`] if the keyspace was cleared since the
    /// transaction began. After each of these errors the transaction is as before the call.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(keyspace, |batch| batch.put(keyspace, key, value))
    }

    /// Sets a key of a keyspace to a value that expires after `ttl` from now.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::InvalidArgument`] if the keyspace has a merge operator.
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.add(keyspace, |batch| batch.put_with_ttl(keyspace, key, value, ttl))
    }

    /// Removes a key of a keyspace, if it exists.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(keyspace, |batch| batch.delete(keyspace, key))
    }

    /// Removes all keys of a range.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyBounds) -> Result<()> {
        self.add(keyspace, |batch| batch.delete_range(keyspace, range))
    }

    /// Changes the value of a key by an operand of the keyspace's merge operator. A merge reads
    /// nothing, so transactions that only merge never conflict.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::OperandRefused`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(keyspace, |batch| batch.merge(keyspace, key, operand))
    }

    /// Adds a write, or refuses it and leaves the transaction as it was.
    fn add(&mut self, keyspace: &Keyspace, add: impl FnOnce(&mut Batch)) -> Result<()> {
        let before = self.batch.len();
        add(&mut self.batch);
        let store = self.snapshot.held.engine.shared.store_uid;
        let refused = self.batch.take_error().or_else(|| self.batch.check(store).err());
        let refused = refused.or_else(|| self.check_trees(keyspace, before).err());
        let Some(error) = refused else { return Ok(()) };
        self.batch.truncate(before);
        self.outdated |= matches!(error, Error::Conflict { .. });
        Err(error)
    }

    /// Checks that the writes from `first` on go to the trees that the transaction reads. They do
    /// not if the keyspace was cleared since.
    fn check_trees(&self, keyspace: &Keyspace, first: usize) -> Result<()> {
        let held = &self.snapshot.held;
        let trees = held.engine.reader.trees_at(&keyspace.info, held.at.seq)?;
        let mut writes = self.batch.entries()[first..].iter();
        match writes.all(|entry| trees.region(entry.tree).is_some()) {
            true => Ok(()),
            false => Err(Error::Conflict {
                keyspace: keyspace.info.name(),
                what: ConflictKind::Keyspace,
            }),
        }
    }

    /// All writes so far.
    fn own(&self) -> MutexGuard<'_, Arc<OwnWrites>> {
        let mut own = self.own.lock();
        let entry = |at: usize| {
            let entry = &self.batch.entries()[at];
            (entry.tree, entry.kind, self.batch.key(entry), self.batch.value(entry))
        };
        OwnWrites::catch_up(&mut own, self.batch.len(), entry);
        own
    }

    /// The number of writes so far. A deleted range counts once for each region that it touches.
    #[must_use]
    pub fn write_count(&self) -> usize {
        self.batch.len()
    }

    /// Sets a savepoint for [`Transaction::rollback_to_savepoint`]. Savepoints may be nested.
    pub fn savepoint(&mut self) {
        self.savepoints.push(self.batch.len());
    }

    /// Undoes all writes since the last savepoint, and removes the savepoint. Reads since then
    /// still count as reads.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no savepoint.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        let Some(len) = self.savepoints.pop() else {
            return Err(Error::InvalidArgument("the transaction has no savepoint".into()));
        };
        self.undo_to(len);
        Ok(())
    }

    /// Undoes all writes. A commit then writes nothing.
    pub fn rollback(&mut self) {
        self.savepoints.clear();
        self.undo_to(0);
    }

    fn undo_to(&mut self, len: usize) {
        self.batch.truncate(len);
        self.own = Mutex::default();
    }

    /// Applies all writes atomically if no other write has changed a key or range that the
    /// transaction read.
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing was written; run the transaction again. Otherwise as
    /// [`Db::write`](crate::Db::write), and any error of reading an SST.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default())
    }

    /// As [`Transaction::commit`], with options.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; [`Error::Busy`] if a deadline was given and passed.
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        let engine = &self.snapshot.held.engine;
        if self.batch.is_empty() {
            return engine.shared.health.check_open();
        }
        let started = engine.shared.begin(Timed::Transaction);
        // Later reads of an iterator that is still open are not checked.
        let reads = std::mem::take(&mut *self.reads.lock()).index();
        let basis = Basis {
            reads: &reads,
            since: self.snapshot.seq(),
            changed: &|since| engine.reader.changed(&reads, since),
        };
        let basis = Some(&basis).filter(|_| !reads.is_empty());
        let result = engine.writer.write_checked(&self.batch, options, basis);
        let counters = &engine.shared.counters;
        match &result {
            Ok(()) => {
                counters.transactions.add(1);
                engine.shared.end(started);
            }
            Err(Error::Conflict { .. }) => counters.conflicts.add(1),
            Err(_) => {}
        }
        result
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("seq", &self.snapshot.seq())
            .field("writes", &self.batch.len())
            .finish_non_exhaustive()
    }
}
