//! Memtables against a sorted map, and the skip list under several threads. Small enough for Miri:
//! `cargo +nightly miri test -p vlsm skiplist`.

use super::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use vlsm_core::{Cursor, Kind};
use vlsm_disk::Charge;
use vlsm_disk::sst::filter::hash;

fn put(seq: u64) -> Trailer {
    Trailer::new(Seq(seq), Kind::Put)
}

fn fill(memtable: &Memtable, entries: &[(Vec<u8>, u64, Vec<u8>)]) {
    for (key, seq, value) in entries {
        let size = Memtable::entry_size(key.len(), value.len(), Seq(*seq));
        let mut space = memtable.reserve(1, size, Seq(*seq)..=Seq(*seq)).expect("room");
        memtable.insert(&mut space, key, put(*seq), value);
        assert_eq!(space.remaining(), 0, "sizes are exact");
        memtable.end_write();
    }
}

fn new(bytes: usize) -> Arc<Memtable> {
    Arc::new(Memtable::new(MemtableId(1), Arena::new(bytes)))
}

#[test]
fn skiplist_agrees_with_a_sorted_map() {
    let count: u64 = if cfg!(miri) { 60 } else { 5000 };
    let mut entries = Vec::new();
    for seq in 1..=count {
        let n = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        // Short keys, long keys with a common start, keys of the same eight bytes and up to eight
        // and more behind them, and many versions of some.
        let key = match n % 4 {
            0 => vec![b'a'; (n % 11) as usize],
            3 => format!("user0000{:01$}", n % 600, (n % 12) as usize).into_bytes(),
            1 => format!("a common start {:03}", n % 400).into_bytes(),
            _ => (n % 1000).to_be_bytes()[5..].to_vec(),
        };
        entries.push((key, seq, seq.to_le_bytes()[..(seq % 9) as usize].to_vec()));
    }
    let memtable = new(1 << 20);
    fill(&memtable, &entries);
    let map: BTreeMap<_, _> =
        entries.iter().map(|(k, s, v)| ((k.clone(), std::cmp::Reverse(*s)), v.clone())).collect();

    let mut cursor = memtable.cursor();
    for cursor in [&mut memtable.cursor().fetching(), &mut cursor] {
        assert!(!cursor.valid());
        cursor.seek_first().expect("memory");
        for ((key, seq), value) in &map {
            assert_eq!(
                (cursor.key(), cursor.trailer(), cursor.value()),
                (&key[..], put(seq.0), &value[..])
            );
            cursor.next().expect("memory");
        }
        assert!(!cursor.valid());
    }
    cursor.seek_last().expect("memory");
    for (key, seq) in map.keys().rev() {
        assert_eq!((cursor.key(), cursor.trailer()), (&key[..], put(seq.0)));
        cursor.prev().expect("memory");
    }
    assert!(!cursor.valid());

    for (key, seq, _) in entries.iter().step_by(7) {
        for at in [seq - 1, *seq, count] {
            let expected = map
                .range((key.clone(), std::cmp::Reverse(at))..)
                .next()
                .filter(|((found, _), _)| found == key)
                .map(|((_, seq), value)| (put(seq.0), &value[..]));
            assert_eq!(memtable.get(key, Seq(at)), expected);
            cursor.seek_before(key, Trailer::seek(Seq(at))).expect("memory");
            let before = map.range(..(key.clone(), std::cmp::Reverse(at))).next_back();
            assert_eq!(cursor.valid(), before.is_some());
            if let Some(((key, seq), _)) = before {
                assert_eq!((cursor.key(), cursor.trailer()), (&key[..], put(seq.0)));
            }
        }
    }
    let range = memtable.range().expect("not empty");
    assert_eq!(range.lo, map.keys().next().expect("not empty").0);
    assert_eq!(range.hi, map.keys().next_back().expect("not empty").0);
    assert!(range.hi_inclusive);
    assert_eq!(memtable.seqs(), Some((Seq(1), Seq(count))));
    assert_eq!(memtable.entries() as u64, count);
}

#[test]
fn skiplist_keeps_every_entry_of_parallel_writers() {
    let (threads, each): (u64, u64) = if cfg!(miri) { (3, 20) } else { (8, 20_000) };
    let memtable = new(64 << 20);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let memtable = &memtable;
            scope.spawn(move || {
                for i in 0..each {
                    let seq = i * threads + thread + 1;
                    let key = (seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52).to_be_bytes();
                    fill(memtable, &[(key.to_vec(), seq, seq.to_le_bytes().to_vec())]);
                    let (trailer, value) = memtable.get(&key, Seq(seq)).expect("own write");
                    assert_eq!((trailer, value), (put(seq), &seq.to_le_bytes()[..]));
                }
            });
        }
        scope.spawn(|| {
            // Whatever a reader sees meanwhile is in order and whole.
            let mut cursor = memtable.cursor();
            for _ in 0..10 {
                let mut last: Option<(Vec<u8>, Trailer)> = None;
                cursor.seek_first().expect("memory");
                while cursor.valid() {
                    assert_eq!(cursor.value(), cursor.trailer().seq().0.to_le_bytes());
                    let here = (cursor.key().to_vec(), cursor.trailer());
                    if let Some((key, trailer)) = &last {
                        let order = vlsm_core::key::compare(key, *trailer, &here.0, here.1);
                        assert!(order.is_lt());
                    }
                    last = Some(here);
                    cursor.next().expect("memory");
                }
            }
        });
    });
    let mut cursor = memtable.cursor();
    cursor.seek_first().expect("memory");
    let mut count = 0;
    while cursor.valid() {
        count += 1;
        cursor.next().expect("memory");
    }
    assert_eq!(count, threads * each);
    assert!(memtable.seal());
}

#[test]
fn skiplist_refuses_when_full_and_changes_nothing() {
    let size = Memtable::entry_size(3, 100, Seq(1));
    let memtable = new(Memtable::arena_bytes(size));
    assert!(memtable.reserve(1, size + 1, Seq(1)..=Seq(1)).is_none());
    assert_eq!((memtable.bytes(), memtable.entries(), memtable.range()), (0, 0, None));
    fill(&memtable, &[(b"key".to_vec(), 1, vec![7; 100])]);
    assert!(memtable.reserve(1, 8, Seq(2)..=Seq(2)).is_none());
    assert_eq!(memtable.get(b"key", Seq::MAX), Some((put(1), &[7; 100][..])));
    assert_eq!(memtable.get(b"key", Seq::ZERO), None);
}

#[test]
fn a_sealed_memtable_drains_with_its_last_writer() {
    let memtable = new(4096);
    memtable.begin_write();
    memtable.begin_write();
    assert!(!memtable.seal());
    assert!(!memtable.end_write());
    assert!(!memtable.drained());
    assert!(memtable.end_write());
    assert!(memtable.drained());
}

#[test]
fn skiplist_blocks_are_pooled_and_charged() {
    let gauges = ArenaGauges::default();
    let pool = ArenaPool::new(1024, 1, 3000, gauges.clone());
    let charged = || {
        let all = [&gauges.active, &gauges.sealed, &gauges.pinned, &gauges.spare];
        all.map(Gauge::get)
    };
    pool.fill(Charge::set);
    assert_eq!((pool.spare_blocks(), charged()), (0, [0; 4]), "nobody has asked for one");
    assert!(pool.take_spare(u64::MAX).is_none());
    pool.fill(Charge::set);
    assert_eq!((pool.spare_blocks(), charged()), (1, [0, 0, 0, 1024]));
    assert!(pool.take_spare(1000).is_none(), "active ones would take more than they may");
    let first = Memtable::new(MemtableId(1), pool.take_spare(1024).expect("one is there"));
    let second = Memtable::new(MemtableId(2), pool.take(10));
    let large = Memtable::new(MemtableId(3), pool.take_exactly(5000));
    fill(&first, &[(b"old".to_vec(), 1, vec![0; 20])]);
    fill(&large, &[(b"large".to_vec(), 1, vec![0; 4000])]);
    assert_eq!((pool.spare_blocks(), charged()), (0, [2048, 0, 5000, 0]));
    drop(large);
    first.note_sealed(Duration::ZERO);
    assert_eq!((pool.spare_blocks(), charged()), (0, [1024, 1024, 0, 0]));
    first.note_gone();
    assert_eq!(charged(), [1024, 0, 1024, 0]);
    drop(first);
    drop(second);
    assert_eq!((pool.spare_blocks(), charged()), (1, [0, 0, 0, 1024]));
    let again = Memtable::new(MemtableId(4), pool.take_spare(u64::MAX).expect("one is there"));
    assert_eq!(again.range(), None);
    fill(&again, &[(b"new".to_vec(), 9, vec![1; 20])]);
    assert_eq!(again.range(), Some(KeyRange::closed("new", "new")));
    drop(again);
    gauges.scarce.store(true, Relaxed);
    assert!(!pool.wants_more() && pool.trim() && !pool.trim(), "others need the memory");
    gauges.scarce.store(false, Relaxed);
    pool.fill(|held, bytes| {
        assert_eq!((gauges.spare.get(), bytes), (0, 1024), "room is made before it is charged");
        held.set(bytes);
        gauges.scarce.store(true, Relaxed);
    });
    assert_eq!((pool.spare_blocks(), gauges.spare.get()), (0, 0), "there was no room");
    gauges.scarce.store(false, Relaxed);
    pool.fill(Charge::set);
    let charge = gauges.sealed.charge(3000);
    assert!(!pool.wants_more() && pool.trim() && !pool.trim(), "none is kept beyond the budget");
    drop((charge, pool));
    assert_eq!(charged(), [0; 4]);
}

#[test]
fn skiplist_memory_is_charged_as_it_is_filled() {
    let gauges = ArenaGauges::default();
    let pool = ArenaPool::new(1 << 20, 1, u64::MAX, gauges.clone());
    let memtable = Memtable::new(MemtableId(1), pool.take(0));
    let mut seq = 0;
    while memtable.growth_for(100).is_some() {
        seq += 1;
        if !memtable.has_room(100) {
            memtable.grow_for(100);
            let (used, charged) = (memtable.bytes() as u64, gauges.active.get());
            assert!(charged >= used && charged <= used + used / 8 + 8192, "{used}: {charged}");
        }
        fill(&memtable, &[(b"key".to_vec(), seq, vec![0; 40])]);
    }
    // A block that is not faulted in beforehand has no filter.
    let full = if cfg!(miri) { 1 << 20 } else { (1 << 20) - (1 << 13) };
    assert!(seq > 10_000 && gauges.active.get() == full, "{seq}");
    drop(memtable);
    if cfg!(not(miri)) {
        assert_eq!((gauges.active.get(), pool.spare_blocks()), (0, 0), "it was not faulted in");
    }
}

#[test]
fn skiplist_arena_holds_exactly_its_entries_beside_the_filter() {
    for bytes in (0..if cfg!(miri) { 3_000 } else { 100_000 }).step_by(8) {
        let memtable = new(Memtable::arena_bytes(bytes));
        assert_eq!(memtable.list.capacity(), bytes);
        assert_eq!(memtable.list.filter().len(), Memtable::arena_bytes(bytes) / 1024);
    }
}

#[test]
fn skiplist_filter_has_every_key_and_few_others() {
    let bytes = if cfg!(miri) { 1 << 14 } else { 8 << 20 };
    let pool = ArenaPool::new(Memtable::block_bytes(bytes), 1, u64::MAX, ArenaGauges::default());
    let may = |memtable: &Memtable, key: u64| {
        filter::may_contain(memtable.list.filter(), hash(&key.to_be_bytes()))
    };
    let lazy = Memtable::new(MemtableId(1), pool.take(0));
    assert!(cfg!(miri) || may(&lazy, 0), "every key may be there");
    assert!(pool.take_spare(u64::MAX).is_none());
    pool.fill(Charge::set);
    // The second one gets the block of the first one.
    for life in 0..2 {
        let arena = pool.take_spare(u64::MAX).expect("one is there");
        let memtable = Memtable::new(MemtableId(2 + life), arena);
        assert!((0..100).all(|n| !may(&memtable, n)), "an empty one has no key");
        let key = |n: u64| 1_000_000 * life + n;
        let absent = || 500_000..if cfg!(miri) { 500_100 } else { 520_000 };
        let mut count = 0;
        while memtable.has_room(Memtable::entry_size(8, 160, Seq(count + 1))) {
            fill(&memtable, &[(key(count).to_be_bytes().to_vec(), count + 1, vec![0; 160])]);
            count += 1;
        }
        assert!(count as usize > bytes / 230, "{count}");
        assert!((0..count).all(|n| may(&memtable, key(n))));
        let lies = absent().filter(|n| may(&memtable, key(*n))).count();
        assert!(lies * 40 < absent().count(), "{lies} of {}", absent().count());
    }
}

#[test]
fn range_tombstones_count_as_entries_and_those_of_parts_from_their_base() {
    let memtable = new(4096);
    fill(&memtable, &[(b"m".to_vec(), 1, vec![1; 20])]);
    let before = memtable.bytes();
    assert!(!memtable.has_ranges() && memtable.has_room(3000));
    let _space = memtable.reserve(1, 0, Seq(2)..=Seq(2)).expect("room");
    memtable.delete_range(b"k", b"p", Seq(2));
    memtable.end_write();
    assert_eq!((memtable.entries(), memtable.seqs()), (2, Some((Seq(1), Seq(2)))));
    assert_eq!(memtable.range(), Some(KeyRange::half_open("k", "p")));
    assert!(memtable.bytes() > before && !memtable.has_room(memtable.list.capacity() - before));
    assert_eq!(memtable.cover(b"m", Seq(1)), Seq::ZERO);
    assert_eq!(memtable.cover(b"m", Seq(2)), Seq(2));

    let part = new(4096);
    let _space = part.reserve(1, 0, Seq(1)..=Seq(3)).expect("room");
    part.delete_range(b"a", b"n", Seq(3));
    part.end_write();
    memtable.attach(part.clone(), Seq(10));
    assert_eq!(memtable.cover(b"m", Seq(12)), Seq(2));
    assert_eq!(memtable.cover(b"m", Seq(13)), Seq(13));
    assert_eq!(memtable.range(), Some(KeyRange::half_open("a", "p")));
    assert_eq!(part.window(b"b").seqs, [Seq(13)]);
    let mut all = RangeTombstones::default();
    memtable.parts().for_each(|part| part.add_ranges_to(&mut all));
    assert_eq!(all.find(b"m").map(|(_, at)| at.seqs.clone()), Some(vec![Seq(13), Seq(2)]));
}

#[test]
fn overlapping_range_tombstones_are_counted_by_what_they_take() {
    let memtable = new(4096);
    for n in 0..200u64 {
        let (lo, hi) = (n.to_be_bytes(), (1000 - n).to_be_bytes());
        memtable.delete_range(&lo, &hi, Seq(n + 1));
    }
    let mut all = RangeTombstones::default();
    memtable.add_ranges_to(&mut all);
    let (counted, taken) = (memtable.bytes(), all.memory());
    assert!(counted >= taken && counted < 2 * taken, "{counted} counted, {taken} taken");
}

#[test]
#[should_panic(expected = "not reserved")]
fn a_reservation_of_another_memtable_is_refused() {
    let (one, other) = (new(4096), new(4096));
    let mut space = one.reserve(1, 64, Seq(1)..=Seq(1)).expect("room");
    other.insert(&mut space, b"k", put(1), b"v");
}
