//! openraft's own suite passes on the storages that ours is compared with: a faulty one would be
//! no rival.

use crate::fjall::Fjall;
use crate::log::{Keep, Log};
use crate::memory::{Config, InMemory};
#[cfg(feature = "rocksdb")]
use crate::rocksdb::RocksDb;
use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use std::marker::PhantomData;
use tempfile::TempDir;
use vlsm_openraft_kv::{Opened, Store};

struct Folders<K>(PhantomData<K>);

impl<K: Keep> StoreBuilder<Config, Log<K>, InMemory<K>, TempDir> for Folders<K> {
    async fn build(&self) -> Result<(TempDir, Log<K>, InMemory<K>), StorageError<u64>> {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let opened = InMemory::open(folder.path(), None).expect("the storage can be opened");
        let Opened { log, state, .. } = opened;
        Ok((folder, log, state))
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn every_test_of_openraft_passes_on_rocksdb() {
    Suite::test_all(Folders::<RocksDb>(PhantomData)).expect("no storage fails");
}

#[test]
fn every_test_of_openraft_passes_on_fjall() {
    Suite::test_all(Folders::<Fjall>(PhantomData)).expect("no storage fails");
}
