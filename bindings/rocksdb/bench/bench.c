/*
 * A load like that of RocksDB's db_bench, by rocksdb/c.h alone: the same program runs on either library.
 *
 *     bench FOLDER [NAME=NUMBER ...] WORKLOAD ...
 *
 * The workloads run one after the other on the store in FOLDER, and `fillrandom` removes it first. An option
 * counts for the workloads behind it. A pair has 24 + 176 bytes; half of a value can be compressed away. Every
 * operation is timed. With a rate it is timed from the moment at which it was due, so that a wait counts for
 * all operations that it holds up.
 */
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { KEY = 24, VALUE = 176, POOL = 1 << 20, STEPS = 32, BUCKETS = 64 * STEPS, THREADS = 64 };

/* ---- options ---- */

static uint64_t pairs = 1000000, threads = 1, seconds = 10, sync_writes = 0, rate = 0, memtable = 64, cache = 256,
                nexts = 10;

static const struct {
    const char *name, *help;
    uint64_t *value;
} OPTIONS[] = {
    {"pairs", "keys are numbers below this; a load of writes ends after as many operations", &pairs},
    {"threads", "threads of a workload; readwhilewriting has a writer besides", &threads},
    {"seconds", "a workload ends after this time at the latest", &seconds},
    {"sync", "1: a write waits until it is on the device", &sync_writes},
    {"rate", "writes per second of all threads together; 0: as fast as they go", &rate},
    {"memtable", "write_buffer_size in MiB", &memtable},
    {"cache", "size of the block cache in MiB", &cache},
    {"nexts", "steps after each seek of seekrandom", &nexts},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

/* ---- time and chance ---- */

static uint64_t now(void) /* nanoseconds */
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void sleep_until(uint64_t when)
{
    struct timespec time = {(time_t)(when / 1000000000), (long)(when % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        ;
}

static uint64_t chance(uint64_t *state) /* splitmix64 */
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

static char pool[POOL + VALUE];

static void fill_pool(void)
{
    uint64_t state = 1;
    for (size_t at = 0; at < sizeof pool; at++)
        pool[at] = at % 16 < 8 ? (char)chance(&state) : 'v';
}

/* Eight bytes in the order of the numbers, then zeros, as in db_bench. */
static void make_key(char *key, uint64_t number)
{
    memset(key, '0', KEY);
    for (int at = 0; at < 8; at++)
        key[at] = (char)(number >> (56 - 8 * at));
}

/* ---- latencies, in buckets that are 1/32 wide ---- */

typedef struct {
    uint64_t counts[BUCKETS], count, max;
} histogram_t;

static void record(histogram_t *all, uint64_t nanos)
{
    int bits = nanos < STEPS ? 0 : 58 - __builtin_clzll(nanos);
    all->counts[(uint64_t)bits * STEPS + (nanos >> bits)]++;
    all->count++;
    if (nanos > all->max)
        all->max = nanos;
}

static void add(histogram_t *all, const histogram_t *part)
{
    for (int at = 0; at < BUCKETS; at++)
        all->counts[at] += part->counts[at];
    all->count += part->count;
    if (part->max > all->max)
        all->max = part->max;
}

/* Microseconds that a share of the operations took at most. */
static double percentile(const histogram_t *all, double share)
{
    uint64_t left = (uint64_t)((double)all->count * share);
    for (uint64_t at = 0; at < BUCKETS; at++) {
        if (all->counts[at] > left) {
            uint64_t bits = at < 2 * STEPS ? 0 : at / STEPS - 1;
            uint64_t end = (at - bits * STEPS + 1) << bits;
            return (double)(end < all->max ? end : all->max) / 1000;
        }
        left -= all->counts[at];
    }
    return (double)all->max / 1000;
}

/* ---- operations ---- */

static rocksdb_t *db;
static rocksdb_readoptions_t *reading;
static rocksdb_writeoptions_t *writing;

static void good(const char *error, const char *doing)
{
    if (error == NULL)
        return;
    fprintf(stderr, "bench: %s: %s\n", doing, error);
    exit(1);
}

typedef struct {
    uint64_t state, found;
    rocksdb_iterator_t *iterator;
    histogram_t latencies;
} worker_t;

static void put(worker_t *worker)
{
    char key[KEY], *error = NULL;
    make_key(key, chance(&worker->state) % pairs);
    rocksdb_put(db, writing, key, KEY, pool + chance(&worker->state) % POOL, VALUE, &error);
    good(error, "put");
}

static void get(worker_t *worker)
{
    char key[KEY], *error = NULL;
    make_key(key, chance(&worker->state) % pairs);
    rocksdb_pinnableslice_t *value = rocksdb_get_pinned(db, reading, key, KEY, &error);
    good(error, "get");
    if (value != NULL) {
        size_t len = 0;
        rocksdb_pinnableslice_value(value, &len);
        if (len != VALUE)
            good("a value has another length than was written", "get");
        worker->found++;
        rocksdb_pinnableslice_destroy(value);
    }
}

static void seek(worker_t *worker)
{
    char key[KEY], *error = NULL;
    make_key(key, chance(&worker->state) % pairs);
    rocksdb_iter_seek(worker->iterator, key, KEY);
    worker->found += rocksdb_iter_valid(worker->iterator);
    for (uint64_t step = 0; step < nexts && rocksdb_iter_valid(worker->iterator); step++) {
        size_t len = 0;
        rocksdb_iter_value(worker->iterator, &len);
        rocksdb_iter_next(worker->iterator);
    }
    rocksdb_iter_get_error(worker->iterator, &error);
    good(error, "seek");
}

/* ---- workloads ---- */

static const struct {
    const char *name;
    void (*operation)(worker_t *);
    int fresh, writes, writer; /* removes the store first; ends after `pairs`; has a writer besides */
} WORKLOADS[] = {
    {"fillrandom", put, 1, 1, 0}, {"overwrite", put, 0, 1, 0},        {"readrandom", get, 0, 0, 0},
    {"seekrandom", seek, 0, 0, 0}, {"readwhilewriting", get, 0, 0, 1},
};
enum { WORKLOAD_COUNT = sizeof WORKLOADS / sizeof *WORKLOADS };

/* The next operation's number, and the number of the first that is not done. */
static _Atomic uint64_t next_write;
static uint64_t began, ends, last_write;

static void run(worker_t *worker, void (*operation)(worker_t *))
{
    for (;;) {
        uint64_t due = now();
        if (operation == put) {
            uint64_t number = atomic_fetch_add(&next_write, 1);
            if (number >= last_write)
                return;
            if (rate != 0) {
                uint64_t start = began + (uint64_t)((double)number * 1e9 / (double)rate);
                if (start >= ends)
                    return;
                if (start > due)
                    sleep_until(start);
                due = start;
            }
        }
        if (now() >= ends)
            return;
        operation(worker);
        record(&worker->latencies, now() - due);
    }
}

typedef struct {
    pthread_t thread;
    void (*operation)(worker_t *);
    worker_t worker;
} task_t;

static void *start(void *argument)
{
    task_t *task = argument;
    run(&task->worker, task->operation);
    return NULL;
}

static void report(const char *name, const histogram_t *all, uint64_t found, double took)
{
    printf("%-18s %9.0f ops/s  P50 %8.1f  P99 %8.1f  P99.9 %9.1f  max %10.1f us", name,
           (double)all->count / took, percentile(all, 0.5), percentile(all, 0.99), percentile(all, 0.999),
           (double)all->max / 1000);
    if (found != 0)
        printf("  found %llu of %llu", (unsigned long long)found, (unsigned long long)all->count);
    printf("\n");
    fflush(stdout);
}

/* As both libraries have them by other defaults: LZ4, filters of 10 bits a key, one size of the cache. */
static void set_tables(rocksdb_options_t *options)
{
    rocksdb_block_based_table_options_t *tables = rocksdb_block_based_options_create();
    rocksdb_cache_t *blocks = rocksdb_cache_create_lru(cache << 20);
    rocksdb_block_based_options_set_block_cache(tables, blocks);
    rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(options, tables);
    rocksdb_options_set_compression(options, rocksdb_lz4_compression);
    rocksdb_cache_destroy(blocks);
    rocksdb_block_based_options_destroy(tables);
}

static void open_store(const rocksdb_options_t *options, const char *folder, int fresh)
{
    char *error = NULL;
    if (db != NULL)
        rocksdb_close(db);
    if (fresh) {
        rocksdb_destroy_db(options, folder, &error);
        rocksdb_free(error); /* there may be none */
        error = NULL;
    }
    db = rocksdb_open(options, folder, &error);
    good(error, "open");
}

static void workload(int which, uint64_t round)
{
    static task_t tasks[THREADS + 1];
    if (threads < 1 || threads > THREADS || pairs == 0)
        good("threads go from 1 to 64, and there is at least one pair", WORKLOADS[which].name);
    uint64_t count = threads + (uint64_t)WORKLOADS[which].writer;
    memset(tasks, 0, sizeof tasks);
    for (uint64_t at = 0; at < count; at++) {
        tasks[at].operation = at < threads ? WORKLOADS[which].operation : put;
        tasks[at].worker.state = (round * THREADS + at) << 32;
        if (WORKLOADS[which].operation == seek)
            tasks[at].worker.iterator = rocksdb_create_iterator(db, reading);
    }
    next_write = 0;
    last_write = WORKLOADS[which].writes ? pairs : UINT64_MAX;
    began = now();
    ends = began + seconds * 1000000000;
    for (uint64_t at = 0; at < count; at++)
        if (pthread_create(&tasks[at].thread, NULL, start, &tasks[at]) != 0)
            good("no thread can be started", WORKLOADS[which].name);
    for (uint64_t at = 0; at < count; at++)
        pthread_join(tasks[at].thread, NULL);
    double took = (double)(now() - began) / 1e9;
    static histogram_t all;
    memset(&all, 0, sizeof all);
    uint64_t found = 0;
    for (uint64_t at = 0; at < threads; at++) {
        add(&all, &tasks[at].worker.latencies);
        found += tasks[at].worker.found;
    }
    report(WORKLOADS[which].name, &all, found, took);
    if (WORKLOADS[which].writer)
        report("  its writer", &tasks[threads].worker.latencies, 0, took);
    for (uint64_t at = 0; at < threads; at++)
        if (tasks[at].worker.iterator != NULL)
            rocksdb_iter_destroy(tasks[at].worker.iterator);
}

/* ---- the command line ---- */

static void usage(void)
{
    fprintf(stderr, "usage: bench FOLDER [NAME=NUMBER ...] WORKLOAD ...\nworkloads:");
    for (int at = 0; at < WORKLOAD_COUNT; at++)
        fprintf(stderr, " %s", WORKLOADS[at].name);
    fprintf(stderr, "\n");
    for (int at = 0; at < OPTION_COUNT; at++)
        fprintf(stderr, "  %-9s %s (%llu)\n", OPTIONS[at].name, OPTIONS[at].help,
                (unsigned long long)*OPTIONS[at].value);
    exit(2);
}

static int named_workload(const char *name)
{
    for (int at = 0; at < WORKLOAD_COUNT; at++)
        if (strcmp(name, WORKLOADS[at].name) == 0)
            return at;
    fprintf(stderr, "bench: there is no workload %s\n", name);
    usage();
    return 0;
}

static void set_option(const char *argument, const char *equals, int only_check)
{
    for (int at = 0; at < OPTION_COUNT; at++) {
        size_t len = strlen(OPTIONS[at].name);
        if (len == (size_t)(equals - argument) && strncmp(argument, OPTIONS[at].name, len) == 0) {
            char *end;
            uint64_t number = strtoull(equals + 1, &end, 10);
            if (*end != '\0' || end == equals + 1)
                break;
            if (!only_check)
                *OPTIONS[at].value = number;
            return;
        }
    }
    fprintf(stderr, "bench: %s is no option with a number\n", argument);
    usage();
}

int main(int count, char **arguments)
{
    if (count < 3)
        usage();
    for (int at = 2; at < count; at++) {
        const char *equals = strchr(arguments[at], '=');
        if (equals != NULL)
            set_option(arguments[at], equals, 1);
        else
            named_workload(arguments[at]);
    }
    fill_pool();
    prctl(PR_SET_TIMERSLACK, 1); /* else a sleep before an operation that is not due takes 50 us more */
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    reading = rocksdb_readoptions_create();
    writing = rocksdb_writeoptions_create();
    for (int at = 2; at < count; at++) {
        const char *equals = strchr(arguments[at], '=');
        if (equals != NULL) {
            set_option(arguments[at], equals, 0);
            continue;
        }
        int which = named_workload(arguments[at]);
        rocksdb_options_set_write_buffer_size(options, memtable << 20);
        rocksdb_writeoptions_set_sync(writing, sync_writes != 0);
        if (WORKLOADS[which].fresh || db == NULL) {
            set_tables(options);
            open_store(options, arguments[1], WORKLOADS[which].fresh);
        }
        workload(which, (uint64_t)at);
    }
    if (db != NULL)
        rocksdb_close(db);
    rocksdb_writeoptions_destroy(writing);
    rocksdb_readoptions_destroy(reading);
    rocksdb_options_destroy(options);
    return 0;
}
