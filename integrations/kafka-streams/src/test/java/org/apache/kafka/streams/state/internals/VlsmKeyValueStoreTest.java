package org.apache.kafka.streams.state.internals;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.vlsm.kafka.VlsmStores;

/** Kafka's tests of a key-value store. They are only visible in Kafka's package. */
public class VlsmKeyValueStoreTest extends AbstractKeyValueStoreTest {
    @Override
    @SuppressWarnings("unchecked")
    protected <K, V> KeyValueStore<K, V> createKeyValueStore(StateStoreContext context) {
        KeyValueStore<K, V> store = Stores.keyValueStoreBuilder(
                VlsmStores.persistentKeyValueStore("my-store"),
                (Serde<K>) context.keySerde(), (Serde<V>) context.valueSerde()).build();
        store.init(context, store);
        return store;
    }
}
