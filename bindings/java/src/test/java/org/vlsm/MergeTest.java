package org.vlsm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.vlsm.Support.bytes;
import static org.vlsm.Support.text;

import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Merge operators in Java: correct ones, ones that throw, and ones that make forbidden calls. */
class MergeTest {
    @TempDir Path folder;

    private Db open(MergeOperator operator) {
        return Db.open(folder.resolve("store"), Support.small().mergeOperator("op", operator)
                .defaultKeyspace(new KeyspaceOptions().mergeOperator("op")));
    }

    @Test
    void theStoresThreadsCallIt() {
        Set<Thread> threads = ConcurrentHashMap.newKeySet();
        try (Db db = open((key, before, operands) -> {
            threads.add(Thread.currentThread());
            return Support.sum(key, before, operands);
        })) {
            for (int i = 0; i < 60_000; i++) {
                db.merge(bytes("counter " + i % 100), bytes("1"), WriteOptions.of(Durability.LAZY));
            }
            db.flush();
            db.compactRange(Range.all());
            for (int i = 0; i < 100; i++) {
                assertEquals("600", text(db.get(bytes("counter " + i))));
            }
        }
        threads.remove(Thread.currentThread());
        assertFalse(threads.isEmpty(), "no flush and no compaction combined anything");
        assertTrue(threads.stream().allMatch(Thread::isDaemon));
    }

    @Test
    void whatItThrowsReachesTheCallerAndNothingIsLost() throws InterruptedException {
        CountDownLatch logged = new CountDownLatch(1);
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                if (record.getThrown() instanceof NumberFormatException) {
                    logged.countDown();
                }
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger("org.vlsm");
        logger.addHandler(handler);
        logger.setUseParentHandlers(false);
        try (Db db = open(Support::sum)) {
            db.put(bytes("a"), bytes("1"));
            db.merge(bytes("b"), bytes("2"));
            db.merge(bytes("b"), bytes("not a number"));
            db.merge(bytes("b"), bytes("3"));
            db.put(bytes("c"), bytes("4"));
            VlsmException error = assertThrows(VlsmException.MergeFailed.class,
                    () -> db.get(bytes("b")));
            assertTrue(error.getCause() instanceof NumberFormatException, error.toString());
            assertEquals("default", error.keyspace());
            for (boolean reverse : new boolean[] {false, true}) {
                Range all = reverse ? Range.all().reversed() : Range.all();
                try (Cursor cursor = db.cursor(all)) {
                    assertEquals(reverse ? "c" : "a", text(cursor.next().key()));
                    error = assertThrows(VlsmException.MergeFailed.class, cursor::advance);
                    assertEquals(reverse ? "a" : "c", text(cursor.next().key()));
                    assertFalse(cursor.advance());
                }
            }
            db.flush();
            db.compactRange(Range.all());
            assertTrue(logged.await(60, TimeUnit.SECONDS), "nothing was logged");
            assertThrows(VlsmException.MergeFailed.class, () -> db.get(bytes("b")));
            assertEquals("4", text(db.get(bytes("c"))), "a later read has its own result");
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
        MergeOperator better = (key, before, operands) -> Support.sum(key, before,
                operands.stream().filter(operand -> text(operand).matches("\\d+")).toList());
        try (Db db = open(better)) {
            assertEquals("5", text(db.get(bytes("b"))));
        }
    }

    @Test
    void errorsOfTheMachineAreCaughtToo() {
        OutOfMemoryError thrown = new OutOfMemoryError("no");
        try (Db db = open((key, before, operands) -> {
            throw text(key).equals("o") ? thrown : new StackOverflowError();
        })) {
            db.merge(bytes("o"), bytes("1"));
            db.merge(bytes("s"), bytes("1"));
            assertSame(thrown, assertThrows(VlsmException.MergeFailed.class,
                    () -> db.get(bytes("o"))).getCause());
            assertTrue(assertThrows(VlsmException.MergeFailed.class, () -> db.get(bytes("s")))
                    .getCause() instanceof StackOverflowError);
        }
        try (Db db = open((key, before, operands) -> null)) {
            assertNull(assertThrows(VlsmException.MergeFailed.class, () -> db.get(bytes("o")))
                    .getCause());
        }
    }

    @Test
    void operandsCanBeRefused() {
        MergeOperator strict = new MergeOperator() {
            @Override
            public byte[] merge(byte[] key, byte[] before, List<byte[]> operands) {
                return Support.sum(key, before, operands);
            }

            @Override
            public byte[] mergePartial(byte[] key, List<byte[]> operands) {
                return Support.sum(key, null, operands);
            }

            @Override
            public boolean accepts(byte[] key, byte[] operand) {
                if (operand.length == 0) {
                    throw new IllegalStateException("empty");
                }
                return text(operand).matches("\\d+");
            }
        };
        try (Db db = open(strict); WriteBatch batch = new WriteBatch()) {
            db.merge(bytes("k"), bytes("1"));
            assertThrows(VlsmException.MergeFailed.class, () -> db.merge(bytes("k"), bytes("x")));
            batch.put(db, bytes("l"), bytes("1")).merge(db, bytes("k"), new byte[0]);
            VlsmException error = assertThrows(VlsmException.MergeFailed.class,
                    () -> db.write(batch));
            assertEquals("empty", error.getCause().getMessage());
            assertNull(db.get(bytes("l")));
            for (int i = 0; i < 20_000; i++) {
                db.merge(bytes("k"), bytes("1"), WriteOptions.of(Durability.LAZY));
            }
            db.flush();
            assertEquals("20001", text(db.get(bytes("k"))));
        }
    }

    @Test
    void itMustNotUseAStore() {
        Db[] used = {null};
        try (Db db = open((key, before, operands) -> {
            switch (text(key)) {
                case "get" -> used[0].get(bytes("other"));
                case "close" -> used[0].close();
                default -> used[0].put(bytes("other"), bytes("1"));
            }
            return bytes("done");
        })) {
            used[0] = db;
            for (String key : List.of("get", "put", "close")) {
                db.merge(bytes(key), bytes("1"));
                VlsmException error = assertThrows(VlsmException.MergeFailed.class,
                        () -> db.get(bytes(key)));
                assertTrue(error.getCause() instanceof VlsmException.InvalidArgument,
                        String.valueOf(error.getCause()));
            }
            db.flush();
        } catch (VlsmException.Closed closed) {
            throw new AssertionError("the operator closed the store", closed);
        }
    }

    @Test
    void aStoreNeedsItsOperators() {
        try (Db db = open(Support::sum)) {
            db.merge(bytes("k"), bytes("1"));
        }
        VlsmException error = assertThrows(VlsmException.MergeFailed.class,
                () -> Db.open(folder.resolve("store")));
        assertTrue(error.getMessage().contains("\"op\""), error.getMessage());
        try (Db db = open(Support::sum)) {
            assertEquals("1", text(db.get(bytes("k"))));
        }
    }
}
