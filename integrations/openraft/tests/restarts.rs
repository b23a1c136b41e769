//! Restarts: what a node finds when its process ended at any point.

mod words;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{RaftLogReader, RaftSnapshotBuilder, Vote};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use vlsm::{Db, KeyspaceOptions};
use words::{Config, entry, id, open};

/// Copies a node's folder as it is now, as a kill of the process would leave it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for file in std::fs::read_dir(from).expect("the folder can be read") {
        let file = file.expect("the folder can be read");
        let target = to.join(file.file_name());
        if file.file_type().expect("the file has a type").is_dir() {
            copy(&file.path(), &target);
        } else {
            std::fs::copy(file.path(), target).expect("a file can be copied");
        }
    }
}

fn files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("snapshots")).expect("the folder can be read");
    files.map(|file| file.expect("it can").file_name().into_string().expect("it is text")).collect()
}

#[tokio::test]
async fn the_vote_of_a_former_process_is_not_committed() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let mut storage = open(folder.path());
    assert_eq!(storage.log.read_vote().await.expect("it reads"), None);
    let vote = Vote::new_committed(3, 7);
    storage.log.save_vote(&vote).await.expect("it writes");
    assert_eq!(storage.log.read_vote().await.expect("it reads"), Some(vote));
    drop(storage);

    let mut storage = open(folder.path());
    assert_eq!(storage.log.read_vote().await.expect("it reads"), Some(Vote::new(3, 7)));
    storage.log.save_vote(&vote).await.expect("it writes");
    assert_eq!(storage.log.read_vote().await.expect("it reads"), Some(vote));
}

#[tokio::test]
async fn a_flushed_append_survives_a_kill_and_the_state_is_not_ahead_of_it() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let killed = tempfile::tempdir().expect("there is a folder");
    let mut storage = open(folder.path());
    let entries = (1..=9).map(|index| entry(index, &format!("key {index}"), "value"));
    storage.log.blocking_append(entries.clone()).await.expect("it appends");
    let answers = storage.state.apply(entries.take(5)).await.expect("it applies");
    assert_eq!(answers, vec![None; 5]);
    storage.log.truncate(id(8)).await.expect("it truncates");
    storage.log.purge(id(2)).await.expect("it purges");
    storage.log.purge(id(1)).await.expect("it purges nothing");
    copy(folder.path(), killed.path());

    let mut storage = open(killed.path());
    let state = storage.log.get_log_state().await.expect("it reads");
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(2)), Some(id(7))));
    let entries = storage.log.try_get_log_entries(..).await.expect("it reads");
    let indexes: Vec<_> = entries.iter().map(|entry| entry.log_id.index).collect();
    assert_eq!(indexes, [3, 4, 5, 6, 7]);
    let (applied, _) = storage.state.applied_state().await.expect("it reads");
    assert!(applied <= Some(id(5)), "{applied:?}");
    let count = storage.reader.view().iter().count() as u64;
    assert_eq!(count, applied.map_or(0, |id| id.index), "the pairs belong to what was applied");
}

/// A node with three words, and its snapshot as bytes.
async fn source(folder: &Path) -> (openraft::SnapshotMeta<u64, ()>, Vec<u8>) {
    let mut storage = open(folder);
    let entries = [entry(1, "a", "1"), entry(2, "b", "2"), entry(3, "c", "3")];
    storage.state.apply(entries).await.expect("it applies");
    let mut builder = storage.state.get_snapshot_builder().await;
    // It has the state of the moment when it was made.
    storage.state.apply([entry(4, "d", "4")]).await.expect("it applies");
    let mut snapshot = builder.build_snapshot().await.expect("it is built");
    assert_eq!(snapshot.meta.last_log_id, Some(id(3)));
    let mut bytes = Vec::new();
    snapshot.snapshot.read_to_end(&mut bytes).await.expect("it can be read");
    (snapshot.meta, bytes)
}

#[tokio::test]
async fn a_snapshot_is_installed_under_readers_and_is_there_after_a_kill() {
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("there is one")).collect();
    let (meta, bytes) = source(folders[0].path()).await;

    let mut storage = open(folders[1].path());
    storage.state.apply([entry(1, "old", "word")]).await.expect("it applies");
    let before = storage.reader.view();
    let mut received = storage.state.begin_receiving_snapshot().await.expect("it begins");
    received.write_all(&bytes).await.expect("it is received");
    storage.state.install_snapshot(&meta, received).await.expect("it is installed");
    copy(folders[1].path(), folders[2].path());

    let words = |view: vlsm_openraft::View| {
        let pairs = view.iter().map(|pair| pair.expect("it reads"));
        pairs.map(|(key, value)| [&key[..], &value[..]].concat()).collect::<Vec<_>>()
    };
    assert_eq!(words(before), [b"oldword"], "a view goes on after an install");
    assert_eq!(words(storage.reader.view()), [b"a1", b"b2", b"c3"]);
    assert_eq!(files(folders[1].path()).len(), 1);

    let mut storage = open(folders[2].path());
    assert_eq!(words(storage.reader.view()), [b"a1", b"b2", b"c3"]);
    let (applied, _) = storage.state.applied_state().await.expect("it reads");
    assert_eq!(applied, Some(id(3)));
    let current = storage.state.get_current_snapshot().await.expect("it reads");
    let mut current = current.expect("there is one");
    assert_eq!(current.meta, meta);
    let mut again = Vec::new();
    current.snapshot.read_to_end(&mut again).await.expect("it can be read");
    assert!(again == bytes, "it can be sent on");
}

#[tokio::test]
async fn a_damaged_or_exchanged_snapshot_changes_nothing() {
    let folders: Vec<_> = (0..2).map(|_| tempfile::tempdir().expect("there is one")).collect();
    let (mut meta, bytes) = source(folders[0].path()).await;
    let mut storage = open(folders[1].path());
    storage.state.apply([entry(1, "old", "word")]).await.expect("it applies");
    for damaged in [0, bytes.len() / 3, bytes.len() - 1] {
        let mut bytes = bytes.clone();
        bytes[damaged] ^= 1;
        let mut received = storage.state.begin_receiving_snapshot().await.expect("it begins");
        received.write_all(&bytes).await.expect("it is received");
        let error = storage.state.install_snapshot(&meta, received).await;
        error.expect_err("a damaged snapshot is refused");
    }
    meta.last_log_id = Some(id(4));
    let mut received = storage.state.begin_receiving_snapshot().await.expect("it begins");
    received.write_all(&bytes).await.expect("it is received");
    let error = storage.state.install_snapshot(&meta, received).await;
    let error = error.expect_err("another snapshot is refused").to_string();
    assert!(error.contains("holds another state"), "{error}");

    let mut received = storage.state.begin_receiving_snapshot().await.expect("it begins");
    received.write_all(&bytes).await.expect("it is received");
    assert_eq!(files(folders[1].path()).len(), 1);
    drop(received); // the leader is gone
    assert_eq!(files(folders[1].path()), Vec::<String>::new());

    let view = storage.reader.view();
    assert_eq!(view.iter().count(), 1);
    assert!(view.get("old").expect("it reads").is_some());
    let (applied, _) = storage.state.applied_state().await.expect("it reads");
    assert_eq!(applied, Some(id(1)));
    drop((view, storage));
    let storage = open(folders[1].path());
    assert_eq!(storage.reader.view().iter().count(), 1);
    assert_eq!(files(folders[1].path()), Vec::<String>::new(), "leftovers are removed");
}

#[tokio::test]
async fn leftovers_of_an_install_and_of_a_build_are_removed() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let (meta, _) = source(folder.path()).await;
    let current = files(folder.path());
    let db = Db::open(folder.path().join("store")).expect("it opens");
    let half = db.create_keyspace("state-1", KeyspaceOptions::new()).expect("it is made");
    half.put("m", "half an install").expect("it is written");
    db.close().expect("it closes");
    let leftover: PathBuf = folder.path().join("snapshots/received-1");
    std::fs::write(&leftover, "half a snapshot").expect("it is written");

    let mut storage = open(folder.path());
    assert_eq!(storage.db.keyspaces(), ["default", "log", "state-0"]);
    assert_eq!(files(folder.path()), current);
    let snapshot = storage.state.get_current_snapshot().await.expect("it reads");
    assert_eq!(snapshot.expect("there is one").meta, meta);

    drop(storage);
    std::fs::remove_dir_all(folder.path().join("snapshots")).expect("it can be removed");
    let mut storage = open(folder.path());
    let snapshot = storage.state.get_current_snapshot().await.expect("it reads");
    assert!(snapshot.is_none());
    let mut builder = storage.state.get_snapshot_builder().await;
    let built = builder.build_snapshot().await.expect("it is built");
    assert_eq!(built.meta.last_log_id, Some(id(4)));
}

#[tokio::test]
async fn a_folder_that_is_no_nodes_keeps_its_files_and_one_that_lost_its_store_is_refused() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let photo = folder.path().join("snapshots/photo");
    drop(open(folder.path()));
    std::fs::write(&photo, "of a holiday").expect("it is written");
    drop(open(folder.path()));
    assert!(photo.exists(), "only snapshots are removed");
    std::fs::remove_dir_all(folder.path().join("store")).expect("it can be removed");
    let opened = vlsm_openraft::Storage::<Config, _>::open(folder.path(), words::Words);
    let error = opened.map(|_| ()).expect_err("its log is gone").to_string();
    assert!(error.contains("store is missing"), "{error}");
    assert!(photo.exists() && !folder.path().join("store").exists());
}

#[tokio::test]
async fn a_store_of_another_program_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().expect("there is a folder");
    drop(open(folder.path()));
    let db = Db::open(folder.path().join("store")).expect("it opens");
    let log = db.keyspace("log").expect("it is there");
    log.put("mvote", [0xff; 40]).expect("it is written");
    db.close().expect("it closes");
    let mut storage = open(folder.path());
    let error = storage.log.read_vote().await.expect_err("it is not a vote").to_string();
    assert!(error.contains("cannot decode the vote"), "{error}");
    let opened = vlsm_openraft::Storage::<Config, _>::open(folder.path(), words::Words);
    let error = opened.map(|_| ()).expect_err("it is open").to_string();
    assert!(error.contains("lock") || error.contains("open"), "{error}");
}
