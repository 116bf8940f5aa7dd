/*
 * lose: an entry whose node is gone, or must not be used.
 */
#ifndef ZKLOCK_LOSE_H
#define ZKLOCK_LOSE_H

#include "entry.h"

/*
 * The entry has no node, or had none: it starts over under a new name. Returns false if no acquisition wants the entry any
 * more; the entry is then gone.
 */
bool zkl_entry_begin_anew(zkl_entry *entry);
/*
 * A node with the entry's uuid exists in this session, but the entry must not go on with it. Deletes the node. If the
 * entry is still wanted, it gets another node.
 */
void zkl_entry_drop_node(zkl_entry *entry);
/* The entry's own node was deleted externally. */
void zkl_entry_deleted_externally(zkl_entry *entry);
/* Another node has the name of the entry's own node, which must therefore be gone. */
void zkl_entry_replaced(zkl_entry *entry);
/* The session is over, and the node with it. */
void zkl_entry_session_over(zkl_entry *entry, const char *why);

#endif
