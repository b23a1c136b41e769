//! Live progress of a phase on stderr: a bar with throughput, P99 so far and stalls; nothing if
//! stderr is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use vlsm_core::Micros;
use vlsm_measure::driver::Progress;
use vlsm_measure::metrics::{Group, Point, Stalls};
use vlsm_measure::report::table::grouped;

/// Steps of the bar.
const STEPS: u64 = 1000;

/// The bar of one phase.
pub struct Live {
    bar: ProgressBar,
}

impl Live {
    /// A bar for a step; it moves when there is progress to show.
    pub fn new(name: &str) -> Self {
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("{prefix} {bar:20} {percent:>3}%  {msg}")
            .expect("the template is well formed");
        bar.set_style(style.progress_chars("━╸ "));
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Shows the progress of the phase.
    pub fn show(&self, progress: &Progress<'_>) {
        self.bar.set_position((progress.done * STEPS as f64) as u64);
        let now = progress.series.0.last().map_or(0.0, Point::throughput);
        let mean = progress.ops as f64 / progress.seconds.max(1e-9);
        let mut message = format!("{}/s (mean {}/s)", grouped(now as u64), grouped(mean as u64));
        for group in Group::ALL {
            if let Some(histogram) = progress.latencies.group(group) {
                let p99 = Micros(histogram.value_at_quantile(0.99) / 1000);
                message += &format!("  {} P99 {p99}", group.name());
            }
        }
        message += match progress.series.stalls() {
            Stalls { count: 0, .. } => "  no stall".to_owned(),
            Stalls { seconds, .. } => format!("  stalled {seconds} s"),
        }
        .as_str();
        self.bar.set_message(message);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
