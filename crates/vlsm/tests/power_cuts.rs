//! Power cuts of real file systems under load: ext4 with data=ordered and data=writeback, and XFS.
//!
//! 1. A child process, this program once more, writes and tells what was acknowledged (`lives`), on
//!    a file system of its own on a loop device (`mounted`). The journal is outside of it.
//! 2. Meanwhile the parent syncs random files of the store, and at times everything, as the system
//!    may do at any moment. So a cut may leave more than was synced last.
//! 3. At a random moment the parent shuts the file system down, mostly without another write of its
//!    journal. Sometimes the child was killed before, or is still opening the store, or closing
//!    it. Sometimes it lives on: then it must end by itself, with errors.
//! 4. The file system is mounted again, which replays its journal. Mostly the parent opens the
//!    store and checks it, or else the next child opens it.
//! 5. A store lives through a chain of cuts; then there is a new file system and a new store.
//!
//! A batch must survive if it was acknowledged as `Sync` or before an orderly close, or if the
//! parent has read it. The others survive as a prefix of the commit order. A cut that syncs
//! everything first keeps batches acknowledged as `Buffered`, too. An acknowledgement counts if the
//! parent had it before the cut: Linux (6.18, ext4 and XFS) lets an `fdatasync` that is under way
//! while the file system is shut down return 0, although the blocks stay marked as unwritten. With
//! the power gone nobody would see that.
//!
//! Then the same with a device that fails for a while before each cut (`failed_syncs`).
//!
//! `POWER_CUTS=n` sets how many, `FAILED_SYNCS=n` how many after failures of the device,
//! `POWER_CUTS_SEED=s` the seed, `POWER_CUTS_KEEP=file` where a copy of the device goes after a
//! failure. Only on Linux, and only where this process may mount: it
//! says so otherwise. It was seen to fail with every fourth `fdatasync` left out, and
//! after failures of the device with openings that believe the end of a WAL (planted
//! `WalTailTrusted`) or write the end of a manifest over itself. It cannot see
//! everything: the loop device keeps all blocks that it was given, and both journals keep the order
//! of directory entries, so that a directory's sync may be left out. For these there is the
//! simulator.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of the real process, in real time"
)]

#[cfg(target_os = "linux")]
mod failed_syncs;
#[cfg(target_os = "linux")]
mod lives;
#[cfg(target_os = "linux")]
mod mounted;
#[cfg(target_os = "linux")]
mod tiny;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("SKIPPED: power cuts: only Linux has them");
}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use super::failed_syncs::manifest::record_in_memory_only;
    use super::failed_syncs::{Failures, Place, can_fail};
    use super::lives::journal::{Journal, Seen};
    use super::lives::{Running, lived_as_a_child, number};
    use super::mounted::systems::{self, FILE_SYSTEMS, FileSystem};
    use super::mounted::systems::{can_be_cut, make, make_failing, make_failing_usual};
    use super::mounted::{Cut, Mounted, inside, remove_leftovers};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::Instant;
    use vlsm::{Durability, PROFILES};

    pub fn main() {
        if lived_as_a_child() {
            return;
        }
        match inside("POWER_CUTS_INSIDE") {
            Err(why) => println!("SKIPPED: power cuts: {why}"),
            Ok(Some(code)) => std::process::exit(code),
            Ok(None) => all(),
        }
    }

    fn all() {
        remove_leftovers();
        let seed = number("POWER_CUTS_SEED", std::process::id().into());
        let (cuts, failed) = (number("POWER_CUTS", 6), number("FAILED_SYNCS", 6));
        println!("power cuts: {cuts}, after failed syncs: {failed}, POWER_CUTS_SEED={seed}");
        if cuts > 0 {
            power_cuts(cuts, seed);
        }
        if failed > 0 {
            failed_syncs(failed, seed);
        }
    }

    fn power_cuts(cuts: u64, seed: u64) {
        let started = Instant::now();
        let there = those_that("power cuts", can_be_cut);
        let mut all = Counts::default();
        each(&there, cuts, seed, |system, length, rng| chain(system, length, rng, &mut all, None));
        println!("power cuts: ok in {:.1} s: {all:?}", started.elapsed().as_secs_f64());
        println!("counts: {}", all.text());
        all.judge(cuts, &there);
    }

    fn failed_syncs(cuts: u64, seed: u64) {
        let started = Instant::now();
        let there = those_that("failed syncs", |system| {
            can_be_cut(system)?;
            let rng = &mut SmallRng::seed_from_u64(0);
            can_fail(&make_failing(system, rng)?, rng)
        });
        for system in &there {
            let mounted = make_failing_usual(system).unwrap();
            let met = record_in_memory_only(&mounted);
            assert!(met > 0, "{}: no record of a manifest was in memory only", system.0);
            println!("counts: records of manifests that only memory had={met}");
        }
        let (mut all, mut failures) = (Counts::default(), Failures::default());
        each(&there, cuts, seed, |system, length, rng| {
            chain(system, length, rng, &mut all, Some(&mut failures));
        });
        println!("failed syncs: ok in {:.1} s: {failures:?}", started.elapsed().as_secs_f64());
        println!("counts: {}, {}", failures.text(), all.text());
        failures.judge(cuts, &there);
    }

    /// The file systems that this machine can do this with.
    fn those_that(name: &str, can: impl Fn(&FileSystem) -> Result<(), String>) -> Vec<FileSystem> {
        let is_there = |system: &FileSystem| match can(system) {
            Ok(()) => true,
            Err(why) => {
                println!("SKIPPED: {name} of {}: {why}", system.0);
                false
            }
        };
        FILE_SYSTEMS.into_iter().filter(is_there).collect()
    }

    /// Gives each file system its share of the cuts, in chains.
    fn each(
        there: &[FileSystem],
        cuts: u64,
        seed: u64,
        mut chain: impl FnMut(FileSystem, u64, &mut SmallRng),
    ) {
        for (index, system) in there.iter().enumerate() {
            let share = |n: usize| cuts * n as u64 / there.len() as u64;
            let mut rng = SmallRng::seed_from_u64(seed + index as u64);
            let mut left = share(index + 1) - share(index);
            while left > 0 {
                let length = rng.random_range(4..24).min(left);
                chain(*system, length, &mut rng);
                left -= length;
            }
        }
    }

    /// Writes files back at random moments, as the system may do.
    fn write_back(store: &Path, millis: u64, effort: u64, rng: &mut SmallRng) {
        systems::write_back(store, millis, effort, rng).unwrap();
    }

    /// Counts of cuts, kills and lives, by kind.
    #[derive(Debug, Default)]
    struct Counts {
        cuts: BTreeMap<(&'static str, Cut), u64>,
        cuts_in_opening: u64,
        /// Deaths of the process without one of the power.
        kills: u64,
        /// Children that lived on after the cut, and ended by themselves.
        ended: u64,
        stores: u64,
        seen: Seen,
    }

    impl Counts {
        /// The counts as `name=number`, for programs to read.
        fn text(&self) -> String {
            let cuts =
                self.cuts.iter().map(|((system, cut), n)| format!("cuts: {system} {cut:?}={n}, "));
            let cuts: String = cuts.collect();
            let Self { cuts_in_opening, kills, ended, stores, .. } = self;
            format!(
                "{cuts}cuts in an opening={cuts_in_opening}, kills={kills}, \
                 ended by themselves={ended}, stores={stores}, {}",
                self.seen.counts()
            )
        }

        /// Fails when a kind of thing never happened in a long run.
        fn judge(&self, cuts: u64, there: &[FileSystem]) {
            let seen = &self.seen;
            if there.is_empty() || cuts < 10 {
                return;
            }
            assert!(
                seen.in_writing > 0 && seen.acknowledged_sync > 0,
                "no cut hit a writing child"
            );
            if cuts < 100 {
                return;
            }
            for (system, ..) in there {
                for cut in [Cut::Synced, Cut::Journal, Cut::Nothing] {
                    let count = self.cuts.get(&(*system, cut)).copied().unwrap_or(0);
                    assert!(count > 0, "{system}, {cut:?}: not once");
                }
            }
            assert!(seen.closed > 0 || cuts < 500, "no store was closed before a cut");
            for (what, count) in [
                ("cuts in an opening", self.cuts_in_opening),
                ("lost batches", seen.lost),
                ("kills", self.kills),
                ("children that ended by themselves", self.ended),
            ] {
                assert!(count > 0 || cuts < 200, "{what}: not once");
            }
        }
    }

    /// The life of one store on one file system, through `cuts` cuts. With failures the device
    /// fails before each of them.
    fn chain(
        system: FileSystem,
        cuts: u64,
        rng: &mut SmallRng,
        all: &mut Counts,
        mut failures: Option<&mut Failures>,
    ) {
        let mounted = if failures.is_some() { make_failing } else { make }(&system, rng);
        let mounted = mounted.unwrap_or_else(|why| panic!("{}: {why}", system.0));
        let _kept = Kept(&mounted);
        let profile = PROFILES[rng.random_range(0..PROFILES.len())].name;
        let seed = rng.random();
        let mut journal = Journal::new(&mounted.path().join("store"), profile, seed);
        for at in 0..cuts {
            while rng.random_range(0..8_u8) == 0 {
                all.kills += 1;
                kill(&mut journal, rng);
            }
            if let Some(failures) = &mut failures {
                failures.interlude(&Place { system, mounted: &mounted }, &mut journal, rng);
            }
            let what = format!("{}, cut {at} of a chain", system.0);
            let cut = life(&what, &mounted, &mut journal, rng, all);
            *all.cuts.entry((system.0, cut)).or_default() += 1;
            mounted.restart().unwrap_or_else(|why| panic!("{what}: {why}"));
            if rng.random_range(0..3_u8) > 0 || at + 1 == cuts {
                journal.check(&what);
            }
        }
        all.stores += 1;
        all.seen.add(&journal.seen);
    }

    /// Copies the device when the test fails.
    struct Kept<'a>(&'a Mounted);

    impl Drop for Kept<'_> {
        fn drop(&mut self) {
            if let Some(copy) =
                std::env::var_os("POWER_CUTS_KEEP").filter(|_| std::thread::panicking())
            {
                self.0.keep(Path::new(&copy));
            }
        }
    }

    /// A life that ends with the process, while the power stays.
    fn kill(journal: &mut Journal, rng: &mut SmallRng) {
        let mut child = Running::start(journal.store(), journal.profile, journal.seed);
        write_back(journal.store(), rng.random_range(0..200), 0, rng);
        child.kill();
        let (told, said) = child.end();
        assert!(said.is_empty(), "the child failed by itself: {said}");
        let checked = rng.random();
        // What is not read by an opening at once may be lost with the power.
        journal.enter(&told, "killed", |of, _| {
            of == Durability::Sync || (checked && of == Durability::Buffered)
        });
        if checked {
            journal.check("a kill between cuts");
        }
    }

    /// A life that ends with the power.
    fn life(
        what: &str,
        mounted: &Mounted,
        journal: &mut Journal,
        rng: &mut SmallRng,
        all: &mut Counts,
    ) -> Cut {
        let mut child = Running::start(journal.store(), journal.profile, journal.seed);
        let effort = rng.random_range(0..3) * 10;
        let (opening, closing) = (rng.random_range(0..4_u8) == 0, rng.random_range(0..8_u8) == 0);
        if opening {
            write_back(journal.store(), rng.random_range(0..25), effort, rng);
        } else {
            child.first_told();
            write_back(journal.store(), rng.random_range(5..500), effort, rng);
        }
        if closing {
            child.ask_to_close();
            write_back(journal.store(), rng.random_range(0..40), effort, rng);
        }
        let early = !closing && child.ended();
        let killed_before = rng.random_range(0..4_u8) == 0;
        if killed_before {
            child.kill();
        }
        // By turns, so that each comes up on each file system.
        let cut = match all.cuts.values().sum::<u64>() % 8 {
            0 => Cut::Synced,
            1 => Cut::Journal,
            _ => Cut::Nothing,
        };
        let before = child.told();
        mounted.cut(cut).unwrap_or_else(|why| panic!("{what}: {why}"));
        let killed_after = rng.random();
        if killed_after {
            child.kill();
        }
        all.ended += u64::from(!killed_before && !killed_after);
        let (told, said) = child.end();
        assert!(!early, "{what}: the child ended before the cut: {said}");
        let wrong = said.contains("damaged") || said.contains("panicked");
        assert!(!wrong, "{what}: the child took the cut for something else: {said:?}");
        all.cuts_in_opening += u64::from(told.is_empty());
        let how = format!(
            "{what}, {cut:?} after {} of {} acknowledgements, effort {effort}, killed before \
             {killed_before}, after {killed_after}, asked to close {closing}, it said {said:?}",
            before / 9,
            told.len() / 9,
        );
        journal.enter(&told, &how, |durability, at| match durability {
            Durability::Sync => at < before,
            Durability::Buffered => at < before && cut == Cut::Synced,
            _ => false,
        });
        cut
    }
}
