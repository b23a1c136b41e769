//! A page of metrics in the text format of Prometheus: the subset that this program needs.
//!
//! A line is a name, labels in braces, and a value; lines that begin with `#` are for people. In a
//! label's value `\\`, `\"` and `\n` stand for a backslash, a quote and a line end.

use std::collections::BTreeMap;

/// The metrics of a page by name.
#[derive(Debug, Clone, Default)]
pub struct Page(BTreeMap<String, Vec<Sample>>);

/// A value with its labels.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    labels: Vec<(String, String)>,
    value: f64,
}

impl Sample {
    fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map(|(_, value)| value.as_str())
    }

    fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.label(name) == Some(value))
    }
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    /// A sentence with the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut page = Self::default();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = parse_line(line);
            let (name, sample) =
                parsed.ok_or_else(|| format!("line {} is not a metric", number + 1))?;
            page.0.entry(name.to_owned()).or_default().push(sample);
        }
        Ok(page)
    }

    fn samples<'a>(
        &'a self,
        name: &str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let all = self.0.get(name).into_iter().flatten();
        all.filter(move |sample| sample.has(labels))
    }

    /// The sum of the samples that have these labels, zero without any.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // The sum of no numbers would be -0.
        self.samples(name, labels).fold(0.0, |sum, sample| sum + sample.value)
    }

    /// The value without labels, if there is one.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.samples(name, &[]).map(|sample| sample.value).next()
    }

    /// The values of a label, in their order on the page.
    pub fn values_of(&self, name: &str, label: &str) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for value in self.samples(name, &[]).filter_map(|sample| sample.label(label)) {
            if !values.iter().any(|known| known == value) {
                values.push(value.to_owned());
            }
        }
        values
    }

    /// A histogram.
    pub fn histogram(&self, name: &str, labels: &[(&str, &str)]) -> Histogram {
        let of = |suffix: &str| self.sum(&format!("{name}{suffix}"), labels);
        let buckets = format!("{name}_bucket");
        let buckets = self.samples(&buckets, labels);
        let bucket = |sample: &Sample| Some((sample.label("le")?.parse().ok()?, sample.value));
        let mut buckets: Vec<(f64, f64)> = buckets.filter_map(bucket).collect();
        buckets.retain(|(bound, _)| bound.is_finite());
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        Histogram { buckets, count: of("_count"), sum: of("_sum") }
    }
}

fn parse_line(line: &str) -> Option<(&str, Sample)> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then_some((name, Sample { labels, value }))
}

/// A label's value up to its closing quote, and what comes after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// Durations by bucket: the bound in seconds, and the number of durations up to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    buckets: Vec<(f64, f64)>,
    /// The number of durations.
    pub count: f64,
    /// Their sum in seconds.
    pub sum: f64,
}

impl Histogram {
    /// The durations that came after an earlier page. Buckets may have been added since.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bound: f64| {
            let below = earlier.buckets.iter().take_while(|(other, _)| *other <= bound);
            below.last().map_or(0.0, |(_, count)| *count)
        };
        let bucket = |&(bound, count): &(f64, f64)| (bound, (count - before(bound)).max(0.0));
        Self {
            buckets: self.buckets.iter().map(bucket).collect(),
            count: (self.count - earlier.count).max(0.0),
            sum: (self.sum - earlier.sum).max(0.0),
        }
    }

    /// The bound that this share of the durations does not exceed; none without durations.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.count * share).ceil().max(1.0);
        let found = self.buckets.iter().find(|(_, count)| *count >= rank);
        found.map(|(bound, _)| *bound).filter(|_| self.count > 0.0)
    }
}
