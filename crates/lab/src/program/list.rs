//! `vlsm-lab list` and `vlsm-lab workloads`: they print the figures and the workloads.
//! Times are guesses from the lengths of phases and a moderate rate of loading.

use super::duration;
use crate::campaign::Campaign;
use crate::figures::{self, Setting};
use std::io::{self, Write};
use vlsm_cli::failure::Result;
use vlsm_measure::workload::Preset;

/// Options of `vlsm-lab list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    shared: super::figure::Shared,
}

/// Prints all figures with the time that they take.
pub fn figures(args: &Args) -> Result {
    let mut out = io::stdout().lock();
    let setting: Setting = args.shared.setting();
    let beside = args.shared.beside(&setting)?;
    writeln!(out, "{:<12} {:>5} {:>8}  what it shows", "figure", "runs", "time")?;
    for entry in figures::all() {
        let mut figure = (entry.build)(&setting);
        figure.show_beside(&beside);
        let runs = figure.runs();
        let seconds: f64 = runs.iter().map(|run| run.seconds()).sum();
        let time = duration(seconds * args.shared.rounds as f64);
        writeln!(
            out,
            "{:<12} {:>5} {time:>8}  {}",
            entry.id,
            runs.len() * args.shared.rounds,
            entry.title
        )?;
        for missing in figure.not_built() {
            writeln!(out, "{:28}  not there: {missing}", "")?;
        }
    }
    let all: Vec<_> = figures::all().collect();
    let folder = std::env::temp_dir();
    let mut campaign =
        Campaign::new(setting, &all, args.shared.rounds, &folder.join("none"), String::new());
    campaign.show_beside(&beside);
    let todo = campaign.todo();
    writeln!(
        out,
        "\nAll together: {} runs, about {}, because figures share runs. At scale {} in {} rounds.",
        todo.len(),
        duration(Campaign::seconds(&todo)),
        args.shared.scale,
        args.shared.rounds,
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
