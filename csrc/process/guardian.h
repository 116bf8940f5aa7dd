/*
 * guardian: a process that ends a process group in time, whatever happens to the process that has started it.
 *
 * Three processes: the *wrapper* has the lock and publishes deadlines; the *command* is a group of processes that the wrapper
 * starts; the *guardian* is forked by the wrapper while that has one thread. They share one page of memory, and wrapper and guardian a
 * pair of sockets.
 *
 * States of the guardian, and what ends each:
 *
 *   WATCHING   wrapper: "finish"                             -> ENDS
 *              the time `term_at` has come                   -> WATCHING, TERM and CONT sent to the group, once
 *              the time `kill_at` has come                   -> KILLING
 *              the wrapper's socket is closed: it has ended  -> KILLING
 *   KILLING    sends KILL, again while the group has members
 *              wrapper: "finish"                             -> ENDS
 *              the wrapper has ended, there is no member     -> ENDS
 *              the wrapper has ended two seconds ago         -> ENDS
 *
 * Times are on CLOCK_BOOTTIME, the clock of leases, which does not stop in suspend. A time that the wrapper has moved on is read anew
 * when the timer for the earlier one goes off: no message is needed, and a wrapper that is stopped or starved moves nothing. The
 * wrapper sends a message when a time becomes an earlier one, as the first one does.
 *
 * The group's number is in the shared page before the command can run: the new process writes it before exec. It also has the
 * wrapper's socket until exec. So when the guardian reads the end of that socket, the number is there.
 *
 * The number stays valid as long as the wrapper lives: the group has an anchor (spawn.c), which is reaped after the guardian's end.
 */
#ifndef ZKLOCK_PROCESS_GUARDIAN_H
#define ZKLOCK_PROCESS_GUARDIAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* No such time. */
#define ZKL_GUARD_NEVER INT64_MAX

/* The strongest signal that the guardian has sent to the group. */
typedef enum {
    ZKL_GUARD_SENT_NOTHING,
    ZKL_GUARD_SENT_TERM,
    ZKL_GUARD_SENT_KILL
} zkl_guard_sent;

/* The page of memory that the three processes share. */
typedef struct {
    _Atomic int64_t term_at; /* nanoseconds on zkl_guard_clock's clock, written by the wrapper */
    _Atomic int64_t kill_at;
    _Atomic pid_t group; /* written by the command before exec, and by the wrapper; 0: there is none yet */
    _Atomic int sent;    /* zkl_guard_sent, written by the guardian */
    int term_signal;     /* what is sent at term_at; written before the fork */
} zkl_guard_page;

/* Otherwise the compiler's library would lock them, with a lock in each process. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "processes cannot share these types");

/* The wrapper's side. */
typedef struct {
    zkl_guard_page *page;
    int socket; /* readable when the guardian has ended */
    pid_t pid;
} zkl_guard;

/* Forks the guardian. Returns false, with errno, if the system refuses. `term_signal` is sent at term_at. */
bool zkl_guard_start(zkl_guard *guard, int term_signal);
/* Sets both times, 0 or more; ZKL_GUARD_NEVER: the guardian does not act. */
void zkl_guard_set(const zkl_guard *guard, int64_t term_at, int64_t kill_at);
/* The group is gone: ends the guardian, waits until it has ended, and frees everything. Idempotent. */
void zkl_guard_finish(zkl_guard *guard);
/* Now, on CLOCK_BOOTTIME, in nanoseconds. */
int64_t zkl_guard_clock(void);

#endif
