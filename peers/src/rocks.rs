//! RocksDB as a store under measurement, configured by the same sizes as ours.
//!
//! Threads: as RocksDB, all calls from any thread.

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, WaitForCompactOptions, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vlsm_lab::process::folder_bytes;
use vlsm_lab::store::{LevelStats, Store, StoreResult, StoreStats};
use vlsm_policy::PolicyOptions;

/// An open RocksDB.
pub struct Rocks {
    db: DB,
    path: PathBuf,
    writes: WriteOptions,
    levels: usize,
}

impl Rocks {
    /// Opens a store with the sizes of `policy` and a block cache of `cache` bytes: direct I/O, no
    /// compression, 10 bits a key, the WAL on without sync, one background job a core; everything
    /// else as RocksDB has it.
    pub fn open(path: &Path, policy: &PolicyOptions, cache: u64) -> StoreResult<Self> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(cache as usize));
        table.set_bloom_filter(10.0, false);
        table.set_block_size(4096);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as i32;
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::None);
        options.set_use_direct_io_for_flush_and_compaction(true);
        options.set_use_direct_reads(true);
        options.set_write_buffer_size(policy.memtable_bytes.0 as usize);
        options.set_max_write_buffer_number(policy.memtable_count as i32);
        options.set_target_file_size_base(policy.sst_max.0);
        options.set_max_bytes_for_level_base(policy.l1_bytes.0);
        options.set_max_bytes_for_level_multiplier(policy.growth as f64);
        options.set_level_compaction_dynamic_level_bytes(false);
        options.set_level_zero_file_num_compaction_trigger(policy.l0_trigger as i32);
        options.set_level_zero_slowdown_writes_trigger(policy.l0_slowdown as i32);
        options.set_level_zero_stop_writes_trigger(policy.l0_stop as i32);
        options.set_max_background_jobs(cores);
        options.increase_parallelism(cores);
        let mut writes = WriteOptions::default();
        writes.set_sync(false);
        let db = DB::open(&options, path)?;
        Ok(Self { db, path: path.to_owned(), writes, levels: 7 })
    }
}

impl Store for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.db.put_opt(key, value, &self.writes)?)
    }

    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>> {
        Ok(self.db.get_pinned(key)?.map(|value| value.len()))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        Ok(self.db.delete_opt(key, &self.writes)?)
    }

    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek(start);
        let mut count = 0;
        while count < limit && iterator.valid() {
            std::hint::black_box((iterator.key(), iterator.value()));
            count += 1;
            iterator.next();
        }
        iterator.status()?;
        Ok(count)
    }

    fn settle(&self, limit: Duration, _give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        options.set_timeout(limit.as_micros() as u64);
        match self.db.wait_for_compact(&options) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == rocksdb::ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn stats(&self) -> StoreStats {
        let property = |name: &str| self.db.property_value(name).ok().flatten();
        let level = |level: usize| {
            let tables = property(&format!("rocksdb.num-files-at-level{level}"))?;
            Some(LevelStats { tables: tables.parse().ok()?, ..LevelStats::default() })
        };
        StoreStats {
            levels: (0..self.levels).map_while(level).collect(),
            disk_bytes: folder_bytes(&self.path),
            ..StoreStats::default()
        }
    }
}
