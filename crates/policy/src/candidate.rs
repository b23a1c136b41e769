//! Candidates of a shape, and reservations of running jobs. These are plain values: a shape makes
//! candidates, a schedule picks among them, the engine turns them into jobs.

use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, JobId, KeyRange, MemtableId, Place, Table, TreeId};

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
    /// Of which tree.
    pub tree: TreeId,
    /// The place in which it makes room.
    pub frees: Class,
    /// What kind of work.
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
    /// a table, or write into the same keys of one level below L0.
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
            || mine.tables.iter().any(|(_, table)| other.reads(table))
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
    /// Of runs of any origin.
    pub any: bool,
    /// Of flushed runs only, from this many on.
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
