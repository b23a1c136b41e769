"""vLSM: an embedded, ordered, durable key-value store without long write stalls.

A store is a mapping from bytes to bytes, in the order of the keys, with keyspaces, batches,
snapshots and transactions:

    with vlsm.Db("my-store") as db:
        db[b"apple"] = b"green"
        for key, value in db.items(b"a", b"c"):
            ...

All calls may be made from any thread. No call holds the interpreter's lock (GIL) while it waits.
"""

import atexit
import collections.abc

from ._vlsm import Batch, Db, Items, Keyspace, Snapshot, Transaction, _close_all, restore
from .errors import (
    AlreadyExists,
    Busy,
    CannotFollow,
    Closed,
    Conflict,
    Corruption,
    Error,
    Forked,
    FormatVersion,
    Internal,
    InvalidArgument,
    InvalidOption,
    IoError,
    KeyspaceDropped,
    KeyspaceExists,
    Locked,
    MergeError,
    Missing,
    NoSpace,
    NoSuchKeyspace,
    NotAStore,
    OpenedReadOnly,
    ReadOnly,
    UsedUp,
)

# Acknowledged writes are written to files when the program exits without `close`.
atexit.register(_close_all)
collections.abc.MutableMapping.register(Keyspace)

__all__ = [
    "AlreadyExists",
    "Batch",
    "Busy",
    "CannotFollow",
    "Closed",
    "Conflict",
    "Corruption",
    "Db",
    "Error",
    "Forked",
    "FormatVersion",
    "Internal",
    "InvalidArgument",
    "InvalidOption",
    "IoError",
    "Items",
    "Keyspace",
    "KeyspaceDropped",
    "KeyspaceExists",
    "Locked",
    "MergeError",
    "Missing",
    "NoSpace",
    "NoSuchKeyspace",
    "NotAStore",
    "OpenedReadOnly",
    "ReadOnly",
    "Snapshot",
    "Transaction",
    "UsedUp",
    "restore",
]
