//! Thins points for the same picture, and makes a distribution of plain values.
//!
//! *Thinning*: a long series has many points in each column of pixels. Each column keeps its first,
//! least, largest and last point, in their order: the drawn line covers the same pixels as all
//! points would, and no peak is lost. A column with gaps keeps one of them.

use super::Point;

/// The indexes of the points to draw; `at` gives the pixel of a value on the x axis.
pub(super) fn thin(points: &[Point], at: impl Fn(f64) -> Option<f64>) -> Vec<usize> {
    let column = |point: &Point| at(point.x).map(|px| px.floor() as i64);
    let mut kept = Vec::new();
    let mut begin = 0;
    for same in points.chunk_by(|a, b| column(a) == column(b)) {
        let known = || (0..same.len()).filter(|index| !same[*index].y.is_nan());
        let order = |a: &usize, b: &usize| same[*a].y.total_cmp(&same[*b].y);
        let gap = same.iter().position(|point| point.y.is_nan());
        let ends = [known().next(), known().next_back(), gap];
        let peaks = [known().min_by(order), known().max_by(order)];
        let here = kept.len();
        kept.extend(ends.into_iter().chain(peaks).flatten().map(|index| begin + index));
        kept[here..].sort_unstable();
        kept.dedup();
        begin += same.len();
    }
    kept
}

/// The share of the values (in per cent) that are at most x, for `Mark::Steps`.
#[must_use]
pub fn cdf(values: &[f64]) -> Vec<Point> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    // The first step begins at zero.
    let zero = sorted.first().map(|first| Point::from((*first, 0.0)));
    let share = |(i, v): (usize, &f64)| Point::from((*v, (i + 1) as f64 / count * 100.0));
    zero.into_iter().chain(sorted.iter().enumerate().map(share)).collect()
}
