//! Makes the manifest durable that an open has read.
//!
//! A manifest that can be read need not be durable: after a failed sync its pages count as clean,
//! and the device may not have them.
//!
//! 1. The bytes that were read, without a torn end, are written into a temporary file, which is
//!    synced.
//! 2. That file is renamed to the manifest's name, and the folder is synced. Number, uid and
//!    offsets are the same, so every record verifies. A crash leaves one of the two files.
//!
//! It is not enough to write over the same file. On ext4 (seen with Linux 6.18 and delayed
//! allocation), blocks whose first write failed still count as never written, although the next
//! sync succeeds. After a power cut they are zeros. The file is written over itself only if there
//! is no space for a copy.

use crate::fs::OpenOptions;
use crate::manifest::log::{Manifest, temporary};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result};

impl Manifest {
    /// Makes durable what was read, and cuts off a torn end. After a success it does nothing.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn settle(&mut self) -> Result<()> {
        let Some(content) = self.unsettled.clone() else { return Ok(()) };
        let end = self.log.offset;
        let sound = content.get(..end as usize).unwrap_or_default();
        if planted::is(Bug::ManifestTailTrusted) {
            self.cut_end(&content)?;
            self.log.sync()?;
        } else {
            match self.copy_over(sound) {
                Err(Error::NoSpace { .. }) => self.write_again(&content)?,
                copied => copied?,
            }
        }
        let synced = self.env.fs().sync_dir(&self.dir);
        synced.map_err(|error| Error::io_unknown("cannot sync folder", &self.dir, error))?;
        self.unsettled = None;
        Ok(())
    }

    /// Puts a file of these bytes in the manifest's place. Every open removes a file of its
    /// temporary name.
    fn copy_over(&mut self, content: &[u8]) -> Result<()> {
        let (fs, path) = (self.env.fs(), temporary(&self.dir));
        let made = || {
            if fs.exists(&path)? {
                fs.remove(&path)?;
            }
            let file = fs.open(&path, OpenOptions::CREATE)?;
            file.write_at(content, 0).map(|()| file)
        };
        let given_up = |_: &Error| drop(fs.remove(&path));
        let made = made().map_err(|error| Error::io("cannot write", &path, error));
        let file = made.inspect_err(given_up)?;
        let synced = file.sync();
        synced
            .map_err(|error| Error::io_unknown("cannot sync", &path, error))
            .inspect_err(given_up)?;
        fs.rename(&path, &self.log.path)
            .map_err(|error| Error::io_unknown("cannot rename to", &self.log.path, error))?;
        // Opened by its new name: file systems that inject faults know a file by the name of its
        // open.
        let opened = fs.open(&self.log.path, OpenOptions::WRITE);
        let failed = |error| Error::io("cannot open manifest", &self.log.path, error);
        (self.log.file, self.log.synced) = (opened.map_err(failed)?, content.len() as u64);
        Ok(())
    }

    /// Writes the manifest over itself, on a device that has no space for a copy.
    fn write_again(&mut self, content: &[u8]) -> Result<()> {
        let end = self.log.offset;
        self.cut_end(content)?;
        // The place of the next record does not move even if this fails: a full device may refuse
        // the write, and then the caller tries again.
        let after_snapshot = content.get(self.snapshot_len as usize..end as usize);
        let written = self.log.file.write_at(after_snapshot.unwrap_or_default(), self.snapshot_len);
        written.map_err(|error| Error::io("cannot write manifest", &self.log.path, error))?;
        self.log.sync()
    }

    fn cut_end(&self, content: &[u8]) -> Result<()> {
        if self.log.offset >= content.len() as u64 {
            return Ok(());
        }
        let cut = self.log.file.truncate(self.log.offset);
        cut.map_err(|error| Error::io("cannot cut manifest", &self.log.path, error))
    }
}
