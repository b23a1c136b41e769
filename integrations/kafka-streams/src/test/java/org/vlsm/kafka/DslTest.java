package org.vlsm.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A topology with all kinds of stores writes the same on vLSM's stores as on RocksDB's. One line of
 * its configuration chooses the stores.
 */
class DslTest {
    private static final Duration SIZE = Duration.ofSeconds(20);
    private static final Duration GRACE = Duration.ofSeconds(10);
    private static final Duration GAP = Duration.ofSeconds(3);
    private static final List<String> OUTPUTS = List.of("count", "tumbling", "hopping", "sliding",
            "session", "window-close", "session-close", "stream-join", "table-join", "reduced");

    @TempDir
    Path folder;

    private static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> left = builder.stream("left");
        KStream<String, String> right = builder.stream("right");
        KGroupedStream<String, String> grouped = left.groupByKey();
        KTable<String, Long> count = grouped.count(Materialized.as("count"));
        say(count.toStream(), "count");
        sayWindows(grouped.windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
                .count(Materialized.as("tumbling")), "tumbling");
        sayWindows(grouped.windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE)
                .advanceBy(SIZE.dividedBy(4))).count(), "hopping");
        sayWindows(grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(SIZE, GRACE))
                .count(), "sliding");
        sayWindows(grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
                .count(Materialized.as("session")), "session");
        sayWindows(grouped.windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
                .emitStrategy(EmitStrategy.onWindowClose()).count(), "window-close");
        sayWindows(grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
                .emitStrategy(EmitStrategy.onWindowClose()).count(), "session-close");
        say(left.outerJoin(right, (one, other) -> one + "+" + other,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(3), GRACE)),
                "stream-join");
        KTable<String, String> table = builder.table("table");
        say(count.leftJoin(table, (number, text) -> number + "/" + text).toStream(),
                "table-join");
        say(right.groupByKey().reduce((before, now) -> now.length() > 3 ? now : before + now)
                .toStream(), "reduced");
        return builder.build();
    }

    private static void say(KStream<String, ?> stream, String topic) {
        stream.mapValues(String::valueOf).to(topic);
    }

    private static void sayWindows(KTable<Windowed<String>, Long> table, String topic) {
        say(table.toStream().selectKey((key, value) -> key.key() + "@" + key.window().start() + "-"
                + key.window().end()), topic);
    }

    private Properties config(Class<?> suppliers, String format, String name) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        config.put(StreamsConfig.STATE_DIR_CONFIG, folder.resolve(name).toString());
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers);
        config.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, format);
        return config;
    }

    private static void feed(TopologyTestDriver driver) {
        Map<String, TestInputTopic<String, String>> inputs = new TreeMap<>();
        for (String topic : List.of("left", "right", "table")) {
            inputs.put(topic, driver.createInputTopic(topic, new StringSerializer(),
                    new StringSerializer()));
        }
        Random random = new Random(7);
        long time = 1_000_000;
        for (int i = 0; i < 2000; i++) {
            time += random.nextInt(150);
            long late = random.nextInt(10) == 0 ? random.nextInt(20_000) : 0;
            String topic = List.of("left", "left", "right", "table").get(random.nextInt(4));
            String key = "key-" + random.nextInt(12);
            String value = topic.equals("table") && random.nextInt(5) == 0 ? null
                    : "v" + random.nextInt(100);
            inputs.get(topic).pipeInput(key, value, Instant.ofEpochMilli(time - late));
        }
    }

    /** The records that the topology writes, by topic and in order. */
    private static Map<String, List<String>> outputs(TopologyTestDriver driver) {
        feed(driver);
        Map<String, List<String>> outputs = new TreeMap<>();
        for (String topic : OUTPUTS) {
            List<String> records = new ArrayList<>();
            driver.createOutputTopic(topic, new StringDeserializer(), new StringDeserializer())
                    .readRecordsToList().forEach(record -> records.add(record.key() + "="
                            + record.value() + " " + record.timestamp()));
            if (topic.endsWith("-close")) {
                // RocksDB's stores return windows that close at the same moment by time, then key.
                records.sort(null);
            }
            outputs.put(topic, records);
        }
        return outputs;
    }

    @ParameterizedTest
    @CsvSource({"DEFAULT", "HEADERS"})
    void theTopologySaysTheSameAsOnRocksDb(String format) {
        Map<String, List<String>> expected;
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(), config(
                BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class, format, "rocksdb"))) {
            expected = outputs(driver);
        }
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(),
                config(VlsmDslStoreSuppliers.class, format, "vlsm"))) {
            Map<String, List<String>> found = outputs(driver);
            for (String topic : OUTPUTS) {
                assertTrue(expected.get(topic).size() > 20, topic);
                assertEquals(expected.get(topic), found.get(topic), topic);
            }
            checkStores(driver);
            checkMetrics(driver);
        }
    }

    private static void checkStores(TopologyTestDriver driver) {
        List<KeyValue<String, Long>> counts = new ArrayList<>();
        try (var all = driver.<String, Long>getKeyValueStore("count").all()) {
            all.forEachRemaining(counts::add);
        }
        assertEquals(12, counts.size());
        driver.getAllStateStores().forEach((name, store) -> assertTrue(
                store.persistent() && store.isOpen(), name));
    }

    /** Each store has vLSM's gauges and Kafka's own metrics, with sensible values. */
    private static void checkMetrics(TopologyTestDriver driver) {
        Map<String, Double> ofCount = new TreeMap<>();
        TreeSet<String> stores = new TreeSet<>();
        driver.metrics().forEach((name, metric) -> {
            String store = name.tags().entrySet().stream()
                    .filter(tag -> tag.getKey().startsWith("vlsm")).map(Map.Entry::getValue)
                    .collect(Collectors.joining());
            if (metric.metricValue() instanceof Number number && !store.isEmpty()) {
                stores.add(store);
                if (store.equals("count")) {
                    ofCount.put(name.name(), number.doubleValue());
                }
            }
        });
        assertTrue(stores.size() >= 10, stores.toString());
        for (Gauges gauge : Gauges.values()) {
            assertTrue(ofCount.containsKey(gauge.metric()), gauge.metric());
        }
        assertTrue(ofCount.get("vlsm-memtable-bytes") > 0, ofCount.toString());
        assertTrue(ofCount.get("vlsm-task-memory-bytes") > 0, ofCount.toString());
        assertEquals((double) Settings.MEMORY_LIMIT, ofCount.get("vlsm-task-memory-limit-bytes"));
        assertEquals(0, ofCount.get("vlsm-task-read-only"));
        assertTrue(ofCount.keySet().stream().anyMatch(name -> name.equals("put-rate")),
                ofCount.keySet().toString());
    }
}
