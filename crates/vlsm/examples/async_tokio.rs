//! Uses the store from asynchronous code, with tokio. No call of the store blocks an executor's
//! thread.
//!
//! ```text
//! cargo run -p vlsm --example async_tokio [FOLDER]
//! ```
//!
//! The store's calls are blocking: a read may wait for the device, a write for a sync or for room.
//! 1. So reads, scans and syncs run in `spawn_blocking`. Handles are cheap to clone and `Send`, and
//!    a transaction owns what it needs, so they move into the closure.
//! 2. A small `Lazy` write with a deadline of zero usually goes into memory, without a file call.
//!    It fails with `Busy` if it would have to wait; then the same batch goes to `spawn_blocking`.
//!    So the executor's threads stay free even when the store delays writers.
//! 3. A scan sends its pairs through a bounded channel. A slow receiver stops the scan, and
//!    dropping the receiver ends it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use vlsm::{Batch, Bytes, Db, Durability, Error, Keyspace, Result, WriteOptions};

/// Writes a batch. If the write has to wait, it waits outside of the executor.
async fn write(db: &Db, batch: Batch) -> Result<()> {
    let lazy = WriteOptions::durability(Durability::Lazy);
    match db.write(&batch, lazy.deadline(Duration::ZERO)) {
        Err(Error::Busy { .. }) => {
            let db = db.clone();
            blocking(move || db.write(&batch, lazy)).await
        }
        written => written,
    }
}

/// Runs a call of the store on a thread that may block.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(call).await.expect("the call does not panic, and nobody aborts it")
}

/// The pairs of a keyspace as a stream. At most 16 pairs are in flight.
fn stream(keyspace: Keyspace) -> mpsc::Receiver<Result<(Bytes, Bytes)>> {
    let (sender, receiver) = mpsc::channel(16);
    spawn_blocking(move || {
        for pair in &keyspace {
            if sender.blocking_send(pair).is_err() {
                break; // the receiver was dropped
            }
        }
    });
    receiver
}

/// A service: many tasks write, one sync makes their writes durable, and a stream reads them.
async fn serve(db: Db) -> Result<String> {
    const TASKS: u64 = 20;
    let items = db.default_keyspace();
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (db, items) = (db.clone(), items.clone());
        tasks.push(tokio::spawn(async move {
            for n in 0..50_u64 {
                let mut batch = Batch::new();
                batch.put(&items, (task * 50 + n).to_be_bytes(), n.to_string());
                write(&db, batch).await?;
            }
            Ok::<_, Error>(())
        }));
    }
    for task in tasks {
        task.await.expect("no task panics")?;
    }
    let syncing = db.clone();
    blocking(move || syncing.sync()).await?; // one sync for all of them

    let mut pairs = stream(items.clone());
    let mut count = 0;
    while let Some(pair) = pairs.recv().await {
        let (key, _) = pair?;
        assert_eq!(key[..], u64::to_be_bytes(count)); // in key order
        count += 1;
    }
    assert_eq!(count, TASKS * 50);
    drop(stream(items.clone())); // a stream without a receiver ends by itself

    // The whole transaction moves into the closure, and runs again there after a conflict.
    let changing = db.clone();
    let before = blocking(move || {
        changing.transact(|transaction| {
            let before = transaction.get(&items, 0_u64.to_be_bytes())?;
            transaction.put(&items, 0_u64.to_be_bytes(), "changed")?;
            Ok(before)
        })
    })
    .await?;
    assert!(before.is_some());
    blocking(move || db.close()).await?;
    Ok(format!("{count} pairs written by {TASKS} tasks and read as a stream\n"))
}

/// Runs the service on the store in `folder`.
pub fn run(folder: &Path) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.map_err(|source| Error::io("start threads for", folder, source))?;
    runtime.block_on(async {
        let folder = folder.to_owned();
        let db = blocking(move || Db::open(folder)).await?;
        serve(db).await
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| temporary.path().join("store"));
    print!("{}", run(&folder)?);
    Ok(())
}
