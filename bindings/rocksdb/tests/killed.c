/*
 * Writes numbers one after the other with the default options, and says each when it is acknowledged,
 * until it is killed; or checks a store that it left: `killed FOLDER` writes, `killed FOLDER LAST` checks.
 */
#include "functions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *error;

static void good(void)
{
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
    rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_t *db = rocksdb_open(options, argv[1], &error);
    good();
    size_t len = 0;
    char *value = rocksdb_get(db, reading, "last", 4, &len, &error);
    good();
    unsigned long last = value == NULL ? 0 : strtoul(value, NULL, 10);
    rocksdb_free(value);
    if (argc > 2) {
        unsigned long told = strtoul(argv[2], NULL, 10);
        if (last < told) {
            fprintf(stderr, "%lu was acknowledged, and %lu is there\n", told, last);
            return 1;
        }
        rocksdb_close(db);
        return 0;
    }
    for (;;) {
        char text[24];
        int size = snprintf(text, sizeof text, "%lu", ++last);
        rocksdb_put(db, writing, "last", 4, text, (size_t)size + 1, &error);
        good();
        printf("%lu\n", last);
        fflush(stdout);
    }
}
