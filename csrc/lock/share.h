/*
 * share: acquisitions that share an entry, and entries that linger.
 */
#ifndef ZKLOCK_SHARE_H
#define ZKLOCK_SHARE_H

#include "entry.h"

/* Returns the entry of this client that a new acquisition may share; NULL: it needs an entry of its own. */
zkl_entry *zkl_share_find(const zkl_acquisition *acquisition);
/* Lets the acquisition share the entry: it is granted at once, or waits there. */
void zkl_share_join(zkl_entry *entry, zkl_acquisition *acquisition);
/* Entries that linger on the acquisition's path leave, since the acquisition cannot use them. */
void zkl_share_make_way(const zkl_acquisition *acquisition);

/* The members of zkl_kind for all kinds whose acquisitions share entries. */
#define ZKL_SHARED_KIND                                                                                                \
    .queues = true, .needs_lease = true, .shares = true, .released = zkl_share_released, .ready = zkl_share_ready,     \
    .directory_listed = zkl_share_listed, .directory_changed = zkl_share_changed,                                      \
    .directory_doubted = zkl_share_contested, .closed = zkl_share_move_on

/* The acquisition has ended. Its entry goes to the next acquisition, lingers, or leaves. */
void zkl_share_released(zkl_acquisition *acquisition);
/* The entry may hold now: grants the acquisitions in it that may hold at the same time. */
void zkl_share_ready(zkl_entry *entry);
/* Gives other entries to the acquisitions that wait for this one. */
void zkl_share_move_on(zkl_entry *entry);
/* The directory of an entry that watches it has changed. */
void zkl_share_changed(zkl_entry *entry);
/* The same, for a granted entry: another contender has come, or may have. */
void zkl_share_contested(zkl_entry *entry);
/* Handles the list that armed that watch. */
void zkl_share_listed(zkl_entry *entry, int rc, const zkl_reply *reply);

#endif
