//! The start of every scenario of a profile: a grown tree, and the rate that the store sustains.
//!
//! 1. L1 and L2 are filled to their targets, L3 with twice as much as L2, so that the flow between
//!    levels matters in every scenario from the start;
//! 2. clients write [`MEMTABLES`] memtables as fast as they can, and all work that follows from
//!    them is done. The sustained rate is these bytes ÷ the whole time; a rate that is let in while
//!    debt grows is not sustained. The sizes of levels stay constant meanwhile
//!    (`follow_memtables`), because bytes that larger levels take in are not sustained.

use super::{CLIENTS, ENTRY, Load, Plant};
use crate::files::{Random, Tree};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, Micros, TreeId};
use vlsm_policy::{Candidate, Class, Inputs, Policies, PolicyOptions, Shape, profile};

/// Memtables that are written to find the sustained rate.
const MEMTABLES: u64 = 32;
/// The largest debt of a bearable load, in memtables, whatever a flood brings. The shape `vlsm`
/// reaches 156, because the contents of its L0 have still to be merged into each level.
const DEBT_MAX: u64 = 200;
/// The longest time of any step, in seconds.
const LONG: f64 = 10_000.0;
/// The most bytes of a level, whatever its target is.
const FILLED_MAX: u64 = 4 << 30;

/// A profile with a grown tree.
pub struct Base {
    pub options: PolicyOptions,
    tree: Tree,
    /// Bytes per second that it sustains.
    pub sustained: f64,
    /// The debt that compaction may have under a bearable load, in bytes: its maximum in the flood
    /// by which the rate was found, at most [`DEBT_MAX`] memtables.
    pub debt: f64,
    /// Seconds in which it takes [`MEMTABLES`] memtables at that rate: the unit of scenarios.
    pub unit: f64,
}

/// The base of a profile, made once.
pub fn base(name: &'static str) -> Arc<Base> {
    static BASES: Mutex<BTreeMap<&str, Arc<Base>>> = Mutex::new(BTreeMap::new());
    let mut bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
    bases.entry(name).or_insert_with(|| Arc::new(Base::new(name))).clone()
}

impl Base {
    fn new(name: &str) -> Self {
        let mut asked = profile(name).expect("known");
        // Guards are counted in keys: an entry stands for 2^7 pairs of 1 KB.
        asked.shapes.flsm.top_level_bits -= 7;
        let mut options = asked.clone();
        options.shapes.tiered_l0.follow_memtables = false;
        let policies = options.build().expect("legal options");
        let tree = filled(&options, &*policies.0);
        let mut plant = Plant::new(&options, policies, vec![(tree, 1.0)], 0x9e37_79b9_7f4a_7c15);
        assert!(plant.drain(LONG), "{name} is never done: {:?}", plant.finish(0.0));
        plant.take_debt();
        let (begin, bytes) = (plant.now, options.tree.memtable_bytes.0 * MEMTABLES);
        while plant.written() < bytes && (plant.now - begin).as_secs_f64() < LONG {
            plant.run(Load::writes(CLIENTS), 0.1);
        }
        plant.send_away();
        let written = plant.written() as f64;
        assert!(plant.drain(LONG), "{name} is never done: {:?}", plant.finish(0.0));
        let sustained = written / (plant.now - begin).as_secs_f64();
        let debt = plant.take_debt().min(DEBT_MAX * options.tree.memtable_bytes.0) as f64;
        let tree = plant.into_tree();
        Self { options: asked, tree, sustained, debt, unit: bytes as f64 / sustained }
    }

    /// A store of this profile with a tree for each of the shares of the load.
    pub fn plant(&self, shares: &[f64]) -> Plant {
        self.plant_with(self.options.build().expect("legal options"), shares)
    }

    /// The same with other policies.
    pub fn plant_with(&self, policies: Policies, shares: &[f64]) -> Plant {
        let tree = |(index, share): (usize, &f64)| {
            let mut tree = self.tree.clone();
            tree.id = TreeId(index as u64);
            (tree, *share)
        };
        let trees = shares.iter().enumerate().map(tree).collect();
        // Other keys than those in the grown tree.
        Plant::new(&self.options, policies, trees, 0xd1b5_4a32_d192_ed03)
    }
}

/// A tree whose levels are filled to their targets.
fn filled(options: &PolicyOptions, shape: &dyn Shape) -> Tree {
    let sealed_at = options.tree.memtable_bytes;
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    // The shape reports the targets of levels only for a tree that has these levels.
    let mut probe = Tree::new(TreeId::default(), ENTRY);
    bring(&mut probe, shape, (3, 1), sealed_at, &mut random);
    let facts = probe.facts(Micros::ZERO, sealed_at);
    let levels = shape.pressure(&probe.version, &facts).levels;
    let target = |level: usize, or: Bytes| {
        let target = levels.get(level - 1).and_then(|level| level.target);
        target.unwrap_or(or).0.min(FILLED_MAX)
    };
    let l1 = target(1, options.tree.l1_bytes);
    let l2 = target(2, Bytes(l1 * options.tree.growth));
    // If the target of L2 is zero, L3 comes after L1.
    let l3 = target(3, Bytes(FILLED_MAX)).min((l2 * 2).max(l1 * options.tree.growth));
    let mut tree = Tree::new(TreeId::default(), ENTRY);
    for (level, bytes) in [(3, l3), (2, l2), (1, l1)] {
        if level <= options.tree.levels {
            bring(&mut tree, shape, (level, bytes / ENTRY), sealed_at, &mut random);
        }
    }
    tree
}

/// Inserts `entries` new entries into a level, cut as a job into it would cut them.
fn bring(
    tree: &mut Tree,
    shape: &dyn Shape,
    (level, entries): (u8, u64),
    sealed_at: Bytes,
    random: &mut Random,
) {
    for _ in 0..entries {
        tree.insert(random.number());
    }
    tree.seal();
    let Some((memtable, _)) = tree.sealed.last() else { return };
    let candidate = Candidate {
        tree: tree.id,
        frees: Class::Memtable,
        kind: JobKind::Compact,
        inputs: Inputs { memtables: vec![memtable.id], tables: Vec::new() },
        output_level: level,
        range: memtable.range.clone().expect("it is not empty"),
        bytes_in: memtable.bytes,
        bytes_out: memtable.bytes,
        score: 0.0,
        sets_cursor: None,
        conflicts: Vec::new(),
    };
    let as_of = tree.version.clone();
    let facts = tree.facts(Micros::ZERO, sealed_at);
    tree.install(shape, (&as_of, &facts), &candidate);
}
