//! What has to hold before a figure is called measured: all of it of every phase that a point is
//! taken from; the worst is quoted.
//!
//! 1. at least three rounds, and no run failed or was stopped;
//! 2. at least five minutes, or 100 compaction chains, over all rounds of a phase;
//! 3. every level with a target but the last gets nine tenths full within the first and within the
//!    last fifth of the phase (a level breathes by an SST, which is a quarter of an L1 of four;
//!    one that was the last when the phase began need not have been full then, and one that no job
//!    has changed within the fifth keeps what it had at rest, short of full by up to an SST);
//! 4. in an open loop the driver's own P99.9 is at most 0.3 ms (the aim of 0.2 ms costs most of a
//!    core here, see docs/performance.md);
//! 5. the limits of device and memory that were asked for are in force;
//! 6. all of it was done by programs of one commit, built without changes;
//! 7. the scale is not the one for smoke;
//! 8. where an open loop has a limited device, reads of the machine's own beside it had a P99.9 of
//!    at most 4.5 ms: a shared disk that is slow for seconds decides a P99 by itself, and such a
//!    run is done again ([`again`]). Quiet runs have 2 to 3 ms here, disturbed ones 5 to 40. Where
//!    the run's device is not limited these reads wait for the run itself.
//!
//! Of an overview ([`super::Entry::overview`]) 2, 3 and 8 are told and decide nothing.

use super::Setting;
use super::result::{Condition, Proof};
use vlsm_measure::report::{PhaseReport, Report};

/// Rounds at least.
const ROUNDS: usize = 3;
/// Seconds of a phase at least, unless it has [`CHAINS`].
const SECONDS: f64 = 300.0;
/// Compaction chains of a phase at least, unless it is [`SECONDS`] long.
const CHAINS: u64 = 100;
/// How full levels have to be.
const FULL: f64 = 0.9;
/// P99.9 of the driver alone at most, in microseconds.
const FLOOR: f64 = 300.0;
/// P99.9 of the reads beside at most, in microseconds.
const BESIDE: f64 = 4_500.0;
/// Fewer reads have no P99.9: their P99 is asked, which is more lenient.
const READS: u64 = 1_000;

/// P99.9 of the reads beside a phase in microseconds, where they tell how the machine was.
pub(super) fn beside(report: &Report, phase: &PhaseReport) -> Option<f64> {
    let limited = report.method.spec.as_ref()?.limits.device.is_some();
    let reads = phase.device_beside.as_ref()?;
    let slowest = if reads.count < READS { reads.p99_us } else { reads.p999_us };
    (limited && is_open(phase)).then_some(slowest)
}

fn is_open(phase: &PhaseReport) -> bool {
    phase.arrivals.peak().is_some()
}

/// Whether the machine spoilt this run, so that it is to be done again: by 4 or 8 of any phase,
/// also of one that warms up.
#[must_use]
pub fn again(report: &Report) -> bool {
    let spoilt = |phase: &PhaseReport| {
        let slow = is_open(phase) && phase.floor.p999_us > FLOOR;
        slow || beside(report, phase).is_some_and(|reads| reads > BESIDE)
    };
    report.phases.iter().any(spoilt)
}

/// The proof that is worst by a number, and the number.
fn worst<'a>(
    proofs: impl Iterator<Item = &'a Proof>,
    number: impl Fn(&Proof) -> f64,
) -> Option<(f64, String)> {
    let named =
        |proof: &Proof| format!("{}, {:?}, round {}", proof.store, proof.phase, proof.round);
    proofs.map(|proof| (number(proof), named(proof))).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Those that do not depend on what stores tell of themselves.
pub(super) fn conditions(
    proofs: &[Proof],
    failures: &[String],
    setting: &Setting,
    overview: bool,
) -> Vec<Condition> {
    let mut all = Vec::new();
    let mut add = |what: &str, value: String, holds: bool| {
        all.push(Condition { what: what.to_owned(), value, holds });
    };
    let of = |one: &Proof| {
        proofs.iter().filter(|other| other.run == one.run && other.phase == one.phase).count()
    };
    let rounds = proofs.iter().map(of).min().unwrap_or(0);
    add("three rounds or more", format!("{rounds}"), rounds >= ROUNDS);
    let failed = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
    add("no run failed", failed, failures.is_empty());
    add("a scale to measure with", setting.scale.to_string(), !setting.scale.is_smoke());
    let commits: std::collections::BTreeSet<&str> = proofs.iter().map(|p| &*p.commit).collect();
    let one = commits.len() == 1 && !commits.iter().any(|c| c.is_empty() || c.ends_with('+'));
    let named: Vec<_> = commits.into_iter().collect();
    add("one commit, without changes", named.join(", "), one);
    let lacking = proofs.iter().find(|proof| !proof.limits_in_force);
    let limits = lacking.map_or("yes".into(), |one| format!("{}: {}", one.store, one.limits));
    add("the limits asked for are in force", limits, lacking.is_none());
    let open = proofs.iter().filter(|proof| proof.open_loop);
    if let Some((negative, at)) = worst(open, |proof| -proof.floor_p999_us) {
        let value = format!("{:.0} µs ({at})", -negative);
        add("the driver's own P99.9 at most 300 µs", value, -negative <= FLOOR);
    }
    let reads = proofs.iter().filter(|proof| proof.device_p999_us.is_some());
    if let Some((negative, at)) = worst(reads, |proof| -proof.device_p999_us.unwrap_or(0.0)) {
        let value = format!("{:.1} ms ({at})", -negative / 1e3);
        let holds = overview || -negative <= BESIDE;
        add("reads beside a limited device: P99.9 at most 4.5 ms", value, holds);
    }
    all
}

/// Those that do.
pub(super) fn told_conditions(proofs: &[Proof], overview: bool) -> Vec<Condition> {
    let mut all = Vec::new();
    let mut add = |what: &str, value: String, holds: bool| {
        all.push(Condition { what: what.to_owned(), value, holds: overview || holds });
    };
    // A phase and its repetitions together.
    let enough = |proof: &Proof| {
        let same = proofs.iter().filter(|o| o.phase == proof.phase && o.run == proof.run);
        let (chains, seconds) =
            same.fold((0, 0.0), |(c, s), other| (c + other.chains, s + other.seconds));
        (chains as f64 / CHAINS as f64).max(seconds / SECONDS)
    };
    if let Some((least, at)) = worst(proofs.iter(), enough) {
        let share = format!("{:.0} % of that ({at})", least * 100.0);
        add("five minutes or 100 compaction chains", share, least >= 1.0);
    }
    let fullest = |proof: &Proof| {
        let both = proof.fullness.iter().map(|&(_, start, end)| start.unwrap_or(end).min(end));
        // A tree of one level proves nothing.
        both.fold(None, |least: Option<f64>, one| Some(least.map_or(one, |l| l.min(one))))
            .unwrap_or(0.0)
    };
    let (told, silent): (Vec<&Proof>, Vec<&Proof>) = proofs.iter().partition(|one| one.targets);
    if let Some(one) = silent.first() {
        let value = format!("{} does not tell its levels' targets", one.store);
        add("every level but the last 90 % full", value, false);
    }
    if let Some((least, at)) = worst(told.into_iter(), fullest) {
        let value = format!("{:.0} % ({at})", least * 100.0);
        add("every level but the last 90 % full", value, least >= FULL);
    }
    all
}
