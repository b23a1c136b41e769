"""Rates of puts, gets and scans through Python, beside rocksdict, plyvel and lmdb.

    python rates.py [--pairs 500000] [--rounds 3]

One thread, keys of 16 bytes in random order, values of 100 bytes, data in memory. Every store acknowledges
without waiting for the device, and writes single puts as well as batches of 1,000. Each round is a new store;
the stores take turns; the median is printed, in thousands a second. What is not installed is left out, and said.
"""

import argparse
import importlib
import pathlib
import random
import shutil
import statistics
import tempfile
import time

BATCH = 1_000


class Vlsm:
    module = "vlsm"

    def __init__(self, module, path):
        self.db = module.Db(path)
        self.put, self.get = self.db.put, self.db.get

    def write(self, pairs):
        with self.db.batch() as batch:
            for key, value in pairs:
                batch.put(key, value)

    def scan(self):
        return sum(1 for _ in self.db.items())

    def close(self):
        self.db.close()


class RocksDict:
    module = "rocksdict"

    def __init__(self, module, path):
        self.module = module
        self.db = module.Rdict(str(path), module.Options(raw_mode=True))
        self.put, self.get = self.db.put, self.db.get

    def write(self, pairs):
        batch = self.module.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self.db.write(batch)

    def scan(self):
        return sum(1 for _ in self.db.items())

    def close(self):
        self.db.close()


class Plyvel:
    module = "plyvel"

    def __init__(self, module, path):
        self.db = module.DB(str(path), create_if_missing=True)
        self.put, self.get = self.db.put, self.db.get

    def write(self, pairs):
        with self.db.write_batch() as batch:
            for key, value in pairs:
                batch.put(key, value)

    def scan(self):
        return sum(1 for _ in self.db)

    def close(self):
        self.db.close()


class Lmdb:
    module = "lmdb"

    def __init__(self, module, path):
        self.db = module.open(str(path), map_size=8 << 30, sync=False)

    def put(self, key, value):
        with self.db.begin(write=True) as own:
            own.put(key, value)

    def get(self, key):
        with self.db.begin() as own:
            return own.get(key)

    def write(self, pairs):
        with self.db.begin(write=True) as own:
            for key, value in pairs:
                own.put(key, value)

    def scan(self):
        with self.db.begin() as own:
            return sum(1 for _ in own.cursor())

    def close(self):
        self.db.close()


def rate(count, work):
    begin = time.perf_counter()
    work()
    return count / (time.perf_counter() - begin) / 1000


def measure(store, keys, value):
    """The rates of a new store: single puts, puts in batches, gets, a scan."""
    half = len(keys) // 2
    singles, batched = keys[:half], keys[half:]
    found = {}

    def put():
        for key in singles:
            store.put(key, value)

    def write():
        for at in range(0, len(batched), BATCH):
            store.write((key, value) for key in batched[at : at + BATCH])

    def get():
        for key in wanted:
            assert store.get(key) == value

    def scan():
        assert store.scan() == len(keys)

    found["put"] = rate(len(singles), put)
    found["batch"] = rate(len(batched), write)
    wanted = random.Random(2).sample(keys, half)
    found["get"] = rate(len(wanted), get)
    found["scan"] = rate(len(keys), scan)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--pairs", type=int, default=500_000)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    numbers = random.Random(1).sample(range(10**12), options.pairs)
    keys = [b"%016d" % number for number in numbers]
    value = bytes(range(100))
    stores, modules = [], {}
    for store in Vlsm, RocksDict, Plyvel, Lmdb:
        try:
            modules[store] = importlib.import_module(store.module)
            stores.append(store)
        except ImportError as error:
            print(f"left out: {store.module}: {error}")
    rates = {store: [] for store in stores}
    for _ in range(options.rounds):
        for kind in stores:
            folder = pathlib.Path(tempfile.mkdtemp())
            store = kind(modules[kind], folder / "store")
            rates[kind].append(measure(store, keys, value))
            store.close()
            shutil.rmtree(folder)
    print(f"{'thousands a second':20}" + "".join(f"{what:>8}" for what in rates[Vlsm][0]))
    for kind in stores:
        medians = [statistics.median(one[what] for one in rates[kind]) for what in rates[kind][0]]
        print(f"{kind.module:20}" + "".join(f"{median:8.0f}" for median in medians))


if __name__ == "__main__":
    main()
