/*
 * memory: the one way to the heap for everything under csrc/ but the Lua binding, whose objects belong to Lua.
 *
 * Counts what is in use, so that client:stats() and the benchmarks can say what a client and a claim cost, and lets tests
 * make the n-th allocation fail. Any thread.
 */
#ifndef ZKLOCK_MEMORY_H
#define ZKLOCK_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* `size` zeroed bytes, or NULL. */
void *zkl_alloc(size_t size);

/* A copy of `length` bytes of `text` with a NUL behind, or NULL. */
char *zkl_copy(const char *text, size_t length);

/* Gives back what zkl_alloc or zkl_copy returned; NULL is allowed. */
void zkl_free(void *memory);

/* The same, but nothing of what stood there stays behind in the heap: for credentials. */
void zkl_free_secret(void *memory);

/* Bytes in use now, as asked for, over all threads. */
int64_t zkl_memory_in_use(void);

/*
 * Tests only: lets the next `successes` allocations of the process succeed and all later ones fail, until called again.
 * -1 (the default): none fails.
 */
void zkl_memory_fail_after(int64_t successes);

/* Tests only: the same, but only `failures` of them fail, and after those all succeed. */
void zkl_memory_fail_some(int64_t successes, int64_t failures);

/* Tests only: from now on none fails any more; the count below goes on. */
void zkl_memory_recover(void);

/* Tests only: how many allocations were asked for since some were to fail. */
int64_t zkl_memory_attempts(void);

#endif
