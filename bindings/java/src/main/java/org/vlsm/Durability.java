package org.vlsm;

/** When a write is acknowledged, that is, when its call returns. */
public enum Durability {
    /** The write-ahead log is on the device: the write survives power loss. */
    SYNC,
    /** The WAL is in the operating system: the write survives a crash of the process. */
    BUFFERED,
    /**
     * The write is in this process's buffer of the WAL. Later writes, {@link Db#sync}, {@link
     * Db#close} and the exit of the JVM write the buffer. A kill of the JVM loses it.
     */
    LAZY,
    /**
     * The write is not in the WAL at all. It is durable after {@link Db#flush}, {@link Db#close} or
     * an exit of the JVM. A batch of such writes may touch only one keyspace.
     */
    NO_WAL
}
