//! The order of a campaign's runs.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "for tests")]

mod synthetic;

use std::path::Path;
use synthetic::{STALLING, report_of};
use vlsm_lab::campaign::{Campaign, Task};
use vlsm_lab::figures::{self, Setting};
use vlsm_lab::scale::Scale;
use vlsm_measure::child::Answer;
use vlsm_measure::metrics::Percentiles;
use vlsm_measure::spec::RunSpec;

/// Writes the report of a run whose probe reads had this P99.9, where a campaign expects it.
fn done(folder: &Path, run: &RunSpec, p999_us: f64) {
    let mut report = report_of(&STALLING, run);
    let reads = Percentiles { count: 4_000, p999_us, ..Percentiles::default() };
    report.phases.iter_mut().for_each(|phase| phase.device_beside = Some(reads));
    let text = serde_json::to_string(run).unwrap();
    let store = run.store.name().replace(|c: char| !c.is_alphanumeric(), "-");
    let name = format!("{store}-{:08x}.json", crc32c::crc32c(text.as_bytes()));
    let runs = folder.join("runs");
    std::fs::create_dir_all(&runs).unwrap();
    let answer = Answer { report, failure: None };
    std::fs::write(runs.join(name), serde_json::to_string(&answer).unwrap()).unwrap();
}

#[test]
fn spoilt_runs_are_repeated_after_those_that_were_never_done() {
    let folder = tempfile::tempdir().unwrap();
    let setting = Setting { scale: Scale::CAMPAIGN, dir: None, peers: false, seconds: 20.0 };
    let entry = figures::named("silk-9").unwrap();
    let campaign = Campaign::new(setting, &[entry], 2, folder.path());
    let all = campaign.todo();
    assert!(all.len() >= 4 && all.is_sorted_by_key(|task| task.round), "{all:?}");
    done(folder.path(), &all[0].run, 20_000.0);
    done(folder.path(), &all[1].run, 2_000.0);
    done(folder.path(), &all[2].run, 20_000.0);
    let expected: Vec<&Task> = all[3..].iter().chain([&all[0], &all[2]]).collect();
    assert_eq!(campaign.todo().iter().collect::<Vec<_>>(), expected);
}
