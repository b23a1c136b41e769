//! The statistics over time: makes readings from pages, and detects when no pages arrive.
//!
//! A reading compares a page with the one at the start of its interval. If the store was reopened
//! in between, its counters start from zero, and a new interval begins.
//!
//! A process that dies leaves its page behind, so an old page proves nothing. The LOCK tells
//! whether the store is open.

use super::page::Page;
use super::reading::Reading;
use super::source::{Holder, Source};
use crate::failure::Result;
use std::time::{Duration, Instant};

/// The intervals that can be chosen, in seconds.
const INTERVALS: [u64; 6] = [1, 2, 5, 10, 30, 60];
/// The time between two requests.
const ASK: Duration = Duration::from_secs(1);
/// A page is due each second. After this time without a new page the process is silent.
const SILENT: Duration = Duration::from_millis(3500);
/// The time that a process may take for its first page after a request.
const ANSWER: Duration = Duration::from_secs(5);
/// A page may come a little early.
const EARLY: f64 = 0.3;

/// Whether the store is open and its pages arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The first reading is not there yet.
    Waiting(Holder),
    /// Pages arrive.
    Live,
    /// A process has the store open, but writes no pages.
    Unanswered(Holder),
    /// A process has the store open, but has not written a page for this long.
    Silent(Holder, Duration),
    /// No process has had the store open for this long.
    Closed(Duration),
}

/// Watches one store.
pub struct Watch {
    /// The store.
    pub source: Source,
    /// Seconds between two readings.
    pub interval: u64,
    /// Whether readings are paused.
    pub paused: bool,
    /// Whether the store is open and its pages arrive.
    pub state: State,
    base: Option<Page>,
    last: Option<Page>,
    asked: Instant,
    /// The time of the last change of the page; at first, of the first request.
    news: Instant,
}

impl Watch {
    /// Starts to watch.
    pub fn new(source: Source, interval: u64) -> Self {
        let (now, state) = (Instant::now(), State::Waiting(source.holder()));
        let (base, last, paused) = (None, None, false);
        Self { source, interval, paused, state, base, last, asked: now, news: now }
    }

    /// Makes the interval longer or shorter.
    pub fn change_interval(&mut self, longer: bool) {
        let mut choice = INTERVALS.into_iter();
        let next = match longer {
            true => choice.find(|seconds| *seconds > self.interval),
            false => choice.rfind(|seconds| *seconds < self.interval),
        };
        self.interval = next.unwrap_or(self.interval);
    }

    /// Renews the request, and looks for a page. Returns a reading when its interval is over.
    ///
    /// # Errors
    /// See [`Source::ask`] and [`Source::look`].
    pub fn step(&mut self, now: Instant) -> Result<Option<Reading>> {
        if now.duration_since(self.asked) >= ASK {
            self.source.ask()?;
            self.asked = now;
        }
        let page = self.source.look()?;
        let is_new = |page: &Page| self.last.as_ref().is_none_or(|last| time(last) != time(page));
        let Some(page) = page.filter(is_new) else {
            self.judge(now);
            return Ok(None);
        };
        // At first, the page of a process that died cannot be told from a new one except by its
        // age.
        if self.last.is_none() && age(&page) > SILENT.as_secs_f64() {
            self.judge(now);
            return Ok(None);
        }
        self.news = now;
        Ok(self.take(page))
    }

    fn take(&mut self, page: Page) -> Option<Reading> {
        self.last = Some(page.clone());
        self.state = State::Live;
        let goes_on = |base: &Page| Reading::continues(base, &page);
        if !self.base.as_ref().is_some_and(goes_on) {
            self.base = Some(page);
            return None;
        }
        let base = self.base.as_ref()?;
        if self.paused || time(&page) - time(base) + EARLY < self.interval as f64 {
            return None;
        }
        let reading = Reading::between(self.source.dir(), base, &page);
        self.base = Some(page);
        Some(reading)
    }

    /// Finds out why there is no new page.
    fn judge(&mut self, now: Instant) {
        let quiet = now.duration_since(self.news);
        let patience = if self.last.is_some() { SILENT } else { ANSWER };
        let was_closed = matches!(self.state, State::Closed(_));
        if quiet < patience && !was_closed {
            return;
        }
        let holder = self.source.holder();
        self.state = match (holder, &self.last) {
            (Holder::Nobody, _) => State::Closed(quiet),
            (holder, None) => State::Unanswered(holder),
            // It was opened again just now.
            (holder, Some(_)) if was_closed => State::Waiting(holder),
            (holder, Some(_)) => State::Silent(holder, quiet),
        };
        if let State::Waiting(_) = self.state {
            (self.news, self.last, self.base) = (now, None, None);
        }
    }
}

/// The wall-clock time of a page, in seconds.
fn time(page: &Page) -> f64 {
    page.value("vlsm_page_timestamp_seconds").unwrap_or(0.0)
}

/// The age of a page in seconds.
fn age(page: &Page) -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    (now.unwrap_or_default().as_secs_f64() - time(page)).abs()
}
