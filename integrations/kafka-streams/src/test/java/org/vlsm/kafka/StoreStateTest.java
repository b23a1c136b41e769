package org.vlsm.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.vlsm.kafka.Contexts.CHANGELOG;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig.InternalConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.internals.PositionSerde;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.vlsm.kafka.example.Child;

/** Offsets, position and the mark of uncommitted records; kills; errors. */
class StoreStateTest {
    @TempDir
    Path folder;

    private static final Position FIVE = Position.emptyPosition().withComponent("input", 0, 5);

    static Bytes bytes(int number) {
        return Bytes.wrap(ByteBuffer.allocate(4).putInt(number).array());
    }

    private static KeyValueStore<Bytes, byte[]> open(InternalMockProcessorContext<?, ?> context) {
        KeyValueStore<Bytes, byte[]> store = VlsmStores.persistentKeyValueStore("kv").get();
        store.init(context, store);
        return store;
    }

    private KeyValueStore<Bytes, byte[]> open(Map<String, ?> settings) {
        return open(Contexts.of(folder, settings));
    }

    @Test
    void offsetsAndPositionAreKeptByCommits() {
        InternalMockProcessorContext<?, ?> context = Contexts.of(folder, Map.of());
        KeyValueStore<Bytes, byte[]> store = open(context);
        Contexts.at(context, 5);
        store.put(bytes(1), new byte[] {1});
        assertEquals(FIVE, store.getPosition());
        assertNull(store.committedOffset(CHANGELOG));
        store.commit(Map.of(CHANGELOG, 17L));
        assertEquals(17, store.committedOffset(CHANGELOG));
        Contexts.at(context, 6);
        store.put(bytes(2), new byte[] {2});
        store.close();

        store = open(Map.of());
        assertEquals(17, store.committedOffset(CHANGELOG));
        assertEquals(FIVE, store.getPosition(), "the position is that of the commit");
        assertArrayEquals(new byte[] {2}, store.get(bytes(2)));
        store.commit(Map.of());
        assertNull(store.committedOffset(CHANGELOG), "a commit without offsets forgets them");
        store.close();
    }

    @Test
    void allKindsOfStoresHaveAPosition() {
        InternalMockProcessorContext<?, ?> context = Contexts.of(folder, Map.of());
        Contexts.at(context, 5);
        var windows = VlsmStores.persistentTimestampedWindowStore("w", Duration.ofHours(1),
                Duration.ofMinutes(1), false).get();
        var sessions = VlsmStores.persistentSessionStore("s", Duration.ofHours(1)).get();
        windows.init(context, windows);
        sessions.init(context, sessions);
        windows.put(bytes(1), new byte[9], 0);
        sessions.put(new Windowed<>(bytes(1), new SessionWindow(0, 9)), new byte[1]);
        for (StateStore store : List.of(windows, sessions)) {
            assertEquals(FIVE, store.getPosition());
            store.commit(Map.of(CHANGELOG, 3L));
            store.close();
            store.init(Contexts.of(folder, Map.of()), store);
            assertEquals(FIVE, store.getPosition());
            assertEquals(3, store.committedOffset(CHANGELOG));
            store.close();
        }
    }

    @Test
    void restoredRecordsMoveThePositionByTheirHeaders() {
        InternalMockProcessorContext<?, ?> context = Contexts.of(folder,
                Map.of(InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED, true));
        KeyValueStore<Bytes, byte[]> store = open(context);
        RecordHeaders headers = new RecordHeaders();
        headers.add(ChangelogRecordDeserializationHelper
                .CHANGELOG_VERSION_HEADER_RECORD_CONSISTENCY);
        headers.add(ChangelogRecordDeserializationHelper.CHANGELOG_POSITION_HEADER_KEY,
                PositionSerde.serialize(FIVE).array());
        context.restoreWithHeaders("kv", List.of(new ConsumerRecord<>("changelog", 0, 0, 0,
                TimestampType.CREATE_TIME, 4, 1, bytes(1).get(), new byte[] {1}, headers,
                java.util.Optional.empty())));
        assertEquals(FIVE, store.getPosition());
        assertArrayEquals(new byte[] {1}, store.get(bytes(1)));
        store.close();
    }

    @Test
    void underExactlyOnceUncommittedRecordsMakeATaskCorrupted() {
        KeyValueStore<Bytes, byte[]> store = open(Contexts.exactlyOnce());
        store.put(bytes(1), new byte[] {1});
        store.commit(Map.of(CHANGELOG, 1L));
        store.close();
        store = open(Contexts.exactlyOnce());
        store.put(bytes(2), new byte[] {2});
        store.close(); // Without a commit: the transaction may have failed.
        TaskCorruptedException corrupted = assertThrows(TaskCorruptedException.class,
                () -> open(Contexts.exactlyOnce()));
        assertEquals(1, corrupted.corruptedTasks().size());
        open(Map.of()).close(); // Under at-least-once such records are allowed.
    }

    // Kills.

    /** Opens a store, writes, commits, writes more, and waits for its end. */
    public static void main(String[] arguments) throws java.io.IOException {
        boolean exactlyOnce = arguments[1].equals("exactly-once");
        InternalMockProcessorContext<?, ?> context = Contexts.of(Path.of(arguments[0]),
                exactlyOnce ? Contexts.exactlyOnce() : Map.of());
        KeyValueStore<Bytes, byte[]> store = open(context);
        Contexts.at(context, 5);
        if (arguments[2].equals("restore")) {
            List<org.apache.kafka.streams.KeyValue<byte[], byte[]>> records = new ArrayList<>();
            IntStream.range(0, 1000).forEach(i -> records.add(
                    org.apache.kafka.streams.KeyValue.pair(bytes(i).get(), bytes(i).get())));
            context.restore("kv", records);
        } else {
            IntStream.range(0, 1000).forEach(i -> store.put(bytes(i), bytes(i).get()));
        }
        store.commit(Map.of(CHANGELOG, 999L));
        Contexts.at(context, 6);
        if (!arguments[2].equals("restore")) {
            IntStream.range(1000, 1500).forEach(i -> store.put(bytes(i), bytes(i).get()));
        }
        System.out.println("written");
        Child.obey(line -> { });
    }

    private void killed(String guarantee, String how) throws Exception {
        try (Child child = new Child(folder, how + guarantee, StoreStateTest.class,
                folder.toString(), guarantee, how)) {
            child.await("written", 30);
            child.kill();
        }
    }

    @Test
    void afterAKillTheStoreIsAtLeastAtItsCommit() throws Exception {
        killed("at-least-once", "put");
        KeyValueStore<Bytes, byte[]> store = open(Map.of());
        assertEquals(999, store.committedOffset(CHANGELOG));
        for (int i = 0; i < 1000; i++) {
            assertArrayEquals(bytes(i).get(), store.get(bytes(i)));
        }
        boolean there = true;
        for (int i = 1000; i < 1500; i++) {
            boolean here = store.get(bytes(i)) != null;
            assertTrue(there || !here, "what is there after the commit is a prefix");
            there = here;
        }
        assertEquals(5, store.getPosition().getPartitionPositions("input").get(0));
        store.close();
    }

    @Test
    void afterAKillUnderExactlyOnceTheTaskIsRestoredIfItHadProcessed() throws Exception {
        killed("exactly-once", "put");
        // The mark is as durable as the first record after the commit: both or none are there.
        boolean marked;
        try {
            open(Contexts.exactlyOnce()).close();
            marked = false;
        } catch (TaskCorruptedException corrupted) {
            marked = true;
        }
        KeyValueStore<Bytes, byte[]> store = open(Map.of());
        assertEquals(marked, store.get(bytes(1000)) != null);
        store.close();
    }

    @Test
    void afterAKillUnderExactlyOnceARestoredStoreGoesOn() throws Exception {
        killed("exactly-once", "restore");
        KeyValueStore<Bytes, byte[]> store = open(Contexts.exactlyOnce());
        assertEquals(999, store.committedOffset(CHANGELOG));
        assertArrayEquals(bytes(999).get(), store.get(bytes(999)));
        store.close();
    }

    // One store for a task, and errors.

    @Test
    void theStoresOfATaskShareOne() {
        InternalMockProcessorContext<?, ?> context = Contexts.of(folder, Map.of());
        KeyValueStore<Bytes, byte[]> one = open(context);
        KeyValueStore<Bytes, byte[]> other = VlsmStores.persistentKeyValueStore("other").get();
        other.init(context, other);
        TaskDb db = TaskDb.acquire(folder.toFile(), Map.of());
        assertEquals(3, db.users());
        one.put(bytes(1), new byte[] {1});
        assertNull(other.get(bytes(1)));
        one.close();
        one.close();
        assertEquals(2, db.users());
        other.put(bytes(1), new byte[] {2});
        assertArrayEquals(new byte[] {2}, other.get(bytes(1)));
        other.close();
        db.release();
        db = TaskDb.acquire(folder.toFile(), Map.of());
        assertEquals(1, db.users());
        db.release();
    }

    @Test
    void aClosedStoreSaysSo() {
        KeyValueStore<Bytes, byte[]> store = open(Map.of());
        store.put(bytes(1), new byte[] {1});
        var iterator = store.all();
        store.close();
        assertFalse(store.isOpen());
        assertThrows(InvalidStateStoreException.class, iterator::hasNext);
        assertThrows(InvalidStateStoreException.class, () -> store.get(bytes(1)));
        assertThrows(InvalidStateStoreException.class, () -> store.put(bytes(1), new byte[1]));
        assertThrows(InvalidStateStoreException.class, store::all);
        iterator.close();
    }

    @Test
    void aStoreOfAnotherKindIsRefused() {
        open(Map.of()).close();
        var timestamped = VlsmStores.persistentTimestampedKeyValueStore("kv").get();
        ProcessorStateException refused = assertThrows(ProcessorStateException.class,
                () -> timestamped.init(Contexts.of(folder, Map.of()), timestamped));
        assertTrue(refused.getMessage().contains("was written as a key-value store"),
                refused.getMessage());
        open(Map.of()).close(); // The failed attempt left no lock.
    }

    @Test
    void aKeyThatIsTooLongLosesNothing() {
        KeyValueStore<Bytes, byte[]> store = open(Map.of());
        store.put(bytes(1), new byte[] {1});
        ProcessorStateException refused = assertThrows(ProcessorStateException.class,
                () -> store.put(Bytes.wrap(new byte[70_000]), new byte[1]));
        assertTrue(refused.getMessage().startsWith("Cannot write to store kv: "),
                refused.getMessage());
        assertArrayEquals(new byte[] {1}, store.get(bytes(1)));
        store.put(Bytes.wrap(new byte[0]), new byte[] {3});
        assertArrayEquals(new byte[] {3}, store.get(Bytes.wrap(new byte[0])));
        store.close();
    }

    @Test
    void settingsReachVlsm() {
        ProcessorStateException unknown = assertThrows(ProcessorStateException.class,
                () -> open(Map.of("vlsm.memory_limits", "1")));
        assertTrue(unknown.getMessage().contains("memory_limits"), unknown.getMessage());
        assertThrows(ConfigException.class,
                () -> open(Map.of("vlsm.commit_durability", "later")));
        ProcessorStateException large = assertThrows(ProcessorStateException.class,
                () -> open(Map.of("vlsm.wal_sync_bytes", "1 TiB")));
        assertTrue(large.getMessage().contains("wal_sync_bytes"), large.getMessage());
        open(Map.of("vlsm.memory_limit", 128 << 20, "vlsm.commit_durability", "sync",
                "vlsm.policy.tree.memtable_bytes", "4 MiB", "vlsm.log", "false")).close();
    }
}
