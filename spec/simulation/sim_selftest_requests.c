/*
 * sim_selftest_requests: tests of single requests: the numbers of sequential nodes, the order of answers, data,
 * limits, containers, and the closing of a handle.
 */
#include "sim_selftest.h"

#include <stdio.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_clients.h"
#include "sim_zookeeper.h"

static void test_sequence_numbers(void)
{
    begin_test("sequence numbers", 1);
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
    end_test();
}

static void test_order(void)
{
    begin_test("one session's requests are answered in order", 3);
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
    end_test();
}

static void test_lag(void)
{
    begin_test("reads may be old, sync brings them up to date", 3);
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
    end_test();
}

static void test_limits(void)
{
    begin_test("a server grants what its limits say, a new leader what the session began with", 3);
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
    CHECK(sim_session_timer(0, &restarted_at, &timeout_ms) && timeout_ms == 2000); /* the timeout at the next leader */
    end_test();
}

static void test_close(void)
{
    begin_test("closing says goodbye and fails what is outstanding", 3);
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
    end_test();
}

static void test_containers(void)
{
    begin_test("containers are reaped when they are empty again", 1);
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
    end_test();
}

static void test_data(void)
{
    begin_test("data, versions and Stats", 3);
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
    /* NULL data differ from empty data. Both have no length. */
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
    end_test();
}

static void test_exact_names(void)
{
    begin_test("an ephemeral with an exact name is there once", 3);
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
    end_test();
}

static void test_own_writes(void)
{
    begin_test("a lagging server is never behind what it has acknowledged", 3);
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
    set_at(1, "/d", "own", 1); /* the leader's version is newer than the one that this client has read */
    list2_at(1, "/d", "b");
    get_at(1, "/d");
    run_for(SIM_SECOND / 4);
    CHECK(story[1][0] == '\0');
    run_for(2 * SIM_SECOND);
    CHECK(strcmp(story[1], "a4 x0 l0:1 d0 ") == 0 && strcmp(contents[1], "3:own") == 0);
    CHECK(stats[1].version == 2);
    end_test();
}

void sim_selftest_requests(void)
{
    test_sequence_numbers();
    test_order();
    test_lag();
    test_data();
    test_exact_names();
    test_own_writes();
    test_limits();
    test_close();
    test_containers();
}
