//! The writing of WAL files.
//!
//! 1. [`prepare_next`] prepares a file ahead of time, off every latency path. It takes a new file
//!    under a temporary name, or an old WAL, whose blocks are allocated already. It writes a header
//!    that says "prepared", fills the file with zeros up to its capacity, syncs it, renames it to
//!    its number, and syncs the directory. So a file under its final name is always complete, and a
//!    later write into it allocates no block: an fdatasync needs no commit of the file system's
//!    journal. A full device shows here, where no batch depends on it, and never at a write within
//!    the capacity. [`allocate_next`] allocates the blocks instead: less is written, but the sync
//!    of what is written there commits the journal. (A file system that never writes in place may
//!    still refuse one; the store then becomes read-only.)
//! 2. [`PreparedWal::start`] writes the real header, which seals the predecessor, and syncs it.
//!    This is one small write into an allocated block. [`PreparedWal::begin`] leaves the sync to
//!    the first [`WalFile::sync`], which must follow the predecessor's.
//! 3. A [`Framer`] turns batches into records. It only computes and copies, so it may run in the
//!    section that orders the batches; [`WalFile::write`] writes the bytes afterwards.
//!
//! After a failed write or sync the file is abandoned, and the next one seals it at its last good
//! length. Threads: a framer has one owner; several threads may write and sync a `WalFile` at once.

use crate::aligned::AlignedBuf;
use crate::fs::{File, Fs, OpenOptions};
use crate::record::{
    HEADER_LEN, Header, RecordHead, RecordKind, Seal, SealKind, WAL_MAGIC, checksum, encode_record,
    record_len,
};
use crate::wal::{FRAGMENT_LEN, MappedWal, wal_path};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result, Seq};

const FILL_CHUNK: usize = 256 * 1024;

/// Turns batches into consecutive records of one file.
#[derive(Debug, Clone)]
pub struct Framer {
    uid: u64,
    offset: u64,
}

impl Framer {
    /// A framer for the records of a file from an offset on.
    pub(super) fn new(uid: u64, offset: u64) -> Self {
        Self { uid, offset }
    }

    /// The offset of the next record.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends the record of a whole batch to `out`; returns the offset of its end.
    ///
    /// `synced` is the offset up to which this file is known to be synced, `payload_checksum` the
    /// [`checksum`] of the payload.
    #[inline]
    pub fn batch(
        &mut self,
        out: &mut Vec<u8>,
        first_seq: Seq,
        synced: u64,
        payload: &[u8],
        payload_checksum: u32,
    ) -> u64 {
        self.record(out, RecordKind::Batch, first_seq, synced, payload, payload_checksum)
    }

    /// Appends one fragment of a large batch. `payload` is one of [`fragments`].
    pub fn fragment(&mut self, out: &mut Vec<u8>, synced: u64, payload: &[u8]) -> u64 {
        let payload_checksum = checksum(payload);
        self.record(out, RecordKind::Fragment, Seq::ZERO, synced, payload, payload_checksum)
    }

    /// Appends the record that completes a large batch and determines its place in the order.
    pub fn commit(
        &mut self,
        out: &mut Vec<u8>,
        first_seq: Seq,
        synced: u64,
        commit: &Commit,
    ) -> u64 {
        let payload = commit.encode();
        self.record(out, RecordKind::Commit, first_seq, synced, &payload, checksum(&payload))
    }

    /// Appends a mark. Later damage before `synced` then cannot pass for a torn tail.
    pub fn mark(&mut self, out: &mut Vec<u8>, synced: u64) -> u64 {
        self.record(out, RecordKind::Mark, Seq::ZERO, synced, &[], checksum(&[]))
    }

    #[inline]
    fn record(
        &mut self,
        out: &mut Vec<u8>,
        kind: RecordKind,
        seq: Seq,
        synced: u64,
        payload: &[u8],
        payload_checksum: u32,
    ) -> u64 {
        let head = RecordHead { kind, seq, synced, payload_checksum };
        encode_record(out, self.uid, self.offset, &head, payload);
        self.offset += record_len(payload.len());
        self.offset
    }
}

/// Length of the payload of a [`Commit`] record.
pub const COMMIT_LEN: usize = 24;

/// The content of a large batch's commit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The random number its fragments carry.
    pub batch: u64,
    /// The number of fragments.
    pub fragments: u32,
    /// The checksum of the batch's whole payload.
    pub payload_checksum: u32,
    /// The length of the batch's whole payload.
    pub len: u64,
}

impl Commit {
    /// The commit record of the batch that [`fragments`] cuts.
    #[must_use]
    pub fn new(batch: u64, payload: &[u8]) -> Self {
        let fragments = payload.len().div_ceil(FRAGMENT_LEN) as u32;
        let payload_checksum = checksum(payload);
        Self { batch, fragments, payload_checksum, len: payload.len() as u64 }
    }

    fn encode(&self) -> [u8; COMMIT_LEN] {
        let mut payload = [0; COMMIT_LEN];
        payload[..8].copy_from_slice(&self.batch.to_le_bytes());
        payload[8..12].copy_from_slice(&self.fragments.to_le_bytes());
        payload[12..16].copy_from_slice(&self.payload_checksum.to_le_bytes());
        payload[16..].copy_from_slice(&self.len.to_le_bytes());
        payload
    }
}

/// Cuts the payload of a large batch into the payloads of its fragments. Each is the batch's random
/// number, the fragment's index (u32), and at most [`FRAGMENT_LEN`] bytes.
pub fn fragments(batch: u64, payload: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    payload.chunks(FRAGMENT_LEN).zip(0_u32..).map(move |(part, index)| {
        let mut fragment = Vec::with_capacity(12 + part.len());
        fragment.extend_from_slice(&batch.to_le_bytes());
        fragment.extend_from_slice(&index.to_le_bytes());
        fragment.extend_from_slice(part);
        fragment
    })
}

/// A prepared file that is not started yet.
pub struct PreparedWal {
    file: Arc<dyn File>,
    path: PathBuf,
    header: Header,
    recycled: bool,
    written: u64,
}

/// Prepares the next WAL file. `uid` is random. `recycled` is an old WAL of this directory that is
/// not needed any more, durably: the manifest's smallest WAL number is beyond it.
///
/// # Errors
/// The file system's errors. The file is then removed, and the recycled one too, because a full
/// device needs the space.
pub fn prepare_next(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    uid: u64,
    capacity: u64,
    recycled: Option<&Path>,
) -> Result<PreparedWal> {
    let kind = if recycled.is_some() { Blank::Recycled } else { Blank::Zeros };
    prepare(fs, dir, recycled, (number, uid, capacity), kind)
}

/// As [`prepare_next`], with a new file whose blocks are allocated and not written, where the file
/// system can do this: for WALs that are not used again. The sync of later writes commits the file
/// system's journal.
///
/// # Errors
/// As [`prepare_next`].
pub fn allocate_next(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    uid: u64,
    capacity: u64,
) -> Result<PreparedWal> {
    prepare(fs, dir, None, (number, uid, capacity), Blank::Allocated)
}

/// The origin of a file's blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blank {
    Recycled,
    Zeros,
    Allocated,
}

fn prepare(
    fs: &dyn Fs,
    dir: &Path,
    recycled: Option<&Path>,
    (number, uid, capacity): (u64, u64, u64),
    kind: Blank,
) -> Result<PreparedWal> {
    let path = wal_path(dir, number);
    let from = match recycled {
        Some(old) => old.to_owned(),
        None => path.with_extension("wal.tmp"),
    };
    let made = make(fs, &from, number, uid, capacity, kind);
    let (file, header, written) = made.inspect_err(|_| {
        // If this fails, the next recovery removes the file.
        let _ = fs.remove(&from);
    })?;
    // Nothing was written into the file yet, so after a full device all of it can be repeated.
    let named = fs.rename(&from, &path).map_err(|e| Error::io("cannot rename WAL to", &path, e));
    let synced = || fs.sync_dir(dir).map_err(|e| Error::io("cannot sync folder", dir, e));
    named.and_then(|()| synced()).inspect_err(|_| {
        let _ = (fs.remove(&from), fs.remove(&path));
    })?;
    Ok(PreparedWal { file, path, header, recycled: recycled.is_some(), written })
}

/// Makes the file of a prepared WAL, under its first name. Returns the bytes written, too.
fn make(
    fs: &dyn Fs,
    path: &Path,
    number: u64,
    uid: u64,
    capacity: u64,
    kind: Blank,
) -> Result<(Arc<dyn File>, Header, u64)> {
    let file = match kind {
        Blank::Recycled => fs.open(path, OpenOptions::WRITE),
        Blank::Zeros | Blank::Allocated => {
            remove_if_there(fs, path).and_then(|()| fs.open(path, OpenOptions::CREATE))
        }
    }
    .map_err(|error| Error::io("cannot make WAL", path, error))?;
    let failed = |error| Error::io("cannot prepare WAL", path, error);
    let len = file.len().map_err(failed)?;
    let filled = capacity.max(HEADER_LEN).max(len);
    let header = prepared(number, uid, filled);
    if kind == Blank::Allocated {
        match file.allocate(filled) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            allocated => {
                allocated.map_err(failed)?;
                file.write_at(&header.encode(WAL_MAGIC), 0).map_err(failed)?;
                file.sync().map_err(failed)?;
                return Ok((file, header, HEADER_LEN));
            }
        }
    }
    file.write_at(&header.encode(WAL_MAGIC), 0).map_err(failed)?;
    fill_paced(&*file, len.max(HEADER_LEN), filled).map_err(failed)?;
    Ok((file, header, HEADER_LEN + filled - len.max(HEADER_LEN)))
}

/// The header of a prepared file.
pub(super) fn prepared(number: u64, uid: u64, filled: u64) -> Header {
    let (started, closed, next_seq, predecessor) = (false, false, Seq::ZERO, None);
    Header { number, uid, started, closed, filled, next_seq, predecessor }
}

pub(super) fn remove_if_there(fs: &dyn Fs, path: &Path) -> std::io::Result<()> {
    if fs.exists(path)? { fs.remove(path) } else { Ok(()) }
}

pub(super) fn fill(file: &dyn File, mut offset: u64, end: u64) -> std::io::Result<()> {
    // A memory map that was not written takes no memory.
    let zeros = AlignedBuf::zeroed(FILL_CHUNK.min(end.saturating_sub(offset) as usize));
    while offset < end {
        let len = (end - offset).min(zeros.len() as u64);
        file.write_at(&zeros[..len as usize], offset)?;
        offset += len;
    }
    Ok(())
}

/// Fills and syncs, chunk by chunk: one sync of a whole file would make the syncs of other files
/// wait as long as the device takes for it.
fn fill_paced(file: &dyn File, mut offset: u64, end: u64) -> std::io::Result<()> {
    loop {
        let to = end.min(offset + FILL_CHUNK as u64);
        fill(file, offset, to)?;
        file.sync()?;
        if to == end {
            return Ok(());
        }
        offset = to;
    }
}

impl PreparedWal {
    /// The number in its name.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length up to which writes take no further space.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.header.filled
    }

    /// Extends the file.
    ///
    /// # Errors
    /// The file system's errors. After [`Error::NoSpace`] the file is unchanged; after any other
    /// error it must not be used.
    pub fn extend(&mut self, capacity: u64) -> Result<()> {
        let filled = capacity.max(self.header.filled);
        fill(&*self.file, self.header.filled, filled)
            .map_err(|error| Error::io("cannot extend WAL", &self.path, error))?;
        self.file
            .sync()
            .map_err(|error| Error::io_unknown("cannot sync WAL", &self.path, error))?;
        self.written += filled - self.header.filled;
        self.header.filled = filled;
        Ok(())
    }

    /// The framer of its records. They may be framed before the file is begun, and written after
    /// it.
    #[must_use]
    pub fn framer(&self) -> Framer {
        Framer::new(self.header.uid, HEADER_LEN)
    }

    /// Maps the file, up to its capacity.
    ///
    /// # Errors
    /// The file system cannot do it. The file serves without.
    pub fn map(&self) -> Result<MappedWal> {
        MappedWal::new(&self.file, &self.path, self.header.filled)
    }

    /// Bytes written so far to prepare the file: a header, and zeros if it was filled.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// Whether it reuses the space of an old WAL.
    #[must_use]
    pub fn was_recycled(&self) -> bool {
        self.recycled
    }

    /// Starts the file: seals the predecessor and makes the header durable. The predecessor must be
    /// synced up to the seal.
    ///
    /// The file system's errors. The file is then lost, and the predecessor is unchanged.
    pub fn start(self, predecessor: Option<Seal>, next_seq: Seq) -> Result<WalFile> {
        assert!(
            predecessor.is_none_or(|seal| seal.synced >= seal.len),
            "a WAL must be synced up to its seal before its successor is durable"
        );
        let wal = self.begin(predecessor, next_seq)?;
        wal.sync()?;
        Ok(wal)
    }

    /// Starts the file without waiting for the device. Its first sync must follow the predecessor's
    /// sync up to the seal; until then nothing in it survives power loss.
    ///
    /// # Errors
    /// As [`PreparedWal::start`].
    pub fn begin(self, predecessor: Option<Seal>, next_seq: Seq) -> Result<WalFile> {
        let Self { file, path, header, .. } = self;
        let header = Header { started: true, next_seq, predecessor, ..header };
        WalFile::start(file, path, header, HEADER_LEN)
    }
}

/// A WAL file in use.
pub struct WalFile {
    file: Arc<dyn File>,
    path: PathBuf,
    header: Header,
    /// The offset of its first new record, after those taken over from older files.
    begin: u64,
}

/// The missing file of [`WalFile::none`].
struct NoFile;

impl File for NoFile {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

impl WalFile {
    /// A placeholder for a store opened read-only, which has no WAL to write. It refuses every
    /// write.
    #[must_use]
    pub fn none() -> Self {
        let (file, path) = (Arc::new(NoFile), PathBuf::new());
        Self { file, path, header: prepared(0, 0, 0), begin: HEADER_LEN }
    }

    /// Writes the header that starts the file. It holds records up to `begin` already.
    pub(super) fn start(
        file: Arc<dyn File>,
        path: PathBuf,
        header: Header,
        begin: u64,
    ) -> Result<Self> {
        let wal = Self { file, path, header, begin };
        wal.write(&header.encode(WAL_MAGIC), 0)?;
        Ok(wal)
    }

    /// The number in its name.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length up to which writes take no further space.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.header.filled
    }

    /// The framer of its new records, after those taken over from older files.
    #[must_use]
    pub fn framer(&self) -> Framer {
        Framer::new(self.header.uid, self.begin)
    }

    /// The length of the records that were durable before the file was started; 0 if there were
    /// none.
    #[must_use]
    pub fn taken_over(&self) -> u64 {
        if self.begin > HEADER_LEN { self.begin } else { 0 }
    }

    /// Writes framed records. `offset` is the framer's offset before the first of them.
    ///
    /// # Errors
    /// The file system's errors, never [`Error::NoSpace`]. The file must not be written any more
    /// after an error.
    pub fn write(&self, records: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_at(records, offset)
            .map_err(|error| Error::io_unknown("cannot write WAL", &self.path, error))
    }

    /// Maps the file, up to the capacity with which it was begun.
    ///
    /// # Errors
    /// The file system cannot do it. The file serves without.
    pub fn map(&self) -> Result<MappedWal> {
        MappedWal::new(&self.file, &self.path, self.header.filled)
    }

    /// Extends the file with zeros, so that writes there take no further space. The extension is
    /// durable only after the next sync. Its loss does no harm, because the log ends where its
    /// records end.
    ///
    /// # Errors
    /// The file system's errors. The bytes before `from` are unchanged.
    pub fn lengthen(&self, from: u64, to: u64) -> Result<()> {
        fill(&*self.file, from, to)
            .map_err(|error| Error::io("cannot lengthen WAL", &self.path, error))
    }

    /// Makes all writes durable.
    ///
    /// # Errors
    /// The file system's errors. The sync must not be retried: the content of the device is
    /// unknown.
    pub fn sync(&self) -> Result<()> {
        let mut synced = self.file.sync();
        if planted::is(Bug::FailedSyncRetried) {
            synced = synced.or_else(|_| self.file.sync());
        }
        synced.map_err(|error| Error::io_unknown("cannot sync WAL", &self.path, error))
    }

    /// The seal of this file, for its successor's header.
    #[must_use]
    pub fn seal(&self, len: u64, synced: u64, kind: SealKind) -> Seal {
        let Header { number, uid, .. } = self.header;
        Seal { number, uid, len, synced: synced.min(len), kind }
    }

    /// Ends the file where its records end, durably. From then on its header says that it was
    /// closed at this length, so a loss of any byte is noticed. All of it must be synced, and no
    /// thread may write into it any more.
    ///
    /// The header is written before the file is cut, because a file that is longer than its header
    /// says is sound.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn close(&self, len: u64) -> Result<()> {
        let header = Header { closed: true, filled: len, ..self.header };
        self.write(&header.encode(WAL_MAGIC), 0)?;
        self.sync()?;
        let cut = self.file.truncate(len);
        cut.map_err(|error| Error::io_unknown("cannot cut WAL", &self.path, error))?;
        self.sync()
    }
}
