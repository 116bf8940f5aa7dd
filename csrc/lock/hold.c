/*
 * hold: an entry from the moment when no node is ahead that conflicts with its own. It waits for a lease if its kind needs
 * one; then its kind grants: for a mutex or a read/write lock zkl_share_ready, for a semaphore permits.c.
 */
#include "hold.h"
#include "leave.h"

void zkl_entry_nothing_conflicts(zkl_entry *entry)
{
    entry->tenure.ahead = 0;
    if (entry->kind->node == ZKL_NODE_EXCLUSIVE) {
        bool listed = entry->tenure.place == ZKL_PLACE_BEHIND || entry->tenure.place == ZKL_PLACE_HEAD;
        entry->tenure.place = listed ? ZKL_PLACE_HEAD : ZKL_PLACE_HEAD_BY_NUMBER;
    }
    zkl_watch_leave(&entry->item);
    zkl_entry_move(entry, ZKL_ENTRY_CONFIRMING);
    zkl_entry_confirm(entry);
}

void zkl_entry_confirm(zkl_entry *entry)
{
    if (entry->state != ZKL_ENTRY_CONFIRMING) {
        return;
    }
    if (entry->kind->needs_lease && !zkl_wire_leased(entry->locks->wire)) {
        zkl_heartbeat_want_lease(&entry->locks->session->heartbeat);
    } else {
        entry->kind->ready(entry);
    }
}

void zkl_entry_hold(zkl_entry *entry)
{
    zkl_watch_leave(&entry->item);
    zkl_entry_reserve(entry, false);
    zkl_entry_move(entry, ZKL_ENTRY_GRANTED);
}

void zkl_entry_revoked(zkl_entry *entry)
{
    zkl_entry_end_handover(entry, ZKL_HANDOVER_REVOKED);
    zkl_acquisition *acquisition;
    TAILQ_FOREACH(acquisition, &entry->sharers, in_entry)
    {
        zkl_acquisition_revoked(acquisition);
    }
    if (entry->acquisition != NULL) {
        zkl_acquisition_revoked(entry->acquisition);
        zkl_entry_close(entry);
    } else {
        zkl_entry_leave(entry); /* LINGERING */
    }
}
