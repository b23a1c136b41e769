//! Scripts: short stories of a store in readable text, kept in `scripts/*.txt`.
//!
//! Each line is a command; `#` begins a remark. Every answer is compared with the oracle, so a
//! script names an answer only where that is the point.
//!
//! | command | meaning |
//! |---|---|
//! | `options SHAPE N` | first line: tiny options of this shape, drawn with number N |
//! | `write PROMISE W…` | a batch of the words below |
//! | `key=value`, `-key`, `-from..to` | a put, a delete, a delete of `from` and all before `to` |
//! | `key+value`, `key~value` | a merge (it appends; keyspace 1), a put that expires (the others) |
//! | `1:key=value` | the same in keyspace 1 |
//! | `fill PROMISE SPACE A..B LEN` | a batch for each key `kA` … up to `kB`, values of LEN bytes |
//! | `whole PROMISE SPACE A..B LEN` | one batch of those keys |
//! | `erase PROMISE SPACE A..B` | deletes those keys, a batch each |
//! | `get SPACE:KEY [VALUE]` | reads a key; `VALUE` may be `none` |
//! | `scan SPACE A..B` | reads the keys `kA` … before `kB`, forwards and backwards |
//! | `look` | reads everything, forwards and backwards |
//! | `snapshot NAME`, `look NAME`, `release NAME` | takes one, reads all of it, drops it |
//! | `flush`, `idle`, `sleep MICROS` | waits for flushes, for compactions, for time |
//! | `compact SPACE A..B` | compacts the keys `kA` … before `kB` |
//! | `ingest SPACE A..B LEN` | ingests keys as files; `beside …`: while a client writes them |
//! | `clear SPACE` | clears a keyspace; not together with `beside`, whose client is another one |
//! | `checkpoint NAME` | makes a checkpoint, and reads all of it |
//! | `expire` | lets time pass until values with an expiry have expired |
//! | `reached WHAT N` | at least N flushes, compactions … so far: what the script was written for |
//! | `close`, `kill` | ends this life of the store in order, or with its process |
//! | `crash lose`, `crash keep`, `crash N` | the power fails; N draws what the disk keeps |
//!
//! PROMISE is `lazy`, `process` or `power`. The store is opened when a command needs it. A day lies
//! between two lives.

mod ingest;
mod parse;
mod reached;

use crate::disk::{Damage, Disk};
use crate::env::{End, Outcome, SimConfig, SimEnv};
use crate::history::{History, Loss, Promise};
use crate::leaks::leaks;
use crate::oracle::{Contents, TTL, Write};
use crate::rng::Rng;
use crate::world::{SPACES, View, World, pairs, tiny_options, verify};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash as _, Hasher};
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Duration;
use vlsm::Options;
use vlsm_core::Error;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Writes these batches, one after the other.
    Write(Promise, Vec<Vec<Write>>),
    /// Reads a key. The expected value may be given; it may be that there is none.
    Get(usize, Vec<u8>, Option<Option<Vec<u8>>>),
    /// Reads a range in both directions.
    Scan(usize, Range<Vec<u8>>),
    /// Reads everything, or all of a snapshot.
    Look(Option<String>),
    /// Takes a snapshot.
    Snapshot(String),
    /// Drops a snapshot.
    Release(String),
    /// Flushes.
    Flush,
    /// Waits until no flush or compaction is left.
    Idle,
    /// Lets time pass.
    Sleep(Duration),
    /// Compacts a range.
    Compact(usize, Range<Vec<u8>>),
    /// Clears a keyspace.
    Clear(usize),
    /// Ingests keys as files.
    Ingest(ingest::Brought),
    /// Makes a checkpoint of this name and reads it.
    Checkpoint(String),
    /// Lets time pass until values with an expiry have expired.
    Expire,
    /// Checks that the store has reached at least this number, in this life.
    Reached(reached::Milestone, u64),
    /// Closes in order.
    Close,
    /// Ends the process.
    Kill,
    /// Cuts the power. The disk keeps this.
    Crash(Damage),
    /// The end of the script: reads everything and closes the store.
    End,
}

impl Command {
    fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::Get(..) | Self::Scan(..) | Self::Look(_) | Self::Snapshot(_) | Self::Reached(..)
        )
    }
}

/// A script.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// The store's options.
    pub options: Options,
    /// Line numbers and commands.
    pub commands: Vec<(usize, Command)>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The wrong line and the reason.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut options = None;
        let mut commands = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<_> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let told = |why: String| format!("{name}, line {number}: {why}");
            match words.as_slice() {
                [] => {}
                ["options", shape, seed] => {
                    let seed = seed.parse().map_err(|_| told("not a number".into()))?;
                    options = Some(tiny_options(shape, &mut Rng::new(seed)));
                }
                words => commands.push((number, parse::command(words).map_err(told)?)),
            }
        }
        let options = options.ok_or(format!("{name}: no line `options SHAPE N`"))?;
        Ok(Self { name: name.to_owned(), options, commands })
    }
}

/// The reason why a command failed.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// The store returned an error.
    Store(Error),
    /// The store gave a wrong answer.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            // The two directions of an iterator differ, or an invariant of the engine is broken.
            Error::Internal(why) => Self::Wrong(why),
            error => Self::Store(error),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the store said: {error}"),
            Self::Wrong(why) => write!(f, "WRONG ANSWER: {why}"),
        }
    }
}

type Outcomes<T> = Result<T, Trouble>;

/// The state of a script that is played. It outlives the machines.
pub struct Player {
    script: Script,
    /// Whether calls fail: the store may then refuse, but no answer may be wrong.
    faulty: bool,
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    /// The next command.
    at: usize,
    history: History,
    contents: Contents,
    /// The contents with the last batch, if its write failed: it may or may not show.
    perhaps: Option<Contents>,
    told: Told,
}

/// The answers of a store on a faulty disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Commands that succeeded.
    pub done: u64,
    /// Commands that were refused.
    pub refused: u64,
    /// Refused commands that only read.
    pub reads_refused: u64,
}

impl Player {
    /// A player at the beginning of the script.
    #[must_use]
    pub fn new(script: &Script) -> Arc<Self> {
        let state = State {
            at: 0,
            history: History::new(2, SPACES.len()),
            contents: Contents::new(SPACES.len()),
            perhaps: None,
            told: Told::default(),
        };
        Arc::new(Self { script: script.clone(), faulty: false, state: Mutex::new(state) })
    }

    /// A player at the beginning of the script, on a disk whose calls fail: the store may refuse.
    #[must_use]
    pub fn on_a_faulty_disk(script: &Script) -> Arc<Self> {
        let player = Arc::into_inner(Self::new(script)).expect("nobody else has it yet");
        Arc::new(Self { faulty: true, ..player })
    }

    /// The store's answers so far.
    #[must_use]
    pub fn told(&self) -> Told {
        self.state.lock().told
    }

    /// Feeds a hasher with the writes and the acknowledgements so far: all that [`Self::recover`]
    /// compares a store with.
    pub fn hash_history(&self, hasher: &mut impl Hasher) {
        self.state.lock().history.hash(hasher);
    }

    /// A copy of this player, for another continuation.
    #[must_use]
    pub fn fork(&self) -> Arc<Self> {
        let state = Mutex::new(self.state.lock().clone());
        Arc::new(Self { script: self.script.clone(), faulty: self.faulty, state })
    }

    /// Plays to the end of the script, through all lives of the store. After an orderly close there
    /// may be no file that nobody needs.
    ///
    /// # Errors
    /// The first wrong answer, with its line.
    pub fn play(self: &Arc<Self>, disk: &Disk, seed: u64) -> Result<(), String> {
        for life in 0.. {
            let outcome = self.life(disk, &SimConfig::new(seed.wrapping_add(life)).day(life));
            match outcome.end {
                End::Done(Ok(ended)) => {
                    leaks(disk)?;
                    verify(disk)?;
                    if ended {
                        return Ok(());
                    }
                }
                End::Done(Err(why)) | End::Failed(why) => {
                    return Err(format!("{why}\n{}", outcome.tail));
                }
                End::Crashed => {
                    self.crashed(disk);
                    verify(disk)?;
                }
            }
        }
        Ok(())
    }

    /// Plays until this life of the store ends. True at the end of the script.
    pub fn life(
        self: &Arc<Self>,
        disk: &Disk,
        config: &SimConfig,
    ) -> Outcome<Result<bool, String>> {
        let player = self.clone();
        SimEnv::run(config, disk, move |env| player.commands(&env))
    }

    /// Applies the loss of the command that ended the life to the disk.
    fn crashed(&self, disk: &Disk) {
        let at = self.state.lock().at;
        match self.script.commands.get(at.wrapping_sub(1)) {
            Some((_, Command::Kill)) => self.lost(Loss::Process, || disk.lose_process()),
            Some((_, Command::Crash(damage))) => {
                self.lost(Loss::Power, || disk.lose_power(*damage));
            }
            _ => self.lost(Loss::Power, || disk.lose_power(Damage::LoseAll)),
        }
    }

    /// Records how the life ended, and applies that to the disk.
    pub fn lost(&self, loss: Loss, act: impl FnOnce()) {
        self.state.lock().history.lose(loss);
        act();
    }

    fn commands(self: &Arc<Self>, env: &Arc<SimEnv>) -> Result<bool, String> {
        let mut store = match self.open(env) {
            Err(Trouble::Store(_)) if self.faulty => return Ok(true),
            opened => opened.map_err(|trouble| trouble.to_string())?,
        };
        loop {
            let next = {
                let mut state = self.state.lock();
                state.at += 1;
                self.script.commands.get(state.at - 1)
            };
            let (line, command) = next.unwrap_or(&(0, Command::End));
            let told = |trouble| format!("{}, line {line}: {trouble}", self.script.name);
            match command {
                Command::Close | Command::End => {
                    let looked = self.look(&store.world);
                    self.judge(true, looked).map_err(told)?;
                    let closed = store.close().map_err(Trouble::from);
                    self.judge(false, closed).map_err(told)?;
                    return Ok(*command == Command::End);
                }
                Command::Kill | Command::Crash(_) => env.device().crash(),
                other => {
                    let done = self.command(other, env, &mut store);
                    self.judge(other.only_reads(), done).map_err(told)?;
                }
            }
        }
    }

    /// Accepts refusals on a faulty disk, but never a wrong answer.
    fn judge(&self, only_reads: bool, done: Outcomes<()>) -> Outcomes<()> {
        let told = &mut self.state.lock().told;
        match done {
            Err(Trouble::Store(_)) if self.faulty => {
                told.refused += 1;
                told.reads_refused += u64::from(only_reads);
                Ok(())
            }
            done => {
                told.done += 1;
                done
            }
        }
    }

    /// Opens the store and checks its contents.
    fn open(&self, env: &Arc<SimEnv>) -> Outcomes<Store> {
        let world = World::open(env, &self.script.options)?;
        let view = world.contents()?;
        let mut state = self.state.lock();
        state.history.reopened(&view).map_err(Trouble::Wrong)?;
        state.contents = view;
        state.perhaps = None;
        drop(state);
        Ok(Store { world, snapshots: BTreeMap::new() })
    }

    /// Opens the store after a crash, checks it, writes, closes it, and opens it again.
    ///
    /// # Errors
    /// The first wrong answer.
    pub fn recover(&self, env: &Arc<SimEnv>) -> Result<(), String> {
        self.open_write_reopen(env).map_err(|trouble| trouble.to_string())
    }

    fn open_write_reopen(&self, env: &Arc<SimEnv>) -> Outcomes<()> {
        let store = self.open(env)?;
        for promise in [Promise::Process, Promise::Power] {
            self.write(&store.world, &[Write::put(1, "after", "the crash")], promise)?;
        }
        self.look(&store.world)?;
        store.close()?;
        let store = self.open(env)?;
        Ok(store.close()?)
    }

    /// Whether an answer is right for the contents with or without the failed batch.
    fn right<T: PartialEq>(&self, found: &T, expected: impl Fn(&Contents) -> T) -> bool {
        let state = self.state.lock();
        let mut possible = [Some(&state.contents), state.perhaps.as_ref()].into_iter().flatten();
        possible.any(|contents| expected(contents) == *found)
    }

    fn look(&self, world: &World) -> Outcomes<()> {
        let found = world.contents()?;
        if self.right(&found, Contents::clone) {
            return Ok(());
        }
        same(&self.state.lock().contents, &found)
    }

    fn write(&self, world: &World, writes: &[Write], promise: Promise) -> Outcomes<()> {
        let issue = |history: &mut History| history.issue(0, writes.to_vec());
        self.change(promise, writes, issue, |writes| world.write(writes, promise))
    }

    fn clear(&self, world: &World, space: usize) -> Outcomes<()> {
        let issue = |history: &mut History| vec![history.issue_clear(0, space)];
        self.change(Promise::Power, &[], issue, |_| world.clear(space))
    }

    /// Makes a change of the contents: the requested writes, and those that the history adds.
    fn change(
        &self,
        promise: Promise,
        asked: &[Write],
        issue: impl FnOnce(&mut History) -> Vec<Write>,
        make: impl FnOnce(&[Write]) -> Result<(), Error>,
    ) -> Outcomes<()> {
        if self.state.lock().perhaps.is_some() {
            return match make(asked) {
                Ok(()) => Err(Trouble::Wrong("a batch was taken after one that failed".into())),
                Err(error) => Err(error.into()),
            };
        }
        let writes = issue(&mut self.state.lock().history);
        let result = make(&writes);
        let mut state = self.state.lock();
        match &result {
            Ok(()) => {
                state.history.acknowledge(0, promise);
                writes.iter().for_each(|write| state.contents.apply(write));
            }
            // A refused change left nothing behind.
            Err(Error::NoSpace { .. }) => state.history.refuse(0),
            Err(_) => {
                let mut contents = state.contents.clone();
                writes.iter().for_each(|write| contents.apply(write));
                state.perhaps = Some(contents);
            }
        }
        Ok(result?)
    }

    fn command(
        self: &Arc<Self>,
        command: &Command,
        env: &Arc<SimEnv>,
        store: &mut Store,
    ) -> Outcomes<()> {
        let world = &store.world;
        let unknown = || Trouble::Wrong("the script has no such snapshot".into());
        match command {
            Command::Write(promise, batches) => {
                batches.iter().try_for_each(|batch| self.write(world, batch, *promise))
            }
            Command::Get(space, key, expected) => self.get(world, *space, key, expected.as_ref()),
            Command::Scan(space, range) => self.scan(world, *space, range),
            Command::Look(None) => self.look(world),
            Command::Look(Some(name)) => {
                let (view, expected, perhaps) = store.snapshots.get(name).ok_or_else(unknown)?;
                let found = view.contents()?;
                if perhaps.as_ref() == Some(&found) { Ok(()) } else { same(expected, &found) }
            }
            Command::Snapshot(name) => {
                let expected = self.state.lock().contents.clone();
                let perhaps = self.state.lock().perhaps.clone();
                store.snapshots.insert(name.clone(), (world.snapshot(), expected, perhaps));
                Ok(())
            }
            Command::Release(name) => store.snapshots.remove(name).map(drop).ok_or_else(unknown),
            Command::Flush => Ok(world.flush()?),
            Command::Idle => Ok(world.wait_idle()?),
            Command::Compact(space, range) => {
                let bounds =
                    (Bound::Included(range.start.clone()), Bound::Excluded(range.end.clone()));
                Ok(world.compact(*space, &bounds)?)
            }
            Command::Clear(space) => self.clear(world, *space),
            Command::Ingest(what) => self.ingest(env, world, what),
            Command::Checkpoint(name) => {
                let found = world.checkpoint(env, name)?;
                same(&self.state.lock().contents, &found)
            }
            Command::Sleep(span) => {
                env.sleep(*span);
                Ok(())
            }
            Command::Expire => {
                env.sleep(TTL);
                self.state.lock().contents.expire();
                Ok(())
            }
            Command::Reached(what, least) => self.reached(env, world, *what, *least),
            Command::Close | Command::Kill | Command::Crash(_) | Command::End => Ok(()),
        }
    }

    fn get(
        &self,
        world: &World,
        space: usize,
        key: &[u8],
        expected: Option<&Option<Vec<u8>>>,
    ) -> Outcomes<()> {
        let found = world.get(space, key)?;
        if !self.right(&found, |contents| contents.get(space, key).map(<[u8]>::to_vec)) {
            let oracle = self.state.lock().contents.get(space, key).map(<[u8]>::to_vec);
            return Err(Trouble::Wrong(format!("expected {oracle:?}, found {found:?}")));
        }
        match expected {
            Some(expected) if !self.faulty && *expected != found => {
                Err(Trouble::Wrong(format!("the script says {expected:?}, found {found:?}")))
            }
            _ => Ok(()),
        }
    }

    fn scan(&self, world: &World, space: usize, range: &Range<Vec<u8>>) -> Outcomes<()> {
        let bounds = (Bound::Included(range.start.clone()), Bound::Excluded(range.end.clone()));
        let forwards = pairs(world.iter(space, &bounds))?;
        let mut backwards = pairs(world.iter(space, &bounds).rev())?;
        backwards.reverse();
        let right = |found| self.right(found, |contents| contents.range(space, &bounds));
        let right = right(&forwards) && right(&backwards);
        right.then_some(()).ok_or_else(|| Trouble::Wrong("the scan differs".into()))
    }
}

fn same(expected: &Contents, found: &Contents) -> Outcomes<()> {
    expected.difference(found).map_or(Ok(()), |why| Err(Trouble::Wrong(why)))
}

/// An open store and the snapshots taken of it.
struct Store {
    world: World,
    /// Each with its contents, and with the other possible contents after a failed batch.
    snapshots: BTreeMap<String, (View, Contents, Option<Contents>)>,
}

impl Store {
    fn close(self) -> Result<(), Error> {
        drop(self.snapshots);
        self.world.close()
    }
}
