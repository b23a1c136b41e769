//! The layers of `flsm`: levels of the tree that hold the runs of a level with guards.
//!
//! 1. A guarded level is a group of neighbouring levels of the tree. Each of these *layers* is one
//!    run; the newest run lies highest.
//! 2. There is room in a range if the top layer is vacant there. Appended tables go into the lowest
//!    layer that can be reached from the top through vacant ones.
//! 3. The last level comes after the guarded ones. It is one run.
//! 4. If the tree is deeper than that, its deepest level is the last one, and the levels between
//!    are one more guarded level. So a tree of any shape fits.

use std::ops::RangeInclusive;
use std::sync::Arc;
use vlsm_core::{KeyRange, Place, Table, Version};

/// A guarded level.
#[derive(Debug, Clone, Copy)]
pub struct Guarded {
    /// Its highest layer.
    pub top: u8,
    /// Its lowest layer.
    pub bottom: u8,
    /// Runs at which a guard gives; at most the number of layers.
    pub trigger: u8,
    /// Bits of its guards.
    pub bits: u32,
}

impl Guarded {
    pub fn layers(&self) -> RangeInclusive<u8> {
        self.top..=self.bottom
    }

    /// The layers whose tables have a guard that gives.
    pub fn due(&self) -> RangeInclusive<u8> {
        self.top..=self.bottom + 1 - self.trigger
    }

    /// The runs of a guard that has a table in this layer.
    pub fn runs(&self, layer: u8) -> u8 {
        self.bottom + 1 - layer
    }

    /// The layer for tables that are appended in this range.
    fn room(&self, version: &Version, range: &KeyRange) -> Option<u8> {
        let vacant = |layer: &u8| version.level(*layer).overlapping(range).next().is_none();
        self.layers().take_while(vacant).last()
    }

    /// The lowest layer that a table of `layer` reaches through vacant ones.
    pub fn reach(&self, version: &Version, layer: u8, table: &Table) -> u8 {
        let vacant = |at: &u8| version.level(*at).overlapping(&table.range).next().is_none();
        (layer + 1..=self.bottom).take_while(vacant).last().unwrap_or(layer)
    }

    /// A table of the guard of this one below which no other of its level lies.
    pub fn oldest(&self, version: &Version, layer: u8, seed: &Arc<Table>) -> (Place, Arc<Table>) {
        let (mut place, mut table) = (layer, seed);
        for below in layer + 1..=self.bottom {
            if let Some(older) = version.level(below).overlapping(&table.range).next() {
                (place, table) = (below, older);
            }
        }
        (Place::Level(place), table.clone())
    }
}

/// The levels of a tree, by its depth.
#[derive(Debug)]
pub struct Layout {
    /// The guarded levels, from L1 on.
    pub guarded: Vec<Guarded>,
    /// The last level.
    pub last: u8,
    /// Bits of its guards.
    pub last_bits: u32,
}

/// The level that a job writes into, and its guards.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub level: u8,
    /// The first of the levels whose tables show its guards.
    pub guards_from: u8,
    /// Bits of its guards.
    pub bits: u32,
}

impl Layout {
    /// The levels of a tree that is not deeper than `last`, or else with one more guarded level, of
    /// the same trigger as far as it has the layers.
    pub fn of(mut guarded: Vec<Guarded>, last: u8, last_bits: u32, version: &Version) -> Self {
        let depth = version.depth();
        if depth > last {
            let trigger = guarded.last().map_or(1, |level| level.trigger.min(depth - last));
            guarded.push(Guarded { top: last, bottom: depth - 1, trigger, bits: last_bits });
        }
        Self { guarded, last: last.max(depth), last_bits }
    }

    /// The place that a job over this range writes into: the guarded level of this index, or the
    /// last level if there is no such index. None if the top layer of that level has a table in the
    /// range.
    pub fn target(&self, version: &Version, index: usize, range: &KeyRange) -> Option<Target> {
        Some(match self.guarded.get(index) {
            Some(next) => {
                let level = next.room(version, range)?;
                Target { level, guards_from: next.top, bits: next.bits }
            }
            None => Target { level: self.last, guards_from: self.last, bits: self.last_bits },
        })
    }
}
