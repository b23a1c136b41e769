package org.vlsm;

/** The moment at which a write is acknowledged: when its call returns. */
public enum Durability {
    /** The write-ahead log is on the device: the write survives power loss. */
    SYNC,
    /** The log is in the operating system: the write survives the end of the process. */
    BUFFERED,
    /**
     * The write is in a buffer of this process, which is written to the log with later writes, by
     * {@link Db#sync}, by {@link Db#close}, and when the JVM exits; not if it is killed before.
     */
    LAZY,
    /**
     * The write is not logged at all. It is durable after {@link Db#flush}, {@link Db#close} or an
     * exit of the JVM. A batch of such writes may touch only one keyspace.
     */
    NO_WAL
}
