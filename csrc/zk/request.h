/*
 * request: requests in flight.
 */
#ifndef ZKLOCK_REQUEST_H
#define ZKLOCK_REQUEST_H

#include "wire.h"

/* An answer: what its request was, and what the server said. Fields that do not belong to the request's type are empty. */
typedef struct zkl_reply {
    uint32_t connection; /* the connection that the request was sent on */
    uint32_t generation; /* what was given with the request */
    int32_t tag;
    int32_t length;
    int64_t sent_at;
    const char *data;
    const char *path;
    const struct String_vector *names;
    const struct ACL_vector *acl;
    const struct Stat *stat;
} zkl_reply;

/* Handles the answer to a request, exactly once: `rc` is the server's or the C client's. */
typedef void (*zkl_on_reply)(void *owner, int rc, const zkl_reply *reply);

/* The owner of a request, which waits for the answer, and what it needs to know then. */
typedef struct {
    zkl_on_reply on_reply;
    void *owner;
    void (*release)(
        void *kept); /* called after on_reply: the request does not point to `kept` any more; NULL: to nothing */
    void *kept;
    void *memory;        /* freed when the C client does not know the request any more, or was not asked; NULL: none */
    uint32_t generation; /* comes back with the reply */
    int32_t tag;         /* likewise */
    zkl_proof proof;
} zkl_ask;

/* The state of a request's context. ORPHAN and SPARE have lists in zkl_wire. */
typedef enum {
    ZKL_REQUEST_FLYING, /* set by begin_request: the C client will complete it, once */
    ZKL_REQUEST_ORPHAN, /* set by request_refused: the C client has refused it and may complete it all the same, without effect */
    ZKL_REQUEST_SPARE /* set by pass_answer: it was completed, and may be used for another request */
} zkl_request_state;

/* The context of one asynchronous call of the C client. */
struct zkl_request {
    SLIST_ENTRY(zkl_request) next; /* in the list of its state */
    zkl_wire *wire;
    zkl_ask ask;
    int64_t sent_at;
    zkl_evidence evidence;
    uint32_t connection;
    zkl_request_state state;
};

/*
 * Returns false for a list with names that no node can have. Only a malicious or defective server answers with such a
 * list. The C client passes a name of negative length on as NULL.
 */
bool zkl_list_is_sound(const struct String_vector *names);
/* Returns `rc`, or ZMARSHALLINGERROR if it is ZOK and the list has such names. */
int zkl_names_rc(int rc, const struct String_vector *names);

/*
 * Functions that send. Each returns the result of the C client's function; a reply comes only after ZOK. ZMARSHALLINGERROR,
 * too, when memory is short. What was not sent is handled like a lost connection: nothing is known to be executed.
 * `watcher` is NULL for no watch.
 */
int zkl_send_create(zkl_wire *wire, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                    const struct ACL_vector *acl, int32_t flags);
/* The same, but the reply has no stat: servers before 3.5 know no other. */
int zkl_send_make(zkl_wire *wire, const zkl_ask *ask, const char *path, const char *data, const struct ACL_vector *acl,
                  int32_t flags);
int zkl_send_delete(zkl_wire *wire, const zkl_ask *ask, const char *path, int32_t version);
int zkl_send_exists(zkl_wire *wire, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context);
int zkl_send_get(zkl_wire *wire, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context);
int zkl_send_set(zkl_wire *wire, const zkl_ask *ask, const char *path, const char *data, int32_t length,
                 int32_t version);
/* Lists the children. zkl_send_names: without the node's stat. */
int zkl_send_names(zkl_wire *wire, const zkl_ask *ask, const char *path);
int zkl_send_list(zkl_wire *wire, const zkl_ask *ask, const char *path, watcher_fn watcher, void *context);
/* Reads the acl. */
int zkl_send_acl(zkl_wire *wire, const zkl_ask *ask, const char *path);
int zkl_send_sync(zkl_wire *wire, const zkl_ask *ask, const char *path);
/*
 * `ops` and `results` must stay until the reply, or until the handle is closed. The result of a part that the answer says nothing about is
 * ZRUNTIMEINCONSISTENCY.
 */
int zkl_send_multi(zkl_wire *wire, const zkl_ask *ask, int32_t count, const zoo_op_t *ops, zoo_op_result_t *results);
/* Returns whether all parts succeeded. The C client reports success even if parts of the answer say otherwise, or are missing. */
bool zkl_all_succeeded(const zoo_op_result_t *results, int32_t count);
/* Reads the ensemble's configuration (ZOO_CONFIG_NODE), which is below no chroot. */
int zkl_send_configuration(zkl_wire *wire, const zkl_ask *ask, watcher_fn watcher, void *context);
/* Removes all watches of this session on a node, or on its children. */
int zkl_send_unwatch(zkl_wire *wire, const zkl_ask *ask, const char *path, bool children);
/* Makes the C client forget a watcher of a node, without a request: there is no connection. */
void zkl_forget_watch(const zkl_wire *wire, const char *path, watcher_fn watcher, void *context);
/* Frees the contexts that the C client can no longer complete. To be called after zookeeper_close. */
void zkl_requests_closed(zkl_wire *wire);
/* Frees all contexts that are not in flight. */
void zkl_requests_free(zkl_wire *wire);

#endif
