from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Literal, TypeVar, final, overload

from typing_extensions import Self, TypeAlias

__all__ = [
    "Batch",
    "Db",
    "Items",
    "Keyspace",
    "Snapshot",
    "Transaction",
    "_close_all",
    "restore",
]

_T = TypeVar("_T")
_Bytes: TypeAlias = bytes | bytearray | memoryview
_Path: TypeAlias = str | PathLike[str]
_Pair: TypeAlias = tuple[bytes, bytes]
_Columns: TypeAlias = tuple[bytes, bytes, bytes, bytes]
_Durability: TypeAlias = Literal["sync", "buffered", "lazy", "no_wal"]
_Compression: TypeAlias = Literal["none", "lz4", "zstd"]
_Merge: TypeAlias = Callable[[bytes, bytes | None, list[bytes]], bytes]

def _close_all() -> None: ...
def restore(checkpoint: _Path, target: _Path) -> None: ...
@final
class Items(Iterator[Any]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def columns(self, rows: int) -> _Columns | None: ...

class Keyspace:
    @property
    def name(self) -> str: ...
    @overload
    def get(self, key: _Bytes, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: _Bytes, default: _T) -> bytes | _T: ...
    def multi_get(self, keys: Iterable[_Bytes]) -> list[bytes | None]: ...
    def first(self) -> _Pair | None: ...
    def last(self) -> _Pair | None: ...
    def put(
        self,
        key: _Bytes,
        value: _Bytes,
        *,
        ttl: float | None = None,
        durability: _Durability | None = None,
        deadline: float | None = None,
    ) -> None: ...
    def delete(
        self, key: _Bytes, *, durability: _Durability | None = None, deadline: float | None = None
    ) -> None: ...
    def delete_range(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        durability: _Durability | None = None,
        deadline: float | None = None,
    ) -> None: ...
    def merge(
        self,
        key: _Bytes,
        operand: _Bytes,
        *,
        durability: _Durability | None = None,
        deadline: float | None = None,
    ) -> None: ...
    def compare_and_swap(
        self, key: _Bytes, expected: _Bytes | None, new: _Bytes | None
    ) -> bool: ...
    def fetch_update(
        self, key: _Bytes, update: Callable[[bytes | None], _Bytes | None]
    ) -> bytes | None: ...
    def setdefault(self, key: _Bytes, value: _Bytes) -> bytes: ...
    @overload
    def pop(self, key: _Bytes) -> bytes: ...
    @overload
    def pop(self, key: _Bytes, default: _T) -> bytes | _T: ...
    def popitem(self) -> _Pair: ...
    def update(
        self, pairs: Mapping[_Bytes, _Bytes] | Iterable[tuple[_Bytes, _Bytes]]
    ) -> None: ...
    def clear(self) -> None: ...
    def keys(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        prefix: _Bytes | None = None,
        reverse: bool = False,
    ) -> Items: ...
    def values(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        prefix: _Bytes | None = None,
        reverse: bool = False,
    ) -> Items: ...
    def items(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        prefix: _Bytes | None = None,
        reverse: bool = False,
    ) -> Items: ...
    def rename(self, name: str) -> None: ...
    def set_options(
        self,
        *,
        merge_operator: str | None = None,
        ttl: float | None = None,
        compression: _Compression | None = None,
        block_bytes: int | None = None,
        bits_per_key: int | None = None,
        memtable_bytes: int | None = None,
        splits: list[bytes] = ...,
    ) -> None: ...
    def compact_range(self, lo: _Bytes | None = None, hi: _Bytes | None = None) -> None: ...
    def approximate_size(
        self, lo: _Bytes | None = None, hi: _Bytes | None = None
    ) -> tuple[int, int]: ...
    def __getitem__(self, key: _Bytes, /) -> bytes: ...
    def __setitem__(self, key: _Bytes, value: _Bytes, /) -> None: ...
    def __delitem__(self, key: _Bytes, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Items: ...
    def __reversed__(self) -> Items: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

@final
class Db(Keyspace):
    def __new__(
        cls,
        path: _Path,
        *,
        create: bool = True,
        read_only: bool = False,
        follow: bool = False,
        profile: str | None = None,
        options: str | dict[str, Any] | None = None,
        merge_operators: dict[str, _Merge] | None = None,
    ) -> Self: ...
    @property
    def path(self) -> PathLike[str]: ...
    def keyspace(self, name: str) -> Keyspace: ...
    def create_keyspace(
        self,
        name: str,
        *,
        merge_operator: str | None = None,
        ttl: float | None = None,
        compression: _Compression | None = None,
        block_bytes: int | None = None,
        bits_per_key: int | None = None,
        memtable_bytes: int | None = None,
        splits: list[bytes] = ...,
    ) -> Keyspace: ...
    def drop_keyspace(self, keyspace: Keyspace) -> None: ...
    def keyspaces(self) -> list[str]: ...
    def batch(
        self, *, durability: _Durability | None = None, deadline: float | None = None
    ) -> Batch: ...
    def snapshot(self) -> Snapshot: ...
    def transaction(self) -> Transaction: ...
    def transact(
        self,
        work: Callable[[Transaction], _T],
        *,
        durability: _Durability | None = None,
        deadline: float | None = None,
    ) -> _T: ...
    def sync(self) -> None: ...
    def flush(self) -> None: ...
    def wait_idle(self) -> None: ...
    def catch_up(self) -> None: ...
    def checkpoint(self, target: _Path) -> None: ...
    def stats(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        raised: BaseException | None = None,
        at: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Batch:
    def put(
        self,
        key: _Bytes,
        value: _Bytes,
        *,
        ttl: float | None = None,
        keyspace: Keyspace | None = None,
    ) -> None: ...
    def put_columns(
        self,
        keys: _Bytes,
        key_places: _Bytes,
        values: _Bytes,
        value_places: _Bytes,
        *,
        keyspace: Keyspace | None = None,
    ) -> None: ...
    def delete(self, key: _Bytes, *, keyspace: Keyspace | None = None) -> None: ...
    def delete_range(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        keyspace: Keyspace | None = None,
    ) -> None: ...
    def merge(self, key: _Bytes, operand: _Bytes, *, keyspace: Keyspace | None = None) -> None: ...
    def write(
        self, *, durability: _Durability | None = None, deadline: float | None = None
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        raised: BaseException | None = None,
        at: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Snapshot:
    @overload
    def get(
        self, key: _Bytes, default: None = None, *, keyspace: Keyspace | None = None
    ) -> bytes | None: ...
    @overload
    def get(self, key: _Bytes, default: _T, *, keyspace: Keyspace | None = None) -> bytes | _T: ...
    def items(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        prefix: _Bytes | None = None,
        reverse: bool = False,
        keyspace: Keyspace | None = None,
    ) -> Items: ...
    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        raised: BaseException | None = None,
        at: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Transaction:
    @overload
    def get(
        self, key: _Bytes, default: None = None, *, keyspace: Keyspace | None = None
    ) -> bytes | None: ...
    @overload
    def get(self, key: _Bytes, default: _T, *, keyspace: Keyspace | None = None) -> bytes | _T: ...
    def items(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        prefix: _Bytes | None = None,
        reverse: bool = False,
        keyspace: Keyspace | None = None,
    ) -> Items: ...
    def put(
        self,
        key: _Bytes,
        value: _Bytes,
        *,
        ttl: float | None = None,
        keyspace: Keyspace | None = None,
    ) -> None: ...
    def delete(self, key: _Bytes, *, keyspace: Keyspace | None = None) -> None: ...
    def delete_range(
        self,
        lo: _Bytes | None = None,
        hi: _Bytes | None = None,
        *,
        keyspace: Keyspace | None = None,
    ) -> None: ...
    def merge(self, key: _Bytes, operand: _Bytes, *, keyspace: Keyspace | None = None) -> None: ...
    def savepoint(self) -> None: ...
    def rollback_to_savepoint(self) -> None: ...
    def rollback(self) -> None: ...
    def commit(
        self, *, durability: _Durability | None = None, deadline: float | None = None
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        raised: BaseException | None = None,
        at: TracebackType | None = None,
        /,
    ) -> None: ...
