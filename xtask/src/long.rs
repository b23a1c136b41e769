//! `cargo xtask long --hours N`: every class of reliability tests, in rounds, until the time is up.
//!
//! 1. The test programs are built once, in release mode.
//! 2. The next round is of the class that has had the least time for its weight. It runs the
//!    class's tests on seeds that no earlier round had, in such a number that it takes about a
//!    minute.
//! 3. What the tests counted (lines `counts: name=number, …`) is added up, a failure is recorded
//!    with its seeds and its output, and the state is written: a run that ends early loses one
//!    round.
//! 4. At the end there is a report in Markdown ([`report`]).
//!
//! State and report lie in `target/long`. A later run on the same commit goes on where this one
//! ended, so several short runs make one long one; on another commit everything begins anew.
//!
//! Two classes run at a time, as most tests use one core: the report tells their time and, beside
//! it, how long the runs took.

mod report;
mod state;
mod tests;

use state::{ClassState, Finding, State};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time that a round should take.
const ROUND: Duration = Duration::from_secs(60);
/// A round that takes longer hangs.
const HANG: Duration = Duration::from_secs(1_800);
/// The number of classes that run at a time.
const LANES: usize = 2;
/// Classes begin here, beyond the seeds of CI.
const FIRST_SEED: u64 = 10_000;

/// The way in which a class takes its seeds.
enum Seeds {
    /// `VARIABLE=A..B`.
    Range(&'static str),
    /// One seed a round: `VARIABLE=A`.
    One(&'static str),
    /// A number of events from one seed on: `COUNT=n SEED=A`.
    Count(&'static str, &'static str),
    /// No seeds: one round tries everything there is.
    Once,
}

/// A class of tests: the program, the tests of it, and the least number of seeds in a round.
struct Class {
    name: &'static str,
    package: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    seeds: Seeds,
    least: u64,
    environment: &'static [(&'static str, &'static str)],
    weight: f64,
}

const SIM: &str = "vlsm-sim";

const CLASSES: &[Class] = &[
    Class {
        name: "stories",
        package: SIM,
        program: "simulator",
        args: &["every_answer_is_right"],
        seeds: Seeds::Range("SIM_SEEDS"),
        least: 500,
        environment: &[],
        weight: 4.0,
    },
    Class {
        name: "narrow stories",
        package: SIM,
        program: "simulator",
        args: &["writers_never_wait_for_ever"],
        seeds: Seeds::Range("NARROW_SEEDS"),
        least: 30,
        environment: &[],
        weight: 1.0,
    },
    Class {
        name: "snapshots",
        package: SIM,
        program: "simulator",
        args: &["snapshots_stay_as_they_are"],
        seeds: Seeds::Range("SNAPSHOT_SEEDS"),
        least: 100,
        environment: &[],
        weight: 0.5,
    },
    Class {
        name: "transactions",
        package: SIM,
        program: "transactions",
        args: &[],
        seeds: Seeds::Range("SERIAL_SEEDS"),
        least: 300,
        environment: &[],
        weight: 0.5,
    },
    Class {
        name: "model",
        package: SIM,
        program: "model",
        args: &["equals_the_oracle"],
        seeds: Seeds::Range("MODEL_SEEDS"),
        least: 40,
        environment: &[("MODEL_OPS", "2500")],
        weight: 1.0,
    },
    Class {
        name: "scripts",
        package: SIM,
        program: "scripts",
        args: &["--skip", "crashed_", "--skip", "every_call_fails"],
        seeds: Seeds::Range("SCRIPT_SEEDS"),
        least: 10,
        environment: &[],
        weight: 0.5,
    },
    Class {
        name: "crashes everywhere",
        package: SIM,
        program: "scripts",
        args: &["crashed_"],
        seeds: Seeds::Range("CRASH_SEEDS"),
        least: 1,
        environment: &[("CRASH_STRIDE", "1")],
        weight: 2.0,
    },
    Class {
        name: "every call fails",
        package: SIM,
        program: "scripts",
        args: &["every_call_fails"],
        seeds: Seeds::One("FAULT_SEED"),
        least: 1,
        environment: &[("FAULT_STRIDE", "1")],
        weight: 1.0,
    },
    Class {
        name: "disk full",
        package: SIM,
        program: "disk_full",
        args: &[],
        seeds: Seeds::Range("FULL_SEEDS"),
        least: 2,
        environment: &[],
        weight: 1.0,
    },
    Class {
        name: "flips",
        package: SIM,
        program: "flips",
        args: &[],
        seeds: Seeds::Once,
        least: 1,
        environment: &[("FLIP_STRIDE", "1"), ("CUT_STRIDE", "1")],
        weight: 1.0,
    },
    Class {
        name: "salvage",
        package: SIM,
        program: "salvage",
        args: &[],
        seeds: Seeds::Once,
        least: 1,
        environment: &[
            ("SALVAGE_STRIDE", "1"),
            ("SALVAGE_FLIP_STRIDE", "7"),
            ("SALVAGE_CRASH_STRIDE", "1"),
        ],
        weight: 1.0,
    },
    Class {
        name: "metamorphic",
        package: SIM,
        program: "metamorphic",
        args: &[],
        seeds: Seeds::Range("META_SEEDS"),
        least: 2,
        environment: &[],
        weight: 1.0,
    },
    Class {
        name: "kill9",
        package: "vlsm",
        program: "kill9",
        args: &[],
        seeds: Seeds::Count("KILL9", "KILL9_SEED"),
        least: 200,
        environment: &[],
        weight: 1.0,
    },
    Class {
        name: "power cuts",
        package: "vlsm",
        program: "power_cuts",
        args: &[],
        seeds: Seeds::Count("POWER_CUTS", "POWER_CUTS_SEED"),
        least: 100,
        environment: &[("FAILED_SYNCS", "0")],
        weight: 4.0,
    },
    Class {
        name: "failed syncs",
        package: "vlsm",
        program: "power_cuts",
        args: &[],
        seeds: Seeds::Count("FAILED_SYNCS", "POWER_CUTS_SEED"),
        least: 60,
        environment: &[("POWER_CUTS", "0")],
        weight: 2.0,
    },
];

/// Test programs by name.
type Programs = BTreeMap<&'static str, PathBuf>;

/// Runs for `hours` hours and writes the report. Findings are an error, too.
pub fn run(root: &Path, hours: &str) -> Result<String, String> {
    let hours: f64 = hours.parse().map_err(|_| format!("{hours} is no number of hours"))?;
    let length = Duration::try_from_secs_f64(hours * 3600.0)
        .map_err(|_| format!("{hours} is no number of hours"))?;
    let folder = root.join("target/long");
    std::fs::create_dir_all(folder.join("findings")).map_err(|e| format!("target/long: {e}"))?;
    let state = State::resume(&folder.join("state.txt"), &commit(root)?)?;
    let programs = build(root)?;
    let begun = Instant::now();
    let run = Run { folder, programs, begun, until: begun + length, before: state.took };
    let table = Mutex::new(Table { state, running: BTreeSet::new() });
    std::thread::scope(|scope| -> Result<(), String> {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(|| lane(&run, &table))).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or(Err("a lane broke".into())))
    })?;
    let state = table.into_inner().unwrap_or_else(PoisonError::into_inner).state;
    let text = write_report(&run.folder, &state)?;
    println!("{text}");
    match state.findings.len() {
        0 => Ok("long: ok, report in target/long/report.md".to_owned()),
        n => Err(format!("long: {n} findings, see target/long/report.md")),
    }
}

/// The constants of a run.
struct Run {
    folder: PathBuf,
    programs: Programs,
    begun: Instant,
    until: Instant,
    /// Seconds that the earlier runs on this commit took.
    before: f64,
}

/// The state that the lanes share.
struct Table {
    state: State,
    /// The classes that have a round just now.
    running: BTreeSet<&'static str>,
}

/// One round after the other, until no class has one that fits.
fn lane(run: &Run, table: &Mutex<Table>) -> Result<(), String> {
    let lock = || -> MutexGuard<'_, Table> { table.lock().unwrap_or_else(PoisonError::into_inner) };
    loop {
        let left = run.until.saturating_duration_since(Instant::now());
        let mut shared = lock();
        let Some(class) = next(&shared.state, &shared.running, left) else { return Ok(()) };
        shared.running.insert(class.name);
        let had = shared.state.class(class.name);
        drop(shared);
        let (round, finding) = round(&run.folder, class, &run.programs[class.program], &had)?;
        let mut shared = lock();
        shared.running.remove(class.name);
        shared.state.add(class.name, &round);
        shared.state.findings.extend(finding);
        shared.state.took = run.before + run.begun.elapsed().as_secs_f64();
        shared.state.write(&run.folder.join("state.txt"))?;
        write_report(&run.folder, &shared.state)?;
    }
}

fn write_report(folder: &Path, state: &State) -> Result<String, String> {
    let text = report::text(state, CLASSES.iter().map(|class| class.name));
    let path = folder.join("report.md");
    std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text)
}

/// The commit, and what of it was changed.
fn commit(root: &Path) -> Result<String, String> {
    let git = |args: &[&str]| -> Result<String, String> {
        let output = Command::new("git").current_dir(root).args(args).output();
        let output = output.map_err(|e| format!("git: {e}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    };
    let head = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["diff", "HEAD"])?;
    if changed.is_empty() {
        return Ok(head);
    }
    Ok(format!("{head} with changes {:016x}", state::hash(changed.as_bytes())))
}

/// Builds the test programs, and says where they are.
fn build(root: &Path) -> Result<Programs, String> {
    let mut programs = Programs::new();
    for class in CLASSES {
        if programs.contains_key(class.program) {
            continue;
        }
        println!("long: building {}", class.program);
        let mut command = Command::new("cargo");
        command.args(["test", "--release", "--locked", "--no-run", "--package", class.package]);
        command.args(["--test", class.program]).current_dir(root);
        let output = command.output().map_err(|e| format!("cargo: {e}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let found = said.lines().find_map(executable);
        match found.filter(|_| output.status.success()) {
            Some(path) => programs.insert(class.program, root.join(path)),
            None => return Err(format!("{} does not build:\n{said}", class.program)),
        };
    }
    Ok(programs)
}

/// The path in cargo's line `Executable tests/x.rs (path)`.
fn executable(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("Executable ")?;
    rest.split_once('(')?.1.strip_suffix(')')
}

/// The class that has had the least time for its weight, of those that do not run just now and
/// whose next round fits.
fn next(state: &State, running: &BTreeSet<&'static str>, left: Duration) -> Option<&'static Class> {
    let open = CLASSES.iter().filter(|class| {
        let had = state.class(class.name);
        let over = had.rounds > 0 && matches!(class.seeds, Seeds::Once);
        let fits = had.longest_round() <= left.as_secs_f64() * 1.2;
        let is_open = fits && !over && had.skipped.is_empty();
        !left.is_zero() && is_open && !running.contains(class.name)
    });
    let share = |class: &Class| state.class(class.name).seconds / class.weight;
    open.min_by(|a, b| share(a).total_cmp(&share(b)))
}

/// Returns the number of seeds for a round of about [`ROUND`], by the time that earlier seeds took.
fn size(class: &Class, had: &ClassState) -> u64 {
    if had.seeds == 0 || had.seconds == 0.0 || matches!(class.seeds, Seeds::One(_) | Seeds::Once) {
        return class.least;
    }
    let fitting = had.seeds as f64 / had.seconds * ROUND.as_secs_f64();
    (fitting as u64).clamp(class.least, class.least * 1_000)
}

/// One round of a class that had these before: what it did, and what it found.
fn round(
    folder: &Path,
    class: &Class,
    program: &Path,
    had: &ClassState,
) -> Result<(ClassState, Option<Finding>), String> {
    let first = FIRST_SEED + had.seeds;
    let count = size(class, had);
    let seeds = format!("{first}..{}", first + count);
    let mut command = Command::new(program);
    command.args(class.args).args(["--nocapture", "--test-threads=1"]);
    command.envs(class.environment.iter().copied());
    match class.seeds {
        Seeds::Range(variable) => command.env(variable, &seeds),
        Seeds::One(variable) => command.env(variable, first.to_string()),
        Seeds::Count(count_of, seed) => {
            command.env(count_of, count.to_string()).env(seed, first.to_string())
        }
        Seeds::Once => &mut command,
    };
    println!("long: {} {seeds}", class.name);
    let begun = Instant::now();
    let output = folder.join(format!("output-{}.txt", class.name.replace(' ', "-")));
    let ended = run_into(&mut command, &output)?;
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = std::fs::read(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    let said = String::from_utf8_lossy(&bytes);
    let mut now = ClassState { rounds: 1, seeds: count, seconds, ..ClassState::default() };
    now.longest = seconds;
    now.counts = counts(&said);
    let mut finding = None;
    if let Err(why) = ended {
        let name = format!("findings/{}-{first}.txt", class.name.replace(' ', "-"));
        let kept = folder.join(&name);
        std::fs::copy(&output, &kept).map_err(|e| format!("{}: {e}", kept.display()))?;
        println!("long: FOUND {} {seeds}: {why}, see target/long/{name}", class.name);
        let class = class.name.to_owned();
        finding = Some(Finding { class, seeds, file: name, what: first_panic(&said, why) });
    } else if let Some(line) = said.lines().find(|line| line.starts_with("SKIPPED"))
        && now.counts.values().all(|count| *count == 0)
    {
        println!("long: {line}");
        (now.skipped, now.rounds, now.seeds) = (line.to_owned(), 0, 0);
    }
    now.left_out = said.lines().filter(|l| l.starts_with("SKIPPED")).map(str::to_owned).collect();
    Ok((now, finding))
}

/// Runs a program, its output into a file. The inner error says how it failed.
fn run_into(command: &mut Command, output: &Path) -> Result<Result<(), String>, String> {
    let file = File::create(output).map_err(|e| format!("{}: {e}", output.display()))?;
    let other = file.try_clone().map_err(|e| format!("{}: {e}", output.display()))?;
    command.stdin(Stdio::null()).stdout(file).stderr(other);
    let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let until = Instant::now() + HANG;
    loop {
        match child.try_wait().map_err(|e| format!("{command:?}: {e}"))? {
            Some(status) if status.success() => return Ok(Ok(())),
            Some(status) => return Ok(Err(status.to_string())),
            None if Instant::now() > until => {
                child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string())?;
                return Ok(Err(format!("no end after {} s", HANG.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Adds up the counts in a test's output, from its lines `counts: name=number, name=number`.
fn counts(said: &str) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for line in said.lines() {
        // The name of the test may stand before it.
        let Some((_, counts)) = line.split_once("counts: ") else { continue };
        for count in counts.split(", ") {
            let Some((name, number)) = count.rsplit_once('=') else { continue };
            let Ok(number) = number.trim().parse::<u64>() else { continue };
            *sum.entry(name.to_owned()).or_default() += number;
        }
    }
    sum
}

/// Returns the message of the first panic in a failed test's output, or `otherwise` if there is
/// none.
fn first_panic(said: &str, otherwise: String) -> String {
    let mut lines = said.lines().skip_while(|line| !line.contains("panicked at"));
    lines.nth(1).map_or(otherwise, |line| line.chars().take(300).collect())
}
