//! Views. A view is the state of all trees of the store at one moment; a reader pins it.
//!
//! A view is immutable. A rotation or an install makes a new view that shares all unchanged trees.
//! A reader loads the current view without a lock and keeps it alive by its reference count.
//!
//! There is one view for the whole store, because with a view for each tree a batch over two trees
//! could be visible in one and not in the other. For the same reason a reader that needs several
//! trees loads the view, then the visible sequence number, and then checks that the view is still
//! current ([`Views::pin`]): a batch may be in memtables that a stale view does not have, and its
//! sequence number becomes visible only after these memtables are in the view.
//!
//! Age order: usually all memtables are newer than all runs of L0. While ingested files lie in L0
//! above memtables that wait for their flush, runs and memtables are interleaved
//! ([`TreeView::sources`]).
//!
//! When a keyspace is cleared or dropped, writers no longer see its former trees. The trees stay
//! unchanged for readers with earlier sequence numbers ([`Views::retire`]), until there is no such
//! reader ([`Views::let_go`]).
//!
//! Threads and locks: `change` orders rotations and installs; it is held for the copy of one
//! vector.

use crate::catalog::{KeyspaceInfo, Trees};
use crate::memtable::Memtable;
use crate::rules::Rules;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use arc_swap::ArcSwap;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Micros, Result, Seq, Tables, TreeId, Version};
use vlsm_disk::Env;

/// One tree at one moment.
#[derive(Clone)]
pub(crate) struct TreeView {
    pub id: TreeId,
    /// The memtable that takes the writes.
    pub active: Arc<Memtable>,
    /// Sealed memtables that wait for their flush, oldest first.
    pub immutables: Vec<Arc<Memtable>>,
    pub version: Arc<Version>,
    /// The rules of its keyspace, by which its entries are read and merged.
    pub rules: Arc<Rules>,
    /// Whether a run of L0 is newer than a sealed memtable. [`Views`] maintains it.
    pub mixed: bool,
}

/// A sorted source of a tree's entries: a memtable, a run of L0 or a level.
pub(crate) enum Source<'a> {
    Memtable(&'a Arc<Memtable>),
    Run(&'a Tables),
}

fn first_seq(memtable: &Memtable) -> Seq {
    memtable.seqs().map_or(Seq::MAX, |(smallest, _)| smallest)
}

impl TreeView {
    /// All sources, newest first: each holds newer entries of any key than the sources after it.
    pub fn sources(&self) -> impl Iterator<Item = Source<'_>> {
        let mut active = Some(&self.active);
        let mut sealed = self.immutables.iter().rev().peekable();
        let mut runs = self.version.l0.iter().rev().peekable();
        let mut levels = self.version.levels.iter().filter(|tables| !tables.is_empty());
        std::iter::from_fn(move || {
            if let Some(active) = active.take() {
                return Some(Source::Memtable(active));
            }
            if let Some(memtable) = sealed.peek() {
                let newer = runs.next_if(|run| self.mixed && run.seq_min > first_seq(memtable));
                return match newer {
                    Some(run) => Some(Source::Run(&run.tables)),
                    None => sealed.next().map(Source::Memtable),
                };
            }
            runs.next().map(|run| &run.tables).or_else(|| levels.next()).map(Source::Run)
        })
    }

    /// The tree without the first run of L0 that is newer than a sealed memtable, and without
    /// everything newer than that run. Until the older memtables are flushed, jobs may use only
    /// this part. None if there is no such run.
    pub fn older_part(&self) -> Option<Self> {
        let oldest = self.immutables.first().filter(|_| self.mixed)?;
        let first = self.version.l0.iter().find(|run| run.seq_min > first_seq(oldest))?.seq_min;
        let mut version = Version::clone(&self.version);
        version.l0.retain(|run| run.seq_max < first);
        let older = self.immutables.iter().filter(|sealed| first_seq(sealed) < first);
        let immutables = older.cloned().collect();
        Some(Self { immutables, version: Arc::new(version), mixed: false, ..self.clone() })
    }

    fn ordered(mut self) -> Self {
        let ends = self.immutables.first().zip(self.version.l0.last());
        self.mixed = ends.is_some_and(|(oldest, newest)| first_seq(oldest) < newest.seq_min);
        self
    }
}

/// The trees that a keyspace had until it was cleared or dropped, for earlier readers.
pub(crate) struct Retired {
    /// The keyspace ([`KeyspaceInfo::number`]).
    keyspace: u64,
    /// Readers from this sequence number on do not see these trees.
    until: Seq,
    /// Its trees by region.
    trees: Vec<Arc<TreeView>>,
}

/// All trees at one moment.
#[derive(Clone, Default)]
pub(crate) struct StoreView {
    /// The trees in use, in order of their numbers.
    trees: Vec<Arc<TreeView>>,
    /// The retired trees, in the order in which they were retired.
    retired: Vec<Arc<Retired>>,
    filtered: Arc<FilteredTrees>,
    /// Whether another process compacts the trees, so that each reader must keep all of them.
    follows: bool,
}

/// The trees that readers must keep at one moment, in order of their numbers: those of keyspaces
/// with a compaction filter, or all trees of a store that another process writes.
#[derive(Default)]
pub(crate) struct FilteredTrees(Vec<Arc<TreeView>>);

impl FilteredTrees {
    /// The tree of this number, if it is among them.
    pub fn tree(&self, id: TreeId) -> Option<&Arc<TreeView>> {
        let found = self.0.binary_search_by_key(&id, |tree| tree.id);
        found.ok().map(|index| &self.0[index])
    }
}

impl StoreView {
    /// The tree of this number, which must be in use.
    ///
    /// # Panics
    /// If there is no such tree.
    pub fn tree(&self, id: TreeId) -> &Arc<TreeView> {
        self.find(id).expect("the tree is in use")
    }

    /// The tree of this number, unless its keyspace was dropped or cleared.
    #[inline]
    pub fn find(&self, id: TreeId) -> Option<&Arc<TreeView>> {
        // If no keyspace was dropped, numbers are indices.
        match self.trees.get(id.0 as usize) {
            Some(tree) if tree.id == id => Some(tree),
            _ => self.search(id),
        }
    }

    fn search(&self, id: TreeId) -> Option<&Arc<TreeView>> {
        let found = self.trees.binary_search_by_key(&id, |tree| tree.id);
        found.ok().map(|index| &self.trees[index])
    }

    /// The tree of a keyspace's region that a reader at `seq` sees. None if this view is too old or
    /// too new; the caller then loads another view, and also loads `seq` again if it is not
    /// registered. `seq` must be loaded before this call.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`](vlsm_core::Error::KeyspaceDropped).
    #[inline]
    pub fn tree_at(
        &self,
        keyspace: &KeyspaceInfo,
        region: usize,
        seq: Seq,
    ) -> Result<Option<&Arc<TreeView>>> {
        match keyspace.life(seq)? {
            Some(trees) => Ok(self.find(trees.tree(region)).or_else(|| {
                // The reader has found the former trees of the keyspace.
                self.former(keyspace, region, seq)
            })),
            None => Ok(self.former(keyspace, region, seq)),
        }
    }

    #[cold]
    fn former(&self, keyspace: &KeyspaceInfo, region: usize, seq: Seq) -> Option<&Arc<TreeView>> {
        let of =
            |retired: &&Arc<Retired>| retired.keyspace == keyspace.number && seq < retired.until;
        self.retired.iter().find(of).map(|retired| &retired.trees[region])
    }

    /// A tree that a reader found in this view.
    pub fn pinned(&self, id: TreeId) -> &Arc<TreeView> {
        self.find_any(id).expect("it was found in this view")
    }

    /// The present state of a walk's tree in this view; none if no reader may begin on it.
    pub fn find_any(&self, id: TreeId) -> Option<&Arc<TreeView>> {
        let retired = || self.retired.iter().flat_map(|retired| &retired.trees);
        self.find(id).or_else(|| retired().find(|tree| tree.id == id))
    }

    /// The trees in use.
    pub fn trees(&self) -> impl Iterator<Item = &Arc<TreeView>> {
        self.trees.iter()
    }

    /// The trees that readers must keep.
    pub fn filtered(&self) -> &Arc<FilteredTrees> {
        &self.filtered
    }

    fn set(&mut self, tree: TreeView) {
        let filters = tree.rules.filter.is_some();
        let tree = Arc::new(tree.ordered());
        match self.trees.binary_search_by_key(&tree.id, |tree| tree.id) {
            Ok(index) => self.trees[index] = tree,
            Err(index) => self.trees.insert(index, tree),
        }
        if filters && !self.follows {
            self.note_filtered();
        }
    }

    fn note_filtered(&mut self) {
        let filtered = self.trees().filter(|tree| self.follows || tree.rules.filter.is_some());
        self.filtered = Arc::new(FilteredTrees(filtered.cloned().collect()));
    }

    /// A view of these trees alone, in a store that another process writes.
    fn followed(trees: impl IntoIterator<Item = TreeView>) -> Self {
        let mut view = Self { follows: true, ..Self::default() };
        trees.into_iter().for_each(|tree| view.set(tree));
        view.note_filtered();
        view
    }
}

/// The moment that a reader sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// All writes up to here.
    pub seq: Seq,
    /// Wall-clock time: values that have expired by then are absent.
    pub now: Micros,
}

/// A view, and the moment of it that a reader sees.
#[derive(Clone)]
pub(crate) struct Pinned {
    pub view: Arc<StoreView>,
    pub at: Moment,
}

/// The current view, and the last write that is visible in it.
pub(crate) struct Views {
    current: ArcSwap<StoreView>,
    change: Mutex<()>,
    visible: AtomicU64,
    /// Whether there are retired trees.
    any_retired: AtomicBool,
}

impl Views {
    /// Without trees; all writes up to `visible` are visible.
    pub fn new(visible: Seq) -> Self {
        let (current, change) = (ArcSwap::default(), Mutex::default());
        let (visible, any_retired) = (AtomicU64::new(visible.0), AtomicBool::new(false));
        Self { current, change, visible, any_retired }
    }

    /// The sequence number up to which all writes are visible.
    #[inline]
    pub fn visible(&self) -> Seq {
        Seq(self.visible.load(Ordering::Acquire))
    }

    /// Makes all writes up to `seq` visible. One caller at a time.
    #[inline]
    pub fn publish(&self, seq: Seq) {
        debug_assert!(self.visible() <= seq, "{} was visible before {seq}", self.visible());
        self.visible.store(seq.0, Ordering::Release);
    }

    /// The current view, for a short use.
    #[inline]
    pub fn load(&self) -> arc_swap::Guard<Arc<StoreView>> {
        self.current.load()
    }

    /// The current view, to keep.
    pub fn load_full(&self) -> Arc<StoreView> {
        self.current.load_full()
    }

    /// A view and a sequence number that are consistent across trees.
    pub fn pin(&self, env: &dyn Env) -> (Arc<StoreView>, Seq) {
        loop {
            let view = self.load_full();
            env.interleave();
            let seq = self.visible();
            if Arc::ptr_eq(&view, &self.load()) || planted::is(Bug::ViewTorn) {
                return (view, seq);
            }
        }
    }

    /// Replaces one tree. `change` gets its present state and returns the new one.
    pub fn update(&self, id: TreeId, change: impl FnOnce(&TreeView) -> TreeView) {
        let _held = self.change.lock();
        let mut next = StoreView::clone(&self.load());
        let tree = change(next.tree(id));
        next.set(tree);
        self.current.store(Arc::new(next));
    }

    /// Whether another process writes and compacts the store, so that each reader must keep the
    /// view with which it began.
    pub fn follows(&self) -> bool {
        self.load().follows
    }

    /// Runs `action` on the view, which does not change meanwhile.
    pub fn unchanged<R>(&self, action: impl FnOnce(&StoreView) -> R) -> R {
        let _held = self.change.lock();
        action(&self.load())
    }

    /// Replaces all trees by those of a later moment, which another process wrote; all writes up to
    /// `seq` are visible in them. A reader that loads the view before the sequence number sees one
    /// of the two moments completely, because the larger number over the older trees shows the
    /// older moment.
    ///
    /// The trees of keyspaces that were cleared or dropped stay for earlier readers.
    pub fn follow(
        &self,
        trees: impl IntoIterator<Item = TreeView>,
        gone: &[Arc<KeyspaceInfo>],
        seq: Seq,
    ) {
        let mut next = StoreView::followed(trees);
        let _held = self.change.lock();
        let before = self.load_full();
        next.retired.clone_from(&before.retired);
        for info in gone {
            let Ok(old) = info.trees() else { continue };
            let trees = old.iter().filter_map(|id| before.find(id).cloned()).collect();
            let retired = Retired { keyspace: info.number, until: seq, trees };
            next.retired.push(Arc::new(retired));
        }
        self.publish(seq);
        self.current.store(Arc::new(next));
    }

    /// Adds trees.
    pub fn add(&self, trees: impl IntoIterator<Item = TreeView>) {
        let _held = self.change.lock();
        let mut next = StoreView::clone(&self.load());
        trees.into_iter().for_each(|tree| next.set(tree));
        self.current.store(Arc::new(next));
    }

    /// Retires the trees of a keyspace: readers from `until` on see the `new` trees instead.
    /// Returns the retired trees.
    pub fn retire(
        &self,
        keyspace: &KeyspaceInfo,
        old: Trees,
        until: Seq,
        new: Vec<TreeView>,
    ) -> Vec<Arc<TreeView>> {
        let _held = self.change.lock();
        let mut next = StoreView::clone(&self.load());
        let trees: Vec<_> = old.iter().map(|id| next.tree(id).clone()).collect();
        next.trees.retain(|tree| old.region(tree.id).is_none());
        let filters = trees.iter().any(|tree| tree.rules.filter.is_some());
        let retired = Retired { keyspace: keyspace.number, until, trees: trees.clone() };
        next.retired.push(Arc::new(retired));
        self.any_retired.store(true, Ordering::SeqCst);
        new.into_iter().for_each(|tree| next.set(tree));
        if filters {
            next.note_filtered();
        }
        self.current.store(Arc::new(next));
        trees
    }

    /// Whether there are retired trees, which earlier readers may see.
    #[inline]
    pub fn any_retired(&self) -> bool {
        self.any_retired.load(Ordering::SeqCst)
    }

    /// Drops retired trees that no reader sees any more. `held` returns the sequence numbers that
    /// readers hold; it is called after the visible number was loaded.
    pub fn let_go(&self, held: impl FnOnce() -> Vec<Seq>) {
        if self.load().retired.is_empty() {
            return;
        }
        let visible = self.visible();
        let oldest = held().into_iter().next().unwrap_or(Seq::MAX).min(visible);
        if self.load().retired.iter().all(|retired| retired.until > oldest) {
            return;
        }
        let _held = self.change.lock();
        let mut next = StoreView::clone(&self.load());
        next.retired.retain(|retired| retired.until > oldest);
        self.any_retired.store(!next.retired.is_empty(), Ordering::SeqCst);
        self.current.store(Arc::new(next));
    }
}
