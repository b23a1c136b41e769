package org.vlsm.kafka;

import java.util.NoSuchElementException;
import java.util.Set;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.vlsm.Cursor;
import org.vlsm.VlsmException;

/**
 * A cursor as Kafka's iterator, which can return the next key without advancing. It shows the store
 * as of its creation.
 */
final class PairIterator implements KeyValueIterator<Bytes, byte[]> {
    private final String store;
    private final Cursor cursor;
    private final Set<KeyValueIterator<?, ?>> open;
    private Bytes ahead;
    private volatile boolean closed;

    /** An iterator of a store. It is in the set {@code open} as long as it is open. */
    PairIterator(String store, Cursor cursor, Set<KeyValueIterator<?, ?>> open) {
        this.store = store;
        this.cursor = cursor;
        this.open = open;
        open.add(this);
    }

    @Override
    public boolean hasNext() {
        checkOpen();
        if (ahead == null && run()) {
            ahead = Bytes.wrap(cursor.key());
        }
        return ahead != null;
    }

    private boolean run() {
        try {
            return cursor.advance();
        } catch (VlsmException.Closed gone) {
            throw new InvalidStateStoreException("Iterator of store " + store + " has closed",
                    gone);
        } catch (VlsmException failed) {
            throw new ProcessorStateException("Cannot read from store " + store + ": "
                    + failed.getMessage(), failed);
        }
    }

    @Override
    public Bytes peekNextKey() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        return ahead;
    }

    @Override
    public KeyValue<Bytes, byte[]> next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        KeyValue<Bytes, byte[]> next = KeyValue.pair(ahead, cursor.value());
        ahead = null;
        return next;
    }

    private void checkOpen() {
        if (closed) {
            throw new InvalidStateStoreException("Iterator of store " + store + " has closed");
        }
    }

    @Override
    public void close() {
        closed = true;
        open.remove(this);
        cursor.close();
    }
}
