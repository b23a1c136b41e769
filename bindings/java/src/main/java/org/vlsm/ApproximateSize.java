package org.vlsm;

/**
 * The estimated size of a range of keys.
 *
 * @param bytes bytes in files and memtables
 * @param entries versions of keys, including deletes
 */
public record ApproximateSize(long bytes, long entries) {}
