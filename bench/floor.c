/*
 * floor: the least that a lock costs with the same C client: libzookeeper_st, one thread, a separate poll loop.
 *
 * floor cycle SERVERS PATH COUNT
 *     In turn, COUNT times each:
 *       - create an ephemeral sequential node with zoo_acreate2, wait; delete it, wait;
 *       - create one and list its directory in one round trip, wait for both; delete it, wait.
 *     The second is the least that a lock which checks its place can do. Prints the medians in microseconds, and what
 *     percent of the first kind's cycles took at most how long.
 *
 * floor crowd SERVERS PATH many 1 COUNT WARM_UP SECONDS DIR
 *     COUNT nodes at a time, each in a separate directory: whenever one was created it is deleted, and created again
 *     when it was deleted, all requests in flight together. Counts what was created between WARM_UP seconds and
 *     SECONDS later.
 *
 * floor first SERVERS PATH COUNT
 *     COUNT times each:
 *       - read the root with exists, wait;
 *       - create a node and list its directory in one round trip, wait for both;
 *       - do the same, then send a multi that checks the node, wait.
 *     Deletes each node, which is not timed. Prints the medians in microseconds, a line each.
 *
 * floor once SERVERS PATH 1
 *     Creates a node and deletes it, which is the least that a command does which opens a session for one lock. Prints
 *     nothing.
 *
 * PATH is created if its parent exists, except by `once`. The nodes' path is as long as a lock's, the data as long as an identity.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

#define SESSION_TIMEOUT_MS 60000
#define CONNECT_TIMEOUT_MS 20000

/* As long as the name of a lock's node. */
#define NAME "_c_00000000-0000-0000-0000-000000000000-lock-"

/* As long as "host:pid" often is. */
#define DATA "localhost:1234567"

static zhandle_t *handle;
static int pending;    /* replies that are still to come */
static int failure;    /* the first reply that was an error */
static char node[512]; /* the node that the last create made */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void die(const char *what, int rc)
{
    fprintf(stderr, "floor: %s: %s\n", what, zerror(rc));
    exit(1);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)path, (void)context;
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        die("the session ended", ZSESSIONEXPIRED);
    }
}

static void replied(int rc)
{
    pending--;
    if (rc != ZOK && failure == ZOK) {
        failure = rc;
    }
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    (void)stat, (void)data;
    if (rc == ZOK) {
        snprintf(node, sizeof node, "%s", path);
    }
    replied(rc);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    (void)names, (void)data;
    replied(rc);
}

static void on_text(int rc, const char *text, const void *data)
{
    (void)text, (void)data;
    replied(rc == ZNODEEXISTS ? ZOK : rc);
}

static void on_done(int rc, const void *data)
{
    (void)data;
    replied(rc);
}

/* A failure while connecting is retried: the next call tries the next server. */
static bool may_fail(int rc)
{
    return zoo_state(handle) != ZOO_CONNECTED_STATE && (rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT) &&
           pending == 0;
}

/* One turn of the loop: sends queued requests, waits, takes what has arrived. */
static void turn(void)
{
    int fd = -1, interest = 0;
    struct timeval wait = {0, 0};
    int rc = zookeeper_interest(handle, &fd, &interest, &wait);
    if (may_fail(rc)) {
        poll(NULL, 0, 10);
        return;
    }
    if (rc != ZOK) {
        die("zookeeper_interest", rc);
    }
    struct pollfd polled = {
        .fd = fd,
        .events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                          ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0)),
    };
    int timeout = (int)(wait.tv_sec * 1000 + wait.tv_usec / 1000);
    if (poll(&polled, 1, timeout) < 0 && errno != EINTR) {
        perror("floor: poll");
        exit(1);
    }
    int events = ((polled.revents & ~POLLOUT) != 0 ? ZOOKEEPER_READ : 0) |
                 ((polled.revents & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0);
    rc = zookeeper_process(handle, events);
    if (rc != ZOK && rc != ZNOTHING && !may_fail(rc)) {
        die("zookeeper_process", rc);
    }
}

/* Waits for the replies to all requests. */
static void await(const char *what, int sent_rc)
{
    if (sent_rc != ZOK) {
        die(what, sent_rc);
    }
    while (pending > 0) {
        turn();
    }
    if (failure != ZOK) {
        die(what, failure);
    }
}

static int send_create(const char *prefix)
{
    pending++;
    return zoo_acreate2(handle, prefix, DATA, (int)strlen(DATA), &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                        on_created, NULL);
}

static void create(const char *prefix)
{
    await("create", send_create(prefix));
}

static void create_and_list(const char *prefix, const char *path)
{
    int rc = send_create(prefix);
    pending++;
    await("create and list", rc != ZOK ? rc : zoo_aget_children(handle, path, 0, on_names, NULL));
}

static void delete_node(void)
{
    pending++;
    await("delete", zoo_adelete(handle, node, -1, on_done, NULL));
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(int64_t *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return (double)values[count / 2] / 1000;
}

static void connect_to(const char *servers)
{
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle = zookeeper_init2(servers, on_session, SESSION_TIMEOUT_MS, NULL, NULL, ZOO_NO_LOG_CLIENTENV, NULL);
    if (handle == NULL) {
        perror("floor: zookeeper_init");
        exit(1);
    }
    int64_t give_up = now_ns() + (int64_t)CONNECT_TIMEOUT_MS * 1000000;
    while (zoo_state(handle) != ZOO_CONNECTED_STATE) {
        if (now_ns() > give_up) {
            die("connecting", ZOPERATIONTIMEOUT);
        }
        turn();
    }
    zoo_set_servers_resolution_delay(handle, -1); /* otherwise every turn calls getaddrinfo */
}

/* A quorum write that changes nothing. */
static void check_node(void)
{
    zoo_op_t op;
    zoo_op_result_t result;
    zoo_check_op_init(&op, node, -1);
    pending++;
    await("check", zoo_amulti(handle, 1, &op, &result, on_done, NULL));
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat, (void)data;
    replied(rc);
}

static void look_at_root(void)
{
    pending++;
    await("exists", zoo_aexists(handle, "/", 0, on_stat, NULL));
}

/* Makes the directory `path`. */
static void make_directory(const char *path)
{
    pending++;
    await("make the directory", zoo_acreate(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, on_text, NULL));
}

/* Prints the quantiles of sorted values: 0, 1, ... 100 percent. */
static void print_quantiles(const int64_t *values, int count)
{
    printf("quantiles_us=");
    for (int percent = 0; percent <= 100; percent++) {
        int index = (int)((int64_t)(count - 1) * percent / 100);
        printf("%s%.1f", percent == 0 ? "" : ",", (double)values[index] / 1000);
    }
}

static int run_cycles(const char *path, int count)
{
    char prefix[512];
    snprintf(prefix, sizeof prefix, "%s/%s", path, NAME);
    enum {
        CREATE,
        DELETE,
        CYCLE,
        PAIR,
        PAIR_CYCLE,
        MEASURES
    };
    int64_t *times[MEASURES];
    for (int i = 0; i < MEASURES; i++) {
        times[i] = calloc((size_t)count, sizeof *times[i]);
        if (times[i] == NULL) {
            perror("floor");
            return 1;
        }
    }
    make_directory(path);
    int warm_up = count / 10 + 1;
    for (int i = -warm_up; i < count; i++) {
        int64_t t0 = now_ns();
        create(prefix);
        int64_t t1 = now_ns();
        delete_node();
        int64_t t2 = now_ns();
        create_and_list(prefix, path);
        int64_t t3 = now_ns();
        delete_node();
        int64_t t4 = now_ns();
        if (i >= 0) {
            times[CREATE][i] = t1 - t0;
            times[DELETE][i] = t2 - t1;
            times[CYCLE][i] = t2 - t0;
            times[PAIR][i] = t3 - t2;
            times[PAIR_CYCLE][i] = t4 - t2;
        }
    }
    printf("name=floor count=%d acquire_us=%.1f release_us=%.1f cycle_us=%.1f pair_us=%.1f pair_cycle_us=%.1f ", count,
           median_us(times[CREATE], count), median_us(times[DELETE], count), median_us(times[CYCLE], count),
           median_us(times[PAIR], count), median_us(times[PAIR_CYCLE], count));
    print_quantiles(times[CYCLE], count);
    putchar('\n');
    for (int i = 0; i < MEASURES; i++) {
        free(times[i]);
    }
    return 0;
}

static int run_first(const char *path, int count)
{
    enum {
        EXISTS,
        CREATE,
        CHECKED,
        MEASURES
    };
    static const char *const names[MEASURES] = {"exists", "create", "create-check"};
    char prefix[512];
    snprintf(prefix, sizeof prefix, "%s/%s", path, NAME);
    int64_t *times = calloc((size_t)count, sizeof *times);
    if (times == NULL) {
        perror("floor");
        return 1;
    }
    make_directory(path);
    int warm_up = count / 10 + 1;
    for (int measure = 0; measure < MEASURES; measure++) {
        for (int i = -warm_up; i < count; i++) {
            int64_t began = now_ns();
            if (measure == EXISTS) {
                look_at_root();
            } else {
                create_and_list(prefix, path);
            }
            if (measure == CHECKED) {
                check_node();
            }
            int64_t ended = now_ns();
            if (measure != EXISTS) {
                delete_node();
            }
            if (i >= 0) {
                times[i] = ended - began;
            }
        }
        printf("name=floor what=%s us=%.1f\n", names[measure], median_us(times, count));
    }
    free(times);
    return 0;
}

static int run_once(const char *path)
{
    char prefix[512];
    snprintf(prefix, sizeof prefix, "%s/%s", path, NAME);
    create(prefix);
    delete_node();
    return 0;
}

/* A node that is created and deleted again and again; the callbacks' context. */
struct slot {
    char prefix[256];
    char node[300];
};

static int64_t count_from, count_to; /* nanoseconds between which creations count */
static long created;

static void on_slot_created(int rc, const char *path, const struct Stat *stat, const void *data);

static void create_in(struct slot *slot)
{
    pending++;
    int rc = zoo_acreate2(handle, slot->prefix, DATA, (int)strlen(DATA), &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                          on_slot_created, slot);
    if (rc != ZOK) {
        die("create", rc);
    }
}

static void on_slot_deleted(int rc, const void *data)
{
    replied(rc);
    if (rc == ZOK && now_ns() < count_to) {
        create_in((struct slot *)(uintptr_t)data);
    }
}

static void on_slot_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    (void)stat;
    replied(rc);
    if (rc != ZOK) {
        return;
    }
    struct slot *slot = (struct slot *)(uintptr_t)data;
    int64_t now = now_ns();
    if (now >= count_from && now < count_to) {
        created++;
    }
    snprintf(slot->node, sizeof slot->node, "%s", path);
    pending++;
    rc = zoo_adelete(handle, slot->node, -1, on_slot_deleted, slot);
    if (rc != ZOK) {
        die("delete", rc);
    }
}

static int run_crowd(const char *path, int count, double warm_up, double seconds)
{
    struct slot *slots = calloc((size_t)count, sizeof *slots);
    if (slots == NULL) {
        perror("floor");
        return 1;
    }
    for (int i = 0; i < count; i++) {
        snprintf(slots[i].prefix, sizeof slots[i].prefix, "%s-%d", path, i + 1);
        make_directory(slots[i].prefix);
        snprintf(slots[i].prefix, sizeof slots[i].prefix, "%s-%d/%s", path, i + 1, NAME);
    }
    count_from = now_ns() + (int64_t)(warm_up * 1e9);
    count_to = count_from + (int64_t)(seconds * 1e9);
    for (int i = 0; i < count; i++) {
        create_in(&slots[i]);
    }
    await("create and delete", ZOK);
    printf("name=floor clients=1 each=%d seconds=%.3f turns=%ld violations=0 failures=0\n", count, seconds, created);
    free(slots);
    return 0;
}

int main(int argc, char **argv)
{
    bool cycles = argc == 5 && strcmp(argv[1], "cycle") == 0;
    bool first = argc == 5 && strcmp(argv[1], "first") == 0;
    bool once = argc == 5 && strcmp(argv[1], "once") == 0;
    bool crowd = argc == 10 && strcmp(argv[1], "crowd") == 0 && strcmp(argv[4], "many") == 0;
    int count = cycles || first || once ? atoi(argv[4]) : crowd ? atoi(argv[6]) : 0;
    if (count < 1) {
        fprintf(stderr, "Usage: floor cycle SERVERS PATH COUNT\n"
                        "       floor first SERVERS PATH COUNT\n"
                        "       floor once SERVERS PATH 1\n"
                        "       floor crowd SERVERS PATH many 1 COUNT WARM_UP SECONDS DIR\n");
        return 2;
    }
    connect_to(argv[2]);
    int status = cycles  ? run_cycles(argv[3], count)
                 : first ? run_first(argv[3], count)
                 : once  ? run_once(argv[3])
                         : run_crowd(argv[3], count, atof(argv[7]), atof(argv[8]));
    zookeeper_close(handle);
    return status;
}
