//! Requested compactions of key ranges, and the wait for them.
//!
//! A request is a value ([`Manual`]) that proposes its next job in each tick after its tree
//! changed. The job is added to the shape's candidates, behind those that free memory or L0, so the
//! schedule decides when it runs. Requests for one tree run one after the other.
//!
//! Threads and locks: ticks and waiting callers take `requests` for a short time.

use crate::catalog::KeyspaceInfo;
use crate::control::Control;
use crate::sync::Mutex;
use bytes::Bytes;
use std::sync::Arc;
use vlsm_core::{Result, TreeId};
use vlsm_policy::shape::manual::{Manual, Next};
use vlsm_policy::{Candidate, Candidates, Changed, Class};

/// All requests, oldest first.
#[derive(Default)]
pub(crate) struct Manuals {
    requests: Mutex<Vec<(TreeId, Arc<Mutex<Manual>>)>>,
}

impl Manuals {
    /// The oldest request of a tree.
    fn first(&self, tree: TreeId) -> Option<Arc<Mutex<Manual>>> {
        let requests = self.requests.lock();
        requests.iter().find(|request| request.0 == tree).map(|request| request.1.clone())
    }

    /// Ends the requests for a tree that is no longer in use.
    pub fn forget(&self, tree: TreeId) {
        self.requests.lock().retain(|request| request.0 != tree);
    }

    fn has(&self, request: &Arc<Mutex<Manual>>) -> bool {
        self.requests.lock().iter().any(|other| Arc::ptr_eq(&other.1, request))
    }

    fn remove(&self, request: &Arc<Mutex<Manual>>) {
        self.requests.lock().retain(|other| !Arc::ptr_eq(&other.1, request));
    }
}

/// The requests of one call, which are removed when it ends.
struct Asked<'a> {
    manuals: &'a Manuals,
    requests: Vec<Arc<Mutex<Manual>>>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.requests.iter().for_each(|request| self.manuals.remove(request));
    }
}

impl Control {
    /// Compacts the keys of a keyspace from `lo` up to `hi`, exclusive, and waits for it.
    pub fn compact_range(
        self: &Arc<Self>,
        keyspace: &KeyspaceInfo,
        lo: &Bytes,
        hi: Option<&Bytes>,
    ) -> Result<()> {
        self.shared.health.check()?;
        if hi.is_some_and(|hi| hi <= lo) {
            return Ok(());
        }
        let (upto, now) = (self.views.visible(), self.shared.clock.now());
        let last = hi.map_or(keyspace.region_count() - 1, |hi| keyspace.region_of(hi));
        let all = keyspace.trees()?;
        let trees: Vec<TreeId> =
            (keyspace.region_of(lo)..=last).map(|region| all.tree(region)).collect();
        self.writer.flush_trees(|tree| trees.contains(&tree))?;
        let manuals = &self.manuals;
        let manual = || Manual::new(lo.clone(), hi.cloned(), upto, now);
        let request = |_: &TreeId| Arc::new(Mutex::new(manual()));
        let asked = Asked { manuals, requests: trees.iter().map(request).collect() };
        manuals.requests.lock().extend(trees.iter().copied().zip(asked.requests.iter().cloned()));
        self.shared.channel.mark_all(trees.iter().copied());
        self.shared.channel.wake();
        loop {
            let epoch = self.shared.channel.room_epoch();
            self.shared.health.check()?;
            if !asked.requests.iter().any(|request| manuals.has(request)) {
                return Ok(());
            }
            self.shared.channel.wait_for_room(epoch, None);
        }
    }

    /// Adds the next requested job to the shape's candidates for the tree.
    pub fn add_manual(&self, changed: &Changed, candidates: &mut Candidates) {
        let Changed { tree, version, facts, busy, .. } = changed;
        while let Some(request) = self.manuals.first(*tree) {
            let options = &self.shared.options.policy.tree;
            let next = request.lock().next(version, facts, busy, options);
            match next {
                Next::Job(candidate) => {
                    let urgent = |candidate: &Candidate| candidate.frees <= Class::L0;
                    let place = candidates.iter().rposition(urgent).map_or(0, |last| last + 1);
                    candidates.insert(place, *candidate);
                    return;
                }
                Next::Wait => return,
                Next::Done => {
                    self.manuals.remove(&request);
                    self.shared.channel.made_room();
                }
            }
        }
    }
}
