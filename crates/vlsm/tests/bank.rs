//! The example `bank`, killed again and again: its books are right after every kill.
//!
//! 1. A child process, this program once more, opens the bank and works. After each operation that
//!    was acknowledged it writes one byte to a pipe.
//! 2. The parent kills it by SIGKILL at a random moment, and counts the bytes. Until then it audits
//!    the bank beside the child, again and again: no counter ever falls.
//! 3. The parent audits the newest backup, and the bank itself, which has all that was seen. The
//!    sum of balances, the index and the sessions must be right, and every counter must be at
//!    least what was acknowledged, and at most what was asked for.
//!
//! `BANK_KILLS=n` sets how often, 20 by default.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test of the real process, in real time"
)]

#[allow(dead_code, reason = "the example's own main and demonstration")]
#[path = "../examples/bank.rs"]
mod bank;
mod tiny;

use bank::{Audit, Bank, OPERATIONS};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tiny::tiny;
use vlsm::{ByteCount, Db};

/// Clerks that work at once: each may have done one operation that it could not tell of.
const CLERKS: u64 = 2;

fn open(folder: &Path) -> Bank {
    // Small memtables, so that flushes and compactions are killed, too.
    let builder = Db::builder(folder.join("store"));
    Bank::open(tiny(builder, ByteCount::kib(16))).unwrap()
}

fn main() {
    if let Some(folder) = std::env::var_os("BANK_FOLDER") {
        live(Path::new(&folder));
        return;
    }
    let kills = std::env::var("BANK_KILLS").map_or(20, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (mut least, mut before) = ([0; 3], open_and_audit(folder));
    let (mut followed, mut flushed, mut audits) = (0, 0, 0);
    for kill in 1..=kills {
        let (told, seen) = life(folder, least);
        audits += seen.1;
        for (counter, (told, seen)) in least.iter_mut().zip(told.into_iter().zip(seen.0)) {
            *counter = (*counter + told).max(seen);
        }
        let copies = folder.join("copies");
        if copies.exists()
            && let Some((number, copy)) = bank::newest_backup(&copies).unwrap()
        {
            assert!(number >= followed, "backup {number} after {followed}");
            followed = number;
            for (copy, told) in copy.counters.iter().zip(least) {
                assert!(*copy <= told + CLERKS * kill, "a backup of more than was done");
            }
        }
        let audit = open_and_audit(folder);
        for (i, done) in OPERATIONS.iter().enumerate() {
            let (now, most) = (audit.counters[i], before.counters[i] + told[i] + CLERKS);
            assert!(
                (least[i]..=most).contains(&now),
                "kill {kill}: {done:?} {now} times, at least {}, at most {most}",
                least[i]
            );
        }
        // What was read must stay.
        least = audit.counters;
        flushed += u64::from(told.iter().sum::<u64>() > 0);
        before = audit;
    }
    println!("bank: {kills} kills, {before:?}, {followed} backups, {audits} audits beside it");
    assert!(followed > 0, "no backup was made");
    assert!(audits > kills / 2, "hardly any audit beside a bank that works");
    assert!(flushed > kills / 2, "most kills came before the first operation");
}

fn open_and_audit(folder: &Path) -> Audit {
    let bank = open(folder);
    let audit = bank.audit().unwrap();
    bank.close().unwrap();
    audit
}

/// The child: works until it is killed.
fn live(folder: &Path) {
    let bank = open(folder);
    let tell = |done| {
        let at = OPERATIONS.iter().position(|operation| *operation == done).unwrap();
        let mut pipe = std::io::stdout().lock();
        // A pipe that nobody reads: the parent is gone.
        pipe.write_all(&[at as u8]).and_then(|()| pipe.flush()).is_ok()
    };
    bank::serve_and_work(&bank, &folder.join("copies"), tell).unwrap();
}

/// Audits a bank that another process works in until `over`. Returns its last counters, which are
/// at least `least`, and the number of audits.
fn watch(folder: &Path, least: [u64; 3], over: &AtomicBool) -> ([u64; 3], u64) {
    let bank = Bank::beside(&folder.join("store")).unwrap();
    let (mut seen, mut audits) = (least, 0);
    loop {
        let now = bank.audit().unwrap().counters;
        assert!(now.iter().zip(seen).all(|(now, seen)| *now >= seen), "{now:?} after {seen:?}");
        (seen, audits) = (now, audits + 1);
        if over.load(Ordering::Relaxed) {
            bank.close().unwrap();
            return (seen, audits);
        }
        bank.catch_up().unwrap();
    }
}

/// Starts a child and kills it at a random moment. Returns how often each operation was
/// acknowledged, and what was seen beside it.
fn life(folder: &Path, least: [u64; 3]) -> ([u64; 3], ([u64; 3], u64)) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("BANK_FOLDER", folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let mut told = [0; 3];
    let mut part = [0; 1 << 12];
    // Waits for the first operation, so that most kills hit a bank that works.
    let first = pipe.read(&mut part).unwrap();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_micros(rand::random_range(0..120_000)));
        child.kill().unwrap();
        child.wait().unwrap()
    });
    let over = Arc::new(AtomicBool::new(false));
    let (path, ended) = (folder.to_owned(), over.clone());
    let watcher = std::thread::spawn(move || watch(&path, least, &ended));
    let mut len = first;
    while len > 0 {
        part[..len].iter().for_each(|at| told[usize::from(*at)] += 1);
        len = pipe.read(&mut part).unwrap();
    }
    let status = killer.join().unwrap();
    over.store(true, Ordering::Relaxed);
    let seen = watcher.join().unwrap();
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert!(status.code().is_none(), "the bank ended by itself, {status}: {said}");
    (told, seen)
}
