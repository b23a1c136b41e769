//! Completions and the manual name every command, and the installed shells accept them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};
use std::process::Command;

#[test]
fn completions_name_every_command() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = world.run(&["completions", shell]).ok();
        for command in vlsm_cli::command().get_subcommands() {
            assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
        }
        assert!(text.contains("salvage-wal"), "{shell} knows options");
        let path = world.file(shell, &text);
        // A shell that is not installed is skipped.
        let Ok(parsed) = Command::new(shell).arg("-n").arg(path).output() else { continue };
        assert!(parsed.status.success(), "{shell}: {parsed:?}");
    }
    world.run(&["completions", "csh"]).fails(2, &["csh", "bash, zsh, fish"]);
    world.run(&["completions"]).fails(2, &["SHELL"]);
}

#[test]
fn bash_completes_a_command_and_an_option() {
    let world = World::new();
    world.file("vlsm.bash", world.run(&["completions", "bash"]).ok());
    let complete = |words: &[&str]| {
        let script = format!(
            "source vlsm.bash; COMP_WORDS=({}); COMP_CWORD={}; _vlsm vlsm '{}' '{}'; echo \
             \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let run = Command::new("bash").arg("-c").arg(script).current_dir(world.path("")).output();
        run.ok().map(|run| String::from_utf8(run.stdout).unwrap())
    };
    // Without bash nothing can be tested.
    let Some(found) = complete(&["vlsm", "keys"]) else { return };
    assert_eq!(found, "keyspaces\n");
    let found = complete(&["vlsm", "scan", "--rev"]).unwrap();
    assert_eq!(found, "--reverse\n");
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let world = World::new();
    let run = world.run(&["man", "new/man1"]);
    let said = run.err.clone();
    assert_eq!(run.ok(), "", "stdout is for data");
    let pages = names(&world.path("new/man1"));
    assert!(said.starts_with(&format!("wrote {} pages", pages.len())), "{said}");
    for command in vlsm_cli::command().get_subcommands().map(clap::Command::get_name) {
        assert!(pages.contains(&format!("vlsm-{command}.1")), "{command}: {pages:?}");
    }
    let page = |name: &str| std::fs::read_to_string(world.path("new/man1").join(name)).unwrap();
    assert!(pages.contains(&"vlsm-dump-wal.1".to_owned()), "{pages:?}");
    let scan = page("vlsm-scan.1");
    for says in [".TH vlsm-scan 1", "vlsm scan", "in key order", "prefix", "Examples:"] {
        assert!(scan.contains(says), "{says}: {scan}");
    }
    assert!(page("vlsm.1").contains("vlsm\\-scan(1)"), "{}", page("vlsm.1"));
    // Again into the same folder, and into a path that is not a folder.
    world.run(&["man", "new/man1"]).ok();
    world.file("plain", "a file");
    world.run(&["man", "plain"]).fails(1, &["plain"]);
}
