/*
 * kind_semaphore: a semaphore. An acquisition has a queue entry, of the kind zkl_semaphore_kind, and a lease entry for each
 * of its permits, of the kind zkl_permit_kind. permits.c says how they work together.
 */
#include <stdio.h>
#include <string.h>

#include "entry.h"
#include "permits.h"
#include "permits_limit.h"

/* Returns the queue, "<path>/locks", and behind it the directory of the permits, "<path>/leases". */
static char *directories(const char *path)
{
    size_t size = 2 * strlen(path) + sizeof "/locks" + sizeof "/leases";
    char *both = zkl_alloc(size);
    if (both != NULL) {
        snprintf(both, size, "%s/locks%c%s/leases", path, '\0', path);
    }
    return both;
}

/* --- the queue entry ----------------------------------------------------------------------------------------------- */

static void blocked(zkl_entry *queue_entry)
{
    zkl_permits_retreat(queue_entry->acquisition, true);
    zkl_permits_search(queue_entry);
}

static void queue_node_lost(zkl_entry *queue_entry, zkl_loss loss)
{
    if (loss == ZKL_LOSS_SESSION) {
        zkl_permits_restart(queue_entry->acquisition);
    } else {
        zkl_permits_retreat(queue_entry->acquisition, false);
    }
}

static void leases_listed(zkl_entry *queue_entry, int rc, const zkl_reply *reply)
{
    zkl_reply seen = *reply;
    seen.tag = ZKL_LEASES_LOOK;
    zkl_permits_listed(queue_entry->acquisition, rc, &seen);
}

static void leases_changed(zkl_entry *queue_entry)
{
    if (queue_entry->state == ZKL_ENTRY_CONFIRMING) {
        zkl_permits_event(queue_entry->acquisition);
    }
}

const zkl_kind zkl_semaphore_kind = {
    .node = ZKL_NODE_EXCLUSIVE,
    .queues = true,
    .directories = directories,
    .begin = zkl_permits_init,
    .released = zkl_permits_released,
    .end = zkl_permits_end,
    .nodes = zkl_permits_nodes,
    .look = zkl_permits_look,
    .joining = zkl_permits_joined,
    .queued = zkl_permits_search_on,
    .blocked = blocked,
    .ready = zkl_permits_step, /* it needs no lease: its lease entries do */
    .node_lost = queue_node_lost,
    .directory_listed = leases_listed,
    .directory_changed = leases_changed,
    .directory_doubted = zkl_permits_look_again,
};

/* --- a lease entry ------------------------------------------------------------------------------------------------- */

static void lease_node_lost(zkl_entry *entry, zkl_loss loss)
{
    if (loss == ZKL_LOSS_NODE) {
        zkl_permits_changed(entry->acquisition);
    }
}

const zkl_kind zkl_permit_kind = {
    .node = ZKL_NODE_LEASE,
    .needs_lease = true,
    .directory_data = zkl_permits_data,
    .queued = zkl_permits_step, /* it waits for a list that has room for all permits of its acquisition */
    .ready = zkl_permits_confirm,
    .node_lost = lease_node_lost,
};
