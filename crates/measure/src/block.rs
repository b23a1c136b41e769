//! The bytes that a block device moved, as the kernel counts them. `iostat` shows the same
//! counters.
//!
//! 1. The device is the one that holds a folder: a partition, or a whole disk.
//! 2. It is found by the device number of the folder. If this is not the number of a block device,
//!    the file system is looked up in the mount table: by the file that it was mounted from
//!    (btrfs), or by its upper folder (overlay). In all other cases the text says that there is no
//!    device.
//! 3. The counters are sectors of 512 bytes, in the device's folder in sysfs.
//!
//! The kernel counts all bytes that reach the device, including those of other processes, and
//! buffered writes at the time when it writes them back. A limit or a throttle delays requests and
//! does not hide them.

use crate::process::Device;
use std::fs::read_to_string;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a sector in the kernel's counters, whatever the device's own sectors are.
const SECTOR: u64 = 512;

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its name and its number.
    name: String,
    /// The file of its counters.
    counters: PathBuf,
}

impl Block {
    /// The device that holds a folder, or the nearest folder above it that exists.
    ///
    /// # Errors
    /// The folder is on no block device, or the kernel does not show its counters.
    pub fn of(folder: &Path) -> Result<Self, String> {
        let there = folder.ancestors().find_map(|folder| Some((folder, folder.metadata().ok()?)));
        let (folder, metadata) = there.ok_or("no folder above it exists")?;
        let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let stat = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.rdev()));
        let sys = Path::new("/sys");
        let direct = Self::numbered(metadata.dev(), sys);
        let found = direct.or_else(|| {
            let folder = folder.canonicalize().ok()?;
            below(&mounts, &folder).into_iter().find_map(|path| {
                let (device, own) = stat(&path)?;
                Self::numbered(own, sys).or_else(|| Self::numbered(device, sys))
            })
        });
        found.ok_or_else(|| "the folder is on a file system without a block device".to_owned())
    }

    /// The device of this number, if the kernel counts for it.
    fn numbered(device: u64, sys: &Path) -> Option<Self> {
        let number = number(device);
        let folder = sys.join("dev/block").join(&number);
        let counters = folder.join("stat");
        counted(&read_to_string(&counters).ok()?)?;
        let about = read_to_string(folder.join("uevent")).unwrap_or_default();
        let named = about.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let name = named.map_or(number.clone(), |name| format!("{name} ({number})"));
        Some(Self { name, counters })
    }

    /// Its name and its number, such as `sda1 (8:1)`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes that it moved since the system started; `None` if the kernel does not report them.
    #[must_use]
    pub fn moved(&self) -> Option<Device> {
        counted(&read_to_string(&self.counters).ok()?)
    }
}

/// A device number as `major:minor`. Linux splits it like this.
pub(crate) fn number(device: u64) -> String {
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff);
    format!("{major}:{minor}")
}

/// Reads a device's counters: reads, merged reads, sectors read, time, and the same for writes.
fn counted(stat: &str) -> Option<Device> {
    let mut fields = stat.split_whitespace().map(str::parse::<u64>);
    let read = fields.nth(2)?.ok()?;
    let written = fields.nth(3)?.ok()?;
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR);
    Some(Device { read: bytes(read), written: bytes(written), program: 0 })
}

/// Files and folders that are on the device of this folder, according to the mount table: the file
/// that its file system was mounted from, and the upper folder of an overlay.
fn below(mountinfo: &str, folder: &Path) -> Vec<PathBuf> {
    // number parent major:minor root mount-point … - type source options
    let mounted = mountinfo.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        let mut source = source.split(' ').skip(1);
        let (source, options) = (source.next()?, source.next().unwrap_or_default());
        folder.starts_with(point).then_some((point.components().count(), source, options))
    });
    // Of several mounts on the same folder, the last one is visible.
    let Some((_, source, options)) = mounted.max_by_key(|(depth, ..)| *depth) else {
        return Vec::new();
    };
    let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="));
    let source = Some(source).filter(|source| source.starts_with('/'));
    source.into_iter().chain(upper).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_are_counted_as_bytes() {
        let stat = "   51393     8916  4292338    43712    15043    50578 11359288    32824   0";
        let moved = Device { read: 4_292_338 * 512, written: 11_359_288 * 512, program: 0 };
        assert_eq!(counted(stat), Some(moved));
        assert_eq!((counted(""), counted("1 2 x 4 5 6 7")), (None, None));
        assert_eq!((number(8 << 8 | 1).as_str(), number(254 << 8).as_str()), ("8:1", "254:0"));
    }

    #[test]
    fn the_mount_table_leads_to_the_device() {
        let mounts = "\
            27 1 254:0 / / rw - ext4 /dev/vda rw\n\
            50 27 0:40 / /var rw shared:2 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w\n\
            51 50 0:41 /sub /var/lib rw - btrfs /dev/sdb2 rw,subvol=/sub\n\
            52 27 0:42 / /run rw - tmpfs tmpfs rw\n";
        let of = |folder: &str| below(mounts, Path::new(folder));
        assert_eq!(of("/srv/a"), [PathBuf::from("/dev/vda")]);
        assert_eq!(of("/var/log"), [PathBuf::from("/u")]);
        assert_eq!(of("/var/lib/x"), [PathBuf::from("/dev/sdb2")]);
        assert_eq!(of("/var/library"), [PathBuf::from("/u")], "another folder than /var/lib");
        assert_eq!(of("/run/x"), Vec::<PathBuf>::new());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the file belongs to no store")]
    fn what_is_written_and_synced_is_counted() {
        // The folder for temporary files may be in memory.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let Ok(block) = Block::of(&folder.join("a folder/that is not there")) else { return };
        assert!(block.name().contains(':'), "{block:?}");
        let before = block.moved().expect("it counts");
        let file = tempfile::NamedTempFile::new_in(folder).expect("a file");
        std::fs::write(file.path(), vec![1; 1 << 20]).expect("written");
        file.as_file().sync_all().expect("synced");
        let moved = block.moved().expect("it counts").since(&before);
        assert!(moved.written >= 1 << 20, "{moved:?}");
    }

    #[test]
    fn a_file_system_in_memory_has_no_device() {
        let why = Block::of(Path::new("/proc/self")).expect_err("it is no disk's");
        assert!(why.contains("without a block device"), "{why}");
    }
}
