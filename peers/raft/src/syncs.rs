//! Counts the syncs of processes by strace, from outside of the storages: `fdatasync`, `fsync`, and
//! `msync`, which syncs vLSM's WAL where that is written through a mapping of the file.
//!
//! strace slows the nodes down, so a run that counts is not one that measures time.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// A count that is under way.
pub struct Count {
    strace: Vec<Child>,
    files: Vec<std::path::PathBuf>,
}

impl Count {
    /// Begins to count, for each process by itself.
    pub async fn start(processes: &[u32], dir: &Path) -> Result<Self, String> {
        let mut this = Self { strace: Vec::new(), files: Vec::new() };
        for process in processes {
            let file = dir.join(format!("syncs-{process}"));
            let mut command = Command::new("strace");
            command.args(["-f", "-q", "-c", "-e", "trace=fsync,fdatasync,msync"]);
            command.args(["-p", &process.to_string(), "-o"]).arg(&file);
            command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            let child = command.spawn();
            this.strace.push(child.map_err(|error| format!("strace: {error}"))?);
            this.files.push(file);
        }
        // It attaches to one thread after the other.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(this)
    }

    /// Ends the count. Returns the number of each process.
    pub async fn end(self) -> Result<Vec<u64>, String> {
        let mut counts = Vec::new();
        for (mut child, file) in self.strace.into_iter().zip(self.files) {
            if let Some(pid) = child.id().and_then(|id| rustix::process::Pid::from_raw(id as i32)) {
                let signal = rustix::process::Signal::INT;
                let sent = rustix::process::kill_process(pid, signal);
                sent.map_err(|error| format!("strace: {error}"))?;
            }
            child.wait().await.map_err(|error| format!("strace: {error}"))?;
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
            let _ = std::fs::remove_file(&file); // a leftover in a temporary folder
            counts.push(calls(&text));
        }
        Ok(counts)
    }
}

/// The calls in a summary of strace: the fourth column of their rows.
fn calls(summary: &str) -> u64 {
    let rows = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = rows.filter(|row| matches!(row.last(), Some(&("fsync" | "fdatasync" | "msync"))));
    ours.filter_map(|row| row.get(3)?.parse::<u64>().ok()).sum()
}
