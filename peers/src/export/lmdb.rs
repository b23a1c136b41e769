//! LMDB: an environment opened to read only, one read transaction over all databases: one moment of
//! the store, also beside a process that writes it.
//!
//! - Named databases become keyspaces of their names. The unnamed one becomes `default`, without
//!   its records that are named databases, and only if it has others or is the only one.
//! - Several values of a key (`DUP_SORT`) and keys that are compared from their ends
//!   (`REVERSE_KEY`) are refused.
//! - Integers as keys (`INTEGER_KEY`), which have the machine's byte order, become big-endian: then
//!   their bytes sort as they do.
//! - A comparator set by the program (`mdb_set_compare`) leaves no trace in the file: its keys come
//!   over and are ordered by their bytes.

use super::{Lines, Outcome, chosen};
use crate::stores::lmdb::open_to_read;
use heed::types::Bytes;
use heed::{CommitOrAbort, DatabaseOpener, MdbError, RoTxn, WithTls};
use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

/// Flags of a database in its record of the unnamed one (`MDB_db::md_flags`, at byte 4).
const REVERSE_KEY: u16 = 0x02;
const DUP_SORT: u16 = 0x04;
const INTEGER_KEY: u16 = 0x08;
/// Bytes of that record.
const RECORD: usize = 48;
const UNNAMED: &str = "default";

type Opener<'e> = DatabaseOpener<'e, WithTls>;
type Txn<'e> = RoTxn<'e, WithTls>;

/// A failure in heed's closure, which wants heed's errors to be converted.
struct Why(String);

impl From<heed::Error> for Why {
    fn from(error: heed::Error) -> Self {
        Self(format!("LMDB: {error}"))
    }
}

impl From<String> for Why {
    fn from(why: String) -> Self {
        Self(why)
    }
}

pub fn export(path: &Path, only: &[String], lines: &mut Lines<impl Write>) -> Outcome {
    let env = open_to_read(path).map_err(|error| format!("LMDB: {error}"))?;
    let txn = env.read_txn().map_err(|error| format!("LMDB: {error}"))?;
    let done = env.open_databases_and_commit(txn, |opener, txn| {
        write(opener, txn, only, lines)?;
        Ok::<_, Why>(CommitOrAbort::<(), ()>::Abort(()))
    });
    done.map(drop).map_err(|Why(why)| why)
}

/// A named database.
struct Named {
    name: String,
    flags: u16,
}

fn write(
    opener: &Opener<'_>,
    txn: &Txn<'_>,
    only: &[String],
    lines: &mut Lines<impl Write>,
) -> Result<(), Why> {
    let Some(unnamed) = opener.open_database::<Bytes, Bytes>(txn, None)? else { return Ok(()) };
    let (mut named, mut others) = (Vec::new(), 0_u64);
    for pair in unnamed.iter(txn)? {
        let (key, record) = pair?;
        match database(opener, txn, key, record)? {
            Some(database) => named.push(database),
            None => others += 1,
        }
    }
    if others > 0 && named.iter().any(|database| database.name == UNNAMED) {
        let why = "records of the unnamed database and a database `default` would be mixed: name \
                   the databases with --only";
        if only.is_empty() || only.iter().any(|name| name == UNNAMED) {
            return Err(Why(why.into()));
        }
    }
    let mut names: Vec<String> = named.iter().map(|database| database.name.clone()).collect();
    if others > 0 || named.is_empty() {
        names.push(UNNAMED.to_owned());
    }
    let names = chosen(names, only, "database")?;
    named.retain(|database| names.contains(&database.name));
    named.iter().try_for_each(refuse)?;
    for database in &named {
        lines.keyspace(&database.name)?;
        let opened = opener.open_database::<Bytes, Bytes>(txn, Some(&database.name))?;
        let opened = opened.ok_or_else(|| format!("database {:?} is gone", database.name))?;
        for pair in opened.iter(txn)? {
            let (key, value) = pair?;
            lines.pair(&portable(key, database.flags), value)?;
        }
    }
    if names.iter().any(|name| name == UNNAMED) && named.iter().all(|db| db.name != UNNAMED) {
        lines.keyspace(UNNAMED)?;
        let mut last: Option<Vec<u8>> = None;
        for pair in unnamed.iter(txn)? {
            let (key, value) = pair?;
            if last.as_deref() == Some(key) {
                return Err(Why(several("the unnamed database")));
            }
            last = Some(key.to_vec());
            if database(opener, txn, key, value)?.is_none() {
                lines.pair(key, value)?;
            }
        }
    }
    Ok(())
}

/// The named database of a record in the unnamed one; none if it is a record of the user's.
fn database(
    opener: &Opener<'_>,
    txn: &Txn<'_>,
    key: &[u8],
    record: &[u8],
) -> Result<Option<Named>, Why> {
    let (Ok(name), true) = (str::from_utf8(key), record.len() == RECORD) else { return Ok(None) };
    if name.contains('\0') {
        return Ok(None);
    }
    match opener.open_database::<Bytes, Bytes>(txn, Some(name)) {
        Ok(Some(_)) => {
            let flags = u16::from_ne_bytes([record[4], record[5]]);
            Ok(Some(Named { name: name.to_owned(), flags }))
        }
        Ok(None) | Err(heed::Error::Mdb(MdbError::Incompatible)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn refuse(database: &Named) -> Result<(), Why> {
    let Named { name, flags } = database;
    if flags & DUP_SORT != 0 {
        return Err(Why(several(&format!("database {name:?}"))));
    }
    if flags & REVERSE_KEY != 0 {
        return Err(Why(format!(
            "database {name:?} compares keys from their ends (REVERSE_KEY); vlsm orders them from \
             their first bytes: write it over in your program, or leave it out with --only"
        )));
    }
    Ok(())
}

fn several(what: &str) -> String {
    format!(
        "{what} can have several values of a key (DUP_SORT), where vlsm has one: write it over in \
         your program, with the value in the key, or leave it out with --only"
    )
}

/// An integer as big-endian bytes; other keys as they are.
fn portable(key: &[u8], flags: u16) -> Cow<'_, [u8]> {
    if flags & INTEGER_KEY == 0 || cfg!(target_endian = "big") {
        return Cow::Borrowed(key);
    }
    Cow::Owned(key.iter().rev().copied().collect())
}
