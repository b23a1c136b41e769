//! Files brought in from outside: all or none, newer than what was there, and refused when wrong.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod tiny;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tiny::tiny;
use vlsm::{ByteCount, Db, Error, IngestOptions, KeyspaceOptions, SstFileWriter};

fn small(profile: &str, path: &Path) -> vlsm::Builder {
    tiny(Db::builder(path).profile(profile).unwrap(), ByteCount::kib(64)).configure(|options| {
        // What is put before an ingest is still in L0 then.
        options.policy.tree.l1_bytes = ByteCount::kib(256);
        options.wal_file_bytes = ByteCount::kib(128);
    })
}

fn key(n: u64) -> String {
    format!("key{n:06}")
}

fn write(path: PathBuf, keys: impl Iterator<Item = u64>, value: &str) -> PathBuf {
    let mut writer = SstFileWriter::create(&path).unwrap();
    keys.for_each(|n| writer.put(key(n), value).unwrap());
    writer.finish().unwrap().path
}

fn ssts(store: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect()
}

#[test]
fn over_memtables_runs_and_levels_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    for profile in ["vlsm", "rocksdb", "lsmi", "cruise"] {
        let path = folder.path().join(profile);
        let file = |name: &str| folder.path().join(format!("{profile}-{name}.sst"));
        let db = small(profile, &path).open().unwrap();
        let main = db.default_keyspace();
        // Into an empty tree: the deepest level there is, no L0.
        let report = main.ingest([write(file("first"), 0..20_000, "first")]).unwrap();
        assert_eq!((report.files, report.into_l0, report.entries), (1, 0, 20_000), "{profile}");
        assert_eq!(db.stats().levels[0].tables, 0, "{profile}");
        assert_eq!(db.iter().count(), 20_000);
        (0..5_000).for_each(|n| db.put(key(n * 4), "second").unwrap());
        let before = db.snapshot();
        let files = [
            write(file("third a"), (0..10_000).step_by(8), "third"),
            write(file("third b"), (10_000..20_000).step_by(8), "third"),
        ];
        assert_eq!(main.ingest(files).unwrap().into_l0, 2, "{profile}");
        db.put(key(16), "fourth").unwrap();
        let check = |db: &Db| {
            for n in [1, 2, 3, 4, 12, 16, 8, 19_992, 19_996, 19_999] {
                let expected = match n {
                    16 => "fourth",
                    _ if n % 8 == 0 => "third",
                    _ if n % 4 == 0 => "second",
                    _ => "first",
                };
                assert_eq!(db.get(key(n)).unwrap().unwrap(), expected, "{profile} {n}");
            }
            let third = db.iter().filter(|pair| pair.as_ref().unwrap().1 == "third").count();
            assert_eq!((db.iter().count(), third), (20_000, 2_499), "{profile}");
        };
        check(&db);
        let seen = before.get(&main, key(8)).unwrap().unwrap();
        assert_eq!(seen, "second", "{profile}: a snapshot from before sees none of it");
        assert!(before.iter(&main).all(|pair| pair.unwrap().1 != "third"), "{profile}");
        // The files are not needed any more.
        fs::remove_file(file("first")).unwrap();
        db.wait_idle().unwrap();
        check(&db);
        db.close().unwrap();
        assert!(!vlsm::verify(&path).unwrap().damaged, "{profile}");
        let db = small(profile, &path).open().unwrap();
        check(&db);
        db.default_keyspace().compact_range(..).unwrap();
        check(&db);
        db.close().unwrap();
        let report = vlsm::verify(&path).unwrap();
        assert!(!report.damaged, "{profile}: {report:#?}");
    }
}

#[test]
fn beside_writers_readers_see_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small("rocksdb", &path).open().unwrap();
    let main = db.default_keyspace();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Writes keys between those of the files.
        let writer = scope.spawn(|| {
            let mut n = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let other = format!("key{:06}x", n * 7_919 % 10_000);
                db.put(other, vec![b'w'; 100]).unwrap();
                n += 1;
            }
        });
        let reader = scope.spawn(|| {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                let snapshot = db.snapshot();
                let values = snapshot.iter(&main).map(Result::unwrap);
                let ours = values.filter(|(key, _)| key.len() == 9).map(|(_, value)| value);
                let mut ours: Vec<_> = ours.collect();
                let count = ours.len();
                ours.dedup();
                assert!(count == 0 || (count == 1_000 && ours.len() == 1), "{count} {ours:?}");
                rounds += 1;
            }
            rounds
        });
        for round in 0..20 {
            let file = |part: u64| folder.path().join(format!("{round}-{part}.sst"));
            let value = format!("round {round}");
            let keys = |part: u64| (part * 500..(part + 1) * 500).map(|n| n * 10);
            main.ingest([write(file(0), keys(0), &value), write(file(1), keys(1), &value)])
                .unwrap();
            assert_eq!(db.get(key(500)).unwrap().unwrap(), value);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        assert!(reader.join().unwrap() > 0);
    });
    db.wait_idle().unwrap();
    db.close().unwrap();
    let report = vlsm::verify(&path).unwrap();
    assert!(!report.damaged, "{report:#?}");
}

#[test]
fn wrong_files_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("store"), |name: &str| folder.path().join(name));
    let db = small("vlsm", &path).open().unwrap();
    let split = db.create_keyspace("split", KeyspaceOptions::splits(["key005000"])).unwrap();
    (0..200).for_each(|n| db.put(key(n), "old").unwrap());
    (0..200).for_each(|n| db.put(key(n), "newer").unwrap());
    db.flush().unwrap();
    let own = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let own = own.into_iter().find(|p| p.extension().is_some_and(|end| end == "sst")).unwrap();
    let count = ssts(&path).len();
    let main = db.default_keyspace();
    let refused = |files: &[PathBuf], says: &str| {
        let error = main.ingest(files).unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert_eq!(ssts(&path).len(), count, "{says}");
        assert_eq!(db.iter().filter(|p| p.as_ref().unwrap().1 == "newer").count(), 200);
        assert_eq!(db.iter().count(), 200);
        error
    };
    let good = write(at("good.sst"), 0..1_000, "x");
    refused(&[good.clone(), write(at("b.sst"), 999..1_100, "x")], "overlap");
    refused(&[good.clone(), good.clone()], "overlap");
    refused(&[good.clone(), at("gone.sst")], "gone.sst");
    let whole = fs::read(&good).unwrap();
    fs::write(at("cut.sst"), &whole[..whole.len() / 2]).unwrap();
    let error = refused(&[at("cut.sst")], "cut.sst is damaged at byte");
    assert!(matches!(error, Error::Corruption { .. }));
    for place in [5, 3_000, whole.len() - 100, whole.len() - 5] {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(at("flipped.sst"), bytes).unwrap();
        refused(&[at("flipped.sst")], "flipped.sst");
    }
    fs::write(at("letter.txt"), "dear").unwrap();
    refused(&[at("letter.txt")], "letter.txt");
    refused(&[own], "it is an SST of a store");
    let spans = split.ingest([write(at("spans.sst"), 4_000..6_000, "x")]).unwrap_err();
    assert!(spans.to_string().contains("spans regions"), "{spans}");
    let pair = [write(at("l.sst"), 4_000..5_000, "x"), write(at("r.sst"), 5_000..6_000, "x")];
    split.ingest(&pair).unwrap();
    assert_eq!(split.iter().count(), 2_000);
    // The writer itself.
    let mut writer = SstFileWriter::create(at("order.sst")).unwrap();
    writer.put("b", "1").unwrap();
    for wrong in ["b", "a", ""] {
        assert!(matches!(writer.put(wrong, "2"), Err(Error::InvalidArgument(_))));
    }
    assert!(matches!(writer.put("c".repeat(70_000), "2"), Err(Error::InvalidArgument(_))));
    writer.delete("c").unwrap();
    let file = writer.finish().unwrap();
    assert_eq!((file.entries, &file.smallest[..], &file.largest[..]), (2, &b"b"[..], &b"c"[..]));
    assert!(SstFileWriter::create(at("order.sst")).is_err(), "it is there");
    let empty = SstFileWriter::create(at("empty.sst")).unwrap().finish();
    assert!(matches!(empty, Err(Error::InvalidArgument(_))));
    assert!(!at("empty.sst").exists() && !at("empty.sst.tmp").exists());
    main.ingest([] as [&Path; 0]).unwrap();
    db.close().unwrap();
    let reader = small("vlsm", &path).read_only(true).open().unwrap();
    let refused = reader.default_keyspace().ingest([&good]);
    assert!(matches!(refused, Err(Error::OpenedReadOnly)));
}

#[test]
fn files_are_copied_or_moved() {
    let folder = tempfile::tempdir().unwrap();
    let (path, at) = (folder.path().join("store"), |name: &str| folder.path().join(name));
    let db = small("vlsm", &path).open().unwrap();
    let main = db.default_keyspace();
    let copied = write(at("copied.sst"), 0..100, "copied");
    main.ingest([&copied]).unwrap();
    assert!(copied.exists());
    // The copy is another file: what becomes of this one does not matter.
    fs::write(&copied, "scribbled over").unwrap();
    let moved = write(at("moved.sst"), 50..150, "moved");
    main.ingest_with([&moved], IngestOptions::moving()).unwrap();
    assert!(!moved.exists());
    // A link to a file is as good as the file.
    let target = write(at("target.sst"), 150..160, "linked");
    std::os::unix::fs::symlink(&target, at("link.sst")).unwrap();
    main.ingest_with([at("link.sst")], IngestOptions::moving()).unwrap();
    fs::remove_file(&target).unwrap();
    // The store's own file is not moved away from it. The one that comes now lies under no other
    // and so stays as it is; a job would have written it anew, and that is refused otherwise.
    db.wait_idle().unwrap();
    let before = ssts(&path);
    main.ingest([write(at("alone.sst"), 900..910, "alone")]).unwrap();
    let own = ssts(&path).into_iter().find(|file| !before.contains(file)).unwrap();
    let error = main.ingest_with([&own], IngestOptions::moving()).unwrap_err();
    assert!(error.to_string().contains("the store has it already"), "{error}");
    let check = |db: &Db| {
        let values: Vec<_> = db.iter().map(|pair| pair.unwrap().1).collect();
        let count = |value: &str| values.iter().filter(|other| *other == value).count();
        assert_eq!((count("copied"), count("moved"), count("linked")), (50, 100, 10));
    };
    check(&db);
    db.close().unwrap();
    assert!(!vlsm::verify(&path).unwrap().damaged);
    check(&small("vlsm", &path).open().unwrap());
}
