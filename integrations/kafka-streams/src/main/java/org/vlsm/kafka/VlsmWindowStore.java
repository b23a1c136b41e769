package org.vlsm.kafka;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/**
 * A window store. The key of a record consists of the key, the start of the window, and a number.
 * If duplicates are retained, each record has a different number; otherwise the number is zero.
 * This is Kafka's own format, also in the changelog.
 */
class VlsmWindowStore extends SegmentedStore implements WindowStore<Bytes, byte[]> {
    private static final WindowKeySchema SCHEMA = new WindowKeySchema();

    private final long windowSize;
    private final boolean retainDuplicates;
    private int number;

    VlsmWindowStore(VlsmWindowSupplier supplier) {
        this(supplier, "window");
    }

    private VlsmWindowStore(VlsmWindowSupplier supplier, String kind) {
        super(supplier.name(), kind, supplier.metricsScope(), supplier.retentionPeriod(),
                supplier.segmentIntervalMs(), SCHEMA, true);
        windowSize = supplier.windowSize();
        retainDuplicates = supplier.retainDuplicates();
    }

    /** A store whose values begin with a timestamp. */
    static final class Timestamped extends VlsmWindowStore implements TimestampedBytesStore {
        Timestamped(VlsmWindowSupplier supplier) {
            super(supplier, "timestamped window");
        }
    }

    /** A store whose values begin with headers and a timestamp. */
    static final class WithHeaders extends VlsmWindowStore
            implements TimestampedBytesStore, HeadersBytesStore {
        WithHeaders(VlsmWindowSupplier supplier) {
            super(supplier, "window with headers");
        }
    }

    @Override
    public void put(Bytes key, byte[] value, long windowStart) {
        if (retainDuplicates) {
            if (value == null) {
                return; // A new number has no record to delete.
            }
            number = number + 1 & Integer.MAX_VALUE;
        }
        segments.put(WindowKeySchema.toStoreKeyBinary(key, windowStart, number), value);
    }

    @Override
    public byte[] fetch(Bytes key, long windowStart) {
        return segments.get(WindowKeySchema.toStoreKeyBinary(key, windowStart, number));
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
        return times(segments.fetch(key, from, to, true));
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long from, long to) {
        return times(segments.fetch(key, from, to, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo, long from,
            long to) {
        return windows(segments.fetch(keyFrom, keyTo, from, to, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo,
            long from, long to) {
        return windows(segments.fetch(keyFrom, keyTo, from, to, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long from, long to) {
        return windows(segments.fetch(null, null, from, to, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long from, long to) {
        return windows(segments.fetch(null, null, from, to, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return fetchAll(0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return backwardFetchAll(0, Long.MAX_VALUE);
    }

    private static WindowStoreIterator<byte[]> times(KeyValueIterator<Bytes, byte[]> pairs) {
        return new KeyedIterator.ByTime(pairs, SCHEMA::segmentTimestamp);
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> windows(
            KeyValueIterator<Bytes, byte[]> pairs) {
        return new KeyedIterator<>(pairs,
                key -> WindowKeySchema.fromStoreBytesKey(key.get(), windowSize));
    }
}
