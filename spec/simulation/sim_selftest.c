/*
 * sim_selftest: checks the simulated ZooKeeper itself, without the engine, so that a failing schedule can be blamed on the
 * right side. Each test is a promise of the real client or server that the engine relies on, or a trap that it must survive.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "sim_zookeeper.h"

#define T (4 * SIM_SECOND)

static int passed, failed;
static const char *test_name;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            passed++;                                                                                                  \
        } else {                                                                                                       \
            failed++;                                                                                                  \
            printf("%s, line %d: not so: %s\n", test_name, __LINE__, #condition);                                      \
        }                                                                                                              \
    } while (0)

/* What the completions and watchers of one client said, in order, as text. */
static char story[SIM_MAX_CALLERS][2000];
static zhandle_t *handles[SIM_MAX_CALLERS];
static char created[SIM_MAX_CALLERS][128];

static void tell(int caller, const char *what, int value, const char *end_of_word)
{
    size_t used = strlen(story[caller]);
    snprintf(story[caller] + used, sizeof(story[caller]) - used, "%s%d%s", what, value, end_of_word);
}

static int who(const zhandle_t *zh)
{
    for (int i = 0; i < SIM_MAX_CALLERS; i++) {
        if (handles[i] == zh)
            return i;
    }
    return 0;
}

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)path;
    (void)context;
    tell(who(zh), type == ZOO_SESSION_EVENT ? "S" : "E", type == ZOO_SESSION_EVENT ? state : type, " ");
}

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)state;
    (void)path;
    (void)context;
    if (type != ZOO_SESSION_EVENT)
        tell(who(zh), "W", type, " ");
}

static int number_of(const void *data)
{
    return (int)(intptr_t)data;
}

static void on_void(int rc, const void *data)
{
    tell(number_of(data), "v", rc, " ");
}

static void on_string(int rc, const char *value, const void *data)
{
    tell(number_of(data), "s", rc, " ");
    snprintf(created[number_of(data)], sizeof(created[0]), "%s", value != NULL ? value : "");
}

static void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *data)
{
    on_string(rc, value, data);
    if (rc == ZOK && stat->ephemeralOwner != sim_client_session(number_of(data)))
        tell(number_of(data), "owner?", 0, " ");
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    (void)value;
    (void)length;
    (void)stat;
    tell(number_of(data), "d", rc, " ");
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    tell(number_of(data), "x", rc, " ");
}

static void on_strings(int rc, const struct String_vector *strings, const void *data)
{
    tell(number_of(data), "l", rc, "");
    tell(number_of(data), ":", rc == ZOK ? strings->count : -1, " ");
}

static void *data_of(int caller)
{
    return (void *)(intptr_t)caller;
}

static void begin(const char *name, int servers)
{
    test_name = name;
    sim_options options = {.seed = 7,
                           .servers = servers,
                           .min_session_timeout_ms = 1000,
                           .max_session_timeout_ms = 4000,
                           .tick_ms = 1000,
                           .delay = SIM_MILLISECOND,
                           .containers = true};
    sim_begin(&options, NULL);
    memset(story, 0, sizeof(story));
    memset(handles, 0, sizeof(handles));
    while (sim_leader() < 0)
        sim_step();
}

static void end(void)
{
    for (int i = 0; i < SIM_MAX_CALLERS; i++) {
        if (handles[i] != NULL)
            zookeeper_close(handles[i]);
        handles[i] = NULL;
    }
    sim_end();
}

static void open_handle(int caller)
{
    sim_set_caller(caller);
    handles[caller] = zookeeper_init2("h1:2181", on_event, 4000, NULL, NULL, 0, NULL);
    CHECK(handles[caller] != NULL);
}

/* One turn of a client's loop. Returns what zookeeper_interest said. */
static int turn(int caller)
{
    int fd = -1, interest = 0;
    struct timeval wait = {0, 0};
    sim_set_caller(caller);
    int rc = zookeeper_interest(handles[caller], &fd, &interest, &wait);
    if (rc != ZOK || fd < 0)
        return rc;
    int events = ((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0);
    short found = sim_poll(fd, (short)events);
    if (found != 0)
        zookeeper_process(handles[caller], ((found & POLLIN) != 0 ? ZOOKEEPER_READ : 0) |
                                               ((found & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0));
    return ZOK;
}

static void run_for(int64_t during)
{
    int64_t limit = sim_now() + during;
    while (sim_now() < limit) {
        for (int i = 0; i < SIM_MAX_CALLERS; i++) {
            if (handles[i] != NULL)
                turn(i);
        }
        if (!sim_step())
            break;
    }
}

static void forget_story(void)
{
    memset(story, 0, sizeof(story));
}

static void create_at(int caller, const char *path, int mode)
{
    sim_set_caller(caller);
    CHECK(zoo_acreate2(handles[caller], path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, mode, on_string_stat, data_of(caller)) ==
          ZOK);
}

static void remove_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_adelete(handles[caller], path, -1, on_void, data_of(caller)) == ZOK);
}

static void list_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_aget_children(handles[caller], path, 0, on_strings, data_of(caller)) == ZOK);
}

static void watch_at(int caller, const char *path, void *context)
{
    sim_set_caller(caller);
    CHECK(zoo_awget(handles[caller], path, on_watch, context, on_data, data_of(caller)) == ZOK);
}

/* ---- tests ---- */

static void test_sequence_numbers(void)
{
    begin("sequence numbers", 1);
    sim_preset_counter("/end", INT32_MAX - 1);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_CONTAINER);
    create_at(0, "/d/a-", ZOO_EPHEMERAL_SEQUENTIAL);
    create_at(0, "/d/b-", ZOO_EPHEMERAL_SEQUENTIAL);
    run_for(SIM_SECOND);
    CHECK(strcmp(created[0], "/d/b-0000000001") == 0);
    remove_at(0, "/d/b-0000000001");
    create_at(0, "/d/c-", ZOO_EPHEMERAL_SEQUENTIAL);
    run_for(SIM_SECOND);
    CHECK(strcmp(created[0], "/d/c-0000000002") == 0);
    CHECK(sim_exists("/d/a-0000000000") && !sim_exists("/d/b-0000000001"));
    create_at(0, "/end", ZOO_PERSISTENT);
    for (int i = 0; i < 3; i++)
        create_at(0, i == 2 ? "/end/z-" : "/end/y-", ZOO_EPHEMERAL_SEQUENTIAL);
    run_for(SIM_SECOND);
    CHECK(sim_exists("/end/y-2147483646") && sim_exists("/end/y-2147483647") && sim_exists("/end/z-2147483647"));
    create_at(0, "/nowhere/a-", ZOO_EPHEMERAL_SEQUENTIAL);
    forget_story();
    run_for(SIM_SECOND);
    CHECK(strstr(story[0], "s-101") != NULL);
    end();
}

static void test_order(void)
{
    begin("one session's requests are answered in order", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_CONTAINER);
    run_for(SIM_SECOND);
    for (int i = 0; i < 20; i++) {
        forget_story();
        create_at(0, "/d/n-", ZOO_EPHEMERAL_SEQUENTIAL);
        list_at(0, "/d");
        create_at(0, "/d/n-", ZOO_EPHEMERAL_SEQUENTIAL);
        run_for(SIM_SECOND);
        char expected[64];
        snprintf(expected, sizeof(expected), "s0 l0:%d s0 ", 2 * i + 1);
        CHECK(strcmp(story[0], expected) == 0);
    }
    end();
}

static void test_lag(void)
{
    begin("reads may be old, sync brings them up to date", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    while (sim_client_server(1) == sim_leader() || sim_client_server(1) < 0 ||
           sim_client_server(1) == sim_client_server(0)) {
        sim_reset_connections(-1);
        run_for(SIM_SECOND);
    }
    create_at(0, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    forget_story();
    sim_set_lag(sim_client_server(1), sim_now() + SIM_SECOND);
    create_at(0, "/d/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND / 4);
    CHECK(strcmp(story[0], "s0 ") == 0);
    list_at(1, "/d");
    run_for(SIM_SECOND / 4);
    CHECK(strcmp(story[1], "l0:0 ") == 0);
    sim_set_caller(1);
    CHECK(zoo_async(handles[1], "/d", on_string, data_of(1)) == ZOK);
    list_at(1, "/d");
    run_for(SIM_SECOND);
    CHECK(strcmp(story[1], "l0:0 s0 l0:1 ") == 0);
    end();
}

static void test_watches(void)
{
    begin("watches", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    create_at(0, "/d/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    forget_story();
    watch_at(1, "/d/missing", NULL); /* not armed by ZNONODE */
    watch_at(1, "/d/a", NULL);
    watch_at(1, "/d/a", NULL); /* deduplicated */
    run_for(SIM_SECOND);
    CHECK(strcmp(story[1], "d-101 d0 d0 ") == 0);
    CHECK(sim_client_watches(1) == 1);
    forget_story();
    /* Re-registered after a reconnect, and hears of what happened meanwhile. */
    sim_set_network(1, -1, false);
    remove_at(0, "/d/a");
    run_for(3 * SIM_SECOND); /* longer than the client stands silence, not as long as the session lives */
    sim_set_network(1, -1, true);
    run_for(T);
    CHECK(strstr(story[1], "S1 ") != NULL && strstr(story[1], "S3 W2 ") != NULL);
    CHECK(sim_client_watches(1) == 0);
    /* exists on a missing node arms; removal takes it away on both sides. */
    sim_set_caller(1);
    CHECK(zoo_awexists(handles[1], "/d/b", on_watch, NULL, on_stat, data_of(1)) == ZOK);
    run_for(SIM_SECOND);
    const char *example;
    CHECK(sim_client_watches(1) == 1 && sim_server_watches(&example) == 1);
    void_completion_t done = on_void;
    void_completion_t *odd;
    memcpy(&odd, &done, sizeof(odd));
    CHECK(zoo_aremove_all_watches(handles[1], "/d/b", ZWATCHTYPE_ANY, 0, odd, data_of(1)) == ZOK);
    forget_story();
    run_for(SIM_SECOND);
    CHECK(strcmp(story[1], "v0 ") == 0);
    CHECK(sim_client_watches(1) == 0 && sim_server_watches(&example) == 0);
    end();
}

static void test_expiry(void)
{
    begin("a silent session expires, and hears of it when it comes back", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    forget_story();
    sim_set_network(0, -1, false);
    run_for(T - SIM_SECOND / 2);
    CHECK(sim_exists("/a"));
    run_for(T + SIM_SECOND);
    CHECK(!sim_exists("/a"));
    CHECK(zoo_state(handles[0]) != ZOO_EXPIRED_SESSION_STATE);
    sim_set_network(0, -1, true);
    run_for(2 * T);
    CHECK(zoo_state(handles[0]) == ZOO_EXPIRED_SESSION_STATE && strstr(story[0], "S-112 ") != NULL);
    CHECK(zoo_aget(handles[0], "/a", 0, on_data, data_of(0)) == ZINVALIDSTATE);
    CHECK(turn(0) == ZINVALIDSTATE);
    end();
}

static void test_cut_follower(void)
{
    begin("a follower cut off from its leader keeps its client connected", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    while (sim_client_server(0) == sim_leader() || sim_client_server(0) < 0) {
        sim_reset_connections(0);
        run_for(SIM_SECOND);
    }
    create_at(0, "/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    forget_story();
    int follower = sim_client_server(0);
    for (int i = 0; i < 3; i++)
        sim_set_link(follower, i, false);
    bool read_after_expiry = false;
    for (int i = 0; i < 40 && zoo_state(handles[0]) == ZOO_CONNECTED_STATE; i++) {
        forget_story();
        sim_set_caller(0);
        zoo_aget(handles[0], "/a", 0, on_data, data_of(0));
        run_for(SIM_SECOND / 4);
        read_after_expiry = read_after_expiry || (!sim_exists("/a") && strncmp(story[0], "d0 ", 3) == 0);
    }
    /* Depends on how long the follower takes to notice, which this seed makes long. */
    CHECK(read_after_expiry);
    end();
}

static void test_lost_reply(void)
{
    begin("requests without a reply fail in order, and may have been executed", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    int executed = 0, not_executed = 0;
    for (int i = 0; i < 40; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/d/n%d", i);
        forget_story();
        create_at(0, path, ZOO_EPHEMERAL);
        list_at(0, "/d");
        for (int64_t steps = sim_below(6); steps > 0; steps--)
            sim_step();
        sim_reset_connections(0);
        run_for(2 * SIM_SECOND);
        if (strstr(story[0], "s-4 l-4:-1 ") == NULL && strstr(story[0], "s0 ") == NULL)
            CHECK(false);
        if (strstr(story[0], "s-4 ") != NULL)
            CHECK(strncmp(story[0], "S1 s-4 l-4:-1 ", 14) == 0);
        if (strstr(story[0], "s-4 ") != NULL)
            *(sim_exists(path) ? &executed : &not_executed) += 1;
    }
    CHECK(executed > 0 && not_executed > 0);
    end();
}

static void test_silent_send_failure(void)
{
    begin("a failed send tells nobody", 1);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    forget_story();
    list_at(0, "/d");
    sim_fail_next_send(0);
    create_at(0, "/d/a", ZOO_PERSISTENT);
    CHECK(zoo_state(handles[0]) == ZOO_NOTCONNECTED_STATE);
    CHECK(story[0][0] == '\0');
    run_for(2 * SIM_SECOND);
    /* The list went out on the old connection, the create on the new one: its reply matches nothing. */
    CHECK(strncmp(story[0], "S3 S1 l-2:-1 s-2 ", 17) == 0);
    CHECK(sim_exists("/d/a"));
    end();
}

static bool resubmitted;
static void resubmit(int rc, const struct String_vector *strings, const void *data)
{
    on_strings(rc, strings, data);
    if (rc != ZOK && !resubmitted) {
        resubmitted = true;
        zoo_aget_children(handles[0], "/", 0, resubmit, data_of(0));
    }
}

static void test_requests_from_failing_completions(void)
{
    begin("what a failing completion submits waits for the next connection", 1);
    open_handle(0);
    run_for(SIM_SECOND);
    bool seen = false;
    for (int i = 0; i < 20 && !seen; i++) {
        forget_story();
        resubmitted = false;
        zoo_aget_children(handles[0], "/", 0, resubmit, data_of(0));
        sim_reset_connections(0);
        run_for(2 * SIM_SECOND);
        seen = strcmp(story[0], "S1 l-4:-1 S3 l0:0 ") == 0;
    }
    CHECK(seen);
    end();
}

static void test_close(void)
{
    begin("closing says goodbye and fails what is outstanding", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    forget_story();
    list_at(0, "/");
    zookeeper_close(handles[0]);
    handles[0] = NULL;
    CHECK(strcmp(story[0], "l-116:-1 ") == 0);
    run_for(SIM_SECOND / 2);
    CHECK(!sim_exists("/a"));
    end();
}

static void test_names(void)
{
    begin("names that do not resolve", 1);
    open_handle(0);
    run_for(SIM_SECOND);
    sim_set_names(0, false);
    int fd = -77, interest = -77;
    struct timeval wait = {-77, 0};
    CHECK(zookeeper_interest(handles[0], &fd, &interest, &wait) != ZOK && fd == -77 && interest == -77);
    CHECK(zoo_state(handles[0]) == ZOO_CONNECTED_STATE);
    zoo_set_servers_resolution_delay(handles[0], -1);
    CHECK(zookeeper_interest(handles[0], &fd, &interest, &wait) == ZOK);
    sim_set_caller(1);
    sim_set_names(1, false);
    CHECK(zookeeper_init2("h1:2181", on_event, 4000, NULL, NULL, 0, NULL) == NULL);
    end();
}

static void test_multi(void)
{
    begin("multi", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    zoo_check_op_init(&ops[0], "/a", -1);
    zoo_check_op_init(&ops[1], "/b", -1);
    zoo_check_op_init(&ops[2], "/a", -1);
    forget_story();
    int64_t before = sim_last_zxid();
    CHECK(zoo_amulti(handles[0], 1, ops, results, on_void, data_of(0)) == ZOK);
    run_for(SIM_SECOND);
    CHECK(strcmp(story[0], "v0 ") == 0 && results[0].err == ZOK && sim_last_zxid() == before + 1);
    forget_story();
    CHECK(zoo_amulti(handles[0], 3, ops, results, on_void, data_of(0)) == ZOK);
    run_for(SIM_SECOND);
    CHECK(strcmp(story[0], "v-101 ") == 0);
    CHECK(results[0].err == ZOK && results[1].err == ZNONODE && results[2].err == ZRUNTIMEINCONSISTENCY);
    end();
}

static void test_containers(void)
{
    begin("containers are reaped when they are empty again", 1);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/c", ZOO_CONTAINER);
    run_for(SIM_SECOND);
    sim_reap_containers();
    run_for(SIM_SECOND);
    CHECK(sim_exists("/c"));
    create_at(0, "/c/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    remove_at(0, "/c/a");
    run_for(SIM_SECOND);
    sim_reap_containers();
    run_for(SIM_SECOND);
    CHECK(!sim_exists("/c"));
    end();
}

static void test_elections(void)
{
    begin("what was acknowledged survives every change of leader", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    int acknowledged = 0;
    char names[30][32];
    for (int i = 0; i < 30; i++) {
        snprintf(names[acknowledged], sizeof(names[0]), "/d/n%d", i);
        forget_story();
        create_at(0, names[acknowledged], ZOO_PERSISTENT);
        int64_t until = sim_now() + sim_below(8 * SIM_MILLISECOND);
        while (sim_now() < until) {
            turn(0);
            sim_step();
        }
        int server = (int)sim_below(3);
        if (i % 2 == 0)
            sim_crash_server(sim_leader() >= 0 ? sim_leader() : server);
        else
            sim_drop_leader();
        run_for(3 * SIM_SECOND);
        acknowledged += strstr(story[0], "s0 ") != NULL;
        sim_heal();
        run_for(3 * SIM_SECOND);
    }
    CHECK(acknowledged > 0);
    for (int i = 0; i < acknowledged; i++)
        CHECK(sim_exists_everywhere(names[i]));
    CHECK(sim_stats().elections > 10);
    end();
}

int main(void)
{
    test_sequence_numbers();
    test_order();
    test_lag();
    test_watches();
    test_expiry();
    test_cut_follower();
    test_lost_reply();
    test_silent_send_failure();
    test_requests_from_failing_completions();
    test_close();
    test_names();
    test_multi();
    test_containers();
    test_elections();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
