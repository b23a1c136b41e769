package org.vlsm.kafka;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionStore;

/** Makes session stores. */
record VlsmSessionSupplier(String name, long retentionPeriod, Format format)
        implements SessionBytesStoreSupplier {
    @Override
    public SessionStore<Bytes, byte[]> get() {
        return format == Format.WITH_HEADERS ? new VlsmSessionStore.WithHeaders(this)
                : new VlsmSessionStore(this);
    }

    @Override
    public String metricsScope() {
        return "vlsm-session";
    }

    @Override
    public long segmentIntervalMs() {
        return VlsmStores.segmentInterval(retentionPeriod);
    }
}
