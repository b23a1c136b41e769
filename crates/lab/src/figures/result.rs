//! What came of a figure: its points round by round, the conditions that make it a measurement, and
//! the verdict on each claim. All that a page is drawn from.

pub use super::measure::Unit;
use super::{Form, X};
use crate::compare::median;
use crate::scale::Scale;
use serde::{Deserialize, Serialize};
use vlsm_measure::process::Machine;
use vlsm_measure::report::JobMark;

/// A figure with its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureResult {
    /// Its name.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What the paper says.
    pub says: String,
    /// What is different here.
    pub here: String,
    /// The scale.
    pub scale: Scale,
    /// The commit of the program.
    pub commit: String,
    /// The machine.
    pub machine: Machine,
    /// What to type to do it again.
    pub command: String,
    /// Rounds that were run.
    pub rounds: usize,
    /// What it needs and is not there.
    pub not_built: Vec<String>,
    /// Stores that were asked for beside its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Added>,
    /// What makes it a measurement.
    pub conditions: Vec<Condition>,
    /// Its parts.
    pub panels: Vec<PanelResult>,
    /// The verdicts.
    pub claims: Vec<ClaimResult>,
    /// Of each phase that was used, what the conditions are judged by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<Proof>,
}

impl FigureResult {
    /// What is worth keeping for good: values, conditions and verdicts, without what was seen over
    /// time and without the proofs of each phase, which are twenty times as long.
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
        self.conditions.iter().all(|condition| condition.holds)
    }

    /// The conditions that do not hold, in one line.
    #[must_use]
    pub fn why_not(&self) -> Option<String> {
        failed(&self.conditions).map(|why| format!("not measured: {why}"))
    }

    /// What is to be said of the added stores, in one line.
    #[must_use]
    pub fn beside(&self) -> Option<String> {
        let names: Vec<_> = self.added.iter().map(|added| added.store.as_str()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{}. Added stores are shown, not judged: no claim is about them, and they need \
                 not tell that their levels are full or how many chains there were.",
                names.join(", ")
            )
        })
    }
}

/// The conditions that do not hold, in one line.
#[must_use]
pub fn failed(conditions: &[Condition]) -> Option<String> {
    let failed = conditions.iter().filter(|condition| !condition.holds);
    let failed: Vec<_> =
        failed.map(|condition| format!("{}: {}", condition.what, condition.value)).collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

/// A store that was asked for beside the figure's own. It is shown, not judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Its name, and that of its series.
    pub store: String,
    /// Why it is not shown, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What is required.
    pub what: String,
    /// The worst that was found, and where.
    pub value: String,
    /// Whether that is good enough.
    pub holds: bool,
}

/// One part with its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PanelResult {
    /// What it shows.
    pub title: String,
    /// How it is drawn.
    pub form: Form,
    /// What is on the y axis.
    pub measure: String,
    /// In which unit.
    pub unit: Unit,
    /// Its points.
    pub points: Vec<PointResult>,
    /// What the paper's text says, at this scale: series, then x and y.
    pub paper: Vec<(String, Vec<(f64, f64)>)>,
}

/// One point, bar or line with its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// Its series.
    pub series: String,
    /// Where it stands.
    pub x: X,
    /// Its value in each round; nothing where a run has none.
    pub values: Vec<Option<f64>>,
    /// The first round over time: seconds, value. For panels over time only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<(f64, f64)>,
    /// The first round's jobs. For panels of jobs only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobMark>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Of a store that was asked for beside the figure's own.
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
    /// Of some values; nothing of none.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let largest = values.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(&values)?, least, largest })
    }
}

/// A claim and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// In our words.
    pub text: String,
    /// What is compared.
    pub measure: String,
    /// What the paper claims: a ratio, or a value at this scale.
    pub paper: f64,
    /// The unit of what was found.
    pub unit: Unit,
    /// What was found in each round.
    pub found: Vec<f64>,
    /// Their median and range.
    pub summary: Option<Summary>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Whether a claim holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In the median, as much as the paper says.
    Holds,
    /// In its direction in every round, but by less.
    HoldsInPart,
    /// Not so.
    DoesNotHold,
    /// There is too little to judge by.
    NotMeasured,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsInPart => "holds in part",
            Self::DoesNotHold => "does not hold here",
            Self::NotMeasured => "not measured",
        }
    }
}

/// What a phase of a run proves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The store.
    pub store: String,
    /// What tells its run from others; the same in every round.
    pub run: u32,
    /// The phase.
    pub phase: String,
    /// The round, from 1.
    pub round: usize,
    /// The commit of the program.
    pub commit: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// Operations.
    pub ops: u64,
    /// Compaction chains that were seen: one for each flush with one behind L0, or each flush where
    /// a store tells no chains.
    pub chains: u64,
    /// Whether the store tells targets of levels.
    pub targets: bool,
    /// Each level that has a target and is not the last: its number, and how full it got in the
    /// first (unless it was the last level then) and in the last fifth of the phase.
    pub fullness: Vec<(u8, Option<f64>, f64)>,
    /// P99.9 of the driver alone in microseconds, for an open loop.
    pub floor_p999_us: f64,
    /// P99.9 (of few, P99) of the reads of 4 KB beside an open loop, outside the run's limits, in
    /// microseconds: how the machine's device was, where the run's own is limited.
    #[serde(default)]
    pub device_p999_us: Option<f64>,
    /// Whether it was an open loop.
    pub open_loop: bool,
    /// Limits of device and memory.
    pub limits: String,
    /// Whether those that were asked for are in force.
    pub limits_in_force: bool,
}
