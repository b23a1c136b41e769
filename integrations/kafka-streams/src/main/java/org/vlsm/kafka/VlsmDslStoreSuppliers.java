package org.vlsm.kafka;

import org.apache.kafka.streams.state.DslKeyValueParams;
import org.apache.kafka.streams.state.DslSessionParams;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.DslWindowParams;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Supplies all stores of a topology that name no supplier of their own, by one line of the
 * configuration:
 *
 * <pre>{@code
 * dsl.store.suppliers.class=org.vlsm.kafka.VlsmDslStoreSuppliers
 * }</pre>
 */
public final class VlsmDslStoreSuppliers implements DslStoreSuppliers {
    /** Called by Kafka Streams. */
    public VlsmDslStoreSuppliers() {}

    @Override
    public KeyValueBytesStoreSupplier keyValueStore(DslKeyValueParams params) {
        return new VlsmKeyValueSupplier(params.name(), Format.of(params.dslStoreFormat()));
    }

    @Override
    public WindowBytesStoreSupplier windowStore(DslWindowParams params) {
        DslStoreFormat format = params.dslStoreFormat();
        return VlsmStores.window(params.name(), params.retentionPeriod(), params.windowSize(),
                params.retainDuplicates(),
                format == null ? Format.TIMESTAMPED : Format.of(format));
    }

    @Override
    public SessionBytesStoreSupplier sessionStore(DslSessionParams params) {
        boolean headers = params.storeFormat() == DslStoreFormat.HEADERS;
        return VlsmStores.session(params.name(), params.retentionPeriod(),
                headers ? Format.WITH_HEADERS : Format.PLAIN);
    }
}
