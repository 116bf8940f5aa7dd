/*
 * share: several acquisitions of one client use one entry, one after the other or, if they are readers, together.
 *
 * Acquisitions of one path queue locally, first in, first out. They are in the list seat->behind of the latest entry
 * that covers them: a mutex's entry covers mutex acquisitions, a reader's entry readers, a writer's entry both readers
 * and writers. When the acquisition that holds ends, the next one is granted without a request. This is a *hand-over*.
 *
 * An entry is promised to at most `handoff` acquisitions beyond its first, so a contender of another client behind the
 * entry waits for at most that many of them. The next acquisition gets an entry of its own, which is queued at once.
 * Readers that have waited together are granted together and count once.
 *
 * If no other client is in the queue, the bound would only cost requests. So an entry that is used much watches its
 * directory, and while it is *alone* there, the bound does not count. When a contender comes, all acquisitions that
 * still wait in the entry get entries of their own, behind the newcomer.
 *
 * An entry is handed over only by a release. If a grant ended otherwise (lost, max_hold), its holder may not know yet,
 * and only the node distinguishes its writes from those of its successor. So the node is deleted, and the waiting
 * acquisitions get another entry.
 *
 * An entry whose last acquisition was released may *linger*: its node stays for a while, and the entry watches its
 * directory. An acquisition of this client gets the lock without a request meanwhile. The entry leaves as soon as a
 * node comes or goes in the directory.
 */
#include <string.h>

#include "engine_private.h"

static bool is_lock(const zkl_seat *seat)
{
    return seat->role == ZKL_ROLE_MUTEX || seat->role == ZKL_ROLE_READER || seat->role == ZKL_ROLE_WRITER;
}

static bool lingers(const zkl_seat *seat)
{
    return seat->claim == NULL && seat->state == ZKL_SEAT_GRANTED;
}

/* --- finding an entry ---------------------------------------------------------------------------------------------- */

static bool covers(const zkl_seat *seat, zkl_mode mode)
{
    switch (seat->role) {
    case ZKL_ROLE_MUTEX:
        return mode == ZKL_MODE_MUTEX;
    case ZKL_ROLE_READER:
        return mode == ZKL_MODE_READ;
    case ZKL_ROLE_WRITER:
        return mode == ZKL_MODE_READ || mode == ZKL_MODE_WRITE;
    case ZKL_ROLE_TURN:
    case ZKL_ROLE_PERMIT:
        break;
    }
    return false;
}

/* Whether the entry's node has the data and the acl that the acquisition's own node would have. */
static bool same_node(const zkl_seat *seat, const zkl_claim *claim)
{
    return zkl_terms_alike(seat->claim != NULL ? seat->claim->terms : seat->terms, claim->terms);
}

static zkl_claim *following(const zkl_seat *seat, zkl_claim *claim)
{
    return claim == seat->claim ? TAILQ_FIRST(&seat->behind) : TAILQ_NEXT(claim, in_seat);
}

static zkl_claim *preceding(const zkl_seat *seat, zkl_claim *claim)
{
    if (claim == seat->claim) {
        return NULL;
    }
    zkl_claim *before = TAILQ_PREV(claim, zkl_claim_list, in_seat);
    return before != NULL ? before : seat->claim;
}

static zkl_claim *last_in(const zkl_seat *seat)
{
    zkl_claim *last = TAILQ_LAST(&seat->behind, zkl_claim_list);
    return last != NULL ? last : seat->claim;
}

/* Whether readers hold the entry and no acquisition waits in it. Only readers can hold while they share an entry. */
static bool only_readers_hold(const zkl_seat *seat)
{
    return zkl_claim_mode(seat->claim) == ZKL_MODE_READ && seat->state == ZKL_SEAT_GRANTED &&
           (TAILQ_EMPTY(&seat->behind) || last_in(seat)->phase == ZKL_CLAIM_GRANTED);
}

static bool is_waiting_reader(const zkl_claim *claim)
{
    return claim != NULL && zkl_claim_mode(claim) == ZKL_MODE_READ && claim->phase == ZKL_CLAIM_WAITING;
}

/* Whether the acquisition would be granted together with the last one in the entry. The two count once. */
static bool goes_in_together(const zkl_seat *seat, const zkl_claim *claim)
{
    const zkl_claim *last = last_in(seat);
    bool later = ZKL_BROKEN(ZKL_BREAK_TOGETHER) && zkl_claim_mode(last) == ZKL_MODE_READ;
    return zkl_claim_mode(claim) == ZKL_MODE_READ && (is_waiting_reader(last) || later);
}

/* Whether the entry is not handed over any more, so that an acquisition that waited in it would never be granted. */
static bool is_closed(const zkl_seat *seat)
{
    bool worn = seat->grants >= ZKL_MAX_GRANTS && !ZKL_BROKEN(ZKL_BREAK_GRANTS);
    return seat->revoked || seat->spoilt || seat->spent || worn;
}

/* Whether one more acquisition would exceed the bound that protects waiters of other clients. */
static bool is_full(const zkl_seat *seat, const zkl_claim *claim)
{
    int32_t handoff = claim->terms->lock.handoff;
    bool harmless = handoff > 0 && (seat->alone || goes_in_together(seat, claim));
    return seat->turns > handoff && !harmless && !ZKL_BROKEN(ZKL_BREAK_HANDOFF);
}

zkl_seat *zkl_share_find(const zkl_claim *claim)
{
    if (zkl_claim_mode(claim) == ZKL_MODE_PERMITS) {
        return NULL;
    }
    zkl_seat *seat = TAILQ_LAST(&claim->line->seats, zkl_seat_list);
    while (seat != NULL && !(seat->wanted && is_lock(seat))) {
        seat = TAILQ_PREV(seat, zkl_seat_list, in_line);
    }
    if (seat == NULL || seat->beside || seat->writer != NULL || is_closed(seat) ||
        !covers(seat, zkl_claim_mode(claim)) || !same_node(seat, claim)) {
        return NULL;
    }
    if (lingers(seat)) {
        return zkl_lease_covers_more(claim->engine) ? seat : NULL;
    }
    if (is_full(seat, claim) || (seat->claim->try_only && seat->state != ZKL_SEAT_GRANTED)) {
        return NULL;
    }
    bool at_once = zkl_claim_mode(claim) == ZKL_MODE_READ && only_readers_hold(seat);
    bool granted = at_once && zkl_lease_covers_more(claim->engine);
    return (claim->try_only || at_once) && !granted ? NULL : seat;
}

/* --- granting ------------------------------------------------------------------------------------------------------- */

static void grant(zkl_seat *seat, zkl_claim *claim)
{
    seat->grants += seat->granted;
    seat->engine->stats.hand_overs += seat->granted;
    seat->granted = true;
    zkl_claim_grant(claim, seat);
    /* With ZKL_BREAK_PAIRING there may be no node to watch. */
    if (claim->terms->lock.revocable && seat->own == NULL && !ZKL_BROKEN(ZKL_BREAK_PAIRING)) {
        zkl_watch_own(seat); /* may report at once that another client asked for the lock */
    }
}

/* Whether the acquisition may hold now. All acquisitions before it in the entry hold or have ended. */
static bool has_turn(const zkl_seat *seat, const zkl_claim *claim)
{
    return claim == seat->claim || zkl_claim_mode(claim) == ZKL_MODE_READ || ZKL_BROKEN(ZKL_BREAK_SHARE);
}

/* Whether another entry of this client waits for this one. Then a contender is in the queue already. */
static bool others_wait_here(const zkl_seat *seat)
{
    const zkl_seat *other;
    TAILQ_FOREACH(other, &seat->line->seats, in_line)
    {
        if (other != seat && other->wanted && zkl_kind_conflicts(zkl_seat_kind(other), zkl_seat_kind(seat))) {
            return true;
        }
    }
    return false;
}

/*
 * Watches which nodes come and go in the queue. Returns false if that is not possible now, or if no list will show
 * which nodes are there.
 */
static bool watch_line(zkl_seat *seat)
{
    if (!zkl_seat_fits(seat)) {
        return false; /* no room for the watch in the SetWatches request after a reconnect */
    }
    zkl_seat_reserve(seat, true);
    return zkl_watch_children(seat, seat->line);
}

/*
 * Watches the queue if `claims` is more than a quarter of the bound. This is early enough to know, before the entry is
 * full, whether other contenders are there.
 */
static void listen_if_much_used(zkl_seat *seat, int32_t claims)
{
    bool much = claims > seat->claim->terms->lock.handoff / 4;
    if (much && seat->state == ZKL_SEAT_GRANTED && seat->watch == NULL && !seat->contested && !is_closed(seat) &&
        !others_wait_here(seat) && zkl_session_usable(seat->engine)) {
        watch_line(seat);
    }
}

/* Grants what may be granted, beginning with `claim`. No acquisition before it waits. */
static void grant_from(zkl_seat *seat, zkl_claim *claim)
{
    int32_t granted = 0;
    if (seat->state != ZKL_SEAT_GRANTED || !zkl_lease_valid(seat->engine)) {
        return;
    }
    while (claim != NULL && has_turn(seat, claim) && !is_closed(seat)) {
        if (claim->phase == ZKL_CLAIM_WAITING) {
            grant(seat, claim);
            granted++;
        }
        bool exclusive = zkl_claim_mode(claim) != ZKL_MODE_READ && !ZKL_BROKEN(ZKL_BREAK_SHARE);
        claim = exclusive ? NULL : following(seat, claim);
    }
    /* All of them may acquire again, but the entry has room for a few only. */
    if (granted > 1) {
        listen_if_much_used(seat, granted);
    }
}

void zkl_share_advance(zkl_seat *seat)
{
    grant_from(seat, seat->claim);
}

void zkl_share_waits(zkl_seat *seat)
{
    zkl_claim *claim;
    for (claim = seat->claim; claim != NULL; claim = following(seat, claim)) {
        if (claim->phase == ZKL_CLAIM_WAITING) {
            zkl_claim_waits(claim);
        }
    }
}

/* --- joining and leaving an entry ---------------------------------------------------------------------------------- */

/* From now on the entry serves this acquisition first. */
static void put_first(zkl_seat *seat, zkl_claim *claim)
{
    seat->claim = claim;
    claim->seat = seat;
    claim->behind = false;
    LIST_INSERT_HEAD(&claim->seats, seat, in_claim);
}

void zkl_share_stop_lingering(zkl_seat *seat)
{
    if (seat->linger_until != ZKL_NEVER) {
        TAILQ_REMOVE(&seat->engine->lingering, seat, in_lingering);
        seat->linger_until = ZKL_NEVER;
    }
}

/* Promises the entry to this acquisition too, after all others. */
static void promise(zkl_seat *seat, zkl_claim *claim)
{
    seat->turns += !seat->alone && !goes_in_together(seat, claim);
    claim->seat = seat;
    claim->behind = true;
    TAILQ_INSERT_TAIL(&seat->behind, claim, in_seat);
}

void zkl_share_join(zkl_seat *seat, zkl_claim *claim)
{
    zkl_claim *first = claim;
    if (lingers(seat)) {
        zkl_share_stop_lingering(seat);
        put_first(seat, claim);
        /* If the entry is not alone, the list that shows it may still be in flight. */
        seat->turns = seat->alone ? 1 : seat->turns + 1;
    } else {
        first = only_readers_hold(seat) ? claim : seat->claim;
        promise(seat, claim);
        listen_if_much_used(seat, seat->turns);
    }
    grant_from(seat, first);
    if (claim->phase == ZKL_CLAIM_WAITING) {
        zkl_claim_waits(claim);
    }
}

/*
 * Whether the acquisition's end leaves the count of promises as it is: other readers would have been granted with it.
 */
static bool leaves_turn(const zkl_seat *seat, zkl_claim *claim)
{
    return zkl_claim_mode(claim) == ZKL_MODE_READ &&
           (is_waiting_reader(preceding(seat, claim)) || is_waiting_reader(following(seat, claim)));
}

/* An acquisition of the entry has ended. It is still linked to the entry. */
static void note_end(zkl_seat *seat, zkl_claim *claim)
{
    bool promised = claim->token.number == 0 && !seat->alone; /* never granted, but counted in `turns` */
    if (promised && !leaves_turn(seat, claim)) {
        seat->turns--;
    }
    if (claim->phase == ZKL_CLAIM_LOST && seat->state == ZKL_SEAT_GRANTED && !ZKL_BROKEN(ZKL_BREAK_RELEASED)) {
        seat->spoilt = true;
    }
}

void zkl_share_part(zkl_claim *claim)
{
    zkl_seat *seat = claim->seat;
    bool had_none = claim->token.number == 0;
    note_end(seat, claim);
    TAILQ_REMOVE(&seat->behind, claim, in_seat);
    claim->seat = NULL;
    claim->behind = false;
    zkl_claim_settle(claim);
    if (is_closed(seat)) {
        zkl_share_move_on(seat);
    }
    if (had_none) {
        zkl_share_advance(seat); /* the acquisition may have blocked those behind it */
    }
}

/* Whether a downgraded reader holds, or is about to hold, beside the writer whose entry this is. */
static bool reader_beside(const zkl_seat *seat)
{
    const zkl_seat *other;
    TAILQ_FOREACH(other, &seat->line->seats, in_line)
    {
        if (other->beside && other->czxid == seat->czxid && other->state != ZKL_SEAT_GONE) {
            return true;
        }
    }
    return false;
}

static bool may_hand_over(const zkl_seat *seat, const zkl_claim *to)
{
    bool beside = zkl_claim_mode(to) != ZKL_MODE_READ && reader_beside(seat);
    return to->phase != ZKL_CLAIM_WAITING || (zkl_lease_covers_more(seat->engine) && !beside);
}

/* The role of an entry that covers all acquisitions that share this one. */
static zkl_role role_for_rest(const zkl_seat *seat)
{
    const zkl_claim *claim;
    zkl_role role = seat->role == ZKL_ROLE_MUTEX ? ZKL_ROLE_MUTEX : ZKL_ROLE_READER;
    TAILQ_FOREACH(claim, &seat->behind, in_seat)
    {
        role = zkl_claim_mode(claim) == ZKL_MODE_WRITE ? ZKL_ROLE_WRITER : role;
    }
    return role;
}

/*
 * Moves acquisitions that share `from`, beginning with `claim`, to `to` until that is full. Returns the first that is
 * left, or NULL.
 */
static zkl_claim *move_behind(zkl_seat *from, zkl_claim *claim, zkl_seat *to)
{
    zkl_claim *next;
    for (; claim != NULL && !is_full(to, claim); claim = next) {
        next = TAILQ_NEXT(claim, in_seat);
        TAILQ_REMOVE(&from->behind, claim, in_seat);
        promise(to, claim);
    }
    return claim;
}

/*
 * Gives the first waiting acquisition an entry of its own, together with as many of those behind it as the entry has
 * room for. The next one gets another entry, and so on. Sends nothing. Returns the first of these entries, or NULL if
 * no acquisition waits.
 */
static zkl_seat *replace(zkl_seat *seat)
{
    zkl_claim *claim = TAILQ_FIRST(&seat->behind);
    while (claim != NULL && claim->phase != ZKL_CLAIM_WAITING) {
        claim = TAILQ_NEXT(claim, in_seat);
    }
    if (claim == NULL) {
        return NULL;
    }
    zkl_role role = role_for_rest(seat);
    zkl_claim *next = TAILQ_NEXT(claim, in_seat);
    TAILQ_REMOVE(&seat->behind, claim, in_seat);
    claim->behind = false;
    zkl_seat *fresh = claim->seat = zkl_seat_new(claim, seat->line, role);
    if (fresh == NULL) {
        zkl_claim_finish(claim, ZKL_CLAIM_REFUSED, ZKL_FAILED, "not enough memory to queue for '%s' again",
                         zkl_claim_path(claim));
        zkl_claim_settle(claim);
        return replace(seat);
    }
    if (move_behind(seat, next, fresh) != NULL) {
        replace(seat);
    }
    return fresh;
}

/* Sends the requests of the entries that `replace` has made. */
static void step_from(zkl_seat *fresh)
{
    while (fresh != NULL) {
        zkl_seat *next = TAILQ_NEXT(fresh, in_line); /* stepping does not free an entry that has sent nothing */
        if (fresh->state == ZKL_SEAT_PARKED) {
            zkl_seat_step(fresh);
        }
        fresh = next;
    }
}

void zkl_share_move_on(zkl_seat *seat)
{
    step_from(replace(seat));
}

/* --- lingering ------------------------------------------------------------------------------------------------------ */

static void insert_by_end(zkl_seat *seat)
{
    struct zkl_seat_list *lingering = &seat->engine->lingering;
    zkl_seat *before = TAILQ_LAST(lingering, zkl_seat_list);
    while (before != NULL && before->linger_until > seat->linger_until) {
        before = TAILQ_PREV(before, zkl_seat_list, in_lingering);
    }
    if (before != NULL) {
        TAILQ_INSERT_AFTER(lingering, before, seat, in_lingering);
    } else {
        TAILQ_INSERT_HEAD(lingering, seat, in_lingering);
    }
}

/* The entry's last acquisition has ended. Returns true if the entry lingers; the acquisition is then settled. */
static bool begin_linger(zkl_seat *seat, zkl_claim *claim)
{
    zkl_engine *engine = seat->engine;
    if (claim->terms->lock.linger == 0 || claim->phase != ZKL_CLAIM_RELEASED || seat->state != ZKL_SEAT_GRANTED ||
        seat->beside || is_closed(seat) || reader_beside(seat) || !zkl_lease_valid(engine) ||
        !zkl_session_usable(engine)) {
        return false;
    }
    if ((seat->contested || others_wait_here(seat)) && !ZKL_BROKEN(ZKL_BREAK_LINGER)) {
        return false;
    }
    if (seat->watch == NULL && !watch_line(seat)) {
        return false; /* another entry of ours watches the queue, or the watch cannot be armed now */
    }
    if (seat->terms == NULL) {
        seat->terms = zkl_terms_take(claim->terms);
    }
    LIST_REMOVE(seat, in_claim);
    seat->claim = NULL;
    claim->seat = NULL;
    seat->linger_until = engine->now + claim->terms->lock.linger;
    insert_by_end(seat);
    zkl_claim_settle(claim);
    return true;
}

void zkl_share_contested(zkl_seat *seat)
{
    seat->contested = true;
    if (lingers(seat)) {
        if (!ZKL_BROKEN(ZKL_BREAK_LINGER)) {
            zkl_seat_leave(seat);
        }
    } else if (!ZKL_BROKEN(ZKL_BREAK_ALONE)) {
        bool beyond = seat->alone || seat->turns > seat->claim->terms->lock.handoff + 1;
        seat->alone = false;
        seat->spent = seat->spent || beyond;
        if (beyond) {
            zkl_share_move_on(seat);
        }
    }
}

void zkl_share_listed(zkl_seat *seat, int rc, const struct String_vector *names)
{
    zkl_node_kind mine = zkl_seat_kind(seat);
    bool alone = rc == ZOK;
    bool listed = rc != ZOK;
    for (int32_t i = 0; rc == ZOK && i < names->count; i++) {
        bool own = strcmp(names->data[i], zkl_seat_name(seat)) == 0;
        listed = listed || own;
        alone = alone && (own || !zkl_kind_conflicts(mine, zkl_node_parse(names->data[i]).kind));
    }
    if (!listed) {
        zkl_seat_evicted(seat);
    } else if (!alone) {
        zkl_share_contested(seat);
    } else if (!seat->contested) {
        seat->alone = true;
    }
}

void zkl_share_expire(zkl_engine *engine, bool all)
{
    zkl_seat *seat;
    while ((seat = TAILQ_FIRST(&engine->lingering)) != NULL && (all || seat->linger_until <= engine->now)) {
        zkl_seat_leave(seat);
    }
}

void zkl_share_forget(zkl_seat *seat)
{
    zkl_terms_drop(seat->terms);
    seat->terms = NULL;
}

void zkl_share_make_way(const zkl_claim *claim)
{
    zkl_seat *seat, *next;
    for (seat = TAILQ_FIRST(&claim->line->seats); seat != NULL; seat = next) {
        next = TAILQ_NEXT(seat, in_line);
        if (lingers(seat)) {
            zkl_seat_leave(seat);
        }
    }
}

/* --- passing on ----------------------------------------------------------------------------------------------------- */

bool zkl_share_pass(zkl_claim *claim)
{
    zkl_seat *seat = claim->seat;
    if (!is_lock(seat) || !seat->wanted) {
        return false;
    }
    /* Readers whose create is not sent yet must not be created beside the next holder's node. */
    zkl_seat_part_from_readers(seat, true);
    note_end(seat, claim);
    zkl_claim *next = TAILQ_FIRST(&seat->behind);
    if (next == NULL) {
        return begin_linger(seat, claim);
    }
    bool moves = seat->state == ZKL_SEAT_GRANTED && (is_closed(seat) || !may_hand_over(seat, next));
    zkl_seat *fresh = moves ? replace(seat) : NULL;
    next = TAILQ_FIRST(&seat->behind);
    if (next != NULL) {
        TAILQ_REMOVE(&seat->behind, next, in_seat);
        LIST_REMOVE(seat, in_claim);
        claim->seat = NULL;
        put_first(seat, next);
        zkl_claim_settle(claim);
        if (next->phase == ZKL_CLAIM_WAITING) {
            zkl_share_advance(seat);
        }
    } else {
        zkl_seat_leave(seat);
    }
    /* Sent behind the delete, so the list that comes with the new create shows only the nodes that are left. */
    step_from(fresh);
    return next != NULL;
}
