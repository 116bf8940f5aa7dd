/*
 * heartbeat: the requests that keep the session alive and its lease valid.
 */
#ifndef ZKLOCK_HEARTBEAT_H
#define ZKLOCK_HEARTBEAT_H

#include "lease.h"

/* Returns when the next heartbeat is due; ZKL_NEVER: none is, or one is in flight. */
int64_t zkl_heartbeat_at(const zkl_session *session);
/* Begins a round of heartbeats. */
void zkl_heartbeat_begin(zkl_session *session);
/* Sends the verifications of nodes that are due, and evaluates the heartbeats whose answers are complete. */
void zkl_heartbeat_verify_next(zkl_session *session);

#endif
