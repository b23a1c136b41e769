//! The figures of DLC (dlc.txt). MyRocks there is RocksDB under MySQL, here RocksDB's shape under
//! the same transactions; SILK* is SILK with DLC's load model.
//!
//! The high rates are the paper's.

use super::arms::{Arm, limited};
use super::measure::Measure;
use super::{Claim, Entry, Figure, Form, Named, Panel, Setting, Wanted, X};
use vlsm_core::{Bytes, BytesPerSec};
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::{Limits, Offered};
use vlsm_measure::workload::Preset;
use vlsm_policy::schedule::load::LoadModel;

/// In the order of the paper.
pub static FIGURES: &[Entry] = &[
    Entry { id: "dlc-3", title: "load models against device traffic", build: figure_3 },
    Entry { id: "dlc-4", title: "DLC under sustained high load", build: figure_4 },
    Entry { id: "dlc-6", title: "OLTP with periodic load", build: figure_6 },
    Entry { id: "dlc-7", title: "read:write 5:5 and 1:9", build: figure_7 },
    Entry { id: "dlc-8", title: "high load of 550 and 1,100 s", build: figure_8 },
    Entry {
        id: "dlc-9",
        title: "sustained high load: resume full and resume part",
        build: figure_9,
    },
    Entry { id: "dlc-10", title: "90 % reads", build: figure_10 },
    Entry { id: "dlc-11", title: "runs in L0 and gets", build: figure_11 },
    Entry { id: "dlc-12", title: "runs in L0 and scans", build: figure_12 },
];

const BYTES: u64 = 17_500_000_000;
/// All of the paper's device.
const DEVICE: u64 = 350 << 20;
/// What SILK* plans with: half of that, as the limits are half of Table 2. Its deeper jobs are
/// paused while it leaves no more than its floor of 50 MB/s beside an ε of 10: from 115 MB/s of
/// clients on, so at the 260 to 290 of a high load, but not at the 65 of a low one. Of all of the
/// device that would be from 290 MB/s on, which is hardly ever.
const SILK_PLANS: u64 = DEVICE / 2;
/// Seconds at a part of the high load before it (a quarter, of SILK's bursts a tenth), so that its
/// first second is like others.
pub(super) const WARM: f64 = 100.0;
/// Seconds of periodic load: five periods and a half, five minutes in three rounds. The paper shows
/// 1,000.
const PERIODS: f64 = 3300.0;
/// High rates where reads and writes are as many or reads are more: at the paper's 2,500 of the
/// first the clients alone would take all of the device, and of the second it names none. These ask
/// of it what its own 1,200 transactions do.
const PEAKS: [(&str, f64); 2] = [("dlc-5-5", 1800.0), ("dlc-9-1", 1000.0)];
/// The share of the data that is cached: 12 of 140 GB in blocks, and about as much again in the
/// page cache of a machine of 32 GB, which direct reads pass by. New runs of L0 are in it, too.
pub(super) const CACHED: f64 = 24.0 / 140.0;
/// The profile of SILK*.
const SILK: &str = "silk-dlc-load";
const SYSTEMS: [(&str, &str); 3] =
    [("RocksDB's shape", "rocksdb"), ("SILK*", SILK), ("DLC", "dlc")];

/// A store set up as §6.1 has it: 128 MB memtables, L1 of 2 GB, ratio 10, L0 up to 100 SSTs, blocks
/// of 64 KB; all with SILK's four internal threads with the one that flushes.
fn store(setting: &Setting, profile: &str) -> Arm {
    setting.profile(profile).map(|mut store| {
        let policy = &mut store.options.policy;
        policy.memtable_bytes = setting.scale.bytes(Bytes::mib(128));
        policy.l1_bytes = setting.scale.bytes(Bytes::mib(2048));
        (policy.growth, policy.levels) = (10, 4);
        (policy.l0_slowdown, policy.l0_stop, policy.l0_max) = (100, 100, 100);
        // Half of the limits of Table 2: clients read 260 to 290 MB/s here while the load is high,
        // 65 while it is low.
        policy.device_bandwidth = BytesPerSec(if profile == SILK { SILK_PLANS } else { DEVICE });
        (policy.dlc.io_high_limit, policy.dlc.io_low_limit) = (150.0 / 350.0, 90.0 / 350.0);
        policy.compaction_jobs = 3;
        store.options.workers = 4;
        store.options.block_bytes = Bytes::kib(64);
        store.cache = (setting.scale.count(BYTES) as f64 * CACHED) as u64;
        store
    })
}

/// What is different in all of them.
const HERE: &str = "17.5 GB instead of 140; 350 MB/s each way; the load is high from 150 MB/s on \
                    and low below 90, which is half of Table 2, and SILK* plans with half of the \
                    device; all have three background jobs besides flushes; clients read 260 to \
                    290 MB/s while the load is high; pairs instead of SQL rows; from a settled \
                    tree on, where the paper shows seconds 3,300 to 4,300.";

/// Transactions of a preset with its own arrivals at this scale: phase `oltp`.
fn oltp(setting: &Setting, arm: &Arm, name: &str, seconds: f64) -> Wanted {
    let preset = Preset::named(name).expect("figures name workloads that exist");
    let own = preset.arrivals.expect("a workload of DLC has arrivals");
    let peak = PEAKS.iter().find(|(workload, _)| *workload == name);
    let arrivals = match (own, peak) {
        (Arrivals::Varying(pattern), Some((_, peak))) => {
            Arrivals::Varying(pattern.with_peak(*peak))
        }
        (own, _) => own,
    };
    let peak = arrivals.peak().expect("its rate is known");
    let warm = Offered::As(Arrivals::Open(peak / 4.0));
    let offered = Offered::As(arrivals.scale(setting.scale.seconds(1.0)));
    let seconds = setting.scale.seconds(seconds).max(setting.seconds);
    let phases = vec![
        setting.phase("warm", name, warm, setting.scale.seconds(WARM)),
        setting.phase("oltp", name, offered, seconds),
    ];
    let pairs = (BYTES as f64 / preset.shape.pair_bytes()) as u64;
    let limits = Limits { device: Some(DEVICE), memory: None };
    limited(setting.run_shaped(arm, pairs, preset.shape, phases), limits)
}

/// Throughput and P99 over time, and the tail throughput, of these systems under a preset.
fn compared(setting: &Setting, name: &str, seconds: f64, systems: &[(&str, &str)]) -> [Panel; 3] {
    let panel = |form, measure| Panel::new(name, form, measure);
    let mut throughput = panel(Form::Time, Measure::Throughput);
    let mut latency = panel(Form::Time, Measure::P99);
    let mut worst = panel(Form::Bars, Measure::WorstP99);
    for (series, profile) in systems {
        let run = oltp(setting, &store(setting, profile), name, seconds);
        throughput = throughput.point(series, X::number(0.0), &run, "oltp");
        latency = latency.point(series, X::number(0.0), &run, "oltp");
        worst = worst.point(series, X::name(0, "P99"), &run, "oltp");
    }
    [throughput, latency, worst]
}

fn steadier(panel: usize) -> Claim {
    Claim::more(
        "DLC's worst second is better than SILK's",
        Measure::WorstP99,
        Named::point(panel, "SILK*", "P99"),
        Named::point(panel, "DLC", "P99"),
    )
}

fn figure_3(setting: &Setting) -> Figure {
    let run = oltp(setting, &store(setting, "dlc"), "dlc", PERIODS);
    let measured = "measured";
    let models = [
        ("DLC, by cache misses", LoadModel::CacheMisses),
        ("SILK, by operations", LoadModel::Operations),
        ("SILK with weights", LoadModel::Weighted),
    ];
    let mut panel = Panel::new("load of the clients", Form::Time, Measure::ClientReads).point(
        measured,
        X::number(0.0),
        &run,
        "oltp",
    );
    for (name, model) in models {
        panel = panel.point_of(name, X::number(0.0), Measure::Load(model), &run, "oltp");
    }
    let by = |(name, model): (&str, LoadModel)| Named::series(0, name).by(Measure::Load(model));
    let traffic = || Named::series(0, measured).by(Measure::ClientReads);
    let claim = |text: &str, a: Named, b: Named, factor: f64| {
        Claim::at_least(text, Measure::ClientReads, a, b, factor)
    };
    Figure {
        says: "The bytes that the block cache had to read tell the device's traffic with a small \
               error; SILK's model does not; with weights it does."
            .into(),
        here: format!(
            "{HERE} Measured is what the device read besides jobs; the paper's logs are on another \
             device. The weight is the paper's, 16,000 bytes a get, which it fitted to its own \
             store: nothing is claimed of it."
        ),
        panels: vec![panel],
        claims: vec![
            claim("cache misses tell nine tenths or more", by(models[0]), traffic(), 0.9),
            claim("cache misses tell a ninth too much at most", traffic(), by(models[0]), 0.9),
            claim("SILK's model misses half or more", traffic(), by(models[1]), 2.0),
        ],
    }
}

fn figure_4(setting: &Setting) -> Figure {
    let name = "DLC without bursts";
    let systems = [(name, "dlc-no-burst")];
    let mut panels: Vec<Panel> = compared(setting, "dlc-sustained", PERIODS, &systems).into();
    let run = oltp(setting, &store(setting, "dlc-no-burst"), "dlc-sustained", PERIODS);
    let runs = Panel::new("dlc-sustained", Form::Bars, Measure::L0Runs);
    panels.push(runs.point(name, X::name(0, "in the mean"), &run, "oltp"));
    Figure {
        says:
            "Without bursty compaction runs pile up in L0 under a sustained load, and throughput \
               declines."
                .into(),
        here: format!("{HERE} 100 runs, where writes stop, would take four times as long."),
        panels,
        claims: vec![Claim::value_at_least(
            "runs pile up in L0: twice its trigger in the mean",
            Measure::L0Runs,
            Named::series(3, name),
            8.0,
        )],
    }
}

/// That DLC's P99 over all of Fig. 6 is lower than another's.
fn lower(text: &str, other: &str) -> Claim {
    let all = |series| Named::point(2, series, "P99").by(Measure::P99);
    Claim::more(text, Measure::P99, all(other), all("DLC"))
}

fn figure_6(setting: &Setting) -> Figure {
    Figure {
        says:
            "With 500 s of high and 100 s of low load DLC holds the rate offered; SILK* drops when \
               L0 must be compacted during a peak, RocksDB more."
                .into(),
        here: HERE.into(),
        panels: compared(setting, "dlc", PERIODS, &SYSTEMS).into(),
        claims: vec![
            Claim::more(
                "DLC's worst second is better than RocksDB's",
                Measure::WorstP99,
                Named::point(2, "RocksDB's shape", "P99"),
                Named::point(2, "DLC", "P99"),
            ),
            steadier(2),
            lower("DLC's P99 of the whole is lower than RocksDB's", "RocksDB's shape"),
            lower("DLC's P99 of the whole is lower than SILK's", "SILK*"),
        ],
    }
}

fn figure_7(setting: &Setting) -> Figure {
    let panels = ["dlc-5-5", "dlc-1-9"].map(|name| compared(setting, name, PERIODS, &SYSTEMS));
    Figure {
        says: "DLC is steadiest at both ratios, most of all with 90 % writes.".into(),
        here: format!(
            "{HERE} 1,800 transactions per second instead of 2,500 where reads are half; with 90 % \
             writes clients read 70 MB/s, so the load is never high."
        ),
        panels: panels.into_iter().flatten().collect(),
        claims: vec![steadier(2), steadier(5)],
    }
}

fn figure_8(setting: &Setting) -> Figure {
    let panels =
        ["dlc-550", "dlc-1100"].map(|name| compared(setting, name, PERIODS, &SYSTEMS[2..]));
    Figure {
        says: "Throughput stays stable; with 1,100 s of high load latency rises periodically."
            .into(),
        here: HERE.into(),
        panels: panels.into_iter().flatten().collect(),
        claims: vec![Claim::value_at_most(
            "no stall with 1,100 s of high load",
            Measure::StallTime,
            Named::series(3, "DLC"),
            0.0,
        )],
    }
}

fn figure_9(setting: &Setting) -> Figure {
    let systems = [("resume full", "dlc"), ("resume part", "dlc-part")];
    Figure {
        says:
            "Stable for 2,550 s, then about 60 s of lower throughput with resume full, 40 s with \
               resume part."
                .into(),
        here: HERE.into(),
        panels: compared(setting, "dlc-sustained", 6000.0, &systems).into(),
        claims: vec![Claim::more(
            "resume part has the better worst second",
            Measure::WorstP99,
            Named::point(2, "resume full", "P99"),
            Named::point(2, "resume part", "P99"),
        )],
    }
}

fn figure_10(setting: &Setting) -> Figure {
    Figure {
        says: "With 90 % reads DLC is as stable as SILK* and its latency lower.".into(),
        here: format!("{HERE} 1,000 transactions per second, the paper gives no rate."),
        panels: compared(setting, "dlc-9-1", PERIODS, &SYSTEMS).into(),
        claims: vec![steadier(2)],
    }
}

/// db_bench with one client that writes: L0 grows, reads get slower.
fn l0_growth(setting: &Setting, workload: &str) -> Figure {
    let closed = Offered::As(Arrivals::Closed);
    let phases = vec![setting.phase("reads", workload, closed, 3.0 * setting.seconds)];
    let preset = Preset::named(workload).expect("figures name workloads that exist");
    let pairs = (BYTES as f64 / preset.shape.pair_bytes()) as u64;
    let run = setting.run_shaped(&store(setting, "dlc"), pairs, preset.shape, phases);
    let panel = |measure| Panel::new(workload, Form::Time, measure);
    Figure {
        says: "Runs pile up in L0 in steps, one a flush, and reads get slower by a little.".into(),
        here: "As many clients as the machine has cores, half of them write.".into(),
        panels: vec![
            panel(Measure::L0Runs).point("DLC", X::number(0.0), &run, "reads"),
            panel(Measure::Throughput).point("DLC", X::number(0.0), &run, "reads"),
            panel(Measure::P99).point("DLC", X::number(0.0), &run, "reads"),
        ],
        claims: vec![Claim::value_at_least(
            "runs pile up in L0",
            Measure::L0Runs,
            Named::series(0, "DLC"),
            4.0,
        )],
    }
}

fn figure_11(setting: &Setting) -> Figure {
    l0_growth(setting, "readwhilewriting")
}

fn figure_12(setting: &Setting) -> Figure {
    l0_growth(setting, "seekrandomwhilewriting")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;
    use vlsm_core::Micros;
    use vlsm_policy::schedule::{Schedule, silk::Silk};
    use vlsm_policy::{Counters, Signals};

    #[test]
    fn the_silk_that_dlc_is_compared_with_pauses_while_the_load_is_high() {
        let setting = Setting { scale: Scale::CAMPAIGN, dir: None, peers: false, seconds: 20.0 };
        let policy = store(&setting, SILK).expect("it is built").options.policy;
        let limit = |load: u64| {
            let mut silk = Silk::new(&policy);
            let mut after = |seconds: u64| {
                let cache_miss_bytes = Bytes(seconds * (load << 20));
                let counters = Counters { cache_miss_bytes, ..Counters::default() };
                let now = Micros(seconds * 1_000_000);
                silk.decide(&Signals { now, counters, ..Signals::default() }, &[], &[])
            };
            after(1);
            after(2).bandwidth.expect("it has a limit").limit
        };
        // At the floor deeper jobs are paused.
        assert_eq!(limit(260), policy.silk.floor);
        assert!(limit(65) > policy.silk.floor);
    }
}
