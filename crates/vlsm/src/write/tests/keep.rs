//! The rules of `write/keep`: which hot keys stay in memory, and how.

use super::{Alone, TREE, with};
use crate::bounds::KeyBounds;
use crate::job::hot::{Hot, Keeps, Kept};
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::read::view::TreeView;
use crate::write::batch::Batch;
use std::sync::Arc;
use vlsm_core::{Bytes, Kind, Seq, Trailer, key};
use vlsm_disk::wal::Entries;
use vlsm_disk::wal::reader::{RecoverOptions, recover};

/// A store whose first memtable has the key 7 twice, as 1 and 2, and is sealed.
fn sealed() -> (Alone, Arc<Memtable>) {
    let alone = Alone::of(Bytes::mib(1), 8);
    put(&alone, 7);
    put(&alone, 7);
    let sealed = alone.seal();
    (alone, sealed)
}

fn put(alone: &Alone, key: u64) {
    alone.put(key, 10, with(Durability::Buffered)).unwrap();
}

fn delete_all(alone: &Alone) {
    let mut batch = Batch::new();
    batch.add_range(&alone.keyspace, ([0]..[0xff]).key_bounds());
    alone.writer.write(&batch, with(Durability::Buffered)).unwrap();
}

/// The newest version of the key 7 of [`sealed`].
fn seven() -> Hot {
    Hot { key: 7_u64.to_be_bytes().into(), seq: Seq(2), value: b"value".into() }
}

fn keep(alone: &Alone, flushed: &Arc<Memtable>) -> Kept {
    alone.writer.keep(TREE, std::slice::from_ref(flushed), &[seven()])
}

/// Asserts that the key stays out of memory, for now or for good.
fn refuses(alone: &Alone, flushed: &Arc<Memtable>, for_good: bool, why: &str) {
    let last = alone.writer.log.sequence().next_seq;
    let right = match keep(alone, flushed) {
        Kept::Some(..) => false,
        Kept::None => !for_good,
        Kept::Never => for_good,
    };
    assert!(right && flushed.left().is_empty(), "{why}");
    assert_eq!(alone.writer.log.sequence().next_seq, last, "{why}: it leaves no trace");
    alone.shared.io.shutdown();
}

fn active(alone: &Alone) -> Arc<Memtable> {
    alone.views.load().tree(TREE).active.clone()
}

#[test]
fn a_kept_key_reads_as_before_and_is_logged_again() {
    let (alone, flushed) = sealed();
    put(&alone, 8);
    let Kept::Some(1, 13, writing) = keep(&alone, &flushed) else { panic!("it stays") };
    while writing.try_take().is_none() {
        std::thread::yield_now();
    }
    let (holder, seven) = (active(&alone), 7_u64.to_be_bytes());
    let found = holder.get(&seven, Seq::MAX);
    assert_eq!(found, Some((Trailer::new(Seq(2), Kind::Put), &b"value"[..])));
    assert_eq!(holder.get(&seven, Seq(1)), None, "an older snapshot does not see it");
    assert_eq!(flushed.left(), [(holder.id(), Seq(2))]);
    assert!(holder.has_copies() && !flushed.has_copies());
    // Its place in the order is that of the log.
    assert_eq!(holder.seqs(), Some((Seq(3), Seq(4))));
    assert_eq!(alone.views.visible(), Seq(4));
    let mut logged = Vec::new();
    let options =
        RecoverOptions { min_wal: 1, listed: &[1], flushed: None, salvage: false, read_only: true };
    recover(&alone.disk.fork(), "/store".as_ref(), options, &mut |batch| {
        for entry in Entries::new(&batch.payload) {
            let entry = entry.unwrap();
            logged.push((batch.first_seq, entry.kind, entry.key.to_vec(), entry.value.to_vec()));
        }
        Ok(())
    })
    .unwrap();
    let (seq, kind, key, value) = logged.pop().unwrap();
    assert_eq!((seq, kind, &key[..]), (Seq(4), Kind::Kept, &seven[..]));
    assert_eq!(key::kept(&value), Some((Seq(2), &b"value"[..])));
    // Once more, as after a flush that failed: it is there already.
    assert!(matches!(keep(&alone, &flushed), Kept::None));
    alone.shared.io.shutdown();
}

#[test]
fn nothing_stays_where_there_is_no_room() {
    let (alone, flushed) = sealed();
    refuses(&alone, &flushed, false, "the active memtable has no room without a rotation");
    let (alone, flushed) = sealed();
    put(&alone, 8);
    alone.shared.channel.seal_memtables_at(Some(Bytes(64)));
    refuses(&alone, &flushed, false, "memtables are sealed when they are this small");
}

#[test]
fn nothing_stays_over_something_newer() {
    let (alone, flushed) = sealed();
    put(&alone, 7);
    refuses(&alone, &flushed, false, "a newer version in the active memtable");
    let (alone, flushed) = sealed();
    put(&alone, 7);
    alone.seal();
    put(&alone, 8);
    refuses(&alone, &flushed, false, "a newer version in a sealed memtable");
    let (alone, flushed) = sealed();
    put(&alone, 8);
    delete_all(&alone);
    refuses(&alone, &flushed, false, "a range tombstone in the active memtable");
    let (alone, flushed) = sealed();
    delete_all(&alone);
    alone.seal();
    put(&alone, 8);
    refuses(&alone, &flushed, false, "a range tombstone in a sealed memtable");
}

#[test]
fn nothing_stays_while_a_memtable_between_is_written_to() {
    let (alone, flushed) = sealed();
    put(&alone, 8);
    active(&alone).begin_write();
    let between = alone.seal();
    put(&alone, 9);
    assert!(matches!(keep(&alone, &flushed), Kept::None));
    between.end_write();
    assert!(matches!(keep(&alone, &flushed), Kept::Some(..)));
    // Without a merge operator a writer in the active memtable does no harm.
    let (alone, flushed) = sealed();
    put(&alone, 8);
    active(&alone).begin_write();
    assert!(matches!(keep(&alone, &flushed), Kept::Some(..)));
    alone.shared.io.shutdown();
}

#[test]
fn nothing_stays_that_somebody_wants_in_tables() {
    let (alone, flushed) = sealed();
    put(&alone, 8);
    alone.shared.channel.settle_below(alone.shared.numbers.memtables_end());
    refuses(&alone, &flushed, true, "a flush that somebody waits for");
    let (alone, flushed) = sealed();
    put(&alone, 8);
    let barrier = alone.writer.raise_barrier(&[], &[]).unwrap();
    assert!(matches!(keep(&alone, &flushed), Kept::Never), "an ingest is under way");
    drop(barrier);
    alone.views.update(TREE, |tree| TreeView { version: ingested(Seq(4)), ..tree.clone() });
    refuses(&alone, &flushed, true, "an ingested run is newer");
    let (alone, flushed) = sealed();
    put(&alone, 8);
    assert!(alone.writer.shut());
    refuses(&alone, &flushed, true, "the store is being closed");
}

/// A tree with one run of L0 of this sequence number.
fn ingested(seq: Seq) -> Arc<vlsm_core::Version> {
    let text = format!("L0 r1 merge seq {seq}-{seq}: 1:8K[a,b]");
    Arc::new(vlsm_core::text::parse(&text).unwrap())
}
