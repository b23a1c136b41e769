//! The reads of an open: exactly the tail in one read if the manifest has its length, and otherwise
//! the footer first. The figures in `docs/performance.md` are from here.

use super::*;
use crate::aligned::align_down;
use crate::sst::format::{FOOTER_LEN, Footer};
use vlsm_core::units;

/// A file of about `bytes` bytes: pairs of 24 + 176 bytes, keys that begin with eight random bytes.
fn of_bytes(bytes: usize) -> (Vec<u8>, FileMeta) {
    let key = |n: usize| {
        let random = format::checksum(UID, n as u64, b"");
        [&random.to_be_bytes()[..], format!("{n:016}").as_bytes()].concat()
    };
    let mut keys: Vec<_> = (0..bytes / 223).map(key).collect();
    keys.sort_unstable();
    let entry = |key| (key, Trailer::new(Seq(7), Kind::Put), vec![7; 176]);
    write(&keys.into_iter().map(entry).collect::<Vec<_>>(), SstOptions::default())
}

/// Opens a file. Returns the reads and the reader's count of bytes.
fn reads(file: &[u8], meta: &FileMeta) -> (Vec<(u64, usize)>, u64) {
    let noting = NotingFile::new(file);
    let reader = SstReader::open(noting.clone(), Path::new("1.sst"), meta).expect("sound");
    let reads = noting.reads.lock().clone();
    assert_eq!(reads.iter().map(|(_, len)| *len as u64).sum::<u64>(), reader.open_bytes());
    (reads, reader.open_bytes())
}

/// The file without the facts that only newer manifests record.
fn older(meta: &FileMeta) -> FileMeta {
    let (smallest, largest) = (meta.smallest.clone(), meta.largest.clone());
    let FileMeta { number, uid, bytes, checksum, entries, seq_min, seq_max, .. } = *meta;
    let rest = FileMeta::default();
    FileMeta { number, uid, bytes, checksum, entries, smallest, largest, seq_min, seq_max, ..rest }
}

#[test]
fn an_opening_reads_the_tail_and_nothing_else() {
    for (size, exact, by_footer) in [(256 << 10, 8192, 8192), (8 << 20, 61_440, 61_440)] {
        let (file, meta) = of_bytes(size);
        assert!(file.len().abs_diff(size) < size / 30, "{} for {size}", file.len());
        let len = file.len() as u64;
        let (footer, _) = Footer::decode(&file, len).expect("sound");
        assert_eq!(meta.tail, Some(units::Bytes(len - footer.index.offset)));
        let start = align_down(footer.index.offset);
        assert_eq!(reads(&file, &meta), (vec![(start, (len - start) as usize)], exact), "{size}");
        let (two, bytes) = reads(&file, &older(&meta));
        assert_eq!((two[0], bytes), ((len - 8192, 8192), by_footer), "{size}");
        assert!(two.len() <= 2 && two.get(1).is_none_or(|(from, _)| *from == start), "{two:?}");
    }
}

#[test]
fn a_file_that_was_just_written_is_not_read() {
    for size in [4 << 10, 256 << 10, 1 << 20] {
        let (file, meta) = of_bytes(size);
        let (noting, path) = (NotingFile::new(&file), Path::new("1.sst"));
        let tail = &file[file.len() - meta.tail.expect("written here").0 as usize..];
        let decode = |tail| Tail::decode(tail, meta.bytes.0, path, None);
        let written = |meta, tail| SstReader::written(noting.clone(), path, meta, tail);
        let reader = written(&meta, decode(tail).expect("sound")).expect("sound");
        assert_eq!((noting.reads.lock().len(), reader.open_bytes()), (0, 0), "{size}");
        let opened = open(&file, &meta).expect("sound");
        assert_eq!(reader.summary(), opened.summary(), "{size}");
        assert_eq!(reader.memory_bytes(), opened.memory_bytes(), "{size}");
        assert_eq!(reader.block_count(), opened.block_count(), "{size}");
        let scanned = |reader| scan(vec![(reader, meta.range())], 4096).expect("sound");
        assert_eq!(scanned(Arc::new(reader)), scanned(opened), "{size}");

        let (_, other) = of_bytes(size + 4096);
        let refused = written(&other, decode(tail).expect("sound"));
        assert!(matches!(refused, Err(Error::Corruption { .. })), "{size}: {refused:?}");
        for len in [0, 1, FOOTER_LEN - 1, FOOTER_LEN, tail.len() - 1] {
            let cut = decode(&tail[tail.len() - len..]);
            assert!(matches!(cut, Err(Error::Corruption { .. })), "{size}, {len}: {cut:?}");
        }
    }
}

/// Footers at every place within their last two pages, with each number of zeros before them.
#[test]
fn the_last_two_pages_have_the_footer() {
    let mut zeros = std::collections::BTreeSet::new();
    for key_len in (1..4200).step_by(7) {
        let entry = (vec![b'k'; key_len], Trailer::new(Seq(1), Kind::Put), vec![1; 9000]);
        let (file, meta) = write(&[entry], SstOptions::default());
        let (footer, _) = Footer::decode(&file, file.len() as u64).expect("sound");
        let end = footer.properties.offset + footer.properties.len;
        zeros.insert((file.len() as u64 - end) as usize - FOOTER_LEN);
        let found = answers(&file, &older(&meta)).expect("sound");
        assert_eq!(found, answers(&file, &meta).expect("sound"));
    }
    assert!(zeros.len() > 500 && *zeros.last().expect("many") > 4096 - FOOTER_LEN, "{zeros:?}");
}

#[test]
fn a_wrong_length_of_the_tail_is_corruption() {
    let (file, meta) = of_bytes(256 << 10);
    let right = meta.tail.expect("just written").0;
    for wrong in [1, 4096, right - 1, right + 1, right + 4096, file.len() as u64] {
        let meta = FileMeta { tail: Some(units::Bytes(wrong)), ..older(&meta) };
        assert!(matches!(open(&file, &meta), Err(Error::Corruption { .. })), "{wrong}");
    }
}
