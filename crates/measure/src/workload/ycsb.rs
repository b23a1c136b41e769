//! YCSB's core workloads, and each of them with another distribution of keys.
//!
//! Source: Cooper et al., "Benchmarking cloud serving systems with YCSB" (2010), table 2, and the
//! properties files of its core package: A 50:50 read:update, B 95:5, C reads only, D 95:5
//! read:insert of the latest records, E 95:5 scan:insert with scans of 1 to 100 records uniformly,
//! F 50:50 read:read-modify-write; all but D are zipfian with constant 0.99.
//!
//! Deviations: a hash modulo the number of records spreads the popular records, so that no request
//! is for a missing record. Records have 24 + 176 bytes instead of 1 KB in ten fields, as in the
//! papers that we compare with.

use super::keys::Choice;
use super::{Preset, Workload};

/// The zipfian constant of YCSB.
pub const THETA: f64 = 0.99;

pub(super) fn all() -> Vec<Preset> {
    let none = |letter: &str, choice| Workload::none(format!("Run {letter}"), choice);
    let (zipfian, latest) = (Choice::Zipfian(THETA), Choice::Latest(THETA));
    let load = Workload { inserts: 100.0, ..Workload::none("Load A", Choice::Uniform) };
    let mut all = vec![Preset::new("load", "YCSB: inserts in random order of keys", load)];
    let core = [
        ("a", "50 % reads, 50 % updates", {
            Workload { reads: 50.0, updates: 50.0, ..none("A", zipfian) }
        }),
        ("b", "95 % reads, 5 % updates", {
            Workload { reads: 95.0, updates: 5.0, ..none("B", zipfian) }
        }),
        ("c", "reads", Workload { reads: 100.0, ..none("C", zipfian) }),
        ("d", "95 % reads, 5 % inserts", {
            Workload { reads: 95.0, inserts: 5.0, ..none("D", latest) }
        }),
        ("e", "95 % scans of 1 to 100 pairs, 5 % inserts", {
            Workload { scans: 95.0, inserts: 5.0, ..none("E", zipfian) }
        }),
        ("f", "50 % reads, 50 % read-modify-writes", {
            Workload { reads: 50.0, read_modify_writes: 50.0, ..none("F", zipfian) }
        }),
    ];
    let choices = [("uniform", Choice::Uniform), ("zipfian", zipfian), ("latest", latest)];
    for (letter, what, workload) in core {
        let own = choices.iter().find(|(_, choice)| *choice == workload.choice);
        let own = own.map_or("", |(name, _)| name);
        all.push(Preset::new(letter, format!("YCSB: {what}; {own}"), workload.clone()));
        for (distribution, choice) in choices {
            let name = format!("{} {distribution}", workload.name);
            let workload = Workload { name, choice, ..workload.clone() };
            let what = format!("YCSB: {what}; {distribution}");
            all.push(Preset::new(format!("{letter}-{distribution}"), what, workload));
        }
    }
    all
}
