package org.vlsm.kafka;

import java.time.Duration;
import java.util.Objects;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Suppliers of state stores on vLSM, with the same names and arguments as those of {@link
 * org.apache.kafka.streams.state.Stores}. Pass them to Kafka's own store builders, to {@code
 * Materialized} and to {@code StreamJoined}:
 *
 * <pre>{@code
 * builder.table("users", Materialized.as(VlsmStores.persistentKeyValueStore("users")));
 * }</pre>
 */
public final class VlsmStores {
    private VlsmStores() {}

    /**
     * A key-value store.
     *
     * @param name the name of the store
     * @return its supplier
     */
    public static KeyValueBytesStoreSupplier persistentKeyValueStore(String name) {
        return new VlsmKeyValueSupplier(named(name), Format.PLAIN);
    }

    /**
     * A key-value store whose values begin with a timestamp.
     *
     * @param name the name of the store
     * @return its supplier
     */
    public static KeyValueBytesStoreSupplier persistentTimestampedKeyValueStore(String name) {
        return new VlsmKeyValueSupplier(named(name), Format.TIMESTAMPED);
    }

    /**
     * A key-value store whose values begin with headers and a timestamp.
     *
     * @param name the name of the store
     * @return its supplier
     */
    public static KeyValueBytesStoreSupplier persistentTimestampedKeyValueStoreWithHeaders(
            String name) {
        return new VlsmKeyValueSupplier(named(name), Format.WITH_HEADERS);
    }

    /**
     * A window store.
     *
     * @param name the name of the store
     * @param retentionPeriod how long a window is kept, at least as long as its size
     * @param windowSize the size of a window
     * @param retainDuplicates whether all records of the same key and window are kept
     * @return its supplier
     */
    public static WindowBytesStoreSupplier persistentWindowStore(String name,
            Duration retentionPeriod, Duration windowSize, boolean retainDuplicates) {
        return window(name, retentionPeriod, windowSize, retainDuplicates, Format.PLAIN);
    }

    /**
     * A window store whose values begin with a timestamp.
     *
     * @param name the name of the store
     * @param retentionPeriod how long a window is kept, at least as long as its size
     * @param windowSize the size of a window
     * @param retainDuplicates whether all records of the same key and window are kept
     * @return its supplier
     */
    public static WindowBytesStoreSupplier persistentTimestampedWindowStore(String name,
            Duration retentionPeriod, Duration windowSize, boolean retainDuplicates) {
        return window(name, retentionPeriod, windowSize, retainDuplicates, Format.TIMESTAMPED);
    }

    /**
     * A window store whose values begin with headers and a timestamp.
     *
     * @param name the name of the store
     * @param retentionPeriod how long a window is kept, at least as long as its size
     * @param windowSize the size of a window
     * @param retainDuplicates whether all records of the same key and window are kept
     * @return its supplier
     */
    public static WindowBytesStoreSupplier persistentTimestampedWindowStoreWithHeaders(String name,
            Duration retentionPeriod, Duration windowSize, boolean retainDuplicates) {
        return window(name, retentionPeriod, windowSize, retainDuplicates, Format.WITH_HEADERS);
    }

    /**
     * A session store.
     *
     * @param name the name of the store
     * @param retentionPeriod how long a session is kept after its end
     * @return its supplier
     */
    public static SessionBytesStoreSupplier persistentSessionStore(String name,
            Duration retentionPeriod) {
        return session(name, retentionPeriod, Format.PLAIN);
    }

    /**
     * A session store whose values begin with headers.
     *
     * @param name the name of the store
     * @param retentionPeriod how long a session is kept after its end
     * @return its supplier
     */
    public static SessionBytesStoreSupplier persistentSessionStoreWithHeaders(String name,
            Duration retentionPeriod) {
        return session(name, retentionPeriod, Format.WITH_HEADERS);
    }

    static WindowBytesStoreSupplier window(String name, Duration retentionPeriod,
            Duration windowSize, boolean retainDuplicates, Format format) {
        long retention = millis(retentionPeriod, "retentionPeriod");
        long size = millis(windowSize, "windowSize");
        if (size > retention) {
            throw new IllegalArgumentException("the retention period of the window store " + name
                    + " is " + retentionPeriod + ", shorter than its windows of " + windowSize
                    + ": it must be at least as long");
        }
        return new VlsmWindowSupplier(named(name), retention, segmentInterval(retention), size,
                retainDuplicates, format);
    }

    static SessionBytesStoreSupplier session(String name, Duration retentionPeriod,
            Format format) {
        return new VlsmSessionSupplier(named(name), millis(retentionPeriod, "retentionPeriod"),
                format);
    }

    /** The length of a segment in milliseconds, as in Kafka's own stores. */
    static long segmentInterval(long retention) {
        return Math.max(retention / 2, 60_000);
    }

    private static String named(String name) {
        return Objects.requireNonNull(name, "name cannot be null");
    }

    private static long millis(Duration duration, String what) {
        Objects.requireNonNull(duration, what + " cannot be null");
        long millis;
        try {
            millis = duration.toMillis();
        } catch (ArithmeticException tooLong) {
            throw new IllegalArgumentException(what + " is " + duration
                    + ": as milliseconds it does not fit into 64 bits", tooLong);
        }
        if (millis < 0) {
            throw new IllegalArgumentException(what + " is " + duration
                    + ": it cannot be negative");
        }
        return millis;
    }
}
