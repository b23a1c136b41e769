//! Candidates of a shape, and reservations of running jobs. These are plain values: a shape makes
//! candidates, a schedule picks among them, the engine turns them into jobs.

use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, JobId, KeyRange, MemtableId, Place, Table, TreeId, Version};

/// The place in which a job makes room: its urgency class, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Memory: a memtable becomes free.
    Memtable,
    /// L0 shrinks.
    L0,
    /// This level shrinks.
    Level(u8),
}

impl Class {
    /// The level in which room is made; 0 for memory and L0.
    #[must_use]
    pub fn level(self) -> u8 {
        match self {
            Self::Memtable | Self::L0 => 0,
            Self::Level(level) => level,
        }
    }
}

/// The inputs of a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inputs {
    /// Memtables, oldest first.
    pub memtables: Vec<MemtableId>,
    /// Tables with their places. Of L0: oldest run first.
    pub tables: Vec<(Place, Arc<Table>)>,
}

impl Inputs {
    /// Bytes of all tables.
    #[must_use]
    pub fn table_bytes(&self) -> Bytes {
        self.tables.iter().map(|(_, table)| table.bytes).sum()
    }
}

/// A job that a shape proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The tree that it works on.
    pub tree: TreeId,
    /// The place in which it makes room.
    pub frees: Class,
    /// The kind of work: a flush, a compaction, a merge within L0 or a trivial move.
    pub kind: JobKind,
    /// Its inputs.
    pub inputs: Inputs,
    /// The level that it writes into; 0 for a run of L0.
    pub output_level: u8,
    /// The keys it reads and writes: the output's vacant range is reserved too.
    pub range: KeyRange,
    /// Bytes it reads, expected.
    pub bytes_in: Bytes,
    /// Bytes it writes, expected.
    pub bytes_out: Bytes,
    /// Larger is better; comparable within one class of one shape.
    pub score: f64,
    /// The compaction pointer it advances when it is installed: (level, next key; none for the
    /// start).
    pub sets_cursor: Option<(u8, Option<bytes::Bytes>)>,
    /// Running jobs that hold something it needs. It may start only if the grant cancels all of
    /// them.
    pub conflicts: Vec<JobId>,
}

impl Candidate {
    /// Whether the two cannot run at the same time: they read the same memtable or a shared part of
    /// a table, write into the same keys of one level below L0, or one jumps over a level into
    /// which the other writes.
    #[must_use]
    pub fn collides(&self, other: &Self) -> bool {
        if self.tree != other.tree {
            return false;
        }
        let (mine, theirs) = (&self.inputs, &other.inputs);
        mine.memtables.iter().any(|id| theirs.memtables.contains(id))
            || (self.output_level > 0
                && self.output_level == other.output_level
                && self.range.overlaps(&other.range))
            || self.jumps_over_output_of(other)
            || other.jumps_over_output_of(self)
            || mine.tables.iter().any(|(_, table)| other.reads(table))
    }

    /// Whether it brings a table below keys that the other is about to write.
    fn jumps_over_output_of(&self, other: &Self) -> bool {
        let over = |level: u8| level < other.output_level && other.output_level < self.output_level;
        self.inputs
            .tables
            .iter()
            .any(|(place, table)| over(place.level()) && table.range.overlaps(&other.range))
    }

    /// A table below which it would bring newer keys. The table lies between an input and the
    /// output level, shares a key with the input, and is no input itself. A sound candidate has
    /// none.
    #[must_use]
    pub fn jumps_over<'a>(&self, version: &'a Version) -> Option<(u8, &'a Arc<Table>)> {
        self.inputs.tables.iter().find_map(|(place, input)| {
            let mut between = place.level() + 1..self.output_level;
            between.find_map(|level| {
                // `overlapping` would borrow the input.
                let tables = version.level(level).starting_at(&input.range.lo);
                let mut tables = tables.take_while(|table| !input.range.is_before(&table.range));
                tables.find(|table| !self.reads(table)).map(|table| (level, table))
            })
        })
    }

    /// Whether it reads a part of this table.
    #[must_use]
    pub fn reads(&self, table: &Table) -> bool {
        self.inputs.tables.iter().any(|(_, input)| {
            input.file.number == table.file.number && input.range.overlaps(&table.range)
        })
    }
}

/// Candidates of one tree, ranked best first within each class, bounded in number by the shape.
pub type Candidates = Vec<Candidate>;

/// The merges within L0 that a shape proposes while L0→L1 could start, too. A schedule that holds
/// L0→L1 back may need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WithinL0 {
    /// Whether it proposes merges of runs of any origin.
    pub any: bool,
    /// The number of runs from flushes at which it proposes to merge these alone; none for never.
    pub flushed: Option<usize>,
}

/// The reservation of a running or paused job, until it is installed or cancelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservation {
    /// The job.
    pub job: JobId,
    /// Its candidate: inputs and output range.
    pub candidate: Arc<Candidate>,
}

/// All reservations of one tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Busy {
    /// One entry a job.
    pub reservations: Vec<Reservation>,
}

impl Busy {
    /// The job that reads this table, if any.
    #[must_use]
    pub fn reads(&self, table: &Table) -> Option<JobId> {
        self.reservations.iter().find(|held| held.candidate.reads(table)).map(|held| held.job)
    }

    /// The jobs that write into this level within this range.
    pub fn writes<'a>(
        &'a self,
        level: u8,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = JobId> + use<'a> {
        self.reservations
            .iter()
            .filter(move |held| {
                held.candidate.output_level == level && held.candidate.range.overlaps(range)
            })
            .map(|held| held.job)
    }

    /// The job that reads this memtable, if any.
    #[must_use]
    pub fn reads_memtable(&self, id: MemtableId) -> Option<JobId> {
        self.reservations
            .iter()
            .find(|held| held.candidate.inputs.memtables.contains(&id))
            .map(|held| held.job)
    }

    /// Whether a job of this class is under way.
    #[must_use]
    pub fn has_class(&self, class: Class) -> bool {
        self.reservations.iter().any(|held| held.candidate.frees == class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vlsm_core::text;

    /// The merge of these tables, each with its level, into a level.
    fn job(version: &Version, from: &[(u8, &str)], to: u8) -> Candidate {
        let table = |(level, key): &(u8, &str)| {
            let table = version.level(*level).find(key.as_bytes()).expect("there is one").clone();
            (Place::Level(*level), table)
        };
        let tables: Vec<_> = from.iter().map(table).collect();
        let range = KeyRange::cover(tables.iter().map(|(_, table)| &table.range)).expect("some");
        let (memtables, score, sets_cursor) = (Vec::new(), 0.0, None);
        Candidate {
            tree: TreeId::default(),
            frees: Class::Level(from[0].0),
            kind: JobKind::Compact,
            inputs: Inputs { memtables, tables },
            output_level: to,
            range,
            bytes_in: Bytes::ZERO,
            bytes_out: Bytes::ZERO,
            score,
            sets_cursor,
            conflicts: Vec::new(),
        }
    }

    #[test]
    fn jumps_exclude_jobs_into_the_levels_between() {
        let tree = "L1: 1:8[a,f] 2:8[g,m]\nL2: 3:8[c,k]\nL3: 4:8[p,q]\nL5: 5:8[a,b]";
        let version = text::parse(tree).expect("parses");
        let job = |from: &[(u8, &str)], to| job(&version, from, to);
        let over = |job: &Candidate| {
            job.jumps_over(&version).map(|(level, table)| (level, table.file.number.0))
        };
        assert_eq!(over(&job(&[(1, "a")], 4)), Some((2, 3)));
        assert_eq!(over(&job(&[(1, "a")], 2)), None, "what is there is the output's business");
        assert_eq!(over(&job(&[(1, "a"), (2, "c")], 4)), None);
        assert_eq!(over(&job(&[(2, "c")], 4)), None);

        let (jump, into) = (job(&[(1, "a"), (2, "c")], 4), job(&[(1, "g")], 3));
        assert!(jump.collides(&into) && into.collides(&jump), "L2:3 would pass 2 in L3");
        let beside = job(&[(3, "p")], 4);
        assert!(!jump.collides(&beside) && !beside.collides(&into), "no key in common");
        let above = job(&[(1, "g")], 2);
        assert!(!job(&[(2, "c")], 4).collides(&above), "nothing passes what stays above");
    }
}
