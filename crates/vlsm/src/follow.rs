//! Follows a store that another process writes: determines the state that a reader shows, and
//! advances it.
//!
//! The reader takes no lock and writes nothing, so the writer neither waits for it nor knows of it.
//! A *look* reads the state of the store at one moment:
//!
//! 1. Read the manifest. Its trees are one state of the store.
//! 2. Replay the WALs from the smallest number that the manifest needs, into new memtables. They
//!    contain all batches that are in no SST of step 1, because the writer removes or recycles a
//!    WAL only after a later manifest record no longer needs it.
//! 3. Open all SSTs of the trees, and hold them open: the writer may remove their names at any
//!    time.
//! 4. If the manifest has changed since step 1, read the appended records. No write of step 2 may
//!    be newer than an ingest or a change of a keyspace among them. If the manifest was replaced,
//!    this cannot be checked, and the look fails ([`check_later`]).
//! 5. Check that the WAL files still hold the WALs that were read ([`LiveWal::is_there`]). The
//!    header of a recycled file changes before its records do.
//!
//! Any step may fail because the writer continued meanwhile: it has replaced the manifest, recycled
//! a WAL, removed an SST, or written only half of a record. Then the look begins again
//! ([`patiently`]). An error is returned only if it repeats while the manifest does not change. A
//! torn end of the last WAL is no error: a later look reads its rest.
//!
//! [`catch_up`] takes a look and makes it the view, all trees at once. It takes no look if the
//! manifest and the WAL end where they ended before. SSTs that are in both states keep their open
//! readers.
//!
//! Invariants: the contents are those that a recovery would find at the moment of the look, which
//! is an exact prefix of the writer's batches. The sequence number never falls.
//!
//! The other process compacts without knowing the snapshots and iterators here. So each of them
//! keeps the view with which it began (`read/view`), and a file stays open until the last of them
//! is dropped.
//!
//! Memory: the manifest's tables, one WAL file, and the memtables. During a look the memtables of
//! both states exist. All memtables together stay below 7/8 of `memory_limit`. A look that needs
//! more fails with [`Error::CannotFollow`], and the older state stays.
//!
//! Threads and locks: calls block, and may come from any thread; one thread catches up at a time.

use crate::engine::{Engine, Seen};
use crate::memtable::Memtable;
use crate::read::table_cache::{Held, HeldFile};
use crate::read::view::{StoreView, TreeView};
use crate::recovery::{Logged, MemoryBound, Memtables};
use crate::rules::Rules;
use crate::shared::Shared;
use crate::shared::memory::Memory;
use crate::sync::MutexGuard;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{
    Change, Error, FileNumber, FileUid, MemtableId, Result, Seq, Table, TreeId, Version,
};
use vlsm_disk::Env;
use vlsm_disk::fs::{Fs, OpenOptions};
use vlsm_disk::manifest::{self, Record, State};
use vlsm_disk::sst::{sst_path, values_path};
use vlsm_disk::wal::Rewrite;
use vlsm_disk::wal::reader::{LiveWal, Recovered};

/// An error that repeats in this number of consecutive looks, while the manifest does not change,
/// is real.
const SAME_MAX: u32 = 8;
/// The most looks in one call.
const LOOKS_MAX: u32 = 1000;
/// No look begins this long after the first look of a call.
const TIME_MAX: Duration = Duration::from_secs(30);
/// The pause before the second look. It doubles while the manifest does not change.
const PAUSE: Duration = Duration::from_millis(1);

/// A failed look.
pub(crate) enum Failure {
    /// Another look may succeed.
    Passes(Error),
    Stays(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let passes = match &error {
            Error::Corruption { .. } => true,
            Error::Io { source, .. } => {
                matches!(source.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof)
            }
            _ => false,
        };
        if passes { Self::Passes(error) } else { Self::Stays(error) }
    }
}

/// The state of a store at one moment.
pub(crate) struct Look {
    pub state: State,
    pub memtables: Memtables,
    pub last_seq: Seq,
    pub recovered: Recovered,
    /// The SSTs of the state.
    pub held: Held,
}

/// Repeats looks until one succeeds or its failure is permanent.
pub(crate) fn patiently<R>(
    env: &Arc<dyn Env>,
    dir: &Path,
    mut look: impl FnMut() -> Result<R, Failure>,
) -> Result<R> {
    let (fs, condition) = (env.fs(), env.condition(Duration::ZERO));
    let (begun, mut same, mut looks) = (env.now(), 0, 0);
    let last = loop {
        let before = manifest::log::position(&**fs, dir);
        let error = match look() {
            Ok(seen) => return Ok(seen),
            Err(Failure::Stays(error)) => return Err(error),
            Err(Failure::Passes(error)) => error,
        };
        looks += 1;
        same = if manifest::log::position(&**fs, dir) == before { same + 1 } else { 0 };
        if same >= SAME_MAX {
            return Err(error);
        }
        let now = env.now();
        if looks >= LOOKS_MAX || now >= begun + TIME_MAX {
            break error;
        }
        condition.wait(condition.epoch(), Some(now + PAUSE * (1 << same)));
    };
    let secs = env.now().saturating_sub(begun).as_secs();
    let why = format!(
        "it was read {looks} times in {secs} s, and each time its files changed meanwhile (the \
         last time: {last}): try again when fewer writes come, or give the process that writes \
         larger memtables"
    );
    Err(Error::CannotFollow { path: dir.to_owned(), why })
}

/// The memory bound of all memtables of a store that is followed.
pub(crate) fn bound_of(memory: &Memory) -> MemoryBound<'_> {
    MemoryBound { gauges: &memory.arenas, bytes: memory.limit() / 8 * 7 }
}

/// Checks that the WAL files still hold the WALs that were read.
pub(crate) fn check_wals(fs: &dyn Fs, recovered: &Recovered) -> Result<()> {
    match recovered.live.iter().find(|wal| !wal.is_there(fs)) {
        None => Ok(()),
        Some(wal) => Err(Error::corruption(&wal.path, 0, "it became another WAL meanwhile")),
    }
}

/// Checks that no write up to `last_seq`, the end of the WALs that were read after `state`, is
/// newer than an ingest or a change of a keyspace that came after `state`. Ingests and these
/// changes are only in the manifest. `place` is the position at which the reading of the manifest
/// ended.
///
/// It reads the manifest's records, because comparing two states is not enough: a compaction may
/// already have removed an ingested file.
pub(crate) fn check_later(
    fs: &dyn Fs,
    dir: &Path,
    (state, place): (&State, (u64, u64)),
    last_seq: Seq,
) -> Result<()> {
    if manifest::log::position(fs, dir) == place || planted::is(Bug::LaterUnread) {
        return Ok(());
    }
    let changed = |why| Err(Error::corruption(dir, 0, why));
    let Some(changes) = manifest::log::changes_after(fs, dir, place)? else {
        return changed("its manifest was replaced while it was read");
    };
    let tables = || state.trees.values().flat_map(Version::tables).map(|(_, table)| table);
    // A compaction that moves a table adds it again.
    let is_known = |uid: FileUid| tables().any(|table| table.file.uid == uid);
    let is_ingest = |change: &Change| match change {
        Change::Add { table, .. } => {
            table.file.global_seq.is_some_and(|seq| seq <= last_seq) && !is_known(table.file.uid)
        }
        Change::Remove { .. } => false,
    };
    let matters = |record: &Record| match record {
        Record::CreateKeyspace(_) | Record::DropKeyspace(_) | Record::AlterKeyspace { .. } => true,
        Record::Edit(_, edit) => edit.changes.iter().any(is_ingest),
        Record::Numbers(_) | Record::Wals(_) | Record::Clock(_) => false,
    };
    match changes.iter().any(matters) {
        true => changed("files were ingested, or keyspaces changed, while it was read"),
        false => Ok(()),
    }
}

/// Opens the SSTs of a state that are not among the `known` ones. Returns all SSTs of the state.
pub(crate) fn hold(
    fs: &dyn Fs,
    dir: &Path,
    state: &State,
    known: &Held,
    direct: bool,
) -> Result<Held> {
    let max = fs.files_max().map_or(usize::MAX, |max| max / 4 * 3);
    let mut held = Held::new();
    let mut logged = 0;
    for (_, table) in state.trees.values().flat_map(Version::tables) {
        let key = (table.file.number, table.file.uid);
        if held.contains_key(&key) {
            continue;
        }
        let there = known.get(&key).filter(|known| *known.meta == *table.file);
        let file = match there {
            Some(known) => known.clone(),
            None if held.len() + logged >= max => return Err(too_many(dir, state, max)),
            None => {
                let path = sst_path(dir, table.file.number);
                let file = fs.open(&path, OpenOptions::READ.direct(direct));
                let file = file.map_err(|error| Error::io("cannot open SST", &path, error))?;
                let values = |wal: &u64| {
                    let path = values_path(&path, *wal);
                    let file = fs.open(&path, OpenOptions::READ);
                    let failed = |error| Error::io("cannot open values of SST", &path, error);
                    Ok((*wal, file.map_err(failed)?))
                };
                let values = table.file.wals.iter().map(values).collect::<Result<_>>()?;
                HeldFile { meta: table.file.clone(), file, values }
            }
        };
        logged += file.values.len();
        held.insert(key, file);
    }
    Ok(held)
}

/// The error of a store with more SSTs than can be held open.
fn too_many(dir: &Path, state: &State, max: usize) -> Error {
    let count: usize = state.trees.values().map(Version::table_count).sum();
    let why = format!(
        "it has about {count} SSTs, each has to be held open, and this process may hold {max} of \
         them: raise its limit of open files (ulimit -n)"
    );
    Error::CannotFollow { path: dir.to_owned(), why }
}

/// The trees of a state, with the rules and the memtables of each.
pub(crate) fn trees_of(
    shared: &Shared,
    rules: &BTreeMap<TreeId, Arc<Rules>>,
    state: &State,
    mut memtables: Memtables,
) -> Vec<TreeView> {
    let idle = || Memtable::idle(MemtableId(shared.numbers.next_memtable()));
    let tree = |(id, version): (&TreeId, &Version)| {
        let mut immutables = memtables.remove(id).unwrap_or_default();
        let active = immutables.pop().unwrap_or_else(idle);
        immutables.iter().for_each(|sealed| sealed.note_sealed(shared.env.now()));
        let version = Arc::new(version.clone());
        let rules = rules[id].clone();
        TreeView { id: *id, active, immutables, version, rules, mixed: false }
    };
    state.trees.iter().map(tree).collect()
}

/// Looks at the store once.
pub(crate) fn look(engine: &Engine, seen: &Seen) -> Result<Look, Failure> {
    look_from(engine, seen, state_of(engine)?, None)
}

/// Step 1 of a look: the state, and the position in the manifest at which it ends.
pub(crate) fn state_of(engine: &Engine) -> Result<(State, (u64, u64)), Failure> {
    let Shared { env, dir, store_uid, health, .. } = &*engine.shared;
    health.check_open()?;
    let found = manifest::log::read(&**env.fs(), dir)?;
    let (state, place) = (found.state, (found.number, found.end));
    if state.store_uid != *store_uid {
        let why = "another store is in its folder now: open that one".into();
        return Err(Failure::Stays(Error::CannotFollow { path: dir.clone(), why }));
    }
    Ok((state, place))
}

/// The other steps of a look. With `rewrite`, the batches that are in no SST are copied into it.
pub(crate) fn look_from(
    engine: &Engine,
    seen: &Seen,
    (state, place): (State, (u64, u64)),
    rewrite: Option<&mut Rewrite<'_>>,
) -> Result<Look, Failure> {
    let shared = &*engine.shared;
    let Shared { env, dir, events, options, arenas, clock, memory, numbers, .. } = shared;
    let fs = &**env.fs();
    let logged = Logged {
        env,
        dir,
        events,
        state: &state,
        options,
        arenas,
        next_memtable: &|| numbers.next_memtable(),
        clock,
        read_only: true,
        bound: Some(bound_of(memory)),
    };
    let (memtables, last_seq, recovered) = logged.replay(true, rewrite)?;
    let held = hold(fs, dir, &state, &engine.reader.tables().held(), options.direct_reads)?;
    check_wals(fs, &recovered)?;
    check_later(fs, dir, (&state, place), last_seq)?;
    let seen = seen.seq;
    if last_seq < seen {
        let why = format!(
            "its log ends at sequence number {last_seq} now, but {seen} was seen before: the \
             process that writes lost writes when a write to the device failed. Open it again"
        );
        return Err(Failure::Passes(Error::CannotFollow { path: dir.clone(), why }));
    }
    Ok(Look { state, memtables, last_seq, recovered, held })
}

/// Makes the later writes of another process visible. Returns the sequence number of the last
/// visible write.
pub(crate) fn catch_up(engine: &Engine) -> Result<Seq> {
    let Engine { shared, reader, .. } = engine;
    let Shared { env, dir, .. } = &**shared;
    let fs = &**env.fs();
    let mut seen = alone(engine)?;
    let is_all =
        |last: &LiveWal| manifest::log::position(fs, dir) == seen.position && last.is_end(fs, dir);
    if seen.last.as_ref().is_some_and(is_all) {
        return Ok(reader.views().visible());
    }
    let (position, look) = patiently(env, dir, || {
        let position = manifest::log::position(fs, dir);
        Ok((position, look(engine, &seen)?))
    })?;
    let (last, seq) = (look.recovered.live.last().cloned(), look.last_seq);
    show(engine, look)?;
    *seen = Seen { position, last, seq };
    shared.memory.balance();
    Ok(reader.views().visible())
}

/// Waits until no other thread catches up.
///
/// # Errors
/// [`Error::Closed`]; [`Error::InvalidArgument`] if the store is not followed.
pub(crate) fn alone(engine: &Engine) -> Result<MutexGuard<'_, Seen>> {
    let channel = &engine.shared.channel;
    if !engine.reader.views().follows() {
        let why = "this call is for a store that was opened with `Db::open_read_only`: any other \
                   handle shows all writes, and `vlsm::verify` checks a closed store";
        return Err(Error::InvalidArgument(why.into()));
    }
    loop {
        let epoch = channel.room_epoch();
        engine.shared.health.check_open()?;
        if let Some(held) = engine.catching_up.try_lock() {
            return Ok(held);
        }
        let until = engine.shared.env.now() + PAUSE;
        channel.wait_for_room(epoch, Some(until));
    }
}

/// Makes a look the view.
fn show(engine: &Engine, look: Look) -> Result<()> {
    let Engine { shared, reader, catalog, installer, .. } = engine;
    let Look { mut state, memtables, last_seq, held, .. } = look;
    let followed = catalog.follow(&state)?;
    // Clearing or dropping a keyspace takes a sequence number that need not be in the WAL.
    let visible = reader.views().visible();
    let least = if followed.gone.is_empty() { visible } else { Seq(visible.0 + 1) };
    let last_seq = last_seq.max(least);
    let before = reader.views().load_full();
    adopt(&mut state, &held, &before);
    shared.clock.raise(state.clock);
    let rules = followed.now.iter().flat_map(|one| {
        let rules = one.rules();
        one.trees.iter().map(move |tree| (tree, rules.clone()))
    });
    let trees = trees_of(shared, &rules.collect(), &state, memtables);
    // Files are held before any reader can ask for them.
    reader.tables().hold(held);
    reader.views().follow(trees, &followed.gone, last_seq);
    catalog.take_over(followed, last_seq);
    installer.follow(state);
    for tree in before.trees() {
        tree.immutables.iter().chain([&tree.active]).for_each(|memtable| memtable.note_gone());
    }
    drop(before);
    // Releases the parts of cleared or dropped keyspaces that only earlier readers see.
    reader.take_back();
    reader.tables().hold(Held::new());
    Ok(())
}

/// Lets tables of known files share their metadata and open readers.
fn adopt(state: &mut State, held: &Held, before: &StoreView) {
    let mut known: BTreeMap<(FileNumber, FileUid), Vec<&Arc<Table>>> = BTreeMap::new();
    for (_, table) in before.trees().flat_map(|tree| tree.version.tables()) {
        known.entry((table.file.number, table.file.uid)).or_default().push(table);
    }
    for version in state.trees.values_mut() {
        let runs = version.l0.iter_mut().map(|run| &mut run.tables);
        for tables in version.levels.iter_mut().chain(runs) {
            *tables = tables.map(|table| {
                let key = (table.file.number, table.file.uid);
                let meta = &held.get(&key)?.meta;
                let known = known.get(&key).map_or(&[][..], |known| known);
                let known = || known.iter().filter(|known| Arc::ptr_eq(&known.file, meta));
                let is_same =
                    |known: &&&Arc<Table>| known.range == table.range && known.bytes == table.bytes;
                if let Some(same) = known().find(is_same) {
                    return Some(Arc::clone(same));
                }
                let open = known().find(|known| known.attachment.is_set());
                let attachment = open.map(|open| open.attachment.clone()).unwrap_or_default();
                let (file, range) = (meta.clone(), table.range.clone());
                Some(Arc::new(Table { file, range, bytes: table.bytes, attachment }))
            });
        }
    }
}
