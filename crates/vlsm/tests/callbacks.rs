//! A user's code that panics: merge operators, compaction filters and listeners, at every place
//! where the store calls them. The store says whose code it was, stays open for reads and writes,
//! closes well and has everything when it is opened again.
#![allow(clippy::unwrap_used)]

mod tiny;

use bytes::Bytes;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tiny::tiny;
use vlsm::{
    ByteCount, Callback, CompactionFilter, Db, Decision, Durability, Env, Error, Event,
    KeyspaceOptions, MergeOperator, WriteOptions,
};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{Fault, FaultFs, Op, Rule, SimFs};

const FOLDER: &str = "/store";

/// The payload of a panic.
#[derive(Clone, Copy, Debug)]
enum Throw {
    Text,
    String,
    Number,
    /// It panics again when it is dropped.
    Bomb,
}

const THROWS: [Throw; 4] = [Throw::Text, Throw::String, Throw::Number, Throw::Bomb];

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(7);
    }
}

impl Throw {
    fn throw(self) -> ! {
        match self {
            Self::Text => panic!("secret"),
            Self::String => panic!("secret {}", 1),
            Self::Number => panic_any(7),
            Self::Bomb => panic_any(Bomb),
        }
    }
}

/// A disk in memory, and the panics and failures that the listener recorded.
#[derive(Clone)]
struct Bench {
    disk: SimFs,
    faults: FaultFs,
    told: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new() -> Self {
        let disk = SimFs::new();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        Self { disk, faults, told: Arc::default() }
    }

    fn silent(&self) -> vlsm::Builder {
        let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(self.faults.clone()));
        tiny(Db::builder(FOLDER).env(env), ByteCount::kib(32)).configure(|options| {
            options.workers = 1;
            options.policy.tree.sst_max = ByteCount::kib(16);
            options.policy.tree.l1_bytes = ByteCount::kib(32);
        })
    }

    /// A builder whose listener records panics and failures.
    fn builder(&self) -> vlsm::Builder {
        let told = self.told.clone();
        self.silent().listener(move |event| match event {
            Event::CallbackPanicked { callback, name, keyspace } => {
                told.lock().unwrap().push(format!("{callback:?} {name} {keyspace}"));
            }
            Event::BackgroundError { error } => told.lock().unwrap().push(error.to_string()),
            _ => {}
        })
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    /// Lines of the LOG that contain this. No line holds what the panic said.
    fn logged(&self, what: &str) -> usize {
        let log = self.disk.content(&Path::new(FOLDER).join("LOG")).unwrap();
        let log = String::from_utf8(log).unwrap();
        assert!(!log.contains("secret"), "{log}");
        log.lines().filter(|line| line.contains(what)).count()
    }
}

/// Appends; panics over what holds a `?` while it is armed, in the method that is named.
struct Append {
    armed: Arc<AtomicBool>,
    place: &'static str,
    throw: Throw,
}

impl Append {
    fn at(&self, place: &str, parts: &[&[u8]]) {
        let meant = self.place == place && self.armed.load(SeqCst);
        if meant && parts.iter().any(|part| part.contains(&b'?')) {
            self.throw.throw();
        }
    }
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "test.append"
    }
    fn check_operand(&self, _: &[u8], operand: &[u8]) -> Result<(), &'static str> {
        self.at("check", &[operand]);
        Ok(())
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.at("merge", operands);
        Some([base.unwrap_or_default(), &operands.concat()].concat())
    }
    fn merge_partial(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.at("partial", operands);
        Some(operands.concat())
    }
}

type Pairs = BTreeMap<Bytes, Bytes>;

fn pairs<const N: usize>(pairs: [(&'static str, &'static str); N]) -> Pairs {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

fn readable(space: &vlsm::Keyspace) -> (Pairs, u64) {
    let (mut read, mut failed) = (Pairs::new(), 0);
    for pair in space.iter() {
        match pair {
            Ok((key, value)) => drop(read.insert(key, value)),
            Err(error) => {
                assert!(matches!(error, Error::MergeFailed { panicked: true, .. }), "{error}");
                let text = error.to_string();
                assert!(text.contains("test.append") && text.contains("panicked"), "{text}");
                assert!(!text.contains("secret") && !text.contains('?'), "{text}");
                failed += 1;
            }
        }
    }
    (read, failed)
}

#[test]
fn a_merge_operator_that_panics_is_named_and_loses_nothing() {
    for (place, throw) in ["check", "merge", "partial"]
        .into_iter()
        .flat_map(|place| THROWS.map(|throw| (place, throw)))
    {
        println!("{place} {throw:?}");
        let bench = Bench::new();
        let armed = Arc::new(AtomicBool::new(true));
        let open = || {
            let operator = Append { armed: armed.clone(), place, throw };
            bench.builder().merge_operator(Arc::new(operator)).open().unwrap()
        };
        let db = open();
        let options = KeyspaceOptions::new().merge_operator("test.append");
        let space = db.create_keyspace("words", options).unwrap();
        space.put("a", "1").unwrap();
        space.put("b", "1").unwrap();
        space.compact_range(..).unwrap();
        let expected = if place == "check" {
            let refused = space.merge("b", "?").unwrap_err();
            assert!(matches!(refused, Error::OperandRefused { .. }), "{refused}");
            assert!(refused.to_string().contains("panicked"), "{refused}");
            pairs([("a", "12"), ("b", "12"), ("c", "2")])
        } else {
            space.merge("b", "?").unwrap();
            space.merge("b", "!").unwrap();
            pairs([("a", "12"), ("b", "1?!2"), ("c", "2")])
        };
        for key in ["a", "b", "c"] {
            space.merge(key, "2").unwrap();
        }
        let fails = u64::from(place == "merge");
        for round in 0..3 {
            let (read, failed) = readable(&space);
            assert_eq!((read.len() as u64, failed), (3 - fails, fails), "round {round}");
            assert_eq!(space.get("b").is_err(), fails > 0);
            // A snapshot keeps operands of two stripes apart; then they go into one.
            let snapshot = db.snapshot();
            db.flush().unwrap();
            space.compact_range(..).unwrap();
            drop(snapshot);
            db.put("other", "write").unwrap();
        }
        db.wait_idle().unwrap();
        assert_eq!(bench.told(), ["MergeOperator test.append words"], "once");
        let stats = db.stats();
        assert!(stats.callback_panics >= 1 && stats.read_only.is_none());
        drop(space);
        db.close().unwrap();
        assert_eq!(bench.logged("the merge operator \"test.append\" of keyspace \"words\""), 1);
        assert_eq!(bench.logged("report"), 0);
        // It was armed when the store was closed; the next program has a better one.
        armed.store(false, SeqCst);
        let db = open();
        let space = db.keyspace("words").unwrap();
        assert_eq!(readable(&space), (expected, 0));
        drop(space);
        db.close().unwrap();
        assert!(bench.told().is_empty());
    }
}

#[test]
fn many_readers_of_an_operator_that_panics_are_told_of_once() {
    let bench = Bench::new();
    let armed = Arc::new(AtomicBool::new(true));
    let operator = Append { armed, place: "merge", throw: Throw::Text };
    let db = bench.builder().merge_operator(Arc::new(operator)).open().unwrap();
    let options = KeyspaceOptions::new().merge_operator("test.append");
    let space = db.create_keyspace("words", options).unwrap();
    space.merge("b", "?").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| assert!(space.get("b").is_err())));
        }
        (0..3).for_each(|_| db.flush().and_then(|()| space.merge("c", "1")).unwrap());
    });
    assert_eq!(bench.told().len(), 1);
    assert!(db.stats().callback_panics >= 200);
    drop(space);
    db.close().unwrap();
}

/// Removes `x…`, changes `y`, and panics over what begins with `?`.
struct Filter {
    throw: Throw,
    armed: Arc<AtomicBool>,
    /// Panics over everything.
    always: bool,
    asked: Arc<AtomicU64>,
}

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        "test.filter"
    }
    fn filter(&self, _: u8, _: &[u8], value: &[u8]) -> Decision {
        self.asked.fetch_add(1, SeqCst);
        if self.armed.load(SeqCst) && (self.always || value.starts_with(b"?")) {
            self.throw.throw();
        }
        match value {
            b"y" => Decision::Change(b"why".to_vec()),
            _ if value.starts_with(b"x") => Decision::Remove,
            _ => Decision::Keep,
        }
    }
}

#[test]
fn a_compaction_filter_that_panics_is_named_and_the_values_stay() {
    for (always, throw) in
        [false, true].into_iter().flat_map(|always| THROWS.map(|throw| (always, throw)))
    {
        println!("{always} {throw:?}");
        let bench = Bench::new();
        let (armed, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let open = || {
            let (armed, asked) = (armed.clone(), asked.clone());
            let filter = Arc::new(Filter { throw, armed, always, asked });
            bench.builder().compaction_filter("default", filter).open().unwrap()
        };
        let db = open();
        let main = db.default_keyspace();
        let written =
            [("a", "?1"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "?2"), ("f", "x"), ("g", "?3")];
        let hour = Duration::from_secs(3600);
        for (key, value) in written {
            main.put(key, value).unwrap();
            main.put_with_ttl(format!("{key}-brief"), value, hour).unwrap();
        }
        let unchanged = readable(&main).0;
        armed.store(true, SeqCst);
        db.flush().unwrap();
        for _ in 0..2 {
            // By a flush, by compactions out of L0 and deeper ones.
            main.compact_range(..).unwrap();
            main.put("h", "?4").unwrap();
        }
        db.wait_idle().unwrap();
        let (found, _) = readable(&main);
        if always {
            assert!(
                unchanged.iter().all(|(key, value)| found.get(key) == Some(value)),
                "{found:?}"
            );
        } else {
            let filtered = pairs([("a", "?1"), ("c", "why"), ("d", "z"), ("e", "?2"), ("g", "?3")]);
            let brief = filtered
                .iter()
                .map(|(key, value)| (Bytes::from([&key[..], b"-brief"].concat()), value.clone()));
            let all: Pairs = brief.chain(filtered.clone()).chain(pairs([("h", "?4")])).collect();
            assert_eq!(found, all);
        }
        assert_eq!(bench.told(), ["CompactionFilter test.filter default"], "once");
        let stats = db.stats();
        assert!(stats.callback_panics >= 6 && stats.read_only.is_none());
        assert!(asked.load(SeqCst) < 200, "no job is done again and again");
        drop(main);
        db.close().unwrap();
        assert_eq!(
            bench.logged("the compaction filter \"test.filter\" of keyspace \"default\""),
            1
        );
        armed.store(false, SeqCst);
        let db = open();
        let main = db.default_keyspace();
        assert_eq!(readable(&main).0, found, "nothing was lost");
        for key in ["b", "c", "f"] {
            main.put(key, "x").unwrap();
        }
        main.compact_range(..).unwrap();
        assert!(["b", "c", "f"].iter().all(|key| main.get(key).unwrap().is_none()));
        drop(main);
        db.close().unwrap();
    }
}

/// Waits for a millisecond. Returns false.
#[allow(clippy::disallowed_methods)]
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(1));
    false
}

/// A life of a store. Returns the pairs that it wrote. Every call must behave as if there were no
/// listener.
fn live(db: Db, closes: bool) -> Pairs {
    let mut written = Pairs::new();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    for n in 0..600_u64 {
        let (key, value) = (format!("k{:03}", n % 200), format!("{n}").repeat(40));
        let durability =
            [Durability::Sync, Durability::Buffered, Durability::NoWal][n as usize % 3];
        let durability = if n % 50 == 0 { durability } else { Durability::Buffered };
        let options = WriteOptions::durability(durability);
        db.default_keyspace().put_with(&key, &value, options).unwrap();
        written.insert(key.into(), value.into());
        if n % 150 == 149 {
            db.flush().unwrap();
        }
    }
    other.put("a", "b").unwrap();
    db.default_keyspace().compact_range(..).unwrap();
    db.wait_idle().unwrap();
    assert_eq!(readable(&db.default_keyspace()).0, written);
    db.put("last", "write").unwrap();
    written.insert("last".into(), "write".into());
    drop(other);
    if closes {
        db.close().unwrap();
    }
    written
}

#[test]
fn a_listener_that_panics_at_any_event_is_switched_off_and_nothing_else() {
    let (mut reached, mut fired) = (true, 0);
    for at in 0.. {
        if !reached {
            break;
        }
        let (closes, throw) = (at % 3 > 0, THROWS[at as usize % THROWS.len()]);
        let bench = Bench::new();
        let calls = Arc::new(AtomicU64::new(0));
        let (counted, last) = (calls.clone(), Arc::new(Mutex::new(String::new())));
        let named = last.clone();
        let listener = move |event: &Event| {
            if counted.fetch_add(1, SeqCst) == at {
                *named.lock().unwrap() = format!("{event:?}");
                throw.throw();
            }
        };
        let db = bench.silent().listener(listener).open().unwrap();
        let probe = db.clone();
        let written = live(db, closes);
        // Soon: another thread may be between the call and its panic.
        let is_counted = || probe.stats().callback_panics == u64::from(calls.load(SeqCst) > at);
        assert!((0..10_000).any(|_| is_counted() || pause()), "it is counted once");
        let before = calls.load(SeqCst);
        if before > at && !closes {
            probe.put("once", "more").unwrap();
            probe.flush().unwrap();
            probe.delete("once").unwrap();
            assert_eq!(calls.load(SeqCst), before, "it is told of nothing more");
        }
        drop(probe);
        let calls = calls.load(SeqCst);
        reached = calls > at;
        fired += u64::from(reached);
        let last = last.lock().unwrap().clone();
        assert_eq!(bench.logged("the listener panicked"), usize::from(reached), "{last}");
        assert_eq!(bench.logged("background error"), 0, "{last}");
        let db = bench.builder().open().unwrap();
        assert_eq!(readable(&db.default_keyspace()).0, written, "{last}");
        assert_eq!(db.keyspace("other").unwrap().get("a").unwrap().unwrap(), "b");
        db.close().unwrap();
    }
    assert!(fired > 15, "{fired}: of opening, jobs, installs, and the close");
}

/// A listener that panics on the event of a failure: the write returns the failure, and the panic
/// does not come out.
#[test]
fn a_listener_that_panics_over_a_failure_hides_nothing() {
    let bench = Bench::new();
    let listener = |event: &Event| {
        assert!(!matches!(event, Event::BackgroundError { .. }), "planted");
    };
    let db = bench.silent().listener(listener).open().unwrap();
    db.put("a", "1").unwrap();
    bench.faults.add(Rule::once(Op::Sync, "000001.wal", Fault::Eio));
    let sync = WriteOptions::durability(Durability::Sync);
    let put = || db.default_keyspace().put_with("b", "1", sync);
    let answered = catch_unwind(AssertUnwindSafe(put)).expect("the panic does not come out");
    assert!(matches!(answered, Err(Error::Io { .. })), "{answered:?}");
    assert!(matches!(db.put("c", "1"), Err(Error::ReadOnly { .. })));
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    assert_eq!(db.stats().callback_panics, 1);
    assert!(db.close().is_err(), "closing tells of the device");
    bench.disk.kill();
    let db = bench.builder().open().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    db.close().unwrap();
}

#[test]
fn names_of_callbacks_are_words() {
    let all = [Callback::MergeOperator, Callback::CompactionFilter, Callback::Listener];
    for callback in all {
        let (name, keyspace) = ("the-name".to_owned(), "the-space".to_owned());
        let text = Event::CallbackPanicked { callback, name, keyspace }.to_string();
        let named = text.contains("the-name") && text.contains("the-space");
        assert!(text.contains("panicked") && (named || callback == Callback::Listener), "{text}");
    }
}
