//! The time that a store of 4 GB takes to open: after a close, and after its process was killed.
//!
//! `cargo bench -p vlsm --bench opening`. Loads 20 M pairs of 24 + 176 bytes in random order, or
//! `OPENING_PAIRS`, and opens the closed store three times. Then, three times, it lets another
//! process write for a while, kills it and opens the store. The times are those of the engine's own
//! `Event::Opened`.

#![allow(clippy::disallowed_methods)] // A program of its own: processes and time are the system's.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vlsm::Db;
use vlsm_core::event::Event;

/// The number of pairs, unless `OPENING_PAIRS` says otherwise.
const PAIRS: u64 = 20_000_000;
/// The environment variable of the writing process that holds the folder of its store.
const WRITER: &str = "VLSM_BENCH_WRITER";

fn main() {
    if let Some(dir) = std::env::var_os(WRITER) {
        let (db, _) = open(Path::new(&dir));
        load(&db, 0..u64::MAX);
    }
    let pairs =
        std::env::var("OPENING_PAIRS").map_or(PAIRS, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let dir = folder.path().join("store");
    let begun = Instant::now();
    let (db, _) = open(&dir);
    std::thread::scope(|scope| {
        for part in 0..4 {
            let db = &db;
            scope.spawn(move || load(db, pairs * part / 4..pairs * (part + 1) / 4));
        }
    });
    db.wait_idle().expect("no failure");
    db.close().expect("closes");
    println!("loaded {pairs} pairs in {:?}, {} bytes on disk", begun.elapsed(), size(&dir));
    for _ in 0..3 {
        let (db, opened) = open(&dir);
        println!("after a close: {opened}");
        db.close().expect("closes");
    }
    let limit = vlsm::Options::default().wal_limit;
    for seconds in [2, 5, 20] {
        let exe = std::env::current_exe().expect("this program");
        let mut writer = Command::new(exe);
        writer.env(WRITER, &dir).stdout(Stdio::null());
        let mut writer = writer.spawn().expect("starts");
        std::thread::sleep(Duration::from_secs(seconds));
        writer.kill().expect("kills");
        writer.wait().expect("is dead");
        let (db, opened) = open(&dir);
        println!("killed after {seconds} s of writing (wal_limit {limit}): {opened}");
        db.close().expect("closes");
    }
}

fn open(dir: &Path) -> (Db, String) {
    let seen = Arc::new(Mutex::new(String::new()));
    let told = seen.clone();
    let builder = Db::builder(dir).listener(move |event: &Event| {
        if matches!(event, Event::Opened { .. }) {
            *told.lock().expect("no listener panics") = event.to_string();
        }
    });
    let db = builder.open().expect("opens");
    let opened = seen.lock().expect("no listener panics").clone();
    (db, opened)
}

fn load(db: &Db, numbers: std::ops::Range<u64>) {
    let (mut value, mut rng) = ([0; 176], SmallRng::seed_from_u64(numbers.start));
    for n in numbers {
        let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut key = [b'k'; 24];
        key[..8].copy_from_slice(&hash.to_be_bytes());
        // Random bytes, so that the files are as large as the pairs.
        rng.fill(&mut value[..]);
        db.put(key, value).expect("takes writes");
    }
}

fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a folder").flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}
