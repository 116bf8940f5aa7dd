/*
 * session: the ZooKeeper handle, and the meaning of its session events, which listeners are told of.
 *
 * A handle is opened when there is none, and closed when its session is over; a new one follows by itself. A connection
 * that the handle reports is not READY yet: first the server must answer a request of ours in this session. So a program
 * that merely accepts connections is not taken for a ZooKeeper server.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "request.h"
#include "session.h"

/* The time until the next try after a failure to open a handle, for example because a name does not resolve. */
#define RETRY_AFTER (ZKL_SECOND / 2)

/* The same after a failure of zookeeper_interest, for a handle that exists. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

/*
 * No ZooKeeper server has a session timeout above this. The program that answered speaks some other protocol, and the C
 * client took its text for a number.
 */
#define PLAUSIBLE_TIMEOUT_MS (24 * 3600 * 1000)

/*
 * The reply of a server that lets in no session without credentials (enforce.auth.enabled, or required SASL), before it closes the
 * connection. 3.5's header has no name for it.
 */
#define SESSION_CLOSED_REQUIRE_AUTH (-124)

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

/* --- the lease ------------------------------------------------------------------------------------------------------- */

int64_t zkl_session_lapses_at(const zkl_session *session)
{
    const zkl_lease *lease = &session->wire.lease;
    bool matters = lease->required && session->heartbeat.nodes > 0 && lease->until > session->wire.now;
    return matters ? lease->until : ZKL_NEVER;
}

void zkl_session_lapse(zkl_session *session)
{
    if (!session->lapse_told && zkl_lease_lapsed(&session->wire.lease, session->wire.now)) {
        session->lapse_told = true; /* nothing is granted before there is a lease again */
        ZKL_TELL(session, lapsed, each->owner);
    }
}

/* The lease ends at another instant. */
static void change_lease(zkl_session *session, int64_t until)
{
    zkl_session_lapse(session);
    session->wire.lease.until = until;
    session->lapse_told = false;
    session->wire.host.lease_changed(session->wire.host.context, ZKL_BROKEN(ZKL_BREAK_LEASE) ? ZKL_NEVER : until);
}

/* Moves the end of the lease as far as is proven by now, and tells the listeners that have waited for a lease. */
static void extend_lease(zkl_session *session)
{
    zkl_lease *lease = &session->wire.lease;
    int64_t until = zkl_lease_proven_until(lease);
    if (session->wire.session_id == 0 || until <= lease->until) {
        return;
    }
    change_lease(session, until);
    if (zkl_lease_awaited(lease) && zkl_wire_leased(&session->wire)) {
        zkl_lease_await_no_more(lease);
        ZKL_TELL(session, leased, each->owner);
    }
}

void zkl_session_prove(void *owner, int64_t sent_at)
{
    zkl_session *session = owner;
    if (session->wire.lease.required && session->wire.session_id != 0) {
        zkl_heartbeat_want_soon(&session->heartbeat); /* there may be a node now */
        zkl_lease_prove(&session->wire.lease, sent_at);
        extend_lease(session);
    }
}

void zkl_session_date_answers(zkl_session *session)
{
    if (!session->wire.lease.required || !zkl_session_connected(session)) {
        return;
    }
    if (zkl_lease_date_answers(&session->wire.lease, session->wire.now)) {
        extend_lease(session);
    }
    zkl_heartbeat_date_round(&session->heartbeat);
}

/* The session is over, and the lease with it. */
static void end_lease(zkl_session *session)
{
    zkl_lease *lease = &session->wire.lease;
    session->heartbeat.check_at = ZKL_NEVER;
    zkl_lease_await_no_more(lease);
    if (lease->required && lease->until != 0 && !ZKL_BROKEN(ZKL_BREAK_OWNER)) {
        lease->until = 0;
        session->wire.host.lease_changed(session->wire.host.context, 0);
    }
}

/* --- the object ----------------------------------------------------------------------------------------------------- */

static bool copy_auths(zkl_session *session, const zkl_session_config *config)
{
    if (config->auth_count == 0) {
        return true;
    }
    session->auths = zkl_alloc((size_t)config->auth_count * sizeof *session->auths);
    if (session->auths == NULL) {
        return false;
    }
    for (int32_t i = 0; i < config->auth_count; i++) {
        const zkl_auth *auth = &config->auths[i];
        session->auths[i].scheme = zkl_copy(auth->scheme, strlen(auth->scheme));
        session->auths[i].credential = zkl_copy(auth->credential, (size_t)auth->credential_length);
        session->auths[i].credential_length = auth->credential_length;
        session->auth_count++;
        if (session->auths[i].scheme == NULL || session->auths[i].credential == NULL) {
            return false;
        }
    }
    return true;
}

bool zkl_session_init(zkl_session *session, const zkl_session_config *config, const zkl_session_host *host)
{
    zkl_wire *wire = &session->wire;
    wire->host = *host;
    session->servers = zkl_copy(config->servers, strlen(config->servers));
    session->wire.hosts = zkl_copy(config->servers, strcspn(config->servers, "/"));
    const char *addresses = config->addresses != NULL ? config->addresses : config->servers;
    session->addresses = zkl_copy(addresses, strlen(addresses));
    session->wire.chroot_length = (int32_t)(strlen(config->servers) - strcspn(config->servers, "/"));
    session->asked_timeout_ms = config->session_timeout_ms;
    session->tls = config->tls;
    session->zookeeper_log = config->zookeeper_log;
    session->wire.backing_off_until = ZKL_NEVER;
    session->state = ZKL_STATE_CONNECTING;
    zkl_lease_init(&wire->lease, config->lease);
    zkl_heartbeat_init(&session->heartbeat, wire, zkl_session_prove, session);
    bool watches = zkl_watches_init(&session->watches, wire);
    return watches && session->servers != NULL && session->addresses != NULL && session->wire.hosts != NULL &&
           copy_auths(session, config);
}

void zkl_session_free(zkl_session *session)
{
    zkl_requests_free(&session->wire);
    zkl_watches_free(&session->watches);
    for (int32_t i = 0; i < session->auth_count; i++) {
        zkl_free((void *)(uintptr_t)session->auths[i].scheme);
        zkl_free_secret((void *)(uintptr_t)session->auths[i].credential);
    }
    zkl_free(session->auths);
    zkl_free(session->wire.hosts);
    zkl_free(session->addresses);
    zkl_free(session->servers);
}

void zkl_session_listen(zkl_session *session, const zkl_session_listener *calls, void *owner)
{
    zkl_listening *last = session->listeners;
    while (last->calls != NULL) {
        last++;
    }
    assert(last < session->listeners + ZKL_MOST_LISTENERS);
    *last = (zkl_listening){calls, owner};
}

void zkl_session_use_items(zkl_session *session, const zkl_item_ops *items, const void *owner)
{
    session->wire.items = items;
    session->wire.items_owner = owner;
}

/* --- state --------------------------------------------------------------------------------------------------------- */

static void note_usable(zkl_session *session)
{
    session->wire.usable = session->life == ZKL_SESSION_READY && !zkl_session_closing(session);
}

/* Enters the next state of the session's life. */
static void enter_life(zkl_session *session, zkl_session_life next)
{
#define TO(state) (1U << ZKL_SESSION_##state)
    /* A connection may take the place of another one whose loss was not reported: PROBING follows PROBING and READY too. */
    static const uint32_t legal[] = {
        [ZKL_SESSION_NONE] = TO(CONNECTING),
        [ZKL_SESSION_CONNECTING] = TO(PROBING) | TO(OVER),
        [ZKL_SESSION_PROBING] = TO(READY) | TO(CONNECTING) | TO(PROBING) | TO(OVER),
        [ZKL_SESSION_READY] = TO(LOST) | TO(PROBING) | TO(OVER),
        [ZKL_SESSION_LOST] = TO(PROBING) | TO(OVER),
        [ZKL_SESSION_OVER] = TO(NONE),
    };
#undef TO
    assert((legal[session->life] & 1U << next) != 0);
    session->life = next;
    note_usable(session);
}

/* Returns whether there is a handle that is not connected, and whose session is not over. */
static bool is_away(const zkl_session *session)
{
    return session->life == ZKL_SESSION_CONNECTING || session->life == ZKL_SESSION_LOST;
}

static void show_state(zkl_session *session, zkl_state state, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void show_state(zkl_session *session, zkl_state state, zkl_code code, const char *format, ...)
{
    char problem[sizeof session->problem];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    if (session->state == state && strcmp(session->problem, problem) == 0) {
        return;
    }
    session->state = state;
    session->problem_code = code;
    memcpy(session->problem, problem, sizeof problem);
    session->wire.host.state_changed(session->wire.host.context, state, code, problem);
}

static void now_ready(zkl_session *session)
{
    enter_life(session, ZKL_SESSION_READY);
    zkl_heartbeat_rest(&session->heartbeat);
    if (session->chroot_missing) {
        show_state(session, ZKL_STATE_CONNECTED, ZKL_NO_NODE, "the chroot '%s' of '%s' does not exist",
                   strchr(session->servers, '/'), session->servers);
    } else {
        show_state(session, ZKL_STATE_CONNECTED, ZKL_OK, "%s", "");
    }
    zkl_watches_resume(&session->watches);
    ZKL_TELL(session, ready, each->owner);
    if (session->heartbeat.nodes > 0) {
        zkl_heartbeat_want(&session->heartbeat);
    }
}

/* Everything that the session had is gone, or will be gone without our help. */
static void forget_session(zkl_session *session, const char *why)
{
    session->wire.session_id = 0;
    ZKL_TELL(session, over, each->owner, why);
    end_lease(session);
}

/* Ends the session. Its handle is closed in the next turn. */
static void session_over(zkl_session *session, const char *why)
{
    enter_life(session, ZKL_SESSION_OVER);
    forget_session(session, why);
}

/* Ends the session. No other one is opened: the servers would refuse it as well. `why` follows the servers in the message. */
static void refuse_session(zkl_session *session, const char *why)
{
    session_over(session, "authentication failed");
    show_state(session, ZKL_STATE_AUTH_FAILED, ZKL_AUTH_FAILED, "'%s' %s", session->servers, why);
    ZKL_TELL(session, refused, each->owner, ZKL_AUTH_FAILED, session->problem);
}

/* Handles the reply to the probe. */
static void on_probed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_session *session = owner;
    session->heartbeat.checks_flying--;
    if (reply->connection != session->wire.connection || session->life != ZKL_SESSION_PROBING) {
        return; /* the next connection has its own probe; or this one only kept the connection alive */
    }
    if (rc == ZOK || rc == ZNONODE || rc == ZNOAUTH) {
        session->chroot_missing = rc == ZNONODE;
        now_ready(session);
    } else if (rc == SESSION_CLOSED_REQUIRE_AUTH) {
        refuse_session(session,
                       "lets in no client without credentials of a kind that it requires; see the option auth");
    } else if (!zkl_outcome_unknown(rc)) {
        show_state(session, session->state, zkl_code_of(rc), "'%s' answers: %s", session->servers, zerror(rc));
    }
}

/* Sends the probe, a read. Any answer shows that a ZooKeeper server answers, and whether the chroot exists. */
void zkl_session_probe(zkl_session *session)
{
    const zkl_ask ask = {.on_reply = on_probed, .owner = session};
    if (zkl_send_exists(&session->wire, &ask, "/", NULL, NULL) == ZOK) {
        session->heartbeat.checks_flying++;
        session->wire.stats.heartbeats++;
    }
    session->heartbeat.check_at = session->wire.now + PAUSE_AFTER;
}

/*
 * Handles a new connection. We never ask for a read-only session, but the C client also reports one when it has
 * received bytes of another protocol.
 */
static void on_connected(zkl_session *session, bool read_only)
{
    session->wire.connection++;
    session->wire.stats.connections++;
    int32_t timeout_ms = session->wire.stats.timeout_ms = zoo_recv_timeout(session->wire.handle);
    if (read_only || timeout_ms <= 0 || timeout_ms > PLAUSIBLE_TIMEOUT_MS) {
        session->retry_at = session->wire.now + RETRY_AFTER;
        session_over(session, "what answers is not a ZooKeeper server");
        show_state(session, ZKL_STATE_CONNECTING, ZKL_DISCONNECTED, "what answers at '%s' is not a ZooKeeper server",
                   session->wire.hosts);
        return;
    }
    if (session->wire.host.answered != NULL) {
        session->wire.host.answered(session->wire.host.context, timeout_ms);
    }
    session->renewed_at = 0;
    int64_t session_id = zoo_client_id(session->wire.handle)->client_id;
    bool fresh = session_id != session->wire.session_id;
    bool probed = !fresh && (session->life == ZKL_SESSION_READY || session->life == ZKL_SESSION_LOST);
    enter_life(session, ZKL_SESSION_PROBING);
    if (fresh) {
        session->wire.session_id = session_id;
        session->least_ms = timeout_ms;
        session->wire.stats.sessions++;
    } else if (timeout_ms < session->least_ms || session->least_ms == 0) {
        /* least_ms is 0 here if the server has given the number 0 to the session, as no ZooKeeper server does */
        session->least_ms = timeout_ms;
    }
    zkl_lease *lease = &session->wire.lease;
    int64_t timeout = (ZKL_BROKEN(ZKL_BREAK_LEAST) ? timeout_ms : session->least_ms) * (ZKL_SECOND / 1000);
    zkl_heartbeat_connected(&session->heartbeat, fresh);
    int64_t until = zkl_lease_connected(lease, timeout, session->handshake_at, fresh, session->wire.now);
    if (until < lease->until) {
        change_lease(session, until);
        zkl_session_lapse(session);
    }
    if (probed) {
        now_ready(session);
    } else {
        zkl_session_probe(session);
    }
}

static void on_disconnected(zkl_session *session)
{
    bool probed = session->life == ZKL_SESSION_READY;
    enter_life(session, probed ? ZKL_SESSION_LOST : ZKL_SESSION_CONNECTING);
    if (session->wire.disconnect == ZKL_DISCONNECT_UNWATCHED) {
        session->wire.disconnect = ZKL_DISCONNECT_NONE; /* the next connection arms all watches again */
    }
    session->lost_at = session->wire.now;
    zkl_heartbeat_disconnected(&session->heartbeat);
    zkl_watches_disconnected(&session->watches);
    ZKL_TELL(session, lost, each->owner);
    show_state(session, probed ? ZKL_STATE_SUSPENDED : ZKL_STATE_CONNECTING, ZKL_DISCONNECTED,
               "the connection to '%s' is lost", session->wire.hosts);
}

/*
 * A server refused the credentials. Another server may have accepted them in this session before, or the C client may
 * have taken another answer for a refusal. Then a new session decides: its first server refuses them too, or all is
 * well.
 */
static void on_auth_failed(zkl_session *session)
{
    bool probed = session->life == ZKL_SESSION_READY || session->life == ZKL_SESSION_LOST;
    bool accepted_before = probed && !ZKL_BROKEN(ZKL_BREAK_REFUSAL);
    if (accepted_before) {
        session_over(session, "authentication failed");
        show_state(session, ZKL_STATE_CONNECTING, ZKL_LOST,
                   "a server of '%s' refused the credentials; the session is over", session->wire.hosts);
        return;
    }
    refuse_session(session, "refused the credentials");
}

/* The C client's default watcher, for session events only. */
static void on_session_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)path;
    zkl_session *session = context;
    if (type != ZOO_SESSION_EVENT || handle != session->wire.handle || session->life == ZKL_SESSION_OVER) {
        return;
    }
    if (state == ZOO_CONNECTED_STATE || state == ZOO_READONLY_STATE) {
        on_connected(session, state == ZOO_READONLY_STATE);
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        session_over(session, "the session has expired");
        show_state(session, ZKL_STATE_CONNECTING, ZKL_LOST, "the session with '%s' has expired", session->wire.hosts);
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        on_auth_failed(session);
    } else if (zkl_session_connected(session)) {
        on_disconnected(session);
    }
}

/* --- the handle ---------------------------------------------------------------------------------------------------- */

static void close_handle(zkl_session *session)
{
    zhandle_t *handle = session->wire.handle;
    if (session->life != ZKL_SESSION_OVER) {
        enter_life(session,
                   ZKL_SESSION_OVER); /* so that completions that come from inside the close send nothing new */
    }
    session->wire.disconnect = ZKL_DISCONNECT_NONE;
    if (session->wire.host.closing != NULL) {
        session->wire.host.closing(session->wire.host.context);
    }
    zookeeper_close(handle);
    session->wire.handle = NULL;
    if (session->wire.host.closed != NULL) {
        session->wire.host.closed(session->wire.host.context);
    }
    zkl_heartbeat_verify_next(&session->heartbeat); /* no node can be verified any more: ends the heartbeats */
    enter_life(session, ZKL_SESSION_NONE);
    zkl_requests_closed(&session->wire);
    zkl_watches_closed(&session->watches);
    ZKL_TELL(session, closed, each->owner);
}

static bool open_handle(zkl_session *session)
{
    /* The C client must not shuffle: it would reseed random() of the whole process. The driver shuffles the list instead. */
    zoo_deterministic_conn_order(1);
    errno = 0;
    session->wire.handle = zookeeper_init2(session->addresses, on_session_event, session->asked_timeout_ms, NULL,
                                           session, ZOO_NO_LOG_CLIENTENV, session->zookeeper_log);
    if (session->wire.handle == NULL) {
        int error = errno;
        session->retry_at = session->wire.now + RETRY_AFTER;
        if (error == ENOMEM) {
            show_state(session, session->state, ZKL_FAILED, "no memory for a ZooKeeper handle");
        } else {
            show_state(session, session->state, ZKL_DISCONNECTED, "cannot resolve any server of '%s'",
                       session->wire.hosts);
        }
        return false;
    }
    enter_life(session, ZKL_SESSION_CONNECTING);
    /* Addresses are looked up for each new connection. By default every turn of a connected client would look them up too. */
    zoo_set_servers_resolution_delay(session->wire.handle, -1);
    for (int32_t i = 0; i < session->auth_count; i++) {
        const zkl_auth *auth = &session->auths[i];
        int rc =
            zoo_add_auth(session->wire.handle, auth->scheme, auth->credential, auth->credential_length, NULL, NULL);
        if (rc != ZOK) {
            zkl_wire_log(&session->wire, ZOO_LOG_LEVEL_ERROR, "cannot add a credential of scheme '%s': %s",
                         auth->scheme, zerror(rc));
        }
    }
    return true;
}

/* Notes why the handle is not connected, from the error that the C client left in errno. */
static void note_connect_problem(zkl_session *session, int rc, int error)
{
    if (rc >= 0 || rc == ZNOTHING || !is_away(session)) {
        return;
    }
    zkl_code code = ZKL_DISCONNECTED;
    const char *problem =
        session->wire.host.problem != NULL ? session->wire.host.problem(session->wire.host.context, &code) : NULL;
    if (problem != NULL) {
        show_state(session, session->state, code, "%s", problem);
    } else if (rc == ZOPERATIONTIMEOUT) {
        show_state(session, session->state, ZKL_DISCONNECTED, "no server of '%s' answers", session->wire.hosts);
    } else if (error != 0 && error != EAGAIN && error != EHOSTDOWN) {
        show_state(session, session->state, ZKL_DISCONNECTED, "cannot connect to '%s': %s", session->wire.hosts,
                   strerror(error));
    } else if (error == EHOSTDOWN) {
        show_state(session, session->state, ZKL_DISCONNECTED, "'%s' closed the connection%s", session->wire.hosts,
                   !session->tls && session->wire.session_id == 0
                       ? "; it may have as many connections of this host as maxClientCnxns allows; if this is a port "
                         "for TLS, see the option tls"
                       : "");
    }
}

/*
 * Notices a connection that the handle lost without reporting it: since 3.8 a failed send closes the socket and calls no
 * callback. Unlike handle_error, such a send (nonblocking_send) also keeps the requests that wait for an answer, and
 * those not sent yet, for the next connection. There the rest of a partly sent request goes first, without its
 * beginning, and the server takes data for a request. So the next connection must disconnect before it is used. When
 * the handle loses that one, it forgets everything.
 */
void zkl_session_notice_loss(zkl_session *session)
{
    if (zkl_session_silently_lost(session)) {
        session->wire.disconnect = ZKL_DISCONNECT_LEFTOVERS;
        on_disconnected(session);
    }
}

int64_t zkl_session_given_up_at(const zkl_session *session)
{
    bool waits = is_away(session) && session->wire.session_id != 0;
    return waits ? session->lost_at + GIVEN_UP_AFTER(session->wire.lease.timeout) : ZKL_NEVER;
}

/*
 * Gives up a session that no server takes back. Servers turn a client away that has seen more than they have, without a
 * word about its session. If the whole ensemble was replaced, or restored from a backup, that goes on for ever: only a
 * new session, which has seen nothing, is let in. If servers come back that have the old session, its nodes are deleted
 * when they let it expire.
 */
void zkl_session_give_up(zkl_session *session)
{
    session_over(session, "no server has taken the session back for three times its timeout");
    show_state(session, ZKL_STATE_CONNECTING, ZKL_DISCONNECTED, "no server of '%s' takes the session back",
               session->wire.hosts);
}

int64_t zkl_session_tries_end_at(const zkl_session *session)
{
    return session->renewed_at != 0 ? session->renewed_at + ZKL_TRIES_WAIT : ZKL_NEVER;
}

void zkl_session_end_tries(zkl_session *session)
{
    session->renewed_at = 0;
    ZKL_TELL(session, lost, each->owner);
}

/*
 * Replaces a living session by a new one, in two cases:
 * - The leader may have taken the session out already, although a server has taken it back. The first lock would have
 *   to wait until that is certain. Nothing of value is lost with the session, and a new one takes only a moment.
 * - An entry is at the head of its queue, and no lease comes about, as with round trips that take a tenth of the
 *   session timeout. Other clients must not wait for the entry.
 */
void zkl_session_renew(zkl_session *session)
{
    if (session->wire.usable &&
        (zkl_heartbeat_wants_session(&session->heartbeat) || zkl_heartbeat_waits_in_vain(&session->heartbeat))) {
        session->renewed_at = session->wire.now;
        session_over(session, "it is not certain that the session lives on");
        show_state(session, ZKL_STATE_CONNECTING, ZKL_DISCONNECTED, "opening a new session with '%s'",
                   session->wire.hosts);
    }
}

/* Notes the instant before each call that may send the handshake: the handshake is sent after it. */
static void before_handshake(zkl_session *session)
{
    if (!zkl_session_connected(session) && zoo_state(session->wire.handle) != ZOO_ASSOCIATING_STATE) {
        session->handshake_at = session->wire.now;
    }
}

static void ask_interest(zkl_session *session, zkl_poll *poll)
{
    before_handshake(session);
    int fd = -1;
    int interest = 0;
    struct timeval wait = {0, 0};
    errno = 0;
    int rc = zookeeper_interest(session->wire.handle, &fd, &interest, &wait);
    note_connect_problem(session, rc, errno);
    if (rc != ZOK) {
        /* fd, interest and wait may not have been set at all (a name that does not resolve) */
        poll->wake_at = session->life == ZKL_SESSION_OVER ? session->wire.now : session->wire.now + PAUSE_AFTER;
        return;
    }
    poll->fd = fd;
    if (fd >= 0) {
        bool nowhere = session->wire.host.reach != NULL && !session->reached &&
                       zoo_state(session->wire.handle) == ZOO_CONNECTING_STATE;
        bool ignored = session->wire.disconnect == ZKL_DISCONNECT_LEFTOVERS && ZKL_BROKEN(ZKL_BREAK_LEFTOVERS);
        poll->must_disconnect = (session->wire.disconnect != ZKL_DISCONNECT_NONE && !ignored) || nowhere;
        session->wire.disconnect = ZKL_DISCONNECT_NONE;
    }
    poll->events =
        (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    poll->wake_at = session->wire.now + (int64_t)wait.tv_sec * ZKL_SECOND + (int64_t)wait.tv_usec * 1000;
}

/* Returns whether the C client has a socket, as far as it says. */
static bool has_socket(const zkl_session *session)
{
    int state = zoo_state(session->wire.handle);
    return state == ZOO_CONNECTING_STATE || state == ZOO_ASSOCIATING_STATE || state == ZOO_CONNECTED_STATE ||
           state == ZOO_READONLY_STATE;
}

/* Lets the C client begin to connect once the driver has reached a server. */
static void connect_if_reached(zkl_session *session, zkl_poll *poll)
{
    session->reached = session->wire.host.reach(session->wire.host.context, &poll->wake_at);
    if (!session->reached) {
        zkl_code code = ZKL_DISCONNECTED;
        const char *problem = session->wire.host.problem(session->wire.host.context, &code);
        if (problem != NULL && is_away(session)) {
            show_state(session, session->state, code, "%s", problem);
        }
        return;
    }
    ask_interest(session, poll);
    if (poll->fd < 0 && session->life != ZKL_SESSION_OVER) {
        ask_interest(session, poll); /* at the end of its list the C client pauses once */
    }
    if (poll->fd >= 0) {
        session->wire.host.reached(session->wire.host.context, poll->fd);
    }
}

/* --- turns --------------------------------------------------------------------------------------------------------- */

int64_t zkl_session_probe_at(const zkl_session *session)
{
    bool again = session->life == ZKL_SESSION_PROBING && !zkl_session_closing(session);
    return again && session->heartbeat.checks_flying == 0 ? session->heartbeat.check_at : ZKL_NEVER;
}

void zkl_session_retry(zkl_session *session)
{
    session->wire.backing_off_until = ZKL_NEVER;
    ZKL_TELL(session, retry, each->owner);
    zkl_watches_resume(&session->watches);
}

bool zkl_session_in_order(const zkl_session *session)
{
    return session->wire.usable && zoo_state(session->wire.handle) == ZOO_CONNECTED_STATE;
}

bool zkl_session_silently_lost(const zkl_session *session)
{
    return zkl_session_connected(session) && zoo_state(session->wire.handle) != ZOO_CONNECTED_STATE;
}

void zkl_session_prepare(zkl_session *session, zkl_poll *poll)
{
    bool wanted = session->shutdown != ZKL_SHUTDOWN_SHUT && session->state != ZKL_STATE_AUTH_FAILED &&
                  !(zkl_session_closing(session) && session->wire.session_id == 0);
    if (session->wire.handle != NULL && (session->life == ZKL_SESSION_OVER || !wanted)) {
        close_handle(session);
    }
    if (session->wire.handle == NULL && wanted && session->wire.now >= session->retry_at) {
        open_handle(session);
    }
    zkl_session_notice_loss(session);
    if (session->wire.handle != NULL && session->wire.host.reach != NULL && !has_socket(session)) {
        connect_if_reached(session, poll);
    } else if (session->wire.handle != NULL) {
        ask_interest(session, poll);
    } else if (wanted) {
        poll->wake_at = zkl_earlier(poll->wake_at, session->retry_at);
    }
    zkl_session_notice_loss(session);
}

void zkl_session_process(zkl_session *session, short revents)
{
    session->has_read = false;
    if (session->wire.handle == NULL || session->life == ZKL_SESSION_OVER || revents == 0) {
        return;
    }
    int events = ((revents & (POLLIN | POLLERR | POLLHUP)) != 0 ? ZOOKEEPER_READ : 0) |
                 ((revents & (POLLOUT | POLLERR | POLLHUP)) != 0 ? ZOOKEEPER_WRITE : 0);
    before_handshake(session);
    errno = 0;
    int rc = zookeeper_process(session->wire.handle, events);
    session->has_read = rc == ZOK && (events & ZOOKEEPER_READ) != 0;
    if (session->has_read) {
        session->wire.stats.read_at = session->wire.now;
    }
    note_connect_problem(session, rc, errno);
}

/* The shutdown enters the state, or stays in it. It never goes back. */
static void shut_down_to(zkl_session *session, zkl_shutdown state)
{
    assert(session->shutdown <= state);
    session->shutdown = state;
    note_usable(session);
}

void zkl_session_close(zkl_session *session)
{
    shut_down_to(session, ZKL_SHUTDOWN_CLOSING);
}

void zkl_session_shut_down(zkl_session *session)
{
    shut_down_to(session, ZKL_SHUTDOWN_SHUT);
    if (session->wire.handle != NULL) {
        close_handle(session);
    }
    forget_session(session, "the client is closed");
    if (session->state != ZKL_STATE_AUTH_FAILED) {
        show_state(session, ZKL_STATE_CLOSED, ZKL_CLOSED, "%s", "");
    }
}
