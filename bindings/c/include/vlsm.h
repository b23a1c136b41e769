/*
 * vLSM: an embedded, ordered, durable key-value store without long write stalls.
 *
 * Made from the sources of the library: do not change it by hand.
 *
 * Rules for all functions
 *
 *   Errors      A function that can fail returns NULL, or an error that the caller must free
 *               (vlsm_error_free). Results are set only on success, and cleared otherwise.
 *   Handles     What a function gives through a vlsm_...** belongs to the caller, who frees it
 *               once, in any order: a store stays open until vlsm_close, or until its last handle is
 *               freed. Freeing NULL does nothing. Using a freed handle is undefined.
 *   Threads     Stores, keyspaces and snapshots may be used by any number of threads at once. A
 *               batch, an iterator, a transaction, options or a file may be used by one thread at a
 *               time, not always the same one.
 *   Bytes       Keys and values are any bytes, with their length. NULL stands for no bytes if the
 *               length is 0, and is an error otherwise. Names and paths end with a NUL byte; names
 *               are UTF-8. Arguments are copied or no longer needed when a function returns.
 *   Callbacks   They are called by any thread, several at once, must not use the store, must not
 *               throw, and must not leave by longjmp.
 *   fork        A child process cannot use the handles of its parent: each call returns
 *               VLSM_FORKED, and freeing them does nothing. It may open other stores.
 */

#ifndef VLSM_H
#define VLSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The header and the library must agree; vlsm_open checks that. */
#define vlsm_open(path, options, db) vlsm_open_abi(VLSM_ABI_VERSION, (path), (options), (db))

#if defined(__GNUC__) || defined(__clang__)
#define VLSM_MUST_USE __attribute__((warn_unused_result))
#else
#define VLSM_MUST_USE
#endif


/**
 * The version of this interface: it changes when a program that was compiled against an older
 * header could go wrong.
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
   * The device is full; the store goes on when there is space.
   */
  VLSM_NO_SPACE = 3,
  /**
   * An earlier failure made the store read-only until it is opened again.
   */
  VLSM_READ_ONLY = 4,
  /**
   * The store was opened to read only.
   */
  VLSM_OPENED_READ_ONLY = 5,
  /**
   * A reader beside the writing process cannot see a later state.
   */
  VLSM_CANNOT_FOLLOW = 6,
  /**
   * The store is open already, here or in another process.
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
   * There is a store at the path already.
   */
  VLSM_ALREADY_EXISTS = 10,
  /**
   * A file was written by a newer version of the library.
   */
  VLSM_FORMAT_VERSION = 11,
  /**
   * An option has an impossible value.
   */
  VLSM_INVALID_OPTION = 12,
  /**
   * An argument is impossible: NULL where that is not allowed, too long, no UTF-8, of another
   * store, or a handle that was committed or finished.
   */
  VLSM_INVALID_ARGUMENT = 13,
  /**
   * There is no keyspace of this name.
   */
  VLSM_NO_SUCH_KEYSPACE = 14,
  /**
   * The keyspace of the handle was dropped.
   */
  VLSM_KEYSPACE_DROPPED = 15,
  /**
   * The keyspace exists with other options, its name is taken, or it cannot be changed so.
   */
  VLSM_KEYSPACE_EXISTS = 16,
  /**
   * A merge operator is not known, refuses an operand, or cannot combine a key's operands.
   */
  VLSM_MERGE = 17,
  /**
   * The deadline of the write passed; nothing was written.
   */
  VLSM_BUSY = 18,
  /**
   * A transaction met another write; nothing was written, and it can be run again.
   */
  VLSM_CONFLICT = 19,
  /**
   * The store was closed.
   */
  VLSM_CLOSED = 20,
  /**
   * A number of the store is used up; it can be read.
   */
  VLSM_USED_UP = 21,
  /**
   * An impossible state, which is a bug of the library.
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
   * As the store's option `durability` says: VLSM_BUFFERED, if nobody has set it.
   */
  VLSM_DEFAULT = 0,
  /**
   * When it is on the device: it survives a loss of power.
   */
  VLSM_SYNC = 1,
  /**
   * When the kernel has it: it survives a crash of the process.
   */
  VLSM_BUFFERED = 2,
  /**
   * When it is in the process's buffer, which is written with later writes.
   */
  VLSM_LAZY = 3,
  /**
   * Without the log: it is durable when its memtable is flushed.
   */
  VLSM_NO_WAL = 4,
} vlsm_durability;

/**
 * The decision of a compaction filter about a value.
 */
typedef enum {
  /**
   * Keep it, as any number does that is not here.
   */
  VLSM_KEEP = 0,
  /**
   * Remove the key.
   */
  VLSM_REMOVE = 1,
  /**
   * Replace it by what was appended to `out`.
   */
  VLSM_CHANGE = 2,
} vlsm_decision;

/**
 * A batch.
 */
typedef struct vlsm_batch vlsm_batch;

/**
 * The bytes that a callback returns. It belongs to the library and lives during the call.
 */
typedef struct vlsm_buffer vlsm_buffer;

/**
 * An open store.
 */
typedef struct vlsm_db vlsm_db;

/**
 * An error. It belongs to the caller, who frees it by vlsm_error_free.
 */
typedef struct vlsm_error vlsm_error;

/**
 * A file that is being written. One that is freed without vlsm_file_finish is removed.
 */
typedef struct vlsm_file vlsm_file;

/**
 * An iterator. It keeps what it shows on the disk and the store open, until it is freed.
 */
typedef struct vlsm_iter vlsm_iter;

/**
 * A keyspace of an open store.
 */
typedef struct vlsm_keyspace vlsm_keyspace;

/**
 * Options of a keyspace. They belong to the caller, who frees them by vlsm_keyspace_options_free.
 */
typedef struct vlsm_keyspace_options vlsm_keyspace_options;

/**
 * A list of names. It belongs to the caller, who frees it by vlsm_names_free.
 */
typedef struct vlsm_names vlsm_names;

/**
 * Options of a store. They belong to the caller, who frees them by vlsm_options_free, also after
 * the store was opened.
 */
typedef struct vlsm_options vlsm_options;

/**
 * A snapshot. It keeps what it shows on the disk and the store open, until it is freed.
 */
typedef struct vlsm_snapshot vlsm_snapshot;

/**
 * A transaction. After vlsm_transaction_commit it is of no use any more and still has to be freed;
 * one that is freed without it writes nothing.
 */
typedef struct vlsm_transaction vlsm_transaction;

/**
 * Some bytes of the caller's, or of a handle's.
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
 * Options of one write. NULL, or zeros, for those of the store.
 */
typedef struct {
  /**
   * A vlsm_durability.
   */
  uint32_t durability;
  /**
   * The longest time, in microseconds, that the write may wait for admission, after which it
   * fails with VLSM_BUSY; 0 for no limit.
   */
  uint64_t deadline_micros;
} vlsm_write_options;

/**
 * Bytes that the library keeps for the caller, who frees them by vlsm_bytes_free. `data` is NULL
 * where there is no value, and never for a value of no bytes.
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
   * The library's.
   */
  void *owner;
} vlsm_bytes;

/**
 * A merge operator. Its functions must give the same result for the same arguments, for ever, or
 * have another name.
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
   * Returns false for an operand that `merge` could not combine: the write is refused. NULL
   * accepts every operand.
   */
  bool (*check)(void *state, vlsm_slice key, vlsm_slice operand);
  /**
   * Applies operands, the oldest first, to the value before them, whose data is NULL if the key
   * was absent, and appends the new value to `out`. Returns false if they cannot be combined:
   * reads of the key then fail with VLSM_MERGE, and nothing is lost.
   */
  bool (*merge)(void *state,
                vlsm_slice key,
                vlsm_slice base,
                const vlsm_slice *operands,
                size_t count,
                vlsm_buffer *out);
  /**
   * Combines operands, the oldest first, into one of the same effect. Returns false if that
   * cannot be. NULL for never.
   */
  bool (*merge_partial)(void *state,
                        vlsm_slice key,
                        const vlsm_slice *operands,
                        size_t count,
                        vlsm_buffer *out);
  /**
   * Frees the state. NULL for nothing to free.
   */
  void (*destroy)(void *state);
} vlsm_merge_operator;

/**
 * A compaction filter: it sees the newest value of a key that no snapshot holds, when a flush or a
 * compaction rewrites it.
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
   * Decides about a value that is about to be written into a level: a vlsm_decision. Any other
   * number keeps the value.
   */
  uint32_t (*filter)(void *state, uint32_t level, vlsm_slice key, vlsm_slice value, vlsm_buffer *out);
  /**
   * Frees the state. NULL for nothing to free.
   */
  void (*destroy)(void *state);
} vlsm_compaction_filter;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the interface that the loaded library has.
 */
uint32_t vlsm_abi_version(void);

/**
 * The version of the library, as text that is never freed.
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
 * Adds a put of a value that expires after some microseconds from the write on.
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
 * Adds a delete of all keys from `lo` on (NULL for the first) up to, and without, `hi` (NULL for
 * beyond the last).
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_delete_range(vlsm_batch *batch,
                                    const vlsm_keyspace *keyspace,
                                    const vlsm_slice *lo,
                                    const vlsm_slice *hi);

/**
 * Writes a batch, all of it or nothing. The batch stays as it is.
 */
VLSM_MUST_USE
vlsm_error *vlsm_write(const vlsm_db *db,
                       const vlsm_batch *batch,
                       const vlsm_write_options *options);

/**
 * Frees bytes and clears the struct. Bytes that are cleared already are left alone.
 */
void vlsm_bytes_free(vlsm_bytes *bytes);

/**
 * The number of names.
 */
size_t vlsm_names_count(const vlsm_names *names);

/**
 * A name, from 0 on; NULL beyond the last one. It belongs to the list.
 */
const char *vlsm_names_at(const vlsm_names *names, size_t index);

/**
 * Frees a list.
 */
void vlsm_names_free(vlsm_names *names);

/**
 * Appends bytes to what a callback returns.
 */
VLSM_MUST_USE vlsm_error *vlsm_buffer_append(vlsm_buffer *buffer, const uint8_t *data, size_t len);

/**
 * Opens the store in a folder, with options or NULL for the defaults. Called as vlsm_open, which
 * adds the version of the header.
 */
VLSM_MUST_USE
vlsm_error *vlsm_open_abi(uint32_t abi,
                          const char *folder,
                          const vlsm_options *options,
                          vlsm_db **db);

/**
 * Opens a store to read, also while another process writes it. It shows the state of now until
 * vlsm_catch_up.
 */
VLSM_MUST_USE vlsm_error *vlsm_open_beside(const char *folder, vlsm_db **db);

/**
 * Shows what the writing process has written since a store was opened by vlsm_open_beside. On an
 * error it shows what it showed before.
 */
VLSM_MUST_USE vlsm_error *vlsm_catch_up(const vlsm_db *db);

/**
 * Closes a store: everything that was acknowledged is in its files, and another process may open
 * it. Its other handles then return VLSM_CLOSED. The handle still has to be freed. An error says
 * what could not be written; the store is closed all the same.
 */
VLSM_MUST_USE vlsm_error *vlsm_close(const vlsm_db *db);

/**
 * Frees the handle of a store. The store closes with its last handle, and then nobody hears of
 * errors: call vlsm_close before.
 */
void vlsm_db_free(vlsm_db *db);

/**
 * The keyspace of a name.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_open(const vlsm_db *db,
                               const char *name,
                               vlsm_keyspace **keyspace);

/**
 * The keyspace of a name, made with these options (NULL for the defaults) if there is none. One
 * that exists with other options is an error.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_create(const vlsm_db *db,
                                 const char *name,
                                 const vlsm_keyspace_options *options,
                                 vlsm_keyspace **keyspace);

/**
 * The keyspace `default`, which every store has.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_default(const vlsm_db *db, vlsm_keyspace **keyspace);

/**
 * Removes a keyspace with everything that it holds. Its handles still have to be freed.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_drop(const vlsm_db *db, const vlsm_keyspace *keyspace);

/**
 * The names of all keyspaces. The caller frees the list by vlsm_names_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspaces(const vlsm_db *db, vlsm_names **names);

/**
 * Waits until all writes so far are on the device.
 */
VLSM_MUST_USE vlsm_error *vlsm_sync(const vlsm_db *db);

/**
 * Writes all memtables into files and waits for it.
 */
VLSM_MUST_USE vlsm_error *vlsm_flush(const vlsm_db *db);

/**
 * Waits until nothing is left to flush or to compact.
 */
VLSM_MUST_USE vlsm_error *vlsm_wait_idle(const vlsm_db *db);

/**
 * Copies the store, as of now, into a new folder. Files are linked where the file system can.
 */
VLSM_MUST_USE vlsm_error *vlsm_checkpoint(const vlsm_db *db, const char *target);

/**
 * Checks a checkpoint and copies it into a new folder.
 */
VLSM_MUST_USE vlsm_error *vlsm_restore(const char *checkpoint, const char *target);

/**
 * The counters of the store in the text format of Prometheus, with a NUL byte after the end. The
 * caller frees it by vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_stats(const vlsm_db *db, vlsm_bytes *text);

/**
 * The code of an error; VLSM_OK of NULL.
 */
vlsm_code vlsm_error_code(const vlsm_error *error);

/**
 * The text of an error: the problem, the file or option, and the remedy. It ends with a NUL byte,
 * belongs to the error, and names no key or value. Of NULL it is "".
 */
const char *vlsm_error_message(const vlsm_error *error);

/**
 * The name of the keyspace that an error is about, or NULL. It belongs to the error.
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
 * Finishes a file: it is on the device. It must have a pair.
 */
VLSM_MUST_USE vlsm_error *vlsm_file_finish(vlsm_file *file);

/**
 * Adds files to a keyspace, all of them or none. Their pairs replace older ones. Their ranges must
 * not overlap. `move_files` links them, if the file system can, and removes the originals.
 */
VLSM_MUST_USE
vlsm_error *vlsm_ingest(const vlsm_keyspace *keyspace,
                        const char *const *paths,
                        size_t count,
                        bool move_files);

/**
 * Iterates over a range of keys, of now or of a snapshot: from `lo` on (NULL for the first) up to,
 * and without, `hi` (NULL for beyond the last).
 */
VLSM_MUST_USE
vlsm_error *vlsm_iter_new(const vlsm_keyspace *keyspace,
                          const vlsm_snapshot *snapshot,
                          const vlsm_slice *lo,
                          const vlsm_slice *hi,
                          vlsm_iter **iter);

/**
 * Iterates over the keys that begin with a prefix. Else as vlsm_iter_new.
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
 * The next pair from the front. The data of the key is NULL after the last one. Key and value
 * belong to the iterator, until its next call. After an error the next call goes on behind it if
 * it was VLSM_MERGE, and else returns the error again or the end.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_next(vlsm_iter *iter, vlsm_slice *key, vlsm_slice *value);

/**
 * The next pair from the back. As vlsm_iter_next.
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
 * The name of a keyspace, with a NUL byte after the end. The caller frees it by vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_name(const vlsm_keyspace *keyspace, vlsm_bytes *name);

/**
 * Gives a keyspace another name.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_rename(const vlsm_keyspace *keyspace, const char *name);

/**
 * Changes the options of a keyspace. Its splits and its merge operator stay.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_set_options(const vlsm_keyspace *keyspace,
                                      const vlsm_keyspace_options *options);

/**
 * Removes everything that a keyspace holds, at the cost of one record.
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
 * Sets a key to a value that expires after some microseconds.
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
 * Removes a key. It is no error if there is none.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete(const vlsm_keyspace *keyspace,
                        const uint8_t *key,
                        size_t key_len,
                        const vlsm_write_options *options);

/**
 * Removes all keys from `lo` on (NULL for the first) up to, and without, `hi` (NULL for beyond the
 * last), at the cost of one write for each region.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete_range(const vlsm_keyspace *keyspace,
                              const vlsm_slice *lo,
                              const vlsm_slice *hi,
                              const vlsm_write_options *options);

/**
 * Changes a value by an operand of the keyspace's merge operator, without reading it.
 */
VLSM_MUST_USE
vlsm_error *vlsm_merge(const vlsm_keyspace *keyspace,
                       const uint8_t *key,
                       size_t key_len,
                       const uint8_t *operand,
                       size_t operand_len,
                       const vlsm_write_options *options);

/**
 * Reads the value of a key, of now or of a snapshot. Its data is NULL if there is none. The caller
 * frees it by vlsm_bytes_free; nothing is copied.
 */
VLSM_MUST_USE
vlsm_error *vlsm_get(const vlsm_keyspace *keyspace,
                     const vlsm_snapshot *snapshot,
                     const uint8_t *key,
                     size_t key_len,
                     vlsm_bytes *value);

/**
 * Reads the values of many keys of one moment, in one round. `values` has room for as many as
 * there are keys; each is freed by vlsm_bytes_free. After an error all of them are cleared.
 */
VLSM_MUST_USE
vlsm_error *vlsm_multi_get(const vlsm_keyspace *keyspace,
                           const vlsm_snapshot *snapshot,
                           const vlsm_slice *keys,
                           size_t count,
                           vlsm_bytes *values);

/**
 * Sets a key to a value if it has the expected one. NULL stands for an absent key, in `expected`
 * and in `new_value`. `*done` says whether it had; if not, nothing is written.
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
 * Merges a range of keys down to the last level and waits for it. The ends are those of
 * vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_compact_range(const vlsm_keyspace *keyspace,
                               const vlsm_slice *lo,
                               const vlsm_slice *hi);

/**
 * Estimates how many bytes and entries a range of keys takes. The ends are those of
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
 * Replaces all options by those of a text in TOML; what it leaves out has its default. The
 * library's page docs/mechanisms.md lists them. An error names the line, and changes nothing.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_toml(vlsm_options *options, const char *toml);

/**
 * Chooses a profile by name: `steady` is the default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_profile(vlsm_options *options, const char *name);

/**
 * Whether a store is made where there is none. It is, by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_create_if_missing(vlsm_options *options, bool create);

/**
 * Whether a store that exists is an error. It is none, by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_error_if_exists(vlsm_options *options, bool error);

/**
 * Whether the store is opened to read only. vlsm_open_beside also reads a store that another
 * process writes.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_read_only(vlsm_options *options, bool read_only);

/**
 * Whether a keyspace whose merge operator is not registered is no error. Its operands are kept,
 * and keys that have some cannot be read.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_keep_unknown_operators(vlsm_options *options, bool keep);

/**
 * Registers a merge operator. The struct is copied. Its `destroy` is called once when neither
 * these options nor a store needs the state any more, and at once if this fails.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_merge_operator(vlsm_options *options,
                                        const vlsm_merge_operator *operator_);

/**
 * Registers the compaction filter of a keyspace. As vlsm_options_merge_operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_compaction_filter(vlsm_options *options,
                                           const char *keyspace,
                                           const vlsm_compaction_filter *filter);

/**
 * Sets the options with which the keyspace `default` is made. They are copied.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_default_keyspace(vlsm_options *options,
                                          const vlsm_keyspace_options *keyspace);

/**
 * Makes options of a keyspace: those of the store.
 */
vlsm_keyspace_options *vlsm_keyspace_options_new(void);

/**
 * Frees options of a keyspace.
 */
void vlsm_keyspace_options_free(vlsm_keyspace_options *options);

/**
 * The merge operator by its name: `append`, `add`, `max`, or a registered one. It stays for life.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_merge_operator(vlsm_keyspace_options *options,
                                                 const char *name);

/**
 * The time, in microseconds, after which values expire.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_ttl(vlsm_keyspace_options *options,
                                      uint64_t micros);

/**
 * The size of a block before compression, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_block_bytes(vlsm_keyspace_options *options,
                                              uint64_t bytes);

/**
 * The bits of a filter for each key; 0 for no filters.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_bits_per_key(vlsm_keyspace_options *options,
                                               uint32_t bits);

/**
 * The size of a memtable, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_memtable_bytes(vlsm_keyspace_options *options,
                                                 uint64_t bytes);

/**
 * The compression of all levels, by its name: `none`, `lz4` or `zstd`.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_compression(vlsm_keyspace_options *options,
                                              const char *name);

/**
 * The keys at which the keyspace is split into regions, each a tree of its own. They stay for
 * life.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_splits(vlsm_keyspace_options *options,
                                         const vlsm_slice *keys,
                                         size_t count);

/**
 * Takes a snapshot of the store as it is now.
 */
VLSM_MUST_USE vlsm_error *vlsm_snapshot_new(const vlsm_db *db, vlsm_snapshot **snapshot);

/**
 * Frees a snapshot.
 */
void vlsm_snapshot_free(vlsm_snapshot *snapshot);

/**
 * Begins a transaction on the store as it is now.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_new(const vlsm_db *db, vlsm_transaction **transaction);

/**
 * Frees a transaction. If it was not committed, nothing of it is written.
 */
void vlsm_transaction_free(vlsm_transaction *transaction);

/**
 * Reads a key: what the transaction has written, or what the store had when it began. Else as
 * vlsm_get.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_get(vlsm_transaction *transaction,
                                 const vlsm_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 vlsm_bytes *value);

/**
 * Iterates over a range with the transaction's writes so far. A part of the range that was seen
 * counts as read. Else as vlsm_iter_new.
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
 * Sets a key to a value that expires after some microseconds from now on.
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
 * Changes a value by an operand, without reading it.
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
 * Removes a range of keys. The ends are those of vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_delete_range(vlsm_transaction *transaction,
                                          const vlsm_keyspace *keyspace,
                                          const vlsm_slice *lo,
                                          const vlsm_slice *hi);

/**
 * Remembers the writes so far. Savepoints may be nested.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_savepoint(vlsm_transaction *transaction);

/**
 * Undoes the writes since the last savepoint, and forgets it.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback_to_savepoint(vlsm_transaction *transaction);

/**
 * Undoes all writes.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback(vlsm_transaction *transaction);

/**
 * Commits a transaction. VLSM_CONFLICT if something was changed that it read: nothing is written
 * then, and a new transaction can do the work again.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_commit(vlsm_transaction *transaction,
                                    const vlsm_write_options *options);

/**
 * The code of an error; VLSM_OK of NULL.
 */
vlsm_code vlsm_error_code(const vlsm_error *error);

/**
 * The text of an error: the problem, the file or option, and the remedy. It ends with a NUL byte,
 * belongs to the error, and names no key or value. Of NULL it is "".
 */
const char *vlsm_error_message(const vlsm_error *error);

/**
 * The name of the keyspace that an error is about, or NULL. It belongs to the error.
 */
const char *vlsm_error_keyspace(const vlsm_error *error);

/**
 * Frees an error.
 */
void vlsm_error_free(vlsm_error *error);

/**
 * Frees bytes and clears the struct. Bytes that are cleared already are left alone.
 */
void vlsm_bytes_free(vlsm_bytes *bytes);

/**
 * The number of names.
 */
size_t vlsm_names_count(const vlsm_names *names);

/**
 * A name, from 0 on; NULL beyond the last one. It belongs to the list.
 */
const char *vlsm_names_at(const vlsm_names *names, size_t index);

/**
 * Frees a list.
 */
void vlsm_names_free(vlsm_names *names);

/**
 * Appends bytes to what a callback returns.
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
 * Replaces all options by those of a text in TOML; what it leaves out has its default. The
 * library's page docs/mechanisms.md lists them. An error names the line, and changes nothing.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_toml(vlsm_options *options, const char *toml);

/**
 * Chooses a profile by name: `steady` is the default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_profile(vlsm_options *options, const char *name);

/**
 * Whether a store is made where there is none. It is, by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_create_if_missing(vlsm_options *options, bool create);

/**
 * Whether a store that exists is an error. It is none, by default.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_error_if_exists(vlsm_options *options, bool error);

/**
 * Whether the store is opened to read only. vlsm_open_beside also reads a store that another
 * process writes.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_read_only(vlsm_options *options, bool read_only);

/**
 * Whether a keyspace whose merge operator is not registered is no error. Its operands are kept,
 * and keys that have some cannot be read.
 */
VLSM_MUST_USE vlsm_error *vlsm_options_keep_unknown_operators(vlsm_options *options, bool keep);

/**
 * Registers a merge operator. The struct is copied. Its `destroy` is called once when neither
 * these options nor a store needs the state any more, and at once if this fails.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_merge_operator(vlsm_options *options,
                                        const vlsm_merge_operator *operator_);

/**
 * Registers the compaction filter of a keyspace. As vlsm_options_merge_operator.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_compaction_filter(vlsm_options *options,
                                           const char *keyspace,
                                           const vlsm_compaction_filter *filter);

/**
 * Sets the options with which the keyspace `default` is made. They are copied.
 */
VLSM_MUST_USE
vlsm_error *vlsm_options_default_keyspace(vlsm_options *options,
                                          const vlsm_keyspace_options *keyspace);

/**
 * Makes options of a keyspace: those of the store.
 */
vlsm_keyspace_options *vlsm_keyspace_options_new(void);

/**
 * Frees options of a keyspace.
 */
void vlsm_keyspace_options_free(vlsm_keyspace_options *options);

/**
 * The merge operator by its name: `append`, `add`, `max`, or a registered one. It stays for life.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_merge_operator(vlsm_keyspace_options *options,
                                                 const char *name);

/**
 * The time, in microseconds, after which values expire.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_ttl(vlsm_keyspace_options *options,
                                      uint64_t micros);

/**
 * The size of a block before compression, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_block_bytes(vlsm_keyspace_options *options,
                                              uint64_t bytes);

/**
 * The bits of a filter for each key; 0 for no filters.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_bits_per_key(vlsm_keyspace_options *options,
                                               uint32_t bits);

/**
 * The size of a memtable, in bytes.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_memtable_bytes(vlsm_keyspace_options *options,
                                                 uint64_t bytes);

/**
 * The compression of all levels, by its name: `none`, `lz4` or `zstd`.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_compression(vlsm_keyspace_options *options,
                                              const char *name);

/**
 * The keys at which the keyspace is split into regions, each a tree of its own. They stay for
 * life.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_options_splits(vlsm_keyspace_options *options,
                                         const vlsm_slice *keys,
                                         size_t count);

/**
 * Opens the store in a folder, with options or NULL for the defaults. Called as vlsm_open, which
 * adds the version of the header.
 */
VLSM_MUST_USE
vlsm_error *vlsm_open_abi(uint32_t abi,
                          const char *folder,
                          const vlsm_options *options,
                          vlsm_db **db);

/**
 * Opens a store to read, also while another process writes it. It shows the state of now until
 * vlsm_catch_up.
 */
VLSM_MUST_USE vlsm_error *vlsm_open_beside(const char *folder, vlsm_db **db);

/**
 * Shows what the writing process has written since a store was opened by vlsm_open_beside. On an
 * error it shows what it showed before.
 */
VLSM_MUST_USE vlsm_error *vlsm_catch_up(const vlsm_db *db);

/**
 * Closes a store: everything that was acknowledged is in its files, and another process may open
 * it. Its other handles then return VLSM_CLOSED. The handle still has to be freed. An error says
 * what could not be written; the store is closed all the same.
 */
VLSM_MUST_USE vlsm_error *vlsm_close(const vlsm_db *db);

/**
 * Frees the handle of a store. The store closes with its last handle, and then nobody hears of
 * errors: call vlsm_close before.
 */
void vlsm_db_free(vlsm_db *db);

/**
 * The keyspace of a name.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_open(const vlsm_db *db,
                               const char *name,
                               vlsm_keyspace **keyspace);

/**
 * The keyspace of a name, made with these options (NULL for the defaults) if there is none. One
 * that exists with other options is an error.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_create(const vlsm_db *db,
                                 const char *name,
                                 const vlsm_keyspace_options *options,
                                 vlsm_keyspace **keyspace);

/**
 * The keyspace `default`, which every store has.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_default(const vlsm_db *db, vlsm_keyspace **keyspace);

/**
 * Removes a keyspace with everything that it holds. Its handles still have to be freed.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_drop(const vlsm_db *db, const vlsm_keyspace *keyspace);

/**
 * The names of all keyspaces. The caller frees the list by vlsm_names_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspaces(const vlsm_db *db, vlsm_names **names);

/**
 * Waits until all writes so far are on the device.
 */
VLSM_MUST_USE vlsm_error *vlsm_sync(const vlsm_db *db);

/**
 * Writes all memtables into files and waits for it.
 */
VLSM_MUST_USE vlsm_error *vlsm_flush(const vlsm_db *db);

/**
 * Waits until nothing is left to flush or to compact.
 */
VLSM_MUST_USE vlsm_error *vlsm_wait_idle(const vlsm_db *db);

/**
 * Copies the store, as of now, into a new folder. Files are linked where the file system can.
 */
VLSM_MUST_USE vlsm_error *vlsm_checkpoint(const vlsm_db *db, const char *target);

/**
 * Checks a checkpoint and copies it into a new folder.
 */
VLSM_MUST_USE vlsm_error *vlsm_restore(const char *checkpoint, const char *target);

/**
 * The counters of the store in the text format of Prometheus, with a NUL byte after the end. The
 * caller frees it by vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_stats(const vlsm_db *db, vlsm_bytes *text);

/**
 * Frees the handle of a keyspace. The keyspace stays in the store.
 */
void vlsm_keyspace_free(vlsm_keyspace *keyspace);

/**
 * The name of a keyspace, with a NUL byte after the end. The caller frees it by vlsm_bytes_free.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_name(const vlsm_keyspace *keyspace, vlsm_bytes *name);

/**
 * Gives a keyspace another name.
 */
VLSM_MUST_USE vlsm_error *vlsm_keyspace_rename(const vlsm_keyspace *keyspace, const char *name);

/**
 * Changes the options of a keyspace. Its splits and its merge operator stay.
 */
VLSM_MUST_USE
vlsm_error *vlsm_keyspace_set_options(const vlsm_keyspace *keyspace,
                                      const vlsm_keyspace_options *options);

/**
 * Removes everything that a keyspace holds, at the cost of one record.
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
 * Sets a key to a value that expires after some microseconds.
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
 * Removes a key. It is no error if there is none.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete(const vlsm_keyspace *keyspace,
                        const uint8_t *key,
                        size_t key_len,
                        const vlsm_write_options *options);

/**
 * Removes all keys from `lo` on (NULL for the first) up to, and without, `hi` (NULL for beyond the
 * last), at the cost of one write for each region.
 */
VLSM_MUST_USE
vlsm_error *vlsm_delete_range(const vlsm_keyspace *keyspace,
                              const vlsm_slice *lo,
                              const vlsm_slice *hi,
                              const vlsm_write_options *options);

/**
 * Changes a value by an operand of the keyspace's merge operator, without reading it.
 */
VLSM_MUST_USE
vlsm_error *vlsm_merge(const vlsm_keyspace *keyspace,
                       const uint8_t *key,
                       size_t key_len,
                       const uint8_t *operand,
                       size_t operand_len,
                       const vlsm_write_options *options);

/**
 * Reads the value of a key, of now or of a snapshot. Its data is NULL if there is none. The caller
 * frees it by vlsm_bytes_free; nothing is copied.
 */
VLSM_MUST_USE
vlsm_error *vlsm_get(const vlsm_keyspace *keyspace,
                     const vlsm_snapshot *snapshot,
                     const uint8_t *key,
                     size_t key_len,
                     vlsm_bytes *value);

/**
 * Reads the values of many keys of one moment, in one round. `values` has room for as many as
 * there are keys; each is freed by vlsm_bytes_free. After an error all of them are cleared.
 */
VLSM_MUST_USE
vlsm_error *vlsm_multi_get(const vlsm_keyspace *keyspace,
                           const vlsm_snapshot *snapshot,
                           const vlsm_slice *keys,
                           size_t count,
                           vlsm_bytes *values);

/**
 * Sets a key to a value if it has the expected one. NULL stands for an absent key, in `expected`
 * and in `new_value`. `*done` says whether it had; if not, nothing is written.
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
 * Merges a range of keys down to the last level and waits for it. The ends are those of
 * vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_compact_range(const vlsm_keyspace *keyspace,
                               const vlsm_slice *lo,
                               const vlsm_slice *hi);

/**
 * Estimates how many bytes and entries a range of keys takes. The ends are those of
 * vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_approximate_size(const vlsm_keyspace *keyspace,
                                  const vlsm_slice *lo,
                                  const vlsm_slice *hi,
                                  uint64_t *size,
                                  uint64_t *entries);

/**
 * Takes a snapshot of the store as it is now.
 */
VLSM_MUST_USE vlsm_error *vlsm_snapshot_new(const vlsm_db *db, vlsm_snapshot **snapshot);

/**
 * Frees a snapshot.
 */
void vlsm_snapshot_free(vlsm_snapshot *snapshot);

/**
 * Iterates over a range of keys, of now or of a snapshot: from `lo` on (NULL for the first) up to,
 * and without, `hi` (NULL for beyond the last).
 */
VLSM_MUST_USE
vlsm_error *vlsm_iter_new(const vlsm_keyspace *keyspace,
                          const vlsm_snapshot *snapshot,
                          const vlsm_slice *lo,
                          const vlsm_slice *hi,
                          vlsm_iter **iter);

/**
 * Iterates over the keys that begin with a prefix. Else as vlsm_iter_new.
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
 * The next pair from the front. The data of the key is NULL after the last one. Key and value
 * belong to the iterator, until its next call. After an error the next call goes on behind it if
 * it was VLSM_MERGE, and else returns the error again or the end.
 */
VLSM_MUST_USE vlsm_error *vlsm_iter_next(vlsm_iter *iter, vlsm_slice *key, vlsm_slice *value);

/**
 * The next pair from the back. As vlsm_iter_next.
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
 * Adds a put of a value that expires after some microseconds from the write on.
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
 * Adds a delete of all keys from `lo` on (NULL for the first) up to, and without, `hi` (NULL for
 * beyond the last).
 */
VLSM_MUST_USE
vlsm_error *vlsm_batch_delete_range(vlsm_batch *batch,
                                    const vlsm_keyspace *keyspace,
                                    const vlsm_slice *lo,
                                    const vlsm_slice *hi);

/**
 * Writes a batch, all of it or nothing. The batch stays as it is.
 */
VLSM_MUST_USE
vlsm_error *vlsm_write(const vlsm_db *db,
                       const vlsm_batch *batch,
                       const vlsm_write_options *options);

/**
 * Begins a transaction on the store as it is now.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_new(const vlsm_db *db, vlsm_transaction **transaction);

/**
 * Frees a transaction. If it was not committed, nothing of it is written.
 */
void vlsm_transaction_free(vlsm_transaction *transaction);

/**
 * Reads a key: what the transaction has written, or what the store had when it began. Else as
 * vlsm_get.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_get(vlsm_transaction *transaction,
                                 const vlsm_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 vlsm_bytes *value);

/**
 * Iterates over a range with the transaction's writes so far. A part of the range that was seen
 * counts as read. Else as vlsm_iter_new.
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
 * Sets a key to a value that expires after some microseconds from now on.
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
 * Changes a value by an operand, without reading it.
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
 * Removes a range of keys. The ends are those of vlsm_delete_range.
 */
VLSM_MUST_USE
vlsm_error *vlsm_transaction_delete_range(vlsm_transaction *transaction,
                                          const vlsm_keyspace *keyspace,
                                          const vlsm_slice *lo,
                                          const vlsm_slice *hi);

/**
 * Remembers the writes so far. Savepoints may be nested.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_savepoint(vlsm_transaction *transaction);

/**
 * Undoes the writes since the last savepoint, and forgets it.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback_to_savepoint(vlsm_transaction *transaction);

/**
 * Undoes all writes.
 */
VLSM_MUST_USE vlsm_error *vlsm_transaction_rollback(vlsm_transaction *transaction);

/**
 * Commits a transaction. VLSM_CONFLICT if something was changed that it read: nothing is written
 * then, and a new transaction can do the work again.
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
 * Finishes a file: it is on the device. It must have a pair.
 */
VLSM_MUST_USE vlsm_error *vlsm_file_finish(vlsm_file *file);

/**
 * Adds files to a keyspace, all of them or none. Their pairs replace older ones. Their ranges must
 * not overlap. `move_files` links them, if the file system can, and removes the originals.
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
