"""A keyspace as a mapping, and its further operations."""

import collections.abc
import threading
import time
import weakref

import pytest

import vlsm

PAIRS = {b"a": b"1", b"b": b"2", b"ba": b"3", b"c": b""}


@pytest.fixture
def full(db):
    db.update(PAIRS)
    return db


def test_is_a_mapping(full):
    assert isinstance(full, collections.abc.MutableMapping)
    assert dict(full) == PAIRS and len(full) == 4 and full
    assert list(full) == sorted(PAIRS) and list(reversed(full)) == sorted(PAIRS, reverse=True)
    assert b"a" in full and b"x" not in full
    assert full[b"c"] == b"" and full.get(b"x") is None and full.get(b"x", 7) == 7
    del full[b"a"]
    with pytest.raises(KeyError) as raised:
        full[b"a"]
    assert raised.value.args == (b"a",)
    with pytest.raises(KeyError):
        del full[b"a"]
    full.delete(b"a")  # says nothing
    full.clear()
    assert not full and len(full) == 0 and list(full) == []


def test_pop_and_its_kin(full):
    assert full.pop(b"b") == b"2" and b"b" not in full
    assert full.pop(b"b", None) is None
    with pytest.raises(KeyError):
        full.pop(b"b")
    with pytest.raises(TypeError):
        full.pop(b"b", 1, 2)
    assert full.popitem() == (b"a", b"1")
    assert full.setdefault(b"n", b"new") == b"new" and full.setdefault(b"n", b"x") == b"new"
    assert full.first() == (b"ba", b"3") and full.last() == (b"n", b"new")
    full.clear()
    assert full.first() is None and full.last() is None
    with pytest.raises(KeyError):
        full.popitem()


def test_ranges_and_prefixes_both_ways(full):
    assert list(full.keys(b"b", b"c")) == [b"b", b"ba"]
    assert list(full.keys(b"b", b"c", reverse=True)) == [b"ba", b"b"]
    assert list(full.values(lo=b"b")) == [b"2", b"3", b""]
    assert list(full.items(hi=b"b")) == [(b"a", b"1")]
    assert list(full.items(prefix=b"b")) == [(b"b", b"2"), (b"ba", b"3")]
    assert list(full.keys(b"c", b"a")) == []
    with pytest.raises(vlsm.InvalidArgument, match="prefix"):
        full.keys(b"a", prefix=b"b")


def test_long_iterators_show_one_moment(db):
    db.update((b"%06d" % i, b"v%d" % i) for i in range(5000))
    pairs = db.items()
    assert next(pairs) == (b"000000", b"v0")
    db.delete_range()
    assert [key for key, _ in pairs] == [b"%06d" % i for i in range(1, 5000)]
    assert next(pairs, None) is None and len(db) == 0


def test_bytes_of_all_kinds(db):
    db[bytearray(b"k")] = memoryview(b"value")[1:]
    assert db[memoryview(b"k")] == b"alue"
    db[b""] = b"empty key"
    assert db[b""] == b"empty key"
    with pytest.raises(TypeError, match="encode"):
        db["k"]
    with pytest.raises(TypeError, match="int"):
        db[b"k"] = 5
    with pytest.raises(TypeError, match="NoneType"):
        db.put(b"k", None)


def test_many_keys_at_once(full):
    assert full.multi_get([b"c", b"x", b"a"]) == [b"", None, b"1"]
    assert full.multi_get([]) == []
    assert full.multi_get(key for key in full) == list(full.values())


def test_changes_in_one_step(db):
    assert db.compare_and_swap(b"k", None, b"1") and not db.compare_and_swap(b"k", None, b"2")
    assert db.compare_and_swap(b"k", b"1", None) and b"k" not in db

    def add():
        for _ in range(200):
            db.fetch_update(b"count", lambda before: b"%d" % (int(before or 0) + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert db[b"count"] == b"800"
    assert db.fetch_update(b"count", lambda _: None) == b"800" and b"count" not in db


def test_an_update_that_raises_changes_nothing(db):
    db.put(b"k", b"v", ttl=1000)

    def broken(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.fetch_update(b"k", broken)
    with pytest.raises(TypeError):
        db.fetch_update(b"k", lambda _: 7)
    with pytest.raises(TypeError):
        db.update([(b"n", b"1"), (b"m", "no bytes")])
    assert dict(db) == {b"k": b"v"}


def test_values_expire(db):
    db.put(b"k", b"v", ttl=0.05)
    db.put(b"l", b"v", ttl=1000)
    time.sleep(0.3)
    assert list(db) == [b"l"]


def test_objects_are_objects(db):
    assert weakref.ref(db)() is db and db == db and hash(db) == hash(db)
    assert repr(db.create_keyspace("n")) == '<vlsm.Keyspace "n">'


def test_keyspaces(db):
    log = db.create_keyspace("log", merge_operator="join", compression="none")
    assert db.keyspaces() == ["default", "log"] and log.name == "log" and db.name == "default"
    log[b"k"] = b"there"
    assert b"k" not in db and db.keyspace("log")[b"k"] == b"there"
    log.rename("journal")
    log.set_options(merge_operator="join", memtable_bytes=4 << 20)
    db.drop_keyspace(log)
    with pytest.raises(vlsm.KeyspaceDropped) as raised:
        log[b"k"]
    assert raised.value.keyspace == "journal"
    with pytest.raises(vlsm.NoSuchKeyspace):
        db.keyspace("log")


def test_sizes_and_work_on_demand(db):
    db.update((b"%06d" % i, bytes(100)) for i in range(10_000))
    db.flush()
    db.compact_range()
    db.wait_idle()
    size, entries = db.approximate_size(b"", b"005000")
    assert 4000 < entries < 6000 and size > 0
    assert "vlsm_" in db.stats()
