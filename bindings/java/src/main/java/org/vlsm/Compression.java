package org.vlsm;

/** The compression of a keyspace's blocks. */
public enum Compression {
    /** None. */
    NONE,
    /** LZ4: fast. */
    LZ4,
    /** Zstandard: smaller. */
    ZSTD
}
