package org.vlsm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.vlsm.Support.bytes;
import static org.vlsm.Support.text;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Threads that use and close the same objects. */
class TogetherTest {
    @TempDir Path folder;
    private final ExecutorService threads = Executors.newCachedThreadPool();

    @AfterEach
    void end() throws InterruptedException {
        threads.shutdown();
        assertTrue(threads.awaitTermination(60, TimeUnit.SECONDS));
    }

    /**
     * Runs all tasks at the same time, and rethrows their exceptions, except for errors of closed
     * objects.
     */
    private void together(List<Callable<Void>> all) throws Exception {
        CyclicBarrier start = new CyclicBarrier(all.size());
        List<Future<Void>> running = new ArrayList<>();
        for (Callable<Void> one : all) {
            running.add(threads.submit(() -> {
                start.await();
                return one.call();
            }));
        }
        for (Future<Void> one : running) {
            try {
                one.get(120, TimeUnit.SECONDS);
            } catch (ExecutionException failed) {
                if (!(failed.getCause() instanceof VlsmException.Closed)) {
                    throw new AssertionError(failed.getCause());
                }
            }
        }
    }

    /** Threads use everything without end, while one thread closes the store. */
    @Test
    void closeWhileAllIsUsed() throws Exception {
        AtomicLong acknowledged = new AtomicLong();
        Options options = Support.small().mergeOperator("sum", Support::sum)
                .defaultKeyspace(new KeyspaceOptions().mergeOperator("sum"));
        for (int round = 0; round < 25; round++) {
            Db db = Db.open(folder.resolve("store"), options);
            Keyspace other = db.createKeyspace("other");
            Cursor shared = db.cursor();
            Snapshot snapshot = db.snapshot();
            Transaction own = db.transaction();
            int pause = round;
            together(List.of(
                    () -> {
                        while (true) {
                            db.merge(bytes("count"), bytes("1"),
                                    WriteOptions.of(Durability.LAZY));
                            acknowledged.incrementAndGet();
                        }
                    },
                    () -> {
                        for (int i = 0;; i++) {
                            other.put(bytes("k" + i % 1000), new byte[i % 1000]);
                            db.get(bytes("count"));
                        }
                    },
                    () -> {
                        while (true) {
                            try (Cursor cursor = other.cursor(Range.all().reversed())) {
                                while (cursor.advance()) {
                                    assertNotNull(cursor.entry());
                                }
                            }
                        }
                    },
                    () -> {
                        // A cursor is for one thread; two do no harm beyond strange exceptions.
                        while (true) {
                            misuse(shared);
                        }
                    },
                    () -> {
                        while (true) {
                            misuse(shared);
                            snapshot.get(other, bytes("k1"));
                            own.put(other, bytes("x"), bytes("1"));
                            own.multiGet(other, List.of(bytes("k1"), bytes("x")));
                        }
                    },
                    () -> {
                        while (true) {
                            db.transact(work -> {
                                work.put(bytes("t"), bytes("1"));
                                return work.get(bytes("t"));
                            });
                            db.stats();
                        }
                    },
                    () -> {
                        Thread.sleep(pause);
                        switch (pause % 3) {
                            case 0 -> {
                                snapshot.close();
                                shared.close();
                                own.close();
                                db.close();
                            }
                            case 1 -> db.close();
                            default -> {
                                other.close();
                                db.close();
                                own.close();
                                snapshot.close();
                            }
                        }
                        return null;
                    },
                    () -> {
                        Thread.sleep(pause);
                        db.close();
                        return null;
                    }));
        }
        try (Db db = Db.open(folder.resolve("store"), options)) {
            long count = Long.parseLong(text(db.get(bytes("count"))));
            // A write that the close interrupted may be there without having been acknowledged.
            assertTrue(count >= acknowledged.get() && count <= acknowledged.get() + 25,
                    count + " of " + acknowledged);
        }
    }

    private static void misuse(Cursor cursor) {
        try {
            if (cursor.advance()) {
                cursor.value();
            } else {
                cursor.seek(bytes("c"));
            }
        } catch (IndexOutOfBoundsException | NoSuchElementException | IllegalArgumentException
                | NullPointerException mixed) {
            // Another thread moved it.
        }
    }

    @Test
    void oneKeyFromManyThreads() throws Exception {
        try (Db db = Db.open(folder.resolve("store"))) {
            List<Callable<Void>> all = new ArrayList<>();
            AtomicInteger made = new AtomicInteger();
            for (int i = 0; i < 4; i++) {
                all.add(() -> {
                    for (int j = 0; j < 200; j++) {
                        db.fetchUpdate(bytes("n"), before -> bytes(Long.toString(
                                before == null ? 1 : Long.parseLong(text(before)) + 1)));
                        if (db.putIfAbsent(bytes("once " + j), bytes("x")) == null) {
                            made.incrementAndGet();
                        }
                    }
                    return null;
                });
            }
            together(all);
            assertEquals("800", text(db.get(bytes("n"))));
            assertEquals(200, made.get());
        }
    }

    /** Buffers that another thread changes meanwhile spoil their pairs only. */
    @Test
    void buffersChangedMeanwhile() throws Exception {
        try (Db db = Db.open(folder.resolve("store"))) {
            ByteBuffer key = ByteBuffer.allocateDirect(8);
            ByteBuffer value = ByteBuffer.allocateDirect(4096);
            WriteBatch batch = new WriteBatch();
            AtomicInteger left = new AtomicInteger(3000);
            together(List.of(
                    () -> {
                        while (left.decrementAndGet() > 0) {
                            db.put(key.duplicate(), value.duplicate());
                        }
                        return null;
                    },
                    () -> {
                        for (long i = 0; left.get() > 0; i++) {
                            key.putLong(0, i);
                            value.putLong((int) (i * 8 % 4096), i);
                        }
                        return null;
                    },
                    () -> {
                        while (left.get() > 0) {
                            try {
                                batch.put(db, bytes("a"), new byte[100]);
                                if (batch.count() > 50) {
                                    batch.clear();
                                }
                            } catch (IndexOutOfBoundsException | IllegalArgumentException
                                    | java.nio.BufferOverflowException mixed) {
                                batch.clear();
                            }
                        }
                        return null;
                    },
                    () -> {
                        while (left.get() > 0) {
                            try {
                                db.write(batch);
                            } catch (VlsmException.InvalidArgument | IndexOutOfBoundsException
                                    | NullPointerException
                                    | java.util.ConcurrentModificationException mixed) {
                                // The batch was changed meanwhile.
                            }
                        }
                        return null;
                    }));
            try (Cursor cursor = db.cursor(Range.of(null, bytes("a")))) {
                while (cursor.advance()) {
                    assertEquals(8, cursor.keyBuffer().remaining());
                    assertEquals(4096, cursor.valueBuffer().remaining());
                }
            }
        }
    }

    /** A store that became unreachable with all its objects is closed, and can be opened again. */
    @Test
    void forgottenHandlesAreReleased() throws Exception {
        Path path = folder.resolve("store");
        WeakReference<Db> gone = forget(path);
        for (int i = 0; i < 600; i++) {
            System.gc();
            Thread.sleep(20);
            if (gone.get() != null) {
                continue;
            }
            try (Db db = Db.open(path)) {
                assertEquals("v", text(db.get(bytes("k"))));
                return;
            } catch (VlsmException.Locked notYet) {
                // The cleaner has not released everything yet.
            }
        }
        throw new AssertionError("the store stays open, or its handle reachable");
    }

    private static WeakReference<Db> forget(Path path) {
        Db db = Db.open(path);
        db.put(bytes("k"), bytes("v"), WriteOptions.of(Durability.LAZY));
        db.cursor().advance();
        db.snapshot().get(bytes("k"));
        db.transaction().put(bytes("x"), bytes("1"));
        db.createKeyspace("other").cursor(Range.all().reversed());
        return new WeakReference<>(db);
    }
}
