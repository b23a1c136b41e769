//! DLC over made-up trees: a closed loop of load, flushes and jobs, and its rules one by one.
//! Times are those of the loop; nothing here waits.

use super::*;
use crate::PolicyOptions;
use crate::candidate::Inputs;
use crate::device::DeviceMap;
use crate::signals::Counters;
use std::sync::Arc;
use vlsm_core::{KeyRange, MemtableId};

const MIB: u64 = 1 << 20;

/// Candidates of the same `part` collide.
fn candidate(frees: Class, kind: JobKind, part: u64) -> Candidate {
    let within = kind == JobKind::MergeWithin;
    Candidate {
        tree: TreeId(0),
        frees,
        kind,
        inputs: Inputs { memtables: vec![MemtableId(part)], tables: Vec::new() },
        output_level: if within { 0 } else { frees.level() + 1 },
        range: KeyRange::closed(format!("{part}"), format!("{part}")),
        bytes_in: Bytes(1),
        bytes_out: Bytes(1),
        score: 1.0,
        sets_cursor: None,
        conflicts: Vec::new(),
    }
}

fn running(job: u64, candidate: Candidate) -> Running {
    Running {
        job: JobId(job),
        candidate: Arc::new(candidate),
        done: Bytes::ZERO,
        left: Bytes(1),
        paused_since: None,
        installing: false,
    }
}

fn tree() -> TreeOptions {
    let rocksdb = crate::profile("rocksdb").expect("known").tree;
    TreeOptions { l0_slowdown: 100, l0_stop: 100, l0_max: 100, ..rocksdb }
}

fn dlc(own: &DlcOptions) -> Dlc {
    Dlc::new(&tree(), own).expect("the options work")
}

/// Signals of one tree with `runs` runs in L0, all from flushes.
fn signals(runs: usize) -> Signals {
    let pressure = Pressure { l0_runs: runs, l0_flushed: runs, ..Pressure::default() };
    let pressure = vec![(TreeId(0), Arc::new(pressure))];
    Signals { workers: 4, pressure, ..Signals::default() }
}

/// A job out of L0, with what is left of it and the runs it takes.
struct Job {
    running: Running,
    left: u64,
    taken: (usize, usize),
}

/// One tree on a device of 350 MB/s. Each flush brings a run, each job takes three seconds.
struct Loop {
    dlc: Dlc,
    millis: u64,
    missed: u64,
    /// Runs from flushes, and from merges.
    runs: (usize, usize),
    most_runs: usize,
    job: Option<Job>,
    /// The time in ms, the kind and the runs in L0 at the start of each job.
    started: Vec<(u64, JobKind, usize)>,
    /// The number of times that the load turned high or low.
    turns: usize,
}

impl Loop {
    fn new(burst: Burst) -> Self {
        Self {
            dlc: dlc(&DlcOptions { burst, ..DlcOptions::default() }),
            millis: 0,
            missed: 0,
            runs: (0, 0),
            most_runs: 0,
            job: None,
            started: Vec::new(),
            turns: 0,
        }
    }

    /// Plays `seconds` at `load` MB/s of cache misses, with a flush every `flush` seconds.
    fn go(&mut self, seconds: u64, load: u64, flush: u64) {
        for _ in 0..seconds * 10 {
            self.millis += 100;
            self.missed += load * MIB / 10;
            self.runs.0 += usize::from(self.millis.is_multiple_of(flush * 1_000));
            self.most_runs = self.most_runs.max(self.runs.0 + self.runs.1);
            self.tick();
        }
    }

    fn tick(&mut self) {
        let runs = self.runs.0 + self.runs.1;
        let mut list = Vec::new();
        if self.job.is_none() && runs >= 4 {
            list.push(candidate(Class::L0, JobKind::Compact, 1));
        }
        if self.job.is_none() && self.runs.0 >= 20 {
            list.push(candidate(Class::L0, JobKind::MergeWithin, 1));
        }
        let pressure = Pressure { l0_runs: runs, l0_flushed: self.runs.0, ..Pressure::default() };
        let missed = Bytes(self.missed);
        let signals = Signals {
            now: Micros(self.millis * 1_000),
            workers: 2,
            counters: Counters { cache_miss_bytes: missed, ..Counters::default() },
            device: Arc::new(DeviceMap::even(BytesPerSec(350 * MIB))),
            pressure: vec![(TreeId(0), Arc::new(pressure))],
            ..Signals::default()
        };
        let under_way: Vec<Running> = self.job.iter().map(|job| job.running.clone()).collect();
        let before = self.dlc.state.high;
        let candidates: Vec<&Candidate> = list.iter().collect();
        let grants = self.dlc.decide(&signals, &candidates, &under_way);
        self.turns += usize::from(before != self.dlc.state.high);
        assert!(grants.paused.is_empty(), "jobs out of L0 go on");
        for index in grants.start {
            let kind = list[index].kind;
            self.started.push((self.millis, kind, runs));
            let taken = match kind {
                JobKind::MergeWithin => (self.runs.0, 0),
                _ => self.runs,
            };
            let running = running(self.millis, list[index].clone());
            self.job = Some(Job { running, left: 3_000, taken });
        }
        let Some(job) = &mut self.job else { return };
        job.left -= 100;
        if job.left == 0 {
            self.runs = (self.runs.0 - job.taken.0, self.runs.1 - job.taken.1);
            let merged = job.running.candidate.kind == JobKind::MergeWithin;
            self.runs.1 += usize::from(merged);
            self.job = None;
        }
    }

    fn kinds(&self) -> Vec<JobKind> {
        self.started.iter().map(|started| started.1).collect()
    }
}

#[test]
fn periodic_load_is_compacted_in_its_valleys() {
    let mut world = Loop::new(Burst::Full);
    for _ in 0..3 {
        world.go(50, 320, 5);
        world.go(20, 50, 20);
    }
    assert_eq!(world.kinds(), [JobKind::Compact; 3]);
    for (at, _, runs) in &world.started {
        // Three intervals after the valley began.
        assert!((53_000..54_200).contains(&(at % 70_000)) && *runs >= 10, "{:?}", world.started);
    }
    assert!(world.most_runs <= 12, "{}", world.most_runs);
    assert_eq!(world.turns, 6, "up and down with the load, no oftener");
}

#[test]
fn sustained_load_bursts() {
    let mut world = Loop::new(Burst::Full);
    world.go(300, 320, 1);
    assert_eq!(world.kinds(), [JobKind::Compact; 15]);
    assert!(world.started.iter().all(|started| started.2 == 20), "{:?}", world.started);
    assert!(world.most_runs <= 23 && world.turns == 1);
}

#[test]
fn after_four_parts_all_of_l0_goes_down() {
    let mut world = Loop::new(Burst::Part);
    world.go(300, 320, 1);
    let part = JobKind::MergeWithin;
    let round = [part, part, part, part, JobKind::Compact];
    assert_eq!(world.kinds(), [round; 3].concat());
    assert!(world.most_runs <= 27, "{}", world.most_runs);
}

#[test]
fn without_bursts_l0_grows_until_the_load_is_low() {
    let mut world = Loop::new(Burst::None);
    world.go(300, 320, 1);
    assert_eq!((world.started.len(), world.runs), (0, (300, 0)));
    world.go(10, 50, 1);
    assert_eq!(world.started.len(), 2);
}

#[test]
fn a_short_dip_is_no_low_load() {
    let mut world = Loop::new(Burst::Full);
    world.go(10, 320, 1_000);
    for _ in 0..5 {
        world.go(2, 100, 1_000);
        world.go(1, 250, 1_000);
    }
    assert!(world.dlc.state.high && world.turns == 1);
    world.go(5, 100, 1_000);
    assert!(!world.dlc.state.high);
    // Between the limits it stays low, too.
    world.go(5, 250, 1_000);
    assert!(!world.dlc.state.high && world.turns == 2);
}

#[test]
fn one_deeper_job_goes_on_while_the_load_is_high() {
    let deeper = |part| candidate(Class::Level(1), JobKind::Compact, part);
    let mut dlc = dlc(&DlcOptions::default());
    dlc.state.high = true;
    let mut jobs: Vec<Running> = (1..=3).map(|n| running(n, deeper(n))).collect();
    let more = deeper(4);
    let grants = dlc.decide(&signals(5), &[&more], &jobs);
    assert_eq!((grants.start.len(), grants.paused), (0, vec![JobId(2), JobId(3)]));
    // The job that continued continues.
    jobs[0].paused_since = Some(Micros(1));
    jobs[1].paused_since = Some(Micros(1));
    let grants = dlc.decide(&signals(5), &[], &jobs);
    assert_eq!(grants.paused, [JobId(1), JobId(2)]);
    // A burst waits for another job, which continues instead.
    let waits =
        Candidate { conflicts: vec![JobId(2)], ..candidate(Class::L0, JobKind::Compact, 2) };
    let grants = dlc.decide(&signals(20), &[&waits], &jobs);
    assert_eq!((grants.start.len(), grants.paused), (0, vec![JobId(1), JobId(3)]));
    // No new job gets in its way. A job that does not may start if no other job runs.
    let blocked = deeper(2);
    let grants = dlc.decide(&signals(20), &[&blocked, &more, &waits], &[]);
    assert_eq!(grants.start, [1]);
    // Moves cost nothing.
    let moves = candidate(Class::L0, JobKind::TrivialMove, 7);
    assert_eq!(dlc.decide(&signals(4), &[&moves], &jobs).start, [0]);
    dlc.state.high = false;
    let grants = dlc.decide(&signals(5), &[&more], &jobs);
    assert_eq!((grants.start, grants.paused), (vec![0], Vec::new()));
}

/// A valley ends a burst: the next peak waits for 20 runs again.
#[test]
fn a_burst_that_a_valley_cut_short_does_not_go_on_in_the_next_peak() {
    let mut dlc = dlc(&DlcOptions::default());
    let down = candidate(Class::L0, JobKind::Compact, 1);
    dlc.state.high = true;
    assert_eq!(dlc.decide(&signals(20), &[&down], &[]).start, [0]);
    assert_eq!(dlc.decide(&signals(5), &[&down], &[]).start, [0], "the burst goes on");
    dlc.state.high = false;
    assert_eq!(dlc.decide(&signals(5), &[&down], &[]).start, [0], "as in fifo");
    dlc.state.high = true;
    assert!(dlc.decide(&signals(5), &[&down], &[]).start.is_empty());
}

#[test]
fn part_delays_only_what_goes_into_l1() {
    let mut dlc = dlc(&DlcOptions { delay: Delay::Part, ..DlcOptions::default() });
    dlc.state.high = true;
    let down = candidate(Class::L0, JobKind::Compact, 1);
    let within = candidate(Class::L0, JobKind::MergeWithin, 1);
    assert_eq!(dlc.decide(&signals(5), &[&down, &within], &[]).start, [1]);
    assert_eq!(dlc.decide(&signals(20), &[&down, &within], &[]).start, [0]);
}

#[test]
fn a_burst_follows_bytes_and_the_bound_of_l0() {
    let (burst, burst_bytes) = (Burst::Part, Bytes(100));
    let own = DlcOptions { burst, burst_bytes, ..DlcOptions::default() };
    let mut options = tree();
    let high = |tree: &TreeOptions| {
        let mut dlc = Dlc::new(tree, &own).expect("the options work");
        dlc.state.high = true;
        dlc
    };
    let down = candidate(Class::L0, JobKind::Compact, 1);
    let within = candidate(Class::L0, JobKind::MergeWithin, 1);
    let list = [&down, &within];
    assert_eq!(high(&options).decide(&signals(20), &list, &[]).start, [1]);
    let mut large = signals(5);
    let pressure = Pressure { l0_runs: 5, l0_bytes: Bytes(100), ..Pressure::default() };
    large.pressure = vec![(TreeId(0), Arc::new(pressure))];
    assert_eq!(high(&options).decide(&large, &list, &[]).start, [0]);
    options.l0_slowdown = 6;
    assert_eq!(high(&options).decide(&signals(5), &list, &[]).start, [0; 0]);
    assert_eq!(high(&options).decide(&signals(6), &list, &[]).start, [0]);
    // No merge is proposed, because too few flushed runs are idle.
    options.l0_slowdown = 100;
    assert_eq!(high(&options).decide(&signals(20), &list[..1], &[]).start, [0]);
}

#[test]
fn the_floor_fits_a_slow_device() {
    let mut dlc = dlc(&DlcOptions::default());
    assert_eq!(dlc.bandwidth(BytesPerSec(40 * MIB)), None, "no load is known yet");
    dlc.load = Some(BytesPerSec(39 * MIB));
    let granted = dlc.bandwidth(BytesPerSec(40 * MIB)).map(|rate| (rate.limit, rate.floor));
    assert_eq!(granted, Some((BytesPerSec(10 * MIB), BytesPerSec(10 * MIB))));
    let granted = dlc.bandwidth(BytesPerSec(350 * MIB)).map(|rate| (rate.limit, rate.floor));
    assert_eq!(granted, Some((BytesPerSec(311 * MIB), BytesPerSec(50 * MIB))));
}

#[test]
fn parts_need_a_shape_that_proposes_them() {
    let refused = |changes: &str| {
        let text = format!("profile = \"dlc\"\n{changes}");
        let options = PolicyOptions::try_from(text.parse::<toml::Table>().expect("a table"))?;
        options.build().map(drop).map_err(|error| error.to_string())
    };
    let burst = "dlc.burst = \"part\"\n";
    let delay = "dlc.delay = \"part\"\nintra_l0_beside = true\n";
    assert!(refused(burst).expect_err("refused").contains("merge_flushed"));
    let why = refused("dlc.delay = \"part\"\n").expect_err("refused");
    assert!(why.contains("intra_l0_beside"), "{why}");
    let burst = |from: usize| format!("{burst}merge_flushed = {from}\n");
    refused(&burst(20)).expect("they are proposed");
    refused(delay).expect("they are proposed");
    let late = refused(&burst(21)).expect_err("a burst comes before there is anything to merge");
    assert!(late.contains("dlc.burst_runs"), "{late}");
    for part in [&*burst(20), delay] {
        let why = refused(&format!("{part}shape = \"vlsm\"\n"));
        let why = why.expect_err("vlsm has nothing to merge within L0");
        assert!(why.contains("tiered_l0"), "{why}");
    }
    refused(&format!("{}schedule = \"fifo\"\n", burst(1))).expect("it is not in use");
}

#[test]
fn impossible_constants_are_refused() {
    let refused = |change: fn(&mut DlcOptions)| {
        let mut options = DlcOptions::default();
        change(&mut options);
        options.check().expect_err("refused").to_string()
    };
    DlcOptions::default().check().expect("the paper's work");
    assert!(refused(|o| o.interval = Micros(999)).contains("dlc.interval"));
    assert!(refused(|o| o.interval = Micros(3_600_000_001)).contains("dlc.interval"));
    assert!(refused(|o| o.softness = 0).contains("dlc.softness"));
    assert!(refused(|o| o.io_high_limit = 1.5).contains("dlc.io_high_limit"));
    assert!(refused(|o| o.io_high_limit = f64::NAN).contains("dlc.io_high_limit"));
    assert!(refused(|o| o.io_low_limit = 0.9).contains("dlc.io_low_limit"));
    assert!(refused(|o| o.burst_runs = 0).contains("dlc.burst_runs"));
    assert!(
        refused(|o| (o.load, o.weight) = (LoadModel::Weighted, Bytes(0))).contains("dlc.weight")
    );
}
