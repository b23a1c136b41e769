//! Distributions of the lengths of values and scans.
//!
//! A size is a function of a uniform number from 0 to 1 (the inverse of its distribution), so a
//! random number gives a size and evenly spaced numbers give the mean.

use serde::{Deserialize, Serialize};

/// A distribution of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// All sizes are equal.
    Fixed(usize),
    /// Sizes from the first to the second are equally likely.
    Uniform(usize, usize),
    /// Half of the sizes are uniform from the first number to the second, half from the second to
    /// the third, for a source that gives least, median and most.
    Halves(usize, usize, usize),
    /// Sizes follow a generalised Pareto distribution, rounded up.
    Pareto(Pareto),
}

/// A generalised Pareto distribution that begins at zero. Sizes below `min` become `min`; sizes
/// above `max` wrap around (modulo `max`), as in db_bench.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pareto {
    /// Its shape; not zero.
    pub k: f64,
    /// Its scale.
    pub sigma: f64,
    /// The least size.
    pub min: usize,
    /// The largest size.
    pub max: usize,
}

/// From 1 to 100, as the scans of YCSB.
impl Default for Sizes {
    fn default() -> Self {
        Self::Uniform(1, 100)
    }
}

/// The number of points that the mean is taken from.
const POINTS: u32 = 1 << 14;

impl Sizes {
    /// The size that has a share of `uniform` of all sizes below it.
    #[must_use]
    #[inline]
    pub fn at(&self, uniform: f64) -> usize {
        let within = |(min, max): (usize, usize), share: f64| {
            min + (share * (max - min + 1) as f64) as usize
        };
        match *self {
            Self::Fixed(size) => size,
            Self::Uniform(min, max) => within((min, max), uniform).min(max),
            Self::Halves(min, median, max) => match uniform < 0.5 {
                true => within((min, median - 1), uniform * 2.0).min(median),
                false => within((median, max), uniform * 2.0 - 1.0).min(max),
            },
            Self::Pareto(Pareto { k, sigma, min, max }) => {
                let size = (sigma * ((1.0 - uniform).powf(-k) - 1.0) / k).ceil() as usize;
                let size = if size > max { size % max } else { size };
                size.max(min)
            }
        }
    }

    /// The longest size.
    #[must_use]
    pub fn max(&self) -> usize {
        match *self {
            Self::Fixed(size) => size,
            Self::Uniform(_, max) | Self::Halves(_, _, max) => max,
            Self::Pareto(pareto) => pareto.max,
        }
    }

    /// The mean size.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if let Self::Fixed(size) = self {
            return *size as f64;
        }
        let sizes = (0..POINTS).map(|i| self.at((f64::from(i) + 0.5) / f64::from(POINTS)) as f64);
        sizes.sum::<f64>() / f64::from(POINTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_within_their_bounds_and_means_are_right() {
        let near = |sizes: Sizes, mean: f64| {
            assert!((sizes.mean() / mean - 1.0).abs() < 0.005, "{} is not {mean}", sizes.mean());
        };
        near(Sizes::Fixed(176), 176.0);
        near(Sizes::Uniform(1, 100), 50.5);
        near(Sizes::Halves(250, 400, 1024), (324.5 + 712.0) / 2.0);
        let uniform = Sizes::Uniform(1, 100);
        assert_eq!((uniform.at(0.0), uniform.at(0.005), uniform.at(0.999_999)), (1, 1, 100));
        let halves = Sizes::Halves(250, 400, 1024);
        assert_eq!((halves.at(0.0), halves.at(0.5), halves.at(0.999_999)), (250, 400, 1024));
        assert!(halves.at(0.499) < 400);
    }

    #[test]
    fn pareto_follows_its_formula() {
        // P(size > x) = (1 + k x / σ)^(-1/k)
        let (k, sigma) = (0.2615, 25.45);
        let sizes = Sizes::Pareto(Pareto { k, sigma, min: 1, max: 1024 });
        for x in [10.0, 50.0, 200.0] {
            let above = f64::powf(1.0 + k * x / sigma, -1.0 / k);
            assert_eq!(sizes.at(1.0 - above - 1e-9), x as usize);
        }
        assert!((sizes.mean() - sigma / (1.0 - k) - 0.5).abs() < 0.7, "{}", sizes.mean());
        assert!((0..10_000).all(|i| (1..=1024).contains(&sizes.at(f64::from(i) / 1e4))));
    }
}
