/* spawn: starts a command in a process group of its own, and looks at its end. */
#ifndef ZKLOCK_PROCESS_SPAWN_H
#define ZKLOCK_PROCESS_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "guardian.h"

typedef struct {
    char *const *arguments;   /* ends with NULL; the first is looked for in $PATH unless it has a slash */
    char *const *environment; /* ends with NULL */
    const zkl_guard *guard;   /* NULL: none */
    int terminal;             /* the group becomes the foreground group of this terminal; -1: it does not */
    int pass_from;            /* the command gets this descriptor as `pass_to`; -1: none */
    int pass_to;
} zkl_spawn;

/*
 * Starts a command and returns its process id, which is also the id of its group. Returns -1 if it could not be executed; `error` is
 * then the errno: ENOENT means that there is no such command. Waits until exec is over.
 *
 * The command begins with the signal mask that this process had before zkl_signals_open, and with default actions. It is killed when
 * the thread that calls this function ends, if there is a guard.
 */
pid_t zkl_spawn_start(const zkl_spawn *spawn, int *error);

typedef enum {
    ZKL_CHILD_RUNS,
    ZKL_CHILD_STOPPED,
    ZKL_CHILD_EXITED,
    ZKL_CHILD_KILLED
} zkl_child_state;

/*
 * Returns what has become of a child, without waiting; `detail` is its exit code, or the signal that has stopped or killed it. A stop
 * is reported once. An end is reported until the child is reaped: so long no other process gets its id.
 */
zkl_child_state zkl_child_look(pid_t child, int *detail);
/* Reaps a child that has ended, and the anchor of its group. */
void zkl_child_reap(pid_t child);

/* Whether the latest group that zkl_spawn_start has made has members. Once it is GONE, send it no signals. */
typedef enum {
    ZKL_GROUP_GONE,
    ZKL_GROUP_ALIVE
} zkl_group_state;

/*
 * Asks the kernel. /proc is not read: it may be missing or foreign, or hide processes. Orphans of the group become children of this
 * process. The function reaps those that have ended. zkl_child_look still reports the end of the first one.
 */
zkl_group_state zkl_group_look(pid_t group);
/* Reaps all other children that have ended: orphans that have left the group, and what was there before exec. */
void zkl_children_reap(pid_t child);

#endif
