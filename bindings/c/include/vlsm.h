/*
 * vLSM: an embedded, ordered, durable key-value store without long write stalls.
 *
 * Generated from the sources of the library: do not edit.
 *
 * Rules for all functions
 *
 *   Errors      A function that can fail returns NULL on success, or an error that the caller must
 *               free with vlsm_error_free. Results are set on success, and cleared on failure.
 *   Handles     A handle that a function returns through a vlsm_...** belongs to the caller, who
 *               must free it once. Handles may be freed in any order: a store stays open until
 *               vlsm_close, or until its last handle is freed. Freeing NULL does nothing. Using a
 *               freed handle is undefined behaviour.
 *   Threads     Any number of threads may use a store, a keyspace or a snapshot at once. Only one
 *               thread at a time may use a batch, an iterator, a transaction, options or a file; it
 *               need not always be the same thread.
 *   Bytes       Keys and values are arbitrary bytes with a length. NULL is allowed if the length is
 *               0, and is an error otherwise. Names and paths end with a NUL byte; names are UTF-8.
 *               Arguments need not stay valid after a function returns.
 *   Callbacks   Any thread may call them, and several may do so at once. They must not use the
 *               store, throw, or leave by longjmp.
 *   fork        A child process cannot use the handles of its parent: each call returns
 *               VLSM_FORKED, and freeing them does nothing. It may open other stores.
 */

#ifndef VLSM_H
#define VLSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The header and the library must have the same version; vlsm_open checks that. */
#define vlsm_open(path, options, db) vlsm_open_abi(VLSM_ABI_VERSION, (path), (options), (db))

#if defined(__GNUC__) || defined(__clang__)
#define VLSM_MUST_USE __attribute__((warn_unused_result))
#else
#define VLSM_MUST_USE
#endif


/**
 * The version of this interface. It changes when programs compiled against an older header could
 * misbehave.
 */
#define VLSM_ABI_VERSION 1

/**
 * The kind of an error. Later versions may add some.
 */
typedef enum {
  /**
   * No error: the code of NULL.
   */
  VLSM_OK = 0,
  /**
   * The operating system refused an operation.
   */
  VLSM_IO = 1,
  /**
   * A file is damaged.
   */
  VLSM_CORRUPTION = 2,
  /**
   * The device is full. The store accepts writes again when there is space.
   */
  VLSM_NO_SPACE = 3,
  /**
   * An earlier failure made the store read-only until it is opened again.
   */
  VLSM_READ_ONLY = 4,
  /**
   * The store was opened read-only.
   */
  VLSM_OPENED_READ_ONLY = 5,
  /**
   * A reader beside the writing process cannot see a later state.
   */
  VLSM_CANNOT_FOLLOW = 6,
  /**
   * The store is already open, in this or another process.
   */
  VLSM_LOCKED = 7,
  /**
   * There is no store at the path.
   */
  VLSM_MISSING = 8,
  /**
   * The folder holds something that is not a store.
   */
  VLSM_NOT_A_STORE = 9,
  /**
   * There is already a store at the path.
   */
  VLSM_ALREADY_EXISTS = 10,
  /**
   * A file was written by a newer version of the library.
   */
  VLSM_FORMAT_VERSION = 11,
  /**
   * An option has an invalid value.
   */
  VLSM_INVALID_OPTION = 12,
  /**
   * An argument is invalid: NULL where that is not allowed, too long, not UTF-8, from another
   * store, or a handle that was already committed or finished.
   */
  VLSM_INVALID_ARGUMENT = 13,
  /**
   * There is no keyspace with this name.
   */
  VLSM_NO_SUCH_KEYSPACE = 14,
  /**
   * The keyspace of the handle was dropped.
   */
  VLSM_KEYSPACE_DROPPED = 15,
  /**
   * The keyspace exists with other options, its name is taken, or the option cannot be changed.
   */
  VLSM_KEYSPACE_EXISTS = 16,
  /**
   * A merge operator is unknown, refuses an operand, or cannot combine the operands of a key.
   */
  VLSM_MERGE = 17,
  /**
   * The deadline of the write passed; nothing was written.
   */
  VLSM_BUSY = 18,
  /**
   * A transaction conflicts with another write. Nothing was written; run it again.
   */
  VLSM_CONFLICT = 19,
  /**
   * The store was closed.
   */
  VLSM_CLOSED = 20,
  /**
   * A number of the store has reached its maximum. The store can still be read.
   */
  VLSM_USED_UP = 21,
  /**
   * An internal error: a bug of the library.
   */
  VLSM_INTERNAL = 22,
  /**
   * The program was compiled with the header of another version.
   */
  VLSM_ABI = 23,
  /**
   * The handle was made before a `fork`, by the parent process.
   */
  VLSM_FORKED = 24,
} vlsm_code;

/**
 * When a write returns.
 */
typedef enum {
  /**
   * As the store's option `durability` says, which is VLSM_BUFFERED by default.
   */
  VLSM_DEFAULT = 0,
  /**
   * When the WAL is on the device: the write survives power loss.
   */
  VLSM_SYNC = 1,
  /**
   * When the operating system has the WAL: the write survives a crash of the process.
   */
  VLSM_BUFFERED = 2,
  /**
   * When the write is in the process's buffer of the WAL, which is written with later writes.
   */
  VLSM_LAZY = 3,
  /**
   * Without the WAL: the write is durable once its memtable is flushed.
   */
  VLSM_NO_WAL = 4,
} vlsm_durability;

/**
 * The decision of a compaction filter about a value.
 */
typedef enum {
  /**
   * Keep the value. Every number that is not listed here means the same.
   */
  VLSM_KEEP = 0,
  /**
   * Remove the key.
   */
  VLSM_REMOVE = 1,
  /**
   * Replace the value with the bytes that were appended to `out`.
   */
  VLSM_CHANGE = 2,
} vlsm_decision;

/**
 * A batch.
 */
typedef struct vlsm_batch vlsm_batch;

/**
 * The bytes that a callback returns. The buffer belongs to the library and is valid only during
 * the call.
 */
typedef struct vlsm_buffer vlsm_buffer;

/**
 * An open store.
 */
typedef struct vlsm_db vlsm_db;

/**
 * An error. The caller frees it with vlsm_error_free.
 */
typedef struct vlsm_error vlsm_error;

/**
 * A file that is being written. If it is freed without vlsm_file_finish, the file is removed.
 */
typedef struct vlsm_file vlsm_file;

/**
 * An iterator. Until it is freed, it keeps the data that it shows on the disk, and the store open.
 */
typedef struct vlsm_iter vlsm_iter;

/**
 * A keyspace of an open store.
 */
typedef struct vlsm_keyspace vlsm_keyspace;

/**
 * Options of a keyspace. The caller frees them with vlsm_keyspace_options_free.
 */
typedef struct vlsm_keyspace_options vlsm_keyspace_options;

/**
 * A list of names. The caller frees it with vlsm_names_free.
 */
typedef struct vlsm_names vlsm_names;

/**
 * Options of a store. The caller frees them with vlsm_options_free, also after the store was
 * opened.
 */
typedef struct vlsm_options vlsm_options;

/**
 * A snapshot. Until it is freed, it keeps the data that it shows on the disk, and the store open.
 */
typedef struct vlsm_snapshot vlsm_snapshot;

/**
 * A transaction. After vlsm_transaction_commit it cannot be used any more, but still has to be
 * freed. A transaction that is freed without a commit writes nothing.
 */
typedef struct vlsm_transaction vlsm_transaction;

/**
 * Bytes that belong to the caller, or to a handle.
 */
typedef struct {
  /**
   * The first byte, or NULL.
   */
  const uint8_t *data;
  /**
   * The number of bytes.
   */
  size_t len;
} vlsm_slice;

/**
 * Options of one write. NULL, or zeros, mean the defaults of the store.
 */
typedef struct {
  /**
   * A vlsm_durability.
   */
  uint32_t durability;
  /**
   * The longest time, in microseconds, that the write may wait for admission. After it, the
   * write fails with VLSM_BUSY. 0 means no limit.
   */
  uint64_t deadline_micros;
} vlsm_write_options;

/**
 * Bytes that the library keeps until the caller frees them with vlsm_bytes_free. `data` is NULL if
 * there is no value, but never for an empty value.
 */
typedef struct {
  /**
   * The first byte, or NULL.
   */
  const uint8_t *data;
  /**
   * The number of bytes.
   */
  size_t len;
  /**
   * For the library only.
   */
  void *owner;
} vlsm_bytes;

/**
 * A merge operator. Its functions must always return the same result for the same arguments. An
 * operator that behaves differently needs another name.
 */
typedef struct {
  /**
   * The first argument of all functions.
   */
  void *state;
  /**
   * The name, which the store records. It is copied.
   */
  const char *name;
  /**
   * Returns false for an operand that `merge` could not combine; the write is then refused. NULL
   * accepts every operand.
   */
  bool (*check)(void *state, vlsm_slice key, vlsm_slice operand);
  /**
   * Applies operands, the oldest first, to the previous value, and appends the new value to
   * `out`. The data of the previous value is NULL if the key was absent. Returns false if they
   * cannot be combined: reads of the key then fail with VLSM_MERGE, and nothing is lost.
   */
  bool (*merge)(void *state,
                vlsm_slice key,
                vlsm_slice base,
                const vlsm_slice *operands,
                size_t count,
                vlsm_buffer *out);
  /**
   * Combines operands, the oldest first, into one with the same effect. Returns false if that is
   * impossible. NULL if it is always impossible.
   */
  bool (*merge_partial)(void *state,
                        vlsm_slice key,
                        const vlsm_slice *operands,
                        size_t count,
                        vlsm_buffer *out);
  /**
   * Frees the state. NULL if there is nothing to free.
   */
  void (*destroy)(void *state);
} vlsm_merge_operator;

/**
 * A compaction filter: it sees the newest value of a key when a flush or a compaction rewrites it
 * and no snapshot holds it.
 */
typedef struct {
  /**
   * The first argument of all functions.
   */
  void *state;
  /**
   * The name, for the log. It is copied.
   */
  const char *name;
  /**
   * Returns a vlsm_decision about a value that is about to be written into a level. Any other
   * number keeps the value.
   */
  uint32_t (*filter)(void *state, uint32_t level, vlsm_slice key, vlsm_slice value, vlsm_buffer *out);
  /**
   * Frees the state. NULL if there is nothing to free.
   */
  void (*destroy)(void *state);
} vlsm_compaction_filter;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The interface version of the loaded library.
 */
uint32_t vlsm_abi_version(void);

/**
 * The version of the library, as a text that must not be freed.
 */
const char *vlsm_version(void);

/**
 * Makes an empty batch.
 */
vlsm_batch *vlsm_batch_new(void);

/**
 * Frees a batch.
 */
void vlsm_batch_free(vlsm_batch *batch);

/**
 * Removes all writes of a batch.
 */
VLSM_MUST_USE vlsm_error *vlsm_batch_clear(vlsm_batch *batch);

/**
 * Adds a put.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_put(vlsm_batch *batch,
                           const vlsm_keyspace *keyspace,
                           const uint8_t *key,
                           size_t key_len,
                           const uint8_t *value,
                           size_t value_len);

/**
 * Adds a put of a value that expires `ttl_micros` microseconds after the write.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_put_with_ttl(vlsm_batch *batch,
                                    const vlsm_keyspace *keyspace,
                                    const uint8_t *key,
                                    size_t key_len,
                                    const uint8_t *value,
                                    size_t value_len,
                                    uint64_t ttl_micros);

/**
 * Adds an operand of the keyspace's merge operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_merge(vlsm_batch *batch,
                             const vlsm_keyspace *keyspace,
                             const uint8_t *key,
                             size_t key_len,
                             const uint8_t *operand,
                             size_t operand_len);

/**
 * Adds a delete.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_delete(vlsm_batch *batch,
                              const vlsm_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len);

/**
 * Adds a delete of all keys from `lo` (inclusive) to `hi` (exclusive). NULL means no limit.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_delete_range(vlsm_batch *batch,
                                    const vlsm_keyspace *keyspace,
                                    const vlsm_slice *lo,
                                    const vlsm_slice *hi);

/**
 * Writes a batch atomically: all of it or nothing. The batch itself stays unchanged.
 */
VLSM_MUST_USE
vlsm_error *vlsm_write(const vlsm_db *db,
                       const vlsm_batch *batch,
                       const vlsm_write_options *options);

/**
 * Frees bytes and clears the struct. Bytes that are already cleared are ignored.
 */
void vlsm_bytes_free(vlsm_bytes *bytes);

/**
 * The number of names.
 */
size_t vlsm_names_count(const vlsm_names *names);

/**
 * The name at an index from 0, or NULL beyond the last one. It belongs to the list.
 */
const char *vlsm_names_at(const vlsm_names *names, size_t index);

/**
 * Frees a list.
 */
void vlsm_names_free(vlsm_names *names);

/**
 * Appends to the bytes that a callback returns.
 */
VLSM_MUST_USE vlsm_error *vlsm_buffer_append(vlsm_buffer *buffer, const uint8_t *data, size_t len);

/**
 * Opens the store in a folder, with options or NULL for the defaults. Call it as vlsm_open, which
 * adds the version of the header.
 */
VLSM_MUST_USE
vlsm_error *vlsm_open_abi(uint32_t abi,
                          const char *folder,
                          const vlsm_options *options,
                          vlsm_db **db);

/**
 * Opens a store for reading, also while another process writes it. It shows the present state
 * until vlsm_catch_up is called.
 */
VLSM_MUST_USE vlsm_error *vlsm_open_beside(const char *folder, vlsm_db **db);

/**
 * Makes later writes of the writing process visible in a store that was opened by
 * vlsm_open_beside. After an error the store shows what it showed before.
 */
VLSM_MUST_USE vlsm_error *vlsm_catch_up(const vlsm_db *db);

/**
 * Closes a store: all acknowledged writes are then in its files, and another process may open it.
 * Calls on its other handles return VLSM_CLOSED. The handle still has to be freed. It returns an
 * error if the last writes could not be made durable; the store is closed nevertheless.
 */
VLSM_MUST_USE vlsm_error *vlsm_close(const vlsm_db *db);

/**
 * Frees the handle of a store. The store is closed with its last handle, but then errors are not
 * reported: call vlsm_close before.
 */
void vlsm_db_free(vlsm_db *db);

/**
 * Opens the keyspace with this name.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_open(const vlsm_db *db,
                               const char *name,
                               vlsm_keyspace **keyspace);

/**
 * Opens the keyspace with this name, or creates it with these options (NULL for the defaults). It
 * is an error if it exists with other options.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_create(const vlsm_db *db,
                                 const char *name,
                                 const vlsm_keyspace_options *options,
                                 vlsm_keyspace **keyspace);

/**
 * Opens the keyspace `default`, which every store has.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_default(const vlsm_db *db, vlsm_keyspace **keyspace);

/**
 * Removes a keyspace and all its data. Its handles still have to be freed.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_drop(const vlsm_db *db, const vlsm_keyspace *keyspace);

/**
 * Lists the names of all keyspaces. The caller frees the list with vlsm_names_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspaces(const vlsm_db *db, vlsm_names **names);

/**
 * Waits until all writes so far are on the device.
 */
VLSM_MUST_USE vlsm_error *vlsm_sync(const vlsm_db *db);

/**
 * Flushes all memtables and waits until that is done.
 */
VLSM_MUST_USE vlsm_error *vlsm_flush(const vlsm_db *db);

/**
 * Waits until nothing is left to flush or to compact.
 */
VLSM_MUST_USE vlsm_error *vlsm_wait_idle(const vlsm_db *db);

/**
 * Copies the present state of the store into a new folder. SSTs are hard links where the file
 * system supports them.
 */
VLSM_MUST_USE vlsm_error *vlsm_checkpoint(const vlsm_db *db, const char *target);

/**
 * Checks a checkpoint and copies it into a new folder.
 */
VLSM_MUST_USE vlsm_error *vlsm_restore(const char *checkpoint, const char *target);

/**
 * Returns the counters of the store in the text format of Prometheus, with a NUL byte after the
 * end. The caller frees the text with vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_stats(const vlsm_db *db, vlsm_bytes *text);

/**
 * The code of an error; VLSM_OK for NULL.
 */
vlsm_code vlsm_error_code(const vlsm_error *error);

/**
 * The text of an error: the problem, the file or option, and the remedy. It ends with a NUL byte,
 * belongs to the error, and contains no key or value. For NULL it is "".
 */
const char *vlsm_error_message(const vlsm_error *error);

/**
 * The name of the keyspace that an error concerns, or NULL. It belongs to the error.
 */
const char *vlsm_error_keyspace(const vlsm_error *error);

/**
 * Frees an error.
 */
void vlsm_error_free(vlsm_error *error);

/**
 * Creates a file for a keyspace, with its options. The file must not exist.
 */
VLSM_MUST_USE
vlsm_error *vlsm_file_new(const vlsm_keyspace *keyspace,
                          const char *file_path,
                          vlsm_file **file);

/**
 * Frees a file.
 */
void vlsm_file_free(vlsm_file *file);

/**
 * Adds a pair. Keys must ascend.
 */
VLSM_MUST_USE
vlsm_error *vlsm_file_put(vlsm_file *file,
                          const uint8_t *key,
                          size_t key_len,
                          const uint8_t *value,
                          size_t value_len);

/**
 * Finishes a file and syncs it to the device. It must have at least one pair.
 */
VLSM_MUST_USE vlsm_error *vlsm_file_finish(vlsm_file *file);

/**
 * Adds files to a keyspace, all of them or none. Their pairs replace older ones. Their key ranges
 * must not overlap. `move_files` adds them as hard links, where the file system supports them, and
 * removes the originals.
 */
VLSM_MUST_USE
vlsm_error *vlsm_ingest(const vlsm_keyspace *keyspace,
                        const char *const *paths,
                        size_t count,
                        bool move_files);

/**
 * Iterates over the keys from `lo` (inclusive) to `hi` (exclusive), in the present state or a
 * snapshot. A NULL limit means no limit, a NULL snapshot the present state.
 */
VLSM_MUST_USE
vlsm_error *vlsm_iter_new(const vlsm_keyspace *keyspace,
                          const vlsm_snapshot *snapshot,
                          const vlsm_slice *lo,
                          const vlsm_slice *hi,
                          vlsm_iter **iter);

/**
 * Iterates over the keys that begin with a prefix. Otherwise like vlsm_iter_new.
 */
VLSM_MUST_USE
vlsm_error *vlsm_iter_prefix(const vlsm_keyspace *keyspace,
                             const vlsm_snapshot *snapshot,
                             const uint8_t *prefix,
                             size_t prefix_len,
                             vlsm_iter **iter);

/**
 * Frees an iterator.
 */
void vlsm_iter_free(vlsm_iter *iter);

/**
 * Returns the next pair from the front. After the last pair the data of the key is NULL. Key and
 * value are valid until the next call on the iterator. After VLSM_MERGE the next call continues
 * with the next key; after any other error it returns the error again, or the end.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_next(vlsm_iter *iter, vlsm_slice *key, vlsm_slice *value);

/**
 * Returns the next pair from the back. Otherwise like vlsm_iter_next.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_next_back(vlsm_iter *iter, vlsm_slice *key, vlsm_slice *value);

/**
 * Moves the front to the first pair at or after a key, forwards or backwards, within the range.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_seek(vlsm_iter *iter, const uint8_t *key, size_t key_len);

/**
 * Frees the handle of a keyspace. The keyspace stays in the store.
 */
void vlsm_keyspace_free(vlsm_keyspace *keyspace);

/**
 * Returns the name of a keyspace, with a NUL byte after the end. The caller frees it with
 * vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_name(const vlsm_keyspace *keyspace, vlsm_bytes *name);

/**
 * Renames a keyspace.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_rename(const vlsm_keyspace *keyspace, const char *name);

/**
 * Changes the options of a keyspace, except its splits and its merge operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_set_options(const vlsm_keyspace *keyspace,
                                      const vlsm_keyspace_options *options);

/**
 * Removes all data of a keyspace, at the cost of one record.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_clear(const vlsm_keyspace *keyspace);

/**
 * Sets a key to a value. The key has at most 65,536 bytes, the value at most 2^30.
 */
VLSM_MUST_USE
vlsm_error *vlsm_put(const vlsm_keyspace *keyspace,
                     const uint8_t *key,
                     size_t key_len,
                     const uint8_t *value,
                     size_t value_len,
                     const vlsm_write_options *options);

/**
 * Sets a key to a value that expires after `ttl_micros` microseconds.
 */
VLSM_MUST_USE
vlsm_error *vlsm_put_with_ttl(const vlsm_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len,
                              const uint8_t *value,
                              size_t value_len,
                              uint64_t ttl_micros,
                              const vlsm_write_options *options);

/**
 * Removes a key. An absent key is no error.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete(const vlsm_keyspace *keyspace,
                        const uint8_t *key,
                        size_t key_len,
                        const vlsm_write_options *options);

/**
 * Removes all keys from `lo` (inclusive) to `hi` (exclusive); NULL means no limit. It costs one
 * write for each region.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete_range(const vlsm_keyspace *keyspace,
                              const vlsm_slice *lo,
                              const vlsm_slice *hi,
                              const vlsm_write_options *options);

/**
 * Writes an operand of the keyspace's merge operator, which changes the value without reading it.
 */
VLSM_MUST_USE
vlsm_error *vlsm_merge(const vlsm_keyspace *keyspace,
                       const uint8_t *key,
                       size_t key_len,
                       const uint8_t *operand,
                       size_t operand_len,
                       const vlsm_write_options *options);

/**
 * Reads the value of a key, in the present state (NULL) or a snapshot. Its data is NULL if the key
 * is absent. The value is not copied; the caller frees it with vlsm_bytes_free.
 */
VLSM_MUST_USE
vlsm_error *vlsm_get(const vlsm_keyspace *keyspace,
                     const vlsm_snapshot *snapshot,
                     const uint8_t *key,
                     size_t key_len,
                     vlsm_bytes *value);

/**
 * Reads the values of many keys as of one moment, in one round. `values` must have room for
 * `count` values; the caller frees each with vlsm_bytes_free. After an error all of them are
 * cleared.
 */
VLSM_MUST_USE
vlsm_error *vlsm_multi_get(const vlsm_keyspace *keyspace,
                           const vlsm_snapshot *snapshot,
                           const vlsm_slice *keys,
                           size_t count,
                           vlsm_bytes *values);

/**
 * Sets a key to a value if it has the expected one. NULL stands for an absent key, in `expected`
 * and in `new_value`. `*done` says whether the value was as expected; if not, nothing is written.
 */
VLSM_MUST_USE
vlsm_error *vlsm_compare_and_swap(const vlsm_keyspace *keyspace,
                                  const uint8_t *key,
                                  size_t key_len,
                                  const vlsm_slice *expected,
                                  const vlsm_slice *new_value,
                                  const vlsm_write_options *options,
                                  bool *done);

/**
 * Compacts a range of keys down to the last level and waits until that is done. The limits are
 * those of vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_compact_range(const vlsm_keyspace *keyspace,
                               const vlsm_slice *lo,
                               const vlsm_slice *hi);

/**
 * Estimates the bytes and the number of entries in a range of keys. The limits are those of
 * vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_approximate_size(const vlsm_keyspace *keyspace,
                                  const vlsm_slice *lo,
                                  const vlsm_slice *hi,
                                  uint64_t *size,
                                  uint64_t *entries);

/**
 * Makes options with the library's defaults.
 */
vlsm_options *vlsm_options_new(void);

/**
 * Frees options.
 */
void vlsm_options_free(vlsm_options *options);

/**
 * Replaces all options with those of a text in TOML; options that are not in the text get their
 * defaults. The page docs/mechanisms.md lists them. An error names the line, and then nothing is
 * changed.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_toml(vlsm_options *options, const char *toml);

/**
 * Chooses a profile by name: `steady` is the default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_profile(vlsm_options *options, const char *name);

/**
 * Sets whether a store that does not exist is created; true by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_create_if_missing(vlsm_options *options, bool create);

/**
 * Sets whether it is an error if the store exists; false by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_error_if_exists(vlsm_options *options, bool error);

/**
 * Sets whether the store is opened read-only. To read a store that another process writes, use
 * vlsm_open_beside.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_read_only(vlsm_options *options, bool read_only);

/**
 * Sets whether keyspaces may be opened without their merge operator. Their operands are kept, but
 * keys with operands cannot be read.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_keep_unknown_operators(vlsm_options *options, bool keep);

/**
 * Registers a merge operator. The struct is copied. `destroy` is called once, when neither these
 * options nor a store needs the state any more, or at once if this call fails.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_merge_operator(vlsm_options *options,
                                        const vlsm_merge_operator *operator_);

/**
 * Registers the compaction filter of a keyspace. Otherwise like vlsm_options_merge_operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_compaction_filter(vlsm_options *options,
                                           const char *keyspace,
                                           const vlsm_compaction_filter *filter);

/**
 * Sets the options with which the keyspace `default` is created. They are copied.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_default_keyspace(vlsm_options *options,
                                          const vlsm_keyspace_options *keyspace);

/**
 * Makes options of a keyspace, which are at first those of the store.
 */
vlsm_keyspace_options *vlsm_keyspace_options_new(void);

/**
 * Frees options of a keyspace.
 */
void vlsm_keyspace_options_free(vlsm_keyspace_options *options);

/**
 * Sets the merge operator by its name: `append`, `add`, `max`, or a registered one. It cannot be
 * changed later.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_merge_operator(vlsm_keyspace_options *options,
                                                 const char *name);

/**
 * Sets the time, in microseconds, after which values expire.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_ttl(vlsm_keyspace_options *options,
                                      uint64_t micros);

/**
 * Sets the size of a block before compression, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_block_bytes(vlsm_keyspace_options *options,
                                              uint64_t bytes);

/**
 * Sets the filter bits per key; 0 for no filters.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_bits_per_key(vlsm_keyspace_options *options,
                                               uint32_t bits);

/**
 * Sets the size of a memtable, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_memtable_bytes(vlsm_keyspace_options *options,
                                                 uint64_t bytes);

/**
 * Sets the compression of all levels by its name: `none`, `lz4` or `zstd`.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_compression(vlsm_keyspace_options *options,
                                              const char *name);

/**
 * Sets the keys at which the keyspace is split into regions, each with a tree of its own. They
 * cannot be changed later.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_splits(vlsm_keyspace_options *options,
                                         const vlsm_slice *keys,
                                         size_t count);

/**
 * Takes a snapshot of the present state of the store.
 */
VLSM_MUST_USE vlsm_error *vlsm_snapshot_new(const vlsm_db *db, vlsm_snapshot **snapshot);

/**
 * Frees a snapshot.
 */
void vlsm_snapshot_free(vlsm_snapshot *snapshot);

/**
 * Begins a transaction on the present state of the store.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_new(const vlsm_db *db, vlsm_transaction **transaction);

/**
 * Frees a transaction. If it was not committed, none of its writes take effect.
 */
void vlsm_transaction_free(vlsm_transaction *transaction);

/**
 * Reads a key as the transaction has written it, or else as of the begin of the transaction.
 * Otherwise like vlsm_get.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_get(vlsm_transaction *transaction,
                                 const vlsm_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 vlsm_bytes *value);

/**
 * Iterates over a range with the transaction's writes so far. The part of the range that was
 * iterated over counts as read. Otherwise like vlsm_iter_new.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_iter(vlsm_transaction *transaction,
                                  const vlsm_keyspace *keyspace,
                                  const vlsm_slice *lo,
                                  const vlsm_slice *hi,
                                  vlsm_iter **iter);

/**
 * Sets a key to a value.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_put(vlsm_transaction *transaction,
                                 const vlsm_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 const uint8_t *value,
                                 size_t value_len);

/**
 * Sets a key to a value that expires `ttl_micros` microseconds from now.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_put_with_ttl(vlsm_transaction *transaction,
                                          const vlsm_keyspace *keyspace,
                                          const uint8_t *key,
                                          size_t key_len,
                                          const uint8_t *value,
                                          size_t value_len,
                                          uint64_t ttl_micros);

/**
 * Writes an operand of the merge operator, which changes the value without reading it.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_merge(vlsm_transaction *transaction,
                                   const vlsm_keyspace *keyspace,
                                   const uint8_t *key,
                                   size_t key_len,
                                   const uint8_t *operand,
                                   size_t operand_len);

/**
 * Removes a key.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_delete(vlsm_transaction *transaction,
                                    const vlsm_keyspace *keyspace,
                                    const uint8_t *key,
                                    size_t key_len);

/**
 * Removes a range of keys. The limits are those of vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_delete_range(vlsm_transaction *transaction,
                                          const vlsm_keyspace *keyspace,
                                          const vlsm_slice *lo,
                                          const vlsm_slice *hi);

/**
 * Sets a savepoint after the writes so far. Savepoints may be nested.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_savepoint(vlsm_transaction *transaction);

/**
 * Undoes the writes since the last savepoint, and removes it.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback_to_savepoint(vlsm_transaction *transaction);

/**
 * Undoes all writes.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback(vlsm_transaction *transaction);

/**
 * Commits a transaction. It fails with VLSM_CONFLICT if data that it read was changed. Then
 * nothing is written, and a new transaction can repeat the work.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_commit(vlsm_transaction *transaction,
                                    const vlsm_write_options *options);

/**
 * The code of an error; VLSM_OK for NULL.
 */
vlsm_code vlsm_error_code(const vlsm_error *error);

/**
 * The text of an error: the problem, the file or option, and the remedy. It ends with a NUL byte,
 * belongs to the error, and contains no key or value. For NULL it is "".
 */
const char *vlsm_error_message(const vlsm_error *error);

/**
 * The name of the keyspace that an error concerns, or NULL. It belongs to the error.
 */
const char *vlsm_error_keyspace(const vlsm_error *error);

/**
 * Frees an error.
 */
void vlsm_error_free(vlsm_error *error);

/**
 * Frees bytes and clears the struct. Bytes that are already cleared are ignored.
 */
void vlsm_bytes_free(vlsm_bytes *bytes);

/**
 * The number of names.
 */
size_t vlsm_names_count(const vlsm_names *names);

/**
 * The name at an index from 0, or NULL beyond the last one. It belongs to the list.
 */
const char *vlsm_names_at(const vlsm_names *names, size_t index);

/**
 * Frees a list.
 */
void vlsm_names_free(vlsm_names *names);

/**
 * Appends to the bytes that a callback returns.
 */
VLSM_MUST_USE vlsm_error *vlsm_buffer_append(vlsm_buffer *buffer, const uint8_t *data, size_t len);

/**
 * Makes options with the library's defaults.
 */
vlsm_options *vlsm_options_new(void);

/**
 * Frees options.
 */
void vlsm_options_free(vlsm_options *options);

/**
 * Replaces all options with those of a text in TOML; options that are not in the text get their
 * defaults. The page docs/mechanisms.md lists them. An error names the line, and then nothing is
 * changed.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_toml(vlsm_options *options, const char *toml);

/**
 * Chooses a profile by name: `steady` is the default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_profile(vlsm_options *options, const char *name);

/**
 * Sets whether a store that does not exist is created; true by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_create_if_missing(vlsm_options *options, bool create);

/**
 * Sets whether it is an error if the store exists; false by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_error_if_exists(vlsm_options *options, bool error);

/**
 * Sets whether the store is opened read-only. To read a store that another process writes, use
 * vlsm_open_beside.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_read_only(vlsm_options *options, bool read_only);

/**
 * Sets whether keyspaces may be opened without their merge operator. Their operands are kept, but
 * keys with operands cannot be read.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_keep_unknown_operators(vlsm_options *options, bool keep);

/**
 * Registers a merge operator. The struct is copied. `destroy` is called once, when neither these
 * options nor a store needs the state any more, or at once if this call fails.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_merge_operator(vlsm_options *options,
                                        const vlsm_merge_operator *operator_);

/**
 * Registers the compaction filter of a keyspace. Otherwise like vlsm_options_merge_operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_compaction_filter(vlsm_options *options,
                                           const char *keyspace,
                                           const vlsm_compaction_filter *filter);

/**
 * Sets the options with which the keyspace `default` is created. They are copied.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_default_keyspace(vlsm_options *options,
                                          const vlsm_keyspace_options *keyspace);

/**
 * Makes options of a keyspace, which are at first those of the store.
 */
vlsm_keyspace_options *vlsm_keyspace_options_new(void);

/**
 * Frees options of a keyspace.
 */
void vlsm_keyspace_options_free(vlsm_keyspace_options *options);

/**
 * Sets the merge operator by its name: `append`, `add`, `max`, or a registered one. It cannot be
 * changed later.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_merge_operator(vlsm_keyspace_options *options,
                                                 const char *name);

/**
 * Sets the time, in microseconds, after which values expire.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_ttl(vlsm_keyspace_options *options,
                                      uint64_t micros);

/**
 * Sets the size of a block before compression, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_block_bytes(vlsm_keyspace_options *options,
                                              uint64_t bytes);

/**
 * Sets the filter bits per key; 0 for no filters.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_bits_per_key(vlsm_keyspace_options *options,
                                               uint32_t bits);

/**
 * Sets the size of a memtable, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_memtable_bytes(vlsm_keyspace_options *options,
                                                 uint64_t bytes);

/**
 * Sets the compression of all levels by its name: `none`, `lz4` or `zstd`.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_compression(vlsm_keyspace_options *options,
                                              const char *name);

/**
 * Sets the keys at which the keyspace is split into regions, each with a tree of its own. They
 * cannot be changed later.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_splits(vlsm_keyspace_options *options,
                                         const vlsm_slice *keys,
                                         size_t count);

/**
 * Opens the store in a folder, with options or NULL for the defaults. Call it as vlsm_open, which
 * adds the version of the header.
 */
VLSM_MUST_USE
vlsm_error *vlsm_open_abi(uint32_t abi,
                          const char *folder,
                          const vlsm_options *options,
                          vlsm_db **db);

/**
 * Opens a store for reading, also while another process writes it. It shows the present state
 * until vlsm_catch_up is called.
 */
VLSM_MUST_USE vlsm_error *vlsm_open_beside(const char *folder, vlsm_db **db);

/**
 * Makes later writes of the writing process visible in a store that was opened by
 * vlsm_open_beside. After an error the store shows what it showed before.
 */
VLSM_MUST_USE vlsm_error *vlsm_catch_up(const vlsm_db *db);

/**
 * Closes a store: all acknowledged writes are then in its files, and another process may open it.
 * Calls on its other handles return VLSM_CLOSED. The handle still has to be freed. It returns an
 * error if the last writes could not be made durable; the store is closed nevertheless.
 */
VLSM_MUST_USE vlsm_error *vlsm_close(const vlsm_db *db);

/**
 * Frees the handle of a store. The store is closed with its last handle, but then errors are not
 * reported: call vlsm_close before.
 */
void vlsm_db_free(vlsm_db *db);

/**
 * Opens the keyspace with this name.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_open(const vlsm_db *db,
                               const char *name,
                               vlsm_keyspace **keyspace);

/**
 * Opens the keyspace with this name, or creates it with these options (NULL for the defaults). It
 * is an error if it exists with other options.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_create(const vlsm_db *db,
                                 const char *name,
                                 const vlsm_keyspace_options *options,
                                 vlsm_keyspace **keyspace);

/**
 * Opens the keyspace `default`, which every store has.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_default(const vlsm_db *db, vlsm_keyspace **keyspace);

/**
 * Removes a keyspace and all its data. Its handles still have to be freed.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_drop(const vlsm_db *db, const vlsm_keyspace *keyspace);

/**
 * Lists the names of all keyspaces. The caller frees the list with vlsm_names_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspaces(const vlsm_db *db, vlsm_names **names);

/**
 * Waits until all writes so far are on the device.
 */
VLSM_MUST_USE vlsm_error *vlsm_sync(const vlsm_db *db);

/**
 * Flushes all memtables and waits until that is done.
 */
VLSM_MUST_USE vlsm_error *vlsm_flush(const vlsm_db *db);

/**
 * Waits until nothing is left to flush or to compact.
 */
VLSM_MUST_USE vlsm_error *vlsm_wait_idle(const vlsm_db *db);

/**
 * Copies the present state of the store into a new folder. SSTs are hard links where the file
 * system supports them.
 */
VLSM_MUST_USE vlsm_error *vlsm_checkpoint(const vlsm_db *db, const char *target);

/**
 * Checks a checkpoint and copies it into a new folder.
 */
VLSM_MUST_USE vlsm_error *vlsm_restore(const char *checkpoint, const char *target);

/**
 * Returns the counters of the store in the text format of Prometheus, with a NUL byte after the
 * end. The caller frees the text with vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_stats(const vlsm_db *db, vlsm_bytes *text);

/**
 * Frees the handle of a keyspace. The keyspace stays in the store.
 */
void vlsm_keyspace_free(vlsm_keyspace *keyspace);

/**
 * Returns the name of a keyspace, with a NUL byte after the end. The caller frees it with
 * vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_name(const vlsm_keyspace *keyspace, vlsm_bytes *name);

/**
 * Renames a keyspace.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_rename(const vlsm_keyspace *keyspace, const char *name);

/**
 * Changes the options of a keyspace, except its splits and its merge operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_set_options(const vlsm_keyspace *keyspace,
                                      const vlsm_keyspace_options *options);

/**
 * Removes all data of a keyspace, at the cost of one record.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_clear(const vlsm_keyspace *keyspace);

/**
 * Sets a key to a value. The key has at most 65,536 bytes, the value at most 2^30.
 */
VLSM_MUST_USE
vlsm_error *vlsm_put(const vlsm_keyspace *keyspace,
                     const uint8_t *key,
                     size_t key_len,
                     const uint8_t *value,
                     size_t value_len,
                     const vlsm_write_options *options);

/**
 * Sets a key to a value that expires after `ttl_micros` microseconds.
 */
VLSM_MUST_USE
vlsm_error *vlsm_put_with_ttl(const vlsm_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len,
                              const uint8_t *value,
                              size_t value_len,
                              uint64_t ttl_micros,
                              const vlsm_write_options *options);

/**
 * Removes a key. An absent key is no error.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete(const vlsm_keyspace *keyspace,
                        const uint8_t *key,
                        size_t key_len,
                        const vlsm_write_options *options);

/**
 * Removes all keys from `lo` (inclusive) to `hi` (exclusive); NULL means no limit. It costs one
 * write for each region.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete_range(const vlsm_keyspace *keyspace,
                              const vlsm_slice *lo,
                              const vlsm_slice *hi,
                              const vlsm_write_options *options);

/**
 * Writes an operand of the keyspace's merge operator, which changes the value without reading it.
 */
VLSM_MUST_USE
vlsm_error *vlsm_merge(const vlsm_keyspace *keyspace,
                       const uint8_t *key,
                       size_t key_len,
                       const uint8_t *operand,
                       size_t operand_len,
                       const vlsm_write_options *options);

/**
 * Reads the value of a key, in the present state (NULL) or a snapshot. Its data is NULL if the key
 * is absent. The value is not copied; the caller frees it with vlsm_bytes_free.
 */
VLSM_MUST_USE
vlsm_error *vlsm_get(const vlsm_keyspace *keyspace,
                     const vlsm_snapshot *snapshot,
                     const uint8_t *key,
                     size_t key_len,
                     vlsm_bytes *value);

/**
 * Reads the values of many keys as of one moment, in one round. `values` must have room for
 * `count` values; the caller frees each with vlsm_bytes_free. After an error all of them are
 * cleared.
 */
VLSM_MUST_USE
vlsm_error *vlsm_multi_get(const vlsm_keyspace *keyspace,
                           const vlsm_snapshot *snapshot,
                           const vlsm_slice *keys,
                           size_t count,
                           vlsm_bytes *values);

/**
 * Sets a key to a value if it has the expected one. NULL stands for an absent key, in `expected`
 * and in `new_value`. `*done` says whether the value was as expected; if not, nothing is written.
 */
VLSM_MUST_USE
vlsm_error *vlsm_compare_and_swap(const vlsm_keyspace *keyspace,
                                  const uint8_t *key,
                                  size_t key_len,
                                  const vlsm_slice *expected,
                                  const vlsm_slice *new_value,
                                  const vlsm_write_options *options,
                                  bool *done);

/**
 * Compacts a range of keys down to the last level and waits until that is done. The limits are
 * those of vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_compact_range(const vlsm_keyspace *keyspace,
                               const vlsm_slice *lo,
                               const vlsm_slice *hi);

/**
 * Estimates the bytes and the number of entries in a range of keys. The limits are those of
 * vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_approximate_size(const vlsm_keyspace *keyspace,
                                  const vlsm_slice *lo,
                                  const vlsm_slice *hi,
                                  uint64_t *size,
                                  uint64_t *entries);

/**
 * Takes a snapshot of the present state of the store.
 */
VLSM_MUST_USE vlsm_error *vlsm_snapshot_new(const vlsm_db *db, vlsm_snapshot **snapshot);

/**
 * Frees a snapshot.
 */
void vlsm_snapshot_free(vlsm_snapshot *snapshot);

/**
 * Iterates over the keys from `lo` (inclusive) to `hi` (exclusive), in the present state or a
 * snapshot. A NULL limit means no limit, a NULL snapshot the present state.
 */
VLSM_MUST_USE
vlsm_error *vlsm_iter_new(const vlsm_keyspace *keyspace,
                          const vlsm_snapshot *snapshot,
                          const vlsm_slice *lo,
                          const vlsm_slice *hi,
                          vlsm_iter **iter);

/**
 * Iterates over the keys that begin with a prefix. Otherwise like vlsm_iter_new.
 */
VLSM_MUST_USE
vlsm_error *vlsm_iter_prefix(const vlsm_keyspace *keyspace,
                             const vlsm_snapshot *snapshot,
                             const uint8_t *prefix,
                             size_t prefix_len,
                             vlsm_iter **iter);

/**
 * Frees an iterator.
 */
void vlsm_iter_free(vlsm_iter *iter);

/**
 * Returns the next pair from the front. After the last pair the data of the key is NULL. Key and
 * value are valid until the next call on the iterator. After VLSM_MERGE the next call continues
 * with the next key; after any other error it returns the error again, or the end.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_next(vlsm_iter *iter, vlsm_slice *key, vlsm_slice *value);

/**
 * Returns the next pair from the back. Otherwise like vlsm_iter_next.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_next_back(vlsm_iter *iter, vlsm_slice *key, vlsm_slice *value);

/**
 * Moves the front to the first pair at or after a key, forwards or backwards, within the range.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_seek(vlsm_iter *iter, const uint8_t *key, size_t key_len);

/**
 * Makes an empty batch.
 */
vlsm_batch *vlsm_batch_new(void);

/**
 * Frees a batch.
 */
void vlsm_batch_free(vlsm_batch *batch);

/**
 * Removes all writes of a batch.
 */
VLSM_MUST_USE vlsm_error *vlsm_batch_clear(vlsm_batch *batch);

/**
 * Adds a put.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_put(vlsm_batch *batch,
                           const vlsm_keyspace *keyspace,
                           const uint8_t *key,
                           size_t key_len,
                           const uint8_t *value,
                           size_t value_len);

/**
 * Adds a put of a value that expires `ttl_micros` microseconds after the write.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_put_with_ttl(vlsm_batch *batch,
                                    const vlsm_keyspace *keyspace,
                                    const uint8_t *key,
                                    size_t key_len,
                                    const uint8_t *value,
                                    size_t value_len,
                                    uint64_t ttl_micros);

/**
 * Adds an operand of the keyspace's merge operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_merge(vlsm_batch *batch,
                             const vlsm_keyspace *keyspace,
                             const uint8_t *key,
                             size_t key_len,
                             const uint8_t *operand,
                             size_t operand_len);

/**
 * Adds a delete.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_delete(vlsm_batch *batch,
                              const vlsm_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len);

/**
 * Adds a delete of all keys from `lo` (inclusive) to `hi` (exclusive). NULL means no limit.
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_delete_range(vlsm_batch *batch,
                                    const vlsm_keyspace *keyspace,
                                    const vlsm_slice *lo,
                                    const vlsm_slice *hi);

/**
 * Writes a batch atomically: all of it or nothing. The batch itself stays unchanged.
 */
VLSM_MUST_USE
vlsm_error *vlsm_write(const vlsm_db *db,
                       const vlsm_batch *batch,
                       const vlsm_write_options *options);

/**
 * Begins a transaction on the present state of the store.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_new(const vlsm_db *db, vlsm_transaction **transaction);

/**
 * Frees a transaction. If it was not committed, none of its writes take effect.
 */
void vlsm_transaction_free(vlsm_transaction *transaction);

/**
 * Reads a key as the transaction has written it, or else as of the begin of the transaction.
 * Otherwise like vlsm_get.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_get(vlsm_transaction *transaction,
                                 const vlsm_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 vlsm_bytes *value);

/**
 * Iterates over a range with the transaction's writes so far. The part of the range that was
 * iterated over counts as read. Otherwise like vlsm_iter_new.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_iter(vlsm_transaction *transaction,
                                  const vlsm_keyspace *keyspace,
                                  const vlsm_slice *lo,
                                  const vlsm_slice *hi,
                                  vlsm_iter **iter);

/**
 * Sets a key to a value.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_put(vlsm_transaction *transaction,
                                 const vlsm_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 const uint8_t *value,
                                 size_t value_len);

/**
 * Sets a key to a value that expires `ttl_micros` microseconds from now.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_put_with_ttl(vlsm_transaction *transaction,
                                          const vlsm_keyspace *keyspace,
                                          const uint8_t *key,
                                          size_t key_len,
                                          const uint8_t *value,
                                          size_t value_len,
                                          uint64_t ttl_micros);

/**
 * Writes an operand of the merge operator, which changes the value without reading it.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_merge(vlsm_transaction *transaction,
                                   const vlsm_keyspace *keyspace,
                                   const uint8_t *key,
                                   size_t key_len,
                                   const uint8_t *operand,
                                   size_t operand_len);

/**
 * Removes a key.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_delete(vlsm_transaction *transaction,
                                    const vlsm_keyspace *keyspace,
                                    const uint8_t *key,
                                    size_t key_len);

/**
 * Removes a range of keys. The limits are those of vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_delete_range(vlsm_transaction *transaction,
                                          const vlsm_keyspace *keyspace,
                                          const vlsm_slice *lo,
                                          const vlsm_slice *hi);

/**
 * Sets a savepoint after the writes so far. Savepoints may be nested.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_savepoint(vlsm_transaction *transaction);

/**
 * Undoes the writes since the last savepoint, and removes it.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback_to_savepoint(vlsm_transaction *transaction);

/**
 * Undoes all writes.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback(vlsm_transaction *transaction);

/**
 * Commits a transaction. It fails with VLSM_CONFLICT if data that it read was changed. Then
 * nothing is written, and a new transaction can repeat the work.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_commit(vlsm_transaction *transaction,
                                    const vlsm_write_options *options);

/**
 * Creates a file for a keyspace, with its options. The file must not exist.
 */
VLSM_MUST_USE
vlsm_error *vlsm_file_new(const vlsm_keyspace *keyspace,
                          const char *file_path,
                          vlsm_file **file);

/**
 * Frees a file.
 */
void vlsm_file_free(vlsm_file *file);

/**
 * Adds a pair. Keys must ascend.
 */
VLSM_MUST_USE
vlsm_error *vlsm_file_put(vlsm_file *file,
                          const uint8_t *key,
                          size_t key_len,
                          const uint8_t *value,
                          size_t value_len);

/**
 * Finishes a file and syncs it to the device. It must have at least one pair.
 */
VLSM_MUST_USE vlsm_error *vlsm_file_finish(vlsm_file *file);

/**
 * Adds files to a keyspace, all of them or none. Their pairs replace older ones. Their key ranges
 * must not overlap. `move_files` adds them as hard links, where the file system supports them, and
 * removes the originals.
 */
VLSM_MUST_USE
vlsm_error *vlsm_ingest(const vlsm_keyspace *keyspace,
                        const char *const *paths,
                        size_t count,
                        bool move_files);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VLSM_H */
