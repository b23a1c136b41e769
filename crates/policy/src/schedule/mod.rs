//! *When* each job runs, and with how much bandwidth.

pub mod adoc;
pub mod auto_tuned;
pub mod dlc;
pub mod fifo;
pub mod gear;
pub mod load;
pub mod priority;
pub mod silk;

use crate::candidate::{Candidate, WithinL0};
use crate::decision::Grants;
use crate::mechanism::registry;
use crate::signals::{Running, Signals};
use vlsm_core::{BytesPerSec, Result};

registry! {
    /// The options of every schedule.
    ScheduleOptions of Schedule:
    fifo = fifo::Fifo,
    silk = silk::Silk,
    auto_tuned = auto_tuned::AutoTuned,
    dlc = dlc::Dlc,
    adoc = adoc::Adoc,
    priority = priority::Priority,
    gear = gear::Gear,
}

/// *When*. It may keep state between calls; the time is an argument.
pub trait Schedule: Send + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Whether it plans with the device's throughput, which then must be known.
    fn needs_device(&self) -> bool {
        false
    }

    /// Refuses a shape that does not propose the merges that it waits for.
    ///
    /// # Errors
    /// [`vlsm_core::Error::InvalidOption`] with the option that needs them.
    fn check(&self, _: WithinL0) -> Result<()> {
        Ok(())
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
