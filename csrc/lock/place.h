/*
 * place: the place of an entry in its queue.
 */
#ifndef ZKLOCK_PLACE_H
#define ZKLOCK_PLACE_H

#include "entry.h"

/* Lists the queue for an entry whose create was just sent. Returns false if that could not be sent. */
bool zkl_entry_list_joined(zkl_entry *entry);
/* Looks whether the node of the writer whose place the reader takes is still there. Returns false if that could not be sent. */
bool zkl_entry_look_at_writer(zkl_entry *reader);
/* What an entry in QUEUED sends. */
void zkl_entry_step_queued(zkl_entry *entry);
/*
 * A list of the queue was made while the entry was in CONFIRMING. If it shows a conflicting node ahead, the entry goes back
 * to QUEUED, and waits for that node.
 */
void zkl_entry_check_place(zkl_entry *entry, const struct String_vector *names);
/* Returns the kind of node by which other nodes block the entry. Not that of its kind only if ZKL_BREAK_READERS is set. */
zkl_node_kind zkl_entry_kind_in_queue(const zkl_entry *entry);
/* Refuses the entry's acquisition, a try: the node `name` is ahead. */
void zkl_entry_refuse_try(zkl_entry *entry, const char *name);
/* Refuses the entry's acquisitions if its sequence number is too near to the end of the numbers. Returns whether it is. */
bool zkl_entry_refuse_exhausted(zkl_entry *entry);
/* The watched node is gone for good, or the watched directory has changed. */
void zkl_entry_blocker_gone(zkl_entry *entry);
/* The watched node is gone for good, and its client has passed the lock on: no node was before it. */
void zkl_entry_passed(zkl_entry *entry);
/* The watch could not be armed, or must be armed again: the entry looks again. */
void zkl_entry_look_again(zkl_entry *entry);
/* The same, but not at once: no watch tells the entry when. */
void zkl_entry_look_later(zkl_entry *entry);
/* The node that the entry watches may not be read. */
void zkl_entry_blocker_unreadable(zkl_entry *entry);
/* The watch that the entry waits for was armed, and its node has this czxid; 0: it is not there. */
void zkl_entry_watch_answered(zkl_entry *entry, int64_t czxid);

#endif
