//! The figures of vLSM (vlsm.txt). RocksDB there is RocksDB with an overflow limit of 64 MB, here
//! the profile `rocksdb-debt64` and, where other stores take part, RocksDB itself with that limit.
//! It holds for all levels together, as RocksDB's own options have it. Where vLSM is compared with
//! it, `rocksdb-overflow64` is beside, whose levels may exceed their targets by 64 MB each, as
//! vLSM's may (vlsm.txt §3.3, §5).

mod ycsb;

use super::arms::{Arm, rate_name, vlsm_of, with_sst};
use super::measure::Measure;
use super::{Claim, Entry, Figure, Form, Named, Panel, Setting, X};
use vlsm::PolicyOptions;
use vlsm_core::Bytes;

/// In the order of the paper.
pub static FIGURES: &[Entry] = &[
    Entry { id: "vlsm-1", title: "RocksDB: throughput over time, P99 by load", build: figure_1 },
    Entry { id: "vlsm-2", title: "RocksDB: what a chain of compactions moves", build: figure_2 },
    Entry {
        id: "vlsm-4",
        title: "I/O amplification without tiering, and with small SSTs",
        build: figure_4,
    },
    Entry { id: "vlsm-6", title: "SST size in RocksDB-IO and ADOC", build: figure_6 },
    Entry { id: "vlsm-7", title: "stalls by SST size, vLSM and RocksDB-IO", build: figure_7 },
    Entry { id: "vlsm-8", title: "P99 by request rate, vLSM and RocksDB", build: figure_8 },
    Entry { id: "vlsm-9", title: "chain width by SST size and by levels", build: figure_9 },
    Entry { id: "vlsm-10", title: "P99 by regions; throughput by SST size", build: figure_10 },
    Entry { id: "vlsm-11", title: "P50, P90 and P99 by SST size", build: figure_11 },
    Entry { id: "vlsm-12", title: "YCSB Load A and Run A", build: ycsb::figure_12 },
    Entry { id: "vlsm-12-reads", title: "YCSB Runs B to D", build: ycsb::figure_12_reads },
    Entry { id: "vlsm-13", title: "I/O amplification and good vSSTs", build: figure_13 },
    Entry { id: "vlsm-table1", title: "SSTs of 2, 4 and 8 MB", build: table_1 },
];

const GB: f64 = (1_u64 << 30) as f64;
/// Requests per second: on two cores, not on 32, and as much as vLSM sustains at a small scale.
const RATES: [f64; 3] = [8e3, 12e3, 16e3];
const OURS: &str = "RocksDB's shape";
const PER_LEVEL: &str = "RocksDB, 64 MB a level";
const PEER: &str = "RocksDB";

fn rocksdb(setting: &Setting) -> Arm {
    setting.profile("rocksdb-debt64")
}

fn rocksdb_per_level(setting: &Setting) -> Arm {
    setting.profile("rocksdb-overflow64")
}

fn rocksdb_peer(setting: &Setting) -> Arm {
    setting.peer("rocksdb", "debt64", "rocksdb-debt64")
}

fn vlsm(setting: &Setting, sst: u64) -> Arm {
    Ok(setting.ours(&format!("vlsm {sst} MB"), vlsm_of(sst)))
}

fn rocksdb_io(setting: &Setting, sst: u64) -> Arm {
    Ok(setting.ours(&format!("rocksdb-io {sst} MB"), with_sst("rocksdb-io", sst)?))
}

fn megabytes(sst: u64) -> X {
    X { at: sst as f64, label: format!("{sst} MB") }
}

fn figure_1(setting: &Setting) -> Figure {
    let arms = [(OURS, rocksdb(setting)), (PEER, rocksdb_peer(setting))];
    let mut time = Panel::new("Load A, closed loop", Form::Time, Measure::Throughput);
    let mut load = Panel::new("Load A, open loop", Form::lines("k/s"), Measure::WriteP99);
    let mut share = Panel::new("at 60 % of its maximum", Form::Bars, Measure::WriteP99);
    for (name, arm) in arms {
        let run = setting.load_a(&arm, &RATES);
        time = time.point(name, X::number(0.0), &run, "max");
        share = share.point(name, X::name(0, "60 %"), &run, "60 %");
        for rate in RATES {
            load = load.point(name, X::number(rate / 1e3), &run, &rate_name(rate));
        }
    }
    Figure {
        says:
            "Write stalls are 40 % of the run time of Load A; P99 is of the order of seconds from \
               less than 60 % of the largest throughput on."
                .into(),
        here: "One region instead of four.".into(),
        panels: vec![time, load, share.paper(PEER, &[(0.0, 1e6)])],
        claims: vec![
            Claim::value_at_least(
                "stalls are 40 % of the time in a closed loop",
                Measure::StallShare,
                Named::series(0, OURS),
                0.4,
            ),
            Claim::value_at_least(
                "P99 is a second (at the papers' size) at 60 % of the maximum",
                Measure::WriteP99,
                Named::point(2, OURS, "60 %"),
                1e6,
            ),
        ],
    }
}

fn figure_2(setting: &Setting) -> Figure {
    let run = setting.load_a(&rocksdb(setting), &RATES);
    let mut jobs = Panel::new("what one compaction reads", Form::Bars, Measure::JobBytes(0));
    let mut chain = Panel::new("chain behind L0", Form::lines("levels"), Measure::ChainWidth);
    for level in 0..3_u8 {
        let x = X::name(usize::from(level), &format!("L{level}"));
        jobs = jobs.point_of(OURS, x, Measure::JobBytes(level), &run, "max");
    }
    for levels in 1..=3_u8 {
        let x = X::number(f64::from(levels));
        chain = chain.point_of(OURS, x, Measure::ChainAbove(levels), &run, "max");
    }
    Figure {
        says:
            "A compaction out of the tiered L0 moves about 2.5 GB; a chain is 2 GB wide for each \
               level, 10 GB with five."
                .into(),
        here: "Three levels: the data of one region has no more.".into(),
        panels: vec![jobs, chain.paper(PEER, &[(1.0, 2.0 * GB), (5.0, 10.0 * GB)])],
        claims: vec![Claim::value_at_least(
            "the stage out of L0 moves 2 GB",
            Measure::JobBytes(0),
            Named::point(0, OURS, "L0"),
            2.0 * GB,
        )],
    }
}

fn figure_4(setting: &Setting) -> Figure {
    let small = |profile: &str, l1: u64, l0_trigger: usize| -> Arm {
        let mut policy = with_sst(profile, 8)?;
        policy.memtable_bytes = Bytes::mib(8);
        policy.l1_bytes = Bytes::mib(l1);
        policy.l0_trigger = l0_trigger;
        Ok(setting.ours(&format!("{profile} 8 MB"), policy))
    };
    let arms = [
        ("tiered", 64, rocksdb(setting)),
        // L0 is as large as L1 (vlsm.txt §3.1): eight runs of 8 MB.
        ("tiered", 8, small("rocksdb-debt64", 64, 8)),
        ("not tiered (LSMi)", 64, setting.profile("lsmi")),
        ("not tiered (LSMi)", 8, small("lsmi", 256, 1)),
    ];
    let mut panel = Panel::new("Load A, closed loop", Form::Bars, Measure::IoAmplification);
    for (name, sst, arm) in arms {
        panel = panel.point(name, megabytes(sst), &setting.load_a_at_share(&arm), "max");
    }
    Figure {
        says: "8 MB SSTs with an L1 of 64 MB add two levels and 69 % of I/O amplification to \
               RocksDB; without the tiering step amplification reaches 128."
            .into(),
        here: "A tree of three levels, not of five to seven; amplification is counted until \
               background work ended."
            .into(),
        panels: vec![panel.paper("not tiered (LSMi)", &[(8.0, 128.0)])],
        claims: vec![
            Claim::at_least(
                "small SSTs raise the amplification of tiering 1.69 times",
                Measure::IoAmplification,
                Named::point(0, "tiered", "8 MB"),
                Named::point(0, "tiered", "64 MB"),
                1.69,
            ),
            Claim::at_least(
                "without tiering, 8 MB SSTs under an L1 of 256 MB cost far more (128 to 26)",
                Measure::IoAmplification,
                Named::point(0, "not tiered (LSMi)", "8 MB"),
                Named::point(0, "tiered", "64 MB"),
                4.9,
            ),
        ],
    }
}

fn figure_6(setting: &Setting) -> Figure {
    let mut latency =
        Panel::new("Load A at 70 % of its maximum", Form::lines("MB"), Measure::WriteP99);
    let mut throughput = Panel::new("Load A, closed loop", Form::lines("MB"), Measure::Throughput);
    let mut cpu = Panel::new("Load A, closed loop", Form::lines("MB"), Measure::CpuPerOp);
    for sst in [8, 16, 32, 64] {
        let adoc = with_sst("adoc", sst).map(|policy| setting.ours("adoc", policy));
        for (name, arm) in [("RocksDB-IO", rocksdb_io(setting, sst)), ("ADOC", adoc)] {
            let run = setting.load_a_at_share(&arm);
            latency = latency.point(name, megabytes(sst), &run, "share");
            throughput = throughput.point(name, megabytes(sst), &run, "max");
            cpu = cpu.point(name, megabytes(sst), &run, "max");
        }
    }
    Figure {
        says: "Against 64 MB SSTs, RocksDB-IO's P99 is 1.4 and 1.8 times lower with 32 and 16 MB, \
               and rises again with 8 MB; it stays in the order of seconds."
            .into(),
        here: "Load A only; Runs A to D are in figure 12.".into(),
        panels: vec![latency, throughput, cpu],
        claims: vec![Claim::at_least(
            "P99 is 1.8 times lower with 16 MB than with 64 MB",
            Measure::WriteP99,
            Named::point(0, "RocksDB-IO", "64 MB"),
            Named::point(0, "RocksDB-IO", "16 MB"),
            1.8,
        )],
    }
}

fn figure_7(setting: &Setting) -> Figure {
    let mut total = Panel::new("Load A, closed loop", Form::lines("MB"), Measure::StallTime);
    let mut longest = Panel::new("Load A, closed loop", Form::lines("MB"), Measure::LongestStall);
    let mut per_op = Panel::new("Load A, closed loop", Form::lines("MB"), Measure::StallPerOp);
    for sst in [8, 16, 32, 64] {
        let arms = [("RocksDB-IO", rocksdb_io(setting, sst)), ("vLSM", vlsm(setting, sst))];
        for (name, arm) in arms {
            let run = setting.load_a_at_share(&arm);
            total = total.point(name, megabytes(sst), &run, "max");
            longest = longest.point(name, megabytes(sst), &run, "max");
            per_op = per_op.point(name, megabytes(sst), &run, "max");
        }
    }
    Figure {
        says: "vLSM with 8 MB SSTs stalls 60 % less than RocksDB-IO, and its longest stall is 5 \
               times shorter (4 to 5 s against about one)."
            .into(),
        here: "Stalls are intervals of half a second of the paper without any completed write. \
               Runs have the same length, not the same number of inserts, so stalls are compared \
               per insert."
            .into(),
        panels: vec![total, longest.paper("RocksDB-IO", &[(64.0, 4.5e6)]), per_op],
        claims: vec![
            Claim::at_most(
                "per insert vLSM, 8 MB, stalls at most 0.4 times as long as RocksDB-IO, 64 MB",
                Measure::StallPerOp,
                Named::point(2, "vLSM", "8 MB"),
                Named::point(2, "RocksDB-IO", "64 MB"),
                0.4,
            ),
            Claim::at_least(
                "the longest stall is 5 times shorter",
                Measure::LongestStall,
                Named::point(1, "RocksDB-IO", "64 MB"),
                Named::point(1, "vLSM", "8 MB"),
                5.0,
            ),
        ],
    }
}

fn figure_8(setting: &Setting) -> Figure {
    let arms = [
        ("vLSM", vlsm(setting, 8)),
        (OURS, rocksdb(setting)),
        (PER_LEVEL, rocksdb_per_level(setting)),
        (PEER, rocksdb_peer(setting)),
    ];
    let mut panel = Panel::new("Load A, open loop", Form::lines("k/s"), Measure::WriteP99);
    for (name, arm) in arms {
        let run = setting.load_a(&arm, &RATES);
        for rate in RATES {
            panel = panel.point(name, X::number(rate / 1e3), &run, &rate_name(rate));
        }
    }
    Figure {
        says: "From 60 k/s on RocksDB's P99 exceeds a second; vLSM's stays below it at every rate \
               and is up to 4.3 times lower."
            .into(),
        here:
            "One region instead of four and 64; 8 to 16 k/s on two cores instead of 20 to 100 on \
               32."
            .into(),
        panels: vec![panel.paper(PEER, &[(60.0, 1e6)])],
        claims: vec![
            Claim::at_least(
                "vLSM's P99 is up to 4.3 times lower than that of RocksDB's shape",
                Measure::WriteP99,
                Named::series(0, OURS),
                Named::series(0, "vLSM"),
                4.3,
            ),
            Claim::value_at_most(
                "vLSM's P99 is below a second (at the papers' size) at every rate",
                Measure::WriteP99,
                Named::series(0, "vLSM"),
                1e6,
            ),
        ],
    }
}

fn figure_9(setting: &Setting) -> Figure {
    let mut width = Panel::new("chain behind L0", Form::lines("MB"), Measure::ChainWidest);
    let mut levels = Panel::new("down to a level", Form::lines("levels"), Measure::ChainWidth);
    for sst in [4, 8, 16, 32, 64] {
        let run = setting.load_a_at_share(&vlsm(setting, sst));
        width = width.point("vLSM", megabytes(sst), &run, "max");
    }
    let tiered = [(OURS, rocksdb(setting)), (PER_LEVEL, rocksdb_per_level(setting))]
        .map(|(name, arm)| (name, setting.load_a(&arm, &RATES)));
    for (name, run) in &tiered {
        width = width.point(name, megabytes(64), run, "max");
    }
    let small = setting.load_a_at_share(&vlsm(setting, 8));
    for count in 1..=3_u8 {
        let (x, above) = (X::number(f64::from(count)), Measure::ChainAbove(count));
        levels = levels.point_of("vLSM", x.clone(), above, &small, "max");
        for (name, run) in &tiered {
            levels = levels.point_of(name, x.clone(), above, run, "max");
        }
    }
    let paper = [(4.0, 32.0 * GB / 1024.0)];
    Figure {
        says: "Chain width falls with the SST size, from 10 GB in RocksDB to 32 MB with SSTs of 4 \
               MB; what must be compacted before a flush falls up to 20 times, to 0.5 GB with 8 MB."
            .into(),
        here:
            "The width is that of the whole chain that stands behind L0 at a flush. The paper's 32 \
               MB are one stage (8 SSTs); its text gives 0.16 GB for a chain with 4 MB and 0.32 GB \
               with 8. Claims are judged against RocksDB's shape with the 64 MB a level that vLSM \
               has, too."
                .into(),
        panels: vec![
            width.paper("vLSM", &paper).paper(PER_LEVEL, &[(64.0, 10.0 * GB)]),
            levels.paper("vLSM", &[(5.0, 0.5 * GB)]).paper(PER_LEVEL, &[(5.0, 10.0 * GB)]),
        ],
        claims: vec![
            Claim::at_least(
                "with 4 MB SSTs the widest chain is 320 times narrower than in RocksDB's shape",
                Measure::ChainWidest,
                Named::point(0, PER_LEVEL, "64 MB"),
                Named::point(0, "vLSM", "4 MB"),
                320.0,
            ),
            Claim::at_least(
                "with 8 MB SSTs a chain moves 20 times less",
                Measure::ChainWidth,
                Named::point(0, PER_LEVEL, "64 MB"),
                Named::point(0, "vLSM", "8 MB"),
                20.0,
            ),
        ],
    }
}

fn figure_10(setting: &Setting) -> Figure {
    let mut regions = Panel::new("Load A at 70 %", Form::lines("regions"), Measure::WriteP99);
    let mut sizes = Panel::new("Load A, closed loop", Form::lines("MB"), Measure::Throughput);
    for count in [4, 16, 64, 256] {
        let arms = [
            ("vLSM 8 MB", vlsm(setting, 8)),
            ("vLSM 4 MB", vlsm(setting, 4)),
            (OURS, rocksdb(setting)),
        ];
        for (name, arm) in arms {
            let arm = arm.map(|store| vlsm_measure::spec::StoreSpec { regions: count, ..store });
            let run = setting.load_a_regions(&arm);
            regions = regions.point(name, X::number(count as f64), &run, "share");
        }
    }
    for sst in [4, 8, 16, 32, 64] {
        let run = setting.load_a_at_share(&vlsm(setting, sst));
        sizes = sizes.point("vLSM", megabytes(sst), &run, "max");
    }
    sizes = sizes.point(OURS, megabytes(64), &setting.load_a_at_share(&rocksdb(setting)), "max");
    Figure {
        says:
            "More regions make shorter trees: RocksDB's P99 falls 1.4 times from 16 regions on and \
               stays high; vLSM's is 4.23 times lower with 8 MB and 5 times with 4 MB."
                .into(),
        here: "Each at 70 % of its own maximum. All regions together have 350 M pairs, as there."
            .into(),
        panels: vec![regions, sizes],
        claims: vec![Claim::at_least(
            "with four regions vLSM's P99 is 4.23 times lower",
            Measure::WriteP99,
            Named::point(0, OURS, "4"),
            Named::point(0, "vLSM 8 MB", "4"),
            4.23,
        )],
    }
}

fn figure_11(setting: &Setting) -> Figure {
    let mut panel = Panel::new("Load A at 70 % of its maximum", Form::Bars, Measure::WriteP99);
    let percentiles =
        [("P50", Measure::WriteP50), ("P90", Measure::WriteP90), ("P99", Measure::WriteP99)];
    let mut add = |name: &str, arm: Arm| {
        let run = setting.load_a_at_share(&arm);
        let mut taken = std::mem::replace(&mut panel, Panel::new("", Form::Bars, Measure::P99));
        for (place, (label, measure)) in percentiles.iter().enumerate() {
            taken = taken.point_of(name, X::name(place, label), *measure, &run, "share");
        }
        panel = taken;
    };
    add("RocksDB-IO 64 MB", rocksdb_io(setting, 64));
    for sst in [8, 16, 32, 64] {
        add(&format!("vLSM {sst} MB"), vlsm(setting, sst));
    }
    let claim = |label: &str, measure, factor| {
        Claim::at_least(
            &format!("{label} is {factor} times lower with 8 MB SSTs"),
            measure,
            Named::point(0, "RocksDB-IO 64 MB", label),
            Named::point(0, "vLSM 8 MB", label),
            factor,
        )
    };
    Figure {
        says: "vLSM with 8 MB improves P50 up to 4 times and P90 up to 4.88 times.".into(),
        here: "Each at 70 % of its own maximum.".into(),
        panels: vec![panel],
        claims: vec![claim("P50", Measure::WriteP50, 4.0), claim("P90", Measure::WriteP90, 4.88)],
    }
}

fn figure_13(setting: &Setting) -> Figure {
    let mut amplification = Panel::new("Load A", Form::lines("MB"), Measure::IoAmplification);
    let mut good = Panel::new("SSTs of L1", Form::Bars, Measure::GoodByCount);
    for sst in [4, 8, 16, 32, 64] {
        // L2 stays at 2 GB: Φ is 64 with 4 MB.
        let fixed_l2 =
            setting.ours(&format!("vlsm {sst} MB, L2 2 GB"), PolicyOptions::vlsm(Bytes::mib(sst)));
        let arm = if sst < 8 { Ok(fixed_l2) } else { vlsm(setting, sst) };
        let run = setting.load_a_at_share(&arm);
        amplification = amplification.point("vLSM", megabytes(sst), &run, "max");
        if sst <= 8 {
            good = good.point("by count", megabytes(sst), &run, "max").point_of(
                "by ratio of bytes",
                megabytes(sst),
                Measure::GoodByRatio,
                &run,
                "max",
            );
        }
    }
    let io = setting.load_a_at_share(&rocksdb_io(setting, 64));
    amplification = amplification.point("RocksDB-IO", megabytes(64), &io, "max");
    Figure {
        says:
            "With 8 MB SSTs (Φ = 32) 90 % of the vSSTs are good and amplification is RocksDB-IO's; \
               with 4 MB (Φ = 64) 6 % are good and amplification is not held."
                .into(),
        here:
            "Uniform keys only. Good are SSTs of L1 at the end of the run; the paper counts those \
               of all compactions."
                .into(),
        panels: vec![amplification, good.paper("by count", &[(4.0, 0.06), (8.0, 0.9)])],
        claims: vec![
            Claim::at_most(
                "with 8 MB SSTs amplification is at most RocksDB-IO's",
                Measure::IoAmplification,
                Named::point(0, "vLSM", "8 MB"),
                Named::point(0, "RocksDB-IO", "64 MB"),
                1.05,
            ),
            Claim::value_at_least(
                "90 % of the vSSTs are good at 8 MB",
                Measure::GoodByCount,
                Named::point(1, "by count", "8 MB"),
                0.9,
            ),
            Claim::value_at_most(
                "6 % of the vSSTs are good at 4 MB",
                Measure::GoodByCount,
                Named::point(1, "by count", "4 MB"),
                0.06,
            ),
        ],
    }
}

fn table_1(setting: &Setting) -> Figure {
    let mut latency = Panel::new("Load A at 70 % of its maximum", Form::Bars, Measure::WriteP99);
    let mut throughput = Panel::new("Load A, closed loop", Form::Bars, Measure::Throughput);
    let mut cpu = Panel::new("Load A, closed loop", Form::Bars, Measure::CpuPerOp);
    for sst in [2, 4, 8] {
        let run = setting.load_a_at_share(&vlsm(setting, sst));
        latency = latency.point("vLSM", megabytes(sst), &run, "share");
        throughput = throughput.point("vLSM", megabytes(sst), &run, "max");
        cpu = cpu.point("vLSM", megabytes(sst), &run, "max");
    }
    let point = |panel, label: &str| Named::point(panel, "vLSM", label);
    Figure {
        says:
            "P99, throughput and cycles per operation with SSTs of 2 MB: 421 ms, 39 k/s, 320 k; of \
               4 MB: 502 ms, 161 k/s, 196 k; of 8 MB: 860 ms, 194 k/s, 140 k."
                .into(),
        here: "CPU time per operation instead of cycles (the paper's cores run at 2.4 GHz).".into(),
        panels: vec![
            latency.paper("vLSM", &[(2.0, 421e3), (4.0, 502e3), (8.0, 860e3)]),
            throughput.paper("vLSM", &[(2.0, 39e3), (4.0, 161e3), (8.0, 194e3)]),
            cpu.paper("vLSM", &[(2.0, 133.0), (4.0, 82.0), (8.0, 58.0)]),
        ],
        claims: vec![
            Claim::at_least(
                "P99 with 4 MB is 1.71 times lower than with 8 MB",
                Measure::WriteP99,
                point(0, "8 MB"),
                point(0, "4 MB"),
                1.71,
            ),
            Claim::at_least(
                "8 MB has 1.2 times the throughput of 4 MB",
                Measure::Throughput,
                point(1, "8 MB"),
                point(1, "4 MB"),
                1.2,
            ),
            Claim::at_least(
                "8 MB has 5 times the throughput of 2 MB",
                Measure::Throughput,
                point(1, "8 MB"),
                point(1, "2 MB"),
                4.97,
            ),
        ],
    }
}
