//! fjall: an LSM store in Rust. A region is one of its keyspaces, so they share journal, block
//! cache and worker threads, as ours do.
//!
//! - Memtables: a keyspace seals its memtable at the given size; how many sealed ones may wait is
//!   fjall's own matter, so its memory can be more than that of the others (see a report's peak).
//! - WAL: each write ends with `write()` to its journal, as ours; synced only when asked for. The
//!   process's own buffer (`Lazy`) is fjall's manual mode. A write without WAL does not exist: it
//!   is refused.
//! - Reads, flushes and compactions go through the page cache: fjall has no direct I/O. A limit on
//!   device writes by control groups v1 does not reach it.
//! - It counts no bytes of flushes and compactions; a report has those of the system.
//! - Sizes of tables and levels: `default` has fjall's own; `sized` takes SST size and L1.

use super::{Described, Instance, Kind, Opened, Pairs, Setup, io, keep, version_of, wal};
use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode,
};
use std::sync::Arc;
use vlsm::Durability;
use vlsm_measure::store::{LevelStats, StoreResult, Write};

pub const KIND: Kind = Kind {
    name: "fjall",
    configs: &[
        ("default", "fjall's own table size, levels and growth, memtables as specified"),
        ("sized", "memtables, SSTs and L0 trigger as specified, growth factor as specified"),
    ],
    version: || version_of("fjall"),
    open,
};

struct Region {
    db: Database,
    keyspace: Keyspace,
    sync: bool,
}

fn open(setup: &Setup) -> Opened {
    let options = &setup.spec.options;
    let policy = &options.policy;
    if options.durability == Durability::NoWal {
        return Err("fjall has no writes without its journal".into());
    }
    // One database for all regions: the folders of the others stay empty.
    let db = Database::builder(&setup.folders[0])
        .cache_size(setup.spec.cache)
        .worker_threads(setup.threads)
        .journal_compression(CompressionType::None)
        .manual_journal_persist(options.durability == Durability::Lazy)
        .open()?;
    let mut levels = Leveled::default();
    if setup.config == "sized" {
        levels = levels
            .with_table_target_size(policy.tree.sst_max.0)
            .with_level_ratio_policy(vec![policy.tree.growth as f32]);
    }
    if setup.config == "sized" || policy.tree.l0_trigger == 1 {
        levels = levels.with_l0_threshold(policy.tree.l0_trigger.min(255) as u8);
    }
    let strategy = Arc::new(levels);
    let filter = match options.bits_per_key {
        0 => FilterPolicy::disabled(),
        bits => FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(
            bits as f32,
        ))),
    };
    let tree = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(policy.tree.memtable_bytes.0)
            .manual_journal_persist(options.durability == Durability::Lazy)
            .data_block_size_policy(BlockSizePolicy::all(options.block_bytes.0 as u32))
            .data_block_compression_policy(CompressionPolicy::disabled())
            .index_block_compression_policy(CompressionPolicy::disabled())
            .filter_policy(filter.clone())
            .compaction_strategy(strategy.clone())
    };
    let mut regions: Vec<Box<dyn Instance>> = Vec::new();
    for number in 0..setup.folders.len() {
        let keyspace = db.keyspace(&format!("region-{number}"), tree)?;
        let sync = options.durability == Durability::Sync;
        regions.push(Box::new(Region { db: db.clone(), keyspace, sync }));
    }
    let described: Described = vec![
        ("memtables", format!("{} each", policy.tree.memtable_bytes)),
        ("WAL", wal(options.durability)),
        ("jobs' I/O", io(false)),
        ("reads", io(false)),
        ("filter", format!("{} bits/key", options.bits_per_key)),
    ];
    Ok((regions, described))
}

impl Region {
    fn persist(&self) -> StoreResult<()> {
        if self.sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Instance for Region {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.keyspace.insert(key, value)?;
        self.persist()
    }

    fn get(&self, key: &[u8], mut into: Option<&mut Pairs>) -> StoreResult<Option<usize>> {
        let value = self.keyspace.get(key)?;
        Ok(value.map(|value| {
            let value = &*value;
            keep(&mut into, key, value);
            value.len()
        }))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.keyspace.remove(key)?;
        self.persist()
    }

    fn scan(&self, start: &[u8], limit: usize, mut into: Option<&mut Pairs>) -> StoreResult<usize> {
        let mut count = 0;
        for pair in self.keyspace.range(start..).take(limit) {
            let (key, value) = pair.into_inner()?;
            keep(&mut into, &key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let mut batch = self.db.batch();
        for write in writes {
            match *write {
                Write::Put(key, value) => batch.insert(&self.keyspace, key, value),
                Write::Delete(key) => batch.remove(&self.keyspace, key),
            }
        }
        batch.commit()?;
        self.persist()
    }

    fn flush(&self) -> StoreResult<()> {
        self.keyspace.rotate_memtable()?;
        Ok(())
    }

    fn idle(&self) -> StoreResult<bool> {
        Ok(self.db.outstanding_flushes() == 0
            && self.db.active_compactions() == 0
            && self.keyspace.sealed_memtable_count() == 0)
    }

    fn levels(&self) -> Vec<LevelStats> {
        let version = self.keyspace.tree.current_version();
        let levels = version.iter_levels().map(|level| LevelStats {
            tables: level.iter().map(|run| run.len() as u64).sum(),
            bytes: level.size(),
            ..LevelStats::default()
        });
        levels.collect()
    }
}
