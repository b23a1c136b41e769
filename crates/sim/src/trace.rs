//! The events of a machine in order: a hash over all of them, and the last few as text.
//!
//! Two runs are equal exactly if their hashes are equal. The hash covers each event's task, action,
//! object, content and time.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hasher;
use std::time::Duration;
use twox_hash::XxHash3_64;

/// Events kept for reports.
const KEPT: usize = 60;

/// The action of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// The task got the processor.
    Run,
    /// It blocked on a condition.
    Wait,
    /// It notified a condition.
    Notify,
    /// It started a task.
    Spawn,
    /// It waits for a task to end.
    Join,
    /// It ended.
    End,
    /// It drew a random number.
    Random,
    /// It called the file system.
    Io,
    /// The machine lost power.
    Crash,
}

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The task.
    pub task: usize,
    /// The action.
    pub what: What,
    /// The kind of the object or call, by name.
    pub kind: &'static str,
    /// The object or the content, as a number.
    pub detail: u64,
    /// The time.
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
    hash: XxHash3_64,
    last: VecDeque<Entry>,
}

impl Trace {
    /// Records an event.
    pub fn note(&mut self, entry: Entry) {
        self.hash.write(&(entry.task as u64).to_le_bytes());
        self.hash.write(&[entry.what as u8]);
        self.hash.write(entry.kind.as_bytes());
        self.hash.write(&entry.detail.to_le_bytes());
        self.hash.write(&(entry.at.as_nanos() as u64).to_le_bytes());
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(entry);
    }

    /// The hash of all events so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The last events, one per line.
    #[must_use]
    pub fn tail(&self) -> String {
        self.last.iter().map(|entry| format!("{entry}\n")).collect()
    }
}
