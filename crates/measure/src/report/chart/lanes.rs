//! Lanes: strips of spans under a plot, with its x axis. They show the times of background jobs.
//!
//! 1. Overlapping spans of a lane go to rows under each other. Each takes the first free row, up to
//!    [`ROWS`]; a span without a free row is drawn over the last one.
//! 2. If a lane has very many spans, those that touch the same pixels of a row are drawn as one.
//!    They cover the same pixels as before.

use super::frame::{Drawing, Frame};
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
        let middle = y + rows.len() as f64 * ROW / 2.0;
        out.text((frame.left - 8.0, middle + 3.0), "tick", "end", &lane.label);
        out.line((frame.left, y - GAP / 2.0), (frame.right, y - GAP / 2.0), "grid");
        for row in rows {
            for (span, title, from, to) in pieces(&row, lane.spans.len() > MANY, frame) {
                let (at, size) = ((from, y), (to - from, ROW - 2.0));
                out.group(span.colour, "", |out| out.rect(at, size, "span", title));
            }
            y += ROW;
        }
        y += GAP;
    }
}

/// The rectangles of a row: the first span, the tooltip, begin and end in pixels. If `joined`,
/// spans that touch are one rectangle, and a rectangle of several spans has no tooltip.
fn pieces<'a>(row: &[&'a Span], joined: bool, frame: &Frame) -> Vec<(&'a Span, &'a str, f64, f64)> {
    let mut pieces: Vec<(&Span, &str, f64, f64)> = Vec::new();
    for &span in row {
        let Some((from, to)) = frame.stretch(span) else { continue };
        match pieces.last_mut().filter(|last| joined && from <= last.3) {
            Some(last) => (last.1, last.3) = ("", last.3.max(to)),
            None => pieces.push((span, &span.title, from, to)),
        }
    }
    pieces
}
