//! The WAL that an open begins: it takes over the batches that older WALs still hold.
//!
//! 1. [`Rewrite::begin`] creates the file under a temporary name.
//! 2. [`Rewrite::add`] appends each recovered batch that is not in tables yet, with its original
//!    sequence numbers.
//! 3. [`Rewrite::finish`] writes a header that says "prepared", fills the file up to its capacity
//!    and syncs it. Then it adds a mark for this sync, renames the file to its number, and syncs
//!    the folder. Only then it writes the header that starts the file, and syncs that.
//!
//! The header that starts the file has no predecessor: this file holds everything that is not in
//! tables. So the write of that header (one sector) decides. Before it the older files are the log.
//! After it they are leftovers, and may be removed before the manifest knows.
//!
//! Purpose: a store that was opened a thousand times has one small WAL and not a thousand. And this
//! process has written and synced all recovered batches, so it does not matter whether the pages
//! read from the older files ever reached the device.
//!
//! Cost: each open writes the unflushed batches once more, at most `wal_limit` bytes. Memory: one
//! buffer of 256 KiB and a batch. Threads: one owner; all calls block.

use crate::fs::{File, Fs, OpenOptions};
use crate::record::{HEADER_LEN, Header, WAL_MAGIC, checksum, record_len};
use crate::wal::writer::{Commit, Framer, WalFile, fill, fragments, prepared, remove_if_there};
use crate::wal::{LARGE_BATCH, wal_path};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{Error, Result, Seq};

/// The size at which the buffer is written.
const BUFFER_LEN: usize = 256 * 1024;

/// A WAL under construction.
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
    /// The file system's errors.
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

    /// Its path until it is finished.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a batch in the encoding of [`Batch`](crate::wal::Batch). Batches come in the order
    /// of their sequence numbers.
    ///
    /// # Errors
    /// The file system's errors. The caller then calls [`Rewrite::give_up`].
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

    /// Makes the file the log, with space for `room` bytes of records after those it took over.
    /// `next_seq` is the next sequence number.
    ///
    /// # Errors
    /// The file system's errors. Until the header is written the older files remain the log.
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

    /// Completes the file except for its name and its start. Returns the file's length. The mark is
    /// written after the sync that it records.
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

    /// Removes the file. If that fails, the next recovery removes it.
    pub fn give_up(&self) {
        let _ = self.fs.remove(&self.path);
    }
}
