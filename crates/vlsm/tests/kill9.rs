//! SIGKILL at random moments: what was acknowledged is there, and nothing else than a prefix.
//!
//! 1. A child process, this program once more, writes and tells what was acknowledged (`lives`).
//! 2. The parent kills the child at a random moment, sometimes while it still opens the store; it
//!    opens the store itself and checks it, or, in one round of three, starts the next child at
//!    once.
//! 3. And so on, with one store for each profile.
//!
//! `KILL9=n` sets how often in all, `KILL9_SEED=s` the seed. Of the power being lost this says
//! nothing: the system has what the process wrote. For that there are the simulator and
//! `power_cuts.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the real process, in real time"
)]

mod lives;
mod tiny;

use lives::journal::{Journal, Seen};
use lives::{Running, lived_as_a_child, number};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};
use vlsm::{Durability, PROFILES};

fn main() {
    if lived_as_a_child() {
        return;
    }
    let seed = number("KILL9_SEED", std::process::id().into());
    let kills = number("KILL9", 18);
    let started = Instant::now();
    println!("kill9: {kills} kills, KILL9_SEED={seed}");
    let mut seen = Seen::default();
    for (index, profile) in PROFILES.iter().enumerate() {
        let share = |n: usize| kills * n as u64 / PROFILES.len() as u64;
        let folder = tempfile::tempdir().unwrap();
        let seed = seed + index as u64;
        let mut journal = Journal::new(&folder.path().join("store"), profile.name, seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in share(index)..share(index + 1) {
            round(&mut journal, &mut rng);
        }
        journal.check("kill9");
        seen.add(&journal.seen);
    }
    println!("kill9: ok in {:.1} s: {seen:?}", started.elapsed().as_secs_f64());
    println!("counts: kills={kills}, {}", seen.counts());
    assert!(seen.in_writing > 0 && seen.acknowledged > 0, "no kill hit a child that was writing");
    assert!(kills < 100 || (seen.in_opening > 0 && seen.lost > 0), "a kind of kill never happened");
}

/// One life of a child, and mostly a check.
fn round(journal: &mut Journal, rng: &mut SmallRng) {
    let mut child = Running::start(journal.store(), journal.profile, journal.seed);
    if rng.random_range(0..4_u8) == 0 {
        std::thread::sleep(Duration::from_micros(rng.random_range(0..30_000)));
    } else {
        child.first_told();
        std::thread::sleep(Duration::from_micros(rng.random_range(1_000..150_000)));
    }
    child.kill();
    let (told, said) = child.end();
    assert!(said.is_empty(), "{}: the child failed by itself: {said}", journal.profile);
    // What `write()` took is the system's.
    journal.enter(&told, "killed", |durability, _| durability != Durability::Lazy);
    if rng.random_range(0..3_u8) > 0 {
        journal.check("kill9");
    }
}
