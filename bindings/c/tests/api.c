/*
 * Calls every function of vlsm.h, also with wrong arguments. tests/c.rs compiles and runs it with
 * the shared and the static library, under the address sanitizer and under Valgrind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vlsm.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

/* The content of a string, as key and length or as a slice. */
#define S(text) (const uint8_t *)(text), strlen(text)
#define SLICE(text) ((vlsm_slice){(const uint8_t *)(text), strlen(text)})

static void good(vlsm_error *error, int line)
{
    if (error != NULL) {
        fprintf(stderr, "line %d: %s\n", line, vlsm_error_message(error));
        exit(1);
    }
}
#define OK(call) good((call), __LINE__)

static void bad(vlsm_error *error, vlsm_code code, const char *part, int line)
{
    if (vlsm_error_code(error) != code || strstr(vlsm_error_message(error), part) == NULL) {
        fprintf(stderr, "line %d: code %d and not %d, or without \"%s\": %s\n", line,
                vlsm_error_code(error), code, part, vlsm_error_message(error));
        exit(1);
    }
    vlsm_error_free(error);
}
#define FAILS(call, code, part) bad((call), (code), (part), __LINE__)

static bool holds(vlsm_bytes *value, const char *wanted)
{
    bool same = wanted == NULL ?
        value->data == NULL :
        value->data != NULL && value->len == strlen(wanted) && memcmp(value->data, wanted, value->len) == 0;
    vlsm_bytes_free(value);
    vlsm_bytes_free(value); /* a second time does nothing */
    return same;
}

static bool has(vlsm_keyspace *keyspace, vlsm_snapshot *snapshot, const char *key, const char *wanted)
{
    vlsm_bytes value;
    OK(vlsm_get(keyspace, snapshot, S(key), &value));
    return holds(&value, wanted);
}

static bool is(vlsm_slice slice, const char *wanted)
{
    return slice.len == strlen(wanted) && memcmp(slice.data, wanted, slice.len) == 0;
}

static char root[512];

static const char *in(const char *name)
{
    static char path[4][600];
    static int next;
    char *to = path[next++ % 4];
    snprintf(to, 600, "%s/%s", root, name);
    return to;
}

static vlsm_db *opened(const char *name, const vlsm_options *options)
{
    vlsm_db *db;
    OK(vlsm_open(in(name), options, &db));
    return db;
}

static vlsm_keyspace *default_of(vlsm_db *db)
{
    vlsm_keyspace *keyspace;
    OK(vlsm_keyspace_default(db, &keyspace));
    return keyspace;
}

static void reads_and_writes(void)
{
    vlsm_db *db = opened("plain", NULL);
    vlsm_keyspace *fruit = default_of(db);
    OK(vlsm_put(fruit, S("apple"), S("green"), NULL));
    OK(vlsm_put(fruit, S("empty"), NULL, 0, NULL));
    vlsm_write_options synced = {VLSM_SYNC, 10 * 1000 * 1000};
    OK(vlsm_put(fruit, S("pear"), S("yellow"), &synced));
    CHECK(has(fruit, NULL, "apple", "green") && has(fruit, NULL, "plum", NULL));
    CHECK(has(fruit, NULL, "empty", ""));

    vlsm_snapshot *before;
    OK(vlsm_snapshot_new(db, &before));
    OK(vlsm_delete(fruit, S("pear"), NULL));
    OK(vlsm_delete(fruit, S("never"), NULL));
    OK(vlsm_put_with_ttl(fruit, S("brief"), S("gone"), 1, NULL));
    usleep(2000);
    CHECK(has(fruit, NULL, "brief", NULL) && has(fruit, NULL, "pear", NULL));
    CHECK(has(fruit, before, "pear", "yellow"));

    vlsm_slice keys[] = {SLICE("apple"), SLICE("plum"), SLICE("empty")};
    vlsm_bytes values[3];
    OK(vlsm_multi_get(fruit, before, keys, 3, values));
    CHECK(holds(&values[0], "green") && holds(&values[1], NULL) && holds(&values[2], ""));
    OK(vlsm_multi_get(fruit, NULL, NULL, 0, NULL));

    bool done;
    vlsm_slice green = SLICE("green"), red = SLICE("red");
    OK(vlsm_compare_and_swap(fruit, S("apple"), &green, &red, NULL, &done));
    CHECK(done);
    OK(vlsm_compare_and_swap(fruit, S("apple"), &green, NULL, NULL, &done));
    CHECK(!done && has(fruit, NULL, "apple", "red"));
    OK(vlsm_compare_and_swap(fruit, S("new"), NULL, &green, NULL, &done));
    CHECK(done);

    vlsm_slice lo = SLICE("m"), hi = SLICE("o");
    OK(vlsm_delete_range(fruit, &lo, &hi, NULL));
    CHECK(has(fruit, NULL, "new", NULL) && has(fruit, NULL, "apple", "red"));
    OK(vlsm_flush(db));
    OK(vlsm_sync(db));
    OK(vlsm_compact_range(fruit, NULL, NULL));
    OK(vlsm_wait_idle(db));
    uint64_t size, entries;
    OK(vlsm_approximate_size(fruit, NULL, NULL, &size, &entries));
    CHECK(size > 0 && entries > 0);
    vlsm_bytes text;
    OK(vlsm_stats(db, &text));
    CHECK(strstr((const char *)text.data, "vlsm_uptime_seconds") != NULL);
    CHECK(strlen((const char *)text.data) == text.len);
    vlsm_bytes_free(&text);

    vlsm_snapshot_free(before);
    vlsm_keyspace_free(fruit);
    OK(vlsm_close(db));
    vlsm_db_free(db);
}

static void batches_and_keyspaces(void)
{
    vlsm_db *db = opened("spaces", NULL);
    vlsm_keyspace *users, *again, *plain = default_of(db);
    vlsm_keyspace_options *options = vlsm_keyspace_options_new();
    vlsm_slice splits[] = {SLICE("h"), SLICE("q")};
    OK(vlsm_keyspace_options_splits(options, splits, 2));
    OK(vlsm_keyspace_options_merge_operator(options, "append"));
    OK(vlsm_keyspace_options_compression(options, "lz4"));
    OK(vlsm_keyspace_options_block_bytes(options, 8192));
    OK(vlsm_keyspace_options_bits_per_key(options, 8));
    OK(vlsm_keyspace_options_memtable_bytes(options, 1 << 20));
    FAILS(vlsm_keyspace_options_compression(options, "gzip"), VLSM_INVALID_ARGUMENT, "\"gzip\"");
    FAILS(vlsm_keyspace_open(db, "users", &users), VLSM_NO_SUCH_KEYSPACE, "\"users\"");
    CHECK(users == NULL);
    OK(vlsm_keyspace_create(db, "users", options, &users));
    OK(vlsm_keyspace_open(db, "users", &again));
    vlsm_error *error = vlsm_keyspace_create(db, "users", NULL, &(vlsm_keyspace *){NULL});
    CHECK(strcmp(vlsm_error_keyspace(error), "users") == 0);
    FAILS(error, VLSM_KEYSPACE_EXISTS, "splits");

    vlsm_batch *batch = vlsm_batch_new();
    OK(vlsm_batch_put(batch, users, S("ada"), S("1815")));
    OK(vlsm_batch_put(batch, plain, S("count"), S("1")));
    OK(vlsm_batch_merge(batch, users, S("zuse"), S("19")));
    OK(vlsm_batch_merge(batch, users, S("zuse"), S("10")));
    OK(vlsm_batch_put_with_ttl(batch, plain, S("brief"), S("gone"), 1000 * 1000 * 1000));
    OK(vlsm_write(db, batch, NULL));
    CHECK(has(again, NULL, "ada", "1815") && has(users, NULL, "zuse", "1910"));
    OK(vlsm_batch_clear(batch));
    OK(vlsm_batch_delete(batch, plain, S("brief")));
    vlsm_slice z = SLICE("z");
    OK(vlsm_batch_delete_range(batch, users, NULL, &z));
    OK(vlsm_write(db, batch, NULL));
    CHECK(has(users, NULL, "ada", NULL) && has(users, NULL, "zuse", "1910"));
    /* A batch with an invalid write writes nothing. */
    static uint8_t long_key[65537];
    OK(vlsm_batch_clear(batch));
    OK(vlsm_batch_put(batch, plain, S("half"), S("1")));
    OK(vlsm_batch_put(batch, plain, long_key, sizeof long_key, S("1")));
    FAILS(vlsm_write(db, batch, NULL), VLSM_INVALID_ARGUMENT, "65537");
    CHECK(has(plain, NULL, "half", NULL));
    vlsm_batch_free(batch);

    OK(vlsm_keyspace_rename(users, "people"));
    vlsm_bytes name;
    OK(vlsm_keyspace_name(again, &name));
    CHECK(holds(&name, "people"));
    vlsm_names *names;
    OK(vlsm_keyspaces(db, &names));
    CHECK(vlsm_names_count(names) == 2 && vlsm_names_at(names, 2) == NULL);
    CHECK(strcmp(vlsm_names_at(names, 0), "default") == 0);
    CHECK(strcmp(vlsm_names_at(names, 1), "people") == 0);
    vlsm_names_free(names);
    OK(vlsm_keyspace_options_bits_per_key(options, 12));
    OK(vlsm_keyspace_set_options(users, options));
    OK(vlsm_keyspace_clear(users));
    CHECK(has(users, NULL, "zuse", NULL));
    OK(vlsm_keyspace_drop(db, users));
    FAILS(vlsm_put(again, S("ada"), S("1815"), NULL), VLSM_KEYSPACE_DROPPED, "dropped");
    FAILS(vlsm_keyspace_drop(db, plain), VLSM_INVALID_ARGUMENT, "clear it");
    vlsm_keyspace_options_free(options);
    vlsm_keyspace_free(again);
    vlsm_keyspace_free(users);
    vlsm_keyspace_free(plain);
    vlsm_db_free(db);
}

static void iterators(void)
{
    vlsm_db *db = opened("order", NULL);
    vlsm_keyspace *plain = default_of(db);
    const char *words[] = {"a", "b", "ba", "bb", "c"};
    for (int i = 0; i < 5; i++)
        OK(vlsm_put(plain, S(words[i]), S("1"), NULL));
    vlsm_iter *iter;
    vlsm_slice key, value, lo = SLICE("b"), hi = SLICE("c");
    OK(vlsm_iter_new(plain, NULL, NULL, NULL, &iter));
    for (int i = 0; i < 5; i++) {
        OK(vlsm_iter_next(iter, &key, &value));
        CHECK(is(key, words[i]) && is(value, "1"));
    }
    OK(vlsm_iter_next(iter, &key, &value));
    CHECK(key.data == NULL && value.data == NULL);
    OK(vlsm_iter_seek(iter, S("bab")));
    OK(vlsm_iter_next(iter, &key, &value));
    CHECK(is(key, "bb"));
    vlsm_iter_free(iter);
    OK(vlsm_iter_new(plain, NULL, &lo, &hi, &iter));
    OK(vlsm_put(plain, S("bz"), S("later"), NULL));
    OK(vlsm_iter_next_back(iter, &key, &value));
    CHECK(is(key, "bb"));
    OK(vlsm_iter_next(iter, &key, &value));
    CHECK(is(key, "b"));
    vlsm_iter_free(iter);
    OK(vlsm_iter_prefix(plain, NULL, S("b"), &iter));
    int count = 0;
    for (OK(vlsm_iter_next(iter, &key, &value)); key.data != NULL; OK(vlsm_iter_next(iter, &key, &value)))
        count++;
    CHECK(count == 4);
    vlsm_iter_free(iter);
    /* The iterator keeps the store open, and its calls return that the store was closed. */
    OK(vlsm_iter_new(plain, NULL, NULL, NULL, &iter));
    OK(vlsm_close(db));
    FAILS(vlsm_iter_next(iter, &key, &value), VLSM_CLOSED, "closed");
    FAILS(vlsm_put(plain, S("a"), S("2"), NULL), VLSM_CLOSED, "closed");
    vlsm_db_free(db);
    vlsm_keyspace_free(plain);
    vlsm_iter_free(iter);
}

static void transactions(void)
{
    vlsm_db *db = opened("transactions", NULL);
    vlsm_keyspace *plain = default_of(db);
    vlsm_transaction *one, *other;
    vlsm_bytes value;
    OK(vlsm_put(plain, S("seats"), S("1"), NULL));
    OK(vlsm_transaction_new(db, &one));
    OK(vlsm_transaction_new(db, &other));
    OK(vlsm_transaction_get(one, plain, S("seats"), &value));
    CHECK(holds(&value, "1"));
    OK(vlsm_transaction_get(other, plain, S("seats"), &value));
    vlsm_bytes_free(&value);
    OK(vlsm_transaction_put(one, plain, S("seats"), S("0")));
    OK(vlsm_transaction_put(other, plain, S("seats"), S("0")));
    OK(vlsm_transaction_commit(one, NULL));
    FAILS(vlsm_transaction_commit(one, NULL), VLSM_INVALID_ARGUMENT, "was committed");
    FAILS(vlsm_transaction_put(one, plain, S("a"), S("0")), VLSM_INVALID_ARGUMENT, "was committed");
    FAILS(vlsm_transaction_commit(other, NULL), VLSM_CONFLICT, "run the transaction again");
    vlsm_transaction_free(one);
    vlsm_transaction_free(other);

    OK(vlsm_transaction_new(db, &one));
    OK(vlsm_transaction_put(one, plain, S("kept"), S("1")));
    OK(vlsm_transaction_savepoint(one));
    OK(vlsm_transaction_delete(one, plain, S("seats")));
    OK(vlsm_transaction_rollback_to_savepoint(one));
    FAILS(vlsm_transaction_rollback_to_savepoint(one), VLSM_INVALID_ARGUMENT, "no savepoint");
    OK(vlsm_transaction_put_with_ttl(one, plain, S("brief"), S("1"), 1000 * 1000 * 1000));
    vlsm_iter *iter;
    vlsm_slice key, pair;
    OK(vlsm_transaction_iter(one, plain, NULL, NULL, &iter));
    OK(vlsm_iter_next(iter, &key, &pair));
    CHECK(is(key, "brief"));
    OK(vlsm_iter_seek(iter, S("l")));
    OK(vlsm_iter_next_back(iter, &key, &pair));
    CHECK(is(key, "seats"));
    vlsm_iter_free(iter);
    vlsm_slice brief = SLICE("brief"), c = SLICE("c");
    OK(vlsm_transaction_delete_range(one, plain, &brief, &c));
    OK(vlsm_transaction_commit(one, &(vlsm_write_options){VLSM_SYNC, 0}));
    vlsm_transaction_free(one);
    CHECK(has(plain, NULL, "kept", "1") && has(plain, NULL, "seats", "0") && has(plain, NULL, "brief", NULL));

    OK(vlsm_transaction_new(db, &one));
    OK(vlsm_transaction_put(one, plain, S("never"), S("1")));
    OK(vlsm_transaction_rollback(one));
    FAILS(vlsm_transaction_merge(one, plain, S("a"), S("1")), VLSM_INVALID_ARGUMENT, "no merge operator");
    vlsm_transaction_free(one);
    CHECK(has(plain, NULL, "never", NULL));
    vlsm_keyspace_free(plain);
    vlsm_db_free(db);
}

/* A merge operator that adds digits, and a filter that removes values of "old". */
static int destroyed;

static bool is_digit(void *state, vlsm_slice key, vlsm_slice operand)
{
    (void)state, (void)key;
    return operand.len == 1 && operand.data[0] >= '0' && operand.data[0] <= '9';
}

static bool add(void *state, vlsm_slice key, vlsm_slice base, const vlsm_slice *operands, size_t count,
                vlsm_buffer *out)
{
    int sum = *(int *)state; /* 0 */
    char text[16];
    (void)key;
    if (base.data != NULL) {
        memcpy(text, base.data, base.len);
        text[base.len] = 0;
        sum = atoi(text);
    }
    for (size_t i = 0; i < count; i++)
        sum += operands[i].data[0] - '0';
    snprintf(text, sizeof text, "%d", sum);
    OK(vlsm_buffer_append(out, S(text)));
    return true;
}

static uint32_t no_old(void *state, uint32_t level, vlsm_slice key, vlsm_slice value, vlsm_buffer *out)
{
    (void)state, (void)level, (void)key;
    if (is(value, "old"))
        return VLSM_REMOVE;
    if (!is(value, "new"))
        return VLSM_KEEP;
    OK(vlsm_buffer_append(out, S("newer")));
    return VLSM_CHANGE;
}

static void destroy(void *state)
{
    destroyed++;
    free(state);
}

static void callbacks(void)
{
    vlsm_options *options = vlsm_options_new();
    vlsm_merge_operator sum = {calloc(1, sizeof(int)), "sum", is_digit, add, NULL, destroy};
    vlsm_compaction_filter filter = {malloc(1), "no old", no_old, destroy};
    OK(vlsm_options_merge_operator(options, &sum));
    OK(vlsm_options_compaction_filter(options, "default", &filter));
    vlsm_merge_operator nameless = {malloc(1), NULL, NULL, add, NULL, destroy};
    FAILS(vlsm_options_merge_operator(options, &nameless), VLSM_INVALID_ARGUMENT, "name");
    vlsm_compaction_filter empty = {malloc(1), "empty", NULL, destroy};
    FAILS(vlsm_options_compaction_filter(options, "x", &empty), VLSM_INVALID_ARGUMENT, "filter");
    vlsm_merge_operator lost = {malloc(1), "lost", NULL, add, NULL, destroy};
    FAILS(vlsm_options_merge_operator(NULL, &lost), VLSM_INVALID_ARGUMENT, "options is NULL");
    CHECK(destroyed == 3);

    vlsm_db *db = opened("callbacks", options);
    vlsm_keyspace_options *summed = vlsm_keyspace_options_new();
    OK(vlsm_keyspace_options_merge_operator(summed, "sum"));
    vlsm_keyspace *sums, *plain = default_of(db);
    OK(vlsm_keyspace_create(db, "sums", summed, &sums));
    OK(vlsm_merge(sums, S("a"), S("7"), NULL));
    OK(vlsm_merge(sums, S("a"), S("8"), NULL));
    FAILS(vlsm_merge(sums, S("a"), S("x"), NULL), VLSM_MERGE, "refuses");
    CHECK(has(sums, NULL, "a", "15"));
    OK(vlsm_put(plain, S("a"), S("old"), NULL));
    OK(vlsm_put(plain, S("b"), S("new"), NULL));
    OK(vlsm_put(plain, S("c"), S("other"), NULL));
    OK(vlsm_flush(db));
    OK(vlsm_compact_range(plain, NULL, NULL));
    CHECK(has(plain, NULL, "a", NULL) && has(plain, NULL, "b", "newer") && has(plain, NULL, "c", "other"));
    vlsm_keyspace_options_free(summed);
    vlsm_keyspace_free(sums);
    vlsm_keyspace_free(plain);
    OK(vlsm_close(db));
    vlsm_db_free(db);
    CHECK(destroyed == 3); /* the options still have them */

    /* Without the operator: refused, or read without its keys. */
    FAILS(vlsm_open(in("callbacks"), NULL, &db), VLSM_MERGE, "\"sum\"");
    vlsm_options *without = vlsm_options_new();
    OK(vlsm_options_keep_unknown_operators(without, true));
    db = opened("callbacks", without);
    vlsm_db_free(db);
    vlsm_options_free(without);
    vlsm_options_free(options);
    CHECK(destroyed == 5);
}

static void options_and_copies(void)
{
    vlsm_options *options = vlsm_options_new();
    OK(vlsm_options_profile(options, "vlsm"));
    FAILS(vlsm_options_profile(options, "nope"), VLSM_INVALID_OPTION, "nope");
    OK(vlsm_options_toml(options, "memory_limit = \"64M\"\n"));
    FAILS(vlsm_options_toml(options, "memory_limt = 1\n"), VLSM_INVALID_ARGUMENT, "memory_limt");
    FAILS(vlsm_options_toml(options, "\xff"), VLSM_INVALID_ARGUMENT, "UTF-8");
    OK(vlsm_options_create_if_missing(options, false));
    vlsm_db *db;
    FAILS(vlsm_open(in("none"), options, &db), VLSM_MISSING, "no store");
    OK(vlsm_options_create_if_missing(options, true));
    vlsm_keyspace_options *expiring = vlsm_keyspace_options_new();
    OK(vlsm_keyspace_options_ttl(expiring, 3600ull * 1000 * 1000));
    OK(vlsm_options_default_keyspace(options, expiring));
    vlsm_keyspace_options_free(expiring);
    db = opened("copied", options);
    vlsm_keyspace *plain = default_of(db);
    OK(vlsm_put(plain, S("a"), S("1"), NULL));

    /* Beside the writer, and caught up. */
    vlsm_db *beside;
    OK(vlsm_open_beside(in("copied"), &beside));
    vlsm_keyspace *read = default_of(beside);
    OK(vlsm_put(plain, S("b"), S("2"), NULL));
    CHECK(has(read, NULL, "a", "1") && has(read, NULL, "b", NULL));
    OK(vlsm_catch_up(beside));
    CHECK(has(read, NULL, "b", "2"));
    FAILS(vlsm_put(read, S("c"), S("3"), NULL), VLSM_OPENED_READ_ONLY, "read");
    vlsm_keyspace_free(read);
    vlsm_db_free(beside);
    FAILS(vlsm_open(in("copied"), options, &beside), VLSM_LOCKED, "in use");

    OK(vlsm_checkpoint(db, in("checkpoint")));
    FAILS(vlsm_checkpoint(db, in("checkpoint")), VLSM_ALREADY_EXISTS, "already");
    OK(vlsm_restore(in("checkpoint"), in("restored")));
    OK(vlsm_options_error_if_exists(options, true));
    vlsm_db *copy;
    FAILS(vlsm_open(in("restored"), options, &copy), VLSM_ALREADY_EXISTS, "already");
    OK(vlsm_options_error_if_exists(options, false));
    OK(vlsm_options_read_only(options, true));
    copy = opened("restored", options);
    vlsm_keyspace *copied = default_of(copy);
    CHECK(has(copied, NULL, "b", "2"));
    vlsm_keyspace_free(copied);
    vlsm_db_free(copy);

    vlsm_file *file;
    const char *path = in("pairs.sst");
    OK(vlsm_file_new(plain, path, &file));
    OK(vlsm_file_put(file, S("x"), S("10")));
    FAILS(vlsm_file_put(file, S("w"), S("10")), VLSM_INVALID_ARGUMENT, "ascend");
    OK(vlsm_file_finish(file));
    FAILS(vlsm_file_finish(file), VLSM_INVALID_ARGUMENT, "was finished");
    vlsm_file_free(file);
    OK(vlsm_ingest(plain, &path, 1, true));
    CHECK(has(plain, NULL, "x", "10"));
    FAILS(vlsm_ingest(plain, &path, 1, false), VLSM_IO, "pairs.sst");
    vlsm_keyspace_free(plain);
    vlsm_db_free(db);
    vlsm_options_free(options);
}

/* Invalid arguments return VLSM_INVALID_ARGUMENT, and never crash. */
static void bad_input(void)
{
    vlsm_db *db = opened("bad", NULL), *other = opened("other", NULL);
    vlsm_keyspace *plain = default_of(db), *foreign = default_of(other);
    vlsm_bytes value;
    vlsm_slice key;
    vlsm_db *none;
    vlsm_keyspace *nowhere;
    FAILS(vlsm_open(NULL, NULL, &none), VLSM_INVALID_ARGUMENT, "the folder is NULL");
    CHECK(none == NULL);
    FAILS(vlsm_open(in("x"), NULL, NULL), VLSM_INVALID_ARGUMENT, "result is NULL");
    FAILS(vlsm_open_abi(VLSM_ABI_VERSION + 1, in("x"), NULL, &none), VLSM_ABI, "compile it again");
    CHECK(none == NULL);
    FAILS(vlsm_put(NULL, S("a"), S("1"), NULL), VLSM_INVALID_ARGUMENT, "the keyspace is NULL");
    FAILS(vlsm_put(plain, NULL, 1, S("1"), NULL), VLSM_INVALID_ARGUMENT, "the key is NULL");
    FAILS(vlsm_put(plain, S("a"), NULL, 1, NULL), VLSM_INVALID_ARGUMENT, "the value is NULL");
    FAILS(vlsm_put(plain, S("a"), (const uint8_t *)"", SIZE_MAX, NULL), VLSM_INVALID_ARGUMENT, "length");
    FAILS(vlsm_put(plain, S("a"), S("1"), &(vlsm_write_options){9, 0}), VLSM_INVALID_ARGUMENT, "durability 9");
    FAILS(vlsm_get(plain, NULL, S("a"), NULL), VLSM_INVALID_ARGUMENT, "result is NULL");
    FAILS(vlsm_multi_get(plain, NULL, &key, SIZE_MAX, &value), VLSM_INVALID_ARGUMENT, "too many");
    FAILS(vlsm_multi_get(plain, NULL, NULL, 2, &value), VLSM_INVALID_ARGUMENT, "the keys is NULL");
    FAILS(vlsm_delete_range(plain, &(vlsm_slice){NULL, 3}, NULL, NULL), VLSM_INVALID_ARGUMENT, "range");
    FAILS(vlsm_iter_next(NULL, &key, &key), VLSM_INVALID_ARGUMENT, "the iterator is NULL");
    FAILS(vlsm_write(NULL, NULL, NULL), VLSM_INVALID_ARGUMENT, "the batch is NULL");
    FAILS(vlsm_close(NULL), VLSM_INVALID_ARGUMENT, "the store is NULL");
    FAILS(vlsm_buffer_append(NULL, S("a")), VLSM_INVALID_ARGUMENT, "the buffer is NULL");
    FAILS(vlsm_keyspace_open(other, "\xc3\x28", &nowhere), VLSM_INVALID_ARGUMENT, "UTF-8");
    CHECK(nowhere == NULL);
    FAILS(vlsm_merge(foreign, S("a"), S("1"), NULL), VLSM_INVALID_ARGUMENT, "no merge operator");

    vlsm_batch *batch = vlsm_batch_new();
    vlsm_db *third = opened("third", NULL);
    OK(vlsm_batch_put(batch, foreign, S("a"), S("1")));
    FAILS(vlsm_write(third, batch, NULL), VLSM_INVALID_ARGUMENT, "another store");
    vlsm_snapshot *snapshot;
    OK(vlsm_snapshot_new(third, &snapshot));
    FAILS(vlsm_get(foreign, snapshot, S("a"), &value), VLSM_INVALID_ARGUMENT, "another store");
    vlsm_snapshot_free(snapshot);
    vlsm_batch_free(batch);
    vlsm_keyspace_free(foreign);
    vlsm_keyspace_free(plain);
    vlsm_db_free(third);
    vlsm_db_free(other);
    vlsm_db_free(db);

    vlsm_db_free(NULL), vlsm_keyspace_free(NULL), vlsm_snapshot_free(NULL), vlsm_iter_free(NULL);
    vlsm_batch_free(NULL), vlsm_transaction_free(NULL), vlsm_options_free(NULL), vlsm_error_free(NULL);
    vlsm_keyspace_options_free(NULL), vlsm_names_free(NULL), vlsm_bytes_free(NULL), vlsm_file_free(NULL);
    CHECK(vlsm_error_code(NULL) == VLSM_OK && *vlsm_error_message(NULL) == 0);
    CHECK(vlsm_error_keyspace(NULL) == NULL && vlsm_names_count(NULL) == 0 && vlsm_names_at(NULL, 0) == NULL);
    CHECK(vlsm_abi_version() == VLSM_ABI_VERSION && strchr(vlsm_version(), '.') != NULL);
}

/* A child process cannot use its parent's handles, and may free them without harm. */
static void forks(void)
{
    vlsm_db *db = opened("forked", NULL);
    vlsm_keyspace *plain = default_of(db);
    vlsm_iter *iter;
    vlsm_slice key, value;
    OK(vlsm_put(plain, S("a"), S("1"), NULL));
    OK(vlsm_iter_new(plain, NULL, NULL, NULL, &iter));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        vlsm_bytes found;
        FAILS(vlsm_put(plain, S("b"), S("2"), NULL), VLSM_FORKED, "fork()");
        FAILS(vlsm_get(plain, NULL, S("a"), &found), VLSM_FORKED, "fork()");
        FAILS(vlsm_iter_next(iter, &key, &value), VLSM_FORKED, "fork()");
        FAILS(vlsm_close(db), VLSM_FORKED, "fork()");
        vlsm_iter_free(iter);
        vlsm_keyspace_free(plain);
        vlsm_db_free(db);
        vlsm_db *mine = opened("of the child", NULL);
        vlsm_keyspace *its = default_of(mine);
        OK(vlsm_put(its, S("b"), S("2"), NULL));
        vlsm_keyspace_free(its);
        vlsm_db_free(mine);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(vlsm_put(plain, S("b"), S("2"), NULL));
    CHECK(has(plain, NULL, "b", "2"));
    OK(vlsm_iter_next(iter, &key, &value));
    CHECK(is(key, "a"));
    vlsm_iter_free(iter);
    vlsm_keyspace_free(plain);
    OK(vlsm_close(db));
    vlsm_db_free(db);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    snprintf(root, sizeof root, "%s", argv[1]);
    reads_and_writes();
    batches_and_keyspaces();
    iterators();
    transactions();
    callbacks();
    options_and_copies();
    bad_input();
    /* The sanitizers do not follow a child that leaks on purpose. The forks are many because, soon after the open, a
     * thread of the store may hold a lock at one of them. */
    for (int i = 0; i < 20 && argc < 3; i++)
        forks();
    puts("all is well");
    return 0;
}
