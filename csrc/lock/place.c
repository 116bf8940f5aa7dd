/*
 * place: the place of an entry in its queue, and the watch on the node ahead.
 *
 * A list shows the place. If a node is ahead that conflicts, the entry watches it, or the try is refused. If none is, the
 * entry goes on in hold.c.
 *
 * Why deletions alone may lead to a grant: one leader gives out the sequence numbers, so no later node can get a
 * smaller number than ours.
 */
#include <string.h>

#include "hold.h"
#include "leave.h"
#include "lose.h"
#include "place.h"
#include "predict.h"

static void on_queue_listed(void *owner, int rc, const zkl_reply *reply);
static void on_writer_looked_at(void *owner, int rc, const zkl_reply *reply);

/* --- what it sends ------------------------------------------------------------------------------------------------- */

/* Why an entry listed its queue. This decides what the reply is used for: it is the request's tag. */
enum {
    ZKL_LIST_JOIN, /* together with the create of its node: counts on the same connection only */
    ZKL_LIST_LOOK  /* its node exists already */
};

bool zkl_entry_list_joined(zkl_entry *entry)
{
    return zkl_entry_list(entry, on_queue_listed, ZKL_LIST_JOIN);
}

bool zkl_entry_look_at_writer(zkl_entry *reader)
{
    zkl_ask ask = zkl_entry_ask(reader, on_writer_looked_at);
    return zkl_entry_sent(reader, zkl_send_exists(reader->locks->wire, &ask, reader->writer->node, NULL, NULL));
}

void zkl_entry_step_queued(zkl_entry *entry)
{
    if (entry->kind->queued != NULL) {
        entry->kind->queued(entry);
    }
    if (!entry->kind->queues || zkl_entry_has_sent(entry, ZKL_REQUEST_LIST) || entry->item.watch != NULL) {
        return;
    }
    bool downgraded = entry->downgrade == ZKL_DOWNGRADE_MADE;
    if (downgraded && entry->writer == NULL) {
        zkl_entry_drop_node(entry); /* the writer's entry is not granted any more, so its node cannot be looked at */
        return;
    }
    bool sent = downgraded ? zkl_entry_look_at_writer(entry) : zkl_entry_list(entry, on_queue_listed, ZKL_LIST_LOOK);
    if (!zkl_entry_note_request(entry, ZKL_REQUEST_LIST, sent)) {
        zkl_entry_make_runnable(entry);
    }
}

/* --- refusing ------------------------------------------------------------------------------------------------------ */

bool zkl_entry_refuse_exhausted(zkl_entry *entry)
{
    bool exhausted = entry->sequence < 0 || entry->sequence >= ZKL_SEQUENCE_LIMIT;
    if (exhausted) {
        zkl_entry_refuse_all(
            entry, ZKL_EXHAUSTED,
            "the sequence numbers of '%s' are used up (%d): delete the empty directory, or use another path",
            entry->queue->path, entry->sequence);
    }
    return exhausted;
}

/*
 * Another node has the same number, although the numbers are not near their end. This was seen when servers had lost
 * acknowledged transactions (ZOOKEEPER-4785) and gave out numbers a second time. Neither node is before the other.
 */
static void refuse_tied(zkl_entry *entry)
{
    if (!zkl_entry_refuse_exhausted(entry)) {
        zkl_entry_refuse_all(entry, ZKL_EXHAUSTED,
                             "another node of '%s' has the sequence number %d too: the servers have given it twice",
                             entry->queue->path, entry->sequence);
    }
}

void zkl_entry_refuse_try(zkl_entry *entry, const char *name)
{
    zkl_acquisition_refuse(entry->acquisition, ZKL_TIMEOUT, "'%s' is taken: '%s' is ahead",
                           zkl_acquisition_path(entry->acquisition), name);
}

/* --- the place ----------------------------------------------------------------------------------------------------- */

/*
 * A writer of Curator's read/write lock may become a reader. It creates a reader's node with its own number and then
 * deletes the writer's node. So the deletion of a writer's node alone proves nothing (CURATOR-276).
 */
static bool may_downgrade(const char *name)
{
    return strstr(name, "-__WRIT__") != NULL;
}

zkl_node_kind zkl_entry_kind_in_queue(const zkl_entry *entry)
{
    return ZKL_BROKEN(ZKL_BREAK_READERS) && entry->kind->readwrite ? ZKL_NODE_SHARED : entry->kind->node;
}

/* Acts on the entry's position in a list that was made when its node existed. */
static void stand(zkl_entry *entry, const struct String_vector *names)
{
    zkl_standing standing =
        zkl_names_standing(names->data, names->count, zkl_entry_name(entry), zkl_entry_kind_in_queue(entry));
    zkl_entry_note_request(entry, ZKL_REQUEST_PREDICT, false);
    entry->tenure.place = ZKL_PLACE_BEHIND;
    if (!standing.listed && !ZKL_BROKEN(ZKL_BREAK_LISTED)) {
        zkl_entry_deleted_externally(entry);
        return;
    }
    if (standing.tied) {
        refuse_tied(entry);
        return;
    }
    if (standing.blocking == 0) {
        entry->tenure.place = standing.earlier == 0 ? ZKL_PLACE_HEAD : ZKL_PLACE_BEHIND;
        zkl_entry_nothing_conflicts(entry);
        return;
    }
    bool removed = zkl_queue_remove_strays(entry->queue, names);
    if (entry->acquisition->try_only) {
        zkl_entry_refuse_try(entry, names->data[standing.nearest]);
        return;
    }
    if (entry->kind->blocked != NULL) {
        entry->kind->blocked(entry);
    }
    entry->tenure.ahead = standing.blocking + (int32_t)may_downgrade(names->data[standing.nearest]);
    if (removed) {
        zkl_entry_note_predecessor(entry, names->data[standing.nearest]);
        zkl_entry_watch_node(entry, names->data[standing.nearest]);
    } else {
        zkl_entry_back_off(entry); /* lists again later: the node before it may be a stray */
    }
    zkl_entry_blocker_changed(entry);
}

void zkl_entry_check_place(zkl_entry *entry, const struct String_vector *names)
{
    zkl_standing standing =
        zkl_names_standing(names->data, names->count, zkl_entry_name(entry), zkl_entry_kind_in_queue(entry));
    if (!standing.listed || standing.tied || standing.blocking > 0) {
        zkl_watch_leave(&entry->item);
        zkl_entry_move(entry, ZKL_ENTRY_QUEUED);
        stand(entry, names);
    }
}

/* Handles a list of the queue that came with the create, or that a queued entry has requested. */
static void on_queue_listed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    const struct String_vector *names = reply->names;
    rc = zkl_names_rc(rc, names);
    if (ZKL_BROKEN(ZKL_BREAK_PAIRING) && reply->tag == ZKL_LIST_JOIN && rc == ZOK && entry->wanted &&
        entry->state == ZKL_ENTRY_PARKED &&
        zkl_names_standing(names->data, names->count, "", zkl_entry_kind_in_queue(entry)).blocking == 0) {
        zkl_entry_nothing_conflicts(entry);
        return;
    }
    if (reply->generation != entry->generation) {
        return;
    }
    if (entry->state == ZKL_ENTRY_QUEUED || entry->state == ZKL_ENTRY_CONFIRMING) {
        zkl_entry_note_request(entry, ZKL_REQUEST_LIST, false);
    }
    if (entry->state != ZKL_ENTRY_QUEUED) {
        return; /* its create failed, it is leaving, or its number has proved its place; only check_place takes that back */
    }
    if (rc == ZOK && (reply->tag == ZKL_LIST_LOOK || reply->connection == entry->connection)) {
        stand(entry, names);
    } else if (rc == ZNONODE) {
        zkl_entry_deleted_externally(entry); /* the whole directory is gone */
    } else if (rc == ZTHROTTLEDOP) {
        zkl_entry_back_off(entry);
    } else if (rc == ZOK || zkl_not_answered(rc)) {
        if (!ZKL_BROKEN(ZKL_BREAK_REARM)) {
            zkl_entry_make_runnable(entry);
        }
    } else {
        zkl_entry_refuse(entry, rc, "listing");
    }
}

/* --- the place of a downgraded reader ------------------------------------------------------------------------------ */

/*
 * Handles the exists of the writer's node, which was sent behind the create of the downgraded reader's node. If its
 * czxid is the writer's, the writer's node existed without a break until then, so every contender behind it has seen
 * one of the two nodes. The create does not prove that: it only checks that a node of that name exists. The writer's
 * node may have been deleted, another writer granted, and a node of the same name made.
 */
static void on_writer_looked_at(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    if (reply->generation != entry->generation || entry->state != ZKL_ENTRY_QUEUED ||
        entry->downgrade != ZKL_DOWNGRADE_MADE) {
        return;
    }
    zkl_entry_note_request(entry, ZKL_REQUEST_LIST, false);
    bool same = rc == ZOK && reply->stat->czxid == entry->tenure.czxid;
    bool unreadable = rc == ZNOAUTH; /* servers since 3.8.4 and 3.9.2 want READ for exists */
    bool broken = ZKL_BROKEN(ZKL_BREAK_LOST_WRITER) || ZKL_BROKEN(ZKL_BREAK_WRITER);
    if (same || unreadable || broken) {
        zkl_entry_nothing_conflicts(entry);
    } else if (rc == ZOK || rc == ZNONODE) {
        if (entry->writer != NULL) {
            if (rc == ZOK) {
                zkl_entry_replaced(entry->writer);
            } else {
                zkl_entry_deleted_externally(entry->writer);
            }
        }
        zkl_entry_drop_node(entry);
    } else if (rc == ZTHROTTLEDOP) {
        zkl_entry_back_off(entry);
    } else {
        zkl_entry_make_runnable(entry);
    }
}

/* --- what the watch reports ---------------------------------------------------------------------------------------- */

void zkl_entry_blocker_gone(zkl_entry *entry)
{
    bool asks = entry->state == ZKL_ENTRY_LOOKING && entry->kind->asks != NULL;
    if (entry->state == ZKL_ENTRY_CONFIRMING || zkl_entry_is_granted(entry) || asks) {
        if (entry->kind->directory_changed != NULL) {
            entry->kind->directory_changed(entry); /* no node is ahead: a directory is watched, or the kind `asks` */
        }
        return;
    }
    if (entry->state != ZKL_ENTRY_QUEUED) {
        return;
    }
    entry->tenure.ahead--;
    if (entry->tenure.ahead <= 0 || ZKL_BROKEN(ZKL_BREAK_AHEAD)) {
        zkl_entry_nothing_conflicts(entry);
    } else {
        zkl_entry_step(entry);
    }
}

void zkl_entry_passed(zkl_entry *entry)
{
    if (entry->state == ZKL_ENTRY_QUEUED) {
        entry->tenure.ahead = 1; /* the node that is gone was the only one */
        entry->locks->wire->stats.passes++;
    }
    zkl_entry_blocker_gone(entry);
}

/* The watch of an entry that asks is over: the entry asks again when it is stepped. */
static bool asks_again(zkl_entry *entry)
{
    bool asks = entry->state == ZKL_ENTRY_LOOKING && entry->kind->asks != NULL;
    if (asks) {
        zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    }
    return asks;
}

void zkl_entry_blocker_unreadable(zkl_entry *entry)
{
    if (entry->state == ZKL_ENTRY_LOOKING && entry->kind->asks != NULL) {
        zkl_entry_refuse(entry, ZNOAUTH, "watching a node of");
    } else {
        zkl_entry_look_later(entry); /* lists again now and then */
    }
}

void zkl_entry_look_later(zkl_entry *entry)
{
    if (asks_again(entry) || entry->state == ZKL_ENTRY_QUEUED) {
        zkl_entry_back_off(entry);
    }
}

void zkl_entry_look_again(zkl_entry *entry)
{
    if (zkl_entry_is_granted(entry)) {
        entry->kind->directory_changed(entry);
    } else if (asks_again(entry) || entry->state == ZKL_ENTRY_QUEUED ||
               (entry->state == ZKL_ENTRY_CONFIRMING && !entry->kind->needs_lease)) {
        zkl_entry_make_runnable(entry);
    }
}

void zkl_entry_watch_answered(zkl_entry *entry, int64_t czxid)
{
    bool guessed = zkl_entry_has_sent(entry, ZKL_REQUEST_PREDICT);
    if (zkl_entry_predicted(entry, czxid)) {
        zkl_entry_blocker_changed(entry);
    } else if (guessed && czxid > 0) {
        zkl_watch_leave(&entry->item); /* a node of a directory that was made anew: lists */
        zkl_entry_make_runnable(entry);
    }
}
