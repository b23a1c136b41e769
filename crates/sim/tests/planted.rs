//! Every planted bug is caught: with it switched on, some check must fail within its budget.
//!
//! `cargo test -p vlsm-sim --features planted --test planted`. `PLANTED=NAME` plants only that one;
//! `SIM_SEEDS`, `CRASH_STRIDE`, `FAULT_STRIDE` change the budget.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use vlsm_core::planted::{Bug, plant};
use vlsm_sim::clients::{Story, play};
use vlsm_sim::closure;
use vlsm_sim::crash::{Thoroughness, crash_every, fail_every};
use vlsm_sim::disk::{Damage, Disk};
use vlsm_sim::full::opens_full_of_leftovers;
use vlsm_sim::model;
use vlsm_sim::script::{Player, Script};
use vlsm_sim::{serial, spaces};

/// A check, and the most seeds with which it is tried.
type Check = (&'static str, u64, fn(u64) -> Result<(), String>);

const CHECKS: &[Check] = &[
    ("a snapshot shows what it has shown", 200, common::snapshots_stay_as_they_are),
    ("a keyspace of several regions is read at one moment", 40, common::regions_show_one_moment),
    ("what is written is read, and what is damaged salvaged", 1, |_| common::salvages()),
    ("a compaction drops no block that it cannot read", 1, |_| {
        closure::a_job_drops_no_damaged_block()
    }),
    ("copies and keyspaces made at once tear no batch", 400, common::copies_tear_no_batch),
    ("a refused ingest does not come back", 60, common::refused_ingests_stay_away),
    ("a disk full of leftovers keeps no store closed", 8, opens_full_of_leftovers),
    ("keyspaces live and die", 60, |seed| spaces::live(seed).map(drop)),
    ("keyspaces crash", 12, |seed| spaces::crash_every(seed, 3).map(drop)),
    ("concurrent transactions have an order", 400, |seed| serial::run(seed).map(drop)),
    ("hot keys hide nothing newer", 60, common::hot_keys_hide_nothing),
    ("a crash at every file operation with hot keys", 9, |seed| {
        // Only the first options require it to keep anything.
        let draw = [10, 12, 15][seed as usize % 3];
        let mut text = HOT.replace("options triad 6", &format!("options triad {draw}"));
        if draw != 10 {
            text = text.replace("reached kept 2", "");
        }
        let script = Script::parse("hot", &text)?;
        let damages = vec![Damage::LoseAll, Damage::KeepEntries];
        let how = Thoroughness { stride: 2, again: 0, damages };
        crash_every(&script, seed, &how).map(drop)
    }),
    // Some bugs need a certain moment in the life of a small store, and certain sizes of its files.
    ("every file operation of small stores of many sizes fails", 24, |seed| {
        let few = FEW.replace("options vlsm 5", &format!("options vlsm {}", seed + 5));
        fail_every(&Script::parse("few", &few)?, seed, 1).map(drop)
    }),
    ("stories of readers beside the clients", 400, |seed| play(&common::followed(seed)).map(drop)),
    ("random operations against the oracle", 40, |seed| model::run(seed, 1_500).map(drop)),
    ("stories of hot keys", 40, |seed| play(&common::hot_keys(seed)).map(drop)),
    ("stories of concurrent clients, crashes and faults", 1_000, |seed| {
        play(&Story::new(seed)).map(drop)
    }),
    ("scripts", 10, |seed| {
        SCRIPTS.iter().try_for_each(|(name, text)| {
            let script = Script::parse(name, text)?;
            Player::new(&script).play(&Disk::new(), seed)
        })
    }),
    ("a crash at every file operation", 2, |seed| {
        let damages = vec![Damage::LoseAll, Damage::KeepEntries, Damage::KeepData];
        let how = Thoroughness { stride: 2, again: 0, damages };
        crash_every(&short()?, seed, &how).map(drop)
    }),
    ("every file operation fails", 1, |seed| fail_every(&short()?, seed, 3).map(drop)),
];

/// The check that is tried first, for bugs that the first checks of the list do not catch. The
/// order saves minutes and does not affect the result: a bug that escapes the first check meets all
/// the others.
const FIRST: &[(&str, &[Bug])] = &[
    (
        "a disk full of leftovers keeps no store closed",
        &[Bug::RecycledWalUnbound, Bug::LeftoversRemovedLate],
    ),
    ("a refused ingest does not come back", &[Bug::RefusedEditKept]),
    (
        "keyspaces live and die",
        &[
            Bug::ClearUnrecorded,
            Bug::ClearSeenEarly,
            Bug::FormerBatchLost,
            Bug::GoneInstalled,
            Bug::RenameUnrecorded,
        ],
    ),
    (
        "keyspaces crash",
        &[
            Bug::ClearUnsynced,
            Bug::PointerBeforeManifest,
            Bug::SstSyncSkipped,
            Bug::DirectorySyncSkipped,
            Bug::CurrentSyncSkipped,
            Bug::ManifestSyncSkipped,
            Bug::RenameSeenEarly,
        ],
    ),
    (
        "concurrent transactions have an order",
        &[
            Bug::IngestUnsealed,
            Bug::IngestUnchecked,
            Bug::CheckedTooEarly,
            Bug::UnseenOverlooked,
            Bug::OwnWriteUnseen,
            Bug::RangeUnchecked,
        ],
    ),
    ("hot keys hide nothing newer", &[Bug::KeptHidesNewer]),
    (
        "a crash at every file operation with hot keys",
        &[
            Bug::WalSyncSkipped,
            Bug::WalTailTrusted,
            Bug::KeptUnsynced,
            Bug::KeptNotRecovered,
            Bug::WindowUnsynced,
        ],
    ),
    (
        "every file operation of small stores of many sizes fails",
        &[
            Bug::FailedAppendForgotten,
            Bug::FailedSyncRetried,
            Bug::FailedEditForgotten,
            Bug::ManifestTailTrusted,
        ],
    ),
    ("stories of readers beside the clients", &[Bug::LaterUnread]),
    ("random operations against the oracle", &[Bug::ClockFalls, Bug::DormantForgotten]),
    (
        "stories of hot keys",
        &[Bug::CopyUnlocked, Bug::CopyUnsynced, Bug::PassingErrorLatches, Bug::LinkedWalReused],
    ),
];

/// The checks in the order in which they are tried on a bug.
fn checks_for(bug: Bug) -> Vec<&'static Check> {
    let first = FIRST.iter().find(|(_, bugs)| bugs.contains(&bug)).map(|(name, _)| name);
    let mut checks: Vec<_> = CHECKS.iter().collect();
    checks.sort_by_key(|(name, ..)| Some(name) != first);
    checks
}

const HOT: &str = include_str!("../scripts/hot_keys_short.txt");
const FEW: &str = include_str!("../scripts/few.txt");

const SCRIPTS: [(&str, &str); 5] = [
    ("tombstones", include_str!("../scripts/tombstone_over_deep_version.txt")),
    ("versions", include_str!("../scripts/one_key_many_versions.txt")),
    ("overwrites", include_str!("../scripts/overwrites.txt")),
    ("recycled", include_str!("../scripts/wal_recycled.txt")),
    ("ingested", include_str!("../scripts/ingested.txt")),
];

fn short() -> Result<Script, String> {
    Script::parse("short", include_str!("../scripts/short.txt"))
}

/// The first line of the message of a failing check. A real hang and a broken assertion are
/// failures, too.
fn failure_of(check: fn(u64) -> Result<(), String>, seed: u64) -> Option<String> {
    let checked = catch_unwind(AssertUnwindSafe(|| check(seed)));
    let why = checked.unwrap_or_else(|_| Err("panicked".into())).err()?;
    let line = why.lines().next().unwrap_or_default();
    Some(line.chars().take(160).collect())
}

/// The check that catches the bug, with the seed and the first line of its message.
///
/// # Panics
/// If that check also fails without the bug, because then it has caught nothing.
fn hunt(bug: Bug) -> Option<String> {
    plant(Some(bug));
    let mut caught = None;
    for &&(name, seeds, check) in &checks_for(bug) {
        let found = AtomicBool::new(false);
        let (_, failures) = common::in_parallel(0..seeds, |seed, _: &mut ()| {
            if found.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some(why) = failure_of(check, seed) else { return Ok(()) };
            found.store(true, Ordering::Relaxed);
            Err((seed, why))
        });
        if let Some((seed, why)) = failures.into_iter().next() {
            plant(None);
            let without = failure_of(check, seed);
            assert!(without.is_none(), "{name}, seed {seed}, fails without {bug:?}: {without:?}");
            caught = Some(format!("{name}, seed {seed}: {why}"));
            break;
        }
    }
    plant(None);
    caught
}

#[test]
fn the_first_checks_exist() {
    for (name, bugs) in FIRST {
        assert!(CHECKS.iter().any(|(check, ..)| check == name) && !bugs.is_empty(), "{name}");
    }
}

// The clock is only for the report.
#[allow(clippy::disallowed_methods)]
#[test]
fn every_planted_bug_is_caught() {
    let only = std::env::var("PLANTED").ok();
    // Panics are caught and reported in one line each, so their output would only hide a real
    // failure.
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut survivors = Vec::new();
    for bug in Bug::ALL {
        if only.as_ref().is_some_and(|only| *only != format!("{bug:?}")) {
            continue;
        }
        let begun = Instant::now();
        let caught = hunt(bug);
        let took = begun.elapsed().as_secs_f32();
        println!("{bug:?}: {} ({took:.1} s)", caught.as_deref().unwrap_or("NOT CAUGHT"));
        if caught.is_none() {
            survivors.push(bug);
        }
    }
    std::panic::set_hook(loud);
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
