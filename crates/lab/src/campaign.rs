//! A campaign: the runs that some figures need, each done once a round, kept as files, and resumed
//! where it was interrupted.
//!
//! 1. The runs of all figures, without repetitions. Round by round: A B C … A B C …, so that what
//!    changes on the machine over time is in all of them.
//! 2. A run whose file is there, made from the same specification by a program of the same format,
//!    is not done again. A run that failed or was stopped is, and one that the machine spoilt
//!    ([`again`]), twice at most before a call ends with what it has (not with the scale for
//!    smoke, which measures nothing).
//! 3. Before the first one: is every store built, is there room, how long will it take.
//! 4. Afterwards each figure is judged by what its runs brought ([`crate::figures::judge`]).
//!
//! In the campaign's folder: `runs/NAME-ROUND.json`, and for each figure `ID.json` and a page.

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

/// How often spoilt runs are done again before a campaign ends.
const AGAIN: usize = 2;

/// Figures, how often and where.
pub struct Campaign {
    setting: Setting,
    figures: Vec<(&'static Entry, Figure)>,
    rounds: usize,
    folder: PathBuf,
    /// The commit of the program, for the reports.
    commit: String,
    /// Names of stores beside the figures' own.
    also: Vec<String>,
}

/// A run that is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The run.
    pub run: Arc<RunSpec>,
    /// The round, from 1.
    pub round: usize,
    file: PathBuf,
}

/// What the caller hears while a campaign goes on.
pub enum Going<'a> {
    /// A run begins: the run, its number from 0, how many there are, seconds left in all.
    Run(&'a Task, usize, usize, f64),
    /// How the run goes.
    Line(Line),
    /// The run ended: what failed, if something did.
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

    /// Shows these stores beside the figures' own. Returns the figures that have nothing to show
    /// them in.
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

    /// What the run brought, where it was done and nothing failed.
    fn done(&self, task: &Task) -> Option<Report> {
        let answer = read(&task.file)?;
        let same = answer.report.method.spec.as_ref() == Some(&*task.run);
        (same && whole(&answer)).then_some(answer.report)
    }

    /// Checks that everything is there before the first run starts.
    ///
    /// # Errors
    /// A store that is not built, with the command that builds it; a device with too little room.
    pub fn check(&self, programs: &Programs, tasks: &[Task]) -> Result<(), String> {
        for task in tasks {
            programs.check(&task.run.store)?;
        }
        let most = tasks.iter().map(|task| &task.run).max_by_key(|run| run.disk_needed());
        if let Some(run) = most {
            // Loaded data is kept to the end.
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

    /// Does the runs that are not done yet. A run that fails is told and does not end the rest.
    ///
    /// # Errors
    /// When a report cannot be written.
    pub fn go(
        &self,
        programs: &Programs,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Going<'_>),
    ) -> Result<(), String> {
        // Left by a campaign that was killed, maybe of another program.
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
                    // A run that was spoilt is better than one that was stopped.
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

    /// Removes the data that was kept from run to run.
    ///
    /// # Errors
    /// What cannot be removed.
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

    /// The figures with what was done so far.
    #[must_use]
    pub fn results(&self) -> Vec<FigureResult> {
        // Reports are large, and many points are taken from each.
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

/// A run for each loaded data that the tasks need.
fn prepared(tasks: &[Task]) -> impl Iterator<Item = &RunSpec> {
    let mut known = std::collections::HashSet::new();
    let runs = tasks.iter().map(|task| &*task.run);
    runs.filter(move |run| run.prepared().is_some_and(|folder| known.insert(folder)))
}

impl Campaign {
    /// What a run brought, round by round: what was not done is an error, so that rounds of
    /// different runs stay side by side.
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
    // Whole or not at all: an interrupted campaign is resumed by what is there.
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
