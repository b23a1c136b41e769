package org.vlsm;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;

/**
 * All keyspaces of a store as they were at one moment. Calls without a keyspace use the keyspace
 * {@code default}. An open snapshot keeps the data that it shows on the disk, so close it.
 */
public final class Snapshot extends Handle {
    private final Db db;

    Snapshot(Db db, long id) {
        super(id);
        this.db = db;
    }

    /**
     * The value of a key at that moment.
     *
     * @param key the key
     * @return the value, or null if the key was absent
     */
    public byte[] get(byte[] key) {
        return Native.get(this, id, null, 0, key);
    }

    /**
     * The value of a key at that moment.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @return the value, or null if the key was absent
     */
    public byte[] get(Keyspace keyspace, byte[] key) {
        return Native.get(this, id, keyspace, keyspace.id, key);
    }

    /**
     * Copies the value of a key into a buffer, as {@link Keyspace#get(ByteBuffer, ByteBuffer)}
     * does.
     *
     * @param keyspace the keyspace
     * @param key its remaining bytes are the key; the buffer stays unchanged
     * @param into the buffer
     * @return the length of the value, or {@link Keyspace#ABSENT}
     */
    public int get(Keyspace keyspace, ByteBuffer key, ByteBuffer into) {
        return Keyspace.get(this, id, keyspace, keyspace.id, key, into);
    }

    /**
     * Whether a key had a value at that moment.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @return whether it had a value
     */
    public boolean contains(Keyspace keyspace, byte[] key) {
        return Native.contains(this, id, keyspace, keyspace.id, key);
    }

    /**
     * The values of several keys at that moment.
     *
     * @param keyspace the keyspace
     * @param keys the keys
     * @return the values in the order of the keys, null for each that was absent
     */
    public List<byte[]> multiGet(Keyspace keyspace, List<byte[]> keys) {
        return Arrays.asList(
                Native.multiGet(this, id, keyspace, keyspace.id, Native.arrays(keys, "a key")));
    }

    /**
     * A cursor over the pairs of a range at that moment. It may outlive the snapshot.
     *
     * @param range the range
     * @return the cursor, to be closed
     */
    public Cursor cursor(Range range) {
        return new Cursor(this, Native.cursor(this, id, null, 0, range.lo, range.hi, range.ends(),
                range.reverse));
    }

    /**
     * A cursor over the pairs of a range at that moment. It may outlive the snapshot.
     *
     * @param keyspace the keyspace
     * @param range the range
     * @return the cursor, to be closed
     */
    public Cursor cursor(Keyspace keyspace, Range range) {
        return new Cursor(this, Native.cursor(this, id, keyspace, keyspace.id, range.lo, range.hi,
                range.ends(), range.reverse));
    }

    /**
     * The store of the snapshot.
     *
     * @return the store
     */
    public Db db() {
        return db;
    }
}
