//! Keyspaces that are made, cleared and dropped, with a crash at every file operation.
//!
//! `SPACES_SEEDS=A..B` chooses the seeds, `SPACES_STRIDE=1` crashes at every point instead of some.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use vlsm_sim::spaces;

#[test]
fn keyspaces_live_and_die() {
    let seeds = common::seeds("SPACES_SEEDS", 0..60);
    let (_, failures) = common::in_parallel(seeds, |seed, _: &mut ()| spaces::live(seed).map(drop));
    common::none(&failures);
}

#[test]
fn keyspaces_crash_everywhere() {
    let (seeds, stride) = (common::seeds("SPACES_SEEDS", 0..6), common::number("SPACES_STRIDE", 7));
    let crashes = AtomicU64::new(0);
    let (_, failures) = common::in_parallel(seeds, |seed, _: &mut ()| {
        crashes.fetch_add(spaces::crash_every(seed, stride)?, Ordering::Relaxed);
        Ok(())
    });
    let crashes = crashes.into_inner();
    common::counts([("crashes", crashes)]);
    common::none(&failures);
    common::all_fired(&[("crashes", crashes)]);
}
