//! SSTs of which one part is whatever the input says, and the rest and all checksums are right.
//!
//! [`Frame`] puts a file together from blocks, index, filter and properties; [`exercise`] does
//! with it all that a store does: open, gets, cursors from both ends, a scan.

use crate::input::Input;
use crate::records::expect_answer;
use std::path::Path;
use std::sync::Arc;
use vlsm_core::{Cursor, FileUid, KeyRange, Result, Seq, Trailer};
use vlsm_disk::sst::format::{FOOTER_LEN, MAGIC, VERSION, checksum};
use vlsm_disk::sst::{BlockCache, ReadStats, Scan, Scanner, SstReader};
use vlsm_testfs::MemFile;

const UID: FileUid = FileUid(0x0123_4567_89ab_cdef);

/// The parts of a file.
pub struct Frame {
    /// Payloads with the tags of their compression.
    pub blocks: Vec<(Vec<u8>, u8)>,
    /// The payload of the index; none for an index that fits the blocks.
    pub index: Option<Vec<u8>>,
    pub filter: Vec<u8>,
    pub ranges: Vec<u8>,
    pub properties: Vec<u8>,
}

impl Frame {
    /// A sound file of two blocks.
    pub fn sound() -> Self {
        let blocks = [["apple", "pear"], ["plum", "zebra"]].map(|keys| (block_of(&keys), 0));
        Self {
            blocks: blocks.into(),
            index: None,
            filter: Vec::new(),
            ranges: Vec::new(),
            properties: sound_properties(),
        }
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        let (footer, file) = self.parts();
        end(file, &footer)
    }

    /// The fields of the footer, and the bytes of the file before it.
    pub fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        let mut file = Vec::new();
        let mut index = varint(self.blocks.len() as u64);
        for (number, (payload, tag)) in self.blocks.iter().enumerate() {
            let offset = file.len();
            file.extend_from_slice(payload);
            file.push(*tag);
            let sum = checksum(UID, offset as u64, &file[offset..]);
            file.extend_from_slice(&sum.to_le_bytes());
            // Separators "p", "q", …: the first block ends before "plum".
            index.extend_from_slice(&[0, 2, b'p' + number as u8, b'l']);
            index.extend_from_slice(&varint((file.len() - offset) as u64));
        }
        let mut footer = Vec::new();
        let index = self.index.as_ref().unwrap_or(&index);
        for part in [index, &self.filter, &self.ranges, &self.properties] {
            let offset = file.len() as u64;
            file.extend_from_slice(part);
            for number in [offset, part.len() as u64, checksum(UID, offset, part)] {
                footer.extend_from_slice(&number.to_le_bytes());
            }
        }
        footer.extend_from_slice(&UID.0.to_le_bytes());
        footer.resize(116, 0);
        footer.extend_from_slice(&VERSION.to_le_bytes());
        (footer, file)
    }
}

/// Adds zeros and a footer with a good checksum, in so far as the footer says what that is.
fn end(mut file: Vec<u8>, footer: &[u8]) -> Vec<u8> {
    let position = Input(&footer[72..]).u64().saturating_add(Input(&footer[80..]).u64());
    let start = usize::try_from(position).unwrap_or(usize::MAX).min(file.len());
    let len = (file.len() + FOOTER_LEN).next_multiple_of(4096);
    file.resize(len - FOOTER_LEN, 0);
    file.extend_from_slice(footer);
    let uid = FileUid(Input(&footer[96..]).u64());
    let sum = checksum(uid, start as u64, &file[start..]);
    file.extend_from_slice(&sum.to_le_bytes());
    file.extend_from_slice(&MAGIC);
    file
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A block of these keys.
pub fn block_of(keys: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, seq) in keys.iter().zip(1_u64..) {
        out.extend_from_slice(&[0, key.len() as u8, 1]);
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(&(seq << 8 | 1).to_le_bytes());
        out.push(b'v');
    }
    let entries = out.len() as u32;
    for number in [0, 1, entries] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out
}

fn sound_properties() -> Vec<u8> {
    let mut out = Vec::new();
    for id in 1..=7 {
        out.extend_from_slice(&[id, 8, 4, 0, 0, 0, 0, 0, 0, 0]);
    }
    out.extend_from_slice(b"\x08\x05apple\x09\x05zebra");
    out.extend_from_slice(&[10, 8, 0, 0, 0, 0, 0, 0, 0, 0, 11, 1, 0]);
    out
}

/// A block.
pub fn block(bytes: &[u8]) -> bool {
    let mut frame = Frame::sound();
    frame.blocks[1].0 = bytes.to_vec();
    exercise(frame.file())
}

/// A compressed block.
pub fn packed(bytes: &[u8]) -> bool {
    let mut frame = Frame::sound();
    let mut input = Input(bytes);
    frame.blocks[0].1 = input.u8() % 4;
    frame.blocks[0].0 = input.rest().to_vec();
    exercise(frame.file())
}

/// An index.
pub fn index(bytes: &[u8]) -> bool {
    exercise(Frame { index: Some(bytes.to_vec()), ..Frame::sound() }.file())
}

/// A Bloom filter.
pub fn filter(bytes: &[u8]) -> bool {
    exercise(Frame { filter: bytes.to_vec(), ..Frame::sound() }.file())
}

/// Range tombstones.
pub fn ranges(bytes: &[u8]) -> bool {
    let mut frame = Frame { ranges: bytes.to_vec(), ..Frame::sound() };
    // The properties say how many there are: eight bytes before the last property.
    let count = frame.properties.len() - 11;
    frame.properties[count] = bytes.first().copied().unwrap_or(0);
    exercise(frame.file())
}

/// Properties.
pub fn properties(bytes: &[u8]) -> bool {
    exercise(Frame { properties: bytes.to_vec(), ..Frame::sound() }.file())
}

/// A footer, and the bytes before it.
pub fn file(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let mut footer = input.take(FOOTER_LEN - 16).to_vec();
    footer.resize(FOOTER_LEN - 16, 0);
    exercise(end(input.rest().to_vec(), &footer))
}

/// Opens the file and reads it in every way.
fn exercise(file: Vec<u8>) -> bool {
    // Every step of a walk takes an entry, and an entry takes twelve bytes of a block that has at
    // most 255 times its compressed length.
    let steps = file.len() * 255;
    let opened = SstReader::open_unknown(Arc::new(MemFile(file)), Path::new("1.sst"));
    expect_answer(&opened);
    let Ok(reader) = opened.map(Arc::new) else { return false };
    let cache = Arc::new(BlockCache::new(1 << 16));
    let mut keys: Vec<Vec<u8>> =
        [&b""[..], b"apple", b"pl", b"plum", b"\xff\xff"].map(Vec::from).into();
    let mut cursor = reader.cursor(&cache, true);
    let forward = walk(steps, |first| {
        if first {
            cursor.seek_first()?
        } else {
            cursor.next()?
        }
        if cursor.valid() && keys.len() < 16 {
            keys.push(cursor.key().to_vec());
        }
        Ok(cursor.valid())
    });
    expect_answer(&forward);
    let backward = walk(steps, |first| {
        if first {
            cursor.seek_last()?
        } else {
            cursor.prev()?
        }
        Ok(cursor.valid())
    });
    expect_answer(&backward);
    if let (Ok(forward), Ok(backward)) = (&forward, &backward) {
        assert_eq!(forward, backward, "as many entries from both ends");
    }
    let mut stats = ReadStats::default();
    for key in &keys {
        expect_answer(&reader.get(key, Seq::MAX, &cache, true, &mut stats));
        expect_answer(&reader.get(key, Seq(1), &cache, true, &mut stats));
        expect_answer(&cursor.seek(key, Trailer::seek(Seq::MAX)));
        if cursor.valid() {
            expect_answer(&cursor.prev());
        }
        if cursor.valid() {
            expect_answer(&cursor.next());
        }
    }
    let mut sound = forward.is_ok();
    for range in [KeyRange::closed("", vec![0xff; 4]), KeyRange::closed("b", "pl")] {
        let _ = reader.bytes_in(&range);
        let scanned = scan(reader.clone(), range, steps);
        expect_answer(&scanned);
        sound &= scanned.is_ok();
    }
    sound
}

/// Steps until there is nothing more; how many there were.
fn walk(most: usize, mut step: impl FnMut(bool) -> Result<bool>) -> Result<usize> {
    let mut count = 0;
    while step(count == 0)? {
        count += 1;
        assert!(count <= most, "a walk does not end");
    }
    Ok(count)
}

fn scan(reader: Arc<SstReader>, range: KeyRange, steps: usize) -> Result<usize> {
    let mut scanner = Scanner::new(vec![(reader, range)], 8192, 2);
    walk(2 * steps, |_| {
        match scanner.advance()? {
            Scan::Entry => drop((scanner.key().len(), scanner.trailer(), scanner.value().len())),
            Scan::Done => return Ok(false),
            Scan::NeedMore => {
                while let Some(request) = scanner.next_read() {
                    let ticket = request.ticket();
                    scanner.supply(ticket, request.run()?);
                }
            }
        }
        Ok(true)
    })
}
