//! Jobs from RocksDB's event log: lines of JSON that it writes to its info log.
//!
//! A job has several lines with the same number: its start (with its input bytes), each table that
//! it made, its end. A trivial move is one line. Times are those at which the lines come, on one
//! clock.
//!
//! Threads: RocksDB's own threads call the logger, some of them while they hold its lock, so a line
//! that is not an event is dropped at once.

use parking_lot::Mutex;
use rocksdb::{InfoLogger, LogLevel};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use vlsm_measure::clock::Clock;
use vlsm_measure::report::JobMark;
use vlsm_measure::store::Marks;

/// The most marks that are kept until they are taken.
const MARKS_MAX: usize = 1 << 20;

/// Collects jobs.
pub struct Events {
    clock: Clock,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    running: HashMap<u64, JobMark>,
    marks: Marks,
    widest: u64,
    from_l0: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self { clock: Clock::start(), seen: Mutex::default() }
    }
}

impl Events {
    /// Returns a logger for RocksDB that collects the events of its LOG.
    pub fn logger(self: &Arc<Self>) -> InfoLogger {
        let events = self.clone();
        InfoLogger::new_callback_logger(LogLevel::Info, move |_, line| {
            if let Some((_, event)) = line.split_once("EVENT_LOG_v1 ")
                && let Ok(event) = serde_json::from_str(event)
            {
                let now = events.clock.now() as f64 / 1e9;
                note(&event, now, &mut events.seen.lock());
            }
        })
    }

    /// Takes the jobs that ended since the last call, in seconds of this clock.
    pub fn take(&self, clock: &Clock) -> Marks {
        let ahead = clock.now() as f64 / 1e9 - self.clock.now() as f64 / 1e9;
        std::mem::take(&mut self.seen.lock().marks).shifted(ahead)
    }

    /// Compactions out of L0.
    pub fn l0_compactions(&self) -> u64 {
        self.seen.lock().from_l0
    }

    /// Bytes into the widest compaction.
    pub fn widest(&self) -> u64 {
        self.seen.lock().widest
    }
}

fn note(event: &Value, now: f64, seen: &mut Seen) {
    let number = |name: &str| event[name].as_u64().unwrap_or(0);
    let job = number("job");
    let begun = |kind: &str| JobMark { start: now, kind: kind.to_owned(), ..JobMark::default() };
    let ended = match event["event"].as_str().unwrap_or_default() {
        "flush_started" => {
            seen.running.insert(job, begun("flush"));
            return;
        }
        "compaction_started" => {
            let from = (0..16_u8).find(|level| event.get(format!("files_L{level}")).is_some());
            let read = number("input_data_size");
            seen.widest = seen.widest.max(read);
            let mark = JobMark { from: from.unwrap_or(0), read, ..begun("compact") };
            seen.running.insert(job, mark);
            return;
        }
        "table_file_creation" => {
            if let Some(mark) = seen.running.get_mut(&job) {
                mark.written += number("file_size");
            }
            return;
        }
        "flush_finished" => seen.running.remove(&job),
        "compaction_finished" => seen.running.remove(&job).map(|mark| {
            let to = number("output_level") as u8;
            let kind = if mark.from == to { "merge_within" } else { "compact" };
            JobMark { to, kind: kind.into(), written: number("total_output_size"), ..mark }
        }),
        "trivial_move" => {
            let to = number("destination_level") as u8;
            Some(JobMark { from: to.saturating_sub(1), to, ..begun("trivial_move") })
        }
        _ => return,
    };
    let from_l0 = |mark: &JobMark| mark.kind == "compact" && mark.from == 0;
    seen.from_l0 += u64::from(ended.as_ref().is_some_and(from_l0));
    if let Some(mark) = ended
        && seen.marks.jobs.len() < MARKS_MAX
    {
        seen.marks.jobs.push(JobMark { end: now, ..mark });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_become_jobs() {
        let mut seen = Seen::default();
        let lines = [
            json!({"job": 3, "event": "flush_started", "total_data_size": 900}),
            json!({"job": 4, "event": "compaction_started", "files_L0": [7, 8], "files_L1": [2],
                "input_data_size": 500}),
            json!({"job": 3, "event": "table_file_creation", "file_size": 800}),
            json!({"job": 3, "event": "flush_finished"}),
            json!({"job": 4, "event": "table_file_creation", "file_size": 450}),
            json!({"job": 4, "event": "compaction_finished", "output_level": 1,
                "total_output_size": 450}),
            json!({"job": 5, "event": "trivial_move", "destination_level": 3}),
            json!({"job": 6, "event": "compaction_finished", "output_level": 1}),
        ];
        lines.iter().enumerate().for_each(|(at, line)| note(line, at as f64, &mut seen));
        let jobs = seen.marks.jobs.iter().map(|job| {
            let times = (job.start, job.end);
            (job.kind.as_str(), times, (job.from, job.to), (job.read, job.written))
        });
        let jobs: Vec<_> = jobs.collect();
        assert_eq!(
            jobs,
            [
                ("flush", (0.0, 3.0), (0, 0), (0, 800)),
                ("compact", (1.0, 5.0), (0, 1), (500, 450)),
                ("trivial_move", (6.0, 6.0), (2, 3), (0, 0)),
            ]
        );
        assert_eq!((seen.widest, seen.from_l0, seen.running.len()), (500, 1, 0));
    }
}
