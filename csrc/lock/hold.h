/*
 * hold: an entry from the moment when no node is ahead.
 */
#ifndef ZKLOCK_HOLD_H
#define ZKLOCK_HOLD_H

#include "entry.h"

/* No node that conflicts with this entry's is before it, and none ever will be. */
void zkl_entry_nothing_conflicts(zkl_entry *entry);
/* If nothing conflicts ahead, lets the entry's kind grant, once there is the lease that the kind needs. */
void zkl_entry_confirm(zkl_entry *entry);
/* The entry holds from now on. It watches no node ahead any more. */
void zkl_entry_hold(zkl_entry *entry);
/* The release of the lock that is held by this node has been requested. */
void zkl_entry_revoked(zkl_entry *entry);

#endif
