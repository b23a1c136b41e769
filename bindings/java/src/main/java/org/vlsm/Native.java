package org.vlsm;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * The functions of the native library, and the conversion of their arguments.
 *
 * <p>A function takes each handle together with its number ({@link Handle}). The number 0 of a
 * keyspace means the keyspace {@code default}. Texts are UTF-8, paths are bytes, times are
 * nanoseconds.
 */
final class Native {
    /** No time was given. */
    static final long NO_TIME = -1;

    static {
        Library.load();
        Runtime.getRuntime().addShutdownHook(new Thread(Native::exit, "vlsm-exit"));
    }

    private Native() {}

    // The library as a whole.

    static native void release(long id);

    /** Makes all acknowledged writes of all stores durable before the JVM exits. */
    static native void exit();

    // Stores.

    static native long open(byte[] path, boolean create, boolean readOnly, byte[] profile,
            byte[] toml, byte[][] operatorNames, MergeOperator[] operators, boolean withDefault,
            byte[] operator, long ttl, int compression, long blockBytes, int bitsPerKey,
            long memtableBytes, byte[][] splits);

    static native long openReadOnly(byte[] path);

    static native void catchUp(Handle db, long id);

    static native void closeStore(Handle db, long id);

    static native boolean isClosed(Handle db, long id);

    static native long keyspace(Handle db, long id, byte[] name);

    static native long createKeyspace(Handle db, long id, byte[] name, byte[] operator, long ttl,
            int compression, long blockBytes, int bitsPerKey, long memtableBytes, byte[][] splits);

    static native void dropKeyspace(Handle db, long id, Handle keyspace, long keyspaceId);

    static native String[] keyspaces(Handle db, long id);

    static native void write(Handle db, long id, Keyspace[] keyspaces, long[] ids, byte[] writes,
            int length, int durability, long deadline);

    static native long snapshot(Handle db, long id);

    static native long transaction(Handle db, long id);

    static native void transact(Handle db, long id, TransactionWork work, int durability,
            long deadline);

    static native void sync(Handle db, long id);

    static native void flush(Handle db, long id);

    static native void waitIdle(Handle db, long id);

    static native void checkpoint(Handle db, long id, byte[] target);

    static native void restore(byte[] checkpoint, byte[] target);

    static native String stats(Handle db, long id);

    // Keyspaces.

    static native String name(Handle keyspace, long id);

    static native void put(Handle keyspace, long id, byte[] key, byte[] value, long ttl,
            int durability, long deadline);

    static native void putDirect(Handle keyspace, long id, ByteBuffer key, int keyAt, int keyLength,
            ByteBuffer value, int valueAt, int valueLength, long ttl, int durability,
            long deadline);

    static native void delete(Handle keyspace, long id, byte[] key, int durability, long deadline);

    static native void deleteRange(Handle keyspace, long id, byte[] lo, byte[] hi, int ends,
            int durability, long deadline);

    static native void merge(Handle keyspace, long id, byte[] key, byte[] operand, int durability,
            long deadline);

    static native boolean compareAndSwap(Handle keyspace, long id, byte[] key, byte[] expected,
            byte[] replacement);

    static native byte[] putIfAbsent(Handle keyspace, long id, byte[] key, byte[] value);

    static native long count(Handle keyspace, long id);

    static native void clear(Handle keyspace, long id);

    static native void rename(Handle keyspace, long id, byte[] name);

    static native void setOptions(Handle keyspace, long id, byte[] operator, long ttl,
            int compression, long blockBytes, int bitsPerKey, long memtableBytes, byte[][] splits);

    static native void compactRange(Handle keyspace, long id, byte[] lo, byte[] hi, int ends);

    /** Bytes and entries. */
    static native long[] approximateSize(Handle keyspace, long id, byte[] lo, byte[] hi, int ends);

    // Reads, of a keyspace, or of a keyspace in a snapshot or a transaction.

    static native byte[] get(Handle reader, long id, Handle keyspace, long keyspaceId, byte[] key);

    static native int getDirect(Handle reader, long id, Handle keyspace, long keyspaceId,
            ByteBuffer key, int keyAt, int keyLength, ByteBuffer into, int at, int length);

    static native boolean contains(Handle reader, long id, Handle keyspace, long keyspaceId,
            byte[] key);

    static native byte[][] multiGet(Handle reader, long id, Handle keyspace, long keyspaceId,
            byte[][] keys);

    static native long cursor(Handle reader, long id, Handle keyspace, long keyspaceId, byte[] lo,
            byte[] hi, int ends, boolean reverse);

    static native byte[] next(Handle cursor, long id);

    static native void seek(Handle cursor, long id, byte[] key);

    // Transactions.

    static native byte[] getForUpdate(Handle transaction, long id, Handle keyspace,
            long keyspaceId, byte[] key);

    static native void transactionPut(Handle transaction, long id, Handle keyspace,
            long keyspaceId, byte[] key, byte[] value, long ttl);

    static native void transactionDelete(Handle transaction, long id, Handle keyspace,
            long keyspaceId, byte[] key);

    static native void transactionDeleteRange(Handle transaction, long id, Handle keyspace,
            long keyspaceId, byte[] lo, byte[] hi, int ends);

    static native void transactionMerge(Handle transaction, long id, Handle keyspace,
            long keyspaceId, byte[] key, byte[] operand);

    static native void savepoint(Handle transaction, long id);

    static native void rollbackToSavepoint(Handle transaction, long id);

    static native void rollback(Handle transaction, long id);

    static native void commit(Handle transaction, long id, int durability, long deadline);

    // Called by the native library.

    /** The work that {@link #transact} calls with the number of each transaction. */
    @FunctionalInterface
    interface TransactionWork {
        void run(long transaction) throws Throwable;
    }

    static VlsmException error(String kind, String message, String keyspace, Throwable cause) {
        VlsmException error = VlsmException.of(kind, message, keyspace);
        if (cause != null) {
            error.initCause(cause);
        }
        return error;
    }

    /** Calls a merge operator with the operands as a list. */
    static byte[] merge(MergeOperator operator, byte[] key, byte[] before, byte[][] operands) {
        return operator.merge(key, before, List.of(operands));
    }

    static byte[] mergePartial(MergeOperator operator, byte[] key, byte[][] operands) {
        return operator.mergePartial(key, List.of(operands));
    }

    static boolean accepts(MergeOperator operator, byte[] key, byte[] operand) {
        return operator.accepts(key, operand);
    }

    static void run(TransactionWork work, long transaction) throws Throwable {
        work.run(transaction);
    }

    /** Logs an exception of a merge operator for which no caller waits. */
    static void report(String operator, Throwable thrown) {
        System.getLogger("org.vlsm").log(System.Logger.Level.WARNING,
                "the merge operator \"" + operator + "\" threw; its operands stay as they are",
                thrown);
    }

    // Arguments.

    static long nanos(Duration time, String what) {
        if (time.isNegative()) {
            throw VlsmException.of("InvalidArgument", what + " is " + time
                    + ": a time that is not negative is expected", null);
        }
        try {
            return time.toNanos();
        } catch (ArithmeticException tooLong) {
            return Long.MAX_VALUE;
        }
    }

    static long notNegative(long number, String what) {
        if (number < 0) {
            throw VlsmException.of("InvalidArgument", what + " is " + number
                    + ": a number that is not negative is expected", null);
        }
        return number;
    }

    static byte[][] arrays(List<byte[]> list, String what) {
        byte[][] arrays = list.toArray(new byte[0][]);
        for (byte[] array : arrays) {
            Objects.requireNonNull(array, what);
        }
        return arrays;
    }

    static byte[] utf8(String text) {
        if (text == null) {
            return null;
        }
        try {
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] exact = new byte[bytes.remaining()];
            bytes.get(exact);
            return exact;
        } catch (CharacterCodingException unpaired) {
            throw VlsmException.of("InvalidArgument",
                    "a string has an unpaired surrogate, which UTF-8 cannot encode", null);
        }
    }

    /**
     * The bytes of an absolute path, taken from its URI, so that they do not depend on the locale.
     */
    static byte[] path(Path path) {
        if (path.getFileSystem() != FileSystems.getDefault()) {
            throw VlsmException.of("InvalidArgument", "the path " + path
                    + " is not on the default file system: a store needs ordinary files", null);
        }
        String raw = path.toUri().getRawPath();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int i = 0; i < raw.length(); i++) {
            if (raw.charAt(i) == '%') {
                bytes.write(Integer.parseInt(raw.substring(i + 1, i + 3), 16));
                i += 2;
            } else {
                bytes.write(raw.charAt(i));
            }
        }
        return bytes.toByteArray();
    }

    /** The remaining bytes of a buffer, which stays unchanged. */
    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
