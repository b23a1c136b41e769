//! The compaction chains that memtables waited for, as defined in "vLSM: Low tail latency and I/O
//! amplification in LSM-based KV stores" (2024), §2.3.
//!
//! Two measures, for every shape:
//! - *Waited*: a tree waits while a sealed memtable may not be flushed (the shape proposes no flush
//!   that could start, and none is under way) or while its shape slows down or stops writes. Where
//!   memtables are merged into L1, that merge counts as their flush. The stages of the chain are
//!   the levels in which, according to the shape, room must be made; the width of a stage is the
//!   bytes that jobs out of that level merged meanwhile. The chain of one memtable ends with the
//!   next flush.
//! - *Standing*: at each flush, the chain behind L0: the bytes that would have to be merged before
//!   the next memtable could be flushed if L0 were full at that moment. It shows the possible width
//!   of a wait, also in runs without waits. The paper's Fig. 2 and 9 compare it.

use std::collections::BTreeMap;
use std::time::Duration;
use vlsm_core::event::{ChainReport, ChainStage, Event};
use vlsm_core::{ByteCount, Micros, TreeId};
use vlsm_policy::Chain;

/// A tree whose oldest memtable waits.
struct Waiting {
    since: Duration,
    stages: Vec<ChainStage>,
}

/// Open and ended chains.
#[derive(Default)]
pub(crate) struct Chains {
    waiting: BTreeMap<TreeId, Waiting>,
    waited: ChainSummary,
    standing: ChainSummary,
}

/// All chains of one measure since the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ChainSummary {
    /// Number of chains.
    pub count: u64,
    /// Stages of the longest chain.
    pub length_max: u64,
    /// Bytes of the widest chain, over all its stages.
    pub width_max: ByteCount,
    /// Bytes of the widest single stage.
    pub stage_width_max: ByteCount,
    /// Bytes over all chains.
    pub width_total: ByteCount,
    /// The longest wait.
    pub waited_max: Micros,
    /// All waits together.
    pub waited_total: Micros,
    /// The widest chain of all, stage by stage.
    pub widest: ChainReport,
}

impl Chains {
    /// Records, after a tree's shape was evaluated, whether the tree waits and for which levels.
    /// Returns the chain that ended, if any.
    pub fn observe(
        &mut self,
        tree: TreeId,
        now: Micros,
        waits: bool,
        chain: &Chain,
    ) -> Option<Event> {
        if !waits {
            return self.end(tree, now);
        }
        let since = Duration::from_micros(now.0);
        let fresh = || Waiting { since, stages: Vec::new() };
        let waiting = self.waiting.entry(tree).or_insert_with(fresh);
        for (level, _) in &chain.stages {
            waiting.stage(*level);
        }
        None
    }

    /// Records the start of a flush: the chain behind L0, and the end of the chain that was waited
    /// for.
    pub fn flush_begins(
        &mut self,
        tree: TreeId,
        now: Micros,
        chain: &Chain,
    ) -> impl Iterator<Item = Event> + use<> {
        let stage = |&(level, width): &(u8, ByteCount)| ChainStage::new(level, width);
        let stages = chain.stages.iter().map(stage).collect();
        let chain = ChainReport::new(stages, Micros::ZERO);
        self.standing.add(&chain);
        [Event::ChainStood { tree, chain }].into_iter().chain(self.end(tree, now))
    }

    /// Adds what a job merged to the chain of a waiting memtable.
    pub fn merged(&mut self, tree: TreeId, level: u8, bytes: ByteCount, job_ended: bool) {
        let Some(waiting) = self.waiting.get_mut(&tree) else { return };
        if let Some(stage) = waiting.stages.iter_mut().find(|stage| stage.level == level) {
            stage.width += bytes;
            stage.jobs += u64::from(job_ended);
        }
    }

    fn end(&mut self, tree: TreeId, now: Micros) -> Option<Event> {
        let waiting = self.waiting.remove(&tree)?;
        let waited = now.saturating_sub(Micros(waiting.since.as_micros() as u64));
        let chain = ChainReport::new(waiting.stages, waited);
        self.waited.add(&chain);
        Some(Event::ChainEnded { tree, chain })
    }

    /// The chains that were waited for.
    pub fn waited(&self) -> &ChainSummary {
        &self.waited
    }

    /// The chains that stood behind L0.
    pub fn standing(&self) -> &ChainSummary {
        &self.standing
    }
}

impl Waiting {
    fn stage(&mut self, level: u8) {
        if !self.stages.iter().any(|stage| stage.level == level) {
            self.stages.push(ChainStage::new(level, ByteCount::ZERO));
            self.stages.sort_by_key(|stage| stage.level);
        }
    }
}

impl ChainSummary {
    fn add(&mut self, chain: &ChainReport) {
        self.count += 1;
        self.length_max = self.length_max.max(chain.length() as u64);
        self.width_total += chain.width();
        self.waited_max = self.waited_max.max(chain.waited);
        self.waited_total += chain.waited;
        let widest = chain.stages.iter().map(|stage| stage.width).max();
        self.stage_width_max = self.stage_width_max.max(widest.unwrap_or_default());
        if chain.width() > self.width_max || self.count == 1 {
            self.width_max = chain.width();
            self.widest = chain.clone();
        }
    }
}
