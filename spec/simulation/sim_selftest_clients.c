/* sim_selftest_clients: see the header. The words of a story are written in this file only. */
#include "sim_selftest_clients.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

char story[SIM_MAX_CALLERS][2000];
zhandle_t *handles[SIM_MAX_CALLERS];
char created[SIM_MAX_CALLERS][128];
struct Stat stats[SIM_MAX_CALLERS];
char contents[SIM_MAX_CALLERS][32];

/* Adds a word to a story. */
static void tell(int caller, const char *what, int value, const char *end_of_word)
{
    size_t used = strlen(story[caller]);
    snprintf(story[caller] + used, sizeof(story[caller]) - used, "%s%d%s", what, value, end_of_word);
}

static int who(const zhandle_t *zh)
{
    for (int i = 0; i < SIM_MAX_CALLERS; i++) {
        if (handles[i] == zh)
            return i;
    }
    return 0;
}

void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)path;
    (void)context;
    tell(who(zh), type == ZOO_SESSION_EVENT ? "S" : "E", type == ZOO_SESSION_EVENT ? state : type, " ");
}

void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)state;
    (void)path;
    (void)context;
    if (type != ZOO_SESSION_EVENT)
        tell(who(zh), "W", type, " ");
}

void on_named_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        tell(who(zh), context, type, " ");
}

static int number_of(const void *data)
{
    return (int)(intptr_t)data;
}

void on_void(int rc, const void *data)
{
    tell(number_of(data), "v", rc, " ");
}

void on_string(int rc, const char *value, const void *data)
{
    tell(number_of(data), "s", rc, " ");
    snprintf(created[number_of(data)], sizeof(created[0]), "%s", value != NULL ? value : "");
}

void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *data)
{
    on_string(rc, value, data);
    if (rc == ZOK)
        stats[number_of(data)] = *stat;
    if (rc == ZOK && stat->ephemeralOwner > 0 && stat->ephemeralOwner != sim_client_session(number_of(data)))
        tell(number_of(data), "owner?", 0, " ");
}

void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
    tell(number_of(data), "d", rc, " ");
    if (rc != ZOK)
        return;
    stats[number_of(data)] = *stat;
    snprintf(contents[number_of(data)], sizeof(contents[0]), "%d:%.*s", length, length > 0 ? length : 0,
             value != NULL ? value : "null");
    if (value == NULL)
        snprintf(contents[number_of(data)], sizeof(contents[0]), "%d:null", length);
}

void on_stat(int rc, const struct Stat *stat, const void *data)
{
    tell(number_of(data), "x", rc, " ");
    if (rc == ZOK)
        stats[number_of(data)] = *stat;
}

void on_strings(int rc, const struct String_vector *strings, const void *data)
{
    tell(number_of(data), "l", rc, "");
    tell(number_of(data), ":", rc == ZOK ? strings->count : -1, " ");
}

void on_strings_stat(int rc, const struct String_vector *strings, const struct Stat *stat, const void *data)
{
    on_strings(rc, strings, data);
    if (rc == ZOK)
        stats[number_of(data)] = *stat;
}

void *data_of(int caller)
{
    return (void *)(intptr_t)caller;
}

void begin_test(const char *name, int servers)
{
    begin_test_of_client(name, servers, NULL);
}

void begin_test_of_client(const char *name, int servers, const char *version)
{
    test_name = name;
    sim_options options = {.seed = 7,
                           .servers = servers,
                           .min_session_timeout_ms = 1000,
                           .max_session_timeout_ms = 4000,
                           .tick_ms = 1000,
                           .delay = SIM_MILLISECOND,
                           .client_version = version};
    sim_begin(&options, NULL);
    memset(story, 0, sizeof(story));
    memset(handles, 0, sizeof(handles));
    while (sim_leader() < 0)
        sim_step();
}

void end_test(void)
{
    for (int i = 0; i < SIM_MAX_CALLERS; i++) {
        if (handles[i] != NULL)
            zookeeper_close(handles[i]);
        handles[i] = NULL;
    }
    sim_end();
}

void open_handle(int caller)
{
    sim_set_caller(caller);
    handles[caller] = zookeeper_init2("h1:2181", on_event, 4000, NULL, NULL, 0, NULL);
    CHECK(handles[caller] != NULL);
}

int turn(int caller)
{
    int fd = -1, interest = 0;
    struct timeval wait = {0, 0};
    sim_set_caller(caller);
    int rc = zookeeper_interest(handles[caller], &fd, &interest, &wait);
    if (rc != ZOK || fd < 0)
        return rc;
    int events = ((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0);
    short found = sim_poll(fd, (short)events);
    if (found != 0)
        zookeeper_process(handles[caller], ((found & POLLIN) != 0 ? ZOOKEEPER_READ : 0) |
                                               ((found & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0));
    return ZOK;
}

void run_for(int64_t during)
{
    int64_t limit = sim_now() + during;
    while (sim_now() < limit) {
        for (int i = 0; i < SIM_MAX_CALLERS; i++) {
            if (handles[i] != NULL)
                turn(i);
        }
        if (!sim_step())
            break;
    }
}

void forget_story(void)
{
    memset(story, 0, sizeof(story));
}

void create_at(int caller, const char *path, int mode)
{
    sim_set_caller(caller);
    CHECK(zoo_acreate2(handles[caller], path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, mode, on_string_stat, data_of(caller)) ==
          ZOK);
}

void remove_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_adelete(handles[caller], path, -1, on_void, data_of(caller)) == ZOK);
}

void list_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_aget_children(handles[caller], path, 0, on_strings, data_of(caller)) == ZOK);
}

void list2_at(int caller, const char *path, const char *name)
{
    sim_set_caller(caller);
    char *context = NULL;
    memcpy(&context, &name, sizeof(context));
    CHECK(zoo_awget_children2(handles[caller], path, name != NULL ? on_named_watch : NULL, context, on_strings_stat,
                              data_of(caller)) == ZOK);
}

void set_at(int caller, const char *path, const char *value, int version)
{
    sim_set_caller(caller);
    CHECK(zoo_aset(handles[caller], path, value, value != NULL ? (int)strlen(value) : -1, version, on_stat,
                   data_of(caller)) == ZOK);
}

void get_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_aget(handles[caller], path, 0, on_data, data_of(caller)) == ZOK);
}

void unwatch_at(int caller, const char *path, ZooWatcherType type)
{
    sim_set_caller(caller);
    void_completion_t done = on_void;
    void_completion_t *odd;
    memcpy(&odd, &done, sizeof(odd));
    CHECK(zoo_aremove_all_watches(handles[caller], path, type, 0, odd, data_of(caller)) == ZOK);
}

int server_watches(void)
{
    const char *example;
    return sim_server_watches(&example);
}

bool says(int caller, const char *expected)
{
    run_for(SIM_SECOND);
    bool same = strcmp(story[caller], expected) == 0;
    if (!same)
        printf("client %d said: %s\n", caller, story[caller]);
    forget_story();
    return same;
}

void watch_at(int caller, const char *path, void *context)
{
    sim_set_caller(caller);
    CHECK(zoo_awget(handles[caller], path, on_watch, context, on_data, data_of(caller)) == ZOK);
}

void open_at(int caller, const char *hosts)
{
    sim_set_caller(caller);
    handles[caller] = zookeeper_init2(hosts, on_event, 4000, NULL, NULL, 0, NULL);
    CHECK(handles[caller] != NULL);
}

int begin_link(const char *name, int servers)
{
    static const int first[] = {0};
    begin_test(name, servers);
    int link = sim_link_begin(first, 1);
    open_at(0, "link1:2181");
    CHECK(link == 1 && says(0, "S3 "));
    return link;
}

bool is_text(const char *text, const char *expected)
{
    bool same = text != NULL && expected != NULL ? strcmp(text, expected) == 0 : text == expected;
    if (!same)
        printf("this is: %s\n", text != NULL ? text : "NULL");
    return same;
}

void exists_at(int caller, const char *path)
{
    sim_set_caller(caller);
    CHECK(zoo_aexists(handles[caller], path, 0, on_stat, data_of(caller)) == ZOK);
}

void multi_at(int caller, const char *path)
{
    static zoo_op_t ops[2];
    static zoo_op_result_t results[2];
    memset(results, 0, sizeof(results));
    zoo_create_op_init(&ops[0], path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    zoo_check_op_init(&ops[1], path, 0);
    sim_set_caller(caller);
    CHECK(zoo_amulti(handles[caller], 2, ops, results, on_void, data_of(caller)) == ZOK);
}
