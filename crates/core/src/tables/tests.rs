//! Searches, edits and walks over runs of many chunks, and the invariants.

use super::*;
use crate::table::FileMeta;

fn table(n: u32) -> Arc<Table> {
    let key = |n: u32| bytes::Bytes::from(format!("{n:08}"));
    Arc::new(Table::whole(Arc::new(FileMeta {
        number: crate::FileNumber(n.into()),
        bytes: Bytes(100),
        smallest: key(n * 10),
        largest: key(n * 10 + 5),
        ..FileMeta::default()
    })))
}

#[test]
fn finds_and_walks_across_chunks() {
    let run = Tables::new((0..5000).rev().map(table).collect());
    run.check(None).expect("sound");
    assert_eq!(run.find(b"00041233").map(|t| t.file.number.0), Some(4123));
    assert_eq!(run.find(b"00041237"), None);
    let numbers =
        |n| run.ending_at(b"00000037").map(|t| t.file.number.0).take(n).collect::<Vec<_>>();
    assert_eq!(numbers(9), [3, 2, 1, 0]);
    assert_eq!(run.ending_at(b"").count(), 0);
    assert_eq!(run.starting_at(b"99999999").count(), 0);
    let range = KeyRange::closed("00010006", "00010030");
    assert_eq!(
        run.overlapping(&range).map(|t| t.file.number.0).collect::<Vec<_>>(),
        [1001, 1002, 1003]
    );
    assert_eq!(run.overlapping_bytes(&range), Bytes(300));
}

/// Many ends share their first eight bytes, some are shorter, and some ranges exclude their end.
#[test]
fn a_search_is_exact_where_ends_begin_alike() {
    let few = ["", "a", "a\0", "common01", "common01a", "common01b", "common02"];
    // These fill several chunks, whose ends all begin with the same eight bytes.
    let many = (0..1200).map(|n| format!("user0000{n:04}"));
    let ends: Vec<String> = few.iter().map(|end| (*end).into()).chain(many).collect();
    let keys: Vec<String> =
        ends.iter().step_by(7).flat_map(|end| [end.clone(), format!("{end}!")]).collect();
    for inclusive in [true, false] {
        let range = |pair: &[String]| match inclusive {
            true => KeyRange::closed(pair[0].clone() + "\0", pair[1].clone()),
            false => KeyRange::half_open(pair[0].clone(), pair[1].clone()),
        };
        let whole = |pair: &[String]| Table { range: range(pair), ..Table::clone(&table(1)) };
        let all: Vec<_> = ends.windows(2).map(|pair| Arc::new(whole(pair))).collect();
        let run = Tables::new(all.clone());
        assert!(run.chunks.len() > 2);
        for key in &keys {
            let key = key.as_bytes();
            let found = all.iter().find(|table| table.range.contains(key));
            assert_eq!(run.find(key).map(|table| &table.range), found.map(|table| &table.range));
            let left = all.iter().filter(|table| !table.range.ends_before(key)).count();
            assert_eq!(run.starting_at(key).count(), left, "{key:?}");
        }
    }
}

#[test]
fn an_edit_shares_the_chunks_it_does_not_touch() {
    let run = Tables::new((0..5000).map(table).collect());
    let edited = run.replace(&table(2500).range, |t| t.file.number.0 == 2500, &[]);
    assert_eq!((edited.len(), edited.bytes()), (4999, Bytes(499_900)));
    edited.check(None).expect("sound");
    let shared =
        edited.chunks.iter().filter(|c| run.chunks.iter().any(|d| Arc::ptr_eq(c, d))).count();
    assert_eq!(shared, run.chunks.len() - 1);
    let back = edited.replace(&table(2500).range, |_| false, &[table(2500)]);
    assert_eq!(back, run);
}

#[test]
fn a_map_changes_some_tables_and_shares_the_rest() {
    let run = Tables::new((0..5000).map(table).collect());
    let open = |n: u32| run.find(format!("{:08}", n * 10).as_bytes()).expect("there");
    open(4000).attachment.set(Arc::new(1_u8));
    assert_eq!(open(4000).attachment.get(), Some(&1_u8));
    let closed = run.map(|t| t.attachment.is_set().then(|| Arc::new(t.detached())));
    assert!(closed == run && closed.iter().all(|table| !table.attachment.is_set()));
    let shared = closed.chunks.iter().zip(run.chunks.iter()).filter(|(a, b)| Arc::ptr_eq(a, b));
    assert_eq!(shared.count(), run.chunks.len() - 1);
    closed.check(None).expect("sound");
}

#[test]
fn grows_from_nothing_and_shrinks_to_nothing() {
    let mut run = Tables::default();
    for n in (0..2000).rev() {
        run = run.replace(&table(n).range, |_| false, &[table(n)]);
    }
    run.check(None).expect("sound");
    assert_eq!(run.len(), 2000);
    let all = run.range().expect("not empty");
    let none = run.replace(&all, |_| true, &[]);
    none.check(None).expect("sound");
    assert!(none.is_empty() && none.range().is_none());
}

/// `[lo, hi)` of a file with range tombstones up to `hi`.
fn open_ended(number: u64, lo: &str, hi: &str) -> Arc<Table> {
    Arc::new(Table::whole(Arc::new(FileMeta {
        number: crate::FileNumber(number),
        bytes: Bytes(100),
        smallest: lo.to_owned().into(),
        largest: hi.to_owned().into(),
        largest_exclusive: true,
        range_tombstones: 2,
        ..FileMeta::default()
    })))
}

#[test]
fn tables_meet_at_an_exclusive_end() {
    let run = |tables: &[(&str, &str)]| {
        let numbered = tables.iter().zip(1..);
        Tables::new(numbered.map(|((lo, hi), n)| open_ended(n, lo, hi)).collect())
    };
    let (abc, left) = (run(&[("a", "g"), ("g", "m"), ("p", "z")]), run(&[("a", "g")]));
    abc.check(None).expect("what ends at g does not hold g");
    assert!(run(&[("a", "g\0"), ("g", "m")]).check(None).is_err());
    assert!(run(&[("a", "g"), ("g", "g")]).check(None).is_err(), "an empty range");
    let number = |table: Option<&Arc<Table>>| table.map(|table| table.file.number.0);
    for (key, at, from, upto) in [
        ("f", Some(1), Some(1), Some(1)),
        ("g", Some(2), Some(2), Some(2)),
        ("m", None, Some(3), Some(2)),
        ("z", None, None, Some(3)),
    ] {
        let key = key.as_bytes();
        assert_eq!(number(abc.find(key)), at);
        assert_eq!(number(abc.starting_at(key).next()), from);
        assert_eq!(number(abc.ending_at(key).next()), upto);
    }
    assert_eq!(abc.overlapping(&KeyRange::half_open("g", "p")).count(), 1);
    assert_eq!(abc.overlapping(&KeyRange::closed("m", "p")).count(), 1);
    let right = [open_ended(2, "g", "m"), open_ended(3, "p", "z")];
    let range = KeyRange::half_open("g", "z");
    assert_eq!(left.replace(&range, |_| true, &right), abc, "[a, g) is not asked for");
    assert_eq!(abc.replace(&range, |_| true, &[]), left);
}

#[test]
fn tables_with_range_tombstones_are_counted() {
    let plain = Tables::new((100..2000).map(table).collect());
    assert_eq!(plain.ranged(), 0);
    let added = [open_ended(1, "0", "00000100"), open_ended(2, "1", "2")];
    let range = KeyRange::half_open("0", "2");
    let both = plain.replace(&range, |_| false, &added);
    both.check(None).expect("sound");
    assert_eq!((both.ranged(), Tables::new(both.iter().cloned().collect()).ranged()), (2, 2));
    let one = both.replace(&added[0].range, |table| table.file.number.0 == 1, &[]);
    one.check(None).expect("sound");
    assert_eq!((one.ranged(), one.len()), (1, 1901));
    assert!(Tables { ranged: 0, ..one }.check(None).is_err(), "a wrong sum is found");
}

#[test]
fn overlap_is_found_by_check() {
    let run = Tables::new(vec![table(1), table(1)]);
    assert!(run.check(None).is_err());
}
