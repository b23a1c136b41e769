package org.vlsm.kafka;

import org.apache.kafka.streams.DslStoreFormat;

/** The format of a value: with what it begins. */
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
