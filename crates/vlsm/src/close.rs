//! Closes a store.
//!
//! 1. New writes are refused. Writes outside the WAL are flushed. The WAL is synced, and a mark at
//!    its end records the orderly close.
//! 2. All waiters are woken and return [`Error::Closed`](vlsm_core::Error::Closed). The workers
//!    end, and running jobs are cancelled.
//! 3. The published statistics, dead SSTs and unneeded WALs are removed, and the LOCK is released.
//!
//! A latched store is closed, too; the call returns the failure that latched it.

use crate::engine::Engine;
use vlsm_core::event::Event;
use vlsm_core::{Error, Result};

/// Closes the store. A second call does nothing.
pub(crate) fn close(engine: &Engine) -> Result<()> {
    let Engine { shared, log, installer, reader, writer, control, .. } = engine;
    if !writer.shut() {
        return Ok(());
    }
    let traced = shared.tracer.end();
    let mut result = shared.health.check_running();
    let read_only = matches!(result, Err(Error::OpenedReadOnly));
    if result.is_ok() {
        // Writes outside the WAL may lack the space for their flush; all other writes are made
        // durable.
        let flushed = if writer.wrote_unlogged() { writer.flush_all() } else { Ok(()) };
        result = flushed.and(log.seal_end());
    }
    shared.health.close();
    writer.wake();
    log.shut();
    let ended_well = control.end_workers();
    control.discard_jobs();
    shared.io.shutdown();
    shared.published.end(&*shared.env, &shared.dir);
    if result.is_ok() {
        // Removes SSTs whose last reader ended after the workers' last check, and those of retired
        // trees.
        reader.take_back();
        installer.dead().remove(shared);
        result = installer.close_wals();
    }
    control.tell_rotations();
    shared.emit(Event::Closed);
    shared.events.write_log();
    engine.lock.lock().take();
    if read_only {
        result = Ok(());
    }
    if !ended_well && result.is_ok() {
        result = Err(Error::Internal("a worker panicked".into()));
    }
    result.and(traced.map(drop))
}
