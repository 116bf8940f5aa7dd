/*
 * sim_selftest: checks the simulated ZooKeeper itself, without the engine, so that a failing schedule can be blamed on the
 * right side. Each test is a promise of the real client or server that the engine relies on, or a trap that it must survive.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_nodes.h"
#include "sim_zookeeper.h"

#define T (4 * SIM_SECOND)

/* What the completions and watchers of one client said, in order, as text. */
static char story[SIM_MAX_CALLERS][2000];
static zhandle_t *handles[SIM_MAX_CALLERS];
static char created[SIM_MAX_CALLERS][128];
static struct Stat stats[SIM_MAX_CALLERS]; /* the latest that came */
static char contents[SIM_MAX_CALLERS][32];

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

/* As on_watch, under the name that is its context. */
static void on_named_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        tell(who(zh), context, type, " ");
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
    if (rc == ZOK)
        stats[number_of(data)] = *stat;
    if (rc == ZOK && stat->ephemeralOwner > 0 && stat->ephemeralOwner != sim_client_session(number_of(data)))
        tell(number_of(data), "owner?", 0, " ");
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    tell(number_of(data), "d", rc, " ");
    if (rc != ZOK)
        return;
    stats[number_of(data)] = *stat;
    snprintf(contents[number_of(data)], sizeof(contents[0]), "%d:%.*s", length, length > 0 ? length : 0,
             value != NULL ? value : "null");
    if (value == NULL)
        snprintf(contents[number_of(data)], sizeof(contents[0]), "%d:null", length);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    tell(number_of(data), "x", rc, " ");
    if (rc == ZOK)
        stats[number_of(data)] = *stat;
}

static void on_strings(int rc, const struct String_vector *strings, const void *data)
{
    tell(number_of(data), "l", rc, "");
    tell(number_of(data), ":", rc == ZOK ? strings->count : -1, " ");
}

static void on_strings_stat(int rc, const struct String_vector *strings, const struct Stat *stat, const void *data)
{
    on_strings(rc, strings, data);
    if (rc == ZOK)
        stats[number_of(data)] = *stat;
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

static void list2_at(int caller, const char *path, const char *name)
{
    sim_set_caller(caller);
    char *context = NULL;
    memcpy(&context, &name, sizeof(context));
    CHECK(zoo_awget_children2(handles[caller], path, name != NULL ? on_named_watch : NULL, context, on_strings_stat,
                              data_of(caller)) == ZOK);
}

static void set_at(int caller, const char *path, const char *value, int version)
{
    sim_set_caller(caller);
    CHECK(zoo_aset(handles[caller], path, value, value != NULL ? (int)strlen(value) : -1, version, on_stat,
                   data_of(caller)) == ZOK);
}

static void get_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_aget(handles[caller], path, 0, on_data, data_of(caller)) == ZOK);
}

static void unwatch_at(int caller, const char *path, ZooWatcherType type)
{
    sim_set_caller(caller);
    void_completion_t done = on_void;
    void_completion_t *odd;
    memcpy(&odd, &done, sizeof(odd));
    CHECK(zoo_aremove_all_watches(handles[caller], path, type, 0, odd, data_of(caller)) == ZOK);
}

static int server_watches(void)
{
    const char *example;
    return sim_server_watches(&example);
}

/* Runs for a second; whether exactly this was said by the caller meanwhile, by what was asked for before too. */
static bool says(int caller, const char *expected)
{
    run_for(SIM_SECOND);
    bool same = strcmp(story[caller], expected) == 0;
    if (!same)
        printf("client %d said: %s\n", caller, story[caller]);
    forget_story();
    return same;
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
    run_for(SIM_SECOND / 4);
    sim_set_caller(0);
    zoo_aget(handles[0], "/a", 0, on_data, data_of(0)); /* a report may miss one request, but not two in a row */
    run_for(SIM_SECOND / 4);
    forget_story();
    sim_set_network(0, -1, false);
    run_for(T - SIM_SECOND);
    CHECK(sim_exists("/a"));
    run_for(T + SIM_SECOND * 2);
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

static void test_unpinged_follower(void)
{
    begin("a follower that hears no ping reports nobody, though the leader carries out what its clients ask for", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    while (sim_client_server(0) == sim_leader() || sim_client_server(0) < 0) {
        sim_reset_connections(0);
        run_for(SIM_SECOND);
    }
    create_at(0, "/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND / 4);
    int follower = sim_client_server(0);
    int64_t restarted_at, later;
    int32_t timeout_ms;
    sim_set_way(sim_leader(), follower, false);
    run_for(SIM_SECOND / 4);
    CHECK(sim_session_timer(0, &restarted_at, &timeout_ms) && timeout_ms == T / SIM_MILLISECOND);
    forget_story();
    create_at(0, "/b", ZOO_EPHEMERAL);
    zoo_aget(handles[0], "/a", 0, on_data, data_of(0));
    run_for(SIM_SECOND);
    CHECK(sim_exists("/b") && strcmp(story[0], "") == 0); /* the answers are held back, in their order */
    CHECK(sim_session_timer(0, &later, &timeout_ms) && later == restarted_at);
    sim_set_way(sim_leader(), follower, true);
    run_for(SIM_SECOND);
    CHECK(strstr(story[0], "d0 ") != NULL);
    CHECK(sim_session_timer(0, &later, &timeout_ms) && later > restarted_at);
    end();
}

static void test_limits(void)
{
    begin("a server grants what its limits say, a new leader what the session began with", 3);
    for (int i = 0; i < 3; i++)
        sim_set_limits(i, 2000, 2000);
    open_handle(0);
    run_for(SIM_SECOND);
    CHECK(sim_session_timeout(0) == 2000);
    int64_t restarted_at;
    int32_t timeout_ms;
    for (int i = 0; i < 3; i++)
        sim_set_limits(i, 4000, 4000);
    sim_reset_connections(0);
    run_for(SIM_SECOND);
    CHECK(sim_session_timeout(0) == 4000);
    CHECK(sim_session_timer(0, &restarted_at, &timeout_ms) && timeout_ms == 2000); /* the next leader's */
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

static void test_late_create(void)
{
    begin("a create whose reply is lost is carried out at once, or when its session has long looked for it", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    int64_t session = sim_client_session(0);
    forget_story();
    sim_lose_next_write(0, 0);
    create_at(0, "/d/at-once", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    CHECK(strncmp(story[0], "S1 s-4 S3 ", 10) == 0);
    CHECK(sim_owner("/d/at-once") == session);
    forget_story();
    sim_lose_next_write(0, 3 * SIM_SECOND);
    create_at(0, "/d/kept", ZOO_PERSISTENT); /* does not end with its session */
    run_for(SIM_SECOND);
    create_at(0, "/d/late", ZOO_EPHEMERAL);
    run_for(2 * SIM_SECOND);
    CHECK(strncmp(story[0], "s0 S1 s-4 S3 ", 13) == 0);
    CHECK(sim_exists("/d/kept") && !sim_exists("/d/late") && sim_delayed_writes() == 1);
    run_for(3 * SIM_SECOND); /* it counts for a second after it was carried out */
    CHECK(sim_owner("/d/late") == session && sim_client_session(0) == session && sim_delayed_writes() == 0);
    sim_lose_next_write(0, 0);
    zoo_adelete(handles[0], "/d/late", -1, on_void, data_of(0));
    run_for(SIM_SECOND);
    CHECK(!sim_exists("/d/late"));
    CHECK(sim_stats().lost_creates == 2 && sim_stats().lost_deletes == 1 && sim_stats().late_creates == 1);
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

static void test_children2(void)
{
    begin("lists with a Stat, and child watches", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    CHECK(says(0, "S3 s0 "));
    int64_t created_at = stats[0].czxid;
    list2_at(1, "/d/missing", "a"); /* ZNONODE arms nothing */
    list2_at(1, "/d", "a");
    list2_at(1, "/d", "a"); /* the same again: one watcher */
    list2_at(1, "/d", "b");
    CHECK(says(1, "l-101:-1 l0:0 l0:0 l0:0 "));
    CHECK(stats[1].czxid == created_at && stats[1].pzxid == created_at && stats[1].cversion == 0);
    CHECK(sim_client_watches(1) == 2 && server_watches() == 1);
    create_at(0, "/d/x", ZOO_EPHEMERAL);
    create_at(0, "/d/y", ZOO_PERSISTENT); /* one-shot: nobody is told */
    set_at(0, "/d", "data", -1);          /* no business of theirs */
    CHECK(says(1, "a4 b4 "));
    CHECK(sim_client_watches(1) == 0 && server_watches() == 0);
    list2_at(1, "/d", NULL);
    CHECK(says(1, "l0:2 "));
    CHECK(stats[1].cversion == 2 && stats[1].numChildren == 2 && stats[1].ephemeralOwner == 0);
    CHECK(stats[1].pzxid == sim_czxid("/d/y") && stats[1].mzxid == sim_last_zxid() && stats[1].version == 1);
    list2_at(1, "/d", "a");
    CHECK(says(1, "l0:2 "));
    remove_at(0, "/d/x");
    CHECK(says(1, "a4 "));
    list2_at(1, "/d", NULL);
    CHECK(says(1, "l0:1 "));
    CHECK(stats[1].cversion == 3 && stats[1].pzxid == sim_last_zxid());
    /* The end of the directory reaches data and child watchers, in one event; who is armed in both is called once. */
    list2_at(1, "/d", "a");
    list2_at(1, "/d", "b");
    sim_set_caller(1);
    CHECK(zoo_awget(handles[1], "/d", on_named_watch, story[1] + sizeof(story[1]) - 1, on_data, data_of(1)) == ZOK);
    run_for(SIM_SECOND);
    CHECK(sim_client_watches(1) == 3 && server_watches() == 2);
    forget_story();
    remove_at(0, "/d/y");
    CHECK(says(1, "a4 b4 "));
    static char both[] = "c";
    list2_at(1, "/d", "a");
    list2_at(1, "/d", both);
    CHECK(zoo_awget(handles[1], "/d", on_named_watch, both, on_data, data_of(1)) == ZOK);
    run_for(SIM_SECOND);
    forget_story();
    CHECK(sim_client_watches(1) == 4);
    int64_t before = sim_stats().notifications;
    remove_at(0, "/d");
    CHECK(says(1, "a2 2 c2 "));
    CHECK(sim_stats().notifications == before + 1);
    CHECK(sim_client_watches(1) == 0 && server_watches() == 0);
    /* No permission to read: not armed. */
    create_at(0, "/secret", ZOO_PERSISTENT);
    sim_deny("/secret", ZOO_PERM_READ);
    run_for(SIM_SECOND);
    forget_story();
    list2_at(1, "/secret", "a");
    CHECK(says(1, "l-102:-1 "));
    CHECK(sim_client_watches(1) == 0 && server_watches() == 0);
    /* The older function arms the same watches. */
    create_at(0, "/old", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    forget_story();
    sim_set_caller(1);
    CHECK(zoo_awget_children(handles[1], "/old", on_watch, NULL, on_strings, data_of(1)) == ZOK);
    CHECK(says(1, "l0:0 "));
    create_at(0, "/old/x", ZOO_PERSISTENT);
    CHECK(says(1, "W4 "));
    /* With the handle's own watcher. */
    CHECK(zoo_aget_children2(handles[1], "/old", 1, on_strings_stat, data_of(1)) == ZOK);
    CHECK(says(1, "l0:1 "));
    remove_at(0, "/old/x");
    CHECK(says(1, "E4 "));
    end();
}

/* What happens to a child watch of client 1 while it is away; `expected` is told at its return. */
static void child_watch_while_away(const char *directory, void (*happen)(const char *), const char *expected, int left)
{
    create_at(0, directory, ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    list2_at(1, directory, "a");
    list2_at(1, directory, "b");
    run_for(SIM_SECOND);
    forget_story();
    sim_set_network(1, -1, false);
    happen(directory);
    run_for(3 * SIM_SECOND); /* longer than the client stands silence, not as long as the session lives */
    CHECK(strcmp(story[1], "S1 ") == 0);
    sim_set_network(1, -1, true);
    run_for(T);
    CHECK(strcmp(story[1], expected) == 0);
    CHECK(sim_client_watches(1) == left && server_watches() == (left > 0));
    forget_story();
}

static void happen_nothing(const char *directory)
{
    (void)directory;
}

static void happen_child(const char *directory)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/x", directory);
    create_at(0, path, ZOO_PERSISTENT);
}

static void happen_child_and_gone(const char *directory)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/x", directory);
    create_at(0, path, ZOO_PERSISTENT);
    remove_at(0, path);
}

static void happen_data(const char *directory)
{
    set_at(0, directory, "new", -1);
}

static void happen_end(const char *directory)
{
    remove_at(0, directory);
}

static void test_child_watches_after_reconnect(void)
{
    begin("child watches after a reconnect", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    child_watch_while_away("/c", happen_child, "S1 S3 a4 b4 ", 0);
    child_watch_while_away("/g", happen_child_and_gone, "S1 S3 a4 b4 ", 0);
    child_watch_while_away("/e", happen_end, "S1 S3 a2 b2 ", 0);
    child_watch_while_away("/n", happen_data, "S1 S3 ", 2);
    unwatch_at(1, "/n", ZWATCHTYPE_CHILD);
    CHECK(says(1, "v0 "));
    child_watch_while_away("/o", happen_nothing, "S1 S3 ", 2);
    create_at(0, "/o/x", ZOO_PERSISTENT);
    CHECK(says(1, "a4 b4 "));
    /* A list whose answer is lost arms nothing: neither here nor, after a while, there. */
    create_at(0, "/lost", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    int lost = 0;
    for (int i = 0; i < 20; i++) {
        forget_story();
        list2_at(1, "/lost", "a");
        for (int64_t steps = sim_below(6); steps > 0; steps--)
            sim_step();
        sim_reset_connections(1);
        run_for(2 * SIM_SECOND);
        bool failure = strstr(story[1], "l-4:-1 ") != NULL;
        lost += failure;
        CHECK(failure || strstr(story[1], "l0:0 ") != NULL);
        CHECK(sim_client_watches(1) == !failure && server_watches() == !failure);
        if (!failure)
            unwatch_at(1, "/lost", ZWATCHTYPE_CHILD);
        run_for(SIM_SECOND);
    }
    CHECK(lost > 0 && lost < 20);
    end();
}

static void test_removing_watches(void)
{
    begin("watches are removed by their kind", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    list2_at(0, "/d", "a");
    run_for(SIM_SECOND);
    forget_story();
    unwatch_at(0, "/d", ZWATCHTYPE_DATA);
    CHECK(says(0, "v-121 "));
    CHECK(sim_client_watches(0) == 1 && server_watches() == 1);
    watch_at(0, "/d", NULL);
    CHECK(says(0, "d0 "));
    CHECK(sim_client_watches(0) == 2 && server_watches() == 2);
    unwatch_at(0, "/d", ZWATCHTYPE_CHILD);
    unwatch_at(0, "/d", ZWATCHTYPE_CHILD);
    CHECK(says(0, "v0 v-121 "));
    CHECK(sim_client_watches(0) == 1 && server_watches() == 1);
    create_at(0, "/d/x", ZOO_PERSISTENT);
    CHECK(says(0, "s0 "));
    list2_at(0, "/d", "a");
    run_for(SIM_SECOND);
    forget_story();
    unwatch_at(0, "/d", ZWATCHTYPE_ANY);
    CHECK(says(0, "v0 "));
    CHECK(sim_client_watches(0) == 0 && server_watches() == 0);
    /* Only here: the server goes on, its event finds nobody. */
    list2_at(0, "/d", "a");
    watch_at(0, "/d", NULL);
    run_for(SIM_SECOND);
    CHECK(zoo_aremove_all_watches(handles[0], "/d", ZWATCHTYPE_CHILD, 1, NULL, NULL) == ZOK);
    CHECK(sim_client_watches(0) == 1 && server_watches() == 2);
    forget_story();
    remove_at(0, "/d/x");
    CHECK(says(0, "v0 "));
    CHECK(sim_client_watches(0) == 1 && server_watches() == 1);
    end();
}

static void test_data(void)
{
    begin("data, versions and Stats", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    create_at(0, "/d/e", ZOO_EPHEMERAL);
    run_for(SIM_SECOND);
    get_at(0, "/d/e");
    forget_story();
    CHECK(says(0, "d0 "));
    CHECK(strcmp(contents[0], "1:x") == 0 && stats[0].version == 0 && stats[0].dataLength == 1);
    CHECK(stats[0].czxid == sim_czxid("/d/e") && stats[0].mzxid == stats[0].czxid);
    CHECK(stats[0].pzxid == stats[0].czxid && stats[0].ephemeralOwner == sim_client_session(0));
    set_at(0, "/d/e", "later", 1);
    set_at(0, "/d/none", "later", -1);
    CHECK(says(0, "x-103 x-101 "));
    watch_at(1, "/d/e", NULL);
    list2_at(1, "/d", "a");
    run_for(SIM_SECOND);
    forget_story();
    set_at(0, "/d/e", "later", 0);
    set_at(0, "/d/e", "latest", -1);
    run_for(SIM_SECOND);
    CHECK(strcmp(story[0], "x0 x0 ") == 0 && strcmp(story[1], "W3 ") == 0);
    CHECK(stats[0].version == 2 && stats[0].dataLength == 6 && stats[0].mzxid == sim_last_zxid());
    CHECK(stats[0].czxid == sim_czxid("/d/e") && stats[0].ephemeralOwner == sim_client_session(0));
    forget_story();
    get_at(1, "/d/e");
    CHECK(says(1, "d0 "));
    CHECK(strcmp(contents[1], "6:latest") == 0 && stats[1].version == 2 && stats[1].mzxid == stats[0].mzxid);
    /* Nothing is not the same as empty, and both have no length. */
    set_at(0, "/d/e", "", -1);
    get_at(0, "/d/e");
    CHECK(says(0, "x0 d0 "));
    CHECK(strcmp(contents[0], "0:") == 0 && stats[0].dataLength == 0);
    set_at(0, "/d/e", NULL, -1);
    get_at(0, "/d/e");
    CHECK(says(0, "x0 d0 "));
    CHECK(strcmp(contents[0], "-1:null") == 0 && stats[0].dataLength == 0 && stats[0].version == 4);
    sim_deny("/d/e", ZOO_PERM_WRITE);
    set_at(0, "/d/e", "", -1);
    CHECK(says(0, "x-102 "));
    end();
}

static void test_exact_names(void)
{
    begin("an ephemeral with an exact name is there once", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    forget_story();
    create_at(0, "/lock", ZOO_EPHEMERAL);
    CHECK(says(0, "s0 "));
    CHECK(strcmp(created[0], "/lock") == 0 && stats[0].version == 0 && stats[0].dataLength == 1);
    create_at(1, "/lock", ZOO_EPHEMERAL);
    CHECK(says(1, "s-110 "));
    CHECK(sim_owner("/lock") == sim_client_session(0));
    create_at(1, "/lock/x", ZOO_EPHEMERAL);
    CHECK(says(1, "s-108 "));
    remove_at(0, "/lock");
    run_for(SIM_SECOND);
    forget_story();
    create_at(1, "/lock", ZOO_EPHEMERAL);
    CHECK(says(1, "s0 "));
    CHECK(sim_owner("/lock") == sim_client_session(1));
    struct ACL_vector none = {0, NULL};
    CHECK(zoo_acreate2(handles[1], "/n", "", 0, &none, ZOO_EPHEMERAL, on_string_stat, data_of(1)) == ZOK);
    CHECK(says(1, "s-114 "));
    end();
}

static void test_own_writes(void)
{
    begin("a lagging server is never behind what it has acknowledged", 3);
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
    list2_at(1, "/d", "a");
    run_for(SIM_SECOND);
    forget_story();
    sim_set_lag(sim_client_server(1), sim_now() + 2 * SIM_SECOND);
    create_at(0, "/d/other", ZOO_PERSISTENT);
    set_at(0, "/d", "other", -1);
    run_for(SIM_SECOND / 4);
    CHECK(strcmp(story[0], "s0 x0 ") == 0 && story[1][0] == '\0');
    list2_at(1, "/d", NULL);
    get_at(1, "/d");
    run_for(SIM_SECOND / 4);
    CHECK(strcmp(story[1], "l0:0 d0 ") == 0 && strcmp(contents[1], "1:x") == 0);
    forget_story();
    set_at(1, "/d", "own", 1); /* the leader knows better than what this client has read */
    list2_at(1, "/d", "b");
    get_at(1, "/d");
    run_for(SIM_SECOND / 4);
    CHECK(story[1][0] == '\0');
    run_for(2 * SIM_SECOND);
    CHECK(strcmp(story[1], "a4 x0 l0:1 d0 ") == 0 && strcmp(contents[1], "3:own") == 0);
    CHECK(stats[1].version == 2);
    end();
}

static void test_mixed_multi(void)
{
    begin("a multi of everything", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    create_at(0, "/d/old", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    list2_at(1, "/d", "a");
    watch_at(1, "/d/old", NULL);
    run_for(SIM_SECOND);
    forget_story();
    zoo_op_t ops[7];
    zoo_op_result_t results[7];
    char name[64] = "", cut[6] = "";
    struct Stat first, second;
    memset(results, 0, sizeof(results));
    zoo_check_op_init(&ops[0], "/d/old", 0);
    zoo_create_op_init(&ops[1], "/d/n-", "ab", 2, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof(name));
    zoo_set_op_init(&ops[2], "/d/old", "abc", 3, 0, &first);
    zoo_create_op_init(&ops[3], "/d/exact", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, cut, sizeof(cut));
    zoo_set_op_init(&ops[4], "/d/old", "abcd", 4, 1, &second); /* as the third left it */
    zoo_delete_op_init(&ops[5], "/d/old", 2);
    zoo_create_op_init(&ops[6], "/d/m", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    int64_t before = sim_last_zxid();
    CHECK(zoo_amulti(handles[0], 7, ops, results, on_void, data_of(0)) == ZOK);
    run_for(SIM_SECOND);
    CHECK(strcmp(story[0], "v0 ") == 0);
    CHECK(strcmp(story[1], "a4 W3 ") == 0); /* in the order of the parts, each watch once */
    for (int i = 0; i < 7; i++)
        CHECK(results[i].err == ZOK);
    CHECK(results[1].value == name && strcmp(name, "/d/n-0000000001") == 0);
    CHECK(results[3].value == cut && strcmp(cut, "/d/ex") == 0);
    CHECK(results[6].value == NULL);
    CHECK(results[2].stat == &first && first.version == 1 && first.dataLength == 3 && first.mzxid == before + 1);
    CHECK(results[4].stat == &second && second.version == 2 && second.dataLength == 4);
    CHECK(sim_last_zxid() == before + 1 && !sim_exists("/d/old"));
    CHECK(sim_czxid(name) == before + 1 && sim_czxid("/d/exact") == before + 1);
    CHECK(sim_owner(name) == sim_client_session(0) && sim_owner("/d/m") == 0);
    forget_story();
    get_at(1, name);
    get_at(1, "/d/exact");
    CHECK(says(1, "d0 d0 "));
    CHECK(strcmp(contents[1], "-1:null") == 0);
    /* One part fails: nothing happens, nobody is told, and no number is used up. */
    list2_at(1, "/d", "a");
    run_for(SIM_SECOND);
    forget_story();
    snprintf(name, sizeof(name), "before");
    zoo_create_op_init(&ops[0], "/d/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof(name));
    zoo_delete_op_init(&ops[1], "/d/m", -1);
    zoo_create_op_init(&ops[2], "/d/exact", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, cut, sizeof(cut));
    zoo_set_op_init(&ops[3], "/d/none", "", 0, -1, &first);
    CHECK(zoo_amulti(handles[0], 4, ops, results, on_void, data_of(0)) == ZOK);
    run_for(SIM_SECOND);
    CHECK(strcmp(story[0], "v-110 ") == 0 && story[1][0] == '\0');
    CHECK(results[0].err == ZOK && results[1].err == ZOK && results[2].err == ZNODEEXISTS);
    CHECK(results[3].err == ZRUNTIMEINCONSISTENCY && results[3].stat == NULL);
    CHECK(results[0].value == NULL && results[2].value == NULL && strcmp(name, "before") == 0);
    CHECK(sim_last_zxid() == before + 2 && sim_exists("/d/m") && sim_child_count("/d") == 3);
    CHECK(zoo_amulti(handles[0], 1, ops, results, on_void, data_of(0)) == ZOK);
    run_for(SIM_SECOND);
    CHECK(strcmp(name, "/d/n-0000000004") == 0 && strcmp(story[1], "a4 ") == 0);
    /* Versions, permissions. */
    forget_story();
    zoo_check_op_init(&ops[0], "/d/m", 1);
    CHECK(zoo_amulti(handles[0], 2, ops, results, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v-103 "));
    CHECK(results[0].err == ZBADVERSION && results[1].err == ZRUNTIMEINCONSISTENCY);
    sim_deny("/d", ZOO_PERM_DELETE);
    zoo_check_op_init(&ops[0], "/d/m", 0);
    CHECK(zoo_amulti(handles[0], 2, ops, results, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v-102 "));
    CHECK(results[0].err == ZOK && results[1].err == ZNOAUTH && sim_exists("/d/m"));
    CHECK(zoo_amulti(handles[0], 0, ops, results, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v0 "));
    /* To look at a node with an owner takes a permission that nobody has; one that is not there is not there. */
    sim_hide_nodes();
    CHECK(zoo_aexists(handles[0], "/d/n-0000000004", 0, on_stat, data_of(0)) == ZOK);
    CHECK(says(0, "x-102 "));
    CHECK(zoo_aexists(handles[0], "/d/none", 0, on_stat, data_of(0)) == ZOK);
    CHECK(says(0, "x-101 "));
    CHECK(zoo_aexists(handles[0], "/d", 0, on_stat, data_of(0)) == ZOK);
    CHECK(says(0, "x0 "));
    end();
}

static void test_multi_mistakes(void)
{
    begin("multis that the client refuses", 1);
    open_handle(0);
    run_for(SIM_SECOND);
    forget_story();
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    memset(results, 0, sizeof(results));
    zoo_check_op_init(&ops[0], "/", -1);
    zoo_check_op_init(&ops[1], "no path", -1);
    CHECK(zoo_amulti(handles[0], 2, ops, results, on_void, data_of(0)) == ZMARSHALLINGERROR);
    ops[1].type = 15; /* ZOO_CREATE2_OP */
    CHECK(zoo_amulti(handles[0], 2, ops, results, on_void, data_of(0)) == ZUNIMPLEMENTED);
    CHECK(sim_client_pending(0) == 0);
    struct ACL_vector none = {0, NULL};
    char name[16] = "";
    zoo_create_op_init(&ops[1], "/n", "", 0, &none, ZOO_PERSISTENT, name, sizeof(name));
    CHECK(zoo_amulti(handles[0], 2, ops, results, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v-114 "));
    CHECK(results[0].err == ZOK && results[1].err == ZINVALIDACL && results[1].value == NULL);
    /* A container goes well as long as the multi does not. */
    zoo_create_op_init(&ops[0], "/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, name, sizeof(name));
    zoo_check_op_init(&ops[1], "/none", -1);
    CHECK(zoo_amulti(handles[0], 2, ops, results, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v-101 "));
    CHECK(results[0].err == ZOK && results[0].value == NULL && results[1].err == ZNONODE && !sim_exists("/c"));
    pid_t child = fork();
    if (child == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        if (nothing >= 0)
            dup2(nothing, STDERR_FILENO);
        zoo_amulti(handles[0], 1, ops, results, on_void, data_of(0));
        run_for(SIM_SECOND);
        _exit(EXIT_SUCCESS);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    /* The session is over: neither ZINVALIDSTATE nor ZSESSIONEXPIRED. */
    CHECK(sim_foreign_expire(sim_client_session(0)));
    run_for(T);
    CHECK(zoo_state(handles[0]) == ZOO_EXPIRED_SESSION_STATE);
    CHECK(zoo_amulti(handles[0], 1, &ops[1], results, on_void, data_of(0)) == ZMARSHALLINGERROR);
    CHECK(zoo_aset(handles[0], "/c", "", 0, -1, on_stat, data_of(0)) == ZINVALIDSTATE);
    CHECK(zoo_aget_children2(handles[0], "/c", 0, on_strings_stat, data_of(0)) == ZINVALIDSTATE);
    end();
}

static void test_multi_chroot(void)
{
    begin("a multi under a chroot, and on an old server", 1);
    sim_end();
    sim_options options = {.seed = 8, .servers = 1, .min_session_timeout_ms = 1000, .max_session_timeout_ms = 4000};
    sim_begin(&options, NULL);
    while (sim_leader() < 0)
        sim_step();
    sim_foreign_create(0, "/app", "", ZOO_PERSISTENT);
    sim_set_caller(0);
    handles[0] = zookeeper_init2("h1:2181/app", on_event, 4000, NULL, NULL, 0, NULL);
    run_for(SIM_SECOND);
    forget_story();
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    memset(results, 0, sizeof(results));
    char name[16] = "", other[16] = "";
    zoo_create_op_init(&ops[0], "/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof(name));
    zoo_create_op_init(&ops[1], "/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, other, sizeof(other));
    CHECK(zoo_amulti(handles[0], 1, ops, results, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v0 "));
    CHECK(strcmp(name, "/n-0000000000") == 0 && sim_exists("/app/n-0000000000"));
    CHECK(zoo_amulti(handles[0], 2, ops, results, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v-5 "));
    CHECK(results[0].err == ZMARSHALLINGERROR && results[1].err == ZMARSHALLINGERROR);
    CHECK(results[0].value == NULL && sim_child_count("/app") == 1);
    end();
}

static void test_lost_multi(void)
{
    begin("a multi without a reply happened as a whole or not at all", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    int executed = 0, not_executed = 0;
    for (int i = 0; i < 40; i++) {
        char here[32], there[32], name[32] = "", second[32] = "";
        snprintf(here, sizeof(here), "/d/a%d", i);
        snprintf(there, sizeof(there), "/d/b%d", i);
        struct Stat stat;
        zoo_op_t ops[4];
        zoo_op_result_t results[4];
        memset(results, 0, sizeof(results));
        zoo_check_op_init(&ops[0], "/d", i == 0 ? 0 : -1);
        zoo_create_op_init(&ops[1], here, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, name, sizeof(name));
        zoo_set_op_init(&ops[2], "/d", "", 0, -1, &stat);
        zoo_create_op_init(&ops[3], there, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, second, sizeof(second));
        forget_story();
        sim_set_caller(0);
        CHECK(zoo_amulti(handles[0], 4, ops, results, on_void, data_of(0)) == ZOK);
        for (int64_t steps = sim_below(8); steps > 0; steps--)
            sim_step();
        sim_reset_connections(0);
        run_for(2 * SIM_SECOND);
        CHECK(sim_exists(here) == sim_exists(there));
        if (strstr(story[0], "v-4 ") == NULL) {
            CHECK(strstr(story[0], "v0 ") != NULL && sim_exists(here) && strcmp(name, here) == 0);
            continue;
        }
        for (int j = 0; j < 4; j++)
            CHECK(results[j].err == ZCONNECTIONLOSS);
        CHECK(results[1].value == NULL && results[2].stat == NULL && results[3].value == NULL && name[0] == '\0');
        *(sim_exists(here) ? &executed : &not_executed) += 1;
    }
    CHECK(executed > 0 && not_executed > 0);
    forget_story();
    get_at(0, "/d");
    CHECK(says(0, "d0 "));
    CHECK(stats[0].version * 2 == sim_child_count("/d") && stats[0].numChildren == sim_child_count("/d"));
    end();
}

/* ---- links ---- */

static void open_at(int caller, const char *hosts)
{
    sim_set_caller(caller);
    handles[caller] = zookeeper_init2(hosts, on_event, 4000, NULL, NULL, 0, NULL);
    CHECK(handles[caller] != NULL);
}

/* A world with a link to server 0, and client 0 behind it. Returns the link. */
static int begin_link(const char *name, int servers)
{
    static const int first[] = {0};
    begin(name, servers);
    int link = sim_link_begin(first, 1);
    open_at(0, "link1:2181");
    CHECK(link == 1 && says(0, "S3 "));
    return link;
}

static bool is_text(const char *text, const char *expected)
{
    bool same = text != NULL && expected != NULL ? strcmp(text, expected) == 0 : text == expected;
    if (!same)
        printf("this is: %s\n", text != NULL ? text : "NULL");
    return same;
}

static void exists_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_aexists(handles[caller], path, 0, on_stat, data_of(caller)) == ZOK);
}

/* A multi that creates /<name> and looks at its version. */
static void multi_at(int caller, const char *path)
{
    static zoo_op_t ops[2];
    static zoo_op_result_t results[2];
    memset(results, 0, sizeof(results));
    zoo_create_op_init(&ops[0], path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    zoo_check_op_init(&ops[1], path, 0);
    sim_set_caller(caller);
    CHECK(zoo_amulti(handles[caller], 2, ops, results, on_void, data_of(caller)) == ZOK);
}

static void test_link_counts(void)
{
    int link = begin_link("a link counts what it passes on", 3);
    CHECK(sim_link_count(link, "connections") == 1 && sim_link_count(link, "connect") == 1);
    CHECK(sim_client_server(0) == 0 && is_text(zoo_get_current_server(handles[0]), "link1:2181"));
    open_at(1, "h1:2181");
    CHECK(says(1, "S3 "));
    sim_link_reset_counts(link);
    create_at(0, "/d", ZOO_CONTAINER);
    create_at(0, "/d/a", ZOO_EPHEMERAL);
    sim_set_caller(0);
    CHECK(zoo_acreate(handles[0], "/d/b", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, on_string, data_of(0)) == ZOK);
    exists_at(0, "/d/none");
    list_at(0, "/d");
    list2_at(0, "/d", NULL);
    get_at(0, "/d/b");
    watch_at(0, "/d/a", "");
    set_at(0, "/d/b", "y", -1);
    multi_at(0, "/m");
    CHECK(says(0, "s0 s0 s0 x-101 l0:2 l0:2 d0 d0 x0 v0 "));
    remove_at(1, "/d/a");
    run_for(SIM_SECOND);
    CHECK(strcmp(story[1], "v0 ") == 0 && says(0, "W2 "));
    CHECK(zoo_async(handles[0], "/d", on_string, data_of(0)) == ZOK);
    remove_at(0, "/d/b");
    CHECK(says(0, "s0 v0 "));
    static const struct {
        const char *name;
        int64_t count;
    } expected[] = {{"createContainer", 1}, {"create2", 1},       {"create", 1},     {"exists", 1},
                    {"getChildren", 1},     {"getChildren2", 1},  {"getData", 2},    {"setData", 1},
                    {"multi", 1},           {"notifications", 1}, {"sync", 1},       {"delete", 1},
                    {"connections", 0},     {"connect", 0},       {"setWatches", 0}, {"closeSession", 0},
                    {"bytes_up", 0},        {"bytes_down", 0},    {"other", 0}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        bool same = sim_link_count(link, expected[i].name) == expected[i].count;
        CHECK(same);
        if (!same)
            printf("%s: %d\n", expected[i].name, (int)sim_link_count(link, expected[i].name));
    }
    CHECK(sim_link_count(link, "replies") == 12 + sim_link_count(link, "ping"));
    CHECK(sim_link_count(link, "nonsense") == -1 && is_text(sim_link_counted(0), "create"));
    run_for(T);
    CHECK(sim_link_count(link, "ping") > 0);
    int names = 0;
    while (sim_link_counted(names) != NULL)
        names++;
    CHECK(names == 31);
    /* A watch that is left goes to the next connection. */
    watch_at(0, "/d", "");
    CHECK(says(0, "d0 "));
    sim_link_reset_counts(link);
    sim_link_cut(link, NULL);
    CHECK(says(0, "S1 S3 "));
    CHECK(sim_link_count(link, "setWatches") == 1 && sim_link_count(link, "connections") == 1);
    end();
}

static void test_link_session(void)
{
    int link = begin_link("a link knows the session that it carries", 1);
    sim_link_session session;
    CHECK(sim_link_last_session(link, &session));
    CHECK(session.id == sim_client_session(0) && session.timeout_ms == 4000);
    /* With the id and the password, another client can end the session. */
    clientid_t id = {.client_id = session.id};
    memcpy(id.passwd, session.password, sizeof(id.passwd));
    sim_set_caller(1);
    handles[1] = zookeeper_init2("h1:2181", on_event, 4000, &id, NULL, 0, NULL);
    while (zoo_state(handles[1]) != ZOO_CONNECTED_STATE)
        run_for(SIM_MILLISECOND);
    zookeeper_close(handles[1]);
    handles[1] = NULL;
    run_for(SIM_SECOND);
    CHECK(!sim_session_lives(session.id));
    CHECK(strstr(story[0], "S-112 ") != NULL);
    CHECK(sim_link_last_session(link, &session) && session.id == 0);
    const int first[] = {0};
    CHECK(!sim_link_last_session(sim_link_begin(first, 1), &session));
    end();
}

static void test_link_cut(void)
{
    static const char *const ways[] = {"rst", "fin"};
    int link = begin_link("a link cuts connections, refuses and accepts them", 1);
    for (int i = 0; i < 2; i++) {
        CHECK(sim_link_state(link).connections == 1);
        CHECK(sim_link_cut(link, ways[i]) == NULL);
        CHECK(sim_link_state(link).connections == 0);
        CHECK(says(0, "S1 S3 "));
    }
    sim_link_refuse(link, true);
    create_at(0, "/a", ZOO_EPHEMERAL);
    watch_at(0, "/a", "");
    CHECK(says(0, "s0 d0 ") && !sim_link_state(link).listening && server_watches() == 1);
    sim_link_cut(link, NULL);
    CHECK(server_watches() == 0);
    CHECK(says(0, "S1 ") && zoo_state(handles[0]) != ZOO_CONNECTED_STATE);
    sim_link_refuse(link, false);
    CHECK(says(0, "S3 ") && sim_link_state(link).listening && sim_exists("/a"));
    /* A cut loses the requests and replies that the link holds back. */
    sim_link_stall(link, "up");
    create_at(0, "/held", ZOO_PERSISTENT);
    CHECK(says(0, ""));
    sim_link_cut(link, NULL);
    sim_link_resume(link);
    CHECK(says(0, "S1 s-4 S3 ") && !sim_exists("/held"));
    sim_link_stall(link, "down");
    create_at(0, "/done", ZOO_PERSISTENT);
    CHECK(says(0, ""));
    sim_link_cut(link, NULL);
    sim_link_resume(link);
    CHECK(says(0, "S1 s-4 S3 ") && sim_exists("/done"));
    /* The link passes on the end that a server makes. */
    sim_crash_server(0);
    CHECK(says(0, "S1 ") && sim_link_state(link).connections == 0);
    sim_restart_server(0);
    run_for(SIM_SECOND);
    CHECK(says(0, "S3 "));
    sim_link_end(link);
    run_for(T);
    CHECK(says(0, "S1 ") && zoo_state(handles[0]) != ZOO_CONNECTED_STATE);
    const int first[] = {0};
    CHECK(sim_link_begin(first, 1) == link + 1);
    end();
}

static void test_link_stall(void)
{
    int link = begin_link("a link holds back, and delays", 1);
    static const char *const ways[] = {"up", "down", "both"};
    for (int i = 0; i < 3; i++) {
        char path[8];
        snprintf(path, sizeof(path), "/%s", ways[i]);
        CHECK(sim_link_stall(link, ways[i]) == NULL);
        CHECK(is_text(sim_link_state(link).stalled, ways[i]));
        create_at(0, path, ZOO_PERSISTENT);
        CHECK(says(0, "") && sim_exists(path) == (i == 1));
        sim_link_resume(link);
        CHECK(says(0, "s0 ") && is_text(sim_link_state(link).stalled, "no"));
    }
    CHECK(sim_link_delay(link, 150, NULL) == NULL);
    int64_t before = sim_now();
    create_at(0, "/late", ZOO_PERSISTENT);
    while (strcmp(story[0], "s0 ") != 0 && sim_now() < before + SIM_SECOND)
        run_for(SIM_MILLISECOND);
    CHECK(says(0, "s0 ") && sim_now() - before >= 300 * SIM_MILLISECOND);
    CHECK(sim_link_delay(link, 0, "up") == NULL && sim_link_delay(link, 700, "down") == NULL);
    create_at(0, "/down", ZOO_PERSISTENT);
    list_at(0, "/");
    run_for(600 * SIM_MILLISECOND);
    CHECK(sim_exists("/down") && strcmp(story[0], "") == 0);
    /* Replies keep their order when the delay ends. */
    sim_link_delay(link, 0, NULL);
    list_at(0, "/none");
    CHECK(says(0, "s-110 l0:4 l-101:-1 "));
    end();
}

static void test_link_ends(void)
{
    int link = begin_link("a link holds back ends of connections", 1);
    CHECK(sim_link_stall(link, "ends") == NULL && is_text(sim_link_state(link).stalled, "ends"));
    create_at(0, "/a", ZOO_EPHEMERAL);
    CHECK(says(0, "s0 "));
    sim_crash_server(0);
    run_for(SIM_SECOND / 4);
    CHECK(zoo_state(handles[0]) == ZOO_CONNECTED_STATE && sim_link_state(link).connections == 1);
    create_at(0, "/b", ZOO_EPHEMERAL);
    run_for(SIM_SECOND / 4);
    CHECK(strcmp(story[0], "") == 0);
    sim_link_resume(link);
    CHECK(says(0, "S1 s-4 ") && sim_link_state(link).connections == 0);
    sim_restart_server(0);
    run_for(SIM_SECOND);
    CHECK(says(0, "S3 ") && sim_exists("/a") && !sim_exists("/b"));
    /* A client's end of the connection stays behind its last request. */
    sim_link_stall(link, "up");
    zookeeper_close(handles[0]);
    handles[0] = NULL;
    open_at(1, "h1:2181");
    CHECK(says(1, "S3 ") && sim_exists("/a") && sim_link_state(link).connections == 1);
    sim_link_resume(link);
    run_for(SIM_SECOND);
    CHECK(!sim_exists("/a") && sim_link_state(link).connections == 0);
    CHECK(sim_link_count(link, "closeSession") == 1);
    end();
}

static void close_at(int caller)
{
    zookeeper_close(handles[caller]);
    handles[caller] = NULL;
}

static void test_link_two_ends(void)
{
    int link = begin_link("a link learns of either end of a connection when the other is gone", 1);
    for (int i = 0; i < 4; i++) {
        open_at(1, "link1:2181");
        run_for(SIM_SECOND);
        CHECK(sim_link_state(link).connections == 2 && zoo_state(handles[1]) == ZOO_CONNECTED_STATE);
        sim_link_stall(link, i == 0 ? "ends" : i == 2 ? "up" : "down");
        if (i == 3)
            close_at(1);
        if (i != 2)
            sim_crash_server(0);
        run_for(SIM_SECOND / 10);
        if (i != 3)
            close_at(1);
        run_for(SIM_SECOND / 10);
        if (i == 2)
            sim_crash_server(0);
        if (i == 0) { /* The link holds back both ends. A third client's close does not change that. */
            open_at(2, "link2:2181");
            run_for(SIM_SECOND / 10);
            close_at(2);
        }
        run_for(SIM_SECOND / 10);
        CHECK(sim_link_state(link).connections == (i == 0 ? 2 : i == 2 ? 0 : 1));
        sim_link_resume(link);
        run_for(SIM_SECOND / 10);
        CHECK(sim_link_state(link).connections == 0);
        sim_restart_server(0);
        run_for(2 * SIM_SECOND);
        CHECK(zoo_state(handles[0]) == ZOO_CONNECTED_STATE);
    }
    /* The link does not pass on requests that arrive together with a reset. */
    for (int i = 0; i < 8; i++) {
        sim_link_stall(link, "up");
        create_at(0, "/held", ZOO_PERSISTENT);
        sim_reset_connections(0);
        run_for(SIM_SECOND);
        sim_link_resume(link);
        run_for(SIM_SECOND);
        CHECK(!sim_exists("/held") && zoo_state(handles[0]) == ZOO_CONNECTED_STATE);
    }
    end();
}

static void test_link_half_close(void)
{
    int link = begin_link("a link closes half of a connection", 1);
    CHECK(sim_link_half_close(link, "client") == NULL);
    /* The client's request reaches the server, but the client closes before it reads the reply. */
    create_at(0, "/a", ZOO_PERSISTENT);
    CHECK(says(0, "S1 s-4 S3 ") && sim_link_state(link).connections == 1);
    CHECK(sim_exists("/a"));
    CHECK(sim_link_half_close(link, "server") == NULL);
    create_at(0, "/b", ZOO_PERSISTENT);
    CHECK(says(0, "S1 s-4 S3 ") && !sim_exists("/b"));
    end();
}

static void test_link_targets(void)
{
    int link = begin_link("a link leads to its servers in turn", 3);
    const int several[] = {1, 2};
    sim_link_target(link, several, 2);
    create_at(0, "/a", ZOO_PERSISTENT);
    CHECK(says(0, "s0 ") && sim_client_server(0) == 0);
    int seen = 0;
    for (int i = 0; i < 4; i++) {
        int before = sim_client_server(0);
        sim_link_cut(link, NULL);
        CHECK(says(0, "S1 S3 ") && sim_client_server(0) != before);
        seen |= 1 << sim_client_server(0);
    }
    CHECK(seen == (1 << 1 | 1 << 2));
    int down = sim_leader() == 1 ? 2 : 1;
    sim_crash_server(down);
    run_for(3 * SIM_SECOND);
    forget_story();
    for (int i = 0; i < 3; i++) {
        sim_link_cut(link, NULL);
        CHECK(says(0, "S1 S3 ") && sim_client_server(0) == 3 - down);
    }
    /* No server accepts: the link accepts each connection, then cuts it. */
    sim_link_target(link, &down, 1);
    sim_link_reset_counts(link);
    sim_link_cut(link, NULL);
    CHECK(says(0, "S1 ") && sim_link_count(link, "connections") > 1 && sim_link_count(link, "connect") == 0);
    end();
}

static void test_link_network(void)
{
    int link = begin_link("a link is as silent as the network to its server", 3);
    const int targets[] = {0, 2};
    sim_link_target(link, targets, 2); /* the first connection was the first one's */
    sim_set_network(0, 0, false);
    sim_link_cut(link, NULL);
    CHECK(says(0, "S1 S3 ") && sim_client_server(0) == 2);
    sim_link_target(link, &targets[1], 1);
    sim_set_network(0, 2, false);
    create_at(0, "/a", ZOO_PERSISTENT);
    CHECK(says(0, "") && !sim_exists("/a"));
    sim_set_network(0, 2, true);
    CHECK(says(0, "s0 "));
    sim_set_network(0, 2, false);
    sim_link_cut(link, NULL);
    CHECK(says(0, "S1 ") && sim_link_state(link).connections == 0);
    sim_set_network(0, 2, true);
    run_for(SIM_SECOND);
    CHECK(says(0, "S3 "));
    sim_reset_connections(0);
    CHECK(says(0, "S1 S3 ") && sim_link_state(link).connections == 1);
    end();
}

static void test_link_traps(void)
{
    int link = begin_link("a link's traps for creates", 3);
    CHECK(is_text(sim_link_state(link).trap, "none") && sim_link_caught(link) == NULL);
    CHECK(sim_link_arm(link, "create", "before", 0, NULL) == NULL && is_text(sim_link_state(link).trap, "armed"));
    list_at(0, "/");
    CHECK(says(0, "l0:0 ") && sim_link_caught(link) == NULL);
    create_at(0, "/before", ZOO_PERSISTENT);
    CHECK(says(0, "S1 s-4 S3 ") && !sim_exists("/before"));
    CHECK(is_text(sim_link_caught(link), "create path=/before") && is_text(sim_link_state(link).trap, "sprung"));
    CHECK(sim_link_arm(link, "create", "after", 2, "fin") == NULL && sim_link_caught(link) == NULL);
    create_at(0, "/one", ZOO_PERSISTENT);
    create_at(0, "/two", ZOO_CONTAINER);
    create_at(0, "/three", ZOO_CONTAINER);
    create_at(0, "/four", ZOO_PERSISTENT);
    CHECK(says(0, "s0 s0 S1 s-4 s-4 S3 ") && sim_exists("/three"));
    CHECK(is_text(sim_link_caught(link), "create path=/three"));
    CHECK(sim_link_arm(link, "create", "stall-reply", 0, NULL) == NULL);
    sim_link_reset_counts(link);
    create_at(0, "/held", ZOO_PERSISTENT);
    list_at(0, "/none");
    CHECK(says(0, "") && sim_exists("/held") && is_text(sim_link_caught(link), "create path=/held"));
    CHECK(sim_link_count(link, "create2") == 1 && sim_link_count(link, "replies") == 0);
    sim_link_resume(link);
    CHECK(says(0, "s0 l-101:-1 ") && sim_link_count(link, "replies") == 2 + sim_link_count(link, "ping"));
    CHECK(sim_link_arm(link, "create", "stall-request", 0, NULL) == NULL);
    create_at(0, "/kept", ZOO_PERSISTENT);
    list_at(0, "/none");
    CHECK(says(0, "") && !sim_exists("/kept") && is_text(sim_link_caught(link), "create path=/kept"));
    CHECK(sim_link_count(link, "create2") == 1 && sim_link_count(link, "getChildren") == 1);
    sim_link_resume(link);
    CHECK(says(0, "s0 l-101:-1 ") && sim_exists("/kept") && sim_link_count(link, "create2") == 2);
    sim_link_arm(link, "create", "before", 0, NULL);
    sim_link_disarm(link);
    create_at(0, "/free", ZOO_PERSISTENT);
    CHECK(says(0, "s0 ") && is_text(sim_link_state(link).trap, "none"));
    end();
}

static void test_link_trap_waits(void)
{
    int link = begin_link("a link's trap waits for the next request if the connection ends before the reply", 1);
    sim_link_arm(link, "create", "after", 1, NULL);
    create_at(0, "/skipped", ZOO_PERSISTENT);
    CHECK(says(0, "s0 "));
    sim_link_stall(link, "down");
    create_at(0, "/a", ZOO_PERSISTENT);
    CHECK(says(0, "") && sim_exists("/a") && is_text(sim_link_state(link).trap, "pending"));
    sim_link_cut(link, NULL);
    CHECK(is_text(sim_link_state(link).trap, "armed") && sim_link_caught(link) == NULL);
    sim_link_resume(link);
    CHECK(says(0, "S1 s-4 S3 "));
    create_at(0, "/b", ZOO_PERSISTENT);
    CHECK(says(0, "S1 s-4 S3 ") && sim_exists("/b") && is_text(sim_link_caught(link), "create path=/b"));
    /* While the trap waits for one reply, other requests of that kind pass. */
    open_at(1, "link1:2181");
    run_for(SIM_SECOND);
    forget_story();
    sim_link_arm(link, "create", "stall-reply", 0, NULL);
    create_at(0, "/c", ZOO_PERSISTENT);
    run_for(SIM_SECOND / 4);
    create_at(1, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND / 4);
    CHECK(strcmp(story[0], "") == 0 && strcmp(story[1], "s0 ") == 0);
    CHECK(is_text(sim_link_caught(link), "create path=/c"));
    forget_story();
    sim_link_resume(link);
    CHECK(says(0, "s0 "));
    end();
}

static void test_link_kinds(void)
{
    int link = begin_link("a link's traps, by kinds of requests", 1);
    create_at(0, "/d", ZOO_PERSISTENT);
    watch_at(0, "/d", "");
    CHECK(says(0, "s0 d0 "));
    sim_link_arm(link, "any", "before", 0, NULL);
    sim_link_reset_counts(link);
    run_for(T);
    CHECK(sim_link_count(link, "ping") > 0 && sim_link_caught(link) == NULL);
    CHECK(says(0, ""));
    get_at(0, "/d");
    /* The trap catches one request only: the next connection's set-watches passes. */
    CHECK(says(0, "S1 d-4 S3 ") && is_text(sim_link_caught(link), "any path=/d"));
    sim_link_arm(link, "set-watches", "before", 0, NULL);
    sim_link_cut(link, NULL);
    run_for(2 * SIM_SECOND);
    CHECK(says(0, "S1 S3 S1 S3 ") && is_text(sim_link_caught(link), "set-watches"));
    sim_link_arm(link, "ping", "after", 0, NULL);
    run_for(T);
    CHECK(is_text(sim_link_caught(link), "ping") && says(0, "S1 S3 "));
    static const char *const kinds[] = {"delete",   "set",  "exists", "get",           "children",
                                        "children", "sync", "multi",  "remove-watches"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        CHECK(sim_link_arm(link, kinds[i], "stall-reply", 0, NULL) == NULL);
        switch (i) {
        case 0:
            remove_at(0, "/none");
            break;
        case 1:
            set_at(0, "/none", "", -1);
            break;
        case 2:
            exists_at(0, "/none");
            break;
        case 3:
            get_at(0, "/none");
            break;
        case 4:
            list_at(0, "/none");
            break;
        case 5:
            list2_at(0, "/none", NULL);
            break;
        case 6:
            zoo_async(handles[0], "/none", on_string, data_of(0));
            break;
        case 7:
            multi_at(0, "/none/first");
            break;
        default:
            unwatch_at(0, "/none", ZWATCHTYPE_ANY);
            break;
        }
        char expected[64];
        snprintf(expected, sizeof(expected), "%s path=/none%s", kinds[i], i == 7 ? "/first" : "");
        CHECK(says(0, "") && is_text(sim_link_caught(link), expected));
        sim_link_resume(link);
        run_for(SIM_SECOND);
        CHECK(story[0][0] != '\0');
        forget_story();
    }
    sim_link_arm(link, "auth", "after", 0, NULL);
    CHECK(zoo_add_auth(handles[0], "digest", "a:b", 3, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "S1 v-4 S3 ") && is_text(sim_link_caught(link), "auth"));
    /* The client does not wait for the reply to a close request. */
    sim_link_arm(link, "close", "before", 0, NULL);
    int64_t session = sim_client_session(0);
    zookeeper_close(handles[0]);
    handles[0] = NULL;
    open_at(1, "h1:2181");
    run_for(SIM_SECOND);
    CHECK(is_text(sim_link_caught(link), "close") && sim_session_lives(session));
    end();
}

static void test_link_deny(void)
{
    int link = begin_link("a link answers requests that succeed with an error", 1);
    CHECK(sim_link_deny(link, "exists", ZNOAUTH, -1) == NULL);
    for (int i = 0; i < 3; i++) {
        exists_at(0, "/");
        exists_at(0, "/none");
        get_at(0, "/");
    }
    CHECK(says(0, "x-102 x-101 d0 x-102 x-101 d0 x-102 x-101 d0 "));
    CHECK(sim_link_deny(link, "exists", 0, -1) == NULL);
    exists_at(0, "/");
    CHECK(says(0, "x0 "));
    /* Requests that fail by themselves count towards `times`. */
    CHECK(sim_link_deny(link, "create", ZNOAUTH, 2) == NULL);
    create_at(0, "/none/a", ZOO_PERSISTENT);
    create_at(0, "/a", ZOO_CONTAINER);
    create_at(0, "/b", ZOO_PERSISTENT);
    CHECK(says(0, "s-101 s-102 s0 ") && sim_exists("/a"));
    sim_link_deny(link, "multi", ZNOAUTH, 1);
    multi_at(0, "/m");
    CHECK(says(0, "v-102 ") && sim_exists("/m"));
    sim_link_deny(link, "auth", ZAUTHFAILED, 1);
    CHECK(zoo_add_auth(handles[0], "digest", "a:b", 3, on_void, data_of(0)) == ZOK);
    CHECK(says(0, "v-115 S-113 ") && zoo_state(handles[0]) == ZOO_AUTH_FAILED_STATE);
    end();
}

static void test_link_stamp(void)
{
    int link = begin_link("a link stamps events with a zxid, which clients do not believe", 1);
    sim_link_stamp(link, INT64_C(4611686018427387904));
    create_at(0, "/a", ZOO_PERSISTENT);
    watch_at(0, "/a", "");
    CHECK(says(0, "s0 d0 "));
    sim_foreign_set(0, "/a", "y");
    CHECK(says(0, "W3 "));
    sim_link_cut(link, NULL);
    CHECK(says(0, "S1 S3 ") && sim_stats().stale_refusals == 0);
    end();
}

static void test_link_mistakes(void)
{
    int link = begin_link("a link explains what it does not understand", 1);
    CHECK(is_text(sim_link_arm(link, "everything", "after", 0, NULL), "no such kind of request"));
    CHECK(is_text(sim_link_arm(link, "other", "after", 0, NULL), "no such kind of request"));
    CHECK(is_text(sim_link_arm(link, "any", "never", 0, NULL), "expected before, after, stall-reply or stall-request"));
    CHECK(is_text(sim_link_arm(link, "any", "after", -1, NULL), "expected skip N, then rst or fin"));
    CHECK(is_text(sim_link_arm(link, "any", "after", 0, "ack"), "expected skip N, then rst or fin"));
    CHECK(is_text(sim_link_state(link).trap, "none"));
    CHECK(is_text(sim_link_cut(link, "ack"), "expected rst or fin"));
    CHECK(is_text(sim_link_stall(link, "sideways"), "expected up, down, both or ends"));
    CHECK(is_text(sim_link_delay(link, 1, "ends"), "expected milliseconds, then up, down or both"));
    CHECK(is_text(sim_link_delay(link, -1, NULL), "expected milliseconds, then up, down or both"));
    CHECK(is_text(sim_link_half_close(link, "both"), "expected client or server"));
    CHECK(is_text(sim_link_deny(link, "any", ZNOAUTH, 1), "no such kind of request"));
    create_at(0, "/a", ZOO_PERSISTENT);
    CHECK(says(0, "s0 ") && is_text(sim_link_state(link).stalled, "no"));
    end();
}

static void test_all_callers(void)
{
    int link = begin_link("as many clients as there can be, through one link", 1);
    for (int i = 1; i < SIM_MAX_CALLERS; i++)
        open_at(i, "link1:2181");
    run_for(SIM_SECOND);
    CHECK(sim_link_state(link).connections == SIM_MAX_CALLERS);
    forget_story();
    for (int i = 0; i < SIM_MAX_CALLERS; i++)
        create_at(i, "/n-", ZOO_EPHEMERAL_SEQUENTIAL);
    run_for(SIM_SECOND);
    for (int i = 0; i < SIM_MAX_CALLERS; i++)
        CHECK(strcmp(story[i], "s0 ") == 0 && sim_owner(created[i]) == sim_client_session(i));
    sim_link_cut(link, NULL);
    run_for(2 * SIM_SECOND);
    CHECK(sim_link_state(link).connections == SIM_MAX_CALLERS);
    end();
}

/* The state of the world after some requests of a client, with or without a link, which the client may lead through. */
static uint64_t hash_with_link(bool link, const char *hosts)
{
    const int all[] = {0, 1, 2};
    begin("a link changes nothing for clients that do not use it", 3);
    if (link) {
        int number = sim_link_begin(all, 3);
        sim_link_arm(number, "create", "after", 1, NULL);
        sim_link_delay(number, 3, NULL);
        sim_link_deny(number, "get", ZNOAUTH, -1);
    }
    open_at(0, hosts);
    run_for(SIM_SECOND);
    for (int i = 0; i < 5; i++) {
        create_at(0, "/n-", ZOO_EPHEMERAL_SEQUENTIAL);
        get_at(0, "/");
        sim_reset_connections(0);
        run_for(SIM_SECOND);
    }
    if (link)
        sim_link_cut(1, NULL);
    run_for(SIM_SECOND);
    uint64_t hash = sim_trace_hash();
    end();
    return hash;
}

static void test_link_without_effect(void)
{
    uint64_t without = hash_with_link(false, "h1:2181,h2:2181,h3:2181");
    CHECK(hash_with_link(true, "h1:2181,h2:2181,h3:2181") == without);
    CHECK(hash_with_link(false, "h2:2181") == without);
    uint64_t within = hash_with_link(true, "link1:2181");
    CHECK(within != without && hash_with_link(true, "link1:2181") == within);
}

/* The server that a client with this list connects to, -1: none, -2: there is no such client; errno is why. */
static int leads_to(const char *hosts)
{
    sim_set_caller(0);
    errno = 0;
    handles[0] = zookeeper_init2(hosts, on_event, 4000, NULL, NULL, 0, NULL);
    if (handles[0] == NULL)
        return -2;
    run_for(SIM_SECOND);
    int server = sim_client_server(0);
    zookeeper_close(handles[0]);
    handles[0] = NULL;
    forget_story();
    return server;
}

/* The servers that clients with this list connect to, a bit each. */
static int lead_to(const char *hosts)
{
    int seen = 0;
    for (int i = 0; i < 20; i++) {
        int server = leads_to(hosts);
        CHECK(server >= 0);
        seen |= server >= 0 ? 1 << server : 0;
    }
    return seen;
}

static void test_hosts(void)
{
    const int last[] = {2};
    begin("names of hosts, in a list with a link", 3);
    sim_link_begin(last, 1);
    CHECK(leads_to("link1:2181") == 2 && leads_to("link1:2181/") == 2);
    sim_foreign_create(0, "/app", "", ZOO_PERSISTENT);
    open_at(0, "link1:2181/app");
    CHECK(says(0, "S3 "));
    sim_link_arm(1, "create", "after", 0, NULL);
    create_at(0, "/a", ZOO_EPHEMERAL);
    CHECK(says(0, "S1 s-4 S3 ") && sim_exists("/app/a") && is_text(sim_link_caught(1), "create path=/app/a"));
    zookeeper_close(handles[0]);
    CHECK(leads_to("link2:2181") == -1 && leads_to("link1:2182") == -1);
    CHECK(leads_to("127.0.0.1:1,link1:2181") == 2 && leads_to("link2:2181,h2:2181,link3:2181") == 1);
    CHECK(leads_to("elsewhere:2181,,link1:2181") == 2);
    CHECK(leads_to("link1:2181,h1") == -2 && errno == EINVAL);
    CHECK(leads_to("link1:2181,h1:") == -2 && errno == EINVAL);
    CHECK(leads_to("link1:2181,h1:21x") == -2 && errno == EINVAL);
    /* The order is random, or that of the list after zoo_deterministic_conn_order. */
    CHECK(lead_to("link1:2181,h1:2181,h2:2181") == 7);
    zoo_deterministic_conn_order(1);
    for (int i = 0; i < 8; i++)
        CHECK(leads_to("link1:2181,h1:2181,h2:2181") == 2);
    /* After its first connection a client goes on at the beginning of the list, and skips a server after each loss. */
    sim_set_caller(0);
    open_at(0, "link1:2181,h1:2181,h2:2181");
    CHECK(says(0, "S3 ") && sim_client_server(0) == 2);
    static const int order[] = {0, 2, 1, 0};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        sim_reset_connections(0);
        CHECK(says(0, "S1 S3 ") && sim_client_server(0) == order[i]);
    }
    end();
    begin("names of hosts, where they matter", 3);
    sim_end();
    sim_options options = {
        .seed = 9, .servers = 3, .min_session_timeout_ms = 1000, .max_session_timeout_ms = 4000, .named = true};
    sim_begin(&options, NULL);
    while (sim_leader() < 0)
        sim_step();
    for (int i = 0; i < 8; i++)
        CHECK(leads_to("h2:2181") == 1 && leads_to("h3:2181,127.0.0.1:2181") == 2);
    CHECK(leads_to("127.0.0.1:1") == -1 && leads_to("localhost:2181") == -1 && leads_to("h1:1") == -1);
    CHECK(leads_to("elsewhere:2181") == -2 && errno == ENOENT);
    CHECK(leads_to("h4:2181") == -2 && errno == ENOENT);
    open_at(0, "h2:2181");
    CHECK(says(0, "S3 ") && is_text(zoo_get_current_server(handles[0]), "h2:2181"));
    end();
    begin("names of hosts, where they do not matter", 3);
    CHECK(lead_to("elsewhere") == 7);
    end();
}

int main(void)
{
    test_sequence_numbers();
    test_order();
    test_lag();
    test_watches();
    test_children2();
    test_child_watches_after_reconnect();
    test_removing_watches();
    test_data();
    test_exact_names();
    test_own_writes();
    test_expiry();
    test_cut_follower();
    test_unpinged_follower();
    test_limits();
    test_lost_reply();
    test_late_create();
    test_silent_send_failure();
    test_requests_from_failing_completions();
    test_close();
    test_names();
    test_multi();
    test_mixed_multi();
    test_multi_mistakes();
    test_multi_chroot();
    test_lost_multi();
    test_containers();
    test_elections();
    test_link_counts();
    test_link_session();
    test_link_cut();
    test_link_stall();
    test_link_ends();
    test_link_two_ends();
    test_link_half_close();
    test_link_targets();
    test_link_network();
    test_link_traps();
    test_link_trap_waits();
    test_link_kinds();
    test_link_deny();
    test_link_stamp();
    test_link_mistakes();
    test_all_callers();
    test_link_without_effect();
    test_hosts();
    sim_selftest_nodes(&passed, &failed);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
