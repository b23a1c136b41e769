//! CruiseDB's controller over a store whose work in each second the tests determine: when there is
//! a first limit, how the limit changes, and when it is held.

use super::*;
use crate::device::DevicePoint;
use crate::signals::MemtableSignals;
use std::sync::Arc;
use vlsm_core::Bytes;

/// A store whose work in each second the tests determine.
struct Store {
    cruise: Cruise,
    signals: Signals,
}

impl Store {
    fn new(change: impl Fn(&mut CruiseOptions)) -> Self {
        let mut own = CruiseOptions { window: 1_000, ..CruiseOptions::default() };
        change(&mut own);
        let cruise = Cruise::new(&TreeOptions::default(), &own).expect("the options work");
        let mut store = Self { cruise, signals: Signals::default() };
        store.signals.counters.writes = 1;
        assert_eq!(store.at(0.0).writes, None);
        store
    }

    /// The answer at this watermark, with a memory that is small compared to the bytes written.
    fn at(&mut self, fill: f64) -> Admit {
        let (active, capacity) = (Bytes((fill * 1e3).round() as u64), Bytes(1_000));
        self.signals.memtables = MemtableSignals { active, capacity, ..Default::default() };
        self.cruise.decide(&self.signals)
    }

    /// Plays a second with `writes` writes of 1 KB, for each of which jobs write 3 KB, then sets
    /// the watermark to `fill`. Returns the limit in KB/s.
    fn second(&mut self, writes: u64, fill: f64) -> Option<u64> {
        self.signals.now += Micros(1_000_000);
        self.signals.counters.writes += writes;
        self.signals.counters.write_bytes += Bytes(writes << 10);
        self.signals.counters.job_written_bytes += Bytes((3 * writes) << 10);
        self.at(fill).writes.map(|rate| (rate.0 + 512) >> 10)
    }
}

/// With 3 KB of jobs' writes for each KB, reads and writes mix half and half, so 256 KB/s can be
/// written.
fn device() -> Arc<DeviceMap> {
    let point = |read_share, kib: u64| {
        let throughput = BytesPerSec(kib << 10);
        DevicePoint { read_share, throughput }
    };
    Arc::new(DeviceMap { points: vec![point(0.0, 512), point(0.5, 1_536), point(1.0, 4_096)] })
}

#[test]
fn nothing_is_limited_before_memory_is_half_full() {
    let mut store = Store::new(|_| {});
    assert_eq!(store.second(1_000, 0.1), None);
    assert_eq!(store.second(8_000, 0.49), None);
    assert_eq!(store.second(500, 0.6), None, "half a window");
    assert_eq!(store.second(1_500, 0.6), Some(1_000), "2,000 in two seconds");
    // From 80 % on at once, if the throughput of the device is known.
    let mut store = Store::new(|_| {});
    assert_eq!(store.second(500, 0.8), None);
    let mut store = Store::new(|_| {});
    store.signals.device = device();
    assert_eq!(store.second(300, 0.79), None);
    assert_eq!(store.second(200, 0.8), Some(250), "500 in two seconds; the device could do 256");
    assert_eq!(Store::new(|_| {}).second(0, 0.9), None, "nothing was written");
}

#[test]
fn the_first_limit_is_how_fast_writers_write_and_not_how_long_they_were_away() {
    let mut store = Store::new(|_| {});
    assert_eq!(store.second(500, 0.3), None);
    assert!(store.at(0.3).again.is_some(), "somebody writes");
    store.signals.now += Micros(3_600_000_000);
    assert_eq!(store.at(0.3), Admit::OPEN, "nobody does");
    assert_eq!(store.second(1, 0.3), None, "a window begins");
    assert_eq!(store.second(1_000, 0.6), Some(1_000));
    // Bytes that came before as a trickle do not count either, because windows end by time.
    let mut store = Store::new(|_| {});
    for _ in 0..100 {
        assert_eq!(store.second(1, 0.1), None);
    }
    assert_eq!(store.second(1_000, 0.6), Some(1_000));
}

#[test]
fn what_memory_took_in_was_not_processed() {
    let mut store = Store::new(|_| {});
    store.signals.device = device();
    // 10 MB in, of which 8 are in memory; for the other 2 jobs wrote 3: 1.5 a byte.
    store.signals.now += Micros(1_000_000);
    store.signals.counters.writes += 900;
    store.signals.counters.write_bytes += Bytes(10 << 20);
    store.signals.counters.job_written_bytes += Bytes(3 << 20);
    let (active, capacity) = (Bytes(8 << 20), Bytes(10 << 20));
    store.signals.memtables = MemtableSignals { active, capacity, ..Default::default() };
    let rate = store.cruise.decide(&store.signals).writes.expect("80 %");
    assert_eq!(rate.0 >> 10, 512, "1,536 ÷ 3");
}

#[test]
fn the_limit_follows_the_watermark_and_its_change() {
    let mut store = Store::new(|_| {});
    assert_eq!(store.second(1_000, 0.5), Some(1_000));
    assert_eq!(store.second(999, 0.7), Some(1_000), "not before the window's end");
    assert_eq!(store.second(1, 0.6), Some(910), "1 − 0.5·0.1 − 0.4·0.1");
    assert_eq!(store.second(1_000, 0.7), Some(783), "1 − 0.5·0.2 − 0.4·0.1");
    assert_eq!(store.second(1_000, 0.5), Some(845), "1 + 0.4·0.2");
    let mut bold = Store::new(|options| (options.k1, options.k2) = (1.0, 1.0));
    assert_eq!(bold.second(1_000, 0.5), Some(1_000));
    assert_eq!(bold.second(1_000, 0.6), Some(800));
}

#[test]
fn from_80_percent_on_the_device_bounds_it_at_once() {
    let mut store = Store::new(|_| {});
    store.signals.device = device();
    assert_eq!(store.second(500, 0.5), None);
    assert_eq!(store.second(500, 0.5), Some(500));
    assert_eq!(store.second(200, 0.79), Some(500));
    assert_eq!(store.second(0, 0.8), Some(256), "1,536 ÷ 6");
    assert_eq!(store.second(0, 0.7), Some(256), "until the window's end");
    assert_eq!(store.second(800, 0.7), Some(210), "1 − 0.5·0.2 − 0.4·0.2");
    // Feedback continues: the device never raises the limit.
    assert_eq!(store.second(1_000, 0.9), Some(151), "1 − 0.5·0.4 − 0.4·0.2");
    // With reads of clients the mix differs, 6 + 3 to 3, and there are more bytes.
    let mut reads = Store::new(|_| {});
    reads.signals.device = device();
    reads.signals.counters.cache_miss_bytes = Bytes(6_000 << 10);
    assert_eq!(reads.second(1_000, 0.85), Some(235), "2,816 ÷ 12");
}

#[test]
fn it_recovers_from_the_floor_and_rises_only_while_it_is_used() {
    let mut store = Store::new(|options| (options.k1, options.k2) = (1.0, 1.0));
    assert_eq!(store.second(10_000, 0.5), Some(10_000));
    assert_eq!(store.second(1_000, 1.0), Some(100), "the factor is 0");
    store.signals.counters.writes += 1;
    let look = store.at(1.0).again.expect("somebody writes") - store.signals.now;
    assert_eq!(look, Micros(400_000 / LOOKS), "windows are twice as long as the first");
    // The whole limit is used, and windows end by time.
    let (mut rate, mut seconds) = (100, 0);
    while rate < 5_000 {
        rate = store.second(rate, 0.2).expect("there is a limit");
        seconds += 1;
        assert!(seconds < 100, "{:?}", store.cruise);
    }
    for _ in 0..100 {
        assert_eq!(store.second(rate / 2, 0.0), Some(rate), "nobody needs more");
    }
    // While nothing is written, there is no further decision.
    assert_eq!(store.at(0.0).again, None);
    store.signals.counters.waiting_writers = 1;
    assert!(store.at(0.0).again.is_some());
}

#[test]
fn wrong_weights_are_refused() {
    let changes: [fn(&mut CruiseOptions); 4] = [
        |options| options.k1 = 0.0,
        |options| options.k1 = f64::NAN,
        |options| options.k2 = 1.1,
        |options| options.window = 0,
    ];
    for change in changes {
        let mut options = CruiseOptions::default();
        change(&mut options);
        assert!(options.check().expect_err("refused").to_string().contains("cruise."));
    }
    let most = CruiseOptions { k1: 1.0, k2: 1.0, ..CruiseOptions::default() };
    most.check().expect("Fig. 15");
}
