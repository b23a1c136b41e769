//! The state that all parts of a store share: its environment, its health, its ledgers, and the
//! [`channel`] for signals between the parts.
//!
//! It is the bottom of the engine: it knows none of the parts.

pub(crate) mod attribution;
pub(crate) mod callback;
pub(crate) mod channel;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod events;
pub(crate) mod gate;
pub(crate) mod habits;
pub(crate) mod health;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod published;
pub(crate) mod reserve;
pub(crate) mod space;

use crate::memtable::ArenaPool;
use crate::options::Options;
use crate::trace::{Asked, Tracer};
use channel::Channel;
use clock::Clock;
use counters::Counters;
use events::Events;
use gate::{Admitted, Gate};
use health::Health;
use latency::{Started, Timed};
use memory::Memory;
use numbers::Numbers;
use published::Published;
use reserve::Reserve;
use space::Space;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::{Event, WaitCause};
use vlsm_core::{Error, Micros, Result, TreeId};
use vlsm_disk::Env;
use vlsm_disk::io::IoPool;

/// A wait at least this long is an event of its own.
pub(crate) const WAIT_EVENT: Duration = Duration::from_millis(1);

/// The state that all parts of a store share.
pub(crate) struct Shared {
    pub env: Arc<dyn Env>,
    /// The store's folder.
    pub dir: PathBuf,
    pub options: Options,
    /// The random number that identifies the store; every handle to it has the same.
    pub store_uid: u64,
    /// The time by which values expire.
    pub clock: Arc<Clock>,
    pub events: Arc<Events>,
    pub health: Health,
    pub space: Space,
    pub reserve: Reserve,
    pub counters: Counters,
    pub published: Published,
    pub numbers: Numbers,
    pub memory: Arc<Memory>,
    pub arenas: Arc<ArenaPool>,
    pub io: IoPool,
    pub tracer: Tracer,
    /// Limits the rate of writers, and of readers if the admission limits reads.
    pub gate: Gate,
    pub channel: Channel,
}

/// See [`Shared::watch`].
pub(crate) struct Watch<'a> {
    shared: &'a Shared,
    /// Whether the thread was already panicking when the watch began; that panic is ignored.
    panicking: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.shared.latch(Error::Internal("a thread panicked in the midst of a change".into()));
        }
    }
}

impl Shared {
    /// Latches the store and wakes all waiters, so that they see it.
    pub fn latch(&self, error: Error) -> Error {
        let error = self.health.latch(error);
        self.channel.wake_all();
        self.gate.wake();
        error
    }

    /// Returns a guard that latches the store if a panic drops it. If the guard is taken after a
    /// lock, it latches before that lock is released, so no thread continues from a partially
    /// changed state.
    pub fn watch(&self) -> Watch<'_> {
        Watch { shared: self, panicking: std::thread::panicking() }
    }

    /// Fills the pool of spare arenas, for each of which the cache shrinks first.
    pub fn fill_arenas(&self) {
        self.arenas.fill(|held, bytes| self.memory.take_room(held, bytes));
    }

    /// Runs `work` on a background thread. A panic in it latches the store.
    pub fn in_background(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let shared = self.clone();
        self.io.submit(move || {
            let _watch = shared.watch();
            work();
            Ok(())
        });
    }

    /// Sends an event to the listener and the LOG. An event of a tree gets the name of its keyspace
    /// here.
    pub fn emit(&self, mut event: Event) {
        event.name_keyspace(|tree| self.counters.attribution.keyspace_of(tree));
        self.events.emit(event);
    }

    /// Begins to measure an operation; none if it is not in the sample.
    #[inline]
    pub fn begin(&self, kind: Timed) -> Option<Started<'_>> {
        self.counters.latencies.begin(kind, &*self.env)
    }

    /// Records that an operation has succeeded.
    #[inline]
    pub fn end(&self, started: Option<Started<'_>>) {
        if let Some(started) = started {
            started.end(&*self.env);
        }
    }

    /// Counts a finished wait; a long wait is also an event.
    pub fn note_wait(&self, cause: WaitCause, since: Duration) {
        self.note_wait_of(None, cause, since);
    }

    /// Counts a wait of a write into a tree; a long wait is also an event. The caller holds no
    /// lock.
    pub fn note_wait_of(&self, tree: Option<TreeId>, cause: WaitCause, since: Duration) {
        let took = self.env.now().saturating_sub(since);
        self.counters.waited(cause, took);
        if let Some(tree) = tree {
            self.counters.attribution.add(tree, cause, took);
        }
        if took >= WAIT_EVENT {
            let took = Micros(took.as_micros() as u64);
            let keyspace = tree.map(|tree| self.counters.attribution.keyspace_of(tree));
            let behind =
                tree.and_then(|tree| self.counters.attribution.behind(tree, since)).map(Box::new);
            self.events.emit(Event::Waited { cause, took, keyspace, behind });
        }
    }

    /// Waits until a write into this tree is admitted.
    #[cold]
    pub fn wait_at_gate(
        &self,
        tree: Option<TreeId>,
        bytes: u64,
        give_up: Option<Duration>,
    ) -> Result<Admitted> {
        self.counters.waiting_writers.add(1);
        let result = self.wait_for_ticket(tree, bytes, give_up);
        self.counters.waiting_writers.sub(1);
        result
    }

    /// Waits until `reads` reads are admitted. A stop applies only to writes, and a store that no
    /// longer accepts writes is read without limit.
    #[cold]
    pub fn wait_to_read(&self, reads: usize) {
        if !self.gate.is_open() && !self.gate.is_stopped() {
            _ = self.wait_for_ticket(None, self.gate.read_bytes(reads), None);
        }
    }

    fn wait_for_ticket(
        &self,
        tree: Option<TreeId>,
        bytes: u64,
        give_up: Option<Duration>,
    ) -> Result<Admitted> {
        let since = self.env.now();
        // A stop ends with a change, after which the policies decide anyway.
        if !self.gate.is_stopped() {
            self.channel.ask_again_within(since + gate::LOOK);
        }
        let result = self.gate.admit(&*self.env, &self.health, bytes, give_up);
        if self.env.now().saturating_sub(since) > gate::AT_ONCE {
            self.note_wait_of(tree, self.gate.cause(), since);
        }
        result
    }

    /// The present time in the unit of the policies.
    pub fn now_micros(&self) -> Micros {
        Micros(self.env.now().as_micros() as u64)
    }

    /// Records an operation that was called now, if a trace runs.
    #[inline]
    pub fn trace(&self, tree: TreeId, asked: Asked<'_>, key: &[u8]) {
        if self.tracer.is_on() {
            self.tracer.record(&self.io, self.env.now(), [(tree, asked, key)].into_iter());
        }
    }
}

/// The error if the system cannot start a thread of the store.
pub(crate) fn no_thread(dir: &Path, error: std::io::Error) -> Error {
    Error::io("cannot start a thread of the store", dir, error)
}
