/*
 * session: the ZooKeeper handle, and the meaning of its session events, which listeners are told of.
 *
 * A handle is opened when there is none, and closed when its session is over; a new one follows by itself. `connected`
 * is what the handle says. `ready` means more: the server has answered a request of ours in this session. So a program
 * that merely accepts connections is not taken for a ZooKeeper server.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "engine/engine_private.h"

/* The time until the next try after a failure to open a handle, for example because a name does not resolve. */
#define RETRY_AFTER (ZKL_SECOND / 2)

/* The same after a failure of zookeeper_interest, for a handle that exists. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

/*
 * No ZooKeeper server has a session timeout above this. The program that answered speaks some other protocol, and the C
 * client took its text for a number.
 */
#define PLAUSIBLE_TIMEOUT_MS (24 * 3600 * 1000)

/* The delay before a request that the server refused is tried again. */
#define TRY_AGAIN_AFTER ZKL_SECOND

/* A session that no server has taken back for so long is given up. */
#define GIVEN_UP_AFTER(timeout) ((timeout)*3)

const char *zkl_state_name(zkl_state state)
{
    static const char *const names[] = {
        [ZKL_STATE_CONNECTING] = "connecting",   [ZKL_STATE_CONNECTED] = "connected",
        [ZKL_STATE_SUSPENDED] = "suspended",     [ZKL_STATE_CLOSED] = "closed",
        [ZKL_STATE_AUTH_FAILED] = "auth_failed",
    };
    return names[state];
}

void zkl_log(zkl_engine *engine, int level, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    engine->host.log(engine->host.context, level, message);
}

/* --- the next server ---------------------------------------------------------------------------------------------- */

/*
 * After a failed connection the C client goes two addresses further: handle_error and zoo_cycle_next_server take one
 * each. So with an even number of addresses it tries only every other one, and of the two of "localhost" always the
 * same one. It pauses only where it comes upon the last address. Therefore we move it one address further after some
 * failures in a row, and pause as it does at the end of the list.
 *
 * The elements of misses_allowed apply in turns. With these numbers every one of up to 34 addresses is tried. Up to the
 * first such move a majority of three or five servers is found as fast as the C client finds it alone. A new handle
 * goes through the list once, one by one, so it begins with the last element.
 */
static const int8_t misses_allowed[] = {3, 5, 8};

#define FIRST_MISS_LIMIT_INDEX 2

static void expect_misses(zkl_engine *engine, int8_t miss_limit_index)
{
    engine->misses = 0;
    engine->miss_limit_index = miss_limit_index;
}

static void note_miss(zkl_engine *engine)
{
    if (++engine->misses >= misses_allowed[engine->miss_limit_index]) {
        zoo_cycle_next_server(engine->handle);
        engine->connect_at = engine->now + zoo_recv_timeout(engine->handle) / 60 * (ZKL_SECOND / 1000);
        expect_misses(engine, (int8_t)((engine->miss_limit_index + 1) % (int)sizeof(misses_allowed)));
    }
}

/* --- state --------------------------------------------------------------------------------------------------------- */

static void set_state(zkl_engine *engine, zkl_state state, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void set_state(zkl_engine *engine, zkl_state state, zkl_code code, const char *format, ...)
{
    char problem[sizeof engine->problem];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    if (engine->state == state && strcmp(engine->problem, problem) == 0) {
        return;
    }
    engine->state = state;
    engine->problem_code = code;
    memcpy(engine->problem, problem, sizeof problem);
    engine->host.state_changed(engine->host.context, state, code, problem);
}

void zkl_session_unwatched(zkl_engine *engine)
{
    if (!engine->unwatched) {
        engine->unwatched = true;
        zkl_log(engine, ZOO_LOG_LEVEL_WARN, "a server of '%s' has forgotten watches: connecting anew", engine->hosts);
    }
}

bool zkl_session_usable(const zkl_engine *engine)
{
    return engine->ready && !engine->closing && !engine->over;
}

static void now_ready(zkl_engine *engine)
{
    engine->ready = true;
    zkl_lease_rest(engine);
    if (engine->chroot_missing) {
        set_state(engine, ZKL_STATE_CONNECTED, ZKL_NO_NODE, "the chroot '%s' of '%s' does not exist",
                  strchr(engine->servers, '/'), engine->servers);
    } else {
        set_state(engine, ZKL_STATE_CONNECTED, ZKL_OK, "%s", "");
    }
    ZKL_TELL(engine, ready, engine);
    if (engine->nodes > 0) {
        zkl_lease_want_now(engine);
    }
}

/* Handles the reply to the probe. */
static void on_probed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_engine *engine = owner;
    engine->checks_flying--;
    if (reply->connection != engine->connection || !engine->connected || engine->probed) {
        return; /* the next connection has its own probe; or this one only kept the connection alive */
    }
    if (rc == ZOK || rc == ZNONODE || rc == ZNOAUTH) {
        engine->probed = true;
        engine->chroot_missing = rc == ZNONODE;
        now_ready(engine);
    } else if (!zkl_outcome_unknown(rc)) {
        set_state(engine, engine->state, zkl_code_of(rc), "'%s' answers: %s", engine->servers, zerror(rc));
    }
}

void zkl_session_probe(zkl_engine *engine)
{
    const zkl_ask ask = {.on_reply = on_probed, .owner = engine};
    if (zkl_send_exists(engine, &ask, "/", NULL, NULL) == ZOK) {
        engine->checks_flying++;
        engine->stats.heartbeats++;
    }
}

/* Ends the session: everything that it had is gone, or will be gone without our help. */
static void session_over(zkl_engine *engine, const char *why)
{
    engine->connected = engine->ready = engine->probed = false;
    engine->session_id = 0;
    ZKL_TELL(engine, over, engine, why);
    engine->check_at = ZKL_NEVER;
    engine->confirming = false;
    if (engine->lease && engine->lease_until != 0 && !ZKL_BROKEN(ZKL_BREAK_OWNER)) {
        engine->lease_until = 0;
        engine->host.lease_changed(engine->host.context, 0);
    }
}

/*
 * Handles a new connection. We never ask for a read-only session, but the C client also reports one when it has
 * received bytes of another protocol.
 */
static void on_connected(zkl_engine *engine, bool read_only)
{
    engine->connection++;
    engine->stats.connections++;
    engine->timeout_ms = zoo_recv_timeout(engine->handle);
    if (read_only || engine->timeout_ms <= 0 || engine->timeout_ms > PLAUSIBLE_TIMEOUT_MS) {
        engine->over = true;
        engine->retry_at = engine->now + RETRY_AFTER;
        session_over(engine, "what answers is not a ZooKeeper server");
        set_state(engine, ZKL_STATE_CONNECTING, ZKL_DISCONNECTED, "what answers at '%s' is not a ZooKeeper server",
                  engine->hosts);
        return;
    }
    engine->connected = true;
    expect_misses(engine, 0);
    engine->renewed_at = 0;
    engine->confirming_since = engine->now;
    engine->check_at = engine->now;
    int64_t session_id = zoo_client_id(engine->handle)->client_id;
    bool fresh = session_id != engine->session_id;
    if (fresh) {
        engine->session_id = session_id;
        engine->probed = engine->own_ephemerals = engine->no_witness = false;
        engine->least_ms = engine->timeout_ms;
        engine->stats.sessions++;
    } else if (engine->timeout_ms < engine->least_ms || engine->least_ms == 0) {
        /* least_ms is 0 here if the server has given the number 0 to the session, as no ZooKeeper server does */
        engine->least_ms = engine->timeout_ms;
    }
    zkl_lease_connected(engine, fresh);
    if (engine->probed) {
        now_ready(engine);
    } else {
        zkl_session_probe(engine);
        engine->check_at = engine->now + PAUSE_AFTER;
    }
}

static void on_disconnected(zkl_engine *engine)
{
    engine->connected = engine->ready = engine->unwatched = false;
    engine->lost_at = engine->now;
    ZKL_TELL(engine, lost, engine);
    set_state(engine, engine->probed ? ZKL_STATE_SUSPENDED : ZKL_STATE_CONNECTING, ZKL_DISCONNECTED,
              "the connection to '%s' is lost", engine->hosts);
}

/*
 * A server refused the credentials. Another server may have accepted them in this session before, or the C client may
 * have taken another answer for a refusal. Then a new session decides: its first server refuses them too, or all is
 * well.
 */
static void on_auth_failed(zkl_engine *engine)
{
    bool accepted_before = engine->probed && !ZKL_BROKEN(ZKL_BREAK_REFUSAL);
    engine->over = true;
    session_over(engine, "authentication failed");
    if (accepted_before) {
        set_state(engine, ZKL_STATE_CONNECTING, ZKL_LOST,
                  "a server of '%s' refused the credentials; the session is over", engine->hosts);
        return;
    }
    set_state(engine, ZKL_STATE_AUTH_FAILED, ZKL_AUTH_FAILED, "'%s' refused the credentials", engine->servers);
    ZKL_TELL(engine, refused, engine, ZKL_AUTH_FAILED, engine->problem);
}

/* The C client's default watcher, for session events only. */
static void on_session_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)path;
    zkl_engine *engine = context;
    if (type != ZOO_SESSION_EVENT || handle != engine->handle || engine->over) {
        return;
    }
    if (state == ZOO_CONNECTED_STATE || state == ZOO_READONLY_STATE) {
        on_connected(engine, state == ZOO_READONLY_STATE);
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        engine->over = true;
        session_over(engine, "the session has expired");
        set_state(engine, ZKL_STATE_CONNECTING, ZKL_LOST, "the session with '%s' has expired", engine->hosts);
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        on_auth_failed(engine);
    } else if (engine->connected) {
        on_disconnected(engine);
    }
}

/* --- the handle ---------------------------------------------------------------------------------------------------- */

static void close_handle(zkl_engine *engine)
{
    zhandle_t *handle = engine->handle;
    engine->over = true; /* so that completions that come from inside the close send nothing new */
    engine->connected = engine->ready = engine->leftovers = engine->unwatched = false;
    zookeeper_close(handle);
    engine->handle = NULL;
    zkl_lease_verify_next(engine); /* no node can be verifications_sent any more: ends the heartbeats */
    engine->over = false;
    zkl_requests_closed(engine);
    ZKL_TELL(engine, closed, engine);
}

static bool open_handle(zkl_engine *engine)
{
    /* The C client must not shuffle: it would reseed random() of the whole process. The driver shuffles the list instead. */
    zoo_deterministic_conn_order(1);
    errno = 0;
    engine->handle = zookeeper_init2(engine->servers, on_session_event, engine->asked_timeout_ms, NULL, engine,
                                     ZOO_NO_LOG_CLIENTENV, engine->zookeeper_log);
    if (engine->handle == NULL) {
        int error = errno;
        engine->retry_at = engine->now + RETRY_AFTER;
        if (error == ENOMEM) {
            set_state(engine, engine->state, ZKL_FAILED, "no memory for a ZooKeeper handle");
        } else {
            set_state(engine, engine->state, ZKL_DISCONNECTED, "cannot resolve any server of '%s'", engine->hosts);
        }
        return false;
    }
    /* Addresses are looked up for each new connection. By default every turn of a connected client would look them up too. */
    zoo_set_servers_resolution_delay(engine->handle, -1);
    expect_misses(engine, FIRST_MISS_LIMIT_INDEX);
    engine->connect_at = engine->now;
    for (int32_t i = 0; i < engine->auth_count; i++) {
        const zkl_auth *auth = &engine->auths[i];
        int rc = zoo_add_auth(engine->handle, auth->scheme, auth->credential, auth->credential_length, NULL, NULL);
        if (rc != ZOK) {
            zkl_log(engine, ZOO_LOG_LEVEL_ERROR, "cannot add a credential of scheme '%s': %s", auth->scheme,
                    zerror(rc));
        }
    }
    return true;
}

/* Notes why the handle is not connected, from the error that the C client left in errno. */
static void note_problem(zkl_engine *engine, int rc, int error)
{
    if (rc >= 0 || rc == ZNOTHING || engine->connected || engine->over) {
        return;
    }
    note_miss(engine);
    if (rc == ZOPERATIONTIMEOUT) {
        set_state(engine, engine->state, ZKL_DISCONNECTED, "no server of '%s' answers", engine->hosts);
    } else if (error != 0 && error != EAGAIN && error != EHOSTDOWN) {
        set_state(engine, engine->state, ZKL_DISCONNECTED, "cannot connect to '%s': %s", engine->hosts,
                  strerror(error));
    } else if (error == EHOSTDOWN) {
        set_state(engine, engine->state, ZKL_DISCONNECTED, "'%s' closed the connection", engine->hosts);
    }
}

/*
 * Notices a connection that the handle lost without reporting it: a failed send closes the socket and calls no
 * callback. Unlike handle_error, such a send (nonblocking_send) also keeps the requests that wait for an answer, and
 * those not sent yet, for the next connection. There the rest of a partly sent request goes first, without its
 * beginning, and the server takes data for a request. So the next connection must disconnect before it is used. When
 * the handle loses that one, it forgets everything.
 */
void zkl_session_notice_loss(zkl_engine *engine)
{
    if (engine->connected && engine->handle != NULL && zoo_state(engine->handle) != ZOO_CONNECTED_STATE) {
        engine->leftovers = true;
        on_disconnected(engine);
    }
}

int64_t zkl_session_given_up_at(const zkl_engine *engine)
{
    bool away = !engine->connected && engine->session_id != 0 && !engine->over;
    return away ? engine->lost_at + GIVEN_UP_AFTER(zkl_session_timeout(engine)) : ZKL_NEVER;
}

/*
 * Gives up a session that no server takes back. Servers turn a client away that has seen more than they have, without a
 * word about its session. If the whole ensemble was replaced, or restored from a backup, that goes on for ever: only a
 * new session, which has seen nothing, is let in. If servers come back that have the old session, its nodes are deleted
 * when they let it expire.
 */
void zkl_session_give_up(zkl_engine *engine)
{
    engine->over = true;
    session_over(engine, "no server has taken the session back for three times its timeout");
    set_state(engine, ZKL_STATE_CONNECTING, ZKL_DISCONNECTED, "no server of '%s' takes the session back",
              engine->hosts);
}

/* Tries that wait for a new session are answered after so long without a connection. */
#define TRIES_WAIT ZKL_SECOND

int64_t zkl_session_tries_end_at(const zkl_engine *engine)
{
    return engine->renewed_at != 0 ? engine->renewed_at + TRIES_WAIT : ZKL_NEVER;
}

void zkl_session_end_tries(zkl_engine *engine)
{
    engine->renewed_at = 0;
    ZKL_TELL(engine, lost, engine);
}

/*
 * Replaces a living session by a new one, in two cases:
 * - The leader may have taken the session out already, although a server has taken it back. The first lock would have
 *   to wait until that is certain. Nothing of value is lost with the session, and a new one takes only a moment.
 * - An entry is at the head of its queue, and no lease comes about, as with round trips that take a tenth of the
 *   session timeout. Other clients must not wait for the entry.
 */
void zkl_session_renew(zkl_engine *engine)
{
    if (zkl_session_usable(engine) && (zkl_lease_wants_session(engine) || zkl_lease_waits_in_vain(engine))) {
        engine->over = true;
        engine->renewed_at = engine->now;
        session_over(engine, "it is not certain that the session lives on");
        set_state(engine, ZKL_STATE_CONNECTING, ZKL_DISCONNECTED, "opening a new session with '%s'", engine->hosts);
    }
}

/* Notes the instant before each call that may send the handshake: the handshake is sent after it. */
static void before_handshake(zkl_engine *engine)
{
    if (!engine->connected && zoo_state(engine->handle) != ZOO_ASSOCIATING_STATE) {
        engine->handshake_at = engine->now;
    }
}

static void ask_interest(zkl_engine *engine, zkl_poll *poll)
{
    before_handshake(engine);
    int fd = -1;
    int interest = 0;
    struct timeval wait = {0, 0};
    errno = 0;
    int rc = zookeeper_interest(engine->handle, &fd, &interest, &wait);
    note_problem(engine, rc, errno);
    if (rc != ZOK) {
        /* fd, interest and wait may not have been set at all (a name that does not resolve) */
        poll->wake_at = engine->over ? engine->now : engine->now + PAUSE_AFTER;
        return;
    }
    poll->fd = fd;
    if (fd >= 0) {
        poll->must_disconnect = (engine->leftovers && !ZKL_BROKEN(ZKL_BREAK_LEFTOVERS)) || engine->unwatched;
        engine->leftovers = engine->unwatched = false;
    }
    poll->events =
        (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    poll->wake_at = engine->now + (int64_t)wait.tv_sec * ZKL_SECOND + (int64_t)wait.tv_usec * 1000;
}

/* --- turns --------------------------------------------------------------------------------------------------------- */

/* Returns whether the probe must be sent again: it could not be sent, or its answer decided nothing (throttled, say). */
static bool must_probe_again(const zkl_engine *engine)
{
    return engine->connected && !engine->probed && !engine->closing && !engine->over && engine->checks_flying == 0;
}

int64_t zkl_session_probe_at(const zkl_engine *engine)
{
    return must_probe_again(engine) ? engine->check_at : ZKL_NEVER;
}

void zkl_session_probe_again(zkl_engine *engine)
{
    zkl_session_probe(engine);
    engine->check_at = engine->now + PAUSE_AFTER;
}

void zkl_try_later(zkl_engine *engine)
{
    if (engine->backing_off_until == ZKL_NEVER) {
        engine->backing_off_until = engine->now + TRY_AGAIN_AFTER;
    }
}

int64_t zkl_session_retry_at(const zkl_engine *engine)
{
    return engine->backing_off_until;
}

void zkl_session_retry(zkl_engine *engine)
{
    engine->backing_off_until = ZKL_NEVER;
    ZKL_TELL(engine, retry, engine);
}

bool zkl_session_in_order(const zkl_engine *engine)
{
    return zkl_session_usable(engine) && zoo_state(engine->handle) == ZOO_CONNECTED_STATE;
}

bool zkl_session_silently_lost(const zkl_engine *engine)
{
    return engine->connected && zoo_state(engine->handle) != ZOO_CONNECTED_STATE;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void zkl_session_prepare(zkl_engine *engine, zkl_poll *poll)
{
    bool wanted =
        !engine->shut && engine->state != ZKL_STATE_AUTH_FAILED && !(engine->closing && engine->session_id == 0);
    if (engine->handle != NULL && (engine->over || !wanted)) {
        close_handle(engine);
    }
    if (engine->handle == NULL && wanted && engine->now >= engine->retry_at) {
        open_handle(engine);
    }
    zkl_session_notice_loss(engine);
    if (engine->handle != NULL && engine->now < engine->connect_at) {
        poll->wake_at = engine->connect_at;
    } else if (engine->handle != NULL) {
        ask_interest(engine, poll);
    } else if (wanted) {
        poll->wake_at = earlier(poll->wake_at, engine->retry_at);
    }
    zkl_session_notice_loss(engine);
}

void zkl_session_process(zkl_engine *engine, short revents)
{
    if (engine->handle == NULL || engine->over || revents == 0) {
        return;
    }
    int events = ((revents & (POLLIN | POLLERR | POLLHUP)) != 0 ? ZOOKEEPER_READ : 0) |
                 ((revents & (POLLOUT | POLLERR | POLLHUP)) != 0 ? ZOOKEEPER_WRITE : 0);
    before_handshake(engine);
    errno = 0;
    int rc = zookeeper_process(engine->handle, events);
    note_problem(engine, rc, errno);
}

void zkl_session_shut_down(zkl_engine *engine)
{
    engine->closing = engine->shut = true;
    if (engine->handle != NULL) {
        close_handle(engine);
    }
    session_over(engine, "the client is closed");
    if (engine->state != ZKL_STATE_AUTH_FAILED) {
        set_state(engine, ZKL_STATE_CLOSED, ZKL_CLOSED, "%s", "");
    }
}
