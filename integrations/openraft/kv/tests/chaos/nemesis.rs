//! What happens to the nodes while the clients work.
//!
//! Each round has one of these; the random numbers of the seed choose it.

use crate::checker::Call;
use crate::clients::{KEYS, Round};
use crate::cluster::{Cluster, NODES};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nemesis {
    /// Nothing.
    Peace,
    /// Kills one node after the other, three times.
    KillInTurn,
    /// Kills the leader after a last write, and starts it at once, while clients only read that key
    /// from it.
    RestartLeader,
    /// Kills all nodes at once; the former leader comes back last.
    KillAll,
    /// Cuts the leader off.
    CutLeader,
    /// Cuts one connection.
    CutPair,
    /// Keeps a node down for so many writes that it needs a snapshot.
    LeaveBehind,
    /// Fills a node's disk.
    FillDisk,
}

/// All but peace.
pub const ALL: [Nemesis; 7] = [
    Nemesis::FillDisk,
    Nemesis::KillInTurn,
    Nemesis::KillAll,
    Nemesis::CutLeader,
    Nemesis::RestartLeader,
    Nemesis::LeaveBehind,
    Nemesis::CutPair,
];

/// How long the clients may take to write what makes the nodes purge their logs.
const PATIENCE: Duration = Duration::from_secs(60);

async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

impl Nemesis {
    /// Does its work. The caller heals the cluster.
    pub async fn work(self, cluster: &mut Cluster, round: &Round, rng: &mut StdRng) {
        let leader = cluster.leader().await;
        match self {
            Self::Peace => pause(700).await,
            Self::KillInTurn => {
                for _ in 0..3 {
                    let node = rng.random_range(0..NODES);
                    cluster.kill(node);
                    pause(rng.random_range(0..500)).await;
                    cluster.revive(node);
                    pause(rng.random_range(100..400)).await;
                }
            }
            Self::RestartLeader => {
                round.quiet.store(true, Ordering::Relaxed);
                round.leader.store(leader, Ordering::Relaxed);
                pause(200).await; // changes that are under way
                for key in 0..KEYS {
                    round.operate(leader, key, Call::Put(round.new_value())).await;
                }
                cluster.kill(leader);
                cluster.revive(leader);
                pause(1000).await;
                round.quiet.store(false, Ordering::Relaxed);
            }
            Self::KillAll => {
                (0..NODES).for_each(|node| cluster.kill(node));
                (0..NODES).filter(|node| *node != leader).for_each(|node| cluster.revive(node));
                pause(rng.random_range(0..1500)).await;
                cluster.revive(leader);
            }
            Self::CutLeader => {
                for node in 0..NODES {
                    let alone = node == leader;
                    cluster.cut(node, (0..NODES).filter(|o| alone || *o == leader)).await;
                }
                pause(1200).await;
            }
            Self::CutPair => {
                let one = rng.random_range(0..NODES);
                cluster.cut(one, [(one + 1) % NODES]).await;
                pause(1200).await;
            }
            Self::LeaveBehind => {
                let [node, other] = [(leader + 1) % NODES, (leader + 2) % NODES];
                let last = cluster.status(node, "/last_log_index").await.unwrap_or(0);
                cluster.kill(node);
                // Until no other node has the entries that it lacks.
                let begun = Instant::now();
                for node in [leader, other] {
                    while cluster.status(node, "/purged/index").await.is_none_or(|i| i <= last) {
                        assert!(begun.elapsed() < PATIENCE, "{}", cluster.logs());
                        pause(50).await;
                    }
                }
                cluster.revive(node);
                pause(500).await;
                // Without another node it is needed for a quorum, with what it installed.
                cluster.kill(other);
                pause(500).await;
            }
            Self::FillDisk => {
                let node = rng.random_range(0..NODES);
                cluster.fill(node);
                pause(1500).await;
            }
        }
    }
}
