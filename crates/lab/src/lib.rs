//! The laboratory: workloads, drivers, metrics and reports.
//!
//! ```text
//! workload  what is asked: mixes, key distributions, keys and values
//! arrivals  when it is asked: closed loop, or open loop with due times
//! store     who answers: the engine, or nothing at all (the driver's own floor)
//! trace     a recorded trace as a workload
//! engine    the vLSM engine as such a store
//! driver    client threads between the three; counts every second
//! metrics   histograms, series, stalls      process  CPU, memory and device bytes of this process
//! spec      a run as plain values      scale  one factor for all its sizes
//! limits    device and memory of this process held to a run's limits
//! probe     the device beside a run: what a read takes whoever asks
//! report    all of it with its method, as a table and as JSON
//! ```
//!
//! A figure without its method is not a figure: a report carries machine, sizes, options, how the
//! data got there and what the driver itself costs.

pub mod arrivals;
pub mod campaign;
pub mod child;
pub mod clock;
pub mod driver;
pub mod engine;
pub mod figures;
pub mod limits;
pub mod metrics;
mod probe;
pub mod process;
pub mod report;
pub mod runner;
pub mod scale;
pub mod spec;
pub mod store;
pub mod trace;
pub mod workload;
