//! The machine's device beside a run: what one read takes while the run goes on.
//!
//! 1. The parent of a run reads a random block of a file of its own every 10 ms, past the page
//!    cache. It is in none of the run's control groups, so a limit on the run's device does not
//!    hold it up.
//! 2. What the reads of a phase took is in that phase's report.
//!
//! A device that is shared may be ten times as slow for seconds or for minutes, whoever asks. A run
//! that met such a time measured the neighbours. Where the device of a run is not limited, its own
//! traffic is in these reads, too.
//!
//! Threads: one that reads, and the one that hears of the run's steps.

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
/// Bytes of a read; a direct one begins at a multiple of it, in memory, too.
const BLOCK: usize = 4096;
/// Blocks of the file: 64 MB.
const BLOCKS: u64 = 16_384;

/// Opens past the page cache; none where the platform has no such flag.
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
    /// On the device of a folder. None where it has no room for the file, or no direct reads.
    pub fn new(folder: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | DIRECT? | OFlags::CLOEXEC;
        let named = tempfile::Builder::new().prefix("vlsm-lab-probe-").tempfile_in(folder).ok()?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut part = vec![0; BLOCK * 256];
        for _ in 0..BLOCKS / 256 {
            // What a device might compress or share says little of what it reads otherwise.
            random.fill_bytes(&mut part);
            std::io::Write::write_all(&mut named.as_file(), &part).ok()?;
        }
        named.as_file().sync_all().ok()?;
        let file = rustix::fs::open(named.path(), flags, Mode::empty()).ok()?;
        Some(Self { file, buffer: vec![0; 2 * BLOCK], random })
    }

    /// Reads a block. What that took, in nanoseconds.
    fn read(&mut self, clock: &Clock) -> Option<u64> {
        let offset = self.random.random_range(0..BLOCKS) * BLOCK as u64;
        let begin = self.buffer.as_ptr().align_offset(BLOCK);
        let block = self.buffer.get_mut(begin..begin + BLOCK)?;
        let before = clock.now();
        let read = rustix::io::pread(&self.file, block, offset).ok()?;
        (read == BLOCK).then(|| clock.now() - before)
    }

    /// Reads until it is over.
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

/// What the reads took, step by step of the run.
#[derive(Default)]
pub(crate) struct Steps(Vec<(String, Histogram<u64>)>);

impl Steps {
    /// What is read from now on belongs to this step.
    pub fn begin(&mut self, name: &str) {
        self.0.push((name.to_owned(), histogram()));
    }

    fn record(&mut self, nanos: u64) {
        if let Some((_, times)) = self.0.last_mut() {
            times.saturating_record(nanos);
        }
    }

    /// Of the last step of this name.
    pub fn of(&self, name: &str) -> Option<Percentiles> {
        let (_, times) = self.0.iter().rev().find(|(step, _)| step == name)?;
        Percentiles::of(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_block_is_read_where_the_device_can() {
        // Not in the folder for temporary files: that may be in memory.
        let Some(mut probe) = Probe::new(Path::new(env!("CARGO_MANIFEST_DIR"))) else { return };
        let nanos = probe.read(&Clock::start()).expect("it is read");
        assert!(nanos > 100, "{nanos} ns are no read of a device");
    }
}
