//! A manifest whose last record the device does not have, although every program can read it.
//!
//! 1. While the device fails, a keyspace is made whose record takes whole blocks of the manifest.
//!    That fails, and the keyspace may or may not be there.
//! 2. The store is opened again without a restart of the system, and the keyspace is there. A write
//!    into it is acknowledged as `Sync`.
//! 3. The power goes. The keyspace and what was written must still be there.
//!
//! Seen to fail with an opening that wrote the record over the same blocks: on ext4 with delayed
//! allocation they stay marked as never written, and the sync succeeds.

use crate::mounted::failing::Failure;
use crate::mounted::{Cut, Mounted};
use vlsm::{Db, Durability, KeyspaceOptions, WriteOptions};

const NAME: &str = "wide";

/// The options of a keyspace whose record takes about 20 KB.
fn wide() -> KeyspaceOptions {
    KeyspaceOptions::splits((0..20_u8).map(|at| vec![at; 1000]))
}

/// Does this once for each way to fail. Says how often the keyspace was there without its record.
pub fn record_in_memory_only(mounted: &Mounted) -> u64 {
    let mut met = 0;
    for how in [Failure::Full, Failure::Short] {
        let store = mounted.path().join(format!("manifest-{how:?}"));
        let db = Db::open(&store).unwrap();
        mounted.fail_all(how).unwrap();
        let made = db.create_keyspace(NAME, wide()).map(drop);
        drop(db);
        mounted.heal().unwrap();
        let db = Db::open(&store).unwrap();
        // Blocks may have been written once before, and then can be again.
        if made.is_ok() || !db.keyspaces().iter().any(|name| name == NAME) {
            continue;
        }
        met += 1;
        let keyspace = db.keyspace(NAME).unwrap();
        keyspace.put_with("key", "value", WriteOptions::durability(Durability::Sync)).unwrap();
        mounted.cut(Cut::Nothing).unwrap();
        drop((keyspace, db));
        mounted.restart().unwrap();
        let db = Db::open(&store).unwrap_or_else(|error| panic!("{how:?}: {error}"));
        let found = db.keyspace(NAME).unwrap().get("key").unwrap();
        assert_eq!(found.as_deref(), Some(&b"value"[..]), "{how:?}");
        db.close().unwrap();
    }
    met
}
