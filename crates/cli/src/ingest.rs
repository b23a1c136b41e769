//! `sst` and `ingest`: sorted records become a file, and files become part of a store at one
//! moment.
//!
//! The file is written as the records come, and gets its name when it is complete. A record that is
//! bad or out of order ends it: a file is all or nothing. The engine checks and brings in.

use crate::failure::{Failure, Result, say};
use crate::import::{Import, InputArgs, Sink};
use crate::progress::grouped;
use crate::store::{Access, Store, StoreArgs};
use std::path::PathBuf;
use vlsm::{IngestOptions, SstFileWriter};
use vlsm_core::Error;

const SST_EXAMPLES: &str = "\
Examples:
  vlsm export old-store | vlsm sst all.sst
  LC_ALL=C sort packages.tsv | vlsm sst packages.sst
  vlsm ingest my-store all.sst

Formats are those of import. Keys must ascend, byte by byte, and none may come twice; what export
writes does. Keys with escapes may sort otherwise than their lines.";

/// Options of `sst`.
#[derive(Debug, clap::Args)]
#[command(after_help = SST_EXAMPLES)]
pub struct SstArgs {
    /// File to make; it must not exist
    sst: PathBuf,
    #[command(flatten)]
    input: InputArgs,
}

const INGEST_EXAMPLES: &str = "\
Examples:
  vlsm ingest my-store all.sst
  vlsm ingest my-store part-1.sst part-2.sst    both or none
  vlsm ingest my-store all.sst --move           linked where that can be done, and removed

The files are checked completely first. Their records replace older ones of their keys. Files that
are given together must hold keys apart.";

/// Options of `ingest`.
#[derive(Debug, clap::Args)]
#[command(after_help = INGEST_EXAMPLES)]
pub struct IngestArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Files made by `vlsm sst`
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Move the files into the store instead of copying them
    #[arg(long = "move")]
    moving: bool,
}

struct File {
    writer: SstFileWriter,
    records: usize,
}

impl Sink for File {
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

/// Makes a file.
pub fn sst(args: &SstArgs) -> Result {
    let mut import = Import::open(&args.input, Some("no file was made"))?;
    let mut file = File { writer: SstFileWriter::create(&args.sst)?, records: 0 };
    import.run(&mut file)?;
    // That there was no record is no mistake of the command line.
    let made = file.writer.finish().map_err(Failure::new)?;
    import.finish("sorted");
    say(format_args!("made {}: {}", args.sst.display(), made.bytes));
    Ok(())
}

/// Brings files in.
pub fn ingest(args: &IngestArgs) -> Result {
    let store = Store::open(&args.store, Access::Create)?;
    let mut options = IngestOptions::default();
    options.move_files = args.moving;
    let brought_in = store.ingest(&args.files, options);
    store.close()?;
    let report = brought_in?;
    say(format_args!(
        "ingested {} files, {} of them into L0: {} records, {}",
        grouped(report.files),
        grouped(report.into_l0),
        grouped(report.entries),
        report.bytes,
    ));
    Ok(())
}
