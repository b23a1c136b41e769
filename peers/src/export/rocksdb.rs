//! RocksDB: opened to read only, which replays the WAL into memory, takes no lock and writes
//! nothing. Its log of events, which it would put into the folder, is dropped.
//!
//! - A process that has the store open is not disturbed. The export sees what that process had
//!   written when the export began. A file that it removes meanwhile can end the export with an
//!   error, never with missing pairs.
//! - By default RocksDB stops its replay of the WAL silently at the first record that it cannot
//!   apply: the export would lack everything behind an operand of a merge. So only a torn end of
//!   the last file is tolerated, which a crash or a live writer leaves; anything else is an error.
//! - A column family with a comparator is refused by RocksDB itself: its keys would be ordered by
//!   their bytes here.
//! - Operands of a merge operator cannot be combined, because the operator is code of the program
//!   that wrote them. Reading the first one ends the export. Merged values come over.
//! - Values of a store with a time to live (`open_with_ttl`) end with four bytes of its own.
//! - What a transaction had prepared and not committed does not come over.
//! - Compressed files need the feature `compression`, which is on by default.

use super::{Lines, Outcome, chosen};
use rocksdb::{DB, DBRecoveryMode, InfoLogger, LogLevel, Options, ReadOptions};
use std::io::Write;
use std::path::Path;

pub fn export(path: &Path, only: &[String], lines: &mut Lines<impl Write>) -> Outcome {
    let mut options = Options::default();
    options.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Fatal, |_, _| {}));
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    let names = DB::list_cf(&options, path).map_err(|error| explain(&error))?;
    // RocksDB opens all of them together, or those that are asked for and the default one.
    let wanted = chosen(names.clone(), only, "column family")?;
    let default = "default".to_owned();
    let opened = names.iter().filter(|name| wanted.contains(name) || **name == default);
    let db = DB::open_cf_for_read_only(&options, path, opened, false);
    let db = db.map_err(|error| explain(&error))?;
    for name in &wanted {
        let family = db.cf_handle(name).expect("it was opened by this name");
        lines.keyspace(name)?;
        let mut read = ReadOptions::default();
        read.fill_cache(false);
        read.set_readahead_size(4 << 20);
        let mut pairs = db.raw_iterator_cf_opt(family, read);
        pairs.seek_to_first();
        while let Some((key, value)) = pairs.item() {
            lines.pair(key, value)?;
            pairs.next();
        }
        pairs.status().map_err(|error| format!("column family {name:?}: {}", explain(&error)))?;
    }
    Ok(())
}

/// The error, and what it means for whoever moves over.
fn explain(error: &rocksdb::Error) -> String {
    let text = error.to_string();
    let lower = text.to_lowercase();
    let means = if lower.contains("comparator") {
        "; a column family has a comparator of its own, and vlsm orders keys by their bytes: write \
         it over in your program, with keys whose bytes have that order"
    } else if lower.contains("merge operator") || lower.contains("merge_operator") {
        "; a value waits for its merge operator, which only the program that wrote it has: get \
         such values there and put the result back, flush, and export again"
    } else if lower.contains("compress") {
        "; its files are compressed: this build has no such compression: run peers/build"
    } else if lower.contains("current: no such file") || lower.contains("does not exist") {
        "; is it the folder of a RocksDB store?"
    } else {
        ""
    };
    format!("{text}{means}")
}
