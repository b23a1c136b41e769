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
 * stores of the task share it: one WAL, one memory limit and one set of threads per task. With
 * RocksDB, each store and each segment of a window store is a database of its own.
 *
 * <p>Its keyspaces: {@code STORE} for a key-value store, {@code STORE:START} for each segment of a
 * window or session store (Kafka's names have no colon), and {@code default} for the data of {@link
 * StoreState}.
 *
 * <p>The first state store of the task opens it, and the last one to close closes it. So Kafka can
 * remove the folder of a task once it has closed the task's stores. A kill of the process leaves a
 * prefix of the writes of all stores of the task, in their order.
 */
final class TaskDb {
    private static final String FOLDER = "vlsm";

    /**
     * The open stores. Only one thread at a time computes the entry of a path, which includes
     * opening it.
     */
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

    /** Opens the store of a task, or shares the open one. The caller must release it. */
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

    /** Ends one use of the store. The last use closes it. */
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
                failure.thrown = failed; // The store is closed nevertheless.
            }
            return null;
        });
        if (failure.thrown != null) {
            throw failure.thrown;
        }
    }

    /** The number of state stores that use it. */
    int users() {
        return OPEN.compute(path, (path, open) -> open).users;
    }

    /** The keyspace with the data about the state stores. */
    Keyspace meta() {
        return db;
    }

    Keyspace keyspace(String name) {
        return db.createKeyspace(name);
    }

    List<String> keyspaces() {
        return db.keyspaces();
    }

    /** Removes a keyspace and all its data, at the cost of one record. */
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

    /** The counters of a task's store, at most a second old; empty when it is closed. */
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
