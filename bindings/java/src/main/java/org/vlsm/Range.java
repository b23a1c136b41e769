package org.vlsm;

import java.util.Arrays;
import java.util.Objects;

/** A range of keys, with the direction in which iterators go. Ranges are immutable. */
public final class Range {
    private static final Range ALL = new Range(null, true, null, false, false);

    final byte[] lo;
    final boolean loIncluded;
    final byte[] hi;
    final boolean hiIncluded;
    final boolean reverse;

    private Range(byte[] lo, boolean loIncluded, byte[] hi, boolean hiIncluded, boolean reverse) {
        this.lo = lo;
        this.loIncluded = loIncluded;
        this.hi = hi;
        this.hiIncluded = hiIncluded;
        this.reverse = reverse;
    }

    /**
     * All keys.
     *
     * @return the range
     */
    public static Range all() {
        return ALL;
    }

    /**
     * The keys from {@code lo} (inclusive) to {@code hi} (exclusive).
     *
     * @param lo the first key, or null for no limit
     * @param hi the end, or null for no limit
     * @return the range
     */
    public static Range of(byte[] lo, byte[] hi) {
        return new Range(copy(lo), true, copy(hi), false, false);
    }

    /**
     * The keys from {@code lo} to {@code hi}, both inclusive.
     *
     * @param lo the first key, or null for no limit
     * @param hi the last key, or null for no limit
     * @return the range
     */
    public static Range closed(byte[] lo, byte[] hi) {
        return new Range(copy(lo), true, copy(hi), true, false);
    }

    /**
     * The keys that begin with a prefix.
     *
     * @param prefix the prefix
     * @return the range
     */
    public static Range prefix(byte[] prefix) {
        byte[] lo = Objects.requireNonNull(prefix, "prefix").clone();
        int kept = lo.length;
        while (kept > 0 && lo[kept - 1] == (byte) 0xff) {
            kept--;
        }
        byte[] hi = null;
        if (kept > 0) {
            hi = Arrays.copyOf(lo, kept);
            hi[kept - 1]++;
        }
        return new Range(lo, true, hi, false, false);
    }

    /**
     * The same range without {@code lo} itself.
     *
     * @return the range
     */
    public Range withoutLo() {
        return new Range(lo, false, hi, hiIncluded, reverse);
    }

    /**
     * The same keys in the other direction. Calls that do not iterate ignore the direction.
     *
     * @return the range
     */
    public Range reversed() {
        return new Range(lo, loIncluded, hi, hiIncluded, !reverse);
    }

    private static byte[] copy(byte[] key) {
        return key == null ? null : key.clone();
    }

    /** The kinds of the ends for the native library: 1 for `lo` included, 2 for `hi` included. */
    int ends() {
        return (loIncluded ? 1 : 0) | (hiIncluded ? 2 : 0);
    }
}
