#include "memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The size stands before each block; the union keeps what follows aligned for any type. */
typedef union {
    size_t size;
    max_align_t align;
} header;

static _Atomic int64_t in_use;
static _Atomic int64_t successes_left = -1;

static bool may_succeed(void)
{
    if (atomic_load_explicit(&successes_left, memory_order_relaxed) < 0) {
        return true;
    }
    return atomic_fetch_sub(&successes_left, 1) > 0 || (atomic_store(&successes_left, 0), false);
}

void *zkl_alloc(size_t size)
{
    header *block = may_succeed() ? calloc(1, sizeof(header) + size) : NULL;
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    atomic_fetch_add_explicit(&in_use, (int64_t)size, memory_order_relaxed);
    return block + 1;
}

char *zkl_copy(const char *text, size_t length)
{
    char *copy = zkl_alloc(length + 1);
    if (copy != NULL && length > 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

void zkl_free(void *memory)
{
    if (memory == NULL) {
        return;
    }
    header *block = (header *)memory - 1;
    atomic_fetch_sub_explicit(&in_use, (int64_t)block->size, memory_order_relaxed);
    free(block);
}

int64_t zkl_memory_in_use(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

void zkl_memory_fail_after(int64_t successes)
{
    atomic_store(&successes_left, successes);
}
