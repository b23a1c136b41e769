//! The immutable tree at one moment.
//!
//! L0 is a queue of sorted runs, oldest first; every level below is one run of disjoint tables. A
//! version never changes: an edit makes a new one that shares the unchanged parts (`edit.rs`).
//!
//! Invariants (checked by [`Version::check`]): V1 runs of L0 are ordered by age and their sequence
//! numbers do not overlap; V2 each run's and each level's tables are disjoint by user key; V3
//! entries of a key in L0 are newer than its entries in the levels (guaranteed by the rule that a
//! job takes the oldest runs of L0 within its range; checked where entries are read).

use crate::ids::RunId;
use crate::key::Seq;
use crate::range::KeyRange;
use crate::table::Table;
use crate::tables::Tables;
use crate::units::Bytes;
use std::fmt;
use std::sync::Arc;

/// The most levels below L0. The tree grows into them one by one.
pub const LEVELS_MAX: usize = 15;

/// The place of a table in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A run of L0.
    L0(RunId),
    /// A level, 1 or deeper.
    Level(u8),
}

impl Place {
    /// The level's number; 0 for a run of L0.
    #[must_use]
    pub fn level(self) -> u8 {
        match self {
            Self::L0(_) => 0,
            Self::Level(level) => level,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::L0(run) => write!(f, "L0:{run}"),
            Self::Level(level) => write!(f, "L{level}"),
        }
    }
}

/// The origin of a run of L0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunOrigin {
    /// A flush wrote it.
    Flush,
    /// A merge of older runs of L0 wrote it.
    Merge,
}

/// One sorted run of L0.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its identity.
    pub id: RunId,
    /// Flush or merge.
    pub origin: RunOrigin,
    /// Its tables, disjoint.
    pub tables: Tables,
    /// Smallest sequence number of its files.
    pub seq_min: Seq,
    /// Largest sequence number of its files.
    pub seq_max: Seq,
}

/// A tree at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Version {
    /// The runs of L0, oldest first.
    pub l0: Vec<Run>,
    /// L1 and deeper; index 0 is L1. Trailing empty levels may be absent.
    pub levels: Vec<Tables>,
    /// Round-robin compaction pointer of each level (index 0 is L1): the next pick starts here.
    /// Advisory.
    pub cursors: Vec<Option<bytes::Bytes>>,
    /// All writes of this tree up to this number are in its tables.
    pub flushed_seq: Seq,
}

/// A broken invariant: a bug or a damaged manifest. The store must not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

static NO_TABLES: std::sync::LazyLock<Tables> = std::sync::LazyLock::new(Tables::default);

impl Version {
    /// The tables of a level, 1 or deeper; empty where the tree is not that deep.
    ///
    /// # Panics
    /// For level 0, which is not one run.
    #[must_use]
    pub fn level(&self, level: u8) -> &Tables {
        assert!(level >= 1, "L0 is a queue of runs, not one run");
        self.levels.get(usize::from(level) - 1).unwrap_or(&NO_TABLES)
    }

    /// The deepest level that holds a table; 0 if only L0 does.
    #[must_use]
    pub fn depth(&self) -> u8 {
        self.levels.iter().rposition(|level| !level.is_empty()).map_or(0, |index| index as u8 + 1)
    }

    /// The compaction pointer of a level, 1 or deeper.
    #[must_use]
    pub fn cursor(&self, level: u8) -> Option<&bytes::Bytes> {
        self.cursors.get(usize::from(level).checked_sub(1)?)?.as_ref()
    }

    /// Visible bytes in L0.
    #[must_use]
    pub fn l0_bytes(&self) -> Bytes {
        self.l0.iter().map(|run| run.tables.bytes()).sum()
    }

    /// Visible bytes in all levels.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.l0_bytes() + self.levels.iter().map(Tables::bytes).sum()
    }

    /// Number of tables in all levels.
    #[must_use]
    pub fn table_count(&self) -> usize {
        self.l0.iter().map(|run| run.tables.len()).sum::<usize>()
            + self.levels.iter().map(Tables::len).sum::<usize>()
    }

    /// Every table with its place: L0 oldest first, then L1 and deeper.
    pub fn tables(&self) -> impl Iterator<Item = (Place, &Arc<Table>)> {
        let l0 = self
            .l0
            .iter()
            .flat_map(|run| run.tables.iter().map(move |table| (Place::L0(run.id), table)));
        let levels = self.levels.iter().enumerate().flat_map(|(index, tables)| {
            tables.iter().map(move |table| (Place::Level(index as u8 + 1), table))
        });
        l0.chain(levels)
    }

    /// Whether any table deeper than `level` shares a key with `range`.
    #[must_use]
    pub fn overlaps_below(&self, level: u8, range: &KeyRange) -> bool {
        self.levels
            .iter()
            .skip(usize::from(level))
            .any(|tables| tables.overlapping(range).next().is_some())
    }

    /// Checks V1 and V2.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        for pair in self.l0.windows(2) {
            if pair[0].seq_max >= pair[1].seq_min {
                return Err(Violation(format!(
                    "V1: L0 runs {} (up to {}) and {} (from {}) are out of age order",
                    pair[0].id, pair[0].seq_max, pair[1].id, pair[1].seq_min
                )));
            }
        }
        for run in &self.l0 {
            if run.tables.is_empty() {
                return Err(Violation(format!("V1: L0 run {} is empty", run.id)));
            }
            run.tables.check(None).map_err(|why| Violation(format!("V2: L0 {}: {why}", run.id)))?;
        }
        for (index, tables) in self.levels.iter().enumerate() {
            tables.check(None).map_err(|why| Violation(format!("V2: L{}: {why}", index + 1)))?;
        }
        Ok(())
    }
}
