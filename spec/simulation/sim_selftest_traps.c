/*
 * sim_selftest_traps: tests of what links do to requests, replies and events: traps, answers that are replaced, and
 * zxids in events.
 */
#include "sim_selftest.h"

#include <stdio.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_clients.h"
#include "sim_zookeeper.h"

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
    end_test();
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
    end_test();
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
    end_test();
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
    /* Requests that the server itself refuses count towards `times`. */
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
    end_test();
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
    end_test();
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
    end_test();
}

void sim_selftest_traps(void)
{
    test_link_traps();
    test_link_trap_waits();
    test_link_kinds();
    test_link_deny();
    test_link_stamp();
    test_link_mistakes();
}
