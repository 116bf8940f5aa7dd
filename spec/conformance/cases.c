/*
 * cases: the conformance suite. It checks what spec/simulation claims about the C client of ZooKeeper (libzookeeper_st 3.8.0) and its
 * servers. The same cases run against both: conformance_simulated is linked against the simulation, conformance_real against the real
 * client, and starts a real server. If a case fails in one world only, the simulation is wrong, or
 * the difference has to be declared as known (DIFFERS).
 *
 *   conformance_simulated [--seeds N] [WORD]     each case with N seeds (20), or only cases whose claim contains WORD
 *   conformance_real [WORD]                      from the project's root
 *   conformance_simulated --programs FIRST COUNT, conformance_real --programs FIRST COUNT
 *                                                random programs (programs.c): both have to print the same
 *
 * The simulated server behaves as one of the version ZKLOCK_SIMULATED_VERSION (3.8.0), and the C client as that of the version
 * ZKLOCK_SIMULATED_CLIENT (3.8.0).
 *
 * One line a case; the last line is `N passed, N failed`, and the exit status says the same.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "versions.h"

zhandle_t *handles[WORLD_CLIENTS];

static jmp_buf case_end;
static char story[WORLD_CLIENTS][4000], story_told[WORLD_CLIENTS][4000];
static char problem[9000];

/* Answers are kept until the case ends. */
typedef struct kept_answer {
    struct kept_answer *next;
    answer content;
} kept_answer;
static kept_answer *kept;

/* ---- versions ---- */

bool server_has(const char *feature)
{
    return version_has(world_server_version(), feature);
}

bool client_has(const char *feature)
{
    return version_has(world_client_version(), feature);
}

/* ---- checks ---- */

static void fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
static void fail(const char *file, int line, const char *format, ...)
{
    const char *name = strrchr(file, '/');
    int used = snprintf(problem, sizeof(problem), "%s:%d: ", name != NULL ? name + 1 : file, line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem + used, sizeof(problem) - (size_t)used, format, arguments);
    va_end(arguments);
    longjmp(case_end, 1);
}

void check_at(bool holds, const char *file, int line, const char *what)
{
    if (!holds)
        fail(file, line, "not so: %s", what);
}

void check_number_at(int64_t actual, int64_t expected, const char *file, int line, const char *what)
{
    if (actual != expected)
        fail(file, line, "%s: %lld instead of %lld", what, (long long)actual, (long long)expected);
}

void check_text_at(const char *actual, const char *expected, const char *file, int line, const char *what)
{
    if (strcmp(actual, expected) != 0)
        fail(file, line, "%s: \"%s\" instead of \"%s\"", what, actual, expected);
}

/* ---- stories ---- */

void tell(int client, const char *format, ...)
{
    size_t used = strlen(story[client]);
    if (used > 0 && used + 1 < sizeof(story[client]))
        story[client][used++] = ' ';
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(story[client] + used, sizeof(story[client]) - used, format, arguments);
    va_end(arguments);
}

const char *told(int client)
{
    memcpy(story_told[client], story[client], sizeof(story[client]));
    story[client][0] = '\0';
    return story_told[client];
}

const char *state_name(int state)
{
    static char number[16];
    if (state == ZOO_CONNECTED_STATE)
        return "connected";
    if (state == ZOO_CONNECTING_STATE)
        return "connecting";
    if (state == ZOO_EXPIRED_SESSION_STATE)
        return "expired";
    if (state == ZOO_AUTH_FAILED_STATE)
        return "refused";
    snprintf(number, sizeof(number), "state%d", state);
    return number;
}

static const char *event_name(int type)
{
    static char number[16];
    if (type == ZOO_CREATED_EVENT)
        return "created";
    if (type == ZOO_DELETED_EVENT)
        return "deleted";
    if (type == ZOO_CHANGED_EVENT)
        return "changed";
    if (type == ZOO_CHILD_EVENT)
        return "child";
    snprintf(number, sizeof(number), "event%d", type);
    return number;
}

/* ---- handles ---- */

static void on_handle_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)path;
    const int *client = context;
    if (type == ZOO_SESSION_EVENT)
        tell(*client, "%s", state_name(state));
    else
        tell(*client, "%s", event_name(type));
}

void open_handle(int client, const char *chroot, int timeout_ms, const clientid_t *session)
{
    static int numbers[WORLD_CLIENTS] = {0, 1, 2};
    char host[128];
    snprintf(host, sizeof(host), "%s%s", world_host(client), chroot);
    CHECK(handles[client] == NULL);
    handles[client] = zookeeper_init2(host, on_handle_event, timeout_ms, session, &numbers[client], 0, NULL);
    CHECK(handles[client] != NULL);
}

void open_client(int client)
{
    open_handle(client, "", CASE_TIMEOUT, NULL);
    RUN_UNTIL_STATE(client, ZOO_CONNECTED_STATE);
    RUN_UNTIL_TOLD(client, "connected");
    story[client][0] = '\0';
}

void close_client(int client)
{
    zhandle_t *zh = handles[client];
    handles[client] = NULL;
    zookeeper_close(zh);
}

void run_until_at(condition holds, const void *context, const char *file, int line, const char *what)
{
    int64_t limit = world_now() + world_patience();
    while (!holds(context)) {
        if (world_now() > limit)
            fail(file, line, "never so: %s; stories: \"%s\", \"%s\", \"%s\"", what, story[0], story[1], story[2]);
        world_turn(handles);
    }
}

typedef struct {
    int client;
    int state;
    const char *word;
} expectation;

static bool in_state(const void *context)
{
    const expectation *expected = context;
    return zoo_state(handles[expected->client]) == expected->state;
}

void run_until_state_at(int client, int state, const char *file, int line)
{
    expectation expected = {client, state, NULL};
    run_until_at(in_state, &expected, file, line, state_name(state));
}

static bool has_told(const void *context)
{
    const expectation *expected = context;
    size_t length = strlen(expected->word);
    const char *text = story[expected->client];
    for (const char *at = strstr(text, expected->word); at != NULL; at = strstr(at + 1, expected->word)) {
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

void run_until_told_at(int client, const char *word, const char *file, int line)
{
    expectation expected = {client, 0, word};
    run_until_at(has_told, &expected, file, line, word);
}

static bool is_alone(const void *context)
{
    (void)context;
    return world_has_only(1);
}

void run_until_alone(void)
{
    RUN_UNTIL(is_alone, NULL);
}

/* ---- watchers ---- */

void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)path;
    const watch *own = context;
    if (type != ZOO_SESSION_EVENT)
        tell(own->client, "%s:%s", own->name, event_name(type));
    else if (own->hears_session)
        tell(own->client, "%s:%s", own->name, state_name(state));
}

void on_watch_too(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    on_watch(zh, type, state, path, context);
}

/* ---- requests ---- */

answer *new_answer(int client, const char *name)
{
    kept_answer *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        abort();
    fresh->next = kept;
    kept = fresh;
    fresh->content.client = client;
    fresh->content.name = name;
    return &fresh->content;
}

static answer *answered(int rc, const void *data)
{
    /* Contexts of completions are const only in the header. */
    answer *at = NULL;
    memcpy(&at, &data, sizeof(at));
    if (at->done)
        tell(at->client, "%s-again", at->name);
    at->rc = rc;
    if (handles[at->client] != NULL)
        at->state = zoo_state(handles[at->client]);
    return at;
}

static void finish(answer *at)
{
    at->done = true;
    if (at->name != NULL)
        tell(at->client, "%s=%d", at->name, at->rc);
    if (at->then != NULL)
        at->then(at);
}

void on_void(int rc, const void *data)
{
    finish(answered(rc, data));
}

void on_stat(int rc, const struct Stat *stat, const void *data)
{
    answer *at = answered(rc, data);
    if (rc == ZOK)
        at->stat = *stat;
    finish(at);
}

static void take_text(answer *at, const char *value)
{
    at->null = value == NULL;
    snprintf(at->text, sizeof(at->text), "%s", value != NULL ? value : "");
}

void on_string(int rc, const char *value, const void *data)
{
    answer *at = answered(rc, data);
    if (rc == ZOK)
        take_text(at, value);
    finish(at);
}

void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *data)
{
    answer *at = answered(rc, data);
    if (rc == ZOK) {
        take_text(at, value);
        at->stat = *stat;
    }
    finish(at);
}

void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    answer *at = answered(rc, data);
    if (rc == ZOK) {
        at->null = value == NULL;
        at->length = length;
        snprintf(at->text, sizeof(at->text), "%.*s", length > 0 ? length : 0, value != NULL ? value : "");
        at->stat = *stat;
    }
    finish(at);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Sorts the names: servers list them in any order. */
static void take_names(answer *at, const struct String_vector *strings)
{
    at->count = strings->count;
    if (strings->count > 0)
        qsort(strings->data, (size_t)strings->count, sizeof(char *), compare_names);
    for (int i = 0; i < strings->count; i++) {
        size_t used = strlen(at->text);
        snprintf(at->text + used, sizeof(at->text) - used, "%s%s", i > 0 ? " " : "", strings->data[i]);
    }
}

void on_strings(int rc, const struct String_vector *strings, const void *data)
{
    answer *at = answered(rc, data);
    if (rc == ZOK)
        take_names(at, strings);
    finish(at);
}

void on_strings_stat(int rc, const struct String_vector *strings, const struct Stat *stat, const void *data)
{
    answer *at = answered(rc, data);
    if (rc == ZOK) {
        take_names(at, strings);
        at->stat = *stat;
    }
    finish(at);
}

static int length_of(const char *data)
{
    return data != NULL ? (int)strlen(data) : -1;
}

answer *ask_create(int client, const char *path, const char *data, int mode)
{
    answer *fresh = new_answer(client, "create");
    CHECK_NUMBER(
        zoo_acreate2(handles[client], path, data, length_of(data), &ZOO_OPEN_ACL_UNSAFE, mode, on_string_stat, fresh),
        ZOK);
    return fresh;
}

answer *ask_delete(int client, const char *path, int version)
{
    answer *fresh = new_answer(client, "delete");
    CHECK_NUMBER(zoo_adelete(handles[client], path, version, on_void, fresh), ZOK);
    return fresh;
}

answer *ask_set(int client, const char *path, const char *data, int version)
{
    answer *fresh = new_answer(client, "set");
    CHECK_NUMBER(zoo_aset(handles[client], path, data, length_of(data), version, on_stat, fresh), ZOK);
    return fresh;
}

answer *ask_get(int client, const char *path, watch *with)
{
    answer *fresh = new_answer(client, "get");
    CHECK_NUMBER(zoo_awget(handles[client], path, with != NULL ? on_watch : NULL, with, on_data, fresh), ZOK);
    return fresh;
}

answer *ask_exists(int client, const char *path, watch *with)
{
    answer *fresh = new_answer(client, "exists");
    CHECK_NUMBER(zoo_awexists(handles[client], path, with != NULL ? on_watch : NULL, with, on_stat, fresh), ZOK);
    return fresh;
}

answer *ask_list(int client, const char *path, watch *with)
{
    answer *fresh = new_answer(client, "list");
    CHECK_NUMBER(
        zoo_awget_children2(handles[client], path, with != NULL ? on_watch : NULL, with, on_strings_stat, fresh), ZOK);
    return fresh;
}

answer *ask_sync(int client, const char *path)
{
    answer *fresh = new_answer(client, "sync");
    CHECK_NUMBER(zoo_async(handles[client], path, on_string, fresh), ZOK);
    return fresh;
}

answer *ask_multi(int client, int count, const zoo_op_t *ops, zoo_op_result_t *results)
{
    answer *fresh = new_answer(client, "multi");
    CHECK_NUMBER(zoo_amulti(handles[client], count, ops, results, on_void, fresh), ZOK);
    return fresh;
}

answer *ask_remove(int client, const char *path, ZooWatcherType type)
{
    answer *fresh = new_answer(client, "remove");
    void_completion_t done = on_void;
    void_completion_t *odd; /* the header's type; the library calls it as a function (C:4838) */
    memcpy(&odd, &done, sizeof(odd));
    CHECK_NUMBER(zoo_aremove_all_watches(handles[client], path, type, 0, odd, fresh), ZOK);
    return fresh;
}

static bool is_done(const void *context)
{
    const answer *at = context;
    return at->done;
}

int result_at(const answer *wanted, const char *file, int line)
{
    run_until_at(is_done, wanted, file, line, wanted->name != NULL ? wanted->name : "answered");
    return wanted->rc;
}

void run_until_gone(int client, const char *path)
{
    static watch ends[WORLD_CLIENTS] = {{0, "end", false}, {1, "end", false}, {2, "end", false}};
    if (RESULT(ask_get(client, path, &ends[client])) == ZOK)
        RUN_UNTIL_TOLD(client, "end:deleted");
}

void settle_but(int client)
{
    answer *asked[WORLD_CLIENTS] = {NULL};
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        if (i == client || handles[i] == NULL || zoo_state(handles[i]) != ZOO_CONNECTED_STATE)
            continue;
        asked[i] = new_answer(i, NULL);
        CHECK_NUMBER(zoo_aexists(handles[i], "/", 0, on_stat, asked[i]), ZOK);
    }
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        if (asked[i] != NULL)
            CHECK_NUMBER(RESULT(asked[i]), ZOK);
    }
}

void settle(void)
{
    settle_but(-1);
}

/* ---- running them ---- */

/* Runs a case; without a case, the program of that seed. */
static bool run_case(const conformance_case *each, uint64_t seed)
{
    memset(story, 0, sizeof(story));
    world_begin(seed);
    bool well = setjmp(case_end) == 0;
    if (well && each != NULL)
        each->run();
    else if (well)
        run_program(seed);
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        if (handles[i] != NULL)
            close_client(i);
    }
    world_end();
    while (kept != NULL) {
        kept_answer *next = kept->next;
        free(kept);
        kept = next;
    }
    if (!well)
        printf("not ok: %s\n    %s, seed %llu\n", each != NULL ? each->claim : "a program", problem,
               (unsigned long long)seed);
    return well;
}

int main(int argc, char **argv)
{
    static const conformance_case *const groups[] = {connection_cases, watch_cases, request_cases, multi_cases,
                                                     acl_cases};
    int passed = 0, failed = 0;
    uint64_t seeds = world_is_real ? 1 : 20;
    const char *word = NULL;
    uint64_t first = 0, programs = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--programs") == 0 && i + 2 < argc) {
            first = strtoull(argv[++i], NULL, 10);
            programs = strtoull(argv[++i], NULL, 10);
        } else
            word = argv[i];
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    zoo_set_debug_level((ZooLogLevel)0);
    if (!world_start()) {
        printf("not ok: the world could not be started\n0 passed, 1 failed\n");
        return EXIT_FAILURE;
    }
    for (uint64_t seed = first; seed < first + programs; seed++) {
        printf("-- program %llu\n", (unsigned long long)seed);
        *(run_case(NULL, seed) ? &passed : &failed) += 1;
    }
    for (size_t group = 0; programs == 0 && group < sizeof(groups) / sizeof(groups[0]); group++) {
        for (const conformance_case *each = groups[group]; each->claim != NULL; each++) {
            if (word != NULL && strstr(each->claim, word) == NULL)
                continue;
            bool well = true;
            for (uint64_t seed = 1; seed <= seeds && well; seed++)
                well = run_case(each, seed);
            if (well)
                printf("ok: %s\n", each->claim);
            *(well ? &passed : &failed) += 1;
        }
    }
    world_stop();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
