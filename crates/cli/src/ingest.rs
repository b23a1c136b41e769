//! `sst` and `ingest`: sorted records become a file, and files become part of a store
//! atomically.
//!
//! The file is written while records arrive, and renamed when it is complete. A record that is bad
//! or out of order ends the command without a file. The engine checks and ingests files.

use crate::failure::{Failure, Result};
use crate::import::{Import, InputArgs, Sink};
use crate::output::OutputArgs;
use crate::progress::grouped;
use crate::store::{CreateArgs, Store, StoreArgs};
use serde_json::json;
use std::path::PathBuf;
use vlsm::{IngestOptions, SstFileWriter};
use vlsm_core::Error;

const SST_EXAMPLES: &str = "\
Examples:
  vlsm export old-store | vlsm sst all.sst
  LC_ALL=C sort packages.tsv | vlsm sst packages.sst
  vlsm ingest my-store all.sst

Formats are those of import. Keys must be in ascending order of bytes, without duplicates, as export
writes them. Lines with escapes may sort differently than their keys.";

/// Options of `sst`.
#[derive(Debug, clap::Args)]
#[command(after_help = SST_EXAMPLES)]
pub struct SstArgs {
    /// File to create; it must not exist
    sst: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const INGEST_EXAMPLES: &str = "\
Examples:
  vlsm ingest my-store all.sst
  vlsm ingest my-store part-1.sst part-2.sst    both or none
  vlsm ingest my-store all.sst --move           linked if possible, and removed

The files are checked completely first. Their records replace older ones of the same keys. The key
ranges of the files must not overlap.";

/// Options of `ingest`.
#[derive(Debug, clap::Args)]
#[command(after_help = INGEST_EXAMPLES)]
pub struct IngestArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    create: CreateArgs,
    /// Files made by `vlsm sst`
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Move the files into the store instead of copying them
    #[arg(long = "move")]
    moving: bool,
    #[command(flatten)]
    output: OutputArgs,
}

struct File {
    writer: SstFileWriter,
    records: usize,
}

impl Sink for File {
    fn choose(&mut self, keyspace: Option<&str>) -> Result<Option<String>> {
        let why = "it names a keyspace, but an SST has none: ingest --keyspace chooses it";
        Ok(keyspace.map(|_| why.to_owned()))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<String>> {
        match self.writer.put(key, value) {
            Ok(()) => {
                self.records += 1;
                Ok(None)
            }
            Err(Error::InvalidArgument(why)) => Ok(Some(why)),
            Err(error) => Err(error.into()),
        }
    }

    fn commit(&mut self) -> Result {
        Ok(())
    }

    fn pending(&self) -> (usize, usize) {
        (self.records, 0)
    }
}

/// Writes a file.
pub fn sst(args: &SstArgs) -> Result {
    let mut import = Import::open(&args.input, Some("no file was made"))?;
    let mut file = File { writer: SstFileWriter::create(&args.sst)?, records: 0 };
    import.run(&mut file)?;
    // An input without records is not a usage error.
    let made = file.writer.finish().map_err(Failure::new)?;
    let mut json = import.finish("sorted", args.output);
    let line = format!("made {}: {}", args.sst.display(), made.bytes);
    json["file"] = args.sst.to_string_lossy().into();
    json["file_bytes"] = made.bytes.0.into();
    args.output.tell(Some(line), json)
}

/// Ingests files.
pub fn ingest(args: &IngestArgs) -> Result {
    let store = Store::open_to_add(&args.store, args.create)?;
    let mut options = IngestOptions::default();
    options.move_files = args.moving;
    let brought_in = store.ingest(&args.files, options);
    store.close()?;
    let report = brought_in?;
    let line = format!(
        "ingested {} files, {} of them into L0: {} records, {}",
        grouped(report.files),
        grouped(report.into_l0),
        grouped(report.entries),
        report.bytes,
    );
    let json = json!({
        "files": report.files,
        "into_l0": report.into_l0,
        "records": report.entries,
        "bytes": report.bytes.0,
    });
    args.output.tell(Some(line), json)
}
