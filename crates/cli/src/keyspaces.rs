//! `keyspaces`: the keyspaces of a store, read from its manifest. So it works beside a program that
//! has the store open, and on keyspaces whose merge operator is not known here.

use crate::catalog::Catalog;
use crate::failure::Result;
use crate::paint::Paint;
use crate::progress::grouped;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use vlsm_core::{Bytes, Micros};
use vlsm_disk::manifest::Keyspace;

const EXAMPLES: &str = "\
Examples:
  vlsm keyspaces my-store
  vlsm keyspaces my-store --json | jq -r '.[].keyspace'

Entries and sizes are those of SSTs; what is only in the WAL is not counted.";

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder of the store
    store: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A line of the list.
struct Row<'a> {
    keyspace: &'a Keyspace,
    /// The merge operator and the time to live that it was made with.
    options: Vec<(&'a str, Value)>,
    entries: u64,
    bytes: Bytes,
}

/// Prints the list.
pub fn run(args: &Args) -> Result {
    let state = Catalog::read(&args.store)?.state;
    let rows = state.keyspaces.values().map(|keyspace| {
        let trees = keyspace.regions.iter().filter_map(|region| state.trees.get(&region.tree));
        let mut row = Row {
            keyspace,
            options: keyspace.options.lines().filter_map(option).collect(),
            entries: 0,
            bytes: Bytes::ZERO,
        };
        for (_, table) in trees.flat_map(|version| version.tables()) {
            row.entries = row.entries.saturating_add(table.file.entries);
            row.bytes = Bytes(row.bytes.0.saturating_add(table.bytes.0));
        }
        row
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let mut out = io::stdout().lock();
    if args.json {
        let json: Vec<Value> = rows.iter().map(Row::json).collect();
        return Ok(writeln!(out, "{:#}", Value::from(json))?);
    }
    let width = rows.iter().map(|row| row.keyspace.name.chars().count()).max().unwrap_or(0).max(8);
    let [name, regions, entries, size] = ["keyspace", "regions", "entries", "size"];
    let heading = format!("{name:<width$}{regions:>9}{entries:>14}{size:>12}  options");
    writeln!(out, "{}", Paint::Heading.out(heading))?;
    for Row { keyspace, options, entries, bytes } in &rows {
        let (name, regions) = (&keyspace.name, keyspace.regions.len());
        let (entries, size) = (grouped(*entries), bytes.to_string());
        let options: Vec<_> = options.iter().map(readable).collect();
        let options = options.join(", ");
        let line = format!("{name:<width$}{regions:>9}{entries:>14}{size:>12}  {options}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(out.flush()?)
}

/// An option of the manifest's text, a line `name = value` with a string or a number.
fn option(line: &str) -> Option<(&str, Value)> {
    let (name, value) = line.split_once(" = ")?;
    Some((name, serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}

/// An option for people.
fn readable((name, value): &(&str, Value)) -> String {
    match (*name, value.as_u64()) {
        ("ttl_micros", Some(micros)) => format!("ttl {}", Micros(micros)),
        _ => format!("{name} {value}"),
    }
}

impl Row<'_> {
    fn json(&self) -> Value {
        json!({
            "keyspace": self.keyspace.name,
            "regions": self.keyspace.regions.len(),
            "options": self.options.iter().cloned().collect::<BTreeMap<_, _>>(),
            "entries": self.entries,
            "bytes": self.bytes.0,
        })
    }
}
