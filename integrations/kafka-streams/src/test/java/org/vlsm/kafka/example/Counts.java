package org.vlsm.kafka.example;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.vlsm.kafka.VlsmDslStoreSuppliers;

/**
 * The program of the example. It counts words in total, by minute, and by session, exactly once,
 * each into a topic of its own. Its stores are a key-value, a window and a session store.
 */
final class Counts {
    static final String WORDS = "words";
    static final String TOTAL = "total";
    static final String BY_MINUTE = "by-minute";
    static final String BY_SESSION = "by-session";
    static final Duration MINUTE = Duration.ofMinutes(1);
    static final Duration GAP = Duration.ofSeconds(5);

    private Counts() {}

    static Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> words = builder.<String, String>stream(WORDS).groupByKey();
        KTable<String, Long> total = words.count(Materialized.as(TOTAL));
        total.toStream().mapValues(String::valueOf).to(TOTAL);
        KTable<Windowed<String>, Long> minutes = words.windowedBy(
                TimeWindows.ofSizeAndGrace(MINUTE, MINUTE)).count(Materialized.as(BY_MINUTE));
        minutes.toStream().map((word, count) -> KeyValue.pair(text(word), text(count)))
                .to(BY_MINUTE);
        KTable<Windowed<String>, Long> sessions = words.windowedBy(
                SessionWindows.ofInactivityGapAndGrace(GAP, MINUTE))
                .count(Materialized.as(BY_SESSION));
        sessions.toStream().map((word, count) -> KeyValue.pair(text(word), text(count)))
                .to(BY_SESSION);
        return builder.build();
    }

    private static String text(Windowed<String> word) {
        return word.key() + " " + word.window().start() + " " + word.window().end();
    }

    /** A count; null for a session that became part of a longer one. */
    private static String text(Long count) {
        return count == null ? null : count.toString();
    }

    static Properties config(String broker, Path state, Class<?> suppliers) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "counts");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, broker);
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers); // The one line.
        // Without a cache and with long transactions, a kill leaves many records in the stores
        // whose transactions the broker then aborts.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        // The broker soon notices that a program was killed, and that its transaction is open.
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 2000);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 500);
        config.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 3000);
        return config;
    }

    /**
     * Runs until it is stopped or killed.
     *
     * @param arguments the broker, the folder of the state, and {@code vlsm} or {@code rocksdb}
     */
    public static void main(String[] arguments) throws IOException {
        Class<?> suppliers = arguments[2].equals("rocksdb")
                ? BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class
                : VlsmDslStoreSuppliers.class;
        KafkaStreams streams = new KafkaStreams(topology(),
                config(arguments[0], Path.of(arguments[1]), suppliers));
        streams.setGlobalStateRestoreListener(new Restores());
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            System.out.println("failed " + failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("running");
            }
        });
        streams.start();
        Child.obey(line -> {
            switch (line) {
                case "sum" -> System.out.println("sum " + sum(streams));
                case "stop" -> {
                    boolean stopped = streams.close(Duration.ofSeconds(20));
                    System.out.println("stopped " + stopped);
                    System.exit(stopped ? 0 : 1);
                }
                default -> throw new IllegalArgumentException(line);
            }
        });
    }

    /** The sum of all counts in the store, by an interactive query. */
    private static long sum(KafkaStreams streams) {
        RangeQuery<String, Long> all = RangeQuery.withNoBounds();
        var results = streams.query(StateQueryRequest.inStore(TOTAL).withQuery(all));
        long sum = 0;
        for (QueryResult<KeyValueIterator<String, Long>> result
                : results.getPartitionResults().values()) {
            if (result.isFailure()) {
                throw new IllegalStateException(result.getFailureMessage());
            }
            try (var counts = result.getResult()) {
                while (counts.hasNext()) {
                    sum += counts.next().value;
                }
            }
        }
        return sum;
    }

    /** Reports the restores. */
    private static final class Restores implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long from, long to) {}

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end,
                long records) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long records) {
            System.out.println("restored " + store + " " + partition.partition() + ": " + records);
        }
    }
}
