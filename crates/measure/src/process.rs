//! The resources that this process used, as the operating system counts them; and the machine.
//!
//! Linux: `/proc/self/io` (bytes to and from devices), `/proc/self/status` (memory),
//! the process's CPU clock. Elsewhere the figures are missing, not zero.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::read_to_string;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Counters of this process since its start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of all threads in nanoseconds.
    pub cpu_nanos: u64,
    /// Bytes read from and written to devices.
    pub device: Option<Device>,
}

/// Bytes that went to and from devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Device {
    /// Bytes read.
    pub read: u64,
    /// Bytes written (for buffered files: made dirty in the page cache).
    pub written: u64,
    /// The most of the bytes read that may be the program's own pages, which are fetched when they
    /// are first used.
    #[serde(default)]
    pub program: u64,
}

impl Device {
    /// The bytes since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
            program: self.program.saturating_sub(before.program),
        }
    }
}

/// The most bytes that one fetch of the program's own pages reads: Linux's usual read-ahead.
const FETCH_MAX: u64 = 128 << 10;

impl Usage {
    /// The counters as of now.
    #[must_use]
    pub fn now() -> Self {
        Self { cpu_nanos: cpu_nanos(), device: device() }
    }

    /// The resources used since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let device = self.device.zip(before.device).map(|(now, then)| now.since(&then));
        Self { cpu_nanos: self.cpu_nanos.saturating_sub(before.cpu_nanos), device }
    }
}

fn cpu_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn device() -> Option<Device> {
    let text = read_to_string("/proc/self/io").ok()?;
    let (read, written) = (field(&text, "read_bytes:")?, field(&text, "\nwrite_bytes:")?);
    let program = fetches(&read_to_string("/proc/self/stat").unwrap_or_default());
    Some(Device { read, written, program: program.unwrap_or(0).saturating_mul(FETCH_MAX) })
}

/// The number of page faults that read from a device: the tenth field behind the program's name,
/// which stands in parentheses and may hold anything.
fn fetches(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(9)?.parse().ok()
}

/// Bytes of all files in a folder and its subfolders, of a file with several names once. A file
/// that cannot be read counts as empty.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "it is the measured store's folder, seen from outside"
)]
pub fn folder_bytes(path: &Path) -> u64 {
    fn of(path: &Path, seen: &mut HashSet<u64>) -> u64 {
        let Ok(entries) = std::fs::read_dir(path) else { return 0 };
        let size = |entry: std::fs::DirEntry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => of(&entry.path(), seen),
            Ok(meta) if seen.insert(meta.ino()) => meta.len(),
            Ok(_) | Err(_) => 0,
        };
        entries.flatten().map(size).sum()
    }
    of(path, &mut HashSet::new())
}

/// The most memory this process ever had resident, in bytes.
#[must_use]
pub fn peak_memory() -> Option<u64> {
    field(&read_to_string("/proc/self/status").ok()?, "VmHWM:").map(|kib| kib * 1024)
}

/// The memory this process has resident, in bytes.
#[must_use]
pub fn resident_memory() -> Option<u64> {
    field(&read_to_string("/proc/self/status").ok()?, "VmRSS:").map(|kib| kib * 1024)
}

/// The number that follows a name.
fn field(text: &str, name: &str) -> Option<u64> {
    let after = &text[text.find(name)? + name.len()..];
    after.split_whitespace().next()?.parse().ok()
}

/// The machine of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Processors this process may use.
    pub cores: usize,
    /// Model of the processor.
    pub cpu: String,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Operating system and release.
    pub system: String,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let meminfo = read_to_string("/proc/meminfo").unwrap_or_default();
        let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: model.map_or("unknown", |model| model.trim_start_matches([' ', '\t', ':'])).into(),
            memory: field(&meminfo, "MemTotal:").map(|kib| kib * 1024),
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "rchar: 5\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 7\n";
        assert_eq!(field(text, "read_bytes:"), Some(4096));
        assert_eq!(field(text, "\nwrite_bytes:"), Some(8192));
        assert_eq!(field(text, "nothing:"), None);
        assert_eq!(field("VmHWM:\t  12 kB", "VmHWM:"), Some(12));
        assert_eq!(fetches("7 (a ) b) R 1 2 3 4 5 6 7 8 1234 9 10 11"), Some(1234));
        assert_eq!(fetches("nothing"), None);
    }

    #[test]
    fn processor_time_grows() {
        let before = Usage::now();
        let sum = (0..3_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        std::hint::black_box(sum);
        assert!(Usage::now().since(&before).cpu_nanos > 0);
        assert!(Machine::this().cores > 0);
    }
}
