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
 * Then the timer was restarted at the instant at which j1 was sent, or later. Requests with more
 * than ZKL_PROOF_NONE can be w or k. Every request can be j1 or j2. Each request remembers what its answer will prove (zkl_evidence). So one
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

#include "engine/engine_private.h"

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

int64_t zkl_lease_lapses_at(const zkl_engine *engine)
{
    bool matters = engine->lease && engine->nodes > 0 && engine->lease_until > engine->now;
    return matters ? engine->lease_until : ZKL_NEVER;
}

void zkl_lease_lapse(zkl_engine *engine)
{
    if (zkl_lease_valid(engine) || engine->lease_until == 0 || ZKL_BROKEN(ZKL_BREAK_LAPSE)) {
        return;
    }
    ZKL_TELL(engine, lapsed, engine);
}

/* --- evidence ------------------------------------------------------------------------------------------------------ */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
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

zkl_evidence zkl_lease_evidence(const zkl_engine *engine, zkl_proof proof)
{
    zkl_evidence evidence = {engine->chain.first, ZKL_LONG_AGO, ZKL_LONG_AGO};
    if (ZKL_BROKEN(ZKL_BREAK_TWICE)) {
        evidence.first = engine->now;
    }
    if (engine->lease && proof != ZKL_PROOF_NONE) {
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
    if (!engine->lease || request->proof == ZKL_PROOF_NONE) {
        return;
    }
    chain->reported = later(chain->reported, request->evidence.reported);
    chain->arrived = later(chain->arrived, request->evidence.arrived);
    if (ZKL_BROKEN(ZKL_BREAK_REACHED)) {
        chain->arrived = chain->reported;
    }
    if (request->proof >= ZKL_PROOF_QUORUM) {
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

/* Moves the end of the lease as far as is proven by now, and tells the listeners that have waited for a lease. */
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
        ZKL_TELL(engine, leased, engine);
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

/* Loops over all items. */
#define FOREACH_ITEM(item, engine)                                                                                     \
    for ((item) = (engine)->items->next(engine, NULL); (item) != NULL; (item) = (engine)->items->next(engine, item))

/* Returns whether the session has, or may get, anything that a new session would not have. */
static bool has_something(const zkl_engine *engine)
{
    if (engine->nodes > 0 || engine->own_ephemerals || engine->program_watches > 0) {
        return true;
    }
    void *item;
    FOREACH_ITEM(item, engine)
    {
        if (engine->items->describe(item).state == ZKL_ITEM_PENDING) {
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
    return engine->lease && !engine->chain.begins && engine->items->next(engine, NULL) != NULL &&
           engine->in_flight == 0 && wants_session(engine);
}

static bool any_needs_lease(const zkl_engine *engine)
{
    void *item;
    FOREACH_ITEM(item, engine)
    {
        if (engine->items->describe(item).needs_lease) {
            return true;
        }
    }
    return false;
}

int64_t zkl_lease_decides_at(const zkl_engine *engine)
{
    bool at_once = zkl_session_usable(engine) && engine->lease &&
                   (engine->chain.begins || engine->chain.round_over || zkl_lease_wants_session(engine));
    return at_once ? engine->now : zkl_session_usable(engine) ? zkl_lease_waits_until(engine) : ZKL_NEVER;
}

int64_t zkl_lease_beat_at(const zkl_engine *engine)
{
    bool may_beat = engine->lease && zkl_session_usable(engine) && engine->checks_flying == 0;
    return may_beat ? engine->check_at : ZKL_NEVER;
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
    engine->confirming = any_needs_lease(engine); /* false: the item that needed a lease has left */
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

void zkl_lease_want(zkl_engine *engine)
{
    if (!engine->confirming) {
        engine->confirming = true;
        engine->confirming_since = engine->now;
    }
    if (engine->checks_flying == 0) {
        zkl_lease_want_now(engine);
    }
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

static struct zkl_checks *new_checks(zkl_engine *engine, int32_t capacity)
{
    struct zkl_checks *checks = zkl_alloc(sizeof *checks);
    if (checks == NULL) {
        return NULL;
    }
    checks->engine = engine;
    checks->items = zkl_alloc((size_t)capacity * sizeof *checks->items);
    checks->ops = zkl_alloc((size_t)capacity * sizeof *checks->ops);
    checks->results = zkl_alloc((size_t)capacity * sizeof *checks->results);
    if (checks->items == NULL || checks->ops == NULL || checks->results == NULL) {
        free_checks(checks);
        return NULL;
    }
    return checks;
}

static int64_t check_bytes(const zkl_engine *engine, const char *path)
{
    return engine->chroot_length + (int64_t)strlen(path) + CHECK_OVERHEAD;
}

/* Returns whether a heartbeat has no room for another node. */
static bool is_full(const struct zkl_checks *checks, const char *path)
{
    return checks->count == CHECKS_AT_ONCE || checks->bytes + check_bytes(checks->engine, path) > CHECKED_BYTES_AT_ONCE;
}

static void add_check(struct zkl_checks *checks, void *item, const zkl_item *facts)
{
    checks->items[checks->count] = (struct zkl_check){item, facts->generation};
    zoo_check_op_init(&checks->ops[checks->count], facts->path, -1);
    checks->results[checks->count].err = ZRUNTIMEINCONSISTENCY; /* stays if the answer says nothing about this node */
    checks->engine->items->keep(item);
    checks->count++;
    checks->bytes += check_bytes(checks->engine, facts->path);
}

/* Frees a heartbeat of which nothing is in flight, or still to be sent. */
static void free_heartbeat(struct zkl_checks *checks)
{
    for (int32_t i = 0; i < checks->count; i++) {
        checks->engine->items->release(checks->items[i].item);
    }
    free_checks(checks);
}

static void on_checked(void *owner, int rc, const zkl_reply *reply);
static void on_verified(void *owner, int rc, const zkl_reply *reply);
static void on_pulsed(void *owner, int rc, const zkl_reply *reply);

static void send_checks(zkl_engine *engine, struct zkl_checks *checks)
{
    const zkl_ask ask = {.on_reply = on_checked, .owner = checks, .proof = ZKL_PROOF_HEARTBEAT};
    if (zkl_send_multi(engine, &ask, checks->count, checks->ops, checks->results) != ZOK) {
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

static bool needs_check(const zkl_item *facts)
{
    return facts->path != NULL && (facts->state == ZKL_ITEM_PRESENT || facts->state == ZKL_ITEM_HELD);
}

/* Returns whether the item is unchanged since the heartbeat, and is held, or will be when the lease is proven. */
static bool needs_verification(const struct zkl_check *check, const zkl_item *facts)
{
    return check->generation == facts->generation && facts->state == ZKL_ITEM_HELD && !ZKL_BROKEN(ZKL_BREAK_IMPOSTOR);
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
        const zkl_item facts = engine->items->describe(checks->items[index].item);
        if (!needs_verification(&checks->items[index], &facts)) {
            continue;
        }
        const zkl_ask ask = {.on_reply = on_verified, .owner = checks, .tag = index};
        if (zkl_send_exists(engine, &ask, facts.path, NULL, NULL) == ZOK) {
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
    void *item;
    FOREACH_ITEM(item, engine)
    {
        const zkl_item facts = engine->items->describe(item);
        if (!needs_check(&facts)) {
            continue;
        }
        if (checks != NULL && is_full(checks, facts.path)) {
            send_checks(engine, checks);
            checks = NULL;
        }
        if (checks == NULL && (checks = new_checks(engine, CHECKS_AT_ONCE)) == NULL) {
            engine->check_at = engine->now + PAUSE_AFTER; /* no memory: the lease runs on meanwhile */
            return;
        }
        add_check(checks, item, &facts);
    }
    if (checks != NULL) {
        send_checks(engine, checks);
    }
}

/* Sends a sync, the request of a round that is no heartbeat. `last`: no request of the round follows it. */
static void send_pulse(zkl_engine *engine, bool last)
{
    const zkl_ask ask = {.on_reply = on_pulsed, .owner = engine, .tag = last, .proof = ZKL_PROOF_LEADER};
    if (zkl_send_sync(engine, &ask, "/") == ZOK) {
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
        return;
    }
    const zkl_ask ask = {.on_reply = on_pulsed, .owner = engine, .tag = 1, .proof = ZKL_PROOF_QUORUM};
    zoo_check_op_init(&engine->witness, "/", -1);
    if (zkl_send_multi(engine, &ask, 1, &engine->witness, &engine->witness_result) == ZOK) {
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

/* Handles the reply to a round's request that is no heartbeat. Its tag: whether it was the last one of the round. */
static void on_pulsed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_engine *engine = owner;
    bool last = reply->tag != 0;
    engine->checks_flying--;
    if (reply->connection != engine->connection || !zkl_session_usable(engine)) {
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

/* Handles the reply to a heartbeat. */
static void on_checked(void *owner, int rc, const zkl_reply *reply)
{
    (void)reply;
    struct zkl_checks *checks = owner;
    zkl_engine *engine = checks->engine;
    checks->flying--;
    rc = rc == ZOK && !all_passed(checks) ? ZMARSHALLINGERROR : rc;
    rc = rc == ZNONODE && ZKL_BROKEN(ZKL_BREAK_EVICTED) ? ZOK : rc;
    checks->failed = checks->failed || rc != ZOK;
    if (rc == ZNONODE) {
        for (int32_t i = 0; i < checks->count; i++) {
            const struct zkl_check *check = &checks->items[i];
            const zkl_item facts = engine->items->describe(check->item);
            if (checks->results[i].err == ZNONODE && check->generation == facts.generation && needs_check(&facts)) {
                engine->items->deleted(check->item);
            }
        }
        zkl_lease_want_now(engine); /* the failed multi said nothing about the others */
    } else if (rc != ZOK) {
        note_unproven(engine, rc);
    }
    zkl_lease_verify_next(engine);
}

/* Returns whether the node is our own. */
static bool is_own(const zkl_engine *engine, const zkl_item *facts, const struct Stat *stat)
{
    return stat->ephemeralOwner == engine->session_id && (facts->any_czxid || stat->czxid == facts->czxid);
}

/* Handles the reply to the verification of the node whose index is the request's tag. */
static void on_verified(void *owner, int rc, const zkl_reply *reply)
{
    struct zkl_checks *checks = owner;
    zkl_engine *engine = checks->engine;
    const struct zkl_check *check = &checks->items[reply->tag];
    checks->flying--;
    engine->verifications_flying--;
    if (rc == ZNONODE || rc == ZOK) {
        /* Without the node that is lost the heartbeat proves as much as before. */
        const zkl_item facts = engine->items->describe(check->item);
        bool matters = needs_verification(check, &facts);
        if (matters && rc == ZNONODE) {
            engine->items->deleted(check->item);
        } else if (matters && !is_own(engine, &facts, reply->stat)) {
            engine->items->replaced(check->item);
        }
    } else {
        checks->failed = true;
        note_unproven(engine, rc);
    }
    zkl_lease_verify_next(engine);
}
