//! An open file of the simulated machine, and the map of its beginning.
//!
//! Stores into a map are calls here, so that tasks switch and power fails before and after them,
//! and in the middle of some. A fault of a store is an error that the system reports by a signal:
//! something else cut the file, or the device failed.

use super::{Call, Device, Kind};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash3_64;
use vlsm_disk::fs::{File, Map};

/// The distance of a misdirected read.
const ELSEWHERE: u64 = 4096;

pub(super) struct SimulatedFile {
    pub(super) device: Arc<Device>,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

impl SimulatedFile {
    fn read(&self, fault: Option<Kind>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if fault == Some(Kind::Eio) {
            return Err(io::Error::other("EIO"));
        }
        let read = self.file.read_at(buf, offset)?;
        match fault {
            Some(Kind::Misdirected) => {
                let elsewhere =
                    if offset < ELSEWHERE { offset + ELSEWHERE } else { offset - ELSEWHERE };
                let found = self.file.read_at(buf, elsewhere)?.min(read);
                buf[found..read].fill(0);
            }
            Some(Kind::Flip) if read > 0 => {
                let bit = self.device.machine.below(read as u64 * 8);
                buf[bit as usize / 8] ^= 1 << (bit % 8);
            }
            _ => {}
        }
        Ok(read)
    }

    fn write(&self, fault: Option<Kind>, buf: &[u8], offset: u64) -> io::Result<()> {
        let error = match fault {
            Some(kind @ (Kind::Eio | Kind::NoSpace | Kind::Short)) => kind.error(),
            _ => return self.file.write_at(buf, offset),
        };
        // Direct I/O writes whole pages.
        let page = if buf.len().is_multiple_of(4096) { 4096 } else { 1 };
        let part = match fault {
            Some(Kind::Short) => {
                self.device.machine.below((buf.len() / page) as u64) as usize * page
            }
            _ if self.device.machine.one_in(2) => buf.len() / 2 / page * page,
            _ if self.device.machine.one_in(2) => buf.len(),
            _ => 0,
        };
        let _ = self.file.write_at(&buf[..part], offset);
        Err(error)
    }
}

impl File for SimulatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let call = Call { offset, latency: (10, 200), ..Call::new("read", &self.path) };
        let read = self.device.faulty_call(call, |fault| self.read(fault, buf, offset))?;
        self.device.report.lock().read += read as u64;
        Ok(read)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let content = XxHash3_64::oneshot(buf);
        let call =
            Call { offset, content, latency: (5, 100), ..Call::mutates("write", &self.path) };
        self.device.faulty_call(call, |fault| self.write(fault, buf, offset))?;
        self.device.report.lock().written += buf.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync(&self.path, || self.file.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.device.call(Call::new("len", &self.path), || self.file.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let call = Call { offset: len, ..Call::mutates("truncate", &self.path) };
        self.device.call(call, || self.file.truncate(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let call = Call { offset: len, ..Call::mutates("allocate", &self.path) };
        self.device.faulty_call(call, |fault| match fault {
            Some(kind @ (Kind::Eio | Kind::NoSpace | Kind::Short)) => Err(kind.error()),
            _ => self.file.allocate(len),
        })
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        let map = self.device.call(Call::new("map", &self.path), || self.file.map(len))?;
        Ok(Arc::new(SimulatedMap { device: self.device.clone(), path: self.path.clone(), map }))
    }
}

impl Device {
    /// A sync of a file, or of a part of it. If it fails, nothing unsynced ever reaches the device.
    fn sync(&self, path: &Path, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let call = Call { latency: (50, 3_000), ..Call::mutates("sync", path) };
        self.faulty_call(call, |fault| match fault {
            None | Some(Kind::Slow) => act(),
            Some(kind) => {
                self.fail_sync(path);
                Err(kind.error())
            }
        })
    }
}

struct SimulatedMap {
    device: Arc<Device>,
    path: PathBuf,
    map: Arc<dyn Map>,
}

impl SimulatedMap {
    fn store_part(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let content = XxHash3_64::oneshot(bytes);
        let call = Call { offset, content, latency: (1, 2), ..Call::mutates("store", &self.path) };
        self.device.faulty_call(call, |fault| match fault {
            Some(kind @ (Kind::Eio | Kind::Short)) => {
                let part = self.device.machine.below(bytes.len() as u64 + 1) as usize;
                let _ = self.map.store(&bytes[..part], offset);
                Err(kind.error())
            }
            _ => self.map.store(bytes, offset),
        })?;
        self.device.report.lock().written += bytes.len() as u64;
        Ok(())
    }
}

impl Map for SimulatedMap {
    fn store(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // The machine may stop in the middle of a copy.
        let middle = if self.device.machine.one_in(4) { bytes.len() / 2 } else { 0 };
        let (first, rest) = bytes.split_at(middle);
        if !first.is_empty() {
            self.store_part(first, offset)?;
        }
        self.store_part(rest, offset + middle as u64)
    }

    fn populate(&self, from: u64, to: u64) -> io::Result<()> {
        let call = Call { offset: from, latency: (10, 200), ..Call::new("populate", &self.path) };
        self.device.call(call, || self.map.populate(from, to))
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        self.device.sync(&self.path, || self.map.sync(from, to))
    }

    fn release(&self, from: u64, to: u64) {
        self.map.release(from, to);
    }
}
