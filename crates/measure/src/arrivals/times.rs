//! The due times of an open loop's requests, as a function of their number.
//!
//! 1. A request's *place* counts requests. It is the request's number, or for Poisson arrivals the
//!    sum of the gaps before it, whose mean is one. A table of 2^16 gaps is drawn once and repeats.
//!    Its sum is scaled to 2^16, so the rate of a run is exact, and a place is one look-up.
//! 2. The *course* turns a place into a time: one rate; rates that change (a search among the
//!    segments of a round); the times of a trace. So Poisson arrivals at changing rates are a
//!    Poisson process of these rates (time change).
//!
//! Both steps have inverses, which give the number of requests that are due by a time.

use super::{Pattern, Segment};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1};
use std::sync::Arc;

/// Gaps in the table of a Poisson process.
const GAPS: u64 = 1 << 16;

/// Due times.
#[derive(Debug)]
pub(super) struct Times {
    course: Course,
    gaps: Option<Vec<f64>>,
}

#[derive(Debug)]
enum Course {
    /// Requests per nanosecond.
    Rate(f64),
    Round(Round),
    /// The recorded microseconds of each request, and the speed.
    Recorded(Arc<[u64]>, f64),
}

/// One round of a pattern.
#[derive(Debug)]
struct Round {
    segments: Vec<Part>,
    requests: f64,
    nanos: f64,
}

/// A segment: its begin and end in requests and in nanoseconds.
#[derive(Debug)]
struct Part {
    requests: (f64, f64),
    nanos: (f64, f64),
}

impl Times {
    /// Due times of `rate` requests each second.
    pub fn even(rate: f64) -> Self {
        Self { course: Course::Rate(rate / 1e9), gaps: None }
    }

    /// Due times of a pattern.
    pub fn varying(pattern: &Pattern) -> Self {
        let (mut requests, mut nanos) = (0.0, 0.0);
        let part = |segment: &Segment| {
            let begin = (requests, nanos);
            nanos += segment.seconds * 1e9;
            requests += segment.seconds * segment.rate;
            Part { requests: (begin.0, requests), nanos: (begin.1, nanos) }
        };
        let segments = pattern.segments.iter().map(part).collect();
        Self { course: Course::Round(Round { segments, requests, nanos }), gaps: None }
    }

    /// Recorded due times in microseconds, in ascending order.
    pub fn recorded(micros: Arc<[u64]>, speed: f64) -> Self {
        Self { course: Course::Recorded(micros, speed), gaps: None }
    }

    /// The same rates with exponential gaps.
    pub fn poisson(mut self, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut sum = 0.0;
        let mut gaps: Vec<f64> = (0..GAPS)
            .map(|_| {
                let gap: f64 = Exp1.sample(&mut rng);
                sum += gap;
                sum
            })
            .collect();
        gaps.iter_mut().for_each(|place| *place *= GAPS as f64 / sum);
        self.gaps = Some(gaps);
        self
    }

    /// The largest number of requests.
    pub fn limit(&self) -> u64 {
        match &self.course {
            Course::Recorded(micros, _) => micros.len() as u64,
            _ => u64::MAX,
        }
    }

    /// The due time of a request, in nanoseconds.
    #[inline]
    pub fn due(&self, index: u64) -> u64 {
        let place = match &self.gaps {
            None => index as f64,
            Some(gaps) => (index & !(GAPS - 1)) as f64 + gaps[(index & (GAPS - 1)) as usize],
        };
        match &self.course {
            Course::Rate(rate) => (place / rate) as u64,
            Course::Round(round) => round.nanos(place) as u64,
            Course::Recorded(micros, speed) => {
                micros.get(index as usize).map_or(u64::MAX, |us| (*us as f64 * 1e3 / speed) as u64)
            }
        }
    }

    /// The number of requests that are due by this nanosecond.
    pub fn until(&self, nanos: f64) -> u64 {
        match self.place(nanos) {
            Ok(place) => place.floor() as u64 + 1,
            Err(count) => count,
        }
    }

    /// The number of requests that are due before this nanosecond.
    pub fn before(&self, nanos: f64) -> u64 {
        match self.place(nanos) {
            // Sums of products are not exact. The margin leaves out a request at the very end.
            Ok(place) => (place - 1e-6).ceil() as u64,
            Err(count) => count,
        }
    }

    /// The place that is due at this nanosecond if places are numbers, or else the number of
    /// requests.
    fn place(&self, nanos: f64) -> Result<f64, u64> {
        let place = match &self.course {
            Course::Rate(rate) => nanos * rate,
            Course::Round(round) => round.place(nanos),
            Course::Recorded(micros, speed) => {
                let until = nanos * speed / 1e3;
                return Err(micros.partition_point(|us| *us as f64 <= until) as u64);
            }
        };
        let Some(gaps) = &self.gaps else { return Ok(place) };
        let rounds = (place / GAPS as f64).floor();
        let rest = place - rounds * GAPS as f64;
        Err(rounds as u64 * GAPS + gaps.partition_point(|gap| *gap <= rest) as u64)
    }
}

impl Round {
    #[inline]
    fn nanos(&self, place: f64) -> f64 {
        let rounds = (place / self.requests).floor();
        let rest = place - rounds * self.requests;
        let index = self.segments.partition_point(|part| part.requests.1 <= rest);
        let Some(part) = self.segments.get(index) else { return (rounds + 1.0) * self.nanos };
        rounds * self.nanos + between(rest, part.requests, part.nanos)
    }

    fn place(&self, nanos: f64) -> f64 {
        let rounds = (nanos / self.nanos).floor();
        let rest = nanos - rounds * self.nanos;
        let index = self.segments.partition_point(|part| part.nanos.1 <= rest);
        let Some(part) = self.segments.get(index) else { return (rounds + 1.0) * self.requests };
        rounds * self.requests + between(rest, part.nanos, part.requests)
    }
}

/// Maps `at` from the range `from` to the range `to`, linearly.
fn between(at: f64, from: (f64, f64), to: (f64, f64)) -> f64 {
    to.0 + (at - from.0) / (from.1 - from.0) * (to.1 - to.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: f64 = 1e9;

    #[test]
    fn poisson_gaps_are_exponential_and_their_rate_is_exact() {
        let times = Times::even(1000.0).poisson(7);
        let due: Vec<u64> = (0..200_000).map(|index| times.due(index)).collect();
        assert!(due.is_sorted());
        let whole = 3 * GAPS as usize;
        assert!((due[whole - 1] as f64 / SECOND - whole as f64 / 1000.0).abs() < 1e-6);
        // A share of e^-x of exponential gaps is longer than x times the mean, within 5 standard
        // deviations.
        for x in [0.1, 0.5, 1.0, 2.0, 4.0] {
            let longer = (1..GAPS as usize).filter(|i| due[*i] - due[i - 1] > (x * 1e6) as u64);
            let (found, share) = (longer.count() as f64, f64::exp(-x));
            let expected = share * GAPS as f64;
            let deviation = (expected * (1.0 - share)).sqrt();
            assert!((found - expected).abs() < 5.0 * deviation, "{x}: {found} of {expected}");
        }
        assert_eq!(times.due(5), Times::even(1000.0).poisson(7).due(5));
        assert_ne!(times.due(5), Times::even(1000.0).poisson(8).due(5));
    }

    #[test]
    fn a_pattern_has_its_rates_in_its_segments_again_and_again() {
        let pattern = Pattern::new([(2.0, 100.0), (1.0, 0.0), (3.0, 10.0)]);
        for times in [Times::varying(&pattern), Times::varying(&pattern).poisson(3)] {
            let count = |from: f64, to: f64| {
                let due = (0..100_000).map(|index| times.due(index) as f64 / SECOND);
                due.filter(|due| (from..to).contains(due)).count() as i64
            };
            let near = |found: i64, expected: i64| {
                assert!((found - expected).abs() <= expected / 4 + 1, "{found} is not {expected}");
            };
            near(count(0.0, 2.0), 200);
            assert_eq!(count(2.0001, 2.9999), 0);
            near(count(3.0, 6.0), 30);
            near(count(600.0, 602.0), 200);
            near(count(0.0, 600.0), 23_000);
        }
        let even = Times::varying(&pattern);
        assert_eq!((even.due(0), even.due(50), even.due(201)), (0, 500_000_000, 3_100_000_000));
        assert_eq!((even.before(6.0 * SECOND), even.before(SECOND / 2.0)), (230, 50));
    }

    #[test]
    fn what_is_due_is_counted() {
        let pattern = Pattern::new([(0.5, 2000.0), (1.5, 10.0)]);
        let recorded: Arc<[u64]> = [0, 10, 10, 2_000_000, 2_000_001].into();
        for times in [
            Times::even(500.0),
            Times::even(500.0).poisson(1),
            Times::varying(&pattern),
            Times::varying(&pattern).poisson(1),
            Times::recorded(recorded, 2.0),
        ] {
            for nanos in [1.0, 5e6, 1.23e9, 7.77e9] {
                let by_search = (0..1_000_000).take_while(|&i| times.due(i) as f64 <= nanos);
                assert_eq!(times.until(nanos), by_search.count() as u64, "at {nanos}");
            }
        }
    }

    #[test]
    fn a_trace_goes_as_fast_as_asked() {
        let times = Times::recorded([0, 100, 250].into(), 10.0);
        assert_eq!([0, 1, 2].map(|index| times.due(index)), [0, 10_000, 25_000]);
        assert_eq!((times.limit(), times.due(3)), (3, u64::MAX));
    }
}
