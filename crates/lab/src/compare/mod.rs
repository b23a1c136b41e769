//! Compares stores by runs that alternated: A B A B …
//!
//! The speed of a machine drifts, so absolute figures of different times cannot be compared. The
//! comparison uses the ratio of two runs of the same round, and how far it varies from pair to
//! pair:
//! 1. Each figure has a median for each store. In each round it has the ratio of the store's run to
//!    the baseline's. 0 ÷ 0 is a ratio of 1.
//! 2. The result is the median of the ratios with the interval of the sign test, from order
//!    statistics. Of n sorted ratios, the (k+1)-th from below and the (k+1)-th from above enclose
//!    the true median with probability 1 − 2·P(Binomial(n, ½) ≤ k), for any distribution. The
//!    largest k that leaves 95 % is used. With fewer than six pairs there is no such k. Then the
//!    interval is the whole range, which holds the median with 1 − 2¹⁻ⁿ: 75 % for three pairs,
//!    87.5 % for four, 93.75 % for five. A bootstrap would promise more than these few values can
//!    support.
//! 3. The verdict is `better` or `worse` only if the interval excludes 1 (by [`LEAST`]), else
//!    `no difference shown`. Fewer than [`PAIRS_MIN`] pairs allow no conclusion.
//!
//! A table has many figures. Of twenty figures without any difference, one looks different by
//! chance at 95 %, and five do at 75 %. The tables say so.

pub mod csv;
pub mod page;

use crate::figures::unique;
use std::fmt::Write;
use vlsm_measure::report::chart::Unit;
use vlsm_measure::report::statistic::{self, Better, Statistic};
use vlsm_measure::report::{Report, table};

/// The least number of pairs that allows a conclusion.
pub const PAIRS_MIN: usize = 3;
/// The confidence of an interval, if there are enough pairs.
pub const CONFIDENCE: f64 = 0.95;

/// The least difference that counts. Stores that keep up with an open loop always differ by a
/// request or two.
pub const LEAST: f64 = 0.001;

/// The runs of one store, one per round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Runs {
    /// The store's name in the report.
    pub name: String,
    /// Its reports, in the order of rounds.
    pub reports: Vec<Report>,
}

/// Stores compared to one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The stores. The first one is the baseline, which the others are compared to.
    pub names: Vec<String>,
    /// The number of rounds that all stores have.
    pub pairs: usize,
    /// A row for each figure that any store has.
    pub rows: Vec<Row>,
    /// The stores and phases that left compaction debt, with the first run that did.
    pub debts: Vec<String>,
}

/// A figure of all stores.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The phase; `None` for figures of whole runs.
    pub phase: Option<String>,
    /// The figure's name.
    pub statistic: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The median of each store.
    pub medians: Vec<Option<f64>>,
    /// Each store's ratio to the baseline; `None` for the baseline itself and for a missing figure.
    pub ratios: Vec<Option<Ratio>>,
}

impl Row {
    /// The median of a store with its unit.
    #[must_use]
    pub fn median(&self, store: usize) -> Option<String> {
        self.medians[store].map(|median| self.unit.text(median))
    }
}

/// The ratios of a store to the baseline, and what follows from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// The ratio of each pair.
    pub pairs: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// The interval of the median.
    pub interval: (f64, f64),
    /// The probability that the interval holds the true median.
    pub confidence: f64,
    /// The verdict.
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
    /// There were only this many pairs, too few for a conclusion.
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

/// The median; the mean of the middle two for an even count. `None` if there are no values.
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

/// The interval of the median of these values, and its confidence. `None` if there are no values.
#[must_use]
pub fn interval(values: &[f64]) -> Option<((f64, f64), f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, largest) = (*sorted.first()?, *sorted.last()?);
    let count = sorted.len();
    // Sum P(Binomial(n, ½) ≤ k) term by term. The first term is 0 only for more pairs than anyone
    // runs.
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
    /// The ratio store ÷ baseline of pairs of values. `None` if there is no pair.
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
    /// Compares the other stores to the first one.
    #[must_use]
    pub fn new(stores: &[Runs]) -> Self {
        let pairs = stores.iter().map(|runs| runs.reports.len()).min().unwrap_or(0);
        let first = stores.iter().filter_map(|runs| runs.reports.first());
        let mut rows = Vec::new();
        for label in &unique(first.flat_map(statistic::phases).map(|(label, _)| label)) {
            for one in statistic::of_phases() {
                let phase = |report| statistic::phase(report, label);
                rows.extend(row(stores, Some(label), &one, phase));
            }
        }
        rows.extend(statistic::of_runs().iter().filter_map(|one| row(stores, None, one, Some)));
        let names = stores.iter().map(|runs| runs.name.clone()).collect();
        Self { names, pairs, rows, debts: stores.iter().flat_map(debts).collect() }
    }

    /// The rows of each phase, and those of whole runs, with their heading.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &[Row])> {
        let groups = self.rows.chunk_by(|a, b| a.phase == b.phase);
        groups.map(|rows| (rows[0].phase.as_deref().unwrap_or("whole run"), rows))
    }

    /// Describes how the intervals are computed and which phases left debt.
    #[must_use]
    pub fn method(&self) -> String {
        match self.debts.as_slice() {
            [] => self.intervals(),
            debts => format!(
                "{} Debt was left by {}: the numbers of these phases cover only part of the work.",
                self.intervals(),
                debts.join("; ")
            ),
        }
    }

    fn intervals(&self) -> String {
        let known = vec![1.0; self.pairs];
        let sure = interval(&known).map_or(0.0, |(_, confidence)| confidence * 100.0);
        let sure = format!("{sure:.2}");
        let sure = sure.trim_end_matches('0').trim_end_matches('.');
        let how = match self.pairs {
            pairs if pairs < PAIRS_MIN => {
                return format!(
                    "{pairs} pairs of runs: nothing is concluded from fewer than {PAIRS_MIN}."
                );
            }
            pairs if pairs < 6 => "least to largest",
            _ => "order statistics",
        };
        format!(
            "{} pairs of alternating runs: medians, and the median of the ratios pair by pair with \
             its interval ({how}: holds the true median with {sure} % confidence). Each figure is \
             judged on its own: among many, some differ by chance.",
            self.pairs
        )
    }

    /// A table for people, at most 100 columns wide.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = textwrap::fill(&self.method(), 100) + "\n";
        for other in 1..self.names.len() {
            let (a, b) = (&self.names[0], &self.names[other]);
            let (a, b) = (clipped(a, 13), clipped(b, 13));
            let _ = writeln!(
                out,
                "\n{:<25}{a:>14}{b:>14}{:>8}  {:<17}verdict",
                "", "ratio", "interval",
            );
            for (phase, rows) in self.groups() {
                let _ = writeln!(out, "{phase}");
                for row in rows {
                    let Some(ratio) = &row.ratios[other] else { continue };
                    let _ = writeln!(
                        out,
                        "  {:<23}{:>14}{:>14}{:>8}  {:<17}{}",
                        clipped(row.statistic, 23),
                        row.median(0).unwrap_or("–".into()),
                        row.median(other).unwrap_or("–".into()),
                        plain(ratio.median),
                        format!("{} – {}", plain(ratio.interval.0), plain(ratio.interval.1)),
                        ratio.verdict,
                    );
                }
            }
        }
        out
    }
}

/// The phases of a store that left debt, each with the first run that did.
fn debts(runs: &Runs) -> Vec<String> {
    let labels = unique(runs.reports.iter().flat_map(statistic::phases).map(|(label, _)| label));
    let left = |label: &String| {
        let debts = runs.reports.iter().filter_map(|run| run.debt(statistic::phase(run, label)?));
        let debt = { debts }.find(|debt| !debt.is_bounded())?;
        Some(format!("{}, {label:?} ({debt})", runs.name))
    };
    labels.iter().filter_map(left).collect()
}

/// One figure of a phase, or of whole runs, of all stores; `None` if no store has it.
fn row<'a, T: 'a>(
    stores: &'a [Runs],
    phase: Option<&String>,
    statistic: &Statistic<T>,
    part: impl Fn(&'a Report) -> Option<&'a T>,
) -> Option<Row> {
    let take = |report| part(report).and_then(statistic.take);
    let values = |runs: &'a Runs| runs.reports.iter().map(take).collect::<Vec<Option<f64>>>();
    let all: Vec<Vec<Option<f64>>> = stores.iter().map(values).collect();
    let of_none = all.iter().flatten().all(Option::is_none);
    // Leave out a figure that is zero everywhere, as scans or stalls that did not occur.
    if of_none || all.iter().flatten().flatten().all(|value| *value == 0.0) {
        return None;
    }
    let ratio = |index: usize| {
        let both = all[index].iter().zip(&all[0]);
        let pairs: Vec<(f64, f64)> = both.filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
        (index > 0).then(|| Ratio::of(&pairs, statistic.better)).flatten()
    };
    let known =
        |values: &Vec<Option<f64>>| median(&values.iter().flatten().copied().collect::<Vec<f64>>());
    Some(Row {
        phase: phase.cloned(),
        statistic: statistic.name,
        unit: statistic.unit,
        medians: all.iter().map(known).collect(),
        ratios: (0..stores.len()).map(ratio).collect(),
    })
}

/// A ratio with few digits.
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

/// The text, cut to at most `most` characters.
fn clipped(text: &str, most: usize) -> String {
    match text.chars().count() {
        count if count <= most => text.to_owned(),
        _ => text.chars().take(most - 1).chain(['…']).collect(),
    }
}
