//! The statistics for the facade of the crate `metrics`, which hands them to the recorder that the
//! application has installed.
//!
//! The metrics are those of [`families`]. A counter of whole numbers is set to its value (a
//! recorder keeps the larger one); all other values become gauges. The facade takes single
//! durations, not complete histograms. So a histogram becomes gauges with a label `quantile`, a
//! gauge `…_sum` and a counter `…_count`.

use super::Stats;
use super::families::{Family, Kind, Labels, Value, families};
use crate::shared::latency::LatencyStats;
use metrics::{Label, counter, describe_counter, describe_gauge, gauge};

/// The quantiles of a histogram.
const QUANTILES: [(f64, &str); 5] =
    [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (0.999, "0.999"), (1.0, "1")];

impl Stats {
    /// Publishes the statistics through the facade of the crate `metrics`, with these labels added
    /// to each metric. An application with several stores can add the name of the store, for
    /// example. Call it at intervals, for example every ten seconds. Needs the feature `metrics`.
    ///
    /// The names are those of [`Stats::prometheus`]. Latencies are gauges with a label `quantile`,
    /// and `…_sum` and `…_count`, since the store was opened.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// db.stats().publish(&[("store", "orders")]);
    /// # db.close()
    /// # }
    /// ```
    pub fn publish(&self, labels: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| Label::new(name.to_string(), value.to_string());
        let common: Vec<Label> = labels.iter().map(owned).collect();
        for family in families(self) {
            publish_family(&family, &common);
        }
    }
}

fn labels_of(labels: &Labels, common: &[Label]) -> Vec<Label> {
    let own = labels.iter().map(|(name, value)| Label::new(*name, value.clone()));
    common.iter().cloned().chain(own).collect()
}

fn publish_family(family: &Family, common: &[Label]) {
    let Family { name, kind, help, samples } = family;
    let mut described = false;
    for (labels, value) in samples {
        let labels = labels_of(labels, common);
        let is_counter = matches!((kind, value), (Kind::Counter, Value::Count(_)));
        if !std::mem::replace(&mut described, true) {
            match is_counter {
                true => describe_counter!(*name, *help),
                false => describe_gauge!(*name, *help),
            }
        }
        match value {
            Value::Count(count) if is_counter => counter!(*name, labels).absolute(*count),
            Value::Count(count) => gauge!(*name, labels).set(*count as f64),
            Value::Number(number) => gauge!(*name, labels).set(*number),
            Value::Histogram(latency) => publish_histogram(name, &labels, latency),
        }
    }
}

fn publish_histogram(name: &'static str, labels: &[Label], latency: &LatencyStats) {
    for (share, quantile) in QUANTILES {
        let mut labels = labels.to_vec();
        labels.push(Label::new("quantile", quantile));
        gauge!(name, labels).set(latency.quantile(share).as_secs_f64());
    }
    gauge!(format!("{name}_sum"), labels.to_vec()).set(latency.sum.as_secs_f64());
    counter!(format!("{name}_count"), labels.to_vec()).absolute(latency.count);
}
