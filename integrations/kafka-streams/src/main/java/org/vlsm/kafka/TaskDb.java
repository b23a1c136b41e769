package org.vlsm.kafka;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.vlsm.Db;
import org.vlsm.Durability;
import org.vlsm.Keyspace;
import org.vlsm.VlsmException;
import org.vlsm.WriteBatch;
import org.vlsm.WriteOptions;

/**
 * The vLSM store of a task, in the folder {@code vlsm} of the task's state directory. All state
 * stores of the task share it: one WAL, one memory limit and one set of threads for a task, where
 * RocksDB has a database for each store and each segment of a window store.
 *
 * <p>Its keyspaces: {@code STORE} for a key-value store, {@code STORE:START} for each segment of a
 * window or session store (Kafka's names have no colon), and {@code default} for what {@link
 * StoreState} keeps.
 *
 * <p>The first state store that opens it opens the folder, and the last one that closes it closes
 * it. So Kafka can remove the folder of a task when it has closed the task's stores. A kill of the
 * process leaves a prefix of the writes of all its stores, in the order in which they were made.
 */
final class TaskDb {
    private static final String FOLDER = "vlsm";

    /** The open ones. A path's entry is computed by one thread at a time, also while it opens. */
    private static final Map<Path, TaskDb> OPEN = new ConcurrentHashMap<>();

    private final Path path;
    private final Db db;
    private final WriteOptions commit;
    private int users = 1;
    private Map<String, Double> metrics = Map.of();
    private long metricsNanos;

    private TaskDb(Path path, Db db, Durability commitDurability) {
        this.path = path;
        this.db = db;
        this.commit = WriteOptions.of(commitDurability);
    }

    /** The store of a task, to be released. */
    static TaskDb acquire(File stateDir, Map<String, Object> configs) {
        return OPEN.compute(path(stateDir), (path, open) -> {
            if (open != null) {
                open.users++;
                return open;
            }
            Durability durability = Settings.commitDurability(configs);
            try {
                Files.createDirectories(path.getParent());
            } catch (IOException failed) {
                throw new UncheckedIOException(failed);
            }
            return new TaskDb(path, Db.open(path, Settings.options(configs)), durability);
        });
    }

    private static Path path(File stateDir) {
        return stateDir.toPath().toAbsolutePath().normalize().resolve(FOLDER);
    }

    /** Ends one use; the last one closes the store. */
    void release() {
        var failure = new Object() {
            VlsmException thrown;
        };
        OPEN.compute(path, (path, open) -> {
            users--;
            if (users > 0) {
                return this;
            }
            try {
                db.close();
            } catch (VlsmException failed) {
                failure.thrown = failed; // It is closed all the same.
            }
            return null;
        });
        if (failure.thrown != null) {
            throw failure.thrown;
        }
    }

    /** How many state stores use it. */
    int users() {
        return OPEN.compute(path, (path, open) -> open).users;
    }

    /** The keyspace of what is kept about the state stores. */
    Keyspace meta() {
        return db;
    }

    Keyspace keyspace(String name) {
        return db.createKeyspace(name);
    }

    List<String> keyspaces() {
        return db.keyspaces();
    }

    /** Removes a keyspace with all that it holds, at the cost of one record. */
    void drop(Keyspace keyspace) {
        db.dropKeyspace(keyspace);
        keyspace.close();
    }

    void write(WriteBatch batch) {
        db.write(batch);
    }

    void commit(WriteBatch batch) {
        db.write(batch, commit);
    }

    /** The counters of a task's store, at most a second old; none when it is closed. */
    static Map<String, Double> metrics(File stateDir) {
        TaskDb open = OPEN.get(path(stateDir));
        return open == null ? Map.of() : open.metrics();
    }

    private synchronized Map<String, Double> metrics() {
        long now = System.nanoTime();
        if (metrics.isEmpty() || now - metricsNanos > 1_000_000_000) {
            try {
                metrics = db.metrics();
            } catch (VlsmException.Closed closed) {
                return Map.of();
            }
            metricsNanos = now;
        }
        return metrics;
    }
}
