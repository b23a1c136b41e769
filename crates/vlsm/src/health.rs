//! Whether the store still takes writes.
//!
//! A failed append or sync of the WAL or the manifest, a failed job or a panic in the background
//! latches the store: writes are refused with the first failure as their cause until the store is
//! reopened. It is never tried again (the kernel may have marked the lost pages clean). Reads go
//! on. A store that was opened read-only refuses writes from the start.

use crate::events::Events;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use vlsm_core::event::Event;
use vlsm_core::{Error, Result};

const GOOD: u8 = 0;
const READ_ONLY: u8 = 1;
const CLOSED: u8 = 2;
const OPENED_READ_ONLY: u8 = 3;

/// The store's state of health.
pub(crate) struct Health {
    state: AtomicU8,
    cause: Mutex<Option<Arc<Error>>>,
    events: Arc<Events>,
}

impl Health {
    pub fn new(events: Arc<Events>, read_only: bool) -> Self {
        let state = if read_only { OPENED_READ_ONLY } else { GOOD };
        Self { state: AtomicU8::new(state), cause: Mutex::default(), events }
    }

    /// Whether writes are taken.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            GOOD => Ok(()),
            CLOSED => Err(Error::Closed),
            OPENED_READ_ONLY => Err(Error::OpenedReadOnly),
            _ => Err(self.read_only()),
        }
    }

    /// Whether reads are answered.
    #[inline]
    pub fn check_open(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            CLOSED => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// Whether the store is neither latched nor closed.
    pub fn is_good(&self) -> bool {
        self.state.load(Ordering::Acquire) == GOOD
    }

    fn read_only(&self) -> Error {
        let cause = self.cause.lock().clone();
        let unknown = || Arc::new(Error::Internal("the cause is not known".into()));
        Error::ReadOnly { cause: cause.unwrap_or_else(unknown) }
    }

    /// Refuses writes from here on. The first failure is the one that is told. Returns the error
    /// that the failed write is answered with.
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
        let _ = self.state.compare_exchange(GOOD, READ_ONLY, Ordering::AcqRel, Ordering::Acquire);
        self.events.emit(Event::BackgroundError { error: error.clone() });
        error
    }

    /// Refuses everything from here on. False when it was closed already.
    pub fn close(&self) -> bool {
        self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED
    }

    /// The failure that latched the store, if any.
    pub fn cause(&self) -> Option<Arc<Error>> {
        self.cause.lock().clone()
    }
}
