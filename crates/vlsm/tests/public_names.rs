//! Every type that a public signature names can be named from the crate `vlsm` alone: nobody needs
//! the crates below it. This file compiles only while that is so, because it imports nothing else.
//!
//! It also shows the two uses that need most names: an environment of one's own, and a listener
//! that takes events apart.
#![allow(clippy::unwrap_used)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vlsm::env::{Condition, File, Fs, Join, Lock, OpenOptions, Priority, RealEnv, Waker};
use vlsm::policy::{
    AdmissionOptions, AdocOptions, AutoTunedOptions, Burst, CruiseOptions, Delay, DlcOptions,
    First, FixedOptions, FlsmOptions, GearOptions, GradualOptions, High, L1Limit, Limits,
    LoadModel, NoOptions, Order, Overlap, Pause, PriorityOptions, Rise, ScheduleOptions,
    ShapeOptions, SilkOptions, SlowdownStopOptions, SpLsmOptions, SpringOptions, TieredOptions,
    TreeOptions, TriadOptions, VlsmOptions,
};
use vlsm::{
    ByteCount, Bytes, BytesPerSec, Compression, Db, DeviceMap, Durability, Env, Event, JobId,
    JobKind, LockHolder, MemtableId, Micros, Options, PolicyOptions, Seq, TreeId,
};

/// The machine, with a count of the syncs.
struct Counting {
    machine: Arc<RealEnv>,
    fs: Arc<dyn Fs>,
}

struct Files {
    real: Arc<dyn Fs>,
    syncs: Arc<AtomicU64>,
}

struct Counted {
    file: Arc<dyn File>,
    syncs: Arc<AtomicU64>,
}

impl Env for Counting {
    fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }
    fn now(&self) -> Duration {
        self.machine.now()
    }
    fn wall_clock(&self) -> Duration {
        self.machine.wall_clock()
    }
    fn random(&self) -> u64 {
        self.machine.random()
    }
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<Box<dyn Join>> {
        self.machine.spawn(name, priority, body)
    }
    fn condition(&self, spin: Duration) -> Arc<dyn Condition> {
        self.machine.condition(spin)
    }
    fn waker(&self) -> Option<Arc<Waker>> {
        self.machine.waker()
    }
}

impl File for Counted {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Relaxed);
        self.file.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
}

impl Fs for Files {
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.real.absolute(path)
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.real.canonical(path)
    }
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = self.real.open(path, options)?;
        Ok(Arc::new(Counted { file, syncs: self.syncs.clone() }))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.real.read_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.real.remove(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.real.hard_link(from, to)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.real.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.real.exists(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.real.free_bytes(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.real.lock(path)
    }
    fn lock_holder(&self, path: &Path) -> LockHolder {
        self.real.lock_holder(path)
    }
    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.real.lock_shared(path)
    }
}

#[test]
fn an_environment_of_ones_own_needs_no_other_crate() {
    let folder = tempfile::tempdir().unwrap();
    let machine = RealEnv::new();
    let syncs = Arc::new(AtomicU64::new(0));
    let fs = Arc::new(Files { real: machine.fs().clone(), syncs: syncs.clone() });
    let env = Arc::new(Counting { machine, fs });
    let db = Db::builder(folder.path().join("store")).env(env).open().unwrap();
    let before = syncs.load(Relaxed);
    db.put("apple", "green").unwrap();
    db.sync().unwrap();
    assert!(syncs.load(Relaxed) > before, "the store syncs through the environment");
    db.close().unwrap();
}

#[test]
fn events_can_be_taken_apart() {
    type Flush = (JobId, TreeId, JobKind, ByteCount);
    let folder = tempfile::tempdir().unwrap();
    let rotated: Arc<Mutex<Vec<(TreeId, MemtableId)>>> = Arc::default();
    let flushes: Arc<Mutex<Vec<Flush>>> = Arc::default();
    let (to_rotated, to_flushes) = (rotated.clone(), flushes.clone());
    let listener = move |event: &Event| match *event {
        Event::Rotated { tree, memtable, .. } => to_rotated.lock().unwrap().push((tree, memtable)),
        Event::JobFinished { job, tree, kind, written, .. } => {
            to_flushes.lock().unwrap().push((job, tree, kind, written));
        }
        _ => {}
    };
    let db = Db::builder(folder.path().join("store")).listener(listener).open().unwrap();
    db.put("apple", "green").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let (rotated, flushes) = (rotated.lock().unwrap(), flushes.lock().unwrap());
    assert_eq!(rotated.len(), 1);
    let (_, tree, kind, written) = flushes[0];
    assert_eq!((tree, kind), (rotated[0].0, JobKind::Flush));
    assert!(written > ByteCount::ZERO);
}

/// The fields of the options of the mechanisms, each with the name of its type.
#[test]
fn all_options_have_types_with_names() {
    let options: Options = Options::default();
    let _: (&DeviceMap, Durability, &[Compression]) =
        (&options.device, options.durability, &options.compression);
    let policy: &PolicyOptions = &options.policy;
    let tree: &TreeOptions = &policy.tree;
    let _: (ByteCount, BytesPerSec) = (tree.sst_max, tree.device_bandwidth);

    let shapes: &ShapeOptions = &policy.shapes;
    let _: (&TieredOptions, &FlsmOptions) = (&shapes.tiered_l0, &shapes.flsm);
    let _: (&TriadOptions, &NoOptions, &NoOptions) = (&shapes.triad, &shapes.lsmi, &shapes.blsm);
    let (own, sp_lsm): (&VlsmOptions, &SpLsmOptions) = (&shapes.vlsm, &shapes.sp_lsm);
    let _: (Overlap, L1Limit, Order) = (own.overlap, own.l1_limit, sp_lsm.order);

    let schedules: &ScheduleOptions = &policy.schedules;
    let (silk, dlc): (&SilkOptions, &DlcOptions) = (&schedules.silk, &schedules.dlc);
    let _: (LoadModel, Pause, Micros) = (silk.load, silk.pause, silk.window);
    let _: (LoadModel, Delay, Burst) = (dlc.load, dlc.delay, dlc.burst);
    let _: (&NoOptions, &AutoTunedOptions) = (&schedules.fifo, &schedules.auto_tuned);
    let _: (&AdocOptions, &PriorityOptions) = (&schedules.adoc, &schedules.priority);
    let _: &GearOptions = &schedules.gear;

    let admissions: &AdmissionOptions = &policy.admissions;
    let cruise: &CruiseOptions = &admissions.cruise;
    let _: (First, High, Rise, Limits) = (cruise.first, cruise.high, cruise.rise, cruise.limits);
    let _: (&NoOptions, &SlowdownStopOptions) = (&admissions.open, &admissions.slowdown_stop);
    let _: (&FixedOptions, &SpringOptions) = (&admissions.fixed, &admissions.spring);
    let _: &GradualOptions = &admissions.gradual;
}

/// The slice of values and keys, and a sequence number, are the crate's, too.
#[test]
fn values_and_moments_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("store")).unwrap();
    let before: Seq = db.snapshot().seq();
    db.put("apple", "green").unwrap();
    let value: Option<Bytes> = db.get("apple").unwrap();
    assert_eq!(value.as_deref(), Some(&b"green"[..]));
    assert_eq!(db.last().unwrap(), Some((Bytes::from("apple"), Bytes::from("green"))));
    assert_eq!(db.first().unwrap(), db.last().unwrap());
    assert!(db.snapshot().seq() > before);
    db.close().unwrap();
}
