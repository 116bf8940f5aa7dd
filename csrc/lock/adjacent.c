/*
 * adjacent: an adjacent sequence number proves that no node is ahead, without a list.
 *
 * A directory numbers its nodes one by one. If a client has held by node number n, no node before n is left. Once the
 * client has deleted that node, no node up to n is left. If its next node gets n + 1, no node is before it: the reply
 * to the create alone proves it.
 *
 * The number could be a coincidence only if the directory was deleted and created again since, and n + 1 nodes were
 * created in it. Each of those creates takes a zxid. The czxids of our two nodes tell how many zxids were given out
 * between them. If there were fewer, under one leader, the number is no coincidence. One transaction could create
 * several nodes, but no lock recipe does that in its queue. Zxids of our own writes elsewhere do not count: if a write
 * is acknowledged between two replies of a session, it was executed between the two requests.
 *
 * If servers are wiped, or restored from a backup, they give out the same numbers and zxids again. Both may then look
 * as if nothing had happened in between. So a cleared number counts on the same connection only: a server that starts
 * over does not keep a connection. It also counts for one second only: data can be replaced while connections stay. The
 * second begins with the latest of our nodes that a list has shown: a number that proved its place by adjacency counts
 * no longer than the number that it followed. So a client that acquires again and again lists the queue once a second.
 */
#include "adjacent.h"

/* For so long after a release it is likely that no other client has come. A cleared number is proof for no longer. */
#define SOON ZKL_SECOND

void zkl_entry_note_cleared(const zkl_entry *entry, const zkl_reply *reply)
{
    zkl_queue *queue = entry->queue;
    zkl_place place = entry->tenure.place;
    bool at_head = place == ZKL_PLACE_HEAD_BY_NUMBER || place == ZKL_PLACE_HEAD;
    if (at_head && (entry->tenure.czxid > queue->cleared_czxid || reply->connection != queue->cleared_on)) {
        queue->cleared_czxid = entry->tenure.czxid;
        queue->cleared_writes = entry->tenure.writes;
        queue->cleared_sequence = entry->sequence;
        if (place == ZKL_PLACE_HEAD || ZKL_BROKEN(ZKL_BREAK_AGE)) {
            queue->cleared_at = reply->sent_at;
        }
        queue->cleared_on = reply->connection;
        zkl_queue_keep(queue);
    }
}

/* Whether the cleared number still counts at the reply that shows the node of `entry`. */
static bool number_is_known(const zkl_entry *entry)
{
    const zkl_queue *queue = entry->queue;
    bool same = queue->cleared_on == entry->connection || ZKL_BROKEN(ZKL_BREAK_OUTLIVED);
    bool recent = entry->locks->wire->now - queue->cleared_at <= SOON || ZKL_BROKEN(ZKL_BREAK_AGE);
    return queue->cleared_czxid != 0 && same && recent;
}

int32_t zkl_entry_most_ahead(const zkl_entry *entry, int64_t created, int64_t elsewhere)
{
    const zkl_queue *queue = entry->queue;
    int64_t between = (int64_t)entry->sequence - queue->cleared_sequence - 1;
    bool too_few = created > queue->cleared_czxid && created >> 32 == queue->cleared_czxid >> 32 &&
                   created - queue->cleared_czxid - elsewhere <= entry->sequence;
    bool stands = entry->downgrade != ZKL_DOWNGRADE_MADE && entry->kind->queues;
    bool known = stands && number_is_known(entry) && between >= 0 && (too_few || ZKL_BROKEN(ZKL_BREAK_ADJACENT));
    return known && between < INT32_MAX ? (int32_t)between : INT32_MAX;
}

bool zkl_entry_is_likely_adjacent(const zkl_entry *entry)
{
    const zkl_queue *queue = entry->queue;
    bool same = queue->cleared_on == entry->locks->wire->connection || ZKL_BROKEN(ZKL_BREAK_OUTLIVED);
    if (!queue->last_was_adjacent || !same || entry->locks->wire->now - queue->cleared_at > SOON) {
        return false;
    }
    const zkl_entry *other = TAILQ_FIRST(&queue->entries);
    while (other != NULL && (other == entry || other->state == ZKL_ENTRY_LEAVING)) {
        other = TAILQ_NEXT(other, in_queue);
    }
    return other == NULL;
}
