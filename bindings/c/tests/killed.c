/*
 * Writes numbers one after the other, and says each when it is acknowledged, until it is killed; or
 * checks a store that it left: `killed FOLDER` writes, `killed FOLDER LAST` checks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vlsm.h>

static void good(vlsm_error *error)
{
    if (error != NULL) {
        fprintf(stderr, "%s\n", vlsm_error_message(error));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    vlsm_db *db;
    vlsm_keyspace *plain;
    vlsm_bytes value;
    good(vlsm_open(argv[1], NULL, &db));
    good(vlsm_keyspace_default(db, &plain));
    good(vlsm_get(plain, NULL, (const uint8_t *)"last", 4, &value));
    unsigned long last = value.data == NULL ? 0 : strtoul((const char *)value.data, NULL, 10);
    vlsm_bytes_free(&value);
    if (argc > 2) {
        unsigned long told = strtoul(argv[2], NULL, 10);
        if (last < told) {
            fprintf(stderr, "%lu was acknowledged, and %lu is there\n", told, last);
            return 1;
        }
        vlsm_keyspace_free(plain);
        good(vlsm_close(db));
        vlsm_db_free(db);
        return 0;
    }
    for (;;) {
        char text[24];
        int len = snprintf(text, sizeof text, "%lu", ++last);
        good(vlsm_put(plain, (const uint8_t *)"last", 4, (const uint8_t *)text, (size_t)len + 1, NULL));
        printf("%lu\n", last);
        fflush(stdout);
    }
}
