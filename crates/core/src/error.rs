//! The one error type of the store.
//!
//! Each message says what was wrong, with which file or option, and what to do. Keys and values
//! appear in no message. Errors are cheap to clone, because one failed sync answers many waiting
//! writers.

use crate::units::Micros;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of an operation of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// What was tried, as in "cannot open".
        op: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// A file's content is not what was written. Nothing is guessed; other files stay readable.
    #[error(
        "{} is damaged at byte {offset}: {what}. Restore the file from a backup",
        path.display()
    )]
    Corruption {
        /// The file.
        path: PathBuf,
        /// The offset of the damaged part in the file.
        offset: u64,
        /// What was wrong there.
        what: String,
    },
    /// The device is full. The write that was refused left nothing behind; reads go on, and writes
    /// are taken again by themselves when space returns.
    #[error(
        "no space left for {}: free space on that device. Nothing of this operation was kept; a \
         store that is open goes on reading, and takes writes again by itself when there is space",
        path.display()
    )]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// An earlier failure made the store read-only until it is reopened.
    #[error("the store is read-only until reopened, because of an earlier failure: {cause}")]
    ReadOnly {
        /// The failure.
        cause: Arc<Error>,
    },
    /// The store was opened to be read only.
    #[error("the store was opened read-only: open it without `read_only` to change it")]
    OpenedReadOnly,
    /// Another process has the store open, or this one has, with another handle.
    ///
    /// A store stays open until `Db::close` is called on one of its handles, or the last of them is
    /// dropped. Keyspaces, iterators and snapshots are handles, too.
    #[error("{} is in use by {holder}", path.display())]
    Locked {
        /// The folder of the store.
        path: PathBuf,
        /// Who has it open.
        holder: LockHolder,
    },
    /// The folder does not exist.
    #[error("there is no store at {}: check the path, or create one", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds something that is not a store.
    #[error("{} is not a store: {why}. Choose an empty folder or a store's folder", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// The store has counted as far as it can. What it holds can be read.
    #[error(
        "the store at {} has used up its {what}: it can only be read. Open it read-only and \
         export it into a new store",
        path.display()
    )]
    UsedUp {
        /// The folder of the store.
        path: PathBuf,
        /// What it counts.
        what: &'static str,
    },
    /// The folder holds a store already.
    #[error("there is a store at {} already", path.display())]
    AlreadyExists {
        /// The folder.
        path: PathBuf,
    },
    /// A file was written by a newer version of this library.
    #[error(
        "{} has format version {found}, this library reads up to {supported}: use a newer vlsm",
        path.display()
    )]
    FormatVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },
    /// An option has an impossible value, or options contradict each other.
    #[error("option {option}: {why}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// What is wrong and which values work.
        why: String,
    },
    /// An argument of a call is impossible.
    #[error("{0}")]
    InvalidArgument(String),
    /// There is no keyspace of this name.
    #[error("there is no keyspace {0:?}: create it first")]
    NoSuchKeyspace(String),
    /// There is a keyspace of this name, made with other options.
    #[error(
        "there is a keyspace {keyspace:?} already, made with other options: {}. Ask for the \
         options it was made with, or choose another name",
        join(differences)
    )]
    KeyspaceExists {
        /// The keyspace.
        keyspace: String,
        /// The options that differ.
        differences: Vec<OptionDifference>,
    },
    /// The keyspace was made with a merge operator that this program does not know.
    #[error(
        "keyspace {keyspace:?} needs the merge operator {name:?}, which is not known here: open \
         the store with a program that registers it; nothing was changed"
    )]
    UnknownMergeOperator {
        /// The keyspace.
        keyspace: String,
        /// The operator's name.
        name: String,
    },
    /// The merge operator refuses an operand. Nothing of the batch was written.
    #[error(
        "the merge operator {operator:?} of keyspace {keyspace:?} refuses an operand: {why}; \
         nothing of this write was kept"
    )]
    OperandRefused {
        /// The keyspace.
        keyspace: String,
        /// The operator's name.
        operator: String,
        /// What the operator says, as in "an operand is 8 bytes long".
        why: &'static str,
    },
    /// The merge operator could not combine a key's operands. They are kept as they are, and other
    /// keys are read as ever: an iterator goes on behind the key.
    #[error(
        "the merge operator {operator:?} of keyspace {keyspace:?} {} what was written to this key: \
         put or delete the key, or correct the operator; nothing is lost",
        if *panicked { "panicked over" } else { "cannot combine" }
    )]
    MergeFailed {
        /// The keyspace.
        keyspace: String,
        /// The operator's name.
        operator: String,
        /// Whether it panicked, instead of saying that it cannot.
        panicked: bool,
    },
    /// The write's deadline passed before it was let in. Nothing was written.
    #[error("not admitted within {waited}: {cause}; nothing was written")]
    Busy {
        /// How long it waited.
        waited: Micros,
        /// For what.
        cause: &'static str,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The store met a state that its own code excludes. A bug: what is on disk is not touched
    /// further.
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

/// Who has a store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockHolder {
    /// This process.
    ThisProcess,
    /// The process of this id, as the operating system says.
    Process(u32),
    /// Nobody knows.
    Unknown,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str(
                "this process: call close() on its handle, or drop all of its handles; a \
                 keyspace, an iterator or a snapshot keeps a store open, too",
            ),
            Self::Process(id) => write!(f, "process {id}: close it there first"),
            Self::Unknown => f.write_str("another process or handle: close it first"),
        }
    }
}

/// An option of which a keyspace has another value than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDifference {
    /// The option.
    pub option: &'static str,
    /// What the keyspace was made with. Names no key.
    pub existing: String,
    /// What was asked for.
    pub asked: String,
}

impl fmt::Display for OptionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, existing, asked } = self;
        write!(f, "{option} is {existing}, and {asked} was asked for")
    }
}

fn join(differences: &[OptionDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Error {
    /// Wraps what the system said about a file. A full device becomes [`Error::NoSpace`].
    #[must_use]
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path: path.to_owned() }
            }
            _ => Self::Io { op, path: path.to_owned(), source: Arc::new(source) },
        }
    }

    /// As [`Error::io`], but for calls after whose failure nobody knows what the device holds:
    /// syncs, and writes that count on room they were given before. A full device is no
    /// [`Error::NoSpace`] here, because going on by itself would be wrong.
    #[must_use]
    pub fn io_unknown(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { op, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Damage in a file at an offset.
    #[must_use]
    pub fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corruption { path: path.to_owned(), offset, what: what.into() }
    }
}
