package org.apache.kafka.streams.state.internals;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.vlsm.kafka.VlsmStores;

/** Kafka's tests of a window store. */
public class VlsmWindowStoreTest extends AbstractWindowBytesStoreTest {
    @Override
    <K, V> WindowStore<K, V> buildWindowStore(long retentionPeriod, long windowSize,
            boolean retainDuplicates, Serde<K> keySerde, Serde<V> valueSerde) {
        return Stores.windowStoreBuilder(VlsmStores.persistentWindowStore("windows",
                Duration.ofMillis(retentionPeriod), Duration.ofMillis(windowSize),
                retainDuplicates), keySerde, valueSerde).build();
    }
}
