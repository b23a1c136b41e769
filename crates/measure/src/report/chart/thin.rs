//! Thins points for the same picture, and makes points from plain values.
//!
//! *Thinning*: a long series has many points in each column of pixels. Each column keeps its first,
//! least, largest and last point, in their order: the drawn line covers the same pixels as all
//! points would, and no peak is lost. A column with gaps keeps one of them.

use super::Point;

/// The width of a column in pixels.
const COLUMN: f64 = 1.0;

/// The indexes of the points to draw; `at` gives the pixel of a value on the x axis.
pub(super) fn thin(points: &[Point], at: impl Fn(f64) -> Option<f64>) -> Vec<usize> {
    let column = |point: &Point| at(point.x).map(|px| (px / COLUMN).floor() as i64);
    let mut kept = Vec::new();
    let mut start = 0;
    while start < points.len() {
        let here = column(&points[start]);
        let same = points[start..].iter().take_while(|point| column(point) == here).count();
        keep(points, start..start + same, &mut kept);
        start += same;
    }
    kept
}

/// Keeps the first, the least, the largest and the last point of a column, and one of its gaps.
fn keep(points: &[Point], column: std::ops::Range<usize>, kept: &mut Vec<usize>) {
    let known = || column.clone().filter(|index| !points[*index].y.is_nan());
    let order = |a: &usize, b: &usize| points[*a].y.total_cmp(&points[*b].y);
    let gap = column.clone().find(|index| points[*index].y.is_nan());
    let of_interest =
        [known().next(), known().min_by(order), known().max_by(order), known().next_back(), gap];
    let begin = kept.len();
    kept.extend(of_interest.into_iter().flatten());
    kept[begin..].sort_unstable();
    kept.dedup();
}

/// The number of values in each of `bins` equal parts of their range, for `Mark::Filled`.
#[must_use]
pub fn histogram(values: &[f64], bins: usize) -> Vec<Point> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let Some(lo) = finite.iter().copied().reduce(f64::min) else { return Vec::new() };
    let hi = finite.iter().copied().fold(lo, f64::max);
    let bins = bins.max(1);
    let width = if hi > lo { (hi - lo) / bins as f64 } else { 1.0 };
    let mut counts = vec![0_u64; bins];
    for value in finite {
        counts[(((value - lo) / width) as usize).min(bins - 1)] += 1;
    }
    let edge = |index: usize| lo + index as f64 * width;
    let mut points: Vec<Point> =
        counts.iter().enumerate().map(|(i, n)| Point::from((edge(i), *n as f64))).collect();
    points.push(Point::from((edge(bins), *counts.last().unwrap_or(&0) as f64)));
    points
}

/// The share of the values (in per cent) that are at most x, for `Mark::Steps`.
#[must_use]
pub fn cdf(values: &[f64]) -> Vec<Point> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let share = |(i, v): (usize, f64)| Point::from((v, (i + 1) as f64 / count * 100.0));
    let mut points: Vec<Point> = sorted.into_iter().enumerate().map(share).collect();
    // The first step begins at zero.
    if let Some(first) = points.first().map(|point| point.x) {
        points.insert(0, Point::from((first, 0.0)));
    }
    points
}
