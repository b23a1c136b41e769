//! The statistics as a file in the store's folder, while another process asks for them.
//!
//! A process cannot see the memory of another one, but `vlsm top` shows a store that another
//! process writes.
//! 1. A process that wants to see the statistics writes the wall-clock time, in milliseconds since
//!    the Unix epoch, into the file [`WANTED`]. It does so again and again, because a request is
//!    forgotten after [`WANTED_FOR`].
//! 2. The system tells the store of a new request (`Fs::watch`). While it holds, a background
//!    thread of the store writes the statistics each second ([`PERIOD`]) to a temporary file, which
//!    it renames to [`PAGE`]: a reader always finds a whole page. Where the system cannot tell, the
//!    thread looks for a request each second.
//! 3. When the request is forgotten, and at the close, the store removes the page. What a crash
//!    leaves behind is removed by the next open.
//!
//! The content is text as Prometheus scrapes it. It begins with the time of the page and with the
//! process; its histograms are as fine as the store's, without their empty buckets.
//!
//! No operation depends on these files: they are never synced, and a failed call is tried again a
//! second later and is otherwise ignored. Without a request nothing is done, or one look for a name
//! a second. A store that is opened read-only publishes nothing.
//!
//! Threads and locks: a look runs on a thread for file calls. `there` is held meanwhile, so it is
//! only ever taken with `try_lock`.

use crate::sync::Mutex;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use vlsm_disk::fs::{Fs, OpenOptions, Watch, read_all};
use vlsm_disk::{Condition, Env};

/// The statistics.
pub(crate) const PAGE: &str = "STATS.prom";
/// The file that becomes the page.
const PAGE_TMP: &str = "STATS.prom.tmp";
/// The request for the statistics.
pub(crate) const WANTED: &str = "STATS.wanted";
/// All these files.
pub(crate) const FILES: [&str; 3] = [PAGE, PAGE_TMP, WANTED];

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// The time for which a request holds.
const WANTED_FOR: Duration = Duration::from_secs(10);
/// A request is not longer.
const WANTED_LEN: usize = 64;

/// The part of the store that knows the statistics.
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
    /// The watch for requests; none inside where the system cannot tell.
    watch: OnceLock<Option<Watch>>,
    /// The number of requests that the watch has told of.
    requests: Arc<AtomicU64>,
    /// That number when a look last found no request in force and no page left to remove.
    answered: AtomicU64,
}

impl Published {
    /// Names the part that knows the statistics. Until then nothing is published.
    pub fn attach(&self, above: Weak<dyn Figures>) {
        assert!(self.above.set(above).is_ok(), "attached once, when the store is composed");
    }

    /// Has a worker woken for each request from now on, if the system can tell.
    pub fn watch(&self, env: &dyn Env, dir: &Path, work: &Arc<dyn Condition>) {
        let begin = || {
            // There may be one from before.
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

    /// Whether a look is due, which the caller then starts; and the time of the next one, if there
    /// is one without a request.
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
        // The first call only begins the count: a store that was just opened has other work.
        (next > 0 && swapped.is_ok(), after)
    }

    /// Writes a page if it is wanted, and removes one that is wanted no more.
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
        // A page that cannot be written is as if nobody had asked.
        let _ = write(&**env.fs(), dir, &page);
    }

    /// Removes the page, because the store is being closed. No look is under way any more.
    pub fn end(&self, env: &dyn Env, dir: &Path) {
        if let Some(mut there) = self.there.try_lock() {
            remove(&**env.fs(), dir, &mut there);
        }
    }
}

/// Whether there is a request that still holds.
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

/// Removes what the store has made. What cannot be removed is left to the next look, or open.
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
