//! `checkpoint` and `restore`: copies a store into another folder, and back.
//!
//! The engine does both; SSTs are linked if the file system supports it.

use crate::failure::{Failure, Result};
use crate::output::OutputArgs;
use crate::progress::grouped;
use crate::store::say_beside;
use serde_json::json;
use std::path::{Path, PathBuf};
use vlsm::{CopyReport, Db};
use vlsm_core::Error;

const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  vlsm checkpoint my-store backup-monday
  vlsm checkpoint my-store /mnt/disk/backup     SSTs are copied if they cannot be linked
  vlsm verify backup-monday

This works while another process has the store open: the copy is then as of now. The target must be
new or empty. It becomes a store of its own: restore copies it back, and every
other command works on it. A linked SST shares its bytes with the store: to survive the loss of the
disk, copy the checkpoint to another disk.";

/// Options of `checkpoint`.
#[derive(Debug, clap::Args)]
#[command(after_help = CHECKPOINT_EXAMPLES)]
pub struct CheckpointArgs {
    /// Folder of the store
    store: PathBuf,
    /// Folder for the copy, new or empty
    target: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
    /// The store, if it is open already.
    #[arg(skip)]
    pub opened: Option<Db>,
}

const RESTORE_EXAMPLES: &str = "\
Examples:
  vlsm restore backup-monday my-store
  vlsm restore /mnt/disk/backup restored && vlsm scan restored --limit 10

The checkpoint (or any closed store) is checked completely first; a damaged one is not restored. The
target must be new or empty: nothing is ever overwritten.";

/// Options of `restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// Folder of the checkpoint
    checkpoint: PathBuf,
    /// Folder to restore into, new or empty
    target: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Makes a checkpoint.
pub fn checkpoint(args: &CheckpointArgs) -> Result {
    let report = match &args.opened {
        Some(db) => db.checkpoint(&args.target).map_err(refused)?,
        None => {
            let db = open(&args.store)?;
            let report = db.checkpoint(&args.target).map_err(refused)?;
            db.close()?;
            report
        }
    };
    done("checkpoint", &args.target, report, args.output)
}

/// Opens the store, or reads it beside the process that has it open.
fn open(store: &Path) -> Result<Db> {
    let builder = || Db::builder(store).create_if_missing(false).keep_unknown_operators(true);
    match builder().open() {
        Err(locked @ Error::Locked { .. }) => {
            say_beside(&locked);
            Ok(builder().follow(true).open()?)
        }
        opened => Ok(opened?),
    }
}

/// Restores a checkpoint.
pub fn restore(args: &RestoreArgs) -> Result {
    let report = vlsm::restore(&args.checkpoint, &args.target).map_err(refused)?;
    done("restored", &args.target, report, args.output)
}

/// A target that is in use is not a usage error.
fn refused(error: Error) -> Failure {
    match error {
        Error::AlreadyExists { .. } => Failure::new(format!("{error}: name a new folder")),
        error => Failure::new(error),
    }
}

fn done(what: &str, target: &Path, report: CopyReport, output: OutputArgs) -> Result {
    let how = match report.copied {
        0 => "linked".to_owned(),
        all if all == report.ssts => "copied".to_owned(),
        some => format!("{} of them copied", grouped(some)),
    };
    let line = format!(
        "{what} {}: {} SSTs ({how}), {} WALs, {}",
        target.display(),
        grouped(report.ssts),
        grouped(report.wals),
        report.bytes,
    );
    let json = json!({
        "target": target.to_string_lossy(),
        "ssts": report.ssts,
        "copied": report.copied,
        "wals": report.wals,
        "bytes": report.bytes.0,
    });
    output.tell(Some(line), json)
}
