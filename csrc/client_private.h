/*
 * What the client's files share with each other and with nobody else.
 *
 *   client.c    the I/O thread; opening, closing and looking at a client
 *   ticket.c    what callers ask for, and what they are told
 *   ticket_operation.c  the same for reads and writes of the program's own, and their watches
 *   registry.c  all open clients of the process: for exit() and fork()
 *   doorbell.c  the socket that nginx gets in place of the pipe for news
 *   scope.c     the claims of one nginx request, which end with it
 *   helm.c      who waits for the server: the I/O thread, or a caller that has to wait anyway
 *   xid.c       the numbers that the C client gives to requests, of all clients of the process
 *
 * Who may touch what:
 *   - what stands under "engine" in the two structs, engine claims, and the engine itself: whoever holds engine_mutex. The I/O
 *     thread holds it all the time but while it sleeps in poll. A caller that finds it free hands its wish to the engine
 *     itself, which sends at once and cannot block; that saves waking the I/O thread only to have it send (it is polling
 *     the socket for the reply already). A caller that finds it taken leaves its wish on the list and writes a byte. A caller
 *     that blocks may do the I/O thread's work while it waits (helm.c);
 *   - what stands under "shared": whoever holds client->mutex;
 *   - a ticket's place in a scope: the thread that its owner runs on;
 *   - atomics: anybody.
 * engine_mutex is taken before mutex, never after. A ticket is referenced by its caller and, until nothing more can come of
 * it, by the engine's side; it references its client.
 */
#ifndef ZKLOCK_CLIENT_PRIVATE_H
#define ZKLOCK_CLIENT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "client.h"
#include "memory.h"

/* Lines of the C client's that are remembered, not to repeat them. */
#define RECENT_LINES 4

/* What the I/O thread is asked to do with a ticket; done in this order. */
enum {
    TODO_START = 1 << 0,
    TODO_LAPSED = 1 << 1,
    TODO_END = 1 << 2,
    TODO_FORGET = 1 << 3
};

typedef enum {
    TICKET_CLAIM,
    TICKET_CONTENDERS,
    TICKET_FLUSH,
    TICKET_OPERATION
} ticket_kind;

/* Who polls the C client's socket. */
typedef enum {
    HELM_THREAD, /* the I/O thread */
    HELM_CALLER, /* a caller in zkl_client_wait */
    HELM_LEFT    /* such a caller a moment ago, and probably soon again; the I/O thread if not */
} zkl_helm;

TAILQ_HEAD(ticket_list, zkl_ticket);

/* What only questions, operations and flushes have. */
typedef struct {
    char *path;
    zkl_operation *request;    /* an operation that has not been given to the engine yet */
    zkl_operation *operation;  /* engine */
    zkl_contender *contenders; /* constant once settled */
    int32_t contender_count;
    bool identities;              /* contenders: with who they are */
    zkl_operation_result *result; /* constant once settled */
    int32_t failed_part;
    zkl_node_event event; /* what its watch has seen */
    zkl_code watch_code;  /* why its watch will see nothing any more */
} zkl_question;

struct zkl_ticket {
    zkl_client *client;
    uint64_t id;
    ticket_kind kind;
    _Atomic int32_t references;

    /* claims; for zkl_engine_claim but for the terms */
    zkl_terms *terms;
    zkl_ticket *writer; /* beside whose claim it may join; a reference of ours */
    int32_t count;
    bool try_only;
    bool hasty;

    /* read by zkl_ticket_held without the mutex */
    _Atomic bool lapsed;
    _Atomic bool over; /* the engine's side has let go of it */
    _Atomic int32_t phase;

    int32_t revocations; /* shared */
    _Atomic int64_t hold_until;

    /* engine */
    TAILQ_ENTRY(zkl_ticket) all;
    TAILQ_ENTRY(zkl_ticket) dying; /* in client->dying, or client->flushes */
    zkl_claim *claim;
    bool ended; /* by its owner */
    bool dead;  /* in client->dying, or was */

    /* shared */
    bool has_news;
    bool behind; /* it waits for another claim of this client, whose node it will have */
    _Atomic bool settled;
    uint8_t todo;
    int16_t code; /* a zkl_code */
    TAILQ_ENTRY(zkl_ticket) in_todo;
    TAILQ_ENTRY(zkl_ticket) in_news;
    char *message;
    zkl_token token;
    char *node;  /* the name of its own; NULL: none yet */
    char *ahead; /* the name of the node that it waits for; NULL: none */
    char *nodes; /* of a grant of several permits, as of zkl_claim_nodes; once there, constant */

    zkl_question *question; /* NULL: a claim */

    /* the owner's thread, see scope.c */
    zkl_scope *scope; /* which ends this claim when it ends; NULL: none */
    LIST_ENTRY(zkl_ticket) in_scope;
};

typedef struct {
    int level;
    char text[256];
} log_line;

struct zkl_client {
    _Atomic int32_t references;
    uint32_t forks; /* what zkl_registry_forks was when it was opened */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t gone;  /* signalled when `exited` becomes true */
    int wake_pipe[2];     /* callers write, the I/O thread reads */
    int news_pipe[2];     /* the I/O thread writes, callers read */
    _Atomic int doorbell; /* the socket that takes the place of news_pipe, or -1; once there, stays until the end */
    _Atomic int32_t open_claims; /* that their owners have not ended */
    _Atomic int64_t lease_until;
    TAILQ_ENTRY(zkl_client) open; /* in the registry */

    /* engine */
    pthread_mutex_t engine_mutex;
    zkl_engine *engine;     /* NULL once the thread has ended */
    int64_t sleeping_until; /* what the I/O thread's poll was given */
    struct ticket_list tickets;
    struct ticket_list flushes;
    struct ticket_list dying;
    int64_t close_by;
    int64_t helm_left_at;
    zkl_helm helm;
    int alarm;  /* a timer that wakes the I/O thread when a caller has left the helm and not come back; or -1 */
    int socket; /* the C client's, as of the latest zkl_engine_prepare, or -1 */
    struct recent_line {
        int64_t at;
        char text[128];
    } recent[RECENT_LINES];
    uint32_t next_recent;
    bool corked; /* what is sent to the socket waits until the turn is over */
    bool closing;
    bool alarm_set; /* `alarm` will wake the I/O thread, or has */

    /* shared */
    struct ticket_list todo;
    struct ticket_list news_list;
    const zkl_ticket *quiet; /* no news: its owner is the caller, and will look at it */
    uint64_t last_id;
    bool close_wanted;
    bool woken;     /* a byte is in wake_pipe */
    bool news;      /* there is some that no byte was written for */
    bool announced; /* a byte is in news_pipe */
    bool changed;   /* the state, or there are log lines, and zkl_client_next has not said so */
    bool exited;
    bool joined;
    bool unread;                 /* nobody will ask for news any more */
    int listener;                /* for the doorbell to be connected; -1 if it is not waited for */
    char doorbell_directory[96]; /* where that is; "" if it is not */
    zkl_state state;
    zkl_code problem_code;
    char problem[256];
    zkl_stats stats;
    int32_t timeout_ms;
    log_line *lines;
    int32_t first_line, line_count;
};

/* registry.c ------------------------------------------------------------------------------------------------------- */

/* Once a process: exit() and fork() will find the clients. */
void zkl_registry_start(void);
void zkl_registry_add(zkl_client *client);
/* Harmless when it is not there any more. */
void zkl_registry_remove(zkl_client *client);
/* How many forks lie between this process and the one that loaded the module. */
uint32_t zkl_registry_forks(void);

/* xid.c ------------------------------------------------------------------------------------------------------------ */

/* The level of the C client's log, which is one for the process. Below it, every connection and every request has a line. */
#define ZKL_ZOOKEEPER_LOG_LEVEL ZOO_LOG_LEVEL_WARN

/* Before and after each call of the C client that makes a request, on one thread. In between nothing may wait. Any thread. */
void zkl_xid_begin(void);
void zkl_xid_end(void);
/* A line of the C client's log below that level, made on this thread. */
void zkl_xid_read(const char *text);
/* In the child of a fork, on its only thread. */
void zkl_xid_forked(void);

/* ticket.c --------------------------------------------------------------------------------------------------------- */

/* The client and ticket functions below that say so want client->mutex held. */

/* Drops one reference, and frees it with the last. */
void zkl_ticket_drop(zkl_ticket *ticket);
/* Mutex held. A question or a flush is answered; the I/O thread will not come back to it. */
void zkl_ticket_answer(zkl_ticket *ticket, zkl_code code, const char *message);
/* engine_mutex held. The engine's side lets go of a ticket. */
void zkl_ticket_let_go(zkl_ticket *ticket);
/* engine_mutex held. Hands the engine everything that callers have asked for. */
void zkl_tickets_run(zkl_client *client);
/* engine_mutex held, not from within the engine. Lets go of the claims of which nothing more will come. */
void zkl_tickets_bury(zkl_client *client);
/* engine_mutex held. Answers the flushes if there is nothing left to wait for. */
void zkl_tickets_finish_flushes(zkl_client *client);
/* engine_mutex held, the engine is gone: whoever asks is told so. */
void zkl_tickets_abandon(zkl_client *client);
/* The engine's host callback. */
void zkl_ticket_claim_changed(void *context, zkl_claim *claim);

/* Mutex held. Puts the ticket on the list of news, once. */
void zkl_ticket_announce(zkl_ticket *ticket);
/* A ticket with one reference for what is no claim; NULL when memory is short. */
zkl_ticket *zkl_ticket_ask(zkl_client *client, ticket_kind kind, const char *path);
/* Hands a new ticket to the engine, or answers it here when there is none any more; `patience` as of zkl_client_claim. */
zkl_ticket *zkl_ticket_submit(zkl_ticket *ticket, int64_t patience);
/* engine_mutex held, the engine knows all that its owner has asked for: whether the answer to that is there. */
bool zkl_ticket_decided(const zkl_ticket *ticket);

/* doorbell.c ------------------------------------------------------------------------------------------------------- */

/* Mutex held, or nobody else knows the client. Removes what zkl_client_listen has made. */
void zkl_doorbell_forget(zkl_client *client);

/* scope.c ---------------------------------------------------------------------------------------------------------- */

/* As zkl_ticket_end, but not at the owner's word: the owner has news of it. In ticket.c. */
void zkl_ticket_cut(zkl_ticket *ticket);

/* ticket_operation.c ----------------------------------------------------------------------------------------------- */

/* engine_mutex held. Does for an operation's ticket what callers have asked for. */
void zkl_ticket_operate(zkl_ticket *ticket, unsigned todo, int64_t now);
/* Frees what only an operation's ticket has. */
void zkl_ticket_drop_operation(zkl_ticket *ticket);

/* helm.c ----------------------------------------------------------------------------------------------------------- */

/* The I/O thread, engine_mutex held: sleeps until there is something to do, without the mutex, and does it. */
void zkl_helm_sleep(zkl_client *client, const zkl_poll *wanted);
/*
 * Sees to it that the engine learns of what is on the list: here and now if the I/O thread sleeps and nothing can block,
 * otherwise by waking it. The caller looks at the ticket `subject` afterwards anyway: if the answer is there at once, it is no
 * news. NULL: none. For `patience` nanoseconds the caller may be blocked until it is there: then it does what zkl_client_wait does.
 */
void zkl_client_serve(zkl_client *client, const zkl_ticket *subject, int64_t patience);

/* client.c --------------------------------------------------------------------------------------------------------- */

/* Wakes the I/O thread. */
void zkl_client_wake(zkl_client *client);
/* The I/O thread: it has been woken. */
void zkl_client_awake(zkl_client *client);
/* Milliseconds for poll from now until an instant; -1 for ZKL_NEVER. */
int zkl_poll_timeout(int64_t until);
/*
 * engine_mutex held. Everything that is due, and what to wait for after it. `by_caller`: not by the I/O thread; then no byte is
 * written for the news, and if there is no connection the rest is left to that thread, since it may block: false.
 */
bool zkl_client_turn(zkl_client *client, zkl_poll *wanted, bool by_caller);
/* engine_mutex held. The end of a turn that has nothing else to do: what was sent goes out, and callers may see what changed. */
void zkl_client_end_turn(zkl_client *client, bool silently);
/* Whose log lines the C client's are, on this thread, from now on; returns whose they were. */
zkl_client *zkl_client_speaks(zkl_client *client);
void zkl_client_drop(zkl_client *client);
/*
 * Mutex held; unlocks it, and then wakes the I/O thread if it needs that: a byte that is written before would have it run into
 * the locked mutex. One byte is enough until it has been read.
 */
void zkl_client_unlock_and_wake(zkl_client *client);

#endif
