//! Every script in `scripts/`, under several seeds; and the short ones crashed at every point.
//!
//! `CRASH_STRIDE=1` crashes at every point instead of some, `CRASH_AGAIN=1` every recovery too.
//! `SCRIPT_SEEDS=A..B`, `CRASH_SEEDS=A..B` and `FAULT_SEED=N` choose the seeds.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vlsm_sim::crash::{Faults, Thoroughness, crash_every, fail_every};
use vlsm_sim::disk::{Damage, Disk};
use vlsm_sim::script::{Player, Script};

/// Each script is a test of its own.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        fn script(name: &str) -> Script {
            let text = match name {
                $(stringify!($name) => include_str!(
                    concat!("../scripts/", stringify!($name), ".txt")
                ),)*
                _ => panic!("no script {name}"),
            };
            Script::parse(name, text).expect("a script")
        }
        const SCRIPTS: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            play(stringify!($name));
        })*
    };
}

scripts!(
    checkpoints,
    cleared,
    cleared_short,
    closed_after_a_reader,
    compacted,
    durability,
    every_memtable_covers_everything,
    expiry,
    few,
    first,
    hot_keys,
    hot_keys_short,
    ingested,
    ingested_beside,
    ingested_short,
    large_batch_over_many_wals,
    logged_values_short,
    merges,
    one_key_many_versions,
    opened_and_closed,
    overwrites,
    range_deletes,
    rotations,
    short,
    short_tiered,
    snapshot_of_an_empty_store,
    tombstone_over_deep_version,
    unsynced_wals,
    wal_recycled,
);

fn play(name: &str) {
    let script = script(name);
    let seeds = common::seeds("SCRIPT_SEEDS", 0..10);
    let (_, failures) = common::in_parallel(seeds.clone(), |seed, _: &mut ()| {
        let player: Arc<Player> = Player::new(&script);
        player.play(&Disk::new(), seed).map_err(|why| format!("{name}, seed {seed}: {why}"))
    });
    common::none(&failures);
    common::counts([("scripts played", seeds.end - seeds.start)]);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn every_script_is_played() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");
    for entry in std::fs::read_dir(folder).expect("the folder of scripts") {
        let name = entry.expect("an entry").path();
        let name = name.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        assert!(SCRIPTS.contains(&name), "{name}.txt is not in the list above");
    }
}

#[test]
fn every_call_fails() {
    let stride = common::number("FAULT_STRIDE", 10);
    let seed = common::number("FAULT_SEED", 7);
    // The smallest store is played with several schedules, because that costs little.
    let few = (seed..seed + 8).map(|seed| ("few", seed, 1));
    let runs: Vec<_> = few
        .chain(
            ["short", "short_tiered", "hot_keys_short", "logged_values_short", "cleared_short"]
                .map(|name| (name, seed, stride)),
        )
        .collect();
    let (faults, failures) =
        common::in_parallel(0..runs.len() as u64, |index, faults: &mut Faults| {
            let (name, seed, stride) = runs[index as usize];
            faults.add(&fail_every(&script(name), seed, stride)?);
            Ok(())
        });
    let faults = faults.into_iter().fold(Faults::default(), |mut sum, part| {
        sum.add(&part);
        sum
    });
    println!("{faults:#?}");
    let classes = faults.fired.iter().map(|(class, count)| (format!("fault: {class}"), *count));
    let commands = [("operations".to_owned(), faults.done), ("refused".into(), faults.refused)];
    common::counts(commands.into_iter().chain(classes));
    common::none(&failures);
    let fired = |class: &str| faults.fired.get(class).copied().unwrap_or(0);
    common::all_fired(&[
        ("EIO on read", fired("EIO on read")),
        ("EIO on write", fired("EIO on write")),
        ("EIO on sync", fired("EIO on sync")),
        ("ENOSPC on write", fired("ENOSPC on write")),
        ("short writes", fired("short on write")),
        ("refusals", faults.refused),
    ]);
}

fn crash_all(name: &str) {
    let script = script(name);
    let how = Thoroughness {
        stride: common::number("CRASH_STRIDE", 5),
        again: common::number("CRASH_AGAIN", 200),
        damages: vec![
            Damage::LoseAll,
            Damage::KeepAll,
            Damage::KeepData,
            Damage::KeepEntries,
            Damage::Random(1),
            Damage::Random(2),
            Damage::Random(3),
        ],
    };
    let [first, second, states] = [const { AtomicU64::new(0) }; 3];
    let (_, failures) =
        common::in_parallel(common::seeds("CRASH_SEEDS", 0..2), |seed, _: &mut ()| {
            let crashes = crash_every(&script, seed, &how)?;
            first.fetch_add(crashes.first, Ordering::Relaxed);
            second.fetch_add(crashes.second, Ordering::Relaxed);
            states.fetch_add(crashes.states, Ordering::Relaxed);
            Ok(())
        });
    let [first, second, states] = [first, second, states].map(AtomicU64::into_inner);
    println!("{name}: {first} crashes, {second} crashes of recoveries, {states} states");
    let counts = [("crashes", first), ("crashes of recoveries", second), ("crash states", states)];
    common::counts(counts);
    common::none(&failures);
    common::all_fired(&[("crashes", first), ("crashes of recoveries", second)]);
}

#[test]
fn crashed_everywhere() {
    crash_all("short");
}

#[test]
fn crashed_everywhere_in_an_ingest() {
    crash_all("ingested_short");
}

#[test]
fn crashed_everywhere_in_clears() {
    crash_all("cleared_short");
}

#[test]
fn crashed_everywhere_tiered() {
    crash_all("short_tiered");
}

#[test]
fn mistakes_in_scripts_are_told() {
    let wrong = |text: &str| Script::parse("x", text).expect_err("wrong");
    assert_eq!(wrong("options vlsm 1\n\nfly away"), "x, line 3: what is \"fly away\"?");
    assert_eq!(wrong("flush"), "x: no line `options SHAPE N`");
    assert!(wrong("options vlsm 1\nwrite soon a=1").contains("not lazy, process or power"));
    assert_eq!(wrong("options vlsm 1\nreached end 1"), "x, line 2: a store does not reach \"end\"");
}

#[test]
fn a_script_that_does_not_reach_its_state_fails() {
    let text = "options vlsm 1\nwrite process a=1\nflush\nreached flushes 1\nreached flushes 99";
    let script = Script::parse("x", text).expect("a script");
    let why = Player::new(&script).play(&Disk::new(), 1).expect_err("a few flushes");
    assert!(why.contains("x, line 5: WRONG ANSWER: the script needs Flushes to be 99"), "{why}");
}

#[test]
fn crashed_everywhere_with_hot_keys() {
    crash_all("hot_keys_short");
}

#[test]
fn crashed_everywhere_with_values_in_the_wal() {
    crash_all("logged_values_short");
}
