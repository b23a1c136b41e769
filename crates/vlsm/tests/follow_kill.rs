//! A reader beside a process that writes, is killed, and starts again.
//!
//! 1. A child process, this program once more, opens the store and writes batches for ever, with
//!    small memtables, so that files die quickly.
//! 2. The parent catches up again and again, and checks that it sees a prefix that only grows.
//! 3. It kills the child, sees what is left, and starts the next child, which recovers the store
//!    while the reader reads on.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the real process, in real time"
)]

mod ring;
mod tiny;

use ring::{check, number, write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tiny::tiny;
use vlsm::{ByteCount, Db, Error, KeyspaceOptions, Seq};

/// The store of a child process.
const STORE: &str = "FOLLOW_STORE";
const LIVES: u64 = 5;
const LOOKS: u64 = 50;
/// A child that has written nothing after so many looks never will.
const LOOKS_MAX: u64 = 1_000_000;

fn small(path: &Path) -> vlsm::Builder {
    tiny(Db::builder(path), ByteCount::kib(32))
}

fn main() {
    if let Some(path) = std::env::var_os(STORE) {
        return write_for_ever(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    assert!(matches!(Db::open_read_only(&path), Err(Error::Missing { .. })));
    let mut child = start(&path);
    let reader = first(&path);
    let (mut last, mut seq) = (0, Seq::ZERO);
    for life in 0..LIVES {
        let (mut looks, begin) = (0, last);
        // Until the child has written in this life, however long it takes to start.
        while looks < LOOKS || last == begin {
            let now = reader.catch_up().unwrap();
            let shown = if reader.keyspace("other").is_ok() { check(&reader) } else { 0 };
            assert!(now >= seq && shown >= last, "life {life}: {shown} after {last}");
            (seq, last, looks) = (now, shown, looks + 1);
            assert!(looks < LOOKS_MAX, "life {life}: the child writes nothing");
        }
        let before = last;
        child.kill().unwrap();
        child.wait().unwrap();
        seq = reader.catch_up().unwrap();
        last = check(&reader);
        assert!(last >= before);
        assert_eq!(reader.catch_up().unwrap(), seq);
        child = start(&path);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.catch_up().unwrap();
    last = check(&reader);
    // What the reader saw is what a recovery finds.
    let db = small(&path).open().unwrap();
    assert_eq!(check(&db), last);
    assert!(last >= LIVES, "{last}");
    println!("follow_kill: ok, at least {} looks, {last} batches", LIVES * LOOKS);
}

fn start(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(STORE, path).stdin(Stdio::null()).spawn().unwrap()
}

/// The reader, as soon as there is a store.
fn first(path: &Path) -> Db {
    for _ in 0..1_000 {
        match small(path).follow(true).open() {
            Ok(reader) => return reader,
            Err(Error::Missing { .. }) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the child made no store");
}

fn write_for_ever(path: &Path) {
    let db = small(path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    let mut n = db.get("counter").unwrap().map_or(0, |counter| number(&counter));
    loop {
        n += 1;
        write(&db, &other, n);
    }
}
