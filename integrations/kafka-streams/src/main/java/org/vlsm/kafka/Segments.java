package org.vlsm.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.NavigableMap;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentSkipListMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.internals.HasNextCondition;
import org.apache.kafka.streams.state.internals.SegmentedBytesStore.KeySchema;
import org.vlsm.Keyspace;
import org.vlsm.Range;

/**
 * The records of a window or session store by time: a segment, which is a keyspace, for each
 * interval of the stream's time. The name of the keyspace is the name of the store, a colon, and
 * the first millisecond of the interval.
 *
 * <p>Retention drops whole keyspaces, when the stream's time has passed a segment by more than the
 * retention period. A drop costs one record of the manifest, however much the segment holds, and
 * its files are removed in the background. A segment that is still there may hold records older
 * than the retention period; reads skip them, as in Kafka's own stores.
 *
 * <p>The thread of the task writes and drops; queries read from other threads. If the segment that
 * an iterator is in is dropped, the iterator continues with the next segment.
 */
final class Segments {
    private final StoreState state;
    private final String metricsScope;
    private final long retention;
    private final long interval;
    private final KeySchema schema;
    private final boolean windows;
    private final NavigableMap<Long, Segment> segments = new ConcurrentSkipListMap<>();
    private Sensor expired;
    private volatile long streamTime = ConsumerRecord.NO_TIMESTAMP;

    /** The records of one interval. */
    private static final class Segment {
        final Keyspace keyspace;
        volatile boolean open = true;

        Segment(Keyspace keyspace) {
            this.keyspace = keyspace;
        }
    }

    /**
     * The segments of a store.
     *
     * @param windows whether the records are windows, for which a range of time limits their
     *     starts; for sessions a range has no upper limit, because a session with any later end may
     *     have begun in it
     */
    Segments(StoreState state, String metricsScope, long retention, long interval,
            KeySchema schema, boolean windows) {
        this.state = state;
        this.metricsScope = metricsScope;
        this.retention = retention;
        this.interval = interval;
        this.schema = schema;
        this.windows = windows;
    }

    // Opening and closing.

    void open(StateStoreContext context, StateStore root) {
        if (context.metrics() instanceof StreamsMetricsImpl metrics) {
            expired = TaskMetrics.droppedRecordsSensor(Thread.currentThread().getName(),
                    context.taskId().toString(), metrics);
        }
        state.open(context, root, this::openExisting, this::restore);
        Gauges.add(state, metricsScope);
    }

    private void openExisting() {
        String prefix = state.name() + ":";
        for (String keyspace : state.db().keyspaces()) {
            if (keyspace.startsWith(prefix)) {
                long start = Long.parseLong(keyspace.substring(prefix.length()));
                segments.put(start / interval, new Segment(state.db().keyspace(keyspace)));
            }
        }
    }

    void close() {
        state.close(() -> {
            segments.values().forEach(segment -> {
                segment.open = false;
                segment.keyspace.close();
            });
            segments.clear();
        });
    }

    // Segments.

    private long id(long time) {
        return time / interval;
    }

    /** The segment of a time, created if it is missing; null if it has expired. */
    private Segment live(long time) {
        long oldest = id(streamTime - retention);
        if (id(time) < oldest) {
            return null;
        }
        Segment segment = segments.get(id(time));
        if (segment == null) {
            String name = state.name() + ":" + id(time) * interval;
            segment = state.run("open a segment of",
                    () -> new Segment(state.db().keyspace(name)));
            segments.put(id(time), segment);
        }
        dropBefore(oldest);
        return segment;
    }

    private void dropBefore(long oldest) {
        Iterator<Segment> old = segments.headMap(oldest, false).values().iterator();
        while (old.hasNext()) {
            Segment segment = old.next();
            segment.open = false;
            old.remove();
            state.run("drop a segment of", () -> {
                state.db().drop(segment.keyspace);
                return null;
            });
        }
    }

    // Writes.

    void put(Bytes key, byte[] value) {
        state.checkOpen();
        long time = schema.segmentTimestamp(key);
        streamTime = Math.max(streamTime, time);
        Segment segment = live(time);
        if (segment != null) {
            state.put(segment.keyspace, key, value);
        } else if (expired != null) {
            expired.record(1.0, System.currentTimeMillis());
        }
    }

    void remove(Bytes key) {
        state.checkOpen();
        long time = schema.segmentTimestamp(key);
        streamTime = Math.max(streamTime, time);
        Segment segment = segments.get(id(time));
        if (segment != null) {
            state.put(segment.keyspace, key, null);
        }
    }

    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            long time = schema.segmentTimestamp(Bytes.wrap(record.key()));
            streamTime = Math.max(streamTime, time);
        }
        state.restore(records, record -> {
            Segment segment = live(schema.segmentTimestamp(Bytes.wrap(record.key())));
            return segment == null ? null : segment.keyspace;
        });
    }

    // Reads.

    /** The earliest time that a read may show. */
    private long from(long from) {
        return Math.max(from, streamTime - retention + 1);
    }

    byte[] get(Bytes key) {
        state.checkOpen();
        long time = schema.segmentTimestamp(key);
        Segment segment = segments.get(id(time));
        if (segment == null || time < from(time)) {
            return null;
        }
        try {
            return state.get(segment.keyspace, key);
        } catch (InvalidStateStoreException closed) {
            skipIfDropped(segment, closed);
            return null;
        }
    }

    /** Passes an error of a query on, unless the task dropped the segment at the same time. */
    private void skipIfDropped(Segment segment, InvalidStateStoreException closed) {
        if (segment.open || !state.isOpen()) {
            throw closed;
        }
    }

    /** The records of a key and a range of time. */
    KeyValueIterator<Bytes, byte[]> fetch(Bytes key, long from, long to, boolean forward) {
        long first = from(from);
        if (windows && to < first) {
            return iterator(List.of(), null, null, iterator -> false, forward);
        }
        return iterator(between(first, windows ? to : Long.MAX_VALUE, forward),
                schema.lowerRangeFixedSize(key, first), schema.upperRangeFixedSize(key, to),
                schema.hasNextCondition(key, key, first, to, forward), forward);
    }

    /** The records of a range of keys (null means no limit) and a range of time. */
    KeyValueIterator<Bytes, byte[]> fetch(Bytes keyFrom, Bytes keyTo, long from, long to,
            boolean forward) {
        if (keyFrom != null && keyTo != null && keyFrom.compareTo(keyTo) > 0) {
            StoreState.warnOfEmptyRange();
            return iterator(List.of(), null, null, iterator -> false, forward);
        }
        long first = from(from);
        if (windows && to < first) {
            return iterator(List.of(), null, null, iterator -> false, forward);
        }
        return iterator(between(first, windows ? to : Long.MAX_VALUE, forward),
                keyFrom == null ? null : schema.lowerRange(keyFrom, first),
                keyTo == null ? null : schema.upperRange(keyTo, to),
                schema.hasNextCondition(keyFrom, keyTo, first, to, forward), forward);
    }

    /**
     * The records of all keys whose segment time is in a range.
     *
     * @param condition advances an iterator to the next record to show
     */
    KeyValueIterator<Bytes, byte[]> fetchAll(long from, long to, HasNextCondition condition,
            boolean forward) {
        return iterator(between(from(from), to, forward), null, null, condition, forward);
    }

    private List<Segment> between(long from, long to, boolean forward) {
        state.checkOpen();
        if (id(from) > id(to)) {
            return List.of();
        }
        NavigableMap<Long, Segment> between = segments.subMap(id(from), true, id(to), true);
        return new ArrayList<>((forward ? between : between.descendingMap()).values());
    }

    private KeyValueIterator<Bytes, byte[]> iterator(List<Segment> between, Bytes lo, Bytes hi,
            HasNextCondition condition, boolean forward) {
        state.checkOpen();
        Range range = Range.closed(lo == null ? null : lo.get(), hi == null ? null : hi.get());
        return new Walk(between.iterator(), forward ? range : range.reversed(), condition);
    }

    /** Iterates over the records of several segments, one after the other. */
    private final class Walk implements KeyValueIterator<Bytes, byte[]> {
        private final Iterator<Segment> rest;
        private final Range range;
        private final HasNextCondition condition;
        private Segment segment;
        private PairIterator pairs;

        /**
         * The caller knows that there is a next record: it is returned even if its segment is
         * dropped meanwhile.
         */
        private boolean announced;

        Walk(Iterator<Segment> rest, Range range, HasNextCondition condition) {
            this.rest = rest;
            this.range = range;
            this.condition = condition;
        }

        @Override
        public boolean hasNext() {
            if (announced && state.isOpen()) {
                return true;
            }
            while (pairs == null || !segment.open || !condition.hasNext(pairs)) {
                close();
                if (!rest.hasNext()) {
                    return false;
                }
                segment = rest.next();
                if (segment.open) {
                    try {
                        pairs = state.iterate(segment.keyspace, range);
                    } catch (InvalidStateStoreException closed) {
                        skipIfDropped(segment, closed);
                    }
                }
            }
            announced = true;
            return true;
        }

        @Override
        public Bytes peekNextKey() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return pairs.peekNextKey();
        }

        @Override
        public KeyValue<Bytes, byte[]> next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            announced = false;
            return pairs.next();
        }

        @Override
        public void close() {
            announced = false;
            if (pairs != null) {
                pairs.close();
                pairs = null;
            }
        }
    }
}
