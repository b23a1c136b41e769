//! Files made of records: the WAL and the manifest.
//!
//! The input has the fields of the headers and the bytes of the records; [`fix_up`] walks over
//! these as a reader does and puts the checksums right, so that lengths, kinds, sequence numbers
//! and payloads are whatever the input says. One record may be left as it is: a torn one.

use crate::input::Input;
use std::path::Path;
use std::sync::Arc;
use vlsm_core::{Error, Result, Seq};
use vlsm_disk::fs::{Fs, OpenOptions};
use vlsm_disk::manifest::{CURRENT, Manifest, State, manifest_path};
use vlsm_disk::record::{HEADER_LEN, Header, MANIFEST_MAGIC, WAL_MAGIC};
use vlsm_disk::wal::{Entries, RecoverOptions, Seal, SealKind, recover, wal_path};
use vlsm_disk::{Env, RealEnv};
use vlsm_testfs::SimFs;

const UID: u64 = 0x0123_4567_89ab_cdef;
const DIR: &str = "/store";
const RECORD_HEADER: usize = 24;

/// The seed of the checksum of a record's header: it binds file and offset.
fn seed(uid: u64, offset: u64) -> u32 {
    let mixed = (uid ^ offset.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 ^ offset as u32
}

/// Corrects the checksums of all records except that of record number `torn`.
pub fn fix_up(records: &mut [u8], uid: u64, torn: usize) {
    let (mut at, mut number) = (0, 0);
    while at + RECORD_HEADER <= records.len() {
        let len = Input(&records[at + 8..at + 12]).u64() as usize;
        let end = at + RECORD_HEADER + len;
        let whole = records.get(at + RECORD_HEADER..end).map(crc32c::crc32c);
        if number != torn {
            // A header that says more than there is gets a good checksum, too.
            records[at + 4..at + 8].copy_from_slice(&whole.unwrap_or(0).to_le_bytes());
            let covered = &records[at + 4..at + RECORD_HEADER];
            let sum = crc32c::crc32c_append(seed(uid, HEADER_LEN + at as u64), covered);
            records[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        }
        (at, number) = (end.next_multiple_of(8), number + 1);
    }
}

/// A record as it lies in a file, all but its checksums.
pub fn record(kind: u8, seq: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 8];
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(seq | u64::from(kind) << 56).to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// A disk with the folder of a store.
fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new(DIR)).expect("a disk in memory");
    fs
}

fn put(fs: &SimFs, path: &Path, content: &[u8]) {
    let file = fs.open(path, OpenOptions::CREATE).expect("a new file");
    file.write_at(content, 0).expect("a disk in memory");
}

/// A file of a header page and records.
pub fn file(header: Header, magic: &[u8; 8], records: &[u8], torn: usize) -> Vec<u8> {
    let mut file = header.encode(magic);
    let start = file.len();
    file.extend_from_slice(records);
    fix_up(&mut file[start..], header.uid, torn);
    file
}

/// Asserts that an error is one that a damaged file may cause.
pub fn expect_answer<T>(result: &Result<T>) {
    if let Err(error) = result {
        let known = matches!(error, Error::Corruption { .. } | Error::FormatVersion { .. });
        assert!(known, "a damaged file is answered with {error:?}");
    }
}

/// Two WAL files, the second of which seals the first.
pub fn wal_file(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (flags, torn) = (input.u8(), usize::from(input.u8()));
    let (filled, seq, second_seq) = (input.u16(), input.u64(), input.u64());
    let (len, synced) = (u64::from(input.u16()), u64::from(input.u16()));
    let kind = [SealKind::Clean, SealKind::FailedAppend, SealKind::Recovered][flags as usize % 3];
    let seal =
        Seal { number: 1, uid: UID, len: HEADER_LEN + len, synced: HEADER_LEN + synced, kind };
    let first = Header {
        number: 1,
        uid: UID,
        started: flags & 4 == 0,
        closed: seq >> 63 == 1,
        filled: filled.into(),
        next_seq: Seq(seq & !(1 << 63)),
        predecessor: None,
    };
    let second = Header {
        number: 2,
        uid: UID + u64::from(flags & 8),
        started: flags & 16 == 0,
        closed: second_seq >> 63 == 1,
        filled: 0,
        next_seq: Seq(second_seq & !(1 << 63)),
        predecessor: (flags & 32 == 0).then_some(seal),
    };
    let records = input.bytes();
    let fs = disk();
    let dir = Path::new(DIR);
    put(&fs, &wal_path(dir, 1), &file(first, WAL_MAGIC, records, torn));
    if flags & 64 == 0 {
        let torn = torn.wrapping_sub(1);
        put(&fs, &wal_path(dir, 2), &file(second, WAL_MAGIC, input.rest(), torn));
    }
    let replay = |salvage| {
        let mut batches = Vec::new();
        let min_wal = u64::from(flags >> 7);
        let options = RecoverOptions { min_wal, salvage, ..RecoverOptions::default() };
        let recovered = recover(&fs, dir, options, &mut |batch| {
            batches.push((batch.first_seq, batch.payload));
            Ok(())
        });
        expect_answer(&recovered);
        (recovered.is_ok(), batches)
    };
    let (sound, strict) = replay(false);
    let (salvaged, all) = replay(true);
    assert!(salvaged || !sound, "salvage reads what is sound");
    assert!(!sound || strict == all, "salvage changes nothing of what is sound");
    strict.iter().all(|(_, payload)| wal_batch(payload)) && sound && !strict.is_empty()
}

/// The payload of a batch.
pub fn wal_batch(bytes: &[u8]) -> bool {
    let mut read = 0;
    for entry in Entries::new(bytes) {
        let Ok(entry) = entry else { return false };
        read += 2 + entry.key.len() + entry.value.len();
        assert!(read <= bytes.len(), "entries are parts of the payload");
    }
    true
}

/// Reads a manifest; what it says can be written and read again.
fn recover_manifest(fs: SimFs) -> bool {
    let dir = Path::new(DIR);
    let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(fs.clone()));
    let recovered = Manifest::recover(&env, dir);
    expect_answer(&recovered);
    let Ok((_, state)) = recovered else { return false };
    let again = |dir| Manifest::recover(&env, dir).expect("it was read before").1;
    assert!(again(dir) == state, "reading changes nothing");
    let copy = Path::new("/copy");
    fs.create_dir_all(copy).expect("a disk in memory");
    drop(Manifest::create(&env, copy, &state).expect("what was read can be written"));
    assert!(plain(again(copy)) == plain(state.clone()), "a snapshot says the same");
    state != State::default()
}

/// Without the trailing empty places that a tree may have after changes but not in a snapshot.
fn plain(mut state: State) -> State {
    for version in state.trees.values_mut() {
        let used = version.cursors.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        version.cursors.truncate(used);
        let used = version.levels.iter().rposition(|level| !level.is_empty());
        version.levels.truncate(used.map_or(0, |last| last + 1));
    }
    state
}

fn manifest(records: &[u8], filled: u64, torn: usize) -> SimFs {
    let header = Header {
        number: 1,
        uid: UID,
        started: true,
        closed: false,
        filled,
        next_seq: Seq::ZERO,
        predecessor: None,
    };
    let fs = disk();
    let content = file(header, MANIFEST_MAGIC, records, torn);
    put(&fs, &manifest_path(Path::new(DIR), 1), &content);
    put(&fs, &Path::new(DIR).join(CURRENT), &current(b"MANIFEST-000001"));
    fs
}

/// A manifest of any records.
pub fn manifest_file(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (filled, torn) = (input.u16(), usize::from(input.u8()));
    recover_manifest(manifest(input.rest(), filled.into(), torn))
}

/// A manifest of one group of changes.
pub fn manifest_items(bytes: &[u8]) -> bool {
    recover_manifest(manifest(&record(1, 0, bytes), 0, usize::MAX))
}

fn current(name: &[u8]) -> Vec<u8> {
    let sum = crc32c::crc32c(name);
    [name, format!(" {sum:08x}\n").as_bytes()].concat()
}

/// The file that names the manifest: a name with a good checksum, or any bytes.
pub fn manifest_current(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let content = if input.u8() == 0 { current(input.rest()) } else { input.rest().to_vec() };
    let fs = disk();
    put(&fs, &Path::new(DIR).join(CURRENT), &content);
    let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(fs.clone()));
    let state = State { store_uid: UID, ..State::default() };
    let made = Path::new("/made");
    fs.create_dir_all(made).expect("a disk in memory");
    drop(Manifest::create(&env, made, &state).expect("a new manifest"));
    let manifest = fs.content(&manifest_path(made, 1)).expect("it was just made");
    put(&fs, &manifest_path(Path::new(DIR), 1), &manifest);
    let recovered = Manifest::recover(&env, Path::new(DIR));
    expect_answer(&recovered);
    assert!(
        recovered.is_err() || content.starts_with(b"MANIFEST-"),
        "no other name is a manifest's"
    );
    recovered.is_ok()
}
