/* log: the lines that the owner of a client fetches, from the engine and from the C client. */
#include "log.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "registry.h"

/* Log lines kept until they are fetched; the oldest are dropped. */
#define LOG_LINES 64

/* A line of the C client's log is not repeated sooner. */
#define SAY_AGAIN_AFTER (10 * ZKL_SECOND)

bool zkl_log_open(zkl_log *log, zkl_desk *desk, bool wanted)
{
    log->desk = desk;
    log->lines = wanted ? zkl_alloc((size_t)LOG_LINES * sizeof *log->lines) : NULL;
    return !wanted || log->lines != NULL;
}

void zkl_log_close(zkl_log *log)
{
    zkl_free(log->lines);
}

void zkl_log_add(void *context, int level, const char *text)
{
    zkl_log *log = context;
    if (log->lines == NULL) {
        return;
    }
    pthread_mutex_lock(&log->desk->mutex);
    if (log->count == LOG_LINES) {
        log->first = (log->first + 1) % LOG_LINES;
        log->count--;
    }
    zkl_log_line *line = &log->lines[(log->first + log->count++) % LOG_LINES];
    line->level = level;
    snprintf(line->text, sizeof line->text, "%s", text);
    zkl_notifications_changed(&log->desk->notifications);
    pthread_mutex_unlock(&log->desk->mutex);
}

int zkl_log_take(zkl_log *log, char *text, size_t size)
{
    int level = 0;
    pthread_mutex_lock(&log->desk->mutex);
    if (log->count > 0) {
        const zkl_log_line *line = &log->lines[log->first];
        level = line->level;
        snprintf(text, size, "%s", line->text);
        log->first = (log->first + 1) % LOG_LINES;
        log->count--;
    }
    pthread_mutex_unlock(&log->desk->mutex);
    return level;
}

/* The C client's log callback has no context, so each thread that runs an engine remembers its client's log here. */
static _Thread_local zkl_log *thread_log __attribute__((tls_model("initial-exec")));

zkl_log *zkl_log_speaks(zkl_log *log)
{
    zkl_log *before = thread_log;
    thread_log = log;
    return before;
}

/* While no server answers, the C client logs the same two lines at every try, dozens of times a second. */
static bool said_before(zkl_log *log, const char *text)
{
    int64_t now = zkl_clock();
    for (int32_t i = 0; i < ZKL_RECENT_LINES; i++) {
        if (strncmp(log->recent[i].text, text, sizeof log->recent[i].text - 1) == 0) {
            bool again = now - log->recent[i].at < SAY_AGAIN_AFTER;
            log->recent[i].at = again ? log->recent[i].at : now;
            return again;
        }
    }
    uint32_t oldest = log->next_recent++ % ZKL_RECENT_LINES;
    log->recent[oldest].at = now;
    snprintf(log->recent[oldest].text, sizeof log->recent[oldest].text, "%s", text);
    return false;
}

/* The node is below no chroot, as we want it. */
static bool is_about_configuration(const char *line)
{
    static const char beginning[] = "server path " ZOO_CONFIG_NODE " does not include chroot";
    return strncmp(line, beginning, sizeof beginning - 1) == 0;
}

/* "2026-01-01 00:00:00,000:123:ZOO_WARN@function@42: text" */
void zkl_zookeeper_log(const char *line)
{
    int level = ZOO_LOG_LEVEL_INFO;
    const char *mark = strstr(line, ":ZOO_");
    if (mark != NULL) {
        level = mark[5] == 'E'   ? ZOO_LOG_LEVEL_ERROR
                : mark[5] == 'W' ? ZOO_LOG_LEVEL_WARN
                : mark[5] == 'I' ? ZOO_LOG_LEVEL_INFO
                                 : ZOO_LOG_LEVEL_DEBUG;
        const char *text = strstr(mark, ": ");
        line = text != NULL ? text + 2 : line;
    }
    if (level > ZKL_ZOOKEEPER_LOG_LEVEL && mark != NULL) {
        zkl_xid_read(line); /* the level is raised for a moment, to get this one line */
        return;
    }
    zkl_log *log = thread_log;
    if (log != NULL && log->lines != NULL && !(log->connector != NULL && zkl_connector_hides(log->connector, line)) &&
        !is_about_configuration(line) && !said_before(log, line)) {
        zkl_log_add(log, level, line);
    }
}
