package org.vlsm;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Writes, in any keyspaces of a store, that take effect together or not at all. They apply in the
 * order in which they were added. After {@link Db#write(WriteBatch)} a batch may be cleared and
 * filled again. It is kept on the Java heap and passed to the store in one call. Only one thread at
 * a time may use it.
 */
public final class WriteBatch implements AutoCloseable {
    private static final byte PUT = 0;
    private static final byte PUT_WITH_TTL = 1;
    private static final byte DELETE = 2;
    private static final byte DELETE_RANGE = 3;
    private static final byte MERGE = 4;

    /** A length that means that a range has no limit. */
    private static final int NO_LIMIT = -1;

    /** The longest array that every JVM can allocate. */
    private static final int MAX_LENGTH = Integer.MAX_VALUE - 8;

    private byte[] writes = new byte[256];
    private int length;
    private int count;

    /** The keyspaces. The writes refer to them by index. */
    private final List<Keyspace> keyspaces = new ArrayList<>();

    private final Map<Keyspace, Integer> places = new IdentityHashMap<>();
    private boolean closed;

    /** An empty batch. */
    public WriteBatch() {}

    /**
     * Adds a put.
     *
     * @param keyspace the keyspace; a {@link Db} is the keyspace {@code default}
     * @param key the key
     * @param value the value
     * @return this
     */
    public WriteBatch put(Keyspace keyspace, byte[] key, byte[] value) {
        ByteBuffer to = add(PUT, keyspace, 8L + key.length + value.length);
        pair(to, key, value);
        return this;
    }

    /**
     * Adds a put of a value that expires.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @param value the value
     * @param ttl the time, from the write on, after which the key is absent
     * @return this
     */
    public WriteBatch put(Keyspace keyspace, byte[] key, byte[] value, Duration ttl) {
        long nanos = Native.nanos(ttl, "ttl");
        ByteBuffer to = add(PUT_WITH_TTL, keyspace, 16L + key.length + value.length);
        pair(to.putLong(nanos), key, value);
        return this;
    }

    /**
     * Adds a put of the remaining bytes of two buffers, which stay unchanged.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @param value the value
     * @return this
     */
    public WriteBatch put(Keyspace keyspace, ByteBuffer key, ByteBuffer value) {
        ByteBuffer to = add(PUT, keyspace, 8L + key.remaining() + value.remaining());
        to.putInt(key.remaining()).putInt(value.remaining());
        to.put(key.duplicate()).put(value.duplicate());
        return this;
    }

    /**
     * Adds a delete.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @return this
     */
    public WriteBatch delete(Keyspace keyspace, byte[] key) {
        add(DELETE, keyspace, 4L + key.length).putInt(key.length).put(key);
        return this;
    }

    /**
     * Adds a delete of all keys of a range.
     *
     * @param keyspace the keyspace
     * @param range the range
     * @return this
     */
    public WriteBatch deleteRange(Keyspace keyspace, Range range) {
        byte[] none = {};
        byte[] lo = range.lo == null ? none : range.lo;
        byte[] hi = range.hi == null ? none : range.hi;
        ByteBuffer to = add(DELETE_RANGE, keyspace, 9L + lo.length + hi.length);
        to.put((byte) range.ends());
        to.putInt(range.lo == null ? NO_LIMIT : lo.length);
        to.putInt(range.hi == null ? NO_LIMIT : hi.length);
        to.put(lo).put(hi);
        return this;
    }

    /**
     * Adds an operand of the keyspace's merge operator.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @param operand the operand
     * @return this
     */
    public WriteBatch merge(Keyspace keyspace, byte[] key, byte[] operand) {
        pair(add(MERGE, keyspace, 8L + key.length + operand.length), key, operand);
        return this;
    }

    /**
     * The number of writes.
     *
     * @return the number
     */
    public int count() {
        return count;
    }

    /**
     * The bytes of the writes, with a few bytes of overhead for each.
     *
     * @return the number
     */
    public long sizeInBytes() {
        return length;
    }

    /** Removes all writes. */
    public void clear() {
        length = 0;
        count = 0;
        keyspaces.clear();
        places.clear();
    }

    /** Removes all writes and frees their memory. No more writes can be added then. */
    @Override
    public void close() {
        closed = true;
        clear();
        writes = new byte[0];
    }

    void writeTo(Db db, WriteOptions options) {
        check();
        Keyspace[] used = keyspaces.toArray(Keyspace[]::new);
        long[] ids = keyspaces.stream().mapToLong(keyspace -> keyspace.id).toArray();
        Native.write(db, db.id, used, ids, writes, length, options.durabilityNumber(),
                options.deadlineNanos);
    }

    private void check() {
        if (closed) {
            throw VlsmException.of("Closed", "the batch was closed: make another one", null);
        }
    }

    /** Makes room for a write and writes its kind and keyspace. Returns the buffer after them. */
    private ByteBuffer add(byte kind, Keyspace keyspace, long more) {
        Objects.requireNonNull(keyspace, "keyspace");
        check();
        long needed = length + 5L + more;
        if (needed > MAX_LENGTH) {
            throw VlsmException.of("InvalidArgument",
                    "the batch would have more than " + MAX_LENGTH + " bytes: write it first",
                    null);
        }
        if (needed > writes.length) {
            long twice = Math.min(2L * writes.length, MAX_LENGTH);
            writes = Arrays.copyOf(writes, (int) Math.max(needed, twice));
        }
        Integer place = places.get(keyspace);
        if (place == null) {
            place = keyspaces.size();
            keyspaces.add(keyspace);
            places.put(keyspace, place);
        }
        ByteBuffer to = ByteBuffer.wrap(writes, length, writes.length - length);
        to.put(kind).putInt(place);
        length = (int) needed;
        count++;
        return to;
    }

    private static void pair(ByteBuffer to, byte[] key, byte[] value) {
        to.putInt(key.length).putInt(value.length).put(key).put(value);
    }
}
