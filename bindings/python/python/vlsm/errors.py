"""The errors of a store. All are `Error`; the built-in classes beside it say what they are like."""


class Error(Exception):
    """An error of the store. `keyspace` is the name of the keyspace that it is about, or None."""

    keyspace = None


class IoError(Error, OSError):
    """The operating system refused an operation."""


class Corruption(Error):
    """A file is damaged."""


class NoSpace(Error, OSError):
    """The device is full; the store goes on when there is space."""


class ReadOnly(Error):
    """An earlier failure made the store read-only until it is opened again."""


class OpenedReadOnly(Error):
    """The store was opened to read only."""


class CannotFollow(Error):
    """A reader beside the writing process cannot see a later state."""


class Locked(Error):
    """The store is open already, here or in another process."""


class Missing(Error, FileNotFoundError):
    """There is no store at the path."""


class NotAStore(Error):
    """The folder holds something that is not a store."""


class AlreadyExists(Error, FileExistsError):
    """There is a store at the path already."""


class FormatVersion(Error):
    """A file was written by a newer version of the library."""


class InvalidOption(Error, ValueError):
    """An option has an impossible value."""


class InvalidArgument(Error, ValueError):
    """An argument is impossible."""


class NoSuchKeyspace(Error):
    """There is no keyspace of this name."""


class KeyspaceDropped(Error):
    """The keyspace of the handle was dropped."""


class KeyspaceExists(Error):
    """The keyspace exists with other options, or its name is taken."""


class MergeError(Error):
    """A merge operator is not known, refuses an operand, or cannot combine a key's operands."""


class Busy(Error, TimeoutError):
    """The deadline of the write passed; nothing was written."""


class Conflict(Error):
    """A transaction met another write; nothing was written, and it can be run again."""


class Closed(Error):
    """The store was closed."""


class UsedUp(Error):
    """A number of the store is used up; it can be read."""


class Internal(Error):
    """An impossible state, which is a bug of the library."""


class Forked(Error):
    """The store was opened by the parent process: open it anew in this one, after a `fork`."""
