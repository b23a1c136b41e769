//! The instructions of each path. These figures are the same on a busy machine.
//!
//! `cargo bench -p vlsm --bench instructions [-- NAMES]`. Each path runs in a process of its own
//! under callgrind, which counts the instructions of one function: of `measured` here, which only
//! the client's thread calls, or of the steps of the merge of a flush or compaction. It prints the
//! instructions for one operation, beside the figure kept in docs/performance.md ("Instructions of
//! each path"). It fails if a path takes over 3 % more than the kept figure, or less than 0.9 of
//! it. Then change the figure there, and give the reason in its line. Without Valgrind it reports
//! that and ends.

#![allow(clippy::disallowed_methods)] // A program of its own: files and time are the system's.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use vlsm::WriteOptions;
use vlsm::{Batch, ByteCount, Db, Durability, Error, Keyspace, MemoryStats, Options, Transaction};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance.md");
const HEADING: &str = "## Instructions of each path";
const ACCEPTED: RangeInclusive<f64> = 0.9..=1.03;
/// The environment variable with which this program runs only one path.
const PATH: &str = "INSTRUCTIONS_PATH";
const CLIENT: &str = "instructions::measured";
const MERGE: &str = "vlsm::job::merge::Merge::step";

/// Pairs of each store: with 24 + 176 bytes, 8 MB.
const KEYS: u64 = 40_000;
/// The number of counted operations.
const COUNT: u64 = 5_000;
/// The number of keys of one call of `multi_get`.
const MULTI: usize = 20;
const VALUE: [u8; 176] = [7; 176];

struct Case {
    name: &'static str,
    /// The function whose instructions are counted.
    function: &'static str,
    /// Runs the path, and returns the number of operations.
    run: fn(&Path) -> u64,
}

const CASES: [Case; 19] = [
    Case { name: "get-memtable", function: CLIENT, run: |path| gets(&filled(path), 0) },
    Case { name: "get-memtable-user", function: CLIENT, run: user_gets },
    Case { name: "get-level", function: CLIENT, run: |path| gets(&flushed(path), 0) },
    Case { name: "get-past-memtable", function: CLIENT, run: gets_past_memtable },
    Case { name: "get-absent", function: CLIENT, run: |path| gets(&flushed(path), 1) },
    Case { name: "multi-get-key", function: CLIENT, run: |path| multi_gets(&flushed(path)) },
    Case { name: "scan-forward", function: CLIENT, run: |path| scan(&flushed(path), false) },
    Case { name: "scan-lent", function: CLIENT, run: |path| scan_lent(&flushed(path)) },
    Case { name: "scan-backward", function: CLIENT, run: |path| scan(&flushed(path), true) },
    Case { name: "seek", function: CLIENT, run: |path| seeks(&flushed(path)) },
    Case { name: "put-lazy", function: CLIENT, run: |path| puts(path, Durability::Lazy) },
    Case { name: "put-buffered", function: CLIENT, run: |path| puts(path, Durability::Buffered) },
    Case { name: "put-sync", function: CLIENT, run: |path| puts(path, Durability::Sync) },
    Case { name: "batch-entry", function: CLIENT, run: batches },
    Case { name: "transaction", function: CLIENT, run: transactions },
    Case { name: "transaction-conflict", function: CLIENT, run: conflicts },
    Case { name: "flush-entry", function: MERGE, run: flush },
    Case { name: "compaction-entry", function: MERGE, run: compaction },
    Case { name: "compaction-entry-long-runs", function: MERGE, run: long_runs },
];

fn main() {
    if let Some(path) = std::env::var_os(PATH) {
        let case = CASES.iter().find(|case| *case.name == *path).expect("a case of this program");
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        println!("operations {}", (case.run)(folder.path()));
        return;
    }
    let asked: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    for name in &asked {
        let known = CASES.map(|case| case.name);
        assert!(known.contains(&&**name), "{name:?} is no path; there are: {}", known.join(", "));
    }
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        println!(
            "SKIPPED: instructions of each path (valgrind: {error}; it is a package of that name)"
        );
        return;
    }
    let kept = std::fs::read_to_string(KEPT).expect("docs/performance.md");
    let mut wrong = 0;
    println!("{:<28} {:>12} {:>10} {:>7}", "path", "instructions", "kept", "ratio");
    for case in CASES.iter().filter(|case| asked.is_empty() || asked.iter().any(|a| a == case.name))
    {
        let kept_now = figure(&kept, case.name);
        let mut counted = count(case);
        // A writer that meets another thread at a lock, or notes a long wait, takes more
        // instructions, so the least of several counts is used.
        for _ in 0..4 {
            if kept_now.is_some_and(|kept| counted > kept * ACCEPTED.end()) {
                counted = counted.min(count(case));
            }
        }
        let Some(kept) = kept_now else {
            println!("{:<28} {counted:>12.0} {:>10}", case.name, "none");
            wrong += 1;
            continue;
        };
        let ratio = counted / kept;
        let verdict = if ACCEPTED.contains(&ratio) { "" } else { "  <- not as kept" };
        println!("{:<28} {counted:>12.0} {kept:>10.0} {ratio:>7.3}{verdict}", case.name);
        wrong += u32::from(!verdict.is_empty());
    }
    if wrong > 0 {
        println!(
            "{wrong} of them are not as docs/performance.md has them ({HEADING:?}): mend the path, \
             or write the new figure there and why it changed"
        );
        std::process::exit(1);
    }
}

/// The figure of this path in the table.
fn figure(text: &str, name: &str) -> Option<f64> {
    let table = text.split_once(HEADING)?.1;
    let table = table.split("\n## ").next()?;
    let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {name} |")))?;
    row.split('|').next()?.trim().replace(',', "").parse().ok()
}

/// The instructions for one operation.
fn count(case: &Case) -> f64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--error-exitcode=1"])
        // Threads take turns. Otherwise it is chance whether the background has made the next part
        // of the WAL's window ready, and with it whether a write is a copy or a call.
        .arg("--fair-sched=try")
        .arg(format!("--toggle-collect={}", case.function))
        .arg(std::env::current_exe().expect("this program"))
        .env(PATH, case.name)
        .output()
        .expect("valgrind, which was there");
    let said = |output: &Output| {
        let texts =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        texts.concat()
    };
    let said = said(&output);
    assert!(output.status.success(), "{}: {}: {said}", case.name, output.status);
    let number = |label: &str| {
        let words = said.split_once(label).map(|(_, rest)| rest.trim_start_matches([' ', ':']));
        let word = words.and_then(|rest| rest.split_whitespace().next());
        word.and_then(|word| word.parse::<f64>().ok())
    };
    let (Some(all), Some(operations)) = (number("Collected"), number("operations")) else {
        panic!("{}: callgrind said no count: {said}", case.name)
    };
    assert!(all > operations, "{}: {} was not met", case.name, case.function);
    all / operations
}

/// The function that callgrind counts in the client's thread.
#[inline(never)]
fn measured(work: &mut dyn FnMut(u64)) {
    for number in 0..COUNT {
        work(number);
    }
}

/// Runs the work a few times first, so that one-time work is not counted.
fn counted(mut work: impl FnMut(u64)) -> u64 {
    for number in 0..100 {
        work(number);
    }
    measured(&mut work);
    COUNT
}

fn key(number: u64) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A key of YCSB's form, `user` and twenty digits: most neighbours share no more than that word.
fn user_key(number: u64) -> [u8; 24] {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("user{number:020}").into_bytes().try_into().expect("24 bytes")
}

/// A store without background work while it is small: one memtable holds all its data.
fn open(path: &Path) -> Db {
    let configure = |options: &mut Options| {
        options.policy.tree.memtable_bytes = ByteCount::mib(64);
        options.workers = 1;
    };
    Db::builder(path.join("store")).configure(configure).open().expect("a new store")
}

fn put(main: &Keyspace, key: [u8; 24]) {
    let options = WriteOptions::durability(Durability::Lazy);
    main.put_with(key, VALUE, options).expect("takes writes");
}

/// A store with the even keys in the memtable, put in random order.
fn filled(path: &Path) -> Db {
    filled_with(path, key)
}

fn filled_with(path: &Path, key: fn(u64) -> [u8; 24]) -> Db {
    let db = open(path);
    let main = db.default_keyspace();
    let mut numbers: Vec<_> = (0..KEYS).collect();
    let mut rng = SmallRng::seed_from_u64(1);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, rng.random_range(0..=at));
    }
    for number in numbers {
        put(&main, key(2 * number));
    }
    db
}

/// The same store, with the keys in the last level.
fn flushed(path: &Path) -> Db {
    let db = filled(path);
    db.flush().expect("can be flushed");
    db.default_keyspace().compact_range(..).expect("can be compacted");
    // This reads all blocks into the cache.
    assert_eq!(db.default_keyspace().len().expect("reads"), KEYS);
    db
}

/// Gets of even keys, which exist, or of odd keys, which do not.
fn gets(db: &Db, odd: u64) -> u64 {
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(2));
    counted(|_| {
        let found = main.get(key(2 * rng.random_range(0..KEYS) + odd)).expect("reads");
        assert_eq!(found.is_some(), odd == 0);
    })
}

/// Keys of calls of `multi_get` with 20 random keys each.
fn multi_gets(db: &Db) -> u64 {
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(7));
    let calls = counted(|_| {
        let keys: [_; MULTI] = std::array::from_fn(|_| key(2 * rng.random_range(0..KEYS)));
        let found = main.multi_get(keys);
        assert!(found.iter().all(|value| matches!(value, Ok(Some(_)))));
    });
    calls * MULTI as u64
}

/// Gets of keys in the last level, past a nearly full memtable and three runs with other keys.
fn gets_past_memtable(path: &Path) -> u64 {
    let configure = |options: &mut Options| {
        options.policy.tree.memtable_bytes = ByteCount::mib(2);
        options.workers = 1;
    };
    let db = Db::builder(path.join("store")).configure(configure).open().expect("a new store");
    let main = db.default_keyspace();
    (0..KEYS).for_each(|number| put(&main, key(2 * number)));
    db.flush().expect("can be flushed");
    main.compact_range(..).expect("can be compacted");
    assert_eq!(main.len().expect("reads"), KEYS);
    // Each of the first three parts fills a memtable, and the memory of the next one is made ahead.
    for numbers in [0..10_000, 10_000..20_000, 20_000..30_000, 30_000..36_000] {
        numbers.for_each(|number| put(&main, key(2 * number + 1)));
        let settled = |memory: MemoryStats| memory.sealed.0 == 0 && memory.spare.0 > 0;
        while !settled(db.stats().memory) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    gets(&db, 0)
}

/// Gets of keys of YCSB's form from a memtable.
fn user_gets(path: &Path) -> u64 {
    let db = filled_with(path, user_key);
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(2));
    let keys: Vec<_> = (0..KEYS).map(|number| user_key(2 * number)).collect();
    counted(|_| {
        let found = main.get(keys[rng.random_range(0..keys.len())]).expect("reads");
        assert!(found.is_some());
    })
}

/// Pairs of one long scan.
fn scan(db: &Db, backward: bool) -> u64 {
    let mut iter = db.default_keyspace().iter();
    counted(|_| {
        let pair = if backward { iter.next_back() } else { iter.next() };
        pair.expect("a pair").expect("reads");
    })
}

/// Pairs of one long scan, looked at without a copy.
fn scan_lent(db: &Db) -> u64 {
    let mut iter = db.default_keyspace().iter();
    counted(|_| {
        let pair = iter.next_ref().expect("a pair").expect("reads");
        assert!(pair.key().len() == 24 && pair.value() == VALUE);
    })
}

/// New iterators that read one pair.
fn seeks(db: &Db) -> u64 {
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(3));
    counted(|_| {
        let number = 2 * rng.random_range(0..KEYS);
        main.range(key(number)..).next().expect("a pair").expect("reads");
    })
}

/// Puts of random keys into a memtable that already has entries.
fn puts(path: &Path, durability: Durability) -> u64 {
    let db = filled(path);
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(4));
    let options = WriteOptions::durability(durability);
    counted(|_| {
        let key = key(rng.random_range(0..2 * KEYS));
        main.put_with(key, VALUE, options).expect("takes writes");
    })
}

/// Entries of batches of ten.
fn batches(path: &Path) -> u64 {
    let db = filled(path);
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(5));
    let options = WriteOptions::durability(Durability::Lazy);
    10 * counted(|_| {
        let mut batch = Batch::new();
        for _ in 0..10 {
            batch.put(&main, key(rng.random_range(0..2 * KEYS)), VALUE);
        }
        db.write(&batch, options).expect("takes writes");
    })
}

/// A transaction that has read a key and written it.
fn changing(db: &Db, main: &Keyspace, key: [u8; 24]) -> Transaction {
    let mut transaction = db.transaction();
    transaction.get(main, key).expect("reads");
    transaction.put(main, key, VALUE).expect("is valid");
    transaction
}

/// Transactions that read a key and write it.
fn transactions(path: &Path) -> u64 {
    let db = filled(path);
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(6));
    let options = WriteOptions::durability(Durability::Lazy);
    counted(|_| {
        let key = key(2 * rng.random_range(0..KEYS));
        let transaction = changing(&db, &main, key);
        transaction.commit_with(options).expect("no conflict");
    })
}

/// Transactions that read a key, which another client then writes, so that they cannot commit. The
/// other write is counted, too.
fn conflicts(path: &Path) -> u64 {
    let db = filled(path);
    let (main, mut rng) = (db.default_keyspace(), SmallRng::seed_from_u64(8));
    let options = WriteOptions::durability(Durability::Lazy);
    counted(|_| {
        let key = key(2 * rng.random_range(0..KEYS));
        let transaction = changing(&db, &main, key);
        put(&main, key);
        let committed = transaction.commit_with(options);
        assert!(matches!(committed, Err(Error::Conflict { .. })), "{committed:?}");
    })
}

fn flush(path: &Path) -> u64 {
    filled(path).flush().expect("can be flushed");
    KEYS
}

/// Two sorted runs whose keys alternate at random; the last level is the first of them.
fn compaction(path: &Path) -> u64 {
    merged(path, |number| SmallRng::seed_from_u64(number).random_range(0..2_u8) == 0)
}

/// The same, but with thousands of consecutive keys from one run.
fn long_runs(path: &Path) -> u64 {
    merged(path, |number| number / 2_000 % 2 == 0)
}

/// Counts two flushes and the compaction of both; the figure is the average for an entry of all
/// three.
fn merged(path: &Path, first: fn(u64) -> bool) -> u64 {
    let db = open(path);
    let main = db.default_keyspace();
    for run in [true, false] {
        for number in (0..KEYS).filter(|&number| first(number) == run) {
            put(&main, key(number));
        }
        db.flush().expect("can be flushed");
    }
    main.compact_range(..).expect("can be compacted");
    2 * KEYS
}
