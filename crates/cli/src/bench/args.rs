//! The options of `vlsm bench`, checked and turned into a plan, and the folder in which it works.
//!
//! No data is written before all options and the free space of the device are checked.

use super::work::{Work, count, percent, positive, size};
use crate::store::read_options;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vlsm::{Options, PROFILES, Profile};
use vlsm_core::Bytes;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::{DataSpec, Limits, Offered, PhaseSpec, RunSpec, Step, StoreSpec};
use vlsm_measure::workload::Workload;
use vlsm_measure::workload::data::Shape;

const EXAMPLES: &str = "\
Examples:
  vlsm bench                                   load 4 M pairs, then YCSB A for 25 s: about a minute
  vlsm bench --profile rocksdb                 the same with another profile
  vlsm bench --profile rocksdb --admission open
                                               the profile's sizes with another admission
  vlsm bench --options my.toml                 the same with options of your own
  vlsm bench --rate 100000                     open loop: latency from each request's due time
  vlsm bench --pairs 20M --workload load       the load only
  vlsm bench --workload a,b,e --seconds 60     several runs on one store
  vlsm bench --path /mnt/disk/bench --json report.json --html report.html

The store is created in the default folder for temporary files ($TMPDIR) and removed afterwards,
unless --path or --keep is given. Ctrl-C ends the run and prints its report.";

/// The end of the help: each profile with its description, then examples.
fn after_help() -> String {
    let width = PROFILES.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    let line = |profile: &Profile| format!("  {:width$}  {}\n", profile.name, profile.what());
    let profiles: String = PROFILES.iter().map(line).collect();
    format!("Profiles:\n{profiles}\n{EXAMPLES}")
}

/// Options of `bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Profile of the store: shape, schedule, admission and sizes
    #[arg(long, value_name = "NAME", default_value = "steady")]
    pub profile: String,
    /// File of options of the store, in place of a profile (docs/mechanisms.md, "Profiles")
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub options: Option<PathBuf>,
    /// Shape (what to merge) instead of the profile's, with the profile's sizes
    #[arg(long, value_name = "NAME")]
    pub shape: Option<String>,
    /// Schedule (when to merge) instead of the profile's
    #[arg(long, value_name = "NAME")]
    pub schedule: Option<String>,
    /// Admission (how fast writes are let in) instead of the profile's
    #[arg(long, value_name = "NAME")]
    pub admission: Option<String>,
    /// Runs after the load, separated by commas: YCSB's letters a to f, names of db_bench, silk,
    /// dlc; or `load` for none
    #[arg(long, value_name = "LIST", default_value = "a")]
    pub workload: String,
    /// Options shared with `vlsm-lab compare`: the data, the clients, and how the store writes
    #[command(flatten)]
    pub work: Work,
    /// Limit on the operations of each run
    #[arg(long, value_name = "N", value_parser = count)]
    pub ops: Option<u64>,
    /// Limit on the seconds of each run [default: 25, unless --ops is given]
    #[arg(long, value_name = "S", value_parser = positive)]
    pub seconds: Option<f64>,
    /// Requests per second of each run (open loop) [default: closed loop]
    #[arg(long, value_name = "N", value_parser = count)]
    pub rate: Option<u64>,
    /// Inserts per second of the load (open loop) [default: closed loop]
    #[arg(long, value_name = "N", value_parser = count)]
    pub load_rate: Option<u64>,
    /// Share of point reads in each run, in percent [default: the workload's]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub reads: Option<f64>,
    /// Limit on memtables, including the active one [default: the profile's]
    #[arg(long, value_name = "N")]
    pub memtables: Option<usize>,
    /// Memory for memtables, indexes, filters, the block cache and jobs' buffers together [default:
    /// a sixteenth of the machine's, at most 256M, or more if the profile's memtables need it]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<Bytes>,
    /// Worker threads for flushes and compactions [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Read and write SSTs with direct I/O [default: through the page cache]
    #[arg(long)]
    pub direct_io: bool,
    /// Folder for the store, new or empty; it is kept
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Keep the temporary store
    #[arg(long)]
    pub keep: bool,
    /// Also write the report as JSON; `-` writes it to stdout instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the report as a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// The longest wait for background work, after the load and at the end, in seconds.
const SETTLE_MAX: f64 = 60.0;

impl Args {
    /// Checks the options that clap cannot check, and makes the plan.
    pub fn spec(&self) -> Result<RunSpec, String> {
        let shape = self.work.shape(Shape::default())?;
        let phase = |workload: Workload, rate: Option<u64>, ops, seconds| {
            let arrivals = rate.map_or(Arrivals::Closed, |rate| Arrivals::Open(rate as f64));
            Step::Phase(PhaseSpec {
                name: workload.name.clone(),
                workload,
                offered: Offered::As(arrivals),
                ops,
                seconds,
                interval: 1.0,
            })
        };
        let named =
            |name: &str| Workload::named(name).map_err(|error| format!("--workload: {error}"));
        let mut steps = vec![phase(named("load")?, self.load_rate, Some(self.work.pairs), None)];
        let names = self.workload.split(',').map(str::trim);
        for name in names.filter(|&name| name != "load") {
            let workload = named(&name.to_lowercase())?;
            let workload = match self.reads {
                Some(reads) => workload.with_reads(reads),
                None => workload,
            };
            if steps.len() == 1 {
                steps.push(Step::Settle(SETTLE_MAX));
            }
            let seconds = self.seconds.or(if self.ops.is_none() { Some(25.0) } else { None });
            steps.push(phase(workload, self.rate, self.ops, seconds));
        }
        steps.push(Step::Settle(SETTLE_MAX));
        Ok(RunSpec {
            store: StoreSpec {
                kind: "vlsm".into(),
                config: self.config(),
                options: self.options()?,
                cache: 0,
                regions: 1,
            },
            data: DataSpec { pairs: self.work.pairs, shape },
            load: None,
            steps,
            threads: self.work.threads(),
            limits: Limits::default(),
            seed: self.work.seed,
            dir: None,
        })
    }

    /// The profile or file of options, with the mechanisms that replace its own.
    fn config(&self) -> String {
        let axes =
            [("shape", &self.shape), ("schedule", &self.schedule), ("admission", &self.admission)];
        let file = self.options.as_ref().and_then(|path| path.file_stem());
        let base = file.map_or(self.profile.clone(), |name| name.to_string_lossy().into_owned());
        axes.into_iter().fold(base, |config, (axis, mechanism)| match mechanism {
            Some(mechanism) => format!("{config}/{axis}={mechanism}"),
            None => config,
        })
    }

    /// The options of the store.
    fn options(&self) -> Result<Options, String> {
        let mut options = match &self.options {
            Some(path) => read_options(path)?,
            None => {
                let mut options = Options::default();
                options.set_profile(&self.profile).map_err(|error| error.to_string())?;
                options
            }
        };
        let policy = &mut options.policy;
        for (name, said) in [
            (&mut policy.shape, &self.shape),
            (&mut policy.schedule, &self.schedule),
            (&mut policy.admission, &self.admission),
        ] {
            if let Some(said) = said {
                name.clone_from(said);
            }
        }
        if let Some(bytes) = self.work.memtable {
            options.policy.tree.memtable_bytes = bytes;
        }
        if let Some(count) = self.memtables {
            options.policy.tree.memtable_count = count;
        }
        self.work.apply(&mut options);
        options.memory_limit = self.memory_limit.unwrap_or(options.memory_limit);
        options.wal_limit = options.wal_limit.max(options.least_wal());
        options.workers = self.workers.unwrap_or(options.workers);
        options.direct_io |= self.direct_io;
        options.direct_reads |= self.direct_io;
        options.error_if_exists = true;
        options.check().map_err(|error| error.to_string())?;
        Ok(options)
    }
}

/// The folder of the store.
pub enum Folder {
    /// Removed afterwards.
    Temporary(TempDir),
    /// Kept.
    Kept(PathBuf),
}

impl Folder {
    /// Finds or creates the folder and checks that it is empty and has enough space.
    pub fn prepare(args: &Args, spec: &RunSpec) -> Result<Self, String> {
        let Some(path) = &args.path else {
            let made = tempfile::Builder::new().prefix("vlsm-bench-").tempdir();
            let folder = made.map_err(|error| {
                let temp = std::env::temp_dir();
                format!("cannot make a folder in {}: {error}; use --path", temp.display())
            })?;
            space(spec, folder.path())?;
            let kept = args.keep;
            return Ok(if kept { Self::Kept(folder.keep()) } else { Self::Temporary(folder) });
        };
        let named = |error: std::io::Error| format!("--path {}: {error}", path.display());
        match std::fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Ok(false) => {
                let why = "the folder is not empty: choose an empty or a new one";
                return Err(named(std::io::Error::other(why)));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                std::fs::create_dir_all(path).map_err(named)?;
            }
            Err(error) => return Err(named(error)),
        }
        space(spec, path)?;
        Ok(Self::Kept(path.clone()))
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept(path) => path,
        }
    }

    /// The folder, if it will be removed afterwards.
    pub fn temporary(&self) -> Option<&Path> {
        matches!(self, Self::Temporary(_)).then(|| self.path())
    }

    /// Describes where the data is, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Temporary(folder) => {
                format!("{}, removed (--keep or --path keeps it)", folder.path().display())
            }
            Self::Kept(path) => format!("kept in {}", path.display()),
        }
    }

    /// Removes the folder, or keeps it.
    pub fn finish(self) -> Result<(), String> {
        match self {
            Self::Kept(_) => Ok(()),
            Self::Temporary(folder) => {
                let path = folder.path().to_owned();
                folder.close().map_err(|error| format!("cannot remove {}: {error}", path.display()))
            }
        }
    }
}

/// Refuses a folder whose device has too little room.
fn space(spec: &RunSpec, folder: &Path) -> Result<(), String> {
    spec.check_space(folder).map_err(|why| format!("{why} (--path, --pairs)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use vlsm::Durability;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn spec(args: &[&str]) -> Result<RunSpec, String> {
        Cli::try_parse_from([&["bench"], args].concat())
            .map_err(|error| error.to_string())?
            .args
            .spec()
    }

    fn phases(spec: &RunSpec) -> Vec<&PhaseSpec> {
        spec.steps
            .iter()
            .filter_map(|step| match step {
                Step::Phase(phase) => Some(phase),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn without_options_it_loads_and_runs_a() {
        let spec = spec(&[]).unwrap();
        let [load, run] = phases(&spec)[..] else { panic!("a load and a run") };
        assert_eq!(load.ops, Some(4_000_000));
        assert_eq!(run.workload, Workload::named("a").unwrap());
        assert_eq!(run.seconds, Some(25.0));
        assert_eq!(spec.steps.len(), 4, "background work ends after both");
    }

    #[test]
    fn options_are_understood() {
        let spec = spec(&[
            "--workload=a,E",
            "--pairs=20k",
            "--rate=1M",
            "--reads=30%",
            "--memtable=4MB",
            "--ops=5",
            "--durability=no-wal",
            "--compression=lz4",
            "--profile=rocksdb",
        ])
        .unwrap();
        let [load, a, e] = phases(&spec)[..] else { panic!("a load and two runs") };
        assert_eq!(load.ops, Some(20_000));
        assert_eq!(e.offered, Offered::As(Arrivals::Open(1e6)));
        assert_eq!((a.workload.reads, a.workload.updates), (30.0, 70.0));
        assert_eq!((a.ops, a.seconds), (Some(5), None));
        assert_eq!(spec.store.options.policy.tree.memtable_bytes, Bytes::mib(4));
        assert_eq!(spec.store.options.durability, Durability::NoWal);
    }

    #[test]
    fn any_triple_can_be_named() {
        let store = spec(&["--profile=rocksdb", "--shape=lsmi", "--admission=open"]).unwrap().store;
        assert_eq!(store.name(), "vlsm:rocksdb/shape=lsmi/admission=open");
        let policy = store.options.policy;
        assert_eq!((policy.shape, policy.admission), ("lsmi".into(), "open".into()));
        assert_eq!((policy.schedule, policy.tree.memtable_bytes), ("fifo".into(), Bytes::mib(64)));
    }

    #[test]
    fn a_file_of_options_takes_the_place_of_a_profile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        let file = format!("--options={}", path.display());
        let text = "durability = 'lazy'\n[policy]\nprofile = 'cruise'\nmemtable_count = 4";
        std::fs::write(&path, text).unwrap();
        let mut store = spec(&[&file, "--admission=open"]).unwrap().store;
        store.options.set_memory(None);
        assert_eq!(store.name(), "vlsm:own/admission=open");
        assert_eq!(store.options.durability, Durability::Lazy);
        let policy = &store.options.policy;
        assert_eq!((&*policy.shape, &*policy.admission), ("sp_lsm", "open"));
        assert_eq!(policy.tree.memtable_count, 4);
        assert!(store.options.memory_limit > Bytes::mib(256), "4 memtables of 64 MB fit");
        let refused = |text: &str, expected: &str| {
            std::fs::write(&path, text).unwrap();
            let error = spec(&[&file]).err().unwrap();
            assert!(error.contains("own.toml") && error.contains(expected), "{error}");
        };
        refused("workers = 'all'", "workers");
        refused("[policy.tree]\nmemtable_byte = 1", "did you mean \"memtable_bytes\"?");
        let error = spec(&[&file, "--profile=vlsm"]).err().unwrap();
        assert!(error.contains("cannot be used with"), "{error}");
    }

    #[test]
    fn wrong_options_are_answered_with_help() {
        let refused = |args: &[&str], expected: &str| {
            let error = spec(args).err().unwrap();
            assert!(error.contains(expected), "{error}");
        };
        refused(&["--workload=x"], "There are: load, a, ");
        refused(&["--profile=rocksbd"], "did you mean \"rocksdb\"");
        refused(&["--shape=lsim"], "option shape: \"lsim\" is not known; did you mean \"lsmi\"?");
        refused(&["--schedule=fofi"], "did you mean \"fifo\"?");
        refused(&["--admission=slow"], "slowdown_stop");
        refused(&["--key-size=4"], "8 bytes");
        refused(&["--pairs=many"], "suffix");
        refused(&["--pairs=0"], "at least 1");
        refused(&["--reads=120"], "within 0 and 100");
        refused(&["--durability=maybe"], "use sync");
    }

    #[test]
    fn a_folder_with_content_and_a_full_device_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "x").unwrap();
        let path = folder.path().to_str().unwrap();
        let parse = |args: &[&str]| Cli::try_parse_from([&["bench"], args].concat()).unwrap().args;
        let args = parse(&["--path", path]);
        let error = Folder::prepare(&args, &args.spec().unwrap()).err().unwrap();
        assert!(error.contains("not empty"), "{error}");
        let args = parse(&["--pairs", "900000G"]);
        let error = Folder::prepare(&args, &args.spec().unwrap()).err().unwrap();
        assert!(error.contains("free"), "{error}");
    }
}
