package org.vlsm.kafka.example;

import java.io.IOException;
import java.io.PrintStream;
import java.io.Writer;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.Uuid;

/** A broker and controller in one child JVM, on loopback. */
final class Broker implements AutoCloseable {
    private final Child child;
    private final String address;

    private Broker(Child child, String address) {
        this.child = child;
        this.address = address;
    }

    /** Starts a broker. It tries again with other ports if another process has taken these. */
    static Broker start(Path folder) throws IOException, InterruptedException {
        for (int attempt = 1;; attempt++) {
            Path own = Files.createDirectories(folder.resolve("broker" + attempt));
            int port = freePort();
            Path config = own.resolve("server.properties");
            try (Writer writer = Files.newBufferedWriter(config)) {
                config(own, port, freePort()).store(writer, null);
            }
            String address = "127.0.0.1:" + port;
            Broker broker = new Broker(new Child(own, "broker", Broker.class, config.toString()),
                    address);
            try {
                broker.await();
                return broker;
            } catch (IllegalStateException failed) {
                broker.close();
                if (attempt == 3) {
                    throw failed;
                }
            }
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static Properties config(Path folder, int port, int controllerPort) {
        Map<String, String> config = new TreeMap<>(Map.of(
                "process.roles", "broker,controller",
                "node.id", "1",
                "controller.quorum.voters", "1@127.0.0.1:" + controllerPort,
                "listeners", "PLAINTEXT://127.0.0.1:" + port + ",CONTROLLER://127.0.0.1:"
                        + controllerPort,
                "advertised.listeners", "PLAINTEXT://127.0.0.1:" + port,
                "controller.listener.names", "CONTROLLER",
                "listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs", folder.resolve("log").toString()));
        for (String topic : new String[] {"offsets.topic", "transaction.state.log",
                "share.coordinator.state.topic"}) {
            config.put(topic + ".replication.factor", "1");
            config.put(topic + ".num.partitions", "1");
        }
        config.put("transaction.state.log.min.isr", "1");
        config.put("share.coordinator.state.topic.min.isr", "1");
        config.put("group.initial.rebalance.delay.ms", "0");
        config.put("group.min.session.timeout.ms", "1000");
        // Transactions of a killed program are aborted soon.
        config.put("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500");
        Properties properties = new Properties();
        properties.putAll(config);
        return properties;
    }

    private void await() throws IOException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
        Map<String, Object> config = Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, address,
                AdminClientConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, 200);
        try (Admin admin = Admin.create(config)) {
            while (true) {
                child.checkAlive();
                try {
                    admin.describeCluster().nodes().get(2, TimeUnit.SECONDS);
                    return;
                } catch (java.util.concurrent.ExecutionException
                        | java.util.concurrent.TimeoutException notYet) {
                    if (System.nanoTime() > end) {
                        throw new IllegalStateException("the broker does not answer within 40 s"
                                + child.tail(), notYet);
                    }
                }
            }
        }
    }

    String address() {
        return address;
    }

    @Override
    public void close() {
        child.close();
    }

    /** The broker's main method: it formats the folder and runs. */
    public static void main(String[] arguments) throws IOException {
        int failed = kafka.tools.StorageTool.execute(new String[] {"format", "--config",
            arguments[0], "--cluster-id", Uuid.randomUuid().toString()}, new PrintStream(
                    System.out, true));
        if (failed != 0) {
            Runtime.getRuntime().halt(failed);
        }
        Thread server = new Thread(() -> kafka.Kafka.main(new String[] {arguments[0]}));
        server.setDaemon(true);
        server.start();
        Child.obey(line -> { });
    }
}
