//! An event store with a secondary index: all events in order, and all events of one user.
//!
//! ```text
//! cargo run -p vlsm --example events [FOLDER]
//! ```
//!
//! 1. The key of an event is its number, big-endian, so the order of the keys is that of the
//!    events.
//! 2. The index has a key `user 0x00 number` for each event, and no values. One batch writes the
//!    event and its index entry, so after a crash the store has both or neither.
//! 3. A query reads the index and the events from one snapshot, so both are as of the same moment.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use vlsm::{Batch, Db, Error, Keyspace, KeyspaceOptions, Result, WriteOptions};

/// An event: the user, and the action.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    user: String,
    what: String,
}

/// The events and their index.
struct EventStore {
    db: Db,
    events: Keyspace,
    by_user: Keyspace,
    /// The number of the next event. The lock is held while an event is written, so that the
    /// numbers have no gaps.
    next: Mutex<u64>,
}

impl EventStore {
    fn open(folder: &Path) -> Result<Self> {
        let db = Db::open(folder)?;
        let events = db.create_keyspace("events", KeyspaceOptions::new())?;
        let by_user = db.create_keyspace("by_user", KeyspaceOptions::new())?;
        let next = match events.last()? {
            Some((key, _)) => number(&key)? + 1,
            None => 0,
        };
        Ok(Self { db, events, by_user, next: Mutex::new(next) })
    }

    /// Appends an event and returns its number.
    fn append(&self, event: &Event) -> Result<u64> {
        if event.user.contains('\0') {
            return Err(Error::InvalidArgument("a user's name must not have a zero byte".into()));
        }
        let mut next = self.next.lock().expect("no holder of the lock panics");
        let number = *next;
        let mut batch = Batch::new();
        batch.put(&self.events, number.to_be_bytes(), format!("{}\0{}", event.user, event.what));
        batch.put(&self.by_user, index_key(&event.user, number), "");
        self.db.write(&batch, WriteOptions::default())?;
        *next += 1;
        Ok(number)
    }

    /// The last events of a user, newest first.
    fn of_user(&self, user: &str, count: usize) -> Result<Vec<(u64, Event)>> {
        let now = self.db.snapshot();
        let mut found = Vec::new();
        for pair in now.prefix(&self.by_user, format!("{user}\0")).rev().take(count) {
            let (key, _) = pair?;
            let number = number(&key[user.len() + 1..])?;
            let event = now.get(&self.events, number.to_be_bytes())?;
            found.push((number, decode(&event.expect("a batch writes both"))?));
        }
        Ok(found)
    }

    /// All events from a number on, for a reader that continues after the last event it knows.
    fn since(&self, first: u64) -> impl Iterator<Item = Result<(u64, Event)>> {
        self.events.range(first.to_be_bytes()..).map(|pair| {
            let (key, value) = pair?;
            Ok((number(&key)?, decode(&value)?))
        })
    }
}

fn index_key(user: &str, number: u64) -> Vec<u8> {
    [user.as_bytes(), &[0], &number.to_be_bytes()].concat()
}

fn number(bytes: &[u8]) -> Result<u64> {
    let bytes = bytes.try_into().map_err(|_| strange("a number has another length"))?;
    Ok(u64::from_be_bytes(bytes))
}

fn decode(bytes: &[u8]) -> Result<Event> {
    let text = std::str::from_utf8(bytes).map_err(|_| strange("an event is no text"))?;
    let (user, what) = text.split_once('\0').ok_or_else(|| strange("an event has no user"))?;
    Ok(Event { user: user.to_owned(), what: what.to_owned() })
}

/// The error for a store of another program.
fn strange(what: &str) -> Error {
    Error::InvalidArgument(format!("this is no event store: {what}"))
}

/// Appends events to the store in `folder` and queries them.
pub fn run(folder: &Path) -> Result<String> {
    let store = EventStore::open(folder)?;
    let mut first = None;
    for round in 0..100 {
        for user in ["ada", "adam", "grace"] {
            let event = Event { user: user.to_owned(), what: format!("logged in, {round}") };
            let number = store.append(&event)?;
            first.get_or_insert(number);
        }
    }
    let newest = store.of_user("ada", 2)?;
    assert_eq!(newest[0].1, Event { user: "ada".to_owned(), what: "logged in, 99".to_owned() });
    assert_eq!(newest[1].1.what, "logged in, 98"); // only those of ada, not of adam
    let since: Vec<_> = store.since(first.unwrap_or(0)).collect::<Result<_>>()?;
    assert_eq!(since.len(), 300);
    assert_eq!(store.events.len()?, store.by_user.len()?); // the index agrees with the table

    // The numbers continue when the store is opened again.
    let last = since[299].0;
    store.db.clone().close()?;
    drop(store);
    let store = EventStore::open(folder)?;
    let event = Event { user: "grace".to_owned(), what: "logged out".to_owned() };
    assert_eq!(store.append(&event)?, last + 1);
    assert_eq!(store.of_user("grace", 1)?, [(last + 1, event)]);
    store.db.close()?;
    Ok(format!("{} events since the start, the last one number {}\n", since.len() + 1, last + 1))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| temporary.path().join("store"));
    print!("{}", run(&folder)?);
    Ok(())
}
