//! The part of a damaged log that is kept, and the content of the files that are lost.
//!
//! The log is kept up to the first damage: the files from the first needed one on, each followed by
//! its successor, and the part of the damaged file before the damage.
//!
//! Threads: none; all calls block on the device.

use crate::fs::{Fs, read_all};
use crate::record::{Header, RecordKind, Records, WAL_MAGIC};
use crate::wal::files::{Candidate, Found};
use crate::wal::reader::{LiveWal, RecoverOptions, Recovered};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use vlsm_core::Seq;

/// A WAL file after the damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostWal {
    /// Its path.
    pub path: PathBuf,
    /// Its readable batches that were not handed out. Some of them may be in tables.
    pub batches: u64,
    /// The sequence numbers of the first and last such batch.
    pub seqs: Option<(Seq, Seq)>,
}

/// The files from the first needed one on, as long as each follows the one before it. This is the
/// rest of a log in which a file is missing or replaced by another one.
pub(super) fn whole_begin(options: RecoverOptions<'_>, found: Found) -> Vec<Candidate> {
    let begins = |file: &Candidate| match file.header.predecessor {
        None => true,
        Some(seal) => seal.number < options.min_wal,
    };
    let mut files = found.started.into_values().peekable();
    let mut chain: Vec<Candidate> = Vec::new();
    while let Some(file) = files.next() {
        let follows = match (chain.last(), file.header.predecessor) {
            (Some(last), Some(seal)) => {
                (seal.number, seal.uid) == (last.header.number, last.header.uid)
            }
            _ => false,
        };
        if file.header.predecessor.is_none() {
            // This file took over from all files before it.
            chain.clear();
        }
        if follows || (chain.is_empty() && begins(&file)) {
            chain.push(file);
        } else if files.peek().is_none_or(|next| next.header.predecessor.is_some()) {
            break;
        }
    }
    chain
}

/// The files that hold or may hold what follows the damage: those that were not handed out, and the
/// last one that was, if anything lies behind its end. That one need not be the file in which the
/// damage was found: if later files are damaged, an end that looks torn may be damage, too.
pub(super) fn lost(fs: &dyn Fs, recovered: &Recovered, all: Vec<(u64, PathBuf)>) -> Vec<LostWal> {
    let last = |number: u64| recovered.live.last().filter(|last| last.number == number);
    let is_live = |number: u64| recovered.live.iter().any(|live| live.number == number);
    // The files before the first one that was handed out are not needed any more.
    let first = recovered.live.first().map_or(0, |live| live.number);
    let lost = all.into_iter().filter(|(number, path)| {
        let behind = last(*number).is_some_and(|last| holds_more(fs, path, last));
        *number >= first && (behind || !is_live(*number))
    });
    lost.map(|(number, path)| {
        let from = last(number).map_or(0, |last| last.len);
        let seqs: Vec<Seq> = later_batches(fs, &path, from).unwrap_or_default();
        let ends = seqs.first().copied().zip(seqs.last().copied());
        LostWal { path, batches: seqs.len() as u64, seqs: ends }
    })
    .collect()
}

/// Whether anything but zeros lies behind the end of a file's records.
fn holds_more(fs: &dyn Fs, path: &Path, live: &LiveWal) -> bool {
    let Ok(content) = read_all(fs, path) else { return true };
    let rest = content.get(live.len as usize..).unwrap_or_default();
    rest.iter().any(|byte| *byte != 0)
}

/// The first sequence numbers of a file's readable batches from an offset on. After an unreadable
/// record the place of the next one is unknown, so every place is tried.
fn later_batches(fs: &dyn Fs, path: &Path, from: u64) -> std::io::Result<Vec<Seq>> {
    let content = Bytes::from(read_all(fs, path)?);
    let Ok(header) = Header::decode(&content, WAL_MAGIC, path) else { return Ok(Vec::new()) };
    let mut records = Records::new(content, header.uid);
    let mut found = Vec::new();
    loop {
        for record in records.by_ref().filter(|record| record.offset >= from) {
            if matches!(record.head.kind, RecordKind::Batch | RecordKind::Commit) {
                found.push(record.head.seq);
            }
        }
        if !records.skip_damage() {
            return Ok(found);
        }
    }
}
