//! Lives in which the device fails, and openings without a restart of the system between them.
//!
//! 1. A child writes, opens or closes a store. At a random moment the device begins to fail
//!    (`mounted::failing`). The child ends by itself with errors, or is killed a moment later, or
//!    after the device works again: a store that then tried its syncs once more would be told that
//!    all is well.
//! 2. Sometimes another process syncs files meanwhile, so that it gets the error, and not the
//!    store. Sometimes pages that were never written are dropped from memory afterwards.
//! 3. The file system stays mounted: the next child recovers what programs can read of the store,
//!    which the device may not have. Sometimes the device fails in that recovery, too.
//! 4. What follows is a life that ends with the power (`power_cuts.rs`), a child that is killed, or
//!    the parent opens the store and checks it.
//!
//! Everything acknowledged as `Sync` must stay, in whichever of these lives. What was acknowledged
//! as `Buffered` may go, as the system gave it up, but only as the end of a prefix.

pub mod manifest;

use crate::lives::Running;
use crate::lives::journal::Journal;
use crate::mounted::Mounted;
use crate::mounted::failing::{Failure, drop_pages};
use crate::mounted::systems::{FileSystem, write_back};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use vlsm::Durability;

/// An opening may be told once of each file that could not be written before.
const OPENINGS: usize = 6;

/// Counts of failures and recoveries, by kind.
#[derive(Debug, Default)]
pub struct Failures {
    /// Lives in which the device failed.
    lives: BTreeMap<(&'static str, Failure), u64>,
    /// Children that ended by themselves, by whether a sync or something else failed.
    syncs: u64,
    others: u64,
    /// Recoveries in which the device failed, and that ended with an error.
    recoveries: u64,
    /// Recoveries that succeeded without a restart of the system in between.
    recovered: u64,
    /// Openings on a device that works again, which got the error of an earlier failure.
    told_later: u64,
    /// Recoveries from what the device has, as pages were dropped.
    dropped: u64,
    /// File systems that ended by themselves.
    given_up: u64,
}

/// A store, its device and the name of its file system.
pub struct Place<'a> {
    pub system: FileSystem,
    pub mounted: &'a Mounted,
}

impl Failures {
    /// The counts as `name=number`, for programs to read.
    pub fn text(&self) -> String {
        let lives = self.lives.iter();
        let lives = lives.map(|((system, how), n)| format!("failed: {system} {how:?}={n}, "));
        let lives: String = lives.collect();
        format!(
            "{lives}failed syncs seen={}, other errors seen={}, failed recoveries={}, \
             recoveries from memory={}, errors told later={}, pages dropped={}, \
             file systems given up={}",
            self.syncs,
            self.others,
            self.recoveries,
            self.recovered,
            self.told_later,
            self.dropped,
            self.given_up
        )
    }

    /// Fails when a kind of thing never happened in a long run.
    pub fn judge(&self, cuts: u64, there: &[FileSystem]) {
        if there.is_empty() || cuts < 20 {
            return;
        }
        assert!(self.syncs > 0 && self.recovered > 0, "no sync failed, or no recovery followed");
        if cuts < 60 {
            return;
        }
        for (system, ..) in there {
            for how in [Failure::Full, Failure::Short] {
                let count = self.lives.get(&(*system, how)).copied().unwrap_or(0);
                assert!(count > 0, "{system}, {how:?}: not once");
            }
        }
        for (what, count) in
            [("failed recoveries", self.recoveries), ("pages dropped", self.dropped)]
        {
            assert!(count > 0, "{what}: not once");
        }
    }

    /// The device fails in one life and perhaps in the recoveries after it. At the end it works,
    /// and no error is left to be told.
    pub fn interlude(&mut self, place: &Place<'_>, journal: &mut Journal, rng: &mut SmallRng) {
        let mut recovering = false;
        let mut kept = true;
        loop {
            kept &= self.life(place, journal, recovering, rng);
            recovering = true;
            if rng.random_range(0..3_u8) > 0 {
                break;
            }
        }
        if rng.random_range(0..3_u8) == 0 {
            self.recover(place, journal, rng);
        }
        sync_all(journal.store());
        if rng.random_range(0..4_u8) == 0 {
            journal.check("a recovery after the device failed");
        }
        self.recovered += u64::from(kept);
    }

    /// A life in which the device fails. False when the file system went, too.
    fn life(
        &mut self,
        place: &Place<'_>,
        journal: &mut Journal,
        recovering: bool,
        rng: &mut SmallRng,
    ) -> bool {
        let Place { system, mounted } = place;
        let how = [Failure::Full, Failure::Short][self.lives.values().sum::<u64>() as usize % 2];
        let opening = recovering || rng.random_range(0..6_u8) == 0;
        let at_once = opening && rng.random_range(0..4_u8) == 0;
        let fail = |rng: &mut SmallRng| {
            mounted.fail(how, rng).unwrap_or_else(|why| panic!("{}, {how:?}: {why}", system.0));
        };
        if at_once {
            fail(rng);
        }
        let effort = rng.random_range(0..3) * 10;
        let mut child = Running::start(journal.store(), journal.profile, journal.seed);
        if !opening {
            child.first_told();
        }
        let millis = if opening { 0..40 } else { 5..300 };
        let effort_before = if at_once { 0 } else { effort };
        write_back(journal.store(), rng.random_range(millis), effort_before, rng).ok();
        if rng.random_range(0..8_u8) == 0 {
            child.ask_to_close();
        }
        if !at_once {
            fail(rng);
        }
        let (told, said) = endure(place, child, journal.store(), effort, rng);
        let what = format!("{}, {how:?}, opening {opening}, it said {said:?}", system.0);
        judge(&said, &what);
        *self.lives.entry((system.0, how)).or_default() += 1;
        self.syncs += u64::from(said.contains("sync"));
        self.others += u64::from(!said.is_empty() && !said.contains("sync"));
        self.recoveries += u64::from(recovering && told.is_empty() && !said.is_empty());
        journal.enter(&told, &what, |of, _| of == Durability::Sync);
        let kept = mounted.takes_writes();
        if !kept {
            self.given_up += 1;
            mounted.restart().unwrap_or_else(|why| panic!("{what}: {why}"));
        }
        if kept && rng.random_range(0..3_u8) == 0 {
            drop_pages(journal.store(), [50, 100][rng.random_range(0..2)], rng);
            self.dropped += 1;
        }
        kept
    }

    /// Lives on a device that works again, until one of them can write. It is killed.
    fn recover(&mut self, place: &Place<'_>, journal: &mut Journal, rng: &mut SmallRng) {
        for _ in 0..OPENINGS {
            let mut child = Running::start(journal.store(), journal.profile, journal.seed);
            child.first_told();
            write_back(journal.store(), rng.random_range(0..100), 0, rng).ok();
            let early = child.ended();
            child.kill();
            let (told, said) = child.end();
            let what = format!("{}, a recovery, it said {said:?}", place.system.0);
            judge(&said, &what);
            journal.enter(&told, &what, |of, _| of == Durability::Sync);
            if !early {
                assert!(said.is_empty(), "{what}");
                return;
            }
            assert!(told.is_empty() && said.contains("sync"), "{what}");
            self.told_later += 1;
        }
        panic!("{}: a store does not open on a device that works again", place.system.0);
    }
}

/// Lets a child live on while the device fails, and perhaps when it works again. Says what it told
/// and what it said of errors.
///
/// The device works again before anything is waited for: ext4 tries for ever to free blocks whose
/// description lies behind the device's end, and all syncs wait for that.
fn endure(
    place: &Place<'_>,
    mut child: Running,
    store: &Path,
    effort: u64,
    rng: &mut SmallRng,
) -> (Vec<u8>, String) {
    let patience = [30, 400][rng.random_range(0..2)];
    let failing = Duration::from_millis(rng.random_range(0..patience));
    let (asked, killed_first) = (rng.random(), rng.random());
    let mut others = SmallRng::from_rng(rng);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            write_back(store, failing.as_millis() as u64, effort, &mut others).ok();
            if asked {
                sync_all(store);
            }
        });
        let until = Instant::now() + failing + Duration::from_millis(20);
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if killed_first && !child.ended() {
            child.kill();
        }
        place.mounted.heal().unwrap_or_else(|why| panic!("{}: {why}", place.system.0));
    });
    let until = Instant::now() + Duration::from_millis(rng.random_range(0..200));
    while Instant::now() < until && !child.ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if !child.ended() {
        child.kill();
    }
    child.end()
}

/// A device that fails is no damage.
fn judge(said: &str, what: &str) {
    assert!(!said.contains("damaged") && !said.contains("panicked"), "{what}");
}

/// Syncs all files and the file system, as another process would, and takes the errors of earlier
/// writes.
fn sync_all(store: &Path) {
    let files = std::fs::read_dir(store).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in files.chain([store.to_owned()]) {
        if let Ok(file) = std::fs::File::open(path) {
            file.sync_all().ok();
            rustix::fs::syncfs(&file).ok();
        }
    }
}

/// Whether a device of this file system can be made to fail, and to work again.
///
/// # Errors
/// The first step that this machine cannot do.
pub fn can_fail(mounted: &Mounted, rng: &mut SmallRng) -> Result<(), String> {
    for how in [Failure::Full, Failure::Short] {
        mounted.fail(how, rng)?;
        mounted.heal()?;
    }
    if mounted.takes_writes() { Ok(()) } else { Err("it does not work again".to_owned()) }
}
