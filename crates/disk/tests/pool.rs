//! The pool of descriptors: which are closed, which stay open, and what happens to unsynced bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_disk::fs::pool::FilePool;
use vlsm_disk::fs::{Fs, OpenOptions};
use vlsm_testfs::{Fault, FaultFs, Op, Rule, SimFs};

#[test]
fn what_was_written_is_synced_before_its_descriptor_goes() {
    let disk = SimFs::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let faults = FaultFs::new(Arc::new(disk));
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    let (pool, path) = (FilePool::with_max(&fs, 2), |n: usize| PathBuf::from(format!("/d/{n}")));
    let failing = faults.add(Rule::once(Op::Sync, "/d/0", Fault::Eio));
    let files: Vec<_> = (0..5)
        .map(|n| {
            let file = pool.open(&path(n), OpenOptions::CREATE).unwrap();
            file.write_at(b"new", 0).unwrap();
            file
        })
        .collect();
    assert_eq!(faults.fired(failing), 1, "its descriptor went first");
    assert!(files[0].sync().is_err(), "it is told to who asks");
    for file in &files {
        let mut found = [0; 3];
        assert_eq!((file.read_at(&mut found, 0).unwrap(), &found), (3, b"new"));
    }
    files[4].sync().unwrap();
}

#[test]
fn few_descriptors_serve_many_files() {
    let disk = SimFs::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let path = |n: usize| PathBuf::from(format!("/d/{n}"));
    (0..100).for_each(|n| disk.set_content(&path(n), vec![n as u8; 10]));
    // Counts opens.
    let faults = FaultFs::new(Arc::new(disk));
    let count = faults.add(Rule::once(Op::Open, "", Fault::Delay(Arc::new(|| {}))).forever());
    let fs: Arc<dyn Fs> = Arc::new(faults.clone());
    let pool = FilePool::with_max(&fs, 8);
    let files: Vec<_> = (0..100).map(|n| pool.open(&path(n), OpenOptions::READ).unwrap()).collect();
    let read = |n: usize| {
        let mut byte = [0];
        assert_eq!(files[n].read_at(&mut byte, 3).unwrap(), 1);
        assert_eq!(byte[0] as usize, n);
    };
    assert_eq!(faults.fired(count), 100);
    for round in 0..3 {
        (0..100).for_each(read);
        assert!(pool.known() <= 8, "{round}");
    }
    // A file that is read all the time keeps its descriptor.
    let before = faults.fired(count);
    for n in 10..100 {
        read(n);
        read(0);
    }
    assert!(faults.fired(count) - before <= 92, "{}", faults.fired(count) - before);
    drop(files);
    for n in 0..8 {
        drop(pool.open(&path(n), OpenOptions::READ).unwrap());
    }
    assert!(pool.known() <= 1, "what was dropped is forgotten");
}
