//! Merges with range tombstones, operands, values that expire and snapshots. A naive reader reads
//! before and after each merge, and must see the same.

use super::*;
use crate::rules::{CompactionFilter, Decision, MergeOperator, Rules};
use crate::shared::callback::Guarded;
use vlsm_core::event::Callback;
use vlsm_core::{FileMeta, Micros, RangeTombstones, Table};
use vlsm_policy::shape::Overlap;

/// The job's wall-clock time.
const NOW: u64 = 50;

/// Appends, but refuses values with a `#`, and combines operands only if `partial` is set.
struct Picky {
    partial: bool,
}

impl MergeOperator for Picky {
    fn name(&self) -> &str {
        "picky"
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = [base.unwrap_or_default(), &operands.concat()].concat();
        (!all.contains(&b'#')).then_some(all)
    }
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        if self.partial { self.merge(key, None, operands) } else { None }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Put(u8, u8),
    Delete(u8),
    Merge(u8, u8),
    Expiring(u8, u64),
    Range(u8, u8),
}

type Ranges = Vec<(Vec<u8>, Vec<u8>, Seq)>;

fn user_key(n: u8) -> Vec<u8> {
    format!("key{n:02}").into_bytes()
}

fn arb_op() -> impl Strategy<Value = Op> {
    let letter = || prop_oneof![9 => b'a'..=b'z', 1 => Just(b'#')];
    prop_oneof![
        4 => (0u8..24, letter()).prop_map(|(key, value)| Op::Put(key, value)),
        2 => (0u8..24).prop_map(Op::Delete),
        6 => (0u8..24, letter()).prop_map(|(key, value)| Op::Merge(key, value)),
        2 => (0u8..24, 0u64..100).prop_map(|(key, moment)| Op::Expiring(key, moment)),
        2 => (0u8..24, 0u8..24).prop_map(|(lo, hi)| Op::Range(lo.min(hi), lo.max(hi) + 1)),
    ]
}

/// The entries of the operations in runs, oldest first, and their range tombstones.
fn play(runs: &[Vec<Op>]) -> (Vec<Vec<Entry>>, Ranges) {
    let (mut seq, mut ranges, mut all) = (0, Vec::new(), Vec::new());
    for run in runs {
        let mut entries: Vec<Entry> = Vec::new();
        for op in run {
            seq += 1;
            let (key, kind, value) = match op {
                Op::Put(key, value) => (*key, Kind::Put, vec![*value; 3]),
                Op::Delete(key) => (*key, Kind::Delete, Vec::new()),
                Op::Merge(key, value) => (*key, Kind::Merge, vec![*value]),
                Op::Expiring(key, moment) => {
                    (*key, Kind::PutExpiring, [&moment.to_le_bytes()[..], b"brief"].concat())
                }
                Op::Range(lo, hi) => {
                    ranges.push((user_key(*lo), user_key(*hi), Seq(seq)));
                    continue;
                }
            };
            entries.push((user_key(key), Trailer::new(Seq(seq), kind), value));
        }
        entries.sort_by(|a, b| key::compare(&a.0, a.1, &b.0, b.1));
        all.push(entries);
    }
    (all, ranges)
}

/// The value of a key for a reader, with an operator that appends anything.
fn see(entries: &[Entry], ranges: &Ranges, key: &[u8], seq: Seq, now: u64) -> Option<Vec<u8>> {
    let over = |range: &&(Vec<u8>, Vec<u8>, Seq)| {
        range.0.as_slice() <= key && key < range.1.as_slice() && range.2 <= seq
    };
    let cover = ranges.iter().filter(over).map(|range| range.2).max().unwrap_or(Seq::ZERO);
    let visible = |entry: &&Entry| entry.0 == key && entry.1.seq() <= seq && entry.1.seq() >= cover;
    let mut versions: Vec<&Entry> = entries.iter().filter(visible).collect();
    versions.sort_by_key(|entry| entry.1);
    let mut value: Option<Vec<u8>> = None;
    for (_, trailer, bytes) in versions {
        value = match trailer.kind().expect("known") {
            Kind::Put => Some(bytes.clone()),
            Kind::Merge => Some([value.unwrap_or_default(), bytes.clone()].concat()),
            Kind::PutExpiring if bytes[0] as u64 > now => Some(bytes[8..].to_vec()),
            Kind::PutExpiring | Kind::Delete => None,
            Kind::RangeDelete | Kind::Kept | Kind::Logged => panic!("no entry"),
        };
    }
    value
}

/// All output of a merge; each file must lie before the next one.
fn written(merge: &mut Merge, files: Vec<Vec<u8>>) -> (Vec<Entry>, Ranges, Vec<FileMeta>) {
    let (mut entries, mut ranges, mut metas) = (Vec::new(), Vec::new(), Vec::new());
    for (bytes, summary) in files.into_iter().zip(merge.outputs().finished().to_vec()) {
        let meta = summary.clone().into_meta(FileNumber(1));
        let reader = open(bytes.clone(), summary.clone());
        for (lo, fragment) in reader.range_tombstones().iter() {
            let part = KeyRange::half_open(lo.clone(), fragment.hi.clone());
            assert!(meta.range().covers(&part), "{} in {}", part, meta.range());
            let one = |seq: &Seq| (lo.to_vec(), fragment.hi.to_vec(), *seq);
            ranges.extend(fragment.seqs.iter().map(one));
        }
        let of_file = read(bytes, &summary);
        assert!(of_file.iter().all(|entry| meta.range().contains(&entry.0)));
        entries.extend(of_file);
        metas.push(meta);
    }
    for pair in metas.windows(2) {
        assert!(pair[0].range().is_before(&pair[1].range()), "{pair:?}");
    }
    (entries, ranges, metas)
}

fn set_of(ranges: &Ranges) -> RangeTombstones {
    let mut set = RangeTombstones::default();
    for (lo, hi, seq) in ranges {
        set.insert(&lo.clone().into(), &hi.clone().into(), *seq);
    }
    set
}

/// One table of the next level for each of these keys.
fn next_level(keys: impl IntoIterator<Item = Vec<u8>>) -> Tables {
    let table = |key: Vec<u8>| {
        let largest = [&key[..], b"x"].concat().into();
        let file =
            FileMeta { smallest: key.into(), largest, bytes: Bytes(1), ..FileMeta::default() };
        Arc::new(Table::whole(Arc::new(file)))
    };
    Tables::new(keys.into_iter().map(table).collect())
}

fn look_ahead() -> CutRule {
    CutRule::LookAhead {
        sst_min: Bytes(1 << 20),
        sst_max: Bytes(8 << 20),
        overlap_max: 2.0,
        overlap: Overlap::Count,
        next_level: 2,
    }
}

fn rules(operator: impl MergeOperator + 'static) -> Arc<Rules> {
    let operator: Arc<dyn MergeOperator> = Arc::new(operator);
    let operator = Guarded::new(operator, Callback::MergeOperator, ("", ""), None);
    Arc::new(Rules { operator: Some(operator), ..Rules::default() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_reader_sees_the_same_before_and_after(
        runs in prop::collection::vec(prop::collection::vec(arb_op(), 1..40), 1..5),
        snapshots in prop::collection::vec((0u64..120, 0u64..NOW), 0..4),
        nothing_below in any::<bool>(),
        partial in any::<bool>(),
        rule in prop::sample::select(vec![
            CutRule::Never, CutRule::Size { sst: Bytes(1) }, look_ahead(),
        ]),
        next in prop::collection::btree_set(0u8..24, 0..24),
        quantum in prop::sample::select(vec![1u64, 1 << 20]),
    ) {
        let pool = pool();
        let (runs, ranges) = play(&runs);
        let mut before: Vec<Entry> = runs.concat();
        let count = before.len() as u64;
        let source = |run: &Vec<Entry>| Source::memory(VecCursor(run.clone(), 0));
        let context = MergeContext {
            snapshots: snapshots.iter().map(|(seq, _)| Seq(*seq)).collect(),
            nothing_below,
            ranges: set_of(&ranges),
            rules: rules(Picky { partial }),
            filters: true,
            now: Micros(NOW),
            level: 1,
            ..MergeContext::default()
        };
        let outputs = outputs_above(rule, next_level(next.into_iter().map(user_key)));
        let mut merge =
            Merge::new(runs.iter().map(source).collect(), context, outputs).expect("sound");
        let files = finish(&mut merge, &pool, quantum);
        let (mut after, ranges_after, _) = written(&mut merge, files);
        let counters = merge.counters();
        let dropped =
            counters.dropped_shadowed + counters.dropped_tombstones + counters.combined;
        prop_assert_eq!((counters.entries_in, counters.entries_out), (count, after.len() as u64));
        prop_assert_eq!(count - dropped, after.len() as u64);
        if nothing_below && snapshots.is_empty() {
            prop_assert!(ranges_after.is_empty(), "range tombstones with nothing below");
            let plain = |entry: &Entry| match entry.1.kind().expect("known") {
                Kind::Put => true,
                Kind::PutExpiring => u64::from(entry.2[0]) > NOW,
                _ => false,
            };
            // Except for values that the operator refused, and those without a defined value.
            let odd = |key: &[u8]| before.iter().any(|entry| {
                entry.0 == key && (entry.2.contains(&b'#') || entry.2.ends_with(b"brief"))
            });
            prop_assert!(after.iter().all(|entry| plain(entry) || odd(&entry.0)));
        }
        if !nothing_below {
            for n in (0..24).step_by(2) {
                let entry = (user_key(n), Trailer::new(Seq::ZERO, Kind::Put), b"below".to_vec());
                before.push(entry.clone());
                after.push(entry);
            }
        }
        let readers = snapshots.into_iter().chain([(Seq::MAX.0, NOW), (Seq::MAX.0, 80)]);
        for (seq, now) in readers {
            for n in 0..24 {
                let (key, seq) = (user_key(n), Seq(seq));
                prop_assert_eq!(
                    see(&before, &ranges, &key, seq, now),
                    see(&after, &ranges_after, &key, seq, now),
                    "key {} at {}, {}", n, seq, now
                );
            }
        }
    }
}

#[test]
fn a_wide_range_tombstone_is_cut_so_that_no_part_overlaps_much() {
    let pool = pool();
    let key = |n: u64| n.to_be_bytes().to_vec();
    let count = 5_000;
    let next = next_level((0..count).map(key));
    let context = MergeContext {
        ranges: set_of(&vec![(key(0), key(count), Seq(9)), (key(10), key(20), Seq(12))]),
        ..MergeContext::default()
    };
    let sources = vec![Source::memory(VecCursor(Vec::new(), 0))];
    let outputs = outputs_above(look_ahead(), next.clone());
    let mut merge = Merge::new(sources, context, outputs).expect("sound");
    let files = finish(&mut merge, &pool, 100);
    let (entries, ranges, metas) = written(&mut merge, files);
    assert!(entries.is_empty());
    let set = set_of(&ranges);
    let expected = |n| if (10..20).contains(&n) { Seq(12) } else { Seq(9) };
    assert!((0..count).all(|n| set.cover(&key(n), Seq::MAX) == expected(n)));
    assert!(metas.iter().all(|meta| next.overlapping(&meta.range()).count() <= 2));
    assert!(metas.len() as u64 <= count / 2 + 20, "{} files", metas.len());
}

#[test]
fn operands_beyond_the_bound_go_out_as_they_are() {
    let pool = pool();
    let operand = |seq: u64| (b"k".to_vec(), Trailer::new(Seq(seq), Kind::Merge), vec![b'a']);
    let mut entries: Vec<Entry> = (2..3000).map(operand).rev().collect();
    entries.push((b"k".to_vec(), Trailer::new(Seq(1), Kind::Put), b"base".to_vec()));
    for (partial, expected) in [(false, entries.len()), (true, 1)] {
        let sources = vec![Source::memory(VecCursor(entries.clone(), 0))];
        let context = MergeContext { rules: rules(Picky { partial }), ..everything() };
        let mut merge = Merge::new(sources, context, outputs(CutRule::Never)).expect("sound");
        let files = finish(&mut merge, &pool, 1 << 20);
        let (found, _, _) = written(&mut merge, files);
        assert_eq!(found.len(), expected);
        let value = see(&found, &Vec::new(), b"k", Seq::MAX, 0).expect("there");
        assert_eq!(value.len(), 4 + 2998);
    }
}

struct Letters;

impl CompactionFilter for Letters {
    fn name(&self) -> &str {
        "letters"
    }
    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision {
        assert_eq!(level, 3);
        match value {
            b"remove" => Decision::Remove,
            b"change" => Decision::Change([b"changed ", key].concat()),
            _ => Decision::Keep,
        }
    }
}

#[test]
fn the_filter_is_asked_for_what_no_snapshot_sees() {
    let entry = |key: &str, seq, kind, value: &str| {
        (key.as_bytes().to_vec(), Trailer::new(Seq(seq), kind), value.as_bytes().to_vec())
    };
    let entries = vec![
        entry("a", 9, Kind::Put, "remove"),
        entry("a", 5, Kind::Put, "remove"),
        entry("b", 5, Kind::Put, "change"),
        entry("c", 8, Kind::Put, "change"),
        entry("d", 9, Kind::Delete, ""),
        entry("e", 9, Kind::PutExpiring, "\u{7f}\0\0\0\0\0\0\0change"),
        entry("f", 9, Kind::Put, "keep"),
    ];
    let run = |snapshots: Vec<Seq>, nothing_below| {
        let filter: Arc<dyn CompactionFilter> = Arc::new(Letters);
        let filter = Guarded::new(filter, Callback::CompactionFilter, ("", ""), None);
        let rules = Rules { filter: Some(filter), ..Rules::default() };
        let context = MergeContext {
            snapshots,
            nothing_below,
            rules: Arc::new(rules),
            level: 3,
            ..everything()
        };
        let sources = vec![Source::memory(VecCursor(entries.clone(), 0))];
        let mut merge = Merge::new(sources, context, outputs(CutRule::Never)).expect("sound");
        let files = finish(&mut merge, &pool(), 1 << 20);
        let (found, _, _) = written(&mut merge, files);
        found
            .into_iter()
            .map(|(key, trailer, value)| {
                let (key, value) = (String::from_utf8(key), String::from_utf8(value));
                format!(
                    "{}{}{:?} {}",
                    key.unwrap(),
                    trailer.seq(),
                    trailer.kind().unwrap(),
                    value.unwrap()
                )
            })
            .collect::<Vec<_>>()
    };
    let expiring = "e9PutExpiring \u{7f}\0\0\0\0\0\0\0changed e";
    assert_eq!(run(vec![], true), ["b5Put changed b", "c8Put changed c", expiring, "f9Put keep"]);
    assert_eq!(
        run(vec![Seq(6)], false),
        [
            "a9Delete ",
            "a5Put remove",
            "b5Put change",
            "c8Put changed c",
            "d9Delete ",
            expiring,
            "f9Put keep"
        ]
    );
}

/// A version that stays in memory is not written, and hides older versions. Two memtables may have
/// it; a table may not.
#[test]
fn a_hot_key_that_stays_in_memory_is_left_out() {
    let entry = |key: &str, seq| {
        (key.as_bytes().to_vec(), Trailer::new(Seq(seq), Kind::Put), b"value".to_vec())
    };
    let entries = vec![entry("a", 9), entry("a", 5), entry("a", 3), entry("b", 8), entry("c", 4)];
    let run = |context: MergeContext, more: Vec<Source>| {
        let mut sources = vec![Source::memory(VecCursor(entries.clone(), 0))];
        sources.extend(more);
        let mut merge = Merge::new(sources, context, outputs(CutRule::Never)).expect("sound");
        let files = finish(&mut merge, &pool(), 1 << 20);
        let (found, _, _) = written(&mut merge, files);
        found
            .into_iter()
            .map(|(key, trailer, _)| {
                format!("{}{}", String::from_utf8(key).unwrap(), trailer.seq())
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let left = |snapshots: Vec<Seq>, copies| MergeContext {
        snapshots,
        left_out: vec![Seq(4), Seq(9)],
        copies,
        ..everything()
    };
    assert_eq!(run(left(vec![], false), Vec::new()), "b8");
    assert_eq!(run(left(vec![Seq(6)], false), Vec::new()), "a5 b8", "a snapshot needs it");
    assert_eq!(run(left(vec![Seq(20)], false), Vec::new()), "b8");
    let copy = || Source::memory(VecCursor(vec![entry("b", 8), entry("c", 4)], 0));
    assert_eq!(run(left(vec![], true), vec![copy()]), "b8", "once");
    let pool = pool();
    for (copies, twice) in [(false, copy()), (true, sliced(&[entry("b", 8)]))] {
        let sources = vec![Source::memory(VecCursor(entries.clone(), 0)), twice];
        let context = left(vec![], copies);
        let mut merge = Merge::new(sources, context, outputs(CutRule::Never)).expect("sound");
        let failed = loop {
            match merge.step(pool.ranked(Rank::Later), 1 << 20) {
                Ok(Step::Done) => break false,
                Ok(_) => std::thread::yield_now(),
                Err(_) => break true,
            }
        };
        assert!(failed, "the same entry twice");
    }
}
