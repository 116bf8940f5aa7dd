/* life: the life of a client. */
#include "life.h"

#include <assert.h>
#include <time.h>

#include "registry.h"

void zkl_life_begin(zkl_life *life)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&life->gone, &attributes);
    pthread_condattr_destroy(&attributes);
    life->forks = zkl_registry_forks();
    atomic_store(&life->references, 1);
    atomic_store(&life->state, ZKL_LIFE_OPEN);
}

void zkl_life_free(zkl_life *life)
{
    pthread_cond_destroy(&life->gone);
}

void zkl_life_enter(zkl_life *life, zkl_client_life next)
{
    assert((int)next == (int)atomic_load_explicit(&life->state, memory_order_relaxed) + 1);
    atomic_store_explicit(&life->state, next, memory_order_relaxed);
}
