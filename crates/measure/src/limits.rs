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

use crate::block::number;
use crate::spec::Limits;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use vlsm_core::{Bytes, BytesPerSec};

/// Limits in force until this is dropped.
#[derive(Debug, Default)]
pub struct Applied {
    groups: Vec<Group>,
    said: Vec<String>,
    incomplete: bool,
}

impl Applied {
    /// Whether all requested limits are in force.
    #[must_use]
    pub fn complete(&self) -> bool {
        !self.incomplete
    }

    fn add(&mut self, what: &str, mounts: &Mounts, limit: Result<Limit, String>) {
        let done = limit.and_then(|limit| mounts.enter(&limit, &self.groups));
        self.incomplete |= done.is_err();
        self.said.push(match done {
            Ok((group, text)) => {
                self.groups.extend(group);
                format!("{what}: {text}")
            }
            Err(why) => format!("{what}: not limited: {why}"),
        });
    }
}

/// Writes the limits in force, or why they are not; nothing if no limit was requested.
impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said.join("; "))
    }
}

/// Applies limits to this process, whose store will be in the folder `dir`.
#[must_use]
pub fn apply(limits: &Limits, dir: &Path) -> Applied {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mounts = Mounts::of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let mut applied = Applied::default();
    if let Some(rate) = limits.device {
        let disk = disk_of(dir, Path::new("/sys"));
        applied.add("device", &mounts, disk.map(|disk| Limit::device(&disk, rate)));
    }
    if let Some(bytes) = limits.memory {
        applied.add("memory", &mounts, Ok(Limit::memory(bytes)));
    }
    applied
}

/// Checks that these limits can be applied, by applying them for a moment.
///
/// # Errors
/// A limit cannot be applied; the text says which one and why.
pub fn check(limits: &Limits, dir: &Path) -> Result<(), String> {
    let applied = apply(limits, dir);
    if applied.complete() { Ok(()) } else { Err(applied.to_string()) }
}

/// A limit, as the controllers of both generations take it.
struct Limit {
    text: String,
    /// The accesses that v1 cannot limit, for the text.
    escapes: &'static str,
    /// The controllers of v1 and v2.
    controllers: [&'static str; 2],
    /// The files of v1 and v2, and what is written into them.
    settings: [Vec<(&'static str, String)>; 2],
}

impl Limit {
    fn device(disk: &str, rate: u64) -> Self {
        let v1 = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
        Self {
            text: format!("{} read and as much written on {disk}", BytesPerSec(rate)),
            escapes: ": a store's buffered writes escape this limit, its reads and direct writes \
                      do not",
            controllers: ["blkio", "io"],
            settings: [
                v1.map(|file| (file, format!("{disk} {rate}"))).into(),
                vec![("io.max", format!("{disk} rbps={rate} wbps={rate}"))],
            ],
        }
    }

    fn memory(bytes: u64) -> Self {
        Self {
            text: format!("{}, page cache included", Bytes(bytes)),
            escapes: "",
            controllers: ["memory", "memory"],
            settings: ["memory.limit_in_bytes", "memory.max"]
                .map(|file| vec![(file, bytes.to_string())]),
        }
    }
}

/// A control group that this process is in. Dropping this removes the group.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    /// The group that the process goes back to.
    home: PathBuf,
}

impl Group {
    /// Makes a group in `parent`, writes `settings` into it and moves this process there.
    fn enter(parent: &Path, home: &Path, settings: &[(&str, String)]) -> Result<Self, String> {
        let path = parent.join(format!("vlsm-lab-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| cannot("make the control group", &path, &error))?;
        // From here on, dropping `group` cleans up.
        let group = Self { path, home: home.to_owned() };
        group.set(settings)?;
        write(&group.path.join("cgroup.procs"), &std::process::id().to_string())?;
        Ok(group)
    }

    fn set(&self, settings: &[(&str, String)]) -> Result<(), String> {
        settings.iter().try_for_each(|(name, value)| write(&self.path.join(name), value))
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
    /// The group in the tree of each controller of v1.
    v1: HashMap<String, PathBuf>,
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
            let mut kind = kind.split(' ');
            match kind.next() {
                Some("cgroup2") => mounts.v2 = group("").map(|group| (point.into(), group)),
                Some("cgroup") => {
                    // Options that are no controllers have no line in `cgroup`.
                    let options = kind.nth(1).unwrap_or_default().split(',');
                    let found = options.filter_map(|one| Some((one.to_owned(), group(one)?)));
                    mounts.v1.extend(found);
                }
                _ => {}
            }
        }
        mounts
    }

    /// Makes a limit hold, in a new group or in that of v2 among `groups`: v2 has one tree, and the
    /// process can be in only one of its groups. Returns the new group and a text.
    fn enter(&self, limit: &Limit, groups: &[Group]) -> Result<(Option<Group>, String), String> {
        let Limit { text, escapes, controllers: [old, new], settings: [v1, v2] } = limit;
        if let Some(home) = self.v1.get(*old) {
            let group = Group::enter(home, home, v1)?;
            return Ok((Some(group), format!("{text} (control groups v1{escapes})")));
        }
        let text = format!("{text} (control groups v2)");
        let (root, home) = self.v2.as_ref().ok_or_else(|| missing(new))?;
        if let Some(group) = groups.iter().find(|group| group.path.starts_with(root)) {
            group.set(v2)?;
            return Ok((None, text));
        }
        Ok((Some(Group::enter(&parent(new, root, home)?, home, v2)?), text))
    }
}

fn missing(controller: &str) -> String {
    format!("no control-group controller \"{controller}\" is mounted here")
}

/// The nearest group of v2, from the process's own (`home`) upwards, that passes a controller on to
/// its children. If none does, the root is made to, if it has the controller.
fn parent(controller: &str, root: &Path, home: &Path) -> Result<PathBuf, String> {
    let lists = |group: &Path, file: &str| {
        let text = fs::read_to_string(group.join(file)).unwrap_or_default();
        text.split_whitespace().any(|one| one == controller)
    };
    let mut up = home.ancestors().take_while(|group| group.starts_with(root));
    if let Some(group) = up.find(|group| lists(group, "cgroup.subtree_control")) {
        return Ok(group.to_owned());
    }
    if !lists(root, "cgroup.controllers") {
        return Err(missing(controller));
    }
    write(&root.join("cgroup.subtree_control"), &format!("+{controller}"))?;
    Ok(root.to_owned())
}

/// The disk that holds a folder, as `major:minor`. `sys` is where sysfs is mounted.
fn disk_of(dir: &Path, sys: &Path) -> Result<String, String> {
    let metadata = fs::metadata(dir).map_err(|error| cannot("look at", dir, &error))?;
    disk(metadata.dev(), sys)
        .ok_or_else(|| format!("{} is on a file system without a disk of its own", dir.display()))
}

fn disk(device: u64, sys: &Path) -> Option<String> {
    let found = sys.join("dev/block").join(number(device));
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
                v1: HashMap::from([
                    ("blkio".into(), "/sys/fs/cgroup/blkio/a".into()),
                    ("memory".into(), "/sys/fs/cgroup/memory/b".into()),
                ]),
                v2: Some(("/sys/fs/cgroup/unified".into(), unified)),
            }
        );
        let new = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Mounts::of(new, "0::/user.slice/x\n");
        let home = PathBuf::from("/sys/fs/cgroup/user.slice/x");
        assert_eq!(found.v2, Some(("/sys/fs/cgroup".into(), home)));
        assert!(found.v1.is_empty());
        assert_eq!(Mounts::of("nonsense - \n1 2", "::"), Mounts::default());
    }

    /// An ordinary folder stands in for a group of v2, and ordinary files for the kernel's.
    #[test]
    fn v2_has_one_group_for_both() {
        let root = Folder::new("v2");
        let home = root.0.join("a/b");
        fs::create_dir_all(&home).expect("made");
        let mounts = Mounts { v2: Some((root.0.as_path().into(), home)), ..Mounts::default() };
        let device = Limit::device("8:0", 100);
        let why = mounts.enter(&device, &[]).expect_err("no controller");
        assert_eq!(why, "no control-group controller \"io\" is mounted here");
        write(&root.0.join("cgroup.controllers"), "cpu io memory").expect("written");
        write(&root.0.join("a/cgroup.subtree_control"), "io memory").expect("written");
        let (group, text) = mounts.enter(&device, &[]).expect("limited");
        assert_eq!(text, "100 B/s read and as much written on 8:0 (control groups v2)");
        let group = [group.expect("a group")];
        assert_eq!(group[0].path.parent(), Some(root.0.join("a").as_path()));
        let (second, _) = mounts.enter(&Limit::memory(1 << 20), &group).expect("limited");
        assert!(second.is_none());
        let read = |name: &str| fs::read_to_string(group[0].path.join(name)).expect(name);
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
