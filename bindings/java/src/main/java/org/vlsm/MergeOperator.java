package org.vlsm;

import java.util.List;

/**
 * Combines a value with operands that were written without reading it.
 *
 * <p>The store's threads call it, several at once, also while they flush and compact: it should be
 * quick, always return the same for the same arguments, and have no other effects. It must not use
 * a store: such calls throw {@link VlsmException.InvalidArgument}.
 *
 * <p>An operator that throws, or returns null, cannot combine these operands: a read of the key
 * throws {@link VlsmException.MergeFailed}, whose cause is what the operator threw, and iterators
 * go on after the key. Nothing is lost: the operands stay as they are, for a better operator of the
 * same name. The first thing that it throws on one of the store's own threads goes to the logger
 * {@code org.vlsm}.
 */
@FunctionalInterface
public interface MergeOperator {
    /**
     * Applies operands to a value.
     *
     * @param key the key
     * @param before the value before the operands, or null if the key was absent
     * @param operands the operands, the oldest first
     * @return the new value, or null if they cannot be combined
     */
    byte[] merge(byte[] key, byte[] before, List<byte[]> operands);

    /**
     * Combines operands into one of the same effect. It only saves space and time.
     *
     * @param key the key
     * @param operands the operands, the oldest first
     * @return the operand, or null if that is impossible, as it is by default
     */
    default byte[] mergePartial(byte[] key, List<byte[]> operands) {
        return null;
    }

    /**
     * Checks that {@link #merge} can combine an operand, before it is written.
     *
     * @param key the key
     * @param operand the operand
     * @return false to refuse the write, with {@link VlsmException.MergeFailed}; true by default
     */
    default boolean accepts(byte[] key, byte[] operand) {
        return true;
    }
}
