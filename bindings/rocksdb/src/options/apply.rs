//! How RocksDB's options become vLSM's: those of the store, of a keyspace, of reads and of writes.
//!
//! 1. An option of the status `refused` that differs from the default is an error at open, which
//!    names the option and the remedy.
//! 2. An option of the status `mapped` is taken from the bag here.
//! 3. An option of the status `harmless` is written once into the file `LOG.rocksdb` in the store's
//!    folder, or where `db_log_dir` says.

use super::shapes::{BYTEWISE, Cache, Order};
use crate::bag::{Bag, Row, Status, Value};
use crate::call::{Outcome, shared};
use crate::status::Failure;
use engine::{ByteCount, Compression, Durability, KeyspaceOptions, Options, WriteOptions};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The memory beside the block cache and the memtables, for indexes and filters.
const BESIDE_CACHE: u64 = 64 << 20;

/// The compaction style that drops data.
const FIFO: i32 = 2;

/// The bags of options that a bag of options holds, and itself.
fn all(options: &Bag) -> Vec<Arc<Bag>> {
    let inner = ["table", "universal", "fifo"].map(|key| options.kept::<Bag>(key));
    let inner = inner.into_iter().flatten();
    std::iter::once(Arc::new(options.clone())).chain(inner).collect()
}

/// Refuses options whose meaning vLSM does not have.
pub(crate) fn check(options: &Bag) -> Outcome {
    for bag in all(options) {
        let refused = bag.changes().find(|(row, _)| row.status == Status::Refused);
        if let Some((Row { object, key, note, .. }, value)) = refused {
            let what = format!("vLSM has no {object}.{key} = {value}: {note}");
            return Err(Failure::argument(what));
        }
    }
    if options.get::<i32>("compaction_style") == FIFO {
        return Err(Failure::argument(
            "vLSM has no options.compaction_style = 2 (FIFO), which drops the oldest data: open \
             the store with a time to live, or delete ranges by rocksdb_delete_range_cf",
        ));
    }
    if let Some(order) = options.kept::<Order>("comparator") {
        if order.timestamps {
            return Err(Failure::argument(
                "vLSM has no user-defined timestamps: put the time into the key",
            ));
        }
        if order.name != BYTEWISE {
            return Err(Failure::argument(format!(
                "vLSM orders keys by their bytes and has no comparator {:?}: encode the keys so \
                 that their bytes have the order, and use {BYTEWISE}",
                order.name
            )));
        }
    }
    Ok(())
}

/// Writes the options that are accepted and have no effect into a file, once for each open.
pub(crate) fn log(options: &Bag, folder: &Path) {
    let mut text = String::new();
    for bag in all(options) {
        for (row, value) in bag.changes().filter(|(row, _)| row.status == Status::Harmless) {
            let Row { object, key, note, .. } = row;
            let note = if note.is_empty() { "vLSM needs no such option" } else { note };
            let _ = writeln!(text, "Options.{object}.{key}: {value} has no effect: {note}");
        }
    }
    if text.is_empty() {
        return;
    }
    let elsewhere = options.kept::<PathBuf>("db_log_dir");
    let folder = elsewhere.as_deref().filter(|path| path.is_dir()).map_or(folder, PathBuf::as_path);
    // A log that cannot be written causes no failure.
    let _ = std::fs::write(folder.join("LOG.rocksdb"), text);
}

/// The options of the store.
pub(crate) fn of_store(options: &Bag) -> Options {
    let mut to = Options::default();
    to.create_if_missing = options.flag("create_if_missing");
    to.error_if_exists = options.flag("error_if_exists");
    to.direct_reads = options.flag("use_direct_reads");
    to.direct_io = options.flag("use_direct_io_for_flush_and_compaction");
    if let Some(bytes) = options.given::<u64>("wal_bytes_per_sync").filter(|bytes| *bytes > 0) {
        to.wal_sync_bytes = ByteCount(bytes.clamp(1 << 10, 1 << 30));
    }
    if let Some(bytes) = options.given::<u64>("max_total_wal_size").filter(|bytes| *bytes > 0) {
        to.wal_limit = ByteCount(bytes).max(to.wal_of_memtables());
    }
    if options.flag("manual_wal_flush") {
        to.durability = Durability::Lazy;
    }
    let table = options.kept::<Bag>("table");
    if let Some(cache) = table.as_ref().and_then(|table| table.kept::<Cache>("block_cache")) {
        let capacity = *cache.capacity.lock() as u64;
        to.cache_limit = Some(ByteCount(capacity));
        // The limit holds memtables, indexes and filters as well. A larger default stays.
        let all = ByteCount(capacity.saturating_add(to.least_memory().0 + BESIDE_CACHE));
        let mut usual = Options::default();
        usual.set_memory(None);
        to.memory_limit = if all > usual.memory_limit { all } else { ByteCount::ZERO };
    }
    if table.is_some_and(|table| table.flag("no_block_cache")) {
        to.cache_limit = Some(ByteCount::ZERO);
    }
    to
}

/// The codec of vLSM that replaces a codec of RocksDB.
fn codec(number: i64) -> Compression {
    match number {
        0 => Compression::None,
        7 if cfg!(feature = "zstd") => Compression::Zstd,
        _ => Compression::Lz4,
    }
}

/// The compression by level; none if the options do not say.
fn compression(options: &Bag) -> Option<Vec<Compression>> {
    let levels = options.kept::<Vec<i32>>("compression_per_level").filter(|all| !all.is_empty());
    let mut by_level = match levels {
        Some(levels) => levels.iter().map(|number| codec((*number).into())).collect(),
        None => vec![codec(options.given("compression")?)],
    };
    // RocksDB's default, kDisableCompressionOption, is 255: as the other levels.
    let last = options.given::<i64>("bottommost_compression").filter(|number| *number != 255);
    by_level.extend(last.map(codec));
    Some(by_level)
}

/// The options of a keyspace. `existing` are its present options, of which some are fixed.
pub(crate) fn of_keyspace(
    options: &Bag,
    existing: KeyspaceOptions,
    ttl: Option<i32>,
) -> KeyspaceOptions {
    let mut to = existing;
    if let Some(by_level) = compression(options) {
        to = to.compression(by_level);
    }
    if let Some(table) = options.kept::<Bag>("table") {
        if let Some(bytes) = table.given::<u64>("block_size") {
            to = to.block_bytes(ByteCount(bytes.clamp(512, 1 << 20)));
        }
        if let Some(bits) = table.kept::<f64>("filter_policy") {
            to = to.bits_per_key((bits.clamp(0.0, 64.0)).round() as u32);
        }
    }
    // As in RocksDB, a time to live of zero or less means for ever.
    if let Some(ttl) = ttl {
        to.ttl = u64::try_from(ttl).ok().filter(|ttl| *ttl > 0).map(Duration::from_secs);
    }
    to
}

/// The options of a write.
pub(crate) unsafe fn of_write(options: *const Bag, manual_wal: bool) -> Outcome<WriteOptions> {
    let options = unsafe { shared(options, "the write options")? };
    let durability = match (options.flag("sync"), options.flag("disable_WAL")) {
        (true, true) => {
            return Err(Failure::argument("Sync writes has to enable WAL."));
        }
        (true, false) => Durability::Sync,
        (false, true) => Durability::NoWal,
        (false, false) if manual_wal => Durability::Lazy,
        (false, false) => Durability::Buffered,
    };
    let to = WriteOptions::durability(durability);
    Ok(if options.flag("no_slowdown") { to.deadline(Duration::ZERO) } else { to })
}

/// Refuses read options whose meaning vLSM does not have.
pub(crate) fn check_read(options: &Bag) -> Outcome {
    let refused = options.changes().find(|(row, _)| row.status == Status::Refused);
    match refused {
        None => Ok(()),
        Some((Row { key, note, .. }, value)) => {
            Err(Failure::missing(format!("vLSM has no read option {key} = {value}: {note}")))
        }
    }
}

/// A value from the text of an option.
pub(crate) fn parse(row: &Row, text: &str) -> Option<Value> {
    match (text, row.default) {
        ("true", _) => Some(Value::Int(1)),
        ("false", _) => Some(Value::Int(0)),
        (_, Value::Real(_)) => text.parse().ok().map(Value::Real),
        (_, Value::Int(_)) => text.parse().ok().map(Value::Int),
    }
}
