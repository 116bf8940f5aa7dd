/*
 * sim_selftest_faults: tests of sessions and connections that end, of servers that are cut off or elected, and of
 * requests whose outcome is unknown.
 */
#include "sim_selftest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_clients.h"
#include "sim_zookeeper.h"

static void test_expiry(void)
{
    begin_test("a silent session expires, and hears of it when it comes back", 3);
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
    end_test();
}

static void test_cut_follower(void)
{
    begin_test("a follower cut off from its leader keeps its client connected", 3);
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
    /* Depends on how long the follower takes to notice. This seed makes it long. */
    CHECK(read_after_expiry);
    end_test();
}

static void test_replaced_on_a_lagging_server(void)
{
    begin_test("a node exists everywhere when no server has an earlier one of its name any more", 3);
    open_handle(0);
    run_for(SIM_SECOND);
    sim_foreign_create(0, "/a", "", 0);
    run_for(SIM_SECOND / 4);
    CHECK(sim_exists_everywhere("/a"));
    int leader = sim_leader(), follower = (leader + 1) % 3;
    sim_set_way(leader, follower, false);
    sim_foreign_delete(0, "/a");
    run_for(SIM_SECOND / 8);
    CHECK(!sim_exists_everywhere("/a"));
    sim_foreign_create(0, "/a", "", 0);
    run_for(SIM_SECOND / 8);
    CHECK(sim_exists("/a"));
    CHECK(!sim_exists_everywhere("/a"));
    sim_set_way(leader, follower, true);
    run_for(SIM_SECOND / 4);
    CHECK(sim_exists_everywhere("/a"));
    end_test();
}

static void test_unpinged_follower(void)
{
    begin_test("a follower that hears no ping reports nobody, though the leader carries out what its clients ask for",
               3);
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
    CHECK(sim_exists("/b") && strcmp(story[0], "") == 0); /* the answers are held back in their order */
    CHECK(sim_session_timer(0, &later, &timeout_ms) && later == restarted_at);
    sim_set_way(sim_leader(), follower, true);
    run_for(SIM_SECOND);
    CHECK(strstr(story[0], "d0 ") != NULL);
    CHECK(sim_session_timer(0, &later, &timeout_ms) && later > restarted_at);
    end_test();
}

static void test_hanging_server(void)
{
    begin_test("a server that hangs accepts connections and answers nobody, and one that swallows packets accepts none",
               1);
    sim_hang_server(0, true);
    open_handle(0);
    run_for(T / 3);
    CHECK(zoo_state(handles[0]) == ZOO_ASSOCIATING_STATE);
    sim_hang_server(0, false);
    run_for(SIM_SECOND);
    CHECK(zoo_state(handles[0]) == ZOO_CONNECTED_STATE);
    create_at(0, "/a", ZOO_EPHEMERAL);
    run_for(SIM_SECOND / 4);
    sim_hang_server(0, true);
    create_at(0, "/b", ZOO_EPHEMERAL);
    run_for(T / 3);
    CHECK(sim_exists("/a") && !sim_exists("/b"));
    sim_heal();
    run_for(SIM_SECOND);
    CHECK(sim_exists("/b"));
    sim_reset_connections(0);
    run_for(SIM_MILLISECOND);
    sim_set_network(0, 0, false);
    run_for(T / 3);
    CHECK(zoo_state(handles[0]) != ZOO_ASSOCIATING_STATE && zoo_state(handles[0]) != ZOO_CONNECTED_STATE);
    end_test();
}

static void test_lost_reply(void)
{
    begin_test("requests without a reply fail in order, and may have been executed", 3);
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
    end_test();
}

static void test_late_create(void)
{
    begin_test("a create whose reply is lost is carried out at once, or when its session has long looked for it", 3);
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
    create_at(0, "/d/kept", ZOO_PERSISTENT); /* not deleted with its session */
    run_for(SIM_SECOND);
    create_at(0, "/d/late", ZOO_EPHEMERAL);
    run_for(2 * SIM_SECOND);
    CHECK(strncmp(story[0], "s0 S1 s-4 S3 ", 13) == 0);
    CHECK(sim_exists("/d/kept") && !sim_exists("/d/late") && sim_delayed_writes() == 1);
    run_for(3 * SIM_SECOND); /* it counts for a second after its execution */
    CHECK(sim_owner("/d/late") == session && sim_client_session(0) == session && sim_delayed_writes() == 0);
    sim_lose_next_write(0, 0);
    zoo_adelete(handles[0], "/d/late", -1, on_void, data_of(0));
    run_for(SIM_SECOND);
    CHECK(!sim_exists("/d/late"));
    CHECK(sim_stats().lost_creates == 2 && sim_stats().lost_deletes == 1 && sim_stats().late_creates == 1);
    end_test();
}

static void test_silent_send_failure(void)
{
    begin_test_of_client("a failed send tells nobody", 1, "3.8.0");
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
    /* The list went out on the old connection, the create on the new one. The create's reply matches no request. */
    CHECK(strncmp(story[0], "S3 S1 l-2:-1 s-2 ", 17) == 0);
    CHECK(sim_exists("/d/a"));
    end_test();
}

static void test_late_send_failure(void)
{
    begin_test_of_client("before 3.8.0 the turn after a failed send loses the connection", 1, "3.7.2");
    open_handle(0);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    run_for(SIM_SECOND);
    forget_story();
    list_at(0, "/d");
    sim_fail_next_send(0);
    create_at(0, "/d/a", ZOO_PERSISTENT);
    CHECK(zoo_state(handles[0]) == ZOO_CONNECTED_STATE);
    CHECK(story[0][0] == '\0');
    run_for(2 * SIM_SECOND);
    CHECK(strcmp(story[0], "S1 l-4:-1 s-4 S3 ") == 0);
    CHECK(!sim_exists("/d/a"));
    end_test();
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
    begin_test("what a failing completion submits waits for the next connection", 1);
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
    end_test();
}

static void test_elections(void)
{
    begin_test("what was acknowledged survives every change of leader", 3);
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
    end_test();
}

void sim_selftest_faults(void)
{
    test_expiry();
    test_cut_follower();
    test_replaced_on_a_lagging_server();
    test_unpinged_follower();
    test_hanging_server();
    test_lost_reply();
    test_late_create();
    test_silent_send_failure();
    test_late_send_failure();
    test_requests_from_failing_completions();
    test_elections();
}
