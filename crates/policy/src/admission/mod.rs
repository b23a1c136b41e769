//! *How fast* new bytes are let in.

pub mod cruise;
pub mod open;
pub mod slowdown_stop;

use crate::decision::Admit;
use crate::registry::Entry;
use crate::signals::Signals;

/// All admissions.
pub static REGISTRY: &[Entry<dyn Admission>] = &[
    Entry {
        name: "open",
        what: "nothing is held back until memory is full",
        make: |options| Box::new(open::Open::new(options)),
    },
    Entry {
        name: "slowdown_stop",
        what: "RocksDB's delayed write rate, then stop",
        make: |options| Box::new(slowdown_stop::SlowdownStop::new(options)),
    },
    Entry {
        name: "cruise",
        what: "CruiseDB: the limit follows the watermark of memory",
        make: |options| Box::new(cruise::Cruise::new(options)),
    },
];

/// *How fast*. It may keep state between calls; the time is an argument.
pub trait Admission: Send + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Whether it plans with the device's throughput, which then must be known.
    fn needs_device(&self) -> bool {
        false
    }

    /// Sets the rate of writes until the next call.
    fn decide(&mut self, signals: &Signals) -> Admit;
}
