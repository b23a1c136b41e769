//! Opens a store.
//!
//! The steps, in order. Steps 1 to 4 change no file of an existing store: they only create a
//! missing LOCK, and the new WAL under its temporary name, which a failure removes. So a store that
//! is refused because of its contents stays unchanged.
//! 1. Check whether the folder is missing, empty, a store, or something else. Create it if the
//!    options allow it.
//! 2. Take the exclusive LOCK, held until the store is closed.
//! 3. Read the manifest, or create it. Check that every tree is valid, every file exists and every
//!    merge operator is registered. With `salvage_ssts`, look for SSTs to drop.
//! 4. Replay the WAL into memtables, and copy the batches that are not in SSTs yet into a new WAL
//!    with a temporary name.
//! 5. Make the manifest durable, without the dropped SSTs. Remove unreferenced files, which
//!    interrupted jobs and snapshots left. If the device has no room for the new WAL of step 4,
//!    this step comes before it, after the WAL was read completely.
//! 6. Start the new WAL, which replaces the older ones. From here on the new state is the store's.
//! 7. Remove the older WALs. Record the new one in the manifest. If a mechanism plans with the
//!    device, measure its throughput.
//! 8. Start the worker that flushes. It starts the others when there are jobs.
//!
//! A file that cannot be removed is reported and stays; the next open tries again.
//!
//! A read-only open executes steps 1 to 4 and writes nothing. It takes a shared lock, or none if
//! there is no LOCK file, because the folder was never opened as a store. It ignores a torn end of
//! the manifest instead of cutting it off, and starts no worker. If another process may write the
//! store (`follow`), the open takes no lock, holds the SSTs open, and starts again while that
//! process changes the files.

use crate::aside::Lost;
use crate::catalog::{
    Catalog, DEFAULT_KEYSPACE, KeyspaceInfo, KeyspaceOptions, Trees, regions_from,
};
use crate::device;
use crate::engine::{Engine, Opened};
use crate::folder::{FilesThere, Settling, check_numbers, remove};
use crate::follow::{bound_of, check_later, check_wals, hold, patiently, trees_of};
use crate::log as wal;
use crate::memtable::{ArenaPool, Memtable};
use crate::options::Options;
use crate::read::table_cache::Held;
use crate::read::view::Views;
use crate::recovery::{Begun, Logged, Memtables, Recovery};
use crate::rules::{Extensions, Own};
use crate::shared::channel::{Channel, Work};
use crate::shared::clock::Clock;
use crate::shared::counters::Counters;
use crate::shared::events::{Events, Listener};
use crate::shared::gate::Gate;
use crate::shared::health::Health;
use crate::shared::memory::Memory;
use crate::shared::numbers::Numbers;
use crate::shared::published::Published;
use crate::shared::reserve::Reserve;
use crate::shared::space::Space;
use crate::shared::{Shared, no_thread};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::trace::Tracer;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::Event;
use vlsm_core::{Bytes, Error, Micros, Result, Seq, Version};
use vlsm_disk::Env;
use vlsm_disk::env::{Condition, Priority};
use vlsm_disk::fs::Lock;
use vlsm_disk::io::{Done, IoPool};
use vlsm_disk::manifest::{self, Manifest, Presence, State};
use vlsm_disk::wal::reader::Recovered;
use vlsm_policy::{Deciders, DeviceMap, Shape};

/// The arguments of an open.
#[derive(Clone)]
pub(crate) struct Opening {
    pub options: Options,
    pub read_only: bool,
    /// Whether another process may write the store meanwhile. Implies `read_only`.
    pub follow: bool,
    /// Whether SSTs may be missing.
    pub partial: bool,
    pub listener: Option<Listener>,
    pub extensions: Extensions,
    pub default_keyspace: Option<KeyspaceOptions>,
    /// Whether keyspaces may need merge operators that are not among the extensions.
    pub keep_unknown: bool,
}

impl Opening {
    /// Refuses options that are impossible for any store.
    fn check(&self) -> Result<()> {
        self.options.check()?;
        self.extensions.check()?;
        if self.follow && (self.partial || self.options.salvage_wal || self.options.salvage_ssts) {
            let why = "a store that another process may be writing cannot be salvaged, because its \
                       files change: close it there, and open it with `read_only`";
            return Err(Error::InvalidArgument(why.into()));
        }
        if self.partial && !self.read_only {
            let why = "allow_missing_ssts works only together with read_only: a store that lacks \
                       SSTs cannot be written to";
            return Err(Error::InvalidArgument(why.into()));
        }
        if self.options.salvage_ssts && self.read_only {
            let why = "salvage_ssts drops SSTs from the store, which a read-only store does not \
                       allow: to read what is left use Keyspace::salvage";
            return Err(Error::InvalidArgument(why.into()));
        }
        if let Some(options) = &self.default_keyspace {
            options.check()?;
            let operator = options.merge_operator.as_deref();
            let names = (DEFAULT_KEYSPACE, DEFAULT_KEYSPACE);
            self.extensions.rules(names, operator, options.ttl, Own::default())?;
        }
        Ok(())
    }
}

/// Opens the store in a folder.
pub(crate) fn open(env: Arc<dyn Env>, dir: &Path, opening: Opening) -> Result<Arc<Engine>> {
    opening.check()?;
    if opening.follow {
        return patiently(&env, dir, || Ok(open_once(env.clone(), dir, opening.clone())?));
    }
    open_once(env.clone(), dir, opening)
}

fn open_once(env: Arc<dyn Env>, dir: &Path, opening: Opening) -> Result<Arc<Engine>> {
    let (start, lock) = (env.now(), lock_of(&env, dir, &opening)?);
    let Opening { options, read_only, follow, listener, .. } = opening;
    let Opening { extensions, default_keyspace, partial, keep_unknown, .. } = opening;
    let (log_in, default) = ((options.log && !read_only).then_some(dir), default_keyspace.as_ref());
    let (events, extensions) = events_of(&env, log_in, listener, extensions);
    let (manifest, mut state) = manifest_of(&env, dir, read_only, (&options, default))?;
    let lost = Lost::find(&*env, dir, options.salvage_ssts, &mut state)?;
    let (shape, deciders) = mechanisms_of(&options)?;
    let (clock, extensions) = (clock_of(&env, &state), extensions.keeping(keep_unknown));
    let keyspaces = keyspaces_of(&clock, &state, &extensions, default)?;
    check_numbers(dir, &state, read_only)?;
    let there = FilesThere::checked(&*env, dir, &state, &*shape, partial)?;
    let (place, next_file) = (manifest.place(), there.next_number(&state));
    let folder = Settling::new(&env, dir, &events, &state, &there, &lost, manifest);
    let ((work, done), next_memtable) = (Work::new(&*env), &counter());
    let (memory, arenas) = memory_of(&options, work.clone());
    let from = Logged {
        env: &env,
        dir,
        events: &events,
        state: &state,
        options: &options,
        arenas: &arenas,
        next_memtable,
        clock: &clock,
        read_only,
        bound: follow.then(|| bound_of(&memory)),
    };
    let io = io_of(&env, dir, &options, done)?;
    let log = Recovery { folder: &folder, from, number: next_file }.begin()?;
    let Begun { memtables, last_seq, recovered, live, wal } = log;
    let held = if follow { held_of(&from, &recovered, place, last_seq)? } else { Held::new() };
    let manifest = folder.into_manifest();
    let device = device_of(&env, dir, &options, &deciders, read_only)?;
    let shared = Arc::new(Shared {
        health: Health::new(events.clone(), read_only),
        space: Space::default(),
        reserve: Reserve::default(),
        counters: Counters::default(),
        published: Published::default(),
        numbers: Numbers::new(next_file + 1, state.numbers.next_run, next_memtable()),
        channel: Channel::new(&*env, work),
        gate: Gate::new(env.condition(Duration::ZERO)),
        arenas: Arc::new(arenas),
        store_uid: state.store_uid,
        tracer: Tracer::new(),
        dir: dir.to_owned(),
        env,
        options,
        events,
        memory,
        io,
        clock,
    });
    let views = views_of(&shared, &keyspaces, &state, memtables, last_seq, follow);
    let engine = Engine::compose(Opened {
        catalog: Catalog::new(state.store_uid, shared.clock.clone(), extensions, keyspaces),
        log: wal::Log::new(&shared, last_seq, wal, live),
        manifest: (manifest, state),
        views,
        shape,
        deciders,
        device,
        lock,
        shared,
    });
    begin_work(&engine, read_only, held, &recovered).inspect_err(|_| end_threads(&engine))?;
    Ok(tell_opened(engine, &recovered, start))
}

/// The clock by which values expire. It continues from the time that the manifest recorded.
fn clock_of(env: &Arc<dyn Env>, state: &State) -> Arc<Clock> {
    Arc::new(Clock::new(env, state.clock))
}

/// Steps 1 and 2. A store that another process may write is not locked.
fn lock_of(env: &Arc<dyn Env>, dir: &Path, opening: &Opening) -> Result<Option<Box<dyn Lock>>> {
    if opening.follow {
        check_there(env, dir)?;
        return Ok(None);
    }
    match opening.read_only {
        true => enter_read_only(env, dir),
        false => enter(env, dir, &opening.options),
    }
}

/// Opens the SSTs of a store that another process may write, and checks that the process has not
/// replaced any WAL that was read.
fn held_of(
    from: &Logged<'_>,
    recovered: &Recovered,
    place: (u64, u64),
    last_seq: Seq,
) -> Result<Held> {
    let (fs, direct) = (&**from.env.fs(), from.options.direct_reads);
    let held = hold(fs, from.dir, from.state, &Held::new(), direct)?;
    check_wals(fs, recovered)?;
    check_later(fs, from.dir, (from.state, place), last_seq)?;
    Ok(held)
}

/// Returns a counter that starts at 1.
fn counter() -> impl Fn() -> u64 {
    let next = AtomicU64::new(1);
    move || next.fetch_add(1, Ordering::Relaxed)
}

/// Makes the events of the store, and gives them to the user's extensions, which report panics
/// there.
fn events_of(
    env: &Arc<dyn Env>,
    log_in: Option<&Path>,
    listener: Option<Listener>,
    extensions: Extensions,
) -> (Arc<Events>, Extensions) {
    let events = Arc::new(Events::new(env.clone(), listener, log_in));
    (events.clone(), Extensions { events: Some(events), ..extensions })
}

/// The threads for the file calls of the store.
fn io_of(env: &Arc<dyn Env>, dir: &Path, options: &Options, done: Done) -> Result<IoPool> {
    let pool = IoPool::new(env, options.io_threads, Priority::Normal, done);
    let pool = pool.map_err(|error| no_thread(dir, error))?;
    if !options.policy.tree.jobs_yield {
        pool.bulk().set_unlimited();
    }
    Ok(pool)
}

/// Returns the throughput of the device, and measures it if it is unknown. The map is empty if no
/// mechanism plans with it, or if the store is opened read-only.
fn device_of(
    env: &Arc<dyn Env>,
    dir: &Path,
    options: &Options,
    deciders: &Deciders,
    read_only: bool,
) -> Result<Arc<DeviceMap>> {
    let Deciders { schedule, admission } = deciders;
    let planned = schedule.needs_device() || admission.needs_device();
    if planned && !read_only { device::map(env, dir, options) } else { Ok(Arc::default()) }
}

/// The mechanisms that the options name.
fn mechanisms_of(options: &Options) -> Result<(Arc<dyn Shape>, Deciders)> {
    let (shape, schedule, admission) = options.policy.build()?;
    Ok((shape, Deciders { schedule, admission }))
}

/// The ledger, and the memory of memtables.
fn memory_of(options: &Options, wake: Arc<dyn Condition>) -> (Arc<Memory>, ArenaPool) {
    let memory = Arc::new(Memory::new(options, arena_bytes_of(options), wake));
    let arenas = arenas_of(options, &memory);
    (memory, arenas)
}

/// The memory of all memtables of one tree.
fn arena_bytes_of(options: &Options) -> u64 {
    let tree = &options.policy.tree;
    (Memtable::block_bytes(tree.memtable_bytes.0 as usize) * tree.memtable_count) as u64
}

/// The pool of the memtables' memory. It keeps as many blocks as one tree uses and one more, so
/// that no block has to be allocated while a reader holds a flushed memtable.
fn arenas_of(options: &Options, memory: &Memory) -> ArenaPool {
    let bytes = Memtable::block_bytes(options.policy.tree.memtable_bytes.0 as usize);
    let count = options.policy.tree.memtable_count;
    let budget = memory.memtable_share().min((bytes * (count + 1)) as u64);
    ArenaPool::new(bytes, count, budget, memory.arenas.clone())
}

/// Steps 1 and 2.
fn enter(env: &Arc<dyn Env>, dir: &Path, options: &Options) -> Result<Option<Box<dyn Lock>>> {
    let fs = env.fs();
    let presence = Manifest::probe(&**fs, dir)?;
    match presence {
        Presence::Missing | Presence::Empty if !options.create_if_missing => {
            return Err(Error::Missing { path: dir.to_owned() });
        }
        Presence::Store if options.error_if_exists => {
            return Err(Error::AlreadyExists { path: dir.to_owned() });
        }
        Presence::Missing => {
            let made = fs.create_dir_all(dir);
            made.map_err(|error| Error::io("cannot make folder", dir, error))?;
            let parent = match dir.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            let synced = fs.sync_dir(parent);
            synced.map_err(|error| Error::io("cannot sync folder", parent, error))?;
        }
        Presence::Empty | Presence::Store => {}
    }
    let path = dir.join("LOCK");
    let lock = fs.lock(&path).map_err(|error| Error::io("cannot lock", &path, error))?;
    lock.map(Some).ok_or_else(|| locked(env, dir, &path))
}

/// The error for a store that another handle or process holds open.
fn locked(env: &Arc<dyn Env>, dir: &Path, lock: &Path) -> Error {
    Error::Locked { path: dir.to_owned(), holder: env.fs().lock_holder(lock) }
}

/// Steps 1 and 2 of a read-only open. Several readers may hold the lock at the same time; it
/// excludes writers.
pub(crate) fn enter_read_only(env: &Arc<dyn Env>, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    check_there(env, dir)?;
    let fs = env.fs();
    let path = dir.join("LOCK");
    match fs.lock_shared(&path) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(locked(env, dir, &path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("cannot lock", &path, error)),
    }
}

/// Checks that the folder holds a store.
fn check_there(env: &Arc<dyn Env>, dir: &Path) -> Result<()> {
    match Manifest::probe(&**env.fs(), dir)? {
        Presence::Store => Ok(()),
        Presence::Missing | Presence::Empty => Err(Error::Missing { path: dir.to_owned() }),
    }
}

/// Reads the manifest, or creates that of a new store.
fn manifest_of(
    env: &Arc<dyn Env>,
    dir: &Path,
    read_only: bool,
    (store, default): (&Options, Option<&KeyspaceOptions>),
) -> Result<(Manifest, State)> {
    if read_only {
        return Manifest::open_read_only(env, dir);
    }
    if Manifest::probe(&**env.fs(), dir)? == Presence::Store {
        return Manifest::open(env, dir);
    }
    let options = default.cloned().unwrap_or_default();
    options.check_within(store)?;
    let default = manifest::Keyspace {
        id: 0,
        name: DEFAULT_KEYSPACE.to_owned(),
        options: options.to_text()?,
        regions: regions_from(&options.splits, 0),
    };
    let numbers = manifest::Numbers {
        next_file: 1,
        next_keyspace: 1,
        next_tree: default.regions.len() as u64,
        next_run: 1,
        ..manifest::Numbers::default()
    };
    let trees = default.regions.iter().map(|region| (region.tree, Version::default()));
    let state = State {
        store_uid: env.random(),
        trees: trees.collect(),
        keyspaces: BTreeMap::from([(0, default)]),
        numbers,
        wals: Vec::new(),
        clock: Micros::ZERO,
    };
    Ok((Manifest::create(env, dir, &state)?, state))
}

/// The keyspaces, each with its merge operator and filter.
fn keyspaces_of(
    clock: &Arc<Clock>,
    state: &State,
    extensions: &Extensions,
    default: Option<&KeyspaceOptions>,
) -> Result<Vec<Arc<KeyspaceInfo>>> {
    let mut infos = Vec::with_capacity(state.keyspaces.len());
    for keyspace in state.keyspaces.values() {
        let info = KeyspaceInfo::of(clock, state.store_uid, keyspace, extensions)?;
        if let Some(asked) = default.filter(|_| info.made().name == DEFAULT_KEYSPACE) {
            info.check_options(asked)?;
        }
        infos.push(Arc::new(info));
    }
    Ok(infos)
}

/// Makes the first view: versions from the manifest, memtables from the WAL.
fn views_of(
    shared: &Shared,
    keyspaces: &[Arc<KeyspaceInfo>],
    state: &State,
    memtables: Memtables,
    last_seq: Seq,
    follow: bool,
) -> Views {
    let views = Views::new(last_seq);
    let rules = |info: &Arc<KeyspaceInfo>| {
        let rules = info.made().rules.clone();
        info.trees().into_iter().flat_map(Trees::iter).map(move |tree| (tree, rules.clone()))
    };
    let rules = keyspaces.iter().flat_map(rules).collect();
    let trees = trees_of(shared, &rules, state, memtables);
    match follow {
        true => views.follow(trees, &[], last_seq),
        false => views.add(trees),
    }
    views
}

/// Steps 7 and 8.
fn begin_work(engine: &Engine, read_only: bool, held: Held, recovered: &Recovered) -> Result<()> {
    engine.reader.tables().hold(held);
    if read_only {
        return Ok(());
    }
    let Engine { shared, log, installer, writer, control, .. } = engine;
    let view = engine.reader.views().load_full();
    let tables = view.trees().flat_map(|tree| tree.version.tables());
    log.note_linked(tables.flat_map(|(_, table)| table.file.wals.iter().copied()));
    shared.counters.wal_filled_bytes.add(log.begun_bytes());
    remove(&shared.env, &shared.events, &recovered.unused);
    match installer.record_wals() {
        // The next install records the WALs; until then a lost WAL could go unnoticed.
        Err(Error::NoSpace { .. }) => {}
        recorded => recorded?,
    }
    // The recovered memtables may exceed their share; then writers wait for a flush.
    writer.bound_recovered();
    control.mark_all();
    control.start_workers()
}

/// Ends the threads that a failed open had started.
fn end_threads(engine: &Engine) {
    engine.shared.health.close();
    engine.control.end_workers();
    engine.shared.io.shutdown();
}

fn tell_opened(engine: Arc<Engine>, recovered: &Recovered, start: Duration) -> Arc<Engine> {
    let shared = &engine.shared;
    if let Some(error) = recovered.damage.clone() {
        shared.emit(Event::WalDamaged { error });
    }
    for what in shared.env.slow_paths() {
        shared.emit(Event::SlowPath { what });
    }
    let took = Micros(shared.env.now().saturating_sub(start).as_micros() as u64);
    let wal_bytes = Bytes(recovered.live.iter().map(|live| live.len).sum());
    shared.emit(Event::Opened { batches: recovered.batches, wal_bytes, took });
    engine
}
