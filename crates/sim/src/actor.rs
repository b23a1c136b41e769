//! One of several concurrent clients of a store: random batches and reads. It checks every answer
//! as far as one client can.
//!
//! Its own keys hold exactly what it wrote last. A shared key holds the value of a write that is
//! not overwritten. A snapshot shows one moment, at once and later. If file calls fail, the store
//! may refuse. A batch that failed is indeterminate, and the client writes no more in this life of
//! the store, because a later batch must not follow one that may be missing. A batch that a full
//! device refused left nothing behind, and the client continues.

use crate::env::SimEnv;
use crate::history::{History, Promise, shared_value};
use crate::ledger::Cuts;
use crate::life::{Limits, Shared, wrong};
use crate::oracle::{ALL, Contents, Op, Write};
use crate::rng::Rng;
use crate::world::{MERGES, SPACES, View, World, durability, pairs};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use vlsm::{Durability, IngestOptions, WriteOptions};
use vlsm_core::{Error, Result};
use vlsm_disk::Env;

/// One client.
pub(crate) struct Actor {
    client: usize,
    world: World,
    env: Arc<SimEnv>,
    shared: Arc<Shared>,
    rng: Rng,
    limits: Limits,
    /// Whether a batch was refused.
    refused: bool,
    /// The snapshots, with the cuts that they must and may show.
    held: Vec<(View, Cuts, Cuts)>,
}

impl Actor {
    pub fn new(
        client: usize,
        world: &World,
        env: &Arc<SimEnv>,
        shared: &Arc<Shared>,
        rng: Rng,
        limits: Limits,
    ) -> Self {
        let (world, env, shared) = (world.clone(), env.clone(), shared.clone());
        Self { client, world, env, shared, rng, limits, refused: false, held: Vec::new() }
    }

    /// Runs all operations of one life.
    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.limits.ops {
            let (reading, result) = match self.rng.below(100) {
                0..60 if !self.refused => (false, self.write()),
                0..75 => (true, self.read_own()),
                75..85 => (true, self.read_shared()),
                85..88 => (true, self.take_snapshot()),
                88..90 => (true, self.read_regions()),
                90..94 => (true, self.check_snapshot()),
                94 => (false, self.flush()),
                95 => (false, self.world.wait_idle()),
                96 | 97 if !self.refused => (false, self.ingest()),
                _ => {
                    self.env.sleep(Duration::from_micros(self.rng.below(5_000)));
                    (true, Ok(()))
                }
            };
            self.judge(reading, result)?;
        }
        while !self.held.is_empty() {
            let result = self.check_snapshot();
            self.judge(true, result)?;
        }
        Ok(())
    }

    fn judge(&self, reading: bool, result: Result<()>) -> Result<(), String> {
        match result {
            Err(error) if self.limits.tolerate(&error, reading) => {
                self.shared.tally.lock().refused += 1;
                Ok(())
            }
            result => result.map_err(|error| format!("client {}: {error}", self.client)),
        }
    }

    fn own_key(&mut self) -> Vec<u8> {
        format!("c{:02}/k{:02}", self.client, self.rng.below(30)).into_bytes()
    }

    /// A shared key. One in four lies after all existing keys; other clients are about to write it,
    /// too.
    fn shared_key(&mut self) -> Vec<u8> {
        let batches = self.shared.tally.lock().batches;
        match self.rng.below(4) {
            0 => format!("shared/x{:05}", batches / 4).into_bytes(),
            _ => format!("shared/{}", self.rng.below(6)).into_bytes(),
        }
    }

    /// The book of the next operation, mostly that of the WAL.
    fn some_book(&mut self) -> usize {
        let books = self.shared.ledger.lock().books();
        if self.rng.one_in(8) { self.rng.index(books) } else { 0 }
    }

    fn padding(&mut self) -> usize {
        match self.rng.below(400) {
            // Above the size at which batches go into the WAL as fragments.
            0 => 200_000 + self.rng.index(400_000),
            1..20 => self.rng.index(6_000),
            20..200 => self.rng.index(600),
            _ => self.rng.index(40),
        }
    }

    /// The writes of the client's next batch.
    fn writes(&mut self, spaces: usize, number: u64, logged: bool) -> Vec<Write> {
        let mut writes = Vec::new();
        for _ in 0..self.rng.between(1, 6) {
            let space = self.rng.index(spaces);
            let shared = logged && self.rng.one_in(4);
            let key = if shared { self.shared_key() } else { self.own_key() };
            let padding = self.padding();
            let op = match shared {
                _ if self.rng.one_in(4) => Op::Delete,
                true => Op::Put(shared_value(self.client, number, padding)),
                false => {
                    let value = format!("{number}{}", "v".repeat(padding)).into_bytes();
                    self.own_op(value, logged && space == MERGES)
                }
            };
            writes.push(Write { space, key, op });
        }
        writes
    }

    /// The operation of a write of an own key.
    fn own_op(&mut self, value: Vec<u8>, merges: bool) -> Op {
        match self.rng.below(10) {
            0 => Op::DeleteRange(self.own_key()),
            1..4 if merges => Op::Merge(value),
            1..3 => Op::Expiring(value),
            _ => Op::Put(value),
        }
    }

    fn write(&mut self) -> Result<()> {
        let book = self.some_book();
        let (number, spaces, logged) = {
            let ledger = self.shared.ledger.lock();
            let book = ledger.book(book);
            let spaces = if book.logged { self.world.space_count() } else { book.spaces.len() };
            (book.history.next_number(self.client), spaces, book.logged)
        };
        let writes = self.writes(spaces, number, logged);
        let promise =
            *self.rng.pick(&[Promise::Lazy, Promise::Process, Promise::Process, Promise::Power]);
        let promise = match promise {
            Promise::Power if !self.limits.syncs => Promise::Process,
            promise => promise,
        };
        let (promise, durability) = match logged {
            true => (promise, durability(promise)),
            false => (Promise::Lazy, Durability::NoWal),
        };
        let mut options = WriteOptions::durability(durability);
        if self.rng.one_in(20) {
            options = options.deadline(Duration::from_micros(self.rng.below(500)));
        }
        let writes = self.shared.ledger.lock().issue(book, self.client, writes);
        let begun = self.env.now();
        let result = self.world.write_with(&writes, options);
        let mut tally = self.shared.tally.lock();
        tally.longest_wait = tally.longest_wait.max(self.env.now() - begun);
        let mut ledger = self.shared.ledger.lock();
        match result {
            Ok(()) => {
                tally.batches += 1;
                tally.unlogged += u64::from(!logged);
                if writes.iter().any(|write| write.space >= SPACES.len()) {
                    tally.note("batch over a new keyspace");
                }
                ledger.history(book).acknowledge(self.client, promise);
                Ok(())
            }
            Err(Error::Busy { .. }) if options.deadline.is_some() => {
                tally.busy += 1;
                ledger.history(book).refuse(self.client);
                Ok(())
            }
            Err(error) => {
                match error {
                    // The refused batch left nothing behind.
                    Error::NoSpace { .. } => ledger.history(book).refuse(self.client),
                    _ => self.refused = true,
                }
                Err(error)
            }
        }
    }

    /// Ingests a batch on one keyspace as files.
    fn ingest(&mut self) -> Result<()> {
        let space = self.rng.index(2);
        let number = self.shared.ledger.lock().book(0).history.next_number(self.client);
        let mut writes = Vec::new();
        for _ in 0..self.rng.between(1, 20) {
            let shared = self.rng.one_in(4);
            let key = if shared { self.shared_key() } else { self.own_key() };
            let padding = self.rng.index(600);
            let op = match shared {
                _ if self.rng.one_in(4) => Op::Delete,
                true => Op::Put(shared_value(self.client, number, padding)),
                false => Op::Put(format!("{number}{}", "i".repeat(padding)).into_bytes()),
            };
            writes.push(Write { space, key, op });
        }
        let options = match self.rng.one_in(2) {
            true => IngestOptions::moving(),
            false => IngestOptions::default(),
        };
        let count = *self.rng.pick(&[1, 1, 2, 10]);
        let issue = |history: &mut History| history.issue_in(space..space + 1, self.client, writes);
        let writes = issue(self.shared.ledger.lock().history(0));
        let result = self.world.ingest(&self.env, &writes, count, options);
        let mut ledger = self.shared.ledger.lock();
        let history = ledger.history(0);
        match &result {
            Ok(()) => {
                history.acknowledge(self.client, Promise::Power);
                self.shared.tally.lock().ingests += 1;
            }
            // The refused batch left nothing behind.
            Err(Error::NoSpace { .. }) => history.refuse(self.client),
            Err(_) => self.refused = true,
        }
        result
    }

    fn flush(&mut self) -> Result<()> {
        let acknowledged = self.shared.ledger.lock().acknowledged();
        self.world.flush()?;
        self.shared.ledger.lock().flushed(&acknowledged);
        Ok(())
    }

    /// Checks that own keys hold exactly what was written last, whatever other clients do.
    fn read_own(&mut self) -> Result<()> {
        let number = self.some_book();
        let book = self.shared.ledger.lock().book(number).clone();
        let inner = self.rng.index(book.spaces.len().min(self.world.space_count()));
        let space = book.spaces[inner];
        let own: Vec<_> = (0..self.rng.between(1, 4)).map(|_| self.own_key()).collect();
        let keys: Vec<_> = own.iter().map(|key| book.key(key)).collect();
        let found = match self.rng.below(3) {
            0 => self.world.multi_get(space, &keys)?,
            1 => keys.iter().map(|key| self.world.get(space, key)).collect::<Result<_>>()?,
            _ => {
                let prefix = book.key(format!("c{:02}/", self.client).as_bytes());
                let all = pairs(self.world.prefix(space, &prefix))?;
                let find = |key: &Vec<u8>| all.iter().find(|pair| pair.0 == *key);
                keys.iter().map(|key| find(key).map(|pair| pair.1.clone())).collect()
            }
        };
        for (key, found) in own.iter().zip(found) {
            let right = book.history.own_values(self.client, inner, key);
            if !right.contains(&found) {
                return Err(wrong(format!(
                    "keyspace {space}, own key {}: expected {:?} bytes, found {:?}",
                    String::from_utf8_lossy(key),
                    right.map(|value| value.map(|value| value.len())),
                    found.map(|value| value.len())
                )));
            }
        }
        self.shared.tally.lock().checks += 1;
        Ok(())
    }

    fn read_shared(&mut self) -> Result<()> {
        let must = self.shared.ledger.lock().book(0).history.acknowledged();
        let key = self.shared_key();
        let space = self.rng.index(self.world.space_count());
        let found = match self.rng.one_in(2) {
            true => self.world.get(space, &key)?,
            false => {
                let only = (Bound::Included(key.clone()), Bound::Included(key.clone()));
                pairs(self.world.iter(space, &only))?.pop().map(|pair| pair.1)
            }
        };
        let ledger = self.shared.ledger.lock();
        let history = &ledger.book(0).history;
        let may = history.issued();
        history.check_shared(space, &key, found.as_deref(), &must, &may).map_err(wrong)?;
        self.shared.tally.lock().checks += 1;
        Ok(())
    }

    /// Checks that a keyspace of several regions shows one moment even without a snapshot. (It has
    /// the clients' markers, and no writes outside the WAL.)
    fn read_regions(&mut self) -> Result<()> {
        let must = self.shared.ledger.lock().book(0).history.acknowledged();
        let mut found = pairs(self.world.iter(MERGES, &ALL))?;
        if self.rng.one_in(2) {
            found = pairs(self.world.iter(MERGES, &ALL).rev())?;
        }
        let view = Contents::from_iter([(MERGES, found)]);
        let ledger = self.shared.ledger.lock();
        let (history, may) = (&ledger.book(0).history, ledger.book(0).history.issued());
        history.check_space(&view, MERGES, &must, &may).map_err(wrong)?;
        self.shared.tally.lock().checks += 1;
        Ok(())
    }

    fn take_snapshot(&mut self) -> Result<()> {
        let must = self.shared.ledger.lock().acknowledged();
        let view = self.world.snapshot();
        let may = self.shared.ledger.lock().issued();
        self.held.push((view, must, may));
        Ok(())
    }

    fn check_snapshot(&mut self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let index = self.rng.index(self.held.len());
        let (view, must, may) = self.held.swap_remove(index);
        let found = view.contents()?;
        let space = self.rng.index(found.spaces());
        let some = pairs(view.iter(space, &ALL))?;
        if let Some((key, value)) = some.get(self.rng.index(some.len().max(1)))
            && view.get(space, key)?.as_ref() != Some(value)
        {
            return Err(wrong("a snapshot's get and its iterator differ".into()));
        }
        let ledger = self.shared.ledger.lock();
        ledger.check(&found, &must, &may).map_err(|why| wrong(format!("snapshot: {why}")))?;
        self.shared.tally.lock().checks += 1;
        Ok(())
    }
}
