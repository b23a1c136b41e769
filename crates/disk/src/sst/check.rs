//! Checks an SST completely, for `verify`.
//!
//! [`SstReader::open`] has verified footer, index, filter and properties. This module checks the
//! rest:
//! 1. Each block, in the order of the file: its checksum, its layout, its restart points.
//! 2. Each entry: it comes after the previous one, the index leads to its block, and the filter
//!    knows it. A value that is in a WAL (`logged`) is as it was.
//! 3. The sums over all entries: they equal those of the properties.
//!
//! Damage is reported and then skipped, so that all of it is reported. Facts that a damaged block
//! hides are not checked: the order of the next entry against it, and the sums. Memory: a megabyte
//! of the file, or one block if that is longer.

use super::block::{Layout, assemble, entry_at};
use super::format::{Compression, Damage, Properties, decompress, open_block};
use super::logged;
use super::reader::{ReadStats, SstReader, read};
use crate::aligned::{AlignedBuf, align_down, align_up};
use std::ops::Range;
use vlsm_core::{Error, KeyBuf, Kind, Result, Seq, Trailer, key};

/// Bytes of one read.
const READ_LEN: u64 = 1 << 20;

/// The callback for problems: the offset in the file and a description.
pub type Tell<'a> = dyn FnMut(u64, &str) + 'a;

/// Counts of a file's entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Distinct user keys.
    pub keys: u64,
    /// Entries that are neither puts nor deletes: merge operands, values that expire, and values
    /// that are in WALs.
    pub special: u64,
}

/// Checks all blocks of an open SST. `progress` receives the number of bytes that are checked.
pub fn check(reader: &SstReader, problem: &mut Tell<'_>, progress: &mut dyn FnMut(u64)) -> Found {
    let found = Properties { seq_min: Seq::MAX, ..Properties::default() };
    let counted = Found::default();
    let mut walk =
        Walk { reader, problem, key: KeyBuf::default(), last: None, gaps: false, found, counted };
    let blocks = reader.block_count();
    let mut first = 0;
    while first < blocks {
        let start = reader.extent(first).start;
        let mut end = first + 1;
        while end < blocks && reader.extent(end).end - start <= READ_LEN {
            end += 1;
        }
        let chunk = walk.load(first..end);
        for block in first..end {
            // If the system cannot read a chunk, it may still read parts of it.
            let alone = chunk.is_err().then(|| walk.load(block..block + 1));
            match alone.as_ref().unwrap_or(&chunk) {
                Ok((from, bytes)) => walk.block(block, *from, bytes),
                Err(Error::Io { source, .. }) => {
                    walk.unreadable(block, &format!("the system cannot read it: {source}"));
                }
                Err(error) => walk.unreadable(block, &error.to_string()),
            }
        }
        first = end;
        progress(reader.extent(end - 1).end);
    }
    walk.sums();
    walk.counted
}

struct Walk<'a, 'b> {
    reader: &'a SstReader,
    problem: &'a mut Tell<'b>,
    /// The key of the current entry.
    key: KeyBuf,
    /// The last entry; none if the previous block is damaged.
    last: Option<(Vec<u8>, Trailer)>,
    /// Whether a block could not be checked.
    gaps: bool,
    /// The properties as the entries have them.
    found: Properties,
    counted: Found,
}

impl Walk<'_, '_> {
    /// Reads these blocks. Returns an offset and the bytes from there on.
    fn load(&self, blocks: Range<usize>) -> Result<(u64, AlignedBuf)> {
        let from = align_down(self.reader.extent(blocks.start).start);
        let to = align_up(self.reader.extent(blocks.end - 1).end);
        Ok((from, read(&**self.reader.file(), self.reader.path(), from..to)?))
    }

    fn unreadable(&mut self, block: usize, what: &str) {
        (self.problem)(self.reader.extent(block).start, what);
        (self.last, self.gaps) = (None, true);
    }

    /// Checks one block of a chunk that begins at `from`.
    fn block(&mut self, block: usize, from: u64, chunk: &[u8]) {
        let extent = self.reader.extent(block);
        let stored = &chunk[(extent.start - from) as usize..(extent.end - from) as usize];
        let mut raw = Vec::new();
        let payload = open_block(stored, self.reader.uid(), extent.start);
        let payload = payload.and_then(|(payload, compression)| match compression {
            Compression::None => Ok(payload),
            _ => decompress(compression, payload, &mut raw).map(|()| &raw[..]),
        });
        match payload.and_then(|payload| self.entries(block, payload)) {
            Ok(None) => {}
            Ok(Some(what)) => (self.problem)(extent.start, what),
            Err(what) => self.unreadable(block, what),
        }
    }

    /// Checks the entries of a block. Returns the first problem of an entry, or as an error a
    /// problem of the whole block.
    fn entries(&mut self, block: usize, payload: &[u8]) -> Result<Option<Damage>, Damage> {
        let layout = Layout::parse(payload)?;
        let entries = &payload[..layout.entries];
        let (mut at, mut restart, mut wrong) = (0, 0, None);
        self.key.clear();
        while at < entries.len() {
            let entry = entry_at(entries, at)?;
            if restart < layout.restart_count && layout.restart(payload, restart)? == at {
                if entry.shared != 0 {
                    return Err("the entry at a restart point has no whole key");
                }
                restart += 1;
            }
            assemble(&mut self.key, entries, &entry)?;
            let value = &entries[entry.value_at..entry.end];
            if logged::is_logged(entry.trailer)
                && let Err(error) = self.reader.logged(block, value)
            {
                (self.problem)(self.reader.extent(block).start, &error.to_string());
            }
            wrong = wrong.or(self.entry(block, entry.trailer, value.len()).err());
            at = entry.end;
        }
        match restart == layout.restart_count {
            true => Ok(wrong),
            false => Err("a restart point is no entry's start"),
        }
    }

    fn entry(&mut self, block: usize, trailer: Trailer, value_len: usize) -> Result<(), Damage> {
        let Self { reader, key, found, .. } = self;
        let key = &key[..];
        let known = self.last.is_some();
        let same_key = self.last.as_ref().is_some_and(|(last, _)| &last[..] == key);
        let ordered = match &self.last {
            Some((last, before)) => key::compare(last, *before, key, trailer).is_lt(),
            None => true,
        };
        if found.entries == 0 && !self.gaps {
            found.smallest = key.to_vec();
        }
        found.entries += 1;
        let plain = matches!(trailer.kind(), Some(Kind::Put | Kind::Delete));
        self.counted.keys += u64::from(!same_key);
        self.counted.special += u64::from(!plain);
        found.tombstones += u64::from(trailer.kind() == Some(Kind::Delete));
        found.key_bytes += key.len() as u64;
        found.value_bytes += value_len as u64;
        found.seq_min = found.seq_min.min(trailer.seq());
        found.seq_max = found.seq_max.max(trailer.seq());
        let (last, before) = self.last.get_or_insert_with(|| (Vec::new(), trailer));
        last.clear();
        last.extend_from_slice(key);
        *before = trailer;
        // The versions of one key may continue behind the block in which the index finds it.
        let place = reader.find(key);
        if !ordered {
            Err("its entries are out of order")
        } else if place > block || place < block && !same_key && known {
            Err("the index leads to another block for one of its keys")
        } else if !same_key && !reader.may_contain(key, &mut ReadStats::default()) {
            Err("the filter does not know one of its keys")
        } else {
            Ok(())
        }
    }

    /// Compares the sums with the properties.
    fn sums(&mut self) {
        let said = &self.reader.summary().properties;
        if self.gaps {
            return;
        }
        let largest = self.last.take().map_or_else(Vec::new, |(key, _)| key);
        let (found, at) = (&self.found, self.reader.summary().bytes.0);
        if (found.entries, found.tombstones) != (said.entries, said.tombstones) {
            let what = format!(
                "it holds {} entries, {} of them tombstones; its properties say {} and {}",
                found.entries, found.tombstones, said.entries, said.tombstones
            );
            (self.problem)(at, &what);
            return;
        }
        let sums = |sums: &Properties| (sums.key_bytes, sums.value_bytes);
        // Range tombstones may extend the bounds. That they are within was checked when the file
        // was opened.
        let bounds = match said.range_tombstones {
            _ if found.entries == 0 => true,
            0 => {
                (&found.smallest, &largest) == (&said.smallest, &said.largest)
                    && (found.seq_min, found.seq_max) == (said.seq_min, said.seq_max)
            }
            _ => {
                (said.smallest <= found.smallest && largest <= said.largest)
                    && (said.seq_min <= found.seq_min && found.seq_max <= said.seq_max)
            }
        };
        if sums(found) != sums(said) || !bounds {
            (self.problem)(at, "its properties are not those of its entries");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sst::format::checksum;
    use crate::sst::tests::NotingFile;
    use crate::sst::{SstOptions, SstWriter};
    use std::path::Path;
    use vlsm_core::FileUid;

    const UID: FileUid = FileUid(77);

    /// A file of several blocks. One key has more versions than a block holds.
    fn file(compression: Compression) -> Vec<u8> {
        let options = SstOptions { block_bytes: 512, compression, ..SstOptions::default() };
        let mut writer = SstWriter::new(options, UID);
        for n in 0..600_u64 {
            let (key, seq) = if n < 400 { (n, 1) } else { (400, 1000 - n) };
            let kind = if n % 7 == 0 { Kind::Delete } else { Kind::Put };
            let value = if kind == Kind::Put { &b"a value, again and again"[..] } else { b"" };
            let key = format!("key{key:04}");
            writer.add(key.as_bytes(), Trailer::new(Seq(seq), kind), value);
        }
        writer.finish().chunks.iter().flat_map(|(_, chunk)| chunk.iter().copied()).collect()
    }

    fn problems(bytes: &[u8]) -> Result<Vec<(u64, String)>> {
        let file = NotingFile::new(bytes);
        let reader = SstReader::open_unknown(file, Path::new("1.sst"))?;
        let mut found = Vec::new();
        let mut at = 0;
        check(&reader, &mut |offset, what| found.push((offset, what.to_owned())), &mut |done| {
            assert!(done > at);
            at = done;
        });
        assert_eq!(at, reader.extent(reader.block_count() - 1).end);
        Ok(found)
    }

    fn reader(bytes: &[u8]) -> SstReader {
        SstReader::open_unknown(NotingFile::new(bytes), Path::new("1.sst")).unwrap()
    }

    /// Changes a block and corrects its checksum.
    fn forge(bytes: &mut [u8], block: usize, change: impl FnOnce(&mut [u8])) -> u64 {
        let extent = reader(bytes).extent(block);
        let stored = &mut bytes[extent.start as usize..extent.end as usize];
        let covered = stored.len() - 8;
        change(&mut stored[..covered]);
        let sum = checksum(UID, extent.start, &stored[..covered]);
        stored[covered..].copy_from_slice(&sum.to_le_bytes());
        extent.start
    }

    #[test]
    fn a_sound_file_has_no_problem_and_no_flipped_byte_passes() {
        for compression in [Compression::None, Compression::Lz4] {
            let mut bytes = file(compression);
            assert_eq!(problems(&bytes).unwrap(), []);
            for at in (0..bytes.len()).step_by(7) {
                bytes[at] ^= 1 << (at % 8);
                assert!(problems(&bytes).map_or(true, |found| !found.is_empty()), "byte {at}");
                bytes[at] ^= 1 << (at % 8);
            }
        }
    }

    #[test]
    fn all_damaged_blocks_are_told_with_their_places() {
        let mut bytes = file(Compression::Lz4);
        let all = reader(&bytes);
        assert!(all.block_count() > 6);
        let starts = [1, 2, 5].map(|block| all.extent(block).start);
        starts.iter().for_each(|start| bytes[*start as usize + 3] ^= 8);
        let found = problems(&bytes).unwrap();
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), starts);
        assert!(found.iter().all(|(_, what)| what.contains("checksum")), "{found:?}");
    }

    #[test]
    fn what_checksums_cannot_see() {
        let sound = file(Compression::None);
        let all = reader(&sound);
        let has = |bytes: &[u8], at: u64, says: &str| {
            let found = problems(bytes).unwrap();
            let told = found.iter().any(|(offset, what)| *offset == at && what.contains(says));
            assert!(told, "{says}: {found:?}");
        };
        // The block's first key is key0NNN. Each length is one byte, so the key begins at offset 3.
        let mut bytes = sound.clone();
        let at = forge(&mut bytes, 2, |block| block[3] = b'a');
        has(&bytes, at, "out of order");
        let mut bytes = sound.clone();
        let at = forge(&mut bytes, 2, |block| block[3] = b'z');
        has(&bytes, at, "the index leads to another block");
        // A delete becomes a put, or a put becomes a delete.
        let mut bytes = sound.clone();
        forge(&mut bytes, 0, |block| block[3 + 7] ^= 1);
        has(&bytes, sound.len() as u64, "its properties say 600 and 86");
        // A later sequence number.
        let mut bytes = sound.clone();
        forge(&mut bytes, 0, |block| block[3 + 7 + 2] ^= 0x10);
        has(&bytes, sound.len() as u64, "properties are not those");
        // A restart point that is no entry's start.
        let mut bytes = sound.clone();
        let at = forge(&mut bytes, 1, |block| {
            let second = block.len() - 1 - 8 - 4;
            block[second] ^= 1;
        });
        has(&bytes, at, "restart");
        // A key that the filter does not know, between its neighbours.
        let mut bytes = sound;
        let last = all.block_count() - 1;
        let mut unknown = 0;
        for byte in 1..b'0' {
            let mut forged = bytes.clone();
            let at = forge(&mut forged, 0, |block| block[3 + 6] = byte);
            let found = problems(&forged).unwrap();
            unknown += usize::from(found.iter().any(|f| f.0 == at && f.1.contains("filter")));
        }
        assert!(unknown > 30, "{unknown} of 47 foreign keys were seen");
        forge(&mut bytes, last, |_| {});
        assert_eq!(problems(&bytes).unwrap(), []);
    }
}
