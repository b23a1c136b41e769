//! A damaged log and `salvage_wal`: the store keeps an exact prefix, reports the WALs from the
//! damage on and keeps them aside, and opens as usual afterwards.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vlsm::{ByteCount, Db, Error, Event};
use vlsm_disk::Fs;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::wal::reader::read_header;
use vlsm_disk::wal::wal_number;
use vlsm_testfs::SimFs;

const FOLDER: &str = "/store";
/// The number of pairs that were put.
const COUNT: u32 = 400;

fn open(disk: &SimFs, salvage: bool) -> (Result<Db, Error>, Arc<Mutex<Vec<Event>>>) {
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let told = events.clone();
    let builder = Db::builder(FOLDER)
        .env(RealEnv::with_fs(Arc::new(disk.clone())))
        .configure(|options| {
            options.policy.tree.memtable_bytes = ByteCount::mib(1);
            options.wal_file_bytes = ByteCount::kib(16);
            options.wal_sync_bytes = ByteCount::kib(4);
            options.salvage_wal = salvage;
        })
        .listener(move |event| {
            if matches!(event, Event::WalLost { .. } | Event::WalDamaged { .. }) {
                told.lock().unwrap().push(event.clone());
            }
        });
    (builder.open(), events)
}

/// The store holds the puts from 0 up to some number and nothing else; which number.
fn prefix(db: &Db) -> u32 {
    let keys: Vec<_> = db.iter().map(|pair| pair.unwrap().0).collect();
    assert!(keys.iter().zip(0_u32..).all(|(key, n)| key[..] == n.to_be_bytes()), "{keys:?}");
    keys.len() as u32
}

fn wals(disk: &SimFs, folder: &str) -> Vec<PathBuf> {
    let is_wal = |path: &PathBuf| {
        path.parent() == Some(Path::new(folder)) && path.to_string_lossy().contains(".wal")
    };
    disk.files().into_keys().filter(is_wal).collect()
}

/// Whether a WAL has any records, or has just been renamed by the store's own thread.
fn in_use(disk: &SimFs, path: &Path) -> bool {
    let content = disk.content(path);
    content.is_none_or(|bytes| bytes.iter().skip(4096).any(|byte| *byte > 0))
}

/// Waits for the thread that prepares the next WAL, which the system may let wait. Else one file
/// gets all.
#[allow(clippy::disallowed_methods, reason = "the store's own thread is waited for")]
fn wait_for_the_next_wal(disk: &SimFs) {
    for _ in 0..2_000 {
        if wals(disk, FOLDER).iter().any(|path| !in_use(disk, path)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A store whose process died with several WALs in use, and these. A prepared WAL comes too late
/// where the system takes its thread off just then: then again.
fn died(count: u32) -> (SimFs, Vec<PathBuf>) {
    let mut tries = (0..20).map(|_| died_once(count));
    tries.find(|(_, files)| files.len() >= 4).expect("a chain of WALs")
}

fn died_once(count: u32) -> (SimFs, Vec<PathBuf>) {
    let disk = SimFs::new();
    let db = open(&disk, false).0.unwrap();
    for n in 0..count {
        db.put(n.to_be_bytes(), vec![7; 200]).unwrap();
        if n % 10 == 9 {
            wait_for_the_next_wal(&disk);
        }
    }
    disk.kill();
    // The handle is of the dead process: its calls fail.
    let _ = db.close();
    let files = wals(&disk, FOLDER).into_iter().filter(|path| in_use(&disk, path)).collect();
    (disk, files)
}

/// The offset up to which a WAL's predecessor was known to be synced when this WAL began.
fn synced_before(disk: &SimFs, path: &Path) -> u64 {
    let (header, _) = read_header(disk, path, wal_number(path).unwrap()).unwrap();
    header.predecessor.map_or(u64::MAX, |seal| seal.synced)
}

/// Opens the store with a salvage. Checks that all WALs of `damaged`, except one that is `gone`,
/// were kept aside and reported as lost. Returns the length of the prefix that was kept.
fn salvaged(disk: &SimFs, damaged: &[PathBuf], gone: bool, what: &str) -> u32 {
    let (salvaged, events) = open(disk, true);
    let db = salvaged.unwrap_or_else(|error| panic!("{what}: {error}"));
    let kept = prefix(&db);
    db.close().unwrap();
    let events = events.lock().unwrap().clone();
    assert!(events.iter().any(|event| matches!(event, Event::WalDamaged { .. })), "{what}");
    let aside = wals(disk, "/store/lost");
    assert_eq!(aside.len() + usize::from(gone), damaged.len(), "{what}: {aside:?}");
    let told = events.iter().filter_map(|event| match event {
        Event::WalLost { path, batches, .. } => Some((path.clone(), *batches)),
        _ => None,
    });
    let (told, batches): (Vec<PathBuf>, Vec<u64>) = told.unzip();
    assert_eq!(told, aside, "{what}");
    let lost = batches.iter().sum::<u64>();
    assert!(lost + u64::from(kept) <= u64::from(COUNT), "{what}: {lost} and {kept}");
    kept
}

/// Checks that the salvaged store opens, writes and closes as any other store does.
fn check_usual(disk: &SimFs, kept: u32, what: &str) {
    let (again, events) = open(disk, false);
    let db = again.unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!((prefix(&db), events.lock().unwrap().len()), (kept, 0), "{what}");
    db.put(kept.to_be_bytes(), "more").unwrap();
    db.close().unwrap();
    assert_eq!(prefix(&open(disk, false).0.unwrap()), kept + 1, "{what}");
}

#[test]
fn of_a_damaged_log_the_prefix_is_kept_and_the_rest_put_aside() {
    let (disk, files) = died(COUNT);
    let mut kept_by_file = Vec::new();
    for (index, path) in files.iter().enumerate() {
        let whole = disk.content(path).unwrap();
        // A whole word: up to seven bytes after a record are zeros that nothing depends on.
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            let word = at / 8 * 8;
            bytes[word..word + 8].iter_mut().for_each(|byte| *byte ^= 1);
            Some(bytes)
        };
        let damages = [flipped(20), flipped(4096 + 30), flipped(9_000), Some(Vec::new()), None];
        for (kind, damage) in damages.into_iter().enumerate() {
            let what = format!("{}, damage {kind}", path.display());
            let (damaged, gone) = (disk.fork(), damage.is_none());
            match damage {
                Some(bytes) => damaged.set_content(path, bytes),
                None => damaged.remove(path).unwrap(),
            }
            match open(&damaged, false).0 {
                Err(Error::Corruption { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
                // The end of the last file may have been torn, and that of an earlier one where no
                // later one says that this was synced: files are synced in their order.
                Ok(_) => {
                    let at = [20, 4096 + 30, 9_000, 0, 0][kind];
                    let next = files.get(index + 1);
                    assert!(next.is_none_or(|next| synced_before(&disk, next) <= at), "{what}");
                    let mut later = files.iter().skip(index + 2);
                    let nothing = vlsm_disk::record::HEADER_LEN;
                    assert!(later.all(|file| synced_before(&disk, file) <= nothing), "{what}");
                    continue;
                }
            }
            let kept = salvaged(&damaged, &files[index..], gone, &what);
            check_usual(&damaged, kept, &what);
            if kind == 1 {
                kept_by_file.push(kept);
            }
        }
    }
    assert!(kept_by_file.windows(2).all(|pair| pair[0] < pair[1]), "{kept_by_file:?}");
}
