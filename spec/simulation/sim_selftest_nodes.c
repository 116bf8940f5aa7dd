/*
 * sim_selftest_nodes: tests of access control lists (what they permit to which identities, and the errors), of names
 * that servers refuse, of nodes that servers make themselves, and of the order in which a single server executes
 * requests.
 */
#include "sim_selftest.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_zookeeper.h"

#define CLIENTS 3
#define NOT_YET 1

static zhandle_t *handles[CLIENTS];
static int answer, authenticated[CLIENTS];

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static void on_void(int rc, const void *data)
{
    (void)data;
    answer = rc;
}

static void on_ignored(int rc, const void *data)
{
    (void)rc, (void)data;
}

static void on_authenticated(int rc, const void *data)
{
    authenticated[(intptr_t)data] = rc;
}

static void on_string(int rc, const char *value, const void *data)
{
    (void)value, (void)data;
    answer = rc;
}

static void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    (void)value, (void)length, (void)stat, (void)data;
    answer = rc;
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat, (void)data;
    answer = rc;
}

static void on_strings(int rc, const struct String_vector *names, const void *data)
{
    (void)names, (void)data;
    answer = rc;
}

static void turn(int client)
{
    int fd = -1, interest = 0;
    struct timeval wait = {0, 0};
    sim_set_caller(client);
    if (zookeeper_interest(handles[client], &fd, &interest, &wait) != ZOK || fd < 0)
        return;
    int events = ((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0);
    short found = sim_poll(fd, (short)events);
    if (found != 0)
        zookeeper_process(handles[client], ((found & POLLIN) != 0 ? ZOOKEEPER_READ : 0) |
                                               ((found & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0));
}

static void run_for(int64_t during)
{
    int64_t limit = sim_now() + during;
    while (sim_now() < limit && sim_step()) {
        for (int i = 0; i < CLIENTS; i++) {
            if (handles[i] != NULL)
                turn(i);
        }
    }
}

/* Waits for the answer to the last request, and returns its result. */
static int answered(int rc)
{
    if (rc != ZOK)
        return rc;
    for (int i = 0; i < 200 && answer == NOT_YET; i++)
        run_for(SIM_MILLISECOND * 10);
    rc = answer;
    answer = NOT_YET;
    return rc;
}

static void open_handle(int client, const char *credential)
{
    sim_set_caller(client);
    handles[client] = zookeeper_init2("h1:2181", on_event, 4000, NULL, NULL, 0, NULL);
    CHECK(handles[client] != NULL);
    authenticated[client] = NOT_YET;
    run_for(SIM_SECOND);
    if (credential == NULL)
        return;
    CHECK(zoo_add_auth(handles[client], "digest", credential, (int)strlen(credential), on_authenticated,
                       (void *)(intptr_t)client) == ZOK);
    run_for(SIM_SECOND);
    CHECK(authenticated[client] == ZOK);
}

static const sim_options usual = {
    .seed = 1, .servers = 1, .min_session_timeout_ms = 1000, .max_session_timeout_ms = 20000, .delay = SIM_MILLISECOND};

static void begin_world(const char *name, const sim_options *options)
{
    test_name = name;
    sim_begin(options, NULL);
    answer = NOT_YET;
    while (sim_leader() < 0)
        sim_step();
}

/* Clients 0 and 1 have credentials, 2 has none. */
static void begin(const char *name)
{
    begin_world(name, &usual);
    open_handle(0, "user:password");
    open_handle(1, "user:wrong");
    open_handle(2, NULL);
}

static void end(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (handles[i] != NULL)
            zookeeper_close(handles[i]);
        handles[i] = NULL;
    }
    sim_end();
}

static int create(int client, const char *path, const struct ACL_vector *acl)
{
    return answered(zoo_acreate(handles[client], path, "", 0, acl, ZOO_PERSISTENT, on_string, NULL));
}

/* Creates a node with a list of one entry. */
static int create_for(int client, const char *path, int permissions, const char *scheme, const char *id)
{
    char scheme_copy[64], id_copy[64];
    snprintf(scheme_copy, sizeof(scheme_copy), "%s", scheme);
    snprintf(id_copy, sizeof(id_copy), "%s", id);
    struct ACL entry = {permissions, {scheme_copy, id_copy}};
    const struct ACL_vector acl = {1, &entry};
    return create(client, path, &acl);
}

static int remove_node(int client, const char *path)
{
    return answered(zoo_adelete(handles[client], path, -1, on_void, NULL));
}

static int get(int client, const char *path)
{
    return answered(zoo_aget(handles[client], path, 0, on_data, NULL));
}

static int set(int client, const char *path)
{
    return answered(zoo_aset(handles[client], path, "x", 1, -1, on_stat, NULL));
}

static int list(int client, const char *path)
{
    return answered(zoo_aget_children(handles[client], path, 0, on_strings, NULL));
}

static int exists(int client, const char *path)
{
    return answered(zoo_aexists(handles[client], path, 0, on_stat, NULL));
}

/* Sends a multi of one operation. */
static int alone(int client, const zoo_op_t *operation)
{
    zoo_op_result_t result = {0};
    return answered(zoo_amulti(handles[client], 1, operation, &result, on_void, NULL));
}

static int check_in_multi(int client, const char *path)
{
    zoo_op_t operation;
    zoo_check_op_init(&operation, path, -1);
    return alone(client, &operation);
}

static int set_in_multi(int client, const char *path)
{
    zoo_op_t operation;
    zoo_set_op_init(&operation, path, "y", 1, -1, NULL);
    return alone(client, &operation);
}

static int create_in_multi(int client, const char *path, const struct ACL_vector *acl)
{
    zoo_op_t operation;
    char name[64];
    zoo_create_op_init(&operation, path, "", 0, acl, ZOO_PERSISTENT, name, sizeof(name));
    return alone(client, &operation);
}

static void test_creator(void)
{
    begin("a node that only its creator may use");
    CHECK(create(0, "/mine", &ZOO_CREATOR_ALL_ACL) == ZOK);
    CHECK(create_in_multi(0, "/mine/too", &ZOO_CREATOR_ALL_ACL) == ZOK);
    CHECK(get(0, "/mine") == ZOK && set(0, "/mine") == ZOK && list(0, "/mine") == ZOK);
    CHECK(check_in_multi(0, "/mine/too") == ZOK && set_in_multi(0, "/mine/too") == ZOK);
    for (int client = 1; client <= 2; client++) {
        CHECK(get(client, "/mine") == ZNOAUTH && get(client, "/mine/too") == ZNOAUTH);
        CHECK(set(client, "/mine") == ZNOAUTH && set_in_multi(client, "/mine") == ZNOAUTH);
        CHECK(list(client, "/mine") == ZNOAUTH);
        CHECK(exists(client, "/mine") == ZOK);
        CHECK(check_in_multi(client, "/mine") == ZNOAUTH);
        CHECK(create(client, "/mine/x", &ZOO_OPEN_ACL_UNSAFE) == ZNOAUTH);
        CHECK(create_in_multi(client, "/mine/x", &ZOO_OPEN_ACL_UNSAFE) == ZNOAUTH);
        CHECK(remove_node(client, "/mine/too") == ZNOAUTH);
        CHECK(remove_node(client, "/mine/none") == ZNOAUTH); /* whether or not the node exists */
        CHECK(create(client, "/mine/none/x", &ZOO_OPEN_ACL_UNSAFE) == ZNONODE);
        CHECK(get(client, "/mine/none") == ZNONODE && set(client, "/mine/none") == ZNONODE);
    }
    CHECK(remove_node(0, "/mine/too") == ZOK);
    CHECK(remove_node(2, "/mine") == ZOK); /* the ACL of its parent decides */
    end();
}

static void test_lists(void)
{
    begin("lists of identities");
    CHECK(create_for(2, "/read", ZOO_PERM_READ, "world", "anyone") == ZOK);
    CHECK(get(2, "/read") == ZOK && list(2, "/read") == ZOK && set(2, "/read") == ZNOAUTH);
    CHECK(create(0, "/read/x", &ZOO_OPEN_ACL_UNSAFE) == ZNOAUTH && remove_node(0, "/read/x") == ZNOAUTH);
    /* printf user:password | openssl sha1 -binary | base64 */
    CHECK(create_for(2, "/given", ZOO_PERM_ALL, "digest", "user:tpUq/4Pn5A64fVZyQ0gOJ8ZWqkY=") == ZOK);
    CHECK(get(0, "/given") == ZOK && get(1, "/given") == ZNOAUTH && get(2, "/given") == ZNOAUTH);
    CHECK(create_for(2, "/here", ZOO_PERM_READ, "ip", "127.0.0.1") == ZOK);
    CHECK(create_for(2, "/near", ZOO_PERM_READ, "ip", "127.1.2.3/8") == ZOK);
    CHECK(create_for(2, "/there", ZOO_PERM_READ, "ip", "127.1.2.3/16") == ZOK);
    CHECK(get(2, "/here") == ZOK && get(2, "/near") == ZOK && get(2, "/there") == ZNOAUTH);
    CHECK(set(2, "/here") == ZNOAUTH);
    struct ACL entries[] = {{ZOO_PERM_READ, ZOO_ANYONE_ID_UNSAFE}, {ZOO_PERM_CREATE | ZOO_PERM_DELETE, ZOO_AUTH_IDS}};
    const struct ACL_vector both = {2, entries};
    CHECK(create(1, "/both", &both) == ZOK);
    CHECK(get(2, "/both") == ZOK && create(2, "/both/x", &ZOO_OPEN_ACL_UNSAFE) == ZNOAUTH);
    CHECK(create(1, "/both/x", &ZOO_OPEN_ACL_UNSAFE) == ZOK && set(1, "/both") == ZNOAUTH);
    CHECK(remove_node(0, "/both/x") == ZNOAUTH && remove_node(1, "/both/x") == ZOK);
    end();
}

static void test_refused_lists(void)
{
    begin("lists that the servers refuse");
    CHECK(create(2, "/a", &ZOO_CREATOR_ALL_ACL) == ZINVALIDACL);
    CHECK(create_in_multi(2, "/a", &ZOO_CREATOR_ALL_ACL) == ZINVALIDACL);
    CHECK(create(2, "/none/a", &ZOO_CREATOR_ALL_ACL) == ZINVALIDACL); /* the ACL is checked first */
    CHECK(create_for(0, "/a", ZOO_PERM_ALL, "world", "somebody") == ZINVALIDACL);
    CHECK(create_for(0, "/a", ZOO_PERM_ALL, "x509", "CN=client") == ZINVALIDACL);
    CHECK(create_for(0, "/a", ZOO_PERM_ALL, "digest", "user") == ZINVALIDACL);
    CHECK(create_for(0, "/a", ZOO_PERM_ALL, "ip", "127.0.0") == ZINVALIDACL);
    CHECK(create_for(0, "/a", ZOO_PERM_ALL, "ip", "127.0.0.1/33") == ZINVALIDACL);
    CHECK(!sim_exists("/a"));
    end();
}

static void test_identities(void)
{
    begin("identities of a connection");
    CHECK(create(0, "/mine", &ZOO_CREATOR_ALL_ACL) == ZOK);
    sim_reset_connections(0);
    run_for(2 * SIM_SECOND);
    CHECK(get(0, "/mine") == ZOK); /* the client has sent its credentials again */
    CHECK(zoo_add_auth(handles[2], "digest", "user:password", 13, on_authenticated, (void *)(intptr_t)2) == ZOK);
    CHECK(zoo_add_auth(handles[2], "digest", "other:one", 9, NULL, NULL) == ZOK);
    run_for(SIM_SECOND);
    CHECK(authenticated[2] == ZOK && get(2, "/mine") == ZOK); /* as one of two identities */
    CHECK(create(2, "/ours", &ZOO_CREATOR_ALL_ACL) == ZOK);
    CHECK(get(0, "/ours") == ZOK && get(1, "/ours") == ZNOAUTH);
    CHECK(zoo_add_auth(handles[1], "nosuchscheme", "x", 1, on_authenticated, (void *)(intptr_t)1) == ZOK);
    run_for(SIM_SECOND);
    CHECK(authenticated[1] == ZAUTHFAILED && zoo_state(handles[1]) == ZOO_AUTH_FAILED_STATE);
    end();
}

static void test_expiry_and_administrators(void)
{
    begin("what no list forbids");
    CHECK(create(0, "/mine", &ZOO_CREATOR_ALL_ACL) == ZOK);
    CHECK(answered(zoo_acreate(handles[0], "/mine/e", "", 0, &ZOO_READ_ACL_UNSAFE, ZOO_EPHEMERAL, on_string, NULL)) ==
          ZOK);
    CHECK(sim_foreign_set(0, "/mine", "new") && sim_foreign_create(0, "/mine/x", "", ZOO_PERSISTENT));
    zookeeper_close(handles[0]);
    handles[0] = NULL;
    run_for(SIM_SECOND);
    CHECK(sim_exists("/mine/x"));
    CHECK(!sim_exists("/mine/e"));
    end();
}

static bool none_counts(sim_event_fn run, const void *context, int64_t argument)
{
    (void)run, (void)context, (void)argument;
    return false;
}

/* Two worlds that differ in one list only have different hashes. Worlds with the same lists have the same hash. */
static void test_hashes(void)
{
    static const struct {
        int permissions;
        const char *credential;
    } worlds[] = {{31, "a:b"}, {31, "a:b"}, {1, "a:b"}, {31, "a:c"}};
    uint64_t hashes[4];
    for (int i = 0; i < 4; i++) {
        sim_options options = usual;
        options.even = true;
        begin_world("hashes of worlds with lists", &options);
        open_handle(0, worlds[i].credential);
        CHECK(create_for(0, "/a", worlds[i].permissions, "auth", "") == ZOK);
        zookeeper_close(handles[0]);
        handles[0] = NULL;
        run_for(SIM_SECOND);
        hashes[i] = sim_hash(none_counts);
        sim_end();
    }
    CHECK(hashes[0] == hashes[1]);
    CHECK(hashes[0] != hashes[2] && hashes[0] != hashes[3] && hashes[2] != hashes[3]);
}

static void test_names(void)
{
    begin("names that servers refuse");
    CHECK(create(0, "/d", &ZOO_OPEN_ACL_UNSAFE) == ZOK);
    static const char *const wrong[] = {"/d/.",        "/d/..",       "/d/\1",           "/d/\177",
                                        "/d/\302\205", "/d/\300\257", "/d/\355\240\200", "/d/\360\237\224\222",
                                        "/d/\377",     "/d/\303",     "/d/\356\200\200"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(create(0, wrong[i], &ZOO_OPEN_ACL_UNSAFE) == ZBADARGUMENTS);
    CHECK(sim_child_count("/d") == 0);
    static const char *const right[] = {"/d/...", "/d/.a", "/d/ ", "/d/\303\274", "/d/\346\274\242", "/d/\302\240"};
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
        CHECK(create(0, right[i], &ZOO_OPEN_ACL_UNSAFE) == ZOK);
    char path[40000] = "/d/";
    memset(path + 3, 'x', sizeof(path) - 4);
    CHECK(answered(zoo_acreate(handles[0], path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, on_string,
                               NULL)) == ZOK);
    end();
}

static void test_own_nodes(void)
{
    sim_options options = usual;
    begin_world("worlds whose servers have no nodes", &options);
    open_handle(2, NULL);
    CHECK(sim_child_count("/") == 0 && exists(2, "/zookeeper") == ZNONODE);
    end();
    options.own_nodes = true;
    begin_world("nodes that servers make themselves", &options);
    open_handle(2, NULL);
    static const char *const nodes[] = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
    for (int i = 0; i < 4; i++) {
        CHECK(get(2, nodes[i]) == ZOK && list(2, nodes[i]) == ZOK);
        CHECK(remove_node(2, nodes[i]) == ZBADARGUMENTS);
        CHECK(set(2, nodes[i]) == (i == 3 ? ZNOAUTH : ZOK));
    }
    CHECK(sim_child_count("/") == 1 && sim_child_count("/zookeeper") == 2);
    CHECK(answered(zoo_acreate(handles[2], "/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, on_string,
                               NULL)) == ZOK);
    CHECK(sim_exists("/n-0000000000")); /* the nodes that servers make do not count as children of the root */
    CHECK(sim_replace_data(SIM_WIPED, ""));
    CHECK(sim_child_count("/") == 1 && sim_exists("/zookeeper/config"));
    end();
}

static void test_last_zxid(void)
{
    sim_options options = usual;
    options.last_zxid = INT64_C(0x20000000000001);
    begin_world("servers that have done something before", &options);
    CHECK(sim_last_zxid() == options.last_zxid);
    open_handle(2, NULL);
    CHECK(create(2, "/a", &ZOO_OPEN_ACL_UNSAFE) == ZOK);
    CHECK(sim_czxid("/a") == INT64_C(0x20000000000003)); /* the creation of the session was the transaction before */
    end();
}

/* The server executes a request of one client before a later request of another client. */
static void test_order(void)
{
    sim_options options = usual;
    options.even = options.in_order = true;
    begin_world("requests in the order of arrival", &options);
    open_handle(0, NULL);
    open_handle(2, NULL);
    for (int i = 0; i < 20; i++) {
        CHECK(create(0, "/a", &ZOO_OPEN_ACL_UNSAFE) == ZOK);
        CHECK(zoo_adelete(handles[0], "/a", -1, on_ignored, NULL) == ZOK);
        sim_run_until(sim_now() + SIM_MICROSECOND);
        CHECK(exists(2, "/a") == ZNONODE);
    }
    end();
}

/* Uses more paths than the table of paths has room for at first. */
static void test_many_paths(void)
{
    begin("many paths");
    int found = 0;
    for (int i = 0; i < 40000; i++) {
        char path[32];
        snprintf(path, sizeof(path), "/many/%d/x", i);
        found += sim_exists(path);
    }
    CHECK(found == 0);
    CHECK(create(0, "/many", &ZOO_OPEN_ACL_UNSAFE) == ZOK);
    CHECK(create(0, "/many/39999", &ZOO_OPEN_ACL_UNSAFE) == ZOK);
    CHECK(create(0, "/many/39999/x", &ZOO_OPEN_ACL_UNSAFE) == ZOK);
    CHECK(sim_exists("/many/39999/x") && !sim_exists("/many/0/x"));
    end();
}

void sim_selftest_nodes(void)
{
    test_creator();
    test_lists();
    test_refused_lists();
    test_identities();
    test_expiry_and_administrators();
    test_hashes();
    test_names();
    test_own_nodes();
    test_last_zxid();
    test_order();
    test_many_paths();
}
