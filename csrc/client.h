/*
 * client: one I/O thread per client, which runs the engine and owns the ZooKeeper handle.
 *
 * What a caller wants is written into a *ticket* (one claim, one question, one flush), and the ticket is put on the client's
 * list. If the I/O thread sleeps and requests may go out, the caller hands the list to the engine itself, which sends and
 * cannot block; otherwise it wakes the thread by a byte in a pipe. What comes of it is published in the ticket by the I/O
 * thread, the ticket is put on the list of news, and a byte in a second pipe makes zkl_client_fd readable. No function here
 * blocks but zkl_client_wait, what is given patience, and zkl_client_join, that one only until a thread that has already said goodbye has returned.
 *
 * Any thread may call anything here. After a fork the child may call anything too and is told ZKL_FORKED: the thread did not
 * come along, and nothing of the parent's session is touched.
 */
#ifndef ZKLOCK_CLIENT_H
#define ZKLOCK_CLIENT_H

#include "engine.h"

typedef struct zkl_client zkl_client;
typedef struct zkl_ticket zkl_ticket;

typedef struct {
    const char *servers;
    int32_t session_timeout_ms;
    bool lease;
    bool log; /* collect log lines for zkl_client_next_log; otherwise they are dropped */
    const zkl_auth *auths;
    int32_t auth_count;
} zkl_client_options;

/* Room for any message that comes with a code. */
#define ZKL_MESSAGE_SIZE 512

/*
 * Starts a client with one reference. It begins to connect at once; nothing is waited for. NULL when the system refuses
 * memory, pipes or a thread; `message` (ZKL_MESSAGE_SIZE) then says which.
 */
zkl_client *zkl_client_open(const zkl_client_options *options, char *message);

/* Begins the end: see zkl_engine_close. The state becomes ZKL_STATE_CLOSED when the goodbye is said. Idempotent. */
void zkl_client_close(zkl_client *client);
/* Once closed: waits for the thread to be gone for good. Idempotent. */
void zkl_client_join(zkl_client *client);
/* Drops the reference, closing the client if it is still open. */
void zkl_client_release(zkl_client *client);

/* Whether this is a child of the process that opened the client. */
bool zkl_client_forked(const zkl_client *client);
/* Readable while there is something for zkl_client_next or zkl_client_next_log, or the state has changed. */
int zkl_client_fd(const zkl_client *client);
/*
 * The same by way of a unix stream socket that the caller connects (doorbell.c): listen writes its path into `path`, or what
 * is wrong when the answer is false. accept takes the connection once it is there, and removes the path; false when it is not
 * there. From then on the connection gets the bytes for news in place of zkl_client_fd; the caller looks for news once, for
 * what came before. Both may be called again, for another connection. ring sends such a byte for nothing.
 */
bool zkl_client_listen(zkl_client *client, char *path, size_t size);
bool zkl_client_accept(zkl_client *client);
bool zkl_client_ring(zkl_client *client);
/*
 * Waits, for so many nanoseconds at most, until there is something for zkl_client_next, or a signal arrives; may return for
 * nothing. Meanwhile the calling thread does the I/O thread's work, where that cannot block (helm.c).
 */
void zkl_client_wait(zkl_client *client, int64_t nanoseconds);
/*
 * For who cannot wait any longer: hands the engine what has been asked for. Does so for certain while there is a connection, whatever
 * the I/O thread does at the moment, which may take moments; what can be answered without a request is answered then.
 */
void zkl_client_catch_up(zkl_client *client);
/* Whether there is something for zkl_client_next. */
bool zkl_client_has_news(zkl_client *client);
/*
 * The next ticket with news: its id, or 0 when there is none left, which makes the fd unreadable; `changed` then says whether
 * there are log lines, or the state may have changed, and did not when this last said 0.
 */
uint64_t zkl_client_next(zkl_client *client, bool *changed);
/* The next log line into `text`; its level is returned, 0 when there is none. */
int zkl_client_next_log(zkl_client *client, char *text, size_t size);
/* The state, and what stands in the way of a better one: `problem` has ZKL_MESSAGE_SIZE. */
zkl_state zkl_client_state(zkl_client *client, char *problem, zkl_code *code);
zkl_stats zkl_client_stats(zkl_client *client);
/* The negotiated session timeout in milliseconds, 0 before there was one. */
int32_t zkl_client_session_timeout(zkl_client *client);

/* --- tickets ------------------------------------------------------------------------------------------------------- */

/*
 * Each returns a ticket with one reference for the caller, or NULL when memory is short. `writer` is the ticket of the claim
 * beside which a reader may join (zkl_claim_request; its own field `writer` is not looked at), or NULL. `patience` is for how
 * many nanoseconds the caller may be blocked until the claim is decided, as by zkl_client_wait; 0: not at all.
 */
zkl_ticket *zkl_client_claim(zkl_client *client, const zkl_claim_request *request, zkl_ticket *writer,
                             int64_t patience);
/* Whether there are claims that their owners have not ended. */
bool zkl_client_busy(const zkl_client *client);
zkl_ticket *zkl_client_contenders(zkl_client *client, const char *path, bool identities);
/* Done when no clean-up of this client is in flight any more. */
zkl_ticket *zkl_client_flush(zkl_client *client);

/* One operation, and the watch that comes with it; its view is settled when it is answered. */
zkl_ticket *zkl_client_operate(zkl_client *client, const zkl_operation_request *request);

/* Drops the caller's reference. A claim that still waits or holds is given up, in the background. */
void zkl_ticket_release(zkl_ticket *ticket);
uint64_t zkl_ticket_id(const zkl_ticket *ticket);
zkl_client *zkl_ticket_client(const zkl_ticket *ticket);

/* A ticket's news as of now. */
typedef struct {
    zkl_claim_phase phase; /* claims */
    bool settled;          /* claims: nothing is left on the server. Questions and flushes: answered */
    zkl_code code;
    int32_t revocations;           /* claims: how often others have asked for it */
    zkl_token token;               /* of a claim that was granted */
    char node[ZKL_NODE_NAME_SIZE]; /* its name, relative to the path; "" if none */
    char message[ZKL_MESSAGE_SIZE];
} zkl_ticket_view;

void zkl_ticket_look(zkl_ticket *ticket, zkl_ticket_view *view);
/*
 * A granted claim of several permits: all nodes by which it holds, as of zkl_claim_nodes; valid as long as the ticket. NULL for any
 * other, which holds by the view's node alone. False when there was no memory for them.
 */
bool zkl_ticket_nodes(zkl_ticket *ticket, const char **nodes);
/* Nothing more is to be expected of a claim's release: it is settled, or there is a reason why it cannot be. */
bool zkl_ticket_finished(zkl_ticket *ticket);
/* Two parts of that, for less. */
bool zkl_ticket_waits(const zkl_ticket *ticket);
bool zkl_ticket_settled(zkl_ticket *ticket);
/* A released claim is settled, and was not found lost at its release. */
bool zkl_ticket_released(zkl_ticket *ticket);
const char *zkl_ticket_path(const zkl_ticket *ticket);

/* A claim: whether it holds at this very instant. Compares the lease with the clock here and now; sends nothing. */
bool zkl_ticket_held(zkl_ticket *ticket);
/* A claim: nanoseconds that it will surely still hold; 0 when it does not, ZKL_NEVER without a lease. */
int64_t zkl_ticket_remaining(zkl_ticket *ticket);
/*
 * A claim: gives it back if granted, gives it up with ZKL_CANCELLED if waiting. An operation: nobody waits for it any more.
 * `patience` as of zkl_client_claim, here until it is finished.
 */
void zkl_ticket_end(zkl_ticket *ticket, int64_t patience);

/* An answered question for contenders: who, in queue order. Valid as long as the ticket. */
const zkl_contender *zkl_ticket_contenders(const zkl_ticket *ticket, int32_t *count);

/* An answered operation: what came of it, NULL unless it succeeded. Valid as long as the ticket. */
const zkl_operation_result *zkl_ticket_operation_result(const zkl_ticket *ticket);
/* The caller has read it and needs it no more. */
void zkl_ticket_drop_result(zkl_ticket *ticket);
/* An answered operation: the index of the part for which a multi failed, or -1. */
int32_t zkl_ticket_failed_part(const zkl_ticket *ticket);
/* An operation's watch: what it has seen. `code` is ZKL_OK as long as it may still see something. */
zkl_node_event zkl_ticket_event(zkl_ticket *ticket, zkl_code *code);

/* --- scopes -------------------------------------------------------------------------------------------------------- */

/*
 * The claims of one nginx request, which end with it. scope.c says who owns what. Unlike the rest of this file, these are for the
 * one thread that runs the request and owns the tickets.
 */
typedef struct zkl_scope zkl_scope;

/* A new scope of an nginx request, with one reference for the caller; NULL where there is no such thing, or no memory. */
zkl_scope *zkl_scope_open(void *request);
/* Drops the caller's reference. The scope goes on until its request ends. */
void zkl_scope_release(zkl_scope *scope);
/* Its request; NULL once that has ended. */
void *zkl_scope_request(const zkl_scope *scope);
/*
 * Reads the number that nginx's Lua module has for the request at present; false once the request has ended. The number changes
 * when nginx redirects the request internally, and the module starts anew.
 */
bool zkl_scope_context(const zkl_scope *scope, int32_t *context);
/* Has a claim end with the scope: it is given back if granted, given up if waiting. At once, if the scope has ended. */
void zkl_scope_add(zkl_scope *scope, zkl_ticket *ticket);
/* Takes a claim out of its scope, if it is in one. */
void zkl_scope_remove(zkl_ticket *ticket);

/* The clock of leases, in nanoseconds: counts while the machine sleeps, where the system has such a clock. */
int64_t zkl_clock(void);

#endif
