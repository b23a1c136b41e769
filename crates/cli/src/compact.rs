//! `compact`: merges a range of keys down to the last level.
//!
//! The engine compacts in its own jobs; the command waits for them.

use crate::data::RangeArgs;
use crate::failure::Result;
use crate::output::OutputArgs;
use crate::store::{Access, Store, StoreArgs};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  vlsm compact my-store
  vlsm compact my-store --from a --to q         a included, q not
  vlsm levels my-store                          the result

This removes deleted and overwritten records from disk. It is rarely needed: the store compacts by
itself, level by level. After Ctrl-C nothing is lost; run the command again to continue.";

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
    #[command(flatten)]
    output: OutputArgs,
}

/// Compacts.
pub fn run(args: &Args) -> Result {
    let range = args.range.bounds(args.hex)?;
    let store = Store::open(&args.store, Access::Write)?;
    store.compact(range)?;
    store.close()?;
    let (store, keyspace) = (args.store.store.display().to_string(), &args.store.keyspace);
    let line = format!("compacted {store}");
    args.output.tell(Some(line), json!({ "store": store, "keyspace": keyspace }))
}
