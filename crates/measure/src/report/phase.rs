//! The charts of one phase, all stores overlaid: latency percentiles, throughput and latency over
//! time with stalls under them, levels and background jobs, chains, amplification, processor time,
//! memory and device.
//!
//! 1. A store has the same colour and marker everywhere, by its place among the reports.
//! 2. Levels and jobs have a chart for each store, under each other, all over the same seconds. The
//!    other charts overlay the stores.
//! 3. Charts for which no store has values are left out and named at the end as not measured.

use super::chart::{Axis, Chart, Colour, Lane, Mark, Point, Rule, Series, Span, Unit, cdf};
use super::{ChainMark, JobMark, PhaseReport, Sample};
use crate::arrivals::{Arrivals, Pattern};
use crate::metrics::{self, Group, Percentiles};
use std::collections::BTreeMap;
use vlsm_core::Bytes;

/// A chart with its place on the page.
pub(super) struct Placed {
    pub chart: Chart,
    /// Whether it takes the whole width instead of half of it.
    pub full: bool,
    pub height: u32,
}

/// A phase of one store.
pub(super) struct Of<'a> {
    /// The store's name.
    pub name: &'a str,
    /// Its place among the stores, which decides its colour.
    pub slot: usize,
    pub phase: &'a PhaseReport,
}

/// A latency of an interval in microseconds; 0 if the interval has none.
type Latency = fn(&metrics::Point) -> f64;

/// The charts of latencies over time: the group of operations that they are about, their name if
/// they are missing, their title and value.
const LATENCIES: [(Option<Group>, &str, &str, Latency); 3] = [
    (
        Some(Group::Write),
        "latency of writes over time",
        "P99 of writes, of at least 1,000 at a time",
        |point| point.write_p99_us,
    ),
    (
        Some(Group::Read),
        "latency of reads over time",
        "P99 of reads, of at least 1,000 at a time",
        |point| point.read_p99_us,
    ),
    (None, "longest operation over time", "Longest operation in each interval", |p| p.max_us),
];

/// All charts, and the names of those that no store has values for. A chart without a name is there
/// in any case, and says itself that it has no values.
pub(super) fn charts(all: &[Of]) -> (Vec<Placed>, Vec<&'static str>) {
    let mut charts = Vec::new();
    let mut missing = Vec::new();
    let mut add = |full: bool, height: u32, name: &'static str, chart: Chart| {
        if chart.measured() || name.is_empty() {
            charts.push(Placed { chart, full, height });
        } else {
            missing.push(name);
        }
    };
    let any = |found: &dyn Fn(&PhaseReport) -> bool| all.iter().any(|of| found(of.phase));
    let of_group = |group: Group| any(&|phase| phase.percentiles(group).is_some());
    for group in [Group::Write, Group::Read, Group::Scan, Group::Transaction] {
        if of_group(group) {
            add(false, 320, "", percentiles(all, group));
        }
    }
    add(true, 270, "throughput over time", throughput(all));
    for (group, name, title, us) in LATENCIES {
        if group.is_none_or(of_group) {
            add(true, 250, name, latency(all, title, us));
        }
    }
    if any(&|phase| phase.series.0.iter().any(|point| point.backlog > 0)) {
        let requests = Axis::linear("requests", Unit::Plain);
        let waiting = |phase: &PhaseReport| over_time(phase, |point| point.backlog as f64);
        let chart = over_seconds(all, "Requests that are due and not begun", requests, waiting);
        add(true, 220, "requests waiting", chart);
    }
    for of in all {
        if !of.phase.samples.is_empty() || !of.phase.jobs.is_empty() {
            add(true, 260, "", levels(of, all.len() > 1));
        }
    }
    add(false, 280, "compaction chains", chain_widths(all));
    if any(&|phase| phase.standing().next().is_some()) {
        add(false, 280, "compaction chains", chain_lengths(all));
    }
    add(false, 280, "amplification", amplification(all));
    let cores = Axis::linear("cores busy, the driver's included", Unit::Plain);
    let chart = over_seconds(all, "Processor time", cores, |phase| growth(phase, cpu_seconds));
    add(false, 280, "processor time over time", chart);
    let resident = Axis::linear("bytes of the process", Unit::Bytes);
    add(false, 280, "memory over time", over_seconds(all, "Resident memory", resident, memory));
    let speed = Axis::linear("bytes per second", Unit::Bytes);
    let chart =
        over_seconds(all, "Device, read and written", speed, |phase| growth(phase, device_bytes));
    add(false, 280, "device bytes over time", chart);
    if !any(&|phase| !phase.samples.is_empty()) {
        missing.push("levels over time");
    }
    if !any(&|phase| !phase.jobs.is_empty()) {
        missing.push("background jobs");
    }
    (charts, missing)
}

fn seconds(all: &[Of]) -> Axis {
    let end = all.iter().map(|of| of.phase.seconds).fold(1.0, f64::max);
    Axis::linear("time since the phase began", Unit::Seconds).range(0.0, end)
}

/// A series for each store that has points.
fn each<P: Into<Point>>(
    all: &[Of],
    mark: Mark,
    points: impl Fn(&PhaseReport) -> Vec<P>,
) -> Vec<Series> {
    let one = |of: &Of| Series::new(of.name, mark, points(of.phase)).colour(Colour::Slot(of.slot));
    all.iter().map(one).filter(|series| !series.points.is_empty()).collect()
}

/// A chart over the seconds of the phase with a line for each store.
fn over_seconds(
    all: &[Of],
    title: &str,
    y: Axis,
    points: impl Fn(&PhaseReport) -> Vec<(f64, f64)>,
) -> Chart {
    let (x, series) = (seconds(all), each(all, Mark::Line, points));
    Chart { title: title.into(), x, y, series, ..Chart::default() }
}

/// A value of each interval at its middle.
fn over_time(phase: &PhaseReport, value: impl Fn(&metrics::Point) -> f64) -> Vec<(f64, f64)> {
    let middle =
        |(begin, point): (f64, &metrics::Point)| (begin + point.seconds / 2.0, value(point));
    phase.series.placed().map(middle).collect()
}

/// Stretches of intervals without a completed operation; `title` gets their seconds.
fn stalls(phase: &PhaseReport, colour: Colour, title: impl Fn(f64) -> String) -> Vec<Span> {
    let span = |(from, to)| Span { from, to, colour, title: title(to - from) };
    phase.series.at_zero().into_iter().map(span).collect()
}

fn bands(phase: &PhaseReport) -> Vec<Span> {
    stalls(phase, Colour::Alarm, |_| "no operation completed".into())
}

/// Adds the stalls: shaded for one store, a lane for each of several.
fn with_stalls(mut chart: Chart, all: &[Of]) -> Chart {
    if let [of] = all {
        chart.bands = bands(of.phase);
        return chart;
    }
    let lane = |of: &Of| {
        let title = |s| format!("{}: nothing completed for {}", of.name, Unit::Seconds.text(s));
        Lane { label: short(of.name), spans: stalls(of.phase, Colour::Slot(of.slot), title) }
    };
    if all.iter().any(|of| of.phase.stalls.count > 0) {
        chart.subtitle = "under it, for each store, when no operation completed".into();
        chart.lanes = all.iter().map(lane).collect();
    }
    chart
}

/// A name, cut so that it fits left of a lane in the margin that all charts have.
fn short(name: &str) -> String {
    match name.chars().count() {
        0..=8 => name.to_owned(),
        _ => name.chars().take(7).chain(['…']).collect(),
    }
}

fn throughput(all: &[Of]) -> Chart {
    let axis = Axis::linear("operations per second", Unit::PerSecond);
    let points = |phase: &PhaseReport| over_time(phase, metrics::Point::throughput);
    let mut chart = over_seconds(all, "Throughput", axis, points);
    for of in all {
        match &of.phase.arrivals {
            Arrivals::Open(rate) | Arrivals::Poisson(rate) => {
                let rule = Rule { at: *rate, upright: false, label: "offered".into() };
                if !chart.rules.contains(&rule) {
                    chart.rules.push(rule);
                }
            }
            Arrivals::Varying(pattern) if chart.series.iter().all(|line| !line.reference) => {
                let line = Series::new("offered", Mark::Steps, offered(pattern, of.phase.seconds));
                chart.series.push(line.colour(Colour::Muted).reference());
            }
            _ => {}
        }
    }
    with_stalls(chart, all)
}

/// The rates of a pattern from its begin to the end of a phase, for at most 10,000 segments.
fn offered(pattern: &Pattern, end: f64) -> Vec<(f64, f64)> {
    let begins = pattern.segments.iter().cycle().scan(0.0, |next, segment| {
        let begin = *next;
        *next += segment.seconds;
        Some((begin, segment.rate))
    });
    let mut points: Vec<_> = begins.take(10_000).take_while(|(begin, _)| *begin < end).collect();
    points.extend(points.last().map(|(_, rate)| (end, *rate)));
    points
}

fn latency(all: &[Of], title: &str, us: Latency) -> Chart {
    // The line has a gap where nothing was completed. An interval whose requests are counted with
    // those of later ones has no point.
    let known = |point: &metrics::Point| match us(point) {
        us if us > 0.0 => Some(us),
        _ => (point.ops == 0).then_some(f64::NAN),
    };
    let points = |phase: &PhaseReport| {
        let values = phase.series.0.iter().map(known);
        let placed = over_time(phase, |_| 0.0).into_iter().zip(values);
        placed.filter_map(|((at, _), value)| Some((at, value?))).collect()
    };
    let axis = Axis::log("latency", Unit::Micros);
    with_stalls(over_seconds(all, title, axis, points), all)
}

/// Quantiles of latencies. Of n latencies, the longest is at the quantile 1 − 1/n.
fn quantiles(found: &Percentiles) -> Vec<(f64, f64)> {
    let last = 1.0 - 1.0 / found.count.max(2) as f64;
    let points = [
        (0.5, found.p50_us),
        (0.9, found.p90_us),
        (0.99, found.p99_us),
        (0.999, found.p999_us),
        (0.9999, found.p9999_us),
    ];
    // If there are few operations, the last quantiles are all the longest one.
    let known = points.into_iter().filter(|(q, _)| *q < last);
    known.chain([(last, found.max_us)]).collect()
}

fn percentiles(all: &[Of], group: Group) -> Chart {
    let of_group = |phase: &PhaseReport| phase.percentiles(group).map_or(Vec::new(), quantiles);
    let mut series = each(all, Mark::Line, of_group);
    let floors = all.iter().map(|of| of.phase.floor).filter(|floor| floor.p999_us > 0.0);
    if let Some(floor) = floors.max_by(|a, b| a.p999_us.total_cmp(&b.p999_us)) {
        let points = [(0.99, floor.p99_us), (0.999, floor.p999_us)];
        let line = Series::new("driver alone", Mark::Line, points);
        series.push(line.colour(Colour::Muted).reference());
    }
    Chart {
        title: format!("Latency of {}", group.name()),
        subtitle: "the last point of each line is the longest".into(),
        x: Axis::quantiles("percentile"),
        y: Axis::log("latency", Unit::Micros),
        series,
        ..Chart::default()
    }
}

/// Bytes of each level over time, and under them the background jobs by level.
fn levels(of: &Of, several: bool) -> Chart {
    let samples = &of.phase.samples;
    let count = samples.iter().map(|sample| sample.levels.len()).max().unwrap_or(0);
    // Few levels use every second colour of the ramp.
    let step = if count <= 4 { 2 } else { 1 };
    let colours = |level: usize| Colour::Ramp(level * step);
    let area = |level: usize| {
        let bytes = |sample: &Sample| sample.levels.get(level).copied().unwrap_or(0);
        let points = samples.iter().map(|sample| (sample.at, bytes(sample) as f64));
        Series::new(&format!("L{level}"), Mark::Stacked, points).colour(colours(level))
    };
    let name = if several { format!(": {}", of.name) } else { String::new() };
    Chart {
        title: format!("Levels and background jobs{name}"),
        x: seconds(std::slice::from_ref(of)),
        y: Axis::linear("bytes of each level", Unit::Bytes),
        series: (0..count).map(area).collect(),
        bands: bands(of.phase),
        lanes: lanes(&of.phase.jobs, colours),
        ..Chart::default()
    }
}

/// A lane for flushes, and one for each level that jobs read from.
fn lanes(jobs: &[JobMark], colours: impl Fn(usize) -> Colour) -> Vec<Lane> {
    let mut lanes: BTreeMap<(u8, String), Vec<Span>> = BTreeMap::new();
    for job in jobs {
        let JobMark { kind, from, to, start, end, .. } = job;
        let (place, label, colour) = match kind.as_str() {
            "flush" => (0, "flush".to_owned(), Colour::Muted),
            "merge_within" => (1 + from, format!("in L{from}"), colours(usize::from(*to))),
            _ => (1 + from, format!("L{from} → L{to}"), colours(usize::from(*to))),
        };
        let title = format!(
            "{} {label}, {} read, {} written, {} from {start:.1} s on",
            kind.replace('_', " "),
            Bytes(job.read),
            Bytes(job.written),
            Unit::Seconds.text(end - start),
        );
        let span = Span { from: *start, to: *end, colour, title };
        lanes.entry((place, label)).or_default().push(span);
    }
    lanes.into_iter().map(|((_, label), spans)| Lane { label, spans }).collect()
}

fn chain_widths(all: &[Of]) -> Chart {
    let widths = |phase: &PhaseReport| {
        cdf(&phase.standing().map(|chain| chain.width() as f64).collect::<Vec<_>>())
    };
    Chart {
        title: "Width of compaction chains".into(),
        x: Axis::linear("bytes of a chain, all stages", Unit::Bytes),
        y: Axis::linear("share of chains at most so wide", Unit::Percent).range(0.0, 100.0),
        series: each(all, Mark::Steps, widths),
        ..Chart::default()
    }
}

/// The shares of chains of each length, from the shortest to the longest; the last bar has all of
/// eight stages and more.
fn chain_lengths(all: &[Of]) -> Chart {
    let stages = |chain: &ChainMark| chain.stages.len().min(8);
    let lengths = || all.iter().flat_map(|of| of.phase.standing()).map(stages);
    let lengths = lengths().min().unwrap_or(0)..=lengths().max().unwrap_or(0);
    let shares = |phase: &PhaseReport| -> Vec<(f64, f64)> {
        let all: Vec<usize> = phase.standing().map(stages).collect();
        let share = |(x, length): (usize, usize)| {
            let count = all.iter().filter(|found| **found == length).count();
            (x as f64, count as f64 / all.len() as f64 * 100.0)
        };
        if all.is_empty() { Vec::new() } else { lengths.clone().enumerate().map(share).collect() }
    };
    let name = |length: usize| match length {
        1 => "1 stage".to_owned(),
        8 => "8 or more".to_owned(),
        _ => format!("{length} stages"),
    };
    Chart {
        title: "Length of compaction chains".into(),
        x: Axis::names(lengths.clone().map(name)),
        y: Axis::linear("share of chains", Unit::Percent),
        series: each(all, Mark::Bars, shares),
        ..Chart::default()
    }
}

fn amplification(all: &[Of]) -> Chart {
    let values = |phase: &PhaseReport| -> Vec<(f64, f64)> {
        let amp = &phase.amplification;
        let written = amp.device_write().or(amp.write()).map(|times| (0.0, times));
        let moved = amp.device_io().or(amp.io()).map(|times| (1.0, times));
        written.into_iter().chain(moved).collect()
    };
    Chart {
        title: "Amplification in the phase".into(),
        subtitle: "bytes to and from the device ÷ bytes of pairs written".into(),
        x: Axis::names(["written", "read and written"]),
        y: Axis::linear("", Unit::Times),
        series: each(all, Mark::Bars, values),
        ..Chart::default()
    }
}

/// The growth of a counter per second, between each two samples.
fn growth(phase: &PhaseReport, value: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let speed = |pair: &[Sample]| {
        let (before, after) = (&pair[0], &pair[1]);
        let seconds = after.at - before.at;
        let grown = value(after)? - value(before)?;
        (seconds > 0.0).then(|| (f64::midpoint(before.at, after.at), grown / seconds))
    };
    phase.samples.windows(2).filter_map(speed).collect()
}

fn cpu_seconds(sample: &Sample) -> Option<f64> {
    (sample.cpu_nanos > 0).then_some(sample.cpu_nanos as f64 / 1e9)
}

fn device_bytes(sample: &Sample) -> Option<f64> {
    sample.device.map(|device| (device.read + device.written) as f64)
}

fn memory(phase: &PhaseReport) -> Vec<(f64, f64)> {
    let known = phase.samples.iter().filter(|sample| sample.memory > 0);
    known.map(|sample| (sample.at, sample.memory as f64)).collect()
}
