package org.vlsm.kafka;

import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.internals.SegmentedBytesStore.KeySchema;

/** The common part of window stores and session stores. */
abstract class SegmentedStore extends TaskStore {
    final Segments segments;

    SegmentedStore(String name, String kind, String metricsScope, long retention, long interval,
            KeySchema schema, boolean windows) {
        super(name, kind);
        segments = new Segments(state, metricsScope, retention, interval, schema, windows);
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        segments.open(context, root);
    }

    @Override
    public void close() {
        segments.close();
    }
}
