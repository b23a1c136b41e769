//! The locks of a `TransactionDB`: a key belongs to one transaction until it ends.
//!
//! A transaction that needs the key of another transaction waits, and fails when its time is over.
//! So do two transactions that wait for each other, because deadlocks are not detected. The locks
//! are in memory: a process that dies holds none.

use crate::call::Outcome;
use crate::status::{Failure, Kind};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A key of a column family.
pub(crate) type Key = (u32, Vec<u8>);

/// The locks of a store.
#[derive(Default)]
pub(crate) struct Locks {
    held: Mutex<HashMap<Key, u64>>,
    freed: Condvar,
    last: AtomicU64,
}

impl Locks {
    /// A number for a transaction.
    pub(crate) fn owner(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    /// Locks a key, and waits for it; without a limit, for as long as it takes.
    pub(crate) fn lock(&self, owner: u64, key: &Key, limit: Option<Duration>) -> Outcome {
        let mut held = self.held.lock();
        #[allow(clippy::disallowed_methods)]
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            match held.get(key) {
                None => {
                    held.insert(key.clone(), owner);
                    return Ok(());
                }
                Some(other) if *other == owner => return Ok(()),
                Some(_) => {}
            }
            match until {
                None => self.freed.wait(&mut held),
                Some(until) => {
                    let over = self.freed.wait_until(&mut held, until).timed_out();
                    if over && held.get(key).is_some_and(|other| *other != owner) {
                        let what = "Timeout waiting to lock key";
                        return Err(Failure::new(Kind::TimedOut, what));
                    }
                }
            }
        }
    }

    /// Unlocks keys of a transaction.
    pub(crate) fn unlock<'a>(&self, owner: u64, keys: impl IntoIterator<Item = &'a Key>) {
        let mut held = self.held.lock();
        for key in keys {
            if held.get(key) == Some(&owner) {
                held.remove(key);
            }
        }
        self.freed.notify_all();
    }
}
