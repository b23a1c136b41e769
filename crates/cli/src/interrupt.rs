//! Signals that ask the program to end, and Ctrl-C in the shell, which ends the command only.
//!
//! Long programs end with a report and remove their data ([`at_end`]). In the shell:
//!
//! 1. The shell listens once (`listen`) and resets the flag before each command (`reset`).
//! 2. Long commands check the flag between two records (`check`).
//! 3. A second Ctrl-C during one command ends the program, because some work, such as a compaction,
//!    cannot be interrupted. The store is then as after any crash of the process: nothing is lost.
//!
//! Other commands do not listen, so a signal ends the program at once.

use crate::failure::{self, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Calls `act` on a thread of its own for each Ctrl-C, and for each SIGTERM, which `timeout` and
/// service managers send.
///
/// # Errors
/// The system refuses to listen, or the thread. The text is for the user.
pub fn at_end(act: impl FnMut() + Send + 'static) -> Result<(), String> {
    at_each(&[SIGINT, SIGTERM], act)
}

fn at_each(signals: &[i32], mut act: impl FnMut() + Send + 'static) -> Result<(), String> {
    let listening = Signals::new(signals).and_then(|mut signals| {
        let listen = move || signals.forever().for_each(|_| act());
        std::thread::Builder::new().name("vlsm-signals".into()).spawn(listen)
    });
    listening.map(drop).map_err(|error| format!("cannot listen for Ctrl-C: {error}"))
}

/// Begins to listen for Ctrl-C.
pub(crate) fn listen() -> failure::Result {
    let listening = at_each(&[SIGINT], || {
        if ASKED.swap(true, Relaxed) {
            std::process::exit(130);
        }
    });
    listening.map_err(Failure::new)
}

/// Forgets an earlier Ctrl-C.
pub(crate) fn reset() {
    ASKED.store(false, Relaxed);
}

/// Fails if the user has asked to end the command.
pub(crate) fn check() -> failure::Result {
    match ASKED.load(Relaxed) {
        true => Err(Failure::new("interrupted")),
        false => Ok(()),
    }
}
