//! openraft's own test suite for storages.

mod words;

use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use tempfile::TempDir;
use vlsm_openraft::{LogStore, StateMachine};
use words::{Config, Words, open};

struct Folders;

impl StoreBuilder<Config, LogStore<Config>, StateMachine<Config, Words>, TempDir> for Folders {
    async fn build(
        &self,
    ) -> Result<(TempDir, LogStore<Config>, StateMachine<Config, Words>), StorageError<u64>> {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let storage = open(folder.path());
        Ok((folder, storage.log, storage.state))
    }
}

#[test]
fn every_test_of_openraft_passes() {
    Suite::test_all(Folders).expect("no storage fails");
}
