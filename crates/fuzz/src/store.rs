//! A whole store opened on crafted files: what the decoders let through meets the engine.
//!
//! A small sound store is made once. The input is a batch in its WAL, or a group of changes at the
//! end of its manifest. Opening gives a store or an error; of the store everything can be read,
//! written, flushed and compacted, and it closes.

use crate::input::Input;
use crate::records::{file, record};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use vlsm::{ByteCount, Db, Env, Error};
use vlsm_core::Seq;
use vlsm_disk::RealEnv;
use vlsm_disk::manifest::manifest_path;
use vlsm_disk::record::{Header, MANIFEST_MAGIC, WAL_MAGIC};
use vlsm_disk::wal::wal_number;
use vlsm_testfs::SimFs;

const DIR: &str = "/store";

fn open(fs: &SimFs) -> vlsm::Result<Db> {
    let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(fs.clone()));
    let builder = Db::builder(DIR).env(env).configure(|options| {
        options.workers = 1;
        options.io_threads = 1;
        options.log = false;
        options.policy.tree.memtable_bytes = ByteCount::kib(16);
        options.policy.tree.sst_max = ByteCount::kib(16);
        options.policy.shapes.vlsm.sst_min = ByteCount::kib(4);
        options.policy.tree.l1_bytes = ByteCount::kib(64);
        options.wal_file_bytes = ByteCount::kib(16);
    });
    builder.open()
}

/// A store with a key in an SST and one in the WAL.
fn sound() -> &'static SimFs {
    static STORE: OnceLock<SimFs> = OnceLock::new();
    STORE.get_or_init(|| {
        let fs = SimFs::new();
        let db = open(&fs).expect("a new store");
        db.put("apple", "green").and_then(|()| db.flush()).expect("flushed");
        db.put("pear", "yellow").and_then(|()| db.close()).expect("closed");
        fs
    })
}

/// Uses a store, if it opens.
fn exercise(fs: &SimFs) -> bool {
    let refused = |error: &Error| {
        let known = matches!(
            error,
            Error::Corruption { .. }
                | Error::FormatVersion { .. }
                | Error::ReadOnly { .. }
                | Error::UsedUp { .. }
        );
        // Options of a keyspace are text, so that any text may be of a newer version.
        let newer = matches!(error, Error::InvalidArgument(why) if why.contains("a newer vlsm"));
        let known = known || newer;
        assert!(known, "a damaged store is answered with {error:?}");
    };
    let db = match open(fs) {
        Ok(db) => db,
        Err(error) => {
            refused(&error);
            return false;
        }
    };
    let run = || -> vlsm::Result<()> {
        for name in db.keyspaces() {
            let keyspace = db.keyspace(&name)?;
            let forward = keyspace.iter().collect::<vlsm::Result<Vec<_>>>()?;
            let mut backward = keyspace.iter().rev().collect::<vlsm::Result<Vec<_>>>()?;
            backward.reverse();
            assert!(forward == backward, "the same from both ends");
            for (key, value) in &forward {
                assert!(keyspace.get(key)?.as_ref() == Some(value), "a get is as the iterator");
            }
            keyspace.put("new", "value")?;
            assert_eq!(keyspace.get("new")?.as_deref(), Some(&b"value"[..]));
        }
        db.flush()?;
        db.wait_idle()
    };
    let ran = run().and_then(|()| db.close());
    if let Err(error) = &ran {
        refused(error);
    }
    ran.is_ok()
}

/// A WAL with one batch, or several.
pub fn wal(bytes: &[u8]) -> bool {
    let fs = sound().fork();
    let mut input = Input(bytes);
    let mut wals: Vec<u64> = fs.files().keys().filter_map(|path| wal_number(path)).collect();
    wals.sort_unstable();
    let last = wals.pop().expect("a store has a WAL");
    let path = vlsm_disk::wal::wal_path(Path::new(DIR), last);
    let content = fs.content(&path).expect("it is there");
    let header = Header::decode(&content, WAL_MAGIC, &path).expect("a sound header");
    let mut records = Vec::new();
    while !input.0.is_empty() {
        // Sequence numbers go on from those of the store, or are whatever is said.
        let (flags, seq) = (input.u8(), input.u64());
        let seq = if flags & 1 == 0 { 100 + seq % 1000 } else { seq & Seq::MAX.0 };
        records.extend_from_slice(&record(1, seq, input.bytes()));
    }
    fs.set_content(
        &path,
        file(Header { filled: 0, closed: false, ..header }, WAL_MAGIC, &records, usize::MAX),
    );
    exercise(&fs)
}

/// A manifest to which a group of changes was added.
pub fn manifest(bytes: &[u8]) -> bool {
    let fs = sound().fork();
    let path = manifest_path(Path::new(DIR), 1);
    let mut content = fs.content(&path).expect("a store has a manifest");
    let header = Header::decode(&content, MANIFEST_MAGIC, &path).expect("a sound header");
    let start = vlsm_disk::record::HEADER_LEN as usize;
    let mut records = content.split_off(start);
    records.extend_from_slice(&record(1, 0, bytes));
    fs.set_content(&path, file(header, MANIFEST_MAGIC, &records, usize::MAX));
    exercise(&fs)
}
