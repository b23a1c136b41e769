//! The disk as the simulated machine sees it: a file system around another one. At each call tasks
//! may switch and virtual time passes. Each call is counted and recorded in the trace, and may be
//! the last one.
//!
//! The seed decides whether a call takes effect at its start or at its end. So a sync may or may
//! not cover the concurrent writes of other tasks, and a call may have its effect before its caller
//! knows. Power can fail before and after every mutating call: call number n has the crash points
//! 2n (not done) and 2n + 1 (done, but not reported).
//!
//! Chosen calls fail, do a part, take long, or return wrong bytes ([`Fault`]).
//!
//! Once the machine is off, no call reaches the disk.

mod file;

use crate::disk::Disk;
use crate::machine::Machine;
use crate::trace::What;
use file::SimulatedFile;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use twox_hash::XxHash3_64;
use vlsm_core::LockHolder;
use vlsm_disk::fs::patience::{NO_DESCRIPTOR, NO_MEMORY, NO_SYSTEM_DESCRIPTOR, patiently};
use vlsm_disk::fs::{File, Fs, Lock, OpenOptions};
use vlsm_testfs::FailedSync;

/// The additional time of a slow call.
const SLOW: Duration = Duration::from_millis(500);

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The device fails. A write may have written its first half, or all.
    Eio,
    /// The device is full. A write may have written its first half, or all.
    NoSpace,
    /// A write writes its first part, then the device is full.
    Short,
    /// A read returns the bytes 4096 before or after.
    Misdirected,
    /// A read returns with one bit flipped.
    Flip,
    /// The call takes half a second more.
    Slow,
    /// The process has too many files open.
    NoDescriptor,
    /// The system has too many files open.
    NoSystemDescriptor,
    /// The system has no memory left.
    NoMemory,
    /// The system starts no more threads.
    NoThread,
}

impl Kind {
    /// Whether this fault can happen to a call.
    fn fits(self, call: &Call<'_>) -> bool {
        match self {
            Self::Eio | Self::Slow => true,
            Self::NoSpace => call.mutates && !matches!(call.name, "remove" | "store"),
            Self::Short => matches!(call.name, "write" | "store"),
            Self::Misdirected | Self::Flip => call.name == "read",
            Self::NoDescriptor | Self::NoSystemDescriptor | Self::NoMemory => call.opens,
            Self::NoThread => call.name == "spawn",
        }
    }

    /// The name of this fault at calls of this name, for reports.
    #[must_use]
    pub fn class(self, name: &str) -> String {
        let word = match self {
            Self::Eio => "EIO",
            Self::NoSpace => "ENOSPC",
            Self::Short => "short",
            Self::Misdirected => "misdirected",
            Self::Flip => "flipped bit",
            Self::Slow => "slow",
            Self::NoDescriptor => "EMFILE",
            Self::NoSystemDescriptor => "ENFILE",
            Self::NoMemory => "ENOMEM",
            Self::NoThread => "EAGAIN",
        };
        format!("{word} on {name}")
    }

    /// The system's error.
    fn error(self) -> io::Error {
        match self {
            Self::NoSpace | Self::Short => io::ErrorKind::StorageFull.into(),
            Self::NoDescriptor => io::Error::from_raw_os_error(NO_DESCRIPTOR),
            Self::NoSystemDescriptor => io::Error::from_raw_os_error(NO_SYSTEM_DESCRIPTOR),
            Self::NoMemory => io::Error::from_raw_os_error(NO_MEMORY),
            Self::NoThread => io::ErrorKind::WouldBlock.into(),
            Self::Eio | Self::Misdirected | Self::Flip | Self::Slow => io::Error::other("EIO"),
        }
    }
}

/// A fault and the calls that it affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub kind: Kind,
    /// Calls of this name; none for all.
    pub name: Option<&'static str>,
    /// Calls on files whose names have this suffix.
    pub suffix: &'static str,
    /// The first affected call, counted from 0.
    pub nth: u64,
    /// The number of consecutive affected calls.
    pub times: u64,
}

/// The longest lack of descriptors or memory, in calls, that the system's callers wait out.
pub const PASSING_MAX: u64 = 40;

impl Fault {
    /// Whether the fault only delays calls.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self.kind {
            Kind::Slow => true,
            Kind::NoDescriptor | Kind::NoSystemDescriptor | Kind::NoMemory => {
                self.times <= PASSING_MAX
            }
            _ => false,
        }
    }

    /// Whether an operation of the store by these calls, which change nothing, may fail because of
    /// this fault.
    #[must_use]
    pub fn hits(&self, calls: &[&str]) -> bool {
        let harmless = matches!(self.kind, Kind::NoSpace | Kind::Short) || self.passes();
        !harmless && self.name.is_none_or(|name| calls.contains(&name))
    }
}

/// The disk's faults, speed and crash point.
#[derive(Debug, Clone, Default)]
pub struct DeviceConfig {
    /// The calls that go wrong.
    pub faults: Vec<Fault>,
    /// Power fails at this crash point (see the module's text).
    pub crash_point: Option<u64>,
    /// Every call takes this many times longer; 0 counts as 1.
    pub slowness: u32,
    /// The number of files that may be open, as the system reports it.
    pub files_max: Option<usize>,
    /// The effect of a failed sync on the file's bytes.
    pub failed_sync: FailedSync,
}

/// The calls that the disk received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceReport {
    /// Calls by name.
    pub calls: BTreeMap<&'static str, u64>,
    /// Mutating calls. There are twice as many crash points.
    pub mutating: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Faults that happened, by kind and call.
    pub faults: BTreeMap<String, u64>,
}

impl DeviceReport {
    /// The number of faults that happened.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Whether a sync of a file failed.
    #[must_use]
    pub fn sync_failed(&self) -> bool {
        self.faults.keys().any(|class| class.ends_with("on sync") && !class.starts_with("slow"))
    }
}

/// The disk of a machine, with its configuration and counters.
pub struct Device {
    machine: Arc<Machine>,
    config: DeviceConfig,
    disk: Disk,
    report: Mutex<DeviceReport>,
    /// For each fault, the number of calls so far that it could have affected.
    seen: Mutex<Vec<u64>>,
    /// The new names of renamed files, for handles that know the old names.
    renamed: Mutex<BTreeMap<PathBuf, PathBuf>>,
}

/// One call, for the trace.
#[derive(Clone, Copy)]
struct Call<'a> {
    name: &'static str,
    path: &'a Path,
    offset: u64,
    content: u64,
    mutates: bool,
    /// Whether it needs a descriptor.
    opens: bool,
    latency: (u64, u64),
}

impl<'a> Call<'a> {
    fn new(name: &'static str, path: &'a Path) -> Self {
        let (mutates, opens) = (false, false);
        Self { name, path, offset: 0, content: 0, mutates, opens, latency: (1, 20) }
    }

    fn mutates(name: &'static str, path: &'a Path) -> Self {
        Self { mutates: true, ..Self::new(name, path) }
    }

    fn opens(self) -> Self {
        Self { opens: true, ..self }
    }

    fn detail(&self) -> u64 {
        let mut hash = XxHash3_64::new();
        hash.write(self.path.as_os_str().as_encoded_bytes());
        hash.write_u64(self.offset);
        hash.write_u64(self.content);
        hash.finish()
    }
}

impl Device {
    pub(crate) fn new(machine: Arc<Machine>, config: DeviceConfig, disk: &Disk) -> Self {
        let seen = Mutex::new(vec![0; config.faults.len()]);
        let (report, renamed) = (Mutex::default(), Mutex::default());
        Self { machine, config, disk: disk.clone(), report, seen, renamed }
    }

    pub(crate) fn mount(self: Arc<Self>) -> Arc<dyn Fs> {
        let disk = self.disk.fs();
        Arc::new(SimulatedFs { device: self, disk })
    }

    /// The calls that the disk received so far.
    #[must_use]
    pub fn report(&self) -> DeviceReport {
        self.report.lock().clone()
    }

    /// The disk behind the device.
    #[must_use]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Cuts the power. Returns only to a task that is unwinding.
    pub fn crash(&self) {
        self.machine.crash();
    }

    /// A call that either succeeds or fails.
    fn call<R>(&self, call: Call<'_>, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.faulty_call(call, |fault| match fault {
            None | Some(Kind::Slow) => act(),
            Some(kind) => Err(kind.error()),
        })
    }

    /// A call that opens something. A temporary error is retried as in production.
    fn patient_call<R>(&self, call: Call<'_>, act: impl Fn() -> io::Result<R>) -> io::Result<R> {
        let pause = |span| {
            if !std::thread::panicking() {
                self.machine.sleep(span);
            }
        };
        patiently(pause, || self.call(call.opens(), &act))
    }

    /// Fails if a fault hits the start of a thread.
    pub(crate) fn start_thread(&self) -> io::Result<()> {
        // Counted as a call only if such a fault exists, so that other runs do not change.
        if self.config.faults.iter().all(|fault| fault.kind != Kind::NoThread) {
            return Ok(());
        }
        self.call(Call::new("spawn", Path::new("")), || Ok(()))
    }

    /// A call. `act` receives the fault that hits it, if one does.
    fn faulty_call<R>(
        &self,
        call: Call<'_>,
        act: impl FnOnce(Option<Kind>) -> io::Result<R>,
    ) -> io::Result<R> {
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
        let fault = self.fault(&call);
        if fault == Some(Kind::Slow) && !std::thread::panicking() {
            self.machine.sleep(SLOW);
            self.powered()?;
        }
        let result = act(fault);
        if crash_here(number.wrapping_mul(2).wrapping_add(1)) {
            self.crash();
            return Err(no_power());
        }
        if early {
            self.pass_time(call.latency)?;
        }
        result
    }

    /// The fault that hits this call, if one does.
    fn fault(&self, call: &Call<'_>) -> Option<Kind> {
        let mut hit = None;
        for (fault, seen) in self.config.faults.iter().zip(self.seen.lock().iter_mut()) {
            let named = fault.name.is_none_or(|name| name == call.name);
            let path = call.path.as_os_str().as_encoded_bytes();
            if !named || !fault.kind.fits(call) || !path.ends_with(fault.suffix.as_bytes()) {
                continue;
            }
            let due = *seen >= fault.nth && *seen - fault.nth < fault.times;
            *seen += 1;
            if due && hit.is_none() {
                hit = Some(fault.kind);
            }
        }
        if let Some(kind) = hit {
            let class = kind.class(call.name);
            *self.report.lock().faults.entry(class).or_default() += 1;
        }
        hit
    }

    /// Records a failed sync of a file, which may have been renamed since it was opened.
    fn fail_sync(&self, path: &Path) {
        let renamed = self.renamed.lock();
        let mut path = path;
        while let Some(later) = renamed.get(path) {
            path = later;
        }
        self.disk.fail_sync(path, self.config.failed_sync);
    }

    fn pass_time(&self, (least, most): (u64, u64)) -> io::Result<()> {
        if std::thread::panicking() || !self.machine.one_in(self.machine.pace.io) {
            return self.powered();
        }
        let micros = least + self.machine.below(most - least + 1);
        self.machine.sleep(Duration::from_micros(micros) * self.config.slowness.max(1));
        self.powered()
    }

    /// Unwinds the task if the machine is off. An error if the task unwinds already.
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

impl Fs for SimulatedFs {
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.absolute(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.canonical(path)
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.disk.lock_holder(path)
    }

    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let call = match options.create_new {
            true => Call::mutates("create", path),
            false => Call::new("open", path),
        };
        let file = self.device.patient_call(call, || self.disk.open(path, options))?;
        Ok(Arc::new(SimulatedFile { device: self.device.clone(), path: path.to_owned(), file }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("mkdir", path), || self.disk.create_dir_all(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.device.patient_call(Call::new("readdir", path), || self.disk.read_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("rename", to), || self.disk.rename(from, to))?;
        let mut renamed = self.device.renamed.lock();
        // The name may have belonged to another file before.
        renamed.remove(to);
        renamed.insert(from.to_owned(), to.to_owned());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("remove", path), || self.disk.remove(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.device.call(Call::mutates("link", to), || self.disk.hard_link(from, to))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let call = Call { latency: (50, 1_000), ..Call::mutates("syncdir", path) };
        self.device.patient_call(call, || self.disk.sync_dir(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.device.call(Call::new("exists", path), || self.disk.exists(path))
    }

    fn files_max(&self) -> Option<usize> {
        self.device.config.files_max
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.device.call(Call::new("statvfs", path), || self.disk.free_bytes(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.device.call(Call::mutates("lock", path), || self.disk.lock(path))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.device.call(Call::new("lock shared", path), || self.disk.lock_shared(path))
    }
}
