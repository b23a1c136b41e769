//! A script that crashes before and after every mutating file operation, each with several kinds of
//! damage, and again while it recovers; and a script in which every single file operation fails.
//!
//! 1. Play the first life of the script without a crash and count its crash points.
//! 2. For every point and every damage: play the script again from the same seed up to that point,
//!    cut the power, damage the disk, reopen, check, write, close, reopen, check.
//! 3. For some of them: also crash the recovery, at every point of its own.
//! 4. Many crashes leave the same files and the same promises: after one call the disk is as before
//!    the next one, and if nothing is pending, every damage keeps the same. A recovery depends on
//!    nothing else, so it runs once from each such state. Every 50th repetition runs nevertheless,
//!    and must have exactly the same events.
//!
//! If a call fails (once, or from then on), the store may refuse any operation, but its answers
//! must be right. So must those of a machine with a working disk afterwards, with or without a
//! power failure.

use crate::device::{Fault, Kind};
use crate::disk::{Damage, Disk};
use crate::env::{End, Outcome, SimConfig, SimEnv};
use crate::history::Loss;
use crate::script::{Player, Script, Told};
use crate::world::verify;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

/// The density of crashes.
#[derive(Debug, Clone)]
pub struct Thoroughness {
    /// The distance between the crash points that are tried.
    pub stride: u64,
    /// One in this many crashes is followed by crashes of its recovery, at every point of it.
    pub again: u64,
    /// The kinds of damage to the disk. Each is tried at each crash point.
    pub damages: Vec<Damage>,
}

/// The number of crashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    /// Crash points of the script.
    pub points: u64,
    /// Crashes of the script.
    pub first: u64,
    /// Crashes of a recovery.
    pub second: u64,
    /// The different states of files and promises that all these crashes left.
    pub states: u64,
}

/// Crashes a script at every point.
///
/// # Errors
/// The first wrong answer, with the point and the damage.
pub fn crash_every(script: &Script, seed: u64, how: &Thoroughness) -> Result<Crashes, String> {
    let calm = SimConfig::new(seed);
    let outcome = Player::new(script).life(&Disk::new(), &calm);
    match outcome.end {
        End::Done(Ok(true)) => {}
        End::Done(Ok(false)) | End::Crashed => return Err("a script of one life, please".into()),
        End::Done(Err(why)) | End::Failed(why) => return Err(format!("{why}\n{}", outcome.tail)),
    }
    let mut crashes = Crashes { points: outcome.device.mutating * 2, ..Crashes::default() };
    let mut recoveries = Recoveries::default();
    for point in (0..crashes.points).step_by(how.stride.max(1) as usize) {
        let crashed = Crashed::at(script, seed, point)?;
        for damage in &how.damages {
            let points = crashed.recover(*damage, None, &mut recoveries)?;
            crashes.first += 1;
            if how.again > 0 && crashes.first.is_multiple_of(how.again) {
                for second in 0..points {
                    crashed.recover(*damage, Some(second), &mut recoveries)?;
                    crashes.second += 1;
                }
            }
        }
    }
    crashes.states = recoveries.known.len() as u64;
    Ok(crashes)
}

/// One repetition in this many runs nevertheless.
const REPEATED: u64 = 50;

/// The recoveries that ended well.
#[derive(Default)]
struct Recoveries {
    /// By the state that they found (a hash of files and promises): the hash of all their events,
    /// and their mutating calls.
    known: BTreeMap<u64, (u64, u64)>,
    repetitions: u64,
}

impl Recoveries {
    /// The mutating calls of a recovery from this state, if it need not run.
    fn known(&mut self, state: u64) -> Option<u64> {
        let (_, calls) = self.known.get(&state)?;
        self.repetitions += 1;
        (!self.repetitions.is_multiple_of(REPEATED)).then_some(*calls)
    }

    /// Records a recovery.
    fn ended(&mut self, state: u64, events: u64, calls: u64) -> Result<(), String> {
        let known = *self.known.entry(state).or_insert((events, calls));
        if known == (events, calls) {
            return Ok(());
        }
        Err("two recoveries from the same files and promises differ".into())
    }
}

/// A machine that lost power at a crash point, before the disk is damaged.
struct Crashed {
    what: String,
    seed: u64,
    player: Arc<Player>,
    disk: Disk,
}

impl Crashed {
    fn at(script: &Script, seed: u64, point: u64) -> Result<Self, String> {
        let what = format!("{}, seed {seed}, crash point {point}", script.name);
        let (player, disk) = (Player::new(script), Disk::new());
        let mut config = SimConfig::new(seed);
        config.device.crash_point = Some(point);
        let outcome = player.life(&disk, &config);
        match outcome.end {
            End::Crashed => Ok(Self { what, seed, player, disk }),
            other => Err(format!("{what}: did not crash: {other:?}\n{}", outcome.tail)),
        }
    }

    /// Recovers, perhaps after a crash of the recovery at `second`. Returns the crash points of the
    /// recovery.
    fn recover(
        &self,
        damage: Damage,
        second: Option<u64>,
        recoveries: &mut Recoveries,
    ) -> Result<u64, String> {
        let (player, disk) = (self.player.fork(), self.disk.fork());
        let told = |why| format!("{}, {damage:?}, then {second:?}: {why}", self.what);
        let lose_power = || player.lost(Loss::Power, || disk.lose_power(damage));
        // Each life has another seed, because random numbers distinguish its files from earlier
        // ones.
        let run = |seed: u64, point: Option<u64>| {
            verify(&disk).map_err(told)?;
            let mut config = SimConfig::new(seed).day(seed - self.seed);
            config.device.crash_point = point;
            let player = player.clone();
            Ok::<_, String>(SimEnv::run(&config, &disk, move |env| player.recover(&env)))
        };
        lose_power();
        if second.is_some() {
            let first = run(self.seed + 1, second)?;
            if !matches!(first.end, End::Crashed) {
                return self.judge(first, told);
            }
            lose_power();
        }
        let mut state = DefaultHasher::new();
        disk.hash_files(&mut state);
        player.hash_history(&mut state);
        let state = state.finish();
        if let Some(calls) = recoveries.known(state) {
            return Ok(calls * 2);
        }
        let last = run(self.seed + 2, None)?;
        let events = last.hash;
        let points = self.judge(last, told)?;
        recoveries.ended(state, events, points / 2).map_err(told)?;
        Ok(points)
    }

    /// The crash points of a recovery that ended well.
    fn judge(
        &self,
        outcome: Outcome<Result<(), String>>,
        told: impl Fn(String) -> String,
    ) -> Result<u64, String> {
        match outcome.end {
            End::Done(Ok(())) => Ok(outcome.device.mutating * 2),
            End::Done(Err(why)) | End::Failed(why) => Err(told(format!("{why}\n{}", outcome.tail))),
            End::Crashed => Err(format!("{}: crashed unasked", self.what)),
        }
    }
}

/// The effects of failing calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Runs with a fault.
    pub runs: u64,
    /// Calls that failed, by kind of fault and by call.
    pub fired: BTreeMap<String, u64>,
    /// Commands that the store refused.
    pub refused: u64,
    /// Commands that succeeded.
    pub done: u64,
}

impl Faults {
    /// Adds the effects of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.refused += other.refused;
        self.done += other.done;
        for (class, count) in &other.fired {
            *self.fired.entry(class.clone()).or_default() += count;
        }
    }
}

/// Makes calls of a script of one life fail: every `stride`-th call, once and for ever, in every
/// way. The script continues to its end. Its reads must be right, and must succeed if only writes
/// fail. Afterwards all acknowledged writes must be readable on a working disk.
///
/// # Errors
/// The first wrong answer, with the call.
pub fn fail_every(script: &Script, seed: u64, stride: u64) -> Result<Faults, String> {
    let mut faults = Faults::default();
    let kinds = [
        (Kind::Eio, None, ""),
        (Kind::NoSpace, None, ""),
        (Kind::Short, None, ""),
        (Kind::Flip, None, ".sst"),
        (Kind::Misdirected, None, ".sst"),
        (Kind::Flip, None, ".values"),
        (Kind::Misdirected, None, ".values"),
        // Only the first manifest finds no room, so the rest of a close succeeds.
        (Kind::NoSpace, Some("write"), "MANIFEST-000001"),
    ];
    for (kind, name, suffix) in kinds {
        for nth in (0..).step_by(stride.max(1) as usize) {
            let fired = faults.fired.values().sum::<u64>();
            for times in [1, u64::MAX] {
                let fault = Fault { kind, name, suffix, nth, times };
                let told = |why: String| format!("{}, seed {seed}, {fault:?}: {why}", script.name);
                faults.add(&fail(script, seed, fault).map_err(told)?);
            }
            if faults.fired.values().sum::<u64>() == fired {
                // The script makes no more such calls.
                break;
            }
        }
    }
    Ok(faults)
}

/// One run with a fault.
fn fail(script: &Script, seed: u64, fault: Fault) -> Result<Faults, String> {
    let disk = Disk::new();
    let player = Player::on_a_faulty_disk(script);
    let mut config = SimConfig::new(seed);
    config.device.faults = vec![fault];
    let outcome = player.life(&disk, &config);
    match outcome.end {
        End::Done(Ok(_)) => {}
        End::Crashed => return Err("crashed unasked".into()),
        End::Done(Err(why)) | End::Failed(why) => return Err(format!("{why}\n{}", outcome.tail)),
    }
    let Told { done, refused, reads_refused } = player.told();
    let reading = |class: &String| ["read", "open", "len"].iter().any(|name| class.ends_with(name));
    if reads_refused > 0 && !outcome.device.faults.keys().any(reading) {
        return Err(format!("{reads_refused} reads were refused, though reading works"));
    }
    match fault.nth % 3 {
        0 => player.lost(Loss::Process, || disk.lose_process()),
        1 => player.lost(Loss::Power, || disk.lose_power(Damage::LoseAll)),
        _ => player.lost(Loss::Power, || disk.lose_power(Damage::Random(fault.nth))),
    }
    recover_on_good_disk(&player, &disk, SimConfig::new(seed + 1).day(1))?;
    // The second life has made durable what the first one could not.
    player.lost(Loss::Power, || disk.lose_power(Damage::LoseAll));
    recover_on_good_disk(&player, &disk, SimConfig::new(seed + 2).day(2))?;
    Ok(Faults { runs: 1, fired: outcome.device.faults, refused, done })
}

fn recover_on_good_disk(
    player: &Arc<Player>,
    disk: &Disk,
    config: SimConfig,
) -> Result<(), String> {
    let again = player.clone();
    let after = SimEnv::run(&config, disk, move |env| again.recover(&env));
    match after.end {
        End::Done(Ok(())) => Ok(()),
        End::Crashed => Err("crashed unasked".into()),
        End::Done(Err(why)) | End::Failed(why) => {
            Err(format!("afterwards, on a good disk: {why}\n{}", after.tail))
        }
    }
}
