//! A client that clears a keyspace of its own again and again, beside the other clients.
//!
//! It alone writes to that keyspace, one put at a time. So its book has every state in which the
//! keyspace may be, and says which of them a loss may leave: nothing older than what was promised,
//! and a clear promises everything before it, in all keyspaces.
//!
//! 1. Reads show the state after the last acknowledged change, or after one that failed.
//! 2. A snapshot shows the state of its moment, whatever is cleared later.
//! 3. A reopened store shows one of the states that the loss allows.
//!
//! After a failed change it writes no more in this life. A change that a full device refused left
//! nothing behind.

use crate::env::SimEnv;
use crate::history::{Loss, Promise};
use crate::life::{Limits, Shared, wrong};
use crate::rng::Rng;
use crate::world::{World, durability, pairs};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vlsm::{Keyspace, KeyspaceOptions, Snapshot, WriteOptions};
use vlsm_core::{Error, Result};
use vlsm_disk::Env;

/// Its keyspace.
const NAME: &str = "erased";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The states of the keyspace since it was last opened.
#[derive(Clone)]
pub(crate) struct Book {
    states: Vec<Pairs>,
    acknowledged: usize,
    /// The first states that the death of the process and a loss of power may leave.
    kept_by_process: usize,
    kept_by_power: usize,
    lost: Loss,
}

impl Default for Book {
    fn default() -> Self {
        Self::beginning_with(Pairs::new())
    }
}

impl Book {
    fn beginning_with(state: Pairs) -> Self {
        let (acknowledged, kept_by_process, kept_by_power) = (0, 0, 0);
        let (states, lost) = (vec![state], Loss::Nothing);
        Self { states, acknowledged, kept_by_process, kept_by_power, lost }
    }

    fn last(&self) -> &Pairs {
        self.states.last().expect("the first one stays")
    }

    fn acknowledge(&mut self, promise: Promise) {
        self.acknowledged = self.states.len() - 1;
        if promise >= Promise::Process {
            self.kept_by_process = self.acknowledged;
        }
        if promise >= Promise::Power {
            self.kept_by_power = self.acknowledged;
        }
    }

    /// Records how a life of the store ended.
    pub fn lose(&mut self, loss: Loss) {
        self.lost = self.lost.max(loss);
    }

    fn check(&self, found: &Pairs, from: usize) -> std::result::Result<(), String> {
        let right = &self.states[from..];
        if right.contains(found) {
            return Ok(());
        }
        Err(format!("keyspace {NAME:?}: shows {found:?}, right are {right:?}"))
    }

    /// Checks the contents of a reopened store, and takes them as the new state.
    fn reopened(&mut self, found: Pairs) -> std::result::Result<(), String> {
        let from = match self.lost {
            Loss::Nothing => self.acknowledged,
            Loss::Process => self.kept_by_process,
            Loss::Power => self.kept_by_power,
        };
        self.check(&found, from).map_err(|why| format!("after {:?}: {why}", self.lost))?;
        *self = Self::beginning_with(found);
        Ok(())
    }
}

/// Checks the keyspace of a store that was opened just now.
///
/// # Errors
/// The engine's errors; [`Error::Internal`] with a wrong answer.
pub(crate) fn check_reopened(shared: &Shared, world: &World) -> Result<()> {
    let found = match world.db().keyspace(NAME) {
        Ok(keyspace) => read(&keyspace)?,
        Err(Error::NoSuchKeyspace(_)) => Pairs::new(),
        Err(error) => return Err(error),
    };
    shared.erased.lock().reopened(found).map_err(wrong)
}

fn read(keyspace: &Keyspace) -> Result<Pairs> {
    Ok(pairs(keyspace.iter())?.into_iter().collect())
}

/// The client.
pub(crate) struct Eraser {
    world: World,
    env: Arc<SimEnv>,
    shared: Arc<Shared>,
    rng: Rng,
    limits: Limits,
    /// Whether a change failed.
    refused: bool,
    held: Vec<(Snapshot, Pairs)>,
}

impl Eraser {
    pub fn new(
        world: &World,
        env: &Arc<SimEnv>,
        shared: &Arc<Shared>,
        rng: Rng,
        limits: Limits,
    ) -> Self {
        let (world, env, shared) = (world.clone(), env.clone(), shared.clone());
        let (refused, held) = (false, Vec::new());
        Self { world, env, shared, rng, limits, refused, held }
    }

    /// Runs all operations of one life.
    pub fn run(&mut self) -> std::result::Result<(), String> {
        let made = self.world.db().create_keyspace(NAME, KeyspaceOptions::splits(["k3", "k6"]));
        let keyspace = match made {
            Err(error) if self.limits.tolerate(&error, false) => return Ok(()),
            made => made.map_err(|error| format!("eraser: {error}"))?,
        };
        for _ in 0..self.limits.ops {
            let (reading, result) = match self.rng.below(20) {
                0..10 if !self.refused => (false, self.put(&keyspace)),
                10 | 11 if !self.refused => (false, self.clear(&keyspace)),
                12 | 13 if !self.refused => (true, self.hold()),
                14 => (true, self.look_back(&keyspace)),
                15 | 16 => {
                    self.env.sleep(Duration::from_micros(self.rng.below(3_000)));
                    (true, Ok(()))
                }
                _ => (true, self.read(&keyspace)),
            };
            match result {
                Err(error) if self.limits.tolerate(&error, reading) => self.note("eraser refused"),
                result => result.map_err(|error| format!("eraser: {error}"))?,
            }
        }
        Ok(())
    }

    fn note(&self, what: &str) {
        self.shared.tally.lock().note(what);
    }

    /// Makes a change, which the book knows before it may show.
    fn change(
        &mut self,
        promise: Promise,
        next: Pairs,
        make: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.shared.erased.lock().states.push(next);
        let made = make();
        let mut book = self.shared.erased.lock();
        match &made {
            Ok(()) => book.acknowledge(promise),
            Err(Error::NoSpace { .. }) => drop(book.states.pop()),
            Err(_) => self.refused = true,
        }
        made
    }

    fn put(&mut self, keyspace: &Keyspace) -> Result<()> {
        let key = format!("k{}", self.rng.below(9)).into_bytes();
        let padding = *self.rng.pick(&[0, 40, 900]);
        let value = format!("{}:{}", self.env.random(), "e".repeat(padding)).into_bytes();
        let promise = match *self.rng.pick(&[Promise::Lazy, Promise::Process, Promise::Power]) {
            Promise::Power if !self.limits.syncs => Promise::Process,
            promise => promise,
        };
        let mut next = self.shared.erased.lock().last().clone();
        next.insert(key.clone(), value.clone());
        self.change(promise, next, || {
            keyspace.put_with(key, value, WriteOptions::durability(durability(promise)))
        })
    }

    /// Clears the keyspace. All earlier acknowledged writes are then durable, in all keyspaces.
    fn clear(&mut self, keyspace: &Keyspace) -> Result<()> {
        let acknowledged = self.shared.ledger.lock().acknowledged();
        self.change(Promise::Power, Pairs::new(), || keyspace.clear())?;
        // Book 0 is that of the WAL.
        self.shared.ledger.lock().history(0).keep(&acknowledged[0]);
        self.note("clear");
        Ok(())
    }

    fn read(&self, keyspace: &Keyspace) -> Result<()> {
        let found = read(keyspace)?;
        let book = self.shared.erased.lock();
        book.check(&found, book.acknowledged).map_err(wrong)
    }

    /// Takes a snapshot.
    fn hold(&mut self) -> Result<()> {
        if self.held.len() < 4 {
            let state = self.shared.erased.lock().last().clone();
            self.held.push((self.world.db().snapshot(), state));
        }
        Ok(())
    }

    /// Checks that a snapshot shows what it showed.
    fn look_back(&mut self, keyspace: &Keyspace) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let (snapshot, state) = self.held.swap_remove(self.rng.index(self.held.len()));
        let found: Pairs = pairs(snapshot.iter(keyspace))?.into_iter().collect();
        if found == state {
            return Ok(());
        }
        Err(wrong(format!("a snapshot of {NAME:?} shows {found:?}, not {state:?}")))
    }
}
