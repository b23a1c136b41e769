//! `top`: a live view of a store that another process has open and writes.
//!
//! 1. [`source`] asks that process for its statistics and reads them from the store's folder.
//! 2. [`page`] parses them: text as Prometheus scrapes it.
//! 3. [`watch`] keeps the page from the start of an interval, and detects whether the store is
//!    still open.
//! 4. [`reading`] is the difference of two pages: rates, latencies and waits of the interval, and
//!    the state at its end.
//! 5. [`view`] formats it as lines, [`draw`] places them on a screen of any size, and [`screen`]
//!    handles the terminal and its keys.
//!
//! With `--once`, with `--json`, and where stdout is no terminal, one reading is printed.

mod draw;
mod page;
mod reading;
mod screen;
mod source;
#[cfg(test)]
mod tests;
mod view;
mod watch;

use crate::failure::{Failure, Result};
use draw::View;
use reading::Reading;
use source::Source;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use watch::{State, Watch};

/// The width of a reading that is printed.
const PRINTED_WIDTH: u16 = 100;
/// The time between two reads of the page.
const LOOK: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  vlsm top my-store
  vlsm top my-store --interval 5
  vlsm top my-store --once                      one reading as text
  vlsm top my-store --json | jq .rates.puts

Keys: q quits, p pauses, + and - change the interval, k shows the keyspaces.

The process that has the store open writes its statistics to the file STATS.prom in the folder of
the store while this program asks for them; nothing else is read or locked. Both must be able to
write to the folder. Gets and writes are sampled; all waits are measured.";

/// Options of `top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder of the store
    store: PathBuf,
    /// Seconds between two readings, 1 to 60
    #[arg(long, value_name = "SECONDS", default_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Print one reading and exit
    #[arg(long)]
    once: bool,
    /// Print one reading as JSON
    #[arg(long)]
    json: bool,
}

/// Shows the store until the user quits, or prints one reading.
pub fn run(args: &Args) -> Result {
    let watch = Watch::new(Source::open(&args.store)?, args.interval);
    if !args.once && !args.json && io::stdout().is_terminal() {
        return screen::run(watch);
    }
    let view = once(watch)?;
    let mut out = io::stdout().lock();
    match (&view.reading, args.json) {
        (Some(reading), true) => writeln!(out, "{:#}", reading.json())?,
        _ => out.write_all(draw::printed(&view, PRINTED_WIDTH).as_bytes())?,
    }
    Ok(out.flush()?)
}

/// Waits for one reading.
#[allow(clippy::disallowed_methods, reason = "nothing tells when the next page is there")]
fn once(mut watch: Watch) -> Result<View> {
    loop {
        let reading: Option<Reading> = watch.step(Instant::now())?;
        let mut view = View::of(&watch);
        if let Some(reading) = reading {
            view.add(reading);
            return Ok(view);
        }
        if let State::Silent { .. } | State::Closed { .. } | State::Unanswered { .. } = view.state {
            return Err(Failure::new(view.state_text()));
        }
        std::thread::sleep(LOOK);
    }
}
