/*
 * programs: random programs of two clients. They print requests, answers and events. One seed has to print the same in both worlds, which
 * tools/test.sh checks.
 *
 * Each step is awaited before the next one. Sessions and zxids are numbered in the order of their appearance. The events of one step
 * are sorted, because the client keeps watchers in hash tables.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

#define STEPS 60
#define WATCHES 4
#define PARTS 5

static uint64_t random_state;
static int64_t zxids[1000], sessions[100];
static int zxid_count, session_count;
static watch watches[2][WATCHES];

/* A random number below `bound`; splitmix64. */
static int pick(int bound)
{
    uint64_t mixed = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int)((mixed ^ mixed >> 31) % (uint64_t)bound);
}

static const char *pick_path(void)
{
    static const char *const paths[] = {
        "/d",   "/d",    "/e",   "/d/a", "/d/a", "/d/b", "/d/a/x",          "/e/a",        "/d/n-0000000000",
        "/e/b", "/d/n-", "/e/n", "/",    "/d/",  "/e/.", "/e/n-0000000001", "/d/a/x/none", "/none/a"};
    return paths[pick(sizeof(paths) / sizeof(paths[0]))];
}

static int name_of(int64_t *table, int *count, int size, int64_t value)
{
    for (int i = 0; i < *count; i++) {
        if (table[i] == value)
            return i;
    }
    if (*count < size)
        table[(*count)++] = value;
    return *count - 1;
}

static void print_stat(const struct Stat *stat)
{
    printf(" c%d m%d p%d version %d %d %d owner %d length %d children %d",
           name_of(zxids, &zxid_count, 1000, stat->czxid), name_of(zxids, &zxid_count, 1000, stat->mzxid),
           name_of(zxids, &zxid_count, 1000, stat->pzxid), stat->version, stat->cversion, stat->aversion,
           stat->ephemeralOwner == 0 ? -1 : name_of(sessions, &session_count, 100, stat->ephemeralOwner),
           stat->dataLength, stat->numChildren);
}

static int compare_words(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void print_story(int client)
{
    char text[4000];
    const char *words[500] = {NULL};
    int count = 0;
    snprintf(text, sizeof(text), "%s", told(client));
    for (char *word = strtok(text, " "); word != NULL && count < 500; word = strtok(NULL, " "))
        words[count++] = word;
    qsort(words, (size_t)count, sizeof(words[0]), compare_words);
    for (int i = 0; i < count; i++)
        printf("%s%s", i == 0 ? "    told: " : " ", words[i]);
    if (count > 0)
        printf(" (%d)\n", client);
}

static void print_answer(int submitted, const answer *given)
{
    if (submitted != ZOK) {
        printf(" refused %d\n", submitted);
        return;
    }
    printf(" = %d", RESULT(given));
    if (given->rc == ZOK) {
        printf(" \"%s\"%s %d", given->text, given->null ? " null" : "", given->length);
        if (given->stat.czxid != 0)
            print_stat(&given->stat);
    }
    printf("\n");
}

/* The root has numbered the children of other programs, too. */
static int pick_mode(const char *path)
{
    const int modes[] = {ZOO_PERSISTENT, ZOO_EPHEMERAL, ZOO_PERSISTENT_SEQUENTIAL, ZOO_EPHEMERAL_SEQUENTIAL};
    return modes[pick(strrchr(path, '/') == path ? 2 : 4)];
}

static int pick_version(void)
{
    return pick(3) > 0 ? -1 : pick(3);
}

static const char *pick_data(int *length)
{
    static const char *const data[] = {"", "x", "word"};
    const char *one = pick(6) > 0 ? data[pick(3)] : NULL;
    *length = one != NULL ? (int)strlen(one) : -1;
    return one;
}

/* No program may change the root: unlike everything else it is not new in each program. */
static const char *pick_own_path(void)
{
    const char *path = pick_path();
    return strcmp(path, "/") == 0 ? "/d" : path;
}

/* Client 1 has an identity, client 0 has none. */
static void open_one(int client)
{
    static const char credential[] = "user:password";
    open_client(client);
    if (client == 0)
        return;
    answer *given = new_answer(client, NULL);
    CHECK_NUMBER(zoo_add_auth(handles[client], "digest", credential, (int)strlen(credential), on_void, given), ZOK);
    CHECK_NUMBER(RESULT(given), ZOK);
}

static const struct ACL_vector *pick_acl(void)
{
    static const struct ACL_vector *const lists[] = {&ZOO_CREATOR_ALL_ACL, &ZOO_READ_ACL_UNSAFE};
    return pick(10) < 2 ? lists[pick(2)] : &ZOO_OPEN_ACL_UNSAFE;
}

/* A request that was submitted, and its answer to come. */
typedef struct {
    answer *given;
    int submitted;
    int count; /* operations of a multi, which use the fields below */
    zoo_op_t ops[PARTS];
    zoo_op_result_t results[PARTS];
    struct Stat stats[PARTS];
    char names[PARTS][64];
} request;

static void submit_multi(int client, request *made)
{
    made->count = 1 + pick(PARTS);
    printf("%d multi", client);
    for (int i = 0; i < made->count; i++) {
        int length, kind = pick(4), version = pick_version();
        const char *path = pick_own_path(), *data = pick_data(&length);
        if (strcmp(path, "/d/") == 0 || strcmp(path, "/e/.") == 0)
            path = "/e";
        int mode = pick_mode(path);
        printf(" %s %d %d %d %s;", path, kind, mode, version, data != NULL ? data : "null");
        if (kind == 0)
            zoo_create_op_init(&made->ops[i], path, data, length, pick_acl(), mode, made->names[i],
                               sizeof(made->names[i]));
        else if (kind == 1)
            zoo_delete_op_init(&made->ops[i], path, version);
        else if (kind == 2)
            zoo_set_op_init(&made->ops[i], path, data, length, version, &made->stats[i]);
        else
            zoo_check_op_init(&made->ops[i], path, version);
    }
    made->given = new_answer(client, "multi");
    made->submitted = zoo_amulti(handles[client], made->count, made->ops, made->results, on_void, made->given);
}

/* Submits a write, or one time in eight a list. */
static void submit_something(int client, request *made)
{
    int length, kind = pick(8);
    const char *path = pick_own_path(), *data = pick_data(&length);
    int mode = pick_mode(path), version = pick_version();
    memset(made, 0, sizeof(*made));
    if (kind < 3) {
        printf("%d create %s %d", client, path, mode);
        made->given = new_answer(client, "create");
        made->submitted =
            zoo_acreate2(handles[client], path, data, length, pick_acl(), mode, on_string_stat, made->given);
    } else if (kind == 3) {
        printf("%d delete %s %d", client, path, version);
        made->given = new_answer(client, "delete");
        made->submitted = zoo_adelete(handles[client], path, version, on_void, made->given);
    } else if (kind == 4) {
        printf("%d set %s %d", client, path, version);
        made->given = new_answer(client, "set");
        made->submitted = zoo_aset(handles[client], path, data, length, version, on_stat, made->given);
    } else if (kind == 5) {
        printf("%d list %s", client, path);
        made->given = new_answer(client, "list");
        made->submitted = zoo_aget_children2(handles[client], path, 0, on_strings_stat, made->given);
    } else {
        submit_multi(client, made);
    }
}

static void print_outcome(const request *made)
{
    print_answer(made->submitted, made->given);
    for (int i = 0; made->submitted == ZOK && i < made->count; i++) {
        const zoo_op_result_t *result = &made->results[i];
        printf("    %d \"%s\" %s%s", result->err, made->names[i], result->value != NULL ? "value" : "",
               result->stat != NULL ? "stat" : "");
        if (result->stat != NULL && made->stats[i].czxid != 0)
            print_stat(&made->stats[i]);
        printf("\n");
    }
}

static void write_something(int client)
{
    static request made; /* static: an answer may still arrive when the handles of a failing program are closed */
    submit_something(client, &made);
    print_outcome(&made);
}

/* Several requests at once: the server works on one while others wait behind it. */
static void burst(int client)
{
    static request made[10];
    int count = 2 + pick(9);
    for (int i = 0; i < count; i++) {
        submit_something(client, &made[i]);
        printf("\n");
    }
    for (int i = 0; i < count; i++)
        print_outcome(&made[i]);
}

static void remove_watches(int client)
{
    static const ZooWatcherType types[] = {ZWATCHTYPE_CHILD, ZWATCHTYPE_DATA, ZWATCHTYPE_ANY};
    const char *path = pick_path();
    int type = pick(3);
    bool local = pick(4) == 0;
    void_completion_t done = on_void;
    void_completion_t *odd; /* the header's type; the library calls it as a function (C:4838) */
    memcpy(&odd, &done, sizeof(odd));
    printf("%d remove %s %d%s", client, path, type, local ? " here" : "");
    answer *given = new_answer(client, "remove");
    int submitted = zoo_aremove_all_watches(handles[client], path, types[type], local, odd, given);
    if (submitted == ZOK && local)
        printf("\n");
    else
        print_answer(submitted, given);
}

static void read_something(int client)
{
    const char *path = pick_path();
    bool root = strcmp(path, "/") == 0;
    watch *with = pick(2) > 0 && !root ? &watches[client][pick(WATCHES)] : NULL;
    answer *given = new_answer(client, "read");
    int submitted, kind = pick(4);
    if (kind == 1 && client == 0)
        with = NULL; /* it may not read all nodes: a known difference, see cases_acl.c */
    watcher_fn call = with != NULL ? on_watch : NULL;
    printf("%d read %d %s %s", client, kind, path, with != NULL ? with->name : "");
    if (kind == 0)
        submitted = zoo_awget(handles[client], path, call, with, on_data, given);
    else if (kind == 1)
        submitted = zoo_awexists(handles[client], path, call, with, on_stat, given);
    else if (kind == 2)
        submitted = zoo_awget_children2(handles[client], path, call, with, on_strings_stat, given);
    else
        submitted = zoo_async(handles[client], path, on_string, given);
    if (submitted == ZOK && root) { /* the real one has more children */
        printf(" = %d\n", RESULT(given));
        return;
    }
    print_answer(submitted, given);
}

static void reconnect(int client)
{
    bool misses = pick(2) > 0;
    printf("%d is away%s\n", client, misses ? "" : " for a moment");
    if (misses) {
        world_hold_replies(client, true);
        for (int i = 1 + pick(3); i > 0; i--)
            write_something(1 - client);
    }
    settle_but(client);
    world_cut(client);
    RUN_UNTIL_TOLD(client, "connecting");
    world_hold_replies(client, false);
    RUN_UNTIL_TOLD(client, "connected");
}

static void end_session(int client)
{
    printf("%d ends\n", client);
    answer *marker = new_answer(client, "marker");
    CHECK_NUMBER(
        zoo_acreate2(handles[client], "/marker", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, on_string_stat, marker),
        ZOK);
    CHECK_NUMBER(RESULT(marker), ZOK);
    name_of(sessions, &session_count, 100, marker->stat.ephemeralOwner);
    world_end_session(zoo_client_id(handles[client]), handles);
    run_until_gone(1 - client, "/marker");
    RUN_UNTIL_STATE(client, ZOO_EXPIRED_SESSION_STATE);
    told(client);     /* how much it got before depends on how its session ended, */
    told(1 - client); /* and this on time */
    close_client(client);
    open_one(client);
}

void run_program(uint64_t seed)
{
    static const char *const names[] = {"w0", "w1", "w2", "w3"};
    random_state = seed;
    zxid_count = session_count = 0;
    for (int i = 0; i < 2; i++) {
        open_one(i);
        for (int j = 0; j < WATCHES; j++)
            watches[i][j] = (watch){i, names[j], pick(2) > 0};
    }
    for (int i = 0; i < STEPS; i++) {
        int client = pick(2), kind = pick(20);
        if (kind < 6)
            write_something(client);
        else if (kind < 10)
            burst(client);
        else if (kind < 16)
            read_something(client);
        else if (kind < 18)
            remove_watches(client);
        else if (kind < 19)
            reconnect(client);
        else if (pick(3) == 0)
            end_session(client);
        settle();
        print_story(0);
        print_story(1);
    }
}
