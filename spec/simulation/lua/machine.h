/*
 * machine: the threads, the clock and the poll of a program whose world is simulated.
 *
 * The program is linked with --wrap for what is in machine.c. Its threads are then fibers, one of which runs at a time; they change
 * in poll and in pthread_join only. Whoever is ready runs, in an order that the world's random numbers decide, or the world
 * goes on first. When nobody is, time passes. Descriptors below FIRST_SIMULATED are the system's own, pipes for example.
 */
#ifndef ZKLOCK_MACHINE_H
#define ZKLOCK_MACHINE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim_zookeeper.h"

/* The clients of a run; each one's thread is the fiber of the same number, which sim_set_caller is told of. */
#ifndef MOST_FIBERS
#define MOST_FIBERS SIM_MAX_CALLERS
#endif

/* The program's poll. (Fortified headers may have replaced the name.) */
int machine_poll(struct pollfd *fds, nfds_t count, int timeout);

/* A look at the program's clock, which is ahead of sim_now by what all looks since the last sleep have taken. */
int64_t machine_now(void);

/* Called when something is wrong that nobody can go on from. */
_Noreturn void machine_fail(const char *what);

/* The world has begun: nobody has a fiber yet. */
void machine_begin(void);
/* All fibers have come to their ends. The stack of one whose client's object has not been collected yet is freed when that is joined. */
bool machine_is_idle(void);
/* The thread of client `caller` does nothing until that instant. */
void machine_pause(int caller, int64_t until);
/* The whole program does nothing until that instant. */
void machine_freeze(int64_t until);
/* So many clients can be opened yet. */
int machine_room(void);

#endif
