//! An open file of the simulated disk, and the map of its beginning.
//!
//! A map has the freedoms that a kernel has. Stored bytes are in the file at once, as programs see
//! it, and survive the end of the process. The content of the device is random until the next sync:
//! each sector in any of its states, and the states between two words of one store, because a page
//! may be written to the device in the middle of a copy.
//!
//! A store counts as a mutating call, so that the machine may stop there. A sync of a range covers
//! exactly the range, although a kernel writes whole pages.

use super::Inode;
use crate::sim::{Disk, SimFs, full_unless};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use vlsm_disk::fs::{File, Map, OpenOptions};

pub(crate) struct SimFile {
    fs: SimFs,
    inode: u64,
    life: u64,
    options: OpenOptions,
}

impl SimFile {
    pub(crate) fn new(fs: &SimFs, inode: u64, life: u64, options: OpenOptions) -> Self {
        Self { fs: fs.clone(), inode, life, options }
    }

    fn look<R>(&self, act: impl FnOnce(&mut Inode) -> io::Result<R>) -> io::Result<R> {
        self.fs.call(Some(self.life), false, |disk| act(disk.inode(self.inode)?))
    }

    fn change(&self, act: impl FnOnce(&mut Disk) -> io::Result<()>) -> io::Result<()> {
        if !self.options.write {
            return Err(ErrorKind::PermissionDenied.into());
        }
        self.fs.call(Some(self.life), true, act)
    }

    /// Checks the rules of direct I/O, which a disk in memory does not need but a real one does.
    fn check(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let all = buf.as_ptr() as usize | buf.len() | offset as usize;
        let aligned = !self.options.direct || all.is_multiple_of(4096);
        if aligned { Ok(()) } else { Err(ErrorKind::InvalidInput.into()) }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(buf, offset)?;
        self.look(|inode| Ok(inode.read(buf, offset)))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check(buf, offset)?;
        self.change(|disk| {
            let end = offset.saturating_add(buf.len() as u64);
            let fits = disk.room_to(self.inode, end)?.saturating_sub(offset).min(buf.len() as u64);
            disk.inode(self.inode)?.write(&buf[..fits as usize], offset)?;
            full_unless(fits == buf.len() as u64)
        })
    }

    fn sync(&self) -> io::Result<()> {
        // A read-only handle may sync. The sync includes the writes of other handles.
        self.fs.call(Some(self.life), true, |disk| {
            disk.inode(self.inode)?.keep();
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.look(|inode| Ok(inode.bytes().len() as u64))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.change(|disk| {
            full_unless(disk.room_to(self.inode, len)? == len)?;
            disk.inode(self.inode)?.truncate(len)
        })
    }

    /// The simulated disk has no blocks that are allocated only: they are zeros.
    fn allocate(&self, len: u64) -> io::Result<()> {
        let have = self.len()?;
        match usize::try_from(len.saturating_sub(have)) {
            Ok(0) => Ok(()),
            Ok(more) => self.write_at(&vec![0; more], have),
            Err(_) => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn is_direct(&self) -> bool {
        self.options.direct
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        if !self.options.write {
            return Err(ErrorKind::PermissionDenied.into());
        }
        self.look(|inode| within(inode, 0, len))?;
        let file = Self { fs: self.fs.clone(), ..*self };
        Ok(Arc::new(SimMap { file, len }))
    }
}

struct SimMap {
    file: SimFile,
    len: u64,
}

impl SimMap {
    fn check(&self, from: u64, to: u64) -> io::Result<()> {
        let sound = from <= to && to <= self.len;
        if sound { Ok(()) } else { Err(ErrorKind::InvalidInput.into()) }
    }
}

/// Fails if the file does not have the range: it was cut.
fn within(inode: &Inode, from: u64, to: u64) -> io::Result<()> {
    let there = from <= to && to <= inode.bytes().len() as u64;
    if there { Ok(()) } else { Err(ErrorKind::InvalidInput.into()) }
}

impl Map for SimMap {
    fn store(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        self.check(offset, end)?;
        self.file.change(|disk| {
            let inode = disk.inode(self.file.inode)?;
            within(inode, offset, end)?;
            // The first third, the last one, then what is between: no order of words is promised.
            let third = bytes.len() / 24 * 8;
            let last = bytes.len() - third;
            for part in [0..third, last..bytes.len(), third..last] {
                inode.write(&bytes[part.clone()], offset + part.start as u64)?;
            }
            Ok(())
        })
    }

    fn populate(&self, from: u64, to: u64) -> io::Result<()> {
        self.check(from, to)?;
        self.file.look(|inode| within(inode, from, to))
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        self.check(from, to)?;
        self.file.change(|disk| {
            disk.inode(self.file.inode)?.keep_range(from, to);
            Ok(())
        })
    }

    fn release(&self, _: u64, _: u64) {}
}
