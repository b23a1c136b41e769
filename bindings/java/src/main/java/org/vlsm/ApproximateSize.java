package org.vlsm;

/**
 * An estimate of what a range of keys holds.
 *
 * @param bytes bytes in files and memtables
 * @param entries versions of keys, and deletes
 */
public record ApproximateSize(long bytes, long entries) {}
