//! The memory that this process may use: that of the machine, or less, if a control group limits
//! the process, as containers do.
//!
//! 1. The machine's memory is `MemTotal` of `/proc/meminfo`.
//! 2. `/proc/self/cgroup` names the process's group. Its limit and those of all groups above it
//!    hold, so the least one counts: `memory.max` in the second generation of control groups,
//!    `memory.limit_in_bytes` in the first.
//! 3. A container may see its own group as the root, under the path that the host knows. So a
//!    folder that does not exist is passed over, and the root is always asked.
//!
//! Whatever cannot be read sets no limit. Outside of Linux nothing is known.

use std::fs::read_to_string;
use std::path::Path;

/// The bytes of memory that this process may use, if they are known.
pub(super) fn of_this_process() -> Option<u64> {
    let total = total(&read("/proc/meminfo"))?;
    let limit = limit(&read("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
    Some(limit.map_or(total, |limit| limit.min(total)))
}

fn read(path: &str) -> String {
    read_file(Path::new(path))
}

#[allow(clippy::disallowed_methods, reason = "files of the kernel, not of a store")]
fn read_file(path: &Path) -> String {
    read_to_string(path).unwrap_or_default()
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the groups that `/proc/self/cgroup` names, and of those above them.
fn limit(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = Path::new(path.trim_start_matches('/'));
        // "max" is no number.
        let limit = |group: &Path| read_file(&root.join(group).join(file)).trim().parse().ok();
        group.ancestors().filter_map(limit).min()
    });
    limits.min()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "writes what the kernel would")]
mod tests {
    use super::*;
    use std::fs;

    fn group(root: &Path, folder: &str, file: &str, limit: &str) {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).expect("a folder of the test");
        fs::write(folder.join(file), limit).expect("a file of the test");
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_counts() {
        let dir = tempfile::tempdir().expect("a folder of the test");
        let root = dir.path();
        assert_eq!(limit("0::/a/b\n", root), None, "nothing is there");
        group(root, "a", "memory.max", "1000000\n");
        group(root, "a/b", "memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n", root), Some(1_000_000));
        group(root, "a/b", "memory.max", "4096\n");
        assert_eq!(limit("0::/a/b\n", root), Some(4096));
        assert_eq!(limit("0::/other\n", root), None);
    }

    #[test]
    fn a_container_of_the_first_generation_sees_its_group_as_the_root() {
        let dir = tempfile::tempdir().expect("a folder of the test");
        let root = dir.path();
        group(root, "memory", "memory.limit_in_bytes", "536870912\n");
        let groups = "9:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n1:name=systemd:/docker/1f\n";
        assert_eq!(limit(groups, root), Some(512 << 20));
        assert_eq!(limit("9:cpu,cpuacct:/docker/1f\n", root), None);
        // No limit in the first generation is a very large one.
        group(root, "memory/docker/1f", "memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(groups, root), Some(512 << 20));
    }

    #[test]
    fn the_machine_has_memory() {
        assert_eq!(total("MemTotal:       24660784 kB\nMemFree: 1 kB\n"), Some(24_660_784 << 10));
        assert_eq!(total(""), None);
        if cfg!(target_os = "linux") {
            assert!(of_this_process().is_some_and(|bytes| bytes > 16 << 20));
        }
    }
}
