//! A file system whose calls can be made to fail.
//!
//! A rule fits a class of calls on paths that contain a text, from the n-th such call on, once or
//! for ever. Rules are tried in the order in which they were added, and the first that fits a call
//! decides. Each counts how often it fired, because a test with a fault that never fired proves
//! nothing.

use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::LockHolder;
use vlsm_disk::fs::{File, Fs, Lock, Map, OpenOptions};

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Open,
    Create,
    Read,
    Write,
    Sync,
    Len,
    Truncate,
    CreateDir,
    ReadDir,
    Rename,
    Remove,
    Link,
    SyncDir,
    Exists,
    Lock,
    Map,
    Populate,
    Store,
}

impl Op {
    /// Whether the call changes the disk.
    #[must_use]
    pub fn mutates(self) -> bool {
        !matches!(
            self,
            Self::Open
                | Self::Read
                | Self::Len
                | Self::ReadDir
                | Self::Exists
                | Self::Map
                | Self::Populate
        )
    }
}

/// The effect of a rule on a call.
#[derive(Clone)]
pub enum Fault {
    /// The device fails.
    Eio,
    /// The device is full.
    NoSpace,
    /// The file system does not have the call.
    Unsupported,
    /// A write does its first half (whole pages of whole pages), then the device is full. Other
    /// calls fail as on a full device.
    ShortWrite,
    /// A write does at most this many bytes, then the device is full. Other calls fail as on a full
    /// device.
    CutWrite(usize),
    /// A read returns bytes from another place, 4096 bytes before or after. Other calls are
    /// unaffected.
    Misdirected,
    /// An open uses the page cache although the options ask for direct I/O, as on a file system
    /// without it. Other calls are unaffected.
    Buffered,
    /// The call is delayed until this returns, and is otherwise unaffected.
    Delay(Arc<dyn Fn() + Send + Sync>),
}

/// A fault and the calls that it affects.
#[derive(Clone)]
pub struct Rule {
    /// Calls of these kinds; empty for all kinds.
    pub ops: Vec<Op>,
    /// Calls on paths that contain this text. For a rename or a link either path counts.
    pub path: String,
    /// The first of these calls that is affected; 1 is the first of all.
    pub nth: u64,
    /// Whether all later such calls are affected, too.
    pub forever: bool,
    /// The fault.
    pub fault: Fault,
}

impl Rule {
    /// A rule for the first call of this kind on such a path, once.
    #[must_use]
    pub fn once(op: Op, path: &str, fault: Fault) -> Self {
        Self { ops: vec![op], path: path.into(), nth: 1, forever: false, fault }
    }

    /// The same rule, beginning at the n-th such call.
    #[must_use]
    pub fn nth(self, nth: u64) -> Self {
        Self { nth, ..self }
    }

    /// The same rule, for all later calls, too.
    #[must_use]
    pub fn forever(self) -> Self {
        Self { forever: true, ..self }
    }
}

/// The identity of a rule of a [`FaultFs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId(usize);

struct Active {
    rule: Rule,
    seen: u64,
    fired: u64,
    off: bool,
}

#[derive(Default)]
struct Rules {
    active: Mutex<Vec<Active>>,
    calls: Mutex<u64>,
}

impl Rules {
    fn choose(&self, op: Op, paths: &[&Path]) -> Option<Fault> {
        *self.calls.lock() += 1;
        let mut rules = self.active.lock();
        let mut chosen = None;
        for active in rules.iter_mut().filter(|active| !active.off) {
            let rule = &active.rule;
            let named = |path: &&Path| path.to_string_lossy().contains(&rule.path);
            if !(rule.ops.is_empty() || rule.ops.contains(&op)) || !paths.iter().any(named) {
                continue;
            }
            active.seen += 1;
            let due = active.seen == rule.nth || (rule.forever && active.seen > rule.nth);
            if due && chosen.is_none() {
                active.fired += 1;
                chosen = Some(rule.fault.clone());
            }
        }
        chosen
    }

    fn call<R>(
        &self,
        op: Op,
        paths: &[&Path],
        act: impl FnOnce(Option<Fault>) -> io::Result<R>,
    ) -> io::Result<R> {
        match self.choose(op, paths) {
            Some(Fault::Eio) => Err(io::Error::other("an injected fault of the device")),
            Some(Fault::NoSpace) => Err(ErrorKind::StorageFull.into()),
            Some(Fault::Unsupported) => Err(ErrorKind::Unsupported.into()),
            Some(Fault::ShortWrite | Fault::CutWrite(_)) if op != Op::Write => {
                Err(ErrorKind::StorageFull.into())
            }
            Some(Fault::Delay(wait)) => {
                wait();
                act(None)
            }
            fault => act(fault),
        }
    }
}

/// A file system whose calls can be made to fail.
#[derive(Clone)]
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    rules: Arc<Rules>,
}

impl FaultFs {
    /// A file system without rules: it behaves like `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Fs>) -> Self {
        Self { inner, rules: Arc::default() }
    }

    /// Adds a rule.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut rules = self.rules.active.lock();
        rules.push(Active { rule, seen: 0, fired: 0, off: false });
        RuleId(rules.len() - 1)
    }

    /// Ends a rule.
    pub fn end(&self, id: RuleId) {
        if let Some(active) = self.rules.active.lock().get_mut(id.0) {
            active.off = true;
        }
    }

    /// Ends all rules: no call fails any more.
    pub fn end_all(&self) {
        self.rules.active.lock().iter_mut().for_each(|active| active.off = true);
    }

    /// The number of times that a rule fired.
    #[must_use]
    pub fn fired(&self, id: RuleId) -> u64 {
        self.rules.active.lock().get(id.0).map_or(0, |active| active.fired)
    }

    /// Number of calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        *self.rules.calls.lock()
    }
}

impl Fs for FaultFs {
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.canonical(path)
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.inner.lock_holder(path)
    }

    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let op = if options.create_new { Op::Create } else { Op::Open };
        let inner = self.rules.call(op, &[path], |fault| match fault {
            Some(Fault::Buffered) => self.inner.open(path, options.direct(false)),
            _ => self.inner.open(path, options),
        })?;
        Ok(Arc::new(FaultFile { inner, rules: self.rules.clone(), path: path.to_owned() }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.rules.call(Op::CreateDir, &[path], |_| self.inner.create_dir_all(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.rules.call(Op::ReadDir, &[path], |_| self.inner.read_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rules.call(Op::Rename, &[from, to], |_| self.inner.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.rules.call(Op::Remove, &[path], |_| self.inner.remove(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rules.call(Op::Link, &[from, to], |_| self.inner.hard_link(from, to))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.rules.call(Op::SyncDir, &[path], |_| self.inner.sync_dir(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.rules.call(Op::Exists, &[path], |_| self.inner.exists(path))
    }

    fn files_max(&self) -> Option<usize> {
        self.inner.files_max()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.rules.call(Op::Lock, &[path], |_| self.inner.lock(path))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.rules.call(Op::Lock, &[path], |_| self.inner.lock_shared(path))
    }
}

struct FaultFile {
    inner: Arc<dyn File>,
    rules: Arc<Rules>,
    path: PathBuf,
}

impl File for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.rules.call(Op::Read, &[&self.path], |fault| match fault {
            Some(Fault::Misdirected) if offset >= 4096 => self.inner.read_at(buf, offset - 4096),
            Some(Fault::Misdirected) => self.inner.read_at(buf, offset + 4096),
            _ => self.inner.read_at(buf, offset),
        })
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.rules.call(Op::Write, &[&self.path], |fault| match fault {
            Some(Fault::ShortWrite) => {
                let pages = buf.len().is_multiple_of(4096);
                let half = if pages { buf.len() / 8192 * 4096 } else { buf.len() / 2 };
                self.inner.write_at(&buf[..half], offset)?;
                Err(ErrorKind::StorageFull.into())
            }
            Some(Fault::CutWrite(len)) => {
                self.inner.write_at(&buf[..len.min(buf.len())], offset)?;
                Err(ErrorKind::StorageFull.into())
            }
            _ => self.inner.write_at(buf, offset),
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.rules.call(Op::Sync, &[&self.path], |_| self.inner.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.rules.call(Op::Len, &[&self.path], |_| self.inner.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.rules.call(Op::Truncate, &[&self.path], |_| self.inner.truncate(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.rules.call(Op::Write, &[&self.path], |_| self.inner.allocate(len))
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        let inner = self.rules.call(Op::Map, &[&self.path], |_| self.inner.map(len))?;
        Ok(Arc::new(FaultMap { inner, rules: self.rules.clone(), path: self.path.clone() }))
    }
}

struct FaultMap {
    inner: Arc<dyn Map>,
    rules: Arc<Rules>,
    path: PathBuf,
}

impl Map for FaultMap {
    fn store(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.rules.call(Op::Store, &[&self.path], |_| self.inner.store(bytes, offset))
    }

    fn populate(&self, from: u64, to: u64) -> io::Result<()> {
        self.rules.call(Op::Populate, &[&self.path], |_| self.inner.populate(from, to))
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        self.rules.call(Op::Sync, &[&self.path], |_| self.inner.sync(from, to))
    }

    fn release(&self, from: u64, to: u64) {
        self.inner.release(from, to);
    }
}
