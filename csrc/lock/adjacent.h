/*
 * adjacent: an adjacent sequence number, which proves that no node is ahead.
 */
#ifndef ZKLOCK_ADJACENT_H
#define ZKLOCK_ADJACENT_H

#include "entry.h"

/* The entry's node was deleted by a request with this reply. If no node was ahead of it, no node is ahead of the next number. */
void zkl_entry_note_cleared(const zkl_entry *entry, const zkl_reply *reply);
/*
 * Returns how many nodes can be ahead of the entry's at most. 0: its number is adjacent to one by which we held.
 * INT32_MAX: unknown. `created` is its czxid. Our own writes elsewhere took `elsewhere` of the zxids between the two
 * nodes.
 */
int32_t zkl_entry_most_ahead(const zkl_entry *entry, int64_t created, int64_t elsewhere);
/*
 * Returns whether a node created now is likely to get an adjacent number. Then the list that comes with the create can
 * be left out.
 */
bool zkl_entry_is_likely_adjacent(const zkl_entry *entry);

#endif
