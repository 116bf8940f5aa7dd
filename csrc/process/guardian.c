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
 *              the shell has ended, if the group is a shell's that the wrapper has not started -> ENDS
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
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;

/* While the group has members after KILL, milliseconds between two looks; and the most, while the wrapper lives. */
static const int LOOK_AGAIN_MS = 10;
static const int LAST_LOOK_MS = 500;

/* The most looks once the wrapper has ended: two seconds. */
static const int LOOKS_ALONE = 200;

/* The priority that the guardian asks for; the system grants it to root. */
static const int PRIORITY = -10;

/* The wrapper writes these: the group is gone; a time has become an earlier one. */
static const char FINISH = 'f';
static const char EARLIER = 'e';

/* A time that is earlier by less is not worth a message. */
static const int64_t NEGLIGIBLE = 10000000;

typedef enum {
    WRAPPER_LIVES,
    WRAPPER_FINISHED,
    WRAPPER_ENDED
} wrapper_state;

int64_t zkl_guard_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

/* --- the guardian's process ---------------------------------------------------------------------------------------- */

/* The shell, as of zkl_process_open; -1: the group is a command of the wrapper. */
static int shell_fd = -1;

/* Waits for the wrapper, for `timer` if that is not -1, and for at most `ms` milliseconds (-1: no limit). */
static wrapper_state wait_for_wrapper(int socket, int timer, int ms)
{
    struct pollfd fds[] = {
        {.fd = socket, .events = POLLIN}, {.fd = timer, .events = POLLIN}, {.fd = shell_fd, .events = POLLIN}};
    int ready = poll(fds, sizeof fds / sizeof *fds, ms);
    if (ready > 0 && fds[2].revents != 0) {
        return WRAPPER_FINISHED;
    }
    if (ready <= 0 || fds[0].revents == 0) {
        return WRAPPER_LIVES;
    }
    char word;
    if (read(socket, &word, 1) != 1) {
        return WRAPPER_ENDED;
    }
    return word == FINISH ? WRAPPER_FINISHED : WRAPPER_LIVES;
}

/* Makes the timer go off at an instant; one that is over counts as now. */
static void arm_guardian(int timer, int64_t at)
{
    struct itimerspec spec = {0};
    if (at != ZKL_GUARD_NEVER) {
        at = at > 0 ? at : 1;
        spec.it_value.tv_sec = at / SECOND;
        spec.it_value.tv_nsec = at % SECOND;
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/*
 * Ends the group, and waits for the wrapper's word that it is gone. Without a wrapper, until it has no member. Members that have ended
 * count until they are reaped, which the first process of some containers never does. The guardian is not their parent, and cannot tell
 * them from others. But each member has got the KILL by then: a group gets a signal as a whole, and a process with a KILL does not fork.
 */
static void kill_group(zkl_guard_page *page, int socket, wrapper_state wrapper)
{
    int pause = LOOK_AGAIN_MS;
    int looks = 0;
    while (wrapper != WRAPPER_FINISHED) {
        pid_t group = atomic_load(&page->group);
        if (group != 0) {
            atomic_store(&page->sent, ZKL_GUARD_SENT_KILL); /* before: the wrapper reads it when the group is gone */
            zkl_group_signal(group, SIGKILL);
        }
        bool alive = group != 0 && zkl_group_exists(group);
        if (wrapper == WRAPPER_ENDED && (!alive || ++looks > LOOKS_ALONE)) {
            return;
        }
        /* Alone it looks often: nobody holds the group's number for it. A wrapper without a group may be about to start one. */
        pause = wrapper == WRAPPER_ENDED ? LOOK_AGAIN_MS : pause;
        int wait_for = alive || group == 0 ? pause : -1;
        pause = pause < LAST_LOOK_MS ? 2 * pause : pause;
        wrapper_state now = wait_for_wrapper(wrapper == WRAPPER_ENDED ? -1 : socket, -1, wait_for);
        wrapper = now == WRAPPER_LIVES ? wrapper : now;
    }
}

/* Sends what is due at term_at, once. A group that is stopped has to run to be able to end. */
static void ask_group(zkl_guard_page *page)
{
    pid_t group = atomic_load(&page->group);
    if (group != 0 && atomic_load(&page->sent) == ZKL_GUARD_SENT_NOTHING) {
        atomic_store(&page->sent, ZKL_GUARD_SENT_TERM);
        zkl_group_signal(group, page->term_signal);
        zkl_group_signal(group, SIGCONT);
    }
}

static void watch(zkl_guard_page *page, int socket, int timer)
{
    wrapper_state wrapper = WRAPPER_LIVES;
    while (wrapper == WRAPPER_LIVES) {
        int64_t now = zkl_guard_clock();
        int64_t term_at = atomic_load(&page->term_at);
        int64_t kill_at = atomic_load(&page->kill_at);
        if (kill_at <= now) {
            break;
        }
        if (term_at <= now) {
            ask_group(page);
        }
        arm_guardian(timer, term_at > now && term_at < kill_at ? term_at : kill_at);
        wrapper = wait_for_wrapper(socket, timer, -1);
    }
    kill_group(page, socket, wrapper);
}

/* Keeps the socket, and standard error unless it is what the command writes to; the command's files must not stay open because of the guardian. */
static int close_others(int socket)
{
    int null = open("/dev/null", O_RDWR);
    int kept = STDERR_FILENO + 1;
    if (null < 0 || (zkl_errors_are_output() && dup2(null, STDERR_FILENO) < 0) || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0 || (socket != kept && dup2(socket, kept) < 0)) {
        return -1;
    }
    if (close_range((unsigned)kept + 1, ~0U, 0) != 0) { /* a kernel before 5.9, or a filter of system calls */
        for (int fd = (int)sysconf(_SC_OPEN_MAX) - 1; fd > kept; fd--) {
            close(fd);
        }
    }
    return kept;
}

/* In a session of its own: no signal of the terminal, and none to the wrapper's group, reaches it. */
static _Noreturn void be_guardian(zkl_guard_page *page, int socket)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "zklock-guardian");
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    socket = close_others(socket);
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    shell_fd = page->shell == 0 ? -1 : zkl_process_open(page->shell);
    if (socket < 0 || timer < 0 || (page->shell != 0 && shell_fd < 0) || chdir("/") != 0) {
        _exit(1); /* the wrapper reads the end of the socket */
    }
    watch(page, socket, timer);
    _exit(0);
}

/* --- the wrapper's process ----------------------------------------------------------------------------------------- */

bool zkl_guard_start(zkl_guard *guard, int term_signal, pid_t shell)
{
    int sockets[2];
    void *page = mmap(NULL, sizeof(zkl_guard_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        goto unmap;
    }
    *guard = (zkl_guard){.page = page, .socket = sockets[0]};
    atomic_store(&guard->page->term_at, ZKL_GUARD_NEVER);
    atomic_store(&guard->page->kill_at, ZKL_GUARD_NEVER);
    guard->page->term_signal = term_signal;
    guard->page->shell = shell;
    /* No SIGCHLD at its end: so it is not among the children that zkl_group_lives and zkl_children_reap wait for. */
    guard->pid = (pid_t)syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
    if (guard->pid == 0) {
        close(sockets[0]);
        be_guardian(guard->page, sockets[1]);
    }
    if (guard->pid < 0) {
        goto close;
    }
    close(sockets[1]);
    return true;

close:
    close(sockets[0]);
    close(sockets[1]);
unmap:
    munmap(page, sizeof(zkl_guard_page));
    guard->page = NULL;
    return false;
}

void zkl_guard_adopt(const zkl_guard *guard, pid_t group)
{
    atomic_store(&guard->page->group, group);
}

void zkl_guard_set(const zkl_guard *guard, int64_t term_at, int64_t kill_at)
{
    int64_t earlier_term = atomic_exchange(&guard->page->term_at, term_at) - term_at;
    int64_t earlier_kill = atomic_exchange(&guard->page->kill_at, kill_at) - kill_at;
    if (earlier_term > NEGLIGIBLE || earlier_kill > NEGLIGIBLE) {
        /* If there is no room, the guardian has unread messages. */
        send(guard->socket, &EARLIER, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

void zkl_guard_finish(zkl_guard *guard)
{
    if (guard->page == NULL) {
        return;
    }
    while (send(guard->socket, &FINISH, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
    kill(guard->pid, SIGCONT); /* it may have been stopped */
    while (waitpid(guard->pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
    close(guard->socket);
    munmap(guard->page, sizeof(zkl_guard_page));
    guard->page = NULL;
}
