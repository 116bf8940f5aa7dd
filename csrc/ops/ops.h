/*
 * ops: single requests of the program, on the session of csrc/zk. The program reads and writes nodes with them, or
 * implements its own recipe.
 *
 *   operation.c   the program's own reads and writes
 *   user_watch.c  the watches of these reads
 *
 * All instants are nanoseconds. All functions are for the driver's thread only, unless their comment says otherwise.
 */
#ifndef ZKLOCK_OPS_H
#define ZKLOCK_OPS_H

#include <sys/queue.h>

#include "base/base.h"
#include "zk/zk.h"

typedef struct zkl_operations zkl_operations;
typedef struct zkl_operation zkl_operation;

/* What an operation does. */
typedef enum {
    ZKL_OPERATION_GET,
    ZKL_OPERATION_SET,
    ZKL_OPERATION_CREATE,
    ZKL_OPERATION_DELETE,
    ZKL_OPERATION_EXISTS,
    ZKL_OPERATION_CHILDREN,
    ZKL_OPERATION_SYNC,
    ZKL_OPERATION_ACL,   /* reads the node's acl, as text */
    ZKL_OPERATION_CHECK, /* compares the version; only as a part of a multi */
    ZKL_OPERATION_MULTI  /* executes all parts or none: CREATE, SET, DELETE, CHECK */
} zkl_operation_kind;

/* The event that fired a watch. */
typedef enum {
    ZKL_EVENT_NONE,
    ZKL_EVENT_CREATED,
    ZKL_EVENT_DELETED,
    ZKL_EVENT_CHANGED,
    ZKL_EVENT_CHILD /* its children changed */
} zkl_node_event;

/* The size of an answer's message, with its NUL. */
#define ZKL_OPERATION_MESSAGE_SIZE 512

/* The parameters of an operation, or of one part of a multi. */
typedef struct zkl_operation_request {
    zkl_operation_kind kind;
    int32_t version;  /* SET, DELETE, CHECK: -1 for any */
    const char *path; /* valid (zkl_node_path_problem) */
    const char *data; /* SET, CREATE: NULL for none */
    int32_t data_length;
    int32_t flags;                             /* CREATE: ZOO_PERSISTENT or another create mode */
    const struct ACL_vector *acl;              /* CREATE */
    const struct zkl_operation_request *parts; /* MULTI */
    int32_t part_count;
    bool watch; /* GET, EXISTS, CHILDREN */
} zkl_operation_request;

/* The answer to an operation, or what an executed multi has done with one of its parts. */
typedef struct zkl_operation_result {
    zkl_operation_kind kind;
    bool has_stat; /* GET, SET, CREATE, CHILDREN, ACL; EXISTS: whether the node exists */
    bool watching; /* the requested watch is armed */
    struct Stat stat;
    char *data; /* GET; "" for a node without data. ACL: zkl_acl_text */
    int32_t data_length;
    char *path;   /* CREATE: path of the new node */
    char **names; /* CHILDREN */
    int32_t name_count;
    struct zkl_operation_result *parts; /* MULTI: of each the kind, and the path of CREATE, or the stat of SET */
    int32_t part_count;
} zkl_operation_result;

/* The callbacks of an operation, made from inside any function of this layer or of the session. They must not call these. */
typedef struct {
    /*
     * Delivers the answer: at most once per operation, and not after zkl_operation_cancel. The callee owns `result`
     * (zkl_operation_result_free), which is NULL unless `code` is ZKL_OK. `failed_part` is the index of the part for
     * which a multi failed, or -1.
     */
    void (*done)(void *user, zkl_code code, const char *message, zkl_operation_result *result, int32_t failed_part);
    /*
     * Reports the end of the watch: at most once, after `done`, and not after zkl_operation_cancel. `event` says what
     * happened to the node. ZKL_EVENT_NONE: the watch will never fire, since the session is over (`code` is ZKL_LOST)
     * or the client is closed (ZKL_CLOSED).
     */
    void (*fired)(void *user, zkl_node_event event, zkl_code code);
} zkl_operation_host;

/* Returns a deep copy of the request, for zkl_operations_submit or zkl_operation_forget. NULL when memory is short. Any thread. */
zkl_operation *zkl_operation_new(const zkl_operation_request *request);
/*
 * Ends the operation: neither its answer nor its watch is reported any more. A request that was not sent yet is never
 * sent. A second call is harmless.
 */
void zkl_operation_cancel(zkl_operation *operation, int64_t now);
/* Cancels the operation if need be, and frees it as soon as possible. The caller must not use it again. */
void zkl_operation_forget(zkl_operation *operation, int64_t now);
/* Frees a result. NULL is allowed. Any thread. */
void zkl_operation_result_free(zkl_operation_result *result);

/* --- the object ----------------------------------------------------------------------------------------------------- */

TAILQ_HEAD(zkl_operation_list, zkl_operation);

/* All operations of a client. Only the files of this folder use the fields. */
struct zkl_operations {
    zkl_session *session;
    zkl_wire *wire;                    /* of the session */
    struct zkl_operation_list waiting; /* to be sent when requests may go out, in this order */
    struct zkl_operation_list begun;   /* in flight, or answered and not forgotten */
    zkl_table watches;                 /* user_watch.c: by path */
    uint64_t serial;                   /* the latest operation's */
    size_t sent_bytes;                 /* bytes of operations sent since zkl_operations_begin_turn */
    bool paused; /* the server refused an operation for now: none goes out before the session's `retry` */
};

/*
 * Makes an operations object in zeroed memory, for a session that stays as long. Returns false when memory is short;
 * zkl_operations_free is needed even then.
 */
bool zkl_operations_init(zkl_operations *operations, zkl_session *session);
/* Frees everything. The session's handle must be closed. */
void zkl_operations_free(zkl_operations *operations);
/* Ends every operation and every watch with ZKL_CLOSED. */
void zkl_operations_close(zkl_operations *operations);

/* What the session calls. The owner of both is the zkl_operations. */
extern const zkl_session_listener zkl_operations_listener;
extern const zkl_other_watches zkl_program_watches;

/* Sends the operation, now or when requests may go out. `host` is not copied. */
void zkl_operations_submit(zkl_operations *operations, zkl_operation *operation, const zkl_operation_host *host,
                           void *user, int64_t now);
/* Answers all pending operations with `code`. */
void zkl_operations_fail(zkl_operations *operations, zkl_code code, const char *message);

/* --- what is due ---------------------------------------------------------------------------------------------------- */

/* The driver has time: what callers' threads have sent by themselves since its last turn does not count any more. */
void zkl_operations_begin_turn(zkl_operations *operations);
/* Sends the operations that wait, as far as they may go out. It may be called in each turn. */
void zkl_operations_send(zkl_operations *operations);
/* Returns the present instant if zkl_operations_send has something to do, else ZKL_NEVER. */
int64_t zkl_operations_send_at(const zkl_operations *operations);

#endif
