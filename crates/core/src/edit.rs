//! Changes to a tree.
//!
//! A job describes all its changes in one [`VersionEdit`]. The manifest writes it in one record,
//! and [`VersionEdit::apply`] makes the next version. The same edits applied to the same start give
//! the same tree; recovery does just that.

use crate::ids::{FileNumber, RunId};
use crate::key::Seq;
use crate::range::KeyRange;
use crate::table::Table;
use crate::tables::Tables;
use crate::version::{LEVELS_MAX, Place, Run, RunOrigin, Version, Violation};
use bytes::Bytes;
use std::sync::Arc;

/// The addition or removal of one table.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Adds the table to the tree. A run of L0 that does not exist yet is created, with this
    /// origin.
    Add {
        /// Its place.
        place: Place,
        /// The origin of the run; ignored below L0.
        origin: RunOrigin,
        /// The table.
        table: Arc<Table>,
    },
    /// Removes the table that shows this range of this file.
    Remove {
        /// Its place.
        place: Place,
        /// Its file.
        file: FileNumber,
        /// Exactly the range that it showed.
        range: KeyRange,
    },
}

/// All changes of one job in one tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VersionEdit {
    /// Added and removed tables.
    pub changes: Vec<Change>,
    /// All writes of the tree up to this number are in its tables now.
    pub flushed_seq: Option<Seq>,
    /// New compaction pointers: (level, next key; none for the level's start).
    pub cursors: Vec<(u8, Option<Bytes>)>,
}

impl VersionEdit {
    /// Records the removal of a table from its place.
    pub fn remove(&mut self, place: Place, table: &Table) {
        self.changes.push(Change::Remove {
            place,
            file: table.file.number,
            range: table.range.clone(),
        });
    }

    /// Records the addition of a table to a level below L0.
    pub fn add(&mut self, level: u8, table: Arc<Table>) {
        self.changes.push(Change::Add {
            place: Place::Level(level),
            origin: RunOrigin::Merge,
            table,
        });
    }

    /// Records the addition of a table to a run of L0.
    pub fn add_l0(&mut self, run: RunId, origin: RunOrigin, table: Arc<Table>) {
        self.changes.push(Change::Add { place: Place::L0(run), origin, table });
    }

    /// The tree after this edit. Cost: O(changed tables + chunks), not O(tables).
    ///
    /// # Errors
    /// A [`Violation`] if a table to remove does not exist, or the result breaks an invariant in a
    /// changed place.
    pub fn apply(&self, version: &Version) -> Result<Version, Violation> {
        let mut next = version.clone();
        let mut places: Vec<Place> = self.changes.iter().map(place_of).collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            self.apply_at(place, &mut next)?;
        }
        next.l0.retain(|run| !run.tables.is_empty());
        next.l0.sort_by_key(|run| run.seq_max);
        for pair in next.l0.windows(2) {
            if pair[0].seq_max >= pair[1].seq_min {
                return Err(Violation(format!(
                    "V1: the edit leaves L0 runs {} and {} out of age order",
                    pair[0].id, pair[1].id
                )));
            }
        }
        if let Some(seq) = self.flushed_seq {
            next.flushed_seq = next.flushed_seq.max(seq);
        }
        for (level, key) in &self.cursors {
            let index = level_index(*level)?;
            if next.cursors.len() <= index {
                next.cursors.resize(index + 1, None);
            }
            next.cursors[index] = key.clone();
        }
        Ok(next)
    }

    /// Applies the changes of one place.
    fn apply_at(&self, place: Place, next: &mut Version) -> Result<(), Violation> {
        let mut added = Vec::new();
        let mut removed = Vec::new();
        let mut made = RunOrigin::Merge;
        for change in self.changes.iter().filter(|change| place_of(change) == place) {
            match change {
                Change::Add { table, origin, .. } => {
                    made = *origin;
                    added.push(table.clone());
                }
                Change::Remove { file, range, .. } => removed.push((*file, range)),
            }
        }
        let ranges = added.iter().map(|table| &table.range).chain(removed.iter().map(|r| r.1));
        let Some(range) = KeyRange::cover(ranges) else { return Ok(()) };
        let tables = tables_at(place, made, &added, next)?;
        let before = tables.len();
        let gone = |table: &Table| {
            removed.iter().any(|(file, range)| *file == table.file.number && **range == table.range)
        };
        let after = tables.replace(&range, gone, &added);
        if after.len() + removed.len() != before + added.len() {
            return Err(Violation(format!("{place}: a table to remove is not there")));
        }
        after
            .check(Some(&range))
            .map_err(|why| Violation(format!("{place}: the edit breaks {why}")))?;
        *tables = after;
        Ok(())
    }
}

fn place_of(change: &Change) -> Place {
    match change {
        Change::Add { place, .. } | Change::Remove { place, .. } => *place,
    }
}

fn level_index(level: u8) -> Result<usize, Violation> {
    match usize::from(level).checked_sub(1) {
        Some(index) if index < LEVELS_MAX => Ok(index),
        _ => Err(Violation(format!("there is no level {level}"))),
    }
}

/// The tables of a place, which is created if it does not exist yet.
fn tables_at<'a>(
    place: Place,
    origin: RunOrigin,
    added: &[Arc<Table>],
    next: &'a mut Version,
) -> Result<&'a mut Tables, Violation> {
    match place {
        Place::Level(level) => {
            let index = level_index(level)?;
            if next.levels.len() <= index {
                next.levels.resize(index + 1, Tables::default());
            }
            Ok(&mut next.levels[index])
        }
        Place::L0(id) => {
            let index = match next.l0.iter().position(|run| run.id == id) {
                Some(index) => index,
                None => {
                    let (seq_min, seq_max) = (Seq::MAX, Seq::ZERO);
                    let tables = Tables::default();
                    next.l0.push(Run { id, origin, tables, seq_min, seq_max });
                    next.l0.len() - 1
                }
            };
            let run = &mut next.l0[index];
            for table in added {
                run.seq_min = run.seq_min.min(table.file.seq_min);
                run.seq_max = run.seq_max.max(table.file.seq_max);
            }
            Ok(&mut run.tables)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FileMeta;
    use crate::units;

    fn table(number: u64, lo: &str, hi: &str, seqs: (u64, u64)) -> Arc<Table> {
        Arc::new(Table::whole(Arc::new(FileMeta {
            number: FileNumber(number),
            bytes: units::Bytes(10),
            smallest: Bytes::from(lo.to_owned()),
            largest: Bytes::from(hi.to_owned()),
            seq_min: Seq(seqs.0),
            seq_max: Seq(seqs.1),
            ..FileMeta::default()
        })))
    }

    #[test]
    fn a_flush_then_a_compaction() {
        let mut flush = VersionEdit { flushed_seq: Some(Seq(9)), ..VersionEdit::default() };
        flush.add_l0(RunId(1), RunOrigin::Flush, table(1, "a", "k", (1, 9)));
        let v1 = flush.apply(&Version::default()).expect("applies");
        assert_eq!((v1.l0.len(), v1.l0[0].seq_max, v1.flushed_seq), (1, Seq(9), Seq(9)));

        let mut compaction = VersionEdit::default();
        compaction.remove(Place::L0(RunId(1)), &table(1, "a", "k", (1, 9)));
        compaction.add(1, table(2, "a", "f", (1, 9)));
        compaction.add(1, table(3, "g", "k", (1, 9)));
        compaction.cursors.push((1, Some("g".into())));
        let v2 = compaction.apply(&v1).expect("applies");
        v2.check().expect("sound");
        assert_eq!((v2.l0.len(), v2.level(1).len(), v2.depth()), (0, 2, 1));
        assert_eq!(v2.cursor(1).map(|key| &key[..]), Some(&b"g"[..]));
        assert_eq!(v1.l0.len(), 1, "the old version is as it was");
    }

    #[test]
    fn consuming_a_slice_leaves_the_rest_of_the_run() {
        let whole = table(1, "a", "z", (1, 9));
        let mut flush = VersionEdit::default();
        flush.add_l0(RunId(1), RunOrigin::Flush, whole.clone());
        let v1 = flush.apply(&Version::default()).expect("applies");
        let rest = Arc::new(Table { range: KeyRange::closed("m", "z"), ..(*whole).clone() });
        let mut edit = VersionEdit::default();
        edit.remove(Place::L0(RunId(1)), &whole);
        edit.add_l0(RunId(1), RunOrigin::Flush, rest);
        edit.add(1, table(2, "a", "l", (1, 9)));
        let v2 = edit.apply(&v1).expect("applies");
        assert!(v2.l0[0].tables.find(b"b").is_none() && v2.l0[0].tables.find(b"n").is_some());
    }

    #[test]
    fn tables_may_meet_at_an_exclusive_end() {
        let start = crate::text::parse("L1: 1:8M[a,g)~2 2:8M[g,m] 3:8M[n,z)~1").expect("parses");
        start.check().expect("sound");
        let mut edit = VersionEdit::default();
        let [left, middle] = [b"b", b"g"].map(|key| start.level(1).find(key).expect("there"));
        edit.remove(Place::Level(1), left);
        edit.remove(Place::Level(1), middle);
        let after = crate::text::parse("L1: 4:1M[a,e)~2 5:1M[e,n)~9 3:8M[n,z)~1").expect("parses");
        for table in after.level(1).iter().filter(|table| table.file.number.0 != 3) {
            edit.add(1, table.clone());
        }
        let next = edit.apply(&start).expect("applies");
        next.check().expect("sound");
        assert_eq!((&next.levels, next.level(1).ranged()), (&after.levels, 3));
        for (table, fits) in [("L1: 6:1M[z,zz]", true), ("L1: 6:1M[y,z)~1", false)] {
            let one = crate::text::parse(table).expect("parses");
            let mut edit = VersionEdit::default();
            edit.add(1, one.level(1).iter().next().expect("one").clone());
            assert_eq!(edit.apply(&next).is_ok(), fits, "{table}");
        }
    }

    #[test]
    fn impossible_edits_are_refused() {
        let mut missing = VersionEdit::default();
        missing.remove(Place::Level(1), &table(1, "a", "k", (1, 9)));
        assert!(missing.apply(&Version::default()).is_err());
        let mut split_key = VersionEdit::default();
        split_key.add(1, table(2, "a", "g", (1, 9)));
        split_key.add(1, table(3, "g", "k", (1, 9)));
        assert!(split_key.apply(&Version::default()).is_err(), "one user key in two SSTs");
        let mut order = VersionEdit::default();
        order.add_l0(RunId(1), RunOrigin::Flush, table(1, "a", "k", (1, 9)));
        order.add_l0(RunId(2), RunOrigin::Flush, table(2, "a", "k", (5, 12)));
        assert!(order.apply(&Version::default()).is_err(), "ages overlap");
        let mut deep = VersionEdit::default();
        deep.add(99, table(1, "a", "k", (1, 9)));
        assert!(deep.apply(&Version::default()).is_err());
    }
}
