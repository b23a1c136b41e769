//! A relative path means what it meant when it was given, whatever becomes of the process's
//! working directory. Alone in its binary, because the working directory is the whole process's.
//!
//! Every operation that is given a path runs once for each of its file calls, with the working
//! directory changed at that call.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm::{Db, Env, IngestOptions, Options, SstFileWriter};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::posix::PosixFs;
use vlsm_testfs::{Fault, FaultFs, Rule};

/// An operation on paths relative to the given folder, which is the working directory at its start.
type Operation = fn(&Arc<dyn Env>, &Path);

fn open_and_write(env: &Arc<dyn Env>, home: &Path) {
    let db = Db::builder("deep/er/store").env(env.clone()).open().unwrap();
    assert_eq!(db.path(), home.join("deep/er/store"));
    db.put("apple", "green").unwrap();
    db.flush().unwrap();
    db.put("pear", "yellow").unwrap();
    db.default_keyspace().compact_range(..).unwrap();
    db.close().unwrap();
    expect(&home.join("deep/er/store"), 2);
}

fn through_a_link(env: &Arc<dyn Env>, home: &Path) {
    std::fs::create_dir(home.join("real")).unwrap();
    std::os::unix::fs::symlink("real", home.join("link")).unwrap();
    let db = Db::builder("./real/../link/").env(env.clone()).open().unwrap();
    db.put("apple", "green").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    expect(&home.join("real"), 1);
}

fn read_only(env: &Arc<dyn Env>, home: &Path) {
    fill(&home.join("store"));
    let db = Db::builder("store").env(env.clone()).read_only(true).open().unwrap();
    assert_eq!(db.iter().filter(|pair| pair.is_ok()).count(), 2);
    db.close().unwrap();
}

fn checkpoint(env: &Arc<dyn Env>, home: &Path) {
    fill(&home.join("store"));
    let db = Db::builder(home.join("store")).env(env.clone()).open().unwrap();
    db.checkpoint("copies/one").unwrap();
    db.close().unwrap();
    expect(&one_of(home, "copies/one"), 2);
}

fn restore(env: &Arc<dyn Env>, home: &Path) {
    fill(&home.join("store"));
    vlsm::restore_with(env, Path::new("store"), Path::new("restored")).unwrap();
    expect(&home.join("restored"), 2);
}

fn verify(env: &Arc<dyn Env>, home: &Path) {
    fill(&home.join("store"));
    let report = vlsm::verify_with(env, Path::new("store"), &mut |_| {}).unwrap();
    assert!(!report.damaged, "{:?}", report.findings);
}

fn write_sst(env: &Arc<dyn Env>, home: &Path) {
    let options = Options::default();
    let mut writer = SstFileWriter::create_in(env, Path::new("a.sst"), &options).unwrap();
    writer.put("apple", "green").unwrap();
    writer.finish().unwrap();
    assert!(home.join("a.sst").exists());
    let abandoned = SstFileWriter::create_in(env, Path::new("b.sst"), &options).unwrap();
    drop(abandoned);
    let left = [home.to_owned(), away(home)].map(|folder| folder.join("b.sst.tmp").exists());
    assert_eq!(left, [false, false], "an unfinished file leaves nothing behind");
}

fn ingest(env: &Arc<dyn Env>, home: &Path) {
    let names = ["a.sst", "b.sst"];
    for name in names {
        // Opening the store makes calls, too: the process may be in either folder by then.
        for folder in [home.to_owned(), away(home)] {
            let mut writer = SstFileWriter::create(folder.join(name)).unwrap();
            writer.put(name, "green").unwrap();
            writer.finish().unwrap();
        }
    }
    let db = Db::builder(home.join("store")).env(env.clone()).open().unwrap();
    db.default_keyspace().ingest_with(names, IngestOptions::moving()).unwrap();
    db.close().unwrap();
    expect(&home.join("store"), 2);
    // Those that were brought in are moved, and no others.
    for name in names {
        one_of(home, name);
    }
}

fn trace(env: &Arc<dyn Env>, home: &Path) {
    let db = Db::builder(home.join("store")).env(env.clone()).open().unwrap();
    db.start_trace("trace").unwrap();
    db.put("apple", "green").unwrap();
    db.close().unwrap();
    let read = vlsm::trace::TraceReader::open(one_of(home, "trace")).unwrap();
    assert_eq!(read.filter(|op| op.is_ok()).count(), 1);
}

/// The folder that becomes the working directory during an operation.
fn away(home: &Path) -> PathBuf {
    let mut away = home.as_os_str().to_owned();
    away.push("-away");
    away.into()
}

/// The path of this name, which must be in one of the two folders. Operations on an open store come
/// after some file calls, so either may be the working directory then.
fn one_of(home: &Path, name: &str) -> PathBuf {
    let mut found =
        [home.join(name), away(home).join(name)].into_iter().filter(|path| path.exists());
    let path = found.next().unwrap_or_else(|| panic!("{name} is in neither folder"));
    assert_eq!(found.next(), None, "{name} is in both folders");
    path
}

/// A closed store of two keys, one of them in an SST.
fn fill(path: &Path) {
    let db = Db::open(path).unwrap();
    db.put("apple", "green").unwrap();
    db.flush().unwrap();
    db.put("pear", "yellow").unwrap();
    db.close().unwrap();
}

fn expect(path: &Path, count: usize) {
    let db = Db::builder(path).create_if_missing(false).open().unwrap();
    assert_eq!(db.iter().filter(|pair| pair.is_ok()).count(), count, "{}", path.display());
    db.close().unwrap();
}

#[test]
fn a_relative_path_outlives_the_working_directory() {
    let operations: [(&str, Operation); 9] = [
        ("open", open_and_write),
        ("link", through_a_link),
        ("read only", read_only),
        ("checkpoint", checkpoint),
        ("restore", restore),
        ("verify", verify),
        ("SST", write_sst),
        ("ingest", ingest),
        ("trace", trace),
    ];
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut total = 0;
    for (name, operation) in operations {
        for nth in 1.. {
            let home = root.join(format!("{name}-{nth}"));
            let away = away(&home);
            std::fs::create_dir(&home).unwrap();
            std::fs::create_dir(&away).unwrap();
            std::env::set_current_dir(&home).unwrap();
            let fs = FaultFs::new(Arc::new(PosixFs));
            let to = away.clone();
            let leave = Fault::Delay(Arc::new(move || std::env::set_current_dir(&to).unwrap()));
            let rule = Rule { ops: vec![], path: String::new(), nth, forever: false, fault: leave };
            let rule = fs.add(rule);
            let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(fs.clone()));
            operation(&env, &home);
            if fs.fired(rule) == 0 {
                assert!(nth > 2, "{name}: hardly any file call was met");
                break;
            }
            assert!(strangers(&away).is_empty(), "{name}, call {nth}: {:?}", strangers(&away));
            total += 1;
        }
    }
    println!("the working directory changed at {total} file calls");
    std::env::set_current_dir("/").unwrap();
}

/// The files in a folder that no operation named.
fn strangers(folder: &Path) -> Vec<PathBuf> {
    let named = ["copies", "trace", "a.sst", "b.sst"];
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| named.iter().any(|name| path.ends_with(name));
    entries.filter(|path| !named(path)).collect()
}
