/* spawn: starts a command in a process group of its own, and looks at its end. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The end of the latest command's first process, once zkl_group_lives has reaped it. */
static siginfo_t reaped;

/* The latest command's group, once it had no member left. From then on the number may belong to another group. */
static pid_t gone;

/* The page of the latest command's guardian. NULL: it has none. */
static zkl_guard_page *guarded;

/*
 * Puts a process into the group that ends at once and is not reaped before lift_anchor: as long as it is there, no other group can get
 * the number, whoever else is reaped. It sends no SIGCHLD at its end, so that no other wait of this process finds it. Returns false,
 * with errno, if the system refuses, or the group has no member.
 */
static bool drop_anchor(pid_t group)
{
    pid_t anchor = (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
    if (anchor == 0) {
        _exit(setpgid(0, group) == 0 ? 0 : 1);
    }
    siginfo_t info = {0};
    while (anchor > 0 && waitid(P_PID, (id_t)anchor, &info, WEXITED | WNOWAIT | __WALL) != 0 && errno == EINTR) {
    }
    if (anchor > 0 && getpgid(anchor) != group) { /* it may have been killed with the group, and be in it */
        waitpid(anchor, NULL, __WALL);
        errno = ESRCH;
        return false;
    }
    return anchor > 0;
}

static void lift_anchor(pid_t group)
{
    while (waitpid(-group, NULL, (int)__WCLONE) < 0 && errno == EINTR) {
    }
}

bool zkl_terminal_give(int terminal, pid_t group)
{
    sigset_t output;
    sigset_t before;
    sigemptyset(&output);
    sigaddset(&output, SIGTTOU); /* a background process that is not protected from it would be stopped */
    pthread_sigmask(SIG_BLOCK, &output, &before);
    bool given = terminal >= 0 && tcsetpgrp(terminal, group) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return given;
}

/* Between fork and exec: only functions that are safe there, since the wrapper has other threads. Returns if something fails. */
static void become_command(const zkl_spawn *spawn, pid_t wrapper)
{
    if (setpgid(0, 0) != 0) {
        return;
    }
    if (spawn->guard != NULL) {
        atomic_store(&spawn->guard->page->group, getpid());
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            return;
        }
        if (getppid() != wrapper) {
            _exit(127); /* it ended before it could kill us */
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
static void forget_child(const zkl_spawn *spawn, pid_t child)
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
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        *error = errno;
        close(report[0]);
        close(report[1]);
        return -1;
    }
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
        reaped.si_pid = gone = 0;
        guarded = spawn->guard != NULL ? spawn->guard->page : NULL;
        bool held = drop_anchor(child);
        int problem = held ? 0 : errno;
        if (spawn->guard != NULL) {
            atomic_store(&spawn->guard->page->group, child);
        }
        while (read(report[0], error, sizeof *error) < 0 && errno == EINTR) {
        }
        if (!held) {
            zkl_group_signal(child, SIGKILL);
            *error = problem;
        }
        if (*error != 0) {
            forget_child(spawn, child);
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
    if (reaped.si_pid == child) {
        info = reaped;
    } else {
        while (waitid(P_PID, (id_t)child, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 && errno == EINTR) {
        }
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
    if (gone != child) {
        lift_anchor(child);
    }
    reaped.si_pid = reaped.si_pid == child ? 0 : reaped.si_pid;
}

/*
 * No member of the group is a child of this process. There may be some all the same: a process that has left the group may have children
 * that have not. `kill` finds them, but it counts the anchor, too. While that is away, the members hold the number. Members that have
 * ended, and that their parent does not reap, count as alive.
 */
static bool ask_without_anchor(pid_t group)
{
    lift_anchor(group);
    if (zkl_group_exists(group)) {
        drop_anchor(group); /* if the last member has ended meanwhile, or there is no room: the next look finds out */
        return true;
    }
    if (guarded != NULL) {
        atomic_store(&guarded->group, 0); /* the guardian signals it no more */
    }
    gone = group;
    return false;
}

bool zkl_group_lives(pid_t group)
{
    if (gone == group) {
        return false;
    }
    siginfo_t info = {.si_pid = group};
    while (info.si_pid != 0) {
        info = (siginfo_t){.si_pid = 0};
        if (waitid(P_PGID, (id_t)group, &info, WEXITED | WNOHANG) == 0) {
            reaped = info.si_pid == group ? info : reaped;
        } else if (errno != EINTR) {
            return ask_without_anchor(group);
        } else {
            info.si_pid = group;
        }
    }
    return true;
}

void zkl_children_reap(pid_t child)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 && info.si_pid != child) {
        waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
}
