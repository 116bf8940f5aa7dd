/*
 * lease: how long the session certainly exists, and the heartbeat that keeps it alive.
 *
 * Being CONNECTED, successful reads, pings and even sync do not prove that the session exists, because a follower that
 * is cut off from its leader goes on answering them. Two instants are known from acknowledgements alone:
 *
 *   alive_at       The session existed then: a quorum write that was sent then has been acknowledged. The heartbeat is a
 *                  multi of version checks of our own nodes. It goes through the quorum, changes nothing, fires no
 *                  watch, and fails with ZNONODE when one of the nodes has been deleted.
 *   restarted_at   The leader restarted the session's timer then or later.
 *
 * Let T be the least session timeout that was negotiated in this session. Grants are valid until min(alive_at + T/2,
 * restarted_at + 9T/10).
 *
 * A check identifies a node by its name and the version of its data alone. Another client that may create and delete in
 * the directory can replace our node by its own node, but it cannot give that node our czxid and our session. So the
 * heartbeat is followed on the same connection by an exists of each node that is held. A read of the session after its
 * own write is no older than that write. The heartbeat counts when all of these are answered too.
 *
 * When the timer was restarted. A write that a follower forwards does not restart it
 * (LeaderZooKeeperServer.submitLearnerRequest). The follower's report does. A follower reports only in answer to a ping
 * of the leader that it has received (Learner.ping, LearnerHandler.run). The packets of the leader may stall while
 * those of the follower arrive. So the proof takes four answered requests on one connection, each sent after the answer
 * to the one before:
 *
 *   j1, j2   The follower has received requests of ours. The report that is made at the moment of a request may miss
 *            that one request (LearnerSessionTracker.touchSession and snapshot), so there are two.
 *   w        A round trip through the leader, sent at least 3T/10 after the answer to j2. The leader pings its followers
 *            twice a tick, and T is two ticks or more. So it has queued a ping in between, and this ping has passed the
 *            ordered link before the answer to w.
 *   k        Another round trip through the leader. The report travels before k on the ordered link to the leader.
 *
 * Then the timer was restarted at the instant at which j1 was sent, or later. The request kinds in `through_leader` can
 * be w or k. Every request can be j1 or j2. Each request remembers what its answer will prove (zkl_evidence). So one
 * request can play all parts at the same time, and a busy client proves its lease by the requests that it sends anyway.
 *
 * There are two conditions:
 * - The follower's leader may have been replaced and not know it. A quorum write that is acknowledged on the same
 *   connection afterwards proves that it was the leader. Until then the instant is known in `chain` only.
 * - The chain must be unbroken: each such instant becomes known less than 9T/10 after the one before. Otherwise the
 *   leader's session tracker may have taken the session out of its queue, and end it a moment later in spite of the
 *   report (SessionTrackerImpl.run). A broken chain is as good as an unbroken one when a quorum write, sent T/2 later,
 *   has been acknowledged: the tracker would have ended the session by then. A client that has nothing to lose does not
 *   wait for that, but opens a new session.
 *
 * A connection's handshake restarts the timer too, by the revalidation of the session. It counts under the same
 * condition.
 *
 * The thread may stand still after it has received an answer. So the instant by which an answer was here is known only
 * when the clock has been read afterwards, at the next turn. Answers are dated there (zkl_lease_date_answers).
 *
 * Rounds of requests provide the evidence: a sync, and when it is answered, the heartbeat. A client without nodes sends
 * another sync, or a version check of "/" if the program has ephemeral nodes or watches. next_round returns the time of
 * the next round. With quick round trips the known instant is less than 2T/3 old. If a round trip takes more than about
 * T/13, no lease can be kept.
 */
#include <string.h>

#include "engine_private.h"

/* The time until the next try when there was no memory for a heartbeat. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

/* Parts of the session timeout. */
#define SPEAK_EVERY(timeout) ((timeout) / 5)
#define PINGED_WITHIN(timeout) ((timeout) / 10 * 3)
#define LIVES_FOR(timeout) ((timeout) / 10 * 9)
#define ENDED_WITHIN(timeout) ((timeout) / 2)
#define GIVES_WAY_AFTER(timeout) ((timeout) / 2 * 3)

/*
 * The most nodes checked by one heartbeat request, and the most bytes of their paths in it. A server closes the
 * connection at a packet above jute.maxbuffer (1 MB by default), heartbeat after heartbeat. A check takes less than
 * CHECK_OVERHEAD besides its path.
 */
#define CHECKS_AT_ONCE 256
#define CHECKED_BYTES_AT_ONCE ((int64_t)512 * 1024)
#define CHECK_OVERHEAD 32

/* The most verifications of nodes in flight, whatever else is in flight: the lease must not wait for other requests. */
#define VERIFICATIONS_AT_ONCE (ZKL_MAX_IN_FLIGHT < CHECKS_AT_ONCE ? ZKL_MAX_IN_FLIGHT : CHECKS_AT_ONCE)

#ifdef ZKL_BREAKABLE
int64_t zkl_engine_restarted_at(const zkl_engine *engine, int64_t *timeout)
{
    *timeout = zkl_session_timeout(engine);
    return engine->restarted_at;
}
#endif

bool zkl_lease_valid(const zkl_engine *engine)
{
    return !engine->lease || engine->now < engine->lease_until || ZKL_BROKEN(ZKL_BREAK_LEASE);
}

/*
 * If leases are turned off, only the connection shows that the session exists. Grants are kept without a connection,
 * but a new grant needs it.
 */
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
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&engine->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        zkl_acquisition_lose(acquisition, ZKL_LOST,
                             "'%s' is lost: it is not certain any more that the session lives (its timeout is %d ms)",
                             zkl_acquisition_path(acquisition), engine->timeout_ms);
    }
}

/* --- evidence ------------------------------------------------------------------------------------------------------ */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns whether every server that answers such a request with ZOK has asked the leader, or is the leader. */
static bool through_leader(zkl_request_kind kind)
{
    switch (kind) {
    case ZKL_REQUEST_CREATE:
    case ZKL_REQUEST_DOWNGRADE:
    case ZKL_REQUEST_SYNC:
    case ZKL_REQUEST_DELETE:
    case ZKL_REQUEST_PARENT:
    case ZKL_REQUEST_PULSE:
    case ZKL_REQUEST_WITNESS:
    case ZKL_REQUEST_CHECK:
        return true;
    default: /* reads, and requests that may be reads: LIMIT, and the program's own */
        return false;
    }
}

/* Returns whether an answer with ZOK means that a majority of the servers has acknowledged the request. */
static bool is_quorum_write(zkl_request_kind kind)
{
    return through_leader(kind) && kind != ZKL_REQUEST_SYNC && kind != ZKL_REQUEST_PULSE;
}

/* Returns when the latest j1 was sent for which a request that is sent now can be the w; ZKL_LONG_AGO if there is none. */
static int64_t pinged(const zkl_engine *engine)
{
    const zkl_chain *chain = &engine->chain;
    int32_t slots = (int32_t)(sizeof chain->heard / sizeof *chain->heard);
    int32_t oldest = chain->heard_count > slots ? chain->heard_count - slots : 0;
    int64_t within = ZKL_BROKEN(ZKL_BREAK_PINGED) ? 0 : PINGED_WITHIN(zkl_session_timeout(engine));
    for (int32_t i = chain->heard_count - 1; i >= oldest; i--) {
        struct zkl_heard heard = chain->heard[i % slots];
        if (heard.since <= engine->now - within) {
            return heard.first;
        }
    }
    return ZKL_LONG_AGO;
}

zkl_evidence zkl_lease_evidence(const zkl_engine *engine, zkl_request_kind kind)
{
    zkl_evidence evidence = {engine->chain.first, ZKL_LONG_AGO, ZKL_LONG_AGO};
    if (ZKL_BROKEN(ZKL_BREAK_TWICE)) {
        evidence.first = engine->now;
    }
    if (engine->lease && through_leader(kind)) {
        evidence.reported = pinged(engine);
        evidence.arrived = ZKL_BROKEN(ZKL_BREAK_REPORTED) ? evidence.reported : engine->chain.reported;
    }
    return evidence;
}

/*
 * Remembers the pair of requests that this answer completes. Only pairs of some time ago are of use, so the remembered
 * ones are spread over time.
 */
static void note_heard(zkl_engine *engine, const zkl_request *request)
{
    zkl_chain *chain = &engine->chain;
    int32_t slots = (int32_t)(sizeof chain->heard / sizeof *chain->heard);
    int64_t first = request->evidence.first;
    int64_t apart = zkl_session_timeout(engine) / slots;
    if (first == ZKL_LONG_AGO ||
        (chain->heard_count > 0 && first < chain->heard[(chain->heard_count - 1) % slots].first + apart)) {
        return;
    }
    int64_t since = ZKL_BROKEN(ZKL_BREAK_ARRIVAL) ? request->sent_at : ZKL_NEVER;
    chain->heard[chain->heard_count++ % slots] = (struct zkl_heard){first, since};
}

void zkl_lease_answered(const zkl_request *request)
{
    zkl_engine *engine = request->engine;
    zkl_chain *chain = &engine->chain;
    note_heard(engine, request);
    chain->first = later(chain->first, request->sent_at);
    if (!engine->lease || !through_leader(request->kind)) {
        return;
    }
    chain->reported = later(chain->reported, request->evidence.reported);
    chain->arrived = later(chain->arrived, request->evidence.arrived);
    if (ZKL_BROKEN(ZKL_BREAK_REACHED)) {
        chain->arrived = chain->reported;
    }
    if (is_quorum_write(request->kind)) {
        int64_t within = ZKL_BROKEN(ZKL_BREAK_ENDED) ? 0 : ENDED_WITHIN(zkl_session_timeout(engine));
        bool ended_by_now = !chain->begins && request->sent_at >= chain->unbroken_since + within;
        chain->sound = chain->sound || ended_by_now;
        chain->proven = later(chain->restarted_at, chain->arrived);
        if (chain->sound) {
            engine->restarted_at = later(engine->restarted_at, chain->restarted_at);
        }
    }
}

/* Returns whether this turn is less than 9T/10 after `before`. */
static bool is_unbroken(const zkl_engine *engine, int64_t before)
{
    return engine->now < before + LIVES_FOR(zkl_session_timeout(engine)) || ZKL_BROKEN(ZKL_BREAK_CHAIN);
}

static void break_chain(zkl_engine *engine)
{
    engine->chain.sound = false;
    engine->chain.unbroken_since = engine->now;
}

void zkl_lease_connected(zkl_engine *engine, bool fresh)
{
    engine->chain = (zkl_chain){.first = ZKL_LONG_AGO,
                                .reported = ZKL_LONG_AGO,
                                .arrived = ZKL_LONG_AGO,
                                .proven = ZKL_LONG_AGO,
                                .restarted_at = engine->handshake_at,
                                .unbroken_since = engine->handshake_at,
                                .sound = fresh,
                                .begins = !fresh};
    if (fresh) { /* the session was created by a quorum write */
        engine->restarted_at = engine->handshake_at;
        engine->alive_at = ZKL_LONG_AGO;
        return;
    }
    /* The server has restarted the timer with the timeout that it has just negotiated, which may be shorter. */
    int64_t certain = engine->handshake_at + LIVES_FOR(zkl_session_timeout(engine));
    if (engine->lease && engine->lease_until != 0 && certain < engine->lease_until && !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        zkl_lease_lapse(engine);
        engine->lease_until = certain;
        engine->host.lease_changed(engine->host.context, certain);
        zkl_lease_lapse(engine);
    }
}

/* Moves the end of the lease as far as is proven by now, and grants the entries that have waited for a lease. */
static void extend(zkl_engine *engine)
{
    int64_t until = engine->alive_at + zkl_session_timeout(engine) / 2;
    int64_t certain = engine->restarted_at + LIVES_FOR(zkl_session_timeout(engine));
    if (certain < until && !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        until = certain;
    }
    if (engine->session_id == 0 || engine->alive_at == ZKL_LONG_AGO || until <= engine->lease_until) {
        return;
    }
    zkl_lease_lapse(engine);
    engine->lease_until = until;
    engine->host.lease_changed(engine->host.context, ZKL_BROKEN(ZKL_BREAK_LEASE) ? ZKL_NEVER : until);
    if (engine->confirming && zkl_lease_valid(engine)) {
        engine->confirming = false;
        zkl_entry *entry, *next;
        for (entry = TAILQ_FIRST(&engine->entries); entry != NULL; entry = next) {
            next = TAILQ_NEXT(entry, all);
            if (entry->role != ZKL_ROLE_QUEUE_ENTRY) { /* a queue entry waits for permits, not for a lease */
                zkl_entry_confirm(entry);
            }
        }
    }
}

/*
 * Returns the start of the next round, which is at the latest when the answers of this round are old enough for the
 * next one to be their w. The rounds before that are spread evenly, so that each round finds the answers of another one
 * just old enough. They are at most T/5 apart. A client without nodes needs no rounds in between, unless round trips
 * take so long that each instant would become known too late.
 */
static int64_t next_round(const zkl_engine *engine)
{
    int64_t timeout = zkl_session_timeout(engine);
    int64_t took = later(engine->now - engine->chain.round_began, 0); /* a caller may have read its clock earlier */
    int64_t until_w = PINGED_WITHIN(timeout) + took + timeout / 100;
    bool often = engine->nodes > 0 || took > timeout / 20;
    int64_t rounds = often ? until_w / SPEAK_EVERY(timeout) + 1 : 1;
    int64_t apart = until_w / rounds / (ZKL_SECOND / 1000) * (ZKL_SECOND / 1000);
    return later(engine->now, engine->chain.round_began + apart);
}

void zkl_lease_date_answers(zkl_engine *engine)
{
    zkl_chain *chain = &engine->chain;
    if (!engine->lease || !engine->connected) {
        return;
    }
    int32_t slots = (int32_t)(sizeof chain->heard / sizeof *chain->heard);
    for (int32_t i = chain->heard_count - 1; i >= 0 && i >= chain->heard_count - slots; i--) {
        struct zkl_heard *heard = &chain->heard[i % slots];
        if (heard->since != ZKL_NEVER) {
            break;
        }
        heard->since = engine->now;
    }
    if (chain->begins) {
        chain->begins = false;
        chain->sound = is_unbroken(engine, engine->restarted_at);
        chain->unbroken_since = engine->now;
    }
    if (chain->arrived > chain->restarted_at) {
        if (!is_unbroken(engine, chain->restarted_at)) {
            break_chain(engine);
        }
        chain->restarted_at = chain->arrived;
    }
    if (chain->sound && chain->proven > engine->restarted_at) {
        engine->restarted_at = chain->proven;
        extend(engine);
    }
    chain->proven = ZKL_LONG_AGO;
    if (chain->round_over) {
        chain->round_over = false;
        engine->check_at = next_round(engine);
    }
}

void zkl_lease_prove(zkl_engine *engine, int64_t sent_at)
{
    if (!engine->lease || engine->session_id == 0) {
        return;
    }
    int64_t soon = engine->now + SPEAK_EVERY(zkl_session_timeout(engine));
    engine->check_at = engine->check_at < soon ? engine->check_at : soon; /* there may be a node now */
    engine->alive_at = later(engine->alive_at, sent_at);
    extend(engine);
}

/* Returns whether the session has, or may get, anything that a new session would not have. */
static bool has_something(const zkl_engine *engine)
{
    if (engine->nodes > 0 || engine->own_ephemerals || !LIST_EMPTY(&engine->user_watches)) {
        return true;
    }
    const zkl_entry *entry;
    TAILQ_FOREACH(entry, &engine->entries, all)
    {
        if (entry->state == ZKL_ENTRY_JOINING || entry->state == ZKL_ENTRY_RECOVERING) {
            return true;
        }
    }
    return false;
}

static bool wants_session(const zkl_engine *engine)
{
    const zkl_chain *chain = &engine->chain;
    return !chain->sound && engine->now < chain->unbroken_since + ENDED_WITHIN(zkl_session_timeout(engine)) &&
           !has_something(engine);
}

bool zkl_lease_wants_session(const zkl_engine *engine)
{
    return engine->lease && !engine->chain.begins && !TAILQ_EMPTY(&engine->entries) && engine->in_flight == 0 &&
           wants_session(engine);
}

static bool any_confirming(const zkl_engine *engine)
{
    const zkl_entry *entry;
    TAILQ_FOREACH(entry, &engine->entries, all)
    {
        if (entry->state == ZKL_ENTRY_CONFIRMING && entry->role != ZKL_ROLE_QUEUE_ENTRY) {
            return true;
        }
    }
    return false;
}

int64_t zkl_lease_waits_until(const zkl_engine *engine)
{
    bool waits = engine->lease && engine->confirming;
    return waits ? engine->confirming_since + GIVES_WAY_AFTER(zkl_session_timeout(engine)) : ZKL_NEVER;
}

bool zkl_lease_waits_in_vain(zkl_engine *engine)
{
    if (engine->now < zkl_lease_waits_until(engine)) {
        return false;
    }
    engine->confirming = any_confirming(engine); /* false: the entry that needed a lease has left */
    return engine->confirming;
}

bool zkl_lease_holds_back(const zkl_engine *engine)
{
    return engine->lease && (engine->chain.begins || wants_session(engine));
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

static int64_t check_bytes(const zkl_entry *entry)
{
    return entry->engine->chroot_length + (int64_t)strlen(entry->node) + CHECK_OVERHEAD;
}

/* Returns whether a heartbeat has no room for another entry. */
static bool is_full(const struct zkl_checks *checks, const zkl_entry *entry)
{
    return checks->count == CHECKS_AT_ONCE || checks->bytes + check_bytes(entry) > CHECKED_BYTES_AT_ONCE;
}

static void add_check(struct zkl_checks *checks, zkl_entry *entry)
{
    checks->items[checks->count] = (struct zkl_check){entry, entry->generation};
    zoo_check_op_init(&checks->ops[checks->count], entry->node, -1);
    checks->results[checks->count].err = ZRUNTIMEINCONSISTENCY; /* stays if the answer says nothing about this node */
    entry->flying++;
    checks->count++;
    checks->bytes += check_bytes(entry);
}

/* Frees a heartbeat of which nothing is in flight, or still to be sent. */
static void free_heartbeat(struct zkl_checks *checks)
{
    for (int32_t i = 0; i < checks->count; i++) {
        zkl_entry_request_completed(checks->items[i].entry);
    }
    free_checks(checks);
}

static void send_checks(zkl_engine *engine, struct zkl_checks *checks)
{
    if (!zkl_send_checks(engine, checks)) {
        free_heartbeat(checks);
        return;
    }
    checks->sent_at = engine->now;
    checks->connection = engine->connection;
    checks->flying = 1;
    TAILQ_INSERT_TAIL(&engine->checks, checks, all);
    engine->checks_flying++;
    engine->stats.heartbeats++;
    zkl_lease_verify_next(engine);
}

static bool needs_check(const zkl_entry *entry)
{
    return entry->node != NULL && (entry->state == ZKL_ENTRY_QUEUED || entry->state == ZKL_ENTRY_CONFIRMING ||
                                   entry->state == ZKL_ENTRY_GRANTED);
}

/* Returns whether the entry is unchanged since the heartbeat, and holds by its node, or will when the lease is proven. */
static bool needs_verification(const struct zkl_check *check)
{
    bool holds = check->entry->state == ZKL_ENTRY_GRANTED || check->entry->state == ZKL_ENTRY_CONFIRMING;
    return check->generation == check->entry->generation && holds && !ZKL_BROKEN(ZKL_BREAK_IMPOSTOR);
}

/* Verifies the next nodes of a heartbeat, as many as may be in flight. Returns false if some are left. */
static bool send_verifications(zkl_engine *engine, struct zkl_checks *checks)
{
    if (checks->connection != engine->connection || !zkl_session_usable(engine)) {
        checks->failed = checks->failed || checks->verifications_sent < checks->count;
    }
    while (!checks->failed && checks->verifications_sent < checks->count &&
           engine->verifications_flying < VERIFICATIONS_AT_ONCE) {
        int32_t index = checks->verifications_sent++;
        if (!needs_verification(&checks->items[index])) {
            continue;
        }
        if (zkl_send_verification(engine, checks, index)) {
            checks->flying++;
            engine->verifications_flying++;
            engine->stats.heartbeats++;
        } else {
            checks->failed = true;
        }
    }
    return checks->failed || checks->verifications_sent == checks->count;
}

void zkl_lease_verify_next(zkl_engine *engine)
{
    struct zkl_checks *checks, *next;
    for (checks = TAILQ_FIRST(&engine->checks); checks != NULL; checks = next) {
        next = TAILQ_NEXT(checks, all);
        if (!send_verifications(engine, checks) || checks->flying > 0) {
            continue;
        }
        TAILQ_REMOVE(&engine->checks, checks, all);
        engine->checks_flying--;
        engine->chain.round_over = engine->chain.round_over || engine->checks_flying == 0;
        if (!checks->failed) {
            zkl_lease_prove(engine, checks->sent_at);
        }
        free_heartbeat(checks);
    }
}

static void send_all_checks(zkl_engine *engine)
{
    struct zkl_checks *checks = NULL;
    zkl_entry *entry;
    TAILQ_FOREACH(entry, &engine->entries, all)
    {
        if (!needs_check(entry)) {
            continue;
        }
        if (checks != NULL && is_full(checks, entry)) {
            send_checks(engine, checks);
            checks = NULL;
        }
        if (checks == NULL && (checks = new_checks(CHECKS_AT_ONCE)) == NULL) {
            engine->check_at = engine->now + PAUSE_AFTER; /* no memory: the lease runs on meanwhile */
            return;
        }
        add_check(checks, entry);
    }
    if (checks != NULL) {
        send_checks(engine, checks);
    }
}

/* Sends a sync, the request of a round that is no heartbeat. `last`: no request of the round follows it. */
static void send_pulse(zkl_engine *engine, bool last)
{
    if (zkl_send_pulse(engine, last)) {
        engine->checks_flying++;
        engine->stats.heartbeats++;
    }
}

/*
 * Sends the second request of a round without nodes. If the client has something to lose with its session, this is a
 * quorum write, so that the chain goes on over a lost connection.
 */
static void send_last(zkl_engine *engine)
{
    if (!has_something(engine) || engine->no_witness) {
        send_pulse(engine, true);
    } else if (zkl_send_witness(engine)) {
        engine->checks_flying++;
        engine->stats.heartbeats++;
    }
}

void zkl_lease_beat(zkl_engine *engine)
{
    bool only_aliveness = engine->confirming && engine->chain.sound &&
                          engine->now < engine->restarted_at + ENDED_WITHIN(zkl_session_timeout(engine));
    zkl_lease_rest(engine);
    engine->chain.round_began = engine->now;
    if (only_aliveness) {
        send_all_checks(engine); /* an entry waits for its grant: the shortest way */
    } else {
        send_pulse(engine, false);
    }
}

void zkl_lease_pulsed(zkl_request *request, int rc)
{
    zkl_engine *engine = request->engine;
    bool last = request->index != 0;
    engine->checks_flying--;
    if (request->connection != engine->connection || !zkl_session_usable(engine)) {
        return; /* the next connection has its own rounds */
    }
    if (last) {
        engine->no_witness = engine->no_witness || rc == ZNOAUTH || rc == ZNONODE;
        engine->chain.round_over = rc == ZOK;
        return;
    }
    send_all_checks(engine);
    if (engine->checks_flying == 0) {
        send_last(engine);
    }
}

/* Returns whether all checks passed. The C client reports success even if parts of the answer say otherwise, or are missing. */
static bool all_passed(const struct zkl_checks *checks)
{
    bool passed = true;
    for (int32_t i = 0; i < checks->count; i++) {
        passed = passed && checks->results[i].err == ZOK;
    }
    return passed;
}

/* Logs an answer that is neither yes nor no, unless its cause is known to pass by itself. */
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
            if (checks->results[i].err == ZNONODE && check->generation == check->entry->generation &&
                needs_check(check->entry)) {
                zkl_entry_deleted_externally(check->entry);
            }
        }
        zkl_lease_want_now(engine); /* the failed multi said nothing about the others */
    } else if (rc != ZOK) {
        note_unproven(engine, rc);
    }
    zkl_lease_verify_next(engine);
}

/*
 * Returns whether the node is the entry's own. For a downgraded reader only the session is compared. It is enough: no
 * other client has it, and this one makes no node twice under one name.
 */
static bool is_own(const zkl_entry *entry, const struct Stat *stat)
{
    return stat->ephemeralOwner == entry->engine->session_id && (entry->downgraded || stat->czxid == entry->czxid);
}

void zkl_lease_verified(zkl_request *request, int rc, const struct Stat *stat)
{
    zkl_engine *engine = request->engine;
    struct zkl_checks *checks = request->about.checks;
    const struct zkl_check *check = &checks->items[request->index];
    checks->flying--;
    engine->verifications_flying--;
    if (rc == ZNONODE || rc == ZOK) {
        /* Without the node that is lost the heartbeat proves as much as before. */
        if (needs_verification(check) && rc == ZNONODE) {
            zkl_entry_deleted_externally(check->entry);
        } else if (needs_verification(check) && !is_own(check->entry, stat)) {
            zkl_entry_replaced(check->entry);
        }
    } else {
        checks->failed = true;
        note_unproven(engine, rc);
    }
    zkl_lease_verify_next(engine);
}
