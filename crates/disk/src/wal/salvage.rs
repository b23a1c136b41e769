//! What is kept of a damaged log, and what is in the files that are not.
//!
//! Kept is the log up to the first damage: files from the first one that is needed on, each
//! followed by its successor, and of the file with the damage what comes before.
//!
//! Threads: none; all calls block on the device.

use crate::fs::{Fs, read_all};
use crate::record::{Header, RecordKind, Records, WAL_MAGIC};
use crate::wal::files::{Candidate, Found};
use crate::wal::reader::{LiveWal, RecoverOptions, Recovered};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use vlsm_core::Seq;

/// A WAL file beyond damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostWal {
    /// Where it lies.
    pub path: PathBuf,
    /// Batches in it that can be read and were not handed out. Some of them may be in tables.
    pub batches: u64,
    /// The sequence numbers of the first and last such batch.
    pub seqs: Option<(Seq, Seq)>,
}

/// The files from the first one that is needed on, as long as each follows the one before it: what
/// is left of a log of which a file is missing or another one.
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
            // It took over from all before it.
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

/// What holds, or may hold, what comes after the damage: of all files those that were not handed
/// out, and the last one that was, where anything lies behind its end. It need not be where the
/// damage was met: an end that looks torn may be damage, too, when what follows is damaged.
pub(super) fn lost(fs: &dyn Fs, recovered: &Recovered, all: Vec<(u64, PathBuf)>) -> Vec<LostWal> {
    let last = |number: u64| recovered.live.last().filter(|last| last.number == number);
    let is_live = |number: u64| recovered.live.iter().any(|live| live.number == number);
    // What lies before the first file that was handed out is not needed any more.
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

/// The first sequence numbers of the batches of a file from an offset on that can be read. After a
/// record that cannot be, nobody knows where the next one begins: every place is tried.
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
