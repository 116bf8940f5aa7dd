#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

/* The size stands before each block. The union keeps the memory behind it aligned for any type. */
typedef union {
    size_t size;
    max_align_t align;
} header;

/* The largest block for the cache of glibc's malloc. */
#define SMALL 1024

static _Atomic int64_t in_use;

/* Set by tests. Attempts are counted from 0 since then. An attempt fails if fail_from <= its number < fail_to. */
static _Atomic bool failing;
static _Atomic int64_t attempts, fail_from, fail_to;

static bool may_succeed(void)
{
    if (!atomic_load_explicit(&failing, memory_order_acquire)) {
        return true;
    }
    int64_t attempt = atomic_fetch_add(&attempts, 1);
    return attempt < atomic_load(&fail_from) || attempt >= atomic_load(&fail_to);
}

/*
 * Returns a block with `size` zeros behind its header, or NULL. glibc's calloc bypasses the thread's own cache, from
 * which malloc takes recently freed memory without a lock. The header is not cleared: compilers turn a malloc and a
 * memset of the whole block into one calloc.
 */
static header *zeroed(size_t size)
{
    if (size > SMALL) {
        return calloc(1, sizeof(header) + size);
    }
    header *block = malloc(sizeof(header) + size);
    if (block != NULL) {
        memset(block + 1, 0, size);
    }
    return block;
}

void *zkl_alloc(size_t size)
{
    bool possible = size <= SIZE_MAX - sizeof(header) && may_succeed();
    header *block = possible ? zeroed(size) : NULL;
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

void zkl_free_secret(void *memory)
{
    if (memory != NULL) {
        explicit_bzero(memory, ((header *)memory - 1)->size);
        zkl_free(memory);
    }
}

int64_t zkl_memory_in_use(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

void zkl_memory_fail_some(int64_t successes, int64_t failures)
{
    atomic_store(&failing, false);
    atomic_store(&attempts, 0);
    atomic_store(&fail_from, successes);
    atomic_store(&fail_to, successes >= 0 && failures < INT64_MAX - successes ? successes + failures : INT64_MAX);
    atomic_store(&failing, successes >= 0);
}

void zkl_memory_fail_after(int64_t successes)
{
    zkl_memory_fail_some(successes, INT64_MAX);
}

void zkl_memory_recover(void)
{
    atomic_store(&fail_to, 0);
}

int64_t zkl_memory_attempts(void)
{
    return atomic_load(&attempts);
}
