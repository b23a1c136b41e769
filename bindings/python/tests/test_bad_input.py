"""Wrong use: always the right exception, never a crash, and never a lost write."""

import multiprocessing
import os
import signal

import pytest

import vlsm


def test_whatever_is_used_after_close_says_so(path):
    db = vlsm.Db(path)
    db.update({b"a": b"1", b"b": b"2"})
    keyspace, snapshot, own, batch = (
        db.create_keyspace("other"),
        db.snapshot(),
        db.transaction(),
        db.batch(),
    )
    pairs = db.items()
    next(pairs)
    own.put(b"c", b"3")
    batch.put(b"c", b"3")
    db.close()
    db.close()
    uses = [
        lambda: db[b"a"],
        lambda: db.put(b"a", b""),
        lambda: keyspace[b"a"],
        lambda: list(db),
        lambda: list(pairs),
        lambda: snapshot.get(b"a"),
        lambda: own.get(b"a"),
        lambda: own.commit(),
        lambda: batch.write(),
        lambda: db.flush(),
        lambda: db.checkpoint(path.with_name("copy")),
        lambda: db.transact(lambda own: own.put(b"a", b"")),
        lambda: db.create_keyspace("new"),
    ]
    for number, use in enumerate(uses):
        with pytest.raises(vlsm.Closed):
            use()
            pytest.fail(f"use {number} of a closed store")


def test_things_of_another_store(db, tmp_path):
    with vlsm.Db(tmp_path / "another") as another:
        stranger = another.create_keyspace("stranger")
        with pytest.raises(vlsm.InvalidArgument):
            with db.batch() as batch:
                batch.put(b"a", b"1", keyspace=stranger)
        with pytest.raises(vlsm.InvalidArgument):
            db.snapshot().get(b"a", keyspace=stranger)
        with pytest.raises(vlsm.InvalidArgument):
            db.transaction().put(b"a", b"1", keyspace=stranger)
        with pytest.raises(vlsm.InvalidArgument):
            db.drop_keyspace(stranger)
        assert len(another) == len(db) == len(stranger) == 0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda db: db.put(bytes(1 << 17), b""), vlsm.InvalidArgument, "key"),
        (lambda db: db.put(b"k", b"", ttl=-1), vlsm.InvalidArgument, "ttl"),
        (lambda db: db.put(b"k", b"", ttl=float("nan")), vlsm.InvalidArgument, "ttl"),
        (lambda db: db.put(b"k", b"", ttl=1e300), vlsm.InvalidArgument, "ttl is 1e300"),
        (lambda db: db.multi_get(["k"]), TypeError, "encode"),
        (lambda db: db.create_keyspace("n", compresion="lz4"), TypeError, "compression"),
        (lambda db: db.put(b"k", b"", durability="maybe"), vlsm.InvalidArgument, "lazy"),
        (lambda db: db.put(b"k", b"", deadline="soon"), TypeError, "deadline"),
        (lambda db: db.merge(b"k", b""), vlsm.InvalidArgument, "merge_operator"),
        (lambda db: db.create_keyspace("n", compression="gzip"), vlsm.InvalidArgument, "zstd"),
        (lambda db: db.create_keyspace(""), vlsm.InvalidArgument, "name"),
        (lambda db: db.create_keyspace("n", merge_operator="no"), vlsm.MergeError, "no"),
        (lambda db: db.keyspace("no"), vlsm.NoSuchKeyspace, "no"),
        (lambda db: db.create_keyspace("n", memtable_bytes=-1), OverflowError, None),
        (lambda db: db.items().columns(-1), OverflowError, None),
        (lambda db: db.batch().put_columns(b"ab", b"", b"", b""), vlsm.InvalidArgument, "offsets"),
        (
            lambda db: db.batch().put_columns(b"ab", bytes(8) + b"\x09" + bytes(7), b"", bytes(16)),
            vlsm.InvalidArgument,
            "from 0 to 9",
        ),
        (lambda db: db.catch_up(), vlsm.InvalidArgument, "opened"),
        (lambda db: db.transact(None), TypeError, "callable"),
        (lambda db: db.transaction().rollback_to_savepoint(), vlsm.InvalidArgument, "savepoint"),
    ],
)
def test_bad_arguments(db, call, error, text):
    db[b"k"] = b"v"
    with pytest.raises(error, match=text):
        call(db)
    assert dict(db) == {b"k": b"v"}


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"create": False}, vlsm.Missing, "store"),
        ({"profile": "no such"}, vlsm.InvalidOption, "no such"),
        ({"options": "nonsense = 1"}, vlsm.InvalidArgument, "nonsense"),
        ({"options": {"nonsense": 1}}, vlsm.InvalidArgument, "nonsense"),
        ({"options": {"policy": [1]}}, TypeError, "list"),
        ({"options": 7}, TypeError, "dict"),
        ({"profile": "silk", "options": {"policy": {"profile": "cruise"}}}, vlsm.InvalidArgument, "leave"),
        ({"folow": True}, TypeError, "follow"),
        ({"merge_operators": {"n": 3}}, TypeError, "callable"),
    ],
)
def test_stores_that_cannot_be_opened(path, arguments, error, text):
    with pytest.raises(error, match=text):
        vlsm.Db(path, **arguments)
    assert not path.exists()


def test_errors_are_also_those_of_python(db, path, tmp_path):
    with pytest.raises(vlsm.Locked):
        vlsm.Db(path)
    with pytest.raises(FileNotFoundError):
        vlsm.Db(tmp_path / "none", read_only=True)
    with pytest.raises(ValueError):
        db.put(b"k", b"", ttl=-1)
    (tmp_path / "file").write_text("no store")
    with pytest.raises(vlsm.Error):
        vlsm.Db(tmp_path / "file")


def test_options_may_be_a_text_or_a_dictionary(tmp_path):
    options = {"policy": {"profile": "rocksdb", "tree": {"memtable_bytes": "4 MiB"}}}
    vlsm.Db(tmp_path / "a", options=options).close()
    text = '[policy]\nprofile = "rocksdb"\n[policy.tree]\nmemtable_bytes = "4 MiB"\n'
    vlsm.Db(tmp_path / "b", options=text).close()
    vlsm.Db(tmp_path / "c", profile="rocksdb", options={"memory_limit": "100 MiB"}).close()


def in_child(db, pairs, answers):
    found = []
    uses = [
        lambda: db[b"a"],
        lambda: db.put(b"b", b""),
        lambda: next(pairs),
        lambda: db.close(),
        lambda: db.batch(),
    ]
    for use in uses:
        try:
            use()
            found.append("worked")
        except vlsm.Error as error:
            found.append(type(error).__name__)
    answers.put(found)


def test_a_forked_process_is_told(db):
    db[b"a"] = b"1"
    pairs = db.items()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=in_child, args=(db, pairs, answers))
    child.start()
    assert answers.get(timeout=60) == ["Forked"] * 5
    child.join(60)
    assert child.exitcode == 0
    db[b"b"] = b"2"
    assert dict(db) == {b"a": b"1", b"b": b"2"}


def test_a_fork_that_drops_everything_harms_nobody(db):
    db[b"a"] = b"1"
    child = os.fork()
    if child == 0:
        del db
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    db.flush()
    assert db[b"a"] == b"1"


def test_objects_cannot_be_pickled(db):
    with pytest.raises(TypeError, match="pickle"):
        multiprocessing.reduction.ForkingPickler.dumps(db)


EXIT = """
import sys, vlsm
def join(_key, before, operands): return (before or b"") + b"".join(operands)
db = vlsm.Db(sys.argv[1], merge_operators={"join": join})
log = db.create_keyspace("log", merge_operator="join")
for i in range(1000):
    db.put(b"%d" % i, b"v", durability="lazy")
    log.merge(b"k", b"x")
keep = [db.items(), db.snapshot(), db.transaction(), db.batch(), iter(log)]
next(keep[0])
HOW
"""


@pytest.mark.parametrize("how", ["", "sys.exit(0)", "del db", "db.close()"])
def test_exit_of_the_interpreter_with_everything_open(path, run_python, how):
    _, errors = run_python(EXIT.replace("HOW", how), path)
    assert errors == ""
    with vlsm.Db(path, merge_operators={"join": lambda _k, b, o: (b or b"") + b"".join(o)}) as db:
        assert len(db) == 1000 and db.keyspace("log")[b"k"] == b"x" * 1000


def test_exit_by_an_exception_and_by_a_signal(path, run_python):
    _, errors = run_python(EXIT.replace("HOW", "1 / 0"), path, code=1)
    assert errors.count("Error") == 1 and "ZeroDivisionError" in errors
    # Nothing of Python runs any more, so only what left the process is there.
    how = "db.sync(); import os; os.kill(os.getpid(), 9)"
    run_python(EXIT.replace("HOW", how), path, code=-signal.SIGKILL)
    with vlsm.Db(path, merge_operators={"join": lambda _k, b, o: (b or b"") + b"".join(o)}) as db:
        assert len(db) == 1000 and db.keyspace("log")[b"k"] == b"x" * 2000


def test_exit_while_other_threads_use_the_store(path, run_python):
    program = """
import sys, threading, time, vlsm
db = vlsm.Db(sys.argv[1])
def write():
    i = 0
    while True:
        try:
            db[b"%d" % i] = b"v"
        except vlsm.Closed:
            return
        i += 1
def read():
    try:
        while True:
            list(db.keys())
    except vlsm.Closed:
        return
for work in write, read, read:
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""
    _, errors = run_python(program, path)
    assert errors == ""
    with vlsm.Db(path) as db:
        assert len(db) > 0
