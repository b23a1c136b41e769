//! The three decisions that cause or prevent write stalls, over plain values.
//!
//! | axis | question | trait |
//! |---|---|---|
//! | [`shape`] | *what* must be merged, cut where, into which level | [`Shape`] |
//! | [`schedule`] | *when*, and with how much bandwidth | [`Schedule`] |
//! | [`admission`] | *how fast* new bytes are let in | [`Admission`] |
//!
//! Policies get plain values ([`signals`], [`candidate`]) and return plain values ([`decision`]). A
//! schedule and an admission may keep state between calls. Policies do no I/O, start no thread,
//! take no lock, read no clock and log nothing; only the engine acts. One mechanism is one file
//! under its axis, with its options ([`Mechanism`]); one line in the axis' registry, one file of
//! test data and one row in `docs/mechanisms.md`. No axis sees another: they meet only in
//! [`round::tick`].

pub mod admission;
pub mod candidate;
pub mod decision;
pub mod device;
pub mod mechanism;
pub mod names;
pub mod options;
pub mod pace;
pub mod profile;
pub mod round;
pub mod schedule;
pub mod shape;
pub mod signals;
pub mod smaller;
pub mod tree;

pub use admission::Admission;
pub use candidate::{Busy, Candidate, Candidates, Class, Inputs, Reservation, WithinL0};
pub use decision::{Admit, Bandwidth, CallOrder, Counted, Grants};
pub use device::{DeviceMap, DevicePoint};
pub use mechanism::{Mechanism, MechanismOptions};
pub use options::{Policies, PolicyOptions};
pub use pace::Pace;
pub use profile::{Profile, profile};
pub use round::{Changed, Deciders, Known, Observed, World};
pub use schedule::Schedule;
pub use shape::cuts::{Cutter, Grade};
pub use shape::{CutRule, Overlap, Shape};
pub use signals::{Chain, Counters, MemtableFacts, Pressure, Running, Signals, TreeFacts};
pub use tree::TreeOptions;
