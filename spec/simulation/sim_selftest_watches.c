/*
 * sim_selftest_watches: tests of watches on data and on children: when they fire, after a reconnect too, and how they
 * are removed.
 */
#include "sim_selftest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_clients.h"
#include "sim_zookeeper.h"

static void test_watches(void)
{
    begin_test("watches", 3);
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
    /* The watch is registered again after a reconnect, and reports a change in between. */
    sim_set_network(1, -1, false);
    remove_at(0, "/d/a");
    run_for(3 * SIM_SECOND); /* longer than the client waits without an answer, but not as long as the session lives */
    sim_set_network(1, -1, true);
    run_for(T);
    CHECK(strstr(story[1], "S1 ") != NULL && strstr(story[1], "S3 W2 ") != NULL);
    CHECK(sim_client_watches(1) == 0);
    /* exists on a missing node arms a watch. Removal removes it on both sides. */
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
    end_test();
}

static void test_children2(void)
{
    begin_test("lists with a Stat, and child watches", 3);
    open_handle(0);
    open_handle(1);
    run_for(SIM_SECOND);
    create_at(0, "/d", ZOO_PERSISTENT);
    CHECK(says(0, "S3 s0 "));
    int64_t created_at = stats[0].czxid;
    list2_at(1, "/d/missing", "a"); /* ZNONODE arms nothing */
    list2_at(1, "/d", "a");
    list2_at(1, "/d", "a"); /* the same watch again: one watcher */
    list2_at(1, "/d", "b");
    CHECK(says(1, "l-101:-1 l0:0 l0:0 l0:0 "));
    CHECK(stats[1].czxid == created_at && stats[1].pzxid == created_at && stats[1].cversion == 0);
    CHECK(sim_client_watches(1) == 2 && server_watches() == 1);
    create_at(0, "/d/x", ZOO_EPHEMERAL);
    create_at(0, "/d/y", ZOO_PERSISTENT); /* watches fire once, so this fires none */
    set_at(0, "/d", "data", -1);          /* fires no child watch */
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
    /*
     * The deletion of the directory fires data and child watches by one event. A watcher that is armed as both is
     * called once.
     */
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
    /* Without permission to read the watch is not armed. */
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
    /* With the handle's watcher. */
    CHECK(zoo_aget_children2(handles[1], "/old", 1, on_strings_stat, data_of(1)) == ZOK);
    CHECK(says(1, "l0:1 "));
    remove_at(0, "/old/x");
    CHECK(says(1, "E4 "));
    end_test();
}

/*
 * Checks a child watch of client 1 when something happens while the client is disconnected. `expected`: the report
 * after its reconnect.
 */
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
    run_for(3 * SIM_SECOND); /* longer than the client waits without an answer, but not as long as the session lives */
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
    begin_test("child watches after a reconnect", 3);
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
    /* A list whose answer is lost arms no watch: not at the client and, after a while, not at the server. */
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
    end_test();
}

static void test_removing_watches(void)
{
    begin_test("watches are removed by their kind", 3);
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
    /* Removed at the client only: the server keeps the watch, and its event calls no watcher. */
    list2_at(0, "/d", "a");
    watch_at(0, "/d", NULL);
    run_for(SIM_SECOND);
    CHECK(zoo_aremove_all_watches(handles[0], "/d", ZWATCHTYPE_CHILD, 1, NULL, NULL) == ZOK);
    CHECK(sim_client_watches(0) == 1 && server_watches() == 2);
    forget_story();
    remove_at(0, "/d/x");
    CHECK(says(0, "v0 "));
    CHECK(sim_client_watches(0) == 1 && server_watches() == 1);
    end_test();
}

void sim_selftest_watches(void)
{
    test_watches();
    test_children2();
    test_child_watches_after_reconnect();
    test_removing_watches();
}
