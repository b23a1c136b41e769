//! `vlsm-lab figure`: figures of the papers as one campaign, then their verdicts and pages. The
//! runs that are done are kept in the folder of the reports, so the same command goes on after a
//! stop.

use super::progress::Shown;
use super::{Result, duration, stop_flag, write_files};
use crate::campaign::{self, Campaign, Task};
use crate::figures::beside::Beside;
use crate::figures::conditions::too_slow;
use crate::figures::result::FigureResult;
use crate::figures::{self, Entry, Setting, matrix, page, text};
use crate::probe::Probe;
use crate::programs::{self, Programs};
use crate::scale::Scale;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use vlsm_cli::bench::work::positive;
use vlsm_cli::failure;
use vlsm_measure::spec::{Offered, PhaseSpec, Step};

/// The time for which the idle device is watched: enough reads for a P99.9.
const IDLE: Duration = Duration::from_secs(15);

/// Options of an experiment, common to `list` and `figure`.
#[derive(Debug, Clone, clap::Args)]
pub struct Shared {
    /// Make everything smaller than in the papers by this factor: full, campaign (1/32), smoke
    /// (1/64), or a share such as 1/16
    #[arg(long, default_value_t = Scale::CAMPAIGN)]
    pub scale: Scale,
    /// Rounds: the number of times that each run is done
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = rounds)]
    pub rounds: usize,
    /// Seconds of phases whose length the paper leaves open
    #[arg(long, value_name = "S", default_value_t = 25.0, value_parser = positive)]
    pub seconds: f64,
    /// Folder for the stores' data [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Leave out the other stores that figures name
    #[arg(long)]
    pub no_peers: bool,
    /// Stores to show beside a figure's own, as KIND or KIND:CONFIG, with the same data, workload
    /// and loads. They are shown, not judged
    #[arg(long, value_name = "STORES", value_delimiter = ',')]
    pub also: Vec<String>,
}

impl Shared {
    /// The setting for figures.
    pub fn setting(&self) -> Setting {
        Setting {
            scale: self.scale,
            dir: self.dir.clone(),
            peers: !self.no_peers,
            seconds: if self.scale.is_smoke() { self.seconds.min(2.0) } else { self.seconds },
        }
    }

    /// The added stores.
    pub fn beside(&self, setting: &Setting) -> Result<Vec<Beside>> {
        self.also.iter().map(|name| Beside::named(setting, name)).collect()
    }
}

pub fn rounds(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(number @ 1..=1000) => Ok(number),
        _ => Err(format!("{text:?} is not a number from 1 to 1000")),
    }
}

/// Options of `vlsm-lab figure`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Figures, as `vlsm-lab list` names them (a number alone is vLSM's), or `all`
    #[arg(required = true, value_name = "FIGURE")]
    figures: Vec<String>,
    #[command(flatten)]
    shared: Shared,
    /// Folder for reports and pages. Runs whose reports exist there are not done again
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    out: PathBuf,
    /// Print the runs to do and how long they take, and do nothing
    #[arg(long)]
    plan: bool,
    /// Judge and draw the reports that exist, without doing runs
    #[arg(long)]
    judge: bool,
}

/// Does the figures that the command line names.
pub fn run(args: &Args) -> failure::Result {
    let shared = &args.shared;
    let entries: Vec<&'static Entry> = match args.figures.iter().any(|name| name == "all") {
        true => figures::all().collect(),
        false => args.figures.iter().map(|name| figures::named(name)).collect::<Result<_>>()?,
    };
    // A smoke test measures nothing, so one round is enough.
    let rounds = if shared.scale.is_smoke() { 1 } else { shared.rounds };
    let mut setting = shared.setting();
    let programs = Programs::find()?;
    if setting.peers && programs.peers().is_empty() {
        eprintln!(
            "other stores are not built, so they are left out; {} builds them",
            programs::BUILD_PEERS
        );
        setting.peers = false;
    }
    if setting.scale.is_smoke() {
        eprintln!("scale smoke only tests that everything runs: this is not a measurement.");
    }
    let beside = shared.beside(&setting)?;
    if !args.judge {
        beside.iter().try_for_each(|beside| programs.check(&beside.store))?;
    }
    let mut campaign = Campaign::new(setting, &entries, rounds, &args.out);
    for id in campaign.show_beside(&beside).into_iter().filter(|_| !beside.is_empty()) {
        eprintln!("{id}: --also adds nothing: only vlsm reports what the figure shows");
    }
    campaign.foresee(vlsm_cli::COMMIT).iter().for_each(|(id, why)| eprintln!("{id}: {why}"));
    let tasks = campaign.todo();
    eprintln!(
        "{} runs to do, about {} in all; reports in {}",
        tasks.len(),
        duration(campaign::seconds(&tasks)),
        args.out.display(),
    );
    if args.plan {
        for task in &tasks {
            let seconds = duration(task.run.seconds());
            let run = super::describe(&task.run);
            writeln!(io::stdout(), "round {}  {seconds:>7}  {run}", task.round)?;
        }
        return Ok(());
    }
    let mut stopped = false;
    if !args.judge {
        campaign.check(&programs, &tasks)?;
        let stop = stop_flag(true)?;
        if !shared.scale.is_smoke() {
            warn_of_slow_device(&tasks, stop);
        }
        let mut shown = Shown::new();
        let done = campaign.go(&programs, stop, &mut |going| shown.show(&going));
        shown.finish();
        campaign.clean()?;
        done?;
        stopped = stop.load(Relaxed);
    }
    let results = campaign.results();
    results.iter().try_for_each(|result| publish(&args.out, result))?;
    if stopped {
        eprintln!("interrupted: run the same command again to continue");
    }
    for result in &results {
        let page = args.out.join(&result.id).with_extension("html");
        writeln!(io::stdout(), "{}  page: {}\n", text::render(result), page.display())?;
    }
    Ok(())
}

/// Writes a figure's page, its JSON for the archive, and its complete JSON. Writes the tables of an
/// overview, too.
fn publish(out: &Path, result: &FigureResult) -> Result {
    let json = |result: &FigureResult| {
        serde_json::to_string_pretty(result).expect("plain values have an encoding")
    };
    let mut files = vec![
        ("json", json(&result.kept())),
        ("raw.json", json(result)),
        ("html", page::render(result)),
    ];
    if figures::named(&result.id)?.overview {
        files.push(("md", matrix::render(result)));
    }
    let named = |(extension, content)| (format!("{}.{extension}", result.id), content);
    write_files(out, &files.into_iter().map(named).collect::<Vec<_>>())
}
/// Warns if the idle device is slower than condition 8 allows beside a run: the runs would take
/// hours and not count.
fn warn_of_slow_device(tasks: &[Task], stop: &AtomicBool) {
    let is_open = |step: &Step| match step {
        Step::Phase(PhaseSpec { offered: Offered::As(arrivals), .. }) => arrivals.peak().is_some(),
        _ => false,
    };
    let counts =
        |task: &&Task| task.run.limits.device.is_some() && task.run.steps.iter().any(is_open);
    let Some(task) = tasks.iter().find(counts) else { return };
    eprintln!("reading from the idle device for {} s", IDLE.as_secs());
    let reads = Probe::new(&task.run.dir()).and_then(|probe| probe.idle(IDLE, stop));
    if let Some(slowest) = reads.as_ref().and_then(too_slow) {
        eprintln!(
            "the device is slow although it is idle: P99.9 of reads is {slowest:.1} ms. An open \
             loop on a limited device will hardly count as measured now"
        );
    }
}
