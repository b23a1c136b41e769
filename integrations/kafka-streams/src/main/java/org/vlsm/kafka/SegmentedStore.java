package org.vlsm.kafka;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.internals.SegmentedBytesStore.KeySchema;

/** What window and session stores have in common as Kafka's state stores. */
abstract class SegmentedStore implements StateStore {
    final Segments segments;
    private final StoreState state;

    SegmentedStore(String name, String kind, String metricsScope, long retention, long interval,
            KeySchema schema, boolean windows) {
        state = new StoreState(name, kind);
        segments = new Segments(state, metricsScope, retention, interval, schema, windows);
    }

    @Override
    public String name() {
        return state.name();
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        segments.open(context, root);
    }

    @Override
    public void close() {
        segments.close();
    }

    @Override
    public boolean persistent() {
        return true;
    }

    @Override
    public boolean isOpen() {
        return state.isOpen();
    }

    @Override
    public void commit(Map<TopicPartition, Long> changelogOffsets) {
        state.commit(changelogOffsets);
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        return state.committedOffset(partition);
    }

    @Override
    @SuppressWarnings("deprecation")
    public boolean managesOffsets() {
        return true;
    }

    @Override
    public Position getPosition() {
        return state.position();
    }

    @Override
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        return state.query(query, bound, config, this);
    }
}
