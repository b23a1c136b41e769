//! Named workloads with the data and the arrivals of their sources, as tables: each family is a
//! file in `presets/`, whose top names the source.
//!
//! A family has a template, which is a [`Preset`] in TOML with `$1`, `$2`, … in it, and rows of
//! values that replace these. To add a workload, add a row.

use super::Workload;
use super::data::Shape;
use crate::arrivals::Arrivals;
use serde::Deserialize;
use std::sync::LazyLock;
use vlsm_core::Result;
use vlsm_policy::names::unknown;

/// A named workload, with the data and the arrivals of its source.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name on the command line.
    pub name: String,
    /// A description in one line.
    pub what: String,
    /// The workload.
    pub workload: Workload,
    /// The records of its source.
    #[serde(default)]
    pub shape: Shape,
    /// The arrivals of its source, if it has some.
    pub arrivals: Option<Arrivals>,
}

#[derive(Deserialize)]
struct Family {
    template: String,
    rows: Vec<Vec<String>>,
}

const CRUISE: &str = include_str!("presets/cruise.toml");

static ALL: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let families = [
        include_str!("presets/ycsb.toml"),
        include_str!("presets/db_bench.toml"),
        include_str!("presets/mixgraph.toml"),
        include_str!("presets/silk.toml"),
        include_str!("presets/silk_stress.toml"),
        include_str!("presets/silk_peak.toml"),
        include_str!("presets/dlc.toml"),
        CRUISE,
    ];
    families.into_iter().map(Family::read).flat_map(|family| family.presets()).collect()
});

impl Family {
    fn read(text: &str) -> Self {
        toml::from_str(text).expect("the tests read all files")
    }

    fn presets(&self) -> Vec<Preset> {
        self.rows.iter().map(|row| self.preset(row)).collect()
    }

    fn preset(&self, row: &[String]) -> Preset {
        let fill = |text: String, (index, value): (usize, &String)| {
            text.replace(&format!("${}", index + 1), value)
        };
        let text = row.iter().enumerate().fold(self.template.clone(), fill);
        let mut preset: Preset = toml::from_str(&text).expect("the tests read all rows");
        if preset.workload.name.is_empty() {
            preset.workload.name.clone_from(&preset.name);
        }
        preset
    }
}

impl Preset {
    /// The preset of this name.
    ///
    /// # Errors
    /// As for [`Workload::named`].
    pub fn named(name: &str) -> Result<Self> {
        let name = name.to_lowercase();
        let known = ALL.iter().find(|preset| preset.name == name).cloned();
        let names = ALL.iter().map(|preset| &*preset.name);
        known.or_else(|| of_any_share(&name)).ok_or_else(|| unknown("workload", &name, names))
    }

    /// All presets; only some of those that have a percentage in their names.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &ALL
    }
}

/// `cruise-get-N` and `cruise-scan-N`, from 0 to 100: a row of the same kind with other shares.
fn of_any_share(name: &str) -> Option<Preset> {
    let (kind, share) = name.strip_prefix("cruise-")?.split_once('-')?;
    let share: u8 = share.parse().ok().filter(|share| *share <= 100)?;
    let family = Family::read(CRUISE);
    let mut row = family.rows.iter().find(|row| row[0] == kind)?.clone();
    (row[1], row[2]) = (share.to_string(), (100 - share).to_string());
    Some(family.preset(&row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::{Pattern, Segment};
    use crate::workload::Transaction;
    use crate::workload::data::KeyOrder;
    use crate::workload::keys::{Choice, Picker};
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;
    use std::collections::HashSet;

    #[test]
    fn every_workload_is_well_formed_and_found_by_its_name() {
        let all = Preset::all();
        let names: HashSet<_> = all.iter().map(|preset| &preset.name).collect();
        assert_eq!(names.len(), all.len(), "names differ");
        for preset in all {
            let name = &preset.name;
            let sum: f64 = preset.workload.shares().iter().map(|(_, share)| share).sum();
            assert!((sum - 100.0).abs() < 1e-9, "{name}: the shares sum to {sum}");
            assert_eq!(Preset::named(name).as_ref().ok(), Some(preset));
            assert!(preset.what.len() <= 90 && preset.what.len() > 10, "{name}: {}", preset.what);
            assert!(preset.arrivals.as_ref().is_none_or(|arrivals| arrivals.check().is_ok()));
            let transactions = preset.workload.transactions > 0.0;
            assert_eq!(transactions, preset.workload.transaction != Transaction::default());
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = Workload::named("filseq").expect_err("there is none").to_string();
        assert!(error.contains("did you mean \"fillseq\"?"), "{error}");
        assert!(error.contains("silk, ") && error.contains("dlc-sustained"), "{error}");
        assert!(Workload::named("cruise-get-101").is_err());
    }

    #[test]
    fn workloads_survive_json() {
        for preset in Preset::all() {
            let json = serde_json::to_string(&preset.workload).expect("it has an encoding");
            let read: Workload = serde_json::from_str(&json).expect("it can be read");
            assert_eq!(read, preset.workload);
        }
    }

    fn silk() -> Pattern {
        match Preset::named("silk").expect("known").arrivals {
            Some(Arrivals::Varying(pattern)) => pattern,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_production_pattern_is_as_published() {
        let pattern = silk();
        let (peaks, valleys): (Vec<_>, Vec<_>) =
            pattern.segments.iter().partition(|segment| segment.rate == 20_000.0);
        let seconds = |segments: &[Segment]| -> Vec<f64> {
            segments.iter().map(|segment| segment.seconds).collect()
        };
        let (peaks, lengths) = (seconds(&peaks), seconds(&valleys));
        let short = peaks.iter().filter(|length| (10.0..=20.0).contains(*length)).count();
        assert_eq!((peaks.len(), short), (20, 18), "90 % are short");
        assert!(peaks.iter().all(|length| *length <= 20.0 || *length >= 100.0));
        assert_eq!(peaks.iter().copied().fold(0.0, f64::max), 400.0);
        assert!(lengths.iter().all(|length| (5.0..=20.0).contains(length)));
        let mean = lengths.iter().sum::<f64>() / 20.0;
        assert!((mean - 15.0).abs() < 0.1, "{mean}");
        assert!(valleys.iter().all(|valley| (100.0..=1000.0).contains(&valley.rate)));
    }

    #[test]
    fn a_hundredth_of_the_rows_of_dlc_has_three_quarters_of_the_requests() {
        let choice = Preset::named("dlc").expect("known").workload.choice;
        let Choice::HotRanges(keys) = choice else { panic!("{choice:?}") };
        let shares = keys.shares();
        assert!((shares[0] - 0.75).abs() < 0.002, "{}", shares[0]);
        assert!(shares[1..].iter().all(|share| (share - 0.0025).abs() < 0.0001));
        let (rows, samples) = (10_000, 100_000);
        let picker = Picker::new(choice, rows, KeyOrder::Hashed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut counts = vec![0_u32; rows as usize];
        (0..samples).for_each(|_| counts[picker.pick(&mut rng, rows) as usize] += 1);
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        // The hot range has about a hundred rows, and no row of it is left out.
        let hot: u32 = counts[..130].iter().sum();
        assert!((70_000..80_000).contains(&hot), "{hot}");
        assert!(counts[60] > 400, "{}", counts[60]);
    }
}
