/*
 * lease: how long the session certainly exists.
 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

#include <sys/queue.h>

#include "base/base.h"

typedef struct zkl_session zkl_session;
typedef struct zkl_request zkl_request;

/* An instant before all others: none is known. */
#define ZKL_LONG_AGO (INT64_MIN / 2)

/* An answer with ZOK proves this of the way that its request has taken. */
typedef enum {
    ZKL_PROOF_NONE,     /* Nothing: a read, or a request that may be one. */
    ZKL_PROOF_LEADER,   /* The server that answered has asked the leader, or is the leader. */
    ZKL_PROOF_QUORUM,   /* A majority of the servers has acknowledged the request. */
    ZKL_PROOF_HEARTBEAT /* The same, for the check of our own nodes. */
} zkl_proof;

/* A request's answer will prove these instants. They are known when the request is sent. */
typedef struct {
    int64_t first;    /* A request that was sent at this instant had been answered. */
    int64_t reported; /* If a leader answers: its follower has reported a request of this instant, or a later one. */
    int64_t arrived;  /* If a leader answers: such a report has arrived at the leader. */
} zkl_evidence;

/*
 * Whether each instant at which the timer was restarted became known in time after the one before. docs/design.md has the
 * table of the transitions.
 */
typedef enum {
    ZKL_CHAIN_BROKEN =
        0,            /* set by zkl_lease_date_answers: one became known too late. Also the state before any session */
    ZKL_CHAIN_BEGINS, /* set by zkl_lease_connected, with an earlier session: the connection itself is not dated yet */
    ZKL_CHAIN_SOUND /* set by zkl_lease_connected, with a new session, by zkl_lease_date_answers and by zkl_lease_answered */
} zkl_chain_state;

/*
 * When the leader restarted the session's timer, as far as the present connection proves it. ZKL_LONG_AGO: no such
 * instant is known.
 */
typedef struct {
    int64_t first; /* when the latest answered request was sent */
    struct zkl_heard {
        int64_t first; /* A pair of requests: one was sent at this instant, the other after the answer to it. */
        int64_t since; /* Both were answered by this instant. ZKL_NEVER: not yet. */
    } heard[32];       /* Ring buffer of some of these pairs. */
    int64_t reported;  /* The follower has reported a request of this instant, or a later one. */
    int64_t arrived;   /* Such a report has arrived at the leader. */
    int64_t proven;    /* The same, and a quorum write was acknowledged afterwards. Not dated yet. */
    /* The leader restarted the timer at this instant or later, if the follower's leader is the leader. */
    int64_t restarted_at;
    int64_t round_began;    /* Start of the latest round of requests. */
    int64_t unbroken_since; /* since then each restart became known less than 9T/10 after the one before */
    zkl_chain_state state;
    int32_t heard_count; /* how many pairs were ever written to `heard` */
    bool round_over;     /* a round has ended, and its end is not dated yet; the next round may have begun meanwhile */
} zkl_chain;

/* The state of an item, as the lease sees it. */
typedef enum {
    ZKL_ITEM_NONE,    /* It has no node, or its node does not matter any more. */
    ZKL_ITEM_PENDING, /* Its node may be being created. */
    ZKL_ITEM_PRESENT, /* It has a node, which heartbeats check. */
    ZKL_ITEM_HELD     /* A grant depends on its node, or will: each heartbeat verifies that the node is still ours. */
} zkl_item_state;

/* The description of an item for heartbeats. Valid until the item changes. */
typedef struct {
    zkl_item_state state;
    uint32_t generation; /* grows when replies to earlier requests must not count any more */
    bool needs_lease;    /* it waits for a lease */
    bool any_czxid;      /* its own node is known by the session alone: no other client has it */
    const char *path;    /* NULL: it has no node */
    int64_t czxid;       /* its node's */
} zkl_item;

/* The items that heartbeats check, and what is done with them. */
typedef struct {
    /* Returns the owner's item behind `item`, the first one if that is NULL; NULL: there is none. */
    void *(*next)(const void *owner, void *item);
    zkl_item (*describe)(const void *item);
    /* A heartbeat points to the item, or does not any more: until then its memory stays. */
    void (*keep)(void *item);
    void (*release)(void *item);
    /* Its node was deleted externally. */
    void (*deleted)(void *item);
    /* Another node has the name of its own, which must therefore be gone. */
    void (*replaced)(void *item);
} zkl_lease_items;

/* Loops over all items of the session. */
#define ZKL_FOREACH_ITEM(item, session)                                                                                \
    for ((item) = (session)->lease.items->next((session)->lease.items_owner, NULL); (item) != NULL;                    \
         (item) = (session)->lease.items->next((session)->lease.items_owner, (item)))

TAILQ_HEAD(zkl_checks_list, zkl_checks);

/* The lease of a session. lease.c and heartbeat.c write it; session.c schedules its probe by check_at and checks_flying. */
typedef struct {
    const zkl_lease_items *items;
    void *items_owner;
    bool required;            /* Grants need a lease. */
    bool no_witness;          /* "/" may not be read, or does not exist. */
    int64_t until;            /* The end of the lease. 0: there is none. ZKL_NEVER: grants need none. */
    int64_t check_at;         /* Next round of heartbeats, or the next probe. */
    int64_t confirming_since; /* Since then an item waits for a lease. ZKL_NEVER: none does. */
    /* The session existed at this instant or later: its latest acknowledged quorum write was sent then. */
    int64_t alive_at;
    int64_t restarted_at; /* Proven: the leader restarted the session's timer at this instant or later. */
    zkl_chain chain;      /* The same, as far as this connection alone proves it. */
    /* The layers above write these three: they are lost with the session. */
    int32_t nodes;           /* Items that have a node on the server, as far as known. */
    int32_t program_watches; /* Watches of the program. */
    bool own_ephemerals;     /* The program may have ephemeral nodes in this session. */
    /* heartbeat.c */
    struct zkl_checks_list checks; /* heartbeats that wait for an answer or for verifications */
    int32_t checks_flying; /* Number of these heartbeats, of a round's other requests in flight, and of probes. */
    int32_t verifications_flying; /* verifications of held nodes in flight, which follow heartbeats */
    zoo_op_t witness;             /* the operation of the WITNESS request in flight */
    zoo_op_result_t witness_result;
} zkl_lease;

/* Begins without a lease. `required`: grants need one. */
void zkl_lease_init(zkl_session *session, bool required);
/* Names the items that heartbeats check. Their owner is passed to `next`. To be called once, before the first turn. */
void zkl_lease_use_items(zkl_session *session, const zkl_lease_items *items, void *owner);
/* The session is over, and the lease with it. */
void zkl_lease_end(zkl_session *session);
/* A quorum write has been acknowledged: the session existed when the write was sent. */
void zkl_lease_prove(zkl_session *session, int64_t sent_at);
/* Returns whether grants are valid now: there is a lease, or none is required. */
bool zkl_lease_valid(const zkl_session *session);
/* Returns whether something more may be granted by an existing node without a request. */
bool zkl_lease_covers_more(const zkl_session *session);
/* An item needs a lease for its grant: `leased` tells when there is one. The next heartbeat is due at once. */
void zkl_lease_want(zkl_session *session);
/* Makes the next heartbeat due at once. */
void zkl_lease_want_now(zkl_session *session);
/* Makes the next heartbeat due after the usual time. */
void zkl_lease_rest(zkl_session *session);
/* Returns what the answer to a request that is about to be sent will prove. */
zkl_evidence zkl_lease_evidence(const zkl_session *session, zkl_proof proof);
/* Notes that the request was answered with ZOK. */
void zkl_lease_answered(const zkl_request *request);
/* Dates the answers since the last turn. To be called early in each turn. */
void zkl_lease_date_answers(zkl_session *session);
/* A connection is established, and its session timeout may be another one. `fresh`: with a new session. */
void zkl_lease_connected(zkl_session *session, bool fresh);
/* Returns whether a new session should be opened before an item gets its node: the present one may be about to end. */
bool zkl_lease_wants_session(const zkl_session *session);
/*
 * Returns whether an item has needed a lease for so long that a new session should replace this one, so that
 * other clients do not wait for it.
 */
bool zkl_lease_waits_in_vain(zkl_session *session);
/* Returns when the lease ends and something is lost with it. */
int64_t zkl_lease_lapses_at(const zkl_session *session);
/* Returns when answers must be dated, or the session may have to be replaced. */
int64_t zkl_lease_decides_at(const zkl_session *session);
/* Returns the instant from which on that is possible; ZKL_NEVER: no item needs a lease. */
int64_t zkl_lease_waits_until(const zkl_session *session);
/* Returns whether no item should get its node now, since the session may be about to end. */
bool zkl_lease_holds_back(const zkl_session *session);
/* Ends grants that outlived their lease: they are lost for good. */
void zkl_lease_lapse(zkl_session *session);
/*
 * Returns whether an item waits for a lease that the next heartbeat alone extends: it is certain that the leader has restarted
 * the session's timer a short while ago.
 */
bool zkl_lease_lacks_heartbeat_only(const zkl_session *session);
/* Returns whether the session has, or may get, anything that a new session would not have. */
bool zkl_lease_has_something(const zkl_session *session);

#endif
