//! Texts: options, trees, and what the program imports.
//!
//! Whatever a text is read as can be written, and reads the same again.

use crate::input::Input;
use vlsm_cli::escape::{self, base64, hex, unbase64, unescape, unhex};
use vlsm_cli::lines::{Lines, Next};
use vlsm_cli::record::{Format, Layout};

/// The options of a store, from TOML.
pub fn options(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(read) = vlsm::Options::from_toml(text) else { return false };
    let _ = read.check();
    let written = read.to_toml().expect("options that were read can be written");
    let again = vlsm::Options::from_toml(&written).expect("and read again");
    assert!(again == read, "they are the same");
    true
}

/// A tree in its text form.
pub fn version(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(version) = vlsm_core::text::parse(text) else { return false };
    let _ = vlsm_core::text::summary(&version);
    if version.check().is_ok() {
        let written = vlsm_core::text::print(&version);
        let again = vlsm_core::text::parse(&written).expect("a printed tree can be read");
        assert_eq!(vlsm_core::text::print(&again), written, "and is the same");
    }
    true
}

/// A line of an import.
pub fn record(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let kind = input.u8();
    let format = if kind & 1 == 0 { Format::Tsv } else { Format::Json };
    let layout = Layout { format, hex: kind & 2 != 0 };
    let (mut key, mut value) = (vec![1], vec![2]);
    if layout.parse(input.rest(), &mut key, &mut value).is_err() {
        return false;
    }
    let mut line = Vec::new();
    layout.write(&key, &value, &mut line);
    assert_eq!(line.pop(), Some(b'\n'), "a record is a line");
    assert!(!line.contains(&b'\n'), "and one line only");
    let (mut key_again, mut value_again) = (Vec::new(), Vec::new());
    let read = layout.parse(&line, &mut key_again, &mut value_again);
    assert!(read.is_ok(), "what was written can be read: {read:?}");
    assert!(key_again == key && value_again == value, "and is the same");
    true
}

/// Bytes as text, and text as bytes.
pub fn escapes(bytes: &[u8]) -> bool {
    type Way = (fn(&[u8], &mut Vec<u8>), fn(&[u8], &mut Vec<u8>) -> Result<(), String>);
    let ways: [Way; 3] = [(escape::escape, unescape), (hex, unhex), (base64, unbase64)];
    for (write, read) in ways {
        let (mut text, mut back) = (Vec::new(), Vec::new());
        write(bytes, &mut text);
        let result = read(&text, &mut back);
        assert!(result.is_ok() && back == bytes, "bytes come back from text");
        assert!(std::str::from_utf8(&text).is_ok(), "it is text");
        let mut any = Vec::new();
        if read(bytes, &mut any).is_ok() {
            assert!(any.len() <= bytes.len(), "no text stands for more bytes than it has");
        }
    }
    true
}

/// Lines of a file, the longest of which are skipped.
pub fn lines(bytes: &[u8]) -> bool {
    const MOST: usize = 16;
    let mut input = Input(bytes);
    // The length of the reader's buffer, from 1 on.
    let buffer = usize::from(input.u8()) + 1;
    let text = input.rest();
    let mut lines = Lines::new(std::io::BufReader::with_capacity(buffer, text), MOST);
    let parts = text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n');
    for part in parts.filter(|_| !text.is_empty()) {
        match lines.read().expect("memory can be read") {
            Next::Line => assert_eq!(lines.line(), part, "the line, to its end"),
            Next::TooLong => assert!(part.len() > MOST, "only long lines are skipped"),
            Next::End => panic!("a line is missing"),
        }
    }
    assert_eq!(lines.read().expect("memory can be read"), Next::End);
    true
}
