package org.vlsm.kafka;

import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.vlsm.Durability;
import org.vlsm.Options;

/**
 * The settings of the stores in the configuration of Kafka Streams: each key {@code vlsm.NAME} is
 * the option NAME of vLSM, such as {@code vlsm.memory_limit} or {@code
 * vlsm.policy.tree.memtable_bytes}. vLSM rejects unknown names and values.
 *
 * <p>One key is not an option of vLSM: {@link #COMMIT_DURABILITY}.
 */
final class Settings {
    static final String PREFIX = "vlsm.";

    /** When a commit is acknowledged. */
    static final String COMMIT_DURABILITY = PREFIX + "commit_durability";

    /** The default memory limit of a task's store. It is small because a process has many tasks. */
    static final long MEMORY_LIMIT = 96 << 20;

    private Settings() {}

    /** The options of a task's store. */
    static Options options(Map<String, Object> configs) {
        Options options = new Options();
        unlessSet(configs, options, "memory_limit", Long.toString(MEMORY_LIMIT));
        // Records are durable in the changelogs; RocksDB's stores have no WAL at all.
        unlessSet(configs, options, "durability", "lazy");
        unlessSet(configs, options, "workers", "1");
        unlessSet(configs, options, "io_threads", "1");
        configs.forEach((name, value) -> {
            if (name.startsWith(PREFIX) && !name.equals(COMMIT_DURABILITY) && value != null) {
                set(options, name.substring(PREFIX.length()), value);
            }
        });
        return options;
    }

    private static void unlessSet(Map<String, Object> configs, Options options, String name,
            String value) {
        if (!configs.containsKey(PREFIX + name)) {
            set(options, name, value);
        }
    }

    private static void set(Options options, String name, Object value) {
        String text = value.toString().trim();
        if (value instanceof Boolean || text.equals("true") || text.equals("false")) {
            options.set(name, Boolean.parseBoolean(text));
        } else if (text.matches("-?[0-9]{1,18}")) {
            options.set(name, Long.parseLong(text));
        } else {
            options.set(name, text);
        }
    }

    /** When a commit is acknowledged. By default it survives a kill of the process. */
    static Durability commitDurability(Map<String, Object> configs) {
        Object value = configs.get(COMMIT_DURABILITY);
        if (value == null) {
            return Durability.BUFFERED;
        }
        return switch (value.toString().trim().toLowerCase(Locale.ROOT)) {
            case "sync" -> Durability.SYNC;
            case "buffered" -> Durability.BUFFERED;
            case "lazy" -> Durability.LAZY;
            default -> throw new ConfigException(COMMIT_DURABILITY, value,
                    "expected sync, buffered or lazy");
        };
    }
}
