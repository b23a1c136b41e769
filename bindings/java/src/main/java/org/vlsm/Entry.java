package org.vlsm;

import java.util.Arrays;
import java.util.Objects;

/**
 * A key with its value. Two entries are equal if their bytes are.
 *
 * @param key the key
 * @param value the value
 */
public record Entry(byte[] key, byte[] value) {
    /** Neither may be null. */
    public Entry {
        Objects.requireNonNull(key, "key");
        Objects.requireNonNull(value, "value");
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Entry that
                && Arrays.equals(key, that.key)
                && Arrays.equals(value, that.value);
    }

    @Override
    public int hashCode() {
        return 31 * Arrays.hashCode(key) + Arrays.hashCode(value);
    }

    /** Shows the lengths. Like errors, it contains no keys and values. */
    @Override
    public String toString() {
        return "Entry[key of " + key.length + " bytes, value of " + value.length + " bytes]";
    }
}
