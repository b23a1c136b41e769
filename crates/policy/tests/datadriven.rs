//! Policies against tables of text: a tree, a command, the printed choice.
//!
//! A file under `testdata/<axis>/` is a list of cases separated by empty lines. A case is a command
//! with its arguments, an input of any number of lines, a line `----`, and the expected output.
//! State is kept from case to case. `REWRITE=1 cargo test -p vlsm-policy --test datadriven` writes
//! what was printed; read the difference before committing it.
//!
//! | command | input | prints |
//! |---|---|---|
//! | `options profile=vlsm sst_max=8 silk.window=1000 …` | | `ok`, or why they are refused |
//! | `tree` | a tree as text | its summary; running jobs are forgotten |
//! | `memtables m1:8M[a,z] m2:8M[a,z]!` | | nothing more; `!` means not ready |
//! | `candidates` | | all candidates with their indices |
//! | `start 0 2` | | these candidates become running jobs |
//! | `finish j1` | | the job is forgotten, the tree stays |
//! | `cuts 0` | | the rule for this candidate |
//! | `merge 0` | keys, each `each` bytes (option of the command) | the SSTs and their grades |
//! | `chain`, `pressure` | | what the shape says |
//! | `decide workers=2 now=10 device=200M gets=50 …` | | what the schedule decides |
//! | `admit 0.5 0.9 debt=8M runs=3` | | what the admission lets in at this slowdown and stop |
//! | `admit now=1000 fill=0.5 writes=9 …` | | the same, of a store with these counts |
//!
//! `decide` gives the schedule the pressure of the tree, the time in milliseconds, the device's
//! bandwidth, and counters: `writes`, `write-bytes`, `gets`, `scans`, `cache-miss-blocks`,
//! `cache-miss-bytes`, `job-read`, `job-written`, `drained`. They count from the beginning, as in
//! the engine. Job j1 has merged `done.j1` bytes of its input. `stopped-writers` is the number of
//! writers that wait for a memtable, `sealed` the number of sealed memtables. A value that is not
//! named keeps its value from the previous case. The shape sees the size of memtables that the last
//! decision set.
//!
//! `admit` also takes, in any place: the time `now` in ms, the watermark `fill` of memory, the part
//! of it that no job has merged (`unmerged`), the number of memtables that are `sealed`, what was
//! counted since the beginning (`writes`, `write-bytes`, `gets`, `cache-miss-bytes`, `job-read`,
//! `job-written`), and `device`, the bytes per second that it moves of any mix. Arguments that are
//! left out are zero. Options of one mechanism are named as `cruise.k1=0.5`.
#![allow(clippy::disallowed_methods, reason = "test data is read and rewritten as files")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::text;
use vlsm_core::{Bytes, BytesPerSec, JobId, KeyRange, MemtableId, Micros, Place, TreeId, Version};
use vlsm_policy::shape::cuts::grade;
use vlsm_policy::*;

struct World {
    options: PolicyOptions,
    policies: Policies,
    version: Version,
    facts: TreeFacts,
    busy: Busy,
    candidates: Candidates,
    jobs: u64,
    signals: Signals,
    /// Jobs that the last decision paused, and the times at which they were paused.
    paused: Vec<(JobId, Micros)>,
    /// Bytes of their input that jobs have merged.
    done: Vec<(String, Bytes)>,
}

impl World {
    fn new() -> Self {
        let options = PolicyOptions::default();
        Self {
            policies: options.build().expect("the default builds"),
            facts: TreeFacts {
                memtable_bytes: options.tree.memtable_bytes,
                ..TreeFacts::default()
            },
            options,
            version: Version::default(),
            busy: Busy::default(),
            candidates: Vec::new(),
            jobs: 0,
            signals: Signals { workers: 1, ..Signals::default() },
            paused: Vec::new(),
            done: Vec::new(),
        }
    }

    fn run(&mut self, command: &str, input: &str) -> String {
        let mut words = command.split_whitespace();
        let name = words.next().expect("a command");
        let args: Vec<&str> = words.collect();
        match name {
            "options" => self.options(&args),
            "tree" => self.tree(input),
            "memtables" => self.memtables(&args),
            "candidates" => self.print_candidates(),
            "start" => self.start(&args),
            "finish" => self.finish(&args),
            "cuts" => format!("{:?}\n", self.rule(args[0])),
            "merge" => self.merge(&args, input),
            "chain" => self.chain(),
            "pressure" => self.pressure(),
            "decide" => self.decide(&args),
            "admit" => self.admit(&args),
            other => panic!("{other} is not a command"),
        }
    }

    fn options(&mut self, args: &[&str]) -> String {
        let mut options = self.options.clone();
        let mut rest = args;
        if let Some(name) = args.first().and_then(|arg| arg.strip_prefix("profile=")) {
            match profile(name) {
                Ok(profile) => options = profile,
                Err(why) => return format!("{why}\n"),
            }
            rest = &args[1..];
        }
        let mut value = serde_json::to_value(&options).expect("serializes");
        for arg in rest {
            let (key, word) = arg.split_once('=').expect("key=value");
            let value = key.split('.').fold(&mut value, |value, part| &mut value[part]);
            *value = match (word, word.parse::<f64>(), text::parse_bytes(word)) {
                ("true" | "false", ..) => (word == "true").into(),
                (_, Ok(fraction), _) if word.contains('.') => fraction.into(),
                (.., Ok(bytes)) => bytes.0.into(),
                _ => word.into(),
            };
        }
        let options: PolicyOptions = match serde_json::from_value(value) {
            Ok(options) => options,
            Err(why) => return format!("{why}\n"),
        };
        match options.build() {
            Ok(policies) => {
                self.facts.memtable_bytes = options.tree.memtable_bytes;
                (self.options, self.policies) = (options, policies);
                "ok\n".into()
            }
            Err(why) => format!("{why}\n"),
        }
    }

    fn tree(&mut self, input: &str) -> String {
        self.busy = Busy::default();
        match text::parse(input) {
            Ok(version) => {
                self.policies.0.check(&version).expect("a sound tree");
                self.version = version;
                text::summary(&self.version)
            }
            Err(why) => format!("{why}\n"),
        }
    }

    fn memtables(&mut self, args: &[&str]) -> String {
        let memtable = |word: &&str| {
            let (ready, wanted) = (!word.ends_with('!'), word.ends_with('?'));
            // A memtable reads like a table.
            let line = format!("L1: {}", word.trim_start_matches('m').trim_end_matches(['!', '?']));
            let version = text::parse(&line).expect("a memtable such as m1:8M[a,z]");
            let table = version.level(1).iter().next().expect("one").clone();
            MemtableFacts {
                id: MemtableId(table.file.number.0),
                bytes: table.bytes,
                range: Some(table.range.clone()),
                seq_max: vlsm_core::Seq::ZERO,
                ready,
                wanted,
            }
        };
        self.facts.memtables = args.iter().map(memtable).collect();
        "ok\n".into()
    }

    fn print_candidates(&mut self) -> String {
        let shape = &self.policies.0;
        self.candidates = shape.candidates(&self.version, &self.facts, &self.busy);
        if self.candidates.is_empty() {
            return "none\n".into();
        }
        let mut out = String::new();
        for (index, candidate) in self.candidates.iter().enumerate() {
            _ = writeln!(out, "{index}: {}", describe(candidate));
        }
        out
    }

    fn start(&mut self, args: &[&str]) -> String {
        let mut out = String::new();
        for arg in args {
            let candidate = self.candidates[arg.parse::<usize>().expect("an index")].clone();
            assert!(candidate.conflicts.is_empty(), "it has conflicts");
            self.jobs += 1;
            let job = JobId(self.jobs);
            _ = writeln!(out, "{job}: {}", describe(&candidate));
            self.busy.reservations.push(Reservation { job, candidate: Arc::new(candidate) });
        }
        out
    }

    fn finish(&mut self, args: &[&str]) -> String {
        for arg in args {
            self.busy.reservations.retain(|held| held.job.to_string() != *arg);
        }
        "ok\n".into()
    }

    fn rule(&self, index: &str) -> CutRule {
        let candidate = &self.candidates[index.parse::<usize>().expect("an index")];
        self.policies.0.cuts(&self.version, &self.facts, candidate)
    }

    fn merge(&self, args: &[&str], input: &str) -> String {
        let rule = self.rule(args[0]);
        let each = args.get(1).and_then(|arg| arg.strip_prefix("each=")).unwrap_or("1");
        let each = text::parse_bytes(each).expect("a size");
        let next = rule.next_level().map(|level| self.version.level(level).clone());
        let next = next.unwrap_or_default();
        let candidate = &self.candidates[args[0].parse::<usize>().expect("an index")];
        let mut cutter = Cutter::of(rule, &self.version, &candidate.range);
        let mut ssts: Vec<(KeyRange, Bytes)> = Vec::new();
        for key in input.split_whitespace() {
            let written = ssts.last().map_or(Bytes::ZERO, |sst| sst.1);
            if cutter.before(key.as_bytes(), written) || ssts.is_empty() {
                ssts.push((KeyRange::closed(key.to_owned(), key.to_owned()), Bytes::ZERO));
            }
            let (range, bytes) = ssts.last_mut().expect("one is open");
            range.hi = key.to_owned().into();
            *bytes += each;
        }
        let mut out = String::new();
        for (range, bytes) in ssts {
            let by =
                |overlap| grade(&range, bytes, &next, overlap, self.options.tree.growth as f64);
            let (count, ratio) = (by(Overlap::Count), by(Overlap::Ratio));
            let (range, bytes) = (text::print_range(&range), text::print_bytes(bytes));
            _ = writeln!(out, "{range} {bytes} by count {count:?}, by ratio {ratio:?}");
        }
        out
    }

    fn chain(&self) -> String {
        let print = |chain: Chain| match chain.stages.as_slice() {
            [] => "none".into(),
            stages => {
                let stage = |(level, width): &(u8, Bytes)| {
                    format!("L{level} {}", text::print_bytes(*width))
                };
                stages.iter().map(stage).collect::<Vec<_>>().join(", ")
            }
        };
        print(self.policies.0.chain(&self.version, &self.facts)) + "\n"
    }

    fn pressure(&self) -> String {
        let pressure = self.policies.0.pressure(&self.version, &self.facts);
        let mut out = format!(
            "slowdown {:.2} stop {:.2} by {}\nL0: {} runs, {} flushed, {}\n",
            pressure.slowdown,
            pressure.stop,
            if pressure.by_l0 { "L0" } else { "debt" },
            pressure.l0_runs,
            pressure.l0_flushed,
            text::print_bytes(pressure.l0_bytes),
        );
        for level in &pressure.levels {
            let target = level.target.map_or("no target".into(), text::print_bytes);
            let (bytes, debt) = (text::print_bytes(level.bytes), text::print_bytes(level.debt));
            _ = writeln!(out, "L{}: {bytes} of {target}, debt {debt}", level.level);
        }
        _ = writeln!(out, "debt: {}", text::print_bytes(pressure.debt));
        out
    }

    fn decide(&mut self, args: &[&str]) -> String {
        self.observe(args);
        let candidates: Vec<_> = self.candidates.iter().collect();
        let paused = |id: JobId| self.paused.iter().find(|(job, _)| *job == id);
        let running = |held: &Reservation| {
            let id = held.job.to_string();
            let known = self.done.iter().find(|(job, _)| *job == id);
            let done = known.map_or(Bytes::ZERO, |(_, done)| *done);
            Running {
                job: held.job,
                candidate: held.candidate.clone(),
                done,
                left: held.candidate.bytes_in.saturating_sub(done),
                paused_since: paused(held.job).map(|(_, since)| *since),
                installing: false,
            }
        };
        let running: Vec<_> = self.busy.reservations.iter().map(running).collect();
        let grants = self.policies.1.decide(&self.signals, &candidates, &running);
        let sealed_at = grants.memtable_bytes.unwrap_or(self.options.tree.memtable_bytes);
        self.facts.memtable_bytes = sealed_at;
        self.paused.retain(|(job, _)| grants.paused.contains(job));
        for &job in &grants.paused {
            if self.paused.iter().all(|paused| paused.0 != job) {
                self.paused.push((job, self.signals.now));
            }
        }
        print_grants(&grants)
    }

    /// Puts the arguments of `decide` into the signals.
    fn observe(&mut self, args: &[&str]) {
        let signals = &mut self.signals;
        for arg in args {
            let (name, word) = arg.split_once('=').expect("name=number");
            let bytes = text::parse_bytes(word).expect("a number");
            if let Some(job) = name.strip_prefix("done.") {
                self.done.retain(|known| known.0 != job);
                self.done.push((job.to_owned(), bytes));
                continue;
            }
            let counters = &mut signals.counters;
            match name {
                "now" => signals.now = Micros(bytes.0 * 1000),
                "workers" => signals.workers = bytes.0 as usize,
                "device" => signals.device = Arc::new(DeviceMap::even(BytesPerSec(bytes.0))),
                "writes" => counters.writes = bytes.0,
                "write-bytes" => counters.write_bytes = bytes,
                "gets" => counters.gets = bytes.0,
                "scans" => counters.scans = bytes.0,
                "waiting-writers" => counters.waiting_writers = bytes.0,
                "cache-miss-bytes" => counters.cache_miss_bytes = bytes,
                "job-read" => counters.job_read_bytes = bytes,
                "job-written" => counters.job_written_bytes = bytes,
                "drained" => counters.waited_spans = bytes.0,
                "stopped-writers" => counters.stopped_writers = bytes.0,
                "sealed" => signals.memtables.immutable_count = bytes.0 as usize,
                other => panic!("{other} is nothing that a schedule is told"),
            }
        }
        let pressure = self.policies.0.pressure(&self.version, &self.facts);
        signals.pressure = vec![(self.facts.tree, Arc::new(pressure))];
    }

    /// Each pair of numbers is one tree; `debt=` and `runs=` apply to the last one. All other
    /// arguments apply to the store.
    fn admit(&mut self, args: &[&str]) -> String {
        let mut trees: Vec<Pressure> = Vec::new();
        let mut numbers = Vec::new();
        let (of_store, of_trees): (Vec<&str>, Vec<&str>) =
            args.iter().copied().partition(|arg| STORE.iter().any(|name| arg.starts_with(*name)));
        for arg in of_trees {
            if let Some(debt) = arg.strip_prefix("debt=") {
                trees.last_mut().expect("a tree").debt = text::parse_bytes(debt).expect("a size");
            } else if let Some(runs) = arg.strip_prefix("runs=") {
                trees.last_mut().expect("a tree").l0_runs = runs.parse().expect("a number");
            } else if arg == "by-l0" {
                trees.last_mut().expect("a tree").by_l0 = true;
            } else {
                numbers.push(arg.parse::<f64>().expect("a number"));
                if let [slowdown, stop] = numbers[..] {
                    trees.push(Pressure { slowdown, stop, ..Pressure::default() });
                    numbers.clear();
                }
            }
        }
        let pressure =
            trees.into_iter().enumerate().map(|(n, p)| (TreeId(n as u64), Arc::new(p))).collect();
        let admit = self.policies.2.decide(&Signals { pressure, ..counted(&of_store) });
        let rate = match admit.writes {
            None => "all".into(),
            Some(rate) if rate.0 == 0 => "nothing".into(),
            Some(rate) => rate.to_string(),
        };
        let reads = admit.reads.map_or(String::new(), |bytes| format!(", {bytes} a read"));
        let cause = admit.cause.map_or(String::new(), |cause| format!(": {}", cause.name()));
        let again = admit.again.map_or(String::new(), |again| format!(", again at {again}"));
        format!("{rate}{reads}{cause}{again}\n")
    }
}

/// The arguments of `admit` that set the store's signals, by prefix.
const STORE: [&str; 12] = [
    "now=",
    "fill=",
    "sealed=",
    "unmerged=",
    "writes=",
    "write-bytes=",
    "gets=",
    "waiting-writers=",
    "cache-miss-bytes=",
    "job-read=",
    "job-written=",
    "device=",
];

/// Builds the signals of a store from such arguments. Signals without an argument are 0.
fn counted(args: &[&str]) -> Signals {
    let word = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
    let size = |name: &str| {
        let size = word(name).map(|word| text::parse_bytes(word).expect("a number"));
        size.unwrap_or_default()
    };
    let share = |name: &str| {
        let share = word(name).map_or(0.0, |word| word.parse::<f64>().expect("a number"));
        Bytes((share * 1e6).round() as u64)
    };
    let device = size("device=");
    let map = DeviceMap::even(BytesPerSec(device.0));
    Signals {
        now: Micros(size("now=").0 * 1_000),
        counters: Counters {
            writes: size("writes=").0,
            write_bytes: size("write-bytes="),
            gets: size("gets=").0,
            waiting_writers: size("waiting-writers=").0,
            cache_miss_bytes: size("cache-miss-bytes="),
            job_read_bytes: size("job-read="),
            job_written_bytes: size("job-written="),
            ..Counters::default()
        },
        memtables: signals::MemtableSignals {
            active: share("fill="),
            immutable_count: size("sealed=").0 as usize,
            capacity: Bytes(1_000_000),
            unmerged: share("unmerged="),
            ..Default::default()
        },
        device: Arc::new(if device.0 > 0 { map } else { DeviceMap::default() }),
        ..Signals::default()
    }
}

/// Prints the indices of candidates to start and the jobs to cancel, then each other part of the
/// decision that is not at its default.
fn print_grants(grants: &Grants) -> String {
    let list = |jobs: &[JobId]| {
        let jobs: Vec<_> = jobs.iter().map(ToString::to_string).collect();
        format!("[{}]", jobs.join(", "))
    };
    let mut out = format!("start {:?} cancel {}", grants.start, list(&grants.cancel));
    if !grants.paused.is_empty() {
        _ = write!(out, " paused {}", list(&grants.paused));
    }
    let first = grants.order.as_ref().map(|order| &order.first);
    if let Some(first) = first.filter(|first| !first.is_empty()) {
        _ = write!(out, " first {}", list(first));
    }
    if let Some(Bandwidth { limit, floor, counted, in_turn, .. }) = grants.bandwidth {
        _ = write!(out, " limit {limit}");
        if floor > BytesPerSec::ZERO {
            _ = write!(out, " floor {floor}");
        }
        if counted == Counted::ReadAndWritten {
            out.push_str(" read and written");
        }
        if in_turn {
            out.push_str(" in turn");
        }
    }
    if let Some(bytes) = grants.memtable_bytes {
        _ = write!(out, " memtables of {bytes}");
    }
    if let Some(time) = grants.again {
        _ = write!(out, " again at {time}");
    }
    out.push('\n');
    out
}

fn describe(candidate: &Candidate) -> String {
    let mut out = format!("{:?}", candidate.kind);
    for id in &candidate.inputs.memtables {
        _ = write!(out, " {id}");
    }
    let mut place = None;
    for (at, table) in &candidate.inputs.tables {
        match (at, place == Some(*at)) {
            (_, true) => _ = write!(out, ",{}", table.file.number),
            (Place::L0(run), _) => _ = write!(out, " L0:{run}:{}", table.file.number),
            (Place::Level(level), _) => _ = write!(out, " L{level}:{}", table.file.number),
        }
        place = Some(*at);
    }
    let (range, bytes) = (text::print_range(&candidate.range), candidate.bytes_in);
    _ = write!(out, " -> L{} {range} {}", candidate.output_level, text::print_bytes(bytes));
    _ = write!(out, " score {:.2}", candidate.score);
    if let Some((level, key)) = &candidate.sets_cursor {
        let key = key.as_ref().map_or("start".into(), |key| text::print_key(key));
        _ = write!(out, " cursor L{level}={key}");
    }
    if !candidate.conflicts.is_empty() {
        let jobs: Vec<_> = candidate.conflicts.iter().map(ToString::to_string).collect();
        _ = write!(out, " conflicts {}", jobs.join(","));
    }
    out
}

/// Runs one file. Returns it with the actual outputs.
fn rerun(text: &str) -> String {
    let mut world = World::new();
    let mut cases = Vec::new();
    for case in text.split("\n\n").map(|case| case.trim_matches('\n')).filter(|c| !c.is_empty()) {
        if case.lines().all(|line| line.starts_with('#')) {
            cases.push(format!("{case}\n"));
            continue;
        }
        let question = case.split("\n----").next().expect("split gives one at least");
        let (comment, rest): (Vec<_>, Vec<_>) =
            question.lines().partition(|line| line.starts_with('#'));
        let (command, input) = rest.split_first().expect("a command");
        let answer = world.run(command, &input.join("\n"));
        let comment = comment.iter().map(|line| format!("{line}\n")).collect::<String>();
        let input = input.iter().map(|line| format!("{line}\n")).collect::<String>();
        cases.push(format!("{comment}{command}\n{input}----\n{answer}"));
    }
    cases.join("\n")
}

fn run_axis(axis: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(axis);
    let files = std::fs::read_dir(&folder).expect("the folder exists");
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no test data for {axis}");
    for file in files {
        let expected = std::fs::read_to_string(&file).expect("readable");
        let actual = rerun(&expected);
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&file, actual).expect("writable");
        } else if actual != expected {
            let at = actual.lines().zip(expected.lines()).position(|(a, b)| a != b);
            let line = |text: &str| text.lines().nth(at.unwrap_or(0)).unwrap_or("").to_owned();
            panic!(
                "{}:{}\nexpected: {}\nactual:   {}\nwhole:\n{actual}",
                file.display(),
                at.unwrap_or(0) + 1,
                line(&expected),
                line(&actual)
            );
        }
    }
}

#[test]
fn shapes() {
    run_axis("shape");
}

#[test]
fn schedules() {
    run_axis("schedule");
}

#[test]
fn admissions() {
    run_axis("admission");
}
