package org.vlsm;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;

/**
 * An open store: the keyspace {@code default}, and the operations on all keyspaces.
 *
 * <p>A store can be open only once, in one process. {@link #close} closes it although other objects
 * of it exist: its keyspaces, cursors, snapshots and transactions then throw {@link
 * VlsmException.Closed}. When the JVM exits with open stores, it first writes all acknowledged
 * writes. Only {@link Runtime#halt} and a kill lose {@linkplain Durability writes that are not in
 * the operating system yet}.
 */
public final class Db extends Keyspace {
    private final Path path;

    private Db(Path path, long id) {
        super(null, id);
        this.path = path;
    }

    /**
     * Opens the store in a folder, and creates it if there is none.
     *
     * @param path the folder
     * @return the store, to be closed
     */
    public static Db open(Path path) {
        return open(path, new Options());
    }

    /**
     * Opens the store in a folder.
     *
     * @param path the folder
     * @param options how it is opened
     * @return the store, to be closed
     */
    public static Db open(Path path, Options options) {
        KeyspaceOptions own = options.defaultKeyspace;
        boolean withDefault = own != null;
        if (own == null) {
            own = new KeyspaceOptions();
        }
        byte[][] names = options.operatorNames.stream().map(Native::utf8).toArray(byte[][]::new);
        return new Db(path, Native.open(Native.path(path), options.createIfMissing,
                options.readOnly, Native.utf8(options.profile), Native.utf8(options.text()), names,
                options.operators.toArray(MergeOperator[]::new), withDefault,
                Native.utf8(own.mergeOperator), own.ttlNanos, own.compressionNumber(),
                own.blockBytes, own.bitsPerKey, own.memtableBytes, own.splits));
    }

    /**
     * Opens a store for reading, also while another process writes it. It shows the present state
     * until {@link #catchUp} is called.
     *
     * @param path the folder
     * @return the store, to be closed
     */
    public static Db openReadOnly(Path path) {
        return new Db(path, Native.openReadOnly(Native.path(path)));
    }

    /**
     * Checks a checkpoint and copies it into a new folder.
     *
     * @param checkpoint the folder of the checkpoint
     * @param target the new folder
     */
    public static void restore(Path checkpoint, Path target) {
        Native.restore(Native.path(checkpoint), Native.path(target));
    }

    /** Makes later writes of the writing process visible, in a store of {@link #openReadOnly}. */
    public void catchUp() {
        Native.catchUp(this, id);
    }

    /**
     * The folder of the store.
     *
     * @return the folder
     */
    public Path path() {
        return path;
    }

    // Keyspaces.

    /**
     * Opens the keyspace with this name.
     *
     * @param name the name
     * @return the keyspace, to be closed
     * @throws VlsmException.NoSuchKeyspace if there is none
     */
    public Keyspace keyspace(String name) {
        return new Keyspace(this, Native.keyspace(this, id, Native.utf8(name)));
    }

    /**
     * Opens the keyspace with this name, or creates it.
     *
     * @param name the name
     * @return the keyspace, to be closed
     */
    public Keyspace createKeyspace(String name) {
        return createKeyspace(name, new KeyspaceOptions());
    }

    /**
     * Opens the keyspace with this name, or creates it with these options.
     *
     * @param name the name
     * @param options its options
     * @return the keyspace, to be closed
     * @throws VlsmException.KeyspaceExists if it exists with other options
     */
    public Keyspace createKeyspace(String name, KeyspaceOptions options) {
        return new Keyspace(this, Native.createKeyspace(this, id, Native.utf8(name),
                Native.utf8(options.mergeOperator), options.ttlNanos, options.compressionNumber(),
                options.blockBytes, options.bitsPerKey, options.memtableBytes, options.splits));
    }

    /**
     * Removes a keyspace and all its data. Its handles then throw {@link
     * VlsmException.KeyspaceDropped}.
     *
     * @param keyspace the keyspace
     */
    public void dropKeyspace(Keyspace keyspace) {
        Native.dropKeyspace(this, id, keyspace, keyspace.id);
    }

    /**
     * The names of all keyspaces.
     *
     * @return the names
     */
    public List<String> keyspaces() {
        return List.of(Native.keyspaces(this, id));
    }

    // Batches, snapshots, transactions.

    /**
     * Writes a batch atomically: all of it or nothing. The batch itself stays unchanged.
     *
     * @param batch the batch
     */
    public void write(WriteBatch batch) {
        write(batch, WriteOptions.DEFAULT);
    }

    /**
     * Writes a batch atomically: all of it or nothing. The batch itself stays unchanged.
     *
     * @param batch the batch
     * @param options how it is acknowledged
     */
    public void write(WriteBatch batch, WriteOptions options) {
        batch.writeTo(this, options);
    }

    /**
     * Takes a snapshot of the present state of all keyspaces.
     *
     * @return the snapshot, to be closed
     */
    public Snapshot snapshot() {
        return new Snapshot(this, Native.snapshot(this, id));
    }

    /**
     * Begins a transaction on the present state of the store.
     *
     * @return the transaction, to be committed or closed
     */
    public Transaction transaction() {
        return new Transaction(this, Native.transaction(this, id));
    }

    /**
     * Runs a function in a transaction and commits it. After a conflict the function runs again in
     * a new transaction, at most 100 times with growing pauses, so it should have no other effects.
     * If it throws, nothing is written.
     *
     * @param work the function
     * @param <T> the type of its result
     * @return its result
     */
    public <T> T transact(Function<Transaction, T> work) {
        return transact(WriteOptions.DEFAULT, work);
    }

    /**
     * Like {@link #transact(Function)}, with options for the commit.
     *
     * @param options how the commit is acknowledged
     * @param work the function
     * @param <T> the type of its result
     * @return its result
     */
    public <T> T transact(WriteOptions options, Function<Transaction, T> work) {
        Objects.requireNonNull(work, "work");
        var result = new Object() {
            T value;
        };
        Native.transact(this, id, lent -> {
            Transaction transaction = new Transaction(this, lent);
            try {
                result.value = work.apply(transaction);
            } finally {
                transaction.giveBack();
            }
        }, options.durabilityNumber(), options.deadlineNanos);
        return result.value;
    }

    // The store as a whole.

    /** Waits until all writes so far are on the device. */
    public void sync() {
        Native.sync(this, id);
    }

    /** Flushes all memtables and waits until that is done. */
    public void flush() {
        Native.flush(this, id);
    }

    /** Waits until nothing is left to flush or to compact. */
    public void waitIdle() {
        Native.waitIdle(this, id);
    }

    /**
     * Copies the present state of the store into a new folder. SSTs are hard links where the file
     * system supports them.
     *
     * @param target the new folder
     */
    public void checkpoint(Path target) {
        Native.checkpoint(this, id, Native.path(target));
    }

    /**
     * The counters of the store in the text format of Prometheus.
     *
     * @return the text
     */
    public String stats() {
        return Native.stats(this, id);
    }

    /**
     * The counters of the store as numbers. Their names are those in {@link #stats}, with labels in
     * braces.
     *
     * @return the counters
     */
    public Map<String, Double> metrics() {
        Map<String, Double> metrics = new LinkedHashMap<>();
        stats().lines().filter(line -> !line.isBlank() && !line.startsWith("#")).forEach(line -> {
            int space = line.lastIndexOf(' ');
            String number = line.substring(space + 1);
            metrics.put(line.substring(0, space), switch (number) {
                case "+Inf" -> Double.POSITIVE_INFINITY;
                case "-Inf" -> Double.NEGATIVE_INFINITY;
                default -> Double.parseDouble(number);
            });
        });
        return metrics;
    }

    /**
     * Whether the store was closed.
     *
     * @return whether it was
     */
    public boolean isClosed() {
        return Native.isClosed(this, id);
    }

    /**
     * Closes the store: all acknowledged writes are then in its files, and it may be opened again.
     * Calls in progress finish first, or throw {@link VlsmException.Closed}. A second call does
     * nothing. It throws if the last writes could not be made durable; the store is closed
     * nevertheless.
     */
    @Override
    public void close() {
        // The library releases the object itself, unless it refuses the call.
        Native.closeStore(this, id);
        super.close();
    }
}
