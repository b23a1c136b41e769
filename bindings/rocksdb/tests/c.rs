//! The library from C: the functions that it exports, programs that call the main functions, also
//! under Valgrind, and a program that is killed.
//!
//! The list of functions is compared with the library, and with the header of RocksDB where cargo
//! has fetched it (the crate `librocksdb-sys`, which the script `suite` fetches).
// Tests use the real file system and clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use common::{fixed, functions, libraries, name, program, run, shared};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn listed() -> BTreeSet<String> {
    functions().iter().map(|line| name(line).to_owned()).collect()
}

#[test]
fn the_library_exports_the_functions_of_the_list_and_no_others() {
    let library = libraries().join("librocksdb.so");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let names = symbols.lines().filter_map(|line| line.rsplit(' ').next());
    let exported: BTreeSet<String> =
        names.filter(|name| name.starts_with("rocksdb_")).map(str::to_owned).collect();
    let listed = listed();
    assert!(listed.len() > 1000, "{}", listed.len());
    let missing: Vec<_> = listed.difference(&exported).collect();
    let extra: Vec<_> = exported.difference(&listed).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, not listed {extra:?}");
}

/// RocksDB's header, if cargo has fetched the version of the list.
fn header() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")))?;
    for registry in std::fs::read_dir(home.join("registry/src")).ok()?.flatten() {
        for entry in std::fs::read_dir(registry.path()).ok()?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let file = entry.path().join("rocksdb/include/rocksdb/c.h");
            if name.starts_with("librocksdb-sys-") && name.ends_with("+11.8.1") && file.exists() {
                return Some(file);
            }
        }
    }
    None
}

#[test]
fn the_list_is_that_of_rocksdbs_header() {
    let Some(header) = header() else {
        println!("SKIPPED: librocksdb-sys is not fetched: run bindings/rocksdb/suite first");
        return;
    };
    let text = std::fs::read_to_string(header).unwrap();
    let mut theirs = BTreeSet::new();
    for declared in text.split("extern ROCKSDB_LIBRARY_API").skip(1) {
        let head = declared.split('(').next().unwrap();
        theirs.insert(head.split_whitespace().last().unwrap().trim_start_matches('*').to_owned());
    }
    let ours = listed();
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let extra: Vec<_> = ours.difference(&theirs).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, not theirs {extra:?}");
}

#[test]
fn the_main_functions_work_from_c() {
    for linked in [shared(), fixed()] {
        let (folder, program) = program("api.c", &linked);
        run(Command::new(program).arg(folder.path()));
    }
}

#[test]
fn stores_of_other_kinds_and_their_reads_work_from_c() {
    let (folder, program) = program("stores.c", &shared());
    run(Command::new(program).arg(folder.path()));
}

#[test]
fn valgrind_finds_no_errors_and_no_leaks() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("SKIPPED: Valgrind is missing: apt-get install valgrind");
        return;
    }
    // A child of `api` has none of its parent's threads, so the memory that these hold is lost
    // there.
    for (source, leaks) in [("stores.c", "definite"), ("api.c", "none")] {
        let (folder, program) = program(source, &shared());
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--fair-sched=yes", "--error-exitcode=9", "--leak-check=full"]);
        valgrind.arg(format!("--errors-for-leak-kinds={leaks}")).arg(program);
        run(valgrind.arg(folder.path()));
    }
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let (folder, program) = program("killed.c", &shared());
    let store = folder.path().join("store");
    for round in 0..20 {
        let mut child = Command::new(&program).arg(&store).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let until = Instant::now() + Duration::from_millis(20 + 7 * round);
        let mut told = lines.next().unwrap().unwrap();
        while Instant::now() < until {
            told = lines.next().unwrap().unwrap();
        }
        child.kill().unwrap();
        // The lines that are still in the pipe were acknowledged before it died. The last may be
        // cut.
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        told = rest.len().checked_sub(2).map_or(told, |at| rest[at].clone());
        child.wait().unwrap();
        run(Command::new(&program).arg(&store).arg(&told));
    }
}
