//! The encoding of a manifest's changes.
//!
//! A record's payload is a sequence of changes. Each is a tag and its fields. Random numbers and
//! checksums take eight bytes, all other numbers are varints. A key or a name is its length and its
//! bytes.
//!
//! ```text
//! 1 store          uid u64
//! 2 keyspace       id | name | options | count of regions | (lower end | tree)*
//! 3 drop keyspace  id
//! 4 numbers        next file | next keyspace | next tree | next run | smallest WAL
//!                  | last sequence number
//! 5 edit           tree | flags | [flushed sequence number] | count | cursor* | count | change*
//! 6 WALs           count | number*, ascending
//! 7 clock          microseconds
//! 8 alter keyspace id | name | options
//! cursor           level u8 | 0 or 1 key
//! change           place | 0 origin u8 table, or 1 file, range
//! place            level u8 | run, for level 0
//! table            file number | uid u64 | bytes | checksum u64 | entries | tombstones
//!                  | smallest | largest | smallest and largest sequence number
//!                  | flags u8 | [further flags u8 | count | WAL* | bytes] | [fragments of range
//!                  tombstones] | [first expiry] | [length of the tail]
//!                  | [keys | sketch of them, 3072 bytes]
//!                  | [range, visible bytes]
//! range            lower end | upper end | 1 when that is inclusive
//! ```
//!
//! Flags of a table: 1 it shows a slice of its file; 2 the file's largest key is exclusive; 4 the
//! file has range tombstones; 8 all entries of the file have one sequence number, its global one;
//! 16 some of its values expire; 32 the length of the file's tail is known;
//! 64 there is a sketch of the file's keys, in L0 only; 128 further flags follow. Of these there is
//! one, 1: values of the file, of that many bytes, are in WALs.
//!
//! Tables of one file share one [`FileMeta`] after reading: [`Files`] remembers them.

use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::manifest::state::{Keyspace, Numbers, Record, Region};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use vlsm_core::{
    Change, FileMeta, FileNumber, FileUid, KeyRange, Micros, Place, RunId, RunOrigin, Seq, Sketch,
    Table, TreeId, VersionEdit, sketch, units,
};

const STORE: u8 = 1;
const CREATE_KEYSPACE: u8 = 2;
const DROP_KEYSPACE: u8 = 3;
const NUMBERS: u8 = 4;
const EDIT: u8 = 5;
const WALS: u8 = 6;
const CLOCK: u8 = 7;
const ALTER_KEYSPACE: u8 = 8;

const FLAG_FLUSHED: u8 = 1;
const FLAG_SLICE: u8 = 1;
const FLAG_EXCLUSIVE: u8 = 2;
const FLAG_RANGES: u8 = 4;
const FLAG_GLOBAL_SEQ: u8 = 8;
const FLAG_EXPIRES: u8 = 16;
const FLAG_TAIL: u8 = 32;
const FLAG_SKETCH: u8 = 64;
/// Another byte of flags follows, with what came later.
const FLAG_MORE: u8 = 128;
const MORE_WALS: u8 = 1;
/// The most runs and levels that one edit changes.
const PLACES_MAX: usize = 1 << 16;
/// The largest value of a counter.
const NUMBER_MAX: u64 = 1 << 56;
/// The longest file. The sum over any number of tables that fit in memory cannot overflow.
const FILE_MAX: units::Bytes = units::Bytes(1 << 40);

type Read<T> = Result<T, Malformed>;

/// One item of a payload.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// The random number of the store.
    Store(u64),
    /// A change.
    Record(Record),
}

/// The files seen while reading. Tables of one file share its entry.
#[derive(Debug, Default)]
pub struct Files(FxHashMap<FileNumber, Arc<FileMeta>>);

/// Appends the store's random number.
pub fn put_store(out: &mut Vec<u8>, uid: u64) {
    out.push(STORE);
    out.extend_from_slice(&uid.to_le_bytes());
}

/// Appends a change.
pub fn put_record(out: &mut Vec<u8>, record: &Record) {
    match record {
        Record::CreateKeyspace(keyspace) => {
            out.push(CREATE_KEYSPACE);
            put_varint(out, keyspace.id);
            put_bytes(out, keyspace.name.as_bytes());
            put_bytes(out, keyspace.options.as_bytes());
            put_varint(out, keyspace.regions.len() as u64);
            for region in &keyspace.regions {
                put_bytes(out, &region.lo);
                put_varint(out, region.tree.0);
            }
        }
        Record::DropKeyspace(id) => {
            out.push(DROP_KEYSPACE);
            put_varint(out, *id);
        }
        Record::AlterKeyspace { id, name, options } => {
            out.push(ALTER_KEYSPACE);
            put_varint(out, *id);
            put_bytes(out, name.as_bytes());
            put_bytes(out, options.as_bytes());
        }
        Record::Numbers(n) => {
            out.push(NUMBERS);
            let last = n.last_seq.0;
            for number in [n.next_file, n.next_keyspace, n.next_tree, n.next_run, n.min_wal, last] {
                put_varint(out, number);
            }
        }
        Record::Edit(tree, edit) => {
            out.push(EDIT);
            put_varint(out, tree.0);
            put_edit(out, edit);
        }
        Record::Wals(wals) => {
            out.push(WALS);
            put_varint(out, wals.len() as u64);
            wals.iter().for_each(|number| put_varint(out, *number));
        }
        Record::Clock(now) => {
            out.push(CLOCK);
            put_varint(out, now.0);
        }
    }
}

fn put_edit(out: &mut Vec<u8>, edit: &VersionEdit) {
    match edit.flushed_seq {
        Some(seq) => {
            out.push(FLAG_FLUSHED);
            put_varint(out, seq.0);
        }
        None => out.push(0),
    }
    put_varint(out, edit.cursors.len() as u64);
    for (level, key) in &edit.cursors {
        out.push(*level);
        out.push(u8::from(key.is_some()));
        if let Some(key) = key {
            put_bytes(out, key);
        }
    }
    put_varint(out, edit.changes.len() as u64);
    for change in &edit.changes {
        match change {
            Change::Add { place, origin, table } => {
                put_place(out, *place);
                out.push(0);
                out.push(u8::from(*origin == RunOrigin::Merge));
                put_table(out, *place, table);
            }
            Change::Remove { place, file, range } => {
                put_place(out, *place);
                out.push(1);
                put_varint(out, file.0);
                put_range(out, range);
            }
        }
    }
}

fn put_place(out: &mut Vec<u8>, place: Place) {
    out.push(place.level());
    if let Place::L0(run) = place {
        put_varint(out, run.0);
    }
}

fn put_range(out: &mut Vec<u8>, range: &KeyRange) {
    put_bytes(out, &range.lo);
    put_bytes(out, &range.hi);
    out.push(u8::from(range.hi_inclusive));
}

fn put_table(out: &mut Vec<u8>, place: Place, table: &Table) {
    let file = &*table.file;
    put_varint(out, file.number.0);
    out.extend_from_slice(&file.uid.0.to_le_bytes());
    put_varint(out, file.bytes.0);
    out.extend_from_slice(&file.checksum.to_le_bytes());
    put_varint(out, file.entries);
    put_varint(out, file.tombstones);
    put_bytes(out, &file.smallest);
    put_bytes(out, &file.largest);
    put_varint(out, file.seq_min.0);
    put_varint(out, file.seq_max.0);
    let one_seq = file.seq_min == file.seq_max;
    debug_assert!(file.global_seq.is_none_or(|seq| one_seq && seq == file.seq_min));
    let slice = table.range != file.range() || table.bytes != file.bytes;
    let sketch = file.sketch.as_ref().filter(|_| place.level() == 0);
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    out.push(
        flag(slice, FLAG_SLICE)
            | flag(file.largest_exclusive, FLAG_EXCLUSIVE)
            | flag(file.range_tombstones > 0, FLAG_RANGES)
            | flag(file.global_seq.is_some(), FLAG_GLOBAL_SEQ)
            | flag(file.expires.is_some(), FLAG_EXPIRES)
            | flag(file.tail.is_some(), FLAG_TAIL)
            | flag(sketch.is_some(), FLAG_SKETCH)
            | flag(!file.wals.is_empty(), FLAG_MORE),
    );
    if !file.wals.is_empty() {
        out.push(MORE_WALS);
        put_varint(out, file.wals.len() as u64);
        file.wals.iter().for_each(|wal| put_varint(out, *wal));
        put_varint(out, file.logged_bytes.0);
    }
    if file.range_tombstones > 0 {
        put_varint(out, file.range_tombstones);
    }
    if let Some(expires) = file.expires {
        put_varint(out, expires.0);
    }
    if let Some(tail) = file.tail {
        put_varint(out, tail.0);
    }
    if let Some(sketch) = sketch {
        put_varint(out, sketch.keys());
        sketch.pack(out);
    }
    if slice {
        put_range(out, &table.range);
        put_varint(out, table.bytes.0);
    }
}

/// Reads the next item of a payload.
///
/// # Errors
/// The bytes do not hold an item.
pub fn read_item(reader: &mut Reader<'_>, files: &mut Files) -> Read<Item> {
    let record = match reader.u8()? {
        STORE => return Ok(Item::Store(reader.u64()?)),
        CREATE_KEYSPACE => Record::CreateKeyspace(read_keyspace(reader)?),
        DROP_KEYSPACE => Record::DropKeyspace(reader.varint()?),
        NUMBERS => Record::Numbers(Numbers {
            next_file: read_number(reader)?,
            next_keyspace: read_number(reader)?,
            next_tree: read_number(reader)?,
            next_run: read_number(reader)?,
            min_wal: read_number(reader)?,
            last_seq: read_seq(reader)?,
        }),
        EDIT => {
            let tree = TreeId(reader.varint()?);
            Record::Edit(tree, read_edit(reader, files)?)
        }
        WALS => {
            let count = reader.count()?;
            let wals = (0..count).map(|_| read_number(reader)).collect::<Read<Vec<u64>>>()?;
            if wals.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(Malformed("the list of WALs is out of order"));
            }
            Record::Wals(wals)
        }
        CLOCK => Record::Clock(Micros(reader.varint()?)),
        ALTER_KEYSPACE => Record::AlterKeyspace {
            id: reader.varint()?,
            name: read_text(reader)?,
            options: read_text(reader)?,
        },
        _ => return Err(Malformed("an unknown kind of change")),
    };
    Ok(Item::Record(record))
}

/// Reads a counter. Its bound leaves room for all later numbers of the store.
fn read_number(reader: &mut Reader<'_>) -> Read<u64> {
    let number = reader.varint()?;
    if number <= NUMBER_MAX { Ok(number) } else { Err(Malformed("a number is impossible")) }
}

fn read_seq(reader: &mut Reader<'_>) -> Read<Seq> {
    let seq = Seq(reader.varint()?);
    if seq <= Seq::MAX { Ok(seq) } else { Err(Malformed("a sequence number is impossible")) }
}

fn read_text(reader: &mut Reader<'_>) -> Read<String> {
    let text = std::str::from_utf8(reader.bytes()?);
    text.map(str::to_owned).map_err(|_| Malformed("a text is not UTF-8"))
}

fn read_keyspace(reader: &mut Reader<'_>) -> Read<Keyspace> {
    let id = reader.varint()?;
    let name = read_text(reader)?;
    let options = read_text(reader)?;
    let mut regions = Vec::new();
    for _ in 0..reader.count()? {
        regions.push(Region { lo: reader.owned()?, tree: TreeId(reader.varint()?) });
    }
    Ok(Keyspace { id, name, options, regions })
}

fn read_edit(reader: &mut Reader<'_>, files: &mut Files) -> Read<VersionEdit> {
    let mut edit = VersionEdit::default();
    match reader.u8()? {
        0 => {}
        FLAG_FLUSHED => edit.flushed_seq = Some(read_seq(reader)?),
        _ => return Err(Malformed("an unknown flag of an edit")),
    }
    for _ in 0..reader.count()? {
        let level = reader.u8()?;
        let key = if read_bool(reader)? { Some(reader.owned()?) } else { None };
        edit.cursors.push((level, key));
    }
    let mut places = BTreeSet::new();
    for _ in 0..reader.count()? {
        let place = match reader.u8()? {
            0 => Place::L0(RunId(read_number(reader)?)),
            level => Place::Level(level),
        };
        places.insert(place);
        if places.len() > PLACES_MAX {
            return Err(Malformed("an edit is about too many runs"));
        }
        edit.changes.push(if read_bool(reader)? {
            let file = FileNumber(reader.varint()?);
            Change::Remove { place, file, range: read_range(reader)? }
        } else {
            let origin = if read_bool(reader)? { RunOrigin::Merge } else { RunOrigin::Flush };
            Change::Add { place, origin, table: Arc::new(read_table(reader, files)?) }
        });
    }
    Ok(edit)
}

fn read_bool(reader: &mut Reader<'_>) -> Read<bool> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a flag is neither 0 nor 1")),
    }
}

fn read_range(reader: &mut Reader<'_>) -> Read<KeyRange> {
    let (lo, hi) = (reader.owned()?, reader.owned()?);
    Ok(KeyRange { lo, hi, hi_inclusive: read_bool(reader)? })
}

/// Reads the second byte of a table's flags and what it announces: the WALs that hold values, and
/// the bytes of these values.
fn read_more(reader: &mut Reader<'_>) -> Read<(Vec<u64>, units::Bytes)> {
    if reader.u8()? != MORE_WALS {
        return Err(Malformed("an unknown flag of a table"));
    }
    let count = reader.varint()?;
    let mut wals = Vec::new();
    for _ in 0..count {
        wals.push(read_number(reader)?);
    }
    if wals.is_empty() || !wals.is_sorted_by(|a, b| a < b) {
        return Err(Malformed("a table's list of WALs is malformed"));
    }
    Ok((wals, units::Bytes(reader.varint()?)))
}

/// Reads the sketch of a file's keys.
fn read_sketch(reader: &mut Reader<'_>, file: &FileMeta) -> Read<Arc<Sketch>> {
    let keys = reader.varint()?;
    let sketch = Sketch::unpack(keys, reader.take(sketch::PACKED_LEN)?);
    let sketch = sketch.filter(|sketch| sketch.keys() <= file.entries);
    sketch.map(Arc::new).ok_or(Malformed("the sketch of a file's keys is impossible"))
}

fn read_table(reader: &mut Reader<'_>, files: &mut Files) -> Read<Table> {
    let mut read = FileMeta {
        number: FileNumber(read_number(reader)?),
        uid: FileUid(reader.u64()?),
        bytes: units::Bytes(reader.varint()?),
        checksum: reader.u64()?,
        entries: reader.varint()?,
        tombstones: reader.varint()?,
        smallest: reader.owned()?,
        largest: reader.owned()?,
        seq_min: read_seq(reader)?,
        seq_max: read_seq(reader)?,
        ..FileMeta::default()
    };
    let flags = reader.u8()?;
    if flags & FLAG_MORE != 0 {
        (read.wals, read.logged_bytes) = read_more(reader)?;
    }
    read.largest_exclusive = flags & FLAG_EXCLUSIVE != 0;
    if flags & FLAG_RANGES != 0 {
        read.range_tombstones = reader.varint()?;
    }
    if flags & FLAG_EXPIRES != 0 {
        read.expires = Some(Micros(reader.varint()?));
    }
    if flags & FLAG_TAIL != 0 {
        let tail = units::Bytes(reader.varint()?);
        if tail == units::Bytes::ZERO || tail > read.bytes {
            return Err(Malformed("the tail of a file is longer than the file"));
        }
        read.tail = Some(tail);
    }
    if flags & FLAG_SKETCH != 0 {
        read.sketch = Some(read_sketch(reader, &read)?);
    }
    let any_range = read.range_tombstones > 0;
    if any_range != (flags & FLAG_RANGES != 0) || (read.largest_exclusive && !any_range) {
        return Err(Malformed("a file's range tombstones contradict its flags"));
    }
    if flags & FLAG_GLOBAL_SEQ != 0 {
        if read.seq_min != read.seq_max {
            return Err(Malformed("a file of one sequence number has two"));
        }
        read.global_seq = Some(read.seq_min);
    }
    if read.range().is_empty() || read.bytes > FILE_MAX {
        return Err(Malformed("a file's keys or length are impossible"));
    }
    let file = match files.0.get(&read.number) {
        Some(known) if **known == read => known.clone(),
        Some(_) => return Err(Malformed("two files have one number")),
        None => {
            let file = Arc::new(read);
            files.0.insert(file.number, file.clone());
            file
        }
    };
    if flags & FLAG_SLICE == 0 {
        return Ok(Table::whole(file));
    }
    let range = read_range(reader)?;
    let bytes = units::Bytes(reader.varint()?);
    if bytes > file.bytes {
        return Err(Malformed("a slice has more bytes than its file"));
    }
    Ok(Table::slice(file, range, bytes))
}
