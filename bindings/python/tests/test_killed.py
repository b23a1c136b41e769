"""SIGKILL: no acknowledged write is lost, and no batch is there in part."""

import signal
import subprocess
import sys
import time

import vlsm

WRITER = """
import sys, vlsm
db = vlsm.Db(sys.argv[1], options={"policy": {"tree": {"memtable_bytes": "64 KiB"}}})
at = db.get(b"last", b"0")
for i in range(int(at), 10**9):
    with db.batch() as batch:
        batch.put(b"last", b"%d" % (i + 1))
        batch.put(b"a%010d" % i, bytes(100))
        batch.put(b"b%010d" % i, bytes(100))
    print(i + 1, flush=True)
"""


def test_twenty_kills(path):
    acknowledged = 0
    for kill in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert int(writer.stdout.readline()) > 0, "the writer did not start"
        time.sleep(0.05 + kill % 5 * 0.03)
        writer.send_signal(signal.SIGKILL)
        said = writer.stdout.read().split("\n")[:-1]
        writer.wait()
        acknowledged = max([acknowledged, *map(int, said)])
        with vlsm.Db(path) as db:
            at = int(db[b"last"])
            assert at >= acknowledged, f"kill {kill}: {at} of {acknowledged} batches"
            for prefix in b"ab":
                keys = list(db.keys(prefix=bytes([prefix])))
                assert keys == [b"%c%010d" % (prefix, i) for i in range(at)]
    assert acknowledged > 1000
