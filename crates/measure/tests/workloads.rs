//! Workloads compared with the definitions after which they are named: the shares of operations,
//! and the choice of records.
//!
//! Frequencies are compared by chi-square; one run in ten thousand exceeds the limits by chance.
//! The seeds are fixed, so a test that passes once always passes.

use std::collections::HashMap;
use std::sync::Arc;
use vlsm_measure::metrics::Kind;
use vlsm_measure::workload::data::{Data, KeyOrder, Shape, mix};
use vlsm_measure::workload::keys::{Choice, HotRanges};
use vlsm_measure::workload::{Generator, Key, Op, Preset, Records, THETA, Workload};

const RECORDS: u64 = 1000;

fn generator(workload: &Workload, shape: Shape, records: u64, client: u64) -> Generator {
    let records = Arc::new(Records::new(records));
    Generator::new(workload, &Data::shaped(shape, 1), &records, 7, (client, 2))
}

fn ops(name: &str, client: u64, count: usize) -> Vec<Op> {
    let preset = Preset::named(name).expect("known");
    let mut generator = generator(&preset.workload, preset.shape, RECORDS, client);
    (0..count).map(|_| generator.next_op()).collect()
}

fn kind(op: &Op) -> &'static str {
    match op.kind {
        Kind::Read if matches!(op.key, Key::Missing(_)) => "missing",
        Kind::Read => "read",
        Kind::Update => "update",
        Kind::Insert => "insert",
        Kind::Delete => "delete",
        Kind::Scan => "scan",
        Kind::ReadModifyWrite => "rmw",
        Kind::Transaction => "transaction",
    }
}

/// Fails when counts differ from expected ones by more than chance explains.
fn chi_square(what: &str, cells: &[(f64, f64)]) {
    let sum: f64 =
        cells.iter().map(|(found, expected)| (found - expected).powi(2) / expected).sum();
    let freedom = cells.len() as f64 - 1.0;
    // Wilson and Hilferty's approximation of the quantile 0.9999.
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3);
    assert!(sum < limit, "{what}: chi-square {sum:.1} of at most {limit:.1}");
}

#[test]
fn operations_are_mixed_as_defined() {
    let cases: &[(&str, &[(&str, f64)])] = &[
        ("load", &[("insert", 100.0)]),
        ("a", &[("read", 50.0), ("update", 50.0)]),
        ("b", &[("read", 95.0), ("update", 5.0)]),
        ("c", &[("read", 100.0)]),
        ("d", &[("read", 95.0), ("insert", 5.0)]),
        ("e", &[("scan", 95.0), ("insert", 5.0)]),
        ("f", &[("read", 50.0), ("rmw", 50.0)]),
        ("a-uniform", &[("read", 50.0), ("update", 50.0)]),
        ("silk", &[("update", 57.0), ("read", 41.0), ("scan", 2.0)]),
        ("silk-90w-peak", &[("update", 90.0), ("read", 10.0)]),
        ("mixgraph", &[("read", 83.0), ("update", 14.0), ("scan", 3.0)]),
        ("readrandomwriterandom", &[("read", 90.0), ("update", 10.0)]),
        ("readmissing", &[("missing", 100.0)]),
        ("updaterandom", &[("rmw", 100.0)]),
        ("deleterandom", &[("delete", 100.0)]),
        ("cruise-get-50", &[("read", 50.0), ("insert", 50.0)]),
        ("cruise-scan-20", &[("scan", 20.0), ("insert", 80.0)]),
        ("dlc", &[("transaction", 100.0)]),
    ];
    for (name, shares) in cases {
        let mut counts = HashMap::<_, f64>::new();
        ops(name, 0, 50_000).iter().for_each(|op| *counts.entry(kind(op)).or_default() += 1.0);
        assert_eq!(counts.len(), shares.len(), "{name}: {counts:?}");
        let cells: Vec<_> =
            shares.iter().map(|(kind, share)| (counts[kind], share * 500.0)).collect();
        if cells.len() > 1 {
            chi_square(name, &cells);
        }
    }
}

#[test]
fn operations_depend_on_seed_and_client_alone() {
    assert_eq!(ops("a", 0, 100), ops("a", 0, 100));
    assert_ne!(ops("a", 0, 100), ops("a", 1, 100));
    let insert = |record| Op { kind: Kind::Insert, key: Key::Record(record), length: 0 };
    let expected: Vec<_> = (RECORDS..RECORDS + 100).map(insert).collect();
    assert_eq!(ops("load", 0, 100), expected, "inserts take consecutive numbers");
}

/// The number of reads of each record.
fn reads(name: &str, count: usize) -> Vec<f64> {
    let mut counts = vec![0.0; RECORDS as usize];
    for op in ops(name, 0, count) {
        if let Op { kind: Kind::Read, key: Key::Record(record), .. } = op {
            counts[record as usize] += 1.0;
        }
    }
    counts
}

#[test]
fn records_are_chosen_as_defined() {
    let count = 400_000;
    let weight = |rank: u64| (rank as f64).powf(-THETA);
    let total: f64 = (1..=RECORDS).map(weight).sum();
    let uniform: Vec<_> =
        reads("readrandom", count).iter().map(|&n| (n, count as f64 / RECORDS as f64)).collect();
    chi_square("uniform", &uniform);
    let latest = reads("c-latest", count);
    let by_rank = |rank: u64| latest[(RECORDS - rank) as usize];
    let cells: Vec<_> =
        (1..=RECORDS).map(|rank| (by_rank(rank), weight(rank) / total * count as f64)).collect();
    chi_square("latest", &cells);
    // Zipfian is scrambled, and a record may have several ranks: the hottest of all gets the share
    // of the first rank at least, and the shares of ranks without a second one are found again.
    let mut zipfian = reads("c", count);
    zipfian.sort_by(|a, b| b.total_cmp(a));
    let first = weight(1) / total * count as f64;
    assert!(zipfian[0] > first - 5.0 * first.sqrt());
    let top: f64 = zipfian[..100].iter().sum::<f64>() / count as f64;
    let expected: f64 = (1..=100).map(weight).sum::<f64>() / total;
    assert!(top > expected - 0.01 && top < expected + 0.06, "{top} of {expected}");
}

#[test]
fn scans_are_as_long_as_defined() {
    let lengths = |name: &str| -> Vec<usize> {
        let scan = |op: Op| (op.kind == Kind::Scan).then_some(op.length);
        ops(name, 0, 60_000).into_iter().filter_map(scan).collect()
    };
    let e = lengths("e");
    let cells: Vec<_> = (1..=100)
        .map(|length| {
            let found = e.iter().filter(|found| **found == length).count();
            (found as f64, e.len() as f64 / 100.0)
        })
        .collect();
    chi_square("YCSB E: uniform from 1 to 100", &cells);
    let mean = |lengths: &[usize]| lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    assert!((mean(&lengths("cruise-scan-50")) - 5.0).abs() < 0.1);
    assert!(lengths("seekrandom").iter().all(|length| *length == 1));
    assert!(lengths("silk").iter().all(|length| (10..=90).contains(length)));
    // P(length > x) = (1 + k x / σ)^(-1/k), except for lengths that wrap around.
    let mixgraph = lengths("mixgraph");
    let below = |x: usize| mixgraph.iter().filter(|length| **length <= x).count() as f64;
    for x in [5, 20, 100] {
        let expected = 1.0 - f64::powf(1.0 + 2.517 * x as f64 / 14.236, -1.0 / 2.517);
        let found = below(x) / mixgraph.len() as f64;
        assert!((found - expected).abs() < 0.04, "{x}: {found} of {expected}");
    }
}

#[test]
fn hot_ranges_of_keys_are_asked_as_defined() {
    let preset = Preset::named("mixgraph").expect("known");
    let Choice::HotRanges(hot @ HotRanges { ranges, .. }) = preset.workload.choice else {
        panic!("it has hot ranges")
    };
    let (records, count) = (30_000, 200_000);
    for order in [KeyOrder::Hashed, KeyOrder::Sequential] {
        let shape = Shape { order, ..preset.shape };
        let mut generator = generator(&preset.workload, shape, records, 0);
        let mut heat = vec![0.0_f64; ranges as usize];
        for _ in 0..count {
            let record = generator.pick();
            assert!(record < records);
            let range = match order {
                KeyOrder::Hashed => (u128::from(mix(record)) * u128::from(ranges)) >> 64,
                KeyOrder::Sequential => u128::from(record / (records / u64::from(ranges))),
            };
            heat[range as usize] += 1.0;
        }
        heat.sort_by(|a, b| b.total_cmp(a));
        let cells: Vec<_> = heat
            .into_iter()
            .zip(hot.shares())
            .map(|(n, share)| (n, share * f64::from(count)))
            .collect();
        chi_square("heat of ranges", &cells);
    }
    // a·e^b of the first one dominates: 14.18·e^-2.917 against 30 ranges of 0.0164 at most.
    assert!(hot.shares()[0] > 0.7 && hot.shares()[29] < 0.01);
}

#[test]
fn sequential_reads_cover_all_keys_once_around() {
    let preset = Preset::named("readseq").expect("known");
    let mut generator = generator(&preset.workload, preset.shape, 10_000, 0);
    let mut places: Vec<u64> = (0..100)
        .map(|_| match generator.next_op() {
            Op { kind: Kind::Scan, key: Key::At(place), length: 100 } => place,
            other => panic!("{other:?} is no scan of 100 pairs"),
        })
        .collect();
    places.sort_unstable();
    let steps = places.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 2f64.powi(64));
    assert!(steps.into_iter().all(|step| (step - 0.01).abs() < 1e-6), "even hundredths");
}
