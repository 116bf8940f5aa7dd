/* sim_client: what the parts of the simulated C client share. Only these parts include it. */
#ifndef ZKLOCK_SIM_CLIENT_H
#define ZKLOCK_SIM_CLIENT_H

#include "sim_internal.h"

/* The tables of watchers in zk_hashtable.c. */
enum {
    SIM_WATCH_DATA = 0,
    SIM_WATCH_EXISTS,
    SIM_WATCH_CHILDREN
};

typedef struct sim_watcher {
    struct sim_watcher *next;
    int kind;
    int path;
    watcher_fn call;
    void *context;
} sim_watcher;

typedef enum {
    SIM_ANSWER_VOID,
    SIM_ANSWER_STAT,
    SIM_ANSWER_DATA,
    SIM_ANSWER_STRINGS,
    SIM_ANSWER_STRINGS_STAT,
    SIM_ANSWER_STRING,
    SIM_ANSWER_STRING_STAT,
    SIM_ANSWER_MULTI
} sim_answer_kind;

/* A request that waits for its reply, or a reply or event that waits for its delivery. */
typedef struct sim_completion {
    struct sim_completion *next;
    int32_t xid;
    sim_answer_kind kind;
    union {
        void_completion_t with_void;
        stat_completion_t with_stat;
        data_completion_t with_data;
        strings_completion_t with_strings;
        strings_stat_completion_t with_strings_stat;
        string_completion_t with_string;
        string_stat_completion_t with_string_stat;
    } call;
    const void *data;
    zoo_op_result_t *results;
    const sim_request *multi;
    sim_type request;
    int path;
    watcher_fn watcher; /* armed by the reply */
    void *watcher_context;
    ZooWatcherType disarms; /* the watches that a successful removal removes; 0: none */
    int err;
    const sim_reply *reply; /* NULL: the client itself failed the request */
    /* of an event */
    bool event;
    int event_type, event_state;
    sim_watcher *watchers;
} sim_completion;

typedef struct {
    sim_completion *head, *tail;
} sim_completion_queue;

typedef struct sim_outgoing {
    struct sim_outgoing *next;
    sim_request *request;
} sim_outgoing;

typedef struct sim_credential {
    struct sim_credential *next;
    void_completion_t call; /* NULL after it was called */
    const void *data;
    const char *scheme, *credential; /* freed by sim_end */
    size_t length;
} sim_credential;

struct _zhandle {
    struct _zhandle *next_open;
    int caller;
    watcher_fn watcher;
    void *context;
    log_callback_fn log;
    char *chroot; /* "" or "/a/b" */
    int state;
    int32_t recv_timeout;
    int32_t xid;
    clientid_t client_id;
    int64_t password;
    bool had_session;
    bool accepted; /* a request of this session was answered, so its credentials were accepted */
    int64_t last_zxid;
    sim_host *servers; /* freed by sim_end */
    int server_count, next_server;
    int current;
    int first_round; /* how many servers of a list with names were tried for the first connection; -1: all */
    int resolution_delay;
    bool delay;
    sim_connection *connection;
    bool priming;
    int64_t last_recv, last_send;
    sim_outgoing *to_send, *to_send_last;
    sim_completion_queue sent, ready;
    sim_watcher *watchers; /* newest first */
    sim_credential *credentials;
    int depth; /* nesting depth of library functions */
    bool close_requested;
    char endpoint[32];
};

/* --- sim_client.c -------------------------------------------------------------------------------------------------- */

void *sim_must(void *memory);
/* Returns the number of a path as the server sees it, -1 if it is no valid path. */
int sim_server_path(const zhandle_t *zh, const char *path, int mode);
/*
 * Returns the path as the client sees it. The caller frees it after the callback, so that an engine that keeps it is
 * noticed.
 */
char *sim_client_path(const zhandle_t *zh, int path);
/*
 * Returns ZOK, or the error that the real client returns for a request for this path (-1: no path) before it sends
 * anything.
 */
int sim_check_request(const zhandle_t *zh, int path);
sim_request *sim_new_request(sim_type type, int32_t xid, int path);
/* Adds a request at the end, or at the front, of the requests to be sent. */
void sim_enqueue(zhandle_t *zh, sim_request *request, bool front);
/* The last part of all zoo_a* functions. `model` is copied. */
int sim_submit(zhandle_t *zh, sim_request *request, const sim_completion *model);
/* Sends all requests to be sent. A failure is silent (C:3971). */
void sim_send_now(zhandle_t *zh);
bool sim_connected(const zhandle_t *zh);

/* --- sim_requests.c ------------------------------------------------------------------------------------------------ */

/* Copies a node's data. The memory is freed by sim_end. */
const char *sim_keep(const char *value, int length);

/* --- sim_multi.c --------------------------------------------------------------------------------------------------- */

/* Stores the results for the caller and calls its completion. */
void sim_deliver_multi(const zhandle_t *zh, const sim_completion *entry);

/* --- sim_client_watchers.c ----------------------------------------------------------------------------------------- */

/* Arms a watcher, unless the same function with the same context is already armed there. */
void sim_arm(zhandle_t *zh, int kind, int path, watcher_fn call, void *context);
/* Returns the watchers that a session event calls: the default watcher, and all armed ones, which stay armed. */
sim_watcher *sim_session_watchers(const zhandle_t *zh);
/* Removes and returns the watchers that an event fires, each (function, context) once. */
sim_watcher *sim_take_watchers(zhandle_t *zh, int type, int path);
/* Removes the watchers of that type on a path. */
void sim_disarm(zhandle_t *zh, int path, ZooWatcherType type, watcher_fn call, const void *context);
/* Returns the paths in one table, each once. `*count` must be 0. The memory is freed by sim_end. */
int *sim_watched_paths(const zhandle_t *zh, int kind, int *count);
void sim_free_watchers(sim_watcher *list);

#endif
