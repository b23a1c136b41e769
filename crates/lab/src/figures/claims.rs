//! The page of all verdicts, `docs/claims.md`, from what `docs/figures` keeps.
//!
//! 1. A kept figure is *current* if it was measured at the commit that `reasons.toml` names, for it
//!    or for all figures, and if its claims are those of the figure as it is built today. The page
//!    has a table for each of these, paper by paper.
//! 2. `reasons.toml` explains the claims that do not hold, or hold in part: why, and the experiment
//!    that could have proved the verdict wrong.
//! 3. The page is refused if such a claim has no reason, if a claim that does not hold has no
//!    experiment, or if a reason belongs to no such claim. So a new measurement cannot leave an old
//!    explanation behind.
//! 4. Kept figures that are not current, and figures without a measurement, are named at the end,
//!    without verdicts.

use super::result::{ClaimResult, FigureResult, Verdict};
use super::text::{between, number};
use super::{Entry, Setting};
use crate::files;
use crate::scale::Scale;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Where the kept figures are, from the project's folder.
pub const FIGURES: &str = "docs/figures";
/// The page, from the project's folder.
pub const PAGE: &str = "docs/claims.md";
/// The explanations, in the folder of the kept figures.
const REASONS: &str = "reasons.toml";

const HEAD: &str = "\
# The papers' claims here

Each claim is judged by [figures/](figures): three or more rounds in turn, as
[laboratory.md](laboratory.md) describes, each figure on one machine with two cores, which it names.
Figures of different machines do not compare: RocksDB's shape had a P99 of 0.35 ms on one and, at
another commit, of 12 ms on another (`vlsm-12`). *Found* is the median of the rounds, with the least
and the largest. `vlsm-lab claims` writes this page from the kept figures and from
[figures/reasons.toml](figures/reasons.toml), which has the reasons and what was tried against
them. A test fails if it is not up to date.
";

/// The explanation of a verdict.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The figure's name.
    pub figure: String,
    /// The claim's text.
    pub claim: String,
    /// Why the claim does not hold here, or only in part.
    pub why: String,
    /// The experiment that could have proved the verdict wrong, and what it found.
    #[serde(default)]
    pub tried: String,
}

/// The commits that were measured, and the explanations of the verdicts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasons {
    /// The first digits of the commit.
    pub commit: String,
    /// The commits of figures that were measured at another one, by the figure's name.
    #[serde(default)]
    pub commits: BTreeMap<String, String>,
    /// The explanations.
    #[serde(default, rename = "reason")]
    pub reasons: Vec<Reason>,
}

impl Reasons {
    fn commit_of(&self, figure: &str) -> &str {
        self.commits.get(figure).unwrap_or(&self.commit)
    }
}

/// The page, from the folder of the kept figures.
///
/// # Errors
/// A file cannot be understood, or the reasons do not fit the verdicts; the text says which.
pub fn page(folder: &Path) -> Result<String, String> {
    let file = folder.join(REASONS);
    let text = files::read(&file).ok_or_else(|| format!("cannot read {}", file.display()))?;
    let reasons: Reasons = toml::from_str(&String::from_utf8_lossy(&text))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let kept = |entry: &Entry| {
        let file = folder.join(entry.id).with_extension("json");
        let text = files::read(&file)?;
        let broken = |error| format!("{}: {error}", file.display());
        Some(serde_json::from_slice::<FigureResult>(&text).map_err(broken))
    };
    let results: Result<Vec<_>, _> = figures().filter_map(kept).collect();
    render(&results?, &reasons)
}

/// The page of these figures.
///
/// # Errors
/// The reasons do not fit the verdicts; the text names each claim.
pub fn render(results: &[FigureResult], given: &Reasons) -> Result<String, String> {
    let (current, older): (Vec<_>, Vec<_>) =
        results.iter().partition(|result| is_current(result, given.commit_of(&result.id)));
    let reasons = &given.reasons;
    let mut wrong = faults(&current, reasons);
    let unknown = |figure: &&String| !current.iter().any(|result| result.id == **figure);
    wrong.extend(given.commits.keys().filter(unknown).map(|figure| {
        format!("{REASONS}: no current figure {figure:?} at the commit named for it")
    }));
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let mut out = HEAD.to_owned();
    for result in &current {
        figure(&mut out, result, reasons);
    }
    let name = |result: &&FigureResult| format!("`{}` ({})", result.id, short(&result.commit));
    let older: Vec<_> = older.iter().map(name).collect();
    if !older.is_empty() {
        let _ = write!(
            out,
            "\n## Older\n\nThese were measured at another commit, in brackets, most of them with \
             another set-up than the figure has now. They say nothing about the commits above: \
             {}.\n",
            older.join(", ")
        );
    }
    let known = |entry: &&Entry| results.iter().any(|result| result.id == entry.id);
    let missing = figures().filter(|entry| !known(entry));
    let missing: Vec<_> = missing.map(|entry| format!("`{}`", entry.id)).collect();
    if !missing.is_empty() {
        let _ = write!(out, "\n## Not measured\n\n{}.\n", missing.join(", "));
    }
    Ok(out)
}

/// The figures that judge a paper's claims.
fn figures() -> impl Iterator<Item = &'static Entry> {
    super::all().filter(|entry| !entry.overview)
}

/// Whether the figure is of this commit and has the claims that it would have if it were measured
/// now.
fn is_current(result: &FigureResult, commit: &str) -> bool {
    let setting = Setting { scale: Scale::CAMPAIGN, dir: None, peers: true, seconds: 25.0 };
    let same = super::named(&result.id).is_ok_and(|entry| {
        let claims = (entry.build)(&setting).claims;
        let now = claims.iter().map(|claim| &claim.text);
        now.eq(result.claims.iter().map(|claim| &claim.text))
    });
    same && result.commit.starts_with(commit)
}

/// Whether a verdict has to be explained.
fn needs_reason(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::DoesNotHold | Verdict::HoldsInPart)
}

fn faults(current: &[&FigureResult], reasons: &[Reason]) -> Vec<String> {
    let mut all = Vec::new();
    for result in current {
        for claim in result.claims.iter().filter(|claim| needs_reason(claim.verdict)) {
            let (id, text, words) = (&result.id, &claim.text, claim.verdict.words());
            match reason_of(result, claim, reasons) {
                None => all.push(format!("{id}: {text:?} {words}, and {REASONS} does not say why")),
                Some(reason)
                    if claim.verdict == Verdict::DoesNotHold && reason.tried.is_empty() =>
                {
                    all.push(format!("{id}: {text:?} {words}, and nothing was tried against that"));
                }
                Some(_) => {}
            }
        }
    }
    for reason in reasons {
        let (id, text) = (&reason.figure, &reason.claim);
        let found = current.iter().find(|result| result.id == *id);
        let claim = found.and_then(|result| result.claims.iter().find(|claim| claim.text == *text));
        match claim {
            None => all.push(format!("{REASONS}: {id} has no claim {text:?} that was measured")),
            Some(claim) if !needs_reason(claim.verdict) => all.push(format!(
                "{REASONS}: {id}: {text:?} {}, which needs no reason",
                claim.verdict.words()
            )),
            Some(_) => {}
        }
    }
    all
}

fn reason_of<'a>(
    result: &FigureResult,
    claim: &ClaimResult,
    reasons: &'a [Reason],
) -> Option<&'a Reason> {
    reasons.iter().find(|reason| reason.figure == result.id && reason.claim == claim.text)
}

/// Writes the table of one figure.
fn figure(out: &mut String, result: &FigureResult, reasons: &[Reason]) {
    let FigureResult { id, title, command, scale, rounds, .. } = result;
    let commit = short(&result.commit);
    let (cores, cpu) = (result.machine.cores, &result.machine.cpu);
    let _ = write!(
        out,
        "\n## {id}: {title}\n\n`{command}`, scale {scale}, {rounds} rounds, commit {commit}, on \
         {cores} × {cpu}.\n\n"
    );
    for note in result.notes() {
        let _ = writeln!(out, "- {note}");
    }
    if let Some(why) = result.why_not() {
        let _ = writeln!(out, "- {why}");
    }
    out.push_str("\n| claim | paper | found | verdict | why |\n|---|---|---|---|---|\n");
    for claim in &result.claims {
        let found = claim.summary.map_or("–".into(), |found| between(found, claim.unit));
        let verdict = match claim.verdict {
            Verdict::Holds => "**holds**".to_owned(),
            other => other.words().to_owned(),
        };
        let why = match reason_of(result, claim, reasons) {
            Some(Reason { why, tried, .. }) if tried.is_empty() => why.clone(),
            Some(Reason { why, tried, .. }) => format!("{why} Tried: {tried}"),
            None => claim.missing.clone().unwrap_or_default(),
        };
        let (text, paper) = (&claim.text, number(claim.paper, claim.unit));
        let _ = writeln!(out, "| {text} | {paper} | {found} | {verdict} | {} |", why.trim());
    }
}

/// The first digits of a commit.
fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}
