/*
 * zk: a session with ZooKeeper. It uses the C client, but no Lua, no threads and no clock, and knows nothing of locks.
 *
 *   session.h         the ZooKeeper handle, its session events, and who is told of them
 *   watch.h           one watcher object per watched node
 *   heartbeat.h       the requests that keep the session alive and its lease valid
 *   item.h            a znode of the layer above, as these two see it
 *   request.h         requests in flight: one context each, completed exactly once
 *   wire.h            what these share: the C client's handle, the connection, the clock
 *   lease.h           how long the session certainly exists
 *   configuration.h   which servers the ensemble has, as it says itself
 *
 * The layers above include this header only. What they are told comes through tables of functions, each with its owner:
 * zkl_session_host, zkl_session_listener, zkl_item_ops, zkl_other_watches.
 *
 * All instants and durations are nanoseconds, unless a name ends in _ms. All functions are for the driver's thread.
 */
#ifndef ZKLOCK_ZK_H
#define ZKLOCK_ZK_H

#include "configuration.h"
#include "heartbeat.h"
#include "item.h"
#include "lease.h"
#include "request.h"
#include "session.h"
#include "watch.h"
#include "wire.h"

#endif
