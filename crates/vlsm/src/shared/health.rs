//! The health of the store: whether it accepts writes.
//!
//! ```text
//!            a write refused for want of space
//!   good  ──────────────────────────────────────►  out of space ──┐
//!    ▲  ◄──────────────────────────────────────                   │ anything else that fails
//!    │        there is space again (`space.rs`)                   ▼
//!    └── anything else that fails ───────────────────────────► read-only
//! ```
//!
//! *Out of space*: writes are refused at admission with [`Error::NoSpace`] and have no effect.
//! Writes that were admitted before continue, because the WAL has room for them (`log`).
//!
//! *Read-only*: entered after a failed sync, a failed append to the WAL, damage, or a panic in the
//! background. Writes are refused with the first failure as their cause until the store is
//! reopened. The failed operation is never retried, because the kernel may have marked the lost
//! pages clean.
//!
//! Reads continue in both states. A store that was opened read-only refuses writes from the start.

use crate::shared::events::Events;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, Ordering};
use std::path::PathBuf;
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Error, Result};

const GOOD: u8 = 0;
const OUT_OF_SPACE: u8 = 1;
const READ_ONLY: u8 = 2;
const CLOSED: u8 = 3;
const OPENED_READ_ONLY: u8 = 4;

/// The store's state of health.
pub(crate) struct Health {
    state: AtomicU8,
    cause: Mutex<Option<Arc<Error>>>,
    /// The last file that could not grow.
    full: Mutex<PathBuf>,
    events: Arc<Events>,
}

impl Health {
    pub fn new(events: Arc<Events>, read_only: bool) -> Self {
        let state = if read_only { OPENED_READ_ONLY } else { GOOD };
        let (cause, full) = (Mutex::default(), Mutex::default());
        Self { state: AtomicU8::new(state), cause, full, events }
    }

    /// Checks that new writes are accepted.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            GOOD => Ok(()),
            OUT_OF_SPACE => Err(Error::NoSpace { path: self.full.lock().clone() }),
            _ => self.check_running(),
        }
    }

    /// Checks that admitted writes may continue: the store is neither latched nor closed.
    #[inline]
    pub fn check_running(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            GOOD | OUT_OF_SPACE => Ok(()),
            CLOSED => Err(Error::Closed),
            OPENED_READ_ONLY => Err(Error::OpenedReadOnly),
            _ => Err(self.read_only()),
        }
    }

    /// Checks that reads are answered.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            CLOSED => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// Whether the store is neither out of space nor latched nor closed.
    pub fn is_good(&self) -> bool {
        self.state.load(Ordering::Acquire) == GOOD
    }

    /// Whether the store is neither latched nor closed.
    pub fn is_running(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), GOOD | OUT_OF_SPACE)
    }

    /// Whether the store waits for space.
    #[inline]
    pub fn is_out_of_space(&self) -> bool {
        self.state.load(Ordering::Acquire) == OUT_OF_SPACE
    }

    fn read_only(&self) -> Error {
        let cause = self.cause.lock().clone();
        let unknown = || Arc::new(Error::Internal("the cause is not known".into()));
        Error::ReadOnly { cause: cause.unwrap_or_else(unknown) }
    }

    /// Refuses writes until there is space. Returns true if they were accepted before.
    pub fn run_out(&self, path: PathBuf) -> bool {
        *self.full.lock() = path;
        self.step(GOOD, OUT_OF_SPACE)
    }

    /// Accepts writes again. Returns true if the store waited for space before.
    pub fn resume(&self) -> bool {
        self.step(OUT_OF_SPACE, GOOD)
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Refuses writes from here on. Only the first failure is kept as the cause and emitted as an
    /// event. Returns the error for the failed write.
    pub fn latch(&self, error: Error) -> Error {
        if matches!(error, Error::ReadOnly { .. } | Error::Closed) {
            return error;
        }
        {
            let mut cause = self.cause.lock();
            if cause.is_some() {
                return error;
            }
            *cause = Some(Arc::new(error.clone()));
        }
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            matches!(state, GOOD | OUT_OF_SPACE).then_some(READ_ONLY)
        });
        self.events.emit(Event::BackgroundError { error: error.clone() });
        error
    }

    /// Refuses all calls from here on. Returns false if the store was already closed.
    pub fn close(&self) -> bool {
        self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED
    }

    /// The failure that latched the store, if any.
    pub fn cause(&self) -> Option<Arc<Error>> {
        self.cause.lock().clone()
    }
}
