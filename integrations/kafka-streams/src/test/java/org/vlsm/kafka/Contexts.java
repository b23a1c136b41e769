package org.vlsm.kafka;

import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.internals.MockStreamsMetrics;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.state.internals.ThreadCache;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.MockRecordCollector;
import org.apache.kafka.test.StreamsTestUtils;

/** Kafka's context of a task, for tests without a task. */
final class Contexts {
    static final TopicPartition CHANGELOG = new TopicPartition("changelog", 0);

    private Contexts() {}

    static InternalMockProcessorContext<?, ?> of(Path state, Map<String, ?> settings) {
        Properties config = StreamsTestUtils.getStreamsConfig();
        config.putAll(settings);
        ThreadCache cache = new ThreadCache(new LogContext(), 0,
                new MockStreamsMetrics(new Metrics()));
        return new InternalMockProcessorContext<>(state.toFile(), Serdes.String(), Serdes.String(),
                new MockRecordCollector(), cache, new StreamsConfig(config));
    }

    /** The settings of exactly-once. */
    static Map<String, Object> exactlyOnce() {
        return Map.of(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    }

    /** Sets the topic offset of the next records. */
    static void at(InternalMockProcessorContext<?, ?> context, long offset) {
        context.setRecordContext(
                new ProcessorRecordContext(0, offset, 0, "input", new RecordHeaders()));
    }
}
