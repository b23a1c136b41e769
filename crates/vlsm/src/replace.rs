//! Clears or drops a keyspace, at the cost of one record in the manifest, whatever its size.
//!
//! 1. It waits until no ingest or checkpoint is running, and none begins until the trees are
//!    replaced.
//! 2. The WAL is synced, so that no crash keeps the change and loses an earlier write.
//! 3. The change is recorded, and the trees are replaced (`install/keyspaces`, `write/retire`).
//! 4. The change becomes visible after the batches before it.
//!
//! The keyspace's files are removed in the background when no reader sees them any more. Writers
//! wait only for the sequencing lock.

use crate::catalog::{DEFAULT_KEYSPACE, KeyspaceInfo};
use crate::engine::Engine;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result};

/// Removes all data of a keyspace.
pub(crate) fn clear(engine: &Engine, keyspace: &Arc<KeyspaceInfo>) -> Result<()> {
    replace(engine, keyspace, true)
}

/// Removes a keyspace.
pub(crate) fn drop_keyspace(engine: &Engine, keyspace: &Arc<KeyspaceInfo>) -> Result<()> {
    if keyspace.made().name == DEFAULT_KEYSPACE {
        return Err(Error::KeyspaceNeeded(DEFAULT_KEYSPACE.into()));
    }
    replace(engine, keyspace, false)
}

fn replace(engine: &Engine, keyspace: &Arc<KeyspaceInfo>, stays: bool) -> Result<()> {
    let Engine { shared, log, installer, writer, .. } = engine;
    shared.health.check()?;
    keyspace.trees()?;
    let alone = installer.without_ingests()?;
    if !planted::is(Bug::ClearUnsynced) {
        log.sync_all()?;
    }
    let retire = |new| writer.retire(keyspace, new);
    let seq = installer.replace_trees(keyspace, stays, retire)?;
    drop(alone);
    writer.await_published(seq)?;
    let installer = installer.clone();
    shared.in_background(move || {
        // If the device is full, the next install releases them.
        let _ = installer.release_wals();
    });
    Ok(())
}
