//! *When* each job runs, and with how much bandwidth.

pub mod adoc;
pub mod auto_tuned;
pub mod dlc;
pub mod fifo;
pub mod load;
pub mod priority;
pub mod silk;

use crate::candidate::Candidate;
use crate::decision::Grants;
use crate::registry::Entry;
use crate::signals::{Running, Signals};
use vlsm_core::BytesPerSec;

/// All schedules.
pub static REGISTRY: &[Entry<dyn Schedule>] = &[
    Entry {
        name: "fifo",
        what: "flushes at once, compactions first come first served",
        make: |options| Box::new(fifo::Fifo::new(options)),
    },
    Entry {
        name: "silk",
        what: "SILK: what clients leave of the device; L0 preempts deeper compactions",
        make: |options| Box::new(silk::Silk::new(options)),
    },
    Entry {
        name: "auto_tuned",
        what: "as fifo, under RocksDB's limit that grows and shrinks with the demand",
        make: |options| Box::new(auto_tuned::AutoTuned::new(options)),
    },
    Entry {
        name: "dlc",
        what: "DLC: no compaction of L0 while clients load the device, but for bursts",
        make: |options| Box::new(dlc::Dlc::new(options)),
    },
    Entry {
        name: "adoc",
        what: "ADOC: number of jobs and size of memtables follow what overflows",
        make: |options| Box::new(adoc::Adoc::new(options)),
    },
    Entry {
        name: "priority",
        what: "CruiseDB: what frees memory first, the rest paused meanwhile",
        make: |options| Box::new(priority::Priority::new(options)),
    },
];

/// *When*. It may keep state between calls; the time is an argument.
pub trait Schedule: Send + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Whether it plans with the device's throughput, which then must be known.
    fn needs_device(&self) -> bool {
        false
    }

    /// Selects the candidates that start now, and the bandwidth and pauses of running jobs until
    /// the next call.
    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants;
}

/// The device's bandwidth, for schedules that plan with it: the option, or the least measured
/// throughput if the option is 0. None if unknown. Never less than 1 MB/s, so that shares of it are
/// not zero.
fn device_bandwidth(option: BytesPerSec, signals: &Signals) -> Option<BytesPerSec> {
    let known = if option > BytesPerSec::ZERO { Some(option) } else { signals.device.least() };
    known.map(|rate| rate.max(BytesPerSec(1 << 20)))
}
