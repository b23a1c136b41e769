//! The readable pairs within the ranges of damaged SSTs, read from a copy of the store and written
//! into files for ingest.

use super::source::{DamagedTable, Source};
use super::{Lost, opened};
use crate::failure::{Failure, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use vlsm::{DamagedRange, Salvaged, SstFileWriter};
use vlsm_core::{KeyRange, Kind, TreeId};
use vlsm_disk::fs::{posix::PosixFs, read_all};
use vlsm_disk::record::{HEADER_LEN, Header, Records, WAL_MAGIC};
use vlsm_disk::wal::{Entries, RecordKind, wal_number};

/// Merge operators that this program has.
const KNOWN: [&str; 3] = ["append", "add", "max"];

/// The rescue of one keyspace.
pub struct Rescued {
    pub keyspace: String,
    /// The ranges of its damaged SSTs.
    pub ranges: Vec<KeyRange>,
    /// The readable pairs within the ranges; none if there is no pair.
    pub file: Option<PathBuf>,
    damages: Vec<DamagedRange>,
    /// Holds the file.
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

/// Reads the keyspaces of these tables, if their values are all that has to be kept.
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
        if !is_plain(source, name, &expiring) {
            continue;
        }
        let beside = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = tempfile::tempdir_in(beside.unwrap_or(Path::new(".")));
        let folder =
            folder.map_err(|error| Failure::file("cannot write beside", target, &error))?;
        let ranges: Vec<KeyRange> = tables.iter().map(|table| table.range.clone()).collect();
        let path = folder.path().join("rescued.sst");
        let (mut writer, mut damages) = (None, Vec::new());
        for found in db.keyspace(name)?.salvage() {
            match found? {
                Salvaged::Pair(key, value) if ranges.iter().any(|range| range.contains(&key)) => {
                    let writer = match &mut writer {
                        Some(writer) => writer,
                        none => none.insert(SstFileWriter::create(&path)?),
                    };
                    writer.put(&key, &value)?;
                }
                // Elsewhere it is a key of which no operand is lost.
                Salvaged::Damaged(range) if ranges.iter().any(|r| r.contains(&range.from)) => {
                    damages.push(range);
                }
                _ => {}
            }
        }
        let file = match writer {
            Some(writer) => Some(writer.finish()?.path),
            None => None,
        };
        let keyspace = name.to_owned();
        all.push(Rescued { keyspace, ranges, file, damages, _folder: folder });
    }
    db.close()?;
    Ok(all)
}

/// Whether a keyspace has neither values that expire nor operands that cannot be combined here.
fn is_plain(source: &Source, name: &str, expiring: &BTreeSet<TreeId>) -> bool {
    let Some(keyspace) = source.keyspace(name) else { return false };
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
    let mut found = BTreeSet::new();
    let folder = source.folder();
    let failed = |error: std::io::Error| Failure::file("cannot list", folder, &error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.file_name().is_none_or(|name| wal_number(Path::new(name)).is_none()) {
            continue;
        }
        // A damaged WAL counts as far as it can be read, as in the salvage.
        let Ok(content) = read_all(&PosixFs, &path) else { continue };
        let page = &content[..content.len().min(HEADER_LEN as usize)];
        let Ok(header) = Header::decode(page, WAL_MAGIC, &path) else { continue };
        for record in Records::new(content.into(), header.uid) {
            // A large batch comes in fragments, which may begin within an entry.
            if record.head.kind != RecordKind::Batch {
                continue;
            }
            let entries = Entries::new(&record.payload).map_while(std::result::Result::ok);
            let entries = entries.filter(|entry| entry.kind == Kind::PutExpiring);
            found.extend(entries.map(|entry| entry.tree));
        }
    }
    Ok(found)
}
