//! Concurrent clients on one store with crashes, faults and reopening. A seed determines one story.
//!
//! A story has several lives of the store, on one disk:
//! 1. The store is opened. Its content must be right, given how the previous life ended
//!    ([`crate::ledger`]).
//! 2. Clients write batches over their own and some shared keys, read them back, hold snapshots
//!    over time and check them, flush, and wait for the store to be idle ([`crate::actor`]).
//!    Meanwhile administrators copy the store, restore, verify, scan, and create keyspaces
//!    (`admin`). In some lives a reader follows the store (`follower`), and a client clears a
//!    keyspace of its own (`eraser`).
//!    In half of the lives no client syncs, because the WAL then goes through the memory of its
//!    files.
//! 3. In some lives file calls fail. The store may then refuse operations, but no answer may be
//!    wrong, and reads may fail only if the faults hit reads.
//! 4. The life ends with a power failure, the death of the process, or an orderly close. Everything
//!    is random: options, mechanisms, the end, and what the disk keeps.
//! 5. In the last life no call fails, and the store is closed in order. Then everything must be
//!    there, no task may still run, and no file may be left that is not needed.
//!
//! The space on the disk is bounded, whatever the number of lives and their ends. An open takes the
//! log of all earlier lives over into one file. An orderly close leaves the SSTs that the trees
//! show, the WALs that the manifest lists, each as long as its records, and the store's few other
//! files.

use crate::actor::Actor;
use crate::admin::{Admin, check_copies};
use crate::device::{DeviceConfig, Fault, Kind, PASSING_MAX};
use crate::disk::{Damage, Disk};
use crate::env::{End, SimConfig, SimEnv};
use crate::eraser::{self, Eraser};
use crate::follower::Follower;
use crate::history::{Loss, Promise};
use crate::leaks::{leaks, takes_over};
use crate::ledger::Ledger;
use crate::life::{Limits, Shared};
use crate::machine::PowerCut;
use crate::oracle::Contents;
use crate::rng::Rng;
pub use crate::tally::Tally;
use crate::world::{Mechanisms, World};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use vlsm::Options;
use vlsm_core::Error;
use vlsm_core::event::Event;
use vlsm_testfs::FailedSync;

/// The faults of some lives: their kind, the calls, and the files. Bits are flipped in SSTs only,
/// because a flipped bit at the end of the WAL looks like a write that the crash tore.
pub const CLASSES: [(Kind, &str, &str); 29] = [
    (Kind::Eio, "read", ""),
    (Kind::Eio, "write", ""),
    (Kind::Eio, "sync", ""),
    (Kind::Eio, "syncdir", ""),
    (Kind::Eio, "rename", ""),
    (Kind::Eio, "remove", ""),
    (Kind::Eio, "open", ""),
    (Kind::Eio, "create", ""),
    (Kind::Eio, "readdir", ""),
    (Kind::Eio, "len", ""),
    (Kind::NoSpace, "write", ""),
    (Kind::NoSpace, "create", ""),
    (Kind::Short, "write", ""),
    (Kind::Misdirected, "read", ".sst"),
    (Kind::Flip, "read", ".sst"),
    (Kind::Slow, "read", ""),
    (Kind::Slow, "write", ""),
    (Kind::Slow, "sync", ""),
    (Kind::NoDescriptor, "open", ""),
    (Kind::NoDescriptor, "create", ""),
    (Kind::NoSystemDescriptor, "open", ""),
    (Kind::NoSystemDescriptor, "syncdir", ""),
    (Kind::NoMemory, "open", ""),
    (Kind::NoMemory, "create", ""),
    (Kind::NoMemory, "syncdir", ""),
    (Kind::NoThread, "spawn", ""),
    (Kind::Eio, "map", ""),
    (Kind::Eio, "populate", ""),
    (Kind::Eio, "store", ""),
];

/// The number of the follower's draws.
const FOLLOWER: u64 = 2_000;

/// The number of the eraser's draws.
const ERASER: u64 = 3_000;

/// The number of the draw of lives without synced batches.
const SYNCS: u64 = 4_000;

/// Seconds within which a store must notice that there is space again.
const SPACE_LOOKS: u64 = 10;

/// The parameters of a story.
#[derive(Debug, Clone)]
pub struct Story {
    /// The seed decides everything else.
    pub seed: u64,
    /// The most lives of the store.
    pub lives: u64,
    /// The most clients.
    pub clients: u64,
    /// The most operations of a client in one life; some lives have four times as many.
    pub ops: u64,
    /// Whether file calls fail.
    pub faults: bool,
    /// The store's mechanisms; none to choose them by the seed.
    pub mechanisms: Option<Mechanisms>,
    /// Whether three readers follow the store in every life, instead of one in some.
    pub followed: bool,
    /// Changes the chosen options.
    pub tweak: fn(&mut Options),
}

impl Story {
    /// The usual story of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (lives, clients, ops) = (4, 4, 60);
        let (faults, mechanisms, followed) = (true, None, false);
        Self { seed, lives, clients, ops, faults, mechanisms, followed, tweak: |_| {} }
    }
}

/// The end of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    InOrder,
    /// The store could not be opened or closed.
    Badly,
    Crashed,
}

/// Plays a story.
///
/// # Errors
/// The first wrong answer, with its life.
pub fn play(story: &Story) -> Result<Tally, String> {
    let mut rng = Rng::new(story.seed);
    let clients = rng.between(1, story.clients) as usize;
    let disk = Disk::new();
    let shared = Arc::new(Shared {
        ledger: Mutex::new(Ledger::new(clients)),
        tally: Mutex::default(),
        copies: Mutex::default(),
        erased: Mutex::default(),
        open: Mutex::new(false),
    });
    let mechanisms = story.mechanisms.unwrap_or_else(|| Mechanisms::of(story.seed));
    *shared.tally.lock().mechanisms.entry(mechanisms.to_string()).or_default() += 1;
    let lives = rng.between(1, story.lives.max(1));
    for life in 0..lives {
        let plan = Plan::new(story, mechanisms, clients, life + 1 == lives, &mut rng);
        let config = plan.config(&mut rng).day(life);
        let full = plan.space.is_some();
        let told = |why| {
            let (seed, faults) = (story.seed, &config.device.faults);
            format!("seed {seed}, life {life} ({mechanisms}), {faults:?}, full {full}: {why}")
        };
        let (used, options) = (disk.used(), plan.options.clone());
        disk.set_capacity(plan.space.map(|(free, _)| used + free));
        let (ended, sync_failed) = one_life(&shared, plan, &config, &disk).map_err(told)?;
        disk.set_capacity(None);
        if ended == Ended::InOrder && config.device.faults.is_empty() {
            leaks(&disk).map_err(told)?;
        }
        let loss = match ended {
            Ended::InOrder => Loss::Nothing,
            _ if rng.one_in(3) => Loss::Process,
            _ => Loss::Power,
        };
        // If a failed sync reverted bytes in the page cache, the death of the process loses as much
        // as a power failure.
        let reverted = sync_failed && config.device.failed_sync == FailedSync::Reverts;
        shared.copies.lock().iter_mut().for_each(|copy| copy.settle(&shared.ledger.lock()));
        let lost = if loss == Loss::Process && reverted { Loss::Power } else { loss };
        shared.ledger.lock().lose(lost);
        shared.erased.lock().lose(lost);
        let mut tally = shared.tally.lock();
        tally.full += u64::from(full);
        tally.failures += u64::from(ended == Ended::Badly);
        match loss {
            Loss::Nothing => {
                tally.closes += 1;
                // The state after an orderly close must survive a power failure, too.
                if rng.one_in(2) {
                    disk.lose_power(Damage::random(&mut rng));
                }
            }
            Loss::Process => {
                tally.kills += 1;
                disk.lose_process();
            }
            Loss::Power => {
                tally.power_cuts += 1;
                disk.lose_power(Damage::random(&mut rng));
            }
        }
        drop(tally);
        check_copies(&shared, &disk, &options, SimConfig::new(rng.u64()).day(life + 1))
            .map_err(told)?;
    }
    let tally = shared.tally.lock().clone();
    Ok(tally)
}

/// Runs one life. Also returns whether a sync failed in it.
fn one_life(
    shared: &Arc<Shared>,
    plan: Plan,
    config: &SimConfig,
    disk: &Disk,
) -> Result<(Ended, bool), String> {
    *shared.open.lock() = false;
    let inner = shared.clone();
    let outcome = SimEnv::run(config, disk, move |env| live(&env, &inner, &plan));
    let mut tally = shared.tally.lock();
    tally.steps += outcome.steps;
    tally.hash = tally.hash.rotate_left(1) ^ outcome.hash;
    tally.calls += outcome.device.calls.values().sum::<u64>();
    tally.mutating += outcome.device.mutating;
    if let Some(stores) = outcome.device.calls.get("store") {
        *tally.work.entry("WAL stored in a window".into()).or_default() += stores;
    }
    for (class, count) in &outcome.device.faults {
        *tally.faults.entry(class.clone()).or_default() += count;
    }
    tally.cut_while_opening += u64::from(!*shared.open.lock());
    let told = |what: &str| Err(format!("{what}\n{}", outcome.tail));
    let ended = match &outcome.end {
        End::Done(Ok(_)) if outcome.running > 0 => {
            return told(&format!("{} tasks still run after close", outcome.running));
        }
        End::Done(Ok(ended)) => *ended,
        End::Crashed => Ended::Crashed,
        End::Done(Err(why)) | End::Failed(why) => return told(why),
    };
    if outcome.leaked || outcome.abandoned > 0 {
        let count = outcome.abandoned;
        return told(&format!("the machine is held by what ran on it ({count} tasks are stuck)"));
    }
    Ok((ended, outcome.device.sync_failed()))
}

/// The parameters of one life.
#[derive(Clone)]
struct Plan {
    seed: u64,
    options: Options,
    clients: usize,
    /// The number of administrators.
    admins: u64,
    /// The number of readers that follow the store.
    followers: u64,
    /// Whether a client clears its keyspace.
    erased: bool,
    /// Whether clients sync some of their batches.
    syncs: bool,
    ops: u64,
    last: bool,
    faults: Vec<Fault>,
    /// The bytes that are free on the disk, and for how long.
    space: Option<(u64, Duration)>,
}

impl Plan {
    fn new(
        story: &Story,
        mechanisms: Mechanisms,
        clients: usize,
        last: bool,
        rng: &mut Rng,
    ) -> Self {
        let mut options = mechanisms.options(rng);
        (story.tweak)(&mut options);
        let seed = rng.u64();
        let times = *rng.pick(&[1, 1, 1, 4]);
        let ops = rng.between(1, story.ops * times);
        let mut faults = Vec::new();
        if story.faults && !last && rng.one_in(2) {
            faults.extend((0..rng.between(1, 2)).map(|_| fault(rng)));
        }
        let mut space = None;
        if story.faults && !last && rng.one_in(5) {
            let most = *rng.pick(&[20 << 10, 100 << 10, 400 << 10]);
            space = Some((rng.below(most), Duration::from_micros(rng.below(300_000))));
        }
        let admins = *rng.pick(&[0, 0, 1, 2]);
        // Drawn from a separate stream, so that the other parameters of a story do not depend on
        // it.
        let some = u64::from(Rng::new(seed).fork(FOLLOWER).one_in(3));
        let followers = if story.followed { 3 } else { some };
        let erased = Rng::new(seed).fork(ERASER).one_in(2);
        let syncs = Rng::new(seed).fork(SYNCS).one_in(2);
        Self { seed, options, clients, admins, followers, erased, syncs, ops, last, faults, space }
    }

    fn config(&self, rng: &mut Rng) -> SimConfig {
        let mut config = SimConfig::new(self.seed);
        if !self.last {
            match rng.below(5) {
                // An early crash: in create, open or recovery.
                0 => config.device.crash_point = Some(rng.below(100)),
                1 | 2 => config.device.crash_point = Some(rng.below(20 + self.ops * 8)),
                3 => config.power_cut = PowerCut::AtStep(rng.below(50 + self.ops * 60)),
                _ => {}
            }
        }
        let slowness = *rng.pick(&[1, 1, 10]);
        let crash_point = config.device.crash_point;
        let failed_sync = *rng.pick(&[FailedSync::Keeps, FailedSync::Reverts]);
        let files_max = *rng.pick(&[None, Some(0), Some(30)]);
        let faults = self.faults.clone();
        config.device = DeviceConfig { faults, crash_point, slowness, files_max, failed_sync };
        config
    }

    fn limits(&self) -> Limits {
        Limits {
            ops: self.ops,
            writes_may_fail: !self.faults.iter().all(Fault::passes),
            reads_may_fail: self.faults.iter().any(|fault| fault.hits(&["read", "open", "len"])),
            lists_may_fail: self.faults.iter().any(|fault| fault.hits(&["readdir", "exists"])),
            full: self.space.is_some(),
            syncs: self.syncs,
        }
    }
}

fn fault(rng: &mut Rng) -> Fault {
    let (kind, name, suffix) = *rng.pick(&CLASSES);
    let rare = matches!(
        name,
        "rename" | "remove" | "readdir" | "create" | "syncdir" | "open" | "map" | "populate"
    );
    let most = *rng.pick(if rare || kind == Kind::NoThread { &[2, 6, 30] } else { &[10, 60, 400] });
    let nth = rng.below(most);
    let lasting = match kind {
        Kind::Slow => 10,
        Kind::NoDescriptor | Kind::NoSystemDescriptor | Kind::NoMemory => {
            *rng.pick(&[PASSING_MAX, u64::MAX])
        }
        _ => u64::MAX,
    };
    let times = *rng.pick(&[1, 1, 3, lasting]);
    Fault { kind, name: Some(name), suffix, nth, times }
}

/// One life of the store.
fn live(env: &Arc<SimEnv>, shared: &Arc<Shared>, plan: &Plan) -> Result<Ended, String> {
    let limits = plan.limits();
    let counting = shared.clone();
    let count = move |event: &Event| count(&counting, event);
    let world = match World::open_listening(env, &plan.options, count) {
        Err(error) if limits.tolerate(&error, false) => return Ok(Ended::Badly),
        opened => opened.map_err(|error| format!("open: {error}"))?,
    };
    if !limits.writes_may_fail && !limits.full {
        takes_over(env)?;
    }
    let view = world.contents().and_then(|view| {
        eraser::check_reopened(shared, &world)?;
        Ok(view)
    });
    let view = match view {
        Err(error) if limits.tolerate(&error, true) => {
            drop(world);
            return Ok(Ended::Badly);
        }
        view => view.map_err(|error| format!("first look: {error}"))?,
    };
    note_reopened(shared, &view)?;
    *shared.open.lock() = true;
    let mut rng = Rng::new(plan.seed);
    let mut tasks = Vec::new();
    for client in 0..plan.clients {
        let rng = rng.fork(client as u64);
        let mut actor = Actor::new(client, &world, env, shared, rng, limits);
        tasks.push(env.task(&format!("client {client}"), move || actor.run()));
    }
    for admin in 0..plan.admins {
        let mut admin = Admin::new(&world, env, shared, rng.fork(1_000 + admin), limits);
        tasks.push(env.task("administrator", move || admin.run()));
    }
    if plan.erased {
        let mut eraser = Eraser::new(&world, env, shared, Rng::new(plan.seed ^ ERASER), limits);
        tasks.push(env.task("eraser", move || eraser.run()));
    }
    for number in 0..plan.followers {
        let rng = Rng::new(plan.seed ^ FOLLOWER).fork(number);
        let may_fail = (limits, !plan.faults.is_empty());
        let mut follower = Follower::new(env, shared, &plan.options, rng, may_fail);
        tasks.push(env.task("follower", move || follower.run()));
    }
    if let Some((_, span)) = plan.space {
        env.sleep(span);
        env.device().disk().set_capacity(None);
    }
    let results: Vec<_> = tasks.into_iter().map(|task| task.join()).collect();
    for result in results {
        result.ok_or("a client vanished")??;
    }
    if limits.full && !limits.writes_may_fail {
        resume(env, shared, &world)?;
        return finish(shared, world, Limits { full: false, ..limits });
    }
    finish(shared, world, limits)
}

/// Waits for writes after space was freed. The store must notice the space by itself.
fn resume(env: &SimEnv, shared: &Shared, world: &World) -> Result<(), String> {
    for _ in 0..SPACE_LOOKS {
        match world.write(&[], Promise::Lazy).and_then(|()| world.flush()) {
            Ok(()) if world.db().stats().read_only.is_none() => return Ok(()),
            Ok(()) | Err(Error::NoSpace { .. }) => env.sleep(Duration::from_secs(1)),
            Err(error) => return Err(format!("a full device is no failure: {error}")),
        }
        shared.tally.lock().waits_for_space += 1;
    }
    Err("there is space again, and the store takes no writes".into())
}

fn count(shared: &Shared, event: &Event) {
    let name = match event {
        Event::JobFinished { kind, .. } => format!("{kind:?}"),
        Event::JobCancelled { .. } => "cancelled".into(),
        Event::HotKeysKept { .. } => "hot keys".into(),
        Event::WalSwitched { recycled: true, .. } => "WAL recycled".into(),
        Event::WalSwitched { .. } => "WAL switched".into(),
        Event::WalUnmapped { .. } => "WAL not mapped".into(),
        Event::BackgroundError { .. } => "latched".into(),
        Event::OutOfSpace { .. } => "out of space".into(),
        Event::SpaceReturned { .. } => "space returned".into(),
        _ => return,
    };
    *shared.tally.lock().work.entry(name).or_default() += 1;
}

fn note_reopened(shared: &Shared, view: &Contents) -> Result<(), String> {
    let mut ledger = shared.ledger.lock();
    let (acknowledged, issued) = (ledger.acknowledged(), ledger.issued());
    let cuts = ledger.reopened(view)?;
    let mut tally = shared.tally.lock();
    let told = acknowledged.iter().flatten().zip(issued.iter().flatten());
    for (shown, (acknowledged, issued)) in cuts.iter().flatten().zip(told) {
        tally.lost += acknowledged.saturating_sub(*shown);
        tally.indeterminate += shown.saturating_sub(*acknowledged).min(*issued);
    }
    Ok(())
}

/// Checks progress after the clients have ended, reads everything, and closes the store.
fn finish(shared: &Shared, world: World, limits: Limits) -> Result<Ended, String> {
    let told = |error: Error| format!("at the end: {error}");
    for result in [world.flush(), world.wait_idle()] {
        match result {
            Err(error) if limits.tolerate(&error, false) => {}
            result => result.map_err(told)?,
        }
    }
    match world.contents() {
        Err(error) if limits.tolerate(&error, true) => {}
        view => {
            let ledger = shared.ledger.lock().clone();
            let (must, may) = (ledger.acknowledged(), ledger.issued());
            let checked = ledger.check(&view.map_err(told)?, &must, &may);
            checked.map_err(|why| format!("at the end: {why}"))?;
        }
    }
    match world.close() {
        Err(error) if limits.tolerate(&error, false) => Ok(Ended::Badly),
        closed => closed.map_err(told).map(|()| Ended::InOrder),
    }
}
