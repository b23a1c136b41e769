//! A file system on a loop device that can be shut down, as if the power went.
//!
//! The device's blocks are a sparse file in memory (`/dev/shm`) where there is such a folder. That
//! of a device that can fail ([`failing`]) lies in a memory file system of its own.
//! `mount -o loop` sets the device up, and unmounting frees it. All mounts are made in a mount
//! namespace of this process ([`inside`]), so that none outlives it, however it ends. What may be
//! left of a run that was killed is its folder; the next run removes it.

pub mod failing;
mod kernel;
pub mod systems;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PREFIX: &str = "vlsm-power-cuts-";
/// XFS has a smallest size, and some profiles measure the device with 256 MB.
const DEVICE_BYTES: u64 = 1 << 30;
/// `EXT4_IOC_SHUTDOWN`, `XFS_IOC_GOINGDOWN`.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);

/// The data that the device gets before a file system is shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// Everything that was written is synced first.
    Synced = 0,
    /// The journal is written, the data is not.
    Journal = 1,
    /// Nothing more is written.
    Nothing = 2,
}

/// Runs this program once more in a mount namespace of its own and returns its exit code, or
/// nothing inside of that namespace.
///
/// # Errors
/// The reason why there can be no such namespace, or why the program does not end ([`kernel`]).
pub fn inside(variable: &str) -> Result<Option<i32>, String> {
    if std::env::var_os(variable).is_some() {
        return Ok(None);
    }
    if !rustix::process::geteuid().is_root() {
        return Err("only root may mount".to_owned());
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command
    };
    done(unshare().arg("true"))?;
    let program = std::env::current_exe().expect("this program");
    let child = unshare().arg(program).env(variable, "1").spawn();
    let ended = child.and_then(|mut child| kernel::wait(&mut child));
    match ended.map_err(|error| format!("unshare: {error}"))? {
        Ok(code) => Ok(Some(code)),
        Err(line) => Err(format!("the kernel broke down ({line}), and the test does not end")),
    }
}

/// Runs a command to its end.
fn done(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("{name} is not installed"));
        }
        Err(error) => return Err(format!("{name}: {error}")),
        Ok(output) => output,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed: {}", said.trim().replace('\n', "; ")))
}

/// A device, its file system and where it is mounted.
pub struct Mounted {
    folder: PathBuf,
    options: String,
    /// Of a device that can fail, the number of bytes at its start that never do.
    sound: Option<u64>,
}

impl Mounted {
    /// A new file system of this type, mounted. If `sound` is given, its device can fail, except in
    /// that many bytes at its start.
    ///
    /// # Errors
    /// The program that is missing, or the call or command that failed.
    pub fn new(
        kind: &str,
        mkfs: &[&str],
        options: &str,
        sound: Option<u64>,
    ) -> Result<Self, String> {
        let folder = folder().map_err(|error| format!("no folder for a device: {error}"))?;
        // From here on what was made is removed.
        let this = Self { folder, options: format!("loop,{options}"), sound };
        std::fs::create_dir_all(this.path()).map_err(|error| error.to_string())?;
        std::fs::create_dir_all(this.memory()).map_err(|error| error.to_string())?;
        if sound.is_some() {
            this.mount_memory()?;
        }
        let device = File::create(this.device()).map_err(|error| error.to_string())?;
        device.set_len(DEVICE_BYTES).map_err(|error| error.to_string())?;
        done(Command::new(format!("mkfs.{kind}")).arg("-q").args(mkfs).arg(this.device()))?;
        if let Some(sound) = sound {
            this.write_all_of(sound)?;
        }
        this.mount()?;
        Ok(this)
    }

    fn memory(&self) -> PathBuf {
        self.folder.join("memory")
    }

    fn device(&self) -> PathBuf {
        self.memory().join("device")
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("mounted")
    }

    fn mount(&self) -> Result<(), String> {
        let mut command = Command::new("mount");
        done(command.args(["-o", &self.options]).arg(self.device()).arg(self.path()))?;
        if self.sound.is_none() {
            return Ok(());
        }
        self.divide_requests()?;
        if self.options.contains("data=") { self.allocate_apart() } else { Ok(()) }
    }

    /// Unmounts it. A process that has just ended may still hold it for a moment.
    fn unmount(&self) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let outcome = done(Command::new("umount").arg(self.path()));
            match outcome {
                Err(why) if why.contains("busy") && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                outcome => return outcome,
            }
        }
    }

    /// Cuts the power of the mounted file system: programs get errors from now on.
    ///
    /// # Errors
    /// The file system cannot be shut down.
    pub fn cut(&self, how: Cut) -> Result<(), String> {
        let root = File::open(self.path()).map_err(|error| error.to_string())?;
        // SAFETY: both file systems define this number as reading one u32, and write nothing.
        #[allow(unsafe_code, reason = "rustix has no safe call for it")]
        let outcome = unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(how as u32)) };
        outcome.map_err(|error| format!("it cannot be shut down: {error}"))
    }

    /// Restarts the machine, as far as the file system can see: it is unmounted, then mounted again
    /// with its journal replayed.
    ///
    /// # Errors
    /// The command that failed, with its output.
    pub fn restart(&self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    /// Copies the device's blocks, to look at what a failure left.
    pub fn keep(&self, copy: &Path) {
        std::fs::copy(self.device(), copy).expect("a copy");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if done(Command::new("mountpoint").arg("-q").arg(self.path())).is_ok() {
            // In a panic a store may still be open: then it goes with this process.
            let failed = std::thread::panicking() || self.unmount().is_err();
            if failed {
                done(Command::new("umount").arg("-l").arg(self.path())).ok();
            }
        }
        done(Command::new("umount").arg("-l").arg(self.memory())).ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A folder for a device, named after this process.
fn folder() -> std::io::Result<PathBuf> {
    let under = base();
    let mut number = 0;
    loop {
        let folder = under.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            outcome => return outcome.map(|()| folder),
        }
    }
}

fn base() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let free = rustix::fs::statvfs(&memory).map_or(0, |of| of.f_bavail * of.f_frsize);
    if free >= DEVICE_BYTES { memory } else { std::env::temp_dir() }
}

/// Removes the folders of processes that are gone.
pub fn remove_leftovers() {
    for entry in std::fs::read_dir(base()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            println!("left by a run that was killed, removed: {}", entry.path().display());
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}
