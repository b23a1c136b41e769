//! Concurrent clients on one store, crashes, reopening: one seed is one such story.
//!
//! A story has several lives of the store, on one disk:
//! 1. Open the store; what it shows must be right after what ended the life before
//!    ([`crate::history`]).
//! 2. Clients write batches over their own and some shared keys, read them back, hold snapshots
//!    over time and check them, flush and wait for the store to be idle.
//! 3. The life ends with the power, the process, or an orderly close. Everything is random:
//!    options, shape, when it ends, what the disk keeps.
//! 4. The last life ends in order. Then everything must still be there, no task still run, and no
//!    file be left that nobody needs.

use crate::device::DeviceConfig;
use crate::disk::{Damage, Disk};
use crate::env::{End, SimConfig, SimEnv};
use crate::history::{Cut, History, Loss, Promise, shared_value};
use crate::machine::PowerCut;
use crate::oracle::{ALL, Contents, Write};
use crate::rng::Rng;
use crate::world::{SHAPES, SPACES, View, World, durability, pairs, tiny_options};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vlsm::{Options, WriteOptions};
use vlsm_core::{Error, Result};
use vlsm_disk::Env;

/// What is played.
#[derive(Debug, Clone)]
pub struct Story {
    /// Decides everything else.
    pub seed: u64,
    /// Lives of the store at most.
    pub lives: u64,
    /// Clients at most.
    pub clients: u64,
    /// Operations of a client in one life.
    pub ops: u64,
    /// Changes the options that were drawn.
    pub tweak: fn(&mut Options),
}

impl Story {
    /// The usual one of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, lives: 4, clients: 4, ops: 60, tweak: |_| {} }
    }
}

/// How often things happened, over any number of stories.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Lives, by how they ended.
    pub power_cuts: u64,
    /// Deaths of the process.
    pub kills: u64,
    /// Orderly closes.
    pub closes: u64,
    /// Lives whose store had not finished opening when they ended.
    pub cut_while_opening: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// Batches refused at their deadline.
    pub busy: u64,
    /// The longest that a batch took, in virtual time.
    pub longest_wait: Duration,
    /// Batches that a crash took, though acknowledged without a promise.
    pub lost: u64,
    /// Batches that survived though nobody was told.
    pub indeterminate: u64,
    /// Reads and snapshots checked.
    pub checks: u64,
    /// File operations.
    pub calls: u64,
    /// Mutating ones.
    pub mutating: u64,
    /// Switches between tasks.
    pub steps: u64,
    /// Hash over the hashes of all lives.
    pub hash: u64,
    /// Tasks that could not be unwound.
    pub abandoned: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.closes += other.closes;
        self.cut_while_opening += other.cut_while_opening;
        self.batches += other.batches;
        self.busy += other.busy;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.lost += other.lost;
        self.indeterminate += other.indeterminate;
        self.checks += other.checks;
        self.calls += other.calls;
        self.mutating += other.mutating;
        self.steps += other.steps;
        self.hash = self.hash.rotate_left(1) ^ other.hash;
        self.abandoned += other.abandoned;
    }
}

/// What the tasks of a life share.
struct Shared {
    history: Mutex<History>,
    tally: Mutex<Tally>,
    open: Mutex<bool>,
}

/// Plays a story.
///
/// # Errors
/// What was wrong, with the life it was found in.
pub fn play(story: &Story) -> Result<Tally, String> {
    let mut rng = Rng::new(story.seed);
    let clients = rng.between(1, story.clients) as usize;
    let disk = Disk::new();
    let shared = Arc::new(Shared {
        history: Mutex::new(History::new(clients, SPACES.len())),
        tally: Mutex::default(),
        open: Mutex::new(false),
    });
    let shape = *rng.pick(&SHAPES);
    let lives = rng.between(1, story.lives.max(1));
    for life in 0..lives {
        let plan = Plan::new(story, shape, life + 1 == lives, &mut rng);
        let config = plan.config(&mut rng);
        let told = |why| format!("seed {}, life {life} ({shape}): {why}", story.seed);
        let last = plan.last.then(|| plan.options.clone());
        let crashed = one_life(&shared, plan, &config, &disk).map_err(told)?;
        let loss = match crashed {
            false => Loss::Nothing,
            true if rng.one_in(3) => Loss::Process,
            true => Loss::Power,
        };
        shared.history.lock().lose(loss);
        let mut tally = shared.tally.lock();
        match loss {
            Loss::Nothing => tally.closes += 1,
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
        if let Some(options) = last {
            leaks(&disk, options).map_err(told)?;
        }
    }
    let tally = shared.tally.lock().clone();
    Ok(tally)
}

/// Runs one life. True when it ended with a crash.
fn one_life(
    shared: &Arc<Shared>,
    plan: Plan,
    config: &SimConfig,
    disk: &Disk,
) -> Result<bool, String> {
    *shared.open.lock() = false;
    let inner = shared.clone();
    let outcome = SimEnv::run(config, disk.fs(), move |env| live(&env, &inner, &plan));
    let mut tally = shared.tally.lock();
    tally.steps += outcome.steps;
    tally.hash = tally.hash.rotate_left(1) ^ outcome.hash;
    tally.calls += outcome.device.calls.values().sum::<u64>();
    tally.mutating += outcome.device.mutating;
    tally.abandoned += outcome.abandoned as u64;
    tally.cut_while_opening += u64::from(!*shared.open.lock());
    match outcome.end {
        End::Done(Ok(())) if outcome.running > 0 => {
            Err(format!("{} tasks still run after close\n{}", outcome.running, outcome.tail))
        }
        End::Done(Ok(())) => Ok(false),
        End::Crashed => Ok(true),
        End::Done(Err(why)) | End::Failed(why) => Err(format!("{why}\n{}", outcome.tail)),
    }
}

/// Files that an orderly close left behind, though no tree shows them: the next opening removes
/// them.
fn leaks(disk: &Disk, options: Options) -> Result<(), String> {
    let ssts = || -> BTreeSet<PathBuf> {
        let files = disk.files().into_keys();
        files.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect()
    };
    let before = ssts();
    let outcome = SimEnv::run(&SimConfig::new(0), disk.fs(), move |env| {
        let world = World::open(&env, &options).map_err(|error| format!("reopen: {error}"))?;
        world.close().map_err(|error| format!("close: {error}"))
    });
    match outcome.end {
        End::Done(Ok(())) => {}
        other => return Err(format!("{other:?}\n{}", outcome.tail)),
    }
    let leaked: Vec<_> = before.difference(&ssts()).cloned().collect();
    if leaked.is_empty() { Ok(()) } else { Err(format!("files nobody needs: {leaked:?}")) }
}

/// What one life is to be.
#[derive(Clone)]
struct Plan {
    seed: u64,
    options: Options,
    ops: u64,
    last: bool,
}

impl Plan {
    fn new(story: &Story, shape: &str, last: bool, rng: &mut Rng) -> Self {
        let mut options = tiny_options(shape, rng);
        (story.tweak)(&mut options);
        Self { seed: rng.u64(), options, ops: rng.between(1, story.ops), last }
    }

    fn config(&self, rng: &mut Rng) -> SimConfig {
        let mut config = SimConfig::new(self.seed);
        if !self.last {
            match rng.below(5) {
                // Early: in create, open or recovery.
                0 => config.device.crash_point = Some(rng.below(100)),
                1 | 2 => config.device.crash_point = Some(rng.below(20 + self.ops * 8)),
                3 => config.power_cut = PowerCut::AtStep(rng.below(50 + self.ops * 60)),
                _ => {}
            }
        }
        let slowness = *rng.pick(&[1, 1, 10]);
        config.device = DeviceConfig { slowness, ..config.device };
        config
    }
}

/// One life of the store.
fn live(env: &Arc<SimEnv>, shared: &Arc<Shared>, plan: &Plan) -> Result<(), String> {
    let world = World::open(env, &plan.options).map_err(|error| format!("open: {error}"))?;
    let view = world.contents().map_err(|error| format!("first look: {error}"))?;
    note_reopened(shared, &view)?;
    *shared.open.lock() = true;
    let mut rng = Rng::new(plan.seed);
    let clients = shared.history.lock().issued().len();
    let mut tasks = Vec::new();
    for client in 0..clients {
        let mut actor = Actor {
            client,
            world: world.clone(),
            env: env.clone(),
            shared: shared.clone(),
            rng: rng.fork(client as u64),
            held: Vec::new(),
        };
        let ops = plan.ops;
        tasks.push(env.task(&format!("client {client}"), move || actor.run(ops)));
    }
    let results: Vec<_> = tasks.into_iter().map(|task| task.join()).collect();
    for result in results {
        result.ok_or("a client vanished")??;
    }
    finish(shared, world)
}

fn note_reopened(shared: &Shared, view: &Contents) -> Result<(), String> {
    let mut history = shared.history.lock();
    let (acknowledged, issued) = (history.acknowledged(), history.issued());
    let cut = history.reopened(view)?;
    let mut tally = shared.tally.lock();
    for (client, shown) in cut.iter().enumerate() {
        tally.lost += acknowledged[client].saturating_sub(*shown);
        tally.indeterminate += shown.saturating_sub(acknowledged[client]).min(issued[client]);
    }
    Ok(())
}

/// Progress once the clients are done, a last look, and the close.
fn finish(shared: &Shared, world: World) -> Result<(), String> {
    let told = |error: Error| format!("at the end: {error}");
    world.flush().map_err(told)?;
    world.wait_idle().map_err(told)?;
    let view = world.contents().map_err(told)?;
    let history = shared.history.lock().clone();
    let all = history.issued();
    history.check(&view, &all, &all).map_err(|why| format!("at the end: {why}"))?;
    world.close().map_err(told)
}

/// One client.
struct Actor {
    client: usize,
    world: World,
    env: Arc<SimEnv>,
    shared: Arc<Shared>,
    rng: Rng,
    /// Snapshots, with what they must and may show.
    held: Vec<(View, Cut, Cut)>,
}

impl Actor {
    fn run(&mut self, ops: u64) -> Result<(), String> {
        for _ in 0..ops {
            let result = match self.rng.below(100) {
                0..60 => self.write(),
                60..75 => self.read_own(),
                75..85 => self.read_shared(),
                85..90 => self.take_snapshot(),
                90..94 => self.check_snapshot(),
                94 => self.world.flush(),
                95 => self.world.wait_idle(),
                _ => {
                    self.env.sleep(Duration::from_micros(self.rng.below(5_000)));
                    Ok(())
                }
            };
            if let Err(error) = result {
                return Err(format!("client {}: {error}", self.client));
            }
        }
        while !self.held.is_empty() {
            self.check_snapshot().map_err(|error| format!("client {}: {error}", self.client))?;
        }
        Ok(())
    }

    fn own_key(&mut self) -> Vec<u8> {
        format!("c{:02}/k{:02}", self.client, self.rng.below(30)).into_bytes()
    }

    fn shared_key(&mut self) -> Vec<u8> {
        format!("shared/{}", self.rng.below(6)).into_bytes()
    }

    fn padding(&mut self) -> usize {
        match self.rng.below(400) {
            // Beyond the size at which batches go into the WAL in fragments.
            0 => 200_000 + self.rng.index(400_000),
            1..10 => self.rng.index(6_000),
            10..100 => self.rng.index(400),
            _ => self.rng.index(40),
        }
    }

    fn write(&mut self) -> Result<()> {
        let number = self.shared.history.lock().next_number(self.client);
        let mut writes = Vec::new();
        for _ in 0..self.rng.between(1, 6) {
            let space = self.rng.index(SPACES.len());
            let shared = self.rng.one_in(4);
            let key = if shared { self.shared_key() } else { self.own_key() };
            let padding = self.padding();
            let value = match shared {
                true => shared_value(self.client, number, padding),
                false => format!("{number}{}", "v".repeat(padding)).into_bytes(),
            };
            let value = (!self.rng.one_in(4)).then_some(value);
            writes.push(Write { space, key, value });
        }
        let promise =
            *self.rng.pick(&[Promise::Lazy, Promise::Process, Promise::Process, Promise::Power]);
        let writes = self.shared.history.lock().issue(self.client, writes);
        let begun = self.env.now();
        let mut options = WriteOptions::durability(durability(promise));
        if self.rng.one_in(20) {
            options = options.deadline(Duration::from_micros(self.rng.below(500)));
        }
        let result = self.world.write_with(&writes, options);
        let mut tally = self.shared.tally.lock();
        tally.longest_wait = tally.longest_wait.max(self.env.now() - begun);
        match result {
            Ok(()) => {
                tally.batches += 1;
                self.shared.history.lock().acknowledge(self.client, promise);
            }
            Err(Error::Busy { .. }) if options.deadline.is_some() => {
                tally.busy += 1;
                self.shared.history.lock().refuse(self.client);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Own keys hold exactly what was written last, whatever the others do.
    fn read_own(&mut self) -> Result<()> {
        let space = self.rng.index(SPACES.len());
        let keys: Vec<_> = (0..self.rng.between(1, 4)).map(|_| self.own_key()).collect();
        let found = match self.rng.below(3) {
            0 => self.world.multi_get(space, &keys)?,
            1 => keys.iter().map(|key| self.world.get(space, key)).collect::<Result<_>>()?,
            _ => {
                let prefix = format!("c{:02}/", self.client).into_bytes();
                let all = pairs(self.world.prefix(space, &prefix))?;
                let find = |key: &Vec<u8>| all.iter().find(|pair| pair.0 == *key);
                keys.iter().map(|key| find(key).map(|pair| pair.1.clone())).collect()
            }
        };
        let history = self.shared.history.lock();
        for (key, found) in keys.iter().zip(found) {
            let expected = history.own_value(self.client, space, key);
            if expected != found.as_deref() {
                return Err(wrong(format!(
                    "keyspace {space}, own key {}: expected {:?}, found {:?}",
                    String::from_utf8_lossy(key),
                    expected.map(<[u8]>::len),
                    found.map(|value| value.len())
                )));
            }
        }
        self.shared.tally.lock().checks += 1;
        Ok(())
    }

    fn read_shared(&mut self) -> Result<()> {
        let (space, key) = (self.rng.index(SPACES.len()), self.shared_key());
        let must = self.shared.history.lock().acknowledged();
        let found = match self.rng.one_in(2) {
            true => self.world.get(space, &key)?,
            false => {
                let only = (Bound::Included(key.clone()), Bound::Included(key.clone()));
                pairs(self.world.iter(space, &only))?.pop().map(|pair| pair.1)
            }
        };
        let history = self.shared.history.lock();
        let may = history.issued();
        history.check_shared(space, &key, found.as_deref(), &must, &may).map_err(wrong)?;
        self.shared.tally.lock().checks += 1;
        Ok(())
    }

    fn take_snapshot(&mut self) -> Result<()> {
        let must = self.shared.history.lock().acknowledged();
        let view = self.world.snapshot();
        let may = self.shared.history.lock().issued();
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
        let space = self.rng.index(SPACES.len());
        let some = pairs(view.iter(space, &ALL))?;
        if let Some((key, value)) = some.get(self.rng.index(some.len().max(1)))
            && view.get(space, key)?.as_ref() != Some(value)
        {
            return Err(wrong("a snapshot's get and its iterator differ".into()));
        }
        let history = self.shared.history.lock();
        history.check(&found, &must, &may).map_err(|why| wrong(format!("snapshot: {why}")))?;
        self.shared.tally.lock().checks += 1;
        Ok(())
    }
}

/// A wrong answer, on the way of the engine's own errors.
fn wrong(why: String) -> Error {
    Error::Internal(format!("WRONG ANSWER: {why}"))
}
