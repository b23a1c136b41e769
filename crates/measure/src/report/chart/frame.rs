//! The frame of a chart around its marks: title, legend, axes, grid, shading, reference lines.
//!
//! 1. Texts and legend take their lines from the top, lanes and x axis from the bottom; the plot
//!    gets the rest. The left margin is the same for all charts whose labels fit into it, so that
//!    charts under each other share their x axis to the pixel.
//! 2. Marks are drawn inside an `<svg>` of their own, which clips marks outside a given range.
//!
//! There are no font metrics here: the width of a text is estimated from its characters.

use super::axis::{Placed, Scale};
use super::{Chart, Colour, Mark, Span, lanes, marks};
use crate::report::theme::escape;
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
        let place = format!("x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"");
        self.element("rect", &place, class, title);
    }

    /// An element at this place with a tooltip, if it is not empty.
    pub fn element(&mut self, name: &str, place: &str, class: &str, title: &str) {
        self.add(format_args!("<{name} {place} class=\"{class}\">"));
        if !title.is_empty() {
            self.add(format_args!("<title>{}</title>", escape(title)));
        }
        self.add(format_args!("</{name}>"));
    }

    /// A group of elements in one colour, with more attributes.
    pub fn group(&mut self, colour: Colour, attributes: &str, elements: impl FnOnce(&mut Self)) {
        self.add(format_args!("<g style=\"--s:{}\"{attributes}>", colour.css()));
        elements(self);
        self.0.push_str("</g>");
    }
}

/// A number of pixels with at most one decimal.
pub(super) fn num(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The estimated width of a text.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 7.1
}

/// The plot: both axes placed, and its edges in pixels.
pub(super) struct Frame {
    pub x: Placed,
    pub y: Placed,
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Frame {
    /// The position of a point in pixels.
    pub fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        Some((self.x.at(x)?, self.y.at(y)?))
    }

    /// The begin and end of a stretch of the x axis in pixels, inside the plot and at least one
    /// pixel wide.
    pub fn stretch(&self, span: &Span) -> Option<(f64, f64)> {
        let (from, to) = self.x.at(span.from).zip(self.x.at(span.to))?;
        let (from, to) = (from.max(self.left), to.min(self.right));
        (to >= from).then(|| (from, to.max(from + 1.0)))
    }
}

/// Draws the whole chart.
pub(super) fn draw(chart: &Chart, width: f64, height: f64) -> String {
    let mut head = Drawing::default();
    let top = heading(chart, width, &mut head);
    let below = if chart.x.label.is_empty() { 22.0 } else { 38.0 };
    let bottom = (height - below).max(top + 40.0);
    let floor = bottom + lanes::height(chart);
    let frame = place(chart, (top, bottom), width);
    let mut svg = Drawing::default();
    let (left, right) = (frame.left, frame.right);
    let (h, title) = (num(floor + below), escape(&chart.title));
    let plot = [left, top, right, bottom].map(num);
    svg.add(format_args!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {h}\" width=\"{width}\" height=\"{h}\" \
         role=\"img\" aria-label=\"{title}\" data-box=\"{} {} {} {}\">{}",
        plot[0], plot[1], plot[2], plot[3], head.0
    ));
    // Draw the shading over stacked areas, which would cover it, but under other marks, whose
    // tooltips need the pointer.
    let over = chart.series.iter().any(|series| series.mark == Mark::Stacked);
    if !over {
        bands(chart, &frame, floor, &mut svg);
    }
    grid(chart, &frame, floor, &mut svg);
    if chart.measured() {
        let size = (right - left + 2.0 * OVER, bottom - top + 2.0 * OVER);
        let [x, y, w, h] = [left - OVER, top - OVER, size.0, size.1].map(num);
        svg.add(format_args!(
            "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\">"
        ));
        marks::draw(chart, &frame, &mut svg);
        svg.0.push_str("</svg>");
    } else {
        let middle = (f64::midpoint(left, right), f64::midpoint(top, bottom));
        svg.text(middle, "label", "middle", "not measured");
    }
    if over {
        bands(chart, &frame, floor, &mut svg);
    }
    rules(chart, &frame, &mut svg);
    lanes::draw(chart, &frame, bottom, &mut svg);
    svg.0.push_str("</svg>");
    svg.0
}

/// Draws title, subtitle, legend and the label of the y axis. Returns where the plot may begin.
fn heading(chart: &Chart, width: f64, out: &mut Drawing) -> f64 {
    let mut y = 4.0;
    for (text, class, height) in [(&chart.title, "title", 16.0), (&chart.subtitle, "label", 17.0)] {
        if !text.is_empty() {
            y += height;
            out.text((0.0, y), class, "start", text);
        }
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
    let series = chart.series.iter().enumerate();
    let series = series.map(|(index, series)| (&series.name, chart.colour(index), Some(index)));
    let bands = chart.bands.iter().map(|band| (&band.title, band.colour, None));
    let mut entries: Vec<(&String, Colour, Option<usize>)> = Vec::new();
    for entry in series.chain(bands).filter(|(text, ..)| !text.is_empty()) {
        // Bands of the same title share an entry.
        if entry.2.is_some() || !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    if entries.len() < 2 && chart.bands.is_empty() {
        return above;
    }
    let (mut x, mut y) = (0.0, above + 20.0);
    for (text, colour, index) in entries {
        let need = 26.0 + width_of(text) + 14.0;
        if x > 0.0 && x + need > width {
            (x, y) = (0.0, y + 17.0);
        }
        out.group(colour, "", |out| match index {
            Some(index) => marks::key(chart, index, (x, y - 4.0), out),
            None => out.rect((x, y - 9.0), (20.0, 10.0), "band", ""),
        });
        out.text((x + 26.0, y), "key", "start", text);
        x += need;
    }
    y
}

fn place(chart: &Chart, (top, bottom): (f64, f64), width: f64) -> Frame {
    let named = chart.lying();
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let intervals = || points().flat_map(|point| [point.interval.0, point.interval.1]);
    let stacked = marks::stacked(chart);
    let ys = stacked.iter().flatten().map(|(point, _)| point.y);
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
    let xs = points().map(|point| point.x);
    let xs = xs.chain(intervals().filter(|_| named)).chain(rules(true));
    let spans = chart.lanes.iter().flat_map(|lane| &lane.spans).flat_map(|s| [s.from, s.to]);
    let right = width - RIGHT;
    Frame { x: chart.x.place(xs.chain(spans), (left, right)), y, left, top, right, bottom }
}

fn grid(chart: &Chart, frame: &Frame, floor: f64, svg: &mut Drawing) {
    let (left, right) = (frame.left, frame.right);
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
            svg.line((x, frame.top), (x, floor), "grid");
        }
        // The last label must stay inside the drawing.
        let half = width_of(text) / 2.0;
        let x = x.min(right + RIGHT - half);
        if x - half > free {
            svg.text((x, floor + 16.0), "tick", "middle", text);
            free = x + half + 6.0;
        }
    }
    svg.line((left, frame.bottom), (right, frame.bottom), "axis");
    if !chart.x.label.is_empty() {
        svg.text(((left + right) / 2.0, floor + 33.0), "label", "middle", &chart.x.label);
    }
}

fn bands(chart: &Chart, frame: &Frame, floor: f64, svg: &mut Drawing) {
    for band in &chart.bands {
        let Some((from, to)) = frame.stretch(band) else { continue };
        let (begin, end) = (chart.x.text(band.from), chart.x.text(band.to));
        let title = format!("{}: {begin} to {end}", band.title);
        let (at, size) = ((from, frame.top), (to - from, floor - frame.top));
        svg.group(band.colour, "", |svg| svg.rect(at, size, "band", &title));
    }
}

fn rules(chart: &Chart, frame: &Frame, svg: &mut Drawing) {
    for rule in &chart.rules {
        if rule.upright {
            let Some(x) = frame.x.at(rule.at) else { continue };
            svg.line((x, frame.top), (x, frame.bottom), "rule");
            svg.text((x + 4.0, frame.top - 2.0), "tick", "start", &rule.label);
        } else {
            let Some(y) = frame.y.at(rule.at) else { continue };
            svg.line((frame.left, y), (frame.right, y), "rule");
            svg.text((frame.right, y - 4.0), "tick", "end", &rule.label);
        }
    }
}
