//! Range tombstones in SSTs, files without entries, and files of one sequence number: round trips,
//! golden bytes, damage, crafted sections.

use super::*;
use vlsm_core::RangeTombstones;

type Fragment = (Vec<u8>, Vec<u8>, Vec<Seq>);

/// A file of these entries and fragments, which are interleaved.
fn write_all(
    entries: &[Entry],
    fragments: &[Fragment],
    options: SstOptions,
) -> (Vec<u8>, FileMeta) {
    let mut writer = SstWriter::new(options, UID);
    assert!(writer.is_empty());
    let mut file = Vec::new();
    for index in 0..entries.len().max(fragments.len()) {
        if let Some((lo, hi, seqs)) = fragments.get(index) {
            let before = writer.bytes();
            writer.add_range(lo, hi, seqs);
            assert!(writer.bytes() > before && !writer.is_empty());
        }
        if let Some((key, trailer, value)) = entries.get(index) {
            writer.add(key, *trailer, value);
        }
        while let Some((_, chunk)) = writer.take_full() {
            file.extend_from_slice(&chunk);
        }
    }
    let Finished { chunks: rest, summary, .. } = writer.finish();
    rest.into_iter().for_each(|(_, chunk)| file.extend_from_slice(&chunk));
    (file, summary.into_meta(FileNumber(1)))
}

fn fragment(lo: &str, hi: &str, seqs: &[u64]) -> Fragment {
    (lo.into(), hi.into(), seqs.iter().map(|seq| Seq(*seq)).collect())
}

fn set(fragments: &[Fragment]) -> RangeTombstones {
    let mut all = RangeTombstones::default();
    for (lo, hi, seqs) in fragments {
        all.insert_all(&lo.clone().into(), &hi.clone().into(), seqs);
    }
    all
}

fn three() -> Vec<Fragment> {
    vec![
        fragment("apple", "b", &[20, 4]),
        fragment("b", "banana", &[20]),
        fragment("c", "melon", &[9, 8, 1]),
    ]
}

#[test]
fn golden_bytes() {
    let options = SstOptions { created: Duration::from_secs(1), ..SstOptions::default() };
    let (file, meta) = write_all(&every_kind(), &three(), options);
    expect_test::expect_file!["../testdata/ranges.hex"].assert_eq(&hex(&file));
    assert_eq!((meta.entries, meta.tombstones, meta.range_tombstones), (4, 1, 3));
    assert_eq!((meta.seq_min, meta.seq_max), (Seq(1), Seq(20)));
    assert_eq!(meta.range(), KeyRange::half_open("apple", "melon"));
    assert_eq!(answers(&file, &meta).expect("sound")[0], every_kind());
}

/// An entry of every kind that a block holds.
fn every_kind() -> Vec<Entry> {
    let entry =
        |seq, kind, value: &[u8]| (b"key".to_vec(), Trailer::new(Seq(seq), kind), value.to_vec());
    vec![
        entry(9, Kind::Merge, b"+1"),
        entry(8, Kind::PutExpiring, b"\x01\0\0\0\0\0\0\0value"),
        entry(7, Kind::Delete, b""),
        entry(6, Kind::Put, b"value"),
    ]
}

#[test]
fn a_file_of_range_tombstones_only() {
    let (file, meta) = write_all(&[], &three(), SstOptions::default());
    assert_eq!((meta.entries, meta.range_tombstones, file.len()), (0, 3, 4096));
    assert_eq!(meta.range(), KeyRange::half_open("apple", "melon"));
    let reader = open(&file, &meta).expect("sound");
    assert_eq!(**reader.range_tombstones(), set(&three()));
    assert_eq!((reader.block_count(), reader.bytes_in(&meta.range()).0), (0, 0));
    assert!(answers(&file, &meta).expect("sound").iter().all(Vec::is_empty));
    let mut stats = ReadStats::default();
    assert!(!reader.may_contain(b"apple", &mut stats), "its filter is empty");
    let cache = Arc::new(BlockCache::new(0));
    let mut cursor = reader.cursor(&cache, true);
    cursor.seek(b"apple", Trailer::FIRST).expect("sound");
    assert!(!cursor.valid());
    cursor.seek_before(b"z", Trailer::FIRST).expect("sound");
    assert!(!cursor.valid());
    cursor.next().and_then(|()| cursor.prev()).expect("sound");
    assert_eq!((cursor.stats().block_misses, stats.filter_negatives), (0, 1));
    // In a run with others.
    let (right, right_meta) = write(&[every_kind().remove(3)], SstOptions::default());
    let right = (open(&right, &right_meta).expect("sound"), KeyRange::closed("melon", "z"));
    let (left, left_meta) = write(&small(), SstOptions::default());
    let left = (open(&left, &left_meta).expect("sound"), KeyRange::half_open("", "apple"));
    let run = vec![left, (reader, meta.range()), right];
    let found = scan(run, 4096).expect("sound");
    assert_eq!(found.iter().map(|entry| entry.1.seq().0).collect::<Vec<_>>(), [7], "key < melon");
}

#[test]
fn bounds_are_over_entries_and_range_tombstones() {
    let entry = |key: &str| (key.into(), Trailer::new(Seq(5), Kind::Put), Vec::new());
    for (keys, (lo, hi), range) in [
        (vec!["b", "m"], ("c", "d"), KeyRange::closed("b", "m")),
        (vec!["b", "m"], ("a", "d"), KeyRange::closed("a", "m")),
        (vec!["b", "m"], ("c", "z"), KeyRange::half_open("b", "z")),
        (vec!["b", "m"], ("c", "m"), KeyRange::closed("b", "m")),
        (vec!["b", "m"], ("b", "m\0"), KeyRange::half_open("b", "m\0")),
        (vec!["b"], ("x", "z"), KeyRange::half_open("b", "z")),
        (vec![""], ("", "\0"), KeyRange::half_open("", "\0")),
    ] {
        let entries: Vec<Entry> = keys.into_iter().map(entry).collect();
        let (file, meta) = write_all(&entries, &[fragment(lo, hi, &[7, 2])], SstOptions::default());
        assert_eq!(meta.range(), range);
        assert_eq!((meta.seq_min, meta.seq_max), (Seq(2), Seq(7)));
        let reader = open(&file, &meta).expect("sound");
        assert_eq!(reader.range_tombstones().range(), Some(KeyRange::half_open(lo, hi)));
        assert_eq!(answers(&file, &meta).expect("sound")[1], entries);
    }
}

#[test]
fn the_longest_ends_are_read() {
    let longest = vec![b'z'; vlsm_core::key::MAX_END_LEN];
    let fragments = [fragment("a", "b", &[3]), (b"b".to_vec(), longest.clone(), vec![Seq(4)])];
    let (file, meta) = write_all(&every_kind(), &fragments, SstOptions::default());
    assert_eq!(meta.range(), KeyRange::half_open("a", longest.clone()));
    let reader = open(&file, &meta).expect("sound");
    assert_eq!(**reader.range_tombstones(), set(&fragments));
    let longer = vec![b'z'; longest.len() + 1];
    let fragments = [(b"b".to_vec(), longer, vec![Seq(4)])];
    let (file, meta) = write_all(&every_kind(), &fragments, SstOptions::default());
    assert!(matches!(open(&file, &meta), Err(Error::Corruption { .. })));
}

#[test]
fn every_flipped_byte_and_every_truncation_is_seen() {
    for entries in [every_kind(), Vec::new()] {
        let (file, meta) = write_all(&entries, &three(), SstOptions::default());
        let right = answers(&file, &meta).expect("sound");
        let mut damaged = file.clone();
        for at in 0..file.len() {
            for bits in [1, 0x80, 0xff] {
                damaged[at] ^= bits;
                match open(&damaged, &meta).and_then(|reader| {
                    assert_eq!(**reader.range_tombstones(), set(&three()), "byte {at}");
                    answers(&damaged, &meta)
                }) {
                    Ok(found) => assert_eq!(found, right, "byte {at}"),
                    Err(Error::Corruption { .. }) => {}
                    Err(other) => panic!("byte {at}: {other}"),
                }
                damaged[at] ^= bits;
            }
            assert!(matches!(open(&file[..at], &meta), Err(Error::Corruption { .. })));
        }
    }
}

/// The byte range of the range tombstones in a short file.
fn section(file: &[u8]) -> std::ops::Range<usize> {
    let tail = file.len() - 4096;
    let (footer, _) = format::Footer::decode(&file[tail..], file.len() as u64).expect("sound");
    let from = footer.ranges.offset as usize;
    from..from + footer.ranges.len as usize
}

/// A file whose section of range tombstones was changed by `craft`, with correct checksums.
fn crafted(craft: impl FnOnce(&mut [u8])) -> Result<Arc<SstReader>> {
    let (mut file, mut meta) = write_all(&every_kind(), &three(), SstOptions::default());
    let (tail, place) = (file.len() - 4096, section(&file));
    let (mut footer, _) = format::Footer::decode(&file[tail..], file.len() as u64).expect("sound");
    craft(&mut file[place.clone()]);
    footer.ranges = format::Section::of(UID, footer.ranges.offset, &file[place]);
    let position = footer.properties.offset + footer.properties.len;
    let (end, checksum) = footer.encode(position);
    file.truncate(position as usize);
    file.extend_from_slice(&end);
    meta.checksum = checksum;
    open(&file, &meta)
}

#[test]
fn damage_beneath_right_checksums_is_no_panic() {
    let sound = crafted(|_| {}).expect("sound");
    assert_eq!(**sound.range_tombstones(), set(&three()));
    let place = section(&write_all(&every_kind(), &three(), SstOptions::default()).0);
    let mut refused = 0;
    for at in 0..place.len() {
        for bits in [1, 2, 0x10, 0x40, 0x80, 0xff] {
            match crafted(|section| section[at] ^= bits) {
                Err(Error::Corruption { offset, .. }) => {
                    assert_eq!(offset, place.start as u64, "the section's offset");
                    refused += 1;
                }
                Err(other) => panic!("byte {at}: {other}"),
                Ok(reader) => assert_eq!(reader.range_tombstones().len(), 3),
            }
        }
    }
    assert!(refused > 50, "{refused}");
}

#[test]
fn blocks_hold_no_other_kinds() {
    for (kind, value) in [(3, 20), (5, 20), (255, 20), (4, 7)] {
        let entry = (b"key".to_vec(), Trailer(7 << 8 | 1), vec![1; value]);
        let (mut file, meta) = write(&[entry], SstOptions::default());
        assert_eq!(file[6], 1, "the kind of the first entry");
        file[6] = kind;
        let end = open(&file, &meta).expect("its blocks are not read").extent(0).end as usize;
        let sum = format::checksum(UID, 0, &file[..end - 8]);
        file[end - 8..end].copy_from_slice(&sum.to_le_bytes());
        let reader = open(&file, &meta).expect("its blocks are not read");
        let cache = Arc::new(BlockCache::new(0));
        let walked = walk(&mut reader.cursor(&cache, true));
        assert!(matches!(walked, Err(Error::Corruption { .. })), "cursor, {kind}");
        let got = reader.get(b"key", Seq::MAX, &cache, true, &mut ReadStats::default());
        assert!(matches!(got, Err(Error::Corruption { .. })), "get, {kind}");
        let scanned = scan(vec![(reader, meta.range())], 4096);
        assert!(matches!(scanned, Err(Error::Corruption { .. })), "scan, {kind}");
    }
}

#[test]
fn older_versions_of_a_key_follow_under_a_cursor() {
    let (file, meta) = write_all(&every_kind(), &[], SstOptions::default());
    let reader = open(&file, &meta).expect("sound");
    let mut stats = ReadStats::default();
    assert!(reader.may_contain(b"key", &mut stats) && !reader.may_contain(b"yek", &mut stats));
    assert_eq!((stats.filter_checks, stats.filter_negatives), (2, 1));
    let mut cursor = reader.cursor(&Arc::new(BlockCache::new(0)), true);
    for seq in 0..12 {
        cursor.seek(b"key", Trailer::seek(Seq(seq))).expect("sound");
        let mut seen = Vec::new();
        while cursor.valid() {
            seen.push(cursor.trailer());
            cursor.next().expect("sound");
        }
        let visible = every_kind().into_iter().map(|entry| entry.1).filter(|t| t.seq() <= Seq(seq));
        assert_eq!(seen, visible.collect::<Vec<_>>());
    }
}

fn arb_fragments() -> impl Strategy<Value = Vec<Fragment>> {
    let end = prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 255]), 0..5);
    let one = (any::<bool>(), prop::collection::btree_set(1u64..300, 1..5));
    prop::collection::btree_map(end, one, 2..40).prop_map(|ends| {
        let ends: Vec<_> = ends.into_iter().collect();
        let between = ends.windows(2).map(|pair| {
            let (lo, (is, seqs)) = &pair[0];
            let seqs = seqs.iter().rev().map(|seq| Seq(*seq)).collect();
            is.then(|| (lo.clone(), pair[1].0.clone(), seqs))
        });
        between.flatten().collect()
    })
}

fn arb_probe() -> impl Strategy<Value = (prop::sample::Index, u64, bool)> {
    (any::<prop::sample::Index>(), 0u64..1000, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn reads_the_ranges_that_were_written(
        entries in prop_oneof![4 => arb_entries(), 1 => Just(Vec::new())],
        fragments in arb_fragments(),
        options in arb_options(),
    ) {
        prop_assume!(!(entries.is_empty() && fragments.is_empty()));
        let (file, meta) = write_all(&entries, &fragments, options);
        let reader = open(&file, &meta).expect("sound");
        prop_assert_eq!(&**reader.range_tombstones(), &set(&fragments));
        let found = answers(&file, &meta).expect("sound");
        prop_assert_eq!((&found[0], &found[1]), (&entries, &entries));
        let range = meta.range();
        prop_assert!(entries.iter().all(|entry| range.contains(&entry.0)));
        prop_assert!(reader.range_tombstones().range().is_none_or(|part| range.covers(&part)));
        prop_assert_eq!(meta.range_tombstones, fragments.len() as u64);
        let seqs = entries.iter().map(|entry| entry.1.seq());
        let seqs = seqs.chain(fragments.iter().flat_map(|fragment| fragment.2.iter().copied()));
        let seqs: std::collections::BTreeSet<Seq> = seqs.collect();
        prop_assert_eq!(Some(&meta.seq_min), seqs.first());
        prop_assert_eq!(Some(&meta.seq_max), seqs.last());
    }

    #[test]
    fn one_sequence_number_for_all(
        entries in arb_entries(),
        fragments in arb_fragments(),
        options in arb_options(),
        probes in prop::collection::vec(arb_probe(), 1..40),
    ) {
        let global = Seq(500);
        let mut entries = entries;
        entries.dedup_by(|next, kept| next.0 == kept.0);
        let (file, meta) = write_all(&entries, &fragments, options);
        let meta = meta.with_global_seq(global);
        prop_assert_eq!((meta.seq_min, meta.seq_max), (global, global));
        let given = |trailer: Trailer| Trailer::new(global, trailer.kind().expect("known"));
        let expected: Vec<Entry> =
            entries.iter().map(|(k, t, v)| (k.clone(), given(*t), v.clone())).collect();
        let found = answers(&file, &meta).expect("sound");
        prop_assert_eq!((&found[0], &found[1]), (&expected, &expected));
        prop_assert!(found[2].iter().rev().eq(&expected));
        let reader = open(&file, &meta).expect("sound");
        let renumbered: Vec<Fragment> =
            fragments.iter().map(|(lo, hi, _)| (lo.clone(), hi.clone(), vec![global])).collect();
        prop_assert_eq!(&**reader.range_tombstones(), &set(&renumbered));
        let cache = Arc::new(BlockCache::new(0));
        let mut cursor = reader.cursor(&cache, true);
        let mut stats = ReadStats::default();
        for (index, seq, longer) in probes {
            let mut key = index.get(&entries).0.clone();
            if longer {
                key.push(0);
            }
            let target = Trailer::seek(Seq(seq));
            let at = expected.partition_point(|(k, t, _)| {
                vlsm_core::key::compare(k, *t, &key, target).is_lt()
            });
            let name = |entry: Option<&'_ Entry>| entry.map(|e| (e.0.clone(), e.1));
            cursor.seek(&key, target).expect("sound");
            prop_assert_eq!(here(&cursor).map(|(k, t)| (k.to_vec(), t)), name(expected.get(at)));
            cursor.seek_before(&key, target).expect("sound");
            let before = at.checked_sub(1).and_then(|at| expected.get(at));
            prop_assert_eq!(here(&cursor).map(|(k, t)| (k.to_vec(), t)), name(before));
            let wanted = expected.get(at).filter(|entry| entry.0 == key);
            let got = reader.get(&key, Seq(seq), &cache, true, &mut stats).expect("sound");
            prop_assert_eq!(
                got.map(|(trailer, value)| (trailer, value.to_vec())),
                wanted.map(|entry| (entry.1, entry.2.clone()))
            );
        }
    }
}
