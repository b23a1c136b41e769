/*
 * WiredTiger by plain functions, for peers/src/stores/wiredtiger.rs.
 *
 * WiredTiger's own interface is structs of function pointers that differ between versions. This
 * file is compiled against the header of the WiredTiger that it is linked with (11.3 or 3.2), so
 * the Rust side needs to know none of them.
 *
 * Each function returns 0 or an error code of WiredTiger, whose text `peer_error` gives. A client
 * is a session with a cursor. One thread at a time may use it; a connection is for all threads.
 */
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <wiredtiger.h>

#define TABLE "table:pairs"

/*
 * How often a transaction that lost a conflict is tried again: the first times at once, then each
 * time a millisecond later, because the other one may have lost its processor.
 */
#define TRIES_AT_ONCE 1000
#define TRIES 10000

typedef struct {
    WT_SESSION *session;
    WT_CURSOR *cursor;
} client;

/* A write of a transaction. */
typedef struct {
    const uint8_t *key;
    size_t key_length;
    const uint8_t *value;
    size_t value_length;
    int32_t put;
} change;

typedef struct {
    uint64_t log_bytes;
    uint64_t pages_written;
    uint64_t pages_read;
    uint64_t evictions_by_clients;
    uint64_t evictions_by_clients_us;
} counts;

/* Takes a pair that was read. */
typedef void sink(void *of, const void *key, size_t key_length, const void *value, size_t value_length);

int peer_version(int32_t *major, int32_t *minor, int32_t *patch)
{
    int numbers[3];
    (void)wiredtiger_version(&numbers[0], &numbers[1], &numbers[2]);
    *major = numbers[0];
    *minor = numbers[1];
    *patch = numbers[2];
    return 0;
}

/* The text stays valid for known codes; a code that WiredTiger does not know shares its memory. */
const char *peer_error(int code)
{
    return wiredtiger_strerror(code);
}

int peer_open(const char *folder, const char *config, WT_CONNECTION **out)
{
    WT_CONNECTION *connection;
    WT_SESSION *session;
    int error = wiredtiger_open(folder, NULL, config, &connection);
    if (error != 0)
        return error;
    if ((error = connection->open_session(connection, NULL, NULL, &session)) == 0) {
        error = session->create(session, TABLE, "key_format=u,value_format=u");
        (void)session->close(session, NULL);
    }
    if (error != 0) {
        (void)connection->close(connection, NULL);
        return error;
    }
    *out = connection;
    return 0;
}

/* Closes all sessions, too: no client may be used again. */
int peer_close(WT_CONNECTION *connection)
{
    return connection->close(connection, NULL);
}

/* A client lives until its connection is closed; its few bytes are freed by `peer_forget`. */
int peer_client(WT_CONNECTION *connection, client **out)
{
    client *made = calloc(1, sizeof(client));
    int error;
    if (made == NULL)
        return WT_ERROR;
    error = connection->open_session(connection, NULL, "isolation=snapshot", &made->session);
    if (error == 0)
        error = made->session->open_cursor(made->session, TABLE, NULL, NULL, &made->cursor);
    if (error != 0) {
        if (made->session != NULL)
            (void)made->session->close(made->session, NULL);
        free(made);
        return error;
    }
    *out = made;
    return 0;
}

/* Frees a client after its connection was closed. */
void peer_forget(client *of)
{
    free(of);
}

static void set_key(WT_CURSOR *cursor, const uint8_t *key, size_t length)
{
    WT_ITEM item = {0};
    item.data = key;
    item.size = length;
    cursor->set_key(cursor, &item);
}

static int put(WT_CURSOR *cursor, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length)
{
    WT_ITEM item = {0};
    item.data = value;
    item.size = value_length;
    set_key(cursor, key, key_length);
    cursor->set_value(cursor, &item);
    return cursor->insert(cursor);
}

static int delete(WT_CURSOR *cursor, const uint8_t *key, size_t key_length)
{
    int error;
    set_key(cursor, key, key_length);
    error = cursor->remove(cursor);
    return error == WT_NOTFOUND ? 0 : error;
}

/* Lets go of the page under the cursor and tells of the first error. */
static int done(client *of, int error)
{
    int other = of->cursor->reset(of->cursor);
    return error != 0 ? error : other;
}

/* A write outside of a transaction is one of its own. WiredTiger repeats it after a conflict. */
int peer_put(client *of, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length)
{
    return done(of, put(of->cursor, key, key_length, value, value_length));
}

int peer_delete(client *of, const uint8_t *key, size_t key_length)
{
    return done(of, delete(of->cursor, key, key_length));
}

static int transaction(client *of, const change *changes, size_t count)
{
    WT_SESSION *session = of->session;
    int error = session->begin_transaction(session, NULL);
    if (error != 0)
        return error;
    for (size_t i = 0; i < count && error == 0; i++) {
        const change *one = &changes[i];
        error = one->put ?
          put(of->cursor, one->key, one->key_length, one->value, one->value_length) :
          delete(of->cursor, one->key, one->key_length);
    }
    if (error != 0) {
        (void)session->rollback_transaction(session, NULL);
        return error;
    }
    /* One that fails has been rolled back. */
    return session->commit_transaction(session, NULL);
}

int peer_write(client *of, const change *changes, size_t count)
{
    int error = WT_ROLLBACK;
    for (int tries = 0; tries < TRIES && error == WT_ROLLBACK; tries++) {
        if (tries > TRIES_AT_ONCE)
            (void)usleep(1000);
        else if (tries > 0)
            (void)sched_yield();
        error = transaction(of, changes, count);
    }
    return error;
}

static int tell(client *of, sink *into, void *context, size_t *length)
{
    WT_CURSOR *cursor = of->cursor;
    WT_ITEM key, value;
    int error = cursor->get_key(cursor, &key);
    if (error == 0 && (error = cursor->get_value(cursor, &value)) == 0) {
        if (into != NULL)
            into(context, key.data, key.size, value.data, value.size);
        *length = value.size;
    }
    return error;
}

/* The length of the value, or -1 where there is none; `into` may be null. */
int peer_get(client *of, const uint8_t *key, size_t key_length, sink *into, void *context, int64_t *out)
{
    size_t length = 0;
    int error;
    set_key(of->cursor, key, key_length);
    error = of->cursor->search(of->cursor);
    if (error == 0)
        error = tell(of, into, context, &length);
    *out = error == 0 ? (int64_t)length : -1;
    return done(of, error == WT_NOTFOUND ? 0 : error);
}

int peer_scan(client *of, const uint8_t *start, size_t start_length, size_t limit, sink *into, void *context, size_t *count)
{
    WT_CURSOR *cursor = of->cursor;
    size_t length;
    int error = 0;
    *count = 0;
    if (limit == 0)
        return 0;
    if (start_length == 0) {
        error = cursor->next(cursor);
    } else {
        int beside = 0;
        set_key(cursor, start, start_length);
        error = cursor->search_near(cursor, &beside);
        if (error == 0 && beside < 0)
            error = cursor->next(cursor);
    }
    while (error == 0 && (error = tell(of, into, context, &length)) == 0 && ++*count < limit)
        error = cursor->next(cursor);
    return done(of, error == WT_NOTFOUND ? 0 : error);
}

int peer_checkpoint(client *of)
{
    return of->session->checkpoint(of->session, NULL);
}

static int statistic(WT_CURSOR *cursor, int number, uint64_t *out)
{
    const char *what, *text;
    int64_t value = 0;
    int error;
    cursor->set_key(cursor, number);
    if ((error = cursor->search(cursor)) == 0)
        error = cursor->get_value(cursor, &what, &text, &value);
    *out = (uint64_t)value;
    return error;
}

/* The names of two statistics changed between the versions. */
#ifdef WT_STAT_CONN_EVICTION_APP_TIME
#define EVICTIONS WT_STAT_CONN_EVICTION_APP_ATTEMPT
#define EVICTIONS_US WT_STAT_CONN_EVICTION_APP_TIME
#else
#define EVICTIONS WT_STAT_CONN_CACHE_EVICTION_APP
#define EVICTIONS_US WT_STAT_CONN_APPLICATION_EVICT_TIME
#endif

int peer_counts(client *of, counts *out)
{
    WT_CURSOR *cursor;
    int other;
    int error = of->session->open_cursor(of->session, "statistics:", NULL, "statistics=(fast)", &cursor);
    if (error != 0)
        return error;
    error = statistic(cursor, WT_STAT_CONN_LOG_BYTES_WRITTEN, &out->log_bytes);
    if (error == 0)
        error = statistic(cursor, WT_STAT_CONN_BLOCK_BYTE_WRITE, &out->pages_written);
    if (error == 0)
        error = statistic(cursor, WT_STAT_CONN_BLOCK_BYTE_READ, &out->pages_read);
    if (error == 0)
        error = statistic(cursor, EVICTIONS, &out->evictions_by_clients);
    if (error == 0)
        error = statistic(cursor, EVICTIONS_US, &out->evictions_by_clients_us);
    other = cursor->close(cursor);
    return error != 0 ? error : other;
}
