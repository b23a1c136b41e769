//! Processes that write until they end suddenly, and what must be left of what they wrote.
//!
//! A child process, the test program once more, opens a store and writes from several threads:
//! batches over several keyspaces, of all durabilities, large ones among them. After each
//! acknowledgement it writes (thread, number of the batch) to a pipe. The parent reads them into
//! its journal.
//!
//! The check: batch `n` of a thread is a function of `(seed, thread, n)`, writes under the thread's
//! own keys, and under one that holds `n`. So how many batches of each thread are there decides
//! every key of the store. Each batch also names, thread by thread, how many batches had been
//! acknowledged when it began. All of those come before it in the commit order, whatever their
//! durability, so where it is they must be. `NoWal` writes have a keyspace of their own and must
//! only be sound.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod journal;

use crate::tiny::tiny;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vlsm::{Batch, ByteCount, Db, Durability, Keyspace, KeyspaceOptions, Result, WriteOptions};

pub const THREADS: usize = 4;
const SLOTS: u16 = 300;
const UNLOGGED_SLOTS: u64 = 50;
const LOGGED: [&str; 3] = ["default", "one", "split"];
const UNLOGGED: &str = "unlogged";
/// Told instead of a thread when the store was closed.
const CLOSED: u8 = u8::MAX;
/// The change of one key in a batch: keyspace, key, value or removal.
type Change = (usize, Vec<u8>, Option<Vec<u8>>);

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The random numbers of a batch.
fn rng_of(seed: u64, thread: usize, n: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (thread as u64) << 56)
}

/// The durability of a batch. By the seed, 16, 4 or 1 of 64 batches are `Sync`; the others are
/// `Buffered` or `Lazy`.
fn durability_of(seed: u64, thread: usize, n: u64) -> Durability {
    let syncs = [16, 4, 1][(seed % 3) as usize];
    match rng_of(seed, thread, n).random_range(0..64_u8) {
        at if at < syncs => Durability::Sync,
        16..42 => Durability::Buffered,
        _ => Durability::Lazy,
    }
}

/// The changes of a batch, without its entry under the thread's clock.
fn changes(seed: u64, thread: usize, n: u64) -> Vec<Change> {
    let mut rng = rng_of(seed, thread, !n);
    let large = rng.random_range(0..400_u16) == 0;
    let count = rng.random_range(1..16);
    let mut changes: Vec<Change> = (0..count)
        .map(|_| {
            let keyspace = rng.random_range(0..LOGGED.len());
            let len = rng.random_range(0..200);
            let put = rng.random_range(0..5_u8) > 0;
            let key = key(thread, rng.random_range(0..SLOTS));
            (keyspace, key, put.then(|| value(n, len)))
        })
        .collect();
    if large {
        // Over the length from which a batch goes into the WAL as fragments.
        changes.push((1, key(thread, SLOTS), Some(value(n, 300 << 10))));
    }
    changes
}

/// Keys begin with bytes far apart, so that the regions of `split` all get some.
fn key(thread: usize, slot: u16) -> Vec<u8> {
    let mut key = vec![(slot.wrapping_mul(40_503) >> 8) as u8];
    key.extend_from_slice(format!("thread {thread} slot {slot}").as_bytes());
    key
}

fn value(n: u64, len: usize) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn clock_key(thread: usize) -> Vec<u8> {
    format!("clock {thread}").into_bytes()
}

/// The number of a thread's last batch in the store, and what it knew of the others.
fn clock(default: &Keyspace, thread: usize) -> Result<(u64, Vec<u64>)> {
    let Some(bytes) = default.get(clock_key(thread))? else {
        return Ok((0, vec![0; THREADS]));
    };
    let mut numbers = bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()));
    Ok((numbers.next().unwrap(), numbers.collect()))
}

fn open(folder: &Path, profile: &str, seed: u64) -> Result<(Db, Vec<Keyspace>, Keyspace)> {
    let builder = tiny(Db::builder(folder).profile(profile)?, ByteCount::kib(64));
    let builder = builder.configure(|options| {
        options.policy.tree.sst_max = ByteCount::kib(32);
        options.policy.tree.growth = 4;
        options.wal_file_bytes = ByteCount::kib(128);
        options.manifest_bytes = ByteCount::kib(8);
        options.direct_io = seed.is_multiple_of(2);
    });
    let db = builder.open()?;
    let plain = KeyspaceOptions::new;
    let logged = vec![
        db.default_keyspace(),
        db.create_keyspace(LOGGED[1], plain())?,
        db.create_keyspace(LOGGED[2], KeyspaceOptions::splits([vec![60_u8], vec![160]]))?,
    ];
    let unlogged = db.create_keyspace(UNLOGGED, plain())?;
    Ok((db, logged, unlogged))
}

/// In a child process, writes until a write fails or the parent closes its input, then returns
/// true. In the parent it returns false at once.
pub fn lived_as_a_child() -> bool {
    let Ok(folder) = std::env::var("LIFE_FOLDER") else { return false };
    let profile = std::env::var("LIFE_PROFILE").unwrap();
    if let Err(error) = write_until_told(Path::new(&folder), &profile, number("LIFE_SEED", 0)) {
        eprintln!("it ended: {error}");
    }
    true
}

/// Writes until it is killed, a write fails, or the parent closes this process's input: then it
/// closes the store.
fn write_until_told(folder: &Path, profile: &str, seed: u64) -> Result<()> {
    let (db, logged, unlogged) = open(folder, profile, seed)?;
    let clocks = (0..THREADS).map(|thread| clock(&logged[0], thread).map(|clock| clock.0));
    let clocks: Vec<u64> = clocks.collect::<Result<_>>()?;
    let acknowledged: Vec<AtomicU64> = clocks.iter().map(|n| AtomicU64::new(*n)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        // Nothing comes; the pipe ends when the parent wants it, or is gone.
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        stopped.store(true, Ordering::SeqCst);
    });
    let write = |thread: usize| -> Result<()> {
        for n in clocks[thread] + 1.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let known: Vec<u64> = acknowledged.iter().map(|n| n.load(Ordering::SeqCst)).collect();
            let mut batch = Batch::new();
            for (keyspace, key, value) in changes(seed, thread, n) {
                match value {
                    Some(value) => batch.put(&logged[keyspace], key, value),
                    None => batch.delete(&logged[keyspace], key),
                }
            }
            let numbers = std::iter::once(&n).chain(&known).flat_map(|n| n.to_le_bytes());
            batch.put(&logged[0], clock_key(thread), numbers.collect::<Vec<u8>>());
            db.write(&batch, WriteOptions::durability(durability_of(seed, thread, n)))?;
            acknowledged[thread].store(n, Ordering::SeqCst);
            tell(thread as u8, n);
        }
        Ok(())
    };
    let write_unlogged = || -> Result<()> {
        for n in 0_u64.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let options = WriteOptions::durability(Durability::NoWal);
            let key = (n % UNLOGGED_SLOTS).to_le_bytes();
            unlogged.put_with(key, value(n, 8 + n as usize % 100), options)?;
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    };
    let written = std::thread::scope(|scope| {
        let write = &write;
        let mut threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
        threads.push(scope.spawn(write_unlogged));
        let ends = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ends.fold(Ok(()), Result::and)
    });
    let closed = db.close();
    written.and(closed)?;
    tell(CLOSED, 0);
    Ok(())
}

/// Tells the parent. A process without a parent ends.
fn tell(thread: u8, n: u64) {
    let mut told = [thread; 9];
    told[1..].copy_from_slice(&n.to_le_bytes());
    let mut pipe = std::io::stdout().lock();
    if pipe.write_all(&told).and_then(|()| pipe.flush()).is_err() {
        std::process::exit(1);
    }
}

/// A child that writes, and what it has told so far.
pub struct Running {
    child: Child,
    told: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(folder: &Path, profile: &str, seed: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("LIFE_FOLDER", folder).env("LIFE_PROFILE", profile);
        command.env("LIFE_SEED", seed.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&told);
        let reader = std::thread::spawn(move || {
            // After a kill the pipe still has what was written into it before.
            let mut part = [0; 1 << 16];
            while let Ok(len @ 1..) = pipe.read(&mut part) {
                into.lock().unwrap().extend_from_slice(&part[..len]);
            }
        });
        Self { child, told, reader: Some(reader) }
    }

    /// The number of bytes of acknowledgements received so far.
    pub fn told(&self) -> usize {
        self.told.lock().unwrap().len()
    }

    /// Waits for the first acknowledgement, or the end of a child that failed.
    pub fn first_told(&self) {
        let ended = || self.reader.as_ref().is_some_and(JoinHandle::is_finished);
        while self.told() < 9 && !ended() {
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    pub fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Asks the child to close its store and end.
    pub fn ask_to_close(&mut self) {
        self.child.stdin.take();
    }

    /// Waits until it has ended, and says what it told and what it said of errors.
    pub fn end(mut self) -> (Vec<u8>, String) {
        let until = Instant::now() + Duration::from_secs(120);
        while !self.ended() {
            assert!(Instant::now() < until, "the child does not end");
            std::thread::sleep(Duration::from_micros(500));
        }
        self.reader.take().unwrap().join().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        (told, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Of a child that has ended nothing is left to be killed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
