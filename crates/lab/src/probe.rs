//! The device probe: it measures the latency of single reads from the machine's device while a run
//! goes on.
//!
//! 1. The parent of a run reads a random block of a file of its own every 10 ms, past the page
//!    cache. It is in none of the run's control groups, so a limit on the run's device does not
//!    delay it.
//! 2. The report of a phase has the latencies of the reads during that phase.
//!
//! A shared device may be ten times as slow for seconds or minutes, for every client. A run at such
//! a time measures the neighbours. If the device of a run is not limited, the run's own traffic
//! delays these reads, too.
//!
//! Threads: one reads; another one receives the run's steps.

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use vlsm_measure::clock::{self, Clock};
use vlsm_measure::metrics::{Percentiles, histogram};

/// Time between two reads.
const EVERY: Duration = Duration::from_millis(10);
/// Bytes of a read. A direct read must be aligned to it, in the file and in memory.
const BLOCK: usize = 4096;
/// Blocks of the file: 64 MB.
const BLOCKS: u64 = 16_384;

/// The flag to open past the page cache; `None` if the platform has none.
#[cfg(target_os = "linux")]
const DIRECT: Option<OFlags> = Some(OFlags::DIRECT);
#[cfg(not(target_os = "linux"))]
const DIRECT: Option<OFlags> = None;

/// A file to read from.
pub(crate) struct Probe {
    file: OwnedFd,
    buffer: Vec<u8>,
    random: Xoshiro256PlusPlus,
}

impl Probe {
    /// A probe on the device of a folder. `None` if the device has no room for the file or allows
    /// no direct reads.
    pub fn new(folder: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | DIRECT? | OFlags::CLOEXEC;
        let named = tempfile::Builder::new().prefix("vlsm-lab-probe-").tempfile_in(folder).ok()?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut part = vec![0; BLOCK * 256];
        for _ in 0..BLOCKS / 256 {
            // Random bytes, because a device may compress or deduplicate others.
            random.fill_bytes(&mut part);
            std::io::Write::write_all(&mut named.as_file(), &part).ok()?;
        }
        named.as_file().sync_all().ok()?;
        let file = rustix::fs::open(named.path(), flags, Mode::empty()).ok()?;
        Some(Self { file, buffer: vec![0; 2 * BLOCK], random })
    }

    /// Reads a block. Returns the latency in nanoseconds.
    fn read(&mut self, clock: &Clock) -> Option<u64> {
        let offset = self.random.random_range(0..BLOCKS) * BLOCK as u64;
        let begin = self.buffer.as_ptr().align_offset(BLOCK);
        let block = self.buffer.get_mut(begin..begin + BLOCK)?;
        let before = clock.now();
        let read = rustix::io::pread(&self.file, block, offset).ok()?;
        (read == BLOCK).then(|| clock.now() - before)
    }

    /// Reads for as long as this, or until `stop` is set, while nothing runs.
    pub fn idle(mut self, time: Duration, stop: &AtomicBool) -> Option<Percentiles> {
        let (clock, mut times) = (Clock::start(), histogram());
        while u128::from(clock.now()) < time.as_nanos() && !stop.load(Relaxed) {
            times.saturating_record(self.read(&clock)?);
            clock::sleep(EVERY);
        }
        Percentiles::of(&times)
    }

    /// Reads until `over` is set.
    pub fn watch(mut self, over: &AtomicBool, steps: &Mutex<Steps>) {
        let clock = Clock::start();
        while !over.load(Relaxed) {
            if let Some(nanos) = self.read(&clock) {
                steps.lock().record(nanos);
            }
            clock::sleep(EVERY);
        }
    }
}

/// The latencies of the reads, for each step of the run.
#[derive(Default)]
pub(crate) struct Steps(Vec<(String, Histogram<u32>)>);

impl Steps {
    /// Begins a step: the following reads belong to it.
    pub fn begin(&mut self, name: &str) {
        self.0.push((name.to_owned(), histogram()));
    }

    fn record(&mut self, nanos: u64) {
        if let Some((_, times)) = self.0.last_mut() {
            times.saturating_record(nanos);
        }
    }

    /// The latencies of the last step of this name.
    pub fn of(&self, name: &str) -> Option<Percentiles> {
        let (_, times) = self.0.iter().rev().find(|(step, _)| step == name)?;
        Percentiles::of(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::conditions::too_slow;

    #[test]
    fn reads_are_of_the_step_that_goes_on() {
        let mut steps = Steps::default();
        steps.record(7);
        for (name, nanos) in [("load", 1_000_000), ("a", 90_000), ("settle", 2_000_000)] {
            steps.begin(name);
            (0..3).for_each(|_| steps.record(nanos));
        }
        let a = steps.of("a").expect("there were reads");
        assert!((a.count, a.p99_us.round()) == (3, 90.0), "{a:?}");
        assert!(steps.of("b").is_none());
    }

    #[test]
    fn condition_8_allows_an_idle_device_with_few_slow_reads() {
        let p999 = |slow: u64| {
            let mut steps = Steps::default();
            steps.begin("idle");
            (0..2_000).for_each(|n| steps.record(if n < slow { 6_000_000 } else { 150_000 }));
            too_slow(&steps.of("idle").expect("there were reads")).map(f64::round)
        };
        assert_eq!((p999(1), p999(4)), (None, Some(6.0)));
    }

    #[test]
    fn a_block_is_read_where_the_device_can() {
        // The folder for temporary files may be in memory, so this test does not use it.
        let Some(mut probe) = Probe::new(Path::new(env!("CARGO_MANIFEST_DIR"))) else { return };
        let nanos = probe.read(&Clock::start()).expect("it is read");
        assert!(nanos > 100, "{nanos} ns are no read of a device");
        let idle = probe.idle(EVERY * 5, &AtomicBool::new(false)).expect("they are read");
        assert!((1..=5).contains(&idle.count), "{idle:?}");
    }
}
