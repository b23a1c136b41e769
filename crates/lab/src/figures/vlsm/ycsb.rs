//! Figure 12 of vLSM: YCSB Load A and Run A, and Runs B to D in a figure of their own. Each store
//! is asked for a share of its own maximum.

use super::{OURS, PER_LEVEL, rocksdb, rocksdb_io, rocksdb_per_level, vlsm};
use crate::figures::arms::Arm;
use crate::figures::measure::Measure;
use crate::figures::{Claim, Figure, Form, Named, Panel, Setting, X};

/// The stores of figure 12.
fn ycsb_arms(setting: &Setting) -> [(&'static str, Arm); 5] {
    [
        (OURS, rocksdb(setting)),
        (PER_LEVEL, rocksdb_per_level(setting)),
        ("RocksDB-IO", rocksdb_io(setting, 64)),
        ("ADOC", setting.profile("adoc")),
        ("vLSM", vlsm(setting, 8)),
    ]
}

pub(super) fn figure_12(setting: &Setting) -> Figure {
    let mut writes = Panel::new("writes, at 70 % of the maximum", Form::Bars, Measure::WriteP99);
    let mut reads = Panel::new("reads, at 70 % of the maximum", Form::Bars, Measure::ReadP99);
    let mut most = Panel::new("closed loop", Form::Bars, Measure::Throughput);
    let mut cpu = Panel::new("closed loop", Form::Bars, Measure::CpuPerOp);
    let (load_a, run_a) = (X::name(0, "Load A"), X::name(1, "Run A"));
    for (name, arm) in ycsb_arms(setting) {
        let (load, runs) = (setting.load_a_at_share(&arm), setting.run_a(&arm));
        writes = writes.point(name, load_a.clone(), &load, "share");
        writes = writes.point(name, run_a.clone(), &runs, "a");
        reads = reads.point(name, run_a.clone(), &runs, "a");
        most = most.point(name, load_a.clone(), &load, "max");
        most = most.point(name, run_a.clone(), &runs, "max");
        cpu = cpu.point(name, load_a.clone(), &load, "max");
        cpu = cpu.point(name, run_a.clone(), &runs, "max");
    }
    Figure {
        says: "Against RocksDB vLSM's P99 is up to 5.2 times lower for Load A's writes and 4.8 \
               times for Run A's; against RocksDB-IO 12.5 times for Run A's reads, with up to 2 \
               times the throughput and at most 4 % less CPU efficiency."
            .into(),
        here: "Each at 70 % of its own maximum. Runs B to D are a figure of their own: they write \
               so little that 100 chains take hours."
            .into(),
        panels: vec![writes, reads, most, cpu],
        claims: claims(),
    }
}

/// What the paper says of figure 12.
fn claims() -> Vec<Claim> {
    let against = |panel, name: &str, label: &str| {
        (Named::point(panel, name, label), Named::point(panel, "vLSM", label))
    };
    let claim = |text: &str, measure, (a, b): (Named, Named), factor| {
        Claim::at_least(text, measure, a, b, factor)
    };
    vec![
        claim(
            "Load A: write P99 5.2 times below RocksDB's",
            Measure::WriteP99,
            against(0, OURS, "Load A"),
            5.2,
        ),
        claim(
            "Run A: write P99 4.8 times below RocksDB's",
            Measure::WriteP99,
            against(0, OURS, "Run A"),
            4.8,
        ),
        claim(
            "Load A: write P99 5.2 times below that of RocksDB with 64 MB a level",
            Measure::WriteP99,
            against(0, PER_LEVEL, "Load A"),
            5.2,
        ),
        claim(
            "Run A: write P99 4.8 times below that of RocksDB with 64 MB a level",
            Measure::WriteP99,
            against(0, PER_LEVEL, "Run A"),
            4.8,
        ),
        claim(
            "Run A: read P99 12.5 times below RocksDB-IO's",
            Measure::ReadP99,
            against(1, "RocksDB-IO", "Run A"),
            12.5,
        ),
        Claim::at_least(
            "Run A: twice RocksDB-IO's throughput",
            Measure::Throughput,
            Named::point(2, "vLSM", "Run A"),
            Named::point(2, "RocksDB-IO", "Run A"),
            2.0,
        ),
        Claim::at_most(
            "Load A: CPU per operation at most 4 % higher",
            Measure::CpuPerOp,
            Named::point(3, "vLSM", "Load A"),
            Named::point(3, "RocksDB-IO", "Load A"),
            1.04,
        ),
    ]
}

pub(super) fn figure_12_reads(setting: &Setting) -> Figure {
    let mut writes = Panel::new("writes, at 70 % of the maximum", Form::Bars, Measure::WriteP99);
    let mut reads = Panel::new("reads, at 70 % of the maximum", Form::Bars, Measure::ReadP99);
    for (name, arm) in ycsb_arms(setting) {
        let runs = setting.run_b_to_d(&arm);
        for (place, letter) in ["b", "c", "d"].into_iter().enumerate() {
            let x = X::name(place, &format!("Run {}", letter.to_uppercase()));
            reads = reads.point(name, x.clone(), &runs, letter);
            if letter != "c" {
                writes = writes.point(name, x, &runs, letter);
            }
        }
    }
    Figure {
        says: "Run B as Run A: reads wait far less.".into(),
        here: "Each at 70 % of its own maximum, five minutes in three rounds.".into(),
        panels: vec![writes, reads],
        claims: vec![Claim::more(
            "Run B: read P99 lower",
            Measure::ReadP99,
            Named::point(1, "RocksDB-IO", "Run B"),
            Named::point(1, "vLSM", "Run B"),
        )],
    }
}
