//! Three nodes on loopback, each a process of this program, with folders of their own. They end,
//! and their folders go, with the value.

use crate::Storage;
use crate::load::request;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, Command};

const NODES: usize = 3;
const LOOPBACK: &str = "127.0.0.1";

/// A running cluster. It ends with this value, and its folders go.
pub struct Cluster {
    folder: TempDir,
    children: Vec<Child>,
    ports: Vec<u16>,
}

/// The status that a node reports.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    pub leader: Option<u64>,
    pub last_log: u64,
}

impl Cluster {
    /// Starts a new cluster, and waits until it has a leader.
    pub async fn start(storage: Storage, dir: &Path) -> Result<Self, String> {
        let folder = TempDir::with_prefix_in("raft-", dir);
        let folder = folder.map_err(|error| format!("{}: {error}", dir.display()))?;
        let mut this = Self { folder, children: Vec::new(), ports: free_ports()? };
        for node in 0..NODES {
            let child = this.spawn(storage, node)?;
            this.children.push(child);
        }
        this.leader().await?;
        Ok(this)
    }

    fn log(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node-{}.log", node + 1))
    }

    fn spawn(&self, storage: Storage, node: usize) -> Result<Child, String> {
        let members = self.ports.iter().enumerate();
        let members: Vec<_> =
            members.map(|(node, port)| format!("{}={LOOPBACK}:{port}", node + 1)).collect();
        let log = std::fs::File::create(self.log(node));
        let log = log.map_err(|error| format!("{}: {error}", self.log(node).display()))?;
        let program = std::env::current_exe();
        let program = program.map_err(|error| format!("cannot find this program: {error}"))?;
        let mut command = Command::new(program);
        command.args(["serve", "--init", "--storage", &storage.to_string()]);
        command.args(["--id", &(node + 1).to_string(), "--members", &members.join(",")]);
        command.arg("--folder").arg(self.folder.path().join(format!("node-{}", node + 1)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        command.spawn().map_err(|error| format!("cannot start node {}: {error}", node + 1))
    }

    /// The leader's number, from 0.
    pub async fn leader(&self) -> Result<usize, String> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            let mut votes = [0; NODES];
            for node in 0..NODES {
                let status = self.status(node).await;
                if let Ok(Status { leader: Some(leader), .. }) = status {
                    votes[leader as usize - 1] += 1;
                }
            }
            if let Some(leader) = votes.iter().position(|votes| *votes == NODES) {
                return Ok(leader);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let logs = (0..NODES).map(|node| std::fs::read_to_string(self.log(node)));
        let logs: Vec<_> = logs.map(Result::unwrap_or_default).collect();
        Err(format!("no leader in 20 s; the nodes said:\n{}", logs.concat()))
    }

    /// The address of a node.
    pub fn address(&self, node: usize) -> String {
        format!("{LOOPBACK}:{}", self.ports[node])
    }

    /// The numbers of the nodes' processes.
    pub fn processes(&self) -> Vec<u32> {
        self.children.iter().filter_map(Child::id).collect()
    }

    /// The status that a node reports.
    pub async fn status(&self, node: usize) -> Result<Status, String> {
        let address = self.address(node);
        let text = format!("GET /status HTTP/1.1\r\nhost: {address}\r\n\r\n");
        let answer = request(&address, text.as_bytes()).await?;
        let status: serde_json::Value =
            serde_json::from_slice(&answer).map_err(|error| format!("{address}: {error}"))?;
        let last_log = status["last_log_index"].as_u64().unwrap_or(0);
        Ok(Status { leader: status["current_leader"].as_u64(), last_log })
    }

    /// The CPU time that the nodes have taken.
    pub fn cpu(&self) -> Result<Duration, String> {
        let mut ticks = 0;
        for process in self.processes() {
            let path = format!("/proc/{process}/stat");
            let stat =
                std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            // After the name, which may have spaces: the fields from the third on.
            let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let times = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
            ticks += times.sum::<u64>();
        }
        let second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_secs_f64(ticks as f64 / second as f64))
    }
}

/// Ports that nobody listens at, below those of outgoing connections.
fn free_ports() -> Result<Vec<u16>, String> {
    let first = 10_000 + (std::process::id() % 10_000) as u16;
    let free = |port: &u16| std::net::TcpListener::bind((LOOPBACK, *port)).is_ok();
    let ports: Vec<_> = (first..first + 10_000).filter(free).take(NODES).collect();
    if ports.len() < NODES {
        return Err(format!("no {NODES} free ports from {first} on"));
    }
    Ok(ports)
}
