//! A test whose kernel broke down is left out, loudly, rather than waited for.
//!
//! ext4 of Linux 6.18 was seen to stop with `kernel BUG at fs/ext4/mballoc.c` after writes that had
//! failed. The thread dies within the kernel with its locks held, so the next sync of that file
//! system never returns and its process cannot even be killed. That is no failure of the store.

use rustix::fs::{Mode, OFlags};
use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long a test may still run after the kernel has reported a bug of its own.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits for the child to end and returns its exit code, or the kernel's report if it has broken
/// down and the child does not end.
pub fn wait(child: &mut Child) -> std::io::Result<Result<i32, String>> {
    let mut log = Log::open();
    let mut broken: Option<(Instant, String)> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ok(status.code().unwrap_or(1)));
        }
        if broken.is_none() {
            broken = log.as_mut().and_then(Log::report).map(|line| (Instant::now(), line));
        }
        if let Some((since, line)) = &broken
            && since.elapsed() > PATIENCE
        {
            // It is not waited for: in the kernel it may hang for good.
            child.kill()?;
            return Ok(Err(line.clone()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the kernel says from now on.
struct Log(std::fs::File);

impl Log {
    /// The log, or nothing where this process may not read it.
    fn open() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?;
        rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).ok()?;
        Some(Self(file.into()))
    }

    /// The next report of a bug of the kernel. A read returns one record.
    fn report(&mut self) -> Option<String> {
        let mut record = [0; 8192];
        loop {
            let len = match self.0.read(&mut record) {
                // Records were overwritten before they were read; the next read goes on behind
                // them.
                Err(error) if error.raw_os_error() == Some(32) => continue,
                outcome => outcome.ok().filter(|&len| len > 0)?,
            };
            let text = String::from_utf8_lossy(&record[..len]);
            let line = text.split_once(';').map_or(&*text, |(_, message)| message);
            if line.starts_with("kernel BUG at ") {
                return line.lines().next().map(str::to_owned);
            }
        }
    }
}
