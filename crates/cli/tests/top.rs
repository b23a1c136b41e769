//! `top` beside a writing process: it requests statistics, reads them, and leaves no files behind.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test"
)]

mod common;

use common::World;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

/// A shell of the program on the store `s`, which keeps it open.
struct Writer {
    child: Child,
    input: Option<ChildStdin>,
}

impl Writer {
    /// Begins, and waits until the store is open.
    fn new(world: &World) -> Self {
        world.run(&["put", "s", "apple", "green"]).ok();
        let mut child = world.command(&["shell", "s"]).spawn().unwrap();
        let mut writer = Self { input: child.stdin.take(), child };
        writer.say("get apple");
        let mut line = String::new();
        let out = writer.child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "green");
        writer
    }

    fn say(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
    }

    /// Writes while `work` runs.
    fn writing<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let work = scope.spawn(work);
            let mut n = 0;
            while !work.is_finished() {
                self.say(&format!("put key{n} value"));
                n += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            work.join().unwrap()
        })
    }

    fn close(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn files(world: &World) -> Vec<String> {
    let names = std::fs::read_dir(world.path("s")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("STATS")).collect()
}

#[test]
fn a_reading_of_a_store_that_another_process_writes() {
    let world = World::new();
    let mut writer = Writer::new(&world);
    let id = writer.child.id();
    let json = writer.writing(|| world.run(&["top", "s", "--once", "--json"]).ok());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["store"], &json["process"]), (&"s".into(), &id.into()));
    assert!(json["rates"]["puts"].as_f64().unwrap() > 1.0, "{json}");
    assert!(json["rates"]["written"].as_f64().unwrap() > 10.0, "{json}");
    assert_eq!(json["keyspaces"][0]["name"], "default");
    assert!(json["memtables"]["bytes"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["files"]["wals"].as_f64().unwrap() >= 1.0, "{json}");
    assert_eq!(json["levels"][0]["level"], 0);
    // Without a terminal it prints once.
    let text = writer.writing(|| world.run(&["top", "s"]).ok());
    for what in [&format!("process {id}"), "puts", "written", "P99", "L0", "memory", "Waits"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("q quits"), "{text}");
    let ended = Instant::now();
    while files(&world) != Vec::<String>::new() {
        assert!(ended.elapsed() < Duration::from_secs(30), "{:?} is left", files(&world));
        std::thread::sleep(Duration::from_millis(100));
    }
    writer.close();
}

#[test]
fn a_store_that_nobody_writes_is_refused() {
    let world = World::new();
    world.run(&["put", "s", "apple", "green"]).ok();
    world.run(&["top", "s"]).fails(1, &["s is not open in any process", "vlsm stats s"]);
    world.run(&["top", "none", "--json"]).fails(1, &["none"]);
    std::fs::create_dir(world.path("empty")).unwrap();
    world.run(&["top", "empty"]).fails(1, &["empty", "not a store"]);
    world.file("file", "text");
    world.run(&["top", "file"]).fails(1, &["file"]);
    world.run(&["top", "s", "--interval", "0"]).fails(2, &["--interval", "1..=60"]);
    world.run(&["top", "s", "--interval", "soon"]).fails(2, &["--interval"]);
    world.run(&["top"]).fails(2, &["STORE"]);
    assert_eq!(files(&world), Vec::<String>::new());
}

/// The page that a killed process left behind is not shown as the figures of the next process.
#[test]
fn a_process_that_is_killed_is_no_live_store() {
    let world = World::new();
    let mut writer = Writer::new(&world);
    std::thread::scope(|scope| {
        let top = scope.spawn(|| world.run(&["top", "s", "--interval", "60", "--json"]));
        let begun = Instant::now();
        while !files(&world).contains(&"STATS.prom".to_owned()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no page");
            std::thread::sleep(Duration::from_millis(50));
        }
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        top.join().unwrap().fails(1, &["s has been closed for"]);
    });
    assert_eq!(files(&world), ["STATS.prom"]);
    world.run(&["top", "s"]).fails(1, &["not open in any process"]);
    assert!(world.run(&["verify", "s"]).ok().is_empty());
    world.run(&["put", "s", "apple", "red"]).ok();
    assert_eq!(files(&world), Vec::<String>::new());
}

/// A folder without write permission, and a process that does not answer.
#[test]
fn what_stands_in_the_way_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let writer = Writer::new(&world);
    std::fs::create_dir(world.path("s/STATS.wanted")).unwrap();
    world.run(&["top", "s"]).fails(1, &["cannot write s/STATS.wanted", "may write to the folder"]);
    std::fs::remove_dir(world.path("s/STATS.wanted")).unwrap();
    let page = world.file("s/STATS.prom", "vlsm_page_info{format=\"2\",version=\"9.0.0\"} 1\n");
    world.run(&["top", "s"]).fails(1, &["vlsm 9.0.0", "format 2", "same version"]);
    std::fs::write(page, "torn").unwrap();
    world.run(&["top", "s"]).fails(1, &["STATS.prom", "line 1 is not a metric"]);
    writer.close();
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(world.path("s"), mode).unwrap();
    let options = world.file("silent.toml", "stats_on_request = false\n");
    let options = options.to_str().unwrap();
    let mut silent = world.command(&["shell", "s", "--options", options]).spawn().unwrap();
    let mut input = silent.stdin.take().unwrap();
    writeln!(input, "get apple").unwrap();
    let mut line = String::new();
    BufReader::new(silent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let id = format!("process {}", silent.id());
    world.run(&["top", "s"]).fails(1, &[&id, "writes no statistics", "stats_on_request"]);
    drop(input);
    assert!(silent.wait().unwrap().success());
}

/// The window of the terminal is closed: the program ends with it.
#[test]
fn it_ends_with_its_terminal() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let world = World::new();
    let writer = Writer::new(&world);
    let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    // The program must not have the window's end of the terminal itself.
    rustix::io::fcntl_setfd(&window, rustix::io::FdFlags::CLOEXEC).unwrap();
    grantpt(&window).unwrap();
    unlockpt(&window).unwrap();
    let name = ptsname(&window, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
    let mut top = world.command(&["top", "s"]);
    top.stdin(terminal()).stdout(terminal()).stderr(Stdio::null());
    let mut top = top.spawn().unwrap();
    let mut seen = [0; 64];
    assert!(rustix::io::read(&window, &mut seen).unwrap() > 0, "it draws");
    assert!(top.try_wait().unwrap().is_none());
    drop(window);
    let begun = Instant::now();
    while top.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let outlived = top.kill().is_ok() && top.wait().unwrap().code().is_none();
    assert!(!outlived, "it outlives its terminal");
    writer.close();
}
