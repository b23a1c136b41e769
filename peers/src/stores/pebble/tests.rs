//! The Go program against the Rust code that it repeats: the same calls with the same bytes for
//! each preset, the same due times, the same percentiles; and a run whose answer is a report.

use super::*;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use vlsm_core::Bytes;
use vlsm_measure::arrivals::{Arrivals, Pattern, Replay, Sequence};
use vlsm_measure::driver::{self, Phase};
use vlsm_measure::metrics::{Kind, Latencies, Percentiles};
use vlsm_measure::spec::{Change, DataSpec, Limits, Offered, PhaseSpec, Step, StoreSpec};
use vlsm_measure::store::{Store, StoreResult, StoreStats, Write as StoreWrite};
use vlsm_measure::workload::data::{Data, KeyOrder, Shape, mix};
use vlsm_measure::workload::sizes::Sizes;
use vlsm_measure::workload::{Preset, Records, Workload};

/// Whether there is a program to test.
fn built() -> bool {
    program().inspect_err(|why| eprintln!("SKIPPED: pebble: {why}")).is_ok()
}

/// The answer of a command of the program to this input.
fn ask(command: &str, input: &Value) -> String {
    let mut asked = Command::new(program().unwrap());
    let mut child =
        asked.arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "pebble {command}");
    String::from_utf8(output.stdout).unwrap()
}

fn spec(shape: Shape, pairs: u64, steps: Vec<Step>) -> RunSpec {
    let mut options = vlsm::Options::default();
    options.compression = vec![vlsm::Compression::None];
    options.policy = vlsm_policy::profile::profile("rocksdb").unwrap();
    // Small, so that there are flushes and compactions.
    options.policy.tree.memtable_bytes = Bytes::kib(256);
    options.policy.tree.l1_bytes = Bytes::mib(1);
    let (kind, config) = ("pebble".into(), "sized".into());
    RunSpec {
        store: StoreSpec { kind, config, options, cache: 8 << 20, regions: 1 },
        data: DataSpec { pairs, shape },
        load: None,
        steps,
        threads: 2,
        limits: Limits::default(),
        seed: 77,
        dir: None,
    }
}

fn phase(workload: Workload, offered: Offered, ops: Option<u64>, seconds: Option<f64>) -> Step {
    let name = workload.name.clone();
    Step::Phase(PhaseSpec { name, workload, offered, ops, seconds, interval: 0.1 })
}

/// A store that writes down what is asked of it, as `pebble ops` does.
#[derive(Default)]
struct Recorder(Mutex<String>);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

impl Recorder {
    fn note(&self, line: &str) -> StoreResult<()> {
        self.0.lock().push_str(&format!("{line}\n"));
        Ok(())
    }
}

impl Store for Recorder {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.note(&format!("put {} {}", hex(key), hex(value)))
    }
    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>> {
        self.note(&format!("get {}", hex(key))).map(|()| Some(0))
    }
    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.note(&format!("delete {}", hex(key)))
    }
    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize> {
        self.note(&format!("scan {} {limit}", hex(start))).map(|()| limit)
    }
    fn write(&self, writes: &[StoreWrite<'_>]) -> StoreResult<()> {
        let each = writes.iter().map(|write| match write {
            StoreWrite::Put(key, value) => format!(" put {} {}", hex(key), hex(value)),
            StoreWrite::Delete(key) => format!(" delete {}", hex(key)),
        });
        self.note(&format!("batch{}", each.collect::<String>()))
    }
    fn settle(&self, _limit: Duration, _give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        Ok(true)
    }
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

/// Compares the calls of a workload's first operations. The order of two clients is chance.
fn same_calls(name: &str, workload: &Workload, shape: Shape, pairs: u64, threads: usize) {
    let ops = Some(4000 / threads as u64 * threads as u64);
    let closed = Offered::As(Arrivals::Closed);
    let step = phase(workload.clone(), closed, ops, None);
    let mut spec = RunSpec { threads, ..spec(shape, pairs, vec![step]) };
    spec.store.regions = 3;
    let data = Data::shaped(shape, spec.seed);
    let drive = Phase {
        workload: workload.clone(),
        arrivals: Arrivals::Closed,
        threads,
        ops,
        seconds: None,
        seed: spec.seed,
        interval: 1.0,
    };
    let (store, records) = (Recorder::default(), Arc::new(Records::new(pairs)));
    let stop = AtomicBool::new(false);
    let outcome = driver::run(&store, &data, &records, &drive, &stop, &mut |_| ());
    assert!(outcome.error.is_none());
    for split in spec.splits() {
        store.note(&format!("split {}", hex(&split))).unwrap();
    }
    let (ours, theirs) = (store.0.into_inner(), ask("ops", &json!(spec)));
    let (mut ours, mut theirs): (Vec<_>, Vec<_>) =
        (ours.lines().collect(), theirs.lines().collect());
    if threads > 1 {
        ours.sort_unstable();
        theirs.sort_unstable();
    }
    assert!(ours.len() >= 4000, "{name}: {} calls", ours.len());
    assert_eq!(ours.len(), theirs.len(), "{name}");
    let differs = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
    if let Some(at) = differs {
        panic!("{name}, call {at}: {} in Rust, {} in Go", ours[at], theirs[at]);
    }
}

#[test]
fn every_preset_makes_the_same_calls() {
    if !built() {
        return;
    }
    for preset in Preset::all() {
        for pairs in [1000, 1_000_000] {
            same_calls(&preset.name, &preset.workload, preset.shape, pairs, 1);
        }
        // Inserts of two clients take numbers from one counter, so their values are chance.
        if preset.workload.inserts == 0.0 {
            same_calls(&preset.name, &preset.workload, preset.shape, 1000, 2);
        }
    }
}

#[test]
fn every_shape_of_records_has_the_same_bytes() {
    if !built() {
        return;
    }
    let workload = Workload {
        reads: 40.0,
        missing_reads: 10.0,
        updates: 40.0,
        scans: 10.0,
        ..Workload::default()
    };
    let sizes = [
        Sizes::Fixed(0),
        Sizes::Uniform(1, 1000),
        Sizes::Halves(250, 400, 1024),
        Preset::named("mixgraph").unwrap().shape.values,
    ];
    for key_size in [8, 16, 23, 24, 48] {
        for order in [KeyOrder::Hashed, KeyOrder::Sequential] {
            for values in sizes {
                for compressible in [0, 50] {
                    let shape = Shape { key_size, values, order, compressible };
                    same_calls(&format!("{shape:?}"), &workload, shape, 5000, 1);
                }
            }
        }
    }
}

#[test]
fn requests_are_due_at_the_same_nanoseconds() {
    if !built() {
        return;
    }
    let pattern = Pattern::new([(0.5, 2000.0), (0.25, 0.0), (1.5, 33.3)]);
    let poisson = Pattern { poisson: true, ..pattern.clone() };
    let mut all = vec![
        Arrivals::Open(12_345.6),
        Arrivals::Poisson(70_000.0),
        Arrivals::Varying(pattern),
        Arrivals::Varying(poisson),
    ];
    all.extend(Preset::all().iter().filter_map(|preset| preset.arrivals.clone()));
    for arrivals in all {
        let (seed, seconds) = (9, 30.0);
        let sequence = Sequence::new(&arrivals, 1 << 62, Some(seconds), None, seed).unwrap();
        let requests: Vec<u64> = (0..2000).chain((0..200).map(|n| n * 12_347)).collect();
        let nanos: Vec<u64> = (0..300).map(|n| n * 123_456_789).collect();
        let theirs: Value = serde_json::from_str(&ask(
            "due",
            &json!({ "arrivals": arrivals, "seed": seed, "seconds": seconds,
                     "requests": requests, "nanos": nanos }),
        ))
        .unwrap();
        let due: Vec<u64> = requests.iter().map(|&index| sequence.due(index)).collect();
        let backlog: Vec<u64> = nanos.iter().map(|&now| sequence.backlog(now)).collect();
        assert_eq!(theirs["total"], json!(sequence.total()), "{arrivals}");
        assert_eq!(theirs["due"], json!(due), "{arrivals}");
        assert_eq!(theirs["backlog"], json!(backlog), "{arrivals}");
    }
}

#[test]
fn the_same_latencies_have_the_same_percentiles() {
    if !built() {
        return;
    }
    for count in [1, 2, 10, 1000, 200_000_u64] {
        // From nanoseconds to more than an hour.
        let nanos: Vec<u64> = (0..count).map(|n| mix(n) >> (20 + mix(n + 7) % 43)).collect();
        let mut latencies = Latencies::default();
        nanos.iter().for_each(|&nanos| latencies.record(Kind::Update, nanos));
        let ours = Percentiles::of(latencies.of(Kind::Update).unwrap()).unwrap();
        let theirs: Percentiles = serde_json::from_str(&ask("percentiles", &json!(nanos))).unwrap();
        assert_eq!(ours, theirs, "{count} latencies");
    }
}

/// Whether all of `part` is in `whole`, with the same values; names what is not.
fn within(part: &Value, whole: &Value, path: &str) -> Result<(), String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().try_for_each(|(name, value)| {
            within(value, whole.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"))
        }),
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => part
            .iter()
            .zip(whole)
            .enumerate()
            .try_for_each(|(n, (part, whole))| within(part, whole, &format!("{path}[{n}]"))),
        _ if part == whole => Ok(()),
        // Rust writes a float with a point, Go without one if it is whole.
        _ if part.is_number() && part.as_f64() == whole.as_f64() => Ok(()),
        _ => Err(format!("{path}: {part} became {whole}")),
    }
}

#[test]
fn a_run_ends_with_a_report() {
    if !built() {
        return;
    }
    let named = |name| Workload::named(name).unwrap();
    let shape = Preset::named("silk").unwrap().shape;
    let pattern = Pattern::new([(0.2, 100.0), (0.1, 10.0)]);
    let steps = vec![
        phase(named("load"), Offered::As(Arrivals::Closed), Some(50_000), None),
        Step::Settle(60.0),
        phase(named("silk"), Offered::As(Arrivals::Closed), Some(5000), None),
        phase(named("silk"), Offered::OfMaximum(0.1), None, Some(0.5)),
        phase(named("silk"), Offered::PatternOfMaximum(0.1, pattern), None, Some(0.5)),
        Step::Reopen(Change { l0_trigger: Some(1), memtable: Some(Bytes::mib(1)) }, 60.0),
        phase(named("dlc"), Offered::As(Arrivals::Poisson(200.0)), None, Some(0.5)),
    ];
    for regions in [1, 3] {
        let mut spec = spec(shape, 50_000, steps.clone());
        spec.store.regions = regions;
        let folder = tempfile::tempdir().unwrap();
        let mut lines = Vec::new();
        let stop = AtomicBool::new(false);
        let (report, failure) =
            run(&spec, folder.path(), &stop, &mut |line| lines.push(line.clone()));
        assert_eq!(failure, None);
        check_report(&report, &spec);
        let begun = lines.iter().filter_map(|line| match line {
            Line::Step(name, number, 7) => Some((name.as_str(), *number)),
            _ => None,
        });
        let names = [
            "Load A",
            "waiting for background work to end",
            "silk",
            "silk",
            "silk",
            "opening it again",
            "dlc",
        ];
        assert!(begun.eq(names.into_iter().zip(0..)), "{lines:?}");
    }
}

fn check_report(report: &Report, spec: &RunSpec) {
    assert_eq!(report.method.spec.as_ref(), Some(spec));
    assert_eq!((report.records, report.phases.len()), (50_000, 5));
    assert!(report.peak_memory > Some(1 << 20) && report.settled.is_some());
    let regions = spec.store.regions.to_string();
    let option = |name: &str| {
        let options = report.method.options.iter().find(|(known, _)| known == name);
        options.map_or("", |(_, value)| value.as_str())
    };
    assert!(option("regions").contains(&regions) || regions == "1");
    assert!(option("WAL").contains("before write()") && option("version").starts_with('v'));
    let load = &report.phases[0];
    assert_eq!((load.ops, load.stopped, load.misses), (50_000, false, 0));
    let written = load.amplification.user_bytes;
    assert!((25_000_000..36_000_000).contains(&written), "{written}");
    assert!(load.store.wal_bytes > written && load.store.flush_bytes > written / 2);
    assert!(load.jobs.iter().any(|job| job.kind == "flush" && job.end > job.start));
    assert!(load.jobs.iter().any(|job| job.kind == "compact" && job.to > job.from));
    let (moved, paid) = (load.settled.expect("the run waited"), load.paid.expect("the same"));
    assert!(paid.ops == 50_000 && paid.seconds >= load.seconds && paid.cpu_nanos > 0);
    assert!(
        moved.store_written >= load.amplification.store_written && moved.store_written > written
    );
    assert!(load.samples.len() > 1 && load.samples.iter().any(|sample| sample.l0_runs > 0));
    assert!(load.samples.iter().all(|sample| sample.pending.is_some()));
    let silk = &report.phases[1];
    assert_eq!((silk.misses, silk.kinds.len(), silk.ops), (0, 3, 5000));
    let count = |part: Option<&Percentiles>| part.map_or(0, |part| part.count);
    let parts = [&silk.reads, &silk.writes, &silk.scans].map(|part| count(part.as_ref()));
    assert_eq!(parts.iter().sum::<u64>(), 5000);
    let offered = silk.throughput * 0.1;
    for open in &report.phases[2..4] {
        assert_eq!(open.unserved, 0);
        assert!((open.arrivals.peak().unwrap() / offered - 1.0).abs() < 1e-9);
        assert!(open.floor.rate == open.arrivals.peak() && open.floor.p999_us > 0.0);
    }
    assert_eq!(report.phases[2].ops, (0.5 * offered).ceil() as u64);
    let dlc = &report.phases[4];
    assert_eq!((dlc.kinds.len(), dlc.misses), (1, 0));
    assert!(report.store.disk_bytes > written / 2);
}

#[test]
fn nothing_of_the_answer_is_lost() {
    if !built() {
        return;
    }
    let workload = Workload::named("a").unwrap();
    let closed = Offered::As(Arrivals::Closed);
    let spec = spec(Shape::default(), 1000, vec![phase(workload, closed, None, Some(0.35))]);
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(program().unwrap());
    child.arg("child").arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    // A field of a later version is no reason to refuse the run.
    let mut text = json!(spec);
    text["of_a_later_version"] = json!({ "debt": 1.2 });
    let mut child = child.stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let read: Answer = serde_json::from_value(told.clone()).unwrap();
    let mut told = told;
    // The specification comes back as it was, with what the program does not know.
    let spec = told["report"]["method"].as_object_mut().unwrap().remove("spec");
    assert_eq!(spec, Some(text));
    within(&told, &json!(read), "").unwrap();
    assert!(told["report"]["phases"][0]["series"].as_array().unwrap().len() > 1);
}

#[test]
fn a_stop_ends_a_run_with_its_report() {
    if !built() {
        return;
    }
    let closed = Offered::As(Arrivals::Closed);
    let workload = Workload::named("load").unwrap();
    let spec = spec(Shape::default(), 1000, vec![phase(workload, closed, None, Some(600.0))]);
    let (folder, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let (report, failure) = run(&spec, folder.path(), &stop, &mut |line| {
        stop.fetch_or(matches!(line, Line::Going(..)), Relaxed);
    });
    assert_eq!(failure, None);
    assert!(report.phases[0].stopped && report.phases[0].ops > 0);
    assert!(report.phases[0].seconds < 60.0);
}

#[test]
fn what_cannot_be_done_is_a_failure_with_its_reason() {
    if !built() {
        return;
    }
    let (folder, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let workload = Workload::named("a").unwrap();
    let fails = |spec: &RunSpec| {
        let (report, failure) = run(spec, folder.path(), &stop, &mut |_| ());
        assert_eq!(report.method.store, "pebble");
        failure.expect("it fails")
    };
    let asks =
        |offered| spec(Shape::default(), 10, vec![phase(workload.clone(), offered, Some(9), None)]);
    let mut unknown = asks(Offered::As(Arrivals::Closed));
    unknown.store.config = "siced".into();
    assert_eq!(fails(&unknown), "pebble has no configuration \"siced\": default, sized");
    let mut compressed = asks(Offered::As(Arrivals::Closed));
    compressed.store.options.compression = vec![vlsm::Compression::Lz4];
    assert!(fails(&compressed).contains("without compression"));
    assert!(fails(&asks(Offered::OfMaximum(0.5))).contains("a closed-loop phase before it"));
    let too_fast = fails(&asks(Offered::As(Arrivals::Open(1e9))));
    assert!(too_fast.contains("more than the driver in Go can offer"), "{too_fast}");
    let path = folder.path().join("no trace");
    let replay = Offered::As(Arrivals::Replay(Replay { path, speed: 1.0 }));
    assert!(fails(&asks(replay)).contains("no trace"));
}

/// Operations on our engine are recorded and replayed: all of them, at their times.
#[test]
fn a_trace_is_replayed() {
    if !built() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let db = vlsm::Db::open(folder.path().join("recorded")).unwrap();
    db.start_trace(&trace).unwrap();
    for n in 0..300_u32 {
        db.put(format!("key{n}"), vec![7; n as usize]).unwrap();
        assert!(db.get(format!("key{n}")).unwrap().is_some());
    }
    db.delete("key7").unwrap();
    assert_eq!(db.end_trace().unwrap(), 601);
    db.close().unwrap();
    let replay = Offered::As(Arrivals::Replay(Replay { path: trace, speed: 2.0 }));
    let spec = spec(Shape::default(), 1, vec![phase(Workload::trace(), replay, None, None)]);
    // Two clients could overtake each other.
    let spec = RunSpec { threads: 1, ..spec };
    let stop = AtomicBool::new(false);
    let (report, failure) = run(&spec, &folder.path().join("store"), &stop, &mut |_| ());
    assert_eq!(failure, None);
    let kinds: Vec<_> =
        report.phases[0].kinds.iter().map(|(name, all)| (name.as_str(), all.count)).collect();
    assert_eq!(kinds, [("reads", 300), ("updates", 300), ("deletes", 1)]);
    assert_eq!((report.phases[0].misses, report.phases[0].unserved), (0, 0));
}
