package org.apache.kafka.streams.state.internals;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.test.MockRecordCollector;
import org.junit.jupiter.api.Test;
import org.vlsm.kafka.VlsmStores;

/** Kafka's tests of a session store. */
public class VlsmSessionStoreTest extends AbstractSessionBytesStoreTest {
    @Override
    <K, V> SessionStore<K, V> buildSessionStore(long retentionPeriod, Serde<K> keySerde,
            Serde<V> valueSerde) {
        return Stores.sessionStoreBuilder(VlsmStores.persistentSessionStore("sessions",
                Duration.ofMillis(retentionPeriod)), keySerde, valueSerde).build();
    }

    /**
     * The kind of store that the tests expect: with segments, and finding sessions by their end.
     */
    @Override
    StoreType storeType() {
        return StoreType.RocksDBTimeOrderedSessionStoreWithIndex;
    }

    /**
     * Like Kafka's test, but it restores into a store that was opened again. Kafka's test restores
     * into a closed store: RocksDB's store opens itself without the task, while this store refuses.
     */
    @Override
    @Test
    public void shouldRestore() {
        List<KeyValue<Windowed<String>, Long>> expected = new ArrayList<>();
        for (long at : List.of(0, 10, 100, 1000)) {
            var session = new Windowed<>("a", new SessionWindow(at, at));
            sessionStore.put(session, at);
            expected.add(KeyValue.pair(session, at));
        }
        sessionStore.close();
        assertThrows(InvalidStateStoreException.class, () -> sessionStore.fetch("a"));
        try {
            Utils.delete(context.stateDir());
        } catch (IOException failed) {
            throw new java.io.UncheckedIOException(failed);
        }

        sessionStore.init(context, sessionStore);
        try (var nothing = sessionStore.fetch("a")) {
            assertFalse(nothing.hasNext());
        }
        List<KeyValue<byte[], byte[]>> changelog = new ArrayList<>();
        MockRecordCollector collector = (MockRecordCollector) context.recordCollector();
        for (ProducerRecord<Object, Object> record : collector.collected()) {
            changelog.add(KeyValue.pair(((Bytes) record.key()).get(), (byte[]) record.value()));
        }
        context.restore(sessionStore.name(), changelog);
        try (KeyValueIterator<Windowed<String>, Long> values = sessionStore.fetch("a")) {
            List<KeyValue<Windowed<String>, Long>> found = new ArrayList<>();
            values.forEachRemaining(found::add);
            assertEquals(expected, found);
        }
    }
}
