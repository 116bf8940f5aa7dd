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
 * another sync, or a version check of "/" if the program has ephemeral nodes or watches. zkl_lease_round_every returns how far they
 * are apart. With quick round trips the known instant is less than 2T/3 old. If a round trip takes more than about
 * T/13, no lease can be kept.
 */
#include "lease.h"

/* Parts of the session timeout. */
#define SPEAK_EVERY(timeout) ((timeout) / 5)
#define PINGED_WITHIN(timeout) ((timeout) / 10 * 3)
#define LIVES_FOR(timeout) ((timeout) / 10 * 9)
#define ENDED_WITHIN(timeout) ((timeout) / 2)
#define GIVES_WAY_AFTER(timeout) ((timeout) / 2 * 3)

void zkl_lease_init(zkl_lease *lease, bool required)
{
    *lease = (zkl_lease){
        .required = required,
        .until = required ? 0 : ZKL_NEVER,
        .awaited_since = ZKL_NEVER,
    };
}

bool zkl_lease_valid(const zkl_lease *lease, int64_t now)
{
    return !lease->required || now < lease->until || ZKL_BROKEN(ZKL_BREAK_LEASE);
}

bool zkl_lease_lapsed(const zkl_lease *lease, int64_t now)
{
    return !zkl_lease_valid(lease, now) && lease->until != 0 && !ZKL_BROKEN(ZKL_BREAK_LAPSE);
}

void zkl_lease_await(zkl_lease *lease, int64_t now)
{
    if (!zkl_lease_awaited(lease)) {
        lease->awaited_since = now;
    }
}

void zkl_lease_await_no_more(zkl_lease *lease)
{
    lease->awaited_since = ZKL_NEVER;
}

int64_t zkl_lease_waits_until(const zkl_lease *lease)
{
    bool waits = lease->required && zkl_lease_awaited(lease);
    return waits ? lease->awaited_since + GIVES_WAY_AFTER(lease->timeout) : ZKL_NEVER;
}

/* --- evidence ------------------------------------------------------------------------------------------------------ */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns when the latest j1 was sent for which a request that is sent now can be the w; ZKL_LONG_AGO if there is none. */
static int64_t pinged(const zkl_lease *lease, int64_t now)
{
    const zkl_chain *chain = &lease->chain;
    int32_t oldest = chain->heard_count > ZKL_HEARD ? chain->heard_count - ZKL_HEARD : 0;
    int64_t within = ZKL_BROKEN(ZKL_BREAK_PINGED) ? 0 : PINGED_WITHIN(lease->timeout);
    for (int32_t i = chain->heard_count - 1; i >= oldest; i--) {
        struct zkl_heard heard = chain->heard[i % ZKL_HEARD];
        if (heard.since <= now - within) {
            return heard.first;
        }
    }
    return ZKL_LONG_AGO;
}

zkl_evidence zkl_lease_evidence(const zkl_lease *lease, zkl_proof proof, int64_t now)
{
    zkl_evidence evidence = {lease->chain.first, ZKL_LONG_AGO, ZKL_LONG_AGO};
    if (ZKL_BROKEN(ZKL_BREAK_TWICE)) {
        evidence.first = now;
    }
    if (lease->required && proof != ZKL_PROOF_NONE) {
        evidence.reported = pinged(lease, now);
        evidence.arrived = ZKL_BROKEN(ZKL_BREAK_REPORTED) ? evidence.reported : lease->chain.reported;
    }
    return evidence;
}

/*
 * Remembers the pair of requests that this answer completes. Only pairs of some time ago are of use, so the remembered
 * ones are spread over time.
 */
static void note_heard(zkl_lease *lease, int64_t sent_at, int64_t first)
{
    zkl_chain *chain = &lease->chain;
    int64_t apart = lease->timeout / ZKL_HEARD;
    if (first == ZKL_LONG_AGO ||
        (chain->heard_count > 0 && first < chain->heard[(chain->heard_count - 1) % ZKL_HEARD].first + apart)) {
        return;
    }
    int64_t since = ZKL_BROKEN(ZKL_BREAK_ARRIVAL) ? sent_at : ZKL_NEVER;
    chain->heard[chain->heard_count++ % ZKL_HEARD] = (struct zkl_heard){first, since};
}

void zkl_lease_answered(zkl_lease *lease, zkl_proof proof, int64_t sent_at, const zkl_evidence *evidence)
{
    zkl_chain *chain = &lease->chain;
    note_heard(lease, sent_at, evidence->first);
    chain->first = later(chain->first, sent_at);
    if (!lease->required || proof == ZKL_PROOF_NONE) {
        return;
    }
    chain->reported = later(chain->reported, evidence->reported);
    chain->arrived = later(chain->arrived, evidence->arrived);
    if (ZKL_BROKEN(ZKL_BREAK_REACHED)) {
        chain->arrived = chain->reported;
    }
    if (proof >= ZKL_PROOF_QUORUM) {
        int64_t within = ZKL_BROKEN(ZKL_BREAK_ENDED) ? 0 : ENDED_WITHIN(lease->timeout);
        if (chain->state == ZKL_CHAIN_BROKEN && sent_at >= chain->unbroken_since + within) {
            chain->state = ZKL_CHAIN_SOUND; /* the session would have ended by now */
        }
        chain->proven = later(chain->restarted_at, chain->arrived);
        if (chain->state == ZKL_CHAIN_SOUND) {
            lease->restarted_at = later(lease->restarted_at, chain->restarted_at);
        }
    }
}

/* Returns whether this turn is less than 9T/10 after `before`. */
static bool is_unbroken(const zkl_lease *lease, int64_t before, int64_t now)
{
    return now < before + LIVES_FOR(lease->timeout) || ZKL_BROKEN(ZKL_BREAK_CHAIN);
}

int64_t zkl_lease_connected(zkl_lease *lease, int64_t timeout, int64_t at, bool fresh, int64_t now)
{
    lease->timeout = timeout;
    if (zkl_lease_awaited(lease)) {
        lease->awaited_since = now;
    }
    lease->chain = (zkl_chain){.first = ZKL_LONG_AGO,
                               .reported = ZKL_LONG_AGO,
                               .arrived = ZKL_LONG_AGO,
                               .proven = ZKL_LONG_AGO,
                               .restarted_at = at,
                               .unbroken_since = at,
                               .state = fresh ? ZKL_CHAIN_SOUND : ZKL_CHAIN_BEGINS};
    if (fresh) { /* the session was created by a quorum write */
        lease->restarted_at = at;
        lease->alive_at = ZKL_LONG_AGO;
    }
    if (fresh || !lease->required || lease->until == 0 || ZKL_BROKEN(ZKL_BREAK_RESTART)) {
        return lease->until;
    }
    /* The server has restarted the timer with the timeout that it has just negotiated, which may be shorter. */
    int64_t certain = at + LIVES_FOR(lease->timeout);
    return certain < lease->until ? certain : lease->until;
}

bool zkl_lease_date_answers(zkl_lease *lease, int64_t now)
{
    zkl_chain *chain = &lease->chain;
    for (int32_t i = chain->heard_count - 1; i >= 0 && i >= chain->heard_count - ZKL_HEARD; i--) {
        struct zkl_heard *heard = &chain->heard[i % ZKL_HEARD];
        if (heard->since != ZKL_NEVER) {
            break;
        }
        heard->since = now;
    }
    if (chain->state == ZKL_CHAIN_BEGINS) {
        chain->state = is_unbroken(lease, lease->restarted_at, now) ? ZKL_CHAIN_SOUND : ZKL_CHAIN_BROKEN;
        chain->unbroken_since = now;
    }
    if (chain->arrived > chain->restarted_at) {
        if (!is_unbroken(lease, chain->restarted_at, now)) {
            chain->state = ZKL_CHAIN_BROKEN;
            chain->unbroken_since = now;
        }
        chain->restarted_at = chain->arrived;
    }
    bool proven = chain->state == ZKL_CHAIN_SOUND && chain->proven > lease->restarted_at;
    if (proven) {
        lease->restarted_at = chain->proven;
    }
    chain->proven = ZKL_LONG_AGO;
    return proven;
}

void zkl_lease_prove(zkl_lease *lease, int64_t sent_at)
{
    lease->alive_at = later(lease->alive_at, sent_at);
}

int64_t zkl_lease_proven_until(const zkl_lease *lease)
{
    if (lease->alive_at == ZKL_LONG_AGO) {
        return 0;
    }
    int64_t until = lease->alive_at + lease->timeout / 2;
    int64_t certain = lease->restarted_at + LIVES_FOR(lease->timeout);
    return certain < until && !ZKL_BROKEN(ZKL_BREAK_RESTART) ? certain : until;
}

bool zkl_lease_doubtful(const zkl_lease *lease, int64_t now)
{
    return lease->chain.state != ZKL_CHAIN_SOUND && now < lease->chain.unbroken_since + ENDED_WITHIN(lease->timeout);
}

bool zkl_lease_lacks_heartbeat_only(const zkl_lease *lease, int64_t now)
{
    return zkl_lease_awaited(lease) && lease->chain.state == ZKL_CHAIN_SOUND &&
           now < lease->restarted_at + ENDED_WITHIN(lease->timeout);
}

/* --- rounds -------------------------------------------------------------------------------------------------------- */

int64_t zkl_lease_speak_every(const zkl_lease *lease)
{
    return SPEAK_EVERY(lease->timeout);
}

int64_t zkl_lease_round_every(const zkl_lease *lease, int64_t took, bool often)
{
    int64_t until_w = PINGED_WITHIN(lease->timeout) + took + lease->timeout / 100;
    int64_t rounds = often || took > lease->timeout / 20 ? until_w / SPEAK_EVERY(lease->timeout) + 1 : 1;
    return until_w / rounds / (ZKL_SECOND / 1000) * (ZKL_SECOND / 1000);
}
