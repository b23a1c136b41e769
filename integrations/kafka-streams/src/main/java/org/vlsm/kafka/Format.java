package org.vlsm.kafka;

import org.apache.kafka.streams.DslStoreFormat;

/** The form of a value: how it begins. */
enum Format {
    PLAIN,
    TIMESTAMPED,
    WITH_HEADERS;

    static Format of(DslStoreFormat format) {
        return switch (format) {
            case PLAIN -> PLAIN;
            case TIMESTAMPED -> TIMESTAMPED;
            case HEADERS -> WITH_HEADERS;
        };
    }
}
