//! A mixed load under a limit of memory: by the store's own ledger, and by what the system says of
//! this process, which is why this test has a program of its own.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vlsm::{ByteCount, Db, MemoryStats};

const LIMIT: ByteCount = ByteCount(32 << 20);

/// Resident memory of this process, where the system tells it: its own, and pages of files, which
/// are the program's and those of the WAL in use.
fn resident() -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let of = |name: &str| {
        let rest = &text[text.find(name)? + name.len()..];
        rest.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Some([of("RssAnon:")?, of("RssFile:")?])
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
    let (mut most, mut at_most, mut process) = (ByteCount::ZERO, MemoryStats::default(), [0; 2]);
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
            let [own, files] = resident().unwrap_or_default();
            process = [process[0].max(own), process[1].max(files)];
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let stats = db.stats();
    let before = before.unwrap_or_default();
    let [grown, files] = [0, 1].map(|of| process[of].saturating_sub(before[of]));
    let (grew, mapped) = (ByteCount(grown), ByteCount(files));
    println!("{most} at most: {at_most:?}; the process grew by {grew}, pages of files by {mapped}");
    assert!(most.as_f64() < LIMIT.as_f64() * 1.05, "{most}: {at_most:?}");
    let (peak, peaks) = (stats.memory_peak, &stats.memory_peaks);
    assert!(peak >= most, "{peak} is less than {most}: {peaks:?}");
    assert!(peak.as_f64() < LIMIT.as_f64() * 1.05, "{peak}: {peaks:?}");
    assert!(most.as_f64() > LIMIT.as_f64() * 0.8, "the limit is made use of: {at_most:?}");
    // Beside what is counted there are WAL buffers, stacks and what the allocator keeps.
    assert!(grown < LIMIT.0 * 2, "the process grew by {grew}");
    // The parts of two WAL files that are ready to be written, and the program's own pages.
    assert!(files < 8 << 20, "pages of files grew by {mapped}");
    db.close().unwrap();
}
