//! Every script in `scripts/`, under several seeds; and the short ones crashed at every point.
//!
//! `CRASH_STRIDE=1` crashes at every point instead of some, `CRASH_AGAIN=1` every recovery too.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vlsm_sim::crash::{Thoroughness, crash_every};
use vlsm_sim::disk::{Damage, Disk};
use vlsm_sim::script::{Player, Script};

const SCRIPTS: [(&str, &str); 6] = [
    ("first", include_str!("../scripts/first.txt")),
    ("durability", include_str!("../scripts/durability.txt")),
    ("rotations", include_str!("../scripts/rotations.txt")),
    ("overwrites", include_str!("../scripts/overwrites.txt")),
    ("short", include_str!("../scripts/short.txt")),
    ("short_tiered", include_str!("../scripts/short_tiered.txt")),
];

fn script(name: &str) -> Script {
    let text = SCRIPTS.iter().find(|script| script.0 == name).expect("known").1;
    Script::parse(name, text).expect("a script")
}

#[test]
fn every_script_plays() {
    let seeds = common::seeds("SIM_SEEDS", 0..10);
    for (name, _) in SCRIPTS {
        let script = script(name);
        let (_, failures) = common::in_parallel(seeds.clone(), |seed, _: &mut ()| {
            let player: Arc<Player> = Player::new(&script);
            player.play(&Disk::new(), seed).map_err(|why| format!("{name}, seed {seed}: {why}"))
        });
        common::none(&failures);
    }
}

fn crash_all(name: &str) {
    let script = script(name);
    let how = Thoroughness {
        stride: common::number("CRASH_STRIDE", 3),
        again: common::number("CRASH_AGAIN", 40),
        damages: vec![Damage::LoseAll, Damage::KeepAll, Damage::Random(1), Damage::Random(2)],
    };
    let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
    let (_, failures) = common::in_parallel(0..2, |seed, _: &mut ()| {
        let crashes = crash_every(&script, seed, &how)?;
        first.fetch_add(crashes.first, Ordering::Relaxed);
        second.fetch_add(crashes.second, Ordering::Relaxed);
        Ok(())
    });
    let (first, second) = (first.into_inner(), second.into_inner());
    println!("{name}: {first} crashes, {second} crashes of recoveries");
    common::none(&failures);
    common::all_fired(&[("crashes", first), ("crashes of recoveries", second)]);
}

#[test]
fn crashed_everywhere() {
    crash_all("short");
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
}
