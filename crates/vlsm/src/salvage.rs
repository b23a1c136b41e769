//! Reads the readable pairs of a damaged keyspace, and reports the ranges of keys that it omits.
//!
//! 1. Every SST of the tree is opened. An SST that cannot be opened (it is missing or cut off, or
//!    its index, filter or range tombstones are damaged) is left out of the tree. Its whole range
//!    is *damaged*, because its range tombstones and values might affect any key there.
//! 2. The other SSTs are merged forwards, as for any reader. If a block cannot be read, its range
//!    according to the index is damaged, and the walk continues after it. If a merge operator
//!    fails, its key is damaged.
//! 3. A pair in a damaged range is omitted, wherever it was found, because a pair below the damage
//!    may be older than the lost data, or deleted by it. So no stale pair is ever returned as
//!    current. The cost is that pairs above the damage are omitted, too.
//!
//! A damaged range is known before any of its pairs could be returned: a merge returns a key only
//! when each source has passed it, and a source passes the key only by reading the damaged block.
//!
//! Threads and locks: owned by one thread; pins one view for its life. The lock of [`Damages`] is
//! held for a push or a take.

use crate::catalog::KeyspaceInfo;
use crate::handle::Handle;
use crate::held::Held;
use crate::read::merge_cursor::Direction;
use crate::read::source_cursor::RunSource;
use crate::read::table_cache::TableCache;
use crate::read::user_cursor::UserCursor;
use crate::read::view::TreeView;
use crate::sync::Mutex;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use vlsm_core::{Cursor, Error, KeyRange, Result, Table, Tables, Trailer, Version};
use vlsm_disk::sst::{BlocksRead, SstCursor, Wanted};

/// An item of a [`Salvage`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Salvaged {
    /// A key and its last value.
    Pair(Bytes, Bytes),
    /// A range of keys whose pairs are omitted.
    Damaged(DamagedRange),
}

/// A range of keys that cannot be read reliably.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DamagedRange {
    /// The first key of the range.
    pub from: Bytes,
    /// The last key of the range (inclusive), or the first key after it (exclusive).
    pub to: Bound<Bytes>,
    /// The damage. The error names no key.
    pub error: Error,
}

/// An iterator over the readable pairs of a keyspace in key order, and the omitted ranges between
/// them. [`Keyspace::salvage`](crate::Keyspace::salvage) creates it.
///
/// A range is returned before the first pair after it. Ranges may overlap.
pub struct Salvage {
    info: Arc<KeyspaceInfo>,
    held: Held,
    /// The trees of the keyspace, as they were at the begin.
    trees: Result<Vec<Arc<TreeView>>>,
    region: usize,
    walk: Option<UserCursor<RunCursor>>,
    damages: Arc<Damages>,
    /// Damaged ranges that the walk has not passed yet.
    near: Vec<KeyRange>,
    /// Damaged ranges that are not yet returned.
    told: VecDeque<DamagedRange>,
    /// A pair that comes after `told`.
    found: Option<(Bytes, Bytes)>,
    /// The last key whose operands could not be combined.
    failed_at: Option<Bytes>,
    finished: bool,
}

/// The ranges that the cursors of a walk could not read.
#[derive(Default)]
struct Damages(Mutex<Vec<(KeyRange, Error)>>);

impl Damages {
    fn add(&self, range: KeyRange, error: Error) {
        self.0.lock().push((range, error));
    }
}

impl Salvage {
    pub(crate) fn new(engine: &Handle, info: &Arc<KeyspaceInfo>) -> Self {
        let held = Held::now(engine);
        let trees = (0..info.region_count()).map(|region| Ok(held.tree(info, region)?.0));
        let trees = trees.collect();
        Self {
            info: info.clone(),
            held,
            trees,
            region: 0,
            walk: None,
            damages: Arc::default(),
            near: Vec::new(),
            told: VecDeque::new(),
            found: None,
            failed_at: None,
            finished: false,
        }
    }

    /// Steps 1 and 2 of a region.
    fn begin(&self, tree: &TreeView) -> Result<UserCursor<RunCursor>> {
        let fetcher = self.held.engine.reader.fetcher();
        let tree = TreeView { version: Arc::new(self.readable(&tree.version)), ..tree.clone() };
        let (at, direction) = (self.held.at, Direction::Forward);
        let habits = &self.info.habits;
        UserCursor::over(&tree, (fetcher, habits), at, direction, Bound::Unbounded, &|_, run| {
            RunCursor::new(fetcher.tables().clone(), run.clone(), self.damages.clone())
        })
    }

    /// The version without the tables that cannot be opened.
    fn readable(&self, version: &Version) -> Version {
        let mut version = version.clone();
        let keep = |table: &Arc<Table>| {
            let opened = self.held.engine.reader.tables().reader(table).map(drop);
            let failed = opened.map_err(|error| self.damages.add(table.range.clone(), error));
            failed.is_ok().then(|| table.clone())
        };
        let sift =
            |tables: &mut Tables| *tables = Tables::new(tables.iter().filter_map(keep).collect());
        version.l0.iter_mut().for_each(|run| sift(&mut run.tables));
        version.levels.iter_mut().for_each(sift);
        version
    }

    /// Records the ranges that the cursors could not read.
    fn note_damages(&mut self) {
        for (range, error) in self.damages.0.lock().drain(..) {
            let to = match range.hi_inclusive {
                true => Bound::Included(range.hi.clone()),
                false => Bound::Excluded(range.hi.clone()),
            };
            self.told.push_back(DamagedRange { from: range.lo.clone(), to, error });
            self.near.push(range);
        }
    }

    /// The next pair of the walk that is in no damaged range; none at the end of a region.
    fn step(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        self.held.engine.shared.health.check_open()?;
        loop {
            let walk = match &mut self.walk {
                Some(walk) => walk,
                None => {
                    let walk =
                        self.begin(&self.trees.as_ref().map_err(Clone::clone)?[self.region])?;
                    self.walk.insert(walk)
                }
            };
            // Damage right behind the pair may concern its key, too.
            let pair = walk.advance().and_then(|any| {
                let value = match walk.failure() {
                    Some(error) => Err(error.clone()),
                    None => Ok(walk.value_shared()),
                };
                walk.leave().map(|()| any.then_some(value))
            });
            let key = Bytes::copy_from_slice(walk.key());
            self.note_damages();
            match pair {
                Ok(None) => return Ok(None),
                Ok(Some(value)) => {
                    self.near.retain(|range| !range.ends_before(&key));
                    let damaged = self.near.iter().any(|range| range.contains(&key));
                    match value {
                        Ok(value) if !damaged => return Ok(Some((key, value))),
                        // An error of this key alone. The walk has passed the key.
                        Err(error) if !damaged => {
                            self.damages.add(KeyRange::closed(key.clone(), key), error);
                            self.note_damages();
                        }
                        _ => {}
                    }
                }
                Err(error) => {
                    let of_key = matches!(error, Error::Corruption { .. } | Error::Io { .. });
                    // Without progress the walk would never end.
                    if !of_key || self.failed_at.as_ref() == Some(&key) {
                        return Err(error);
                    }
                    self.damages.add(KeyRange::closed(key.clone(), key.clone()), error);
                    self.failed_at = Some(key);
                    self.note_damages();
                }
            }
        }
    }
}

impl Iterator for Salvage {
    type Item = Result<Salvaged>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // An omitted range comes before the pair after it.
            if let Some(range) = self.told.pop_front() {
                return Some(Ok(Salvaged::Damaged(range)));
            }
            if let Some((key, value)) = self.found.take() {
                return Some(Ok(Salvaged::Pair(key, value)));
            }
            if self.finished {
                return None;
            }
            match self.step() {
                Ok(Some(pair)) => self.found = Some(pair),
                Ok(None) => {
                    self.walk = None;
                    self.region += 1;
                    self.finished = self.region == self.info.region_count();
                }
                Err(error) => {
                    self.finished = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl std::iter::FusedIterator for Salvage {}

impl std::fmt::Debug for Salvage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Salvage").field("keyspace", &self.info.name()).finish_non_exhaustive()
    }
}

/// A forward cursor over disjoint tables that skips blocks and tables that it cannot read.
struct RunCursor {
    files: Arc<TableCache>,
    tables: Tables,
    damages: Arc<Damages>,
    current: Option<(Arc<Table>, SstCursor)>,
}

impl RunCursor {
    fn new(files: Arc<TableCache>, tables: Tables, damages: Arc<Damages>) -> Self {
        Self { files, tables, damages, current: None }
    }

    /// Moves to the first entry at or after a position, in this table or a later one.
    fn enter(&mut self, table: Option<Arc<Table>>, key: &[u8], trailer: Trailer) {
        self.current = None;
        let mut next = table;
        while let Some(table) = next {
            let from = if table.range.starts_after(key) { &table.range.lo[..] } else { key };
            let trailer = if table.range.starts_after(key) { Trailer::FIRST } else { trailer };
            match self.files.cursor(&table) {
                Ok(mut cursor) => {
                    let moved = cursor.seek(from, trailer);
                    self.over_damage(&table, &mut cursor, moved);
                    if shows(&table, &cursor) {
                        self.current = Some((table, cursor));
                        return;
                    }
                }
                Err(error) => self.damages.add(table.range.clone(), error),
            }
            next = self.behind(&table);
        }
    }

    fn behind(&self, table: &Table) -> Option<Arc<Table>> {
        let mut after = self.tables.starting_at(&table.range.hi);
        after.find(|next| table.range.is_before(&next.range)).cloned()
    }

    /// After a move, skips the blocks that cannot be read.
    fn over_damage(&self, table: &Table, cursor: &mut SstCursor, moved: Result<()>) {
        let mut moved = moved;
        while let Err(error) = moved {
            let (lo, hi) = cursor.unread();
            let range = KeyRange::closed(lo, hi);
            // Only the visible slice of the table belongs to this tree.
            if let Some(shown) = range.intersection(&table.range) {
                self.damages.add(shown, error);
            }
            moved = cursor.pass_unread();
        }
    }
}

/// Whether a cursor stands on an entry that the table shows.
fn shows(table: &Table, cursor: &SstCursor) -> bool {
    cursor.valid() && !table.range.ends_before(cursor.key())
}

fn backwards<T>() -> Result<T> {
    Err(Error::Internal("a salvage goes forwards only".into()))
}

impl Cursor for RunCursor {
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn key(&self) -> &[u8] {
        self.on().key()
    }

    fn trailer(&self) -> Trailer {
        self.on().trailer()
    }

    fn value(&self) -> &[u8] {
        self.on().value()
    }

    fn value_shared(&self) -> Bytes {
        self.on().value_shared()
    }

    fn seek_first(&mut self) -> Result<()> {
        let first = self.tables.iter().next().cloned();
        self.enter(first, &[], Trailer::FIRST);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        backwards()
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        let table = self.tables.starting_at(key).next().cloned();
        self.enter(table, key, trailer);
        Ok(())
    }

    fn seek_before(&mut self, _: &[u8], _: Trailer) -> Result<()> {
        backwards()
    }

    fn next(&mut self) -> Result<()> {
        let Some((table, mut cursor)) = self.current.take() else { return Ok(()) };
        let moved = cursor.next();
        self.over_damage(&table, &mut cursor, moved);
        if shows(&table, &cursor) {
            self.current = Some((table, cursor));
        } else if let Some(next) = self.behind(&table) {
            let lo = next.range.lo.clone();
            self.enter(Some(next), &lo, Trailer::FIRST);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        backwards()
    }
}

/// Reads its blocks itself, because it must not stop at one that is damaged.
impl RunSource for RunCursor {
    fn missing(&self) -> Option<Wanted> {
        None
    }

    fn give(&mut self, _: BlocksRead) {}

    fn walked(&self) -> Option<(usize, u64)> {
        None
    }
}

impl RunCursor {
    fn on(&self) -> &SstCursor {
        let (_, cursor) = self.current.as_ref().expect("asked only where the cursor is valid");
        cursor
    }
}
