//! Publishes the statistics as a file in the store's folder, while another process requests them.
//!
//! `vlsm top` uses this file to show a store that another process writes.
//! 1. A process that requests the statistics writes the wall-clock time, in milliseconds since the
//!    Unix epoch, into the file [`WANTED`]. It repeats this, because a request expires after
//!    [`WANTED_FOR`].
//! 2. The system notifies the store of a new request (`Fs::watch`). Until the request expires, a
//!    background thread of the store writes the statistics each second ([`PERIOD`]) to a temporary
//!    file and renames it to [`PAGE`], so a reader always finds a complete page. If the system has
//!    no such notification, the thread checks for a request each second.
//! 3. When the request expires, and at the close, the store removes the page. The next open removes
//!    files that a crash left.
//!
//! The content is text in the format of Prometheus. It begins with the time of the page and the
//! process; its histograms have the store's full resolution, without empty buckets.
//!
//! No operation depends on these files: they are never synced, and a failed call is only retried a
//! second later. Without a request there is no work, except one check for a name each second if
//! there is no notification. A store that is opened read-only publishes nothing.
//!
//! Threads and locks: a look runs on a thread for file calls. It holds `there` meanwhile, so this
//! lock is only taken with `try_lock`.

use crate::sync::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use vlsm_disk::fs::{Fs, OpenOptions, Watch, read_all};
use vlsm_disk::{Condition, Env};

/// The file with the statistics.
pub(crate) const PAGE: &str = "STATS.prom";
/// The temporary file that is renamed to the page.
const PAGE_TMP: &str = "STATS.prom.tmp";
/// The file with the request.
pub(crate) const WANTED: &str = "STATS.wanted";
/// All these files.
pub(crate) const FILES: [&str; 3] = [PAGE, PAGE_TMP, WANTED];

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// The time for which a request holds.
const WANTED_FOR: Duration = Duration::from_secs(10);
/// The most bytes of a valid request.
const WANTED_LEN: usize = 64;

/// The part of the store that provides the statistics.
pub(crate) trait Figures: Send + Sync {
    /// The page as of now.
    fn page(&self) -> String;
}

/// The state of the published statistics.
#[derive(Default)]
pub(crate) struct Published {
    above: OnceLock<Weak<dyn Figures>>,
    /// The time of the next look, in microseconds.
    next: AtomicU64,
    /// Whether the store has made a page.
    there: Mutex<bool>,
    /// The watch for requests; the inner value is none if the system has no notification.
    watch: OnceLock<Option<Watch>>,
    /// The number of requests that the watch has reported.
    requests: Arc<AtomicU64>,
    /// The value of `requests` when a look last found no valid request and no page to remove.
    answered: AtomicU64,
}

impl Published {
    /// Sets the part that provides the statistics. Until then nothing is published.
    pub fn attach(&self, above: Weak<dyn Figures>) {
        assert!(self.above.set(above).is_ok(), "attached once, when the store is composed");
    }

    /// From now on each request wakes a worker, if the system has a notification for it.
    pub fn watch(&self, env: &dyn Env, dir: &Path, work: &Arc<dyn Condition>) {
        let begin = || {
            // A request may already exist.
            self.requests.fetch_add(1, Ordering::Relaxed);
            let (requests, work) = (self.requests.clone(), work.clone());
            let changed = move || {
                requests.fetch_add(1, Ordering::Relaxed);
                work.notify();
            };
            env.fs().watch(&dir.join(WANTED), Arc::new(changed))
        };
        self.watch.get_or_init(begin);
    }

    /// Whether a look is due, which the caller then starts, and the time of the next look, if one
    /// is due without a new request.
    pub fn due(&self, now: Duration) -> (bool, Option<Duration>) {
        let watched = self.watch.get().is_some_and(Option::is_some);
        let answered = self.answered.load(Ordering::Relaxed);
        if watched && self.requests.load(Ordering::Relaxed) == answered {
            return (false, None);
        }
        let (due, next) = self.due_in_time(now);
        (due, Some(next))
    }

    fn due_in_time(&self, now: Duration) -> (bool, Duration) {
        let (micros, after) = (now.as_micros() as u64, now + PERIOD);
        let next = self.next.load(Ordering::Relaxed);
        if next > micros {
            return (false, Duration::from_micros(next));
        }
        let later = after.as_micros() as u64;
        let swapped = self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed);
        // The first call only starts the clock, because a store that was just opened has other
        // work.
        (next > 0 && swapped.is_ok(), after)
    }

    /// Writes a page if there is a valid request; otherwise removes the page.
    pub fn look(&self, env: &dyn Env, dir: &Path) {
        let Some(mut there) = self.there.try_lock() else { return };
        let requests = self.requests.load(Ordering::Relaxed);
        if !is_wanted(env, dir) {
            remove(&**env.fs(), dir, &mut there);
            if !*there {
                self.answered.store(requests, Ordering::Relaxed);
            }
            return;
        }
        let Some(above) = self.above.get().and_then(Weak::upgrade) else { return };
        let page = above.page();
        drop(above);
        *there = true;
        // A page that cannot be written is skipped.
        let _ = write(&**env.fs(), dir, &page);
    }

    /// Removes the page, because the store is being closed. No look is running any more.
    pub fn end(&self, env: &dyn Env, dir: &Path) {
        if let Some(mut there) = self.there.try_lock() {
            remove(&**env.fs(), dir, &mut there);
        }
    }
}

/// Whether there is a request that has not expired.
fn is_wanted(env: &dyn Env, dir: &Path) -> bool {
    let path = dir.join(WANTED);
    if !env.fs().exists(&path).unwrap_or(false) {
        return false;
    }
    let asked = read_all(&**env.fs(), &path).ok().filter(|text| text.len() <= WANTED_LEN);
    let asked = asked.and_then(|text| String::from_utf8(text).ok()?.trim().parse().ok());
    let asked = asked.map(Duration::from_millis);
    asked.is_some_and(|asked| asked.abs_diff(env.wall_clock()) <= WANTED_FOR)
}

fn write(fs: &dyn Fs, dir: &Path, page: &str) -> std::io::Result<()> {
    let tmp = dir.join(PAGE_TMP);
    if fs.exists(&tmp)? {
        fs.remove(&tmp)?;
    }
    fs.open(&tmp, OpenOptions::CREATE)?.write_at(page.as_bytes(), 0)?;
    fs.rename(&tmp, &dir.join(PAGE))
}

/// Removes the files that the store has created. The next look or open retries files that cannot be
/// removed.
fn remove(fs: &dyn Fs, dir: &Path, there: &mut bool) {
    if !*there {
        return;
    }
    let gone = |name| match fs.remove(&dir.join(name)) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let all = [PAGE, PAGE_TMP].map(gone);
    *there = all.contains(&false);
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn one_look_a_second_is_due_and_none_at_the_open() {
        let (published, at) = (Published::default(), Duration::from_millis);
        assert_eq!(published.due(at(5_000)), (false, Some(at(6_000))));
        assert_eq!(published.due(at(5_999)), (false, Some(at(6_000))));
        assert_eq!(published.due(at(6_300)), (true, Some(at(7_300))));
        assert_eq!(published.due(at(6_301)), (false, Some(at(7_300))));
    }
}
