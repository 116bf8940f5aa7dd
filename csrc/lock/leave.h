/*
 * leave: an entry that is not wanted any more.
 */
#ifndef ZKLOCK_LEAVE_H
#define ZKLOCK_LEAVE_H

#include "entry.h"

/* The entry is not wanted any more: its node is deleted in the background, as long as the session exists. */
void zkl_entry_leave(zkl_entry *entry);
/* All entries of the acquisition leave. The last one may free the acquisition. */
void zkl_entries_leave(zkl_acquisition *acquisition);
/* Makes an entry for a stray. The entry deletes the stray. Returns false when memory is short. */
bool zkl_entry_adopt(zkl_queue *queue, const char *name, uint64_t serial);
/* What an entry in LEAVING sends. */
void zkl_entry_step_leaving(zkl_entry *entry);

/* Refuses all acquisitions that wait for the entry, with a code and a message made like printf. The entry then leaves. */
void zkl_entry_refuse_all(zkl_entry *entry, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with ZooKeeper's answer `rc` to `what`. */
void zkl_entry_refuse(zkl_entry *entry, int rc, const char *what);

#endif
