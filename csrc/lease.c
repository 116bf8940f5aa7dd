/*
 * lease: how long the session certainly lives, and the heartbeat that keeps it so.
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
#include <string.h>

#include "engine_private.h"

/* Without memory for a heartbeat: this long until the next try. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

/* Parts of the session timeout. */
#define SPEAK_EVERY(timeout) ((timeout) / 5)
#define REPORTED_WITHIN(timeout) ((timeout) / 10 * 3)
#define LIVES_FOR(timeout) ((timeout) / 10 * 9)

/*
 * Nodes checked by one heartbeat request, and bytes of their paths in it: a server hangs up at a packet above jute.maxbuffer
 * (1 MB by default), heartbeat after heartbeat. What a check takes beside its path is less than CHECK_OVERHEAD.
 */
#define CHECKS_AT_ONCE 256
#define CHECKED_BYTES_AT_ONCE ((int64_t)512 * 1024)
#define CHECK_OVERHEAD 32

/* Looks at nodes that are under way at once, whatever else is: the lease must not wait for others. */
#define LOOKS_AT_ONCE (ZKL_MAX_IN_FLIGHT < CHECKS_AT_ONCE ? ZKL_MAX_IN_FLIGHT : CHECKS_AT_ONCE)

bool zkl_lease_valid(const zkl_engine *engine)
{
    return !engine->lease || engine->now < engine->lease_until || ZKL_BROKEN(ZKL_BREAK_LEASE);
}

/* Without a lease nothing but the connection tells that the session lives: enough to hold on, not to grant anew. */
bool zkl_lease_covers_more(const zkl_engine *engine)
{
    return zkl_lease_valid(engine) && (engine->lease || zkl_session_usable(engine));
}

void zkl_lease_lapse(zkl_engine *engine)
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

/*
 * The server that we have connected to has restarted the session's timer with the timeout that it has just negotiated, which
 * may be shorter than the one that the lease was made under.
 */
void zkl_lease_shorten(zkl_engine *engine)
{
    int64_t certain = engine->restarted_at + LIVES_FOR(zkl_session_timeout(engine));
    if (engine->lease && engine->lease_until != 0 && certain < engine->lease_until && !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        zkl_lease_lapse(engine);
        engine->lease_until = certain;
        engine->host.lease_changed(engine->host.context, certain);
        zkl_lease_lapse(engine);
    }
}

/* The instant before which a request must have been sent to be of use is long ago: what is kept is spread over time. */
void zkl_lease_heard(zkl_engine *engine, int64_t sent_at)
{
    int32_t slots = (int32_t)(sizeof engine->heard / sizeof *engine->heard);
    if (engine->heard_count > 0) {
        int64_t latest = engine->heard[(engine->heard_count - 1) % slots].sent_at;
        if (sent_at < latest + zkl_session_timeout(engine) / slots) {
            return;
        }
    }
    engine->heard[engine->heard_count++ % slots] = (struct zkl_heard){sent_at, ZKL_NEVER};
}

/*
 * Dates the answers of the turn before. Its own `now` is from before the answers were read, and the thread may have stood still
 * in between: only a clock that is read afterwards is certainly no earlier than their arrival.
 */
void zkl_lease_date_answers(zkl_engine *engine)
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
        if (arrived <= sent_at - REPORTED_WITHIN(zkl_session_timeout(engine))) {
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
    int64_t until = sent_at + zkl_session_timeout(engine) / 2;
    int64_t certain = engine->restarted_at + LIVES_FOR(zkl_session_timeout(engine));
    if (certain < until && !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        until = certain;
    }
    if (until <= engine->lease_until) {
        return;
    }
    zkl_lease_lapse(engine);
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

void zkl_lease_rest(zkl_engine *engine)
{
    engine->check_at = engine->now + SPEAK_EVERY(zkl_session_timeout(engine));
}

/* --- heartbeats ---------------------------------------------------------------------------------------------------- */

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
    zkl_lease_look_on(engine);
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

void zkl_lease_look_on(zkl_engine *engine)
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

void zkl_lease_beat(zkl_engine *engine)
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
        zkl_session_greet(engine);
    }
    zkl_lease_rest(engine);
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
    rc = rc == ZNONODE && ZKL_BROKEN(ZKL_BREAK_EVICTED) ? ZOK : rc;
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
    zkl_lease_look_on(engine);
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
    zkl_lease_look_on(engine);
}
