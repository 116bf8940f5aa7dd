/*
 * join: an entry gets its node, or finds it again.
 */
#ifndef ZKLOCK_JOIN_H
#define ZKLOCK_JOIN_H

#include "entry.h"

/* What an entry in PARKED sends. */
void zkl_entry_step_parked(zkl_entry *entry);
/* What an entry in RECOVERING sends. */
void zkl_entry_step_recovering(zkl_entry *entry);
/* The list of a try shows no contender ahead: the entry joins. */
void zkl_entry_join(zkl_entry *entry);
/* The server had no time for the list of a try: the entry looks again in a while. */
void zkl_entry_try_again(zkl_entry *entry);
/* The entry, in PARKED, has its directory made, with `data`. It is refused if no client could create nodes there. */
void zkl_entry_make_directory(zkl_entry *entry, const char *data);
/* The queue's directory was made, or not (`rc` says why): entries that wait for it go on, or are refused. */
void zkl_entries_directory_ready(zkl_queue *queue, zkl_directory_outcome outcome, int rc);

#endif
