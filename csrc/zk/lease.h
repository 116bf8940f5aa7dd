/*
 * lease: how long the session certainly exists. A value: answers go in, instants come out. It sends nothing and calls nobody.
 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

#include "base/base.h"

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

/* Whether each instant at which the timer was restarted became known in time after the one before. */
typedef enum {
    ZKL_CHAIN_BROKEN =
        0,            /* set by zkl_lease_date_answers: one became known too late. Also the state before any session */
    ZKL_CHAIN_BEGINS, /* set by zkl_lease_connected, with an earlier session: the connection itself is not dated yet */
    ZKL_CHAIN_SOUND /* set by zkl_lease_connected, with a new session, by zkl_lease_date_answers and by zkl_lease_answered */
} zkl_chain_state;

/* How many pairs of answers are remembered. */
#define ZKL_HEARD 32

/*
 * When the leader restarted the session's timer, as far as the present connection proves it. ZKL_LONG_AGO: no such
 * instant is known.
 */
typedef struct {
    int64_t first; /* when the latest answered request was sent */
    struct zkl_heard {
        int64_t first;  /* A pair of requests: one was sent at this instant, the other after the answer to it. */
        int64_t since;  /* Both were answered by this instant. ZKL_NEVER: not yet. */
    } heard[ZKL_HEARD]; /* Ring buffer of some of these pairs. */
    int64_t reported;   /* The follower has reported a request of this instant, or a later one. */
    int64_t arrived;    /* Such a report has arrived at the leader. */
    int64_t proven;     /* The same, and a quorum write was acknowledged afterwards. Not dated yet. */
    /* The leader restarted the timer at this instant or later, if the follower's leader is the leader. */
    int64_t restarted_at;
    int64_t unbroken_since; /* since then each restart became known less than 9T/10 after the one before */
    zkl_chain_state state;
    int32_t heard_count; /* how many pairs were ever written to `heard` */
} zkl_chain;

/* The lease of a session. lease.c writes it, and session.c `until`. */
typedef struct {
    bool required;         /* Grants need a lease. */
    int64_t timeout;       /* The least session timeout that was negotiated in this session; 0 before there was one. */
    int64_t until;         /* The end of the lease. 0: there is none. ZKL_NEVER: grants need none. */
    int64_t awaited_since; /* Since then an item waits for a lease. ZKL_NEVER: none does. */
    /* The session existed at this instant or later: its latest acknowledged quorum write was sent then. */
    int64_t alive_at;
    int64_t restarted_at; /* Proven: the leader restarted the session's timer at this instant or later. */
    zkl_chain chain;      /* The same, as far as this connection alone proves it. */
} zkl_lease;

/* Begins without a lease. `required`: grants need one. */
void zkl_lease_init(zkl_lease *lease, bool required);
/* Returns whether grants are valid: there is a lease, or none is required. */
bool zkl_lease_valid(const zkl_lease *lease, int64_t now);
/* Returns whether there was a lease, which has ended. */
bool zkl_lease_lapsed(const zkl_lease *lease, int64_t now);
/* An item needs a lease for its grant. */
void zkl_lease_await(zkl_lease *lease, int64_t now);
/* No item does any more. */
void zkl_lease_await_no_more(zkl_lease *lease);
/* Returns whether an item waits for a lease. */
static inline bool zkl_lease_awaited(const zkl_lease *lease)
{
    return lease->awaited_since != ZKL_NEVER;
}
/*
 * Returns the instant at which an item will have waited for a lease for so long that a new session should replace this one, so that
 * other clients do not wait for it; ZKL_NEVER: no item waits.
 */
int64_t zkl_lease_waits_until(const zkl_lease *lease);

/* Returns what the answer to a request that is about to be sent will prove. */
zkl_evidence zkl_lease_evidence(const zkl_lease *lease, zkl_proof proof, int64_t now);
/* A request that was sent at this instant, with this evidence, was answered with ZOK. */
void zkl_lease_answered(zkl_lease *lease, zkl_proof proof, int64_t sent_at, const zkl_evidence *evidence);
/* Dates the answers since the last turn. To be called early in each turn. Returns whether they prove a later restart. */
bool zkl_lease_date_answers(zkl_lease *lease, int64_t now);
/* A quorum write has been acknowledged: the session existed when the write was sent. */
void zkl_lease_prove(zkl_lease *lease, int64_t sent_at);
/* Returns the end of the lease as far as it is proven by now. If it is later than `until`, the lease can be extended. */
int64_t zkl_lease_proven_until(const zkl_lease *lease);
/*
 * A connection is established, whose handshake was sent at the instant `at` or later. `timeout`: the least that was negotiated in this
 * session, by which a server may grant more on a later connection, but a new leader begins with the first one's. `fresh`: with a new session. Returns the instant at which the lease ends now at the latest.
 */
int64_t zkl_lease_connected(zkl_lease *lease, int64_t timeout, int64_t at, bool fresh, int64_t now);

/*
 * Returns whether the leader may have taken the session out already, so that it is about to end: a new session would be certain
 * sooner. Soon after a connection it may not be decided yet (ZKL_CHAIN_BEGINS).
 */
bool zkl_lease_doubtful(const zkl_lease *lease, int64_t now);
/*
 * Returns whether an item waits for a lease that the next heartbeat alone extends: it is certain that the leader has restarted
 * the session's timer a short while ago.
 */
bool zkl_lease_lacks_heartbeat_only(const zkl_lease *lease, int64_t now);
/* When requests of their own should go out, in nanoseconds, to extend the lease in time. `took`: the latest round trips. */
int64_t zkl_lease_speak_every(const zkl_lease *lease);
int64_t zkl_lease_round_every(const zkl_lease *lease, int64_t took, bool often);

#endif
