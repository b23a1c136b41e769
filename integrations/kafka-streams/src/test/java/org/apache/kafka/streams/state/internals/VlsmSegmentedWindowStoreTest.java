package org.apache.kafka.streams.state.internals;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Test;
import org.vlsm.kafka.VlsmStores;

/**
 * Kafka's tests of RocksDB's window store with timestamps. The tests that look for a folder for
 * each segment are in {@code SegmentsTest}, where they look for keyspaces.
 */
public class VlsmSegmentedWindowStoreTest extends AbstractRocksDBWindowStoreTest {
    private static final String FOLDERS = "looks for a folder for each segment: see SegmentsTest";

    @Override
    <K, V> WindowStore<K, V> buildWindowStore(long retentionPeriod, long windowSize,
            boolean retainDuplicates, Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.windowStoreBuilder(VlsmStores.persistentTimestampedWindowStore("windows",
                Duration.ofMillis(retentionPeriod), Duration.ofMillis(windowSize),
                retainDuplicates), keySerde, valueSerde).build();
    }

    @Override
    StoreType storeType() {
        return StoreType.RocksDBWindowStore;
    }

    @Override
    @Test
    @Disabled(FOLDERS)
    public void testRolling() {}

    @Override
    @Test
    @Disabled(FOLDERS)
    public void testSegmentMaintenance() {}

    @Override
    @Test
    @Disabled(FOLDERS)
    public void testInitialLoading() {}

    @Override
    @Test
    @Disabled(FOLDERS)
    public void testRestore() {}

    @Override
    @Test
    @Disabled("casts the store to the class around RocksDB's: see StoreStateTest")
    public void shouldMatchPositionAfterPut() {}
}
