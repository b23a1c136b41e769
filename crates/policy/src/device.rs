//! The throughput of a device by mix of reads and writes, measured beforehand.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §V.B ("a reading and write performance mapping for different reading/writing
//! ratios"). A point gives the share of the bytes that was read, and the bytes per second that were
//! then read and written together. Between two points the throughput is interpolated linearly.

use serde::{Deserialize, Serialize};
use vlsm_core::{BytesPerSec, Error, Result};

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePoint {
    /// Share of the bytes that are read, 0 to 1.
    pub read_share: f64,
    /// Bytes read and written per second, together.
    pub throughput: BytesPerSec,
}

/// A device's throughput by mix.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceMap {
    /// The points of the map, in ascending order of `read_share`.
    pub points: Vec<DevicePoint>,
}

impl DeviceMap {
    /// A device with the same throughput for every mix.
    #[must_use]
    pub fn even(throughput: BytesPerSec) -> Self {
        Self { points: vec![DevicePoint { read_share: 0.5, throughput }] }
    }

    /// Refuses an implausible map. An empty map is valid: the device is not measured yet.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] with what is wrong.
    pub fn check(&self) -> Result<()> {
        let wrong = |why: &str| Err(Error::InvalidOption { option: "device", why: why.into() });
        if self.points.iter().any(|point| !(0.0..=1.0).contains(&point.read_share)) {
            return wrong("a read_share must be from 0 to 1");
        }
        if self.points.windows(2).any(|pair| pair[0].read_share >= pair[1].read_share) {
            return wrong("points must be by ascending read_share, each once");
        }
        if self.points.iter().any(|point| point.throughput.0 < 1 << 20) {
            return wrong("a throughput must be at least 1 MB/s");
        }
        Ok(())
    }

    /// Bytes read and written per second, together, at this mix; none for an empty map.
    #[must_use]
    pub fn throughput(&self, read_share: f64) -> Option<BytesPerSec> {
        let after = self.points.iter().position(|point| point.read_share >= read_share);
        let (before, after) = match after {
            Some(0) => (self.points[0], self.points[0]),
            Some(index) => (self.points[index - 1], self.points[index]),
            None => self.points.last().map(|last| (*last, *last))?,
        };
        let span = after.read_share - before.read_share;
        let part = if span > 0.0 { (read_share - before.read_share) / span } else { 0.0 };
        let (low, high) = (before.throughput.as_f64(), after.throughput.as_f64());
        Some(BytesPerSec((low + (high - low) * part) as u64))
    }

    /// The least throughput of any mix: a safe value for plans.
    #[must_use]
    pub fn least(&self) -> Option<BytesPerSec> {
        self.points.iter().map(|point| point.throughput).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_points_it_is_both_in_proportion() {
        let point =
            |read_share, mib: u64| DevicePoint { read_share, throughput: BytesPerSec(mib << 20) };
        let map = DeviceMap { points: vec![point(0.0, 100), point(0.5, 200), point(1.0, 400)] };
        let at = |share| map.throughput(share).map(|rate| rate.0 >> 20);
        assert_eq!(
            [at(0.0), at(0.25), at(0.5), at(0.75), at(1.0)].map(Option::unwrap),
            [100, 150, 200, 300, 400]
        );
        assert_eq!(map.least(), Some(BytesPerSec(100 << 20)));
        map.check().expect("ascending");
        let wrong = DeviceMap { points: map.points.iter().rev().copied().collect() };
        assert!(wrong.check().expect_err("descending").to_string().contains("ascending"));
        let even = DeviceMap::even(BytesPerSec(7));
        assert_eq!((even.throughput(0.0), even.throughput(1.0)), (even.least(), even.least()));
        assert_eq!(DeviceMap::default().throughput(0.5), None);
    }
}
