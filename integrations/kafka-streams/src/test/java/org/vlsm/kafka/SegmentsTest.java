package org.vlsm.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.WindowKeySchema;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Segments, each a keyspace, are created, found again and dropped. */
class SegmentsTest {
    private static final long INTERVAL = 60_000;

    @TempDir
    Path folder;

    private InternalMockProcessorContext<?, ?> context;
    private WindowStore<Bytes, byte[]> store;

    @BeforeEach
    void open() {
        context = Contexts.of(folder, Map.of());
        store = VlsmStores.persistentWindowStore("w", Duration.ofMillis(2 * INTERVAL),
                Duration.ofMillis(3), false).get();
        store.init(context, store);
    }

    @AfterEach
    void close() {
        store.close();
    }

    private void put(String key, long time) {
        store.put(bytes(key), key.getBytes(StandardCharsets.UTF_8), time);
    }

    private static Bytes bytes(String text) {
        return Bytes.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    private List<String> all() {
        List<String> all = new ArrayList<>();
        try (var windows = store.all()) {
            windows.forEachRemaining(window -> all.add(
                    new String(window.value, StandardCharsets.UTF_8)));
        }
        return all;
    }

    /** The keyspaces of the task's store. */
    private Set<String> keyspaces() {
        TaskDb db = TaskDb.acquire(folder.toFile(), Map.of());
        try {
            Set<String> names = new TreeSet<>(db.keyspaces());
            names.remove("default");
            return names;
        } finally {
            db.release();
        }
    }

    @Test
    void segmentsRollWithTheStreamsTime() {
        put("a", 0);
        put("b", INTERVAL);
        put("c", 2 * INTERVAL);
        assertEquals(Set.of("w:0", "w:60000", "w:120000"), keyspaces());
        put("d", 4 * INTERVAL);
        assertEquals(Set.of("w:120000", "w:240000"), keyspaces());
        assertEquals(List.of("d"), all(), "the third is older than the retention period");
        put("late", INTERVAL); // Its segment has expired.
        assertEquals(Set.of("w:120000", "w:240000"), keyspaces());
        assertNull(store.fetch(bytes("late"), INTERVAL));
    }

    @Test
    void segmentsAreFoundAgain() {
        put("a", 0);
        put("b", INTERVAL);
        store.close();
        assertEquals(Set.of("w:0", "w:60000"), keyspaces());
        open();
        assertEquals(List.of("a", "b"), all());
        put("c", 3 * INTERVAL);
        assertEquals(Set.of("w:60000", "w:180000"), keyspaces());
    }

    @Test
    void aRestoreSkipsWhatExpired() {
        List<KeyValue<byte[], byte[]>> changelog = new ArrayList<>();
        for (int minute = 0; minute < 6; minute++) {
            String key = "k" + minute;
            changelog.add(KeyValue.pair(
                    WindowKeySchema.toStoreKeyBinary(bytes(key), minute * INTERVAL, 0).get(),
                    key.getBytes(StandardCharsets.UTF_8)));
        }
        changelog.add(KeyValue.pair(
                WindowKeySchema.toStoreKeyBinary(bytes("k4"), 4 * INTERVAL, 0).get(), null));
        context.restore("w", changelog);
        assertEquals(List.of("k5"), all());
        assertEquals(Set.of("w:180000", "w:240000", "w:300000"), keyspaces());
    }

    @Test
    void anIteratorGoesOnBehindADroppedSegment() {
        put("a", 10); // A little less than two minutes before "c".
        put("b", INTERVAL);
        put("c", 2 * INTERVAL);
        try (KeyValueIterator<?, byte[]> windows = store.all()) {
            assertEquals("a", new String(windows.next().value, StandardCharsets.UTF_8));
            put("d", 4 * INTERVAL); // Drops the first two.
            assertEquals("c", new String(windows.next().value, StandardCharsets.UTF_8));
            assertFalse(windows.hasNext());
        }
    }

    @Test
    void retainedDuplicatesAreAllThere() {
        WindowStore<Bytes, byte[]> duplicates = VlsmStores.persistentWindowStore("d",
                Duration.ofMillis(INTERVAL), Duration.ofMillis(3), true).get();
        duplicates.init(context, duplicates);
        for (int i = 0; i < 3; i++) {
            duplicates.put(bytes("key"), new byte[] {(byte) i}, 7);
        }
        duplicates.put(bytes("key"), null, 7);
        List<Integer> found = new ArrayList<>();
        try (var values = duplicates.fetch(bytes("key"), 0, 10)) {
            values.forEachRemaining(value -> found.add((int) value.value[0]));
        }
        assertEquals(List.of(0, 1, 2), found);
        duplicates.close();
    }

    @Test
    void aHundredSegmentsShareOneStore() {
        VlsmWindowSupplier many = new VlsmWindowSupplier("many", 200 * INTERVAL, INTERVAL, 3,
                false, Format.PLAIN);
        WindowStore<Bytes, byte[]> store = many.get();
        store.init(context, store);
        for (int minute = 0; minute < 100; minute++) {
            store.put(bytes("key"), new byte[1000], minute * INTERVAL);
        }
        try (var values = store.fetch(bytes("key"), 0, 100 * INTERVAL)) {
            int count = 0;
            while (values.hasNext()) {
                values.next();
                count++;
            }
            assertEquals(100, count);
        }
        store.put(bytes("key"), new byte[1], 1000 * INTERVAL);
        assertEquals(Set.of("many:60000000"), keyspaces());
        store.close();
    }

    /** A query in another thread meets dropped segments at any point, and never fails. */
    @Test
    void queriesGoOnWhileSegmentsAreDropped() throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        AtomicLong found = new AtomicLong();
        Callable<Void> query = () -> {
            while (!ended.get()) {
                found.addAndGet(all().size());
                for (String key : List.of("a", "b")) {
                    for (long time = 0; time < 100; time++) {
                        store.fetch(bytes(key), time * INTERVAL);
                    }
                }
            }
            return null;
        };
        ExecutorService threads = Executors.newFixedThreadPool(2);
        try {
            List<Future<Void>> queries = List.of(threads.submit(query), threads.submit(query));
            for (long time = 0; time < 100; time++) {
                put("a", time * INTERVAL);
                put("b", time * INTERVAL);
            }
            ended.set(true);
            for (Future<Void> one : queries) {
                one.get(30, TimeUnit.SECONDS);
            }
        } finally {
            ended.set(true);
            threads.shutdown();
        }
        assertTrue(found.get() > 0);
        assertEquals(3, keyspaces().size());
    }
}
