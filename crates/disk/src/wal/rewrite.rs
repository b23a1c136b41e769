//! The WAL that an opening begins: it takes over what older ones still hold.
//!
//! 1. [`Rewrite::begin`] makes the file under its temporary name, with a header that says
//!    "prepared".
//! 2. [`Rewrite::add`] appends each recovered batch that is not in tables yet, with the sequence
//!    numbers it has.
//! 3. [`Rewrite::finish`] fills the file up to its capacity and syncs it, adds a mark that says so,
//!    renames the file to its number, and syncs the folder. Only then it writes the header that
//!    starts the file, and syncs that.
//!
//! The header that starts it has no predecessor: this file holds everything that is not in tables.
//! So the one write of that header (a sector) decides: before it the older files are the log, after
//! it they are leftovers, and may be removed before the manifest knows of it.
//!
//! What it is for: a store that lives a thousand short lives has one small WAL and not a thousand;
//! and what was recovered is written and synced by this process, so it does not matter whether the
//! pages that were read from the older files ever got to the device.
//!
//! Cost: the unflushed batches are written once more at each opening, at most `wal_limit` bytes.
//! Memory: one buffer of 256 KiB and a batch. Threads: one owner; all calls block.

use crate::fs::{File, Fs, OpenOptions};
use crate::record::{HEADER_LEN, Header, WAL_MAGIC, checksum, record_len};
use crate::wal::writer::{Commit, Framer, WalFile, fill, fragments, prepared, remove_if_there};
use crate::wal::{LARGE_BATCH, wal_path};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{Error, Result, Seq};

/// Bytes that are written at once.
const BUFFER_LEN: usize = 256 * 1024;

/// A WAL on its way.
pub struct Rewrite<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    number: u64,
    uid: u64,
    /// Its temporary name.
    path: PathBuf,
    file: Arc<dyn File>,
    framer: Framer,
    buffer: Vec<u8>,
    /// The smallest sequence number of its batches.
    first_seq: Option<Seq>,
}

impl<'a> Rewrite<'a> {
    /// Makes the file. `uid` is random.
    ///
    /// # Errors
    /// What the file system says.
    pub fn begin(fs: &'a dyn Fs, dir: &'a Path, number: u64, uid: u64) -> Result<Self> {
        let path = wal_path(dir, number).with_extension("wal.tmp");
        let made = remove_if_there(fs, &path).and_then(|()| fs.open(&path, OpenOptions::CREATE));
        let file = made.map_err(|error| Error::io("cannot make WAL", &path, error))?;
        let framer = Framer::new(uid, HEADER_LEN);
        let (buffer, first_seq) = (Vec::new(), None);
        Ok(Self { fs, dir, number, uid, path, file, framer, buffer, first_seq })
    }

    /// The number of the file.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where it lies until it is finished.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a batch, as [`Batch`](crate::wal::Batch) encodes it. Batches come in the order of
    /// their sequence numbers.
    ///
    /// # Errors
    /// What the file system says; [`Rewrite::give_up`] then.
    pub fn add(&mut self, first_seq: Seq, payload: &[u8]) -> Result<()> {
        self.first_seq.get_or_insert(first_seq);
        let out = &mut self.buffer;
        if payload.len() <= LARGE_BATCH {
            self.framer.batch(out, first_seq, 0, payload, checksum(payload));
        } else {
            // No other large batch of this file has this number.
            let batch = self.uid ^ first_seq.0;
            for fragment in fragments(batch, payload) {
                self.framer.fragment(out, 0, &fragment);
            }
            self.framer.commit(out, first_seq, 0, &Commit::new(batch, payload));
        }
        if self.buffer.len() >= BUFFER_LEN { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let at = self.framer.offset() - self.buffer.len() as u64;
        self.file.write_at(&self.buffer, at).map_err(|error| self.failed(error))?;
        self.buffer.clear();
        Ok(())
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("cannot prepare WAL", &self.path, error)
    }

    /// Makes it the log, with room for `room` bytes of records beyond those it took over. Sequence
    /// numbers go on from `next_seq`.
    ///
    /// # Errors
    /// What the file system says. Before the header is written the older files are the log as
    /// before.
    pub fn finish(mut self, room: u64, next_seq: Seq) -> Result<WalFile> {
        let filled = self.finish_file(room).inspect_err(|_| self.give_up())?;
        let path = wal_path(self.dir, self.number);
        let renamed = self.fs.rename(&self.path, &path);
        renamed.map_err(|error| Error::io_unknown("cannot rename WAL to", &path, error))?;
        let synced = self.fs.sync_dir(self.dir);
        synced.map_err(|error| Error::io_unknown("cannot sync folder", self.dir, error))?;
        let next_seq = self.first_seq.unwrap_or(next_seq);
        let header = prepared(self.number, self.uid, filled);
        let header = Header { started: true, next_seq, ..header };
        let wal = WalFile::start(self.file, path, header, self.framer.offset())?;
        wal.sync()?;
        Ok(wal)
    }

    /// Everything but the name and the start; the file's length. The mark is written after the sync
    /// that it tells of.
    fn finish_file(&mut self, room: u64) -> Result<u64> {
        self.write()?;
        let end = self.framer.offset();
        let marked = if self.first_seq.is_some() { end + record_len(0) } else { end };
        let filled = marked.saturating_add(room).next_multiple_of(HEADER_LEN);
        let header = prepared(self.number, self.uid, filled).encode(WAL_MAGIC);
        self.file.write_at(&header, 0).map_err(|error| self.failed(error))?;
        fill(&*self.file, end, filled).map_err(|error| self.failed(error))?;
        let synced = self.file.sync();
        synced.map_err(|error| Error::io_unknown("cannot sync WAL", &self.path, error))?;
        if self.first_seq.is_some() {
            self.framer.mark(&mut self.buffer, end);
            self.write()?;
        }
        Ok(filled)
    }

    /// Removes the file. Not removed is not lost: the next recovery finds and removes it.
    pub fn give_up(&self) {
        let _ = self.fs.remove(&self.path);
    }
}
