//! Names of mechanisms. Each axis lists its own in one `REGISTRY`; the error for an unknown name
//! suggests the nearest known one.

use crate::options::PolicyOptions;
use vlsm_core::{Error, Result};

/// One mechanism of an axis.
pub struct Entry<T: ?Sized> {
    /// Its name in options and reports.
    pub name: &'static str,
    /// A short description.
    pub what: &'static str,
    /// Makes one.
    pub make: fn(&PolicyOptions) -> Box<T>,
}

/// Makes the mechanism of this name.
///
/// # Errors
/// [`Error::InvalidOption`] that names the nearest known one.
pub fn make<T: ?Sized>(
    option: &'static str,
    entries: &[Entry<T>],
    name: &str,
    options: &PolicyOptions,
) -> Result<Box<T>> {
    match entries.iter().find(|entry| entry.name == name) {
        Some(entry) => Ok((entry.make)(options)),
        None => Err(unknown(option, name, entries.iter().map(|entry| entry.name))),
    }
}

/// The error for a name that is not known.
pub fn unknown<'a>(
    option: &'static str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Error {
    let list = known.clone().collect::<Vec<_>>().join(", ");
    let nearest = known.map(|entry| (distance(name, entry), entry)).min();
    let hint = match nearest {
        Some((distance, entry)) if resembles(name, entry, distance) => {
            format!("; did you mean {entry:?}?")
        }
        _ => ".".into(),
    };
    Error::InvalidOption { option, why: format!("{name:?} is not known{hint} There are: {list}") }
}

/// Whether `name` may be a typo of `entry`: at least half of the letters and the first one are
/// right, or only one is wrong. Otherwise a guess would mislead.
fn resembles(name: &str, entry: &str, distance: usize) -> bool {
    let first = |word: &str| word.chars().next().map(|letter| letter.to_ascii_lowercase());
    let close = distance <= 3 && 2 * distance <= name.len().min(entry.len());
    close && (distance == 1 || first(name) == first(entry))
}

/// The number of letters to change, add or leave out that makes one word the other. Capitals are as
/// small letters.
fn distance(a: &str, b: &str) -> usize {
    // Names are short; longer ones resemble none.
    if a.len() > 64 {
        return a.len();
    }
    strsim::levenshtein(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())
}
