//! The page for Prometheus, byte for byte. `UPDATE_EXPECT=1` rewrites it.

use super::families::families;
use super::*;
use crate::shared::latency::Histogram;
use vlsm_core::event::JobKind;

fn latency(nanos: &[u64]) -> LatencyStats {
    let histogram = Histogram::default();
    nanos.iter().for_each(|nanos| histogram.add(Duration::from_nanos(*nanos)));
    histogram.stats()
}

fn wait(cause: WaitCause, nanos: &[u64]) -> WaitStats {
    let latency = latency(nanos);
    let micros = |duration: Duration| Micros(duration.as_micros() as u64);
    let (total, longest) = (micros(latency.sum), micros(latency.max));
    WaitStats { cause, count: latency.count, total, longest, latency }
}

fn job(from: Option<u8>, bytes: u64, done: u64) -> JobStats {
    JobStats {
        keyspace: "default".into(),
        kind: if from.is_none() { JobKind::Flush } else { JobKind::Compact },
        from,
        to: from.map_or(0, |level| level + 1),
        bytes: ByteCount(bytes),
        done: ByteCount(done),
        paused: false,
    }
}

/// The statistics of a store with samples of most families, and with names that must be escaped.
fn busy() -> Stats {
    let level = |level, tables, bytes, target: Option<u64>| LevelStats {
        level,
        runs: 1,
        tables,
        bytes: ByteCount(bytes),
        target: target.map(ByteCount),
        ..LevelStats::default()
    };
    let keyspace = |name: &str, levels| KeyspaceStats {
        name: name.into(),
        regions: 1,
        levels,
        memtable_bytes: ByteCount(70_000),
        sealed_memtables: 1,
        entries: 5000,
        tombstones: 12,
        debt: ByteCount(1 << 20),
        waits: vec![
            KeyspaceWait { cause: WaitCause::MemtableFull, count: 2, total: Micros(2500) },
            KeyspaceWait { cause: WaitCause::L0Bound, count: 1, total: Micros(1_073_741) },
        ],
        chains: ChainSummary {
            count: 2,
            length_max: 3,
            width_total: ByteCount(9_000_000),
            waited_total: Micros(1_070_000),
            ..ChainSummary::default()
        },
    };
    let work = |jobs, bytes| WorkStats {
        jobs,
        read: ByteCount(bytes),
        written: ByteCount(bytes * 9 / 10),
        ..WorkStats::default()
    };
    Stats {
        at: Micros(12_345_678),
        writes: 5000,
        batches: 4000,
        write_bytes: ByteCount(777_777),
        gets: 6400,
        latencies: Latencies {
            get: latency(&[700, 1024, 1025, 90_000]),
            multi_get: latency(&[1_100_000]),
            write: latency(&[3000, 40_000_000_000]),
            ..Latencies::default()
        },
        waits: vec![
            wait(WaitCause::WalSync, &[2_000_000, 3_000_000]),
            wait(WaitCause::L0Bound, &[1 << 30]),
        ],
        flush: work(3, 1000),
        compactions: vec![work(2, 5000), work(0, 0), work(1, 7000)],
        keyspaces: vec![
            keyspace("default", vec![level(0, 2, 131_072, None), level(1, 4, 99, Some(1 << 20))]),
            keyspace("a \"quoted\" \\ name\n", vec![level(0, 0, 0, None)]),
        ],
        jobs: vec![
            job(None, 4096, 1024),
            job(Some(0), 9000, 8000),
            JobStats { paused: true, ..job(Some(0), 1000, 0) },
        ],
        snapshots: SnapshotStats { count: 2, oldest: Some(Micros(1_500_000)) },
        write_limit: Some(BytesPerSec(1_000_000)),
        memtable_fill: 0.25,
        out_of_space: true,
        ..Stats::default()
    }
}

#[test]
fn the_page_for_prometheus_is_as_recorded() {
    expect_test::expect_file!["../../testdata/metrics.prom"].assert_eq(&busy().prometheus());
}

/// The list of metrics does not depend on what has happened in the store.
#[test]
fn every_family_is_always_there() {
    let names = |stats| families(&stats).iter().map(|family| family.name).collect::<Vec<_>>();
    assert_eq!(names(busy()), names(Stats::default()));
}

/// The bytes of a level's first job are counted before that job ends.
#[test]
fn a_first_job_under_way_counts() {
    let counters = Counters::default();
    assert_eq!(compactions_of(&counters), []);
    counters.levels[3].written.add(4096);
    let compactions = compactions_of(&counters);
    assert_eq!((compactions.len(), compactions[2].written), (3, ByteCount(4096)));
}
