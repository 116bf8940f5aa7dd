/*
 * os: what the clients need of the system. Knows no ZooKeeper.
 *
 *   clock.h    the clock of leases, timeouts for poll
 *   pipe.h     pipes that wake a thread or make a descriptor readable
 *   alarm.h    a timer that wakes a thread out of its poll
 *   thread.h   starts threads
 *
 * All instants and durations are nanoseconds.
 */
#ifndef ZKLOCK_OS_H
#define ZKLOCK_OS_H

#include "alarm.h"
#include "clock.h"
#include "pipe.h"
#include "thread.h"

#endif
