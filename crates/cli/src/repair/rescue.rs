//! The readable pairs within the ranges of damaged SSTs, read from a copy of the store and written
//! into files for ingest.

use super::source::{DamagedTable, Source};
use super::{Lost, opened};
use crate::failure::{Failure, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use vlsm::{DamagedRange, Salvaged, SstFileWriter};
use vlsm_core::{KeyRange, Kind, TreeId};
use vlsm_disk::codec::Reader;
use vlsm_disk::fs::{posix::PosixFs, read_all};
use vlsm_disk::manifest::Keyspace;
use vlsm_disk::record::{HEADER_LEN, Header, Records, WAL_MAGIC};
use vlsm_disk::wal::{Entries, RecordKind, wal_number};

/// Merge operators that this program has.
const KNOWN: [&str; 3] = ["append", "add", "max"];

/// The bytes of a fragment before those of its batch.
const FRAGMENT_HEAD: usize = 12;

/// The rescue of one keyspace.
pub struct Rescued {
    pub keyspace: String,
    /// The ranges of its damaged SSTs.
    pub ranges: Vec<KeyRange>,
    /// The readable pairs within the ranges: a file for each region that has any.
    pub files: Vec<PathBuf>,
    damages: Vec<DamagedRange>,
    /// Holds the files.
    _folder: tempfile::TempDir,
}

impl Rescued {
    /// The ranges of keys that could not be read.
    pub fn lost(&self) -> impl Iterator<Item = Lost> {
        self.damages.iter().map(|range| Lost {
            keyspace: self.keyspace.clone(),
            from: range.from.to_vec(),
            to: range.to.clone().map(|key| key.to_vec()),
            why: range.error.to_string(),
            older: false,
        })
    }
}

/// Reads those keyspaces of these tables that are plain (`is_plain`).
pub fn read(source: &Source, target: &Path, damaged: &[DamagedTable]) -> Result<Vec<Rescued>> {
    let mut of: BTreeMap<&str, Vec<&DamagedTable>> = BTreeMap::new();
    for table in damaged {
        of.entry(&table.keyspace).or_default().push(table);
    }
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let expiring = expiring(source)?;
    let (db, _) = opened(target, false)?;
    let mut all = Vec::new();
    for (name, tables) in of {
        let Some(known) = source.keyspace(name) else { continue };
        if !is_plain(source, known, &expiring) {
            continue;
        }
        let beside = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = tempfile::tempdir_in(beside.unwrap_or(Path::new(".")));
        let folder =
            folder.map_err(|error| Failure::file("cannot write beside", target, &error))?;
        let ranges: Vec<KeyRange> = tables.iter().map(|table| table.range.clone()).collect();
        let (mut pairs, mut damages) = (Pairs::new(folder.path(), known), Vec::new());
        for found in db.keyspace(name)?.salvage() {
            match found? {
                Salvaged::Pair(key, value) if ranges.iter().any(|range| range.contains(&key)) => {
                    pairs.put(&key, &value)?;
                }
                // Outside of the ranges, it is a key that has lost no operand.
                Salvaged::Damaged(range) if ranges.iter().any(|r| r.contains(&range.from)) => {
                    damages.push(range);
                }
                _ => {}
            }
        }
        let (keyspace, files) = (name.to_owned(), pairs.finish()?);
        all.push(Rescued { keyspace, ranges, files, damages, _folder: folder });
    }
    db.close()?;
    Ok(all)
}

/// Writes pairs in key order into files for ingest, none of which spans regions.
struct Pairs<'a> {
    folder: &'a Path,
    keyspace: &'a Keyspace,
    /// The file of the region that the last pair is in.
    open: Option<(usize, SstFileWriter)>,
    done: Vec<PathBuf>,
}

impl<'a> Pairs<'a> {
    fn new(folder: &'a Path, keyspace: &'a Keyspace) -> Self {
        Self { folder, keyspace, open: None, done: Vec::new() }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result {
        let region = self.keyspace.regions.partition_point(|region| region.lo.as_ref() <= key);
        if self.open.as_ref().is_some_and(|(of, _)| *of != region) {
            self.close()?;
        }
        let (_, writer) = match &mut self.open {
            Some(open) => open,
            none => {
                let path = self.folder.join(format!("rescued-{region}.sst"));
                none.insert((region, SstFileWriter::create(&path)?))
            }
        };
        Ok(writer.put(key, value)?)
    }

    fn close(&mut self) -> Result {
        if let Some((_, writer)) = self.open.take() {
            self.done.push(writer.finish()?.path);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<PathBuf>> {
        self.close()?;
        Ok(self.done)
    }
}

/// Whether a keyspace has neither values that expire nor operands that cannot be combined here.
fn is_plain(source: &Source, keyspace: &Keyspace, expiring: &BTreeSet<TreeId>) -> bool {
    let unknown = keyspace.options.lines().any(|line| {
        line.strip_prefix("merge_operator = ")
            .is_some_and(|operator| !KNOWN.contains(&operator.trim_matches('"')))
    });
    let expires = |tree: &TreeId| {
        let version = source.state.trees.get(tree);
        let in_ssts = version.into_iter().flat_map(|version| version.tables());
        expiring.contains(tree)
            || in_ssts.into_iter().any(|(_, table)| table.file.expires.is_some())
    };
    let ttl = keyspace.options.contains("ttl");
    !unknown && !ttl && !keyspace.regions.iter().any(|region| expires(&region.tree))
}

/// The trees for which a WAL has values that expire.
fn expiring(source: &Source) -> Result<BTreeSet<TreeId>> {
    let folder = source.folder();
    let failed = |error: std::io::Error| Failure::file("cannot list", folder, &error);
    let mut wals = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let Some(number) = path.file_name().and_then(|name| wal_number(Path::new(name))) {
            wals.insert(number, path);
        }
    }
    let mut found = BTreeSet::new();
    // The fragments of large batches by batch. A batch may continue in the next WAL.
    let mut large: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for path in wals.into_values() {
        // A damaged WAL counts as far as it can be read, as in the salvage.
        let Ok(content) = read_all(&PosixFs, &path) else { continue };
        let page = &content[..content.len().min(HEADER_LEN as usize)];
        let Ok(header) = Header::decode(page, WAL_MAGIC, &path) else { continue };
        for record in Records::new(content.into(), header.uid) {
            match record.head.kind {
                RecordKind::Batch => add_expiring(&record.payload, &mut found),
                RecordKind::Fragment => {
                    // The number of the batch, the index of the fragment, the bytes.
                    let mut reader = Reader::new(&record.payload);
                    let (Ok(batch), Ok(index)) = (reader.u64(), reader.u32()) else { continue };
                    if index == 0 {
                        large.remove(&batch);
                    }
                    let bytes = large.entry(batch).or_default();
                    bytes.extend_from_slice(&record.payload[FRAGMENT_HEAD..]);
                }
                RecordKind::Commit => {
                    // A batch whose first fragments are in no WAL any more is in SSTs.
                    let batch = Reader::new(&record.payload).u64();
                    let bytes = batch.ok().and_then(|batch| large.remove(&batch));
                    bytes.iter().for_each(|payload| add_expiring(payload, &mut found));
                }
                RecordKind::Mark => {}
            }
        }
    }
    Ok(found)
}

/// Adds the trees for which a batch has values that expire.
fn add_expiring(payload: &[u8], trees: &mut BTreeSet<TreeId>) {
    let entries = Entries::new(payload).map_while(std::result::Result::ok);
    let entries = entries.filter(|entry| entry.kind == Kind::PutExpiring);
    trees.extend(entries.map(|entry| entry.tree));
}
