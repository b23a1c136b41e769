//! A campaign: the runs that some figures need, each done once a round. Their reports are files,
//! so an interrupted campaign can be resumed.
//!
//! 1. Equal runs of the figures are one run. The rounds follow each other, A B C … A B C …, so
//!    that a change of the machine over time affects all runs.
//! 2. A run is not repeated if its file exists and was made from the same specification by a
//!    program of the same format. A run that failed or was stopped is done by the next call. A run
//!    that the machine spoilt ([`again`]) is repeated at most twice in a call, after the runs that
//!    were never done: a campaign in several calls has every run before it has one twice. At the
//!    scale for smoke tests, which measures nothing, no run counts as spoilt.
//! 3. Before the first run a check makes sure that every store is built and that there is room.
//! 4. Afterwards each figure is judged by the reports of its runs ([`crate::figures::judge`]).
//!
//! The campaign's folder has `runs/STORE-CHECKSUM.json`, where the checksum is that of the run's
//! specification and round, and for each figure `ID.json` and a page.

use crate::figures::beside::Beside;
use crate::figures::conditions::again;
use crate::figures::foresee::foresee;
use crate::figures::judge::{Rounds, judge};
use crate::figures::result::FigureResult;
use crate::figures::{Entry, Figure, Setting, unique};
use crate::files;
use crate::programs::Programs;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vlsm_measure::child::{Answer, Line};
use vlsm_measure::report::Report;
use vlsm_measure::spec::{RunSpec, Step};

/// The least room for reports, in bytes.
const REPORTS: u64 = 100 << 20;
/// The most times that a call repeats spoilt runs.
const AGAIN: usize = 2;

/// The figures, the number of rounds and the folder.
pub struct Campaign {
    setting: Setting,
    figures: Vec<(&'static Entry, Figure)>,
    rounds: usize,
    folder: PathBuf,
    /// Names of the added stores.
    also: Vec<String>,
}

/// A run to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The run.
    pub run: Arc<RunSpec>,
    /// The round, from 1.
    pub round: usize,
}

/// The progress of a campaign, for the caller.
pub enum Going<'a> {
    /// A run begins: the run, its number from 0, the number of runs, the seconds left in all.
    Run(&'a Task, usize, usize, f64),
    /// A line about the run's progress.
    Line(Line),
    /// The run ended; the text says what failed.
    Ended(Option<&'a str>),
}

impl Campaign {
    /// A campaign over these figures in this folder.
    #[must_use]
    pub fn new(setting: Setting, entries: &[&'static Entry], rounds: usize, folder: &Path) -> Self {
        let figures = entries.iter().map(|&entry| (entry, (entry.build)(&setting))).collect();
        Self { setting, figures, rounds, folder: folder.to_owned(), also: Vec::new() }
    }

    /// Adds these stores to the figures. Returns the figures that cannot show them.
    pub fn show_beside(&mut self, stores: &[Beside]) -> Vec<&'static str> {
        self.also.extend(stores.iter().map(|beside| beside.store.name()));
        let without = |(entry, figure): &mut (&'static Entry, Figure)| {
            (!figure.show_beside(stores)).then_some(entry.id)
        };
        self.figures.iter_mut().filter_map(without).collect()
    }

    /// The shortfalls of the figures that are certain before they run, each with the figure's name.
    /// `commit` is that of this program.
    #[must_use]
    pub fn foresee(&self, commit: &str) -> Vec<(&'static str, String)> {
        let one = |(entry, figure): &(&'static Entry, Figure)| {
            let all = foresee(entry, figure, &self.setting, self.rounds, commit);
            let id = entry.id;
            all.into_iter().map(move |why| (id, why))
        };
        self.figures.iter().flat_map(one).collect()
    }

    /// The runs that are not done yet, in their order, and then the spoilt ones.
    #[must_use]
    pub fn todo(&self) -> Vec<Task> {
        let runs = unique(self.figures.iter().flat_map(|(_, figure)| figure.runs()));
        let round = |round| runs.iter().map(move |run| Task::new(run, round));
        let all = (1..=self.rounds).flat_map(round);
        let mut tasks: Vec<Task> = all.filter(|task| !self.is_done(&task.run)).collect();
        tasks.sort_by_cached_key(|task| self.done(&task.run).is_ok());
        tasks
    }

    /// The file of a run's report.
    fn file(&self, run: &RunSpec) -> PathBuf {
        let text = serde_json::to_string(run).expect("a specification has an encoding");
        let name = run.store.name().replace(|c: char| !c.is_alphanumeric(), "-");
        let file = format!("{name}-{:08x}.json", crc32c::crc32c(text.as_bytes()));
        self.folder.join("runs").join(file)
    }

    fn is_done(&self, run: &RunSpec) -> bool {
        let smoke = self.setting.scale.is_smoke();
        self.done(run).is_ok_and(|report| smoke || !again(&report))
    }

    /// The report of a run of one round, if it was done and nothing failed. Otherwise the text says
    /// why there is none.
    fn done(&self, run: &RunSpec) -> Result<Report, String> {
        let same = |answer: &Answer| answer.report.method.spec.as_ref() == Some(run);
        let file = files::read(&self.file(run));
        let answer = file.and_then(|text| serde_json::from_slice(&text).ok());
        match answer.filter(same) {
            None => Err(format!("round {} was not done", run.seed)),
            Some(answer) if whole(&answer) => Ok(answer.report),
            Some(answer) => Err(answer.failure.unwrap_or_else(|| "stopped".into())),
        }
    }

    /// Checks before the first run starts that every store is built and that there is room.
    ///
    /// # Errors
    /// A store is not built; the text names the command that builds it. Or a folder cannot be made,
    /// or a device has too little room.
    pub fn check(&self, programs: &Programs, tasks: &[Task]) -> Result<(), String> {
        for task in tasks {
            programs.check(&task.run.store)?;
        }
        files::make_folder(&self.folder.join("runs"))?;
        let runs = tasks.iter().map(|task| &task.run);
        let Some(run) = runs.max_by_key(|run| run.disk_needed()) else { return Ok(()) };
        files::make_folder(&run.dir())?;
        // Loaded data stays until the campaign ends.
        let kept: u64 = prepared(tasks).map(|run| run.loaded_bytes()).sum();
        run.check_space_for(&run.dir(), run.disk_needed() + kept)?;
        run.check_space_for(&self.folder, REPORTS)
    }

    /// Does the runs that are not done yet. It reports a run that fails and goes on with the rest.
    ///
    /// # Errors
    /// A report cannot be written, or old data cannot be removed.
    pub fn go(
        &self,
        programs: &Programs,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Going<'_>),
    ) -> Result<(), String> {
        // Remove what a killed campaign left, maybe that of another program.
        self.clean()?;
        let mut tasks = self.todo();
        for _ in 0..=AGAIN {
            in_turn(programs, &tasks, stop, tell, &mut |number, answer| {
                let run = &tasks[number].run;
                match answer {
                    // An interrupted run may have ended anywhere: in its load, between its phases.
                    _ if stop.load(Relaxed) => Ok(()),
                    // A spoilt run is better than a stopped one.
                    Ok(answer) if whole(&answer) || self.done(run).is_err() => {
                        let text = serde_json::to_string(&answer).map_err(|e| e.to_string())?;
                        files::write(&self.file(run), &text)
                    }
                    _ => Ok(()),
                }
            })?;
            // A run that was done and still counts as not done was spoilt.
            tasks = self.todo();
            tasks.retain(|task| self.done(&task.run).is_ok());
        }
        Ok(())
    }

    /// Removes the loaded data that runs share.
    ///
    /// # Errors
    /// A folder cannot be removed; the text names it.
    pub fn clean(&self) -> Result<(), String> {
        for run in self.figures.iter().flat_map(|(_, figure)| figure.runs()) {
            let Some(prepared) = run.prepared() else { continue };
            match std::fs::remove_dir_all(&prepared) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(format!("cannot remove {}: {error}", prepared.display()));
                }
                _ => (),
            }
        }
        Ok(())
    }

    /// The results of the figures with the runs that are done so far.
    #[must_use]
    pub fn results(&self) -> Vec<FigureResult> {
        // Read each report once: it is large, and many points are taken from it. A round that was
        // not done is an error, so that the rounds of different runs keep their positions.
        let known = RefCell::new(HashMap::<PathBuf, Rounds>::new());
        let rounds = |run: &RunSpec| -> Rounds {
            let mut known = known.borrow_mut();
            let round = |round| self.done(&Task::new(run, round).run);
            let all = || (1..=self.rounds).map(round).collect();
            known.entry(self.file(run)).or_insert_with(all).clone()
        };
        let result = |(entry, figure): &(&'static Entry, Figure)| {
            let mut command = format!(
                "vlsm-lab figure {} --scale {} --rounds {} --seconds {}{}",
                entry.id,
                self.setting.scale,
                self.rounds,
                self.setting.seconds,
                if self.setting.peers { "" } else { " --no-peers" },
            );
            if !self.also.is_empty() {
                command += &format!(" --also {}", self.also.join(","));
            }
            judge(entry, figure, &self.setting, command, &rounds)
        };
        self.figures.iter().map(result).collect()
    }
}

impl Task {
    /// A round of this run; its seed is the round.
    fn new(run: &RunSpec, round: usize) -> Self {
        Self { run: Arc::new(RunSpec { seed: round as u64, ..run.clone() }), round }
    }
}

/// About how many seconds these runs take, with the loading of the data that they share.
#[must_use]
pub fn seconds(tasks: &[Task]) -> f64 {
    let loads: f64 = prepared(tasks).map(|run| run.load_seconds()).sum();
    loads + tasks.iter().map(|task| task.run.seconds()).sum::<f64>()
}

/// One run for each set of loaded data that the tasks need.
fn prepared(tasks: &[Task]) -> impl Iterator<Item = &RunSpec> {
    let mut known = std::collections::HashSet::new();
    let runs = tasks.iter().map(|task| &*task.run);
    runs.filter(move |run| run.prepared().is_some_and(|folder| known.insert(folder)))
}

/// Does these runs in turn, each in a process of its own, until `stop` is set. `keep` receives the
/// number of each, from 0, and its answer; `Err` if there is none.
///
/// # Errors
/// The first error of `keep`.
pub fn in_turn(
    programs: &Programs,
    tasks: &[Task],
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Going<'_>),
    keep: &mut dyn FnMut(usize, Result<Answer, String>) -> Result<(), String>,
) -> Result<(), String> {
    for (number, task) in tasks.iter().enumerate() {
        if stop.load(Relaxed) {
            break;
        }
        tell(Going::Run(task, number, tasks.len(), seconds(&tasks[number..])));
        let line = &mut |line| tell(Going::Line(line));
        let answer = crate::programs::run(programs, &task.run, stop, line);
        tell(Going::Ended(match &answer {
            Ok(answer) => answer.failure.as_deref(),
            Err(why) => Some(why),
        }));
        keep(number, answer)?;
    }
    Ok(())
}

/// Whether nothing failed, and every phase was reached and not stopped.
fn whole(answer: &Answer) -> bool {
    let report = &answer.report;
    let steps = report.method.spec.iter().flat_map(|spec| &spec.steps);
    let phases = steps.filter(|step| matches!(step, Step::Phase(_))).count();
    let stopped = report.phases.iter().any(|phase| phase.stopped);
    answer.failure.is_none() && report.phases.len() >= phases && !stopped
}
