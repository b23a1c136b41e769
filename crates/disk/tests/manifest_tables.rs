//! A table in the manifest: bytes that contradict themselves are refused with a reason, whatever
//! the checksums say.

use std::sync::Arc;
use vlsm_core::{Bytes as Size, FileMeta, FileNumber, FileUid, Seq, Table, TreeId, VersionEdit};
use vlsm_disk::codec::Reader;
use vlsm_disk::manifest::Record;
use vlsm_disk::manifest::format::{Files, put_record, read_item};

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
    assert_eq!((plain.last(), &ranged[ranged.len() - 2..]), (Some(&0), &[4, 9][..]));
    let with = |bytes: &[u8], cut: usize, end: &[u8]| [&bytes[..bytes.len() - cut], end].concat();
    for (bytes, why) in [
        (with(&plain, 1, &[128]), "unknown flag"),
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
