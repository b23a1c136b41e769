//! The figures of SILK (silk.txt). No commit log and no compression, as there (§6.1), which our
//! engine has as durability `no-wal`; 128 MB memtables.
//!
//! TRIAD and PebblesDB are not built: their series say so. What the paper shows of TRIAD-SILK is
//! asked of SILK, whose results it says are similar.

use super::arms::{Arm, limited, with_durability};
use super::dlc::WARM;
use super::measure::Measure;
use super::{Claim, Entry, Figure, Form, Named, Panel, Setting, Wanted, X};
use vlsm::Durability;
use vlsm_core::{Bytes, BytesPerSec};
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::{Change, Limits, Offered, Step};
use vlsm_measure::workload::Preset;

/// In the order of the paper.
pub static FIGURES: &[Entry] = &[
    Entry { id: "silk-1", title: "RocksDB with and without internal work", build: figure_1 },
    Entry { id: "silk-2", title: "RocksDB: jobs during a spike, L0 full", build: figure_2 },
    Entry { id: "silk-3", title: "RocksDB: jobs during a spike, slow flush", build: figure_3 },
    Entry { id: "silk-4", title: "RocksDB with limited internal bandwidth", build: figure_4 },
    Entry { id: "silk-5", title: "TRIAD: P99 over time", build: figure_5 },
    Entry { id: "silk-6", title: "PebblesDB: P99 over time", build: figure_6 },
    Entry {
        id: "silk-8",
        title: "SILK in production-like and long peaks; its parts",
        build: figure_8,
    },
    Entry {
        id: "silk-9",
        title: "delayed flushes and stalls in production-like load",
        build: figure_9,
    },
    Entry { id: "silk-10", title: "SILK over a long production-like load", build: figure_10 },
    Entry { id: "silk-11", title: "SILK: bandwidth of internal work over time", build: figure_11 },
    Entry { id: "silk-12", title: "YCSB: throughput with and without SILK", build: figure_12 },
    Entry { id: "silk-13", title: "YCSB: P50 and P99 with and without SILK", build: figure_13 },
];

/// Pairs loaded: as many bytes as a region of vLSM's testbed has. The paper's 500 GB have one or
/// two levels more.
const BYTES: u64 = 17_500_000_000;
/// The rate of §4.
const RATE: f64 = 18_000.0;
/// "The total I/O bandwidth allocated to the LSM KV store" (§6.1), by half: what SILK and the
/// auto-tuned limiter plan with, which count bytes written by jobs. The paper's 500 GB have two
/// levels more, so each byte is written about twice as often; with all of its 200 MB/s compactions
/// never wait for each other, and RocksDB's shape, the auto-tuned limiter and SILK are alike.
const ALLOCATED: u64 = 100 << 20;
/// What the drive of §6.1 (Samsung 843T, SATA) reads and writes in a second, each, by half.
const DRIVE: u64 = 250 << 20;
/// What SILK leaves flushes and L0 at least (§6.1), by half.
const FLOOR: u64 = 25 << 20;
/// The peak of §6.4 where half are reads: 40 k/s would take all of both cores here.
const HALF_READS: f64 = 20_000.0;

/// What is different in the figures of §6.
const HERE: &str = "17.5 GB instead of 500, with one or two levels less, so half of the \
                    bandwidth: a drive of 250 MB/s each way, 100 of which SILK plans with.";

/// A store set up as §6.1 has it: 128 MB memtables, L0 without limits, four internal threads with
/// the one that flushes, and what is allocated for those that plan with it. vLSM, ours beside,
/// keeps its own sizes.
fn store(setting: &Setting, profile: &str) -> Arm {
    let arm = setting.profile(profile).map(|mut store| {
        store.options.workers = 4;
        if profile != "vlsm" {
            let policy = &mut store.options.policy;
            policy.memtable_bytes = setting.scale.bytes(Bytes::mib(128));
            (policy.l0_slowdown, policy.l0_stop, policy.l0_max) = (10_000, 10_000, 10_000);
            policy.compaction_jobs = 3;
            policy.device_bandwidth = BytesPerSec(ALLOCATED);
            policy.silk.floor = BytesPerSec(FLOOR);
        }
        store
    });
    with_durability(arm, Durability::NoWal)
}

/// RocksDB as §4 has it: ten internal operations at once.
fn studied(setting: &Setting, profile: &str) -> Arm {
    store(setting, profile).map(|mut store| {
        store.options.workers = 10;
        store.options.policy.compaction_jobs = 0;
        store
    })
}

fn not_built(what: &str) -> Wanted {
    Err(format!("{what} is not built yet"))
}

/// The load of a preset over a store: loaded with its shape of pairs, then these phases.
fn preset_run(setting: &Setting, arm: &Arm, preset: &str, phases: Vec<Step>) -> Wanted {
    let preset = Preset::named(preset).expect("figures name workloads that exist");
    let pairs = (BYTES as f64 / preset.shape.pair_bytes()) as u64;
    let limits = Limits { device: Some(DRIVE), memory: None };
    limited(setting.run_shaped(arm, pairs, preset.shape, phases), limits)
}

/// Seconds of a steady phase: five minutes in three rounds, because a store without internal work
/// has no chains.
fn steady_seconds(setting: &Setting) -> f64 {
    setting.long_enough(3.0 * setting.seconds)
}

/// 50:50 reads and writes at 18 k/s (§4), phase `rate`.
fn steady(setting: &Setting, arm: &Arm) -> Wanted {
    let offered = Offered::As(Arrivals::Poisson(RATE));
    let phases = vec![setting.phase("rate", "silk-50w-10", offered, steady_seconds(setting))];
    let preset = Preset::named("silk-50w-10").expect("it is known");
    let pairs = (BYTES as f64 / preset.shape.pair_bytes()) as u64;
    setting.run_shaped(arm, pairs, preset.shape, phases)
}

/// A preset with its own arrivals at this scale, for so many of the paper's seconds: phase
/// `bursts`. Before it `warm`, or a cold cache would be the worst second: the same at a tenth of
/// the peak.
fn bursts(setting: &Setting, arm: &Arm, name: &str, seconds: f64) -> Wanted {
    let preset = Preset::named(name).expect("figures name workloads that exist");
    let arrivals = match preset.arrivals.expect("a workload of SILK has arrivals") {
        Arrivals::Varying(pattern) if name.starts_with("silk-50w") => {
            Arrivals::Varying(pattern.with_peak(HALF_READS))
        }
        own => own,
    };
    let peak = arrivals.peak().expect("its rate is known");
    let warm = Offered::As(Arrivals::Open(peak / 10.0));
    let offered = Offered::As(arrivals.scale(setting.scale.seconds(1.0)));
    let seconds = setting.scale.seconds(seconds).max(setting.seconds);
    let phases = vec![
        setting.phase("warm", name, warm, setting.scale.seconds(WARM)),
        setting.phase("bursts", name, offered, seconds),
    ];
    preset_run(setting, arm, name, phases)
}

fn figure_1(setting: &Setting) -> Figure {
    // Both hold all data in their cache, or memory that memtables leave would be the difference.
    let arm = studied(setting, "rocksdb").map(|mut store| {
        store.cache = setting.scale.count(BYTES) * 3 / 2;
        store
    });
    let with = steady(setting, &arm);
    // Without flushes and compactions: all writes of the phase fit into one memtable.
    let without = with.clone().map(|run| {
        let mut run = (*run).clone();
        let writes = RATE * steady_seconds(setting) * run.data.pair_bytes() / 2.0;
        let memtable = Bytes((writes * 1.5) as u64).max(Bytes::mib(64));
        let last = run.steps.len() - 2;
        run.steps.insert(last, Step::Reopen(Change::memtable(memtable), 600.0));
        std::sync::Arc::new(run)
    });
    let mut panel = Panel::new("50 % writes at 18 k/s", Form::Time, Measure::P99);
    panel = panel.point("RocksDB's shape", X::number(0.0), &with, "rate");
    panel = panel.point("no internal work", X::number(0.0), &without, "rate");
    let mut worst = Panel::new("the worst second", Form::Bars, Measure::WorstP99);
    worst = worst.point("RocksDB's shape", X::name(0, "P99"), &with, "rate");
    worst = worst.point("no internal work", X::name(0, "P99"), &without, "rate");
    Figure {
        says:
            "Flushes and compactions raise P99 by 2 to 4 orders of magnitude over a RocksDB that \
               does none."
                .into(),
        here: "Without internal work: memtables that never fill, instead of discarding full ones. \
               Both hold all data in their cache; 17.5 GB instead of 500. An interval is 1.6 s of \
               the paper's."
            .into(),
        panels: vec![panel, worst],
        claims: vec![Claim::at_least(
            "internal work raises the worst second's P99 a hundred times",
            Measure::WorstP99,
            Named::point(1, "RocksDB's shape", "P99"),
            Named::point(1, "no internal work", "P99"),
            100.0,
        )],
    }
}

fn jobs(setting: &Setting, says: &str, l0: usize, claim: Claim) -> Figure {
    let arm = studied(setting, "rocksdb").map(|mut store| {
        let policy = &mut store.options.policy;
        (policy.l0_slowdown, policy.l0_stop) = (l0, l0);
        store
    });
    let run = steady(setting, &arm);
    let panel = Panel::new("background jobs", Form::Jobs, Measure::WriteP99);
    let runs = Panel::new("runs in L0", Form::Time, Measure::L0Runs);
    let latency = Panel::new("P99", Form::Time, Measure::WriteP99);
    let name = "RocksDB's shape";
    Figure {
        says: says.into(),
        here: "The whole run at 18 k/s, not the seconds around one spike; 17.5 GB instead of 500."
            .into(),
        panels: vec![
            panel.point(name, X::number(0.0), &run, "rate"),
            runs.point(name, X::number(0.0), &run, "rate"),
            latency.point(name, X::number(0.0), &run, "rate"),
        ],
        claims: vec![claim],
    }
}

fn figure_2(setting: &Setting) -> Figure {
    let claim = Claim::value_at_least(
        "writes are stopped or delayed although the mean load is moderate",
        Measure::StoppedWrites,
        Named::series(0, "RocksDB's shape"),
        1.0,
    );
    let says = "Many compactions at once slow L0→L1 down; L0 reaches its 10 SSTs, flushes stop.";
    jobs(setting, says, 10, claim)
}

fn figure_3(setting: &Setting) -> Figure {
    let claim = Claim::value_at_least(
        "the worst second's P99 is a second or more (at the papers' size), with L0 not full",
        Measure::WorstP99,
        Named::series(0, "RocksDB's shape"),
        1e6,
    );
    let says = "A flush takes 5 s instead of 1 to 2 beside 7 compactions; memtables fill.";
    jobs(setting, says, 10_000, claim)
}

fn figure_4(setting: &Setting) -> Figure {
    let mut panel = Panel::new("50 % writes at 18 k/s", Form::Time, Measure::P99);
    for megabytes in [50, 75, 90] {
        let arm = studied(setting, "rocksdb-auto").map(|mut store| {
            let policy = &mut store.options.policy;
            policy.auto_tuned.step_percent = 0;
            policy.device_bandwidth = BytesPerSec(megabytes << 20);
            store
        });
        let name = format!("{megabytes} MB/s for internal work");
        panel = panel.point(&name, X::number(0.0), &steady(setting, &arm), "rate");
    }
    Figure {
        says: "A fixed limit on internal bandwidth only postpones the spikes: 900 s with 50 MB/s, \
               later with 75 and 90."
            .into(),
        here:
            "17.5 GB instead of 500, but the paper's limits; an interval is 1.6 s of the paper's."
                .into(),
        claims: vec![Claim::value_at_least(
            "with 50 MB/s P99 deteriorates within the run",
            Measure::WorstP99,
            Named::series(0, "50 MB/s for internal work"),
            100e3,
        )],
        panels: vec![panel],
    }
}

fn other_system(name: &str, says: &str, claim: Claim) -> Figure {
    let panel = Panel::new("50 % writes at 18 k/s", Form::Time, Measure::P99);
    Figure {
        says: says.into(),
        here: String::new(),
        panels: vec![panel.point(name, X::number(0.0), &not_built(name), "")],
        claims: vec![claim],
    }
}

fn figure_5(_: &Setting) -> Figure {
    let name = Named::series(0, "TRIAD");
    let claim = Claim::value_at_least("P99 has spikes", Measure::WorstP99, name, 100e3);
    other_system("TRIAD", "No spikes for about 1,000 s, then frequent ones.", claim)
}

fn figure_6(_: &Setting) -> Figure {
    let name = Named::series(0, "PebblesDB");
    let claim = Claim::value_at_most("P99 stays low", Measure::WorstP99, name, 10e3);
    let says = "Low until it runs out of memory at 10,500 s; no data compactions.";
    other_system("PebblesDB", says, claim)
}

/// The profiles that Fig. 8 compares. SILK* (dlc.txt §6) knows the load by the blocks that clients
/// read, of which the paper's model sees the few bytes of the pairs.
const SYSTEMS: [(&str, &str); 5] = [
    ("RocksDB's shape", "rocksdb"),
    ("auto-tuned", "rocksdb-auto"),
    ("SILK", "silk"),
    ("SILK*", "silk-dlc-load"),
    ("vLSM", "vlsm"),
];

fn figure_8(setting: &Setting) -> Figure {
    let mut latency = Panel::new("A: production-like bursts", Form::Time, Measure::P99);
    let mut served = Panel::new("A: production-like bursts", Form::Time, Measure::Throughput);
    let mut worst = Panel::new("A: the worst second", Form::Bars, Measure::WorstP99);
    for (name, profile) in SYSTEMS {
        let run = bursts(setting, &store(setting, profile), "silk", 1400.0);
        latency = latency.point(name, X::number(0.0), &run, "bursts");
        served = served.point(name, X::number(0.0), &run, "bursts");
        worst = worst.point(name, X::name(0, "P99"), &run, "bursts");
    }
    let mut long = Panel::new("B: long peaks", Form::Bars, Measure::WorstP99);
    let mut wearing = Panel::new("B: 90 % writes, peaks of 500 s", Form::Time, Measure::P99);
    let rows = ["silk-50w-10", "silk-50w-50", "silk-50w-100", "silk-50w-500", "silk-90w-500"];
    for (place, row) in rows.into_iter().enumerate() {
        let run = bursts(setting, &store(setting, "silk"), row, 1400.0);
        long = long.point("SILK", X::name(place, row), &run, "bursts");
        if row == "silk-90w-500" {
            wearing = wearing.point("SILK", X::number(0.0), &run, "bursts");
        }
    }
    let mut parts = Panel::new("C: its parts", Form::Bars, Measure::WorstP99);
    for (name, profile) in [
        ("bandwidth only", "silk-bandwidth"),
        ("scheduling only", "silk-scheduling"),
        ("SILK", "silk"),
    ] {
        let run = bursts(setting, &store(setting, profile), "silk-50w-100", 1400.0);
        parts = parts.point(name, X::name(0, "P99"), &run, "bursts");
    }
    Figure {
        says: "Under production-like bursts SILK's P99 is two orders of magnitude below the \
               auto-tuned limiter's and three below RocksDB's, with no stalls; peaks of 500 s wear \
               it down after 300 s of 90 % writes; neither of its parts alone suffices."
            .into(),
        here: format!(
            "{HERE} Bursts made from the published distributions, not the trace; half of the rate \
             in B and C where half are reads. An interval is 1.6 s of the paper's; in valleys it \
             has a few requests, so its P99 is their maximum. Only stalls are 32 times shorter at \
             this scale: ratios of 100 and 1,000 need what the driver alone takes. SILK* and vLSM \
             are ours beside."
        ),
        panels: vec![latency, served, worst, long, wearing, parts],
        claims: claims_8(),
    }
}

/// What §6.2, 6.4 and 6.5 say of the panels of Fig. 8.
fn claims_8() -> Vec<Claim> {
    vec![
        Claim::at_least(
            "SILK's worst P99 is 100 times below the auto-tuned limiter's",
            Measure::WorstP99,
            Named::point(2, "auto-tuned", "P99"),
            Named::point(2, "SILK", "P99"),
            100.0,
        ),
        Claim::at_least(
            "and 1,000 times below RocksDB's",
            Measure::WorstP99,
            Named::point(2, "RocksDB's shape", "P99"),
            Named::point(2, "SILK", "P99"),
            1000.0,
        ),
        lower("its P99 of the whole is lower than the auto-tuned limiter's", "auto-tuned"),
        lower("its P99 of the whole is lower than RocksDB's", "RocksDB's shape"),
        Claim::value_at_most(
            "it does not stall",
            Measure::StallTime,
            Named::point(2, "SILK", "P99").by(Measure::StallTime),
            0.0,
        ),
        longer("peaks of 500 s wear it down", "silk-50w-500", "silk-50w-100"),
        longer("with 90 % writes more than with half", "silk-90w-500", "silk-50w-500"),
        part("bandwidth alone does not suffice", "bandwidth only"),
        part("priorities and preemption alone do not suffice", "scheduling only"),
    ]
}

/// That the worst P99 of these peaks of Fig. 8B is longer than that of others.
fn longer(text: &str, peaks: &str, others: &str) -> Claim {
    let worst = |row| Named::point(3, "SILK", row);
    Claim::more(text, Measure::WorstP99, worst(peaks), worst(others))
}

/// That the worst P99 of a part of SILK is longer than SILK's (Fig. 8C).
fn part(text: &str, part: &str) -> Claim {
    let worst = |series| Named::point(5, series, "P99");
    Claim::more(text, Measure::WorstP99, worst(part), worst("SILK"))
}

/// That SILK's P99 over all of Fig. 8A is lower than another's.
fn lower(text: &str, other: &str) -> Claim {
    let all = |series| Named::point(2, series, "P99").by(Measure::P99);
    Claim::more(text, Measure::P99, all(other), all("SILK"))
}

fn figure_9(setting: &Setting) -> Figure {
    let mut delayed = Panel::new("production-like bursts", Form::Bars, Measure::MemtableWaits);
    let mut stalled = Panel::new("production-like bursts", Form::Bars, Measure::StallShare);
    for (name, profile) in SYSTEMS {
        let run = bursts(setting, &store(setting, profile), "silk", 1400.0);
        delayed = delayed.point(name, X::name(0, "all"), &run, "bursts");
        stalled = stalled.point(name, X::name(0, "all"), &run, "bursts");
    }
    Figure {
        says:
            "SILK never delays a flush and never stalls; the auto-tuned limiter stalls 1 % of the \
               time (18 s), TRIAD 178 s and 69 delayed flushes."
                .into(),
        here: format!(
            "{HERE} Writes that waited for a full memtable instead of flushes that were delayed: a \
             flush is delayed where the other memtable is not flushed yet. TRIAD is left out."
        ),
        panels: vec![delayed, stalled],
        claims: vec![Claim::value_at_most(
            "under SILK no write waits for a flush",
            Measure::MemtableWaits,
            Named::point(0, "SILK", "all"),
            0.0,
        )],
    }
}

fn figure_10(setting: &Setting) -> Figure {
    let run = bursts(setting, &store(setting, "silk"), "silk", 86_400.0);
    let panel = |measure| Panel::new("24 h, production-like", Form::Time, measure);
    Figure {
        says: "P99 stays low and stable and throughput close to the load for 24 hours.".into(),
        here: format!("{HERE} A day at the scale."),
        panels: vec![
            panel(Measure::P99).point("SILK", X::number(0.0), &run, "bursts"),
            panel(Measure::Throughput).point("SILK", X::number(0.0), &run, "bursts"),
        ],
        claims: vec![Claim::value_at_most(
            "no stall in a day",
            Measure::StallTime,
            Named::series(0, "SILK"),
            0.0,
        )],
    }
}

fn figure_11(setting: &Setting) -> Figure {
    let run = bursts(setting, &store(setting, "silk"), "silk", 1400.0);
    let panel = |measure| Panel::new("production-like", Form::Time, measure);
    Figure {
        says: "Internal work gets what the clients leave, so it is done in the valleys.".into(),
        here: format!("{HERE} Device traffic of the whole process."),
        panels: vec![
            panel(Measure::DeviceRate).point("SILK", X::number(0.0), &run, "bursts"),
            panel(Measure::Throughput).point("SILK", X::number(0.0), &run, "bursts"),
        ],
        claims: vec![Claim::value_at_most(
            "no stall",
            Measure::StallTime,
            Named::series(0, "SILK"),
            0.0,
        )],
    }
}

/// The runs of YCSB with their letters.
const YCSB: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn ycsb(setting: &Setting, profile: &str, choice: &str) -> Wanted {
    let mut phases =
        vec![setting.phase("max", "a", Offered::As(Arrivals::Closed), setting.seconds)];
    for letter in YCSB {
        let name =
            if choice == "uniform" { format!("{letter}-uniform") } else { letter.to_owned() };
        phases.push(setting.phase(letter, &name, Offered::As(Arrivals::Closed), setting.seconds));
    }
    let shape = Preset::named("silk-50w-10").expect("it is known").shape;
    let pairs = (BYTES as f64 / shape.pair_bytes()) as u64;
    let limits = Limits { device: Some(DRIVE), memory: None };
    limited(setting.run_shaped(&store(setting, profile), pairs, shape, phases), limits)
}

fn figure_12(setting: &Setting) -> Figure {
    let panels = ["uniform", "zipfian"].map(|choice| {
        let mut panel = Panel::new(choice, Form::Bars, Measure::Throughput);
        for (name, profile) in [("RocksDB's shape", "rocksdb"), ("SILK", "silk")] {
            let run = ycsb(setting, profile, choice);
            for (place, letter) in YCSB.into_iter().enumerate() {
                panel = panel.point(name, X::name(place, letter), &run, letter);
            }
        }
        panel
    });
    Figure {
        says: "SILK costs at most 7 % of throughput with uniform keys and 4 % with zipfian ones."
            .into(),
        here: format!("{HERE} Beside RocksDB's shape instead of TRIAD."),
        panels: panels.into(),
        claims: vec![
            Claim::at_most(
                "uniform: at most 7 % less throughput",
                Measure::Throughput,
                Named::series(0, "RocksDB's shape"),
                Named::series(0, "SILK"),
                1.075,
            ),
            Claim::at_most(
                "zipfian: at most 4 % less throughput",
                Measure::Throughput,
                Named::series(1, "RocksDB's shape"),
                Named::series(1, "SILK"),
                1.042,
            ),
        ],
    }
}

fn figure_13(setting: &Setting) -> Figure {
    let panels = [Measure::ReadP50, Measure::P99].map(|measure| {
        let mut panel = Panel::new("uniform", Form::Bars, measure);
        for (name, profile) in [("RocksDB's shape", "rocksdb"), ("SILK", "silk")] {
            let run = ycsb(setting, profile, "uniform");
            for (place, letter) in YCSB.into_iter().enumerate() {
                panel = panel.point(name, X::name(place, letter), &run, letter);
            }
        }
        panel
    });
    Figure {
        says: "The median stays; P99 falls by up to two orders of magnitude where writes dominate."
            .into(),
        here: format!("{HERE} Beside RocksDB's shape instead of TRIAD; in a closed loop."),
        panels: panels.into(),
        claims: vec![Claim::at_least(
            "up to 100 times lower P99",
            Measure::P99,
            Named::series(1, "RocksDB's shape"),
            Named::series(1, "SILK"),
            100.0,
        )],
    }
}
