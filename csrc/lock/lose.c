/*
 * lose: an entry whose node is gone, or must not be used. If an acquisition waits for the entry, it starts over under a new
 * name. If acquisitions hold by it, they are lost.
 */
#include <stdio.h>

#include "leave.h"
#include "lose.h"

/* Starts over under a new name. Replies to earlier requests do not count any more. */
static void start_over(zkl_entry *entry, zkl_loss loss)
{
    zkl_locks *locks = entry->locks;
    zkl_watch_leave(&entry->item);
    zkl_watch_leave_own(&entry->item);
    entry->generation++;
    zkl_entry_set_serial(entry, zkl_entry_next_serial(locks, entry->acquisition, entry->kind));
    entry->tenure = (zkl_tenure){0};
    zkl_entry_set_downgrade(entry, entry->writer != NULL ? ZKL_DOWNGRADE_TO_BE_MADE : ZKL_DOWNGRADE_NO);
    zkl_free(entry->node);
    entry->node = NULL;
    zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    zkl_entry_node_lost(entry, loss);
}

bool zkl_entry_begin_anew(zkl_entry *entry)
{
    if (!entry->wanted) {
        zkl_entry_gone(entry);
        return false;
    }
    start_over(entry, ZKL_LOSS_NODE);
    return true;
}

void zkl_entry_drop_node(zkl_entry *entry)
{
    if (!entry->wanted) {
        zkl_entry_move(entry, ZKL_ENTRY_LEAVING);
        zkl_entry_step(entry);
    } else if (zkl_entry_adopt(entry->queue, zkl_entry_name(entry), entry->serial)) {
        if (zkl_entry_begin_anew(entry)) {
            zkl_entry_make_runnable(entry);
        }
    } else {
        zkl_free(entry->node);
        entry->node = NULL;
        zkl_entry_move(entry, ZKL_ENTRY_RECOVERING);
        zkl_entry_back_off(entry); /* memory is short: looks for the node again */
    }
}

/*
 * The node of a granted entry is gone. The acquisitions that hold by it are lost; those that wait for it get another
 * entry.
 */
static void vanish(zkl_entry *entry, const char *why)
{
    zkl_entry_close(entry);
    zkl_entry_move(entry, ZKL_ENTRY_LEAVING); /* there is nothing left to delete */
    zkl_entry_not_wanted(entry);
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&entry->sharers)) != NULL) {
        zkl_acquisition_lose(acquisition, ZKL_LOST, "'%s' is lost: %s", zkl_acquisition_path(acquisition), why);
    }
    if (entry->acquisition != NULL) {
        zkl_acquisition_lose(entry->acquisition, ZKL_LOST, "'%s' is lost: %s", zkl_acquisition_path(entry->acquisition),
                             why);
    }
    zkl_entry_gone(entry);
}

/* The entry's node was deleted externally. `how` completes the message "somebody ... its node". */
static void evict(zkl_entry *entry, const char *how)
{
    if (ZKL_BROKEN(ZKL_BREAK_EVICTED) && zkl_entry_is_granted(entry)) {
        return;
    }
    if (zkl_entry_is_granted(entry)) {
        char why[512];
        snprintf(why, sizeof why, "somebody %s its node '%.400s'", how, entry->node);
        vanish(entry, why);
    } else if (entry->wanted) {
        zkl_wire_log(entry->locks->wire, ZOO_LOG_LEVEL_WARN, "somebody %s '%s': queueing again", how, entry->node);
        start_over(entry, ZKL_LOSS_NODE);
        zkl_entry_step(entry);
    } else {
        zkl_entry_gone(entry);
    }
}

void zkl_entry_deleted_externally(zkl_entry *entry)
{
    evict(entry, "deleted");
}

void zkl_entry_replaced(zkl_entry *entry)
{
    evict(entry, "deleted, and made anew,");
}

void zkl_entry_session_over(zkl_entry *entry, const char *why)
{
    if (zkl_entry_is_granted(entry)) {
        if (ZKL_BROKEN(ZKL_BREAK_OWNER)) {
            return;
        }
        vanish(entry, why);
    } else if (entry->wanted && (entry->kind->queues || entry->kind->asks != NULL)) {
        start_over(entry, ZKL_LOSS_SESSION);
        zkl_entry_make_runnable(entry);
    } else {
        zkl_entry_gone(entry);
    }
}
