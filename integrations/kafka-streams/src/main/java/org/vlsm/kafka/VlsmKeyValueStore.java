package org.vlsm.kafka;

import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.vlsm.Keyspace;
import org.vlsm.Range;

/**
 * A key-value store: one keyspace. It treats values as bytes. The subclasses tell Kafka with what
 * the values begin.
 */
class VlsmKeyValueStore extends TaskStore implements KeyValueStore<Bytes, byte[]> {
    private final String metricsScope;
    private Keyspace keyspace;

    VlsmKeyValueStore(String name, String metricsScope) {
        this(name, metricsScope, "key-value");
    }

    private VlsmKeyValueStore(String name, String metricsScope, String kind) {
        super(name, kind);
        this.metricsScope = metricsScope;
    }

    /** A store whose values begin with a timestamp. */
    static final class Timestamped extends VlsmKeyValueStore implements TimestampedBytesStore {
        Timestamped(String name, String metricsScope) {
            super(name, metricsScope, "timestamped key-value");
        }
    }

    /** A store whose values begin with headers and a timestamp. */
    static final class WithHeaders extends VlsmKeyValueStore implements HeadersBytesStore {
        WithHeaders(String name, String metricsScope) {
            super(name, metricsScope, "key-value with headers");
        }
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        state.open(context, root,
                () -> keyspace = state.db().keyspace(state.name()), this::restore);
        Gauges.add(state, metricsScope);
    }

    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        state.restore(records, record -> keyspace);
    }

    @Override
    public void close() {
        state.close(() -> keyspace.close());
    }

    // Writes.

    @Override
    public void put(Bytes key, byte[] value) {
        state.put(keyspace, key, value);
    }

    @Override
    public synchronized byte[] putIfAbsent(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        byte[] before = get(key);
        if (before == null && value != null) {
            put(key, value);
        }
        return before;
    }

    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        state.putAll(keyspace, entries);
    }

    @Override
    public synchronized byte[] delete(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        byte[] before = get(key);
        put(key, null);
        return before;
    }

    // Reads.

    @Override
    public byte[] get(Bytes key) {
        return state.get(keyspace, key);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return state.iterate(keyspace, between(from, to));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return state.iterate(keyspace, between(from, to).reversed());
    }

    /** The keys from one to another, both inclusive; null means no limit. */
    private static Range between(Bytes from, Bytes to) {
        if (from != null && to != null && from.compareTo(to) > 0) {
            StoreState.warnOfEmptyRange();
        }
        return Range.closed(from == null ? null : from.get(), to == null ? null : to.get());
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return state.iterate(keyspace, Range.all());
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return state.iterate(keyspace, Range.all().reversed());
    }

    @Override
    public <S extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(P prefix,
            S serializer) {
        Objects.requireNonNull(prefix, "prefix cannot be null");
        Objects.requireNonNull(serializer, "prefixKeySerializer cannot be null");
        return state.iterate(keyspace, Range.prefix(serializer.serialize(null, prefix)));
    }

    /** Also counts versions and deletes that are not compacted yet, as RocksDB's stores do. */
    @Override
    public long approximateNumEntries() {
        state.checkOpen();
        return state.run("read from", () -> keyspace.approximateSize(Range.all()).entries());
    }
}
