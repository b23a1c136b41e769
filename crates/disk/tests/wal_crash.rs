//! The WAL under crashes at every mutating call: no acknowledged sync is lost, the recovered
//! batches are a prefix, and batches that were recovered once stay.

use std::path::{Path, PathBuf};
use vlsm_core::{Result, Seq, TreeId};
use vlsm_disk::Fs;
use vlsm_disk::wal::writer::{Commit, fragments};
use vlsm_disk::wal::{
    Batch, RecoverOptions, Recovered, Rewrite, SealKind, WalFile, prepare_next, recover,
    wal_number, wal_path,
};
use vlsm_testfs::{CrashMode, CrashPoint, SimFs};

const DIR: &str = "/store";

fn disk() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new(DIR)).expect("made");
    fs
}

/// A writer's own record of its progress, against which a recovery is checked.
#[derive(Default, Clone, Debug)]
struct Progress {
    /// Batches handed to the WAL.
    written: u64,
    /// The number of these that were synced and so must survive a crash.
    synced: u64,
    /// The number of the oldest WAL file that the manifest needs.
    min_wal: u64,
}

struct Writer<'a> {
    fs: &'a SimFs,
    progress: Progress,
    wal: Option<WalFile>,
    framer: vlsm_disk::wal::Framer,
    synced: u64,
    number: u64,
}

/// The way in which an open continues the recovered WAL.
#[derive(Clone, Copy, PartialEq)]
enum GoOn {
    /// The new file takes over the batches of the older ones.
    TakeOver,
    /// The new file seals the last one.
    Seal,
}

/// A number that no file of the folder has.
fn free_number(fs: &SimFs) -> u64 {
    let names = fs.read_dir(Path::new(DIR)).expect("listed");
    let number = |name: &PathBuf| wal_number(name).or_else(|| wal_number(&name.with_extension("")));
    names.iter().filter_map(number).max().unwrap_or(0) + 1
}

impl<'a> Writer<'a> {
    fn open(fs: &'a SimFs, min_wal: u64, go_on: GoOn) -> Result<Self> {
        let (dir, number) = (Path::new(DIR), free_number(fs));
        let (seen, recovered, wal) = if go_on == GoOn::TakeOver {
            let mut rewrite = Rewrite::begin(fs, dir, number, number * 31)?;
            let (seen, mut recovered) =
                replay_into(fs, min_wal, |seq, payload| rewrite.add(seq, payload))?;
            recovered.unused.retain(|path| path != rewrite.path());
            recovered.unused.extend(recovered.live.drain(..).map(|live| live.path));
            (seen, recovered, rewrite.finish(8192, Seq(seen + 1))?)
        } else {
            let (seen, recovered) = replay(fs, min_wal)?;
            let next = prepare_next(fs, dir, number, number * 31, 8192, None)?;
            let wal = next.start(recovered.end, Seq(seen + 1))?;
            (seen, recovered, wal)
        };
        for path in &recovered.unused {
            if fs.exists(path).unwrap_or(false) && *path != wal_path(dir, number) {
                fs.remove(path).map_err(|error| vlsm_core::Error::io("remove", path, error))?;
            }
        }
        let progress = Progress { written: seen, synced: seen, min_wal };
        let framer = wal.framer();
        Ok(Self { fs, progress, wal: Some(wal), framer, synced: 0, number })
    }

    fn wal(&self) -> &WalFile {
        self.wal.as_ref().expect("open")
    }

    fn write(&mut self, large: bool) -> Result<()> {
        let mut batch = Batch::default();
        let seq = self.progress.written + 1;
        let value = vec![seq as u8; if large { 100_000 } else { 300 }];
        batch.put(TreeId(1), &seq.to_be_bytes(), &value);
        let (mut out, offset) = (Vec::new(), self.framer.offset());
        if large {
            for part in fragments(seq, batch.payload()) {
                self.framer.fragment(&mut out, self.synced, &part);
            }
            let commit = Commit::new(seq, batch.payload());
            self.framer.commit(&mut out, Seq(seq), self.synced, &commit);
        } else {
            let (payload, checksum) = (batch.payload(), batch.checksum());
            self.framer.batch(&mut out, Seq(seq), self.synced, payload, checksum);
        }
        self.progress.written = seq;
        self.wal().write(&out, offset)
    }

    fn sync(&mut self) -> Result<()> {
        self.wal().sync()?;
        self.synced = self.framer.offset();
        self.progress.synced = self.progress.written;
        Ok(())
    }

    /// Switches to the next file. With `wait` it first waits for the predecessor's sync; otherwise
    /// it syncs both afterwards.
    fn rotate(&mut self, wait: bool, recycled: Option<PathBuf>) -> Result<()> {
        self.number += 1;
        let (dir, uid) = (Path::new(DIR), self.number * 31);
        let next = prepare_next(self.fs, dir, self.number, uid, 8192, recycled.as_deref())?;
        let seq = Seq(self.progress.written + 1);
        let end = self.framer.offset();
        if wait {
            self.sync()?;
            let seal = self.wal().seal(end, end, SealKind::Clean);
            self.wal = Some(next.start(Some(seal), seq)?);
            self.synced = 4096;
        } else {
            let seal = self.wal().seal(end, self.synced, SealKind::Clean);
            let wal = next.begin(Some(seal), seq)?;
            let old = self.wal.replace(wal).expect("open");
            self.framer = self.wal().framer();
            self.synced = 0;
            self.write(false)?;
            old.sync()?;
            self.sync()?;
            return Ok(());
        }
        self.framer = self.wal().framer();
        Ok(())
    }
}

fn replay(fs: &SimFs, min_wal: u64) -> Result<(u64, Recovered)> {
    replay_into(fs, min_wal, |_, _| Ok(()))
}

fn replay_into(
    fs: &SimFs,
    min_wal: u64,
    mut sink: impl FnMut(Seq, &[u8]) -> Result<()>,
) -> Result<(u64, Recovered)> {
    let mut next = None;
    let options = RecoverOptions { min_wal, ..Default::default() };
    let recovered = recover(fs, Path::new(DIR), options, &mut |replayed| {
        let seq = replayed.first_seq.0;
        assert!(next.is_none_or(|next| next == seq), "a hole before {seq}");
        let mut entries = vlsm_disk::wal::Entries::new(&replayed.payload);
        let entry = entries.next().expect("an entry").expect("well formed");
        assert_eq!(entry.key, seq.to_be_bytes());
        assert!(entry.value.iter().all(|byte| *byte == seq as u8));
        next = Some(seq + 1);
        sink(replayed.first_seq, &replayed.payload)
    })?;
    let last = next.map_or(recovered.seq_floor.0.saturating_sub(1), |next| next - 1);
    Ok((last, recovered))
}

/// Writes, syncs, rotates both ways, releases and recycles; records its progress meanwhile.
fn script(fs: &SimFs, progress: &mut Progress, go_on: GoOn) -> Result<()> {
    let mut writer = Writer::open(fs, progress.min_wal, go_on)?;
    let result = (|| {
        for step in 0..14 {
            writer.write(step == 3)?;
            match step {
                1 | 6 | 12 => writer.sync()?,
                4 => {
                    // All earlier batches are flushed, and the manifest records it at once.
                    writer.rotate(true, None)?;
                    writer.progress.min_wal = writer.number;
                }
                8 => writer.rotate(false, None)?,
                10 => {
                    // All batches before the file in use are flushed, so the oldest file is
                    // recycled.
                    writer.progress.min_wal = writer.number;
                    let first = wal_path(Path::new(DIR), writer.number - 2);
                    writer.rotate(true, Some(first))?;
                }
                _ => {}
            }
        }
        Ok(())
    })();
    *progress = writer.progress;
    result
}

#[test]
fn crashes_at_every_call() {
    crashes_at_every_call_of(GoOn::Seal);
    crashes_at_every_call_of(GoOn::TakeOver);
}

fn crashes_at_every_call_of(go_on: GoOn) {
    let whole = disk();
    let before = whole.ops();
    script(&whole, &mut Progress::default(), go_on).expect("nothing fails");
    let mut crashes = 0;
    for op in before + 1..=whole.ops() {
        for after in [false, true] {
            let stopped = disk();
            stopped.set_crash_at(Some(CrashPoint { op, after }));
            let mut progress = Progress::default();
            script(&stopped, &mut progress, go_on).expect_err("stopped");
            let random = (0..20).map(|seed| (CrashMode::Random, seed));
            for (mode, seed) in CrashMode::ALL.into_iter().map(|mode| (mode, 99)).chain(random) {
                crashes += 1;
                let what = format!("op {op} after {after} {mode:?} {seed} {progress:?}");
                let fs = stopped.fork();
                fs.crash(mode, seed);
                let (seen, _) =
                    replay(&fs, progress.min_wal).unwrap_or_else(|error| panic!("{what}: {error}"));
                let range = progress.synced..=progress.written;
                assert!(range.contains(&seen), "{what}: {seen}");
                // The recovered batches are also there after the next crash, before and after the
                // log continues.
                fs.crash(CrashMode::LoseAll, 0);
                assert_eq!(replay(&fs, progress.min_wal).expect("sound").0, seen, "{what}");
                let mut again = Progress { min_wal: progress.min_wal, ..Progress::default() };
                script(&fs, &mut again, go_on).unwrap_or_else(|error| panic!("{what}: {error}"));
                fs.crash(CrashMode::LoseAll, 0);
                let (seen, _) = replay(&fs, again.min_wal).expect("sound");
                assert!(seen >= again.synced, "{what}: {seen} {again:?}");
            }
        }
    }
    assert!(crashes > 2000, "{crashes}");
}

#[test]
fn what_a_reopened_store_shows_stays() {
    let fs = disk();
    let mut writer = Writer::open(&fs, 0, GoOn::Seal).expect("opened");
    writer.write(false).and_then(|()| writer.write(false)).expect("written");
    fs.kill();
    assert_eq!(replay(&fs, 0).expect("sound").0, 2);
    fs.crash(CrashMode::LoseAll, 0);
    assert_eq!(replay(&fs, 0).expect("sound").0, 2);
}

#[test]
fn crashes_again_in_recovery() {
    let mut crashes = 0;
    for seed in 0..60 {
        let first = disk();
        first.set_crash_at(Some(CrashPoint { op: 8 + seed, after: seed % 2 == 0 }));
        let mut progress = Progress::default();
        let go_on = if seed % 3 == 0 { GoOn::Seal } else { GoOn::TakeOver };
        if script(&first, &mut progress, go_on).is_ok() {
            continue;
        }
        first.crash(CrashMode::Random, seed);
        let ops = first.ops();
        for op in 1..12 {
            let fs = first.fork();
            fs.set_crash_at(Some(CrashPoint { op: ops + op, after: op % 2 == 0 }));
            let mut second = Progress { min_wal: progress.min_wal, ..Progress::default() };
            let _ = script(&fs, &mut second, go_on);
            crashes += 1;
            fs.crash(CrashMode::Random, seed * 31 + op);
            let (seen, _) = replay(&fs, second.min_wal.max(progress.min_wal))
                .unwrap_or_else(|error| panic!("{seed} {op}: {error}"));
            let synced = progress.synced.max(second.synced);
            assert!(seen >= synced, "{seed} {op}: {seen} of {synced}");
        }
    }
    assert!(crashes > 300, "{crashes}");
}
