package org.vlsm.kafka.example;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.MockStreamsMetrics;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.ThreadCache;
import org.apache.kafka.streams.state.internals.WindowKeySchema;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.MockRecordCollector;
import org.apache.kafka.test.StreamsTestUtils;
import org.vlsm.kafka.VlsmStores;

/**
 * Measures vLSM's stores and RocksDB's default stores, without a broker. It restores from batches
 * of 1,000 changelog records; then it makes single puts of known and new keys, with a commit after
 * each 10,000, and reports their throughput and latencies. Key-value stores come first, then window
 * stores whose segments expire.
 *
 * <p>Both run in this JVM and take turns. It prints every round, and the medians.
 */
final class Measure {
    private static final int BATCH = 1000;
    private static final String HEAD = String.format("%-10s %-8s %10s %12s %8s %8s %9s %13s %9s",
            "", "", "restore", "puts", "P50", "P99", "P99.9", "longest", "close");
    private static final long STEP_MILLIS = 1;
    private static final Duration RETENTION = Duration.ofMinutes(4);
    private static final TopicPartition CHANGELOG = new TopicPartition("changelog", 0);

    private final int records;
    private final byte[] value;
    private final Path folder;

    private final Map<String, List<double[]>> found = new LinkedHashMap<>();

    private Measure(int records, int valueBytes, Path folder) {
        this.records = records;
        this.value = new byte[valueBytes];
        this.folder = folder;
    }

    /** A kind of store: a key for each record, and a put. */
    private interface Kind<S extends StateStore> {
        S open(boolean vlsm);

        byte[] changelogKey(long number, long time);

        void put(S store, long number, byte[] value, long time);
    }

    private static final class KeyValues implements Kind<KeyValueStore<Bytes, byte[]>> {
        @Override
        public KeyValueStore<Bytes, byte[]> open(boolean vlsm) {
            return (vlsm ? VlsmStores.persistentTimestampedKeyValueStore("store")
                    : Stores.persistentTimestampedKeyValueStore("store")).get();
        }

        @Override
        public byte[] changelogKey(long number, long time) {
            return key(number);
        }

        @Override
        public void put(KeyValueStore<Bytes, byte[]> store, long number, byte[] value, long time) {
            store.put(Bytes.wrap(key(number)), value);
        }
    }

    private static final class Windows implements Kind<WindowStore<Bytes, byte[]>> {
        private static final Duration SIZE = Duration.ofSeconds(1);

        @Override
        public WindowStore<Bytes, byte[]> open(boolean vlsm) {
            return (vlsm ? VlsmStores.persistentTimestampedWindowStore("store", RETENTION, SIZE,
                    false) : Stores.persistentTimestampedWindowStore("store", RETENTION, SIZE,
                            false)).get();
        }

        private static long start(long time) {
            return time / SIZE.toMillis() * SIZE.toMillis();
        }

        @Override
        public byte[] changelogKey(long number, long time) {
            return WindowKeySchema.toStoreKeyBinary(Bytes.wrap(key(number)), start(time), 0).get();
        }

        @Override
        public void put(WindowStore<Bytes, byte[]> store, long number, byte[] value, long time) {
            store.put(Bytes.wrap(key(number)), value, start(time));
        }
    }

    /** A key of 16 bytes. Successive keys are in no order. */
    private static byte[] key(long number) {
        long mixed = number * 0x9E3779B97F4A7C15L;
        return ByteBuffer.allocate(16).putLong(mixed ^ mixed >>> 29).putLong(number).array();
    }

    private <S extends StateStore> void round(String name, Kind<S> kind, boolean vlsm)
            throws IOException {
        Path state = folder.resolve(vlsm ? "vlsm" : "rocksdb");
        Utils.delete(state.toFile());
        Files.createDirectories(state);
        Properties config = StreamsTestUtils.getStreamsConfig();
        InternalMockProcessorContext<?, ?> context = new InternalMockProcessorContext<>(
                state.toFile(), Serdes.ByteArray(), Serdes.ByteArray(), new MockRecordCollector(),
                new ThreadCache(new LogContext(), 0, new MockStreamsMetrics(new Metrics())),
                new StreamsConfig(config));
        Random random = new Random(7);
        S store = kind.open(vlsm);
        store.init(context, store);
        double restore = restore(context, store, kind, random);

        long[] nanos = new long[records];
        long started = System.nanoTime();
        for (int i = 0; i < records; i++) {
            random.nextBytes(value);
            long number = i % 2 == 0 ? random.nextInt(records) : records + i;
            long before = System.nanoTime();
            kind.put(store, number, value.clone(), (records + i) * STEP_MILLIS);
            nanos[i] = System.nanoTime() - before;
            if (i % 10_000 == 9_999) {
                store.commit(Map.of(CHANGELOG, (long) records + i));
            }
        }
        double puts = records / ((System.nanoTime() - started) / 1e9);
        Arrays.sort(nanos);
        started = System.nanoTime();
        store.close();
        double close = (System.nanoTime() - started) / 1e9;
        double[] figures = {restore, puts, nanos[records / 2] / 1e3,
                nanos[(int) (records * 0.99)] / 1e3, nanos[(int) (records * 0.999)] / 1e3,
                nanos[records - 1] / 1e3, close};
        String row = String.format("%-10s %-8s", name, vlsm ? "vlsm" : "rocksdb");
        found.computeIfAbsent(row, none -> new ArrayList<>()).add(figures);
        print(row, figures);
        Utils.delete(state.toFile());
    }

    private static void print(String row, double[] figures) {
        System.out.print(row);
        System.out.printf(" %8.2f s %10.0f/s %8.1f %8.1f %9.1f %10.1f us %7.2f s%n",
                Arrays.stream(figures).boxed().toArray());
    }

    private static double[] medians(List<double[]> rounds) {
        double[] medians = new double[rounds.get(0).length];
        for (int i = 0; i < medians.length; i++) {
            int column = i;
            double[] sorted = rounds.stream().mapToDouble(round -> round[column]).sorted()
                    .toArray();
            medians[i] = sorted[sorted.length / 2];
        }
        return medians;
    }

    /** Restores all records, and returns the seconds that it took. */
    private <S extends StateStore> double restore(InternalMockProcessorContext<?, ?> context,
            S store, Kind<S> kind, Random random) {
        long started = System.nanoTime();
        for (int first = 0; first < records; first += BATCH) {
            List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>(BATCH);
            for (int i = first; i < Math.min(first + BATCH, records); i++) {
                random.nextBytes(value);
                batch.add(new ConsumerRecord<>("changelog", 0, i,
                        kind.changelogKey(i, i * STEP_MILLIS), value.clone()));
            }
            context.restoreWithHeaders("store", batch);
        }
        store.commit(Map.of(CHANGELOG, (long) records));
        return (System.nanoTime() - started) / 1e9;
    }

    /**
     * Measures.
     *
     * @param arguments the number of records, the length of a value, a folder, and the number of
     *     rounds
     */
    public static void main(String[] arguments) throws IOException {
        int records = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1_000_000;
        int valueBytes = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 100;
        Path folder = arguments.length > 2 ? Path.of(arguments[2])
                : Files.createTempDirectory("vlsm-kafka");
        int rounds = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 3;
        Measure measure = new Measure(records, valueBytes, folder);
        System.out.printf("%d records of 16 + %d bytes%n%s%n", records, valueBytes, HEAD);
        for (int round = 0; round < rounds; round++) {
            for (boolean vlsm : new boolean[] {round % 2 == 0, round % 2 != 0}) {
                measure.round("key-value", new KeyValues(), vlsm);
                measure.round("window", new Windows(), vlsm);
            }
        }
        System.out.printf("%nmedians%n%s%n", HEAD);
        measure.found.forEach((row, figures) -> print(row, medians(figures)));
        if (arguments.length < 3) {
            Utils.delete(folder.toFile());
        }
    }
}
