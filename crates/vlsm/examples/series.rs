//! Time series: measurements of sensors, averages over time ranges, and a retention that deletes
//! whole ranges.
//!
//! ```text
//! cargo run -p vlsm --example series [FOLDER]
//! ```
//!
//! 1. A key is the sensor and the time, both big-endian. So a sensor's measurements are one range,
//!    in the order of time.
//! 2. Old measurements become hourly averages. One batch writes the averages and deletes the range,
//!    so every query sees each hour exactly once.
//! 3. Deleting a range costs one write for each sensor, whatever the number of its measurements.

use std::path::{Path, PathBuf};
use vlsm::{Batch, Db, Error, Keyspace, KeyspaceOptions, Result, WriteOptions};

/// Seconds, from an epoch of the program's choice.
type Time = u64;
const HOUR: Time = 3600;

/// Measurements, and hourly averages of the older ones.
struct Series {
    db: Db,
    raw: Keyspace,
    hourly: Keyspace,
}

/// The sum and the number of measurements, from which averages are computed.
#[derive(Default, Clone, Copy)]
struct Sum {
    sum: f64,
    count: u64,
}

fn key(sensor: u32, time: Time) -> Vec<u8> {
    [&sensor.to_be_bytes()[..], &time.to_be_bytes()].concat()
}

fn eight(bytes: &[u8], from: usize) -> Result<[u8; 8]> {
    let part = bytes.get(from..from + 8).and_then(|part| part.try_into().ok());
    part.ok_or_else(|| Error::InvalidArgument("this is no store of time series".into()))
}

impl Series {
    fn open(folder: &Path) -> Result<Self> {
        let db = Db::open(folder)?;
        let raw = db.create_keyspace("raw", KeyspaceOptions::new())?;
        let hourly = db.create_keyspace("hourly", KeyspaceOptions::new())?;
        Ok(Self { db, raw, hourly })
    }

    /// Adds the measurements of all sensors at a time.
    fn add(&self, time: Time, values: &[(u32, f64)]) -> Result<()> {
        let mut batch = Batch::new();
        for (sensor, value) in values {
            batch.put(&self.raw, key(*sensor, time), value.to_be_bytes());
        }
        self.db.write(&batch, WriteOptions::default())
    }

    /// The average of a sensor over a time range, from both tables as of one moment. Older hours
    /// count if they begin in the range.
    fn average(&self, sensor: u32, from: Time, to: Time) -> Result<Option<f64>> {
        let now = self.db.snapshot();
        let mut all = Sum::default();
        for pair in now.range(&self.raw, key(sensor, from)..key(sensor, to)) {
            all.sum += f64::from_be_bytes(eight(&pair?.1, 0)?);
            all.count += 1;
        }
        for pair in now.range(&self.hourly, key(sensor, from)..key(sensor, to)) {
            let (_, value) = pair?;
            all.sum += f64::from_be_bytes(eight(&value, 0)?);
            all.count += u64::from_be_bytes(eight(&value, 8)?);
        }
        Ok((all.count > 0).then(|| all.sum / all.count as f64))
    }

    /// Replaces the measurements before a full hour by averages.
    fn condense(&self, sensors: &[u32], before: Time) -> Result<()> {
        let before = before / HOUR * HOUR;
        for sensor in sensors {
            let mut batch = Batch::new();
            let (mut hour, mut of_hour) = (0, Sum::default());
            let mut end_of_hour = |hour: Time, of_hour: Sum| {
                if of_hour.count > 0 {
                    let value = [of_hour.sum.to_be_bytes(), of_hour.count.to_be_bytes()].concat();
                    batch.put(&self.hourly, key(*sensor, hour), value);
                }
            };
            for pair in self.raw.range(key(*sensor, 0)..key(*sensor, before)) {
                let (key, value) = pair?;
                let this = u64::from_be_bytes(eight(&key, 4)?) / HOUR * HOUR;
                if this != hour {
                    end_of_hour(hour, of_hour);
                    (hour, of_hour) = (this, Sum::default());
                }
                of_hour.sum += f64::from_be_bytes(eight(&value, 0)?);
                of_hour.count += 1;
            }
            end_of_hour(hour, of_hour);
            batch.delete_range(&self.raw, key(*sensor, 0)..key(*sensor, before));
            self.db.write(&batch, WriteOptions::default())?;
        }
        Ok(())
    }
}

/// Writes four hours of measurements into the store in `folder`, condenses them and queries them.
pub fn run(folder: &Path) -> Result<String> {
    const SENSORS: [u32; 3] = [1, 2, 70_000];
    let series = Series::open(folder)?;
    series.hourly.delete_range(..)?; // of an earlier run
    for minute in 0..240 {
        let values = SENSORS.map(|sensor| (sensor, f64::from(sensor) + minute as f64));
        series.add(minute * 60, &values)?;
    }
    let before: Vec<_> =
        SENSORS.iter().map(|s| series.average(*s, 0, 4 * HOUR)).collect::<Result<_>>()?;
    assert_eq!(before, [Some(120.5), Some(121.5), Some(70_119.5)]);

    series.condense(&SENSORS, 3 * HOUR + 100)?;
    assert_eq!(series.raw.len()?, 3 * 60); // the last hour, minute by minute
    assert_eq!(series.hourly.len()?, 3 * 3);
    let after: Vec<_> =
        SENSORS.iter().map(|s| series.average(*s, 0, 4 * HOUR)).collect::<Result<_>>()?;
    assert_eq!(before, after); // the averages have not changed
    assert_eq!(series.average(1, HOUR, 2 * HOUR)?, Some(90.5));
    assert_eq!(series.average(3, 0, 4 * HOUR)?, None);

    // Compactions remove deleted data from the disk at some time; this call does so at once.
    series.raw.compact_range(..)?;
    series.db.close()?;
    Ok(format!("{} measurements kept as they are, 540 as 9 hourly averages\n", 3 * 60))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| temporary.path().join("store"));
    print!("{}", run(&folder)?);
    Ok(())
}
