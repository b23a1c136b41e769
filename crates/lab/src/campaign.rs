//! A campaign: the runs that some figures need, each done once a round. Their reports are files,
//! so an interrupted campaign can be resumed.
//!
//! 1. Equal runs of the figures are one run. The rounds follow each other, A B C … A B C …, so
//!    that a change of the machine over time affects all runs.
//! 2. A run is not repeated if its file exists and was made from the same specification by a
//!    program of the same format. A run that failed or was stopped is done by the next call. A run
//!    that the machine spoilt ([`again`]) is repeated at most twice in a call. At the scale for
//!    smoke tests, which measures nothing, no run counts as spoilt.
//! 3. Before the first run a check makes sure that every store is built and that there is room.
//! 4. Afterwards each figure is judged by the reports of its runs ([`crate::figures::judge`]).
//!
//! The campaign's folder has `runs/STORE-CHECKSUM.json`, where the checksum is that of the run's
//! specification and round, and for each figure `ID.json` and a page.

use crate::figures::beside::Beside;
use crate::figures::conditions::again;
use crate::figures::judge::{Rounds, judge};
use crate::figures::result::FigureResult;
use crate::figures::{Entry, Figure, Setting};
use crate::programs::Programs;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vlsm_measure::child::{Answer, Line};
use vlsm_measure::report::Report;
use vlsm_measure::spec::{RunSpec, free_bytes};

/// How often a call repeats spoilt runs.
const AGAIN: usize = 2;

/// The figures, the number of rounds and the folder.
pub struct Campaign {
    setting: Setting,
    figures: Vec<(&'static Entry, Figure)>,
    rounds: usize,
    folder: PathBuf,
    /// The program's commit, for the reports.
    commit: String,
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
    file: PathBuf,
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
    pub fn new(
        setting: Setting,
        entries: &[&'static Entry],
        rounds: usize,
        folder: &Path,
        commit: String,
    ) -> Self {
        let figures = entries.iter().map(|&entry| (entry, (entry.build)(&setting))).collect();
        Self { setting, figures, rounds, folder: folder.to_owned(), commit, also: Vec::new() }
    }

    /// Adds these stores to the figures. Returns the figures that cannot show them.
    pub fn show_beside(&mut self, stores: &[Beside]) -> Vec<&'static str> {
        self.also.extend(stores.iter().map(|beside| beside.store().name()));
        let without = |(entry, figure): &mut (&'static Entry, Figure)| {
            (!figure.show_beside(stores)).then_some(entry.id)
        };
        self.figures.iter_mut().filter_map(without).collect()
    }

    /// The runs that are not done yet, in their order.
    #[must_use]
    pub fn todo(&self) -> Vec<Task> {
        let mut runs: Vec<Arc<RunSpec>> = Vec::new();
        for run in self.figures.iter().flat_map(|(_, figure)| figure.runs()) {
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        let task = |round: usize| {
            let runs = runs.clone();
            runs.into_iter().map(move |run| self.task(&run, round))
        };
        (1..=self.rounds).flat_map(task).filter(|task| !self.is_done(task)).collect()
    }

    /// About how many seconds the runs take.
    #[must_use]
    pub fn seconds(tasks: &[Task]) -> f64 {
        let loads: f64 = prepared(tasks).map(|run| run.load_seconds()).sum();
        loads + tasks.iter().map(|task| task.run.seconds()).sum::<f64>()
    }

    fn task(&self, run: &RunSpec, round: usize) -> Task {
        let mut run = run.clone();
        run.seed = round as u64;
        let text = serde_json::to_string(&run).expect("a specification has an encoding");
        let name = run.store.name().replace(|c: char| !c.is_alphanumeric(), "-");
        let file = format!("{name}-{:08x}.json", crc32c::crc32c(text.as_bytes()));
        Task { run: Arc::new(run), round, file: self.folder.join("runs").join(file) }
    }

    fn is_done(&self, task: &Task) -> bool {
        let smoke = self.setting.scale.is_smoke();
        self.done(task).is_some_and(|report| smoke || !again(&report))
    }

    /// The run's report, if it was done and nothing failed.
    fn done(&self, task: &Task) -> Option<Report> {
        let answer = read(&task.file)?;
        let same = answer.report.method.spec.as_ref() == Some(&*task.run);
        (same && whole(&answer)).then_some(answer.report)
    }

    /// Checks before the first run starts that every store is built and that there is room.
    ///
    /// # Errors
    /// A store is not built; the text names the command that builds it. Or a device has too little
    /// room.
    pub fn check(&self, programs: &Programs, tasks: &[Task]) -> Result<(), String> {
        for task in tasks {
            programs.check(&task.run.store)?;
        }
        let most = tasks.iter().map(|task| &task.run).max_by_key(|run| run.disk_needed());
        if let Some(run) = most {
            // Loaded data stays until the campaign ends.
            let kept: u64 = prepared(tasks).map(|run| run.loaded_bytes()).sum();
            run.check_space_for(&run.dir(), run.disk_needed() + kept)?;
        }
        make_folder(&self.folder.join("runs"))?;
        match free_bytes(&self.folder) {
            Some(free) if free < 100 << 20 => {
                Err(format!("{} has no room for reports", self.folder.display()))
            }
            _ => Ok(()),
        }
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
        self.pass(&self.todo(), programs, stop, tell)?;
        for _ in 0..AGAIN {
            let spoilt = |task: &Task| self.done(task).is_some();
            let tasks: Vec<Task> = self.todo().into_iter().filter(spoilt).collect();
            self.pass(&tasks, programs, stop, tell)?;
        }
        Ok(())
    }

    fn pass(
        &self,
        tasks: &[Task],
        programs: &Programs,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Going<'_>),
    ) -> Result<(), String> {
        for (number, task) in tasks.iter().enumerate() {
            if stop.load(Relaxed) {
                break;
            }
            tell(Going::Run(task, number, tasks.len(), Self::seconds(&tasks[number..])));
            let line = &mut |line| tell(Going::Line(line));
            match crate::programs::run(programs, &task.run, stop, line) {
                Ok(mut answer) => {
                    answer.report.method.commit.clone_from(&self.commit);
                    // A spoilt run is better than a stopped one.
                    if whole(&answer) || self.done(task).is_none() {
                        write(&task.file, &answer)?;
                    }
                    tell(Going::Ended(answer.failure.as_deref()));
                }
                Err(why) => tell(Going::Ended(Some(&why))),
            }
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
        // Read each report once: it is large, and many points are taken from it.
        let known = RefCell::new(HashMap::<PathBuf, Rounds>::new());
        let rounds = |run: &RunSpec| -> Rounds {
            let first = self.task(run, 1).file;
            known.borrow_mut().entry(first).or_insert_with(|| self.rounds_of(run)).clone()
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

/// One run for each set of loaded data that the tasks need.
fn prepared(tasks: &[Task]) -> impl Iterator<Item = &RunSpec> {
    let mut known = std::collections::HashSet::new();
    let runs = tasks.iter().map(|task| &*task.run);
    runs.filter(move |run| run.prepared().is_some_and(|folder| known.insert(folder)))
}

impl Campaign {
    /// The reports of a run, round by round. A round that was not done is an error, so that the
    /// rounds of different runs keep their positions.
    fn rounds_of(&self, run: &RunSpec) -> Rounds {
        let answer = |round| {
            let task = self.task(run, round);
            self.done(&task).ok_or_else(|| match read(&task.file) {
                None => format!("round {round} was not done"),
                Some(answer) => answer.failure.unwrap_or_else(|| "stopped".into()),
            })
        };
        (1..=self.rounds).map(answer).collect()
    }
}

/// Whether nothing failed and no phase was stopped.
fn whole(answer: &Answer) -> bool {
    answer.failure.is_none() && !answer.report.phases.iter().any(|phase| phase.stopped)
}

#[expect(clippy::disallowed_methods, reason = "reports are files of the user's, not a store's")]
fn read(file: &Path) -> Option<Answer> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[expect(clippy::disallowed_methods, reason = "reports are files of the user's, not a store's")]
fn write(file: &Path, answer: &Answer) -> Result<(), String> {
    let text = serde_json::to_string(answer).map_err(|error| error.to_string())?;
    // Rename a whole file into place, because a resumed campaign trusts the files that exist.
    let fresh = file.with_extension("new");
    std::fs::write(&fresh, text)
        .and_then(|()| std::fs::rename(&fresh, file))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

#[expect(clippy::disallowed_methods, reason = "reports are files of the user's, not a store's")]
fn make_folder(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path)
        .map_err(|error| format!("cannot make the folder {}: {error}", path.display()))
}
