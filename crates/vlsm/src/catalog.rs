//! The keyspaces of a store: the options of each, and its trees.
//!
//! A keyspace is one or more *regions*: trees over a static partition of its key range, fixed when
//! it is created (vLSM (2024), §2.1). The handles for users are in `keyspace`.
//!
//! Clearing a keyspace gives it new trees; dropping it leaves it without trees. Both happen at a
//! sequence number, and readers before it see the former trees ([`KeyspaceInfo::life`]). A batch
//! that was filled before names former trees; the catalog maps them to the present ones
//! ([`Catalog::current`]).
//!
//! Threads and locks: a keyspace's trees change under the sequencing lock and are read without a
//! lock. The lists are locked for a short time.

mod options;

pub use options::KeyspaceOptions;

use crate::rules::{Extensions, Rules};
use crate::shared::clock::Clock;
use crate::shared::habits::Habits;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result, Seq, TreeId};
use vlsm_disk::manifest;

/// The keyspace that every store has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// Stands for the number of the first tree of a dropped keyspace, which has no trees.
const NO_TREE: u64 = u64::MAX;
/// Stands for the time to live of a keyspace whose values do not expire.
const NO_TTL: u64 = u64::MAX;
/// Former trees are remembered for at most this many clears and drops.
const FORMER_MAX: usize = 4096;

/// The trees of a keyspace, one for each region. They are numbered consecutively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trees {
    first: u64,
    count: usize,
}

impl Trees {
    /// The trees of these regions.
    ///
    /// # Errors
    /// If they are not numbered consecutively.
    fn of(regions: &[manifest::Region]) -> Result<Self, String> {
        let (first, count) =
            (regions.first().map_or(NO_TREE, |region| region.tree.0), regions.len());
        let trees = Self { first, count };
        let numbered = first.checked_add(count as u64).is_some()
            && trees.iter().eq(regions.iter().map(|region| region.tree));
        numbered.then_some(trees).ok_or_else(|| "its trees are not in order".to_owned())
    }

    /// The tree of a region.
    pub fn tree(self, region: usize) -> TreeId {
        debug_assert!(region < self.count, "region {region} of {}", self.count);
        TreeId(self.first + region as u64)
    }

    pub fn iter(self) -> impl ExactSizeIterator<Item = TreeId> + DoubleEndedIterator + use<> {
        (0..self.count).map(move |region| self.tree(region))
    }

    /// The region of a tree.
    pub fn region(self, tree: TreeId) -> Option<usize> {
        let region = tree.0.checked_sub(self.first)? as usize;
        (region < self.count).then_some(region)
    }
}

/// The regions that begin at these keys; their trees are numbered from `first` on.
pub(crate) fn regions_from(splits: &[Bytes], first: u64) -> Vec<manifest::Region> {
    let los = std::iter::once(Bytes::new()).chain(splits.iter().cloned());
    los.zip(first..).map(|(lo, tree)| manifest::Region { lo, tree: TreeId(tree) }).collect()
}

/// The part of a keyspace that can change while it is in use.
pub(crate) struct Made {
    pub name: String,
    pub options: KeyspaceOptions,
    pub rules: Arc<Rules>,
}

impl Made {
    /// Reads this part from a keyspace's record in the manifest.
    fn of(keyspace: &manifest::Keyspace, opened_as: &str, extensions: &Extensions) -> Result<Self> {
        let name = keyspace.name.clone();
        let options = KeyspaceOptions::of(keyspace).map_err(|why| {
            let what = format!(
                "the options of keyspace {name:?} in the manifest are not known here: use a newer \
                 vlsm ({why})"
            );
            Error::InvalidArgument(what)
        })?;
        let (operator, own) = (options.merge_operator.as_deref(), options.own());
        let rules = extensions.rules((&name, opened_as), operator, options.ttl, own)?;
        Ok(Self { name, options, rules })
    }

    fn ttl(&self) -> u64 {
        self.rules.ttl.map_or(NO_TTL, |ttl| ttl.as_micros() as u64)
    }
}

/// An open keyspace: its identity, options, trees, and the rules for its entries.
pub(crate) struct KeyspaceInfo {
    /// The random number that identifies its store.
    pub store: u64,
    /// Its number in the manifest when it was opened or created.
    pub number: u64,
    /// Its number in the manifest now.
    id: AtomicU64,
    /// The keys at which the second and each further region begins.
    pub splits: Vec<Bytes>,
    /// Its name when it was opened or created. Its compaction filter stays that of this name,
    /// because jobs with the filter may be running when it is renamed.
    opened_as: String,
    made: ArcSwap<Made>,
    /// The microseconds after which a put expires, or [`NO_TTL`]. Every put needs it, and reading
    /// it from `made` would cost two more atomic operations.
    ttl: AtomicU64,
    /// The first of its trees; [`NO_TREE`] after a drop.
    first: AtomicU64,
    /// The sequence number from which on the keyspace has these trees.
    since: AtomicU64,
    /// The clock that decides when a put expires.
    pub clock: Arc<Clock>,
    /// How much its scans read.
    pub habits: Arc<Habits>,
}

/// Refuses a name that a person could not read or type. Existing keyspaces may keep such a name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    // Characters that move the text around them, or are invisible.
    let unseen = |c: char| {
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || c == '\u{feff}'
            || c.is_control()
    };
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains('/') {
        "it contains '/'"
    } else if name.contains(unseen) {
        "it contains invisible characters"
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument(format!(
        "a keyspace cannot have the name {name:?}: {why}; choose one with visible characters only"
    )))
}

impl KeyspaceInfo {
    /// Its name, options and rules as they are now.
    #[inline]
    pub fn made(&self) -> arc_swap::Guard<Arc<Made>> {
        self.made.load()
    }

    /// The time after which a put expires, unless the put sets its own.
    #[inline]
    pub fn ttl(&self) -> Option<Duration> {
        match self.ttl.load(Ordering::Relaxed) {
            NO_TTL => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.made().name.clone()
    }

    /// Refuses options that differ from those of the keyspace.
    pub fn check_options(&self, asked: &KeyspaceOptions) -> Result<()> {
        let made = self.made();
        let differences = made.options.differences(asked);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::KeyspaceExists { keyspace: made.name.clone(), differences })
    }

    /// The number of its regions.
    pub fn region_count(&self) -> usize {
        self.splits.len() + 1
    }

    /// Its number in the manifest.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    #[inline]
    fn trees_from(&self, first: u64) -> Result<Trees> {
        match first {
            NO_TREE => Err(Error::KeyspaceDropped(self.name())),
            first => Ok(Trees { first, count: self.region_count() }),
        }
    }

    /// The trees of all its regions, given the first tree.
    pub fn trees_from_first(&self, first: TreeId) -> Trees {
        Trees { first: first.0, count: self.region_count() }
    }

    /// The trees that take the keyspace's writes.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`].
    #[inline]
    pub fn trees(&self) -> Result<Trees> {
        self.trees_from(self.first.load(Ordering::Acquire))
    }

    /// Its trees for a reader at a sequence number; none if that reader sees former trees.
    ///
    /// The caller has loaded the sequence number before this call. The writer stores `since`, then
    /// `first`, and then makes `since` visible. So a reader that still finds the former first tree
    /// has a sequence number before `since`, and a reader that finds the new tree also finds its
    /// `since`.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`].
    #[inline]
    pub fn life(&self, seq: Seq) -> Result<Option<Trees>> {
        let first = self.first.load(Ordering::SeqCst);
        if seq.0 < self.since.load(Ordering::SeqCst) && !planted::is(Bug::ClearSeenEarly) {
            return Ok(None);
        }
        self.trees_from(first).map(Some)
    }

    /// The index of the region that holds a key.
    pub fn region_of(&self, key: &[u8]) -> usize {
        self.splits.partition_point(|split| split.as_ref() <= key)
    }

    /// The tree that takes the writes of a key.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`].
    #[inline]
    pub fn tree_of(&self, key: &[u8]) -> Result<TreeId> {
        let region = if self.splits.is_empty() { 0 } else { self.region_of(key) };
        Ok(self.trees()?.tree(region))
    }

    /// Builds a keyspace from its record in the manifest.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the options were written by a newer version,
    /// [`Error::UnknownMergeOperator`].
    pub fn of(
        clock: &Arc<Clock>,
        store: u64,
        keyspace: &manifest::Keyspace,
        extensions: &Extensions,
    ) -> Result<Self> {
        let made = Made::of(keyspace, &keyspace.name, extensions)?;
        let name = &made.name;
        let trees = Trees::of(&keyspace.regions)
            .map_err(|why| Error::InvalidArgument(format!("keyspace {name:?}: {why}")))?;
        Ok(Self {
            store,
            number: keyspace.id,
            id: AtomicU64::new(keyspace.id),
            splits: made.options.splits.clone(),
            opened_as: made.name.clone(),
            ttl: AtomicU64::new(made.ttl()),
            made: ArcSwap::from_pointee(made),
            first: AtomicU64::new(trees.first),
            since: AtomicU64::new(0),
            clock: clock.clone(),
            habits: Arc::default(),
        })
    }
}

/// A keyspace as recorded by another process.
pub(crate) struct FollowedOne {
    pub info: Arc<KeyspaceInfo>,
    /// Its name, options and rules, if it was known before.
    made: Option<Made>,
    id: u64,
    pub trees: Trees,
}

impl FollowedOne {
    /// Its rules.
    pub fn rules(&self) -> Arc<Rules> {
        match &self.made {
            Some(made) => made.rules.clone(),
            None => self.info.made().rules.clone(),
        }
    }
}

/// The keyspaces as recorded by another process.
#[derive(Default)]
pub(crate) struct Followed {
    /// All keyspaces.
    pub now: Vec<FollowedOne>,
    /// The known keyspaces that now have other trees, or none.
    pub gone: Vec<Arc<KeyspaceInfo>>,
}

/// All keyspaces of an open store.
pub(crate) struct Catalog {
    /// The random number that identifies the store.
    store: u64,
    clock: Arc<Clock>,
    /// The merge operators and filters with which the store was opened.
    extensions: Extensions,
    keyspaces: Mutex<Vec<Arc<KeyspaceInfo>>>,
    /// The trees that keyspaces had before they were cleared or dropped, the latest last.
    former: Mutex<VecDeque<(Trees, Arc<KeyspaceInfo>)>>,
    /// Whether there are former trees.
    any_former: AtomicBool,
}

impl Catalog {
    pub fn new(
        store: u64,
        clock: Arc<Clock>,
        extensions: Extensions,
        keyspaces: Vec<Arc<KeyspaceInfo>>,
    ) -> Self {
        Self {
            store,
            clock,
            extensions,
            keyspaces: Mutex::new(keyspaces),
            former: Mutex::default(),
            any_former: AtomicBool::new(false),
        }
    }

    /// The keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<Arc<KeyspaceInfo>> {
        self.keyspaces.lock().iter().find(|info| info.made().name == name).cloned()
    }

    /// All keyspaces.
    pub fn keyspaces(&self) -> Vec<Arc<KeyspaceInfo>> {
        self.keyspaces.lock().clone()
    }

    /// The keyspace that a tree belongs to, or belonged to.
    pub fn owner(&self, tree: TreeId) -> Option<Arc<KeyspaceInfo>> {
        let has = |info: &&Arc<KeyspaceInfo>| {
            info.trees().is_ok_and(|trees| trees.region(tree).is_some())
        };
        let owner = self.keyspaces.lock().iter().find(has).cloned();
        owner.or_else(|| self.former(tree).map(|(_, info)| info))
    }

    fn former(&self, tree: TreeId) -> Option<(usize, Arc<KeyspaceInfo>)> {
        let former = self.former.lock();
        let mut found = former.iter().rev();
        found.find_map(|(trees, info)| Some((trees.region(tree)?, info.clone())))
    }

    /// Whether a keyspace was cleared or dropped since the store was opened. The answer is exact in
    /// the sequencing step.
    #[inline]
    pub fn any_former(&self) -> bool {
        self.any_former.load(Ordering::Relaxed)
    }

    /// The tree that takes the writes for a former tree.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`]; [`Error::InvalidArgument`] if it was replaced too long ago.
    pub fn current(&self, tree: TreeId) -> Result<TreeId> {
        let Some((region, info)) = self.former(tree) else {
            return Err(Error::InvalidArgument(
                "the writes were prepared before their keyspace was dropped or cleared, and \
                 thousands of others were dropped or cleared since: prepare the writes again"
                    .into(),
            ));
        };
        Ok(info.trees()?.tree(region))
    }

    /// Gives a keyspace other trees, or none, from this sequence number on. Called in the
    /// sequencing step, after the view has these trees and before the number is visible.
    pub fn replace(&self, info: &Arc<KeyspaceInfo>, seq: Seq, new: Option<(u64, Trees)>) {
        {
            let mut former = self.former.lock();
            former.extend(info.trees().ok().map(|trees| (trees, info.clone())));
            if former.len() > FORMER_MAX {
                former.pop_front();
            }
        }
        self.any_former.store(true, Ordering::Relaxed);
        if new.is_none() {
            self.keyspaces.lock().retain(|other| !Arc::ptr_eq(other, info));
        }
        if let Some((id, _)) = new {
            info.id.store(id, Ordering::Relaxed);
        }
        info.since.store(seq.0, Ordering::SeqCst);
        info.first.store(new.map_or(NO_TREE, |(_, trees)| trees.first), Ordering::SeqCst);
    }

    /// The trees of regions that do not exist yet.
    pub fn trees_of(regions: &[manifest::Region]) -> Trees {
        Trees::of(regions).expect("new regions are numbered in order")
    }

    /// Builds a new keyspace from its record for the manifest. Its merge operator must be
    /// registered, even if operators of existing keyspaces may be unknown.
    ///
    /// # Errors
    /// As [`KeyspaceInfo::of`].
    pub fn info(&self, keyspace: &manifest::Keyspace) -> Result<Arc<KeyspaceInfo>> {
        let code = self.extensions.keeping(false);
        KeyspaceInfo::of(&self.clock, self.store, keyspace, &code).map(Arc::new)
    }

    /// The changeable part of a keyspace, from its changed record.
    ///
    /// # Errors
    /// As [`KeyspaceInfo::of`].
    pub fn altered(&self, info: &KeyspaceInfo, record: &manifest::Keyspace) -> Result<Made> {
        Made::of(record, &info.opened_as, &self.extensions)
    }

    /// Gives a keyspace another name or other options.
    pub fn alter(&self, info: &KeyspaceInfo, made: Made) {
        info.ttl.store(made.ttl(), Ordering::Relaxed);
        info.made.store(Arc::new(made));
    }

    /// Builds an existing keyspace from its record in the manifest.
    fn opened(&self, keyspace: &manifest::Keyspace) -> Result<KeyspaceInfo> {
        KeyspaceInfo::of(&self.clock, self.store, keyspace, &self.extensions)
    }

    /// All keyspaces as recorded by another process.
    ///
    /// # Errors
    /// As [`KeyspaceInfo::of`]; nothing is changed then.
    pub fn follow(&self, state: &manifest::State) -> Result<Followed> {
        let known = self.keyspaces();
        let mut followed = Followed::default();
        for keyspace in state.keyspaces.values() {
            let splits = || keyspace.regions.iter().skip(1).map(|region| &region.lo);
            let alike = |known: &&Arc<KeyspaceInfo>| splits().eq(known.splits.iter());
            // A rename keeps the number; a clear keeps the name.
            let same = known.iter().filter(alike).find(|known| known.id() == keyspace.id);
            let named = || {
                let gone = |known: &&Arc<KeyspaceInfo>| !state.keyspaces.contains_key(&known.id());
                let mut gone = known.iter().filter(alike).filter(gone);
                gone.find(|known| known.name() == keyspace.name)
            };
            let (info, made) = match same.or_else(named) {
                Some(info) => (info.clone(), Some(self.altered(info, keyspace)?)),
                None => (Arc::new(self.opened(keyspace)?), None),
            };
            let trees = Trees::of(&keyspace.regions).map_err(|why| {
                Error::InvalidArgument(format!("keyspace {:?}: {why}", keyspace.name))
            })?;
            followed.now.push(FollowedOne { info, made, id: keyspace.id, trees });
        }
        let stays = |info: &&Arc<KeyspaceInfo>| {
            let found = followed.now.iter().find(|one| Arc::ptr_eq(&one.info, info));
            found.is_some_and(|one| info.trees().is_ok_and(|known| known == one.trees))
        };
        followed.gone = known.iter().filter(|info| !stays(info)).cloned().collect();
        Ok(followed)
    }

    /// Makes these the keyspaces from a sequence number on. Called after the view has their trees.
    pub fn take_over(&self, followed: Followed, seq: Seq) {
        for info in &followed.gone {
            let now = followed.now.iter().find(|one| Arc::ptr_eq(&one.info, info));
            self.replace(info, seq, now.map(|one| (one.id, one.trees)));
        }
        let mut now = Vec::with_capacity(followed.now.len());
        for FollowedOne { info, made, .. } in followed.now {
            made.into_iter().for_each(|made| self.alter(&info, made));
            now.push(info);
        }
        *self.keyspaces.lock() = now;
    }

    /// Adds a new keyspace.
    pub fn add(&self, info: Arc<KeyspaceInfo>) {
        self.keyspaces.lock().push(info);
    }
}
