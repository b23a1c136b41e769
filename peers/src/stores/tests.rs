//! A store returns the pairs that were written through it, for each kind in this build: 20,000
//! generated pairs, a fifth overwritten, a fifth removed, some of both by transactions, in one
//! region and in four; then settled, closed, opened again. For Pebble, which is driven in Go,
//! `peers/pebble/store_test.go` does the same.

use super::*;
use std::collections::BTreeMap;
use vlsm_measure::workload::data::Data;

const PAIRS: u64 = 20_000;

/// Generated keys divided evenly.
fn splits(regions: usize) -> Vec<Vec<u8>> {
    let split = |region| format!("user{:020}", ((region as u128) << 64) / regions as u128);
    (1..regions).map(|region| split(region).into_bytes()).collect()
}

fn spec(kind: &str, config: &str, regions: usize) -> StoreSpec {
    let mut options = vlsm::Options::default();
    options.compression = vec![Compression::None];
    options.policy = vlsm_policy::profile::profile("rocksdb").unwrap();
    // Small, so that there are flushes and compactions.
    options.policy.tree.memtable_bytes = Bytes::kib(256);
    options.policy.tree.sst_max = Bytes::kib(256);
    options.policy.tree.l1_bytes = Bytes::mib(1);
    StoreSpec { kind: kind.into(), config: config.into(), options, cache: 8 << 20, regions }
}

fn fill(store: &Regions, data: &Data) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut model = BTreeMap::new();
    let mut key = Vec::new();
    for (record, round) in (0..PAIRS).map(|n| (n, 0)).chain((0..PAIRS).step_by(5).map(|n| (n, 1))) {
        data.key(record, &mut key);
        let value = data.value(record * 31 + round * 7);
        store.put(&key, value).unwrap();
        model.insert(key.clone(), value.to_vec());
    }
    for record in (1..PAIRS).step_by(5) {
        data.key(record, &mut key);
        store.delete(&key).unwrap();
        model.remove(&key);
    }
    // Transactions: one pair anew, one away, in whatever regions they lie.
    let mut other = Vec::new();
    for record in (0..PAIRS / 10).map(|n| n * 10) {
        data.key(record + 2, &mut key);
        data.key(record + 3, &mut other);
        let value = data.value(record + 5);
        store.write(&[Write::Put(&key, value), Write::Delete(&other)]).unwrap();
        model.insert(key.clone(), value.to_vec());
        model.remove(&other);
    }
    model
}

fn check(store: &Regions, data: &Data, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut key = Vec::new();
    for record in 0..PAIRS + 100 {
        data.key(record, &mut key);
        let mut read = Pairs::new();
        let length = store.read(&key, Some(&mut read)).unwrap();
        assert_eq!(read.pop().map(|(_, value)| value).as_ref(), model.get(&key), "{record}");
        assert_eq!(store.get(&key).unwrap(), length);
    }
    let mut all = Pairs::new();
    assert_eq!(store.visit(&[], usize::MAX >> 1, Some(&mut all)).unwrap(), model.len());
    assert!(all.iter().map(|(key, value)| (key, value)).eq(model), "a scan of everything");
    // From within a region to the end of the next ones, and a short one.
    for limit in [model.len() / 2, 100, 1] {
        data.key(77, &mut key);
        let mut some = Pairs::new();
        let count = store.visit(&key, limit, Some(&mut some)).unwrap();
        let wanted = model.range(key.clone()..).take(limit);
        assert!(some.iter().map(|(key, value)| (key, value)).eq(wanted), "a scan of {limit}");
        assert_eq!((count, store.scan(&key, limit).unwrap()), (some.len(), some.len()));
    }
}

fn written_is_read(kind: &str, config: &str, regions: usize) {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(kind, config, regions);
    let data = Data::new(24, 176, 1);
    let store = Regions::open(&spec, splits(regions), folder.path()).unwrap();
    assert_eq!(store.parts.len(), regions);
    let model = fill(&store, &data);
    check(&store, &data, &model);
    let limit = Duration::from_secs(60);
    assert!(store.settle(limit, &|| false).unwrap(), "background work ends");
    let (stats, marks) = (store.stats(), store.marks(&Clock::start()));
    let user = PAIRS * 200;
    assert!(stats.disk_bytes > user / 2, "{stats:?}");
    if kind == "rocksdb" {
        let written = |kind: &str| -> u64 {
            let jobs = marks.jobs.iter().filter(|job| (job.kind == "flush") == (kind == "flush"));
            jobs.map(|job| job.written).sum()
        };
        // RocksDB's counters have what else the job wrote, too.
        let agree = |one: u64, other: u64| one.abs_diff(other) * 50 <= one.max(other);
        assert!(agree(written("flush"), stats.flush_bytes), "{stats:?} {:?}", marks.jobs);
        assert!(
            agree(written("compaction"), stats.compaction_written),
            "{stats:?} {:?}",
            marks.jobs
        );
        assert!(stats.wal_bytes > user && stats.flush_bytes > user / 2, "{stats:?}");
        assert!(stats.levels.iter().map(|level| level.tables).sum::<u64>() > 0, "{stats:?}");
    }
    if kind == "wiredtiger" {
        // Its log has what was written, and each page was written by a checkpoint at least.
        assert!(stats.wal_bytes > user && stats.flush_bytes > user / 2, "{stats:?}");
    }
    Box::new(store).close().1.unwrap();
    let store = Regions::open(&spec, splits(regions), folder.path()).unwrap();
    check(&store, &data, &model);
    Box::new(store).close().1.unwrap();
}

/// All configurations of a kind, where this build has it.
fn each(kind: &str) {
    let kind = KINDS.iter().find(|known| known.name == kind).unwrap();
    if let Err(why) = (kind.version)() {
        eprintln!("SKIPPED: {}: {why}", kind.name);
        return;
    }
    for (config, _) in kind.configs {
        written_is_read(kind.name, config, 1);
        written_is_read(kind.name, config, 4);
    }
}

#[test]
fn rocksdb() {
    each("rocksdb");
}

#[test]
fn fjall() {
    each("fjall");
}

#[test]
fn redb() {
    each("redb");
}

#[test]
fn lmdb() {
    each("lmdb");
}

#[test]
fn wiredtiger() {
    each("wiredtiger");
}

#[test]
fn what_is_not_there_is_refused_with_help() {
    let folder = tempfile::tempdir().unwrap();
    let error = |spec: &StoreSpec| match open(spec, Vec::new(), folder.path()) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    };
    let no_kind = error(&spec("rocksdv", "", 1));
    assert!(no_kind.contains("\"rocksdv\"") && no_kind.contains("redb"), "{no_kind}");
    let no_config = error(&spec("redb", "io", 1));
    assert_eq!(no_config, "redb has no configuration \"io\": default");
    #[cfg(not(feature = "rocksdb"))]
    assert!(error(&spec("rocksdb", "", 1)).contains("peers/build"));
    let mut compressed = spec("redb", "", 1);
    compressed.options.compression = vec![Compression::Lz4];
    assert!(error(&compressed).contains("compression"));
}

#[test]
fn versions_come_from_the_lock_file() {
    assert!(version_of("fjall").unwrap().starts_with("3."));
    assert!(version_of("no such crate").is_err());
}
