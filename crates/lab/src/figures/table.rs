//! Every profile on the same work: the overview in docs/mechanisms.md, on an unlimited device and
//! on one of 200 MB/s.
//!
//! 1. The data, the pairs and the operations of each workload are its source's; so are rates where
//!    the source gives some (SILK's bursts, DLC's transactions). Else a store is asked for 70 % of
//!    its own maximum, which is measured before.
//! 2. Profiles keep their own sizes, at the scale. What plans with the device measures it where it
//!    is not limited, else it is told. DLC's transactions have the cache of that paper.
//! 3. It is an overview, not a figure of a paper: phases are shorter than a figure asks for, so
//!    that all of it is done in a few hours. How long they were and how full the levels is told and
//!    decides nothing; the claims of the papers are measured by their own figures.

use super::arms::{Arm, SHARE, limited};
use super::cruise::with_clients;
use super::dlc::{CACHED, WARM};
use super::measure::Measure;
use super::{Claim, Entry, Figure, Form, Named, Panel, Setting, Wanted, X};
use vlsm_core::BytesPerSec;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::{Limits, Offered, Step, StoreSpec};
use vlsm_measure::workload::Preset;

/// The two devices.
pub static FIGURES: &[Entry] = &[
    Entry { id: "table", title: "every profile, every workload", build: unlimited },
    Entry { id: "table-200", title: "the same on a device of 200 MB/s each way", build: slow },
];

/// Whether the figure of this name is an overview.
#[must_use]
pub fn is_overview(id: &str) -> bool {
    FIGURES.iter().any(|entry| entry.id == id)
}

/// Profiles of ours, in the order of the rows.
const PROFILES: [&str; 14] = [
    "vlsm",
    "vlsm-4",
    "rocksdb",
    "rocksdb-io",
    "rocksdb-debt64",
    "rocksdb-overflow64",
    "rocksdb-auto",
    "lsmi",
    "adoc",
    "silk",
    "vlsm+silk",
    "dlc",
    "cruise",
    "vlsm+cruise",
];
const PEER: &str = "RocksDB itself";

/// Bytes of pairs that are loaded, at the papers' size: a region of vLSM's testbed.
const BYTES: f64 = 17_500_000_000.0;
/// Seconds of the sources: of a round of SILK's bursts, of DLC's, of CruiseDB's mix.
const BURSTS: f64 = 700.0;
const PERIODIC: f64 = 1200.0;
const SUSTAINED: f64 = 600.0;
const MIXED: f64 = 320.0;

const LOAD: &str = "Load A, closed loop";
const LOAD_SHARE: &str = "Load A at 70 %";
const RUN_A: &str = "Run A, closed loop";
const RUN_A_SHARE: &str = "Run A at 70 %";
const SILK: &str = "SILK's bursts";
const DLC: &str = "DLC, periodic";
const CRUISE: &str = "CruiseDB, 50 % inserts";

/// What is taken from each workload, in the order of the panels.
const MEASURES: [Measure; 24] = [
    Measure::Throughput,
    Measure::TailThroughput,
    Measure::Unserved,
    Measure::WriteP50,
    Measure::WriteP99,
    Measure::WriteP999,
    Measure::WriteMax,
    Measure::ReadP50,
    Measure::ReadP99,
    Measure::ReadP999,
    Measure::ReadMax,
    Measure::P50,
    Measure::P99,
    Measure::P999,
    Measure::WorstP99,
    Measure::StallTime,
    Measure::LongestStall,
    Measure::StallPerOp,
    Measure::IoAmplification,
    Measure::WriteAmplification,
    Measure::ChainWidth,
    Measure::ChainLength,
    Measure::CpuPerOp,
    Measure::Memory,
];

/// The panel of a measure.
fn panel_of(measure: Measure) -> usize {
    MEASURES.iter().position(|known| *known == measure).expect("it is a column")
}

/// A run of the table, and which workload each of its phases is.
type Row = (Wanted, Vec<(&'static str, String)>);

/// A run over the pairs of a preset. A phase without a name is none of the table's.
fn run(
    setting: &Setting,
    (arm, limits): (&Arm, Limits),
    preset: &str,
    phases: Vec<(&'static str, Step)>,
) -> Row {
    let shape = Preset::named(preset).expect("the table names workloads that exist").shape;
    let pairs = (BYTES / shape.pair_bytes()) as u64;
    let name = |(workload, step): &(&'static str, Step)| match step {
        Step::Phase(phase) => (*workload, phase.name.clone()),
        _ => unreachable!("they are phases"),
    };
    let shown = phases.iter().filter(|(workload, _)| !workload.is_empty());
    let names = shown.map(name).collect();
    let steps = phases.into_iter().map(|(_, step)| step).collect();
    (limited(setting.run_shaped(arm, pairs, shape, steps), limits), names)
}

/// A phase with the arrivals of its source, for so many of the source's seconds.
fn of_source(setting: &Setting, name: &str, seconds: f64) -> Step {
    let preset = Preset::named(name).expect("the table names workloads that exist");
    let arrivals = preset.arrivals.expect("it has arrivals of its own");
    let offered = Offered::As(arrivals.scale(setting.scale.seconds(1.0)));
    setting.phase(name, name, offered, setting.scale.seconds(seconds).max(setting.seconds))
}

/// All runs of a store.
fn rows(setting: &Setting, arm: &Arm, limits: Limits) -> [Row; 5] {
    let seconds = setting.seconds;
    let closed = |name: &str, workload: &str, seconds: f64| {
        setting.phase(name, workload, Offered::As(Arrivals::Closed), seconds)
    };
    let share = |name: &str, workload: &str| {
        setting.phase(name, workload, Offered::OfMaximum(SHARE), 1.5 * seconds)
    };
    let of = |preset: &str, phases| run(setting, (arm, limits), preset, phases);
    let mixed = setting.scale.seconds(MIXED).max(seconds);
    // At a tenth of SILK's peak, a quarter of DLC's high load.
    let warm = |workload: &str, rate: f64| {
        let offered = Offered::As(Arrivals::Open(rate));
        ("", setting.phase("warm", workload, offered, setting.scale.seconds(WARM)))
    };
    let cached = arm.clone().map(|mut store| {
        store.cache = (setting.scale.count(BYTES as u64) as f64 * CACHED) as u64;
        store
    });
    let (mix, names) = of("cruise-get-50", vec![(CRUISE, closed("mix", "cruise-get-50", mixed))]);
    [
        of(
            "load",
            vec![(LOAD, closed("max", "load", seconds)), (LOAD_SHARE, share("load", "load"))],
        ),
        of(
            "a",
            vec![
                (RUN_A, closed("max", "a", seconds)),
                (RUN_A_SHARE, share("a", "a")),
                ("Run B, closed loop", closed("b max", "b", seconds)),
                ("Run B at 70 %", share("b", "b")),
                ("Run C at 70 %", share("c", "c")),
                ("Run D at 70 %", share("d", "d")),
            ],
        ),
        of("silk", vec![warm("silk", 2000.0), (SILK, of_source(setting, "silk", BURSTS))]),
        run(
            setting,
            (&cached, limits),
            "dlc",
            vec![
                warm("dlc", 300.0),
                (DLC, of_source(setting, "dlc", PERIODIC)),
                ("DLC, sustained", of_source(setting, "dlc-sustained", SUSTAINED)),
            ],
        ),
        (with_clients(mix), names),
    ]
}

fn table(setting: &Setting, limits: Limits) -> Figure {
    let mut panels: Vec<Panel> =
        MEASURES.iter().map(|measure| Panel::new(&measure.name(), Form::Bars, *measure)).collect();
    let told = |mut store: StoreSpec| {
        store.options.policy.device_bandwidth = BytesPerSec(limits.device.unwrap_or(0));
        store
    };
    let ours = PROFILES.into_iter().map(|profile| (profile, setting.profile(profile).map(told)));
    let peer = setting.peer("rocksdb", "papers", "rocksdb");
    for (series, arm) in ours.chain([(PEER, peer)]) {
        let phases = rows(setting, &arm, limits).into_iter();
        let phases =
            phases.flat_map(|(run, names)| names.into_iter().map(move |n| (run.clone(), n)));
        for (place, (run, (workload, phase))) in phases.enumerate() {
            let add = |panel: Panel| panel.point(series, X::name(place, workload), &run, &phase);
            panels = panels.into_iter().map(add).collect();
        }
    }
    Figure {
        says:
            "Each paper compares its system with others on its own work; here all of them are on \
               the same."
                .into(),
        here:
            "One region, two cores, one scale for all sizes and times; clients as many as in the \
               figures of each paper."
                .into(),
        panels,
        claims: claims(),
    }
}

/// The headline claims that this work can decide: what is compared, the store that has more of it,
/// the one that has less, on which workload, and how many times it is. Not those that compare SILK,
/// DLC or CruiseDB, whose profiles have more memory or another tree than RocksDB's: their own
/// figures give all stores the same.
const HEADLINES: [(&str, Measure, &str, &str, &str, f64); 5] = [
    (
        "vLSM: P99 of writes on Load A is up to 5.2 times below RocksDB's",
        Measure::WriteP99,
        "rocksdb-debt64",
        "vlsm",
        LOAD_SHARE,
        5.2,
    ),
    (
        "vLSM: P99 of writes on Run A is up to 4.8 times below RocksDB's",
        Measure::WriteP99,
        "rocksdb-debt64",
        "vlsm",
        RUN_A_SHARE,
        4.8,
    ),
    (
        "vLSM: P99 of reads on Run A is up to 12.5 times below RocksDB-IO's",
        Measure::ReadP99,
        "rocksdb-io",
        "vlsm",
        RUN_A_SHARE,
        12.5,
    ),
    (
        "vLSM: stalls on Load A, per insert, are 60 % less than RocksDB-IO's",
        Measure::StallPerOp,
        "rocksdb-io",
        "vlsm",
        LOAD,
        2.5,
    ),
    (
        "vLSM: its I/O amplification is no worse than RocksDB's",
        Measure::IoAmplification,
        "rocksdb-debt64",
        "vlsm",
        LOAD,
        1.0,
    ),
];

fn claims() -> Vec<Claim> {
    let at = |measure, series: &str, x: &str| Named::point(panel_of(measure), series, x);
    let compared = HEADLINES.into_iter().map(|(text, measure, more, less, workload, factor)| {
        let (more, less) = (at(measure, more, workload), at(measure, less, workload));
        Claim::at_least(text, measure, more, less, factor)
    });
    let stalls = at(Measure::StallTime, "silk", SILK);
    let none = Claim::value_at_most("SILK: no stalls in bursts", Measure::StallTime, stalls, 0.0);
    compared.chain([none]).collect()
}

fn unlimited(setting: &Setting) -> Figure {
    table(setting, Limits::default())
}

fn slow(setting: &Setting) -> Figure {
    table(setting, Limits { device: Some(200 << 20), memory: None })
}
