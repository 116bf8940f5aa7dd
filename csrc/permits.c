/*
 * permits: a semaphore's acquisitions.
 *
 * The layout is that of Curator's InterProcessSemaphoreV2: "<path>/locks" is a queue like a mutex's, and each permit
 * taken is a node in "<path>/leases". An acquisition has a queue entry in "locks". At the head of the queue it makes
 * `count` lease entries in "leases", all or none, so that two acquisitions of several permits each cannot block each
 * other. Only the head of the queue watches "leases". When the permits are granted, the queue entry leaves, and the
 * next one is the head.
 *
 *   in queue -> looking -> taking -> granted
 *               looking -> waiting (no room) -> taking
 *               taking  -> waiting with its nodes kept (permits were taken without the queue) -> granted
 *
 * One rule keeps the limit, and it does not depend on the queue. An acquisition is granted only on a list that shows no
 * more permits than the limit, and that was made after its own lease entries. Of all permits granted at the same time
 * one was made last, and its list showed all the others. The queue is for order.
 *
 * If no acquisition had to wait lately, the lease entries are created together with the queue entry, in one round trip.
 * If another contender then turns out to be ahead in the queue, the permits are given back at once. Keeping them would
 * block the head.
 *
 * Released permits pass to the next acquisition of this client on the same semaphore if it waits for as many or fewer.
 * This needs no request for the permits. It happens at most `handoff` times in a row, so a waiter that is ahead of that
 * acquisition in the queue waits for at most that many acquisitions of this client.
 *
 * The number of permits of a semaphore is in the data of "leases", in decimal. An acquisition with another limit is
 * refused. Curator writes no limit; then the first of our acquisitions writes its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_private.h"

/* --- an acquisition's permits -------------------------------------------------------------------------------------- */

bool zkl_permits_init(zkl_claim *claim, int32_t count)
{
    zkl_permits *permits = zkl_alloc(sizeof *permits);
    if (permits == NULL) {
        return false;
    }
    claim->permits = permits;
    permits->limit = claim->terms->lock.permits;
    permits->count = count;
    permits->leases = zkl_line_take(claim->engine, zkl_terms_leases(claim->terms));
    if (permits->leases != NULL) {
        zkl_line_keep(permits->leases);
    }
    return permits->leases != NULL;
}

void zkl_permits_free(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    if (permits == NULL) {
        return;
    }
    if (permits->leases != NULL) {
        zkl_line_drop(permits->leases);
    }
    zkl_free(permits);
    claim->permits = NULL;
}

const char *zkl_permits_data(const zkl_claim *claim, char *data)
{
    snprintf(data, 12, "%d", (int)claim->permits->limit);
    return data;
}

/* Forgets what was taken and what lists have shown. The lease entries are leaving, or gone. */
void zkl_permits_restart(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    permits->generation++;
    permits->listing = permits->took = permits->full = permits->undecided = permits->search = false;
    permits->excess = 0;
}

void zkl_permits_retreat(zkl_claim *claim, bool behind)
{
    zkl_permits *permits = claim->permits;
    zkl_permits_restart(claim);
    permits->waited = permits->waited || behind;
    permits->leases->busy = permits->leases->busy || behind;
    if (ZKL_BROKEN(ZKL_BREAK_TURN)) {
        claim->permits->took = !LIST_EMPTY(&claim->seats) && LIST_NEXT(LIST_FIRST(&claim->seats), in_claim) != NULL;
        return;
    }
    zkl_seat *seat, *next;
    for (seat = LIST_FIRST(&claim->seats); seat != NULL; seat = next) {
        next = LIST_NEXT(seat, in_claim);
        if (seat->role == ZKL_ROLE_PERMIT) {
            zkl_seat_leave(seat);
        }
    }
}

static void refuse(zkl_claim *claim, zkl_code code, const char *message)
{
    zkl_claim_finish(claim, ZKL_CLAIM_REFUSED, code, "%s", message);
    zkl_claim_leave(claim);
}

/* --- the limit ----------------------------------------------------------------------------------------------------- */

/* Reads the limit in the data of a semaphore's "leases". Returns 0 if the data are no limit. */
static int32_t read_limit(const char *data, int length)
{
    int64_t limit = 0;
    for (int i = 0; i < length; i++) {
        if (data[i] < '0' || data[i] > '9' || limit > INT32_MAX) {
            return 0;
        }
        limit = limit * 10 + (data[i] - '0');
    }
    return limit <= INT32_MAX ? (int32_t)limit : 0;
}

static void ask_limit(zkl_permits *permits)
{
    zkl_line *leases = permits->leases;
    if (!leases->limit_flying) {
        leases->limit_wanted = permits->limit;
        leases->limit_flying = zkl_send_get_limit(leases);
    }
}

/*
 * Lets the acquisitions that waited for the answer go on: at once, or after a while if the server throttled the
 * request.
 */
static void limit_known(zkl_line *leases, int rc)
{
    leases->limit_flying = false;
    zkl_claim *claim, *next;
    for (claim = TAILQ_FIRST(&leases->engine->claims); claim != NULL; claim = next) {
        next = TAILQ_NEXT(claim, all);
        bool waits = claim->permits != NULL && claim->permits->leases == leases && claim->seat != NULL &&
                     claim->phase == ZKL_CLAIM_WAITING;
        if (waits && rc == ZTHROTTLEDOP && claim->seat->state == ZKL_SEAT_CONFIRMING) {
            zkl_seat_wait_long(claim->seat);
        } else if (waits) {
            zkl_seat_look_again(claim->seat);
        }
    }
}

void zkl_line_unlimit(zkl_line *leases)
{
    leases->limit_mzxid = 0;
    leases->limit_unwritable = false;
}

static void note_limit(zkl_line *leases, int32_t limit, const struct Stat *stat)
{
    leases->limit = limit;
    leases->limit_mzxid = stat->mzxid;
}

void zkl_permits_limit_got(zkl_request *request, int rc, const char *data, int length, const struct Stat *stat)
{
    zkl_line *leases = request->about.line;
    if (rc == ZOK) {
        note_limit(leases, read_limit(data, length), stat);
        bool unsaid = length <= 0 && !leases->limit_unwritable;
        if (unsaid && zkl_send_set_limit(leases, leases->limit_wanted, stat->version)) {
            leases->limit_mzxid = 0; /* no limit is written there: the answer to our write decides */
            return;
        }
    }
    limit_known(leases, rc);
}

void zkl_permits_limit_set(zkl_request *request, int rc, const struct Stat *stat)
{
    zkl_line *leases = request->about.line;
    if (rc == ZOK) {
        note_limit(leases, leases->limit_wanted, stat);
    } else if (rc == ZNOAUTH) {
        leases->limit_unwritable = true; /* then the semaphore has no limit to compare with */
    }
    limit_known(leases, rc);
}

/*
 * Whether the acquisition's limit is the semaphore's, according to a list of its permits. Returns false if the limit is
 * not known yet; it is then requested, and the acquisition is stepped with the answer. Returns false, too, if the limit
 * differs; the acquisition is then refused. A try that has written nothing does not wait for the answer: it gets the
 * answer when it has taken its permits.
 */
static bool limit_fits(zkl_claim *claim, const struct Stat *stat)
{
    zkl_permits *permits = claim->permits;
    const zkl_line *leases = permits->leases;
    if (ZKL_BROKEN(ZKL_BREAK_LIMIT)) {
        return true;
    }
    if (leases->limit_mzxid != stat->mzxid) {
        if (claim->seat->state == ZKL_SEAT_LOOKING) {
            return true;
        }
        /* This list is not evaluated, and a watch that it has armed does not report earlier changes: list again. */
        permits->undecided = true;
        ask_limit(permits);
        if (!leases->limit_flying) {
            zkl_seat_wait(claim->seat);
        }
        return false;
    }
    if (leases->limit != 0 && leases->limit != permits->limit) {
        char message[512];
        snprintf(message, sizeof message, "the semaphore '%.400s' was made for %d permits, not for %d",
                 zkl_claim_path(claim), (int)leases->limit, (int)permits->limit);
        refuse(claim, ZKL_MISMATCH, message);
        return false;
    }
    return true;
}

/* --- granting ------------------------------------------------------------------------------------------------------ */

static zkl_seat *next_permit(zkl_seat *seat)
{
    while (seat != NULL && (seat->role != ZKL_ROLE_PERMIT || !seat->wanted)) {
        seat = LIST_NEXT(seat, in_claim);
    }
    return seat;
}

/* Loops over the lease entries that the acquisition wants. */
#define FOREACH_PERMIT(seat, claim)                                                                                    \
    for ((seat) = next_permit(LIST_FIRST(&(claim)->seats)); (seat) != NULL;                                            \
         (seat) = next_permit(LIST_NEXT(seat, in_claim)))

void zkl_permits_changed(zkl_claim *claim)
{
    claim->permits->generation++;
    claim->permits->listing = false;
    zkl_seat *seat;
    FOREACH_PERMIT(seat, claim)
    {
        if (seat->state == ZKL_SEAT_CONFIRMING) {
            zkl_seat_permit(seat, ZKL_SEAT_QUEUED);
        }
    }
}

/*
 * Whether all lease entries of the acquisition have their nodes. If `connection` is not 0, the nodes must have been
 * made on that connection.
 */
static bool all_seated(zkl_claim *claim, uint32_t connection)
{
    zkl_seat *seat;
    int32_t seated = 0;
    FOREACH_PERMIT(seat, claim)
    {
        seated += seat->state == ZKL_SEAT_QUEUED && (connection == 0 || seat->connection == connection);
    }
    return seated == claim->permits->count;
}

void zkl_permits_confirm(zkl_claim *claim)
{
    zkl_seat *seat;
    /*
     * The token is that of the lease entry made last, which is later than any grant that had no room beside this one.
     */
    const zkl_seat *latest = NULL;
    FOREACH_PERMIT(seat, claim)
    {
        zkl_seat_permit(seat, ZKL_SEAT_GRANTED);
        latest = latest == NULL || seat->czxid > latest->czxid ? seat : latest;
    }
    zkl_seat *turn = claim->seat;
    seat = next_permit(LIST_FIRST(&claim->seats));
    zkl_claim_grant(claim, latest);
    if (claim->terms->lock.revocable) {
        zkl_watch_own(seat);
    }
    zkl_seat_leave(turn);
}

static void room_for_all(zkl_claim *claim)
{
    zkl_seat *seat;
    zkl_seat *last = NULL;
    claim->permits->leases->busy = claim->permits->waited;
    zkl_watch_leave(claim->seat);
    FOREACH_PERMIT(seat, claim)
    {
        zkl_seat_permit(seat, ZKL_SEAT_CONFIRMING);
        last = seat;
    }
    zkl_seat_confirm(last);
}

/* --- passing on ---------------------------------------------------------------------------------------------------- */

/* The acquisition of this client that has waited for the semaphore longest; NULL: none waits. Tries do not count. */
static zkl_claim *next_local(const zkl_claim *claim)
{
    const zkl_seat *seat;
    TAILQ_FOREACH(seat, &claim->line->seats, in_line)
    {
        if (seat->role == ZKL_ROLE_TURN && seat->wanted && seat->claim->phase == ZKL_CLAIM_WAITING &&
            !seat->claim->try_only) {
            return seat->claim;
        }
    }
    return NULL;
}

static bool may_pass(zkl_claim *from, const zkl_claim *to)
{
    const zkl_permits *had = from->permits;
    const zkl_permits *wanted = to->permits;
    bool fits = wanted->limit == had->limit && wanted->count <= had->count;
    bool alike = zkl_terms_alike(to->terms, from->terms);
    bool fair = had->handed_over < to->terms->lock.handoff || ZKL_BROKEN(ZKL_BREAK_HANDOFF);
    const zkl_seat *seat;
    int32_t granted = 0;
    FOREACH_PERMIT(seat, from)
    {
        granted += seat->state == ZKL_SEAT_GRANTED && !seat->revoked;
    }
    return fits && alike && fair && granted == had->count && zkl_lease_covers_more(from->engine);
}

/* The lease entry that was made last. It passes to the successor with its token, because tokens must grow. */
static zkl_seat *latest_permit(zkl_claim *claim)
{
    zkl_seat *seat;
    zkl_seat *latest = NULL;
    FOREACH_PERMIT(seat, claim)
    {
        latest = latest == NULL || seat->czxid > latest->czxid ? seat : latest;
    }
    return latest;
}

static void adopt(zkl_claim *claim, zkl_seat *seat)
{
    LIST_REMOVE(seat, in_claim);
    seat->claim = claim;
    LIST_INSERT_HEAD(&claim->seats, seat, in_claim);
}

/*
 * The nodes that the successor needs stay, so the number of permits taken does not grow, and no list is needed. The
 * order of the tokens is kept too: the predecessor held as many permits or more, so any grant that conflicts with the
 * successor also conflicts with the predecessor, and none can lie between the two.
 */
bool zkl_permits_pass(zkl_claim *claim)
{
    zkl_claim *to = next_local(claim);
    if (to == NULL || !may_pass(claim, to)) {
        return false;
    }
    zkl_seat *latest = latest_permit(claim);
    if (latest == NULL) {
        return false;
    }
    zkl_permits_retreat(to, false); /* gives back what `to` has created itself */
    zkl_seat *seat, *next;
    int32_t missing = to->permits->count - 1;
    for (seat = next_permit(LIST_FIRST(&claim->seats)); seat != NULL && missing > 0; seat = next) {
        next = next_permit(LIST_NEXT(seat, in_claim));
        if (seat != latest) {
            adopt(to, seat);
            missing--;
        }
    }
    adopt(to, latest);
    to->permits->handed_over = claim->permits->handed_over + 1;
    latest->grants++;
    claim->engine->stats.hand_overs++;
    zkl_claim_grant(to, latest);
    if (to->terms->lock.revocable && latest->own == NULL) {
        zkl_watch_own(latest);
    }
    zkl_seat_leave(to->seat);
    return LIST_EMPTY(&claim->seats);
}

/* --- taking -------------------------------------------------------------------------------------------------------- */

/* Creates the lease entries' nodes and lists them in the same round trip. */
static void take(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    permits->generation++;
    permits->took = true;
    if (permits->leases->limit_mzxid == 0) {
        ask_limit(permits);
    }
    bool sent = true;
    for (int32_t i = 0; i < permits->count; i++) {
        zkl_seat *seat = zkl_seat_new(claim, permits->leases, ZKL_ROLE_PERMIT);
        if (seat == NULL) {
            refuse(claim, ZKL_FAILED, "not enough memory for the permits of a semaphore");
            return;
        }
        zkl_seat_step(seat);
        sent = sent && seat->state == ZKL_SEAT_JOINING;
    }
    permits->listing = sent && zkl_send_leases(claim->seat, ZKL_LIST_JOIN, permits->generation);
}

void zkl_permits_joined(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    if (!permits->took && (!permits->leases->busy || claim->try_only)) {
        take(claim);
    }
}

bool zkl_permits_look(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    permits->generation++;
    if (permits->leases->limit_mzxid == 0) {
        ask_limit(permits);
    }
    permits->listing = zkl_send_leases(claim->seat, ZKL_LIST_TRY, permits->generation);
    return permits->listing;
}

void zkl_permits_step(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    zkl_seat *turn = claim->seat;
    if (claim->phase != ZKL_CLAIM_WAITING || turn == NULL || turn->state != ZKL_SEAT_CONFIRMING || permits->listing ||
        permits->leases->limit_flying || (turn->watch != NULL && !permits->undecided)) {
        return;
    }
    if (permits->took && !all_seated(claim, 0)) {
        return; /* the last of their replies steps the acquisition */
    }
    if (permits->took && ZKL_BROKEN(ZKL_BREAK_PERMITS)) {
        room_for_all(claim);
        return;
    }
    if (!zkl_session_usable(claim->engine)) {
        zkl_seat_wait(turn);
        return;
    }
    if (turn->watch == NULL && (!permits->took || permits->full)) {
        /*
         * The list arms the watch. If the watch is armed already, for an earlier head of the queue, a list without a
         * watch is enough.
         */
        if (zkl_watch_children(turn, permits->leases)) {
            return;
        }
        if (turn->watch == NULL) {
            zkl_seat_wait(turn);
            return;
        }
    }
    permits->listing = zkl_send_leases(turn, ZKL_LIST_LOOK, permits->generation);
    if (!permits->listing) {
        zkl_watch_leave(turn);
        zkl_seat_wait(turn);
    }
}

void zkl_permits_look_again(zkl_claim *claim)
{
    claim->permits->undecided = true;
    zkl_seat_wait(claim->seat);
}

void zkl_permits_look_later(zkl_claim *claim)
{
    claim->permits->undecided = true;
    zkl_seat_wait_long(claim->seat);
}

void zkl_permits_event(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    permits->excess--;
    if (claim->phase == ZKL_CLAIM_WAITING && claim->seat->state == ZKL_SEAT_CONFIRMING && !permits->took &&
        !permits->listing && permits->excess == 0 && zkl_session_usable(claim->engine)) {
        take(claim); /* a permit was given back, and only the head of the queue may take one */
    } else {
        zkl_seat_wait(claim->seat);
    }
}

/* --- judging --------------------------------------------------------------------------------------------------------- */

static bool is_listed(const zkl_seat *seat, const struct String_vector *names)
{
    for (int32_t i = 0; i < names->count; i++) {
        if (strcmp(zkl_seat_name(seat), names->data[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Counts the permits among the names. Writes the number of the acquisition's own to `own`. */
static int32_t count_leases(zkl_claim *claim, const struct String_vector *names, int32_t *own)
{
    int32_t count = 0;
    for (int32_t i = 0; i < names->count; i++) {
        count += zkl_node_parse(names->data[i]).kind == ZKL_NODE_LEASE;
    }
    zkl_seat *seat;
    *own = 0;
    FOREACH_PERMIT(seat, claim)
    {
        *own += seat->node != NULL && is_listed(seat, names);
    }
    return count;
}

static void no_room(zkl_claim *claim, const struct String_vector *names)
{
    zkl_permits *permits = claim->permits;
    bool removed = zkl_line_remove_strays(permits->leases, names);
    permits->leases->busy = permits->waited = true;
    if (claim->try_only) {
        char message[512];
        snprintf(message, sizeof message, "'%.300s' has not %d of its %d permits left", zkl_claim_path(claim),
                 (int)permits->count, (int)permits->limit);
        refuse(claim, ZKL_TIMEOUT, message);
        return;
    }
    zkl_claim_waits(claim);
    if (!removed) {
        zkl_permits_look_later(claim); /* it would wait for permits that may be strays */
        return;
    }
    /*
     * Lists once more unless the watch was armed when this list was made: otherwise the watch may have missed a change.
     */
    zkl_permits_step(claim);
}

/*
 * The acquisition keeps permits for which there is no room, so its queue entry's place is checked once more. An
 * administrator may have deleted the queue entry's node, or a restore may have brought back another queue entry before
 * it. Two acquisitions that both keep permits would wait for each other.
 */
static void look_at_place(zkl_claim *claim)
{
    if (!zkl_send_list(claim->seat, ZKL_LIST_PLACE)) {
        zkl_permits_look_again(claim);
    }
}

/* Decides on a list that was made after the acquisition's nodes and shows `count` permits. */
static void judge_taken(zkl_claim *claim, const struct String_vector *names, int32_t count)
{
    zkl_permits *permits = claim->permits;
    if (count <= permits->limit) {
        room_for_all(claim);
        return;
    }
    permits->full = true;
    if (!claim->try_only) {
        look_at_place(claim);
    }
    no_room(claim, names);
}

/* Some of the acquisition's nodes were deleted externally. */
static void evict_missing(zkl_claim *claim, const struct String_vector *names)
{
    zkl_seat *seat, *next;
    for (seat = next_permit(LIST_FIRST(&claim->seats)); seat != NULL; seat = next) {
        next = next_permit(LIST_NEXT(seat, in_claim));
        if (!is_listed(seat, names)) {
            zkl_seat_evicted(seat);
        }
    }
}

static void judge(zkl_claim *claim, const zkl_request *request, const struct String_vector *names)
{
    int32_t own;
    int32_t count = count_leases(claim, names, &own);
    zkl_permits *permits = claim->permits;
    if (permits->took) {
        if (!all_seated(claim, request->purpose == ZKL_LIST_JOIN ? request->connection : 0)) {
            permits->undecided = true; /* the list may be older than one of the nodes */
            zkl_permits_step(claim);
        } else if (own == permits->count) {
            judge_taken(claim, names, count);
        } else {
            evict_missing(claim, names);
        }
        return;
    }
    permits->excess = count + permits->count - permits->limit;
    if (permits->excess > 0) {
        no_room(claim, names);
    } else if (request->purpose == ZKL_LIST_TRY) {
        zkl_seat_join(claim->seat);
    } else {
        take(claim);
    }
}

/* --- permits that no acquisition knows ----------------------------------------------------------------------------- */

/*
 * The head of the queue sees all permits, but can remove only those of its own client. If a stray permit is ours, our
 * queue entry may be behind that head, where no list of permits is made. Then the head would wait for us, and we for
 * the head.
 */
void zkl_permits_search(zkl_claim *claim)
{
    claim->permits->search = zkl_line_may_have_strays(claim->permits->leases);
    zkl_permits_search_on(claim);
}

void zkl_permits_search_on(zkl_claim *claim)
{
    zkl_permits *permits = claim->permits;
    if (!permits->search || permits->listing) {
        return;
    }
    permits->listing = zkl_send_leases(claim->seat, ZKL_LIST_LOOK, permits->generation);
    if (!permits->listing) {
        zkl_seat_wait(claim->seat);
    }
}

static void searched(zkl_claim *claim, int rc, const struct String_vector *names)
{
    zkl_permits *permits = claim->permits;
    if (rc == ZTHROTTLEDOP || (rc == ZOK && !zkl_line_remove_strays(permits->leases, names))) {
        zkl_seat_wait_long(claim->seat);
    } else if (zkl_outcome_unknown(rc)) {
        zkl_seat_wait(claim->seat);
    } else {
        permits->search = false;
    }
}

void zkl_permits_listed(zkl_claim *claim, const zkl_request *request, int rc, const struct String_vector *names,
                        const struct Stat *stat)
{
    zkl_permits *permits = claim->permits;
    zkl_seat *turn = claim->seat;
    bool trying = turn != NULL && turn->state == ZKL_SEAT_LOOKING && request->purpose == ZKL_LIST_TRY;
    if (permits->search && turn != NULL && turn->state == ZKL_SEAT_QUEUED) {
        searched(claim, rc, names);
        return;
    }
    if (claim->phase != ZKL_CLAIM_WAITING || turn == NULL || (turn->state != ZKL_SEAT_CONFIRMING && !trying)) {
        return;
    }
    if (rc != ZOK && rc != ZNONODE) {
        if (!trying && (zkl_outcome_unknown(rc) || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE)) {
            zkl_seat_wait(turn);
        } else if (trying && rc == ZTHROTTLEDOP) {
            zkl_seat_try_again(turn);
        } else if (rc == ZTHROTTLEDOP) {
            zkl_seat_wait_long(turn);
        } else {
            zkl_claim_finish(claim, ZKL_CLAIM_REFUSED, zkl_code_of(rc), "listing '%s': %s",
                             claim->permits->leases->path, zerror(rc));
            zkl_claim_leave(claim);
        }
        return;
    }
    static const struct String_vector none = {0, NULL};
    if (rc == ZNONODE || limit_fits(claim, stat)) {
        permits->undecided = false;
        judge(claim, request, rc == ZOK ? names : &none);
    }
}
