/* signals: names of signals, and signals that arrive as bytes of a file descriptor. */
#ifndef ZKLOCK_PROCESS_SIGNALS_H
#define ZKLOCK_PROCESS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Returns the number of the signal of this name ("TERM", "SIGTERM" or a number as text); 0 if there is none. */
int zkl_signal_number(const char *name);
/* Returns the name of a signal without "SIG"; NULL if the list has no such signal. */
const char *zkl_signal_name(int number);

/*
 * Blocks these signals in the calling thread, and in the threads that it starts from now on. Returns a descriptor that is readable
 * while one of them is pending; -1 with errno if the system refuses. To be called before the first other thread starts.
 *
 * A signal that the process ignores, for example SIGHUP under nohup, stays ignored. SIGCHLD is never left out. From now on SIGPIPE
 * and SIGXFSZ are ignored.
 */
int zkl_signals_open(const sigset_t *wanted);
/* Returns the next pending signal of the descriptor; 0 if there is none. */
int zkl_signals_next(int fd);
/* In the child of a fork, before exec: default actions, and the mask and the ignored signals from before zkl_signals_open. */
void zkl_signals_restore(void);
/* Sends a signal to this process, or to its group if `group`, with its default action. Returns if that does not end the process. */
void zkl_signals_raise(int number, bool group);

#endif
