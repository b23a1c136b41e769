//! One client thread: it takes its operations, does them and counts them.
//!
//! 1. Closed loop: it does its share of the operations one after another.
//! 2. Open loop: it does the requests that are due by the [`Sequence`], and sleeps if none is due.
//!    It reads the clock once per operation: the completion of one decides about the next one.
//!
//! Threads: it shares the sequence with other clients. It shares the lock of its interval with the
//! collector, which holds the lock only for a swap of two intervals.

use super::Run;
use crate::arrivals::{Next, Sequence};
use crate::clock::exact_wakeups;
use crate::metrics::{Interval, Kind};
use crate::store::{StoreResult, Write};
use crate::trace::Act;
use crate::workload::data::Data;
use crate::workload::{Generator, Op, Transaction};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// One client thread.
pub(super) struct Client<'a> {
    run: &'a Run<'a>,
    generator: Generator,
    slot: &'a Mutex<Interval>,
    key: Vec<u8>,
    /// The writes of a transaction: keys, each with a value, or with `None` for a delete.
    writes: Vec<(Vec<u8>, Option<&'a [u8]>)>,
}

/// The kind and the counts of a completed operation.
struct Done {
    kind: Kind,
    /// Reads that found nothing.
    misses: u64,
    /// Bytes written by the user.
    user_bytes: u64,
}

impl Done {
    fn new(kind: Kind, misses: bool, user_bytes: usize) -> Self {
        Self { kind, misses: u64::from(misses), user_bytes: user_bytes as u64 }
    }
}

impl<'a> Client<'a> {
    pub fn new(run: &'a Run<'a>, generator: Generator, slot: &'a Mutex<Interval>) -> Self {
        Self { run, generator, slot, key: Vec::new(), writes: Vec::new() }
    }

    /// Does all of its work; `share` operations in a closed loop.
    pub fn work(&mut self, share: u64) {
        let run = self.run;
        match &run.sequence {
            None => self.closed(share),
            Some(sequence) => self.open(sequence),
        }
    }

    /// Whether the phase is over for this client.
    fn over(&self, now: u64) -> bool {
        let run = self.run;
        now >= run.end || run.stop.load(Relaxed) || run.failed.load(Relaxed)
    }

    fn closed(&mut self, share: u64) {
        for _ in 0..share {
            let op = self.generator.next_op();
            let begun = self.run.clock.now();
            if self.over(begun) {
                return;
            }
            let done = self.execute(op);
            if self.count(done, begun).is_none() {
                return;
            }
        }
    }

    fn open(&mut self, sequence: &Sequence) {
        exact_wakeups();
        let clock = self.run.clock;
        let mut now = clock.now();
        while !self.over(now) {
            match sequence.next(now) {
                Next::End => return,
                Next::Sleep(until) => {
                    clock.sleep_until(until);
                    now = clock.now();
                }
                Next::Serve(index, due) => {
                    let done = match &self.run.trace {
                        Some((trace, values)) => self.replay(trace.op(index as usize), values),
                        None => {
                            let op = self.generator.next_op();
                            self.execute(op)
                        }
                    };
                    let Some(completed) = self.count(done, due) else { return };
                    now = completed;
                }
            }
        }
    }

    /// Counts an operation that is done, with its latency from `since`. Returns the time of its
    /// completion, or `None` after a failure.
    #[inline]
    fn count(&mut self, done: StoreResult<Done>, since: u64) -> Option<u64> {
        match done {
            Ok(done) => {
                let completed = self.run.clock.now();
                let mut interval = self.slot.lock();
                interval.latencies.record(done.kind, completed.saturating_sub(since));
                interval.misses += done.misses;
                interval.user_bytes += done.user_bytes;
                Some(completed)
            }
            Err(error) => {
                self.run.error.lock().get_or_insert(error);
                self.run.failed.store(true, Relaxed);
                None
            }
        }
    }

    fn execute(&mut self, op: Op) -> StoreResult<Done> {
        let Run { store, data, .. } = *self.run;
        match op {
            Op::Transaction(transaction) => return self.transaction(transaction),
            Op::ReadMissing(record) => data.missing_key(record, &mut self.key),
            Op::ScanAt(place, _) => data.key_at(place, self.generator.records(), &mut self.key),
            Op::Read(record)
            | Op::Update(record)
            | Op::Insert(record)
            | Op::Delete(record)
            | Op::Scan(record, _)
            | Op::ReadModifyWrite(record) => data.key(record, &mut self.key),
        }
        let key = &self.key;
        let mut put = || {
            let value = data.value(self.generator.random());
            store.put(key, value).map(|()| key.len() + value.len())
        };
        Ok(match op {
            Op::Read(_) | Op::ReadMissing(_) => Done::new(Kind::Read, store.get(key)?.is_none(), 0),
            Op::Update(_) => Done::new(Kind::Update, false, put()?),
            Op::Insert(_) => Done::new(Kind::Insert, false, put()?),
            Op::Delete(_) => {
                store.delete(key)?;
                Done::new(Kind::Delete, false, key.len())
            }
            Op::Scan(_, limit) | Op::ScanAt(_, limit) => {
                Done::new(Kind::Scan, store.scan(key, limit)? == 0, 0)
            }
            Op::ReadModifyWrite(_) => {
                let missed = store.get(key)?.is_none();
                Done::new(Kind::ReadModifyWrite, missed, put()?)
            }
            Op::Transaction(_) => unreachable!("it was done above"),
        })
    }

    /// Does an operation of a trace.
    fn replay(&mut self, (act, key): (Act, &[u8]), values: &Data) -> StoreResult<Done> {
        let store = self.run.store;
        Ok(match act {
            Act::Get => Done::new(Kind::Read, store.get(key)?.is_none(), 0),
            Act::Put(len) => {
                store.put(key, values.value_of(len, self.generator.random()))?;
                Done::new(Kind::Update, false, key.len() + len)
            }
            Act::Delete => {
                store.delete(key)?;
                Done::new(Kind::Delete, false, key.len())
            }
            Act::Scan(limit) => {
                Done::new(Kind::Scan, store.scan(key, limit.max(1))? == 0 && limit > 0, 0)
            }
        })
    }

    /// Does the reads, then the scans, then all writes as one batch.
    fn transaction(&mut self, transaction: Transaction) -> StoreResult<Done> {
        let Run { store, data, .. } = *self.run;
        let mut misses = 0;
        for _ in 0..transaction.reads {
            data.key(self.generator.pick(), &mut self.key);
            misses += u64::from(store.get(&self.key)?.is_none());
        }
        for _ in 0..transaction.scans {
            data.key(self.generator.pick(), &mut self.key);
            misses += u64::from(store.scan(&self.key, transaction.scan_length as usize)? == 0);
        }
        let count = transaction.updates + 2 * transaction.replaces;
        self.writes.resize_with(count as usize, Default::default);
        let (updates, replaces) = self.writes.split_at_mut(transaction.updates as usize);
        for (key, value) in updates {
            data.key(self.generator.pick(), key);
            *value = Some(data.value(self.generator.random()));
        }
        for pair in replaces.chunks_exact_mut(2) {
            let record = self.generator.pick();
            pair.iter_mut().for_each(|(key, _)| data.key(record, key));
            pair[0].1 = None;
            pair[1].1 = Some(data.value(self.generator.random()));
        }
        let mut user_bytes = 0;
        let mut writes = Vec::with_capacity(self.writes.len());
        for (key, value) in &self.writes {
            user_bytes += key.len() + value.map_or(0, <[u8]>::len);
            writes.push(match value {
                Some(value) => Write::Put(key, value),
                None => Write::Delete(key),
            });
        }
        if !writes.is_empty() {
            store.write(&writes)?;
        }
        Ok(Done { misses, ..Done::new(Kind::Transaction, false, user_bytes) })
    }
}
