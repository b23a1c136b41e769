//! A report of known figures, as a table and as JSON.

use vlsm_core::Bytes;
use vlsm_lab::figures::measure::Measure;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::metrics::{Percentiles, Point, Series, Stalls};
use vlsm_measure::process::{Device, Machine};
use vlsm_measure::report::{
    Amplification, ChainMark, Floor, Method, Paid, PhaseReport, Report, Sample, table,
};
use vlsm_measure::store::{LevelStats, StoreStats, VsstStats, WaitStats};
use vlsm_policy::Counters;

fn percentiles(factor: f64) -> Percentiles {
    Percentiles {
        count: 1000,
        mean_us: 3.0 * factor,
        p50_us: 2.5 * factor,
        p90_us: 5.0 * factor,
        p99_us: 120.0 * factor,
        p999_us: 1_500.0 * factor,
        p9999_us: 20_000.0 * factor,
        max_us: 1_250_000.0 * factor,
    }
}

fn store() -> StoreStats {
    let wait = |cause: &str, count| WaitStats {
        cause: cause.into(),
        count,
        total_us: count * 1500,
        longest_us: 9000,
    };
    StoreStats {
        wal_bytes: 1_050_000,
        flush_bytes: 1_000_000,
        compaction_read: 4_000_000,
        compaction_written: 3_950_000,
        chains: 3,
        chain_length: 2,
        chain_width: 96 << 20,
        chain_bytes: 150 << 20,
        chain_waited_us: 250_000,
        widest_job: 72 << 20,
        vssts: VsstStats { into: 200, good_by_count: 174, good_by_ratio: 2, out: 150, poor: 3 },
        waits: vec![wait("memtable full", 12), wait("level debt", 0)],
        levels: vec![
            LevelStats { tables: 2, bytes: 16 << 20, ..LevelStats::default() },
            LevelStats { tables: 10, bytes: 64 << 20, good_by_count: 9, ..LevelStats::default() },
            LevelStats {
                tables: 40,
                bytes: 320 << 20,
                target: Some(400 << 20),
                ..LevelStats::default()
            },
        ],
        disk_bytes: 1_100_000,
        ..StoreStats::default()
    }
}

fn method() -> Method {
    let machine = Machine {
        cores: 2,
        cpu: "a processor".into(),
        memory: Some(16 << 30),
        system: "linux 6.1".into(),
    };
    Method {
        version: "0.1.0".into(),
        store: "vlsm".into(),
        profile: "vlsm".into(),
        options: vec![("durability".into(), "buffered".into())],
        machine,
        pairs: 5000,
        key_size: 24,
        value_size: 176,
        threads: 2,
        load: "inserted in random order".into(),
        seed: 1,
        floor: Floor { rate: None, p99_us: 0.4, p999_us: 1.2, cpu_us_per_op: 0.3 },
        ..Method::default()
    }
}

fn report() -> Report {
    let store = store();
    let device = Some(Device { read: 4_000_000, written: 6_050_000, program: 0 });
    let amplification = Amplification::new(1_000_000, &store, device);
    let phase = PhaseReport {
        name: "Load A".into(),
        arrivals: Arrivals::Closed,
        stopped: false,
        seconds: 12.5,
        ops: 2_500_000,
        throughput: 200_000.0,
        tail_throughput: Some(150_000.0),
        device_beside: None,
        all: None,
        reads: None,
        writes: Some(percentiles(1.0)),
        scans: None,
        kinds: Vec::new(),
        misses: 0,
        unserved: 0,
        stalls: Stalls { seconds: 2.0, count: 1, longest: 2.0 },
        cpu_us_per_op: 5.25,
        amplification,
        store: store.clone(),
        series: Series(vec![Point { seconds: 1.0, ops: 200_000, ..Point::default() }]),
        block: Some(Device { read: 5 << 20, written: 7 << 20, program: 0 }),
        ..PhaseReport::default()
    };
    let run = PhaseReport {
        name: "Run A".into(),
        arrivals: Arrivals::Open(100_000.0),
        stopped: true,
        reads: Some(percentiles(0.5)),
        misses: 7,
        stalls: Stalls::default(),
        chains: vec![
            ChainMark { at: 0.5, stages: vec![(0, 1 << 20), (1, 2 << 20)], waited: None },
            ChainMark { at: 1.5, stages: vec![(0, 1 << 20)], waited: Some(0.1) },
        ],
        store: StoreStats::default(),
        amplification: Amplification::default(),
        ..phase.clone()
    };
    Report {
        method: method(),
        phases: vec![phase, run],
        settled: Some(1.5),
        sustainable: None,
        amplification,
        store,
        records: 5000,
        peak_memory: Some(200 << 20),
        data: "removed".into(),
    }
}

#[test]
fn the_table_says_what_was_measured_and_how() {
    let table = table::render(&report());
    for expected in [
        "vlsm 0.1.0, profile vlsm",
        "5,000 pairs of 24 + 176 bytes",
        "200,000/s",
        "2 s, longest 2 s",
        "writes P99.99                            20.0 ms               20.0 ms",
        "reads P99                                      –               60.0 µs",
        "6.00 (6.05 system)",
        "10.00 (10.05 system)",
        "agree (-0.5 %)",
        "12 × 1.5 ms",
        "widest 96.0 MB, longest 2 stages, 250.0 ms",
        "L0 16.0 MB in 2 · L1 64.0 MB in 10 · L2 320.0 MB in 40",
        "of their targets    L2 80 %",
        "chains behind L0, widest                       –               3.00 MB",
        "chains behind L0, longest                      –                     2",
        "good SSTs of L1     90 % by count, 0 % by ratio",
        "SSTs into L1        200: 87 % good by count, 1 % by ratio",
        "SSTs out of L1      150: 2 % poor",
        "widest compaction   72.0 MB",
        "space amplification 1.10",
        "open, 100,000/s",
        "12.5 s (stopped)",
        "device bytes (kernel, all)       5.0 MB + 7.0 MB",
    ] {
        assert!(table.contains(expected), "{expected:?} is not in\n{table}");
    }
    assert!(!table.contains("level debt") && !table.contains("scans"));
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
}

fn measure(name: &str) -> Measure {
    Measure::try_from(name.to_owned()).expect("it is in the table")
}

#[test]
fn percentiles_are_those_of_all_operations_where_a_report_has_them() {
    let mut phase = report().phases.remove(1);
    phase.writes = Some(Percentiles { count: 57, ..percentiles(1.0) });
    phase.reads = Some(Percentiles { count: 43, ..percentiles(0.5) });
    phase.all = Some(percentiles(0.8));
    assert_eq!(measure("P99").of(&phase), Some(percentiles(0.8).p99_us));
    let mut older = serde_json::to_value(&phase).expect("it has an encoding");
    older.as_object_mut().expect("a phase has fields").remove("all");
    let older: PhaseReport = serde_json::from_value(older).expect("it can still be read");
    assert_eq!(measure("P99").of(&older), Some(percentiles(1.0).p99_us), "of what was most asked");
}

#[test]
fn work_that_a_phase_left_counts_where_it_is_paid() {
    let mut phase = report().phases.remove(0);
    let [rate, cpu] = ["throughput, debt paid", "CPU per operation, debt paid"].map(measure);
    assert_eq!((rate.of(&phase), cpu.of(&phase)), (None, None), "nobody waited for it");
    phase.paid = Some(Paid { ops: phase.ops, seconds: 25.0, cpu_nanos: 20_000_000_000 });
    assert_eq!((rate.of(&phase), cpu.of(&phase)), (Some(100_000.0), Some(8.0)));
    assert!(rate.despite_debt(&phase) && !measure("throughput").despite_debt(&phase));
    let amplification = measure("I/O amplification");
    assert!(!amplification.despite_debt(&phase));
    phase.settled = Some(phase.amplification);
    assert!(amplification.despite_debt(&phase));
}

#[test]
fn the_kernels_counters_are_taken_less_what_jobs_read() {
    let mut phase = report().phases.remove(0);
    assert_eq!(measure("device traffic by the kernel").of(&phase), Some((12 << 20) as f64 / 12.5));
    let sample = |at: f64, read: u64, jobs: u64| Sample {
        at,
        block: Some(Device { read, ..Device::default() }),
        counters: Some(Counters { job_read_bytes: Bytes(jobs), ..Counters::default() }),
        ..Sample::default()
    };
    phase.samples = vec![sample(0.0, 0, 500), sample(2.0, 900, 600), sample(4.0, 1_000, 900)];
    let reads = measure("device reads of clients by the kernel").over_time(&phase);
    assert_eq!(reads, [(2.0, 400.0), (4.0, 0.0)]);
}

#[test]
fn an_interval_with_few_requests_has_no_percentile() {
    let point = |ops: u64, counted: u64, p99: Option<f64>| Point {
        seconds: 1.0,
        ops,
        counted,
        all_p99_us: p99,
        ..Point::default()
    };
    let mut phase = report().phases.remove(0);
    let points = [point(600, 0, None), point(500, 1_100, Some(9.0)), point(0, 0, None)];
    phase.series = Series([&points[..], &[point(2_000, 2_000, Some(3.0))]].concat());
    assert_eq!(measure("largest P99 of an interval").of(&phase), Some(9.0));
    assert_eq!(measure("mean P99 of the intervals").of(&phase), Some(6.0));
    assert_eq!(measure("P99").over_time(&phase), [(2.0, 9.0), (4.0, 3.0)]);
    assert_eq!(measure("throughput").over_time(&phase).len(), 4, "every interval has one");
    phase.series.0.truncate(1);
    assert_eq!(measure("largest P99 of an interval").of(&phase), None);
}

#[test]
fn waits_are_told_apart_by_their_cause() {
    let mut phase = report().phases.remove(0);
    for (cause, count) in [("wal queue", 100), ("wal sync", 10), ("L0 bound", 5)] {
        phase.store.waits.push(WaitStats { cause: cause.into(), count, ..WaitStats::default() });
    }
    assert_eq!(measure("writes that waited for a full memtable").of(&phase), Some(12.0));
    assert_eq!(measure("writes that were stopped or delayed").of(&phase), Some(17.0));
}

#[test]
fn ssts_of_l1_are_counted_as_they_come_and_go() {
    let mut phase = report().phases.remove(0);
    assert_eq!(measure("good SSTs into L1, by count").of(&phase), Some(0.87));
    assert_eq!(measure("good SSTs into L1, by ratio of bytes").of(&phase), Some(0.01));
    assert_eq!(measure("poor SSTs out of L1").of(&phase), Some(0.02));
    let before = VsstStats { into: 100, good_by_count: 100, good_by_ratio: 2, out: 100, poor: 2 };
    phase.store.vssts = phase.store.vssts.since(&before);
    assert_eq!(measure("good SSTs into L1, by count").of(&phase), Some(0.74));
    assert_eq!(measure("poor SSTs out of L1").of(&phase), Some(0.02));
    phase.store.vssts = VsstStats::default();
    assert_eq!(measure("poor SSTs out of L1").of(&phase), None, "nothing is not zero");
    assert_eq!(measure("L1 in targets").of(&phase), None, "L1 has no target there");
    phase.store.levels[1].target = Some(64 << 20);
    let sample = |mb: u64| Sample { levels: vec![0, mb << 20], ..Sample::default() };
    phase.samples = vec![sample(32), sample(64)];
    assert_eq!(measure("L1 in targets").of(&phase), Some(0.75));
}

#[test]
fn a_report_survives_json() {
    let report = report();
    let read: Report = serde_json::from_str(&report.to_json().expect("it has an encoding"))
        .expect("it can be read back");
    assert_eq!(read, report);
}

#[test]
fn counters_that_disagree_are_pointed_out() {
    let mut report = report();
    report.amplification.store_written += 1_000_000;
    assert!(table::render(&report).contains("DISAGREE"));
    // Bytes that the system counts by its rounding are no disagreement, in one direction and up to
    // their limit.
    let told = |change: fn(&mut vlsm_measure::report::Amplification)| {
        let mut report = self::report();
        change(&mut report.amplification);
        table::render(&report).contains("DISAGREE")
    };
    assert!(told(|amp| amp.store_written -= 1_000_000));
    assert!(!told(
        |amp| (amp.store_written, amp.rounding) = (amp.store_written - 1_000_000, 1_000_000)
    ));
    assert!(told(
        |amp| (amp.store_written, amp.rounding) = (amp.store_written - 1_000_000, 100_000)
    ));
    assert!(told(
        |amp| (amp.store_written, amp.rounding) = (amp.store_written + 1_000_000, 1_000_000)
    ));
    // Neither are bytes that the page cache kept from the device, in the other direction.
    assert!(!told(|amp| (amp.store_read, amp.cached) = (amp.store_read + 1_000_000, 1_000_000)));
    assert!(told(|amp| (amp.store_read, amp.cached) = (amp.store_read + 1_000_000, 100_000)));
    assert!(told(|amp| (amp.store_written, amp.cached) = (amp.store_written + 90_000_000, 1_000)));
    assert!(table::render(&Report::default()).contains("whole run"), "nothing is no panic");
}

#[test]
fn reads_that_open_ssts_are_a_share_of_what_clients_read() {
    let mut report = report();
    assert!(!table::render(&report).contains("reads that open SSTs"));
    for phase in &mut report.phases {
        (phase.store.read_bytes, phase.store.open_bytes) = (4_000, 3_000);
    }
    // The first phase only writes.
    assert_eq!(
        report.phases.iter().map(|phase| phase.opening()).collect::<Vec<_>>()[..2],
        [None, Some(0.75)]
    );
    assert!(table::render(&report).contains("75 % of bytes"));
}

#[test]
fn counters_are_subtracted_and_maxima_stay() {
    let after = report().store;
    let mut before = after.clone();
    before.chains = 1;
    before.waits[0].count = 2;
    before.disk_bytes = 5;
    let since = after.since(&before);
    assert_eq!((since.chains, since.wal_bytes, since.waits[0].count), (2, 0, 10));
    assert_eq!((since.chain_width, since.disk_bytes), (after.chain_width, after.disk_bytes));
}
