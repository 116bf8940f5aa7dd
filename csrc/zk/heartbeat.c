/*
 * heartbeat: the requests that keep the session alive and its lease valid.
 *
 * A round is a sync, and when it is answered, the heartbeat: multis of version checks of our own nodes. A heartbeat counts
 * when each node that is held was verified after it too. A round without nodes ends with another sync, or with a version
 * check of "/". lease.c says why, and when the next round begins.
 */
#include <string.h>

#include "heartbeat.h"
#include "request.h"
#include "session.h"

/* The time until the next try when there was no memory for a heartbeat. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

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

/* One heartbeat: the items that it checks, and memory for the answers. */
struct zkl_checks {
    TAILQ_ENTRY(zkl_checks) all;
    zkl_session *session;
    int64_t sent_at;
    uint32_t connection;        /* the connection it was sent on; its verifications use the same one */
    int32_t flying;             /* answers that are still to come, to itself and to verifications */
    int32_t verifications_sent; /* so many of the items have had their verification sent, or need none */
    bool failed;                /* a request was not answered, or with an error: the heartbeat proves nothing */
    int32_t count;
    int64_t bytes; /* their size in the request */
    struct zkl_check {
        void *item;
        uint32_t generation;
    } * items;
    zoo_op_t *ops;
    zoo_op_result_t *results;
};

int64_t zkl_heartbeat_at(const zkl_session *session)
{
    bool may_beat = session->lease.required && zkl_session_usable(session) && session->lease.checks_flying == 0;
    return may_beat ? session->lease.check_at : ZKL_NEVER;
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

static struct zkl_checks *new_checks(zkl_session *session, int32_t capacity)
{
    struct zkl_checks *checks = zkl_alloc(sizeof *checks);
    if (checks == NULL) {
        return NULL;
    }
    checks->session = session;
    checks->items = zkl_alloc((size_t)capacity * sizeof *checks->items);
    checks->ops = zkl_alloc((size_t)capacity * sizeof *checks->ops);
    checks->results = zkl_alloc((size_t)capacity * sizeof *checks->results);
    if (checks->items == NULL || checks->ops == NULL || checks->results == NULL) {
        free_checks(checks);
        return NULL;
    }
    return checks;
}

static int64_t check_bytes(const zkl_session *session, const char *path)
{
    return session->chroot_length + (int64_t)strlen(path) + CHECK_OVERHEAD;
}

/* Returns whether a heartbeat has no room for another node. */
static bool is_full(const struct zkl_checks *checks, const char *path)
{
    return checks->count == CHECKS_AT_ONCE ||
           checks->bytes + check_bytes(checks->session, path) > CHECKED_BYTES_AT_ONCE;
}

static void add_check(struct zkl_checks *checks, void *item, const zkl_item *facts)
{
    checks->items[checks->count] = (struct zkl_check){item, facts->generation};
    zoo_check_op_init(&checks->ops[checks->count], facts->path, -1);
    checks->results[checks->count].err = ZRUNTIMEINCONSISTENCY; /* stays if the answer says nothing about this node */
    checks->session->lease.items->keep(item);
    checks->count++;
    checks->bytes += check_bytes(checks->session, facts->path);
}

/* Frees a heartbeat of which nothing is in flight, or still to be sent. */
static void free_heartbeat(struct zkl_checks *checks)
{
    for (int32_t i = 0; i < checks->count; i++) {
        checks->session->lease.items->release(checks->items[i].item);
    }
    free_checks(checks);
}

static void on_checked(void *owner, int rc, const zkl_reply *reply);
static void on_verified(void *owner, int rc, const zkl_reply *reply);
static void on_pulsed(void *owner, int rc, const zkl_reply *reply);

static void send_checks(zkl_session *session, struct zkl_checks *checks)
{
    const zkl_ask ask = {.on_reply = on_checked, .owner = checks, .proof = ZKL_PROOF_HEARTBEAT};
    if (zkl_send_multi(session, &ask, checks->count, checks->ops, checks->results) != ZOK) {
        free_heartbeat(checks);
        return;
    }
    checks->sent_at = session->now;
    checks->connection = session->connection;
    checks->flying = 1;
    TAILQ_INSERT_TAIL(&session->lease.checks, checks, all);
    session->lease.checks_flying++;
    session->stats.heartbeats++;
    zkl_heartbeat_verify_next(session);
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
static bool send_verifications(zkl_session *session, struct zkl_checks *checks)
{
    if (checks->connection != session->connection || !zkl_session_usable(session)) {
        checks->failed = checks->failed || checks->verifications_sent < checks->count;
    }
    while (!checks->failed && checks->verifications_sent < checks->count &&
           session->lease.verifications_flying < VERIFICATIONS_AT_ONCE) {
        int32_t index = checks->verifications_sent++;
        const zkl_item facts = session->lease.items->describe(checks->items[index].item);
        if (!needs_verification(&checks->items[index], &facts)) {
            continue;
        }
        const zkl_ask ask = {.on_reply = on_verified, .owner = checks, .tag = index};
        if (zkl_send_exists(session, &ask, facts.path, NULL, NULL) == ZOK) {
            checks->flying++;
            session->lease.verifications_flying++;
            session->stats.heartbeats++;
        } else {
            checks->failed = true;
        }
    }
    return checks->failed || checks->verifications_sent == checks->count;
}

void zkl_heartbeat_verify_next(zkl_session *session)
{
    struct zkl_checks *checks, *next;
    for (checks = TAILQ_FIRST(&session->lease.checks); checks != NULL; checks = next) {
        next = TAILQ_NEXT(checks, all);
        if (!send_verifications(session, checks) || checks->flying > 0) {
            continue;
        }
        TAILQ_REMOVE(&session->lease.checks, checks, all);
        session->lease.checks_flying--;
        session->lease.chain.round_over = session->lease.chain.round_over || session->lease.checks_flying == 0;
        if (!checks->failed) {
            zkl_lease_prove(session, checks->sent_at);
        }
        free_heartbeat(checks);
    }
}

static void send_all_checks(zkl_session *session)
{
    struct zkl_checks *checks = NULL;
    void *item;
    ZKL_FOREACH_ITEM(item, session)
    {
        const zkl_item facts = session->lease.items->describe(item);
        if (!needs_check(&facts)) {
            continue;
        }
        if (checks != NULL && is_full(checks, facts.path)) {
            send_checks(session, checks);
            checks = NULL;
        }
        if (checks == NULL && (checks = new_checks(session, CHECKS_AT_ONCE)) == NULL) {
            session->lease.check_at = session->now + PAUSE_AFTER; /* no memory: the lease runs on meanwhile */
            return;
        }
        add_check(checks, item, &facts);
    }
    if (checks != NULL) {
        send_checks(session, checks);
    }
}

/* Sends a sync, the request of a round that is no heartbeat. `last`: no request of the round follows it. */
static void send_pulse(zkl_session *session, bool last)
{
    const zkl_ask ask = {.on_reply = on_pulsed, .owner = session, .tag = last, .proof = ZKL_PROOF_LEADER};
    if (zkl_send_sync(session, &ask, "/") == ZOK) {
        session->lease.checks_flying++;
        session->stats.heartbeats++;
    }
}

/*
 * Sends the second request of a round without nodes. If the client has something to lose with its session, this is a
 * quorum write, so that the chain goes on over a lost connection.
 */
static void send_last(zkl_session *session)
{
    if (!zkl_lease_has_something(session) || session->lease.no_witness) {
        send_pulse(session, true);
        return;
    }
    const zkl_ask ask = {.on_reply = on_pulsed, .owner = session, .tag = 1, .proof = ZKL_PROOF_QUORUM};
    zoo_check_op_init(&session->lease.witness, "/", -1);
    if (zkl_send_multi(session, &ask, 1, &session->lease.witness, &session->lease.witness_result) == ZOK) {
        session->lease.checks_flying++;
        session->stats.heartbeats++;
    }
}

void zkl_heartbeat_begin(zkl_session *session)
{
    bool only_aliveness = zkl_lease_lacks_heartbeat_only(session);
    zkl_lease_rest(session);
    session->lease.chain.round_began = session->now;
    if (only_aliveness) {
        send_all_checks(session); /* an entry waits for its grant: the shortest way */
    } else {
        send_pulse(session, false);
    }
}

/* Handles the reply to a round's request that is no heartbeat. Its tag: whether it was the last one of the round. */
static void on_pulsed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_session *session = owner;
    bool last = reply->tag != 0;
    session->lease.checks_flying--;
    if (reply->connection != session->connection || !zkl_session_usable(session)) {
        return; /* the next connection has its own rounds */
    }
    if (last) {
        session->lease.no_witness = session->lease.no_witness || rc == ZNOAUTH || rc == ZNONODE;
        session->lease.chain.round_over = rc == ZOK;
        return;
    }
    send_all_checks(session);
    if (session->lease.checks_flying == 0) {
        send_last(session);
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
static void note_unproven(zkl_session *session, int rc)
{
    if (!zkl_outcome_unknown(rc) && rc != ZSESSIONEXPIRED && rc != ZINVALIDSTATE) {
        zkl_session_log(session, ZOO_LOG_LEVEL_ERROR,
                        "the lease cannot be extended: checking our own nodes gives '%s'%s", zerror(rc),
                        rc == ZNOAUTH ? " (the acl must let the client read its own node)" : "");
    }
}

/* Handles the reply to a heartbeat. */
static void on_checked(void *owner, int rc, const zkl_reply *reply)
{
    (void)reply;
    struct zkl_checks *checks = owner;
    zkl_session *session = checks->session;
    checks->flying--;
    rc = rc == ZOK && !all_passed(checks) ? ZMARSHALLINGERROR : rc;
    rc = rc == ZNONODE && ZKL_BROKEN(ZKL_BREAK_EVICTED) ? ZOK : rc;
    checks->failed = checks->failed || rc != ZOK;
    if (rc == ZNONODE) {
        for (int32_t i = 0; i < checks->count; i++) {
            const struct zkl_check *check = &checks->items[i];
            const zkl_item facts = session->lease.items->describe(check->item);
            if (checks->results[i].err == ZNONODE && check->generation == facts.generation && needs_check(&facts)) {
                session->lease.items->deleted(check->item);
            }
        }
        zkl_lease_want_now(session); /* the failed multi said nothing about the others */
    } else if (rc != ZOK) {
        note_unproven(session, rc);
    }
    zkl_heartbeat_verify_next(session);
}

/* Returns whether the node is our own. */
static bool is_own(const zkl_session *session, const zkl_item *facts, const struct Stat *stat)
{
    return stat->ephemeralOwner == session->session_id && (facts->any_czxid || stat->czxid == facts->czxid);
}

/* Handles the reply to the verification of the node whose index is the request's tag. */
static void on_verified(void *owner, int rc, const zkl_reply *reply)
{
    struct zkl_checks *checks = owner;
    zkl_session *session = checks->session;
    const struct zkl_check *check = &checks->items[reply->tag];
    checks->flying--;
    session->lease.verifications_flying--;
    if (rc == ZNONODE || rc == ZOK) {
        /* Without the node that is lost the heartbeat proves as much as before. */
        const zkl_item facts = session->lease.items->describe(check->item);
        bool matters = needs_verification(check, &facts);
        if (matters && rc == ZNONODE) {
            session->lease.items->deleted(check->item);
        } else if (matters && !is_own(session, &facts, reply->stat)) {
            session->lease.items->replaced(check->item);
        }
    } else {
        checks->failed = true;
        note_unproven(session, rc);
    }
    zkl_heartbeat_verify_next(session);
}
