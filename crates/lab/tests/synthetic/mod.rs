//! Reports as a long run would give them, made up from a seed: bursts of ten minutes, a store that
//! stalls when L0 waits for a wide chain and one that does not. They are for tests of the drawing;
//! no figure here was measured.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::PathBuf;
use vlsm_measure::arrivals::{Arrivals, Pattern};
use vlsm_measure::metrics::{Percentiles, Point, Series};
use vlsm_measure::process::{Device, Machine};
use vlsm_measure::report::{
    Amplification, ChainMark, Floor, JobMark, Method, PhaseReport, Report, Sample,
};
use vlsm_measure::spec::{RunSpec, Step};
use vlsm_measure::store::{LevelStats, StoreMemory, StoreStats, WaitStats};

/// The properties of a made-up store.
pub struct Shape {
    /// Its name.
    pub store: &'static str,
    /// Its profile.
    pub profile: &'static str,
    /// Whether it stalls.
    pub stalls: bool,
    /// The factor of its latencies over those of [`STEADY`].
    pub slower: f64,
}

/// A store without stalls.
pub const STEADY: Shape = Shape { store: "vlsm", profile: "vlsm", stalls: false, slower: 1.0 };
/// A store that stalls and is slower.
pub const STALLING: Shape =
    Shape { store: "rocksdb", profile: "reference", stalls: true, slower: 2.2 };

/// A few random bits, the same everywhere.
pub struct Dice(pub u64);

impl Dice {
    /// From 0 to 1.
    pub fn roll(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }
}

const SECONDS: usize = 600;

/// Bursts of 15 s over valleys of 10 s.
fn offered(second: usize) -> f64 {
    if second % 25 < 15 { 100e3 } else { 20e3 }
}

fn series(shape: &Shape, dice: &mut Dice) -> Series {
    let mut backlog = 0.0_f64;
    let point = |second: usize| {
        let due = offered(second) + backlog;
        let stalled = shape.stalls && second % 150 > 100 && second % 25 > 8 && second % 25 < 14;
        let able = if stalled { 0.0 } else { 135e3 / shape.slower.sqrt() };
        let ops = due.min(able * (0.9 + 0.15 * dice.roll()));
        backlog = due - ops;
        let queue = backlog / 100e3 * 1e6;
        let spike = if dice.roll() > 0.93 { 30.0 } else { 1.0 };
        let p99 = 180.0 * shape.slower * (0.7 + dice.roll()) * spike + queue;
        let known = |us: f64| if ops == 0.0 { 0.0 } else { us };
        Point {
            seconds: 1.0,
            ops: ops as u64,
            read_p99_us: known(p99 * 0.4),
            write_p99_us: known(p99),
            max_us: known(p99 * (2.0 + 10.0 * dice.roll())),
            backlog: backlog as u64,
            ..Point::default()
        }
    };
    Series((0..SECONDS).map(point).collect())
}

fn percentiles(factor: f64, tail: f64) -> Percentiles {
    Percentiles {
        count: 24_000_000,
        mean_us: 12.0 * factor,
        p50_us: 3.1 * factor,
        p90_us: 7.5 * factor,
        p99_us: 160.0 * factor,
        p999_us: 900.0 * factor * tail,
        p9999_us: 5_500.0 * factor * tail,
        max_us: 21_000.0 * factor * tail,
    }
}

const MB: u64 = 1 << 20;

fn samples(shape: &Shape, dice: &mut Dice) -> Vec<Sample> {
    let sample = |second: usize| {
        let runs = if shape.stalls { 1 + second % 25 / 3 } else { 1 + second % 3 } as u64;
        let grown = second as u64;
        Sample {
            at: second as f64,
            levels: vec![
                runs * 64 * MB,
                250 * MB + (dice.roll() * 40.0) as u64 * MB,
                1900 * MB + (dice.roll() * 90.0) as u64 * MB,
                2400 * MB + grown * 5 * MB,
            ],
            l0_runs: runs,
            memory: 300 * MB + (dice.roll() * 60.0) as u64 * MB,
            cpu_nanos: (second as f64 * 0.9e9 * shape.slower.sqrt()) as u64,
            device: Some(Device {
                program: 0,
                read: grown * 95 * MB,
                written: grown * if shape.stalls { 120 } else { 105 } * MB,
            }),
            ..Sample::default()
        }
    };
    (0..SECONDS).step_by(2).map(sample).collect()
}

fn jobs(shape: &Shape, dice: &mut Dice) -> Vec<JobMark> {
    let mut jobs = Vec::new();
    let mut mark = |start: f64, seconds: f64, kind: &str, from, to, bytes: u64| {
        let (kind, end) = (kind.to_owned(), start + seconds);
        jobs.push(JobMark { start, end, kind, from, to, read: bytes, written: bytes });
    };
    let width = if shape.stalls { 4.0 } else { 1.0 };
    let mut at = -0.5;
    while at < SECONDS as f64 {
        mark(at, 0.6, "flush", 0, 0, 64 * MB);
        mark(at + 0.8, 1.1 * width, "compact", 0, 1, 320 * MB);
        mark(at + 1.5, 1.6 * width * (0.5 + dice.roll()), "compact", 1, 2, 500 * MB);
        if dice.roll() > 0.6 {
            mark(at + 2.0, 3.0 * width, "compact", 2, 3, 700 * MB);
        }
        at += 4.0 * width;
    }
    jobs
}

fn chains(shape: &Shape, dice: &mut Dice) -> Vec<ChainMark> {
    let width = if shape.stalls { 9.0 } else { 1.0 };
    let mark = |index: usize| {
        let stages = 1 + (dice.roll() * if shape.stalls { 3.0 } else { 1.4 }) as u8;
        let bytes = |level: u8| (level, ((60.0 + 80.0 * dice.roll()) * width) as u64 * MB);
        let stages = (0..stages).map(bytes).collect();
        let waited = (shape.stalls && index.is_multiple_of(5)).then_some(2.5);
        ChainMark { at: index as f64 * 5.0, stages, waited }
    };
    (0..SECONDS / 5).map(mark).collect()
}

fn stats(shape: &Shape) -> StoreStats {
    let wide = if shape.stalls { 9 } else { 1 };
    let waits = |cause: &str, count, total_us| WaitStats {
        cause: cause.into(),
        count,
        total_us,
        longest_us: total_us / 4,
    };
    let level = |tables, bytes, target| LevelStats {
        tables,
        bytes: bytes * MB,
        target: Some(target * MB).filter(|target| *target > 0),
        ..LevelStats::default()
    };
    StoreStats {
        wal_bytes: 8_200 * MB,
        flush_bytes: 8_000 * MB,
        compaction_read: 55_000 * MB,
        compaction_written: 48_000 * MB,
        read_bytes: 2_000 * MB,
        chains: if shape.stalls { 24 } else { 0 },
        chain_length: 3,
        chain_width: 1_100 * MB,
        chain_bytes: 12_000 * MB,
        chain_waited_us: 2_500_000,
        standing_length: 2 * wide.min(2),
        standing_width: 140 * wide * MB,
        standing_bytes: 120 * 100 * wide * MB,
        standing_count: 120,
        widest_job: 340 * wide * MB,
        waits: vec![waits("memtable full", 100 * wide, 400_000 * wide)],
        levels: vec![
            level(2, 128, 0),
            level(32, 251, 256),
            level(240, 1_950, 2_048),
            level(660, 5_300, 16_384),
        ],
        disk_bytes: 7_700 * MB,
        memory: StoreMemory { limit: 256 * MB, peak: 250 * MB, peaks: Vec::new() },
        ..StoreStats::default()
    }
}

/// A run of a phase by this store.
pub fn phase(shape: &Shape, name: &str, seed: u64) -> PhaseReport {
    let mut dice = Dice(seed);
    let series = series(shape, &mut dice);
    let store = stats(shape);
    let ops: u64 = series.0.iter().map(|point| point.ops).sum();
    let tail = if shape.stalls { 60.0 } else { 1.0 };
    let noise = 0.95 + 0.1 * dice.roll();
    let device = Some(Device { read: 57_300 * MB, written: 64_700 * MB, program: 0 });
    PhaseReport {
        name: name.into(),
        arrivals: Arrivals::Varying(Pattern::new([(15.0, 100e3), (10.0, 20e3)])),
        stopped: false,
        floor: Floor { rate: Some(100e3), p99_us: 60.0, p999_us: 110.0, cpu_us_per_op: 0.9 },
        seconds: SECONDS as f64,
        ops,
        throughput: ops as f64 / SECONDS as f64,
        tail_throughput: series.tail_throughput(),
        device_beside: None,
        all: None,
        reads: Some(percentiles(shape.slower * noise, tail)),
        writes: Some(percentiles(0.8 * shape.slower * noise, tail)),
        scans: None,
        kinds: Vec::new(),
        misses: 0,
        unserved: 0,
        stalls: series.stalls(),
        cpu_us_per_op: 8.4 * shape.slower.sqrt() * noise,
        amplification: Amplification::new(8_000 * MB, &store, device),
        store,
        settled: None,
        samples: samples(shape, &mut dice),
        jobs: jobs(shape, &mut dice),
        chains: chains(shape, &mut dice),
        series,
        ..PhaseReport::default()
    }
}

/// A whole run.
pub fn report(shape: &Shape, seed: u64) -> Report {
    let phase = phase(shape, "bursts", seed);
    let machine = Machine {
        cores: 2,
        cpu: "a processor".into(),
        memory: Some(16 << 30),
        system: "linux 6.1".into(),
    };
    let options = [("WAL", "buffered"), ("compression", "none"), ("jobs' I/O", "direct")];
    let method = Method {
        version: "0.1.0".into(),
        commit: "0123456789ab".into(),
        store: shape.store.into(),
        profile: shape.profile.into(),
        options: options.map(|(name, value)| (name.into(), value.into())).to_vec(),
        machine,
        pairs: 40_000_000,
        key_size: 24,
        value_size: 176,
        threads: 2,
        load: "inserted in random order".into(),
        seed,
        floor: Floor { rate: Some(100e3), p99_us: 60.0, p999_us: 110.0, cpu_us_per_op: 0.9 },
        command: "vlsm bench --workload burst --seconds 600".into(),
        ..Method::default()
    };
    Report {
        method,
        settled: Some(12.5),
        amplification: phase.amplification,
        store: phase.store.clone(),
        records: 36_000_000,
        peak_memory: Some(412 * MB),
        data: "removed".into(),
        phases: vec![phase],
        ..Report::default()
    }
}

/// The report of a run, with all of its phases.
pub fn report_of(shape: &Shape, run: &RunSpec) -> Report {
    let mut report = report(shape, run.seed);
    report.method.spec = Some(run.clone());
    let named = run.steps.iter().filter_map(|step| match step {
        Step::Phase(wanted) => Some(phase(shape, &wanted.name, run.seed)),
        _ => None,
    });
    report.phases = named.collect();
    report
}

/// Writes a test's output where a person can open it, and prints the path.
#[expect(clippy::disallowed_methods, reason = "for people, outside of any store")]
pub fn show(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the folder for tests can be written to");
    path
}
