//! A figure's result as a page of its own: what the paper says, the measured curves, the verdicts
//! and the conditions. The page of a figure that is not measured says why and shows no curve.

use super::measure::Unit;
use super::result::{ClaimResult, FigureResult, PanelResult, PointResult, Proof, Verdict};
use super::text::{between, number};
use super::{Form, X, unique};
use std::fmt::Write;
use vlsm_core::Bytes;
use vlsm_measure::report::chart::{
    Axis, Chart, Colour, Lane, Mark, Point, Rule, Series, Span, Unit as Drawn,
};
use vlsm_measure::report::debt::Debt;
use vlsm_measure::report::html::document;
use vlsm_measure::report::theme::escape;

/// Width and height of a chart.
const SIZE: (u32, u32) = (640, 320);
/// The styles of cells.
const BETTER: &str = " class=\"better\"";
const WORSE: &str = " class=\"worse\"";

/// The page of a figure's result.
#[must_use]
pub fn render(result: &FigureResult) -> String {
    let mut body = head(result);
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
    body.push_str("<h2>Do the paper's claims hold here?</h2>");
    let heads = "claim|paper|found (least – largest)|verdict";
    table(&mut body, heads, result.claims.iter().map(claim));
    body.push_str("<h2>What makes it a measurement</h2>");
    let conditions = result.conditions.iter().map(|condition| {
        let holds = if condition.holds { (BETTER, "yes".into()) } else { (WORSE, "no".into()) };
        vec![plain(&condition.what), plain(&condition.value), holds]
    });
    table(&mut body, "condition|found|holds", conditions);
    body.push_str(
        "<details><summary>Every phase that a point is taken from</summary><div class=\"wide\">",
    );
    let heads = "store|phase|round|seconds|chains|levels full (start, end)|debt at the end|\
                 driver P99.9|limits";
    table(&mut body, heads, result.proofs.iter().map(proof));
    body.push_str("</div></details>");
    document(&format!("{}: {}", result.id, result.title), &body)
}

fn head(result: &FigureResult) -> String {
    let machine = &result.machine;
    let memory = machine.memory.map_or("?".into(), |bytes| Bytes(bytes).to_string());
    let mut out = String::new();
    for note in result.notes() {
        let _ = write!(out, "<p>{}</p>", escape(&note));
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
    out
}

/// A cell: its style, and its text.
type Cell = (&'static str, String);

fn plain(text: impl ToString) -> Cell {
    ("", text.to_string())
}

/// Writes a table with these heads, divided by `|`, and these rows.
fn table(out: &mut String, heads: &str, rows: impl Iterator<Item = Vec<Cell>>) {
    let heads: String = heads.split('|').map(|head| format!("<th>{head}</th>")).collect();
    let _ = write!(out, "<table><thead><tr>{heads}</tr></thead><tbody>");
    for row in rows {
        let cell = |(class, text): &Cell| format!("<td{class}>{}</td>", escape(text));
        let _ = write!(out, "<tr>{}</tr>", row.iter().map(cell).collect::<String>());
    }
    out.push_str("</tbody></table>");
}

fn claim(claim: &ClaimResult) -> Vec<Cell> {
    let class = match claim.verdict {
        Verdict::Holds => BETTER,
        Verdict::DoesNotHold => WORSE,
        Verdict::HoldsInPart | Verdict::NotMeasured | Verdict::DebtLeft | Verdict::SmallScale => {
            " class=\"none\""
        }
    };
    let found = claim.summary.map(|found| between(found, claim.unit));
    let found = match (&claim.missing, found) {
        (Some(why), Some(found)) => format!("{found}; {why}"),
        (Some(why), None) => why.clone(),
        (None, found) => found.unwrap_or("–".into()),
    };
    let verdict = (class, claim.verdict.words().to_owned());
    vec![plain(&claim.text), plain(number(claim.paper, claim.unit)), plain(found), verdict]
}

fn proof(proof: &Proof) -> Vec<Cell> {
    let full = |(level, start, end): &(u8, Option<f64>, f64)| {
        let start = start.map_or("last".into(), |start| format!("{:.0} %", start * 100.0));
        format!("L{level} {start}, {:.0} %", end * 100.0)
    };
    vec![
        plain(&proof.store),
        plain(&proof.phase),
        plain(proof.round),
        plain(format!("{:.0}", proof.seconds)),
        plain(proof.chains),
        plain(proof.fullness.iter().map(full).collect::<Vec<_>>().join(" · ")),
        debt(proof.debt),
        plain(format!("{:.0} µs", proof.floor_p999_us)),
        plain(&proof.limits),
    ]
}

fn debt(debt: Option<Debt>) -> Cell {
    match debt {
        None => plain("not told"),
        Some(debt) if debt.is_bounded() => plain(format!("none: {debt}")),
        Some(debt) => (WORSE, debt.to_string()),
    }
}

fn drawn(unit: Unit) -> Drawn {
    match unit {
        Unit::Rate => Drawn::PerSecond,
        Unit::Micros => Drawn::Micros,
        Unit::Bytes | Unit::ByteRate => Drawn::Bytes,
        Unit::Share => Drawn::Percent,
        Unit::Number => Drawn::Plain,
    }
}

/// The names of the series, in the order in which they first occur.
fn names(panel: &PanelResult) -> Vec<&String> {
    unique(panel.points.iter().map(|point| &point.series))
}

fn chart(panel: &PanelResult) -> Chart {
    let unit = drawn(panel.unit);
    let log = matches!(panel.unit, Unit::Micros | Unit::Bytes) && panel.form != Form::Bars;
    let axis = if log { Axis::log } else { Axis::linear };
    let mut chart =
        Chart { title: panel.title.clone(), y: axis(&panel.measure, unit), ..Chart::default() };
    match &panel.form {
        Form::Lines(name) => lines(panel, name, &mut chart),
        Form::Bars => bars(panel, &mut chart),
        Form::Time | Form::Jobs => {
            chart.x = Axis::linear("time", Drawn::Seconds);
            chart.series = over_time(panel);
        }
    }
    if panel.form == Form::Jobs {
        chart.lanes = lanes(panel);
    }
    // The page names series without points in words.
    chart.series.retain(|series| !series.points.is_empty());
    chart
}

/// A series of the chart for each series of the panel, with its points at these places.
fn found(panel: &PanelResult, mark: Mark, place: impl Fn(&PointResult) -> f64) -> Vec<Series> {
    let series = |(index, name): (usize, &String)| {
        let own = panel.points.iter().filter(|point| point.series == *name);
        let points = own.filter_map(|point| {
            let all = point.summary()?;
            Some(Point::from((place(point), all.median)).between(all.least, all.largest))
        });
        Series::new(name, mark, points).colour(Colour::Slot(index))
    };
    names(panel).into_iter().enumerate().map(series).collect()
}

fn lines(panel: &PanelResult, name: &str, chart: &mut Chart) {
    chart.x = Axis::linear(name, Drawn::Plain);
    chart.series = found(panel, Mark::Line, |point| point.x.at);
    for (index, (name, points)) in panel.paper.iter().enumerate() {
        let label = format!("{name} in the paper");
        if let [(_, at)] = points[..] {
            chart.rules.push(Rule { at, upright: false, label });
            continue;
        }
        let colour = names(panel).iter().position(|own| *own == name).unwrap_or(index + 4);
        let curve = Series::new(&label, Mark::Line, points.iter().copied());
        chart.series.push(curve.colour(Colour::Slot(colour)).reference());
    }
}

fn bars(panel: &PanelResult, chart: &mut Chart) {
    let places = unique(panel.points.iter().map(|point| &point.x));
    chart.x = Axis::names(places.iter().map(|place| place.label.clone()));
    let index = |fits: &dyn Fn(&X) -> bool| places.iter().position(|place| fits(place));
    let place = |point: &PointResult| index(&|place| *place == point.x).unwrap_or(0) as f64;
    chart.series = found(panel, Mark::Bars, place);
    for (name, points) in &panel.paper {
        let at = |&(x, y): &(f64, f64)| Some((index(&|place| place.at == x)? as f64, y));
        let label = format!("{name} in the paper");
        let dots = Series::new(&label, Mark::Dots, points.iter().filter_map(at));
        chart.series.push(dots.colour(Colour::Muted).reference());
    }
    // Leave room for the numbers above the bars.
    let ends = chart.series.iter().flat_map(|series| &series.points);
    let top = ends.map(|point| point.interval.1.max(point.y)).fold(0.0, f64::max);
    if top > 0.0 {
        chart.y = chart.y.clone().range(0.0, top * 1.15);
    }
}

fn over_time(panel: &PanelResult) -> Vec<Series> {
    let line = |(index, point): (usize, &PointResult)| {
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
