//! The charts of one phase, all stores overlaid: latency percentiles, throughput and latency over
//! time with stalls under them, levels and background jobs, chains, amplification, processor time,
//! memory and device.
//!
//! 1. A store has the same colour and marker everywhere, by its place among the reports.
//! 2. Levels and jobs have a chart for each store, under each other, all over the same seconds. The
//!    other charts overlay the stores.
//! 3. Charts for which no store has values are left out and named at the end as not measured.

use super::chart::{Axis, Band, Chart, Colour, Lane, Mark, Point, Rule, Series, Span, Unit, cdf};
use super::{ChainMark, JobMark, PhaseReport};
use crate::arrivals::{Arrivals, Pattern};
use crate::metrics::{self, Group, Percentiles};
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

/// All charts, and the names of those that no store has values for.
pub(super) fn charts(all: &[Of]) -> (Vec<Placed>, Vec<&'static str>) {
    let mut charts = Vec::new();
    let mut missing = Vec::new();
    let mut add = |full: bool, height: u32, name: &'static str, chart: Option<Chart>| match chart {
        Some(chart) => charts.push(Placed { chart, full, height }),
        None => missing.push(name),
    };
    for group in [Group::Write, Group::Read, Group::Scan, Group::Transaction] {
        if let Some(chart) = percentiles(all, group) {
            add(false, 320, "", Some(chart));
        }
    }
    add(true, 270, "throughput over time", throughput(all));
    for (group, name) in
        [(Group::Write, "latency of writes over time"), (Group::Read, "latency of reads over time")]
    {
        if all.iter().any(|of| of.phase.percentiles(group).is_some()) {
            add(true, 250, name, latency(all, group));
        }
    }
    add(true, 250, "longest operation over time", longest(all));
    if all.iter().any(|of| of.phase.series.0.iter().any(|point| point.backlog > 0)) {
        add(true, 220, "requests waiting", backlog(all));
    }
    for of in all {
        if !of.phase.samples.is_empty() || !of.phase.jobs.is_empty() {
            add(true, 260, "levels over time", Some(levels(of, all.len() > 1)));
        }
    }
    let none = |found: bool, name| (!found).then_some(name);
    let samples = all.iter().any(|of| !of.phase.samples.is_empty());
    let jobs = all.iter().any(|of| !of.phase.jobs.is_empty());
    add(false, 280, "compaction chains", chain_widths(all));
    if all.iter().any(|of| !of.phase.chains.is_empty()) {
        add(false, 280, "compaction chains", chain_lengths(all));
    }
    add(false, 280, "amplification", amplification(all));
    add(false, 280, "processor time over time", processors(all));
    add(false, 280, "memory over time", memory(all));
    add(false, 280, "device bytes over time", device(all));
    missing.extend(none(samples, "levels over time"));
    missing.extend(none(jobs, "background jobs"));
    (charts, missing)
}

/// Whether a chart has any value.
fn drawn(chart: Chart) -> Option<Chart> {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    points().any(|point| point.y.is_finite()).then_some(chart)
}

fn seconds(all: &[Of]) -> Axis {
    let end = all.iter().map(|of| of.phase.seconds).fold(1.0, f64::max);
    Axis::linear("time since the phase began", Unit::Seconds).range(0.0, end)
}

/// A line for each store.
fn lines(all: &[Of], points: impl Fn(&PhaseReport) -> Vec<(f64, f64)>) -> Vec<Series> {
    let line =
        |of: &Of| Series::new(of.name, Mark::Line, points(of.phase)).colour(Colour::Slot(of.slot));
    all.iter().map(line).filter(|series| !series.points.is_empty()).collect()
}

/// A value of each interval at its middle.
fn over_time(phase: &PhaseReport, value: impl Fn(&metrics::Point) -> f64) -> Vec<(f64, f64)> {
    let mut begin = 0.0;
    let place = |point: &metrics::Point| {
        let at = begin + point.seconds / 2.0;
        begin += point.seconds;
        (at, value(point))
    };
    phase.series.0.iter().map(place).collect()
}

/// Stretches of intervals without a completed operation.
fn stalls(phase: &PhaseReport) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = Vec::new();
    let mut begin = 0.0;
    // Leave out a short last interval, which says little.
    let least = phase.series.interval() / 2.0;
    for point in &phase.series.0 {
        let end = begin + point.seconds;
        if point.ops == 0 && point.seconds >= least {
            match found.last_mut().filter(|last| last.1 == begin) {
                Some(last) => last.1 = end,
                None => found.push((begin, end)),
            }
        }
        begin = end;
    }
    found
}

fn bands(phase: &PhaseReport) -> Vec<Band> {
    let band = |(from, to)| Band {
        from,
        to,
        label: "no operation completed".into(),
        colour: Colour::Alarm,
    };
    stalls(phase).into_iter().map(band).collect()
}

/// Adds the stalls: shaded for one store, a lane for each of several.
fn with_stalls(mut chart: Chart, all: &[Of]) -> Chart {
    if let [of] = all {
        chart.bands = bands(of.phase);
        return chart;
    }
    let lane = |of: &Of| {
        let span = |(from, to): (f64, f64)| Span {
            from,
            to,
            colour: Colour::Slot(of.slot),
            title: format!("{}: nothing completed for {}", of.name, Unit::Seconds.text(to - from)),
        };
        let spans: Vec<Span> = stalls(of.phase).into_iter().map(span).collect();
        Lane { label: short(of.name), spans }
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

fn throughput(all: &[Of]) -> Option<Chart> {
    let mut series = lines(all, |phase| over_time(phase, metrics::Point::throughput));
    let mut rates: Vec<f64> = Vec::new();
    for of in all {
        match &of.phase.arrivals {
            Arrivals::Open(rate) | Arrivals::Poisson(rate) if !rates.contains(rate) => {
                rates.push(*rate);
            }
            Arrivals::Varying(pattern) if series.iter().all(|series| !series.reference) => {
                let line = Series::new("offered", Mark::Steps, offered(pattern, of.phase.seconds));
                series.push(line.colour(Colour::Muted).reference());
            }
            _ => {}
        }
    }
    let rule = |at| Rule { at, upright: false, label: "offered".into() };
    let chart = Chart {
        title: "Throughput".into(),
        x: seconds(all),
        y: Axis::linear("operations per second", Unit::PerSecond),
        series,
        rules: rates.into_iter().map(rule).collect(),
        ..Chart::default()
    };
    drawn(with_stalls(chart, all))
}

/// The rates of a pattern from its begin to the end of a phase, for at most 10,000 segments.
fn offered(pattern: &Pattern, end: f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut at = 0.0;
    for segment in pattern.segments.iter().cycle().take(10_000) {
        if at >= end {
            break;
        }
        points.push((at, segment.rate));
        at += segment.seconds;
    }
    points.extend(points.last().map(|(_, rate)| (end, *rate)));
    points
}

/// A latency of an interval; an interval without operations has none.
fn known(us: f64) -> f64 {
    if us > 0.0 { us } else { f64::NAN }
}

fn latency(all: &[Of], group: Group) -> Option<Chart> {
    let p99 = |point: &metrics::Point| {
        known(if group == Group::Read { point.read_p99_us } else { point.write_p99_us })
    };
    let chart = Chart {
        title: format!("P99 of {} in each interval", group.name()),
        x: seconds(all),
        y: Axis::log("latency", Unit::Micros),
        series: lines(all, |phase| over_time(phase, p99)),
        ..Chart::default()
    };
    drawn(with_stalls(chart, all))
}

fn longest(all: &[Of]) -> Option<Chart> {
    let chart = Chart {
        title: "Longest operation in each interval".into(),
        x: seconds(all),
        y: Axis::log("latency", Unit::Micros),
        series: lines(all, |phase| over_time(phase, |point| known(point.max_us))),
        ..Chart::default()
    };
    drawn(with_stalls(chart, all))
}

fn backlog(all: &[Of]) -> Option<Chart> {
    let chart = Chart {
        title: "Requests that are due and not begun".into(),
        x: seconds(all),
        y: Axis::linear("requests", Unit::Plain),
        series: lines(all, |phase| over_time(phase, |point| point.backlog as f64)),
        ..Chart::default()
    };
    drawn(chart)
}

/// Quantiles of latencies. Of n latencies, the longest is at the quantile 1 − 1/n.
fn quantiles(found: &Percentiles) -> Vec<(f64, f64)> {
    let last = 1.0 - 1.0 / found.count.max(2) as f64;
    let mut points = vec![
        (0.5, found.p50_us),
        (0.9, found.p90_us),
        (0.99, found.p99_us),
        (0.999, found.p999_us),
        (0.9999, found.p9999_us),
    ];
    // If there are few operations, the last quantiles are all the longest one.
    points.retain(|(q, _)| *q < last);
    points.push((last, found.max_us));
    points
}

fn percentiles(all: &[Of], group: Group) -> Option<Chart> {
    let of_group = |phase: &PhaseReport| phase.percentiles(group).map_or(Vec::new(), quantiles);
    let mut series = lines(all, of_group);
    if series.is_empty() {
        return None;
    }
    let floors = all.iter().map(|of| of.phase.floor).filter(|floor| floor.p999_us > 0.0);
    if let Some(floor) = floors.reduce(|a, b| if a.p999_us > b.p999_us { a } else { b }) {
        let points = [(0.99, floor.p99_us), (0.999, floor.p999_us)];
        let line = Series::new("driver alone", Mark::Line, points);
        series.push(line.colour(Colour::Muted).reference());
    }
    Some(Chart {
        title: format!("Latency of {}", group.name()),
        subtitle: "the last point of each line is the longest".into(),
        x: Axis::quantiles("percentile"),
        y: Axis::log("latency", Unit::Micros),
        series,
        ..Chart::default()
    })
}

/// Bytes of each level over time, and under them the background jobs by level.
fn levels(of: &Of, several: bool) -> Chart {
    let samples = &of.phase.samples;
    let count = samples.iter().map(|sample| sample.levels.len()).max().unwrap_or(0);
    // Few levels use every second colour of the ramp.
    let step = if count <= 4 { 2 } else { 1 };
    let colours = |level: usize| Colour::Ramp(level * step);
    let area = |level: usize| {
        let bytes = |sample: &super::Sample| sample.levels.get(level).copied().unwrap_or(0);
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
    let label = |job: &JobMark| match job.kind.as_str() {
        "flush" => (0, "flush".to_owned()),
        "merge_within" => (1 + job.from, format!("in L{}", job.from)),
        _ => (1 + job.from, format!("L{} → L{}", job.from, job.to)),
    };
    let mut labels: Vec<(u8, String)> = jobs.iter().map(label).collect();
    labels.sort();
    labels.dedup();
    let span = |job: &JobMark| Span {
        from: job.start,
        to: job.end,
        colour: if job.kind == "flush" { Colour::Muted } else { colours(usize::from(job.to)) },
        title: format!(
            "{} {}, {} read, {} written, {} from {:.1} s on",
            job.kind.replace('_', " "),
            label(job).1,
            Bytes(job.read),
            Bytes(job.written),
            Unit::Seconds.text(job.end - job.start),
            job.start,
        ),
    };
    let lane = |key: &(u8, String)| Lane {
        label: key.1.clone(),
        spans: jobs.iter().filter(|job| label(job) == *key).map(span).collect(),
    };
    labels.iter().map(lane).collect()
}

fn chain_widths(all: &[Of]) -> Option<Chart> {
    let widths = |phase: &PhaseReport| -> Vec<f64> {
        phase.standing().map(|chain| chain.width() as f64).collect()
    };
    let series = |of: &Of| {
        let line = Series::new(of.name, Mark::Steps, cdf(&widths(of.phase)));
        line.colour(Colour::Slot(of.slot))
    };
    drawn(Chart {
        title: "Width of compaction chains".into(),
        x: Axis::linear("bytes of a chain, all stages", Unit::Bytes),
        y: Axis::linear("share of chains at most so wide", Unit::Percent).range(0.0, 100.0),
        series: all.iter().map(series).filter(|series| !series.points.is_empty()).collect(),
        ..Chart::default()
    })
}

fn chain_lengths(all: &[Of]) -> Option<Chart> {
    let stages = |chain: &ChainMark| chain.stages.len();
    let chains = || all.iter().flat_map(|of| of.phase.standing());
    let most = chains().map(stages).max()?.min(8);
    let least = chains().map(stages).min()?.min(most);
    let series = |of: &Of| {
        let all = of.phase.standing();
        let share = |length: usize| {
            let count = all.clone().filter(|chain| stages(chain).min(most) == length).count();
            let share = count as f64 / all.clone().count() as f64 * 100.0;
            ((length - least) as f64, share)
        };
        let bars = Series::new(of.name, Mark::Bars, (least..=most).map(share));
        bars.colour(Colour::Slot(of.slot))
    };
    let name = |length: usize| match length {
        1 => "1 stage".to_owned(),
        8 => "8 or more".to_owned(),
        _ => format!("{length} stages"),
    };
    drawn(Chart {
        title: "Length of compaction chains".into(),
        x: Axis::names((least..=most).map(name)),
        y: Axis::linear("share of chains", Unit::Percent),
        series: all.iter().filter(|of| of.phase.standing().next().is_some()).map(series).collect(),
        ..Chart::default()
    })
}

fn amplification(all: &[Of]) -> Option<Chart> {
    let series = |of: &Of| {
        let amp = &of.phase.amplification;
        let values = [amp.device_write().or(amp.write()), amp.device_io().or(amp.io())];
        let point = |(x, y): (usize, &Option<f64>)| y.map(|y| Point::from((x as f64, y)));
        let points: Vec<Point> = values.iter().enumerate().filter_map(point).collect();
        Series::new(of.name, Mark::Bars, points).colour(Colour::Slot(of.slot))
    };
    drawn(Chart {
        title: "Amplification in the phase".into(),
        subtitle: "bytes to and from the device ÷ bytes of pairs written".into(),
        x: Axis::names(["written", "read and written"]),
        y: Axis::linear("", Unit::Times),
        series: all.iter().map(series).collect(),
        ..Chart::default()
    })
}

/// The growth of a counter per second, between each two samples.
fn growth(phase: &PhaseReport, value: impl Fn(&super::Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let pairs = phase.samples.windows(2);
    let speed = |pair: &[super::Sample]| {
        let (before, after) = (&pair[0], &pair[1]);
        let seconds = after.at - before.at;
        let grown = value(after)? - value(before)?;
        (seconds > 0.0).then(|| (f64::midpoint(before.at, after.at), grown / seconds))
    };
    pairs.filter_map(speed).collect()
}

fn processors(all: &[Of]) -> Option<Chart> {
    let cpu = |phase: &PhaseReport| {
        growth(phase, |sample| Some(sample.cpu_nanos as f64 / 1e9).filter(|cpu| *cpu > 0.0))
    };
    drawn(Chart {
        title: "Processor time".into(),
        x: seconds(all),
        y: Axis::linear("cores busy, the driver's included", Unit::Plain),
        series: lines(all, cpu),
        ..Chart::default()
    })
}

fn memory(all: &[Of]) -> Option<Chart> {
    let memory = |phase: &PhaseReport| {
        let known = phase.samples.iter().filter(|sample| sample.memory > 0);
        known.map(|sample| (sample.at, sample.memory as f64)).collect()
    };
    drawn(Chart {
        title: "Resident memory".into(),
        x: seconds(all),
        y: Axis::linear("bytes of the process", Unit::Bytes),
        series: lines(all, memory),
        ..Chart::default()
    })
}

fn device(all: &[Of]) -> Option<Chart> {
    let bytes =
        |sample: &super::Sample| sample.device.map(|device| (device.read + device.written) as f64);
    drawn(Chart {
        title: "Device, read and written".into(),
        x: seconds(all),
        y: Axis::linear("bytes per second", Unit::Bytes),
        series: lines(all, |phase| growth(phase, bytes)),
        ..Chart::default()
    })
}
