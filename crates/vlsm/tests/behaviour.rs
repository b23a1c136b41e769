//! Behaviour that users rely on beyond plain reads and writes: durabilities, iterators from both
//! ends, other profiles on the same files, handles used wrongly, and failures in the background.
#![allow(clippy::unwrap_used)]

mod altered;
mod tiny;

use altered::Altered;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tiny::tiny;
use vlsm::{
    Batch, ByteCount, Compression, Db, Durability, Env, Error, Event, JobKind, KeyspaceOptions,
    SlowPath, WriteOptions,
};
use vlsm_disk::RealEnv;
use vlsm_disk::fs::read_all;
use vlsm_testfs::{Fault, FaultFs, Op, Rule, SimFs};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Small sizes, so that little data makes several levels.
fn small(profile: &str, path: &std::path::Path) -> vlsm::Builder {
    tiny(Db::builder(path).profile(profile).unwrap(), ByteCount::kib(64))
}

fn fill(db: &Db, from: u64, to: u64) {
    for n in from..to {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(key, n.to_string().repeat(10)).unwrap();
    }
}

#[test]
fn every_durability_survives_a_close() {
    let folder = folder();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    let main = db.default_keyspace();
    for (key, durability) in [
        ("sync", Durability::Sync),
        ("buffered", Durability::Buffered),
        ("lazy", Durability::Lazy),
        ("no-wal", Durability::NoWal),
    ] {
        main.put_with(key, key, WriteOptions::durability(durability)).unwrap();
    }
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    let mut batch = Batch::new();
    batch.put(&main, "a", "b");
    batch.put(&other, "a", "b");
    let refused = db.write(&batch, WriteOptions::durability(Durability::NoWal));
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    let keys: Vec<_> = db.iter().map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys, ["buffered", "lazy", "no-wal", "sync"]);
}

#[test]
fn iterators_meet_in_the_middle_and_seek() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    let letters = db.create_keyspace("letters", KeyspaceOptions::splits(["h", "p"])).unwrap();
    for letter in b'a'..=b'z' {
        letters.put([letter], [letter]).unwrap();
    }
    letters.put([0xff, 0xff], "last").unwrap();
    let mut iter = letters.range("c".."y");
    let mut seen = Vec::new();
    loop {
        let Some(front) = iter.next() else { break };
        seen.push(front.unwrap().0[0]);
        let Some(back) = iter.next_back() else { break };
        seen.push(back.unwrap().0[0]);
    }
    assert!(iter.next().is_none() && iter.next_back().is_none());
    seen.sort_unstable();
    assert_eq!(seen, (b'c'..b'y').collect::<Vec<_>>(), "each once");

    let mut iter = letters.iter();
    iter.seek("m");
    assert_eq!(iter.next().unwrap().unwrap().0, "m");
    iter.seek("bb");
    assert_eq!(iter.next().unwrap().unwrap().0, "c");
    assert_eq!(iter.next_back().unwrap().unwrap().1, "last");
    assert_eq!(letters.prefix([0xff]).count(), 1);
    assert_eq!(letters.prefix("q").map(|pair| pair.unwrap().1).collect::<Vec<_>>(), ["q"]);
    assert_eq!(letters.range("x".."b").count(), 0, "an empty range");
    assert_eq!(letters.range("b"..="b").count(), 1);
    let got: vlsm::Result<Vec<_>> = letters.multi_get(["z", "0", "a"]).into_iter().collect();
    let got = got.unwrap();
    assert_eq!(got, [Some("z".into()), None, Some("a".into())]);
}

#[test]
fn any_profile_opens_what_another_wrote() {
    let folder = folder();
    let path = folder.path().join("store");
    let mut written = 0;
    let profiles = ["vlsm", "rocksdb", "cruise", "lsmi", "vlsm", "cruise", "rocksdb-io"];
    for (turn, profile) in profiles.iter().enumerate() {
        let compression = [Compression::None, Compression::Lz4][turn % 2];
        let db = small(profile, &path)
            .configure(|options| options.compression = vec![Compression::None, compression])
            .open()
            .unwrap();
        assert_eq!(db.iter().count() as u64, written, "{profile}");
        fill(&db, written, written + 5_000);
        written += 5_000;
        db.wait_idle().unwrap();
        assert_eq!(db.iter().rev().count() as u64, written, "{profile}");
        db.close().unwrap();
    }
}

#[test]
fn handles_used_wrongly_are_answered() {
    let folder = folder();
    let one = Db::open(folder.path().join("one")).unwrap();
    let two = Db::open(folder.path().join("two")).unwrap();
    let keyspace = one.default_keyspace();
    let mut batch = Batch::new();
    batch.put(&keyspace, "key", "value");
    let foreign = two.write(&batch, WriteOptions::default());
    assert!(matches!(foreign, Err(Error::InvalidArgument(_))));
    assert!(two.snapshot().get(&keyspace, "key").is_err());
    assert!(two.snapshot().iter(&keyspace).next().unwrap().is_err());
    let long = one.put(vec![b'k'; 70_000], "value");
    assert!(long.unwrap_err().to_string().contains("70000 bytes"));
    assert!(matches!(one.keyspace("none"), Err(Error::NoSuchKeyspace(_))));
    one.create_keyspace("split", KeyspaceOptions::splits(["m"])).unwrap();
    let again = one.create_keyspace("split", KeyspaceOptions::new());
    assert!(matches!(again, Err(Error::KeyspaceExists { .. })));
    assert!(one.create_keyspace("bad", KeyspaceOptions::splits(["z", "a"])).is_err());
    one.clone().close().unwrap();
    assert!(matches!(one.put("key", "value"), Err(Error::Closed)));
    assert!(matches!(keyspace.get("key"), Err(Error::Closed)));
    assert!(keyspace.iter().next().unwrap().is_err());
}

#[test]
fn a_panic_in_the_background_stops_writes_and_nothing_else() {
    let folder = folder();
    let path = folder.path().join("store");
    let armed = Arc::new(AtomicBool::new(false));
    let (mut env, planted) = (Altered::of(RealEnv::new()), armed.clone());
    // A clock that panics once on a worker's thread.
    env.wall_clock = Box::new(move |real| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        let is_worker = name.starts_with("vlsm-work") || name.starts_with("vlsm-flush");
        assert!(!(is_worker && planted.swap(false, Ordering::SeqCst)), "planted");
        real.wall_clock()
    });
    let db = small("vlsm", &path).env(Arc::new(env)).open().unwrap();
    armed.store(true, Ordering::SeqCst);
    db.put("first", "1").unwrap();
    let mut refused = None;
    for n in 0..100_000_u64 {
        if let Err(error) = db.put(n.to_be_bytes(), [0; 100]) {
            refused = Some((n, error));
            break;
        }
    }
    let (count, error) = refused.expect("the panic latches the store");
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert_eq!(db.get("first").unwrap().as_deref(), Some(&b"1"[..]), "reads go on");
    assert!(db.stats().read_only.unwrap().contains("panicked"));
    assert!(db.close().is_err(), "closing tells");
    let db = small("vlsm", &path).open().unwrap();
    let found = db.iter().count() as u64;
    assert!(found == count + 1 || found == count + 2, "{found} of {count}: nothing is lost");
    db.put("second", "2").unwrap();
}

/// Memory that is there already, with memtables' full size, is no reason to fill them.
#[test]
fn a_schedule_has_memtables_sealed_before_they_are_full() {
    let folder = folder();
    let sizes = |memory: ByteCount| {
        let path = folder.path().join(memory.to_string().replace(' ', "-"));
        let builder = small("adoc", &path).configure(|options| {
            options.policy.tree.memtable_bytes = ByteCount::mib(2);
            options.policy.schedules.adoc.batch = ByteCount::kib(128);
            options.wal_file_bytes = ByteCount::mib(16);
            options.memory_limit = memory;
        });
        let flushed = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = flushed.clone();
        let listen = move |event: &Event| {
            if let Event::JobStarted { kind: JobKind::Flush, bytes, .. } = event {
                told.lock().unwrap().push(*bytes);
            }
        };
        let db = builder.listener(listen).open().unwrap();
        // The first decision says how large they may be.
        db.put("a", "b").unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        fill(&db, 0, 10_000);
        db.flush().unwrap();
        db.close().unwrap();
        flushed.lock().unwrap().clone()
    };
    for memory in [ByteCount::mib(16), ByteCount::mib(512)] {
        let sizes = sizes(memory);
        let largest = sizes.iter().max().unwrap();
        assert!(sizes.len() > 3 && *largest < ByteCount::mib(1), "{memory}: {sizes:?}");
    }
}

/// ADOC's batch is the size of memtables and of SSTs, and L1 holds four of them, whatever the
/// options say of both.
#[test]
fn sizes_of_levels_follow_the_memtables_that_a_schedule_sets() {
    let folder = folder();
    let batch = ByteCount::kib(128);
    let levels = |follow: bool| {
        let path = folder.path().join(follow.to_string());
        let builder = small("adoc", &path).configure(|options| {
            let policy = &mut options.policy;
            policy.tree.memtable_bytes = ByteCount::mib(2);
            policy.tree.sst_max = ByteCount::mib(2);
            policy.tree.l1_bytes = ByteCount::mib(64);
            policy.schedules.adoc.batch = batch;
            policy.schedules.adoc.interval = vlsm_core::Micros(3_600_000_000);
            policy.shapes.tiered_l0.follow_memtables = follow;
            options.wal_file_bytes = ByteCount::mib(16);
            options.memory_limit = ByteCount::mib(64);
        });
        let db = builder.open().unwrap();
        fill(&db, 0, 50_000);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let stats = db.stats();
        assert_eq!(stats.memtable_bytes, batch);
        db.close().unwrap();
        stats.levels
    };
    let followed = levels(true);
    assert!(followed[1].bytes <= batch * 4 && followed[2].bytes > batch * 4, "{followed:?}");
    assert_eq!(followed[1].target, Some(batch * 4));
    assert!(followed.iter().all(|level| level.bytes <= (batch * 5 / 4) * level.tables));
    let own = levels(false);
    assert_eq!(own[1].target, Some(ByteCount::mib(64)));
    assert!(own[1].bytes > batch * 8 && own[1].bytes > batch * 2 * own[1].tables, "{own:?}");
}

/// On a platform or file system without direct I/O everything works, and the store reports it once,
/// in the LOG, too. With direct I/O it reports nothing.
#[test]
fn what_is_buffered_instead_is_told_once() {
    for buffered in [false, true] {
        let (fs, told) = (FaultFs::new(Arc::new(SimFs::new())), Arc::new(Mutex::new(Vec::new())));
        for op in [Op::Create, Op::Open].into_iter().filter(|_| buffered) {
            fs.add(Rule::once(op, ".sst", Fault::Buffered).forever());
        }
        let open = || {
            let told = told.clone();
            let builder = small("vlsm", "/store".as_ref());
            let builder = builder.configure(|options| {
                (options.direct_io, options.direct_reads) = (true, true);
            });
            let builder = builder.env(RealEnv::with_fs(Arc::new(fs.clone())));
            let listen = move |event: &Event| {
                if let Event::Buffered { path } = event {
                    told.lock().unwrap().push(path.clone());
                }
            };
            builder.listener(listen).open().unwrap()
        };
        let db = open();
        fill(&db, 0, 20_000);
        db.close().unwrap();
        assert_eq!(told.lock().unwrap().len(), usize::from(buffered), "one of many files");
        let log = read_all(&fs, "/store/LOG".as_ref()).unwrap();
        let log = String::from_utf8(log).unwrap();
        let lines = log.lines().filter(|line| line.contains("no direct I/O for /store/"));
        assert_eq!(lines.count(), usize::from(buffered), "{log}");
        let db = open();
        assert_eq!(db.iter().count(), 20_000);
        assert_eq!(told.lock().unwrap().len(), 2 * usize::from(buffered), "reads, too");
    }
}

/// A slow machine is told once for each way in which it is slow, in the LOG, too.
#[test]
fn what_the_machine_does_slowly_is_told_when_a_store_is_opened() {
    let all = [SlowPath::WalChecksums, SlowPath::BlockChecksums, SlowPath::SmallPages];
    for slow in [&all[..], &all[1..2], &[]] {
        let (fs, told) = (Arc::new(SimFs::new()), Arc::new(Mutex::new(Vec::new())));
        let mut env = Altered::of(RealEnv::with_fs(fs.clone()));
        let machine = slow.to_vec();
        env.slow_paths = Box::new(move |_| machine.clone());
        let heard = told.clone();
        let listen = move |event: &Event| {
            if let Event::SlowPath { what } = event {
                heard.lock().unwrap().push(*what);
            }
        };
        let builder = small("vlsm", "/store".as_ref()).env(Arc::new(env)).listener(listen);
        builder.open().unwrap().close().unwrap();
        assert_eq!(*told.lock().unwrap(), slow);
        let log = String::from_utf8(read_all(&*fs, "/store/LOG".as_ref()).unwrap()).unwrap();
        let lines = log.lines().filter(|line| line.contains(" slower"));
        assert_eq!(lines.count(), slow.len(), "{log}");
    }
}

/// The same on this machine, whatever it has, and a store works. CI also runs this on an emulated
/// processor that has neither.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_processor_without_instructions_is_told_and_works() {
    let fs = Arc::new(SimFs::new());
    for life in 0..2 {
        let builder = small("vlsm", "/store".as_ref()).env(RealEnv::with_fs(fs.clone()));
        let db = builder.open().unwrap();
        fill(&db, life * 2_000, (life + 1) * 2_000);
        assert_eq!(db.iter().map(Result::unwrap).count() as u64, (life + 1) * 2_000);
        db.close().unwrap();
        let log = String::from_utf8(read_all(&*fs, "/store/LOG".as_ref()).unwrap()).unwrap();
        let has = [
            ("no instructions for CRC-32C", std::arch::is_x86_feature_detected!("sse4.2")),
            ("no AVX2", std::arch::is_x86_feature_detected!("avx2")),
        ];
        for (line, has) in has {
            assert_eq!(log.matches(line).count(), usize::from(!has), "{line}: {log}");
        }
    }
}

/// With a growth that no overlap exceeds, every vSST is good. With a small one hardly any is, as
/// each has the size of an SST and overlaps several.
#[test]
fn good_and_poor_vssts_are_counted_as_they_come_and_go() {
    for (growth, all_good) in [(1024, true), (2, false)] {
        let folder = folder();
        let builder = small("vlsm", &folder.path().join("store")).configure(|options| {
            options.policy.tree.growth = growth;
            options.policy.shapes.vlsm.sst_min = options.policy.tree.sst_max;
            options.policy.shapes.vlsm.phi = 16;
        });
        let db = builder.open().unwrap();
        fill(&db, 0, 30_000);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let stats = db.stats();
        let (into, out) = (&stats.compactions[0], &stats.compactions[1]);
        assert!(into.ssts_out >= out.ssts_in + stats.levels[1].tables, "{into:?} {out:?}");
        assert!(out.ssts_in > 0 && out.ssts_out == 0, "{out:?}");
        assert_eq!(into.good_out_by_count == into.ssts_out, all_good, "{into:?}");
        assert!(into.good_out_by_ratio <= into.ssts_out);
        assert_eq!(out.poor_in == 0, all_good, "{out:?}");
        assert!(out.poor_in <= out.ssts_in);
        db.close().unwrap();
    }
}
