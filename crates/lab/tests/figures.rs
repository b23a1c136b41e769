//! From made-up reports to the result of a figure: points, conditions, verdicts, text and page.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "for tests")]

mod synthetic;

use std::collections::BTreeMap;
use std::rc::Rc;
use synthetic::{Shape, report_of, show};
use vlsm_lab::figures::beside::Beside;
use vlsm_lab::figures::claims::{self, Reason, Reasons};
use vlsm_lab::figures::judge::{Rounds, judge};
use vlsm_lab::figures::result::{ClaimResult, FigureResult, Verdict};
use vlsm_lab::figures::{self, Setting, conditions, matrix, page, text};
use vlsm_lab::scale::Scale;
use vlsm_measure::metrics::Percentiles;
use vlsm_measure::report::Report;
use vlsm_measure::spec::{RunSpec, Step, StoreSpec};
use vlsm_policy::shape::vlsm::L1Limit;

fn setting(scale: Scale) -> Setting {
    Setting { scale, dir: None, peers: false, seconds: 20.0 }
}

/// The made-up report of a run: of a store that stalls, unless its configuration is a form of
/// vLSM's.
fn made_up(run: &RunSpec, round: u64) -> Report {
    let steady = run.store.config.starts_with("vlsm");
    let shape: Shape = if steady { synthetic::STEADY } else { synthetic::STALLING };
    let mut report = report_of(&shape, &RunSpec { seed: round, ..run.clone() });
    report.method.limits_in_force = true;
    report
}

fn result_of(id: &str, scale: Scale, rounds: u64, change: impl Fn(&mut Report)) -> FigureResult {
    let setting = setting(scale);
    let entry = figures::named(id).expect("it exists");
    let figure = (entry.build)(&setting);
    let brought = |run: &RunSpec| -> Rounds {
        let one = |round| {
            let mut report = made_up(run, round);
            change(&mut report);
            Ok(report)
        };
        (1..=rounds).map(one).collect::<Rc<[_]>>()
    };
    judge(entry, &figure, &setting, "vlsm lab figure".into(), &brought)
}

fn why_not(result: &FigureResult, expected: &str) {
    let why = result.why_not().expect("it is not measured");
    assert!(why.contains(expected), "{why}");
    assert!(result.claims.iter().all(|claim| claim.verdict == Verdict::NotMeasured));
    let page = page::render(result);
    assert!(page.contains("not measured") && !page.contains("<svg"), "no curve is drawn");
    assert!(text::render(result).contains("not measured: "));
}

/// The figure is measured, but no claim is judged, for this reason.
fn unjudged(result: &FigureResult, expected: &str) {
    assert_eq!(result.why_not(), None);
    for claim in &result.claims {
        assert_eq!(claim.verdict, Verdict::NotMeasured);
        let why = claim.missing.as_deref().expect("a reason");
        assert!(why.contains(expected), "{why}");
    }
    let says = "No claim about phases that lack it is judged";
    assert!(result.notes().iter().any(|note| note.contains(says)));
    assert!(page::render(result).contains("<svg"), "the curves are drawn");
}

#[test]
fn a_measured_figure_has_curves_and_verdicts() {
    let result = result_of("vlsm-8", Scale::SMALL_SSTS, 3, |_| ());
    assert_eq!(result.why_not(), None);
    assert_eq!(result.rounds, 3);
    let lower = &result.claims[0];
    // The store that stalls is made up to be 2.2 times slower; the paper says 4.3.
    assert!(lower.found.iter().all(|found| (found - 2.2).abs() < 0.01), "{lower:?}");
    assert_eq!(lower.verdict, Verdict::HoldsInPart);
    assert_eq!(result.claims[1].verdict, Verdict::Holds, "{:?}", result.claims[1]);
    assert!(result.left_out.iter().any(|why| why.contains("rocksdb")), "{:?}", result.left_out);
    // A second of the paper is a eighth of one at this scale.
    let (_, paper) = &result.panels[0].paper[0];
    assert!((paper[0].1 - 1e6 / 8.0).abs() < 1e-9);
    let page = page::render(&result);
    assert!(page.contains("<svg") && page.contains("holds") && !page.contains("http"));
    show("figure-lines.html", &page);
    for id in ["vlsm-12", "silk-2", "vlsm-1", "cruise-12"] {
        let result = result_of(id, Scale::SMALL_SSTS, 3, |_| ());
        assert_eq!(result.why_not(), None, "{id}");
        show(&format!("figure-{id}.html"), &page::render(&result));
        let json = serde_json::to_string(&result).expect("it has an encoding");
        let read: FigureResult = serde_json::from_str(&json).expect("it can be read back");
        assert_eq!(read, result);
        let kept = serde_json::to_string(&result.kept()).expect("it has an encoding");
        let read: FigureResult = serde_json::from_str(&kept).expect("it can be read back");
        assert_eq!((&read.claims, &read.conditions), (&result.claims, &result.conditions));
        assert!(!kept.contains("over_time") && !kept.contains("proofs"), "{id}");
    }
}

/// Figure 8 with Pebble beside it, which reports neither targets nor chains; `change` alters its
/// reports.
fn with_pebble(change: fn(&mut Report, u64) -> Result<(), String>) -> FigureResult {
    let setting = setting(Scale::CAMPAIGN);
    let entry = figures::named("vlsm-8").expect("it exists");
    let mut figure = (entry.build)(&setting);
    let pebble = Beside::named(&setting, "pebble:sized").expect("known");
    assert!(figure.show_beside(&[pebble]));
    let brought = |run: &RunSpec| -> Rounds {
        let one = |round| -> Result<Report, String> {
            let mut report = made_up(run, round);
            if run.store.kind == "pebble" {
                for phase in &mut report.phases {
                    phase.store.levels.iter_mut().for_each(|level| level.target = None);
                    phase.chains.clear();
                    phase.store.flush_bytes = 0;
                    phase.jobs.clear();
                    phase.seconds = 30.0;
                }
                change(&mut report, round)?;
            }
            Ok(report)
        };
        (1..=3).map(one).collect::<Rc<[_]>>()
    };
    judge(entry, &figure, &setting, "vlsm lab figure".into(), &brought)
}

#[test]
fn added_stores_are_shown_and_not_judged() {
    let plain = result_of("vlsm-8", Scale::CAMPAIGN, 3, |_| ());
    let result = with_pebble(|_, _| Ok(()));
    assert_eq!(result.why_not(), None, "its levels and chains are not asked for");
    assert_eq!((&result.claims, &result.conditions), (&plain.claims, &plain.conditions));
    let of = |result: &FigureResult| -> Vec<usize> {
        let points = result.panels[0].points.iter().filter(|point| point.series == "pebble:sized");
        points.map(|point| point.values.iter().flatten().count()).collect()
    };
    assert_eq!(of(&result), [3, 3, 3], "every rate in every round");
    assert!(result.proofs.iter().any(|proof| proof.store == "pebble:sized"));
    for shown in [text::render(&result), page::render(&result)] {
        assert!(shown.contains("pebble:sized") && shown.contains("not judged"), "{shown}");
    }
    show("figure-beside.html", &page::render(&result));
    let json = serde_json::to_string(&result).expect("it has an encoding");
    assert_eq!(serde_json::from_str::<FigureResult>(&json).expect("it can be read"), result);

    let failed = |_: &mut Report, round: u64| match round {
        2 => Err("it vanished".to_owned()),
        _ => Ok(()),
    };
    let unequal = |report: &mut Report, _: u64| {
        report.method.limits_in_force = false;
        Ok(())
    };
    let other = |report: &mut Report, _: u64| {
        report.method.commit = "another".into();
        Ok(())
    };
    for (result, why) in [
        (with_pebble(failed), "it vanished"),
        (with_pebble(unequal), "limits asked for are in force"),
        (with_pebble(other), "one commit"),
    ] {
        assert_eq!(result.why_not(), None, "the figure is what it was");
        assert_eq!(of(&result), [0, 0, 0]);
        let said = result.added[0].why_not.as_ref().expect("it is not shown");
        assert!(said.contains(why), "{said}");
        assert!(text::render(&result).contains("pebble:sized is not shown: "));
    }
}

#[test]
fn every_run_of_every_figure_asks_for_what_can_be_opened() {
    for scale in [Scale::FULL, Scale::CAMPAIGN, Scale::SMOKE] {
        let setting = setting(scale);
        for entry in figures::all() {
            for run in (entry.build)(&setting).runs() {
                let check = |store: &StoreSpec| {
                    let direct = store.options.direct_io && store.options.direct_reads;
                    assert!(direct, "{}: the page cache would serve its reads", entry.id);
                    let legal = store.options.check();
                    legal.unwrap_or_else(|why| panic!("{}, {}, {scale}: {why}", entry.id, store));
                };
                check(&run.store);
                for step in &run.steps {
                    if let Step::Reopen(change, _) = step {
                        check(&change.apply(run.store.clone(), run.data.pairs));
                    }
                }
            }
        }
    }
}

/// A limited device bounds what a closed loop can write, and so the room that a run may need.
#[test]
fn a_run_needs_no_more_room_than_its_device_passes() {
    let setting = setting(Scale::SMALL_SSTS);
    let runs = (figures::named("cruise-12").expect("it exists").build)(&setting).runs();
    let run = runs.first().expect("it has runs");
    let limit = run.limits.device.expect("its device is limited");
    let second = |step: &Step| match step {
        Step::Phase(phase) => phase.seconds.expect("phases with an end"),
        _ => 0.0,
    };
    let seconds: f64 = run.steps.iter().map(second).sum();
    // Each record passes twice, and a compaction has its inputs and its outputs at once.
    let passed = (seconds * limit as f64) as u64 + 2 * run.loaded_bytes() + (1 << 29);
    assert_eq!(run.disk_needed() >> 20, passed >> 20);
    let mut fast = (**run).clone();
    fast.limits.device = None;
    assert!(fast.disk_needed() > run.disk_needed(), "{}", fast.disk_needed());
}

/// The variants of vLSM keep their ratios at any scale, and no two are the same.
#[test]
fn variants_of_vlsm_are_the_ones_they_are_named_for() {
    let runs =
        |id| (figures::named(id).expect("it exists").build)(&setting(Scale::CAMPAIGN)).runs();
    let mut found = Vec::new();
    for run in runs("vlsm-13-least") {
        let policy = &run.store.options.policy;
        let (own, sst) = (&policy.shapes.vlsm, policy.tree.sst_max);
        // Nearly all of S_M counts as a whole.
        let parts = (sst.as_f64() / own.sst_min.as_f64()).round() as u64;
        found.push((own.phi, format!("{:?}", own.overlap), parts));
    }
    found.sort();
    let expected = [32, 64].into_iter().flat_map(|phi| {
        let readings = ["Count", "Ratio"].into_iter();
        readings.flat_map(move |by| [1, 2, 4, 8].map(|parts| (phi, by.to_owned(), parts)))
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    let room = runs("vlsm-room");
    let limits = room.iter().map(|run| run.store.options.policy.shapes.vlsm.l1_limit);
    let drained = limits.filter(|limit| *limit == L1Limit::Target).count();
    assert_eq!((room.len(), drained), (4, 2));
}

#[test]
fn levels_have_to_be_full_when_they_can_be() {
    // A level that is the last one at first may fill up until the next one begins.
    let growing = |report: &mut Report| {
        for phase in &mut report.phases {
            let last = phase.store.levels.iter().rposition(|level| level.bytes > 0).unwrap();
            let early = phase.seconds / 3.0;
            for sample in phase.samples.iter_mut().filter(|sample| sample.at < early) {
                sample.levels[last] = 0;
                sample.levels[last - 1] /= 2;
            }
        }
    };
    assert_eq!(result_of("vlsm-8", Scale::CAMPAIGN, 3, growing).why_not(), None);
    let shrinking = |report: &mut Report| {
        for phase in &mut report.phases {
            let last = phase.store.levels.iter().rposition(|level| level.bytes > 0).unwrap();
            phase.samples.iter_mut().for_each(|sample| sample.levels[last - 1] /= 2);
        }
    };
    unjudged(&result_of("vlsm-8", Scale::CAMPAIGN, 3, shrinking), "a level that is not the last");
    // Three of four SSTs are a full L1, two are not.
    fn of_four(report: &mut Report, most: u64) {
        for phase in &mut report.phases {
            let level = &mut phase.store.levels[1];
            let sst = level.target.unwrap() / 4;
            (level.bytes, level.tables) = (2 * sst, 2);
            for (index, sample) in phase.samples.iter_mut().enumerate() {
                sample.levels[1] = sst * if index % 2 == 0 { most } else { 1 };
            }
        }
    }
    let breathing = |report: &mut Report| of_four(report, 2);
    unjudged(&result_of("vlsm-8", Scale::CAMPAIGN, 3, breathing), "a level that is not the last");
    let full = |report: &mut Report| of_four(report, 3);
    let judged = result_of("vlsm-8", Scale::SMALL_SSTS, 3, full);
    assert!(judged.claims.iter().all(|claim| claim.verdict != Verdict::NotMeasured));
}

/// A level that holds as much as those of other stores is full, even if its target has grown with
/// the memtables.
#[test]
fn levels_whose_targets_follow_the_memtables_are_full_by_their_first_targets() {
    let grown = |profile: &'static str| {
        move |report: &mut Report| {
            if report.method.spec.as_ref().is_none_or(|spec| spec.store.config != profile) {
                return;
            }
            for level in report.phases.iter_mut().flat_map(|phase| &mut phase.store.levels) {
                level.target = level.target.map(|target| 8 * target);
            }
        }
    };
    let result = |profile| result_of("adoc-1", Scale::SMALL_SSTS, 3, grown(profile));
    // The others need the work that a run left, of which these reports say nothing.
    let stalls = |profile| {
        let ClaimResult { verdict, missing, .. } = result(profile).claims.swap_remove(1);
        (verdict, missing.unwrap_or_default())
    };
    let none = stalls("no such profile");
    assert!(none.0 != Verdict::NotMeasured, "{none:?}");
    assert_eq!(stalls("adoc"), none);
    let fixed = stalls("rocksdb-auto");
    assert_eq!(fixed.0, Verdict::NotMeasured);
    assert!(fixed.1.contains("a level that is not the last"), "{fixed:?}");
}

#[test]
fn a_claim_about_a_phase_that_left_debt_is_not_judged() {
    // L1 ends at nearly six targets, in RocksDB's shape alone.
    fn owing(report: &mut Report) {
        if report.method.spec.as_ref().is_some_and(|spec| spec.store.config.starts_with("vlsm")) {
            return;
        }
        for phase in &mut report.phases {
            for sample in phase.samples.iter_mut().filter(|sample| sample.at > 100.0) {
                sample.levels[1] = 1_500 << 20;
            }
        }
    }
    let result = result_of("vlsm-8", Scale::SMALL_SSTS, 3, owing);
    assert_eq!(result.why_not(), None, "it is measured and shown");
    let [compared, alone] = &result.claims[..] else { panic!("{:?}", result.claims) };
    assert_eq!((compared.verdict, alone.verdict), (Verdict::DebtLeft, Verdict::Holds));
    let why = compared.missing.as_ref().expect("the reason is there");
    assert!(why.contains("L1 at 5.86 targets (at first") && why.contains("round 1"), "{why}");
    assert!(!compared.found.is_empty(), "the numbers stay");
    for shown in [text::render(&result), page::render(&result)] {
        assert!(shown.contains("not judged, debt was left"), "{shown}");
        assert!(shown.contains("debt left: ") && shown.contains("in 3 of 3 rounds"), "{shown}");
    }
    // Amplification contains the work that was left, if the run waited for it.
    fn waited(report: &mut Report) {
        owing(report);
        for phase in &mut report.phases {
            phase.settled = Some(phase.amplification);
        }
    }
    let verdict = |change: fn(&mut Report)| {
        result_of("vlsm-13", Scale::SMALL_SSTS, 3, change).claims[0].verdict
    };
    assert_eq!(verdict(owing), Verdict::DebtLeft);
    assert!([Verdict::Holds, Verdict::DoesNotHold].contains(&verdict(waited)));
}

#[test]
fn small_ssts_are_not_judged_at_a_small_scale() {
    for (id, scale, judged) in [
        ("vlsm-8", Scale::CAMPAIGN, false),
        ("vlsm-8", Scale::SMALL_SSTS, true),
        ("vlsm-9", Scale::CAMPAIGN, false),
        ("vlsm-13", Scale::CAMPAIGN, false),
        ("vlsm-1", Scale::CAMPAIGN, true),
    ] {
        let result = result_of(id, scale, 3, |_| ());
        assert_eq!(result.why_not(), None, "{id} is measured");
        let known = result.claims.iter().filter(|claim| claim.verdict != Verdict::NotMeasured);
        let known: Vec<_> = known.collect();
        assert!(!known.is_empty(), "{id} has claims that the reports tell of");
        for claim in known {
            assert_eq!(claim.verdict != Verdict::SmallScale, judged, "{id}, {scale}: {claim:?}");
            let why = claim.missing.as_ref().is_some_and(|why| why.contains("1/8 and above"));
            assert_eq!(why, !judged, "{id}, {scale}: {claim:?}");
        }
        assert_eq!(text::render(&result).contains("not judged at this scale"), !judged, "{id}");
    }
}

#[test]
fn a_peers_driver_is_compared_with_its_native_loop() {
    let result = with_pebble(|report, _| {
        report.method.options.push(("driver".into(), "0.92 of its native loop".into()));
        Ok(())
    });
    let note = "our driver beside a native loop: pebble:sized: 0.92 of its native loop.";
    assert!(result.notes().iter().any(|one| one == note), "{:?}", result.notes());
    assert!(page::render(&result).contains(note));
}

#[test]
fn every_condition_can_fail() {
    why_not(&result_of("vlsm-8", Scale::CAMPAIGN, 2, |_| ()), "three rounds or more: 2");
    why_not(&result_of("vlsm-8", Scale::SMOKE, 3, |_| ()), "a scale to measure with: 1/64");
    let stopped = |report: &mut Report| report.phases[3].stopped = true;
    why_not(&result_of("vlsm-8", Scale::CAMPAIGN, 3, stopped), "was stopped");
    let missing = |report: &mut Report| report.phases.truncate(2);
    why_not(&result_of("vlsm-8", Scale::CAMPAIGN, 3, missing), "was not reached");
    let short = |report: &mut Report| {
        for phase in &mut report.phases {
            phase.seconds = 30.0;
            phase.chains.truncate(20);
        }
    };
    unjudged(
        &result_of("vlsm-8", Scale::CAMPAIGN, 3, short),
        "% of five minutes or 100 compaction chains",
    );
    let empty = |report: &mut Report| {
        for level in report.phases.iter_mut().flat_map(|phase| &mut phase.samples) {
            level.levels.iter_mut().for_each(|bytes| *bytes /= 2);
        }
    };
    unjudged(&result_of("vlsm-8", Scale::CAMPAIGN, 3, empty), "a level that is not the last");
    let changed = |report: &mut Report| report.method.commit += "+";
    why_not(&result_of("vlsm-8", Scale::CAMPAIGN, 3, changed), "one commit, without changes");
    let moved = |report: &mut Report| {
        report.method.machine.cores += report.method.spec.as_ref().unwrap().seed as usize;
    };
    why_not(&result_of("vlsm-8", Scale::CAMPAIGN, 3, moved), "one machine");
    let unlimited = |report: &mut Report| report.method.limits_in_force = false;
    why_not(&result_of("vlsm-8", Scale::CAMPAIGN, 3, unlimited), "in force");
    let silent = |report: &mut Report| {
        for level in report.phases.iter_mut().flat_map(|phase| &mut phase.store.levels) {
            level.target = None;
        }
    };
    unjudged(&result_of("vlsm-8", Scale::CAMPAIGN, 3, silent), "does not tell");
    let slow = |report: &mut Report| {
        report.phases.iter_mut().for_each(|phase| phase.floor.p999_us = 500.0);
    };
    why_not(&result_of("vlsm-8", Scale::CAMPAIGN, 3, slow), "500 µs");
    let opening = |report: &mut Report| {
        report.phases.iter_mut().for_each(|phase| phase.store.open_bytes = 500 << 20);
    };
    unjudged(&result_of("silk-9", Scale::CAMPAIGN, 3, opening), "opened SSTs: 25 %");
}

#[test]
fn a_run_beside_a_slow_disk_proves_nothing_and_is_done_again() {
    fn beside(report: &mut Report, count: u64, p999_us: f64) {
        let reads = Percentiles { count, p999_us, ..Percentiles::default() };
        report.phases.iter_mut().for_each(|phase| phase.device_beside = Some(reads));
    }
    let slow = |report: &mut Report| beside(report, 4_000, 20_000.0);
    let judged = |result: &FigureResult| -> Vec<bool> {
        result.claims.iter().map(|claim| claim.verdict != Verdict::NotMeasured).collect()
    };
    unjudged(&result_of("silk-9", Scale::CAMPAIGN, 3, slow), "P99.9 at most 4.5 ms: 20.0 ms");
    let quiet = |report: &mut Report| beside(report, 4_000, 2_000.0);
    assert_eq!(judged(&result_of("silk-9", Scale::CAMPAIGN, 3, quiet)), [true, true]);
    // The other store's claims are judged.
    let one_slow = |report: &mut Report| {
        let is_triad =
            report.method.spec.as_ref().is_some_and(|spec| spec.store.name().ends_with("triad"));
        beside(report, 4_000, if is_triad { 20_000.0 } else { 2_000.0 });
    };
    let result = result_of("silk-9", Scale::CAMPAIGN, 3, one_slow);
    assert_eq!((judged(&result), result.why_not()), (vec![true, false], None));
    // If the device is not limited, the reads wait for the run itself.
    assert!(result_of("vlsm-8", Scale::CAMPAIGN, 3, slow).measured());

    let setting = setting(Scale::CAMPAIGN);
    let runs = |id| (figures::named(id).expect("it exists").build)(&setting).runs();
    let again = |id, count, p999_us| {
        let mut report = made_up(&runs(id)[0], 1);
        beside(&mut report, count, p999_us);
        conditions::again(&report)
    };
    assert!(again("silk-9", 4_000, 20_000.0));
    assert!(!again("silk-9", 4_000, 2_000.0));
    assert!(!again("silk-9", 300, 20_000.0), "300 reads have no P99.9");
    assert!(!again("vlsm-8", 4_000, 20_000.0));
}

#[test]
fn what_is_left_out_is_said_and_never_zero() {
    let result = result_of("silk-5", Scale::CAMPAIGN, 3, |_| ());
    assert!(result.left_out.iter().any(|why| why.contains("rocksdb is left out")));
    let points = || result.panels.iter().flat_map(|panel| &panel.points);
    let is_missing = |series: &str| {
        points()
            .filter(|point| point.series == series)
            .map(|point| point.missing.is_some())
            .collect()
    };
    assert_eq!((is_missing("RocksDB"), is_missing("TRIAD")), (vec![true], vec![false]));
    assert!(points().all(|point| point.missing.is_none() || point.values.is_empty()));
    assert!(text::render(&result).contains("not there: rocksdb is left out"));
}

#[test]
fn a_stall_is_one_that_was_seen() {
    // In a ratio, zero counts as one interval; by itself it is zero.
    fn steady(report: &mut Report) {
        let points = report.phases.iter_mut().flat_map(|phase| &mut phase.series.0);
        points.for_each(|point| point.ops = point.ops.max(1));
    }
    for (id, with_stalls, without) in [
        ("silk-10", Verdict::DoesNotHold, Verdict::Holds),
        ("dlc-8", Verdict::DoesNotHold, Verdict::Holds),
    ] {
        let verdict =
            |change: fn(&mut Report)| result_of(id, Scale::CAMPAIGN, 3, change).claims[0].verdict;
        assert_eq!((verdict(|_| ()), verdict(steady)), (with_stalls, without), "{id}");
    }
}

#[test]
fn an_overview_is_written_as_tables() {
    fn short(report: &mut Report) {
        for phase in &mut report.phases {
            phase.seconds = 2.0;
            phase.chains.clear();
        }
    }
    let result = result_of("table-200", Scale::CAMPAIGN, 3, short);
    assert_eq!(result.why_not(), None, "it says how long phases were, and is no worse for it");
    let long = "five minutes or 100 compaction chains";
    let told = result.conditions.iter().find(|condition| condition.what == long).expect("told");
    assert!(told.value.contains("% of that"), "{told:?}");
    assert!(result.claims.iter().all(|claim| claim.verdict != Verdict::NotMeasured));
    let tables = matrix::render(&result);
    for profile in ["| vlsm |", "| dlc |", "| cruise |", "| RocksDB itself | – |"] {
        assert!(tables.contains(profile), "{profile} is not in {tables}");
    }
    for workload in ["**Load A, closed loop**", "**DLC, sustained**", "**Run C at 70 %**"] {
        assert!(tables.contains(workload), "{workload} is not in {tables}");
    }
    let row = tables.lines().find(|line| line.starts_with("| vlsm |")).expect("a row");
    // P50, P99, P99.9 and the longest latency of the made-up store.
    assert!(row.contains("3 µs, 163 µs, 915 µs, 21 ms"), "{row}");
}

#[test]
fn a_verdict_against_a_paper_has_a_reason_and_an_experiment() {
    let results = [result_of("dlc-8", Scale::CAMPAIGN, 3, |_| ())];
    let [first, ..] = &results[0].claims[..] else { panic!("it has claims") };
    assert_eq!(first.verdict, Verdict::DoesNotHold);
    let commit = results[0].commit.clone();
    let at = |commit: &str, reasons: &[Reason]| Reasons {
        commit: commit.into(),
        commits: BTreeMap::new(),
        reasons: reasons.to_vec(),
    };
    let given = |reasons: &[Reason]| at(&commit, reasons);
    let refused = |reasons: &[Reason]| claims::render(&results, &given(reasons)).unwrap_err();
    let why = refused(&[]);
    assert!(why.contains(&first.text) && why.contains("does not say why"), "{why}");

    let reason = |text: &str, tried: &str| Reason {
        figure: "dlc-8".into(),
        claim: text.into(),
        why: "L0 is bounded.".into(),
        tried: tried.into(),
    };
    let all = |tried: &str| -> Vec<Reason> {
        let against = |verdict| matches!(verdict, Verdict::DoesNotHold | Verdict::HoldsInPart);
        let claims = results[0].claims.iter().filter(|claim| against(claim.verdict));
        claims.map(|claim| reason(&claim.text, tried)).collect()
    };
    assert!(refused(&all("")).contains("nothing was tried"));
    let whole = claims::render(&results, &given(&all("without a bound"))).unwrap();
    let row = whole.lines().find(|line| line.contains(&first.text)).unwrap();
    assert!(row.contains("does not hold here | L0 is bounded. Tried: without a bound |"), "{row}");
    assert!(whole.contains("## Not measured") && whole.contains("`silk-8`"), "{whole}");

    // A reason without a verdict that needs it, and a figure of another commit.
    let stray = [&all("x")[..], &[reason("no such claim", "x")]].concat();
    assert!(refused(&stray).contains("no such claim"));
    let other = at("fedcba9", &[]);
    let older = claims::render(&results, &other).unwrap();
    assert!(older.contains("## Older") && !older.contains(&first.text), "{older}");
    // Unless that commit is the figure's own.
    let commits = BTreeMap::from([("dlc-8".into(), commit.clone())]);
    let own = Reasons { commits, ..at("fedcba9", &all("without a bound")) };
    assert_eq!(claims::render(&results, &own).unwrap(), whole);
    let commits = BTreeMap::from([("dlc-9".into(), commit.clone())]);
    let stray = Reasons { commits, ..given(&all("without a bound")) };
    assert!(claims::render(&results, &stray).unwrap_err().contains("\"dlc-9\""));
}

#[test]
fn the_page_of_claims_is_up_to_date() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = claims::page(&root.join(claims::FIGURES)).expect("the reasons fit the verdicts");
    let kept = std::fs::read_to_string(root.join(claims::PAGE)).expect("it is there");
    assert!(page == kept, "run `cargo run --package vlsm-lab -- claims`");
}
