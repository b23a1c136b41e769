package org.vlsm;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * Reads and writes that take effect together, as if no other write came in between. Nothing is
 * locked: if data that the transaction read was changed, its {@link #commit} throws {@link
 * VlsmException.Conflict}, and {@link Db#transact} runs it again. Calls without a keyspace use the
 * keyspace {@code default}. A transaction that is closed before its commit writes nothing.
 */
public final class Transaction extends Handle {
    private final Db db;

    Transaction(Db db, long id) {
        super(id);
        this.db = db;
    }

    /**
     * The value of a key as the transaction has written it, or else as of the begin of the
     * transaction.
     *
     * @param key the key
     * @return the value, or null if the key is absent
     */
    public byte[] get(byte[] key) {
        return Native.get(this, id, null, 0, key);
    }

    /**
     * The value of a key as the transaction has written it, or else as of the begin of the
     * transaction.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @return the value, or null if the key is absent
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
     * The value of a key that the transaction is going to write. If another write has changed the
     * key since the begin of the transaction, this throws {@link VlsmException.Conflict} at once,
     * instead of at the commit.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @return the value, or null if the key is absent
     */
    public byte[] getForUpdate(Keyspace keyspace, byte[] key) {
        return Native.getForUpdate(this, id, keyspace, keyspace.id, key);
    }

    /**
     * Whether a key has a value.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @return whether it has a value
     */
    public boolean contains(Keyspace keyspace, byte[] key) {
        return Native.contains(this, id, keyspace, keyspace.id, key);
    }

    /**
     * The values of several keys.
     *
     * @param keyspace the keyspace
     * @param keys the keys
     * @return the values in the order of the keys, null for each that is absent
     */
    public List<byte[]> multiGet(Keyspace keyspace, List<byte[]> keys) {
        return Arrays.asList(
                Native.multiGet(this, id, keyspace, keyspace.id, Native.arrays(keys, "a key")));
    }

    /**
     * A cursor over the pairs of a range, with the transaction's writes so far.
     *
     * @param range the range
     * @return the cursor, to be closed
     */
    public Cursor cursor(Range range) {
        return new Cursor(this, Native.cursor(this, id, null, 0, range.lo, range.hi, range.ends(),
                range.reverse));
    }

    /**
     * A cursor over the pairs of a range, with the transaction's writes so far.
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
     * Sets a key to a value.
     *
     * @param key the key
     * @param value the value
     */
    public void put(byte[] key, byte[] value) {
        Native.transactionPut(this, id, null, 0, key, value, Native.NO_TIME);
    }

    /**
     * Sets a key to a value.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @param value the value
     */
    public void put(Keyspace keyspace, byte[] key, byte[] value) {
        Native.transactionPut(this, id, keyspace, keyspace.id, key, value, Native.NO_TIME);
    }

    /**
     * Sets a key to a value that expires.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @param value the value
     * @param ttl the time from now after which the key is absent
     */
    public void put(Keyspace keyspace, byte[] key, byte[] value, Duration ttl) {
        long nanos = Native.nanos(ttl, "ttl");
        Native.transactionPut(this, id, keyspace, keyspace.id, key, value, nanos);
    }

    /**
     * Removes a key.
     *
     * @param key the key
     */
    public void delete(byte[] key) {
        Native.transactionDelete(this, id, null, 0, key);
    }

    /**
     * Removes a key.
     *
     * @param keyspace the keyspace
     * @param key the key
     */
    public void delete(Keyspace keyspace, byte[] key) {
        Native.transactionDelete(this, id, keyspace, keyspace.id, key);
    }

    /**
     * Removes all keys of a range.
     *
     * @param keyspace the keyspace
     * @param range the range
     */
    public void deleteRange(Keyspace keyspace, Range range) {
        Native.transactionDeleteRange(this, id, keyspace, keyspace.id, range.lo, range.hi,
                range.ends());
    }

    /**
     * Writes an operand of the keyspace's merge operator, which changes the value without reading
     * it.
     *
     * @param keyspace the keyspace
     * @param key the key
     * @param operand the operand
     */
    public void merge(Keyspace keyspace, byte[] key, byte[] operand) {
        Native.transactionMerge(this, id, keyspace, keyspace.id, key, operand);
    }

    /** Sets a savepoint after the writes so far. Savepoints may be nested. */
    public void savepoint() {
        Native.savepoint(this, id);
    }

    /** Undoes the writes since the last savepoint, and removes it. */
    public void rollbackToSavepoint() {
        Native.rollbackToSavepoint(this, id);
    }

    /** Ends the transaction without writing anything, like {@link #close}. */
    public void rollback() {
        close();
    }

    /**
     * Commits the transaction and ends it.
     *
     * @throws VlsmException.Conflict if data that it read was changed; nothing was written
     */
    public void commit() {
        commit(WriteOptions.DEFAULT);
    }

    /**
     * Commits the transaction and ends it.
     *
     * @param options how it is acknowledged
     * @throws VlsmException.Conflict if data that it read was changed; nothing was written
     */
    public void commit(WriteOptions options) {
        Native.commit(this, id, options.durabilityNumber(), options.deadlineNanos);
    }

    /** Ends the transaction without writing anything, unless it was committed. */
    @Override
    public void close() {
        try {
            Native.rollback(this, id);
        } finally {
            super.close();
        }
    }

    /** Releases the handle, and leaves the transaction to {@link Db#transact}. */
    void giveBack() {
        super.close();
    }

    /**
     * The store of the transaction.
     *
     * @return the store
     */
    public Db db() {
        return db;
    }
}
