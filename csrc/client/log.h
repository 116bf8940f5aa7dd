/* log: the lines that the owner of a client fetches, from the engine and from the C client. */
#ifndef ZKLOCK_CLIENT_LOG_H
#define ZKLOCK_CLIENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "desk.h"
#include "net/net.h"

/* Recent lines of the C client's log; they are not logged again soon. */
#define ZKL_RECENT_LINES 4

typedef struct {
    int level; /* one of the C client's ZOO_LOG_LEVEL_* */
    char text[256];
} zkl_log_line;

typedef struct {
    zkl_desk *desk; /* constant */
    const zkl_connector
        *connector;      /* engine_mutex: lines about its listener are dropped; NULL: there is none yet, or no more */
    zkl_log_line *lines; /* constant: a ring of lines to be fetched; NULL: lines are dropped */
    int32_t first;       /* desk.mutex */
    int32_t count;       /* desk.mutex */
    struct {
        int64_t at; /* when the line was logged last; zkl_clock */
        char text[128];
    } recent[ZKL_RECENT_LINES]; /* engine_mutex */
    uint32_t next_recent;       /* engine_mutex: the oldest of them */
} zkl_log;

/* `wanted`: lines are kept. Returns false if there is no memory. */
bool zkl_log_open(zkl_log *log, zkl_desk *desk, bool wanted);
void zkl_log_close(zkl_log *log);
/* Adds a line. `context` is the zkl_log. Any thread. */
void zkl_log_add(void *context, int level, const char *text);
/* Takes the oldest line. Returns its level, or 0 if there is none. */
int zkl_log_take(zkl_log *log, char *text, size_t size);
/* The C client's log callback. It has no context: the line belongs to the log that zkl_log_speaks has named. */
void zkl_zookeeper_log(const char *line);
/* Makes the C client's log lines on this thread belong to `log` from now on. Returns the log that they belonged to. */
zkl_log *zkl_log_speaks(zkl_log *log);

#endif
