package org.vlsm.kafka;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** Makes window stores. */
record VlsmWindowSupplier(String name, long retentionPeriod, long segmentIntervalMs,
        long windowSize, boolean retainDuplicates, Format format)
        implements WindowBytesStoreSupplier {
    @Override
    public WindowStore<Bytes, byte[]> get() {
        return switch (format) {
            case PLAIN -> new VlsmWindowStore(this);
            case TIMESTAMPED -> new VlsmWindowStore.Timestamped(this);
            case WITH_HEADERS -> new VlsmWindowStore.WithHeaders(this);
        };
    }

    @Override
    public String metricsScope() {
        return "vlsm-window";
    }
}
