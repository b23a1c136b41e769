//! Reads a trace chunk by chunk; the length of a chunk bounds the memory.
//!
//! 1. The header identifies a trace and its version.
//! 2. A chunk is read completely, its checksum is compared, and its stated number of operations is
//!    decoded.
//! 3. The end states the number of operations; nothing may follow it. A trace without an end was
//!    truncated: its operations are returned, then an error.

use super::TraceOp;
use super::format::{CHUNK_HEADER_LEN, CHUNK_MAX, HEADER_LEN, MAGIC, VERSION, checksum, decode};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{Error, Micros, Result};
use vlsm_disk::codec::{Malformed, Reader};
use vlsm_disk::fs::{File, OpenOptions};
use vlsm_disk::{Env, RealEnv};

/// An iterator over the operations of a trace.
///
/// It ends after an error.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// use vlsm::trace::{TraceKind, TraceReader};
///
/// let db = vlsm::Db::open(folder.path().join("store"))?;
/// let path = folder.path().join("trace");
/// db.start_trace(&path)?;
/// db.put("apple", "green")?;
/// db.get("apple")?;
/// assert_eq!(db.end_trace()?, 2);
/// let ops: Vec<_> = TraceReader::open(&path)?.collect::<vlsm::Result<_>>()?;
/// assert_eq!((&ops[0].key[..], &ops[0].kind), (&b"apple"[..], &TraceKind::Put(5)));
/// assert_eq!(ops[1].kind, TraceKind::Get);
/// # db.close()
/// # }
/// ```
pub struct TraceReader {
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
    /// The offset of the next chunk.
    offset: u64,
    started: Micros,
    ready: VecDeque<TraceOp>,
    count: u64,
    ended: bool,
}

impl TraceReader {
    /// Opens a trace file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corruption`] if the file is not a trace, or its header is damaged;
    /// [`Error::FormatVersion`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let env: Arc<dyn Env> = RealEnv::new();
        let file = env.fs().open(path, OpenOptions::READ);
        Self::new(file.map_err(|error| Error::io("cannot open", path, error))?, path)
    }

    /// Reads an open file.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn new(file: Arc<dyn File>, path: &Path) -> Result<Self> {
        let len = file.len().map_err(|error| Error::io("cannot read", path, error))?;
        let (path, ready) = (path.to_owned(), VecDeque::new());
        let mut reader =
            Self { file, path, len, offset: 0, started: Micros(0), ready, count: 0, ended: false };
        let header = reader.bytes(HEADER_LEN)?;
        if &header[..8] != MAGIC {
            return Err(reader.damaged("it is not a trace of vLSM"));
        }
        let mut fields = Reader::new(&header[8..]);
        let read = |fields: &mut Reader<'_>| Ok((fields.u32()?, fields.u64()?, fields.u32()?));
        let (version, wall, sum) =
            read(&mut fields).map_err(|Malformed(what)| reader.damaged(what))?;
        if sum != crc32c::crc32c(&header[..HEADER_LEN - 4]) {
            return Err(reader.damaged("the checksum of the header is wrong"));
        }
        if version != VERSION {
            let (found, supported) = (version, VERSION);
            return Err(Error::FormatVersion { path: reader.path, found, supported });
        }
        reader.offset = HEADER_LEN as u64;
        reader.started = Micros(wall);
        Ok(reader)
    }

    /// The wall-clock time at which the trace began, since 1970.
    #[must_use]
    pub fn started(&self) -> Micros {
        self.started
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Corruption { path: self.path.clone(), offset: self.offset, what: what.into() }
    }

    /// The next bytes of the file.
    fn bytes(&self, len: usize) -> Result<Vec<u8>> {
        if self.len.saturating_sub(self.offset) < len as u64 {
            return Err(self.damaged("the trace ends too early: it was cut off, or never ended"));
        }
        let mut bytes = vec![0; len];
        let read = self.file.read_at(&mut bytes, self.offset);
        match read.map_err(|error| Error::io("cannot read", &self.path, error))? {
            read if read == len => Ok(bytes),
            _ => Err(self.damaged("the file became shorter while it was read")),
        }
    }

    /// Reads the next chunk, or the end.
    fn fill(&mut self) -> Result<()> {
        let head = self.bytes(CHUNK_HEADER_LEN)?;
        let number = |at: usize| {
            u32::from_le_bytes(head[at..at + 4].try_into().expect("a number has four bytes"))
        };
        let (len, count, sum) = (number(0) as usize, number(4), number(8));
        if len > CHUNK_MAX {
            return Err(self.damaged("the length of a chunk is impossible"));
        }
        let chunk = self.bytes(CHUNK_HEADER_LEN + len)?;
        let payload = &chunk[CHUNK_HEADER_LEN..];
        if sum != checksum(self.offset, &head[..8], payload) {
            return Err(self.damaged("the checksum of a chunk is wrong"));
        }
        let decoded = if count == 0 { self.end(payload) } else { self.operations(payload, count) };
        decoded.map_err(|Malformed(what)| self.damaged(what))?;
        self.offset += chunk.len() as u64;
        if self.ended && self.offset != self.len {
            return Err(self.damaged("something follows the end of the trace"));
        }
        Ok(())
    }

    fn operations(&mut self, payload: &[u8], count: u32) -> Result<(), Malformed> {
        let mut reader = Reader::new(payload);
        let mut last = 0;
        while !reader.is_empty() {
            let op = decode(&mut reader, last)?;
            last = op.at.0;
            self.ready.push_back(op);
        }
        if self.ready.len() != count as usize {
            return Err(Malformed("a chunk does not have as many operations as it says"));
        }
        self.count += u64::from(count);
        Ok(())
    }

    fn end(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u64()? != self.count || !reader.is_empty() {
            return Err(Malformed("the trace does not have as many operations as its end says"));
        }
        self.ended = true;
        Ok(())
    }
}

impl Iterator for TraceReader {
    type Item = Result<TraceOp>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && !self.ended
            && let Err(error) = self.fill()
        {
            self.ready.clear();
            self.ended = true;
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }
}

impl std::iter::FusedIterator for TraceReader {}
