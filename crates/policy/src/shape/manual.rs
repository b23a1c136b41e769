//! A manual compaction: it moves a range of keys down to the last level.
//!
//! 1. L0, oldest run first, until no run that existed at the request shares a key with the range.
//!    Older runs that share no key are merged on the way, because the oldest run of L0 always goes
//!    first.
//! 2. Each level from L1 on, in key order, about one SST at a time, into the next level.
//! 3. The tables of the last level that hold tombstones, or values that had expired at the request,
//!    are rewritten in place.
//!
//! Where a job of the shape makes the tree deeper meanwhile, the level that was the last goes down,
//! too.
//!
//! Each pass covers the range once, so the request ends however much is written meanwhile. One job
//! runs at a time, as narrow as the jobs of a shape. It waits for what other jobs hold and never
//! cancels one. The only state is the current pass; everything else is read from the version.

use super::conflicts;
use super::pick::{Context, of_runs};
use crate::candidate::{Busy, Candidate, Class, Inputs};
use crate::signals::TreeFacts;
use crate::tree::TreeOptions;
use bytes::Bytes;
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{
    Bytes as ByteCount, FileNumber, KeyRange, Micros, Place, Seq, Table, Tables, Version,
};

/// Better than the score of any job that a shape proposes, within a class.
const SCORE: f64 = 1e6;

/// A request and its progress.
#[derive(Debug, Clone)]
pub struct Manual {
    lo: Bytes,
    /// The end of the range, exclusive; none for no end.
    hi: Option<Bytes>,
    /// Runs of L0 that began later are not part of the request.
    upto: Seq,
    /// The time of the request.
    now: Micros,
    /// The level whose tables go down, 0 for L0.
    level: u8,
    /// The first key of this level that is not done yet.
    from: Bytes,
    /// The files proposed last, and the end of their keys.
    proposed: Option<(Vec<FileNumber>, Bytes)>,
    /// The last level, 0 until L0 is done.
    last: u8,
}

/// The next step of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Start this job.
    Job(Box<Candidate>),
    /// Wait until a job of the tree ends.
    Wait,
    /// The request is done.
    Done,
}

impl Manual {
    /// A request for the keys from `lo` up to `hi`, exclusive, at the time `now`.
    #[must_use]
    pub fn new(lo: Bytes, hi: Option<Bytes>, upto: Seq, now: Micros) -> Self {
        let from = lo.clone();
        Self { lo, hi, upto, now, level: 0, from, proposed: None, last: 0 }
    }

    /// The next job, if it can start. It is the same job until its tables have left their level.
    pub fn next(
        &mut self,
        version: &Version,
        facts: &TreeFacts,
        busy: &Busy,
        options: &TreeOptions,
    ) -> Next {
        let context = &Context { version, facts, busy, options };
        if self.level == 0 {
            if let Some(next) = self.out_of_l0(context) {
                return next;
            }
            self.level = 1;
            self.end_with(context.version);
        }
        self.follow(context.version.depth().max(1));
        loop {
            self.pass_by(context);
            if self.level > self.last {
                return Next::Done;
            }
            let group = self.group(context);
            if !group.is_empty() {
                return self.propose(context, group);
            }
            self.start(self.level + 1);
        }
    }

    /// Ends the range with the largest key there is, now that L0 is done: greater keys are newer
    /// than the request. A pass would follow a writer of ascending keys for ever.
    fn end_with(&mut self, version: &Version) {
        let ranges = version.levels.iter().filter_map(Tables::range);
        let end = ranges.map(|range| end_of(&range)).max();
        self.hi = match (self.hi.take(), end) {
            (Some(hi), Some(end)) => Some(hi.min(end)),
            (hi, end) => hi.or(end),
        };
    }

    /// A deeper last level, because a job of the shape moved tables there: they have to be looked
    /// at, and the level that was the last lies above them now.
    fn follow(&mut self, depth: u8) {
        if depth <= self.last {
            return;
        }
        if self.last > 0 && self.level >= self.last {
            self.start(self.last);
        }
        self.last = depth;
    }

    /// Begins the pass over a level.
    fn start(&mut self, level: u8) {
        self.level = level;
        self.from = self.lo.clone();
        self.proposed = None;
    }

    /// Whether a table has keys of the range from `from` on.
    fn wants(&self, table: &Table, from: &[u8]) -> bool {
        !table.range.ends_before(from) && self.hi.as_ref().is_none_or(|hi| table.range.lo < *hi)
    }

    fn out_of_l0(&self, context: &Context<'_>) -> Option<Next> {
        let runs = &context.version.l0;
        let meant = runs.iter().filter(|run| run.seq_min <= self.upto);
        let mut tables = meant.flat_map(|run| run.tables.iter());
        if !tables.any(|table| self.wants(table, &self.lo)) {
            return None;
        }
        let oldest = runs.first()?;
        if context.is_busy(oldest) {
            return Some(Next::Wait);
        }
        Some(offer(context.merge(of_runs([oldest]), 1, SCORE, |_| true)))
    }

    /// Moves on behind the proposed files once they have left the level.
    fn pass_by(&mut self, context: &Context<'_>) {
        let Some((files, end)) = &self.proposed else { return };
        let tables = context.version.level(self.level).starting_at(&self.from);
        let mut tables = tables.take_while(|table| table.range.lo < *end);
        if !tables.any(|table| files.contains(&table.file.number)) {
            self.from = end.clone();
            self.proposed = None;
        }
    }

    /// The next tables of the level: about one SST.
    fn group(&self, context: &Context<'_>) -> Vec<Arc<Table>> {
        let tables = context.version.level(self.level).starting_at(&self.from);
        let mut tables = tables.take_while(|table| self.wants(table, &self.from));
        if self.level == self.last {
            let stale = |table: &&Arc<Table>| {
                let expired = table.file.expires.is_some_and(|expires| expires <= self.now);
                table.file.tombstones > 0 || table.file.range_tombstones > 0 || expired
            };
            return tables.find(stale).into_iter().cloned().collect();
        }
        let mut bytes = ByteCount::ZERO;
        let room = |table: &&Arc<Table>| {
            let first = bytes == ByteCount::ZERO;
            bytes += table.bytes;
            first || bytes <= context.options.sst_max
        };
        tables.by_ref().take_while(room).cloned().collect()
    }

    fn propose(&mut self, context: &Context<'_>, group: Vec<Arc<Table>>) -> Next {
        let files = group.iter().map(|table| table.file.number).collect();
        let end = group.last().map_or_else(Bytes::new, |table| end_of(&table.range));
        self.proposed = Some((files, end));
        if group.iter().any(|table| context.busy.reads(table).is_some()) {
            return Next::Wait;
        }
        let level = self.level;
        let tables: Vec<_> = group.into_iter().map(|table| (Place::Level(level), table)).collect();
        if level < self.last {
            return offer(context.merge(tables, level + 1, SCORE, |_| true));
        }
        let bytes: ByteCount = tables.iter().map(|(_, table)| table.bytes).sum();
        let Some((_, table)) = tables.first() else { return Next::Wait };
        let mut candidate = Candidate {
            tree: context.facts.tree,
            frees: Class::Level(level),
            kind: JobKind::Compact,
            output_level: level,
            range: table.range.clone(),
            inputs: Inputs { memtables: Vec::new(), tables },
            bytes_in: bytes,
            bytes_out: bytes,
            score: SCORE,
            sets_cursor: None,
            conflicts: Vec::new(),
        };
        candidate.conflicts = conflicts(context.busy, &candidate);
        offer(Some(candidate))
    }
}

/// A candidate that can start, or a wait for the jobs that hold what it needs.
fn offer(candidate: Option<Candidate>) -> Next {
    match candidate {
        Some(candidate) if candidate.conflicts.is_empty() => {
            Next::Job(Box::new(Candidate { sets_cursor: None, ..candidate }))
        }
        _ => Next::Wait,
    }
}

/// The first key after a range.
fn end_of(range: &KeyRange) -> Bytes {
    let mut end = range.hi.to_vec();
    if range.hi_inclusive {
        end.push(0);
    }
    end.into()
}
