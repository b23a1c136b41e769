//! A store on a simulated machine: the one module here that knows the engine's public API. All
//! other modules use the oracle's terms.

use crate::disk::Disk;
use crate::env::SimEnv;
use crate::history::Promise;
use crate::oracle::{ALL, Contents, KeyBounds, Op, Pair, TTL, Write};
use crate::rng::Rng;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use vlsm::{
    Batch, Compression, Db, Durability, Env, IngestOptions, Iter, Keyspace, KeyspaceOptions,
    Options, Snapshot, SstFileWriter, WriteOptions,
};
use vlsm_core::event::Event;
use vlsm_core::{Bytes, BytesPerSec, Error, Result, Seq};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest;
use vlsm_policy::{Busy, DeviceMap, PolicyOptions, TreeFacts, admission, schedule, shape};

/// The store's folder.
pub const FOLDER: &str = "/store";

/// The prefix of the folders of checkpoints.
const CHECKPOINTS: &str = "/checkpoint-";

/// The keyspaces of every store, with the keys at which their further regions begin. In the
/// keyspace with several regions values can be merged; in the others they can expire.
pub const SPACES: [(&str, &[&str]); 3] =
    [("default", &[]), ("users", &["c01/k05", "client/01", "k3", "k7"]), ("log", &[])];

/// The keyspace whose values can be merged.
pub const MERGES: usize = 1;

/// The most keyspaces that are made while a store is in use.
pub const LATE_MAX: usize = 3;

/// The name of such a keyspace.
fn late(number: usize) -> String {
    format!("late-{number}")
}

/// One mechanism of each axis, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanisms {
    /// The shape: what is merged.
    pub shape: &'static str,
    /// The schedule: when it is merged.
    pub schedule: &'static str,
    /// The admission: how fast writes are accepted.
    pub admission: &'static str,
}

/// The combinations of mechanisms that a store accepts, and those that it refuses, with the reason.
type Combinations = (Vec<Mechanisms>, Vec<(Mechanisms, String)>);

static COMBINATIONS: LazyLock<Combinations> = LazyLock::new(|| {
    let mut found = Combinations::default();
    for shape in shape::REGISTRY {
        for schedule in schedule::REGISTRY {
            for admission in admission::REGISTRY {
                let (shape, schedule, admission) = (shape.name, schedule.name, admission.name);
                let mechanisms = Mechanisms { shape, schedule, admission };
                match refusal(&mechanisms.options(&mut Rng::new(0))) {
                    None => found.0.push(mechanisms),
                    Some(why) => found.1.push((mechanisms, why.to_string())),
                }
            }
        }
    }
    found
});

/// Returns the error with which a store refuses these options, if it does.
fn refusal(options: &Options) -> Option<Error> {
    options.check().err()
}

/// The most draws of sizes until the mechanisms accept them.
const DRAWS: usize = 32;

impl Mechanisms {
    /// All combinations of mechanisms except those of [`Mechanisms::refused`].
    #[must_use]
    pub fn all() -> &'static [Self] {
        &COMBINATIONS.0
    }

    /// The combinations that a store refuses, and why.
    #[must_use]
    pub fn refused() -> &'static [(Self, String)] {
        &COMBINATIONS.1
    }

    /// The combination of a seed. Consecutive seeds go through all combinations.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let all = Self::all();
        all[(seed % all.len() as u64) as usize]
    }

    /// Options with these mechanisms and random sizes that they accept. The numbers taken from
    /// `rng` do not depend on the mechanisms.
    #[must_use]
    pub fn options(&self, rng: &mut Rng) -> Options {
        let mut options = self.drawn(rng);
        let mut aside = rng.clone().fork(0);
        for _ in 0..DRAWS {
            if refusal(&options).is_none() {
                break;
            }
            options = self.drawn(&mut aside);
        }
        options
    }

    fn drawn(&self, rng: &mut Rng) -> Options {
        let mut options = tiny_options(self.shape, rng);
        let policy = &mut options.policy;
        policy.schedule = self.schedule.into();
        policy.admission = self.admission.into();
        // The device may limit much, little or nothing. Its speed is always given, because it
        // cannot be measured where calls take no time.
        let mut aside = rng.clone();
        let bandwidth = *aside.pick(&[0, 0, 16 << 20, 256 << 20]);
        policy.tree.device_bandwidth = BytesPerSec(bandwidth);
        let device = *aside.pick(&[8 << 20, 64 << 20, 4 << 30]);
        options.device = DeviceMap::even(BytesPerSec(device));
        let (none, lz4) = (Compression::None, Compression::Lz4);
        options.compression = aside.pick(&[vec![none], vec![none, lz4], vec![lz4]]).clone();
        options
    }
}

impl std::fmt::Display for Mechanisms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, {}", self.shape, self.schedule, self.admission)
    }
}

/// Options small enough that a few thousand writes reach the third level.
#[must_use]
pub fn tiny_options(shape: &str, rng: &mut Rng) -> Options {
    let mut options = Options::default();
    options.policy = tiny_policy(shape, rng);
    options.workers = rng.between(1, 3) as usize;
    options.io_threads = rng.between(1, 3) as usize;
    options.quantum = Bytes::kib(*rng.pick(&[4, 4, 16, 64]));
    options.block_bytes = Bytes(*rng.pick(&[512, 1024, 4096]));
    options.bits_per_key = *rng.pick(&[0, 4, 10]);
    options.compression = vec![Compression::None];
    options.direct_io = rng.one_in(2);
    options.direct_reads = rng.one_in(2);
    options.wal_file_bytes = Bytes::kib(*rng.pick(&[16, 32, 256]));
    options.wal_sync_bytes = Bytes::kib(*rng.pick(&[1, 8, 1024]));
    options.manifest_bytes = Bytes(*rng.pick(&[0, 2 << 10, 16 << 10, 4 << 20]));
    options.reserve_bytes = Bytes::kib(*rng.pick(&[0, 4, 64]));
    let wal_least = (options.policy.tree.memtable_bytes + options.wal_file_bytes) * 2;
    options.wal_limit = wal_least * *rng.pick(&[1, 2, 1000]);
    options.memory_limit = options.least_memory() * *rng.pick(&[1, 2, 8, 1000]);
    options.log = rng.one_in(4);
    // A look each second would turn a deadlock into an endless run.
    options.stats_on_request = false;
    options
}

fn tiny_policy(shape: &str, rng: &mut Rng) -> PolicyOptions {
    let mut policy = PolicyOptions::default();
    policy.shape = shape.into();
    let mut aside = rng.fork(1);
    policy.shrink(&mut |values| aside.index(values));
    policy
}

/// An open store.
#[derive(Clone)]
pub struct World {
    db: Db,
    /// The keyspaces of [`SPACES`], then those created later.
    spaces: Arc<Mutex<Vec<Keyspace>>>,
}

impl World {
    /// Opens the store of this machine, or creates it.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn open(env: &Arc<SimEnv>, options: &Options) -> Result<Self> {
        Self::open_listening(env, options, |_| {})
    }

    /// Opens the store with a listener for its events.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn open_listening(
        env: &Arc<SimEnv>,
        options: &Options,
        listener: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<Self> {
        let builder = Db::builder(Path::new(FOLDER)).env(env.clone()).options(options.clone());
        let db = builder.listener(listener).open()?;
        for (name, splits) in SPACES {
            if let Err(Error::NoSuchKeyspace(_)) = db.keyspace(name) {
                let mut options =
                    KeyspaceOptions::splits(splits.iter().map(|split| split.as_bytes()));
                if name == SPACES[MERGES].0 {
                    options = options.merge_operator("append");
                }
                db.create_keyspace(name, options)?;
            }
        }
        Self::of(db)
    }

    /// Opens an existing copy of a store in another folder.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn open_copy(
        env: &Arc<SimEnv>,
        folder: &Path,
        options: &Options,
        read_only: bool,
    ) -> Result<Self> {
        let builder = Db::builder(folder).env(env.clone()).options(options.clone());
        Self::of(builder.create_if_missing(false).read_only(read_only).open()?)
    }

    /// Opens the store of this machine beside the handle that writes it.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn follow(env: &Arc<SimEnv>, options: &Options) -> Result<Self> {
        let builder = Db::builder(Path::new(FOLDER)).env(env.clone()).options(options.clone());
        Self::of(builder.follow(true).open()?)
    }

    /// Shows what was written meanwhile, in a store that is followed, with the keyspaces that were
    /// made.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn catch_up(&self) -> Result<Seq> {
        let seq = self.db.catch_up()?;
        *self.spaces.lock() = Self::spaces_of(&self.db)?;
        Ok(seq)
    }

    /// A store with all its keyspaces.
    fn of(db: Db) -> Result<Self> {
        let spaces = Self::spaces_of(&db)?;
        Ok(Self { db, spaces: Arc::new(Mutex::new(spaces)) })
    }

    fn spaces_of(db: &Db) -> Result<Vec<Keyspace>> {
        let first = SPACES.iter().map(|(name, _)| db.keyspace(name));
        let mut spaces = first.collect::<Result<Vec<_>>>()?;
        let later = (0..LATE_MAX).map_while(|number| db.keyspace(&late(number)).ok());
        spaces.extend(later);
        Ok(spaces)
    }

    /// Creates one more keyspace. False if there are enough, or if another task was faster.
    ///
    /// # Errors
    /// The engine's errors.
    pub fn make_space(&self) -> Result<bool> {
        let count = self.space_count();
        if count >= SPACES.len() + LATE_MAX {
            return Ok(false);
        }
        let name = late(count - SPACES.len());
        let space = self.db.create_keyspace(&name, KeyspaceOptions::default())?;
        let mut spaces = self.spaces.lock();
        let first = spaces.len() == count;
        if first {
            spaces.push(space);
        }
        Ok(first)
    }

    /// Number of keyspaces.
    #[must_use]
    pub fn space_count(&self) -> usize {
        self.spaces.lock().len()
    }

    /// The engine's handle.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// A keyspace, by its index.
    #[must_use]
    pub fn space(&self, space: usize) -> Keyspace {
        self.spaces.lock()[space].clone()
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// The engine's errors. The other operations fail likewise.
    pub fn write(&self, writes: &[Write], promise: Promise) -> Result<()> {
        self.write_with(writes, WriteOptions::durability(durability(promise)))
    }

    /// Writes a batch with options.
    pub fn write_with(&self, writes: &[Write], options: WriteOptions) -> Result<()> {
        let mut batch = Batch::new();
        for write in writes {
            let space = &self.space(write.space);
            match &write.op {
                Op::Put(value) => batch.put(space, &write.key, value),
                Op::Expiring(value) => batch.put_with_ttl(space, &write.key, value, TTL),
                Op::Merge(operand) => batch.merge(space, &write.key, operand),
                Op::Delete => batch.delete(space, &write.key),
                Op::DeleteRange(end) => {
                    batch.delete_range(space, write.key.as_slice()..end.as_slice())
                }
            }
        }
        self.db.write(&batch, options)
    }

    /// Removes everything of a keyspace.
    pub fn clear(&self, space: usize) -> Result<()> {
        self.space(space).clear()
    }

    /// The value of a key.
    pub fn get(&self, space: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.space(space).get(key)?.map(|value| value.to_vec()))
    }

    /// The values of several keys.
    pub fn multi_get(&self, space: usize, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let values = self.space(space).multi_get(keys).into_iter();
        values.map(|value| Ok(value?.map(|value| value.to_vec()))).collect()
    }

    /// An iterator over a range.
    #[must_use]
    pub fn iter(&self, space: usize, bounds: &KeyBounds) -> Iter {
        self.space(space).range(bounds.clone())
    }

    /// An iterator over the keys with a prefix.
    #[must_use]
    pub fn prefix(&self, space: usize, prefix: &[u8]) -> Iter {
        self.space(space).prefix(prefix)
    }

    /// A snapshot.
    #[must_use]
    pub fn snapshot(&self) -> View {
        // In this order, because the content of a later keyspace is newer than the snapshot.
        let snapshot = self.db.snapshot();
        View { snapshot, spaces: self.spaces.lock().clone() }
    }

    /// Everything, read forwards and backwards.
    ///
    /// # Errors
    /// The engine's errors; [`Error::Internal`] if the two directions differ.
    pub fn contents(&self) -> Result<Contents> {
        self.snapshot().contents()
    }

    /// Flushes all memtables and waits for it.
    pub fn flush(&self) -> Result<()> {
        self.db.flush()
    }

    /// Compacts a range down to the last level.
    pub fn compact(&self, space: usize, bounds: &KeyBounds) -> Result<()> {
        self.space(space).compact_range(bounds.clone())
    }

    /// Waits until there is nothing left to flush or compact.
    pub fn wait_idle(&self) -> Result<()> {
        self.db.wait_idle()
    }

    /// Checks that the store's shape accepts the trees, as the manifest has them, and finds nothing
    /// left to do. This holds for every idle store, whatever shape wrote its trees.
    ///
    /// # Errors
    /// The errors of reading the manifest; [`Error::Internal`] with the work that is left.
    pub fn check_settled(&self, env: &Arc<SimEnv>) -> Result<()> {
        let policy = &self.db.options().policy;
        let (shape, ..) = policy.build()?;
        let state = manifest::log::read(&**env.fs(), Path::new(FOLDER))?.state;
        for (&tree, version) in &state.trees {
            let wrong =
                |why: String| Error::Internal(format!("tree {tree}, {}: {why}", policy.shape));
            shape.check(version).map_err(|violation| wrong(violation.to_string()))?;
            // Sizes may follow that of memtables, which a schedule may set.
            let (memtable_bytes, none) = (self.db.stats().memtable_bytes, TreeFacts::default());
            let facts = TreeFacts { tree, memtable_bytes, ..none };
            if let Some(left) = shape.candidates(version, &facts, &Busy::default()).first() {
                let (from, to) = (left.frees, left.output_level);
                let why = format!("idle, and {:?} from {from:?} to L{to} is left", left.kind);
                return Err(wrong(why));
            }
        }
        Ok(())
    }

    /// Ingests the last put or delete of each key, for one keyspace, in files of at most `count`
    /// keys that do not span regions.
    pub fn ingest(
        &self,
        env: &Arc<SimEnv>,
        writes: &[Write],
        count: usize,
        options: IngestOptions,
    ) -> Result<()> {
        let env: Arc<dyn Env> = env.clone();
        let Some(first) = writes.first() else { return Ok(()) };
        let (space, splits) = (&self.space(first.space), SPACES[first.space].1);
        let region = |write: &Write| splits.partition_point(|s| s.as_bytes() <= &write.key[..]);
        let last: BTreeMap<&[u8], &Write> = writes.iter().map(|w| (&w.key[..], w)).collect();
        let last: Vec<&Write> = last.into_values().collect();
        let mut files = Vec::new();
        for part in last.chunk_by(|a, b| region(a) == region(b)).flat_map(|r| r.chunks(count)) {
            let path = PathBuf::from(format!("/outside-{:016x}", env.random()));
            let mut writer = SstFileWriter::create_in(&env, &path, self.db.options())?;
            for write in part {
                match &write.op {
                    Op::Put(value) => writer.put(&write.key, value)?,
                    _ => writer.delete(&write.key)?,
                }
            }
            files.push(writer.finish()?.path);
        }
        let report = space.ingest_with(&files, options)?;
        if report.entries != last.len() as u64 {
            let why = format!("{} entries went in, of {}", report.entries, last.len());
            return Err(Error::Internal(why));
        }
        // The files may stay, but in long stories they would fill the disk.
        files.iter().for_each(|path| drop(env.fs().remove(path)));
        Ok(())
    }

    /// Makes a checkpoint and reads all of it, as a store of its own.
    pub fn checkpoint(&self, env: &Arc<SimEnv>, name: &str) -> Result<Contents> {
        let target = format!("{CHECKPOINTS}{name}");
        self.db.checkpoint(&target)?;
        let copy = Self::open_copy(env, Path::new(&target), self.db.options(), false)?;
        let contents = copy.contents()?;
        copy.close()?;
        Ok(contents)
    }

    /// Closes the store.
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

/// Checks every byte and every invariant of the store on a disk and of its checkpoints. It changes
/// nothing and needs no machine.
///
/// # Errors
/// The damage.
pub fn verify(disk: &Disk) -> std::result::Result<(), String> {
    let env: Arc<dyn Env> = RealEnv::with_fs(disk.fork().fs());
    let is_ours = |dir: &Path| {
        let dir = dir.to_string_lossy();
        dir == FOLDER || dir.starts_with(CHECKPOINTS)
    };
    let files = disk.files();
    let folders: BTreeSet<&Path> =
        files.keys().filter_map(|path| path.parent()).filter(|dir| is_ours(dir)).collect();
    for folder in folders {
        match vlsm::verify_with(&env, folder, &mut |_| {}) {
            Ok(report) if report.damaged => {
                return Err(format!("{} is damaged: {report:#?}", folder.display()));
            }
            // Missing: also a checkpoint that was not finished.
            Ok(_) | Err(Error::Missing { .. }) => {}
            Err(Error::NotAStore { .. }) if folder != Path::new(FOLDER) => {}
            Err(error) => return Err(format!("{} cannot be verified: {error}", folder.display())),
        }
    }
    Ok(())
}

/// The store at one moment.
#[derive(Clone)]
pub struct View {
    snapshot: Snapshot,
    spaces: Vec<Keyspace>,
}

impl View {
    /// The value that a key had.
    ///
    /// # Errors
    /// The engine's errors. The other operations fail likewise.
    pub fn get(&self, space: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.snapshot.get(&self.spaces[space], key)?.map(|value| value.to_vec()))
    }

    /// Number of keyspaces that it shows.
    #[must_use]
    pub fn spaces(&self) -> usize {
        self.spaces.len()
    }

    /// An iterator over a range.
    #[must_use]
    pub fn iter(&self, space: usize, bounds: &KeyBounds) -> Iter {
        self.snapshot.range(&self.spaces[space], bounds.clone())
    }

    /// Everything, read forwards and backwards.
    ///
    /// # Errors
    /// The engine's errors; [`Error::Internal`] if the two directions differ.
    pub fn contents(&self) -> Result<Contents> {
        let mut contents = Vec::new();
        for space in 0..self.spaces.len() {
            let forwards = pairs(self.iter(space, &ALL))?;
            let mut backwards = pairs(self.iter(space, &ALL).rev())?;
            backwards.reverse();
            if forwards != backwards {
                let why = format!("keyspace {space} reads differently in the two directions");
                return Err(Error::Internal(why));
            }
            if !forwards.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(Error::Internal(format!("keyspace {space} is out of order")));
            }
            contents.push((space, forwards));
        }
        Ok(contents.into_iter().collect())
    }
}

/// The engine's durability for a promise.
#[must_use]
pub fn durability(promise: Promise) -> Durability {
    match promise {
        Promise::Lazy => Durability::Lazy,
        Promise::Process => Durability::Buffered,
        Promise::Power => Durability::Sync,
    }
}

/// All pairs of an iterator.
///
/// # Errors
/// The iterator's first error, after which it must be at its end; [`Error::Internal`] if it is not.
pub fn pairs(
    mut iter: impl Iterator<Item = Result<(bytes::Bytes, bytes::Bytes)>>,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    while let Some(pair) = iter.next() {
        match pair {
            Ok((key, value)) => pairs.push((key.to_vec(), value.to_vec())),
            Err(_) if iter.next().is_some() => {
                return Err(Error::Internal("an iterator goes on after an error".into()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(pairs)
}
