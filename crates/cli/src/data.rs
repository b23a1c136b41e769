//! `put get merge delete scan`: single records and ranges of them.
//!
//! Keys and values on the command line are read as escapes (`escape.rs`) or, with `--hex`, as
//! hexadecimal, and printed in the same form. Data goes to stdout, everything else to stderr.

use crate::escape::{unescape, unhex};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::output::OutputArgs;
use crate::paint::{self, Paint};
use crate::record::{Format, Layout};
use crate::store::{Access, CreateArgs, Range, Store, StoreArgs};
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PUT_EXAMPLES: &str = "\
Examples:
  vlsm put my-store apple green
  vlsm put my-store 'tab\\tin\\x00key' 'two\\nlines'
  vlsm put my-store --hex 00ff01 c0ffee
  vlsm put my-store photo --file photo.jpg      the value is the file, any bytes
  date | vlsm put my-store now --file -
  vlsm put my-store session 4711 --ttl 30m      it is gone in half an hour

The store is created if it does not exist. The write is on the device when the command returns.";

/// Options of `put`.
#[derive(Debug, clap::Args)]
#[command(after_help = PUT_EXAMPLES)]
pub struct PutArgs {
    #[command(flatten)]
    pub store: StoreArgs,
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
    /// The key expires after this time, as in 500ms, 90s, 30m, 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = time_to_live)]
    ttl: Option<Duration>,
    /// Key and value are hexadecimal
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A time to live: a number and its unit, at least a microsecond.
fn time_to_live(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let micros = match unit.trim() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60 * 1_000_000,
        "h" => 3_600 * 1_000_000,
        "d" => 86_400 * 1_000_000,
        _ => return Err("write a number and its unit: us, ms, s, m, h or d, as in 30m".to_owned()),
    };
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(micros));
    match number.filter(|micros| *micros <= i64::MAX as u64) {
        None => Err("the time must be a number of at most 290,000 years".to_owned()),
        Some(0) => Err("the key would expire at once: delete it instead".to_owned()),
        Some(micros) => Ok(Duration::from_micros(micros)),
    }
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
    match args.ttl {
        Some(ttl) => store.batch_put_with_ttl(&key, &value, ttl),
        None => store.batch_put(&key, &value),
    }
    store.sync()?;
    store.close()?;
    args.output.tell(None, json!({ "writes": 1 }))
}

const GET_EXAMPLES: &str = "\
Examples:
  vlsm get my-store apple
  vlsm get my-store --hex 00ff01                value in hexadecimal too
  vlsm get my-store photo --raw > photo.jpg     exact bytes, no line feed
  vlsm get my-store apple --json | jq -r .value

The exit code is 1 if the key does not exist.";

/// Options of `get`.
#[derive(Debug, clap::Args)]
#[command(after_help = GET_EXAMPLES)]
pub struct GetArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Key, with escapes
    key: OsString,
    /// Key and value are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print the value's bytes unchanged, without a line feed
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    output: OutputArgs,
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
    } else if args.output.json {
        let mut line = Vec::new();
        Layout { format: Format::Json, hex: args.hex }.write(&key, &value, &mut line);
        out.write_all(&line)?;
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
    pub store: StoreArgs,
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
    #[command(flatten)]
    output: OutputArgs,
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
    store.close()?;
    args.output.tell(None, json!({ "writes": 1 }))
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
    pub store: StoreArgs,
    /// Keys, with escapes
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Remove all keys from the first key up to the second, exclusive
    #[arg(long)]
    range: bool,
    /// Keys are hexadecimal
    #[arg(long)]
    hex: bool,
    #[command(flatten)]
    output: OutputArgs,
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
    let writes = if args.range { 1 } else { keys.len() };
    store.sync()?;
    store.close()?;
    args.output.tell(None, json!({ "writes": writes }))
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
    pub store: StoreArgs,
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
    /// Print JSON, an object per line: the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
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
    let format = if args.json { Format::Json } else { args.format };
    let layout = Layout { format, hex: args.hex };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    let coloured = format == Format::Tsv && paint::on_stdout();
    let (mut count, mut failed) = (0, Failed::default());
    while count < args.limit.unwrap_or(u64::MAX) {
        interrupt::check()?;
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
        if coloured {
            paint_key(&mut line);
        }
        out.write_all(&line)?;
    }
    match (args.count, format) {
        (true, Format::Json) => writeln!(out, "{}", json!({ "count": count }))?,
        (true, _) => writeln!(out, "{count}")?,
        _ => {}
    }
    out.flush()?;
    drop(pairs);
    store.close()?;
    if args.failed { Ok(()) } else { failed.tell(&args.store) }
}

/// Colours the key of a line of TSV, which a tab or the line's end follows.
fn paint_key(line: &mut Vec<u8>) {
    let end = line.iter().position(|byte| matches!(byte, b'\t' | b'\n')).unwrap_or(line.len());
    let rest = line.split_off(end);
    let key = String::from_utf8_lossy(line).into_owned();
    *line = Paint::Key.over(&key).into_bytes();
    line.extend_from_slice(&rest);
}

/// Keys whose operands the merge operator could not combine.
#[derive(Default)]
pub struct Failed {
    count: u64,
    error: Option<vlsm::Error>,
}

impl Failed {
    /// The pair, if it is one; a key that could not be combined is counted.
    pub fn pass<P>(&mut self, pair: vlsm::Result<P>) -> Result<Option<P>> {
        match pair {
            Ok(pair) => Ok(Some(pair)),
            Err(
                error
                @ (vlsm::Error::MergeFailed { .. } | vlsm::Error::UnknownMergeOperator { .. }),
            ) => {
                self.count += 1;
                self.error.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if there was such a key.
    pub fn tell(self, store: &StoreArgs) -> Result {
        let Some(error) = self.error else { return Ok(()) };
        let (count, folder, keyspace) = (self.count, store.store.display(), &store.keyspace);
        let keys = if count == 1 { "key is" } else { "keys are" };
        Err(Failure::new(format!(
            "{count} {keys} not in the output: {error}. To list such keys: vlsm scan {folder} \
             --keyspace {keyspace} --failed"
        )))
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
