package org.vlsm.kafka;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;

/** Makes key-value stores. */
record VlsmKeyValueSupplier(String name, Format format) implements KeyValueBytesStoreSupplier {
    @Override
    public KeyValueStore<Bytes, byte[]> get() {
        return switch (format) {
            case PLAIN -> new VlsmKeyValueStore(name, metricsScope());
            case TIMESTAMPED -> new VlsmKeyValueStore.Timestamped(name, metricsScope());
            case WITH_HEADERS -> new VlsmKeyValueStore.WithHeaders(name, metricsScope());
        };
    }

    @Override
    public String metricsScope() {
        return "vlsm";
    }
}
