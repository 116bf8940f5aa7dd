/* background: a process that may go on after the one that has forked it, for which a shell waits. */
#include <fcntl.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"

/* What the child has inherited from the program that has started zklock: what exec would pass on. Higher numbers are unusual. */
static fd_set inherited;

static void note_inherited(void)
{
    FD_ZERO(&inherited);
    for (int fd = STDERR_FILENO + 1; fd < FD_SETSIZE; fd++) {
        if (fcntl(fd, F_GETFD) == 0) {
            FD_SET(fd, &inherited);
        }
    }
}

pid_t zkl_background_fork(int at_end_of_parent)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        note_inherited();
        if (prctl(PR_SET_PDEATHSIG, at_end_of_parent) != 0 || getppid() != parent) {
            _exit(1);
        }
    }
    return child;
}

bool zkl_errors_are_output(void)
{
    struct stat output;
    struct stat errors;
    return fstat(STDOUT_FILENO, &output) == 0 && fstat(STDERR_FILENO, &errors) == 0 && output.st_dev == errors.st_dev &&
           output.st_ino == errors.st_ino;
}

void zkl_background_part(void)
{
    prctl(PR_SET_PDEATHSIG, 0);
    setsid();
}

void zkl_background_leave(bool keep_errors)
{
    int last = keep_errors && !zkl_errors_are_output() ? STDOUT_FILENO : STDERR_FILENO;
    zkl_background_part();
    for (int fd = STDERR_FILENO + 1; fd < FD_SETSIZE; fd++) {
        if (FD_ISSET(fd, &inherited)) {
            close(fd);
        }
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= last; fd++) {
        dup2(null, fd);
    }
    close(null);
}
