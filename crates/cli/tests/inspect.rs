//! `stats`, `levels` and `dump` on a real store, open and closed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};
use std::io::Write;
use std::sync::Arc;
use vlsm_core::{FileNumber, FileUid, Kind, RunOrigin, Seq, Table, Trailer, TreeId, VersionEdit};
use vlsm_disk::fs::posix::PosixFs;
use vlsm_disk::manifest::{Keyspace, Manifest, Record, Region, State};
use vlsm_disk::sst::{SstOptions, SstWriter};
use vlsm_disk::wal::{Batch, prepare_next};

/// A store whose records fill a few memtables.
fn filled() -> World {
    let world = World::new();
    let value = "v".repeat(1000);
    let lines: String = (0..40_000).map(|i| format!("key{i:06}\t{value}\n")).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    world.run(&["delete", "s", "key000001"]).ok();
    world
}

#[test]
fn the_tree_is_shown() {
    let world = filled();
    let levels = world.run(&["levels", "s"]).ok();
    assert!(levels.starts_with("keyspace default (t"), "{levels}");
    assert!(levels.contains("total") && levels.contains("L"), "{levels}");
    let tables = world.run(&["levels", "s", "--tables"]).ok();
    assert!(tables.contains("[key000000,"), "{tables}");
    let stats = world.run(&["stats", "s"]).ok();
    for what in ["default", "SST", "WAL", "manifest", "total"] {
        assert!(stats.contains(what), "{what}: {stats}");
    }
    for command in ["stats", "levels"] {
        let json = world.run(&[command, "s", "--json"]).ok();
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }
    world.run(&["levels", "s", "--keyspace", "none"]).fails(1, &["keyspace", "none"]);
}

#[test]
fn a_store_in_use_is_shown_too() {
    let world = filled();
    let mut import = world.command(&["import", "s"]).spawn().unwrap();
    let mut stdin = import.stdin.take().unwrap();
    let line = format!("more\t{}\n", "x".repeat(1000));
    (0..5000).for_each(|_| stdin.write_all(line.as_bytes()).unwrap());
    world.run(&["get", "s", "more"]).fails(1, &["is in use"]);
    assert!(world.run(&["levels", "s"]).ok().contains("total"));
    world.run(&["stats", "s"]).ok();
    drop(stdin);
    assert!(import.wait().unwrap().success());
}

#[test]
fn every_file_is_shown() {
    let world = filled();
    let find = |part: &str| {
        let names = names(&world.path("s"));
        let name = names.iter().find(|name| name.contains(part)).unwrap();
        format!("s/{name}")
    };
    let manifest = world.run(&["dump", "manifest", &find("MANIFEST")]).ok();
    assert!(manifest.contains("keyspace 0 \"default\"") && manifest.contains("edit of t"));
    assert!(manifest.ends_with(" end\n"));

    let levels = world.run(&["levels", "s", "--tables"]).ok();
    let table = levels.split_whitespace().find(|word| word.contains("[key000000,")).unwrap();
    let number: u64 = table.split(':').next().unwrap().parse().unwrap();
    let sst = format!("s/{number:06}.sst");
    let dump = world.run(&["dump", "sst", &sst]).ok();
    assert!(dump.contains("smallest key000000"), "{}", &dump[..500]);
    assert!(dump.contains(" put key000000 = vvv") && dump.contains("(1000 bytes)"));
    assert!(!world.run(&["dump", "sst", &sst, "--brief"]).ok().contains("put"));

    world.run(&["put", "s", "in the", "wal"]).ok();
    let wals = names(&world.path("s")).into_iter().filter(|name| name.ends_with(".wal"));
    let dumps = wals.map(|name| world.run(&["dump", "wal", &format!("s/{name}")]).ok());
    let dumps: String = dumps.collect();
    assert!(dumps.contains("put in the = wal"), "the last write is in a WAL");

    world.run(&["dump", "sst", &find("MANIFEST")]).fails(2, &["vlsm dump manifest s/MANIFEST"]);
    world.run(&["dump", "wal", "s/gone.wal"]).fails(1, &["cannot read s/gone.wal"]);
    world.file("junk", vec![7; 9000]);
    for kind in ["wal", "sst", "manifest"] {
        world.run(&["dump", kind, "junk"]).fails(1, &["junk"]);
    }
}

/// One entry of every kind that a block holds.
const KINDS: [(Kind, &[u8]); 4] = [
    (Kind::Merge, b"+1"),
    (Kind::PutExpiring, b"\x40\x42\x0f\0\0\0\0\0gone"),
    (Kind::Delete, b""),
    (Kind::Put, b"value"),
];

#[test]
fn every_kind_is_shown() {
    let world = World::new();
    let dir = world.path("");
    // An SST, and a manifest that shows it twice.
    let mut writer = SstWriter::new(SstOptions::default(), FileUid(7));
    for ((kind, value), seq) in KINDS.into_iter().zip([9, 8, 7, 6]) {
        writer.add(b"key", Trailer::new(Seq(seq), kind), value);
    }
    writer.add_range(b"a", b"m", &[Seq(12), Seq(5)]);
    let (chunks, summary) = writer.finish();
    let file: Vec<u8> = chunks.iter().flat_map(|(_, chunk)| chunk.iter().copied()).collect();
    world.file("000001.sst", file);
    let dump = world.run(&["dump", "sst", "000001.sst"]).ok();
    assert!(dump.contains("entries 4, 1 of them tombstones; fragments of range tombstones 1\n"));
    assert!(dump.contains("smallest a\nlargest  m (exclusive)\n"), "{dump}");
    let entries =
        "merge key = +1\n8 put until 1000000 key = gone\n7 delete key\n6 put key = value\n";
    assert!(dump.ends_with(&format!("12 delete [a, m)\n5 delete [a, m)\n9 {entries}")), "{dump}");

    // A WAL.
    let mut batch = Batch::default();
    for (kind, value) in KINDS {
        batch.add(TreeId(1), kind, b"key", value);
    }
    batch.add(TreeId(1), Kind::RangeDelete, b"a", b"m");
    let next = prepare_next(&PosixFs, &dir, 5, 99, 0, None).unwrap();
    let wal = next.start(None, Seq(1)).unwrap();
    let (mut framer, mut out) = (wal.framer(), Vec::new());
    let offset = framer.offset();
    framer.batch(&mut out, Seq(6), 0, batch.payload(), batch.checksum());
    wal.write(&out, offset).unwrap();
    let dump = world.run(&["dump", "wal", "000005.wal"]).ok();
    for line in [
        "6 t1 merge key = +1",
        "7 t1 put until 1000000 key = gone",
        "8 t1 delete key",
        "9 t1 put key = value",
        "10 t1 delete [a, m)",
    ] {
        assert!(dump.contains(&format!("  {line}\n")), "{line}: {dump}");
    }

    // A manifest.
    std::fs::create_dir(world.path("m")).unwrap();
    let env: Arc<dyn vlsm_disk::Env> = vlsm_disk::RealEnv::new();
    let mut manifest = Manifest::create(&env, &world.path("m"), &State::default()).unwrap();
    let regions = vec![Region { lo: Default::default(), tree: TreeId(1) }];
    let (name, options) = ("default".into(), "{}".into());
    let keyspace = Keyspace { id: 0, name, options, regions };
    let mut edit = VersionEdit::default();
    let meta = summary.clone().into_meta(FileNumber(1));
    edit.add_l0(vlsm_core::RunId(3), RunOrigin::Flush, Arc::new(Table::whole(Arc::new(meta))));
    let meta = summary.into_meta(FileNumber(2)).with_global_seq(Seq(40));
    edit.add(1, Arc::new(Table::whole(Arc::new(meta))));
    manifest.append(&[Record::CreateKeyspace(keyspace), Record::Edit(TreeId(1), edit)]).unwrap();
    let dump = world.run(&["dump", "manifest", "m/MANIFEST-000001"]).ok();
    assert!(dump.contains("+ L0:r3 1:4K[a,m)~1\n"), "{dump}");
    assert!(dump.contains("+ L1 2:4K[a,m)~1, all of it seq 40\n"), "{dump}");
}
