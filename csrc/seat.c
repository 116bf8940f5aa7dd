/*
 * entry: one znode of ours in a queue, from the wish for it to the proof that it is gone.
 *
 *   PARKED -> (LOOKING, a try) -> JOINING -> QUEUED -> CONFIRMING -> GRANTED -> LEAVING -> GONE
 *                                 JOINING -> RECOVERING -> QUEUED | PARKED      (the create's reply was lost)
 *                                 QUEUED, CONFIRMING -> PARKED                   (the node was deleted externally)
 *                                 CONFIRMING -> QUEUED                           (a queue entry: a restore put one before it)
 *                                 any -> PARKED | GONE                           (the session is over)
 *
 * zkl_seat_step sends what an entry's state requires. It may be called at any time: if requests may not go out now, the
 * entry becomes runnable and is stepped again when they may. Some replies send the next request directly: the create
 * after a try's list (zkl_seat_join), and the exists of a node that was found again (find_own). Missing directories are
 * created, and the node before ours is watched, directly too. A reply changes the state and then steps the entry. A
 * reply counts only if it carries the entry's present generation, so a reply that belongs to an earlier session or node
 * is ignored.
 *
 * Why joining takes one round trip: create and list go out together, and ZooKeeper executes one session's requests in
 * order. So the list shows the queue after the create. It counts only if the create succeeded on the same connection.
 *
 * Why deletions alone may lead to a grant: one leader gives out the sequence numbers, so no later node can get a
 * smaller number than ours.
 *
 * When the list is left out is explained in follow.c and foresee.c.
 *
 * The entry's role decides what differs between kinds of locks: the name of the node (zkl_seat_kind, prefix_of), which
 * nodes block it (zkl_queue_standing, by kind), and what happens when none does (zkl_seat_confirm). For a semaphore's
 * queue entry and lease entries, permits.c does the latter.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_private.h"

/* Bytes that a watched path takes in SetWatches beside its directory: '/', the name, and a length. */
#define NAME_BYTES 64

/* The delay before a request that the server refused is tried again. */
#define RETRY_AFTER ZKL_SECOND

/* --- names --------------------------------------------------------------------------------------------------------- */

void zkl_seat_uuid(const zkl_seat *seat, char *uuid)
{
    snprintf(uuid, ZKL_UUID_LENGTH + 1, "%s%012llx", seat->engine->uuid_stem, (unsigned long long)seat->serial);
}

zkl_node_kind zkl_seat_kind(const zkl_seat *seat)
{
    static const zkl_node_kind kinds[] = {
        [ZKL_ROLE_MUTEX] = ZKL_NODE_EXCLUSIVE,  [ZKL_ROLE_READER] = ZKL_NODE_SHARED,
        [ZKL_ROLE_WRITER] = ZKL_NODE_EXCLUSIVE, [ZKL_ROLE_TURN] = ZKL_NODE_EXCLUSIVE,
        [ZKL_ROLE_PERMIT] = ZKL_NODE_LEASE,
    };
    return kinds[seat->role];
}

/*
 * Writes the start of the node's name, which ZooKeeper completes. `name` has room for ZKL_NODE_NAME_SIZE. Returns the
 * length written.
 */
static size_t prefix_of(const zkl_seat *seat, char *name)
{
    char uuid[ZKL_UUID_LENGTH + 1];
    zkl_seat_uuid(seat, uuid);
    return zkl_node_prefix(name, zkl_seat_kind(seat), seat->role == ZKL_ROLE_WRITER, uuid);
}

const char *zkl_seat_name(const zkl_seat *seat)
{
    return seat->node + strlen(seat->line->path) + 1;
}

static bool set_node(zkl_seat *seat, const char *name)
{
    char *node = zkl_child_path(seat->line->path, name);
    if (node == NULL) {
        return false;
    }
    zkl_free(seat->node);
    seat->node = node;
    seat->sequence = zkl_node_parse(name).sequence;
    return true;
}

/* --- bookkeeping --------------------------------------------------------------------------------------------------- */

/* Makes an entry that is linked into its queue and that no acquisition wants. Returns NULL when memory is short. */
static zkl_seat *new_seat(zkl_line *line, zkl_role role, uint64_t serial)
{
    zkl_engine *engine = line->engine;
    zkl_seat *seat = zkl_alloc(sizeof *seat);
    if (seat == NULL) {
        return NULL;
    }
    seat->engine = engine;
    seat->line = line;
    seat->line->uses++;
    seat->role = role;
    seat->turns = 1;
    seat->linger_until = ZKL_NEVER;
    TAILQ_INIT(&seat->behind);
    seat->state = ZKL_SEAT_PARKED;
    seat->serial = serial;
    TAILQ_INSERT_TAIL(&engine->seats, seat, all);
    TAILQ_INSERT_TAIL(&seat->line->seats, seat, in_line);
    engine->stats.seats++;
    return seat;
}

zkl_seat *zkl_seat_new(zkl_claim *claim, zkl_line *line, zkl_role role)
{
    zkl_seat *seat = new_seat(line, role, line->engine->serial + 1);
    if (seat != NULL) {
        line->engine->serial++;
        seat->claim = claim;
        seat->wanted = true;
        LIST_INSERT_HEAD(&claim->seats, seat, in_claim);
    }
    return seat;
}

static int64_t watch_bytes(const zkl_seat *seat)
{
    return seat->engine->chroot_length + (int64_t)strlen(seat->line->path) + NAME_BYTES;
}

bool zkl_seat_fits(const zkl_seat *seat)
{
    return seat->reserved || seat->engine->watched_bytes + watch_bytes(seat) <= ZKL_MAX_WATCHED_BYTES;
}

void zkl_seat_reserve(zkl_seat *seat, bool reserved)
{
    if (seat->reserved != reserved) {
        seat->reserved = reserved;
        seat->engine->watched_bytes += reserved ? watch_bytes(seat) : -watch_bytes(seat);
    }
}

void zkl_seat_wait(zkl_seat *seat)
{
    if (!seat->hungry && !seat->delayed && !seat->starved) {
        seat->hungry = true;
        TAILQ_INSERT_TAIL(&seat->engine->hungry, seat, in_hungry);
    }
}

void zkl_seat_wait_long(zkl_seat *seat)
{
    zkl_engine *engine = seat->engine;
    if (!seat->hungry && !seat->delayed && !seat->starved) {
        seat->delayed = true;
        TAILQ_INSERT_TAIL(&engine->delayed, seat, in_hungry);
        zkl_try_later(engine);
    }
}

void zkl_try_later(zkl_engine *engine)
{
    if (engine->delayed_until == ZKL_NEVER) {
        engine->delayed_until = engine->now + RETRY_AFTER;
    }
}

void zkl_seats_undelay(zkl_engine *engine)
{
    zkl_seat *seat;
    engine->delayed_until = ZKL_NEVER;
    while ((seat = TAILQ_FIRST(&engine->delayed)) != NULL) {
        TAILQ_REMOVE(&engine->delayed, seat, in_hungry);
        seat->delayed = false;
        zkl_seat_wait(seat);
    }
}

/* Takes the entry off the list in which it waits to be stepped, if it is in one. */
static void be_fed(zkl_seat *seat)
{
    if (seat->delayed) {
        seat->delayed = false;
        TAILQ_REMOVE(&seat->engine->delayed, seat, in_hungry);
    }
    if (seat->hungry) {
        seat->hungry = false;
        TAILQ_REMOVE(&seat->engine->hungry, seat, in_hungry);
    }
    if (seat->starved) {
        seat->starved = false;
        TAILQ_REMOVE(&seat->engine->starved, seat, in_hungry);
    }
}

static bool has_node(zkl_seat_state state)
{
    return state == ZKL_SEAT_QUEUED || state == ZKL_SEAT_CONFIRMING || state == ZKL_SEAT_GRANTED ||
           state == ZKL_SEAT_LEAVING;
}

void zkl_seat_part_from_readers(const zkl_seat *writer, bool unsent_only)
{
    zkl_seat *seat;
    TAILQ_FOREACH(seat, &writer->line->seats, in_line)
    {
        if (seat->writer == writer && !(unsent_only && seat->beside)) {
            seat->writer = NULL;
        }
    }
}

/* Sets the entry's state. No other function does. */
static void move(zkl_seat *seat, zkl_seat_state state)
{
    zkl_engine *engine = seat->engine;
    if (seat->role == ZKL_ROLE_WRITER && seat->state == ZKL_SEAT_GRANTED) {
        zkl_seat_part_from_readers(seat, false);
    }
    engine->nodes += (int32_t)has_node(state) - (int32_t)has_node(seat->state);
    if (state != ZKL_SEAT_GRANTED) {
        zkl_share_stop_lingering(seat);
    }
    seat->state = state;
    bool cleaning = !seat->wanted && state != ZKL_SEAT_GONE;
    engine->cleaning += (int32_t)cleaning - (int32_t)seat->cleaning;
    seat->cleaning = cleaning;
}

static void unlink_seat(zkl_seat *seat)
{
    be_fed(seat);
    zkl_seat_reserve(seat, false);
    zkl_watch_leave(seat);
    zkl_watch_leave_own(seat);
    zkl_share_forget(seat);
    TAILQ_REMOVE(&seat->engine->seats, seat, all);
    TAILQ_REMOVE(&seat->line->seats, seat, in_line);
    seat->engine->stats.seats--;
}

static void free_seat(zkl_seat *seat)
{
    zkl_line *line = seat->line;
    zkl_free(seat->node);
    zkl_free(seat);
    zkl_line_drop(line);
}

void zkl_seat_landed(zkl_seat *seat)
{
    if (--seat->flying == 0 && seat->state == ZKL_SEAT_GONE) {
        free_seat(seat);
    }
}

/*
 * Nothing of the entry is left on the server. The caller must not use the entry afterwards unless a request in flight
 * holds it.
 */
static void gone(zkl_seat *seat)
{
    zkl_claim *claim = seat->claim;
    seat->claim = NULL;
    seat->wanted = false;
    seat->generation++;
    move(seat, ZKL_SEAT_GONE);
    unlink_seat(seat);
    if (claim != NULL) {
        zkl_claim_unseated(claim, seat);
    }
    if (seat->flying == 0) {
        free_seat(seat);
    }
}

void zkl_seat_destroy(zkl_seat *seat)
{
    zkl_claim *behind;
    while ((behind = TAILQ_FIRST(&seat->behind)) != NULL) {
        TAILQ_REMOVE(&seat->behind, behind, in_seat);
        behind->seat = NULL;
        behind->behind = false;
    }
    if (seat->claim != NULL) {
        LIST_REMOVE(seat, in_claim);
        seat->claim->seat = NULL;
        seat->claim = NULL;
    }
    seat->wanted = false;
    move(seat, ZKL_SEAT_GONE);
    unlink_seat(seat);
    free_seat(seat);
}

/* Starts over under a new name. Replies to earlier requests do not count any more. */
static void start_over(zkl_seat *seat)
{
    zkl_engine *engine = seat->engine;
    zkl_watch_leave(seat);
    zkl_watch_leave_own(seat);
    seat->generation++;
    seat->serial = ++engine->serial;
    seat->listing = seat->deleting = seat->beside = seat->granted = seat->foremost = seat->foreseeing = seat->doubted =
        false;
    seat->revoked = seat->spoilt = seat->contested = seat->alone = seat->spent = false;
    seat->grants = 0;
    if (seat->role == ZKL_ROLE_PERMIT) {
        zkl_permits_changed(seat->claim);
    }
    zkl_free(seat->node);
    seat->node = NULL;
    move(seat, ZKL_SEAT_PARKED);
}

/* Refuses all acquisitions that wait for the entry. The entry then leaves. */
static void refuse_all(zkl_seat *seat, zkl_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void refuse_all(zkl_seat *seat, zkl_code code, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    zkl_claim *claim;
    while ((claim = TAILQ_FIRST(&seat->behind)) != NULL) {
        zkl_claim_finish(claim, ZKL_CLAIM_REFUSED, code, "%s", message);
        zkl_claim_leave(claim);
    }
    zkl_claim_finish(seat->claim, ZKL_CLAIM_REFUSED, code, "%s", message);
    zkl_claim_leave(seat->claim);
}

void zkl_seat_refuse(zkl_seat *seat, int rc, const char *what)
{
    refuse_all(seat, zkl_code_of(rc), "%s '%s': %s%s", what, seat->line->path, zkl_words_of(rc),
               rc == ZNONODE && strchr(seat->engine->servers, '/') != NULL ? " (does the chroot exist?)" : "");
}

/* --- granting ------------------------------------------------------------------------------------------------------ */

static void grant(zkl_seat *seat)
{
    zkl_watch_leave(seat);
    zkl_seat_reserve(seat, false);
    move(seat, ZKL_SEAT_GRANTED);
    zkl_share_advance(seat);
    zkl_share_waits(seat);
}

static void want_lease(zkl_engine *engine)
{
    if (!engine->confirming) {
        engine->confirming = true;
        engine->confirming_since = engine->now;
    }
    if (engine->checks_flying == 0) {
        zkl_lease_want_now(engine);
    }
}

void zkl_seat_confirm(zkl_seat *seat)
{
    if (seat->state != ZKL_SEAT_CONFIRMING) {
        return;
    }
    if (seat->role == ZKL_ROLE_TURN) {
        zkl_permits_step(seat->claim); /* needs no lease: its lease entries do */
    } else if (!zkl_lease_valid(seat->engine)) {
        want_lease(seat->engine);
    } else if (seat->role == ZKL_ROLE_PERMIT) {
        zkl_permits_confirm(seat->claim);
    } else {
        grant(seat);
    }
}

/* No node that conflicts with this entry's is before it, and none ever will be. */
static void first_in_line(zkl_seat *seat)
{
    seat->ahead = 0;
    seat->foremost = seat->foremost || zkl_seat_kind(seat) == ZKL_NODE_EXCLUSIVE;
    zkl_watch_leave(seat);
    move(seat, ZKL_SEAT_CONFIRMING);
    zkl_seat_confirm(seat);
}

void zkl_seat_permit(zkl_seat *seat, zkl_seat_state state)
{
    move(seat, state);
}

/* --- what each state sends ----------------------------------------------------------------------------------------- */

/*
 * Sends the create of a downgraded reader's node. The node has its writer's sequence number, so a node behind the
 * writer is behind the reader.
 */
static bool send_beside(zkl_seat *seat, const char *path)
{
    const zkl_seat *writer = seat->writer;
    char *whole = zkl_alloc(strlen(path) + ZKL_NODE_NAME_SIZE);
    if (whole == NULL) {
        return false;
    }
    snprintf(whole, strlen(path) + ZKL_NODE_NAME_SIZE, "%s%010d", path, (int)writer->sequence);
    bool sent =
        zkl_send_downgrade(seat, writer->node, whole, seat->claim->terms->lock.identity, &seat->claim->terms->acl);
    zkl_free(whole);
    if (sent) {
        seat->beside = true;
        seat->czxid = writer->czxid;
        seat->grants = ++seat->writer->grants;
    }
    return sent;
}

static void send_join(zkl_seat *seat)
{
    char name[ZKL_NODE_NAME_SIZE];
    size_t length = prefix_of(seat, name);
    size_t stem = strlen(seat->line->path);
    char small[256];
    char *path = stem + 1 + length < sizeof small ? small : zkl_alloc(stem + 1 + length + 1);
    if (path == NULL) {
        zkl_seat_wait(seat);
        return;
    }
    memcpy(path, seat->line->path, stem);
    path[stem] = '/';
    memcpy(path + stem + 1, name, length + 1);
    bool sent = seat->writer != NULL
                    ? send_beside(seat, path)
                    : zkl_send_create(seat, path, seat->claim->terms->lock.identity, &seat->claim->terms->acl);
    if (path != small) {
        zkl_free(path);
    }
    if (!sent) {
        zkl_seat_wait(seat);
        return;
    }
    move(seat, ZKL_SEAT_JOINING);
    if (seat->beside) {
        seat->listing = zkl_send_writer_stat(seat);
    } else if (seat->role != ZKL_ROLE_PERMIT && !zkl_seat_likely_follows(seat) && !zkl_seat_may_foresee(seat)) {
        seat->listing = zkl_send_list(seat, ZKL_LIST_JOIN);
    }
    if (seat->role == ZKL_ROLE_TURN) {
        zkl_permits_joined(seat->claim);
    }
}

static void step_parked(zkl_seat *seat)
{
    if (seat->line->parents_flying > 0) {
        return; /* the last of those replies steps the entries */
    }
    if (seat->role != ZKL_ROLE_PERMIT && !zkl_seat_fits(seat)) {
        if (!seat->starved) {
            be_fed(seat); /* the entry may be runnable or backing off */
            seat->starved = true;
            TAILQ_INSERT_TAIL(&seat->engine->starved, seat, in_hungry);
        }
        return;
    }
    be_fed(seat);
    zkl_seat_reserve(seat, seat->role != ZKL_ROLE_PERMIT);
    bool look = seat->claim->try_only && !seat->claim->hasty && seat->writer == NULL && seat->role != ZKL_ROLE_PERMIT;
    if (!look || ZKL_BROKEN(ZKL_BREAK_TRY)) {
        send_join(seat);
    } else if (zkl_send_list(seat, ZKL_LIST_TRY) && (seat->role != ZKL_ROLE_TURN || zkl_permits_look(seat->claim))) {
        move(seat, ZKL_SEAT_LOOKING);
    } else {
        zkl_seat_wait(seat);
    }
}

static void step_recovering(zkl_seat *seat)
{
    if (seat->listing || seat->node != NULL) {
        return; /* the list or the exists is in flight */
    }
    if (zkl_send_sync(seat) && zkl_send_list(seat, ZKL_LIST_RECOVER)) {
        seat->listing = true;
    } else {
        zkl_seat_wait(seat);
    }
}

static void drop_node(zkl_seat *seat);
static void evict(zkl_seat *seat, const char *how);

static void step_queued(zkl_seat *seat)
{
    if (seat->role == ZKL_ROLE_PERMIT) {
        zkl_permits_step(seat->claim);
        return;
    }
    if (seat->role == ZKL_ROLE_TURN) {
        zkl_permits_search_on(seat->claim);
    }
    if (seat->listing || seat->watch != NULL) {
        return;
    }
    if (seat->beside && seat->writer == NULL) {
        drop_node(seat); /* the writer's entry is not granted any more, so its node cannot be looked at */
        return;
    }
    seat->listing = seat->beside ? zkl_send_writer_stat(seat) : zkl_send_list(seat, ZKL_LIST_LOOK);
    if (!seat->listing) {
        zkl_seat_wait(seat);
    }
}

static void step_leaving(zkl_seat *seat)
{
    if (seat->deleting) {
        return;
    }
    seat->deleting = zkl_send_delete(seat);
    if (!seat->deleting) {
        seat->doubted = true;
        zkl_seat_wait(seat);
    }
}

void zkl_seat_step(zkl_seat *seat)
{
    bool waits_for_permits = seat->role == ZKL_ROLE_TURN && seat->state == ZKL_SEAT_CONFIRMING;
    bool sends = seat->state != ZKL_SEAT_GRANTED && seat->state != ZKL_SEAT_CONFIRMING && seat->state != ZKL_SEAT_GONE;
    if (!sends && !waits_for_permits) {
        return;
    }
    if (!zkl_session_usable(seat->engine) || seat->engine->in_flight >= ZKL_MAX_IN_FLIGHT ||
        (seat->state == ZKL_SEAT_PARKED && zkl_lease_holds_back(seat->engine))) {
        zkl_seat_wait(seat);
        return;
    }
    switch (seat->state) {
    case ZKL_SEAT_PARKED:
        step_parked(seat);
        break;
    case ZKL_SEAT_RECOVERING:
        step_recovering(seat);
        break;
    case ZKL_SEAT_QUEUED:
        step_queued(seat);
        break;
    case ZKL_SEAT_LEAVING:
        step_leaving(seat);
        break;
    case ZKL_SEAT_CONFIRMING:
        zkl_seat_confirm(seat);
        break;
    case ZKL_SEAT_LOOKING:
    case ZKL_SEAT_JOINING:
    case ZKL_SEAT_GRANTED:
    case ZKL_SEAT_GONE:
        break;
    }
}

/* --- leaving ------------------------------------------------------------------------------------------------------- */

void zkl_seat_leave(zkl_seat *seat)
{
    if (!seat->wanted) {
        return;
    }
    seat->wanted = false;
    switch (seat->state) {
    case ZKL_SEAT_PARKED:
    case ZKL_SEAT_LOOKING:
        gone(seat);
        break;
    case ZKL_SEAT_JOINING:
    case ZKL_SEAT_RECOVERING:
        /* The entry will arm no watch, and the fate of its node may never be known. */
        zkl_seat_reserve(seat, false);
        move(seat, seat->state); /* counts as cleaning from now on; the reply decides */
        break;
    case ZKL_SEAT_GRANTED:
        seat->held = true;
        zkl_watch_leave_directory(seat);
        __attribute__((fallthrough));
    case ZKL_SEAT_QUEUED:
    case ZKL_SEAT_CONFIRMING:
        zkl_watch_leave(seat);
        zkl_watch_leave_own(seat);
        zkl_seat_reserve(seat, false);
        move(seat, ZKL_SEAT_LEAVING);
        zkl_seat_step(seat);
        break;
    case ZKL_SEAT_LEAVING:
    case ZKL_SEAT_GONE:
        break;
    }
}

bool zkl_seat_adopt(zkl_line *line, const char *name, uint64_t serial)
{
    static const zkl_role roles[] = {
        [ZKL_NODE_STRANGER] = ZKL_ROLE_MUTEX,
        [ZKL_NODE_EXCLUSIVE] = ZKL_ROLE_MUTEX,
        [ZKL_NODE_SHARED] = ZKL_ROLE_READER,
        [ZKL_NODE_LEASE] = ZKL_ROLE_PERMIT,
    };
    zkl_seat *seat = new_seat(line, roles[zkl_node_parse(name).kind], serial);
    if (seat == NULL) {
        return false;
    }
    if (!set_node(seat, name)) {
        gone(seat);
        return false;
    }
    move(seat, ZKL_SEAT_LEAVING);
    zkl_seat_step(seat);
    return true;
}

void zkl_seat_deleted(zkl_request *request, int rc)
{
    zkl_seat *seat = request->about.seat;
    if (rc == ZOK) {
        zkl_lease_prove(seat->engine, request->sent_at);
        seat->engine->writes++;
    }
    if (request->generation != seat->generation || seat->state != ZKL_SEAT_LEAVING) {
        return;
    }
    seat->deleting = false;
    if (rc == ZOK) {
        zkl_seat_clears(seat, request);
    } else if (rc == ZNONODE && seat->held && seat->claim != NULL &&
               (!seat->doubted || ZKL_BROKEN(ZKL_BREAK_REPEATED))) {
        /* Externally: no earlier delete of ours can have been executed, and this one found no node. */
        zkl_claim_robbed(seat->claim, seat->node);
    }
    seat->doubted = seat->doubted || zkl_outcome_unknown(rc) || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE;
    if (rc == ZOK || rc == ZNONODE || (seat->claim == NULL && ZKL_BROKEN(ZKL_BREAK_ONCE))) {
        gone(seat);
    } else if (zkl_outcome_unknown(rc)) {
        seat->engine->stats.unknown_outcomes++;
        if (ZKL_BROKEN(ZKL_BREAK_CLEANUP)) {
            gone(seat);
        } else {
            zkl_seat_step(seat);
        }
    } else {
        /* The server refuses the delete (ZNOAUTH) or throttles it. Keep trying, but give the server time. */
        if (rc != ZSESSIONEXPIRED && rc != ZINVALIDSTATE) {
            zkl_log(seat->engine, ZOO_LOG_LEVEL_ERROR, "cannot delete '%s': %s", seat->node, zerror(rc));
            if (seat->claim != NULL) {
                zkl_claim_stuck(seat->claim, rc, seat->node);
            }
        }
        zkl_seat_wait_long(seat);
    }
}

/* --- joining ------------------------------------------------------------------------------------------------------- */

static void check_sequence(zkl_seat *seat)
{
    zkl_line *line = seat->line;
    if (seat->sequence >= ZKL_SEQUENCE_WARN && !line->warned) {
        line->warned = true;
        zkl_log(seat->engine, ZOO_LOG_LEVEL_WARN,
                "the sequence numbers of '%s' have reached %d of 2147483647: use another path before they end",
                line->path, seat->sequence);
    }
}

static bool exhausted(const zkl_seat *seat)
{
    return seat->sequence < 0 || seat->sequence >= ZKL_SEQUENCE_LIMIT;
}

static void refuse_exhausted(zkl_seat *seat)
{
    refuse_all(seat, ZKL_EXHAUSTED,
               "the sequence numbers of '%s' are used up (%d): delete the empty directory, or use another path",
               seat->line->path, seat->sequence);
}

/*
 * Another node has the same number, although the numbers are not near their end. This was seen when servers had lost
 * acknowledged transactions (ZOOKEEPER-4785) and gave out numbers a second time. Neither node is before the other.
 */
static void refuse_tied(zkl_seat *seat)
{
    if (exhausted(seat)) {
        refuse_exhausted(seat);
    } else {
        refuse_all(seat, ZKL_EXHAUSTED,
                   "another node of '%s' has the sequence number %d too: the servers have given it twice",
                   seat->line->path, seat->sequence);
    }
}

/* The entry has no node. Returns false if no acquisition wants the entry any more; the entry is then gone. */
static bool begin_anew(zkl_seat *seat)
{
    if (!seat->wanted) {
        gone(seat);
        return false;
    }
    start_over(seat);
    if (seat->role == ZKL_ROLE_TURN) {
        zkl_permits_retreat(seat->claim, false);
    }
    return true;
}

static void not_created(zkl_seat *seat, int rc)
{
    if (!begin_anew(seat)) {
        return;
    }
    if (rc == ZNONODE) {
        char data[12] = "";
        zkl_line_make_parents(seat->line, seat->role == ZKL_ROLE_PERMIT ? zkl_permits_data(seat->claim, data) : data,
                              &seat->claim->terms->acl);
        zkl_seat_step(seat);
    } else if (rc == ZTHROTTLEDOP) {
        zkl_seat_wait_long(seat);
    } else if (rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE) {
        zkl_seat_wait(seat);
    } else {
        zkl_seat_refuse(seat, rc, "creating a node in");
    }
}

/*
 * A node with the entry's uuid exists in this session, but the entry must not go on with it. Deletes the node. If the
 * entry is still wanted, it gets another node.
 */
static void drop_node(zkl_seat *seat)
{
    if (!seat->wanted) {
        move(seat, ZKL_SEAT_LEAVING);
        zkl_seat_step(seat);
    } else if (zkl_seat_adopt(seat->line, seat->node + strlen(seat->line->path) + 1, seat->serial)) {
        not_created(seat, ZINVALIDSTATE);
    } else {
        zkl_free(seat->node);
        seat->node = NULL;
        move(seat, ZKL_SEAT_RECOVERING);
        zkl_seat_wait_long(seat); /* memory is short: looks for the node again */
    }
}

/* The node exists and is ours. `elsewhere` is passed to zkl_seat_most_ahead. */
static void seated(zkl_seat *seat, int64_t czxid, int64_t elsewhere)
{
    if (!seat->beside) {
        seat->czxid = czxid;
    }
    move(seat, seat->wanted ? ZKL_SEAT_QUEUED : ZKL_SEAT_LEAVING);
    seat->unlucky = false;
    check_sequence(seat);
    seat->ahead = zkl_seat_most_ahead(seat, czxid, elsewhere);
    seat->line->follows = seat->foremost = seat->ahead == 0;
    seat->unlisted = true;
    if (seat->wanted && exhausted(seat)) {
        refuse_exhausted(seat);
    } else if (seat->wanted && seat->foremost) {
        first_in_line(seat);
    } else if (!seat->wanted || seat->beside || !zkl_seat_foresee(seat)) {
        zkl_seat_step(seat);
    }
}

/* Whether the reply can describe the node that the entry's create made. A faulty server may answer anything. */
static bool may_be_created(const zkl_seat *seat, const char *path, const struct Stat *stat)
{
    size_t stem = strlen(seat->line->path);
    if (path == NULL || strncmp(path, seat->line->path, stem) != 0 || path[stem] != '/') {
        return false;
    }
    char uuid[ZKL_UUID_LENGTH + 1];
    zkl_seat_uuid(seat, uuid);
    const char *name = path + stem + 1;
    return strchr(name, '/') == NULL && zkl_node_has_uuid(name, uuid) &&
           zkl_node_parse(name).kind == zkl_seat_kind(seat) &&
           (stat == NULL || (stat->ephemeralOwner == seat->engine->session_id && stat->czxid > 0));
}

void zkl_seat_created(zkl_request *request, int rc, const char *path, const struct Stat *stat)
{
    zkl_seat *seat = request->about.seat;
    zkl_engine *engine = seat->engine;
    if (rc == ZOK) {
        zkl_lease_prove(engine, request->sent_at);
        engine->writes++;
        seat->line->creates++;
    }
    if (request->generation != seat->generation || seat->state != ZKL_SEAT_JOINING) {
        return;
    }
    seat->writes = engine->writes - seat->line->creates;
    seat->connection = request->connection;
    bool ours_now = rc == ZOK && may_be_created(seat, path, stat);
    if (seat->beside && rc == ZNONODE) {
        if (seat->writer != NULL) {
            /* The writer's node was deleted externally. The reader queues like any other. */
            zkl_seat_evicted(seat->writer);
        }
        not_created(seat, ZINVALIDSTATE);
    } else if (ours_now && set_node(seat, path + strlen(seat->line->path) + 1)) {
        seated(seat, stat != NULL ? stat->czxid : seat->czxid, seat->writes - seat->line->cleared_writes);
    } else if (rc == ZOK || zkl_outcome_unknown(rc)) {
        engine->stats.unknown_outcomes++;
        if (ZKL_BROKEN(ZKL_BREAK_RECOVERY)) {
            not_created(seat, ZINVALIDSTATE);
            return;
        }
        seat->listing = false;
        move(seat, ZKL_SEAT_RECOVERING);
        if (seat->role == ZKL_ROLE_TURN && seat->wanted) {
            zkl_permits_retreat(seat->claim, false);
        }
        /*
         * Not stepped here: a request that is sent from inside a failing completion would go out on another connection.
         */
        zkl_seat_wait(seat);
    } else {
        not_created(seat, rc);
    }
}

/* --- the position in the queue ------------------------------------------------------------------------------------- */

/*
 * A writer of Curator's read/write lock may become a reader. It creates a reader's node with its own number and then
 * deletes the writer's node. So the deletion of a writer's node alone proves nothing (CURATOR-276).
 */
static bool may_downgrade(const char *name)
{
    return strstr(name, "-__WRIT__") != NULL;
}

static void refuse_try(zkl_seat *seat, const char *name)
{
    zkl_claim_finish(seat->claim, ZKL_CLAIM_REFUSED, ZKL_TIMEOUT, "'%s' is taken: '%s' is ahead",
                     zkl_claim_path(seat->claim), name);
    zkl_claim_leave(seat->claim);
}

/* The node kind by which other nodes block the entry. Differs from zkl_seat_kind only if ZKL_BREAK_READERS is set. */
static zkl_node_kind kind_in_queue(const zkl_seat *seat)
{
    return ZKL_BROKEN(ZKL_BREAK_READERS) && seat->role == ZKL_ROLE_WRITER ? ZKL_NODE_SHARED : zkl_seat_kind(seat);
}

/* Acts on the entry's position in a list that was made when its node existed. */
static void stand(zkl_seat *seat, const struct String_vector *names)
{
    zkl_standing standing = zkl_queue_standing(names->data, names->count, zkl_seat_name(seat), kind_in_queue(seat));
    seat->foreseeing = seat->unlisted = false;
    if (!standing.listed && !ZKL_BROKEN(ZKL_BREAK_LISTED)) {
        zkl_seat_evicted(seat);
        return;
    }
    if (standing.tied) {
        refuse_tied(seat);
        return;
    }
    if (standing.blocking == 0) {
        seat->foremost = standing.earlier == 0;
        first_in_line(seat);
        return;
    }
    bool removed = zkl_line_remove_strays(seat->line, names);
    if (seat->claim->try_only) {
        refuse_try(seat, names->data[standing.nearest]);
        return;
    }
    if (seat->role == ZKL_ROLE_TURN) {
        zkl_permits_retreat(seat->claim, true);
        zkl_permits_search(seat->claim);
    }
    seat->ahead = standing.blocking + (int32_t)may_downgrade(names->data[standing.nearest]);
    if (removed) {
        zkl_seat_stands_behind(seat, names->data[standing.nearest]);
        zkl_watch_node(seat, names->data[standing.nearest]);
    } else {
        zkl_seat_wait_long(seat); /* lists again later: the node before it may be a stray */
    }
    zkl_share_waits(seat);
}

/* Handles a list of the queue for a queue entry that was at the head and keeps permits for which there is no room. */
static void check_place(zkl_seat *turn, int rc, const struct String_vector *names)
{
    if (rc == ZNONODE) {
        zkl_seat_evicted(turn); /* the whole directory is gone */
    } else if (rc == ZTHROTTLEDOP) {
        zkl_permits_look_later(turn->claim);
    } else if (rc == ZOK) {
        zkl_standing standing = zkl_queue_standing(names->data, names->count, zkl_seat_name(turn), kind_in_queue(turn));
        if (!standing.listed || standing.tied || standing.blocking > 0) {
            zkl_watch_leave(turn);
            turn->foremost = false;
            move(turn, ZKL_SEAT_QUEUED);
            stand(turn, names);
        }
    }
}

void zkl_seat_try_again(zkl_seat *seat)
{
    /* The reply to another list may still arrive; it must not count. */
    seat->generation++;
    move(seat, ZKL_SEAT_PARKED);
    if (seat->role == ZKL_ROLE_TURN) {
        zkl_permits_restart(seat->claim);
    }
    zkl_seat_wait_long(seat);
}

/* Handles the list that precedes the first write of a try. */
static void decide_try(zkl_seat *seat, int rc, const struct String_vector *names)
{
    if (rc == ZOK) {
        zkl_standing standing = zkl_queue_standing(names->data, names->count, "", kind_in_queue(seat));
        if (standing.blocking > 0) {
            zkl_line_remove_strays(seat->line, names);
            refuse_try(seat, names->data[standing.nearest]);
            return;
        }
    } else if (rc == ZTHROTTLEDOP) {
        zkl_seat_try_again(seat);
        return;
    } else if (rc != ZNONODE) {
        zkl_seat_refuse(seat, rc, "listing");
        return;
    }
    if (seat->role != ZKL_ROLE_TURN) {
        zkl_seat_join(seat); /* a semaphore's queue entry waits for the list of permits, which follows */
    }
}

void zkl_seat_join(zkl_seat *seat)
{
    move(seat, ZKL_SEAT_PARKED);
    send_join(seat);
}

/*
 * Looks in a list for the node of a create whose reply was lost. The list counts only behind a sync on the same
 * connection.
 */
static void find_own(zkl_seat *seat, const zkl_request *request, int rc, const struct String_vector *names)
{
    char uuid[ZKL_UUID_LENGTH + 1];
    zkl_seat_uuid(seat, uuid);
    if ((rc != ZOK && rc != ZNONODE) || request->connection != seat->connection) {
        if (zkl_outcome_unknown(rc)) {
            zkl_seat_wait(seat);
            return;
        }
        bool transient =
            rc == ZOK || rc == ZNONODE || rc == ZTHROTTLEDOP || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE;
        if (seat->wanted && !transient) {
            /*
             * The directory may not be listed. The node may exist, so the search goes on, but no acquisition waits for
             * it.
             */
            refuse_all(seat, zkl_code_of(rc), "listing '%s' after a lost reply: %s", seat->line->path, zerror(rc));
        }
        zkl_seat_wait_long(seat);
        return;
    }
    for (int32_t i = 0; rc == ZOK && i < names->count; i++) {
        if (zkl_node_has_uuid(names->data[i], uuid)) {
            if (!set_node(seat, names->data[i]) || !zkl_send_stat(seat)) {
                zkl_free(seat->node);
                seat->node = NULL;
                zkl_seat_wait(seat);
            }
            return;
        }
    }
    if (!ZKL_BROKEN(ZKL_BREAK_SEARCH)) {
        seat->line->lost_in = seat->engine->session_id;
    }
    bool again = seat->unlucky;
    seat->unlucky = true;
    if (!begin_anew(seat)) {
        return;
    }
    if (again) {
        /* If a server has lost the directory, it answers no create, however often the create is repeated. */
        zkl_seat_wait_long(seat);
    } else {
        zkl_seat_wait(seat);
    }
}

void zkl_seat_synced(zkl_request *request, int rc)
{
    zkl_seat *seat = request->about.seat;
    if (request->generation == seat->generation && seat->state == ZKL_SEAT_RECOVERING) {
        seat->connection = rc == ZOK ? request->connection : 0;
    }
}

/*
 * The create whose reply was lost has made its node: the node has the entry's uuid, so it belongs to this session. But
 * the client may not read the node, so its czxid, which becomes the token, is unknown. Servers since 3.8.4 and 3.9.2
 * want READ for exists.
 */
static void found_unreadable(zkl_seat *seat)
{
    zkl_log(seat->engine, ZOO_LOG_LEVEL_WARN,
            "deleting '%s', since the reply to its create was lost and the acl does not let the client read it",
            seat->node);
    drop_node(seat);
}

void zkl_seat_stat(zkl_request *request, int rc, const struct Stat *stat)
{
    zkl_seat *seat = request->about.seat;
    if (request->generation != seat->generation) {
        return;
    }
    if (seat->state != ZKL_SEAT_RECOVERING) {
        return;
    }
    if (rc == ZOK && stat->ephemeralOwner == seat->engine->session_id && stat->czxid > 0) {
        /*
         * The node was made some time ago. Our writes that were acknowledged since may have been executed after its
         * create.
         */
        seat->writes = seat->engine->writes - seat->line->creates;
        seated(seat, stat->czxid, 0);
    } else if (rc == ZOK || rc == ZNONODE) {
        not_created(seat, ZINVALIDSTATE); /* deleted meanwhile, or of another session and removed with it */
    } else if (rc == ZNOAUTH && !ZKL_BROKEN(ZKL_BREAK_UNREADABLE)) {
        found_unreadable(seat);
    } else {
        zkl_free(seat->node);
        seat->node = NULL;
        if (rc == ZTHROTTLEDOP) {
            zkl_seat_wait_long(seat);
        } else {
            zkl_seat_wait(seat);
        }
    }
}

/*
 * Handles the exists of the writer's node, which was sent behind the create of the downgraded reader's node. If its
 * czxid is the writer's, the writer's node existed without a break until then, so every contender behind it has seen
 * one of the two nodes. The create does not prove that: it only checks that a node of that name exists. The writer's
 * node may have been deleted, another writer granted, and a node of the same name made.
 */
void zkl_seat_writer_stat(zkl_request *request, int rc, const struct Stat *stat)
{
    zkl_seat *seat = request->about.seat;
    if (request->generation != seat->generation || seat->state != ZKL_SEAT_QUEUED || !seat->beside) {
        return;
    }
    seat->listing = false;
    bool same = rc == ZOK && stat->czxid == seat->czxid;
    bool unreadable = rc == ZNOAUTH; /* servers since 3.8.4 and 3.9.2 want READ for exists */
    bool broken = ZKL_BROKEN(ZKL_BREAK_LOST_WRITER) || ZKL_BROKEN(ZKL_BREAK_WRITER);
    if (same || unreadable || broken) {
        first_in_line(seat);
    } else if (rc == ZOK || rc == ZNONODE) {
        if (seat->writer != NULL) {
            evict(seat->writer, rc == ZOK ? "deleted, and made anew," : "deleted");
        }
        drop_node(seat);
    } else if (rc == ZTHROTTLEDOP) {
        zkl_seat_wait_long(seat);
    } else {
        zkl_seat_wait(seat);
    }
}

void zkl_seat_listed(zkl_request *request, int rc, const struct String_vector *names)
{
    zkl_seat *seat = request->about.seat;
    if (ZKL_BROKEN(ZKL_BREAK_PAIRING) && request->purpose == ZKL_LIST_JOIN && rc == ZOK && seat->wanted &&
        seat->state == ZKL_SEAT_PARKED &&
        zkl_queue_standing(names->data, names->count, "", kind_in_queue(seat)).blocking == 0) {
        first_in_line(seat);
        return;
    }
    if (request->generation != seat->generation) {
        return;
    }
    if (request->purpose == ZKL_LIST_TRY) {
        if (seat->state == ZKL_SEAT_LOOKING) {
            decide_try(seat, rc, names);
        }
        return;
    }
    if (request->purpose == ZKL_LIST_PLACE) {
        if (seat->state == ZKL_SEAT_CONFIRMING) {
            check_place(seat, rc, names);
        }
        return;
    }
    if (request->purpose == ZKL_LIST_RECOVER) {
        if (seat->state == ZKL_SEAT_RECOVERING) {
            seat->listing = false;
            find_own(seat, request, rc, names);
        }
        return;
    }
    if (seat->state != ZKL_SEAT_QUEUED) {
        return; /* its create failed, or it is leaving */
    }
    seat->listing = false;
    if (rc == ZOK && (request->purpose == ZKL_LIST_LOOK || request->connection == seat->connection)) {
        stand(seat, names);
    } else if (rc == ZNONODE) {
        zkl_seat_evicted(seat); /* the whole directory is gone */
    } else if (rc == ZTHROTTLEDOP) {
        zkl_seat_wait_long(seat);
    } else if (rc == ZOK || zkl_outcome_unknown(rc) || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE) {
        if (!ZKL_BROKEN(ZKL_BREAK_REARM)) {
            zkl_seat_wait(seat);
        }
    } else {
        zkl_seat_refuse(seat, rc, "listing");
    }
}

void zkl_seat_blocker_gone(zkl_seat *seat)
{
    if (seat->state == ZKL_SEAT_CONFIRMING && seat->role == ZKL_ROLE_TURN) {
        zkl_permits_event(seat->claim);
        return;
    }
    if (seat->state == ZKL_SEAT_GRANTED) {
        /* this watch is on the directory: the entry lingers, has lingered, or is much used */
        zkl_share_contested(seat);
        return;
    }
    if (seat->state != ZKL_SEAT_QUEUED) {
        return;
    }
    seat->ahead--;
    if (seat->ahead <= 0 || ZKL_BROKEN(ZKL_BREAK_AHEAD)) {
        first_in_line(seat);
    } else {
        zkl_seat_step(seat);
    }
}

void zkl_seat_look_later(zkl_seat *seat)
{
    if (seat->state == ZKL_SEAT_QUEUED) {
        zkl_seat_wait_long(seat);
    }
}

void zkl_seat_look_again(zkl_seat *seat)
{
    if (seat->state == ZKL_SEAT_QUEUED || (seat->state == ZKL_SEAT_CONFIRMING && seat->role == ZKL_ROLE_TURN)) {
        zkl_seat_wait(seat);
    } else if (seat->state == ZKL_SEAT_GRANTED) {
        zkl_share_contested(seat);
    }
}

/* --- what other sessions do to our nodes --------------------------------------------------------------------------- */

void zkl_seat_revoked(zkl_seat *seat)
{
    seat->revoked = true;
    zkl_claim *claim;
    TAILQ_FOREACH(claim, &seat->behind, in_seat)
    {
        zkl_claim_revoked(claim);
    }
    if (seat->claim != NULL) {
        zkl_claim_revoked(seat->claim);
        zkl_share_move_on(seat);
    } else {
        zkl_seat_leave(seat); /* the entry lingers */
    }
}

/*
 * The node of a granted entry is gone. The acquisitions that hold by it are lost; those that wait for it get another
 * entry.
 */
static void vanish(zkl_seat *seat, const char *why)
{
    zkl_share_move_on(seat);
    move(seat, ZKL_SEAT_LEAVING); /* there is nothing left to delete */
    seat->wanted = false;
    zkl_claim *claim;
    while ((claim = TAILQ_FIRST(&seat->behind)) != NULL) {
        zkl_claim_lose(claim, ZKL_LOST, "'%s' is lost: %s", zkl_claim_path(claim), why);
    }
    if (seat->claim != NULL) {
        zkl_claim_lose(seat->claim, ZKL_LOST, "'%s' is lost: %s", zkl_claim_path(seat->claim), why);
    }
    gone(seat);
}

/* The entry's node was deleted externally. `how` completes the message "somebody ... its node". */
static void evict(zkl_seat *seat, const char *how)
{
    if (ZKL_BROKEN(ZKL_BREAK_EVICTED) && seat->state == ZKL_SEAT_GRANTED) {
        return;
    }
    if (seat->state == ZKL_SEAT_GRANTED) {
        char why[512];
        snprintf(why, sizeof why, "somebody %s its node '%.400s'", how, seat->node);
        vanish(seat, why);
    } else if (seat->wanted) {
        zkl_log(seat->engine, ZOO_LOG_LEVEL_WARN, "somebody %s '%s': queueing again", how, seat->node);
        start_over(seat);
        if (seat->role == ZKL_ROLE_TURN) {
            zkl_permits_retreat(seat->claim, false);
        }
        zkl_seat_step(seat);
    } else {
        gone(seat);
    }
}

void zkl_seat_evicted(zkl_seat *seat)
{
    evict(seat, "deleted");
}

void zkl_seat_replaced(zkl_seat *seat)
{
    evict(seat, "deleted, and made anew,");
}

void zkl_seat_session_over(zkl_seat *seat, const char *why)
{
    if (seat->state == ZKL_SEAT_GRANTED) {
        if (ZKL_BROKEN(ZKL_BREAK_OWNER)) {
            return;
        }
        vanish(seat, why);
    } else if (seat->wanted && seat->role != ZKL_ROLE_PERMIT) {
        start_over(seat);
        if (seat->role == ZKL_ROLE_TURN) {
            zkl_permits_restart(seat->claim);
        }
        zkl_seat_wait(seat);
    } else {
        gone(seat);
    }
}
