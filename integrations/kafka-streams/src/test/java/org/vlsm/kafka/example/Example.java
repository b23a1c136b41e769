package org.vlsm.kafka.example;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;

/**
 * Kills the program {@link Counts} in the middle of its work, starts it again, and checks that all
 * its counts are exact at the end.
 *
 * <p>It starts a broker and runs the program four times: 1. It is killed. 2. With the state that
 * the kill left, it is killed again. 3. Without state, it restores from the changelogs and is
 * stopped. 4. With the state of a clean stop, it must restore nothing.
 */
public final class Example implements AutoCloseable {
    /** The time of the first word: a full minute not long ago. Brokers remove old records. */
    private static final long START = System.currentTimeMillis() / 60_000 * 60_000 - 600_000;

    private static final int STEP_MILLIS = 10;
    private static final int WORDS = 200;
    private static final int BLOCK = 2000;

    private final Path folder;
    private final PrintStream out;
    private final String stores;
    private final Broker broker;
    private final KafkaProducer<String, String> producer;
    private final KafkaConsumer<String, String> consumer;
    private final Map<String, Long> counts = new HashMap<>();
    private int sent;
    private int runs;

    private Example(Path folder, String stores, PrintStream out)
            throws IOException, InterruptedException, ExecutionException {
        this.folder = Files.createDirectories(folder);
        this.stores = stores;
        this.out = out;
        broker = Broker.start(folder);
        List<String> topics = List.of(Counts.WORDS, Counts.TOTAL, Counts.BY_MINUTE,
                Counts.BY_SESSION);
        try (Admin admin = Admin.create(Map.of(
                AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, broker.address()))) {
            admin.createTopics(topics.stream()
                    .map(topic -> new NewTopic(topic, 2, (short) 1)).toList()).all().get();
        }
        producer = new KafkaProducer<>(Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, broker.address()),
                new StringSerializer(), new StringSerializer());
        consumer = new KafkaConsumer<>(Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, broker.address(),
                ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
                new StringDeserializer(), new StringDeserializer());
        consumer.assign(topics.stream().skip(1).flatMap(topic -> Stream.of(
                new TopicPartition(topic, 0), new TopicPartition(topic, 1))).toList());
    }

    /**
     * Runs the example.
     *
     * @param folder the folder for all files
     * @param stores {@code vlsm} or {@code rocksdb}
     * @param out where it reports its progress
     */
    public static void run(Path folder, String stores, PrintStream out)
            throws IOException, InterruptedException, ExecutionException {
        try (Example example = new Example(folder, stores, out)) {
            example.run();
        }
    }

    private void run() throws IOException, InterruptedException {
        Path state = folder.resolve("state");
        send(10_000);
        try (Child program = start(state)) {
            awaitTotal(4_000, program);
            send(10_000);
            awaitTotal(12_000, program);
            program.kill();
            out.printf("killed after %d of %d words; its state stays%n", total(), sent);
        }
        send(10_000);
        try (Child program = start(state)) {
            awaitTotal(22_000, program);
            report(program);
            send(5_000);
            program.kill();
            out.printf("killed after %d of %d words; its state is removed%n", total(), sent);
        }
        Utils.delete(state.toFile());
        send(5_000);
        try (Child program = start(state)) {
            awaitTotal(sent, program);
            check("sum " + sent, ask(program, "sum"));
            program.say("stop");
            program.join(30);
            check("something is restored from the changelogs", true, report(program) > 0);
            out.printf("stopped after %d of %d words; its state stays%n", total(), sent);
        }
        send(1_000);
        try (Child program = start(state)) {
            awaitTotal(sent, program);
            check("sum " + sent, ask(program, "sum"));
            program.say("stop");
            program.join(30);
            check("records restored after a clean stop", 0L, report(program));
        }
        checkCounts();
    }

    private Child start(Path state) throws IOException, InterruptedException {
        runs++;
        Child child = new Child(folder, "program" + runs, Counts.class, broker.address(),
                state.toString(), stores);
        child.await("running", 60);
        return child;
    }

    private static String ask(Child program, String question)
            throws IOException, InterruptedException {
        program.say(question);
        return program.await(question, 20);
    }

    /** Reports how many records a run restored. */
    private long report(Child program) throws IOException {
        long records = program.lines().stream().filter(line -> line.startsWith("restored "))
                .mapToLong(line -> Long.parseLong(line.substring(line.lastIndexOf(' ') + 1)))
                .sum();
        out.printf("  run %d restored %d records of its changelogs%n", runs, records);
        return records;
    }

    // The words and their counts.

    private static String word(int number) {
        // Each block of 20 s has another quarter of the words, so that sessions end.
        int quarter = number / BLOCK % 4;
        return "word-" + (quarter * WORDS / 4 + number * 31 % (WORDS / 4));
    }

    private static long time(int number) {
        return START + (long) number * STEP_MILLIS;
    }

    private void send(int count) {
        for (int end = sent + count; sent < end; sent++) {
            producer.send(new ProducerRecord<>(Counts.WORDS, null, time(sent), word(sent), ""));
        }
        producer.flush();
    }

    /** The counts that the topics must hold at the end, computed directly. */
    private Map<String, Long> expected() {
        Map<String, Long> expected = new HashMap<>();
        Map<String, long[]> sessions = new HashMap<>(); // start, end, count
        long minute = Counts.MINUTE.toMillis();
        for (int number = 0; number < sent; number++) {
            String word = word(number);
            long time = time(number);
            expected.merge(Counts.TOTAL + " " + word, 1L, Long::sum);
            long start = time / minute * minute;
            expected.merge(Counts.BY_MINUTE + " " + word + " " + start + " " + (start + minute),
                    1L, Long::sum);
            long[] session = sessions.get(word);
            if (session == null || time - session[1] > Counts.GAP.toMillis()) {
                put(expected, word, session);
                session = new long[] {time, time, 0};
                sessions.put(word, session);
            }
            session[1] = time;
            session[2]++;
        }
        sessions.forEach((word, session) -> put(expected, word, session));
        return expected;
    }

    private static void put(Map<String, Long> expected, String word, long[] session) {
        if (session != null) {
            expected.put(Counts.BY_SESSION + " " + word + " " + session[0] + " " + session[1],
                    session[2]);
        }
    }

    // The counts in the topics.

    private boolean poll() {
        var records = consumer.poll(Duration.ofMillis(200));
        for (var record : records) {
            String key = record.topic() + " " + record.key();
            if (record.value() == null) {
                counts.remove(key);
            } else {
                counts.put(key, Long.parseLong(record.value()));
            }
        }
        return !records.isEmpty();
    }

    private long total() {
        return counts.entrySet().stream()
                .filter(count -> count.getKey().startsWith(Counts.TOTAL + " "))
                .mapToLong(Map.Entry::getValue).sum();
    }

    private void awaitTotal(long words, Child program) throws IOException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (total() < words) {
            poll();
            program.checkAlive();
            if (System.nanoTime() > end) {
                throw new IllegalStateException("only " + total() + " of " + words
                        + " words were counted within 60 s" + program.tail());
            }
        }
    }

    private void checkCounts() {
        Map<String, Long> expected = expected();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!counts.equals(expected) && System.nanoTime() < end) {
            poll();
        }
        if (!counts.equals(expected)) {
            Map<String, String> wrong = new java.util.TreeMap<>();
            expected.forEach((key, count) -> {
                if (!count.equals(counts.get(key))) {
                    wrong.put(key, counts.get(key) + " instead of " + count);
                }
            });
            counts.forEach((key, count) -> {
                if (!expected.containsKey(key)) {
                    wrong.put(key, count + " instead of none");
                }
            });
            throw new IllegalStateException(wrong.size() + " counts are wrong: "
                    + wrong.entrySet().stream().limit(10).toList());
        }
        out.printf("all %d counts of %d words are exact: in all, by minute and by session%n",
                expected.size(), sent);
    }

    private static void check(Object expected, Object found) {
        check("the answer", expected, found);
    }

    private static void check(String what, Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new IllegalStateException(what + ": " + found + " instead of " + expected);
        }
    }

    @Override
    public void close() {
        producer.close(Duration.ZERO);
        consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
        broker.close();
    }

    /**
     * The example as a program.
     *
     * @param arguments {@code vlsm} (the default) or {@code rocksdb}, and a folder to write to
     */
    public static void main(String[] arguments)
            throws IOException, InterruptedException, ExecutionException {
        Path folder = arguments.length > 1 ? Path.of(arguments[1]).toAbsolutePath()
                : Files.createTempDirectory("vlsm-kafka");
        if (arguments.length < 2) {
            // This also runs after Ctrl-C.
            Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(folder)));
        }
        run(folder, arguments.length > 0 ? arguments[0] : "vlsm", System.out);
    }

    private static void remove(Path folder) {
        // Otherwise the main thread would report that the children end.
        Thread.setDefaultUncaughtExceptionHandler((thread, failed) -> { });
        Child.killAll();
        try {
            Utils.delete(folder.toFile());
        } catch (IOException failed) {
            System.err.println("cannot remove " + folder + ": " + failed);
        }
    }
}
