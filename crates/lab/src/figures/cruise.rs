//! The figures of CruiseDB (cruisedb.txt): 16 B keys and 1 KB values, 10 M of them loaded before,
//! in a closed loop as there, with 32 clients instead of its 100.

use super::arms::Arm;
use super::measure::Measure;
use super::{Claim, Entry, Figure, Form, Named, Panel, Setting, Wanted, X};
use std::sync::Arc;
use vlsm_core::Bytes;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::{Offered, RunSpec};
use vlsm_measure::workload::Preset;

/// In the order of the paper.
pub static FIGURES: &[Entry] = &[
    Entry { id: "cruise-3", title: "RocksDB: throughput over time", build: figure_3 },
    Entry { id: "cruise-4", title: "RocksDB: P99 over time", build: figure_4 },
    Entry { id: "cruise-10", title: "tail throughput by share of gets", build: figure_10 },
    Entry { id: "cruise-11", title: "tail throughput by share of scans", build: figure_11 },
    Entry { id: "cruise-12", title: "throughput and P99 over time, by system", build: figure_12 },
    Entry { id: "cruise-13", title: "limit and watermark of the admission", build: figure_13 },
    Entry { id: "cruise-14", title: "bytes written, with and without L0", build: figure_14 },
    Entry { id: "cruise-15", title: "tail throughput by K1 and K2", build: figure_15 },
    Entry { id: "cruise-16", title: "tail throughput by scale", build: figure_16 },
    Entry { id: "cruise-17", title: "P99 by scale", build: figure_17 },
    Entry { id: "cruise-18", title: "memory over time", build: figure_18 },
];

/// Clients. The paper has 100. With 8 here reads hold the clients up so much that memory is
/// never short and the gate has nothing to do; 100 are busy with taking turns on two cores.
const CLIENTS: usize = 32;
/// Pairs loaded before.
const PAIRS: u64 = 10_000_000;
const ROCKSDB: &str = "RocksDB's shape";
const PEER: &str = "RocksDB";

/// A store with the memory buffer of §VIII.A, which all had: 12 memtables of 64 MB.
fn store(setting: &Setting, profile: &str) -> Arm {
    setting.profile(profile).map(|store| buffered(setting, store))
}

fn buffered(
    setting: &Setting,
    mut store: vlsm_measure::spec::StoreSpec,
) -> vlsm_measure::spec::StoreSpec {
    store.options.policy.memtable_bytes = setting.scale.bytes(Bytes::mib(64));
    store.options.policy.memtable_count = 12;
    store
}

fn peer(setting: &Setting, kind: &str, config: &str) -> Arm {
    setting.peer(kind, config, "rocksdb").map(|store| buffered(setting, store))
}

/// A mix in a closed loop: phase `run`.
fn closed(setting: &Setting, arm: &Arm, workload: &str, seconds: f64) -> Wanted {
    let preset = Preset::named(workload).expect("figures name workloads that exist");
    let phases = vec![setting.phase("run", workload, Offered::As(Arrivals::Closed), seconds)];
    with_clients(setting.run_shaped(arm, PAIRS, preset.shape, phases))
}

/// A run with [`CLIENTS`].
pub(super) fn with_clients(run: Wanted) -> Wanted {
    Ok(Arc::new(RunSpec { threads: CLIENTS, ..(*run?).clone() }))
}

/// What is different in all of them.
const HERE: &str = "32 clients instead of 100: a stall delays 32 requests, which the P99 of an \
                    interval (1.6 s of the paper's) may not show.";

/// The run of figures 3, 4, 12 to 15 and 18: 50 % inserts, 50 % gets. Longer than the paper's 500
/// seconds, or memory would be given to L1 fewer than a hundred times in three rounds.
fn a_variant(setting: &Setting, arm: &Arm) -> Wanted {
    let seconds = setting.scale.seconds(500.0).max(3.0 * setting.seconds);
    closed(setting, arm, "cruise-get-50", seconds)
}

/// RocksDB's default of two memtables, as in §III.
fn rocksdb_default(setting: &Setting) -> [(&'static str, Wanted); 2] {
    let peer = setting.peer("rocksdb", "papers", "rocksdb");
    [(ROCKSDB, a_variant(setting, &setting.profile("rocksdb"))), (PEER, a_variant(setting, &peer))]
}

fn over_time(setting: &Setting, measure: Measure, says: &str, claim: Claim) -> Figure {
    let mut panel = Panel::new("50 % inserts, 50 % gets", Form::Time, measure);
    for (name, run) in rocksdb_default(setting) {
        panel = panel.point(name, X::number(0.0), &run, "run");
    }
    Figure { says: says.into(), here: HERE.into(), panels: vec![panel], claims: vec![claim] }
}

fn figure_3(setting: &Setting) -> Figure {
    let says = "Throughput drops and returns periodically: 41,242 /s in the mean, 5,330 /s in the \
                worst 1 % of the seconds, 7.74 times less.";
    let mut figure = over_time(
        setting,
        Measure::Throughput,
        says,
        Claim::at_least(
            "throughput is 7.74 times the tail throughput",
            Measure::Throughput,
            Named::point(1, ROCKSDB, "mean"),
            Named::point(1, ROCKSDB, "tail (99 %)").by(Measure::TailThroughput),
            7.74,
        ),
    );
    let mut bars = Panel::new("mean and tail", Form::Bars, Measure::Throughput);
    for (name, run) in rocksdb_default(setting) {
        bars = bars.point(name, X::name(0, "mean"), &run, "run");
        let tail = Measure::TailThroughput;
        bars = bars.point_of(name, X::name(1, "tail (99 %)"), tail, &run, "run");
    }
    figure.panels.push(bars.paper(PEER, &[(0.0, 41_241.6), (1.0, 5_329.9)]));
    figure
}

fn figure_4(setting: &Setting) -> Figure {
    let says = "P99 rises and falls in step with throughput.";
    let mut figure = over_time(
        setting,
        Measure::P99,
        says,
        Claim::at_least(
            "the worst second's P99 is twice the mean second's (the text gives no number)",
            Measure::WorstP99,
            Named::point(1, ROCKSDB, "worst"),
            Named::point(1, ROCKSDB, "mean").by(Measure::MeanP99),
            2.0,
        ),
    );
    let mut bars = Panel::new("P99 of the seconds", Form::Bars, Measure::WorstP99);
    for (name, run) in rocksdb_default(setting) {
        bars = bars.point_of(name, X::name(0, "mean"), Measure::MeanP99, &run, "run");
        bars = bars.point(name, X::name(1, "worst"), &run, "run");
    }
    figure.panels.push(bars);
    figure
}

/// The systems of the paper: name, kind and profile or configuration.
fn systems(setting: &Setting) -> [(&'static str, Arm); 6] {
    [
        (ROCKSDB, store(setting, "rocksdb")),
        (PEER, peer(setting, "rocksdb", "papers")),
        ("auto-tuned", store(setting, "rocksdb-auto")),
        ("SILK", store(setting, "silk")),
        ("CruiseDB", store(setting, "cruise")),
        ("vLSM", setting.profile("vlsm")),
    ]
}

fn by_share(setting: &Setting, kind: &str, says: &str) -> Figure {
    let mut panel = Panel::new("tail throughput", Form::lines("% reads"), Measure::TailThroughput);
    for share in [5, 20, 35, 50, 65, 80, 95] {
        for (name, arm) in systems(setting) {
            let run = closed(setting, &arm, &format!("cruise-{kind}-{share}"), setting.seconds);
            panel = panel.point(name, X::number(f64::from(share)), &run, "run");
        }
    }
    Figure {
        says: says.into(),
        here: "WiredTiger is left out; the paper's 2.08 is against the second best, mostly it, in \
               the mean."
            .into(),
        panels: vec![panel],
        claims: vec![
            Claim::at_least(
                "CruiseDB's tail throughput is up to twice RocksDB's and more",
                Measure::TailThroughput,
                Named::series(0, "CruiseDB"),
                Named::series(0, ROCKSDB),
                2.08,
            ),
            Claim::at_most(
                "and never below it",
                Measure::TailThroughput,
                Named::series(0, ROCKSDB),
                Named::series(0, "CruiseDB"),
                1.0,
            ),
        ],
    }
}

fn figure_10(setting: &Setting) -> Figure {
    by_share(
        setting,
        "get",
        "CruiseDB's tail throughput is 2.08 times the second best in the mean.",
    )
}

fn figure_11(setting: &Setting) -> Figure {
    by_share(setting, "scan", "As with gets: CruiseDB's tail throughput is the highest.")
}

fn figure_12(setting: &Setting) -> Figure {
    let panel = |title: &str, form, measure| Panel::new(title, form, measure);
    let mix = "50 % inserts, 50 % gets";
    let mut throughput = panel(mix, Form::Time, Measure::Throughput);
    let mut latency = panel(mix, Form::Time, Measure::P99);
    let mut tail = panel("mean and tail throughput", Form::Bars, Measure::Throughput);
    let mut worst = panel("P99 of the seconds", Form::Bars, Measure::WorstP99);
    for (name, arm) in systems(setting) {
        let run = a_variant(setting, &arm);
        throughput = throughput.point(name, X::number(0.0), &run, "run");
        latency = latency.point(name, X::number(0.0), &run, "run");
        tail = tail.point(name, X::name(0, "mean"), &run, "run");
        tail = tail.point_of(name, X::name(1, "tail (99 %)"), Measure::TailThroughput, &run, "run");
        worst = worst.point_of(name, X::name(0, "mean"), Measure::MeanP99, &run, "run");
        worst = worst.point(name, X::name(1, "worst"), &run, "run");
    }
    let at = |panel, name: &str, x: &str| Named::point(panel, name, x);
    Figure {
        says: "CruiseDB's tail throughput is 2.12 to 6.06 times the others', its largest P99 of a \
               second 44.8 ms instead of 108 ms."
            .into(),
        here: format!(
            "{HERE} WiredTiger is left out. vLSM is ours beside, with its own memtables."
        ),
        panels: vec![throughput, latency, tail, worst],
        claims: vec![
            Claim::at_least(
                "CruiseDB's tail throughput is 2.12 times RocksDB's",
                Measure::TailThroughput,
                at(2, "CruiseDB", "tail (99 %)"),
                at(2, ROCKSDB, "tail (99 %)"),
                2.12,
            ),
            Claim::at_least(
                "its largest P99 of a second is 2.4 times lower",
                Measure::WorstP99,
                at(3, ROCKSDB, "worst"),
                at(3, "CruiseDB", "worst"),
                2.41,
            ),
            Claim::at_least(
                "RocksDB's shape: mean throughput is 7.74 times its tail (Fig. 3, two memtables)",
                Measure::Throughput,
                at(2, ROCKSDB, "mean"),
                at(2, ROCKSDB, "tail (99 %)").by(Measure::TailThroughput),
                7.74,
            ),
        ],
    }
}

fn cruise_only(setting: &Setting, title: &str, form: Form, measure: Measure) -> Panel {
    let run = a_variant(setting, &store(setting, "cruise"));
    Panel::new(title, form, measure).point("CruiseDB", X::number(0.0), &run, "run")
}

fn figure_13(setting: &Setting) -> Figure {
    let fill = cruise_only(setting, "watermark", Form::Time, Measure::Fill);
    let mean = cruise_only(setting, "watermark, mean", Form::Bars, Measure::Fill);
    let of = |panel| Named::series(panel, "CruiseDB");
    Figure {
        says: "The limit follows the watermark of the memory buffer, which stays around 50 %."
            .into(),
        here: "Around 50 % means from 30 to 70 % in the mean here; the text gives no range.".into(),
        panels: vec![cruise_only(setting, "limit", Form::Time, Measure::Limit), fill, mean],
        claims: vec![
            Claim::value_at_least("the watermark is around 50 %", Measure::Fill, of(2), 0.3),
            Claim::value_at_most("and not far above", Measure::Fill, of(2), 0.7),
        ],
    }
}

fn figure_14(setting: &Setting) -> Figure {
    let mut panel = Panel::new("50 % inserts, 50 % gets", Form::Bars, Measure::WriteAmplification);
    let arms = [
        (ROCKSDB, "rocksdb"),
        ("CruiseDB's gate, with L0", "cruise/shape=tiered_l0"),
        ("without L0 (SP-LSM)", "cruise"),
    ];
    for (name, profile) in arms {
        let run = a_variant(setting, &store(setting, profile));
        panel = panel.point(name, X::name(0, "bytes written ÷ bytes inserted"), &run, "run");
    }
    Figure {
        says: "Without L0 18.7 % less is written after 20 M operations.".into(),
        here: "Per byte inserted and until all is merged, because closed loops insert differently \
               much. The paper's P-LSM-tree is RocksDB's shape. Behind CruiseDB's gate alone \
               nothing bounds an L0: it ends with a whole level's bytes in it."
            .into(),
        panels: vec![panel],
        claims: vec![Claim::at_least(
            "18.7 % less is written than with RocksDB's shape",
            Measure::WriteAmplification,
            Named::series(0, ROCKSDB),
            Named::series(0, "without L0 (SP-LSM)"),
            1.23,
        )],
    }
}

fn figure_15(setting: &Setting) -> Figure {
    let mut panel = Panel::new("K2 = K1", Form::lines("K1"), Measure::TailThroughput);
    for weight in [1, 2, 4, 6, 8, 10] {
        let weight = f64::from(weight) / 10.0;
        let arm = store(setting, "cruise").map(|mut store| {
            let weights = &mut store.options.policy.cruise;
            (weights.k1, weights.k2) = (weight, weight);
            store
        });
        panel = panel.point("CruiseDB", X::number(weight), &a_variant(setting, &arm), "run");
    }
    Figure {
        says: "Below 0.6 the tail throughput is high; above, the admission swings.".into(),
        here: "The paper changes both weights, each by itself; here both are the same.".into(),
        panels: vec![panel],
        claims: vec![Claim::more(
            "0.4 is better than 1.0",
            Measure::TailThroughput,
            Named::point(0, "CruiseDB", "0.4"),
            Named::point(0, "CruiseDB", "1"),
        )],
    }
}

fn by_scale(setting: &Setting, measure: Measure, says: &str, claim: Claim) -> Figure {
    let mut panel = Panel::new("50 % inserts, 50 % gets", Form::lines("M operations"), measure);
    for millions in [20_u32, 40, 60, 80] {
        let seconds = setting.seconds * f64::from(millions) / 20.0;
        for (name, arm) in systems(setting) {
            let run = closed(setting, &arm, "cruise-get-50", seconds);
            panel = panel.point(name, X::number(f64::from(millions)), &run, "run");
        }
    }
    Figure {
        says: says.into(),
        here: "Longer runs instead of counted operations.".into(),
        panels: vec![panel],
        claims: vec![claim],
    }
}

fn figure_16(setting: &Setting) -> Figure {
    let claim = Claim::at_least(
        "CruiseDB's tail throughput is several times RocksDB's",
        Measure::TailThroughput,
        Named::series(0, "CruiseDB"),
        Named::series(0, ROCKSDB),
        3.9,
    );
    let says = "At every scale CruiseDB's tail throughput is the highest; static admission, which \
                is left out here, and the auto-tuned limiter reach 17.6 to 25.8 % of it.";
    by_scale(setting, Measure::TailThroughput, says, claim)
}

fn figure_17(setting: &Setting) -> Figure {
    let claim = Claim::less(
        "CruiseDB's P99 is lower than RocksDB's at every scale",
        Measure::WorstP99,
        Named::series(0, "CruiseDB"),
        Named::series(0, ROCKSDB),
    );
    let says = "At every scale CruiseDB's P99 per second is the lowest.";
    by_scale(setting, Measure::WorstP99, says, claim)
}

fn figure_18(setting: &Setting) -> Figure {
    let limit = 1.7 * (1_u64 << 30) as f64;
    Figure {
        says: "Memory goes up and down and stays below 1.7 GB.".into(),
        here: "Resident memory of the process, the driver's included.".into(),
        panels: vec![cruise_only(setting, "resident memory", Form::Time, Measure::Memory)],
        claims: vec![Claim::value_at_most(
            "memory stays below 1.7 GB (at the papers' size)",
            Measure::Memory,
            Named::series(0, "CruiseDB"),
            limit,
        )],
    }
}
