//! The files of a store as JSON lines: one object for the header or the properties, one for each
//! record or entry, and one for the end.
//!
//! Keys and values have the fields of `export`: `key` for text, `key_base64` for other bytes. They
//! are complete, so `--full` changes nothing.

use super::part;
use crate::escape::base64;
use crate::failure::Result;
use serde_json::{Map, Value, json};
use std::io::Write;
use vlsm_core::{Kind, key};
use vlsm_disk::record::{Header, RecordKind, Records, Tail};
use vlsm_disk::sst::SstReader;
use vlsm_disk::wal::Entries;

/// Prints an object.
pub fn line(value: &Value, out: &mut impl Write) -> Result {
    Ok(writeln!(out, "{value}")?)
}

/// The header of a WAL or a manifest.
pub fn header(header: &Header, len: usize) -> Value {
    let predecessor = header.predecessor.map(|seal| {
        json!({
            "file": seal.number,
            "uid": format!("{:016x}", seal.uid),
            "ends_at": seal.len,
            "synced": seal.synced,
        })
    });
    json!({
        "file": header.number,
        "uid": format!("{:016x}", header.uid),
        "started": header.started,
        "length": len,
        "filled": header.filled,
        "next_sequence_number": header.next_seq.0,
        "predecessor": predecessor,
    })
}

/// The records of a WAL.
pub fn wal(records: &mut Records, out: &mut impl Write) -> Result {
    for record in records.by_ref() {
        let head = record.head;
        let mut json = json!({
            "offset": record.offset,
            "record": format!("{:?}", head.kind).to_lowercase(),
            "sequence_number": head.seq.0,
            "bytes": record.payload.len(),
            "synced": head.synced,
        });
        match head.kind {
            RecordKind::Batch => {
                let entries = (head.seq.0..).zip(Entries::new(&record.payload));
                let entries = entries.map(|(seq, entry)| match entry {
                    Ok(entry) => {
                        let mut json = self::entry(seq, entry.kind, entry.key, entry.value);
                        json["tree"] = entry.tree.0.into();
                        json
                    }
                    Err(why) => json!({ "malformed": why.0 }),
                });
                json["entries"] = entries.collect();
            }
            RecordKind::Fragment | RecordKind::Commit => {
                json["part"] = part(&record.payload).into();
            }
            RecordKind::Mark => {}
        }
        line(&json, out)?;
    }
    let end = records.offset();
    let damaged = match records.tail() {
        Tail::Torn => None,
        Tail::Damaged(later) => Some(later),
    };
    line(&json!({ "end": end, "damaged": damaged.is_some(), "next_record": damaged }), out)
}

/// An entry of a WAL or an SST.
pub fn entry(seq: u64, kind: Kind, key: &[u8], value: &[u8]) -> Value {
    let mut json = Map::new();
    json.insert("sequence_number".into(), seq.into());
    let what = match kind {
        Kind::Put | Kind::PutExpiring | Kind::Logged => "put",
        Kind::Delete => "delete",
        Kind::Merge => "merge",
        Kind::RangeDelete => "delete_range",
        Kind::Kept => "keep",
    };
    json.insert("kind".into(), what.into());
    field("key", key, &mut json);
    match kind {
        Kind::Delete => {}
        Kind::RangeDelete => field("to", value, &mut json),
        // Readers show an entry whose value is in a WAL as a put.
        Kind::Put | Kind::Merge | Kind::Logged => field("value", value, &mut json),
        Kind::PutExpiring => {
            json.insert("expires_micros".into(), key::expiry(value).map(|at| at.0).into());
            field("value", value.get(key::EXPIRY_LEN..).unwrap_or_default(), &mut json);
        }
        Kind::Kept => {
            let (seq, value) = key::kept(value).unzip();
            json.insert("as_of".into(), seq.map(|seq| seq.0).into());
            field("value", value.unwrap_or_default(), &mut json);
        }
    }
    Value::Object(json)
}

/// Adds bytes as text, or as base64 if they are none.
pub fn field(name: &str, bytes: &[u8], json: &mut Map<String, Value>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => json.insert(name.to_owned(), text.into()),
        Err(_) => {
            let mut text = Vec::new();
            base64(bytes, &mut text);
            json.insert(format!("{name}_base64"), String::from_utf8_lossy(&text).into())
        }
    };
}

/// The properties of an SST.
pub fn properties(reader: &SstReader) -> Value {
    let summary = reader.summary();
    let p = &summary.properties;
    let mut json = Map::new();
    field("smallest", &p.smallest, &mut json);
    field("largest", &p.largest, &mut json);
    let mut json = Value::Object(json);
    json["uid"] = format!("{:016x}", summary.uid.0).into();
    json["checksum"] = format!("{:016x}", summary.checksum).into();
    json["bytes"] = summary.bytes.0.into();
    json["data_blocks"] = reader.block_count().into();
    json["entries"] = p.entries.into();
    json["tombstones"] = p.tombstones.into();
    json["range_tombstones"] = p.range_tombstones.into();
    json["key_bytes"] = p.key_bytes.into();
    json["value_bytes"] = p.value_bytes.into();
    json["logged_bytes"] = p.logged_bytes.into();
    json["wals"] = p.wals.clone().into();
    json["sequence_numbers"] = json!([p.seq_min.0, p.seq_max.0]);
    json
}
