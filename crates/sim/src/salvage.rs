//! Salvages of a damaged log: a store with a chain of WALs, of which one or two files are damaged
//! at a header or a record, cut off, emptied or removed.
//!
//! 1. The log's records are found as the reader finds them. So it is known for each place which
//!    batches lie before it; a salvage must keep exactly those.
//! 2. The damaged store is opened as usual. Either it is refused, and no byte in the folder has
//!    changed, not even in leftovers of a crash; or the damage looks like a torn end of the log.
//! 3. The store is salvaged. It holds the exact prefix, events report the number of lost batches,
//!    and every file from the damage on is kept, byte for byte. Then another salvage finds nothing
//!    to do, `verify` finds no damage, and the store opens as usual and accepts writes.
//! 4. A salvage crashes at any file call. The next open finds the same prefix, or is refused as
//!    before, and every lost file was kept.
//!
//! Each batch is one key, except some large batches in fragments.

use crate::disk::{Damage, Disk};
use crate::env::{End, SimConfig, SimEnv};
use crate::history::Promise;
use crate::oracle::{Pair, Write};
use crate::rng::Rng;
use crate::world::{FOLDER, World, tiny_options, verify};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use vlsm::Options;
use vlsm_core::event::Event;
use vlsm_core::{Bytes, Error};
use vlsm_disk::record::{HEADER_LEN, RECORD_HEADER_LEN, Records};
use vlsm_disk::wal::reader::read_header;
use vlsm_disk::wal::{RecordKind, wal_number};

/// Batches of the log.
const BATCHES: usize = 220;
/// The distance between large batches.
const LARGE: usize = 90;
/// The pairs of a large batch, each of 2 KB.
const LARGE_PAIRS: usize = 140;
/// Leftovers of a crash, which a refused open must not change.
pub const LEFTOVERS: [&str; 3] = ["000900.sst", "000950.wal.tmp", "MANIFEST-000077"];

/// The damage of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hurt {
    /// One bit of the byte at this offset is flipped.
    Flip(u64),
    /// The file ends at this offset.
    Cut(u64),
    /// The file is removed.
    Remove,
}

/// Damaged files of the chain, by index, and the damage of each.
pub type Hurts = Vec<(usize, Hurt)>;

/// The results of salvages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Salvages {
    /// Damaged stores that an open refused.
    pub refused: u64,
    /// Cases of damage that looked like a torn end.
    pub torn: u64,
    /// Cases of damage that changed nothing.
    pub harmless: u64,
    /// Salvages that crashed.
    pub crashed: u64,
    /// Usual opens after such a crash that found the salvage complete.
    pub done: u64,
}

impl Salvages {
    /// Adds the results of other salvages.
    pub fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.torn += other.torn;
        self.harmless += other.harmless;
        self.crashed += other.crashed;
        self.done += other.done;
    }
}

/// A record of the log.
#[derive(Debug, Clone, Copy)]
struct Entry {
    file: usize,
    offset: u64,
    len: u64,
    /// The batch that ends with this record.
    batch: Option<usize>,
}

/// A closed or crashed store with a chain of WALs.
pub struct Chain {
    disk: Disk,
    options: Options,
    /// All pairs in the order of their puts, and the number of pairs up to the end of each batch.
    pairs: Vec<Pair>,
    ends: Vec<usize>,
    /// The WAL files, oldest first, with their lengths.
    pub files: Vec<(PathBuf, u64)>,
    records: Vec<Entry>,
    /// The files that hold fragments of the first large batch.
    spread: BTreeSet<usize>,
}

fn options() -> Options {
    let mut options = tiny_options("vlsm", &mut Rng::new(3));
    (options.workers, options.io_threads) = (1, 1);
    options.wal_file_bytes = Bytes::kib(128);
    options.wal_sync_bytes = Bytes::kib(4);
    options.wal_limit = Bytes::mib(64);
    options.log = false;
    (options.policy.tree.memtable_bytes, options.policy.tree.memtable_count) = (Bytes::mib(1), 2);
    options.memory_limit = options.least_memory() * 8;
    options
}

fn is_large(batch: usize) -> bool {
    batch % LARGE == LARGE - 1
}

fn pairs_of(batch: usize) -> impl Iterator<Item = Pair> {
    let (count, len) = match is_large(batch) {
        true => (LARGE_PAIRS, 2_000),
        false => (1, 60 + batch * 37 % 300),
    };
    (0..count).map(move |n| (format!("{batch:06}/{n:04}").into(), vec![batch as u8; len]))
}

fn writes_of(batch: usize) -> Vec<Write> {
    pairs_of(batch).map(|(key, value)| Write::put(0, key, value)).collect()
}

impl Chain {
    /// Creates a store, and closes it or kills its process.
    ///
    /// # Errors
    /// The failure.
    pub fn new(closed: bool) -> Result<Self, String> {
        let (disk, options) = (Disk::new(), options());
        let given = options.clone();
        let outcome = SimEnv::run(&SimConfig::new(1), &disk, move |env| -> Result<(), Error> {
            let world = World::open(&env, &given)?;
            let mut large = Vec::new();
            for batch in 0..BATCHES {
                let (writer, writes) = (world.clone(), writes_of(batch));
                // Concurrent with the others, so that its fragments lie in several files.
                let write = move || writer.write(&writes, Promise::Process);
                match is_large(batch) {
                    true => large.push(env.task("large", write)),
                    false => write()?,
                }
                // This gives the store time to prepare the next WAL.
                env.sleep(Duration::from_millis(2));
            }
            for task in large {
                task.join().unwrap_or(Err(Error::Closed))?;
            }
            if closed {
                return world.close();
            }
            env.device().crash();
            Ok(())
        });
        match outcome.end {
            End::Done(Err(error)) => return Err(error.to_string()),
            End::Failed(why) => return Err(why),
            End::Done(Ok(())) | End::Crashed => {}
        }
        // Makes all writes durable.
        disk.lose_power(Damage::KeepAll);
        for name in LEFTOVERS {
            disk.set_content(&Path::new(FOLDER).join(name), b"left over".to_vec());
        }
        let (pairs, ends, files, records, spread) = Default::default();
        let mut chain = Self { disk, options, pairs, ends, files, records, spread };
        chain.look().map_err(|error| error.to_string())?;
        if chain.files.len() < 4 || chain.ends.len() != BATCHES || chain.spread.len() < 2 {
            let (files, batches) = (&chain.files, chain.ends.len());
            let spread = &chain.spread;
            return Err(format!("another log than was meant: {batches} in {files:?}, {spread:?}"));
        }
        Ok(chain)
    }

    /// Step 1.
    fn look(&mut self) -> Result<(), Error> {
        let files = self.disk.files().into_iter();
        self.files = files.filter(|(path, _)| wal_number(path).is_some()).collect();
        // Large batches are in the log in their order, and so are small ones.
        let [mut large, mut small] =
            [true, false].map(|large| (0..BATCHES).filter(move |batch| is_large(*batch) == large));
        for (file, (path, _)) in self.files.iter().enumerate() {
            let number = wal_number(path).unwrap_or_default();
            let (header, _) = read_header(&*self.disk.fs(), path, number)?;
            if !header.started {
                continue;
            }
            let content = self.disk.content(path).unwrap_or_default();
            for record in Records::new(content.into(), header.uid) {
                let (offset, len) = (record.offset, record.payload.len() + RECORD_HEADER_LEN);
                if record.head.kind == RecordKind::Fragment && self.ends.len() < LARGE * 3 / 2 {
                    self.spread.insert(file);
                }
                let written = match record.head.kind {
                    RecordKind::Batch => small.next(),
                    RecordKind::Commit => large.next(),
                    _ => None,
                };
                let batch = written.map(|_| self.ends.len());
                self.records.push(Entry { file, offset, len: len as u64, batch });
                if let Some(written) = written {
                    self.pairs.extend(pairs_of(written));
                    self.ends.push(self.pairs.len());
                }
            }
        }
        Ok(())
    }

    /// Damage of each header, every `stride`-th record, and each file as a whole; and of two files
    /// at once.
    #[must_use]
    pub fn hurts(&self, stride: usize) -> Vec<Hurts> {
        let mut hurts = Vec::new();
        for (file, (_, len)) in self.files.iter().enumerate() {
            // Magic, flags, number, uid, length, the predecessor's seal, the checksum.
            let header = [2, 12, 17, 26, 33, 50, 60, 66, 75, 510].map(Hurt::Flip);
            let whole = [Hurt::Remove, Hurt::Cut(0), Hurt::Cut(100), Hurt::Cut(HEADER_LEN)];
            let short = [Hurt::Cut(len - 1), Hurt::Cut(len / 2)];
            let all = header.into_iter().chain(whole).chain(short);
            hurts.extend(all.map(|hurt| vec![(file, hurt)]));
        }
        for (n, record) in self.records.iter().enumerate().step_by(stride) {
            let Entry { file, offset, len, .. } = *record;
            // Checksums, length, synced offset, sequence number, kind, payload.
            let places = [0, 4, 8, 13, 16, 23, 24.min(len - 1), (len + 24) / 2, len - 1];
            let at = places[n / stride % places.len()].min(len - 1);
            hurts.push(vec![(file, Hurt::Flip(offset + at))]);
            let end = if n % 2 == 0 { offset } else { offset + len / 2 };
            hurts.push(vec![(file, Hurt::Cut(end))]);
        }
        let (mut rng, single) = (Rng::new(9), hurts.clone());
        for _ in 0..40 / stride.min(8) {
            let both = [0, 1].map(|_| rng.pick(&single).clone()).concat();
            if both[0].0 != both[1].0 {
                hurts.push(both);
            }
        }
        hurts
    }

    /// The result that a salvage must have.
    fn expected(&self, hurts: &Hurts) -> Expected {
        let (mut kept, mut first, mut unreadable) = (BATCHES, self.files.len(), Vec::new());
        for (file, hurt) in hurts {
            let from = match *hurt {
                Hurt::Remove | Hurt::Flip(..HEADER_LEN) | Hurt::Cut(..HEADER_LEN) => 0,
                Hurt::Flip(at) | Hurt::Cut(at) => at,
            };
            let hit = |r: &&Entry| match *hurt {
                Hurt::Flip(HEADER_LEN..) => r.offset <= from && from < r.offset + r.len,
                _ => r.offset + r.len > from,
            };
            let of_file = self.records.iter().filter(|record| record.file == *file);
            let hit: Vec<&Entry> = of_file.filter(hit).collect();
            // Only zeros behind the records are hit, so nothing is lost.
            if from > 0 && hit.is_empty() {
                continue;
            }
            unreadable.extend(hit.iter().filter_map(|record| record.batch));
            let behind = |r: &&Entry| (r.file, r.offset + r.len) > (*file, from);
            let batch = self.records.iter().filter(behind).find_map(|record| record.batch);
            kept = kept.min(batch.unwrap_or(BATCHES));
            first = first.min(*file);
        }
        let readable = (kept..BATCHES).filter(|batch| !unreadable.contains(batch)).count();
        Expected { kept, readable, first }
    }

    /// The damaged disk, and its remaining WAL files with their bytes.
    fn damaged(&self, hurts: &Hurts) -> (Disk, Vec<(PathBuf, Vec<u8>)>) {
        let disk = self.disk.fork();
        for (file, hurt) in hurts {
            let path = &self.files[*file].0;
            let mut bytes = disk.content(path).unwrap_or_default();
            match hurt {
                Hurt::Flip(at) => bytes[*at as usize] ^= 1 << (at % 8),
                Hurt::Cut(len) => bytes.truncate(*len as usize),
                Hurt::Remove => {
                    // The removal must be durable, like all damage.
                    let _ =
                        disk.fs().remove(path).and_then(|()| disk.fs().sync_dir(Path::new(FOLDER)));
                    continue;
                }
            }
            disk.set_content(path, bytes);
        }
        let left = disk.files().into_keys().filter(|path| wal_number(path).is_some());
        let left = left.map(|path| (path.clone(), disk.content(&path).unwrap_or_default()));
        let left = left.collect();
        (disk, left)
    }

    /// Opens the store and counts its batches.
    fn read(&self, disk: &Disk, how: &Opening) -> Outcome {
        let mut config = SimConfig::new(how.seed).day(how.seed);
        config.device.crash_point = how.crash_point;
        let mut options = self.options.clone();
        options.salvage_wal = how.salvage;
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let (told, more) = (events.clone(), how.more);
        let ran = SimEnv::run(&config, disk, move |env| -> Result<Vec<Pair>, Error> {
            let world = World::open_listening(&env, &options, move |event| {
                if matches!(event, Event::WalLost { .. } | Event::WalDamaged { .. }) {
                    told.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
                }
            })?;
            let found = world.contents()?.pairs(0).map(owned).collect();
            if more {
                world.write(&[Write::put(1, "more", "value")], Promise::Power)?;
            }
            world.close()?;
            Ok(found)
        });
        let events = events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = match ran.end {
            End::Done(Ok(pairs)) => self.batches(&pairs).map(Found::Batches),
            End::Done(Err(error @ Error::Corruption { .. })) => Ok(Found::Refused(error)),
            End::Done(Err(error)) => Err(format!("refused by another error: {error}")),
            End::Crashed => Ok(Found::Crashed),
            End::Failed(why) => Err(format!("{why}\n{}", ran.tail)),
        };
        Outcome { found, events, points: ran.device.mutating * 2 }
    }

    /// The number of batches that these pairs are. They must be the first batches, whole.
    fn batches(&self, found: &[Pair]) -> Result<usize, String> {
        let count = self.ends.partition_point(|end| *end <= found.len());
        let len = count.checked_sub(1).map_or(0, |last| self.ends[last]);
        let mut first = self.pairs[..len].to_vec();
        first.sort();
        if found != first {
            return Err(format!("{} pairs are no prefix of the batches", found.len()));
        }
        Ok(count)
    }

    /// Steps 2 and 3.
    ///
    /// # Errors
    /// The violation.
    pub fn check(&self, hurts: &Hurts, counts: &mut Salvages) -> Result<(), String> {
        let told = |why: String| format!("{:?}: {why}", self.named(hurts));
        self.check_hurts(hurts, counts).map_err(told)
    }

    fn named(&self, hurts: &Hurts) -> Vec<(&Path, Hurt)> {
        hurts.iter().map(|(file, hurt)| (&*self.files[*file].0, *hurt)).collect()
    }

    fn check_hurts(&self, hurts: &Hurts, counts: &mut Salvages) -> Result<(), String> {
        let expected @ Expected { kept, readable, .. } = self.expected(hurts);
        let (disk, left) = self.damaged(hurts);
        let usual = disk.fork();
        match self.read(&usual, &Opening::usual(2)).found? {
            Found::Refused(error) => {
                same(&disk, &usual).map_err(|why| format!("refused ({error}), but {why}"))?;
                counts.refused += 1;
            }
            Found::Batches(BATCHES) => {
                counts.harmless += 1;
                return Ok(());
            }
            Found::Batches(found) if found == kept && self.may_be_torn(hurts) => {
                counts.torn += 1;
                return Ok(());
            }
            Found::Batches(found) => return Err(format!("opened with {found} of {kept} batches")),
            Found::Crashed => return Err("crashed unasked".into()),
        }
        let Outcome { found, events, .. } = self.read(&disk, &Opening::salvage(3));
        let found = found?;
        if !matches!(found, Found::Batches(found) if found == kept) {
            return Err(format!("salvaged {found:?} instead of {kept}"));
        }
        check_events(&events, readable)?;
        self.check_aside(&disk, &expected, hurts, &left)?;
        self.check_usual(&disk, kept)
    }

    /// Whether the damage is in the last files, where a crash could have ended the log.
    fn may_be_torn(&self, hurts: &Hurts) -> bool {
        let last = self.records.last().map_or(0, |record| record.file);
        hurts.iter().all(|(file, _)| file + 1 >= last)
    }

    /// Checks that all files from the first damaged one on are kept, byte for byte.
    fn check_aside(
        &self,
        disk: &Disk,
        expected: &Expected,
        hurts: &Hurts,
        left: &[(PathBuf, Vec<u8>)],
    ) -> Result<(), String> {
        let first = expected.first;
        let last = self.records.last().map_or(0, |record| record.file);
        let aside = disk.files().into_keys().filter(|path| path.starts_with(aside()));
        let aside: Vec<Vec<u8>> = aside.filter_map(|path| disk.content(&path)).collect();
        for (path, bytes) in left {
            let file = self.files.iter().position(|(known, _)| known == path);
            let Some(file) = file.filter(|file| (first..=last).contains(file)) else { continue };
            // If a file was cut off between two records, all its records were handed out.
            let cut = |(hurt, how): &(usize, Hurt)| {
                *hurt == file && matches!(how, Hurt::Cut(HEADER_LEN..))
            };
            if !aside.contains(bytes) && !hurts.iter().any(cut) {
                return Err(format!("{} was not kept", path.display()));
            }
        }
        Ok(())
    }

    /// Checks that the store then behaves like any other.
    fn check_usual(&self, disk: &Disk, kept: usize) -> Result<(), String> {
        let before = contents(disk, &aside());
        let again = self.read(disk, &Opening::salvage(4));
        let found = again.found?;
        if !matches!(found, Found::Batches(found) if found == kept) || !again.events.is_empty() {
            return Err(format!("salvaged again: {found:?}, {:?}", again.events));
        }
        if contents(disk, &aside()) != before {
            return Err("salvaged again, and what is aside changed".into());
        }
        for seed in 5..7 {
            verify(disk)?;
            let found = self.read(disk, &Opening { more: true, ..Opening::usual(seed) }).found?;
            if !matches!(found, Found::Batches(found) if found == kept) {
                return Err(format!("opened again: {found:?} instead of {kept}"));
            }
        }
        Ok(())
    }

    /// Step 4, at every `stride`-th file call of the salvage.
    ///
    /// # Errors
    /// The violation.
    pub fn crash(&self, hurts: &Hurts, stride: u64, counts: &mut Salvages) -> Result<(), String> {
        let (disk, left) = self.damaged(hurts);
        let expected = self.expected(hurts);
        let points = self.read(&disk.fork(), &Opening::salvage(3)).points;
        for point in (0..points).step_by(stride.max(1) as usize) {
            let crashed = disk.fork();
            let opening = Opening { crash_point: Some(point), ..Opening::salvage(3) };
            match self.read(&crashed, &opening).found? {
                Found::Crashed => counts.crashed += 1,
                // Not every run makes as many calls.
                _ => continue,
            }
            let ways = [
                None,
                Some(Damage::LoseAll),
                Some(Damage::KeepAll),
                Some(Damage::KeepEntries),
                Some(Damage::Random(point)),
            ];
            for way in ways {
                let disk = crashed.fork();
                way.map_or_else(|| disk.lose_process(), |damage| disk.lose_power(damage));
                let told = |why: String| {
                    format!("{:?}, crash point {point}, {way:?}: {why}", self.named(hurts))
                };
                self.check_crashed(&disk, &expected, hurts, &left, counts).map_err(told)?;
            }
        }
        Ok(())
    }

    fn check_crashed(
        &self,
        disk: &Disk,
        expected: &Expected,
        hurts: &Hurts,
        left: &[(PathBuf, Vec<u8>)],
        counts: &mut Salvages,
    ) -> Result<(), String> {
        let kept = expected.kept;
        let usual = disk.fork();
        match self.read(&usual, &Opening::usual(8)).found? {
            Found::Batches(found) if found == kept => {
                counts.done += 1;
                self.check_aside(&usual, expected, hurts, left)?;
            }
            Found::Refused(error) => {
                same(disk, &usual).map_err(|why| format!("refused ({error}), but {why}"))?;
            }
            other => return Err(format!("opened after the crash: {other:?}, not {kept}")),
        }
        let found = self.read(disk, &Opening::salvage(9)).found?;
        if !matches!(found, Found::Batches(found) if found == kept) {
            return Err(format!("salvaged after the crash: {found:?}, not {kept}"));
        }
        self.check_aside(disk, expected, hurts, left)?;
        self.check_usual(disk, kept)
    }
}

/// The result that a salvage must have.
struct Expected {
    /// Batches before the damage.
    kept: usize,
    /// Batches after the damage whose last record is readable.
    readable: usize,
    /// The first file that loses something.
    first: usize,
}

/// The way in which a store is opened.
struct Opening {
    seed: u64,
    salvage: bool,
    crash_point: Option<u64>,
    /// Whether a batch is written.
    more: bool,
}

impl Opening {
    fn usual(seed: u64) -> Self {
        Self { seed, salvage: false, crash_point: None, more: false }
    }

    fn salvage(seed: u64) -> Self {
        Self { salvage: true, ..Self::usual(seed) }
    }
}

/// The result of an open.
struct Outcome {
    found: Result<Found, String>,
    events: Vec<Event>,
    /// The crash points of the open.
    points: u64,
}

#[derive(Debug)]
enum Found {
    Batches(usize),
    Refused(Error),
    Crashed,
}

fn owned((key, value): (&[u8], &[u8])) -> Pair {
    (key.to_vec(), value.to_vec())
}

fn aside() -> PathBuf {
    Path::new(FOLDER).join("lost")
}

fn check_events(events: &[Event], readable: usize) -> Result<(), String> {
    if !events.iter().any(|event| matches!(event, Event::WalDamaged { .. })) {
        return Err("nobody was told of the damage".into());
    }
    let lost = events.iter().map(|event| match event {
        Event::WalLost { batches, seqs, .. } if (*batches > 0) == seqs.is_some() => *batches,
        _ => 0,
    });
    let lost = lost.sum::<u64>();
    if lost != readable as u64 {
        return Err(format!("{lost} batches are told lost, and {readable} could be read"));
    }
    Ok(())
}

/// The files within a folder.
#[must_use]
pub fn contents(disk: &Disk, folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = disk.files().into_keys().filter(|path| path.starts_with(folder));
    files.map(|path| (path.clone(), disk.content(&path).unwrap_or_default())).collect()
}

/// Whether two disks hold the same files.
///
/// # Errors
/// The first file that differs.
pub fn same(before: &Disk, after: &Disk) -> Result<(), String> {
    let [before, after] = [before, after].map(|disk| contents(disk, Path::new("/")));
    let paths: Vec<&PathBuf> = before.keys().chain(after.keys()).collect();
    match paths.into_iter().find(|path| before.get(*path) != after.get(*path)) {
        Some(path) => Err(format!("{} has changed", path.display())),
        None => Ok(()),
    }
}
