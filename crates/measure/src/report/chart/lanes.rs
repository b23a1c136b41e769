//! Lanes: strips of spans under a plot, with its x axis. They show the times of background jobs.
//!
//! 1. Overlapping spans of a lane go to rows under each other. Each takes the first free row, up to
//!    [`ROWS`]; a span without a free row is drawn over the last one.
//! 2. If a lane has very many spans, those that touch the same pixels of a row are drawn as one.
//!    They cover the same pixels as before.

use super::frame::{Drawing, Frame, num};
use super::{Chart, Lane, Span};

/// The largest number of rows of a lane.
const ROWS: usize = 4;
/// The height of a row, its gap included.
const ROW: f64 = 9.0;
/// The gap between lanes.
const GAP: f64 = 7.0;
/// The gap between plot and lanes: the label of the y axis' lowest tick reaches below the plot.
const TOP: f64 = 12.0;
/// The largest number of spans of a lane that are drawn one by one.
const MANY: usize = 1500;

/// The height of all lanes together.
pub(super) fn height(chart: &Chart) -> f64 {
    let rows = |lane: &Lane| rows(lane).len() as f64 * ROW + GAP;
    let all: f64 = chart.lanes.iter().map(rows).sum();
    if all > 0.0 { all + TOP } else { 0.0 }
}

/// The spans of a lane by rows; an empty lane has one row.
fn rows(lane: &Lane) -> Vec<Vec<&Span>> {
    let mut spans: Vec<&Span> = lane.spans.iter().collect();
    spans.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut rows: Vec<Vec<&Span>> = vec![Vec::new()];
    for span in spans {
        let free = |row: &Vec<&Span>| row.last().is_none_or(|last| last.to <= span.from);
        match rows.iter().position(free) {
            Some(row) => rows[row].push(span),
            None if rows.len() < ROWS => rows.push(vec![span]),
            None => rows[ROWS - 1].push(span),
        }
    }
    rows
}

/// Draws all lanes under the plot's `bottom`.
pub(super) fn draw(chart: &Chart, frame: &Frame, bottom: f64, out: &mut Drawing) {
    let mut y = bottom + TOP;
    for lane in &chart.lanes {
        let rows = rows(lane);
        let height = rows.len() as f64 * ROW;
        let right = frame.right();
        out.text((frame.left() - 8.0, y + height / 2.0 + 3.0), "tick", "end", &lane.label);
        out.line((frame.left(), y - GAP / 2.0), (right, y - GAP / 2.0), "grid");
        for row in &rows {
            match lane.spans.len() {
                0..=MANY => row.iter().for_each(|span| one(span, frame, y, out)),
                _ => merged(row, frame, y, out),
            }
            y += ROW;
        }
        y += GAP;
    }
}

/// The begin and end of a span in pixels, inside the plot and at least one pixel wide.
fn pixels(span: &Span, frame: &Frame) -> Option<(f64, f64)> {
    let (from, to) = frame.x.at(span.from).zip(frame.x.at(span.to))?;
    let (from, to) = (from.max(frame.left()), to.min(frame.right()));
    (to >= from).then(|| (from, to.max(from + 1.0)))
}

fn one(span: &Span, frame: &Frame, y: f64, out: &mut Drawing) {
    let Some((from, to)) = pixels(span, frame) else { return };
    out.add(format_args!("<g style=\"--s:{}\">", span.colour.css()));
    out.rect((from, y), (to - from, ROW - 2.0), "span", &span.title);
    out.0.push_str("</g>");
}

fn merged(row: &[&Span], frame: &Frame, y: f64, out: &mut Drawing) {
    let Some(first) = row.first() else { return };
    out.add(format_args!("<path style=\"--s:{}\" class=\"span\" d=\"", first.colour.css()));
    let mut open: Option<(f64, f64)> = None;
    let close = |(from, to): (f64, f64), out: &mut Drawing| {
        let (from, width, height) = (num(from), num(to - from), num(ROW - 2.0));
        out.add(format_args!("M{from} {}h{width}v{height}h-{width}z", num(y)));
    };
    for (from, to) in row.iter().filter_map(|span| pixels(span, frame)) {
        match &mut open {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            other => {
                if let Some(last) = other.replace((from, to)) {
                    close(last, out);
                }
            }
        }
    }
    if let Some(last) = open {
        close(last, out);
    }
    out.0.push_str("\"/>");
}
