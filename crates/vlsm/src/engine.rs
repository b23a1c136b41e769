//! The parts of an open store. The logic is in the parts; this file only connects them. Operations
//! on several parts (open, close, checkpoint, ingest, statistics) have files of their own.

use crate::catalog::Catalog;
use crate::control::{self, Control};
use crate::install::{self, Installer};
use crate::job;
use crate::job::hot::HotKeys;
use crate::job::logged::Logs;
use crate::log::{Above, Log};
use crate::read::Reader;
use crate::read::table_cache::TableCache;
use crate::read::view::Views;
use crate::shared::Shared;
use crate::shared::attribution::Informed;
use crate::shared::published::Figures;
use crate::sync::Mutex;
use crate::write::Writer;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::Behind;
use vlsm_core::{Micros, Result, Seq, TreeId};
use vlsm_disk::fs::Lock;
use vlsm_disk::manifest::{Manifest, State};
use vlsm_disk::wal::reader::LiveWal;
use vlsm_policy::{Deciders, DeviceMap, Shape};

/// An open store.
pub(crate) struct Engine {
    pub shared: Arc<Shared>,
    pub catalog: Arc<Catalog>,
    pub reader: Arc<Reader>,
    pub log: Arc<Log>,
    pub installer: Arc<Installer>,
    pub writer: Arc<Writer>,
    pub control: Arc<Control>,
    /// Held until the store is closed.
    pub lock: Mutex<Option<Box<dyn Lock>>>,
    /// The state of the last look at a store that another process writes. A thread holds this lock
    /// while it catches up; it is only taken with `try_lock`.
    pub catching_up: Mutex<Seen>,
}

/// The ends of the files at the last look at a store that another process writes.
#[derive(Default)]
pub(crate) struct Seen {
    /// The manifest, and its length.
    pub position: (u64, u64),
    /// The last WAL; none before the first look, or if the store had none.
    pub last: Option<LiveWal>,
    /// The last sequence number.
    pub seq: Seq,
}

/// The parts that an open has recovered or created, for [`Engine::compose`].
pub(crate) struct Opened {
    pub shared: Arc<Shared>,
    pub catalog: Catalog,
    pub views: Views,
    pub log: Log,
    pub manifest: (Manifest, State),
    pub shape: Arc<dyn Shape>,
    pub deciders: Deciders,
    pub device: Arc<DeviceMap>,
    pub lock: Option<Box<dyn Lock>>,
}

impl Engine {
    /// Builds the store from these parts. Nothing runs yet.
    pub fn compose(opened: Opened) -> Arc<Self> {
        let Opened { shared, catalog, views, log, manifest, shape, deciders, device, lock } =
            opened;
        let (catalog, views, log) = (Arc::new(catalog), Arc::new(views), Arc::new(log));
        let (tables, snapshots) = (Arc::new(TableCache::new(&shared)), Arc::default());
        let reader = Arc::new(Reader::new(&shared, &views, &tables, &snapshots));
        let installer = Arc::new(Installer::new(
            install::Parts {
                shared: shared.clone(),
                reader: reader.clone(),
                log: log.clone(),
                catalog: catalog.clone(),
                shape: shape.clone(),
            },
            manifest,
        ));
        let (gathers, sketches) = (shape.gathers() > 1, shape.sketches());
        let writer = Arc::new(Writer::new(&shared, &views, &log, &catalog, gathers));
        let (share, keeps) = (shape.hot_keys(), writer.clone());
        let hot = (share > 0.0).then(|| HotKeys { share, keeps });
        let logs = shape.logs_values().then(|| -> Arc<dyn Logs> {
            log.allocate_files();
            Arc::new(log.clone())
        });
        let control = Arc::new(Control::new(control::Parts {
            reader: reader.clone(),
            log: log.clone(),
            installer: installer.clone(),
            writer: writer.clone(),
            jobs: job::Context {
                shared: shared.clone(),
                views,
                tables,
                snapshots,
                sketches,
                hot,
                logs,
            },
            device,
            shape,
            deciders,
        }));
        let (lock, catching_up) = (Mutex::new(lock), Mutex::default());
        let engine = Arc::new(Self {
            shared,
            catalog,
            reader,
            log,
            installer,
            writer,
            control,
            lock,
            catching_up,
        });
        let above: Arc<dyn Above> = engine.clone();
        engine.log.attach(Arc::downgrade(&above));
        let informed: Arc<dyn Informed> = engine.clone();
        engine.shared.counters.attribution.attach(Arc::downgrade(&informed));
        let figures: Arc<dyn Figures> = engine.clone();
        engine.shared.published.attach(Arc::downgrade(&figures));
        engine
    }
}

impl Above for Engine {
    fn record_wals(&self) -> Result<()> {
        self.installer.record_wals()
    }

    fn bound_log(&self) {
        self.writer.bound_wal();
    }
}

impl Informed for Engine {
    fn keyspace_of(&self, tree: TreeId) -> Option<String> {
        self.catalog.owner(tree).map(|info| info.name())
    }

    fn behind(&self, tree: TreeId, since: Duration) -> Option<Behind> {
        let (since, now) = (Micros(since.as_micros() as u64), self.shared.now_micros());
        let found = self.control.state().chains.behind(tree, since, now);
        let (tree, chain) = found?;
        Some(Behind::new(tree, self.keyspace_of(tree).unwrap_or_default(), chain))
    }
}
