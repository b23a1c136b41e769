//! The marks of a chart: lines, steps, areas, bars, dots, and their keys in the legend.
//!
//! 1. Points without a position are gaps; the others are thinned to the available pixels.
//! 2. If a series has few points, each has a marker with a tooltip. A series of many points has
//!    a few markers, to distinguish the lines; their values are text for the page's crosshair.

use super::axis::Placed;
use super::frame::{Drawing, Frame, num, width_of};
use super::thin::thin;
use super::{Chart, Colour, Mark, Point, Series};
use crate::report::theme::escape;
use std::fmt::Write;

/// The largest number of points of which each has its marker.
const FEW: usize = 48;

/// The path of the marker of each of the eight colours of stores, around its place.
const MARKERS: [&str; 8] = [
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "m-3.6 -3.6h7.2v7.2h-7.2z",
    "m0 -4.8l4.4 7.8h-8.8z",
    "m0 -5l5 5l-5 5l-5 -5z",
    "m0 4.8l4.4 -7.8h-8.8z",
    "m-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "m-4.6 -2.2h9.2v4.4h-9.2z",
    "m-2.2 -4.6h4.4v9.2h-4.4z",
];

/// Draws all series.
pub(super) fn draw(chart: &Chart, frame: &Frame, out: &mut Drawing) {
    let stacked = stacked(chart);
    let mut order: Vec<usize> = (0..chart.series.len()).collect();
    order.sort_by_key(|index| chart.series[*index].mark);
    for index in order {
        let series = &chart.series[index];
        let values = crosshair(chart, series, frame);
        out.group(chart.colour(index), &values, |out| match series.mark {
            Mark::Stacked => area(&stacked[index], frame, out),
            Mark::Bars => bars(chart, index, frame, out),
            Mark::Line | Mark::Steps => line(chart, index, frame, out),
            Mark::Dots => dots(chart, index, frame, out),
        });
    }
}

/// The points of each series as they are drawn, each with the value that its area stands on:
/// stacked series are on top of those before them.
pub(super) fn stacked(chart: &Chart) -> Vec<Vec<(Point, f64)>> {
    let mut tops: Vec<f64> = Vec::new();
    let mut all = Vec::new();
    for series in &chart.series {
        tops.resize(tops.len().max(series.points.len()), 0.0);
        let lift = |(point, top): (&Point, &mut f64)| {
            if series.mark != Mark::Stacked {
                return (*point, 0.0);
            }
            let below = *top;
            *top += point.y;
            (Point { y: *top, ..*point }, below)
        };
        all.push(series.points.iter().zip(&mut tops).map(lift).collect());
    }
    all
}

/// Positions and values of a series as attributes, for the page's script; nothing if each point
/// has a tooltip.
fn crosshair(chart: &Chart, series: &Series, frame: &Frame) -> String {
    let in_tooltips = match series.mark {
        Mark::Line | Mark::Steps => series.points.len() <= FEW,
        Mark::Stacked => false,
        Mark::Bars | Mark::Dots => true,
    };
    if in_tooltips {
        return String::new();
    }
    let (mut xs, mut heads, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for index in thin(&series.points, |x| frame.x.at(x)) {
        let point = series.points[index];
        let Some(px) = frame.x.at(point.x).filter(|_| point.y.is_finite()) else { continue };
        xs.push(num(px).to_string());
        heads.push(chart.x.text(point.x));
        values.push(chart.y.text(point.y));
    }
    let steps = if series.mark == Mark::Steps { " data-steps=\"\"" } else { "" };
    format!(
        " data-name=\"{}\" data-x=\"{}\" data-h=\"{}\" data-v=\"{}\"{steps}",
        escape(&series.name),
        xs.join(" "),
        escape(&heads.join("|")),
        escape(&values.join("|")),
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
    for (index, at) in stretch.iter().enumerate() {
        let (x, y) = (num(at.0), num(at.1));
        let _ = match (index, steps) {
            (0, _) => write!(d, "M{x} {y}"),
            (_, true) => write!(d, "H{x}V{y}"),
            (_, false) => write!(d, "L{x} {y}"),
        };
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
    out.add(format_args!("<path d=\"{d}\" class=\"{}\"/>", class(series)));
    if series.points.len() <= FEW {
        dots(chart, index, frame, out);
    } else if chart.series.len() > 1 && !series.reference {
        sparse(&all, chart, index, frame, out);
    }
}

/// Draws a few markers, at different places for each series.
fn sparse(all: &[Vec<(f64, f64)>], chart: &Chart, index: usize, frame: &Frame, out: &mut Drawing) {
    let every = (frame.right - frame.left) / 6.0;
    let mut next = frame.left + every * (0.3 + 0.22 * (index % 4) as f64);
    for at in all.iter().flatten() {
        if at.0 >= next {
            marker(&chart.series[index], chart.colour(index), *at, "", out);
            next += every * ((at.0 - next) / every + 1.0).floor();
        }
    }
}

/// Draws the area between the points and the values that they stand on.
fn area(points: &[(Point, f64)], frame: &Frame, out: &mut Drawing) {
    let tops: Vec<Point> = points.iter().map(|(top, _)| *top).collect();
    let kept = thin(&tops, |x| frame.x.at(x));
    let above = kept.iter().map(|index| (tops[*index].x, tops[*index].y));
    let below = kept.iter().rev().map(|index| (tops[*index].x, points[*index].1));
    let outline: Vec<_> = above.chain(below).filter_map(|(x, y)| frame.at(x, y)).collect();
    let mut d = String::new();
    path(&outline, false, &mut d);
    out.add(format_args!("<path d=\"{d}Z\" class=\"area\"/>"));
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
        if width_of(&text) * 0.85 <= each {
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
    let mut drawn = std::collections::HashSet::new();
    for point in &series.points {
        let Some(at) = frame.at(point.x, point.y) else { continue };
        // Draw one dot if several are on the same pixel.
        if !drawn.insert((at.0.round() as i64, at.1.round() as i64)) {
            continue;
        }
        if chart.lying() {
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
    let (place, value) = ((&chart.x, point.x), (&chart.y, point.y));
    let (place, value) = if chart.lying() { (value, place) } else { (place, value) };
    let name = if series.name.is_empty() { String::new() } else { format!("{}, ", series.name) };
    let mut text = format!("{name}{}: {}", place.0.text(place.1), value.0.text(value.1));
    if point.interval.0.is_finite() {
        let (low, high) = (value.0.text(point.interval.0), value.0.text(point.interval.1));
        let _ = write!(text, " ({low} to {high})");
    }
    text
}

/// Draws a marker.
fn marker(series: &Series, colour: Colour, (x, y): (f64, f64), title: &str, out: &mut Drawing) {
    let path = match colour {
        Colour::Slot(index) => MARKERS[index % MARKERS.len()],
        _ => MARKERS[0],
    };
    let class = if series.reference { "dot hollow" } else { "dot" };
    out.element("path", &format!("d=\"M{} {}{path}\"", num(x), num(y)), class, title);
}

/// The class of a line.
fn class(series: &Series) -> &'static str {
    if series.reference { "line dashed" } else { "line" }
}

/// Draws the key of a series in the legend, 20 pixels wide around this height.
pub(super) fn key(chart: &Chart, index: usize, (x, y): (f64, f64), out: &mut Drawing) {
    let series = &chart.series[index];
    match series.mark {
        Mark::Stacked => return out.rect((x + 4.0, y - 6.0), (12.0, 12.0), "area", ""),
        Mark::Bars => return out.rect((x + 4.0, y - 6.0), (12.0, 12.0), "bar", ""),
        Mark::Line | Mark::Steps => out.line((x, y), (x + 20.0, y), class(series)),
        Mark::Dots => {}
    }
    marker(series, chart.colour(index), (x + 10.0, y), "", out);
}
