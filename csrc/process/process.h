/*
 * process: signals, process groups, the terminal, and a guardian that ends a process group in time. For the command `zklock`.
 *
 * This layer knows no lock and no client. It is a Lua module of its own (zklock.process), so that programs which only use locks do
 * not load it. Linux only, as the timers of the client are.
 *
 * All functions are for the main thread of a process unless they say otherwise.
 */
#ifndef ZKLOCK_PROCESS_H
#define ZKLOCK_PROCESS_H

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* --- process groups: a negative number is that of a single process ---------------------------------------------------- */

/* Whether a group has a member. Members that have ended count until they are reaped. */
static inline bool zkl_group_exists(pid_t group)
{
    return kill(-group, 0) == 0 || errno != ESRCH;
}

/* Sends a signal to all members. Returns false, with errno, if no member could be reached. */
static inline bool zkl_group_signal(pid_t group, int number)
{
    return (group > 1 || group < -1) && kill(-group, number) == 0;
}

/* Whether a group has a member that has not ended, by /proc. Unlike zkl_group_lives it is for groups that this process has not made. */
bool zkl_group_runs(pid_t group);
/* Opens a descriptor that is readable when a process, which need not be a child, has ended; -1 with errno. */
int zkl_process_open(pid_t process);

/* --- signals: their names, and those that arrive as bytes of a file descriptor ---------------------------------------- */

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

/* --- guardian: a process that ends a process group in time (guardian.c has its states) -------------------------------- */

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
    pid_t shell; /* of whose group the command is that the wrapper has not started; 0: none; written before the fork */
} zkl_guard_page;

/* Otherwise the compiler's library would lock them, with a lock in each process. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "processes cannot share these types");

/* The wrapper's side. */
typedef struct {
    zkl_guard_page *page;
    int socket; /* readable when the guardian has ended */
    pid_t pid;
} zkl_guard;

/*
 * Forks the guardian. Returns false, with errno, if the system refuses. `term_signal` is sent at term_at. Without a shell (0)
 * zkl_spawn_start gives it a group, with one zkl_guard_adopt: and when the shell has ended, the guardian ends, and does nothing.
 */
bool zkl_guard_start(zkl_guard *guard, int term_signal, pid_t shell);
/* From now on the guardian ends this group, which is not one of zkl_spawn_start. */
void zkl_guard_adopt(const zkl_guard *guard, pid_t group);
/* Sets both times, 0 or more; ZKL_GUARD_NEVER: the guardian does not act. */
void zkl_guard_set(const zkl_guard *guard, int64_t term_at, int64_t kill_at);
/* The group is gone: ends the guardian, waits until it has ended, and frees everything. Idempotent. */
void zkl_guard_finish(zkl_guard *guard);
/* Now, on CLOCK_BOOTTIME, in nanoseconds. */
int64_t zkl_guard_clock(void);

/* --- background: a process that may go on after the one that has forked it, for which a shell waits ------------------- */

/*
 * Forks. Returns the process id of the child, 0 in the child, and -1 with errno if the system refuses. The child gets the signal when
 * its parent ends. To be called before this process has a second thread.
 */
pid_t zkl_background_fork(int at_end_of_parent);
/* In the child: from now on its parent may end. Leaves the session of the terminal. */
void zkl_background_part(void);
/*
 * Does the same, and closes what the child has inherited: standard input, output and error become /dev/null. With `keep_errors`
 * standard error stays, unless it is the same file as output.
 */
void zkl_background_leave(bool keep_errors);
/* Whether standard error is the same file as standard output: then who reads the one waits for its end by way of the other. */
bool zkl_errors_are_output(void);

/* --- spawn: starts a command in a process group of its own, and looks at its end -------------------------------------- */

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

/*
 * Returns whether the latest group that zkl_spawn_start has made has members. Once it has none, send it no signals.
 *
 * Asks the kernel. /proc is not read: it may be missing or foreign, or hide processes. Orphans of the group become children of this
 * process. The function reaps those that have ended. zkl_child_look still reports the end of the first one.
 */
bool zkl_group_lives(pid_t group);
/* Reaps all other children that have ended: orphans that have left the group, and what was there before exec. */
void zkl_children_reap(pid_t child);

/* Makes a group the foreground group of a terminal. Also works in a background process. */
bool zkl_terminal_give(int terminal, pid_t group);

#endif
