package org.vlsm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.vlsm.Support.bytes;
import static org.vlsm.Support.text;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Bad input throws a Java exception and changes nothing, and the store continues to work. */
class BadInputTest {
    private static final byte[] KEY = bytes("k");
    private static final ByteBuffer DIRECT = ByteBuffer.allocateDirect(8);

    @TempDir Path folder;
    private Db db;

    @BeforeEach
    void open() {
        db = Db.open(folder.resolve("store"));
        db.put(KEY, bytes("v"));
    }

    @AfterEach
    void theStoreIsAsItWas() {
        if (!db.isClosed()) {
            assertEquals(1, db.count());
            assertEquals("v", text(db.get(KEY)));
        }
        db.close();
    }

    private static void nullPointer(Executable... calls) {
        for (Executable call : calls) {
            assertThrows(NullPointerException.class, call);
        }
    }

    @Test
    void nulls() {
        WriteBatch batch = new WriteBatch();
        Transaction own = db.transaction();
        Snapshot snapshot = db.snapshot();
        Cursor cursor = db.cursor();
        nullPointer(() -> db.put((byte[]) null, KEY), () -> db.put(KEY, null),
                () -> db.put(KEY, KEY, null), () -> db.put(DIRECT, (ByteBuffer) null),
                () -> db.put((ByteBuffer) null, DIRECT), () -> db.get(null),
                () -> db.get(DIRECT, null), () -> db.get(null, DIRECT), () -> db.delete(null),
                () -> db.merge(null, KEY), () -> db.merge(KEY, null), () -> db.deleteRange(null),
                () -> db.multiGet(null), () -> db.multiGet(Arrays.asList(KEY, null)),
                () -> db.contains(null), () -> db.cursor(null), () -> cursor.seek(null),
                () -> db.keyspace(null), () -> db.createKeyspace(null),
                () -> db.createKeyspace("x", null), () -> db.dropKeyspace(null),
                () -> db.rename(null), () -> db.write(null), () -> db.write(batch, null),
                () -> db.transact(null), () -> db.fetchUpdate(null, value -> value),
                () -> db.fetchUpdate(KEY, null), () -> db.compareAndSwap(null, KEY, KEY),
                () -> db.putIfAbsent(KEY, null), () -> db.checkpoint(null),
                () -> batch.put(null, KEY, KEY), () -> batch.put(db, null, KEY),
                () -> batch.put(db, KEY, null, Duration.ZERO), () -> batch.delete(db, null),
                () -> batch.deleteRange(db, null), () -> batch.merge(db, KEY, null),
                () -> own.get(null), () -> own.get(null, KEY), () -> own.put(null, KEY),
                () -> own.put(db, KEY, null), () -> own.delete((byte[]) null),
                () -> own.merge(db, null, KEY), () -> own.commit(null),
                () -> snapshot.get(null, KEY), () -> snapshot.cursor(null),
                () -> Db.open(null), () -> Db.open(folder, null), () -> Db.openReadOnly(null),
                () -> Db.restore(null, folder), () -> Range.prefix(null),
                () -> WriteOptions.of(null), () -> new Options().mergeOperator("x", null),
                () -> new Options().mergeOperator(null, Support::sum),
                () -> new KeyspaceOptions().splits(Arrays.asList(KEY, null)));
        assertEquals(0, batch.count());
        cursor.close();
        snapshot.close();
        own.close();
    }

    private static VlsmException invalid(Executable call) {
        return assertThrows(VlsmException.InvalidArgument.class, call);
    }

    @Test
    void longOnes() {
        byte[] key = new byte[Keyspace.MAX_KEY_LENGTH + 1];
        VlsmException error = invalid(() -> db.put(key, KEY));
        assertTrue(error.getMessage().contains("65536"), error.getMessage());
        invalid(() -> db.get(key));
        invalid(() -> db.delete(key));
        invalid(() -> db.multiGet(List.of(key)));
        invalid(() -> db.put(ByteBuffer.allocateDirect(key.length), DIRECT));
        invalid(() -> db.get(ByteBuffer.allocateDirect(key.length), DIRECT));
        invalid(() -> db.transact(own -> {
            own.put(key, KEY);
            return null;
        }));
        try (WriteBatch batch = new WriteBatch()) {
            batch.put(db, bytes("fine"), KEY).put(db, key, KEY);
            invalid(() -> db.write(batch));
        }
        byte[] longest = new byte[Keyspace.MAX_KEY_LENGTH];
        db.put(longest, KEY);
        assertTrue(db.contains(longest));
        db.delete(longest);
        invalid(() -> db.deleteRange(Range.of(key, null)));
        try (Cursor cursor = db.cursor(Range.of(null, key))) {
            assertFalse(cursor.hasNext());
        }
    }

    @Test
    void valuesThatAreTooLong() {
        // Direct memory is only reserved; it is never read.
        ByteBuffer value = ByteBuffer.allocateDirect(Keyspace.MAX_VALUE_LENGTH + 1);
        VlsmException error = invalid(() -> db.put(DIRECT, value));
        assertTrue(error.getMessage().contains("1073741824"), error.getMessage());
    }

    @Test
    void numbersAndTexts() {
        invalid(() -> db.put(KEY, KEY, Duration.ofSeconds(-1), WriteOptions.DEFAULT));
        invalid(() -> WriteOptions.DEFAULT.deadline(Duration.ofNanos(-1)));
        invalid(() -> new KeyspaceOptions().blockBytes(-1));
        invalid(() -> new KeyspaceOptions().bitsPerKey(-1));
        invalid(() -> new Options().memoryLimit(-5));
        invalid(() -> db.createKeyspace("half \ud800 of a pair"));
        invalid(() -> db.createKeyspace(""));
        assertThrows(VlsmException.class,
                () -> db.createKeyspace("x", new KeyspaceOptions().mergeOperator("none")));
        assertThrows(VlsmException.class, () -> db.merge(KEY, KEY));
        invalid(() -> Db.open(folder.resolve("x"), new Options().toml("no = [toml")));
        assertThrows(VlsmException.InvalidOption.class,
                () -> Db.open(folder.resolve("x"), new Options().profile("no such")));
        try (Keyspace odd = db.createKeyspace("日本 \ud83d\ude00 \u0000")) {
            assertEquals("日本 \ud83d\ude00 \u0000", odd.name());
            assertTrue(db.keyspaces().contains(odd.name()));
            db.dropKeyspace(odd);
        } catch (VlsmException.InvalidArgument refused) {
            assertTrue(refused.getMessage().contains("name"), refused.getMessage());
        }
        assertEquals(List.of("default"), db.keyspaces());
    }

    @Test
    void buffersThatCannotBeWritten() {
        assertThrows(ReadOnlyBufferException.class,
                () -> db.get(DIRECT, DIRECT.asReadOnlyBuffer()));
        assertThrows(ReadOnlyBufferException.class,
                () -> db.get(DIRECT, ByteBuffer.allocate(8).asReadOnlyBuffer()));
        ByteBuffer readOnly = ByteBuffer.wrap(bytes("r")).asReadOnlyBuffer();
        db.put(readOnly, readOnly);
        assertEquals("r", text(db.get(bytes("r"))));
        db.delete(bytes("r"));
    }

    @Test
    void paths() throws Exception {
        Path file = Files.writeString(folder.resolve("file"), "text");
        assertThrows(VlsmException.class, () -> Db.open(file));
        Path strange = Files.createDirectory(folder.resolve("strange"));
        Files.writeString(strange.resolve("MANIFEST-1"), "no");
        assertThrows(VlsmException.class, () -> Db.open(strange));
        assertThrows(VlsmException.Missing.class,
                () -> Db.open(folder.resolve("no"), new Options().createIfMissing(false)));
        assertFalse(Files.exists(folder.resolve("no")));
        assertThrows(VlsmException.Missing.class, () -> Db.openReadOnly(folder.resolve("no")));
        VlsmException locked = assertThrows(VlsmException.Locked.class, () -> Db.open(db.path()));
        assertTrue(locked.getMessage().contains(db.path().toString()), locked.getMessage());
        Path zip = folder.resolve("a.zip");
        try (FileSystem inZip = FileSystems.newFileSystem(zip, Map.of("create", "true"))) {
            invalid(() -> Db.open(inZip.getPath("/store")));
        }
    }

    @Test
    void filesThatAreMissing() throws Exception {
        Path path = folder.resolve("incomplete");
        try (Db other = Db.open(path)) {
            other.put(KEY, KEY);
            other.flush();
        }
        for (String suffix : List.of(".sst", "MANIFEST-000001")) {
            Path file;
            try (Stream<Path> files = Files.list(path)) {
                file = files.filter(one -> one.toString().endsWith(suffix)).findFirst()
                        .orElseThrow();
            }
            Files.delete(file);
            VlsmException damaged = assertThrows(VlsmException.Corruption.class,
                    () -> Db.open(path));
            assertTrue(damaged.getMessage().contains(file.toString()), damaged.getMessage());
        }
    }

    @Test
    void handlesOfAnotherStore() {
        try (Db other = Db.open(folder.resolve("other"));
                Keyspace foreign = other.createKeyspace("k");
                WriteBatch batch = new WriteBatch();
                Snapshot snapshot = db.snapshot();
                Transaction own = db.transaction()) {
            db.createKeyspace("k").close();
            batch.put(db, bytes("a"), KEY).put(foreign, bytes("a"), KEY);
            invalid(() -> db.write(batch));
            invalid(() -> other.write(batch));
            invalid(() -> snapshot.get(foreign, KEY));
            invalid(() -> snapshot.get(other, KEY));
            invalid(() -> snapshot.multiGet(other, List.of(KEY)));
            invalid(() -> own.get(foreign, KEY));
            invalid(() -> own.put(foreign, KEY, KEY));
            try (Cursor cursor = snapshot.cursor(foreign, Range.all())) {
                invalid(cursor::advance);
            }
            try (Cursor cursor = own.cursor(other, Range.all().reversed())) {
                invalid(cursor::advance);
            }
            invalid(() -> db.dropKeyspace(foreign));
            assertTrue(other.keyspaces().contains("k") && foreign.isEmpty() && other.isEmpty());
            own.rollback();
        }
        assertNull(db.get(bytes("a")));
    }

    /** Makes every call on all objects of a store, after `close` has closed some of them. */
    private void closed(boolean store) {
        Keyspace keyspace = db.createKeyspace("k");
        keyspace.put(KEY, KEY);
        Snapshot snapshot = db.snapshot();
        Transaction own = db.transaction();
        Cursor cursor = keyspace.cursor();
        Cursor second = keyspace.cursor();
        assertTrue(second.advance());
        WriteBatch batch = new WriteBatch().put(keyspace, KEY, KEY);
        List<AutoCloseable> all = new ArrayList<>(
                List.of(keyspace, snapshot, own, cursor, second));
        if (store) {
            db.close();
            db.close();
        } else {
            all.forEach(BadInputTest::close);
        }
        List<Executable> calls = new ArrayList<>(List.of(() -> keyspace.put(KEY, KEY),
                () -> keyspace.get(KEY), () -> keyspace.put(DIRECT, DIRECT),
                () -> keyspace.get(DIRECT, DIRECT.duplicate()), () -> keyspace.delete(KEY),
                () -> keyspace.deleteRange(Range.all()), () -> keyspace.multiGet(List.of(KEY)),
                () -> keyspace.contains(KEY), () -> keyspace.count(), keyspace::clear,
                () -> keyspace.compactRange(Range.all()), () -> keyspace.rename("x"),
                () -> keyspace.putIfAbsent(KEY, KEY), () -> db.write(batch),
                () -> keyspace.compareAndSwap(KEY, KEY, KEY), () -> keyspace.first(),
                () -> keyspace.setOptions(new KeyspaceOptions()),
                () -> snapshot.get(KEY), () -> own.get(KEY), own::commit, cursor::advance));
        if (store) {
            calls.addAll(List.of(() -> db.get(KEY), () -> db.put(KEY, KEY), db::flush, db::sync,
                    db::stats, db::snapshot, db::transaction, db::keyspaces, db::waitIdle,
                    () -> db.keyspace("k"), () -> db.createKeyspace("l"),
                    () -> db.checkpoint(folder.resolve("c")), () -> db.dropKeyspace(keyspace),
                    () -> db.transact(work -> null), () -> db.fetchUpdate(KEY, value -> value)));
        } else {
            calls.addAll(List.of(() -> keyspace.name(), () -> db.dropKeyspace(keyspace),
                    () -> keyspace.approximateSize(Range.all()), own::savepoint, second::key));
        }
        for (int i = 0; i < calls.size(); i++) {
            assertThrows(VlsmException.Closed.class, calls.get(i), "call " + i);
        }
        // Neither the order nor the number of closes matters.
        all.forEach(BadInputTest::close);
        all.forEach(BadInputTest::close);
    }

    private static void close(AutoCloseable one) {
        try {
            one.close();
        } catch (Exception failed) {
            throw new AssertionError(failed);
        }
    }

    @Test
    void closedStore() {
        closed(true);
    }

    @Test
    void closedHandles() {
        closed(false);
    }

    @Test
    void closedBatch() {
        WriteBatch batch = new WriteBatch().put(db, bytes("a"), KEY);
        batch.close();
        assertThrows(VlsmException.Closed.class, () -> batch.put(db, KEY, KEY));
        assertThrows(VlsmException.Closed.class, () -> db.write(batch));
    }
}
