//! Charts from plain values, as SVG: for the reports, and for the figures of the papers.
//!
//! ```
//! use vlsm_measure::report::chart::{Axis, Chart, Mark, Series, Unit};
//! let chart = Chart {
//!     title: "Throughput".into(),
//!     x: Axis::linear("time", Unit::Seconds),
//!     y: Axis::linear("operations per second", Unit::PerSecond),
//!     series: vec![Series::new("vlsm", Mark::Line, [(0.0, 90e3), (1.0, 110e3)])],
//!     ..Chart::default()
//! };
//! assert!(chart.svg(640, 280).starts_with("<svg"));
//! ```
//!
//! 1. A chart has from top to bottom: title, subtitle, legend (if there is more than one thing to
//!    distinguish), label of the y axis, plot, lanes of spans over the same x axis, x axis.
//! 2. Colours are CSS variables of [`theme`](super::theme): one file serves light and dark. Series
//!    differ by marker too. A dashed curve was not measured here; it comes from a paper, say.
//! 3. A missing value (NaN) is a gap. A chart without any value says "not measured".
//! 4. Long series are thinned without losing a peak ([`thin`]).
//!
//! [`Chart::svg`] is for a page that has the theme.

pub mod axis;
mod frame;
mod lanes;
mod marks;
pub mod thin;

pub use axis::{Axis, Scale, Unit};
pub use thin::cdf;

/// A chart. Everything except the axes may be empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// The title: the subject of the chart.
    pub title: String,
    /// The conditions, in a smaller line.
    pub subtitle: String,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top; an axis of names goes from top to bottom.
    pub y: Axis,
    /// The series that it shows.
    pub series: Vec<Series>,
    /// Stretches of the x axis that are shaded over the whole height: stalls. All of the same
    /// title share an entry in the legend.
    pub bands: Vec<Span>,
    /// Lines at a value: a limit, a target, an offered rate.
    pub rules: Vec<Rule>,
    /// Strips under the plot with the same x axis: background jobs.
    pub lanes: Vec<Lane>,
}

/// A point of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its value on the x axis; the number of the name on an axis of names.
    pub x: f64,
    /// Its value on the y axis; NaN is a gap.
    pub y: f64,
    /// The ends of its interval, drawn along the axis without names; NaN for none.
    pub interval: (f64, f64),
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self { x, y, interval: (f64::NAN, f64::NAN) }
    }
}

impl Point {
    /// The point with an interval.
    #[must_use]
    pub fn between(self, least: f64, largest: f64) -> Self {
        Self { interval: (least, largest), ..self }
    }
}

/// The form in which a series is drawn. Later ones are drawn over earlier ones: lines over areas,
/// dots over bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mark {
    /// Areas on top of each other, in the order of the series; all have the same x.
    Stacked,
    /// A bar for each name; several series stand side by side.
    Bars,
    /// A line from point to point.
    #[default]
    Line,
    /// Steps: a value holds until the next one.
    Steps,
    /// A marker at each point.
    Dots,
}

/// A colour of the theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// One of eight colours for things of different kinds, as stores. They repeat after the eighth.
    Slot(usize),
    /// One of eight colours for things with an order, as levels, from the faintest.
    Ramp(usize),
    /// The colour of secondary things.
    Muted,
    /// The colour of stalls.
    Alarm,
}

impl Colour {
    /// Its CSS variable.
    #[must_use]
    pub fn css(self) -> String {
        match self {
            Self::Slot(index) => format!("var(--c{})", index % 8),
            Self::Ramp(index) => format!("var(--q{})", index.min(7)),
            Self::Muted => "var(--muted)".into(),
            Self::Alarm => "var(--alarm)".into(),
        }
    }
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend. A series without a name is not in the legend.
    pub name: String,
    /// The form in which it is drawn.
    pub mark: Mark,
    /// Its colour and marker; by default its place among the series decides them.
    pub colour: Option<Colour>,
    /// Whether it was not measured here but taken from elsewhere. It is drawn dashed.
    pub reference: bool,
    /// Its points, in the order of x.
    pub points: Vec<Point>,
}

impl Series {
    /// A series of measured points.
    #[must_use]
    pub fn new<P: Into<Point>>(
        name: &str,
        mark: Mark,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        let points = points.into_iter().map(Into::into).collect();
        Self { name: name.into(), mark, colour: None, reference: false, points }
    }

    /// Sets the colour.
    #[must_use]
    pub fn colour(mut self, colour: Colour) -> Self {
        self.colour = Some(colour);
        self
    }

    /// Marks the series as a curve from elsewhere.
    #[must_use]
    pub fn reference(mut self) -> Self {
        self.reference = true;
        self
    }
}

/// A line at a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The value.
    pub at: f64,
    /// Whether the value is on the x axis, so that the line is upright.
    pub upright: bool,
    /// Its label.
    pub label: String,
}

/// A strip of spans under the plot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lane {
    /// The text left of it.
    pub label: String,
    /// Its spans; overlapping ones are drawn under each other.
    pub spans: Vec<Span>,
}

/// A stretch of the x axis: a span of a lane, or shaded over the whole height.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its begin.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Its colour.
    pub colour: Colour,
    /// Its tooltip.
    pub title: String,
}

impl Chart {
    /// The drawing, with this width and height in pixels. Lanes add to the height.
    #[must_use]
    pub fn svg(&self, width: u32, height: u32) -> String {
        frame::draw(self, f64::from(width), f64::from(height))
    }

    /// The colour of a series.
    fn colour(&self, index: usize) -> Colour {
        self.series[index].colour.unwrap_or(Colour::Slot(index))
    }

    /// Whether values go from left to right, each in the line of its name.
    fn lying(&self) -> bool {
        matches!(self.y.scale, Scale::Names(_))
    }

    /// Whether there is anything to draw.
    pub(super) fn measured(&self) -> bool {
        self.series.iter().flat_map(|series| &series.points).any(|point| point.y.is_finite())
            || self.lanes.iter().any(|lane| !lane.spans.is_empty())
    }
}
