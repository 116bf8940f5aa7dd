/*
 * lease: how long the session certainly exists. heartbeat.c keeps it alive.
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
 * Then the timer was restarted at the instant at which j1 was sent, or later. Requests with more than ZKL_PROOF_NONE can be
 * w or k. Every request can be j1 or j2. Each request remembers what its answer will prove (zkl_evidence). So one request
 * can play all parts at the same time, and a busy client proves its lease by the requests that it sends anyway.
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

#include "session.h"

/* Parts of the session timeout. */
#define SPEAK_EVERY(timeout) ((timeout) / 5)
#define PINGED_WITHIN(timeout) ((timeout) / 10 * 3)
#define LIVES_FOR(timeout) ((timeout) / 10 * 9)
#define ENDED_WITHIN(timeout) ((timeout) / 2)
#define GIVES_WAY_AFTER(timeout) ((timeout) / 2 * 3)

void zkl_lease_init(zkl_session *session, bool required)
{
    session->lease.required = required;
    session->lease.until = required ? 0 : ZKL_NEVER;
    session->lease.check_at = ZKL_NEVER;
    session->lease.confirming_since = ZKL_NEVER;
    TAILQ_INIT(&session->lease.checks);
}

void zkl_lease_use_items(zkl_session *session, const zkl_lease_items *items, void *owner)
{
    session->lease.items = items;
    session->lease.items_owner = owner;
}

bool zkl_lease_valid(const zkl_session *session)
{
    return !session->lease.required || session->now < session->lease.until || ZKL_BROKEN(ZKL_BREAK_LEASE);
}

/*
 * If leases are turned off, only the connection shows that the session exists. Grants are kept without a connection,
 * but a new grant needs it.
 */
bool zkl_lease_covers_more(const zkl_session *session)
{
    return zkl_lease_valid(session) && (session->lease.required || zkl_session_usable(session));
}

int64_t zkl_lease_lapses_at(const zkl_session *session)
{
    bool matters = session->lease.required && session->lease.nodes > 0 && session->lease.until > session->now;
    return matters ? session->lease.until : ZKL_NEVER;
}

void zkl_lease_lapse(zkl_session *session)
{
    if (zkl_lease_valid(session) || session->lease.until == 0 || ZKL_BROKEN(ZKL_BREAK_LAPSE)) {
        return;
    }
    ZKL_TELL(session, lapsed, each->owner);
}

/* --- evidence ------------------------------------------------------------------------------------------------------ */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns when the latest j1 was sent for which a request that is sent now can be the w; ZKL_LONG_AGO if there is none. */
static int64_t pinged(const zkl_session *session)
{
    const zkl_chain *chain = &session->lease.chain;
    int32_t slots = (int32_t)(sizeof chain->heard / sizeof *chain->heard);
    int32_t oldest = chain->heard_count > slots ? chain->heard_count - slots : 0;
    int64_t within = ZKL_BROKEN(ZKL_BREAK_PINGED) ? 0 : PINGED_WITHIN(zkl_session_timeout(session));
    for (int32_t i = chain->heard_count - 1; i >= oldest; i--) {
        struct zkl_heard heard = chain->heard[i % slots];
        if (heard.since <= session->now - within) {
            return heard.first;
        }
    }
    return ZKL_LONG_AGO;
}

zkl_evidence zkl_lease_evidence(const zkl_session *session, zkl_proof proof)
{
    zkl_evidence evidence = {session->lease.chain.first, ZKL_LONG_AGO, ZKL_LONG_AGO};
    if (ZKL_BROKEN(ZKL_BREAK_TWICE)) {
        evidence.first = session->now;
    }
    if (session->lease.required && proof != ZKL_PROOF_NONE) {
        evidence.reported = pinged(session);
        evidence.arrived = ZKL_BROKEN(ZKL_BREAK_REPORTED) ? evidence.reported : session->lease.chain.reported;
    }
    return evidence;
}

/*
 * Remembers the pair of requests that this answer completes. Only pairs of some time ago are of use, so the remembered
 * ones are spread over time.
 */
static void note_heard(zkl_session *session, const zkl_request *request)
{
    zkl_chain *chain = &session->lease.chain;
    int32_t slots = (int32_t)(sizeof chain->heard / sizeof *chain->heard);
    int64_t first = request->evidence.first;
    int64_t apart = zkl_session_timeout(session) / slots;
    if (first == ZKL_LONG_AGO ||
        (chain->heard_count > 0 && first < chain->heard[(chain->heard_count - 1) % slots].first + apart)) {
        return;
    }
    int64_t since = ZKL_BROKEN(ZKL_BREAK_ARRIVAL) ? request->sent_at : ZKL_NEVER;
    chain->heard[chain->heard_count++ % slots] = (struct zkl_heard){first, since};
}

void zkl_lease_answered(const zkl_request *request)
{
    zkl_session *session = request->session;
    zkl_chain *chain = &session->lease.chain;
    note_heard(session, request);
    chain->first = later(chain->first, request->sent_at);
    if (!session->lease.required || request->proof == ZKL_PROOF_NONE) {
        return;
    }
    chain->reported = later(chain->reported, request->evidence.reported);
    chain->arrived = later(chain->arrived, request->evidence.arrived);
    if (ZKL_BROKEN(ZKL_BREAK_REACHED)) {
        chain->arrived = chain->reported;
    }
    if (request->proof >= ZKL_PROOF_QUORUM) {
        int64_t within = ZKL_BROKEN(ZKL_BREAK_ENDED) ? 0 : ENDED_WITHIN(zkl_session_timeout(session));
        if (chain->state == ZKL_CHAIN_BROKEN && request->sent_at >= chain->unbroken_since + within) {
            chain->state = ZKL_CHAIN_SOUND; /* the session would have ended by now */
        }
        chain->proven = later(chain->restarted_at, chain->arrived);
        if (chain->state == ZKL_CHAIN_SOUND) {
            session->lease.restarted_at = later(session->lease.restarted_at, chain->restarted_at);
        }
    }
}

/* Returns whether this turn is less than 9T/10 after `before`. */
static bool is_unbroken(const zkl_session *session, int64_t before)
{
    return session->now < before + LIVES_FOR(zkl_session_timeout(session)) || ZKL_BROKEN(ZKL_BREAK_CHAIN);
}

static void break_chain(zkl_session *session)
{
    session->lease.chain.state = ZKL_CHAIN_BROKEN;
    session->lease.chain.unbroken_since = session->now;
}

/* Returns whether an item waits for a lease. */
static bool is_awaited(const zkl_session *session)
{
    return session->lease.confirming_since != ZKL_NEVER;
}

void zkl_lease_connected(zkl_session *session, bool fresh)
{
    if (is_awaited(session)) {
        session->lease.confirming_since = session->now;
    }
    session->lease.check_at = session->now;
    if (fresh) {
        session->lease.own_ephemerals = session->lease.no_witness = false;
    }
    session->lease.chain = (zkl_chain){.first = ZKL_LONG_AGO,
                                       .reported = ZKL_LONG_AGO,
                                       .arrived = ZKL_LONG_AGO,
                                       .proven = ZKL_LONG_AGO,
                                       .restarted_at = session->handshake_at,
                                       .unbroken_since = session->handshake_at,
                                       .state = fresh ? ZKL_CHAIN_SOUND : ZKL_CHAIN_BEGINS};
    if (fresh) { /* the session was created by a quorum write */
        session->lease.restarted_at = session->handshake_at;
        session->lease.alive_at = ZKL_LONG_AGO;
        return;
    }
    /* The server has restarted the timer with the timeout that it has just negotiated, which may be shorter. */
    int64_t certain = session->handshake_at + LIVES_FOR(zkl_session_timeout(session));
    if (session->lease.required && session->lease.until != 0 && certain < session->lease.until &&
        !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        zkl_lease_lapse(session);
        session->lease.until = certain;
        session->host.lease_changed(session->host.context, certain);
        zkl_lease_lapse(session);
    }
}

void zkl_lease_end(zkl_session *session)
{
    session->lease.check_at = ZKL_NEVER;
    session->lease.confirming_since = ZKL_NEVER;
    if (session->lease.required && session->lease.until != 0 && !ZKL_BROKEN(ZKL_BREAK_OWNER)) {
        session->lease.until = 0;
        session->host.lease_changed(session->host.context, 0);
    }
}

/* Moves the end of the lease as far as is proven by now, and tells the listeners that have waited for a lease. */
static void extend(zkl_session *session)
{
    int64_t until = session->lease.alive_at + zkl_session_timeout(session) / 2;
    int64_t certain = session->lease.restarted_at + LIVES_FOR(zkl_session_timeout(session));
    if (certain < until && !ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        until = certain;
    }
    if (session->session_id == 0 || session->lease.alive_at == ZKL_LONG_AGO || until <= session->lease.until) {
        return;
    }
    zkl_lease_lapse(session);
    session->lease.until = until;
    session->host.lease_changed(session->host.context, ZKL_BROKEN(ZKL_BREAK_LEASE) ? ZKL_NEVER : until);
    if (is_awaited(session) && zkl_lease_valid(session)) {
        session->lease.confirming_since = ZKL_NEVER;
        ZKL_TELL(session, leased, each->owner);
    }
}

/*
 * Returns the start of the next round, which is at the latest when the answers of this round are old enough for the
 * next one to be their w. The rounds before that are spread evenly, so that each round finds the answers of another one
 * just old enough. They are at most T/5 apart. A client without nodes needs no rounds in between, unless round trips
 * take so long that each instant would become known too late.
 */
static int64_t next_round(const zkl_session *session)
{
    int64_t timeout = zkl_session_timeout(session);
    int64_t took =
        later(session->now - session->lease.chain.round_began, 0); /* a caller may have read its clock earlier */
    int64_t until_w = PINGED_WITHIN(timeout) + took + timeout / 100;
    bool often = session->lease.nodes > 0 || took > timeout / 20;
    int64_t rounds = often ? until_w / SPEAK_EVERY(timeout) + 1 : 1;
    int64_t apart = until_w / rounds / (ZKL_SECOND / 1000) * (ZKL_SECOND / 1000);
    return later(session->now, session->lease.chain.round_began + apart);
}

void zkl_lease_date_answers(zkl_session *session)
{
    zkl_chain *chain = &session->lease.chain;
    if (!session->lease.required || !zkl_session_connected(session)) {
        return;
    }
    int32_t slots = (int32_t)(sizeof chain->heard / sizeof *chain->heard);
    for (int32_t i = chain->heard_count - 1; i >= 0 && i >= chain->heard_count - slots; i--) {
        struct zkl_heard *heard = &chain->heard[i % slots];
        if (heard->since != ZKL_NEVER) {
            break;
        }
        heard->since = session->now;
    }
    if (chain->state == ZKL_CHAIN_BEGINS) {
        chain->state = is_unbroken(session, session->lease.restarted_at) ? ZKL_CHAIN_SOUND : ZKL_CHAIN_BROKEN;
        chain->unbroken_since = session->now;
    }
    if (chain->arrived > chain->restarted_at) {
        if (!is_unbroken(session, chain->restarted_at)) {
            break_chain(session);
        }
        chain->restarted_at = chain->arrived;
    }
    if (chain->state == ZKL_CHAIN_SOUND && chain->proven > session->lease.restarted_at) {
        session->lease.restarted_at = chain->proven;
        extend(session);
    }
    chain->proven = ZKL_LONG_AGO;
    if (chain->round_over) {
        chain->round_over = false;
        session->lease.check_at = next_round(session);
    }
}

void zkl_lease_prove(zkl_session *session, int64_t sent_at)
{
    if (!session->lease.required || session->session_id == 0) {
        return;
    }
    int64_t soon = session->now + SPEAK_EVERY(zkl_session_timeout(session));
    session->lease.check_at =
        session->lease.check_at < soon ? session->lease.check_at : soon; /* there may be a node now */
    session->lease.alive_at = later(session->lease.alive_at, sent_at);
    extend(session);
}

/* Returns whether the session has, or may get, anything that a new session would not have. */
bool zkl_lease_has_something(const zkl_session *session)
{
    if (session->lease.nodes > 0 || session->lease.own_ephemerals || session->lease.program_watches > 0) {
        return true;
    }
    void *item;
    ZKL_FOREACH_ITEM(item, session)
    {
        if (session->lease.items->describe(item).state == ZKL_ITEM_PENDING) {
            return true;
        }
    }
    return false;
}

static bool wants_session(const zkl_session *session)
{
    const zkl_chain *chain = &session->lease.chain;
    return chain->state != ZKL_CHAIN_SOUND &&
           session->now < chain->unbroken_since + ENDED_WITHIN(zkl_session_timeout(session)) &&
           !zkl_lease_has_something(session);
}

bool zkl_lease_wants_session(const zkl_session *session)
{
    return session->lease.required && session->lease.chain.state == ZKL_CHAIN_BROKEN &&
           session->requests.in_flight == 0 && session->lease.items->next(session->lease.items_owner, NULL) != NULL &&
           wants_session(session);
}

static bool any_needs_lease(const zkl_session *session)
{
    void *item;
    ZKL_FOREACH_ITEM(item, session)
    {
        if (session->lease.items->describe(item).needs_lease) {
            return true;
        }
    }
    return false;
}

int64_t zkl_lease_decides_at(const zkl_session *session)
{
    const zkl_chain *chain = &session->lease.chain;
    if (!zkl_session_usable(session) || !session->lease.required) {
        return ZKL_NEVER;
    }
    bool undecided =
        chain->state == ZKL_CHAIN_BEGINS || (chain->state == ZKL_CHAIN_BROKEN && zkl_lease_wants_session(session));
    return chain->round_over || undecided ? session->now : zkl_lease_waits_until(session);
}

int64_t zkl_lease_waits_until(const zkl_session *session)
{
    bool waits = session->lease.required && is_awaited(session);
    return waits ? session->lease.confirming_since + GIVES_WAY_AFTER(zkl_session_timeout(session)) : ZKL_NEVER;
}

bool zkl_lease_waits_in_vain(zkl_session *session)
{
    if (!is_awaited(session) || session->now < zkl_lease_waits_until(session)) {
        return false;
    }
    if (!any_needs_lease(session)) {
        session->lease.confirming_since = ZKL_NEVER; /* the item that needed a lease has left */
    }
    return is_awaited(session);
}

bool zkl_lease_holds_back(const zkl_session *session)
{
    return session->lease.required && (session->lease.chain.state == ZKL_CHAIN_BEGINS || wants_session(session));
}

void zkl_lease_want_now(zkl_session *session)
{
    session->lease.check_at = session->now;
}

void zkl_lease_want(zkl_session *session)
{
    if (!is_awaited(session)) {
        session->lease.confirming_since = session->now;
    }
    if (session->lease.checks_flying == 0) {
        zkl_lease_want_now(session);
    }
}

void zkl_lease_rest(zkl_session *session)
{
    session->lease.check_at = session->now + SPEAK_EVERY(zkl_session_timeout(session));
}

bool zkl_lease_lacks_heartbeat_only(const zkl_session *session)
{
    return is_awaited(session) && session->lease.chain.state == ZKL_CHAIN_SOUND &&
           session->now < session->lease.restarted_at + ENDED_WITHIN(zkl_session_timeout(session));
}
