//! A hundred stores in one process cost threads in proportion to their work: none while they are
//! idle, some where jobs run, and one for all that starts these. A program of its own, because it
//! counts the threads of the process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, Instant};
use vlsm::{ByteCount, Db};

const STORES: usize = 100;

/// The number of threads whose names begin so.
fn threads(start: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = |task: std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(start))
    };
    tasks.filter(|task| named(task.clone())).count()
}

#[test]
fn idle_stores_have_no_threads_and_busy_ones_get_workers() {
    let folder = tempfile::tempdir().unwrap();
    let open = |number: usize| {
        let small = |options: &mut vlsm::Options| {
            options.policy.tree.memtable_bytes = ByteCount::kib(64);
            options.wal_file_bytes = ByteCount::mib(1);
            options.memory_limit = ByteCount::mib(2);
        };
        Db::builder(folder.path().join(number.to_string())).configure(small).open().unwrap()
    };
    let stores: Vec<Db> = (0..STORES).map(open).collect();
    for db in &stores {
        db.put("key", "value").unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let settle = || {
        let now = || ["vlsm-flush", "vlsm-io", "vlsm-work", "vlsm-waker"].map(threads);
        while now() != [0, 0, 0, 1] {
            assert!(Instant::now() < deadline, "threads without work stay: {:?}", now());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    settle();
    // One of them works.
    let mut most = 0;
    for number in 0..40_000_u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        stores[7].put(key, [7; 100]).unwrap();
        if number % 100 == 0 {
            most = most.max(threads("vlsm-work"));
        }
    }
    assert!(most > 0, "no worker was started for the jobs");
    stores[7].flush().unwrap();
    settle();
    for (number, db) in stores.into_iter().enumerate() {
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]), "{number}");
        db.close().unwrap();
    }
    // A thread is listed for a moment after it has ended.
    while threads("vlsm-") > threads("vlsm-watch") {
        assert!(Instant::now() < deadline, "closed stores have threads");
        std::thread::sleep(Duration::from_millis(50));
    }
}
