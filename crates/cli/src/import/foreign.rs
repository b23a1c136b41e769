//! `import --from`: the records of another store, read by another program.
//!
//! The crates of RocksDB, fjall, redb and LMDB are not linked here: RocksDB alone compiles for many
//! minutes. They are in the program `peers` (peers/README.md), which is a workspace of its own.
//!
//! 1. Find the program ([`find`]) and start `peers export KIND PATH` with its output in a pipe.
//! 2. Wait for the first line. If there is none, the store cannot be read: then nothing was opened
//!    or created here.
//! 3. Import the lines, which are records as JSON (`record`), each with its keyspace.
//! 4. The program must end with success: otherwise a missing end of its output would be a silent
//!    loss. If it failed or was killed, the import fails with the last lines of its stderr.
//!
//! If the import fails, the pipe is closed, which ends the program. If it does not end within
//! [`PATIENCE`], it is killed.
//!
//! Threads: one reads stderr, so that the program never blocks on writing it.

use super::target::Target;
use super::{Args, Import};
use crate::failure::{Failure, Result, say};
use crate::lines::{LINE_MAX, Lines};
use crate::progress::Progress;
use crate::record::{Format, Layout};
use crate::store::{CreateArgs, Store, StoreArgs};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vlsm::DEFAULT_KEYSPACE;
use vlsm_policy::names::nearest;

/// The stores whose records can be read.
const KINDS: [&str; 4] = ["rocksdb", "fjall", "redb", "lmdb"];
/// The name of the program, and the variable with its path.
const PROGRAM: &str = "peers";
const VARIABLE: &str = "VLSM_PEERS";
/// The last lines of its stderr that are kept, and the bytes of each.
const KEPT: usize = 10;
const KEPT_BYTES: usize = 2000;
/// The time that the program has to end after its pipe is closed.
const PATIENCE: Duration = Duration::from_secs(5);
/// If the program was killed: the longest time from the end of its output to its own end.
const MOMENT: Duration = Duration::from_millis(300);

/// Options for the records of another store.
#[derive(Debug, clap::Args)]
pub struct FromArgs {
    /// Import the records of another store: rocksdb, fjall, redb or lmdb, and its path
    #[arg(
        long,
        num_args = 2,
        value_names = ["KIND", "PATH"],
        conflicts_with_all = ["file", "format", "hex", "raw"]
    )]
    from: Vec<OsString>,
    /// Import only this column family, keyspace, table or database; may be repeated. With a single
    /// one, --keyspace chooses the keyspace it goes into
    #[arg(long, value_name = "NAME", requires = "from")]
    only: Vec<String>,
    /// The program that reads other stores [default: $VLSM_PEERS, else `peers` beside this program
    /// or in $PATH]
    #[arg(long, value_name = "PROGRAM", requires = "from")]
    peers: Option<PathBuf>,
}

impl FromArgs {
    /// Starts the program that reads the other store, if one is requested. `keyspace` is the
    /// keyspace of the command.
    pub fn start(&self, keyspace: &str) -> Result<Option<Source>> {
        let (kind, path) = match self.from.as_slice() {
            [] => return Ok(None),
            [kind, path] => (kind, path),
            _ => return Err(Failure::usage("--from names one store: run import for each")),
        };
        let kind = kind.to_string_lossy();
        if !KINDS.contains(&kind.as_ref()) {
            let hint = match nearest(&kind, KINDS.into_iter()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", KINDS.join(", ")),
            };
            return Err(Failure::usage(format!("--from: there is no kind {kind:?}; {hint}")));
        }
        if keyspace != DEFAULT_KEYSPACE && self.only.len() != 1 {
            return Err(Failure::usage(format!(
                "--from puts the records into keyspaces with the names from the other store: leave \
                 out --keyspace, or choose with --only NAME what goes into {keyspace:?}"
            )));
        }
        let path = Path::new(path);
        if let Err(error) = std::fs::metadata(path) {
            return Err(Failure::file("cannot read", path, &error));
        }
        let program = find(self.peers.as_deref(), std::env::var_os(VARIABLE))?;
        Source::start(program, &kind, path, &self.only).map(Some)
    }
}

/// Finds the program: as named, else beside this program, else in the folders of `PATH`.
fn find(named: Option<&Path>, variable: Option<OsString>) -> Result<PathBuf> {
    let (from, program) = match (named, variable.filter(|path| !path.is_empty())) {
        (Some(path), _) => ("--peers", path.to_owned()),
        (None, Some(path)) => (VARIABLE, PathBuf::from(path)),
        (None, None) => {
            let beside = std::env::current_exe().ok();
            let beside = beside.iter().filter_map(|exe| exe.parent()).map(Path::to_owned);
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let found = beside
                .chain(std::env::split_paths(&folders))
                .map(|folder| folder.join(PROGRAM))
                .find(|path| path.is_file());
            return found.ok_or_else(|| {
                Failure::new(format!("there is no program `{PROGRAM}`, which {BUILD}"))
            });
        }
    };
    if program.is_file() {
        // The system would search a name without a folder in PATH.
        return Ok(std::path::absolute(&program).unwrap_or(program));
    }
    let program = program.display();
    Err(Failure::new(format!(
        "{from} names {program}, which is not a program. It must be the one that {BUILD}"
    )))
}

const BUILD: &str = "reads other stores. Build it by peers/build in the source of vlsm (RocksDB \
                     takes many minutes; without it: peers/build --no-default-features), and name \
                     it: --peers peers/target/release/peers, or by VLSM_PEERS";

/// A running program that reads another store.
pub struct Source {
    child: Child,
    /// The command line, for messages.
    told: String,
    output: Option<BufReader<ChildStdout>>,
    errors: Option<JoinHandle<VecDeque<String>>>,
}

impl Source {
    fn start(program: PathBuf, kind: &str, path: &Path, only: &[String]) -> Result<Self> {
        let mut command = Command::new(&program);
        command.arg("export").arg(kind).arg(path);
        command.args(only.iter().flat_map(|name| ["--only", name]));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| Failure::file("cannot start", &program, &error))?;
        let output = child.stdout.take().map(|out| BufReader::with_capacity(1 << 20, out));
        let errors = child.stderr.take().map(|err| std::thread::spawn(move || last_lines(err)));
        let told = format!("{} export {kind} {}", program.display(), path.display());
        Ok(Self { child, told, output, errors })
    }

    /// Waits for the first line.
    ///
    /// # Errors
    /// The program ended without one and failed, or its output cannot be read.
    fn wait_for_output(&mut self) -> Result {
        let output = self.output.as_mut().expect("it is taken later");
        match output.fill_buf() {
            Ok([]) => self.end(),
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::new(format!("cannot read from {}: {error}", self.told))),
        }
    }

    /// Waits for the end of the program. Its pipe is at the end or closed.
    ///
    /// # Errors
    /// The program failed, was killed, or does not end.
    fn end(&mut self) -> Result {
        drop(self.output.take());
        let status = self.wait();
        let lines = self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let lines = lines.iter().map(|line| line.strip_prefix("peers: ").unwrap_or(line));
        match status {
            Some(status) if status.success() => {
                lines.for_each(say);
                Ok(())
            }
            status => {
                let how = how(status);
                let said = lines.map(|line| format!("\n  {line}")).collect::<String>();
                let said = if said.is_empty() { "; it said nothing".to_owned() } else { said };
                Err(Failure::new(format!("{} {how}{said}", self.told)))
            }
        }
    }

    /// The failure of a program that ended too early, which explains a truncated line.
    fn cause(&mut self) -> Option<Failure> {
        match self.wait_for(MOMENT) {
            Some(_) => self.end().err(),
            None => None,
        }
    }

    /// Waits for the end of the program, and kills it if it does not end. Returns the status of a
    /// program that ended by itself.
    fn wait(&mut self) -> Option<ExitStatus> {
        let ended = self.wait_for(PATIENCE);
        if ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        ended
    }

    fn wait_for(&mut self, most: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if started.elapsed() < most => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

/// However the import ends, the program does not keep running.
impl Drop for Source {
    fn drop(&mut self) {
        drop(self.output.take());
        self.wait();
    }
}

fn how(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.signal(), status.code())) {
        Some((Some(signal), _)) => format!("was killed by signal {signal}"),
        Some((None, Some(code))) => format!("failed with exit code {code}"),
        _ => "closed its output but did not end, and was killed".to_owned(),
    }
}

/// Reads stderr to the end, and keeps the last lines.
fn last_lines(stderr: ChildStderr) -> VecDeque<String> {
    let (mut input, mut kept) = (BufReader::new(stderr), VecDeque::new());
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(KEPT_BYTES as u64).read_until(b'\n', &mut line);
        if !read.is_ok_and(|count| count > 0) {
            return kept;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !line.is_empty() {
            kept.push_back(line);
        }
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }
}

/// Imports the lines that the program writes.
pub fn run(args: &Args, mut source: Source, strict: Option<&'static str>) -> Result {
    source.wait_for_output()?;
    let store = open(&args.store)?;
    let mut target = Target::new(store, &args.store.keyspace, true);
    if args.store.keyspace != DEFAULT_KEYSPACE {
        target = target.into_one();
    }
    let output: Box<dyn BufRead> = match source.output.take() {
        Some(output) => Box::new(output),
        None => Box::new(std::io::empty()),
    };
    let told = PathBuf::from(&source.told);
    let import = Import {
        lines: Lines::new(output, LINE_MAX),
        layout: Layout { format: Format::Json, hex: false },
        file: &told,
        strict,
        garbage: Some("that program should write records only; is it of this version of vlsm?"),
        written: 0,
        bad: 0,
        progress: Progress::new(None),
    };
    import.into_store(target, args.output, |outcome| match outcome {
        Ok(()) => source.end(),
        Err(failure) => Err(source.cause().unwrap_or(failure)),
    })
}

/// Opens the store, or creates it, with its keyspace.
fn open(args: &StoreArgs) -> Result<Store> {
    Store::open_to_add(args, CreateArgs { create: true })
}
