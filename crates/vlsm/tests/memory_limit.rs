//! A mixed load under a limit of memory: by the store's own ledger, and by what the system says of
//! this process, which is why this test has a program of its own.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vlsm::{ByteCount, Db, MemoryStats};

const LIMIT: ByteCount = ByteCount(32 << 20);
const BESIDE: ByteCount = ByteCount(16 << 20);

/// Resident memory of this process, where the system tells it.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let rest = text.split_once("VmRSS:")?.1;
    rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn memory_stays_within_its_limit_under_a_mixed_load() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::builder(folder.path().join("store"))
        .configure(|options| {
            let policy = &mut options.policy;
            policy.tree.memtable_bytes = ByteCount::mib(1);
            policy.tree.sst_max = ByteCount::mib(1);
            policy.shapes.vlsm.sst_min = ByteCount::kib(128);
            policy.tree.l1_bytes = ByteCount::mib(8);
            policy.shapes.vlsm.phi = 4;
            options.memory_limit = LIMIT;
        })
        .open()
        .unwrap();
    let (before, done, written) = (resident(), AtomicBool::new(false), AtomicU64::new(1));
    let (mut most, mut at_most, mut process) = (ByteCount::ZERO, MemoryStats::default(), 0);
    std::thread::scope(|scope| {
        for part in 0..2_u64 {
            let (db, done, written) = (&db, &done, &written);
            scope.spawn(move || {
                // The two writers end at the same number, or after half a minute.
                for n in 0..150_000 {
                    db.put(key(n * 2 + part), [part as u8; 300]).unwrap();
                    written.fetch_max(n * 2, Relaxed);
                }
                done.store(true, Relaxed);
            });
        }
        scope.spawn(|| {
            let mut n = 1_u64;
            while !done.load(Relaxed) {
                n = n.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let found = db.get(key((n >> 20) % written.load(Relaxed))).unwrap();
                assert!(found.is_none_or(|value| value.len() == 300));
            }
        });
        scope.spawn(|| {
            let mut n = 1_u64;
            while !done.load(Relaxed) {
                n = n.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                assert!(db.range(key(n)..).take(300).all(|pair| pair.is_ok()));
            }
        });
        while !done.load(Relaxed) {
            let now = db.stats().memory;
            if now.total() > most {
                (most, at_most) = (now.total(), now);
            }
            process = process.max(resident().unwrap_or_default());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let stats = db.stats();
    let grew = ByteCount(process.saturating_sub(before.unwrap_or_default()));
    println!("{most} at most: {at_most:?}; the process grew by {grew}");
    assert!(most.as_f64() < LIMIT.as_f64() * 1.05, "{most}: {at_most:?}");
    let (peak, peaks) = (stats.memory_peak, &stats.memory_peaks);
    assert!(peak >= most, "{peak} is less than {most}: {peaks:?}");
    assert!(peak.as_f64() < LIMIT.as_f64() * 1.05, "{peak}: {peaks:?}");
    assert!(most.as_f64() > LIMIT.as_f64() * 0.8, "the limit is made use of: {at_most:?}");
    // Beside memory that is counted there are WAL buffers, stacks, the program's own pages, and
    // small memory that the allocator keeps: 4 to 11 MB in ten runs, beside busy programs, too.
    assert!(grew.as_f64() < LIMIT.as_f64() * 1.05 + BESIDE.as_f64(), "the process grew by {grew}");
    db.close().unwrap();
}
