/*
 * share: several acquisitions of one client use one entry, one after the other or, if they are readers, together.
 *
 * Acquisitions of one path queue locally, first in, first out. They are in the list entry->sharers of the latest entry
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
#include <assert.h>
#include <string.h>

#include "hold.h"
#include "leave.h"
#include "lose.h"
#include "share.h"

/* --- finding an entry ---------------------------------------------------------------------------------------------- */

/* Whether entries of one kind serve acquisitions of the other. */
static bool covers(const zkl_kind *kind, const zkl_kind *other)
{
    return kind == other || kind->weaker == other;
}

/* Whether the entry's node has the data and the acl that the acquisition's own node would have. */
static bool same_node(const zkl_entry *entry, const zkl_acquisition *acquisition)
{
    return zkl_lock_spec_alike(entry->acquisition != NULL ? entry->acquisition->spec : entry->spec, acquisition->spec);
}

static zkl_acquisition *following(const zkl_entry *entry, zkl_acquisition *acquisition)
{
    return acquisition == entry->acquisition ? TAILQ_FIRST(&entry->sharers) : TAILQ_NEXT(acquisition, in_entry);
}

static zkl_acquisition *preceding(const zkl_entry *entry, zkl_acquisition *acquisition)
{
    if (acquisition == entry->acquisition) {
        return NULL;
    }
    zkl_acquisition *before = TAILQ_PREV(acquisition, zkl_acquisition_list, in_entry);
    return before != NULL ? before : entry->acquisition;
}

static zkl_acquisition *last_in(const zkl_entry *entry)
{
    zkl_acquisition *last = TAILQ_LAST(&entry->sharers, zkl_acquisition_list);
    return last != NULL ? last : entry->acquisition;
}

/* Whether readers hold the entry and no acquisition waits in it. Only readers can hold while they share an entry. */
static bool only_readers_hold(const zkl_entry *entry)
{
    return zkl_acquisition_kind(entry->acquisition)->together && entry->state == ZKL_ENTRY_GRANTED &&
           (TAILQ_EMPTY(&entry->sharers) || last_in(entry)->phase == ZKL_ACQUISITION_GRANTED);
}

static bool is_waiting_reader(const zkl_acquisition *acquisition)
{
    return acquisition != NULL && zkl_acquisition_kind(acquisition)->together &&
           acquisition->phase == ZKL_ACQUISITION_WAITING;
}

/* Whether the acquisition would be granted together with the last one in the entry. The two count once. */
static bool goes_in_together(const zkl_entry *entry, const zkl_acquisition *acquisition)
{
    const zkl_acquisition *last = last_in(entry);
    bool later = ZKL_BROKEN(ZKL_BREAK_TOGETHER) && zkl_acquisition_kind(last)->together;
    return zkl_acquisition_kind(acquisition)->together && (is_waiting_reader(last) || later);
}

/* Whether the entry's acquisitions keep no other client waiting. */
static bool is_alone(const zkl_entry *entry)
{
    bool ignores = ZKL_BROKEN(ZKL_BREAK_ALONE) && entry->tenure.contention == ZKL_CONTENTION_SEEN;
    return entry->tenure.contention == ZKL_CONTENTION_NONE || ignores;
}

/* Whether the entry is not handed over any more, so that an acquisition that waited in it would never be granted. */
static bool is_closed(const zkl_entry *entry)
{
    bool worn = entry->tenure.grants >= ZKL_MAX_GRANTS && !ZKL_BROKEN(ZKL_BREAK_GRANTS);
    return entry->tenure.handover != ZKL_HANDOVER_ALLOWED || worn;
}

/* Whether one more acquisition would exceed the bound that protects waiters of other clients. */
static bool entry_is_full(const zkl_entry *entry, const zkl_acquisition *acquisition)
{
    int32_t handoff = acquisition->spec->lock.handoff;
    bool harmless = handoff > 0 && (is_alone(entry) || goes_in_together(entry, acquisition));
    return entry->turns > handoff && !harmless && !ZKL_BROKEN(ZKL_BREAK_HANDOFF);
}

zkl_entry *zkl_share_find(const zkl_acquisition *acquisition)
{
    const zkl_kind *kind = zkl_acquisition_kind(acquisition);
    if (!kind->shares) {
        return NULL;
    }
    zkl_entry *entry = TAILQ_LAST(&acquisition->queue->entries, zkl_entry_list);
    while (entry != NULL && !(entry->wanted && entry->kind->shares)) {
        entry = TAILQ_PREV(entry, zkl_entry_list, in_queue);
    }
    if (entry == NULL || entry->downgrade != ZKL_DOWNGRADE_NO || is_closed(entry) || !covers(entry->kind, kind) ||
        !same_node(entry, acquisition)) {
        return NULL;
    }
    if (entry->state == ZKL_ENTRY_LINGERING) {
        return zkl_wire_covers_more(acquisition->locks->wire) ? entry : NULL;
    }
    if (entry_is_full(entry, acquisition) || (entry->acquisition->try_only && entry->state != ZKL_ENTRY_GRANTED)) {
        return NULL;
    }
    bool at_once = kind->together && only_readers_hold(entry);
    bool granted = at_once && zkl_wire_covers_more(acquisition->locks->wire);
    return (acquisition->try_only || at_once) && !granted ? NULL : entry;
}

/* --- granting ------------------------------------------------------------------------------------------------------- */

static void grant_sharer(zkl_entry *entry, zkl_acquisition *acquisition)
{
    assert(entry->tenure.use != ZKL_USE_LEFT);
    bool handed_over = entry->tenure.use == ZKL_USE_GRANTED;
    entry->tenure.grants += handed_over;
    entry->locks->wire->stats.hand_overs += handed_over;
    entry->tenure.use = ZKL_USE_GRANTED;
    zkl_acquisition_grant(acquisition, entry);
    /* With ZKL_BREAK_PAIRING there may be no node to watch. */
    if (acquisition->spec->lock.revocable && entry->item.own == NULL && !ZKL_BROKEN(ZKL_BREAK_PAIRING)) {
        zkl_entry_watch_own(entry); /* may report at once that another client asked for the lock */
    }
}

/* Whether the acquisition may hold now. All acquisitions before it in the entry hold or have ended. */
static bool sharer_has_turn(const zkl_entry *entry, const zkl_acquisition *acquisition)
{
    return acquisition == entry->acquisition || zkl_acquisition_kind(acquisition)->together ||
           ZKL_BROKEN(ZKL_BREAK_SHARE);
}

/* Whether another entry of this client waits for this one. Then a contender is in the queue already. */
static bool others_wait_here(const zkl_entry *entry)
{
    const zkl_entry *other;
    TAILQ_FOREACH(other, &entry->queue->entries, in_queue)
    {
        if (other != entry && other->wanted && zkl_kind_conflicts(other->kind->node, entry->kind->node)) {
            return true;
        }
    }
    return false;
}

/*
 * Watches which nodes come and go in the queue. Returns false if that is not possible now, or if no list will show
 * which nodes are there.
 */
static bool watch_queue(zkl_entry *entry)
{
    if (!zkl_entry_fits(entry)) {
        return false; /* no room for the watch in the SetWatches request after a reconnect */
    }
    zkl_entry_reserve(entry, true);
    return zkl_entry_watch_children(entry, entry->queue);
}

/*
 * Watches the queue if `acquisitions` is more than a quarter of the bound. This is early enough to know, before the entry is
 * full, whether other contenders are there.
 */
static void listen_if_much_used(zkl_entry *entry, int32_t acquisitions)
{
    bool much = acquisitions > entry->acquisition->spec->lock.handoff / 4;
    if (much && entry->state == ZKL_ENTRY_GRANTED && entry->item.watch == NULL &&
        entry->tenure.contention != ZKL_CONTENTION_SEEN && !is_closed(entry) && !others_wait_here(entry) &&
        entry->locks->wire->usable) {
        watch_queue(entry);
    }
}

/* Grants what may be granted, beginning with `acquisition`. No acquisition before it waits. */
static void grant_from(zkl_entry *entry, zkl_acquisition *acquisition)
{
    int32_t granted = 0;
    if (entry->state != ZKL_ENTRY_GRANTED || !zkl_wire_leased(entry->locks->wire)) {
        return;
    }
    while (acquisition != NULL && sharer_has_turn(entry, acquisition) && !is_closed(entry)) {
        if (acquisition->phase == ZKL_ACQUISITION_WAITING) {
            grant_sharer(entry, acquisition);
            granted++;
        }
        bool exclusive = !zkl_acquisition_kind(acquisition)->together && !ZKL_BROKEN(ZKL_BREAK_SHARE);
        acquisition = exclusive ? NULL : following(entry, acquisition);
    }
    /* All of them may acquire again, but the entry has room for a few only. */
    if (granted > 1) {
        listen_if_much_used(entry, granted);
    }
}

/* Grants those acquisitions of a granted entry that may hold now. */
static void advance(zkl_entry *entry)
{
    grant_from(entry, entry->acquisition);
}

void zkl_share_ready(zkl_entry *entry)
{
    zkl_entry_hold(entry);
    advance(entry);
    zkl_entry_blocker_changed(entry);
}

/* --- joining and leaving an entry ---------------------------------------------------------------------------------- */

/* From now on the entry serves this acquisition first. */
static void put_first(zkl_entry *entry, zkl_acquisition *acquisition)
{
    entry->acquisition = acquisition;
    acquisition->entry = entry;
    acquisition->sharing = false;
    LIST_INSERT_HEAD(&acquisition->entries, entry, in_acquisition);
}

/* Promises the entry to this acquisition too, after all others. */
static void promise(zkl_entry *entry, zkl_acquisition *acquisition)
{
    entry->turns += !is_alone(entry) && !goes_in_together(entry, acquisition);
    acquisition->entry = entry;
    acquisition->sharing = true;
    TAILQ_INSERT_TAIL(&entry->sharers, acquisition, in_entry);
}

void zkl_share_join(zkl_entry *entry, zkl_acquisition *acquisition)
{
    zkl_acquisition *first = acquisition;
    if (entry->state == ZKL_ENTRY_LINGERING) {
        zkl_entry_move(entry, ZKL_ENTRY_GRANTED);
        put_first(entry, acquisition);
        /* If the entry is not alone, the list that shows it may still be in flight. */
        entry->turns = is_alone(entry) ? 1 : entry->turns + 1;
    } else {
        first = only_readers_hold(entry) ? acquisition : entry->acquisition;
        promise(entry, acquisition);
        listen_if_much_used(entry, entry->turns);
    }
    grant_from(entry, first);
    if (acquisition->phase == ZKL_ACQUISITION_WAITING) {
        zkl_acquisition_blocker_changed(acquisition);
    }
}

/*
 * Whether the acquisition's end leaves the count of promises as it is: other readers would have been granted with it.
 */
static bool leaves_turn(const zkl_entry *entry, zkl_acquisition *acquisition)
{
    return zkl_acquisition_kind(acquisition)->together &&
           (is_waiting_reader(preceding(entry, acquisition)) || is_waiting_reader(following(entry, acquisition)));
}

/* An acquisition of the entry has ended. It is still linked to the entry. */
static void note_end(zkl_entry *entry, zkl_acquisition *acquisition)
{
    bool promised = acquisition->token.number == 0 && !is_alone(entry); /* never granted, but counted in `turns` */
    if (promised && !leaves_turn(entry, acquisition)) {
        entry->turns--;
    }
    if (acquisition->phase == ZKL_ACQUISITION_LOST && entry->state == ZKL_ENTRY_GRANTED &&
        !ZKL_BROKEN(ZKL_BREAK_RELEASED)) {
        zkl_entry_end_handover(entry, ZKL_HANDOVER_GRANT_LOST);
    }
}

/* Takes an acquisition that shares an entry out of it. */
static void part(zkl_acquisition *acquisition)
{
    zkl_entry *entry = acquisition->entry;
    bool had_none = acquisition->token.number == 0;
    note_end(entry, acquisition);
    TAILQ_REMOVE(&entry->sharers, acquisition, in_entry);
    acquisition->entry = NULL;
    acquisition->sharing = false;
    zkl_acquisition_settle(acquisition);
    if (is_closed(entry)) {
        zkl_share_move_on(entry);
    }
    if (had_none) {
        advance(entry); /* the acquisition may have blocked those behind it */
    }
}

/* Whether a downgraded reader holds, or is about to hold, beside the writer whose entry this is. */
static bool has_downgraded_reader(const zkl_entry *entry)
{
    const zkl_entry *other = NULL;
    if (entry->queue->downgraded == 0) {
        return false;
    }
    TAILQ_FOREACH(other, &entry->queue->entries, in_queue)
    {
        if (other->downgrade == ZKL_DOWNGRADE_MADE && other->tenure.czxid == entry->tenure.czxid &&
            other->state != ZKL_ENTRY_GONE) {
            return true;
        }
    }
    return false;
}

static bool may_hand_over(const zkl_entry *entry, const zkl_acquisition *to)
{
    bool downgraded = !zkl_acquisition_kind(to)->together && has_downgraded_reader(entry);
    return to->phase != ZKL_ACQUISITION_WAITING || (zkl_wire_covers_more(entry->locks->wire) && !downgraded);
}

/*
 * Moves acquisitions that share `from`, beginning with `acquisition`, to `to` until that is full. `to` has sent nothing, and gets a kind
 * that covers them. Returns the first that is left, or NULL.
 */
static zkl_acquisition *move_sharers(zkl_entry *from, zkl_acquisition *acquisition, zkl_entry *to)
{
    zkl_acquisition *next;
    for (; acquisition != NULL && !entry_is_full(to, acquisition); acquisition = next) {
        next = TAILQ_NEXT(acquisition, in_entry);
        TAILQ_REMOVE(&from->sharers, acquisition, in_entry);
        promise(to, acquisition);
        to->kind = covers(zkl_acquisition_kind(acquisition), to->kind) ? zkl_acquisition_kind(acquisition) : to->kind;
    }
    return acquisition;
}

/*
 * Gives the first waiting acquisition an entry of its own, together with as many of those behind it as the entry has
 * room for. The next one gets another entry, and so on. Sends nothing. Returns the first of these entries, or NULL if
 * no acquisition waits.
 */
static zkl_entry *replace(zkl_entry *entry)
{
    zkl_entry *first = NULL;
    zkl_acquisition *next;
    for (zkl_acquisition *acquisition = TAILQ_FIRST(&entry->sharers); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, in_entry);
        if (acquisition->phase != ZKL_ACQUISITION_WAITING) {
            continue;
        }
        TAILQ_REMOVE(&entry->sharers, acquisition, in_entry);
        acquisition->sharing = false;
        zkl_entry *fresh = zkl_entry_new(acquisition, entry->queue, zkl_acquisition_kind(acquisition));
        acquisition->entry = fresh;
        if (fresh != NULL) {
            first = first != NULL ? first : fresh;
            next = move_sharers(entry, next, fresh);
        } else {
            zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_FAILED,
                                   "not enough memory to queue for '%s' again", zkl_acquisition_path(acquisition));
            zkl_acquisition_settle(acquisition);
        }
    }
    return first;
}

/* Sends the requests of the entries that `replace` has made. */
static void step_from(zkl_entry *fresh)
{
    while (fresh != NULL) {
        zkl_entry *next = TAILQ_NEXT(fresh, in_queue); /* stepping does not free an entry that has sent nothing */
        if (fresh->state == ZKL_ENTRY_PARKED) {
            zkl_entry_step(fresh);
        }
        fresh = next;
    }
}

void zkl_share_move_on(zkl_entry *entry)
{
    step_from(replace(entry));
}

/* --- lingering ------------------------------------------------------------------------------------------------------ */

/* The entry's last acquisition has ended. Returns true if the entry lingers; the acquisition is then settled. */
static bool begin_linger(zkl_entry *entry, zkl_acquisition *acquisition)
{
    zkl_locks *locks = entry->locks;
    if (acquisition->spec->lock.linger == 0 || acquisition->phase != ZKL_ACQUISITION_RELEASED ||
        entry->state != ZKL_ENTRY_GRANTED || entry->downgrade == ZKL_DOWNGRADE_MADE || is_closed(entry) ||
        has_downgraded_reader(entry) || !zkl_wire_leased(locks->wire) || !locks->wire->usable) {
        return false;
    }
    if ((entry->tenure.contention == ZKL_CONTENTION_SEEN || others_wait_here(entry)) && !ZKL_BROKEN(ZKL_BREAK_LINGER)) {
        return false;
    }
    if (entry->item.watch == NULL && !watch_queue(entry)) {
        return false; /* another entry of ours watches the queue, or the watch cannot be armed now */
    }
    if (entry->spec == NULL) {
        entry->spec = zkl_lock_spec_take(acquisition->spec);
    }
    LIST_REMOVE(entry, in_acquisition);
    entry->acquisition = NULL;
    acquisition->entry = NULL;
    zkl_entry_linger(entry, locks->wire->now + acquisition->spec->lock.linger);
    zkl_acquisition_settle(acquisition);
    return true;
}

void zkl_share_contested(zkl_entry *entry)
{
    bool was_alone = is_alone(entry);
    entry->tenure.contention = ZKL_CONTENTION_SEEN;
    if (entry->state == ZKL_ENTRY_LINGERING) {
        if (!ZKL_BROKEN(ZKL_BREAK_LINGER)) {
            zkl_entry_leave(entry);
        }
    } else if (!ZKL_BROKEN(ZKL_BREAK_ALONE)) {
        assert(entry->acquisition != NULL);
        bool beyond = was_alone || entry->turns > entry->acquisition->spec->lock.handoff + 1;
        if (beyond) {
            zkl_entry_end_handover(entry, ZKL_HANDOVER_USED_UP);
            zkl_share_move_on(entry);
        }
    }
}

void zkl_share_changed(zkl_entry *entry)
{
    if (zkl_entry_is_granted(entry)) {
        zkl_share_contested(entry);
    }
}

void zkl_share_listed(zkl_entry *entry, int rc, const zkl_reply *reply)
{
    const struct String_vector *names = reply->names;
    zkl_node_kind mine = entry->kind->node;
    bool alone = rc == ZOK;
    bool listed = rc != ZOK;
    for (int32_t i = 0; rc == ZOK && i < names->count; i++) {
        bool own = strcmp(names->data[i], zkl_entry_name(entry)) == 0;
        listed = listed || own;
        alone = alone && (own || !zkl_kind_conflicts(mine, zkl_node_parse(names->data[i]).kind));
    }
    if (!listed) {
        zkl_entry_deleted_externally(entry);
    } else if (!alone) {
        zkl_share_contested(entry);
    } else if (entry->tenure.contention == ZKL_CONTENTION_UNKNOWN) {
        entry->tenure.contention = ZKL_CONTENTION_NONE;
    }
}

int64_t zkl_share_expires_at(const zkl_locks *locks)
{
    const zkl_entry *first = TAILQ_FIRST(&locks->lingering);
    return first != NULL ? first->linger_until : ZKL_NEVER;
}

void zkl_share_expire(zkl_locks *locks, bool all)
{
    zkl_entry *entry;
    while ((entry = TAILQ_FIRST(&locks->lingering)) != NULL && (all || entry->linger_until <= locks->wire->now)) {
        zkl_entry_leave(entry);
    }
}

void zkl_share_make_way(const zkl_acquisition *acquisition)
{
    zkl_entry *entry = TAILQ_FIRST(&acquisition->queue->entries);
    while (entry != NULL && acquisition->queue->lingering > 0) {
        zkl_entry *next = TAILQ_NEXT(entry, in_queue);
        if (entry->state == ZKL_ENTRY_LINGERING) {
            zkl_entry_leave(entry);
        }
        entry = next;
    }
}

/* --- passing on ----------------------------------------------------------------------------------------------------- */

/* The acquisition that the entry serves first gives it up. Returns true if the entry goes on without it. */
static bool pass_on(zkl_acquisition *acquisition)
{
    zkl_entry *entry = acquisition->entry;
    if (!entry->wanted) {
        return false;
    }
    /* Readers whose create is not sent yet must not be created beside the next holder's node. */
    zkl_entry_detach_readers(entry, true);
    note_end(entry, acquisition);
    zkl_acquisition *next = TAILQ_FIRST(&entry->sharers);
    if (next == NULL) {
        return begin_linger(entry, acquisition);
    }
    bool moves = entry->state == ZKL_ENTRY_GRANTED && (is_closed(entry) || !may_hand_over(entry, next));
    zkl_entry *fresh = moves ? replace(entry) : NULL;
    next = TAILQ_FIRST(&entry->sharers);
    if (next != NULL) {
        TAILQ_REMOVE(&entry->sharers, next, in_entry);
        LIST_REMOVE(entry, in_acquisition);
        acquisition->entry = NULL;
        put_first(entry, next);
        zkl_acquisition_settle(acquisition);
        if (next->phase == ZKL_ACQUISITION_WAITING) {
            advance(entry);
        }
    } else {
        zkl_entry_leave(entry);
    }
    /* Sent behind the delete, so the list that comes with the new create shows only the nodes that are left. */
    step_from(fresh);
    return next != NULL;
}

void zkl_share_released(zkl_acquisition *acquisition)
{
    if (acquisition->sharing) {
        part(acquisition);
    } else if (acquisition->entry == NULL || !pass_on(acquisition)) {
        zkl_entries_leave(acquisition);
    }
}
