"""Many pairs at once: numpy and pyarrow."""

import pytest

import vlsm
from vlsm import columns

PAIRS = [(b"%04d" % i, b"v" * (i % 7)) for i in range(1000)]


def test_lists(db):
    with db.batch() as batch:
        columns.put(batch, [key for key, _ in PAIRS], (value for _, value in PAIRS))
    assert list(db.items()) == PAIRS
    with pytest.raises(vlsm.InvalidArgument, match="2 keys and 1 values"):
        columns.put(db.batch(), [b"a", b"b"], [b"c"])
    with pytest.raises(TypeError, match="str"):
        columns.put(db.batch(), ["a"], [b"c"])
    with pytest.raises(TypeError, match="not one"):
        columns.put(db.batch(), b"a", [b"c"])


def test_arrow(db):
    pyarrow = pytest.importorskip("pyarrow")
    other = db.create_keyspace("other")
    table = pyarrow.table({"k": [k for k, _ in PAIRS], "v": [v for _, v in PAIRS]})
    with db.batch() as batch:
        columns.put(batch, table["k"], table["v"], keyspace=other)
    assert len(db) == 0
    read = columns.to_arrow(other.items(), rows=300)
    sizes = [len(part) for part in read]
    assert sizes == [300, 300, 300, 100]
    read = columns.to_arrow(other.items(b"0100", b"0103", reverse=True)).read_all()
    assert read.to_pydict() == {
        "key": [b"0102", b"0101", b"0100"],
        "value": [b"v" * (i % 7) for i in (102, 101, 100)],
    }
    assert columns.to_arrow(db.items()).read_all().num_rows == 0


def test_arrow_of_every_kind(db):
    pyarrow = pytest.importorskip("pyarrow")
    keys = [
        pyarrow.array([b"zz", b"a", b"b"])[1:],
        pyarrow.array(["a", "b"], pyarrow.large_string()),
        pyarrow.array([b"a", b"b"], pyarrow.binary(1)),
        pyarrow.chunked_array([[b"a"], [b"b"]]),
        pyarrow.chunked_array([], pyarrow.binary()),
    ]
    for array in keys:
        db.clear()
        with db.batch() as batch:
            columns.put(batch, array, pyarrow.array([b"", b"x"])[: len(array)])
        assert dict(db) == ({b"a": b"", b"b": b"x"} if len(array) else {})
    with pytest.raises(vlsm.InvalidArgument, match="null"):
        columns.put(db.batch(), pyarrow.array([b"a", None]), [b"", b""])


def test_numpy(db):
    numpy = pytest.importorskip("numpy")
    numbers = numpy.arange(5000, dtype="u8") * 3
    values = numpy.sqrt(numbers)
    with db.batch() as batch:
        columns.put(batch, numbers.astype(">u8").view("V8"), values.reshape(-1, 1).view("uint8"))
    keys, found = columns.to_numpy(db.items())
    assert (keys.view(">u8")[:, 0] == numbers).all() and (found.view("f8")[:, 0] == values).all()
    db[b"short"] = b""
    with pytest.raises(vlsm.InvalidArgument, match="lengths from 5 to 8"):
        columns.to_numpy(db.items())
    with pytest.raises(TypeError, match="float64"):
        columns.put(db.batch(), values, values)
    db.clear()
    assert [len(array) for array in columns.to_numpy(db.items())] == [0, 0]


def test_columns_of_a_transaction_count_as_read(db):
    db.update(PAIRS)
    own = db.transaction()
    assert own.items(b"0000", b"0500").columns(10_000)[1] == b"".join(
        (4 * i).to_bytes(8, "little") for i in range(501)
    )
    own.put(b"sum", b"500")
    db[b"0007"] = b"changed"
    with pytest.raises(vlsm.Conflict):
        own.commit()
