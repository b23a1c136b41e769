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
//! that. A claim is not judged if a phase that it compares is too short, had no full levels or left
//! debt, or if it is about small SSTs at a small scale (`doubt.rs`). For a series without a label
//! the largest ratio counts: "at least" stands for the papers' "up to", and "at most" must hold
//! everywhere. A mean is that of the ratios at all places, each to the best of the others there.

use super::conditions::{beside, conditions, of_phases, quiet};
use super::measure::Unit;
use super::result::{
    Added, ClaimResult, Condition, FigureResult, PanelResult, PointResult, Proof, Summary, Verdict,
    failed,
};
use super::{Claim, Entry, Figure, Form, Named, Panel, Point, Setting, Test, unique};
use crate::compare::median;
use std::rc::Rc;
use vlsm_measure::process::Machine;
use vlsm_measure::report::debt::Debt;
use vlsm_measure::report::{JobMark, PhaseReport, Report};
use vlsm_measure::spec::RunSpec;

/// A ratio that differs from one by less than this counts as one.
const SAME: f64 = 0.01;
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
    let overview = entry.overview;
    let judge = Judge { figure, setting, rounds, overview };
    let (own, failures) = judge.evidence(|point| !point.added);
    let mut all_conditions = conditions(&own, &failures, setting);
    all_conditions.extend(of_phases(&own, overview));
    let mut proofs = own.clone();
    let mut added = Vec::new();
    for store in unique(figure.points().filter(|point| point.added).map(|point| &point.series)) {
        let (more, failures) = judge.evidence(|point| point.added && point.series == *store);
        let mut asked = conditions(&[&own[..], &more].concat(), &failures, setting);
        // No claim is about it, so its own noise decides whether it is shown.
        asked.extend(quiet(&more, overview).map(|one| Condition { of_phases: false, ..one }));
        // Skip the conditions that the figure itself fails.
        asked.retain(|asked| all_conditions.iter().all(|one| one.what != asked.what || one.holds));
        proofs.extend(more);
        added.push(Added { store: store.clone(), why_not: failed(&asked) });
    }
    let mut result = FigureResult {
        id: entry.id.into(),
        title: entry.title.into(),
        says: figure.says.clone(),
        here: figure.here.clone(),
        scale: setting.scale,
        commit: own.last().map(|proof| proof.commit.clone()).unwrap_or_default(),
        machine: own.last().map_or_else(Machine::this, |proof| proof.machine.clone()),
        command,
        rounds: own.iter().map(|proof| proof.round).max().unwrap_or(0),
        left_out: figure.left_out(),
        conditions: all_conditions,
        panels: figure.panels.iter().map(|panel| judge.panel(panel, &added)).collect(),
        debts: debts(&proofs),
        drivers: drivers(&proofs),
        added,
        claims: Vec::new(),
        proofs: unique(proofs),
    };
    let measured = result.measured();
    result.claims = figure.claims.iter().map(|claim| judge.claim(claim, measured)).collect();
    result
}

/// A figure and the reports of its runs.
struct Judge<'a> {
    figure: &'a Figure,
    setting: &'a Setting,
    rounds: &'a dyn Fn(&RunSpec) -> Rounds,
    overview: bool,
}

/// The label of a place, and the values there in each round.
type Place = (String, Vec<f64>);

impl Judge<'_> {
    /// The proofs of the runs of these points, and the failures, each once.
    fn evidence(&self, of: impl Fn(&Point) -> bool) -> (Vec<Proof>, Vec<String>) {
        let (mut proofs, mut failures) = (Vec::new(), Vec::new());
        let points = self.figure.points().filter(|point| of(point));
        for (run, phase) in unique(points.filter_map(|point| point.source.as_ref().ok())) {
            for (round, report) in (self.rounds)(run).iter().enumerate() {
                let failed = |why: &String| format!("{}: {why}", run.store);
                match report.as_ref().map_err(failed).and_then(|one| prove(one, phase, round + 1)) {
                    Ok(proof) => proofs.push(proof),
                    Err(why) => failures.push(why),
                }
            }
        }
        (proofs, unique(failures))
    }

    /// A paper's number at the scale: sizes and times are divided by its factor.
    fn scaled(&self, value: f64, unit: Unit) -> f64 {
        match unit {
            Unit::Bytes | Unit::Micros => value / self.setting.scale.factor() as f64,
            Unit::Rate | Unit::ByteRate | Unit::Share | Unit::Number => value,
        }
    }

    fn panel(&self, panel: &Panel, added: &[Added]) -> PanelResult {
        let unit = panel.measure.unit;
        let paper = panel.paper.iter().map(|(series, points)| {
            let scaled = |&(x, y): &(f64, f64)| (x, self.scaled(y, unit));
            (series.clone(), points.iter().map(scaled).collect())
        });
        let hidden = |point: &Point| {
            let hides = |one: &Added| one.store == point.series && one.why_not.is_some();
            point.added && added.iter().any(hides)
        };
        let points = panel.points.iter();
        PanelResult {
            title: panel.title.clone(),
            form: panel.form.clone(),
            measure: panel.measure.name.to_owned(),
            unit,
            points: points.map(|one| self.point(one, &panel.form, hidden(one))).collect(),
            paper: paper.collect(),
        }
    }

    fn point(&self, point: &Point, form: &Form, hidden: bool) -> PointResult {
        let (series, x, added) = (point.series.clone(), point.x.clone(), point.added);
        let mut result = PointResult { series, x, added, ..PointResult::default() };
        let (run, phase) = match &point.source {
            Ok(source) if !hidden => source,
            source => {
                let why = source.as_ref().err().map_or("not shown", String::as_str);
                result.missing = Some(why.to_owned());
                return result;
            }
        };
        let reports = (self.rounds)(run);
        let value = |report| point.measure.of(phase_of(report, phase)?);
        result.values = reports.iter().map(value).collect();
        if let Some(first) = reports.first().and_then(|report| phase_of(report, phase)) {
            if matches!(form, Form::Time | Form::Jobs) {
                result.over_time = point.measure.over_time(first);
            }
            if *form == Form::Jobs {
                result.jobs = widest(&first.jobs);
            }
        }
        if result.values.iter().all(Option::is_none) && result.over_time.is_empty() {
            result.missing = Some("this store does not tell it".to_owned());
        }
        result
    }

    /// The values of the points that a claim names. In a ratio they are at least the least that can
    /// be distinguished from zero.
    fn values(&self, named: &Named, claim: &Claim) -> Result<Vec<Place>, String> {
        let measure = named.measure.unwrap_or(claim.measure);
        let points = self.figure.named(named);
        let place = |point: &Point| {
            let (run, phase) = point.source.as_ref().map_err(String::clone)?;
            let value = |report| {
                let phase = phase_of(report, phase)?;
                let value = measure.of(phase)?;
                Some(if claim.is_ratio() { value.max(measure.least(phase)) } else { value })
            };
            let found: Option<Vec<f64>> = (self.rounds)(run).iter().map(value).collect();
            let found = found.filter(|found| !found.is_empty());
            let why = || format!("{}: {} is not known", run.store, measure.name);
            Ok((point.x.label.clone(), found.ok_or_else(why)?))
        };
        points.map(place).collect()
    }

    /// These values ÷ those of the points that a claim compares them with; if it names none, the
    /// values themselves.
    fn compared_with(
        &self,
        top: Vec<Place>,
        others: &[Named],
        claim: &Claim,
    ) -> Result<Vec<Place>, String> {
        let values: Result<Vec<_>, String> =
            others.iter().map(|named| self.values(named, claim)).collect();
        let Some(best) = values?.into_iter().reduce(larger) else { return Ok(top) };
        let single = matches!(others, [one] if one.x.is_some());
        let places = ratios(top, &best, single);
        Ok(if matches!(claim.test, Test::MeanAtLeast(..)) { mean(&places) } else { places })
    }

    fn claim(&self, claim: &Claim, measured: bool) -> ClaimResult {
        let (first, others, number, at_least) = claim.test.parts();
        let is_ratio = claim.is_ratio();
        let unit = if is_ratio { Unit::Number } else { claim.measure.unit };
        let places =
            self.values(first, claim).and_then(|top| self.compared_with(top, others, claim));
        let missing = places.as_ref().err().cloned();
        // The place that decides: the largest one for ratios and for upper bounds.
        let mut places: Vec<_> = places.into_iter().flatten().map(|(_, rounds)| rounds).collect();
        places.sort_by(|a, b| median(a).unwrap_or(0.0).total_cmp(&median(b).unwrap_or(0.0)));
        let decides = if is_ratio || !at_least { places.last() } else { places.first() };
        let found = decides.cloned().unwrap_or_default();
        let summary = Summary::of(found.iter().copied());
        let (paper, every_round) = (self.scaled(number, unit), claim.every_round);
        let asked = Bound { paper, at_least, is_ratio, every_round };
        let judged = summary.filter(|_| measured).map(|summary| verdict(summary, &asked));
        let lacks = |claim| match self.overview {
            true => None,
            false => self.figure.too_little(claim, self.rounds),
        };
        let doubt = || self.figure.doubt(claim, self.setting.scale, self.rounds);
        let doubt = lacks(claim).map(|why| (Verdict::NotMeasured, why)).or_else(doubt);
        let (judged, missing) = match doubt.filter(|_| judged.is_some()) {
            Some((doubt, why)) => (doubt, Some(why)),
            None => (judged.unwrap_or(Verdict::NotMeasured), missing),
        };
        ClaimResult {
            text: claim.text.clone(),
            measure: claim.measure.name.to_owned(),
            paper,
            unit,
            found,
            summary,
            verdict: judged,
            missing,
        }
    }
}

/// The phases that left debt, with the worst of their rounds.
fn debts(proofs: &[Proof]) -> Vec<String> {
    let left = |proof: &&Proof| proof.debt.is_some_and(|debt| !debt.is_bounded());
    let text = |first: &Proof| {
        let rounds =
            || proofs.iter().filter(|one| one.run == first.run && one.phase == first.phase);
        let all: Vec<Debt> = rounds().filter(left).filter_map(|one| one.debt).collect();
        let worst = all.iter().max_by(|a, b| a.beyond().total_cmp(&b.beyond()))?;
        let (store, phase, count) = (&first.store, &first.phase, rounds().count());
        Some(format!("{store}, {phase:?}: {worst}, in {} of {count} rounds", all.len()))
    };
    unique(proofs.iter().filter(left).filter_map(text))
}

/// The stores whose driver is compared with a native loop, or should be, with the result.
fn drivers(proofs: &[Proof]) -> Vec<String> {
    let told = proofs.iter().filter(|proof| !proof.driver.is_empty());
    unique(told.map(|proof| format!("{}: {}", proof.store, proof.driver)))
}

pub(super) fn phase_of<'a>(
    report: &'a Result<Report, String>,
    name: &str,
) -> Option<&'a PhaseReport> {
    report.as_ref().ok()?.phases.iter().find(|phase| phase.name == name)
}

fn widest(jobs: &[JobMark]) -> Vec<JobMark> {
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.read.max(job.written)));
    jobs.truncate(JOBS);
    jobs.sort_by(|a, b| a.start.total_cmp(&b.start));
    jobs
}

/// A checksum that identifies the run of a report; it is the same in every round.
fn run_of(report: &Report) -> u32 {
    let spec = report.method.spec.clone().map(|spec| RunSpec { seed: 0, ..spec });
    crc32c::crc32c(&serde_json::to_vec(&spec).expect("plain values have an encoding"))
}

/// Returns the proof of a phase: the numbers that the figure's conditions are judged by. `Err` says
/// why the phase proves nothing.
pub(super) fn prove(report: &Report, name: &str, round: usize) -> Result<Proof, String> {
    let store = report.method.spec.as_ref().map(|spec| spec.store.name()).unwrap_or_default();
    let phase = report.phases.iter().find(|phase| phase.name == name);
    let phase = phase.ok_or_else(|| format!("{store}: the phase {name:?} was not reached"))?;
    if phase.stopped {
        return Err(format!("{store}: the phase {name:?} was stopped"));
    }
    Ok(Proof {
        store,
        run: run_of(report),
        phase: name.to_owned(),
        round,
        commit: report.method.commit.clone(),
        machine: report.method.machine.clone(),
        driver: report.method.driver().unwrap_or_default().to_owned(),
        seconds: phase.seconds,
        ops: phase.ops,
        chains: phase.chain_count(),
        targets: phase.store.levels.iter().any(|level| level.target.is_some()),
        fullness: report.fullness(phase),
        debt: report.debt(phase),
        floor_p999_us: phase.floor.p999_us,
        device_p999_us: beside(report, phase),
        opening: phase.opening(),
        open_loop: phase.arrivals.peak().is_some(),
        limits: report.method.limits.clone(),
        limits_in_force: report.method.limits_in_force,
    })
}

/// The ratios of two series, place by place and round by round. If the second one is a single
/// point, all places of the first are compared with it.
fn ratios(top: Vec<Place>, bottom: &[Place], single: bool) -> Vec<Place> {
    let with = |(label, top): Place| {
        let (_, bottom) = bottom.iter().find(|(other, _)| single || *other == label)?;
        Some((label, top.iter().zip(bottom).map(|(a, b)| ratio(*a, *b)).collect()))
    };
    top.into_iter().filter_map(with).collect()
}

/// The larger of two series, place by place and round by round.
fn larger(one: Vec<Place>, other: Vec<Place>) -> Vec<Place> {
    let with = |(label, one): Place| {
        let (_, other) = other.iter().find(|(theirs, _)| *theirs == label)?;
        Some((label, one.iter().zip(other).map(|(a, b)| a.max(*b)).collect()))
    };
    one.into_iter().filter_map(with).collect()
}

/// One place with the means of all, round by round.
fn mean(places: &[Place]) -> Vec<Place> {
    let rounds = places.iter().map(|(_, rounds)| rounds.len()).min().unwrap_or(0);
    let of = |round: usize| {
        places.iter().map(|(_, rounds)| rounds[round]).sum::<f64>() / places.len() as f64
    };
    vec![("mean".to_owned(), (0..rounds).map(of).collect())]
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
    // How far a value is beyond a bound, and the round in which it is least far.
    let beyond = |value: f64, bound: f64| if at_least { value - bound } else { bound - value };
    let weakest = if at_least { found.least } else { found.largest };
    // Equal counts as no worse.
    let same = if is_ratio && paper == 1.0 { SAME } else { 0.0 };
    let holds = match every_round {
        true => beyond(weakest, paper) > SAME,
        false => beyond(found.median, paper) >= -same,
    };
    if holds {
        return Verdict::Holds;
    }
    // Every round has an effect, but a smaller one than claimed.
    let in_part = is_ratio && beyond(paper, 1.0) > 0.0 && beyond(weakest, 1.0) > SAME;
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
    fn a_mean_is_that_of_the_ratios_to_the_best_of_the_others() {
        let series = |first: f64, last: f64| -> Vec<Place> {
            vec![("5".to_owned(), vec![first, 1.0]), ("95".to_owned(), vec![last, 1.0])]
        };
        let others = larger(series(2.0, 3.0), series(4.0, 1.0));
        let found = mean(&ratios(series(8.0, 3.0), &others, false));
        assert_eq!(found, [("mean".to_owned(), vec![1.5, 1.0])]);
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
}
