//! `peers export` and `vlsm import --from` of each store: what its own crate wrote is in vLSM.
//!
//! The pairs are awkward ones: binary keys and values, empty ones, 1 MB, and some that are only in
//! the store's WAL. `vlsm` is built from this source by the test.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Pairs that differ by `salt`. LMDB has no empty keys.
fn pairs(salt: u8, empty_key: bool) -> Pairs {
    let mut pairs = Pairs::new();
    for n in 0..2000_u32 {
        let mut key = vec![salt];
        key.extend_from_slice(&n.wrapping_mul(2_654_435_761).to_be_bytes());
        pairs.insert(key, format!("value {n} of {salt}").into_bytes());
        pairs.insert(format!("text {n:04} größe \\\"").into_bytes(), n.to_le_bytes().to_vec());
    }
    pairs.insert(b"\0\t\r\n\\".to_vec(), vec![]);
    pairs.insert(vec![0xff; 100], (0..=255).collect());
    let large = (0..1_000_000_u32).map(|n| (n * 7 + n / 251) as u8 ^ salt).collect();
    pairs.insert(b"large".to_vec(), large);
    if empty_key {
        pairs.insert(vec![], b"the empty key".to_vec());
    }
    pairs
}

/// The program `vlsm`, built from this source.
fn vlsm() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let main = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let target = main.join("target");
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--locked", "--package", "vlsm-cli", "--manifest-path"]);
        command.arg(main.join("Cargo.toml")).arg("--target-dir").arg(&target);
        assert!(command.status().unwrap().success(), "vlsm is built");
        target.join("debug/vlsm")
    };
    BUILT.get_or_init(build).clone()
}

/// Runs `vlsm import --from KIND PATH STORE`.
fn import(kind: &str, path: &Path, store: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(vlsm());
    command.arg("import").arg("--from").arg(kind).arg(path).arg(store).args(more);
    command.arg("--peers").arg(env!("CARGO_BIN_EXE_peers"));
    command.output().unwrap()
}

#[track_caller]
fn imported(kind: &str, path: &Path, store: &Path, more: &[&str]) -> String {
    let run = import(kind, path, store, more);
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{said}");
    said
}

#[track_caller]
fn refused(kind: &str, path: &Path, more: &[&str], says: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let run = import(kind, path, &folder.path().join("refused"), more);
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{said}");
    says.iter().for_each(|what| assert!(said.contains(what), "{what:?} in {said}"));
}

/// What a store of vLSM holds, by keyspace.
fn held(store: &Path) -> BTreeMap<String, Pairs> {
    let db = vlsm::Db::open(store).unwrap();
    let read = |name: &String| {
        let keyspace = db.keyspace(name).unwrap();
        keyspace.iter().map(|pair| pair.unwrap()).map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
    };
    let held = db.keyspaces().iter().map(|name| (name.clone(), read(name))).collect();
    db.close().unwrap();
    held
}

/// Every file below a folder with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
        }
    }
    found
}

#[track_caller]
fn same(held: &BTreeMap<String, Pairs>, wanted: &[(&str, &Pairs)]) {
    assert_eq!(held.len(), wanted.len(), "{:?}", held.keys());
    for (name, pairs) in wanted {
        let found = &held[*name];
        assert_eq!(found.len(), pairs.len(), "pairs of {name}");
        assert!(found == *pairs, "pairs of {name}");
    }
}

#[cfg(feature = "rocksdb")]
mod with_rocksdb {
    use super::*;
    use rocksdb::{DB, MergeOperands, Options};

    fn options() -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_compression_type(rocksdb::DBCompressionType::None);
        options
    }

    #[test]
    fn column_families_come_over_also_from_the_wal_and_beside_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rocks");
        let db = DB::open_cf(&options(), &path, ["users", "a b\"", "empty"]).unwrap();
        let (main, users, odd) = (pairs(1, true), pairs(2, true), pairs(3, false));
        for (name, pairs) in [("default", &main), ("users", &users), ("a b\"", &odd)] {
            let family = db.cf_handle(name).unwrap();
            for (n, (key, value)) in pairs.iter().enumerate() {
                db.put_cf(family, key, value).unwrap();
                // Half of them in files; of the last column family none is flushed.
                if n == pairs.len() / 2 && name != "a b\"" {
                    db.flush_cf(family).unwrap();
                }
            }
            db.put_cf(family, "deleted", "").unwrap();
            db.delete_cf(family, "deleted").unwrap();
        }
        let before = files(&path);
        let store = folder.path().join("beside");
        imported("rocksdb", &path, &store, &[]);
        let empty = Pairs::new();
        let all = [("default", &main), ("users", &users), ("a b\"", &odd), ("empty", &empty)];
        same(&held(&store), &all);
        assert!(files(&path) == before, "nothing was written into the folder");
        db.put("later", "it is still writable").unwrap();
        drop(db);

        let store = folder.path().join("some");
        imported("rocksdb", &path, &store, &["--only", "users"]);
        same(&held(&store), &[("default", &empty), ("users", &users)]);
        imported("rocksdb", &path, &store, &["--only", "users", "--keyspace", "people"]);
        same(&held(&store), &[("default", &empty), ("users", &users), ("people", &users)]);
        refused("rocksdb", &path, &["--only", "user"], &["no column family \"user\"", "users"]);
    }

    #[cfg(feature = "compression")]
    #[test]
    fn compressed_files_come_over() {
        use rocksdb::DBCompressionType::{Bz2, Lz4, Lz4hc, None, Snappy, Zlib, Zstd};
        let folder = tempfile::tempdir().unwrap();
        let (records, sst_len) = (pairs(1, true), |path: &Path| {
            let ssts = files(path).into_iter();
            let ssts = ssts.filter(|(path, _)| path.extension() == Some("sst".as_ref()));
            ssts.map(|(_, bytes)| bytes.len()).sum::<usize>()
        });
        let mut plain = 0;
        for kind in [None, Snappy, Lz4, Lz4hc, Zlib, Bz2, Zstd] {
            let path = folder.path().join(format!("{kind:?}"));
            let mut options = options();
            options.set_compression_type(kind);
            let db = DB::open(&options, &path).unwrap();
            records.iter().for_each(|(key, value)| db.put(key, value).unwrap());
            db.flush().unwrap();
            drop(db);
            match kind {
                None => plain = sst_len(&path),
                _ => assert!(sst_len(&path) < plain, "{kind:?} compresses"),
            }
            let store = folder.path().join(format!("{kind:?}-here"));
            imported("rocksdb", &path, &store, &[]);
            same(&held(&store), &[("default", &records)]);
        }
    }

    #[test]
    fn merged_values_come_over_and_operands_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rocks");
        let join = |_: &[u8], old: Option<&[u8]>, operands: &MergeOperands| {
            let mut all = old.map(<[u8]>::to_vec).unwrap_or_default();
            operands.iter().for_each(|operand| all.extend_from_slice(operand));
            Some(all)
        };
        let mut options = options();
        options.set_merge_operator_associative("join", join);
        let db = DB::open(&options, &path).unwrap();
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        db.merge("a", "2").unwrap();
        db.put("0", "before").unwrap();
        drop(db);
        // In the WAL, where RocksDB by itself stops silently, and in an SST.
        refused("rocksdb", &path, &[], &["merge operator", "put the result back"]);
        let db = DB::open(&options, &path).unwrap();
        db.flush().unwrap();
        refused("rocksdb", &path, &[], &["merge operator", "put the result back"]);
        let merged = db.get("a").unwrap().unwrap();
        db.put("a", merged).unwrap();
        drop(db);
        let store = folder.path().join("store");
        imported("rocksdb", &path, &store, &[]);
        let wanted = [(b"0".to_vec(), b"before".to_vec()), (b"a".to_vec(), b"12".to_vec())];
        same(&held(&store), &[("default", &Pairs::from(wanted))]);
    }

    #[test]
    fn of_a_damaged_wal_only_a_torn_end_is_tolerated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rocks");
        let db = DB::open(&options(), &path).unwrap();
        let pairs = pairs(1, true);
        pairs.iter().for_each(|(key, value)| db.put(key, value).unwrap());
        let last = [0xff; 200];
        db.put(last, "torn").unwrap();
        std::mem::forget(db); // as if the process were killed
        let wals =
            files(&path).into_iter().filter(|(path, _)| path.extension() == Some("log".as_ref()));
        let (wal, bytes) = wals.max_by_key(|(_, bytes)| bytes.len()).unwrap();
        std::fs::write(&wal, &bytes[..bytes.len() - 2]).unwrap();
        let store = folder.path().join("store");
        imported("rocksdb", &path, &store, &[]);
        same(&held(&store), &[("default", &pairs)]);
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 0x40;
        std::fs::write(&wal, damaged).unwrap();
        refused("rocksdb", &path, &[], &["Corruption"]);
    }

    #[test]
    fn a_comparator_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rocks");
        let mut options = options();
        options.set_comparator("backwards", Box::new(|a: &[u8], b: &[u8]| b.cmp(a)));
        let db = DB::open(&options, &path).unwrap();
        db.put("a", "1").unwrap();
        drop(db);
        refused("rocksdb", &path, &[], &["comparator", "orders keys by their bytes"]);
    }

    #[test]
    fn another_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        refused("rocksdb", folder.path(), &[], &["is it the folder of a RocksDB store?"]);
        assert_eq!(files(folder.path()).len(), 0);
    }
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_build_without_rocksdb_says_so() {
    let folder = tempfile::tempdir().unwrap();
    refused("rocksdb", folder.path(), &[], &["without the feature `rocksdb`", "peers/build"]);
}

mod with_fjall {
    use super::*;
    use fjall::{Database, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

    #[test]
    fn keyspaces_come_over_also_from_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fjall");
        let db = Database::builder(&path).open().unwrap();
        let (users, blobs, journal) = (pairs(1, false), pairs(2, false), pairs(3, false));
        for (name, pairs) in [("users", &users), ("blobs", &blobs), ("journal", &journal)] {
            let options = || match name {
                "blobs" => KeyspaceCreateOptions::default()
                    .with_kv_separation(Some(KvSeparationOptions::default())),
                _ => KeyspaceCreateOptions::default(),
            };
            let keyspace = db.keyspace(name, options).unwrap();
            for (key, value) in pairs {
                keyspace.insert(key, value).unwrap();
            }
            keyspace.insert("deleted", "").unwrap();
            keyspace.remove("deleted").unwrap();
            if name != "journal" {
                keyspace.rotate_memtable_and_wait().unwrap();
            }
        }
        db.keyspace("empty", KeyspaceCreateOptions::default).unwrap();
        db.persist(PersistMode::SyncAll).unwrap();
        refused("fjall", &path, &[], &["a process has it open"]);
        drop(db);

        let before = files(&path);
        let store = folder.path().join("store");
        imported("fjall", &path, &store, &[]);
        let empty = Pairs::new();
        let all = [
            ("default", &empty),
            ("users", &users),
            ("blobs", &blobs),
            ("journal", &journal),
            ("empty", &empty),
        ];
        same(&held(&store), &all);
        assert!(files(&path) == before, "the store is as it was");
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "the copy is removed");
        refused("fjall", &path, &["--only", "user"], &["no keyspace \"user\""]);
        refused("fjall", &store, &[], &["not the folder of a fjall store"]);
    }
}

mod with_redb {
    use super::*;
    use redb::{
        Database, MultimapTableDefinition, ReadableDatabase, ReadableTable, TableDefinition,
    };

    const BYTES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("bytes");
    const TEXTS: TableDefinition<&str, String> = TableDefinition::new("texts");
    const UNSIGNED: TableDefinition<u64, u32> = TableDefinition::new("unsigned");
    const SIGNED: TableDefinition<i32, &str> = TableDefinition::new("signed");
    const ARRAYS: TableDefinition<&[u8; 2], (u8, &str)> = TableDefinition::new("arrays");
    const TUPLES: TableDefinition<(u32, &str), ()> = TableDefinition::new("tuples");
    const SEVERAL: MultimapTableDefinition<&str, u64> = MultimapTableDefinition::new("several");

    fn key(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    #[test]
    fn tables_come_over_and_integers_sort_as_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.redb");
        let db = Database::create(&path).unwrap();
        let raw = pairs(1, true);
        let numbers = [0, 1, 255, 256, 65_536, u64::MAX];
        let integers = [i32::MIN, -256, -1, 0, 1, 256, i32::MAX];
        let txn = db.begin_write().unwrap();
        {
            let mut table = txn.open_table(BYTES).unwrap();
            for (key, value) in &raw {
                table.insert(key.as_slice(), value.as_slice()).unwrap();
            }
            txn.open_table(TEXTS).unwrap().insert("größe", "7".to_owned()).unwrap();
            let mut table = txn.open_table(UNSIGNED).unwrap();
            numbers.iter().for_each(|n| drop(table.insert(n, 7).unwrap()));
            let mut table = txn.open_table(SIGNED).unwrap();
            integers.iter().for_each(|n| drop(table.insert(n, "x").unwrap()));
            txn.open_table(ARRAYS).unwrap().insert(b"ab", (1, "c")).unwrap();
        }
        txn.commit().unwrap();
        refused("redb", &path, &[], &["a process has it open"]);
        drop(db);

        let before = std::fs::read(&path).unwrap();
        let store = folder.path().join("store");
        imported("redb", &path, &store, &[]);
        assert!(std::fs::read(&path).unwrap() == before, "the file is as it was");
        let held = held(&store);
        assert!(held["bytes"] == raw);
        assert_eq!(held["texts"], Pairs::from([(key("größe".as_bytes()), key(b"7"))]));
        // In the order of their bytes they are in the order of the numbers.
        let read: Vec<u64> = held["unsigned"]
            .keys()
            .map(|key| u64::from_be_bytes(key.as_slice().try_into().unwrap()))
            .collect();
        assert_eq!(read, numbers);
        assert!(held["unsigned"].values().all(|value| *value == 7_u32.to_le_bytes()));
        let read: Vec<i32> = held["signed"]
            .keys()
            .map(|key| u32::from_be_bytes(key.as_slice().try_into().unwrap()))
            .map(|bits| (bits ^ 1 << 31) as i32)
            .collect();
        assert_eq!(read, integers);
        assert_eq!(held["arrays"].keys().collect::<Vec<_>>(), [b"ab"]);
        assert_eq!(held.len(), 6, "and the default keyspace");
        // What the program wrote is what redb reads.
        let db = Database::open(&path).unwrap();
        let table = db.begin_read().unwrap().open_table(BYTES).unwrap();
        assert_eq!(table.iter().unwrap().count(), raw.len());
    }

    #[test]
    fn keys_of_another_order_and_several_values_are_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.redb");
        let db = Database::create(&path).unwrap();
        let txn = db.begin_write().unwrap();
        txn.open_table(TEXTS).unwrap().insert("a", "1".to_owned()).unwrap();
        txn.open_table(TUPLES).unwrap().insert((1, "a"), ()).unwrap();
        txn.commit().unwrap();
        drop(db);
        refused("redb", &path, &[], &["\"tuples\"", "(u32,&str)", "--only"]);
        let store = folder.path().join("store");
        imported("redb", &path, &store, &["--only", "texts"]);
        assert_eq!(held(&store)["texts"].len(), 1);

        let db = Database::open(&path).unwrap();
        let txn = db.begin_write().unwrap();
        txn.open_multimap_table(SEVERAL).unwrap().insert("a", 1).unwrap();
        txn.commit().unwrap();
        drop(db);
        refused("redb", &path, &["--only", "several"], &["multimap", "several values"]);
        std::fs::write(folder.path().join("junk"), [7; 5000]).unwrap();
        refused("redb", &folder.path().join("junk"), &[], &["redb"]);
        refused("redb", folder.path(), &[], &["redb"]);
    }
}

mod with_lmdb {
    use super::*;
    use heed::types::Bytes;
    use heed::{CommitOrAbort, DatabaseFlags, Env, EnvOpenOptions};

    fn open(path: &Path) -> Env {
        std::fs::create_dir_all(path).unwrap();
        // SAFETY: the folder is the test's own.
        unsafe { EnvOpenOptions::new().map_size(1 << 28).max_dbs(8).open(path).unwrap() }
    }

    /// Writes pairs into a database; one without a name is the unnamed one.
    fn write(env: &Env, name: Option<&str>, flags: DatabaseFlags, pairs: &Pairs) {
        let txn = env.write_txn().unwrap();
        let done = env.create_databases_and_commit(txn, |opener, txn| {
            let mut options = opener.database_options().types::<Bytes, Bytes>();
            if let Some(name) = name {
                options.name(name);
            }
            let database = options.flags(flags).create(txn)?;
            for (key, value) in pairs {
                database.put(txn, key, value)?;
            }
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(database))
        });
        assert!(done.is_ok());
    }

    #[test]
    fn databases_come_over_beside_the_process_that_has_them_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lmdb");
        let env = open(&path);
        let (main, users) = (pairs(1, false), pairs(2, false));
        let numbers = [1_u64, 256, 65_537].map(|n| (n.to_ne_bytes().to_vec(), b"n".to_vec()));
        write(&env, Some("users"), DatabaseFlags::empty(), &users);
        #[expect(deprecated, reason = "programs in C have such databases")]
        let integers = DatabaseFlags::INTEGER_KEY;
        write(&env, Some("numbers"), integers, &Pairs::from(numbers));
        write(&env, None, DatabaseFlags::empty(), &main);
        let store = folder.path().join("store");
        imported("lmdb", &path, &store, &[]);
        let sorted = [1_u64, 256, 65_537].map(|n| (n.to_be_bytes().to_vec(), b"n".to_vec()));
        let all = [("default", &main), ("users", &users), ("numbers", &Pairs::from(sorted))];
        same(&held(&store), &all);

        write(&env, Some("several"), DatabaseFlags::DUP_SORT, &Pairs::new());
        refused("lmdb", &path, &[], &["\"several\"", "DUP_SORT", "--only"]);
        refused("lmdb", &path, &["--only", "user"], &["no database \"user\"", "users"]);
        let store = folder.path().join("some");
        imported("lmdb", &path, &store, &["--only", "users"]);
        same(&held(&store), &[("default", &Pairs::new()), ("users", &users)]);
        refused("lmdb", &store, &[], &["LMDB"]);
    }
}
