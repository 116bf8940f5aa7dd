/*
 * sim_selftest_multi: tests of multis: their results, their mistakes, paths below a chroot, and lost replies.
 */
#include "sim_selftest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_clients.h"
#include "sim_zookeeper.h"

static void test_multi(void)
{
    begin_test("multi", 3);
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
    end_test();
}

static void test_mixed_multi(void)
{
    begin_test("a multi of everything", 3);
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
    zoo_set_op_init(&ops[4], "/d/old", "abcd", 4, 1, &second); /* the version after the third operation */
    zoo_delete_op_init(&ops[5], "/d/old", 2);
    zoo_create_op_init(&ops[6], "/d/m", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    int64_t before = sim_last_zxid();
    CHECK(zoo_amulti(handles[0], 7, ops, results, on_void, data_of(0)) == ZOK);
    run_for(SIM_SECOND);
    CHECK(strcmp(story[0], "v0 ") == 0);
    CHECK(strcmp(story[1], "a4 W3 ") == 0); /* in the order of the operations, each watch once */
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
    /* If one operation fails, nothing changes, no watch fires, and no sequence number is used up. */
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
    /*
     * To read a node with an owner requires a permission that no client has. A missing node is still reported as
     * missing.
     */
    sim_hide_nodes();
    CHECK(zoo_aexists(handles[0], "/d/n-0000000004", 0, on_stat, data_of(0)) == ZOK);
    CHECK(says(0, "x-102 "));
    CHECK(zoo_aexists(handles[0], "/d/none", 0, on_stat, data_of(0)) == ZOK);
    CHECK(says(0, "x-101 "));
    CHECK(zoo_aexists(handles[0], "/d", 0, on_stat, data_of(0)) == ZOK);
    CHECK(says(0, "x0 "));
    end_test();
}

static void test_multi_mistakes(void)
{
    begin_test("multis that the client refuses", 1);
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
    /* The create of a container succeeds in a multi, as long as the multi succeeds. */
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
    end_test();
}

static void test_multi_chroot(void)
{
    begin_test("a multi under a chroot, and on an old server", 1);
    sim_end();
    sim_options options = {.seed = 8,
                           .servers = 1,
                           .min_session_timeout_ms = 1000,
                           .max_session_timeout_ms = 4000,
                           .no_containers = ZUNIMPLEMENTED};
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
    end_test();
}

static void test_lost_multi(void)
{
    begin_test("a multi without a reply happened as a whole or not at all", 3);
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
    end_test();
}

void sim_selftest_multi(void)
{
    test_multi();
    test_mixed_multi();
    test_multi_mistakes();
    test_multi_chroot();
    test_lost_multi();
}
