//! Stores beside each other, from runs that alternated: A B A B …
//!
//! These machines are noisy and their speed drifts, so an absolute figure is an anecdote. What
//! counts is the ratio of two runs that followed each other, and how far it varies from pair to
//! pair:
//! 1. Of each figure: the median of each store, and in each round the ratio to the baseline's run
//!    of the same round. Nothing to nothing (0 ÷ 0) is a ratio of 1.
//! 2. The median of the ratios, with an interval from their order statistics, the one that belongs
//!    to the sign test: of n sorted ratios, the (k+1)-th from below to the (k+1)-th from above
//!    holds the true median with probability 1 − 2·P(Binomial(n, ½) ≤ k), whatever the
//!    distribution. The largest k that leaves 95 % is taken. Under six pairs there is none, and the
//!    interval is the whole range, least to largest, which holds the median with 1 − 2¹⁻ⁿ: 75 % of
//!    three pairs, 87.5 % of four, 93.75 % of five. A bootstrap would promise more than so few
//!    values can say.
//! 3. `better` or `worse` is said only if the interval excludes 1 (by [`LEAST`]), else
//!    `no difference shown`. Under [`PAIRS_MIN`] pairs nothing is concluded.
//!
//! Many figures are looked at together: of twenty without any difference, one will look like one at
//! 95 %, and five at 75 %. The tables say so.

pub mod csv;
pub mod page;

use std::fmt::Write;
use vlsm_measure::report::chart::Unit;
use vlsm_measure::report::statistic::{self, Better, Statistic};
use vlsm_measure::report::{Report, table};

/// The fewest pairs that anything is concluded from.
pub const PAIRS_MIN: usize = 3;
/// How sure an interval shall be, where there are pairs enough.
pub const CONFIDENCE: f64 = 0.95;

/// A difference smaller than this is none, however sure: stores that keep up with an open loop
/// differ by a request or two.
pub const LEAST: f64 = 0.001;

/// The runs of one store, one a round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Runs {
    /// The store as it is called here.
    pub name: String,
    /// Its reports, in the order of rounds.
    pub reports: Vec<Report>,
}

/// Stores compared to one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The stores.
    pub names: Vec<String>,
    /// Which of them the others are compared to.
    pub baseline: usize,
    /// Rounds that all stores have.
    pub pairs: usize,
    /// One for each figure that any store has.
    pub rows: Vec<Row>,
}

/// A figure of all stores.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The phase; none for figures of whole runs.
    pub phase: Option<String>,
    /// The figure's name.
    pub statistic: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which direction is better.
    pub better: Better,
    /// The median of each store.
    pub medians: Vec<Option<f64>>,
    /// Each store's ratio to the baseline; none for the baseline itself, and where a figure is
    /// missing.
    pub ratios: Vec<Option<Ratio>>,
}

/// What the ratios of pairs say.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// Pair by pair.
    pub pairs: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// The interval of the median.
    pub interval: (f64, f64),
    /// With which probability it holds the true one.
    pub confidence: f64,
    /// What follows.
    pub verdict: Verdict,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The store is better than the baseline.
    Better,
    /// It is worse.
    Worse,
    /// The interval includes 1.
    NoDifferenceShown,
    /// There were only so many pairs.
    TooFew(usize),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Better => f.write_str("better"),
            Self::Worse => f.write_str("worse"),
            Self::NoDifferenceShown => f.write_str("no difference shown"),
            Self::TooFew(1) => f.write_str("1 pair: no conclusion"),
            Self::TooFew(pairs) => write!(f, "{pairs} pairs: no conclusion"),
        }
    }
}

/// The one in the middle, or between the two there; None of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        0 => Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper)),
        _ => Some(upper),
    }
}

/// The interval of the median of these values, and how sure it is; None of nothing.
#[must_use]
pub fn interval(values: &[f64]) -> Option<((f64, f64), f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, largest) = (*sorted.first()?, *sorted.last()?);
    let count = sorted.len();
    // P(Binomial(n, ½) ≤ k), term by term. Of more pairs than anyone runs the first term is 0.
    let mut term = 0.5_f64.powi(count as i32);
    let mut below = term;
    let mut found = ((least, largest), 1.0 - 2.0 * below);
    for k in 1..count / 2 {
        term *= (count - k + 1) as f64 / k as f64;
        below += term;
        let confidence = 1.0 - 2.0 * below;
        if confidence < CONFIDENCE {
            break;
        }
        found = ((sorted[k], sorted[count - 1 - k]), confidence);
    }
    Some(found)
}

impl Ratio {
    /// Of pairs of values, each store ÷ baseline. None without any pair.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)], better: Better) -> Option<Self> {
        let ratio = |&(value, base): &(f64, f64)| if value == base { 1.0 } else { value / base };
        let pairs: Vec<f64> = pairs.iter().map(ratio).filter(|ratio| !ratio.is_nan()).collect();
        let (interval, confidence) = interval(&pairs)?;
        let verdict = match (interval, better) {
            _ if pairs.len() < PAIRS_MIN => Verdict::TooFew(pairs.len()),
            ((low, _), Better::Higher) if low >= 1.0 + LEAST => Verdict::Better,
            ((low, _), Better::Lower) if low >= 1.0 + LEAST => Verdict::Worse,
            ((_, high), Better::Lower) if high <= 1.0 - LEAST => Verdict::Better,
            ((_, high), Better::Higher) if high <= 1.0 - LEAST => Verdict::Worse,
            _ => Verdict::NoDifferenceShown,
        };
        Some(Self { median: median(&pairs)?, pairs, interval, confidence, verdict })
    }
}

impl Comparison {
    /// Compares all stores to the one at `baseline`.
    ///
    /// # Panics
    /// When there is no store at `baseline`.
    #[must_use]
    pub fn new(stores: &[Runs], baseline: usize) -> Self {
        assert!(baseline < stores.len(), "the baseline is one of the stores");
        let pairs = stores.iter().map(|runs| runs.reports.len()).min().unwrap_or(0);
        let mut rows = Vec::new();
        let first: Vec<Report> =
            stores.iter().filter_map(|runs| runs.reports.first().cloned()).collect();
        for label in statistic::phase_labels(&first) {
            for statistic in statistic::of_phases() {
                let take = |report: &Report| (statistic.take)(statistic::phase(report, &label)?);
                rows.extend(row(stores, baseline, Some(&label), &statistic, &take));
            }
        }
        for statistic in statistic::of_runs() {
            rows.extend(row(stores, baseline, None, &statistic, &|report| {
                (statistic.take)(report)
            }));
        }
        let names = stores.iter().map(|runs| runs.name.clone()).collect();
        Self { names, baseline, pairs, rows }
    }

    /// The stores that are compared to the baseline.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        let baseline = self.baseline;
        (0..self.names.len()).filter(move |index| *index != baseline)
    }

    /// What intervals are, in words.
    #[must_use]
    pub fn method(&self) -> String {
        let known = vec![1.0; self.pairs];
        let sure = interval(&known).map_or(0.0, |(_, confidence)| confidence * 100.0);
        let sure = format!("{sure:.2}");
        let sure = sure.trim_end_matches('0').trim_end_matches('.');
        let how = match self.pairs {
            pairs if pairs < PAIRS_MIN => {
                return format!(
                    "{pairs} pairs of runs: nothing is concluded from fewer than {PAIRS_MIN}"
                );
            }
            pairs if pairs < 6 => "least to largest",
            _ => "order statistics",
        };
        format!(
            "{} pairs of runs that alternated; medians, and the median of the ratios pair by pair \
             with its interval ({how}: holds the true median with {sure} %). Each figure is judged \
             by itself: of many, some look different by chance.",
            self.pairs
        )
    }

    /// A table for people, at most 100 columns wide.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for line in wrapped(&self.method(), 100) {
            let _ = writeln!(out, "{line}");
        }
        for other in self.others() {
            let (a, b) = (&self.names[self.baseline], &self.names[other]);
            let (a, b) = (clipped(a, 13), clipped(b, 13));
            let _ = writeln!(
                out,
                "\n{:<25}{a:>14}{b:>14}{:>8}  {:<17}verdict",
                "", "ratio", "interval",
            );
            let mut phase = None;
            for row in &self.rows {
                let Some(ratio) = &row.ratios[other] else { continue };
                if phase != Some(&row.phase) {
                    let _ = writeln!(out, "{}", row.phase.as_deref().unwrap_or("whole run"));
                    phase = Some(&row.phase);
                }
                let text = |index: usize| {
                    row.medians[index].map_or("–".into(), |value| row.unit.text(value))
                };
                let _ = writeln!(
                    out,
                    "  {:<23}{:>14}{:>14}{:>8}  {:<17}{}",
                    clipped(row.statistic, 23),
                    text(self.baseline),
                    text(other),
                    plain(ratio.median),
                    format!("{} – {}", plain(ratio.interval.0), plain(ratio.interval.1)),
                    ratio.verdict,
                );
            }
        }
        out
    }
}

/// One figure of all stores; None where no store has it.
fn row<T>(
    stores: &[Runs],
    baseline: usize,
    phase: Option<&str>,
    statistic: &Statistic<T>,
    take: &dyn Fn(&Report) -> Option<f64>,
) -> Option<Row> {
    let values = |runs: &Runs| runs.reports.iter().map(take).collect::<Vec<Option<f64>>>();
    let all: Vec<Vec<Option<f64>>> = stores.iter().map(values).collect();
    let of_none = all.iter().flatten().all(Option::is_none);
    // A figure that is zero everywhere says nothing: no scan, no stall.
    if of_none || all.iter().flatten().flatten().all(|value| *value == 0.0) {
        return None;
    }
    let ratio = |index: usize| {
        let both = all[index].iter().zip(&all[baseline]);
        let pairs: Vec<(f64, f64)> = both.filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
        (index != baseline).then(|| Ratio::of(&pairs, statistic.better)).flatten()
    };
    let known =
        |values: &Vec<Option<f64>>| median(&values.iter().flatten().copied().collect::<Vec<f64>>());
    Some(Row {
        phase: phase.map(str::to_owned),
        statistic: statistic.name,
        unit: statistic.unit,
        better: statistic.better,
        medians: all.iter().map(known).collect(),
        ratios: (0..stores.len()).map(ratio).collect(),
    })
}

/// A ratio, as short as it says something.
#[must_use]
pub fn plain(ratio: f64) -> String {
    match ratio {
        r if r.is_infinite() => "∞".into(),
        r if r >= 1000.0 => table::grouped(r.round() as u64),
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        0.0 => "0".into(),
        r if r < 0.1 => format!("{r:.4}"),
        r => format!("{r:.3}"),
    }
}

/// At most so many characters.
fn clipped(text: &str, most: usize) -> String {
    match text.chars().count() {
        count if count <= most => text.to_owned(),
        _ => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// Lines of at most so many characters.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}
