//! Errors as values: a code for programs, a text for people, and the name of the keyspace
//! concerned.
//!
//! The codes are those of `vlsm::Error`, and two of this interface: a header of another version,
//! and a handle that a child process inherited through `fork`.

use engine::Error;
use std::ffi::{CString, c_char};
use std::ptr::null;
use vlsm_handle::Forked;

/// The kind of an error. Later versions may add some.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum vlsm_code {
    /// No error: the code of NULL.
    VLSM_OK = 0,
    /// The operating system refused an operation.
    VLSM_IO = 1,
    /// A file is damaged.
    VLSM_CORRUPTION = 2,
    /// The device is full. The store accepts writes again when there is space.
    VLSM_NO_SPACE = 3,
    /// An earlier failure made the store read-only until it is opened again.
    VLSM_READ_ONLY = 4,
    /// The store was opened read-only.
    VLSM_OPENED_READ_ONLY = 5,
    /// A reader beside the writing process cannot see a later state.
    VLSM_CANNOT_FOLLOW = 6,
    /// The store is already open, in this or another process.
    VLSM_LOCKED = 7,
    /// There is no store at the path.
    VLSM_MISSING = 8,
    /// The folder holds something that is not a store.
    VLSM_NOT_A_STORE = 9,
    /// There is already a store at the path.
    VLSM_ALREADY_EXISTS = 10,
    /// A file was written by a newer version of the library.
    VLSM_FORMAT_VERSION = 11,
    /// An option has an invalid value.
    VLSM_INVALID_OPTION = 12,
    /// An argument is invalid: NULL where that is not allowed, too long, not UTF-8, from another
    /// store, or a handle that was already committed or finished.
    VLSM_INVALID_ARGUMENT = 13,
    /// There is no keyspace with this name.
    VLSM_NO_SUCH_KEYSPACE = 14,
    /// The keyspace of the handle was dropped.
    VLSM_KEYSPACE_DROPPED = 15,
    /// The keyspace exists with other options, its name is taken, or the option cannot be changed.
    VLSM_KEYSPACE_EXISTS = 16,
    /// A merge operator is unknown, refuses an operand, or cannot combine the operands of a key.
    VLSM_MERGE = 17,
    /// The deadline of the write passed; nothing was written.
    VLSM_BUSY = 18,
    /// A transaction conflicts with another write. Nothing was written; run it again.
    VLSM_CONFLICT = 19,
    /// The store was closed.
    VLSM_CLOSED = 20,
    /// A number of the store has reached its maximum. The store can still be read.
    VLSM_USED_UP = 21,
    /// An internal error: a bug of the library.
    VLSM_INTERNAL = 22,
    /// The program was compiled with the header of another version.
    VLSM_ABI = 23,
    /// The handle was made before a `fork`, by the parent process.
    VLSM_FORKED = 24,
}

/// An error. The caller frees it with vlsm_error_free.
pub struct vlsm_error {
    code: vlsm_code,
    message: CString,
    keyspace: Option<CString>,
}

/// A failure of a call, before it becomes a handle.
pub(crate) enum Failure {
    /// An error of the engine.
    Engine(Error),
    /// An error of this interface.
    Own(vlsm_code, String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Forked> for Failure {
    fn from(forked: Forked) -> Self {
        Self::Own(vlsm_code::VLSM_FORKED, forked.to_string())
    }
}

impl Failure {
    /// An invalid argument.
    pub(crate) fn argument(what: impl Into<String>) -> Self {
        Self::Own(vlsm_code::VLSM_INVALID_ARGUMENT, what.into())
    }

    /// The handle that C gets.
    pub(crate) fn into_handle(self) -> *mut vlsm_error {
        let (code, message, keyspace) = match self {
            Self::Engine(error) => {
                (code(&error), error.to_string(), error.keyspace().map(str::to_owned))
            }
            Self::Own(code, message) => (code, message, None),
        };
        let message = text(message);
        Box::into_raw(Box::new(vlsm_error { code, message, keyspace: keyspace.map(text) }))
    }
}

/// A text without NUL bytes.
fn text(from: String) -> CString {
    CString::new(from.replace('\0', "\\0")).unwrap_or_default()
}

fn code(error: &Error) -> vlsm_code {
    match error {
        Error::Io { .. } => vlsm_code::VLSM_IO,
        Error::Corruption { .. } => vlsm_code::VLSM_CORRUPTION,
        Error::NoSpace { .. } => vlsm_code::VLSM_NO_SPACE,
        Error::ReadOnly { .. } => vlsm_code::VLSM_READ_ONLY,
        Error::OpenedReadOnly => vlsm_code::VLSM_OPENED_READ_ONLY,
        Error::CannotFollow { .. } => vlsm_code::VLSM_CANNOT_FOLLOW,
        Error::Locked { .. } => vlsm_code::VLSM_LOCKED,
        Error::Missing { .. } => vlsm_code::VLSM_MISSING,
        Error::NotAStore { .. } => vlsm_code::VLSM_NOT_A_STORE,
        Error::UsedUp { .. } => vlsm_code::VLSM_USED_UP,
        Error::AlreadyExists { .. } => vlsm_code::VLSM_ALREADY_EXISTS,
        Error::FormatVersion { .. } => vlsm_code::VLSM_FORMAT_VERSION,
        Error::InvalidOption { .. } => vlsm_code::VLSM_INVALID_OPTION,
        Error::InvalidArgument(_) | Error::KeyspaceNeeded(_) => vlsm_code::VLSM_INVALID_ARGUMENT,
        Error::NoSuchKeyspace(_) => vlsm_code::VLSM_NO_SUCH_KEYSPACE,
        Error::KeyspaceDropped(_) => vlsm_code::VLSM_KEYSPACE_DROPPED,
        Error::NameTaken(_) | Error::OptionFixed { .. } | Error::KeyspaceExists { .. } => {
            vlsm_code::VLSM_KEYSPACE_EXISTS
        }
        Error::UnknownMergeOperator { .. }
        | Error::OperandRefused { .. }
        | Error::MergeFailed { .. } => vlsm_code::VLSM_MERGE,
        Error::Busy { .. } => vlsm_code::VLSM_BUSY,
        Error::Conflict { .. } => vlsm_code::VLSM_CONFLICT,
        Error::Closed => vlsm_code::VLSM_CLOSED,
        _ => vlsm_code::VLSM_INTERNAL,
    }
}

/// The code of an error; VLSM_OK for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_error_code(error: *const vlsm_error) -> vlsm_code {
    unsafe { error.as_ref() }.map_or(vlsm_code::VLSM_OK, |error| error.code)
}

/// The text of an error: the problem, the file or option, and the remedy. It ends with a NUL byte,
/// belongs to the error, and contains no key or value. For NULL it is "".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_error_message(error: *const vlsm_error) -> *const c_char {
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// The name of the keyspace that an error concerns, or NULL. It belongs to the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_error_keyspace(error: *const vlsm_error) -> *const c_char {
    let keyspace = unsafe { error.as_ref() }.and_then(|error| error.keyspace.as_ref());
    keyspace.map_or(null(), |name| name.as_ptr())
}

/// Frees an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_error_free(error: *mut vlsm_error) {
    if !error.is_null() {
        drop(unsafe { Box::from_raw(error) });
    }
}
