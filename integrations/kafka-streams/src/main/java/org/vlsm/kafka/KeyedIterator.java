package org.vlsm.kafka;

import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** An iterator that converts each key, for example to its window. */
class KeyedIterator<K> implements KeyValueIterator<K, byte[]> {
    private final KeyValueIterator<Bytes, byte[]> pairs;
    private final Function<Bytes, K> form;

    KeyedIterator(KeyValueIterator<Bytes, byte[]> pairs, Function<Bytes, K> form) {
        this.pairs = pairs;
        this.form = form;
    }

    /** An iterator whose keys are the starts of the windows. */
    static final class ByTime extends KeyedIterator<Long> implements WindowStoreIterator<byte[]> {
        ByTime(KeyValueIterator<Bytes, byte[]> pairs, Function<Bytes, Long> time) {
            super(pairs, time);
        }
    }

    @Override
    public boolean hasNext() {
        return pairs.hasNext();
    }

    @Override
    public K peekNextKey() {
        return form.apply(pairs.peekNextKey());
    }

    @Override
    public KeyValue<K, byte[]> next() {
        KeyValue<Bytes, byte[]> next = pairs.next();
        return KeyValue.pair(form.apply(next.key), next.value);
    }

    @Override
    public void close() {
        pairs.close();
    }
}
