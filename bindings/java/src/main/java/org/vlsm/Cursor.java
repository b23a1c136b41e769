package org.vlsm;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Iterates over the pairs of a {@link Range}, in its direction. It shows the store as of its
 * creation, whatever is written meanwhile.
 *
 * <p>It can be used as a cursor, which starts before the first pair:
 *
 * <pre>{@code
 * while (cursor.advance()) {
 *     use(cursor.key(), cursor.value());
 * }
 * }</pre>
 *
 * <p>or as an {@link Iterator}, or as a {@link #stream}. It fetches many pairs at once from the
 * store. A cursor of a transaction fetches one at a time, because every pair that it fetches counts
 * as read.
 *
 * <p>After {@link VlsmException.MergeFailed}, which concerns one key, it continues after that key.
 * After any other error it is at its end. Only one thread at a time may use it, except for {@link
 * #close}. An open cursor keeps the data that it shows on the disk, so close it.
 */
public final class Cursor extends Handle implements Iterator<Entry> {
    private static final byte[] NOTHING = {};
    private static final int HEAD = 8;

    /** The object that the cursor reads. It stays reachable as long as the cursor is. */
    private final Handle owner;

    /**
     * Pairs from the store, each as the lengths of key and value, 4 bytes each, then key and value.
     */
    private ByteBuffer chunk = ByteBuffer.wrap(NOTHING);

    /** The place of the next pair in the chunk. */
    private int next;

    /** The positions of this pair's key (or -1), of its value, and of its end. */
    private int key = -1;
    private int value;
    private int end;

    private boolean ended;
    private volatile boolean closed;

    Cursor(Handle owner, long id) {
        super(id);
        this.owner = owner;
    }

    /**
     * Moves to the next pair.
     *
     * @return false at the end
     */
    public boolean advance() {
        if (!hasNext()) {
            key = -1;
            return false;
        }
        key = next + HEAD;
        value = key + chunk.getInt(next);
        end = value + chunk.getInt(next + 4);
        next = end;
        return true;
    }

    /**
     * Moves before the first pair at or after a key, in the cursor's direction, within its range.
     *
     * @param to the key
     * @throws VlsmException.InvalidArgument for a reversed cursor of a transaction
     */
    public void seek(byte[] to) {
        Objects.requireNonNull(to, "to");
        chunk = ByteBuffer.wrap(NOTHING);
        next = 0;
        key = -1;
        ended = false;
        Native.seek(this, id, to);
    }

    /**
     * The key of this pair.
     *
     * @return a copy of it
     */
    public byte[] key() {
        check();
        return Arrays.copyOfRange(chunk.array(), key, value);
    }

    /**
     * The value of this pair.
     *
     * @return a copy of it
     */
    public byte[] value() {
        check();
        return Arrays.copyOfRange(chunk.array(), value, end);
    }

    /**
     * The key of this pair, without a copy.
     *
     * @return a read-only buffer that stays valid
     */
    public ByteBuffer keyBuffer() {
        check();
        return chunk.slice(key, value - key).asReadOnlyBuffer();
    }

    /**
     * The value of this pair, without a copy.
     *
     * @return a read-only buffer that stays valid
     */
    public ByteBuffer valueBuffer() {
        check();
        return chunk.slice(value, end - value).asReadOnlyBuffer();
    }

    /**
     * Copies the key of this pair into a buffer at its position, and advances the position. If the
     * key is longer than the rest of the buffer, nothing is copied.
     *
     * @param into the buffer
     * @return the length of the key
     */
    public int key(ByteBuffer into) {
        check();
        return copy(key, value, into);
    }

    /**
     * Copies the value of this pair into a buffer at its position, and advances the position. If
     * the value is longer than the rest of the buffer, nothing is copied.
     *
     * @param into the buffer
     * @return the length of the value
     */
    public int value(ByteBuffer into) {
        check();
        return copy(value, end, into);
    }

    /**
     * This pair.
     *
     * @return a copy of it
     */
    public Entry entry() {
        return new Entry(key(), value());
    }

    @Override
    public boolean hasNext() {
        if (closed) {
            throw closed();
        }
        if (next < chunk.capacity()) {
            return true;
        }
        if (ended) {
            return false;
        }
        byte[] more = Native.next(this, id);
        ended = more == null;
        if (ended) {
            return false;
        }
        chunk = ByteBuffer.wrap(more);
        next = 0;
        key = -1;
        return true;
    }

    @Override
    public Entry next() {
        if (!advance()) {
            throw new NoSuchElementException("the cursor is at its end");
        }
        return entry();
    }

    /**
     * The remaining pairs. Closing the stream closes the cursor.
     *
     * @return the stream
     */
    public Stream<Entry> stream() {
        int traits = Spliterator.ORDERED | Spliterator.NONNULL | Spliterator.DISTINCT;
        var pairs = Spliterators.spliteratorUnknownSize(this, traits);
        return StreamSupport.stream(pairs, false).onClose(this::close);
    }

    @Override
    public void close() {
        closed = true;
        super.close();
    }

    private int copy(int from, int to, ByteBuffer into) {
        if (to - from <= into.remaining()) {
            into.put(chunk.array(), from, to - from);
        }
        return to - from;
    }

    private void check() {
        if (closed) {
            throw closed();
        }
        if (key < 0) {
            throw new NoSuchElementException("the cursor is at no pair: call advance() first");
        }
    }

    private static VlsmException closed() {
        return VlsmException.of("Closed", "the cursor was closed: make another one", null);
    }
}
