/*
 * predict: a predecessor that is predicted.
 */
#ifndef ZKLOCK_PREDICT_H
#define ZKLOCK_PREDICT_H

#include "entry.h"

/* A list shows `name` as the predecessor of the entry's node. */
void zkl_entry_note_predecessor(const zkl_entry *entry, const char *name);
/*
 * Returns whether the predecessor of a node created now can be predicted. Then the list that comes with the create is
 * left out.
 */
bool zkl_entry_can_predict(const zkl_entry *entry);
/*
 * Predicts the predecessor of the entry's node, and writes its name to `name`. The entry is to watch it. Returns false if
 * the queue must be listed.
 */
bool zkl_entry_predict(zkl_entry *entry, char name[ZKL_NODE_NAME_SIZE]);
/*
 * The watch that the entry waits for was armed, and its node has this czxid; 0: it is not there. Returns true if the node was predicted,
 * and was there before the entry's own.
 */
bool zkl_entry_predicted(zkl_entry *entry, int64_t czxid);

#endif
