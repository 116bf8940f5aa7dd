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
/* Grants those acquisitions of a granted entry that may hold now. */
void zkl_share_advance(zkl_entry *entry);
/* Tells the acquisitions that wait in the entry that they wait for another node than before. */
void zkl_share_blocker_changed(zkl_entry *entry);
/* Takes an acquisition that shares an entry out of it. */
void zkl_share_part(zkl_acquisition *acquisition);
/* The acquisition that the entry serves first gives it up. Returns true if the entry goes on without it. */
bool zkl_share_pass(zkl_acquisition *acquisition);
/* Gives other entries to the acquisitions that wait for this one. */
void zkl_share_move_on(zkl_entry *entry);
/* The directory of an entry that lingers, or that watches it, has changed: another contender has come, or may have. */
void zkl_share_contested(zkl_entry *entry);
/* Handles the list that armed that watch. */
void zkl_share_listed(zkl_entry *entry, int rc, const struct String_vector *names);
/* Ends the entry's lingering, if it lingers. */
void zkl_share_stop_lingering(zkl_entry *entry);
/* Entries that linger on the acquisition's path leave, since the acquisition cannot use them. */
void zkl_share_make_way(const zkl_acquisition *acquisition);
/* Frees the data of an entry that is being unlinked. */
void zkl_share_forget(zkl_entry *entry);

#endif
