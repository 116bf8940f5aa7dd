/*
 * heartbeat: the requests that keep the session alive and its lease valid.
 *
 * A round is a sync, and when it is answered, the heartbeat: a multi of version checks of our own nodes, ZKL_MAX_CHECKS at most, in
 * turn. A round without nodes ends with another sync, or with a version check of "/". lease.c says why.
 *
 * A heartbeat counts when each node that is held was certainly there, and ours, when the heartbeat was executed. There are two ways
 * to know that:
 *
 *   verified  An exists was sent after the heartbeat, and has shown the node. If the heartbeat checks all nodes, those that are held
 *             are verified.
 *   guarded   A read on the same connection has armed a watch and shown the node, and no event has come before the answer to the
 *             heartbeat. A server reports all changes up to a write of the session before it answers that write, and the C client
 *             keeps this order. If the client has more nodes, those that are held are guarded: each is read once on each
 *             connection. So what it costs to hold a node does not grow with the number of rounds.
 *
 * A watch may be lost in silence: servers drop all watches when their data are restored under connections that stay (3.9), report
 * nothing of a node that the client may not read any more (CVE-2024-23944), and swallow what goes wrong while they report it.
 * So a heartbeat checks nodes in turn also if they are guarded, verifies a quarter of these, and always checks the node that was
 * created last: data that were replaced by older ones do not have it, unless they have all the others. SetWatches is not relied upon:
 * guards end with their connection. The C client is made to forget them, since it would send all of them in one packet, which a
 * server refuses at 1 MB.
 */
#include <string.h>

#include "heartbeat.h"
#include "request.h"

/* The time until the next try when there was no memory for a heartbeat. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

/*
 * The most bytes of paths in a heartbeat. A server closes the connection at a packet above jute.maxbuffer (1 MB by default),
 * heartbeat after heartbeat. A check takes less than CHECK_OVERHEAD besides its path.
 */
#define CHECKED_BYTES_AT_ONCE ((int64_t)512 * 1024)
#define CHECK_OVERHEAD 32

/* The most verifications of nodes in flight, whatever else is in flight: the lease must not wait for other requests. */
#define VERIFICATIONS_AT_ONCE (ZKL_MAX_IN_FLIGHT < ZKL_USUAL_CHECKS ? ZKL_MAX_IN_FLIGHT : ZKL_USUAL_CHECKS)

/* Of the guarded nodes that a heartbeat checks, about one in so many is verified: each of them every so many times. */
#define VERIFIED_OF_CHECKED 4

#ifdef ZKL_BREAKABLE
int32_t zkl_most_checks = ZKL_USUAL_CHECKS;
#endif

/* One heartbeat: the items that it checks, and memory for the answers. */
struct zkl_checks {
    zkl_heartbeat *heartbeat;
    int64_t sent_at;
    uint32_t connection;        /* the connection it was sent on; its verifications use the same one */
    int32_t flying;             /* answers that are still to come, to itself and to verifications */
    int32_t verifications_sent; /* so many of the items have had their verification sent, or need none */
    bool guards;                /* it does not check all nodes, so those that are held are guarded */
    bool failed;                /* a request was not answered, or with an error: the heartbeat proves nothing */
    int32_t count;
    int64_t bytes; /* their size in the request */
    struct zkl_check {
        zkl_item *item;
        uint32_t generation;
    } * items;
    zoo_op_t *ops;
    zoo_op_result_t *results;
};

/* --- what of value the session has ----------------------------------------------------------------------------------- */

void zkl_heartbeat_init(zkl_heartbeat *heartbeat, zkl_wire *wire, void (*proved)(void *owner, int64_t sent_at),
                        void *owner)
{
    heartbeat->wire = wire;
    heartbeat->proved = proved;
    heartbeat->proved_owner = owner;
    heartbeat->check_at = ZKL_NEVER;
    TAILQ_INIT(&heartbeat->turn);
    TAILQ_INIT(&heartbeat->loose);
}

/* Returns whether heartbeats prove that the item's node is still ours. */
static bool is_held(zkl_item_state state)
{
    return state >= ZKL_ITEM_READY;
}

/* An item that is held has no guard, or has one no more. */
static void loosen(zkl_heartbeat *heartbeat, zkl_item *item)
{
    if (item->guard != ZKL_GUARD_NONE) {
        item->guard = ZKL_GUARD_NONE;
        TAILQ_INSERT_HEAD(&heartbeat->loose, item, in_loose);
    }
}

/* What a state means: bits of a set. */
enum {
    IS_PENDING = 1,
    HAS_NODE = 2,
    MATTERS = 4,
    IS_READY = 8,
    IS_HELD = 16
};

static const uint8_t traits_of[] = {
    [ZKL_ITEM_NONE] = 0,
    [ZKL_ITEM_PENDING] = IS_PENDING,
    [ZKL_ITEM_LEAVING] = HAS_NODE,
    [ZKL_ITEM_PRESENT] = HAS_NODE | MATTERS,
    [ZKL_ITEM_READY] = HAS_NODE | MATTERS | IS_READY | IS_HELD,
    [ZKL_ITEM_HELD] = HAS_NODE | MATTERS | IS_HELD,
};

void zkl_heartbeat_enter(zkl_heartbeat *heartbeat, zkl_item *item, zkl_item_state state)
{
    unsigned before = traits_of[item->state], now = traits_of[state];
    unsigned gained = now & ~before, lost = before & ~now;
    item->heartbeat = heartbeat;
    heartbeat->pending += (gained & IS_PENDING) != 0;
    heartbeat->pending -= (lost & IS_PENDING) != 0;
    heartbeat->nodes += (gained & HAS_NODE) != 0;
    heartbeat->nodes -= (lost & HAS_NODE) != 0;
    heartbeat->ready += (gained & IS_READY) != 0;
    heartbeat->ready -= (lost & IS_READY) != 0;
    if ((gained & MATTERS) != 0) {
        TAILQ_INSERT_TAIL(&heartbeat->turn, item, in_turn);
    } else if ((lost & MATTERS) != 0) {
        TAILQ_REMOVE(&heartbeat->turn, item, in_turn);
    }
    if ((gained & IS_HELD) != 0) {
        item->since = heartbeat->round;
        item->visits = heartbeat->visits++;
        TAILQ_INSERT_TAIL(&heartbeat->loose, item, in_loose);
    } else if ((lost & IS_HELD) != 0) {
        loosen(heartbeat, item);
        TAILQ_REMOVE(&heartbeat->loose, item, in_loose);
    }
    item->state = state;
}

/* Returns whether the session has, or may get, anything that a new session would not have. */
static bool has_something(const zkl_heartbeat *heartbeat)
{
    return heartbeat->nodes > 0 || heartbeat->pending > 0 || heartbeat->own_ephemerals ||
           heartbeat->program_watches > 0;
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
           heartbeat->wire->stats.entries > 0 && is_worthless(heartbeat);
}

bool zkl_heartbeat_waits_in_vain(zkl_heartbeat *heartbeat)
{
    zkl_lease *lease = &heartbeat->wire->lease;
    if (!zkl_lease_awaited(lease) || heartbeat->wire->now < zkl_lease_waits_until(lease)) {
        return false;
    }
    if (heartbeat->ready == 0) {
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

static void on_guard_event(zhandle_t *handle, int type, int state, const char *path, void *context);

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

void zkl_heartbeat_disconnected(zkl_heartbeat *heartbeat)
{
    zkl_item *item;
    TAILQ_FOREACH(item, &heartbeat->turn, in_turn)
    {
        if (item->guard == ZKL_GUARD_ARMED) {
            zkl_forget_watch(heartbeat->wire, heartbeat->wire->items->describe(item).path, on_guard_event, heartbeat);
        }
        if (!ZKL_BROKEN(ZKL_BREAK_GUARDS)) {
            loosen(heartbeat, item);
        }
    }
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

/* Frees a heartbeat of which nothing is in flight, or still to be sent. */
static void free_heartbeat(struct zkl_checks *checks)
{
    for (int32_t i = 0; i < checks->count; i++) {
        checks->heartbeat->wire->items->release(checks->items[i].item);
    }
    zkl_free(checks->items);
    zkl_free(checks->ops);
    zkl_free(checks->results);
    zkl_free(checks);
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
        free_heartbeat(checks);
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
    return checks->count >= ZKL_MAX_CHECKS ||
           checks->bytes + check_bytes(checks->heartbeat, path) > CHECKED_BYTES_AT_ONCE;
}

static void add_check(struct zkl_checks *checks, zkl_item *item, const zkl_item_facts *facts)
{
    item->visits++;
    checks->items[checks->count] = (struct zkl_check){item, facts->generation};
    zoo_check_op_init(&checks->ops[checks->count], facts->path, -1);
    checks->heartbeat->wire->items->keep(item);
    checks->count++;
    checks->bytes += check_bytes(checks->heartbeat, facts->path);
}

static void on_checked(void *owner, int rc, const zkl_reply *reply);
static void on_verified(void *owner, int rc, const zkl_reply *reply);
static void on_guarded(void *owner, int rc, const zkl_reply *reply);
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
    heartbeat->checks = checks;
    heartbeat->checks_flying++;
    heartbeat->wire->stats.heartbeats++;
    zkl_heartbeat_verify_next(heartbeat);
}

/* Returns whether the item is unchanged since its request was sent, and is held, or will be when the lease is proven. */
static bool needs_proof(const zkl_item *item, const zkl_item_facts *facts, uint32_t generation)
{
    return generation == facts->generation && is_held(item->state) && !ZKL_BROKEN(ZKL_BREAK_IMPOSTOR);
}

/* Returns whether a verification of the item whose index this is must follow the heartbeat. */
static bool needs_verification(const struct zkl_checks *checks, int32_t index, const zkl_item_facts *facts)
{
    const struct zkl_check *check = &checks->items[index];
    bool its_turn = check->item->visits % VERIFIED_OF_CHECKED == 0;
    bool left_out = checks->guards && (check->item->guard != ZKL_GUARD_ARMED || !its_turn);
    return needs_proof(check->item, facts, check->generation) && !left_out;
}

/* Returns the next item that the heartbeat needs to be guarded; NULL: all of them are, or the reads for that are in flight. */
static zkl_item *next_loose(const struct zkl_checks *checks)
{
    const zkl_heartbeat *heartbeat = checks->heartbeat;
    if (!checks->guards || ZKL_BROKEN(ZKL_BREAK_GUARD)) {
        return NULL;
    }
    zkl_item *item = ZKL_BROKEN(ZKL_BREAK_IMPOSTOR) ? NULL : TAILQ_FIRST(&heartbeat->loose);
    return item != NULL && item->since != heartbeat->round ? item : NULL;
}

/* Notes whether the request that follows the heartbeat was sent. */
static void note_verification(struct zkl_checks *checks, int rc)
{
    if (rc == ZOK) {
        checks->flying++;
        checks->heartbeat->verifications_flying++;
        checks->heartbeat->wire->stats.heartbeats++;
    } else {
        checks->failed = true;
    }
}

/* Sends the read that arms the item's guard. A get: an exists of a missing node would arm a watch, too, for its creation. */
static void send_guard(struct zkl_checks *checks, zkl_item *item)
{
    zkl_heartbeat *heartbeat = checks->heartbeat;
    const zkl_item_facts facts = heartbeat->wire->items->describe(item);
    const zkl_ask ask = {.on_reply = on_guarded, .owner = item, .generation = facts.generation};
    int rc = zkl_send_get(heartbeat->wire, &ask, facts.path, on_guard_event, heartbeat);
    note_verification(checks, rc);
    if (rc == ZOK) {
        TAILQ_REMOVE(&heartbeat->loose, item, in_loose);
        item->guard = ZKL_GUARD_ASKED;
        heartbeat->wire->items->keep(item);
    }
}

/* Verifies and guards the next nodes of a heartbeat, as many as may be in flight. Returns false if some are left. */
static bool send_verifications(zkl_heartbeat *heartbeat, struct zkl_checks *checks)
{
    if (checks->connection != heartbeat->wire->connection || !heartbeat->wire->usable) {
        checks->failed = checks->failed || checks->verifications_sent < checks->count || next_loose(checks) != NULL;
    }
    while (!checks->failed && checks->verifications_sent < checks->count &&
           heartbeat->verifications_flying < VERIFICATIONS_AT_ONCE) {
        int32_t index = checks->verifications_sent++;
        const zkl_item_facts facts = heartbeat->wire->items->describe(checks->items[index].item);
        if (needs_verification(checks, index, &facts)) {
            const zkl_ask ask = {.on_reply = on_verified, .owner = checks, .tag = index};
            note_verification(checks, zkl_send_exists(heartbeat->wire, &ask, facts.path, NULL, NULL));
        }
    }
    zkl_item *item;
    while (!checks->failed && (item = next_loose(checks)) != NULL &&
           heartbeat->verifications_flying < VERIFICATIONS_AT_ONCE) {
        send_guard(checks, item);
    }
    return checks->failed || (checks->verifications_sent == checks->count && next_loose(checks) == NULL);
}

void zkl_heartbeat_verify_next(zkl_heartbeat *heartbeat)
{
    struct zkl_checks *checks = heartbeat->checks;
    if (checks == NULL || !send_verifications(heartbeat, checks) || checks->flying > 0) {
        return;
    }
    heartbeat->checks = NULL;
    heartbeat->checks_flying--;
    heartbeat->round_over = heartbeat->round_over || heartbeat->checks_flying == 0;
    if (!checks->failed) {
        heartbeat->proved(heartbeat->proved_owner, checks->sent_at);
    }
    free_heartbeat(checks);
}

/* Returns the item that the next heartbeat would check, and that this one does not check yet; NULL: there is none. */
static zkl_item *next_in_turn(const zkl_heartbeat *heartbeat)
{
    zkl_item *item = TAILQ_FIRST(&heartbeat->turn);
    return item != NULL && item->taken != heartbeat->round ? item : NULL;
}

/* Returns the held item whose node was created last, as far as that is known; NULL: none is held. */
static zkl_item *created_last(const zkl_heartbeat *heartbeat)
{
    zkl_item *item, *last = NULL;
    int64_t czxid = 0;
    TAILQ_FOREACH(item, &heartbeat->turn, in_turn)
    {
        const zkl_item_facts facts = heartbeat->wire->items->describe(item);
        if (is_held(item->state) && !facts.any_czxid && facts.czxid > czxid) {
            last = item;
            czxid = facts.czxid;
        }
    }
    return last;
}

static void send_heartbeat(zkl_heartbeat *heartbeat)
{
    struct zkl_checks *checks = new_checks(heartbeat, ZKL_MAX_CHECKS + 1);
    if (checks == NULL) {
        heartbeat->check_at = heartbeat->wire->now + PAUSE_AFTER; /* no memory: the lease runs on meanwhile */
        return;
    }
    zkl_item *item;
    while ((item = next_in_turn(heartbeat)) != NULL) {
        const zkl_item_facts facts = heartbeat->wire->items->describe(item);
        if (facts.path != NULL && heartbeat_is_full(checks, facts.path)) {
            break;
        }
        item->taken = heartbeat->round;
        TAILQ_REMOVE(&heartbeat->turn, item, in_turn);
        TAILQ_INSERT_TAIL(&heartbeat->turn, item, in_turn);
        if (facts.path != NULL) {
            add_check(checks, item, &facts);
        }
    }
    checks->guards = next_in_turn(heartbeat) != NULL;
    item = checks->guards && !ZKL_BROKEN(ZKL_BREAK_NEWEST) ? created_last(heartbeat) : NULL;
    if (item != NULL && item->taken != heartbeat->round) {
        const zkl_item_facts facts = heartbeat->wire->items->describe(item);
        item->taken = heartbeat->round;
        add_check(checks, item, &facts);
    }
    if (checks->count > 0) {
        send_checks(heartbeat, checks);
    } else {
        free_heartbeat(checks);
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
    heartbeat->round++;
    bool only_aliveness = zkl_lease_lacks_heartbeat_only(&heartbeat->wire->lease, heartbeat->wire->now);
    zkl_heartbeat_rest(heartbeat);
    heartbeat->round_began = heartbeat->wire->now;
    if (only_aliveness) {
        send_heartbeat(heartbeat); /* an entry waits for its grant: the shortest way */
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
    send_heartbeat(heartbeat);
    if (heartbeat->checks_flying == 0) {
        send_last(heartbeat);
    }
}

/* Logs an answer that is neither yes nor no, unless its cause is known to pass by itself. */
static void note_unproven(zkl_heartbeat *heartbeat, int rc)
{
    if (!zkl_not_answered(rc)) {
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
    rc = rc == ZOK && !zkl_all_succeeded(checks->results, checks->count) ? ZMARSHALLINGERROR : rc;
    rc = rc == ZNONODE && ZKL_BROKEN(ZKL_BREAK_EVICTED) ? ZOK : rc;
    checks->failed = checks->failed || rc != ZOK;
    if (rc == ZNONODE) {
        for (int32_t i = 0; i < checks->count; i++) {
            const struct zkl_check *check = &checks->items[i];
            bool same = check->generation == heartbeat->wire->items->describe(check->item).generation;
            if (checks->results[i].err == ZNONODE && same && check->item->state >= ZKL_ITEM_PRESENT) {
                heartbeat->wire->items->deleted(check->item);
            }
        }
        zkl_heartbeat_want(heartbeat); /* the failed multi said nothing about the others */
    } else if (rc != ZOK) {
        note_unproven(heartbeat, rc);
    }
    zkl_heartbeat_verify_next(heartbeat);
}

/* Returns whether the node is our own. */
static bool is_own(const zkl_heartbeat *heartbeat, const zkl_item_facts *facts, const struct Stat *stat)
{
    return stat->ephemeralOwner == heartbeat->wire->session_id && (facts->any_czxid || stat->czxid == facts->czxid);
}

/* Handles the reply to a read of a node that is held. Returns whether it has shown the item's own node. */
static bool evaluate_read(struct zkl_checks *checks, zkl_item *item, uint32_t generation, int rc,
                          const zkl_reply *reply)
{
    zkl_heartbeat *heartbeat = checks->heartbeat;
    checks->flying--;
    heartbeat->verifications_flying--;
    if (rc != ZNONODE && rc != ZOK) {
        checks->failed = true;
        note_unproven(heartbeat, rc);
        return false;
    }
    /* Without the node that is lost the heartbeat proves as much as before. */
    const zkl_item_facts facts = heartbeat->wire->items->describe(item);
    if (!needs_proof(item, &facts, generation)) {
        return false;
    }
    if (rc == ZNONODE) {
        heartbeat->wire->items->deleted(item);
        return false;
    }
    if (!is_own(heartbeat, &facts, reply->stat)) {
        heartbeat->wire->items->replaced(item);
        return false;
    }
    return true;
}

/* Handles the reply to the verification of the node whose index is the request's tag. */
static void on_verified(void *owner, int rc, const zkl_reply *reply)
{
    struct zkl_checks *checks = owner;
    const struct zkl_check *check = &checks->items[reply->tag];
    evaluate_read(checks, check->item, check->generation, rc, reply);
    zkl_heartbeat_verify_next(checks->heartbeat);
}

/* Handles the reply to the read that arms a guard. The heartbeat that has asked for it still waits for it. */
static void on_guarded(void *owner, int rc, const zkl_reply *reply)
{
    zkl_item *item = owner;
    zkl_heartbeat *heartbeat = item->heartbeat;
    bool own = evaluate_read(heartbeat->checks, item, reply->generation, rc, reply);
    if (item->guard == ZKL_GUARD_ASKED && own && reply->connection == heartbeat->wire->connection) {
        item->guard = ZKL_GUARD_ARMED;
    } else if (item->guard == ZKL_GUARD_ASKED) {
        loosen(heartbeat, item);
    }
    heartbeat->wire->items->release(item);
    zkl_heartbeat_verify_next(heartbeat);
}

/*
 * Handles the event of a guard. A node whose data have changed may be deleted in the next moment: it is read again, by the heartbeat
 * that is under way or by the next one.
 */
static void on_guard_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    zkl_heartbeat *heartbeat = context;
    if (type == ZOO_SESSION_EVENT) {
        return;
    }
    heartbeat->wire->stats.notifications++;
    zkl_item *item = heartbeat->wire->items->of_node(heartbeat->wire->items_owner, path);
    if (item == NULL || item->guard != ZKL_GUARD_ARMED) {
        return; /* it is held no more */
    }
    loosen(heartbeat, item);
    if (type == ZOO_DELETED_EVENT) {
        heartbeat->wire->items->deleted(item);
    }
    zkl_heartbeat_verify_next(heartbeat);
}
