/*
 * permits: a semaphore's acquisitions.
 *
 * The layout is that of Curator's InterProcessSemaphoreV2: "<path>/locks" is a queue like a mutex's, and each permit
 * taken is a node in "<path>/leases". An acquisition has a queue entry in "locks". At the head of the queue it makes
 * `count` lease entries in "leases", all or none, so that two acquisitions of several permits each cannot block each
 * other. Only the head of the queue watches "leases". When the permits are granted, the queue entry leaves, and the
 * next one is the head.
 *
 *   IN_QUEUE -> LOOKING -> TAKING -> GRANTED
 *               LOOKING -> WAITING (no room) -> LOOKING | TAKING
 *   IN_QUEUE -> TAKING (with the queue entry)
 *               TAKING  -> FULL (permits were taken without the queue) -> GRANTED
 *   any but GRANTED -> IN_QUEUE (another queue entry is ahead, or its own node is gone)
 *   any but GRANTED -> GRANTED (permits of this client are passed to it)
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
 * An acquisition with another limit than the semaphore's is refused, unless the semaphore was resized: permits_limit.c.
 */
#include <assert.h>
#include <string.h>

#include "hold.h"
#include "join.h"
#include "leave.h"
#include "lose.h"
#include "permits.h"
#include "permits_limit.h"
#include "place.h"

static void on_leases(void *owner, int rc, const zkl_reply *reply);
static void on_place(void *owner, int rc, const zkl_reply *reply);

static zkl_permits *permits_of(const zkl_acquisition *acquisition)
{
    return acquisition->part;
}

/* Whether the acquisition has lease entries and is not granted yet. */
static bool has_taken(const zkl_permits *permits)
{
    return permits->state == ZKL_PERMITS_TAKING || permits->state == ZKL_PERMITS_FULL;
}

/* Returns the directory of the permits: the second one of zkl_semaphore_kind.directories. */
static const char *leases_of(const zkl_lock_spec *spec)
{
    return spec->directories + strlen(spec->directories) + 1;
}

/*
 * Lists the leases for the acquisition that the queue entry serves. The reply is ignored if the acquisition's generation
 * is another one by then. Returns false if the request could not be sent.
 */
static bool send_leases(zkl_entry *queue_entry, zkl_leases_purpose purpose)
{
    const zkl_permits *permits = queue_entry->acquisition->part;
    zkl_ask ask = zkl_entry_ask(queue_entry, on_leases);
    ask.generation = permits->generation;
    ask.tag = (int32_t)purpose;
    return zkl_entry_sent(queue_entry,
                          zkl_send_list(queue_entry->locks->wire, &ask, permits->leases->path, NULL, NULL));
}

/* --- an acquisition's permits -------------------------------------------------------------------------------------- */

bool zkl_permits_init(zkl_acquisition *acquisition, const zkl_acquisition_request *request)
{
    zkl_permits *permits = zkl_alloc(sizeof *permits);
    if (permits == NULL) {
        return false;
    }
    acquisition->part = permits;
    permits->limit = acquisition->spec->lock.permits;
    permits->count = request->count;
    permits->leases = zkl_queue_take(acquisition->locks, leases_of(acquisition->spec));
    if (permits->leases != NULL) {
        zkl_queue_keep(permits->leases);
    }
    return permits->leases != NULL;
}

void zkl_permits_end(zkl_acquisition *acquisition)
{
    const zkl_permits *permits = acquisition->part;
    if (permits != NULL && permits->leases != NULL) {
        zkl_queue_drop(permits->leases);
    }
}

/* Forgets what was taken and what lists have shown. The lease entries are leaving, or gone. */
void zkl_permits_restart(zkl_acquisition *acquisition)
{
    zkl_permits *permits = acquisition->part;
    permits->generation++;
    permits->state = ZKL_PERMITS_IN_QUEUE;
    permits->listing = permits->undecided = permits->search = false;
    permits->excess = 0;
}

void zkl_permits_retreat(zkl_acquisition *acquisition, bool others_ahead)
{
    zkl_permits *permits = acquisition->part;
    zkl_permits_restart(acquisition);
    permits->waited = permits->waited || others_ahead;
    permits->leases->busy = permits->leases->busy || others_ahead;
    if (ZKL_BROKEN(ZKL_BREAK_TURN)) {
        bool kept =
            !LIST_EMPTY(&acquisition->entries) && LIST_NEXT(LIST_FIRST(&acquisition->entries), in_acquisition) != NULL;
        permits->state = kept ? ZKL_PERMITS_TAKING : ZKL_PERMITS_IN_QUEUE;
        return;
    }
    zkl_entry *entry, *next;
    for (entry = LIST_FIRST(&acquisition->entries); entry != NULL; entry = next) {
        next = LIST_NEXT(entry, in_acquisition);
        if (entry->kind == &zkl_permit_kind) {
            zkl_entry_leave(entry);
        }
    }
}

/* --- granting ------------------------------------------------------------------------------------------------------ */

static zkl_entry *next_lease_entry(zkl_entry *entry)
{
    while (entry != NULL && (entry->kind != &zkl_permit_kind || !entry->wanted)) {
        entry = LIST_NEXT(entry, in_acquisition);
    }
    return entry;
}

/* Loops over the lease entries that the acquisition wants. */
#define FOREACH_LEASE_ENTRY(entry, acquisition)                                                                        \
    for ((entry) = next_lease_entry(LIST_FIRST(&(acquisition)->entries)); (entry) != NULL;                             \
         (entry) = next_lease_entry(LIST_NEXT(entry, in_acquisition)))

void zkl_permits_changed(zkl_acquisition *acquisition)
{
    permits_of(acquisition)->generation++;
    permits_of(acquisition)->listing = false;
    zkl_entry *entry;
    FOREACH_LEASE_ENTRY(entry, acquisition)
    {
        if (entry->state == ZKL_ENTRY_CONFIRMING) {
            zkl_entry_move(entry, ZKL_ENTRY_QUEUED);
        }
    }
}

/*
 * Whether all lease entries of the acquisition have their nodes. If `connection` is not 0, the nodes must have been
 * made on that connection.
 */
static bool all_seated(zkl_acquisition *acquisition, uint32_t connection)
{
    zkl_entry *entry;
    int32_t seated = 0;
    FOREACH_LEASE_ENTRY(entry, acquisition)
    {
        seated += entry->state == ZKL_ENTRY_QUEUED && (connection == 0 || entry->connection == connection);
    }
    return seated == permits_of(acquisition)->count;
}

/*
 * The lease entry that was made last. Its token is the acquisition's, since it is later than any grant that had no room beside this one. It
 * passes to the successor with its token, because tokens must grow.
 */
static zkl_entry *latest_lease_entry(zkl_acquisition *acquisition)
{
    zkl_entry *entry;
    zkl_entry *latest = NULL;
    FOREACH_LEASE_ENTRY(entry, acquisition)
    {
        latest = latest == NULL || entry->tenure.czxid > latest->tenure.czxid ? entry : latest;
    }
    return latest;
}

void zkl_permits_confirm(zkl_entry *confirmed)
{
    zkl_acquisition *acquisition = confirmed->acquisition;
    zkl_entry *entry;
    FOREACH_LEASE_ENTRY(entry, acquisition)
    {
        zkl_entry_move(entry, ZKL_ENTRY_GRANTED);
    }
    zkl_entry *queue_entry = acquisition->entry;
    entry = next_lease_entry(LIST_FIRST(&acquisition->entries));
    assert(has_taken(permits_of(acquisition)));
    permits_of(acquisition)->state = ZKL_PERMITS_GRANTED;
    zkl_acquisition_grant(acquisition, latest_lease_entry(acquisition));
    if (acquisition->spec->lock.revocable) {
        zkl_entry_watch_own(entry);
    }
    zkl_entry_leave(queue_entry);
}

static void room_for_all(zkl_acquisition *acquisition)
{
    zkl_entry *entry;
    zkl_entry *last = NULL;
    permits_of(acquisition)->leases->busy = permits_of(acquisition)->waited;
    zkl_watch_leave(&acquisition->entry->item);
    FOREACH_LEASE_ENTRY(entry, acquisition)
    {
        zkl_entry_move(entry, ZKL_ENTRY_CONFIRMING);
        last = entry;
    }
    zkl_entry_confirm(last);
}

/* --- passing on ---------------------------------------------------------------------------------------------------- */

/* The acquisition of this client that has waited for the semaphore longest; NULL: none waits. Tries do not count. */
static zkl_acquisition *next_local(const zkl_acquisition *acquisition)
{
    const zkl_entry *entry;
    TAILQ_FOREACH(entry, &acquisition->queue->entries, in_queue)
    {
        if (entry->kind == &zkl_semaphore_kind && entry->wanted &&
            entry->acquisition->phase == ZKL_ACQUISITION_WAITING && !entry->acquisition->try_only) {
            return entry->acquisition;
        }
    }
    return NULL;
}

static bool may_pass(zkl_acquisition *from, const zkl_acquisition *to)
{
    const zkl_permits *had = from->part;
    const zkl_permits *wanted = to->part;
    bool fits = to->spec->lock.permits == from->spec->lock.permits && wanted->count <= had->count;
    bool alike = zkl_lock_spec_alike(to->spec, from->spec);
    bool fair = had->handed_over < to->spec->lock.handoff || ZKL_BROKEN(ZKL_BREAK_HANDOFF);
    const zkl_entry *entry;
    int32_t granted = 0;
    FOREACH_LEASE_ENTRY(entry, from)
    {
        granted += entry->state == ZKL_ENTRY_GRANTED && entry->tenure.handover == ZKL_HANDOVER_ALLOWED;
    }
    return fits && alike && fair && granted == had->count && zkl_wire_covers_more(from->locks->wire);
}

static void adopt(zkl_acquisition *acquisition, zkl_entry *entry)
{
    LIST_REMOVE(entry, in_acquisition);
    entry->acquisition = acquisition;
    LIST_INSERT_HEAD(&acquisition->entries, entry, in_acquisition);
}

/*
 * The nodes that the successor needs stay, so the number of permits taken does not grow, and no list is needed. The
 * order of the tokens is kept too: the predecessor held as many permits or more, so any grant that conflicts with the
 * successor also conflicts with the predecessor, and none can lie between the two.
 */
static bool pass_permits(zkl_acquisition *acquisition)
{
    zkl_acquisition *to = next_local(acquisition);
    if (to == NULL || !may_pass(acquisition, to)) {
        return false;
    }
    zkl_entry *latest = latest_lease_entry(acquisition);
    if (latest == NULL) {
        return false;
    }
    zkl_permits_retreat(to, false); /* gives back what `to` has created itself */
    zkl_entry *entry, *next;
    int32_t missing = permits_of(to)->count - 1;
    for (entry = next_lease_entry(LIST_FIRST(&acquisition->entries)); entry != NULL && missing > 0; entry = next) {
        next = next_lease_entry(LIST_NEXT(entry, in_acquisition));
        if (entry != latest) {
            adopt(to, entry);
            missing--;
        }
    }
    adopt(to, latest);
    permits_of(to)->handed_over = permits_of(acquisition)->handed_over + 1;
    latest->tenure.grants++;
    acquisition->locks->wire->stats.hand_overs++;
    permits_of(to)->state = ZKL_PERMITS_GRANTED;
    zkl_acquisition_grant(to, latest);
    if (to->spec->lock.revocable && latest->item.own == NULL) {
        zkl_entry_watch_own(latest);
    }
    zkl_entry_leave(to->entry);
    return LIST_EMPTY(&acquisition->entries);
}

void zkl_permits_released(zkl_acquisition *acquisition)
{
    if (acquisition->phase == ZKL_ACQUISITION_RELEASED && pass_permits(acquisition)) {
        zkl_acquisition_settle(acquisition);
    } else {
        zkl_entries_leave(acquisition);
    }
}

/* --- the nodes ----------------------------------------------------------------------------------------------------- */

/* Returns the znode by which an acquisition holds one of its permits; NULL if the entry holds none. */
static const char *node_of_lease_entry(const zkl_entry *entry)
{
    return entry->kind == &zkl_permit_kind && entry->state == ZKL_ENTRY_GRANTED && entry->wanted ? entry->node : NULL;
}

char *zkl_permits_nodes(const zkl_acquisition *acquisition)
{
    if (permits_of(acquisition)->count == 1) {
        return NULL;
    }
    size_t stem = strlen(zkl_acquisition_path(acquisition)) + 1;
    size_t size = 1;
    const zkl_entry *entry;
    LIST_FOREACH(entry, &acquisition->entries, in_acquisition)
    {
        const char *node = node_of_lease_entry(entry);
        size += node != NULL ? strlen(node + stem) + 1 : 0;
    }
    char *nodes = zkl_alloc(size); /* zeroed */
    char *end = nodes;
    LIST_FOREACH(entry, &acquisition->entries, in_acquisition)
    {
        const char *node = node_of_lease_entry(entry);
        if (end != NULL && node != NULL) {
            size_t length = strlen(node + stem) + 1;
            memcpy(end, node + stem, length);
            end += length;
        }
    }
    return nodes;
}

/* --- taking -------------------------------------------------------------------------------------------------------- */

/* Creates the lease entries' nodes and lists them in the same round trip. */
static void take(zkl_acquisition *acquisition)
{
    zkl_permits *permits = acquisition->part;
    assert(!has_taken(permits));
    permits->generation++;
    permits->state = ZKL_PERMITS_TAKING;
    zkl_permits_want_limit(acquisition);
    bool sent = true;
    for (int32_t i = 0; i < permits->count; i++) {
        zkl_entry *entry = zkl_entry_new(acquisition, permits->leases, &zkl_permit_kind);
        if (entry == NULL) {
            zkl_acquisition_refuse(acquisition, ZKL_FAILED, "not enough memory for the permits of a semaphore");
            return;
        }
        zkl_entry_step(entry);
        sent = sent && entry->state == ZKL_ENTRY_JOINING;
    }
    permits->listing = sent && send_leases(acquisition->entry, ZKL_LEASES_JOIN);
}

void zkl_permits_joined(zkl_entry *queue_entry)
{
    zkl_acquisition *acquisition = queue_entry->acquisition;
    zkl_permits *permits = acquisition->part;
    if (!has_taken(permits) && (!permits->leases->busy || acquisition->try_only)) {
        take(acquisition);
    }
}

bool zkl_permits_look(zkl_entry *queue_entry)
{
    zkl_permits *permits = queue_entry->acquisition->part;
    permits->generation++;
    zkl_permits_want_limit(queue_entry->acquisition);
    permits->listing = send_leases(queue_entry, ZKL_LEASES_TRY);
    return permits->listing;
}

void zkl_permits_step(zkl_entry *entry)
{
    zkl_acquisition *acquisition = entry->acquisition;
    zkl_permits *permits = acquisition->part;
    zkl_entry *queue_entry = acquisition->entry;
    if (acquisition->phase != ZKL_ACQUISITION_WAITING || queue_entry == NULL ||
        queue_entry->state != ZKL_ENTRY_CONFIRMING || permits->listing || permits->leases->limit_flying ||
        (queue_entry->item.watch != NULL && !permits->undecided)) {
        return;
    }
    if (has_taken(permits) && !all_seated(acquisition, 0)) {
        return; /* the last of their replies steps the acquisition */
    }
    if (has_taken(permits) && ZKL_BROKEN(ZKL_BREAK_PERMITS)) {
        room_for_all(acquisition);
        return;
    }
    if (!acquisition->locks->wire->usable) {
        zkl_entry_make_runnable(queue_entry);
        return;
    }
    if (!has_taken(permits)) {
        permits->state = ZKL_PERMITS_LOOKING;
    }
    if (queue_entry->item.watch == NULL && permits->state != ZKL_PERMITS_TAKING) {
        /*
         * The list arms the watch. If the watch is armed already, for an earlier head of the queue, a list without a
         * watch is enough.
         */
        if (zkl_entry_watch_children(queue_entry, permits->leases)) {
            return;
        }
        if (queue_entry->item.watch == NULL) {
            zkl_entry_make_runnable(queue_entry);
            return;
        }
    }
    permits->listing = send_leases(queue_entry, ZKL_LEASES_LOOK);
    if (!permits->listing) {
        zkl_watch_leave(&queue_entry->item);
        zkl_entry_make_runnable(queue_entry);
    }
}

void zkl_permits_look_again(zkl_entry *queue_entry)
{
    permits_of(queue_entry->acquisition)->undecided = true;
    zkl_entry_make_runnable(queue_entry);
}

/* The same, but not at once: the reason takes a while to pass. */
static void list_leases_later(zkl_entry *queue_entry)
{
    permits_of(queue_entry->acquisition)->undecided = true;
    zkl_entry_back_off(queue_entry);
}

void zkl_permits_event(zkl_acquisition *acquisition)
{
    zkl_permits *permits = acquisition->part;
    permits->excess--;
    if (acquisition->phase == ZKL_ACQUISITION_WAITING && acquisition->entry->state == ZKL_ENTRY_CONFIRMING &&
        !has_taken(permits) && !permits->listing && permits->excess == 0 && acquisition->locks->wire->usable) {
        take(acquisition); /* a permit was given back, and only the head of the queue may take one */
    } else {
        zkl_entry_make_runnable(acquisition->entry);
    }
}

/* --- judging --------------------------------------------------------------------------------------------------------- */

static bool is_listed(const zkl_entry *entry, const struct String_vector *names)
{
    for (int32_t i = 0; i < names->count; i++) {
        if (strcmp(zkl_entry_name(entry), names->data[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Counts the permits among the names. Writes the number of the acquisition's own to `own`. */
static int32_t count_leases(zkl_acquisition *acquisition, const struct String_vector *names, int32_t *own)
{
    int32_t count = 0;
    for (int32_t i = 0; i < names->count; i++) {
        count += zkl_node_parse(names->data[i]).kind == ZKL_NODE_LEASE;
    }
    zkl_entry *entry;
    *own = 0;
    FOREACH_LEASE_ENTRY(entry, acquisition)
    {
        *own += entry->node != NULL && is_listed(entry, names);
    }
    return count;
}

static void no_room(zkl_acquisition *acquisition, const struct String_vector *names)
{
    zkl_permits *permits = acquisition->part;
    bool removed = zkl_queue_remove_strays(permits->leases, names);
    permits->leases->busy = permits->waited = true;
    if (acquisition->try_only) {
        zkl_acquisition_refuse(acquisition, ZKL_TIMEOUT, "'%.300s' has not %d of its %d permits left",
                               zkl_acquisition_path(acquisition), (int)permits->count, (int)permits->limit);
        return;
    }
    if (permits->state == ZKL_PERMITS_LOOKING) {
        permits->state = ZKL_PERMITS_WAITING;
    }
    zkl_acquisition_blocker_changed(acquisition);
    if (!removed) {
        list_leases_later(acquisition->entry); /* it would wait for permits that may be strays */
        return;
    }
    /*
     * Lists once more unless the watch was armed when this list was made: otherwise the watch may have missed a change.
     */
    zkl_permits_step(acquisition->entry);
}

/*
 * The acquisition keeps permits for which there is no room, so its queue entry's place is checked once more. An
 * administrator may have deleted the queue entry's node, or a restore may have brought back another queue entry before
 * it. Two acquisitions that both keep permits would wait for each other.
 */
static void look_at_place(zkl_acquisition *acquisition)
{
    zkl_entry *queue_entry = acquisition->entry;
    const zkl_ask ask = zkl_entry_ask(queue_entry, on_place);
    if (!zkl_entry_sent(queue_entry, zkl_send_names(queue_entry->locks->wire, &ask, queue_entry->queue->path))) {
        zkl_permits_look_again(queue_entry);
    }
}

static void place_listed(zkl_entry *queue_entry, int rc, const struct String_vector *names)
{
    if (rc == ZNONODE) {
        zkl_entry_deleted_externally(queue_entry); /* the whole directory is gone */
    } else if (rc == ZTHROTTLEDOP) {
        list_leases_later(queue_entry);
    } else if (rc == ZOK) {
        zkl_entry_check_place(queue_entry, names);
    }
}

static void on_place(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *queue_entry = owner;
    if (reply->generation == queue_entry->generation && queue_entry->state == ZKL_ENTRY_CONFIRMING) {
        place_listed(queue_entry, zkl_names_rc(rc, reply->names), reply->names);
    }
}

/* Decides on a list that was made after the acquisition's nodes and shows `count` permits. */
static void judge_taken(zkl_acquisition *acquisition, const struct String_vector *names, int32_t count)
{
    zkl_permits *permits = acquisition->part;
    if (count <= permits->limit) {
        room_for_all(acquisition);
        return;
    }
    permits->state = ZKL_PERMITS_FULL;
    if (!acquisition->try_only) {
        look_at_place(acquisition);
    }
    no_room(acquisition, names);
}

/* Some of the acquisition's nodes were deleted externally. */
static void evict_missing(zkl_acquisition *acquisition, const struct String_vector *names)
{
    zkl_entry *entry, *next;
    for (entry = next_lease_entry(LIST_FIRST(&acquisition->entries)); entry != NULL; entry = next) {
        next = next_lease_entry(LIST_NEXT(entry, in_acquisition));
        if (!is_listed(entry, names)) {
            zkl_entry_deleted_externally(entry);
        }
    }
}

static void judge(zkl_acquisition *acquisition, const zkl_reply *reply, const struct String_vector *names)
{
    int32_t own;
    int32_t count = count_leases(acquisition, names, &own);
    zkl_permits *permits = acquisition->part;
    if (has_taken(permits)) {
        if (!all_seated(acquisition, reply->tag == ZKL_LEASES_JOIN ? reply->connection : 0)) {
            permits->undecided = true; /* the list may be older than one of the nodes */
            zkl_permits_step(acquisition->entry);
        } else if (own == permits->count) {
            judge_taken(acquisition, names, count);
        } else {
            evict_missing(acquisition, names);
        }
        return;
    }
    permits->excess = count + permits->count - permits->limit;
    if (permits->excess > 0) {
        no_room(acquisition, names);
    } else if (reply->tag == ZKL_LEASES_TRY) {
        zkl_entry_join(acquisition->entry);
    } else {
        take(acquisition);
    }
}

/* --- permits that no acquisition knows ----------------------------------------------------------------------------- */

/*
 * The head of the queue sees all permits, but can remove only those of its own client. If a stray permit is ours, our
 * queue entry may be behind that head, where no list of permits is made. Then the head would wait for us, and we for
 * the head.
 */
void zkl_permits_search(zkl_entry *queue_entry)
{
    zkl_permits *permits = queue_entry->acquisition->part;
    permits->search = zkl_queue_may_have_strays(permits->leases);
    zkl_permits_search_on(queue_entry);
}

void zkl_permits_search_on(zkl_entry *queue_entry)
{
    zkl_permits *permits = queue_entry->acquisition->part;
    if (!permits->search || permits->listing) {
        return;
    }
    permits->listing = send_leases(queue_entry, ZKL_LEASES_LOOK);
    if (!permits->listing) {
        zkl_entry_make_runnable(queue_entry);
    }
}

static void searched(zkl_acquisition *acquisition, int rc, const struct String_vector *names)
{
    zkl_permits *permits = acquisition->part;
    if (rc == ZTHROTTLEDOP || (rc == ZOK && !zkl_queue_remove_strays(permits->leases, names))) {
        zkl_entry_back_off(acquisition->entry);
    } else if (zkl_outcome_unknown(rc)) {
        zkl_entry_make_runnable(acquisition->entry);
    } else {
        permits->search = false;
    }
}

/* A try's list has shown that the semaphore was resized, and another limit than the known one: reads it, and lists again. */
static void look_anew(zkl_acquisition *acquisition)
{
    zkl_queue *leases = permits_of(acquisition)->leases;
    bool was_known = zkl_permits_know_limit(leases);
    leases->limit_mzxid = 0;
    if (!was_known || !zkl_permits_look(acquisition->entry)) {
        zkl_entry_try_again(acquisition->entry); /* the read was refused */
    }
}

void zkl_permits_listed(zkl_acquisition *acquisition, int rc, const zkl_reply *reply)
{
    zkl_permits *permits = acquisition->part;
    zkl_entry *queue_entry = acquisition->entry;
    bool trying = queue_entry != NULL && queue_entry->state == ZKL_ENTRY_LOOKING && reply->tag == ZKL_LEASES_TRY;
    if (permits->search && queue_entry != NULL && queue_entry->state == ZKL_ENTRY_QUEUED) {
        searched(acquisition, rc, reply->names);
        return;
    }
    if (acquisition->phase != ZKL_ACQUISITION_WAITING || queue_entry == NULL ||
        (queue_entry->state != ZKL_ENTRY_CONFIRMING && !trying)) {
        return;
    }
    if (rc != ZOK && rc != ZNONODE) {
        if (!trying && zkl_not_answered(rc)) {
            zkl_entry_make_runnable(queue_entry);
        } else if (trying && rc == ZTHROTTLEDOP) {
            zkl_entry_try_again(queue_entry);
        } else if (rc == ZTHROTTLEDOP) {
            zkl_entry_back_off(queue_entry);
        } else {
            zkl_acquisition_refuse(acquisition, zkl_code_of(rc), "listing '%s': %s",
                                   permits_of(acquisition)->leases->path, zerror(rc));
        }
        return;
    }
    static const struct String_vector none = {0, NULL};
    const struct String_vector *names = rc == ZOK ? reply->names : &none;
    if (zkl_permits_limit_fits(acquisition, rc == ZOK ? reply->stat : NULL, names)) {
        permits->undecided = false;
        judge(acquisition, reply, names);
    } else if (queue_entry->state == ZKL_ENTRY_LOOKING) {
        look_anew(acquisition);
    }
}

static void on_leases(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *queue_entry = owner;
    zkl_acquisition *acquisition = queue_entry->acquisition;
    if (acquisition != NULL && reply->generation == permits_of(acquisition)->generation) {
        permits_of(acquisition)->listing = false;
        zkl_permits_listed(acquisition, zkl_names_rc(rc, reply->names), reply);
    }
}
