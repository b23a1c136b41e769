package org.vlsm;

import java.util.List;

/**
 * Combines a value with operands that were written without reading it.
 *
 * <p>Threads of the store call it, several at once, also during flushes and compactions. So it
 * should be quick, always return the same for the same arguments, and have no other effects. It
 * must not use a store: such calls throw {@link VlsmException.InvalidArgument}.
 *
 * <p>If an operator throws or returns null, these operands cannot be combined. A read of the key
 * then throws {@link VlsmException.MergeFailed}, with the operator's exception as its cause, and
 * iterators continue after the key. Nothing is lost: the operands stay for a corrected operator of
 * the same name. The first exception that it throws on one of the store's own threads goes to the
 * logger {@code org.vlsm}.
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
     * Combines operands into one with the same effect. This only saves space and time.
     *
     * @param key the key
     * @param operands the operands, the oldest first
     * @return the operand, or null if that is impossible; the default returns null
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
