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

/// Runs the cluster until Ctrl-C or SIGTERM.
pub async fn run(cluster: Cluster) -> Result<(), String> {
    let last = cluster.port.checked_add(NODES - 1);
    last.ok_or_else(|| format!("--port {} leaves no room for {NODES} nodes", cluster.port))?;
    // The cluster is founded once. A node that lost its folder must not found another.
    let first = !cluster.folder.join("founded").exists();
    let run = async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..NODES {
            let child = start(&cluster, number, first)?;
            tasks.spawn(async move { (number, child).wait().await });
        }
        if first {
            let marked = std::fs::write(cluster.folder.join("founded"), "");
            marked.map_err(|error| format!("{}: {error}", cluster.folder.display()))?;
        }
        while let Some(ended) = tasks.join_next().await {
            let (number, status) = ended.map_err(|error| format!("a task failed: {error}"))??;
            eprintln!("node {} ended ({status}); it is started again", number + 1);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let child = start(&cluster, number, false)?;
            tasks.spawn(async move { (number, child).wait().await });
        }
        Ok(())
    };
    tokio::select! {
        ran = run => ran,
        asked = asked_to_stop() => asked,
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
        .map(|number| format!("{}=127.0.0.1:{}", number + 1, cluster.port + number))
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
