//! Comparisons of known values: ratios, intervals, verdicts, and the refusal to conclude from too
//! few pairs.

mod synthetic;

use synthetic::{STALLING, STEADY, report};
use vlsm_lab::compare::{Comparison, Ratio, Runs, Verdict, interval, median};
use vlsm_measure::report::statistic::Better;

#[test]
fn medians_and_intervals_of_known_values() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0]), Some(2.0));
    assert_eq!(median(&[3.0, 1.0, 9.0]), Some(3.0));
    let first = |count: i32| -> Vec<f64> { (1..=count).rev().map(f64::from).collect() };
    // Coverage of order statistics for the median, from tables of the sign test.
    for (count, low, high, sure) in [
        (3, 1.0, 3.0, 0.75),
        (4, 1.0, 4.0, 0.875),
        (5, 1.0, 5.0, 0.9375),
        (6, 1.0, 6.0, 0.96875),
        (8, 1.0, 8.0, 0.992_187_5),
        (9, 2.0, 8.0, 0.960_937_5),
        (10, 2.0, 9.0, 0.978_515_625),
        (15, 4.0, 12.0, 0.964_843_75),
        (20, 6.0, 15.0, 0.958_610_534_667_968_8),
    ] {
        let ((least, largest), confidence) = interval(&first(count)).expect("there are values");
        assert_eq!((least, largest), (low, high), "{count}");
        assert!((confidence - sure).abs() < 1e-9, "{count}: {confidence} is not {sure}");
    }
    assert_eq!(interval(&[]), None);
    assert!(interval(&first(5000)).is_some());
}

#[test]
fn verdicts_need_three_pairs_and_an_interval_beside_one() {
    let verdict =
        |pairs: &[(f64, f64)], better| Ratio::of(pairs, better).expect("there are pairs").verdict;
    let lower = [(5.0, 10.0), (6.0, 10.0), (4.0, 8.0)];
    assert_eq!(verdict(&lower, Better::Lower), Verdict::Better);
    assert_eq!(verdict(&lower, Better::Higher), Verdict::Worse);
    assert_eq!(verdict(&lower[..2], Better::Lower), Verdict::TooFew(2));
    let around = [(9.0, 10.0), (12.0, 10.0), (7.0, 10.0)];
    assert_eq!(verdict(&around, Better::Lower), Verdict::NoDifferenceShown);
    let ratio = Ratio::of(&lower, Better::Lower).expect("there are pairs");
    assert_eq!(ratio.pairs, [0.5, 0.6, 0.5]);
    assert_eq!((ratio.median, ratio.interval, ratio.confidence), (0.5, (0.5, 0.6), 0.75));
    // Pairs count, not medians: the machine became four times slower in between.
    let drifting = [(11.0, 10.0), (44.0, 40.0), (22.0, 20.0)];
    assert_eq!(verdict(&drifting, Better::Lower), Verdict::Worse);
    // The difference is certain, but too small to count.
    assert_eq!(verdict(&[(99_999.0, 100_000.0); 9], Better::Lower), Verdict::NoDifferenceShown);
    assert_eq!(Ratio::of(&[], Better::Lower), None);
}

#[test]
fn nothing_beside_nothing_is_no_difference() {
    let of = |pairs: &[(f64, f64)]| Ratio::of(pairs, Better::Lower).expect("there are pairs");
    let none = of(&[(0.0, 0.0); 3]);
    assert_eq!((none.median, none.verdict), (1.0, Verdict::NoDifferenceShown));
    let some = of(&[(2.0, 0.0), (3.0, 0.0), (1.0, 0.0)]);
    assert_eq!((some.median, some.verdict), (f64::INFINITY, Verdict::Worse));
    assert_eq!(of(&[(0.0, 3.0); 3]).verdict, Verdict::Better);
}

fn stores(pairs: u64) -> [Runs; 2] {
    let runs = |shape, name: &str| Runs {
        name: name.into(),
        reports: (0..pairs).map(|seed| report(shape, seed)).collect(),
    };
    [runs(&STALLING, "rocksdb"), runs(&STEADY, "vlsm")]
}

#[test]
fn runs_are_compared_round_by_round() {
    let comparison = Comparison::new(&stores(3));
    let row =
        comparison.rows.iter().find(|row| row.statistic == "writes P99").expect("it is there");
    let ratio = row.ratios[1].as_ref().expect("both have it");
    assert_eq!(ratio.pairs.len(), 3);
    assert!((ratio.median - 1.0 / STALLING.slower).abs() < 1e-9, "the noise is the same");
    assert_eq!(row.ratios[0], None, "the baseline is not compared to itself");
    let text = comparison.text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("least to largest: holds the true median with 75 %"), "{text}");
    assert!(text.contains("better") && !text.contains("no conclusion"), "{text}");
    assert!(!text.contains("scans"), "none was measured: {text}");
}

#[test]
fn two_pairs_conclude_nothing() {
    let text = Comparison::new(&stores(2)).text();
    assert!(text.contains("2 pairs of runs: nothing is concluded from fewer than 3"), "{text}");
    assert!(text.contains("2 pairs: no conclusion"), "{text}");
    assert!(!text.contains("better") && !text.contains("worse"), "{text}");
    let mut one = stores(3);
    one[1].reports.truncate(1);
    assert!(Comparison::new(&one).text().contains("1 pair: no conclusion"));
}

#[test]
fn what_one_store_lacks_is_not_compared() {
    let mut stores = stores(3);
    stores[0].reports.iter_mut().for_each(|report| report.peak_memory = None);
    let comparison = Comparison::new(&stores);
    let row =
        comparison.rows.iter().find(|row| row.statistic == "peak memory").expect("one has it");
    assert_eq!((row.medians[0], row.ratios[1].as_ref()), (None, None));
}

#[test]
fn debt_that_a_phase_left_is_said() {
    let runs = |owing: bool| {
        let one = |seed| {
            let mut report = report(&STALLING, seed);
            let samples = report.phases.iter_mut().flat_map(|phase| &mut phase.samples);
            samples.filter(|one| owing && one.at > 9.0).for_each(|one| one.levels[1] *= 5);
            report
        };
        Runs { name: "theirs".into(), reports: (1..=3).map(one).collect() }
    };
    let paid = Comparison::new(&[runs(false), runs(false)]);
    assert!(paid.debts.is_empty() && !paid.method().contains("Debt"), "{:?}", paid.debts);
    let text = Comparison::new(&[runs(false), runs(true)]).text();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("Debt was left by theirs, \"bursts\" (L1 at"), "{text}");
}
