//! A reader beside a writer, step by step on a simulated disk: it looks before every file operation
//! of the writer, and the writer goes on before any file operation of the reader.
#![allow(clippy::unwrap_used)]

mod ring;
mod tiny;

use ring::{check, number, write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tiny::tiny;
use vlsm::{Builder, ByteCount, Db, Env, Error, KeyspaceOptions, Seq, SstFileWriter};
use vlsm_disk::Fs;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::record::checksum;
use vlsm_testfs::{CrashMode, Fault, FaultFs, Op, Rule, SimFs};

const FOLDER: &str = "/store";

fn small(fs: impl Fs + 'static) -> Builder {
    let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(fs));
    tiny(Db::builder(FOLDER).env(env), ByteCount::kib(16)).configure(|options| {
        options.log = false;
        options.workers = 1;
        options.io_threads = 1;
        options.manifest_bytes = ByteCount::kib(16);
    })
}

/// Calls `hook` before each of these operations.
fn before_each(disk: &SimFs, ops: &[Op], hook: impl Fn() + Send + Sync + 'static) -> FaultFs {
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let fault = Fault::Delay(Arc::new(hook));
    faults.add(Rule { ops: ops.to_vec(), path: String::new(), nth: 1, forever: true, fault });
    faults
}

/// The number of batches that a store shows; 0 if it is still being made.
fn shown(db: &Db) -> u64 {
    if db.keyspace("other").is_ok() { check(db) } else { 0 }
}

/// A reader that looks again and again.
#[derive(Default)]
struct Watch {
    reader: Option<Db>,
    last: u64,
    seq: Seq,
    looks: u64,
    crashes: u64,
    wrong: Option<String>,
}

impl Watch {
    fn look(&mut self, disk: &SimFs, acknowledged: u64, issued: &AtomicU64) {
        if self.reader.is_none() {
            match small(disk.clone()).follow(true).open() {
                Ok(reader) => self.reader = Some(reader),
                Err(Error::Missing { .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
        let reader = self.reader.as_ref().unwrap();
        let seq = reader.catch_up().unwrap();
        let shown = shown(reader);
        let issued = issued.load(SeqCst);
        assert!(seq >= self.seq && shown >= self.last, "{shown} after {}", self.last);
        assert!((acknowledged..=issued).contains(&shown), "{acknowledged}..={issued}: {shown}");
        (self.seq, self.last, self.looks) = (seq, shown, self.looks + 1);
        if self.looks.is_multiple_of(16) {
            self.crash(disk);
        }
    }

    /// The process dies here, or the machine: a reader sees what a recovery then finds.
    fn crash(&mut self, disk: &SimFs) {
        let after = disk.fork();
        match self.looks / 16 % 3 {
            0 => after.kill(),
            1 => after.crash(CrashMode::LoseAll, self.looks),
            _ => after.crash(CrashMode::Random, self.looks),
        }
        let read = match small(after.fork()).follow(true).open() {
            Ok(reader) => shown(&reader),
            Err(Error::Missing { .. }) => 0,
            Err(error) => panic!("{error}"),
        };
        let recovered = small(after).open().unwrap();
        assert_eq!(shown(&recovered), read);
        self.crashes += 1;
    }
}

#[test]
fn it_looks_before_every_file_operation_of_the_writer() {
    let disk = SimFs::new();
    let watch = Arc::new(Mutex::new(Watch::default()));
    let (acknowledged, issued) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let hook = {
        let (disk, watch) = (disk.clone(), watch.clone());
        let (acknowledged, issued) = (acknowledged.clone(), issued.clone());
        move || {
            // An operation of another thread waits for its own look.
            let mut watch = watch.lock().unwrap();
            if watch.wrong.is_some() {
                return;
            }
            let least = acknowledged.load(SeqCst);
            let looked = catch_unwind(AssertUnwindSafe(|| watch.look(&disk, least, &issued)));
            watch.wrong = looked.err().map(|why| match why.downcast_ref::<String>() {
                Some(why) => why.clone(),
                None => "it panicked".into(),
            });
        }
    };
    let ops = [Op::Create, Op::Write, Op::Sync, Op::Truncate, Op::Rename, Op::Remove, Op::SyncDir];
    let faults = before_each(&disk, &ops, hook);
    let mut n = 0;
    // Two lives of the writer, with a restart in between. The more it writes to the WAL's mapping,
    // the fewer file operations a batch has: that depends on the pace of the background.
    for enough in [300, 600] {
        let db = small(faults.clone()).open().unwrap();
        let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
        let least = n + 250;
        while n < least || (watch.lock().unwrap().looks < enough && n < 10 * least) {
            n += 1;
            issued.store(n, SeqCst);
            write(&db, &other, n);
            acknowledged.store(n, SeqCst);
        }
        db.close().unwrap();
    }
    let mut watch = watch.lock().unwrap();
    assert_eq!(watch.wrong, None);
    watch.look(&disk, n, &issued);
    assert_eq!(watch.last, n);
    assert!(watch.looks >= 600 && watch.crashes > 30, "{} {}", watch.looks, watch.crashes);
}

#[test]
fn the_writer_goes_on_before_any_file_operation_of_the_reader() {
    let disk = SimFs::new();
    let db = small(disk.clone()).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    let (written, armed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    // Flushes, compactions, WALs that are used again, and now and then another manifest.
    let go_on = {
        let (db, written) = (db.clone(), written.clone());
        move || {
            for _ in 0..80 {
                let n = written.fetch_add(1, SeqCst) + 1;
                write(&db, &other, n);
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
    };
    go_on();
    let hook = {
        let (armed, go_on) = (armed.clone(), go_on.clone());
        move || {
            let left = armed.load(SeqCst);
            if left > 0 && armed.fetch_sub(1, SeqCst) == 1 {
                go_on();
            }
        }
    };
    let ops = [Op::Open, Op::Read, Op::Len, Op::ReadDir, Op::Exists];
    let faults = before_each(&disk, &ops, hook);
    let reader = small(faults.clone()).follow(true).open().unwrap();
    let mut reached = 0;
    for at in 1..=60 {
        let before = written.load(SeqCst);
        armed.store(at, SeqCst);
        reader.catch_up().unwrap();
        reached += u64::from(armed.swap(0, SeqCst) == 0);
        let seen = check(&reader);
        assert!((before..=written.load(SeqCst)).contains(&seen), "{seen} after {before}, {at}");
        let before = written.load(SeqCst);
        armed.store(at, SeqCst);
        let opened = small(faults.clone()).follow(true).open().unwrap();
        armed.store(0, SeqCst);
        assert!(check(&opened) >= before, "opened, {at}");
    }
    reader.catch_up().unwrap();
    assert_eq!(check(&reader), written.load(SeqCst));
    assert!(reached > 10, "{reached}");
    drop((go_on, reader));
    db.close().unwrap();
}

/// An ingest and a clear are only in the manifest, the writes after them in the WAL.
#[test]
fn no_write_shows_without_an_ingest_or_a_clear_before_it() {
    let disk = SimFs::new();
    let db = small(disk.clone()).open().unwrap();
    let cleared = db.create_keyspace("cleared", KeyspaceOptions::new()).unwrap();
    let (done, armed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let step = {
        let (db, done, disk) = (db.clone(), done.clone(), disk.clone());
        move || {
            let n = done.fetch_add(1, SeqCst) + 1;
            ingest(&disk, &db, n);
            db.put("after ingest", n.to_be_bytes()).unwrap();
            cleared.clear().unwrap();
            db.put("after clear", n.to_be_bytes()).unwrap();
            cleared.put("key", n.to_be_bytes()).unwrap();
        }
    };
    step();
    let hook = {
        let (armed, step) = (armed.clone(), step.clone());
        move || {
            if armed.load(SeqCst) > 0 && armed.fetch_sub(1, SeqCst) == 1 {
                step();
            }
        }
    };
    let ops = [Op::Open, Op::Read, Op::Len, Op::ReadDir, Op::Exists];
    let faults = before_each(&disk, &ops, hook);
    let check = |reader: &Db, at: u64| {
        let (before, default) = (reader.snapshot(), reader.default_keyspace());
        let get = |key: &str| before.get(&default, key).unwrap().map_or(0, |n| number(&n));
        assert!(get("ingested") >= get("after ingest"), "{at}");
        let key = before.get(&reader.keyspace("cleared").unwrap(), "key").unwrap();
        assert!(key.is_none_or(|n| number(&n) == get("after clear")), "{at}");
        get("after clear")
    };
    let reader = small(faults.clone()).follow(true).open().unwrap();
    let mut reached = 0;
    for at in 1..=40 {
        for opens in [false, true] {
            let before = done.load(SeqCst);
            armed.store(at, SeqCst);
            let seen = if opens {
                let opened = small(faults.clone()).follow(true).open().unwrap();
                reached += u64::from(armed.swap(0, SeqCst) == 0);
                check(&opened, at)
            } else {
                reader.catch_up().unwrap();
                reached += u64::from(armed.swap(0, SeqCst) == 0);
                check(&reader, at)
            };
            assert!((before..=done.load(SeqCst)).contains(&seen), "{seen} after {before}, {at}");
        }
    }
    assert!(reached > 20, "{reached}");
    drop((step, reader));
    db.close().unwrap();
}

/// An ingest is noticed although a compaction has removed the file before the reader looks at the
/// manifest again.
#[test]
fn no_write_shows_without_an_ingest_that_was_compacted_away() {
    let disk = SimFs::new();
    let db = small(disk.clone()).open().unwrap();
    let (done, armed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let step = {
        let (db, done, disk) = (db.clone(), done.clone(), disk.clone());
        move || {
            let n = done.fetch_add(1, SeqCst) + 1;
            ingest(&disk, &db, n);
            db.default_keyspace().compact_range(..).unwrap();
            db.wait_idle().unwrap();
            db.put("after ingest", n.to_be_bytes()).unwrap();
        }
    };
    step();
    let hook = {
        let (armed, step) = (armed.clone(), step.clone());
        move || {
            if armed.load(SeqCst) > 0 && armed.fetch_sub(1, SeqCst) == 1 {
                step();
            }
        }
    };
    let ops = [Op::Open, Op::Read, Op::Len, Op::ReadDir, Op::Exists];
    let reader = small(before_each(&disk, &ops, hook)).follow(true).open().unwrap();
    let mut reached = 0;
    for at in 1..=40 {
        // It knows all SSTs already, so that only the manifest can tell it of the ingest.
        reader.catch_up().unwrap();
        db.put("other", at.to_string()).unwrap();
        let before = done.load(SeqCst);
        armed.store(at, SeqCst);
        reader.catch_up().unwrap();
        reached += u64::from(armed.swap(0, SeqCst) == 0);
        let get = |key: &str| reader.get(key).unwrap().map_or(0, |n| number(&n));
        assert_eq!(get("ingested"), get("after ingest"), "{at}");
        assert!((before..=done.load(SeqCst)).contains(&get("ingested")), "{at}");
    }
    assert!(reached > 10, "{reached}");
    drop((step, reader));
    db.close().unwrap();
}

/// Ingests a file that says which one it is.
fn ingest(disk: &SimFs, db: &Db, n: u64) {
    let (env, file): (Arc<dyn Env>, _) =
        (RealEnv::with_fs(Arc::new(disk.clone())), format!("/ingest-{n}"));
    let mut writer = SstFileWriter::create_in(&env, Path::new(&file), db.options()).unwrap();
    writer.put("ingested", n.to_be_bytes()).unwrap();
    writer.finish().unwrap();
    db.default_keyspace().ingest([file]).unwrap();
}

#[test]
fn to_catch_up_ends_with_the_store() {
    let disk = SimFs::new();
    let db = small(disk.clone()).open().unwrap();
    let faults = FaultFs::new(Arc::new(disk));
    let reader = small(faults.clone()).follow(true).open().unwrap();
    db.put("key", "value").unwrap();
    // It looks again and again: the WAL is gone each time, and the manifest changes.
    let (changing, looks) = (db.clone(), AtomicU64::new(0));
    let fault = Fault::Delay(Arc::new(move || {
        let name = looks.fetch_add(1, SeqCst).to_string();
        changing.create_keyspace(&name, KeyspaceOptions::new()).unwrap();
    }));
    let (ops, path) = (vec![Op::ReadDir], String::new());
    faults.add(Rule { ops, path, nth: 1, forever: true, fault });
    std::thread::scope(|scope| {
        let catching_up = scope.spawn(|| reader.catch_up());
        while db.keyspaces().len() < 4 {
            std::thread::yield_now();
        }
        reader.clone().close().unwrap();
        assert!(matches!(catching_up.join().unwrap(), Err(Error::Closed)));
    });
    db.close().unwrap();
}

#[test]
fn a_newer_format_is_told_at_once() {
    let disk = SimFs::new();
    let db = small(disk.clone()).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    write(&db, &other, 1);
    db.close().unwrap();
    let reader = small(disk.clone()).follow(true).open().unwrap();
    let is_manifest = |path: &&std::path::PathBuf| path.to_string_lossy().contains("MANIFEST");
    let manifest = disk.files().keys().find(is_manifest).unwrap().clone();
    let mut bytes = disk.content(&manifest).unwrap();
    bytes[8] = 99;
    let sum = checksum(&bytes[..508]);
    bytes[508..512].copy_from_slice(&sum.to_le_bytes());
    disk.set_content(&manifest, bytes);
    for refused in [reader.catch_up().map(drop), small(disk).follow(true).open().map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::FormatVersion { found: 99, .. }), "{error:?}");
    }
    assert_eq!(check(&reader), 1);
    assert_eq!(reader.path(), Path::new(FOLDER));
}
