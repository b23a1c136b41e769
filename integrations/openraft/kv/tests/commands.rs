//! The program as the README uses it: a cluster on loopback, its client, and wrong input.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vlsm-openraft-kv");
const LOOPBACK: &str = "127.0.0.1";
const NODES: u16 = 3;

/// Ports that nobody listens at now, one after the other.
fn free_ports() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let first = first + TAKEN.fetch_add(100, Ordering::Relaxed);
    let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let found = (first..first + 90).find(|port| (*port..port + NODES).all(free));
    found.expect("there are free ports")
}

fn nodes(port: u16) -> String {
    let nodes: Vec<_> = (port..port + NODES).map(|port| format!("127.0.0.1:{port}")).collect();
    nodes.join(",")
}

fn run(arguments: &[&str]) -> Output {
    let output = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output();
    output.expect("the program can be started")
}

/// Runs a command, which must succeed, and returns its output.
fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("it is text").trim().to_owned()
}

/// Runs a command, which must fail, and returns its error.
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("it is text").trim().to_owned()
}

/// The status with which a node answers a put that the program's own client would refuse.
fn put_status(port: u16, key: &str, value: &str) -> u16 {
    let put = serde_json::json!({ "Put": { "key": key, "value": value } });
    let asked = async {
        let request = reqwest::Client::new().post(format!("http://{LOOPBACK}:{port}/kv"));
        request.json(&put).send().await.expect("it answers").status().as_u16()
    };
    tokio::runtime::Runtime::new().expect("threads can be started").block_on(asked)
}

/// A cluster on loopback, which ends with this value.
struct Cluster(Child);

impl Cluster {
    fn start(folder: &Path, port: u16) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("cluster").arg("--folder").arg(folder).args(["--port", &port.to_string()]);
        Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }

    /// Ends it as Ctrl-C does.
    fn stop(mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        self.0.wait().expect("it can be waited for").success()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        if matches!(self.0.try_wait(), Ok(None)) {
            // Unlike a kill it lets the cluster end its nodes.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = self.0.wait();
        }
    }
}

/// The id of the process that serves as a node of this folder.
fn process_of(folder: &Path) -> Option<i32> {
    let own = std::fs::read_dir("/proc").ok()?.filter_map(|entry| {
        let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.contains(" serve ") && line.contains(&format!("{} ", folder.display()))).then_some(id)
    });
    own.into_iter().next()
}

#[test]
fn a_cluster_serves_survives_a_kill_and_goes_on_after_a_restart() {
    let folder = TempDir::new().expect("there is a folder");
    let port = free_ports();
    let at = nodes(port);
    let cluster = Cluster::start(folder.path(), port);
    done(&["put", "--nodes", &at, "apple", "green"]);
    assert_eq!(done(&["get", "--nodes", &at, "apple"]), "green");
    done(&["cas", "--nodes", &at, "apple", "--expected", "green", "red"]);
    let error = refused(&["cas", "--nodes", &at, "apple", "--expected", "green", "blue"]);
    assert!(error.ends_with("nothing changed: the value is \"red\""), "{error}");
    let long = "k".repeat(70_000);
    for arguments in [vec!["put", &long, "v"], vec!["get", &long], vec!["delete", &long]] {
        let error = refused(&[&[arguments[0], "--nodes", &at], &arguments[1..]].concat());
        assert!(error.contains("the key has 70000 bytes; 65535 is the limit"), "{error}");
    }
    done(&["put", "--nodes", &at, &long[..65_535], "the longest key"]);
    assert_eq!(put_status(port, &long, "v"), 400);
    assert_eq!(put_status(port, "k", &"v".repeat((1 << 20) + 1)), 400);
    let busy = refused(&["cluster", "--port", &port.to_string(), "--folder", "nowhere"]);
    assert!(busy.contains(&format!("port {port}: ")) && !Path::new("nowhere").exists(), "{busy}");

    let node = folder.path().join("node-1");
    if let Some(process) = process_of(&node) {
        let pid = rustix::process::Pid::from_raw(process).expect("it is an id");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
        let begun = Instant::now();
        // A node that dies while it has the request leaves its outcome unknown, and says nothing.
        loop {
            let put = run(&["put", "--nodes", &at, "pear", "yellow"]);
            let error = String::from_utf8_lossy(&put.stderr);
            if put.status.success() {
                break;
            }
            assert!(error.trim().ends_with("the outcome is unknown"), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(20), "the others serve");
        }
        assert_eq!(done(&["get", "--nodes", &at, "pear"]), "yellow");
        while process_of(&node).is_none_or(|again| again == process) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is started again");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    assert_eq!(done(&["status", "--nodes", &at]).lines().count(), 3);
    assert!(cluster.stop(), "Ctrl-C is a success");

    let _cluster = Cluster::start(folder.path(), port);
    assert_eq!(done(&["get", "--nodes", &at, "apple"]), "red");
    done(&["delete", "--nodes", &at, "apple"]);
    let error = refused(&["get", "--nodes", &at, "apple"]);
    assert!(error.ends_with("there is no key \"apple\""), "{error}");
}

#[test]
fn wrong_input_is_answered_with_what_is_wrong() {
    let folder = TempDir::new().expect("there is a folder");
    let path = folder.path().display().to_string();
    let port = free_ports();
    let members = format!("1=127.0.0.1:{},2=127.0.0.1:{}", port + 5, port + 6);
    let serve = |id: &str, folder: &str| {
        refused(&["serve", "--id", id, "--folder", folder, "--members", &members])
    };
    assert!(serve("3", &path).contains("--members does not name node 3"));
    std::fs::write(folder.path().join("node-id"), "2\n").expect("it is written");
    let error = serve("1", &path);
    assert!(error.contains(&format!("{path} is the folder of node 2, not 1")), "{error}");
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").expect("it is written");
    let file = file.display().to_string();
    let error = serve("1", &file);
    assert!(error.contains(&file), "{error}");
    let taken = std::net::TcpListener::bind(("127.0.0.1", port + 5)).expect("it is free");
    let error = serve("1", &path);
    assert!(error.contains(&format!("cannot listen at 127.0.0.1:{}", port + 5)), "{error}");
    drop(taken);
    let error = refused(&["get", "--nodes", "no such address", "apple"]);
    assert!(error.contains("\"no such address\", which must be HOST:PORT"), "{error}");
    let error = refused(&["cluster", "--folder", &path, "--port", "65534"]);
    assert!(error.contains("leaves no room"), "{error}");
    let error = refused(&["cluster", "--folder", &file, "--port", &port.to_string()]);
    assert!(error.contains(&file), "{error}");
    let error = refused(&["get", "--nodes", &format!("127.0.0.1:{port}"), "apple"]);
    assert!(error.contains("no leader in 10 s") && error.contains("refused"), "{error}");
}
