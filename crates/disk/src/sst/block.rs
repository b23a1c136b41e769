//! Reads blocks: a point lookup that copies nothing, and a cursor.
//!
//! Both find a restart point by binary search and walk over the entries from there. The bytes may
//! be damaged in any way: every length is compared with the bytes at hand, and damage is reported,
//! not skipped. `block_builder` describes the layout.
//!
//! Threads and locks: a block is immutable and shared. A cursor belongs to one thread.

use super::block_builder::BLOCK_TAIL_LEN;
use super::format::{Damage, common_prefix, u32_at, varint_at};
use bytes::Bytes;
use std::cmp::Ordering;
use vlsm_core::key::EXPIRY_LEN;
use vlsm_core::{KeyBuf, Kind, Trailer, key};

/// The places of the parts of a block's payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Length of the entries, which begin at offset 0.
    pub(crate) entries: usize,
    restarts_at: usize,
    pub(crate) restart_count: usize,
}

impl Layout {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Damage> {
        let at = payload.len().checked_sub(BLOCK_TAIL_LEN).ok_or("a block is too short")?;
        let restart_count = u32_at(payload, at).ok_or("a block is too short")? as usize;
        let entries = u32_at(payload, at + 4).ok_or("a block is too short")? as usize;
        let restarts_at = restart_count
            .checked_mul(4)
            .and_then(|len| at.checked_sub(len))
            .filter(|restarts_at| entries <= *restarts_at && restart_count > 0 && entries > 0)
            .ok_or("a block's restart points do not fit")?;
        Ok(Self { entries, restarts_at, restart_count })
    }

    /// The offset of the entry at this restart point.
    pub(crate) fn restart(&self, payload: &[u8], index: usize) -> Result<usize, Damage> {
        match u32_at(payload, self.restarts_at + 4 * index) {
            Some(at) if (at as usize) < self.entries => Ok(at as usize),
            _ => Err("a restart point lies outside its block"),
        }
    }
}

/// One entry as it is stored in a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawEntry {
    /// Bytes that the key shares with the key of the previous entry.
    pub(crate) shared: usize,
    /// The offset of the rest of the key.
    pub(crate) key_at: usize,
    /// Sequence number and kind; the kind is a known one.
    pub(crate) trailer: Trailer,
    /// The offset of the value.
    pub(crate) value_at: usize,
    /// The offset of the next entry.
    pub(crate) end: usize,
}

impl RawEntry {
    /// The part of the key that is not shared.
    #[inline]
    pub(crate) fn suffix<'a>(&self, entries: &'a [u8]) -> &'a [u8] {
        &entries[self.key_at..self.value_at - 8]
    }
}

/// Reads the lengths of the entry at `at`: bytes shared, bytes not shared, bytes of the value; and
/// the offset after them. Most are of one byte, and the last one of one or two.
#[inline(always)]
fn lengths_at(entries: &[u8], at: usize) -> Option<(usize, usize, usize, usize)> {
    if let Some([shared, unshared, low, high]) = entries.get(at..)?.first_chunk::<4>()
        && (shared | unshared) < 0x80
        && (low & high) < 0x80
    {
        let (shared, unshared) = (usize::from(*shared), usize::from(*unshared));
        return Some(match *low < 0x80 {
            true => (shared, unshared, usize::from(*low), at + 3),
            false => (shared, unshared, usize::from(low & 0x7f) | usize::from(*high) << 7, at + 4),
        });
    }
    any_lengths_at(entries, at)
}

/// The same, for lengths of any size.
#[cold]
fn any_lengths_at(entries: &[u8], at: usize) -> Option<(usize, usize, usize, usize)> {
    let (shared, at) = varint_at(entries, at)?;
    let (unshared, at) = varint_at(entries, at)?;
    let (value_len, at) = varint_at(entries, at)?;
    Some((shared, unshared, value_len, at))
}

/// Decodes the entry at `at`.
#[inline(always)]
pub(crate) fn entry_at(entries: &[u8], at: usize) -> Result<RawEntry, Damage> {
    const CUT: Damage = "an entry is cut off";
    let (shared, unshared, value_len, key_at) = lengths_at(entries, at).ok_or(CUT)?;
    let value_at = key_at + unshared + 8;
    let end = value_at + value_len;
    if end > entries.len() {
        return Err(CUT);
    }
    let trailer = entries[..value_at].last_chunk::<8>().ok_or(CUT)?;
    let trailer = Trailer(u64::from_le_bytes(*trailer));
    if trailer.kind_number() > Kind::Merge as u8 {
        check_kind(trailer, value_len)?;
    }
    Ok(RawEntry { shared, key_at, trailer, value_at, end })
}

/// Refuses entries of kinds that blocks do not have.
#[cold]
fn check_kind(trailer: Trailer, value_len: usize) -> Result<(), Damage> {
    match trailer.kind() {
        Some(Kind::Delete | Kind::Put | Kind::Merge) => Ok(()),
        Some(Kind::PutExpiring) if value_len >= EXPIRY_LEN => Ok(()),
        Some(Kind::PutExpiring) => Err("an entry that expires does not say when"),
        Some(Kind::RangeDelete) => Err("a range tombstone lies among the entries"),
        Some(Kind::Kept) => Err("an entry is of a kind that only WALs have"),
        // The reader decodes the place.
        Some(Kind::Logged) => Ok(()),
        None => Err("an entry has an unknown kind: it was written by a newer version"),
    }
}

/// Builds the key of `entry` in `key`, which holds the key of the previous entry.
#[inline(always)]
pub(crate) fn assemble(key: &mut KeyBuf, entries: &[u8], entry: &RawEntry) -> Result<(), Damage> {
    if entry.shared > key.len() {
        return Err("an entry shares more than the key before it has");
    }
    let suffix = entry.suffix(entries);
    if entry.shared + suffix.len() > key::MAX_KEY_LEN {
        return Err("a key is too long");
    }
    key.replace(entry.shared, suffix);
    Ok(())
}

/// The result of a point lookup in one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The entry.
    Found(Trailer, Bytes),
    /// The key has no such entry.
    Absent,
    /// All entries of the block come before the target.
    Beyond,
}

/// A block's payload, not compressed.
#[derive(Debug, Clone)]
pub struct Block {
    data: Bytes,
    layout: Layout,
    /// Bytes of memory that it keeps.
    weight: u32,
}

impl Block {
    /// A block with this payload, which keeps `weight` bytes of memory.
    pub(crate) fn new(data: Bytes, weight: usize) -> Result<Self, Damage> {
        let layout = Layout::parse(&data)?;
        Ok(Self { data, layout, weight: u32::try_from(weight).unwrap_or(u32::MAX) })
    }

    /// Bytes of memory that it keeps.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight as usize
    }

    /// All its bytes.
    pub(super) fn payload(&self) -> &[u8] {
        &self.data
    }

    /// Fetches what a scan from here on needs: all its bytes, or if they are many, those on which
    /// a search begins.
    pub(crate) fn fetch(&self) {
        match self.data.len() <= FETCHED_WHOLE {
            true => fetch(&self.data),
            false => self.fetch_restarts(),
        }
    }

    /// Fetches the entries at its restart points, or at some of them if they are many.
    fn fetch_restarts(&self) {
        let (data, layout) = (&self.data, &self.layout);
        let step = layout.restart_count.div_ceil(RESTARTS_FETCHED).max(1);
        let places = (0..layout.restart_count).step_by(step);
        let first = |index| layout.restart(data, index).map_or(0, |at| data[at]);
        std::hint::black_box(places.fold(0, |sum, index| sum ^ first(index)));
    }

    #[inline]
    fn entries(&self) -> &[u8] {
        &self.data[..self.layout.entries]
    }

    /// The restart point at which the search for the first entry at or after the target begins. It
    /// is the last restart point before the target, or the first one.
    fn restart_before(&self, target: &[u8], trailer: Trailer) -> Result<usize, Damage> {
        let (mut low, mut high) = (0, self.layout.restart_count);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let at = self.layout.restart(&self.data, middle)?;
            let entry = entry_at(self.entries(), at)?;
            let suffix = entry.suffix(self.entries());
            if key::compare(suffix, entry.trailer, target, trailer) == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.layout.restart(&self.data, low)
    }

    /// The first entry at or after (target, trailer), if its key is the target.
    ///
    /// The lookup builds no key. `matched` is the number of bytes that the last key has in common
    /// with the target. That key comes before the target, so a key that shares more bytes with it
    /// comes before the target as well.
    pub(crate) fn get(&self, target: &[u8], trailer: Trailer) -> Result<Lookup, Damage> {
        let entries = self.entries();
        // All restart points, then all entries from one of them on: a search that fetches each
        // entry when it looks at it waits for memory at each.
        self.fetch_restarts();
        let mut at = self.restart_before(target, trailer)?;
        fetch(&entries[at..entries.len().min(at + INTERVAL_FETCHED)]);
        let mut matched = 0;
        let mut key_len = 0;
        while at < entries.len() {
            let entry = entry_at(entries, at)?;
            let suffix = entry.suffix(entries);
            if entry.shared > key_len {
                return Err("an entry shares more than the key before it has");
            }
            key_len = entry.shared + suffix.len();
            at = entry.end;
            if entry.shared > matched {
                continue;
            }
            let rest = &target[entry.shared..];
            let more = common_prefix(rest, suffix);
            matched = entry.shared + more;
            match rest.get(more).cmp(&suffix.get(more)) {
                Ordering::Less => return Ok(Lookup::Absent),
                Ordering::Equal if entry.trailer <= trailer => {
                    let value = self.data.slice(entry.value_at..entry.end);
                    return Ok(Lookup::Found(entry.trailer, value));
                }
                _ => {}
            }
        }
        Ok(Lookup::Beyond)
    }
}

/// Fetches bytes into the processor's cache. A search waits for one line of the cache after the
/// other; these loads are independent, so the processor does several at a time.
#[inline]
fn fetch(bytes: &[u8]) {
    const LINE: usize = 64;
    std::hint::black_box(bytes.iter().step_by(LINE).fold(0, |sum, byte| sum ^ byte));
}

/// The most bytes of a block that is fetched as a whole.
const FETCHED_WHOLE: usize = 16 << 10;

/// The most restart points whose entries are fetched before a search.
const RESTARTS_FETCHED: usize = 16;

/// The most bytes that are fetched from the restart point on at which a search ends.
const INTERVAL_FETCHED: usize = 1024;

/// A position in a block, or beyond either end.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    block: Block,
    key: KeyBuf,
    trailer: Trailer,
    /// The offset of the entry; none if the cursor is on no entry.
    at: Option<usize>,
    value_at: usize,
    end: usize,
    behind: Behind,
}

/// The entries from a restart point to a cursor that goes backwards, so that each is decoded once.
#[derive(Debug, Default)]
struct Behind {
    /// Each entry, its offset, and the end of its key in `keys`.
    entries: Vec<(RawEntry, usize, usize)>,
    keys: Vec<u8>,
}

impl Behind {
    fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }

    fn push(&mut self, entry: RawEntry, at: usize, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.entries.push((entry, at, self.keys.len()));
    }

    /// Takes the last entry off, with its offset and its key.
    fn pop(&mut self, key: &mut KeyBuf) -> Option<(RawEntry, usize)> {
        let (entry, at, key_end) = self.entries.pop()?;
        let key_from = self.entries.last().map_or(0, |before| before.2);
        key.replace(0, &self.keys[key_from..key_end]);
        self.keys.truncate(key_from);
        Some((entry, at))
    }
}

impl BlockCursor {
    pub(crate) fn new(block: Block) -> Self {
        let (key, behind) = (KeyBuf::default(), Behind::default());
        Self { block, key, trailer: Trailer::LAST, at: None, value_at: 0, end: 0, behind }
    }

    /// Goes to another block, without a position in it.
    pub(crate) fn set_block(&mut self, block: Block) {
        self.block = block;
        self.at = None;
        self.behind.clear();
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn trailer(&self) -> Trailer {
        self.trailer
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        &self.block.data[self.value_at..self.end]
    }

    pub(crate) fn value_shared(&self) -> Bytes {
        self.block.data.slice(self.value_at..self.end)
    }

    fn load(&mut self, at: usize) -> Result<(), Damage> {
        self.at = None;
        let entries = &self.block.data[..self.block.layout.entries];
        if at >= entries.len() {
            return Ok(());
        }
        let entry = entry_at(entries, at)?;
        assemble(&mut self.key, entries, &entry)?;
        self.trailer = entry.trailer;
        (self.value_at, self.end) = (entry.value_at, entry.end);
        self.at = Some(at);
        Ok(())
    }

    fn load_restart(&mut self, at: usize) -> Result<(), Damage> {
        self.key.clear();
        self.load(at)
    }

    pub(crate) fn seek_first(&mut self) -> Result<(), Damage> {
        self.load_restart(0)
    }

    pub(crate) fn seek_last(&mut self) -> Result<(), Damage> {
        let layout = self.block.layout;
        self.load_restart(layout.restart(&self.block.data, layout.restart_count - 1)?)?;
        while self.end < layout.entries {
            self.load(self.end)?;
        }
        Ok(())
    }

    pub(crate) fn seek(&mut self, target: &[u8], trailer: Trailer) -> Result<(), Damage> {
        self.load_restart(self.block.restart_before(target, trailer)?)?;
        while self.valid()
            && key::compare(&self.key, self.trailer, target, trailer) == Ordering::Less
        {
            self.load(self.end)?;
        }
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Result<(), Damage> {
        self.load(self.end)
    }

    /// Goes to the next entry if the block has one and it is not damaged. Otherwise returns false
    /// and stays.
    #[inline]
    pub(crate) fn step(&mut self) -> bool {
        let entries = &self.block.data[..self.block.layout.entries];
        if self.at.is_none() || self.end >= entries.len() {
            return false;
        }
        let Ok(entry) = entry_at(entries, self.end) else { return false };
        if assemble(&mut self.key, entries, &entry).is_err() {
            return false;
        }
        self.at = Some(self.end);
        self.trailer = entry.trailer;
        (self.value_at, self.end) = (entry.value_at, entry.end);
        true
    }

    /// Goes to the previous entry. Where that is not known, all entries from the last restart point
    /// before this one are decoded and kept for the next calls.
    pub(crate) fn prev(&mut self) -> Result<(), Damage> {
        let Some(here) = self.at.take().filter(|at| *at > 0) else { return Ok(()) };
        if self.behind.entries.last().is_none_or(|(before, ..)| before.end != here) {
            self.look_behind(here)?;
        }
        if let Some((entry, at)) = self.behind.pop(&mut self.key) {
            self.trailer = entry.trailer;
            (self.value_at, self.end) = (entry.value_at, entry.end);
            self.at = Some(at);
        }
        Ok(())
    }

    fn look_behind(&mut self, here: usize) -> Result<(), Damage> {
        self.behind.clear();
        let layout = self.block.layout;
        let (mut low, mut high) = (0, layout.restart_count);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if layout.restart(&self.block.data, middle)? < here {
                low = middle;
            } else {
                high = middle;
            }
        }
        let entries = &self.block.data[..layout.entries];
        let mut at = layout.restart(&self.block.data, low)?;
        self.key.clear();
        while at < here {
            let entry = entry_at(entries, at)?;
            assemble(&mut self.key, entries, &entry)?;
            self.behind.push(entry, at, &self.key);
            at = entry.end;
        }
        if at == here { Ok(()) } else { Err("a restart point is no entry's start") }
    }
}
