//! A closed store with any damage, opened with all salvages.
//!
//! 1. Damage that no read notices is skipped. `verify` finds all other damage.
//! 2. The store opens with `salvage_wal` and `salvage_ssts`. Only damage of the manifest or of
//!    `CURRENT` may refuse the open, and then no file has changed.
//! 3. The events name the lost SSTs. Outside their key ranges every key has its old value, unless
//!    the log was damaged, too. The damaged files are kept aside, byte for byte.
//! 4. Then `verify` finds no damage, the store opens as usual with the same contents, and another
//!    salvage has nothing to do.
//! 5. If a salvage crashes at any file call, the next one completes it, with the same contents.

use super::{AtRest, Harm, PATIENCE, apply, kind};
use crate::disk::{Damage, Disk};
use crate::env::{End, SimConfig, SimEnv};
use crate::oracle::Contents;
use crate::salvage::{contents, same};
use crate::world::{FOLDER, World, verify};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use vlsm_core::event::Event;
use vlsm_core::{Error, KeyRange};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest;

/// The results of salvages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Cases of damage that no read notices.
    pub harmless: u64,
    /// Stores that no option opens.
    pub refused: u64,
    /// Stores that a salvage opened.
    pub opened: u64,
    /// SSTs that were lost.
    pub ssts: u64,
    /// Salvages that crashed.
    pub crashed: u64,
}

impl Salvaged {
    /// Adds the results of other salvages.
    pub fn add(&mut self, other: &Self) {
        self.harmless += other.harmless;
        self.refused += other.refused;
        self.opened += other.opened;
        self.ssts += other.ssts;
        self.crashed += other.crashed;
    }
}

/// The result of an open.
struct Found {
    contents: Result<Contents, Error>,
    events: Vec<Event>,
    points: u64,
    crashed: bool,
}

impl AtRest {
    /// Steps 1 to 4 for several cases of damage at once.
    ///
    /// # Errors
    /// The violation.
    pub fn salvage(&self, harms: &[Harm], told: &mut Salvaged) -> Result<(), String> {
        self.salvage_all(harms, told).map_err(|why| format!("{harms:?}: {why}"))
    }

    fn damaged(&self, harms: &[Harm]) -> (Disk, Vec<PathBuf>) {
        let disk = self.disk.fork();
        let harmed = harms.iter().filter_map(|harm| apply(&disk, harm)).collect();
        // A removed file must not come back after a crash.
        disk.lose_power(Damage::KeepAll);
        (disk, harmed)
    }

    fn salvage_all(&self, harms: &[Harm], told: &mut Salvaged) -> Result<(), String> {
        let (disk, harmed) = self.damaged(harms);
        if self.read(&disk.fork())?.1.is_ok() {
            told.harmless += 1;
            return Ok(());
        }
        self.named(&disk, &harmed)?;
        let damaged = disk.fork();
        let Found { contents: found, events, .. } = self.open(&disk, 3, true, None)?;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                told.refused += 1;
                let hopeless = ["MANIFEST", "CURRENT"];
                if !harmed.iter().any(|path| hopeless.contains(&&*kind(path))) {
                    return Err(format!("cannot be salvaged: {error}"));
                }
                return same(&damaged, &disk).map_err(|why| format!("refused, but {why}"));
            }
        };
        told.opened += 1;
        told.ssts += self.check_lost(&damaged, &disk, &found, &events)?;
        self.check_usual(&disk, &found)
    }

    /// Step 1. Of exchanged files it is enough to name one.
    fn named(&self, disk: &Disk, harmed: &[PathBuf]) -> Result<(), String> {
        let env: Arc<dyn Env> = RealEnv::with_fs(disk.fork().fs());
        let Ok(report) = vlsm::verify_with(&env, Path::new(FOLDER), &mut |_| {}) else {
            return Ok(());
        };
        if !report.damaged {
            return Err("verify finds no damage".into());
        }
        let named: BTreeSet<&Path> = report.findings.iter().map(|finding| &*finding.path).collect();
        let unnamed = harmed.iter().find(|path| kind(path) == "sst" && !named.contains(&***path));
        unnamed.map_or(Ok(()), |path| Err(format!("verify does not name {}", path.display())))
    }

    /// Step 3. Returns the number of lost SSTs.
    fn check_lost(
        &self,
        damaged: &Disk,
        disk: &Disk,
        found: &Contents,
        events: &[Event],
    ) -> Result<u64, String> {
        let read = manifest::log::read(&*damaged.fs(), Path::new(FOLDER));
        let state = read.map_err(|error| error.to_string())?.state;
        if let Some(path) = lost_for_good(events, damaged, disk) {
            return Err(format!("{} was not kept", path.display()));
        }
        let (mut log, mut files) = (false, BTreeSet::new());
        let mut ranges: Vec<(usize, KeyRange)> = Vec::new();
        for event in events {
            let Event::SstLost { error, .. } = event else {
                log = true;
                continue;
            };
            let Error::Corruption { path, .. } = error else {
                return Err(format!("lost by another error: {error}"));
            };
            let Some(number) = vlsm_disk::names::number(path, "", ".sst") else {
                return Err(format!("no SST is lost: {}", path.display()));
            };
            for (id, keyspace) in &state.keyspaces {
                for region in &keyspace.regions {
                    let tables = state.trees[&region.tree].tables();
                    let lost = tables.filter(|(_, table)| table.file.number.0 == number);
                    ranges.extend(lost.map(|(_, table)| (*id as usize, table.range.clone())));
                }
            }
            files.insert(number);
        }
        if !log && files.is_empty() {
            return Err("nobody was told of a loss".into());
        }
        for space in 0..self.contents.spaces() {
            let pairs = |contents: &Contents| -> BTreeSet<(Vec<u8>, Vec<u8>)> {
                contents.pairs(space).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
            };
            let (was, is) = (pairs(&self.contents), pairs(found));
            let told = |key: &[u8]| ranges.iter().any(|(of, r)| *of == space && r.contains(key));
            if !log && was.symmetric_difference(&is).any(|(key, _)| !told(key)) {
                return Err(format!("a key of keyspace {space} changed that was not lost"));
            }
        }
        Ok(files.len() as u64)
    }

    /// Step 4.
    fn check_usual(&self, disk: &Disk, found: &Contents) -> Result<(), String> {
        verify(disk)?;
        for (seed, salvage) in [(4, false), (5, true)] {
            let again = self.open(disk, seed, salvage, None)?;
            let told = |what: String| format!("opened again, salvage {salvage}: {what}");
            let contents = again.contents.map_err(|error| told(error.to_string()))?;
            if let Some(why) = found.difference(&contents) {
                return Err(told(why));
            }
            if !again.events.is_empty() {
                return Err(told(format!("{:?}", again.events)));
            }
        }
        verify(disk)
    }

    /// Step 5, at every `stride`-th file call.
    ///
    /// # Errors
    /// The violation.
    pub fn crash(&self, harms: &[Harm], stride: u64, told: &mut Salvaged) -> Result<(), String> {
        let (damaged, _) = self.damaged(harms);
        let disk = damaged.fork();
        let whole = self.open(&disk, 3, true, None)?;
        let found = whole.contents.map_err(|error| format!("{harms:?}: {error}"))?;
        for point in (0..whole.points).step_by(stride.max(1) as usize) {
            let crashed = damaged.fork();
            if !self.open(&crashed, 3, true, Some(point))?.crashed {
                continue;
            }
            told.crashed += 1;
            let ways =
                [None, Some(Damage::LoseAll), Some(Damage::KeepEntries), Some(Damage::KeepData)];
            for way in ways {
                let disk = crashed.fork();
                way.map_or_else(|| disk.lose_process(), |damage| disk.lose_power(damage));
                let why = |why: String| format!("{harms:?}, crash point {point}, {way:?}: {why}");
                let again = self.open(&disk, 6, true, None).map_err(why)?;
                let contents = again.contents.map_err(|error| why(error.to_string()))?;
                if let Some(differs) = found.difference(&contents) {
                    return Err(why(differs));
                }
                if let Some(path) = lost_for_good(&whole.events, &damaged, &disk) {
                    return Err(why(format!("{} was not kept", path.display())));
                }
                self.check_usual(&disk, &found).map_err(why)?;
            }
        }
        Ok(())
    }

    fn open(
        &self,
        disk: &Disk,
        seed: u64,
        salvage: bool,
        crash_point: Option<u64>,
    ) -> Result<Found, String> {
        let mut options = self.options.clone();
        (options.salvage_wal, options.salvage_ssts) = (salvage, salvage);
        let mut config = SimConfig { steps_max: self.steps * PATIENCE, ..SimConfig::new(seed) };
        config.device.crash_point = crash_point;
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let told = events.clone();
        let outcome = SimEnv::run(&config, disk, move |env| -> Result<Contents, Error> {
            let world = World::open_listening(&env, &options, move |event| {
                let lost = matches!(
                    event,
                    Event::WalLost { .. } | Event::WalDamaged { .. } | Event::SstLost { .. }
                );
                if lost {
                    told.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
                }
            })?;
            let found = world.contents()?;
            world.close()?;
            Ok(found)
        });
        let points = outcome.device.mutating * 2;
        let events = events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (contents, crashed) = match outcome.end {
            End::Done(contents) => (contents, false),
            End::Crashed => (Err(Error::Closed), true),
            End::Failed(why) => return Err(format!("{why}\n{}", outcome.tail)),
        };
        Ok(Found { contents, events, points, crashed })
    }
}

/// An SST that an event reports as lost and that existed, but is not kept.
fn lost_for_good(events: &[Event], damaged: &Disk, disk: &Disk) -> Option<PathBuf> {
    let aside = contents(disk, &Path::new(FOLDER).join("lost"));
    let lost = events.iter().filter_map(|event| match event {
        Event::SstLost { error: Error::Corruption { path, .. }, .. } => Some(path),
        _ => None,
    });
    let mut lost = lost.filter_map(|path| Some((path, damaged.content(path)?)));
    let gone = lost.find(|(_, bytes)| !aside.values().any(|kept| kept == bytes));
    gone.map(|(path, _)| path.clone())
}
