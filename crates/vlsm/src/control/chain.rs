//! What memtables had to wait for: compaction chains, as the paper defines them (vlsm.txt §3).
//!
//! A sealed memtable *waits* from the moment its tree may not flush it (the shape proposes no flush and
//! none is under way) to the grant of its flush. The stages of its chain are the levels from which the shape
//! says room must be made; the width of a stage is the bytes that jobs out of that level merged meanwhile.
//!
//! Besides, for every memtable the chain that stood in its way when it was sealed is kept as the *standing*
//! chain: what would have had to be merged had nothing been done yet.

use std::collections::BTreeMap;
use std::time::Duration;
use vlsm_core::event::{ChainReport, ChainStage, Event};
use vlsm_core::{Bytes, Micros, TreeId};
use vlsm_policy::{Chain, TreeFacts};

/// A tree whose oldest memtable waits.
struct Waiting {
    since: Duration,
    stages: Vec<ChainStage>,
}

/// Chains under way and those that ended.
#[derive(Default)]
pub(crate) struct Chains {
    waiting: BTreeMap<TreeId, Waiting>,
    summary: ChainSummary,
}

/// All chains since the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChainSummary {
    /// Memtables that had to wait for a chain.
    pub count: u64,
    /// Stages of the longest chain.
    pub length_max: u64,
    /// Bytes of the widest chain, over all its stages.
    pub width_max: Bytes,
    /// Bytes of the widest single stage.
    pub stage_width_max: Bytes,
    /// Bytes over all chains.
    pub width_total: Bytes,
    /// Longest time a memtable waited.
    pub waited_max: Micros,
    /// Time that memtables waited in all.
    pub waited_total: Micros,
    /// The widest chain of all, stage by stage.
    pub widest: ChainReport,
}

impl Chains {
    /// Takes note of a tree after its shape was asked.
    pub fn observe(&mut self, tree: TreeId, facts: &TreeFacts, may_flush: bool, chain: &Chain) {
        let ready = facts.memtables.first().is_some_and(|memtable| memtable.ready);
        if !ready || may_flush {
            return;
        }
        let since = Duration::from_micros(facts.now.0);
        let waiting =
            self.waiting.entry(tree).or_insert_with(|| Waiting { since, stages: Vec::new() });
        for (level, _) in &chain.stages {
            waiting.stage(*level);
        }
    }

    /// Adds what a job merged to the chain of a waiting memtable.
    pub fn merged(&mut self, tree: TreeId, level: u8, bytes: Bytes, job_ended: bool) {
        let Some(waiting) = self.waiting.get_mut(&tree) else { return };
        if let Some(stage) = waiting.stages.iter_mut().find(|stage| stage.level == level) {
            stage.width += bytes;
            stage.jobs += u64::from(job_ended);
        }
    }

    /// The flush of a tree's memtable was granted. Its chain, when it had to wait.
    pub fn granted(&mut self, tree: TreeId, now: Duration) -> Option<Event> {
        let waiting = self.waiting.remove(&tree)?;
        let waited = Micros(now.saturating_sub(waiting.since).as_micros() as u64);
        let chain = ChainReport { stages: waiting.stages, waited };
        self.summary.add(&chain);
        Some(Event::ChainEnded { tree, chain })
    }

    pub fn summary(&self) -> &ChainSummary {
        &self.summary
    }
}

impl Waiting {
    fn stage(&mut self, level: u8) {
        if !self.stages.iter().any(|stage| stage.level == level) {
            self.stages.push(ChainStage { level, jobs: 0, width: Bytes::ZERO });
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
