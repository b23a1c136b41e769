//! `put get merge delete scan export`: single records and ranges of them.
//!
//! Keys and values on the command line are read as escapes (`escape.rs`) or, with `--hex`, as
//! hexadecimal, and printed in the same form. Data goes to stdout, everything else to stderr.

use crate::escape::{unescape, unhex};
use crate::failure::{Failure, Result, say};
use crate::progress::{Progress, grouped};
use crate::record::{Format, Layout, detect};
use crate::store::{Access, CreateArgs, Range, Store, StoreArgs};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use vlsm::{DamagedRange, Salvaged};

const PUT_EXAMPLES: &str = "\
Examples:
  vlsm put my-store apple green
  vlsm put my-store 'tab\\tin\\x00key' 'two\\nlines'
  vlsm put my-store --hex 00ff01 c0ffee
  vlsm put my-store photo --file photo.jpg      the value is the file, any bytes
  date | vlsm put my-store now --file -

The store is created if it does not exist. The write is on the device when the command returns.";

/// Options of `put`.
#[derive(Debug, clap::Args)]
#[command(after_help = PUT_EXAMPLES)]
pub struct PutArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    create: CreateArgs,
    /// Key, with escapes
    key: OsString,
    /// Value, with escapes
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    value: Option<OsString>,
    /// Read the value from this file, unchanged; - for stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Key and value are hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Sets a key.
pub fn put(args: &PutArgs) -> Result {
    let key = argument("KEY", &args.key, args.hex)?;
    let value = match (&args.file, &args.value) {
        (Some(file), _) => whole_file(file)?,
        (None, Some(value)) => argument("VALUE", value, args.hex)?,
        (None, None) => return Err(Failure::usage("give a VALUE or --file")),
    };
    vlsm_core::key::check_lengths(key.len(), value.len())?;
    let mut store = Store::open_to_add(&args.store, args.create)?;
    store.batch_put(&key, &value);
    store.sync()?;
    store.close()
}

const GET_EXAMPLES: &str = "\
Examples:
  vlsm get my-store apple
  vlsm get my-store --hex 00ff01                value in hexadecimal too
  vlsm get my-store photo --raw > photo.jpg     exact bytes, no line feed

The exit code is 1 if the key does not exist.";

/// Options of `get`.
#[derive(Debug, clap::Args)]
#[command(after_help = GET_EXAMPLES)]
pub struct GetArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Key, with escapes
    key: OsString,
    /// Key and value are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print the value's bytes unchanged, without a line feed
    #[arg(long)]
    raw: bool,
}

/// Prints the value of a key.
pub fn get(args: &GetArgs) -> Result {
    let key = argument("KEY", &args.key, args.hex)?;
    let store = Store::open(&args.store, Access::Read)?;
    let value = store.get(&key)?;
    store.close()?;
    let value = value.ok_or_else(|| Failure::new("there is no such key"))?;
    let mut out = io::stdout().lock();
    if args.raw {
        out.write_all(&value)?;
    } else {
        let mut line = Vec::new();
        Layout { format: Format::Tsv, hex: args.hex }.write_text(&value, &mut line);
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(out.flush()?)
}

const MERGE_EXAMPLES: &str = "\
Examples:
  vlsm merge my-store --keyspace visits --operator add ada --number 1
  vlsm merge my-store --keyspace visits ada --number -1
  vlsm merge my-store --keyspace diary --operator append monday 'rain\\n'

Operators: append (to the value), add (64-bit numbers, little-endian), max (the largest by bytes).
A keyspace keeps its operator for life: --operator creates the keyspace with it. The write is on the
device when the command returns.";

/// Options of `merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub struct MergeArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Key, with escapes
    key: OsString,
    /// Operand, with escapes
    #[arg(required_unless_present = "number", conflicts_with = "number")]
    operand: Option<OsString>,
    /// Use this number as the operand, in the format of add
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    number: Option<i64>,
    /// Create the keyspace with this merge operator if it does not exist: append, add or max
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Key and operand are hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Changes a value by an operand.
pub fn merge(args: &MergeArgs) -> Result {
    let key = argument("KEY", &args.key, args.hex)?;
    let operand = match (args.number, &args.operand) {
        (Some(number), _) => number.to_le_bytes().to_vec(),
        (None, Some(operand)) => argument("OPERAND", operand, args.hex)?,
        (None, None) => return Err(Failure::usage("give an OPERAND or --number")),
    };
    let mut store = Store::open_for_merges(&args.store, args.operator.as_deref())?;
    store.batch_merge(&key, &operand);
    store.sync()?;
    store.close()
}

const DELETE_EXAMPLES: &str = "\
Examples:
  vlsm delete my-store apple
  vlsm delete my-store apple pear plum          all of them or none
  vlsm delete my-store --hex 00ff01
  vlsm delete my-store --range a q              a included, q not

It is no error to delete a key that does not exist.";

/// Options of `delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub struct DeleteArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Keys, with escapes
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Remove all keys from the first key up to the second, exclusive
    #[arg(long)]
    range: bool,
    /// Keys are hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Removes keys or a range of them, as one batch.
pub fn delete(args: &DeleteArgs) -> Result {
    let keys = args.keys.iter().map(|key| argument("KEY", key, args.hex));
    let keys = keys.collect::<Result<Vec<_>>>()?;
    if args.range && keys.len() != 2 {
        return Err(Failure::usage(
            "--range takes two keys: the first one, and the one to stop at",
        ));
    }
    let mut store = Store::open(&args.store, Access::Write)?;
    match keys.as_slice() {
        [from, to] if args.range => store.batch_delete_range(from, to),
        keys => keys.iter().for_each(|key| store.batch_delete(key)),
    }
    store.sync()?;
    store.close()
}

const SCAN_EXAMPLES: &str = "\
Examples:
  vlsm scan my-store                            everything, in key order
  vlsm scan my-store --prefix app --limit 10
  vlsm scan my-store --from a --to q            a included, q not
  vlsm scan my-store --reverse --limit 1        the last record
  vlsm scan my-store --keys-only | head
  vlsm scan my-store --prefix app --count
  vlsm scan my-store --keyspace visits --failed keys that the merge operator cannot combine

Keys whose operands the merge operator cannot combine are left out; the exit code is then 1.";

/// Options of `scan`.
#[derive(Debug, clap::Args)]
#[command(after_help = SCAN_EXAMPLES)]
pub struct ScanArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Only keys with this prefix
    #[arg(long, conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// At most this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print in descending order of keys
    #[arg(long)]
    reverse: bool,
    /// Print only keys
    #[arg(long)]
    keys_only: bool,
    /// Print only the number of records
    #[arg(long, conflicts_with = "keys_only")]
    count: bool,
    /// Print only the keys whose operands the merge operator cannot combine
    #[arg(long, conflicts_with = "keys_only")]
    failed: bool,
    /// Format of the output: tsv or json
    #[arg(long, value_enum, default_value = "tsv", hide_possible_values = true)]
    format: Format,
    /// Keys and values are hexadecimal, in the options too
    #[arg(long)]
    hex: bool,
}

/// A range of keys, as options.
#[derive(Debug, clap::Args)]
pub struct RangeArgs {
    /// First key
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Key to stop before
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
}

impl RangeArgs {
    /// The range of these options; hexadecimal if `hex`.
    pub fn bounds(&self, hex: bool) -> Result<Range> {
        let read = |name, key: &Option<OsString>| {
            key.as_ref().map(|key| argument(name, key, hex)).transpose()
        };
        let from = read("--from", &self.from)?.map_or(Bound::Unbounded, Bound::Included);
        Ok((from, read("--to", &self.to)?.map_or(Bound::Unbounded, Bound::Excluded)))
    }
}

/// Prints a range of records.
pub fn scan(args: &ScanArgs) -> Result {
    let range = args.range.bounds(args.hex)?;
    let prefix = args.prefix.as_ref().map(|key| argument("--prefix", key, args.hex)).transpose()?;
    let store = Store::open(&args.store, Access::Read)?;
    let mut pairs = match prefix {
        Some(prefix) => store.prefix(&prefix),
        None => store.range(range),
    };
    let layout = Layout { format: args.format, hex: args.hex };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    let (mut count, mut failed) = (0, Failed::default());
    while count < args.limit.unwrap_or(u64::MAX) {
        let pair = if args.reverse { pairs.next_back() } else { pairs.next() };
        let Some(pair) = pair else { break };
        let (key, value) = match (failed.pass(pair)?, pairs.failed_key()) {
            (Some((key, value)), _) if !args.failed => (key, Some(value)),
            (None, Some(key)) if args.failed => (key.clone(), None),
            _ => continue,
        };
        count += 1;
        if args.count {
            continue;
        }
        line.clear();
        match value.filter(|_| !args.keys_only) {
            None => layout.write_key(&key, &mut line),
            Some(value) => layout.write(&key, &value, &mut line),
        }
        out.write_all(&line)?;
    }
    if args.count {
        writeln!(out, "{count}")?;
    }
    out.flush()?;
    drop(pairs);
    store.close()?;
    if args.failed { Ok(()) } else { failed.tell(&args.store) }
}

/// Keys whose operands the merge operator could not combine.
#[derive(Default)]
struct Failed {
    count: u64,
    error: Option<vlsm::Error>,
}

impl Failed {
    /// The pair, if it is one; a key that could not be combined is counted.
    fn pass<P>(&mut self, pair: vlsm::Result<P>) -> Result<Option<P>> {
        match pair {
            Ok(pair) => Ok(Some(pair)),
            Err(error @ vlsm::Error::MergeFailed { .. }) => {
                self.count += 1;
                self.error.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if there was such a key.
    fn tell(self, store: &StoreArgs) -> Result {
        let Some(error) = self.error else { return Ok(()) };
        let (count, folder, keyspace) = (self.count, store.store.display(), &store.keyspace);
        let keys = if count == 1 { "key is" } else { "keys are" };
        Err(Failure::new(format!(
            "{count} {keys} not in the output: {error}. To list such keys: vlsm scan {folder} \
             --keyspace {keyspace} --failed"
        )))
    }
}

const EXPORT_EXAMPLES: &str = "\
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
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// File to write, which must not exist; - for stdout
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Format of the output: tsv or json [default: by the name of the file, else tsv]
    #[arg(long, value_enum, hide_possible_values = true)]
    format: Option<Format>,
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
pub fn export(args: &ExportArgs) -> Result {
    let store = match args.skip_damaged {
        true => Store::open_damaged(&args.store)?,
        false => Store::open(&args.store, Access::Read)?,
    };
    let format = args.format.unwrap_or_else(|| detect(&args.file.to_string_lossy(), b""));
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
                match found? {
                    Salvaged::Pair(key, value) => self.pair(&key, &value, &mut line, &mut out)?,
                    Salvaged::Damaged(range) => self.tell(&range),
                    _ => {}
                }
            }
        } else {
            for pair in store.range((Bound::Unbounded, Bound::Unbounded)) {
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
            n if n == RANGES_SHOWN + 1 => "… and more: only counted from here on".to_owned(),
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

/// The bytes of an argument.
pub fn argument(name: &str, text: &OsString, hex: bool) -> Result<Vec<u8>> {
    let read = if hex { unhex } else { unescape };
    let mut bytes = Vec::new();
    match read(text.as_bytes(), &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(why) => Err(Failure::usage(format!("{name}: {why}"))),
    }
}

/// The content of a file that the user named, or of stdin. Reads at most one byte more than the
/// largest value.
fn whole_file(path: &Path) -> Result<Vec<u8>> {
    let limit = vlsm_core::key::MAX_VALUE_LEN as u64 + 1;
    let mut value = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut value)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut value))
    };
    read.map_err(|error| Failure::file("cannot read", path, &error))?;
    Ok(value)
}
