//! The manifest: golden bytes, round trip, damage at every byte, crashes at every call, failures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{
    Bytes as Size, Error, FileMeta, FileNumber, FileUid, KeyRange, Micros, RunId, RunOrigin, Seq,
    Table, TreeId, VersionEdit,
};
use vlsm_disk::env::Join;
use vlsm_disk::manifest::{Keyspace, Manifest, Numbers, Presence, Record, Region, State};
use vlsm_disk::record::{Header, MANIFEST_MAGIC, RecordHead, Records, checksum, encode_record};
use vlsm_disk::{Condition, Env, Fs, Priority};
use vlsm_testfs::{CrashMode, CrashPoint, Fault, FaultFs, Op, Rule, SimFs};

type Spawned = std::io::Result<Box<dyn Join>>;
const DIR: &str = "/store";
/// An environment of which only the files and (constant) random numbers are used.
struct TestEnv(Arc<dyn Fs>);

impl Env for TestEnv {
    fn fs(&self) -> &Arc<dyn Fs> {
        &self.0
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }
    fn random(&self) -> u64 {
        0x0123_4567_89ab_cdef
    }
    fn spawn(&self, _: &str, _: Priority, _: Box<dyn FnOnce() + Send>) -> Spawned {
        unreachable!("the manifest starts no thread")
    }
    fn condition(&self, _: Duration) -> Arc<dyn Condition> {
        unreachable!("the manifest waits for nothing")
    }
}

fn env(fs: &SimFs) -> Arc<dyn Env> {
    Arc::new(TestEnv(Arc::new(fs.clone())))
}

fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new(DIR)).expect("made");
    fs
}

fn file(number: u64, lo: &str, hi: &str) -> Arc<FileMeta> {
    Arc::new(FileMeta {
        number: FileNumber(number),
        uid: FileUid(number * 7),
        bytes: Size(1000),
        checksum: 99,
        entries: 10,
        tombstones: 1,
        smallest: lo.to_owned().into(),
        largest: hi.to_owned().into(),
        seq_min: Seq(number * 10),
        seq_max: Seq(number * 10 + 9),
        ..FileMeta::default()
    })
}

fn keyspace(id: u64, name: &str, trees: &[u64]) -> Record {
    let lower = ["", "m", "t"];
    let regions =
        trees.iter().zip(lower).map(|(tree, lo)| Region { lo: lo.into(), tree: TreeId(*tree) });
    let (name, options) = (name.to_owned(), "{}".to_owned());
    Record::CreateKeyspace(Keyspace { id, name, options, regions: regions.collect() })
}

fn flush(number: u64) -> Record {
    let mut edit = VersionEdit::default();
    let table = Arc::new(Table::whole(file(number, "b", "k")));
    edit.add_l0(RunId(number), RunOrigin::Flush, table);
    edit.flushed_seq = Some(Seq(number * 10 + 9));
    Record::Edit(TreeId(1), edit)
}

/// Takes `[b, e)` of a run's only table to a new file of L1; the rest stays.
fn compact(number: u64, run: u64) -> Record {
    let mut edit = VersionEdit::default();
    let whole = Table::whole(file(run, "b", "k"));
    let place = vlsm_core::Place::L0(RunId(run));
    edit.remove(place, &whole);
    let rest = KeyRange::closed("e", "k");
    let rest = Table { range: rest, bytes: Size(600), ..whole };
    edit.add_l0(RunId(run), RunOrigin::Flush, Arc::new(rest));
    edit.add(1, Arc::new(Table::whole(file(number, "b", "d"))));
    edit.cursors.push((1, Some("e".into())));
    Record::Edit(TreeId(1), edit)
}

/// `[b, m)` with range tombstones, a slice of it next to what follows it, and an ingested file.
fn ranged(number: u64) -> Record {
    let meta = |number, lo, hi| Arc::into_inner(file(number, lo, hi)).expect("not shared");
    let (range_tombstones, largest_exclusive, expires) = (300, true, Some(Micros(1 << 50)));
    let ends_open = FileMeta { range_tombstones, largest_exclusive, ..meta(number, "b", "m") };
    let ingested = meta(number + 1, "m", "z").with_global_seq(Seq(77));
    let both = FileMeta { range_tombstones, largest_exclusive, ..meta(number + 2, "b", "m") };
    let both = Table::whole(Arc::new(FileMeta { expires, ..both.with_global_seq(Seq(78)) }));
    let mut edit = VersionEdit::default();
    edit.add(4, Arc::new(Table::whole(Arc::new(ends_open))));
    edit.add(4, Arc::new(Table::whole(Arc::new(ingested))));
    let range = KeyRange::half_open("c", "m");
    edit.add(5, Arc::new(Table { range, bytes: Size(400), ..both }));
    Record::Edit(TreeId(2), edit)
}

/// A file whose tail has a known length; the ones before are as older versions recorded them.
fn with_tail(number: u64) -> Record {
    let meta = Arc::into_inner(file(number, "n", "p")).expect("not shared");
    let meta = Arc::new(FileMeta { tail: Some(Size(300)), ..meta });
    let mut edit = VersionEdit::default();
    edit.add(3, Arc::new(Table::whole(meta)));
    Record::Edit(TreeId(2), edit)
}

fn alter(id: u64, name: &str, options: &str) -> Record {
    Record::AlterKeyspace { id, name: name.to_owned(), options: options.to_owned() }
}

fn numbers(next_file: u64) -> Record {
    Record::Numbers(Numbers { next_file, min_wal: 3, ..Numbers::default() })
}

fn groups() -> Vec<Vec<Record>> {
    vec![
        vec![keyspace(0, "default", &[1, 2]), numbers(5)],
        vec![flush(5)],
        vec![flush(6), numbers(7)],
        vec![compact(8, 5), numbers(9)],
        vec![keyspace(1, "other", &[3])],
        vec![Record::DropKeyspace(1), flush(9)],
        vec![ranged(40), numbers(43), Record::Wals(vec![3, 41, 300]), Record::Clock(Micros(9))],
        vec![with_tail(50), numbers(51)],
        vec![alter(0, "main", r#"{"ttl_micros":9}"#)],
    ]
}

/// The state after the first `count` groups.
fn expected(count: usize) -> State {
    let mut state = State { store_uid: 42, ..State::default() };
    for record in groups()[..count].iter().flatten() {
        state.apply(record).expect("legal");
    }
    state
}

fn build(fs: &SimFs) -> Manifest {
    let state = State { store_uid: 42, ..State::default() };
    let mut manifest = Manifest::create(&env(fs), Path::new(DIR), &state).expect("created");
    for group in groups() {
        manifest.append(&group).expect("appended");
    }
    manifest
}

fn recover(fs: &SimFs) -> Result<State, Error> {
    Manifest::recover(&env(fs), Path::new(DIR)).map(|(_, state)| state)
}

#[test]
fn golden_bytes() {
    let fs = disk();
    let manifest = build(&fs);
    let content = fs.content(manifest.path()).expect("there");
    let hex = |bytes: &[u8]| {
        let line = |line: &[u8]| line.iter().map(|b| format!("{b:02x}")).collect::<String>();
        bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(fs.content(Path::new("/store/CURRENT")).expect("there").len(), 25);
    expect_test::expect![[r#"
        764c534d2d6d616e02000000010000000100000000000000efcdab8967452301
        3010000000000000000000000000000000000000000000000000000000000000"#]]
    .assert_eq(&hex(&content[..64]));
    expect_test::expect![[r#"
        aeb020d1d14cb7e712000000000000000000000000000001012a000000000000
        00040000000000000600000000000000b729c836000000000000000006020000
        00000000000000049a338aeb01271a9f1a000000060200000000000000000001
        02000764656661756c74027b7d020001016d0204050000000300000000000000
        f505eceb0000000000000000100200000000000000000004db0ae89d28f57d4c
        260000001002000000000000000000010501013b000100050000052300000000
        000000e80763000000000000000a010162016b323b000000c0c9ed3400000000
        000000001b02000000000000000000040643a2f1cf436dc92d0000001b020000
        000000000000000105010145000100060000062a00000000000000e807630000
        00000000000a010162016b3c4500040700000003000000007bce1f1000000000
        00000000270200000000000000000004f39804ece59870ff5f00000027020000
        0000000000000001050100010101016503000501050162016b01000500000523
        00000000000000e80763000000000000000a010162016b323b010165016b01d8
        04010001083800000000000000e80763000000000000000a0101620164505900
        0409000000030000257b99a50000000000000000390200000000000000000004
        e66f5ab3797161680e0000003902000000000000000000010201056f74686572
        027b7d0100030000c3e59fb00000000000000000410200000000000000000004
        6e5cb96fae48cf67280000004102000000000000000000010301050101630001
        00090000093f00000000000000e80763000000000000000a010162016b5a6300
        9cea33e900000000000000004c02000000000000000000044ddfa01a11be4625
        860000004c020000000000000000000105020000030400012818010000000000
        00e80763000000000000000a010162016d9003990306ac02040001291f010000
        00000000e80763000000000000000a01016d017a4d4d080500012a2601000000
        000000e80763000000000000000a010162016d4e4e1fac028080808080808002
        0163016d009003042b000000030006030329ac02070900001b2dcfaf00000000
        00000000630200000000000000000004185238a2b7d72f222f00000063020000
        00000000000000010502000001030001325e01000000000000e8076300000000
        0000000a01016e0170f403fd0320ac02043300000003000086a20ff700000000
        000000006f02000000000000000000044e4ba9a8a37f7e76180000006f020000
        00000000000000010800046d61696e107b2274746c5f6d6963726f73223a397d
        83050d520000000000000000780200000000000000000004"#]]
    .assert_eq(&hex(&content[4096..]));
}

#[test]
fn the_state_comes_back_and_files_are_shared() {
    let fs = disk();
    drop(build(&fs));
    let state = recover(&fs).expect("sound");
    assert_eq!(state, expected(groups().len()));
    let tree = &state.trees[&TreeId(1)];
    let rest = tree.l0[0].tables.find(b"f").expect("the rest of the slice");
    assert_eq!((rest.bytes, &rest.range.lo[..]), (Size(600), &b"e"[..]));

    // One file shown in two places is one file.
    let (mut manifest, _) = Manifest::recover(&env(&fs), Path::new(DIR)).expect("sound");
    let meta = file(20, "a", "z");
    let mut edit = VersionEdit::default();
    for (lo, hi) in [("a", "f"), ("g", "z")] {
        let range = KeyRange::closed(lo, hi);
        edit.add(2, Arc::new(Table::slice(meta.clone(), range, Size(500))));
    }
    manifest.append(&[Record::Edit(TreeId(2), edit)]).expect("appended");
    let state = recover(&fs).expect("sound");
    let level = state.trees[&TreeId(2)].level(2);
    let files: Vec<_> = level.iter().map(|table| &table.file).collect();
    assert!(files.len() == 2 && Arc::ptr_eq(files[0], files[1]));
}

#[test]
fn a_snapshot_catches_up_with_what_was_appended_meanwhile() {
    let fs = disk();
    let mut manifest = build(&fs);
    let mut state = expected(groups().len());
    let writer = manifest.begin_snapshot(state.clone());
    manifest.append(&[flush(10)]).expect("appended");
    let snapshot = writer.write().expect("written");
    manifest.append(&[flush(11), numbers(30)]).expect("appended");
    let old = manifest.finish_snapshot(snapshot).expect("switched");
    assert!(!manifest.snapshot_needed(0), "one was just taken");
    assert_eq!(manifest.unused().expect("listed"), std::slice::from_ref(&old));
    fs.remove(&old).expect("removed");
    manifest.append(&[flush(12)]).expect("appended");
    for record in [flush(10), flush(11), numbers(30), flush(12)] {
        state.apply(&record).expect("legal");
    }
    assert_eq!(recover(&fs).expect("sound"), state);
    assert!(!manifest.snapshot_needed(u64::MAX));
}

#[test]
fn many_tables_make_many_records() {
    let fs = disk();
    let mut manifest = build(&fs);
    let mut edit = VersionEdit::default();
    for n in 0..5000 {
        let key = format!("{n:06}");
        edit.add(3, Arc::new(Table::whole(file(100 + n, &key, &key))));
    }
    let record = Record::Edit(TreeId(2), edit);
    let mut state = expected(groups().len());
    state.apply(&record).expect("legal");
    manifest.append(&[record]).expect("appended");
    let snapshot = manifest.begin_snapshot(state.clone()).write().expect("written");
    manifest.finish_snapshot(snapshot).expect("switched");
    assert_eq!(recover(&fs).expect("sound"), state);
}

#[test]
fn damage_is_found_and_a_torn_tail_dropped() {
    let fs = disk();
    let path = build(&fs).path().to_owned();
    let content = fs.content(&path).expect("there");
    let states: Vec<_> = (0..=groups().len()).map(expected).collect();
    for at in (0..512).chain(4096..content.len()) {
        let mut flipped = content.clone();
        flipped[at] ^= 0x10;
        fs.set_content(&path, flipped);
        match recover(&fs) {
            Ok(state) => assert_eq!(Some(&state), states.last(), "flip at {at}"),
            Err(Error::Corruption { .. }) => {}
            Err(error) => panic!("flip at {at}: {error}"),
        }
    }
    let mut found = 0;
    for len in 0..content.len() {
        fs.set_content(&path, content[..len].to_vec());
        match recover(&fs) {
            Ok(state) => {
                assert!(state == states[found] || state == states[found + 1], "cut at {len}");
                found += usize::from(state != states[found]);
                // The torn tail is gone, so the next append follows the records that were read.
                let (mut manifest, _) =
                    Manifest::recover(&env(&fs), Path::new(DIR)).expect("sound");
                manifest.append(&[numbers(77)]).expect("appended");
                assert_eq!(recover(&fs).expect("sound").numbers.next_file, 77);
            }
            Err(Error::Corruption { .. }) => assert_eq!(found, 0, "cut at {len}"),
            Err(error) => panic!("cut at {len}: {error}"),
        }
    }
    assert_eq!(found, groups().len());
    fs.set_content(&path, content);
    let current = PathBuf::from("/store/CURRENT");
    let text = fs.content(&current).expect("there");
    for at in 0..text.len() {
        let mut flipped = text.clone();
        flipped[at] ^= 1;
        fs.set_content(&current, flipped);
        assert!(matches!(recover(&fs), Err(Error::Corruption { .. })), "flip at {at}");
        fs.set_content(&current, text[..at].to_vec());
        assert!(matches!(recover(&fs), Err(Error::Corruption { .. })), "cut at {at}");
    }
}

/// Damage with correct checksums, as from a fuzzer that can compute them.
#[test]
fn any_payload_answers() {
    let fs = disk();
    let path = build(&fs).path().to_owned();
    let content = fs.content(&path).expect("there");
    let header = Header::decode(&content, MANIFEST_MAGIC, &path).expect("sound");
    let records: Vec<_> = Records::new(content.clone().into(), header.uid).collect();
    let mut random = 7_u64;
    let mut refused = 0;
    for round in 0..20_000 {
        let mut damaged = content[..4096].to_vec();
        for (index, record) in records.iter().enumerate() {
            let mut payload = record.payload.to_vec();
            if !payload.is_empty() && index == round % records.len() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let at = (random >> 33) as usize % payload.len();
                payload[at] = (random >> 20) as u8;
                if random >> 61 == 0 {
                    payload.truncate(at);
                }
            }
            let payload_checksum = checksum(&payload);
            let head = RecordHead { payload_checksum, ..record.head };
            let offset = damaged.len() as u64;
            encode_record(&mut damaged, header.uid, offset, &head, &payload);
        }
        fs.set_content(&path, damaged);
        refused += usize::from(recover(&fs).is_err());
    }
    assert!(refused > 1000, "{refused}");
}

/// Creates a store, appends, and switches to a snapshot; returns the number of acknowledged groups,
/// or none if not even the creation was acknowledged.
fn script(fs: &SimFs) -> Option<usize> {
    let state = State { store_uid: 42, ..State::default() };
    let mut manifest = Manifest::create(&env(fs), Path::new(DIR), &state).ok()?;
    let groups = groups();
    let mut done = 0;
    let mut writer = None;
    for group in &groups {
        if done == 2 {
            writer = Some(manifest.begin_snapshot(expected(done)));
        }
        if manifest.append(group).is_err() {
            return Some(done);
        }
        done += 1;
        if done == 4 {
            let snapshot = writer.take().expect("begun").write();
            let Ok(old) = snapshot.and_then(|snapshot| manifest.finish_snapshot(snapshot)) else {
                return Some(done);
            };
            let _ = fs.remove(&old);
        }
    }
    Some(done)
}

#[test]
fn crashes_at_every_call() {
    let whole = disk();
    let before = whole.ops();
    assert_eq!(script(&whole), Some(groups().len()));
    let states: Vec<_> = (0..=groups().len()).map(expected).collect();
    let mut crashes = 0;
    for op in before + 1..=whole.ops() {
        for after in [false, true] {
            let stopped = disk();
            stopped.set_crash_at(Some(CrashPoint { op, after }));
            let acknowledged = script(&stopped);
            let random = (0..20).map(|seed| (CrashMode::Random, seed));
            for (mode, seed) in CrashMode::ALL.into_iter().map(|mode| (mode, 99)).chain(random) {
                let fs = stopped.fork();
                fs.crash(mode, seed);
                crashes += 1;
                let what = format!("op {op} after {after} {mode:?} {seed} {acknowledged:?}");
                let presence = Manifest::probe(&fs, Path::new(DIR)).expect("a folder of ours");
                if presence == Presence::Empty {
                    assert_eq!(acknowledged, None, "{what}");
                    let again = script(&fs);
                    assert_eq!(again, Some(groups().len()), "{what}");
                    continue;
                }
                let state = recover(&fs).unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = states.iter().position(|expected| *expected == state);
                let found = found.unwrap_or_else(|| panic!("{what}: an unknown state"));
                let done = acknowledged.unwrap_or(0);
                assert!(found == done || found == done + 1, "{what}: {found}");
            }
        }
    }
    assert!(crashes > 1000, "{crashes}");
}

#[test]
fn failures_are_latched_and_nothing_acknowledged_is_lost() {
    for (op, fault) in [
        (Op::Write, Fault::Eio),
        (Op::Write, Fault::NoSpace),
        (Op::Write, Fault::ShortWrite),
        (Op::Sync, Fault::Eio),
        (Op::Sync, Fault::NoSpace),
    ] {
        let disk = disk();
        let faulty = FaultFs::new(Arc::new(disk.clone()));
        let env: Arc<dyn Env> = Arc::new(TestEnv(Arc::new(faulty.clone())));
        let state = State { store_uid: 42, ..State::default() };
        let mut manifest = Manifest::create(&env, Path::new(DIR), &state).expect("created");
        let groups = groups();
        manifest.append(&groups[0]).expect("appended");
        let retry = op == Op::Write && !matches!(fault, Fault::Eio);
        let rule = faulty.add(Rule::once(op, "MANIFEST", fault));
        assert!(manifest.append(&groups[1]).is_err());
        assert_eq!(faulty.fired(rule), 1);
        let second = manifest.append(&groups[1]);
        if retry {
            second.expect("space has returned");
        } else {
            assert!(matches!(second, Err(Error::ReadOnly { .. })));
        }
        let found = recover(&disk).expect("sound");
        assert!(found == expected(2) || (!retry && found == expected(1)));
    }
}

/// A new store with the first group appended.
fn begun(disk: &SimFs) -> Manifest {
    let state = State { store_uid: 42, ..State::default() };
    let mut manifest = Manifest::create(&env(disk), Path::new(DIR), &state).expect("created");
    manifest.append(&groups()[0]).expect("appended");
    manifest
}

#[test]
fn a_device_that_is_full_at_any_byte_of_an_append() {
    const MARK: u64 = 24;
    let (before, after, groups) = (expected(1), expected(2), groups());
    let mut manifest = begun(&disk());
    let begin = manifest.len() + MARK;
    manifest.append(&groups[1]).expect("appended");
    let record = manifest.len() - begin;
    for free in 0..=record {
        let disk = disk();
        let mut manifest = begun(&disk);
        disk.set_capacity(Some(disk.used() + free));
        let appended = manifest.append(&groups[1]);
        if free == record {
            appended.expect("only the mark behind it fails, which is no loss");
            assert!(recover(&disk).expect("sound") == after);
            continue;
        }
        assert!(matches!(appended, Err(Error::NoSpace { .. })), "{free}");
        for (mode, seed) in CrashMode::ALL.into_iter().zip(0..) {
            let fs = disk.fork();
            fs.set_capacity(None);
            fs.crash(mode, seed);
            let state = recover(&fs).unwrap_or_else(|error| panic!("{free} {mode:?}: {error}"));
            assert!(state == before || state == after, "{free} {mode:?}: part of a group");
        }
        disk.set_capacity(None);
        manifest.append(&groups[1]).expect("there is space again");
        manifest.append(&groups[2]).expect("and for the next one");
        assert!(recover(&disk).expect("sound") == expected(3), "{free}");
    }
}

#[test]
fn a_snapshot_on_a_full_device_leaves_nothing_behind() {
    let disk = disk();
    let mut manifest = build(&disk);
    let (state, files, used) = (expected(groups().len()), disk.files(), disk.used());
    for free in 0.. {
        disk.set_capacity(Some(used + free));
        let written = manifest.begin_snapshot(state.clone()).write();
        let switched = match written {
            Ok(snapshot) => manifest.finish_snapshot(snapshot),
            Err(error) => {
                manifest.abort_snapshot();
                Err(error)
            }
        };
        if let Ok(old) = switched {
            assert!(free > 4096, "{free}: a header at least");
            disk.remove(&old).expect("removed");
            break;
        }
        assert!(matches!(switched, Err(Error::NoSpace { .. })), "{free}");
        let mut left = disk.files();
        left.retain(|path, _| !path.ends_with("CURRENT.tmp")); // A few bytes.
        assert_eq!(left, files, "{free}");
    }
    assert!(recover(&disk).is_ok_and(|found| found == state));
}

#[test]
fn a_snapshot_that_fails_leaves_the_manifest_in_use() {
    for op in [Op::Create, Op::Write, Op::Sync, Op::SyncDir, Op::Rename] {
        for nth in 1..4 {
            let disk = disk();
            let mut state = expected(groups().len());
            drop(build(&disk));
            let faulty = FaultFs::new(Arc::new(disk.clone()));
            let env: Arc<dyn Env> = Arc::new(TestEnv(Arc::new(faulty.clone())));
            let (mut manifest, _) = Manifest::recover(&env, Path::new(DIR)).expect("sound");
            faulty.add(Rule::once(op, "", Fault::Eio).nth(nth));
            let written = manifest.begin_snapshot(state.clone()).write();
            let switched = match written {
                Ok(snapshot) => manifest.finish_snapshot(snapshot).map(|_| ()),
                Err(error) => {
                    manifest.abort_snapshot();
                    Err(error)
                }
            };
            if manifest.append(&[flush(30)]).is_ok() {
                state.apply(&flush(30)).expect("legal");
            } else {
                assert!(switched.is_err(), "{op:?} {nth}");
            }
            let found = recover(&disk).expect("sound");
            assert!(found == state, "{op:?} {nth}");
        }
    }
}

#[test]
fn other_folders_get_clear_answers() {
    let fs = disk();
    let create = || Manifest::create(&env(&fs), Path::new(DIR), &State::default());
    let at = |path: &str| Manifest::recover(&env(&fs), Path::new(path)).err();
    assert!(matches!(at("/nowhere"), Some(Error::Missing { .. })));
    assert!(matches!(at(DIR), Some(Error::NotAStore { .. })));
    fs.set_content(Path::new("/store/notes.txt"), vec![1]);
    for found in [at(DIR), create().err(), at("/store/notes.txt")] {
        assert!(matches!(found, Some(Error::NotAStore { .. })));
    }
    fs.remove(Path::new("/store/notes.txt")).expect("removed");
    fs.lock(Path::new("/store/LOCK")).expect("locked");
    assert_eq!(Manifest::probe(&fs, Path::new(DIR)).ok(), Some(Presence::Empty));
    let manifest = build(&fs);
    assert!(matches!(create(), Err(Error::AlreadyExists { .. })));
    let newer = |mut content: Vec<u8>| {
        content[8] = 3;
        [&content[..508], &checksum(&content[..508]).to_le_bytes(), &content[512..]].concat()
    };
    fs.set_content(manifest.path(), newer(fs.content(manifest.path()).expect("there")));
    assert!(matches!(at(DIR), Some(Error::FormatVersion { found: 3, supported: 2, .. })));
    fs.remove(manifest.path()).expect("removed");
    assert!(matches!(at(DIR), Some(Error::Corruption { .. })));
}
