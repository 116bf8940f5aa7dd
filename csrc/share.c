/*
 * share: several claims of one client use one seat, one after the other or, readers, together.
 *
 * Claims on one path queue locally, first in, first out, in the `behind` list of the latest seat that covers them: a mutex's
 * seat covers mutex claims, a reader's seat readers, a writer's seat both. When the claim that holds ends, the next one is
 * granted without a request; it is a *hand-over*. A seat is promised to at most `handoff` claims beyond its first, so that
 * whoever queues behind it elsewhere waits for at most so many of them: the claim after those gets a seat of its own, which
 * queues at once. Readers that have waited together go in together, and count once. Where nobody queues elsewhere that would be requests for nothing: a seat that is much used watches who comes,
 * and as long as it is *alone* the bound does not count. When somebody comes, all who still wait here get seats of their own,
 * behind him.
 *
 * A seat is handed over only by a release. Where a grant ended otherwise (lost, max_hold), its holder may not know yet, and what
 * it writes is told from its successor's by the node; so the node goes, and those who wait get another seat.
 *
 * A seat whose last claim was released may *linger*: it keeps its node for a while, and watches its directory. Whoever wants the
 * lock here meanwhile has it without a request. As soon as anybody comes or goes in the directory, it leaves.
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

/* --- finding a seat ------------------------------------------------------------------------------------------------- */

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

/* The seat's node says what the claim's own would. */
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

/* Whether readers hold the seat, and nobody waits in it: only readers stand behind others that hold. */
static bool only_readers_hold(const zkl_seat *seat)
{
    return zkl_claim_mode(seat->claim) == ZKL_MODE_READ && seat->state == ZKL_SEAT_GRANTED &&
           (TAILQ_EMPTY(&seat->behind) || last_in(seat)->phase == ZKL_CLAIM_GRANTED);
}

static bool is_waiting_reader(const zkl_claim *claim)
{
    return claim != NULL && zkl_claim_mode(claim) == ZKL_MODE_READ && claim->phase == ZKL_CLAIM_WAITING;
}

/* The claim would be granted together with the one that stands last in the seat: the two take one turn. */
static bool goes_in_together(const zkl_seat *seat, const zkl_claim *claim)
{
    const zkl_claim *last = last_in(seat);
    bool later = ZKL_BROKEN(ZKL_BREAK_TOGETHER) && zkl_claim_mode(last) == ZKL_MODE_READ;
    return zkl_claim_mode(claim) == ZKL_MODE_READ && (is_waiting_reader(last) || later);
}

/* Whoever waits for the seat would not get it. */
static bool is_closed(const zkl_seat *seat)
{
    bool worn = seat->grants >= ZKL_MAX_GRANTS && !ZKL_BROKEN(ZKL_BREAK_GRANTS);
    return seat->revoked || seat->spoilt || seat->spent || worn;
}

/* Another claim would be one too many for those who wait elsewhere. */
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
    if (claim->terms->lock.revocable && seat->own == NULL &&
        !ZKL_BROKEN(ZKL_BREAK_PAIRING)) { /* else there is a node */
        zkl_watch_own(seat);              /* which may tell at once that others have asked */
    }
}

/* Whether the claim may hold beside, or after, all those before it in the seat. */
static bool has_turn(const zkl_seat *seat, const zkl_claim *claim)
{
    return claim == seat->claim || zkl_claim_mode(claim) == ZKL_MODE_READ || ZKL_BROKEN(ZKL_BREAK_SHARE);
}

/* Another seat of this client waits for this one: whoever comes is there already. */
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

/* Watches who comes and goes in the line. False if that is not possible, or if no list would say who is there now. */
static bool watch_line(zkl_seat *seat)
{
    if (!zkl_seat_fits(seat)) {
        return false; /* the watch needs room where all are told after a reconnect */
    }
    zkl_seat_reserve(seat, true);
    return zkl_watch_children(seat, seat->line);
}

/* Early enough to know before the seat is full. */
static void listen_if_much_used(zkl_seat *seat, int32_t claims)
{
    bool much = claims > seat->claim->terms->lock.handoff / 4;
    if (much && seat->state == ZKL_SEAT_GRANTED && seat->watch == NULL && !seat->contested && !is_closed(seat) &&
        !others_wait_here(seat) && zkl_session_usable(seat->engine)) {
        watch_line(seat);
    }
}

/* Grants what may be granted from this claim on, before which nobody waits. */
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
    if (granted > 1) { /* they may all come again, while the seat has room for a few */
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

/* --- joining and parting -------------------------------------------------------------------------------------------- */

/* The seat serves this claim first of all from now on. */
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

/* The seat is promised to this claim too, after all others. */
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
        seat->turns = seat->alone ? 1 : seat->turns + 1; /* the list that tells may be on its way yet */
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

/* A turn that the claim was promised is still that of others, who would have gone in with it. */
static bool leaves_turn(const zkl_seat *seat, zkl_claim *claim)
{
    return zkl_claim_mode(claim) == ZKL_MODE_READ &&
           (is_waiting_reader(preceding(seat, claim)) || is_waiting_reader(following(seat, claim)));
}

/* One of its claims is over. It stands in the seat still. */
static void note_end(zkl_seat *seat, zkl_claim *claim)
{
    bool promised = claim->token.number == 0 && !seat->alone; /* it was never its turn, and it has been counted */
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
        zkl_share_advance(seat); /* it may have been in the way */
    }
}

/* A reader holds beside the writer whose seat this is. */
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

/* The role of a seat for all who wait behind this one. */
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

/* Moves claims from behind one seat behind another, from `claim` on, until that is full; returns the first that is left. */
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
 * The first that waits gets a seat of its own, with as many of those behind it as that has room for, the next one likewise, and
 * so on; nothing is sent yet. Returns the first of these seats; NULL: nobody waits.
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

/* Sends what `replace` has left unsent. */
static void step_from(zkl_seat *fresh)
{
    while (fresh != NULL) {
        zkl_seat *next = TAILQ_NEXT(fresh, in_line); /* a seat that has sent nothing does not go by being stepped */
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

/* The seat's last claim was released. True if the seat stays for a while; the claim is settled then. */
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
        return false; /* watched by another seat of ours, or cannot be now */
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
    zkl_seat_part_from_readers(seat, true); /* who would be made beside whoever has it next */
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
    step_from(fresh); /* behind the delete: the list that comes with its create shows who is left */
    return next != NULL;
}
