//! Every option that a text of the two programs names exists in the program.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that reads files")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Options of other programs that texts name.
const OF_OTHERS: [&str; 5] = ["kinds", "local-file", "no-default-features", "package", "release"];

#[test]
fn the_command_line_is_consistent() {
    vlsm_lab::program::command().debug_assert();
}

/// All options of a command and of the commands below it.
fn options(command: &clap::Command, found: &mut BTreeSet<String>) {
    let longs = command.get_arguments().filter_map(clap::Arg::get_long);
    found.extend(longs.map(str::to_owned));
    command.get_subcommands().for_each(|below| options(below, found));
}

/// The options that the string literals of a source file name, without those of its tests.
fn named(source: &str) -> BTreeSet<String> {
    let text = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words =
        code.flat_map(|line| line.split(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '-')));
    let long = words.filter_map(|word| word.strip_prefix("--"));
    let long = long.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    long.map(|name| name.trim_end_matches('-').to_owned()).collect()
}

/// An error, an advice or a help text must not name a missing option.
#[test]
fn every_option_that_a_text_names_is_there() {
    let mut seen = BTreeSet::new();
    let of_the_store = ["core", "disk", "policy", "vlsm", "measure", "cli"];
    options_are_there(vlsm_cli::command(), &of_the_store, &mut seen);
    options_are_there(vlsm_lab::program::command(), &["lab"], &mut seen);
    for option in ["salvage-wal", "skip-damaged", "strict", "path", "keep", "also", "load"] {
        assert!(seen.contains(option), "--{option} is named nowhere: is the search broken?");
    }
    let gone = OF_OTHERS.iter().find(|option| !seen.contains(**option));
    assert_eq!(gone, None, "nothing names it any more");
}

/// The program has every option that these crates name, which are `seen`.
fn options_are_there(mut program: clap::Command, crates: &[&str], seen: &mut BTreeSet<String>) {
    let mut known = BTreeSet::from(["help".to_owned(), "version".to_owned()]);
    program.build();
    options(&program, &mut known);
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = crates.iter().map(|name| all.join(name).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Charts name variables of style sheets.
                folders.extend((!path.ends_with("report/chart")).then_some(path));
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            for option in named(&std::fs::read_to_string(&path).unwrap()) {
                let other = OF_OTHERS.contains(&&option[..]);
                assert!(known.contains(&option) || other, "{}: --{option}", path.display());
                seen.insert(option);
            }
        }
    }
}

#[test]
fn options_in_texts_are_found() {
    let source = "//! --comment\nlet a = \"use --some-option, or --other-\";\n#[cfg(test)] --test";
    assert!(named(source).iter().eq(["other", "some-option"]));
}
