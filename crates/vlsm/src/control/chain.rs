//! The compaction chains for which memtables waited, as defined in "vLSM: Low tail latency and I/O
//! amplification in LSM-based KV stores" (2024), §2.3.
//!
//! Two measures, for every shape:
//! - *Waited*: a tree waits while a sealed memtable may not be flushed (the shape proposes no flush
//!   that could start, and none is running) or while its shape slows down or stops writes. If
//!   memtables are merged into L1, that merge counts as their flush. The stages of the chain are
//!   the levels in which room must be made according to the shape. The width of a stage is the
//!   bytes that jobs out of that level merged meanwhile. The chain of a memtable ends with the next
//!   flush.
//! - *Standing*: at each flush, the chain behind L0: the bytes that would have to be merged before
//!   the next memtable could be flushed if L0 were full at that moment. It shows the possible width
//!   of a wait, even in runs without waits. Fig. 2 and 9 of the paper compare this measure.

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
    /// The part of `waited` by tree.
    by_tree: BTreeMap<TreeId, ChainSummary>,
    /// The last chain of each tree, and the time at which it ended.
    ended: BTreeMap<TreeId, (Micros, ChainReport)>,
}

/// All chains of one measure since the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ChainSummary {
    /// The number of chains.
    pub count: u64,
    /// The number of stages of the longest chain.
    pub length_max: u64,
    /// Bytes of the widest chain, over all its stages.
    pub width_max: ByteCount,
    /// Bytes of the widest single stage.
    pub stage_width_max: ByteCount,
    /// The sum of the bytes of all chains.
    pub width_total: ByteCount,
    /// The longest wait.
    pub waited_max: Micros,
    /// The sum of all waits.
    pub waited_total: Micros,
    /// The widest chain, stage by stage.
    pub widest: ChainReport,
}

impl Chains {
    /// Records whether a tree waits, and for which levels. Called after its shape was evaluated.
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

    /// Records the start of a flush: the chain behind L0, and the end of the chain for which the
    /// memtable waited.
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
        let keyspace = String::new();
        [Event::ChainStood { tree, keyspace, chain }].into_iter().chain(self.end(tree, now))
    }

    /// Adds the bytes that a job merged to the chain of a waiting memtable.
    pub fn merged(&mut self, tree: TreeId, level: u8, bytes: ByteCount, job_ended: bool) {
        let Some(waiting) = self.waiting.get_mut(&tree) else { return };
        if let Some(stage) = waiting.stages.iter_mut().find(|stage| stage.level == level) {
            stage.width += bytes;
            stage.jobs += u64::from(job_ended);
        }
    }

    /// Forgets a tree that is no longer in use. The sums over all trees keep its chains.
    pub fn forget(&mut self, tree: TreeId) {
        self.waiting.remove(&tree);
        self.by_tree.remove(&tree);
        self.ended.remove(&tree);
    }

    fn end(&mut self, tree: TreeId, now: Micros) -> Option<Event> {
        let waiting = self.waiting.remove(&tree)?;
        let waited = now.saturating_sub(Micros(waiting.since.as_micros() as u64));
        let chain = ChainReport::new(waiting.stages, waited);
        self.waited.add(&chain);
        self.by_tree.entry(tree).or_default().add(&chain);
        self.ended.insert(tree, (now, chain.clone()));
        Some(Event::ChainEnded { tree, keyspace: String::new(), chain })
    }

    /// The chain behind which a write into a tree has waited since a time: that of the tree, or
    /// otherwise the longest one of another tree, because the admission slows down the writers of
    /// all trees.
    pub fn behind(
        &self,
        tree: TreeId,
        since: Micros,
        now: Micros,
    ) -> Option<(TreeId, ChainReport)> {
        if let Some(own) = self.since(tree, since, now) {
            return Some((tree, own));
        }
        let trees = self.waiting.keys().chain(self.ended.keys()).copied();
        let others = trees.filter_map(|tree| Some((tree, self.since(tree, since, now)?)));
        others.max_by_key(|(_, chain)| chain.waited)
    }

    /// The chain that a tree waits for, or the last one if it has not ended before `since`.
    fn since(&self, tree: TreeId, since: Micros, now: Micros) -> Option<ChainReport> {
        if let Some(waiting) = self.waiting.get(&tree) {
            let waited = now.saturating_sub(Micros(waiting.since.as_micros() as u64));
            return Some(ChainReport::new(waiting.stages.clone(), waited));
        }
        let (ended, chain) = self.ended.get(&tree)?;
        (*ended >= since).then(|| chain.clone())
    }

    /// The chains for which these trees waited.
    pub fn waited_by(&self, trees: &[TreeId]) -> ChainSummary {
        let mut sum = ChainSummary::default();
        trees.iter().filter_map(|tree| self.by_tree.get(tree)).for_each(|one| sum.merge(one));
        sum
    }

    /// The chains for which trees waited.
    #[cfg(test)]
    pub fn waited(&self) -> &ChainSummary {
        &self.waited
    }

    /// The chains for which trees waited, and those that stood behind L0.
    pub fn both(&self) -> (ChainSummary, ChainSummary) {
        (self.waited.clone(), self.standing.clone())
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
    /// Adds the chains of another tree.
    fn merge(&mut self, other: &Self) {
        if other.count > 0 && (self.count == 0 || other.width_max > self.width_max) {
            self.widest = other.widest.clone();
        }
        self.count += other.count;
        self.length_max = self.length_max.max(other.length_max);
        self.width_max = self.width_max.max(other.width_max);
        self.stage_width_max = self.stage_width_max.max(other.stage_width_max);
        self.width_total += other.width_total;
        self.waited_max = self.waited_max.max(other.waited_max);
        self.waited_total += other.waited_total;
    }

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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn chain(levels: &[(u8, u64)]) -> Chain {
        Chain { stages: levels.iter().map(|(level, width)| (*level, ByteCount(*width))).collect() }
    }

    /// The tree's own chain comes first, even if it ended during the wait; otherwise the longest
    /// chain of another tree. Chains that ended before the wait began do not count.
    #[test]
    fn a_wait_finds_the_chain_that_it_stood_behind() {
        let [orders, users, logs] = [TreeId(1), TreeId(2), TreeId(3)];
        let mut chains = Chains::default();
        let find = |chains: &Chains, tree, since, now| {
            let found = chains.behind(tree, Micros(since), Micros(now));
            found.map(|(tree, chain)| (tree, chain.waited, chain.length(), chain.width()))
        };
        assert_eq!(find(&chains, orders, 0, 10), None);
        assert!(chains.observe(orders, Micros(100), true, &chain(&[(0, 5), (1, 7)])).is_none());
        chains.merged(orders, 1, ByteCount(4000), true);
        let open = Some((orders, Micros(50), 2, ByteCount(4000)));
        assert_eq!(find(&chains, orders, 120, 150), open);
        assert_eq!(find(&chains, users, 120, 150), open, "the only one that is waited for");
        chains.observe(logs, Micros(140), true, &chain(&[(0, 5)]));
        assert_eq!(find(&chains, users, 120, 150), open, "the longer one");
        assert_eq!(find(&chains, logs, 120, 150), Some((logs, Micros(10), 1, ByteCount(0))));
        let events: Vec<_> = chains.flush_begins(orders, Micros(200), &chain(&[])).collect();
        assert!(
            matches!(&events[1], Event::ChainEnded { chain, .. } if chain.waited == Micros(100))
        );
        let ended = Some((orders, Micros(100), 2, ByteCount(4000)));
        assert_eq!(find(&chains, orders, 190, 300), ended, "it ended meanwhile");
        let other = Some((logs, Micros(160), 1, ByteCount(0)));
        assert_eq!(find(&chains, orders, 201, 300), other, "it was over before");
    }

    #[test]
    fn the_chains_of_trees_add_up() {
        let mut chains = Chains::default();
        for (tree, begin, width) in [(1, 0, 30), (2, 5, 70), (1, 50, 20)] {
            let tree = TreeId(tree);
            chains.observe(tree, Micros(begin), true, &chain(&[(0, 1)]));
            chains.merged(tree, 0, ByteCount(width), true);
            let ended = chains.observe(tree, Micros(begin + 10 * width), false, &chain(&[]));
            assert!(ended.is_some());
        }
        assert_eq!(chains.waited_by(&[TreeId(1), TreeId(2)]), *chains.waited());
        let one = chains.waited_by(&[TreeId(1)]);
        assert_eq!((one.count, one.width_total, one.width_max), (2, ByteCount(50), ByteCount(30)));
        assert_eq!((one.waited_total, one.waited_max), (Micros(500), Micros(300)));
        assert_eq!(chains.waited_by(&[TreeId(9)]), ChainSummary::default());
        let all = chains.waited().clone();
        [1, 2].into_iter().for_each(|tree| chains.forget(TreeId(tree)));
        assert_eq!(*chains.waited(), all);
        assert!(chains.by_tree.is_empty() && chains.ended.is_empty() && chains.waiting.is_empty());
    }
}
