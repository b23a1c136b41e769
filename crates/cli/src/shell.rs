//! `shell`: commands on one store, which stays open between them.
//!
//! 1. Read a line: on a terminal with an editor, history and completion (`editor`), else from a
//!    pipe.
//! 2. Split it into words ([`words`]) and insert the store, and the keyspace chosen by `use`.
//! 3. The parser of the program reads the words, and the command runs on the open store as it does
//!    outside of the shell. So no command is implemented twice.
//! 4. On a terminal, print how long it took.
//!
//! An error ends the command, not the shell. Ctrl-C ends the command (`interrupt`), Ctrl-D the
//! shell. From a pipe the exit code is 1 if any command failed.

mod editor;
mod words;

use crate::failure::{Failure, Result, say};
use crate::paint::Paint;
use crate::store::{Access, StoreArgs, open_db};
use crate::{Cli, Command, interrupt};
use clap::{CommandFactory, Parser};
use editor::Input;
use std::path::Path;
use std::time::Instant;
use vlsm::Db;

const EXAMPLES: &str = "\
Examples:
  vlsm shell my-store
  vlsm shell my-store --read-only
  echo 'scan --prefix app' | vlsm shell my-store
  vlsm shell my-store < commands.txt

Commands are those of the program without the store: put apple green, scan --prefix app, stats.
Quote words with spaces: 'a b' or \"a b\". The shell keeps backslashes, for the escapes of keys and
values: \\t, \\xNN. It has three more commands: use NAME (sets the keyspace of the commands that
follow), help and exit. A line that begins with # is a comment.";

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Open the store read-only
    #[arg(long, conflicts_with = "create")]
    read_only: bool,
    /// Create the store if it does not exist
    #[arg(long)]
    create: bool,
    /// Print how long each command took, also if the commands come from a pipe
    #[arg(long)]
    timing: bool,
}

/// Commands that exist only in the shell, with their descriptions.
const OWN: [(&str, &str); 3] = [
    ("use", "use NAME: choose the keyspace of the commands that follow"),
    ("help", "help COMMAND: show the options of a command"),
    ("exit", "exit, or Ctrl-D: end the shell"),
];

/// Commands of the program that the shell does not have, with the reason.
const NOT_HERE: [(&str, &str); 4] = [
    ("shell", "this is one already"),
    ("bench", "it makes a store of its own: run it outside of the shell"),
    ("repair", "the store must not be in use: run it outside of the shell"),
    ("lab", "run it outside of the shell"),
];

/// The state of a shell.
struct Shell {
    args: StoreArgs,
    access: Access,
    /// The store; none only while a command needs it closed.
    db: Option<Db>,
    keyspace: String,
}

/// The shell's next step after a line.
enum Next {
    Continue,
    End,
}

/// Runs a shell until its input ends.
pub fn run(args: Args) -> Result {
    let access = match (args.read_only, args.create) {
        (true, _) => Access::Read,
        (_, true) => Access::Create,
        _ => Access::Write,
    };
    let keyspace = args.store.keyspace.clone();
    let hint = |failure: Failure| match failure {
        Failure::Failed(what) if !args.store.store.exists() => {
            Failure::Failed(format!("{what}, by --create"))
        }
        other => other,
    };
    let db = Some(open_db(&args.store, access).map_err(hint)?);
    let mut shell = Shell { args: args.store, access, db, keyspace: String::new() };
    shell.choose(&keyspace)?;
    interrupt::listen()?;
    let mut input = Input::new()?;
    let timing = args.timing || input.is_terminal();
    if input.is_terminal() {
        say(format_args!("{}: help lists the commands", shell.args.store.display()));
    }
    let mut failed = 0_u64;
    while let Some(line) = input.read(&shell.keyspace, &shell.names())? {
        interrupt::reset();
        let started = Instant::now();
        let is_empty = line.as_ref().is_ok_and(|line| line.trim().is_empty());
        let outcome = line.and_then(|line| shell.line(&line));
        let took = started.elapsed();
        match outcome {
            Ok(Next::End) | Err(Failure::PipeClosed) => break,
            Ok(Next::Continue) => {}
            Err(failure) => {
                failed += 1;
                let _ = failure.report("vlsm");
            }
        }
        if timing && !is_empty {
            say(Paint::Faint.err(format_args!("{:.3} ms", took.as_secs_f64() * 1e3)));
        }
    }
    let terminal = input.is_terminal();
    input.finish();
    if let Some(db) = shell.db.take() {
        db.close()?;
    }
    match failed {
        _ if terminal => Ok(()),
        0 => Ok(()),
        1 => Err(Failure::new("1 command failed")),
        many => Err(Failure::new(format!("{many} commands failed"))),
    }
}

impl Shell {
    /// The names of the keyspaces, for completion.
    fn names(&self) -> Vec<String> {
        self.db.as_ref().map(Db::keyspaces).unwrap_or_default()
    }

    /// Runs a line.
    fn line(&mut self, line: &str) -> Result<Next> {
        let words = words::split(line).map_err(Failure::usage)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => return Ok(Next::Continue),
            ["exit" | "quit", ..] => return Ok(Next::End),
            ["help"] => help()?,
            ["use", name] => self.choose(name)?,
            ["use", ..] => return Err(Failure::usage("use takes the name of a keyspace")),
            words => self.command(words)?,
        }
        Ok(Next::Continue)
    }

    /// Chooses a keyspace.
    fn choose(&mut self, name: &str) -> Result {
        self.reopen()?;
        let names = self.names();
        if !names.iter().any(|known| known == name) {
            return Err(crate::store::no_keyspace(name, names.iter().map(String::as_str)));
        }
        self.keyspace = name.to_owned();
        Ok(())
    }

    /// Runs a command of the program.
    fn command(&mut self, words: &[&str]) -> Result {
        if let Some((name, why)) = NOT_HERE.iter().find(|(name, _)| *name == words[0]) {
            return Err(Failure::usage(format!("the shell has no command {name}: {why}")));
        }
        is_known(words[0])?;
        let words = self.completed(words);
        let parsed = Cli::try_parse_from(std::iter::once("vlsm").chain(words.iter().map(|w| &**w)));
        let mut command = match parsed {
            Ok(cli) => cli.command,
            Err(error) if error.use_stderr() => {
                let text = error.to_string();
                let text = text.trim_end().trim_start_matches("error: ");
                return Err(Failure::Failed(text.to_owned()));
            }
            // Help, which goes to stdout.
            Err(error) => return Ok(error.print()?),
        };
        if matches!(command, Command::Verify(_)) && self.access != Access::Read {
            return self.while_closed(command);
        }
        // A command that gets no open store opens it itself, without the options of the shell.
        if command.store_args().is_some() || matches!(command, Command::Checkpoint(_)) {
            self.reopen()?;
        }
        if let Some(args) = command.store_args() {
            if args.differs() {
                let why = "the store is open already: give --profile, --options, --salvage-wal \
                           and --salvage-ssts to vlsm shell";
                return Err(Failure::usage(why));
            }
            args.opened.clone_from(&self.db);
        }
        if let Command::Checkpoint(args) = &mut command {
            args.opened.clone_from(&self.db);
        }
        crate::run(command)
    }

    /// The words as on the command line of the program: with the store and the keyspace.
    fn completed(&self, words: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let store = self.args.store.to_string_lossy().into_owned();
        let known = Cli::command();
        let Some(command) = known.find_subcommand(words[0]) else { return all };
        if words[0] == "dump" {
            // Its argument is a file of the store, or for a manifest the store.
            match words {
                ["dump", "manifest", rest @ ..] if rest.iter().all(|w| w.starts_with('-')) => {
                    all.push(store);
                }
                ["dump", kind, rest @ ..] if !kind.starts_with('-') => {
                    let file = rest.iter().position(|word| !word.starts_with('-'));
                    if let Some(at) = file.filter(|at| !Path::new(rest[*at]).exists()) {
                        all[at + 2] = Path::new(&store).join(rest[at]).display().to_string();
                    }
                }
                _ => {}
            }
            return all;
        }
        let takes = |id: &str| command.get_arguments().find(|argument| argument.get_id() == id);
        if takes("keyspace").is_some_and(|argument| !argument.get_default_values().is_empty())
            && !words.iter().any(|word| *word == "--keyspace" || word.starts_with("--keyspace="))
        {
            all.insert(1, format!("--keyspace={}", self.keyspace));
        }
        if takes("store").is_some_and(clap::Arg::is_positional) {
            all.insert(1, store);
        }
        all
    }

    /// Runs a command that needs the store closed, and opens the store again.
    fn while_closed(&mut self, command: Command) -> Result {
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        let outcome = crate::run(command);
        if let Err(failure) = self.reopen() {
            // The next command tries again, and reports why that fails.
            let _ = failure.report("vlsm");
        }
        outcome
    }

    /// Opens the store again with the options of the shell, if it is closed.
    fn reopen(&mut self) -> Result {
        if self.db.is_none() {
            let access = match self.access {
                // It exists by now, or was moved away.
                Access::Create => Access::Write,
                access => access,
            };
            self.db = Some(open_db(&self.args, access)?);
        }
        Ok(())
    }
}

/// Fails if the program has no command of this name.
fn is_known(name: &str) -> Result {
    let known = Cli::command();
    let names = known.get_subcommands().map(clap::Command::get_name);
    let mut names: Vec<&str> = names.chain(OWN.map(|(name, _)| name)).collect();
    if names.contains(&name) || name.starts_with('-') {
        return Ok(());
    }
    names.retain(|name| !NOT_HERE.iter().any(|(other, _)| other == name));
    let near = vlsm_policy::names::nearest(name, names.into_iter());
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near:?}?)"));
    Err(Failure::new(format!("there is no command {name:?}{near}: help lists them")))
}

/// Lists the commands.
fn help() -> Result {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let known = Cli::command();
    let own = OWN.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let commands = known.get_subcommands().filter_map(|command| {
        let name = command.get_name();
        let here = !NOT_HERE.iter().any(|(other, _)| *other == name) && name != "help";
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        here.then(|| (name.to_owned(), about))
    });
    for (name, about) in commands.chain(own) {
        writeln!(out, "  {}  {about}", Paint::Heading.out(format_args!("{name:<12}")))?;
    }
    writeln!(out, "Leave out the store: put apple green. help COMMAND shows its options.")?;
    Ok(out.flush()?)
}
