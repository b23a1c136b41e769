/*
 * Time to live, secondary opens, ingest, reads of many keys, and batches that can be read: `stores FOLDER`
 * works in the folder.
 */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

static void time_to_live(void)
{
    rocksdb_t *db;
    GOOD(db = rocksdb_open_with_ttl(options, in("ttl"), 1, &error));
    put(db, "old", "1");
    CHECK(has(db, NULL, "old", "1"));
    sleep(2);
    put(db, "new", "2");
    rocksdb_compact_range(db, NULL, 0, NULL, 0);
    CHECK(has(db, NULL, "old", NULL) && has(db, NULL, "new", "2"));
    rocksdb_close(db);
    /* With zero or less, pairs live for ever. */
    GOOD(db = rocksdb_open_with_ttl(options, in("ttl"), 0, &error));
    put(db, "kept", "3");
    rocksdb_close(db);
    GOOD(db = rocksdb_open_with_ttl(options, in("ttl"), -1, &error));
    CHECK(has(db, NULL, "kept", "3"));
    rocksdb_close(db);
}

static void secondary(void)
{
    rocksdb_t *db, *second;
    GOOD(db = rocksdb_open(options, in("primary"), &error));
    put(db, "k", "1");
    char beside[5000];
    snprintf(beside, sizeof beside, "%s", in("beside"));
    GOOD(second = rocksdb_open_as_secondary(options, in("primary"), beside, &error));
    CHECK(has(second, NULL, "k", "1"));
    put(db, "k", "2");
    GOOD(rocksdb_try_catch_up_with_primary(second, &error));
    CHECK(has(second, NULL, "k", "2"));
    BAD(rocksdb_put(second, writing, "k", 1, "3", 1, &error), "Not implemented: ");
    rocksdb_close(db);
    CHECK(has(second, NULL, "k", "2"));
    rocksdb_close(second);
    BAD(rocksdb_open_as_secondary(options, in("absent"), beside, &error), "Invalid argument: ");
}

static void ingest(void)
{
    char file[5000], absent[5000];
    snprintf(file, sizeof file, "%s", in("pairs.sst"));
    snprintf(absent, sizeof absent, "%s", in("absent.sst"));
    rocksdb_envoptions_t *files = rocksdb_envoptions_create();
    rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(files, options);
    GOOD(rocksdb_sstfilewriter_open(writer, file, &error));
    GOOD(rocksdb_sstfilewriter_put(writer, "b", 1, "1", 1, &error));
    GOOD(rocksdb_sstfilewriter_put(writer, "c", 1, "2", 1, &error));
    BAD(rocksdb_sstfilewriter_put(writer, "a", 1, "3", 1, &error), "Invalid argument: ");
    GOOD(rocksdb_sstfilewriter_finish(writer, &error));
    rocksdb_sstfilewriter_destroy(writer);
    rocksdb_envoptions_destroy(files);

    rocksdb_t *db;
    GOOD(db = rocksdb_open(options, in("ingest"), &error));
    put(db, "b", "old");
    rocksdb_ingestexternalfileoptions_t *how = rocksdb_ingestexternalfileoptions_create();
    const char *list[] = {file}, *none[] = {absent};
    BAD(rocksdb_ingest_external_file(db, none, 1, how, &error), "IO error: ");
    BAD(rocksdb_ingest_external_file(db, NULL, 1, how, &error), "Invalid argument: ");
    GOOD(rocksdb_ingest_external_file(db, list, 1, how, &error));
    CHECK(has(db, NULL, "b", "1") && has(db, NULL, "c", "2") && has(db, NULL, "a", NULL));
    CHECK(access(file, F_OK) == 0);
    rocksdb_ingestexternalfileoptions_destroy(how);
    rocksdb_close(db);
    GOOD(db = rocksdb_open(options, in("ingest"), &error));
    CHECK(has(db, NULL, "b", "1"));
    rocksdb_close(db);
}

static void many_keys(void)
{
    rocksdb_t *db;
    GOOD(db = rocksdb_open(options, in("many"), &error));
    rocksdb_column_family_handle_t *family = rocksdb_create_column_family(db, options, "side", &error);
    CHECK(error == NULL);
    put(db, "k", "main");
    GOOD(rocksdb_put_cf(db, writing, family, "k", 1, "side", 4, &error));
    rocksdb_column_family_handle_t *main_family = rocksdb_get_default_column_family_handle(db);
    const rocksdb_column_family_handle_t *families[] = {main_family, family, family};
    const char *keys[] = {"k", "k", "absent"}, *bad[] = {"k", NULL, "absent"};
    size_t lens[] = {1, 1, 6}, value_lens[3];
    char *values[3], *errors[3];
    rocksdb_multi_get_cf(db, reading, families, 3, keys, lens, values, value_lens, errors);
    CHECK(errors[0] == NULL && value_lens[0] == 4 && !memcmp(values[0], "main", 4));
    CHECK(errors[1] == NULL && value_lens[1] == 4 && !memcmp(values[1], "side", 4));
    CHECK(errors[2] == NULL && values[2] == NULL);
    rocksdb_free(values[0]);
    rocksdb_free(values[1]);
    /* A key that is NULL is an error of the whole call. */
    rocksdb_multi_get_cf(db, reading, families, 3, bad, lens, values, value_lens, errors);
    for (int at = 0; at < 3; at++) {
        CHECK(errors[at] != NULL && values[at] == NULL);
        rocksdb_free(errors[at]);
    }
    rocksdb_column_family_handle_destroy(main_family);
    rocksdb_column_family_handle_destroy(family);
    rocksdb_close(db);
}

static rocksdb_t *raced;
static rocksdb_column_family_handle_t *raced_families[2];
static atomic_int raced_done;

/* Writes the same number into both column families, in one batch each time. */
static void *write_both(void *unused)
{
    for (int number = 0; !raced_done; number++) {
        char *failed = NULL;
        rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
        for (int at = 0; at < 2; at++)
            rocksdb_writebatch_put_cf(batch, raced_families[at], "k", 1, (char *)&number, sizeof number);
        rocksdb_write(raced, writing, batch, &failed);
        CHECK(failed == NULL);
        rocksdb_writebatch_destroy(batch);
    }
    return unused;
}

/* A read of several column families shows one moment. */
static void one_moment(void)
{
    GOOD(raced = rocksdb_open(options, in("moment"), &error));
    for (int at = 0; at < 2; at++)
        GOOD(raced_families[at] = rocksdb_create_column_family(raced, options, at ? "b" : "a", &error));
    pthread_t writer;
    CHECK(pthread_create(&writer, NULL, write_both, NULL) == 0);
    const rocksdb_column_family_handle_t *families[] = {raced_families[0], raced_families[1]};
    const char *keys[] = {"k", "k"};
    size_t lens[] = {1, 1}, value_lens[2];
    for (int round = 0; round < 20000; round++) {
        char *values[2], *errors[2];
        rocksdb_multi_get_cf(raced, reading, families, 2, keys, lens, values, value_lens, errors);
        CHECK(errors[0] == NULL && errors[1] == NULL && !values[0] == !values[1]);
        CHECK(values[0] == NULL || !memcmp(values[0], values[1], sizeof(int)));
        rocksdb_free(values[0]);
        rocksdb_free(values[1]);
    }
    raced_done = 1;
    pthread_join(writer, NULL);
    rocksdb_column_family_handle_destroy(raced_families[0]);
    rocksdb_column_family_handle_destroy(raced_families[1]);
    rocksdb_close(raced);
}

static int is(char *value, size_t len, const char *expected)
{
    int same = expected ? value && len == strlen(expected) && !memcmp(value, expected, len) : value == NULL;
    rocksdb_free(value);
    return same && error == NULL;
}

static void indexed_batches(void)
{
    rocksdb_t *db;
    size_t len = 0;
    GOOD(db = rocksdb_open(options, in("indexed"), &error));
    put(db, "a", "stored");
    put(db, "c", "stored");
    rocksdb_writebatch_wi_t *batch = rocksdb_writebatch_wi_create(0, 1);
    rocksdb_writebatch_wi_put(batch, "b", 1, "batch", 5);
    rocksdb_writebatch_wi_delete(batch, "c", 1);
    char *value = rocksdb_writebatch_wi_get_from_batch(batch, options, "b", 1, &len, &error);
    CHECK(is(value, len, "batch"));
    value = rocksdb_writebatch_wi_get_from_batch(batch, options, "a", 1, &len, &error);
    CHECK(is(value, len, NULL));
    value = rocksdb_writebatch_wi_get_from_batch_and_db(batch, db, reading, "a", 1, &len, &error);
    CHECK(is(value, len, "stored"));
    value = rocksdb_writebatch_wi_get_from_batch_and_db(batch, db, reading, "c", 1, &len, &error);
    CHECK(is(value, len, NULL));

    rocksdb_iterator_t *both =
        rocksdb_writebatch_wi_create_iterator_with_base(batch, rocksdb_create_iterator(db, reading));
    rocksdb_iter_seek_to_first(both);
    CHECK(at(both, "a"));
    rocksdb_iter_next(both);
    CHECK(at(both, "b"));
    rocksdb_iter_next(both);
    CHECK(at(both, NULL));
    rocksdb_iter_seek_to_last(both);
    CHECK(at(both, "b"));
    rocksdb_iter_prev(both);
    CHECK(at(both, "a"));
    rocksdb_iter_destroy(both);

    rocksdb_writebatch_wi_set_save_point(batch);
    rocksdb_writebatch_wi_put(batch, "d", 1, "undone", 6);
    GOOD(rocksdb_writebatch_wi_rollback_to_save_point(batch, &error));
    BAD(rocksdb_writebatch_wi_rollback_to_save_point(batch, &error), "NotFound: ");
    CHECK(rocksdb_writebatch_wi_count(batch) == 2);
    GOOD(rocksdb_write_writebatch_wi(db, writing, batch, &error));
    CHECK(has(db, NULL, "b", "batch") && has(db, NULL, "c", NULL) && has(db, NULL, "d", NULL));
    rocksdb_writebatch_wi_clear(batch);
    CHECK(rocksdb_writebatch_wi_count(batch) == 0);
    rocksdb_writebatch_wi_destroy(batch);
    rocksdb_close(db);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    rocksdb_options_set_create_if_missing(options, 1);
    time_to_live();
    secondary();
    ingest();
    many_keys();
    one_moment();
    indexed_batches();
    end();
    return 0;
}
