//! What happened on the machine, in order: a hash over everything, and the last few events in
//! words.
//!
//! Two runs are the same run exactly when their hashes are the same. Every event counts: who, what,
//! on which object, with which content, when.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3;

/// Events kept for reports.
const KEPT: usize = 60;

/// What a task did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// Was given the processor.
    Run,
    /// Blocked on a condition.
    Wait,
    /// Notified a condition.
    Notify,
    /// Started a task.
    Spawn,
    /// Waits for a task to end.
    Join,
    /// Ended.
    End,
    /// Drew a random number.
    Random,
    /// Called the file system.
    Io,
    /// The machine lost power.
    Crash,
}

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The task.
    pub task: usize,
    /// What it did.
    pub what: What,
    /// Of what sort, by name.
    pub kind: &'static str,
    /// On which object, or with which content.
    pub detail: u64,
    /// When.
    pub at: Duration,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_nanos() as f64 / 1e3;
        write!(f, "{micros:>12.1} µs  task {:<3} {:?}", self.task, self.what)?;
        if !self.kind.is_empty() {
            write!(f, " {}", self.kind)?;
        }
        write!(f, " {:x}", self.detail)
    }
}

/// The events so far.
#[derive(Default)]
pub struct Trace {
    hash: Xxh3,
    last: VecDeque<Entry>,
}

impl Trace {
    /// Notes an event.
    pub fn note(&mut self, entry: Entry) {
        self.hash.update(&(entry.task as u64).to_le_bytes());
        self.hash.update(&[entry.what as u8]);
        self.hash.update(entry.kind.as_bytes());
        self.hash.update(&entry.detail.to_le_bytes());
        self.hash.update(&(entry.at.as_nanos() as u64).to_le_bytes());
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(entry);
    }

    /// The hash of all events so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.digest()
    }

    /// The last events, one per line.
    #[must_use]
    pub fn tail(&self) -> String {
        self.last.iter().map(|entry| format!("{entry}\n")).collect()
    }
}
