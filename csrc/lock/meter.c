/*
 * meter: what is measured of the acquisitions of a group of locks.
 *
 * The figures are atomic only so that other threads can read them. There is one writer at a time, so a figure is changed by a
 * load and a store: on the usual processors that costs what an ordinary addition does.
 */
#include <stdatomic.h>

#include "meter.h"

const int64_t zkl_hold_bounds[ZKL_HOLD_BUCKETS] = {
    1 * ZKL_SECOND / 1000,  5 * ZKL_SECOND / 1000,   10 * ZKL_SECOND / 1000,  25 * ZKL_SECOND / 1000,
    50 * ZKL_SECOND / 1000, 100 * ZKL_SECOND / 1000, 250 * ZKL_SECOND / 1000, 500 * ZKL_SECOND / 1000,
    1 * ZKL_SECOND,         5 * ZKL_SECOND / 2,      5 * ZKL_SECOND,          10 * ZKL_SECOND,
    30 * ZKL_SECOND,        60 * ZKL_SECOND,         300 * ZKL_SECOND,        ZKL_NEVER,
};

typedef _Atomic int64_t figure;

struct zkl_meter {
    figure waiting, held, waited, held_for, lost, reached_max_hold, closed;
    figure waits[ZKL_WAIT_BUCKETS], holds[ZKL_HOLD_BUCKETS];
    _Atomic int32_t uses;
};

static int64_t read_meter(const figure *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

static void add(figure *to, int64_t number)
{
    atomic_store_explicit(to, read_meter(to) + number, memory_order_relaxed);
}

zkl_meter *zkl_meter_new(void)
{
    zkl_meter *meter = zkl_alloc(sizeof *meter);
    if (meter != NULL) {
        atomic_store_explicit(&meter->uses, 1, memory_order_relaxed);
    }
    return meter;
}

zkl_meter *zkl_meter_take(zkl_meter *meter)
{
    if (meter != NULL) {
        atomic_fetch_add_explicit(&meter->uses, 1, memory_order_relaxed);
    }
    return meter;
}

void zkl_meter_drop(zkl_meter *meter)
{
    if (meter != NULL && atomic_fetch_sub_explicit(&meter->uses, 1, memory_order_acq_rel) == 1) {
        zkl_free(meter);
    }
}

void zkl_meter_read(const zkl_meter *meter, zkl_meter_reading *reading)
{
    *reading = (zkl_meter_reading){
        .waiting = read_meter(&meter->waiting),
        .held = read_meter(&meter->held),
        .waited = read_meter(&meter->waited),
        .held_for = read_meter(&meter->held_for),
        .lost = read_meter(&meter->lost),
        .reached_max_hold = read_meter(&meter->reached_max_hold),
        .closed = read_meter(&meter->closed),
    };
    for (int32_t i = 0; i < ZKL_WAIT_BUCKETS; i++) {
        reading->waits[i] = read_meter(&meter->waits[i]);
    }
    for (int32_t i = 0; i < ZKL_HOLD_BUCKETS; i++) {
        reading->holds[i] = read_meter(&meter->holds[i]);
    }
}

/* --- the engine's side --------------------------------------------------------------------------------------------- */

void zkl_meter_asked(zkl_meter *meter)
{
    if (meter != NULL) {
        add(&meter->waiting, 1);
    }
}

void zkl_meter_refused(zkl_meter *meter)
{
    if (meter != NULL) {
        add(&meter->waiting, -1);
    }
}

void zkl_meter_granted(zkl_meter *meter, int64_t waited, int32_t bucket)
{
    if (meter != NULL) {
        add(&meter->waiting, -1);
        add(&meter->held, 1);
        add(&meter->waited, waited);
        add(&meter->waits[bucket], 1);
    }
}

void zkl_meter_ended(zkl_meter *meter, int64_t held_for)
{
    if (meter == NULL) {
        return;
    }
    int32_t bucket = 0;
    while (held_for > zkl_hold_bounds[bucket]) {
        bucket++;
    }
    add(&meter->held, -1);
    add(&meter->held_for, held_for);
    add(&meter->holds[bucket], 1);
}

void zkl_meter_lost(zkl_meter *meter, zkl_code code)
{
    if (meter != NULL) {
        add(code == ZKL_MAX_HOLD ? &meter->reached_max_hold : code == ZKL_CLOSED ? &meter->closed : &meter->lost, 1);
    }
}
