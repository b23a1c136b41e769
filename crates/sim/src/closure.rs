//! Checks that the store can read back what it writes: changes of the manifest, numbers in names.
//!
//! There is one check for each way in which a writer and its reader could disagree. Each is small
//! enough to run for every planted bug. `vlsm/tests/extremes.rs` tests the largest sizes.

use crate::disk::Disk;
use crate::env::{End, SimConfig, SimEnv};
use crate::history::Promise;
use crate::oracle::Write;
use crate::rng::Rng;
use crate::world::{FOLDER, World, tiny_options, verify};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::edit::Change;
use vlsm_core::{Error, FileNumber, KeyRange, Place, RunId, TreeId, VersionEdit};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest::{Manifest, Record};

/// More runs than the manifest can read in one edit.
const MANY_RUNS: u64 = (1 << 16) + 1;

/// Names that only resemble the store's, or have a number that the store did not give.
const STRANGERS: [&str; 7] = [
    "7.sst",
    "9000000000000.sst",
    "72057594037927935.sst",
    "18446744073709551615.sst",
    "7.wal",
    "18446744073709551615.wal",
    "MANIFEST-18446744073709551615",
];

/// A bound of the file numbers of a small store.
const NUMBER_MAX: u64 = 1_000;

/// Checks that a change that could not be read back is refused and leaves no trace.
///
/// # Errors
/// The violation.
pub fn what_is_appended_is_read() -> Result<(), String> {
    let disk = closed_store()?;
    let env: Arc<dyn Env> = RealEnv::with_fs(disk.fs());
    let recover = || Manifest::recover(&env, Path::new(FOLDER));
    let (mut manifest, before) = recover().map_err(|error| error.to_string())?;
    let mut edit = VersionEdit::default();
    edit.changes.extend((1..=MANY_RUNS).map(|run| Change::Remove {
        place: Place::L0(RunId(run)),
        file: FileNumber(run),
        range: KeyRange::closed("a", "b"),
    }));
    let appended = manifest.append(&[Record::Edit(TreeId(0), edit)]);
    drop(manifest);
    match (recover(), appended) {
        (Ok((_, after)), Err(_)) if after == before => Ok(()),
        (Ok(_), Err(_)) => Err("a refused change is there".into()),
        (Ok(_), Ok(())) => Err("a change of nothing that is there was applied".into()),
        (Err(error), _) => Err(format!("what was written cannot be read: {error}")),
    }
}

/// Checks that foreign files in the folder stay unchanged and do not affect the numbers of new
/// files. Otherwise a new file could lie where the next open does not look.
///
/// # Errors
/// The violation.
pub fn strangers_give_no_numbers() -> Result<(), String> {
    let disk = closed_store()?;
    let strangers: BTreeSet<PathBuf> =
        STRANGERS.iter().map(|name| Path::new(FOLDER).join(name)).collect();
    strangers.iter().for_each(|path| disk.set_content(path, b"a stranger".to_vec()));
    for life in 0..3 {
        let outcome = SimEnv::run(&SimConfig::new(life), &disk, move |env| {
            let world = World::open(&env, &tiny_options("vlsm", &mut Rng::new(3)))?;
            for (key, value) in (0..life).map(|n| (format!("life {n}"), Some(b"value".to_vec()))) {
                if world.get(0, key.as_bytes())? != value {
                    return Err(Error::Internal("what was acknowledged is gone".into()));
                }
            }
            world.write(&[Write::put(0, format!("life {life}"), "value")], Promise::Process)?;
            world.write(&[Write::put(0, "more", vec![0; 3_000])], Promise::Process)?;
            if life == 1 {
                world.flush()?;
            }
            env.device().crash();
            Ok(())
        });
        match outcome.end {
            End::Crashed => disk.lose_process(),
            End::Done(Ok(())) => {}
            End::Done(Err(error)) => return Err(format!("life {life}: {error}")),
            End::Failed(why) => return Err(format!("life {life}: {why}")),
        }
        let number = |path: &Path| {
            let name = path.file_name()?.to_str()?;
            name.split('.').next()?.trim_start_matches("MANIFEST-").parse::<u64>().ok()
        };
        for path in disk.files().into_keys().filter(|path| !strangers.contains(path)) {
            if number(&path).is_some_and(|number| number > NUMBER_MAX) {
                return Err(format!("{} got a stranger's number", path.display()));
            }
        }
        let as_it_was = |path: &PathBuf| disk.content(path).as_deref() == Some(b"a stranger");
        if let Some(path) = strangers.iter().find(|path| !as_it_was(path)) {
            return Err(format!("{} has changed", path.display()));
        }
    }
    verify(&disk)
}

fn closed_store() -> Result<Disk, String> {
    let disk = Disk::new();
    let outcome = SimEnv::run(&SimConfig::new(1), &disk, |env| -> Result<(), Error> {
        let world = World::open(&env, &tiny_options("vlsm", &mut Rng::new(3)))?;
        world.write(&[Write::put(0, "key", "value")], Promise::Process)?;
        world.flush()?;
        world.close()
    });
    match outcome.end {
        End::Done(made) => made.map_err(|error| error.to_string()).map(|()| disk),
        End::Failed(why) => Err(why),
        End::Crashed => Err("crashed unasked".into()),
    }
}

/// Checks that a compaction over an unreadable block drops nothing: it fails, or all keys are
/// there.
///
/// # Errors
/// The missing key.
pub fn a_job_drops_no_damaged_block() -> Result<(), String> {
    let (disk, folder) = (Disk::new(), Path::new(FOLDER));
    let env: Arc<dyn Env> = RealEnv::with_fs(disk.fs());
    let open = || vlsm::Db::builder(folder).env(env.clone()).configure(|o| o.log = false).open();
    let filled = || {
        let db = open()?;
        for round in 0..2_u8 {
            for key in 0..1_000_u64 {
                db.put(key.to_be_bytes(), [round; 100])?;
            }
            db.flush()?;
        }
        db.close()
    };
    filled().map_err(|error| error.to_string())?;
    let ssts = disk.files().into_keys().filter(|path| path.extension().is_some_and(|e| e == "sst"));
    let newest = ssts.max().ok_or("no SST")?;
    let mut bytes = disk.content(&newest).unwrap_or_default();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    disk.set_content(&newest, bytes);
    let db = open().map_err(|error| error.to_string())?;
    let compacted = db.default_keyspace().compact_range(..);
    for key in 0..1_000_u64 {
        match db.get(key.to_be_bytes()) {
            Ok(Some(value)) if value[..] == [1; 100] => {}
            Err(_) => {}
            Ok(other) => return Err(format!("{compacted:?}, and key {key} shows {other:?}")),
        }
    }
    Ok(())
}
