//! The progress of a campaign on stderr: a bar for the current run, with the time left for all of
//! them. If stderr is no terminal, it prints a line for each run that ended.

use super::{describe, duration};
use crate::campaign::Going;
use indicatif::{ProgressBar, ProgressStyle};
use vlsm_core::Micros;
use vlsm_measure::child::Line;
use vlsm_measure::report::table::grouped;

/// Steps of the bar.
const STEPS: u64 = 1000;

/// The bar.
pub struct Shown {
    bar: ProgressBar,
    head: String,
    step: String,
}

impl Shown {
    /// A bar with nothing to show yet.
    pub fn new() -> Self {
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("{prefix}\n{bar:20} {percent:>3}%  {msg}")
            .expect("the template is well formed");
        bar.set_style(style.progress_chars("━╸ "));
        Self { bar, head: String::new(), step: String::new() }
    }

    /// Shows a step of the progress.
    pub fn show(&mut self, going: &Going<'_>) {
        match going {
            Going::Run(task, number, count, left) => {
                let run = describe(&task.run);
                let left = duration(*left);
                let number = number + 1;
                self.head = format!("run {number} of {count}, round {}: {run}", task.round);
                self.bar.set_prefix(format!("{} · about {left} left", self.head));
                self.bar.set_position(0);
            }
            Going::Line(Line::Step(name, number, count)) => {
                self.step = format!("step {} of {count}: {name}", number + 1);
                self.bar.set_position(0);
                self.bar.set_message(self.step.clone());
            }
            Going::Line(Line::Going(done, rate, p99)) => {
                self.bar.set_position((done * STEPS as f64) as u64);
                let (rate, p99) = (grouped(*rate as u64), Micros(*p99 as u64));
                self.bar.set_message(format!("{}  {rate}/s  P99 {p99}", self.step));
            }
            Going::Ended(failure) => {
                if let Some(why) = failure {
                    self.bar.suspend(|| eprintln!("{}: {why}", self.head));
                } else if self.bar.is_hidden() {
                    eprintln!("{}: done", self.head);
                }
            }
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
