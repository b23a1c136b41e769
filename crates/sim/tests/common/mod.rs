//! The parts that the tests share: seeds from the environment, runs on two cores, failures in
//! words.
#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vlsm::{
    Batch, CompactionFilter, Db, Decision, IngestOptions, KeyspaceOptions, Options, Snapshot,
    WriteOptions,
};
use vlsm_core::{Bytes, Error, Result as Answer};
use vlsm_sim::clients::{Story, Tally};
use vlsm_sim::closure;
use vlsm_sim::device::{Fault, Kind};
use vlsm_sim::disk::Disk;
use vlsm_sim::flip::{AtRest, Harm, Salvaged, kind};
use vlsm_sim::history::Promise;
use vlsm_sim::oracle::{ALL, Write};
use vlsm_sim::salvage::{Chain, Hurt, Salvages};
use vlsm_sim::world::{Mechanisms, World, pairs, tiny_options};
use vlsm_sim::{Rng, SimConfig, SimEnv};

/// The seeds to run: `A..B` or `A` in this environment variable.
pub fn seeds(variable: &str, default: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var(variable) else { return default };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

/// A number from the environment.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs all seeds on as many threads as there are cores; stops after a few failures. Returns what
/// each thread gathered, and the failures.
pub fn in_parallel<T: Default + Send, E: Send>(
    seeds: Range<u64>,
    run: impl Fn(u64, &mut T) -> Result<(), E> + Sync,
) -> (Vec<T>, Vec<E>) {
    let next = AtomicU64::new(seeds.start);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let work = |number| {
        stay_on(number);
        let mut gathered = T::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || failures.lock().expect("not poisoned").len() >= 5 {
                return gathered;
            }
            if let Err(why) = run(seed, &mut gathered) {
                failures.lock().expect("not poisoned").push(why);
            }
        }
    };
    let gathered = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    (gathered, failures.into_inner().expect("not poisoned"))
}

/// Keeps this thread, and those that it starts, on one processor. The tasks of a simulated life
/// take turns, so a second processor only makes each hand-over slower.
fn stay_on(number: usize) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor));
        if let Some(processor) = allowed.nth(number) {
            let mut one = CpuSet::new();
            one.set(processor);
            sched_setaffinity(None, &one).ok();
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = number;
}

/// Fails when there are failures.
pub fn none(failures: &[String]) {
    assert!(failures.is_empty(), "{} failures:\n\n{}", failures.len(), failures.join("\n\n"));
}

/// Prints the combinations of mechanisms that every store refuses, with the reasons.
pub fn say_refused() {
    for (mechanisms, why) in Mechanisms::refused() {
        println!("left out: {mechanisms}: {why}");
    }
}

/// Prints how often each event occurred, in one line that `cargo xtask long` adds up. The file
/// that the environment variable `COUNTS_FILE` names gets the line, too, with the test's name.
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
pub fn counts<Name: std::fmt::Display>(counts: impl IntoIterator<Item = (Name, u64)>) {
    let counts = counts.into_iter().map(|(name, count)| format!("{name}={count}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    println!("counts: {counts}");
    if let Some(path) = std::env::var_os("COUNTS_FILE") {
        let thread = std::thread::current();
        let line = format!("{}: {counts}\n", thread.name().unwrap_or("?"));
        let file = std::fs::File::options().append(true).create(true).open(path);
        file.expect("it can be opened").write_all(line.as_bytes()).expect("it takes a line");
    }
}

/// The counts of a tally of stories, by name, for [`counts`].
pub fn of_stories(tally: &Tally) -> Vec<(String, u64)> {
    let plain = [
        ("power cuts", tally.power_cuts),
        ("kills", tally.kills),
        ("closes", tally.closes),
        ("cuts while opening", tally.cut_while_opening),
        ("lives that file calls ended", tally.failures),
        ("operations", tally.batches),
        ("checks", tally.checks),
        ("lost batches", tally.lost),
        ("indeterminate batches", tally.indeterminate),
        ("refused", tally.refused),
        ("file operations", tally.calls),
    ];
    let plain = plain.into_iter().map(|(name, count)| (name.to_owned(), count));
    let faults = tally.faults.iter().map(|(class, count)| (format!("fault: {class}"), *count));
    let admin = tally.admin.iter().map(|(what, count)| (format!("admin: {what}"), *count));
    plain.chain(faults).chain(admin).collect()
}

/// Fails if an expected event never occurred.
pub fn all_fired(fired: &[(&str, u64)]) {
    for (what, count) in fired {
        assert!(*count > 0, "{what}: not once");
    }
}

/// A story of a store with shape `triad` that may keep all keys with several versions in memory.
pub fn hot_keys(seed: u64) -> Story {
    let triads: Vec<_> = Mechanisms::all().iter().filter(|all| all.shape == "triad").collect();
    let mechanisms = Some(*triads[seed as usize % triads.len()]);
    let tweak = |options: &mut Options| options.policy.shapes.triad.hot_keys = 1.0;
    Story { mechanisms, tweak, ..Story::new(seed) }
}

/// A story with readers beside the clients in every life, without faults: every answer counts.
pub fn followed(seed: u64) -> Story {
    Story { followed: true, faults: false, ..Story::new(seed) }
}

/// Several clients write few keys each, so fast that memtables are sealed while hot keys of an
/// older one are chosen. Each reads its own newest values all the time.
pub fn hot_keys_hide_nothing(seed: u64) -> Result<(), String> {
    let outcome = SimEnv::run(&SimConfig::new(seed), &Disk::new(), move |env| {
        let mut rng = Rng::new(seed);
        let mut options = tiny_options("triad", &mut rng);
        options.policy.shapes.triad.hot_keys = 1.0;
        options.policy.tree.memtable_bytes = Bytes::kib(32);
        options.policy.tree.memtable_count = 8;
        options.quantum = Bytes::kib(4);
        options.wal_file_bytes = Bytes::kib(256);
        options.wal_limit = Bytes::mib(64);
        options.memory_limit = options.least_memory() * 100;
        let db = Db::builder("/store").env(env.clone()).options(options).open();
        let db = db.map_err(|error| error.to_string())?;
        let mut tasks = Vec::new();
        for client in 0..4 {
            let (db, mut own) = (db.clone(), rng.fork(client));
            tasks.push(env.task("client", move || -> Result<(), String> {
                let mut values = BTreeMap::new();
                for n in 0..120_u64 {
                    let key = [client as u8, own.below(6) as u8];
                    let value = vec![n as u8; own.between(500, 3_000) as usize];
                    db.put(key, &value).map_err(|error| error.to_string())?;
                    values.insert(key, value);
                    for (key, value) in &values {
                        let found = db.get(key).map_err(|error| error.to_string())?;
                        if found.as_deref() != Some(&value[..]) {
                            return Err(format!("write {n}: key {key:?} shows another value"));
                        }
                    }
                }
                Ok(())
            }));
        }
        for task in tasks {
            task.join().ok_or("a client vanished")??;
        }
        let kept = db.stats().kept_keys;
        db.close().map_err(|error| error.to_string())?;
        Ok::<_, String>(kept)
    });
    match outcome.expect("ends") {
        Ok(0) => Err(format!("seed {seed}: no key stayed in memory")),
        Ok(_) => Ok(()),
        Err(why) => Err(format!("seed {seed}: {why}")),
    }
}

/// Removes most of the values that it is called for.
struct Removing;

impl CompactionFilter for Removing {
    fn name(&self) -> &str {
        "removing"
    }
    fn filter(&self, _: u8, _: &[u8], value: &[u8]) -> Decision {
        match value.first() {
            Some(0..80) => Decision::Remove,
            Some(80..160) => Decision::Change(b"changed".to_vec()),
            _ => Decision::Keep,
        }
    }
}

/// Checks that a snapshot shows the same for as long as it lives, while values expire, a filter
/// removes and changes others, and the clock is set forward and back.
pub fn snapshots_stay_as_they_are(seed: u64) -> Result<(), String> {
    let outcome = SimEnv::run(&SimConfig::new(seed), &Disk::new(), move |env| {
        let mut rng = Rng::new(seed);
        let options = Mechanisms::of(seed).options(&mut rng);
        let opened = Db::builder("/store").env(env.clone()).options(options);
        let opened = opened.compaction_filter("default", Arc::new(Removing)).open();
        let db = opened.map_err(|error| error.to_string())?;
        let plain = db.create_keyspace("plain", KeyspaceOptions::new());
        let plain = plain.map_err(|error| error.to_string())?;
        let (to_write, to_wait, brief) = (db.clone(), env.clone(), plain.clone());
        let mut own = rng.fork(1);
        let writer = env.task("writer", move || {
            let main = to_write.default_keyspace();
            (0..150_u64).try_for_each(|n| {
                let key = own.below(30).to_be_bytes();
                let value = [own.below(256) as u8; 300];
                match own.below(10) {
                    0 => to_write.flush()?,
                    1 => brief.compact_range(..)?,
                    2..5 => main.put(key, value)?,
                    _ => brief.put_with_ttl(key, value, micros(own.below(3_000)))?,
                }
                to_wait.sleep(micros(own.below(2) * n * 10));
                Ok::<_, vlsm::Error>(())
            })
        });
        let reader = |name: &str, mut own: Rng| {
            let (db, sleeping, plain) = (db.clone(), env.clone(), plain.clone());
            env.task(name, move || {
                let main = db.default_keyspace();
                let seen = |snapshot: &Snapshot| {
                    let all = pairs(snapshot.iter(&main).chain(snapshot.iter(&plain)));
                    all.map_err(|error| error.to_string())
                };
                let mut held = VecDeque::new();
                for _ in 0..200 {
                    let snapshot = db.snapshot();
                    held.push_back((seen(&snapshot)?, snapshot));
                    sleeping.sleep(micros(own.below(200)));
                    let full = held.len() > own.below(30) as usize;
                    let Some((first, snapshot)) = held.pop_front_if(|_| full) else { continue };
                    if first != seen(&snapshot)? {
                        return Err("a snapshot shows something else than before".to_owned());
                    }
                }
                Ok(())
            })
        };
        let (set, mut own) = (env.clone(), rng.fork(4));
        let clock = env.task("clock", move || {
            for _ in 0..2_000 {
                match own.one_in(3) {
                    true => set.set_clock_back(micros(own.below(200))),
                    false => set.set_clock_forward(micros(own.below(200))),
                }
                set.sleep(micros(own.below(20)));
            }
        });
        let readers = [reader("one", rng.fork(2)), reader("two", rng.fork(3))];
        let written = writer.join().ok_or("the writer vanished")?;
        clock.join().ok_or("the clock vanished")?;
        for reader in readers {
            reader.join().ok_or("a reader vanished")??;
        }
        written.and_then(|()| db.close()).map_err(|error| error.to_string())
    });
    outcome.expect("ends").map_err(|why| format!("seed {seed}: {why}"))
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Checks that the manifest refuses a change that it could not read back, that foreign files in the
/// folder do not affect numbers, and that a log damaged in two ways and a store with a damaged SST
/// are salvaged.
pub fn salvages() -> Result<(), String> {
    closure::what_is_appended_is_read()?;
    closure::strangers_give_no_numbers()?;
    let chain = Chain::new(false)?;
    let middle = chain.files.len() / 2;
    let hurts = [vec![(1, Hurt::Flip(5_000))], vec![(middle, Hurt::Flip(20))]];
    let mut counts = Salvages::default();
    hurts.iter().try_for_each(|hurts| chain.check(hurts, &mut counts))?;
    let store = AtRest::new("vlsm")?;
    let sst = store.files().into_keys().find(|path| kind(path) == "sst").ok_or("no SST")?;
    store.salvage(&[Harm::Flip(sst, 300, 1)], &mut Salvaged::default())
}

/// Batches over two regions of one keyspace, and a reader without a snapshot: it must see each
/// batch whole, although memtables are switched all the time.
pub fn regions_show_one_moment(seed: u64) -> Result<(), String> {
    let outcome = SimEnv::run(&SimConfig::new(seed), &Disk::new(), |env| {
        let mut options = tiny_options("vlsm", &mut Rng::new(5));
        options.policy.tree.memtable_bytes = Bytes::kib(4);
        let world = World::open(&env, &options).map_err(|error| error.to_string())?;
        let writer = world.clone();
        let task = env.task("writer", move || {
            (0..40_u64).try_for_each(|n| {
                // The memtable of one region fills up soon, that of the other never.
                let long = format!("{n}:{}", "v".repeat(1500));
                let writes = [Write::put(1, "a", long), Write::put(1, "z", format!("{n}:"))];
                writer.write(&writes, Promise::Process)
            })
        });
        for _ in 0..80 {
            let found = pairs(world.iter(1, &ALL)).map_err(|error| error.to_string())?;
            let keys = [b"a".to_vec(), b"z".to_vec()];
            let got = world.multi_get(1, &keys).map_err(|error| error.to_string())?;
            let number =
                |value: &Vec<u8>| value.split(|byte| *byte == b':').next().map(<[u8]>::to_vec);
            let same = |a: Option<&Vec<u8>>, b: Option<&Vec<u8>>| a.map(number) == b.map(number);
            let values: Vec<_> = found.iter().map(|pair| &pair.1).collect();
            if !same(values.first().copied(), values.get(1).copied())
                || !same(got[0].as_ref(), got[1].as_ref())
            {
                return Err("a batch is torn".to_owned());
            }
        }
        let written = task.join().ok_or("the writer vanished")?;
        written.and_then(|()| world.close()).map_err(|error| error.to_string())
    });
    outcome.expect("ends").map_err(|why| format!("seed {seed}: {why}"))
}

/// Keyspaces are created while copies are made, on a disk where the log is always behind. No copy
/// may have only a part of a batch over an old and a new keyspace.
pub fn copies_tear_no_batch(seed: u64) -> Result<(), String> {
    let mut config = SimConfig::new(seed);
    let behind =
        Fault { kind: Kind::Slow, name: Some("write"), suffix: ".wal", nth: 0, times: u64::MAX };
    config.device.faults.push(behind);
    let outcome = SimEnv::run(&config, &Disk::new(), |env| -> Answer<()> {
        let options = tiny_options("vlsm", &mut Rng::new(5));
        let world = World::open(&env, &options)?;
        let db = world.db().clone();
        // So many that a batch waits behind the one that is being written.
        let busy = ["k0", "k1", "k2"].map(|key| {
            let other = world.clone();
            env.task("client", move || {
                (0..30).try_for_each(|n: u64| {
                    other.write(&[Write::put(2, key, n.to_string())], Promise::Process)
                })
            })
        });
        let admin = env.task("administrator", move || -> Answer<()> {
            for n in 0..10 {
                let new = db.create_keyspace(&format!("new-{n}"), KeyspaceOptions::default())?;
                let mut batch = Batch::new();
                batch.put(&db.default_keyspace(), format!("{n}"), "old");
                batch.put(&new, "k", "new");
                db.write(&batch, WriteOptions::durability(vlsm::Durability::Lazy))?;
            }
            Ok(())
        });
        for n in 0..8 {
            let folder = format!("/copy-{n}");
            world.db().checkpoint(&folder)?;
            whole(&env, &options, &folder)?;
        }
        for task in busy.into_iter().chain([admin]) {
            task.join().expect("it ends")?;
        }
        world.close()
    });
    outcome.expect("ends").map_err(|why| format!("seed {seed}: {why}"))
}

/// A copy has both parts of a batch or none.
fn whole(env: &Arc<SimEnv>, options: &vlsm::Options, folder: &str) -> Answer<()> {
    let copy = Db::builder(folder).env(env.clone()).options(options.clone()).open()?;
    for n in 0..10 {
        let old = copy.get(format!("{n}"))?.is_some();
        let new = match copy.keyspace(&format!("new-{n}")) {
            Err(Error::NoSuchKeyspace(_)) => false,
            new => new?.get("k")?.is_some(),
        };
        if old != new {
            return Err(Error::Internal(format!("batch {n} is torn: {old}, {new}")));
        }
    }
    copy.close()
}

/// An ingest that was refused because the manifest had no room does not come back after a crash.
pub fn refused_ingests_stay_away(seed: u64) -> Result<(), String> {
    let disk = Disk::new();
    let options = tiny_options("vlsm", &mut Rng::new(5));
    let opened = options.clone();
    let mut config = SimConfig::new(seed);
    // These are writes of the first manifest, some time after the open.
    let (nth, times) = (5 + seed % 6, u64::MAX);
    let full = Fault { kind: Kind::NoSpace, name: Some("write"), suffix: "-000001", nth, times };
    config.device.faults.push(full);
    let refused = Arc::new(AtomicU64::new(0));
    let count = refused.clone();
    let outcome = SimEnv::run(&config, &disk, move |env| -> Answer<()> {
        let world = World::open(&env, &opened)?;
        for n in 0..8_u64 {
            let writes = [Write::put(0, format!("k{n}"), "value")];
            let brought = world.ingest(&env, &writes, 1, IngestOptions::default());
            if let Err(Error::NoSpace { .. }) = brought {
                count.store(n, Ordering::Relaxed);
                env.device().crash();
            }
            brought?;
        }
        world.close()
    });
    let vlsm_sim::End::Crashed = outcome.end else { return Ok(()) };
    disk.lose_process();
    let n = refused.load(Ordering::Relaxed);
    let outcome = SimEnv::run(&SimConfig::new(seed), &disk, move |env| -> Answer<bool> {
        let world = World::open(&env, &options)?;
        let there = world.get(0, format!("k{n}").as_bytes())?.is_some();
        world.close().map(|()| there)
    });
    match outcome.expect("ends") {
        Ok(false) => Ok(()),
        Ok(true) => Err(format!("seed {seed}: an ingest was refused and is there")),
        Err(error) => Err(format!("seed {seed}: {error}")),
    }
}
