//! The papers' figures as tables (`papers/*.toml`), and the code that makes a [`Figure`] of a row.
//!
//! 1. A table has *stores* (a profile or another store, and its settings), *runs* (data, and
//!    phases: name, workload, offered load, length) and *figures* (the paper's words, panels,
//!    claims).
//! 2. A panel has a point for each of its stores (`of`) at each of its places (`x`). A point names
//!    its run and phase. A figure's `all` holds for each panel, unless the panel, one of its
//!    `rows` or a place overrides it. `{x}` stands for the place.
//! 3. A figure names a run with arguments: `bursts, silk, paper 1400 1x` fills `$1` and `$2`.
//!
//! Lengths: `1.5x` is a multiple of the setting's seconds. `paper N` is N seconds of the paper;
//! `paper N 1x` is that, but at least `1x`. `long 3x` is at least five minutes in three rounds.
//! `chains` is as long as a hundred chains take. Offered load: `closed`; `open N`; `poisson N`;
//! `70%` of the maximum measured before; `own`, the workload's own; `own/10`, a tenth of its peak.
//!
//! The tables are part of the program: a mistake in one is a programmer's error, which tests find.

use super::measure::Measure;
use super::stores::{Arm, Recipe, Setup, Store};
use super::{Claim, Entry, Figure, Form, Panel, Paper, Point, Setting, Source, X};
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
use vlsm_measure::workload::{Preset, data::Shape};

/// Values by name.
pub(super) type Map = serde_json::Map<String, Value>;

/// The tables, in the order in which figures are listed.
const TABLES: [&str; 5] = [
    include_str!("papers/vlsm.toml"),
    include_str!("papers/silk.toml"),
    include_str!("papers/dlc.toml"),
    include_str!("papers/cruise.toml"),
    include_str!("papers/overview.toml"),
];

/// Bytes of pairs to load: the size of one region of vLSM's testbed.
pub(super) const BYTES: f64 = 17_500_000_000.0;
/// Flushes in a phase of length `chains`; three rounds then have 100 chains.
const FLUSHES: f64 = 36.0;
/// The seconds that background work may take to end.
const SETTLE: f64 = 600.0;

/// All figures.
pub(super) static FIGURES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let tables = TABLES.iter().map(|text| toml::from_str::<Table>(text));
    let tables = tables.map(|table| Arc::new(table.expect("the tables are well formed")));
    tables.flat_map(entries).collect()
});

fn entries(table: Arc<Table>) -> impl Iterator<Item = Entry> {
    (0..table.figure.len()).map(move |index| {
        let (table, row) = (table.clone(), table.figure[index].clone());
        Entry {
            // Leaked once, because entries live as long as the program.
            id: row.id.leak(),
            title: row.title.leak(),
            overview: row.overview,
            build: Box::new(move |setting| table.figure(&table.figure[index], setting)),
        }
    })
}

/// The figures of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// A sentence that many figures share about what differs from the paper. It replaces `{here}`.
    #[serde(default)]
    here: String,
    /// The peak rate of workloads with arrivals of their own, where it is not the source's.
    #[serde(default)]
    peaks: BTreeMap<String, f64>,
    /// Settings that several stores share.
    #[serde(default)]
    setups: BTreeMap<String, Setup>,
    stores: BTreeMap<String, Recipe>,
    runs: BTreeMap<String, Map>,
    figure: Vec<Row>,
}

/// A figure.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    title: String,
    /// See [`Entry::overview`].
    #[serde(default)]
    overview: bool,
    /// The figure whose row it takes over; its own `all` overrides that row's.
    like: Option<String>,
    #[serde(default)]
    says: String,
    #[serde(default)]
    here: String,
    /// Values that hold for all panels.
    #[serde(default)]
    all: Map,
    #[serde(default)]
    panels: Vec<Map>,
    /// Each of these measures adds a panel of bars.
    #[serde(default)]
    measures: Vec<Measure>,
    #[serde(default)]
    claims: Vec<Claim>,
}

/// A panel, with the numbers of the paper's text.
#[derive(Deserialize)]
struct PanelRow {
    title: String,
    form: String,
    measure: Measure,
    #[serde(default)]
    paper: Vec<Paper>,
    /// The points, if they are given in several parts.
    #[serde(default)]
    rows: Vec<Map>,
    #[serde(flatten)]
    cell: Map,
}

/// Where a point comes from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    /// The store, if the series has another name.
    store: Option<String>,
    run: String,
    phase: String,
    measure: Option<Measure>,
    /// The position on the x axis, if it is not the place's own.
    at: Option<f64>,
    regions: Option<String>,
    cache: Option<f64>,
    device: Option<u64>,
    #[serde(default)]
    policy: Map,
}

/// Points of a panel: its series and its places. They are ordered place by place (`by_x`) or series
/// by series.
#[derive(Deserialize)]
struct Points {
    of: Vec<String>,
    #[serde(default = "nowhere")]
    x: Vec<Value>,
    #[serde(default)]
    by_x: bool,
    #[serde(flatten)]
    cell: Map,
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
    /// Whether all writes of the last phase, half of its requests, must fit into one memtable.
    #[serde(default)]
    unflushed: bool,
}

fn nowhere() -> Vec<Value> {
    vec![Value::from(0)]
}

fn with(base: &Map, more: &Map) -> Map {
    base.clone().into_iter().chain(more.clone()).collect()
}

fn read<T: DeserializeOwned>(what: &str, map: Map) -> T {
    let read = serde_json::from_value(Value::Object(map));
    read.unwrap_or_else(|why| panic!("{what}: {why}"))
}

fn preset(name: &str) -> Preset {
    Preset::named(name).expect("figures name workloads that exist")
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

/// The value with `$1` and `$2` replaced by the arguments everywhere.
fn filled(value: &Value, arguments: &[&str]) -> Value {
    match value {
        Value::String(text) => {
            let put = |text: String, index: usize| {
                let argument = arguments.get(index).copied().unwrap_or_default();
                text.replace(&format!("${}", index + 1), argument)
            };
            Value::String((0..2).fold(text.clone(), put))
        }
        Value::Array(all) => all.iter().map(|one| filled(one, arguments)).collect(),
        Value::Object(all) => {
            let fill = |(name, one): (&String, &Value)| (name.clone(), filled(one, arguments));
            Value::Object(all.iter().map(fill).collect())
        }
        other => other.clone(),
    }
}

/// A number is its own position, an SST size has its number of MB, other names have their index.
fn place(value: &Value, index: usize) -> X {
    match value {
        Value::String(name) => match name.strip_suffix(" MB") {
            Some(size) => X { at: number(size), label: name.clone() },
            None => X { at: index as f64, label: name.clone() },
        },
        other => {
            let at = other.as_f64().expect("a place is a number or a name");
            X { at, label: format!("{at}") }
        }
    }
}

fn form(text: &str) -> Form {
    match text {
        "bars" => Form::Bars,
        "time" => Form::Time,
        "jobs" => Form::Jobs,
        name => Form::Lines(name.to_owned().into()),
    }
}

impl Table {
    fn figure(&self, own: &Row, setting: &Setting) -> Figure {
        let like = |other: &&Row| Some(&other.id) == own.like.as_ref();
        let row = self.figure.iter().find(like).unwrap_or(own);
        let all = with(&row.all, &own.all);
        let each = |measure: &Measure| {
            let head = serde_json::json!({"title": measure.name(), "form": "bars"});
            let mut head = head.as_object().cloned().expect("it is an object");
            let measure = serde_json::to_value(measure).expect("a measure has an encoding");
            head.insert("measure".into(), measure);
            head
        };
        let panels = row.panels.iter().cloned().chain(row.measures.iter().map(each));
        Figure {
            says: row.says.clone(),
            here: row.here.replace("{here}", &self.here),
            panels: panels.map(|panel| self.panel(with(&all, &panel), setting)).collect(),
            claims: row.claims.clone(),
        }
    }

    fn panel(&self, map: Map, setting: &Setting) -> Panel {
        let PanelRow { title, form: drawn, measure, paper, mut rows, cell } = read("a panel", map);
        if rows.is_empty() {
            rows.push(Map::new());
        }
        let mut points = Vec::new();
        for more in &rows {
            let Points { of, x, by_x, cell } = read(&title, with(&cell, more));
            let (inner, outer) = if by_x { (of.len(), x.len()) } else { (x.len(), of.len()) };
            for index in 0..inner * outer {
                let (a, b) = (index / inner, index % inner);
                let (series, at) = if by_x { (b, a) } else { (a, b) };
                points.push(self.point((&of[series], &cell), (at, &x[at]), measure, setting));
            }
        }
        Panel { title, form: form(&drawn), measure, points, paper }
    }

    fn point(
        &self,
        (series, cell): (&str, &Map),
        (index, at): (usize, &Value),
        measure: Measure,
        setting: &Setting,
    ) -> Point {
        let mut more = at.as_object().cloned().unwrap_or_default();
        let named = more.remove("x");
        let mut x = place(named.as_ref().unwrap_or(at), index);
        let cell: Cell = read(series, with(cell, &more));
        x.at = cell.at.unwrap_or(x.at);
        let fill = |text: &str| text.replace("{x}", x.label.trim_end_matches(" MB"));
        let (series, store) = series.split_once(" = ").unwrap_or((series, series));
        let store = fill(cell.store.as_deref().unwrap_or(store));
        let run = self.store(&store, &cell, &fill, setting);
        let run = run.map(|store| self.run(&fill(&cell.run), store, cell.device, setting));
        let source = match run {
            Ok(run) => Source::Run(Arc::new(run), fill(&cell.phase)),
            Err(why) => Source::NotBuilt(why),
        };
        let series = series.split('@').next().unwrap_or(series).to_owned();
        Point { series, x, measure: cell.measure.unwrap_or(measure), source, added: false }
    }

    /// The store of a point: one of the table's, with another SST size after `@`.
    fn store(
        &self,
        name: &str,
        cell: &Cell,
        fill: &dyn Fn(&str) -> String,
        setting: &Setting,
    ) -> Arm {
        let (name, sst) = match name.split_once('@') {
            Some((name, sst)) => (name, Some(number(sst) as u64)),
            None => (name, None),
        };
        let known = |recipe: Option<&Recipe>| recipe.cloned().expect("the table has the store");
        let recipe = known(self.stores.get(name));
        let setup = recipe.setup.as_ref().map(|name| self.setups[name].clone()).unwrap_or_default();
        let regions = cell.regions.as_ref().map_or(1, |regions| number(&fill(regions)) as usize);
        let own = Store { recipe, setup, sst, policy: cell.policy.clone(), regions };
        let cache = cell.cache.or(own.setup.cache);
        let mut store = own.spec(setting)?;
        if let Some(share) = cache {
            store.cache = (setting.scale.count(BYTES as u64) as f64 * share) as u64;
        }
        Ok(store)
    }

    /// A run with its arguments on a store. Its data is loaded first. After each phase it waits for
    /// background work to end.
    fn run(&self, text: &str, store: StoreSpec, device: Option<u64>, setting: &Setting) -> RunSpec {
        let mut words = text.split(", ");
        let name = words.next().unwrap_or_default();
        let template = Value::Object(self.runs[name].clone());
        let run = filled(&template, &words.collect::<Vec<_>>());
        let run: Run = serde_json::from_value(run).unwrap_or_else(|why| panic!("{name}: {why}"));
        let shape = preset(&run.shape).shape;
        let pairs = run.pairs.unwrap_or((BYTES / shape.pair_bytes()) as u64);
        let pairs = setting.scale.count(pairs);
        let phases = run.phases.iter().map(|phase| self.phase(phase, &store, setting));
        let phases: Vec<PhaseSpec> = phases.collect();
        let last = phases.last().expect("a run has phases").clone();
        let phases = phases.into_iter().map(Step::Phase);
        let mut steps: Vec<Step> = phases.flat_map(|phase| [phase, Step::Settle(SETTLE)]).collect();
        let data = DataSpec { pairs, shape };
        if run.unflushed {
            let memtable = Step::Reopen(Change::memtable(unflushed(&last, &data)), SETTLE);
            steps.insert(steps.len() - 2, memtable);
        }
        let store = store.with_memory_for(pairs);
        RunSpec {
            load: Some(LoadSpec { options: super::stores::loading(&store), settle: SETTLE }),
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
        let offered = self.offered(offered, workload, setting);
        let workload = preset(workload).workload;
        PhaseSpec {
            name: name.clone(),
            interval: setting.interval(&workload),
            workload,
            seconds: Some(seconds(length, &offered, store, setting)),
            offered,
            ops: None,
        }
    }

    fn offered(&self, text: &str, workload: &str, setting: &Setting) -> Offered {
        let own = || {
            let own = preset(workload).arrivals.expect("it has arrivals of its own");
            match (own, self.peaks.get(workload)) {
                (Arrivals::Varying(pattern), Some(peak)) => {
                    Arrivals::Varying(pattern.with_peak(*peak))
                }
                (own, _) => own,
            }
        };
        if let Some(share) = text.strip_suffix('%') {
            return Offered::OfMaximum(number(share) / 100.0);
        }
        Offered::As(match text.split_once([' ', '/']) {
            None if text == "closed" => Arrivals::Closed,
            None if text == "own" => own().scale(setting.scale.seconds(1.0)),
            Some(("own", part)) => {
                Arrivals::Open(own().peak().expect("its rate is known") / number(part))
            }
            Some(("open", rate)) => Arrivals::Open(number(rate)),
            Some(("poisson", rate)) => Arrivals::Poisson(number(rate)),
            _ => panic!("{text:?} is no way to offer work"),
        })
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
    use crate::figures::{Setting, named};
    use crate::scale::Scale;
    use vlsm_core::{Bytes, Micros};
    use vlsm_policy::{Counters, Signals};

    #[test]
    fn the_silk_that_dlc_is_compared_with_pauses_while_the_load_is_high() {
        let setting = Setting { scale: Scale::CAMPAIGN, dir: None, peers: false, seconds: 20.0 };
        let runs = (named("dlc-6").expect("it exists").build)(&setting).runs();
        let run = runs.iter().find(|run| run.store.config == "silk-dlc-load");
        let policy = run.expect("it takes part").store.options.policy.clone();
        let limit = |load: u64| {
            let (_, mut silk, _) = policy.build().expect("the options work");
            let mut after = |seconds: u64| {
                let cache_miss_bytes = Bytes(seconds * (load << 20));
                let counters = Counters { cache_miss_bytes, ..Counters::default() };
                let now = Micros(seconds * 1_000_000);
                silk.decide(&Signals { now, counters, ..Signals::default() }, &[], &[])
            };
            after(1);
            after(2).bandwidth.expect("it has a limit").limit
        };
        // A limit at the floor pauses deeper jobs.
        assert_eq!(limit(260), policy.schedules.silk.floor);
        assert!(limit(65) > policy.schedules.silk.floor);
    }
}
