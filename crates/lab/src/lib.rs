//! The laboratory repeats the papers' figures and compares stores on the same work.
//!
//! ```text
//! figures   the papers' figures, one table per paper: stores, runs, points, claims; their results
//! campaign  the runs that figures need, each once a round, kept and resumed
//! compare   the same work on several stores in turn, pair by pair
//! programs  starts a run in a process of its own
//! probe     reads from the device while a run goes on
//! load      words for how the work of a phase is offered
//! files     files of reports, written whole
//! scale     one factor for all sizes and times
//! program   the command line
//! ```
//!
//! `vlsm_measure` does the runs and has their workloads and reports.

pub mod campaign;
pub mod compare;
pub mod figures;
mod files;
mod load;
mod probe;
pub mod program;
pub mod programs;
pub mod scale;
