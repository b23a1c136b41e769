//! `vlsm import`: records from a file or stdin into a keyspace, at full speed.
//!
//! 1. Read a line; parse it into key and value ([`Layout`]); add it to the batch.
//! 2. A batch of [`BATCH_RECORDS`] records or [`BATCH_BYTES`] is written `Buffered`: it survives
//!    a crash of this process, so after Ctrl-C or a kill the store holds a prefix of the file.
//! 3. At the end one sync makes all batches survive power loss.
//!
//! A bad line is counted and skipped; the first [`SHOWN`] are described, with line numbers and
//! without their content. With `--strict` the first one ends the import, after the records before
//! it are written. `vlsm sst` reads its input in the same way, into a file (`ingest.rs`).
//!
//! With `--from` the records are those of another store, which another program writes (`foreign`).

pub mod foreign;
mod target;

use crate::failure::{Failure, Result, say};
use crate::interrupt;
use crate::lines::{LINE_MAX, Lines, Next};
use crate::output::OutputArgs;
use crate::progress::{Progress, grouped};
use crate::record::{Format, Layout, Line, detect};
use crate::store::{CreateArgs, Store, StoreArgs};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use target::Target;
use vlsm_core::Bytes;

/// Records in a batch, at most.
const BATCH_RECORDS: usize = 1000;
/// Bytes in a batch before it is written.
const BATCH_BYTES: usize = 1 << 20;
/// Bad lines described one by one.
const SHOWN: u64 = 5;

const EXAMPLES: &str = "\
Formats:
  TSV         key<TAB>value, one record per line; \\t \\n \\r \\\\ and \\xNN stand for other bytes.
              The first tab ends the key: further tabs belong to the value.
              With --raw there are no escapes: a backslash is a backslash, as in most data that
              vlsm did not write. Then a key cannot contain a tab, and neither key nor value a line
              feed; a carriage return at the end of a line belongs to the value.
  JSON lines  {\"key\": \"…\", \"value\": \"…\"}; for bytes that are not text: key_hex, value_hex,
              key_base64, value_base64. \"keyspace\": \"…\" puts a record into another keyspace
              than that of --keyspace; a line with nothing else names one without records.

Examples:
  vlsm import my-store packages.tsv
  gunzip -c packages.jsonl.gz | vlsm import my-store
  vlsm import my-store dump.txt --format tsv --hex
  find / -printf '%p\\t%s\\n' | vlsm import my-store --raw
  vlsm import my-store data.tsv --strict        stop at the first bad line
  vlsm import --from rocksdb old-store my-store
  vlsm import --from redb old.redb my-store --only users --only orders

With --from the records come from another store, which is only read: rocksdb, fjall, redb or lmdb.
Each of its column families, keyspaces, tables or databases goes into the keyspace of its name,
which is created. This needs the program `peers`, which is built by peers/build in the source of
vlsm. docs/moving.md says what comes over and what is refused.

Bad lines are skipped and reported with their numbers; the exit code is then 1. Imported records
stay, also after Ctrl-C. To import a file again is harmless: later records replace earlier ones.";

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    create: CreateArgs,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    from: foreign::FromArgs,
    /// Stop at the first bad line
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// The input file and its format.
#[derive(Debug, clap::Args)]
pub struct InputArgs {
    /// File to read; - for stdin
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Format of the file: tsv or json [default: by its name or first line]
    #[arg(long, value_enum, hide_possible_values = true)]
    format: Option<Format>,
    /// Keys and values of TSV are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Read lines of TSV without escapes: a backslash is a backslash
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
}

/// A compressed file: its first bytes, its name, and the program that prints its content.
#[derive(Clone, Copy)]
struct Compressed {
    magic: &'static [u8],
    name: &'static str,
    program: &'static str,
}

/// The compressed formats that are recognized.
const COMPRESSED: [Compressed; 6] = [
    Compressed { magic: b"\x1f\x8b", name: "gzip", program: "gunzip -c" },
    Compressed { magic: b"\x28\xb5\x2f\xfd", name: "zstd", program: "zstd -dc" },
    Compressed { magic: b"\xfd7zXZ\0", name: "xz", program: "xz -dc" },
    Compressed { magic: b"BZh", name: "bzip2", program: "bzip2 -dc" },
    Compressed { magic: b"\x04\x22\x4d\x18", name: "lz4", program: "lz4 -dc" },
    Compressed { magic: b"PK\x03\x04", name: "zip", program: "unzip -p" },
];

impl Compressed {
    /// The format of a file that begins with these bytes.
    fn of(start: &[u8]) -> Option<Self> {
        let found = COMPRESSED.into_iter().find(|kind| start.starts_with(kind.magic))?;
        // Text may begin with these three letters, too. In bzip2 a digit and a fixed number follow
        // them.
        let is_text = found.name == "bzip2"
            && !start.get(4..).is_some_and(|rest| rest.starts_with(b"1AY&SY"));
        (!is_text).then_some(found)
    }

    fn refuse(self, file: &Path) -> Failure {
        let Self { name, program, .. } = self;
        let from =
            if file == Path::new("-") { String::new() } else { format!(" {}", file.display()) };
        Failure::new(format!(
            "{} holds no records: it is {name}: run {program}{from} | vlsm import ... -",
            file.display()
        ))
    }
}

/// The destination of records.
pub trait Sink {
    /// Chooses the keyspace of the next record: one that its line names, or the command's. Returns
    /// the problem if there is none.
    fn choose(&mut self, keyspace: Option<&str>) -> Result<Option<String>>;
    /// Adds a record to the batch. Returns the problem if it was refused.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<String>>;
    /// Writes the batch.
    fn commit(&mut self) -> Result;
    /// Records and bytes in the batch.
    fn pending(&self) -> (usize, usize);
}

/// Runs the command.
pub fn run(args: &Args) -> Result {
    let strict = args.strict.then_some("stopped there because of --strict");
    if let Some(source) = args.from.start(&args.store.keyspace)? {
        return foreign::run(args, source, strict);
    }
    let import = Import::open(&args.input, strict)?;
    let store = Store::open_to_add(&args.store, args.create)?;
    let target = Target::new(store, &args.store.keyspace, args.create.create);
    import.into_store(target, args.output, |outcome| outcome)
}

/// Opens the file and returns its length, if it has one.
fn open(path: &Path) -> Result<(Box<dyn io::Read>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let failed = |e: io::Error| Failure::file("cannot read", path, &e);
    let file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if facts.is_dir() {
        let what = format!("cannot read {}: it is a folder, name a file", path.display());
        return Err(Failure::new(what));
    }
    let len = facts.is_file().then_some(facts.len());
    Ok((Box::new(file), len))
}

/// An import from a file into a sink.
pub struct Import<'a, R> {
    lines: Lines<R>,
    layout: Layout,
    file: &'a Path,
    /// The message when the first bad line ends the import; none if bad lines are skipped.
    strict: Option<&'static str>,
    /// The message when a line that is not a record ends the import, because a program wrote the
    /// lines. A record that the store cannot hold is only a bad line.
    garbage: Option<&'static str>,
    /// Records in written batches.
    written: u64,
    /// Bad lines.
    bad: u64,
    progress: Progress,
}

impl<'a> Import<'a, BufReader<Box<dyn io::Read>>> {
    /// Opens a file, and detects its format.
    pub fn open(args: &'a InputArgs, strict: Option<&'static str>) -> Result<Self> {
        let file = &args.file;
        let (input, total) = open(file)?;
        let mut input = BufReader::with_capacity(1 << 20, input);
        let start = input.fill_buf().map_err(|e| Failure::file("cannot read", file, &e))?;
        if let Some(found) = Compressed::of(start) {
            return Err(found.refuse(file));
        }
        let format = args.format.unwrap_or_else(|| detect(&file.to_string_lossy(), start));
        let format = match (args.raw, format) {
            (false, format) => format,
            (true, _) if args.format == Some(Format::Json) => {
                let why = "--raw is for lines of key<TAB>value: leave out --format json";
                return Err(Failure::usage(why));
            }
            (true, _) => Format::Raw,
        };
        let layout = Layout { format, hex: args.hex };
        let (lines, progress) = (Lines::new(input, LINE_MAX), Progress::new(total));
        let (garbage, written, bad) = (None, 0, 0);
        Ok(Self { lines, layout, file, strict, garbage, written, bad, progress })
    }
}

impl<R: BufRead> Import<'_, R> {
    /// Removes the progress bar and prints the summary. If JSON is requested, nothing is printed,
    /// and the caller prints the returned summary.
    pub fn finish(&self, verb: &str, output: OutputArgs) -> Value {
        let bytes = self.lines.bytes();
        match output.json {
            true => self.progress.clear(),
            false => self.progress.finish(verb, bytes),
        }
        json!({
            "records": self.progress.records(),
            "bytes": bytes,
            "bad": self.bad,
            "seconds": self.progress.seconds(),
        })
    }

    /// Reads to the end into a store, and prints the summary. `explain` may replace the failure
    /// that ended the reading.
    fn into_store(
        mut self,
        mut target: Target,
        output: OutputArgs,
        explain: impl FnOnce(Result) -> Result,
    ) -> Result {
        let outcome = self.run(&mut target);
        if outcome.is_err() {
            self.progress.clear();
        }
        let outcome = explain(outcome);
        if outcome.is_err() && self.written > 0 {
            let records = grouped(self.written);
            say(format_args!("imported {records} records before that: {}", target.told()));
        }
        let synced = target.sync();
        let records = target.close()?;
        outcome.and(synced)?;
        let mut json = self.finish("imported", output);
        if !output.json {
            target::list(&records);
        }
        json["keyspaces"] = target::json(&records);
        output.tell(None, json)?;
        self.verdict()
    }

    /// Reads to the end.
    pub fn run(&mut self, sink: &mut impl Sink) -> Result {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        loop {
            let next = self.lines.read();
            let next = next.map_err(|e| Failure::file("cannot read", self.file, &e));
            let line = match interrupt::check().and(next) {
                Err(failure) => {
                    self.commit(sink)?;
                    return Err(failure);
                }
                Ok(Next::End) => return self.commit(sink),
                Ok(Next::TooLong) => {
                    let why = format!("longer than {}", Bytes(LINE_MAX as u64));
                    self.bad(sink, &why, self.strict)?;
                    continue;
                }
                Ok(Next::Line) if self.lines.line().trim_ascii().is_empty() && !self.has_tab() => {
                    continue;
                }
                Ok(Next::Line) => self.layout.parse(self.lines.line(), &mut key, &mut value),
            };
            let fault = match line {
                Err(why) => {
                    self.bad(sink, &why, self.strict.or(self.garbage))?;
                    continue;
                }
                Ok(Line::Keyspace(name)) => match sink.choose(Some(&name))? {
                    None => continue,
                    problem => problem,
                },
                Ok(Line::Record(name)) => put(sink, name.as_deref(), &key, &value)?,
            };
            if let Some(why) = fault {
                self.bad(sink, &why, self.strict)?;
                continue;
            }
            let (records, bytes) = sink.pending();
            self.progress.record(self.lines.bytes());
            if records >= BATCH_RECORDS || bytes >= BATCH_BYTES {
                self.commit(sink)?;
            }
        }
    }

    fn commit(&mut self, sink: &mut impl Sink) -> Result {
        let (records, _) = sink.pending();
        sink.commit()?;
        self.written += records as u64;
        Ok(())
    }

    /// Whether a line of white space contains a tab: then it is a record of empty key and value.
    fn has_tab(&self) -> bool {
        self.layout.format != Format::Json && self.lines.line().contains(&b'\t')
    }

    /// Counts a bad line and describes it, or ends the import with the message in `stop`.
    fn bad(&mut self, sink: &mut impl Sink, why: &str, stop: Option<&str>) -> Result {
        self.bad += 1;
        let line = format!("{}:{}: {why}", self.file.display(), self.lines.number());
        if let Some(stopped) = stop {
            self.commit(sink)?;
            return Err(Failure::new(format!("{line}; {stopped}")));
        }
        match self.bad {
            ..=SHOWN => self.progress.say(&line),
            n if n == SHOWN + 1 => self.progress.say("… and more: counted, but not listed"),
            _ => {}
        }
        Ok(())
    }

    fn verdict(&self) -> Result {
        match self.bad {
            0 => Ok(()),
            bad => Err(Failure::new(format!(
                "{} of {} lines were bad and skipped; all others are imported",
                grouped(bad),
                grouped(self.lines.number()),
            ))),
        }
    }
}

/// Adds a record to the batch. Returns the problem if it was refused.
fn put(
    sink: &mut impl Sink,
    keyspace: Option<&str>,
    key: &[u8],
    value: &[u8],
) -> Result<Option<String>> {
    if let Err(error) = vlsm_core::key::check_lengths(key.len(), value.len()) {
        return Ok(Some(error.to_string()));
    }
    match sink.choose(keyspace)? {
        None => sink.put(key, value),
        problem => Ok(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Memory {
        batch: Vec<(Vec<u8>, Vec<u8>)>,
        written: Vec<usize>,
    }

    impl Sink for Memory {
        fn choose(&mut self, keyspace: Option<&str>) -> Result<Option<String>> {
            Ok(keyspace.map(|name| format!("no keyspace {name}")))
        }
        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<String>> {
            self.batch.push((key.to_vec(), value.to_vec()));
            Ok(None)
        }
        fn commit(&mut self) -> Result {
            self.written.push(self.batch.len());
            self.batch.clear();
            Ok(())
        }
        fn pending(&self) -> (usize, usize) {
            (self.batch.len(), self.batch.iter().map(|(k, v)| k.len() + v.len()).sum())
        }
    }

    fn import(text: &[u8], strict: bool) -> (Vec<usize>, u64, Result) {
        let mut import = Import {
            lines: Lines::new(text, LINE_MAX),
            layout: Layout { format: Format::Tsv, hex: false },
            file: Path::new("x.tsv"),
            strict: strict.then_some("stopped"),
            garbage: None,
            written: 0,
            bad: 0,
            progress: Progress::new(None),
        };
        let mut sink = Memory::default();
        let outcome = import.run(&mut sink);
        (sink.written, import.bad, outcome)
    }

    #[test]
    fn batches_by_records_and_bytes() {
        let many: Vec<u8> = (0..2500).flat_map(|i| format!("k{i}\tv\n").into_bytes()).collect();
        assert_eq!(import(&many, false).0, [1000, 1000, 500]);
        let wide = format!("k\t{}\n", "v".repeat(700_000)).repeat(3);
        assert_eq!(import(wide.as_bytes(), false).0, [2, 1]);
    }

    #[test]
    fn skips_bad_lines_or_stops_at_the_first() {
        let text = b"a\tb\nbad\n\nc\td\n\\q\te\n\t\n";
        let (written, bad, outcome) = import(text, false);
        assert_eq!((written, bad, outcome.is_ok()), (vec![3], 2, true));
        let (written, _, outcome) = import(text, true);
        assert_eq!(written, [1]);
        let Err(Failure::Failed(what)) = outcome else { panic!("the import stops") };
        assert!(what.starts_with("x.tsv:2: no tab"), "{what}");
    }

    #[test]
    fn refuses_keys_over_the_limit() {
        let text = format!("{}\tv\nk\tv\n", "k".repeat(vlsm_core::key::MAX_KEY_LEN + 1));
        let (written, bad, _) = import(text.as_bytes(), false);
        assert_eq!((written, bad), (vec![1], 1));
    }
}
