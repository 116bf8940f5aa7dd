/*
 * meter: what is measured of the acquisitions of a group of locks. Part of lock.h.
 *
 * Each lock spec may refer to a meter. All specs of one meter belong to one client: its engine, which runs on one thread at a
 * time, is the only writer. Any thread may read.
 */
#ifndef ZKLOCK_METER_H
#define ZKLOCK_METER_H

#include "zk/zk.h"

/* The number of buckets of the holds; zkl_stats has that of the waits. */
#define ZKL_HOLD_BUCKETS 16

/* The upper bounds of the buckets of zkl_meter_reading.holds in nanoseconds, ascending. The last one is ZKL_NEVER. */
extern const int64_t zkl_hold_bounds[ZKL_HOLD_BUCKETS];

/* A meter. It has a reference count. */
typedef struct zkl_meter zkl_meter;

/* What a meter shows. */
typedef struct {
    int64_t waiting; /* acquisitions that wait now */
    int64_t held;    /* acquisitions that hold now */
    int64_t waited;  /* nanoseconds from request to grant, summed over all grants */
    /* waits[i] counts the grants whose wait was at most zkl_wait_bounds[i], and above zkl_wait_bounds[i - 1]. */
    int64_t waits[ZKL_WAIT_BUCKETS];
    int64_t held_for; /* nanoseconds from grant to release or loss, summed over all holds that have ended */
    int64_t holds[ZKL_HOLD_BUCKETS]; /* holds that have ended; as `waits`, by zkl_hold_bounds */
    int64_t lost;                    /* holds that ended as lost with this code, or were found lost by their release */
    int64_t reached_max_hold;
    int64_t closed;
} zkl_meter_reading;

/* Makes a meter; the caller owns one reference. Returns NULL when memory is short. Any thread. */
zkl_meter *zkl_meter_new(void);
/* Adds a reference and returns the meter; drops a reference. NULL is allowed. Any thread. */
zkl_meter *zkl_meter_take(zkl_meter *meter);
void zkl_meter_drop(zkl_meter *meter);
/* Reads a meter. Any thread. If the engine runs meanwhile, an acquisition may be missing in a part of the figures. */
void zkl_meter_read(const zkl_meter *meter, zkl_meter_reading *reading);

/* What happens to an acquisition. `meter` may be NULL. For acquisition.c and acquire.c. */

/* It is requested: it waits. */
void zkl_meter_asked(zkl_meter *meter);
/* It waits no longer, and was not granted. */
void zkl_meter_refused(zkl_meter *meter);
/* It waits no longer: it was granted after `waited` nanoseconds, which are in this bucket of zkl_wait_bounds. */
void zkl_meter_granted(zkl_meter *meter, int64_t waited, int32_t bucket);
/* Its hold has ended after so many nanoseconds, by a release or a loss. */
void zkl_meter_ended(zkl_meter *meter, int64_t held_for);
/* Its hold was lost: ZKL_LOST, ZKL_MAX_HOLD or ZKL_CLOSED. Besides zkl_meter_ended. */
void zkl_meter_lost(zkl_meter *meter, zkl_code code);

#endif
