//! Events as lines of text: for the LOG, and for people. A line begins with the tree that it
//! concerns and the keyspace of that tree. Numbers have their units. A line holds no key.

use super::{Behind, Callback, ChainReport, Event, SlowPath};
use crate::ids::TreeId;
use std::fmt;

/// A tree with the name of its keyspace, in texts. An event of a recovery knows no name yet.
struct Named<'a>(TreeId, &'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(tree, keyspace) = self;
        match keyspace.is_empty() {
            true => write!(f, "{tree}"),
            false => write!(f, "{tree} ({keyspace})"),
        }
    }
}

impl fmt::Display for ChainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, width) = (self.length(), self.width());
        write!(f, "length {length}, width {width}, waited {}", self.waited)
    }
}

impl Callback {
    /// Describes the effect of a panic of such code, and the remedy.
    fn panicked(self, f: &mut fmt::Formatter<'_>, name: &str, keyspace: &str) -> fmt::Result {
        match self {
            Self::MergeOperator => write!(
                f,
                "the merge operator {name:?} of keyspace {keyspace:?} panicked: the operands are \
                 kept unchanged; correct the operator"
            ),
            Self::CompactionFilter => write!(
                f,
                "the compaction filter {name:?} of keyspace {keyspace:?} panicked: the values are \
                 kept unchanged; correct the filter"
            ),
            Self::Listener => write!(
                f,
                "the listener panicked and gets no further events; correct it and reopen the store"
            ),
        }
    }
}

impl Event {
    fn hot_keys_kept(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::HotKeysKept { job, tree, keyspace, keys, bytes } = self else { return Ok(()) };
        let tree = Named(*tree, keyspace);
        write!(f, "{tree} {job} leaves {keys} hot keys ({bytes}) in memory")
    }

    /// The jobs of a tree, its memtables and its chains.
    fn of_tree(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rotated { tree, keyspace, memtable, bytes } => {
                write!(f, "{} rotated {memtable} ({bytes})", Named(*tree, keyspace))
            }
            Self::JobStarted { job, tree, keyspace, kind, from, to, bytes } => {
                let tree = Named(*tree, keyspace);
                write!(f, "{tree} {job} {kind:?} L{from}->L{to} started: {bytes} in")
            }
            Self::JobFinished {
                job,
                tree,
                keyspace,
                kind,
                from,
                to,
                read,
                written,
                files,
                took,
            } => write!(
                f,
                "{} {job} {kind:?} L{from}->L{to} done: read {read}, wrote {written} \
                 in {files} files, {took}",
                Named(*tree, keyspace)
            ),
            Self::ChainEnded { tree, keyspace, chain } => {
                write!(f, "{} chain: {chain}", Named(*tree, keyspace))
            }
            Self::ChainStood { tree, keyspace, chain } => {
                let (length, width) = (chain.length(), chain.width());
                let tree = Named(*tree, keyspace);
                write!(f, "{tree} chain behind L0: length {length}, width {width}")
            }
            _ => Ok(()),
        }
    }

    fn waited(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Waited { cause, took, keyspace, behind } = self else { return Ok(()) };
        write!(f, "a write ")?;
        if let Some(keyspace) = keyspace {
            write!(f, "into {keyspace} ")?;
        }
        write!(f, "waited {took}: {}", cause.name())?;
        match behind.as_deref() {
            Some(Behind { tree, keyspace, chain }) => {
                write!(f, ", behind the chain of {}: {chain}", Named(*tree, keyspace))
            }
            None => Ok(()),
        }
    }

    fn sst_lost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::SstLost { path, error, tree, keyspace, level, entries, seqs } = self else {
            return Ok(());
        };
        let (tree, (first, last)) = (Named(*tree, keyspace), seqs);
        write!(
            f,
            "{} is dropped from L{level} of {tree}: entries lost: {entries}, sequence numbers \
             {first} to {last}: {error}",
            path.display()
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { batches, wal_bytes, took } => {
                write!(f, "opened: replayed {batches} batches ({wal_bytes} of WAL) in {took}")
            }
            Self::Recovering { done, total } => write!(f, "recovering: {done} of {total} of WAL"),
            Self::Rotated { .. }
            | Self::JobStarted { .. }
            | Self::JobFinished { .. }
            | Self::ChainEnded { .. }
            | Self::ChainStood { .. } => self.of_tree(f),
            Self::WalSwitched { file, recycled } => {
                write!(f, "wal {file}{}", if *recycled { " (recycled)" } else { "" })
            }
            Self::HotKeysKept { .. } => self.hot_keys_kept(f),
            Self::Installed { jobs, tables, applied, written } => write!(
                f,
                "installed {jobs} jobs, {tables} tables: applied in {applied}, written in {written}"
            ),
            Self::Ingested { files, into_l0, bytes, held } => {
                write!(f, "ingested {files} files ({bytes}), {into_l0} into L0: held for {held}")
            }
            Self::JobCancelled { job, wasted } => write!(f, "{job} cancelled: {wasted} wasted"),
            Self::Waited { .. } => self.waited(f),
            Self::Buffered { path } => write!(
                f,
                "no direct I/O for {}: the platform or its file system does not support it, files \
                 go through the page cache",
                path.display()
            ),
            Self::WalUnmapped { error } => {
                write!(f, "cannot map the WAL, it is written by system calls instead: {error}")
            }
            Self::SlowPath { what } => f.write_str(match what {
                SlowPath::WalChecksums => {
                    "the processor has no instructions for CRC-32C: checksums of the WAL are slower"
                }
                SlowPath::BlockChecksums => {
                    "the processor has no AVX2: checksums of blocks are slower"
                }
                SlowPath::SmallPages => {
                    "the system offers no huge pages: searches of memtables are slower"
                }
            }),
            Self::WalDamaged { error } => write!(f, "the WAL ends before its damage: {error}"),
            Self::WalLost { path, batches, seqs } => {
                write!(f, "{} lies beyond damage: batches lost: {batches}", path.display())?;
                match seqs {
                    Some((first, last)) => write!(f, ", sequence numbers {first} to {last}"),
                    None => Ok(()),
                }
            }
            Self::SstLost { .. } => self.sst_lost(f),
            Self::NotRemoved { error } => write!(f, "an unneeded file was not removed: {error}"),
            Self::OutOfSpace { path } => {
                write!(f, "out of space: {} cannot grow, writes are refused", path.display())
            }
            Self::SpaceReturned { after } => {
                write!(f, "there is space again: writes are accepted after {after}")
            }
            Self::CallbackPanicked { callback, name, keyspace } => {
                callback.panicked(f, name, keyspace)
            }
            Self::BackgroundError { error } => write!(f, "background error: {error}"),
            Self::Closed => write!(f, "closed"),
        }
    }
}
