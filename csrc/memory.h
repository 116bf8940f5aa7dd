/*
 * memory: the only access to the heap for everything under csrc/ but the Lua binding, whose objects belong to Lua.
 *
 * It counts the bytes in use, so that client:stats() and the benchmarks can show the cost of a client and of an
 * acquisition. Tests can make the n-th allocation fail. Any thread.
 */
#ifndef ZKLOCK_MEMORY_H
#define ZKLOCK_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Returns `size` zeroed bytes, or NULL. */
void *zkl_alloc(size_t size);

/* Returns a copy of `length` bytes of `text` with a NUL behind, or NULL. */
char *zkl_copy(const char *text, size_t length);

/* Frees memory of zkl_alloc or zkl_copy. NULL is allowed. */
void zkl_free(void *memory);

/* The same, but overwrites the memory first, so that nothing of it stays behind in the heap: for credentials. */
void zkl_free_secret(void *memory);

/* Returns the bytes in use now, as requested, over all threads. */
int64_t zkl_memory_in_use(void);

/*
 * Tests only: the next `successes` allocations of the process succeed and all later ones fail, until the next call. -1
 * (the default): none fails.
 */
void zkl_memory_fail_after(int64_t successes);

/* Tests only: the same, but only `failures` allocations fail, and all after those succeed. */
void zkl_memory_fail_some(int64_t successes, int64_t failures);

/* Tests only: from now on no allocation fails; zkl_memory_attempts goes on counting. */
void zkl_memory_recover(void);

/* Tests only: returns how many allocations were requested since zkl_memory_fail_after or zkl_memory_fail_some. */
int64_t zkl_memory_attempts(void);

#endif
