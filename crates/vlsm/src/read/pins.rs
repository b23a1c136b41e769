//! The memory and files that open iterators pin, and their release by the engine.
//!
//! An iterator's walk over a tree holds that tree's memtables and tables, and so their memory and
//! their files. The owner of the iterator may never ask for the next pair, so the engine can
//! release its holds:
//! 1. The iterator registers its sequence number, as a snapshot does. So every later view of the
//!    tree shows the same state at that number.
//! 2. Each step locks the iterator's [`Holds`]. If there is no walk, one begins on the current
//!    view, after the last pair.
//! 3. In the background, [`Reader::take_back`] ends walks that have been on an outdated view for
//!    [`HELD_MAX`].
//!
//! So a scan of any length, even an idle one, holds outdated memtables and dead files only for
//! about that time, and as long as its owner keeps a pair that it lent.
//!
//! Threads and locks: an iterator locks its `Holds`, also over file reads and while it lends a
//! pair; the engine uses `try_lock`, and unlocks before it drops the walks. The list of open
//! iterators is locked for a short time.

use crate::read::Reader;
use crate::read::merge_cursor::Direction;
use crate::read::user_cursor::UserCursor;
use crate::read::view::TreeView;
use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use vlsm_core::KeyBuf;

/// The longest time that a walk stays on a view that is no longer current.
pub(crate) const HELD_MAX: Duration = Duration::from_millis(50);

/// A walk over a tree, and its view of the tree.
pub(crate) struct Walk {
    pub cursor: UserCursor,
    pub tree: Arc<TreeView>,
    /// The time at which the walk began on this view; none if the iterator must keep the view.
    pub since: Option<Duration>,
}

/// One end of an open iterator.
#[derive(Default)]
pub(crate) struct Side {
    /// Its walk, from the first pair on.
    pub walk: Option<Walk>,
    /// The key that was returned last, if `returned`.
    key: KeyBuf,
    returned: bool,
}

impl Side {
    /// Its walk's cursor.
    ///
    /// # Panics
    /// If no walk has begun.
    #[inline]
    pub fn cursor(&self) -> &UserCursor {
        &self.walk.as_ref().expect("its walk has begun").cursor
    }

    /// The key on which its walk is.
    ///
    /// # Panics
    /// As [`Side::cursor`].
    #[inline]
    pub fn at(&self) -> &[u8] {
        self.cursor().key()
    }

    /// The key that was returned last.
    #[inline]
    pub fn last(&self) -> Option<&[u8]> {
        self.returned.then_some(&self.key[..])
    }

    /// Remembers the key that its walk is on. The key is copied, because the walk may be ended
    /// before the next step.
    #[inline]
    pub fn note_last(&mut self) {
        if let Some(walk) = &self.walk {
            self.key.replace(0, walk.cursor.key());
            self.returned = true;
        }
    }
}

/// Both ends of an open iterator.
#[derive(Default)]
pub(crate) struct Holds {
    pub front: Side,
    pub back: Side,
}

impl Holds {
    /// The end that moves in a direction.
    #[inline]
    pub fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        }
    }

    /// Ends both walks.
    pub fn release(&mut self) {
        (self.front.walk, self.back.walk) = (None, None);
    }
}

/// The holds of all open iterators.
#[derive(Default)]
pub(crate) struct Pins {
    open: Mutex<BTreeMap<u64, Weak<Mutex<Holds>>>>,
    next: AtomicU64,
}

/// The holds of an iterator, listed as long as it exists.
pub(crate) struct Pin {
    reader: Arc<Reader>,
    number: u64,
    holds: Arc<Mutex<Holds>>,
}

impl Pin {
    pub fn new(reader: &Arc<Reader>) -> Self {
        let number = reader.pins.next.fetch_add(1, Relaxed);
        let this = Self { reader: reader.clone(), number, holds: Arc::default() };
        reader.pins.open.lock().insert(number, Arc::downgrade(&this.holds));
        this
    }

    /// Locks the holds, for a step of the iterator.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.reader.pins.open.lock().remove(&self.number);
    }
}

impl Reader {
    /// Ends the iterators' walks on outdated views, and drops retired trees that no reader sees any
    /// more. Returns the time of the next check, if some walks may continue until then.
    pub fn take_back(&self) -> Option<Duration> {
        self.views.let_go(|| self.snapshots.numbers());
        let open: Vec<_> = {
            let open = self.pins.open.lock();
            open.values().filter_map(Weak::upgrade).collect()
        };
        let (now, view) = (self.shared.env.now(), self.views.load_full());
        let mut again: Option<Duration> = None;
        for holds in open {
            let Some(mut held) = holds.try_lock() else {
                // The iterator is in a step, or lends a pair.
                again = again.into_iter().chain([now + HELD_MAX]).min();
                continue;
            };
            let Holds { front, back } = &mut *held;
            let mut taken = Vec::new();
            for end in [front, back] {
                let outdated = |walk: &&mut Walk| {
                    let current = view.find_any(walk.tree.id);
                    !current.is_some_and(|current| Arc::ptr_eq(&walk.tree, current))
                };
                let Some(walk) = end.walk.as_mut().filter(outdated) else { continue };
                let Some(until) = walk.since.map(|since| since + HELD_MAX) else { continue };
                if until <= now {
                    taken.extend(end.walk.take());
                } else {
                    again = again.into_iter().chain([until]).min();
                }
            }
            drop(held);
            drop(taken);
        }
        again
    }
}
