//! A figure's result as a page of its own: what the paper says, the measured curves, the verdicts
//! and the conditions. The page of a figure that is not measured says why and shows no curve.

use super::measure::Unit;
use super::result::{ClaimResult, FigureResult, PanelResult, Summary, Verdict};
use super::text::number;
use super::{Form, X};
use std::fmt::Write;
use vlsm_core::Bytes;
use vlsm_measure::report::chart::{
    Axis, Chart, Colour, Lane, Mark, Point, Rule, Series, Span, Unit as Drawn,
};
use vlsm_measure::report::theme::{self, escape};

/// Width and height of a chart.
const SIZE: (u32, u32) = (640, 320);

/// The page of a figure's result.
#[must_use]
pub fn render(result: &FigureResult) -> String {
    let mut body = String::new();
    head(&mut body, result);
    match result.why_not() {
        Some(why) => {
            let _ = write!(body, "<p><strong>{}</strong></p>", escape(&why));
        }
        None => {
            body.push_str("<div class=\"charts small\">");
            for panel in &result.panels {
                let _ = write!(body, "<figure>{}</figure>", chart(panel).svg(SIZE.0, SIZE.1));
            }
            body.push_str("</div>");
        }
    }
    claims(&mut body, result);
    conditions(&mut body, result);
    let title = escape(&format!("{}: {}", result.id, result.title));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>{}{}</style></head><body><main>{body}</main><script>{}</script></body></html>\n",
        theme::CHART,
        theme::PAGE,
        theme::SCRIPT,
    )
}

fn head(out: &mut String, result: &FigureResult) {
    let machine = &result.machine;
    let memory = machine.memory.map_or("?".into(), |bytes| Bytes(bytes).to_string());
    let _ = write!(
        out,
        "<h1>{}: {}</h1><p>The paper: {}</p>",
        escape(&result.id),
        escape(&result.title),
        escape(&result.says),
    );
    if !result.here.is_empty() {
        let _ = write!(out, "<p>Here: {}</p>", escape(&result.here));
    }
    let _ = write!(
        out,
        "<p>Scale {}, {} rounds; sizes and times of the paper are divided by {}. Machine: {} × {}, \
         {memory}, {}. Commit {}.</p><pre>{}</pre>",
        result.scale,
        result.rounds,
        result.scale.factor(),
        machine.cores,
        escape(&machine.cpu),
        escape(&machine.system),
        escape(&result.commit),
        escape(&result.command),
    );
    for missing in &result.not_built {
        let _ = write!(out, "<p class=\"none\">Not there: {}</p>", escape(missing));
    }
    if let Some(beside) = result.beside() {
        let _ = write!(out, "<p>Beside: {}</p>", escape(&beside));
    }
    for added in &result.added {
        if let Some(why) = &added.why_not {
            let store = escape(&added.store);
            let _ = write!(out, "<p class=\"none\">{store} is not shown: {}</p>", escape(why));
        }
    }
}

fn drawn(unit: Unit) -> Drawn {
    match unit {
        Unit::Rate => Drawn::PerSecond,
        Unit::Micros => Drawn::Micros,
        Unit::Bytes => Drawn::Bytes,
        Unit::ByteRate => Drawn::Bytes,
        Unit::Share => Drawn::Percent,
        Unit::Number => Drawn::Plain,
    }
}

/// The names of the series, in the order in which they first occur.
fn names(panel: &PanelResult) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for point in &panel.points {
        if !names.contains(&point.series.as_str()) {
            names.push(&point.series);
        }
    }
    names
}

fn chart(panel: &PanelResult) -> Chart {
    let unit = drawn(panel.unit);
    let log = matches!(panel.unit, Unit::Micros | Unit::Bytes);
    let y = match (log, &panel.form) {
        (true, Form::Lines(_) | Form::Time | Form::Jobs) => Axis::log(&panel.measure, unit),
        _ => Axis::linear(&panel.measure, unit),
    };
    let mut chart = Chart { title: panel.title.clone(), y, ..Chart::default() };
    chart = match &panel.form {
        Form::Lines(name) => lines(panel, name, chart),
        Form::Bars => bars(panel, chart),
        Form::Time => {
            Chart { x: Axis::linear("time", Drawn::Seconds), series: over_time(panel), ..chart }
        }
        Form::Jobs => Chart {
            x: Axis::linear("time", Drawn::Seconds),
            series: over_time(panel),
            lanes: lanes(panel),
            ..chart
        },
    };
    // The page names series without points in words.
    chart.series.retain(|series| !series.points.is_empty());
    chart
}

fn lines(panel: &PanelResult, name: &str, chart: Chart) -> Chart {
    let (mut series, mut rules) = (Vec::new(), Vec::new());
    for (index, name) in names(panel).into_iter().enumerate() {
        let own = panel.points.iter().filter(|point| point.series == name);
        let points = own.filter_map(|point| Some(interval(point.x.at, point.summary()?)));
        series.push(Series::new(name, Mark::Line, points).colour(Colour::Slot(index)));
    }
    for (index, (name, points)) in panel.paper.iter().enumerate() {
        if let [(_, at)] = points[..] {
            let label = format!("{name} in the paper");
            rules.push(Rule { at, upright: false, label });
            continue;
        }
        let colour = names(panel).iter().position(|own| own == name).unwrap_or(index + 4);
        let label = format!("{name} in the paper");
        let curve = Series::new(&label, Mark::Line, points.iter().copied());
        series.push(curve.colour(Colour::Slot(colour)).reference());
    }
    Chart { x: Axis::linear(name, Drawn::Plain), series, rules, ..chart }
}

fn interval(x: f64, summary: Summary) -> Point {
    Point::from((x, summary.median)).between(summary.least, summary.largest)
}

fn bars(panel: &PanelResult, chart: Chart) -> Chart {
    let mut places: Vec<&X> = Vec::new();
    for point in &panel.points {
        if !places.iter().any(|place| place.label == point.x.label) {
            places.push(&point.x);
        }
    }
    let place = |x: &X| places.iter().position(|place| place.label == x.label).unwrap_or(0) as f64;
    let mut series: Vec<_> = (names(panel).into_iter().enumerate())
        .map(|(index, name)| {
            let own = panel.points.iter().filter(|point| point.series == name);
            let points = own.filter_map(|p| Some(interval(place(&p.x), p.summary()?)));
            Series::new(name, Mark::Bars, points).colour(Colour::Slot(index))
        })
        .collect();
    for (name, points) in &panel.paper {
        let at = |&(x, y): &(f64, f64)| {
            let place = places.iter().position(|place| place.at == x)?;
            Some((place as f64, y))
        };
        let label = format!("{name} in the paper");
        let dots = Series::new(&label, Mark::Dots, points.iter().filter_map(at));
        series.push(dots.colour(Colour::Muted).reference());
    }
    let x = Axis::names(places.iter().map(|place| place.label.clone()));
    // Leave room for the numbers above the bars.
    let ends = series.iter().flat_map(|series| &series.points);
    let top = ends.map(|point| point.interval.1.max(point.y)).fold(0.0, f64::max);
    let y = if top > 0.0 { chart.y.clone().range(0.0, top * 1.15) } else { chart.y.clone() };
    Chart { x, y, series, ..chart }
}

fn over_time(panel: &PanelResult) -> Vec<Series> {
    let line = |(index, point): (usize, &super::result::PointResult)| {
        let points = point.over_time.iter().copied();
        Series::new(&point.series, Mark::Line, points).colour(Colour::Slot(index))
    };
    panel.points.iter().enumerate().map(line).collect()
}

/// A lane for each level that jobs read from.
fn lanes(panel: &PanelResult) -> Vec<Lane> {
    let jobs = || panel.points.iter().flat_map(|point| &point.jobs);
    let lane = |kind: &str, from: u8| {
        let own = jobs().filter(|job| (job.kind == "flush") == (kind == "flush"));
        let spans = own.filter(|job| kind == "flush" || job.from == from).map(|job| Span {
            from: job.start,
            to: job.end,
            colour: Colour::Ramp(usize::from(from) + 2),
            title: format!("{} L{}→L{}, {} read", job.kind, job.from, job.to, Bytes(job.read)),
        });
        let label = if kind == "flush" { kind.to_owned() } else { format!("L{from}") };
        Lane { label, spans: spans.collect() }
    };
    let deepest = jobs().map(|job| job.from).max().unwrap_or(0);
    let mut lanes = vec![lane("flush", 0)];
    lanes.extend((0..=deepest).map(|level| lane("compact", level)));
    lanes
}

fn claims(out: &mut String, result: &FigureResult) {
    out.push_str(
        "<h2>Do the paper's claims hold here?</h2><table><thead><tr><th>claim</th><th>paper</th>\
         <th>found (least – largest)</th><th>verdict</th></tr></thead><tbody>",
    );
    for claim in &result.claims {
        let class = match claim.verdict {
            Verdict::Holds => "better",
            Verdict::DoesNotHold => "worse",
            Verdict::HoldsInPart | Verdict::NotMeasured => "none",
        };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
            escape(&claim.text),
            number(claim.paper, claim.unit),
            escape(&found(claim)),
            claim.verdict.words(),
        );
    }
    out.push_str("</tbody></table>");
}

fn found(claim: &ClaimResult) -> String {
    match (&claim.missing, claim.summary) {
        (Some(why), _) => why.clone(),
        (None, None) => "–".into(),
        (None, Some(summary)) => format!(
            "{} ({} – {})",
            number(summary.median, claim.unit),
            number(summary.least, claim.unit),
            number(summary.largest, claim.unit),
        ),
    }
}

fn conditions(out: &mut String, result: &FigureResult) {
    out.push_str("<h2>What makes it a measurement</h2><table><tbody>");
    for condition in &result.conditions {
        let (class, word) = if condition.holds { ("better", "yes") } else { ("worse", "no") };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"{class}\">{word}</td></tr>",
            escape(&condition.what),
            escape(&condition.value),
        );
    }
    out.push_str(
        "</tbody></table><details><summary>Every phase that a point is taken from</summary>\
         <div class=\"wide\"><table><thead><tr><th>store</th><th>phase</th><th>round</th>\
         <th>seconds</th><th>chains</th><th>levels full (start, end)</th><th>driver P99.9</th>\
         <th>limits</th></tr></thead><tbody>",
    );
    for proof in &result.proofs {
        let full = |(level, start, end): &(u8, Option<f64>, f64)| {
            let start = start.map_or("last".into(), |start| format!("{:.0} %", start * 100.0));
            format!("L{level} {start}, {:.0} %", end * 100.0)
        };
        let full: Vec<_> = proof.fullness.iter().map(full).collect();
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.0}</td><td>{}</td><td>{}</td>\
             <td>{:.0} µs</td><td>{}</td></tr>",
            escape(&proof.store),
            escape(&proof.phase),
            proof.round,
            proof.seconds,
            proof.chains,
            full.join(" · "),
            proof.floor_p999_us,
            escape(&proof.limits),
        );
    }
    out.push_str("</tbody></table></div></details>");
}
