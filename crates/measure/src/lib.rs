//! Loads a store and measures it: workloads, drivers, metrics and the report of a run. The
//! laboratory (`crates/lab`) has the comparison of runs and the papers' figures.
//!
//! ```text
//! workload  the requests: mixes, key distributions, keys and values
//! arrivals  the times of requests: closed loop, or open loop with due times
//! store     the interface of a store, and one that does nothing (the driver's own floor)
//! trace     a recorded trace as a workload
//! engine    the vLSM engine as such a store
//! driver    client threads between the three; counts every second
//! metrics   histograms, series, stalls      process  CPU, memory and device bytes of this process
//! spec      a run as plain values      child  a run in a process of its own
//! limits    device and memory of this process held to a run's limits
//! block     bytes that a block device moved, by the kernel's counters
//! report    the results with their method, as a table and as JSON
//! ```
//!
//! A figure means nothing without its method. A report has the machine, the sizes, the options, the
//! way the data was loaded and the cost of the driver alone.

pub mod arrivals;
pub mod block;
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
