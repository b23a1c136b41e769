//! CruiseDB's mixes: inserts with point reads, and inserts with scans, at any share of reads.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §VIII.A and B: 5 % to 95 % *get* or *scan*, the rest *insert*; keys of 16 bytes
//! and values of 1 KB; 10 M pairs loaded first; a scan reads 5 pairs in the mean. Its "A-variant"
//! (§III) is `cruise-get-50`. The paper does not give the distribution of keys: here it is YCSB's
//! zipfian. It gives only the mean length of scans: here they read 1 to 9 pairs.

use super::data::{KeyOrder, Shape};
use super::keys::Choice;
use super::sizes::Sizes;
use super::{Preset, THETA, Workload};

/// The shares that lists show. Any other whole percentage is known as well.
const LISTED: [u8; 3] = [5, 50, 95];

pub(super) fn all() -> Vec<Preset> {
    let of = |kind| LISTED.map(|share| preset(kind, share));
    [of("get"), of("scan")].concat()
}

/// `cruise-get-N` and `cruise-scan-N`, from 0 to 100.
pub(super) fn of_any_share(name: &str) -> Option<Preset> {
    let rest = name.strip_prefix("cruise-")?;
    let (kind, share) = rest.split_once('-')?;
    let share = share.parse().ok().filter(|share| *share <= 100)?;
    matches!(kind, "get" | "scan").then(|| preset(kind, share))
}

fn preset(kind: &str, share: u8) -> Preset {
    let name = format!("cruise-{kind}-{share}");
    let what = match kind {
        "get" => format!("CruiseDB: {share} % reads (any share is known), the rest inserts"),
        _ => format!("CruiseDB: {share} % scans of 1 to 9 pairs (any share), the rest inserts"),
    };
    let mut workload = Workload {
        inserts: f64::from(100 - share),
        scan: Sizes::Uniform(1, 9),
        ..Workload::none(&name, Choice::Zipfian(THETA))
    };
    match kind {
        "get" => workload.reads = f64::from(share),
        _ => workload.scans = f64::from(share),
    }
    let shape = Shape { key_size: 16, values: Sizes::Fixed(1024), order: KeyOrder::Hashed };
    Preset { shape, ..Preset::new(name, what, workload) }
}
