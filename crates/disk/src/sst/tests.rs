//! Round trips, golden bytes and damage of SSTs, on a file in memory.

mod cursor;
mod logged;
mod opening;
mod ranges;
mod sketch;

use super::scan::{Scan, Scanner};
use super::*;
use crate::aligned::AlignedBuf;
use crate::fs::File;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{
    Cursor, Error, FileMeta, FileNumber, FileUid, KeyRange, Kind, Result, Seq, Trailer,
};

type Entry = (Vec<u8>, Trailer, Vec<u8>);

const UID: FileUid = FileUid(0x0123_4567_89ab_cdef);

/// A file in memory that records the offset and the length of each read.
///
/// `crates/testfs` cannot serve here: it implements the [`File`] of the library, and unit tests
/// compile a `File` of their own.
#[derive(Default)]
pub(super) struct NotingFile {
    bytes: Vec<u8>,
    reads: Mutex<Vec<(u64, usize)>>,
}

impl NotingFile {
    pub(super) fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.to_vec(), reads: Mutex::default() })
    }
}

impl File for NotingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.lock().push((offset, buf.len()));
        let from = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..));
        let from = from.unwrap_or(&[]);
        let count = from.len().min(buf.len());
        buf[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn write(entries: &[Entry], options: SstOptions) -> (Vec<u8>, FileMeta) {
    let mut writer = SstWriter::new(options, UID);
    let mut file = Vec::new();
    let mut put = |(offset, chunk): (u64, AlignedBuf)| {
        assert_eq!((offset as usize, chunk.len() % 4096), (file.len(), 0));
        file.extend_from_slice(&chunk);
        chunk
    };
    for (key, trailer, value) in entries {
        writer.add(key, *trailer, value);
        while let Some(chunk) = writer.take_full() {
            let used = put(chunk);
            writer.recycle(used);
        }
    }
    let Finished { chunks, summary, tail } = writer.finish();
    chunks.into_iter().for_each(|chunk| drop(put(chunk)));
    assert_eq!(summary.bytes.0 as usize, file.len());
    assert!(file.ends_with(&tail) && tail.len() as u64 == summary.tail.0);
    (file, summary.into_meta(FileNumber(1)))
}

/// Opens a file. The reader that a job makes of its tail has the same parts.
fn open(file: &[u8], meta: &FileMeta) -> Result<Arc<SstReader>> {
    let (noting, path) = (NotingFile::new(file), Path::new("1.sst"));
    let opened = SstReader::open(noting.clone(), path, meta)?;
    if let Some(tail) = meta.tail {
        let tail = &file[file.len() - tail.0 as usize..];
        let tail = Tail::decode(tail, meta.bytes.0, path, meta.global_seq)?;
        let written = SstReader::written(noting, path, meta, tail)?;
        assert_eq!(written.summary(), opened.summary());
        assert_eq!(written.range_tombstones(), opened.range_tombstones());
        assert_eq!(written.memory_bytes(), opened.memory_bytes());
    }
    Ok(Arc::new(opened))
}

fn scan(tables: Vec<(Arc<SstReader>, KeyRange)>, chunk_len: usize) -> Result<Vec<Entry>> {
    let mut scanner = Scanner::new(tables, chunk_len, 2);
    let mut found = Vec::new();
    loop {
        match scanner.advance()? {
            Scan::Entry => {
                found.push((scanner.key().to_vec(), scanner.trailer(), scanner.value().to_vec()))
            }
            Scan::Done => return Ok(found),
            Scan::NeedMore => {
                let wanted: Vec<_> = std::iter::from_fn(|| scanner.next_read()).collect();
                assert!(wanted.len() <= 2);
                for request in wanted.into_iter().rev() {
                    let ticket = request.ticket();
                    scanner.supply(ticket, request.run().expect("in memory"));
                }
            }
        }
    }
}

fn walk(cursor: &mut SstCursor) -> Result<Vec<Entry>> {
    cursor.seek_first()?;
    let mut found = Vec::new();
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.trailer(), cursor.value_shared().to_vec()));
        cursor.next()?;
    }
    Ok(found)
}

fn here(cursor: &SstCursor) -> Option<(&[u8], Trailer)> {
    cursor.valid().then(|| (cursor.key(), cursor.trailer()))
}

fn small() -> Vec<Entry> {
    let put =
        |key: &str, seq, value: &str| (key.into(), Trailer::new(Seq(seq), Kind::Put), value.into());
    vec![
        put("", 7, "empty key"),
        put("apple", 9, "green"),
        put("apple", 3, "red"),
        ("apricot".into(), Trailer::new(Seq(8), Kind::Delete), Vec::new()),
        put("banana", 5, ""),
    ]
}

/// Everything a small file answers, or an error.
fn answers(file: &[u8], meta: &FileMeta) -> Result<Vec<Vec<Entry>>> {
    let reader = open(file, meta)?;
    let cache = Arc::new(BlockCache::new(0));
    let mut all = vec![walk(&mut reader.cursor(&cache, true))?];
    all.push(scan(vec![(reader.clone(), meta.range())], 8192)?);
    let mut cursor = reader.cursor(&cache, true);
    cursor.seek_last()?;
    let mut back = Vec::new();
    while cursor.valid() {
        back.push((cursor.key().to_vec(), cursor.trailer(), cursor.value().to_vec()));
        cursor.prev()?;
    }
    all.push(back);
    for key in ["apple", "banana", "b"] {
        let found =
            reader.get(key.as_bytes(), Seq::MAX, &cache, true, &mut ReadStats::default())?;
        all.push(found.into_iter().map(|(t, v)| (key.into(), t, v.to_vec())).collect());
    }
    Ok(all)
}

/// The lines of a file that are not zeros.
fn hex(file: &[u8]) -> String {
    let mut text = String::new();
    for (number, line) in file.chunks(16).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{:06x}  {}\n", number * 16, hex.join(" "));
        }
    }
    text
}

#[test]
fn golden_bytes() {
    let options = SstOptions { created: Duration::from_secs(1), ..SstOptions::default() };
    let (file, meta) = write(&small(), options);
    expect_test::expect_file!["testdata/small.hex"].assert_eq(&hex(&file));
    assert_eq!((meta.entries, meta.tombstones), (5, 1));
    assert_eq!((meta.seq_min, meta.seq_max), (Seq(3), Seq(9)));
    assert_eq!(answers(&file, &meta).expect("sound")[0], small());
}

#[test]
fn every_flipped_byte_and_every_truncation_is_seen() {
    let (file, meta) = write(&small(), SstOptions::default());
    let right = answers(&file, &meta).expect("sound");
    let mut damaged = file.clone();
    for at in 0..file.len() {
        for bits in [1, 0x80, 0xff] {
            damaged[at] ^= bits;
            match answers(&damaged, &meta) {
                Ok(found) => assert_eq!(found, right, "byte {at}"),
                Err(Error::Corruption { .. }) => {}
                Err(other) => panic!("byte {at}: {other}"),
            }
            damaged[at] ^= bits;
        }
        assert!(matches!(answers(&file[..at], &meta), Err(Error::Corruption { .. })));
    }
}

#[test]
fn damage_beneath_right_checksums_is_no_panic() {
    let entries: Vec<Entry> = (0..40u64)
        .map(|n| (n.to_be_bytes().to_vec(), Trailer::new(Seq(n), Kind::Put), vec![7; 9]))
        .collect();
    let (file, meta) = write(&entries, SstOptions { restart_interval: 4, ..SstOptions::default() });
    let reader = open(&file, &meta).expect("sound");
    let block = reader.extent(0).end as usize;
    for at in 0..block - 8 {
        for bits in [1, 2, 0x10, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[at] ^= bits;
            let sum = format::checksum(UID, 0, &damaged[..block - 8]);
            damaged[block - 8..block].copy_from_slice(&sum.to_le_bytes());
            let _ = answers(&damaged, &meta);
        }
    }
}

#[test]
fn swapped_blocks_and_other_files_are_seen() {
    let entries: Vec<Entry> = (0..60u64)
        .map(|n| (n.to_be_bytes().to_vec(), Trailer::new(Seq(n), Kind::Put), vec![n as u8; 200]))
        .collect();
    let (file, meta) = write(&entries, SstOptions::default());
    let reader = open(&file, &meta).expect("sound");
    assert!(reader.block_count() >= 3);
    assert_eq!((reader.extent(0), reader.extent(1)), (0..4096, 4096..8192));
    let mut swapped = file.clone();
    swapped[..8192].rotate_left(4096);
    assert!(matches!(answers(&swapped, &meta), Err(Error::Corruption { .. })));
    let other = FileMeta { uid: FileUid(1), ..write(&entries, SstOptions::default()).1 };
    assert!(matches!(answers(&file, &other), Err(Error::Corruption { .. })));
    let mut cursor =
        open(&swapped, &meta).expect("opens").cursor(&Arc::new(BlockCache::new(0)), true);
    assert!(cursor.seek_first().is_err() && !cursor.valid());
    assert!(cursor.next().is_err() && cursor.prev().is_err(), "errors stay");
}

#[test]
fn a_newer_version_is_named() {
    let (mut file, meta) = write(&small(), SstOptions::default());
    let end = file.len();
    file[end - 20..end - 16].copy_from_slice(&9u32.to_le_bytes());
    let reader = open(&write(&small(), SstOptions::default()).0, &meta).expect("sound");
    let start = reader.summary().bytes.0 as usize - 4096;
    let properties_end = (start..end - format::FOOTER_LEN).find(|at| {
        format::Footer::decode(&file[start..], end as u64).is_err() && {
            let sum = format::checksum(UID, *at as u64, &file[*at..end - 16]);
            file[end - 16..end - 8].copy_from_slice(&sum.to_le_bytes());
            format::Footer::decode(&file[start..], end as u64).is_ok()
        }
    });
    assert!(properties_end.is_some());
    assert!(matches!(open(&file, &meta), Err(Error::FormatVersion { found: 9, .. })));
}

#[test]
fn large_entries_waste_nothing_and_small_ones_stay_in_their_lines() {
    for (value_len, straddles) in [(100, false), (1500, true), (100_000, true)] {
        let entries: Vec<Entry> = (0..500u64)
            .map(|n| {
                (n.to_be_bytes().to_vec(), Trailer::new(Seq(n), Kind::Put), vec![1; value_len])
            })
            .collect();
        let (file, meta) = write(&entries, SstOptions::default());
        let raw = 500 * (value_len + 8);
        assert!(file.len() < raw + raw / 5 + 8192, "{value_len}: {} for {raw}", file.len());
        let reader = open(&file, &meta).expect("sound");
        let crossing = (0..reader.block_count())
            .map(|block| reader.extent(block))
            .filter(|extent| extent.start / 4096 != (extent.end - 1) / 4096)
            .count();
        assert_eq!(crossing > 0, straddles, "{value_len}");
        assert_eq!(answers(&file, &meta).expect("sound")[1], entries);
    }
}

#[test]
fn the_cache_saves_reads() {
    let entries: Vec<Entry> = (0..1000u64)
        .map(|n| (n.to_be_bytes().to_vec(), Trailer::new(Seq(n), Kind::Put), vec![7; 100]))
        .collect();
    let (file, meta) = write(&entries, SstOptions::default());
    let reader = open(&file, &meta).expect("sound");
    let cache = Arc::new(BlockCache::new(1 << 20));
    let mut stats = ReadStats::default();
    for _ in 0..2 {
        for n in 0..1000u64 {
            let found = reader.get(&n.to_be_bytes(), Seq::MAX, &cache, true, &mut stats);
            assert!(found.expect("sound").is_some());
        }
    }
    let blocks = reader.block_count() as u64;
    assert_eq!((stats.block_misses, stats.block_hits), (blocks, 2000 - blocks));
    let counters = cache.counters();
    assert_eq!((counters.hits, counters.misses), (stats.block_hits, stats.block_misses));
    assert!(cache.memory_bytes() >= counters.miss_bytes);
    assert_eq!(reader.get(b"zz", Seq::MAX, &cache, true, &mut stats).expect("sound"), None);
    assert!(reader.memory_bytes() > 1000);
}

#[test]
fn data_that_does_not_shrink_is_seldom_tried_and_the_end_of_it_is_noticed() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let mut entries: Vec<Entry> = Vec::new();
    for key in 0..3000u32 {
        let text = (1000..2000).contains(&key);
        let value = (0..1000).map(|_| if text { b'a' } else { random() }).collect();
        entries.push((key.to_be_bytes().to_vec(), Trailer::new(Seq(1), Kind::Put), value));
    }
    let options = |compression| SstOptions { compression, ..SstOptions::default() };
    let (plain, _) = write(&entries, options(Compression::None));
    let (file, meta) = write(&entries, options(Compression::Lz4));
    assert_eq!(answers(&file, &meta).expect("sound")[0], entries);
    // Of the million bytes that shrink, at most 32 blocks of some 5,000 bytes are not tried.
    assert!(file.len() < plain.len() - 800_000, "{} of {}", file.len(), plain.len());
    let (only_random, _) = write(&entries[..1000], options(Compression::Lz4));
    let (plain, _) = write(&entries[..1000], options(Compression::None));
    assert!(only_random.len() < plain.len() * 101 / 100, "{}", only_random.len());
}

fn arb_entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 255]), 0..5),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let value = prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..60),
        1 => (0usize..9000).prop_map(|len| vec![3; len]),
    ];
    let kind = prop::sample::select(vec![Kind::Put, Kind::Delete, Kind::Merge]);
    let entry = (key, 0u64..200, kind, value);
    prop::collection::vec(entry, 1..300).prop_map(|entries| {
        let mut entries: Vec<Entry> = entries
            .into_iter()
            .map(|(key, seq, kind, value)| (key, Trailer::new(Seq(seq), kind), value))
            .collect();
        entries.sort_by(|a, b| vlsm_core::key::compare(&a.0, a.1, &b.0, b.1));
        entries.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
        entries
    })
}

fn arb_options() -> impl Strategy<Value = SstOptions> {
    (
        prop::sample::select(vec![1, 300, 4096, 16_384]),
        1usize..20,
        0u32..15,
        prop::sample::select(vec![Compression::None, Compression::Lz4, Compression::Zstd]),
    )
        .prop_map(|(block_bytes, restart_interval, bits_per_key, compression)| SstOptions {
            block_bytes,
            restart_interval,
            bits_per_key,
            compression,
            sketch: false,
            created: Duration::ZERO,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn reads_what_was_written(
        entries in arb_entries(),
        options in arb_options(),
        probes in prop::collection::vec((any::<prop::sample::Index>(), 0u64..200, 0u8..3), 1..40),
        cache in prop::sample::select(vec![0u64, 1 << 20]),
        expecting in prop::sample::select(vec![0u64, 1, 4_096, 9_000, 1 << 20]),
    ) {
        let (file, meta) = write(&entries, options);
        let reader = open(&file, &meta).expect("sound");
        let cache = Arc::new(BlockCache::new(cache));
        let all = answers(&file, &meta).expect("sound");
        prop_assert_eq!(&all[0], &entries);
        prop_assert_eq!(&all[1], &entries);
        prop_assert!(all[2].iter().rev().eq(&entries));
        let mut cursor = reader.cursor(&cache, true).expecting(expecting);
        let mut stats = ReadStats::default();
        for (index, seq, change) in probes {
            let mut key = index.get(&entries).0.clone();
            match change {
                0 => {}
                1 => key.push(0),
                _ => drop(key.pop()),
            }
            let target = Trailer::seek(Seq(seq));
            let at = entries.partition_point(|(k, t, _)| {
                vlsm_core::key::compare(k, *t, &key, target).is_lt()
            });
            let name = |entry: Option<&'_ Entry>| entry.map(|e| (e.0.clone(), e.1));
            for prepared in ["not", "to be there", "and given", "to be elsewhere"] {
                match prepared {
                    "not" => {}
                    "to be there" => cursor.approach(&key),
                    "and given" => {
                        cursor = reader.cursor(&cache, true).expecting(expecting);
                        cursor.approach(&key);
                        if let Some(wanted) = cursor.missing() {
                            cursor.give(wanted.read().expect("sound"));
                        }
                    }
                    _ => {
                        cursor.approach(&meta.largest);
                        cursor.seek_first().expect("sound");
                    }
                }
                cursor.seek(&key, target).expect("sound");
                let found = here(&cursor).map(|(k, t)| (k.to_vec(), t));
                prop_assert_eq!(found, name(entries.get(at)), "prepared {}", prepared);
            }
            cursor.approach(&key);
            cursor.seek_before(&key, target).expect("sound");
            let before = at.checked_sub(1).and_then(|at| entries.get(at));
            prop_assert_eq!(here(&cursor).map(|(k, t)| (k.to_vec(), t)), name(before));
            let expected = entries.get(at).filter(|entry| entry.0 == key);
            let found = reader.get(&key, Seq(seq), &cache, true, &mut stats).expect("sound");
            prop_assert_eq!(
                found.map(|(trailer, value)| (trailer, value.to_vec())),
                expected.map(|entry| (entry.1, entry.2.clone()))
            );
        }
    }

    #[test]
    fn scans_show_their_slices_only(
        entries in arb_entries(),
        options in arb_options(),
        cut in any::<prop::sample::Index>(),
        chunk_len in prop::sample::select(vec![1usize, 5000, 100_000]),
    ) {
        let (file, meta) = write(&entries, options);
        let reader = open(&file, &meta).expect("sound");
        let key = cut.get(&entries).0.clone();
        let left = KeyRange::half_open(meta.smallest.clone(), key.clone());
        let right = KeyRange::closed(key.clone(), meta.largest.clone());
        let mut tables = vec![(reader.clone(), right.clone())];
        prop_assert!(scan(tables.clone(), chunk_len).expect("sound")
            .iter().eq(entries.iter().filter(|entry| right.contains(&entry.0))));
        if !left.is_empty() {
            tables.insert(0, (reader, left));
            prop_assert_eq!(scan(tables, chunk_len).expect("sound"), entries);
        }
    }
}
