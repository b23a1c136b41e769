package org.vlsm.kafka;

import java.io.File;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import org.apache.kafka.common.metrics.Sensor.RecordingLevel;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;

/**
 * Statistics of vLSM as metrics of the state store, in addition to those that Kafka measures for
 * each store. They are in the group {@code stream-state-metrics} with the tags of the store.
 *
 * <p>Some concern the state store alone: the sums over its keyspaces. The others concern the task's
 * vLSM store, and are the same for all state stores of a task. Kafka removes the metrics when it
 * closes the store. If another thread closes the store, Kafka forgets to do so; such a metric shows
 * the store once it is open again.
 */
enum Gauges {
    DISK_BYTES("bytes of the store in SSTs", true, "vlsm_level_bytes"),
    MEMTABLE_BYTES("bytes of the store in memtables", true, "vlsm_keyspace_memtable_bytes"),
    DEBT_BYTES("bytes that compactions of the store have yet to merge", true,
            "vlsm_keyspace_debt_bytes"),
    ENTRIES("versions of keys in the store's SSTs", true, "vlsm_keyspace_entries"),
    TOMBSTONES("deletes in the store's SSTs", true, "vlsm_keyspace_tombstones"),
    WAITS_TOTAL("writes of the store that waited", true, "vlsm_keyspace_waits_total"),
    WAIT_SECONDS_TOTAL("time that writes of the store waited", true,
            "vlsm_keyspace_wait_seconds_total"),
    CHAIN_WAITED_SECONDS_TOTAL("time that memtables of the store waited for compactions", true,
            "vlsm_keyspace_chain_waited_seconds_total"),
    TASK_MEMORY_BYTES("memory of the task's vLSM store", false, "vlsm_memory_bytes"),
    TASK_MEMORY_LIMIT_BYTES("limit of that memory", false, "vlsm_memory_limit_bytes"),
    TASK_PINNED_BYTES("bytes that only open iterators keep", false, "vlsm_pinned_bytes"),
    TASK_READ_ONLY("1 if a failure made the task's vLSM store read-only", false, "vlsm_read_only"),
    TASK_OUT_OF_SPACE("1 if the device is full", false, "vlsm_out_of_space");

    private final String description;
    private final boolean ofStore;
    private final String family;

    Gauges(String description, boolean ofStore, String family) {
        this.description = description;
        this.ofStore = ofStore;
        this.family = family;
    }

    /** The name of the metric. */
    String metric() {
        return "vlsm-" + name().toLowerCase(java.util.Locale.ROOT).replace('_', '-');
    }

    /** Adds all gauges to the metrics of an open state store. */
    static void add(StoreState state, String scope) {
        if (!(state.context().metrics() instanceof StreamsMetricsImpl metrics)) {
            return; // The context belongs to a test.
        }
        File task = state.context().stateDir();
        for (Gauges gauge : values()) {
            ToDoubleFunction<Map<String, Double>> value = gauge.of(state.name());
            metrics.addStoreLevelMutableMetric(state.context().taskId().toString(), scope,
                    state.name(), gauge.metric(), gauge.description, RecordingLevel.INFO,
                    (config, now) -> value.applyAsDouble(TaskDb.metrics(task)));
        }
    }

    private ToDoubleFunction<Map<String, Double>> of(String store) {
        if (ofStore) {
            String whole = family + "{keyspace=\"" + store + "\"";
            String segment = family + "{keyspace=\"" + store + ":";
            return metrics -> sum(metrics, whole, segment);
        }
        return metrics -> {
            Double plain = metrics.get(family);
            return plain != null ? plain : sum(metrics, family + "{", family + "{");
        };
    }

    private static double sum(Map<String, Double> metrics, String prefix, String other) {
        return metrics.entrySet().stream()
                .filter(metric -> metric.getKey().startsWith(prefix)
                        || metric.getKey().startsWith(other))
                .mapToDouble(Map.Entry::getValue).sum();
    }
}
