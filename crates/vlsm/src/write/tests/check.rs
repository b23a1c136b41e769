//! The rules of `write/check`: which batches a check must see, and what it forgets.

use super::{Alone, TREE, with};
use crate::bounds::KeyBounds;
use crate::options::{Durability, WriteOptions};
use crate::read::changes::{RangeRead, ReadIndex, Reads};
use crate::write::batch::Batch;
use crate::write::check::{Check, Recent};
use crate::write::commit::Basis;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{Bytes, ConflictKind, Error, Kind, Seq};
use vlsm_disk::wal::LARGE_BATCH;

/// The key `c` and the range from `g` up to `j`.
fn reads() -> ReadIndex {
    let mut reads = Reads::default();
    reads.add_key(TREE, b"c").unwrap();
    let (lo, hi) = ("g".."j").key_bounds();
    let trees = vec![TREE];
    let range = RangeRead { trees, lo, hi, front: None, back: None, all: true };
    reads.add_range(range).unwrap();
    reads.index()
}

fn alone() -> Alone {
    Alone::of(Bytes::mib(4), 8)
}

/// Commits one write, as in `put c`, `delete c`, `clear a e`; `large` in a large batch.
fn write(alone: &Alone, text: &str, large: bool) {
    let mut batch = Batch::new();
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["put", key] => batch.add_put(&alone.keyspace, key.as_bytes(), b"1"),
        ["delete", key] => batch.add(&alone.keyspace, Kind::Delete, key.as_bytes(), &[]),
        ["clear", lo, hi] => batch.add_range(&alone.keyspace, (lo..hi).key_bounds()),
        _ => panic!("{text}"),
    }
    if large {
        batch.add_put(&alone.keyspace, b"padding", &vec![7; LARGE_BATCH]);
    }
    alone.writer.write(&batch, with(Durability::Lazy)).unwrap();
}

/// The kind of the conflict that the check finds.
fn found(check: &Check<'_>) -> Option<ConflictKind> {
    match check.search() {
        Ok(()) => None,
        Err(Error::Conflict { what, .. }) => Some(what),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_batch_after_its_begin_is_seen() {
    use ConflictKind::{Key, Range};
    for large in [false, true] {
        for (text, expected) in [
            ("put b", None),
            ("put c", Some(Key)),
            ("delete c", Some(Key)),
            ("clear a c", None),
            ("clear a d", Some(Key)),
            ("clear d g", None),
            ("clear d h", Some(Range)),
            ("put f", None),
            ("put h", Some(Range)),
            ("put j", None),
        ] {
            let (alone, reads) = (alone(), reads());
            write(&alone, text, large);
            let check = alone.writer.begin_check(&reads, None).unwrap();
            assert_eq!(found(&check), None, "{text}: that was before");
            write(&alone, "put a", false);
            write(&alone, text, large);
            // A large batch says of a range tombstone no more than that it changes a read.
            let kind = found(&check);
            assert_eq!(kind.is_some(), expected.is_some(), "{text}, large: {large}");
            assert!(large || kind == expected, "{text}: {kind:?}");
        }
    }
}

#[test]
fn a_barrier_counts_as_a_change_of_its_trees() {
    let (alone, reads) = (alone(), reads());
    let check = alone.writer.begin_check(&reads, None).unwrap();
    drop(alone.writer.raise_barrier(&[], &[]).unwrap());
    assert_eq!(found(&check), None);
    drop(alone.writer.raise_barrier(&[TREE], &[]).unwrap());
    assert_eq!(found(&check), Some(ConflictKind::Unchecked));
}

/// Commits a transaction that has read at this number. Returns its result, and whether it looked
/// for changes, of which there are none.
fn commit(alone: &Alone, since: Seq, options: WriteOptions) -> (Result<(), Error>, bool) {
    let (reads, looked) = (reads(), Cell::new(false));
    let mut batch = Batch::new();
    batch.add_put(&alone.keyspace, b"c", b"2");
    let changed = |_| {
        looked.set(true);
        Ok(None)
    };
    let basis = Basis { reads: &reads, since, changed: &changed };
    let result = alone.writer.write_checked(&batch, options, Some(&basis));
    assert!(!alone.writer.recent.is_active(), "its check has ended");
    (result, looked.get())
}

#[test]
fn a_commit_checks_nothing_if_no_number_was_given_since() {
    let alone = alone();
    let options = with(Durability::Lazy);
    let visible = || alone.writer.views.visible();
    write(&alone, "put c", false);
    let before = visible();
    assert!(matches!(commit(&alone, before, options), (Ok(()), false)));
    assert_eq!(visible(), Seq(before.0 + 1));
    assert!(matches!(commit(&alone, before, options), (Ok(()), true)), "the first outran it");
    // A number that is given, and not visible.
    let barrier = alone.writer.raise_barrier(&[TREE], &[]).unwrap();
    let deadline = Some(Duration::from_millis(1));
    let (result, looked) = commit(&alone, visible(), WriteOptions { deadline, ..options });
    assert!(matches!(result, Err(Error::Busy { .. })) && !looked, "{result:?}");
    drop(barrier);
    assert!(matches!(commit(&alone, visible(), options), (Ok(()), false)));
}

#[test]
fn notes_go_with_the_checks_that_need_them() {
    let (alone, reads) = (alone(), reads());
    write(&alone, "put c", false);
    assert!(!alone.writer.recent.is_active());
    let first = alone.writer.begin_check(&reads, None).unwrap();
    write(&alone, "put c", false);
    let second = alone.writer.begin_check(&reads, None).unwrap();
    write(&alone, "put a", false);
    assert_eq!(alone.writer.recent.note_count(), 2);
    assert_eq!((found(&first), found(&second)), (Some(ConflictKind::Key), None));
    drop(first);
    assert_eq!(alone.writer.recent.note_count(), 1, "the second needs one of them");
    drop(second);
    assert_eq!((alone.writer.recent.note_count(), alone.writer.recent.is_active()), (0, false));
}

#[test]
fn a_check_that_lost_notes_knows_it_and_others_go_on() {
    let mut alone = alone();
    let reads = reads();
    Arc::get_mut(&mut alone.writer).unwrap().recent = Recent::bounded(1_000, 1 << 20);
    let outrun = alone.writer.begin_check(&reads, None).unwrap();
    for _ in 0..10 {
        write(&alone, "put a", false);
    }
    let late = alone.writer.begin_check(&reads, None).unwrap();
    for _ in 0..3 {
        write(&alone, "put a", false);
    }
    assert_eq!((found(&late), late.is_lost()), (None, false));
    assert_eq!((found(&outrun), outrun.is_lost()), (Some(ConflictKind::Unchecked), true));
    // A check that looks often enough needs no old notes.
    for _ in 0..30 {
        write(&alone, "put a", false);
        assert_eq!(found(&late), None);
    }
    assert!(!late.is_lost());
}

#[test]
fn large_batches_are_kept_up_to_a_bound() {
    let mut alone = alone();
    let reads = reads();
    let bounds = Recent::bounded(1 << 20, 2 * LARGE_BATCH);
    Arc::get_mut(&mut alone.writer).unwrap().recent = bounds;
    let check = alone.writer.begin_check(&reads, None).unwrap();
    write(&alone, "put a", true);
    assert_eq!(found(&check), None, "its keys are known");
    write(&alone, "put a", true);
    assert_eq!(found(&check), Some(ConflictKind::Unchecked), "only its trees are known");
}
