//! Every figure and table with data in the four papers, as plain values: the runs that it needs,
//! the numbers that it takes from them, the statements of the paper's text, and the claims that can
//! be judged.
//!
//! 1. Tables describe the figures (`papers`, one file per paper); an entry builds a [`Figure`] for
//!    a [`Setting`] (scale, folder).
//! 2. A figure has panels; a panel has points; a point names its [`RunSpec`] and one of the run's
//!    phases. Equal runs of different figures are one run of the campaign.
//! 3. A point of a mechanism that is not built has no run ([`Source`]). It is shown as such, never
//!    as zero.
//! 4. The user can add other stores to a figure ([`beside`]).
//! 5. `judge` decides whether the figure is measured and whether each claim holds; `doubt` knows
//!    the claims that cannot be judged.
//! 6. `foresee` names the conditions that cannot be met, before the first run.
//! 7. An overview runs all profiles on the same work and is written as tables ([`matrix`]).
//! 8. [`claims`] writes the page of all verdicts from the figures that were kept.
//!
//! A paper's numbers are those of its text, because its plots are pictures. At a smaller scale the
//! paper's sizes and times are divided by the scale's factor (`scale`); ratios and rates are not.

pub mod beside;
pub mod claims;
pub mod conditions;
mod doubt;
pub mod foresee;
pub mod judge;
pub mod matrix;
pub mod measure;
pub mod page;
mod papers;
pub mod result;
mod stores;
pub mod text;

use crate::scale::Scale;
use measure::Measure;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
pub(crate) use vlsm_measure::report::statistic::unique;
use vlsm_measure::spec::RunSpec;

/// The experiment that a figure is built for.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The factor by which everything is smaller than in the papers.
    pub scale: Scale,
    /// Folder for the stores' data.
    pub dir: Option<PathBuf>,
    /// Whether stores other than ours take part.
    pub peers: bool,
    /// Seconds of a phase whose length the paper leaves open.
    pub seconds: f64,
}

/// Makes a figure for a setting.
pub type Build = dyn Fn(&Setting) -> Figure + Send + Sync;

/// A figure of a paper.
pub struct Entry {
    /// Its name: paper and number.
    pub id: &'static str,
    /// Its title: the subject in a few words.
    pub title: &'static str,
    /// Whether it is an overview, which runs all profiles on the same work and belongs to no paper.
    /// Its phases are shorter than a figure requires. Their length and the fullness of levels are
    /// reported and decide nothing.
    pub overview: bool,
    /// Makes it for a setting.
    pub build: Box<Build>,
}

/// All figures, paper by paper; then the overview of all profiles.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    papers::FIGURES.iter()
}

/// The figure of this name. A number alone names a figure of the first paper, `table1` its table.
///
/// # Errors
/// No figure has this name; the text suggests the nearest one.
pub fn named(name: &str) -> Result<&'static Entry, String> {
    let lower = name.to_lowercase();
    let own = format!("vlsm-{lower}");
    let find = |id: &str| all().find(|entry| entry.id == id);
    find(&lower).or_else(|| find(&own)).ok_or_else(|| {
        let unknown = vlsm_policy::names::unknown("figure", name, all().map(|entry| entry.id));
        format!("{unknown}; `vlsm-lab list` says what they show")
    })
}

/// A figure: its panels, and the claims that they test.
pub struct Figure {
    /// The paper's statement about the figure, in our words.
    pub says: String,
    /// The differences from the paper's experiment, besides the scale.
    pub here: String,
    /// Its parts.
    pub panels: Vec<Panel>,
    /// The claims that can be judged.
    pub claims: Vec<Claim>,
}

/// One part of a figure.
pub struct Panel {
    /// Its title: the subject in a few words.
    pub title: String,
    /// The form in which it is drawn.
    pub form: Form,
    /// The number that is taken from each run.
    pub measure: Measure,
    /// Its points.
    pub points: Vec<Point>,
    /// The numbers that the paper's text gives, in the units of the measure and at the papers'
    /// size.
    pub paper: Vec<Paper>,
}

/// The form in which a panel is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Lines; the x axis is a number with this name.
    Lines(String),
    /// Groups of bars.
    Bars,
    /// The measure over time, one line per series.
    Time,
    /// Background jobs over time, by level.
    Jobs,
}

/// A place on the x axis: its position and its label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct X {
    /// Its position.
    pub at: f64,
    /// Its label.
    pub label: String,
}

/// One point, bar or line of a panel.
pub struct Point {
    /// The series that it belongs to.
    pub series: String,
    /// Its place on the x axis.
    pub x: X,
    /// The number that is taken from the run; usually the panel's measure.
    pub measure: Measure,
    /// The run and the phase that it is taken from.
    pub source: Source,
    /// Whether it belongs to an added store, which is shown, not judged.
    pub added: bool,
}

/// The source of a point: a run and the name of one of its phases. `Err` names what the figure
/// needs and is not built.
pub type Source = Result<(Arc<RunSpec>, String), String>;

/// A series, and the numbers that the paper's text gives for it: x, y.
pub type Paper = (String, Vec<(f64, f64)>);

/// A statement of the paper that numbers decide.
#[derive(Clone, Deserialize)]
pub struct Claim {
    /// The statement in our words.
    pub text: String,
    /// The number that is compared.
    pub measure: Measure,
    /// The test that decides it.
    pub test: Test,
    /// Whether the ratio must be beyond one in every round, by more than the noise. It is set where
    /// a paper says that one system is better but not by how much.
    #[serde(default)]
    pub every_round: bool,
}

impl Claim {
    /// Whether it compares points.
    #[must_use]
    pub fn is_ratio(&self) -> bool {
        !matches!(self.test, Test::ValueAtLeast(..) | Test::ValueAtMost(..))
    }
}

/// The test that decides a claim. Points are named by panel, series and label of x.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// The first is at least this many times the second. Without a label, the place with the
    /// largest ratio counts (the papers' "up to").
    AtLeast(Named, Named, f64),
    /// The first is at most this many times the second, at every place.
    AtMost(Named, Named, f64),
    /// The first is at least this many times the best of the others, the largest of them at the
    /// same place, in the mean over the places.
    MeanAtLeast(Named, Vec<Named>, f64),
    /// The value is at least this much.
    ValueAtLeast(Named, f64),
    /// The value is at most this much.
    ValueAtMost(Named, f64),
}

/// A point, or a whole series if there is no label.
#[derive(Debug, Clone, Deserialize)]
pub struct Named {
    /// Number of the panel, from 0.
    pub panel: usize,
    /// The series.
    pub series: String,
    /// The label of x.
    #[serde(default)]
    pub x: Option<String>,
    /// The measure, if it is not the claim's.
    #[serde(default)]
    pub measure: Option<Measure>,
}

impl Test {
    /// The point that it is about, those that this is compared with, the number of the paper, and
    /// whether that is a least.
    #[must_use]
    pub fn parts(&self) -> (&Named, &[Named], f64, bool) {
        use std::slice::from_ref;
        match self {
            Self::AtLeast(a, b, factor) => (a, from_ref(b), *factor, true),
            Self::AtMost(a, b, factor) => (a, from_ref(b), *factor, false),
            Self::MeanAtLeast(a, others, factor) => (a, others, *factor, true),
            Self::ValueAtLeast(a, bound) => (a, &[], *bound, true),
            Self::ValueAtMost(a, bound) => (a, &[], *bound, false),
        }
    }
}

impl Figure {
    /// The points that a claim names.
    pub fn named<'a>(&'a self, named: &'a Named) -> impl Iterator<Item = &'a Point> {
        self.panels[named.panel].points.iter().filter(move |point| {
            point.series == named.series && named.x.as_ref().is_none_or(|x| *x == point.x.label)
        })
    }

    /// The runs and phases that a claim compares, each with the measure that it is compared by.
    pub fn compared<'a>(
        &'a self,
        claim: &'a Claim,
    ) -> impl Iterator<Item = (&'a RunSpec, &'a str, Measure)> {
        let (first, others, ..) = claim.test.parts();
        std::iter::once(first).chain(others).flat_map(|named| {
            let measure = named.measure.unwrap_or(claim.measure);
            self.named(named).filter_map(move |point| {
                let (run, phase) = point.source.as_ref().ok()?;
                Some((&**run, phase.as_str(), measure))
            })
        })
    }

    /// The points of all panels.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.panels.iter().flat_map(|panel| &panel.points)
    }

    /// The runs it needs, each once.
    #[must_use]
    pub fn runs(&self) -> Vec<Arc<RunSpec>> {
        let sources = self.points().filter_map(|point| point.source.as_ref().ok());
        unique(sources.map(|(run, _)| run.clone()))
    }

    /// The stores that are left out, and why, each once.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        unique(self.points().filter_map(|point| point.source.clone().err()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting { scale: Scale::CAMPAIGN, dir: None, peers: true, seconds: 20.0 }
    }

    #[test]
    fn every_figure_of_the_papers_is_there() {
        let numbers = |paper: &str, numbers: &[u32]| -> Vec<String> {
            numbers.iter().map(|number| format!("{paper}-{number}")).collect()
        };
        let mut expected = numbers("vlsm", &[1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13]);
        expected.insert(expected.len() - 1, "vlsm-12-reads".into());
        expected.extend(["vlsm-13-least", "vlsm-room", "vlsm-table1"].map(str::to_owned));
        expected.extend(numbers("silk", &[1, 2, 3, 4, 5, 6, 8]));
        expected.extend(["silk-8b", "silk-8c"].map(str::to_owned));
        expected.extend(numbers("silk", &[9, 10, 11, 12, 13]));
        expected.extend(numbers("dlc", &[3, 4, 6]));
        expected.push("dlc-6-long".into());
        expected.extend(numbers("dlc", &[7, 8, 9, 10, 11, 12]));
        expected.extend(numbers("cruise", &[3, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18]));
        expected.extend(numbers("adoc", &[1, 2]));
        expected.extend(["table", "table-200", "short", "short-200"].map(str::to_owned));
        let found: Vec<_> = all().map(|entry| entry.id.to_owned()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_figure_can_be_built_and_names_what_it_shows() {
        for entry in all() {
            let figure = (entry.build)(&setting());
            assert!(!figure.panels.is_empty(), "{} has no panel", entry.id);
            assert!(!figure.says.is_empty() && !figure.claims.is_empty(), "{}", entry.id);
            for (number, panel) in figure.panels.iter().enumerate() {
                assert!(!panel.points.is_empty(), "{} panel {number} has no point", entry.id);
                for point in &panel.points {
                    let Ok((run, phase)) = &point.source else { continue };
                    let named = |step: &vlsm_measure::spec::Step| match step {
                        vlsm_measure::spec::Step::Phase(known) => known.name == *phase,
                        _ => false,
                    };
                    assert!(run.steps.iter().any(named), "{}: no phase {phase:?}", entry.id);
                    run.store.options.policy.build().expect(entry.id);
                    let json = serde_json::to_string(&**run).expect("it has an encoding");
                    let read: RunSpec = serde_json::from_str(&json).expect("it can be read");
                    assert_eq!(read, **run, "{}: a campaign could not resume it", entry.id);
                }
            }
            for claim in &figure.claims {
                let (first, others, ..) = claim.test.parts();
                for named in std::iter::once(first).chain(others) {
                    let known = figure.named(named).next().is_some();
                    assert!(known, "{}: {named:?} names no point", entry.id);
                }
            }
        }
    }

    #[test]
    fn names_are_found_and_mistakes_answered() {
        assert_eq!(named("8").map(|entry| entry.id), Ok("vlsm-8"));
        assert_eq!(named("SILK-8").map(|entry| entry.id), Ok("silk-8"));
        assert_eq!(named("table1").map(|entry| entry.id), Ok("vlsm-table1"));
        assert!(named("slik-8").err().is_some_and(|why| why.contains("did you mean \"silk-8\"?")));
    }
}
