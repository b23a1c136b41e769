//! The parts of an open store, side by side. Logic lives with the parts; this file only holds them
//! together.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::events::Events;
use crate::files::{Files, Numbers};
use crate::health::Health;
use crate::install::Installer;
use crate::keyspace::KeyspaceInfo;
use crate::memory::Memory;
use crate::memtable::ArenaPool;
use crate::options::Options;
use crate::read::pins::Pins;
use crate::read::view::{TreeView, Views};
use crate::reserve::Reserve;
use crate::rules::Extensions;
use crate::snapshot::Snapshots;
use crate::space::Space;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::trace::Tracer;
use crate::write::commit::Commit;
use crate::write::gate::Gate;
use crate::write::wal_stage::{LiveWal, WalStage};
use std::path::PathBuf;
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Error, TreeId, Version};
use vlsm_disk::Env;
use vlsm_disk::env::Join;
use vlsm_disk::fs::Lock;
use vlsm_disk::io::IoPool;
use vlsm_policy::DeviceMap;

use crate::control::Control;

/// An open store.
pub(crate) struct Engine {
    pub env: Arc<dyn Env>,
    pub dir: PathBuf,
    pub options: Options,
    /// The random number of the store, in every handle to it.
    pub store_uid: u64,
    /// By which values expire.
    pub clock: Arc<Clock>,
    pub events: Arc<Events>,
    pub health: Health,
    pub space: Space,
    pub reserve: Reserve,
    pub counters: Counters,
    pub numbers: Numbers,
    pub keyspaces: Mutex<Vec<Arc<KeyspaceInfo>>>,
    /// The code that the store was opened with.
    pub extensions: Extensions,
    pub views: Views,
    pub snapshots: Snapshots,
    pub pins: Pins,
    pub gate: Gate,
    pub commit: Commit,
    pub wal: WalStage,
    /// The WAL files that may hold unflushed writes, the current one last.
    pub live_wals: Mutex<Vec<LiveWal>>,
    pub arenas: Arc<ArenaPool>,
    pub memory: Arc<Memory>,
    pub files: Arc<Files>,
    pub install: Installer,
    pub control: Control,
    /// What the device can do; empty where no mechanism asks.
    pub device: Arc<DeviceMap>,
    pub io: IoPool,
    pub tracer: Tracer,
    /// Whether writes outside the WAL were made.
    pub unlogged: AtomicBool,
    pub closing: AtomicBool,
    pub threads: Mutex<Vec<Box<dyn Join>>>,
    pub lock: Mutex<Option<Box<dyn Lock>>>,
}

/// See [`Engine::watch`].
pub(crate) struct Watch<'a> {
    engine: &'a Engine,
    /// Whether there was a panic before: that one is not ours.
    panicking: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.engine.latch(Error::Internal("a thread panicked in the midst of a change".into()));
        }
    }
}

impl Engine {
    /// Latches the store and wakes everybody who waits, so that they see it.
    pub fn latch(&self, error: Error) -> Error {
        let error = self.health.latch(error);
        self.wake_all();
        error
    }

    /// Wakes everybody who waits, so that they look at the store's health.
    pub fn wake_all(&self) {
        self.gate.wake();
        self.wal.wake();
        self.commit.wake();
        self.control.made_room();
        self.control.wake();
    }

    /// Has a background thread run `work`. A panic of it latches the store.
    pub fn in_background(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let engine = self.clone();
        self.io.submit(move || {
            let _watch = engine.watch();
            work(&engine);
            Ok(())
        });
    }

    /// Latches the store when it is dropped by a panic. Taken after a lock it does so before that
    /// lock is free, so nobody goes on from a state that is half changed.
    pub fn watch(&self) -> Watch<'_> {
        Watch { engine: self, panicking: std::thread::panicking() }
    }

    /// The keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<Arc<KeyspaceInfo>> {
        self.keyspaces.lock().iter().find(|info| info.name == name).cloned()
    }

    /// Adds the empty trees of a new keyspace to the view.
    pub fn add_trees(&self, keyspace: &KeyspaceInfo) {
        let tree = |id: &TreeId| TreeView {
            id: *id,
            active: self.idle_memtable(),
            immutables: Vec::new(),
            version: Arc::new(Version::default()),
            rules: keyspace.rules.clone(),
            mixed: false,
        };
        self.views.add(keyspace.trees.iter().map(tree));
    }

    /// Number of worker threads.
    pub fn worker_count(&self) -> usize {
        match self.options.workers {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            count => count,
        }
    }

    /// Tells listeners and the LOG.
    pub fn emit(&self, event: Event) {
        self.events.emit(event);
    }
}
