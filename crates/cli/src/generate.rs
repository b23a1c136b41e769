//! `completions` and `man`: the shell completions and the manual. They are generated from the
//! command line itself, so they are never out of date.

use crate::failure::{Failure, Result, say};
use clap::Command;
use clap_mangen::Man;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(vlsm completions bash)               for this shell; in ~/.bashrc for all to come
  vlsm completions zsh > ~/.zfunc/_vlsm         with fpath+=~/.zfunc before compinit in ~/.zshrc
  vlsm completions fish > ~/.config/fish/completions/vlsm.fish";

/// Options of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

const MAN_EXAMPLES: &str = "\
Examples:
  vlsm man man/man1 && man --local-file man/man1/vlsm-scan.1
  vlsm man ~/.local/share/man/man1              then: man vlsm-scan

There is a page for the program (vlsm.1) and one for each command (vlsm-scan.1, vlsm-dump-wal.1).
Pages of the same names are replaced.";

/// Options of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArgs {
    /// Folder for the pages; it is created if it does not exist
    folder: PathBuf,
}

/// Prints the completions.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result {
    use clap_complete::Shell as To;
    let shell = match args.shell {
        Shell::Bash => To::Bash,
        Shell::Zsh => To::Zsh,
        Shell::Fish => To::Fish,
    };
    // The generator panics if it cannot write, so it writes into memory.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "vlsm", &mut text);
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// Writes the pages of the manual.
pub fn man(args: &ManArgs, command: Command) -> Result {
    let failed = |path: &Path, error: &io::Error| Failure::file("cannot write", path, error);
    std::fs::create_dir_all(&args.folder).map_err(|error| failed(&args.folder, &error))?;
    let command = command.disable_help_subcommand(true);
    let mut pages = Vec::new();
    collect("vlsm", &command, &mut pages)?;
    for (name, page) in &pages {
        let path = args.folder.join(format!("{name}.1"));
        std::fs::write(&path, page).map_err(|error| failed(&path, &error))?;
    }
    say(format_args!("wrote {} pages into {}", pages.len(), args.folder.display()));
    Ok(())
}

/// The pages of a command and of those below it, with their names.
fn collect(name: &str, command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result {
    // The synopsis has words, the name of the page has hyphens.
    let words = name.replace('-', " ");
    let titled = command.clone().name(name.to_owned()).bin_name(words).version(crate::VERSION);
    let mut page = Vec::new();
    Man::new(titled).render(&mut page)?;
    pages.push((name.to_owned(), page));
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    below
        .into_iter()
        .try_for_each(|below| collect(&format!("{name}-{}", below.get_name()), below, pages))
}
