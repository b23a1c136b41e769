//! Threads and memory of a hundred stores in one process.
//!
//! `cargo bench -p vlsm --bench many_stores` opens them with the default options, puts a hundred
//! pairs into each, and leaves them alone. It prints the threads and the resident memory of the
//! process, and the times to open and to close all.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A program of its own.

use std::time::{Duration, Instant};
use vlsm::Db;

const STORES: usize = 100;
const PAIRS: u64 = 100;
/// Longer than threads without work stay.
const REST: Duration = Duration::from_secs(7);

fn main() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    tell("none open");
    let begun = Instant::now();
    let open = |number: usize| Db::open(folder.path().join(number.to_string())).expect("new");
    let stores: Vec<Db> = (0..STORES).map(open).collect();
    let opened = begun.elapsed();
    tell("opened");
    for db in &stores {
        for number in 0..PAIRS {
            db.put(number.to_be_bytes(), [7; 100]).expect("takes writes");
        }
    }
    tell("filled");
    std::thread::sleep(REST);
    tell("left alone");
    let begun = Instant::now();
    stores.into_iter().for_each(|db| db.close().expect("closes"));
    println!("opened in {opened:.2?}, closed in {:.2?}", begun.elapsed());
}

/// Prints what the process takes now.
fn tell(when: &str) {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        println!("{when}: this system does not tell what a process takes");
        return;
    };
    let of = |label: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or_default().trim().to_owned()
    };
    println!("{when:<12} {:>4} threads, {} resident", of("Threads:"), of("VmRSS:"));
}
