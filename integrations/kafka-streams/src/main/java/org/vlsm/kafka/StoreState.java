package org.vlsm.kafka;

import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.StreamsConfig.InternalConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.internals.PositionSerde;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.vlsm.Keyspace;
import org.vlsm.Range;
import org.vlsm.VlsmException;
import org.vlsm.WriteBatch;

/**
 * The common part of all kinds of state stores: the task's store, the changelog offsets and the
 * position, open iterators, and errors.
 *
 * <p>It keeps the following in the keyspace {@code default}, under the name of the state store and
 * a zero byte: the kind of the store; the offset of each changelog partition and the position as of
 * the last commit, which one batch writes together; and, under exactly-once, a mark that the store
 * holds records whose transaction may not be committed.
 *
 * <p>The first record after a commit writes the mark, in the same batch, and the commit removes it.
 * Restored records are committed and set no mark. If a store with the mark is opened under
 * exactly-once, it reports the task to Kafka as corrupted, and Kafka restores it from the
 * changelog. So a kill during processing costs a restore, as with RocksDB's stores, but a kill of a
 * standby task or during a restore does not.
 */
final class StoreState {
    private static final Logger LOG = LoggerFactory.getLogger(StoreState.class);
    private static final byte[] PRESENT = {1};

    private final String name;
    private final String kind;
    private final Set<KeyValueIterator<?, ?>> iterators = ConcurrentHashMap.newKeySet();
    private final Position position = Position.emptyPosition();

    private StateStoreContext context;
    private TaskDb db;
    private boolean consistency;
    private boolean marks;
    private boolean marked;

    /** Whether there may be offsets. A store without a changelog never has an offset to remove. */
    private boolean hasOffsets = true;

    private volatile boolean open;

    StoreState(String name, String kind) {
        this.name = Objects.requireNonNull(name, "name");
        this.kind = kind;
    }

    // Opening and closing.

    /**
     * Opens the state store.
     *
     * @param store the outermost wrapper, by which Kafka knows the store
     * @param opened opens the keyspaces of the store
     * @param restore writes a batch of changelog records
     */
    void open(StateStoreContext context, StateStore store, Runnable opened,
            RecordBatchingStateRestoreCallback restore) {
        Map<String, Object> configs = context.appConfigs();
        this.context = context;
        boolean exactlyOnce = StreamsConfig.EXACTLY_ONCE_V2.equals(
                configs.get(StreamsConfig.PROCESSING_GUARANTEE_CONFIG));
        // Global stores (whose tasks have no subtopology) get committed records only.
        marks = exactlyOnce && context.taskId().subtopology() >= 0;
        consistency = InternalConfig.getBoolean(configs,
                InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED, false);
        db = run("open", () -> TaskDb.acquire(context.stateDir(), configs));
        try {
            run("open", () -> {
                checkKind();
                checkMark(context.taskId());
                byte[] kept = db.meta().get(key("position"));
                if (kept != null) {
                    position.merge(PositionSerde.deserialize(ByteBuffer.wrap(kept)));
                }
                opened.run();
                return null;
            });
        } catch (RuntimeException failed) {
            db.release();
            throw failed;
        }
        open = true;
        context.register(store, restore);
    }

    private void checkKind() {
        byte[] kept = db.meta().get(key("kind"));
        byte[] now = kind.getBytes(StandardCharsets.UTF_8);
        if (kept == null) {
            db.meta().put(key("kind"), now);
        } else if (!Arrays.equals(kept, now)) {
            throw new ProcessorStateException("Store " + name + " was written as a "
                    + new String(kept, StandardCharsets.UTF_8) + " store and cannot be opened as a "
                    + kind + " store: remove the state directory of this task ("
                    + context.stateDir() + "), and the store is restored from its changelog");
        }
    }

    private void checkMark(TaskId task) {
        marked = db.meta().get(key("uncommitted")) != null;
        if (marked && marks) {
            throw new TaskCorruptedException(Set.of(task), new ProcessorStateException("Store "
                    + name + " holds records of a transaction that may not have been committed"));
        }
    }

    /**
     * Closes the state store. A second call does nothing.
     *
     * @param closing closes the keyspaces of the store
     */
    void close(Runnable closing) {
        if (!open) {
            return;
        }
        open = false;
        if (!iterators.isEmpty()) {
            LOG.warn("Closing {} open iterators of store {}", iterators.size(), name);
            Set.copyOf(iterators).forEach(KeyValueIterator::close);
        }
        try {
            closing.run();
        } finally {
            run("close", () -> {
                db.release();
                return null;
            });
        }
    }

    boolean isOpen() {
        return open;
    }

    void checkOpen() {
        if (!open) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
    }

    String name() {
        return name;
    }

    StateStoreContext context() {
        return context;
    }

    TaskDb db() {
        return db;
    }

    // Reads and writes.

    byte[] get(Keyspace keyspace, Bytes key) {
        checkOpen();
        byte[] bytes = key.get();
        return run("read from", () -> keyspace.get(bytes));
    }

    /** Sets a key, or removes it if the value is null, and advances the position. */
    void put(Keyspace keyspace, Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        checkOpen();
        synchronized (position) {
            if (marks && !marked) {
                write(Set.of(KeyValue.pair(key, value)), keyspace);
            } else if (value == null) {
                run("write to", () -> {
                    keyspace.delete(key.get());
                    return null;
                });
            } else {
                run("write to", () -> {
                    keyspace.put(key.get(), value);
                    return null;
                });
            }
            StoreQueryUtils.updatePosition(position, context);
        }
    }

    /** Writes entries, all of them or none, and advances the position. */
    void putAll(Keyspace keyspace, Collection<KeyValue<Bytes, byte[]>> entries) {
        checkOpen();
        synchronized (position) {
            write(entries, keyspace);
            StoreQueryUtils.updatePosition(position, context);
        }
    }

    private void write(Collection<KeyValue<Bytes, byte[]>> entries, Keyspace keyspace) {
        try (WriteBatch batch = new WriteBatch()) {
            if (marks && !marked) {
                batch.put(db.meta(), key("uncommitted"), PRESENT);
            }
            for (KeyValue<Bytes, byte[]> entry : entries) {
                Objects.requireNonNull(entry.key, "key cannot be null");
                add(batch, keyspace, entry.key.get(), entry.value);
            }
            run("write to", () -> {
                db.write(batch);
                return null;
            });
            marked |= marks;
        }
    }

    static void add(WriteBatch batch, Keyspace keyspace, byte[] key, byte[] value) {
        if (value == null) {
            batch.delete(keyspace, key);
        } else {
            batch.put(keyspace, key, value);
        }
    }

    /** Writes records of the changelog as one batch. */
    void restore(Collection<ConsumerRecord<byte[], byte[]>> records, Restorer restorer) {
        checkOpen();
        synchronized (position) {
            try (WriteBatch batch = new WriteBatch()) {
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    Keyspace keyspace = restorer.keyspace(record);
                    if (keyspace != null) {
                        ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(record,
                                consistency, position);
                        add(batch, keyspace, record.key(), record.value());
                    }
                }
                run("restore", () -> {
                    db.write(batch);
                    return null;
                });
            }
        }
    }

    /** Maps a record of the changelog to its keyspace. */
    @FunctionalInterface
    interface Restorer {
        /** The keyspace, or null if the record has expired. */
        Keyspace keyspace(ConsumerRecord<byte[], byte[]> record);
    }

    /** An iterator over a range of a keyspace. It is closed with the store at the latest. */
    PairIterator iterate(Keyspace keyspace, Range range) {
        checkOpen();
        PairIterator iterator = run("read from",
                () -> new PairIterator(name, keyspace.cursor(range), iterators));
        if (!open) {
            iterator.close();
            checkOpen();
        }
        return iterator;
    }

    /**
     * Logs Kafka's own warning, word for word: Kafka's tests and users' log filters look for it.
     */
    static void warnOfEmptyRange() {
        LOG.warn("Returning empty iterator for fetch with invalid key range: from > to. "
                + "This may be due to range arguments set in the wrong order, or serdes that don't "
                + "preserve ordering when lexicographically comparing the serialized bytes. Note "
                + "that the built-in numerical serdes do not follow this for negative numbers");
    }

    // Commits.

    /** Stores the position, and the changelog offsets that correspond to the store's contents. */
    void commit(Map<TopicPartition, Long> offsets) {
        if (!open) {
            return;
        }
        synchronized (position) {
            try (WriteBatch batch = new WriteBatch()) {
                if (offsets.isEmpty() && hasOffsets) {
                    batch.deleteRange(db.meta(), Range.prefix(key("offset\0")));
                }
                offsets.forEach((partition, offset) -> add(batch, db.meta(), offsetKey(partition),
                        offset == null ? null
                                : ByteBuffer.allocate(Long.BYTES).putLong(offset).array()));
                batch.put(db.meta(), key("position"), PositionSerde.serialize(position).array());
                if (marked) {
                    batch.delete(db.meta(), key("uncommitted"));
                }
                run("commit", () -> {
                    db.commit(batch);
                    return null;
                });
                marked = false;
                hasOffsets = !offsets.isEmpty();
            }
        }
    }

    Long committedOffset(TopicPartition partition) {
        checkOpen();
        byte[] kept = run("read from", () -> db.meta().get(offsetKey(partition)));
        return kept == null ? null : ByteBuffer.wrap(kept).getLong();
    }

    private byte[] offsetKey(TopicPartition partition) {
        return key("offset\0" + partition);
    }

    private byte[] key(String what) {
        return (name + "\0" + what).getBytes(StandardCharsets.UTF_8);
    }

    // Queries.

    Position position() {
        return position;
    }

    <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config,
            StateStore store) {
        return StoreQueryUtils.handleBasicQueries(query, bound, config, store, position, context);
    }

    // Errors.

    /** Runs a call of vLSM and converts its errors to those that Kafka expects of a store. */
    <T> T run(String what, Supplier<T> call) {
        try {
            return call.get();
        } catch (VlsmException.Closed | VlsmException.KeyspaceDropped closed) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed", closed);
        } catch (VlsmException failed) {
            throw new ProcessorStateException("Cannot " + what + " store " + name + ": "
                    + failed.getMessage(), failed);
        } catch (UncheckedIOException failed) {
            throw new ProcessorStateException("Cannot " + what + " store " + name + ": "
                    + failed.getCause(), failed);
        }
    }
}
