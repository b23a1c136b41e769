//! The options of a store and of a write.
//!
//! All options are one struct that can be written as TOML and read back. The options of the
//! policies (shape, schedule, admission, sizes) are in [`PolicyOptions`]; a profile is a named set
//! of them.

use crate::budget::least_limit;
use crate::memtable::Memtable;
use serde::{Deserialize, Serialize};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;
use vlsm_core::units::{KIB, MIB};
use vlsm_core::{ByteCount, Error, Result};
use vlsm_disk::sst::{self, SstOptions};
use vlsm_policy::{DeviceMap, PolicyOptions};

/// By default a store uses one part in this many of the memory of the machine or container.
const MEMORY_SHARE: u64 = 16;
/// The most memory that a store uses by default, unless its memtables need more.
const MEMORY_MOST: ByteCount = ByteCount::mib(256);
/// By default a store uses at least this much memory beside that of its memtables.
const CACHE_LEAST: ByteCount = ByteCount::mib(64);

/// The moment when a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// The write is acknowledged when the WAL is on the device. It survives power loss.
    Sync,
    /// The write is acknowledged when `write()` of the WAL has returned. It survives a crash of the
    /// process.
    #[default]
    Buffered,
    /// The write is acknowledged when it is in the process's WAL buffer. It is written to the file
    /// with later writes.
    Lazy,
    /// The write is not in the WAL at all. It is durable when its memtable is flushed. Such a batch
    /// may touch only one keyspace, and the guarantee that a crash leaves a prefix of the writes
    /// does not cover it.
    NoWal,
}

/// The compression of an SST's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// LZ4: fast.
    Lz4,
    /// Zstandard: small. Needs the feature `zstd`.
    Zstd,
}

/// Options of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The moment when the write is acknowledged; none for the store's default.
    pub durability: Option<Durability>,
    /// The longest time that the write may wait for admission. After that it fails with
    /// [`Error::Busy`], and nothing was written.
    pub deadline: Option<Duration>,
}

impl WriteOptions {
    /// Options with this durability.
    #[must_use]
    pub fn durability(durability: Durability) -> Self {
        Self { durability: Some(durability), deadline: None }
    }

    /// Adds a deadline.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

/// Options of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Options {
    /// Create the store if it does not exist. Default: true.
    pub create_if_missing: bool,
    /// Refuse a folder that already holds a store. Default: false.
    pub error_if_exists: bool,
    /// Shape, schedule, admission and their sizes. Default: the profile `steady`.
    pub policy: PolicyOptions,
    /// The throughput of the device, for mechanisms that plan with it. Default: empty; then it is
    /// measured once, in about a second, and kept in the store's folder.
    pub device: DeviceMap,
    /// The most worker threads for flushes and compactions; 0 for one per core. They and one
    /// more, for flushes, run while there is work for them. Default: 0.
    pub workers: usize,
    /// The most threads that do the workers' file operations, and part of the reads of `multi_get`
    /// and, with direct reads, of seeks. They are started when calls are made, and end
    /// after a few seconds without any. Default: 4.
    pub io_threads: usize,
    /// Bytes that a job merges in one step. Default: 256 KB.
    pub quantum: ByteCount,
    /// One limit for all large memory: memtables, indexes and filters of open SSTs, cached blocks,
    /// memtables and blocks that readers pin, and buffers of jobs. Default: 0, a sixteenth of the
    /// memory of the machine or its container, at most 256 MB, and at least 64 MB more than the
    /// memtables need ([`Options::set_memory`]).
    pub memory_limit: ByteCount,
    /// The most memory of the block cache; 0 for no cache. Default: the rest of `memory_limit`.
    pub cache_limit: Option<ByteCount>,
    /// Length of a block of an SST. Default: 4 KB.
    pub block_bytes: ByteCount,
    /// Bits per key of an SST's Bloom filter; 0 for none. Default: 10.
    pub bits_per_key: u32,
    /// Compression by level, L0 first; the last one serves all deeper levels. Default: none for L0,
    /// whose SSTs are short-lived, then LZ4. Blocks that would not shrink are stored uncompressed.
    pub compression: Vec<Compression>,
    /// Flushes and compactions bypass the page cache. Default: false, so that reads find their
    /// output in the page cache.
    pub direct_io: bool,
    /// Reads of SSTs bypass the page cache. Default: false, so that free memory beyond
    /// `memory_limit` caches SSTs.
    pub direct_reads: bool,
    /// The length at which a new WAL file begins. Default: 16 MB.
    pub wal_file_bytes: ByteCount,
    /// The WAL is synced in the background after this many bytes. Default: 1 MB.
    pub wal_sync_bytes: ByteCount,
    /// When the WAL is longer than this, the tree that needs the oldest file is flushed, even if
    /// its memtable is not full. It also bounds the bytes that recovery reads. Default: 512 MB.
    pub wal_limit: ByteCount,
    /// The manifest is replaced by a new one when it has at least this length and is twice as long
    /// as the snapshot at its beginning. Default: 4 MB.
    pub manifest_bytes: ByteCount,
    /// Space that the store reserves in its folder after its first writes. It allows opening the
    /// store on a full device, to delete data. 0 for none. Default: 1 MB.
    pub reserve_bytes: ByteCount,
    /// The durability of writes that do not set one. Default: `Buffered`.
    pub durability: Durability,
    /// If the WAL is damaged, open the store with the batches before the damage. SSTs stay, so a
    /// tree that was flushed later may contain later batches than another. The files with the
    /// remaining batches are moved into the store's folder `lost`, and the event `WalLost`
    /// describes them. Default: false.
    pub salvage_wal: bool,
    /// Open a store without its damaged and missing SSTs. Each SST is read completely. Damaged ones
    /// are moved into the store's folder `lost`, and the event `SstLost` describes them. Older or
    /// deleted values of their keys may show again. To read only pairs that are certainly current,
    /// use [`Keyspace::salvage`](crate::Keyspace::salvage) first. Default: false.
    pub salvage_ssts: bool,
    /// Write the readable file `LOG` into the store's folder. Default: true.
    pub log: bool,
    /// While another process asks for the statistics, as `vlsm top` does, write them to the file
    /// `STATS.prom` in the store's folder each second. Without a request this costs nothing, or one
    /// check for a file each second if the system cannot report new files. Default: true.
    pub stats_on_request: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            error_if_exists: false,
            policy: STEADY.clone(),
            device: DeviceMap::default(),
            workers: 0,
            io_threads: 4,
            quantum: ByteCount::kib(256),
            memory_limit: ByteCount::ZERO,
            cache_limit: None,
            block_bytes: ByteCount::kib(4),
            bits_per_key: 10,
            compression: vec![Compression::None, Compression::Lz4],
            direct_io: false,
            direct_reads: false,
            wal_file_bytes: ByteCount::mib(16),
            wal_sync_bytes: ByteCount::mib(1),
            wal_limit: ByteCount::mib(512),
            manifest_bytes: ByteCount::mib(4),
            reserve_bytes: ByteCount::mib(1),
            durability: Durability::default(),
            salvage_wal: false,
            salvage_ssts: false,
            log: true,
            stats_on_request: true,
        }
    }
}

/// The default policy. A test builds every profile.
static STEADY: LazyLock<PolicyOptions> =
    LazyLock::new(|| vlsm_policy::profile("steady").expect("it ships inside"));

impl Options {
    /// The options as TOML text.
    ///
    /// # Errors
    /// [`Error::Internal`] if they cannot be serialized; no combination is known to cause this.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| Error::Internal(error.to_string()))
    }

    /// Reads options in the form that [`Options::to_toml`] writes. Omitted options have their
    /// defaults. In `[policy]` the defaults are the values of the profile that it names:
    ///
    /// ```toml
    /// workers = 4
    /// [policy]
    /// profile = "rocksdb"      # or any other profile
    /// schedule = "silk"
    /// [policy.tree]
    /// memtable_bytes = "32M"
    /// [policy.silk]
    /// window = 20_000
    /// ```
    ///
    /// An omitted `wal_limit` is raised to the length that the memtables need, as by
    /// [`Options::set_profile`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] with the line and the problem.
    pub fn from_toml(text: &str) -> Result<Self> {
        let wrong = |error: toml::de::Error| {
            Error::InvalidArgument(format!("options: {}", error.to_string().trim_end()))
        };
        let mut options: Self = toml::from_str(text).map_err(wrong)?;
        let said: toml::Table = text.parse().map_err(wrong)?;
        if !said.contains_key("wal_limit") {
            options.wal_limit = options.wal_limit.max(options.wal_of_memtables());
        }
        Ok(options)
    }

    /// Refuses impossible values.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] with the option, the problem and the values that work.
    pub fn check(&self) -> Result<()> {
        let within = |option, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let why = format!("{value} is not within {low} and {high}");
            Err(Error::InvalidOption { option, why })
        };
        within("workers", self.workers as u64, 0, 256)?;
        within("io_threads", self.io_threads as u64, 1, 256)?;
        within("quantum", self.quantum.0, 4 * KIB, 64 * MIB)?;
        within("block_bytes", self.block_bytes.0, 512, MIB)?;
        within("bits_per_key", self.bits_per_key.into(), 0, 64)?;
        within("wal_file_bytes", self.wal_file_bytes.0, 16 * KIB, 4096 * MIB)?;
        within("wal_sync_bytes", self.wal_sync_bytes.0, KIB, 4096 * MIB)?;
        within("reserve_bytes", self.reserve_bytes.0, 0, 1024 * MIB)?;
        let logged = self.least_wal();
        if self.wal_limit < logged {
            let why = format!("must be at least {logged}: two memtables and two WAL files");
            return Err(Error::InvalidOption { option: "wal_limit", why });
        }
        let least = self.least_memory();
        if self.memory_limit < least && self.memory_limit > ByteCount::ZERO {
            let ByteCount(bytes) = least;
            let why = format!(
                "{} is too little: {} memtables of {} need at least {bytes} bytes ({least})",
                self.memory_limit, self.policy.tree.memtable_count, self.policy.tree.memtable_bytes
            );
            return Err(Error::InvalidOption { option: "memory_limit", why });
        }
        if self.compression.is_empty() {
            let why = "name at least one compression, for example [\"none\"]".to_owned();
            return Err(Error::InvalidOption { option: "compression", why });
        }
        if self.compression.contains(&Compression::Zstd) && !cfg!(feature = "zstd") {
            let why = "this build has no zstd: build with the feature `zstd`".to_owned();
            return Err(Error::InvalidOption { option: "compression", why });
        }
        self.device.check()?;
        self.policy.build().map(drop)
    }

    /// Sets the mechanisms and sizes of a named profile. If its memtables need a larger
    /// `memory_limit` or `wal_limit` than the one that is set, the limit is raised; `memory_limit`
    /// then includes 64 MB for a cache.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is no such profile or mechanism; the message lists those
    /// that exist.
    pub fn set_profile(&mut self, name: &str) -> Result<()> {
        self.policy = vlsm_policy::profile::profile(name)?;
        if self.memory_limit > ByteCount::ZERO && self.memory_limit < self.least_memory() {
            self.memory_limit = self.least_memory() + CACHE_LEAST;
        }
        self.wal_limit = self.wal_limit.max(self.wal_of_memtables());
        Ok(())
    }

    /// Sets `memory_limit` if it is 0, given the memory of the machine or its container in bytes,
    /// if it is known. Opening a store does this.
    pub fn set_memory(&mut self, machine: Option<u64>) {
        if self.memory_limit == ByteCount::ZERO {
            let share = machine.map_or(MEMORY_MOST, |bytes| ByteCount(bytes / MEMORY_SHARE));
            let least = ByteCount(self.least_memory().0.saturating_add(CACHE_LEAST.0));
            self.memory_limit = share.min(MEMORY_MOST).max(least);
        }
    }

    /// The `wal_limit` with which no memtable is sealed early: all memtables of a tree and two WAL
    /// files.
    #[must_use]
    pub fn wal_of_memtables(&self) -> ByteCount {
        let count = self.policy.tree.memtable_count as u64;
        ByteCount(
            self.policy.tree.memtable_bytes.0.saturating_mul(count) + self.wal_file_bytes.0 * 2,
        )
    }

    /// The least `wal_limit`: two memtables and two WAL files.
    #[must_use]
    pub fn least_wal(&self) -> ByteCount {
        ByteCount(
            self.policy
                .tree
                .memtable_bytes
                .0
                .saturating_add(self.wal_file_bytes.0)
                .saturating_mul(2),
        )
    }

    /// The least `memory_limit` that holds all memtables of one tree.
    #[must_use]
    pub fn least_memory(&self) -> ByteCount {
        let memtable = self.policy.tree.memtable_bytes.0;
        let memtable = memtable.saturating_add(Memtable::block_bytes(0) as u64);
        ByteCount(least_limit(memtable.saturating_mul(self.policy.tree.memtable_count as u64)))
    }

    /// The most worker threads beside the one that flushes.
    pub(crate) fn worker_count(&self) -> usize {
        // The answer takes the system several files to read.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        match self.workers {
            0 => *CORES.get_or_init(cores),
            count => count,
        }
    }

    /// The options of an SST that is written for a level.
    pub(crate) fn sst(&self, level: u8, created: Duration) -> SstOptions {
        SstOptions {
            block_bytes: self.block_bytes.0 as usize,
            bits_per_key: self.bits_per_key,
            compression: match self.compression_of(level) {
                Compression::None => sst::Compression::None,
                Compression::Lz4 => sst::Compression::Lz4,
                Compression::Zstd => sst::Compression::Zstd,
            },
            created,
            ..SstOptions::default()
        }
    }

    /// The compression of SSTs that lie in a level.
    fn compression_of(&self, level: u8) -> Compression {
        let index = usize::from(level).min(self.compression.len().saturating_sub(1));
        self.compression.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_a_text_file() {
        let options = Options { workers: 3, bits_per_key: 7, ..Options::default() };
        let text = options.to_toml().unwrap();
        assert_eq!(Options::from_toml(&text).unwrap(), options);
        assert_eq!(Options::from_toml("workers = 2").unwrap().workers, 2);
        assert!(Options::from_toml("worker = 2").is_err(), "a misspelt option is refused");
    }

    #[test]
    fn files_without_tables_of_mechanisms_are_read() {
        let read = Options::from_toml(include_str!("../testdata/options-without-tables.toml"));
        let mut expected = Options { memory_limit: ByteCount::mib(256), ..Options::default() };
        expected.set_profile("dlc-part").unwrap();
        expected.compression = vec![Compression::None];
        let policy = &mut expected.policy;
        (policy.shapes.vlsm.sst_min, policy.shapes.vlsm.phi) = (ByteCount::mib(2), 24);
        policy.admissions.slowdown_stop.delayed_write_rate = vlsm_core::BytesPerSec(5 << 20);
        policy.tree.debt_soft = None;
        assert_eq!(read.unwrap(), expected);
    }

    #[test]
    fn impossible_options_are_refused_by_name() {
        let options = Options { block_bytes: ByteCount(1), ..Options::default() };
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains("block_bytes") && error.contains("512"), "{error}");
        let mut options = Options { memory_limit: ByteCount::mib(20), ..Options::default() };
        let error = options.check().unwrap_err().to_string();
        assert!(error.contains("memory_limit") && error.contains("2 memtables of 8"), "{error}");
        options.memory_limit = options.least_memory();
        options.check().expect("the least that works");
        assert!(error.contains(&options.memory_limit.0.to_string()), "{error}");
    }

    #[test]
    fn every_profile_brings_the_memory_it_needs() {
        for profile in vlsm_policy::profile::PROFILES {
            let mut options = Options::default();
            options.set_profile(profile.name).unwrap();
            options.check().expect(profile.name);
        }
        let mut options = Options { memory_limit: ByteCount::mib(256), ..Options::default() };
        options.set_profile("rocksdb").unwrap();
        assert_eq!(options.memory_limit, ByteCount::mib(256), "it is enough");
        options.set_profile("cruise").unwrap();
        assert!(options.memory_limit > ByteCount::mib(12 * 64), "{}", options.memory_limit);
    }

    #[test]
    fn memory_is_a_share_of_the_machine_within_bounds() {
        let limit = |machine, profile| {
            let mut options = Options::default();
            options.set_profile(profile).unwrap();
            options.check().expect("no limit is a valid one");
            options.set_memory(machine);
            options.check().expect(profile);
            options.memory_limit
        };
        let gib = |gib: u64| Some(gib << 30);
        assert_eq!(limit(None, "steady"), ByteCount::mib(256));
        assert_eq!(limit(gib(24), "steady"), ByteCount::mib(256), "the most");
        assert_eq!(limit(gib(2), "steady"), ByteCount::mib(128), "a sixteenth");
        let least = limit(Some(64 << 20), "steady");
        assert!(
            least > ByteCount::mib(64) && least < ByteCount::mib(100),
            "{least}: what memtables need"
        );
        assert!(limit(gib(2), "cruise") > ByteCount::mib(12 * 64));
        let mut options = Options { memory_limit: ByteCount::mib(40), ..Options::default() };
        options.set_memory(gib(24));
        assert_eq!(options.memory_limit, ByteCount::mib(40), "the one that was set stays");
    }
}
