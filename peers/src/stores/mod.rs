//! The stores that this program knows, and one [`Store`] made of any of them.
//!
//! Equal means for all: memtables and cache of the sizes in the specification, a WAL acknowledged
//! after `write()` and not synced, no compression, direct I/O where the store has it, background
//! threads as many as cores. Each file says how its store is set up for that, and where it cannot
//! be.
//!
//! [`Regions`] splits the keys over one instance a region. Instances of one store share what their
//! store lets them share: a block cache, threads. A transaction over several regions becomes one
//! for each.
//!
//! Threads: all calls from any thread, as the stores allow.

mod fjall;
pub mod lmdb;
pub mod pebble;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(test)]
mod tests;
mod wiredtiger;

use crate::native;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vlsm::{Compression, Durability};
use vlsm_core::Bytes;
use vlsm_measure::clock::{self, Clock};
use vlsm_measure::process::folder_bytes;
use vlsm_measure::report::DRIVER;
use vlsm_measure::spec::StoreSpec;
use vlsm_measure::store::{
    LevelStats, Look, Marks, Store, StoreResult, StoreStats, WaitStats, Write,
};

/// Pairs that were read.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Keeps a pair that was read, if the caller wants it. A measurement does not.
fn keep(into: &mut Option<&mut Pairs>, key: &[u8], value: &[u8]) {
    match into {
        Some(pairs) => pairs.push((key.to_vec(), value.to_vec())),
        None => drop(std::hint::black_box((key, value))),
    }
}

/// One open database of any kind.
pub trait Instance: Send + Sync {
    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()>;

    /// The length of the value, and the pair itself where it is wanted.
    fn get(&self, key: &[u8], into: Option<&mut Pairs>) -> StoreResult<Option<usize>>;

    /// Removes a key.
    fn delete(&self, key: &[u8]) -> StoreResult<()>;

    /// The number of pairs from `start` on, `limit` at most, and the pairs where they are wanted.
    fn scan(&self, start: &[u8], limit: usize, into: Option<&mut Pairs>) -> StoreResult<usize>;

    /// Does all of these writes at once.
    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()>;

    /// Sets each of these keys, which lie one behind another, to this value: a loop with nothing in
    /// it but the store's own calls. A default method is compiled for each store, so the compiler
    /// sees through `put`.
    fn put_all(&self, keys: &[u8], key_size: usize, value: &[u8]) -> StoreResult<()> {
        keys.chunks_exact(key_size).try_for_each(|key| self.put(key, value))
    }

    /// Begins to write what is in memory to the device.
    fn flush(&self) -> StoreResult<()>;

    /// Whether no background work goes on at this moment.
    fn idle(&self) -> StoreResult<bool>;

    /// Levels, L0 first; nothing where there are none.
    fn levels(&self) -> Vec<LevelStats> {
        Vec::new()
    }

    /// Its own estimate of the bytes that compaction still has to move, if it has one.
    fn pending(&self) -> Option<u64> {
        None
    }

    /// Counters, without levels and file bytes; zero where the store has none.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// Jobs that ended since it was last asked.
    fn marks(&self, _clock: &Clock) -> Marks {
        Marks::default()
    }

    /// Closes it.
    fn close(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}

/// The arguments of opening a store.
pub struct Setup<'a> {
    /// The requested store: its kind, options and cache.
    pub spec: &'a StoreSpec,
    /// The configuration's name, never empty.
    pub config: &'a str,
    /// A folder for each instance.
    pub folders: &'a [PathBuf],
    /// Background threads.
    pub threads: usize,
}

impl Setup<'_> {
    /// Bytes of all memtables of one instance.
    pub fn memtables(&self) -> u64 {
        let tree = &self.spec.options.policy.tree;
        tree.memtable_bytes.0 * tree.memtable_count as u64
    }

    /// Bytes of memtables and cache of all instances.
    pub fn memory(&self) -> u64 {
        self.memtables() * self.folders.len() as u64 + self.spec.cache
    }
}

/// Options of a report by name.
pub type Described = Vec<(&'static str, String)>;
/// Instances of a store, and how they were set up.
pub type Opened = StoreResult<(Vec<Box<dyn Instance>>, Described)>;

/// A kind of store.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Configurations and what they are; the first is the default one.
    pub configs: &'static [(&'static str, &'static str)],
    /// Its version, or why this build does not have it.
    pub version: fn() -> Result<String, String>,
    open: fn(&Setup) -> Opened,
}

/// All kinds.
pub static KINDS: &[Kind] = &[
    #[cfg(feature = "rocksdb")]
    rocksdb::KIND,
    #[cfg(not(feature = "rocksdb"))]
    missing("rocksdb", || {
        Err("this build is without the feature `rocksdb`: run peers/build".into())
    }),
    pebble::KIND,
    fjall::KIND,
    redb::KIND,
    lmdb::KIND,
    wiredtiger::KIND,
];

#[cfg(not(feature = "rocksdb"))]
const fn missing(name: &'static str, why: fn() -> Result<String, String>) -> Kind {
    Kind { name, configs: &[], version: why, open: |_| Err("it is not in this build".into()) }
}

/// The version of a crate that this program is built with.
pub fn version_of(package: &str) -> Result<String, String> {
    let lock = include_str!("../../Cargo.lock");
    let (_, after) = lock
        .split_once(&format!("name = \"{package}\"\nversion = \""))
        .ok_or_else(|| format!("{package} is not in Cargo.lock"))?;
    Ok(after.split('"').next().unwrap_or(after).to_owned())
}

/// A kind of store in the list of this build.
#[derive(Serialize)]
pub struct Listed {
    kind: &'static str,
    version: Option<String>,
    /// The reason why it cannot be used.
    missing: Option<String>,
    /// The driver's rate compared with a native loop, in words.
    driver: String,
    configs: Vec<Config>,
}

#[derive(Serialize)]
struct Config {
    name: &'static str,
    what: &'static str,
}

/// The kinds that this build has.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter(|kind| (kind.version)().is_ok()).map(|kind| kind.name)
}

/// All kinds with versions and configurations.
pub fn list() -> Vec<Listed> {
    let listed = |kind: &Kind| {
        let version = (kind.version)();
        Listed {
            kind: kind.name,
            missing: version.as_ref().err().cloned(),
            version: version.ok(),
            driver: native::found(kind.name),
            configs: kind.configs.iter().map(|&(name, what)| Config { name, what }).collect(),
        }
    };
    KINDS.iter().map(listed).collect()
}

/// Opens a store in a folder, its keys split into regions at `splits`.
///
/// # Errors
/// When the kind or its configuration is not known or not in this build, or the store fails.
pub fn open(spec: &StoreSpec, splits: Vec<Vec<u8>>, path: &Path) -> StoreResult<Box<dyn Store>> {
    Ok(Box::new(Regions::open(spec, splits, path)?))
}

#[expect(clippy::disallowed_methods, reason = "it is made for a store that is not ours")]
fn make_folder(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Names with commas.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

/// A store made of one instance a region.
pub struct Regions {
    parts: Vec<Box<dyn Instance>>,
    /// The first keys of all regions but the first.
    splits: Vec<Vec<u8>>,
    path: PathBuf,
    described: Vec<(String, String)>,
}

impl Regions {
    /// The levels of all regions, summed level by level.
    fn levels(&self) -> Vec<LevelStats> {
        let mut all: Vec<LevelStats> = Vec::new();
        for levels in self.parts.iter().map(|part| part.levels()) {
            all.resize(all.len().max(levels.len()), LevelStats::default());
            for (sum, level) in all.iter_mut().zip(levels) {
                sum.tables += level.tables;
                sum.bytes += level.bytes;
                sum.target = match (sum.target, level.target) {
                    (Some(one), Some(other)) => Some(one + other),
                    (one, other) => one.or(other),
                };
            }
        }
        all
    }

    /// Opens all instances.
    pub fn open(spec: &StoreSpec, splits: Vec<Vec<u8>>, path: &Path) -> StoreResult<Self> {
        let kind = KINDS.iter().find(|kind| kind.name == spec.kind).ok_or_else(|| {
            let known = names(KINDS.iter().map(|kind| kind.name));
            format!("there is no store {:?}; there are: {known}", spec.kind)
        })?;
        let version = (kind.version)().map_err(|why| format!("{}: {why}", kind.name))?;
        let wanted = kind.configs.iter().map(|(name, _)| *name);
        let config = match spec.config.as_str() {
            "" => kind.configs.first().map(|(name, _)| *name),
            config => wanted.clone().find(|name| *name == config),
        };
        let config = config.ok_or_else(|| {
            format!("{} has no configuration {:?}: {}", kind.name, spec.config, names(wanted))
        })?;
        if spec.options.compression.iter().any(|one| *one != Compression::None) {
            return Err("the other stores are built without compression: compare without it".into());
        }
        let count = splits.len() + 1;
        let folder = |number: usize| match count {
            1 => path.join("data"),
            _ => path.join(format!("region-{number}")),
        };
        let folders: Vec<PathBuf> = (0..count).map(folder).collect();
        for folder in &folders {
            make_folder(folder)?;
        }
        let threads = match spec.options.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let setup = Setup { spec, config, folders: &folders, threads };
        let (parts, described) = (kind.open)(&setup)?;
        let described = [
            ("version", version),
            ("configuration", config.to_owned()),
            ("memory", format!("{} for memtables and cache", Bytes(setup.memory()))),
            ("compression", "none".to_owned()),
            ("background threads", threads.to_string()),
            (DRIVER, native::found(kind.name)),
        ]
        .into_iter()
        .chain(described)
        .chain((count > 1).then(|| ("regions", format!("{count} instances"))));
        Ok(Self {
            parts,
            splits,
            path: path.to_owned(),
            described: described.map(|(name, value)| (name.to_owned(), value)).collect(),
        })
    }

    /// The only instance; `None` if there are several.
    pub fn only(&self) -> Option<&dyn Instance> {
        match self.parts.as_slice() {
            [part] => Some(&**part),
            _ => None,
        }
    }

    fn region(&self, key: &[u8]) -> usize {
        self.splits.partition_point(|split| split.as_slice() <= key)
    }

    /// As [`Instance::get`].
    pub fn read(&self, key: &[u8], into: Option<&mut Pairs>) -> StoreResult<Option<usize>> {
        self.parts[self.region(key)].get(key, into)
    }

    /// As [`Instance::scan`], over all regions.
    pub fn visit(
        &self,
        start: &[u8],
        limit: usize,
        mut into: Option<&mut Pairs>,
    ) -> StoreResult<usize> {
        let mut count = 0;
        let first = self.region(start);
        for (number, part) in self.parts.iter().enumerate().skip(first) {
            let start = if number == first { start } else { &[] };
            count += part.scan(start, limit - count, into.as_deref_mut())?;
            if count == limit {
                break;
            }
        }
        Ok(count)
    }
}

/// The time without background work after which it counts as ended: some stores have moments
/// without work between one job and the next.
const QUIET: Duration = Duration::from_millis(100);

impl Store for Regions {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.parts[self.region(key)].put(key, value)
    }

    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>> {
        self.read(key, None)
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.parts[self.region(key)].delete(key)
    }

    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize> {
        self.visit(start, limit, None)
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        if let [part] = self.parts.as_slice() {
            return part.write(writes);
        }
        let mut apart = vec![Vec::new(); self.parts.len()];
        for write in writes {
            let (Write::Put(key, _) | Write::Delete(key)) = write;
            apart[self.region(key)].push(*write);
        }
        let parts = self.parts.iter().zip(&apart).filter(|(_, writes)| !writes.is_empty());
        parts.into_iter().try_for_each(|(part, writes)| part.write(writes))
    }

    fn settle(&self, limit: Duration, give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        self.parts.iter().try_for_each(|part| part.flush())?;
        let clock = Clock::start();
        let mut quiet_since = None;
        loop {
            let now = Duration::from_nanos(clock.now());
            let mut idle = true;
            for part in &self.parts {
                idle &= part.idle()?;
            }
            quiet_since = if idle { quiet_since.or(Some(now)) } else { None };
            if quiet_since.is_some_and(|since| now - since >= QUIET) {
                return Ok(true);
            }
            if now > limit || give_up() {
                return Ok(false);
            }
            clock::sleep(Duration::from_millis(5));
        }
    }

    fn look(&self) -> Look {
        let pending = self.parts.iter().filter_map(|part| part.pending()).reduce(|a, b| a + b);
        Look { levels: self.levels(), pending, ..Look::default() }
    }

    fn stats(&self) -> StoreStats {
        let mut all = StoreStats::default();
        for one in self.parts.iter().map(|part| part.stats()) {
            all = StoreStats {
                wal_syncs: all.wal_syncs + one.wal_syncs,
                l0_compactions: all.l0_compactions + one.l0_compactions,
                widest_job: all.widest_job.max(one.widest_job),
                waits: with_waits(std::mem::take(&mut all.waits), one.waits.clone()),
                ..all.plus(&one)
            };
        }
        let disk_bytes = folder_bytes(&self.path);
        StoreStats { levels: self.levels(), disk_bytes, ..all }
    }

    fn marks(&self, clock: &Clock) -> Marks {
        let mut all = Marks::default();
        for mut marks in self.parts.iter().map(|part| part.marks(clock)) {
            all.jobs.append(&mut marks.jobs);
        }
        all.jobs.sort_by(|one, other| one.end.total_cmp(&other.end));
        all
    }

    fn describe(&self) -> Vec<(String, String)> {
        self.described.clone()
    }

    fn close(self: Box<Self>) -> (StoreStats, StoreResult<()>) {
        (self.stats(), self.parts.into_iter().try_for_each(|part| part.close()))
    }
}

/// Waits of two instances by cause.
fn with_waits(mut all: Vec<WaitStats>, more: Vec<WaitStats>) -> Vec<WaitStats> {
    for wait in more {
        match all.iter_mut().find(|known| known.cause == wait.cause) {
            Some(known) => {
                known.count += wait.count;
                known.total_us += wait.total_us;
                known.longest_us = known.longest_us.max(wait.longest_us);
            }
            None => all.push(wait),
        }
    }
    all
}

/// Describes the WAL of a store that has all of our modes.
fn wal(durability: Durability) -> String {
    match durability {
        Durability::Sync => "synced before a write is acknowledged",
        Durability::Buffered => "acknowledged after write(), not synced",
        Durability::Lazy => "acknowledged when buffered in the process",
        _ => "none",
    }
    .to_owned()
}

fn io(direct: bool) -> String {
    if direct { "direct" } else { "buffered" }.to_owned()
}
