//! Holds this process to a run's limits: bytes per second of a device, and memory.
//!
//! 1. [`apply`] makes a control group for the process, writes the limits into it and moves the
//!    process there. Dropping its result moves the process back and removes the group. It supports
//!    both generations of control groups. In v1 the controllers `blkio` and `memory` have a tree
//!    each. In v2 there is one tree; the parent of a group must pass the controllers on, and only
//!    the root may both pass them on and hold processes.
//! 2. The device is the disk that holds the folder: a partition cannot be limited by itself.
//! 3. A limit that cannot be applied is reported: the text of [`Applied`] goes into the report.
//!
//! v1 limits I/O where it is submitted. The kernel's own threads submit buffered writes, so these
//! escape a limit on writes; the text says so.
//!
//! Limits need root. Threads: a group holds the whole process, whichever thread calls.
#![expect(clippy::disallowed_methods, reason = "these files are the system's controls")]

use crate::spec::Limits;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use vlsm_core::{Bytes, BytesPerSec};

/// Limits in force until this is dropped.
#[derive(Debug, Default)]
pub struct Applied {
    groups: Vec<Group>,
    text: String,
    incomplete: bool,
}

impl Applied {
    /// Whether all requested limits are in force.
    #[must_use]
    pub fn complete(&self) -> bool {
        !self.incomplete
    }
}

/// Writes the limits in force, or why they are not; nothing if no limit was requested.
impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Applies limits to this process, whose store will be in the folder `dir`.
#[must_use]
pub fn apply(limits: &Limits, dir: &Path) -> Applied {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mounts = Mounts::of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let mut applied = Applied::default();
    let mut said = Vec::new();
    if let Some(rate) = limits.device {
        let done = disk_of(dir, Path::new("/sys")).and_then(|disk| mounts.device(&disk, rate));
        said.push(applied.note("device", done));
    }
    if let Some(bytes) = limits.memory {
        // v2 has one tree, and the process can be in only one of its groups.
        let group = applied.groups.iter().find(|group| group.v2).map(|group| group.path.clone());
        said.push(applied.note("memory", mounts.memory(bytes, group)));
    }
    applied.text = said.join("; ");
    applied
}

impl Applied {
    fn note(&mut self, what: &str, done: Result<(Option<Group>, String), String>) -> String {
        match done {
            Ok((group, text)) => {
                self.groups.extend(group);
                format!("{what}: {text}")
            }
            Err(why) => {
                self.incomplete = true;
                format!("{what}: not limited: {why}")
            }
        }
    }
}

/// A control group that this process is in. Dropping this removes the group.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    /// The group that the process goes back to.
    home: PathBuf,
    v2: bool,
}

impl Group {
    /// Makes a group in `parent`, writes `settings` into it and moves this process there.
    fn enter(
        parent: &Path,
        home: &Path,
        v2: bool,
        settings: &[(&str, String)],
    ) -> Result<Self, String> {
        let path = parent.join(format!("vlsm-lab-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| cannot("make the control group", &path, &error))?;
        // From here on, dropping `group` cleans up.
        let group = Self { path, home: home.to_owned(), v2 };
        for (name, value) in settings {
            write(&group.path.join(name), value)?;
        }
        write(&group.path.join("cgroup.procs"), &std::process::id().to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A failure leaves an empty group behind, which lasts until the system restarts.
        let _ = write(&self.home.join("cgroup.procs"), &std::process::id().to_string());
        let _ = fs::remove_dir(&self.path);
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied => " (this needs root)",
        _ => "",
    };
    format!("cannot {what} {}: {error}{help}", path.display())
}

fn write(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| cannot(&format!("write {value:?} to"), path, &error))
}

/// The groups of this process in the controllers' trees, as absolute paths.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mounts {
    blkio: Option<PathBuf>,
    memory: Option<PathBuf>,
    /// The root of the tree of v2, and the group in it.
    v2: Option<(PathBuf, PathBuf)>,
}

impl Mounts {
    /// Reads the contents of `/proc/self/mountinfo` and `/proc/self/cgroup`.
    fn of(mountinfo: &str, cgroup: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            // … root mount-point options … - type source super-options
            let Some((mount, kind)) = line.split_once(" - ") else { continue };
            let mut fields = mount.split(' ').skip(3);
            let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
            // This tree's line in `cgroup` is number:controllers:group.
            let group = |wanted: &str| {
                let group = cgroup.lines().find_map(|line| {
                    let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
                    controllers.split(',').any(|one| one == wanted).then_some(group)
                })?;
                let below = group.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
                Some(Path::new(point).join(below.trim_start_matches('/')))
            };
            let controls = |controller: &str| {
                let options = kind.strip_prefix("cgroup ").and_then(|rest| rest.split(' ').nth(1));
                options.is_some_and(|list| list.split(',').any(|one| one == controller))
            };
            if kind.starts_with("cgroup2 ") {
                mounts.v2 = group("").map(|group| (point.into(), group));
            }
            if controls("blkio") {
                mounts.blkio = group("blkio");
            }
            if controls("memory") {
                mounts.memory = group("memory");
            }
        }
        mounts
    }

    fn device(&self, disk: &str, rate: u64) -> Result<(Option<Group>, String), String> {
        let each = format!("{} read and as much written on {disk}", BytesPerSec(rate));
        if let Some(home) = &self.blkio {
            let setting = format!("{disk} {rate}");
            let settings = [
                ("blkio.throttle.read_bps_device", setting.clone()),
                ("blkio.throttle.write_bps_device", setting),
            ];
            let group = Group::enter(home, home, false, &settings)?;
            let text = format!(
                "{each} (control groups v1: a store's buffered writes escape this limit, its \
                 reads and direct writes do not)"
            );
            return Ok((Some(group), text));
        }
        let (parent, home) = self.parent("io")?;
        let setting = format!("{disk} rbps={rate} wbps={rate}");
        let group = Group::enter(&parent, &home, true, &[("io.max", setting)])?;
        Ok((Some(group), format!("{each} (control groups v2)")))
    }

    /// Limits memory. `group` is the group of v2 that the process was already moved to, if any.
    fn memory(
        &self,
        bytes: u64,
        group: Option<PathBuf>,
    ) -> Result<(Option<Group>, String), String> {
        let text = format!("{}, page cache included", Bytes(bytes));
        if let Some(home) = &self.memory {
            let settings = [("memory.limit_in_bytes", bytes.to_string())];
            let group = Group::enter(home, home, false, &settings)?;
            return Ok((Some(group), format!("{text} (control groups v1)")));
        }
        let text = format!("{text} (control groups v2)");
        if let Some(group) = group {
            write(&group.join("memory.max"), &bytes.to_string())?;
            return Ok((None, text));
        }
        let (parent, home) = self.parent("memory")?;
        let settings = [("memory.max", bytes.to_string())];
        Ok((Some(Group::enter(&parent, &home, true, &settings)?), text))
    }

    /// The nearest group of v2, from the process's own upwards, that passes a controller on to its
    /// children; and the process's own group. If none does, the root is made to, if it has the
    /// controller.
    fn parent(&self, controller: &str) -> Result<(PathBuf, PathBuf), String> {
        let missing = || format!("no control-group controller \"{controller}\" is mounted here");
        let (root, home) = self.v2.as_ref().ok_or_else(missing)?;
        let lists = |group: &Path, file: &str| {
            let text = fs::read_to_string(group.join(file)).unwrap_or_default();
            text.split_whitespace().any(|one| one == controller)
        };
        let up = home.ancestors().take_while(|group| group.starts_with(root));
        for group in up {
            if lists(group, "cgroup.subtree_control") {
                return Ok((group.to_owned(), home.clone()));
            }
        }
        if !lists(root, "cgroup.controllers") {
            return Err(missing());
        }
        write(&root.join("cgroup.subtree_control"), &format!("+{controller}"))?;
        Ok((root.clone(), home.clone()))
    }
}

/// The disk that holds a folder, as `major:minor`. `sys` is where sysfs is mounted.
fn disk_of(dir: &Path, sys: &Path) -> Result<String, String> {
    let metadata = fs::metadata(dir);
    let metadata = metadata.map_err(|error| cannot("look at", dir, &error))?;
    disk(device_number(&metadata), sys)
        .ok_or_else(|| format!("{} is on a file system without a disk of its own", dir.display()))
}

#[cfg(unix)]
fn device_number(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::dev(metadata)
}

#[cfg(not(unix))]
fn device_number(_: &fs::Metadata) -> u64 {
    0
}

fn disk(device: u64, sys: &Path) -> Option<String> {
    // Linux splits the device number like this.
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff);
    let found = sys.join(format!("dev/block/{major}:{minor}"));
    let whole = match found.join("partition").exists() {
        true => fs::canonicalize(&found).ok()?.parent()?.join("dev"),
        false => found.join("dev"),
    };
    Some(fs::read_to_string(whole).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed when this is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("vlsm-limits-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn both_generations_are_found() {
        let old = "\
            24 1 254:0 / / rw - ext4 /dev/vda rw\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            38 31 0:35 /box /sys/fs/cgroup/blkio rw shared:9 - cgroup cgroup rw,blkio\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let groups = "7:blkio:/box/a\n4:memory:/b\n0::/\n";
        let unified = PathBuf::from("/sys/fs/cgroup/unified/");
        assert_eq!(
            Mounts::of(old, groups),
            Mounts {
                blkio: Some("/sys/fs/cgroup/blkio/a".into()),
                memory: Some("/sys/fs/cgroup/memory/b".into()),
                v2: Some(("/sys/fs/cgroup/unified".into(), unified)),
            }
        );
        let new = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Mounts::of(new, "0::/user.slice/x\n");
        let home = PathBuf::from("/sys/fs/cgroup/user.slice/x");
        assert_eq!(found.v2, Some(("/sys/fs/cgroup".into(), home)));
        assert_eq!((found.blkio, found.memory), (None, None));
        assert_eq!(Mounts::of("nonsense - \n1 2", "::"), Mounts::default());
    }

    /// An ordinary folder stands in for a group of v2, and ordinary files for the kernel's.
    #[test]
    fn v2_has_one_group_for_both() {
        let root = Folder::new("v2");
        let home = root.0.join("a/b");
        fs::create_dir_all(&home).expect("made");
        let mounts = Mounts { v2: Some((root.0.as_path().into(), home)), ..Mounts::default() };
        let why = mounts.device("8:0", 100).expect_err("no controller");
        assert_eq!(why, "no control-group controller \"io\" is mounted here");
        write(&root.0.join("cgroup.controllers"), "cpu io memory").expect("written");
        write(&root.0.join("a/cgroup.subtree_control"), "io memory").expect("written");
        let (group, text) = mounts.device("8:0", 100).expect("limited");
        assert_eq!(text, "100 B/s read and as much written on 8:0 (control groups v2)");
        let group = group.expect("a group");
        assert_eq!(group.path.parent(), Some(root.0.join("a").as_path()));
        let (second, _) = mounts.memory(1 << 20, Some(group.path.clone())).expect("limited");
        assert!(second.is_none());
        let read = |name: &str| fs::read_to_string(group.path.join(name)).expect(name);
        assert_eq!(read("io.max"), "8:0 rbps=100 wbps=100");
        assert_eq!(read("memory.max"), "1048576");
        assert_eq!(read("cgroup.procs"), std::process::id().to_string());
    }

    #[test]
    fn a_partition_is_on_a_disk() {
        let sys = Folder::new("sys");
        let at = |path: &str| sys.0.join(path);
        fs::create_dir_all(at("devices/sda/sda1")).expect("made");
        fs::create_dir_all(at("dev/block")).expect("made");
        write(&at("devices/sda/dev"), "8:0\n").expect("written");
        write(&at("devices/sda/sda1/dev"), "8:1\n").expect("written");
        write(&at("devices/sda/sda1/partition"), "1\n").expect("written");
        #[cfg(unix)]
        for (number, device) in [("8:0", "sda"), ("8:1", "sda/sda1")] {
            let target = at("devices").join(device);
            std::os::unix::fs::symlink(target, at("dev/block").join(number)).expect("linked");
        }
        assert_eq!(disk(8 << 8, sys.0.as_path()).as_deref(), Some("8:0"));
        assert_eq!(disk(8 << 8 | 1, sys.0.as_path()).as_deref(), Some("8:0"));
        assert_eq!(disk(9, sys.0.as_path()), None);
    }

    #[test]
    fn nothing_asked_nothing_said() {
        let applied = apply(&Limits::default(), Path::new("/"));
        assert_eq!((applied.to_string().as_str(), applied.complete()), ("", true));
    }
}
