//! Selects the hot keys of the memtables that a flush takes; they stay in memory (`write/keep`).
//!
//! Source: "TRIAD: Creating Synergies Between Memory, Disk and Log in Log Structured Key-Value
//! Stores" (2017), TRIAD-MEM. Rules:
//! 1. a first pass over the memtables counts, for each number of versions, the keys with this
//!    number of versions and their bytes. A key counts if its newest version is a put that does not
//!    expire, has an older version, and is not larger than [`PART`];
//! 2. the keys with the most versions are hot, as long as they are at most the given share of all
//!    keys, and their bytes at most half of the memtables'. Among keys with equally many versions
//!    the first ones in key order are taken;
//! 3. a second pass hands the newest versions of hot keys to [`Keeps`], [`PART`] bytes at a time.
//!    It may decline any of them. Accepted versions are recorded in the oldest of the memtables.
//!
//! Memory: a counter for each number of versions, and one part. A step is bounded in bytes, and
//! does not wait for the device: while a part is written to the WAL, the stage is blocked.
//!
//! No key is hot if a memtable has a large batch as a part, or entries that are not in the WAL,
//! because logging some of these entries would tear their batches.

use crate::memtable::{Memtable, MemtableCursor};
use crate::read::merge_cursor::{Direction, MergeCursor};
use std::sync::Arc;
use vlsm_core::{Bytes, Kind, Result, Seq, Trailer, TreeId};
use vlsm_disk::Pending;

/// Bytes of keys and values that are kept in one call, during which the sequencing step is held.
const PART: usize = 16 << 10;
/// Keys with at least this many versions are counted together.
const VERSIONS_MAX: usize = 255;

/// The newest version of a hot key.
pub(crate) struct Hot {
    pub key: Vec<u8>,
    pub seq: Seq,
    pub value: Vec<u8>,
}

/// The fate of some hot keys.
pub(crate) enum Kept {
    /// This number of keys, with this number of bytes, is in memory and logged; the write to the
    /// WAL is in flight.
    Some(u64, u64, Pending<()>),
    /// None of them, because there is no room at the moment.
    None,
    /// None of them, and no others of these memtables.
    Never,
}

/// Keeps hot keys in memory.
pub(crate) trait Keeps: Send + Sync {
    /// Copies entries of memtables that are being flushed into the active memtable and the WAL, and
    /// records the accepted entries in the oldest of these memtables.
    fn keep(&self, tree: TreeId, flushed: &[Arc<Memtable>], hot: &[Hot]) -> Kept;
}

/// The share of keys that flushes leave in memory, and the part that keeps them.
#[derive(Clone)]
pub(crate) struct HotKeys {
    /// The largest share of the keys of flushed memtables that may be hot.
    pub share: f64,
    pub keeps: Arc<dyn Keeps>,
}

/// The keys with the same number of versions.
#[derive(Clone, Copy, Default)]
struct Count {
    keys: u64,
    bytes: u64,
}

/// The current key of the walk: its newest version, and the number of its versions.
#[derive(Default)]
struct Current {
    key: Vec<u8>,
    /// Filled in the second pass only.
    value: Vec<u8>,
    /// The bytes of the key and the value.
    bytes: u64,
    trailer: Option<Trailer>,
    versions: usize,
}

impl Current {
    /// Its sequence number and number of versions, if it may be hot.
    fn counts(&self) -> Option<(Seq, usize)> {
        let trailer = self.trailer.filter(|trailer| trailer.kind() == Some(Kind::Put))?;
        let counts = self.versions > 1 && self.bytes <= PART as u64;
        counts.then(|| (trailer.seq(), self.versions.min(VERSIONS_MAX)))
    }
}

/// The outcome of a step of the choice.
pub(crate) enum Chosen {
    /// The step did work; there is more to do.
    Ran,
    /// The step did nothing, because a part is being written to the WAL.
    Blocked,
    /// All hot keys are chosen and kept.
    Done,
}

/// A running choice of hot keys.
pub(crate) struct Choosing {
    tree: TreeId,
    hot: HotKeys,
    memtables: Vec<Arc<Memtable>>,
    entries: MergeCursor<MemtableCursor>,
    begun: bool,
    current: Current,
    /// The number of keys of the memtables.
    keys: u64,
    counts: Box<[Count; VERSIONS_MAX + 1]>,
    /// From the second pass on: the least number of versions of hot keys, and the keys and bytes
    /// with exactly that number that may still be taken.
    least: Option<(usize, Count)>,
    part: Vec<Hot>,
    part_bytes: usize,
    writing: Option<Pending<()>>,
    kept: Count,
}

impl Choosing {
    /// The choice among the keys of these memtables. None if none of them can be hot.
    pub fn of(tree: TreeId, hot: &HotKeys, memtables: &[Arc<Memtable>]) -> Option<Self> {
        let excluded = |memtable: &Arc<Memtable>| memtable.has_parts() || memtable.is_unlogged();
        if memtables.is_empty() || memtables.iter().any(excluded) {
            return None;
        }
        Some(Self {
            tree,
            hot: hot.clone(),
            memtables: memtables.to_vec(),
            entries: MergeCursor::new(
                memtables.iter().map(Memtable::cursor).collect(),
                Direction::Forward,
            ),
            begun: false,
            current: Current::default(),
            keys: 0,
            counts: Box::new([Count::default(); VERSIONS_MAX + 1]),
            least: None,
            part: Vec::new(),
            part_bytes: 0,
            writing: None,
            kept: Count::default(),
        })
    }

    /// The number of kept keys, and their bytes.
    pub fn kept(&self) -> (u64, Bytes) {
        (self.kept.keys, Bytes(self.kept.bytes))
    }

    /// Reads about `quantum` bytes of entries, or keeps one part.
    pub fn step(&mut self, quantum: u64) -> Result<Chosen> {
        if let Some(writing) = self.writing.take() {
            match writing.try_take() {
                Some(written) => written?,
                None => {
                    self.writing = Some(writing);
                    return Ok(Chosen::Blocked);
                }
            }
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.entries.seek_start()?;
        }
        let mut looked = 0;
        while looked < quantum {
            let Some(entry) = self.entries.entry() else {
                return Ok(self.end_pass());
            };
            looked += (entry.key.len() + 8 + entry.value.len()) as u64;
            if self.current.trailer.is_some() && self.current.key == entry.key {
                self.current.versions += 1;
            } else if self.part_bytes >= PART {
                return Ok(self.keep());
            } else {
                self.end_key();
                self.begin_key();
            }
            self.entries.step()?;
        }
        Ok(Chosen::Ran)
    }

    /// Begins a key: the walk is at its newest version.
    fn begin_key(&mut self) {
        let Some(entry) = self.entries.entry() else { return };
        let current = &mut self.current;
        current.key.clear();
        current.key.extend_from_slice(entry.key);
        current.value.clear();
        if self.least.is_some() {
            current.value.extend_from_slice(entry.value);
        }
        current.bytes = (entry.key.len() + entry.value.len()) as u64;
        current.trailer = Some(entry.trailer);
        current.versions = 1;
    }

    /// Ends the current key, after all its versions.
    fn end_key(&mut self) {
        self.keys += u64::from(self.current.trailer.is_some());
        let Some((seq, versions)) = self.current.counts() else { return };
        let bytes = self.current.bytes;
        let Some((least, left)) = &mut self.least else {
            let count = &mut self.counts[versions];
            (count.keys, count.bytes) = (count.keys + 1, count.bytes + bytes);
            return;
        };
        if versions < *least {
            return;
        }
        if versions == *least {
            if left.keys == 0 || left.bytes < bytes {
                return;
            }
            (left.keys, left.bytes) = (left.keys - 1, left.bytes - bytes);
        }
        self.part_bytes += bytes as usize;
        let Current { key, value, .. } = &self.current;
        self.part.push(Hot { key: key.clone(), seq, value: value.clone() });
    }

    /// Ends a pass. The first pass is followed by a second one if any key is hot.
    fn end_pass(&mut self) -> Chosen {
        self.end_key();
        self.current = Current::default();
        if self.least.is_some() {
            return match self.part.is_empty() {
                true => Chosen::Done,
                false => self.keep(),
            };
        }
        self.least = self.threshold();
        self.begun = false;
        if self.least.is_some() { Chosen::Ran } else { Chosen::Done }
    }

    /// Rule 2. None if no key is hot.
    fn threshold(&self) -> Option<(usize, Count)> {
        let bytes: usize = self.memtables.iter().map(|memtable| memtable.bytes()).sum();
        let keys = (self.hot.share * self.keys as f64) as u64;
        let mut left = Count { keys, bytes: bytes as u64 / 2 };
        for versions in (2..=VERSIONS_MAX).rev() {
            let count = self.counts[versions];
            if count.keys > left.keys || count.bytes > left.bytes {
                return (keys > 0).then_some((versions, left));
            }
            (left.keys, left.bytes) = (left.keys - count.keys, left.bytes - count.bytes);
        }
        // All counted keys are hot.
        let any = self.counts.iter().any(|count| count.keys > 0);
        any.then_some((2, self.counts[2]))
    }

    /// Rule 3.
    fn keep(&mut self) -> Chosen {
        let part = std::mem::take(&mut self.part);
        self.part_bytes = 0;
        match self.hot.keeps.keep(self.tree, &self.memtables, &part) {
            Kept::Some(keys, bytes, writing) => {
                (self.kept.keys, self.kept.bytes) =
                    (self.kept.keys + keys, self.kept.bytes + bytes);
                self.writing = Some(writing);
            }
            Kept::None => {}
            Kept::Never => return Chosen::Done,
        }
        Chosen::Ran
    }
}

/// The entries of these memtables that their flush leaves out, because memtables that it does not
/// take have them.
pub(crate) fn left_out(memtables: &[Arc<Memtable>]) -> Vec<Seq> {
    let taken = |holder| memtables.iter().any(|memtable| memtable.id() == holder);
    let left = memtables.iter().flat_map(|memtable| memtable.left());
    let left = left.filter(|(holder, _)| !taken(*holder)).map(|(_, seq)| seq);
    let mut seqs: Vec<Seq> = left.collect();
    seqs.sort_unstable();
    seqs.dedup();
    seqs
}

#[cfg(all(test, not(shuttle)))]
mod tests;
