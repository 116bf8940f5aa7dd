/* group: process groups, and the terminal that one of them has. */
#ifndef ZKLOCK_PROCESS_GROUP_H
#define ZKLOCK_PROCESS_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a group has members. */
typedef enum {
    ZKL_GROUP_GONE,   /* There is none, or all have ended and only wait to be reaped. */
    ZKL_GROUP_ALIVE,  /* At least one has not ended. */
    ZKL_GROUP_UNKNOWN /* There is no /proc to read. */
} zkl_group_state;

/*
 * Looks for members of a group in /proc. (`kill` with signal 0 would count members that have ended, and the leader remains as one
 * until it is reaped.)
 */
zkl_group_state zkl_group_look(pid_t group);
/* Sends a signal to all members. Returns false, with errno, if no member could be reached. */
bool zkl_group_signal(pid_t group, int number);

/* Returns a descriptor of the process's terminal; -1 if it has none. */
int zkl_terminal_open(void);
/* Returns the foreground group of a terminal; -1 if there is none. */
pid_t zkl_terminal_group(int terminal);
/* Makes a group the foreground group. Also works in a background process. */
bool zkl_terminal_give(int terminal, pid_t group);

#endif
