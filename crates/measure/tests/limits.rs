//! Limits on the process of this test: throttled direct writes take as long as the limit requires,
//! and dropping the limits restores the former state. It is one test in a process of its own,
//! because limits apply to the whole process.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg(target_os = "linux")]

use rustix::fs::{Mode, OFlags};
use std::path::Path;
use vlsm_measure::clock::Clock;
use vlsm_measure::limits;
use vlsm_measure::spec::Limits;

const MIB: usize = 1 << 20;

fn groups() -> String {
    std::fs::read_to_string("/proc/self/cgroup").expect("readable")
}

/// Writes `count` megabytes past the page cache and returns the seconds that it took. None if the
/// file system has no direct I/O.
fn write_directly(path: &Path, count: usize) -> Option<f64> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::DIRECT;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let room = vec![7_u8; MIB + 4096];
    let start = room.as_ptr().align_offset(4096);
    let clock = Clock::start();
    for number in 0..count {
        rustix::io::pwrite(&file, &room[start..start + MIB], (number * MIB) as u64).ok()?;
    }
    Some(clock.now() as f64 / 1e9)
}

#[test]
fn limits_hold_until_dropped() {
    // Not in the folder for temporary files: that may be in memory.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let before = groups();
    let limits = Limits { device: Some(8 << 20), memory: Some(512 << 20) };
    let applied = limits::apply(&limits, dir);
    if !applied.complete() {
        eprintln!("SKIPPED: limits cannot be applied here: {}", applied);
        return;
    }
    let named = format!("vlsm-lab-{}", std::process::id());
    assert!(groups().contains(&named), "{}", groups());
    for part in ["device: 8.0 MB/s read", "memory: 512.0 MB, page cache included"] {
        assert!(applied.to_string().contains(part), "{}", applied);
    }
    match write_directly(&dir.join("limits"), 8) {
        Some(seconds) => assert!(seconds > 0.5, "8 MB at 8 MB/s took {seconds} s"),
        None => eprintln!("SKIPPED: this file system has no direct I/O"),
    }
    drop(applied);
    assert_eq!(groups(), before);
    let _ = std::fs::remove_file(dir.join("limits"));
}
