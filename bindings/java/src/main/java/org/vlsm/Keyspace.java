package org.vlsm;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/**
 * An ordered mapping from bytes to bytes, with options of its own. A {@link Db} is the keyspace
 * {@code default}.
 *
 * <p>Writing a key longer than {@link #MAX_KEY_LENGTH} or a value longer than {@link
 * #MAX_VALUE_LENGTH} throws {@link VlsmException.InvalidArgument}.
 */
public class Keyspace extends Handle {
    /** The result of a {@code get} into a buffer for a key that is absent. */
    public static final int ABSENT = -1;

    /** The longest key, in bytes. */
    public static final int MAX_KEY_LENGTH = 64 << 10;

    /** The longest value, in bytes. */
    public static final int MAX_VALUE_LENGTH = 1 << 30;

    private final Db db;

    /** A keyspace of a store; {@code db} is null for the store itself. */
    Keyspace(Db db, long id) {
        super(id);
        this.db = db;
    }

    /**
     * The store that it belongs to.
     *
     * @return the store
     */
    public Db db() {
        return db == null ? (Db) this : db;
    }

    /**
     * The name of the keyspace.
     *
     * @return the name
     */
    public String name() {
        return Native.name(this, id);
    }

    // Writes.

    /**
     * Sets a key to a value.
     *
     * @param key the key
     * @param value the value
     */
    public void put(byte[] key, byte[] value) {
        put(key, value, WriteOptions.DEFAULT);
    }

    /**
     * Sets a key to a value.
     *
     * @param key the key
     * @param value the value
     * @param options how it is acknowledged
     */
    public void put(byte[] key, byte[] value, WriteOptions options) {
        Native.put(this, id, key, value, Native.NO_TIME, options.durabilityNumber(),
                options.deadlineNanos);
    }

    /**
     * Sets a key to a value that expires.
     *
     * @param key the key
     * @param value the value
     * @param ttl the time from now after which the key is absent
     * @param options how it is acknowledged
     */
    public void put(byte[] key, byte[] value, Duration ttl, WriteOptions options) {
        Native.put(this, id, key, value, Native.nanos(ttl, "ttl"), options.durabilityNumber(),
                options.deadlineNanos);
    }

    /**
     * Sets a key to a value: the remaining bytes of two buffers, which stay unchanged.
     *
     * @param key the key
     * @param value the value
     */
    public void put(ByteBuffer key, ByteBuffer value) {
        put(key, value, WriteOptions.DEFAULT);
    }

    /**
     * Sets a key to a value: the remaining bytes of two buffers, which stay unchanged. Direct ones
     * are not copied to the Java heap.
     *
     * @param key the key
     * @param value the value
     * @param options how it is acknowledged
     */
    public void put(ByteBuffer key, ByteBuffer value, WriteOptions options) {
        if (key.isDirect() && value.isDirect()) {
            Native.putDirect(this, id, key, key.position(), key.remaining(), value,
                    value.position(), value.remaining(), Native.NO_TIME,
                    options.durabilityNumber(), options.deadlineNanos);
        } else {
            put(Native.bytes(key), Native.bytes(value), options);
        }
    }

    /**
     * Removes a key. An absent key is no error.
     *
     * @param key the key
     */
    public void delete(byte[] key) {
        delete(key, WriteOptions.DEFAULT);
    }

    /**
     * Removes a key. An absent key is no error.
     *
     * @param key the key
     * @param options how it is acknowledged
     */
    public void delete(byte[] key, WriteOptions options) {
        Native.delete(this, id, key, options.durabilityNumber(), options.deadlineNanos);
    }

    /**
     * Removes all keys of a range, at the cost of one record.
     *
     * @param range the range
     */
    public void deleteRange(Range range) {
        deleteRange(range, WriteOptions.DEFAULT);
    }

    /**
     * Removes all keys of a range, at the cost of one record.
     *
     * @param range the range
     * @param options how it is acknowledged
     */
    public void deleteRange(Range range, WriteOptions options) {
        Native.deleteRange(this, id, range.lo, range.hi, range.ends(),
                options.durabilityNumber(), options.deadlineNanos);
    }

    /**
     * Writes an operand of the keyspace's merge operator, which changes the value without reading
     * it.
     *
     * @param key the key
     * @param operand the operand
     */
    public void merge(byte[] key, byte[] operand) {
        merge(key, operand, WriteOptions.DEFAULT);
    }

    /**
     * Writes an operand of the keyspace's merge operator, which changes the value without reading
     * it.
     *
     * @param key the key
     * @param operand the operand
     * @param options how it is acknowledged
     */
    public void merge(byte[] key, byte[] operand, WriteOptions options) {
        Native.merge(this, id, key, operand, options.durabilityNumber(), options.deadlineNanos);
    }

    /**
     * Sets a key to {@code replacement} if its value is {@code expected}, in one step. Null stands
     * for an absent key.
     *
     * @param key the key
     * @param expected the value before, or null
     * @param replacement the value after, or null
     * @return whether the value was as expected
     */
    public boolean compareAndSwap(byte[] key, byte[] expected, byte[] replacement) {
        return Native.compareAndSwap(this, id, key, expected, replacement);
    }

    /**
     * Sets a key to a value if it is absent, in one step.
     *
     * @param key the key
     * @param value the value
     * @return null if the key was absent, or else its value
     */
    public byte[] putIfAbsent(byte[] key, byte[] value) {
        return Native.putIfAbsent(this, id, key, value);
    }

    /**
     * Replaces the value of a key with a function of it, in one step. Null stands for an absent
     * key, before and after. The function runs again if another write came in between.
     *
     * @param key the key
     * @param update the function
     * @return the value before, or null
     */
    public byte[] fetchUpdate(byte[] key, UnaryOperator<byte[]> update) {
        Objects.requireNonNull(update, "update");
        return db().transact(transaction -> {
            byte[] before = transaction.getForUpdate(this, key);
            byte[] after = update.apply(before == null ? null : before.clone());
            if (after != null) {
                transaction.put(this, key, after);
            } else if (before != null) {
                transaction.delete(this, key);
            }
            return before;
        });
    }

    // Reads.

    /**
     * The value of a key.
     *
     * @param key the key
     * @return the value, or null if the key is absent
     */
    public byte[] get(byte[] key) {
        return Native.get(this, id, null, 0, key);
    }

    /**
     * Copies the value of a key into a buffer at its position, and advances the position. If the
     * value is longer than the rest of the buffer, nothing is copied. With direct buffers nothing
     * is allocated on the Java heap.
     *
     * @param key its remaining bytes are the key; the buffer stays unchanged
     * @param into the buffer
     * @return the length of the value, or {@link #ABSENT}
     */
    public int get(ByteBuffer key, ByteBuffer into) {
        return get(this, id, null, 0, key, into);
    }

    static int get(Handle reader, long id, Handle keyspace, long keyspaceId, ByteBuffer key,
            ByteBuffer into) {
        if (into.isReadOnly()) {
            throw new java.nio.ReadOnlyBufferException();
        }
        if (key.isDirect() && into.isDirect()) {
            int length = Native.getDirect(reader, id, keyspace, keyspaceId, key, key.position(),
                    key.remaining(), into, into.position(), into.remaining());
            if (length >= 0 && length <= into.remaining()) {
                into.position(into.position() + length);
            }
            return length;
        }
        byte[] value = Native.get(reader, id, keyspace, keyspaceId, Native.bytes(key));
        if (value == null) {
            return ABSENT;
        }
        if (value.length <= into.remaining()) {
            into.put(value);
        }
        return value.length;
    }

    /**
     * Whether a key has a value.
     *
     * @param key the key
     * @return whether it has a value
     */
    public boolean contains(byte[] key) {
        return Native.contains(this, id, null, 0, key);
    }

    /**
     * The values of several keys, all as of one moment. Blocks that are not in memory are read
     * together.
     *
     * @param keys the keys
     * @return the values in the order of the keys, null for each that is absent
     */
    public List<byte[]> multiGet(List<byte[]> keys) {
        return Arrays.asList(Native.multiGet(this, id, null, 0, Native.arrays(keys, "a key")));
    }

    /**
     * The first pair.
     *
     * @return the pair, or null if there is none
     */
    public Entry first() {
        return firstOf(Range.all());
    }

    /**
     * The last pair.
     *
     * @return the pair, or null if there is none
     */
    public Entry last() {
        return firstOf(Range.all().reversed());
    }

    private Entry firstOf(Range range) {
        try (Cursor cursor = cursor(range)) {
            return cursor.advance() ? cursor.entry() : null;
        }
    }

    /**
     * A cursor over all pairs.
     *
     * @return the cursor, to be closed
     */
    public Cursor cursor() {
        return cursor(Range.all());
    }

    /**
     * A cursor over the pairs of a range, in its direction.
     *
     * @param range the range
     * @return the cursor, to be closed
     */
    public Cursor cursor(Range range) {
        return new Cursor(this, Native.cursor(this, id, null, 0, range.lo, range.hi, range.ends(),
                range.reverse));
    }

    /**
     * The pairs of a range, in its direction.
     *
     * @param range the range
     * @return the pairs; to be closed, as by try-with-resources
     */
    public Stream<Entry> stream(Range range) {
        return cursor(range).stream();
    }

    /**
     * Counts the keys, by reading all of them.
     *
     * @return the number of keys
     */
    public long count() {
        return Native.count(this, id);
    }

    /**
     * Whether the keyspace has no keys.
     *
     * @return whether it has none
     */
    public boolean isEmpty() {
        return first() == null;
    }

    // The keyspace as a whole.

    /** Removes all data of the keyspace, at the cost of one record. */
    public void clear() {
        Native.clear(this, id);
    }

    /**
     * Renames the keyspace.
     *
     * @param name the name
     */
    public void rename(String name) {
        Native.rename(this, id, Native.utf8(name));
    }

    /**
     * Changes the options. Options that are not set become those of the store.
     *
     * @param options the options
     */
    public void setOptions(KeyspaceOptions options) {
        Native.setOptions(this, id, Native.utf8(options.mergeOperator), options.ttlNanos,
                options.compressionNumber(), options.blockBytes, options.bitsPerKey,
                options.memtableBytes, options.splits);
    }

    /**
     * Compacts a range down to the last level and waits until that is done.
     *
     * @param range the range
     */
    public void compactRange(Range range) {
        Native.compactRange(this, id, range.lo, range.hi, range.ends());
    }

    /**
     * Estimates the size of a range without reading it.
     *
     * @param range the range
     * @return the estimate
     */
    public ApproximateSize approximateSize(Range range) {
        long[] size = Native.approximateSize(this, id, range.lo, range.hi, range.ends());
        return new ApproximateSize(size[0], size[1]);
    }

    /** Releases the handle. The keyspace stays. */
    @Override
    public void close() {
        super.close();
    }
}
