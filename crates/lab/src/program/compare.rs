//! `vlsm-lab compare`: the same work on several stores in turn, A B A B …, and a report with the
//! stores beside each other. With one store it is a plain run.

use super::progress::Shown;
use super::{Result, duration, stop_flag, write_files};
use crate::campaign::{self, Going, Task, in_turn};
use crate::compare::{Comparison, PAIRS_MIN, Runs, csv, page};
use crate::files;
use crate::load::offered;
use crate::programs::Programs;
use crate::scale::Scale;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm::{ByteCount, Compression, Options, PolicyOptions};
use vlsm_cli::bench::work::{Work, positive, size};
use vlsm_cli::failure::{self, Failure};
use vlsm_measure::arrivals::{Arrivals, Replay};
use vlsm_measure::child::Answer;
use vlsm_measure::report::{Report, html, table};
use vlsm_measure::runner;
use vlsm_measure::spec::{Change, DataSpec, Limits, Offered, PhaseSpec, RunSpec, Step, StoreSpec};
use vlsm_measure::trace::Trace;
use vlsm_measure::workload::{Preset, Workload};

const EXAMPLES: &str = "\
Examples:
  vlsm-lab compare vlsm rocksdb                       a load, then YCSB A as fast as each can
  vlsm-lab compare vlsm rocksdb pebble --load max,50%,90%,95%
                                                      the maximum, then shares of each store's own
  vlsm-lab compare vlsm:rocksdb vlsm --load 100000    open loop at the same rate
  vlsm-lab compare vlsm --workload silk --load own    the workload's own bursts
  vlsm-lab compare vlsm:rocksdb vlsm:rocksdb/admission=open
                                                      a profile's sizes, another mechanism
  vlsm-lab compare rocksdb vlsm:rocksdb --workload readrandom,scan100 --empty-l0
  vlsm-lab compare vlsm rocksdb:default redb lmdb --shipped --workload c,a,e
                                                      as users find them
  vlsm-lab compare vlsm --load max,sustainable        the highest rate whose queue does not grow
  vlsm-lab compare vlsm rocksdb --device 200M         a slower device (cgroups, as root)
  vlsm-lab compare vlsm --trace recorded.trace        a recorded trace at its own times";

/// Options of `vlsm-lab compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Stores, as KIND or KIND:CONFIG. The others are compared to the first one. For vlsm, CONFIG
    /// is PROFILE or PROFILE/AXIS=MECHANISM/…, where AXIS is shape, schedule or admission
    #[arg(required = true, value_name = "STORE")]
    stores: Vec<String>,
    /// Workloads, one after the other (`vlsm-lab workloads` lists them). The first one sets the
    /// keys and values of the data
    #[arg(long, value_name = "LIST", default_value = "a", value_delimiter = ',')]
    workload: Vec<String>,
    /// Replay this recorded trace instead of a workload
    #[arg(long, value_name = "FILE", conflicts_with = "load")]
    trace: Option<PathBuf>,
    /// Load of each phase: max (closed loop), N (requests per second), pN (N per second, Poisson
    /// arrivals), N% (of the throughput at max), own (the arrivals of the workload), sustainable
    /// (the highest rate whose queue does not grow)
    #[arg(long, value_name = "LIST", default_value = "max", value_delimiter = ',')]
    load: Vec<String>,
    /// After the load open the stores again with an L0 trigger of one. A load leaves up to three
    /// runs in L0 by chance, and each of them costs every scan a read
    #[arg(long)]
    empty_l0: bool,
    /// Options shared with `vlsm bench`: the data, the clients, and how the store writes
    #[command(flatten)]
    work: Work,
    /// Seconds of each phase
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = positive)]
    seconds: f64,
    /// Rounds [default: 3; 1 for one store]
    #[arg(long, value_name = "N", value_parser = super::figure::rounds)]
    rounds: Option<usize>,
    /// Size of the block cache
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size)]
    cache: ByteCount,
    /// Number of regions that the keys are split into
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    regions: u16,
    /// Read and write through the page cache
    #[arg(long)]
    buffered_io: bool,
    /// Give each store its own defaults for memory and I/O, as users find it. It has no
    /// compression unless one is named, and the filters of its configuration here
    #[arg(long, conflicts_with_all = ["cache", "buffered_io"])]
    shipped: bool,
    /// Limit on bytes per second read from the device, and on those written to it, by cgroups (as
    /// root)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    device: Option<ByteCount>,
    /// Limit on the process's memory, including the page cache, by cgroups (as root)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<ByteCount>,
    /// Make everything smaller by this factor: full, or a share such as 1/16
    #[arg(long, default_value_t = Scale::FULL)]
    scale: Scale,
    /// Folder for the stores' data [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Folder for the report: index.html, reports as JSON, figures as CSV
    #[arg(long, value_name = "DIR", default_value = "lab-results/compare")]
    out: PathBuf,
}

/// Runs the stores and reports the results.
pub fn run(args: &Args) -> failure::Result {
    let programs = Programs::find()?;
    let specs: Vec<RunSpec> =
        args.stores.iter().map(|store| args.spec(store)).collect::<Result<_>>()?;
    for spec in &specs {
        programs.check(&spec.store)?;
        files::make_folder(&spec.dir())?;
        spec.check_space(&spec.dir())?;
    }
    // All stores have the same phases.
    let stop = stop_flag(true)?;
    specs.iter().take(1).try_for_each(|spec| runner::check_rates(spec, stop))?;
    let rounds = args.rounds.unwrap_or(if specs.len() == 1 { 1 } else { PAIRS_MIN });
    let task = |round: usize, spec: &RunSpec| Task {
        run: Arc::new(RunSpec { seed: spec.seed + round as u64 - 1, ..spec.clone() }),
        round,
    };
    let tasks: Vec<Task> =
        (1..=rounds).flat_map(|round| specs.iter().map(move |spec| task(round, spec))).collect();
    eprintln!("{} runs, about {}", tasks.len(), duration(campaign::seconds(&tasks)));
    let mut all: Vec<Runs> =
        args.stores.iter().map(|name| Runs { name: name.clone(), ..Runs::default() }).collect();
    let mut failures = Vec::new();
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let mut shown = Shown::new();
    let tell = &mut |going: Going<'_>| shown.show(&going);
    let done = in_turn(&programs, &tasks, stop, tell, &mut |number, answer| {
        let runs = &mut all[number % specs.len()];
        let named = |why| format!("{}: {why}", runs.name);
        let Answer { mut report, failure, .. } = answer.map_err(named)?;
        failures.extend(failure.map(named));
        report.method.command.clone_from(&command);
        runs.reports.push(report);
        Ok(())
    });
    shown.finish();
    failures.extend(done.err());
    let published = publish(&args.out, &all);
    if failures.is_empty() { published } else { Err(Failure::new(failures.join("\n"))) }
}

impl Args {
    /// The specification of one store's run.
    fn spec(&self, name: &str) -> Result<RunSpec> {
        let presets: Vec<Preset> = (self.workload.iter())
            .map(|name| Preset::named(name.trim()).map_err(|error| error.to_string()))
            .collect::<Result<_>>()?;
        let shape = self.work.shape(presets.first().ok_or("--workload: name one")?.shape)?;
        let (kind, config) = StoreSpec::parts(name);
        let profile = if kind == "vlsm" { config } else { "rocksdb" };
        let mut options = Options::default();
        options.set_profile(profile).map_err(|e| e.to_string())?;
        if let Some(bytes) = self.work.memtable {
            sized(&mut options.policy, bytes);
        }
        options.compression = vec![Compression::None];
        self.work.apply(&mut options);
        if !self.shipped {
            options.direct_io = !self.buffered_io;
            options.direct_reads = !self.buffered_io;
        }
        options.error_if_exists = true;
        let store = StoreSpec {
            kind: kind.to_owned(),
            config: config.to_owned(),
            options,
            cache: self.cache.0,
            regions: usize::from(self.regions),
        };
        let pairs = self.scale.count(self.work.pairs);
        let store = self.scale.store(store);
        Ok(RunSpec {
            store: if self.shipped { shipped(store) } else { store.with_memory_for(pairs) },
            data: DataSpec { pairs, shape },
            load: None,
            steps: self.steps(pairs, &presets)?,
            threads: self.work.threads(),
            limits: Limits {
                device: self.device.map(|bytes| bytes.0),
                memory: self.memory.map(|bytes| bytes.0),
            },
            seed: self.work.seed,
            dir: self.dir.clone(),
        })
    }

    fn steps(&self, pairs: u64, presets: &[Preset]) -> Result<Vec<Step>> {
        let phase = |name: &str, workload, offered, ops, seconds| {
            let name = name.to_owned();
            Step::Phase(PhaseSpec { name, workload, offered, ops, seconds, interval: 1.0 })
        };
        let load = Preset::named("load").expect("it is known").workload;
        let closed = Offered::As(Arrivals::Closed);
        let mut steps = vec![phase("load", load, closed, Some(pairs), None), Step::Settle(600.0)];
        if let Some(path) = &self.trace {
            // Refuse a file that is no trace before loading anything.
            let trace = Trace::open(path).map_err(|error| error.to_string())?;
            let replay = Arrivals::Replay(Replay { path: path.clone(), speed: 1.0 });
            let ops = Some(trace.len() as u64);
            steps.push(phase("trace", Workload::trace(), Offered::As(replay), ops, None));
            return Ok(steps);
        }
        if self.empty_l0 {
            let change = Change { l0_trigger: Some(1), ..Change::default() };
            steps.push(Step::Reopen(change, 600.0));
        }
        for preset in presets {
            for (place, word) in self.load.iter().enumerate() {
                let share = word.trim().ends_with('%') || word.trim() == "sustainable";
                if share && !self.load[..place].iter().any(|before| before.trim() == "max") {
                    return Err(format!("--load {word} is a share of max: put max before it"));
                }
                let offered = offered(word.trim(), preset.arrivals.as_ref(), self.scale);
                let offered = offered.map_err(|why| format!("--{why}"))?;
                let name = match presets.len() {
                    1 => word.clone(),
                    _ => format!("{} {word}", preset.name),
                };
                let workload = preset.workload.clone();
                steps.push(phase(&name, workload, offered, None, Some(self.seconds)));
                steps.push(Step::Settle(600.0));
            }
        }
        Ok(steps)
    }
}

/// The store with its default memory (RocksDB 11, Pebble 2, fjall 3, redb), and with buffered I/O,
/// which is the default of the other stores. Our engine keeps its default options.
fn shipped(mut store: StoreSpec) -> StoreSpec {
    if store.kind == "vlsm" {
        return store;
    }
    let tree = &mut store.options.policy.tree;
    store.cache = match store.kind.as_str() {
        "rocksdb" | "fjall" => 32 << 20,
        "pebble" => {
            tree.memtable_bytes = ByteCount::mib(4);
            8 << 20
        }
        // In redb one cache has the memory of cache and memtables.
        "redb" => (1_u64 << 30).saturating_sub(tree.memtable_bytes.0 * tree.memtable_count as u64),
        _ => store.cache,
    };
    (store.options.direct_io, store.options.direct_reads) = (false, false);
    store
}

/// Sets the size of memtables. Smaller ones shrink the tree, too, as in the reference runs: an L1
/// of 256 MB goes with memtables of 64 MB, and one of 64 MB with memtables of 8 MB.
fn sized(policy: &mut PolicyOptions, memtable: ByteCount) {
    if memtable < policy.tree.memtable_bytes {
        policy.tree.l1_bytes = policy.tree.l1_bytes.min(ByteCount::mib(64));
        policy.tree.sst_max = policy.tree.sst_max.min(memtable);
        policy.shapes.vlsm.sst_min = policy.shapes.vlsm.sst_min.min(memtable);
    }
    policy.tree.memtable_bytes = memtable;
}

/// Writes the report as a page, as JSON and as CSV, and prints it.
fn publish(out: &Path, all: &[Runs]) -> failure::Result {
    let reports: Vec<Report> = all.iter().flat_map(|runs| runs.reports.clone()).collect();
    if reports.is_empty() {
        return Err(Failure::new(runner::NOTHING_MEASURED));
    }
    let compared = (all.len() > 1).then(|| Comparison::new(all));
    let title = all.iter().map(|runs| runs.name.as_str()).collect::<Vec<_>>().join(", ");
    let index = match &compared {
        Some(_) => page::render(all, &title),
        None => html::page(&reports, &title),
    };
    let json = serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?;
    let files = [
        ("index.html", index),
        ("reports.json", json),
        ("summary.csv", csv::summary(&reports)),
        ("series.csv", csv::series(&reports)),
    ];
    write_files(out, &files.map(|(name, content)| (name.to_owned(), content)))?;
    // The report is printed last, so that the files exist even if standard output is closed.
    let text = match &compared {
        Some(comparison) => comparison.text(),
        None => table::render(&reports[0]),
    };
    writeln!(io::stdout(), "{text}report: {}", out.join("index.html").display())?;
    Ok(())
}
