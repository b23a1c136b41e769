package org.vlsm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.vlsm.Support.bytes;
import static org.vlsm.Support.keys;
import static org.vlsm.Support.text;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** JVMs that end with everything open, or are killed: all acknowledged writes are there. */
class ProcessTest {
    private static final int KILLS = 15;

    @TempDir Path folder;

    /** Leaves everything open, and ends in one of several ways while threads write. */
    static final class Leaver {
        public static void main(String[] arguments) throws Exception {
            Options options = Support.small().mergeOperator("sum", Support::sum)
                    .defaultKeyspace(new KeyspaceOptions().mergeOperator("sum"));
            Db db = Db.open(Path.of(arguments[0]), options);
            WriteOptions lazy = WriteOptions.of(Durability.LAZY);
            Keyspace unlogged = db.createKeyspace("unlogged");
            db.put(bytes("lazy"), bytes("1"), lazy);
            unlogged.put(bytes("k"), bytes("1"), WriteOptions.of(Durability.NO_WAL));
            for (int i = 0; i < 20_000; i++) {
                db.merge(bytes("sum " + i % 10), bytes("1"), lazy);
            }
            Cursor cursor = db.cursor();
            cursor.advance();
            db.snapshot();
            db.transaction().put(bytes("never"), bytes("1"));
            switch (arguments[1]) {
                case "hook" -> Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                    for (int i = 0; i < 100; i++) {
                        db.put(bytes("hook " + i), bytes("1"), lazy);
                    }
                    unlogged.put(bytes("hook"), bytes("1"), WriteOptions.of(Durability.NO_WAL));
                }));
                case "closing hook" -> Runtime.getRuntime().addShutdownHook(new Thread(db::close));
                case "writers" -> {
                    for (int i = 0; i < 3; i++) {
                        String prefix = i + " ";
                        Thread writer = new Thread(() -> write(db, prefix));
                        writer.setDaemon(true);
                        writer.start();
                    }
                    WRITTEN.await();
                }
                case "throws" -> throw new IllegalStateException("as the test wants");
                case "exit" -> System.exit(7);
                default -> {}
            }
        }

        /** All writers are in the middle of their work, whatever the machine does. */
        private static final CountDownLatch WRITTEN = new CountDownLatch(3000);

        private static void write(Db db, String prefix) {
            for (int i = 0;; i++) {
                db.put(bytes(prefix + i), bytes("1"), WriteOptions.of(Durability.LAZY));
                // The line is written before the next put, and may be cut at the end of the JVM.
                System.out.write(bytes(prefix + i + "\n"), 0, (prefix + i + "\n").length());
                System.out.flush();
                WRITTEN.countDown();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"returns", "exit", "throws", "hook", "closing hook", "writers"})
    void exitsWithEverythingOpen(String how) throws Exception {
        Path path = folder.resolve("store");
        Process child = Support.start(Leaver.class, path.toString(), how);
        String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(child.waitFor(60, TimeUnit.SECONDS), "it does not end");
        assertEquals(how.equals("exit") ? 7 : how.equals("throws") ? 1 : 0, child.exitValue());
        Options options = Support.small().mergeOperator("sum", Support::sum);
        try (Db db = Db.open(path, options); Keyspace unlogged = db.keyspace("unlogged")) {
            assertEquals("1", text(db.get(bytes("lazy"))));
            assertEquals("1", text(unlogged.get(bytes("k"))));
            for (int i = 0; i < 10; i++) {
                assertEquals("2000", text(db.get(bytes("sum " + i))));
            }
            assertEquals(null, db.get(bytes("never")));
            if (how.equals("hook")) {
                assertEquals(100, keys(db.cursor(Range.prefix(bytes("hook ")))).size());
                assertEquals("1", text(unlogged.get(bytes("hook"))));
            }
            if (how.equals("writers")) {
                String whole = said.substring(0, said.lastIndexOf('\n') + 1);
                assertTrue(whole.lines().count() >= 2900, "the writers did not start");
                whole.lines().filter(line -> line.matches("\\d \\d+"))
                        .forEach(key -> assertNotNull(db.get(bytes(key)), key));
            }
        }
    }

    /** Reads a store that another process has open, and tries to open it. */
    static final class Visitor {
        public static void main(String[] arguments) {
            Path path = Path.of(arguments[0]);
            try (Db db = Db.openReadOnly(path)) {
                System.out.println(text(db.get(bytes("k"))));
            }
            try {
                Db.open(path).close();
            } catch (VlsmException.Locked locked) {
                System.out.println(locked.getMessage());
            }
        }
    }

    @Test
    void twoProcesses() throws Exception {
        Path path = folder.resolve("store");
        try (Db db = Db.open(path)) {
            db.put(bytes("k"), bytes("shared"));
            Process visitor = Support.start(Visitor.class, path.toString());
            List<String> said = visitor.inputReader(StandardCharsets.UTF_8).lines().toList();
            assertEquals(0, visitor.waitFor());
            assertEquals("shared", said.get(0));
            String owner = "process " + ProcessHandle.current().pid();
            assertTrue(said.get(1).contains(path.toString()) && said.get(1).contains(owner),
                    said.toString());
            db.put(bytes("k"), bytes("still open"));
        }
    }

    /** Writes batches and reports each one, until it is killed. */
    static final class Writer {
        public static void main(String[] arguments) {
            Db db = Db.open(Path.of(arguments[0]), Support.small());
            Keyspace other = db.createKeyspace("other");
            byte[] last = db.get(bytes("last"));
            for (int i = last == null ? 0 : Integer.parseInt(text(last));; i++) {
                try (WriteBatch batch = new WriteBatch()) {
                    batch.put(db, bytes("last"), bytes(Integer.toString(i + 1)))
                            .put(db, bytes(String.format("a%010d", i)), new byte[100])
                            .put(other, bytes(String.format("b%010d", i)), new byte[100]);
                    db.write(batch);
                }
                System.out.println(i + 1);
                System.out.flush();
            }
        }
    }

    @Test
    void killed() throws Exception {
        Path path = folder.resolve("store");
        int acknowledged = 0;
        int before = 0;
        for (int kill = 0; kill < KILLS; kill++) {
            Process writer = Support.start(Writer.class, path.toString());
            try (BufferedReader output = new BufferedReader(
                    new InputStreamReader(writer.getInputStream(), StandardCharsets.UTF_8))) {
                String first = output.readLine();
                assertNotNull(first, "the writer did not start");
                assertEquals(before + 1, Integer.parseInt(first), "it goes on after what is there");
                acknowledged = before + 1;
                Thread.sleep(20 + kill % 5 * 30);
                // Not by the process itself, which would close the stream.
                writer.toHandle().destroyForcibly();
                // The last line may be cut.
                List<String> lines = new ArrayList<>(output.lines().toList());
                if (!lines.isEmpty()) {
                    lines.remove(lines.size() - 1);
                }
                for (String line : lines) {
                    acknowledged = Math.max(acknowledged, Integer.parseInt(line));
                }
            }
            assertEquals(137, writer.waitFor());
            try (Db db = Db.open(path); Keyspace other = db.keyspace("other")) {
                int at = Integer.parseInt(text(db.get(bytes("last"))));
                assertTrue(at >= acknowledged, at + " of " + acknowledged);
                before = at;
                assertEquals(expected("a", at), keys(db.cursor(Range.prefix(bytes("a")))));
                assertEquals(expected("b", at), keys(other.cursor()));
            }
        }
        assertTrue(before >= KILLS, "only " + before + " batches");
    }

    private static List<String> expected(String prefix, int count) {
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            keys.add(String.format("%s%010d", prefix, i));
        }
        return keys;
    }
}
