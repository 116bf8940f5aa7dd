/*
 * cases_connection: what a handle does when connections and sessions begin and end.
 */
#include <errno.h>
#include <string.h>

#include "cases.h"

/* For cases that wait until such a time is over. Longer than a busy machine stops. */
#define SHORT_TIMEOUT 10000

static void first_connection(void)
{
    open_handle(0, "", CASE_TIMEOUT, NULL);
    CHECK_NUMBER(zoo_state(handles[0]), ZOO_NOTCONNECTED_STATE);
    CHECK_NUMBER(zoo_client_id(handles[0])->client_id, 0);
    CHECK_NUMBER(is_unrecoverable(handles[0]), ZOK);
    RUN_UNTIL_STATE(0, ZOO_CONNECTED_STATE);
    settle();
    CHECK_STORY(0, "connected");
    CHECK(zoo_client_id(handles[0])->client_id != 0);
}

static void early_requests(void)
{
    open_handle(0, "", CASE_TIMEOUT, NULL);
    ask_create(0, "/a", "x", ZOO_PERSISTENT);
    answer *last = ask_get(0, "/a", NULL);
    CHECK_NUMBER(RESULT(last), ZOK);
    CHECK_STORY(0, "connected create=0 get=0");
}

static int seen_state;

static void on_state(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTING_STATE)
        seen_state = zoo_state(zh);
    if (type == ZOO_SESSION_EVENT && strcmp(path, "") != 0)
        tell(0, "path-of-session-event-%s", path);
}

static void watchers_first(void)
{
    static watch w = {0, "w", true};
    open_client(0);
    CHECK_NUMBER(RESULT(ask_get(0, "/", &w)), ZOK);
    answer *own = new_answer(0, NULL);
    CHECK_NUMBER(zoo_awget(handles[0], "/", on_state, NULL, on_data, own), ZOK);
    CHECK_NUMBER(RESULT(own), ZOK);
    told(0);
    world_hold_requests(0, true);
    ask_create(0, "/a", "x", ZOO_PERSISTENT);
    seen_state = 0;
    world_cut(0);
    RUN_UNTIL_TOLD(0, "create=-4");
    const char *story = told(0);
    CHECK(strcmp(story, "connecting w:connecting create=-4") == 0 ||
          strcmp(story, "w:connecting connecting create=-4") == 0);
    CHECK_NUMBER(seen_state, ZOO_CONNECTED_STATE);
}

static void failing_in_order(void)
{
    open_client(0);
    world_hold_requests(0, true);
    answer *first = ask_create(0, "/a", "x", ZOO_PERSISTENT);
    ask_get(0, "/", NULL);
    ask_list(0, "/", NULL);
    ask_sync(0, "/");
    answer *last = ask_delete(0, "/a", -1);
    world_cut(0);
    CHECK_NUMBER(RESULT(last), ZCONNECTIONLOSS);
    CHECK_STORY(0, "connecting create=-4 get=-4 list=-4 sync=-4 delete=-4");
    CHECK_NUMBER(world_said(0), ZCONNECTIONLOSS);
    CHECK_NUMBER(first->state, 0);
    CHECK_NUMBER(last->state, 0);
    world_hold_requests(0, false);
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(RESULT(ask_exists(0, "/a", NULL)), ZNONODE); /* it was never executed */
    CHECK_STORY(0, "connected exists=-101");
}

static void ask_again(const answer *failed)
{
    if (failed->rc == ZCONNECTIONLOSS)
        ask_list(failed->client, "/", NULL)->then = ask_again;
}

static void submitted_inside(void)
{
    open_client(0);
    world_hold_requests(0, true);
    ask_list(0, "/", NULL)->then = ask_again;
    ask_get(0, "/", NULL);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "get=-4");
    world_hold_requests(0, false);
    RUN_UNTIL_TOLD(0, "list=0");
    CHECK_STORY(0, "connecting list=-4 get=-4 connected list=0");
}

static void submitted_in_session_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)path;
    (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTING_STATE)
        tell(0, "submitted=%d", zoo_aexists(zh, "/", 0, on_stat, new_answer(0, "inside")));
}

static void lost_inside(void)
{
    open_client(0);
    answer *armed = new_answer(0, NULL);
    CHECK_NUMBER(zoo_awget(handles[0], "/", submitted_in_session_event, NULL, on_data, armed), ZOK);
    CHECK_NUMBER(RESULT(armed), ZOK);
    world_hold_requests(0, true);
    answer *last = ask_list(0, "/", NULL);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "inside=-4");
    CHECK(last->done);
    CHECK_STORY(0, "submitted=0 connecting list=-4 inside=-4");
}

static void failed_send(void)
{
    bool closes = client_has("failed_send_closes");
    open_client(0);
    settle();
    world_fail_next_send(0);
    answer *created = ask_create(0, "/a", "x", ZOO_PERSISTENT);
    CHECK_NUMBER(zoo_state(handles[0]), closes ? ZOO_NOTCONNECTED_STATE : ZOO_CONNECTED_STATE);
    CHECK_STORY(0, "");
    CHECK_NUMBER(RESULT(created), closes ? ZOK : ZCONNECTIONLOSS);
    CHECK_STORY(0, closes ? "connected create=0" : "connecting create=-4");
}

static void failed_send_behind(void)
{
    open_client(0);
    settle();
    world_hold_requests(0, true);
    ask_list(0, "/", NULL);
    world_fail_next_send(0);
    answer *created = ask_create(0, "/a", "x", ZOO_PERSISTENT);
    if (!client_has("failed_send_closes")) {
        CHECK_NUMBER(RESULT(created), ZCONNECTIONLOSS);
        CHECK_STORY(0, "connecting list=-4 create=-4");
        return;
    }
    CHECK_NUMBER(zoo_state(handles[0]), ZOO_NOTCONNECTED_STATE);
    CHECK_STORY(0, "");
    world_hold_requests(0, false);
    RUN_UNTIL_TOLD(0, "create=-2");
    CHECK_NUMBER(created->rc, ZRUNTIMEINCONSISTENCY);
    CHECK_STORY(0, "connected connecting list=-2 create=-2");
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(RESULT(ask_exists(0, "/a", NULL)), ZOK);
}

static void lost_create(void)
{
    open_client(0);
    world_lose_next_create(0);
    answer *created = ask_create(0, "/a", "x", ZOO_EPHEMERAL);
    CHECK_NUMBER(RESULT(created), ZCONNECTIONLOSS);
    CHECK_STORY(0, "connecting create=-4");
    RUN_UNTIL_TOLD(0, "connected");
    answer *found = ask_exists(0, "/a", NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.ephemeralOwner, zoo_client_id(handles[0])->client_id);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZNODEEXISTS);
}

static void lost_delete(void)
{
    open_client(0);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_PERSISTENT)), ZOK);
    world_lose_next_delete(0);
    CHECK_NUMBER(RESULT(ask_delete(0, "/a", -1)), ZCONNECTIONLOSS);
    told(0);
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(RESULT(ask_delete(0, "/a", -1)), ZNONODE);
}

static void session_goes_on(void)
{
    open_client(0);
    open_client(1);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZOK);
    int64_t session = zoo_client_id(handles[0])->client_id;
    told(0);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_STORY(0, "connecting connected");
    CHECK_NUMBER(zoo_client_id(handles[0])->client_id, session);
    answer *found = ask_exists(1, "/a", NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.ephemeralOwner, session);
    close_client(0);
    run_until_gone(1, "/a");
}

static void negotiation(void)
{
    open_handle(0, "", 1000, NULL);
    open_handle(1, "", CASE_TIMEOUT, NULL);
    open_handle(2, "", 1000000, NULL);
    CHECK_NUMBER(zoo_recv_timeout(handles[1]), CASE_TIMEOUT);
    static const int granted[] = {WORLD_LEAST_TIMEOUT, CASE_TIMEOUT, WORLD_MOST_TIMEOUT};
    for (int i = 0; i < 3; i++) {
        RUN_UNTIL_TOLD(i, "connected");
        CHECK_NUMBER(zoo_recv_timeout(handles[i]), granted[i]);
    }
}

static void ended_from_outside(void)
{
    open_client(0);
    open_client(1);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZOK);
    told(0);
    world_end_session(zoo_client_id(handles[0]), handles);
    run_until_gone(1, "/a");
    RUN_UNTIL_STATE(0, ZOO_EXPIRED_SESSION_STATE);
    CHECK_STORY(0, "connecting expired");
    CHECK_NUMBER(world_said(0), ZSESSIONEXPIRED);
    CHECK_NUMBER(is_unrecoverable(handles[0]), ZINVALIDSTATE);
    answer *never = new_answer(0, "never");
    int fd, interest;
    struct timeval wait;
    CHECK_NUMBER(zookeeper_interest(handles[0], &fd, &interest, &wait), ZINVALIDSTATE);
    CHECK_NUMBER(zookeeper_process(handles[0], ZOOKEEPER_READ), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_aget(handles[0], "/", 0, on_data, never), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_acreate2(handles[0], "/b", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, on_string_stat, never), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_adelete(handles[0], "/b", -1, on_void, never), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_aset(handles[0], "/b", "", 0, -1, on_stat, never), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_async(handles[0], "/b", on_string, never), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_aget_children2(handles[0], "/", 0, on_strings_stat, never), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_add_auth(handles[0], "digest", "a:b", 3, on_void, never), ZINVALIDSTATE);
    zoo_op_t op;
    zoo_op_result_t result;
    zoo_check_op_init(&op, "/", -1);
    CHECK_NUMBER(zoo_amulti(handles[0], 1, &op, &result, on_void, never), ZMARSHALLINGERROR);
    CHECK_NUMBER(zoo_aget(handles[0], "no path", 0, on_data, never), ZBADARGUMENTS); /* checked first */
    CHECK(!never->done);
    CHECK_STORY(0, "");
}

static void waiting_at_expiry(void)
{
    open_client(0);
    world_end_session(zoo_client_id(handles[0]), handles);
    RUN_UNTIL_TOLD(0, "connecting");
    answer *waiting = ask_create(0, "/a", "x", ZOO_PERSISTENT);
    ask_get(0, "/", NULL);
    CHECK_NUMBER(RESULT(waiting), ZSESSIONEXPIRED);
    CHECK_STORY(0, "connecting expired create=-112 get=-112");
    CHECK_NUMBER(waiting->state, ZOO_EXPIRED_SESSION_STATE);
}

static void silent_session(void)
{
    static watch w = {1, "w", false};
    open_handle(0, "", SHORT_TIMEOUT, NULL);
    open_client(1);
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(1, "/a", &w)), ZOK);
    told(0);
    told(1);
    world_hold_requests(0, true);
    world_hold_replies(0, true);
    RUN_UNTIL_TOLD(1, "w:deleted");
    CHECK(zoo_state(handles[0]) != ZOO_EXPIRED_SESSION_STATE); /* the client does not know it yet */
    world_hold_requests(0, false);
    world_hold_replies(0, false);
    RUN_UNTIL_STATE(0, ZOO_EXPIRED_SESSION_STATE);
    CHECK_STORY(0, "connecting expired");
}

static void silence_noticed(void)
{
    open_handle(0, "", SHORT_TIMEOUT, NULL);
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(RESULT(ask_get(0, "/", NULL)), ZOK);
    told(0);
    world_hold_replies(0, true);
    answer *late = ask_get(0, "/", NULL);
    CHECK_NUMBER(RESULT(late), ZOPERATIONTIMEOUT);
    CHECK_STORY(0, "connecting get=-7");
}

static int reads_before;

/* Bytes were read without an event. If a machine that stopped has lost the connection meanwhile, the check begins anew. */
static bool read_silently(const void *context)
{
    (void)context;
    bool more = world_reads(0) > reads_before;
    if (told(0)[0] == '\0')
        return more;
    reads_before = world_reads(0);
    return false;
}

static void idle(void)
{
    open_handle(0, "", SHORT_TIMEOUT, NULL);
    RUN_UNTIL_TOLD(0, "connected");
    told(0);
    int64_t since = world_now();
    reads_before = world_reads(0);
    RUN_UNTIL(read_silently, NULL);
    CHECK(world_is_real || world_now() - since < SHORT_TIMEOUT * INT64_C(1000000) / 2);
}

static void adopted(void)
{
    open_client(0);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZOK);
    clientid_t session = *zoo_client_id(handles[0]);
    told(0);
    open_handle(1, "", CASE_TIMEOUT, &session);
    zhandle_t *first = handles[0];
    handles[0] = NULL; /* its loop is not run, or it would take its session back */
    RUN_UNTIL_STATE(1, ZOO_CONNECTED_STATE);
    handles[0] = first;
    CHECK_NUMBER(zoo_client_id(handles[1])->client_id, session.client_id);
    handles[0] = NULL;
    CHECK_NUMBER(RESULT(ask_delete(1, "/a", -1)), ZOK);
    handles[0] = first;
    RUN_UNTIL_TOLD(0, "connecting");
}

static void wrong_password(void)
{
    open_client(0);
    clientid_t session = *zoo_client_id(handles[0]);
    memset(session.passwd, 'x', sizeof(session.passwd));
    open_handle(1, "", CASE_TIMEOUT, &session);
    RUN_UNTIL_STATE(1, ZOO_EXPIRED_SESSION_STATE);
    CHECK_STORY(1, "expired");
}

static void restarted(void)
{
    open_client(0);
    CHECK_NUMBER(RESULT(ask_create(0, "/d", "x", ZOO_PERSISTENT)), ZOK);
    answer *first = ask_create(0, "/d/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    CHECK_NUMBER(RESULT(first), ZOK);
    int64_t session = zoo_client_id(handles[0])->client_id;
    told(0);
    world_restart_server();
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_STORY(0, "connecting connected");
    CHECK_NUMBER(zoo_client_id(handles[0])->client_id, session);
    answer *found = ask_exists(0, first->text, NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.czxid, first->stat.czxid);
    answer *second = ask_create(0, "/d/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    CHECK_NUMBER(RESULT(second), ZOK);
    CHECK_TEXT(second->text, "/d/n-0000000001");
    CHECK(second->stat.czxid > first->stat.czxid);
}

static void goodbye(void)
{
    open_client(0);
    open_client(1);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZOK);
    told(0);
    world_hold_replies(0, true);
    ask_get(0, "/a", NULL);
    ask_list(0, "/", NULL);
    int64_t since = world_now();
    close_client(0);
    CHECK_STORY(0, "get=-116 list=-116"); /* and no session event */
    world_hold_replies(0, false);
    run_until_gone(1, "/a");
    CHECK(world_is_real || world_now() - since < CASE_TIMEOUT * INT64_C(1000000) / 2); /* long before it expires */
}

static int closed_with;

static void close_inside(const answer *at)
{
    closed_with = zookeeper_close(handles[at->client]);
    tell(at->client, "closed");
    answer *never = new_answer(at->client, "never");
    tell(at->client, "then=%d", zoo_aget(handles[at->client], "/", 0, on_data, never));
    handles[at->client] = NULL;
}

static void closed_inside(void)
{
    open_client(0);
    open_client(1);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZOK);
    told(0);
    closed_with = -1;
    world_hold_requests(0, true); /* so that the answers are not read together */
    ask_get(0, "/a", NULL)->then = close_inside;
    answer *last = ask_list(0, "/", NULL);
    world_hold_requests(0, false);
    CHECK_NUMBER(RESULT(last), ZCLOSING);
    CHECK_NUMBER(closed_with, ZOK);
    CHECK_STORY(0, "get=0 closed then=-5 list=-116");
    CHECK_NUMBER(RESULT(ask_sync(1, "/")), ZOK);
    run_until_gone(1, "/a");
}

static void authentication(void)
{
    open_handle(0, "", CASE_TIMEOUT, NULL);
    answer *early = new_answer(0, "auth");
    CHECK_NUMBER(zoo_add_auth(handles[0], "digest", "a:b", 3, on_void, early), ZOK);
    CHECK_NUMBER(RESULT(early), ZOK);
    answer *later = new_answer(0, "auth");
    CHECK_NUMBER(zoo_add_auth(handles[0], "digest", "c:d", 3, on_void, later), ZOK);
    CHECK_NUMBER(RESULT(later), ZOK);
    CHECK_STORY(0, "connected auth=0 auth=0");
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connected");
    settle(); /* sent anew, and no completion is called again */
    CHECK_STORY(0, "connecting connected");
}

static void authenticate_unconnected(const answer *failed)
{
    answer *never = new_answer(failed->client, "never");
    tell(failed->client, "add=%d", zoo_add_auth(handles[failed->client], "digest", "a:b", 3, on_void, never));
}

static void no_authentication(void)
{
    open_client(0);
    world_hold_requests(0, true);
    answer *lost = ask_get(0, "/", NULL);
    lost->then = authenticate_unconnected;
    world_cut(0);
    RUN_UNTIL_TOLD(0, "add=-9");
    CHECK_STORY(0, "connecting get=-4 add=-9");
}

static void refused_credentials(void)
{
    world_refuse_credentials();
    open_client(0);
    world_hold_requests(0, true);
    answer *refused = new_answer(0, "auth");
    CHECK_NUMBER(zoo_add_auth(handles[0], "unknown", "a:b", 3, on_void, refused), ZOK);
    answer *behind = ask_get(0, "/", NULL);
    world_hold_requests(0, false);
    CHECK_NUMBER(RESULT(refused), ZAUTHFAILED);
    CHECK_NUMBER(zoo_state(handles[0]), ZOO_AUTH_FAILED_STATE);
    CHECK_NUMBER(RESULT(behind), ZAUTHFAILED);
    CHECK_STORY(0, "auth=-115 refused get=-115");
    CHECK_NUMBER(is_unrecoverable(handles[0]), ZINVALIDSTATE);
    CHECK_NUMBER(zoo_aget(handles[0], "/", 0, on_data, refused), ZINVALIDSTATE);
}

static bool is_connected(const void *context)
{
    (void)context;
    return zoo_state(handles[0]) == ZOO_CONNECTED_STATE;
}

static int64_t milliseconds(const struct timeval *wait)
{
    return wait->tv_sec * 1000 + wait->tv_usec / 1000;
}

static void the_loop(void)
{
    int fd = -2, interest = 0;
    struct timeval wait = {0, 0};
    open_handle(0, "", CASE_TIMEOUT, NULL);
    CHECK_NUMBER(zookeeper_process(handles[0], ZOOKEEPER_READ), ZINVALIDSTATE); /* there is no connection */
    CHECK_NUMBER(zookeeper_interest(handles[0], &fd, &interest, &wait), ZOK);
    CHECK(fd >= 0);
    CHECK_NUMBER(interest, ZOOKEEPER_READ | ZOOKEEPER_WRITE);
    CHECK(milliseconds(&wait) <= CASE_TIMEOUT / 3);
    RUN_UNTIL(is_connected, NULL);
    settle();
    CHECK_NUMBER(zookeeper_interest(handles[0], &fd, &interest, &wait), ZOK);
    CHECK_NUMBER(interest, ZOOKEEPER_READ);
    CHECK(milliseconds(&wait) <= CASE_TIMEOUT / 3);
    CHECK_NUMBER(zookeeper_process(handles[0], ZOOKEEPER_READ), ZNOTHING);
    CHECK_NUMBER(zookeeper_process(handles[0], 0), ZOK);
}

/* The pause before a lost connection is opened again, in ms; 0: none. */
static int64_t pause_after_loss(void)
{
    int fd = -2, interest = -2;
    struct timeval wait = {0, 0};
    settle();
    told(0);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connecting");
    CHECK_NUMBER(zoo_state(handles[0]), 0);
    CHECK_NUMBER(zookeeper_interest(handles[0], &fd, &interest, &wait), ZOK);
    int64_t pause = fd < 0 ? milliseconds(&wait) : 0;
    if (fd < 0) {
        CHECK_NUMBER(interest, 0);
        CHECK_NUMBER(zookeeper_interest(handles[0], &fd, &interest, &wait), ZOK);
    }
    CHECK(fd >= 0); /* the second time it connects, however long the pause was */
    CHECK_NUMBER(zoo_state(handles[0]), ZOO_CONNECTING_STATE);
    RUN_UNTIL(is_connected, NULL);
    return pause;
}

static void pauses(void)
{
    open_client(0);
    CHECK_NUMBER(pause_after_loss(), DIFFERS(CASE_TIMEOUT / 60, 0));
    CHECK_NUMBER(pause_after_loss(), CASE_TIMEOUT / 60);
    CHECK_NUMBER(pause_after_loss(), CASE_TIMEOUT / 60);
}

static void one_packet(void)
{
    open_client(0);
    settle();
    world_hold_replies(0, true);
    answer *first = ask_get(0, "/", NULL), *second = ask_list(0, "/", NULL), *third = ask_sync(0, "/");
    world_hold_replies(0, false);
    int64_t limit = world_now() + world_patience();
    while (!third->done && world_now() < limit) {
        bool had_first = first->done, had_second = second->done;
        world_turn(handles);
        CHECK(!second->done || had_first);
        CHECK(!third->done || had_second);
    }
    CHECK(third->done);
}

static void closed_unconnected(void)
{
    open_client(0);
    open_client(1);
    CHECK_NUMBER(RESULT(ask_create(0, "/a", "x", ZOO_EPHEMERAL)), ZOK);
    clientid_t session = *zoo_client_id(handles[0]);
    told(0);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "connecting");
    ask_get(0, "/a", NULL);
    close_client(0);
    CHECK_STORY(0, "connecting get=-116");
    CHECK_NUMBER(RESULT(ask_exists(1, "/a", NULL)), ZOK);
    world_end_session(&session, handles);
    run_until_gone(1, "/a");
}

static void close_at_loss(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)path;
    (void)context;
    if (type != ZOO_SESSION_EVENT || state != ZOO_CONNECTING_STATE)
        return;
    tell(0, "close=%d", zookeeper_close(zh));
    tell(0, "then=%d", zoo_aget(zh, "/", 0, on_data, new_answer(0, "never")));
    handles[0] = NULL;
}

static void closed_by_watcher(void)
{
    open_client(0);
    answer *armed = new_answer(0, NULL);
    CHECK_NUMBER(zoo_awget(handles[0], "/", close_at_loss, NULL, on_data, armed), ZOK);
    CHECK_NUMBER(RESULT(armed), ZOK);
    world_hold_requests(0, true);
    ask_get(0, "/", NULL);
    answer *last = ask_list(0, "/", NULL);
    world_cut(0);
    CHECK_NUMBER(RESULT(last), ZCLOSING);
    const char *story = told(0);
    CHECK(strcmp(story, "connecting close=0 then=-5 get=-116 list=-116") == 0 ||
          strcmp(story, "close=0 then=-5 connecting get=-116 list=-116") == 0);
}

static void lost_credentials(void)
{
    open_client(0);
    settle();
    world_hold_requests(0, true);
    ask_get(0, "/", NULL);
    answer *lost = new_answer(0, "auth");
    CHECK_NUMBER(zoo_add_auth(handles[0], "digest", "a:b", 3, on_void, lost), ZOK);
    world_turn(handles);
    world_cut(0);
    RUN_UNTIL_TOLD(0, "get=-4");
    CHECK_STORY(0, "connecting auth=-4 get=-4");
    world_hold_requests(0, false);
    RUN_UNTIL_TOLD(0, "connected");
    settle();
    CHECK_STORY(0, "connected");
}

static void ask_when_over(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)path;
    (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE)
        tell(0, "then=%d", zoo_aget(zh, "/", 0, on_data, new_answer(0, "never")));
}

static void over_inside(void)
{
    open_client(0);
    answer *armed = new_answer(0, NULL);
    CHECK_NUMBER(zoo_awget(handles[0], "/", ask_when_over, NULL, on_data, armed), ZOK);
    CHECK_NUMBER(RESULT(armed), ZOK);
    world_end_session(zoo_client_id(handles[0]), handles);
    RUN_UNTIL_TOLD(0, "then=-9");
    CHECK(strstr(told(0), "never") == NULL);
}

static void bad_arguments(void)
{
    CHECK(zookeeper_init2(NULL, on_state, CASE_TIMEOUT, NULL, NULL, 0, NULL) == NULL);
    CHECK_NUMBER(errno, EINVAL);
    CHECK(zookeeper_init2("", on_state, CASE_TIMEOUT, NULL, NULL, 0, NULL) == NULL);
    CHECK_NUMBER(errno, EINVAL);
    CHECK(zookeeper_init2(world_unknown_host(0), on_state, CASE_TIMEOUT, NULL, NULL, 0, NULL) == NULL);
    open_handle(0, "", CASE_TIMEOUT, NULL);
    int fd, interest;
    struct timeval wait;
    CHECK_NUMBER(zookeeper_interest(NULL, &fd, &interest, &wait), ZBADARGUMENTS);
    CHECK_NUMBER(zookeeper_interest(handles[0], NULL, &interest, &wait), ZBADARGUMENTS);
    CHECK_NUMBER(zookeeper_process(NULL, ZOOKEEPER_READ), ZBADARGUMENTS);
    CHECK_NUMBER(zookeeper_close(NULL), ZBADARGUMENTS);
    CHECK_NUMBER(zoo_state(NULL), 0);
    CHECK_NUMBER(zoo_add_auth(handles[0], NULL, "a:b", 3, on_void, NULL), ZBADARGUMENTS);
    CHECK_NUMBER(zoo_add_auth(NULL, "digest", "a:b", 3, on_void, NULL), ZBADARGUMENTS);
    CHECK_NUMBER(zoo_set_servers_resolution_delay(handles[0], -2), ZBADARGUMENTS);
    CHECK_NUMBER(zoo_set_servers_resolution_delay(handles[0], -1), ZOK);
    CHECK_NUMBER(zoo_set_servers_resolution_delay(handles[0], 0), ZOK);
}

static void constants(void)
{
    const int actual[] = {ZOOKEEPER_WRITE,
                          ZOOKEEPER_READ,
                          ZOO_PERSISTENT,
                          ZOO_EPHEMERAL,
                          ZOO_PERSISTENT_SEQUENTIAL,
                          ZOO_EPHEMERAL_SEQUENTIAL,
                          ZOO_CONTAINER,
                          ZOO_PERSISTENT_WITH_TTL,
                          ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL,
                          ZOO_EXPIRED_SESSION_STATE,
                          ZOO_AUTH_FAILED_STATE,
                          ZOO_CONNECTING_STATE,
                          ZOO_ASSOCIATING_STATE,
                          ZOO_CONNECTED_STATE,
                          ZOO_READONLY_STATE,
                          ZOO_NOTCONNECTED_STATE,
                          ZOO_CREATED_EVENT,
                          ZOO_DELETED_EVENT,
                          ZOO_CHANGED_EVENT,
                          ZOO_CHILD_EVENT,
                          ZOO_SESSION_EVENT,
                          ZOO_NOTWATCHING_EVENT,
                          ZOO_PERM_READ,
                          ZOO_PERM_WRITE,
                          ZOO_PERM_CREATE,
                          ZOO_PERM_DELETE,
                          ZOO_PERM_ADMIN,
                          ZOO_PERM_ALL};
    static const int expected[] = {1, 2,   0, 1, 2, 3, 4,  5,  6, -112, -113, 1, 2,  3,
                                   5, 999, 1, 2, 3, 4, -1, -2, 1, 2,    4,    8, 16, 31};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        CHECK_NUMBER(actual[i], expected[i]);
    CHECK_NUMBER(ZOO_OPEN_ACL_UNSAFE.count, 1);
    CHECK_NUMBER(ZOO_OPEN_ACL_UNSAFE.data[0].perms, ZOO_PERM_ALL);
    CHECK_TEXT(ZOO_OPEN_ACL_UNSAFE.data[0].id.scheme, "world");
    CHECK_TEXT(ZOO_OPEN_ACL_UNSAFE.data[0].id.id, "anyone");
    CHECK_NUMBER(ZOO_READ_ACL_UNSAFE.data[0].perms, ZOO_PERM_READ);
    CHECK_NUMBER(ZOO_CREATOR_ALL_ACL.data[0].perms, ZOO_PERM_ALL);
    CHECK_TEXT(ZOO_CREATOR_ALL_ACL.data[0].id.scheme, "auth");
}

static void messages(void)
{
    static const struct {
        int code;
        const char *text;
    } expected[] = {{ZOK, "ok"},
                    {ZSYSTEMERROR, "system error"},
                    {ZRUNTIMEINCONSISTENCY, "run time inconsistency"},
                    {ZDATAINCONSISTENCY, "data inconsistency"},
                    {ZCONNECTIONLOSS, "connection loss"},
                    {ZMARSHALLINGERROR, "marshalling error"},
                    {ZUNIMPLEMENTED, "unimplemented"},
                    {ZOPERATIONTIMEOUT, "operation timeout"},
                    {ZBADARGUMENTS, "bad arguments"},
                    {ZINVALIDSTATE, "invalid zhandle state"},
                    {ZAPIERROR, "api error"},
                    {ZNONODE, "no node"},
                    {ZNOAUTH, "not authenticated"},
                    {ZBADVERSION, "bad version"},
                    {ZNOCHILDRENFOREPHEMERALS, "no children for ephemerals"},
                    {ZNODEEXISTS, "node exists"},
                    {ZNOTEMPTY, "not empty"},
                    {ZSESSIONEXPIRED, "session expired"},
                    {ZINVALIDCALLBACK, "invalid callback"},
                    {ZINVALIDACL, "invalid acl"},
                    {ZAUTHFAILED, "authentication failed"},
                    {ZCLOSING, "zookeeper is closing"},
                    {ZNOTHING, "(not error) no server responses to process"},
                    {ZSESSIONMOVED, "session moved to another server, so operation is ignored"},
                    {ZNOWATCHER, "the watcher couldn't be found"},
                    {ZTHROTTLEDOP, "Operation was throttled due to high load"},
                    {-77, "unknown error"}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        CHECK_TEXT(zerror(expected[i].code), expected[i].text);
}

const conformance_case connection_cases[] = {
    {"a new handle is not connected, and its watcher is called once for the first connection", first_connection},
    {"requests submitted before the first connection are executed in order", early_requests},
    {"when a connection is lost, all watchers are called first, and zoo_state still reads connected inside",
     watchers_first},
    {"when a connection is lost, outstanding requests fail in order, and zoo_state reads 0 inside", failing_in_order},
    {"a request submitted by a failing completion waits for the next connection", submitted_inside},
    {"a request submitted by a watcher when the connection is lost fails with the outstanding ones", lost_inside},
    {"if a send fails, the call returns ZOK, no callback is called, and the request is sent on the next connection; "
     "before 3.8.0 it fails in the next turn",
     failed_send},
    {"if a send fails behind an outstanding request, the next connection ends with ZRUNTIMEINCONSISTENCY; before 3.8.0 "
     "both fail in the next turn",
     failed_send_behind},
    {"a create whose reply is lost was executed", lost_create},
    {"a delete whose reply is lost was executed, and a second one returns ZNONODE", lost_delete},
    {"a session survives a reconnect, and its nodes are deleted when its handle is closed", session_goes_on},
    {"the timeout is negotiated within the bounds of the server", negotiation},
    {"after another client has ended the session, the handle refuses all calls", ended_from_outside},
    {"requests that wait for a connection fail with ZSESSIONEXPIRED if the session has ended", waiting_at_expiry},
    {"the session of a silent client expires, and the client is told when it connects again", silent_session},
    {"a client that receives nothing ends its connection with ZOPERATIONTIMEOUT", silence_noticed},
    {"an idle client sends a ping after a third of its timeout, and calls no callback for the reply", idle},
    {"another handle can take over a session by id and password, which ends the old connection", adopted},
    {"a handle with a session's id and a wrong password gets an expired session", wrong_password},
    {"a restarted server keeps sessions, nodes, numbers and the order of zxids", restarted},
    {"closing a handle fails outstanding requests with ZCLOSING, and ends its session", goodbye},
    {"a handle that is closed inside a completion refuses requests, and is freed when zookeeper_process returns",
     closed_inside},
    {"credentials are sent at once or with the connection, and again after each reconnect without a callback",
     authentication},
    {"credentials cannot be added between two connections", no_authentication},
    {"after refused credentials the handle refuses all calls, and outstanding requests fail with ZAUTHFAILED",
     refused_credentials},
    {"credentials whose reply is lost fail before other requests, and are sent again without a callback",
     lost_credentials},
    {"a request submitted by a watcher when the session has expired is refused", over_inside},
    {"closing a handle that is not connected leaves its session to expire", closed_unconnected},
    {"closing a handle in a watcher when the connection is lost fails outstanding requests with ZCLOSING",
     closed_by_watcher},
    {"zookeeper_interest returns the descriptor, the events and the longest wait", the_loop},
    {"a handle pauses for a 60th of its timeout when it has tried all servers", pauses},
    {"zookeeper_process handles one packet", one_packet},
    {"calls without a handle, a host that resolves, or a scheme are refused", bad_arguments},
    {"constants have the numbers of 3.8.0", constants},
    {"zerror has the texts of 3.8.0", messages},
    {NULL, NULL}};
