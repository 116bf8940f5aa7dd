/*
 * sim_selftest_links: tests of links, through which clients reach servers: counts, sessions, cuts, stalls, targets,
 * and that a link without faults changes nothing.
 */
#include "sim_selftest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_clients.h"
#include "sim_zookeeper.h"

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
    /* A watch that has not fired is sent on the next connection. */
    watch_at(0, "/d", "");
    CHECK(says(0, "d0 "));
    sim_link_reset_counts(link);
    sim_link_cut(link, NULL);
    CHECK(says(0, "S1 S3 "));
    CHECK(sim_link_count(link, "setWatches") == 1 && sim_link_count(link, "connections") == 1);
    end_test();
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
    end_test();
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
    /* The link passes on the end of a connection that a server has closed. */
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
    end_test();
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
    end_test();
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
    end_test();
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
    end_test();
}

static void test_link_half_close(void)
{
    int link = begin_link("a link closes half of a connection", 1);
    CHECK(sim_link_half_close(link, "client") == NULL);
    /* The client's request reaches the server, but the connection is closed before the client reads the reply. */
    create_at(0, "/a", ZOO_PERSISTENT);
    CHECK(says(0, "S1 s-4 S3 ") && sim_link_state(link).connections == 1);
    CHECK(sim_exists("/a"));
    CHECK(sim_link_half_close(link, "server") == NULL);
    create_at(0, "/b", ZOO_PERSISTENT);
    CHECK(says(0, "S1 s-4 S3 ") && !sim_exists("/b"));
    end_test();
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
    end_test();
}

static void test_link_network(void)
{
    int link = begin_link("a link is as silent as the network to its server", 3);
    const int targets[] = {0, 2};
    sim_link_target(link, targets, 2); /* the first connection was to the first server */
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
    end_test();
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
    end_test();
}

/*
 * Returns the hash of the world after some requests of a client. `link`: whether there is a link, through which `hosts`
 * may lead the client.
 */
static uint64_t hash_with_link(bool link, const char *hosts)
{
    const int all[] = {0, 1, 2};
    begin_test("a link changes nothing for clients that do not use it", 3);
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
    end_test();
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

void sim_selftest_links(void)
{
    test_link_counts();
    test_link_session();
    test_link_cut();
    test_link_stall();
    test_link_ends();
    test_link_two_ends();
    test_link_half_close();
    test_link_targets();
    test_link_network();
    test_all_callers();
    test_link_without_effect();
}
