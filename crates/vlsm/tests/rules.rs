//! The effects of a keyspace's options and of users' code on its entries: merge operators that are
//! missing, refuse or panic, values that expire by a clock that the test sets, compaction filters.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod altered;

use altered::Altered;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;
use vlsm::{
    Batch, Builder, CompactionFilter, Db, Decision, Durability, Error, KeyspaceOptions,
    MergeOperator, WriteOptions,
};
use vlsm_disk::RealEnv;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Everything in the folder, with its content.
fn content(path: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    all.sort();
    all
}

/// Joins with commas; refuses what begins with `!`, panics at `?`.
struct Join2;

impl MergeOperator for Join2 {
    fn name(&self) -> &str {
        "test.join"
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        assert!(!operands.contains(&&b"?"[..]), "the operator panics");
        if operands.iter().any(|operand| operand.starts_with(b"!")) {
            return None;
        }
        let all: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b","[..]))
    }
}

fn with_join(path: &Path) -> Builder {
    Db::builder(path).merge_operator(Arc::new(Join2))
}

#[test]
fn a_store_does_not_open_without_its_operators_and_stays_as_it_is() {
    let folder = folder();
    let path = folder.path().join("store");
    let joined = KeyspaceOptions::new().merge_operator("test.join");
    let db = with_join(&path).default_keyspace(joined.clone()).open().unwrap();
    db.merge("key", "a").unwrap();
    db.merge("key", "b").unwrap();
    db.close().unwrap();
    let before = content(&path);
    let error = Db::open(&path).unwrap_err();
    let is_right = |error: &Error| {
        matches!(error, Error::UnknownMergeOperator { keyspace, name }
            if keyspace == "default" && name == "test.join")
    };
    assert!(is_right(&error), "{error}");
    assert!(error.to_string().contains("nothing is lost"));
    assert_eq!(content(&path), before);
    let error = Db::builder(&path).read_only(true).open().unwrap_err();
    assert!(is_right(&error), "{error}");
    let other = KeyspaceOptions::new().merge_operator("append");
    let error = with_join(&path).default_keyspace(other).open().unwrap_err();
    assert!(matches!(error, Error::KeyspaceExists { .. }), "{error}");
    assert_eq!(content(&path), before);
    for given in [None, Some(joined)] {
        let mut builder = with_join(&path);
        if let Some(options) = given {
            builder = builder.default_keyspace(options);
        }
        let db = builder.open().unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), "a,b", "the operator is the store's");
        db.close().unwrap();
    }
    let fresh = folder.path().join("fresh");
    let unknown = KeyspaceOptions::new().merge_operator("unheard of");
    let error = Db::builder(&fresh).default_keyspace(unknown.clone()).open().unwrap_err();
    assert!(matches!(error, Error::UnknownMergeOperator { .. }) && !fresh.exists());
    let db = Db::open(&fresh).unwrap();
    let error = db.create_keyspace("words", unknown).unwrap_err();
    assert!(matches!(error, Error::UnknownMergeOperator { .. }));
    assert!(db.keyspace("words").is_err(), "nothing was made");
    let twice = with_join(&path).merge_operator(Arc::new(Join2)).open();
    assert!(matches!(twice, Err(Error::InvalidArgument(_))));
}

#[test]
fn impossible_options_and_writes_are_refused() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    let second = Duration::from_secs(1);
    let both = KeyspaceOptions::new().merge_operator("add").ttl(second);
    let refused = |result: vlsm::Result<()>, why: &str| match result {
        Err(Error::InvalidArgument(what)) => assert!(what.contains(why), "{what}"),
        other => panic!("{other:?}"),
    };
    refused(db.create_keyspace("x", both).map(drop), "both a merge operator and a time to live");
    refused(
        db.create_keyspace("x", KeyspaceOptions::new().ttl(Duration::ZERO)).map(drop),
        "between one microsecond",
    );
    refused(db.merge("key", "1"), "has no merge operator");
    let sums = db.create_keyspace("sums", KeyspaceOptions::new().merge_operator("add")).unwrap();
    refused(sums.put_with_ttl("key", "1", second), "cannot expire");
    let mut batch = Batch::new();
    batch.put(&sums, "a", "1");
    batch.merge(&db.default_keyspace(), "b", "1");
    refused(db.write(&batch, WriteOptions::default()), "has no merge operator");
    assert_eq!(sums.get("a").unwrap(), None, "all or nothing");
    let again = db.create_keyspace("sums", KeyspaceOptions::new()).unwrap_err();
    assert!(matches!(again, Error::KeyspaceExists { .. }));
}

#[test]
fn an_operator_that_refuses_fails_the_read_and_loses_nothing() {
    let folder = folder();
    let path = folder.path().join("store");
    let joined = KeyspaceOptions::new().merge_operator("test.join");
    let db = with_join(&path).default_keyspace(joined).open().unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "1").unwrap();
    db.flush().unwrap();
    db.merge("b", "!secret").unwrap();
    db.merge("b", "2").unwrap();
    db.merge("c", "3").unwrap();
    for _ in 0..3 {
        let error = db.get("b").unwrap_err();
        assert!(
            matches!(&error, Error::MergeFailed { keyspace, operator, panicked: false }
                if keyspace == "default" && operator == "test.join"),
            "{error}"
        );
        assert!(!error.to_string().contains("secret"));
        assert_eq!(db.get("a").unwrap().unwrap(), "1");
        assert_eq!(db.get("c").unwrap().unwrap(), "3");
        let forward: Vec<_> = db.iter().map(|pair| pair.is_ok()).collect();
        let backward: Vec<_> = db.iter().rev().map(|pair| pair.is_ok()).collect();
        assert_eq!((forward, backward), (vec![true, false, true], vec![true, false, true]));
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.put("c", "x").unwrap();
        db.delete("c").unwrap();
        db.merge("c", "3").unwrap();
    }
    db.delete("b").unwrap();
    db.merge("b", "4").unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), "4", "a delete makes it readable again");
    db.close().unwrap();
}

#[test]
fn a_panic_of_an_operator_is_an_error_of_its_key_and_stops_no_job() {
    let folder = folder();
    let joined = KeyspaceOptions::new().merge_operator("test.join");
    let db = with_join(&folder.path().join("store")).default_keyspace(joined).open().unwrap();
    db.merge("a", "?").unwrap();
    let failed = db.get("a");
    assert!(matches!(failed, Err(Error::MergeFailed { panicked: true, .. })), "{failed:?}");
    db.put("b", "1").unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), "1");
    db.flush().unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), "1");
    assert!(db.get("a").is_err());
    db.close().unwrap();
}

#[test]
fn values_expire_and_snapshots_do_not_notice() {
    let folder = folder();
    let path = folder.path().join("store");
    let micros = Arc::new(AtomicU64::new(1_000_000_000));
    let tick = |seconds: u64| micros.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    let open = || {
        let (mut env, micros) = (Altered::of(RealEnv::new()), micros.clone());
        env.wall_clock = Box::new(move |_| Duration::from_micros(micros.load(Ordering::SeqCst)));
        Db::builder(&path).env(Arc::new(env)).open().unwrap()
    };
    let db = open();
    let brief = KeyspaceOptions::new().ttl(Duration::from_secs(10));
    let brief = db.create_keyspace("brief", brief).unwrap();
    let keys = |db: &Db| -> Vec<String> {
        let pairs = db.keyspace("brief").unwrap().iter();
        pairs.map(|pair| String::from_utf8(pair.unwrap().0.to_vec()).unwrap()).collect()
    };
    brief.put("a", "old").unwrap();
    tick(5);
    brief.put("b", "new").unwrap();
    brief.put_with_ttl("c", "longer", Duration::from_secs(100)).unwrap();
    let default = db.default_keyspace();
    default.put_with_ttl("e", "in any keyspace", Duration::from_secs(5)).unwrap();
    assert_eq!(default.get("e").unwrap().unwrap(), "in any keyspace");
    assert_eq!(brief.get("a").unwrap().unwrap(), "old", "without what is stored before it");
    let snapshot = db.snapshot();
    let iter = brief.iter();
    tick(5);
    assert_eq!(default.get("e").unwrap(), None);
    assert_eq!((brief.get("a").unwrap(), keys(&db)), (None, vec!["b".into(), "c".into()]));
    assert_eq!(
        brief.multi_get(["a", "b"]).into_iter().map(Result::unwrap).collect::<Vec<_>>(),
        [None, Some("new".into())]
    );
    assert_eq!(iter.rev().count(), 3, "an iterator sees the moment it was made");
    for _ in 0..2 {
        tick(5);
        assert_eq!(keys(&db), ["c"]);
        assert_eq!(snapshot.get(&brief, "a").unwrap().unwrap(), "old");
        assert_eq!(snapshot.iter(&brief).count(), 3);
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    drop((snapshot, brief, default));
    db.close().unwrap();
    let db = open();
    assert_eq!(keys(&db), ["c"], "the time to live is the keyspace's");
    let brief = db.keyspace("brief").unwrap();
    brief.put("a", "again").unwrap();
    db.flush().unwrap();
    assert_eq!(brief.get("a").unwrap().unwrap(), "again");
    tick(100);
    brief.put("d", "last").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(keys(&db), ["d"]);
}

/// Without compression, the bytes of SSTs tell how many values they hold.
fn plain(builder: vlsm::Builder) -> vlsm::Builder {
    builder.configure(|options| options.compression = vec![vlsm::Compression::None])
}

/// A compaction of a range drops values that expired after they had reached the last level.
#[test]
fn compacting_a_range_drops_what_has_expired() {
    let folder = folder();
    let micros = Arc::new(AtomicU64::new(1_000_000_000));
    let (mut env, clock) = (Altered::of(RealEnv::new()), micros.clone());
    env.wall_clock = Box::new(move |_| Duration::from_micros(clock.load(Ordering::SeqCst)));
    let path = folder.path().join("store");
    let mut db = plain(Db::builder(&path)).env(Arc::new(env)).open().unwrap();
    let kilobytes =
        |db: &Db| db.stats().levels.iter().map(|level| level.bytes.0).sum::<u64>() >> 10;
    let value = |text: &str| text.repeat(1_000);
    let seconds = Duration::from_secs;
    let main = db.default_keyspace();
    for n in 0..100_u64 {
        main.put_with_ttl(n.to_be_bytes(), value("s"), seconds(10)).unwrap();
        main.put_with_ttl((n + 100).to_be_bytes(), value("l"), seconds(1_000)).unwrap();
        main.put((n + 200).to_be_bytes(), value("n")).unwrap();
    }
    main.compact_range(..).unwrap();
    assert_eq!(kilobytes(&db) / 100, 3);
    micros.fetch_add(20_000_000, Ordering::SeqCst);
    main.compact_range(..).unwrap();
    assert_eq!(kilobytes(&db) / 100, 2);
    db.close().unwrap();
    // The next life knows, too.
    let (mut env, clock) = (Altered::of(RealEnv::new()), micros.clone());
    env.wall_clock = Box::new(move |_| Duration::from_micros(clock.load(Ordering::SeqCst)));
    db = plain(Db::builder(&path)).env(Arc::new(env)).open().unwrap();
    micros.fetch_add(2_000_000_000, Ordering::SeqCst);
    db.default_keyspace().compact_range(..).unwrap();
    assert_eq!(kilobytes(&db) / 100, 1);
    db.close().unwrap();
}

/// Removes what begins with `x`, when it is let.
struct NoX {
    asked: AtomicU64,
    /// Waits there twice at its first question.
    gate: Option<Barrier>,
}

impl CompactionFilter for NoX {
    fn name(&self) -> &str {
        "no x"
    }
    fn filter(&self, _: u8, _: &[u8], value: &[u8]) -> Decision {
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0
            && let Some(gate) = &self.gate
        {
            gate.wait();
            gate.wait();
        }
        match value {
            b"y" => Decision::Change(b"why".to_vec()),
            _ if value.starts_with(b"x") => Decision::Remove,
            _ => Decision::Keep,
        }
    }
}

#[test]
fn a_filter_removes_and_changes_but_for_what_snapshots_see() {
    let folder = folder();
    let path = folder.path().join("store");
    let gate = Some(Barrier::new(2));
    let filter = Arc::new(NoX { asked: AtomicU64::new(0), gate });
    let db = Db::builder(&path).compaction_filter("default", filter.clone()).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    for (key, value) in [("a", "x1"), ("b", "y"), ("c", "z")] {
        db.put(key, value).unwrap();
        other.put(key, value).unwrap();
    }
    let all = |pairs: vlsm::Iter| -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        pairs.map(|pair| pair.unwrap()).map(|(k, v)| text(&k) + ":" + &text(&v)).collect()
    };
    let default = db.default_keyspace();
    let flush = std::thread::spawn({
        let db = db.clone();
        move || db.flush().unwrap()
    });
    let gate = filter.gate.as_ref().unwrap();
    gate.wait();
    // The filter is being asked: this snapshot was not there when the job began.
    let snapshot = db.snapshot();
    let iter = default.iter();
    assert_eq!(all(snapshot.iter(&default)), ["a:x1", "b:y", "c:z"]);
    gate.wait();
    flush.join().unwrap();
    assert_eq!(all(default.iter()), ["b:why", "c:z"]);
    assert_eq!(all(other.iter()), ["a:x1", "b:y", "c:z"], "another keyspace");
    assert_eq!(all(snapshot.iter(&default)), ["a:x1", "b:y", "c:z"], "repeatable");
    assert_eq!(snapshot.get(&default, "a").unwrap().unwrap(), "x1");
    assert_eq!(all(iter), ["a:x1", "b:y", "c:z"]);
    drop(snapshot);

    db.put("d", "x2").unwrap();
    let snapshot = db.snapshot();
    db.put("e", "x3").unwrap();
    db.flush().unwrap();
    assert_eq!(all(default.iter()), ["b:why", "c:z", "d:x2"], "d is the snapshot's");
    assert_eq!(all(snapshot.iter(&default)), ["b:why", "c:z", "d:x2"]);
}

/// Keeps everything; has a visitor come in at the first question of each job.
struct Visited {
    asked: AtomicU64,
    come: Mutex<mpsc::SyncSender<mpsc::SyncSender<()>>>,
}

impl CompactionFilter for Visited {
    fn name(&self) -> &str {
        "visited"
    }
    fn filter(&self, _: u8, _: &[u8], value: &[u8]) -> Decision {
        if value.starts_with(b"x") {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let (go, gone) = mpsc::sync_channel(0);
            self.come.lock().unwrap().send(go).unwrap();
            gone.recv().unwrap();
            return Decision::Remove;
        }
        Decision::Keep
    }
}

/// Snapshots made while a filter is asked keep the states of the trees that it changes. Their
/// number is bounded: beyond the bound the filter is not asked, until some snapshots are gone.
#[test]
fn snapshots_made_beside_a_filter_keep_a_bounded_number_of_states() {
    const ROUNDS: u64 = 30;
    let folder = folder();
    let (come, visits) = mpsc::sync_channel(0);
    let filter = Arc::new(Visited { asked: AtomicU64::new(0), come: Mutex::new(come) });
    let builder = Db::builder(folder.path().join("store"));
    let db = builder.compaction_filter("default", filter.clone()).open().unwrap();
    let default = db.default_keyspace();
    let busy = db.create_keyspace("busy", KeyspaceOptions::new()).unwrap();
    let flush = || {
        let db = db.clone();
        std::thread::spawn(move || db.flush().unwrap())
    };
    let mut snapshots = Vec::new();
    for round in 0..ROUNDS {
        db.put(round.to_be_bytes(), "x").unwrap();
        busy.put("key", round.to_be_bytes()).unwrap();
        let flush = flush();
        while !flush.is_finished() {
            if let Ok(go) = visits.recv_timeout(Duration::from_millis(1)) {
                snapshots.push((round, db.snapshot()));
                go.send(()).unwrap();
            }
        }
        flush.join().unwrap();
    }
    let asked = filter.asked.load(Ordering::SeqCst);
    assert!((4..=12).contains(&asked), "asked by {asked} jobs of {ROUNDS}");
    for (round, snapshot) in &snapshots {
        let seen = snapshot.get(&default, round.to_be_bytes()).unwrap();
        assert_eq!(seen.as_deref(), Some(&b"x"[..]), "round {round}");
        assert_eq!(snapshot.get(&busy, "key").unwrap().unwrap(), round.to_be_bytes()[..]);
        assert_eq!(db.get(round.to_be_bytes()).unwrap(), None, "round {round}: the filter's");
    }
    snapshots.clear();
    db.put("last", "x").unwrap();
    let flush = flush();
    visits.recv().unwrap().send(()).unwrap();
    flush.join().unwrap();
    assert_eq!(db.get("last").unwrap(), None);
}

#[test]
fn every_durability_recovers_every_kind() {
    let folder = folder();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    let sums = db.create_keyspace("sums", KeyspaceOptions::new().merge_operator("append")).unwrap();
    let mut expected = Vec::new();
    for (n, durability) in
        [Durability::Sync, Durability::Buffered, Durability::Lazy, Durability::NoWal]
            .into_iter()
            .enumerate()
    {
        let mut batch = Batch::new();
        batch.put(&sums, format!("{n}a"), "gone");
        batch.merge(&sums, format!("{n}b"), "gone");
        batch.delete_range(&sums, format!("{n}")..format!("{}", n + 1));
        batch.merge(&sums, format!("{n}b"), "1");
        batch.merge(&sums, format!("{n}b"), "2");
        db.write(&batch, WriteOptions::durability(durability)).unwrap();
        expected.push((format!("{n}b").into(), "12".into()));
    }
    db.close().unwrap();
    for read_only in [true, false, false] {
        let db = Db::builder(&path).read_only(read_only).open().unwrap();
        let sums = db.keyspace("sums").unwrap();
        let pairs: Vec<(bytes::Bytes, bytes::Bytes)> =
            sums.iter().map(|pair| pair.unwrap()).collect();
        assert_eq!(pairs, expected);
        if !read_only {
            db.flush().unwrap();
        }
    }
}
