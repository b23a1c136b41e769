//! Finds the newest visible range tombstone over each key of a walk over a tree.
//!
//! Around each key there is a window in which the answer stays the same. The window is computed
//! from the sources that have range tombstones, once for each window that the walk enters. A tree
//! without range tombstones costs nothing. A table's file is opened only when the walk reaches a
//! key that its tombstones may delete.
//!
//! Threads and locks: owned by one walk; a memtable's set is locked for one search.

use crate::memtable::Memtable;
use crate::read::table_cache::TableCache;
use std::sync::Arc;
use vlsm_core::range_tombstones::{Fragment, Window, end_of};
use vlsm_core::{Result, Seq, Tables};

/// A source that has range tombstones: a memtable, or the tables of a run or level.
enum Source {
    Memtable(Arc<Memtable>),
    Run(Tables),
}

/// A window and the newest visible range tombstone over it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cover {
    /// The range of keys around the key that the same tombstones cover. Without bounds if the tree
    /// has no range tombstones.
    pub window: Window,
    /// The sequence number of the tombstone; [`Seq::ZERO`] for none.
    pub seq: Seq,
    /// The age of the newest source with a visible tombstone: all entries of older sources are
    /// deleted.
    pub age: Option<usize>,
    /// Whether the walk has already skipped the older sources to the window's end.
    pub skipped: bool,
}

/// The range tombstones of a tree, as a reader at one sequence number sees them.
pub(crate) struct Covers {
    cache: Arc<TableCache>,
    seq: Seq,
    /// The sources that have range tombstones, newest first, each with its age. The newest source
    /// of the tree has age 0.
    sources: Vec<(usize, Source)>,
    current: Option<Cover>,
}

impl Covers {
    pub fn new(cache: Arc<TableCache>, seq: Seq) -> Self {
        Self { cache, seq, sources: Vec::new(), current: None }
    }

    /// Adds a memtable of this age, or one of its parts. Called after the sequence number was
    /// loaded, so that the memtable has all range tombstones that the reader may see.
    pub fn add_memtable(&mut self, age: usize, memtable: &Arc<Memtable>) {
        if memtable.has_ranges() {
            self.sources.push((age, Source::Memtable(memtable.clone())));
        }
    }

    /// Adds a run of this age.
    pub fn add_run(&mut self, age: usize, tables: &Tables) {
        if tables.ranged() > 0 {
            self.sources.push((age, Source::Run(tables.clone())));
        }
    }

    /// Whether the tree has no range tombstone.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the newest visible range tombstone over a key, and the window in which it is the
    /// newest.
    pub fn over(&mut self, key: &[u8]) -> Result<&mut Cover> {
        let known = self.current.take_if(|cover| contains(&cover.window, key));
        let cover = match known {
            Some(cover) => cover,
            None => self.find(key)?,
        };
        Ok(self.current.insert(cover))
    }

    fn find(&self, key: &[u8]) -> Result<Cover> {
        let mut cover = Cover::default();
        for (age, source) in &self.sources {
            let window = match source {
                Source::Memtable(memtable) => memtable.window(key),
                Source::Run(tables) => self.window_in(tables, key)?,
            };
            narrow(&mut cover.window, &window);
            let fragment = Fragment { hi: Default::default(), seqs: window.seqs };
            let seq = fragment.visible(self.seq);
            if seq > Seq::ZERO {
                cover.seq = cover.seq.max(seq);
                cover.age.get_or_insert(*age);
            }
        }
        Ok(cover)
    }

    /// The window around a key in a run. Only the slice of a table is visible.
    fn window_in(&self, tables: &Tables, key: &[u8]) -> Result<Window> {
        let before = tables.ending_at(key).next();
        match before {
            Some(table) if table.range.contains(key) => {
                let mut window = match table.file.range_tombstones {
                    0 => Window::default(),
                    _ => self.cache.reader(table)?.range_tombstones().window(key),
                };
                let (lo, hi) = (Some(table.range.lo.clone()), Some(end_of(&table.range)));
                narrow(&mut window, &Window { lo, hi, seqs: Vec::new() });
                Ok(window)
            }
            _ => {
                let after = tables.starting_at(key).next();
                Ok(Window {
                    lo: before.map(|table| end_of(&table.range)),
                    hi: after.map(|table| table.range.lo.clone()),
                    seqs: Vec::new(),
                })
            }
        }
    }
}

fn contains(window: &Window, key: &[u8]) -> bool {
    window.lo.as_ref().is_none_or(|lo| lo.as_ref() <= key)
        && window.hi.as_ref().is_none_or(|hi| key < hi.as_ref())
}

/// Narrows a window to its intersection with another one.
fn narrow(window: &mut Window, other: &Window) {
    // `None` as a lower end is smaller than any key, as options are ordered.
    window.lo = window.lo.take().max(other.lo.clone());
    window.hi = match (window.hi.take(), other.hi.clone()) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}
