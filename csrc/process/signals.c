/* signals: names of signals, and signals that arrive as bytes of a file descriptor. */
#include "process.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const struct {
    const char *name;
    int number;
} names[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ILL", SIGILL},     {"TRAP", SIGTRAP},
    {"ABRT", SIGABRT}, {"BUS", SIGBUS},   {"FPE", SIGFPE},   {"KILL", SIGKILL},   {"USR1", SIGUSR1},
    {"SEGV", SIGSEGV}, {"USR2", SIGUSR2}, {"PIPE", SIGPIPE}, {"ALRM", SIGALRM},   {"TERM", SIGTERM},
    {"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"STOP", SIGSTOP}, {"TSTP", SIGTSTP},   {"TTIN", SIGTTIN},
    {"TTOU", SIGTTOU}, {"URG", SIGURG},   {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},   {"PROF", SIGPROF},
    {"IO", SIGIO},     {"SYS", SIGSYS},   {"PWR", SIGPWR},   {"WINCH", SIGWINCH}, {"VTALRM", SIGVTALRM},
};

enum {
    NAMES = sizeof names / sizeof *names
};

/* Descriptors below are left to the caller of the program, who may name one in an option, if more may be open. */
static const int FIRST_FD = 100;

/* The signals that are read from descriptors, and the mask that the process had before. */
static sigset_t caught;
static sigset_t mask_before;
static bool is_open;

/* Signals that are ignored while others are caught, and their actions before: a reader of messages that has gone ends nothing, and
 * neither does a log that has grown to the limit of its size (RLIMIT_FSIZE). The write fails instead. */
static const int ignored[] = {SIGPIPE, SIGXFSZ};
enum {
    IGNORED = sizeof ignored / sizeof *ignored
};
static struct sigaction actions_before[IGNORED];

int zkl_signal_number(const char *name)
{
    char *end;
    long number = strtol(name, &end, 10);
    if (end != name) {
        return *end == '\0' && number > 0 && number <= SIGRTMAX ? (int)number : 0;
    }
    if (strncasecmp(name, "SIG", 3) == 0) {
        name += 3;
    }
    for (size_t i = 0; i < NAMES; i++) {
        if (strcasecmp(names[i].name, name) == 0) {
            return names[i].number;
        }
    }
    return 0;
}

const char *zkl_signal_name(int number)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (names[i].number == number) {
            return names[i].name;
        }
    }
    return NULL;
}

static bool is_ignored(int number)
{
    struct sigaction action;
    return number != SIGCHLD && sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int zkl_signals_open(const sigset_t *wanted)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < NAMES; i++) {
        if (sigismember(wanted, names[i].number) == 1 && !is_ignored(names[i].number)) {
            sigaddset(&set, names[i].number);
        }
    }
    if (sigismember(&set, SIGCHLD) == 1) {
        signal(SIGCHLD, SIG_DFL); /* the parent may have left it ignored: then children would vanish without a status */
    }
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    if (fd >= 0) {
        sigset_t before;
        pthread_sigmask(SIG_BLOCK, &set, &before);
        if (!is_open) {
            is_open = true;
            mask_before = before;
            struct sigaction ignore = {.sa_handler = SIG_IGN};
            for (size_t i = 0; i < IGNORED; i++) {
                sigaction(ignored[i], &ignore, &actions_before[i]);
            }
            sigemptyset(&caught);
        }
        sigorset(&caught, &caught, &set);
    }
    return fd;
}

int zkl_signals_next(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

void zkl_signals_restore(void)
{
    if (!is_open) {
        return;
    }
    for (size_t i = 0; i < NAMES; i++) {
        if (sigismember(&caught, names[i].number) == 1) {
            signal(names[i].number, SIG_DFL);
        }
    }
    for (size_t i = 0; i < IGNORED; i++) {
        sigaction(ignored[i], &actions_before[i], NULL);
    }
    pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
}

void zkl_signals_raise(int number, bool group)
{
    sigset_t one;
    sigset_t before;
    struct sigaction action = {.sa_handler = SIG_DFL};
    struct sigaction earlier;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigaction(number, &action, &earlier);
    kill(group ? 0 : getpid(), number);
    pthread_sigmask(SIG_UNBLOCK, &one, &before); /* here it is delivered */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(number, &earlier, NULL);
}
