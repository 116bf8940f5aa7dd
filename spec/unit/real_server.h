/*
 * real_server: the ZooKeeper server for C tests. It is started with tools/zookeeper, unless ZOOKEEPER names one. Run from the
 * project's root. To be included after cmocka.h, by one file of a program.
 */
#ifndef ZKLOCK_REAL_SERVER_H
#define ZKLOCK_REAL_SERVER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char servers[256];

static int start_server(void **state)
{
    (void)state;
    if (getenv("ZOOKEEPER") != NULL) {
        snprintf(servers, sizeof servers, "%s", getenv("ZOOKEEPER"));
        return 0;
    }
    char command[128];
    snprintf(command, sizeof command, "LD_PRELOAD= tools/zookeeper start --owner %d", (int)getpid());
    FILE *output = popen(command, "r");
    if (output == NULL) {
        return -1;
    }
    char line[512];
    while (fgets(line, sizeof line, output) != NULL) {
        sscanf(line, "ZOOKEEPER=%255s", servers);
        char directory[512];
        if (sscanf(line, "ZOOKEEPER_DIR=%511s", directory) == 1) {
            setenv("ZOOKEEPER_DIR", directory, 1);
        }
    }
    return pclose(output) == 0 && servers[0] != '\0' ? 0 : -1;
}

static int stop_server(void **state)
{
    (void)state;
    return getenv("ZOOKEEPER") != NULL || system("tools/zookeeper stop >/dev/null") == 0 ? 0 : -1;
}

/* How many of the points of a sweep to try: ZKLOCK_POINTS, or all of them if that is "all". */
static inline int64_t points_to_try(int64_t usually)
{
    const char *wanted = getenv("ZKLOCK_POINTS");
    return wanted == NULL ? usually : strcmp(wanted, "all") == 0 ? INT64_MAX : strtoll(wanted, NULL, 10);
}

#endif
