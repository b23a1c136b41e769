//! SIGKILL at random moments: what was acknowledged is there, and nothing else than a prefix.
//!
//! 1. A child process, this program once more, opens the store and writes from several threads:
//!    batches over several keyspaces, of all durabilities, large ones among them. After each
//!    acknowledgement it writes (thread, number of the batch) to a pipe, from which the parent
//!    reads it into its journal.
//! 2. The parent kills the child at a random moment, sometimes while it still opens the store; it
//!    opens the store itself and checks it, or, in one round of three, starts the next child at
//!    once.
//! 3. And so on, with one store for each profile.
//!
//! What is checked: batch `n` of a thread is a function of `(seed, thread, n)`, writes under the
//! thread's own keys, and under one that holds `n`. So how many batches of each thread are there
//! decides every key of the store. Each batch also names, thread by thread, how many batches had
//! been acknowledged when it began: all of those come before it in the commit order, whatever their
//! durability, so where it is they must be. `NoWal` writes have a keyspace of their own and must
//! only be sound.
//!
//! `KILL9=n` sets how often in all, `KILL9_SEED=s` the seed. Of the power being lost this says
//! nothing: the system has what the process wrote. That is the simulator's part.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the real process, in real time"
)]

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vlsm::{
    Batch, ByteCount, Db, Durability, Keyspace, KeyspaceOptions, PROFILES, Result, WriteOptions,
};

const THREADS: usize = 4;
const SLOTS: u16 = 300;
const UNLOGGED_SLOTS: u64 = 50;
const LOGGED: [&str; 3] = ["default", "one", "split"];
const UNLOGGED: &str = "unlogged";
/// One write, or the removal, of a key: keyspace, key, value.
type Change = (usize, Vec<u8>, Option<Vec<u8>>);

fn main() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    if let Ok(folder) = std::env::var("KILL9_CHILD") {
        let profile = std::env::var("KILL9_PROFILE").unwrap();
        child(Path::new(&folder), &profile, number("KILL9_SEED", 0));
        return;
    }
    let seed = number("KILL9_SEED", std::process::id().into());
    let kills = number("KILL9", 18);
    let started = Instant::now();
    println!("kill9: {kills} kills, KILL9_SEED={seed}");
    let mut seen = Seen::default();
    for (index, profile) in PROFILES.iter().enumerate() {
        let share = |n: usize| kills * n as u64 / PROFILES.len() as u64;
        let mut parent = Parent::new(profile.name, seed + index as u64);
        for _ in share(index)..share(index + 1) {
            parent.round();
        }
        parent.check();
        seen.add(&parent.seen);
    }
    println!("kill9: ok in {:.1} s: {seen:?}", started.elapsed().as_secs_f64());
    assert!(seen.in_writing > 0 && seen.acknowledged > 0, "no kill hit a child that was writing");
    assert!(kills < 100 || (seen.in_opening > 0 && seen.lost > 0), "a kind of kill never happened");
}

/// How often each kind of thing happened.
#[derive(Debug, Default)]
struct Seen {
    /// Kills before the first acknowledgement, and after it.
    in_opening: u64,
    in_writing: u64,
    acknowledged: u64,
    /// Batches acknowledged with `Lazy` that a kill took, as they may be.
    lost: u64,
    checks: u64,
    keys_checked: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.in_opening += other.in_opening;
        self.in_writing += other.in_writing;
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.checks += other.checks;
        self.keys_checked += other.keys_checked;
    }
}

/// The random numbers of a batch.
fn rng_of(seed: u64, thread: usize, n: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (thread as u64) << 56)
}

fn durability_of(seed: u64, thread: usize, n: u64) -> Durability {
    match rng_of(seed, thread, n).random_range(0..16_u8) {
        0 => Durability::Sync,
        1..8 => Durability::Buffered,
        _ => Durability::Lazy,
    }
}

/// What a batch does, but for its entry under the thread's clock.
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
fn clock(default: &Keyspace, thread: usize) -> (u64, Vec<u64>) {
    let Some(bytes) = default.get(clock_key(thread)).unwrap() else {
        return (0, vec![0; THREADS]);
    };
    let mut numbers = bytes.chunks(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()));
    (numbers.next().unwrap(), numbers.collect())
}

fn open(folder: &Path, profile: &str) -> Result<(Db, Vec<Keyspace>, Keyspace)> {
    let builder = Db::builder(folder).profile(profile)?.configure(|options| {
        let policy = &mut options.policy;
        policy.memtable_bytes = ByteCount::kib(64);
        policy.sst_max = ByteCount::kib(32);
        policy.sst_min = ByteCount::kib(8);
        policy.l1_bytes = ByteCount::kib(128);
        policy.phi = 4;
        policy.growth = 4;
        options.wal_file_bytes = ByteCount::kib(128);
        options.manifest_bytes = ByteCount::kib(8);
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

/// Writes until it is killed.
fn child(folder: &Path, profile: &str, seed: u64) {
    let (db, logged, unlogged) = open(folder, profile).unwrap();
    let clocks: Vec<u64> = (0..THREADS).map(|thread| clock(&logged[0], thread).0).collect();
    let acknowledged: Vec<AtomicU64> = clocks.iter().map(|n| AtomicU64::new(*n)).collect();
    let (acknowledged, logged) = (Arc::new(acknowledged), Arc::new(logged));
    let write = |thread: usize| {
        for n in clocks[thread] + 1.. {
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
            db.write(&batch, WriteOptions::durability(durability_of(seed, thread, n))).unwrap();
            acknowledged[thread].store(n, Ordering::SeqCst);
            let mut told = [thread as u8; 9];
            told[1..].copy_from_slice(&n.to_le_bytes());
            let mut pipe = std::io::stdout().lock();
            pipe.write_all(&told).and_then(|()| pipe.flush()).expect("the parent reads");
        }
    };
    let write_unlogged = || {
        for n in 0_u64.. {
            let options = WriteOptions::durability(Durability::NoWal);
            let key = (n % UNLOGGED_SLOTS).to_le_bytes();
            unlogged.put_with(key, value(n, 8 + n as usize % 100), options).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| drop(scope.spawn(move || write(thread))));
        scope.spawn(write_unlogged);
    });
}

/// One store and its journal.
struct Parent {
    profile: &'static str,
    seed: u64,
    _folder: tempfile::TempDir,
    store: PathBuf,
    rng: SmallRng,
    /// The last batch of each thread acknowledged in any way, and so that it must stay.
    told: [u64; THREADS],
    durable: [u64; THREADS],
    /// The state of the store at the last check, and how many batches of each thread it has.
    model: BTreeMap<(usize, Vec<u8>), Vec<u8>>,
    applied: [u64; THREADS],
    seen: Seen,
}

impl Parent {
    fn new(profile: &'static str, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        Self {
            profile,
            seed,
            _folder: folder,
            store,
            rng: SmallRng::seed_from_u64(seed),
            told: [0; THREADS],
            durable: [0; THREADS],
            model: BTreeMap::new(),
            applied: [0; THREADS],
            seen: Seen::default(),
        }
    }

    fn start(&self) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("KILL9_CHILD", &self.store).env("KILL9_PROFILE", self.profile);
        command.env("KILL9_SEED", self.seed.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// One life of a child, and mostly a check.
    fn round(&mut self) {
        let mut child = self.start();
        let mut pipe = child.stdout.take().unwrap();
        let in_opening = self.rng.random_range(0..4_u8) == 0;
        let mut journal = Vec::new();
        if in_opening {
            std::thread::sleep(Duration::from_micros(self.rng.random_range(0..30_000)));
        } else {
            let mut first = [0; 9];
            // Nothing comes from a child that failed; its end tells why.
            if pipe.read_exact(&mut first).is_ok() {
                journal.extend_from_slice(&first);
            }
        }
        let reader = std::thread::spawn(move || {
            // After the kill the pipe still has what was written into it before.
            pipe.read_to_end(&mut journal).unwrap();
            journal
        });
        if !in_opening {
            std::thread::sleep(Duration::from_micros(self.rng.random_range(1_000..150_000)));
        }
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty(), "{}: the child failed by itself: {said}", self.profile);
        let journal = reader.join().unwrap();
        self.enter(&journal);
        if self.rng.random_range(0..3_u8) > 0 {
            self.check();
        }
    }

    /// Enters acknowledgements into the journal.
    fn enter(&mut self, journal: &[u8]) {
        for told in journal.chunks_exact(9) {
            let thread = usize::from(told[0]);
            let n = u64::from_le_bytes(told[1..].try_into().unwrap());
            self.told[thread] = n;
            if durability_of(self.seed, thread, n) != Durability::Lazy {
                self.durable[thread] = self.durable[thread].max(n);
            }
            self.seen.acknowledged += 1;
        }
        match journal.is_empty() {
            true => self.seen.in_opening += 1,
            false => self.seen.in_writing += 1,
        }
    }

    /// Opens the store and compares it with the journal.
    fn check(&mut self) {
        let (db, logged, unlogged) = open(&self.store, self.profile).expect("it recovers");
        let what = format!("{} KILL9_SEED={}", self.profile, self.seed);
        let clocks: Vec<_> = (0..THREADS).map(|thread| clock(&logged[0], thread)).collect();
        for (thread, (n, known)) in clocks.iter().enumerate() {
            let durable = self.durable[thread];
            assert!(*n >= durable, "{what}: thread {thread} has {n}, acknowledged were {durable}");
            for (other, known) in known.iter().enumerate() {
                let (there, _) = clocks[other];
                assert!(
                    there >= *known,
                    "{what}: batch {n} of thread {thread} is there, and came after batch {known} \
                     of thread {other}, but of those only {there} are"
                );
            }
            self.seen.lost += self.told[thread].saturating_sub(*n);
            self.told[thread] = *n;
            self.apply(thread, *n);
        }
        self.compare(&what, &logged);
        for pair in unlogged.iter() {
            let (key, found) = pair.unwrap();
            let n = u64::from_le_bytes(found[..8].try_into().unwrap());
            let sound =
                found == value(n, found.len()) && *key == (n % UNLOGGED_SLOTS).to_le_bytes();
            assert!(sound, "{what}: a pair of {UNLOGGED} was never written");
        }
        self.seen.checks += 1;
        let limit = db.options().wal_limit.0;
        db.close().unwrap();
        self.bounded(&what, limit);
    }

    /// What a life leaves on the disk does not depend on how many there were before.
    fn bounded(&self, what: &str, wal_limit: u64) {
        let files: Vec<_> = std::fs::read_dir(&self.store).unwrap().map(Result::unwrap).collect();
        let is = |name: &std::ffi::OsStr, end: &str| name.to_string_lossy().ends_with(end);
        let bytes_of = |end: &str| -> u64 {
            let of = files.iter().filter(|file| is(&file.file_name(), end));
            of.map(|file| file.metadata().unwrap().len()).sum()
        };
        let (wals, ssts) = (bytes_of(".wal"), bytes_of(".sst"));
        assert!(wals <= wal_limit, "{what}: {wals} bytes of WAL");
        let live: usize = self.model.iter().map(|((_, key), value)| key.len() + value.len()).sum();
        let most = 20 * live as u64 + (8 << 20);
        assert!(ssts <= most, "{what}: {ssts} bytes of SSTs for {live} live ones");
        let most = 40 + ssts / (4 << 10);
        assert!(files.len() as u64 <= most, "{what}: {} files", files.len());
    }

    /// Does to the model what the store says it did.
    fn apply(&mut self, thread: usize, upto: u64) {
        for n in self.applied[thread] + 1..=upto {
            for (keyspace, key, value) in changes(self.seed, thread, n) {
                match value {
                    Some(value) => self.model.insert((keyspace, key), value),
                    None => self.model.remove(&(keyspace, key)),
                };
            }
        }
        assert!(upto >= self.applied[thread], "batches that had been read are gone");
        self.applied[thread] = upto;
    }

    fn compare(&mut self, what: &str, logged: &[Keyspace]) {
        let mut expected = self.model.iter();
        for (keyspace, name) in LOGGED.iter().enumerate() {
            let pairs = logged[keyspace].iter().map(|pair| pair.unwrap());
            for (key, value) in pairs.filter(|(key, _)| !key.starts_with(b"clock ")) {
                let wanted = expected.next().map(|((k, key), value)| (*k, &key[..], &value[..]));
                let found = Some((keyspace, &key[..], &value[..]));
                assert!(wanted == found, "{what}: keyspace {name} is not as it was written");
                self.seen.keys_checked += 1;
            }
        }
        assert!(expected.next().is_none(), "{what}: a key is missing");
    }
}
