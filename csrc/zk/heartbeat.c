/*
 * heartbeat: the requests that keep the session alive and its lease valid.
 *
 * A round is a sync, and when it is answered, the heartbeat: multis of version checks of our own nodes. A heartbeat counts
 * when each node that is held was verified after it too. A round without nodes ends with another sync, or with a version
 * check of "/". lease.c says why.
 */
#include <string.h>

#include "heartbeat.h"
#include "request.h"

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
    zkl_heartbeat *heartbeat;
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

/* --- what of value the session has ----------------------------------------------------------------------------------- */

/* Returns the item behind `item`, the first one if that is NULL; NULL: there is none. */
static void *item_after(const zkl_heartbeat *heartbeat, void *item)
{
    return heartbeat->items->next(heartbeat->items_owner, item);
}

void zkl_heartbeat_init(zkl_heartbeat *heartbeat, zkl_wire *wire, void (*proved)(void *owner, int64_t sent_at),
                        void *owner)
{
    heartbeat->wire = wire;
    heartbeat->proved = proved;
    heartbeat->proved_owner = owner;
    heartbeat->check_at = ZKL_NEVER;
    TAILQ_INIT(&heartbeat->checks);
}

void zkl_heartbeat_use_items(zkl_heartbeat *heartbeat, const zkl_heartbeat_items *items, void *owner)
{
    heartbeat->items = items;
    heartbeat->items_owner = owner;
}

void zkl_heartbeat_count(zkl_heartbeat *heartbeat, int32_t nodes, int32_t program_watches)
{
    heartbeat->nodes += nodes;
    heartbeat->program_watches += program_watches;
}

void zkl_heartbeat_note_ephemeral(zkl_heartbeat *heartbeat)
{
    heartbeat->own_ephemerals = true;
}

/* Returns whether the session has, or may get, anything that a new session would not have. */
static bool has_something(const zkl_heartbeat *heartbeat)
{
    if (heartbeat->nodes > 0 || heartbeat->own_ephemerals || heartbeat->program_watches > 0) {
        return true;
    }
    for (void *item = item_after(heartbeat, NULL); item != NULL; item = item_after(heartbeat, item)) {
        if (heartbeat->items->describe(item).state == ZKL_ITEM_PENDING) {
            return true;
        }
    }
    return false;
}

static bool any_needs_lease(const zkl_heartbeat *heartbeat)
{
    for (void *item = item_after(heartbeat, NULL); item != NULL; item = item_after(heartbeat, item)) {
        if (heartbeat->items->describe(item).needs_lease) {
            return true;
        }
    }
    return false;
}

/* Returns whether the session may be about to end, and has nothing. */
static bool is_worthless(const zkl_heartbeat *heartbeat)
{
    return zkl_lease_doubtful(&heartbeat->wire->lease, heartbeat->wire->now) && !has_something(heartbeat);
}

bool zkl_heartbeat_wants_session(const zkl_heartbeat *heartbeat)
{
    const zkl_lease *lease = &heartbeat->wire->lease;
    return lease->required && lease->chain.state == ZKL_CHAIN_BROKEN && heartbeat->wire->in_flight == 0 &&
           item_after(heartbeat, NULL) != NULL && is_worthless(heartbeat);
}

bool zkl_heartbeat_waits_in_vain(zkl_heartbeat *heartbeat)
{
    zkl_lease *lease = &heartbeat->wire->lease;
    if (!zkl_lease_awaited(lease) || heartbeat->wire->now < zkl_lease_waits_until(lease)) {
        return false;
    }
    if (!any_needs_lease(heartbeat)) {
        zkl_lease_await_no_more(lease); /* the item that needed a lease has left */
    }
    return zkl_lease_awaited(lease);
}

int64_t zkl_heartbeat_decides_at(const zkl_heartbeat *heartbeat)
{
    const zkl_lease *lease = &heartbeat->wire->lease;
    if (!heartbeat->wire->usable || !lease->required) {
        return ZKL_NEVER;
    }
    bool undecided = lease->chain.state == ZKL_CHAIN_BEGINS || zkl_heartbeat_wants_session(heartbeat);
    return heartbeat->round_over || undecided ? heartbeat->wire->now : zkl_lease_waits_until(lease);
}

bool zkl_heartbeat_holds_back(const zkl_heartbeat *heartbeat)
{
    const zkl_lease *lease = &heartbeat->wire->lease;
    return lease->required && (lease->chain.state == ZKL_CHAIN_BEGINS || is_worthless(heartbeat));
}

/* --- when rounds are due --------------------------------------------------------------------------------------------- */

void zkl_heartbeat_connected(zkl_heartbeat *heartbeat, bool fresh)
{
    heartbeat->check_at = heartbeat->wire->now;
    heartbeat->round_began = 0;
    heartbeat->round_over = false;
    if (fresh) {
        heartbeat->own_ephemerals = heartbeat->no_witness = false;
    }
}

void zkl_heartbeat_end(zkl_heartbeat *heartbeat)
{
    heartbeat->check_at = ZKL_NEVER;
}

void zkl_heartbeat_want(zkl_heartbeat *heartbeat)
{
    heartbeat->check_at = heartbeat->wire->now;
}

void zkl_heartbeat_want_lease(zkl_heartbeat *heartbeat)
{
    zkl_lease_await(&heartbeat->wire->lease, heartbeat->wire->now);
    if (heartbeat->checks_flying == 0) {
        zkl_heartbeat_want(heartbeat);
    }
}

void zkl_heartbeat_rest(zkl_heartbeat *heartbeat)
{
    heartbeat->check_at = heartbeat->wire->now + zkl_lease_speak_every(&heartbeat->wire->lease);
}

void zkl_heartbeat_want_soon(zkl_heartbeat *heartbeat)
{
    int64_t soon = heartbeat->wire->now + zkl_lease_speak_every(&heartbeat->wire->lease);
    heartbeat->check_at = heartbeat->check_at < soon ? heartbeat->check_at : soon;
}

/*
 * The next round begins at the latest when the answers of this one are old enough for the next one to be their w. The rounds before
 * that are spread evenly, so that each round finds the answers of another one just old enough. They are at most T/5 apart. A client
 * without nodes needs no rounds in between, unless round trips take so long that each instant would become known too late.
 */
void zkl_heartbeat_date_round(zkl_heartbeat *heartbeat)
{
    if (!heartbeat->round_over) {
        return;
    }
    heartbeat->round_over = false;
    int64_t now = heartbeat->wire->now;
    int64_t took = now - heartbeat->round_began; /* below 0: a caller may have read its clock earlier */
    int64_t next = heartbeat->round_began +
                   zkl_lease_round_every(&heartbeat->wire->lease, took > 0 ? took : 0, heartbeat->nodes > 0);
    heartbeat->check_at = now > next ? now : next;
}

int64_t zkl_heartbeat_at(const zkl_heartbeat *heartbeat)
{
    bool may_beat = heartbeat->wire->lease.required && heartbeat->wire->usable && heartbeat->checks_flying == 0;
    return may_beat ? heartbeat->check_at : ZKL_NEVER;
}

/* --- rounds -------------------------------------------------------------------------------------------------------- */

static void free_checks(struct zkl_checks *checks)
{
    if (checks != NULL) {
        zkl_free(checks->items);
        zkl_free(checks->ops);
        zkl_free(checks->results);
        zkl_free(checks);
    }
}

static struct zkl_checks *new_checks(zkl_heartbeat *heartbeat, int32_t capacity)
{
    struct zkl_checks *checks = zkl_alloc(sizeof *checks);
    if (checks == NULL) {
        return NULL;
    }
    checks->heartbeat = heartbeat;
    checks->items = zkl_alloc((size_t)capacity * sizeof *checks->items);
    checks->ops = zkl_alloc((size_t)capacity * sizeof *checks->ops);
    checks->results = zkl_alloc((size_t)capacity * sizeof *checks->results);
    if (checks->items == NULL || checks->ops == NULL || checks->results == NULL) {
        free_checks(checks);
        return NULL;
    }
    return checks;
}

static int64_t check_bytes(const zkl_heartbeat *heartbeat, const char *path)
{
    return heartbeat->wire->chroot_length + (int64_t)strlen(path) + CHECK_OVERHEAD;
}

/* Returns whether a heartbeat has no room for another node. */
static bool heartbeat_is_full(const struct zkl_checks *checks, const char *path)
{
    return checks->count == CHECKS_AT_ONCE ||
           checks->bytes + check_bytes(checks->heartbeat, path) > CHECKED_BYTES_AT_ONCE;
}

static void add_check(struct zkl_checks *checks, void *item, const zkl_item *facts)
{
    checks->items[checks->count] = (struct zkl_check){item, facts->generation};
    zoo_check_op_init(&checks->ops[checks->count], facts->path, -1);
    checks->results[checks->count].err = ZRUNTIMEINCONSISTENCY; /* stays if the answer says nothing about this node */
    checks->heartbeat->items->keep(item);
    checks->count++;
    checks->bytes += check_bytes(checks->heartbeat, facts->path);
}

/* Frees a heartbeat of which nothing is in flight, or still to be sent. */
static void free_heartbeat(struct zkl_checks *checks)
{
    for (int32_t i = 0; i < checks->count; i++) {
        checks->heartbeat->items->release(checks->items[i].item);
    }
    free_checks(checks);
}

static void on_checked(void *owner, int rc, const zkl_reply *reply);
static void on_verified(void *owner, int rc, const zkl_reply *reply);
static void on_pulsed(void *owner, int rc, const zkl_reply *reply);

static void send_checks(zkl_heartbeat *heartbeat, struct zkl_checks *checks)
{
    const zkl_ask ask = {.on_reply = on_checked, .owner = checks, .proof = ZKL_PROOF_HEARTBEAT};
    if (zkl_send_multi(heartbeat->wire, &ask, checks->count, checks->ops, checks->results) != ZOK) {
        free_heartbeat(checks);
        return;
    }
    checks->sent_at = heartbeat->wire->now;
    checks->connection = heartbeat->wire->connection;
    checks->flying = 1;
    TAILQ_INSERT_TAIL(&heartbeat->checks, checks, all);
    heartbeat->checks_flying++;
    heartbeat->wire->stats.heartbeats++;
    zkl_heartbeat_verify_next(heartbeat);
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
static bool send_verifications(zkl_heartbeat *heartbeat, struct zkl_checks *checks)
{
    if (checks->connection != heartbeat->wire->connection || !heartbeat->wire->usable) {
        checks->failed = checks->failed || checks->verifications_sent < checks->count;
    }
    while (!checks->failed && checks->verifications_sent < checks->count &&
           heartbeat->verifications_flying < VERIFICATIONS_AT_ONCE) {
        int32_t index = checks->verifications_sent++;
        const zkl_item facts = heartbeat->items->describe(checks->items[index].item);
        if (!needs_verification(&checks->items[index], &facts)) {
            continue;
        }
        const zkl_ask ask = {.on_reply = on_verified, .owner = checks, .tag = index};
        if (zkl_send_exists(heartbeat->wire, &ask, facts.path, NULL, NULL) == ZOK) {
            checks->flying++;
            heartbeat->verifications_flying++;
            heartbeat->wire->stats.heartbeats++;
        } else {
            checks->failed = true;
        }
    }
    return checks->failed || checks->verifications_sent == checks->count;
}

void zkl_heartbeat_verify_next(zkl_heartbeat *heartbeat)
{
    struct zkl_checks *checks, *next;
    for (checks = TAILQ_FIRST(&heartbeat->checks); checks != NULL; checks = next) {
        next = TAILQ_NEXT(checks, all);
        if (!send_verifications(heartbeat, checks) || checks->flying > 0) {
            continue;
        }
        TAILQ_REMOVE(&heartbeat->checks, checks, all);
        heartbeat->checks_flying--;
        heartbeat->round_over = heartbeat->round_over || heartbeat->checks_flying == 0;
        if (!checks->failed) {
            heartbeat->proved(heartbeat->proved_owner, checks->sent_at);
        }
        free_heartbeat(checks);
    }
}

static void send_all_checks(zkl_heartbeat *heartbeat)
{
    struct zkl_checks *checks = NULL;
    for (void *item = item_after(heartbeat, NULL); item != NULL; item = item_after(heartbeat, item)) {
        const zkl_item facts = heartbeat->items->describe(item);
        if (!needs_check(&facts)) {
            continue;
        }
        if (checks != NULL && heartbeat_is_full(checks, facts.path)) {
            send_checks(heartbeat, checks);
            checks = NULL;
        }
        if (checks == NULL && (checks = new_checks(heartbeat, CHECKS_AT_ONCE)) == NULL) {
            heartbeat->check_at = heartbeat->wire->now + PAUSE_AFTER; /* no memory: the lease runs on meanwhile */
            return;
        }
        add_check(checks, item, &facts);
    }
    if (checks != NULL) {
        send_checks(heartbeat, checks);
    }
}

/* Sends a sync, the request of a round that is no heartbeat. `last`: no request of the round follows it. */
static void send_pulse(zkl_heartbeat *heartbeat, bool last)
{
    const zkl_ask ask = {.on_reply = on_pulsed, .owner = heartbeat, .tag = last, .proof = ZKL_PROOF_LEADER};
    if (zkl_send_sync(heartbeat->wire, &ask, "/") == ZOK) {
        heartbeat->checks_flying++;
        heartbeat->wire->stats.heartbeats++;
    }
}

/*
 * Sends the second request of a round without nodes. If the client has something to lose with its session, this is a
 * quorum write, so that the chain goes on over a lost connection.
 */
static void send_last(zkl_heartbeat *heartbeat)
{
    if (!has_something(heartbeat) || heartbeat->no_witness) {
        send_pulse(heartbeat, true);
        return;
    }
    const zkl_ask ask = {.on_reply = on_pulsed, .owner = heartbeat, .tag = 1, .proof = ZKL_PROOF_QUORUM};
    zoo_check_op_init(&heartbeat->witness, "/", -1);
    if (zkl_send_multi(heartbeat->wire, &ask, 1, &heartbeat->witness, &heartbeat->witness_result) == ZOK) {
        heartbeat->checks_flying++;
        heartbeat->wire->stats.heartbeats++;
    }
}

void zkl_heartbeat_begin(zkl_heartbeat *heartbeat)
{
    bool only_aliveness = zkl_lease_lacks_heartbeat_only(&heartbeat->wire->lease, heartbeat->wire->now);
    zkl_heartbeat_rest(heartbeat);
    heartbeat->round_began = heartbeat->wire->now;
    if (only_aliveness) {
        send_all_checks(heartbeat); /* an entry waits for its grant: the shortest way */
    } else {
        send_pulse(heartbeat, false);
    }
}

/* Handles the reply to a round's request that is no heartbeat. Its tag: whether it was the last one of the round. */
static void on_pulsed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_heartbeat *heartbeat = owner;
    bool last = reply->tag != 0;
    heartbeat->checks_flying--;
    if (reply->connection != heartbeat->wire->connection || !heartbeat->wire->usable) {
        return; /* the next connection has its own rounds */
    }
    if (last) {
        heartbeat->no_witness = heartbeat->no_witness || rc == ZNOAUTH || rc == ZNONODE;
        heartbeat->round_over = rc == ZOK;
        return;
    }
    send_all_checks(heartbeat);
    if (heartbeat->checks_flying == 0) {
        send_last(heartbeat);
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
static void note_unproven(zkl_heartbeat *heartbeat, int rc)
{
    if (!zkl_outcome_unknown(rc) && rc != ZSESSIONEXPIRED && rc != ZINVALIDSTATE) {
        zkl_wire_log(heartbeat->wire, ZOO_LOG_LEVEL_ERROR,
                     "the lease cannot be extended: checking our own nodes gives '%s'%s", zerror(rc),
                     rc == ZNOAUTH ? " (the acl must let the client read its own node)" : "");
    }
}

/* Handles the reply to a heartbeat. */
static void on_checked(void *owner, int rc, const zkl_reply *reply)
{
    (void)reply;
    struct zkl_checks *checks = owner;
    zkl_heartbeat *heartbeat = checks->heartbeat;
    checks->flying--;
    rc = rc == ZOK && !all_passed(checks) ? ZMARSHALLINGERROR : rc;
    rc = rc == ZNONODE && ZKL_BROKEN(ZKL_BREAK_EVICTED) ? ZOK : rc;
    checks->failed = checks->failed || rc != ZOK;
    if (rc == ZNONODE) {
        for (int32_t i = 0; i < checks->count; i++) {
            const struct zkl_check *check = &checks->items[i];
            const zkl_item facts = heartbeat->items->describe(check->item);
            if (checks->results[i].err == ZNONODE && check->generation == facts.generation && needs_check(&facts)) {
                heartbeat->items->deleted(check->item);
            }
        }
        zkl_heartbeat_want(heartbeat); /* the failed multi said nothing about the others */
    } else if (rc != ZOK) {
        note_unproven(heartbeat, rc);
    }
    zkl_heartbeat_verify_next(heartbeat);
}

/* Returns whether the node is our own. */
static bool is_own(const zkl_heartbeat *heartbeat, const zkl_item *facts, const struct Stat *stat)
{
    return stat->ephemeralOwner == heartbeat->wire->session_id && (facts->any_czxid || stat->czxid == facts->czxid);
}

/* Handles the reply to the verification of the node whose index is the request's tag. */
static void on_verified(void *owner, int rc, const zkl_reply *reply)
{
    struct zkl_checks *checks = owner;
    zkl_heartbeat *heartbeat = checks->heartbeat;
    const struct zkl_check *check = &checks->items[reply->tag];
    checks->flying--;
    heartbeat->verifications_flying--;
    if (rc == ZNONODE || rc == ZOK) {
        /* Without the node that is lost the heartbeat proves as much as before. */
        const zkl_item facts = heartbeat->items->describe(check->item);
        bool matters = needs_verification(check, &facts);
        if (matters && rc == ZNONODE) {
            heartbeat->items->deleted(check->item);
        } else if (matters && !is_own(heartbeat, &facts, reply->stat)) {
            heartbeat->items->replaced(check->item);
        }
    } else {
        checks->failed = true;
        note_unproven(heartbeat, rc);
    }
    zkl_heartbeat_verify_next(heartbeat);
}
