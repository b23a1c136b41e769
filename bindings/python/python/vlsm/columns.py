"""Many pairs at once, to and from numpy and pyarrow, without Python code for each pair.

    reader = vlsm.columns.to_arrow(db.items(prefix=b"user/"))     # record batches, as they are read
    keys, values = vlsm.columns.to_numpy(db.items())              # two arrays, a row per entry
    with db.batch() as batch:
        vlsm.columns.put(batch, keys, values)                     # arrays of both kinds, or lists

numpy and pyarrow are imported only by the functions that need them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Iterable

from ._vlsm import Batch, Items, Keyspace
from .errors import InvalidArgument

if TYPE_CHECKING:
    import numpy
    import pyarrow

ROWS = 65_536
"""The default number of rows of a record batch."""


def to_arrow(items: Items, rows: int = ROWS) -> pyarrow.RecordBatchReader:
    """The pairs of an iterator as record batches with the columns `key` and `value`.

    The reader reads a batch when it is requested, and raises the errors of the store.
    """
    import pyarrow

    schema = pyarrow.schema([("key", pyarrow.large_binary()), ("value", pyarrow.large_binary())])

    def column(data: bytes, places: bytes) -> pyarrow.Array:
        buffers = [None, pyarrow.py_buffer(places), pyarrow.py_buffer(data)]
        return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(places) // 8 - 1, buffers)

    def batches() -> Iterable[pyarrow.RecordBatch]:
        while (part := items.columns(rows)) is not None:
            columns = [column(*part[:2]), column(*part[2:])]
            yield pyarrow.RecordBatch.from_arrays(columns, schema=schema)

    return pyarrow.RecordBatchReader.from_batches(schema, batches())


def to_numpy(items: Items) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The keys and the values of an iterator: two arrays of `uint8`, one row per entry.

    All keys must have the same length, and so must all values. `array.view(">u8")` shows entries of
    eight bytes as numbers.
    """
    import numpy

    part = items.columns(sys.maxsize)
    if part is None:
        return numpy.empty((0, 0), "uint8"), numpy.empty((0, 0), "uint8")

    def table(data: bytes, places: bytes, what: str) -> numpy.ndarray:
        lengths = numpy.diff(numpy.frombuffer(places, "int64"))
        if (lengths != lengths[0]).any():
            raise InvalidArgument(
                f"the {what} have lengths from {lengths.min()} to {lengths.max()}, but an array"
                " needs one length: use to_arrow, or an iterator"
            )
        return numpy.frombuffer(data, "uint8").reshape(len(lengths), lengths[0])

    return table(*part[:2], "keys"), table(*part[2:], "values")


def put(batch: Batch, keys: Any, values: Any, *, keyspace: Keyspace | None = None) -> None:
    """Adds puts to a batch: `values[i]` for `keys[i]`.

    Each of the two is an array of pyarrow (binary or string, of any kind, chunked or not), an array
    of numpy (two dimensions of `uint8`, or one of `S` or `V`), or an iterable of bytes.
    """
    batch.put_columns(*_column(keys), *_column(values), keyspace=keyspace)


def _column(entries: Any) -> tuple[bytes, bytes]:
    """The bytes of all entries, the offset of each, and the offset of the end."""
    kind = type(entries).__module__.partition(".")[0]
    if kind == "pyarrow":
        return _of_arrow(entries)
    if kind == "numpy":
        return _of_numpy(entries)
    if isinstance(entries, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"many entries are expected, as a list or an array, not one {kind} object")
    data, places = bytearray(), [0]
    for entry in entries:
        if not isinstance(entry, (bytes, bytearray, memoryview)):
            raise TypeError(f"keys and values are bytes, not {type(entry).__name__}")
        data += entry
        places.append(len(data))
    return bytes(data), b"".join(place.to_bytes(8, sys.byteorder) for place in places)


def _of_arrow(entries: Any) -> tuple[bytes, bytes]:
    import pyarrow

    if isinstance(entries, pyarrow.ChunkedArray):
        entries = entries.combine_chunks()
    if entries.null_count:
        raise InvalidArgument(f"{entries.null_count} entries are null: a key or value is bytes")
    # This also makes the first offset of a slice 0.
    array = pyarrow.concat_arrays([entries]).cast(pyarrow.large_binary())
    _, places, data = array.buffers()
    if len(array) == 0:
        return b"", bytes(8)
    places = memoryview(places)[array.offset * 8 : (array.offset + len(array) + 1) * 8]
    return b"" if data is None else bytes(data), bytes(places)


def _of_numpy(entries: Any) -> tuple[bytes, bytes]:
    import numpy

    if entries.dtype.kind in "SV" and entries.ndim == 1:
        width = entries.dtype.itemsize
    elif entries.dtype == numpy.uint8 and entries.ndim == 2:
        width = entries.shape[1]
    else:
        raise TypeError(
            f"an array of {entries.dtype} with {entries.ndim} dimensions: two dimensions of uint8 are"
            ' expected, or one of S or V, as by array.astype(">u8").view("V8")'
        )
    places = numpy.arange(len(entries) + 1, dtype="int64") * width
    return entries.tobytes(), places.tobytes()
