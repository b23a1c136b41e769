package org.vlsm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.vlsm.Support.bytes;
import static org.vlsm.Support.keys;
import static org.vlsm.Support.text;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Every call does what its documentation says. */
class ApiTest {
    @TempDir Path folder;
    private Path path;
    private Db db;

    @BeforeEach
    void open() {
        path = folder.resolve("store");
        db = Db.open(path, new Options().mergeOperator("sum", Support::sum));
    }

    @AfterEach
    void close() {
        db.close();
    }

    private void fill(Keyspace keyspace, String... keys) {
        for (String key : keys) {
            keyspace.put(bytes(key), bytes("value of " + key));
        }
    }

    @Test
    void pairsAreThereAfterReopening() {
        fill(db, "a", "b");
        db.put(bytes(""), new byte[0], WriteOptions.of(Durability.SYNC));
        db.delete(bytes("a"));
        db.close();
        assertTrue(db.isClosed());
        db = Db.open(path, new Options().createIfMissing(false));
        assertFalse(db.isClosed());
        assertNull(db.get(bytes("a")));
        assertEquals("value of b", text(db.get(bytes("b"))));
        assertArrayEquals(new byte[0], db.get(new byte[0]));
        assertTrue(db.contains(bytes("b")) && !db.contains(bytes("a")));
        assertEquals(2, db.count());
        assertEquals(path, db.path());
        assertEquals("default", db.name());
    }

    @Test
    void valuesExpire() throws InterruptedException {
        db.put(bytes("k"), bytes("v"), Duration.ofMillis(1), WriteOptions.DEFAULT);
        db.put(bytes("l"), bytes("v"), Duration.ofDays(400_000), WriteOptions.DEFAULT);
        try (WriteBatch batch = new WriteBatch()) {
            db.write(batch.put(db, bytes("m"), bytes("v"), Duration.ofMillis(1)));
        }
        Thread.sleep(5);
        assertEquals(List.of("l"), keys(db.cursor()));
    }

    @Test
    void buffers() {
        for (boolean direct : new boolean[] {true, false}) {
            ByteBuffer key = buffer(direct, 16).put(bytes("..key")).flip().position(2);
            ByteBuffer value = buffer(direct, 16).put(bytes("a value")).flip();
            db.put(key, value);
            assertEquals(2, key.position());
            assertEquals(7, value.remaining());
            assertEquals("a value", text(db.get(bytes("key"))));
            ByteBuffer into = buffer(direct, 10).position(1);
            assertEquals(7, db.get(key, into));
            assertEquals(8, into.position());
            assertEquals('a', into.get(1));
            assertEquals('e', into.get(7));
            ByteBuffer small = buffer(direct, 6);
            assertEquals(7, db.get(key, small));
            assertEquals(0, small.position());
            assertEquals(0, small.get(0));
            assertEquals(Keyspace.ABSENT, db.get(value, into));
            try (Snapshot snapshot = db.snapshot(); Transaction own = db.transaction()) {
                assertEquals(7, snapshot.get(db, key, into.clear()));
                assertEquals(7, own.get(db, key, into.clear()));
            }
            try (WriteBatch batch = new WriteBatch()) {
                db.write(batch.put(db, value, key));
                assertEquals("key", text(db.get(bytes("a value"))));
            }
            db.clear();
        }
        ByteBuffer empty = ByteBuffer.allocateDirect(0);
        db.put(empty, empty);
        assertEquals(0, db.get(empty, empty));
    }

    private static ByteBuffer buffer(boolean direct, int length) {
        return direct ? ByteBuffer.allocateDirect(length) : ByteBuffer.allocate(length);
    }

    @Test
    void rangesAndDirections() {
        fill(db, "a", "b", "ba", "bb", "c", "d");
        db.put(new byte[] {(byte) 0xff, 1}, bytes("high"));
        Range middle = Range.of(bytes("b"), bytes("c"));
        assertEquals(List.of("b", "ba", "bb"), keys(db.cursor(middle)));
        assertEquals(List.of("bb", "ba", "b"), keys(db.cursor(middle.reversed())));
        assertEquals(List.of("b", "ba", "bb"), keys(db.cursor(Range.prefix(bytes("b")))));
        assertEquals(List.of("ba", "bb", "c"),
                keys(db.cursor(Range.closed(bytes("b"), bytes("c")).withoutLo())));
        assertEquals(List.of("a"), keys(db.cursor(Range.of(null, bytes("b")))));
        assertEquals(List.of(), keys(db.cursor(Range.of(bytes("c"), bytes("b")))));
        try (Stream<Entry> high = db.stream(Range.prefix(new byte[] {(byte) 0xff}))) {
            assertEquals(List.of("high"), high.map(entry -> text(entry.value())).toList());
        }
        assertEquals(new Entry(bytes("a"), bytes("value of a")), db.first());
        assertEquals("high", text(db.last().value()));
        db.deleteRange(Range.of(bytes("b"), bytes("c")));
        assertEquals(List.of("a", "c"), keys(db.cursor(Range.of(null, bytes("d")))));
        db.deleteRange(Range.closed(bytes("c"), null), WriteOptions.of(Durability.LAZY));
        assertEquals(List.of("a"), keys(db.cursor()));
        db.clear();
        assertTrue(db.isEmpty() && db.first() == null && db.last() == null);
    }

    @Test
    void cursorsSeekBothWays() {
        fill(db, "a", "c", "e", "g");
        try (Snapshot snapshot = db.snapshot(); Transaction own = db.transaction()) {
            db.delete(bytes("c"));
            List<Cursor> forward = List.of(snapshot.cursor(Range.of(bytes("b"), bytes("g"))),
                    own.cursor(Range.of(bytes("b"), bytes("g"))));
            for (Cursor cursor : forward) {
                assertThrows(NoSuchElementException.class, cursor::key);
                cursor.seek(bytes("d"));
                assertTrue(cursor.advance());
                assertEquals("e", text(cursor.key()));
                assertFalse(cursor.advance());
                assertThrows(NoSuchElementException.class, cursor::value);
                assertThrows(NoSuchElementException.class, cursor::next);
                cursor.seek(bytes("a"));
                assertEquals("c", text(cursor.next().key()));
                cursor.close();
            }
            try (Cursor cursor = snapshot.cursor(Range.of(bytes("b"), bytes("g")).reversed())) {
                assertEquals("e", text(cursor.next().key()));
                cursor.seek(bytes("z"));
                assertEquals("e", text(cursor.next().key()));
                cursor.seek(bytes("d"));
                assertEquals("c", text(cursor.next().key()));
                cursor.seek(bytes("a"));
                assertFalse(cursor.hasNext());
            }
            try (Cursor cursor = own.cursor(Range.all().reversed())) {
                assertEquals("g", text(cursor.next().key()));
                assertThrows(VlsmException.InvalidArgument.class, () -> cursor.seek(bytes("c")));
            }
        }
    }

    @Test
    void cursorsShowTheMomentAtWhichTheyWereMade() {
        for (int i = 0; i < 5000; i++) {
            db.put(bytes(String.format("%05d", i)), new byte[i % 300]);
        }
        ByteBuffer into = ByteBuffer.allocateDirect(300);
        try (Cursor cursor = db.cursor()) {
            db.clear();
            for (int i = 0; i < 5000; i++) {
                assertTrue(cursor.advance());
                assertEquals(String.format("%05d", i), text(cursor.key()));
                assertEquals(i % 300, cursor.valueBuffer().remaining());
                assertTrue(cursor.keyBuffer().isReadOnly());
                assertEquals(5, cursor.key(into.clear()));
                assertEquals(5, into.position());
                assertEquals(i % 300, cursor.value(into.clear()));
                assertEquals(i % 300, into.position());
            }
            assertEquals(5, cursor.key(ByteBuffer.allocate(4)));
            assertFalse(cursor.advance());
        }
    }

    @Test
    void multiGetIsInOrder() {
        fill(db, "a", "b");
        List<byte[]> found = db.multiGet(List.of(bytes("b"), bytes("x"), bytes("a"), bytes("b")));
        assertEquals(List.of("value of b", "-", "value of a", "value of b"),
                found.stream().map(value -> value == null ? "-" : text(value)).toList());
        assertEquals(List.of(), db.multiGet(List.of()));
        try (Snapshot snapshot = db.snapshot(); Transaction own = db.transaction()) {
            db.delete(bytes("a"));
            assertEquals("value of a", text(snapshot.multiGet(db, List.of(bytes("a"))).get(0)));
            assertEquals("value of a", text(own.multiGet(db, List.of(bytes("a"))).get(0)));
            assertTrue(snapshot.contains(db, bytes("a")) && own.contains(db, bytes("a")));
        }
    }

    @Test
    void oneKeyInOneStep() {
        byte[] key = bytes("k");
        assertFalse(db.compareAndSwap(key, bytes("1"), bytes("2")));
        assertTrue(db.compareAndSwap(key, null, bytes("1")));
        assertTrue(db.compareAndSwap(key, bytes("1"), bytes("2")));
        assertEquals("2", text(db.putIfAbsent(key, bytes("3"))));
        assertEquals("2", text(db.fetchUpdate(key, before -> bytes(text(before) + "!"))));
        assertEquals("2!", text(db.fetchUpdate(key, before -> null)));
        assertNull(db.putIfAbsent(key, bytes("3")));
        assertTrue(db.compareAndSwap(key, bytes("3"), null));
        assertNull(db.fetchUpdate(key, before -> before));
        assertTrue(db.isEmpty());
    }

    @Test
    void keyspacesAndBatches() {
        KeyspaceOptions options = new KeyspaceOptions().compression(Compression.ZSTD)
                .blockBytes(8192).bitsPerKey(12).memtableBytes(1 << 20)
                .splits(List.of(bytes("m")));
        try (Keyspace one = db.createKeyspace("one", options);
                Keyspace sums = db.createKeyspace("sums",
                        new KeyspaceOptions().mergeOperator("sum"));
                WriteBatch batch = new WriteBatch()) {
            fill(one, "c", "d", "x");
            batch.put(db, bytes("k"), bytes("v")).put(one, bytes("a"), bytes("1"))
                    .delete(one, bytes("x")).deleteRange(one, Range.of(bytes("c"), bytes("d")))
                    .merge(sums, bytes("n"), bytes("1")).merge(sums, bytes("n"), bytes("2"));
            assertEquals(6, batch.count());
            assertTrue(batch.sizeInBytes() > 30);
            db.write(batch);
            db.write(batch, WriteOptions.of(Durability.SYNC).deadline(Duration.ofSeconds(60)));
            assertEquals("v", text(db.get(bytes("k"))));
            assertEquals(List.of("a", "d"), keys(one.cursor()));
            assertEquals("6", text(sums.get(bytes("n"))));
            batch.clear();
            db.write(batch);
            db.write(batch.deleteRange(one, Range.all()));
            assertTrue(one.isEmpty());
            one.rename("two");
            assertEquals("two", one.name());
            assertEquals(List.of("default", "sums", "two"),
                    db.keyspaces().stream().sorted().toList());
            one.setOptions(new KeyspaceOptions().compression(Compression.NONE)
                    .splits(List.of(bytes("m"))));
            sums.merge(bytes("n"), bytes("4"), WriteOptions.of(Durability.NO_WAL));
            assertEquals("10", text(sums.get(bytes("n"))));
            assertEquals(db, one.db());
            db.dropKeyspace(one);
            assertThrows(VlsmException.KeyspaceDropped.class, () -> one.get(bytes("a")));
            VlsmException none = assertThrows(VlsmException.NoSuchKeyspace.class,
                    () -> db.keyspace("two"));
            assertEquals("two", none.keyspace());
            try (Keyspace again = db.keyspace("sums")) {
                assertEquals("10", text(again.get(bytes("n"))));
            }
        }
    }

    @Test
    void transactions() {
        fill(db, "a", "b");
        try (Transaction own = db.transaction()) {
            own.put(bytes("c"), bytes("1"));
            own.delete(bytes("a"));
            own.savepoint();
            own.put(db, bytes("d"), bytes("1"), Duration.ofHours(1));
            own.deleteRange(db, Range.of(bytes("b"), bytes("c")));
            assertEquals(List.of("c", "d"), keys(own.cursor(Range.all())));
            assertEquals(List.of("d", "c"), keys(own.cursor(db, Range.all().reversed())));
            own.rollbackToSavepoint();
            assertEquals(List.of("b", "c"), keys(own.cursor(Range.all())));
            assertEquals(List.of("a", "b"), keys(db.cursor()));
            own.commit(WriteOptions.of(Durability.BUFFERED));
            assertThrows(VlsmException.InvalidArgument.class, own::commit);
        }
        assertEquals(List.of("b", "c"), keys(db.cursor()));
        Transaction left = db.transaction();
        left.put(bytes("e"), bytes("1"));
        left.rollback();
        assertThrows(VlsmException.Closed.class, left::commit);
        VlsmException ended = assertThrows(VlsmException.Closed.class,
                () -> left.put(bytes("e"), bytes("1")));
        assertTrue(ended.getMessage().contains("the transaction"), ended.getMessage());
        try (Transaction own = db.transaction()) {
            assertNull(own.getForUpdate(db, bytes("x")));
            own.put(bytes("y"), bytes("1"));
            db.put(bytes("x"), bytes("1"));
            assertThrows(VlsmException.Conflict.class, own::commit);
        }
        assertEquals(List.of("b", "c", "x"), keys(db.cursor()));
    }

    @Test
    void transactRunsAgainAfterAConflict() {
        int[] runs = {0};
        String result = db.transact(own -> {
            byte[] before = own.get(bytes("n"));
            if (runs[0]++ < 3) {
                db.put(bytes("n"), bytes("other " + runs[0]));
            }
            own.put(bytes("n"), bytes("own"));
            return text(before);
        });
        assertEquals("other 3", result);
        assertEquals(4, runs[0]);
        assertEquals("own", text(db.get(bytes("n"))));
        IllegalStateException thrown = assertThrows(IllegalStateException.class,
                () -> db.transact(own -> {
                    own.put(bytes("n"), bytes("lost"));
                    throw new IllegalStateException("sold out");
                }));
        assertEquals("sold out", thrown.getMessage());
        for (boolean close : new boolean[] {true, false}) {
            db.transact(own -> {
                own.put(bytes("n"), bytes("lost"));
                if (close) {
                    own.close();
                } else {
                    own.rollback();
                }
                return null;
            });
        }
        assertEquals("own", text(db.get(bytes("n"))));
        Transaction[] kept = {null};
        db.transact(own -> kept[0] = own);
        assertThrows(VlsmException.Closed.class, () -> kept[0].get(bytes("n")));
    }

    @Test
    void snapshotsShowOneMoment() {
        fill(db, "a");
        Snapshot snapshot = db.snapshot();
        fill(db, "b");
        db.put(bytes("a"), bytes("2"));
        assertEquals("value of a", text(snapshot.get(bytes("a"))));
        assertNull(snapshot.get(db, bytes("b")));
        Cursor outlives = snapshot.cursor(db, Range.all());
        assertEquals(db, snapshot.db());
        snapshot.close();
        assertEquals(List.of("a"), keys(outlives));
        assertThrows(VlsmException.Closed.class, () -> snapshot.get(bytes("a")));
    }

    @Test
    void filesAndStatistics() throws Exception {
        for (int i = 0; i < 2000; i++) {
            db.put(bytes("key " + i), new byte[100]);
        }
        db.sync();
        db.flush();
        db.compactRange(Range.all());
        db.waitIdle();
        assertTrue(db.approximateSize(Range.all()).entries() >= 2000);
        assertEquals(0, db.approximateSize(Range.of(bytes("x"), null)).bytes());
        assertTrue(db.stats().contains("# TYPE"));
        assertTrue(db.metrics().size() > 50);
        assertTrue(db.metrics().values().stream().anyMatch(value -> value >= 2000));
        Path copy = folder.resolve("copy");
        db.checkpoint(copy);
        assertThrows(VlsmException.AlreadyExists.class, () -> db.checkpoint(copy));
        Db.restore(copy, folder.resolve("restored"));
        for (String name : List.of("copy", "restored")) {
            try (Db other = Db.open(folder.resolve(name), new Options().readOnly(true))) {
                assertEquals(2000, other.count());
                assertThrows(VlsmException.OpenedReadOnly.class, () -> other.clear());
            }
        }
        try (Db beside = Db.openReadOnly(path)) {
            assertEquals(2000, beside.count());
            db.put(bytes("new"), bytes("1"));
            assertNull(beside.get(bytes("new")));
            beside.catchUp();
            assertEquals("1", text(beside.get(bytes("new"))));
        }
        Path strange = folder.resolve("Straße %41 日本");
        Db.open(strange).close();
        assertTrue(Files.isDirectory(strange));
    }

    @Test
    void optionsReachTheStore() throws InterruptedException {
        Options twice = new Options().set("policy.tree.memtable_bytes", "1 MiB")
                .toml("[policy.tree]\n");
        assertThrows(VlsmException.InvalidArgument.class,
                () -> Db.open(folder.resolve("twice"), twice));
        Options last = new Options().memoryLimit(1).memoryLimit(64 << 20).set("log", true)
                .set("log", false);
        Db.open(folder.resolve("last"), last).close();
        assertFalse(Files.exists(folder.resolve("last").resolve("LOG")));
        Options both = new Options().profile("steady").set("policy.tree.memtable_bytes", "1 MiB");
        assertThrows(VlsmException.InvalidArgument.class,
                () -> Db.open(folder.resolve("both"), both));
        Options good = new Options().profile("steady").set("log", false).set("workers", 2)
                .durability(Durability.SYNC).toml("block_bytes = \"8 KiB\"")
                .defaultKeyspace(new KeyspaceOptions().ttl(Duration.ofMillis(1)));
        try (Db other = Db.open(folder.resolve("good"), good)) {
            other.put(bytes("k"), bytes("v"));
            Thread.sleep(5);
            assertNull(other.get(bytes("k")));
            assertFalse(Files.exists(folder.resolve("good").resolve("LOG")));
        }
        VlsmException wrong = assertThrows(VlsmException.InvalidArgument.class,
                () -> Db.open(folder.resolve("wrong"), new Options().set("memory_limt", 1)));
        assertTrue(wrong.getMessage().contains("memory_limt"), wrong.getMessage());
    }
}
