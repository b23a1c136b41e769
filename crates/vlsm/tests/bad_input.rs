//! What each public call makes of bad input: a table of calls and inputs, with the error or the
//! result of each, in bad_input.txt. docs/guide.md has it in short.
//!
//! A row is a call, a column an input; `-` stands for an input that the call does not take. Errors
//! are the names of their variants, and everything else is a result. Reads of impossible keys find
//! nothing, because nothing is there; writes of them are refused, and nothing is written.
#![allow(clippy::unwrap_used)]

mod tiny;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tiny::tiny;
use vlsm::{
    Batch, ByteCount, Bytes, Db, Env, Error, Keyspace, KeyspaceOptions, MAX_KEY_LEN, MAX_VALUE_LEN,
    Result, Salvaged, WriteOptions,
};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::SimFs;

/// A store with a keyspace `words`, which has a merge operator and two regions.
struct Store {
    env: Arc<dyn Env>,
    db: Db,
    words: Keyspace,
    /// Without an operator.
    plain: Keyspace,
}

fn open_in(env: Arc<dyn Env>, read_only: bool) -> Db {
    let builder = Db::builder(Path::new("/store")).env(env);
    let builder = builder.default_keyspace(KeyspaceOptions::new().merge_operator("append"));
    tiny(builder, ByteCount::kib(256)).read_only(read_only).open().unwrap()
}

impl Store {
    fn new() -> Self {
        let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(SimFs::new()));
        let db = open_in(env.clone(), false);
        let options = KeyspaceOptions::splits(["m"]).merge_operator("append");
        let words = db.create_keyspace("words", options).unwrap();
        let plain = db.create_keyspace("plain", KeyspaceOptions::new()).unwrap();
        for keyspace in [&words, &db.default_keyspace()] {
            keyspace.put("a", "1").unwrap();
            keyspace.put("z", "2").unwrap();
        }
        Self { env, db, words, plain }
    }

    fn closed() -> Self {
        let store = Self::new();
        store.db.clone().close().unwrap();
        store
    }

    /// With both keyspaces dropped while the handles live on.
    fn dropped() -> Self {
        let store = Self::new();
        store.db.drop_keyspace(&store.words).unwrap();
        store.db.drop_keyspace(&store.plain).unwrap();
        store
    }

    fn read_only() -> Self {
        let Self { env, db, .. } = Self::new();
        db.close().unwrap();
        let db = open_in(env.clone(), true);
        let words = db.keyspace("words").unwrap();
        let plain = db.keyspace("plain").unwrap();
        Self { env, db, words, plain }
    }
}

/// The name of an error's variant, or the result.
fn outcome(result: Result<String>) -> String {
    result.unwrap_or_else(|error| {
        let variant = format!("{error:?}");
        variant.chars().take_while(|letter| letter.is_alphanumeric()).collect()
    })
}

fn text(bytes: Option<Bytes>) -> String {
    bytes.map_or("none".into(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn pair(pair: Option<(Bytes, Bytes)>) -> String {
    pair.map_or("none".into(), |(_, value)| text(Some(value)))
}

fn only(mut found: Vec<Result<Option<Bytes>>>) -> Result<String> {
    assert_eq!(found.len(), 1, "a result for each key");
    found.remove(0).map(text)
}

fn counted(pairs: impl Iterator<Item = Result<(Bytes, Bytes)>>) -> Result<String> {
    Ok(pairs.collect::<Result<Vec<_>>>()?.len().to_string())
}

fn done<T>(_: T) -> String {
    "ok".into()
}

fn write(db: &Db, fill: impl FnOnce(&mut Batch)) -> Result<String> {
    let mut batch = Batch::new();
    fill(&mut batch);
    db.write(&batch, WriteOptions::default()).map(done)
}

fn commit(db: &Db, work: impl FnOnce(&mut vlsm::Transaction) -> Result<()>) -> Result<String> {
    let mut transaction = db.transaction();
    work(&mut transaction)?;
    transaction.commit().map(done)
}

const OPTIONS: fn() -> WriteOptions = WriteOptions::default;
const HOUR: Duration = Duration::from_secs(3600);

/// A call on a store, with a keyspace that may be another store's, and a key.
type KeyCall = fn(&Store, &Keyspace, &[u8]) -> Result<String>;

/// The calls of a `Db` and a `Keyspace` that take a key.
const KEY_CALLS: &[(&str, KeyCall)] = &[
    ("Db::get", |s, _, key| s.db.get(key).map(text)),
    ("Db::contains_key", |s, _, key| s.db.contains_key(key).map(|found| found.to_string())),
    ("Db::multi_get", |s, _, key| only(s.db.multi_get([key]))),
    ("Db::prefix", |s, _, key| counted(s.db.prefix(key))),
    ("Db::put", |s, _, key| s.db.put(key, "v").map(done)),
    ("Db::put_with", |s, _, key| s.db.put_with(key, "v", OPTIONS()).map(done)),
    ("Db::put_with_ttl", |s, _, key| s.db.put_with_ttl(key, "v", HOUR).map(done)),
    ("Db::put_with_ttl_with", |s, _, key| {
        s.db.put_with_ttl_with(key, "v", HOUR, OPTIONS()).map(done)
    }),
    ("Db::delete", |s, _, key| s.db.delete(key).map(done)),
    ("Db::delete_with", |s, _, key| s.db.delete_with(key, OPTIONS()).map(done)),
    ("Db::merge", |s, _, key| s.db.merge(key, "v").map(done)),
    ("Db::merge_with", |s, _, key| s.db.merge_with(key, "v", OPTIONS()).map(done)),
    ("Db::insert_if_absent", |s, _, key| s.db.insert_if_absent(key, "v").map(done)),
    ("Db::fetch_update", |s, _, key| s.db.fetch_update(key, |_| Some("v")).map(done)),
    ("Db::compare_and_swap", |s, _, key| s.db.compare_and_swap(key, None, None).map(done)),
    ("Keyspace::get", |s, _, key| s.words.get(key).map(text)),
    ("Keyspace::contains_key", |s, _, key| s.words.contains_key(key).map(|is| is.to_string())),
    ("Keyspace::multi_get", |s, _, key| only(s.words.multi_get([key]))),
    ("Keyspace::prefix", |s, _, key| counted(s.words.prefix(key))),
    ("Keyspace::put", |s, _, key| s.words.put(key, "v").map(done)),
    ("Keyspace::put_with", |s, _, key| s.words.put_with(key, "v", OPTIONS()).map(done)),
    ("Keyspace::put_with_ttl", |s, _, key| s.plain.put_with_ttl(key, "v", HOUR).map(done)),
    ("Keyspace::put_with_ttl_with", |s, _, key| {
        s.plain.put_with_ttl_with(key, "v", HOUR, OPTIONS()).map(done)
    }),
    ("Keyspace::delete", |s, _, key| s.words.delete(key).map(done)),
    ("Keyspace::delete_with", |s, _, key| s.words.delete_with(key, OPTIONS()).map(done)),
    ("Keyspace::merge", |s, _, key| s.words.merge(key, "v").map(done)),
    ("Keyspace::merge_with", |s, _, key| s.words.merge_with(key, "v", OPTIONS()).map(done)),
    ("Keyspace::insert_if_absent", |s, _, key| s.words.insert_if_absent(key, "v").map(done)),
    ("Keyspace::fetch_update", |s, _, key| s.words.fetch_update(key, |_| Some("v")).map(done)),
    ("Keyspace::compare_and_swap", |s, _, key| s.words.compare_and_swap(key, None, None).map(done)),
    ("Transaction::put_with_ttl", |s, _, key| {
        commit(&s.db, |writes| writes.put_with_ttl(&s.plain, key, "v", HOUR))
    }),
    ("Batch::put_with_ttl", |s, _, key| {
        write(&s.db, |batch| batch.put_with_ttl(&s.plain, key, "v", HOUR))
    }),
    ("Keyspace::iter, seek", |s, _, key| {
        let mut pairs = s.words.iter();
        pairs.seek(key);
        pairs.next().transpose().map(pair)
    }),
];

/// The calls that take a keyspace and a key.
const SHARED_KEY_CALLS: &[(&str, KeyCall)] = &[
    ("Snapshot::get", |s, of, key| s.db.snapshot().get(of, key).map(text)),
    ("Snapshot::contains_key", |s, of, key| {
        s.db.snapshot().contains_key(of, key).map(|found| found.to_string())
    }),
    ("Snapshot::multi_get", |s, of, key| only(s.db.snapshot().multi_get(of, [key]))),
    ("Snapshot::prefix", |s, of, key| counted(s.db.snapshot().prefix(of, key))),
    ("Transaction::get", |s, of, key| s.db.transaction().get(of, key).map(text)),
    ("Transaction::get_for_update", |s, of, key| {
        s.db.transaction().get_for_update(of, key).map(text)
    }),
    ("Transaction::contains_key", |s, of, key| {
        s.db.transaction().contains_key(of, key).map(|found| found.to_string())
    }),
    ("Transaction::multi_get", |s, of, key| only(s.db.transaction().multi_get(of, [key]))),
    ("Transaction::prefix", |s, of, key| counted(s.db.transaction().prefix(of, key))),
    ("Transaction::iter, seek", |s, of, key| {
        let mut pairs = s.db.transaction().iter(of);
        pairs.seek(key);
        pairs.next().transpose().map(pair)
    }),
    ("Transaction::put", |s, of, key| commit(&s.db, |writes| writes.put(of, key, "v"))),
    ("Transaction::delete", |s, of, key| commit(&s.db, |writes| writes.delete(of, key))),
    ("Transaction::merge", |s, of, key| commit(&s.db, |writes| writes.merge(of, key, "v"))),
    ("Batch::put", |s, of, key| write(&s.db, |batch| batch.put(of, key, "v"))),
    ("Batch::delete", |s, of, key| write(&s.db, |batch| batch.delete(of, key))),
    ("Batch::merge", |s, of, key| write(&s.db, |batch| batch.merge(of, key, "v"))),
];

type Range = (Bound<&'static [u8]>, Bound<&'static [u8]>);
/// A call that takes a range of keys.
type RangeCall = fn(&Store, &Keyspace, Range) -> Result<String>;

const RANGE_CALLS: &[(&str, RangeCall)] = &[
    ("Db::range", |s, _, range| counted(s.db.range(range))),
    ("Db::delete_range", |s, _, range| s.db.delete_range(range).map(done)),
    ("Db::delete_range_with", |s, _, range| s.db.delete_range_with(range, OPTIONS()).map(done)),
    ("Keyspace::range", |s, _, range| counted(s.words.range(range))),
    ("Keyspace::delete_range", |s, _, range| s.words.delete_range(range).map(done)),
    ("Keyspace::delete_range_with", |s, _, range| {
        s.words.delete_range_with(range, OPTIONS()).map(done)
    }),
    ("Keyspace::approximate_size", |s, _, range| s.words.approximate_size(range).map(done)),
    ("Keyspace::compact_range", |s, _, range| s.words.compact_range(range).map(done)),
];

const SHARED_RANGE_CALLS: &[(&str, RangeCall)] = &[
    ("Snapshot::range", |s, of, range| counted(s.db.snapshot().range(of, range))),
    ("Transaction::range", |s, of, range| counted(s.db.transaction().range(of, range))),
    ("Transaction::delete_range", |s, of, range| {
        commit(&s.db, |writes| writes.delete_range(of, range))
    }),
    ("Batch::delete_range", |s, of, range| write(&s.db, |batch| batch.delete_range(of, range))),
];

/// A call that takes only a keyspace.
type WholeCall = fn(&Store, &Keyspace) -> Result<String>;

const SHARED_WHOLE_CALLS: &[(&str, WholeCall)] = &[
    ("Snapshot::first", |s, of| s.db.snapshot().first(of).map(pair)),
    ("Snapshot::last", |s, of| s.db.snapshot().last(of).map(pair)),
    ("Snapshot::is_empty", |s, of| s.db.snapshot().is_empty(of).map(|is| is.to_string())),
    ("Snapshot::len", |s, of| s.db.snapshot().len(of).map(|len| len.to_string())),
    ("Snapshot::iter", |s, of| counted(s.db.snapshot().iter(of))),
    ("Snapshot::iter, rev", |s, of| counted(s.db.snapshot().iter(of).rev())),
    ("Transaction::first", |s, of| s.db.transaction().first(of).map(pair)),
    ("Transaction::last", |s, of| s.db.transaction().last(of).map(pair)),
    ("Transaction::is_empty", |s, of| s.db.transaction().is_empty(of).map(|is| is.to_string())),
    ("Transaction::len", |s, of| s.db.transaction().len(of).map(|len| len.to_string())),
    ("Transaction::iter", |s, of| counted(s.db.transaction().iter(of))),
    ("Transaction::iter, rev", |s, of| counted(s.db.transaction().iter(of).rev())),
];

/// A call that takes neither.
type OtherCall = fn(&Store) -> Result<String>;

const OTHER_CALLS: &[(&str, OtherCall)] = &[
    ("Db::first", |s| s.db.first().map(pair)),
    ("Db::last", |s| s.db.last().map(pair)),
    ("Db::is_empty", |s| s.db.is_empty().map(|is| is.to_string())),
    ("Db::len", |s| s.db.len().map(|len| len.to_string())),
    ("Db::iter", |s| counted(s.db.iter())),
    ("Db::keyspace", |s| s.db.keyspace("words").map(done)),
    ("Db::keyspaces", |s| Ok(s.db.keyspaces().join(" "))),
    ("Db::create_keyspace", |s| s.db.create_keyspace("new", KeyspaceOptions::new()).map(done)),
    ("Db::write, an empty batch", |s| write(&s.db, |_| {})),
    ("Db::snapshot", |s| Ok(done(s.db.snapshot().seq()))),
    ("Db::transact, without writes", |s| s.db.transact(|_| Ok(())).map(done)),
    ("Db::try_transact, without writes", |s| s.db.try_transact(|_| Ok::<_, Error>(())).map(done)),
    ("Db::sync", |s| s.db.sync().map(done)),
    ("Db::flush", |s| s.db.flush().map(done)),
    ("Db::wait_idle", |s| s.db.wait_idle().map(done)),
    ("Db::checkpoint", |s| s.db.checkpoint("/copy").map(done)),
    ("Db::start_trace", |s| s.db.start_trace("/trace").map(done)),
    ("Db::end_trace, without one", |s| s.db.end_trace().map(done)),
    ("Db::stats", |s| Ok(done(s.db.stats()))),
    ("Keyspace::name", |s| Ok(s.words.name())),
    ("Keyspace::first", |s| s.words.first().map(pair)),
    ("Keyspace::last", |s| s.words.last().map(pair)),
    ("Keyspace::is_empty", |s| s.words.is_empty().map(|is| is.to_string())),
    ("Keyspace::len", |s| s.words.len().map(|len| len.to_string())),
    ("Keyspace::iter", |s| counted(s.words.iter())),
    ("Keyspace::salvage", |s| {
        let pairs = s.words.salvage().collect::<Result<Vec<_>>>()?;
        assert!(pairs.iter().all(|part| matches!(part, Salvaged::Pair(..))));
        Ok(pairs.len().to_string())
    }),
    ("Keyspace::ingest, no files", |s| s.words.ingest(Vec::<&Path>::new()).map(done)),
    ("Keyspace::ingest, a missing file", |s| s.words.ingest(["/missing"]).map(done)),
    ("Db::close", |s| s.db.clone().close().map(done)),
];

/// The result of a call on a keyspace that was dropped, which has to leave the others as they are.
fn dropped(name: &str, call: impl FnOnce(&Store) -> Result<String>) -> String {
    if name.starts_with("Db::") {
        return "-".into();
    }
    let store = Store::dropped();
    let cell = outcome(call(&store));
    assert_eq!(store.db.len().unwrap(), 2, "{name}: the keyspace `default`");
    cell
}

/// Adds a row.
fn row(table: &mut String, call: &str, cells: &[String]) {
    table.push_str(&format!("{call} | {}\n", cells.join(" | ")));
}

/// Compares a table with its section of the file, without regard to the width of columns.
fn same(title: &str, table: &str) {
    let lines = |text: &str| -> Vec<String> {
        let cells = |line: &str| line.split('|').map(str::trim).collect::<Vec<_>>().join(" | ");
        text.lines().map(cells).filter(|line| !line.is_empty()).collect()
    };
    let file = include_str!("bad_input.txt");
    let section = file.split_once(&format!("[{title}]\n")).expect("each table has a section").1;
    let expected = lines(section.split("\n[").next().unwrap_or_default());
    let (found, expected) = (lines(table), expected.get(1..).unwrap_or_default());
    let differing: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
    assert!(found == expected, "{title}: differing rows {differing:#?}\nin all:\n{table}");
}

#[test]
fn keys() {
    let longest = vec![b'k'; MAX_KEY_LEN];
    let longer = vec![b'k'; MAX_KEY_LEN + 1];
    let mut table = String::new();
    let all = KEY_CALLS.iter().map(|call| (call, false));
    for ((name, call), shared) in all.chain(SHARED_KEY_CALLS.iter().map(|call| (call, true))) {
        let (store, other) = (Store::new(), Store::new());
        let mut cells = Vec::new();
        for key in [&b""[..], &longest, &longer] {
            let fresh = Store::new();
            cells.push(outcome(call(&fresh, &fresh.words, key)));
        }
        cells.push(match shared {
            true => outcome(call(&store, &other.words, b"a")),
            false => "-".into(),
        });
        for store in [Store::closed(), Store::read_only()] {
            cells.push(outcome(call(&store, &store.words, b"a")));
        }
        cells.push(dropped(name, |store| call(store, &store.words, b"a")));
        row(&mut table, name, &cells);
    }
    same("keys", &table);
}

#[test]
fn ranges() {
    let at = |key: &'static str| Bound::Included(key.as_bytes());
    let before = |key: &'static str| Bound::Excluded(key.as_bytes());
    let longer: &'static [u8] = vec![b'k'; MAX_KEY_LEN + 1].leak();
    let ranges: [Range; 5] = [
        (at("z"), before("a")),
        (at("a"), before("a")),
        (before("a"), before("a")),
        (at("b"), Bound::Included(longer)),
        (Bound::Included(longer), Bound::Unbounded),
    ];
    let mut table = String::new();
    let all = RANGE_CALLS.iter().map(|call| (call, false));
    for ((name, call), shared) in all.chain(SHARED_RANGE_CALLS.iter().map(|call| (call, true))) {
        let mut cells = Vec::new();
        for range in ranges {
            let store = Store::new();
            let result = outcome(call(&store, &store.words, range));
            let left = [store.db.iter().count(), store.words.iter().count()];
            cells.push(if left == [2, 2] { result } else { format!("{result}, left {left:?}") });
        }
        let (store, other) = (Store::new(), Store::new());
        let whole = (Bound::Unbounded, Bound::Unbounded);
        cells.push(match shared {
            true => outcome(call(&store, &other.words, whole)),
            false => "-".into(),
        });
        for store in [Store::closed(), Store::read_only()] {
            cells.push(outcome(call(&store, &store.words, whole)));
        }
        cells.push(dropped(name, |store| call(store, &store.words, whole)));
        row(&mut table, name, &cells);
    }
    same("ranges", &table);
}

#[test]
fn states_of_a_store() {
    let mut table = String::new();
    for (name, call) in SHARED_WHOLE_CALLS {
        let (store, other) = (Store::new(), Store::new());
        let mut cells = vec![outcome(call(&store, &other.words))];
        for store in [Store::closed(), Store::read_only(), Store::dropped()] {
            cells.push(outcome(call(&store, &store.words)));
        }
        row(&mut table, name, &cells);
    }
    for (name, call) in OTHER_CALLS {
        let mut cells = vec!["-".to_owned()];
        for store in [Store::closed(), Store::read_only(), Store::dropped()] {
            cells.push(outcome(call(&store)));
        }
        row(&mut table, name, &cells);
    }
    same("states", &table);
}

/// A call that takes a value.
type ValueCall = fn(&Store, &[u8]) -> Result<String>;

#[test]
fn values_over_the_limit_are_refused_and_change_nothing() {
    let calls: &[(&str, ValueCall)] = &[
        ("Db::put", |s, value| s.db.put("a", value).map(done)),
        ("Db::merge", |s, value| s.db.merge("a", value).map(done)),
        ("Db::insert_if_absent", |s, value| s.db.insert_if_absent("b", value).map(done)),
        ("Keyspace::put", |s, value| s.words.put("a", value).map(done)),
        ("Keyspace::put_with", |s, value| s.words.put_with("a", value, OPTIONS()).map(done)),
        ("Keyspace::put_with_ttl", |s, value| s.plain.put_with_ttl("a", value, HOUR).map(done)),
        ("Keyspace::merge", |s, value| s.words.merge("a", value).map(done)),
        ("Keyspace::compare_and_swap", |s, value| {
            s.words.compare_and_swap("a", Some(b"1"), Some(value)).map(done)
        }),
        ("Keyspace::fetch_update", |s, value| s.words.fetch_update("a", |_| Some(value)).map(done)),
        ("Transaction::put", |s, value| commit(&s.db, |writes| writes.put(&s.words, "a", value))),
        ("Batch::put", |s, value| {
            write(&s.db, |batch| {
                batch.put(&s.words, "z", "changed");
                batch.put(&s.words, "a", value);
            })
        }),
    ];
    // Never written to, so it takes no memory.
    let longer = vec![0; MAX_VALUE_LEN + 1];
    let store = Store::new();
    for (name, call) in calls {
        let error = call(&store, &longer).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{name}: {error:?}");
        let said = error.to_string();
        assert!(said.contains("1.00 GiB") || said.contains("1073741824"), "{name}: {said}");
    }
    for keyspace in [&store.words, &store.db.default_keyspace()] {
        assert_eq!(keyspace.get("a").unwrap(), Some("1".into()));
        assert_eq!(keyspace.get("z").unwrap(), Some("2".into()));
        assert_eq!(keyspace.len().unwrap(), 2);
    }
    assert!(store.plain.is_empty().unwrap());
    store.db.close().unwrap();
}

#[test]
fn an_iterator_that_was_under_way_ends_with_its_store() {
    let store = Store::new();
    let (mut pairs, mut back) = (store.words.iter(), store.words.iter().rev());
    let mut own = store.db.transaction().iter(&store.words);
    let mut salvage = store.words.salvage();
    for pairs in [&mut pairs as &mut dyn Iterator<Item = _>, &mut back, &mut own] {
        assert!(pairs.next().unwrap().is_ok());
    }
    assert!(salvage.next().unwrap().is_ok());
    store.db.close().unwrap();
    for pairs in [&mut pairs as &mut dyn Iterator<Item = _>, &mut back] {
        assert!(matches!(pairs.next(), Some(Err(Error::Closed))));
        assert!(pairs.next().is_none());
    }
    assert!(matches!(salvage.next(), Some(Err(Error::Closed))));
    // It may have looked ahead by one pair.
    assert!(own.any(|pair| matches!(pair, Err(Error::Closed))));
}

#[test]
fn names_options_and_times() {
    let store = Store::new();
    let create =
        |name: &str| outcome(store.db.create_keyspace(name, KeyspaceOptions::new()).map(done));
    for name in ["", "a/b", "a\nb", "\u{200b}"] {
        assert_eq!(create(name), "InvalidArgument", "{name:?}");
    }
    assert_eq!(create("words"), "KeyspaceExists", "it has other options");
    assert_eq!(create("plain"), "ok", "it has these options");
    for name in ["", "unknown", "Words"] {
        assert_eq!(outcome(store.db.keyspace(name).map(done)), "NoSuchKeyspace", "{name:?}");
    }
    let refused = |options| outcome(store.db.create_keyspace("new", options).map(done));
    for splits in [vec!["m", "c"], vec!["c", "c"], vec![""]] {
        assert_eq!(
            refused(KeyspaceOptions::splits(splits.clone())),
            "InvalidArgument",
            "{splits:?}"
        );
    }
    assert_eq!(refused(KeyspaceOptions::new().merge_operator("none")), "UnknownMergeOperator");
    assert_eq!(refused(KeyspaceOptions::new().ttl(Duration::ZERO)), "InvalidArgument");

    let with_ttl =
        |keyspace: &Keyspace, ttl| outcome(keyspace.put_with_ttl("t", "1", ttl).map(done));
    assert_eq!(with_ttl(&store.words, HOUR), "InvalidArgument", "it has a merge operator");
    assert_eq!(with_ttl(&store.plain, Duration::MAX), "ok");
    assert_eq!(store.plain.get("t").unwrap(), Some("1".into()), "it never expires");
    assert_eq!(with_ttl(&store.plain, Duration::ZERO), "ok");
    assert_eq!(store.plain.get("t").unwrap(), None, "it has expired at once");
    assert_eq!(outcome(store.plain.merge("a", "1").map(done)), "InvalidArgument", "no operator");

    assert_eq!(
        outcome(store.db.transaction().rollback_to_savepoint().map(done)),
        "InvalidArgument"
    );
    assert_eq!(outcome(store.db.checkpoint("/store/copy").map(done)), "InvalidArgument");
    assert_eq!(outcome(store.db.checkpoint("/store").map(done)), "InvalidArgument");
    store.db.close().unwrap();
}
