//! RocksDB, set up by equal means in several configurations.
//!
//! In all of them: memtables and block cache of the given sizes, no compression, direct I/O as
//! specified (for flushes and compactions, and for reads), as many background jobs as threads (a
//! quarter of them, but one at least, for flushes), the given block size and filter. Indexes and
//! filters stay outside of the block cache, as RocksDB has it. The WAL is written by `write()` and
//! not synced; `Lazy` leaves it in the process's buffer (manual WAL flush).
//!
//! - `default`: RocksDB's own sizes and dynamic level targets, with the given memory.
//! - `papers` (vLSM (2024), §5): sizes and L0's triggers from the specification, levels of fixed
//!   targets. Debt limits are those of the specification, or RocksDB's own.
//! - `debt64`: as `papers`, slowed down at 64 MB of debt and stopped at 256 MB; at less where the
//!   specification's limits are smaller, because it was scaled.
//! - `io`: as `papers`, and any debt stops writes. RocksDB has no limit for a single level as our
//!   profile `rocksdb-io` has (vLSM (2024), §5: "overflow (debt) disabled"): its limits are on an
//!   estimate over all levels. So a level can be over its target by what one compaction brings, but
//!   no write comes in until it no longer is; and because the estimate counts L0 from its trigger
//!   on, L0 cannot pile up behind a full L1: writes wait with L0 at its trigger, not at its stop.
//! - `auto`: as `papers`, with the auto-tuned rate limiter of background writes. It works within a
//!   twentieth of the limit and the limit: the device's bandwidth of the specification, or
//!   [`AUTO_LIMIT`].
//!
//! Regions are instances that share block cache, rate limiter and the environment's threads. Their
//! memtables are bounded one by one, as ours are; a common write buffer manager would flush some of
//! them early instead.
//!
//! Counters are RocksDB's tickers (histograms and timers off); jobs come from its event log
//! ([`events`]). Waits by cause are counted by RocksDB but not timed: the time is that of all.

mod events;

use super::{Described, Instance, Kind, Opened, Pairs, Setup, io, keep, version_of, wal};
use events::Events;
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, ErrorKind, FlushOptions, Options,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vlsm::Durability;
use vlsm_core::units::MIB;
use vlsm_core::{Bytes, BytesPerSec};
use vlsm_measure::clock::Clock;
use vlsm_measure::store::{LevelStats, Marks, StoreResult, StoreStats, WaitStats, Write};
use vlsm_policy::TreeOptions;

pub const KIND: Kind = Kind {
    name: "rocksdb",
    configs: &[
        ("default", "RocksDB's own sizes and dynamic levels, memory as specified"),
        ("papers", "sizes as specified, levels of fixed targets"),
        ("io", "papers, and any compaction debt stops writes"),
        ("debt64", "papers, slowed down at 64 MB of debt and stopped at 256 MB"),
        ("auto", "papers, with the auto-tuned rate limiter"),
    ],
    version: || {
        let library = version_of("librocksdb-sys")?;
        let (_, library) = library.split_once('+').unwrap_or(("", &library));
        Ok(format!("{library}, crate {}", version_of("rocksdb")?))
    },
    open,
};

/// The most that the auto-tuned limiter lets background work write, in bytes per second, where the
/// specification does not tell the device's bandwidth.
const AUTO_LIMIT: u64 = 512 * MIB;
const LEVELS: usize = 7;

struct Tree {
    db: DB,
    /// Its statistics are asked through them.
    options: Options,
    writes: WriteOptions,
    /// Target of L1 and growth, where levels have fixed targets.
    targets: Option<(u64, u64)>,
    events: Arc<Events>,
    /// A flush was asked for and refused.
    refused: AtomicBool,
}

fn open(setup: &Setup) -> Opened {
    let spec = &setup.spec.options;
    let mut described = common(setup);
    let mut options = base(setup);
    let mut targets = None;
    if setup.config != "default" {
        sized(&mut options, &spec.policy.tree, &mut described);
        targets = Some((spec.policy.tree.l1_bytes.0, spec.policy.tree.growth));
        debt(&mut options, setup.config, &spec.policy.tree, &mut described);
    } else if spec.policy.tree.l0_trigger == 1 {
        options.set_level_zero_file_num_compaction_trigger(1);
    }
    if setup.config == "auto" {
        let most = match spec.policy.tree.device_bandwidth {
            BytesPerSec(0) => AUTO_LIMIT,
            BytesPerSec(most) => most,
        };
        options.set_auto_tuned_ratelimiter(most as i64, 100_000, 10);
        let limit = format!("auto-tuned up to {}", BytesPerSec(most));
        described.push(("rate limiter", limit));
    }
    let mut trees: Vec<Box<dyn Instance>> = Vec::new();
    for folder in setup.folders {
        // A copy shares the cache and the rate limiter; statistics and event log are its own.
        let mut options = options.clone();
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        let events = Arc::new(Events::default());
        options.set_info_logger(events.logger());
        let mut writes = WriteOptions::default();
        writes.set_sync(spec.durability == Durability::Sync);
        writes.disable_wal(spec.durability == Durability::NoWal);
        let db = DB::open(&options, folder)?;
        trees.push(Box::new(Tree {
            db,
            options,
            writes,
            targets,
            events,
            refused: AtomicBool::new(false),
        }));
    }
    Ok((trees, described))
}

fn common(setup: &Setup) -> Described {
    let spec = &setup.spec.options;
    let tree = &spec.policy.tree;
    vec![
        ("memtables", format!("{} × {}", tree.memtable_count, tree.memtable_bytes)),
        ("WAL", wal(spec.durability)),
        ("jobs' I/O", io(spec.direct_io)),
        ("reads", io(spec.direct_reads)),
        ("filter", format!("{} bits/key", spec.bits_per_key)),
    ]
}

/// The options that all configurations share.
fn base(setup: &Setup) -> Options {
    let spec = &setup.spec.options;
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(setup.spec.cache as usize));
    if spec.bits_per_key > 0 {
        table.set_bloom_filter(f64::from(spec.bits_per_key), false);
    }
    table.set_block_size(spec.block_bytes.0 as usize);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::None);
    options.set_use_direct_io_for_flush_and_compaction(spec.direct_io);
    options.set_use_direct_reads(spec.direct_reads);
    options.set_write_buffer_size(spec.policy.tree.memtable_bytes.0 as usize);
    options.set_max_write_buffer_number(spec.policy.tree.memtable_count as i32);
    options.set_manual_wal_flush(spec.durability == Durability::Lazy);
    options.increase_parallelism(setup.threads as i32);
    options
}

/// Sizes and triggers from the specification.
fn sized(options: &mut Options, tree: &TreeOptions, described: &mut Described) {
    options.set_target_file_size_base(tree.sst_max.0);
    options.set_max_bytes_for_level_base(tree.l1_bytes.0);
    options.set_max_bytes_for_level_multiplier(tree.growth as f64);
    options.set_level_compaction_dynamic_level_bytes(false);
    options.set_level_zero_file_num_compaction_trigger(tree.l0_trigger as i32);
    options.set_level_zero_slowdown_writes_trigger(tree.l0_slowdown as i32);
    options.set_level_zero_stop_writes_trigger(tree.l0_stop as i32);
    let triggers = format!("{}, {}, {}", tree.l0_trigger, tree.l0_slowdown, tree.l0_stop);
    described.extend([
        ("SST", tree.sst_max.to_string()),
        ("L1", tree.l1_bytes.to_string()),
        ("growth", tree.growth.to_string()),
        ("L0 trigger, slowdown, stop", triggers),
    ]);
}

/// Limits on the estimate of what compaction has to do.
fn debt(options: &mut Options, config: &str, tree: &TreeOptions, described: &mut Described) {
    let least = |limit: Option<Bytes>, most: u64| limit.map_or(most, |bytes| bytes.0.min(most));
    let (soft, hard) = match config {
        "io" => (1, 1),
        "debt64" => (least(tree.debt_soft, 64 * MIB), least(tree.debt_hard, 256 * MIB)),
        // RocksDB's own are 64 and 256 GB.
        _ => (least(tree.debt_soft, 64 << 30), least(tree.debt_hard, 256 << 30)),
    };
    options.set_soft_pending_compaction_bytes_limit(soft as usize);
    options.set_hard_pending_compaction_bytes_limit(hard as usize);
    described.push(("debt soft, hard", format!("{}, {}", Bytes(soft), Bytes(hard))));
}

impl Tree {
    fn property(&self, name: &str) -> String {
        self.db.property_value(name).ok().flatten().unwrap_or_default()
    }

    /// The waits of writes, by cause, and their total.
    fn waits(&self) -> Vec<WaitStats> {
        let ticks = self.options.get_ticker_count(Ticker::StallMicros);
        let mut waits = stalls(&self.property("rocksdb.cfstats-no-file-histogram"));
        waits.push(WaitStats { cause: "all".into(), total_us: ticks, ..WaitStats::default() });
        waits
    }
}

/// The line `Write Stall (count): cause: n, cause: n, …` of RocksDB's statistics.
fn stalls(text: &str) -> Vec<WaitStats> {
    let line = text.lines().find_map(|line| line.strip_prefix("Write Stall (count): "));
    let wait = |part: &str| {
        let (cause, count) = part.trim().rsplit_once(": ")?;
        let known = !cause.starts_with("total-") && !cause.starts_with("interval-");
        let (cause, count) = (cause.to_owned(), count.parse().ok()?);
        (known && count > 0).then_some(WaitStats { cause, count, ..WaitStats::default() })
    };
    line.unwrap_or_default().split(',').filter_map(wait).collect()
}

/// Lines `level files megabytes` after a header.
fn level_stats(text: &str) -> impl Iterator<Item = (u64, u64)> {
    text.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (_, files, size) =
            (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some((files, size * MIB))
    })
}

impl Instance for Tree {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.db.put_opt(key, value, &self.writes)?)
    }

    fn get(&self, key: &[u8], mut into: Option<&mut Pairs>) -> StoreResult<Option<usize>> {
        let value = self.db.get_pinned(key)?;
        Ok(value.map(|value| {
            let value = &*value;
            keep(&mut into, key, value);
            value.len()
        }))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        Ok(self.db.delete_opt(key, &self.writes)?)
    }

    fn scan(&self, start: &[u8], limit: usize, mut into: Option<&mut Pairs>) -> StoreResult<usize> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek(start);
        let mut count = 0;
        while count < limit
            && let Some((key, value)) = iterator.item()
        {
            keep(&mut into, key, value);
            count += 1;
            iterator.next();
        }
        iterator.status()?;
        Ok(count)
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let mut batch = WriteBatch::default();
        for write in writes {
            match *write {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
            }
        }
        Ok(self.db.write_opt(batch, &self.writes)?)
    }

    fn flush(&self) -> StoreResult<()> {
        let mut options = FlushOptions::default();
        options.set_wait(false);
        match self.db.flush_opt(&options) {
            // Refused while writes are stopped: again when they go on.
            Err(error) if error.kind() == ErrorKind::TryAgain => self.refused.store(true, Relaxed),
            done => done?,
        }
        Ok(())
    }

    fn idle(&self) -> StoreResult<bool> {
        if self.refused.swap(false, Relaxed) {
            self.flush()?;
            return Ok(false);
        }
        let mut options = WaitForCompactOptions::default();
        options.set_timeout(5_000);
        match self.db.wait_for_compact(&options) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn levels(&self) -> Vec<LevelStats> {
        let text = self.property("rocksdb.levelstats");
        let level = |(number, (tables, bytes)): (usize, (u64, u64))| {
            let fixed = self.targets.filter(|_| (1..LEVELS - 1).contains(&number));
            let target = fixed.map(|(l1, growth)| l1 * growth.pow(number as u32 - 1));
            LevelStats { tables, bytes, target, ..LevelStats::default() }
        };
        level_stats(&text).enumerate().map(level).collect()
    }

    fn stats(&self) -> StoreStats {
        let count = |ticker| self.options.get_ticker_count(ticker);
        let missed = count(Ticker::BlockCacheDataBytesInsert);
        StoreStats {
            wal_bytes: count(Ticker::WalFileBytes),
            wal_syncs: count(Ticker::WalFileSynced),
            flush_bytes: count(Ticker::FlushWriteBytes),
            compaction_read: count(Ticker::CompactReadBytes),
            compaction_written: count(Ticker::CompactWriteBytes),
            read_bytes: missed,
            l0_compactions: self.events.l0_compactions(),
            widest_job: self.events.widest(),
            waits: self.waits(),
            ..StoreStats::default()
        }
    }

    fn pending(&self) -> Option<u64> {
        let name = "rocksdb.estimate-pending-compaction-bytes";
        self.db.property_int_value(name).ok().flatten()
    }

    fn marks(&self, clock: &Clock) -> Marks {
        self.events.take(clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read() {
        let text = "Level Files Size(MB)\n------\n  0        3       12\n  1       10      640\n";
        let levels: Vec<_> = level_stats(text).collect();
        assert_eq!(levels, [(3, 12 * MIB), (10, 640 * MIB)]);
        let text = "x\nWrite Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: \
                    0, l0-file-count-limit-delays: 2, memtable-limit-stops: 7, total-delays: 2, \
                    total-stops: 7\n";
        let waits: Vec<_> = stalls(text).into_iter().map(|w| (w.cause, w.count)).collect();
        let delays = ("l0-file-count-limit-delays".to_owned(), 2);
        assert_eq!(waits, [delays, ("memtable-limit-stops".to_owned(), 7)]);
    }
}
