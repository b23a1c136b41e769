//! `vlsm-lab list` and `vlsm-lab workloads`: they print the figures and the workloads.
//! Times are guesses from the lengths of phases and a moderate rate of loading.

use super::duration;
use super::figure::Shared;
use crate::campaign::{self, Campaign};
use crate::figures::{self, Entry};
use std::io::{self, Write};
use vlsm_cli::failure::Result;
use vlsm_measure::workload::Preset;

/// Prints all figures with the time that they take.
pub fn figures(shared: &Shared) -> Result {
    let mut out = io::stdout().lock();
    let setting = shared.setting();
    let beside = shared.beside(&setting)?;
    // The number of runs of these figures, and their time.
    let cost = |entries: &[&'static Entry]| {
        // Nothing is done in a folder that does not exist.
        let folder = std::env::temp_dir().join("none");
        let mut campaign = Campaign::new(setting.clone(), entries, shared.rounds, &folder);
        campaign.show_beside(&beside);
        let todo = campaign.todo();
        (todo.len(), duration(campaign::seconds(&todo)))
    };
    writeln!(out, "{:<12} {:>5} {:>8}  what it shows", "figure", "runs", "time")?;
    for entry in figures::all() {
        let (runs, time) = cost(&[entry]);
        writeln!(out, "{:<12} {runs:>5} {time:>8}  {}", entry.id, entry.title)?;
        for missing in (entry.build)(&setting).left_out() {
            writeln!(out, "{:28}  not there: {missing}", "")?;
        }
    }
    let (runs, time) = cost(&figures::all().collect::<Vec<_>>());
    writeln!(
        out,
        "\nAll together: {runs} runs, about {time}, because figures share runs. At scale {} in {} \
         rounds.",
        shared.scale, shared.rounds,
    )?;
    Ok(())
}

/// Prints all workloads.
pub fn workloads() -> Result {
    let mut out = io::stdout().lock();
    for preset in Preset::all() {
        writeln!(out, "{:<22} {}", preset.name, preset.what)?;
    }
    Ok(())
}
