//! Operands and values that a merge operator cannot combine: refused when they are written where
//! the operator can tell, else an error of their own key and of no other, wherever they lie and
//! however they are read.
//!
//! [`CASES`] are operators with what they fail over, [`LAYOUTS`] the places of the tree. The disk
//! is in memory; to hold memtables back, files cannot be made for a while.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use vlsm::{
    Batch, ByteCount, Db, Env, Error, Event, Iter, Keyspace, KeyspaceOptions, MergeOperator,
    Options, SstFileWriter, WriteOptions,
};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{Fault, FaultFs, Op, Rule, SimFs};

const FOLDER: &str = "/store";

/// The behaviour of a test operator on parts that begin with `!`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Refuses,
    Panics,
    /// Refuses, panics or combines them after all, in a pseudo-random order.
    Random,
}

/// Joins with commas.
struct Joins {
    name: &'static str,
    mood: Mood,
    asked: AtomicU64,
}

impl MergeOperator for Joins {
    fn name(&self) -> &str {
        self.name
    }
    fn check_operand(&self, _: &[u8], operand: &[u8]) -> Result<(), &'static str> {
        assert!(operand != b"?", "planted");
        if operand.starts_with(b"#") { Err("an operand does not begin with #") } else { Ok(()) }
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        if all.iter().any(|part| part.starts_with(b"!")) {
            let drawn = self.asked.fetch_add(1, SeqCst).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
            match (self.mood, drawn) {
                (Mood::Panics, _) | (Mood::Random, 0) => panic!("planted"),
                (Mood::Refuses, _) | (Mood::Random, 1) => return None,
                (Mood::Random, _) => {}
            }
        }
        Some(all.join(&b","[..]))
    }
    fn merge_partial(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands)
    }
}

/// An operator, what is written to a key that it can read, oldest first (a put and two operands),
/// what that adds up to, and the same for one that it cannot read; none where there is no such
/// thing.
struct Case {
    operator: &'static str,
    good: [&'static [u8]; 3],
    sum: &'static [u8],
    bad: Option<[&'static [u8]; 3]>,
}

const ONE: &[u8] = &1_u64.to_le_bytes();
const JOINED: ([&[u8]; 3], &[u8]) = ([b"a", b"b", b"c"], b"a,b,c");

const CASES: [Case; 8] = [
    Case { operator: "append", good: [b"a", b"b", b"c"], sum: b"abc", bad: None },
    Case { operator: "max", good: [b"a", b"c", b"b"], sum: b"c", bad: None },
    Case {
        operator: "add",
        good: [ONE, ONE, ONE],
        sum: &3_u64.to_le_bytes(),
        bad: Some([b"abc", ONE, ONE]),
    },
    joins("test.refuses", [b"a", b"!", b"c"]),
    joins("test.refuses", [b"!", b"b", b"c"]),
    joins("test.panics", [b"a", b"b", b"!"]),
    joins("test.panics", [b"!", b"!", b"!"]),
    joins("test.random", [b"a", b"!", b"c"]),
];

const fn joins(operator: &'static str, bad: [&'static [u8]; 3]) -> Case {
    Case { operator, good: JOINED.0, sum: JOINED.1, bad: Some(bad) }
}

/// The actions after the put, after the first operand and after the second one.
const LAYOUTS: [[&str; 3]; 9] = [
    ["", "", ""],
    ["", "", "reopen"],
    ["", "", "seal"],
    ["flush", "flush", "flush"],
    ["flush", "snapshot", "flush"],
    ["compact", "compact", "compact"],
    ["compact", "flush", ""],
    ["compact", "snapshot", "compact"],
    ["", "flush", "compact reopen"],
];

/// A store in memory.
struct Bench {
    disk: SimFs,
    faults: FaultFs,
    /// Events of failures, and of panics of the operator.
    told: Arc<[AtomicU64; 2]>,
}

impl Bench {
    fn new() -> Self {
        let disk = SimFs::new();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        Self { disk, faults, told: Arc::default() }
    }

    fn env(&self) -> Arc<dyn Env> {
        RealEnv::with_fs(Arc::new(self.faults.clone()))
    }

    fn open(&self) -> Db {
        let told = self.told.clone();
        let mut builder = Db::builder(FOLDER).env(self.env()).configure(small);
        for (name, mood) in [
            ("test.refuses", Mood::Refuses),
            ("test.panics", Mood::Panics),
            ("test.random", Mood::Random),
        ] {
            let asked = AtomicU64::new(0);
            builder = builder.merge_operator(Arc::new(Joins { name, mood, asked }));
        }
        let listen = move |event: &Event| match event {
            Event::BackgroundError { .. } => drop(told[0].fetch_add(1, SeqCst)),
            Event::CallbackPanicked { name, keyspace, .. } => {
                assert!(name.starts_with("test.") && keyspace == "words");
                told[1].fetch_add(1, SeqCst);
            }
            _ => {}
        };
        builder.listener(listen).open().unwrap()
    }

    fn failures(&self) -> u64 {
        self.told[0].load(SeqCst)
    }
}

/// L0 takes many runs, and memtables wait side by side.
fn small(options: &mut Options) {
    options.workers = 1;
    options.log = false;
    let policy = &mut options.policy;
    (policy.shape, policy.admission) = ("tiered_l0".into(), "slowdown_stop".into());
    (policy.tree.l0_trigger, policy.tree.l0_max) = (50, 100);
    (policy.tree.l0_slowdown, policy.tree.l0_stop) = (100, 100);
    policy.tree.memtable_bytes = ByteCount::kib(64);
    (policy.tree.sst_max, policy.shapes.vlsm.sst_min) = (ByteCount::kib(16), ByteCount::kib(4));
}

fn words(db: &Db, operator: &str) -> Keyspace {
    // A bad key on either side of the border.
    let options = KeyspaceOptions::splits(["k5"]).merge_operator(operator);
    db.create_keyspace("words", options).unwrap()
}

/// The first and the last key, and two that are neighbours.
const BAD: [u8; 4] = [0, 4, 5, 9];

fn key(n: u8) -> Bytes {
    format!("k{n}").into()
}

/// The answer that a read of each key must give: a value, or the operator's error.
type Expected = BTreeMap<Bytes, Result<Bytes, ()>>;

#[allow(clippy::disallowed_methods)]
fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Reduces the answer of a read to a value or the operator's error. Any other error is a failure of
/// the test.
fn answer(found: Result<Option<Bytes>, Error>) -> Result<Bytes, ()> {
    match found {
        Ok(value) => Ok(value.expect("it is there")),
        Err(Error::MergeFailed { keyspace, operator, panicked }) => {
            assert!(keyspace == "words" && panicked <= operator.starts_with("test."));
            Err(())
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns all pairs of an iterator in key order, read from one end or from both in turn.
fn walk(mut iter: Iter, turn: &str) -> Vec<(Bytes, Result<Bytes, ()>)> {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for n in 0.. {
        let forward = turn == "forward" || (turn == "both" && n % 2 == 0);
        let pair = if forward { iter.next() } else { iter.next_back() };
        let failed = iter.failed_key().cloned();
        let Some(pair) = pair else { break };
        let pair = match pair {
            Ok((key, value)) => {
                assert_eq!(failed, None);
                (key, Ok(value))
            }
            Err(error) => (failed.expect("the key is known"), answer(Err(error))),
        };
        if forward { front.push(pair) } else { back.push(pair) }
    }
    assert!(iter.next().is_none() && iter.next_back().is_none() && iter.failed_key().is_none());
    front.into_iter().chain(back.into_iter().rev()).collect()
}

/// Whether answers are the expected ones; what an operator says at random may be either.
fn same(found: &Result<Bytes, ()>, expected: &Result<Bytes, ()>, random: bool) -> bool {
    found == expected || (expected.is_err() && random)
}

fn is_as(
    found: &[(Bytes, Result<Bytes, ()>)],
    expected: &Expected,
    range: std::ops::Range<Bytes>,
    random: bool,
) {
    let expected: Vec<_> = expected.range(range).collect();
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    for ((key, found), (other, expected)) in found.iter().zip(expected) {
        assert!(key == other && same(found, expected, random), "{key:?} {found:?} {expected:?}");
    }
}

/// Reads everything in every way.
fn look(db: &Db, words: &Keyspace, expected: &Expected, random: bool) {
    let snapshot = db.snapshot();
    for (key, value) in expected {
        assert!(same(&answer(words.get(key)), value, random), "{key:?}");
        assert!(same(&answer(snapshot.get(words, key)), value, random), "{key:?}");
    }
    let all = words.multi_get(expected.keys());
    for (found, (key, value)) in all.into_iter().zip(expected) {
        assert!(same(&answer(found), value, random), "{key:?}");
    }
    let (least, most) = (Bytes::new(), Bytes::from_static(b"z"));
    for turn in ["forward", "backward", "both"] {
        for iter in [
            words.iter(),
            snapshot.iter(words),
            words.prefix("k"),
            snapshot.prefix(words, "k"),
            snapshot.range(words, "a".."z"),
        ] {
            is_as(&walk(iter, turn), expected, least.clone()..most.clone(), random);
        }
        // A bad key right outside the range is nobody's error.
        for (from, to) in [(1, 4), (1, 5), (4, 6), (5, 9), (6, 9), (9, 9)] {
            let found = walk(words.range(key(from)..key(to)), turn);
            is_as(&found, expected, key(from)..key(to), random);
        }
        let mut iter = words.iter();
        let _ = (iter.next(), iter.next_back());
        iter.seek(key(4));
        let found = walk(iter, turn);
        is_as(&found, expected, key(4)..key(9), random);
    }
}

/// Holds the memtable back: sealed, and not flushed before this is dropped.
struct Sealed {
    still: Arc<AtomicBool>,
    flush: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.still.store(false, SeqCst);
        self.flush.take().unwrap().join().unwrap();
    }
}

#[allow(clippy::disallowed_methods)]
fn seal(bench: &Bench, db: &Db) -> Sealed {
    let still = Arc::new(AtomicBool::new(true));
    let stands = still.clone();
    let wait = Fault::Delay(Arc::new(move || {
        while stands.load(SeqCst) {
            pause();
        }
    }));
    let rule = bench.faults.add(Rule::once(Op::Create, ".sst", wait).forever());
    let db = db.clone();
    let flush = Some(std::thread::spawn(move || db.flush().unwrap()));
    while bench.faults.fired(rule) == 0 {
        pause();
    }
    Sealed { still, flush }
}

fn live(case: &Case, layout: [&str; 3]) {
    let bench = Bench::new();
    let mut db = bench.open();
    let mut space = words(&db, case.operator);
    let (mut snapshots, mut sealed, mut expected) = (Vec::new(), None, Expected::new());
    for (round, steps) in layout.iter().enumerate() {
        for n in 0..10 {
            let bad = case.bad.filter(|_| BAD.contains(&n));
            let part = bad.unwrap_or(case.good)[round];
            match round {
                0 => space.put(key(n), part).unwrap(),
                _ => space.merge(key(n), part).unwrap(),
            }
            let value = if bad.is_some() { Err(()) } else { Ok(case.sum.into()) };
            expected.insert(key(n), value);
        }
        for step in steps.split_whitespace() {
            match step {
                "flush" => db.flush().unwrap(),
                "compact" => space.compact_range(..).unwrap(),
                "snapshot" => snapshots.push(db.snapshot()),
                "seal" => sealed = Some(seal(&bench, &db)),
                _ => {
                    drop((space, std::mem::take(&mut snapshots)));
                    db.close().unwrap();
                    db = bench.open();
                    space = db.keyspace("words").unwrap();
                }
            }
        }
    }
    let random = case.operator == "test.random";
    look(&db, &space, &expected, random);
    drop((sealed, snapshots));
    look(&db, &space, &expected, random);
    // No job fails for it, and nothing is lost by one; keys written meanwhile read right.
    db.flush().unwrap();
    space.compact_range(..).unwrap();
    db.wait_idle().unwrap();
    look(&db, &space, &expected, random);
    drop(space);
    assert_eq!((bench.failures(), db.stats().read_only.clone()), (0, None));
    let panics = db.stats().callback_panics;
    let told = bench.told[1].load(SeqCst);
    assert!(told <= 2 && (told > 0) >= (panics > 0), "{told} of {panics}");
    assert!(case.operator != "test.panics" || panics > 0);
    db.close().unwrap();
    let report = vlsm::verify_with(&bench.env(), Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "bytes and order are sound: {:?}", report.findings);
    let db = bench.open();
    let space = db.keyspace("words").unwrap();
    look(&db, &space, &expected, random);
    // What the error says to do helps.
    space.put(key(0), case.good[0]).unwrap();
    space.delete(key(4)).unwrap();
    space.delete_range(key(5)..key(6)).unwrap();
    space.put(key(9), case.good[0]).unwrap();
    let read: Vec<_> = space.iter().map(|pair| pair.unwrap().0).collect();
    assert_eq!(read, [0, 1, 2, 3, 6, 7, 8, 9].map(key));
    drop(space);
    db.close().unwrap();
}

#[test]
fn one_bad_key_is_an_error_of_no_other_wherever_it_lies() {
    for (index, case) in CASES.iter().enumerate() {
        for layout in LAYOUTS {
            println!("case {index} {} {layout:?}", case.operator);
            live(case, layout);
        }
    }
}

/// The store's counters that a write moves: writes, batches, WAL bytes, the sequence number and the
/// keyspace's entries.
fn taken(db: &Db, space: &Keyspace) -> (u64, u64, ByteCount, vlsm::Seq, u64) {
    let (stats, seq) = (db.stats(), db.snapshot().seq());
    let entries = space.approximate_size(..).unwrap().entries;
    (stats.writes, stats.batches, stats.wal_bytes, seq, entries)
}

#[test]
fn an_operand_that_is_refused_writes_nothing_of_its_batch() {
    let bench = Bench::new();
    let db = bench.open();
    for (operator, bad) in [
        ("add", &b"abc"[..]),
        ("add", b""),
        ("add", b"123456789"),
        ("test.refuses", b"#secret"),
        ("test.refuses", b"?"),
    ] {
        let name = format!("{operator}-{}", bad.len());
        let options = KeyspaceOptions::new().merge_operator(operator);
        let space = db.create_keyspace(&name, options).unwrap();
        space.merge("first", ONE).unwrap();
        let before = taken(&db, &space);
        let refused = |result: vlsm::Result<()>| {
            let error = result.unwrap_err();
            let text = error.to_string();
            assert!(text.contains("nothing of this write was kept"), "{text}");
            assert!(!text.contains("secret") && !text.contains("sesame"), "{text}");
            let Error::OperandRefused { keyspace, operator: named, why } = error else {
                panic!("{error:?}")
            };
            assert_eq!((keyspace.as_str(), named.as_str()), (name.as_str(), operator));
            assert!(text.contains(why) && text.contains(operator) && text.contains(&name));
        };
        refused(space.merge("sesame", bad));
        // In a small batch and in a large one, whose WAL records would come first.
        for filler in [10, 300_000] {
            for at in 0..3 {
                let mut batch = Batch::new();
                for n in 0..3 {
                    batch.put(&db.default_keyspace(), "other", vec![b'x'; filler]);
                    batch.merge(&space, "sesame", if n == at { bad } else { ONE });
                    batch.delete(&space, "first");
                }
                refused(db.write(&batch, WriteOptions::default()));
                refused(db.write(&batch, WriteOptions::default()));
                batch.clear();
                batch.delete(&space, "nobody");
                assert_eq!(batch.len(), 1, "a cleared batch is as new");
            }
        }
        assert_eq!(taken(&db, &space), before);
        assert_eq!((db.get("other").unwrap(), space.get("sesame").unwrap()), (None, None));
        space.merge("sesame", ONE).unwrap();
        assert_eq!(taken(&db, &space).0, before.0 + 1);
        assert_eq!(space.get("sesame").unwrap().unwrap(), ONE);
    }
    assert_eq!((db.stats().read_only, bench.failures()), (None, 0));
    db.close().unwrap();
}

/// An operator that had taken an operand may refuse it later: what is in the WAL is still there.
#[test]
fn what_was_taken_before_is_recovered_and_not_asked_about() {
    let bench = Bench::new();
    let db = bench.open();
    let space = words(&db, "test.refuses");
    space.merge("a", "!").unwrap();
    space.merge("b", "b").unwrap();
    drop((space, db));
    bench.disk.kill();
    let db = bench.open();
    let space = db.keyspace("words").unwrap();
    let mut iter = space.iter();
    assert!(matches!(iter.next(), Some(Err(Error::MergeFailed { .. }))));
    assert_eq!(iter.next().unwrap().unwrap(), ("b".into(), "b".into()));
    assert!(iter.next().is_none());
}

/// A base value comes in unasked; operands of another store do not.
#[test]
fn files_that_are_brought_in_are_no_worse() {
    for deep in [true, false] {
        let bench = Bench::new();
        let db = bench.open();
        let space = words(&db, "add");
        for n in [1, 3] {
            space.merge(key(n), ONE).unwrap();
        }
        if deep {
            space.compact_range(..).unwrap();
        }
        let file = Path::new("/bad.sst");
        let mut writer = SstFileWriter::create_in(&bench.env(), file, db.options()).unwrap();
        writer.put(key(2), "abc").unwrap();
        writer.finish().unwrap();
        space.ingest([file]).unwrap();
        for n in 1..4 {
            space.merge(key(n), ONE).unwrap();
        }
        let two = || Ok(Bytes::copy_from_slice(&2_u64.to_le_bytes()));
        let expected = Expected::from([(key(1), two()), (key(2), Err(())), (key(3), two())]);
        let check = || {
            for turn in ["forward", "backward", "both"] {
                let found = walk(space.iter(), turn);
                is_as(&found, &expected, key(0)..key(9), false);
            }
        };
        check();
        db.flush().unwrap();
        check();
        space.compact_range(..).unwrap();
        check();
        // The store's own SST, which holds the operand: nothing changes.
        let own = bench.disk.files().into_keys();
        let own = own.filter(|path| path.extension().is_some_and(|end| end == "sst"));
        // The newest: older ones may be removed just now.
        let own = own.filter(|path| path != file).max().expect("the compaction wrote one");
        let refused = space.ingest([own]);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
        check();
        drop(space);
        db.close().unwrap();
    }
}

/// Damage still ends an iterator, also behind a key that it stepped over.
#[test]
fn an_iterator_steps_over_an_operator_and_not_over_damage() {
    for forward in [true, false] {
        let bench = Bench::new();
        let db = bench.open();
        let space = words(&db, "test.refuses");
        let value = "x".repeat(2_000);
        for n in 0..90 {
            space.merge(format!("k{n:02}"), if n % 30 == 10 { "!" } else { &value }).unwrap();
        }
        db.flush().unwrap();
        let mut iter = space.iter();
        let mut step = || if forward { iter.next() } else { iter.next_back() };
        for _ in 0..15 {
            let _ = step();
        }
        bench.faults.add(Rule::once(Op::Read, ".sst", Fault::Eio).forever());
        let more: Vec<_> = std::iter::from_fn(&mut step).take(200).collect();
        let (last, before) = more.split_last().unwrap();
        assert!(matches!(last, Err(Error::Io { .. })), "{last:?}");
        let stepped = |pair: &Result<_, Error>| !matches!(pair, Err(Error::Io { .. }));
        assert!(before.iter().all(stepped) && more.len() < 90);
        assert!(step().is_none(), "it never carries on past damage");
        assert!(iter.failed_key().is_none());
    }
}
