//! Clears or drops a keyspace: at the cost of one record in the manifest, however much it holds.
//!
//! 1. Ingests and checkpoints end first, and none begins until the change is visible.
//! 2. The WAL is synced, so that no crash keeps the change and loses a write from before it.
//! 3. The change is recorded, and the trees are replaced (`install/keyspaces`, `write/retire`).
//! 4. The change becomes visible after the batches before it.
//!
//! The keyspace's files are removed in the background when no reader sees them any more. Writers
//! wait for none of this, apart from the sequencing lock.

use crate::catalog::{DEFAULT_KEYSPACE, KeyspaceInfo};
use crate::engine::Engine;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result};

/// Removes everything that a keyspace holds.
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
        // What is not released now is released by the next install.
        let _ = installer.release_wals();
    });
    Ok(())
}
