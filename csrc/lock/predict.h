/*
 * predict: a predecessor that is predicted.
 */
#ifndef ZKLOCK_PREDICT_H
#define ZKLOCK_PREDICT_H

#include "entry.h"

/* A list shows `name` as the predecessor of the entry's node. */
void zkl_entry_note_predecessor(const zkl_entry *entry, const char *name);
/* Forgets the predecessors of this client's nodes. */
void zkl_queue_forget_predecessor(zkl_queue *queue);
/*
 * Returns whether the predecessor of a node created now can be predicted. Then the list that comes with the create is
 * left out.
 */
bool zkl_entry_can_predict(const zkl_entry *entry);
/* Watches a node of the queue, ahead of the entry. Deletes it if it is a stray. */
void zkl_entry_watch_node(zkl_entry *entry, const char *name);
/* Watches the predicted predecessor; its end reaches the entry as after a list. Returns false if the queue must be listed. */
bool zkl_entry_watch_predicted(zkl_entry *entry);
/* The watch that the entry waits for was armed, or its node is not there. */
void zkl_entry_prediction_answered(zkl_entry *entry, bool there);

#endif
