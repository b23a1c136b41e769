//! Traces: what was asked for is what is read back; what is damaged is refused with a message.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that reads and damages files"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm::trace::{TraceKind, TraceOp, TraceReader};
use vlsm::{Batch, Db, Error, KeyspaceOptions, Result, WriteOptions};
use vlsm_disk::RealEnv;
use vlsm_disk::fs::posix::PosixFs;
use vlsm_testfs::{Fault, FaultFs, Op, Rule};

fn store(folder: &Path) -> Db {
    let rules = KeyspaceOptions::splits(["m"]).merge_operator("append");
    Db::builder(folder.join("store")).default_keyspace(rules).open().unwrap()
}

fn read(path: &Path) -> Result<Vec<TraceOp>> {
    TraceReader::open(path)?.collect()
}

/// A trace of all kinds of operations, and its file.
fn recorded(folder: &Path) -> (Db, PathBuf) {
    let db = store(folder);
    let path = folder.join("trace");
    db.put("before", "x").unwrap();
    db.start_trace(&path).unwrap();
    db.put("apple", "green").unwrap();
    db.put("zebra", [7; 1000]).unwrap();
    db.get("apple").unwrap();
    db.snapshot().get(&db.default_keyspace(), "nothing").unwrap();
    db.default_keyspace().multi_get(["b", "c"]).into_iter().for_each(|got| drop(got.unwrap()));
    db.merge("apple", "er").unwrap();
    db.delete("apple").unwrap();
    assert_eq!(db.range("b"..).take(5).count(), 2);
    db.delete_range("a".."c").unwrap();
    let mut batch = Batch::new();
    let default = db.default_keyspace();
    batch.put(&default, "one", "1");
    batch.delete(&default, "two");
    db.write(&batch, WriteOptions::default()).unwrap();
    db.default_keyspace().put_with_ttl("three", "345", std::time::Duration::from_secs(9)).err();
    assert_eq!(db.end_trace().unwrap(), 12);
    db.put("after", "x").unwrap();
    (db, path)
}

#[test]
fn what_was_asked_for_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (db, path) = recorded(folder.path());
    let ops = read(&path).unwrap();
    let asked: Vec<_> =
        ops.iter().map(|op| (std::str::from_utf8(&op.key).unwrap(), op.kind.clone())).collect();
    let end = bytes::Bytes::from_static(b"c");
    let expected = [
        ("apple", TraceKind::Put(5)),
        ("zebra", TraceKind::Put(1000)),
        ("apple", TraceKind::Get),
        ("nothing", TraceKind::Get),
        ("b", TraceKind::Get),
        ("c", TraceKind::Get),
        ("apple", TraceKind::Merge(2)),
        ("apple", TraceKind::Delete),
        ("b", TraceKind::Scan(2)),
        ("a", TraceKind::DeleteRange(end)),
        ("one", TraceKind::Put(1)),
        ("two", TraceKind::Delete),
    ];
    assert_eq!(asked, expected);
    assert!(ops.windows(2).all(|pair| pair[0].at <= pair[1].at), "one thread, in order");
    assert!(ops[0].tree != ops[1].tree && ops[0].tree == ops[2].tree, "two regions");
    let reader = TraceReader::open(&path).unwrap();
    assert!(reader.started().0 > 1_600_000_000_000_000);
    db.close().unwrap();
}

#[test]
fn a_trace_of_many_threads_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let db = store(folder.path());
    let path = folder.path().join("trace");
    db.start_trace(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let db = &db;
            scope.spawn(move || {
                for number in 0..20_000_u32 {
                    db.put([thread.to_be_bytes(), number.to_be_bytes()].concat(), "x").unwrap();
                }
            });
        }
    });
    // Closing ends it, too.
    db.close().unwrap();
    let mut keys: Vec<_> = read(&path).unwrap().into_iter().map(|op| op.key).collect();
    assert_eq!(keys.len(), 80_000);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 80_000, "each of them once");
    assert!(std::fs::metadata(&path).unwrap().len() < 80_000 * 16, "it is compact");
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (db, path) = recorded(folder.path());
    db.close().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let whole = read(&path).unwrap();
    let damaged = folder.path().join("damaged");
    let refused = |bytes: &[u8], how: &str| {
        std::fs::write(&damaged, bytes).unwrap();
        let error = match TraceReader::open(&damaged) {
            Err(error) => error,
            Ok(reader) => {
                let read: Vec<_> = reader.collect();
                let last = read.len() - 1;
                let known = read[..last].iter().zip(&whole);
                assert!(known.into_iter().all(|(read, sound)| read.as_ref().unwrap() == sound));
                read[last].clone().expect_err(how)
            }
        };
        let said = error.to_string();
        assert!(matches!(error, Error::Corruption { .. } | Error::FormatVersion { .. }), "{said}");
        assert!(said.contains("damaged"), "{how}: {said}");
        said
    };
    for len in 0..sound.len() {
        let said = refused(&sound[..len], "cut off");
        assert!(said.contains("ends too early"), "{said}");
    }
    for bit in 0..sound.len() * 8 {
        let mut flipped = sound.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused(&flipped, "flipped");
    }
    let said = refused(&[&sound[..], b"x"].concat(), "followed");
    assert!(said.contains("something follows"), "{said}");
    assert!(refused(b"SQLite format 3 and more of it", "another").contains("not a trace"));
}

#[test]
fn chunks_keep_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let db = store(folder.path());
    let path = folder.path().join("trace");
    db.start_trace(&path).unwrap();
    (0..20_000_u32).for_each(|number| db.put(number.to_be_bytes(), "x").unwrap());
    db.close().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let end =
        |at: usize| at + 12 + u32::from_le_bytes(sound[at..at + 4].try_into().unwrap()) as usize;
    let (first, second) = (24..end(24), end(24)..end(end(24)));
    assert!(second.end < sound.len() - 20, "there are more than two");
    let refused = |parts: &[&[u8]]| {
        std::fs::write(&path, parts.concat()).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("checksum of a chunk"), "{error}");
    };
    let (header, rest) = (&sound[..24], &sound[second.end..]);
    refused(&[header, &sound[second.clone()], &sound[first.clone()], rest]);
    refused(&[header, &sound[second], rest]);
    refused(&[header, &sound[first.clone()], &sound[first], rest]);
}

#[test]
fn a_file_that_cannot_be_written_fails_the_trace_and_no_operation() {
    let folder = tempfile::tempdir().unwrap();
    let fs = FaultFs::new(Arc::new(PosixFs));
    let env = RealEnv::with_fs(Arc::new(fs.clone()));
    let db = Db::builder(folder.path().join("store")).env(env).open().unwrap();
    let path = folder.path().join("trace-of-it");
    db.start_trace(&path).unwrap();
    let failing = fs.add(Rule::once(Op::Write, "trace-of-it", Fault::NoSpace).nth(2));
    for number in 0..50_000_u32 {
        db.put(number.to_be_bytes(), "x").unwrap();
    }
    let error = db.end_trace().unwrap_err().to_string();
    assert!(error.contains("trace-of-it") && fs.fired(failing) == 1, "{error}");
    assert!(read(&path).is_err(), "a trace without an end says so");
    assert_eq!(db.iter().count(), 50_000);
    db.close().unwrap();
}

#[test]
fn a_newer_version_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (db, path) = recorded(folder.path());
    db.close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 2;
    let sum = crc32c::crc32c(&bytes[..20]);
    bytes[20..24].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = TraceReader::open(&path).err().unwrap();
    assert!(matches!(error, Error::FormatVersion { found: 2, supported: 1, .. }), "{error}");
}

#[test]
fn one_trace_at_a_time_and_no_file_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (db, path) = recorded(folder.path());
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(db.end_trace(), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.start_trace(&path), Err(Error::Io { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    db.start_trace(folder.path().join("second")).unwrap();
    let error = db.start_trace(folder.path().join("third")).unwrap_err().to_string();
    assert!(error.contains("under way"), "{error}");
    assert_eq!(db.end_trace().unwrap(), 0);
    assert_eq!(read(&folder.path().join("second")).unwrap(), []);
    let again = db.clone();
    db.close().unwrap();
    assert!(matches!(again.start_trace(folder.path().join("fourth")), Err(Error::Closed)));
}
