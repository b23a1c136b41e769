//! Checks a store completely: every byte of every file, and every invariant of its trees.
//!
//! 1. The check takes a shared lock, as a read-only open does, so no process writes meanwhile. It
//!    changes nothing.
//! 2. The manifest: every record is read. The resulting trees satisfy V1 and V2 (`core/version`),
//!    every tree lies within its region, and every number in use is below the next number.
//! 3. The SSTs of the trees, one after the other: each exists and matches the manifest, and all its
//!    blocks are intact (`disk/sst/check`).
//! 4. The order of the trees, if all their SSTs are intact (`order`): newer entries lie higher
//!    (V3).
//! 5. The WAL: the chain of files, and every record up to the possible end of the WAL.
//! 6. Files that nothing references.
//!
//! The meaning of values is not checked: a key whose operands cannot be combined is no finding,
//! because a user's operators are not known here, and newer writes may be in the WAL. An iterator
//! finds such keys ([`Iter::failed_key`](crate::Iter::failed_key)).
//!
//! The check continues after a problem. If the manifest cannot be read, each SST and WAL is still
//! checked by itself. Memory: the manifest's tables, one SST's index and filter with a megabyte of
//! its blocks; in step 4 one SST for each run; in step 5 one WAL.

mod order;

use crate::aside::ASIDE;
use crate::device;
use crate::engine::Engine;
use crate::follow::{Look, alone, look, patiently};
use crate::open::enter_read_only;
use crate::paths::absolute;
use crate::read::table_cache::Held;
use crate::recovery::recover_options;
use crate::shared::{Shared, published, reserve};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{Error, FileMeta, FileNumber, KeyRange, Result, Seq, TreeId, units};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::{File, OpenOptions, read_all};
use vlsm_disk::manifest::{self, State, manifest_number};
use vlsm_disk::record::{Records, Tail};
use vlsm_disk::sst::check::check;
use vlsm_disk::sst::{Properties, SstReader};
use vlsm_disk::sst::{sst_number, sst_path, sst_paths, values_numbers};
use vlsm_disk::wal::reader::{Recovered, Replayed, read_header, recover};
use vlsm_disk::wal::{Entries, wal_number, wal_path};

/// The most findings in a report.
const FINDINGS_MAX: usize = 1000;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Written data cannot be read, or the store is inconsistent.
    Damage,
    /// An unneeded file. It is harmless.
    Leftover,
}

impl Severity {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Leftover => "leftover",
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The severity of the problem.
    pub severity: Severity,
    /// The file or folder.
    pub path: PathBuf,
    /// The offset of the problem in the file, if it has one.
    pub offset: Option<u64>,
    /// A description of the problem. It contains no key and no value.
    pub what: String,
    /// The recommended action.
    pub advice: &'static str,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The findings in the order of the checks; at most 1,000 are kept.
    pub findings: Vec<Finding>,
    /// The number of findings beyond those.
    pub more: u64,
    /// Whether any finding is damage.
    pub damaged: bool,
    /// SSTs read.
    pub ssts: u64,
    /// Entries of the SSTs that the manifest names.
    pub entries: u64,
    /// WAL files in use.
    pub wals: u64,
    /// Batches in these files.
    pub batches: u64,
    /// Bytes read from SSTs and WALs.
    pub bytes: units::ByteCount,
}

/// The progress of a check.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct VerifyProgress<'a> {
    /// The current file.
    pub path: &'a Path,
    /// Bytes checked so far.
    pub done: units::ByteCount,
    /// Bytes in total, as far as the manifest records them.
    pub total: units::ByteCount,
}

/// Checks a store completely, without changing it.
///
/// The report contains the problems; the call fails only if there is nothing to check. The check
/// covers bytes and order, not the meaning of values: [`Iter::failed_key`](crate::Iter::failed_key)
/// finds keys that a merge operator cannot combine.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// let db = vlsm::Db::open(&path)?;
/// db.put("apple", "green")?;
/// db.close()?;
/// let report = vlsm::verify(&path)?;
/// assert!(!report.damaged, "{:?}", report.findings);
/// assert_eq!(report.batches, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Missing`], [`Error::NotAStore`], [`Error::Locked`], or an error of reading the folder.
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport> {
    let env: Arc<dyn Env> = RealEnv::new();
    verify_with(&env, path.as_ref(), &mut |_| {})
}

/// As [`verify`], in another environment, with a callback for progress. A panic of `progress` ends
/// the call; nothing is changed, and the store's lock is released.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
    env: &Arc<dyn Env>,
    path: &Path,
    progress: &mut dyn FnMut(VerifyProgress<'_>),
) -> Result<VerifyReport> {
    let path = absolute(&**env.fs(), path)?;
    let lock = enter_read_only(env, &path)?;
    let report = verify_locked(env, &path, progress);
    drop(lock);
    report
}

/// As [`verify_with`], for a caller that holds the lock.
pub(crate) fn verify_locked(
    env: &Arc<dyn Env>,
    dir: &Path,
    progress: &mut dyn FnMut(VerifyProgress<'_>),
) -> Result<VerifyReport> {
    let names = env.fs().read_dir(dir).map_err(|error| Error::io("cannot list", dir, error))?;
    let mut names: Vec<PathBuf> = names.into_iter().map(|name| dir.join(name)).collect();
    names.sort();
    let report = VerifyReport::default();
    let total = units::ByteCount::ZERO;
    let held = Held::new();
    let mut check = Check { env, dir, names, report, progress, total, held };
    let (manifest, state) = check.manifest();
    check.ssts(state.as_ref());
    if let Some(state) = &state
        && !check.report.damaged
    {
        check.order(state);
    }
    check.wals(state.as_ref());
    check.strangers(manifest.as_deref());
    Ok(check.report)
}

/// Checks a store that another process writes, as of the moment of a look: the manifest, the SSTs
/// and their order, and the WALs. Other files of the folder belong to that process and are not
/// checked.
pub(crate) fn verify_beside(
    engine: &Engine,
    progress: &mut dyn FnMut(VerifyProgress<'_>),
) -> Result<VerifyReport> {
    let Shared { env, dir, .. } = &*engine.shared;
    let seen = alone(engine)?;
    let Look { state, recovered, held, .. } = patiently(env, dir, || look(engine, &seen))?;
    let (names, total) = (Vec::new(), units::ByteCount::ZERO);
    let report = VerifyReport::default();
    let mut check = Check { env, dir, names, report, progress, total, held };
    check.regions(&dir.join(manifest::CURRENT), &state);
    check.ssts(Some(&state));
    if !check.report.damaged {
        check.order(&state);
    }
    check.replayed(&recovered);
    Ok(check.report)
}

struct Check<'a> {
    env: &'a Arc<dyn Env>,
    dir: &'a Path,
    /// The paths of all files of the folder, sorted.
    names: Vec<PathBuf>,
    report: VerifyReport,
    progress: &'a mut dyn FnMut(VerifyProgress<'_>),
    total: units::ByteCount,
    /// The SSTs of a store that another process writes, which may be gone from the folder.
    held: Held,
}

impl Check<'_> {
    fn find(&mut self, finding: Finding) {
        self.report.damaged |= finding.severity == Severity::Damage;
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(finding);
        } else {
            self.report.more += 1;
        }
    }

    fn damage(&mut self, path: &Path, offset: Option<u64>, what: impl Into<String>) {
        let (path, what, advice) = (path.to_owned(), what.into(), advice(path));
        self.find(Finding { severity: Severity::Damage, path, offset, what, advice });
    }

    /// Records an error as a finding.
    fn failed(&mut self, path: &Path, error: Error) {
        match error {
            Error::Corruption { path, offset, what } => self.damage(&path, Some(offset), what),
            Error::Io { op, path, source } => {
                let what = format!("{op}: {source}");
                let advice = "check the device and the rights of the folder, then verify again";
                let severity = Severity::Damage;
                self.find(Finding { severity, path, offset: None, what, advice });
            }
            error => self.damage(path, None, error.to_string()),
        }
    }

    fn tell(&mut self, path: &Path, done: u64) {
        let done = self.report.bytes + units::ByteCount(done);
        let total = self.total.max(done);
        (self.progress)(VerifyProgress { path, done, total });
    }

    /// Step 2: the current manifest, and the state that it describes.
    fn manifest(&mut self) -> (Option<PathBuf>, Option<State>) {
        let found = match manifest::log::read(&**self.env.fs(), self.dir) {
            Ok(found) => found,
            Err(error) => {
                self.failed(self.dir, error);
                return (None, None);
            }
        };
        let (path, state) = (found.path, found.state);
        self.regions(&path, &state);
        (Some(path), Some(state))
    }

    fn regions(&mut self, path: &Path, state: &State) {
        for keyspace in state.keyspaces.values() {
            for (index, region) in keyspace.regions.iter().enumerate() {
                let end = keyspace.regions.get(index + 1).map(|next| &next.lo);
                self.region(path, state, region.tree, &region.lo, end);
            }
        }
    }

    /// Checks that the tables of a tree lie within its region, and that their numbers are below the
    /// next number.
    fn region(
        &mut self,
        path: &Path,
        state: &State,
        tree: TreeId,
        lo: &Bytes,
        end: Option<&Bytes>,
    ) {
        let Some(version) = state.trees.get(&tree) else {
            return self.damage(path, None, format!("a region has no tree {tree}"));
        };
        let outside =
            |range: &KeyRange| range.lo < *lo || end.is_some_and(|end| !range.ends_before(end));
        for (place, table) in version.tables() {
            let (number, file) = (table.file.number, &table.file);
            if outside(&table.range) {
                let what = format!("SST {number} in {place} lies outside the region of {tree}");
                self.damage(path, None, what);
            }
            if !file.range().overlaps(&table.range) {
                let what = format!("the slice of SST {number} in {place} has none of its keys");
                self.damage(path, None, what);
            }
            if number.0 >= state.numbers.next_file || file.seq_max > state.numbers.last_seq {
                let what = format!("SST {number} in {place} has a number that was never allocated");
                self.damage(path, None, what);
            }
        }
    }

    /// Step 3.
    fn ssts(&mut self, state: Option<&State>) {
        let named: BTreeMap<FileNumber, Arc<FileMeta>> = state
            .iter()
            .flat_map(|state| state.trees.values().flat_map(|version| version.tables()))
            .map(|(_, table)| (table.file.number, table.file.clone()))
            .collect();
        self.total = named.values().map(|file| file.bytes).sum();
        for (number, file) in &named {
            let path = sst_path(self.dir, *number);
            let is_held = self.held.contains_key(&(*number, file.uid));
            let missing = |path: &PathBuf| !is_held && self.names.binary_search(path).is_err();
            match sst_paths(self.dir, file).find(missing) {
                None => self.sst(&path, Some(file)),
                Some(gone) => self.damage(&gone, None, "the manifest names it, but it is missing"),
            }
        }
        for path in self.names.clone() {
            let is_named = |(sst, wal)| named.get(&sst).is_some_and(|f| f.wals.contains(&wal));
            if state.is_some() && values_numbers(&path).is_some_and(|numbers| !is_named(numbers)) {
                self.leftover(&path);
            }
            let Some(number) = path.file_name().and_then(|name| sst_number(Path::new(name))) else {
                continue;
            };
            match state {
                None => self.sst(&path, None),
                Some(_) if !named.contains_key(&number) => self.leftover(&path),
                Some(_) => {}
            }
        }
    }

    fn leftover(&mut self, path: &Path) {
        self.find(Finding {
            severity: Severity::Leftover,
            path: path.to_owned(),
            offset: None,
            what: "it is not needed: a job or a process left it behind".into(),
            advice: "nothing: it is removed when the store is opened for writing",
        });
    }

    /// Checks every byte of one SST, and that it matches the manifest if the manifest names it.
    fn sst(&mut self, path: &Path, expected: Option<&Arc<FileMeta>>) {
        let reader = match self.open(path, expected) {
            Ok(reader) => reader,
            Err(error) => return self.failed(path, error),
        };
        if let Some(file) = expected {
            self.described(path, file, &reader.summary().properties);
        }
        let mut problems = Vec::new();
        let mut more = 0;
        let mut problem = |offset: u64, what: &str| match problems.len() {
            ..FINDINGS_MAX => problems.push((offset, what.to_owned())),
            _ => more += 1,
        };
        let _found = check(&reader, &mut problem, &mut |done| self.tell(path, done));
        for (offset, what) in problems {
            self.damage(path, Some(offset), what);
        }
        self.report.more += more;
        self.report.ssts += 1;
        self.report.entries += expected.map_or(0, |file| file.entries);
        self.report.bytes += reader.summary().bytes;
        self.tell(path, 0);
    }

    fn open(&self, path: &Path, expected: Option<&Arc<FileMeta>>) -> Result<SstReader> {
        let file = self.file(path, expected, OpenOptions::READ.direct(true))?;
        let reader = match expected {
            Some(expected) => SstReader::open(file, path, expected)?,
            None => SstReader::open_unknown(file, path)?,
        };
        self.with_values(reader, expected)
    }

    /// The reader with the WALs that hold values of the SST.
    fn with_values(&self, reader: SstReader, file: Option<&Arc<FileMeta>>) -> Result<SstReader> {
        let held = file.and_then(|file| self.held.get(&(file.number, file.uid)));
        reader.with_values(|wal, path| match held.and_then(|held| held.values_in(wal)) {
            Some(file) => Ok(file),
            None => self.env.fs().open(path, OpenOptions::READ),
        })
    }

    /// Opens an SST, or returns the file that is held open.
    fn file(
        &self,
        path: &Path,
        expected: Option<&Arc<FileMeta>>,
        how: OpenOptions,
    ) -> Result<Arc<dyn File>> {
        let held = expected.and_then(|file| self.held.get(&(file.number, file.uid)));
        match held {
            Some(held) => Ok(held.file.clone()),
            None => {
                let opened = self.env.fs().open(path, how);
                opened.map_err(|error| Error::io("cannot open SST", path, error))
            }
        }
    }

    /// Checks that the manifest and the file's properties agree.
    fn described(&mut self, path: &Path, file: &FileMeta, found: &Properties) {
        let seqs = match file.global_seq {
            None => (found.seq_min, found.seq_max),
            Some(seq) => (seq, seq),
        };
        // A run with hot keys contains entries that are older than the run. A run that was merged
        // from others is as old as these, even if their oldest entries were dropped.
        let wrong_age = match file.global_seq {
            None => seqs.1 > file.seq_max || file.seq_min > file.seq_max,
            Some(_) => (file.seq_min, file.seq_max) != seqs,
        };
        let differences = [
            ("number of entries", file.entries != found.entries),
            ("number of tombstones", file.tombstones != found.tombstones),
            ("number of range tombstones", file.range_tombstones != found.range_tombstones),
            ("smallest key", file.smallest != found.smallest),
            ("largest key", file.largest != found.largest),
            ("upper end", file.largest_exclusive != found.largest_exclusive),
            ("sequence numbers", wrong_age),
        ];
        for (what, _) in differences.into_iter().filter(|(_, differs)| *differs) {
            self.damage(path, None, format!("it does not match the manifest: {what}"));
        }
    }

    /// Step 5. Without a manifest the beginning of the chain is unknown, so each file is checked by
    /// itself.
    fn wals(&mut self, state: Option<&State>) {
        let told = state.and_then(|state| self.log(state));
        let min_wal = state.map_or(0, |state| state.numbers.min_wal);
        for path in self.names.clone() {
            let Some(number) = wal_number(&path).filter(|number| *number >= min_wal) else {
                continue;
            };
            if told.as_ref() != Some(&path)
                && (told.is_some() || state.is_none())
                && let Err(error) = self.lone_wal(&path, number)
            {
                self.failed(&path, error);
            }
        }
    }

    /// Reads the WAL as a recovery would, and returns the file in which it found damage.
    fn log(&mut self, state: &State) -> Option<PathBuf> {
        let options = recover_options(state, false, true);
        let (fs, dir) = (self.env.fs().clone(), self.dir);
        let mut last = Seq::ZERO;
        let mut sink = |batch: Replayed| {
            let path = wal_path(dir, batch.wal);
            let entries = Entries::new(&batch.payload);
            if let Some(Err(what)) = entries.into_iter().find(Result::is_err) {
                self.damage(&path, None, format!("a batch does not decode: {what:?}"));
            }
            if batch.first_seq < last {
                self.damage(&path, None, "sequence numbers fall");
            }
            last = batch.first_seq;
            self.tell(&path, batch.done);
            Ok(())
        };
        match recover(&*fs, dir, options, &mut sink) {
            Ok(recovered) => {
                self.replayed(&recovered);
                None
            }
            Err(error) => {
                let place = match &error {
                    Error::Corruption { path, .. } | Error::Io { path, .. } => path.clone(),
                    _ => self.dir.to_owned(),
                };
                self.failed(dir, error);
                Some(place)
            }
        }
    }

    /// Counts the files and batches of a WAL that was read.
    fn replayed(&mut self, recovered: &Recovered) {
        self.report.wals = recovered.live.len() as u64;
        self.report.batches = recovered.batches;
        let bytes = recovered.live.iter().map(|live| live.len).sum();
        self.report.bytes += units::ByteCount(bytes);
    }

    /// Checks one WAL file without the others.
    fn lone_wal(&mut self, path: &Path, number: u64) -> Result<()> {
        let (header, len) = read_header(&**self.env.fs(), path, number)?;
        self.report.bytes += units::ByteCount(len);
        if !header.started {
            return Ok(());
        }
        let content = read_all(&**self.env.fs(), path);
        let content = content.map_err(|error| Error::io("cannot read WAL", path, error))?;
        let mut records = Records::new(content.into(), header.uid);
        records.by_ref().for_each(drop);
        if let Tail::Damaged(later) = records.tail() {
            let what = format!("a record does not match its checksum, but one at {later} does");
            return Err(Error::corruption(path, records.offset(), what));
        }
        self.report.wals += 1;
        Ok(())
    }

    /// Step 6: the other files in the folder.
    fn strangers(&mut self, manifest: Option<&Path>) {
        for path in self.names.clone() {
            let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned())
            else {
                continue;
            };
            let old = manifest_number(Path::new(&name)).is_some()
                && manifest.is_some_and(|in_use| in_use != path);
            let ours = manifest_number(Path::new(&name)).is_some()
                || sst_number(Path::new(&name)).is_some()
                || values_numbers(Path::new(&name)).is_some()
                || wal_number(Path::new(&name)).is_some()
                || published::FILES.contains(&&*name)
                || matches!(
                    name.as_str(),
                    "CURRENT"
                        | "LOCK"
                        | "LOG"
                        | "LOG.old"
                        | "LOG.rocksdb"
                        | device::NAME
                        | reserve::NAME
                );
            if name == ASIDE {
                self.find(Finding {
                    severity: Severity::Leftover,
                    path,
                    offset: None,
                    what: "files that a salvage gave up: damaged ones, and WALs beyond damage"
                        .into(),
                    advice: "nothing: keep what you may want to look at, remove the rest",
                });
            } else if old
                || name == "CURRENT.tmp"
                || name == device::SCRATCH
                || name.ends_with(".wal.tmp")
            {
                self.leftover(&path);
            } else if !ours {
                self.find(Finding {
                    severity: Severity::Leftover,
                    path,
                    offset: None,
                    what: "it is not a file of the store".into(),
                    advice: "move it elsewhere: only the store's files belong in its folder",
                });
            }
        }
    }
}

/// The recommended action for a damaged file.
fn advice(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("sst") => {
            "its keys cannot be trusted: put the file of this name from a checkpoint of this store \
             in its place, or restore the store from a checkpoint or backup; or read what is left \
             (in the program export --skip-damaged); or open the store with the option \
             salvage_ssts (--salvage-ssts), which drops the file, so that older values of its keys \
             may show again"
        }
        Some("values") => {
            "it holds values of the SST with its first number: restore the store from a checkpoint \
             or backup; or open it with the option salvage_ssts (--salvage-ssts), which drops that \
             SST"
        }
        Some("wal") => {
            "restore the store from a checkpoint or backup; or open it with the option salvage_wal \
             (in the program --salvage-wal), which keeps what comes before the damage and loses \
             the rest"
        }
        _ => "restore the store from a checkpoint or backup",
    }
}
