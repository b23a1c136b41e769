//! The disk as the simulated machine sees it: another file system, of which every call is a point
//! where tasks may switch, takes virtual time, is counted and noted in the trace, and may be the
//! last one.
//!
//! A call takes effect either when it starts or when it ends, as the seed decides; what others do
//! in the meantime therefore may or may not be covered by a sync, and an effect may be there before
//! its caller knows. Power can fail before and after every mutating call: mutating call number n
//! has the crash points 2n (not done) and 2n + 1 (done, but nobody was told).
//!
//! Once the machine is off, no call reaches the disk.

use crate::machine::Machine;
use crate::trace::What;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vlsm_disk::fs::{File, Fs, Lock, OpenOptions};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which of the calls, counted from 0: of the calls of this name, or of all.
    pub nth: u64,
    /// Of which name.
    pub name: Option<&'static str>,
    /// What the system says. A write may have written its first half then.
    pub error: io::ErrorKind,
    /// All such calls after it fail too.
    pub forever: bool,
}

/// What the disk does besides storing.
#[derive(Debug, Clone, Default)]
pub struct DeviceConfig {
    /// The call that fails.
    pub fault: Option<Fault>,
    /// Power fails at this crash point (see the module's text).
    pub crash_point: Option<u64>,
    /// Every call takes this many times longer; 0 counts as 1.
    pub slowness: u32,
}

/// What the disk saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceReport {
    /// Calls by name.
    pub calls: BTreeMap<&'static str, u64>,
    /// Mutating calls; twice as many crash points.
    pub mutating: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Calls that failed as configured.
    pub faults: u64,
}

/// The disk's switches and counters.
pub struct Device {
    machine: Arc<Machine>,
    config: DeviceConfig,
    report: Mutex<DeviceReport>,
}

/// One call, for the trace.
#[derive(Clone, Copy)]
struct Call<'a> {
    name: &'static str,
    path: &'a Path,
    offset: u64,
    content: u64,
    mutates: bool,
    latency: (u64, u64),
}

impl<'a> Call<'a> {
    fn new(name: &'static str, path: &'a Path) -> Self {
        Self { name, path, offset: 0, content: 0, mutates: false, latency: (1, 20) }
    }

    fn mutates(name: &'static str, path: &'a Path) -> Self {
        Self { mutates: true, ..Self::new(name, path) }
    }

    fn detail(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.path.as_os_str().as_encoded_bytes());
        hash.write_u64(self.offset);
        hash.write_u64(self.content);
        hash.digest()
    }
}

impl Device {
    pub(crate) fn new(machine: Arc<Machine>, config: DeviceConfig) -> Self {
        Self { machine, config, report: Mutex::default() }
    }

    pub(crate) fn mount(self: Arc<Self>, disk: Arc<dyn Fs>) -> Arc<dyn Fs> {
        Arc::new(SimulatedFs { device: self, disk })
    }

    /// What the disk saw so far.
    #[must_use]
    pub fn report(&self) -> DeviceReport {
        self.report.lock().clone()
    }

    /// Loses power now. Returns only to a task that is being unwound.
    pub fn crash(&self) {
        self.machine.crash();
    }

    fn call<R>(&self, call: Call<'_>, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.powered()?;
        self.machine.note(What::Io, call.name, call.detail());
        let number = {
            let mut report = self.report.lock();
            *report.calls.entry(call.name).or_default() += 1;
            report.mutating += u64::from(call.mutates);
            report.mutating.wrapping_sub(1)
        };
        let crash_here = |point: u64| call.mutates && self.config.crash_point == Some(point);
        if crash_here(number.wrapping_mul(2)) {
            self.crash();
            return Err(no_power());
        }
        let early = self.machine.one_in(2);
        if !early {
            self.pass_time(call.latency)?;
        }
        let result = match self.fault(call.name) {
            Some(error) => Err(error),
            None => act(),
        };
        if crash_here(number.wrapping_mul(2).wrapping_add(1)) {
            self.crash();
            return Err(no_power());
        }
        if early {
            self.pass_time(call.latency)?;
        }
        result
    }

    /// The error with which this call fails, if it does.
    fn fault(&self, name: &'static str) -> Option<io::Error> {
        let fault = self.config.fault?;
        let mut report = self.report.lock();
        let count: u64 = match fault.name {
            Some(only) if only != name => return None,
            Some(only) => report.calls.get(only).copied().unwrap_or(0),
            None => report.calls.values().sum(),
        };
        let fires = count == fault.nth + 1 || (fault.forever && count > fault.nth);
        report.faults += u64::from(fires);
        fires.then(|| io::Error::from(fault.error))
    }

    fn pass_time(&self, (least, most): (u64, u64)) -> io::Result<()> {
        if std::thread::panicking() || !self.machine.one_in(self.machine.pace.io) {
            return self.powered();
        }
        let micros = least + self.machine.below(most - least + 1);
        self.machine.sleep(Duration::from_micros(micros) * self.config.slowness.max(1));
        self.powered()
    }

    /// Unwinds the task when the machine is off; an error when that is going on already.
    fn powered(&self) -> io::Result<()> {
        if self.machine.is_off() {
            self.machine.give_way(1);
            return Err(no_power());
        }
        Ok(())
    }
}

fn no_power() -> io::Error {
    io::Error::other("the machine is off")
}

struct SimulatedFs {
    device: Arc<Device>,
    disk: Arc<dyn Fs>,
}

struct SimulatedFile {
    device: Arc<Device>,
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Fs for SimulatedFs {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let call = match options.create_new {
            true => Call::mutates("create", path),
            false => Call::new("open", path),
        };
        let file = self.device.call(call, || self.disk.open(path, options))?;
        Ok(Arc::new(SimulatedFile { device: self.device.clone(), path: path.to_owned(), file }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("mkdir", path), || self.disk.create_dir_all(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.device.call(Call::new("readdir", path), || self.disk.read_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("rename", to), || self.disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("remove", path), || self.disk.remove(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("link", to), || self.disk.hard_link(from, to))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let call = Call { latency: (50, 1_000), ..Call::mutates("syncdir", path) };
        self.device.call(call, || self.disk.sync_dir(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.device.call(Call::new("exists", path), || self.disk.exists(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.device.call(Call::mutates("lock", path), || self.disk.lock(path))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.device.call(Call::new("lock shared", path), || self.disk.lock_shared(path))
    }
}

impl File for SimulatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let call = Call { offset, latency: (10, 200), ..Call::new("read", &self.path) };
        let read = self.device.call(call, || self.file.read_at(buf, offset))?;
        self.device.report.lock().read += read as u64;
        Ok(read)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let content = xxh3_64(buf);
        let call =
            Call { offset, content, latency: (5, 100), ..Call::mutates("write", &self.path) };
        let result = self.device.call(call, || self.file.write_at(buf, offset));
        if result.is_err() && !self.device.machine.is_off() && self.device.machine.one_in(2) {
            let _ = self.file.write_at(&buf[..buf.len() / 2], offset);
        }
        result?;
        self.device.report.lock().written += buf.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let call = Call { latency: (50, 3_000), ..Call::mutates("sync", &self.path) };
        self.device.call(call, || self.file.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.device.call(Call::new("len", &self.path), || self.file.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let call = Call { offset: len, ..Call::mutates("truncate", &self.path) };
        self.device.call(call, || self.file.truncate(len))
    }
}
