/* cases_watches: which client gets which event, how often, and in which order. */
#include <string.h>

#include "cases.h"

/* Most cases have a client that watches, 0, and a client that makes changes, 1. */
static void open_two(void)
{
    open_client(0);
    open_client(1);
}

static void make(const char *path)
{
    CHECK_NUMBER(RESULT(ask_create(1, path, "x", ZOO_PERSISTENT)), ZOK);
}

static void drop(const char *path)
{
    CHECK_NUMBER(RESULT(ask_delete(1, path, -1)), ZOK);
}

static void change(const char *path)
{
    CHECK_NUMBER(RESULT(ask_set(1, path, "changed", -1)), ZOK);
}

static watch a = {0, "a", false}, b = {0, "b", false}, c = {0, "c", false};

static void one_shot(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    change("/d");
    change("/d");
    drop("/d");
    settle();
    CHECK_STORY(0, "get=0 a:changed");
}

static void deduplicated(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", &a)), ZOK);
    told(0);
    change("/d");
    settle();
    CHECK_STORY(0, "a:changed");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &b)), ZOK);
    answer *other = new_answer(0, "get");
    CHECK_NUMBER(zoo_awget(handles[0], "/d", on_watch_too, &c, on_data, other), ZOK);
    CHECK_NUMBER(RESULT(other), ZOK);
    other = new_answer(0, "get");
    CHECK_NUMBER(zoo_awget(handles[0], "/d", on_watch_too, &a, on_data, other), ZOK);
    CHECK_NUMBER(RESULT(other), ZOK);
    told(0);
    change("/d");
    settle();
    const char *story = told(0);
    CHECK_NUMBER((int64_t)strlen(story), (int64_t)strlen("a:changed a:changed b:changed c:changed"));
    CHECK(strstr(story, "b:changed") != NULL && strstr(story, "c:changed") != NULL);
}

static void hears_once(void)
{
    static watch w = {0, "w", true};
    open_two();
    make("/d");
    make("/e");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &w)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &w)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/e", &w)), ZOK);
    CHECK_NUMBER(RESULT(ask_exists(0, "/f", &w)), ZNONODE);
    told(0);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connected");
    settle();
    const char *story = told(0);
    CHECK(strstr(story, "w:connecting") != NULL && strstr(story, "w:connected") != NULL);
    CHECK_NUMBER((int64_t)strlen(story), (int64_t)strlen("connecting w:connecting connected w:connected"));
    change("/e");
    drop("/d");
    make("/f");
    settle();
    CHECK_STORY(0, "w:changed w:deleted w:created");
}

/* A client below a chroot. The event has the path of the server. */
static void configuration(void)
{
    open_client(1);
    make("/d");
    open_handle(0, "/d", CASE_TIMEOUT, NULL);
    RUN_UNTIL_TOLD(0, "connected");
    answer *read = new_answer(0, "get");
    CHECK_NUMBER(zoo_awgetconfig(handles[0], on_watch, &a, on_data, read), ZOK);
    CHECK_NUMBER(RESULT(read), ZOK);
    read = ask_get(0, ZOO_CONFIG_NODE, NULL);
    CHECK_NUMBER(RESULT(read), ZNONODE);
    told(0);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connected");
    told(0);
    world_configure("server.1=h1:1:2;3");
    RUN_UNTIL_TOLD(0, "a:changed");
}

static void not_yet_armed(void)
{
    static watch w = {0, "w", true};
    open_two();
    make("/d");
    world_hold_replies(0, true);
    ask_get(0, "/d", &w);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "get=-4");
    world_hold_replies(0, false);
    RUN_UNTIL_TOLD(0, "connected");
    change("/d");
    settle();
    CHECK_STORY(0, "connecting get=-4 connected");
}

static void missing_nodes(void)
{
    open_two();
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", &c)), ZNONODE);
    told(0);
    make("/d");
    settle();
    CHECK_STORY(0, "c:created");
    drop("/d");
    make("/d");
    settle();
    CHECK_STORY(0, "");
}

static void kinds(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZOK);
    told(0);
    make("/d/x");
    settle();
    CHECK_STORY(0, "b:child");
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZOK);
    told(0);
    change("/d");
    change("/d/x");
    settle();
    CHECK_STORY(0, "a:changed");
    drop("/d/x");
    settle();
    CHECK_STORY(0, "b:child");
}

static void end_of_directory(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK); /* in both: called once */
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/", &c)), ZOK);
    told(0);
    drop("/d");
    settle();
    const char *story = told(0);
    CHECK(strcmp(story, "a:deleted b:deleted c:child") == 0 || strcmp(story, "b:deleted a:deleted c:child") == 0);
    make("/d");
    settle();
    CHECK_STORY(0, "");
}

static void own_writes(void)
{
    open_two();
    make("/d");
    make("/d/x");
    CHECK_NUMBER(RESULT(ask_get(0, "/d/x", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZOK);
    told(0);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/x", -1)), ZOK);
    CHECK_STORY(0, "a:deleted b:child delete=0");
    CHECK_NUMBER(RESULT(ask_exists(0, "/d/x", &a)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZOK);
    told(0);
    CHECK_NUMBER(RESULT(ask_create(0, "/d/x", "x", ZOO_EPHEMERAL)), ZOK);
    CHECK_STORY(0, "a:created b:child create=0");
    CHECK_NUMBER(RESULT(ask_get(0, "/d/x", &a)), ZOK);
    told(0);
    CHECK_NUMBER(RESULT(ask_set(0, "/d/x", "y", -1)), ZOK);
    CHECK_STORY(0, "a:changed set=0");
}

static void before_the_read(void)
{
    open_two();
    make("/d");
    for (int i = 0; i < 5; i++) {
        CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
        told(0);
        answer *made = ask_create(1, "/d/n-", "x", ZOO_PERSISTENT_SEQUENTIAL);
        answer *listed = NULL;
        do {
            listed = ask_list(0, "/d", NULL);
            CHECK_NUMBER(RESULT(listed), ZOK);
        } while (listed->count == i);
        CHECK_NUMBER(RESULT(made), ZOK);
        const char *story = told(0);
        CHECK(strcmp(story + strlen(story) - strlen("a:child list=0"), "a:child list=0") == 0);
    }
}

static void before_the_write(void)
{
    open_two();
    make("/own");
    for (int i = 0; i < 5; i++) {
        make("/d");
        CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
        told(0);
        world_hold_replies(0, true);
        drop("/d");
        zoo_op_t op;
        zoo_op_result_t result;
        zoo_check_op_init(&op, "/own", -1);
        answer *checked = ask_multi(0, 1, &op, &result);
        world_hold_replies(0, false);
        CHECK_NUMBER(RESULT(checked), ZOK);
        CHECK_STORY(0, "a:deleted multi=0");
    }
}

static void rearm(const answer *got)
{
    tell(got->client, "armed");
}

static void armed_again(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)state;
    (void)context;
    if (type == ZOO_SESSION_EVENT)
        return;
    tell(0, "again:%d", type);
    answer *got = new_answer(0, "get");
    got->then = rearm;
    if (zoo_awget(zh, path, armed_again, NULL, on_data, got) != ZOK)
        tell(0, "refused");
}

static void armed_inside(void)
{
    open_two();
    make("/d");
    answer *got = new_answer(0, "get");
    CHECK_NUMBER(zoo_awget(handles[0], "/d", armed_again, NULL, on_data, got), ZOK);
    CHECK_NUMBER(RESULT(got), ZOK);
    change("/d");
    RUN_UNTIL_TOLD(0, "armed");
    CHECK_STORY(0, "get=0 again:3 get=0 armed");
    change("/d");
    RUN_UNTIL_TOLD(0, "armed");
    CHECK_STORY(0, "again:3 get=0 armed");
}

static void default_watcher(void)
{
    open_two();
    make("/d");
    answer *got = new_answer(0, "get"), *listed = new_answer(0, "list");
    CHECK_NUMBER(zoo_aget(handles[0], "/d", 1, on_data, got), ZOK);
    CHECK_NUMBER(zoo_aget_children2(handles[0], "/d", 1, on_strings_stat, listed), ZOK);
    CHECK_NUMBER(RESULT(listed), ZOK);
    told(0);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connected");
    settle();
    CHECK_STORY(0, "connecting connected");
    make("/d/x");
    change("/d");
    settle();
    CHECK_STORY(0, "child changed");
}

/* Loses the events of `happen` with the connection of client 0, and checks its story after the reconnect. */
static void missed(void (*happen)(void), const char *expected)
{
    told(0);
    world_hold_replies(0, true);
    happen();
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connecting");
    world_hold_replies(0, false);
    RUN_UNTIL_TOLD(0, "connected");
    settle();
    CHECK_STORY(0, expected);
}

static void change_d(void)
{
    change("/d");
}

static void create_d(void)
{
    make("/d");
}

static void drop_d(void)
{
    drop("/d");
}

static void make_d(void)
{
    make("/d");
}

static void make_x(void)
{
    make("/d/x");
}

static void drop_x(void)
{
    drop("/d/x");
}

static void come_and_go(void)
{
    make("/d/y");
    drop("/d/y");
}

static void make_and_drop_d(void)
{
    drop("/d");
    make("/d");
}

static void nothing(void)
{
}

static void missed_data(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    missed(nothing, "connecting connected");
    missed(make_x, "connecting connected");
    missed(drop_x, "connecting connected");
    missed(change_d, "connecting connected a:changed");
    missed(change_d, "connecting connected");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    missed(drop_d, "connecting connected a:deleted");
    missed(make_d, "connecting connected");
}

static void missed_children(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
    missed(nothing, "connecting connected");
    missed(change_d, "connecting connected");
    missed(make_x, "connecting connected a:child");
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
    missed(drop_x, "connecting connected a:child");
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
    missed(come_and_go, "connecting connected a:child");
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
    missed(make_and_drop_d, "connecting connected a:child"); /* another directory: only its zxids show it */
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
    missed(drop_d, "connecting connected a:deleted");
}

static void missed_creation(void)
{
    open_two();
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", &a)), ZNONODE);
    missed(nothing, "connecting connected");
    missed(make_d, "connecting connected a:created");
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", &a)), ZOK);
    missed(change_d, "connecting connected a:changed");
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", &a)), ZOK);
    missed(drop_d, "connecting connected a:deleted");
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", &a)), ZNONODE);
    missed(nothing, "connecting connected");
    make("/d");
    settle();
    CHECK_STORY(0, "a:created");
}

static void missed_together(void)
{
    open_two();
    make("/d");
    make("/e");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/e", &b)), ZOK);
    CHECK_NUMBER(RESULT(ask_exists(0, "/f", &c)), ZNONODE);
    told(0);
    world_hold_replies(0, true);
    change("/d");
    make("/e/x");
    make("/f");
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connecting");
    answer *waiting = ask_get(0, "/d", NULL); /* it waits for the connection, after the missed events */
    world_hold_replies(0, false);
    CHECK_NUMBER(RESULT(waiting), ZOK);
    const char *story = told(0);
    CHECK(strncmp(story, "connecting connected ", 21) == 0);
    CHECK(strcmp(story + strlen(story) - 6, " get=0") == 0);
    CHECK(strstr(story, "a:changed") != NULL && strstr(story, "b:child") != NULL && strstr(story, "c:created") != NULL);
}

static void ends_with_session(void)
{
    open_two();
    CHECK_NUMBER(RESULT(ask_create(1, "/e", "x", ZOO_EPHEMERAL)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/e", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/", &b)), ZOK);
    told(0);
    world_end_session(zoo_client_id(handles[1]), handles);
    RUN_UNTIL_TOLD(0, "b:child");
    CHECK_STORY(0, "a:deleted b:child");
}

static void of_expired(void)
{
    static watch w = {0, "w", true};
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &w)), ZOK);
    told(0);
    world_end_session(zoo_client_id(handles[0]), handles);
    RUN_UNTIL_STATE(0, ZOO_EXPIRED_SESSION_STATE);
    const char *story = told(0);
    CHECK(strstr(story, "w:connecting") != NULL && strstr(story, "w:expired") != NULL);
    change("/d");
    CHECK_STORY(0, "");
}

static void removed(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_remove(0, "/d", ZWATCHTYPE_ANY)), ZNOWATCHER);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_remove(0, "/d", ZWATCHTYPE_DATA)), ZNOWATCHER);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &b)), ZOK);
    CHECK_NUMBER(RESULT(ask_remove(0, "/d", ZWATCHTYPE_CHILD)), ZOK);
    CHECK_NUMBER(RESULT(ask_remove(0, "/d", ZWATCHTYPE_CHILD)), ZNOWATCHER);
    told(0);
    make("/d/x");
    change("/d");
    settle();
    CHECK_STORY(0, "b:changed");
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &b)), ZOK);
    CHECK_NUMBER(RESULT(ask_remove(0, "/d", ZWATCHTYPE_ANY)), ZOK);
    told(0);
    drop("/d/x");
    drop("/d");
    settle();
    CHECK_STORY(0, "");
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", &c)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_remove(0, "/d", ZWATCHTYPE_DATA)), ZOK);
    told(0);
    make("/d");
    settle();
    CHECK_STORY(0, "");
}

static void removed_and_reconnected(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_remove(0, "/d", ZWATCHTYPE_ANY)), ZOK);
    missed(change_d, "connecting connected");
}

static void removed_locally(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZOK);
    CHECK_NUMBER(zoo_aremove_all_watches(handles[0], "/d", ZWATCHTYPE_DATA, 1, NULL, NULL), ZOK);
    told(0);
    change("/d"); /* the server still sends the event, and no watcher is called */
    make("/d/x");
    settle();
    CHECK_STORY(0, "b:child");
}

static void one_removed_locally(void)
{
    open_two();
    make("/d");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    answer *other = new_answer(0, "get");
    CHECK_NUMBER(zoo_awget(handles[0], "/d", on_watch_too, &b, on_data, other), ZOK);
    CHECK_NUMBER(RESULT(other), ZOK);
    told(0);
    CHECK_NUMBER(zoo_aremove_watches(handles[0], "/d", ZWATCHTYPE_DATA, on_watch_too, &b, 1, NULL, NULL), ZOK);
    change("/d");
    settle();
    CHECK_STORY(0, "a:changed");
    other = new_answer(0, "get");
    CHECK_NUMBER(zoo_awget(handles[0], "/d", on_watch_too, &b, on_data, other), ZOK);
    CHECK_NUMBER(RESULT(other), ZOK);
    CHECK_NUMBER(zoo_aremove_watches(handles[0], "/d", ZWATCHTYPE_DATA, on_watch_too, &b, 1, NULL, NULL), ZOK);
    missed(change_d, "connecting connected"); /* the next connection does not arm it */
}

/* The same of a watch for a node that is not there. */
static void exists_removed_locally(void)
{
    open_two();
    answer *asked = new_answer(0, "exists");
    CHECK_NUMBER(zoo_awexists(handles[0], "/d", on_watch_too, &b, on_stat, asked), ZOK);
    CHECK_NUMBER(RESULT(asked), ZNONODE);
    told(0);
    CHECK_NUMBER(zoo_aremove_watches(handles[0], "/d", ZWATCHTYPE_DATA, on_watch_too, &b, 1, NULL, NULL), ZOK);
    missed(create_d, "connecting connected");
}

static char last_path[64];
static int last_state;

static void note_path(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)context;
    if (type == ZOO_SESSION_EVENT)
        return;
    strncpy(last_path, path, sizeof(last_path) - 1);
    last_state = state;
    tell(0, "noted");
}

static void chroot_events(void)
{
    open_client(1);
    make("/app");
    make("/app/d");
    open_handle(0, "/app", CASE_TIMEOUT, NULL);
    RUN_UNTIL_TOLD(0, "connected");
    answer *got = new_answer(0, "get"), *listed = new_answer(0, "list");
    CHECK_NUMBER(zoo_awget(handles[0], "/d", note_path, NULL, on_data, got), ZOK);
    CHECK_NUMBER(zoo_awget_children2(handles[0], "/", note_path, NULL, on_strings_stat, listed), ZOK);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_TEXT(listed->text, "d");
    told(0);
    change("/app/d");
    RUN_UNTIL_TOLD(0, "noted");
    CHECK_TEXT(last_path, "/d");
    CHECK_NUMBER(last_state, ZOO_CONNECTED_STATE);
    told(0);
    make("/app/e");
    RUN_UNTIL_TOLD(0, "noted");
    CHECK_TEXT(last_path, "/");
    /* The missed events, too. */
    got = new_answer(0, "get");
    CHECK_NUMBER(zoo_awget(handles[0], "/d", note_path, NULL, on_data, got), ZOK);
    CHECK_NUMBER(RESULT(got), ZOK);
    told(0);
    world_hold_replies(0, true);
    drop("/app/d");
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connecting");
    world_hold_replies(0, false);
    RUN_UNTIL_TOLD(0, "noted");
    CHECK_TEXT(last_path, "/d");
}

static void forbidden_watch(void)
{
    open_two();
    make("/d");
    world_forbid("/d", ZOO_PERM_READ);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &b)), ZNOAUTH);
    told(0);
    change("/d");
    make("/d/x");
    settle();
    CHECK_STORY(0, "");
}

/* The events of one transaction come in the order of its parts, so a client can pass a lock on. */
static void flagged(void)
{
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    open_two();
    make("/d");
    make("/flags");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &a)), ZOK);
    CHECK_NUMBER(RESULT(ask_exists(0, "/flags/1", &b)), ZNONODE);
    told(0);
    zoo_create_op_init(&ops[0], "/flags/1", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    zoo_delete_op_init(&ops[1], "/missing", -1);
    zoo_delete_op_init(&ops[2], "/flags/1", -1);
    CHECK_NUMBER(RESULT(ask_multi(1, 3, ops, results)), ZNONODE);
    CHECK_NUMBER(results[0].err, ZOK);
    CHECK_NUMBER(results[1].err, ZNONODE);
    settle();
    CHECK_STORY(0, "");
    zoo_delete_op_init(&ops[1], "/d", -1);
    CHECK_NUMBER(RESULT(ask_multi(1, 3, ops, results)), ZOK);
    settle();
    CHECK_STORY(0, "b:created a:deleted");
    CHECK_NUMBER(RESULT(ask_exists(0, "/flags/1", NULL)), ZNONODE);
    drop("/flags");
    CHECK_NUMBER(RESULT(ask_multi(1, 3, ops, results)), ZNONODE);
    CHECK_NUMBER(results[0].err, ZNONODE);
}

const conformance_case watch_cases[] = {
    {"a watch fires once", one_shot},
    {"watchers of a path are deduplicated by function and context", deduplicated},
    {"a session event is sent once to each watcher, and does not use up its watches", hears_once},
    {"the configuration of the servers is below no chroot, and its watch outlasts a connection", configuration},
    {"a watcher is armed by the reply, and is not called if the reply is lost", not_yet_armed},
    {"on a missing node, exists arms a watch, and get and list do not", missing_nodes},
    {"data watches do not fire for children, and child watches do not fire for data", kinds},
    {"the deletion of a directory fires its data and child watches in one event, then the child watches of its parent",
     end_of_directory},
    {"events of a client's own write arrive before its reply", own_writes},
    {"an event arrives before the reply of a read that shows the change", before_the_read},
    {"an event arrives before the reply of the client's own later write", before_the_write},
    {"a watcher can arm itself again while it is called", armed_inside},
    {"the handle's own watcher can watch, and is called once for a session event", default_watcher},
    {"after a reconnect a data watch fires if the node has changed meanwhile, or stays", missed_data},
    {"after a reconnect a child watch fires if the children have changed meanwhile, or stays", missed_children},
    {"after a reconnect an exists watch fires if the node was created meanwhile, or stays", missed_creation},
    {"after a reconnect missed events arrive before replies to requests that waited", missed_together},
    {"the end of a session fires the watches of its ephemeral nodes", ends_with_session},
    {"watchers are called when the session has expired", of_expired},
    {"watches are removed by type, and ZNOWATCHER means that there is none", removed},
    {"a reconnect does not arm a removed watch again", removed_and_reconnected},
    {"a watch can be removed in the client alone", removed_locally},
    {"one of several watchers can be removed in the client alone", one_removed_locally},
    {"a watch for a missing node can be removed in the client alone", exists_removed_locally},
    {"events have paths without the chroot", chroot_events},
    {"a read that an ACL forbids arms no watch", forbidden_watch},
    {"a flag that one transaction makes and deletes is reported right before the deletion of its node", flagged},
    {NULL, NULL}};
