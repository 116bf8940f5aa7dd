/* group: process groups, and the terminal that one of them has. */
#ifndef ZKLOCK_PROCESS_GROUP_H
#define ZKLOCK_PROCESS_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether a group has a member. Members that have ended count until they are reaped. */
bool zkl_group_exists(pid_t group);
/* Sends a signal to all members. Returns false, with errno, if no member could be reached. */
bool zkl_group_signal(pid_t group, int number);

/* Returns a descriptor of the process's terminal; -1 if it has none. */
int zkl_terminal_open(void);
/* Returns the foreground group of a terminal; -1 if there is none. */
pid_t zkl_terminal_group(int terminal);
/* Makes a group the foreground group. Also works in a background process. */
bool zkl_terminal_give(int terminal, pid_t group);

#endif
