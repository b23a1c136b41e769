package org.vlsm.kafka;

import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.internals.SessionKeySchema;

/**
 * A session store. The key of a record consists of the key, the end and the start of the session.
 */
class VlsmSessionStore extends SegmentedStore implements SessionStore<Bytes, byte[]> {
    private static final SessionKeySchema SCHEMA = new SessionKeySchema();

    VlsmSessionStore(VlsmSessionSupplier supplier) {
        this(supplier, "session");
    }

    private VlsmSessionStore(VlsmSessionSupplier supplier, String kind) {
        super(supplier.name(), kind, supplier.metricsScope(), supplier.retentionPeriod(),
                supplier.segmentIntervalMs(), SCHEMA, false);
    }

    /** A store whose values begin with headers. */
    static final class WithHeaders extends VlsmSessionStore implements HeadersBytesStore {
        WithHeaders(VlsmSessionSupplier supplier) {
            super(supplier, "session with headers");
        }
    }

    @Override
    public void put(Windowed<Bytes> session, byte[] aggregate) {
        segments.put(SessionKeySchema.toBinary(session), aggregate);
    }

    @Override
    public void remove(Windowed<Bytes> session) {
        segments.remove(SessionKeySchema.toBinary(session));
    }

    @Override
    public byte[] fetchSession(Bytes key, long start, long end) {
        return segments.get(SessionKeySchema.toBinary(key, start, end));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes key, long earliestEnd,
            long latestStart) {
        return sessions(segments.fetch(required(key), earliestEnd, latestStart, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes key,
            long earliestEnd, long latestStart) {
        return sessions(segments.fetch(required(key), earliestEnd, latestStart, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(Bytes keyFrom, Bytes keyTo,
            long earliestEnd, long latestStart) {
        return sessions(segments.fetch(keyFrom, keyTo, earliestEnd, latestStart, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFindSessions(Bytes keyFrom,
            Bytes keyTo, long earliestEnd, long latestStart) {
        return sessions(segments.fetch(keyFrom, keyTo, earliestEnd, latestStart, false));
    }

    /** The sessions of all keys that end in a range of time, which are emitted when they close. */
    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> findSessions(long earliestEnd,
            long latestEnd) {
        return sessions(segments.fetchAll(earliestEnd, latestEnd, pairs -> {
            while (pairs.hasNext()) {
                long end = SCHEMA.segmentTimestamp(pairs.peekNextKey());
                if (end >= earliestEnd && end <= latestEnd) {
                    return true;
                }
                pairs.next();
            }
            return false;
        }, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes key) {
        return findSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes key) {
        return backwardFindSessions(key, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(Bytes keyFrom, Bytes keyTo) {
        return findSessions(keyFrom, keyTo, 0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(Bytes keyFrom, Bytes keyTo) {
        return backwardFindSessions(keyFrom, keyTo, 0, Long.MAX_VALUE);
    }

    private static Bytes required(Bytes key) {
        return Objects.requireNonNull(key, "key cannot be null");
    }

    private static KeyValueIterator<Windowed<Bytes>, byte[]> sessions(
            KeyValueIterator<Bytes, byte[]> pairs) {
        return new KeyedIterator<>(pairs, SessionKeySchema::from);
    }
}
