/* xid: the numbers that the C client gives to requests, for all clients of the process. */
#ifndef ZKLOCK_CLIENT_XID_H
#define ZKLOCK_CLIENT_XID_H

#include "base/base.h"

/* The level of the C client's log, one for the process. Below this level every connection and every request makes a line. */
#define ZKL_ZOOKEEPER_LOG_LEVEL ZOO_LOG_LEVEL_WARN

/*
 * To be called before and after each call of the C client that makes a request, on one thread. Nothing between the two may wait.
 * Any thread.
 */
void zkl_xid_begin(void);
void zkl_xid_end(void);
/* Reads a line of the C client's log below that level, made on this thread. */
void zkl_xid_read(const char *text);
/* To be called in the child of a fork, on its only thread. */
void zkl_xid_forked(void);

#endif
