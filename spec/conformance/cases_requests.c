/* cases_requests: the answers of servers to single requests, and requests that the client refuses by itself. */
#include <string.h>

#include "cases.h"

static int make(int client, const char *path, int mode)
{
    return RESULT(ask_create(client, path, "x", mode));
}

/* Makes a sequential node and returns its path. */
static const char *made_of(const char *path, int mode)
{
    answer *made = ask_create(0, path, "x", mode);
    CHECK_NUMBER(RESULT(made), ZOK);
    return made->text;
}

static void sequence(void)
{
    open_client(0);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    CHECK_TEXT(made_of("/d/a-", ZOO_EPHEMERAL_SEQUENTIAL), "/d/a-0000000000");
    CHECK_TEXT(made_of("/d/b-", ZOO_PERSISTENT_SEQUENTIAL), "/d/b-0000000001");
    CHECK_NUMBER(make(0, "/d/plain", ZOO_PERSISTENT), ZOK); /* a create counts */
    CHECK_TEXT(made_of("/d/a-", ZOO_EPHEMERAL_SEQUENTIAL), "/d/a-0000000003");
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/a-0000000003", -1)), ZOK); /* a delete does not */
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "y", -1)), ZOK);
    CHECK_TEXT(made_of("/d/a-", ZOO_EPHEMERAL_SEQUENTIAL), "/d/a-0000000004");
    CHECK_TEXT(made_of("/d/", ZOO_EPHEMERAL_SEQUENTIAL), "/d/0000000005");
}

static void failures_use_no_number(void)
{
    open_client(0);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/d/plain", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/d/plain", ZOO_PERSISTENT), ZNODEEXISTS);
    CHECK_NUMBER(make(0, "/d/none/n-", ZOO_PERSISTENT_SEQUENTIAL), ZNONODE);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/none", -1)), ZNONODE);
    struct ACL_vector nobody = {0, NULL};
    answer *refused = new_answer(0, "create");
    CHECK_NUMBER(zoo_acreate2(handles[0], "/d/n-", "", 0, &nobody, ZOO_PERSISTENT_SEQUENTIAL, on_string_stat, refused),
                 ZOK);
    CHECK_NUMBER(RESULT(refused), ZINVALIDACL);
    CHECK_TEXT(made_of("/d/n-", ZOO_PERSISTENT_SEQUENTIAL), "/d/n-0000000001");
}

static void made_anew(void)
{
    open_client(0);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    for (int i = 0; i < 3; i++)
        CHECK_NUMBER(RESULT(ask_delete(0, made_of("/d/n-", ZOO_PERSISTENT_SEQUENTIAL), -1)), ZOK);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d", -1)), ZOK);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    CHECK_TEXT(made_of("/d/n-", ZOO_PERSISTENT_SEQUENTIAL), "/d/n-0000000000");
}

static void last_numbers(void)
{
    open_client(0);
    CHECK_TEXT(made_of(WORLD_NEARLY_FULL "/n-", ZOO_EPHEMERAL_SEQUENTIAL), WORLD_NEARLY_FULL "/n-2147483646");
    answer *last = ask_create(0, WORLD_NEARLY_FULL "/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    CHECK_NUMBER(RESULT(last), ZOK);
    CHECK_TEXT(last->text, WORLD_NEARLY_FULL "/n-2147483647");
    answer *before = ask_list(0, WORLD_NEARLY_FULL, NULL);
    CHECK_NUMBER(RESULT(before), ZOK);
    CHECK_NUMBER(make(0, WORLD_NEARLY_FULL "/n-", ZOO_EPHEMERAL_SEQUENTIAL), ZNODEEXISTS);
    CHECK_TEXT(made_of(WORLD_NEARLY_FULL "/m-", ZOO_EPHEMERAL_SEQUENTIAL), WORLD_NEARLY_FULL "/m-2147483647");
    answer *behind = ask_list(0, WORLD_NEARLY_FULL, NULL);
    CHECK_NUMBER(RESULT(behind), ZOK);
    CHECK_NUMBER(behind->count, 3);
    CHECK_NUMBER(behind->stat.pzxid, before->stat.pzxid); /* the directory is not changed */
    CHECK_NUMBER(behind->stat.numChildren, 3);
}

static void creation_errors(void)
{
    open_client(0);
    CHECK_NUMBER(make(0, "/", ZOO_PERSISTENT), ZNODEEXISTS);
    CHECK_NUMBER(make(0, "/none/a", ZOO_PERSISTENT), ZNONODE);
    CHECK_NUMBER(make(0, "/none/a", ZOO_EPHEMERAL), ZNONODE);
    CHECK_NUMBER(make(0, "/e", ZOO_EPHEMERAL), ZOK);
    CHECK_NUMBER(make(0, "/e", ZOO_PERSISTENT), ZNODEEXISTS);
    CHECK_NUMBER(make(0, "/e/a", ZOO_EPHEMERAL), ZNOCHILDRENFOREPHEMERALS);
    CHECK_NUMBER(make(0, "/e/a", ZOO_PERSISTENT), ZNOCHILDRENFOREPHEMERALS);
    CHECK_NUMBER(make(0, "/e/a-", ZOO_EPHEMERAL_SEQUENTIAL), ZNOCHILDRENFOREPHEMERALS);
    struct ACL_vector nobody = {0, NULL};
    static const char *const paths[] = {"/b", "/e", "/none/a", "/"};
    for (int i = 0; i < 4; i++) {
        answer *refused = new_answer(0, "create");
        CHECK_NUMBER(zoo_acreate2(handles[0], paths[i], "", 0, &nobody, ZOO_PERSISTENT, on_string_stat, refused), ZOK);
        CHECK_NUMBER(RESULT(refused), ZINVALIDACL); /* checked first */
    }
}

static void ephemerals(void)
{
    open_client(0);
    open_client(1);
    answer *made = ask_create(0, "/e", "x", ZOO_EPHEMERAL);
    CHECK_NUMBER(RESULT(made), ZOK);
    CHECK_TEXT(made->text, "/e");
    CHECK_NUMBER(made->stat.ephemeralOwner, zoo_client_id(handles[0])->client_id);
    answer *found = ask_exists(1, "/e", NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.ephemeralOwner, zoo_client_id(handles[0])->client_id);
    CHECK_NUMBER(make(1, "/p", ZOO_PERSISTENT), ZOK);
    found = ask_exists(0, "/p", NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.ephemeralOwner, 0);
    CHECK_NUMBER(RESULT(ask_delete(1, "/e", -1)), ZOK); /* any client may */
    CHECK_NUMBER(make(1, "/e", ZOO_EPHEMERAL), ZOK);
}

static void deletion_errors(void)
{
    open_client(0);
    CHECK_NUMBER(RESULT(ask_delete(0, "/", -1)), ZBADARGUMENTS);
    CHECK_NUMBER(RESULT(ask_delete(0, "/none", -1)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_delete(0, "/none/a", 3)), ZNONODE);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/d/a", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d", -1)), ZNOTEMPTY);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d", 1)), ZBADVERSION); /* checked first */
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/a", 0)), ZOK);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/a", 0)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d", 0)), ZOK); /* children do not change the version */
}

static void versions(void)
{
    open_client(0);
    CHECK_NUMBER(RESULT(ask_set(0, "/none", "y", -1)), ZNONODE);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "y", 1)), ZBADVERSION);
    answer *set = ask_set(0, "/d", "yes", 0);
    CHECK_NUMBER(RESULT(set), ZOK);
    CHECK_NUMBER(set->stat.version, 1);
    CHECK_NUMBER(set->stat.dataLength, 3);
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "y", 0)), ZBADVERSION);
    set = ask_set(0, "/d", "y", -1);
    CHECK_NUMBER(RESULT(set), ZOK);
    CHECK_NUMBER(set->stat.version, 2);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d", 1)), ZBADVERSION);
    answer *third = ask_set(0, "/d", "abc", 2), *fourth = ask_set(0, "/d", "abcd", 3);
    CHECK_NUMBER(RESULT(fourth), ZOK);
    CHECK_NUMBER(third->stat.version, 3); /* a Stat shows the moment of its own request */
    CHECK_NUMBER(third->stat.dataLength, 3);
    CHECK_NUMBER(fourth->stat.version, 4);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d", 4)), ZOK);
}

static void data(void)
{
    open_client(0);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    answer *got = ask_get(0, "/d", NULL);
    CHECK_NUMBER(RESULT(got), ZOK);
    CHECK_TEXT(got->text, "x");
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "", -1)), ZOK);
    got = ask_get(0, "/d", NULL);
    CHECK_NUMBER(RESULT(got), ZOK);
    CHECK_NUMBER(got->length, 0);
    CHECK(!got->null);
    CHECK_NUMBER(RESULT(ask_set(0, "/d", NULL, -1)), ZOK);
    got = ask_get(0, "/d", NULL);
    CHECK_NUMBER(RESULT(got), ZOK);
    CHECK_NUMBER(got->length, -1);
    CHECK(got->null);
    CHECK_NUMBER(got->stat.dataLength, 0);
    CHECK_NUMBER(got->stat.version, 2);
    CHECK_NUMBER(RESULT(ask_create(0, "/n", NULL, ZOO_PERSISTENT)), ZOK);
    got = ask_get(0, "/n", NULL);
    CHECK_NUMBER(RESULT(got), ZOK);
    CHECK_NUMBER(got->length, -1);
}

static void stats(void)
{
    open_client(0);
    answer *made = ask_create(0, "/d", "xyz", ZOO_PERSISTENT);
    CHECK_NUMBER(RESULT(made), ZOK);
    int64_t zxid = made->stat.czxid;
    CHECK(zxid > 0);
    CHECK_NUMBER(made->stat.mzxid, zxid);
    CHECK_NUMBER(made->stat.pzxid, zxid);
    CHECK_NUMBER(made->stat.version, 0);
    CHECK_NUMBER(made->stat.cversion, 0);
    CHECK_NUMBER(made->stat.aversion, 0);
    CHECK_NUMBER(made->stat.numChildren, 0);
    CHECK_NUMBER(made->stat.dataLength, 3);
    answer *first = ask_create(0, "/d/a", "x", ZOO_PERSISTENT);
    answer *second = ask_create(0, "/d/b", "x", ZOO_EPHEMERAL);
    answer *listed = ask_list(0, "/d", NULL);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_TEXT(listed->text, "a b");
    CHECK(second->stat.czxid > first->stat.czxid && first->stat.czxid > zxid);
    CHECK_NUMBER(listed->stat.czxid, zxid);
    CHECK_NUMBER(listed->stat.mzxid, zxid);
    CHECK_NUMBER(listed->stat.pzxid, second->stat.czxid);
    CHECK_NUMBER(listed->stat.cversion, 2);
    CHECK_NUMBER(listed->stat.numChildren, 2);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/a", -1)), ZOK);
    answer *found = ask_exists(0, "/d", NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.cversion, 3);
    CHECK_NUMBER(found->stat.numChildren, 1);
    CHECK(found->stat.pzxid > second->stat.czxid);
    int64_t children = found->stat.pzxid;
    answer *set = ask_set(0, "/d", "four", -1);
    CHECK_NUMBER(RESULT(set), ZOK);
    CHECK_NUMBER(set->stat.czxid, zxid);
    CHECK(set->stat.mzxid > children);
    CHECK_NUMBER(set->stat.pzxid, children);
    CHECK_NUMBER(set->stat.dataLength, 4);
    CHECK_NUMBER(RESULT(ask_set(0, "/d/b", "y", -1)), ZOK);
    found = ask_exists(0, "/d", NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.pzxid, children);
    CHECK_NUMBER(found->stat.mzxid, set->stat.mzxid);
}

static void missing(void)
{
    open_client(0);
    CHECK_NUMBER(RESULT(ask_get(0, "/none", NULL)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_exists(0, "/none", NULL)), ZNONODE);
    CHECK_NUMBER(RESULT(ask_list(0, "/none", NULL)), ZNONODE);
    answer *synced = ask_sync(0, "/none");
    CHECK_NUMBER(RESULT(synced), ZOK);
    CHECK_TEXT(synced->text, "/none");
}

static void in_order(void)
{
    open_client(0);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    answer *listed[10];
    answer *last = NULL;
    told(0);
    for (int i = 0; i < 10; i++) {
        ask_create(0, "/d/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
        listed[i] = ask_list(0, "/d", NULL);
        last = ask_sync(0, "/d");
    }
    CHECK_NUMBER(RESULT(last), ZOK);
    const char *story = told(0);
    for (int i = 0; i < 10; i++) {
        CHECK_NUMBER(listed[i]->count, i + 1);
        CHECK(strncmp(story, "create=0 list=0 sync=0", 22) == 0);
        story += 23;
    }
}

static void synchronised(void)
{
    open_client(0);
    open_client(1);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    ask_sync(1, "/d");
    CHECK_NUMBER(RESULT(ask_exists(1, "/d", NULL)), ZOK);
    CHECK_STORY(1, "sync=0 exists=0");
}

static void bad_paths(void)
{
    open_client(0);
    answer *never = new_answer(0, "never");
    static const char *const bad[] = {"",       "a",       "a/b", "/a/",   "//",   "/a//b", "//a",
                                      "/a/./b", "/a/../b", "/.",  "/a/..", "/a/.", "/./a",  "/a\x01"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tell(0, "%s", bad[i]);
        CHECK_NUMBER(zoo_aget(handles[0], bad[i], 0, on_data, never), ZBADARGUMENTS);
        CHECK_NUMBER(zoo_acreate2(handles[0], bad[i], "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, on_string_stat, never),
                     ZBADARGUMENTS);
        CHECK_NUMBER(zoo_adelete(handles[0], bad[i], -1, on_void, never), ZBADARGUMENTS);
        CHECK_NUMBER(zoo_aget_children2(handles[0], bad[i], 0, on_strings_stat, never), ZBADARGUMENTS);
        CHECK_NUMBER(zoo_aexists(handles[0], bad[i], 0, on_stat, never), ZBADARGUMENTS);
        CHECK_NUMBER(zoo_aset(handles[0], bad[i], "", 0, -1, on_stat, never), ZBADARGUMENTS);
        CHECK_NUMBER(zoo_async(handles[0], bad[i], on_string, never), ZBADARGUMENTS);
        told(0);
    }
    CHECK_NUMBER(zoo_aget(handles[0], NULL, 0, on_data, never), ZBADARGUMENTS);
    CHECK(!never->done);
    CHECK_NUMBER(make(0, "/a", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/a/.b", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/a/b.", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/a/...", ZOO_PERSISTENT), ZOK);
    CHECK_TEXT(made_of("/a/.", ZOO_PERSISTENT_SEQUENTIAL), "/a/.0000000003");
}

static void long_paths(void)
{
    static char path[400] = "/";
    open_client(0);
    memset(path + 1, 'n', sizeof(path) - 2);
    answer *made = ask_create(0, path, "x", ZOO_PERSISTENT);
    CHECK_NUMBER(RESULT(made), ZOK);
    CHECK_TEXT(made->text, path);
    answer *listed = ask_list(0, "/", NULL);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK(strstr(listed->text, path + 1) != NULL);
}

static void chroot(void)
{
    open_client(1);
    open_handle(0, "/app/one", CASE_TIMEOUT, NULL);
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZNONODE); /* the client does not create it */
    CHECK_NUMBER(RESULT(ask_exists(0, "/", NULL)), ZNONODE);
    CHECK_NUMBER(make(1, "/app", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(1, "/app/one", ZOO_PERSISTENT), ZOK);
    answer *made = ask_create(0, "/d", "x", ZOO_PERSISTENT);
    CHECK_NUMBER(RESULT(made), ZOK);
    CHECK_TEXT(made->text, "/d");
    made = ask_create(0, "/d/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    CHECK_NUMBER(RESULT(made), ZOK);
    CHECK_TEXT(made->text, "/d/n-0000000000");
    CHECK_NUMBER(RESULT(ask_exists(1, "/app/one/d/n-0000000000", NULL)), ZOK);
    answer *listed = ask_list(0, "/", NULL);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_TEXT(listed->text, "d");
    answer *synced = ask_sync(0, "/d");
    CHECK_NUMBER(RESULT(synced), ZOK);
    CHECK_TEXT(synced->text, "/d");
}

static void relative(void)
{
    open_client(1);
    CHECK_NUMBER(make(1, "/app", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(1, "/app-of-another", ZOO_PERSISTENT), ZOK);
    open_handle(0, "/app", CASE_TIMEOUT, NULL);
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(RESULT(ask_exists(0, "-of-another", NULL)), ZOK);
    CHECK_NUMBER(RESULT(ask_exists(0, "", NULL)), ZOK);
    CHECK_NUMBER(zoo_aget(handles[0], "/a/", 0, on_data, new_answer(0, "never")), ZBADARGUMENTS);
    CHECK_NUMBER(zoo_aget(handles[0], "/..", 0, on_data, new_answer(0, "never")), ZBADARGUMENTS);
}

static void forbidden(void)
{
    open_client(0);
    CHECK_NUMBER(make(0, "/d", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/d/a", ZOO_PERSISTENT), ZOK);
    CHECK_NUMBER(make(0, "/d/a/b", ZOO_PERSISTENT), ZOK);
    world_forbid("/d", ZOO_PERM_READ | ZOO_PERM_WRITE | ZOO_PERM_CREATE | ZOO_PERM_DELETE);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", NULL)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_list(0, "/d", NULL)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", NULL)), server_has("exists_needs_read") ? ZNOAUTH : ZOK);
    CHECK_NUMBER(RESULT(ask_sync(0, "/d")), ZOK);
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "y", -1)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "y", 7)), ZNOAUTH);
    CHECK_NUMBER(make(0, "/d/c", ZOO_PERSISTENT), ZNOAUTH);
    CHECK_NUMBER(make(0, "/d/a", ZOO_PERSISTENT), ZNOAUTH);
    CHECK_NUMBER(make(0, "/d/n-", ZOO_EPHEMERAL_SEQUENTIAL), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/a", -1)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/a", 7)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/none", -1)), ZNOAUTH); /* checked first */
    CHECK_NUMBER(make(0, "/d/a/c", ZOO_PERSISTENT), ZOK); /* the permissions of a node are not those of its children */
    CHECK_NUMBER(RESULT(ask_get(0, "/d/a", NULL)), ZOK);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d/a/b", -1)), ZOK);
}

static bool is_gone(const void *context)
{
    const char *path = context;
    world_reap();
    return RESULT(ask_exists(0, path, NULL)) == ZNONODE;
}

static void containers(void)
{
    open_client(0);
    answer *made = ask_create(0, "/c", "x", ZOO_CONTAINER);
    CHECK_NUMBER(RESULT(made), ZOK);
    CHECK_TEXT(made->text, "/c");
    CHECK_NUMBER(made->stat.ephemeralOwner, 0); /* a client cannot see that it is a container */
    CHECK_NUMBER(make(0, "/c2", ZOO_CONTAINER), ZOK);
    CHECK_NUMBER(make(0, "/c", ZOO_CONTAINER), ZNODEEXISTS);
    CHECK_NUMBER(make(0, "/c/a", ZOO_EPHEMERAL), ZOK);
    static watch w = {0, "w", false};
    CHECK_NUMBER(RESULT(ask_exists(0, "/c", &w)), ZOK);
    CHECK_NUMBER(RESULT(ask_delete(0, "/c/a", -1)), ZOK); /* from now on the server may delete it at any time */
    RUN_UNTIL(is_gone, "/c");
    CHECK_NUMBER(RESULT(ask_exists(0, "/c2", NULL)), ZOK); /* it has never had a child */
    CHECK(strstr(told(0), "w:deleted") != NULL);
    CHECK_NUMBER(make(0, "/c/a", ZOO_EPHEMERAL), ZNONODE);
}

static void older_calls(void)
{
    open_client(0);
    answer *made = new_answer(0, "create");
    CHECK_NUMBER(zoo_acreate(handles[0], "/d", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, on_string, made), ZOK);
    CHECK_NUMBER(RESULT(made), ZOK);
    CHECK_TEXT(made->text, "/d");
    answer *listed = new_answer(0, "list");
    CHECK_NUMBER(zoo_aget_children(handles[0], "/d", 0, on_strings, listed), ZOK);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_NUMBER(listed->count, 0);
    made = new_answer(0, "create");
    CHECK_NUMBER(zoo_acreate(handles[0], "/d", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, on_string, made), ZOK);
    CHECK_NUMBER(RESULT(made), ZNODEEXISTS);
}

static void one_transaction_each(void)
{
    open_client(0);
    run_until_alone();
    answer *first = ask_create(0, "/a", "x", ZOO_PERSISTENT);
    ask_get(0, "/a", NULL);
    ask_list(0, "/", NULL);
    ask_sync(0, "/a");
    answer *second = ask_create(0, "/b", "x", ZOO_PERSISTENT);
    answer *refused = ask_create(0, "/b", "x", ZOO_PERSISTENT);
    answer *third = ask_create(0, "/c", "x", ZOO_PERSISTENT);
    CHECK_NUMBER(RESULT(third), ZOK);
    CHECK_NUMBER(refused->rc, ZNODEEXISTS);
    CHECK_NUMBER(second->stat.czxid - first->stat.czxid, 1);
    CHECK_NUMBER(third->stat.czxid - second->stat.czxid, 2); /* the refused request has taken a zxid */
}

const conformance_case request_cases[] = {
    {"one counter of a directory counts all creates in it, whatever the name and type, and no deletes", sequence},
    {"a create that is refused uses up no number", failures_use_no_number},
    {"a directory that is deleted and created again starts with number 0", made_anew},
    {"the last sequence number is 2147483647, and stays so", last_numbers},
    {"a create checks the ACL before the path, and an ephemeral node cannot have children", creation_errors},
    {"the owner of an ephemeral node is its session, and other sessions can delete it", ephemerals},
    {"a delete checks the version before the children", deletion_errors},
    {"sets and deletes of another version are refused, and each set adds 1 to the version", versions},
    {"data can be empty or NULL", data},
    {"a Stat has the zxids, versions and counts of a node and of its children", stats},
    {"reads of a missing node return ZNONODE, and a sync of one returns ZOK", missing},
    {"requests of one client are executed and answered in order", in_order},
    {"a read after a sync shows earlier writes of other clients", synchronised},
    {"the client refuses invalid paths with ZBADARGUMENTS", bad_paths},
    {"paths can have 399 bytes", long_paths},
    {"the client adds and removes the chroot, and does not create it", chroot},
    {"under a chroot a path without a slash is appended as it is", relative},
    {"an ACL can forbid reads, sets, creates and deletes, but not exists", forbidden},
    {"a container is deleted if it has had children and has none", containers},
    {"zoo_acreate and zoo_aget_children return the same without a Stat", older_calls},
    {"each write takes a zxid, even if it is refused, and reads take none", one_transaction_each},
    {NULL, NULL}};
