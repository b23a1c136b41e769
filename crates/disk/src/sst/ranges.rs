//! The section of an SST that holds its range tombstones.
//!
//! ```text
//! ranges   := count varint · fragment*                     of length 0 when there is none
//! fragment := lo · hi · count varint · sequence number varint*      a key is its length and bytes
//! ```
//!
//! Fragments are disjoint and in key order. Their upper ends are exclusive. The sequence numbers of
//! a fragment strictly descend. Keys are stored whole, so the memory of a reader is bounded by the
//! bytes that it read: all keys are slices of one buffer. A reader loads the section when it is
//! opened.
//!
//! Threads and locks: a section is immutable once read.

use super::format::Damage;
use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use bytes::Bytes;
use vlsm_core::key::{MAX_END_LEN, Seq};
use vlsm_core::{KeyRange, RangeTombstones};

/// The first lower end and the last upper end.
pub(super) type Bounds = (Vec<u8>, Vec<u8>);

/// Collects the fragments of a file.
#[derive(Default)]
pub(super) struct RangesBuilder {
    bytes: Vec<u8>,
    count: u64,
    bounds: Option<Bounds>,
}

impl RangesBuilder {
    /// Appends a fragment, which must be after the last one.
    pub(super) fn add(&mut self, lo: &[u8], hi: &[u8], seqs: &[Seq]) {
        debug_assert!(lo < hi, "a fragment is not empty");
        debug_assert!(!seqs.is_empty() && seqs.is_sorted_by(|a, b| a > b), "newest first");
        match &mut self.bounds {
            Some((_, end)) => {
                debug_assert!(end.as_slice() <= lo, "fragments do not ascend");
                end.clear();
                end.extend_from_slice(hi);
            }
            none => *none = Some((lo.to_vec(), hi.to_vec())),
        }
        put_bytes(&mut self.bytes, lo);
        put_bytes(&mut self.bytes, hi);
        put_varint(&mut self.bytes, seqs.len() as u64);
        seqs.iter().for_each(|seq| put_varint(&mut self.bytes, seq.0));
        self.count += 1;
    }

    /// Number of fragments.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        if self.count == 0 { 0 } else { self.bytes.len() + 5 }
    }

    /// The section and its bounds.
    pub(super) fn finish(self) -> (Vec<u8>, Option<Bounds>) {
        let mut out = Vec::with_capacity(self.len());
        if self.count > 0 {
            put_varint(&mut out, self.count);
            out.extend_from_slice(&self.bytes);
        }
        (out, self.bounds)
    }
}

/// Reads a section. If `global` is given, all tombstones have that sequence number.
pub(super) fn decode(
    section: &[u8],
    bounds: &KeyRange,
    global: Option<Seq>,
) -> Result<RangeTombstones, Damage> {
    if section.is_empty() {
        return Ok(RangeTombstones::default());
    }
    let all = read(&Bytes::copy_from_slice(section), global).map_err(|Malformed(what)| what)?;
    match all.range() {
        Some(range) if bounds.covers(&range) => Ok(all),
        Some(_) => Err("a range tombstone lies outside the file's range"),
        None => Err("a section of range tombstones has none"),
    }
}

fn read(section: &Bytes, global: Option<Seq>) -> Result<RangeTombstones, Malformed> {
    let mut reader = Reader::new(section);
    let mut all = RangeTombstones::default();
    let mut end: &[u8] = &[];
    for _ in 0..reader.count()? {
        let (lo, hi) = (reader.bytes()?, reader.bytes()?);
        if lo.len() > MAX_END_LEN || hi.len() > MAX_END_LEN {
            return Err(Malformed("an end of a range tombstone is too long"));
        }
        if lo >= hi || lo < end {
            return Err(Malformed("range tombstones are out of order"));
        }
        end = hi;
        let mut seqs: Vec<Seq> = Vec::new();
        for _ in 0..reader.count()? {
            let seq = Seq(reader.varint()?);
            if seq > Seq::MAX || seqs.last().is_some_and(|newer| *newer <= seq) {
                return Err(Malformed("a range tombstone's sequence numbers are impossible"));
            }
            seqs.push(seq);
        }
        if seqs.is_empty() {
            return Err(Malformed("a range tombstone has no sequence number"));
        }
        if let Some(seq) = global {
            seqs = vec![seq];
        }
        all.insert_all(&section.slice_ref(lo), &section.slice_ref(hi), &seqs);
    }
    if !reader.is_empty() {
        return Err(Malformed("more follows the range tombstones"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Vec<u8> {
        let mut builder = RangesBuilder::default();
        builder.add(b"", b"b", &[Seq(9), Seq(3)]);
        builder.add(b"b", b"dd", &[Seq::MAX]);
        builder.add(b"k", &vec![b'z'; MAX_END_LEN], &[Seq(5)]);
        assert_eq!(builder.count(), 3);
        let (bytes, bounds) = builder.finish();
        assert_eq!(bounds, Some((Vec::new(), vec![b'z'; MAX_END_LEN])));
        bytes
    }

    fn everything() -> KeyRange {
        KeyRange::closed("", vec![255])
    }

    #[test]
    fn fragments_come_back() {
        let all = decode(&section(), &everything(), None).expect("sound");
        let found: Vec<_> = all.iter().map(|(lo, at)| (&lo[..], at.hi.len(), &at.seqs)).collect();
        assert_eq!(found[0], (&b""[..], 1, &vec![Seq(9), Seq(3)]));
        assert_eq!(found[1], (&b"b"[..], 2, &vec![Seq::MAX]));
        assert_eq!(found[2], (&b"k"[..], MAX_END_LEN, &vec![Seq(5)]));
        let renumbered = decode(&section(), &everything(), Some(Seq(77))).expect("sound");
        assert_eq!((renumbered.len(), renumbered.seqs()), (3, Some((Seq(77), Seq(77)))));
        assert!(decode(&[], &everything(), None).is_ok_and(|none| none.is_empty()));
        assert_eq!(RangesBuilder::default().finish(), (Vec::new(), None));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let whole = section();
        for len in 1..whole.len() {
            assert!(decode(&whole[..len], &everything(), None).is_err(), "cut at {len}");
        }
        let crafted: [(&[u8], &str); 9] = [
            (&[0], "has none"),
            (&[200, 1], "count"),
            (&[1, 1, 5, 1, 5, 1, 9], "order"),
            (&[2, 1, 5, 1, 7, 1, 9, 1, 6, 1, 8, 1, 9], "order"),
            (&[1, 1, 5, 1, 7, 0], "no sequence number"),
            (&[1, 1, 5, 1, 7, 100, 9], "count"),
            (&[1, 1, 5, 1, 7, 2, 9, 9], "impossible"),
            (&[1, 1, 5, 1, 7, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1], "impossible"),
            (&[1, 1, 5, 1, 7, 1, 9, 0], "more follows"),
        ];
        for (bytes, why) in crafted {
            let found = decode(bytes, &everything(), None).expect_err(why);
            assert!(found.contains(why), "{found} is not {why}");
        }
        let mut long = RangesBuilder::default();
        long.add(b"k", &vec![b'z'; MAX_END_LEN + 1], &[Seq(5)]);
        assert!(decode(&long.finish().0, &everything(), None).is_err());
        let narrow = KeyRange::half_open("", vec![b'z'; MAX_END_LEN - 1]);
        assert!(decode(&whole, &narrow, None).is_err(), "outside the file's range");
    }
}
