//! Three nodes, each a process that can be killed, cut off, and have its disk filled.
//!
//! Each node's folder is a small file system in memory if this program may mount one. The ports are
//! below those that the system gives to outgoing connections, so a killed node finds its own free.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const NODES: usize = 3;

const LOOPBACK: &str = "127.0.0.1";

/// What makes a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The planted bug, for the nodes' environment.
    pub plant: Option<&'static str>,
    /// Milliseconds between heartbeats.
    pub heartbeat: u64,
}

pub struct Cluster {
    folder: TempDir,
    setup: Setup,
    ports: Vec<u16>,
    children: Vec<Option<Child>>,
    mounted: Vec<PathBuf>,
    http: reqwest::Client,
    /// Nodes that ended by themselves.
    pub stopped: usize,
}

impl Cluster {
    /// Starts a new cluster.
    pub fn start(setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let http = reqwest::Client::new();
        let children = (0..NODES).map(|_| None).collect();
        let (ports, mounted) = (free_ports(), Vec::new());
        let mut this = Self { folder, setup, ports, children, mounted, http, stopped: 0 };
        for node in 0..NODES {
            let folder = this.node_folder(node);
            std::fs::create_dir_all(&folder).expect("a folder can be made");
            match mount(&folder) {
                Ok(()) => this.mounted.push(folder),
                Err(why) if node == 0 => println!("SKIPPED: full disks ({why})"),
                Err(_) => {}
            }
        }
        for node in 0..NODES {
            this.run(node, true);
        }
        this
    }

    /// Whether disks can be filled.
    pub fn has_small_disks(&self) -> bool {
        self.mounted.len() == NODES
    }

    fn node_folder(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node-{}", node + 1))
    }

    pub fn addresses(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("{LOOPBACK}:{port}")).collect()
    }

    fn url(&self, node: usize, path: &str) -> String {
        format!("http://{LOOPBACK}:{}/{path}", self.ports[node])
    }

    fn run(&mut self, node: usize, first: bool) {
        let addresses = self.addresses();
        let members = addresses.iter().enumerate();
        let members: Vec<_> = members.map(|(i, at)| format!("{}={at}", i + 1)).collect();
        let log = self.folder.path().join(format!("node-{}.log", node + 1));
        let log = std::fs::File::options().create(true).append(true).open(log);
        let mut command = Command::new(env!("CARGO_BIN_EXE_vlsm-openraft-kv"));
        command.arg("serve").args(["--id", &(node + 1).to_string()]);
        command.arg("--folder").arg(self.node_folder(node).join("data"));
        command.args(["--members", &members.join(","), "--memory", "16M"]);
        command.args(["--heartbeat", &self.setup.heartbeat.to_string()]);
        command.args(["--snapshot-every", "100"]);
        if first {
            command.arg("--init");
        }
        command.env_remove("PLANT");
        command.envs(self.setup.plant.map(|plant| ("PLANT", plant)));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.expect("a log can be opened"));
        self.children[node] = Some(command.spawn().expect("the server can be started"));
    }

    /// Starts a node that does not run.
    pub fn revive(&mut self, node: usize) {
        if let Some(child) = &mut self.children[node] {
            if child.try_wait().expect("a child can be asked").is_none() {
                return;
            }
            self.stopped += 1;
        }
        self.run(node, false);
    }

    /// Kills a node, as `kill -9`.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.children[node].take() {
            if child.try_wait().expect("a child can be asked").is_some() {
                self.stopped += 1;
            }
            let _ = child.kill(); // it may have ended by itself
            child.wait().expect("a child can be waited for");
        }
    }

    /// Cuts the connections of a node to others, from its side.
    pub async fn cut(&self, node: usize, others: impl IntoIterator<Item = usize>) -> bool {
        let ids: BTreeSet<_> = others.into_iter().map(|other| other as u64 + 1).collect();
        let request =
            self.http.post(self.url(node, "chaos/cut")).json(&ids).timeout(Duration::from_secs(1));
        request.send().await.is_ok_and(|answer| answer.status().is_success())
    }

    /// A number in a node's status, if it answers and has one.
    pub async fn status(&self, node: usize, pointer: &str) -> Option<u64> {
        let request = self.http.get(self.url(node, "status"));
        let request = request.timeout(Duration::from_millis(500));
        let status: Result<serde_json::Value, reqwest::Error> =
            async { request.send().await?.json().await }.await;
        status.ok()?.pointer(pointer)?.as_u64()
    }

    /// Fills a node's disk.
    pub fn fill(&self, node: usize) {
        let file = std::fs::File::create(self.node_folder(node).join("filler"));
        let mut file = file.expect("an empty file can be made");
        for size in [64 << 10, 1] {
            let bytes = vec![1; size];
            while file.write_all(&bytes).is_ok() {}
        }
    }

    /// Ends all cuts, frees the disks, and starts the nodes that do not run.
    pub async fn heal(&mut self) {
        for node in 0..NODES {
            let _ = std::fs::remove_file(self.node_folder(node).join("filler"));
            self.revive(node);
            self.cut(node, []).await; // one that does not answer yet has no cuts
        }
    }

    /// The leader that most nodes name, as soon as there is one.
    pub async fn leader(&mut self) -> usize {
        let begun = Instant::now();
        loop {
            let mut votes = [0; NODES];
            for node in 0..NODES {
                let leader = self.status(node, "/current_leader").await;
                if let Some(leader) = leader {
                    votes[leader as usize - 1] += 1;
                }
            }
            if let Some(leader) = votes.iter().position(|votes| *votes > NODES / 2) {
                return leader;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no leader:\n{}", self.logs());
            (0..NODES).for_each(|node| self.revive(node));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The last lines that the nodes printed.
    pub fn logs(&self) -> String {
        let log = |node: usize| {
            let path = self.folder.path().join(format!("node-{}.log", node + 1));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<_> = text.lines().rev().take(8).collect();
            format!(
                "node {}:\n{}\n",
                node + 1,
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            )
        };
        (0..NODES).map(log).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..NODES).for_each(|node| self.kill(node));
        for folder in &self.mounted {
            let _ = Command::new("umount").arg(folder).status();
        }
    }
}

/// Mounts a file system of 24 MB in memory.
fn mount(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=24m", "vlsm-chaos"]).arg(folder);
    let output = command.output().map_err(|error| format!("mount: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Ports that nobody listens at now.
fn free_ports() -> Vec<u16> {
    let mut found = Vec::new();
    let first = 10_000 + (std::process::id() % 10_000) as u16;
    for port in first..first + 10_000 {
        if std::net::TcpListener::bind((LOOPBACK, port)).is_ok() {
            found.push(port);
            if found.len() == NODES {
                return found;
            }
        }
    }
    panic!("no free ports from {first} on");
}
