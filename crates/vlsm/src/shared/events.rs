//! Sends events to the file LOG and to the listener that was given at open.
//!
//! A listener that panics gets no further events: its state may be inconsistent, and it might panic
//! every time. The LOG records the panic; the emitter of the event is not affected.
//!
//! The LOG is text, with one line for each event, stamped with the wall clock. At [`LOG_BYTES_MAX`]
//! it becomes LOG.old and a new LOG begins. It is never synced, and its errors fail no operation.

use crate::shared::callback::call;
use crate::shared::counters::Counter;
use crate::sync::Mutex;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vlsm_core::event::{Callback, Event};
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::{Env, File};

/// A LOG file is rotated at this length.
pub const LOG_BYTES_MAX: u64 = 4 << 20;
/// Lines kept in memory until they are written.
const LINES_MAX: usize = 10_000;

/// Receives every event, on the thread that emits it. It must return quickly and must not call a
/// store. A listener that panics gets no further events. The LOG records the panic, and
/// [`Stats::callback_panics`](crate::Stats::callback_panics) counts it.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// The receivers of events.
pub(crate) struct Events {
    env: Arc<dyn Env>,
    listener: Option<Listener>,
    /// Whether the listener has panicked.
    listener_off: AtomicBool,
    /// Panics of all user code.
    panics: AtomicU64,
    log: Option<LogFile>,
    /// Bytes that were written to LOG files.
    written: Counter,
}

struct LogFile {
    path: PathBuf,
    lines: Mutex<Vec<String>>,
    /// Only taken with `try_lock`, because it is held while the file is written.
    file: Mutex<Option<(Arc<dyn File>, u64)>>,
}

impl Events {
    pub fn new(env: Arc<dyn Env>, listener: Option<Listener>, log_in: Option<&Path>) -> Self {
        let log = log_in.map(|dir| LogFile {
            path: dir.join("LOG"),
            lines: Mutex::default(),
            file: Mutex::default(),
        });
        let (listener_off, panics) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { env, listener, listener_off, panics, log, written: Counter::default() }
    }

    /// Bytes that were written to LOG files.
    pub fn log_bytes(&self) -> u64 {
        self.written.get()
    }

    /// Sends an event to all receivers. It makes no file call: [`Events::write_log`] writes the
    /// line into the LOG later.
    pub fn emit(&self, event: Event) {
        if let Some(listener) = &self.listener
            && !self.listener_off.load(Ordering::Acquire)
            && call(|| listener(&event)).is_err()
        {
            self.switch_listener_off();
        }
        self.note(&event);
    }

    /// Counts a panic of user code.
    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Release);
    }

    /// The number of panics of user code.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Acquire)
    }

    #[cold]
    fn switch_listener_off(&self) {
        // Another thread may have panicked in the listener at the same time.
        let first = !self.listener_off.swap(true, Ordering::AcqRel);
        self.count_panic();
        if first {
            let (callback, name, keyspace) = (Callback::Listener, String::new(), String::new());
            self.note(&Event::CallbackPanicked { callback, name, keyspace });
        }
    }

    /// Queues a line for the LOG.
    fn note(&self, event: &Event) {
        let Some(log) = &self.log else { return };
        let line = format!("{} {event}\n", stamp(self.env.wall_clock().as_millis()));
        let mut lines = log.lines.lock();
        if lines.len() < LINES_MAX {
            lines.push(line);
        }
    }

    /// Whether lines wait to be written.
    pub fn log_is_behind(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.lines.lock().is_empty())
    }

    /// Appends queued lines to the LOG. It makes file calls, so it never runs on a client's or a
    /// worker's thread.
    pub fn write_log(&self) {
        let Some(log) = &self.log else { return };
        let Some(mut file) = log.file.try_lock() else { return };
        let lines = std::mem::take(&mut *log.lines.lock());
        if lines.is_empty() {
            return;
        }
        let full = file.as_ref().is_some_and(|(_, len)| *len >= LOG_BYTES_MAX);
        if file.is_none() || full {
            *file = None;
            *file = self.new_log(&log.path);
        }
        if let Some((file, len)) = &mut *file {
            let text = lines.concat();
            if file.write_at(text.as_bytes(), *len).is_ok() {
                *len += text.len() as u64;
                self.written.add(text.len() as u64);
            }
        }
    }

    fn new_log(&self, path: &Path) -> Option<(Arc<dyn File>, u64)> {
        let fs = self.env.fs();
        if fs.exists(path).ok()? {
            fs.rename(path, &path.with_extension("old")).ok()?;
        }
        Some((fs.open(path, OpenOptions::CREATE).ok()?, 0))
    }
}

/// Milliseconds since the Unix epoch as a UTC date and time.
fn stamp(millis: u128) -> String {
    let (days, rest) = ((millis / 86_400_000) as i64, millis % 86_400_000);
    // Civil date from days since 1970-01-01 (proleptic Gregorian calendar, eras of 400 years).
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let mut text = String::with_capacity(24);
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, ms) = (rest / 1000 % 60, rest % 1000);
    let _ =
        write!(text, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z");
    text
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    #[test]
    fn stamps_are_utc_dates() {
        assert_eq!(super::stamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(super::stamp(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(super::stamp(1_735_689_599_999), "2024-12-31T23:59:59.999Z");
    }
}
