/*
 * cases_acl: access control lists, the identities of connections, and the names that servers refuse.
 */
#include <stdio.h>
#include <string.h>

#include "cases.h"

/* Creates a node with a list of one entry. */
static int make_for(int client, const char *path, int permissions, const char *scheme, const char *id)
{
    char scheme_copy[64], id_copy[128];
    snprintf(scheme_copy, sizeof(scheme_copy), "%s", scheme);
    snprintf(id_copy, sizeof(id_copy), "%s", id);
    struct ACL entry = {permissions, {scheme_copy, id_copy}};
    const struct ACL_vector acl = {1, &entry};
    answer *made = new_answer(client, "create");
    CHECK_NUMBER(zoo_acreate2(handles[client], path, "x", 1, &acl, ZOO_PERSISTENT, on_string_stat, made), ZOK);
    return RESULT(made);
}

static void authenticate(int client, const char *credential)
{
    answer *given = new_answer(client, "auth");
    CHECK_NUMBER(zoo_add_auth(handles[client], "digest", credential, (int)strlen(credential), on_void, given), ZOK);
    CHECK_NUMBER(RESULT(given), ZOK);
}

static void owners(void)
{
    for (int i = 0; i < 3; i++)
        open_client(i);
    authenticate(0, "user:password");
    authenticate(1, "user:wrong");
    CHECK_NUMBER(make_for(0, "/d", ZOO_PERM_ALL, "auth", ""), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", NULL)), ZOK);
    CHECK_NUMBER(RESULT(ask_create(0, "/d/a", "x", ZOO_PERSISTENT)), ZOK);
    for (int i = 1; i < 3; i++) {
        CHECK_NUMBER(RESULT(ask_get(i, "/d", NULL)), ZNOAUTH);
        CHECK_NUMBER(RESULT(ask_list(i, "/d", NULL)), ZNOAUTH);
        CHECK_NUMBER(RESULT(ask_set(i, "/d", "y", -1)), ZNOAUTH);
        CHECK_NUMBER(RESULT(ask_create(i, "/d/b", "x", ZOO_EPHEMERAL)), ZNOAUTH);
        CHECK_NUMBER(RESULT(ask_delete(i, "/d/a", -1)), ZNOAUTH);
        CHECK_NUMBER(RESULT(ask_exists(i, "/d", NULL)), server_has("exists_needs_read") ? ZNOAUTH : ZOK);
        CHECK_NUMBER(RESULT(ask_get(i, "/d/a", NULL)), ZOK); /* a list is not inherited */
    }
    authenticate(2, "user:password");
    CHECK_NUMBER(RESULT(ask_set(2, "/d", "y", -1)), ZOK); /* another session, the same identity */
    CHECK_NUMBER(RESULT(ask_delete(2, "/d/a", -1)), ZOK);
    CHECK_NUMBER(RESULT(ask_delete(1, "/d", -1)), ZOK); /* the parent permits it */
}

static void digests(void)
{
    open_client(0);
    open_client(1);
    /* user:base64(sha1("user:password")) */
    CHECK_NUMBER(make_for(0, "/d", ZOO_PERM_ALL, "digest", "user:tpUq/4Pn5A64fVZyQ0gOJ8ZWqkY="), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", NULL)), ZNOAUTH);
    authenticate(1, "user:password");
    CHECK_NUMBER(RESULT(ask_get(1, "/d", NULL)), ZOK);
    authenticate(0, "other:password");
    CHECK_NUMBER(RESULT(ask_get(0, "/d", NULL)), ZNOAUTH);
    authenticate(0, "user:password"); /* in addition to the other identity */
    CHECK_NUMBER(RESULT(ask_get(0, "/d", NULL)), ZOK);
    CHECK_NUMBER(make_for(0, "/both", ZOO_PERM_ALL, "auth", ""), ZOK);
    CHECK_NUMBER(RESULT(ask_get(1, "/both", NULL)), ZOK);
}

static void invalid_lists(void)
{
    static const char *const invalid[][2] = {{"auth", ""},       {"world", "nobody"},   {"world", ""},
                                             {"digest", "user"}, {"digest", "a:b:c"},   {"ip", "name"},
                                             {"ip", "127.0.0"},  {"ip", "127.0.0.256"}, {"ip", "127.0.0.1/33"},
                                             {"unknown", "x"},   {"ip", "127.0.0.1/"},  {"digest", ""}};
    open_client(0);
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        tell(0, "%s:%s", invalid[i][0], invalid[i][1]);
        CHECK_NUMBER(make_for(0, "/d", ZOO_PERM_ALL, invalid[i][0], invalid[i][1]), ZINVALIDACL);
        told(0);
    }
    CHECK_NUMBER(RESULT(ask_exists(0, "/d", NULL)), ZNONODE);
}

static void addresses(void)
{
    static const struct {
        const char *path, *id;
        int expected;
    } rows[] = {{"/a", "127.0.0.1", ZOK},        {"/b", "127.0.0.0/8", ZOK},      {"/c", "10.0.0.1", ZNOAUTH},
                {"/d", "127.1.0.0/16", ZNOAUTH}, {"/e", "127.0.0.1/32", ZOK},     {"/f", "10.0.0.1/0", ZOK},
                {"/g", "126.0.0.0/7", ZOK},      {"/h", "127.0.0.2/31", ZNOAUTH}, {"/i", "127.0.0.0/31", ZOK}};
    open_client(0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tell(0, "%s", rows[i].id);
        CHECK_NUMBER(make_for(0, rows[i].path, ZOO_PERM_ALL, "ip", rows[i].id), ZOK);
        CHECK_NUMBER(RESULT(ask_get(0, rows[i].path, NULL)), rows[i].expected);
    }
}

static void single_permissions(void)
{
    open_client(0);
    CHECK_NUMBER(make_for(0, "/r", ZOO_PERM_READ | ZOO_PERM_ADMIN, "world", "anyone"), ZOK);
    CHECK_NUMBER(make_for(0, "/w", ZOO_PERM_WRITE | ZOO_PERM_ADMIN, "world", "anyone"), ZOK);
    CHECK_NUMBER(make_for(0, "/c", ZOO_PERM_CREATE | ZOO_PERM_ADMIN, "world", "anyone"), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/r", NULL)), ZOK);
    CHECK_NUMBER(RESULT(ask_set(0, "/r", "y", -1)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_get(0, "/w", NULL)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_set(0, "/w", "y", -1)), ZOK);
    CHECK_NUMBER(RESULT(ask_create(0, "/c/a", "x", ZOO_PERSISTENT)), ZOK);
    CHECK_NUMBER(RESULT(ask_delete(0, "/c/a", -1)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_create(0, "/w/a", "x", ZOO_PERSISTENT)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_create(0, "/w/none/a", "x", ZOO_PERSISTENT)), ZNONODE);
}

static void after_a_reconnect(void)
{
    static watch w = {0, "w", false};
    open_client(0);
    open_client(1);
    authenticate(0, "user:password");
    CHECK_NUMBER(make_for(0, "/d", ZOO_PERM_ALL, "auth", ""), ZOK);
    CHECK_NUMBER(RESULT(ask_get(0, "/d", &w)), ZOK);
    settle();
    told(0);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connecting");
    answer *waiting = ask_get(0, "/d", NULL); /* it is sent after the credentials */
    CHECK_NUMBER(RESULT(waiting), ZOK);
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "y", -1)), ZOK);
    CHECK_STORY(0, "connecting connected get=0 w:changed set=0");
}

static void in_a_multi(void)
{
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    open_client(0);
    open_client(1);
    authenticate(0, "user:password");
    CHECK_NUMBER(make_for(0, "/d", ZOO_PERM_ALL, "auth", ""), ZOK);
    zoo_check_op_init(&ops[0], "/d", -1);
    zoo_create_op_init(&ops[1], "/d/a", "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_EPHEMERAL, NULL, 0);
    CHECK_NUMBER(RESULT(ask_multi(1, 2, ops, results)), ZNOAUTH);
    CHECK_NUMBER(results[0].err, ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_multi(0, 2, ops, results)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(1, "/d/a", NULL)), ZNOAUTH);
    CHECK_NUMBER(RESULT(ask_multi(1, 1, &ops[1], results)), ZINVALIDACL); /* no identity: checked first */
}

static void secret_events(void)
{
    static watch w = {1, "w", false};
    open_client(0);
    open_client(1);
    authenticate(0, "user:password");
    int answered = server_has("exists_needs_read") ? ZNOAUTH : ZOK; /* if it is refused it arms no watch */
    bool told_all = !server_has("events_need_read");
    CHECK_NUMBER(RESULT(ask_exists(1, "/d", &w)), ZNONODE);
    told(1);
    CHECK_NUMBER(make_for(0, "/d", ZOO_PERM_ALL, "auth", ""), ZOK);
    settle();
    CHECK_STORY(1, told_all ? "w:created" : "");
    CHECK_NUMBER(RESULT(ask_exists(1, "/d", &w)), answered);
    told(1);
    CHECK_NUMBER(RESULT(ask_set(0, "/d", "y", -1)), ZOK);
    settle();
    CHECK_STORY(1, told_all ? "w:changed" : "");
    CHECK_NUMBER(RESULT(ask_exists(1, "/d", &w)), answered);
    told(1);
    CHECK_NUMBER(RESULT(ask_delete(0, "/d", -1)), ZOK);
    settle();
    CHECK_STORY(1, told_all ? "w:deleted" : "");
}

static void strange_names(void)
{
    /* DEL, C1, private use, a noncharacter, a replacement character, invalid UTF-8 */
    static const char *const refused[] = {"/a\x7f",         "/a\xc2\x80",     "/a\xc2\x9f", "/a\xee\x80\x80",
                                          "/a\xef\xbf\xbd", "/a\xef\xbf\xbf", "/a\xff",     "/a\x1f"};
    static const char *const fine[] = {"/a b",  "/\xc3\xa4", "/\xe4\xb8\xad", "/a\xc2\xa0",
                                       "/a\\b", "/a%",       "/\xef\xbf\xaf"};
    open_client(0);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        tell(0, "%d", (int)i);
        CHECK_NUMBER(RESULT(ask_create(0, refused[i], "x", ZOO_PERSISTENT)), ZBADARGUMENTS);
        CHECK_NUMBER(RESULT(ask_create(0, refused[i], "x", ZOO_EPHEMERAL_SEQUENTIAL)), ZBADARGUMENTS);
        told(0);
    }
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        tell(0, "%d", (int)i);
        answer *made = ask_create(0, fine[i], "x", ZOO_PERSISTENT);
        CHECK_NUMBER(RESULT(made), ZOK);
        CHECK_TEXT(made->text, fine[i]);
        CHECK_NUMBER(RESULT(ask_get(0, fine[i], NULL)), ZOK);
    }
}

static void own_nodes(void)
{
    open_client(0);
    answer *listed = ask_list(0, "/", NULL);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_TEXT(listed->text, "nearly-full zookeeper");
    CHECK_NUMBER(RESULT(ask_delete(0, "/zookeeper", -1)), ZBADARGUMENTS);
    CHECK_NUMBER(RESULT(ask_delete(0, "/zookeeper/quota", -1)), ZBADARGUMENTS);
    CHECK_NUMBER(RESULT(ask_delete(0, "/zookeeper/config", -1)), ZBADARGUMENTS);
    listed = ask_list(0, "/zookeeper", NULL);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_TEXT(listed->text, "config quota");
}

const conformance_case acl_cases[] = {
    {"a node with the ACL of its creator is open to all sessions with this identity, and to no other", owners},
    {"a digest in an ACL is that of user and password, and a handle can have several identities", digests},
    {"invalid ACLs are refused with ZINVALIDACL", invalid_lists},
    {"an address in an ACL can have a number of bits", addresses},
    {"a permission in an ACL does not include another one", single_permissions},
    {"after a reconnect credentials are sent before the requests that waited", after_a_reconnect},
    {"an ACL applies inside a multi, and auth needs an identity there, too", in_a_multi},
    {"an event of a node is not sent to a watcher that may not read the node", secret_events},
    {"servers refuse names with control characters and other special ones", strange_names},
    {"the nodes of the servers cannot be deleted", own_nodes},
    {NULL, NULL}};
