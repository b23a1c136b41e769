//! A reading: the rates between two pages, and the state at the end.
//!
//! Times are in seconds and sizes in bytes, as in all JSON of this program. Rates are per second.

use super::page::Page;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// One reading of a store.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Reading {
    /// The folder.
    pub store: String,
    /// The process that has it open.
    pub process: u32,
    /// Its version of vlsm.
    pub version: String,
    /// The time since that process opened it.
    pub uptime: f64,
    /// The length of the interval.
    pub seconds: f64,
    pub rates: Rates,
    pub latencies: Latencies,
    /// Memtables first, then the levels from L0 on.
    pub memtables: Memtables,
    pub levels: Vec<Level>,
    /// The causes for which a write waited in the interval, the longest sum first.
    pub waits: Vec<Wait>,
    pub chains: Chains,
    pub keyspaces: Vec<Keyspace>,
    pub memory: Memory,
    pub cache: Cache,
    pub files: Files,
    pub health: Health,
}

/// Operations and bytes per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Keys written.
    pub puts: f64,
    /// Batches written, single writes included.
    pub batches: f64,
    pub gets: f64,
    /// Iterators created.
    pub scans: f64,
    /// Transactions that wrote.
    pub commits: f64,
    /// Commits that were refused because of another write.
    pub conflicts: f64,
    /// Bytes of the batches.
    pub written: f64,
    pub flushed: f64,
    pub compacted: f64,
    /// Bytes that compactions read.
    pub compaction_reads: f64,
}

/// The durations of one operation in the interval. They are `None` if none was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The number that was measured.
    pub measured: f64,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Latencies {
    pub get: Latency,
    pub write: Latency,
    pub scan: Latency,
    pub commit: Latency,
}

/// The jobs that make room in one place, at this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Jobs {
    pub count: f64,
    pub paused: f64,
    /// Bytes that they read in total.
    pub bytes: f64,
    /// Bytes that they have merged.
    pub done: f64,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Memtables {
    pub bytes: f64,
    /// Memtables that wait for their flush.
    pub sealed: f64,
    /// The used share of memtable memory in the fullest tree.
    pub fill: f64,
    pub jobs: Jobs,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Level {
    pub level: u8,
    /// Runs of L0; for a deeper level, the regions that have SSTs there.
    pub runs: f64,
    pub ssts: f64,
    pub bytes: f64,
    pub target: Option<f64>,
    /// The jobs that make room in it.
    pub jobs: Jobs,
}

/// Waits for one cause.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Wait {
    pub cause: String,
    pub count: f64,
    /// Their sum.
    pub seconds: f64,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

/// The compaction chains that full memtables waited for in the interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Chains {
    pub count: f64,
    pub waited: f64,
    /// Bytes that they merged meanwhile.
    pub width: f64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Keyspace {
    pub name: String,
    pub bytes: f64,
    pub ssts: f64,
    pub l0_runs: f64,
    pub entries: f64,
    pub memtable_bytes: f64,
    pub sealed: f64,
    /// Bytes that compactions have to merge until all levels are within their bounds.
    pub debt: f64,
    /// Waits of writes in the interval, without those for the WAL.
    pub waits: f64,
    /// Their sum.
    pub waited: f64,
    pub chains: Chains,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Memory {
    pub bytes: f64,
    pub limit: f64,
    /// Memory by kind.
    pub kinds: Vec<(String, f64)>,
}

/// The block cache in the interval.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cache {
    pub hits: f64,
    pub misses: f64,
    /// The share of block reads that it answered; none without reads.
    pub hit_share: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Files {
    pub ssts: f64,
    pub sst_bytes: f64,
    pub wals: f64,
    pub wal_bytes: f64,
    /// SSTs that only readers keep.
    pub pinned: f64,
    pub pinned_bytes: f64,
    pub snapshots: f64,
    pub oldest_snapshot: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Health {
    /// A failure has made the store read-only.
    pub read_only: bool,
    /// Writes are refused because the device is full.
    pub out_of_space: bool,
    /// Bytes per second that the admission lets in.
    pub write_limit: Option<f64>,
}

/// A page, and the one before it.
struct Between<'a> {
    earlier: &'a Page,
    later: &'a Page,
    seconds: f64,
}

impl Between<'_> {
    fn grown(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        (self.later.sum(name, labels) - self.earlier.sum(name, labels)).max(0.0)
    }

    fn rate(&self, name: &str) -> f64 {
        self.grown(name, &[]) / self.seconds
    }

    fn latency(&self, name: &str, labels: &[(&str, &str)]) -> (Latency, f64) {
        let then = self.earlier.histogram(name, labels);
        let of = self.later.histogram(name, labels).since(&then);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| of.quantile(share));
        (Latency { measured: of.count, p50, p99, max }, of.sum)
    }

    fn jobs(&self, level: &str) -> Jobs {
        let of = |name: &str| self.later.sum(name, &[("level", level)]);
        Jobs {
            count: of("vlsm_running_jobs"),
            paused: of("vlsm_running_jobs_paused"),
            bytes: of("vlsm_running_job_bytes"),
            done: of("vlsm_running_job_done_bytes"),
        }
    }

    fn rates(&self) -> Rates {
        let flushed = self.grown("vlsm_job_written_bytes_total", &[("level", "memtable")]);
        let all = |name| self.grown(name, &[]);
        let read = all("vlsm_job_read_bytes_total");
        Rates {
            puts: self.rate("vlsm_writes_total"),
            batches: self.rate("vlsm_batches_total"),
            gets: self.rate("vlsm_gets_total"),
            scans: self.rate("vlsm_scans_total"),
            commits: self.rate("vlsm_transactions_total"),
            conflicts: self.rate("vlsm_transaction_conflicts_total"),
            written: self.rate("vlsm_write_bytes_total"),
            flushed: flushed / self.seconds,
            compacted: (all("vlsm_job_written_bytes_total") - flushed).max(0.0) / self.seconds,
            compaction_reads: read / self.seconds,
        }
    }

    fn latencies(&self) -> Latencies {
        let of = |name| self.latency(name, &[]).0;
        Latencies {
            get: of("vlsm_get_seconds"),
            write: of("vlsm_write_seconds"),
            scan: of("vlsm_seek_seconds"),
            commit: of("vlsm_transaction_seconds"),
        }
    }

    fn levels(&self) -> Vec<Level> {
        let name = "vlsm_level_bytes";
        let numbers = self.later.values_of(name, "level");
        let last = numbers.iter().filter_map(|level| level.parse::<u8>().ok()).max().unwrap_or(0);
        let level = |level: u8| {
            let text = level.to_string();
            let labels = [("level", text.as_str())];
            let of = |name| self.later.sum(name, &labels);
            let target = of("vlsm_level_target_bytes");
            Level {
                level,
                runs: of("vlsm_level_runs"),
                ssts: of("vlsm_level_ssts"),
                bytes: of(name),
                target: (target > 0.0).then_some(target),
                jobs: self.jobs(&text),
            }
        };
        (0..=last).map(level).collect()
    }

    fn waits(&self) -> Vec<Wait> {
        let name = "vlsm_wait_seconds";
        let wait = |cause: String| {
            let (latency, seconds) = self.latency(name, &[("cause", &cause)]);
            let Latency { measured: count, p99, max, .. } = latency;
            Wait { cause: cause.replace('_', " "), count, seconds, p99, max }
        };
        let causes = self.later.values_of("vlsm_wait_seconds_count", "cause");
        let mut waits: Vec<Wait> = causes.into_iter().map(wait).collect();
        waits.retain(|wait| wait.count > 0.0);
        waits.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        waits
    }

    fn keyspaces(&self) -> Vec<Keyspace> {
        let keyspace = |name: String| {
            let labels = [("keyspace", name.as_str())];
            let now = |metric| self.later.sum(metric, &labels);
            let grown = |metric| self.grown(metric, &labels);
            Keyspace {
                bytes: now("vlsm_level_bytes"),
                ssts: now("vlsm_level_ssts"),
                l0_runs: self.later.sum("vlsm_level_runs", &[labels[0], ("level", "0")]),
                entries: now("vlsm_keyspace_entries"),
                memtable_bytes: now("vlsm_keyspace_memtable_bytes"),
                sealed: now("vlsm_keyspace_sealed_memtables"),
                debt: now("vlsm_keyspace_debt_bytes"),
                waits: grown("vlsm_keyspace_waits_total"),
                waited: grown("vlsm_keyspace_wait_seconds_total"),
                chains: Chains {
                    count: grown("vlsm_keyspace_chains_total"),
                    waited: grown("vlsm_keyspace_chain_waited_seconds_total"),
                    width: grown("vlsm_keyspace_chain_width_bytes_total"),
                },
                name: name.clone(),
            }
        };
        let names = self.later.values_of("vlsm_keyspace_memtable_bytes", "keyspace");
        names.into_iter().map(keyspace).collect()
    }

    fn memory(&self) -> Memory {
        let name = "vlsm_memory_bytes";
        let kind = |kind: String| {
            let bytes = self.later.sum(name, &[("kind", &kind)]);
            (kind.replace('_', " "), bytes)
        };
        Memory {
            bytes: self.later.sum(name, &[]),
            limit: self.later.sum("vlsm_memory_limit_bytes", &[]),
            kinds: self.later.values_of(name, "kind").into_iter().map(kind).collect(),
        }
    }

    fn cache(&self) -> Cache {
        let hits = self.grown("vlsm_cache_hits_total", &[]);
        let misses = self.grown("vlsm_cache_misses_total", &[]);
        let reads = hits + misses;
        Cache { hits, misses, hit_share: (reads > 0.0).then(|| hits / reads) }
    }
}

impl Reading {
    /// Whether the counters of a page continue those of another: the same process has kept the
    /// store open.
    pub fn continues(earlier: &Page, later: &Page) -> bool {
        let of = |name: &str, label: &str| {
            earlier.values_of(name, label) == later.values_of(name, label)
        };
        let grows = |name| later.sum(name, &[]) >= earlier.sum(name, &[]);
        let seconds = |page: &Page| page.sum("vlsm_uptime_seconds", &[]);
        let counters = ["vlsm_writes_total", "vlsm_gets_total", "vlsm_wal_writes_total"];
        of("vlsm_page_info", "process")
            && seconds(later) > seconds(earlier)
            && counters.into_iter().all(grows)
    }

    /// The reading of the interval from one page to a later one.
    pub fn between(store: &Path, earlier: &Page, later: &Page) -> Self {
        let uptime = later.sum("vlsm_uptime_seconds", &[]);
        let seconds = (uptime - earlier.sum("vlsm_uptime_seconds", &[])).max(1e-3);
        let between = Between { earlier, later, seconds };
        let now = |name| later.sum(name, &[]);
        let info = |label| later.values_of("vlsm_page_info", label).pop().unwrap_or_default();
        Self {
            store: store.to_string_lossy().into_owned(),
            process: info("process").parse().unwrap_or(0),
            version: info("version"),
            uptime,
            seconds,
            rates: between.rates(),
            latencies: between.latencies(),
            memtables: Memtables {
                bytes: now("vlsm_keyspace_memtable_bytes"),
                sealed: now("vlsm_keyspace_sealed_memtables"),
                fill: now("vlsm_memtable_fill_ratio"),
                jobs: between.jobs("memtable"),
            },
            levels: between.levels(),
            waits: between.waits(),
            chains: Chains {
                count: between.grown("vlsm_chains_total", &[]),
                waited: between.grown("vlsm_chain_waited_seconds_total", &[]),
                width: between.grown("vlsm_chain_width_bytes_total", &[]),
            },
            keyspaces: between.keyspaces(),
            memory: between.memory(),
            cache: between.cache(),
            files: Files {
                ssts: now("vlsm_sst_files"),
                sst_bytes: now("vlsm_sst_bytes"),
                wals: now("vlsm_wal_files"),
                wal_bytes: now("vlsm_wal_file_bytes"),
                pinned: now("vlsm_pinned_files"),
                pinned_bytes: now("vlsm_pinned_bytes"),
                snapshots: now("vlsm_snapshots"),
                oldest_snapshot: later.value("vlsm_snapshot_oldest_seconds"),
            },
            health: Health {
                read_only: now("vlsm_read_only") > 0.0,
                out_of_space: now("vlsm_out_of_space") > 0.0,
                write_limit: later.value("vlsm_write_limit_bytes_per_second"),
            },
        }
    }

    /// The reading as JSON.
    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
