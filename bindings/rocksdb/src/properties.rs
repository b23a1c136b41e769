//! Properties, tickers and memory: statistics of a store.
//!
//! `of` has the properties that vLSM supports. Any other property is unknown, as in a RocksDB of
//! another version. Tickers and histograms are read from the store that was opened last with the
//! options.

use crate::bag::{Bag, Value};
use crate::call::{Outcome, api, changed, free, give, shared, text, text_out};
use crate::options::shapes::{Cache, rocksdb_cache_t};
use crate::store::{Family, Store, place, rocksdb_column_family_handle_t, rocksdb_t, store};
use engine::{KeyspaceStats, LatencyStats, Stats};
use parking_lot::Mutex;
use std::ffi::{c_char, c_int};
use std::fmt::Write as _;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Weak};
use std::time::Duration;

type Handle = rocksdb_column_family_handle_t;

/// The store whose statistics these options return.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Weak<Store>>);

impl Watched {
    pub(crate) fn watch(&self, store: &Arc<Store>) {
        *self.0.lock() = Arc::downgrade(store);
    }

    fn stats(&self) -> Option<Stats> {
        Some(self.0.lock().upgrade()?.db.stats())
    }
}

/// The entries of a keyspace without its tombstones.
fn keys(of: &KeyspaceStats) -> u64 {
    of.entries.saturating_sub(of.tombstones)
}

/// The number of a property of a column family.
fn number(stats: &Stats, of: &KeyspaceStats, name: &str) -> Option<u64> {
    let memory = &stats.memory;
    let memtables = of.memtable_bytes.0;
    let running = |flush: bool| {
        let kind = |job: &&engine::JobStats| (job.kind == engine::JobKind::Flush) == flush;
        stats.jobs.iter().filter(kind).count() as u64
    };
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let level: u8 = level.parse().ok()?;
        let found = of.levels.iter().find(|found| found.level == level);
        return Some(found.map_or(0, |found| found.tables));
    }
    Some(match name {
        "estimate-num-keys" => keys(of),
        "estimate-live-data-size" | "live-sst-files-size" | "total-sst-files-size" => {
            of.sst_bytes().0
        }
        "cur-size-active-mem-table" | "cur-size-all-mem-tables" | "size-all-mem-tables" => {
            memtables
        }
        "num-immutable-mem-table" => of.sealed_memtables,
        "mem-table-flush-pending" => (of.sealed_memtables > 0).into(),
        "compaction-pending" => (of.debt.0 > 0).into(),
        "estimate-pending-compaction-bytes" => of.debt.0,
        "num-running-flushes" => running(true),
        "num-running-compactions" => running(false),
        "num-snapshots" => stats.snapshots.count,
        "estimate-table-readers-mem" => memory.readers.0,
        "block-cache-capacity" => stats.memory_limit.0,
        "block-cache-usage" => memory.cache.0,
        "block-cache-pinned-usage" => memory.pinned_blocks.0,
        "background-errors" => stats.read_only.is_some().into(),
        "is-write-stopped" => stats.out_of_space.into(),
        "actual-delayed-write-rate" => stats.write_limit.map_or(0, |limit| limit.0),
        "is-file-deletions-enabled" => 1,
        "num-blob-files" | "total-blob-file-size" | "live-blob-file-size" => 0,
        _ => return None,
    })
}

/// The text of a property of a column family.
fn of(store: &Store, family: &Family, property: &str) -> Option<String> {
    let name = property.strip_prefix("rocksdb.")?;
    let stats = store.db.stats();
    let of = stats.keyspaces.iter().find(|keyspace| keyspace.name == family.name)?;
    Some(match name {
        "stats" | "cfstats" | "dbstats" | "cfstats-no-file-histogram" => {
            let mut text = format!("** Compaction Stats of vLSM [{}] **\n", family.name);
            for level in &of.levels {
                let (at, runs) = (level.level, level.runs);
                let _ =
                    writeln!(text, "L{at}: {runs} runs, {} SSTs, {}", level.tables, level.bytes);
            }
            text + &stats.prometheus()
        }
        "levelstats" => {
            let mut text = String::from("Level Files Size(MB)\n--------------------\n");
            for level in &of.levels {
                let mib = level.bytes.0 >> 20;
                let _ = writeln!(text, "{:>3} {:>8} {mib:>8}", level.level, level.tables);
            }
            text
        }
        "sstables" => format!("{} SSTs", of.ssts()),
        "options-statistics" => stats.prometheus(),
        other => number(&stats, of, other)?.to_string(),
    })
}

/// A property for C.
pub(crate) unsafe fn text_to(
    db: *const rocksdb_t,
    family: *const Handle,
    name: *const c_char,
) -> Outcome<*mut c_char> {
    let (store, family) = unsafe { place(db, family)? };
    let found = of(store, &family, unsafe { text(name, "the property")? });
    Ok(found.map_or(null_mut(), |found| text_out(&found)))
}

/// A number for C: 0 if there is one, and else -1.
pub(crate) unsafe fn number_to(
    db: *const rocksdb_t,
    family: *const Handle,
    name: *const c_char,
    to: *mut u64,
) -> Outcome<c_int> {
    let ask = || unsafe {
        let (store, family) = place(db, family).ok()?;
        let name = text(name, "the property").ok()?.strip_prefix("rocksdb.")?;
        let stats = store.db.stats();
        let of = stats.keyspaces.iter().find(|keyspace| keyspace.name == family.name)?;
        number(&stats, of, name)
    };
    let Some(found) = ask() else { return Ok(-1) };
    if let Some(to) = unsafe { to.as_mut() } {
        *to = found;
    }
    Ok(0)
}

/// The tickers of RocksDB that have a counterpart, by their numbers in its `statistics.h`.
fn ticker(stats: &Stats, number: u32) -> u64 {
    match number {
        0 => stats.cache_misses,
        1 => stats.cache_hits,
        35 => stats.filter_negatives,
        45 => stats.memtable_hits,
        58 => stats.writes,
        59 => stats.gets,
        61 => stats.write_bytes.0,
        76 => stats.waits.iter().map(|wait| wait.total.0).sum(),
        84 => stats.wal_syncs,
        85 => stats.wal_bytes.0,
        94 => stats.compactions.iter().map(|work| work.read.0).sum(),
        95 => stats.compactions.iter().map(|work| work.written.0).sum(),
        96 => stats.flush.written.0,
        _ => 0,
    }
}

/// The histograms of RocksDB that have a counterpart, by their numbers in its `statistics.h`.
fn histogram(stats: &Stats, number: u32) -> Option<&LatencyStats> {
    match number {
        0 => Some(&stats.latencies.get),
        1 => Some(&stats.latencies.write),
        10 => Some(&stats.latencies.multi_get),
        15 => Some(&stats.latencies.seek),
        _ => None,
    }
}

/// The size of a column family; its levels and files are not listed.
pub struct rocksdb_column_family_metadata_t {
    name: String,
    bytes: u64,
    files: u64,
}

unsafe fn metadata(
    db: *const rocksdb_t,
    family: *const Handle,
) -> Outcome<*mut rocksdb_column_family_metadata_t> {
    let (store, family) = unsafe { place(db, family)? };
    let stats = store.db.stats();
    let of = stats.keyspaces.iter().find(|keyspace| keyspace.name == family.name);
    let (bytes, files) = of.map_or((0, 0), |of| (of.sst_bytes().0, of.ssts()));
    let name = family.name.clone();
    Ok(give(rocksdb_column_family_metadata_t { name, bytes, files }))
}

/// The memory of some stores and caches.
pub struct rocksdb_memory_usage_t {
    memtables: u64,
    unflushed: u64,
    readers: u64,
    cache: u64,
}

/// The stores and caches whose memory is requested.
#[derive(Default)]
pub struct rocksdb_memory_consumers_t {
    stores: Vec<Arc<Store>>,
    caches: Vec<Arc<Cache>>,
}

api! {
    fn rocksdb_property_value(db: *mut rocksdb_t, name: *const c_char) -> *mut c_char {
        text_to(db, null(), name)
    }

    fn rocksdb_property_value_cf(
        db: *mut rocksdb_t, family: *mut Handle, name: *const c_char,
    ) -> *mut c_char {
        text_to(db, family, name)
    }

    fn rocksdb_property_int(db: *mut rocksdb_t, name: *const c_char, to: *mut u64) -> c_int {
        number_to(db, null(), name, to)
    }

    fn rocksdb_property_int_cf(
        db: *mut rocksdb_t, family: *mut Handle, name: *const c_char, to: *mut u64,
    ) -> c_int {
        number_to(db, family, name, to)
    }

    fn rocksdb_get_column_family_metadata(
        db: *mut rocksdb_t,
    ) -> *mut rocksdb_column_family_metadata_t {
        metadata(db, null())
    }

    fn rocksdb_get_column_family_metadata_cf(
        db: *mut rocksdb_t, family: *mut Handle,
    ) -> *mut rocksdb_column_family_metadata_t {
        metadata(db, family)
    }

    fn rocksdb_column_family_metadata_destroy(of: *mut rocksdb_column_family_metadata_t) {
        free(of)
    }

    fn rocksdb_column_family_metadata_get_size(of: *mut rocksdb_column_family_metadata_t) -> u64 {
        Ok(shared(of, "the metadata")?.bytes)
    }

    fn rocksdb_column_family_metadata_get_file_count(
        of: *mut rocksdb_column_family_metadata_t,
    ) -> usize {
        Ok(shared(of, "the metadata")?.files as usize)
    }

    fn rocksdb_column_family_metadata_get_name(
        of: *mut rocksdb_column_family_metadata_t,
    ) -> *mut c_char {
        Ok(text_out(&shared(of, "the metadata")?.name))
    }

    fn rocksdb_options_statistics_get_string(options: *mut Bag) -> *mut c_char {
        let watched = shared(options, "the options")?.kept::<Watched>("statistics");
        let stats = watched.as_ref().and_then(|watched| watched.stats());
        Ok(stats.map_or(null_mut(), |stats| text_out(&stats.prometheus())))
    }

    fn rocksdb_options_statistics_get_ticker_count(options: *mut Bag, number: u32) -> u64 {
        let watched = shared(options, "the options")?.kept::<Watched>("statistics");
        let stats = watched.as_ref().and_then(|watched| watched.stats());
        Ok(stats.map_or(0, |stats| ticker(&stats, number)))
    }

    fn rocksdb_options_statistics_get_histogram_data(
        options: *mut Bag, number: u32, to: *mut Bag,
    ) {
        let watched = shared(options, "the options")?.kept::<Watched>("statistics");
        let stats = watched.as_ref().and_then(|watched| watched.stats());
        let Some(found) = stats.as_ref().and_then(|stats| histogram(stats, number)) else {
            return Ok(());
        };
        let to = changed(to, "the data")?;
        let micros = |time: Duration| Value::Real(time.as_nanos() as f64 / 1000.0);
        to.set("median", micros(found.p50));
        to.set("p95", micros(found.quantile(0.95)));
        to.set("p99", micros(found.p99));
        to.set("average", micros(found.mean()));
        to.set("max", micros(found.max));
        to.set("count", Value::Int(found.count as i64));
        to.set("sum", Value::Int(found.sum.as_micros() as i64));
        Ok(())
    }

    fn rocksdb_memory_consumers_create() -> *mut rocksdb_memory_consumers_t {
        Ok(give(rocksdb_memory_consumers_t::default()))
    }

    fn rocksdb_memory_consumers_add_db(
        consumers: *mut rocksdb_memory_consumers_t, db: *mut rocksdb_t,
    ) {
        changed(consumers, "the consumers")?.stores.push(store(db)?.clone());
        Ok(())
    }

    fn rocksdb_memory_consumers_add_cache(
        consumers: *mut rocksdb_memory_consumers_t, cache: *mut rocksdb_cache_t,
    ) {
        let cache = shared(cache, "the cache")?.0.clone();
        changed(consumers, "the consumers")?.caches.push(cache);
        Ok(())
    }

    fn rocksdb_memory_consumers_destroy(consumers: *mut rocksdb_memory_consumers_t) {
        free(consumers)
    }

    fallible fn rocksdb_approximate_memory_usage_create(
        consumers: *mut rocksdb_memory_consumers_t,
    ) -> *mut rocksdb_memory_usage_t {
        let consumers = shared(consumers, "the consumers")?;
        let mut usage =
            rocksdb_memory_usage_t { memtables: 0, unflushed: 0, readers: 0, cache: 0 };
        for store in &consumers.stores {
            let memory = store.db.stats().memory;
            let unflushed = memory.active.0 + memory.sealed.0;
            usage.unflushed += unflushed;
            usage.memtables += unflushed + memory.spare.0 + memory.pinned_memtables.0;
            usage.readers += memory.readers.0;
        }
        usage.cache = consumers.caches.iter().map(|cache| cache.usage() as u64).sum();
        Ok(give(usage))
    }

    fn rocksdb_approximate_memory_usage_destroy(usage: *mut rocksdb_memory_usage_t) {
        free(usage)
    }

    fn rocksdb_approximate_memory_usage_get_mem_table_total(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(shared(usage, "the usage")?.memtables)
    }

    fn rocksdb_approximate_memory_usage_get_mem_table_unflushed(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(shared(usage, "the usage")?.unflushed)
    }

    fn rocksdb_approximate_memory_usage_get_mem_table_readers_total(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(shared(usage, "the usage")?.readers)
    }

    fn rocksdb_approximate_memory_usage_get_cache_total(
        usage: *mut rocksdb_memory_usage_t,
    ) -> u64 {
        Ok(shared(usage, "the usage")?.cache)
    }
}
