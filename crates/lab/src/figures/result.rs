//! The result of a figure: its points round by round, the conditions that make it a measurement,
//! and the verdict on each claim. A page is drawn from it alone.

pub use super::measure::Unit;
use super::{Form, Paper, X};
use crate::compare::median;
use crate::scale::Scale;
use serde::{Deserialize, Serialize};
use vlsm_measure::process::Machine;
use vlsm_measure::report::JobMark;
use vlsm_measure::report::debt::Debt;

/// A figure with its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureResult {
    /// Its name.
    pub id: String,
    /// Its title: the subject in a few words.
    pub title: String,
    /// The paper's statement about the figure, in our words.
    pub says: String,
    /// The differences from the paper's experiment, besides the scale.
    pub here: String,
    /// The scale.
    pub scale: Scale,
    /// The commit of the program.
    pub commit: String,
    /// The machine.
    pub machine: Machine,
    /// The command that repeats it.
    pub command: String,
    /// The number of rounds that were run.
    pub rounds: usize,
    /// The stores that were left out, and why.
    pub left_out: Vec<String>,
    /// The added stores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Added>,
    /// The phases that left debt, the level that is furthest beyond its bound, and how often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub debts: Vec<String>,
    /// The stores that are not ours, and how our driver compares with a native loop over them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<String>,
    /// The conditions that make it a measurement.
    pub conditions: Vec<Condition>,
    /// Its parts.
    pub panels: Vec<PanelResult>,
    /// The verdicts.
    pub claims: Vec<ClaimResult>,
    /// The proofs that the conditions are judged by, one for each used phase of a round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<Proof>,
}

impl FigureResult {
    /// The part worth archiving: values, conditions and verdicts. It leaves out the values over
    /// time and the proofs of each phase, which are twenty times as long.
    #[must_use]
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        kept.proofs.clear();
        for point in kept.panels.iter_mut().flat_map(|panel| &mut panel.points) {
            point.over_time.clear();
            point.jobs.clear();
        }
        kept
    }

    /// Whether all conditions hold.
    #[must_use]
    pub fn measured(&self) -> bool {
        failed(&self.conditions).is_none()
    }

    /// The conditions that do not hold, in one line.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        failed(&self.conditions).map(|why| format!("not measured: {why}"))
    }

    /// The notes that a reader needs before the numbers: the paper's statement, the differences
    /// here, the stores left out, the phases that left debt, our driver's cost, and the added
    /// stores.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("the paper: {}", self.says)];
        if !self.here.is_empty() {
            notes.push(format!("here: {}", self.here));
        }
        notes.extend(self.left_out.iter().map(|missing| format!("not there: {missing}")));
        let lacking = self.conditions.iter().filter(|one| one.of_phases && !one.holds);
        notes.extend(lacking.map(|one| {
            let (what, value) = (&one.what, &one.value);
            format!("{what}: {value}. No claim about phases that lack it is judged.")
        }));
        if !self.debts.is_empty() {
            notes.push(format!(
                "debt left: {}. No claim about these phases is judged, except by a measure that \
                 contains the work that was left.",
                self.debts.join("; ")
            ));
        }
        if !self.drivers.is_empty() {
            notes.push(format!("our driver beside a native loop: {}.", self.drivers.join("; ")));
        }
        let names: Vec<_> = self.added.iter().map(|added| added.store.as_str()).collect();
        if !names.is_empty() {
            notes.push(format!(
                "beside: {}. Added stores are shown, not judged: no claim is about them, and they \
                 need not tell that their levels are full or how many chains there were.",
                names.join(", ")
            ));
        }
        let hidden =
            self.added.iter().filter_map(|added| Some((&added.store, added.why_not.as_ref()?)));
        notes.extend(hidden.map(|(store, why)| format!("{store} is not shown: {why}")));
        notes
    }
}

/// The conditions that do not hold, in one line.
#[must_use]
pub fn failed(conditions: &[Condition]) -> Option<String> {
    let failed = conditions.iter().filter(|condition| !condition.holds && !condition.of_phases);
    let failed: Vec<_> =
        failed.map(|condition| format!("{}: {}", condition.what, condition.value)).collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

/// An added store. It is shown beside the figure's own, not judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Its name, which is also that of its series.
    pub store: String,
    /// The reason why it is not shown; `None` if it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The requirement, in words.
    pub what: String,
    /// The worst value, and where it was found.
    pub value: String,
    /// Whether that value is good enough.
    pub holds: bool,
    /// Whether it applies to each phase. If it does not hold, the claims about that phase are not
    /// judged; everything else is measured.
    #[serde(default)]
    pub of_phases: bool,
}

/// One part with its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PanelResult {
    /// Its title: the subject in a few words.
    pub title: String,
    /// The form in which it is drawn.
    pub form: Form,
    /// The name of the measure on the y axis.
    pub measure: String,
    /// Its unit.
    pub unit: Unit,
    /// Its points.
    pub points: Vec<PointResult>,
    /// The numbers that the paper's text gives, converted to this scale: series, then x and y.
    pub paper: Vec<Paper>,
}

/// One point, bar or line with its data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// Its series.
    pub series: String,
    /// Its place on the x axis.
    pub x: X,
    /// Its value in each round; `None` if the run has none.
    pub values: Vec<Option<f64>>,
    /// Seconds and values of the first round. Only panels of the form `Time` or `Jobs` have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<(f64, f64)>,
    /// The first round's jobs. Only panels of jobs have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobMark>,
    /// The reason why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Whether it belongs to an added store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub added: bool,
}

impl PointResult {
    /// The median, the least and the largest of its values.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(self.values.iter().flatten().copied())
    }
}

/// A median and its range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub largest: f64,
}

impl Summary {
    /// The summary of some values; `None` if there are none.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let largest = values.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(&values)?, least, largest })
    }
}

/// A claim and its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claim in our words.
    pub text: String,
    /// The name of the measure that is compared.
    pub measure: String,
    /// The paper's number: a ratio, or a value converted to this scale.
    pub paper: f64,
    /// The unit of the numbers in `found`.
    pub unit: Unit,
    /// The number found in each round: a ratio or a value, as in `paper`.
    pub found: Vec<f64>,
    /// Their median and range.
    pub summary: Option<Summary>,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason why there is no verdict, or none that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Whether a claim holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The median reaches the paper's number.
    Holds,
    /// Every round agrees in the direction, but the median is less.
    HoldsInPart,
    /// It holds neither in full nor in part.
    DoesNotHold,
    /// There is too little evidence to judge by.
    NotMeasured,
    /// A phase left compaction debt, so its number is that of a part of the work.
    DebtLeft,
    /// A store has small SSTs, and the scale is too small for them.
    SmallScale,
}

impl Verdict {
    /// The verdict in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsInPart => "holds in part",
            Self::DoesNotHold => "does not hold here",
            Self::NotMeasured => "not measured",
            Self::DebtLeft => "not judged, debt was left",
            Self::SmallScale => "not judged at this scale",
        }
    }
}

/// The facts about one phase of a run by which the figure's conditions are judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The store.
    pub store: String,
    /// The identity of its run; it is the same in every round.
    pub run: u32,
    /// The phase.
    pub phase: String,
    /// The round, from 1.
    pub round: usize,
    /// The commit of the program.
    pub commit: String,
    /// The machine of the run. Empty in files from before it was kept.
    #[serde(default)]
    pub machine: Machine,
    /// The comparison of our driver with a native loop over the store, in words; empty for our own
    /// store.
    #[serde(default)]
    pub driver: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// The number of operations.
    pub ops: u64,
    /// The number of compaction chains: flushes with a chain behind L0, or all flushes if the store
    /// reports no chains.
    pub chains: u64,
    /// Whether the store reports targets of levels.
    pub targets: bool,
    /// The number and the fullness of each level that has a target and is not the last: how full it
    /// got in the first (unless it was the last level then) and in the last fifth of the phase.
    pub fullness: Vec<(u8, Option<f64>, f64)>,
    /// The level that is furthest beyond its bound at the end; `None` if the store does not report
    /// targets.
    #[serde(default)]
    pub debt: Option<Debt>,
    /// P99.9 of the driver alone in microseconds, for an open loop.
    pub floor_p999_us: f64,
    /// P99.9 in microseconds of the 4 KB probe reads beside an open loop (P99 if there are few).
    /// They are outside the run's limits and show how quiet the machine's device was.
    pub device_p999_us: Option<f64>,
    /// The share of the bytes read by clients that opened SSTs.
    #[serde(default)]
    pub opening: Option<f64>,
    /// Whether it was an open loop.
    pub open_loop: bool,
    /// Limits of device and memory.
    pub limits: String,
    /// Whether the requested limits are in force.
    pub limits_in_force: bool,
}
