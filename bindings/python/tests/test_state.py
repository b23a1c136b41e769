"""Random operations on a store, compared with a dictionary."""

import shutil
import tempfile

from hypothesis import settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

import vlsm

KEYS = st.binary(max_size=3)
VALUES = st.binary(max_size=40)
KEYSPACES = st.sampled_from(["default", "other"])
ENDS = st.none() | KEYS


def within(pairs, lo, hi):
    after = (key for key in sorted(pairs) if lo is None or key >= lo)
    return [(key, pairs[key]) for key in after if hi is None or key < hi]


class Life(RuleBasedStateMachine):
    snapshots = Bundle("snapshots")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.model = {"default": {}, "other": {}}
        self.open()

    def open(self):
        self.db = vlsm.Db(self.folder + "/store", options={"memory_limit": "64 MiB"})
        if "other" not in self.db.keyspaces():
            self.db.create_keyspace("other")
        self.keyspaces = {"default": self.db, "other": self.db.keyspace("other")}

    def teardown(self):
        self.db.close()
        shutil.rmtree(self.folder)

    @rule(name=KEYSPACES, key=KEYS, value=VALUES)
    def put(self, name, key, value):
        self.keyspaces[name][key] = value
        self.model[name][key] = value

    @rule(name=KEYSPACES, key=KEYS)
    def pop(self, name, key):
        assert self.keyspaces[name].pop(key, None) == self.model[name].pop(key, None)

    @rule(name=KEYSPACES, lo=ENDS, hi=ENDS)
    def delete_range(self, name, lo, hi):
        self.keyspaces[name].delete_range(lo, hi)
        for key, _ in within(self.model[name], lo, hi):
            del self.model[name][key]

    @rule(name=KEYSPACES, key=KEYS, expected=st.none() | VALUES, new=st.none() | VALUES)
    def swap(self, name, key, expected, new):
        swapped = self.keyspaces[name].compare_and_swap(key, expected, new)
        assert swapped == (self.model[name].get(key) == expected)
        if swapped and new is None:
            self.model[name].pop(key, None)
        elif swapped:
            self.model[name][key] = new

    @rule(writes=st.lists(st.tuples(KEYSPACES, KEYS, st.none() | VALUES)))
    def batch(self, writes):
        with self.db.batch() as batch:
            for name, key, value in writes:
                keyspace = self.keyspaces[name]
                if value is None:
                    batch.delete(key, keyspace=keyspace)
                    self.model[name].pop(key, None)
                else:
                    batch.put(key, value, keyspace=keyspace)
                    self.model[name][key] = value

    @rule(reads=st.lists(st.tuples(KEYSPACES, KEYS)), key=KEYS, value=VALUES)
    def transact(self, reads, key, value):
        def work(own):
            for name, read in reads:
                assert own.get(read, keyspace=self.keyspaces[name]) == self.model[name].get(read)
            own.put(key, value)
            expected = within({**self.model["default"], key: value}, None, None)
            assert list(own.items()) == expected

        self.db.transact(work)
        self.model["default"][key] = value

    @rule(target=snapshots, name=KEYSPACES)
    def snapshot(self, name):
        return self.db.snapshot(), name, dict(self.model[name])

    @rule(kept=snapshots, lo=ENDS, hi=ENDS, reverse=st.booleans())
    def read_snapshot(self, kept, lo, hi, reverse):
        snapshot, name, model = kept
        try:
            found = list(snapshot.items(lo, hi, reverse=reverse, keyspace=self.keyspaces[name]))
        except (vlsm.Closed, vlsm.InvalidArgument):
            return  # of the life before
        expected = within(model, lo, hi)
        assert found == (expected[::-1] if reverse else expected)

    @rule(name=KEYSPACES, lo=ENDS, hi=ENDS, reverse=st.booleans())
    def scan(self, name, lo, hi, reverse):
        expected = within(self.model[name], lo, hi)
        found = list(self.keyspaces[name].items(lo, hi, reverse=reverse))
        assert found == (expected[::-1] if reverse else expected)

    @rule(name=KEYSPACES, keys=st.lists(KEYS))
    def get(self, name, keys):
        expected = [self.model[name].get(key) for key in keys]
        assert self.keyspaces[name].multi_get(keys) == expected
        assert [self.keyspaces[name].get(key) for key in keys] == expected

    @rule()
    def flush(self):
        self.db.flush()

    @rule()
    def compact(self):
        self.db.compact_range()

    @rule()
    def reopen(self):
        self.db.close()
        self.open()

    @invariant()
    def same(self):
        for name, keyspace in self.keyspaces.items():
            assert dict(keyspace.items()) == self.model[name]


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
