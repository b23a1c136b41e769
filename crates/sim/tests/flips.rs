//! Damage at rest is an error or changes nothing: every byte of every file of a small store, every
//! truncation, parts and files exchanged.
//!
//! `FLIP_STRIDE=1` flips every byte, `CUT_STRIDE=1` cuts everywhere.

mod common;

use std::path::PathBuf;
use vlsm_sim::flip::{AtRest, Harm, Told, kind};

/// The bits flipped in the byte at this offset: one of them, or all.
fn mask(offset: u64) -> u8 {
    match offset % 9 {
        8 => 0xFF,
        bit => 1 << bit,
    }
}

fn harms(store: &AtRest) -> Vec<Harm> {
    let flip = common::number("FLIP_STRIDE", 37);
    let cut = common::number("CUT_STRIDE", 211);
    let files = store.files();
    let mut harms = Vec::new();
    for (path, len) in &files {
        let flips = (0..*len).step_by(flip as usize);
        harms.extend(flips.map(|offset| Harm::Flip(path.clone(), offset, mask(offset))));
        harms.extend((0..*len).step_by(cut as usize).map(|len| Harm::Cut(path.clone(), len)));
        harms.push(Harm::Zero(path.clone()));
        harms.push(Harm::Remove(vec![path.clone()]));
        // Blocks and pages. The WAL is excluded: its last records, and the mark that proves their
        // sync, may be in one page, and a torn write looks the same.
        for unit in [1024, 4096].into_iter().filter(|_| kind(path) != "wal") {
            let places = (0..len / unit).map(|place| (path.clone(), place * unit));
            let places: Vec<_> = places.collect();
            let pairs = places.windows(2).map(|pair| [pair[0].clone(), pair[1].clone()]);
            harms.extend(pairs.map(|pair| Harm::Swap(pair, unit)));
        }
    }
    // All files of one kind are gone.
    for of in ["CURRENT", "MANIFEST", "sst", "wal"] {
        let gone: Vec<PathBuf> = files.keys().filter(|path| kind(path) == of).cloned().collect();
        assert!(!gone.is_empty(), "there is a file of every kind");
        harms.push(Harm::Remove(gone));
    }
    // And between files of one kind.
    let paths: Vec<&PathBuf> = files.keys().collect();
    for pair in paths.windows(2).filter(|pair| kind(pair[0]) == kind(pair[1])) {
        harms.push(Harm::Exchange(pair[0].clone(), pair[1].clone()));
        if kind(pair[0]) != "wal" {
            harms.push(Harm::Swap([(pair[0].clone(), 0), (pair[1].clone(), 0)], 1024));
        }
    }
    harms
}

/// The most memory that this process ever asked for, in KB.
#[allow(clippy::disallowed_methods)]
fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap_or("0");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

#[test]
fn damage_is_an_error_or_changes_nothing() {
    let stores = ["vlsm", "tiered_l0"].map(|shape| AtRest::new(shape).expect("a store"));
    let mut all = Told::default();
    for store in &stores {
        let files = store.files();
        println!("{} bytes: {files:?}", files.values().sum::<u64>());
        let harms = harms(store);
        let before = address_space();
        let (told, failures) =
            common::in_parallel(0..harms.len() as u64, |index, told: &mut Told| {
                store.harm(&harms[index as usize], told)
            });
        told.iter().for_each(|told| all.add(told));
        common::none(&failures);
        let grown = address_space().saturating_sub(before);
        assert!(grown < 2 << 20, "reading damaged files took {grown} KB more memory");
    }
    println!("{all:#?}");
    let errors = all.errors.iter().map(|(kind, count)| (format!("error in {kind}"), *count));
    let right = all.right.iter().map(|(kind, count)| (format!("no change by {kind}"), *count));
    common::counts(errors.chain(right));
    for kind in ["CURRENT", "MANIFEST", "sst", "wal"] {
        assert!(all.errors.contains_key(kind), "{kind}: no damage was noticed");
    }
}
