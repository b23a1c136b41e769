//! A damaged store as a repair reads it: the readable part of its manifest, its SSTs one by one,
//! its WALs. Nothing in its folder is changed; a shared lock keeps writers out.

use super::{hopeless, in_use};
use crate::catalog::{self, Catalog};
use crate::escape::escape;
use crate::failure::{Failure, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm::Env;
use vlsm_core::{Error, FileNumber, KeyRange, Table};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::{Fs, Lock, OpenOptions, posix::PosixFs};
use vlsm_disk::manifest::format::Item;
use vlsm_disk::manifest::{Keyspace, Manifest, State, manifest_number};
use vlsm_disk::sst::check::check;
use vlsm_disk::sst::{SstReader, sst_path, sst_paths};
use vlsm_disk::wal::wal_number;

/// The most SSTs without a name in the manifest that are described one by one.
const UNNAMED_SHOWN: usize = 20;

/// A damaged store.
pub struct Source {
    folder: PathBuf,
    pub state: State,
    /// The damage of the manifest.
    damage: Option<String>,
    _lock: Option<Box<dyn Lock>>,
}

/// A table of a damaged SST.
pub struct DamagedTable {
    pub file: FileNumber,
    pub keyspace: String,
    pub range: KeyRange,
    pub error: Error,
}

impl DamagedTable {
    fn new(keyspace: &str, table: &Table, error: Error) -> Self {
        let (keyspace, range) = (keyspace.to_owned(), table.range.clone());
        Self { file: table.file.number, keyspace, range, error }
    }
}

impl Source {
    /// Reads the manifest.
    ///
    /// # Errors
    /// The folder is not a store, is in use, or has no readable manifest.
    pub fn open(folder: &Path) -> Result<Self> {
        let failed = |error: io::Error| Failure::file("cannot list", folder, &error);
        let names = std::fs::read_dir(folder).map_err(failed)?;
        let names = names.map(|entry| Ok(PathBuf::from(entry?.file_name())));
        let names = names.collect::<io::Result<Vec<PathBuf>>>().map_err(failed)?;
        let lock = match PosixFs.lock_shared(&folder.join("LOCK")) {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => return Err(in_use(folder, PosixFs.lock_holder(&folder.join("LOCK")))),
            // No process has it open, or the folder cannot be written to.
            Err(_) => None,
        };
        let (state, damage) = match Catalog::read(folder) {
            Ok(catalog) => (catalog.state, None),
            Err(Failure::Failed(why)) => {
                let (state, path) =
                    beginning(folder, &names).ok_or_else(|| hopeless(folder, &why))?;
                let path = path.display();
                (state, Some(format!("{why}; the state is that of the readable part of {path}")))
            }
            Err(other) => return Err(other),
        };
        Ok(Self { folder: folder.to_owned(), state, damage, _lock: lock })
    }

    /// The tables whose SST is missing or damaged.
    pub fn damaged_tables(&self) -> Vec<DamagedTable> {
        let mut checked: BTreeMap<FileNumber, Option<Error>> = BTreeMap::new();
        let mut found = Vec::new();
        for (keyspace, table) in self.tables() {
            let number = table.file.number;
            let damage = checked.entry(number).or_insert_with(|| {
                let path = sst_path(&self.folder, number);
                damage(&path, &table.file).err()
            });
            found.extend(damage.clone().map(|error| DamagedTable::new(keyspace, table, error)));
        }
        found
    }

    /// All tables, each with the name of its keyspace.
    fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.state.keyspaces.values().flat_map(|keyspace| {
            let trees = keyspace.regions.iter().map(|region| region.tree);
            let versions = trees.filter_map(|tree| self.state.trees.get(&tree));
            let tables = versions.flat_map(|version| version.tables());
            tables.map(|(_, table)| (keyspace.name.as_str(), &**table))
        })
    }

    /// The gaps that a damaged manifest leaves.
    pub fn remarks(&self) -> Vec<String> {
        self.damage.iter().map(|why| format!("the manifest: {why}")).collect()
    }

    /// The keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<&Keyspace> {
        self.state.keyspaces.values().find(|keyspace| keyspace.name == name)
    }

    /// Copies the readable parts of the store's files into a new folder, with a manifest of the
    /// state. Returns the losses other than damaged SSTs. A sound SST that cannot be copied is
    /// added to the damaged ones.
    pub fn copy(&self, target: &Path, damaged: &mut Vec<DamagedTable>) -> Result<Vec<String>> {
        let mut remarks = Vec::new();
        let tables = self.state.trees.values().flat_map(|version| version.tables());
        let files = tables.map(|(_, table)| (table.file.number, &table.file));
        let files: BTreeMap<FileNumber, _> = files.collect();
        let mut named: Vec<PathBuf> = Vec::new();
        for (number, from) in files.into_iter().flat_map(|(number, file)| {
            sst_paths(&self.folder, file).map(move |path| (number, path))
        }) {
            named.push(from.clone());
            let Some(error) = copy(&from, target)? else { continue };
            if !damaged.iter().any(|table| table.file == number) {
                let error = Error::io("cannot read SST", &from, error);
                let tables = self.tables().filter(|(_, table)| table.file.number == number);
                damaged
                    .extend(tables.map(|(keyspace, table)| {
                        DamagedTable::new(keyspace, table, error.clone())
                    }));
            }
        }
        let failed = |error: io::Error| Failure::file("cannot list", &self.folder, &error);
        let (mut others, mut wals) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            if wal_number(&name).is_some() {
                wals.push(path);
            } else if name.extension().is_some_and(|end| end == "sst") && !named.contains(&path) {
                others.push(path);
            }
        }
        for path in wals {
            if let Some(error) = copy(&path, target)? {
                remarks.push(format!("{} is read up to an error: {error}", path.display()));
            }
        }
        // These are leftovers, unless the end of the manifest is missing.
        if self.damage.is_some() || named.iter().any(|path| !path.exists()) {
            others.sort();
            remarks.extend(others.iter().take(UNNAMED_SHOWN).map(|path| unnamed(path)));
            if others.len() > UNNAMED_SHOWN {
                let more = others.len() - UNNAMED_SHOWN;
                remarks.push(format!("{more} more SSTs that the manifest does not name"));
            }
        }
        let env: Arc<dyn Env> = RealEnv::new();
        Manifest::begin(&env, target, &self.state)?;
        Ok(remarks)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Describes an SST that the readable part of the manifest does not name.
fn unnamed(path: &Path) -> String {
    let key = |bytes: &[u8]| {
        let mut text = Vec::new();
        escape(bytes, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let opened = PosixFs.open(path, OpenOptions::READ);
    let opened = opened.map_err(|error| Error::io("cannot open SST", path, error));
    let range = match opened.and_then(|file| SstReader::open_unknown(file, path)) {
        Ok(reader) => {
            let p = &reader.summary().properties;
            format!("keys from {} to {}", key(&p.smallest), key(&p.largest))
        }
        Err(_) => "it cannot be read".to_owned(),
    };
    format!(
        "{} is not saved, because the readable part of the manifest does not name it: either it is \
         newer, and older values of its keys may show again, or it is a leftover of a finished job \
         ({range})",
        path.display()
    )
}

/// Copies the readable beginning of a file durably, and returns the error that ended the copy.
fn copy(from: &Path, folder: &Path) -> Result<Option<io::Error>> {
    let to = folder.join(from.file_name().unwrap_or_default());
    let failed = |error: io::Error| Failure::file("cannot write", &to, &error);
    let mut source = match std::fs::File::open(from) {
        Ok(file) => file,
        Err(error) => return Ok(Some(error)),
    };
    let mut target = std::fs::File::create_new(&to).map_err(failed)?;
    let copied = io::copy(&mut source, &mut target);
    if let Err(error) = &copied
        && error.kind() == io::ErrorKind::StorageFull
    {
        return Err(failed(io::ErrorKind::StorageFull.into()));
    }
    target.sync_all().map_err(failed)?;
    Ok(copied.err())
}

/// The first damage of an SST.
fn damage(path: &Path, file: &vlsm_core::FileMeta) -> vlsm_core::Result<()> {
    let opened = PosixFs.open(path, OpenOptions::READ);
    let opened = opened.map_err(|error| Error::io("cannot open SST", path, error))?;
    let reader = SstReader::open(opened, path, file)?;
    let reader = reader.with_values(|_, path| PosixFs.open(path, OpenOptions::READ))?;
    let mut first = None;
    let mut problem = |offset: u64, what: &str| {
        first.get_or_insert_with(|| Error::corruption(path, offset, what));
    };
    let _counted = check(&reader, &mut problem, &mut |_| {});
    first.map_or(Ok(()), Err)
}

/// The state after the readable beginning of a manifest, and the path of that manifest. It is the
/// one that `CURRENT` names, or the newest that can be read.
fn beginning(folder: &Path, names: &[PathBuf]) -> Option<(State, PathBuf)> {
    let mut numbered: Vec<(u64, PathBuf)> =
        names.iter().filter_map(|name| Some((manifest_number(name)?, folder.join(name)))).collect();
    numbered.sort();
    let current = catalog::current(folder).ok();
    let all = current.into_iter().chain(numbered.into_iter().rev().map(|(_, path)| path));
    all.into_iter().find_map(|path| {
        let mut state = State::default();
        let mut failed = false;
        // The walk ends at the damage, which is already reported.
        let _ = catalog::walk(&path, |_, item| {
            if !failed {
                match item {
                    Item::Store(uid) => state.store_uid = uid,
                    Item::Record(record) => {
                        // A change that contradicts the state ends the walk.
                        let mut next = state.clone();
                        match next.apply(&record) {
                            Ok(()) => state = next,
                            Err(_) => failed = true,
                        }
                    }
                }
            }
            Ok(())
        });
        (!state.keyspaces.is_empty()).then_some((state, path))
    })
}
