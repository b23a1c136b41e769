//! The way back from WAL files to batches.
//!
//! 1. Of the files at or beyond the manifest's smallest WAL number, read the headers. Prepared ones
//!    hold nothing.
//! 2. From the last started file follow the seals back to the smallest number, or to a file without
//!    predecessor, which holds all that is not in tables. A predecessor that is missing or has
//!    another uid is corruption. Started files off this chain were given up by an earlier recovery.
//! 3. From the first to the last, hand out the batches in order. A file with a successor ends at
//!    its seal and must be valid up to there; the last one ends at the first record that does not
//!    verify, unless a later one proves it had been synced ([`Tail`]).
//! 4. Where a successor was begun before its predecessor was synced, a crash may leave the
//!    predecessor short. Then the log ends there, provided that nothing in the files after it
//!    proves a sync.
//! 5. The last file is synced, so that what was handed out stays when the next crash comes.
//!
//! The smallest WAL number is zero, or that of a file whose start was durable; so it must be there,
//! unless a later file took over (`rewrite`). So must every later file that the manifest lists.
//! A file that cannot be read is an error, never an end. Memory: the content of one file, and the
//! fragments of batches not committed yet.

use crate::codec::Reader;
use crate::fs::{Fs, OpenOptions, read_all};
use crate::record::{Record, RecordKind, Records, Seal, SealKind, Tail, checksum};
pub use crate::wal::files::read_header;
use crate::wal::files::{Candidate, Found, list, missing};
use crate::wal::salvage::{LostWal, lost, whole_begin};
use crate::wal::wal_path;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result, Seq};

/// Bytes that are written again at once.
const AGAIN_LEN: usize = 1 << 20;

/// What to recover, and how strictly.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecoverOptions<'a> {
    /// The smallest WAL number still needed, as the manifest has it.
    pub min_wal: u64,
    /// The WALs that the manifest lists: those that are still needed must be there.
    pub listed: &'a [u64],
    /// Batches up to here may be in tables, so that their first fragments may be gone; none when
    /// nobody knows.
    pub flushed: Option<Seq>,
    /// End the log at the first damage instead of failing. What lies beyond is lost to the store,
    /// and told in [`Recovered::lost`].
    pub salvage: bool,
    /// Change nothing: the last step is left out, which makes durable what was handed out.
    pub read_only: bool,
}

/// One batch on its way back, and how far the recovery is.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The oldest WAL that holds a part of it: it must stay until all entries are in tables.
    pub wal: u64,
    /// Sequence number of its first entry.
    pub first_seq: Seq,
    /// Its entries, as `batch` encodes them. Keeps the content of the whole file in memory.
    pub payload: Bytes,
    /// Bytes of WAL behind us.
    pub done: u64,
    /// Bytes of WAL at most.
    pub total: u64,
}

/// A WAL file whose batches were handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWal {
    /// Its number.
    pub number: u64,
    /// Its path.
    pub path: PathBuf,
    /// Its valid length.
    pub len: u64,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// The files whose batches were handed out, oldest first.
    pub live: Vec<LiveWal>,
    /// WAL files and leftovers of making them that nobody needs: to be recycled or removed.
    pub unused: Vec<PathBuf>,
    /// The end of the log, for the header of the WAL that follows. None when there was no log.
    pub end: Option<Seal>,
    /// The largest of the files' and batches' first sequence numbers. The numbers of a batch's own
    /// entries go on from its first.
    pub seq_floor: Seq,
    /// Number of batches.
    pub batches: u64,
    /// With salvage: the damage where the log was ended.
    pub damage: Option<Error>,
    /// With salvage: the files that hold what comes after that, or may hold it. The first may be
    /// one of the live ones, of which the begin was handed out; the others are among the unused.
    pub lost: Vec<LostWal>,
}

/// Reads the WAL of a store and hands each batch to `sink`, in order.
///
/// # Errors
/// [`Error::Corruption`] for damage, [`Error::Io`] when a file cannot be read, and whatever `sink`
/// fails with. Batches handed out before an error were valid.
pub fn recover(
    fs: &dyn Fs,
    dir: &Path,
    options: RecoverOptions<'_>,
    sink: &mut dyn FnMut(Replayed) -> Result<()>,
) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    let found = list(fs, dir, options, &mut recovered)?;
    match missing(dir, options, &found) {
        Some(error) if !options.salvage => return Err(error),
        error => recovered.damage = recovered.damage.take().or(error),
    }
    let all = if options.salvage { found.files() } else { Vec::new() };
    let unused = recovered.unused.len();
    let chain = match chain(fs, dir, options, found.clone(), &mut recovered) {
        Err(error @ Error::Corruption { .. }) if options.salvage => {
            recovered.unused.truncate(unused);
            recovered.damage = recovered.damage.take().or(Some(error));
            whole_begin(options, found)
        }
        chain => chain?,
    };
    let total = chain.iter().map(|file| file.len).sum();
    // A predecessor that is not replayed may hold the begin of a batch that ends in the chain.
    let cut = chain.first().is_some_and(|file| file.header.predecessor.is_some());
    let pending = Pending { cut, known: options.flushed, ..Pending::default() };
    let mut replay = Replay { fs, chain, total, done: 0, pending };
    let end = match replay.run(&mut recovered, sink) {
        Err(error @ Error::Corruption { .. }) if options.salvage => {
            recovered.damage = Some(error);
            let end = recovered.live.len();
            if planted::is(Bug::SalvageKeepsWhatFollows) {
                let chain = replay.chain.split_off(end.min(replay.chain.len()));
                let pending = Pending { cut: true, ..Pending::default() };
                let _ = Replay { fs, chain, total, done: 0, pending }.run(&mut recovered, sink);
            }
            end
        }
        result => result?,
    };
    let given_up = replay.chain.split_off(end.min(replay.chain.len()));
    recovered.unused.extend(given_up.into_iter().map(|file| file.path));
    if recovered.damage.is_some() {
        recovered.lost = lost(fs, &recovered, all);
        let Recovered { lost, unused, live, .. } = &mut recovered;
        for path in lost.iter().map(|lost| &lost.path) {
            if !unused.contains(path) && live.iter().all(|live| live.path != *path) {
                unused.push(path.clone());
            }
        }
    }
    if options.read_only {
        return Ok(recovered);
    }
    for live in &recovered.live {
        let failed = |error| Error::io_unknown("cannot write WAL again", &live.path, error);
        write_again(fs, live).map_err(failed)?;
    }
    Ok(recovered)
}

/// Writes what was read of a file over itself, and syncs it. A sync may have failed in an earlier
/// life: that leaves pages that programs read, that count as clean, and that are not on the device,
/// so that another sync alone proves nothing.
fn write_again(fs: &dyn Fs, live: &LiveWal) -> std::io::Result<()> {
    let file = fs.open(&live.path, OpenOptions::WRITE)?;
    let mut chunk = vec![0; AGAIN_LEN];
    let mut offset = 0;
    while offset < live.len {
        let len = chunk.len().min((live.len - offset) as usize);
        let read = file.read_at(&mut chunk[..len], offset)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if !planted::is(Bug::WalTailTrusted) {
            file.write_at(&chunk[..read], offset)?;
        }
        offset += read as u64;
    }
    file.sync()
}

/// Follows the seals back from the last started file; oldest first in the answer.
///
/// A file is begun without a sync, so a crash may take its start and leave that of its successor.
/// Then the log ends before it, unless something proves a sync of what follows.
fn chain(
    fs: &dyn Fs,
    dir: &Path,
    options: RecoverOptions<'_>,
    found: Found,
    recovered: &mut Recovered,
) -> Result<Vec<Candidate>> {
    let Found { mut started, prepared, .. } = found;
    let mut chain: Vec<Candidate> = Vec::new();
    let mut next = started.pop_last().map(|last| last.1);
    while let Some(file) = next.take() {
        let (number, path) = (file.header.number, file.path.clone());
        let predecessor = file.header.predecessor;
        chain.push(file);
        if let Some(seal) = predecessor.filter(|seal| seal.number >= options.min_wal) {
            let found = started.remove(&seal.number);
            match found {
                Some(found) if found.header.uid == seal.uid && seal.number < number => {
                    next = Some(found);
                }
                None if prepared.get(&seal.number) == Some(&seal.uid)
                    && !proves_sync(fs, &chain)? =>
                {
                    recovered.unused.extend(chain.drain(..).map(|file| file.path));
                    next = started.pop_last().map(|last| last.1);
                }
                _ => {
                    let what = format!("WAL {} before it is missing or another one", seal.number);
                    return Err(Error::corruption(&path, 48, what));
                }
            }
        }
    }
    chain.reverse();
    let begins = chain.first().is_some_and(|first| {
        first.header.number == options.min_wal || first.header.predecessor.is_none()
    });
    if options.min_wal > 0 && !begins {
        let what = "the WAL from which to recover is missing";
        return Err(Error::corruption(&wal_path(dir, options.min_wal), 0, what));
    }
    recovered.unused.extend(started.into_values().map(|file| file.path));
    Ok(chain)
}

/// Whether anything in these files proves that one of them, or what it seals, was ever synced.
fn proves_sync(fs: &dyn Fs, files: &[Candidate]) -> Result<bool> {
    for file in files {
        if file.header.predecessor.is_some_and(|seal| seal.synced > 0) || was_synced(fs, file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether anything in the file proves that it was ever synced.
fn was_synced(fs: &dyn Fs, file: &Candidate) -> Result<bool> {
    let content = read_all(fs, &file.path)
        .map_err(|error| Error::io("cannot read WAL", &file.path, error))?;
    let mut records = Records::new(Bytes::from(content), file.header.uid);
    let synced = records.by_ref().any(|record| record.head.synced > 0);
    Ok(synced || records.tail() != Tail::Torn)
}

struct Replay<'a> {
    fs: &'a dyn Fs,
    chain: Vec<Candidate>,
    total: u64,
    done: u64,
    pending: Pending,
}

impl Replay<'_> {
    /// Goes through the chain; answers how many files of it hold the log.
    fn run(
        &mut self,
        recovered: &mut Recovered,
        sink: &mut dyn FnMut(Replayed) -> Result<()>,
    ) -> Result<usize> {
        for index in 0..self.chain.len() {
            let file = &self.chain[index];
            let seal = self.chain.get(index + 1).and_then(|next| next.header.predecessor);
            let (path, header) = (file.path.clone(), file.header);
            advance(&mut recovered.seq_floor, header.next_seq, &path, 0)?;
            let content = read_all(self.fs, &path)
                .map_err(|error| Error::io("cannot read WAL", &path, error))?;
            let mut content = Bytes::from(content);
            if let Some(seal) = seal {
                content.truncate(usize::try_from(seal.len).unwrap_or(usize::MAX));
            }
            let mut records = Records::new(content, header.uid);
            let ended = self.file(&path, header.number, &mut records, recovered, sink);
            // Kept when it failed too: salvage ends the log here.
            let (number, uid, len) = (header.number, header.uid, records.offset());
            recovered.live.push(LiveWal { number, path: path.clone(), len });
            let kind = SealKind::Recovered;
            recovered.end = Some(Seal { number, uid, len, synced: len, kind });
            ended?;
            self.done += self.chain[index].len;
            if self.ends_at(index, &path, &records, seal)? {
                return Ok(index + 1);
            }
        }
        Ok(self.chain.len())
    }

    /// Hands out the batches of one file.
    fn file(
        &mut self,
        path: &Path,
        wal: u64,
        records: &mut Records,
        recovered: &mut Recovered,
        sink: &mut dyn FnMut(Replayed) -> Result<()>,
    ) -> Result<()> {
        for record in records {
            let offset = record.offset;
            let damaged = |what: &str| Error::corruption(path, offset, what);
            let first_seq = record.head.seq;
            let (wal, payload) = match record.head.kind {
                RecordKind::Mark => continue,
                RecordKind::Fragment => {
                    self.pending.add(wal, &record).map_err(damaged)?;
                    continue;
                }
                RecordKind::Commit => match self.pending.complete(&record).map_err(damaged)? {
                    Some(whole) => whole,
                    None => {
                        advance(&mut recovered.seq_floor, first_seq, path, offset)?;
                        continue;
                    }
                },
                RecordKind::Batch => (wal, record.payload),
            };
            advance(&mut recovered.seq_floor, first_seq, path, offset)?;
            recovered.batches += 1;
            let (done, total) = (self.done + offset, self.total);
            sink(Replayed { wal, first_seq, payload, done, total })?;
        }
        Ok(())
    }

    /// Whether the log ends in this file, which is as it should be; or it is damaged.
    fn ends_at(
        &self,
        index: usize,
        path: &Path,
        records: &Records,
        seal: Option<Seal>,
    ) -> Result<bool> {
        let end = records.offset();
        if seal.is_some_and(|seal| seal.len == end) {
            return Ok(false);
        }
        let header = &self.chain[index].header;
        if header.closed && end != header.filled {
            let filled = header.filled;
            let what = format!("the store was closed with {filled} bytes here, {end} are sound");
            return Err(Error::corruption(path, end, what));
        }
        if seal.is_some_and(|seal| end < seal.synced || end > seal.len) {
            return Err(Error::corruption(path, end, "a record does not match its checksum"));
        }
        if let Tail::Damaged(later) = records.tail() {
            let what = format!("a record does not match its checksum, but one at {later} does");
            return Err(Error::corruption(path, end, what));
        }
        let later = &self.chain[index + 1..];
        let sealed = later.iter().skip(1).filter_map(|file| file.header.predecessor);
        let mut proofs = sealed.map(|seal| seal.synced > 0);
        for file in later {
            if proofs.next() == Some(true) || was_synced(self.fs, file)? {
                let what = "a record does not match its checksum, but later WALs were synced";
                return Err(Error::corruption(path, end, what));
            }
        }
        Ok(true)
    }
}

/// Sequence numbers only grow along the log.
fn advance(floor: &mut Seq, seq: Seq, path: &Path, offset: u64) -> Result<()> {
    if seq < *floor {
        let what = format!("sequence number {seq} follows {floor}");
        return Err(Error::corruption(path, offset, what));
    }
    *floor = seq;
    Ok(())
}

/// Fragments of large batches that are not committed yet.
#[derive(Default)]
struct Pending {
    /// The WAL of the first fragment, and the fragments.
    parts: BTreeMap<u64, (u64, Vec<Bytes>)>,
    /// Whether batches may have begun before the first file that is replayed. The smallest WAL is
    /// the one with the first fragment of any batch that is not flushed; so those batches are in
    /// tables.
    cut: bool,
    /// The last sequence number that may be in tables.
    known: Option<Seq>,
    /// Those batches, as far as fragments of them were met.
    flushed: BTreeSet<u64>,
}

impl Pending {
    fn add(&mut self, wal: u64, record: &Record) -> Result<(), &'static str> {
        let mut reader = Reader::new(&record.payload);
        let batch = reader.u64().map_err(|why| why.0)?;
        let index = reader.u32().map_err(|why| why.0)?;
        if self.flushed.contains(&batch) {
            return Ok(());
        }
        if self.cut && index > 0 && !self.parts.contains_key(&batch) {
            self.flushed.insert(batch);
            return Ok(());
        }
        let (_, parts) = self.parts.entry(batch).or_insert_with(|| (wal, Vec::new()));
        if parts.len() != index as usize {
            return Err("a fragment of a batch is missing");
        }
        parts.push(record.payload.slice(12..));
        Ok(())
    }

    /// The batch with the WAL of its first fragment; none when it was flushed already.
    fn complete(&mut self, record: &Record) -> Result<Option<(u64, Bytes)>, &'static str> {
        let mut reader = Reader::new(&record.payload);
        let batch = reader.u64().map_err(|why| why.0)?;
        let count = reader.u32().map_err(|why| why.0)?;
        let stored = reader.u32().map_err(|why| why.0)?;
        let len = reader.u64().map_err(|why| why.0)?;
        let Some((first, parts)) = self.parts.remove(&batch) else {
            let cut = self.flushed.remove(&batch) || self.cut;
            let in_tables = cut && self.known.is_none_or(|last| record.head.seq <= last);
            return if in_tables { Ok(None) } else { Err("the fragments of a batch are missing") };
        };
        let payload = parts.concat();
        let whole = parts.len() == count as usize && payload.len() as u64 == len;
        if !whole || checksum(&payload) != stored {
            return Err("the fragments of a batch do not make the batch");
        }
        Ok(Some((first, payload.into())))
    }
}
