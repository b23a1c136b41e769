//! Progress of a long command on stderr: a bar on a terminal, nothing elsewhere.
//!
//! The bar is redrawn at most ten times a second, and updated only every [`EVERY`] records, so its
//! cost is negligible. The summary line is always printed.

use crate::failure::say;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;
use vlsm_core::Bytes;
pub use vlsm_measure::report::table::grouped;

const EVERY: u64 = 1000;

/// The progress so far.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    records: u64,
    bytes: u64,
}

impl Progress {
    /// Starts to count towards `total` bytes, or without a total.
    pub fn new(total: Option<u64>) -> Self {
        let known = "{bar:24} {percent:>3}%  {bytes}/{total_bytes}  {msg}  ETA {eta}";
        let unknown = "{spinner} {bytes}  {msg}";
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), known),
            None => (ProgressBar::new_spinner(), unknown),
        };
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        bar.set_style(style.progress_chars("━╸ "));
        Self { bar, started: Instant::now(), records: 0, bytes: 0 }
    }

    /// Counts a record, and the bytes read or written so far.
    pub fn record(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes = bytes;
        if self.records.is_multiple_of(EVERY) {
            self.bar.set_position(bytes);
            let rate = grouped(self.rate());
            self.bar.set_message(format!("{} records  {rate} records/s", grouped(self.records)));
        }
    }

    /// Shows the bytes read so far, and in total.
    pub fn bytes(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Prints a line above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Removes the bar and prints a summary; `verb` is for example "imported".
    pub fn finish(&self, verb: &str, bytes: u64) {
        self.clear();
        say(format_args!(
            "{verb} {} records ({}) in {:.1} s: {} records/s",
            grouped(self.records),
            Bytes(bytes),
            self.seconds(),
            grouped(self.rate()),
        ));
    }

    /// The records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The time since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn rate(&self) -> u64 {
        (self.records as f64 / self.started.elapsed().as_secs_f64().max(1e-9)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
