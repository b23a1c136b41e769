//! db_bench's names, and its mixgraph, which is Meta's production mix.
//!
//! Source: the list in RocksDB's db_bench ("Benchmarking tools" of its wiki); Cao et al.,
//! "Characterizing, Modeling, and Benchmarking RocksDB Key-Value Workloads at Facebook" (FAST '20)
//! and the pull requests 4788, 5953 and 9711 of RocksDB for mixgraph: get:put:seek 0.83:0.14:0.03;
//! 30 key ranges whose heat is a·e^(b·x) + c·e^(d·x) with a = 14.18, b = -2.917, c = 0.0164,
//! d = -0.08082; within a range ranks by 0.002312·r^0.3467; values of generalised Pareto lengths
//! with k = 0.2615, σ = 25.45, 10 to 1,024 bytes; scans with k = 2.517, σ = 14.236, up to 10,000
//! pairs; keys of 48 bytes.
//!
//! Deviations: `fillrandom` writes each record once instead of drawing numbers that repeat.
//! `readseq` does scans of 100 pairs that follow each other instead of one long scan. The sine of
//! mixgraph's rate is left out; arrivals can vary the rate. db_bench's records have 16 + 100 bytes.

use super::data::{KeyOrder, Shape};
use super::keys::{Choice, HotRanges};
use super::sizes::{Pareto, Sizes};
use super::{Preset, Workload};

/// The key ranges of Meta's production mix ("prefix_dist").
const RANGES: HotRanges =
    HotRanges { ranges: 30, heat: [14.18, -2.917, 0.0164, -0.08082], ranks: [0.002_312, 0.3467] };
const VALUES: Pareto = Pareto { k: 0.2615, sigma: 25.45, min: 10, max: 1024 };
const SCANS: Pareto = Pareto { k: 2.517, sigma: 14.236, min: 1, max: 10_000 };

pub(super) fn all() -> Vec<Preset> {
    let none = |name: &str| Workload::none(name, Choice::Uniform);
    let make = |name: &str, what: &str, change: &dyn Fn(&mut Workload)| {
        let mut workload = none(name);
        change(&mut workload);
        Preset::new(name, what, workload)
    };
    let mut all = vec![
        make("fillseq", "db_bench: inserts in the order of keys", &|w| w.inserts = 100.0),
        make("fillrandom", "db_bench: inserts in random order of keys", &|w| w.inserts = 100.0),
        make("overwrite", "db_bench: updates of uniform records", &|w| w.updates = 100.0),
        make("readrandom", "db_bench: reads of uniform records", &|w| w.reads = 100.0),
        make("readseq", "db_bench: scans of 100 pairs, one after the other", &|w| {
            (w.scans, w.scan, w.choice) = (100.0, Sizes::Fixed(100), Choice::InOrder);
        }),
        make("readmissing", "db_bench: reads of keys that are not there", &|w| {
            w.missing_reads = 100.0;
        }),
        make("seekrandom", "db_bench: one pair from a uniform record on", &|w| {
            (w.scans, w.scan) = (100.0, Sizes::Fixed(1));
        }),
        make("scan100", "scans of 100 pairs from uniform records on", &|w| {
            (w.scans, w.scan) = (100.0, Sizes::Fixed(100));
        }),
        make("readwhilewriting", "db_bench: one client updates, the others read; uniform", &|w| {
            (w.reads, w.updates, w.apart) = (50.0, 50.0, true);
        }),
        make(
            "seekrandomwhilewriting",
            "db_bench: one client updates, the others scan; uniform",
            &|w| {
                (w.scans, w.updates, w.apart) = (50.0, 50.0, true);
                w.scan = Sizes::Fixed(50);
            },
        ),
        make("readrandomwriterandom", "db_bench: 90 % reads, 10 % updates; uniform", &|w| {
            (w.reads, w.updates) = (90.0, 10.0);
        }),
        make("updaterandom", "db_bench: read-modify-writes of uniform records", &|w| {
            w.read_modify_writes = 100.0;
        }),
        make("deleterandom", "db_bench: deletes of uniform records", &|w| w.deletes = 100.0),
    ];
    for preset in &mut all {
        if preset.name == "fillseq" {
            preset.shape.order = KeyOrder::Sequential;
        }
    }
    all.push(mixgraph());
    all
}

fn mixgraph() -> Preset {
    let workload = Workload {
        reads: 83.0,
        updates: 14.0,
        scans: 3.0,
        scan: Sizes::Pareto(SCANS),
        ..Workload::none("mixgraph", Choice::HotRanges(RANGES))
    };
    let values = Sizes::Pareto(VALUES);
    Preset {
        shape: Shape { key_size: 48, values, order: KeyOrder::Hashed },
        ..Preset::new("mixgraph", "Meta's production mix: 83:14:3 get:put:seek", workload)
    }
}
