import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.lmdbjava.Cursor;
import org.lmdbjava.Dbi;
import org.lmdbjava.DbiFlags;
import org.lmdbjava.Env;
import org.lmdbjava.EnvFlags;
import org.lmdbjava.Txn;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompressionType;
import org.rocksdb.LRUCache;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.vlsm.Db;

/**
 * Rates of puts, gets and scans through Java, beside RocksDB's own binding and lmdbjava, and the
 * latency of puts at a fixed rate. {@code ../rates} runs it.
 *
 * <p>One thread, keys of 16 bytes in random order, random values of 100 bytes. Every store
 * acknowledges a write without waiting for the device. The LSM stores have a WAL, 256 MB of memory
 * (RocksDB: a cache of 192 MB beside a memtable of 64 MB), filters of 10 bits a key, and LZ4; LMDB
 * has the page cache. Half of the pairs are put one by one, the other half in batches of 1,000;
 * half of all are read in random order; all are scanned, as arrays. Then new keys are put at 20,000
 * a second for five seconds. A latency begins when the put was due, so the wait for an earlier put
 * counts in full.
 *
 * <p>Each round is a new store; the stores take turns, after one small round that is not counted.
 */
final class Rates {
    private static final int BATCH = 1000;
    private static final int VALUE = 100;
    private static final long PUTS_PER_SECOND = 20_000;
    private static final int PACED_PUTS = 100_000;
    private static final List<String> COLUMNS = List.of("put", "batch", "get", "get direct",
            "scan", "P50 us", "P99 us", "P99.9 us");

    private Rates() {}

    /** A store, by its binding. */
    private interface Store extends AutoCloseable {
        void put(byte[] key, byte[] value) throws Exception;

        void putAll(byte[][] keys, byte[][] values) throws Exception;

        byte[] get(byte[] key) throws Exception;

        /** Reads into a direct buffer and returns the length of the value. */
        int get(ByteBuffer key, ByteBuffer value) throws Exception;

        /** The bytes of all pairs. */
        long scan() throws Exception;

        @Override
        void close() throws IOException;
    }

    private record Vlsm(Db db) implements Store {
        static Store open(Path path) {
            return new Vlsm(Db.open(path, new org.vlsm.Options().memoryLimit(256 << 20)
                    .defaultKeyspace(new org.vlsm.KeyspaceOptions().bitsPerKey(10)
                            .compression(org.vlsm.Compression.LZ4))));
        }

        @Override
        public void put(byte[] key, byte[] value) {
            db.put(key, value);
        }

        @Override
        public void putAll(byte[][] keys, byte[][] values) {
            try (org.vlsm.WriteBatch batch = new org.vlsm.WriteBatch()) {
                for (int i = 0; i < keys.length; i++) {
                    batch.put(db, keys[i], values[i]);
                }
                db.write(batch);
            }
        }

        @Override
        public byte[] get(byte[] key) {
            return db.get(key);
        }

        @Override
        public int get(ByteBuffer key, ByteBuffer value) {
            return db.get(key, value);
        }

        @Override
        public long scan() {
            long bytes = 0;
            try (org.vlsm.Cursor cursor = db.cursor()) {
                while (cursor.advance()) {
                    bytes += cursor.key().length + cursor.value().length;
                }
            }
            return bytes;
        }

        @Override
        public void close() {
            db.close();
        }
    }

    private record Rocks(RocksDB db, org.rocksdb.WriteOptions write, ReadOptions read)
            implements Store {
        static Store open(Path path) throws RocksDBException {
            org.rocksdb.Options options = new org.rocksdb.Options().setCreateIfMissing(true)
                    .setCompressionType(CompressionType.LZ4_COMPRESSION)
                    .setTableFormatConfig(new BlockBasedTableConfig()
                            .setBlockCache(new LRUCache(192 << 20))
                            .setFilterPolicy(new BloomFilter(10)));
            return new Rocks(RocksDB.open(options, path.toString()),
                    new org.rocksdb.WriteOptions(), new ReadOptions());
        }

        @Override
        public void put(byte[] key, byte[] value) throws RocksDBException {
            db.put(write, key, value);
        }

        @Override
        public void putAll(byte[][] keys, byte[][] values) throws RocksDBException {
            try (org.rocksdb.WriteBatch batch = new org.rocksdb.WriteBatch()) {
                for (int i = 0; i < keys.length; i++) {
                    batch.put(keys[i], values[i]);
                }
                db.write(write, batch);
            }
        }

        @Override
        public byte[] get(byte[] key) throws RocksDBException {
            return db.get(read, key);
        }

        @Override
        public int get(ByteBuffer key, ByteBuffer value) throws RocksDBException {
            return db.get(read, key, value);
        }

        @Override
        public long scan() {
            long bytes = 0;
            try (RocksIterator pairs = db.newIterator(read)) {
                for (pairs.seekToFirst(); pairs.isValid(); pairs.next()) {
                    bytes += pairs.key().length + pairs.value().length;
                }
            }
            return bytes;
        }

        @Override
        public void close() {
            write.close();
            read.close();
            db.close();
        }
    }

    /** Uses direct buffers, lmdbjava's native interface; arrays are copied to and from them. */
    private record Lmdb(Env<ByteBuffer> env, Dbi<ByteBuffer> dbi, ByteBuffer key, ByteBuffer value)
            implements Store {
        static Store open(Path path) throws IOException {
            Files.createDirectories(path);
            Env<ByteBuffer> env = Env.create().setMapSize(8L << 30).open(path.toFile(),
                    EnvFlags.MDB_NOSYNC);
            return new Lmdb(env, env.openDbi("pairs", DbiFlags.MDB_CREATE),
                    ByteBuffer.allocateDirect(16), ByteBuffer.allocateDirect(VALUE));
        }

        private void put(Txn<ByteBuffer> own, byte[] key, byte[] value) {
            dbi.put(own, this.key.clear().put(key).flip(), this.value.clear().put(value).flip());
        }

        @Override
        public void put(byte[] key, byte[] value) {
            try (Txn<ByteBuffer> own = env.txnWrite()) {
                put(own, key, value);
                own.commit();
            }
        }

        @Override
        public void putAll(byte[][] keys, byte[][] values) {
            try (Txn<ByteBuffer> own = env.txnWrite()) {
                for (int i = 0; i < keys.length; i++) {
                    put(own, keys[i], values[i]);
                }
                own.commit();
            }
        }

        private static byte[] copy(ByteBuffer of) {
            byte[] bytes = new byte[of.remaining()];
            of.get(bytes);
            return bytes;
        }

        @Override
        public byte[] get(byte[] key) {
            try (Txn<ByteBuffer> own = env.txnRead()) {
                return copy(dbi.get(own, this.key.clear().put(key).flip()));
            }
        }

        @Override
        public int get(ByteBuffer key, ByteBuffer value) {
            try (Txn<ByteBuffer> own = env.txnRead()) {
                value.put(dbi.get(own, key));
                return value.position();
            }
        }

        @Override
        public long scan() {
            long bytes = 0;
            try (Txn<ByteBuffer> own = env.txnRead();
                    Cursor<ByteBuffer> pairs = dbi.openCursor(own)) {
                while (pairs.next()) {
                    bytes += copy(pairs.key()).length + copy(pairs.val()).length;
                }
            }
            return bytes;
        }

        @Override
        public void close() {
            env.close();
        }
    }

    /** How a store is opened, by its name. */
    private record Kind(String name, Opener opener) {}

    private interface Opener {
        Store open(Path path) throws Exception;
    }

    private static final List<Kind> KINDS = List.of(new Kind("vlsm", Vlsm::open),
            new Kind("rocksdbjni", Rocks::open), new Kind("lmdbjava", Lmdb::open));

    private interface Work {
        void run() throws Exception;
    }

    /** Thousands per second. */
    private static double rate(int count, Work work) throws Exception {
        long started = System.nanoTime();
        work.run();
        return count * 1e6 / (System.nanoTime() - started);
    }

    private static byte[] key(long number) {
        long mixed = number * 0x9E3779B97F4A7C15L;
        return ByteBuffer.allocate(16).putLong(mixed ^ mixed >>> 29).putLong(number).array();
    }

    /** The figures of a new store, by column. */
    private static double[] measure(Store store, int pairs) throws Exception {
        byte[][] keys = new byte[pairs][];
        byte[][] values = new byte[pairs][VALUE];
        Random random = new Random(pairs);
        for (int i = 0; i < pairs; i++) {
            keys[i] = key(i);
            random.nextBytes(values[i]);
        }
        int half = pairs / 2;
        int[] wanted = random.ints(half, 0, pairs).toArray();
        double[] found = new double[COLUMNS.size()];
        found[0] = rate(half, () -> {
            for (int i = 0; i < half; i++) {
                store.put(keys[i], values[i]);
            }
        });
        found[1] = rate(pairs - half, () -> {
            for (int i = half; i < pairs; i += BATCH) {
                int end = Math.min(i + BATCH, pairs);
                store.putAll(Arrays.copyOfRange(keys, i, end), Arrays.copyOfRange(values, i, end));
            }
        });
        found[2] = rate(half, () -> {
            for (int i : wanted) {
                check(Arrays.equals(store.get(keys[i]), values[i]));
            }
        });
        found[3] = direct(store, keys, values, wanted);
        found[4] = rate(pairs, () -> check(store.scan() == (16L + VALUE) * pairs));
        pace(store, pairs, found);
        return found;
    }

    private static double direct(Store store, byte[][] keys, byte[][] values, int[] wanted)
            throws Exception {
        ByteBuffer key = ByteBuffer.allocateDirect(16);
        ByteBuffer value = ByteBuffer.allocateDirect(VALUE);
        return rate(wanted.length, () -> {
            for (int i : wanted) {
                key.clear().put(keys[i]).flip();
                check(store.get(key, value.clear()) == VALUE && value.get(0) == values[i][0]);
            }
        });
    }

    /** Puts new keys at the fixed rate, and finds the percentiles. */
    private static void pace(Store store, int pairs, double[] found) throws Exception {
        byte[] value = new byte[VALUE];
        long[] nanos = new long[PACED_PUTS];
        long step = TimeUnit.SECONDS.toNanos(1) / PUTS_PER_SECOND;
        long started = System.nanoTime();
        for (int i = 0; i < PACED_PUTS; i++) {
            long due = started + i * step;
            while (System.nanoTime() < due) {
                Thread.onSpinWait();
            }
            store.put(key(pairs + i), value);
            nanos[i] = System.nanoTime() - due;
        }
        Arrays.sort(nanos);
        found[5] = nanos[PACED_PUTS / 2] / 1e3;
        found[6] = nanos[(int) (PACED_PUTS * 0.99)] / 1e3;
        found[7] = nanos[(int) (PACED_PUTS * 0.999)] / 1e3;
    }

    private static void check(boolean is) {
        if (!is) {
            throw new AssertionError("a store does not hold what was put");
        }
    }

    private static double[] round(Kind kind, Path folder, int pairs) throws Exception {
        Path path = folder.resolve(kind.name());
        remove(path);
        try (Store store = kind.opener().open(path)) {
            return measure(store, pairs);
        } finally {
            remove(path);
            System.gc();
        }
    }

    private static void remove(Path path) throws IOException {
        if (Files.exists(path)) {
            try (Stream<Path> all = Files.walk(path)) {
                for (Path one : all.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(one);
                }
            }
        }
    }

    private static double median(List<double[]> rounds, int column) {
        double[] sorted = rounds.stream().mapToDouble(round -> round[column]).sorted().toArray();
        return sorted[sorted.length / 2];
    }

    /**
     * Measures.
     *
     * @param arguments the number of pairs, the number of rounds, and a folder
     */
    public static void main(String[] arguments) throws Exception {
        int pairs = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1_000_000;
        int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 3;
        Path folder = arguments.length > 2 ? Path.of(arguments[2])
                : Files.createTempDirectory("vlsm-rates");
        RocksDB.loadLibrary();
        List<List<double[]>> found = new ArrayList<>();
        for (Kind kind : KINDS) {
            round(kind, folder, Math.min(pairs, 100_000));
            found.add(new ArrayList<>());
        }
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < KINDS.size(); i++) {
                int turn = (i + round) % KINDS.size();
                found.get(turn).add(round(KINDS.get(turn), folder, pairs));
            }
        }
        System.out.printf("%-12s", "thousands/s");
        COLUMNS.forEach(column -> System.out.printf("%12s", column));
        System.out.println();
        for (int i = 0; i < KINDS.size(); i++) {
            System.out.printf("%-12s", KINDS.get(i).name());
            for (int column = 0; column < COLUMNS.size(); column++) {
                System.out.printf(column < 5 ? "%12.0f" : "%12.1f", median(found.get(i), column));
            }
            System.out.println();
        }
        if (arguments.length < 3) {
            Files.delete(folder);
        }
    }
}
