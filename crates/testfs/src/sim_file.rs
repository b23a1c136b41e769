//! One file of the simulated disk: its bytes as programs see them, its bytes on the device, and the
//! pending changes between the two.
//!
//! The page cache writes a sector with its content at some moment. So after a crash each 512-byte
//! sector has its content after any one of the changes since the last sync, independent of the
//! other sectors; and the file has one of its lengths. Bytes within the length that never reached
//! the device are zero.

mod handle;

use crate::sim::FailedSync;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;

pub(super) use handle::SimFile;

/// The unit that a device writes as one.
const SECTOR: u64 = 512;
/// The longest file of a test, to bound the memory.
const LEN_MAX: u64 = 1 << 32;

/// A small generator of numbers (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// A file.
#[derive(Clone, Default)]
pub(super) struct Inode {
    seen: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Inode {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { seen: bytes.clone(), durable: bytes, pending: Vec::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.seen
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.seen.len());
        let len = buf.len().min(self.seen.len() - start);
        buf[..len].copy_from_slice(&self.seen[start..start + len]);
        len
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= LEN_MAX);
        if end.is_none() {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let change = Change::Write { offset, bytes: bytes.to_vec() };
        apply(&mut self.seen, &change);
        self.pending.push(change);
        Ok(())
    }

    pub(super) fn truncate(&mut self, len: u64) -> io::Result<()> {
        if len > LEN_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let change = Change::SetLen(len);
        apply(&mut self.seen, &change);
        self.pending.push(change);
        Ok(())
    }

    /// Copies everything that programs see to the device.
    pub(super) fn keep(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// Copies the part of the file in a range, as programs see it, to the device, and no more of
    /// the pending writes. The range must be within the file as the device has it: if a change of
    /// the length is pending, everything is copied.
    pub(super) fn keep_range(&mut self, from: u64, to: u64) {
        let lengthens = |change: &Change| match change {
            Change::Write { offset, bytes } => {
                offset + bytes.len() as u64 > self.durable.len() as u64
            }
            Change::SetLen(_) => true,
        };
        if self.pending.iter().any(lengthens) {
            return self.keep();
        }
        for change in std::mem::take(&mut self.pending) {
            let Change::Write { offset, bytes } = change else { continue };
            let end = offset + bytes.len() as u64;
            let (from, to) = (from.clamp(offset, end), to.clamp(offset, end));
            for (start, stop, kept) in [(offset, from, false), (from, to, true), (to, end, false)] {
                if start >= stop {
                    continue;
                }
                let part = &bytes[(start - offset) as usize..(stop - offset) as usize];
                let change = Change::Write { offset: start, bytes: part.to_vec() };
                match kept {
                    true => apply(&mut self.durable, &change),
                    false => self.pending.push(change),
                }
            }
        }
    }

    /// Drops the pending changes, so that they never reach the device. Programs see their writes,
    /// or the bytes of the device.
    pub(super) fn fail_sync(&mut self, after: FailedSync) {
        match after {
            FailedSync::Keeps => self.pending.clear(),
            FailedSync::Reverts => self.lose(),
        }
    }

    /// Drops the pending changes; programs see the bytes of the device.
    pub(super) fn lose(&mut self) {
        self.pending.clear();
        self.seen = self.durable.clone();
    }

    /// Copies a random part of the pending changes to the device.
    pub(super) fn keep_some(&mut self, random: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        let count = pending.len() as u64;
        // Each sector, and the length, stops following the changes at a random point of its own.
        let end = self.durable.len().max(self.seen.len()) as u64;
        let sectors: BTreeSet<u64> =
            pending.iter().flat_map(|change| sectors(change, end)).collect();
        let mut stops: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for sector in sectors {
            stops.entry(random.below(count + 1)).or_default().push(sector);
        }
        let len_stop = random.below(count + 1);
        let mut now = std::mem::take(&mut self.durable);
        let mut kept = now.clone();
        let mut len = now.len();
        for (index, change) in (1..).zip(&pending) {
            apply(&mut now, change);
            for sector in stops.get(&index).into_iter().flatten() {
                put_sector(&mut kept, &now, *sector);
            }
            if index == len_stop {
                len = now.len();
            }
        }
        kept.resize(len, 0);
        self.durable = kept;
        self.lose();
    }
}

/// The sectors that a change may alter.
fn sectors(change: &Change, end: u64) -> Range<u64> {
    let (from, to) = match change {
        Change::Write { offset, bytes } => (*offset, offset + bytes.len() as u64),
        Change::SetLen(len) => (*len, end.max(*len)),
    };
    from / SECTOR..to.div_ceil(SECTOR)
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => {
            let start = *offset as usize;
            let end = start + bytes.len();
            if content.len() < end && !bytes.is_empty() {
                content.resize(end, 0);
            }
            if !bytes.is_empty() {
                content[start..end].copy_from_slice(bytes);
            }
        }
        Change::SetLen(len) => content.resize(*len as usize, 0),
    }
}

/// Copies the existing part of one sector; the rest of it becomes zero.
fn put_sector(to: &mut Vec<u8>, from: &[u8], sector: u64) {
    let start = (sector * SECTOR) as usize;
    let end = start + SECTOR as usize;
    if to.len() < end {
        to.resize(end, 0);
    }
    let source = from.get(start..end.min(from.len())).unwrap_or(&[]);
    to[start..start + source.len()].copy_from_slice(source);
    to[start + source.len()..end].fill(0);
}
