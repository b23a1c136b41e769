//! Statistics through the crate `metrics`, and events through the crate `tracing`.
#![allow(clippy::unwrap_used)]

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata as Meta, Subscriber, span};
use vlsm::{Db, Durability, Error, Event, KeyspaceOptions, Micros, WaitCause, WriteOptions};

/// The kind of a metric and its value.
type Slot = (&'static str, Arc<AtomicU64>);

/// Keeps the last value of each metric, under its name and labels.
#[derive(Default)]
struct Kept {
    values: Mutex<BTreeMap<String, Slot>>,
    helps: Mutex<BTreeMap<String, String>>,
}

impl Kept {
    fn slot(&self, kind: &'static str, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.values.lock().unwrap().entry(name).or_insert((kind, Arc::default())).1.clone()
    }

    fn value(&self, name: &str) -> f64 {
        let values = self.values.lock().unwrap();
        let (kind, value) = values.get(name).unwrap_or_else(|| panic!("{name}: {values:#?}"));
        let value = value.load(Ordering::Relaxed);
        match *kind {
            "counter" => value as f64,
            _ => f64::from_bits(value),
        }
    }

    fn describe(&self, name: KeyName, help: SharedString) {
        self.helps.lock().unwrap().insert(name.as_str().to_owned(), help.into_owned());
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, help);
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.slot("counter", key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.slot("gauge", key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("{key}: the facade gets no histograms");
    }
}

#[test]
fn the_facade_gets_the_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("store")).unwrap();
    db.create_keyspace("users", KeyspaceOptions::new()).unwrap();
    for n in 0..7_u32 {
        let options = WriteOptions::durability(Durability::Sync);
        db.put_with(n.to_be_bytes(), "value", options).unwrap();
    }
    let (kept, stats) = (Kept::default(), db.stats());
    metrics::with_local_recorder(&kept, || stats.publish(&[("store", "shop")]));
    assert_eq!(kept.value("vlsm_writes_total{store=shop}"), 7.0);
    let memtable = stats.keyspaces[0].memtable_bytes.0 as f64;
    let name = "vlsm_keyspace_memtable_bytes{store=shop,keyspace=default}";
    assert!(memtable > 0.0 && kept.value(name) == memtable);
    assert_eq!(kept.value("vlsm_level_ssts{store=shop,keyspace=users,level=0}"), 0.0);
    assert_eq!(kept.value("vlsm_wait_seconds_count{store=shop,cause=wal_sync}"), 7.0);
    let sync = stats.waits.iter().find(|wait| wait.cause == WaitCause::WalSync).unwrap();
    let longest = kept.value("vlsm_wait_seconds{store=shop,cause=wal_sync,quantile=1}");
    assert_eq!(longest, sync.latency.max.as_secs_f64());
    assert_eq!(kept.helps.lock().unwrap()["vlsm_writes_total"], "Keys written.");
    // Counters go on, and nothing is there twice.
    let known = kept.values.lock().unwrap().len();
    db.put("more", "value").unwrap();
    metrics::with_local_recorder(&kept, || db.stats().publish(&[("store", "shop")]));
    assert_eq!(kept.value("vlsm_writes_total{store=shop}"), 8.0);
    let new = kept.values.lock().unwrap().len() - known;
    assert!(new <= 2 * 7, "only waits of a cause that is new: {new}");
    db.close().unwrap();
}

/// A line that a subscriber got: level, fields, message.
type Line = (Level, BTreeMap<String, String>);

/// Keeps the lines.
#[derive(Default, Clone)]
struct Lines(Arc<Mutex<Vec<Line>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, meta: &Meta<'_>) -> bool {
        meta.target() == "vlsm"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().push((*event.metadata().level(), fields));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The lines of these events.
fn lines_of(events: &[Event]) -> Vec<Line> {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || events.iter().for_each(vlsm::to_tracing));
    lines.0.lock().unwrap().clone()
}

/// The events of a real store have levels, names and keyspaces.
#[test]
fn the_events_of_a_store_go_to_tracing() {
    let folder = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (keep, kept) = (told.clone(), told);
    let db = Db::builder(folder.path().join("store"))
        .listener(move |event| keep.lock().unwrap().push(event.clone()))
        .open()
        .unwrap();
    let users = db.create_keyspace("users", KeyspaceOptions::new()).unwrap();
    users.put("ada", "1815").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let lines = lines_of(&kept.lock().unwrap());
    let find = |name: &str| lines.iter().find(|(_, fields)| fields["event"] == name).unwrap();
    assert_eq!(find("opened").0, Level::INFO);
    assert_eq!(find("closed").0, Level::INFO);
    assert_eq!(find("closed").1["message"], "closed");
    let (level, fields) = find("job_finished");
    assert_eq!((*level, fields["keyspace"].as_str()), (Level::DEBUG, "users"));
    assert!(fields["message"].contains("(users)"), "{fields:?}");
    assert_eq!(find("rotated").0, Level::TRACE);
}

#[test]
fn failures_and_long_waits_are_loud() {
    let error = Error::Internal("it broke".into());
    let waited = |took| Event::Waited {
        cause: WaitCause::L0Bound,
        took: Micros(took),
        keyspace: Some("orders".into()),
        behind: None,
    };
    let lines = lines_of(&[Event::BackgroundError { error }, waited(2_000), waited(200_000)]);
    let levels: Vec<Level> = lines.iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [Level::ERROR, Level::DEBUG, Level::WARN]);
    assert!(lines[0].1["message"].contains("it broke"));
    let fields = &lines[2].1;
    assert_eq!((fields["keyspace"].as_str(), fields["micros"].as_str()), ("orders", "200000"));
    assert_eq!(fields["cause"], "L0 bound");
}
