//! The answer to an unknown name: the nearest known name, and all known names. Names are those of
//! profiles, mechanisms, options, workloads and figures.

use vlsm_core::Error;

/// The error for an unknown name.
pub fn unknown<'a>(
    option: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Error {
    Error::InvalidOption { option, why: suggestion(name, known) }
}

/// The text of the error for an unknown name.
pub(crate) fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let list = known.join(", ");
    let hint = match nearest(name, known.into_iter()) {
        Some(entry) => format!("; did you mean {entry:?}?"),
        None => ".".into(),
    };
    format!("{name:?} is not known{hint} There are: {list}")
}

/// The known name of which this one may be a typo.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, entry) = known.map(|entry| (distance(name, entry), entry)).min()?;
    resembles(name, entry, distance).then_some(entry)
}

/// Whether `name` may be a typo of `entry`: at least half of the letters and the first one are
/// right, or only one is wrong. Otherwise a guess would mislead.
fn resembles(name: &str, entry: &str, distance: usize) -> bool {
    let first = |word: &str| word.chars().next().map(|letter| letter.to_ascii_lowercase());
    let close = distance <= 3 && 2 * distance <= name.len().min(entry.len());
    close && (distance == 1 || first(name) == first(entry))
}

/// The number of letters to change, add, leave out or swap with the next one that makes one word
/// the other. Upper and lower case count as the same letter.
fn distance(a: &str, b: &str) -> usize {
    // Names are short; longer ones resemble none.
    if a.len() > 64 {
        return a.len();
    }
    strsim::osa_distance(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())
}
