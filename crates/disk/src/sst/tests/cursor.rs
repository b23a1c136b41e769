//! The blocks that cursors read, and when they read ahead.

use super::*;

#[test]
fn a_cursor_that_goes_on_reads_ahead() {
    let key = |n: usize| format!("key{n:05}").into_bytes();
    let entries: Vec<_> =
        (0..4000).map(|n| (key(n), Trailer::new(Seq(7), Kind::Put), vec![n as u8; 180])).collect();
    let (file, meta) = write(&entries, SstOptions::default());
    let noting = NotingFile::new(&file);
    let reader = Arc::new(SstReader::open(noting.clone(), Path::new("1.sst"), &meta).unwrap());
    let lengths =
        || -> Vec<usize> { noting.reads.lock().drain(..).map(|read| read.1 >> 10).collect() };
    lengths();
    let cache = Arc::new(BlockCache::new(0));
    let mut cursor = reader.cursor(&cache, true);
    // A seek reads a block. Further moves read more and more, but nothing twice.
    cursor.seek_first().unwrap();
    assert_eq!(lengths(), [4]);
    let mut found = 0;
    while cursor.valid() {
        assert_eq!(cursor.key(), key(found));
        found += 1;
        cursor.next().unwrap();
    }
    assert_eq!(found, entries.len());
    let all = lengths();
    assert_eq!(all[..5], [8, 16, 32, 64, 64], "{all:?}");
    assert_eq!(all.iter().sum::<usize>() + 4, reader.block_count() * 4, "{all:?}");
    assert_eq!(cursor.stats().bytes_read, reader.block_count() as u64 * 4096);
    assert_eq!(cursor.stats().block_misses, reader.block_count() as u64);
    // Backward steps and seeks read block by block. Forward steps start the read-ahead again.
    cursor.seek_last().unwrap();
    for _ in 0..50 {
        cursor.prev().unwrap();
    }
    assert_eq!(lengths(), [4, 4, 4]);
    cursor.seek(&key(2000), Trailer::FIRST).unwrap();
    assert_eq!(lengths(), [4]);
    for _ in 0..80 {
        cursor.next().unwrap();
    }
    assert_eq!(lengths(), [8, 16]);
    // Bytes that are read ahead are counted as long as they are held.
    assert!(cache.pinned_bytes() >= 16 << 10);
    drop(cursor);
    assert_eq!(cache.pinned_bytes(), 0);
}
