/* groups: process groups and processes that this process has not started, by /proc and by descriptors. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"

#ifndef SYS_pidfd_open /* headers before Linux 5.3 */
#define SYS_pidfd_open 434
#endif

int zkl_process_open(pid_t process)
{
    return (int)syscall(SYS_pidfd_open, process, 0U); /* exec closes it */
}

/* Whether a process runs, as a member of the group. What has ended (Z), or is about to vanish (X), does not. */
static bool is_running_member(const char *id, pid_t group)
{
    char name[64];
    char line[512];
    snprintf(name, sizeof name, "/proc/%s/stat", id);
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        return false;
    }
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *end = strrchr(line, ')'); /* the program's name, before it, may contain everything */
    if (end == NULL || strlen(end) < 4 || end[2] == 'Z' || end[2] == 'X') {
        return false;
    }
    char *rest;
    strtol(end + 3, &rest, 10); /* the parent */
    return strtol(rest, NULL, 10) == group;
}

bool zkl_group_runs(pid_t group)
{
    DIR *processes = zkl_group_exists(group) ? opendir("/proc") : NULL;
    bool found = false;
    struct dirent *entry;
    while (processes != NULL && !found && (entry = readdir(processes)) != NULL) {
        found = isdigit((unsigned char)*entry->d_name) && is_running_member(entry->d_name, group);
    }
    if (processes != NULL) {
        closedir(processes);
    }
    return found;
}
