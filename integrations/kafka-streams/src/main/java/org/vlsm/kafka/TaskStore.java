package org.vlsm.kafka;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;

/** A state store of a task, of any kind: the state, commits and queries that Kafka requires. */
abstract class TaskStore implements StateStore {
    final StoreState state;

    TaskStore(String name, String kind) {
        state = new StoreState(name, kind);
    }

    @Override
    public String name() {
        return state.name();
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
