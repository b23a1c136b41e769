package org.vlsm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.vlsm.Support.bytes;
import static org.vlsm.Support.text;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Random operations, compared with a TreeMap for each keyspace. */
class ModelTest {
    private static final int STEPS = 6000;

    @TempDir Path folder;
    private Random random;
    private Db db;

    @AfterEach
    void close() {
        db.close();
    }

    private static TreeMap<byte[], byte[]> map() {
        return new TreeMap<>(Arrays::compareUnsigned);
    }

    private byte[] key() {
        byte[] key = new byte[random.nextInt(4)];
        for (int i = 0; i < key.length; i++) {
            key[i] = (byte) (random.nextInt(5) * 63);
        }
        return key;
    }

    private byte[] number() {
        return bytes(Integer.toString(random.nextInt(1000)));
    }

    private Range range() {
        Range range = switch (random.nextInt(4)) {
            case 0 -> Range.all();
            case 1 -> Range.prefix(key());
            case 2 -> Range.closed(random.nextBoolean() ? key() : null, key());
            default -> Range.of(key(), random.nextBoolean() ? key() : null);
        };
        return random.nextInt(4) == 0 ? range.withoutLo() : range;
    }

    /** The part of a map that a range covers. */
    private static NavigableMap<byte[], byte[]> part(NavigableMap<byte[], byte[]> of, Range range) {
        NavigableMap<byte[], byte[]> part = of;
        if (range.lo != null) {
            part = part.tailMap(range.lo, range.loIncluded);
        }
        if (range.hi != null) {
            int order = range.lo == null ? -1 : Arrays.compareUnsigned(range.lo, range.hi);
            boolean one = range.loIncluded && range.hiIncluded;
            part = order > 0 || order == 0 && !one ? map() : part.headMap(range.hi, range.hiIncluded);
        }
        return part;
    }

    private static void same(NavigableMap<byte[], byte[]> expected, Cursor cursor) {
        try (cursor) {
            for (Map.Entry<byte[], byte[]> pair : expected.entrySet()) {
                Entry found = cursor.next();
                assertArrayEquals(pair.getKey(), found.key());
                assertArrayEquals(pair.getValue(), found.value());
            }
            assertEquals(false, cursor.hasNext());
        }
    }

    private static NavigableMap<byte[], byte[]> copy(NavigableMap<byte[], byte[]> of) {
        TreeMap<byte[], byte[]> copy = map();
        copy.putAll(of);
        return copy;
    }

    private record Seen(Snapshot snapshot, List<NavigableMap<byte[], byte[]>> maps) {}

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void sameAsTreeMaps(long seed) {
        random = new Random(seed);
        Options options = Support.small().mergeOperator("sum", Support::sum)
                .defaultKeyspace(new KeyspaceOptions().mergeOperator("sum"));
        Path path = folder.resolve("store");
        db = Db.open(path, options);
        KeyspaceOptions other = new KeyspaceOptions().mergeOperator("sum");
        List<Keyspace> spaces = new ArrayList<>(List.of(db, db.createKeyspace("other", other)));
        List<NavigableMap<byte[], byte[]>> maps = new ArrayList<>(List.of(map(), map()));
        List<Seen> seen = new ArrayList<>();
        ByteBuffer into = ByteBuffer.allocateDirect(64);
        for (int step = 0; step < STEPS; step++) {
            int which = random.nextInt(2);
            Keyspace space = spaces.get(which);
            NavigableMap<byte[], byte[]> map = maps.get(which);
            byte[] key = key();
            byte[] value = number();
            switch (random.nextInt(16)) {
                case 0, 1, 2 -> {
                    space.put(key, value);
                    map.put(key, value);
                }
                case 3 -> {
                    ByteBuffer direct = ByteBuffer.allocateDirect(8).put(key).flip();
                    space.put(direct, ByteBuffer.allocateDirect(8).put(value).flip());
                    map.put(key, value);
                }
                case 4 -> {
                    space.delete(key);
                    map.remove(key);
                }
                case 5, 6 -> {
                    space.merge(key, value);
                    map.put(key, Support.sum(key, map.get(key), List.of(value)));
                }
                case 7 -> {
                    Range range = random.nextInt(4) == 0 ? range() : Range.closed(key, key);
                    space.deleteRange(range);
                    part(map, range).clear();
                }
                case 8 -> batch(spaces, maps);
                case 9 -> assertArrayEquals(map.get(key), space.get(key));
                case 10 -> {
                    ByteBuffer direct = ByteBuffer.allocateDirect(8).put(key).flip();
                    int length = space.get(direct, into.clear());
                    byte[] expected = map.get(key);
                    assertEquals(expected == null ? -1 : expected.length, length);
                    for (int i = 0; i < length; i++) {
                        assertEquals(expected[i], into.get(i));
                    }
                }
                case 11 -> multiGet(part(map, range()), space);
                case 12 -> {
                    db.transact(own -> {
                        byte[] before = own.get(space, key);
                        assertArrayEquals(map.get(key), before);
                        own.put(space, key, value);
                        own.merge(space, key, bytes("1"));
                        return null;
                    });
                    map.put(key, bytes(Long.toString(Long.parseLong(text(value)) + 1)));
                }
                case 13 -> {
                    if (seen.size() > 3) {
                        Seen old = seen.remove(random.nextInt(seen.size()));
                        for (int i = 0; i < 2; i++) {
                            same(old.maps.get(i),
                                    old.snapshot.cursor(spaces.get(i), Range.all()));
                        }
                        old.snapshot.close();
                    }
                    seen.add(new Seen(db.snapshot(), maps.stream().map(ModelTest::copy).toList()));
                }
                case 14 -> {
                    Range range = range();
                    NavigableMap<byte[], byte[]> expected = part(map, range);
                    same(expected, space.cursor(range));
                    same(expected.descendingMap(), space.cursor(range.reversed()));
                    seek(expected, space, range, key);
                }
                default -> {
                    switch (random.nextInt(40)) {
                        case 0 -> db.flush();
                        case 1 -> space.compactRange(range());
                        case 2 -> {
                            // Snapshots and the other keyspace are closed after the store.
                            db.close();
                            seen.forEach(old -> old.snapshot.close());
                            seen.clear();
                            spaces.get(1).close();
                            db = Db.open(path, options);
                            spaces = new ArrayList<>(List.of(db, db.keyspace("other")));
                        }
                        default -> assertEquals(map.size(), space.count());
                    }
                }
            }
        }
        for (int i = 0; i < 2; i++) {
            same(maps.get(i), spaces.get(i).cursor());
        }
    }

    /** Several writes of both keyspaces at once. */
    private void batch(List<Keyspace> spaces, List<NavigableMap<byte[], byte[]>> maps) {
        try (WriteBatch batch = new WriteBatch()) {
            for (int i = random.nextInt(20); i > 0; i--) {
                int which = random.nextInt(2);
                NavigableMap<byte[], byte[]> map = maps.get(which);
                byte[] key = key();
                byte[] value = number();
                switch (random.nextInt(5)) {
                    case 0 -> {
                        batch.delete(spaces.get(which), key);
                        map.remove(key);
                    }
                    case 1 -> {
                        batch.merge(spaces.get(which), key, value);
                        map.put(key, Support.sum(key, map.get(key), List.of(value)));
                    }
                    case 2 -> {
                        Range range = Range.closed(key, key);
                        batch.deleteRange(spaces.get(which), range);
                        part(map, range).clear();
                    }
                    default -> {
                        batch.put(spaces.get(which), key, value);
                        map.put(key, value);
                    }
                }
            }
            db.write(batch);
        }
    }

    private static void multiGet(NavigableMap<byte[], byte[]> part, Keyspace space) {
        List<byte[]> keys = List.copyOf(part.keySet());
        List<byte[]> found = space.multiGet(keys);
        for (int i = 0; i < keys.size(); i++) {
            assertArrayEquals(part.get(keys.get(i)), found.get(i));
        }
    }

    private static void seek(NavigableMap<byte[], byte[]> expected, Keyspace space, Range range,
            byte[] key) {
        try (Cursor forward = space.cursor(range); Cursor back = space.cursor(range.reversed())) {
            forward.seek(key);
            byte[] next = expected.ceilingKey(key);
            assertArrayEquals(next, forward.advance() ? forward.key() : null);
            back.seek(key);
            byte[] before = expected.floorKey(key);
            assertArrayEquals(before, back.advance() ? back.key() : null);
        }
    }
}
