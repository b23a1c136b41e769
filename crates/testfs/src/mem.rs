//! A file in memory, for tests, fuzzers and examples that read their own bytes.
//!
//! It is read-only. Threads and locks: none; it never changes.

use std::io;
use vlsm_disk::fs::File;

/// A read-only file of these bytes.
#[derive(Debug, Clone, Default)]
pub struct MemFile(pub Vec<u8>);

impl File for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..));
        let from = from.unwrap_or(&[]);
        let count = from.len().min(buf.len());
        buf[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
