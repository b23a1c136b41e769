package org.vlsm;

import java.time.Duration;
import java.util.Objects;

/** How a write is acknowledged, and how long it may wait. Write options are immutable. */
public final class WriteOptions {
    /** The store's durability, and no deadline. */
    public static final WriteOptions DEFAULT = new WriteOptions(null, Native.NO_TIME);

    final Durability durability;
    final long deadlineNanos;

    private WriteOptions(Durability durability, long deadlineNanos) {
        this.durability = durability;
        this.deadlineNanos = deadlineNanos;
    }

    /**
     * Options with a durability, and no deadline.
     *
     * @param durability the durability
     * @return the options
     */
    public static WriteOptions of(Durability durability) {
        return DEFAULT.durability(durability);
    }

    /**
     * These options with another durability.
     *
     * @param durability the durability
     * @return the options
     */
    public WriteOptions durability(Durability durability) {
        return new WriteOptions(Objects.requireNonNull(durability, "durability"), deadlineNanos);
    }

    /**
     * These options with a deadline: a write that cannot begin within this time throws {@link
     * VlsmException.Busy}, and writes nothing.
     *
     * @param deadline the longest time that the write may wait
     * @return the options
     */
    public WriteOptions deadline(Duration deadline) {
        return new WriteOptions(durability, Native.nanos(deadline, "deadline"));
    }

    /** The durability as a number for the native library: -1 for the store's. */
    int durabilityNumber() {
        return durability == null ? -1 : durability.ordinal();
    }
}
