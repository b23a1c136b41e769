//! `vlsm dump wal|sst|manifest FILE`: a file of a store as text, without opening the store.
//!
//! The file is read as recovery reads it: only verified data is shown, and the first damage is
//! reported with its offset. The store may be open elsewhere: nothing is locked or changed. Keys
//! and values are shown in escaped form, long values truncated unless `--full` is given. With
//! `--json` there is an object per line (`json`).

mod json;

pub use json::field;

use crate::catalog;
use crate::escape::escape;
use crate::failure::{Failure, Result};
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use vlsm_core::text;
use vlsm_core::{Bytes, Change, Cursor, Error, Kind, key};
use vlsm_disk::fs::{Fs, OpenOptions, posix::PosixFs, read_all};
use vlsm_disk::manifest::{Record, format::Item};
use vlsm_disk::record::{Header, MANIFEST_MAGIC, Records, Tail, WAL_MAGIC};
use vlsm_disk::sst::{BlockCache, SstReader};
use vlsm_disk::wal::{Entries, RecordKind};

/// Bytes of a value that are shown without `--full`.
const SHOWN: usize = 64;

const MANIFEST_EXAMPLES: &str = "\
Examples:
  vlsm dump manifest my-store
  vlsm dump manifest my-store/MANIFEST-000001";

/// The kind of file to dump.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Batches of a write-ahead log (NNNNNN.wal)
    #[command(after_help = "Example:\n  vlsm dump wal my-store/000007.wal | less")]
    Wal(Args),
    /// Properties and entries of an SST (NNNNNN.sst)
    #[command(after_help = "Example:\n  vlsm dump sst my-store/000012.sst --full | head")]
    Sst(Args),
    /// Changes of the tree, as a manifest records them
    #[command(
        after_help = MANIFEST_EXAMPLES
    )]
    Manifest(Args),
}

/// The file, and how much of it to show.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The file; for a manifest also the store's folder
    file: PathBuf,
    /// Show values in full
    #[arg(long)]
    full: bool,
    /// Show only the header or the properties
    #[arg(long, conflicts_with = "full")]
    brief: bool,
    /// Print JSON, an object per line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(command: &Command) -> Result {
    let (Command::Wal(args) | Command::Sst(args) | Command::Manifest(args)) = command;
    let mut args = args.clone();
    if args.file.is_dir() {
        let folder = args.file.display();
        if !matches!(command, Command::Manifest(_)) {
            let why =
                format!("{folder} is a folder: name one of its files (vlsm stats lists them)");
            return Err(Failure::usage(why));
        }
        args.file = catalog::current(&args.file)?;
    }
    let kind = kind(&args.file)?;
    let asked = match command {
        Command::Wal(_) => "wal",
        Command::Sst(_) => "sst",
        Command::Manifest(_) => "manifest",
    };
    if kind.is_some_and(|kind| kind != asked) {
        let (file, kind) = (args.file.display(), kind.unwrap_or_default());
        return Err(Failure::usage(format!("{file} is no {asked}: try vlsm dump {kind} {file}")));
    }
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match command {
        Command::Wal(_) => wal(&args, &mut out)?,
        Command::Sst(_) => sst(&args, &mut out)?,
        Command::Manifest(_) => manifest(&args, &mut out)?,
    }
    Ok(out.flush()?)
}

/// Guesses the kind of a file by its first bytes or its name.
fn kind(path: &Path) -> Result<Option<&'static str>> {
    let failed = |error| Error::io("cannot read", path, error);
    let file = PosixFs.open(path, OpenOptions::READ).map_err(failed)?;
    let mut magic = [0; 8];
    let len = file.read_at(&mut magic, 0).map_err(failed)?;
    let is_sst = path.extension().is_some_and(|extension| extension == "sst");
    Ok(match &magic[..len] {
        magic if magic == WAL_MAGIC => Some("wal"),
        magic if magic == MANIFEST_MAGIC => Some("manifest"),
        _ if is_sst => Some("sst"),
        _ => None,
    })
}

fn read(path: &Path) -> Result<bytes::Bytes> {
    let content = read_all(&PosixFs, path);
    Ok(content.map_err(|error| Error::io("cannot read", path, error))?.into())
}

fn header(
    content: &[u8],
    magic: &[u8; 8],
    Args { file: path, json, .. }: &Args,
    out: &mut impl Write,
) -> Result<Header> {
    let header = catalog::header(content, magic, path)?;
    if *json {
        json::line(&json::header(&header, content.len()), out)?;
        return Ok(header);
    }
    let state = if header.started { "started" } else { "prepared, holds nothing" };
    writeln!(out, "file {:06} uid {:016x} {state}", header.number, header.uid)?;
    writeln!(out, "length {}, filled up to {}", content.len(), header.filled)?;
    writeln!(out, "no sequence number below {}", header.next_seq)?;
    match header.predecessor {
        Some(seal) => writeln!(
            out,
            "follows {:06} uid {:016x}, which ends at {} (synced to {}, {:?})",
            seal.number, seal.uid, seal.len, seal.synced, seal.kind
        )?,
        None => writeln!(out, "follows no other file")?,
    }
    Ok(header)
}

fn wal(args: &Args, out: &mut impl Write) -> Result {
    let content = read(&args.file)?;
    let header = header(&content, WAL_MAGIC, args, out)?;
    if args.brief || !header.started {
        return Ok(());
    }
    let mut records = Records::new(content, header.uid);
    if args.json {
        return json::wal(&mut records, out);
    }
    for record in records.by_ref() {
        let (head, len) = (record.head, record.payload.len());
        write!(out, "@{} {:?} seq {} {len} bytes", record.offset, head.kind, head.seq)?;
        writeln!(out, ", synced to {}", head.synced)?;
        match head.kind {
            RecordKind::Batch => entries(&record.payload, head.seq.0, args.full, out)?,
            RecordKind::Fragment => writeln!(out, "  part {}", part(&record.payload))?,
            RecordKind::Commit => writeln!(out, "  of batch {}", part(&record.payload))?,
            RecordKind::Mark => {}
        }
    }
    let end = records.offset();
    match records.tail() {
        Tail::Torn => writeln!(out, "@{end} end")?,
        Tail::Damaged(later) => {
            writeln!(out, "@{end} DAMAGED: does not verify, but the record at {later} does")?;
        }
    }
    Ok(())
}

/// The number of a large batch and of its fragment, as in a fragment or a commit record.
fn part(payload: &[u8]) -> String {
    let number = |range: std::ops::Range<usize>| {
        let bytes = payload.get(range).unwrap_or_default().iter().rev();
        bytes.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    format!("{} / {}", number(0..8), number(8..12))
}

fn entries(payload: &[u8], first: u64, full: bool, out: &mut impl Write) -> Result {
    for (index, entry) in (0..).zip(Entries::new(payload)) {
        match entry {
            Ok(entry) => {
                let kind = entry.kind;
                write!(out, "  {} {} ", first.saturating_add(index), entry.tree)?;
                show(kind, entry.key, entry.value, full, out)?;
            }
            Err(why) => writeln!(out, "  MALFORMED: {}", why.0)?,
        }
    }
    Ok(())
}

/// `put KEY = VALUE`, `keep KEY = VALUE as of NUMBER` or `delete KEY`.
fn show(kind: Kind, key: &[u8], value: &[u8], full: bool, out: &mut impl Write) -> Result {
    let mut line = Vec::new();
    escape(key, &mut line);
    if kind == Kind::Delete {
        out.write_all(b"delete ")?;
    } else {
        let (seq, value) = match key::kept(value).filter(|_| kind == Kind::Kept) {
            Some((seq, value)) => (Some(seq), value),
            None => (None, value),
        };
        out.write_all(if seq.is_some() { b"keep " } else { b"put " })?;
        line.extend_from_slice(b" = ");
        let shown = if full { value.len() } else { value.len().min(SHOWN) };
        escape(&value[..shown], &mut line);
        if shown < value.len() {
            line.extend_from_slice(format!("… ({} bytes)", value.len()).as_bytes());
        }
        if let Some(seq) = seq {
            line.extend_from_slice(format!(" as of {seq}").as_bytes());
        }
    }
    line.push(b'\n');
    Ok(out.write_all(&line)?)
}

fn manifest(args: &Args, out: &mut impl Write) -> Result {
    header(&read(&args.file)?, MANIFEST_MAGIC, args, out)?;
    if args.brief {
        return Ok(());
    }
    let mut items = Vec::new();
    let end = catalog::walk(&args.file, |offset, item| {
        items.push((offset, item));
        Ok(())
    });
    let mut last = 0;
    if args.json {
        for (offset, item) in items {
            let mut text = Vec::new();
            show_item(&item, &mut text)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let change: Vec<&str> = text.lines().map(str::trim).collect();
            json::line(&json!({ "offset": offset, "change": change }), out)?;
        }
        return json::line(&json!({ "end": end? }), out);
    }
    for (offset, item) in items {
        if offset != last {
            writeln!(out, "@{offset}")?;
            last = offset;
        }
        show_item(&item, out)?;
    }
    Ok(writeln!(out, "@{} end", end?)?)
}

fn show_item(item: &Item, out: &mut impl Write) -> Result {
    let key = text::print_key;
    match item {
        Item::Store(uid) => writeln!(out, "  store uid {uid:016x}")?,
        Item::Record(Record::CreateKeyspace(keyspace)) => {
            writeln!(out, "  keyspace {} {:?} {}", keyspace.id, keyspace.name, keyspace.options)?;
            for region in &keyspace.regions {
                writeln!(out, "    {} from [{}]", region.tree, key(&region.lo))?;
            }
        }
        Item::Record(Record::DropKeyspace(id)) => writeln!(out, "  keyspace {id} is dropped")?,
        Item::Record(Record::AlterKeyspace { id, name, options }) => {
            writeln!(out, "  keyspace {id} is {name:?} {options} from here on")?;
        }
        Item::Record(Record::Numbers(n)) => {
            write!(out, "  next file {}, keyspace {}, ", n.next_file, n.next_keyspace)?;
            write!(out, "tree {}, run {}; ", n.next_tree, n.next_run)?;
            writeln!(out, "smallest WAL {}, last sequence number {}", n.min_wal, n.last_seq)?;
        }
        Item::Record(Record::Wals(wals)) => {
            let wals: Vec<_> = wals.iter().map(|number| format!("{number:06}")).collect();
            writeln!(
                out,
                "  WALs {}",
                if wals.is_empty() { "none".into() } else { wals.join(" ") }
            )?;
        }
        Item::Record(Record::Clock(now)) => writeln!(out, "  values expire by {} µs", now.0)?,
        Item::Record(Record::Edit(tree, edit)) => {
            writeln!(out, "  edit of {tree}")?;
            if let Some(seq) = edit.flushed_seq {
                writeln!(out, "    flushed {seq}")?;
            }
            for (level, cursor) in &edit.cursors {
                let cursor = cursor.as_ref().map(|cursor| key(cursor));
                writeln!(out, "    cursor L{level} {}", cursor.unwrap_or_default())?;
            }
            for change in &edit.changes {
                match change {
                    Change::Add { place, table, .. } => {
                        writeln!(out, "    + {place} {}", text::print_table(table))?;
                    }
                    Change::Remove { place, file, range } => {
                        writeln!(out, "    - {place} {file}:{}", text::print_range(range))?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn sst(args: &Args, out: &mut impl Write) -> Result {
    let path = &args.file;
    let file = PosixFs.open(path, OpenOptions::READ);
    let file = file.map_err(|error| Error::io("cannot open", path, error))?;
    let mut reader = SstReader::open_unknown(file, path)?;
    if !args.brief {
        reader = reader.with_values(|_, path| PosixFs.open(path, OpenOptions::READ))?;
    }
    let reader = std::sync::Arc::new(reader);
    match args.json {
        true => json::line(&json::properties(&reader), out)?,
        false => properties(&reader, out)?,
    }
    if args.brief {
        return Ok(());
    }
    let cache = std::sync::Arc::new(BlockCache::new(0));
    let mut cursor = reader.cursor(&cache, false);
    cursor.seek_first()?;
    while cursor.valid() {
        let trailer = cursor.trailer();
        let kind = trailer.kind().unwrap_or(Kind::Put);
        let (seq, key, value) = (trailer.seq(), cursor.key(), cursor.value());
        if args.json {
            json::line(&json::entry(seq.0, kind, key, value), out)?;
        } else {
            write!(out, "{seq} ")?;
            show(kind, key, value, args.full, out)?;
        }
        cursor.next()?;
    }
    Ok(())
}

fn properties(reader: &SstReader, out: &mut impl Write) -> Result {
    let summary = reader.summary();
    let p = &summary.properties;
    writeln!(out, "uid {:016x}, checksum {:016x}", summary.uid.0, summary.checksum)?;
    writeln!(out, "length {}, {} data blocks", summary.bytes.0, reader.block_count())?;
    writeln!(out, "entries {}, {} of them tombstones", p.entries, p.tombstones)?;
    writeln!(out, "keys {}, values {}", Bytes(p.key_bytes), Bytes(p.value_bytes))?;
    if !p.wals.is_empty() {
        let wals: Vec<_> = p.wals.iter().map(ToString::to_string).collect();
        writeln!(out, "values in WAL {}: {}", wals.join(", "), Bytes(p.logged_bytes))?;
    }
    writeln!(out, "sequence numbers {} to {}", p.seq_min, p.seq_max)?;
    for (name, key) in [("smallest", &p.smallest), ("largest ", &p.largest)] {
        let mut line = Vec::new();
        escape(key, &mut line);
        write!(out, "{name} ")?;
        out.write_all(&line)?;
        writeln!(out)?;
    }
    Ok(())
}
