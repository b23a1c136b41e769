//! The rate on devices that are slow, limited per period, or fast.

use super::*;

const CHUNK: usize = 256 << 10;

/// A device with jobs that read from it all the time, one call after the other, and clients that
/// read at a rate.
struct Bench {
    now: Duration,
    throttle: Throttle,
    /// The bytes per second of the device in periods of this length: it is fast until they are used
    /// up, then it stops. Zero for a device that is slow all the time.
    bandwidth: f64,
    period: Duration,
    /// The clients' bytes per second.
    clients: f64,
    left: f64,
    until: Duration,
}

impl Bench {
    fn new(bandwidth: f64, period: Duration, clients: f64) -> Self {
        let (now, until) = (Duration::from_secs(5), Duration::ZERO);
        let throttle = Throttle::default();
        Self { now, throttle, bandwidth, period, clients, left: 0.0, until }
    }

    /// Runs for some seconds. Returns the jobs' bytes per second, the share of the time in which a
    /// client's read would have waited for 5 ms or more, and the longest piece in bytes.
    fn run(&mut self, seconds: f64, waiting: bool) -> (f64, f64, usize) {
        let begun = self.now;
        let end = begun + Duration::from_secs_f64(seconds);
        let (mut read, mut stalled, mut longest) = (0.0, 0.0, 0);
        while self.now < end {
            let (piece, start) = self.throttle.begin(self.now, CHUNK, waiting);
            let (idle, start) = (start.saturating_sub(self.now), start.max(self.now));
            let clients = |time: Duration| self.clients * time.as_secs_f64();
            // Without a limit: 1 GB/s and 60 µs a call.
            let fast = Duration::from_secs_f64(60e-6 + piece as f64 / 1e9);
            let ended = if self.period.is_zero() {
                let bytes = piece as f64 + clients(idle + fast);
                start + fast.max(Duration::from_secs_f64(bytes / self.bandwidth))
            } else {
                if start >= self.until {
                    self.until = start + self.period;
                    self.left = self.bandwidth * self.period.as_secs_f64();
                }
                self.left -= piece as f64 + clients(idle + fast);
                if self.left < 0.0 { self.until.max(start + fast) } else { start + fast }
            };
            let took = ended - start;
            if took > Duration::from_millis(5) {
                stalled += took.as_secs_f64();
            }
            self.throttle.end(ended, piece, took, waiting);
            (read, longest) = (read + piece as f64, longest.max(piece));
            self.now = ended;
        }
        let took = (self.now - begun).as_secs_f64();
        (read / took, stalled / took, longest)
    }
}

#[test]
fn a_fast_device_has_no_limit() {
    let mut bench = Bench::new(1e9, Duration::ZERO, 50e6);
    let (read, stalled, longest) = bench.run(20.0, true);
    assert!(bench.throttle.rate().is_none() && read > 700e6, "{read}");
    assert_eq!((stalled, longest), (0.0, CHUNK));
}

#[test]
fn clients_hardly_wait_for_a_device_that_is_limited_by_the_period() {
    for bandwidth in [100e6, 200e6, 400e6] {
        for period in [20, 100].map(Duration::from_millis) {
            let mut bench = Bench::new(bandwidth, period, bandwidth / 4.0);
            let (_, before, _) = bench.run(0.5, false);
            bench.run(3.0, true);
            let (read, stalled, longest) = bench.run(60.0, true);
            assert!(before > 0.4, "without clients nothing is held back: {before}");
            assert!(stalled < 0.01, "{bandwidth}, {period:?}: {stalled}");
            assert!(read > bandwidth * 0.5, "{bandwidth}, {period:?}: jobs go on: {read}");
            assert!(longest <= (bandwidth * 600e-6) as usize, "{longest}");
        }
    }
}

#[test]
fn a_client_waits_for_a_short_piece_of_a_slow_device() {
    let mut bench = Bench::new(60e6, Duration::ZERO, 10e6);
    bench.run(3.0, true);
    let (read, stalled, longest) = bench.run(20.0, true);
    assert!(stalled < 0.01 && longest <= 32 << 10, "{stalled}, {longest}");
    assert!(read > 30e6, "{read}");
}

#[test]
fn without_waiting_clients_nothing_is_held_back_and_the_rate_is_kept() {
    let mut bench = Bench::new(200e6, Duration::from_millis(100), 50e6);
    bench.run(3.0, true);
    let rate = bench.throttle.rate().expect("it is limited");
    let (piece, start) = bench.throttle.begin(bench.now, CHUNK, false);
    assert_eq!((piece, start), (CHUNK, bench.now));
    let (piece, _) = bench.throttle.begin(bench.now, CHUNK, true);
    assert!(piece < CHUNK);
    assert_eq!(bench.throttle.rate(), Some(rate));
}

#[test]
fn a_device_that_is_fast_again_is_found_so() {
    let mut bench = Bench::new(200e6, Duration::from_millis(100), 50e6);
    bench.run(5.0, true);
    assert!(bench.throttle.rate().is_some_and(|rate| rate < 200_000_000));
    (bench.period, bench.bandwidth) = (Duration::ZERO, 2e9);
    bench.run(100.0, true);
    assert_eq!(bench.throttle.rate(), None);
}

#[test]
fn one_pause_of_the_device_is_no_limit_and_there_is_a_least_rate() {
    let mut throttle = Throttle::default();
    let mut now = Duration::from_secs(1);
    let mut call = |now: &mut Duration, took: Duration| {
        let (piece, start) = throttle.begin(*now, CHUNK, true);
        *now = start + took;
        throttle.end(*now, piece, took, true);
        throttle.rate()
    };
    for _ in 0..100 {
        assert_eq!(call(&mut now, Duration::from_millis(15)), None);
        for _ in 0..1100 {
            assert_eq!(call(&mut now, Duration::from_millis(1)), None);
        }
    }
    for _ in 0..100 {
        call(&mut now, Duration::from_millis(400));
    }
    assert!(call(&mut now, Duration::from_millis(400)).is_some_and(|rate| rate >= 16_000_000));
}
