//! The errors of the storage, and how openraft gets them: as `StorageError`, upon which a node
//! stops. The text is for the operator of that node.

use openraft::{AnyError, ErrorSubject, ErrorVerb, NodeId, StorageError, StorageIOError};
use std::path::PathBuf;
use tokio::runtime::{Handle, RuntimeFlavor};

/// An error of the storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store refused or failed a call.
    #[error(transparent)]
    Store(#[from] vlsm::Error),
    /// A file of a snapshot, or a folder.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A value that cannot be written by postcard, such as one with a flattened field.
    #[error("cannot encode {what}: {source}: its type must serialize without self-description")]
    Encode {
        /// What the value is.
        what: &'static str,
        /// Why it failed.
        source: postcard::Error,
    },
    /// A value of another type than the one asked for: the store was written by another program.
    #[error(
        "cannot decode {what}: {source}: was the store written by a program with other types of \
         commands, node ids or nodes?"
    )]
    Decode {
        /// What the value is.
        what: &'static str,
        /// Why it failed.
        source: postcard::Error,
    },
    /// A value with bytes after its end.
    #[error(
        "cannot decode {what}: {len} bytes are left over: was the store written by a program with \
         other types of commands, node ids or nodes?"
    )]
    Rest {
        /// What the value is.
        what: &'static str,
        /// How many bytes.
        len: usize,
    },
    /// Something that must be there is not.
    #[error("{0}")]
    Broken(String),
}

impl StoreError {
    /// An error of a call on a file.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }

    /// As openraft wants it.
    pub(crate) fn at<NID: NodeId>(
        self,
        subject: ErrorSubject<NID>,
        verb: ErrorVerb,
    ) -> StorageError<NID> {
        StorageIOError::new(subject, verb, AnyError::new(&self)).into()
    }

    /// As an error of the system.
    pub(crate) fn into_io(self) -> std::io::Error {
        match self {
            Self::Store(vlsm::Error::NoSpace { .. }) => {
                std::io::Error::new(std::io::ErrorKind::StorageFull, self)
            }
            _ => std::io::Error::other(self),
        }
    }
}

/// Runs a call that may wait for the device.
///
/// On a runtime of several threads it runs here, and another thread takes over this one's tasks:
/// each switch to a waiting thread and back would cost more than most calls. Else it runs on a
/// thread that may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        return tokio::task::block_in_place(call);
    }
    match tokio::task::spawn_blocking(call).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Broken("the runtime shuts down".to_owned())),
    }
}
