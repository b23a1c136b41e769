//! SSTs whose values are partly in WALs read like those that have all values themselves.

use super::*;
use crate::record::checksum;
use crate::sst::check::check;
use proptest::collection::vec;

/// A WAL of values one after the other, behind some bytes that are none.
fn log_of(entries: &[Entry]) -> Vec<u8> {
    let values = entries.iter().map(|(_, _, value)| &value[..]);
    std::iter::once(&b"header"[..]).chain(values).flatten().copied().collect()
}

/// Writes an SST with the places of values where `logged` says so; the others it has itself.
fn write_logged(
    entries: &[Entry],
    options: SstOptions,
    logged: impl Fn(usize) -> Option<u64>,
) -> (Vec<u8>, FileMeta) {
    let mut writer = SstWriter::new(options, UID);
    let mut offset = 6;
    for (index, (key, trailer, value)) in entries.iter().enumerate() {
        let wal = logged(index).filter(|_| trailer.kind() == Some(Kind::Put));
        match wal {
            Some(wal) => {
                let (len, checksum) = (value.len() as u32, checksum(value));
                writer.add_logged(key, trailer.seq(), &Place { wal, offset, len, checksum });
            }
            None => writer.add(key, *trailer, value),
        }
        offset += value.len() as u64;
    }
    let mut file = Vec::new();
    let Finished { chunks: rest, summary, .. } = writer.finish();
    rest.iter().for_each(|(_, chunk)| file.extend_from_slice(chunk));
    (file, summary.into_meta(FileNumber(1)))
}

/// Opens an SST whose WALs all have these bytes.
fn open_logged(file: &[u8], meta: &FileMeta, log: &[u8]) -> Result<Arc<SstReader>> {
    let reader = SstReader::open(NotingFile::new(file), Path::new("000001.sst"), meta)?;
    Ok(Arc::new(reader.with_values(|_, _| Ok(NotingFile::new(log)))?))
}

fn many(count: u64, value_len: usize) -> Vec<Entry> {
    let entry = |n: u64| {
        let kind = if n % 7 == 3 { Kind::Delete } else { Kind::Put };
        let value = vec![n as u8; if kind == Kind::Put { value_len } else { 0 }];
        (format!("key{n:05}").into_bytes(), Trailer::new(Seq(1_000 - n % 500), kind), value)
    };
    (0..count).map(entry).collect()
}

fn reads_as(entries: &[Entry], reader: &Arc<SstReader>) {
    let cache = Arc::new(BlockCache::new(1 << 20));
    assert_eq!(walk(&mut reader.cursor(&cache, true)).expect("sound"), entries);
    let tables = vec![(reader.clone(), KeyRange::closed("", "z"))];
    for chunk_len in [1, 100_000] {
        assert_eq!(scan(tables.clone(), chunk_len).expect("sound"), entries);
    }
    let mut stats = ReadStats::default();
    for (key, trailer, value) in entries {
        let found = reader.get(key, trailer.seq(), &cache, true, &mut stats).expect("sound");
        assert_eq!(found, Some((*trailer, value.clone().into())));
    }
    let mut back = Vec::new();
    let mut cursor = reader.cursor(&cache, true);
    cursor.seek_last().expect("sound");
    while cursor.valid() {
        back.push((cursor.key().to_vec(), cursor.trailer(), cursor.value().to_vec()));
        cursor.prev().expect("sound");
    }
    back.reverse();
    assert_eq!(back, entries);
    let mut problems = Vec::new();
    check(reader, &mut |at, what| problems.push((at, what.to_owned())), &mut |_| {});
    assert_eq!(problems, []);
}

#[test]
fn they_read_like_other_files() {
    for compression in [Compression::None, Compression::Lz4] {
        for value_len in [0, 30, 3_000] {
            let options = SstOptions { compression, ..SstOptions::default() };
            let entries = many(300, value_len);
            let log = log_of(&entries);
            let (file, meta) = write_logged(&entries, options, |n| (n % 3 > 0).then_some(7));
            assert_eq!((&meta.wals, meta.entries), (&vec![7], 300));
            reads_as(&entries, &open_logged(&file, &meta, &log).expect("sound"));
            let (all, meta) = write_logged(&entries, options, |_| None);
            assert_eq!((&all, &meta.wals), (&write(&entries, options).0, &Vec::new()));
            let smaller = value_len == 3_000 && compression == Compression::None;
            assert!(!smaller || all.len() > 2 * file.len(), "{}", file.len());
        }
    }
}

#[test]
fn a_block_refers_to_few_bytes() {
    let entries = many(200, 20_000);
    let (file, meta) = write_logged(&entries, SstOptions::default(), |n| Some(7 + n as u64 / 100));
    let reader = open_logged(&file, &meta, &log_of(&entries)).expect("sound");
    assert_eq!(meta.wals, [7, 8]);
    // Three values of 20,000 bytes fit into 64 KB, and six of seven entries have one.
    assert!((55..70).contains(&reader.block_count()), "{}", reader.block_count());
    reads_as(&entries, &reader);
}

#[test]
fn a_damaged_log_is_damage() {
    let entries = many(40, 100);
    let (file, meta) = write_logged(&entries, SstOptions::default(), |_| Some(7));
    let mut log = log_of(&entries);
    log[6 + 12 * 100] ^= 1;
    let reader = open_logged(&file, &meta, &log).expect("the log is not read yet");
    let cache = Arc::new(BlockCache::new(1 << 20));
    let mut stats = ReadStats::default();
    // The deletes 3 and 10 have no value.
    let mut get = |n: usize| {
        let (key, ..) = &entries[n];
        reader.get(key, Seq::MAX, &cache, true, &mut stats)
    };
    assert!(get(13).is_ok_and(|found| found.is_some()));
    let error = get(14).expect_err("its value is damaged").to_string();
    assert!(error.contains("000001-000007.values") && error.contains("1206"), "{error}");
    let error = walk(&mut reader.cursor(&cache, true)).expect_err("damaged").to_string();
    assert!(error.contains("a value does not match its checksum"), "{error}");
    let mut problems = Vec::new();
    check(&reader, &mut |at, what| problems.push((at, what.to_owned())), &mut |_| {});
    assert_eq!(problems.len(), 1, "{problems:?}");
    let cut = open_logged(&file, &meta, &log[..500]).expect("not read yet");
    let error = cut.get(&entries[20].0, Seq::MAX, &cache, false, &mut ReadStats::default());
    assert!(error.expect_err("cut").to_string().contains("beyond the end"));
}

#[test]
fn a_log_that_is_not_open_is_an_error() {
    let entries = many(10, 100);
    let (file, meta) = write_logged(&entries, SstOptions::default(), |_| Some(7));
    let reader = open(&file, &meta).expect("sound");
    let error = walk(&mut reader.cursor(&Arc::new(BlockCache::new(0)), false));
    assert!(error.expect_err("not open").to_string().contains("a WAL that is not open"));
    let missing = |_, _: &Path| Err(io::ErrorKind::NotFound.into());
    let reader = SstReader::open(NotingFile::new(&file), Path::new("000001.sst"), &meta);
    let error = reader.and_then(|reader| reader.with_values(missing)).expect_err("missing");
    assert!(error.to_string().contains("000001-000007.values"), "{error}");
}

#[test]
fn places_in_the_format() {
    let place = Place { wal: 300, offset: 4_096, len: 1_000, checksum: 0x0102_0304 };
    let hex: Vec<_> = place.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex.join(" "), "ac 02 80 20 e8 07 04 03 02 01");
    let path = values_path(Path::new("x/000012.sst"), 7);
    assert_eq!(
        (path.as_path(), values_numbers(&path)),
        (Path::new("x/000012-000007.values"), Some((FileNumber(12), 7)),)
    );
}

proptest! {
    /// Whatever the place says, it is an answer or an error.
    #[test]
    fn any_place_answers(bytes in vec(any::<u8>(), 0..30)) {
        let mut writer = SstWriter::new(SstOptions::default(), UID);
        let place = Place { wal: 7, offset: 0, len: 3, checksum: 0 };
        writer.add_logged(b"a", Seq(1), &place);
        writer.add(b"b", Trailer::new(Seq(1), Kind::Logged), &bytes);
        let Finished { chunks: rest, summary, .. } = writer.finish();
        let file: Vec<u8> = rest.iter().flat_map(|(_, chunk)| chunk.iter().copied()).collect();
        let meta = summary.into_meta(FileNumber(1));
        let reader = open_logged(&file, &meta, b"some bytes").expect("sound");
        let cache = Arc::new(BlockCache::new(0));
        let found = reader.get(b"b", Seq::MAX, &cache, false, &mut ReadStats::default());
        prop_assert!(found.is_err() || bytes.len() >= 7);
        prop_assert!(walk(&mut reader.cursor(&cache, false)).is_err());
    }
}
