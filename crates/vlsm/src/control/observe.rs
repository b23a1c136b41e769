//! The input of the policies: the facts of a tree, and the signals of the store. These functions
//! read counters and views. Their caller holds the lock of the control state, and they take no
//! other lock.

use crate::control::Control;
use crate::control::State;
use crate::read::view::{StoreView, TreeView};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Bytes, Seq};
use vlsm_policy::signals::MemtableSignals;
use vlsm_policy::{Counters, MemtableFacts, Running, Signals, TreeFacts};

impl Control {
    /// The facts of a tree for its shape.
    pub fn facts(&self, tree: &TreeView) -> TreeFacts {
        let visible = self.views.visible();
        let facts = |memtable: &std::sync::Arc<crate::memtable::Memtable>| {
            let seq_max = memtable.seqs().map_or(Seq::ZERO, |(_, largest)| largest);
            let ready = memtable.drained() && seq_max <= visible
                || planted::is(Bug::FlushedBeforeDrained) && memtable.sealed();
            let range = if ready { memtable.range() } else { None };
            MemtableFacts {
                id: memtable.id(),
                bytes: Bytes(memtable.bytes() as u64),
                range,
                seq_max,
                ready,
                wanted: self.shared.channel.is_wanted(memtable.id()),
            }
        };
        TreeFacts {
            tree: tree.id,
            now: self.shared.now_micros(),
            memtables: tree.immutables.iter().map(facts).collect(),
            memtable_bytes: Bytes(tree.rules.own.memtable_bytes(self.memtable_bytes().0)),
        }
    }

    /// The size at which memtables are sealed.
    pub fn memtable_bytes(&self) -> Bytes {
        self.shared
            .options
            .policy
            .tree
            .memtable_bytes
            .min(Bytes(self.shared.channel.memtable_bytes()))
    }

    /// The signals for a schedule and an admission.
    pub fn signals(&self, view: &StoreView, state: &State) -> Signals {
        Signals {
            now: self.shared.now_micros(),
            workers: self.shared.options.worker_count(),
            counters: self.policy_counters(state),
            memtables: MemtableSignals {
                unmerged: unmerged(view, &state.running()),
                ..self.memtable_signals(view)
            },
            device: self.device.clone(),
            pressure: state.known.iter().map(|(id, known)| (*id, known.pressure.clone())).collect(),
        }
    }

    fn policy_counters(&self, state: &State) -> Counters {
        let counters = &self.shared.counters;
        let cache = self.jobs.tables.cache().counters();
        let (read, written) = counters.job_bytes();
        Counters {
            writes: counters.writes.get(),
            write_bytes: Bytes(counters.write_bytes.get()),
            gets: counters.sum_of_reads(|reads| &reads.gets),
            scans: counters.sum_of_reads(|reads| &reads.scans),
            cache_miss_bytes: Bytes(cache.miss_bytes),
            job_read_bytes: Bytes(read),
            job_written_bytes: Bytes(written),
            waited_spans: state.pace.waited_spans(),
            waiting_writers: counters.waiting_writers.get(),
            stopped_writers: counters.stopped_writers.get(),
        }
    }

    /// The memtables of the tree with the most bytes in memory. Memtables are counted by tree, and
    /// writers wait for the fullest tree.
    pub fn memtable_signals(&self, view: &StoreView) -> MemtableSignals {
        let count = self.shared.options.policy.tree.memtable_count as u64;
        let of_tree = |tree: &std::sync::Arc<TreeView>| MemtableSignals {
            active: Bytes(tree.active.bytes() as u64),
            immutable: Bytes(tree.immutables.iter().map(|sealed| sealed.bytes() as u64).sum()),
            immutable_count: tree.immutables.len(),
            capacity: self.memtable_bytes() * count,
            unmerged: Bytes::ZERO,
        };
        let signals = view.trees().map(of_tree);
        signals.max_by_key(|signals| signals.active + signals.immutable).unwrap_or_default()
    }
}

/// Bytes in memtables that no running job has merged yet, in the tree that has the most of them.
fn unmerged(view: &StoreView, running: &[Running]) -> Bytes {
    let of_tree = |tree: &std::sync::Arc<TreeView>| {
        let sealed: u64 = tree.immutables.iter().map(|sealed| sealed.bytes() as u64).sum();
        let jobs = running.iter().filter(|job| job.candidate.tree == tree.id);
        let merged: Bytes = jobs.map(Running::merged_memory).sum();
        Bytes(tree.active.bytes() as u64 + sealed).saturating_sub(merged)
    };
    view.trees().map(of_tree).max().unwrap_or_default()
}
