//! A tree as text and back, for tests, test data and the `levels` command.
//!
//! One line per run or level, one word per table:
//!
//! ```text
//! L0 r7 flush seq 50-60: 12:8M[a,k]{400}
//! L1: 3:8M[a,f] 4:4M[g,k)/8M[g,p] 5:8M[q,z)~2
//! cursor L1 g
//! flushed 60
//! ```
//!
//! A table is `file:bytes[lo,hi]` (`)` for an exclusive upper end); a slice that this does not
//! describe fully adds `/bytes[smallest,largest]` of its file. `~n` at the end means that the file
//! has n fragments of range tombstones; only then can the file's own upper end be exclusive.
//! `@7,8` after that means that values of the file are in the WALs 7 and 8.
//! Sizes take the suffixes K, M, G. Bytes of keys that are not plain letters are written as `\xNN`.
//! Empty lines and lines from `#` on are skipped. Runs are listed oldest first.
//!
//! `{400}` at the very end of a table means that its file has a sketch of 400 keys. It is read as
//! the sketch of the keys numbered 1 to 400. `{1-400,601-650}` gives the numbers, so that sketches
//! can overlap; when printed, only the number of keys is left.
//!
//! [`print()`] shows keys, so its output never goes to the LOG; [`summary`] shows none. The text
//! holds only what shapes use, without uids, checksums and entry counts. So text → tree → text is
//! the identity (except for the numbers of keys in sketches), tree → text → tree is not.

use crate::error::{Error, Result};
use crate::ids::{FileNumber, RunId};
use crate::key::Seq;
use crate::range::KeyRange;
use crate::sketch::Sketch;
use crate::table::{FileMeta, Table};
use crate::tables::Tables;
use crate::units::{Bytes, GIB};
pub use crate::units::{parse_bytes, print_bytes};
use crate::version::{LEVELS_MAX, Run, RunOrigin, Version};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

type Parsed<T> = std::result::Result<T, String>;

/// Reads a tree. The tree is not checked, because tests need broken ones, too.
///
/// # Errors
/// [`Error::InvalidArgument`] with the line's number and the expected text.
pub fn parse(text: &str) -> Result<Version> {
    let mut version = Version::default();
    let mut files = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            parse_line(line, &mut version, &mut files)
                .map_err(|why| Error::InvalidArgument(format!("line {}: {why}", index + 1)))?;
        }
    }
    Ok(version)
}

/// The largest file, so that the sum of all tables of a text cannot overflow.
const FILE_MAX: Bytes = Bytes(1024 * GIB);

type Files = BTreeMap<u64, Arc<FileMeta>>;

fn parse_line(line: &str, version: &mut Version, files: &mut Files) -> Parsed<()> {
    if let Some(rest) = line.strip_prefix("cursor ") {
        return parse_cursor(rest, version);
    }
    if let Some(rest) = line.strip_prefix("flushed ") {
        version.flushed_seq = Seq(parse_number(rest)?);
        return Ok(());
    }
    let (head, tables) = line
        .split_once(':')
        .ok_or_else(|| format!("{line:?} has no colon between a level and its tables"))?;
    let words: Vec<_> = head.split_whitespace().collect();
    match words.as_slice() {
        ["L0", id, origin, rest @ ..] => {
            version.l0.push(parse_run(id, origin, rest, tables, files)?);
        }
        [level] => {
            let index = level_index(level)?;
            if version.levels.len() <= index {
                version.levels.resize(index + 1, Tables::default());
            }
            let tables = parse_tables(tables, (Seq::ZERO, Seq::ZERO), files)?;
            let old = std::mem::take(&mut version.levels[index]);
            version.levels[index] = Tables::new(old.iter().cloned().chain(tables).collect());
        }
        _ => return Err(format!("{head:?} is neither \"L0 r<id> flush|merge\" nor \"L<level>\"")),
    }
    Ok(())
}

fn parse_run(
    id: &str,
    origin: &str,
    rest: &[&str],
    tables: &str,
    files: &mut Files,
) -> Parsed<Run> {
    let number =
        id.strip_prefix('r').ok_or_else(|| format!("{id:?} is not a run: write it as r7"))?;
    let origin = match origin {
        "flush" => RunOrigin::Flush,
        "merge" => RunOrigin::Merge,
        other => return Err(format!("a run comes from \"flush\" or \"merge\", not {other:?}")),
    };
    let id = RunId(parse_number(number)?);
    let (seq_min, seq_max) = match rest {
        // Without sequence numbers, the run's id determines its age.
        [] => (Seq(id.0 * 10), Seq(id.0 * 10 + 9)),
        ["seq", range] => {
            let (min, max) = range
                .split_once('-')
                .ok_or_else(|| format!("{range:?} is not a range: write it as 50-60"))?;
            (Seq(parse_number(min)?), Seq(parse_number(max)?))
        }
        _ => return Err(format!("{:?} is not \"seq <min>-<max>\"", rest.join(" "))),
    };
    let tables = Tables::new(parse_tables(tables, (seq_min, seq_max), files)?);
    Ok(Run { id, origin, tables, seq_min, seq_max })
}

fn parse_cursor(rest: &str, version: &mut Version) -> Parsed<()> {
    let (level, key) = rest
        .split_once(' ')
        .ok_or_else(|| format!("{rest:?} is not a cursor: write it as \"cursor L1 key\""))?;
    let index = level_index(level)?;
    if version.cursors.len() <= index {
        version.cursors.resize(index + 1, None);
    }
    version.cursors[index] = Some(unescape(key.trim())?.into());
    Ok(())
}

fn level_index(word: &str) -> Parsed<usize> {
    match word.strip_prefix('L').and_then(|level| level.parse::<usize>().ok()) {
        Some(level) if (1..=LEVELS_MAX).contains(&level) => Ok(level - 1),
        _ => Err(format!("{word:?} is not a level from L1 to L{LEVELS_MAX}")),
    }
}

fn parse_number(word: &str) -> Parsed<u64> {
    word.trim().parse().map_err(|_| format!("{word:?} is not a number"))
}

fn parse_tables(words: &str, seqs: (Seq, Seq), files: &mut Files) -> Parsed<Vec<Arc<Table>>> {
    words.split_whitespace().map(|word| parse_table(word, seqs, files)).collect()
}

fn parse_table(word: &str, seqs: (Seq, Seq), files: &mut Files) -> Parsed<Arc<Table>> {
    let bad = || format!("{word:?} is not a table: write it as 12:8M[a,k]");
    let (rest, sketch) = match word.strip_suffix('}').and_then(|rest| rest.rsplit_once('{')) {
        Some((rest, numbers)) => (rest, Some(Arc::new(parse_sketch(numbers)?))),
        None => (word, None),
    };
    let (number, rest) = rest.split_once(':').ok_or_else(bad)?;
    let number = parse_number(number)?;
    let (rest, wals) = match rest.rsplit_once('@') {
        Some((rest, wals)) if !wals.ends_with([']', ')']) => {
            (rest, wals.split(',').map(parse_number).collect::<Parsed<_>>()?)
        }
        _ => (rest, Vec::new()),
    };
    let (rest, range_tombstones) = match rest.rsplit_once('~') {
        Some((rest, count)) if !count.ends_with([']', ')']) => (rest, parse_number(count)?),
        _ => (rest, 0),
    };
    let (slice, file) = match rest.split_once('/') {
        Some((slice, file)) => (slice, Some(file)),
        None => (rest, None),
    };
    let (bytes, range) = parse_slice(slice).ok_or_else(bad)??;
    let (file_bytes, file_range) = match file {
        Some(file) => parse_slice(file).ok_or_else(bad)??,
        None => (bytes, range.clone()),
    };
    if !file_range.hi_inclusive && range_tombstones == 0 {
        return Err(format!(
            "{word:?} ends before a key, but only a file with range tombstones does: write the \
             file's own range as 4:4M[g,k)/8M[g,p], or their number as 4:8M[g,k)~2"
        ));
    }
    if bytes.max(file_bytes) > FILE_MAX {
        return Err(format!("{word:?}: no file is longer than {FILE_MAX}"));
    }
    let meta = FileMeta {
        number: FileNumber(number),
        bytes: file_bytes,
        smallest: file_range.lo,
        largest: file_range.hi,
        largest_exclusive: !file_range.hi_inclusive,
        range_tombstones,
        seq_min: seqs.0,
        seq_max: seqs.1,
        sketch,
        wals,
        ..FileMeta::default()
    };
    let file = match files.get(&number) {
        Some(known) if **known == meta && known.sketch == meta.sketch => known.clone(),
        Some(_) => return Err(format!("file {number} is described in two ways")),
        None => files.entry(number).or_insert(Arc::new(meta)).clone(),
    };
    Ok(Arc::new(Table::slice(file, range, bytes)))
}

/// The most keys of a sketch.
const KEYS_MAX: u64 = 1 << 16;

/// The sketch of keys such as `400` or `1-400,601-650`.
fn parse_sketch(text: &str) -> Parsed<Sketch> {
    let (mut numbers, mut count) = (Vec::new(), 0);
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or(("1", part));
        let (first, last) = (parse_number(first)?, parse_number(last)?);
        count += last.saturating_sub(first).min(KEYS_MAX) + 1;
        if last.checked_add(1).is_none_or(|end| end < first) || count > KEYS_MAX {
            return Err(format!(
                "{{{text}}} is not a sketch: write {{400}} or {{1-400,601-650}}, at most \
                 {KEYS_MAX} keys"
            ));
        }
        numbers.push(first..last + 1);
    }
    Ok(Sketch::of_numbers(numbers.into_iter().flatten()))
}

/// `8M[a,k]` or `8M[a,k)`. None if the word does not have this form.
fn parse_slice(word: &str) -> Option<Parsed<(Bytes, KeyRange)>> {
    let (bytes, range) = word.split_once('[')?;
    let (keys, hi_inclusive) = match range.strip_suffix(']') {
        Some(keys) => (keys, true),
        None => (range.strip_suffix(')')?, false),
    };
    let (lo, hi) = keys.split_once(',')?;
    let read = || {
        let (lo, hi) = (unescape(lo)?.into(), unescape(hi)?.into());
        Ok((parse_bytes(bytes)?, KeyRange { lo, hi, hi_inclusive }))
    };
    Some(read())
}

/// A key in the form of the text.
#[must_use]
pub fn print_key(key: &[u8]) -> String {
    let mut out = String::with_capacity(key.len());
    for &byte in key {
        match byte {
            b'[' | b']' | b'(' | b')' | b',' | b'/' | b':' | b'#' | b'\\' | b' ' => {
                _ = write!(out, "\\x{byte:02x}");
            }
            b'!'..=b'~' => out.push(byte.into()),
            _ => _ = write!(out, "\\x{byte:02x}"),
        }
    }
    out
}

fn unescape(word: &str) -> Parsed<Vec<u8>> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let code = tail.get(..3).filter(|code| code[0] == b'x');
        let code = code.and_then(|code| std::str::from_utf8(&code[1..]).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => out.push(byte),
            None => return Err("a key has a backslash that does not begin \\xNN".into()),
        }
        rest = &tail[3..];
    }
    Ok(out)
}

/// A range in the form of the text.
#[must_use]
pub fn print_range(range: &KeyRange) -> String {
    let close = if range.hi_inclusive { ']' } else { ')' };
    format!("[{},{}{close}", print_key(&range.lo), print_key(&range.hi))
}

/// A table in the form of the text.
#[must_use]
pub fn print_table(table: &Table) -> String {
    let mut word =
        format!("{}:{}{}", table.file.number, print_bytes(table.bytes), print_range(&table.range));
    let file = &table.file;
    if table.bytes != file.bytes || table.range != file.range() {
        _ = write!(word, "/{}{}", print_bytes(file.bytes), print_range(&file.range()));
    }
    if file.range_tombstones > 0 {
        _ = write!(word, "~{}", file.range_tombstones);
    }
    for (index, wal) in file.wals.iter().enumerate() {
        _ = write!(word, "{}{wal}", if index == 0 { '@' } else { ',' });
    }
    if let Some(sketch) = &file.sketch {
        _ = write!(word, "{{{}}}", sketch.keys());
    }
    word
}

/// The tree as text, keys included.
#[must_use]
pub fn print(version: &Version) -> String {
    let mut out = String::new();
    for run in &version.l0 {
        let origin = match run.origin {
            RunOrigin::Flush => "flush",
            RunOrigin::Merge => "merge",
        };
        _ = write!(out, "L0 {} {origin} seq {}-{}:", run.id, run.seq_min, run.seq_max);
        print_tables(&run.tables, &mut out);
    }
    for (index, tables) in version.levels.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
        _ = write!(out, "L{}:", index + 1);
        print_tables(tables, &mut out);
    }
    for (index, key) in version.cursors.iter().enumerate() {
        if let Some(key) = key {
            _ = writeln!(out, "cursor L{} {}", index + 1, print_key(key));
        }
    }
    if version.flushed_seq != Seq::ZERO {
        _ = writeln!(out, "flushed {}", version.flushed_seq);
    }
    out
}

fn print_tables(tables: &Tables, out: &mut String) {
    for table in tables.iter() {
        out.push(' ');
        out.push_str(&print_table(table));
    }
    out.push('\n');
}

/// Runs, tables and bytes of each level. It shows no keys, so it may go to the LOG.
#[must_use]
pub fn summary(version: &Version) -> String {
    let mut out = String::new();
    if !version.l0.is_empty() {
        let tables: usize = version.l0.iter().map(|run| run.tables.len()).sum();
        let (runs, bytes) = (version.l0.len(), version.l0_bytes());
        _ = writeln!(out, "L0: {runs} runs, {tables} tables, {bytes}");
    }
    for (index, tables) in version.levels.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
        _ = writeln!(out, "L{}: {} tables, {}", index + 1, tables.len(), tables.bytes());
    }
    if out.is_empty() {
        out.push_str("empty\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
L0 r7 flush seq 50-60: 12:8M[a,k]
L0 r8 merge seq 61-99: 13:1536K[b,k]@7,12{400} 14:300[l,z]~2@12{0}
L1: 3:8M[a,f] 4:4M[g,k)/8M[g,p] 5:1M[q\\x20\\x00,r@]
L2: 6:1M[a~5,b)~3 7:1M[b,c)/8M[a,c)~12 8:3[c,d~]~1
L3: 9:2G[a,z]
cursor L1 g
flushed 99
";

    #[test]
    fn text_to_tree_to_text_is_the_identity() {
        let version = parse(TREE).expect("parses");
        version.check().expect("sound");
        assert_eq!(print(&version), TREE);
        assert_eq!(version.level(1).find(b"j").map(|t| t.file.number.0), Some(4));
        assert!(!version.level(1).find(b"j").expect("there").is_whole());
        assert_eq!(
            summary(&version),
            "L0: 2 runs, 3 tables, 9.5 MB\nL1: 3 tables, 13.0 MB\n\
             L2: 3 tables, 2.0 MB\nL3: 1 tables, 2.00 GB\n"
        );
        assert_eq!(summary(&Version::default()), "empty\n");
    }

    #[test]
    fn two_slices_of_one_file_share_it() {
        let version = parse("L1: 4:4M[g,k)/8M[g,p] 4:4M[m,p]/8M[g,p]").expect("parses");
        let files: Vec<_> = version.level(1).iter().map(|table| &table.file).collect();
        assert!(Arc::ptr_eq(files[0], files[1]));
    }

    #[test]
    fn sketches_are_of_numbered_keys() {
        let version = parse("L0 r1 flush: 1:8[a,b]{1-4000}\nL0 r2 flush: 2:8[a,b]{2001-6000,9-9}");
        let version = version.expect("parses");
        let tables = version.l0.iter().flat_map(|run| run.tables.iter());
        let sketches: Vec<_> = tables.filter_map(|table| table.file.sketch.as_deref()).collect();
        assert_eq!(sketches.iter().map(|sketch| sketch.keys()).collect::<Vec<_>>(), [4000, 4001]);
        let overlap = crate::sketch::overlap(&sketches);
        assert!((0.23..0.27).contains(&overlap), "{overlap}, a quarter is right");
        assert!(print(&version).ends_with(" 2:8[a,b]{4001}\n"), "{}", print(&version));
    }

    #[test]
    fn mistakes_are_told_in_sentences() {
        let why = |text: &str| parse(text).expect_err("refused").to_string();
        assert_eq!(
            why("\nL1: 3:8M[a"),
            "line 2: \"3:8M[a\" is not a table: write it as 12:8M[a,k]"
        );
        assert_eq!(
            why("L1: 3:8X[a,b]"),
            "line 1: \"8X\" is not a size: write it as 300, 64K, 8M or 1.5G"
        );
        assert_eq!(why("L99: 3:8M[a,b]"), "line 1: \"L99\" is not a level from L1 to L15");
        assert_eq!(
            why("L0 r1 compaction: 3:8M[a,b]"),
            "line 1: a run comes from \"flush\" or \"merge\", not \"compaction\""
        );
        assert_eq!(why("L1: 3:8M[a,b]\nL2: 3:9M[a,b]"), "line 2: file 3 is described in two ways");
        assert!(why("L1: 3:8M[a,b]{4}\nL2: 3:8M[a,b]{5}").contains("in two ways"));
        assert_eq!(why("L1: 3:8M[a,b]{x}"), "line 1: \"x\" is not a number");
        assert!(why("L1: 3:8M[a,b]}").contains("is not a table"));
        for bad in ["9-4", "0-18446744073709551615", "1-65537", "1-40000,1-40000"] {
            assert!(why(&format!("L1: 3:8M[a,b]{{{bad}}}")).contains("is not a sketch"), "{bad}");
        }
        assert!(why("L1: 3:8M[\\q,b]").contains("backslash"));
        assert!(why("L1: 3:8M[a,b)").contains("only a file with range tombstones"));
        assert_eq!(why("L1: 3:8M[a,b)~x"), "line 1: \"x\" is not a number");
        assert!(why("L1: 3:99999999999999G[a,b]").contains("not a size"));
    }

    #[test]
    fn sizes_read_back() {
        for bytes in [0, 1, 1023, 1024, 1536, 3 << 20, 5 << 30] {
            assert_eq!(parse_bytes(&print_bytes(Bytes(bytes))), Ok(Bytes(bytes)));
        }
        assert_eq!(parse_bytes("1.5M"), Ok(Bytes(3 << 19)));
        // Also in the form for people.
        for bytes in [0, 1, 1023, 1 << 10, 3 << 20, 5 << 30] {
            assert_eq!(parse_bytes(&Bytes(bytes).to_string()), Ok(Bytes(bytes)));
        }
        for same in ["64M", "64 M", "64mb", "64 MB", "64 MiB", " 64MIB ", "65536 KB", "67108864 B"]
        {
            assert_eq!(parse_bytes(same), Ok(Bytes(64 << 20)), "{same}");
        }
        for bad in ["", "M", "-1", "1e3", "infK", "nan", "3i", "3 MM", "1.2.3M", "3MB/s", ".", "MB"]
        {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
