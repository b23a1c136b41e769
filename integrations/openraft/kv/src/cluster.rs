//! Three nodes on loopback, each a process of this program.
//!
//! A node that ends is started again after a second: kill one by its process id, and see the
//! others go on.

use clap::Args;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};
use vlsm_openraft_kv::asked_to_stop;

/// The arguments of `cluster`.
#[derive(Args)]
pub struct Cluster {
    /// The folder of the nodes' folders. A cluster that is there goes on.
    #[arg(long, default_value = "vlsm-cluster")]
    folder: PathBuf,
    /// The port of the first node; the others have the next ones.
    #[arg(long, default_value_t = 7101)]
    port: u16,
}

const NODES: u16 = 3;
const LOOPBACK: &str = "127.0.0.1";

/// Runs the cluster until Ctrl-C or SIGTERM.
pub async fn run(cluster: Cluster) -> Result<(), String> {
    if cluster.port == 0 || cluster.port.checked_add(NODES).is_none() {
        return Err(format!("--port {} leaves no room for {NODES} nodes", cluster.port));
    }
    free(&cluster).map_err(|error| format!("{error}; choose others by --port"))?;
    let ended = tokio::select! {
        ran = keep_running(&cluster) => ran,
        asked = asked_to_stop() => asked,
    };
    // The nodes are killed now. When they are gone, the cluster may be started again.
    for _ in 0..100 {
        if free(&cluster).is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ended
}

/// Whether nobody listens at the ports of the nodes.
fn free(cluster: &Cluster) -> Result<(), String> {
    for port in cluster.port..cluster.port + NODES {
        let free = std::net::TcpListener::bind((LOOPBACK, port));
        free.map_err(|error| format!("port {port}: {error}"))?;
    }
    Ok(())
}

/// Starts the nodes, and those that end again.
///
/// The cluster is founded once, and marked so when it has a leader. A node that lost its folder
/// later must not found another.
async fn keep_running(cluster: &Cluster) -> Result<(), String> {
    let mark = cluster.folder.join("founded");
    let first = !mark.exists();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..NODES {
        let child = start(cluster, number, first)?;
        tasks.spawn(async move { (number, child).wait().await });
    }
    if first {
        tokio::select! {
            () = has_leader(cluster) => {}
            Some(ended) = tasks.join_next() => {
                let (number, status) = ended.map_err(|error| format!("a task failed: {error}"))??;
                return Err(format!("node {} did not start ({status})", number + 1));
            }
        }
        let marked = std::fs::write(&mark, "");
        marked.map_err(|error| format!("{}: {error}", mark.display()))?;
    }
    while let Some(ended) = tasks.join_next().await {
        let (number, status) = ended.map_err(|error| format!("a task failed: {error}"))??;
        eprintln!("node {} ended ({status}); it is started again", number + 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let child = start(cluster, number, false)?;
        tasks.spawn(async move { (number, child).wait().await });
    }
    Ok(())
}

/// Waits until a node says that there is a leader.
async fn has_leader(cluster: &Cluster) {
    let http = reqwest::Client::new();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let request = http.get(format!("http://{LOOPBACK}:{}/status", cluster.port));
        let status: Result<serde_json::Value, reqwest::Error> =
            async { request.send().await?.json().await }.await;
        if status.is_ok_and(|status| status["current_leader"].is_u64()) {
            return;
        }
    }
}

trait Wait {
    async fn wait(self) -> Result<(u16, ExitStatus), String>;
}

impl Wait for (u16, Child) {
    async fn wait(mut self) -> Result<(u16, ExitStatus), String> {
        let status = self.1.wait().await;
        status.map(|status| (self.0, status)).map_err(|error| format!("cannot wait: {error}"))
    }
}

fn start(cluster: &Cluster, number: u16, first: bool) -> Result<Child, String> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| format!("cannot find this program: {error}"))?;
    let members: Vec<_> = (0..NODES)
        .map(|number| format!("{}={LOOPBACK}:{}", number + 1, cluster.port + number))
        .collect();
    let folder = cluster.folder.join(format!("node-{}", number + 1));
    let made = std::fs::create_dir_all(&folder);
    made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--id").arg((number + 1).to_string());
    command.arg("--folder").arg(&folder).arg("--members").arg(members.join(","));
    if first {
        command.arg("--init");
    }
    let child = command.kill_on_drop(true).spawn();
    child.map_err(|error| format!("cannot start node {}: {error}", number + 1))
}
