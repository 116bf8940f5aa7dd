/*
 * machine: the threads, the clock and the poll of a program whose world is simulated.
 *
 * The program is linked with --wrap for the functions in machine.c. Its threads are then fibers, one of which runs at a
 * time. Fibers change in poll and in pthread_join only. Either a fiber that is ready runs next, in an order that the
 * world's random numbers decide, or the world takes a step first. When no fiber is ready, time passes. Descriptors
 * below FIRST_SIMULATED are the system's own, for example pipes.
 */
#ifndef ZKLOCK_MACHINE_H
#define ZKLOCK_MACHINE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim_zookeeper.h"

/* The clients of a run. Each client's thread is the fiber of the same number, which is passed to sim_set_caller. */
#ifndef MOST_FIBERS
#define MOST_FIBERS 8
#endif

/* The program's poll. (Fortified headers may have replaced the name `poll`.) */
int machine_poll(struct pollfd *fds, nfds_t count, int timeout);

/* Reads the program's clock. It is ahead of sim_now by the time that all readings since the last sleep have taken. */
int64_t machine_now(void);

/* Reports an error after which the program cannot continue. */
_Noreturn void machine_fail(const char *what);

/* Called when the world has begun. There are no fibers yet. */
void machine_begin(void);
/*
 * Returns whether all fibers have ended. If the object of a fiber's client has not been collected yet, the stack is
 * freed when the fiber is joined.
 */
bool machine_is_idle(void);
/* Pauses the thread of client `caller` until that instant. */
void machine_pause(int caller, int64_t until);
/* Pauses the whole program until that instant. */
void machine_freeze(int64_t until);
/* Returns how many more clients can be opened. */
int machine_room(void);

#endif
