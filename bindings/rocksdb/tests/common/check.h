/*
 * Checks of the C programs, and what they share: options, a folder, short reads and writes.
 */
#include "functions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *error;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s; error: %s\n", __FILE__, __LINE__, #what, error ? error : "none"); \
            exit(1); \
        } \
    } while (0)

#define GOOD(call) \
    do { \
        call; \
        CHECK(error == NULL); \
    } while (0)

/* The call fails with an error that begins with this text. */
#define BAD(call, kind) \
    do { \
        call; \
        CHECK(error != NULL && strncmp(error, kind, strlen(kind)) == 0); \
        rocksdb_free(error); \
        error = NULL; \
    } while (0)

static rocksdb_options_t *options;
static rocksdb_readoptions_t *reading;
static rocksdb_writeoptions_t *writing;
static char folder[4096];

static const char *in(const char *name)
{
    static char path[5000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int has(rocksdb_t *db, rocksdb_column_family_handle_t *family, const char *key, const char *expected)
{
    size_t len = 0;
    char *value = family ? rocksdb_get_cf(db, reading, family, key, strlen(key), &len, &error)
                         : rocksdb_get(db, reading, key, strlen(key), &len, &error);
    int same = expected ? value && len == strlen(expected) && !memcmp(value, expected, len) : value == NULL;
    rocksdb_free(value);
    return same && error == NULL;
}

static void put(rocksdb_t *db, const char *key, const char *value)
{
    GOOD(rocksdb_put(db, writing, key, strlen(key), value, strlen(value), &error));
}

static int at(rocksdb_iterator_t *iter, const char *key)
{
    size_t len = 0;
    if (!rocksdb_iter_valid(iter))
        return key == NULL;
    const char *found = rocksdb_iter_key(iter, &len);
    return key != NULL && len == strlen(key) && !memcmp(found, key, len);
}

/* The folder is the program's argument. */
static void begin(int argc, char **argv)
{
    CHECK(argc == 2);
    snprintf(folder, sizeof folder, "%s", argv[1]);
    options = rocksdb_options_create();
    reading = rocksdb_readoptions_create();
    writing = rocksdb_writeoptions_create();
}

static void end(void)
{
    rocksdb_options_destroy(options);
    rocksdb_readoptions_destroy(reading);
    rocksdb_writeoptions_destroy(writing);
}
