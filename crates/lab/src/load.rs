//! The load of a phase in words, as `--load` and the papers' tables use them: `max` (a closed
//! loop), `N` (requests per second), `pN` (the same with Poisson arrivals), `N%` (of the throughput
//! at `max`), `own` (the workload's own arrivals), `own/N` (a part of their peak), `sustainable`
//! (the highest rate whose queue does not grow).

use crate::scale::Scale;
use vlsm_cli::bench::work::{count, percent};
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::Offered;

/// The load that a word names. `own` are the arrivals of the workload.
///
/// # Errors
/// The word names no load; the text lists the words that do. Or the workload has no arrivals of its
/// own.
pub fn offered(word: &str, own: Option<&Arrivals>, scale: Scale) -> Result<Offered, String> {
    let none = "the workload has no arrivals of its own; give a rate";
    let own = || own.ok_or_else(|| format!("load {word}: {none}"));
    let rate = |text: &str| count(text).map(|rate| rate as f64);
    Ok(Offered::As(match word {
        "max" => Arrivals::Closed,
        "own" => own()?.clone().scale(scale.seconds(1.0)),
        "sustainable" => return Ok(Offered::Sustainable(0.3, 1.0)),
        _ if word.ends_with('%') => return Ok(Offered::OfMaximum(percent(word)? / 100.0)),
        _ => match (word.strip_prefix('p'), word.strip_prefix("own/")) {
            (Some(poisson), _) => Arrivals::Poisson(rate(poisson)?),
            (_, Some(part)) => Arrivals::Open(own()?.peak().ok_or(none)? / rate(part)?),
            _ => Arrivals::Open(rate(word).map_err(|_| {
                format!("load {word:?}: use max, a rate, pRATE, N%, own or sustainable")
            })?),
        },
    }))
}
