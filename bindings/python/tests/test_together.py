"""Batches, snapshots, transactions and merge operators: several operations together."""

import sys
import threading

import pytest

import vlsm


def test_a_batch_is_all_or_nothing(db):
    other = db.create_keyspace("other", merge_operator="join")
    db[b"old"] = b"x"
    with db.batch(durability="sync") as batch:
        batch.put(b"a", b"1")
        batch.put(b"b", b"2", keyspace=other)
        batch.merge(b"b", b"3", keyspace=other)
        batch.delete(b"old")
        assert b"a" not in db
    assert dict(db) == {b"a": b"1"} and dict(other) == {b"b": b"2,3"}
    with pytest.raises(ZeroDivisionError):
        with db.batch() as batch:
            batch.delete_range()
            1 / 0
    assert dict(db) == {b"a": b"1"}
    batch = db.batch()
    batch.put(b"c", b"3")
    batch.write()
    batch.write(durability="lazy")  # empty by now
    assert dict(db) == {b"a": b"1", b"c": b"3"}


def test_a_snapshot_stays_as_it_was(db):
    other = db.create_keyspace("other")
    db[b"a"] = other[b"a"] = b"before"
    with db.snapshot() as snapshot:
        db[b"a"] = b"after"
        other.clear()
        db[b"b"] = b"new"
        assert snapshot.get(b"a") == b"before" and snapshot.get(b"b", 1) == 1
        assert list(snapshot.items(keyspace=other)) == [(b"a", b"before")]
        pairs = snapshot.items(reverse=True)
    with pytest.raises(vlsm.InvalidArgument, match="released"):
        snapshot.get(b"a")
    assert list(pairs) == [(b"a", b"before")]  # an iterator keeps what it shows


def test_transactions(db):
    db[b"a"] = b"1"
    with db.transaction() as own:
        own.put(b"b", own.get(b"a"))
        own.savepoint()
        own.delete_range()
        assert list(own.items()) == []
        own.rollback_to_savepoint()
        assert list(own.items(reverse=True)) == [(b"b", b"1"), (b"a", b"1")]
        assert b"b" not in db
    assert dict(db) == {b"a": b"1", b"b": b"1"}
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as own:
            own.delete(b"a")
            1 / 0
    assert db[b"a"] == b"1"
    with db.transaction() as own:
        own.put(b"c", b"")
        own.rollback()
    assert b"c" not in db
    with pytest.raises(vlsm.InvalidArgument, match="begin another"):
        own.get(b"a")


def test_a_conflict(db):
    own = db.transaction()
    own.put(b"sum", own.get(b"a", b"0"))
    db[b"a"] = b"1"
    with pytest.raises(vlsm.Conflict) as raised:
        own.commit()
    assert raised.value.keyspace == "default" and b"sum" not in db


def test_transact_runs_again_until_it_meets_nobody(db):
    calls = []

    def add(own):
        calls.append(1)
        own.put(b"count", b"%d" % (int(own.get(b"count", b"0")) + 1))
        return len(calls)

    def work():
        for _ in range(100):
            assert db.transact(add) > 0

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert db[b"count"] == b"400"


def test_transact_may_end_its_transaction_and_may_raise(db):
    kept = []

    def take_back(own):
        own.put(b"a", b"1")
        own.rollback()
        return "ended"

    def broken(own):
        kept.append(own)
        own.put(b"a", b"1")
        raise LookupError("no such seat")

    assert db.transact(take_back) == "ended"
    with pytest.raises(LookupError, match="no such seat"):
        db.transact(broken)
    assert b"a" not in db
    # The transaction ended with the call.
    with pytest.raises(vlsm.InvalidArgument):
        kept[0].put(b"a", b"2")


def test_a_merge_operator_runs_in_the_threads_of_the_store(path):
    seen = set()

    def count(_key, before, operands):
        seen.add(threading.get_ident())
        return b"%d" % (int(before or 0) + sum(map(int, operands)))

    with vlsm.Db(path, merge_operators={"count": count}) as db:
        hits = db.create_keyspace("hits", merge_operator="count")
        for round in range(5):
            for i in range(200):
                hits.merge(b"%d" % (i % 10), b"1")
            # Would never end if the interpreter's lock were held: the operator needs it.
            db.flush()
            hits.compact_range()
        assert dict(hits) == {b"%d" % i: b"100" for i in range(10)}
    assert len(seen - {threading.get_ident()}) > 0


def test_a_merge_operator_that_raises_loses_nothing(path, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: reported.append(str(error.exc_value)))

    def picky(_key, before, operands):
        if before == b"bad" or b"bad" in operands:
            raise ValueError("cannot combine it")
        return "no bytes" if b"str" in operands else (before or b"") + b"".join(operands)

    with vlsm.Db(path, merge_operators={"picky": picky}) as db:
        log = db.create_keyspace("log", merge_operator="picky")
        log.merge(b"good", b"1")
        log.merge(b"worse", b"bad")
        log.merge(b"str", b"str")
        for key in b"worse", b"str":
            with pytest.raises(vlsm.MergeError) as raised:
                log[key]
            assert raised.value.keyspace == "log"
        db.flush()
        assert log[b"good"] == b"1"
    assert "cannot combine it" in reported and any("not str" in text for text in reported)
    better = {"picky": lambda _key, before, operands: (before or b"") + b"|".join(operands)}
    with vlsm.Db(path, merge_operators=better) as db:
        assert db.keyspace("log")[b"worse"] == b"bad" and db.keyspace("log")[b"str"] == b"str"


def test_a_copy_and_a_reader_beside(db, path, tmp_path):
    db[b"a"] = b"1"
    db.sync()
    with vlsm.Db(path, follow=True) as reader:
        assert reader[b"a"] == b"1"
        db[b"a"] = b"2"
        reader.catch_up()
        assert reader[b"a"] == b"2"
        with pytest.raises(vlsm.OpenedReadOnly):
            reader[b"a"] = b"3"
    db.checkpoint(tmp_path / "copy")
    db[b"a"] = b"3"
    vlsm.restore(tmp_path / "copy", tmp_path / "again")
    with vlsm.Db(tmp_path / "again", read_only=True) as again:
        assert dict(again) == {b"a": b"2"}
