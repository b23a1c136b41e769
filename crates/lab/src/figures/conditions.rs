//! The conditions of a measurement. A figure counts as measured if every phase that its points are
//! taken from meets all conditions except 2, 3, 8 and 9. These apply to the phases that a claim
//! compares, before it is judged (`doubt.rs`). The worst phase is quoted.
//!
//! 1. at least three rounds, and no run failed or was stopped;
//! 2. at least five minutes, or 100 compaction chains, over all rounds of a phase;
//!    (A store without levels has no chains, and no levels to be full: neither applies to it.)
//! 3. every level with a target, except the last, gets nine tenths full within the first and
//!    within the last fifth of the phase, with a tolerance of one SST, which is a quarter of an L1
//!    of four. A level that was the last when the phase began need not have been full then;
//! 4. in an open loop the driver's own P99.9 is at most 0.3 ms (the aim of 0.2 ms costs most of a
//!    core here, see docs/performance.md);
//! 5. the requested limits of device and memory are in force;
//! 6. every run used a program of the same commit, built without changes, on one kind of machine;
//! 7. the scale is not the one for smoke tests;
//! 8. in an open loop with a limited device, the probe reads outside the run's limits had a P99.9
//!    of at most 4.5 ms. A shared disk that is slow for seconds decides a P99 by itself; such a run
//!    is repeated ([`again`]). Quiet runs have 2 to 3 ms here, disturbed ones 5 to 40; beside
//!    RocksDB a quiet machine may have 8. If the run's device is not limited, these reads wait for
//!    the run itself and prove nothing;
//! 9. in a phase with reads, at most a tenth of the bytes that clients read opened SSTs. Our store
//!    keeps indexes and filters within its memory limit and reads those that it dropped again;
//!    RocksDB has no limit for them. Once they do not fit, the limit is measured and not the store.
//!
//! Compaction debt that a phase left is no condition. The claims about that phase then have no
//! verdict (`doubt.rs`), and the figure says so.
//!
//! In an overview ([`super::Entry::overview`]) 2, 3, 8 and 9 are reported, but decide nothing.

use super::result::{Condition, Proof};
use super::{Setting, unique};
use vlsm_measure::metrics::Percentiles;
use vlsm_measure::report::{PhaseReport, Report};

/// The least number of rounds.
pub(super) const ROUNDS: usize = 3;
/// The least length of a phase in seconds, unless it has [`CHAINS`].
pub(super) const SECONDS: f64 = 300.0;
/// The least number of compaction chains of a phase, unless it is [`SECONDS`] long.
pub(super) const CHAINS: u64 = 100;
/// The least fullness of a level.
const FULL: f64 = 0.9;
/// The largest P99.9 of the driver alone, in microseconds.
const FLOOR: f64 = 300.0;
/// The largest P99.9 of the probe reads, in microseconds.
const BESIDE: f64 = 4_500.0;
/// The largest share of the bytes read by clients that opens SSTs.
const OPENING: f64 = 0.1;
/// Fewer reads have no P99.9. Their P99 is used instead, which is more lenient.
const READS: u64 = 1_000;

/// P99.9 of the probe reads during a phase, in microseconds. `None` unless the phase is an open
/// loop with a limited device: other probe reads do not tell how quiet the machine was.
pub(super) fn beside(report: &Report, phase: &PhaseReport) -> Option<f64> {
    let limited = report.method.spec.as_ref()?.limits.device.is_some();
    let reads = phase.device_beside.as_ref()?;
    (limited && is_open(phase)).then_some(slowest(reads))
}

fn slowest(reads: &Percentiles) -> f64 {
    if reads.count < READS { reads.p99_us } else { reads.p999_us }
}

/// Returns P99.9 of probe reads in milliseconds if condition 8 does not allow it.
#[must_use]
pub fn too_slow(reads: &Percentiles) -> Option<f64> {
    Some(slowest(reads)).filter(|slowest| *slowest > BESIDE).map(|slowest| slowest / 1e3)
}

fn is_open(phase: &PhaseReport) -> bool {
    phase.arrivals.peak().is_some()
}

/// Whether the machine spoilt this run, so that it must be repeated: a phase, even one that only
/// warms up, fails condition 4 or 8.
#[must_use]
pub fn again(report: &Report) -> bool {
    let spoilt = |phase: &PhaseReport| {
        let slow = is_open(phase) && phase.floor.p999_us > FLOOR;
        slow || beside(report, phase).is_some_and(|reads| reads > BESIDE)
    };
    report.phases.iter().any(spoilt)
}

/// The least number of the proofs that have one, and the name of its proof.
fn worst(proofs: &[Proof], number: impl Fn(&Proof) -> Option<f64>) -> Option<(f64, String)> {
    let named = |proof: &Proof| {
        let at = format!("{}, {:?}, round {}", proof.store, proof.phase, proof.round);
        Some((number(proof)?, at))
    };
    proofs.iter().filter_map(named).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The proofs of the same phase in all rounds.
fn rounds_of<'a>(all: &'a [Proof], one: &Proof) -> impl Iterator<Item = &'a Proof> {
    let (run, phase) = (one.run, one.phase.clone());
    all.iter().filter(move |other| other.run == run && other.phase == phase)
}

/// The conditions that do not depend on what a store reports about itself.
pub(super) fn conditions(
    proofs: &[Proof],
    failures: &[String],
    setting: &Setting,
) -> Vec<Condition> {
    let mut all = Vec::new();
    let mut add = |what: &str, value: String, holds: bool| {
        all.push(Condition { what: what.to_owned(), value, holds, of_phases: false });
    };
    let rounds = proofs.iter().map(|one| rounds_of(proofs, one).count()).min().unwrap_or(0);
    add("three rounds or more", format!("{rounds}"), rounds >= ROUNDS);
    let failed = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
    add("no run failed", failed, failures.is_empty());
    add("a scale to measure with", setting.scale.to_string(), !setting.scale.is_smoke());
    let commits: std::collections::BTreeSet<&str> = proofs.iter().map(|p| &*p.commit).collect();
    let one = commits.len() == 1 && !commits.iter().any(|c| c.is_empty() || c.ends_with('+'));
    let named: Vec<_> = commits.into_iter().collect();
    add("one commit, without changes", named.join(", "), one);
    let machine = |p: &Proof| format!("{} × {}", p.machine.cores, p.machine.cpu);
    let machines = unique(proofs.iter().map(machine));
    add("one machine", machines.join(", "), machines.len() == 1);
    let lacking = proofs.iter().find(|proof| !proof.limits_in_force);
    let limits = lacking.map_or("yes".into(), |one| format!("{}: {}", one.store, one.limits));
    add("the limits asked for are in force", limits, lacking.is_none());
    let floor = |proof: &Proof| proof.open_loop.then_some(-proof.floor_p999_us);
    if let Some((negative, at)) = worst(proofs, floor) {
        let value = format!("{:.0} µs ({at})", -negative);
        add("the driver's own P99.9 at most 300 µs", value, -negative <= FLOOR);
    }
    all
}

/// Whether a store of this name, `KIND` or `KIND:CONFIG`, has levels. B-trees have none.
pub(super) fn has_levels(store: &str) -> bool {
    let kind = store.split(':').next().unwrap_or_default();
    !["wiredtiger", "redb", "lmdb"].contains(&kind)
}

/// The evidence in a phase, over all rounds.
struct Evidence {
    /// Its part of [`SECONDS`] or of [`CHAINS`], the larger one.
    length: f64,
    /// How full the least full of its levels is; `None` if the store does not report it.
    fullness: Option<f64>,
}

impl Evidence {
    /// From the proofs of the phase in all rounds; `None` for a store without levels.
    fn of(rounds: &[Proof]) -> Option<Self> {
        if rounds.iter().any(|proof| !has_levels(&proof.store)) {
            return None;
        }
        let chains: u64 = rounds.iter().map(|proof| proof.chains).sum();
        let seconds: f64 = rounds.iter().map(|proof| proof.seconds).sum();
        let fullest = |proof: &Proof| {
            let both = proof.fullness.iter().map(|&(_, start, end)| start.unwrap_or(end).min(end));
            // A tree of one level proves nothing.
            proof.targets.then_some(both.reduce(f64::min).unwrap_or(0.0))
        };
        let fullness: Option<Vec<f64>> = rounds.iter().map(fullest).collect();
        Some(Self {
            length: (chains as f64 / CHAINS as f64).max(seconds / SECONDS),
            fullness: fullness.and_then(|all| all.into_iter().reduce(f64::min)),
        })
    }
}

/// Condition 8 over all phases of a figure: the worst of them. `None` if no phase is an open loop
/// with a limited device.
pub(super) fn quiet(proofs: &[Proof], overview: bool) -> Option<Condition> {
    let (negative, at) = worst(proofs, |proof| Some(-proof.device_p999_us?))?;
    Some(Condition {
        what: "reads beside a limited device: P99.9 at most 4.5 ms".into(),
        value: format!("{:.1} ms ({at})", -negative / 1e3),
        holds: overview || -negative <= BESIDE,
        of_phases: true,
    })
}

/// Condition 9 over all phases of a figure: the worst of them. `None` if no phase has reads of a
/// store that counts these bytes.
fn opened(proofs: &[Proof]) -> Option<Condition> {
    let (negative, at) = worst(proofs, |proof| Some(-proof.opening?))?;
    Some(Condition {
        what: "at most 10 % of the bytes read opened SSTs".into(),
        value: format!("{:.0} % ({at})", -negative * 100.0),
        holds: -negative <= OPENING,
        of_phases: true,
    })
}

/// The part of conditions 2, 3, 8 and 9 that a phase does not meet, from its proofs in all rounds.
pub(super) fn too_little(rounds: &[Proof]) -> Option<String> {
    let of_reads = [quiet(rounds, false), opened(rounds)].into_iter().flatten();
    if let Some(lacking) = of_reads.into_iter().find(|one| !one.holds) {
        return Some(format!("{}: {}", lacking.what, lacking.value));
    }
    let Evidence { length, fullness } = Evidence::of(rounds)?;
    if length < 1.0 {
        return Some(format!("{:.0} % of five minutes or 100 compaction chains", length * 100.0));
    }
    match fullness {
        None => Some("it does not tell its levels' targets".to_owned()),
        Some(least) if least < FULL => {
            Some(format!("a level that is not the last gets {:.0} % full", least * 100.0))
        }
        Some(_) => None,
    }
}

/// Conditions 2, 3, 8 and 9 over all phases of a figure: the worst of them.
pub(super) fn of_phases(proofs: &[Proof], overview: bool) -> Vec<Condition> {
    let evidence = |one: &Proof| {
        let rounds: Vec<Proof> = rounds_of(proofs, one).cloned().collect();
        Evidence::of(&rounds)
    };
    let mut all = Vec::new();
    let mut add = |what: &str, value: String, holds: bool| {
        let holds = overview || holds;
        all.push(Condition { what: what.to_owned(), value, holds, of_phases: true });
    };
    if let Some((least, at)) = worst(proofs, |proof| Some(evidence(proof)?.length)) {
        let value = format!("{:.0} % of that ({at})", least * 100.0);
        add("five minutes or 100 compaction chains", value, least >= 1.0);
    }
    let silent = |proof: &&Proof| evidence(proof).is_some_and(|one| one.fullness.is_none());
    let full = "every level but the last 90 % full";
    if let Some(one) = proofs.iter().find(silent) {
        add(full, format!("{} does not tell its levels' targets", one.store), false);
    }
    if let Some((least, at)) = worst(proofs, |proof| evidence(proof)?.fullness) {
        add(full, format!("{:.0} % ({at})", least * 100.0), least >= FULL);
    }
    all.extend(quiet(proofs, overview));
    all.extend(opened(proofs).map(|one| Condition { holds: overview || one.holds, ..one }));
    all
}
