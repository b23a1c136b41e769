//! The lives of keyspaces: made, filled, renamed, cleared, dropped and made again, with a crash at
//! every file operation.
//!
//! 1. One client makes random changes, drawn from a seed. After each it compares all keyspaces with
//!    a sorted map for each, and a snapshot with what it has shown before.
//! 2. The book has the state after every change, and says which of them must survive a loss of
//!    power: what was written with a sync, and everything before a keyspace was cleared or dropped.
//! 3. For every crash point and every damage: the store is opened again. It must show one of the
//!    states that the book allows. It is then used, closed and opened once more. A close leaves no
//!    file that nobody needs.

use crate::disk::{Damage, Disk};
use crate::env::{End, SimConfig, SimEnv, TaskHandle};
use crate::leaks::leaks;
use crate::rng::Rng;
use crate::world::{FOLDER, pairs, tiny_options, verify};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vlsm::{Batch, Db, Durability, Keyspace, KeyspaceOptions, Snapshot, WriteOptions};
use vlsm_core::Error;

/// The changes of one life.
const CHANGES: usize = 24;

/// The looks for a keyspace's new name, a microsecond apart.
const LOOKS_MAX: u64 = 20_000;

/// The names of the keyspaces that come and go.
const NAMES: [&str; 3] = ["red", "blue", "green"];

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
type State = BTreeMap<String, Pairs>;
type Outcome<T> = Result<T, String>;

/// The states of the store, the first one empty.
#[derive(Clone)]
struct Book {
    states: Vec<State>,
    /// The first of them that a loss of power may leave.
    durable: usize,
}

impl Book {
    fn new() -> Self {
        Self { states: vec![State::from([("default".to_owned(), Pairs::new())])], durable: 0 }
    }

    fn last(&self) -> &State {
        self.states.last().expect("the first one stays")
    }

    /// Whether a crash may leave this state.
    fn allows(&self, found: &State) -> bool {
        self.states[self.durable..].contains(found)
    }
}

/// An open store and what its client knows.
struct Client {
    env: Arc<SimEnv>,
    db: Db,
    book: Arc<Mutex<Book>>,
    rng: Rng,
    snapshot: Option<(Snapshot, Vec<(Keyspace, Pairs)>)>,
    /// Handles of keyspaces that were dropped.
    dropped: Vec<Keyspace>,
    written: u64,
}

fn told(error: Error) -> String {
    error.to_string()
}

impl Client {
    fn open(env: &Arc<SimEnv>, book: &Arc<Mutex<Book>>, seed: u64) -> Outcome<Self> {
        let mut rng = Rng::new(seed);
        let shape = *rng.pick(&["vlsm", "triad", "tiered_l0"]);
        let options = tiny_options(shape, &mut rng);
        let db = Db::builder(Path::new(FOLDER)).env(env.clone()).options(options).open();
        let (env, book, db) = (env.clone(), book.clone(), db.map_err(told)?);
        Ok(Self { env, db, book, rng, snapshot: None, dropped: Vec::new(), written: 0 })
    }

    /// The contents of the store, as its readers see them.
    fn read(&self) -> Outcome<State> {
        let mut state = State::new();
        for name in self.db.keyspaces() {
            let keyspace = self.db.keyspace(&name).map_err(told)?;
            state.insert(name, pairs(keyspace.iter()).map_err(told)?.into_iter().collect());
        }
        Ok(state)
    }

    /// Makes a change by calling `make`, after the book has recorded that the change may show.
    fn change(
        &mut self,
        lasts: bool,
        change: impl FnOnce(&mut State),
        make: impl FnOnce(&Self) -> vlsm::Result<()>,
    ) -> Outcome<()> {
        {
            let mut book = self.book.lock();
            let mut next = book.last().clone();
            change(&mut next);
            book.states.push(next);
        }
        make(self).map_err(told)?;
        let mut book = self.book.lock();
        if lasts {
            book.durable = book.states.len() - 1;
        }
        Ok(())
    }

    fn any_name(&mut self) -> String {
        let names: Vec<String> = self.book.lock().last().keys().cloned().collect();
        self.rng.pick(&names).clone()
    }

    fn pair(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.written += 1;
        let len = *self.rng.pick(&[1, 40, 700]);
        let value = format!("{:0len$}", self.written);
        (format!("k{}", self.rng.below(12)).into_bytes(), value.into_bytes())
    }

    fn put(&mut self, lasts: bool) -> Outcome<()> {
        let (name, (key, value)) = (self.any_name(), self.pair());
        let durability = if lasts { Durability::Sync } else { Durability::Buffered };
        let (to, put) = (name.clone(), (key.clone(), value.clone()));
        let change = move |state: &mut State| _ = state.entry(to).or_default().insert(put.0, put.1);
        self.change(lasts, change, |client| {
            let options = WriteOptions::durability(durability);
            client.db.keyspace(&name)?.put_with(&key, &value, options)
        })
    }

    /// Clears a keyspace, perhaps while its memtable is being flushed.
    fn clear(&mut self) -> Outcome<()> {
        let (name, beside) = (self.any_name(), self.rng.one_in(2));
        let flushes = beside.then(|| {
            let db = self.db.clone();
            self.env.task("flush", move || db.flush())
        });
        let from = name.clone();
        self.change(
            true,
            move |state| state.entry(from).or_default().clear(),
            |client| client.db.keyspace(&name)?.clear(),
        )?;
        let flushed = flushes.map(|task| task.join().ok_or("the flush vanished")).transpose()?;
        flushed.unwrap_or(Ok(())).map_err(told)
    }

    fn drop_one(&mut self) -> Outcome<()> {
        let name = self.any_name();
        let keyspace = self.db.keyspace(&name).map_err(told)?;
        if name == "default" {
            return match self.db.drop_keyspace(&keyspace) {
                Err(Error::KeyspaceNeeded(_)) => Ok(()),
                other => Err(format!("the keyspace of every store was dropped: {other:?}")),
            };
        }
        let of = keyspace.clone();
        self.change(
            true,
            move |state| _ = state.remove(&name),
            |client| client.db.drop_keyspace(&of),
        )?;
        self.dropped.push(keyspace);
        Ok(())
    }

    /// Makes a keyspace. Unlike the others this change does not make earlier writes durable, so a
    /// synced write comes first.
    fn create(&mut self) -> Outcome<()> {
        let missing = |name: &&str| !self.book.lock().last().contains_key(*name);
        let Some(name) = NAMES.into_iter().find(missing) else { return Ok(()) };
        self.put(true)?;
        self.change(
            true,
            |state| _ = state.insert(name.to_owned(), Pairs::new()),
            |client| client.db.create_keyspace(name, KeyspaceOptions::new()).map(drop),
        )
    }

    /// Fills a batch, clears its keyspace, and writes the batch.
    fn write_late(&mut self) -> Outcome<()> {
        let (name, (key, value)) = (self.any_name(), self.pair());
        let (keyspace, mut batch) = (self.db.keyspace(&name).map_err(told)?, Batch::new());
        batch.put(&keyspace, &key, &value);
        let from = name.clone();
        self.change(
            true,
            move |state| state.entry(from).or_default().clear(),
            |_| keyspace.clear(),
        )?;
        self.change(
            true,
            move |state| _ = state.entry(name).or_default().insert(key, value),
            |client| client.db.write(&batch, WriteOptions::durability(Durability::Sync)),
        )
    }

    /// Renames a keyspace to a free name.
    fn rename(&mut self) -> Outcome<()> {
        let (from, to) = (self.any_name(), *self.rng.pick(&NAMES));
        if from == "default" || self.book.lock().last().contains_key(to) {
            let keyspace = self.db.keyspace(&from).map_err(told)?;
            return match keyspace.rename(to) {
                Err(Error::KeyspaceNeeded(_) | Error::NameTaken(_)) => Ok(()),
                Ok(()) if from == to => Ok(()),
                other => Err(format!("{from} became {to}: {other:?}")),
            };
        }
        // A rename does not make earlier writes durable.
        self.put(true)?;
        let keyspace = self.db.keyspace(&from).map_err(told)?;
        self.change(
            true,
            |state| {
                let pairs = state.remove(&from).unwrap_or_default();
                state.insert(to.to_owned(), pairs);
            },
            |client| {
                let (done, seen) = client.watch(to);
                let renamed = keyspace.rename(to);
                done.store(true, Ordering::Relaxed);
                seen.join();
                renamed
            },
        )
    }

    /// Watches for a keyspace's new name from another task: once it has shown, no crash may take it
    /// back, even if the call has not returned. Ends with the name, with the flag, or after a time:
    /// a task that looks for ever would hide that the others wait for ever.
    fn watch(&self, name: &'static str) -> (Arc<AtomicBool>, TaskHandle<()>) {
        let done = Arc::new(AtomicBool::new(false));
        let (env, db, book, over) =
            (self.env.clone(), self.db.clone(), self.book.clone(), done.clone());
        let task = self.env.task("watcher", move || {
            for _ in 0..LOOKS_MAX {
                if db.keyspace(name).is_ok() || over.load(Ordering::Relaxed) {
                    break;
                }
                env.sleep(Duration::from_micros(1));
            }
            if db.keyspace(name).is_ok() {
                let mut book = book.lock();
                book.durable = book.states.len() - 1;
            }
        });
        (done, task)
    }

    fn snapshot(&mut self) -> Outcome<()> {
        if self.snapshot.take().is_some() {
            return Ok(());
        }
        let state = self.book.lock().last().clone();
        let shown = state.into_iter().map(|(name, pairs)| Ok((self.db.keyspace(&name)?, pairs)));
        let shown = shown.collect::<vlsm::Result<Vec<_>>>().map_err(told)?;
        self.snapshot = Some((self.db.snapshot(), shown));
        Ok(())
    }

    fn step(&mut self) -> Outcome<()> {
        match self.rng.below(21) {
            0..8 => {
                let lasts = self.rng.one_in(3);
                self.put(lasts)
            }
            8 => self.db.flush().map_err(told),
            9 => self.db.default_keyspace().compact_range(..).map_err(told),
            10..13 => self.clear(),
            13..15 => self.drop_one(),
            15..17 => self.create(),
            17 => self.write_late(),
            18 => self.rename(),
            _ => self.snapshot(),
        }
    }

    fn check(&self) -> Outcome<()> {
        let (found, expected) = (self.read()?, self.book.lock().last().clone());
        if found != expected {
            return Err(format!("the store shows {found:?} instead of {expected:?}"));
        }
        if let Some((snapshot, shown)) = &self.snapshot {
            for (keyspace, expected) in shown {
                let found = pairs(snapshot.iter(keyspace)).map_err(told)?;
                if !found.iter().map(|(key, value)| (key, value)).eq(expected) {
                    let name = keyspace.name();
                    return Err(format!("a snapshot shows {found:?} in {name}, not {expected:?}"));
                }
            }
        }
        for keyspace in &self.dropped {
            let refused = [keyspace.get("k1").err(), keyspace.put("k1", "").err()];
            if !refused.iter().all(|told| matches!(told, Some(Error::KeyspaceDropped(_)))) {
                return Err(format!("a dropped keyspace answers {refused:?}"));
            }
        }
        Ok(())
    }

    /// A whole life.
    fn live(mut self) -> Outcome<()> {
        for _ in 0..CHANGES {
            self.step()?;
            self.check()?;
        }
        self.end()
    }

    fn end(self) -> Outcome<()> {
        let Self { db, snapshot, dropped, .. } = self;
        drop((snapshot, dropped));
        db.close().map_err(told)
    }
}

/// Opens the store after a crash, checks it, changes it, and opens it once more.
fn recover(env: &Arc<SimEnv>, book: Book, seed: u64) -> Outcome<()> {
    let book = Arc::new(Mutex::new(book));
    let mut client = Client::open(env, &book, seed)?;
    let found = client.read()?;
    if !book.lock().allows(&found) {
        let Book { states, durable } = &*book.lock();
        return Err(format!(
            "after the crash: {found:?}, but allowed is {:?}",
            &states[*durable..]
        ));
    }
    *book.lock() = Book { states: vec![found], durable: 0 };
    client.put(false)?;
    client.clear()?;
    client.put(true)?;
    client.check()?;
    client.end()?;
    let client = Client::open(env, &book, seed)?;
    client.check()?;
    client.end()
}

/// One life without a crash. Returns the number of its crash points.
///
/// # Errors
/// The first wrong answer.
pub fn live(seed: u64) -> Outcome<u64> {
    let disk = Disk::new();
    let outcome = SimEnv::run(&SimConfig::new(seed), &disk, move |env| {
        Client::open(&env, &Arc::new(Mutex::new(Book::new())), seed)?.live()
    });
    match outcome.end {
        End::Done(Ok(())) => {
            leaks(&disk).map_err(|why| format!("keyspaces, seed {seed}: {why}"))?;
            Ok(outcome.device.mutating * 2)
        }
        End::Done(Err(why)) | End::Failed(why) => {
            Err(format!("keyspaces, seed {seed}: {why}\n{}", outcome.tail))
        }
        End::Crashed => Err(format!("keyspaces, seed {seed}: crashed unasked")),
    }
}

/// A life, and a crash at every `stride`-th point of it. Returns the number of crashes.
///
/// # Errors
/// The first wrong answer, with the point and the damage.
pub fn crash_every(seed: u64, stride: u64) -> Outcome<u64> {
    let points = live(seed)?;
    let mut crashes = 0;
    for point in (seed % stride.max(1)..points).step_by(stride.max(1) as usize) {
        let (disk, book) = (Disk::new(), Arc::new(Mutex::new(Book::new())));
        let mut config = SimConfig::new(seed);
        config.device.crash_point = Some(point);
        let lived = book.clone();
        let outcome =
            SimEnv::run(&config, &disk, move |env| Client::open(&env, &lived, seed)?.live());
        if !matches!(outcome.end, End::Crashed) {
            return Err(format!("seed {seed}, point {point}: did not crash: {:?}", outcome.end));
        }
        for damage in [Damage::LoseAll, Damage::KeepAll, Damage::Random(point)] {
            let what = format!("keyspaces, seed {seed}, crash point {point}, {damage:?}");
            let (disk, book) = (disk.fork(), book.lock().clone());
            disk.lose_power(damage);
            verify(&disk).map_err(|why| format!("{what}: {why}"))?;
            let after = SimConfig::new(seed + 1).day(1);
            let outcome = SimEnv::run(&after, &disk, move |env| recover(&env, book, seed));
            match outcome.end {
                End::Done(Ok(())) => {
                    leaks(&disk).map_err(|why| format!("{what}: {why}"))?;
                    crashes += 1;
                }
                End::Done(Err(why)) | End::Failed(why) => {
                    return Err(format!("{what}: {why}\n{}", outcome.tail));
                }
                End::Crashed => return Err(format!("{what}: crashed unasked")),
            }
        }
    }
    Ok(crashes)
}
