//! The writer alone: no control, no installer, no workers. It only needs a view, a log and a thread
//! that signals room through the channel.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod check;
mod keep;

use super::Writer;
use crate::catalog::{Catalog, KeyspaceInfo, regions_from};
use crate::log::Log;
use crate::log::live::LiveWal;
use crate::memtable::{ArenaPool, Memtable};
use crate::options::{Durability, Options, WriteOptions};
use crate::read::view::{TreeView, Views};
use crate::rules::Extensions;
use crate::shared::Shared;
use crate::shared::channel::{Channel, Work};
use crate::shared::clock::Clock;
use crate::shared::counters::Counters;
use crate::shared::events::Events;
use crate::shared::gate::Gate;
use crate::shared::health::Health;
use crate::shared::memory::Memory;
use crate::shared::numbers::Numbers;
use crate::trace::Tracer;
use crate::write::batch::Batch;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, Error, MemtableId, Micros, Result, Seq, TreeId, Version};
use vlsm_disk::Env;
use vlsm_disk::env::Priority;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::Fs;
use vlsm_disk::io::IoPool;
use vlsm_disk::manifest;
use vlsm_disk::wal::reader::{RecoverOptions, recover};
use vlsm_disk::wal::{Entries, prepare_next};
use vlsm_policy::Admit;
use vlsm_testfs::SimFs;

const FOLDER: &str = "/store";
const TREE: TreeId = TreeId(0);

/// A writer with one keyspace of one tree.
struct Alone {
    disk: SimFs,
    shared: Arc<Shared>,
    views: Arc<Views>,
    writer: Arc<Writer>,
    keyspace: Arc<KeyspaceInfo>,
}

impl Alone {
    fn new(memtable_bytes: Bytes) -> Self {
        Self::of(memtable_bytes, 2)
    }

    fn of(memtable_bytes: Bytes, memtable_count: usize) -> Self {
        let disk = SimFs::new();
        disk.create_dir_all(Path::new(FOLDER)).unwrap();
        let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(disk.clone()));
        let mut options = Options::default();
        (options.policy.tree.memtable_bytes, options.policy.tree.memtable_count) =
            (memtable_bytes, memtable_count);
        options.wal_file_bytes = Bytes::mib(4);
        let shared = shared(&env, options);
        let views = Arc::new(Views::new(Seq::ZERO));
        let regions = regions_from(&[], 0);
        let (id, name, text) = (0, "default".to_owned(), String::new());
        let recorded = manifest::Keyspace { id, name, options: text, regions };
        let (clock, code) = (shared.clock.clone(), Extensions::default());
        let keyspace = Arc::new(KeyspaceInfo::of(&clock, 0, &recorded, &code).unwrap());
        views.add([TreeView {
            id: TREE,
            active: Memtable::idle(MemtableId(shared.numbers.next_memtable())),
            immutables: Vec::new(),
            version: Arc::new(Version::default()),
            rules: keyspace.made().rules.clone(),
            mixed: false,
        }]);
        let prepared = prepare_next(&disk, Path::new(FOLDER), 1, 7, 4 << 20, None);
        let wal = prepared.unwrap().start(None, Seq(1)).unwrap();
        let live = vec![LiveWal::of(&wal)];
        let log = Arc::new(Log::new(&shared, Seq::ZERO, wal, live));
        let catalog = Arc::new(Catalog::new(0, clock, code, vec![keyspace.clone()]));
        let writer = Arc::new(Writer::new(&shared, &views, &log, &catalog, false));
        Self { disk, shared, views, writer, keyspace }
    }

    fn put(&self, key: u64, len: usize, options: WriteOptions) -> Result<()> {
        let mut batch = Batch::new();
        batch.add_put(&self.keyspace, &key.to_be_bytes(), &vec![1; len]);
        self.writer.write(&batch, options)
    }

    /// Seals the active memtable. The next write brings the next one its room.
    fn seal(&self) -> Arc<Memtable> {
        let held = self.writer.log.sequence();
        let view = self.views.load_full();
        self.writer.rotate(&held, view.tree(TREE), self.writer.idle_memtable());
        view.tree(TREE).active.clone()
    }

    /// Sequence numbers and keys of the batches in the log, in its order.
    fn logged(&self) -> Vec<(Seq, Vec<u8>)> {
        let mut logged = Vec::new();
        let options = RecoverOptions {
            min_wal: 1,
            listed: &[1],
            flushed: None,
            salvage: false,
            read_only: true,
        };
        let disk = self.disk.fork();
        recover(&disk, Path::new(FOLDER), options, &mut |batch| {
            for entry in Entries::new(&batch.payload) {
                logged.push((batch.first_seq, entry.unwrap().key.to_vec()));
            }
            Ok(())
        })
        .unwrap();
        logged
    }

    /// As an install does: the sealed memtables are in SSTs.
    fn flush(&self) {
        self.views.update(TREE, |tree| {
            tree.immutables.iter().for_each(|sealed| sealed.note_gone());
            TreeView { immutables: Vec::new(), ..tree.clone() }
        });
        self.shared.channel.made_room();
    }
}

fn shared(env: &Arc<dyn Env>, mut options: Options) -> Arc<Shared> {
    options.set_memory(None);
    let (work, done) = Work::new(&**env);
    let bytes = Memtable::block_bytes(options.policy.tree.memtable_bytes.0 as usize);
    let memory = Arc::new(Memory::new(&options, 0, work.clone()));
    let arenas = ArenaPool::new(bytes, 2, 0, memory.arenas.clone());
    let events = Arc::new(Events::new(env.clone(), None, None));
    Arc::new(Shared {
        published: Default::default(),
        env: env.clone(),
        dir: FOLDER.into(),
        options,
        store_uid: 0,
        clock: Arc::new(Clock::new(env, Micros::ZERO)),
        health: Health::new(events.clone(), false),
        events,
        space: Default::default(),
        reserve: Default::default(),
        counters: Counters::default(),
        numbers: Numbers::new(2, 1, 1),
        memory,
        arenas: Arc::new(arenas),
        io: IoPool::new(env, 1, Priority::Normal, done).unwrap(),
        tracer: Tracer::new(),
        gate: Gate::new(env.condition(Duration::ZERO)),
        channel: Channel::new(&**env, work),
    })
}

fn with(durability: Durability) -> WriteOptions {
    WriteOptions { durability: Some(durability), ..WriteOptions::default() }
}

/// Whatever the order in which writers end: sequence numbers have no gap, the log has the batches
/// in their order, and everything is visible when all have returned.
#[test]
fn batches_of_many_writers_are_one_sequence() {
    let alone = Alone::new(Bytes::mib(8));
    let (writers, each) = (4_u64, 300_u64);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let alone = &alone;
            let durability = [Durability::Buffered, Durability::Sync][writer as usize % 2];
            scope.spawn(move || {
                for n in 0..each {
                    alone.put(writer << 32 | n, 40, with(durability)).unwrap();
                }
            });
        }
    });
    let count = writers * each;
    assert_eq!(alone.views.visible(), Seq(count));
    let logged = alone.logged();
    let seqs: Vec<u64> = logged.iter().map(|(seq, _)| seq.0).collect();
    assert_eq!(seqs, (1..=count).collect::<Vec<_>>());
    for writer in 0..writers {
        let own = logged.iter().map(|(_, key)| u64::from_be_bytes(key[..].try_into().unwrap()));
        let own: Vec<u64> =
            own.filter(|key| key >> 32 == writer).map(|key| key << 32 >> 32).collect();
        assert_eq!(own, (0..each).collect::<Vec<_>>(), "a writer's batches are in its order");
    }
    alone.shared.io.shutdown();
}

/// Where no memtable is free a write waits, says why, and goes on when the channel says that there
/// is room. It knows nobody who could make some.
#[test]
fn a_full_memtable_is_waited_for_through_the_channel() {
    let alone = Alone::new(Bytes::kib(64));
    let brief = WriteOptions { deadline: Some(Duration::from_millis(1)), ..with(Durability::Lazy) };
    let refused = (0..1_000).find_map(|n| alone.put(n, 1_000, brief).err());
    let Some(Error::Busy { cause, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(cause, "memtable full");
    assert_eq!(alone.views.load().tree(TREE).immutables.len(), 1);
    let before = alone.views.visible();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| alone.put(2_000, 1_000, with(Durability::Lazy)));
        while alone.shared.counters.stopped_writers.get() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(alone.views.visible(), before, "it has left no trace");
        alone.flush();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(alone.views.visible(), Seq(before.0 + 1));
    assert!(alone.shared.channel.take_marks().contains(&TREE), "the tick is told of the rotation");
    alone.shared.io.shutdown();
}

/// A failure of the log turns the writer away for good, and nothing of the write becomes visible.
#[test]
fn after_a_latch_nothing_becomes_visible() {
    let alone = Alone::new(Bytes::mib(1));
    alone.put(1, 10, with(Durability::Buffered)).unwrap();
    alone.shared.latch(Error::Internal("made up".into()));
    let refused = alone.put(2, 10, with(Durability::Buffered)).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
    assert_eq!((alone.views.visible(), alone.logged().len()), (Seq(1), 1));
    alone.shared.io.shutdown();
}

/// Where the admission limits reads, each takes its bytes of the rate. A stop is for writers only.
#[test]
fn reads_wait_at_the_gate_where_the_admission_limits_them() {
    let env: Arc<dyn Env> = RealEnv::new();
    let shared = shared(&env, Options::default());
    let took = |reads| {
        let start = env.now();
        shared.wait_to_read(reads);
        env.now() - start
    };
    let rate = Admit { writes: Some(BytesPerSec(1_000)), ..Admit::OPEN };
    shared.gate.set(rate, env.now());
    assert!(!shared.gate.limits_reads(), "reads are free");
    shared.gate.set(Admit { reads: Some(Bytes(5)), ..rate }, env.now());
    assert!(shared.gate.limits_reads());
    // The first one has its bytes on credit; they are owed by the second.
    took(10);
    assert!(took(1) >= Duration::from_millis(45), "50 bytes at 1,000 a second");
    assert!(shared.counters.waits[WaitCause::Admission as usize].stats().count >= 1);
    shared.gate.set(Admit { reads: Some(Bytes(5)), ..Admit::stop(WaitCause::L0Bound) }, env.now());
    shared.wait_to_read(1_000_000);
}

/// A stop may last as long as a device is full, and a latched store never ends one. A writer that
/// is held back by it is told.
#[test]
fn a_writer_at_a_stopped_gate_is_told_of_a_full_device_and_of_a_latched_store() {
    let env: Arc<dyn Env> = RealEnv::new();
    let full = Error::NoSpace { path: "wal".into() };
    for failure in [full, Error::Internal("as a test".into())] {
        let shared = shared(&env, Options::default());
        shared.gate.set(Admit::stop(WaitCause::L0Bound), env.now());
        let (there, here) = std::sync::mpsc::channel();
        let waiting = shared.clone();
        std::thread::spawn(move || there.send(waiting.wait_at_gate(None, 1, None).map(drop)));
        while shared.counters.waiting_writers.get() == 0 {
            std::thread::yield_now();
        }
        shared.failed(failure);
        let told = here.recv_timeout(Duration::from_secs(60)).expect("it is told");
        assert!(matches!(told, Err(Error::NoSpace { .. } | Error::ReadOnly { .. })), "{told:?}");
    }
}
