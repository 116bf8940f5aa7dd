/* group: process groups, and the terminal that one of them has. */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

bool zkl_group_exists(pid_t group)
{
    return kill(-group, 0) == 0 || errno != ESRCH;
}

bool zkl_group_signal(pid_t group, int number)
{
    return group > 1 && kill(-group, number) == 0;
}

int zkl_terminal_open(void)
{
    return open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

pid_t zkl_terminal_group(int terminal)
{
    return terminal >= 0 ? tcgetpgrp(terminal) : -1;
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
