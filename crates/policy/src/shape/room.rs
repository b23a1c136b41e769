//! The fill of the levels, including the bytes that running jobs take out and bring in.
//!
//! Two questions decide about compaction chains (vLSM (2024), §2.3). Does a level *want* to give
//! something to the next level, because it lacks room for `need` more bytes? Does the next level
//! have *room* for it, within its limit? The limit of a level is its target and the overflow, so a
//! chain forms only beyond the overflow. The limit of L1 may be its target alone ([`L1Limit`]).
//!
//! Progress: while no job runs, a level without room wants to give, whatever its limit, and the
//! last level always has room. So from any level without room a chain of wants leads to a level
//! that can give.

use crate::candidate::{Busy, Class};
use crate::signals::LevelPressure;
use crate::tree::TreeOptions;
use serde::{Deserialize, Serialize};
use vlsm_core::{Bytes, Version};

/// The bytes up to which L1 takes in what comes from L0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum L1Limit {
    /// Its target: L1 is drained until the next run of L0 fits.
    #[default]
    Target,
    /// Its target and the overflow, as for every other level.
    Overflow,
}

/// One level.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    bytes: Bytes,
    /// Bytes that running jobs move to the next level.
    leaving: Bytes,
    /// Bytes that running jobs bring from above.
    arriving: Bytes,
    target: Option<Bytes>,
}

/// All levels below L0.
#[derive(Debug)]
pub struct Rooms {
    levels: Vec<Room>,
    overflow: Option<Bytes>,
    l1_limit: L1Limit,
}

impl Rooms {
    /// The rooms of a tree. `l1_to_l2` is the growth factor from L1 to L2. The limit of every level
    /// has the overflow ([`Rooms::with_l1_limit`]).
    pub fn new(version: &Version, busy: &Busy, options: &TreeOptions, l1_to_l2: u64) -> Self {
        Self::with(version, busy, options, |level| options.target(level, l1_to_l2))
    }

    /// The rooms of a tree whose levels, except for the last, have these targets.
    pub fn with(
        version: &Version,
        busy: &Busy,
        options: &TreeOptions,
        target: impl Fn(u8) -> Option<Bytes>,
    ) -> Self {
        // A tree that is deeper than its options keeps its depth.
        let last = options.levels.max(version.depth());
        let mut levels: Vec<Room> = (1..=last)
            .map(|level| Room {
                bytes: version.level(level).bytes(),
                target: if level == last { None } else { target(level) },
                ..Room::default()
            })
            .collect();
        for held in &busy.reservations {
            let candidate = &*held.candidate;
            let to = usize::from(candidate.output_level);
            let from = match candidate.frees {
                Class::Level(level) => usize::from(level),
                Class::L0 | Class::Memtable => 0,
            };
            let inputs = candidate.inputs.tables.iter();
            let moved =
                inputs.filter(|(place, _)| usize::from(place.level()) == from).map(|i| i.1.bytes);
            let mut moved: Bytes = moved.sum();
            if candidate.frees == Class::Memtable {
                // The bytes that it reads from no table come from memtables.
                moved += candidate.bytes_in.saturating_sub(candidate.inputs.table_bytes());
            }
            if from > 0
                && let Some(room) = levels.get_mut(from - 1)
            {
                room.leaving += moved;
            }
            if to > from
                && let Some(room) = levels.get_mut(to - 1)
            {
                room.arriving += moved;
            }
        }
        Self { levels, overflow: options.overflow, l1_limit: L1Limit::Overflow }
    }

    /// The same room with this limit of L1.
    pub fn with_l1_limit(self, l1_limit: L1Limit) -> Self {
        Self { l1_limit, ..self }
    }

    fn get(&self, level: u8) -> Room {
        self.levels.get(usize::from(level) - 1).copied().unwrap_or_default()
    }

    /// The last level.
    pub fn last(&self) -> u8 {
        self.levels.len() as u8
    }

    /// Bytes in a level.
    pub fn bytes(&self, level: u8) -> Bytes {
        self.get(level).bytes
    }

    /// Target of a level; none for the last.
    pub fn target(&self, level: u8) -> Option<Bytes> {
        self.get(level).target
    }

    /// Bytes by which a level may exceed its target while it takes merges in; none for no bound.
    pub fn overflow(&self, level: u8) -> Option<Bytes> {
        match self.l1_limit {
            L1Limit::Target if level == 1 => Some(Bytes::ZERO),
            L1Limit::Target | L1Limit::Overflow => self.overflow,
        }
    }

    /// Bytes up to which merges into a level are allowed; none for no bound.
    pub fn limit(&self, level: u8) -> Option<Bytes> {
        let (target, overflow) = (self.target(level)?, self.overflow(level)?);
        Some(Bytes(target.0.saturating_add(overflow.0)))
    }

    /// Bytes that running jobs bring into the level.
    pub fn arriving(&self, level: u8) -> Bytes {
        self.get(level).arriving
    }

    /// Bytes that no running job moves to the next level.
    pub fn staying(&self, level: u8) -> Bytes {
        let room = self.get(level);
        room.bytes.saturating_sub(room.leaving)
    }

    /// Whether the level lacks room for `need` more bytes within its target, and has something to
    /// give.
    pub fn wants(&self, level: u8, need: Bytes) -> bool {
        self.excess(level, need) > Bytes::ZERO
    }

    /// Bytes by which the level lacks room for `need` more; at most the bytes that stay in it.
    pub fn excess(&self, level: u8, need: Bytes) -> Bytes {
        let staying = self.staying(level);
        match self.target(level) {
            Some(target) => (staying + need).saturating_sub(target).min(staying),
            None => Bytes::ZERO,
        }
    }

    /// Whether `more` bytes may be merged into the level. An empty level takes anything.
    pub fn allows(&self, level: u8, more: Bytes) -> bool {
        let room = self.get(level);
        let held = room.bytes + room.arriving;
        held == Bytes::ZERO || self.limit(level).is_none_or(|limit| held + more <= limit)
    }

    /// Bytes that may still be merged into the level; none for no bound.
    pub fn free(&self, level: u8) -> Option<Bytes> {
        let room = self.get(level);
        Some(self.limit(level)?.saturating_sub(room.bytes + room.arriving))
    }

    /// Bytes that must leave the level before `more` may be merged into it.
    pub fn lacking(&self, level: u8, more: Bytes) -> Bytes {
        let bytes = self.bytes(level);
        match self.limit(level) {
            Some(limit) if !self.allows(level, more) => {
                (bytes + more).saturating_sub(limit).min(bytes)
            }
            _ => Bytes::ZERO,
        }
    }

    /// Bytes that compaction owes until every level is within its target (RocksDB's estimate): the
    /// bytes to merge out of L0, then each level's excess with its share of the next level. The
    /// excess includes the bytes that come from above, `carried` of them from L0. So in a full tree
    /// a flush raises the debt and a compaction lowers it.
    pub fn owed(&self, out_of_l0: Bytes, carried: Bytes) -> Bytes {
        let (mut carried, mut owed) = (carried.as_f64(), out_of_l0.as_f64());
        for level in 1..self.last() {
            let bytes = self.bytes(level).as_f64() + carried;
            let target = self.target(level).map_or(f64::MAX, Bytes::as_f64);
            carried = (bytes - target).max(0.0);
            let below = self.bytes(level + 1).as_f64();
            if carried > 0.0 && below > 0.0 {
                owed += carried * (below / bytes + 1.0);
            }
        }
        Bytes(owed as u64)
    }

    /// The stages behind a merge that brings `arriving` bytes into L1. `limit` gives the limit of a
    /// level with its target. Each level that would then exceed its limit is a stage: the bytes
    /// that are moved and merged when its excess goes down in whole SSTs. The stages end at the
    /// first level that stays within its limit.
    pub fn stages(
        &self,
        mut arriving: Bytes,
        sst: Bytes,
        limit: impl Fn(u8, Bytes) -> Option<Bytes>,
    ) -> Vec<(u8, Bytes)> {
        let mut stages = Vec::new();
        for level in 1..self.last() {
            let target = self.target(level).unwrap_or(Bytes(u64::MAX / 4));
            let Some(limit) = limit(level, target) else { break };
            let bytes = self.bytes(level);
            let excess = (bytes + arriving).saturating_sub(limit).min(bytes);
            if excess == Bytes::ZERO {
                break;
            }
            stages.push((level, self.width(level, excess, sst)));
            arriving = excess;
        }
        stages
    }

    /// Bytes moved and merged when `excess` bytes of a level go down in whole SSTs.
    fn width(&self, level: u8, excess: Bytes, sst: Bytes) -> Bytes {
        let bytes = self.bytes(level);
        let moved = Bytes(excess.0.div_ceil(sst.0).saturating_mul(sst.0)).min(bytes).as_f64();
        let overlap = self.bytes(level + 1).as_f64() / bytes.as_f64().max(1.0);
        Bytes((moved * (1.0 + overlap)) as u64)
    }

    /// The pressure of each level.
    pub fn pressures(&self, depth: u8) -> Vec<LevelPressure> {
        (1..=depth)
            .map(|level| {
                let Room { bytes, target, .. } = self.get(level);
                let debt = target.map_or(Bytes::ZERO, |target| bytes.saturating_sub(target));
                LevelPressure { level, bytes, target, debt }
            })
            .collect()
    }
}

/// The share of `limit` that `amount` has reached; 1.0 at the limit. Without a limit the share is
/// 0.
pub fn towards(amount: Bytes, limit: Option<Bytes>) -> f64 {
    limit.map_or(0.0, |limit| amount.as_f64() / limit.as_f64().max(1.0))
}
