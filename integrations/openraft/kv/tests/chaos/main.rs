//! Three real nodes under a nemesis; the histories of their clients are checked for
//! linearizability.
//!
//! A round: five clients work on three new keys, the nemesis does one thing, all is healed, every
//! key is read, and the histories are checked. `CHAOS_ROUNDS` rounds (7 by default, one for each
//! nemesis) begin with the seed `CHAOS_SEED` (0 by default). The seed decides what the nemesis does
//! and what the clients ask for, not how the processes' work interleaves.
//!
//! The same with a bug that `PLANT` switches on in the nodes must end with a violation.

mod checked;
mod checker;
mod clients;
mod cluster;
mod nemesis;

use clients::Round;
use cluster::{Cluster, Setup};
use nemesis::Nemesis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One cluster at a time.
static ALONE: Mutex<()> = Mutex::new(());

const CLIENTS: usize = 5;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|error| panic!("{name}={text} is not a number: {error}"))
}

/// One round. Returns the numbers of all operations and of those of unknown outcome, or the
/// violated history.
async fn round(
    cluster: &mut Cluster,
    name: String,
    nemesis: Nemesis,
    rng: &mut StdRng,
) -> Result<(usize, usize), String> {
    let leader = cluster.leader().await;
    let round = Round::new(name, cluster.addresses(), leader);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(round.clone().client(StdRng::seed_from_u64(rng.random()))))
        .collect();
    tokio::time::sleep(Duration::from_millis(rng.random_range(300..600))).await;
    nemesis.work(cluster, &round, rng).await;
    cluster.heal().await;
    round.leader.store(cluster.leader().await, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(200)).await;
    round.over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no client panics");
    }
    round.read_all().await.unwrap_or_else(|error| panic!("{error}\n{}", cluster.logs()));
    round.check()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Runtime::new().expect("threads can be started").block_on(work)
}

#[test]
fn histories_are_linearizable() {
    let (seed, rounds) = (number("CHAOS_SEED", 0), number("CHAOS_ROUNDS", 7));
    run(async {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut cluster = Cluster::start(Setup { plant: None, heartbeat: 50 });
        for number in 0..rounds {
            // Each once, then by chance.
            let chance = rng.random_range(0..nemesis::ALL.len());
            let nemesis = *nemesis::ALL.get(number as usize).unwrap_or(&nemesis::ALL[chance]);
            if nemesis == Nemesis::FillDisk && !cluster.has_small_disks() {
                continue;
            }
            let checked = round(&mut cluster, format!("{seed}-{number}"), nemesis, &mut rng).await;
            match checked {
                Ok((all, unknown)) => println!(
                    "{nemesis:?}: {all} operations, {unknown} of unknown outcome; nodes that \
                     stopped by themselves so far: {}",
                    cluster.stopped
                ),
                Err(history) => panic!(
                    "CHAOS_SEED={seed}, {nemesis:?}: not linearizable: {history}\n{}",
                    cluster.logs()
                ),
            }
        }
    });
}

/// Runs rounds with a planted bug until the checker finds a violation.
fn find(plant: &'static str, nemesis: Nemesis, heartbeat: u64) {
    const ROUNDS: usize = 20;
    let seed = number("CHAOS_SEED", 0);
    run(async {
        let mut rng = StdRng::seed_from_u64(seed);
        for number in 0..ROUNDS {
            let mut cluster = Cluster::start(Setup { plant: Some(plant), heartbeat });
            let name = format!("{plant}-{number}");
            if let Err(history) = round(&mut cluster, name, nemesis, &mut rng).await {
                let line = history.lines().find(|line| line.starts_with("-->"));
                println!("{plant}: found in round {}: {}", number + 1, line.unwrap_or_default());
                return;
            }
        }
        panic!("{plant}: not found in {ROUNDS} rounds of {nemesis:?} (CHAOS_SEED={seed})");
    });
}

#[test]
fn stale_reads_are_found() {
    find("stale-read", Nemesis::Peace, 50);
}

#[test]
fn acknowledgements_before_a_sync_are_found() {
    find("acknowledge-before-durable", Nemesis::KillAll, 50);
}

#[test]
fn a_leader_that_leads_on_after_a_restart_is_found() {
    find("lead-on-after-restart", Nemesis::RestartLeader, 300);
}
