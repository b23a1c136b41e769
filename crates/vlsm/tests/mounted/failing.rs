//! A device that fails for a while, under a file system that stays mounted.
//!
//! The loop device's blocks are a sparse file in a small memory file system of their own. There are
//! two ways to fail, and no device-mapper is needed for either:
//!
//! - [`Failure::Full`]: that file system is made as small as what it holds. Writing a block that
//!   was never written fails, and the sync says ENOSPC, as on a thinly provisioned device. Blocks
//!   that were written once can be written again. The device gets requests of one page only: of a
//!   longer one the memory may take a part, and the loop device (Linux 6.18) then says that all of
//!   it was written.
//! - [`Failure::Short`]: the loop device ends at a random block that holds data. All reading and
//!   writing of what lies behind it fails with EIO.
//!
//! The file system's own blocks (its journal or log, inodes, bitmaps) lie in front of all data and
//! never fail, so the file system mostly stays in use. The kernel reports pages that could not be
//! written to one sync only. Then they count as clean: programs go on reading them, until they are
//! dropped from memory or the power goes.

use super::{DEVICE_BYTES, Mounted, done};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use rustix::ioctl::{Getter, Opcode, Setter, ioctl};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `struct loop_info64`, and the place of `lo_sizelimit` in it.
type LoopInfo = [u64; 29];
const SIZE_LIMIT: usize = 4;
const LOOP_SET_STATUS64: Opcode = 0x4c04;
const LOOP_GET_STATUS64: Opcode = 0x4c05;
const PAGE: u64 = 4096;

/// The way in which a device fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// Blocks that were never written cannot be written: ENOSPC.
    Full,
    /// Blocks from some place on can be neither read nor written: EIO.
    Short,
}

impl Mounted {
    pub(super) fn mount_memory(&self) -> Result<(), String> {
        let options = format!("huge=never,size={}", 2 * DEVICE_BYTES);
        let mut command = Command::new("mount");
        done(command.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(self.memory()))
    }

    /// Makes the system write each page by a request of its own, because a page is taken or refused
    /// as a whole.
    pub(super) fn divide_requests(&self) -> Result<(), String> {
        let device = self.loop_device()?;
        let name = device.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join("queue/max_sectors_kb");
        std::fs::write(&path, "4").map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Makes ext4 allocate each file's blocks apart from other files'. Linux 6.18 has a bug in the
    /// blocks that small files share: after a failed write it may stop the kernel
    /// ([`super::kernel`]).
    pub(super) fn allocate_apart(&self) -> Result<(), String> {
        let device = self.loop_device()?;
        let name = device.file_name().unwrap_or_default();
        let path = Path::new("/sys/fs/ext4").join(name).join("mb_stream_req");
        std::fs::write(&path, "0").map_err(|error| format!("{}: {error}", path.display()))
    }

    fn size_memory(&self, bytes: u64) -> Result<(), String> {
        let options = format!("remount,size={bytes}");
        done(Command::new("mount").args(["-o", &options]).arg(self.memory()))
    }

    /// The parts of the device that were ever written.
    fn written(&self) -> Result<Vec<(u64, u64)>, String> {
        let device = File::open(self.device()).map_err(|error| error.to_string())?;
        let mut parts = Vec::new();
        let mut at = 0;
        // After the last part there is no more data to be found.
        while let Ok(from) = seek(&device, SeekFrom::Data(at)) {
            let hole = seek(&device, SeekFrom::Hole(from));
            at = hole.map_err(|error| error.to_string())?;
            parts.push((from, at));
        }
        Ok(parts)
    }

    /// Leaves no holes in the device's first bytes.
    pub(super) fn write_all_of(&self, bytes: u64) -> Result<(), String> {
        let device = File::options().read(true).write(true).open(self.device());
        let device = device.map_err(|error| error.to_string())?;
        let mut content = vec![0; bytes as usize];
        let read = device.read_exact_at(&mut content, 0);
        read.and_then(|()| device.write_all_at(&content, 0)).map_err(|error| error.to_string())
    }

    /// Makes the device fail from now on.
    ///
    /// # Errors
    /// The command or call that failed.
    pub fn fail(&self, how: Failure, rng: &mut SmallRng) -> Result<(), String> {
        match how {
            Failure::Full => self.fill(rng.random_range(0..32_u64).saturating_sub(8)),
            Failure::Short => self.shorten(rng),
        }
    }

    /// Does the same as [`Mounted::fail`], but to every block of data that can fail.
    ///
    /// # Errors
    /// The command or call that failed.
    pub fn fail_all(&self, how: Failure) -> Result<(), String> {
        match how {
            Failure::Full => self.fill(0),
            Failure::Short => self.limit(self.sound.expect("a device that can fail")),
        }
    }

    /// Leaves room for `pages` more pages. It tries again if others write meanwhile and the size
    /// that it computed is too small.
    fn fill(&self, pages: u64) -> Result<(), String> {
        let mut refused = String::new();
        for _ in 0..100 {
            let memory = rustix::fs::statvfs(self.memory()).map_err(|error| error.to_string())?;
            let used = (memory.f_blocks - memory.f_bfree) * memory.f_frsize;
            match self.size_memory(used + pages * PAGE) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }

    fn shorten(&self, rng: &mut SmallRng) -> Result<(), String> {
        let from = self.sound.expect("a device that can fail");
        let mut end = from;
        // One time of three, all data.
        if rng.random_range(0..3_u8) > 0 {
            let parts: Vec<_> = self.written()?.into_iter().filter(|part| part.0 >= from).collect();
            let len: u64 = parts.iter().map(|(from, to)| to - from).sum();
            let mut at = rng.random_range(0..len.max(1));
            for (from, to) in parts {
                if at < to - from {
                    end = from + at;
                    break;
                }
                at -= to - from;
            }
        }
        self.limit(end / PAGE * PAGE)
    }

    /// Sets where the loop device ends; 0 is where its file does.
    fn limit(&self, bytes: u64) -> Result<(), String> {
        let device = File::open(self.loop_device()?).map_err(|error| error.to_string())?;
        let failed = |error| format!("the loop device cannot be resized: {error}");
        // SAFETY: the number is that of reading a `struct loop_info64`.
        #[allow(unsafe_code, reason = "rustix has no safe call for it")]
        let info = unsafe { ioctl(&device, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) };
        let mut info = info.map_err(failed)?;
        if info[SIZE_LIMIT] == bytes {
            return Ok(());
        }
        info[SIZE_LIMIT] = bytes;
        // SAFETY: the number is that of setting what was read above.
        #[allow(unsafe_code, reason = "rustix has no safe call for it")]
        let set = unsafe { ioctl(&device, Setter::<LOOP_SET_STATUS64, LoopInfo>::new(info)) };
        set.map_err(failed)
    }

    /// The loop device that is mounted.
    fn loop_device(&self) -> Result<PathBuf, String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|e| e.to_string())?;
        let path = self.path();
        let here = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let device = words.next()?;
            (Path::new(words.next()?) == path).then(|| PathBuf::from(device))
        });
        here.ok_or_else(|| "it is not mounted".to_owned())
    }

    /// Makes the device work again. Writes that it refused stay lost.
    ///
    /// # Errors
    /// The command or call that failed.
    pub fn heal(&self) -> Result<(), String> {
        self.size_memory(2 * DEVICE_BYTES)?;
        self.limit(0)
    }

    /// Whether the file system still takes writes: it may have ended by itself.
    pub fn takes_writes(&self) -> bool {
        let probe = self.path().join("probe");
        let made = File::create(&probe);
        let written = made.and_then(|mut file| file.write_all(b"probe").and(file.sync_all()));
        written.and_then(|()| std::fs::remove_file(probe)).is_ok()
    }
}

/// Drops the clean pages of each file from memory, with a probability of `share` percent. A page
/// that could not be written then reads as it was before, or as zeros.
pub fn drop_pages(folder: &Path, share: u32, rng: &mut impl Rng) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if rng.random_range(0..100) < share
            && let Ok(file) = File::open(entry.path())
        {
            fadvise(&file, 0, None, Advice::DontNeed).expect("a file that is open");
        }
    }
}
