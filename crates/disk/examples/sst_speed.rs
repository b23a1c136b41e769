//! Prints how fast SSTs are written and scanned in memory: pairs of 24 + 176 bytes.
//! Run with `cargo run --release -p vlsm-disk --example sst_speed`.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Instant;
use vlsm_core::{FileNumber, FileUid, Kind, Seq, Trailer};
use vlsm_disk::sst::{
    BlockCache, Finished, ReadStats, Scan, Scanner, SstOptions, SstReader, SstWriter,
};
use vlsm_testfs::MemFile;

const PAIRS: u64 = 320_000;
const PAIR_BYTES: f64 = 200.0;

fn key(number: u64) -> [u8; 24] {
    let mut key = *b"user0000000000000000abcd";
    let mut rest = number.wrapping_mul(1 << 40);
    for at in (4..20).rev() {
        key[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn report(what: &str, start: Instant, count: u64) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = count as f64 * PAIR_BYTES / seconds / 1e6;
    println!("{what:8} {:7.1} ns each {rate:8.0} MB/s", seconds * 1e9 / count as f64);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut keys: Vec<_> = (0..PAIRS).map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    let value = [7u8; 176];
    for _ in 0..5 {
        let count = keys.len() as u64;
        let start = Instant::now();
        let mut writer = SstWriter::new(SstOptions::default(), FileUid(1));
        let mut file = vec![0; 80 << 20];
        let keep = |file: &mut Vec<u8>, offset: u64, chunk: &[u8]| {
            file[offset as usize..][..chunk.len()].copy_from_slice(chunk);
        };
        let prepared = Instant::now();
        for (seq, key) in keys.iter().enumerate() {
            writer.add(key, Trailer::new(Seq(seq as u64), Kind::Put), &value);
            if let Some((offset, chunk)) = writer.take_full() {
                keep(&mut file, offset, &chunk);
                writer.recycle(chunk);
            }
        }
        let Finished { chunks, summary, .. } = writer.finish();
        chunks.iter().for_each(|(offset, chunk)| keep(&mut file, *offset, chunk));
        report("write", prepared, count);
        let _ = start;
        let meta = summary.into_meta(FileNumber(1));
        file.truncate(meta.bytes.0 as usize);
        let reader = SstReader::open(Arc::new(MemFile(file)), "x".as_ref(), &meta)?;
        let reader = Arc::new(reader);

        let start = Instant::now();
        let mut scanner = Scanner::new(vec![(reader.clone(), meta.range())], 256 << 10, 2);
        let mut seen = 0;
        loop {
            match scanner.advance()? {
                Scan::Entry => seen += 1,
                Scan::Done => break,
                Scan::NeedMore => {
                    while let Some(request) = scanner.next_read() {
                        let ticket = request.ticket();
                        scanner.supply(ticket, request.run()?);
                    }
                }
            }
        }
        assert_eq!(seen, count);
        report("scan", start, count);

        let cache = BlockCache::new(256 << 20);
        let mut stats = ReadStats::default();
        for round in ["get cold", "get warm"] {
            let start = Instant::now();
            for n in 0..count {
                let key = &keys[(n * 7919 % count) as usize];
                let found = reader.get(key, Seq::MAX, &cache, true, &mut stats)?;
                assert!(found.is_some());
            }
            report(round, start, count);
        }
        println!(
            "file {} for {} of pairs; memory {} KiB; {} blocks",
            meta.bytes,
            vlsm_core::Bytes(count * 200),
            reader.memory_bytes() >> 10,
            reader.block_count()
        );
    }
    Ok(())
}
