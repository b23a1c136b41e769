"""The errors of a store. All derive from `Error`, and some also from a similar built-in class."""


class Error(Exception):
    """An error of the store. `keyspace` is the name of the keyspace concerned, or None."""

    keyspace = None


class IoError(Error, OSError):
    """The operating system refused an operation."""


class Corruption(Error):
    """A file is damaged."""


class NoSpace(Error, OSError):
    """The device is full. The store accepts writes again when there is space."""


class ReadOnly(Error):
    """An earlier failure made the store read-only until it is opened again."""


class OpenedReadOnly(Error):
    """The store was opened read-only."""


class CannotFollow(Error):
    """A reader beside the writing process cannot see a later state."""


class Locked(Error):
    """The store is already open, in this or another process."""


class Missing(Error, FileNotFoundError):
    """There is no store at the path."""


class NotAStore(Error):
    """The folder holds something that is not a store."""


class AlreadyExists(Error, FileExistsError):
    """There is already a store at the path."""


class FormatVersion(Error):
    """A file was written by a newer version of the library."""


class InvalidOption(Error, ValueError):
    """An option has an invalid value."""


class InvalidArgument(Error, ValueError):
    """An argument is invalid."""


class NoSuchKeyspace(Error):
    """There is no keyspace with this name."""


class KeyspaceDropped(Error):
    """The keyspace of the handle was dropped."""


class KeyspaceExists(Error):
    """The keyspace exists with other options, or its name is taken."""


class MergeError(Error):
    """A merge operator is unknown, refuses an operand, or cannot combine the operands of a key."""


class Busy(Error, TimeoutError):
    """The deadline of the write passed; nothing was written."""


class Conflict(Error):
    """A transaction conflicts with another write. Nothing was written; run it again."""


class Closed(Error):
    """The store was closed."""


class UsedUp(Error):
    """A number of the store has reached its maximum. The store can still be read."""


class Internal(Error):
    """An internal error: a bug of the library."""


class Forked(Error):
    """The parent process opened the store: after a `fork`, open it again in this process."""
