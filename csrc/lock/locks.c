/*
 * locks: all locks of a client, and what happens to all of them at once.
 */
#include <stdio.h>
#include <string.h>

#include "acquisition.h"
#include "entry.h"
#include "hold.h"
#include "join.h"
#include "leave.h"
#include "locks.h"
#include "lose.h"
#include "place.h"
#include "share.h"

/* The time until runnable entries are stepped again whose requests could not be sent. */
#define PAUSE_AFTER (ZKL_SECOND / 5)

#ifdef ZKL_BREAKABLE
int32_t zkl_most_grants = INT32_C(1) << 30;
#endif

/* --- the object ----------------------------------------------------------------------------------------------------- */

/*
 * Makes the first 24 of a uuid's 36 characters from random bits, in the form of a version 8 uuid (RFC 9562: of our own making;
 * zkl_node_may_pass). The last twelve digits are a counter.
 */
static void make_uuid_stem(zkl_locks *locks, const uint64_t random[2])
{
    snprintf(locks->uuid_stem, sizeof locks->uuid_stem, "%08x-%04x-8%03x-%04x-", (unsigned)(random[0] & 0xffffffff),
             (unsigned)(random[0] >> 32 & 0xffff), (unsigned)(random[0] >> 48 & 0xfff),
             (unsigned)((random[1] & 0x3fff) | 0x8000));
}

const zkl_queue_listener zkl_queue_events = {
    .directory_ready = zkl_entries_directory_ready,
    .stray_found = zkl_entry_adopt,
};

/* The functions that send the request of a state. LOOKING and JOINING wait for replies. GRANTED, LINGERING and GONE send nothing. */
const zkl_entry_sender zkl_entry_senders[] = {
    [ZKL_ENTRY_PARKED] = zkl_entry_step_parked,   [ZKL_ENTRY_RECOVERING] = zkl_entry_step_recovering,
    [ZKL_ENTRY_QUEUED] = zkl_entry_step_queued,   [ZKL_ENTRY_CONFIRMING] = zkl_entry_confirm,
    [ZKL_ENTRY_LEAVING] = zkl_entry_step_leaving, [ZKL_ENTRY_GONE] = NULL,
};

bool zkl_locks_init(zkl_locks *locks, zkl_session *session, const uint64_t random[2],
                    void (*acquisition_changed)(void *context, zkl_acquisition *acquisition),
                    zkl_hold_over_fn hold_over, void *context)
{
    locks->session = session;
    locks->wire = &session->wire;
    locks->acquisition_changed = acquisition_changed;
    locks->hold_over = hold_over;
    locks->context = context;
    TAILQ_INIT(&locks->entries);
    TAILQ_INIT(&locks->runnable);
    TAILQ_INIT(&locks->over_watch_budget);
    TAILQ_INIT(&locks->backing_off);
    TAILQ_INIT(&locks->kept);
    TAILQ_INIT(&locks->acquisitions);
    TAILQ_INIT(&locks->holds);
    TAILQ_INIT(&locks->lingering);
    make_uuid_stem(locks, random);
    return zkl_table_init(&locks->queues, offsetof(zkl_queue, in_queues)) &&
           zkl_table_init(&locks->serials, offsetof(zkl_entry, in_serials));
}

void zkl_locks_free(zkl_locks *locks)
{
    zkl_entry *entry;
    while ((entry = TAILQ_FIRST(&locks->entries)) != NULL) {
        zkl_entry_destroy(entry);
    }
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&locks->acquisitions)) != NULL) {
        zkl_acquisition_free(acquisition);
    }
    zkl_queues_free(locks);
    zkl_table_free(&locks->queues);
    zkl_table_free(&locks->serials);
}

void zkl_locks_close(zkl_locks *locks, int64_t now)
{
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&locks->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        zkl_acquisition_end(acquisition, ZKL_CLOSED, now);
    }
    zkl_share_expire(locks, true);
}

/* --- runnable entries ----------------------------------------------------------------------------------------------- */

int64_t zkl_entries_run_at(const zkl_locks *locks)
{
    bool may_send = zkl_wire_has_room(locks->wire);
    return may_send && !TAILQ_EMPTY(&locks->runnable) ? locks->wire->now + PAUSE_AFTER : ZKL_NEVER;
}

void zkl_entries_run(zkl_locks *locks)
{
    zkl_entry *entry;
    while (zkl_wire_has_room(locks->wire) && (entry = TAILQ_FIRST(&locks->runnable)) != NULL) {
        zkl_entry_leave_wait_list(entry);
        zkl_entry_step(entry);
        if (entry->wait_list == &locks->runnable) {
            break; /* it still may not send, and neither may those behind it */
        }
    }
    while (zkl_wire_has_room(locks->wire) && (entry = TAILQ_FIRST(&locks->over_watch_budget)) != NULL &&
           zkl_entry_fits(entry)) {
        zkl_entry_leave_wait_list(entry);
        zkl_entry_reserve(entry, true); /* an entry that asks reads first */
        zkl_entry_step(entry);
    }
}

/* --- what the session reports -------------------------------------------------------------------------------------- */

/*
 * Requests may go out again. The runnable entries are stepped in the same turn. Entries that wait for a change of a directory look
 * again, on a new connection. Their watches are armed again, but
 * report only changes whose zxids are higher than those that the client has seen. The zxids of a restored server may
 * still be lower.
 */
static void locks_ready(void *owner)
{
    zkl_locks *locks = owner;
    zkl_entry *entry;
    TAILQ_FOREACH(entry, &locks->entries, all)
    {
        bool waits = entry->state == ZKL_ENTRY_CONFIRMING && zkl_watch_is_armed(&entry->item);
        if (waits && !ZKL_BROKEN(ZKL_BREAK_OUTLIVED)) {
            entry->kind->directory_doubted(entry);
        }
    }
}

/* The connection is lost: tries that wait are refused, since they cannot be answered without one. */
static void lost(void *owner)
{
    zkl_locks *locks = owner;
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&locks->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        if (acquisition->try_only && acquisition->phase == ZKL_ACQUISITION_WAITING) {
            zkl_acquisition_refuse(acquisition, ZKL_DISCONNECTED,
                                   "'%s' could not be tried: the connection to '%s' is lost",
                                   zkl_acquisition_path(acquisition), locks->wire->hosts);
        }
    }
}

/* The session is over, and with it all nodes. */
static void locks_over(void *owner, const char *why)
{
    zkl_locks *locks = owner;
    zkl_entry *entry, *next;
    for (entry = TAILQ_FIRST(&locks->entries); entry != NULL; entry = next) {
        next = TAILQ_NEXT(entry, all);
        zkl_entry_session_over(entry, why);
    }
    zkl_queues_forget(locks);
}

/* No session will be opened any more. */
static void locks_refused(void *owner, zkl_code code, const char *message)
{
    zkl_locks *locks = owner;
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&locks->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        if (acquisition->phase == ZKL_ACQUISITION_WAITING) {
            zkl_acquisition_refuse(acquisition, code, "%s", message);
        }
    }
}

/* It is not certain any more that the session exists. */
static void lapsed(void *owner)
{
    zkl_locks *locks = owner;
    zkl_share_expire(locks, true);
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&locks->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        zkl_acquisition_lose(acquisition, ZKL_LOST,
                             "'%s' is lost: it is not certain any more that the session lives (its timeout is %d ms)",
                             zkl_acquisition_path(acquisition), locks->wire->stats.timeout_ms);
    }
}

/* Grants the entries that have waited for a lease. */
static void leased(void *owner)
{
    zkl_locks *locks = owner;
    zkl_entry *entry, *next;
    for (entry = TAILQ_FIRST(&locks->entries); entry != NULL; entry = next) {
        next = TAILQ_NEXT(entry, all);
        if (entry->kind->needs_lease) {
            zkl_entry_confirm(entry);
        }
    }
}

const zkl_session_listener zkl_locks_listener = {
    .ready = locks_ready,
    .lost = lost,
    .over = locks_over,
    .refused = locks_refused,
    .retry = zkl_entries_end_backoff,
    .lapsed = lapsed,
    .leased = leased,
};

/* --- what heartbeats and watches ask and tell --------------------------------------------------------------------- */

static zkl_entry *entry_of(const zkl_item *item)
{
    return (zkl_entry *)((uintptr_t)item - offsetof(zkl_entry, item));
}

static zkl_item_facts describe_item(const zkl_item *item)
{
    const zkl_entry *entry = entry_of(item);
    return (zkl_item_facts){
        .generation = entry->generation,
        /*
         * A downgraded reader does not know its node's czxid. The session is enough: no other client has it, and this
         * one makes no node twice under one name.
         */
        .any_czxid = entry->downgrade == ZKL_DOWNGRADE_MADE,
        .path = entry->node,
        .czxid = entry->tenure.czxid,
    };
}

static zkl_item *item_of_node(const void *owner, const char *path)
{
    zkl_entry *entry = zkl_queue_entry_of_node(owner, path);
    return entry != NULL ? &entry->item : NULL;
}

static void keep_item(zkl_item *item)
{
    entry_of(item)->flying++;
}

static void release_item(zkl_item *item)
{
    zkl_entry_release(entry_of(item));
}

static void item_deleted(zkl_item *item)
{
    zkl_entry_deleted_externally(entry_of(item));
}

static void item_replaced(zkl_item *item)
{
    zkl_entry_replaced(entry_of(item));
}

static void watched_gone(zkl_item *watcher)
{
    zkl_entry_blocker_gone(entry_of(watcher));
}

static void passed(zkl_item *watcher)
{
    zkl_entry_passed(entry_of(watcher));
}

static void entry_looks_again(zkl_item *watcher)
{
    zkl_entry_look_again(entry_of(watcher));
}

static void look_later(zkl_item *watcher)
{
    zkl_entry_look_later(entry_of(watcher));
}

static void watch_unreadable(zkl_item *watcher)
{
    zkl_entry_blocker_unreadable(entry_of(watcher));
}

/* The watch could not be armed. If there is a connection, the entry waits: the cause will not pass at once. */
static void watch_failed(zkl_item *watcher)
{
    zkl_entry *entry = entry_of(watcher);
    bool waits = entry->state == ZKL_ENTRY_QUEUED || entry->state == ZKL_ENTRY_LOOKING;
    if (waits && entry->locks->wire->usable) {
        zkl_entry_look_later(entry); /* no memory, or a name that no node can have */
    } else {
        zkl_entry_look_again(entry);
    }
}

static void watch_answered(zkl_item *watcher, int64_t czxid)
{
    zkl_entry_watch_answered(entry_of(watcher), czxid);
}

static void directory_listed(zkl_item *watcher, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = entry_of(watcher);
    entry->kind->directory_listed(entry, rc, reply);
}

static void watch_kept(zkl_item *watcher)
{
    zkl_entry *entry = entry_of(watcher);
    entry->kind->directory_doubted(entry);
}

static bool is_revocation(const char *data, int length)
{
    return length == (int)sizeof ZKL_REVOKE - 1 && memcmp(data, ZKL_REVOKE, sizeof ZKL_REVOKE - 1) == 0;
}

static void revoked(zkl_item *owner)
{
    zkl_entry_revoked(entry_of(owner));
}

const zkl_item_ops zkl_entry_items = {
    .of_node = item_of_node,
    .deleted = item_deleted,
    .describe = describe_item,
    .keep = keep_item,
    .release = release_item,
    .replaced = item_replaced,
    .gone = watched_gone,
    .passed = passed,
    .look_again = entry_looks_again,
    .look_later = look_later,
    .unreadable = watch_unreadable,
    .failed = watch_failed,
    .answered = watch_answered,
    .listed = directory_listed,
    .kept = watch_kept,
    .asks = is_revocation,
    .revoked = revoked,
};
