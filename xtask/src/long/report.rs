//! The report of long runs, in Markdown: sums over all classes, time and seeds by class, how often
//! each fault fired, what each class counted, and the findings.

use super::state::{ClassState, State};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A row of sums over all classes: its title, and a test for the names of the counts that it adds
/// up.
type Sum = (&'static str, fn(&str) -> bool);

const SUMS: &[Sum] = &[
    ("operations", |name| name == "operations"),
    ("crashes at a file operation", |name| name.starts_with("crashes")),
    ("simulated power cuts", |name| name == "power cuts"),
    ("real power cuts", |name| name.starts_with("cuts: ")),
    ("deaths of the process", |name| name == "kills"),
    ("file operations made to fail", |name| name.starts_with("fault: ")),
];

/// The report; classes in this order.
pub fn text<'a>(state: &State, order: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    let classes: Vec<(&str, ClassState)> = order.map(|name| (name, state.class(name))).collect();
    let seconds: f64 = classes.iter().map(|(_, class)| class.seconds).sum();
    let mut line = |text: std::fmt::Arguments| writeln!(out, "{text}").expect("a string grows");
    line(format_args!("# Long run\n\nCommit {}.", state.commit));
    line(format_args!(
        "{} of tests in {} runs that took {}, {} findings.\n",
        time(seconds),
        state.runs,
        time(state.took),
        state.findings.len()
    ));
    line(format_args!("| what | how often |\n|---|---:|"));
    for (title, belongs) in SUMS {
        let of = classes.iter().flat_map(|(_, class)| &class.counts);
        let sum: u64 = of.filter(|(name, _)| belongs(name)).map(|(_, count)| count).sum();
        line(format_args!("| {title} | {} |", grouped(sum)));
    }
    line(format_args!("\n| class | time | rounds | seeds | findings |\n|---|---:|---:|---:|---:|"));
    for (name, class) in &classes {
        let found = state.findings.iter().filter(|finding| finding.class == *name).count();
        let (took, rounds, seeds) = (time(class.seconds), class.rounds, grouped(class.seeds));
        line(format_args!("| {name} | {took} | {rounds} | {seeds} | {found} |"));
    }
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in classes.iter().flat_map(|(_, class)| &class.counts) {
        if let Some(fault) = name.strip_prefix("fault: ") {
            *faults.entry(fault).or_default() += count;
        }
    }
    line(format_args!("\n| fault | fired |\n|---|---:|"));
    faults.iter().for_each(|(fault, n)| line(format_args!("| {fault} | {} |", grouped(*n))));
    line(format_args!("\n## Counts by class\n"));
    for (name, class) in &classes {
        let counts = class.counts.iter().filter(|(count, _)| !count.starts_with("fault: "));
        let counts: Vec<_> = counts.map(|(count, n)| format!("{count} {}", grouped(*n))).collect();
        match counts.is_empty() {
            true => line(format_args!("- {name}: nothing counted")),
            false => line(format_args!("- {name}: {}", counts.join(", "))),
        }
        class.left_out.iter().for_each(|said| line(format_args!("  - {said}")));
    }
    line(format_args!("\n## Findings\n"));
    for finding in &state.findings {
        let (class, seeds, file) = (&finding.class, &finding.seeds, &finding.file);
        line(format_args!("- {class}, seeds {seeds}: {} (`target/long/{file}`)", finding.what));
    }
    if state.findings.is_empty() {
        line(format_args!("None."));
    }
    out
}

fn time(seconds: f64) -> String {
    let minutes = seconds as u64 / 60;
    format!("{} h {:02} min {:02} s", minutes / 60, minutes % 60, seconds as u64 % 60)
}

/// A number with a comma before every three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
