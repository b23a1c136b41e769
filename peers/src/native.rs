//! The cost of the laboratory's driver for a store: the same inserts by the driver's closed loop
//! and by a native loop, which has nothing in it but the store's own calls.
//!
//! 1. Both insert the same keys in the same order, with as many threads, into a fresh store of the
//!    same setup. For the native loop all keys are made beforehand, it has one value, and it
//!    neither reads the clock nor counts. The driver makes keys and values, reads the clock twice
//!    for each operation, and counts latencies.
//! 2. They alternate, and the first of the two changes from round to round. The result is the
//!    median of the ratios pair by pair, driver ÷ native, with their range.
//! 3. The results are in [`FOUND`], and every report of the store has them. Below one the driver
//!    makes the store look slower than it is. The ratio is that of a closed loop, in which the
//!    driver's cost counts in full. In an open loop below the maximum it costs processor time and
//!    no throughput.
//!
//! RocksDB's own `db_bench` is not part of its crate, so a loop over the crate's `put` stands for
//! it, as for fjall, redb and LMDB. Pebble is written in Go and has its own benchmark there
//! (README.md).

use crate::stores::{KINDS, Regions};
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vlsm_core::Bytes;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::clock::Clock;
use vlsm_measure::driver::{self, Phase};
use vlsm_measure::process::Machine;
use vlsm_measure::spec::StoreSpec;
use vlsm_measure::workload::data::Data;
use vlsm_measure::workload::{Records, Workload};

/// The driver's rate ÷ the rate of a native loop, as `peers native` measured it.
pub struct Found {
    /// The kind of the store.
    pub kind: &'static str,
    /// The median of the ratios pair by pair.
    pub ratio: f64,
    /// The least and the largest of them.
    pub range: (f64, f64),
    /// The number of pairs.
    pub pairs: u64,
    /// The commit, and its date.
    pub commit: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// The results with other numbers of threads, where they differ; may be empty.
    pub note: &'static str,
}

/// The machine of the results.
const MACHINE: &str = "2 × Intel(R) Xeon(R) Processor, linux 6.18.44";

/// The results so far, with two threads. `peers native` prints these rows.
pub const FOUND: &[Found] = &[
    Found {
        kind: "rocksdb",
        ratio: 0.769,
        range: (0.756, 0.834),
        pairs: 6,
        commit: "5df96ff of 2026-11-24",
        machine: MACHINE,
        note: "one thread 0.95 (0.92 – 0.98), four 0.96 (0.91 – 1.01): two writers without a \
               pause always form groups of two",
    },
    Found {
        kind: "fjall",
        ratio: 0.936,
        range: (0.874, 1.035),
        pairs: 6,
        commit: "5df96ff of 2026-11-24",
        machine: MACHINE,
        note: "",
    },
    Found {
        kind: "lmdb",
        ratio: 0.935,
        range: (0.911, 0.960),
        pairs: 6,
        commit: "5df96ff of 2026-11-24",
        machine: MACHINE,
        note: "",
    },
    Found {
        kind: "wiredtiger",
        ratio: 0.978,
        range: (0.949, 1.060),
        pairs: 6,
        commit: "5df96ff of 2026-11-24",
        machine: MACHINE,
        note: "",
    },
    Found {
        kind: "redb",
        ratio: 0.948,
        range: (0.933, 0.989),
        pairs: 6,
        commit: "5df96ff of 2026-11-24",
        machine: MACHINE,
        note: "",
    },
    // By `go test -bench` in peers/pebble, the loop six times and then the driver.
    Found {
        kind: "pebble",
        ratio: 0.807,
        range: (0.673, 1.085),
        pairs: 6,
        commit: "15401b4 of 2026-11-29",
        machine: "2 × AMD EPYC, linux 6.18.44",
        note: "not in turn; with memtables of 8 MB 0.98 (0.78 – 1.14)",
    },
];

/// Describes the driver's rate compared with a native loop over this store, for reports.
pub fn found(kind: &str) -> String {
    match FOUND.iter().find(|found| found.kind == kind) {
        Some(found) => text(found),
        None => "not compared with a native loop yet".into(),
    }
}

fn text(found: &Found) -> String {
    let Found { ratio, range: (least, largest), pairs, commit, machine, note, .. } = found;
    let note = if note.is_empty() { String::new() } else { format!("; {note}") };
    format!(
        "{ratio:.2} of the native loop's rate ({least:.2} – {largest:.2}, {pairs} pairs{note}, \
         {commit}, {machine})"
    )
}

/// Options of `peers native`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Stores, as KIND or KIND:CONFIG [default: all that this build has and that are not in Go]
    #[arg(value_name = "STORE")]
    stores: Vec<String>,
    /// Pairs to insert in each run
    #[arg(long, default_value_t = 2_000_000, value_parser = from_one(u64::MAX))]
    pairs: u64,
    /// Threads
    #[arg(long, default_value_t = 2, value_parser = from_one(64))]
    threads: u64,
    /// Rounds: pairs of runs
    #[arg(long, default_value_t = 6, value_parser = from_one(1000))]
    rounds: u64,
    /// Size of a memtable in MB
    #[arg(long, default_value_t = 64, value_parser = from_one(4096))]
    memtable: u64,
    /// Folder for the stores' data [default: the system's for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Reads a number from one to this one.
fn from_one(most: u64) -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Measures the stores and prints what was found, as lines for people and as rows of [`FOUND`].
///
/// # Errors
/// When a store is not known, not in this build or in Go, or fails.
pub fn run(args: &Args) -> Result<(), String> {
    let here = KINDS.iter().filter(|kind| (kind.version)().is_ok() && kind.name != "pebble");
    let stores = match args.stores.is_empty() {
        true => here.map(|kind| kind.name.to_owned()).collect(),
        false => args.stores.clone(),
    };
    if stores.iter().any(|store| StoreSpec::parts(store).0 == "pebble") {
        return Err("Pebble's native loop is in Go: `go test -bench` in peers/pebble has it".into());
    }
    let rows: Result<Vec<String>, String> = stores.iter().map(|store| one(args, store)).collect();
    println!("\nRows for FOUND in peers/src/native.rs:\n\n{}", rows?.join("\n"));
    Ok(())
}

/// Measures one store. Returns its row.
fn one(args: &Args, store: &str) -> Result<String, String> {
    let spec = spec(args, store)?;
    let keys = Keys::new(args);
    let mut ratios = Vec::new();
    for round in 0..args.rounds {
        let native = || native(args, &spec, &keys);
        let (native, driven) = match round % 2 {
            0 => (native()?, driven(args, &spec)?),
            _ => {
                let driven = driven(args, &spec)?;
                (native()?, driven)
            }
        };
        let ratio = driven / native;
        println!("{store}: native {native:.0}/s, driver {driven:.0}/s, {ratio:.3}");
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, largest) = (ratios[0], ratios[ratios.len() - 1]);
    let median = f64::midpoint(ratios[(ratios.len() - 1) / 2], ratios[ratios.len() / 2]);
    let Machine { cores, cpu, system, .. } = Machine::this();
    let (kind, commit, pairs) = (&spec.kind, commit(), ratios.len());
    Ok(format!(
        "    Found {{ kind: {kind:?}, ratio: {median:.3}, range: ({least:.3}, {largest:.3}), \
         pairs: {pairs}, commit: {commit:?}, machine: {:?}, note: \"\" }},",
        format!("{cores} × {cpu}, {system}"),
    ))
}

/// The store's setup: the sizes of RocksDB's reference, without limits of its debt.
fn spec(args: &Args, store: &str) -> Result<StoreSpec, String> {
    let (kind, config) = StoreSpec::parts(store);
    let mut options = vlsm::Options::default();
    options.compression = vec![vlsm::Compression::None];
    options.policy = vlsm_policy::profile::profile("rocksdb").map_err(|error| error.to_string())?;
    options.policy.tree.memtable_bytes = Bytes::mib(args.memtable);
    let (kind, config) = (kind.to_owned(), config.to_owned());
    Ok(StoreSpec { kind, config, options, cache: 64 << 20, regions: 1 })
}

/// Keys of all threads, each thread's one behind another, and the value.
struct Keys {
    size: usize,
    threads: Vec<Vec<u8>>,
    value: Vec<u8>,
}

impl Keys {
    fn new(args: &Args) -> Self {
        let data = Data::new(24, 176, 1);
        let keys = |thread: u64| {
            let (mut keys, mut key) = (Vec::new(), Vec::new());
            // Threads take records in turns, as the driver's clients do.
            for record in (thread..args.pairs).step_by(args.threads as usize) {
                data.key(record, &mut key);
                keys.extend_from_slice(&key);
            }
            keys
        };
        let threads = (0..args.threads).map(keys).collect();
        Self { size: 24, threads, value: data.value(0).to_vec() }
    }
}

/// A folder, and a fresh store in it. Values are dropped in the opposite order, so the store is
/// closed before its folder is removed.
fn fresh(args: &Args, spec: &StoreSpec) -> Result<(tempfile::TempDir, Regions), String> {
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("vlsm-native-").tempdir_in(&dir);
    let folder = folder.map_err(|error| format!("{}: {error}", dir.display()))?;
    let store =
        Regions::open(spec, Vec::new(), folder.path()).map_err(|error| error.to_string())?;
    Ok((folder, store))
}

/// Inserts per second of the native loop.
fn native(args: &Args, spec: &StoreSpec, keys: &Keys) -> Result<f64, String> {
    let (_folder, store) = fresh(args, spec)?;
    let instance = store.only().expect("one region is one instance");
    let clock = Clock::start();
    let done: Result<(), String> = std::thread::scope(|scope| {
        let threads: Vec<_> = keys
            .threads
            .iter()
            .map(|own| scope.spawn(|| instance.put_all(own, keys.size, &keys.value)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().expect("it does not panic").map_err(|error| error.to_string())
        })
    });
    let seconds = clock.now() as f64 / 1e9;
    done.map(|()| args.pairs as f64 / seconds)
}

/// Inserts per second of the laboratory's driver.
fn driven(args: &Args, spec: &StoreSpec) -> Result<f64, String> {
    let (_folder, store) = fresh(args, spec)?;
    let phase = Phase {
        workload: Workload::named("load").map_err(|error| error.to_string())?,
        arrivals: Arrivals::Closed,
        threads: args.threads as usize,
        ops: Some(args.pairs),
        seconds: None,
        seed: 1,
        interval: 1.0,
    };
    let (data, records) = (Data::new(24, 176, 1), Arc::new(Records::new(0)));
    let stop = AtomicBool::new(false);
    let outcome = driver::run(&store, &data, &records, &phase, &stop, &mut |_| ());
    match outcome.error {
        Some(error) => Err(error.to_string()),
        None => Ok(outcome.latencies.count() as f64 / outcome.seconds.max(1e-9)),
    }
}

/// The commit of the working copy and its date, as far as `git` knows them.
fn commit() -> String {
    let output = Command::new("git").args(["log", "-1", "--format=%h of %cs"]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    match String::from_utf8_lossy(&text).trim() {
        "" => "unknown".into(),
        commit => commit.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        Args { stores: vec![], pairs: 3_001, threads: 2, rounds: 1, memtable: 1, dir: None }
    }

    #[test]
    fn both_loops_insert_every_pair() {
        let (args, keys) = (args(), Keys::new(&args()));
        let count: usize = keys.threads.iter().map(|own| own.len() / keys.size).sum();
        assert_eq!(count, 3_001);
        let spec = spec(&args, "fjall").unwrap();
        let (_folder, store) = fresh(&args, &spec).unwrap();
        for own in &keys.threads {
            store.only().unwrap().put_all(own, keys.size, &keys.value).unwrap();
        }
        assert_eq!(store.visit(&[], 10_000, None).unwrap(), 3_001);
        assert!(native(&args, &spec, &keys).unwrap() > 0.0);
        assert!(driven(&args, &spec).unwrap() > 0.0);
    }

    #[test]
    fn what_was_found_is_told_and_what_was_not_is_said() {
        assert_eq!(found("no such store"), "not compared with a native loop yet");
        let found = Found {
            kind: "fjall",
            ratio: 0.917,
            range: (0.9, 0.951),
            pairs: 6,
            commit: "abc of 2026-11-24",
            machine: "2 cores",
            note: "one thread 0.99",
        };
        let told = "0.92 of the native loop's rate (0.90 – 0.95, 6 pairs; one thread 0.99, abc of \
             2026-11-24, 2 cores)";
        assert_eq!(text(&found), told);
        for found in FOUND {
            assert!(KINDS.iter().any(|kind| kind.name == found.kind), "{}", found.kind);
            assert!(found.range.0 <= found.ratio && found.ratio <= found.range.1);
        }
    }

    #[test]
    fn pebble_is_sent_to_its_own_benchmark() {
        let why = run(&Args { stores: vec!["pebble:sized".into()], ..args() }).unwrap_err();
        assert!(why.contains("in Go"), "{why}");
    }
}
