//! The frame of a chart around its marks: title, legend, axes, grid, shading, reference lines.
//!
//! 1. Texts and legend take their lines from the top, lanes and x axis from the bottom; the plot
//!    gets the rest. The left margin is the same for all charts whose labels fit into it, so that
//!    charts under each other share their x axis to the pixel.
//! 2. Marks are drawn inside an `<svg>` of their own, which clips marks outside a given range.
//!
//! There are no font metrics here: the width of a text is estimated from its characters.

use super::axis::{Placed, Scale};
use super::{Chart, Colour, Mark, lanes, marks};
use crate::report::theme::{self, escape};
use std::fmt::Write;

/// The left margin, if labels fit into it.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 26.0;
/// The pixels by which marks may stick out of the plot: half a marker.
const OVER: f64 = 6.0;

/// A drawing that is not complete yet. Writing to a string cannot fail.
#[derive(Default)]
pub(super) struct Drawing(pub String);

impl Drawing {
    pub fn add(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text);
    }

    /// A text; `anchor` is `start`, `middle` or `end`.
    pub fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
        let (x, y, text) = (num(x), num(y), escape(text));
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (num(x1), num(y1), num(x2), num(y2));
        self.add(format_args!("<path d=\"M{x1} {y1}L{x2} {y2}\" class=\"{class}\"/>"));
    }

    /// A rectangle with a tooltip.
    pub fn rect(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), class: &str, title: &str) {
        let (x, y, w, h) = (num(x), num(y), num(w), num(h));
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" class=\"{class}\">"
        ));
        self.title(title);
        self.0.push_str("</rect>");
    }

    /// The tooltip of the element that contains it.
    pub fn title(&mut self, title: &str) {
        if !title.is_empty() {
            self.add(format_args!("<title>{}</title>", escape(title)));
        }
    }
}

/// A number of pixels with at most one decimal.
pub(super) fn num(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The estimated width of a text.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 7.1
}

/// The plot, with both axes placed.
pub(super) struct Frame {
    pub x: Placed,
    pub y: Placed,
}

impl Frame {
    /// The position of a point in pixels.
    pub fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x.at(x)?, self.y.at(y)?))
    }

    pub fn left(&self) -> f64 {
        self.x.px.0
    }
    pub fn right(&self) -> f64 {
        self.x.px.1
    }
    pub fn top(&self) -> f64 {
        self.y.px.0.min(self.y.px.1)
    }
    pub fn bottom(&self) -> f64 {
        self.y.px.0.max(self.y.px.1)
    }
}

/// Draws the whole chart.
pub(super) fn draw(chart: &Chart, width: f64, height: f64, alone: bool) -> String {
    let mut out = Drawing::default();
    let top = head(chart, width, &mut out);
    let lanes_height = lanes::height(chart);
    let below = if chart.x.label.is_empty() { 22.0 } else { 38.0 };
    let bottom = (height - below).max(top + 40.0);
    let frame = place(chart, (top, bottom), width);
    let total = bottom + lanes_height + below;
    let mut svg = Drawing::default();
    open(chart, (width, total), &frame, alone, &mut svg);
    svg.0.push_str(&out.0);
    // Draw the shading over stacked areas, which would cover it, but under other marks, whose
    // tooltips need the pointer.
    let over = chart.series.iter().any(|series| series.mark == Mark::Stacked);
    if !over {
        bands(chart, &frame, bottom + lanes_height, &mut svg);
    }
    grid(chart, &frame, bottom + lanes_height, &mut svg);
    if chart.measured() {
        let (x, y) = (frame.left() - OVER, top - OVER);
        let (w, h) = (frame.right() - x + OVER, bottom - y + OVER);
        let (x, y, w, h) = (num(x), num(y), num(w), num(h));
        svg.add(format_args!(
            "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\">"
        ));
        marks::draw(chart, &frame, &mut svg);
        svg.0.push_str("</svg>");
    } else {
        let middle = ((frame.left() + frame.right()) / 2.0, (top + bottom) / 2.0);
        svg.text(middle, "label", "middle", "not measured");
    }
    if over {
        bands(chart, &frame, bottom + lanes_height, &mut svg);
    }
    rules(chart, &frame, &mut svg);
    lanes::draw(chart, &frame, bottom, &mut svg);
    svg.0.push_str("</svg>");
    svg.0
}

fn open(chart: &Chart, (width, height): (f64, f64), frame: &Frame, alone: bool, svg: &mut Drawing) {
    let (w, h, title) = (num(width), num(height), escape(&chart.title));
    let name = if alone { " xmlns=\"http://www.w3.org/2000/svg\"" } else { "" };
    svg.add(format_args!(
        "<svg{name} class=\"chart\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
         role=\"img\" aria-label=\"{title}\" data-box=\"{} {} {} {}\">",
        num(frame.left()),
        num(frame.top()),
        num(frame.right()),
        num(frame.bottom()),
    ));
    if alone {
        svg.add(format_args!("<style>{}</style>", theme::CHART));
        svg.rect((0.0, 0.0), (width, height), "ground", "");
    }
}

/// Draws title, subtitle, legend and the label of the y axis. Returns where the plot may begin.
fn head(chart: &Chart, width: f64, out: &mut Drawing) -> f64 {
    let mut y = 4.0;
    if !chart.title.is_empty() {
        y += 16.0;
        out.text((0.0, y), "title", "start", &chart.title);
    }
    if !chart.subtitle.is_empty() {
        y += 17.0;
        out.text((0.0, y), "label", "start", &chart.subtitle);
    }
    y = legend(chart, width, y, out);
    if !chart.y.label.is_empty() {
        y += 20.0;
        out.text((0.0, y), "label", "start", &chart.y.label);
    }
    y + 12.0
}

/// Draws the legend from left to right, on as many lines as it needs. Returns its last line's base.
fn legend(chart: &Chart, width: f64, above: f64, out: &mut Drawing) -> f64 {
    let named: Vec<usize> =
        (0..chart.series.len()).filter(|i| !chart.series[*i].name.is_empty()).collect();
    let mut bands: Vec<(&str, Colour)> = Vec::new();
    for band in chart.bands.iter().filter(|band| !band.label.is_empty()) {
        if !bands.iter().any(|(label, _)| *label == band.label) {
            bands.push((&band.label, band.colour));
        }
    }
    if named.len() + bands.len() < 2 && bands.is_empty() {
        return above;
    }
    let (mut x, mut y) = (0.0, above + 20.0);
    let mut next = |text: &str| {
        let need = 26.0 + width_of(text) + 14.0;
        if x > 0.0 && x + need > width {
            (x, y) = (0.0, y + 17.0);
        }
        let at = (x, y);
        x += need;
        at
    };
    for index in named {
        let name = &chart.series[index].name;
        let (x, y) = next(name);
        marks::key(chart, index, (x, y - 4.0), out);
        out.text((x + 26.0, y), "key", "start", name);
    }
    for (label, colour) in bands {
        let (x, y) = next(label);
        out.add(format_args!("<g style=\"--s:{}\">", colour.css()));
        out.rect((x, y - 9.0), (20.0, 10.0), "band", "");
        out.0.push_str("</g>");
        out.text((x + 26.0, y), "key", "start", label);
    }
    y
}

fn place(chart: &Chart, (top, bottom): (f64, f64), width: f64) -> Frame {
    let stacked = marks::stacked(chart);
    let ends = |point: &super::Point| [point.interval.0, point.interval.1];
    let named = matches!(chart.y.scale, Scale::Names(_));
    let intervals = || chart.series.iter().flat_map(|series| &series.points).flat_map(ends);
    let ys = stacked.iter().flatten().map(|point| point.y);
    let ys = ys.chain(intervals().filter(|_| !named));
    let rules = |upright| {
        chart.rules.iter().filter(move |rule| rule.upright == upright).map(|rule| rule.at)
    };
    // Names go from top to bottom, values from bottom to top.
    let px = if named { (top, bottom) } else { (bottom, top) };
    let y = chart.y.place(ys.chain(rules(false)), px);
    let labels = y.ticks.iter().map(|(_, text)| width_of(text) + 14.0);
    let lanes = chart.lanes.iter().map(|lane| width_of(&lane.label) + 14.0);
    let left = labels.chain(lanes).fold(LEFT, f64::max);
    let xs = chart.series.iter().flat_map(|series| &series.points).map(|point| point.x);
    let xs = xs.chain(intervals().filter(|_| named)).chain(rules(true));
    let spans = chart.lanes.iter().flat_map(|lane| &lane.spans).flat_map(|s| [s.from, s.to]);
    Frame { x: chart.x.place(xs.chain(spans), (left, width - RIGHT)), y }
}

fn grid(chart: &Chart, frame: &Frame, floor: f64, svg: &mut Drawing) {
    let (left, right) = (frame.left(), frame.right());
    for (value, text) in &frame.y.ticks {
        let Some(y) = frame.y.at(*value) else { continue };
        svg.line((left, y), (right, y), "grid");
        svg.text((left - 8.0, y + 4.0), "tick", "end", text);
    }
    let named = matches!(chart.x.scale, Scale::Names(_));
    let mut free = f64::NEG_INFINITY;
    for (value, text) in &frame.x.ticks {
        let Some(x) = frame.x.at(*value) else { continue };
        if !named {
            svg.line((x, frame.top()), (x, floor), "grid");
        }
        // The last label must stay inside the drawing.
        let half = width_of(text) / 2.0;
        let x = x.min(right + RIGHT - half);
        if x - half > free {
            svg.text((x, floor + 16.0), "tick", "middle", text);
            free = x + half + 6.0;
        }
    }
    svg.line((left, frame.bottom()), (right, frame.bottom()), "axis");
    if !chart.x.label.is_empty() {
        svg.text(((left + right) / 2.0, floor + 33.0), "label", "middle", &chart.x.label);
    }
}

fn bands(chart: &Chart, frame: &Frame, floor: f64, svg: &mut Drawing) {
    for band in &chart.bands {
        let Some((from, to)) = frame.x.at(band.from).zip(frame.x.at(band.to)) else { continue };
        let (from, to) = (from.max(frame.left()), to.min(frame.right()));
        if to < from {
            continue;
        }
        let title =
            format!("{}: {} to {}", band.label, chart.x.text(band.from), chart.x.text(band.to));
        svg.add(format_args!("<g style=\"--s:{}\">", band.colour.css()));
        let size = ((to - from).max(1.0), floor - frame.top());
        svg.rect((from, frame.top()), size, "band", &title);
        svg.0.push_str("</g>");
    }
}

fn rules(chart: &Chart, frame: &Frame, svg: &mut Drawing) {
    for rule in &chart.rules {
        if rule.upright {
            let Some(x) = frame.x.at(rule.at) else { continue };
            svg.line((x, frame.top()), (x, frame.bottom()), "rule");
            svg.text((x + 4.0, frame.top() - 2.0), "tick", "start", &rule.label);
        } else {
            let Some(y) = frame.y.at(rule.at) else { continue };
            svg.line((frame.left(), y), (frame.right(), y), "rule");
            svg.text((frame.right(), y - 4.0), "tick", "end", &rule.label);
        }
    }
}

/// Whether the chart has bars, so that their axis has names.
pub(super) fn has_bars(chart: &Chart) -> bool {
    chart.series.iter().any(|series| series.mark == Mark::Bars)
}
