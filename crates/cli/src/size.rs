//! `size`: the approximate size of a range of keys.
//!
//! The store is opened read-only, so entries in the WAL count.

use crate::data::RangeArgs;
use crate::failure::Result;
use crate::progress::grouped;
use crate::store::{Access, Store, StoreArgs};
use serde_json::json;
use std::io::{self, Write};

const EXAMPLES: &str = "\
Examples:
  vlsm size my-store
  vlsm size my-store --from a --to q            a included, q not
  vlsm size my-store --json | jq .bytes

Old versions and tombstones count until a compaction removes them. vlsm scan --count gives the exact
number of records.";

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Keys are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the estimate.
pub fn run(args: &Args) -> Result {
    let range = args.range.bounds(args.hex)?;
    let store = Store::open(&args.store, Access::Read)?;
    let size = store.size(range)?;
    store.close()?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", json!({ "bytes": size.bytes.0, "entries": size.entries }))?;
    } else {
        writeln!(out, "about {} in {} entries", size.bytes, grouped(size.entries))?;
    }
    Ok(out.flush()?)
}
