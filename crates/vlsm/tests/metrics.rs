//! What a store says about itself in numbers: latencies, keyspaces, files, snapshots, and all of it
//! as a page for Prometheus.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod exposition;
mod tiny;

use exposition::Page;
use std::time::Duration;
use tiny::tiny;
use vlsm::{ByteCount, Db, Durability, Error, Event, KeyspaceOptions, WaitCause, WriteOptions};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Small sizes, so that little data makes several levels.
fn small(path: &std::path::Path) -> Db {
    tiny(Db::builder(path).profile("vlsm").unwrap(), ByteCount::kib(64)).open().unwrap()
}

fn fill(db: &Db, from: u64, to: u64) {
    for n in from..to {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(key, n.to_string().repeat(10)).unwrap();
    }
}

#[test]
fn every_kind_of_operation_has_its_latencies() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    assert_eq!(db.stats().latencies, Default::default());
    fill(&db, 0, 4000);
    for n in 0..4000_u64 {
        db.get(n.to_be_bytes()).unwrap();
    }
    for n in 0..400_u64 {
        let found = db.multi_get([n.to_be_bytes(), (n + 1).to_be_bytes()]);
        assert!(found.iter().all(Result::is_ok));
        assert!(db.iter().next_back().is_some());
    }
    for n in 0..50_u64 {
        db.transact(|transaction| {
            let main = db.default_keyspace();
            transaction.get(&main, n.to_be_bytes())?;
            transaction.put(&main, n.to_be_bytes(), "value")
        })
        .unwrap();
    }
    let latencies = db.stats().latencies;
    // The gaps are random: about one in 64 is measured, of transactions one in 16.
    for (name, stats, counts) in [
        ("get", &latencies.get, 40..100),
        ("multi_get", &latencies.multi_get, 12..50),
        ("write", &latencies.write, 40..100),
        ("seek", &latencies.seek, 2..20),
        ("transaction", &latencies.transaction, 1..12),
    ] {
        assert!(counts.contains(&stats.count), "{name}: {stats:?}");
        let sum: u64 = stats.buckets.iter().map(|bucket| bucket.count).sum();
        assert_eq!(sum, stats.count, "{name}");
        assert!(Duration::ZERO < stats.p50 && stats.p50 <= stats.p99, "{name}: {stats:?}");
        assert!(stats.p99 <= stats.p99_9 && stats.p99_9 <= stats.max, "{name}: {stats:?}");
        assert!(stats.mean() <= stats.max, "{name}: {stats:?}");
        assert!(stats.sum < Duration::from_secs(60), "{name}: {stats:?}");
    }
    db.close().unwrap();
}

#[test]
fn operations_that_fail_have_no_latency() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    let main = db.default_keyspace();
    for n in 0..200_u32 {
        let mut transaction = db.transaction();
        transaction.get(&main, "counter").unwrap();
        transaction.put(&main, "counter", n.to_be_bytes()).unwrap();
        db.put("counter", "other").unwrap();
        assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
    }
    let stats = db.stats();
    assert_eq!((stats.conflicts, stats.latencies.transaction.count), (200, 0));
    db.close().unwrap();
    let before = main.get("counter").unwrap_err();
    assert!(matches!(before, Error::Closed), "{before}");
}

/// Each `Sync` write waits for the device, and each such wait is in the histogram of its cause.
#[test]
fn waits_are_all_measured() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    for n in 0..20_u32 {
        let options = WriteOptions::durability(Durability::Sync);
        db.put_with(n.to_be_bytes(), "value", options).unwrap();
    }
    let stats = db.stats();
    let sync = stats.waits.iter().find(|wait| wait.cause == WaitCause::WalSync).unwrap();
    assert_eq!((sync.count, sync.latency.count), (20, 20));
    assert_eq!(u128::from(sync.longest.0), sync.latency.max.as_micros());
    assert_eq!(u128::from(sync.total.0), sync.latency.sum.as_micros());
    db.close().unwrap();
}

/// Waits of many threads: none is lost, and each thread's first operations are in the sample.
#[test]
fn threads_add_up() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..20_u32 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..5_u32 {
                    let key = [thread, n].map(u32::to_be_bytes).concat();
                    db.put_with(key, "value", WriteOptions::durability(Durability::Sync)).unwrap();
                }
            });
        }
    });
    let stats = db.stats();
    let sync = stats.waits.iter().find(|wait| wait.cause == WaitCause::WalSync).unwrap();
    assert_eq!((stats.batches, sync.latency.count), (100, 100));
    assert!((10..=60).contains(&stats.latencies.write.count), "{:?}", stats.latencies.write);
    db.close().unwrap();
}

/// A page of JSON that was written before there were latencies can still be read, and a new one
/// reads back as it was.
#[test]
fn statistics_survive_json() {
    let folder = folder();
    let db = small(&folder.path().join("store"));
    fill(&db, 0, 3000);
    let stats = db.stats();
    let json = toml::Value::try_from(&stats.latencies).unwrap();
    assert_eq!(json.try_into::<vlsm::Latencies>().unwrap(), stats.latencies);
    db.close().unwrap();
}

/// The numbers of a keyspace are its own, and together they are those of the store.
#[test]
fn keyspaces_add_up_to_the_store() {
    let folder = folder();
    let db = small(&folder.path().join("store"));
    let splits = ["m".to_owned()];
    let other = db.create_keyspace("other", KeyspaceOptions::splits(splits)).unwrap();
    fill(&db, 0, 20_000);
    for n in 0..500_u32 {
        other.put(format!("{}{n}", if n % 2 == 0 { "a" } else { "z" }), "value").unwrap();
    }
    other.delete("a0").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    other.put("z", "in memory").unwrap();
    let stats = db.stats();
    let [main, small] = &stats.keyspaces[..] else { panic!("{:?}", stats.keyspaces) };
    assert_eq!((main.name.as_str(), small.name.as_str()), ("default", "other"));
    assert_eq!((main.regions, small.regions), (1, 2));
    // The tombstone went with the flush: there is nothing below it.
    assert_eq!((small.entries, small.tombstones, small.sealed_memtables), (499, 0, 0));
    assert!(main.sst_bytes() > small.sst_bytes() && small.sst_bytes() > ByteCount(0));
    assert!(main.levels.len() > 1, "{:?}", main.levels);
    assert!(small.memtable_bytes > ByteCount(0), "{small:?}");
    for level in &stats.levels {
        let of = |keyspace: &vlsm::KeyspaceStats| {
            let found = keyspace.levels.get(usize::from(level.level)).cloned().unwrap_or_default();
            (found.runs, found.tables, found.bytes)
        };
        let ((runs, tables, bytes), (more_runs, more_tables, more)) = (of(main), of(small));
        assert_eq!((level.runs, level.tables), (runs + more_runs, tables + more_tables));
        assert_eq!(level.bytes, bytes + more);
    }
    let files = &stats.files;
    let on_disk = || {
        let names = std::fs::read_dir(folder.path().join("store")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".sst")).count() as u64
    };
    // What cancelled jobs wrote is removed in the background, and is in no tree.
    let known = || db.stats().files.ssts + db.stats().zombie_files;
    let agree = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        known() == on_disk()
    });
    assert!(agree, "{} of {}: {files:?}", known(), on_disk());
    assert!(files.wals >= 1 && files.wal_bytes > ByteCount(0), "{files:?}");
    db.close().unwrap();
}

#[test]
fn snapshots_are_counted_with_their_age() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!((db.stats().snapshots.count, db.stats().snapshots.oldest), (0, None));
    let old = db.snapshot();
    let clone = old.clone();
    std::thread::sleep(Duration::from_millis(20));
    db.put("a", "2").unwrap();
    let (young, walk, transaction) = (db.snapshot(), db.iter(), db.transaction());
    let stats = db.stats().snapshots;
    assert_eq!(stats.count, 4);
    assert!(stats.oldest.unwrap().0 >= 20_000, "{stats:?}");
    let before = stats.oldest.unwrap();
    drop((old, clone));
    let stats = db.stats().snapshots;
    assert_eq!(stats.count, 3);
    // The young one is at least 20 ms younger; the time between the two looks may be as long.
    assert!(stats.oldest.unwrap() < before || before.0 > 1_000_000, "{stats:?}");
    drop((young, walk, transaction));
    assert_eq!(db.stats().snapshots.count, 0);
    db.close().unwrap();
}

/// A page is what the format demands, and its numbers are those of the statistics.
#[test]
fn the_page_for_prometheus_follows_the_format() {
    let folder = folder();
    let db = small(&folder.path().join("store"));
    let name = "odd \"name\" \\ of a keyspace";
    db.create_keyspace(name, KeyspaceOptions::new()).unwrap();
    Page::read(&db.stats().prometheus());
    fill(&db, 0, 10_000);
    db.wait_idle().unwrap();
    let held = db.snapshot();
    let stats = db.stats();
    let page = Page::read(&stats.prometheus());
    assert_eq!(page.value("vlsm_writes_total", &[]), Some(10_000.0));
    assert_eq!(
        page.value("vlsm_write_seconds_count", &[]),
        Some(stats.latencies.write.count as f64)
    );
    let flushed = page.value("vlsm_jobs_total", &[("level", "memtable")]);
    assert_eq!(flushed, Some(stats.flush.jobs as f64));
    let odd = [("keyspace", name), ("level", "0")];
    assert_eq!(page.value("vlsm_level_ssts", &odd), Some(0.0));
    let l1 = [("keyspace", "default"), ("level", "1")];
    assert_eq!(page.value("vlsm_level_bytes", &l1), Some(stats.levels[1].bytes.0 as f64));
    assert_eq!(page.value("vlsm_snapshots", &[]), Some(1.0));
    for cause in WaitCause::ALL {
        let cause = cause.name().to_lowercase().replace(' ', "_");
        let count = page.value("vlsm_wait_seconds_count", &[("cause", &cause)]);
        assert!(count.is_some(), "{cause}");
    }
    drop(held);
    db.close().unwrap();
}

/// Writes into one of two keyspaces wait for its memtables: the events and the statistics say so,
/// with its name and the chain that its memtables waited for.
#[test]
fn waits_name_the_keyspace_and_the_chain() {
    let folder = folder();
    let (events, kept) = std::sync::mpsc::channel();
    let events = std::sync::Mutex::new(events);
    let builder = Db::builder(folder.path().join("store"));
    let builder = builder.profile("rocksdb/admission=open").unwrap();
    let db = tiny(builder, ByteCount::kib(64))
        .configure(|options| {
            options.workers = 1;
            options.policy.tree.memtable_count = 2;
            options.policy.tree.l0_max = 4;
        })
        .listener(move |event| events.lock().unwrap().send(event.clone()).unwrap())
        .open()
        .unwrap();
    let orders = db.create_keyspace("orders", KeyspaceOptions::new()).unwrap();
    let users = db.create_keyspace("users", KeyspaceOptions::new()).unwrap();
    users.put("ada", "1815").unwrap();
    let lazy = WriteOptions::durability(Durability::Lazy);
    for n in 0..60_000_u64 {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        orders.put_with(key, [7; 200], lazy).unwrap();
    }
    db.wait_idle().unwrap();
    let stats = db.stats();
    let of = |name| stats.keyspaces.iter().find(|keyspace| keyspace.name == name).unwrap();
    let waits = &of("orders").waits;
    let full = waits.iter().find(|wait| wait.cause == WaitCause::MemtableFull).unwrap();
    let all = stats.waits.iter().find(|wait| wait.cause == WaitCause::MemtableFull).unwrap();
    assert_eq!((full.count, full.total), (all.count, all.total), "only orders waited");
    assert_eq!(of("users").waits, []);
    assert_eq!(of("orders").chains, stats.chains);
    let page = Page::read(&stats.prometheus());
    let labels = [("keyspace", "orders"), ("cause", "memtable_full")];
    assert_eq!(page.value("vlsm_keyspace_waits_total", &labels), Some(full.count as f64));
    db.close().unwrap();
    let (mut jobs, mut waited, mut behind) = (0, 0, 0);
    for event in kept.try_iter() {
        match &event {
            Event::Waited { keyspace, behind: chain, cause: WaitCause::MemtableFull, .. } => {
                assert_eq!(keyspace.as_deref(), Some("orders"));
                waited += 1;
                if let Some(chain) = chain {
                    assert_eq!(chain.keyspace, "orders");
                    assert!(event.to_string().contains("behind the chain of"), "{event}");
                    behind += 1;
                }
            }
            Event::Rotated { keyspace, .. } | Event::JobFinished { keyspace, .. } => {
                assert!(["orders", "users"].contains(&keyspace.as_str()), "{event:?}");
                assert!(event.to_string().contains(&format!(" ({keyspace}) ")), "{event}");
                jobs += 1;
            }
            _ => {}
        }
    }
    assert!(jobs > 10 && waited > 0, "{jobs} jobs, {waited} waits of a millisecond");
    assert!(stats.chains.count == 0 || behind > 0, "{:?}", stats.chains);
}
