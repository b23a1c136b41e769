//! The one error type of the store.
//!
//! Each message names the problem, the file or option, and the remedy. Keys and values appear in no
//! message. Errors are cheap to clone, because one failed sync answers many waiting writers.

use crate::units::Micros;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of an operation of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the store. Later versions may add fields to its variants, so match them with `..`.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("{op} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The operation, as in "cannot open".
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A file is damaged. The store does not guess its contents; other files stay readable.
    #[error(
        "{} is damaged at byte {offset}: {what}. Restore the file from a backup",
        path.display()
    )]
    Corruption {
        /// The file.
        path: PathBuf,
        /// The offset of the damaged part in the file.
        offset: u64,
        /// The damage.
        what: String,
    },
    /// The device is full. The refused write left nothing behind. Reads continue, and writes are
    /// accepted again when there is space.
    #[error(
        "no space left for {}: free some space on its device. Nothing of this operation was kept. \
         An open store still serves reads, and accepts writes again once there is space",
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
    /// The store was opened read-only.
    #[error("the store was opened read-only: open it without `read_only` to change it")]
    OpenedReadOnly,
    /// A reader beside the process that writes cannot see a later state of the store. The state
    /// that it saw before stays readable.
    #[error("cannot follow the store at {}: {why}", path.display())]
    CannotFollow {
        /// The folder of the store.
        path: PathBuf,
        /// The reason, and what to do.
        why: String,
    },
    /// The store is already open, in another process or by another handle of this process.
    ///
    /// A store stays open until `Db::close` is called on one of its handles, or the last of them is
    /// dropped. Keyspaces, snapshots, transactions and iterators are handles, too.
    #[error("{} is in use by {holder}", path.display())]
    Locked {
        /// The folder of the store.
        path: PathBuf,
        /// The process that has it open.
        holder: LockHolder,
    },
    /// The folder does not exist.
    #[error("there is no store at {}: check the path, or create one", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder contains something that is not a store.
    #[error("{} is not a store: {why}. Choose an empty folder or a store's folder", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A number of the store has reached its maximum. The contents can still be read.
    #[error(
        "the store at {} has used up its {what}: it can only be read. Open it read-only and \
         export it into a new store",
        path.display()
    )]
    UsedUp {
        /// The folder of the store.
        path: PathBuf,
        /// The kind of number.
        what: &'static str,
    },
    /// The folder already contains a store.
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
    /// An option has an invalid value, or options contradict each other.
    #[error("option {option}: {why}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// The problem and the values that work.
        why: String,
    },
    /// An argument of a call is invalid.
    #[error("{0}")]
    InvalidArgument(String),
    /// There is no keyspace with this name.
    #[error("there is no keyspace {0:?}: create it first")]
    NoSuchKeyspace(String),
    /// The keyspace of this handle was dropped. Snapshots from before that still read it.
    #[error("the keyspace {0:?} was dropped: its handles can no longer be used")]
    KeyspaceDropped(String),
    /// A keyspace that every store has cannot be dropped or renamed.
    #[error(
        "the keyspace {0:?} cannot be dropped or renamed, because every store has it: clear it \
         instead"
    )]
    KeyspaceNeeded(String),
    /// Another keyspace already has this name.
    #[error("there is a keyspace {0:?} already: choose another name")]
    NameTaken(String),
    /// These options of a keyspace cannot change, because its data would then have another meaning.
    #[error(
        "options of the keyspace {keyspace:?} cannot change after it was created: {}. Create \
         another keyspace, and copy the data into it",
        join(differences)
    )]
    OptionFixed {
        /// The keyspace.
        keyspace: String,
        /// The options that would change.
        differences: Vec<OptionDifference>,
    },
    /// The keyspace exists, with other options.
    #[error(
        "the keyspace {keyspace:?} already exists with other options: {}. Use the options that it \
         has, or choose another name",
        join(differences)
    )]
    KeyspaceExists {
        /// The keyspace.
        keyspace: String,
        /// The options that differ.
        differences: Vec<OptionDifference>,
    },
    /// The keyspace was created with a merge operator that is not registered: the store does not
    /// open, or a key that has operands cannot be read.
    #[error(
        "keyspace {keyspace:?} needs the merge operator {name:?}, which is not registered: open \
         the store with a program that registers it; nothing is lost"
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
        /// The operator's reason, as in "an operand is 8 bytes long".
        why: &'static str,
    },
    /// The merge operator could not combine a key's operands. They are kept unchanged, and other
    /// keys are not affected: an iterator continues after the key.
    #[error(
        "the merge operator {operator:?} of keyspace {keyspace:?} {} the operands of this key: put \
         or delete the key, or correct the operator; nothing is lost",
        if *panicked { "panicked on" } else { "cannot combine" }
    )]
    MergeFailed {
        /// The keyspace.
        keyspace: String,
        /// The operator's name.
        operator: String,
        /// Whether the operator panicked instead of refusing.
        panicked: bool,
    },
    /// The write's deadline passed before it was admitted. Nothing was written.
    #[error("not admitted within {waited}: {cause}; nothing was written")]
    Busy {
        /// The time that it waited.
        waited: Micros,
        /// The cause of the wait.
        cause: &'static str,
    },
    /// Another write came between a transaction's reads and its commit. Nothing of the transaction
    /// was written: run it again, from its first read.
    #[error(
        "the transaction was not committed: {what}, in keyspace {keyspace:?}. Nothing was written; \
         run the transaction again"
    )]
    Conflict {
        /// The keyspace.
        keyspace: String,
        /// The read that is no longer true.
        what: ConflictKind,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The store reached an impossible state, which is a bug. It stops changing the files on disk.
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

/// The process that has a store open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockHolder {
    /// This process.
    ThisProcess,
    /// The process with this id, according to the operating system.
    Process(u32),
    /// An unknown process.
    Unknown,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str(
                "this process: call close() on its handle, or drop all of its handles; a \
                 keyspace, a snapshot, a transaction or an iterator keeps a store open, too",
            ),
            Self::Process(id) => write!(f, "process {id}: close it there first"),
            Self::Unknown => f.write_str("another process or handle: close it first"),
        }
    }
}

/// The read of a transaction that another write made untrue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConflictKind {
    /// A key that the transaction read.
    Key,
    /// A range of keys that the transaction read.
    Range,
    /// No particular read is known: while the commit checked its reads, files were ingested, or too
    /// much was written to check.
    Unchecked,
    /// The keyspace was cleared or dropped after the transaction began.
    Keyspace,
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "another write changed a key that it had read",
            Self::Range => "another write changed a range that it had read",
            Self::Unchecked => "too much was written while its reads were checked",
            Self::Keyspace => "its keyspace was cleared or dropped after the transaction began",
        })
    }
}

/// An option of a keyspace that differs from the requested value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionDifference {
    /// The option.
    pub option: &'static str,
    /// The keyspace's value. It names no key.
    pub existing: String,
    /// The requested value.
    pub asked: String,
}

impl OptionDifference {
    /// A difference, for the layers above.
    #[doc(hidden)]
    #[must_use]
    pub fn new(option: &'static str, existing: String, asked: String) -> Self {
        Self { option, existing, asked }
    }
}

impl fmt::Display for OptionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, existing, asked } = self;
        write!(f, "{option} is {existing}, but {asked} was requested")
    }
}

fn join(differences: &[OptionDifference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The end of the message of a system error: advice, if there is any.
fn remedy(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(24) => ". The process has no file descriptors left: raise its limit (`ulimit -n`)",
        Some(23) => ". The machine has no file descriptors left: raise `fs.file-max`",
        _ => "",
    }
}

impl Error {
    /// Wraps a system error of a file. A full device becomes [`Error::NoSpace`].
    #[must_use]
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path: path.to_owned() }
            }
            _ => Self::Io { op, path: path.to_owned(), source: Arc::new(source) },
        }
    }

    /// Like [`Error::io`], for calls whose failure leaves the contents of the device unknown:
    /// syncs, and writes into space that was allocated before. A full device is not
    /// [`Error::NoSpace`] here, because the store must not continue by itself.
    #[must_use]
    pub fn io_unknown(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { op, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Damage in a file at an offset.
    #[must_use]
    pub fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corruption { path: path.to_owned(), offset, what: what.into() }
    }

    /// The keyspace that the error concerns, if any.
    #[must_use]
    pub fn keyspace(&self) -> Option<&str> {
        match self {
            Self::NoSuchKeyspace(name)
            | Self::KeyspaceDropped(name)
            | Self::KeyspaceNeeded(name)
            | Self::NameTaken(name)
            | Self::OptionFixed { keyspace: name, .. }
            | Self::KeyspaceExists { keyspace: name, .. }
            | Self::UnknownMergeOperator { keyspace: name, .. }
            | Self::OperandRefused { keyspace: name, .. }
            | Self::MergeFailed { keyspace: name, .. }
            | Self::Conflict { keyspace: name, .. } => Some(name),
            _ => None,
        }
    }
}
