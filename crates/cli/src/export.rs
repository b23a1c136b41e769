//! `export`: all records of a keyspace, also of a damaged one.
//!
//! Records go to stdout or into a new file, in key order and as of one moment. With
//! `--skip-damaged` they come from a salvage, and the omitted ranges of keys are listed on stderr.

use crate::data::Failed;
use crate::failure::{Failure, Result, say};
use crate::interrupt;
use crate::progress::{Progress, grouped};
use crate::record::{Format, Layout, detect};
use crate::store::{Access, Store, StoreArgs};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use vlsm::{DamagedRange, Salvaged};

const EXAMPLES: &str = "\
Examples:
  vlsm export my-store > all.tsv
  vlsm export my-store all.jsonl                JSON lines, by the name of the file
  vlsm export my-store | gzip > all.tsv.gz
  vlsm export my-store | vlsm import other-store
  vlsm export damaged-store rescued.tsv --skip-damaged

import reads it back, byte for byte. The export shows the keyspace as of one moment. Keys whose
operands the merge operator cannot combine are left out; the exit code is then 1.

Damage ends an export, with exit code 1. With --skip-damaged the export continues after the damage
and lists the omitted keys on stderr; the exit code is 1 then, too. It omits the range of keys of
each damaged block, or of the whole SST if its index is damaged or the file is missing. Keys of
other SSTs in that range are omitted, too: they may be out of date or deleted. If the WAL is
damaged, add --salvage-wal.

To use the store again, run any command that writes with --salvage-ssts: it moves damaged SSTs into
the store's folder lost.";

/// Options of `export`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub store: StoreArgs,
    /// File to write, which must not exist; - for stdout
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Format of the output: tsv or json [default: by the name of the file, else tsv]
    #[arg(long, value_enum, hide_possible_values = true)]
    format: Option<Format>,
    /// Write JSON lines: the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write keys and values in hexadecimal
    #[arg(long)]
    hex: bool,
    /// Write the readable records of a damaged store, and list the omitted ranges of keys
    #[arg(long)]
    skip_damaged: bool,
}

/// The most ranges that are described one by one.
const RANGES_SHOWN: u64 = 20;

/// Writes all records of a keyspace.
pub fn run(args: &Args) -> Result {
    let store = match args.skip_damaged {
        true => Store::open_damaged(&args.store)?,
        false => Store::open(&args.store, Access::Read)?,
    };
    let format = match (args.json, args.format) {
        (true, _) => Format::Json,
        (false, Some(format)) => format,
        (false, None) => detect(&args.file.to_string_lossy(), b""),
    };
    let layout = Layout { format, hex: args.hex };
    let to_stdout = args.file == Path::new("-");
    let mut export = Export {
        layout,
        progress: None,
        records: 0,
        bytes: 0,
        left_out: 0,
        failed: Failed::default(),
    };
    if to_stdout {
        export.run(&store, args.skip_damaged, io::stdout().lock())?;
    } else {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Failure::new(format!("{} exists: remove it, or name another", args.file.display()))
            }
            _ => Failure::file("cannot write", &args.file, &error),
        };
        let file = File::create_new(&args.file).map_err(failed)?;
        export.progress = Some(Progress::new(None));
        export.run(&store, args.skip_damaged, &file)?;
        file.sync_all().map_err(failed)?;
    }
    if let Some(progress) = &export.progress {
        progress.finish("exported", export.bytes);
    }
    store.close()?;
    export.verdict()?;
    export.failed.tell(&args.store)
}

/// A running export.
struct Export {
    layout: Layout,
    /// The progress bar; none if the records go to stdout.
    progress: Option<Progress>,
    records: u64,
    bytes: u64,
    /// Ranges of keys that cannot be read.
    left_out: u64,
    /// Keys whose operands the merge operator could not combine.
    failed: Failed,
}

impl Export {
    /// Writes all records; with `skip`, the readable ones.
    fn run(&mut self, store: &Store, skip: bool, out: impl Write) -> Result {
        let mut out = BufWriter::with_capacity(1 << 20, out);
        let mut line = Vec::new();
        if skip {
            for found in store.salvage() {
                interrupt::check()?;
                match found? {
                    Salvaged::Pair(key, value) => self.pair(&key, &value, &mut line, &mut out)?,
                    Salvaged::Damaged(range) => self.tell(&range),
                    _ => {}
                }
            }
        } else {
            for pair in store.range((Bound::Unbounded, Bound::Unbounded)) {
                interrupt::check()?;
                let Some((key, value)) = self.failed.pass(pair)? else { continue };
                self.pair(&key, &value, &mut line, &mut out)?;
            }
        }
        Ok(out.flush()?)
    }

    fn pair(
        &mut self,
        key: &[u8],
        value: &[u8],
        line: &mut Vec<u8>,
        out: &mut impl Write,
    ) -> Result {
        line.clear();
        self.layout.write(key, value, line);
        out.write_all(line)?;
        self.records += 1;
        self.bytes += line.len() as u64;
        if let Some(progress) = &mut self.progress {
            progress.record(self.bytes);
        }
        Ok(())
    }

    /// Lists the omitted keys, up to a number of ranges.
    fn tell(&mut self, range: &DamagedRange) {
        self.left_out += 1;
        let key = |key: &[u8]| {
            let mut text = Vec::new();
            let format = Format::Tsv;
            Layout { format, ..self.layout }.write_text(key, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        let to = match &range.to {
            Bound::Included(to) => format!("to {}", key(to)),
            Bound::Excluded(to) => format!("up to {}, not included", key(to)),
            Bound::Unbounded => "to the end".to_owned(),
        };
        let text = match self.left_out {
            ..=RANGES_SHOWN => format!("left out: from {} {to}: {}", key(&range.from), range.error),
            n if n == RANGES_SHOWN + 1 => "… and more: counted, but not listed".to_owned(),
            _ => return,
        };
        match &self.progress {
            Some(progress) => progress.say(&text),
            None => say(text),
        }
    }

    fn verdict(&self) -> Result {
        match self.left_out {
            0 => Ok(()),
            ranges => Err(Failure::new(format!(
                "{} key ranges are damaged and left out; {} records are written",
                grouped(ranges),
                grouped(self.records),
            ))),
        }
    }
}
