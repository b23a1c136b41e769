//! One store through several lives with crashes in between. Each life has other mechanisms.
//!
//! 1. A life begins with what the previous one left. It reads everything, waits until the shape's
//!    own compactions have brought the trees into its form, checks the form, and reads everything
//!    again. In every second life, on average, a machine that crashes in the middle does this
//!    first.
//! 2. Then come the random operations of the model, and a manual compaction of a range.
//! 3. A synced write ends the life: everything written must survive. At once, while flushes and
//!    compactions run, the store is closed, the process dies, or the power fails.
//!
//! The operations do not depend on the mechanisms: a seed gives the same reads under all of them. A
//! digest of everything read stands for the reads.

use super::{Carried, Counts, Run};
use crate::disk::{Damage, Disk};
use crate::env::{End, SimConfig, SimEnv};
use crate::history::Promise;
use crate::oracle::{Contents, Write};
use crate::rng::Rng;
use crate::world::{Mechanisms, SPACES, World, verify};
use parking_lot::Mutex;
use std::hash::Hasher;
use std::ops::Bound;
use std::sync::Arc;
use twox_hash::XxHash3_64;
use vlsm::Stats;
use vlsm_core::{Error, Result};

/// The range of crash points in opening and settling. A small tree has fewer.
const CRASH_POINTS: u64 = 150;
/// Days between two lives, in which all values with an expiry expire. A life of many hours is
/// shorter.
const DAYS: u64 = 100;
/// Batches of one fill, and puts of each batch. They fill several memtables.
const BATCHES: usize = 10;
const PUTS: usize = 12;

/// The results of a store's lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lived {
    /// The digest of everything read.
    pub digest: u64,
    /// Lives that ended with an orderly close.
    pub closes: u64,
    /// Lives that ended with the death of the process.
    pub kills: u64,
    /// Lives that ended with a power failure.
    pub power_cuts: u64,
    /// Power failures while the store was opened and brought into form.
    pub early: u64,
    /// The number of times that a job was paused.
    pub paused: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
}

impl Lived {
    /// Adds the counts of other lives. The digest stays.
    pub fn add(&mut self, other: &Self) {
        self.closes += other.closes;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.early += other.early;
        self.paused += other.paused;
        self.cancelled += other.cancelled;
    }
}

/// The end of a life.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Close,
    Kill,
    PowerCut(Damage),
}

/// Takes one store through a life with each of these mechanisms, of `ops` operations each. `seed`
/// decides the operations. `crashes` decides the crashes and the order in which tasks run.
///
/// # Errors
/// The first wrong answer, with the seed, the life and its mechanisms.
pub fn live(seed: u64, crashes: u64, ops: u64, lives: &[Mechanisms]) -> Result<Lived, String> {
    let (disk, mut chance) = (Disk::new(), Rng::new(crashes).fork(1));
    let (mut carried, mut lived) = (Carried::new(seed), Lived::default());
    for (day, &mechanisms) in (0..).zip(lives) {
        let told = |why: String| {
            format!("seed {seed}, crashes {crashes}, life {day} ({mechanisms}): {why}")
        };
        carried.contents.expire();
        if chance.one_in(2) {
            let mut config = SimConfig::new(chance.u64()).day(day * DAYS);
            config.device.crash_point = Some(chance.below(CRASH_POINTS));
            if settled(&config, &disk, mechanisms, &carried).map_err(told)? {
                lived.early += 1;
                disk.lose_power(Damage::random(&mut chance));
                verify(&disk).map_err(told)?;
            }
        }
        let ending = match chance.below(3) {
            0 => Ending::Close,
            1 => Ending::Kill,
            _ => Ending::PowerCut(Damage::random(&mut chance)),
        };
        let config = SimConfig::new(chance.u64()).day(day * DAYS);
        let done = worked(&config, &disk, mechanisms, carried, ops, ending).map_err(told)?;
        carried = done.0;
        for work in done.1.compactions {
            lived.paused += work.paused;
            lived.cancelled += work.cancelled;
        }
        match ending {
            Ending::Close => {
                lived.closes += 1;
                // The state after an orderly close must survive a power failure, too.
                if chance.one_in(2) {
                    disk.lose_power(Damage::random(&mut chance));
                }
            }
            Ending::Kill => {
                lived.kills += 1;
                disk.lose_process();
            }
            Ending::PowerCut(damage) => {
                lived.power_cuts += 1;
                disk.lose_power(damage);
            }
        }
        verify(&disk).map_err(told)?;
    }
    if let Some(&mechanisms) = lives.last() {
        carried.contents.expire();
        let config = SimConfig::new(chance.u64()).day(lives.len() as u64 * DAYS);
        settled(&config, &disk, mechanisms, &carried).map_err(|why| format!("at last: {why}"))?;
    }
    lived.digest = carried.digest.finish();
    Ok(lived)
}

/// Opens the store, brings it into form and closes it. Returns whether the machine crashed.
fn settled(
    config: &SimConfig,
    disk: &Disk,
    mechanisms: Mechanisms,
    carried: &Carried,
) -> Result<bool, String> {
    let carried = carried.clone();
    on_a_machine(config, disk, move |env| Run::settled(env, mechanisms, carried)?.end(None))
}

/// A whole life. Returns the state for the next one, and the store's statistics.
fn worked(
    config: &SimConfig,
    disk: &Disk,
    mechanisms: Mechanisms,
    carried: Carried,
    ops: u64,
    ending: Ending,
) -> Result<(Carried, Stats), String> {
    let left = Arc::new(Mutex::new(None));
    let slot = left.clone();
    let crashed = on_a_machine(config, disk, move |env| {
        let mut run = Run::settled(env, mechanisms, carried)?;
        run.work(ops)?;
        *slot.lock() = Some((run.carried(), run.world().db().stats()));
        match ending {
            Ending::Close => run.end(None),
            Ending::Kill | Ending::PowerCut(_) => run.end(Some(env)),
        }
    })?;
    match left.lock().take() {
        Some(left) if crashed != matches!(ending, Ending::Close) => Ok(left),
        _ => Err(format!("ended unasked ({ending:?})")),
    }
}

/// Runs `body` on a machine. Returns whether the machine crashed.
fn on_a_machine(
    config: &SimConfig,
    disk: &Disk,
    body: impl FnOnce(&Arc<SimEnv>) -> Result<(), String> + Send + 'static,
) -> Result<bool, String> {
    let outcome = SimEnv::run(config, disk, move |env| body(&env));
    match outcome.end {
        End::Crashed => Ok(true),
        End::Done(Ok(())) if outcome.running == 0 => Ok(false),
        End::Done(Ok(())) => Err(format!("{} tasks run after close", outcome.running)),
        End::Done(Err(why)) | End::Failed(why) => Err(format!("{why}\n{}", outcome.tail)),
    }
}

impl Carried {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let keys = *rng.pick(&[20, 200, 2_000]);
        let contents = Contents::new(SPACES.len());
        Self { rng, contents, keys, counts: Counts::new(), digest: XxHash3_64::new() }
    }
}

impl Run {
    fn carried(&self) -> Carried {
        Carried {
            rng: self.rng.clone(),
            contents: self.contents.clone(),
            keys: self.keys,
            counts: self.counts.clone(),
            digest: self.digest.clone(),
        }
    }

    /// Opens a store and makes all checks that come before the first write.
    fn settled(
        env: &Arc<SimEnv>,
        mechanisms: Mechanisms,
        mut carried: Carried,
    ) -> Result<Self, String> {
        let options = mechanisms.options(&mut carried.rng);
        let world = World::open(env, &options).map_err(|error| format!("open: {error}"))?;
        let mut run = Self::on(env, mechanisms, world, carried);
        run.look().map_err(|error| format!("as it was found: {error}"))?;
        run.settle().map_err(|error| format!("brought into form: {error}"))?;
        Ok(run)
    }

    fn settle(&mut self) -> Result<()> {
        self.world().wait_idle()?;
        self.world().check_settled(&self.env)?;
        self.look()
    }

    /// The operations of a life, up to a synced write.
    fn work(&mut self, ops: u64) -> Result<(), String> {
        let during = |what: &'static str| move |error: Error| format!("{what}: {error}");
        self.fill().map_err(during("filling"))?;
        for op in 0..ops {
            self.step().map_err(|error| format!("op {op}: {error}"))?;
        }
        self.compact().map_err(during("compacting by hand"))?;
        self.look().map_err(during("after compacting by hand"))?;
        self.fill().map_err(during("filling again"))?;
        let synced = Write::put(0, "synced", self.rng.u64().to_string());
        self.commit(&[synced], Promise::Power).map_err(during("the synced write"))
    }

    /// Closes the store, or crashes the machine under it.
    fn end(mut self, crash: Option<&Arc<SimEnv>>) -> Result<(), String> {
        match crash {
            Some(env) => {
                env.device().crash();
                Err("the machine goes on after a crash".into())
            }
            None => self.close().map_err(|error| format!("close: {error}")),
        }
    }

    /// Writes enough puts to fill memtables.
    fn fill(&mut self) -> Result<()> {
        for _ in 0..BATCHES {
            let space = self.space();
            let put = |run: &mut Self| {
                let (key, len) = (run.key(), run.rng.between(100, 600));
                Write::put(space, key, vec![run.rng.u64() as u8; len as usize])
            };
            let writes: Vec<Write> = (0..PUTS).map(|_| put(self)).collect();
            self.commit(&writes, Promise::Process)?;
        }
        Ok(())
    }

    /// Compacts a range down to the last level, or everything.
    fn compact(&mut self) -> Result<()> {
        let (space, a, b) = (self.space(), self.key(), self.key());
        let bounds = match self.rng.one_in(3) {
            true => (Bound::Unbounded, Bound::Unbounded),
            false => (Bound::Included(a.clone().min(b.clone())), Bound::Included(a.max(b))),
        };
        self.world().compact(space, &bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_noticed() {
        let disk = Disk::new();
        let mechanisms = Mechanisms::all()[0];
        let config = SimConfig::new(7);
        let start = Carried::new(7);
        let end = Ending::PowerCut(Damage::LoseAll);
        let (mut carried, _) = worked(&config, &disk, mechanisms, start, 5, end).expect("right");
        disk.lose_power(Damage::LoseAll);
        carried.contents.expire();
        let again = |seed, carried: &Carried| {
            settled(&SimConfig::new(seed).day(DAYS), &disk, mechanisms, carried)
        };
        assert_eq!(again(8, &carried), Ok(false));
        carried.contents.apply(&Write::put(2, "more", "than was written"));
        let why = again(9, &carried).expect_err("it is not there");
        assert!(why.contains("WRONG ANSWER"), "{why}");
    }
}
