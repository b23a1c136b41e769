//! A reader beside the concurrent clients, as another process would be: it follows the store
//! (`Db::open_read_only`), and catches up at random moments.
//!
//! It must show whole batches as of one moment ([`crate::ledger`]):
//! 1. at least what the store had promised to keep when the call began, and what the reader has
//!    shown before,
//! 2. at most what was issued when the call ended,
//! 3. exactly the same until the next call, also in a snapshot from before that call and after a
//!    call that failed.
//!
//! In a life without faults no call may fail, except with `CannotFollow` where the reader may use
//! little memory or few files.

use crate::env::SimEnv;
use crate::ledger::Cuts;
use crate::life::{Limits, Shared, wrong};
use crate::rng::Rng;
use crate::world::{View, World};
use std::sync::Arc;
use std::time::Duration;
use vlsm::Options;
use vlsm_core::{Error, Result, Seq};
use vlsm_disk::Env;

/// The most times that it opens the store in one life.
const OPENS_MAX: u64 = 3;
/// The most times that it then catches up.
const ROUNDS_MAX: u64 = 12;

/// The reader.
pub(crate) struct Follower {
    env: Arc<SimEnv>,
    shared: Arc<Shared>,
    options: Options,
    rng: Rng,
    limits: Limits,
    /// Whether any file call may fail.
    faulty: bool,
    /// Whether it may have too little memory or too few files.
    tight: bool,
}

/// The state that the reader shows until it catches up.
struct Shown {
    world: World,
    seq: Seq,
    cuts: Cuts,
}

impl Follower {
    pub fn new(
        env: &Arc<SimEnv>,
        shared: &Arc<Shared>,
        options: &Options,
        mut rng: Rng,
        (limits, faulty): (Limits, bool),
    ) -> Self {
        let (env, shared, mut options) = (env.clone(), shared.clone(), options.clone());
        let little_memory = rng.one_in(8);
        if !little_memory {
            options.memory_limit = options.least_memory() * 1000;
        }
        let tight = little_memory || env.fs().files_max().is_some();
        Self { env, shared, options, rng, limits, faulty, tight }
    }

    /// Follows the store for some time.
    pub fn run(&mut self) -> std::result::Result<(), String> {
        for _ in 0..self.rng.between(1, OPENS_MAX) {
            self.pause();
            let followed = self.open().and_then(|mut shown| {
                let followed = self.follow(&mut shown);
                let closed = shown.world.close();
                followed.and(closed)
            });
            match followed {
                Ok(()) => {}
                Err(error) if self.tolerates(&error) => self.note("follower refused"),
                Err(error) => return Err(format!("follower: {error}")),
            }
        }
        Ok(())
    }

    fn tolerates(&self, error: &Error) -> bool {
        match error {
            Error::Internal(_) => false,
            Error::CannotFollow { .. } => self.faulty || self.tight,
            _ => self.faulty,
        }
    }

    fn note(&self, what: &str) {
        self.shared.tally.lock().note(what);
    }

    fn pause(&mut self) {
        let span = *self.rng.pick(&[50, 500, 20_000]);
        self.env.sleep(Duration::from_micros(self.rng.below(span)));
    }

    /// The batches that the next state must have.
    fn least(&self) -> Cuts {
        // A failed sync may take back what was only in the page cache.
        self.shared.ledger.lock().kept(!self.limits.writes_may_fail)
    }

    fn open(&self) -> Result<Shown> {
        let must = self.least();
        let world = World::follow(&self.env, &self.options)?;
        let cuts = self.check(&world.snapshot(), &must)?;
        self.note("follower opened");
        Ok(Shown { world, seq: Seq::ZERO, cuts })
    }

    fn follow(&mut self, shown: &mut Shown) -> Result<()> {
        for _ in 0..self.rng.below(ROUNDS_MAX) {
            self.pause();
            let before = self.rng.one_in(3).then(|| (shown.world.snapshot(), shown.cuts.clone()));
            let must = at_least(self.least(), &shown.cuts);
            let caught_up = shown.world.catch_up();
            if let Ok(seq) = &caught_up {
                if *seq < shown.seq {
                    return Err(wrong(format!("{seq} after {}", shown.seq)));
                }
                shown.seq = *seq;
                shown.cuts = self.check(&shown.world.snapshot(), &must)?;
                self.note("follower caught up");
            } else {
                self.check_same(&shown.world.snapshot(), &shown.cuts)?;
            }
            if let Some((view, cuts)) = before {
                self.check_same(&view, &cuts)?;
                self.note("follower held a snapshot");
            }
            caught_up?;
        }
        Ok(())
    }

    /// Checks that a view shows at least these batches. Returns those that it shows.
    fn check(&self, view: &View, must: &Cuts) -> Result<Cuts> {
        let may = self.shared.ledger.lock().issued();
        let found = view.contents()?;
        let shown = self.shared.ledger.lock().shown(&found, must, &may);
        shown.map_err(|why| wrong(format!("a reader beside: {why}")))
    }

    /// Checks that a view still shows exactly these batches.
    fn check_same(&self, view: &View, cuts: &Cuts) -> Result<()> {
        let found = view.contents()?;
        let shown = self.shared.ledger.lock().shown(&found, cuts, cuts);
        shown.map(drop).map_err(|why| wrong(format!("a reader beside, later: {why}")))
    }
}

/// The larger one of each number.
fn at_least(mut cuts: Cuts, others: &Cuts) -> Cuts {
    for (cut, other) in cuts.iter_mut().flatten().zip(others.iter().flatten()) {
        *cut = (*cut).max(*other);
    }
    cuts
}
