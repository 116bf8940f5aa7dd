/*
 * client: one I/O thread per client. It runs the engine and owns the ZooKeeper handle.
 *
 * Callers ask by *handles*: of an acquisition, an operation, a flush or a timer. docs/design.md, "Threads and memory", has the way of a
 * request.
 *
 * No function here blocks, with these exceptions:
 * - zkl_client_wait, and functions whose argument `block_for` is above 0;
 * - zkl_client_catch_up, which may wait for the engine for up to 100 ms;
 * - zkl_client_join, until a thread that has already closed the session has returned.
 *
 * All functions may be called by any thread. After a fork the child may call them too and gets ZKL_FORKED: the thread does not
 * exist in the child, and the parent's session is not touched.
 */
#ifndef ZKLOCK_CLIENT_H
#define ZKLOCK_CLIENT_H

#include "engine/engine.h"
#include "net/net.h"

typedef struct zkl_client zkl_client;
typedef struct zkl_handle zkl_handle;

typedef struct {
    const char *servers;
    int32_t session_timeout_ms;
    bool lease;
    bool follow; /* the servers are also those of the ensemble's own configuration, which is read on each connection */
    bool log;    /* collect log lines for zkl_client_next_log; if false they are dropped */
    const zkl_auth *auths;
    int32_t auth_count;
    const zkl_tls_options *tls; /* NULL: without TLS */
} zkl_client_options;

/*
 * Starts a client and returns it with one reference. It begins to connect at once; the call does not wait for that. Returns NULL if
 * the system refuses memory, pipes or a thread, or if the options of TLS or their files are wrong; `message` (ZKL_MESSAGE_SIZE bytes)
 * and *code then say which. `code`: NULL if it is not wanted.
 */
zkl_client *zkl_client_open(const zkl_client_options *options, char *message, zkl_code *code);

/* Begins to close the client: see zkl_engine_close. The state becomes ZKL_STATE_CLOSED when the session is closed. Idempotent. */
void zkl_client_close(zkl_client *client);
/* Waits until the thread has ended, if the client is closed; otherwise does nothing. Idempotent. */
void zkl_client_join(zkl_client *client);
/* Drops the reference. Closes the client if it is still open. */
void zkl_client_release(zkl_client *client);

/*
 * Replaces the servers by those of another connection string with the same chroot. A connection with one of them goes on; otherwise
 * the session moves to one of them. Returns false if there is no memory, or the client is closed.
 */
bool zkl_client_set_servers(zkl_client *client, const char *servers);

/* Whether this process is a child of the process that opened the client. */
bool zkl_client_forked(const zkl_client *client);
/* The fd that is readable while zkl_client_next or zkl_client_next_log has something to return, or after the state has changed. */
int zkl_client_fd(const zkl_client *client);
/*
 * Replaces the fd by a unix stream socket that the caller connects (notify_socket.c).
 *
 * zkl_client_listen writes the path of the socket into `path`, "" for the abstract name of zero bytes only; if it returns false,
 * it writes the error there. zkl_client_accept
 * takes the connection if it has been made, and removes the path; it returns false if there is no connection. From then on the
 * bytes for notifications go to this connection and no longer to zkl_client_fd. The caller looks for notifications once, for those
 * that came before. Both may be called again, for another connection. zkl_client_ring sends such a byte without a notification; it
 * returns false if there is no connection.
 */
bool zkl_client_listen(zkl_client *client, char *path, size_t size);
bool zkl_client_accept(zkl_client *client);
bool zkl_client_ring(zkl_client *client);
/*
 * Waits for at most `nanoseconds` until zkl_client_next has something to return or a signal arrives; may return early without a
 * reason. Meanwhile the calling thread does the I/O thread's work, as far as that cannot block (poll_owner.c).
 */
void zkl_client_wait(zkl_client *client, int64_t nanoseconds);
/*
 * For callers that cannot wait any longer: passes all queued requests to the engine. While there is a connection this is done even
 * if the I/O thread is using the engine; the call then waits for the engine for up to 100 ms. What needs no request to a server is
 * answered in this call.
 */
void zkl_client_catch_up(zkl_client *client);
/* Whether zkl_client_next has something to return. */
bool zkl_client_has_notifications(zkl_client *client);
/*
 * Returns the id of the next handle with a notification, or 0 if there is none left; with 0 the fd becomes unreadable. With 0,
 * `changed` says whether there are log lines, or the state may have changed, since the last call that returned 0.
 */
uint64_t zkl_client_next(zkl_client *client, bool *changed);
/* Copies the next log line into `text` and returns its level; returns 0 if there is none. */
int zkl_client_next_log(zkl_client *client, char *text, size_t size);
/* Returns the state. `problem` (ZKL_MESSAGE_SIZE bytes) and `code` say what prevents a better one. */
zkl_state zkl_client_state(zkl_client *client, char *problem, zkl_code *code);
/* Returns the figures, and until when the certificates of TLS are valid; NULL: that is not wanted. */
zkl_stats zkl_client_stats(zkl_client *client, zkl_tls_expiry *expiry);
/* The negotiated session timeout in milliseconds; 0 before the first session. */
int32_t zkl_client_session_timeout(zkl_client *client);

/* --- handles ------------------------------------------------------------------------------------------------------- */

/*
 * Each function returns a handle with one reference for the caller, or NULL if there is no memory.
 *
 * `writer` is NULL, or the handle of the writer's acquisition that is to be downgraded (see zkl_acquisition_request, whose own field
 * `writer` is ignored). `block_for` is the number of nanoseconds that the call may block for until the acquisition is decided, as in
 * zkl_client_wait; 0: the call does not block.
 */
zkl_handle *zkl_client_acquire(zkl_client *client, const zkl_acquisition_request *request, zkl_handle *writer,
                               int64_t block_for);
/* Whether there are acquisitions that their owners have not ended. */
bool zkl_client_busy(const zkl_client *client);
/* Settled when no clean-up of this client is in flight any more. */
zkl_handle *zkl_client_flush(zkl_client *client);
/* Settled when the client is closed. For zkl_handle_limit, whose notification comes in every loop. */
zkl_handle *zkl_client_timer(zkl_client *client);

/* One operation, and its watch if it has one. The handle is settled when the operation is answered. */
zkl_handle *zkl_client_operate(zkl_client *client, const zkl_operation_request *request);

/* Drops the caller's reference. An acquisition that still waits or holds is given up in the background. */
void zkl_handle_release(zkl_handle *handle);
uint64_t zkl_handle_id(const zkl_handle *handle);
zkl_client *zkl_handle_client(const zkl_handle *handle);

/* A handle's state at the time of the call. */
typedef struct {
    zkl_acquisition_phase phase; /* acquisitions */
    bool settled;                /* acquisitions: nothing is left on the server; others: answered */
    zkl_code code;
    int32_t revocations;           /* acquisitions: how often the holder was asked to release the lock */
    zkl_token token;               /* of a granted acquisition */
    char node[ZKL_NODE_NAME_SIZE]; /* name of the entry's node, relative to the path; "" if none */
    char message[ZKL_MESSAGE_SIZE];
} zkl_handle_view;

void zkl_handle_look(zkl_handle *handle, zkl_handle_view *view);
/*
 * Writes to `nodes` the names of all nodes of a granted acquisition of several permits, as zkl_acquisition_nodes does; valid as long as
 * the handle. Writes NULL for any other acquisition; it holds only by the node in the view. Returns false if there was no memory
 * for the names.
 */
bool zkl_handle_nodes(zkl_handle *handle, const char **nodes);
/* Whether the release of an acquisition is over: it is settled, or its code says why it cannot be. */
bool zkl_handle_finished(zkl_handle *handle);
/* Cheaper than the two above: whether the acquisition waits, and whether the handle is settled. */
bool zkl_handle_waits(const zkl_handle *handle);
bool zkl_handle_settled(zkl_handle *handle);
/* Whether a released acquisition is settled and was not found lost at its release. */
bool zkl_handle_released(zkl_handle *handle);
/* The path of an acquisition. */
const char *zkl_handle_path(const zkl_handle *handle);

/* Whether an acquisition holds its lock at this instant. Compares the lease with the clock; sends nothing. */
bool zkl_handle_held(zkl_handle *handle);
/* Nanoseconds for which an acquisition will certainly still hold its lock; 0 if it does not hold it, ZKL_NEVER without a lease. */
int64_t zkl_handle_remaining(zkl_handle *handle);
/*
 * Makes the grant of an acquisition end by itself in so many nanoseconds; from ZKL_NEVER / 2 on: not at all, whatever its lock spec says.
 * Returns false if the acquisition does not hold its lock at this instant.
 */
bool zkl_handle_extend(zkl_handle *handle, int64_t nanoseconds);
/* Nanoseconds for which a granted acquisition has waited for other contenders; 0 if none was before it (zkl_acquisition_view). */
int64_t zkl_handle_waited(const zkl_handle *handle);
/*
 * Ends an acquisition: releases it if granted, refuses it with ZKL_CANCELLED if waiting. Ends an operation: its caller does not
 * wait for it any more. `block_for` is as in zkl_client_acquire; the call blocks until the handle is finished (zkl_handle_finished).
 */
void zkl_handle_end(zkl_handle *handle, int64_t block_for);

/*
 * Gives the handle a deadline, unless it has an earlier one. An acquisition that waits then is refused with ZKL_TIMEOUT. The owner
 * of any other handle gets a notification, once for each deadline. Nothing happens if the handle's request is over by then.
 */
void zkl_handle_limit(zkl_handle *handle, int64_t nanoseconds);
/* Makes a notification for the handle's owner: of a result that the owner has found itself, so that there was none of it. */
void zkl_handle_call_owner(zkl_handle *handle);

/* The result of an answered operation; NULL unless it succeeded. Valid as long as the handle. */
const zkl_operation_result *zkl_handle_operation_result(const zkl_handle *handle);
/* Frees the result. The caller has read it. */
void zkl_handle_drop_result(zkl_handle *handle);
/* The index of the part for which a multi failed, from an answered operation; -1 if none. */
int32_t zkl_handle_failed_part(const zkl_handle *handle);
/* The event that an operation's watch has seen. `code` is ZKL_OK as long as the watch may still see an event. */
zkl_node_event zkl_handle_event(zkl_handle *handle, zkl_code *code);

/* --- handles that end together ------------------------------------------------------------------------------------- */

/*
 * A handle is in one group at most, until its owner ends or releases it. Unlike the rest of this file, these functions are only for
 * the thread of the handles' owner.
 */
LIST_HEAD(zkl_handle_group, zkl_handle);
/* Puts the handle into the group, out of another one. */
void zkl_group_add(struct zkl_handle_group *group, zkl_handle *handle);
/* Takes the handle out of its group, if it is in one. */
void zkl_group_remove(zkl_handle *handle);
/* Empties the group. Each handle ends as by zkl_handle_end, but its owner did not ask for it and gets a notification. */
void zkl_group_end(struct zkl_handle_group *group);

#endif
