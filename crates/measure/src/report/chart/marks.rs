//! The marks of a chart: lines, steps, areas, bars, dots, and their keys in the legend.
//!
//! 1. Points without a position are gaps; the others are thinned to the available pixels.
//! 2. If a series has few points, each has a marker with a tooltip. A series of many points has
//!    a few markers, to distinguish the lines; their values are text for the page's crosshair.

use super::axis::Placed;
use super::frame::{Drawing, Frame, has_bars, num};
use super::thin::thin;
use super::{Chart, Colour, Mark, Point, Series};
use crate::report::theme::escape;
use std::fmt::Write;

/// The largest number of points of which each has its marker.
const FEW: usize = 48;

/// Draws all series.
pub(super) fn draw(chart: &Chart, frame: &Frame, out: &mut Drawing) {
    let stacked = stacked(chart);
    // Draw areas under lines, and bars under dots.
    let mut order: Vec<usize> = (0..chart.series.len()).collect();
    order.sort_by_key(|index| match chart.series[*index].mark {
        Mark::Stacked => 0,
        Mark::Filled => 1,
        Mark::Bars => 2,
        Mark::Line | Mark::Steps => 3,
        Mark::Dots => 4,
    });
    for index in order {
        let series = &chart.series[index];
        out.add(format_args!("<g style=\"--s:{}\"", chart.colour(index).css()));
        if has_crosshair(series) {
            out.add(format_args!(" {}", crosshair(chart, series, frame)));
        }
        out.0.push('>');
        match series.mark {
            Mark::Line | Mark::Steps => line(chart, index, frame, out),
            Mark::Filled => area(&series.points, None, true, frame, out),
            Mark::Stacked => {
                let below = below(chart, index, &stacked);
                area(&stacked[index], below, false, frame, out);
            }
            Mark::Bars => bars(chart, index, frame, out),
            Mark::Dots => dots(chart, index, frame, out),
        }
        out.0.push_str("</g>");
    }
}

/// The points of each series as they are drawn: stacked series are on top of those before them.
pub(super) fn stacked(chart: &Chart) -> Vec<Vec<Point>> {
    let mut top: Vec<f64> = Vec::new();
    let mut all = Vec::new();
    for series in &chart.series {
        if series.mark != Mark::Stacked {
            all.push(series.points.clone());
            continue;
        }
        top.resize(top.len().max(series.points.len()), 0.0);
        let lift = |(index, point): (usize, &Point)| {
            top[index] += point.y;
            Point { y: top[index], ..*point }
        };
        all.push(series.points.iter().enumerate().map(lift).collect());
    }
    all
}

/// The line that the area of a series stands on; `None` for zero.
fn below<'a>(chart: &Chart, index: usize, stacked: &'a [Vec<Point>]) -> Option<&'a [Point]> {
    let under = (0..index).rev().find(|under| chart.series[*under].mark == Mark::Stacked)?;
    Some(&stacked[under])
}

fn has_crosshair(series: &Series) -> bool {
    match series.mark {
        Mark::Line | Mark::Steps => series.points.len() > FEW,
        Mark::Stacked | Mark::Filled => true,
        Mark::Bars | Mark::Dots => false,
    }
}

/// Positions and values of a series as attributes, for the page's script.
fn crosshair(chart: &Chart, series: &Series, frame: &Frame) -> String {
    let (mut xs, mut heads, mut values) = (String::new(), String::new(), String::new());
    for index in thin(&series.points, |x| frame.x.at(x)) {
        let point = series.points[index];
        let Some(px) = frame.x.at(point.x).filter(|_| point.y.is_finite()) else { continue };
        let _ = write!(xs, "{} ", num(px));
        let _ = write!(heads, "{}|", chart.x.text(point.x));
        let _ = write!(values, "{}|", chart.y.text(point.y));
    }
    let steps = if series.mark == Mark::Steps { " data-steps=\"\"" } else { "" };
    format!(
        "data-name=\"{}\" data-x=\"{}\" data-h=\"{}\" data-v=\"{}\"{steps}",
        escape(&series.name),
        xs.trim_end(),
        escape(heads.trim_end_matches('|')),
        escape(values.trim_end_matches('|')),
    )
}

/// Stretches without gaps, in pixels.
fn stretches(points: &[Point], frame: &Frame) -> Vec<Vec<(f64, f64)>> {
    let mut all = vec![Vec::new()];
    for index in thin(points, |x| frame.x.at(x)) {
        match (frame.at(points[index].x, points[index].y), all.last_mut()) {
            (Some(at), Some(last)) => last.push(at),
            (None, Some(last)) if !last.is_empty() => all.push(Vec::new()),
            _ => {}
        }
    }
    all.retain(|stretch| !stretch.is_empty());
    all
}

/// The path along a stretch; as steps, each value holds until the next.
fn path(stretch: &[(f64, f64)], steps: bool, d: &mut String) {
    let mut last = None;
    for (x, y) in stretch {
        let (x, y) = (num(*x), num(*y));
        let _ = match (&last, steps) {
            (None, _) => write!(d, "M{x} {y}"),
            (Some(_), true) => write!(d, "H{x}V{y}"),
            (Some(_), false) => write!(d, "L{x} {y}"),
        };
        last = Some(x);
    }
    // The round ends of lines draw a point without neighbours as a dot.
    if stretch.len() == 1 {
        d.push_str("h0");
    }
}

fn line(chart: &Chart, index: usize, frame: &Frame, out: &mut Drawing) {
    let series = &chart.series[index];
    let all = stretches(&series.points, frame);
    let mut d = String::new();
    all.iter().for_each(|stretch| path(stretch, series.mark == Mark::Steps, &mut d));
    let class = if series.reference { "line dashed" } else { "line" };
    out.add(format_args!("<path d=\"{d}\" class=\"{class}\"/>"));
    if series.points.len() <= FEW {
        dots(chart, index, frame, out);
    } else if chart.series.len() > 1 && !series.reference {
        sparse(&all, chart, index, frame, out);
    }
}

/// Draws a few markers, at different places for each series.
fn sparse(all: &[Vec<(f64, f64)>], chart: &Chart, index: usize, frame: &Frame, out: &mut Drawing) {
    let every = (frame.right() - frame.left()) / 6.0;
    let mut next = frame.left() + every * (0.3 + 0.22 * (index % 4) as f64);
    for at in all.iter().flatten() {
        if at.0 >= next {
            marker(&chart.series[index], chart.colour(index), *at, "", out);
            next += every * ((at.0 - next) / every + 1.0).floor();
        }
    }
}

fn area(points: &[Point], below: Option<&[Point]>, steps: bool, frame: &Frame, out: &mut Drawing) {
    let mut d = String::new();
    let base = frame.y.base();
    let kept = thin(points, |x| frame.x.at(x));
    let place = |line: &[Point]| -> Vec<(f64, f64)> {
        let at = |index: &usize| frame.at(line.get(*index)?.x, line[*index].y);
        kept.iter().filter_map(at).collect()
    };
    let top = place(points);
    let Some((first, last)) = top.first().zip(top.last()) else { return };
    path(&top, steps, &mut d);
    match below {
        Some(below) => {
            let mut floor = place(below);
            floor.reverse();
            let mut back = String::new();
            path(&floor, false, &mut back);
            d.push_str(&back.replacen('M', "L", 1));
        }
        None => {
            let _ = write!(d, "L{} {}L{} {}", num(last.0), num(base), num(first.0), num(base));
        }
    }
    let class = if steps { "area steps" } else { "area" };
    out.add(format_args!("<path d=\"{d}Z\" class=\"{class}\"/>"));
}

fn bars(chart: &Chart, index: usize, frame: &Frame, out: &mut Drawing) {
    let of_bars = |i: &usize| chart.series[*i].mark == Mark::Bars;
    let count = (0..chart.series.len()).filter(of_bars).count();
    let place = (0..index).filter(of_bars).count();
    let each = (frame.x.slot() * 0.78 / count as f64).min(56.0);
    let series = &chart.series[index];
    for point in &series.points {
        let Some((x, y)) = frame.at(point.x, point.y) else { continue };
        let left = x + each * (place as f64 - count as f64 / 2.0) + 1.0;
        let base = frame.y.base();
        let title = words(chart, series, point);
        let size = ((each - 2.0).max(1.0), (base - y).abs().max(0.5));
        out.rect((left, y.min(base)), size, "bar", &title);
        let middle = left + each / 2.0 - 1.0;
        let top = whisker(point, &frame.y, (middle, y), out).min(y);
        let text = chart.y.text(point.y);
        if super::frame::width_of(&text) * 0.85 <= each {
            out.text((middle, top - 4.0), "value", "middle", &text);
        }
    }
}

/// Draws the interval of a bar or an upright dot. Returns its upper end in pixels.
fn whisker(point: &Point, y: &Placed, (middle, top): (f64, f64), out: &mut Drawing) -> f64 {
    let Some((low, high)) = y.at(point.interval.0).zip(y.at(point.interval.1)) else { return top };
    out.line((middle, low), (middle, high), "whisker");
    out.line((middle - 4.0, low), (middle + 4.0, low), "whisker");
    out.line((middle - 4.0, high), (middle + 4.0, high), "whisker");
    high
}

fn dots(chart: &Chart, index: usize, frame: &Frame, out: &mut Drawing) {
    let series = &chart.series[index];
    let lying = matches!(chart.y.scale, super::Scale::Names(_));
    let mut drawn = std::collections::HashSet::new();
    for point in &series.points {
        let Some(at) = frame.at(point.x, point.y) else { continue };
        // Draw one dot if several are on the same pixel.
        if !drawn.insert((at.0.round() as i64, at.1.round() as i64)) {
            continue;
        }
        if lying {
            let ends = frame.x.at(point.interval.0).zip(frame.x.at(point.interval.1));
            if let Some((from, to)) = ends {
                out.line((from, at.1), (to, at.1), "range");
            }
        } else {
            whisker(point, &frame.y, at, out);
        }
        let title =
            if series.points.len() <= 500 { words(chart, series, point) } else { "".into() };
        marker(series, chart.colour(index), at, &title, out);
    }
}

/// A point in words.
fn words(chart: &Chart, series: &Series, point: &Point) -> String {
    let lying = matches!(chart.y.scale, super::Scale::Names(_));
    let unit = if lying { &chart.x } else { &chart.y };
    let name = if series.name.is_empty() { String::new() } else { format!("{}, ", series.name) };
    let (at, value) = if lying { (point.y, point.x) } else { (point.x, point.y) };
    let place = if lying { &chart.y } else { &chart.x };
    let mut text = format!("{name}{}: {}", place.text(at), unit.text(value));
    if point.interval.0.is_finite() {
        let (low, high) = (unit.text(point.interval.0), unit.text(point.interval.1));
        let _ = write!(text, " ({low} to {high})");
    }
    text
}

/// Draws a marker; each of the eight colours of stores has its own.
fn marker(series: &Series, colour: Colour, (x, y): (f64, f64), title: &str, out: &mut Drawing) {
    let shape = match colour {
        Colour::Slot(index) => index % 8,
        _ => 0,
    };
    let path = match shape {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.6 -3.6h7.2v7.2h-7.2z",
        2 => "m0 -4.8l4.4 7.8h-8.8z",
        3 => "m0 -5l5 5l-5 5l-5 -5z",
        4 => "m0 4.8l4.4 -7.8h-8.8z",
        5 => "m-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
        6 => "m-4.6 -2.2h9.2v4.4h-9.2z",
        _ => "m-2.2 -4.6h4.4v9.2h-4.4z",
    };
    let class = if series.reference { "dot hollow" } else { "dot" };
    out.add(format_args!("<path d=\"M{} {}{path}\" class=\"{class}\">", num(x), num(y)));
    out.title(title);
    out.0.push_str("</path>");
}

/// Draws the key of a series in the legend, 20 pixels wide around this height.
pub(super) fn key(chart: &Chart, index: usize, (x, y): (f64, f64), out: &mut Drawing) {
    let series = &chart.series[index];
    out.add(format_args!("<g style=\"--s:{}\">", chart.colour(index).css()));
    match series.mark {
        Mark::Line | Mark::Steps => {
            let class = if series.reference { "line dashed" } else { "line" };
            out.line((x, y), (x + 20.0, y), class);
            marker(series, chart.colour(index), (x + 10.0, y), "", out);
        }
        Mark::Dots => marker(series, chart.colour(index), (x + 10.0, y), "", out),
        Mark::Stacked | Mark::Filled | Mark::Bars => {
            let class = if has_bars(chart) { "bar" } else { "area" };
            out.rect((x + 4.0, y - 6.0), (12.0, 12.0), class, "");
        }
    }
    out.0.push_str("</g>");
}
