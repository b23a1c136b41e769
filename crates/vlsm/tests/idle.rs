//! An open store at which nothing happens has no thread, and wakes none. A program of its own,
//! because it counts the threads of the process and their wake-ups.
//!
//! `IDLE_SECONDS=60` counts for longer.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vlsm::{ByteCount, Db};

/// How often each thread has gone to sleep, by its name and number; without this one, and without
/// the first one, which waits for this one and says after a minute that it still does.
fn sleeps() -> BTreeMap<String, u64> {
    let this = std::fs::read_link("/proc/thread-self").unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
    let first = std::process::id().to_string();
    let others = tasks.filter(|task| {
        let name = task.file_name();
        Some(&*name) != this.file_name() && *name != *first
    });
    let count = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let of =
            |label: &str| Some(status.split_once(label)?.1.split_whitespace().next()?.to_owned());
        let name = format!("{} {}", of("Name:")?, of("Pid:")?);
        Some((name, of("\nvoluntary_ctxt_switches:")?.parse().ok()?))
    };
    others.filter_map(count).collect()
}

/// The number of threads that belong to a store.
fn of_stores(threads: &BTreeMap<String, u64>) -> usize {
    let of_store = |name: &&String| {
        ["vlsm-flush", "vlsm-work", "vlsm-io"].iter().any(|start| name.starts_with(start))
    };
    threads.keys().filter(of_store).count()
}

#[test]
fn an_idle_store_wakes_no_thread() {
    let seconds = std::env::var("IDLE_SECONDS").map_or(2, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let open = |name| {
        let db = Db::builder(folder.path().join(name));
        let small = |options: &mut vlsm::Options| {
            options.policy.tree.memtable_bytes = ByteCount::mib(1);
        };
        db.configure(small).open().unwrap()
    };
    // One that has written and compacted, and one that was only opened.
    let (used, _fresh) = (open("used"), open("fresh"));
    for number in 0..100_000_u64 {
        used.put(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [7; 100]).unwrap();
    }
    used.flush().unwrap();
    let _iter = used.iter();
    let (deadline, mut before) = (Instant::now() + Duration::from_secs(60), sleeps());
    // Compactions end, unneeded files are removed, the WAL is prepared ahead, a second after the
    // opening the store looks for a request for statistics from before, and threads without work
    // end.
    loop {
        std::thread::sleep(Duration::from_millis(1_500));
        let now = sleeps();
        if (now == before && of_stores(&now) == 0) || Instant::now() > deadline {
            break;
        }
        before = now;
    }
    assert_eq!(of_stores(&before), 0, "{before:?}");
    std::thread::sleep(Duration::from_secs(seconds));
    let woken: Vec<_> =
        sleeps().into_iter().filter(|(name, n)| before.get(name) != Some(n)).collect();
    assert!(woken.is_empty(), "threads that woke, of {before:?}: {woken:?}");
    // The next work finds threads again.
    used.put("late", "value").unwrap();
    used.flush().unwrap();
    assert!(of_stores(&sleeps()) > 0);
}
