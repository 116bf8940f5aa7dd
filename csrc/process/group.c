/* group: process groups, and the terminal that one of them has. */
#include "group.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the process of a directory of /proc is a living member of the group. Its name, in brackets, may have any characters. */
static bool is_living_member(int proc, const char *name, pid_t group)
{
    char path[32];
    char text[512];
    if (snprintf(path, sizeof path, "%s/stat", name) >= (int)sizeof path) {
        return false;
    }
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false; /* it has ended and was reaped meanwhile */
    }
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    const char *end_of_name = strrchr(text, ')');
    if (end_of_name == NULL || strlen(end_of_name) < 4) {
        return false;
    }
    char state = end_of_name[2];
    char *rest;
    strtol(end_of_name + 3, &rest, 10); /* its parent */
    return strtol(rest, NULL, 10) == (long)group && state != 'Z' && state != 'X';
}

bool zkl_group_exists(pid_t group)
{
    return kill(-group, 0) == 0 || errno != ESRCH;
}

bool zkl_group_seen(pid_t group)
{
    DIR *directory = opendir("/proc");
    if (directory == NULL) {
        return false;
    }
    bool seen = false;
    const struct dirent *entry;
    while (!seen && (entry = readdir(directory)) != NULL) {
        seen = isdigit((unsigned char)entry->d_name[0]) && is_living_member(dirfd(directory), entry->d_name, group);
    }
    closedir(directory);
    return seen;
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
