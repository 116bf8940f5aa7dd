/* spawn: starts a command in a process group of its own, and looks at its end. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "group.h"
#include "signals.h"

/* Between fork and exec: only functions that are safe there, since the wrapper has other threads. Returns if something fails. */
static void become_command(const zkl_spawn *spawn, pid_t wrapper)
{
    setpgid(0, 0);
    if (spawn->guard != NULL) {
        atomic_store(&spawn->guard->page->group, getpid());
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != wrapper) {
            return; /* it ended before it could kill us */
        }
    }
    if (spawn->terminal >= 0) {
        zkl_terminal_give(spawn->terminal, getpid());
    }
    if (spawn->pass_from >= 0 && (spawn->pass_from == spawn->pass_to ? fcntl(spawn->pass_to, F_SETFD, 0)
                                                                     : dup2(spawn->pass_from, spawn->pass_to)) < 0) {
        return;
    }
    zkl_signals_restore();
    execvpe(spawn->arguments[0], spawn->arguments, spawn->environment);
}

/* Opens the pipe for the errno of exec, which closes it. Its end for the child must not have the number that is passed on. */
static bool open_report(const zkl_spawn *spawn, int *report)
{
    if (pipe2(report, O_CLOEXEC) != 0) {
        return false;
    }
    if (spawn->pass_from < 0 || report[1] != spawn->pass_to) {
        return true;
    }
    int other = fcntl(report[1], F_DUPFD_CLOEXEC, spawn->pass_to + 1);
    int problem = errno;
    close(report[1]);
    report[1] = other;
    if (other < 0) {
        close(report[0]);
        errno = problem;
    }
    return other >= 0;
}

/* No command came to be: forgets its group, and then its process id. */
static void forget(const zkl_spawn *spawn, pid_t child)
{
    if (spawn->guard != NULL) {
        atomic_store(&spawn->guard->page->group, 0);
    }
    zkl_child_reap(child);
}

pid_t zkl_spawn_start(const zkl_spawn *spawn, int *error)
{
    int report[2];
    *error = 0;
    if (!open_report(spawn, report)) {
        *error = errno;
        return -1;
    }
    pid_t wrapper = getpid();
    pid_t child = fork();
    if (child == 0) {
        become_command(spawn, wrapper);
        int problem = errno;
        if (write(report[1], &problem, sizeof problem) < 0) {
            _exit(126);
        }
        _exit(127);
    }
    *error = child < 0 ? errno : 0;
    close(report[1]);
    if (child > 0) {
        setpgid(child, child); /* whichever of the two comes first */
        if (spawn->guard != NULL) {
            atomic_store(&spawn->guard->page->group, child);
        }
        while (read(report[0], error, sizeof *error) < 0 && errno == EINTR) {
        }
        if (*error != 0) {
            forget(spawn, child);
            child = -1;
        }
    }
    close(report[0]);
    return child;
}

zkl_child_state zkl_child_look(pid_t child, int *detail)
{
    siginfo_t info = {0};
    *detail = 0;
    while (waitid(P_PID, (id_t)child, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 && errno == EINTR) {
    }
    if (info.si_pid == 0) {
        return ZKL_CHILD_RUNS;
    }
    *detail = info.si_status;
    if (info.si_code == CLD_EXITED) {
        return ZKL_CHILD_EXITED;
    }
    if (info.si_code == CLD_STOPPED) {
        waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOHANG);
        return ZKL_CHILD_STOPPED;
    }
    return ZKL_CHILD_KILLED;
}

void zkl_child_reap(pid_t child)
{
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}
