//! Temporary errors: the process or the system has no descriptor or memory left for a moment.
//!
//! Such a failed call had no effect, so it is repeated every 5 ms, for half a second. Only then
//! does the store get the error, and treat it as a failure of the device. This is for calls that
//! open something: a failed sync is never repeated, whatever its error.
//!
//! Threads: that of the caller, which blocks meanwhile.

use std::io;
use std::time::Duration;
use vlsm_core::planted::{self, Bug};

/// Too many files are open in this process (`EMFILE`).
pub const NO_DESCRIPTOR: i32 = 24;
/// Too many files are open in the system (`ENFILE`).
pub const NO_SYSTEM_DESCRIPTOR: i32 = 23;
/// The system has no memory left (`ENOMEM`).
pub const NO_MEMORY: i32 = 12;

/// The number of repetitions, and the time between them.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Whether the error is temporary.
fn passes(error: &io::Error) -> bool {
    let passing = [NO_DESCRIPTOR, NO_SYSTEM_DESCRIPTOR, NO_MEMORY];
    error.raw_os_error().is_some_and(|code| passing.contains(&code))
}

/// Makes a call that opens something, and repeats it while its error is temporary.
///
/// # Errors
/// The error of the last call.
pub fn patiently<T>(
    pause: impl Fn(Duration),
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut tried = 0;
    loop {
        let result = call();
        let again = result.as_ref().is_err_and(passes) && tried < TRIES;
        if !again || planted::is(Bug::PassingErrorLatches) {
            return result;
        }
        tried += 1;
        pause(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_what_passes_is_tried_again_and_not_for_ever() {
        let (calls, slept) = (Cell::new(0), Cell::new(Duration::ZERO));
        let failing = |code: i32, times: u32| {
            calls.set(0);
            patiently(
                |span| slept.set(slept.get() + span),
                || {
                    calls.set(calls.get() + 1);
                    match calls.get() > times {
                        true => Ok(()),
                        false => Err(io::Error::from_raw_os_error(code)),
                    }
                },
            )
        };
        for code in [NO_DESCRIPTOR, NO_SYSTEM_DESCRIPTOR, NO_MEMORY] {
            assert!(failing(code, 100).is_ok(), "{code}");
            assert!(failing(code, 101).is_err(), "{code}");
            assert_eq!(calls.get(), 101);
        }
        assert_eq!(slept.get(), PAUSE * 600);
        assert!(failing(5, 1).is_err());
        assert_eq!(calls.get(), 1, "EIO does not pass");
    }
}
