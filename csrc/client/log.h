/* log: the lines that the owner of a client fetches, from the engine and from the C client. */
#ifndef ZKLOCK_CLIENT_LOG_H
#define ZKLOCK_CLIENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"

/* Recent lines of the C client's log; they are not logged again soon. */
#define ZKL_RECENT_LINES 4

typedef struct {
    int level; /* one of the C client's ZOO_LOG_LEVEL_* */
    char text[256];
} zkl_log_line;

typedef struct {
    zkl_log_line *lines; /* constant: a ring of lines to be fetched; NULL: lines are dropped */
    int32_t first;       /* client->mutex */
    int32_t count;       /* client->mutex */
    struct {
        int64_t at; /* when the line was logged last; zkl_clock */
        char text[128];
    } recent[ZKL_RECENT_LINES]; /* engine_mutex */
    uint32_t next_recent;       /* engine_mutex: the oldest of them */
} zkl_log;

/* `wanted`: lines are kept. Returns false if there is no memory. */
bool zkl_log_open(zkl_log *log, bool wanted);
void zkl_log_close(zkl_log *log);
/* The engine's callback `log` (zkl_host); `context` is the client. Any thread. */
void zkl_client_log(void *context, int level, const char *text);
/* The C client's log callback. It has no context: the line belongs to the client that zkl_client_speaks has named. */
void zkl_zookeeper_log(const char *line);
/* Makes the C client's log lines on this thread belong to `client` from now on. Returns the client that they belonged to. */
zkl_client *zkl_client_speaks(zkl_client *client);

#endif
