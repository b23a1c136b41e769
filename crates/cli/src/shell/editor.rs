//! The lines of a shell: from an editor on a terminal, else from a pipe.
//!
//! The editor has history and completion. The history is `vlsm/history` in the user's state folder
//! (`XDG_STATE_HOME`, otherwise `~/.local/state`), which only the user can read; lines that begin
//! with a space are not kept. Tab completes commands, options, and keyspaces after `use` and
//! `--keyspace`.

use super::{NOT_HERE, OWN};
use crate::Cli;
use crate::failure::{Failure, Result, say};
use crate::paint::Paint;
use clap::CommandFactory;
use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Context, Editor, Helper};
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

/// The lines of history that are kept.
const HISTORY_MAX: usize = 10_000;

/// The source of the lines.
pub enum Input {
    /// A terminal.
    Terminal(Box<Editor<Words, DefaultHistory>>, Option<PathBuf>),
    /// Anything else.
    Pipe,
}

impl Input {
    /// The input of this program.
    pub fn new() -> Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Pipe);
        }
        let failed =
            |error: ReadlineError| Failure::new(format!("cannot read from the terminal: {error}"));
        let mut editor = Editor::new().map_err(failed)?;
        editor.set_completion_type(CompletionType::List);
        editor.set_history_ignore_space(true);
        editor.set_max_history_size(HISTORY_MAX).map_err(failed)?;
        editor.set_helper(Some(Words::default()));
        let history = history_file();
        if let Some(path) = &history {
            // The first time there is no history.
            let _ = editor.load_history(path);
        }
        Ok(Self::Terminal(Box::new(editor), history))
    }

    /// Whether a person types the lines.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(..))
    }

    /// The next line, or the problem with it; none at the end.
    pub fn read(&mut self, keyspace: &str, names: &[String]) -> Result<Option<Result<String>>> {
        let (editor, history) = match self {
            // The lock is not held while a command runs, which may read the input itself.
            Self::Pipe => {
                let mut line = Vec::new();
                let read = io::stdin().lock().read_until(b'\n', &mut line);
                let read = read.map_err(|e| Failure::new(format!("cannot read a command: {e}")))?;
                let line = String::from_utf8(line).map_err(|_| {
                    Failure::usage("a line is not UTF-8: write other bytes as \\xNN or with --hex")
                });
                return Ok((read > 0).then_some(line));
            }
            Self::Terminal(editor, history) => (editor, history),
        };
        if let Some(words) = editor.helper_mut() {
            words.keyspaces = names.to_vec();
        }
        let prompt = format!("{keyspace}> ");
        loop {
            match editor.readline(&prompt) {
                Ok(line) => {
                    let added = editor.add_history_entry(line.as_str()).unwrap_or(false);
                    if let Some(path) = history.as_ref().filter(|_| added)
                        && editor.append_history(path).is_err()
                    {
                        say(format_args!("the history cannot be written to {}", path.display()));
                        *history = None;
                    }
                    return Ok(Some(Ok(line)));
                }
                // Ctrl-C discards the line.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => {
                    return Err(Failure::new(format!("cannot read from the terminal: {error}")));
                }
            }
        }
    }

    /// Ends the line of the prompt.
    pub fn finish(self) {
        if self.is_terminal() {
            say("");
        }
    }
}

/// The file of the history; none if there is no folder for it.
fn history_file() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute("XDG_STATE_HOME");
    let folder = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?.join("vlsm");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// The words that can be completed.
#[derive(Debug, Default)]
pub struct Words {
    keyspaces: Vec<String>,
}

impl Words {
    /// The words that may stand after these.
    fn after(&self, before: &[&str], begun: &str) -> Vec<String> {
        let known = Cli::command();
        let names = known.get_subcommands().map(|command| command.get_name().to_owned());
        let here = names.filter(|name| !NOT_HERE.iter().any(|(other, _)| other == name));
        let own = OWN.iter().map(|(name, _)| (*name).to_owned());
        match before {
            [] => here.chain(own.filter(|name| name != "help")).collect(),
            ["help"] => here.collect(),
            ["use"] | [.., "--keyspace"] => self.keyspaces.clone(),
            [name, rest @ ..] => {
                let Some(mut command) = known.find_subcommand(name) else { return Vec::new() };
                for word in rest {
                    command = command.find_subcommand(word).unwrap_or(command);
                }
                if !begun.starts_with('-') {
                    return command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
                }
                let longs = command.get_arguments().filter_map(clap::Arg::get_long);
                longs.map(|long| format!("--{long}")).chain(["--help".to_owned()]).collect()
            }
        }
    }

    /// The start of the last word, and its possible completions.
    fn completions(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, begun) = line.split_at(start);
        let before: Vec<&str> = before.split_whitespace().collect();
        let mut found = self.after(&before, begun);
        found.retain(|word| word.starts_with(begun));
        found.sort();
        found.dedup();
        (start, found)
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.completions(&line[..at]))
    }
}

impl Highlighter for Words {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _: bool,
    ) -> std::borrow::Cow<'b, str> {
        Paint::Heading.out(prompt).into()
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed() {
        let words = Words { keyspaces: vec!["default".into(), "visits".into()] };
        let found = |line: &str| words.completions(line).1;
        assert_eq!(found("sc"), ["scan"]);
        assert_eq!(found("use "), ["default", "visits"]);
        assert_eq!(found("use v"), ["visits"]);
        assert_eq!(found("get --keyspace d"), ["default"]);
        assert_eq!(found("scan --pre"), ["--prefix"]);
        assert_eq!(found("help comp"), ["compact", "completions"]);
        assert_eq!(found("dump m"), ["manifest"]);
        assert_eq!(found("dump wal --b"), ["--brief"]);
        assert_eq!(found("exi"), ["exit"]);
        assert!(found("").contains(&"put".to_owned()));
        assert!(!found("").contains(&"bench".to_owned()), "it is not in the shell");
        assert!(found("get app").is_empty() && found("nothing --x").is_empty());
        assert_eq!(words.completions("scan --pre").0, 5);
    }
}
