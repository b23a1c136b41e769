//! Reads and writes one record per line, as TSV or as a JSON object, exactly for any bytes.
//!
//! **TSV**: `key<TAB>value`, both in escaped form (`escape.rs`) or, with `--hex`, in hexadecimal.
//! The first tab ends the key, so a table of many columns is keyed by its first one. A line end may
//! be `\r\n`.
//!
//! **JSON lines**: `{"key": "…", "value": "…"}` for text; `key_hex`, `value_hex`, `key_base64` and
//! `value_base64` for bytes, in any combination. `"keyspace": "…"` names the record's keyspace; a
//! line with nothing else names a keyspace that may have no records. Other fields are refused,
//! because they would be lost.

use crate::escape::{base64, escape, hex, unbase64, unescape, unhex};
use serde::Deserialize;

/// The format of records in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A line `key<TAB>value`.
    Tsv,
    /// A JSON object per line: `{"key": "…", "value": "…"}`.
    Json,
    /// A line `key<TAB>value` without escapes, chosen by `--raw`.
    #[value(skip)]
    Raw,
}

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A record, and the keyspace that the line names.
    Record(Option<String>),
    /// The name of a keyspace alone.
    Keyspace(String),
}

/// The encoding of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// TSV or JSON lines.
    pub format: Format,
    /// Keys and values in hexadecimal.
    pub hex: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRecord {
    keyspace: Option<String>,
    key: Option<String>,
    key_hex: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_hex: Option<String>,
    value_base64: Option<String>,
}

impl Layout {
    /// Reads a line, without its line feed; a record into `key` and `value`.
    ///
    /// # Errors
    /// The problem with the line and the expected form, without its contents.
    pub fn parse(
        self,
        line: &[u8],
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<Line, String> {
        key.clear();
        value.clear();
        let tab = line.iter().position(|byte| *byte == b'\t');
        let tab = tab.ok_or("no tab between key and value");
        if self.format == Format::Raw {
            let tab = tab?;
            key.extend_from_slice(&line[..tab]);
            value.extend_from_slice(&line[tab + 1..]);
            return Ok(Line::Record(None));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.format {
            Format::Json => parse_json(line, key, value),
            Format::Tsv | Format::Raw => {
                let tab = tab?;
                let read = if self.hex { unhex } else { unescape };
                read(&line[..tab], key).map_err(|why| format!("key: {why}"))?;
                read(&line[tab + 1..], value).map_err(|why| format!("value: {why}"))?;
                Ok(Line::Record(None))
            }
        }
    }

    /// Appends a record and its line feed.
    pub fn write(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self.format {
            Format::Tsv | Format::Raw => {
                self.write_text(key, out);
                out.push(b'\t');
                self.write_text(value, out);
            }
            Format::Json => {
                out.push(b'{');
                self.write_field("key", key, out);
                out.extend_from_slice(b", ");
                self.write_field("value", value, out);
                out.push(b'}');
            }
        }
        out.push(b'\n');
    }

    /// Appends a key alone and a line feed.
    pub fn write_key(self, key: &[u8], out: &mut Vec<u8>) {
        match self.format {
            Format::Tsv | Format::Raw => self.write_text(key, out),
            Format::Json => {
                out.push(b'{');
                self.write_field("key", key, out);
                out.push(b'}');
            }
        }
        out.push(b'\n');
    }

    /// Appends a key or a value as text.
    pub fn write_text(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.format {
            _ if self.hex => hex(bytes, out),
            Format::Raw => out.extend_from_slice(bytes),
            Format::Tsv | Format::Json => escape(bytes, out),
        }
    }

    fn write_field(self, name: &str, bytes: &[u8], out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        match std::str::from_utf8(bytes) {
            Ok(text) if !self.hex => {
                out.extend_from_slice(b"\": ");
                serde_json::to_writer(out, text).expect("a string is written into memory");
                return;
            }
            _ if self.hex => {
                out.extend_from_slice(b"_hex\": \"");
                hex(bytes, out);
            }
            _ => {
                out.extend_from_slice(b"_base64\": \"");
                base64(bytes, out);
            }
        }
        out.push(b'"');
    }
}

/// The format that a file's name or first line suggests.
pub fn detect(name: &str, first_line: &[u8]) -> Format {
    let lower = name.to_ascii_lowercase();
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| lower.ends_with(suffix));
    if ends(&[".tsv", ".tab"]) {
        return Format::Tsv;
    }
    let json = ends(&[".jsonl", ".ndjson", ".json"]);
    let json = json || first_line.trim_ascii_start().starts_with(b"{\"");
    if json { Format::Json } else { Format::Tsv }
}

fn parse_json(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Line, String> {
    let record: JsonRecord = serde_json::from_slice(line).map_err(|e| json_error(&e))?;
    let keys = [record.key, record.key_hex, record.key_base64];
    let values = [record.value, record.value_hex, record.value_base64];
    match record.keyspace {
        Some(keyspace) if keys.iter().chain(&values).all(Option::is_none) => {
            Ok(Line::Keyspace(keyspace))
        }
        keyspace => {
            one_of("key", keys, key)?;
            one_of("value", values, value)?;
            Ok(Line::Record(keyspace))
        }
    }
}

/// Reads the one field of `text`, `text_hex` and `text_base64` that is given.
fn one_of(name: &str, fields: [Option<String>; 3], out: &mut Vec<u8>) -> Result<(), String> {
    match fields {
        [Some(text), None, None] => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        [None, Some(text), None] => {
            unhex(text.as_bytes(), out).map_err(|why| format!("{name}_hex: {why}"))
        }
        [None, None, Some(text)] => {
            unbase64(text.as_bytes(), out).map_err(|why| format!("{name}_base64: {why}"))
        }
        [None, None, None] => Err(format!("no field \"{name}\"")),
        _ => Err(format!("more than one of \"{name}\", \"{name}_hex\", \"{name}_base64\"")),
    }
}

/// The error of a JSON line, without the data that the parser would quote.
fn json_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    if what.starts_with("invalid type") {
        return "a field is not a string: keys and values are strings".to_owned();
    }
    format!("not a record at column {}: {what}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TSV: Layout = Layout { format: Format::Tsv, hex: false };
    const JSON: Layout = Layout { format: Format::Json, hex: false };

    fn parse(layout: Layout, line: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        layout.parse(line.as_bytes(), &mut key, &mut value).map(|_| (key, value))
    }

    fn pair(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (key.to_vec(), value.to_vec())
    }

    #[test]
    fn reads_tsv() {
        assert_eq!(parse(TSV, "a\\t\tb\\n\r").unwrap(), pair(b"a\t", b"b\n"));
        assert_eq!(parse(TSV, "a\tb\tc").unwrap(), pair(b"a", b"b\tc"));
        assert!(parse(TSV, "a b").unwrap_err().contains("no tab"));
        assert!(parse(TSV, "a\t\\q").unwrap_err().starts_with("value: unknown escape"));
        let hex = Layout { hex: true, ..TSV };
        assert_eq!(parse(hex, "00ff\t").unwrap(), pair(b"\0\xff", b""));
    }

    #[test]
    fn reads_json() {
        let line = r#"{"key": "a\u00e9", "value_base64": "AP8="}"#;
        assert_eq!(parse(JSON, line).unwrap(), pair("aé".as_bytes(), b"\0\xff"));
        let line = r#"{"value": "", "key_hex": "00"}"#;
        assert_eq!(parse(JSON, line).unwrap(), pair(b"\0", b""));
        for (line, what) in [
            ("{", "column 1"),
            ("[1]", "not a "),
            (r#"{"key": "a"}"#, "no field \"value\""),
            (r#"{"key": "a", "value": 7}"#, "not a string"),
            (r#"{"key": "a", "key_hex": "00", "value": "b"}"#, "more than one of"),
            (r#"{"key": "a", "value": "b", "id": "c"}"#, "unknown field `id`"),
            (r#"{"key": "a", "value_hex": "0"}"#, "value_hex: an odd number"),
        ] {
            let why = parse(JSON, line).unwrap_err();
            assert!(why.contains(what), "{line}: {why}");
        }
    }

    #[test]
    fn reads_the_keyspace_of_a_json_line() {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut parse = |line: &str| JSON.parse(line.as_bytes(), &mut key, &mut value);
        let named = || Some("a b".to_owned());
        let record = r#"{"keyspace": "a b", "key": "k", "value": ""}"#;
        assert_eq!(parse(record), Ok(Line::Record(named())));
        assert_eq!(parse(r#"{"key": "k", "value": ""}"#), Ok(Line::Record(None)));
        assert_eq!(parse(r#"{"keyspace": "a b"}"#), Ok(Line::Keyspace("a b".to_owned())));
        assert!(parse(r#"{"keyspace": "a b", "key": "k"}"#).unwrap_err().contains("\"value\""));
        assert!(parse("{}").unwrap_err().contains("no field \"key\""));
    }

    #[test]
    fn detects() {
        assert_eq!(detect("x.JSONL", b""), Format::Json);
        assert_eq!(detect("x.tsv", b"{\"key\""), Format::Tsv);
        assert_eq!(detect("-", b"  {\"key\": "), Format::Json);
        assert_eq!(detect("-", b"{a}\tb"), Format::Tsv);
    }

    proptest! {
        #[test]
        fn round_trip(
            key in proptest::collection::vec(any::<u8>(), 0..20),
            value in proptest::collection::vec(any::<u8>(), 0..60),
            json in any::<bool>(), hex in any::<bool>(),
        ) {
            let layout = Layout { format: if json { Format::Json } else { Format::Tsv }, hex };
            let mut line = Vec::new();
            layout.write(&key, &value, &mut line);
            prop_assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
            prop_assert_eq!(line.pop(), Some(b'\n'));
            let (mut k, mut v) = (vec![1], vec![2]);
            prop_assert!(layout.parse(&line, &mut k, &mut v).is_ok());
            prop_assert_eq!((k, v), (key, value));
        }
    }
}
