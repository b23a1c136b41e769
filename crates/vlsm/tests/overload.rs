//! Overload: writers as fast as they can on a device that takes far less.
//!
//! The disk is in memory; SSTs' writes and syncs take their turn at one slow device
//! (`vlsm_testfs::FaultFs`). Four writers overwrite keys of their own, with single puts, synced
//! ones and batches so large that they go into the WAL in fragments; a reader gets and scans. Then
//! the load stops. What holds meanwhile and afterwards is about causes and bounds, not about times:
//! no write fails, none hangs, and slow ones recorded why they waited; memory, L0 and space stay
//! within bounds; reads answer no less than what was acknowledged; the store drains, shows exactly
//! what was written last, and is found whole.
//!
//! `OVERLOAD_SECONDS=n` keeps the load up for longer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod tiny;

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use tiny::tiny;
use vlsm::{
    Batch, ByteCount, BytesPerSec, Db, Durability, Env, Event, Stats, WaitCause, WriteOptions,
};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{Fault, FaultFs, Op, Rule, SimFs};

const FOLDER: &str = "/store";
const WRITERS: u64 = 4;
/// Keys of each writer; the keys and values of all writers together are 3 MB.
const KEYS: u64 = 6_000;
/// A single call that takes this long never ends.
const HANG: Duration = Duration::from_secs(60);
/// A write that took this long must have recorded why.
const SLOW: Duration = Duration::from_millis(20);
/// The most bytes of all files together: eight times the keys and values.
const SPACE_MAX: u64 = 24 << 20;

thread_local! {
    /// The sum of the recorded waits of this thread's writes, in microseconds.
    static WAITED: Cell<u64> = const { Cell::new(0) };
}

/// Calls that took long, and how much of that is explained.
#[derive(Debug, Default, Clone, Copy)]
struct Slow {
    calls: u64,
    took: Duration,
    explained: Duration,
}

impl Slow {
    fn note(&mut self, took: Duration, explained: Duration) {
        if took >= SLOW {
            self.calls += 1;
            self.took += took;
            self.explained += explained.min(took);
        }
        // Alone, that can hardly be what the machine did to the thread.
        let told = took < Duration::from_secs(1) || explained >= took / 2;
        assert!(told, "a write took {took:?}, of which {explained:?} are explained");
    }
}

struct Load {
    db: Db,
    begun: Instant,
    done: AtomicBool,
    /// The version of each key that was acknowledged last.
    acknowledged: Vec<AtomicU64>,
    /// The time since which each client is within a call, in microseconds; 0 if it is in none.
    within: Vec<AtomicU64>,
    slow: Mutex<Slow>,
    reads: AtomicU64,
}

fn key(n: u64) -> [u8; 8] {
    // All writers' keys lie among each other.
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(n: u64, version: u64) -> Vec<u8> {
    [&version.to_be_bytes()[..], &n.to_be_bytes(), &[7; 84]].concat()
}

/// The version within the value of key `n`.
fn version(n: u64, value: &[u8]) -> u64 {
    assert_eq!((value.len(), &value[8..16]), (100, &n.to_be_bytes()[..]), "of another key");
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

impl Load {
    /// Does a call of a client, which the main thread watches.
    fn call<R>(&self, client: u64, call: impl FnOnce() -> R) -> R {
        let within = &self.within[client as usize];
        within.store(self.begun.elapsed().as_micros() as u64 + 1, SeqCst);
        let result = call();
        within.store(0, SeqCst);
        result
    }

    /// Puts keys of a writer as one batch, with a new version.
    fn put(&self, client: u64, keys: &[u64], version: u64, durability: Durability) {
        let mut batch = Batch::new();
        let main = self.db.default_keyspace();
        keys.iter().for_each(|n| batch.put(&main, key(*n), value(*n, version)));
        let (before, begun) = (WAITED.get(), Instant::now());
        let options = WriteOptions::durability(durability);
        self.call(client, || self.db.write(&batch, options)).expect("no write fails");
        let waited = Duration::from_micros(WAITED.get() - before);
        self.slow.lock().unwrap().note(begun.elapsed(), waited);
        keys.iter().for_each(|n| self.acknowledged[*n as usize].store(version, SeqCst));
    }

    fn write(&self, client: u64) {
        let (mut state, own) = (client, |n: u64| (n % KEYS) * WRITERS + client);
        for round in 2_u64.. {
            if self.done.load(SeqCst) {
                return;
            }
            let n = random(&mut state);
            match (client, round % 500) {
                // More than 256 KB, so the WAL has it in fragments.
                (0, 0) => {
                    let keys: Vec<u64> = (n..n + 2_500).map(own).collect();
                    self.put(client, &keys, round, Durability::Buffered);
                }
                (1, 0..50) => self.put(client, &[own(n)], round, Durability::Sync),
                (2, _) => self.put(client, &[own(n)], round, Durability::Lazy),
                _ => self.put(client, &[own(n)], round, Durability::Buffered),
            }
        }
    }

    fn read(&self, client: u64) {
        let mut state = client;
        while !self.done.load(SeqCst) {
            let n = random(&mut state) % (KEYS * WRITERS);
            let least = self.acknowledged[n as usize].load(SeqCst);
            let found = self.call(client, || self.db.get(key(n))).unwrap().expect("it was written");
            assert!(version(n, &found) >= least, "an acknowledged write is not seen");
            let scan = || self.db.range(key(n)..).take(50).collect::<Result<Vec<_>, _>>();
            let pairs = self.call(client, scan).unwrap();
            assert!(pairs[0].0 == key(n)[..] && version(n, &pairs[0].1) >= least);
            assert!(pairs.is_sorted_by(|a, b| a.0 < b.0));
            self.reads.fetch_add(1, SeqCst);
            sleep(Duration::from_millis(1));
        }
    }

    /// No client is within one call for too long.
    fn watch(&self) {
        let now = self.begun.elapsed().as_micros() as u64;
        for within in &self.within {
            let since = within.load(SeqCst);
            let long = since > 0 && now.saturating_sub(since) > HANG.as_micros() as u64;
            assert!(!long, "a call does not end: {:#?}", self.db.stats());
        }
    }
}

/// Runs `act` on a thread of its own and fails if it takes longer than [`HANG`].
fn within_time<R: Send + 'static>(what: &str, act: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(act()));
    receive.recv_timeout(HANG).unwrap_or_else(|_| panic!("{what} does not end, or panicked"))
}

/// A disk of which one device writes all SSTs, call by call.
fn slow_disk() -> (SimFs, Arc<dyn Env>) {
    let disk = SimFs::new();
    let slow = FaultFs::new(Arc::new(disk.clone()));
    let device = Arc::new(Mutex::new(()));
    let wait = move || {
        let _turn = device.lock().unwrap();
        sleep(Duration::from_millis(5));
    };
    for op in [Op::Write, Op::Sync] {
        slow.add(Rule::once(op, ".sst", Fault::Delay(Arc::new(wait.clone()))).forever());
    }
    let wait = Fault::Delay(Arc::new(|| sleep(Duration::from_millis(1))));
    slow.add(Rule::once(Op::Sync, ".wal", wait).forever());
    (disk, RealEnv::with_fs(Arc::new(slow)))
}

/// The profile's numbers of runs, with all sizes small.
fn open(profile: &str, env: &Arc<dyn Env>) -> Db {
    let builder = Db::builder(FOLDER).env(env.clone()).profile(profile).unwrap();
    let builder = tiny(builder, ByteCount::kib(128)).configure(|options| {
        let policy = &mut options.policy;
        policy.tree.sst_max = ByteCount::kib(64);
        policy.tree.l1_bytes = ByteCount::kib(512);
        policy.tree.growth = 4;
        policy.tree.overflow = policy.tree.overflow.map(|_| ByteCount::mib(1));
        policy.tree.debt_soft = policy.tree.debt_soft.map(|_| ByteCount::mib(4));
        policy.tree.debt_hard = policy.tree.debt_hard.map(|_| ByteCount::mib(16));
        policy.admissions.slowdown_stop.delayed_write_rate = BytesPerSec(4 << 20);
        options.workers = 2;
        options.wal_file_bytes = ByteCount::kib(256);
        options.wal_limit = ByteCount::mib(4);
        options.memory_limit = ByteCount::mib(6);
    });
    let listener = |event: &Event| {
        if let Event::Waited { took, .. } = event {
            WAITED.set(WAITED.get() + took.0);
        }
    };
    builder.listener(listener).open().unwrap()
}

/// Checks the bounds that hold whatever is written: runs of L0, bytes of files, memory.
fn bounds(db: &Db, disk: &SimFs, peaks: &mut [u64; 3]) {
    let (stats, policy) = (db.stats(), &db.options().policy);
    let runs = stats.levels.first().map_or(0, |level| level.runs);
    let now = [runs, disk.used(), stats.memory.total().0];
    *peaks = std::array::from_fn(|i| peaks[i].max(now[i]));
    // Memtables that are full by then may still be flushed.
    let runs_max = policy.tree.l0_max.max(policy.tree.l0_stop) + policy.tree.memtable_count;
    assert!(runs <= runs_max as u64, "{runs} runs of L0: {:#?}", stats.levels);
    assert!(disk.used() <= SPACE_MAX, "{} of files: {stats:#?}", ByteCount(disk.used()));
    // The cache gives way to a large batch a moment after it is there, and a memtable that is being
    // sealed may be seen twice.
    let limit = stats.memory_limit + ByteCount::mib(1);
    assert!(stats.memory.total() <= limit, "{:#?}", stats.memory);
    assert!(stats.memory_peak <= limit, "{:#?}", stats.memory_peaks);
    assert_eq!((stats.read_only, stats.shortages), (None, 0));
}

/// Writers waited for most of the time, for what the device did not manage.
fn overloaded(stats: &Stats, elapsed: Duration) {
    let by = [
        WaitCause::MemtableFull,
        WaitCause::L0Bound,
        WaitCause::LevelDebt,
        WaitCause::MemoryBudget,
        WaitCause::Admission,
    ];
    let waits = stats.waits.iter().filter(|wait| by.contains(&wait.cause));
    let waited = Duration::from_micros(waits.map(|wait| wait.total.0).sum());
    assert!(waited > elapsed * WRITERS as u32 / 2, "no overload: {:?}", stats.waits);
}

fn overload(profile: &str) {
    let (disk, env) = slow_disk();
    let db = open(profile, &env);
    let load = Arc::new(Load {
        db,
        begun: Instant::now(),
        done: AtomicBool::new(false),
        acknowledged: (0..KEYS * WRITERS).map(|_| AtomicU64::new(1)).collect(),
        within: (0..=WRITERS).map(|_| AtomicU64::new(0)).collect(),
        slow: Mutex::default(),
        reads: AtomicU64::new(0),
    });
    let all: Vec<u64> = (0..KEYS * WRITERS).collect();
    all.chunks(100).for_each(|keys| load.put(0, keys, 1, Durability::Buffered));
    let seconds = std::env::var("OVERLOAD_SECONDS").map_or(4, |n| n.parse().expect("a number"));
    let (begun, mut peaks) = (Instant::now(), [0; 3]);
    let client = |client| {
        let load = load.clone();
        let work = if client < WRITERS { Load::write } else { Load::read };
        thread::spawn(move || work(&load, client))
    };
    let clients: Vec<_> = (0..=WRITERS).map(client).collect();
    while begun.elapsed() < Duration::from_secs(seconds) {
        bounds(&load.db, &disk, &mut peaks);
        load.watch();
        assert!(!clients.iter().any(|client| client.is_finished()), "a client panicked");
        sleep(Duration::from_millis(50));
    }
    overloaded(&load.db.stats(), begun.elapsed());
    load.done.store(true, SeqCst);
    while !clients.iter().all(|client| client.is_finished()) {
        load.watch();
        sleep(Duration::from_millis(10));
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    let slow = *load.slow.lock().unwrap();
    let [runs, space, memory] = [peaks[0], peaks[1] >> 10, peaks[2] >> 10];
    let stats = load.db.stats();
    println!("{profile}: {} writes, {} reads, {slow:?}", stats.writes, load.reads.load(SeqCst));
    println!("at most: {runs} runs, {space} KiB of files, {memory} KiB; {:?}", stats.waits);
    assert!(slow.calls > 0 && slow.explained > slow.took / 10 * 9, "{slow:?} {:?}", stats.waits);
    assert!(load.reads.load(SeqCst) >= seconds, "reads go on");
    bounds(&load.db, &disk, &mut peaks);
    drain(load, &disk, &env);
}

/// The load has stopped: the store comes to rest, and nothing is wrong with it.
fn drain(load: Arc<Load>, disk: &SimFs, env: &Arc<dyn Env>) {
    let db = load.db.clone();
    within_time("draining", move || db.wait_idle()).unwrap();
    let stats = load.db.stats();
    assert_eq!(stats.memory.sealed, ByteCount::ZERO, "nothing waits for a flush");
    let tree = &load.db.options().policy.tree;
    for level in &stats.levels {
        let excess = level.bytes.saturating_sub(level.target.unwrap_or(level.bytes));
        let most = tree.overflow.unwrap_or_default() + tree.sst_max;
        assert!(excess <= most, "L{} was not compacted: {:#?}", level.level, stats.levels);
    }
    let found = load.db.default_keyspace().multi_get((0..KEYS * WRITERS).map(key));
    for (n, found) in (0..).zip(found) {
        let last = load.acknowledged[n as usize].load(SeqCst);
        let found = found.unwrap();
        assert_eq!(found.as_deref(), Some(&value(n, last)[..]), "what was written last");
    }
    assert_eq!(load.db.iter().count() as u64, KEYS * WRITERS);
    let db = load.db.clone();
    drop(load);
    within_time("closing", move || db.close()).unwrap();
    let report = vlsm::verify_with(env, Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(!report.damaged && report.findings.is_empty(), "{report:#?}");
    assert!(disk.used() <= SPACE_MAX);
}

#[test]
fn vlsm_under_overload() {
    overload("vlsm");
}

#[test]
fn rocksdb_under_overload() {
    overload("rocksdb");
}
