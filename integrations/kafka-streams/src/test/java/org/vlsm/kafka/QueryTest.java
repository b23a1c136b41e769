package org.vlsm.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.TimestampedKeyQuery;
import org.apache.kafka.streams.query.TimestampedRangeQuery;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Interactive queries (version 2), with positions, through Kafka's own wrappers. */
class QueryTest {
    private static final QueryConfig PLAIN = new QueryConfig(false);

    @TempDir
    Path folder;

    private InternalMockProcessorContext<?, ?> context;
    private StateStore open;

    @BeforeEach
    void context() {
        context = Contexts.of(folder, Map.of());
        Contexts.at(context, 5);
    }

    @AfterEach
    void close() {
        open.close();
    }

    private <S extends StateStore> S open(S store) {
        store.init(context, store);
        open = store;
        return store;
    }

    private static <R> R result(StateStore store, Query<R> query) {
        QueryResult<R> result = store.query(query, PositionBound.unbounded(), PLAIN);
        assertTrue(result.isSuccess(), () -> result.getFailureMessage());
        assertEquals(Position.emptyPosition().withComponent("input", 0, 5), result.getPosition());
        return result.getResult();
    }

    private static <K, V> List<KeyValue<K, V>> list(KeyValueIterator<K, V> pairs) {
        List<KeyValue<K, V>> list = new ArrayList<>();
        try (pairs) {
            pairs.forEachRemaining(list::add);
        }
        return list;
    }

    @Test
    void keyValueStores() {
        var store = open(Stores.keyValueStoreBuilder(VlsmStores.persistentKeyValueStore("kv"),
                Serdes.String(), Serdes.Long()).build());
        store.put("a", 1L);
        store.put("b", 2L);
        store.put("c", 3L);
        assertEquals(2L, result(store, KeyQuery.<String, Long>withKey("b")));
        assertEquals(List.of(KeyValue.pair("b", 2L), KeyValue.pair("c", 3L)),
                list(result(store, RangeQuery.<String, Long>withLowerBound("b"))));
        assertEquals(List.of(KeyValue.pair("b", 2L), KeyValue.pair("a", 1L)), list(result(store,
                RangeQuery.<String, Long>withUpperBound("b").withDescendingKeys())));
    }

    @Test
    void timestampedKeyValueStores() {
        var store = open(Stores.timestampedKeyValueStoreBuilder(
                VlsmStores.persistentTimestampedKeyValueStore("kv"), Serdes.String(),
                Serdes.Long()).build());
        store.put("a", ValueAndTimestamp.make(1L, 100));
        assertEquals(ValueAndTimestamp.make(1L, 100),
                result(store, TimestampedKeyQuery.<String, Long>withKey("a")));
        assertEquals(1L, result(store, KeyQuery.<String, Long>withKey("a")));
        assertEquals(List.of(KeyValue.pair("a", ValueAndTimestamp.make(1L, 100))),
                list(result(store, TimestampedRangeQuery.<String, Long>withNoBounds())));
    }

    @Test
    void windowStores() {
        var store = open(Stores.timestampedWindowStoreBuilder(
                VlsmStores.persistentTimestampedWindowStore("w", Duration.ofHours(1),
                        Duration.ofSeconds(10), false), Serdes.String(), Serdes.Long()).build());
        store.put("a", ValueAndTimestamp.make(1L, 3), 0);
        store.put("a", ValueAndTimestamp.make(2L, 12), 10_000);
        store.put("b", ValueAndTimestamp.make(3L, 12), 10_000);
        try (var values = result(store, WindowKeyQuery.<String, ValueAndTimestamp<Long>>
                withKeyAndWindowStartRange("a", Instant.EPOCH, Instant.ofEpochMilli(10_000)))) {
            assertEquals(ValueAndTimestamp.make(1L, 3), values.next().value);
            assertEquals(KeyValue.pair(10_000L, ValueAndTimestamp.make(2L, 12)), values.next());
            assertFalse(values.hasNext());
        }
        assertEquals(2, list(result(store, WindowRangeQuery
                .<String, ValueAndTimestamp<Long>>withWindowStartRange(
                        Instant.ofEpochMilli(10_000), Instant.ofEpochMilli(20_000)))).size());
    }

    @Test
    void sessionStores() {
        var store = open(Stores.sessionStoreBuilder(VlsmStores.persistentSessionStore("s",
                Duration.ofHours(1)), Serdes.String(), Serdes.Long()).build());
        var session = new Windowed<>("a", new SessionWindow(3, 9));
        store.put(session, 4L);
        store.put(new Windowed<>("b", new SessionWindow(3, 9)), 5L);
        assertEquals(List.of(KeyValue.pair(session, 4L)),
                list(result(store, WindowRangeQuery.<String, Long>withKey("a"))));
    }

    @Test
    void aQueryOfALaterPositionFails() {
        var store = open(Stores.keyValueStoreBuilder(VlsmStores.persistentKeyValueStore("kv"),
                Serdes.String(), Serdes.Long()).build());
        store.put("a", 1L);
        KeyQuery<String, Long> query = KeyQuery.withKey("a");
        PositionBound reached = PositionBound.at(
                Position.emptyPosition().withComponent("input", 0, 5));
        PositionBound later = PositionBound.at(
                Position.emptyPosition().withComponent("input", 0, 6));
        assertEquals(1L, store.query(query, reached, PLAIN).getResult());
        assertEquals(FailureReason.NOT_UP_TO_BOUND,
                store.query(query, later, PLAIN).getFailureReason());
        Contexts.at(context, 6);
        store.put("a", 2L);
        assertEquals(2L, store.query(query, later, PLAIN).getResult());
    }
}
