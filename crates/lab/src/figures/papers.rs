//! The papers' figures as tables (`papers/*.toml`), and the code that makes a [`Figure`] of a row.
//!
//! 1. A table has *stores* (a profile or another store, and its settings), *runs* (data, and
//!    phases: name, workload, offered load, length) and *figures* (the paper's words, panels,
//!    claims).
//! 2. A panel has a point for each of its stores (`of`) at each of its places (`x`). A point names
//!    its run and phase. A figure's `all` holds for each panel, unless the panel, one of its
//!    `rows` or a place overrides it. `{x}` stands for the place.
//! 3. A figure names a run with arguments: `peak, silk-90w-peak, 300, 500` fills `$1` to `$3`.
//!
//! Lengths: `1.5x` is a multiple of the setting's seconds. `paper N` is N seconds of the paper;
//! `paper N 1x` is that, but at least `1x`. `long 3x` is at least five minutes in three rounds.
//! `chains` is as long as a hundred chains take. The words for the offered load are in
//! [`crate::load`].
//!
//! The tables are part of the program: a mistake in one is a programmer's error, which tests find.

use super::measure::Measure;
use super::stores::{self, Arm, Recipe};
use super::{Claim, Entry, Figure, Form, Panel, Paper, Point, Setting, X};
use crate::load;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use vlsm_core::Bytes;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::{
    Change, DataSpec, Limits, LoadSpec, Offered, PhaseSpec, RunSpec, Step, StoreSpec,
};
use vlsm_measure::workload::{Preset, Workload, data::Shape};

/// Values by name.
pub(super) type Map = serde_json::Map<String, Value>;

/// The tables, in the order in which figures are listed.
const TABLES: [&str; 6] = [
    include_str!("papers/vlsm.toml"),
    include_str!("papers/silk.toml"),
    include_str!("papers/dlc.toml"),
    include_str!("papers/cruise.toml"),
    include_str!("papers/adoc.toml"),
    include_str!("papers/overview.toml"),
];

/// Bytes of pairs to load: the size of one region of vLSM's testbed.
pub(super) const BYTES: f64 = 17_500_000_000.0;
/// Flushes in a phase of length `chains`; three rounds then have 100 chains.
const FLUSHES: f64 = 36.0;
/// The seconds that background work may take to end.
const SETTLE: f64 = 600.0;

static PARSED: LazyLock<[Table; 6]> =
    LazyLock::new(|| TABLES.map(|text| toml::from_str(text).expect("the tables are well formed")));

/// All figures.
pub(super) static FIGURES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let entry = |table: &'static Table, row: &'static Row| Entry {
        id: &row.id,
        title: &row.title,
        overview: row.overview,
        build: Box::new(move |setting| table.figure(row, setting)),
    };
    let rows = |table: &'static Table| table.figure.iter().map(move |row| entry(table, row));
    PARSED.iter().flat_map(rows).collect()
});

/// The figures of a paper.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Table {
    /// A sentence about differences from the paper, which many figures share. It replaces `{here}`.
    here: String,
    /// The peak rate of workloads with arrivals of their own, where it is not the source's.
    peaks: BTreeMap<String, f64>,
    /// Settings that several stores share.
    setups: BTreeMap<String, Map>,
    stores: BTreeMap<String, Map>,
    runs: BTreeMap<String, Map>,
    figure: Vec<Row>,
}

/// A figure.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Row {
    id: String,
    title: String,
    /// See [`Entry::overview`].
    overview: bool,
    /// The figure whose row it takes over; its own `all` overrides that row's.
    like: Option<String>,
    says: String,
    here: String,
    /// Values that hold for all panels.
    all: Map,
    panels: Vec<Map>,
    /// Each of these measures adds a panel of bars.
    measures: Vec<String>,
    claims: Vec<Claim>,
}

/// A panel, a part of it, or a point: each has the values of what it belongs to, except those that
/// it replaces.
#[derive(Deserialize)]
struct Cell {
    title: String,
    form: String,
    measure: Measure,
    /// The numbers of the paper's text.
    #[serde(default)]
    paper: Vec<Paper>,
    /// The parts of a panel, if there are several.
    #[serde(default)]
    rows: Vec<Map>,
    /// The series. The points are ordered place by place (`by_x`) or series by series.
    #[serde(default)]
    of: Vec<String>,
    /// The places.
    #[serde(default)]
    x: Vec<Value>,
    #[serde(default)]
    by_x: bool,
    /// The store of a point, if the series has another name.
    store: Option<String>,
    #[serde(default)]
    run: String,
    #[serde(default)]
    phase: String,
    /// The position on the x axis, if it is not the place's own.
    at: Option<f64>,
    device: Option<u64>,
    /// All other values: the store's settings that differ from the table's ([`Recipe`]).
    #[serde(flatten)]
    differs: Map,
}

/// A run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// The number of pairs; by default they fill [`BYTES`].
    pairs: Option<u64>,
    /// The workload whose pairs are loaded.
    shape: String,
    /// The name, workload, offered load and length of each phase.
    phases: Vec<(String, String, String, String)>,
    threads: Option<usize>,
    /// The device's limit in bytes per second, for reads and for writes each.
    device: Option<u64>,
    /// The phases after which the run goes on at once. The next phase then begins with the debt
    /// that they left, as a closed loop that goes on does, and the work that they left counts to
    /// it.
    #[serde(default)]
    unsettled: Vec<String>,
    /// Whether all writes of the last phase, half of its requests, must fit into one memtable.
    #[serde(default)]
    unflushed: bool,
}

/// The values of both, at any depth; those of `more` take precedence.
fn with(base: &Map, more: &Map) -> Map {
    let mut all = Value::Object(base.clone());
    stores::set(&mut all, more.clone().into());
    all.as_object().cloned().unwrap_or_default()
}

/// Reads the values of a part of a table. In all texts `names` are replaced by texts.
fn read<T: DeserializeOwned>(what: &str, map: &Map, names: &[(&str, &str)]) -> T {
    let text = serde_json::to_string(map).expect("plain values have an encoding");
    let text = names.iter().fold(text, |text, (name, by)| text.replace(name, by));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{what}: {why}"))
}

fn preset(name: &str) -> Preset {
    Preset::named(name).expect("figures name workloads that exist")
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

/// A number is its own position, an SST size has its number of MB, other names have their index.
fn place(value: &Value, index: usize) -> X {
    let label = match value {
        Value::String(name) => name.clone(),
        number => number.as_f64().expect("a place is a number or a name").to_string(),
    };
    X { at: label.trim_end_matches(" MB").parse().unwrap_or(index as f64), label }
}

impl Table {
    fn figure(&self, own: &Row, setting: &Setting) -> Figure {
        let like = |other: &&Row| Some(&other.id) == own.like.as_ref();
        let row = self.figure.iter().find(like).unwrap_or(own);
        let all = with(&row.all, &own.all);
        let each = |name: &String| {
            let panel = [("title", name.as_str()), ("form", "bars"), ("measure", name)];
            panel.map(|(key, value)| (key.to_owned(), value.into())).into_iter().collect()
        };
        let panels = row.panels.iter().cloned().chain(row.measures.iter().map(each));
        Figure {
            says: row.says.clone(),
            here: row.here.replace("{here}", &self.here),
            panels: panels.map(|panel| self.panel(&with(&all, &panel), setting)).collect(),
            claims: row.claims.clone(),
        }
    }

    fn panel(&self, map: &Map, setting: &Setting) -> Panel {
        let Cell { title, form, measure, paper, rows, .. } = read("a panel", map, &[]);
        let mut points = Vec::new();
        for row in if rows.is_empty() { vec![Map::new()] } else { rows } {
            let map = with(map, &row);
            let Cell { of, mut x, by_x, .. } = read(&title, &map, &[]);
            if x.is_empty() {
                x.push(0.into());
            }
            let (inner, outer) = if by_x { (of.len(), x.len()) } else { (x.len(), of.len()) };
            for index in 0..inner * outer {
                let (a, b) = (index / inner, index % inner);
                let (series, at) = if by_x { (b, a) } else { (a, b) };
                points.push(self.point(&of[series], &map, (at, &x[at]), setting));
            }
        }
        // A panel with lines has the name of its x axis for a form.
        let form = serde_json::from_value(form.as_str().into()).unwrap_or(Form::Lines(form));
        Panel { title, form, measure, points, paper }
    }

    fn point(
        &self,
        series: &str,
        part: &Map,
        (index, at): (usize, &Value),
        setting: &Setting,
    ) -> Point {
        let mut more = at.as_object().cloned().unwrap_or_default();
        let named = more.remove("x");
        let mut x = place(named.as_ref().unwrap_or(at), index);
        let place = [("{x}", x.label.trim_end_matches(" MB"))];
        let cell: Cell = read(series, &with(part, &more), &place);
        x.at = cell.at.unwrap_or(x.at);
        let (series, store) = series.split_once(" = ").unwrap_or((series, series));
        let store = cell.store.as_deref().unwrap_or(store).replace(place[0].0, place[0].1);
        let run = self.store(&store, &cell.differs, setting);
        let run = run.map(|store| self.run(&cell.run, store, cell.device, setting));
        let series = series.split('@').next().unwrap_or(series).to_owned();
        let source = run.map(|run| (Arc::new(run), cell.phase));
        Point { series, x, measure: cell.measure, source, added: false }
    }

    /// The store of a point: one of the table's, with another SST size after `@`.
    fn store(&self, name: &str, differs: &Map, setting: &Setting) -> Arm {
        let (name, sst) = match name.split_once('@') {
            Some((name, sst)) => (name, Some(sst)),
            None => (name, None),
        };
        let own = &self.stores[name];
        let setup = own.get("setup").and_then(Value::as_str).map(|setup| &self.setups[setup]);
        let whole = with(&with(setup.unwrap_or(&Map::new()), own), differs);
        let recipe: Recipe = read(name, &whole, &[("{sst}", sst.unwrap_or_default())]);
        recipe.spec(sst.map(|sst| number(sst) as u64), setting)
    }

    /// A run with its arguments on a store. Its data is loaded first. After each phase it waits for
    /// background work to end, unless the phase is `unsettled`.
    fn run(&self, text: &str, store: StoreSpec, device: Option<u64>, setting: &Setting) -> RunSpec {
        let mut words = text.split(", ");
        let name = words.next().unwrap_or_default();
        let arguments = ["$1", "$2", "$3"].map(|name| (name, words.next().unwrap_or_default()));
        let run: Run = read(name, &self.runs[name], &arguments);
        let shape = preset(&run.shape).shape;
        let pairs = run.pairs.unwrap_or((BYTES / shape.pair_bytes()) as u64);
        let pairs = setting.scale.count(pairs);
        let data = DataSpec { pairs, shape };
        let mut steps = Vec::new();
        for (index, phase) in run.phases.iter().enumerate() {
            let phase = self.phase(phase, &store, setting);
            if run.unflushed && index + 1 == run.phases.len() {
                steps.push(Step::Reopen(Change::memtable(unflushed(&phase, &data)), SETTLE));
            }
            let goes_on = run.unsettled.contains(&phase.name);
            steps.push(Step::Phase(phase));
            steps.extend((!goes_on).then_some(Step::Settle(SETTLE)));
        }
        let store = store.with_memory_for(pairs);
        RunSpec {
            load: Some(LoadSpec { options: stores::loading(&store), settle: SETTLE }),
            store,
            data,
            steps,
            threads: run.threads.unwrap_or(threads(&shape)),
            limits: Limits { device: device.or(run.device), memory: None },
            seed: 1,
            dir: setting.dir.clone(),
        }
    }

    fn phase(
        &self,
        (name, workload, offered, length): &(String, String, String, String),
        store: &StoreSpec,
        setting: &Setting,
    ) -> PhaseSpec {
        let preset = preset(workload);
        let own = match (preset.arrivals, self.peaks.get(workload)) {
            (Some(Arrivals::Varying(own)), Some(peak)) => {
                Some(Arrivals::Varying(own.with_peak(*peak)))
            }
            (own, _) => own,
        };
        let offered = load::offered(offered, own.as_ref(), setting.scale);
        let offered = offered.expect("figures offer work in words that exist");
        PhaseSpec {
            name: name.clone(),
            interval: interval(&preset.workload, setting),
            workload: preset.workload,
            seconds: Some(seconds(length, &offered, store, setting)),
            offered,
            ops: None,
        }
    }
}

/// The length of an interval: a second of the papers, with a lower bound so that it is not empty.
/// For inserts alone it is half a second, because vLSM's stalls last about a second.
fn interval(workload: &Workload, setting: &Setting) -> f64 {
    match workload.inserts >= 100.0 {
        true => setting.scale.seconds(0.5).max(0.01),
        false => setting.scale.seconds(1.0).max(0.05),
    }
}

/// The length of a phase in seconds.
fn seconds(text: &str, offered: &Offered, store: &StoreSpec, setting: &Setting) -> f64 {
    let times = |text: &str| number(text.trim_end_matches('x')) * setting.seconds;
    match text.split(' ').collect::<Vec<_>>()[..] {
        // The time that `FLUSHES` memtables take to fill with pairs of 200 bytes.
        ["chains"] => {
            let Offered::As(Arrivals::Open(rate)) = offered else { panic!("it has no rate") };
            let memtable = store.options.policy.tree.memtable_bytes.0;
            (FLUSHES * memtable as f64 / (rate * 200.0)).max(setting.seconds)
        }
        ["paper", length] => setting.scale.seconds(number(length)),
        ["paper", length, least] => setting.scale.seconds(number(length)).max(times(least)),
        // A smoke test's long phases are no longer than others.
        ["long", _] if setting.scale.is_smoke() => setting.seconds,
        ["long", length] => times(length).max(101.0),
        [length] => times(length),
        _ => panic!("{text:?} is no length"),
    }
}

/// The size of a memtable that holds 1.5 times what this phase writes; half its requests are
/// writes.
fn unflushed(phase: &PhaseSpec, data: &DataSpec) -> Bytes {
    let Offered::As(arrivals) = &phase.offered else { panic!("it has no rate") };
    let requests = arrivals.peak().unwrap_or(0.0) * phase.seconds.unwrap_or(0.0);
    let writes = requests * data.pair_bytes() / 2.0;
    Bytes((writes * 1.5) as u64).max(Bytes::mib(64))
}

/// The number of clients. With vLSM's pairs it is the number of cores, because those runs mostly
/// write. With other pairs it is SILK's eight (SILK (2019), §6.1): their reads wait for the device,
/// and four clients would limit a peak of 20 k/s.
fn threads(shape: &Shape) -> usize {
    if *shape == Shape::default() { 2 } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::figures::{Setting, named};
    use crate::scale::Scale;
    use vlsm_core::event::JobKind;
    use vlsm_core::{Bytes, KeyRange, Micros, TreeId};
    use vlsm_measure::spec::Step;
    use vlsm_policy::{Candidate, Class, Counters, Inputs, Signals};

    /// A store that is not ours takes part in any figure: it takes the table's settings, and claims
    /// name it like any other.
    #[test]
    fn a_table_sets_up_other_stores_like_ours() {
        let text = r#"
            [setups.tested.options]
            workers = 4
            durability = "no_wal"
            block_bytes = 65_536
            policy.l0_slowdown = 10_000
            policy.device_bandwidth = 104_857_600
            [stores]
            "ours" = { profile = "rocksdb", setup = "tested" }
            [stores.theirs]
            kind = "rocksdb"
            config = "auto"
            profile = "rocksdb"
            setup = "tested"
            cache = 0.5
            policy.l0_stop = 7
            [runs.one]
            shape = "load"
            device = 1_000_000
            unsettled = ["warm"]
            phases = [["warm", "load", "max", "1x"], ["max", "load", "max", "1x"]]
            [[figure]]
            id = "x"
            title = "x"
            panels = [{ title = "x", x = ["all"], form = "bars", measure = "throughput" }]
            all = { of = ["ours", "theirs@16"], run = "one", phase = "max" }
            [[figure.claims]]
            text = "x"
            measure = "throughput"
            test = { at_least = [[0, "theirs", "all"], [0, "ours"], 1.0] }
        "#;
        let table: Table = toml::from_str(text).expect("it is a table");
        let mut setting = Setting { scale: Scale::FULL, dir: None, peers: true, seconds: 20.0 };
        let figure = table.figure(&table.figure[0], &setting);
        let runs: Vec<_> = figure.compared(&figure.claims[0]).map(|(run, ..)| run).collect();
        let [theirs, ours] = runs[..] else { panic!("both are compared: {runs:?}") };
        assert_eq!((theirs.store.name().as_str(), theirs.threads), ("rocksdb:auto", ours.threads));
        let (one, other) = (&theirs.store.options, &ours.store.options);
        assert_eq!((one.workers, one.durability), (other.workers, other.durability));
        assert_eq!((one.block_bytes, one.policy.tree.l0_slowdown), (Bytes::kib(64), 10_000));
        assert_eq!((one.policy.tree.l0_stop, one.policy.tree.sst_max), (7, Bytes::mib(16)));
        assert_eq!(one.policy.tree.device_bandwidth, other.policy.tree.device_bandwidth);
        assert_eq!((theirs.store.cache, theirs.limits), (8_750_000_000, ours.limits));
        let [Step::Phase(_), Step::Phase(_), Step::Settle(_)] = ours.steps[..] else {
            panic!("only the last phase is waited for: {:?}", ours.steps)
        };
        setting.peers = false;
        let figure = table.figure(&table.figure[0], &setting);
        assert!(figure.left_out()[0].contains("rocksdb is left out"), "{:?}", figure.left_out());
    }

    #[test]
    fn the_silk_that_dlc_is_compared_with_pauses_while_the_load_is_high() {
        let setting = Setting { scale: Scale::CAMPAIGN, dir: None, peers: false, seconds: 20.0 };
        let runs = (named("dlc-6").expect("it exists").build)(&setting).runs();
        let run = runs.iter().find(|run| run.store.config == "silk-dlc-load");
        let policy = run.expect("it takes part").store.options.policy.clone();
        let deeper = Candidate {
            tree: TreeId(0),
            frees: Class::Level(1),
            kind: JobKind::Compact,
            inputs: Inputs::default(),
            output_level: 2,
            range: KeyRange::closed("a", "z"),
            bytes_in: Bytes(1),
            bytes_out: Bytes(1),
            score: 1.0,
            sets_cursor: None,
            conflicts: Vec::new(),
        };
        let starts = |load: u64| {
            let (_, mut silk, _) = policy.build().expect("the options work");
            let mut after = |seconds: u64| {
                let cache_miss_bytes = Bytes(seconds * (load << 20));
                let counters = Counters { cache_miss_bytes, ..Counters::default() };
                let now = Micros(seconds * 1_000_000);
                silk.decide(&Signals { now, counters, ..Signals::default() }, &[&deeper], &[])
            };
            after(1);
            !after(2).start.is_empty()
        };
        // Table 2 of DLC: from 300 MB/s on.
        assert!(starts(295) && !starts(305));
    }
}
