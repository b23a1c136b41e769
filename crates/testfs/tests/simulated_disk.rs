//! The simulated disk and the injected faults: the data that a crash keeps, and the counts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vlsm_disk::Fs;
use vlsm_disk::fs::{OpenOptions, read_all};
use vlsm_testfs::{CrashMode, CrashPoint, Fault, FaultFs, Op, Rule, SimFs};

fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new("/d")).expect("made");
    fs
}

#[test]
fn what_is_synced_stays_and_the_rest_may_go() {
    let (fs, path) = (disk(), Path::new("/d/f"));
    let file = fs.open(path, OpenOptions::CREATE).expect("made");
    file.write_at(&[1; 1024], 0).expect("written");
    file.sync().expect("synced");
    assert!(fs.fork().content(path).is_some());
    let lost = fs.fork();
    lost.crash(CrashMode::LoseAll, 0);
    assert_eq!(lost.content(path), None, "the entry was not synced");
    fs.sync_dir(Path::new("/d")).expect("synced");
    file.write_at(&[2; 2048], 512).expect("written");
    file.write_at(&[3; 10], 512).expect("written");
    let outcome = |mode, seed| {
        let fork = fs.fork();
        fork.crash(mode, seed);
        fork.content(path).expect("there")
    };
    assert_eq!(outcome(CrashMode::LoseAll, 0), [1; 1024]);
    let all = outcome(CrashMode::KeepAll, 0);
    assert_eq!((all.len(), all[0], all[515], all[600], all[2559]), (2560, 1, 3, 2, 2));
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let content = outcome(CrashMode::Random, seed);
        assert!([1024, 2560].contains(&content.len()));
        assert_eq!(content[..512], [1; 512]);
        let sector: Vec<u8> = content[512..1024].to_vec();
        let three = sector[0] == 3;
        assert!(sector[10..].iter().all(|byte| *byte == sector[10]));
        assert!(sector[10] != 1 || !three, "the second write came after the first");
        assert!(content[1024..].chunks(512).all(|s| s.iter().all(|b| *b == s[0])));
        seen.insert((content.len(), sector[0], content.get(1024).copied()));
    }
    // One sector has three contents; another has zeros or two contents, if the file is long enough.
    assert_eq!(seen.len(), 9);
    assert_eq!(outcome(CrashMode::Random, 7), outcome(CrashMode::Random, 7));
}

#[test]
fn entries_are_lost_in_any_subset() {
    let fs = disk();
    fs.open(Path::new("/d/old"), OpenOptions::CREATE).expect("made").sync().expect("synced");
    fs.sync_dir(Path::new("/d")).expect("synced");
    fs.rename(Path::new("/d/old"), Path::new("/d/new")).expect("renamed");
    fs.open(Path::new("/d/a"), OpenOptions::CREATE).expect("made");
    fs.remove(Path::new("/d/a")).expect("removed");
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let fork = fs.fork();
        fork.crash(CrashMode::Random, seed);
        let names: Vec<_> = fork.files().into_keys().collect();
        seen.insert(names);
    }
    assert_eq!(seen.len(), 4, "the rename is whole; the file made and removed may be there");
}

#[test]
fn the_machine_stops_where_it_should_and_old_handles_are_dead() {
    let fs = disk();
    let file = fs.open(Path::new("/d/f"), OpenOptions::CREATE).expect("made");
    let lock = fs.lock(Path::new("/d/LOCK")).expect("asked").expect("free");
    assert!(fs.lock(Path::new("/d/LOCK")).expect("asked").is_none());
    for after in [false, true] {
        let fork = fs.fork();
        let file = fork.open(Path::new("/d/f"), OpenOptions::WRITE).expect("there");
        fork.set_crash_at(Some(CrashPoint { op: fork.ops() + 2, after }));
        file.write_at(b"1", 0).expect("before");
        assert!(file.write_at(b"2", 1).is_err() && fork.is_stopped());
        assert!(file.len().is_err(), "and all that follow");
        fork.crash(CrashMode::KeepAll, 0);
        assert!(file.len().is_err(), "a handle of an earlier life");
        let len = if after { 2 } else { 1 };
        assert_eq!(fork.content(Path::new("/d/f")).map(|content| content.len()), Some(len));
    }
    fs.kill();
    assert!(file.len().is_err());
    let again = fs.lock(Path::new("/d/LOCK")).expect("asked");
    drop(lock);
    assert!(again.is_some() && fs.lock(Path::new("/d/LOCK")).expect("asked").is_none());
}

#[test]
fn calls_are_seen_by_the_hook() {
    let (fs, calls) = (disk(), Arc::new(AtomicU64::new(0)));
    let (counter, other) = (calls.clone(), fs.clone());
    fs.set_interleave(Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        assert!(other.files().is_empty() || !other.is_stopped(), "no lock is held");
    }));
    fs.open(Path::new("/d/f"), OpenOptions::CREATE).expect("made").sync().expect("synced");
    assert_eq!(calls.load(Ordering::Relaxed), 4);
}

#[test]
fn a_full_disk_takes_what_fits_and_what_is_there_can_be_written_over() {
    let (fs, path) = (disk(), Path::new("/d/f"));
    let file = fs.open(path, OpenOptions::CREATE).expect("made");
    file.write_at(&[1; 100], 0).expect("written");
    fs.set_capacity(Some(150));
    assert_eq!((fs.used(), fs.free_bytes(path).expect("asked")), (100, 50));
    let full = |result: std::io::Result<()>| {
        assert_eq!(result.expect_err("full").kind(), std::io::ErrorKind::StorageFull);
    };
    full(file.write_at(&[2; 100], 90));
    assert_eq!(fs.content(path).expect("there")[90..], [2; 60], "as much as fits");
    full(file.truncate(151));
    full(fs.open(Path::new("/d/g"), OpenOptions::CREATE).map(drop));
    file.write_at(&[3; 150], 0).expect("nothing more is taken");
    file.sync().expect("synced");
    fs.set_capacity(Some(151));
    let other = fs.open(Path::new("/d/g"), OpenOptions::CREATE).expect("made");
    full(other.write_at(&[4; 2], 0));
    fs.remove(path).expect("removed");
    other.write_at(&[4; 151], 0).expect("the space of the removed file");
    fs.set_capacity(None);
    other.write_at(&[5; 1000], 0).expect("no limit");
}

#[test]
fn direct_io_has_rules() {
    let fs = disk();
    let file = fs.open(Path::new("/d/f"), OpenOptions::CREATE.direct(true)).expect("made");
    assert!(file.is_direct() && file.write_at(&[0; 100], 0).is_err());
    let fs = FaultFs::new(Arc::new(fs));
    fs.add(Rule::once(Op::Open, "", Fault::Buffered));
    let direct = OpenOptions::READ.direct(true);
    let opened = [0, 1].map(|_| fs.open(Path::new("/d/f"), direct).expect("opened").is_direct());
    assert_eq!(opened, [false, true], "once");
}

#[test]
fn faults_fire_where_they_should() {
    let fs = FaultFs::new(Arc::new(disk()));
    let file = fs.open(Path::new("/d/a.wal"), OpenOptions::CREATE).expect("made");
    let second = fs.add(Rule::once(Op::Write, ".wal", Fault::Eio).nth(2));
    let never = fs.add(Rule::once(Op::Write, ".sst", Fault::Eio));
    file.write_at(b"1", 0).expect("the first");
    assert!(file.write_at(b"2", 1).is_err());
    file.write_at(b"3", 1).expect("once only");
    assert_eq!((fs.fired(second), fs.fired(never)), (1, 0));

    let full = fs.add(Rule::once(Op::Write, "", Fault::NoSpace).forever());
    for _ in 0..3 {
        let error = file.write_at(b"4", 2).expect_err("full");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }
    fs.end(full);
    assert_eq!(fs.fired(full), 3);

    fs.add(Rule::once(Op::Write, "", Fault::ShortWrite));
    assert!(file.write_at(b"abcd", 2).is_err());
    assert_eq!(read_all(&fs, Path::new("/d/a.wal")).expect("read"), b"13ab");
    fs.add(Rule::once(Op::Write, "", Fault::CutWrite(3)));
    assert!(file.write_at(b"wxyz", 2).is_err());
    assert_eq!(read_all(&fs, Path::new("/d/a.wal")).expect("read"), b"13wxy");

    file.write_at(&[7; 8192], 0).expect("written");
    file.write_at(&[8; 4096], 4096).expect("written");
    fs.add(Rule::once(Op::Read, "", Fault::Misdirected));
    let mut buf = [0; 10];
    file.read_at(&mut buf, 0).expect("read");
    assert_eq!(buf, [8; 10]);
    let delays = Arc::new(AtomicU64::new(0));
    let count = delays.clone();
    let wait = Fault::Delay(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    fs.add(Rule { ops: Vec::new(), ..Rule::once(Op::Sync, "a.wal", wait).forever() });
    file.sync().expect("synced");
    file.read_at(&mut buf, 0).expect("read");
    assert_eq!((delays.load(Ordering::Relaxed), buf), (2, [7; 10]));
    fs.end_all();
    assert_eq!(fs.calls(), 20);
}

#[test]
fn what_is_stored_in_a_map_survives_the_process_and_the_power_as_far_as_synced() {
    let (fs, path) = (disk(), Path::new("/d/f"));
    let file = fs.open(path, OpenOptions::CREATE).expect("made");
    file.write_at(&[1; 8192], 0).expect("written");
    file.sync().expect("synced");
    fs.sync_dir(Path::new("/d")).expect("synced");
    assert!(file.map(8193).is_err(), "beyond the end");
    let map = file.map(8192).expect("mapped");
    map.populate(0, 8192).expect("there");
    map.store(&[2; 4096], 2048).expect("stored");
    assert!(map.store(&[2; 2], 8191).is_err() && map.sync(0, 8193).is_err(), "beyond the end");
    file.write_at(&[3; 512], 4096).expect("written");
    // Two sectors of the four of a page, one from the store and one from the call.
    map.sync(3584, 4608).expect("synced");
    let outcome = |mode, seed| {
        let fork = fs.fork();
        match mode {
            Some(mode) => fork.crash(mode, seed),
            None => fork.kill(),
        }
        fork.content(path).expect("there")
    };
    let killed = outcome(None, 0);
    assert_eq!((killed[2047], killed[2048], killed[4096], killed[6143]), (1, 2, 3, 2));
    let least = outcome(Some(CrashMode::LoseAll), 0);
    assert_eq!((least[3583], least[3584], least[4096], least[4608]), (1, 2, 3, 1));
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let content = outcome(Some(CrashMode::Random), seed);
        let sector = |at: usize| content[at..at + 512].to_vec();
        assert_eq!((sector(3584), sector(4096)), (vec![2; 512], vec![3; 512]), "synced");
        assert!(content[..2048].iter().chain(&content[6144..]).all(|byte| *byte == 1));
        seen.insert((sector(2048), sector(3072), sector(5632)));
    }
    // The store's parts begin and end within these sectors, so some are seen half stored.
    let torn = |part: &Vec<u8>| part.iter().any(|byte| *byte != part[0]);
    assert!(seen.len() >= 8 && seen.iter().any(|(_, part, _)| torn(part)), "{}", seen.len());
    file.truncate(4096).expect("cut");
    assert!(map.populate(0, 8192).is_err() && map.store(&[4], 5000).is_err());
    map.store(&[4], 10).expect("this part is there");
    let stale = file.map(100).expect("mapped");
    fs.kill();
    assert!(stale.store(&[5], 0).is_err(), "no map outlives the process");
}
