//! Syncs the WAL for appends: a thread of its own, so that no task waits for the device.
//!
//! 1. An append writes its entries into the store's memory and queues its callback.
//! 2. The thread takes all queued callbacks, syncs the WAL once, and completes them.
//!
//! openraft 0.9 waits for each append's callback before the next append, so the queue holds one
//! callback then; its bound is the number of appends that the caller lets run. When the last
//! handle goes away, it waits until the thread has completed what is queued.

use crate::error::StoreError;
use crate::plant::{self, Plant};
use crate::storage::TypeConfig;
use openraft::storage::LogFlushed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use vlsm::Db;

/// The thread, and its queue. A cheap handle.
pub struct Flusher<C: TypeConfig>(Arc<Thread<C>>);

struct Thread<C: TypeConfig> {
    /// None while the last handle is dropped.
    queue: Option<mpsc::Sender<LogFlushed<C>>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: TypeConfig> Clone for Flusher<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: TypeConfig> Flusher<C> {
    /// Starts the thread.
    pub fn start(db: Db) -> Result<Self, StoreError> {
        let (queue, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new().name("vlsm-raft-sync".to_owned());
        let path = db.path().to_owned();
        let started = thread.spawn(move || run(&db, &waiting));
        let started = started.map_err(StoreError::file("cannot start a thread to sync", path))?;
        Ok(Self(Arc::new(Thread { queue: Some(queue), thread: Some(started) })))
    }

    /// Completes the callback after the next sync.
    pub fn flush(&self, callback: LogFlushed<C>) {
        let queue = self.0.queue.as_ref().expect("a handle is there, so it was not dropped");
        if let Err(mpsc::SendError(callback)) = queue.send(callback) {
            callback.log_io_completed(Err(std::io::Error::other("the thread that syncs has died")));
        }
    }
}

impl<C: TypeConfig> Drop for Thread<C> {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // It has a handle of the store, which is closed when the last one goes away.
            let _ = thread.join();
        }
    }
}

fn run<C: TypeConfig>(db: &Db, waiting: &mpsc::Receiver<LogFlushed<C>>) {
    while let Ok(first) = waiting.recv() {
        let mut group = vec![first];
        group.extend(waiting.try_iter());
        let synced = match plant::is(Plant::AcknowledgeBeforeDurable) {
            true => Ok(()),
            false => db.sync().map_err(StoreError::from),
        };
        match synced {
            Ok(()) => group.into_iter().for_each(|callback| callback.log_io_completed(Ok(()))),
            Err(error) => {
                let text = error.to_string();
                let kind = error.into_io().kind();
                for callback in group {
                    callback.log_io_completed(Err(std::io::Error::new(kind, text.clone())));
                }
            }
        }
    }
}
