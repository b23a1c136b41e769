//! Axes: their labels, their units, and the positions of values.
//!
//! 1. The domain is given or comes from the data. From the data, a linear axis includes zero, and a
//!    logarithmic one starts at 1, 2 or 5 times a power of ten. An axis of quantiles spreads the
//!    tail: quantile q is at log₁₀ 1/(1 − q), as in the plots of HDR histograms.
//! 2. Ticks are round numbers *of the unit they are written in*: 64 MB, 2 min, 150 k/s.
//! 3. `Placed::at` turns a value into a position. A value without a position (NaN, zero on a
//!    logarithmic axis) is a gap, never a zero.

use vlsm_core::units::{GIB, KIB, MIB};

/// The unit of a number; it decides how the number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// A plain number.
    #[default]
    Plain,
    /// A number per second.
    PerSecond,
    /// Microseconds.
    Micros,
    /// Seconds.
    Seconds,
    /// Bytes, in powers of 1024 as everywhere in the project.
    Bytes,
    /// Per cent.
    Percent,
    /// A factor: amplification, ratios.
    Times,
}

impl Unit {
    /// The steps in which numbers are written: the least size of each step, and its word.
    fn ladder(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Plain => &[(1.0, ""), (1e3, " k"), (1e6, " M"), (1e9, " G")],
            Self::PerSecond => &[(1.0, "/s"), (1e3, " k/s"), (1e6, " M/s")],
            Self::Micros => &[(1e-3, " ns"), (1.0, " µs"), (1e3, " ms"), (1e6, " s")],
            Self::Seconds => &[(1e-6, " µs"), (1e-3, " ms"), (1.0, " s"), (60.0, " min")],
            Self::Bytes => {
                &[(1.0, " B"), (KIB as f64, " KB"), (MIB as f64, " MB"), (GIB as f64, " GB")]
            }
            Self::Percent => &[(1.0, " %")],
            Self::Times => &[(1.0, "×")],
        }
    }

    /// The step for numbers of about this size.
    fn step(self, value: f64) -> (f64, &'static str) {
        // Zero is written like one.
        let value = if value == 0.0 { 1.0 } else { value.abs() };
        // 90 s is easier to read than 1.5 min.
        let enough = |size: f64| value >= if size == 60.0 { 180.0 } else { size };
        let ladder = self.ladder();
        *ladder.iter().rev().find(|(size, _)| enough(*size)).unwrap_or(&ladder[0])
    }

    /// A number with its unit, to three digits.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".into();
        }
        let (size, word) = self.step(value);
        // A whole plain number has no decimals.
        let whole = self == Self::Plain && size == 1.0 && value.fract() == 0.0;
        let number = if whole { format!("{value:.0}") } else { digits(value / size) };
        format!("{number}{word}")
    }
}

/// A number with three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 || v == 0.0 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// A number without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The spread of values along an axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Scale {
    /// Values are spread evenly.
    #[default]
    Linear,
    /// Values are spread by their logarithm.
    Log,
    /// Values are quantiles from 0 to 1; the tail is spread.
    Quantile,
    /// Each name has one place; values are the numbers of names, from 0.
    Names(Vec<String>),
}

/// An axis of a chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// The text beside it.
    pub label: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The spread of its values.
    pub scale: Scale,
    /// Its domain; without it, the domain comes from the data.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: &str, unit: Unit) -> Self {
        Self { label: label.into(), unit, ..Self::default() }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(label: &str, unit: Unit) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// An axis of quantiles.
    #[must_use]
    pub fn quantiles(label: &str) -> Self {
        Self { scale: Scale::Quantile, ..Self::linear(label, Unit::Percent) }
    }

    /// An axis of names.
    #[must_use]
    pub fn names<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { scale: Scale::Names(names), ..Self::default() }
    }

    /// Sets the domain of the axis.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }

    /// A value in words.
    #[must_use]
    pub fn text(&self, value: f64) -> String {
        match &self.scale {
            Scale::Names(names) => {
                names.get(value.round().max(0.0) as usize).cloned().unwrap_or_default()
            }
            Scale::Quantile => quantile(value),
            _ => self.unit.text(value),
        }
    }

    /// Places the axis between two pixels, for these values.
    pub(super) fn place(&self, values: impl Iterator<Item = f64>, px: (f64, f64)) -> Placed {
        let usable = |v: &f64| v.is_finite() && (self.scale != Scale::Log || *v > 0.0);
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        let found = values.filter(usable).fold(none, |(lo, hi), v| (lo.min(v), hi.max(v)));
        let data = if found.0 <= found.1 { found } else { (1.0, 1.0) };
        // Texts beside each other need more room than texts above each other.
        let each = if px.1 > px.0 { 80.0 } else { 40.0 };
        let room = ((px.1 - px.0).abs() / each).clamp(2.0, 10.0);
        let ((lo, hi), ticks) = match &self.scale {
            Scale::Linear => self.linear_domain(data, room),
            Scale::Log => self.log_domain(data),
            Scale::Quantile => quantile_domain(data.1),
            Scale::Names(names) => {
                let ticks = names.iter().cloned().enumerate().map(|(i, n)| (i as f64, n));
                ((-0.5, names.len() as f64 - 0.5), ticks.collect())
            }
        };
        let scale = self.scale.clone();
        Placed { lo: scale.bend(lo), hi: scale.bend(hi), scale, px, ticks }
    }

    fn linear_domain(&self, data: (f64, f64), room: f64) -> Domain {
        let (lo, hi) = self.range.unwrap_or((data.0.min(0.0), data.1.max(0.0)));
        let hi = if hi > lo { hi } else { lo + 1.0 };
        let largest = lo.abs().max(hi.abs());
        let (size, word) = self.unit.step(largest);
        let step = size * round_step((hi - lo) / size / room, word);
        // A given range is kept; a range from the data ends at ticks.
        let (ends, first, last) = match self.range {
            Some(_) => ((lo, hi), (lo / step).ceil(), (hi / step + 1e-9).floor()),
            None => {
                let (first, last) = ((lo / step + 1e-9).floor(), (hi / step - 1e-9).ceil());
                ((first * step, last * step), first, last)
            }
        };
        (ends, evenly(first, last, step).map(|value| self.tick(value, largest)).collect())
    }

    fn log_domain(&self, data: (f64, f64)) -> Domain {
        let (lo, hi) = self.range.unwrap_or_else(|| {
            (one_two_five(data.0 * 0.96, false), one_two_five(data.1 * 1.04, true))
        });
        let hi = if hi > lo { hi } else { lo * 10.0 };
        let decades = (hi / lo).log10();
        let ticks: Vec<f64> = if decades < 0.9 {
            let step = round_step((hi - lo) / 6.0, "");
            evenly((lo / step).ceil(), (hi / step + 1e-9).floor(), step).collect()
        } else {
            let factors: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let powers = (lo.log10() - 1e-9).floor() as i32..=(hi.log10() + 1e-9).floor() as i32;
            let all = powers.flat_map(|power| factors.iter().map(move |f| f * 10_f64.powi(power)));
            all.filter(|v| (lo * 0.999_999..=hi * 1.000_001).contains(v)).collect()
        };
        ((lo, hi), ticks.into_iter().map(|v| self.tick(v, v * 1.000_001)).collect())
    }

    /// The tick of a value, written like this other one.
    fn tick(&self, value: f64, like: f64) -> (f64, String) {
        let (size, word) = self.unit.step(like);
        let zero = value == 0.0;
        (value, if zero { "0".into() } else { format!("{}{word}", short(value / size)) })
    }
}

/// The first and the last value of an axis, and its ticks.
type Domain = ((f64, f64), Vec<(f64, String)>);

/// The multiples of a step, from the first to the last.
fn evenly(first: f64, last: f64, step: f64) -> impl Iterator<Item = f64> {
    (first as i64..=last as i64).map(move |index| index as f64 * step)
}

/// The next number below or above that is 1, 2 or 5 times a power of ten.
fn one_two_five(value: f64, above: bool) -> f64 {
    let power = 10_f64.powf((value.log10() + 1e-9).floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let found = match above {
        true => steps.iter().find(|step| **step >= value * 0.999_999),
        false => steps.iter().rev().find(|step| **step <= value * 1.000_001),
    };
    *found.unwrap_or(&power)
}

/// A round step of at least this size.
fn round_step(least: f64, word: &str) -> f64 {
    if word == " min" && least > 0.5 {
        let minutes = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 240.0, 480.0];
        return *minutes.iter().find(|step| **step >= least).unwrap_or(&1440.0);
    }
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
    *steps.iter().find(|step| **step >= least * 0.999_999).unwrap_or(&steps[4])
}

/// A quantile with enough decimals for all its nines, as `99.9 %`.
fn quantile(q: f64) -> String {
    let tail = (1.0 - q).max(1e-12);
    let decimals = (-tail.log10() - 2.0 - 0.01).ceil().max(0.0) as usize;
    format!("{:.decimals$} %", q * 100.0)
}

/// The axis ends at the largest quantile, and at least at 99 %.
fn quantile_domain(largest: f64) -> Domain {
    let nines = (-(1.0 - largest).max(1e-10).log10()).max(2.0);
    let powers = 1..=(nines + 0.05).floor() as i32;
    let ticks = [0.5].into_iter().chain(powers.map(|power| 1.0 - 10_f64.powi(-power)));
    let ends = (0.0, 1.0 - 10_f64.powf(-nines - 0.05));
    (ends, ticks.map(|q| (q, quantile(q))).collect())
}

/// An axis with its place between two pixels.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    scale: Scale,
    lo: f64,
    hi: f64,
    /// The pixels of its first and last value.
    pub px: (f64, f64),
    /// Values with their labels.
    pub ticks: Vec<(f64, String)>,
}

impl Scale {
    fn bend(&self, value: f64) -> f64 {
        match self {
            Self::Log => value.log10(),
            Self::Quantile => -(1.0 - value).max(1e-12).log10(),
            Self::Linear | Self::Names(_) => value,
        }
    }
}

impl Placed {
    /// The pixel of a value; `None` if it has no position.
    pub fn at(&self, value: f64) -> Option<f64> {
        let share = (self.scale.bend(value) - self.lo) / (self.hi - self.lo);
        share.is_finite().then_some(self.px.0 + share * (self.px.1 - self.px.0))
    }

    /// The pixel at which bars and areas begin: zero, or the low end of an axis without zero.
    pub fn base(&self) -> f64 {
        let zero = self.lo <= 0.0 && self.hi >= 0.0 && self.scale == Scale::Linear;
        zero.then(|| self.at(0.0)).flatten().unwrap_or(self.px.0)
    }

    /// The pixels for each name on an axis of names.
    pub fn slot(&self) -> f64 {
        ((self.px.1 - self.px.0) / (self.hi - self.lo)).abs()
    }
}
