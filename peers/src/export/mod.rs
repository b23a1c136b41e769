//! `peers export`: everything of another store as lines of JSON on standard output, for
//! `vlsm import --from`.
//!
//! 1. Open the store so that it is only read, each in its own way (the files of this folder).
//! 2. Refuse what would come over wrongly before the first line is written: several values of a
//!    key, keys whose bytes sort differently than the keys, types that are not known.
//! 3. For each column family, keyspace, table or database write a line with its name alone, then a
//!    line for each pair in the store's order ([`Lines`]).
//!
//! Lines: `{"keyspace": "…", "key": "…", "value": "…"}`. Bytes that are not text, or text with
//! control characters, are in base64 as `key_base64` and `value_base64`. `vlsm import` reads the
//! same from a file, so the export of one machine can be imported on another.
//!
//! Ctrl-C and a closed pipe end the export between two pairs, so that copies are removed.

mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The outcome of an export; the error is for people.
pub type Outcome<T = ()> = Result<T, String>;

const KINDS: &str = "rocksdb, fjall, redb, lmdb";

/// Options of the command.
#[derive(clap::Args)]
pub struct Args {
    /// The kind of store: rocksdb, fjall, redb or lmdb
    kind: String,
    /// Folder or file of the store
    path: PathBuf,
    /// Export only this column family, keyspace, table or database; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// Writes everything of a store to standard output.
///
/// # Errors
/// The kind is not known or not in this build; the store cannot be read, or not without harm; the
/// output is closed.
pub fn run(args: &Args) -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| STOP.store(true, Relaxed))
        .map_err(|error| format!("interrupts cannot be noticed: {error}"))?;
    let mut lines = Lines::new(std::io::stdout().lock(), &STOP);
    export(&args.kind, &args.path, &args.only, &mut lines)?;
    lines.flush()
}

fn export(kind: &str, path: &Path, only: &[String], lines: &mut Lines<impl Write>) -> Outcome {
    if !exists(path) {
        return Err(format!("{}: there is no such file or folder", path.display()));
    }
    let done = match kind {
        #[cfg(feature = "rocksdb")]
        "rocksdb" => rocksdb::export(path, only, lines),
        #[cfg(not(feature = "rocksdb"))]
        "rocksdb" => Err("this build is without the feature `rocksdb`: run peers/build".into()),
        "fjall" => fjall::export(path, only, lines),
        "redb" => redb::export(path, only, lines),
        "lmdb" => lmdb::export(path, only, lines),
        _ => return Err(format!("no store of kind {kind:?} can be exported; there are: {KINDS}")),
    };
    done.map_err(|why| format!("{}: {why}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "it is a store that is not ours")]
fn exists(path: &Path) -> bool {
    std::fs::exists(path).is_ok_and(|found| found)
}

/// Those of the names that are asked for, all if none is.
///
/// # Errors
/// One that is asked for does not exist; the error lists those that do.
fn chosen(names: Vec<String>, only: &[String], what: &str) -> Outcome<Vec<String>> {
    if let Some(missing) = only.iter().find(|name| !names.contains(name)) {
        let known = names.join(", ");
        return Err(format!("there is no {what} {missing:?}; there are: {known}"));
    }
    let wanted = |name: &String| only.is_empty() || only.contains(name);
    Ok(names.into_iter().filter(wanted).collect())
}

/// The lines of an export.
struct Lines<'a, W: Write> {
    out: BufWriter<W>,
    stop: &'a AtomicBool,
    /// `{"keyspace": "…"`, of the keyspace that is written.
    start: Vec<u8>,
    line: Vec<u8>,
}

impl<'a, W: Write> Lines<'a, W> {
    fn new(out: W, stop: &'a AtomicBool) -> Self {
        let out = BufWriter::with_capacity(1 << 20, out);
        Self { out, stop, start: Vec::new(), line: Vec::new() }
    }

    /// Begins a keyspace: its name alone, so that an empty one comes over, too.
    fn keyspace(&mut self, name: &str) -> Outcome {
        self.start.clear();
        self.start.extend_from_slice(b"{\"keyspace\": ");
        push_string(name, &mut self.start);
        self.line.clear();
        self.line.extend_from_slice(&self.start);
        self.write()
    }

    /// Writes a pair of the keyspace.
    fn pair(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        self.line.clear();
        self.line.extend_from_slice(&self.start);
        push_field("key", key, &mut self.line);
        push_field("value", value, &mut self.line);
        self.write()
    }

    fn write(&mut self) -> Outcome {
        if self.stop.load(Relaxed) {
            return Err("interrupted".into());
        }
        self.line.extend_from_slice(b"}\n");
        self.out.write_all(&self.line).map_err(|error| output(&error))
    }

    fn flush(&mut self) -> Outcome {
        self.out.flush().map_err(|error| output(&error))
    }
}

fn output(error: &std::io::Error) -> String {
    format!("the output cannot be written: {error}")
}

fn push_string(text: &str, line: &mut Vec<u8>) {
    serde_json::to_writer(line, text).expect("a string is written into memory");
}

fn push_field(name: &str, bytes: &[u8], line: &mut Vec<u8>) {
    line.extend_from_slice(b", \"");
    line.extend_from_slice(name.as_bytes());
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(|byte| *byte >= b' ') => {
            line.extend_from_slice(b"\": ");
            push_string(text, line);
        }
        _ => {
            line.extend_from_slice(b"_base64\": \"");
            push_base64(bytes, line);
            line.push(b'"');
        }
    }
}

/// Appends bytes in base64 (RFC 4648 §4).
fn push_base64(bytes: &[u8], line: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        line.extend((0..4).map(|i| match i <= chunk.len() {
            true => DIGITS[(bits >> (18 - 6 * i) & 63) as usize],
            false => b'=',
        }));
    }
}
