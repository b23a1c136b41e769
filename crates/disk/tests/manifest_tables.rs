//! A table in the manifest: bytes that contradict themselves are refused with a reason, whatever
//! the checksums say.

use std::sync::Arc;
use vlsm_core::{
    Bytes as Size, Change, FileMeta, FileNumber, FileUid, Place, RunId, RunOrigin, Seq, Sketch,
    Table, TreeId, VersionEdit,
};
use vlsm_disk::codec::{Malformed, Reader};
use vlsm_disk::manifest::Record;
use vlsm_disk::manifest::format::{Files, Item, put_record, read_item};

fn file(number: u64, lo: &str, hi: &str) -> Arc<FileMeta> {
    Arc::new(FileMeta {
        number: FileNumber(number),
        uid: FileUid(number * 7),
        bytes: Size(1000),
        checksum: 99,
        entries: 10,
        tombstones: 1,
        smallest: lo.to_owned().into(),
        largest: hi.to_owned().into(),
        seq_min: Seq(number * 10),
        seq_max: Seq(number * 10 + 9),
        ..FileMeta::default()
    })
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let table = |change: &dyn Fn(&mut FileMeta)| {
        let mut meta = Arc::into_inner(file(5, "b", "k")).expect("not shared");
        change(&mut meta);
        let mut edit = VersionEdit::default();
        edit.add(1, Arc::new(Table::whole(Arc::new(meta))));
        let mut out = Vec::new();
        put_record(&mut out, &Record::Edit(TreeId(1), edit));
        out
    };
    let read = |bytes: &[u8]| read_item(&mut Reader::new(bytes), &mut Files::default());
    let plain = table(&|_| {});
    let ranged = table(&|meta| meta.range_tombstones = 9);
    read(&plain).expect("sound");
    read(&ranged).expect("sound");
    let logged = table(&|meta| (meta.wals, meta.logged_bytes) = (vec![7, 300], Size(9)));
    read(&logged).expect("sound");
    assert_eq!(logged[plain.len() - 1..], [128, 1, 2, 7, 0xac, 2, 9]);
    assert_eq!((plain.last(), &ranged[ranged.len() - 2..]), (Some(&0), &[4, 9][..]));
    let with = |bytes: &[u8], cut: usize, end: &[u8]| [&bytes[..bytes.len() - cut], end].concat();
    for (bytes, why) in [
        (with(&plain, 1, &[128, 2]), "unknown flag"),
        (with(&plain, 1, &[128, 0]), "unknown flag"),
        (with(&plain, 1, &[128, 1, 0]), "list of WALs"),
        (with(&plain, 1, &[128, 1, 2, 8, 7]), "list of WALs"),
        (with(&plain, 1, &[128, 1, 2, 7, 7]), "list of WALs"),
        (with(&plain, 1, &[128, 1, 3, 7, 8]), "too early"),
        (with(&plain, 1, &[32, 0]), "longer than the file"),
        (table(&|meta| meta.tail = Some(meta.bytes + Size(1))), "longer than the file"),
        (with(&plain, 1, &[2]), "contradict"),
        (with(&ranged, 1, &[0]), "contradict"),
        (with(&plain, 1, &[8]), "has two"),
        (with(&ranged, 1, &[]), "too early"),
        (table(&|meta| meta.largest = "a".into()), "impossible"),
        (
            table(&|meta| {
                (meta.range_tombstones, meta.largest_exclusive) = (1, true);
                meta.largest = meta.smallest.clone();
            }),
            "impossible",
        ),
    ] {
        let error = read(&bytes).expect_err(why);
        assert!(error.0.contains(why), "{} is not {why}", error.0);
    }
}

/// A sketch is written with a run of L0, read back, and left out below L0.
#[test]
fn sketches_are_kept_in_l0_only() {
    let sketch = Arc::new(Sketch::of_numbers(1..=10));
    let meta = Arc::into_inner(file(5, "b", "k")).expect("not shared");
    let meta = Arc::new(FileMeta { sketch: Some(sketch.clone()), ..meta });
    let bytes = |place: Place, meta: &Arc<FileMeta>| {
        let mut edit = VersionEdit::default();
        let table = Arc::new(Table::whole(meta.clone()));
        match place {
            Place::L0(run) => edit.add_l0(run, RunOrigin::Flush, table),
            Place::Level(level) => edit.add(level, table),
        }
        let mut out = Vec::new();
        put_record(&mut out, &Record::Edit(TreeId(1), edit));
        out
    };
    let read = |bytes: &[u8], files: &mut Files| {
        let Item::Record(Record::Edit(_, edit)) = read_item(&mut Reader::new(bytes), files)? else {
            panic!("an edit")
        };
        match &edit.changes[..] {
            [Change::Add { table, .. }] => Ok::<_, Malformed>(table.file.clone()),
            other => panic!("one table, not {other:?}"),
        }
    };
    let l0 = bytes(Place::L0(RunId(1)), &meta);
    let mut files = Files::default();
    assert_eq!(read(&l0, &mut files).expect("sound").sketch, Some(sketch));
    // Golden bytes: what precedes the sketch, the flag, the number of keys; then the registers.
    let plain = bytes(Place::L0(RunId(1)), &file(5, "b", "k"));
    let (head, tail) = l0.split_at(plain.len() + 1);
    assert_eq!(head, [&plain[..plain.len() - 1], &[64, 10]].concat());
    assert_eq!(tail.len(), 3072);
    let registers = tail.iter().enumerate().filter(|(_, byte)| **byte != 0);
    let registers: String = registers.map(|(at, byte)| format!("{at}: {byte} ")).collect();
    expect_test::expect![
        "81: 2 326: 4 534: 3 754: 32 1005: 1 1325: 4 2370: 2 2713: 80 2924: 4 2982: 1"
    ]
    .assert_eq(registers.trim());
    // The same file, moved down, is the same file.
    let below = bytes(Place::Level(1), &meta);
    assert_eq!(below, bytes(Place::Level(1), &file(5, "b", "k")));
    read(&below, &mut files).expect("one file");
    assert_eq!(read(&below, &mut Files::default()).expect("sound").sketch, None);
    let damaged = |at: usize, byte: u8| {
        let mut damaged = l0.clone();
        damaged[at] = byte;
        read(&damaged, &mut Files::default()).expect_err("refused").0
    };
    assert!(damaged(head.len() - 1, 11).contains("sketch"), "the file has 10 entries");
    assert!(damaged(l0.len() - 1, 0xff).contains("sketch"), "no register is 63");
    for len in head.len()..l0.len() {
        assert!(read(&l0[..len], &mut Files::default()).is_err(), "cut at {len}");
    }
}
