//! Power cuts and failing syncs, on a disk that forgets what was not synced.
//!
//! 1. Random calls of the log and the state machine run on the disk, beside a model of what they
//!    have promised.
//! 2. Now and then the disk is copied, the power of the copy is cut, and a node is opened on it.
//! 3. It must have every entry whose append was completed and the last vote, uncommitted; its log
//!    has no gaps, and its state is that of its own applied log id.

mod words;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{RaftLogReader, Vote};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use vlsm::env::{Fs, RealEnv};
use vlsm_openraft::Storage;
use vlsm_testfs::{CrashMode, Fault, FaultFs, Op, Rule, SimFs};
use words::{Config, Words, entry, id};

type Node = Storage<Config, Words>;

fn open_on(fs: Arc<dyn Fs>, folder: &Path) -> Node {
    let opened = Storage::open_with(folder, Words, |builder| builder.env(RealEnv::with_fs(fs)));
    opened.expect("the storage can be opened")
}

/// What a node has promised.
#[derive(Debug, Default)]
struct Model {
    vote: Option<Vote<u64>>,
    /// The entries of the log: each a key, with its index as the value.
    log: BTreeMap<u64, String>,
    /// All entries that were ever applied, by index.
    applied: BTreeMap<u64, String>,
    purged: u64,
    last: u64,
    /// The last entry that was there before a truncation, which a crash may bring back.
    highest: u64,
}

impl Model {
    /// The pairs after the entries up to an index.
    fn state(&self, upto: u64) -> BTreeMap<String, String> {
        let applied = self.applied.range(..=upto);
        applied.map(|(index, key)| (key.clone(), index.to_string())).collect()
    }

    async fn step(&mut self, node: &mut Node, rng: &mut StdRng) {
        let at = self.applied.keys().next_back().copied().unwrap_or(0);
        match rng.random_range(0..10) {
            0..5 => {
                let indexes = self.last + 1..=self.last + rng.random_range(1..20);
                let key = |index: u64| format!("key {}", index % 7);
                let entries = indexes.clone().map(|i| entry(i, &key(i), &i.to_string()));
                node.log.blocking_append(entries).await.expect("it appends");
                self.last = *indexes.end();
                self.highest = self.highest.max(self.last);
                self.log.extend(indexes.map(|index| (index, key(index))));
            }
            5..7 if at < self.last => {
                let upto = rng.random_range(at + 1..=self.last);
                node.log.save_committed(Some(id(upto))).await.expect("it writes");
                let entries = node.log.try_get_log_entries(at + 1..=upto).await;
                let entries = entries.expect("it reads");
                assert_eq!(entries.len() as u64, upto - at);
                node.state.apply(entries).await.expect("it applies");
                self.applied.extend((at + 1..=upto).map(|index| (index, self.log[&index].clone())));
            }
            7 if at < self.last => {
                let from = rng.random_range(at + 1..=self.last);
                node.log.truncate(id(from)).await.expect("it truncates");
                self.log.retain(|index, _| *index < from);
                self.last = from - 1;
            }
            8 if self.purged < at => {
                let upto = rng.random_range(self.purged + 1..=at);
                // As after a snapshot, which would be durable.
                node.db.sync().expect("it syncs");
                node.log.purge(id(upto)).await.expect("it purges");
                self.log.retain(|index, _| *index > upto);
                self.purged = upto;
            }
            _ => {
                let term = self.vote.map_or(1, |vote| vote.leader_id.term + 1);
                let vote = Vote::new_committed(term, 1);
                node.log.save_vote(&vote).await.expect("it writes");
                self.vote = Some(vote);
            }
        }
    }

    /// Checks a node that was opened after a power cut.
    async fn check(&self, node: &mut Node) {
        let vote = self.vote.map(|vote| Vote::new(vote.leader_id.term, 1));
        assert_eq!(node.log.read_vote().await.expect("it reads"), vote);
        let state = node.log.get_log_state().await.expect("it reads");
        let purged = state.last_purged_log_id.map_or(0, |id| id.index);
        let last = state.last_log_id.map_or(0, |id| id.index);
        assert!(purged <= self.purged && self.last <= last && last <= self.highest, "{state:?}");
        let entries = node.log.try_get_log_entries(..).await.expect("it reads");
        let indexes: Vec<_> = entries.iter().map(|entry| entry.log_id.index).collect();
        assert_eq!(indexes, (purged + 1..=last).collect::<Vec<_>>(), "it has no gaps");
        let (applied, _) = node.state.applied_state().await.expect("it reads");
        let applied = applied.map_or(0, |id| id.index);
        assert!(purged <= applied && applied <= last, "{purged} {applied} {last}");
        let pairs = node.reader.view().iter().map(|pair| pair.expect("it reads"));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
        let pairs: BTreeMap<_, _> = pairs.map(|(key, value)| (text(&key), text(&value))).collect();
        assert_eq!(pairs, self.state(applied));
    }
}

#[tokio::test]
async fn what_was_promised_survives_power_cuts() {
    let (mut cuts, mut behind) = (0, 0);
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let folder = tempfile::tempdir().expect("there is a folder");
        let disk = SimFs::new();
        let mut node = open_on(Arc::new(disk.clone()), folder.path());
        let mut model = Model::default();
        for _ in 0..40 {
            model.step(&mut node, &mut rng).await;
            if rng.random_range(0..4) > 0 {
                continue;
            }
            let copy = disk.fork();
            let mode = CrashMode::ALL[rng.random_range(0..CrashMode::ALL.len())];
            copy.crash(mode, rng.random());
            let mut again = open_on(Arc::new(copy), folder.path());
            model.check(&mut again).await;
            let (applied, _) = again.state.applied_state().await.expect("it reads");
            let had = model.applied.keys().next_back().copied();
            behind += usize::from(applied.map(|id| id.index) < had);
            cuts += 1;
        }
    }
    assert!(cuts > 100 && behind > 10, "{cuts} cuts, {behind} of them left the state behind");
}

#[tokio::test]
async fn an_append_whose_sync_fails_is_not_acknowledged() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let disk = SimFs::new();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let mut node = open_on(Arc::new(faults.clone()), folder.path());
    node.log.blocking_append([entry(1, "a", "1")]).await.expect("it appends");
    let rule = faults.add(Rule::once(Op::Sync, ".wal", Fault::Eio));
    let failed = node.log.blocking_append([entry(2, "b", "2")]).await;
    let error = failed.expect_err("the sync failed").to_string();
    assert!(faults.fired(rule) > 0, "{error}");
    let failed = node.log.save_vote(&Vote::new(1, 1)).await;
    failed.expect_err("a store whose sync failed takes no more writes");
    drop(node);
    disk.crash(CrashMode::LoseAll, 0);
    let mut node = open_on(Arc::new(disk), folder.path());
    let entries = node.log.try_get_log_entries(..).await.expect("it reads");
    assert_eq!(entries.len(), 1);
}
