//! `stats` and `levels`: the contents of a store, from its manifest and its folder.
//!
//! Both read and change nothing ([`Catalog`]), so they work while the store is in use. `stats` also
//! reads the WAL and counts the entries that are not in an SST yet. `levels` does not show these
//! entries, nor writes of an open store that are only in its memory.

use crate::catalog::Catalog;
use crate::failure::{Failure, Result};
use crate::paint::Paint;
use crate::progress::grouped;
use crate::store::{metrics, no_keyspace};
use crate::unflushed::catalog_and_wal;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::text;
use vlsm_core::{Bytes, RunOrigin, Table, Tables, TreeId, Version};
use vlsm_disk::manifest::Keyspace;

const STATS_EXAMPLES: &str = "\
Examples:
  vlsm stats my-store
  vlsm stats my-store --json | jq .files
  vlsm stats my-store --prometheus > /var/lib/node-exporter/vlsm.prom

This works while the store is in use. With --prometheus all counters are zero, because they are
those of the process that writes; levels, keyspaces and files are as they are. An application that
has the store open serves the same page itself (Stats::prometheus). For latencies, stalls and
amplification use vlsm bench.";

/// Options of `stats`.
#[derive(Debug, clap::Args)]
#[command(after_help = STATS_EXAMPLES)]
pub struct StatsArgs {
    /// Folder of the store
    store: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print metrics in the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

const LEVELS_EXAMPLES: &str = "\
Examples:
  vlsm levels my-store
  vlsm levels my-store --tables                 every SST with its range of keys
  vlsm levels my-store --keyspace fruit --json

This works while the store is in use.";

/// Options of `levels`.
#[derive(Debug, clap::Args)]
#[command(after_help = LEVELS_EXAMPLES)]
pub struct LevelsArgs {
    /// Folder of the store
    store: PathBuf,
    /// Only this keyspace
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Print every SST
    #[arg(long, conflicts_with = "json")]
    tables: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Sums over some tables.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    tables: u64,
    bytes: Bytes,
    entries: u64,
    tombstones: u64,
}

impl Sums {
    fn of<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> Self {
        tables.fold(Self::default(), |sums, table| Self {
            tables: sums.tables + 1,
            bytes: Bytes(sums.bytes.0.saturating_add(table.bytes.0)),
            entries: sums.entries.saturating_add(table.file.entries),
            tombstones: sums.tombstones.saturating_add(table.file.tombstones),
        })
    }

    fn json(&self) -> Value {
        json!({
            "tables": self.tables,
            "bytes": self.bytes.0,
            "entries": self.entries,
            "tombstones": self.tombstones,
        })
    }
}

/// The rows of a tree, each with its name and the sums over its tables. Runs of L0 come newest
/// first, in the order in which reads look at them.
fn rows(version: &Version) -> Vec<(String, Sums)> {
    let sums = |tables: &Tables| Sums::of(tables.iter());
    let l0 = version.l0.iter().rev().map(|run| {
        let merged = if run.origin == RunOrigin::Merge { " merged" } else { "" };
        (format!("L0 {}{merged}", run.id), sums(&run.tables))
    });
    let levels = version.levels.iter().enumerate();
    let levels = levels.filter(|(_, tables)| !tables.is_empty());
    l0.chain(levels.map(|(index, tables)| (format!("L{}", index + 1), sums(tables)))).collect()
}

/// Prints the tree of each keyspace.
pub fn levels(args: &LevelsArgs) -> Result {
    let catalog = Catalog::read(&args.store)?;
    let wanted = |k: &&Keyspace| args.keyspace.as_ref().is_none_or(|name| *name == k.name);
    let keyspaces: Vec<&Keyspace> = catalog.state.keyspaces.values().filter(wanted).collect();
    if let (true, Some(name)) = (keyspaces.is_empty(), &args.keyspace) {
        let known = catalog.state.keyspaces.values().map(|keyspace| keyspace.name.as_str());
        return Err(no_keyspace(name, known));
    }
    let empty = Version::default();
    let tree = |id: TreeId| catalog.state.trees.get(&id).unwrap_or(&empty);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        let regions = keyspaces.iter().flat_map(|k| k.regions.iter().map(move |r| (k, r.tree)));
        let json: Vec<Value> = regions
            .map(|(keyspace, id)| {
                let rows = rows(tree(id)).into_iter().map(|(name, sums)| {
                    let mut row = sums.json();
                    row["level"] = name.into();
                    row
                });
                let rows: Vec<Value> = rows.collect();
                json!({ "keyspace": keyspace.name, "tree": id.0, "levels": rows })
            })
            .collect();
        return Ok(writeln!(out, "{:#}", Value::from(json))?);
    }
    for keyspace in keyspaces {
        for (index, region) in keyspace.regions.iter().enumerate() {
            let count = keyspace.regions.len();
            let part = if count == 1 { String::new() } else { format!(", region {index}") };
            let heading = format!("keyspace {}{part} ({})", keyspace.name, region.tree);
            writeln!(out, "{}", Paint::Heading.out(heading))?;
            let version = tree(region.tree);
            match args.tables {
                true => write!(out, "{}", text::print(version))?,
                false => table_of_levels(version, &mut out)?,
            }
        }
    }
    Ok(out.flush()?)
}

fn table_of_levels(version: &Version, out: &mut impl Write) -> Result {
    let rows = rows(version);
    if rows.is_empty() {
        return Ok(writeln!(out, "  empty: nothing was flushed yet")?);
    }
    writeln!(out, "  {:<14}{:>8}{:>12}{:>14}{:>14}", "", "SSTs", "size", "entries", "tombstones")?;
    let total = ("total".to_owned(), Sums::of(version.tables().map(|(_, table)| table)));
    for (name, sums) in rows.iter().chain([&total]) {
        let (tables, size) = (grouped(sums.tables), sums.bytes.to_string());
        let (entries, tombstones) = (grouped(sums.entries), grouped(sums.tombstones));
        writeln!(out, "  {name:<14}{tables:>8}{size:>12}{entries:>14}{tombstones:>14}")?;
    }
    Ok(())
}

/// The kinds of files. A WAL that SSTs refer to has several names.
const KINDS: [&str; 6] = ["SST", "WAL", "WAL of SSTs", "manifest", "LOG", "other"];

/// Files of a folder by kind: (kind, count, bytes).
fn files(dir: &Path) -> Result<Vec<(&'static str, u64, Bytes)>> {
    let mut kinds = KINDS.map(|kind| (kind, 0, Bytes::ZERO));
    let mut seen = HashSet::new();
    let failed = |error: io::Error| Failure::file("cannot list", dir, &error);
    let entries: io::Result<Vec<_>> = std::fs::read_dir(dir).map_err(failed)?.collect();
    let mut entries = entries.map_err(failed)?;
    // A WAL counts under its first name, if it still has that.
    entries.sort_by_key(|entry| entry.file_name().to_string_lossy().ends_with(".values"));
    for entry in entries {
        // A file that was removed meanwhile does not count.
        let Ok(facts) = entry.metadata() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = match name.as_str() {
            name if name.ends_with(".sst") => 0,
            name if name.ends_with(".wal") || name.ends_with(".wal.tmp") => 1,
            name if name.ends_with(".values") => 2,
            name if name.starts_with("MANIFEST") || name.starts_with("CURRENT") => 3,
            name if name.starts_with("LOG") || name == "LOCK" => 4,
            _ => 5,
        };
        // Another name of a file takes no space.
        if !seen.insert(facts.ino()) {
            continue;
        }
        kinds[kind].1 += 1;
        kinds[kind].2 += Bytes(facts.len());
    }
    Ok(kinds.into_iter().filter(|(_, count, _)| *count > 0).collect())
}

fn print_metrics(store: &Path) -> Result {
    let page = metrics(store)?;
    let mut out = io::stdout().lock();
    out.write_all(page.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints the contents of a store.
pub fn stats(args: &StatsArgs) -> Result {
    if args.prometheus {
        return print_metrics(&args.store);
    }
    let (catalog, wal) = catalog_and_wal(&args.store)?;
    let state = &catalog.state;
    let files = files(&args.store)?;
    let sums = |keyspace: &Keyspace| {
        let trees = keyspace.regions.iter().filter_map(|region| state.trees.get(&region.tree));
        Sums::of(trees.flat_map(|version| version.tables().map(|(_, table)| table)))
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        let keyspaces = state.keyspaces.values().map(|keyspace| {
            let mut json = sums(keyspace).json();
            json["name"] = keyspace.name.clone().into();
            json["regions"] = keyspace.regions.len().into();
            json["wal_entries"] = wal.as_ref().ok().map(|wal| wal.of(keyspace)).into();
            json
        });
        let wal_json = match &wal {
            Ok(wal) => {
                json!({ "batches": wal.batches, "entries": wal.entries.values().sum::<u64>() })
            }
            Err(error) => json!({ "error": error.to_string() }),
        };
        let files = files.iter().map(|(kind, count, bytes)| {
            (kind.to_lowercase(), json!({ "count": count, "bytes": bytes.0 }))
        });
        let json = json!({
            "store": args.store.to_string_lossy(),
            "uid": format!("{:016x}", state.store_uid),
            "sequence_number": state.numbers.last_seq.0,
            "keyspaces": keyspaces.collect::<Vec<_>>(),
            "wal": wal_json,
            "files": files.collect::<serde_json::Map<_, _>>(),
        });
        return Ok(writeln!(out, "{json:#}")?);
    }
    writeln!(out, "store {} (uid {:016x})", args.store.display(), state.store_uid)?;
    let manifest = catalog.path.file_name().unwrap_or_default().to_string_lossy();
    writeln!(out, "sequence number {}, by {manifest}\n", grouped(state.numbers.last_seq.0))?;
    let columns = ["keyspace", "SSTs", "size", "entries", "in WAL only"];
    let [name, ssts, size, entries, in_wal] = columns;
    let heading = format!("{name:<16}{ssts:>8}{size:>12}{entries:>14}{in_wal:>14}");
    writeln!(out, "{}", Paint::Heading.out(heading))?;
    for keyspace in state.keyspaces.values() {
        let (name, sums) = (&keyspace.name, sums(keyspace));
        let (tables, size, entries) =
            (grouped(sums.tables), sums.bytes.to_string(), grouped(sums.entries));
        let in_wal = wal.as_ref().map_or("?".to_owned(), |wal| grouped(wal.of(keyspace)));
        writeln!(out, "{name:<16}{tables:>8}{size:>12}{entries:>14}{in_wal:>14}")?;
    }
    let heading = format!("{:<16}{:>8}{:>12}", "on disk", "files", "size");
    writeln!(out, "\n{}", Paint::Heading.out(heading))?;
    let total = files.iter().fold((0, Bytes::ZERO), |sum, f| (sum.0 + f.1, sum.1 + f.2));
    for (kind, count, bytes) in files.iter().chain([&("total", total.0, total.1)]) {
        writeln!(out, "{kind:<16}{count:>8}{:>12}", bytes.to_string())?;
    }
    match &wal {
        Ok(wal) => writeln!(
            out,
            "\nIn the WAL only, until a full memtable is flushed: entries {}, batches {}",
            grouped(wal.entries.values().sum()),
            grouped(wal.batches)
        )?,
        Err(error) => writeln!(out, "\nthe WAL cannot be read: {error}")?,
    }
    Ok(out.flush()?)
}
