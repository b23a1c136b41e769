//! The WAL: golden bytes, torn tails and flips at every byte, seals, recycling, large batches.

use std::path::{Path, PathBuf};
use vlsm_core::{Error, Result, Seq, TreeId};
use vlsm_disk::fs::{Fs, OpenOptions, read_all};
use vlsm_disk::record::record_len;
use vlsm_disk::sst::Place;
use vlsm_disk::wal::locate::{Wanted, locate};
use vlsm_disk::wal::writer::{Commit, fragments};
use vlsm_disk::wal::{
    Batch, Entries, RecoverOptions, Recovered, Seal, SealKind, WalFile, prepare_next, recover,
    wal_path,
};
use vlsm_testfs::SimFs;

thread_local! {
    static DISK: SimFs = SimFs::new();
}

/// Each test has a thread, and so a disk, of its own.
fn fs() -> SimFs {
    DISK.with(SimFs::clone)
}

fn folder() -> PathBuf {
    fs().create_dir_all(Path::new("/store")).expect("made");
    PathBuf::from("/store")
}

fn batch(text: &str) -> Batch {
    let mut batch = Batch::default();
    batch.put(TreeId(1), text.as_bytes(), b"value");
    batch
}

fn start(dir: &Path, number: u64, seal: Option<Seal>, seq: u64, capacity: u64) -> WalFile {
    let uid = 0x1234_5678_9abc_def0 ^ number;
    prepare_next(&fs(), dir, number, uid, capacity, None)
        .and_then(|next| next.start(seal, Seq(seq)))
        .expect("started")
}

/// Writes one batch per text, each with its own write and sync, and returns the end.
fn fill(wal: &WalFile, first_seq: u64, texts: &[&str], sync: bool) -> u64 {
    let mut framer = wal.framer();
    let mut synced = 0;
    for (seq, text) in (first_seq..).zip(texts) {
        let (mut out, batch, offset) = (Vec::new(), batch(text), framer.offset());
        framer.batch(&mut out, Seq(seq), synced, batch.payload(), batch.checksum());
        wal.write(&out, offset).expect("written");
        if sync {
            wal.sync().expect("synced");
            synced = framer.offset();
        }
    }
    framer.offset()
}

fn replay(dir: &Path, min_wal: u64, salvage: bool) -> (Vec<(u64, String)>, Result<Recovered>) {
    let mut seen = Vec::new();
    let options = RecoverOptions { min_wal, salvage, ..Default::default() };
    let recovered = recover(&fs(), dir, options, &mut |replayed| {
        for entry in Entries::new(&replayed.payload) {
            let entry = entry.expect("well formed");
            seen.push((replayed.first_seq.0, String::from_utf8_lossy(entry.key).into_owned()));
        }
        Ok(())
    });
    (seen, recovered)
}

fn keys(seen: &[(u64, String)]) -> Vec<&str> {
    seen.iter().map(|(_, key)| key.as_str()).collect()
}

fn put(path: &Path, content: &[u8]) {
    if fs().exists(path).expect("asked") {
        fs().remove(path).expect("removed");
    }
    let file = fs().open(path, OpenOptions::CREATE).expect("made");
    file.write_at(content, 0).expect("written");
}

#[test]
fn golden_bytes() {
    let dir = folder();
    let wal = start(&dir, 7, None, 5, 0);
    let end = fill(&wal, 5, &["k"], false);
    let content = read_all(&fs(), wal.path()).expect("read");
    assert_eq!((content.len() as u64, end), (end, 4096 + 24 + 16));
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let zeros = content[88..508].iter().chain(&content[512..4096]).all(|byte| *byte == 0);
    assert!(zeros);
    expect_test::expect![[r#"
        764c534d2d77616c0200000001000000
        0700000000000000f7debc9a78563412
        00100000000000000500000000000000
        5d6a83eb"#]]
    .assert_eq(&format!(
        "{}\n{}\n{}\n{}",
        hex(&content[..16]),
        hex(&content[16..32]),
        hex(&content[32..48]),
        hex(&content[508..512])
    ));
    expect_test::expect![
        "92279f3155051add0a0000000000000005000000000000010101016b0576616c7565000000000000"
    ]
    .assert_eq(&hex(&content[4096..]));
}

#[test]
fn a_tail_torn_at_any_byte_is_dropped() {
    let dir = folder();
    let wal = start(&dir, 1, None, 1, 0);
    let texts = ["one", "two", "three", "four"];
    fill(&wal, 1, &texts, false);
    let path = wal.path().to_owned();
    let content = read_all(&fs(), &path).expect("read");
    for len in 4096..content.len() {
        put(&path, &content[..len]);
        let (seen, recovered) = replay(&dir, 1, false);
        let end = recovered.expect("a torn tail").end.expect("a log");
        assert_eq!(keys(&seen), texts[..seen.len()]);
        assert!(end.len <= len as u64 && (len as u64) < end.len + 40);
    }
    for len in 0..4096 {
        put(&path, &content[..len]);
        let recovered = replay(&dir, 1, false).1;
        assert!(matches!(recovered, Err(Error::Corruption { .. })), "cut at {len}");
    }
}

#[test]
fn a_file_that_was_filled_is_never_shorter() {
    let dir = folder();
    let wal = start(&dir, 1, None, 1, 5000);
    fill(&wal, 1, &["one"], true);
    let content = read_all(&fs(), wal.path()).expect("read");
    assert_eq!(content.len(), 5000);
    put(wal.path(), &content[..4999]);
    assert!(matches!(replay(&dir, 1, false).1, Err(Error::Corruption { .. })));
}

#[test]
fn a_flip_of_any_synced_byte_is_found() {
    let dir = folder();
    let wal = start(&dir, 1, None, 1, 8192);
    let texts = ["one", "two", "three"];
    let end = fill(&wal, 1, &texts, true);
    let (mut framer, mut out) = (wal.framer(), Vec::new());
    while framer.offset() < end {
        framer.batch(&mut out, Seq(1), 0, b"twelve bytes", 0);
    }
    assert_eq!(framer.offset(), end, "the test knows the length of its records");
    out.clear();
    framer.mark(&mut out, end);
    wal.write(&out, end).expect("written");
    let content = read_all(&fs(), wal.path()).expect("read");
    for at in (0..512).chain(4096..content.len()) {
        for bit in [0, 7] {
            let mut flipped = content.clone();
            flipped[at] ^= 1 << bit;
            put(wal.path(), &flipped);
            let (seen, recovered) = replay(&dir, 1, false);
            match recovered {
                Ok(_) => assert_eq!(keys(&seen), texts, "flip at {at}"),
                Err(Error::Corruption { .. }) => assert_eq!(keys(&seen), texts[..seen.len()]),
                Err(error) => panic!("flip at {at}: {error}"),
            }
            if (4096..end as usize).contains(&at) && (at - 4096) % 40 < 36 {
                let (seen, recovered) = replay(&dir, 1, true);
                let recovered = recovered.expect("salvaged");
                assert!(recovered.damage.is_some() && seen.len() < 3, "flip at {at}");
            }
        }
    }
}

#[test]
fn unsynced_records_may_be_lost_in_any_order() {
    let dir = folder();
    let wal = start(&dir, 1, None, 1, 0);
    fill(&wal, 1, &["one", "two", "three"], false);
    let mut content = read_all(&fs(), wal.path()).expect("read");
    content[4096 + 48..4096 + 60].fill(0);
    put(wal.path(), &content);
    let (seen, recovered) = replay(&dir, 1, false);
    assert_eq!(keys(&seen), ["one"]);
    assert_eq!(recovered.expect("nothing was promised").end.expect("a log").len, 4096 + 40);
}

#[test]
fn seals_hide_what_a_failed_append_left() {
    let dir = folder();
    let first = start(&dir, 1, None, 1, 0);
    let end = fill(&first, 1, &["one", "two", "failed"], false) - 40;
    let seal = first.seal(end, end, SealKind::FailedAppend);
    let second = start(&dir, 4, Some(seal), 4, 0);
    fill(&second, 4, &["four"], false);
    let (seen, recovered) = replay(&dir, 1, false);
    assert_eq!(seen, [(1, "one".into()), (2, "two".into()), (4, "four".into())]);
    let recovered = recovered.expect("sound");
    assert_eq!((recovered.live.len(), recovered.seq_floor), (2, Seq(4)));

    // Sealed bytes must be there.
    let content = read_all(&fs(), first.path()).expect("read");
    for at in 4096..end as usize {
        let mut flipped = content.clone();
        flipped[at] ^= 1;
        put(first.path(), &flipped);
        let recovered = replay(&dir, 1, false).1;
        let padding = recovered.is_ok_and(|recovered| recovered.batches == 3);
        assert!(padding || replay(&dir, 1, false).1.is_err(), "flip at {at}");
    }
    put(first.path(), &content[..end as usize - 1]);
    assert!(replay(&dir, 1, false).1.is_err());

    // A missing predecessor, or another one of the same number.
    fs().remove(first.path()).expect("removed");
    assert!(matches!(replay(&dir, 1, false).1, Err(Error::Corruption { .. })));
    assert_eq!(replay(&dir, 4, false).1.expect("not needed").batches, 1);
    let other = prepare_next(&fs(), &dir, 1, 99, 0, None).expect("prepared");
    let other = other.start(None, Seq(1)).expect("started");
    fill(&other, 1, &["other", "other"], false);
    assert!(matches!(replay(&dir, 1, false).1, Err(Error::Corruption { .. })));
    fs().remove(second.path()).expect("removed");
    assert!(matches!(replay(&dir, 4, false).1, Err(Error::Corruption { .. })));
}

#[test]
fn a_successor_begun_before_the_sync() {
    let dir = folder();
    let first = start(&dir, 1, None, 1, 0);
    let end = fill(&first, 1, &["one", "two"], false);
    let next = prepare_next(&fs(), &dir, 2, 77, 0, None).expect("prepared");
    let seal = first.seal(end, 4096, SealKind::Clean);
    let second = next.begin(Some(seal), Seq(3)).expect("begun");
    fill(&second, 3, &["three"], false);
    assert_eq!(keys(&replay(&dir, 1, false).0), ["one", "two", "three"]);
    let content = read_all(&fs(), first.path()).expect("read");
    put(first.path(), &content[..end as usize - 20]);
    let (seen, recovered) = replay(&dir, 1, false);
    let recovered = recovered.expect("a crash can do this");
    assert_eq!(keys(&seen), ["one"]);
    assert_eq!(recovered.unused, [wal_path(&dir, 2)]);
    // The next recovery finds the successor of this one, and the file given up beside it.
    start(&dir, 3, recovered.end, 9, 0);
    let (seen, again) = replay(&dir, 1, false);
    assert_eq!(keys(&seen), ["one"]);
    assert_eq!(again.expect("sound").unused, [wal_path(&dir, 2)]);
    // But a proof of a sync makes it damage.
    fs().remove(&wal_path(&dir, 3)).expect("removed");
    fill(&second, 3, &["three", "four"], true);
    assert!(matches!(replay(&dir, 1, false).1, Err(Error::Corruption { .. })));
}

#[test]
fn a_recycled_file_shows_nothing_of_its_earlier_life() {
    let dir = folder();
    let old = start(&dir, 1, None, 1, 1 << 16);
    fill(&old, 1, &["old"; 500], true);
    let next = prepare_next(&fs(), &dir, 5, 6, 1 << 17, Some(old.path())).expect("prepared");
    assert!(next.was_recycled());
    assert!(!fs().exists(old.path()).expect("asked"));
    let (seen, recovered) = replay(&dir, 0, false);
    assert!(seen.is_empty());
    assert_eq!(recovered.expect("sound").unused, [PathBuf::from(next.path())]);
    let new = next.start(None, Seq(600)).expect("started");
    fill(&new, 600, &["new", "newer"], true);
    let (seen, recovered) = replay(&dir, 5, false);
    assert_eq!(seen, [(600, "new".into()), (601, "newer".into())]);
    let end = recovered.expect("sound").end.expect("a log");
    assert_eq!((end.number, end.uid, end.len), (5, 6, 4096 + 80));
    assert_eq!(fs().open(new.path(), OpenOptions::READ).expect("there").len().ok(), Some(1 << 17));
}

#[test]
fn a_large_batch_lets_small_ones_pass() {
    let dir = folder();
    let first = start(&dir, 1, None, 1, 0);
    let mut large = Batch::default();
    large.put(TreeId(2), b"large", &vec![7; 300_000]);
    let parts: Vec<_> = fragments(42, large.payload()).collect();
    assert_eq!(parts.len(), 5);
    let (mut framer, mut out, small) = (first.framer(), Vec::new(), batch("small"));
    for part in &parts[..4] {
        framer.fragment(&mut out, 0, part);
    }
    framer.batch(&mut out, Seq(1), 0, small.payload(), small.checksum());
    first.write(&out, 4096).expect("written");
    first.sync().expect("synced");
    let end = framer.offset();
    let second = start(&dir, 2, Some(first.seal(end, end, SealKind::Clean)), 2, 0);
    let (mut framer, mut out) = (second.framer(), Vec::new());
    framer.fragment(&mut out, 0, &parts[4]);
    framer.commit(&mut out, Seq(2), 0, &Commit::new(42, large.payload()));
    framer.batch(&mut out, Seq(3), 0, small.payload(), small.checksum());
    second.write(&out, 4096).expect("written");
    let (seen, recovered) = replay(&dir, 1, false);
    assert_eq!(seen, [(1, "small".into()), (2, "large".into()), (3, "small".into())]);
    assert_eq!(recovered.expect("sound").batches, 3);
    // Once the batch is flushed, its first fragments may go; the last ones are then no damage.
    let (seen, recovered) = replay(&dir, 2, false);
    assert_eq!(seen, [(3, "small".into())]);
    assert_eq!(recovered.expect("sound").batches, 1);
}

#[test]
fn any_content_answers() {
    let dir = folder();
    let wal = start(&dir, 1, None, 1, 0);
    fill(&wal, 1, &["one", "two", "three"], true);
    let content = read_all(&fs(), wal.path()).expect("read");
    let mut x = 1_u64;
    for _ in 0..2000 {
        let mut damaged = content.clone();
        for _ in 0..1 + x % 5 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (x >> 33) as usize % damaged.len();
            damaged[at] = (x >> 20) as u8;
        }
        put(wal.path(), &damaged);
        let seen = replay(&dir, 1, false).0;
        assert_eq!(keys(&seen), ["one", "two", "three"][..seen.len()]);
    }
}

/// The places of puts of a tree, in the order of their sequence numbers.
#[test]
fn values_are_located() {
    let dir = folder();
    let long = |text: &str| format!("{text}, which is longer than a place").into_bytes();
    let mut batch = Batch::default();
    batch.put(TreeId(1), b"a", &long("a"));
    batch.put(TreeId(2), b"a", &long("another tree's"));
    batch.delete(TreeId(1), b"b");
    batch.put(TreeId(1), b"c", b"short");
    batch.keep(TreeId(1), b"hot", Seq(2), &long("hot"));
    let mut wals = Vec::new();
    // The second file is in use: behind its records are zeros.
    for (number, seq) in [(5, 10), (6, 20)] {
        let seal = wals.last().map(|wal: &WalFile| wal.seal(4096, 4096, SealKind::Clean));
        let wal = start(&dir, number, seal, seq, 3 << 20);
        let (mut out, mut framer) = (Vec::new(), wal.framer());
        framer.batch(&mut out, Seq(seq), 0, batch.payload(), batch.checksum());
        framer.mark(&mut out, 0);
        framer.batch(&mut out, Seq(seq + 5), 0, batch.payload(), batch.checksum());
        wal.write(&out, 4096).expect("written");
        wals.push(wal);
    }
    let look = |seqs| {
        locate(&fs(), &dir, &[(5, 1 << 20), (6, 1 << 20)], &Wanted { tree: TreeId(1), seqs })
    };
    let located = look(Seq(0)..=Seq(100)).expect("sound");
    assert_eq!(located.len(), 8, "two of each batch");
    let read = |place: Place| {
        let content = read_all(&fs(), &wal_path(&dir, place.wal)).expect("there");
        let (from, len) = (place.offset as usize, place.len as usize);
        (place.wal, content[from..from + len].to_vec())
    };
    for (seq, wal) in [(10, 5), (15, 5), (20, 6), (25, 6)] {
        assert_eq!(located.place(Seq(seq), &long("a")).map(read), Some((wal, long("a"))));
        assert_eq!(located.place(Seq(seq), &long("b")), None, "of the same length");
        assert_eq!(located.place(Seq(seq + 1), &long("another tree's")), None);
        assert_eq!(located.place(Seq(seq + 3), b"short"), None);
    }
    // A hot key has the number under which it was put.
    assert!(located.place(Seq(2), &long("hot")).map(read).is_some_and(|(_, v)| v == long("hot")));
    assert_eq!(located.place(Seq(14), &long("hot")), None);
    let some = look(Seq(15)..=Seq(20)).expect("sound");
    assert_eq!(some.len(), 3);
    assert!(some.place(Seq(10), &long("a")).is_none() && some.place(Seq(15), &long("a")).is_some());
    let wanted = Wanted { tree: TreeId(1), seqs: Seq(0)..=Seq(100) };
    // Of the fifth WAL only the first record counts.
    let first = 4096 + record_len(batch.payload().len());
    let some = locate(&fs(), &dir, &[(5, first)], &wanted).expect("sound");
    assert_eq!(some.len(), 2);
    let some = locate(&fs(), &dir, &[(5, first - 1)], &wanted).expect("sound");
    assert!(some.is_empty());
    assert!(locate(&fs(), &dir, &[(9, first)], &wanted).is_err());
}
