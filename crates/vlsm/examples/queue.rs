//! A durable queue with several workers: each job runs at least once, in about the order in which
//! the jobs were added.
//!
//! ```text
//! cargo run -p vlsm --example queue [FOLDER]
//! ```
//!
//! 1. The key of a job is its number. Jobs wait in one keyspace, and are in another while a worker
//!    has them. A transaction moves them, so a job is always in exactly one place.
//! 2. If two workers take the same job, their transactions conflict: one commit succeeds, and the
//!    other worker tries again.
//! 3. Opening the queue moves jobs back that a worker had when the process died.
//!
//! A queue leaves a tombstone for each job at its front. So workers begin their search behind the
//! last taken number, not at the first key, and do not walk over the tombstones.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use vlsm::{Bytes, Db, Error, Keyspace, KeyspaceOptions, Result};

/// The queue.
struct Queue {
    db: Db,
    waiting: Keyspace,
    running: Keyspace,
    /// The number of the next job. The lock is held while a job is added, so that jobs become
    /// visible in the order of their numbers.
    next: Mutex<u64>,
    /// No job with a smaller number waits, or will wait.
    front: AtomicU64,
}

/// A job that a worker has.
struct Job {
    key: Bytes,
    what: Bytes,
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("the keys of a queue are numbers"))
}

impl Queue {
    /// Opens the queue. Unfinished jobs wait again.
    fn open(folder: &Path) -> Result<Self> {
        let db = Db::open(folder)?;
        let waiting = db.create_keyspace("waiting", KeyspaceOptions::new())?;
        let running = db.create_keyspace("running", KeyspaceOptions::new())?;
        db.transact(|transaction| {
            for pair in transaction.iter(&running) {
                let (key, what) = pair?;
                transaction.put(&waiting, key, what)?;
            }
            transaction.delete_range(&running, ..)
        })?;
        let next = waiting.last()?.map_or(0, |(key, _)| number(&key) + 1);
        let front = waiting.first()?.map_or(next, |(key, _)| number(&key));
        Ok(Self { db, waiting, running, next: next.into(), front: front.into() })
    }

    /// Adds a job. It is as durable as any other write: see `WriteOptions`.
    fn add(&self, what: &str) -> Result<()> {
        let mut next = self.next.lock().expect("no holder of the lock panics");
        self.waiting.put(next.to_be_bytes(), what)?;
        *next += 1;
        Ok(())
    }

    /// Takes the first job; none if no job waits.
    fn take(&self) -> Result<Option<Job>> {
        loop {
            let front = self.front.load(Ordering::Relaxed);
            let taken = self.db.transact(|transaction| {
                let first = transaction.range(&self.waiting, front.to_be_bytes()..).next();
                let Some((key, what)) = first.transpose()? else { return Ok(None) };
                transaction.delete(&self.waiting, &key)?;
                transaction.put(&self.running, &key, &what)?;
                Ok(Some(Job { key, what }))
            });
            if matches!(taken, Err(Error::Conflict { .. })) {
                continue; // other workers took jobs each time
            }
            if let Ok(Some(job)) = &taken {
                self.front.fetch_max(number(&job.key) + 1, Ordering::Relaxed);
            }
            return taken;
        }
    }

    /// Removes a job that is done.
    fn done(&self, job: &Job) -> Result<()> {
        self.running.delete(&job.key)
    }
}

/// Runs jobs through a queue in `folder`.
pub fn run(folder: &Path) -> Result<String> {
    const JOBS: u64 = 200;
    let queue = Queue::open(folder)?;
    let (added, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let produce = |from: u64| -> Result<()> {
        for n in (from..JOBS).step_by(2) {
            queue.add(&n.to_string())?;
        }
        added.fetch_add(1, Ordering::Release);
        Ok(())
    };
    let consume = || -> Result<u64> {
        let mut count = 0;
        loop {
            let over = added.load(Ordering::Acquire) == 2;
            match queue.take()? {
                Some(job) => {
                    let text = std::str::from_utf8(&job.what).expect("jobs are digits");
                    sum.fetch_add(text.parse().unwrap_or(0), Ordering::Relaxed);
                    queue.done(&job)?;
                    count += 1;
                }
                None if over => return Ok(count),
                None => std::thread::yield_now(),
            }
        }
    };
    let counts = std::thread::scope(|scope| {
        let producers = [scope.spawn(|| produce(0)), scope.spawn(|| produce(1))];
        let workers = [scope.spawn(consume), scope.spawn(consume), scope.spawn(consume)];
        for producer in producers {
            producer.join().expect("no thread panics")?;
        }
        let counts = workers.map(|worker| worker.join().expect("no thread panics"));
        counts.into_iter().collect::<Result<Vec<u64>>>()
    })?;
    assert_eq!(counts.iter().sum::<u64>(), JOBS);
    assert_eq!(sum.into_inner(), (0..JOBS).sum()); // each job ran once
    assert!(queue.waiting.is_empty()? && queue.running.is_empty()?);

    // A worker takes a job and never finishes it; after a restart the job waits again.
    queue.add("lost?")?;
    assert!(queue.take()?.is_some());
    drop(queue);
    let queue = Queue::open(folder)?;
    let job = queue.take()?.expect("it waits again");
    assert_eq!(job.what, "lost?");
    queue.done(&job)?;
    queue.db.close()?;
    Ok(format!("{JOBS} jobs done by {} workers, one more after a restart\n", counts.len()))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| temporary.path().join("store"));
    print!("{}", run(&folder)?);
    Ok(())
}
