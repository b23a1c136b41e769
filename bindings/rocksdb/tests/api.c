/*
 * Calls the main functions of the library, and gives it bad input: `api FOLDER` works in the folder.
 */
#include "check.h"

static void basics(void)
{
    BAD(rocksdb_open(options, in("none"), &error), "Invalid argument: ");
    rocksdb_options_set_create_if_missing(options, 1);
    CHECK(rocksdb_options_get_create_if_missing(options) == 1);
    rocksdb_t *db;
    GOOD(db = rocksdb_open(options, in("basics"), &error));
    BAD(rocksdb_open(options, in("basics"), &error), "IO error: lock ");
    put(db, "a", "1");
    put(db, "b", "");
    CHECK(has(db, NULL, "a", "1") && has(db, NULL, "b", "") && has(db, NULL, "c", NULL));
    const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(db);
    GOOD(rocksdb_delete(db, writing, "a", 1, &error));
    CHECK(has(db, NULL, "a", NULL));
    rocksdb_readoptions_set_snapshot(reading, snapshot);
    CHECK(has(db, NULL, "a", "1"));
    rocksdb_readoptions_set_snapshot(reading, NULL);
    rocksdb_release_snapshot(db, snapshot);
    rocksdb_writeoptions_set_sync(writing, 1);
    put(db, "synced", "1");
    rocksdb_writeoptions_set_sync(writing, 0);
    rocksdb_writeoptions_disable_WAL(writing, 1);
    put(db, "unlogged", "1");
    rocksdb_writeoptions_disable_WAL(writing, 0);
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    GOOD(rocksdb_flush(db, flush, &error));
    rocksdb_flushoptions_destroy(flush);
    rocksdb_compact_range(db, NULL, 0, NULL, 0);
    char *stats = rocksdb_property_value(db, "rocksdb.stats");
    CHECK(stats && strstr(stats, "Stats"));
    rocksdb_free(stats);
    CHECK(rocksdb_property_value(db, "rocksdb.nonsense") == NULL);
    uint64_t keys = 0;
    CHECK(rocksdb_property_int(db, "rocksdb.estimate-num-keys", &keys) == 0 && keys >= 3);
    const char *names[3] = {"b", "synced", "none"};
    size_t lens[3] = {1, 6, 4}, found[3];
    char *values[3], *errors[3];
    rocksdb_multi_get(db, reading, 3, names, lens, values, found, errors);
    CHECK(values[0] && found[0] == 0 && values[1] && found[1] == 1 && values[2] == NULL && !errors[0]);
    rocksdb_free(values[0]);
    rocksdb_free(values[1]);
    rocksdb_close(db);
    GOOD(db = rocksdb_open_for_read_only(options, in("basics"), 0, &error));
    CHECK(has(db, NULL, "unlogged", "1"));
    BAD(rocksdb_put(db, writing, "x", 1, "y", 1, &error), "Not implemented: ");
    rocksdb_close(db);
}

static void iterators(void)
{
    rocksdb_t *db;
    GOOD(db = rocksdb_open(options, in("iterators"), &error));
    put(db, "b", "1");
    put(db, "d", "2");
    put(db, "f", "3");
    rocksdb_iterator_t *iter = rocksdb_create_iterator(db, reading);
    put(db, "e", "later");
    rocksdb_iter_seek_to_first(iter);
    CHECK(at(iter, "b"));
    rocksdb_iter_next(iter);
    rocksdb_iter_next(iter);
    CHECK(at(iter, "f"));
    rocksdb_iter_prev(iter);
    CHECK(at(iter, "d"));
    rocksdb_iter_next(iter);
    rocksdb_iter_next(iter);
    CHECK(at(iter, NULL));
    rocksdb_iter_seek(iter, "c", 1);
    CHECK(at(iter, "d"));
    rocksdb_iter_seek_for_prev(iter, "c", 1);
    CHECK(at(iter, "b"));
    rocksdb_iter_seek_to_last(iter);
    CHECK(at(iter, "f"));
    GOOD(rocksdb_iter_refresh(iter, &error));
    rocksdb_iter_seek(iter, "e", 1);
    CHECK(at(iter, "e"));
    GOOD(rocksdb_iter_get_error(iter, &error));
    rocksdb_iter_destroy(iter);
    rocksdb_readoptions_t *bounded = rocksdb_readoptions_create();
    rocksdb_readoptions_set_iterate_lower_bound(bounded, "c", 1);
    rocksdb_readoptions_set_iterate_upper_bound(bounded, "f", 1);
    iter = rocksdb_create_iterator(db, bounded);
    rocksdb_iter_seek_to_first(iter);
    CHECK(at(iter, "d"));
    rocksdb_iter_seek_to_last(iter);
    CHECK(at(iter, "e"));
    rocksdb_iter_seek(iter, "a", 1);
    CHECK(at(iter, "d"));
    rocksdb_iter_prev(iter);
    CHECK(at(iter, NULL));
    rocksdb_iter_destroy(iter);
    rocksdb_readoptions_destroy(bounded);
    rocksdb_close(db);
}

static int puts_seen, deletes_seen;

static void on_put(void *state, const char *key, size_t key_len, const char *value, size_t len)
{
    (void)state, (void)key, (void)key_len, (void)value, (void)len;
    puts_seen++;
}

static void on_delete(void *state, const char *key, size_t len)
{
    (void)state, (void)key, (void)len;
    deletes_seen++;
}

static void families(void)
{
    rocksdb_t *db;
    rocksdb_options_set_create_missing_column_families(options, 1);
    const char *names[2] = {"default", "two"};
    const rocksdb_options_t *each[2] = {options, options};
    rocksdb_column_family_handle_t *handles[2], *three;
    GOOD(db = rocksdb_open_column_families(options, in("families"), 2, names, each, handles, &error));
    GOOD(three = rocksdb_create_column_family(db, options, "three", &error));
    BAD(rocksdb_create_column_family(db, options, "three", &error), "Invalid argument: Column family already");
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    rocksdb_writebatch_put(batch, "k", 1, "v", 1);
    rocksdb_writebatch_put_cf(batch, handles[1], "k2", 2, "v2", 2);
    rocksdb_writebatch_set_save_point(batch);
    rocksdb_writebatch_put_cf(batch, three, "gone", 4, "", 0);
    GOOD(rocksdb_writebatch_rollback_to_save_point(batch, &error));
    BAD(rocksdb_writebatch_rollback_to_save_point(batch, &error), "NotFound: ");
    rocksdb_writebatch_delete(batch, "other", 5);
    CHECK(rocksdb_writebatch_count(batch) == 3);
    rocksdb_writebatch_iterate(batch, NULL, (callback)on_put, (callback)on_delete);
    CHECK(puts_seen == 1 && deletes_seen == 1);
    size_t size = 0;
    const char *bytes = rocksdb_writebatch_data(batch, &size);
    rocksdb_writebatch_t *copy = rocksdb_writebatch_create_from(bytes, size);
    GOOD(rocksdb_write(db, writing, copy, &error));
    CHECK(has(db, NULL, "k", "v") && has(db, handles[1], "k2", "v2") && has(db, three, "gone", NULL));
    rocksdb_writebatch_destroy(copy);
    copy = rocksdb_writebatch_create_from(bytes, size - 1);
    BAD(rocksdb_write(db, writing, copy, &error), "Corruption: ");
    rocksdb_writebatch_destroy(copy);
    rocksdb_writebatch_destroy(batch);
    GOOD(rocksdb_delete_range_cf(db, writing, handles[1], "a", 1, "z", 1, &error));
    CHECK(has(db, handles[1], "k2", NULL));
    GOOD(rocksdb_drop_column_family(db, three, &error));
    BAD(rocksdb_put_cf(db, writing, three, "k", 1, "v", 1, &error), "Column family dropped: ");
    rocksdb_column_family_handle_destroy(three);
    rocksdb_t *other;
    GOOD(other = rocksdb_open(options, in("other"), &error));
    BAD(rocksdb_put_cf(other, writing, handles[1], "k", 1, "v", 1, &error), "Invalid argument: the column");
    rocksdb_close(other);
    rocksdb_column_family_handle_destroy(handles[0]);
    rocksdb_column_family_handle_destroy(handles[1]);
    rocksdb_close(db);
    BAD(rocksdb_open(options, in("families"), &error), "Invalid argument: Column families not opened: two");
    size_t count = 0;
    char **list;
    GOOD(list = rocksdb_list_column_families(options, in("families"), &count, &error));
    CHECK(count == 2 && !strcmp(list[0], "default") && !strcmp(list[1], "two"));
    rocksdb_list_column_families_destroy(list, count);
}

static char *concat(void *state, const char *key, size_t key_len, const char *base, size_t base_len,
                    const char *const *operands, const size_t *lens, int count, unsigned char *good, size_t *len)
{
    (void)state, (void)key, (void)key_len;
    size_t size = base ? base_len : 0;
    for (int i = 0; i < count; i++)
        size += lens[i];
    char *all = malloc(size + 1), *end = all;
    if (base)
        memcpy(end, base, base_len), end += base_len;
    for (int i = 0; i < count; i++)
        memcpy(end, operands[i], lens[i]), end += lens[i];
    *good = 1;
    *len = size;
    return all;
}

static char *concat_partial(void *state, const char *key, size_t key_len, const char *const *operands,
                            const size_t *lens, int count, unsigned char *good, size_t *len)
{
    return concat(state, key, key_len, NULL, 0, operands, lens, count, good, len);
}

static int destroyed;

static void destroy(void *state)
{
    (void)state;
    destroyed++;
}

static const char *called(void *state)
{
    (void)state;
    return "test";
}

static unsigned char drop_x(void *state, int level, const char *key, size_t key_len, const char *value, size_t len,
                            char **fresh, size_t *fresh_len, unsigned char *changed)
{
    (void)state, (void)level, (void)value, (void)len;
    if (key_len == 1 && key[0] == 'c') {
        *fresh = "changed";
        *fresh_len = 7;
        *changed = 1;
    }
    return key_len == 1 && key[0] == 'x';
}

static void callbacks(void)
{
    rocksdb_options_t *own = rocksdb_options_create_copy(options);
    rocksdb_options_set_merge_operator(own, rocksdb_mergeoperator_create(NULL, (callback)destroy, (callback)concat,
                                                                         (callback)concat_partial, NULL, (callback)called));
    rocksdb_compactionfilter_t *filter =
        rocksdb_compactionfilter_create(NULL, (callback)destroy, (callback)drop_x, (callback)called);
    rocksdb_options_set_compaction_filter(own, filter);
    rocksdb_t *db;
    GOOD(db = rocksdb_open(own, in("callbacks"), &error));
    put(db, "m", "a");
    GOOD(rocksdb_merge(db, writing, "m", 1, "b", 1, &error));
    GOOD(rocksdb_merge(db, writing, "m", 1, "c", 1, &error));
    CHECK(has(db, NULL, "m", "abc"));
    put(db, "x", "removed by the filter");
    put(db, "c", "old");
    rocksdb_compact_range(db, NULL, 0, NULL, 0);
    CHECK(has(db, NULL, "x", NULL) && has(db, NULL, "c", "changed") && has(db, NULL, "m", "abc"));
    rocksdb_close(db);
    GOOD(db = rocksdb_open(options, in("callbacks"), &error));
    BAD(rocksdb_merge(db, writing, "m", 1, "d", 1, &error), "Invalid argument: ");
    CHECK(has(db, NULL, "m", "abc"));
    rocksdb_close(db);
    rocksdb_options_destroy(own);
    rocksdb_compactionfilter_destroy(filter);
    CHECK(destroyed == 2);
}

static void transactions(void)
{
    rocksdb_transactiondb_options_t *settings = rocksdb_transactiondb_options_create();
    rocksdb_transaction_options_t *how = rocksdb_transaction_options_create();
    rocksdb_transaction_options_set_lock_timeout(how, 20);
    rocksdb_transactiondb_t *locking;
    GOOD(locking = rocksdb_transactiondb_open(options, settings, in("locking"), &error));
    rocksdb_transaction_t *one = rocksdb_transaction_begin(locking, writing, how, NULL);
    rocksdb_transaction_t *two = rocksdb_transaction_begin(locking, writing, how, NULL);
    GOOD(rocksdb_transaction_put(one, "k", 1, "1", 1, &error));
    BAD(rocksdb_transaction_put(two, "k", 1, "2", 1, &error), "Operation timed out: ");
    BAD(rocksdb_transaction_prepare(one, &error), "Not implemented: ");
    GOOD(rocksdb_transaction_commit(one, &error));
    GOOD(rocksdb_transaction_put(two, "k", 1, "2", 1, &error));
    GOOD(rocksdb_transaction_rollback(two, &error));
    rocksdb_transaction_destroy(one);
    rocksdb_transaction_destroy(two);
    size_t len = 0;
    char *value;
    GOOD(value = rocksdb_transactiondb_get(locking, reading, "k", 1, &len, &error));
    CHECK(value && len == 1 && value[0] == '1');
    rocksdb_free(value);
    rocksdb_transactiondb_close(locking);

    rocksdb_optimistictransaction_options_t *so = rocksdb_optimistictransaction_options_create();
    rocksdb_optimistictransactiondb_t *optimistic;
    GOOD(optimistic = rocksdb_optimistictransactiondb_open(options, in("optimistic"), &error));
    one = rocksdb_optimistictransaction_begin(optimistic, writing, so, NULL);
    two = rocksdb_optimistictransaction_begin(optimistic, writing, so, NULL);
    GOOD(rocksdb_transaction_put(one, "k", 1, "1", 1, &error));
    GOOD(rocksdb_transaction_put(two, "k", 1, "2", 1, &error));
    GOOD(value = rocksdb_transaction_get(two, reading, "k", 1, &len, &error));
    CHECK(value && value[0] == '2');
    rocksdb_free(value);
    GOOD(rocksdb_transaction_commit(one, &error));
    BAD(rocksdb_transaction_commit(two, &error), "Resource busy: ");
    rocksdb_transaction_destroy(one);
    rocksdb_transaction_destroy(two);
    rocksdb_optimistictransactiondb_close(optimistic);
    rocksdb_optimistictransaction_options_destroy(so);
    rocksdb_transaction_options_destroy(how);
    rocksdb_transactiondb_options_destroy(settings);
}

static void copies(void)
{
    rocksdb_t *db;
    GOOD(db = rocksdb_open(options, in("copied"), &error));
    put(db, "k", "first");
    rocksdb_checkpoint_t *checkpoint;
    GOOD(checkpoint = rocksdb_checkpoint_object_create(db, &error));
    GOOD(rocksdb_checkpoint_create(checkpoint, in("checkpoint"), 0, &error));
    BAD(rocksdb_checkpoint_create(checkpoint, in("checkpoint"), 0, &error), "Invalid argument: ");
    rocksdb_checkpoint_object_destroy(checkpoint);
    rocksdb_backup_engine_t *backups;
    GOOD(backups = rocksdb_backup_engine_open(options, in("backups"), &error));
    GOOD(rocksdb_backup_engine_create_new_backup(backups, db, &error));
    put(db, "k", "second");
    GOOD(rocksdb_backup_engine_create_new_backup_flush(backups, db, 1, &error));
    const rocksdb_backup_engine_info_t *info = rocksdb_backup_engine_get_backup_info(backups);
    CHECK(rocksdb_backup_engine_info_count(info) == 2 && rocksdb_backup_engine_info_backup_id(info, 1) == 2);
    CHECK(rocksdb_backup_engine_info_size(info, 0) > 0 && rocksdb_backup_engine_info_backup_id(info, 9) == 0);
    rocksdb_backup_engine_info_destroy(info);
    GOOD(rocksdb_backup_engine_verify_backup(backups, 1, &error));
    BAD(rocksdb_backup_engine_verify_backup(backups, 7, &error), "NotFound: ");
    rocksdb_restore_options_t *how = rocksdb_restore_options_create();
    BAD(rocksdb_backup_engine_restore_db_from_backup(backups, in("copied"), in("copied"), how, 1, &error), "IO error: lock ");
    CHECK(has(db, NULL, "k", "second"));
    rocksdb_close(db);
    GOOD(rocksdb_backup_engine_restore_db_from_backup(backups, in("copied"), in("copied"), how, 1, &error));
    rocksdb_restore_options_destroy(how);
    GOOD(rocksdb_backup_engine_purge_old_backups(backups, 1, &error));
    rocksdb_backup_engine_close(backups);
    GOOD(db = rocksdb_open(options, in("copied"), &error));
    CHECK(has(db, NULL, "k", "first"));
    rocksdb_close(db);
    GOOD(db = rocksdb_open(options, in("checkpoint"), &error));
    CHECK(has(db, NULL, "k", "first"));
    BAD(rocksdb_destroy_db(options, in("checkpoint"), &error), "IO error: lock ");
    rocksdb_close(db);
    GOOD(rocksdb_destroy_db(options, in("checkpoint"), &error));
    CHECK(access(in("checkpoint"), F_OK) != 0);
}

static void touch(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int reversed(void *state, const char *a, size_t a_len, const char *b, size_t b_len)
{
    (void)state, (void)a, (void)a_len, (void)b, (void)b_len;
    return 0;
}

static void bad_input(void)
{
    BAD(rocksdb_open(NULL, in("bad"), &error), "Invalid argument: ");
    BAD(rocksdb_open(options, NULL, &error), "Invalid argument: ");
    BAD(rocksdb_put(NULL, writing, "k", 1, "v", 1, &error), "Invalid argument: the database is NULL");
    CHECK(rocksdb_create_iterator(NULL, reading) == NULL && !rocksdb_iter_valid(NULL));
    rocksdb_close(NULL);
    rocksdb_iter_destroy(NULL);
    rocksdb_put(NULL, writing, "k", 1, "v", 1, NULL);
    rocksdb_t *db;
    GOOD(db = rocksdb_open(options, in("bad"), &error));
    BAD(rocksdb_put(db, NULL, "k", 1, "v", 1, &error), "Invalid argument: ");
    BAD(rocksdb_put(db, writing, NULL, 1, "v", 1, &error), "Invalid argument: ");
    BAD(rocksdb_put_with_ts(db, writing, "k", 1, "t", 1, "v", 1, &error), "Not implemented: vLSM has no user-defined");
    rocksdb_column_family_handle_t *family = rocksdb_get_default_column_family_handle(db);
    BAD(rocksdb_delete_range_cf(db, writing, family, "z", 1, "a", 1, &error), "Invalid argument: a range");
    rocksdb_column_family_handle_destroy(family);
    BAD(rocksdb_repair_db(options, in("bad"), &error), "Not implemented: ");
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    rocksdb_writebatch_delete_range(batch, "z", 1, "a", 1);
    BAD(rocksdb_write(db, writing, batch, &error), "Invalid argument: a range to delete ends before");
    rocksdb_writebatch_clear(batch);
    rocksdb_writebatch_put(batch, "fine", 4, "", 0);
    rocksdb_writebatch_put(batch, NULL, 3, "", 0);
    BAD(rocksdb_write(db, writing, batch, &error), "Invalid argument: ");
    CHECK(has(db, NULL, "fine", NULL));
    rocksdb_writebatch_destroy(batch);

    pid_t child = fork();
    if (child == 0) {
        rocksdb_put(db, writing, "k", 1, "v", 1, &error);
        int refused = error != NULL && strstr(error, "fork") != NULL;
        rocksdb_close(db);
        _exit(refused ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    put(db, "k", "parent");
    CHECK(has(db, NULL, "k", "parent"));
    rocksdb_close(db);

    rocksdb_options_t *own = rocksdb_options_create_copy(options);
    rocksdb_options_set_inplace_update_support(own, 1);
    BAD(rocksdb_open(own, in("bad"), &error), "Invalid argument: vLSM has no options.inplace_update_support");
    rocksdb_options_set_inplace_update_support(own, 0);
    rocksdb_options_set_compaction_style(own, 2);
    BAD(rocksdb_open(own, in("bad"), &error), "Invalid argument: vLSM has no options.compaction_style");
    rocksdb_options_set_compaction_style(own, 0);
    rocksdb_comparator_t *order =
        rocksdb_comparator_create(NULL, (callback)destroy, (callback)reversed, (callback)called);
    rocksdb_options_set_comparator(own, order);
    BAD(rocksdb_open(own, in("bad"), &error), "Invalid argument: vLSM orders keys by their bytes");
    rocksdb_options_destroy(own);
    rocksdb_comparator_destroy(order);

    CHECK(mkdir(in("theirs"), 0700) == 0);
    touch(in("theirs/CURRENT"), "MANIFEST-000005\n");
    touch(in("theirs/IDENTITY"), "x");
    BAD(rocksdb_open(options, in("theirs"), &error), "Invalid argument: ");
    rocksdb_open(options, in("theirs"), &error);
    CHECK(error != NULL && strstr(error, "vlsm import --from rocksdb"));
    rocksdb_free(error);
    error = NULL;
    BAD(rocksdb_destroy_db(options, in("theirs"), &error), "Invalid argument: ");
    CHECK(access(in("theirs/CURRENT"), F_OK) == 0 && access(in("theirs/LOCK"), F_OK) != 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    basics();
    iterators();
    families();
    callbacks();
    transactions();
    copies();
    bad_input();
    end();
    return 0;
}
