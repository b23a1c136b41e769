//! The text exposition format of Prometheus, version 0.0.4.
//!
//! Each family has a line with its help, a line with its type, and a line for each sample. A
//! histogram has a line for each bucket (the count of durations up to the bound `le`), one for the
//! sum and one for the count. In the values of labels `\`, `"` and line ends are escaped.
//!
//! The page that a store publishes for another process ([`Figures`]) has the same families. It
//! begins with its time and its process. Its histograms have only the buckets that are not empty.
//! These are eight times as fine, and their number grows with time.

use super::families::{Family, Kind, Labels, Value, bounds, families};
use super::{Stats, stats};
use crate::engine::Engine;
use crate::shared::latency::LatencyStats;
use crate::shared::published::Figures;
use std::fmt::Write as _;
use std::time::Duration;

/// The version of the published page. A reader refuses pages of a later version.
const FORMAT: u32 = 1;

impl Stats {
    /// The statistics in the text format that Prometheus scrapes. Serve them with the content type
    /// `text/plain; version=0.0.4; charset=utf-8`.
    ///
    /// All names begin with `vlsm_`; times are in seconds and sizes in bytes. The label `keyspace`
    /// holds the name of a keyspace, `level` a level, and `cause` the cause of a wait.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// db.put("apple", "green")?;
    /// let page = db.stats().prometheus();
    /// assert!(page.contains("# TYPE vlsm_writes_total counter\nvlsm_writes_total 1\n"));
    /// # db.close()
    /// # }
    /// ```
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut page = String::new();
        write_families(&mut page, self, Buckets::PowersOfTwo);
        page
    }
}

/// The choice of a histogram's buckets that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Buckets {
    /// The same buckets for every histogram.
    PowersOfTwo,
    /// The buckets that are not empty, in full resolution.
    Filled,
}

impl Figures for Engine {
    fn page(&self) -> String {
        let mut page = String::new();
        let now = self.shared.env.wall_clock().as_secs_f64().to_string();
        let (name, help) = ("vlsm_page_timestamp_seconds", "Wall-clock time of this page.");
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {now}");
        let (name, help) = ("vlsm_page_info", "The process that wrote this page.");
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge");
        let labels = vec![
            ("format", FORMAT.to_string()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("process", std::process::id().to_string()),
        ];
        write_sample(&mut page, name, "", &labels, None, "1");
        write_families(&mut page, &stats(self), Buckets::Filled);
        page
    }
}

fn write_families(page: &mut String, stats: &Stats, buckets: Buckets) {
    for family in families(stats) {
        write_family(page, &family, buckets);
    }
}

fn write_family(page: &mut String, family: &Family, buckets: Buckets) {
    let Family { name, kind, help, samples } = family;
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        match value {
            Value::Count(count) => write_sample(page, name, "", labels, None, &count.to_string()),
            Value::Number(number) => {
                write_sample(page, name, "", labels, None, &number.to_string());
            }
            Value::Histogram(latency) => write_histogram(page, name, labels, latency, buckets),
        }
    }
}

fn write_histogram(
    page: &mut String,
    name: &str,
    labels: &Labels,
    latency: &LatencyStats,
    buckets: Buckets,
) {
    let seconds = |duration: Duration| duration.as_secs_f64().to_string();
    let bounds: Vec<Duration> = match buckets {
        Buckets::PowersOfTwo => bounds().collect(),
        Buckets::Filled => latency.buckets.iter().map(|bucket| bucket.up_to).collect(),
    };
    for bound in bounds {
        let count = latency.count_up_to(bound).to_string();
        write_sample(page, name, "_bucket", labels, Some(&seconds(bound)), &count);
    }
    let count = latency.count.to_string();
    write_sample(page, name, "_bucket", labels, Some("+Inf"), &count);
    write_sample(page, name, "_sum", labels, None, &seconds(latency.sum));
    write_sample(page, name, "_count", labels, None, &count);
}

fn write_sample(
    page: &mut String,
    name: &str,
    suffix: &str,
    labels: &Labels,
    le: Option<&str>,
    value: &str,
) {
    page.push_str(name);
    page.push_str(suffix);
    let labels = labels.iter().map(|(name, value)| (*name, value.as_str()));
    let mut separator = '{';
    for (name, value) in labels.chain(le.map(|le| ("le", le))) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(page, "{separator}{name}=\"{value}\"");
        separator = ',';
    }
    if separator == ',' {
        page.push('}');
    }
    let _ = writeln!(page, " {value}");
}
