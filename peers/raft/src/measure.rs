//! The comparison: rounds in which the storages alternate, and the medians of the rounds.
//!
//! 1. Each round starts a new cluster for each storage, one at a time, in turned order.
//! 2. It warms up, then takes each number of clients for the given time.
//! 3. The row of a storage and a number of clients has the medians of all rounds; its maximum is
//!    the largest of all.
//!
//! `--syncs` counts the syncs of each node instead: entries of the log in a sync, at the leader and
//! at the followers.

use crate::Storage;
use crate::cluster::Cluster;
use crate::load::{self, Loaded};
use crate::syncs::Count;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `measure`.
#[derive(Args)]
pub struct Measure {
    /// The storages, in the order of the first round.
    #[arg(long, value_delimiter = ',', default_values_t = Storage::value_variants().to_vec())]
    storages: Vec<Storage>,
    /// The numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,256")]
    clients: Vec<u64>,
    /// Seconds for each number of clients.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How often each storage is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The folder for the nodes' folders, which are removed again.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Count entries in a sync by strace instead of measuring.
    #[arg(long)]
    syncs: bool,
}

const WARM_UP: Duration = Duration::from_secs(3);

/// One number of clients in one round.
struct Point {
    storage: Storage,
    clients: u64,
    loaded: Loaded,
    /// CPU time of the three nodes.
    cpu: Duration,
}

/// Measures, and prints the table.
pub async fn run(measure: &Measure) -> Result<(), String> {
    if measure.syncs {
        return count(measure).await;
    }
    let mut points = Vec::new();
    for round in 0..measure.rounds {
        let mut storages = measure.storages.clone();
        storages.rotate_left(round % measure.storages.len());
        for storage in storages {
            let name = name(storage);
            eprintln!("round {} of {}: {name}", round + 1, measure.rounds);
            let measured = one(measure, storage, &mut points).await;
            measured.map_err(|error| format!("{name}: {error}"))?;
        }
    }
    println!("| clients | storage | puts/s | P50 ms | P99 ms | P99.9 ms | max ms | CPU µs/put |");
    println!("|---:|---|---:|---:|---:|---:|---:|---:|");
    for clients in &measure.clients {
        for storage in &measure.storages {
            let of = |point: &&Point| point.storage == *storage && point.clients == *clients;
            print_row(&points.iter().filter(of).collect::<Vec<_>>());
        }
    }
    Ok(())
}

fn name(storage: Storage) -> &'static str {
    match storage {
        Storage::Vlsm => "vLSM",
        #[cfg(feature = "rocksdb")]
        Storage::Rocksdb => "RocksDB",
        Storage::Fjall => "fjall",
    }
}

async fn one(measure: &Measure, storage: Storage, points: &mut Vec<Point>) -> Result<(), String> {
    let cluster = Cluster::start(storage, &measure.dir).await?;
    let leader = cluster.leader().await?;
    let address = cluster.address(leader);
    load::run(&address, 16, WARM_UP).await?;
    for clients in &measure.clients {
        let before = cluster.cpu()?;
        let time = Duration::from_secs(measure.seconds);
        let loaded = load::run(&address, *clients, time).await?;
        let cpu = cluster.cpu()?.saturating_sub(before);
        points.push(Point { storage, clients: *clients, loaded, cpu });
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print_row(points: &[&Point]) {
    let Some(first) = points.first() else { return };
    let of = |value: &dyn Fn(&Point) -> f64| -> Vec<f64> {
        points.iter().map(|point| value(point)).collect()
    };
    let percentile = |percent| median(of(&|point| point.loaded.percentile(percent)));
    let max = of(&|point| point.loaded.percentile(100.0)).into_iter().fold(0.0, f64::max);
    let cpu = |point: &Point| point.cpu.as_secs_f64() * 1e6 / point.loaded.latencies.len() as f64;
    let rates = of(&|point| point.loaded.rate());
    println!(
        "| {} | {} | {:.0} | {:.2} | {:.2} | {:.1} | {max:.0} | {:.0} |",
        first.clients,
        name(first.storage),
        median(rates.clone()),
        percentile(50.0),
        percentile(99.0),
        percentile(99.9),
        median(of(&cpu)),
    );
    let own =
        |point: &Point| point.loaded.cpu.as_secs_f64() * 1e6 / point.loaded.latencies.len() as f64;
    eprintln!("  rates of the rounds: {rates:.0?}; CPU of the clients, µs/put: {:.0?}", of(&own));
}

/// Counts the entries in a sync.
async fn count(measure: &Measure) -> Result<(), String> {
    println!("| clients | storage | entries in a sync: leader | followers |");
    println!("|---:|---|---:|---:|");
    for storage in &measure.storages {
        let cluster = Cluster::start(*storage, &measure.dir).await?;
        let leader = cluster.leader().await?;
        let address = cluster.address(leader);
        load::run(&address, 16, WARM_UP).await?;
        for clients in &measure.clients {
            let counting = Count::start(&cluster.processes(), &measure.dir).await?;
            let before = cluster.status(leader).await?.last_log;
            load::run(&address, *clients, Duration::from_secs(measure.seconds)).await?;
            let entries = cluster.status(leader).await?.last_log - before;
            // The followers may have a last append in hand.
            tokio::time::sleep(Duration::from_millis(200)).await;
            let syncs = counting.end().await?;
            let per = |syncs: u64| entries as f64 / syncs as f64;
            let followers: u64 =
                syncs.iter().enumerate().filter(|(node, _)| *node != leader).map(|(_, n)| n).sum();
            println!(
                "| {clients} | {} | {:.2} | {:.2} |",
                name(*storage),
                per(syncs[leader]),
                2.0 * per(followers),
            );
        }
    }
    Ok(())
}
