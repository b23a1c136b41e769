//! Makes the result of a figure from the reports of its runs: the points, the proofs of the runs,
//! the conditions ([`super::conditions`]), the verdicts.
//!
//! An added store ([`super::beside`]) must meet the conditions that do not depend on what stores
//! report about themselves, together with the figure's own runs. If one of them does not hold, the
//! added store is not shown. It makes no difference to the figure.
//!
//! A claim is judged round by round, by the ratio of two points of the same round: what changes
//! from round to round affects both. It *holds* when the median of the ratios reaches what the
//! paper says. It holds *in part* when every round agrees in the direction (the ratio is above one)
//! but the median is less. Otherwise it *does not hold here*. "No worse than" holds up to 1 %
//! beyond one. If a paper says "better" without a number, every round must be better by more than
//! that. For a series without a label the largest ratio counts: "at least" stands for the papers'
//! "up to", and "at most" must hold everywhere.

use super::conditions::{beside, conditions, told_conditions};
use super::measure::{Measure, Unit};
use super::result::{
    Added, ClaimResult, Condition, FigureResult, PanelResult, PointResult, Proof, Summary, Verdict,
    failed,
};
use super::{Claim, Entry, Figure, Form, Named, Panel, Point, Setting, Source, Test};
use std::rc::Rc;
use vlsm_measure::process::Machine;
use vlsm_measure::report::{JobMark, PhaseReport, Report};
use vlsm_measure::spec::RunSpec;

/// A ratio that differs from one by less than this counts as one.
const SAME: f64 = 0.01;
/// The largest number of points of a line over time.
const TIME_POINTS: usize = 600;
/// The largest number of jobs in a panel; the widest are kept.
const JOBS: usize = 1500;

/// The report of a run in each round; `Err` says what failed.
pub type Rounds = Rc<[Result<Report, String>]>;

/// The result of a figure. `rounds` gives the reports of a run.
pub fn judge(
    entry: &Entry,
    figure: &Figure,
    setting: &Setting,
    command: String,
    rounds: &dyn Fn(&RunSpec) -> Rounds,
) -> FigureResult {
    let mut evidence = AllEvidence::default();
    let panels = figure.panels.iter();
    let mut panels: Vec<PanelResult> =
        panels.map(|panel| panel_result(panel, setting, rounds, &mut evidence)).collect();
    let AllEvidence { own: Evidence { mut proofs, failures }, added } = evidence;
    let count = proofs.iter().map(|proof| proof.round).max().unwrap_or(0);
    let commit = proofs.last().map(|proof| proof.commit.clone()).unwrap_or_default();
    let overview = entry.overview;
    let mut conditions = conditions(&proofs, &failures, setting, overview);
    conditions.extend(told_conditions(&proofs, overview));
    let added = judged_added(added, &conditions, &mut proofs, (setting, overview));
    hide(&added, &mut panels);
    let mut result = FigureResult {
        id: entry.id.into(),
        title: entry.title.into(),
        says: figure.says.clone(),
        here: figure.here.clone(),
        scale: setting.scale,
        commit,
        machine: Machine::this(),
        command,
        rounds: count,
        not_built: figure.not_built().into_iter().map(str::to_owned).collect(),
        added,
        conditions,
        panels,
        claims: Vec::new(),
        proofs,
    };
    let measured = result.measured();
    let judged = figure.claims.iter().map(|claim| judged(claim, figure, setting, measured, rounds));
    result.claims = judged.collect();
    result
}

/// The proofs of the runs, and their failures.
#[derive(Default)]
struct Evidence {
    proofs: Vec<Proof>,
    failures: Vec<String>,
}

/// The evidence of the figure's own stores, and that of each added store.
#[derive(Default)]
struct AllEvidence {
    own: Evidence,
    added: Vec<(String, Evidence)>,
}

impl AllEvidence {
    fn of(&mut self, point: &Point) -> &mut Evidence {
        if !point.added {
            return &mut self.own;
        }
        let known = self.added.iter().position(|(store, _)| *store == point.series);
        let index = known.unwrap_or_else(|| {
            self.added.push((point.series.clone(), Evidence::default()));
            self.added.len() - 1
        });
        &mut self.added[index].1
    }
}

/// Decides which added stores can be shown beside the figure's own, whose conditions and proofs are
/// given. Their proofs are added to `proofs`. Conditions that the figure itself fails are skipped.
fn judged_added(
    added: Vec<(String, Evidence)>,
    figures: &[Condition],
    proofs: &mut Vec<Proof>,
    (setting, overview): (&Setting, bool),
) -> Vec<Added> {
    let own = proofs.clone();
    let judged = |(store, evidence): (String, Evidence)| {
        let all = [&own[..], &evidence.proofs[..]].concat();
        let mut asked = conditions(&all, &evidence.failures, setting, overview);
        asked.retain(|asked| figures.iter().all(|one| one.what != asked.what || one.holds));
        let why_not = failed(&asked);
        for proof in evidence.proofs {
            if !proofs.contains(&proof) {
                proofs.push(proof);
            }
        }
        Added { store, why_not }
    };
    added.into_iter().map(judged).collect()
}

/// Empties the points of added stores that cannot be shown.
fn hide(added: &[Added], panels: &mut [PanelResult]) {
    let points = panels.iter_mut().flat_map(|panel| &mut panel.points);
    for point in points.filter(|point| point.added) {
        let store = added.iter().find(|added| added.store == point.series);
        if store.is_some_and(|store| store.why_not.is_some()) {
            point.values.clear();
            point.over_time.clear();
            point.jobs.clear();
            point.missing = Some("not shown".into());
        }
    }
}

fn phase_of<'a>(report: &'a Report, name: &str) -> Option<&'a PhaseReport> {
    report.phases.iter().find(|phase| phase.name == name)
}

/// A paper's number at the scale: sizes and times are divided by its factor.
fn scaled(value: f64, unit: Unit, setting: &Setting) -> f64 {
    match unit {
        Unit::Bytes | Unit::Micros => value / setting.scale.factor() as f64,
        Unit::Rate | Unit::ByteRate | Unit::Share | Unit::Number => value,
    }
}

fn panel_result(
    panel: &Panel,
    setting: &Setting,
    rounds: &dyn Fn(&RunSpec) -> Rounds,
    evidence: &mut AllEvidence,
) -> PanelResult {
    let unit = panel.measure.unit();
    let points = panel.points.iter().map(|point| {
        let (run, phase) = match &point.source {
            Source::NotBuilt(why) => return missing(point, why),
            Source::Run(run, phase) => (run, phase),
        };
        let reports = rounds(run);
        let evidence = evidence.of(point);
        for (round, report) in reports.iter().enumerate() {
            match report {
                Ok(report) => prove(report, phase, round + 1, evidence),
                Err(why) => note(&mut evidence.failures, format!("{}: {why}", run.store)),
            }
        }
        point_result(point, phase, &panel.form, &reports)
    });
    let paper = panel.paper.iter().map(|paper| {
        let scaled = |&(x, y): &(f64, f64)| (x, scaled(y, unit, setting));
        (paper.series.clone(), paper.points.iter().map(scaled).collect())
    });
    PanelResult {
        title: panel.title.clone(),
        form: panel.form.clone(),
        measure: panel.measure.name(),
        unit,
        points: points.collect(),
        paper: paper.collect(),
    }
}

fn missing(point: &Point, why: &str) -> PointResult {
    PointResult {
        series: point.series.clone(),
        x: point.x.clone(),
        values: Vec::new(),
        over_time: Vec::new(),
        jobs: Vec::new(),
        missing: Some(why.to_owned()),
        added: point.added,
    }
}

fn point_result(point: &Point, phase: &str, form: &Form, reports: &Rounds) -> PointResult {
    let value = |report: &Result<Report, String>| {
        let report = report.as_ref().ok()?;
        point.measure.of(phase_of(report, phase)?)
    };
    let first = reports.first().and_then(|report| phase_of(report.as_ref().ok()?, phase));
    let values: Vec<_> = reports.iter().map(value).collect();
    let over_time = match (form, first) {
        (Form::Time | Form::Jobs, Some(phase)) => thinned(point.measure.over_time(phase)),
        _ => Vec::new(),
    };
    let none = values.iter().all(Option::is_none) && over_time.is_empty();
    PointResult {
        over_time,
        jobs: match (form, first) {
            (Form::Jobs, Some(phase)) => widest(&phase.jobs),
            _ => Vec::new(),
        },
        missing: none.then(|| "this store does not tell it".to_owned()),
        values,
        ..missing(point, "")
    }
}

/// At most [`TIME_POINTS`] points: the largest and the smallest value of each stretch.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= TIME_POINTS {
        return points;
    }
    let stretch = points.len().div_ceil(TIME_POINTS / 2);
    let extremes = |part: &[(f64, f64)]| {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [part.iter().min_by(by), part.iter().max_by(by)];
        let mut ends: Vec<_> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        ends
    };
    points.chunks(stretch).flat_map(extremes).collect()
}

fn widest(jobs: &[JobMark]) -> Vec<JobMark> {
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.read.max(job.written)));
    jobs.truncate(JOBS);
    jobs.sort_by(|a, b| a.start.total_cmp(&b.start));
    jobs
}

fn note(all: &mut Vec<String>, one: String) {
    if !all.contains(&one) {
        all.push(one);
    }
}

/// A checksum that identifies the run of a report; it is the same in every round.
fn run_of(report: &Report) -> u32 {
    let spec = report.method.spec.clone().map(|spec| RunSpec { seed: 0, ..spec });
    crc32c::crc32c(&serde_json::to_vec(&spec).expect("plain values have an encoding"))
}

/// Records what the phase proves, once.
fn prove(report: &Report, name: &str, round: usize, evidence: &mut Evidence) {
    let Evidence { proofs, failures } = evidence;
    let store = report.method.spec.as_ref().map(|spec| spec.store.name()).unwrap_or_default();
    let Some(phase) = phase_of(report, name) else {
        return note(failures, format!("{store}: the phase {name:?} was not reached"));
    };
    if phase.stopped {
        return note(failures, format!("{store}: the phase {name:?} was stopped"));
    }
    let proof = Proof {
        store,
        run: run_of(report),
        phase: name.to_owned(),
        round,
        commit: report.method.commit.clone(),
        seconds: phase.seconds,
        ops: phase.ops,
        chains: phase.chain_count(),
        targets: phase.store.levels.iter().any(|level| level.target.is_some()),
        fullness: phase.fullness(),
        floor_p999_us: phase.floor.p999_us,
        device_p999_us: beside(report, phase),
        open_loop: phase.arrivals.peak().is_some(),
        limits: report.method.limits.clone(),
        limits_in_force: report.method.limits_in_force,
    };
    if !proofs.contains(&proof) {
        proofs.push(proof);
    }
}

/// The value of a point in each round. In a ratio, stalls count as at least one interval, because
/// a shorter stall cannot be distinguished from none.
fn values(
    named: &Named,
    (measure, in_ratio): (Measure, bool),
    figure: &Figure,
    rounds: &dyn Fn(&RunSpec) -> Rounds,
) -> Result<Vec<(String, Vec<f64>)>, String> {
    let measure = named.measure.unwrap_or(measure);
    let points = figure.panels[named.panel].points.iter().filter(|point| {
        point.series == named.series && named.x.as_ref().is_none_or(|x| *x == point.x.label)
    });
    let mut all = Vec::new();
    for point in points {
        let (run, phase) = match &point.source {
            Source::NotBuilt(why) => return Err(why.clone()),
            Source::Run(run, phase) => (run, phase),
        };
        let value = |report: &Result<Report, String>| {
            let report = report.as_ref().ok()?;
            let phase = phase_of(report, phase)?;
            let value = measure.of(phase)?;
            let interval = phase.series.interval() * 1e6;
            let least = match measure {
                Measure::StallTime | Measure::LongestStall => interval,
                Measure::StallPerOp => interval / phase.ops.max(1) as f64,
                _ => return Some(value),
            };
            Some(if in_ratio { value.max(least) } else { value })
        };
        let found: Option<Vec<f64>> = rounds(run).iter().map(value).collect();
        let found = found.filter(|found| !found.is_empty());
        let why = || format!("{}: {} is not known", run.store, measure.name());
        all.push((point.x.label.clone(), found.ok_or_else(why)?));
    }
    Ok(all)
}

fn judged(
    claim: &Claim,
    figure: &Figure,
    setting: &Setting,
    measured: bool,
    rounds: &dyn Fn(&RunSpec) -> Rounds,
) -> ClaimResult {
    let unit = claim.measure.unit();
    let is_ratio = matches!(claim.test, Test::AtLeast(..) | Test::AtMost(..));
    let of = |named: &Named| values(named, (claim.measure, is_ratio), figure, rounds);
    let ratios = |a: &Named, b: &Named| -> Result<Vec<Vec<f64>>, String> {
        let (top, bottom) = (of(a)?, of(b)?);
        let with = |(x, top): &(String, Vec<f64>)| {
            let (_, bottom) = match b.x {
                Some(_) => bottom.first(),
                None => bottom.iter().find(|(label, _)| label == x),
            }?;
            Some(top.iter().zip(bottom).map(|(a, b)| ratio(*a, *b)).collect())
        };
        Ok(top.iter().filter_map(with).collect())
    };
    fn median(all: &[f64]) -> f64 {
        Summary::of(all.iter().copied()).map_or(0.0, |summary| summary.median)
    }
    let largest = |mut all: Vec<Vec<f64>>| {
        all.sort_by(|a, b| median(a).total_cmp(&median(b)));
        all.pop().unwrap_or_default()
    };
    let most = |all: Vec<(String, Vec<f64>)>| largest(all.into_iter().map(|one| one.1).collect());
    let least = |all: Vec<(String, Vec<f64>)>| {
        let all = all.into_iter().map(|one| one.1);
        all.min_by(|a, b| median(a).total_cmp(&median(b))).unwrap_or_default()
    };
    let (paper, at_least, found) = match &claim.test {
        Test::AtLeast(a, b, factor) => (*factor, true, ratios(a, b).map(largest)),
        Test::AtMost(a, b, factor) => (*factor, false, ratios(a, b).map(largest)),
        Test::ValueAtLeast(a, bound) => (scaled(*bound, unit, setting), true, of(a).map(least)),
        Test::ValueAtMost(a, bound) => (scaled(*bound, unit, setting), false, of(a).map(most)),
    };
    let (found, missing) = match found {
        Ok(found) => (found, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let summary = Summary::of(found.iter().copied());
    let verdict = match summary {
        Some(summary) if measured => {
            let every_round = claim.every_round;
            verdict(summary, &Bound { paper, at_least, is_ratio, every_round })
        }
        _ => Verdict::NotMeasured,
    };
    ClaimResult {
        text: claim.text.clone(),
        measure: claim.measure.name(),
        paper,
        unit: if is_ratio { Unit::Number } else { unit },
        found,
        summary,
        verdict,
        missing,
    }
}

/// a ÷ b, where 0 ÷ 0 is one and any other number ÷ 0 is the largest number.
fn ratio(a: f64, b: f64) -> f64 {
    match (a == 0.0, b == 0.0) {
        (true, true) => 1.0,
        (false, true) => f64::MAX,
        _ => a / b,
    }
}

/// The numbers that a claim requires.
struct Bound {
    paper: f64,
    at_least: bool,
    is_ratio: bool,
    /// See [`Claim::every_round`].
    every_round: bool,
}

fn verdict(found: Summary, asked: &Bound) -> Verdict {
    let Bound { paper, at_least, is_ratio, every_round } = *asked;
    // Equal counts as no worse.
    let same = if is_ratio && paper == 1.0 { SAME } else { 0.0 };
    let holds = match (every_round, at_least) {
        (true, true) => found.least > paper + SAME,
        (true, false) => found.largest < paper - SAME,
        (false, true) => found.median >= paper - same,
        (false, false) => found.median <= paper + same,
    };
    if holds {
        return Verdict::Holds;
    }
    // Every round has an effect, but a smaller one than claimed.
    let in_part = match (at_least, is_ratio) {
        (true, true) => paper > 1.0 && found.least > 1.0 + SAME,
        (false, true) => paper < 1.0 && found.largest < 1.0 - SAME,
        _ => false,
    };
    if in_part { Verdict::HoldsInPart } else { Verdict::DoesNotHold }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(least: f64, median: f64, largest: f64) -> Summary {
        Summary { median, least, largest }
    }

    fn asked(paper: f64, at_least: bool) -> Bound {
        Bound { paper, at_least, is_ratio: true, every_round: false }
    }

    #[test]
    fn a_claim_holds_in_part_when_every_round_agrees_in_direction() {
        let at_least = |found| verdict(found, &asked(4.0, true));
        assert_eq!(at_least(found(3.0, 4.5, 9.0)), Verdict::Holds);
        assert_eq!(at_least(found(1.2, 2.0, 9.0)), Verdict::HoldsInPart);
        assert_eq!(at_least(found(0.9, 2.0, 9.0)), Verdict::DoesNotHold);
        let at_most = |found| verdict(found, &asked(0.4, false));
        assert_eq!(at_most(found(0.1, 0.3, 0.9)), Verdict::Holds);
        assert_eq!(at_most(found(0.5, 0.6, 0.7)), Verdict::HoldsInPart);
        assert_eq!(at_most(found(0.5, 0.6, 1.1)), Verdict::DoesNotHold);
        let value = Bound { is_ratio: false, ..asked(2.5, true) };
        assert_eq!(verdict(found(1.0, 2.0, 3.0), &value), Verdict::DoesNotHold);
        assert_eq!((ratio(0.0, 0.0), ratio(2.0, 0.0)), (1.0, f64::MAX));
    }

    #[test]
    fn equal_is_no_worse_and_not_better() {
        let no_worse = [asked(1.0, true), asked(1.0, false)];
        let [more, less] =
            [asked(1.0, true), asked(1.0, false)].map(|weak| Bound { every_round: true, ..weak });
        let equal = found(0.97, 1.0, 1.03);
        for weak in &no_worse {
            assert_eq!(verdict(equal, weak), Verdict::Holds);
        }
        let [at_least, at_most] = no_worse;
        assert_eq!(verdict(found(0.5, 0.995, 2.0), &at_least), Verdict::Holds);
        assert_eq!(verdict(found(0.9, 0.98, 1.2), &at_least), Verdict::DoesNotHold);
        assert_eq!(verdict(found(0.5, 1.02, 2.0), &at_most), Verdict::DoesNotHold);
        for strict in [&more, &less] {
            assert_eq!(verdict(equal, strict), Verdict::DoesNotHold);
        }
        assert_eq!(verdict(found(1.02, 1.1, 2.0), &more), Verdict::Holds);
        assert_eq!(verdict(found(0.5, 0.6, 0.98), &less), Verdict::Holds);
    }

    #[test]
    fn thinning_keeps_extremes() {
        let line: Vec<_> = (0..6000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        let mut spiked = line.clone();
        spiked[3210].1 = 1e6;
        let thin = thinned(spiked);
        assert!(thin.len() <= TIME_POINTS && thin.iter().any(|point| point.1 == 1e6));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thinned(line[..10].to_vec()), line[..10]);
    }
}
