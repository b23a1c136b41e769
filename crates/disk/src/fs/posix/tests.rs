//! The real file system: the effect of each call, and the holder of a lock. Each test has a folder
//! of its own.

use super::*;
use crate::fs::read_all;

#[test]
fn files_and_directories() {
    let dir = tempfile::tempdir().expect("a folder");
    let (fs, root) = (PosixFs, dir.path().join("a/b"));
    fs.create_dir_all(&root).expect("made");
    fs.create_dir_all(&root).expect("is there");
    let (one, two) = (root.join("one"), root.join("two"));
    let file = fs.open(&one, OpenOptions::CREATE).expect("new");
    assert!(fs.open(&one, OpenOptions::CREATE).is_err());
    file.write_at(b"hello", 3).expect("written");
    file.sync().expect("synced");
    assert_eq!(file.len().expect("len"), 8);
    let mut buf = [9; 16];
    assert_eq!(file.read_at(&mut buf, 1).expect("read"), 7);
    assert_eq!(&buf[..8], b"\0\0hello\x09");
    match file.allocate(100_000) {
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
        Ok(()) => {
            assert_eq!(read_all(&fs, &one).expect("read")[..9], *b"\0\0\0hello\0");
            assert_eq!(file.len().expect("len"), 100_000);
        }
    }
    file.truncate(4).expect("cut");
    fs.hard_link(&one, &two).expect("linked");
    fs.rename(&one, &root.join("three")).expect("renamed");
    fs.sync_dir(&root).expect("synced");
    assert_eq!(read_all(&fs, &two).expect("read"), b"\0\0\0h");
    assert!(fs.free_bytes(&root).expect("asked") > 0);
    fs.remove(&two).expect("removed");
    assert!(!fs.exists(&two).expect("asked"));
    assert_eq!(fs.read_dir(&root).expect("listed"), [PathBuf::from("three")]);
    assert!(fs.create_dir_all(&root.join("three")).is_err(), "a file is in the way");
}

#[test]
#[cfg(target_os = "linux")]
fn a_watch_tells_of_what_is_written_to_its_file_and_of_nothing_else() {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    let (sender, told) = channel();
    let watch = |name: &'static str| {
        let sender = sender.clone();
        PosixFs.watch(&path(name), Arc::new(move || _ = sender.send(name))).expect("watched")
    };
    let write = |name: &str| {
        let file = PosixFs.open(&path(name), OpenOptions::CREATE).expect("new");
        file.write_at(b"now", 0).expect("written");
    };
    let next = || told.recv_timeout(Duration::from_secs(10));
    let (one, two) = (watch("one"), watch("two"));
    write("other");
    write("one");
    assert_eq!(next(), Ok("one"));
    PosixFs.rename(&path("other"), &path("two")).expect("renamed");
    assert_eq!(next(), Ok("two"));
    // Without the second watch the same folder is still watched for the first.
    drop(two);
    PosixFs.rename(&path("one"), &path("two")).expect("renamed");
    write("one");
    assert_eq!(next(), Ok("one"));
    drop(one);
    PosixFs.remove(&path("one")).expect("removed");
    write("one");
    let _again = watch("again");
    write("again");
    assert_eq!(next(), Ok("again"));
    assert_eq!(told.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    let no_folder = PosixFs.watch(&path("none/file"), Arc::new(|| ()));
    assert!(no_folder.is_none());
}

#[test]
fn one_holder_of_the_lock() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("LOCK");
    let held = PosixFs.lock(&path).expect("asked").expect("free");
    assert!(PosixFs.lock(&path).expect("asked").is_none());
    assert!(PosixFs.lock_shared(&path).expect("asked").is_none());
    drop(held);
    assert!(PosixFs.lock(&path).expect("asked").is_some());
    let readers = [0, 1].map(|_| PosixFs.lock_shared(&path).expect("asked").expect("free"));
    assert!(PosixFs.lock(&path).expect("asked").is_none());
    drop(readers);
    assert!(PosixFs.lock(&path).expect("asked").is_some());
    let none = PosixFs.lock_shared(&dir.path().join("none")).map(drop);
    assert_eq!(none.expect_err("not there").kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_copy_of_the_descriptor_does_not_hold_the_lock() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("LOCK");
    let fd = open(&path, OFlags::RDWR | OFlags::CREATE).expect("opened");
    // Like the descriptor that a forked process has.
    let copy = fd.try_clone().expect("copied");
    let held = flock(fd, FlockOperation::NonBlockingLockExclusive).expect("asked");
    drop(held.expect("free"));
    assert!(PosixFs.lock(&path).expect("asked").is_some());
    drop(copy);
}

#[test]
fn who_holds_a_lock() {
    let dir = tempfile::tempdir().expect("a folder");
    let (path, link) = (dir.path().join("LOCK"), dir.path().join("link"));
    let held = PosixFs.lock(&path).expect("asked").expect("free");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    assert_eq!(PosixFs.lock_holder(&link), LockHolder::ThisProcess);
    drop(held);
    assert_eq!(PosixFs.lock_holder(&path), LockHolder::Unknown);
    assert_eq!(PosixFs.lock_holder(&dir.path().join("none")), LockHolder::Unknown);
    let readers = [0, 1].map(|_| PosixFs.lock_shared(&path).expect("asked").expect("free"));
    let [one, two] = readers;
    drop(one);
    assert_eq!(PosixFs.lock_holder(&path), LockHolder::ThisProcess);
    drop(two);
    assert_eq!(PosixFs.lock_holder(&path), LockHolder::Unknown);
}

#[test]
fn lines_of_proc_locks() {
    let of = |line| flock_of(line, 131_085);
    assert_eq!(of("1: FLOCK  ADVISORY  WRITE 4711 fe:01:131085 0 EOF"), Some(4711));
    assert_eq!(of("12: FLOCK  ADVISORY  READ 4711 00:1f:131085 0 EOF"), Some(4711));
    for other in [
        "",
        "1:",
        "1: FLOCK  ADVISORY  WRITE 4711 fe:01:131086 0 EOF",
        "1: POSIX  ADVISORY  WRITE 4711 fe:01:131085 0 EOF",
        "1: FLOCK  ADVISORY  WRITE -1 fe:01:131085 0 EOF",
        "1: FLOCK  ADVISORY  WRITE 0 fe:01:131085 0 EOF",
        "1: -> FLOCK  ADVISORY  WRITE 4711 fe:01:131085 0 EOF",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn canonical_paths_of_what_is_and_is_not_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path().canonicalize().expect("it is there");
    PosixFs.create_dir_all(&root.join("real/in")).expect("made");
    std::os::unix::fs::symlink("real", root.join("link")).expect("linked");
    let canonical = |path: &str| PosixFs.canonical(&root.join(path)).expect("resolved");
    for (path, is) in [
        ("real", "real"),
        ("real/../real/.", "real"),
        ("link/in/..", "real"),
        ("link/new/deep", "real/new/deep"),
        ("new/../link/new", "real/new"),
        ("new/deep/../../link", "real"),
    ] {
        assert_eq!(canonical(path), root.join(is), "{path}");
    }
    assert_eq!(PosixFs.canonical(Path::new("/..")).expect("resolved"), Path::new("/"));
    assert!(PosixFs.absolute(Path::new("x")).expect("resolved").is_absolute());
    assert_eq!(PosixFs.absolute(Path::new("/a/../b")).expect("same"), Path::new("/a/../b"));
}

#[test]
fn direct_falls_back() {
    for root in [Path::new("/dev/shm"), Path::new("/tmp")] {
        let Ok(dir) = tempfile::tempdir_in(root) else { continue };
        let path = dir.path().join("f");
        PosixFs.open(&path, OpenOptions::CREATE.direct(true)).expect("opened");
        PosixFs.open(&path, OpenOptions::READ.direct(true)).expect("opened");
        let buffered = PosixFs.open(&path, OpenOptions::READ).expect("opened");
        assert!(!buffered.is_direct());
    }
}

/// A direct call that the device refuses goes through the page cache: three bytes here, or 4096
/// on a device with larger blocks.
#[test]
fn direct_calls_that_are_refused_go_through_the_page_cache() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("f");
    let open = |how: OpenOptions| PosixFs.open(&path, how.direct(true)).expect("opened");
    let file = open(OpenOptions::CREATE);
    file.write_at(b"abc", 5).expect("written");
    assert!(!file.is_direct());
    file.write_at(b"de", 8).expect("written");
    let (again, mut buf) = (open(OpenOptions::READ), [9; 7]);
    assert_eq!(again.read_at(&mut buf, 4).expect("read"), 6);
    assert_eq!(&buf, b"\0abcde\x09");
    assert!(!again.is_direct());
    let wrong = open(OpenOptions::READ).write_at(b"x", 0).expect_err("to read only");
    assert_eq!(wrong.raw_os_error(), Some(Errno::BADF.raw_os_error()));
}
