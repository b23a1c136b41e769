//! `keyspaces`: lists the keyspaces of a store, clears, drops and renames them. The list is read
//! from the manifest and the WAL, so it works beside a program that has the store open, and on
//! keyspaces whose merge operator is not known here. The other commands open the store, and those
//! that remove data require `--yes`.

use crate::failure::{Failure, Result};
use crate::output::OutputArgs;
use crate::paint::Paint;
use crate::progress::grouped;
use crate::store::no_keyspace;
use crate::unflushed::catalog_and_wal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use vlsm::{Db, Error, Keyspace};
use vlsm_core::{Bytes, Micros};
use vlsm_disk::manifest;

const EXAMPLES: &str = "\
Examples:
  vlsm keyspaces my-store
  vlsm keyspaces my-store --json | jq -r '.[].keyspace'
  vlsm keyspaces clear my-store cache --yes
  vlsm keyspaces drop my-store cache --yes
  vlsm keyspaces rename my-store draft book

Sizes and entries are those of SSTs, the entries in the WAL only come on top. Older versions and
tombstones are entries, too.";

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    #[command(subcommand)]
    change: Option<Change>,
    /// Folder of the store
    #[arg(required = true)]
    store: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A change of a keyspace.
#[derive(Debug, clap::Subcommand)]
enum Change {
    /// Remove all data of a keyspace
    Clear(ChangeArgs),
    /// Remove a keyspace and all its data
    Drop(ChangeArgs),
    /// Rename a keyspace
    Rename {
        #[command(flatten)]
        which: Which,
        /// Its new name
        name: String,
    },
}

/// The keyspace to change.
#[derive(Debug, clap::Args)]
struct Which {
    /// Folder of the store
    store: PathBuf,
    /// Name of the keyspace
    keyspace: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// The keyspace from which data is removed.
#[derive(Debug, clap::Args)]
struct ChangeArgs {
    #[command(flatten)]
    which: Which,
    /// Confirm: removed data cannot be restored
    #[arg(long)]
    yes: bool,
}

impl Change {
    fn run(&self) -> Result {
        let (Self::Clear(ChangeArgs { which, .. })
        | Self::Drop(ChangeArgs { which, .. })
        | Self::Rename { which, .. }) = self;
        let (db, keyspace) = which.open()?;
        let done = match self {
            Self::Clear(args) => {
                args.confirm("cleared")?;
                keyspace.clear()?;
                "cleared"
            }
            Self::Drop(args) => {
                args.confirm("dropped")?;
                db.drop_keyspace(&keyspace)?;
                "dropped"
            }
            Self::Rename { name, .. } => {
                keyspace.rename(name)?;
                "renamed"
            }
        };
        drop(keyspace);
        db.close()?;
        let line = format!("keyspace {:?} is {done}", which.keyspace);
        which.output.tell(Some(line), json!({ "keyspace": which.keyspace, "change": done }))
    }
}

impl Which {
    /// Opens the store to change the keyspace.
    fn open(&self) -> Result<(Db, Keyspace)> {
        let Self { store, keyspace: name, .. } = self;
        let db = Db::builder(store).create_if_missing(false).keep_unknown_operators(true).open()?;
        match db.keyspace(name) {
            Err(Error::NoSuchKeyspace(_)) => {
                Err(no_keyspace(name, db.keyspaces().iter().map(String::as_str)))
            }
            keyspace => Ok((db, keyspace?)),
        }
    }
}

impl ChangeArgs {
    fn confirm(&self, done: &str) -> Result {
        if self.yes {
            return Ok(());
        }
        Err(Failure::new(format!(
            "keyspace {:?} would be {done}, which cannot be undone: confirm with --yes",
            self.which.keyspace
        )))
    }
}

/// A line of the list.
struct Row<'a> {
    keyspace: &'a manifest::Keyspace,
    /// The merge operator and the time to live that it was made with.
    options: Vec<(&'a str, Value)>,
    entries: u64,
    /// Entries that are in no SST yet; `None` if the WAL cannot be read.
    in_wal: Option<u64>,
    bytes: Bytes,
}

/// Prints the list, or makes a change.
pub fn run(args: &Args) -> Result {
    if let Some(change) = &args.change {
        return change.run();
    }
    let store = args.store.as_ref().expect("the command line requires it");
    let (catalog, wal) = catalog_and_wal(store)?;
    let state = &catalog.state;
    let rows = state.keyspaces.values().map(|keyspace| {
        let trees = keyspace.regions.iter().filter_map(|region| state.trees.get(&region.tree));
        let mut row = Row {
            keyspace,
            options: keyspace.options.lines().filter_map(option).collect(),
            entries: 0,
            in_wal: wal.as_ref().ok().map(|wal| wal.of(keyspace)),
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
    let columns = ["keyspace", "regions", "size", "entries", "in WAL only"];
    let [name, regions, size, entries, in_wal] = columns;
    let heading = format!("{name:<width$}{regions:>9}{size:>12}{entries:>14}{in_wal:>14}  options");
    writeln!(out, "{}", Paint::Heading.out(heading))?;
    for Row { keyspace, options, entries, in_wal, bytes } in &rows {
        let (name, regions) = (&keyspace.name, keyspace.regions.len());
        let (entries, size) = (grouped(*entries), bytes.to_string());
        let in_wal = in_wal.map_or("?".to_owned(), grouped);
        let options: Vec<_> = options.iter().map(readable).collect();
        let options = options.join(", ");
        let line =
            format!("{name:<width$}{regions:>9}{size:>12}{entries:>14}{in_wal:>14}  {options}");
        writeln!(out, "{}", line.trim_end())?;
    }
    if let Err(error) = &wal {
        writeln!(out, "\nthe WAL cannot be read: {error}")?;
    }
    Ok(out.flush()?)
}

/// An option of the manifest's text, a line `name = value` with a string or a number.
fn option(line: &str) -> Option<(&str, Value)> {
    let (name, value) = line.split_once(" = ")?;
    Some((name, serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}

/// An option in readable form.
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
            "wal_entries": self.in_wal,
            "bytes": self.bytes.0,
        })
    }
}
