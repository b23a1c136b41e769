//! A process that may open few files has a store of many.
//!
//! The test starts itself under `ulimit -n`: the limit is the process's.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::process::Command;
use vlsm::{ByteCount, Compression, Db};

const CHILD: &str = "DESCRIPTORS_CHILD";

#[test]
fn few_descriptors_are_enough_for_many_files() {
    if std::env::var_os(CHILD).is_some() {
        return use_many_files();
    }
    for limit in [24, 64] {
        let script = format!("ulimit -n {limit}; exec \"$0\" --nocapture --test-threads 1");
        let itself = std::env::current_exe().unwrap();
        let mut shell = Command::new("sh");
        let output = shell.arg("-c").arg(script).arg(itself).env(CHILD, "1").output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{limit} descriptors: {told}{why}");
        let files: usize =
            told.lines().find_map(|line| line.strip_suffix(" SSTs")?.parse().ok()).unwrap();
        assert!(files > 5 * limit, "{files} SSTs");
    }
}

fn use_many_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || {
        let builder = Db::builder(&path).configure(|options| {
            options.policy.tree.memtable_bytes = ByteCount::kib(64);
            options.policy.tree.sst_max = ByteCount::kib(16);
            options.policy.shapes.vlsm.sst_min = ByteCount::kib(16);
            options.policy.tree.l1_bytes = ByteCount::kib(64);
            options.wal_file_bytes = ByteCount::kib(256);
            options.compression = vec![Compression::None];
        });
        builder.open().unwrap()
    };
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let count = 50_000;
    let db = open();
    for n in 0..count {
        db.put(key(n), [n as u8; 150]).unwrap();
    }
    db.default_keyspace().compact_range(..).unwrap();
    let check = |db: &Db| {
        // Iterators hold the files of a whole view.
        let walks: Vec<_> = (0..4).map(|_| db.iter()).collect();
        for walk in walks {
            assert_eq!(walk.map(Result::unwrap).count() as u64, count);
        }
        for n in (0..count).step_by(13) {
            assert_eq!(db.get(key(n)).unwrap().unwrap()[..], [n as u8; 150]);
        }
    };
    check(&db);
    db.checkpoint(folder.path().join("copy")).unwrap();
    let files: u64 = db.stats().levels.iter().map(|level| level.tables).sum();
    db.close().unwrap();
    let db = open();
    check(&db);
    db.close().unwrap();
    let report = vlsm::verify(folder.path().join("copy")).unwrap();
    assert!(!report.damaged, "{:#?}", report.findings);
    println!("\n{files} SSTs");
}
