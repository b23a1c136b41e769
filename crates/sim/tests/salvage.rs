//! Damage and salvage: each header, record and file of a chain of WALs; salvages that crash.
//!
//! And a store of every kind of file, damaged anywhere, opened with all salvages.
//!
//! `SALVAGE_STRIDE=1` damages every record, `SALVAGE_FLIP_STRIDE` says which bytes of all
//! files, `SALVAGE_CRASH_STRIDE=1` crashes at every file call.

mod common;

use std::path::PathBuf;
use vlsm_sim::closure;
use vlsm_sim::flip::{AtRest, Harm, Salvaged, kind};
use vlsm_sim::salvage::{Chain, Hurt, Salvages};

fn sum(counts: &[Salvages]) -> Salvages {
    let mut sum = Salvages::default();
    counts.iter().for_each(|other| sum.add(other));
    sum
}

#[test]
fn of_a_damaged_log_an_exact_prefix_is_kept() {
    let stride = common::number("SALVAGE_STRIDE", 5) as usize;
    for closed in [false, true] {
        let chain = Chain::new(closed).expect("a chain");
        let hurts = chain.hurts(stride);
        println!("{} damages of {:?}", hurts.len(), chain.files);
        let (counts, failures) =
            common::in_parallel(0..hurts.len() as u64, |n, counts: &mut Salvages| {
                chain.check(&hurts[n as usize], counts)
            });
        common::none(&failures);
        let Salvages { refused, torn, harmless, .. } = sum(&counts);
        println!("{refused} refused, {torn} torn, {harmless} harmless");
        common::counts([("damages", refused + torn + harmless), ("refused", refused)]);
        common::all_fired(&[("refused", refused)]);
    }
}

#[test]
fn a_salvage_that_crashes_loses_nothing() {
    let stride = common::number("SALVAGE_CRASH_STRIDE", 11);
    let chain = Chain::new(false).expect("a chain");
    let middle = chain.files.len() / 2;
    let half = chain.files[1].1 / 2;
    let hurts = [
        vec![(0, Hurt::Flip(20))],
        vec![(middle, Hurt::Flip(20))],
        vec![(1, Hurt::Flip(half))],
        vec![(1, Hurt::Cut(half))],
        vec![(middle, Hurt::Remove)],
        vec![(1, Hurt::Flip(half)), (middle, Hurt::Cut(0))],
    ];
    let (counts, failures) =
        common::in_parallel(0..hurts.len() as u64, |n, counts: &mut Salvages| {
            chain.crash(&hurts[n as usize], stride, counts)
        });
    common::none(&failures);
    let counts = sum(&counts);
    println!("{counts:?}");
    common::counts([("crashes", counts.crashed)]);
    common::all_fired(&[("crashed", counts.crashed), ("done", counts.done)]);
}

/// Damage of each file: at bytes of it, cut off, zeroed, gone; and of SSTs several at once.
fn harms(store: &AtRest, stride: u64) -> Vec<Vec<Harm>> {
    let files: Vec<(PathBuf, u64)> = store.files().into_iter().collect();
    let mut harms = Vec::new();
    for (path, len) in &files {
        let flips = (7..*len).step_by(stride as usize);
        harms.extend(flips.map(|offset| Harm::Flip(path.clone(), offset, 1 << (offset % 8))));
        let cuts = [0, 1, len / 3, len.saturating_sub(4096), len.saturating_sub(1)];
        harms.extend(cuts.map(|len| Harm::Cut(path.clone(), len)));
        harms.push(Harm::Zero(path.clone()));
        harms.push(Harm::Remove(vec![path.clone()]));
    }
    let mut harms: Vec<Vec<Harm>> = harms.into_iter().map(|harm| vec![harm]).collect();
    let ssts: Vec<&(PathBuf, u64)> = files.iter().filter(|(path, _)| kind(path) == "sst").collect();
    for pair in ssts.windows(2) {
        let [(one, len), (other, _)] = [pair[0], pair[1]];
        harms.push(vec![Harm::Flip(one.clone(), len / 2, 4), Harm::Remove(vec![other.clone()])]);
        harms.push(vec![Harm::Exchange(one.clone(), other.clone())]);
    }
    harms.push(vec![Harm::Remove(ssts.iter().map(|(path, _)| path.clone()).collect())]);
    let wal = files.iter().find(|(path, _)| kind(path) == "wal").expect("there is a WAL");
    harms.push(vec![Harm::Flip(wal.0.clone(), 5_000, 1), Harm::Cut(ssts[0].0.clone(), 100)]);
    harms
}

fn total(counts: &[Salvaged]) -> Salvaged {
    let mut sum = Salvaged::default();
    counts.iter().for_each(|other| sum.add(other));
    sum
}

#[test]
fn a_store_without_what_is_damaged_is_a_store() {
    let stride = common::number("SALVAGE_FLIP_STRIDE", 331);
    for shape in ["vlsm", "tiered_l0"] {
        let store = AtRest::new(shape).expect("a store");
        let harms = harms(&store, stride);
        let (counts, failures) =
            common::in_parallel(0..harms.len() as u64, |n, told: &mut Salvaged| {
                store.salvage(&harms[n as usize], told)
            });
        common::none(&failures);
        let counts = total(&counts);
        println!("{shape}: {} damages: {counts:?}", harms.len());
        let Salvaged { refused, opened, ssts, .. } = counts;
        common::counts([
            ("damages", harms.len() as u64),
            ("refused", refused),
            ("opened by salvage", opened),
            ("SSTs lost", ssts),
        ]);
        common::all_fired(&[("refused", refused), ("opened", opened), ("SSTs lost", ssts)]);
    }
}

#[test]
fn dropping_ssts_may_crash_anywhere() {
    let stride = common::number("SALVAGE_CRASH_STRIDE", 11);
    let store = AtRest::new("vlsm").expect("a store");
    let files = store.files();
    let ssts: Vec<&PathBuf> = files.keys().filter(|path| kind(path) == "sst").collect();
    let flip = |n: usize| Harm::Flip(ssts[n].clone(), files[ssts[n]] / 2, 8);
    let harms = [vec![flip(0), flip(2)], vec![Harm::Remove(vec![ssts[1].clone()]), flip(3)]];
    let (counts, failures) =
        common::in_parallel(0..harms.len() as u64, |n, told: &mut Salvaged| {
            store.crash(&harms[n as usize], stride, told)
        });
    common::none(&failures);
    println!("{:?}", total(&counts));
    common::counts([("crashes", total(&counts).crashed)]);
    common::all_fired(&[("crashed", total(&counts).crashed)]);
}

#[test]
fn what_is_written_is_read() {
    closure::what_is_appended_is_read().expect("is read");
    closure::strangers_give_no_numbers().expect("no number");
}
