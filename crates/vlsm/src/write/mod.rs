//! The write path, in the order a batch goes through it: the gate (`shared/gate`) → [`commit`]
//! (sequence, memtable, WAL, [`publish`]; [`large`] for large batches) with [`rotate`] when a
//! memtable is full.
//! [`retire`] is the moment at which a keyspace is cleared or dropped;
//! [`barrier`] orders operations other than batches (ingests) among the batches, [`flush`] waits
//! until memtables are flushed; [`keep`] brings hot keys of memtables that are flushed into the
//! active one; [`check`] compares a transaction's reads with the batches before its own.
//!
//! [`Writer`] sees the shared state, the view, the log and the names of keyspaces. The control sets
//! the rate of the gate; the installer signals free memtables through the channel.

pub(crate) mod barrier;
pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod commit;
pub(crate) mod flush;
pub(crate) mod keep;
pub(crate) mod large;
mod needs;
pub(crate) mod publish;
pub(crate) mod retire;
pub(crate) mod rotate;

use crate::catalog::Catalog;
use crate::log::Log;
use crate::read::view::Views;
use crate::shared::Shared;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use check::Recent;
use publish::{PUBLISH_SPIN, Publisher};
use std::sync::Arc;
use vlsm_core::{Error, Result};

/// Takes the writes of an open store.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    views: Arc<Views>,
    log: Arc<Log>,
    catalog: Arc<Catalog>,
    publisher: Publisher,
    /// Barriers that were raised and not ended ([`barrier`]).
    barriers: AtomicU64,
    recent: Recent,
    /// Whether the shape gathers memtables before they go out.
    gathers: bool,
    /// Whether writes outside the WAL were made.
    unlogged: AtomicBool,
    closing: AtomicBool,
}

impl Writer {
    pub fn new(
        shared: &Arc<Shared>,
        views: &Arc<Views>,
        log: &Arc<Log>,
        catalog: &Arc<Catalog>,
        gathers: bool,
    ) -> Self {
        let condition = || shared.channel.condition(&*shared.env, PUBLISH_SPIN);
        Self {
            publisher: Publisher::new(condition, views),
            shared: shared.clone(),
            views: views.clone(),
            log: log.clone(),
            catalog: catalog.clone(),
            barriers: AtomicU64::new(0),
            recent: Recent::default(),
            gathers,
            unlogged: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }
    }

    /// Whether writes outside the WAL were made.
    pub fn wrote_unlogged(&self) -> bool {
        self.unlogged.load(Ordering::Acquire)
    }

    /// Wakes those who wait at the gate or to be published, so that they look at the store's
    /// health.
    pub fn wake(&self) {
        self.shared.gate.wake();
        self.publisher.wake();
    }

    /// Refuses to write if the store has failed or is being closed. In the sequencing step.
    fn check_open(&self) -> Result<()> {
        self.shared.health.check()?;
        match self.closing.load(Ordering::Relaxed) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// Takes no write from here on. False when it took none before.
    pub fn shut(&self) -> bool {
        // In the sequencing step, so that every batch that was sequenced can be made durable.
        let _held = self.log.sequence();
        !self.closing.swap(true, Ordering::AcqRel)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
