/*
 * session: the ZooKeeper handle, what its session events mean, and the lease.
 *
 * A handle is opened when there is none and closed when its session is over; a new one follows by itself. `connected` is
 * what the handle says; `ready` is more: the server has answered a request of ours on this session, so that something which
 * merely accepts connections is not taken for a ZooKeeper.
 *
 * The lease: being CONNECTED, successful reads, pings and even sync do not prove that the session lives, because a follower
 * that is cut off from its leader goes on answering them. What proves it is an acknowledged quorum write. With s the instant
 * at which the latest acknowledged one was sent and T the negotiated session timeout, grants are valid until s + T/2. The
 * heartbeat that keeps the lease is a multi made of nothing but version checks of our own nodes: it goes through the quorum,
 * changes nothing, fires no watch, and fails with ZNONODE when somebody has deleted one of them.
 *
 * A check knows a node by its name and the version of its data alone. Whoever may create and delete in the directory can put
 * a node of his own in the place of ours. What he cannot give it is our czxid and our session. So right behind the heartbeat,
 * on the same connection, goes an exists for each node that is held: what a session reads after a write of its own is no older
 * than that write. The heartbeat proves the lease when all of these are answered too.
 *
 * That the session lived at s is not enough to say how long it will live: a write that a follower forwards does not restart
 * the session's timer at the leader (LeaderZooKeeperServer.submitLearnerRequest). What restarts it is the follower's report,
 * twice a tick, of the sessions it has heard from, and being asked to revalidate a session that connects. So the engine keeps
 * the latest instant after which the timer was certainly restarted, and no lease goes beyond that plus 9T/10:
 *   - when a connection is established: the instant at which its handshake was sent, or earlier;
 *   - when a quorum write sent at k is acknowledged: the send instant j of any request of the same connection whose answer
 *     was here 3T/10 before k. Between the two the follower, having heard of us, reported at least once, since ZooKeeper
 *     grants no session timeout below two ticks; and its reports and forwarded writes travel on one ordered connection.
 * So that there is always such a j, an idle client sends a read as often as a busy one its heartbeat, in place of the C
 * client's pings, whose answers it does not show.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "engine_private.h"

/* After a failure to open a handle (the name does not resolve, say): this long until the next try. */
#define RETRY_AFTER (ZKL_SECOND / 2)

/* After zookeeper_interest failed: the same, for a handle that exists. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

/*
 * A session timeout above this is no ZooKeeper's: whatever answered spoke some other protocol, and the C client took its
 * text for a number.
 */
#define PLAUSIBLE_TIMEOUT_MS (24 * 3600 * 1000)

/* Parts of the session timeout. */
#define SPEAK_EVERY(timeout) ((timeout) / 5)
#define REPORTED_WITHIN(timeout) ((timeout) / 10 * 3)
#define LIVES_FOR(timeout) ((timeout) / 10 * 9)

/* A session that no server has taken back for so long is given up. */
#define GIVEN_UP_AFTER(timeout) ((timeout)*3)

/*
 * Nodes checked by one heartbeat request, and bytes of their paths in it: a server hangs up at a packet above jute.maxbuffer
 * (1 MB by default), heartbeat after heartbeat. What a check takes beside its path is less than CHECK_OVERHEAD.
 */
#define CHECKS_AT_ONCE 256
#define CHECKED_BYTES_AT_ONCE ((int64_t)512 * 1024)
#define CHECK_OVERHEAD 32

/* Looks at nodes that are under way at once, whatever else is: the lease must not wait for others. */
#define LOOKS_AT_ONCE (ZKL_MAX_IN_FLIGHT < CHECKS_AT_ONCE ? ZKL_MAX_IN_FLIGHT : CHECKS_AT_ONCE)

void zkl_log(zkl_engine *engine, int level, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    engine->host.log(engine->host.context, level, message);
}

bool zkl_outcome_unknown(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZRUNTIMEINCONSISTENCY || rc == ZCLOSING ||
           rc == ZSESSIONMOVED;
}

zkl_code zkl_code_of(int rc)
{
    switch (rc) {
    case ZOK:
        return ZKL_OK;
    case ZNOAUTH:
        return ZKL_NO_AUTH;
    case ZAUTHFAILED:
        return ZKL_AUTH_FAILED;
    case ZNONODE:
        return ZKL_NO_NODE;
    case ZNODEEXISTS:
        return ZKL_NODE_EXISTS;
    case ZBADVERSION:
        return ZKL_BAD_VERSION;
    case ZNOTEMPTY:
        return ZKL_NOT_EMPTY;
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE:
        return ZKL_DISCONNECTED;
    default:
        return zkl_outcome_unknown(rc) ? ZKL_DISCONNECTED : ZKL_FAILED;
    }
}

static void lapse(zkl_engine *engine);
static void look_on(zkl_engine *engine);

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

/* The negotiated session timeout in nanoseconds. */
static int64_t timeout_of(const zkl_engine *engine)
{
    return (int64_t)engine->timeout_ms * (ZKL_SECOND / 1000);
}

/* Any read does: it shows that a ZooKeeper answers, whether the chroot exists, and that the follower has heard of us. */
static void greet(zkl_engine *engine)
{
    if (zkl_send_greeting(engine)) {
        engine->checks_flying++;
        engine->stats.heartbeats++;
    }
}

bool zkl_session_usable(const zkl_engine *engine)
{
    return engine->ready && !engine->closing && !engine->over;
}

/* Requests may go out again: whoever waited for that gets its turn, in order. */
static void resume(zkl_engine *engine)
{
    zkl_watches_resume(engine);
    zkl_user_watches_resume(engine);
    zkl_queries_resume(engine);
    if (engine->nodes > 0) {
        zkl_lease_want_now(engine);
    }
}

static void now_ready(zkl_engine *engine)
{
    engine->ready = true;
    engine->check_at = engine->now + SPEAK_EVERY(timeout_of(engine));
    if (engine->chroot_missing) {
        set_state(engine, ZKL_STATE_CONNECTED, ZKL_NO_NODE, "the chroot '%s' of '%s' does not exist",
                  strchr(engine->servers, '/'), engine->servers);
    } else {
        set_state(engine, ZKL_STATE_CONNECTED, ZKL_OK, "%s", "");
    }
    resume(engine);
}

void zkl_session_greeted(zkl_request *request, int rc)
{
    zkl_engine *engine = request->engine;
    engine->checks_flying--;
    if (request->connection != engine->connection || !engine->connected || engine->greeted) {
        return; /* the next connection greets anew; or it only kept this one alive */
    }
    if (rc == ZOK || rc == ZNONODE || rc == ZNOAUTH) {
        engine->greeted = true;
        engine->chroot_missing = rc == ZNONODE;
        now_ready(engine);
    } else if (!zkl_outcome_unknown(rc)) {
        set_state(engine, engine->state, zkl_code_of(rc), "'%s' answers: %s", engine->servers, zerror(rc));
    }
}

/* Everything that the session had is gone, or will be without our help. */
static void session_over(zkl_engine *engine, const char *why)
{
    engine->connected = engine->ready = engine->greeted = false;
    engine->session_id = 0;
    zkl_seat *seat, *next;
    for (seat = TAILQ_FIRST(&engine->seats); seat != NULL; seat = next) {
        next = TAILQ_NEXT(seat, all);
        zkl_seat_session_over(seat, why);
    }
    zkl_user_watches_end(engine, engine->closing ? ZKL_CLOSED : ZKL_LOST);
    engine->check_at = ZKL_NEVER;
    engine->confirming = false;
    if (engine->lease && engine->lease_until != 0 && !ZKL_BROKEN(ZKL_BREAK_OWNER)) {
        engine->lease_until = 0;
        engine->host.lease_changed(engine->host.context, 0);
    }
}

/*
 * The server that we have connected to has restarted the session's timer with the timeout that it has just negotiated, which
 * may be shorter than the one that the lease was made under.
 */
static void shorten_lease(zkl_engine *engine)
{
    int64_t certain = engine->restarted_at + LIVES_FOR(timeout_of(engine));
    if (engine->lease && engine->lease_until != 0 && certain < engine->lease_until && !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        lapse(engine);
        engine->lease_until = certain;
        engine->host.lease_changed(engine->host.context, certain);
        lapse(engine);
    }
}

/* A read-only session, which we never ask for, is what the C client makes of a stranger's bytes too. */
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
    engine->heard_count = 0;
    engine->restarted_at = engine->handshake_at;
    engine->check_at = engine->now;
    shorten_lease(engine);
    int64_t session_id = zoo_client_id(engine->handle)->client_id;
    if (session_id != engine->session_id) {
        engine->session_id = session_id;
        engine->greeted = false;
        engine->stats.sessions++;
    }
    if (engine->greeted) {
        now_ready(engine);
    } else {
        greet(engine);
        engine->check_at = engine->now + PAUSE_AFTER;
    }
}

static void on_disconnected(zkl_engine *engine)
{
    engine->connected = engine->ready = false;
    engine->lost_at = engine->now;
    zkl_claim *claim, *next;
    for (claim = TAILQ_FIRST(&engine->claims); claim != NULL; claim = next) {
        next = TAILQ_NEXT(claim, all);
        zkl_claim_connection_lost(claim);
    }
    set_state(engine, engine->greeted ? ZKL_STATE_SUSPENDED : ZKL_STATE_CONNECTING, ZKL_DISCONNECTED,
              "the connection to '%s' is lost", engine->hosts);
}

static void on_auth_failed(zkl_engine *engine)
{
    engine->over = true;
    session_over(engine, "authentication failed");
    set_state(engine, ZKL_STATE_AUTH_FAILED, ZKL_AUTH_FAILED, "'%s' refused the credentials", engine->servers);
    zkl_claim *claim, *next;
    for (claim = TAILQ_FIRST(&engine->claims); claim != NULL; claim = next) {
        next = TAILQ_NEXT(claim, all);
        if (claim->phase == ZKL_CLAIM_WAITING) {
            zkl_claim_finish(claim, ZKL_CLAIM_REFUSED, ZKL_AUTH_FAILED, "%s", engine->problem);
            zkl_claim_leave(claim);
        }
    }
    zkl_queries_fail(engine, ZKL_AUTH_FAILED, engine->problem);
    zkl_operations_fail(engine, ZKL_AUTH_FAILED, engine->problem);
}

/* The C client's default watcher: session events only. */
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
    engine->over = true; /* completions that come from inside the close send nothing new */
    engine->connected = engine->ready = false;
    zookeeper_close(handle);
    engine->handle = NULL;
    look_on(engine); /* there is nothing to look at any more */
    engine->over = false;
    zkl_requests_closed(engine);
    zkl_watches_closed(engine);
    zkl_user_watches_closed(engine);
}

static bool open_handle(zkl_engine *engine)
{
    /* No shuffling by the C client: it would reseed random() of the whole process. The driver shuffles the list instead. */
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
    /* Addresses are looked up for each new connection. By default every turn of a connected client would do so too. */
    zoo_set_servers_resolution_delay(engine->handle, -1);
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

/* Why the handle is not connected, from what the C client left in errno. */
static void note_problem(zkl_engine *engine, int rc, int error)
{
    if (rc >= 0 || rc == ZNOTHING || engine->connected || engine->over) {
        return;
    }
    if (rc == ZOPERATIONTIMEOUT) {
        set_state(engine, engine->state, ZKL_DISCONNECTED, "no server of '%s' answers", engine->hosts);
    } else if (error != 0 && error != EAGAIN && error != EHOSTDOWN) {
        set_state(engine, engine->state, ZKL_DISCONNECTED, "cannot connect to '%s': %s", engine->hosts,
                  strerror(error));
    } else if (error == EHOSTDOWN) {
        set_state(engine, engine->state, ZKL_DISCONNECTED, "'%s' closed the connection", engine->hosts);
    }
}

/* The handle lost its connection without saying so: a failed send closes the socket and tells nobody. */
static void notice_silent_loss(zkl_engine *engine)
{
    if (engine->connected && engine->handle != NULL && zoo_state(engine->handle) != ZOO_CONNECTED_STATE) {
        on_disconnected(engine);
    }
}

static int64_t given_up_at(const zkl_engine *engine)
{
    bool away = !engine->connected && engine->session_id != 0 && !engine->over;
    return away ? engine->lost_at + GIVEN_UP_AFTER(timeout_of(engine)) : ZKL_NEVER;
}

/*
 * Servers turn a client away that has seen more than they have, without a word about its session. If the whole ensemble was
 * replaced, or restored from a backup, that goes on for ever: only a new session, which has seen nothing, is let in. What the
 * old one has on servers that do come back goes when they let it expire.
 */
static void give_up_session(zkl_engine *engine)
{
    if (engine->now >= given_up_at(engine)) {
        engine->over = true;
        session_over(engine, "no server has taken the session back for three times its timeout");
        set_state(engine, ZKL_STATE_CONNECTING, ZKL_DISCONNECTED, "no server of '%s' takes the session back",
                  engine->hosts);
    }
}

/* Before each call that may send the handshake: it will have been sent after this instant. */
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
    poll->events =
        (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    poll->wake_at = engine->now + (int64_t)wait.tv_sec * ZKL_SECOND + (int64_t)wait.tv_usec * 1000;
}

/* --- the lease ----------------------------------------------------------------------------------------------------- */

bool zkl_lease_valid(const zkl_engine *engine)
{
    return !engine->lease || engine->now < engine->lease_until || ZKL_BROKEN(ZKL_BREAK_LEASE);
}

/* Without a lease nothing but the connection tells that the session lives: enough to hold on, not to grant anew. */
bool zkl_lease_covers_more(const zkl_engine *engine)
{
    return zkl_lease_valid(engine) && (engine->lease || zkl_session_usable(engine));
}

/* Grants that outlived their lease are lost for good. */
static void lapse(zkl_engine *engine)
{
    if (zkl_lease_valid(engine) || engine->lease_until == 0 || ZKL_BROKEN(ZKL_BREAK_LAPSE)) {
        return;
    }
    zkl_share_expire(engine, true);
    zkl_claim *claim, *next;
    for (claim = TAILQ_FIRST(&engine->claims); claim != NULL; claim = next) {
        next = TAILQ_NEXT(claim, all);
        zkl_claim_lose(claim, ZKL_LOST,
                       "'%s' is lost: no ZooKeeper quorum has confirmed the session for half of its timeout (%d ms)",
                       zkl_claim_path(claim), engine->timeout_ms);
    }
}

/* The instant before which a request must have been sent to be of use is long ago: what is kept is spread over time. */
void zkl_session_heard(zkl_engine *engine, int64_t sent_at)
{
    int32_t slots = (int32_t)(sizeof engine->heard / sizeof *engine->heard);
    if (engine->heard_count > 0) {
        int64_t latest = engine->heard[(engine->heard_count - 1) % slots].sent_at;
        if (sent_at < latest + timeout_of(engine) / slots) {
            return;
        }
    }
    engine->heard[engine->heard_count++ % slots] = (struct zkl_heard){sent_at, ZKL_NEVER};
}

/*
 * Dates the answers of the turn before. Its own `now` is from before the answers were read, and the thread may have stood still
 * in between: only a clock that is read afterwards is certainly no earlier than their arrival.
 */
static void date_answers(zkl_engine *engine)
{
    int32_t slots = (int32_t)(sizeof engine->heard / sizeof *engine->heard);
    for (int32_t i = engine->heard_count - 1; i >= 0 && i >= engine->heard_count - slots; i--) {
        struct zkl_heard *heard = &engine->heard[i % slots];
        if (heard->answered_at != ZKL_NEVER) {
            return;
        }
        heard->answered_at = engine->now;
    }
}

/* A quorum write sent at `sent_at` is acknowledged: every report that the follower had made by then has arrived. */
static void note_restart(zkl_engine *engine, int64_t sent_at)
{
    int32_t slots = (int32_t)(sizeof engine->heard / sizeof *engine->heard);
    int32_t oldest = engine->heard_count > slots ? engine->heard_count - slots : 0;
    for (int32_t i = engine->heard_count - 1; i >= oldest; i--) {
        struct zkl_heard heard = engine->heard[i % slots];
        int64_t arrived = ZKL_BROKEN(ZKL_BREAK_ARRIVAL) ? heard.sent_at : heard.answered_at;
        if (arrived <= sent_at - REPORTED_WITHIN(timeout_of(engine))) {
            engine->restarted_at = heard.sent_at > engine->restarted_at ? heard.sent_at : engine->restarted_at;
            return;
        }
    }
}

void zkl_lease_prove(zkl_engine *engine, int64_t sent_at)
{
    if (!engine->lease || engine->session_id == 0) {
        return;
    }
    note_restart(engine, sent_at);
    int64_t until = sent_at + timeout_of(engine) / 2;
    int64_t certain = engine->restarted_at + LIVES_FOR(timeout_of(engine));
    if (certain < until && !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        until = certain;
    }
    if (until <= engine->lease_until) {
        return;
    }
    lapse(engine);
    engine->lease_until = until;
    engine->host.lease_changed(engine->host.context, ZKL_BROKEN(ZKL_BREAK_LEASE) ? ZKL_NEVER : until);
    if (engine->confirming && zkl_lease_valid(engine)) {
        engine->confirming = false;
        zkl_seat *seat, *next;
        for (seat = TAILQ_FIRST(&engine->seats); seat != NULL; seat = next) {
            next = TAILQ_NEXT(seat, all);
            if (seat->role != ZKL_ROLE_TURN) { /* which waits for permits, not for a lease */
                zkl_seat_confirm(seat);
            }
        }
    }
}

void zkl_lease_want_now(zkl_engine *engine)
{
    engine->check_at = engine->now;
}

static void free_checks(struct zkl_checks *checks)
{
    if (checks != NULL) {
        zkl_free(checks->items);
        zkl_free(checks->ops);
        zkl_free(checks->results);
        zkl_free(checks);
    }
}

static struct zkl_checks *new_checks(int32_t capacity)
{
    struct zkl_checks *checks = zkl_alloc(sizeof *checks);
    if (checks == NULL) {
        return NULL;
    }
    checks->items = zkl_alloc((size_t)capacity * sizeof *checks->items);
    checks->ops = zkl_alloc((size_t)capacity * sizeof *checks->ops);
    checks->results = zkl_alloc((size_t)capacity * sizeof *checks->results);
    if (checks->items == NULL || checks->ops == NULL || checks->results == NULL) {
        free_checks(checks);
        return NULL;
    }
    return checks;
}

static int64_t check_bytes(const zkl_seat *seat)
{
    return seat->engine->chroot_length + (int64_t)strlen(seat->node) + CHECK_OVERHEAD;
}

/* Whether a request that checks so much already has no room for another seat. */
static bool is_full(const struct zkl_checks *checks, const zkl_seat *seat)
{
    return checks->count == CHECKS_AT_ONCE || checks->bytes + check_bytes(seat) > CHECKED_BYTES_AT_ONCE;
}

static void add_check(struct zkl_checks *checks, zkl_seat *seat)
{
    checks->items[checks->count] = (struct zkl_check){seat, seat->generation};
    zoo_check_op_init(&checks->ops[checks->count], seat->node, -1);
    checks->results[checks->count].err = ZRUNTIMEINCONSISTENCY; /* stays, should the answer say nothing of it */
    seat->flying++;
    checks->count++;
    checks->bytes += check_bytes(seat);
}

/* Nothing about the heartbeat is under way, or to be sent, any more. */
static void land_checks(struct zkl_checks *checks)
{
    for (int32_t i = 0; i < checks->count; i++) {
        zkl_seat_landed(checks->items[i].seat);
    }
    free_checks(checks);
}

static void send_checks(zkl_engine *engine, struct zkl_checks *checks)
{
    if (!zkl_send_checks(engine, checks)) {
        land_checks(checks);
        return;
    }
    checks->sent_at = engine->now;
    checks->connection = engine->connection;
    checks->flying = 1;
    TAILQ_INSERT_TAIL(&engine->checks, checks, all);
    engine->checks_flying++;
    engine->stats.heartbeats++;
    look_on(engine);
}

static bool needs_check(const zkl_seat *seat)
{
    return seat->node != NULL &&
           (seat->state == ZKL_SEAT_QUEUED || seat->state == ZKL_SEAT_CONFIRMING || seat->state == ZKL_SEAT_GRANTED);
}

/* The seat is still what the heartbeat was about, and is held by its node, or will be when the lease is proven. */
static bool needs_look(const struct zkl_check *check)
{
    bool holds = check->seat->state == ZKL_SEAT_GRANTED || check->seat->state == ZKL_SEAT_CONFIRMING;
    return check->generation == check->seat->generation && holds && !ZKL_BROKEN(ZKL_BREAK_IMPOSTOR);
}

/* Looks at the next nodes of a heartbeat, as many as may be; false if some are left. */
static bool send_looks(zkl_engine *engine, struct zkl_checks *checks)
{
    if (checks->connection != engine->connection || !zkl_session_usable(engine)) {
        checks->failed = checks->failed || checks->looked < checks->count;
    }
    while (!checks->failed && checks->looked < checks->count && engine->looks_flying < LOOKS_AT_ONCE) {
        int32_t index = checks->looked++;
        if (!needs_look(&checks->items[index])) {
            continue;
        }
        if (zkl_send_look(engine, checks, index)) {
            checks->flying++;
            engine->looks_flying++;
            engine->stats.heartbeats++;
        } else {
            checks->failed = true;
        }
    }
    return checks->failed || checks->looked == checks->count;
}

/* Goes on with the looks that are due, and judges the heartbeats of which all is in. */
static void look_on(zkl_engine *engine)
{
    struct zkl_checks *checks, *next;
    for (checks = TAILQ_FIRST(&engine->checks); checks != NULL; checks = next) {
        next = TAILQ_NEXT(checks, all);
        if (!send_looks(engine, checks) || checks->flying > 0) {
            continue;
        }
        TAILQ_REMOVE(&engine->checks, checks, all);
        engine->checks_flying--;
        if (!checks->failed) {
            zkl_lease_prove(engine, checks->sent_at);
        }
        land_checks(checks);
    }
}

/* Sends the heartbeat over every node that serves somebody, in as few requests as their bound allows; a read if none does. */
static void heartbeat(zkl_engine *engine)
{
    struct zkl_checks *checks = NULL;
    zkl_seat *seat;
    TAILQ_FOREACH(seat, &engine->seats, all)
    {
        if (!needs_check(seat)) {
            continue;
        }
        if (checks != NULL && is_full(checks, seat)) {
            send_checks(engine, checks);
            checks = NULL;
        }
        if (checks == NULL && (checks = new_checks(CHECKS_AT_ONCE)) == NULL) {
            engine->check_at = engine->now + PAUSE_AFTER; /* no memory: the lease runs on meanwhile */
            return;
        }
        add_check(checks, seat);
    }
    if (checks != NULL) {
        send_checks(engine, checks);
    }
    if (engine->checks_flying == 0) {
        greet(engine);
    }
    engine->check_at = engine->now + SPEAK_EVERY(timeout_of(engine));
}

/* The C client takes an answer for success whose parts say otherwise, or are not there. */
static bool all_passed(const struct zkl_checks *checks)
{
    bool passed = true;
    for (int32_t i = 0; i < checks->count; i++) {
        passed = passed && checks->results[i].err == ZOK;
    }
    return passed;
}

/* Neither yes nor no; what is known to pass by itself is not worth a line. */
static void note_unproven(zkl_engine *engine, int rc)
{
    if (!zkl_outcome_unknown(rc) && rc != ZSESSIONEXPIRED && rc != ZINVALIDSTATE) {
        zkl_log(engine, ZOO_LOG_LEVEL_ERROR, "the lease cannot be extended: checking our own nodes gives '%s'%s",
                zerror(rc), rc == ZNOAUTH ? " (the acl must let the client read its own node)" : "");
    }
}

void zkl_lease_checked(zkl_request *request, int rc)
{
    zkl_engine *engine = request->engine;
    struct zkl_checks *checks = request->about.checks;
    checks->flying--;
    rc = rc == ZOK && !all_passed(checks) ? ZMARSHALLINGERROR : rc;
    checks->failed = checks->failed || rc != ZOK;
    if (rc == ZNONODE) {
        for (int32_t i = 0; i < checks->count; i++) {
            const struct zkl_check *check = &checks->items[i];
            if (checks->results[i].err == ZNONODE && check->generation == check->seat->generation &&
                needs_check(check->seat)) {
                zkl_seat_evicted(check->seat);
            }
        }
        zkl_lease_want_now(engine); /* the failed multi said nothing about the others */
    } else if (rc != ZOK) {
        note_unproven(engine, rc);
    }
    look_on(engine);
}

/*
 * Of a reader beside its writer only the session is known; nobody else has it, and ours makes no node twice under one name.
 */
static bool is_own(const zkl_seat *seat, const struct Stat *stat)
{
    return stat->ephemeralOwner == seat->engine->session_id && (seat->beside || stat->czxid == seat->czxid);
}

void zkl_lease_looked(zkl_request *request, int rc, const struct Stat *stat)
{
    zkl_engine *engine = request->engine;
    struct zkl_checks *checks = request->about.checks;
    const struct zkl_check *check = &checks->items[request->index];
    checks->flying--;
    engine->looks_flying--;
    if (rc == ZNONODE || rc == ZOK) {
        /* Without the one that is lost the heartbeat proves as much as before. */
        if (needs_look(check) && rc == ZNONODE) {
            zkl_seat_evicted(check->seat);
        } else if (needs_look(check) && !is_own(check->seat, stat)) {
            zkl_seat_replaced(check->seat);
        }
    } else {
        checks->failed = true;
        note_unproven(engine, rc);
    }
    look_on(engine);
}

/* --- the driver's calls -------------------------------------------------------------------------------------------- */

/* Gives those who may not have been allowed to send their turn. */
static void feed_hungry(zkl_engine *engine)
{
    zkl_seat *seat;
    while (zkl_session_usable(engine) && engine->in_flight < ZKL_MAX_IN_FLIGHT &&
           (seat = TAILQ_FIRST(&engine->hungry)) != NULL) {
        TAILQ_REMOVE(&engine->hungry, seat, in_hungry);
        seat->hungry = false;
        zkl_seat_step(seat);
        if (seat->hungry) {
            break; /* it still may not: neither may those behind it */
        }
    }
    while (zkl_session_usable(engine) && engine->in_flight < ZKL_MAX_IN_FLIGHT &&
           (seat = TAILQ_FIRST(&engine->starved)) != NULL && zkl_seat_fits(seat)) {
        TAILQ_REMOVE(&engine->starved, seat, in_hungry);
        seat->starved = false;
        zkl_seat_step(seat);
    }
    zkl_operations_feed(engine);
}

/* The first request of the connection could not be sent, or was answered by neither yes nor no (throttled, say). */
static bool must_greet_again(const zkl_engine *engine)
{
    return engine->connected && !engine->greeted && !engine->closing && !engine->over && engine->checks_flying == 0;
}

static void run_due(zkl_engine *engine)
{
    notice_silent_loss(engine);
    lapse(engine);
    give_up_session(engine);
    zkl_claims_expire(engine);
    zkl_share_expire(engine, false);
    if (must_greet_again(engine) && engine->now >= engine->check_at) {
        greet(engine);
        engine->check_at = engine->now + PAUSE_AFTER;
    }
    if (engine->now >= engine->delayed_until) {
        zkl_seats_undelay(engine);
        zkl_watches_resume(engine);
        zkl_user_watches_resume(engine);
        engine->operations_paused = false;
    }
    feed_hungry(engine);
    if (engine->lease && zkl_session_usable(engine) && engine->now >= engine->check_at && engine->checks_flying == 0) {
        heartbeat(engine);
    }
}

bool zkl_engine_may_call(const zkl_engine *engine)
{
    return zkl_session_usable(engine);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_due(const zkl_engine *engine)
{
    int64_t due = must_greet_again(engine) ? earlier(engine->check_at, engine->delayed_until) : engine->delayed_until;
    if (zkl_session_usable(engine)) {
        if (engine->lease && engine->checks_flying == 0) {
            due = earlier(due, engine->check_at);
        }
        if (!TAILQ_EMPTY(&engine->hungry) && engine->in_flight < ZKL_MAX_IN_FLIGHT) {
            due = earlier(due, engine->now + PAUSE_AFTER);
        }
        if (zkl_operations_due(engine)) {
            due = engine->now;
        }
    }
    due = earlier(due, given_up_at(engine));
    if (engine->lease && engine->nodes > 0 && engine->lease_until > engine->now) {
        due = earlier(due, engine->lease_until);
    }
    if (!TAILQ_EMPTY(&engine->holds)) {
        due = earlier(due, TAILQ_FIRST(&engine->holds)->hold_until);
    }
    if (!TAILQ_EMPTY(&engine->lingering)) {
        due = earlier(due, TAILQ_FIRST(&engine->lingering)->linger_until);
    }
    return due;
}

bool zkl_engine_wants_turn(const zkl_engine *engine, int64_t sleeping_until)
{
    bool lost = engine->connected && zoo_state(engine->handle) != ZOO_CONNECTED_STATE;
    return lost || next_due(engine) < sleeping_until;
}

void zkl_engine_prepare(zkl_engine *engine, int64_t now, zkl_poll *poll)
{
    engine->now = now;
    engine->sent_bytes = 0;
    date_answers(engine);
    *poll = (zkl_poll){.fd = -1, .events = 0, .wake_at = ZKL_NEVER};
    run_due(engine);
    bool wanted =
        !engine->shut && engine->state != ZKL_STATE_AUTH_FAILED && !(engine->closing && engine->session_id == 0);
    if (engine->handle != NULL && (engine->over || !wanted)) {
        close_handle(engine);
    }
    if (engine->handle == NULL && wanted && now >= engine->retry_at) {
        open_handle(engine);
    }
    if (engine->handle != NULL) {
        ask_interest(engine, poll);
    } else if (wanted) {
        poll->wake_at = earlier(poll->wake_at, engine->retry_at);
    }
    notice_silent_loss(engine);
    poll->wake_at = earlier(poll->wake_at, next_due(engine));
}

void zkl_engine_process(zkl_engine *engine, int64_t now, short revents)
{
    engine->now = now;
    lapse(engine);
    if (engine->handle != NULL && !engine->over && revents != 0) {
        int events = ((revents & (POLLIN | POLLERR | POLLHUP)) != 0 ? ZOOKEEPER_READ : 0) |
                     ((revents & (POLLOUT | POLLERR | POLLHUP)) != 0 ? ZOOKEEPER_WRITE : 0);
        before_handshake(engine);
        errno = 0;
        int rc = zookeeper_process(engine->handle, events);
        note_problem(engine, rc, errno);
    }
    run_due(engine);
}

void zkl_engine_shut_down(zkl_engine *engine, int64_t now)
{
    engine->now = now;
    engine->closing = engine->shut = true;
    if (engine->handle != NULL) {
        close_handle(engine);
    }
    session_over(engine, "the client is closed");
    if (engine->state != ZKL_STATE_AUTH_FAILED) {
        set_state(engine, ZKL_STATE_CLOSED, ZKL_CLOSED, "%s", "");
    }
    zkl_queries_fail(engine, ZKL_CLOSED, "the client is closed");
    zkl_operations_fail(engine, ZKL_CLOSED, "the client is closed");
}
