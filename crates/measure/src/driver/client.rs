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
use crate::workload::{Generator, Key, Op};
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
    user_bytes: usize,
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
                        Some((values, trace)) => self.replay(trace.op(index as usize), values),
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
                interval.user_bytes += done.user_bytes as u64;
                Some(completed)
            }
            Err(error) => {
                self.run.error.lock().get_or_insert(error);
                self.run.failed.store(true, Relaxed);
                None
            }
        }
    }

    /// Does the next operation of the workload.
    fn execute(&mut self, Op { kind, key, length }: Op) -> StoreResult<Done> {
        let data = self.run.data;
        match key {
            Key::Record(record) => data.key(record, &mut self.key),
            Key::Missing(record) => data.missing_key(record, &mut self.key),
            Key::At(place) => data.key_at(place, self.generator.records(), &mut self.key),
        }
        self.act(kind, length, |random| data.value(random))
    }

    /// Does an operation of a trace.
    fn replay(&mut self, (act, key): (Act, &[u8]), values: &Data) -> StoreResult<Done> {
        self.key.clear();
        self.key.extend_from_slice(key);
        let (kind, length) = match act {
            Act::Get => (Kind::Read, 0),
            Act::Put(length) => (Kind::Update, length),
            Act::Delete => (Kind::Delete, 0),
            Act::Scan(length) => (Kind::Scan, length),
        };
        self.act(kind, length, |random| values.value_of(length, random))
    }

    /// Does an operation on the client's key. A scan has a length. `value` makes a value of a
    /// random number.
    fn act<'b>(
        &mut self,
        kind: Kind,
        length: usize,
        value: impl FnOnce(u64) -> &'b [u8],
    ) -> StoreResult<Done> {
        let (store, key) = (self.run.store, &self.key);
        let (mut missed, mut user_bytes) = (false, 0);
        if matches!(kind, Kind::Read | Kind::ReadModifyWrite) {
            missed = store.get(key)?.is_none();
        }
        match kind {
            Kind::Read => {}
            Kind::Insert | Kind::Update | Kind::ReadModifyWrite => {
                let value = value(self.generator.random());
                store.put(key, value)?;
                user_bytes = key.len() + value.len();
            }
            Kind::Delete => {
                store.delete(key)?;
                user_bytes = key.len();
            }
            Kind::Scan => missed = store.scan(key, length.max(1))? == 0 && length > 0,
            Kind::Transaction => return self.transaction(),
        }
        Ok(Done { kind, misses: missed.into(), user_bytes })
    }

    /// Does the reads, then the scans, then all writes as one batch.
    fn transaction(&mut self) -> StoreResult<Done> {
        let Run { store, data, .. } = *self.run;
        let transaction = self.generator.transaction();
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
        Ok(Done { kind: Kind::Transaction, misses, user_bytes })
    }
}
