package org.vlsm;

import java.time.Duration;
import java.util.List;
import java.util.Objects;

/** The options of a keyspace. Options that are not set are those of the store. */
public final class KeyspaceOptions {
    String mergeOperator;
    long ttlNanos = Native.NO_TIME;
    Compression compression;
    long blockBytes = -1;
    int bitsPerKey = -1;
    long memtableBytes = -1;
    byte[][] splits = {};

    /** The store's options. */
    public KeyspaceOptions() {}

    /**
     * Sets the merge operator.
     *
     * @param name the name under which {@link Options#mergeOperator} registered it
     * @return this
     */
    public KeyspaceOptions mergeOperator(String name) {
        mergeOperator = Objects.requireNonNull(name, "name");
        return this;
    }

    /**
     * Sets the time after which values expire.
     *
     * @param ttl the time
     * @return this
     */
    public KeyspaceOptions ttl(Duration ttl) {
        ttlNanos = Native.nanos(ttl, "ttl");
        return this;
    }

    /**
     * Sets the compression of all levels.
     *
     * @param compression the compression
     * @return this
     */
    public KeyspaceOptions compression(Compression compression) {
        this.compression = Objects.requireNonNull(compression, "compression");
        return this;
    }

    /**
     * Sets the length of a block.
     *
     * @param bytes the length
     * @return this
     */
    public KeyspaceOptions blockBytes(long bytes) {
        blockBytes = Native.notNegative(bytes, "blockBytes");
        return this;
    }

    /**
     * Sets the size of the filters.
     *
     * @param bits bits per key; 0 for no filter
     * @return this
     */
    public KeyspaceOptions bitsPerKey(int bits) {
        bitsPerKey = (int) Native.notNegative(bits, "bitsPerKey");
        return this;
    }

    /**
     * Sets the length of a memtable.
     *
     * @param bytes the length
     * @return this
     */
    public KeyspaceOptions memtableBytes(long bytes) {
        memtableBytes = Native.notNegative(bytes, "memtableBytes");
        return this;
    }

    /**
     * Divides the keyspace at these keys into regions, each with a tree of its own.
     *
     * @param keys the keys, in order
     * @return this
     */
    public KeyspaceOptions splits(List<byte[]> keys) {
        splits = Native.arrays(keys, "splits");
        return this;
    }

    /** The compression as a number for the native library: -1 for the store's. */
    int compressionNumber() {
        return compression == null ? -1 : compression.ordinal();
    }
}
