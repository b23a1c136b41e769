//! Checking a store: a sound one has no finding, and every damage is reported, with its place.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod tiny;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tiny::tiny;
use vlsm::{ByteCount, Compression, Db, Durability, Env, Error, KeyspaceOptions, Severity};
use vlsm::{VerifyReport, WriteOptions};
use vlsm_core::{Change, Place, TreeId, VersionEdit};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest::{Manifest, Record};

fn small(path: &Path) -> vlsm::Builder {
    tiny(Db::builder(path), ByteCount::kib(64))
        .configure(|options| options.compression = vec![Compression::None, Compression::Lz4])
}

fn fill(db: &Db, count: u64) {
    for n in 0..count {
        let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(key, n.to_string().repeat(10)).unwrap();
    }
}

/// Files of a kind, sorted.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = all.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

/// Whether there is damage of this file at this offset (if one is given) that says so.
fn told(report: &VerifyReport, path: &Path, offset: Option<u64>, says: &str) -> bool {
    report.damaged
        && report.findings.iter().any(|finding| {
            finding.severity == Severity::Damage
                && finding.path == path
                && (offset.is_none() || finding.offset == offset)
                && finding.what.contains(says)
                && !finding.advice.is_empty()
        })
}

#[test]
fn a_sound_store_has_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    assert!(matches!(vlsm::verify(&path), Err(Error::Missing { .. })));
    let db = small(&path).open().unwrap();
    assert!(matches!(vlsm::verify(&path), Err(Error::Locked { .. })));
    db.create_keyspace("split", KeyspaceOptions::splits(["g", "p"])).unwrap();
    fill(&db, 20_000);
    let held = db.snapshot();
    fill(&db, 3_000);
    db.wait_idle().unwrap();
    for n in 0..2_000_u64 {
        db.delete(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).unwrap();
    }
    drop(held);
    // A job that a close interrupts leaves its files for the next open to remove.
    db.wait_idle().unwrap();
    db.close().unwrap();
    let env: Arc<dyn Env> = RealEnv::new();
    let mut steps = Vec::new();
    let report = vlsm::verify_with(&env, &path, &mut |progress| {
        assert!(progress.done <= progress.total);
        steps.push(progress.done);
    });
    let report = report.unwrap();
    assert_eq!(report.findings, [], "and not even a leftover");
    assert!(!report.damaged && report.ssts > 5 && report.entries >= 20_000, "{report:?}");
    assert!(report.batches > 0 && report.wals > 0, "{report:?}");
    assert!(steps.is_sorted() && steps.len() > 5);
    // A new store, and one that is being read.
    let empty = folder.path().join("empty");
    drop(Db::open(&empty).unwrap());
    let reader = Db::builder(&empty).read_only(true).open().unwrap();
    assert_eq!(vlsm::verify(&empty).unwrap().findings, []);
    drop(reader);
}

/// Copies a store as a killed process leaves it: nothing is closed, the WAL has more than the
/// tables. Copying takes time, and a background thread may change files meanwhile; so perhaps
/// again. Returns the last WAL whose first record is known to have been synced. A newer one may be
/// prepared and not used yet, or have too few records that say what was synced before them; damage
/// to what was never synced is the end of a WAL and no damage.
fn copy_of_living(db: &Db, live: &Path, path: &Path) -> PathBuf {
    let damaged = || vlsm::verify(path).is_ok_and(|report| report.damaged);
    let copied = (0..20).find_map(|_| {
        for n in 0..3_u8 {
            let synced = WriteOptions::durability(Durability::Sync);
            db.keyspace("default").unwrap().put_with([n], [n], synced).unwrap();
        }
        let _ = fs::remove_dir_all(path);
        fs::create_dir(path).unwrap();
        for file in files(live, "") {
            let _ = fs::copy(&file, path.join(file.file_name().unwrap()));
        }
        if vlsm::verify(path).map_or(true, |report| report.damaged) {
            return None;
        }
        files(path, ".wal").into_iter().rev().find(|wal| {
            flip(wal, 4096 + 30);
            let known = damaged();
            flip(wal, 4096 + 30);
            known
        })
    });
    copied.unwrap_or_else(|| panic!("no sound copy: {:#?}", vlsm::verify(path)))
}

#[test]
fn all_damage_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (live, path) = (folder.path().join("live"), folder.path().join("store"));
    let db = small(&live).open().unwrap();
    fill(&db, 20_000);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    fill(&db, 300);
    let wal = &copy_of_living(&db, &live, &path);
    // Dead files may be there still.
    let left = vlsm::verify(&path).unwrap().findings;
    let is_left = |path: &PathBuf| left.iter().any(|finding| finding.path == *path);
    let mut ssts = files(&path, ".sst");
    ssts.retain(|sst| !is_left(sst));
    assert!(ssts.len() > 5);
    // The largest first: they have several blocks.
    ssts.sort_by_key(|sst| std::cmp::Reverse(fs::metadata(sst).unwrap().len()));
    // Two blocks of one SST, the footer of another, one that is gone, one that is another's.
    flip(&ssts[0], 3);
    flip(&ssts[0], 20_000);
    let end = fs::metadata(&ssts[1]).unwrap().len() as usize;
    flip(&ssts[1], end - 60);
    fs::remove_file(&ssts[2]).unwrap();
    fs::copy(&ssts[4], &ssts[3]).unwrap();
    let cut = fs::read(&ssts[4]).unwrap();
    fs::write(&ssts[4], &cut[..cut.len() - 100]).unwrap();
    flip(wal, 4096 + 30);
    fs::write(path.join("888888.sst"), "left").unwrap();
    fs::write(path.join("letter.txt"), "dear").unwrap();
    let report = vlsm::verify(&path).unwrap();
    assert!(told(&report, &ssts[0], Some(0), "checksum"), "{report:#?}");
    let blocks = report.findings.iter().filter(|finding| finding.path == ssts[0]).count();
    assert_eq!(blocks, 2, "{report:#?}");
    assert!(told(&report, &ssts[1], None, ""));
    assert!(told(&report, &ssts[2], None, "missing"));
    assert!(told(&report, &ssts[3], None, "differs") || told(&report, &ssts[3], None, "not the"));
    assert!(told(&report, &ssts[4], None, "cut off"));
    assert!(told(&report, wal, Some(4096), "does not match its checksum"), "{report:#?}");
    let leftovers = report.findings.iter().filter(|f| f.severity == Severity::Leftover);
    let names: Vec<_> = leftovers.map(|f| f.path.file_name().unwrap().to_owned()).collect();
    assert!(names.contains(&"888888.sst".into()) && names.contains(&"letter.txt".into()));
    // Without a manifest the files are still looked at.
    let manifest = files(&path, "").into_iter().find(|p| p.to_string_lossy().contains("MANIFEST"));
    flip(manifest.as_ref().unwrap(), 4096 + 40);
    let report = vlsm::verify(&path).unwrap();
    assert!(told(&report, manifest.as_ref().unwrap(), Some(4096), ""), "{report:#?}");
    assert!(told(&report, &ssts[0], Some(0), "checksum"));
    assert!(told(&report, &ssts[4], None, "cut off"));
    assert!(told(&report, wal, Some(4096), "does not match its checksum"), "{report:#?}");
}

/// Changes the tree of the keyspace `default` behind the engine's back.
fn rewrite(path: &Path, change: impl FnOnce(&vlsm_core::Version) -> Vec<(TreeId, VersionEdit)>) {
    let env: Arc<dyn Env> = RealEnv::new();
    let (mut manifest, state) = Manifest::recover(&env, path).unwrap();
    let edits = change(&state.trees[&TreeId(0)]);
    let records: Vec<_> = edits.into_iter().map(|(tree, edit)| Record::Edit(tree, edit)).collect();
    manifest.append(&records).unwrap();
}

/// Moves the newest run of L0 below the older ones, which must not be.
fn newest_goes_down(path: &Path) {
    rewrite(path, |version| {
        let newest = version.l0.last().unwrap();
        let table = newest.tables.iter().next().unwrap().clone();
        let mut edit = VersionEdit::default();
        edit.remove(Place::L0(newest.id), &table);
        edit.add(1, table);
        vec![(TreeId(0), edit)]
    });
}

#[test]
fn trees_that_contradict_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let path = folder.path().join(name);
        let db = Db::builder(&path).configure(|o| o.policy.tree.l0_trigger = 4).open().unwrap();
        db.create_keyspace("split", KeyspaceOptions::splits(["m"])).unwrap();
        for value in ["old", "new"] {
            db.put("key", value).unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        assert_eq!(vlsm::verify(&path).unwrap().findings, []);
        path
    };
    // The newer run goes down, the older one stays: the old value would be read.
    let path = open("below");
    newest_goes_down(&path);
    let report = vlsm::verify(&path).unwrap();
    assert!(report.damaged && report.findings[0].what.contains("old value"), "{report:#?}");
    // A table in a region that it does not belong to.
    let path = open("outside");
    rewrite(&path, |version| {
        let oldest = &version.l0[0];
        let table = oldest.tables.iter().next().unwrap().clone();
        let mut edit = VersionEdit::default();
        edit.remove(Place::L0(oldest.id), &table);
        let add = Change::Add { place: Place::Level(1), origin: oldest.origin, table };
        let into = VersionEdit { changes: vec![add], ..VersionEdit::default() };
        vec![(TreeId(0), edit), (TreeId(2), into)]
    });
    let report = vlsm::verify(&path).unwrap();
    assert!(report.damaged && report.findings[0].what.contains("region"), "{report:#?}");
}

/// Range tombstones are judged like entries: whichever of a put and a tombstone over it is newer,
/// when it goes down alone the answer is wrong.
#[test]
fn range_tombstones_that_contradict_their_place() {
    let folder = tempfile::tempdir().unwrap();
    for (name, says) in [("deletes", "what it deletes may be read"), ("hides", "is hidden")] {
        let path = folder.path().join(name);
        let db = Db::builder(&path).configure(|o| o.policy.tree.l0_trigger = 4).open().unwrap();
        let put = || db.put("key", "value").unwrap();
        let delete = || db.delete_range("a".."z").unwrap();
        // Over nothing at all a tombstone is dropped by its flush.
        db.put("b", "below").unwrap();
        db.flush().unwrap();
        let steps: [&dyn Fn(); 2] =
            if name == "deletes" { [&put, &delete] } else { [&delete, &put] };
        for step in steps {
            step();
            db.flush().unwrap();
        }
        db.close().unwrap();
        assert_eq!(vlsm::verify(&path).unwrap().findings, []);
        newest_goes_down(&path);
        let report = vlsm::verify(&path).unwrap();
        assert!(report.damaged && report.findings[0].what.contains(says), "{report:#?}");
    }
}
