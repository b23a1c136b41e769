//! Random operations by one client. Every answer is compared with sorted maps.
//!
//! The operations cover the whole public API: batches, deletes, gets, ranges, prefixes, iterators
//! walked from both ends while the store changes, snapshots held over flushes and compactions,
//! reopening with other options. Keys come from families that border on each other: prefixes of one
//! another, bytes 0 and 255, the keys at which regions begin.
//!
//! [`lives`] takes the same operations through several lives of one store, with crashes.

pub mod lives;

use crate::disk::Disk;
use crate::env::{SimConfig, SimEnv};
use crate::history::Promise;
use crate::oracle::{Contents, KeyBounds, Op, Pair, TTL, Write};
use crate::rng::Rng;
use crate::world::{MERGES, Mechanisms, SPACES, View, World, pairs};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use twox_hash::XxHash3_64;
use vlsm::{IngestOptions, Iter, PairRef};
use vlsm_core::{Error, Result};

/// The number of operations of each kind.
pub type Counts = BTreeMap<&'static str, u64>;

/// Runs random operations on a new store.
///
/// # Errors
/// The first wrong answer, with the seed.
pub fn run(seed: u64, ops: u64) -> Result<Counts, String> {
    run_under(seed, ops, None)
}

/// Runs random operations on a new store with these mechanisms, or with random ones.
///
/// # Errors
/// The first wrong answer, with the seed.
pub fn run_under(seed: u64, ops: u64, given: Option<Mechanisms>) -> Result<Counts, String> {
    let config = SimConfig { steps_max: 100_000 + ops * 10_000, ..SimConfig::new(seed) };
    let outcome = SimEnv::run(&config, &Disk::new(), move |env| {
        let mut rng = Rng::new(seed);
        let drawn = *rng.pick(Mechanisms::all());
        let mechanisms = given.unwrap_or(drawn);
        let mut run = Run::open(&env, mechanisms, rng).map_err(|error| error.to_string())?;
        for op in 0..ops {
            run.step().map_err(|error| format!("op {op} ({mechanisms}): {error}"))?;
        }
        run.finish().map_err(|error| format!("at the end ({mechanisms}): {error}"))
    });
    let (tail, running) = (outcome.tail.clone(), outcome.running);
    match outcome.end {
        crate::End::Done(Ok(counts)) if running == 0 => Ok(counts),
        crate::End::Done(Ok(_)) => Err(format!("seed {seed}: {running} tasks run after close")),
        crate::End::Done(Err(why)) | crate::End::Failed(why) => {
            Err(format!("seed {seed}: {why}\n{tail}"))
        }
        crate::End::Crashed => Err(format!("seed {seed}: crashed unasked")),
    }
}

/// The state that outlives a life of the store.
#[derive(Clone)]
struct Carried {
    rng: Rng,
    contents: Contents,
    keys: u64,
    counts: Counts,
    digest: XxHash3_64,
}

struct Run {
    env: Arc<SimEnv>,
    mechanisms: Mechanisms,
    rng: Rng,
    /// The open store; none only while it is reopened.
    world: Option<World>,
    contents: Contents,
    /// The time by which the clock was last set back.
    clock_lag: Duration,
    snapshots: Vec<(View, Contents)>,
    /// The open iterators.
    walks: Vec<Walk>,
    keys: u64,
    counts: Counts,
    /// The digest of everything that was read.
    digest: XxHash3_64,
}

/// An iterator, and all pairs that it may show.
struct Walk {
    iter: Iter,
    pairs: Vec<Pair>,
    /// The index of the next pair from the front, and the end of the pairs not yet read from the
    /// back.
    front: usize,
    back: usize,
}

impl Walk {
    fn next(&mut self) -> Option<Pair> {
        let pair = (self.front < self.back).then(|| self.pairs[self.front].clone());
        self.front += usize::from(pair.is_some());
        pair
    }

    fn next_back(&mut self) -> Option<Pair> {
        let pair = (self.front < self.back).then(|| self.pairs[self.back - 1].clone());
        self.back -= usize::from(pair.is_some());
        pair
    }
}

impl Run {
    fn open(env: &Arc<SimEnv>, mechanisms: Mechanisms, mut rng: Rng) -> Result<Self> {
        let options = mechanisms.options(&mut rng);
        let world = World::open(env, &options)?;
        let keys = *rng.pick(&[20, 200, 2_000]);
        let (contents, counts, digest) =
            (Contents::new(SPACES.len()), Counts::new(), XxHash3_64::new());
        let carried = Carried { rng, contents, keys, counts, digest };
        Ok(Self::on(env, mechanisms, world, carried))
    }

    fn on(env: &Arc<SimEnv>, mechanisms: Mechanisms, world: World, carried: Carried) -> Self {
        let Carried { rng, contents, keys, counts, digest } = carried;
        Self {
            env: env.clone(),
            mechanisms,
            rng,
            world: Some(world),
            contents,
            clock_lag: Duration::ZERO,
            snapshots: Vec::new(),
            walks: Vec::new(),
            keys,
            counts,
            digest,
        }
    }

    fn world(&self) -> &World {
        self.world.as_ref().expect("open but for the moment of reopening")
    }

    fn step(&mut self) -> Result<()> {
        let (name, result) = match self.rng.below(1_000) {
            0..550 => ("write", self.write()),
            550..700 => ("get", self.get()),
            700..750 => ("multi_get", self.multi_get()),
            750..800 => ("range", self.range()),
            800..830 => ("prefix", self.prefix()),
            830..850 => ("walk", self.start_walk()),
            850..930 => ("step of a walk", self.walk()),
            930..940 => ("snapshot", self.snapshot()),
            940..960 => ("snapshot get", self.snapshot_get()),
            960..968 => ("snapshot look", self.snapshot_look()),
            968..982 => ("release", self.release()),
            982..988 => ("ingest", self.ingest()),
            988..994 => ("flush", self.world().flush()),
            994 => ("idle", self.world().wait_idle()),
            995 => ("clear", self.clear()),
            996..998 => ("look", self.look()),
            998 => ("time passes", self.expire()),
            _ => ("reopen", self.reopen()),
        };
        *self.counts.entry(name).or_default() += 1;
        result
    }

    fn finish(mut self) -> Result<Counts> {
        self.reopen()?;
        self.world().wait_idle()?;
        self.look()?;
        self.close()?;
        Ok(self.counts)
    }

    fn close(&mut self) -> Result<()> {
        self.walks.clear();
        self.snapshots.clear();
        self.world.take().map_or(Ok(()), World::close)
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(10) {
            0..7 => format!("k{:04}", self.rng.below(self.keys)).into_bytes(),
            7 => {
                let len = self.rng.below(5);
                (0..len).map(|_| *self.rng.pick(&[0, 1, b'k', 0xFE, 0xFF])).collect()
            }
            8 => {
                let mut key = self.rng.pick(SPACES[1].1).as_bytes().to_vec();
                match self.rng.below(3) {
                    0 => {}
                    1 => key.push(0),
                    _ => *key.last_mut().expect("no split is empty") -= 1,
                }
                key
            }
            _ => vec![b'p'; self.rng.between(1, 60) as usize],
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(5_000) {
            0 => 200_000 + self.rng.index(400_000),
            1..100 => self.rng.index(10_000),
            100..1_000 => 0,
            _ => self.rng.index(120),
        };
        let byte = self.rng.u64() as u8;
        let mut value = vec![byte; len];
        let noise = self.rng.u64().to_le_bytes();
        value.iter_mut().zip(noise).for_each(|(byte, noise)| *byte = noise);
        value
    }

    fn bounds(&mut self) -> KeyBounds {
        let bound = |run: &mut Self| match run.rng.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(run.key()),
            _ => Bound::Included(run.key()),
        };
        let (a, b) = (bound(self), bound(self));
        let key = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        match (key(&a), key(&b)) {
            // The bounds are the wrong way round in one case of ten.
            (Some(lo), Some(hi)) if lo > hi && !self.rng.one_in(10) => (b, a),
            _ => (a, b),
        }
    }

    fn space(&mut self) -> usize {
        self.rng.index(SPACES.len())
    }

    fn write(&mut self) -> Result<()> {
        let count =
            if self.rng.one_in(30) { self.rng.between(10, 200) } else { self.rng.between(1, 4) };
        let mut writes = Vec::new();
        for _ in 0..count {
            let (space, key) = (self.space(), self.key());
            let op = match self.rng.below(40) {
                0..10 => Op::Delete,
                10 => Op::DeleteRange(self.key()),
                11..18 if space == MERGES => Op::Merge(self.value()),
                11..14 => Op::Expiring(self.value()),
                _ => Op::Put(self.value()),
            };
            writes.push(Write { space, key, op });
        }
        let promise = match self.rng.below(10) {
            0 => Promise::Power,
            1..4 => Promise::Lazy,
            _ => Promise::Process,
        };
        self.commit(&writes, promise)
    }

    fn commit(&mut self, writes: &[Write], promise: Promise) -> Result<()> {
        self.world().write(writes, promise)?;
        writes.iter().for_each(|write| self.contents.apply(write));
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        let space = self.space();
        self.world().clear(space)?;
        let all = Op::DeleteRange(vec![0xFF; 100]);
        self.contents.apply(&Write { space, key: Vec::new(), op: all });
        Ok(())
    }

    fn ingest(&mut self) -> Result<()> {
        let (space, count) = (self.space(), self.rng.between(1, 60));
        let mut writes = Vec::new();
        for _ in 0..count {
            let key = self.key();
            let op = if self.rng.one_in(4) { Op::Delete } else { Op::Put(self.value()) };
            writes.push(Write { space, key, op });
        }
        let count = self.rng.between(1, 40) as usize;
        self.world().ingest(&self.env, &writes, count, IngestOptions::default())?;
        writes.iter().for_each(|write| self.contents.apply(write));
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let (space, key) = (self.space(), self.key());
        let found = self.world().get(space, &key)?;
        self.note(found.as_deref());
        same("get", found.as_deref(), self.contents.get(space, &key))
    }

    fn multi_get(&mut self) -> Result<()> {
        let space = self.space();
        let keys: Vec<_> = (0..self.rng.below(10)).map(|_| self.key()).collect();
        let found = self.world().multi_get(space, &keys)?;
        let expected: Vec<_> =
            keys.iter().map(|key| self.contents.get(space, key).map(<[u8]>::to_vec)).collect();
        same("multi_get", found, expected)
    }

    fn range(&mut self) -> Result<()> {
        let (space, bounds) = (self.space(), self.bounds());
        let mut expected = self.contents.range(space, &bounds);
        let iter = self.world().iter(space, &bounds);
        if self.rng.one_in(2) {
            return same("range", pairs(iter)?, expected);
        }
        expected.reverse();
        same("range backwards", pairs(iter.rev())?, expected)
    }

    fn prefix(&mut self) -> Result<()> {
        let (space, mut prefix) = (self.space(), self.key());
        prefix.truncate(self.rng.index(prefix.len() + 1));
        let all = (Bound::Included(prefix.clone()), Bound::Unbounded);
        let mut expected = self.contents.range(space, &all);
        expected.retain(|pair| pair.0.starts_with(&prefix));
        let iter = self.world().prefix(space, &prefix);
        if self.rng.one_in(2) {
            return same("prefix", pairs(iter)?, expected);
        }
        expected.reverse();
        same("prefix backwards", pairs(iter.rev())?, expected)
    }

    fn start_walk(&mut self) -> Result<()> {
        if self.walks.len() > 3 {
            self.walks.remove(0);
        }
        let (space, bounds) = (self.space(), self.bounds());
        let (iter, left) = match self.snapshots.last() {
            Some((view, contents)) if self.rng.one_in(3) => {
                (view.iter(space, &bounds), contents.range(space, &bounds))
            }
            _ => (self.world().iter(space, &bounds), self.contents.range(space, &bounds)),
        };
        let back = left.len();
        self.walks.push(Walk { iter, pairs: left, front: 0, back });
        Ok(())
    }

    /// Takes a few steps of an iterator from either end, and seeks. It shows the store as it was
    /// when the iterator was created.
    fn walk(&mut self) -> Result<()> {
        if self.walks.is_empty() {
            return Ok(());
        }
        let index = self.rng.index(self.walks.len());
        let forwards_only = self.rng.one_in(2);
        for _ in 0..self.rng.between(1, 20) {
            if self.rng.one_in(12) {
                let key = self.key();
                let walk = &mut self.walks[index];
                walk.iter.seek(&key);
                walk.front = walk.pairs.partition_point(|pair| pair.0 < key);
            }
            let forwards = forwards_only || self.rng.one_in(2);
            let walk = &mut self.walks[index];
            // Half of the pairs are lent.
            let lent = (walk.front + walk.back).is_multiple_of(2);
            let kept = |pair: PairRef<'_>| (pair.key().to_vec(), pair.value().to_vec());
            let owned = |(key, value): (Bytes, Bytes)| (key.to_vec(), value.to_vec());
            let found = match (forwards, lent) {
                (true, true) => walk.iter.next_ref().transpose()?.map(kept),
                (true, false) => walk.iter.next().transpose()?.map(owned),
                (false, true) => walk.iter.next_back_ref().transpose()?.map(kept),
                (false, false) => walk.iter.next_back().transpose()?.map(owned),
            };
            let expected = if forwards { walk.next() } else { walk.next_back() };
            same("walk", found, expected)?;
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<()> {
        if self.snapshots.len() < 6 {
            self.snapshots.push((self.world().snapshot(), self.contents.clone()));
        }
        Ok(())
    }

    fn snapshot_get(&mut self) -> Result<()> {
        let (space, key) = (self.space(), self.key());
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let (view, contents) = self.rng.pick(&self.snapshots);
        let found = view.get(space, &key)?;
        same("snapshot get", found.as_deref(), contents.get(space, &key))?;
        self.note(found.as_deref());
        Ok(())
    }

    fn snapshot_look(&mut self) -> Result<()> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let (view, contents) = self.rng.pick(&self.snapshots);
        let found = view.contents()?;
        difference("snapshot", contents, &found)?;
        self.note_all(&found);
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        if self.snapshots.len() > 2 {
            let index = self.rng.index(self.snapshots.len());
            self.snapshots.swap_remove(index);
        }
        Ok(())
    }

    fn expire(&mut self) -> Result<()> {
        // This sleep brings the clock past its value before it was set back, and past its last
        // value in the previous life, which may have been a little later on the same day.
        self.env.sleep(TTL * 2 + self.clock_lag);
        self.contents.expire();
        if self.rng.one_in(2) {
            // A value that was seen to be expired stays expired.
            self.look()?;
            self.clock_lag = TTL * self.rng.between(1, 20) as u32;
            self.env.set_clock_back(self.clock_lag);
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let found = self.world().contents()?;
        self.note_all(&found);
        difference("look", &self.contents, &found)
    }

    fn note_all(&mut self, found: &Contents) {
        for space in 0..found.spaces() {
            for (key, value) in found.pairs(space) {
                self.note(Some(key));
                self.note(Some(value));
            }
        }
    }

    fn note(&mut self, read: Option<&[u8]>) {
        let len = read.map_or(u64::MAX, |read| read.len() as u64);
        self.digest.write(&len.to_le_bytes());
        self.digest.write(read.unwrap_or_default());
    }

    fn reopen(&mut self) -> Result<()> {
        self.close()?;
        let options = self.mechanisms.options(&mut self.rng);
        self.world = Some(World::open(&self.env, &options)?);
        self.look()
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let short = |value: &T| format!("{value:?}").chars().take(300).collect::<String>();
    let why = format!("{what}: expected {}, found {}", short(&expected), short(&found));
    Err(Error::Internal(format!("WRONG ANSWER: {why}")))
}

fn difference(what: &str, expected: &Contents, found: &Contents) -> Result<()> {
    match expected.difference(found) {
        Some(why) => Err(Error::Internal(format!("WRONG ANSWER: {what}: {why}"))),
        None => Ok(()),
    }
}
