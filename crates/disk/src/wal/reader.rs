//! The recovery of batches from WAL files.
//!
//! 1. Read the headers of the files from the manifest's smallest WAL number on. Prepared files hold
//!    nothing.
//! 2. Follow the seals from the last started file back to the smallest number, or to a file without
//!    predecessor, which holds all that is not in tables. A predecessor that is missing or has
//!    another uid is corruption. An earlier recovery gave up the started files off this chain.
//! 3. Hand out the batches from the first file to the last. A file with a successor ends at its
//!    seal and must be valid up to there. The last file ends at the first record that does not
//!    verify, unless a later record proves that this one had been synced ([`Tail`]).
//! 4. If a successor was begun before its predecessor was synced, a crash may leave the predecessor
//!    short. The log ends there, provided that nothing in the later files proves a sync.
//! 5. Write the files again and sync them, so that the batches handed out survive the next crash.
//!
//! The smallest WAL number is zero or that of a file whose start was durable. So that file must
//! exist, unless a later file took over (`rewrite`). The same holds for every later file that the
//! manifest lists. A file that cannot be read is an error, never the end of the log. Memory: the
//! content of one file, and the fragments of batches that are not committed yet.

use crate::codec::Reader;
use crate::fs::{Fs, OpenOptions, read_all};
use crate::record::{
    RECORD_HEADER_LEN, Record, RecordKind, Records, Seal, SealKind, Tail, begins_record, checksum,
};
pub use crate::wal::files::read_header;
use crate::wal::files::{Candidate, Found, list, missing};
use crate::wal::salvage::{LostWal, lost, whole_begin};
use crate::wal::{wal_number, wal_path};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result, Seq};

/// The size of one step of [`write_again`].
const AGAIN_LEN: usize = 1 << 20;

/// The range of a recovery, and how strict it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecoverOptions<'a> {
    /// The smallest WAL number still needed, as the manifest has it.
    pub min_wal: u64,
    /// The WALs that the manifest lists. Those that are still needed must exist.
    pub listed: &'a [u64],
    /// Batches up to this number may be in tables, so that their first fragments may be gone; none
    /// if the number is unknown.
    pub flushed: Option<Seq>,
    /// End the log at the first damage instead of failing. The store loses the batches after it;
    /// [`Recovered::lost`] lists their files.
    pub salvage: bool,
    /// Change nothing: skip step 5.
    pub read_only: bool,
}

/// One recovered batch, and the progress of the recovery.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The oldest WAL that holds a part of the batch. It must stay until all entries are in tables.
    pub wal: u64,
    /// Sequence number of its first entry.
    pub first_seq: Seq,
    /// Its entries in the encoding of `batch`. Keeps the content of the whole file in memory.
    pub payload: Bytes,
    /// WAL bytes before this batch.
    pub done: u64,
    /// WAL bytes to read at most.
    pub total: u64,
}

/// A WAL file whose batches were handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWal {
    /// Its number.
    pub number: u64,
    /// Its random number.
    pub uid: u64,
    /// Its path.
    pub path: PathBuf,
    /// Its valid length.
    pub len: u64,
}

impl LiveWal {
    /// Whether the path still names this file. A file that is used again gets another header,
    /// durably, before any of its records is overwritten. So if this is true after the records were
    /// read, they were all of this file.
    #[must_use]
    pub fn is_there(&self, fs: &dyn Fs) -> bool {
        let header = read_header(fs, &self.path, self.number);
        header.is_ok_and(|(header, _)| header.uid == self.uid)
    }

    /// Whether the log ends with this file as it was read: the file is still there without another
    /// record, and no later one was started.
    #[must_use]
    pub fn is_end(&self, fs: &dyn Fs, dir: &Path) -> bool {
        let mut next = [0; RECORD_HEADER_LEN];
        let file = fs.open(&self.path, OpenOptions::READ);
        let read = file.and_then(|file| file.read_at(&mut next, self.len));
        let Ok(read) = read else { return false };
        let Ok(names) = fs.read_dir(dir) else { return false };
        let numbers = names.iter().filter_map(|name| wal_number(name));
        let mut later = numbers.filter(|number| *number > self.number);
        let is_prepared = |number| {
            let header = read_header(fs, &wal_path(dir, number), number);
            header.is_ok_and(|(header, _)| !header.started)
        };
        !begins_record(&next[..read], self.uid, self.len)
            && later.all(is_prepared)
            && self.is_there(fs)
    }
}

/// The result of a recovery.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// The files whose batches were handed out, oldest first.
    pub live: Vec<LiveWal>,
    /// WAL files and temporary files that are not needed: to be recycled or removed.
    pub unused: Vec<PathBuf>,
    /// The end of the log, for the header of the next WAL. None if there was no log.
    pub end: Option<Seal>,
    /// The largest of the files' next and the batches' first sequence numbers. It does not count
    /// the further entries of a batch.
    pub seq_floor: Seq,
    /// Number of batches.
    pub batches: u64,
    /// With salvage: the damage that ends the log.
    pub damage: Option<Error>,
    /// With salvage: the files that hold or may hold what follows the damage. The first may be one
    /// of the live files, of which a part was handed out; the others are among the unused.
    pub lost: Vec<LostWal>,
}

/// Reads the WAL of a store and hands each batch to `sink`, in order.
///
/// # Errors
/// [`Error::Corruption`] for damage, [`Error::Io`] if a file cannot be read, and any error of
/// `sink`. Batches handed out before an error were valid.
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
    // A batch that ends in the chain may begin in a predecessor that is not replayed.
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

/// Writes the valid part of a file over itself and syncs it. A sync alone proves nothing: if one
/// failed in an earlier life, the pages can be read and count as clean, but are not on the device.
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

/// Follows the seals back from the last started file. Returns the chain, oldest first.
///
/// A file is begun without a sync, so a crash may lose its start and keep its successor's. The log
/// then ends before that file, unless something proves a sync of the files after it.
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
                    let what = format!("WAL {} before it is missing or was replaced", seal.number);
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

/// Whether anything in these files proves that one of them, or a file that they seal, was synced.
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
    /// Replays the chain. Returns the number of its files that hold the log.
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
            // Recorded even after a failure: salvage ends the log here.
            let (number, uid, len) = (header.number, header.uid, records.offset());
            recovered.live.push(LiveWal { number, uid, path: path.clone(), len });
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

    /// Whether the log properly ends in this file; an error if the file is damaged.
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

/// Checks that sequence numbers only grow along the log.
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
    /// By batch: the WAL of its first fragment, and its fragments.
    parts: BTreeMap<u64, (u64, Vec<Bytes>)>,
    /// Whether batches may begin before the first replayed file. The smallest WAL is the one with
    /// the first fragment of any batch that is not flushed, so such a batch is in tables.
    cut: bool,
    /// The last sequence number that may be in tables.
    known: Option<Seq>,
    /// The batches in tables of which a fragment was found.
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

    /// The batch, with the WAL of its first fragment; none if it is in tables already.
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
