//! A tree of 500,000 tables: the time to open it, and to install another flush.
//!
//! `cargo bench -p vlsm --bench many_tables`. The manifest is generated. Its files exist, but are
//! empty, because neither an open nor a flush reads them. The times are those of the engine itself:
//! `Event::Opened`, and `Event::Installed` of a hundred flushes.

#![allow(clippy::disallowed_methods)] // A program of its own: files and time are the system's.

use bytes::Bytes;
use std::path::Path;
use std::sync::{Arc, Mutex};
use vlsm::{Db, sst_path};
use vlsm_core::event::Event;
use vlsm_core::{FileMeta, FileNumber, FileUid, Seq, Table, TreeId, VersionEdit, units};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest::{Manifest, Record};

const TABLES: u64 = 500_000;
const FLUSHES: usize = 100;
/// Visible bytes of each table, so small that every level is within its target.
const TABLE_BYTES: u64 = 100;

fn main() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let dir = folder.path().join("store");
    Db::open(&dir).and_then(Db::close).expect("a new store");
    generate(&dir);
    let begun = std::time::Instant::now();
    let installs = Arc::new(Mutex::new(Vec::new()));
    let seen = installs.clone();
    let listener = move |event: &Event| {
        if let Event::Installed { applied, written, .. } = event {
            seen.lock().expect("no listener panics").push((applied.0, written.0));
        }
    };
    let db = Db::builder(&dir).profile("rocksdb").expect("known").listener(listener);
    // No compaction, because it would read the files.
    let db = db.configure(|options| {
        let tree = &mut options.policy.tree;
        (tree.l0_trigger, tree.l0_max) = (2 * FLUSHES, 4 * FLUSHES);
        (tree.l0_slowdown, tree.l0_stop) = (3 * FLUSHES, 4 * FLUSHES);
    });
    let db = db.open().expect("opens");
    println!("opened {TABLES} tables in {:?}", begun.elapsed());
    for flush in 0..FLUSHES {
        db.put(format!("{flush:08}"), "value").expect("takes writes");
        db.flush().expect("flushes");
    }
    let mut installs = std::mem::take(&mut *installs.lock().expect("no listener panics"));
    installs.sort_unstable();
    let at = |share: usize| installs[(installs.len() - 1) * share / 100];
    println!(
        "{} installs, applied in µs: least {}, median {}, 90 % {}, most {}",
        installs.len(),
        at(0).0,
        at(50).0,
        at(90).0,
        at(100).0
    );
    let mut written: Vec<u64> = installs.iter().map(|install| install.1).collect();
    written.sort_unstable();
    println!("manifest written and synced in µs: median {}", written[written.len() / 2]);
    db.close().expect("closes");
}

/// Adds tables to the store's manifest. Each level is filled according to the growth factor, and
/// the last one with the rest. Each table has its own range of keys.
fn generate(dir: &Path) {
    let env: Arc<dyn Env> = RealEnv::new();
    let (mut manifest, mut state) = Manifest::recover(&env, dir).expect("a manifest");
    let mut number = state.numbers.next_file;
    let mut left = TABLES;
    for level in 1..=6u8 {
        let count = if level == 6 { left } else { 8u64.pow(u32::from(level)).min(left) };
        left -= count;
        let step = u64::MAX / count.max(1);
        for chunk in (0..count).collect::<Vec<_>>().chunks(1000) {
            let mut edit = VersionEdit::default();
            for index in chunk {
                edit.add(level, table(number, index * step, index * step + step / 2));
                std::fs::write(sst_path(dir, FileNumber(number)), []).expect("an empty file");
                number += 1;
            }
            let mut numbers = state.numbers;
            numbers.next_file = number;
            let records = [Record::Edit(TreeId(0), edit), Record::Numbers(numbers)];
            manifest.append(&records).expect("appends");
            for record in &records {
                state.apply(record).expect("sound");
            }
        }
    }
    assert_eq!(left, 0);
}

fn table(number: u64, lo: u64, hi: u64) -> Arc<Table> {
    let key = |at: u64| Bytes::copy_from_slice(format!("{at:020}").as_bytes());
    Arc::new(Table::whole(Arc::new(FileMeta {
        number: FileNumber(number),
        uid: FileUid(number),
        bytes: units::Bytes(TABLE_BYTES),
        entries: 1,
        smallest: key(lo),
        largest: key(hi),
        seq_min: Seq(1),
        seq_max: Seq(1),
        ..FileMeta::default()
    })))
}
