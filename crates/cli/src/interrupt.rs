//! Ctrl-C in a shell ends the command, not the program.
//!
//! 1. The shell listens once ([`listen`]) and resets the flag before each command ([`reset`]).
//! 2. Long commands check the flag between two records ([`check`]).
//! 3. A second Ctrl-C during one command ends the program, because some work, such as a compaction,
//!    cannot be interrupted. The store is then as after any crash of the process: nothing is lost.
//!
//! Outside of a shell nothing listens, and Ctrl-C ends the program at once.

use crate::failure::{Failure, Result};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Begins to listen for Ctrl-C.
pub fn listen() -> Result {
    let listening = ctrlc::set_handler(|| {
        if ASKED.swap(true, Relaxed) {
            std::process::exit(130);
        }
    });
    listening.map_err(|error| Failure::new(format!("cannot listen for Ctrl-C: {error}")))
}

/// Forgets an earlier Ctrl-C.
pub fn reset() {
    ASKED.store(false, Relaxed);
}

/// Fails if the user has asked to end the command.
pub fn check() -> Result {
    match ASKED.load(Relaxed) {
        true => Err(Failure::new("interrupted")),
        false => Ok(()),
    }
}
