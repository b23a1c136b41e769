//! Reads the text format of Prometheus by its grammar ("Exposition formats", text format 0.0.4) and
//! checks what the format demands beyond it: each family has help and type, in front of its samples
//! and once; no sample is there twice; buckets of a histogram add up.

use std::collections::{BTreeMap, BTreeSet};

/// The families of a page: their types by name.
pub type Families = BTreeMap<String, String>;

/// Names and values of labels.
pub type Labels = Vec<(String, String)>;

/// A sample: its name, its labels and its value.
pub struct Sample {
    pub name: String,
    pub labels: Labels,
    pub value: f64,
}

/// A page that was read.
#[derive(Default)]
pub struct Page {
    pub families: Families,
    pub samples: Vec<Sample>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// Where the format is broken.
    pub fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut page = Self::default();
        let mut helps = BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(is_name(name) && !help.trim().is_empty(), "{line}");
                assert!(helps.insert(name.to_owned()), "a second help: {line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(helps.contains(name), "the help comes first: {line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let known = page.families.insert(name.into(), kind.into());
                assert!(known.is_none(), "a second type: {line}");
                page.samples.push(Sample { name: name.into(), labels: vec![], value: f64::NAN });
            } else {
                let sample = sample(line);
                assert!(page.family_of(&sample.name).is_some(), "no family before it: {line}");
                page.samples.push(sample);
            }
        }
        page.check_order();
        page.samples.retain(|sample| !sample.value.is_nan());
        page.check_series();
        page.check_histograms();
        page
    }

    /// The family of a sample's name, and its type.
    pub fn family_of(&self, name: &str) -> Option<(&str, &str)> {
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| name.strip_suffix(part));
        let histogram = base.and_then(|base| self.families.get_key_value(base));
        let histogram = histogram.filter(|(_, kind)| *kind == "histogram");
        let found = histogram.or_else(|| self.families.get_key_value(name));
        found.map(|(name, kind)| (name.as_str(), kind.as_str()))
    }

    /// The value of the only sample with this name and these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |sample: &&Sample| {
            sample.name == name
                && sample.labels.len() == labels.len()
                && labels.iter().all(|(name, value)| {
                    sample.labels.iter().any(|(key, known)| key == name && known == value)
                })
        };
        self.samples.iter().find(has).map(|sample| sample.value)
    }

    /// The samples of a family are one block behind its type, which is kept as a mark.
    fn check_order(&self) {
        let mut current = String::new();
        for sample in &self.samples {
            let (family, _) = self.family_of(&sample.name).unwrap();
            match sample.value.is_nan() {
                true => current = family.to_owned(),
                false => assert_eq!(family, current, "{} is not with its family", sample.name),
            }
        }
    }

    fn check_series(&self) {
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            labels.sort();
            let names: BTreeSet<&String> = labels.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), labels.len(), "a label twice: {labels:?}");
            let series = (sample.name.clone(), labels);
            assert!(seen.insert(series.clone()), "a second sample of {series:?}");
            let (family, kind) = self.family_of(&sample.name).unwrap();
            let total = family.ends_with("_total");
            assert_eq!(total, kind == "counter", "only counters end with _total: {family}");
            assert!(kind != "counter" || sample.value >= 0.0, "{family} fell below zero");
        }
    }

    /// Buckets ascend in bounds and counts; the last one is all of them.
    fn check_histograms(&self) {
        let mut last: Option<(Labels, f64, f64)> = None;
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            if sample.name.ends_with("_bucket") {
                let at = labels.iter().position(|(name, _)| name == "le").unwrap();
                let bound = number(&labels.remove(at).1);
                if let Some((known, below, count)) = &last
                    && *known == labels
                    && below.is_finite()
                {
                    assert!(*below < bound && *count <= sample.value, "{}", sample.name);
                }
                last = Some((labels, bound, sample.value));
            } else if let Some(family) = sample.name.strip_suffix("_count")
                && self.families.get(family).is_some_and(|kind| kind == "histogram")
            {
                let (known, bound, count) = last.take().expect("buckets come first");
                assert_eq!((known, bound, count), (labels, f64::INFINITY, sample.value));
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        _ => {
            let plain = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
            assert!(text.chars().all(plain), "{text:?} is no number");
            text.parse().unwrap()
        }
    }
}

/// `name value`, or `name{label="value",…} value`.
fn sample(line: &str) -> Sample {
    let (name, labels, value) = match line.split_once('{') {
        None => {
            let (name, value) = line.split_once(' ').unwrap();
            (name, vec![], value)
        }
        Some((name, rest)) => {
            let (labels, rest) = labels(rest);
            (name, labels, rest.strip_prefix(' ').expect("a blank"))
        }
    };
    assert!(is_name(name), "{line}");
    Sample { name: name.into(), labels, value: number(value) }
}

/// The labels up to `}`, and what comes behind it.
fn labels(mut rest: &str) -> (Labels, &str) {
    let mut labels = Vec::new();
    loop {
        let (name, behind) = rest.split_once("=\"").unwrap();
        assert!(is_name(name), "{rest}");
        let mut value = String::new();
        let mut chars = behind.char_indices();
        let end = loop {
            match chars.next().expect("the value ends") {
                (at, '"') => break at + 1,
                (_, '\\') => match chars.next().unwrap().1 {
                    'n' => value.push('\n'),
                    plain @ ('\\' | '"') => value.push(plain),
                    other => panic!("\\{other} is no escape"),
                },
                (_, plain) => value.push(plain),
            }
        };
        labels.push((name.to_owned(), value));
        match &behind[end..end + 1] {
            "," => rest = &behind[end + 1..],
            "}" => return (labels, &behind[end + 1..]),
            other => panic!("{other:?} behind a label in {rest}"),
        }
    }
}
