//! The throughput of a store's device, measured once and kept in its folder.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §V.B: throughput by mix of reads and writes, "beforehand through some
//! measurements on the specified I/O device". If a mechanism plans with the throughput:
//! 1. If the options set it, nothing is measured.
//! 2. Otherwise the file `DEVICE` in the store's folder sets it, if it is intact.
//! 3. Otherwise it is measured, before the store is opened, on a file of [`FILE_BYTES`] that is
//!    removed afterwards. For each mix, [`THREADS`] threads read and write [`REQUEST`] bytes at a
//!    time, in proportion, for [`TOOK`]. The result is written to `DEVICE`. To measure again, for
//!    example after the store was moved, remove that file.
//!
//! The measurement does the same I/O as jobs: large direct requests, several in parallel, without
//! syncs. If a second of I/O does not fill the device's cache, the result is higher than the
//! sustained throughput. If that matters, set the throughput in the options.

use crate::options::Options;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{BytesPerSec, Error, Result};
use vlsm_disk::aligned::AlignedBuf;
use vlsm_disk::env::Priority;
use vlsm_disk::fs::{File, OpenOptions, read_all};
use vlsm_disk::io::IoPool;
use vlsm_disk::{Env, Pending};
use vlsm_policy::{DeviceMap, DevicePoint};

/// The file that keeps the result.
pub(crate) const NAME: &str = "DEVICE";
/// The file that the measurement reads and writes. A crash may leave it behind.
pub(crate) const SCRATCH: &str = "DEVICE.tmp";

const FILE_BYTES: u64 = 128 << 20;
const REQUEST: usize = 256 << 10;
const THREADS: u64 = 4;
const TOOK: Duration = Duration::from_millis(200);
/// The measured shares of reads.
const SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// The file's content.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// CRC-32C of the map as text, so that a file that was changed by accident is not used.
    checksum: u32,
    map: DeviceMap,
}

/// The map for a store in `dir`; it is measured if it is unknown.
pub(crate) fn map(env: &Arc<dyn Env>, dir: &Path, options: &Options) -> Result<Arc<DeviceMap>> {
    if !options.device.points.is_empty() {
        return Ok(Arc::new(options.device.clone()));
    }
    if let Some(map) = kept(&**env, dir) {
        return Ok(Arc::new(map));
    }
    let map = measure(env, dir)?;
    keep(&**env, dir, &map)?;
    Ok(Arc::new(map))
}

fn text_of(map: &DeviceMap) -> Result<String> {
    toml::to_string(map).map_err(|error| Error::Internal(error.to_string()))
}

/// Reads the kept map; none if the file is missing or damaged, or if its map is implausible.
fn kept(env: &dyn Env, dir: &Path) -> Option<DeviceMap> {
    let content = read_all(&**env.fs(), &dir.join(NAME)).ok()?;
    let Kept { checksum, map } = toml::from_str(std::str::from_utf8(&content).ok()?).ok()?;
    let sound = crc32c::crc32c(text_of(&map).ok()?.as_bytes()) == checksum;
    (sound && map.check().is_ok()).then_some(map)
}

fn keep(env: &dyn Env, dir: &Path, map: &DeviceMap) -> Result<()> {
    let checksum = crc32c::crc32c(text_of(map)?.as_bytes());
    let kept = Kept { checksum, map: map.clone() };
    let text = toml::to_string(&kept).map_err(|error| Error::Internal(error.to_string()))?;
    let (path, scratch, fs) = (dir.join(NAME), dir.join(SCRATCH), env.fs());
    let write = || {
        let file = fs.open(&scratch, OpenOptions::CREATE)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        fs.rename(&scratch, &path)
    };
    write().map_err(|error| Error::io("cannot write", &path, error))
}

/// Measures every mix.
fn measure(env: &Arc<dyn Env>, dir: &Path) -> Result<DeviceMap> {
    let path = dir.join(SCRATCH);
    let fs = env.fs();
    // A crash may have left a scratch file.
    if fs.exists(&path).map_err(|error| Error::io("cannot look for", &path, error))? {
        fs.remove(&path).map_err(|error| Error::io("cannot remove", &path, error))?;
    }
    let free = fs.free_bytes(dir).map_err(|error| Error::io("cannot look at", dir, error))?;
    if free < 2 * FILE_BYTES {
        return Err(Error::InvalidArgument(format!(
            "{}: measuring the device needs {} bytes for a short time, but only {free} are free. \
             Free some space, or set the throughput of the device in the option `device`",
            dir.display(),
            2 * FILE_BYTES
        )));
    }
    let measured = try_measure(env, &path);
    let removed = fs.remove(&path).map_err(|error| Error::io("cannot remove", &path, error));
    let map = measured?;
    removed?;
    Ok(map)
}

fn try_measure(env: &Arc<dyn Env>, path: &Path) -> Result<DeviceMap> {
    let failed = |error| Error::io("cannot measure the device with", path, error);
    let file = env.fs().open(path, OpenOptions::CREATE.direct(true)).map_err(failed)?;
    let block = block();
    for offset in (0..FILE_BYTES).step_by(REQUEST) {
        file.write_at(&block, offset).map_err(failed)?;
    }
    file.sync().map_err(failed)?;
    let done = env.condition(Duration::ZERO);
    let pool = IoPool::new(env, THREADS as usize, Priority::Normal, done).map_err(failed)?;
    let point = |read_share| {
        let begun = env.now();
        let mover = |thread| Mover { env: env.clone(), file: file.clone(), thread, read_share };
        let calls: Vec<Pending<u64>> = (0..THREADS)
            .map(|thread| {
                let (mover, path) = (mover(thread), path.to_owned());
                pool.submit(move || {
                    let moved = mover.run(begun + TOOK);
                    moved.map_err(|error| Error::io("cannot measure the device with", &path, error))
                })
            })
            .collect();
        let moved: Vec<u64> = calls.iter().map(|call| pool.wait(call)).collect::<Result<_>>()?;
        if moved.contains(&0) {
            let why = "not all of the threads that read and write at once were started";
            return Err(failed(std::io::Error::other(why)));
        }
        let moved: u64 = moved.iter().sum();
        let took = env.now().saturating_sub(begun).as_secs_f64();
        Ok(DevicePoint { read_share, throughput: BytesPerSec((moved as f64 / took) as u64) })
    };
    let points = SHARES.into_iter().map(point).collect::<Result<Vec<_>>>()?;
    Ok(DeviceMap { points })
}

/// Bytes that no device can compress.
fn block() -> AlignedBuf {
    let mut block = AlignedBuf::zeroed(REQUEST);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in block.iter_mut() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
    block
}

/// One thread of a measurement. It reads and writes its own part of the file repeatedly.
struct Mover {
    env: Arc<dyn Env>,
    file: Arc<dyn File>,
    thread: u64,
    read_share: f64,
}

impl Mover {
    /// Reads and writes until the time `until`. Returns the bytes moved.
    fn run(&self, until: Duration) -> std::io::Result<u64> {
        let (content, mut buffer) = (block(), AlignedBuf::zeroed(REQUEST));
        let part = FILE_BYTES / THREADS;
        let (mut moved, mut reads) = (0_u64, 0.0);
        while self.env.now() < until {
            let offset = self.thread * part + moved % part;
            reads += self.read_share;
            if reads >= 1.0 {
                reads -= 1.0;
                self.file.read_at(&mut buffer, offset)?;
            } else {
                self.file.write_at(&content, offset)?;
            }
            moved += REQUEST as u64;
        }
        Ok(moved)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use vlsm_disk::env_real::RealEnv;

    #[test]
    fn it_is_measured_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let env: Arc<dyn Env> = RealEnv::new();
        let options = Options::default();
        let first = map(&env, dir.path(), &options).unwrap();
        assert_eq!(first.points.len(), SHARES.len());
        assert!(first.points.iter().all(|point| point.throughput.0 > 0), "{first:?}");
        let names = env.fs().read_dir(dir.path()).unwrap();
        assert_eq!(names, [Path::new(NAME)], "nothing else is left");
        assert_eq!(map(&env, dir.path(), &options).unwrap(), first, "it is not measured again");
        // If the file was changed by accident, the device is measured again. It is not measured if
        // the options set the throughput.
        let path = dir.path().join(NAME);
        let file = env.fs().open(&path, OpenOptions::WRITE).unwrap();
        let digit = 11;
        let mut byte = [0];
        file.read_at(&mut byte, digit).unwrap();
        file.write_at(&[if byte[0] == b'1' { b'2' } else { b'1' }], digit).unwrap();
        assert!(kept(&*env, dir.path()).is_none());
        map(&env, dir.path(), &options).unwrap();
        assert!(kept(&*env, dir.path()).is_some());
        let said = Options { device: DeviceMap::even(BytesPerSec(5)), ..Options::default() };
        assert_eq!(*map(&env, dir.path(), &said).unwrap(), said.device);
    }
}
