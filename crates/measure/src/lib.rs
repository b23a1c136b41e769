//! To load a store and to measure it: workloads, drivers, metrics and the report of a run. What
//! compares runs, and the papers' figures, are the laboratory's (`crates/lab`).
//!
//! ```text
//! workload  what is asked: mixes, key distributions, keys and values
//! arrivals  when it is asked: closed loop, or open loop with due times
//! store     who answers: the engine, or nothing at all (the driver's own floor)
//! trace     a recorded trace as a workload
//! engine    the vLSM engine as such a store
//! driver    client threads between the three; counts every second
//! metrics   histograms, series, stalls      process  CPU, memory and device bytes of this process
//! spec      a run as plain values      child  a run in a process of its own
//! limits    device and memory of this process held to a run's limits
//! report    all of it with its method, as a table and as JSON
//! ```
//!
//! A figure without its method is not a figure: a report carries machine, sizes, options, how the
//! data got there and what the driver itself costs.

pub mod arrivals;
pub mod child;
pub mod clock;
pub mod driver;
pub mod engine;
pub mod limits;
pub mod metrics;
pub mod process;
pub mod report;
pub mod runner;
pub mod spec;
pub mod store;
pub mod trace;
pub mod workload;
