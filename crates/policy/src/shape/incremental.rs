//! A FIFO L0 and levels that make room one step at a time: the common part of `vlsm` and `lsmi`.
//!
//! Source: "vLSM: Low tail latency and I/O amplification in LSM-based KV stores" (2024), §2.2, §2.3
//! and §4.1. Rules:
//! 1. a flush needs an L0 slot: fewer than `l0_max` runs. One memtable becomes one run;
//! 2. L0→L1 takes the *one* oldest run and every table of L1 in its range, if L1 has room for the
//!    run within its limit. The limit of L1 is its target: L1 is drained until the run fits;
//! 3. level n gives to level n + 1 when level n lacks room within its target, and level n + 1 has
//!    room for an SST within its limit. From L2 on the limit is target + overflow. The room that
//!    level n needs is that of one more SST; in L1 it is that of the next run, and it counts the
//!    bytes that running jobs bring into L1;
//! 4. the order is by the used share of the slack. The slack of L0 is its queue; that of a level is
//!    its overflow and the room that it needs. So L1 comes first when it is at its target.
//!
//! Reading, on the overflow ("compaction debt", §3.3). §4.1 leaves no room for it in L1: good vSSTs
//! are compacted "until it frees space for an SST in L1 for the next SST". Widths of §6.2 agree:
//! 0.32 GB for five levels and 0.19 GB for three with SSTs of 8 MB, 0.16 GB for five and 0.12 GB
//! for four with 4 MB, which is f · S_M for each level. So L1 holds its target when a run comes.
//! The "0.5 GB for 8 MB SSTs" of the same section speaks against it: four stages of a target and an
//! overflow. §5 gives all systems an overflow of 64 MB, "an upper per-level limit" (§3.3). It stays
//! for L2 and below, where it is 3 % of the target, or 6 % with SSTs of 4 MB. In L1 it would be one
//! target more, or two.
//!
//! Alternative, ours ([`L1Limit::Overflow`]): the limit of L1 has the overflow, too. L1 needs room
//! for an SST or a run, whichever is larger. If L0 comes first by rule 4 but waits for a job out of
//! L1, no further job out of L1 starts. Runs wait less than in the paper. But under load L1 stands
//! at its limit, which is two targets with SSTs of 8 MB and three with 4 MB. Then L2 is only a half
//! or a third of Φ times as large as L1, and a job into L1 is two or three times as wide.
//!
//! The chain: L0 is full, so the oldest run must be merged with L1. If L1 has no room, the step out
//! of L1 must come first, and so on down to the first level with room. The overflow postpones each
//! step. If it has no bound, the chain ends in L1.
//!
//! Liveness. While no job runs, a level that refuses a merge wants to give, because the room that
//! rule 3 needs is no less than the room that rule 2 needs, and the target is no more than the
//! limit (`room.rs`). The last level never refuses. So either the oldest run can be merged or some
//! level can give.
//!
//! With uniform keys a run overlaps all of L1, so L0→L1 conflicts with each job out of L1, and they
//! take turns. Neither keeps the other waiting for ever. Bytes that jobs are moving out of L1 count
//! as room in rule 3, so no further job starts once there is enough. When these jobs have ended,
//! the run fits and conflicts with nothing. While it is merged, no job out of L1 can start, and
//! after that L1 lacks room again. Jobs out of L1 over different keys run at the same time, also
//! beside a merge into L1 that leaves their keys alone.

use super::pick::{self, Context};
use super::room::{L1Limit, Rooms, towards};
use crate::candidate::{Busy, Candidate, Candidates};
use crate::signals::{Chain, LevelPressure, Pressure, TreeFacts};
use crate::tree::TreeOptions;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Bytes, RunOrigin, Table, Version};

/// The candidates of one step from a level to the next, best first.
pub type Step<'a> = &'a dyn Fn(&Context<'_>, u8, f64) -> Vec<Candidate>;

/// The part that the shapes share.
#[derive(Debug, Clone)]
pub struct Incremental {
    pub options: TreeOptions,
    /// Growth factor from L1 to L2.
    pub l1_to_l2: u64,
    pub l1_limit: L1Limit,
}

impl Incremental {
    /// Returns the context of a pick in this version, with these options.
    pub fn context<'a>(
        &'a self,
        version: &'a Version,
        facts: &'a TreeFacts,
        busy: &'a Busy,
    ) -> Context<'a> {
        Context { version, facts, busy, options: &self.options }
    }

    pub fn candidates(
        &self,
        context: &Context<'_>,
        step: Step<'_>,
        movable: impl Fn(&Table) -> bool,
    ) -> Candidates {
        let Context { version, facts, busy, .. } = *context;
        let mut list = Vec::new();
        if version.l0.len() < self.options.l0_max {
            list.extend(pick::flush(facts, busy, 1));
        }
        let rooms = self.rooms(version, busy);
        let l0 = self.oldest_run(context, &rooms, movable);
        let l0_score = self.l0_score(version);
        let l0_waits = l0.as_ref().is_some_and(|candidate| !candidate.conflicts.is_empty());
        let mut ranked: Vec<(f64, Vec<Candidate>)> = vec![(l0_score, l0.into_iter().collect())];
        for level in 1..=version.depth() {
            let need = self.need(context, &rooms, level);
            let score = self.score(&rooms, level, need);
            if rooms.wants(level, need)
                && rooms.allows(level + 1, self.options.sst_max)
                && !(level == 1 && l0_waits && l0_score >= score)
            {
                ranked.push((score, step(context, level, score)));
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        list.extend(ranked.into_iter().flat_map(|(_, candidates)| candidates));
        list
    }

    pub fn rooms(&self, version: &Version, busy: &Busy) -> Rooms {
        Rooms::new(version, busy, &self.options, self.l1_to_l2).with_l1_limit(self.l1_limit)
    }

    /// Rule 2, for the oldest run that no job reads. If it overlaps an older run that a job reads,
    /// the two conflict, because both write into L1.
    fn oldest_run(
        &self,
        context: &Context<'_>,
        rooms: &Rooms,
        movable: impl Fn(&Table) -> bool,
    ) -> Option<Candidate> {
        let version = context.version;
        let mut idle = version.l0.iter().filter(|run| !context.is_busy(run));
        let run = if planted::is(Bug::L0OutOfOrder) { idle.next_back() } else { idle.next() }?;
        if version.l0.len() < self.options.l0_trigger || !rooms.allows(1, run.tables.bytes()) {
            return None;
        }
        context.merge(pick::of_runs([run]), 1, self.l0_score(version), movable)
    }

    /// The number of bytes that a level must have room for.
    fn need(&self, context: &Context<'_>, rooms: &Rooms, level: u8) -> Bytes {
        let sst = self.options.sst_max;
        if level > 1 {
            return sst;
        }
        let next = context.version.l0.iter().find(|run| !context.is_busy(run));
        // Not the size at which memtables are sealed now: a schedule may change it, and L1 would
        // have work to do without any write.
        let run = next.map_or(self.options.memtable_bytes, |run| run.tables.bytes());
        match self.l1_limit {
            L1Limit::Target => run + rooms.arriving(1),
            L1Limit::Overflow => run.max(sst),
        }
    }

    /// The bytes by which a level lacks that room within its target.
    pub fn missing(&self, context: &Context<'_>, level: u8) -> Bytes {
        let rooms = self.rooms(context.version, context.busy);
        rooms.excess(level, self.need(context, &rooms, level))
    }

    fn l0_score(&self, version: &Version) -> f64 {
        version.l0.len() as f64 / self.options.l0_max as f64
    }

    /// The used share of the level's slack. Without a bound on the overflow, the slack is as large
    /// as the target.
    fn score(&self, rooms: &Rooms, level: u8, need: Bytes) -> f64 {
        let slack = match rooms.overflow(level) {
            Some(overflow) => overflow + need,
            None => rooms.target(level).unwrap_or_default(),
        };
        towards(rooms.excess(level, need), Some(slack))
    }

    pub fn pressure(&self, version: &Version) -> Pressure {
        let rooms = self.rooms(version, &Busy::default());
        let l0 = version.l0_bytes();
        // Each run is merged with L1 on its own.
        let l1 = rooms.bytes(1).min(self.options.l1_bytes);
        // Runs below the trigger stay in L0, so no job ever pays for them.
        let due = version.l0.len() >= self.options.l0_trigger;
        let (out_of_l0, carried) =
            if due { (l0 + l1 * version.l0.len() as u64, l0) } else { Default::default() };
        let debt = rooms.owed(out_of_l0, carried);
        pressure(version, &self.options, rooms.pressures(version.depth()), debt)
    }

    /// The chain behind a full L0. The width of a stage is the bytes of one step's candidates · the
    /// number of steps that make the room.
    pub fn chain_behind_l0(&self, context: &Context<'_>, step: Step<'_>) -> Chain {
        let version = context.version;
        let rooms = self.rooms(version, &Busy::default());
        let l1 = version.level(1);
        let (mut need, first) = match version.l0.first() {
            Some(run) => {
                let below = run.tables.range().map(|range| l1.overlapping_bytes(&range));
                (run.tables.bytes(), run.tables.bytes() + below.unwrap_or_default())
            }
            None => (self.options.memtable_bytes, context.facts.memtable_bytes + l1.bytes()),
        };
        let mut stages = vec![(0, first)];
        for level in 1..=version.depth() {
            let lacking = rooms.lacking(level, need);
            if lacking == Bytes::ZERO {
                break;
            }
            let jobs = step(context, level, 0.0);
            let width: Bytes = jobs.iter().map(|job| job.bytes_in).sum();
            let given: Bytes = jobs
                .iter()
                .flat_map(|job| job.inputs.tables.iter())
                .filter(|(place, _)| place.level() == level)
                .map(|(_, table)| table.bytes)
                .sum();
            let rounds = lacking.0.div_ceil(given.0.max(1)).max(1);
            stages.push((level, Bytes(width.0.saturating_mul(rounds))));
            need = self.options.sst_max;
        }
        Chain { stages }
    }
}

/// The pressure of a tree: its distances to the limits of the options.
pub fn pressure(
    version: &Version,
    options: &TreeOptions,
    levels: Vec<LevelPressure>,
    debt: Bytes,
) -> Pressure {
    let runs = version.l0.len();
    let by_runs = |limit: usize| runs as f64 / limit.max(1) as f64;
    let (l0_slow, debt_slow) = (by_runs(options.l0_slowdown), towards(debt, options.debt_soft));
    let (l0_stop, debt_stop) = (by_runs(options.l0_stop), towards(debt, options.debt_hard));
    let by_l0 =
        if l0_stop.max(debt_stop) >= 1.0 { l0_stop >= debt_stop } else { l0_slow >= debt_slow };
    Pressure {
        l0_runs: runs,
        l0_flushed: version.l0.iter().filter(|run| run.origin == RunOrigin::Flush).count(),
        l0_bytes: version.l0_bytes(),
        levels,
        debt,
        slowdown: l0_slow.max(debt_slow),
        stop: l0_stop.max(debt_stop),
        by_l0,
    }
}
