/*
 * heartbeat: the requests that keep the session alive and its lease valid, and what of value the session has.
 */
#ifndef ZKLOCK_HEARTBEAT_H
#define ZKLOCK_HEARTBEAT_H

#include "wire.h"

/*
 * The most nodes that one heartbeat checks, in turn. A client that has more of them guards those it holds: see heartbeat.c.
 */
#define ZKL_USUAL_CHECKS 256
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_CHECKS zkl_most_checks
/* The value of ZKL_MAX_CHECKS, so that the simulation can reach it. */
extern int32_t zkl_most_checks;
#else
#define ZKL_MAX_CHECKS ZKL_USUAL_CHECKS
#endif

typedef struct zkl_heartbeat {
    zkl_wire *wire;
    /* A quorum write has been acknowledged that was sent at this instant: what zkl_lease_prove has to be told. */
    void (*proved)(void *owner, int64_t sent_at);
    void *proved_owner;
    int64_t check_at;    /* Next round, or the next probe. */
    int64_t round_began; /* Start of the latest round of requests. */
    bool round_over;     /* a round has ended, and its end is not dated yet; the next round may have begun meanwhile */
    bool no_witness;     /* "/" may not be read, or does not exist. */
    struct zkl_item_list turn;  /* Items whose nodes matter, the first to be checked at the head. */
    struct zkl_item_list loose; /* Those of them that are READY or HELD and not guarded, the latest at the tail. */
    /* What is lost with the session. */
    int32_t pending; /* PENDING items */
    int32_t nodes;   /* Items that have a node on the server, as far as known: LEAVING and the states behind it. */
    int32_t ready;   /* READY items */
    int32_t program_watches;   /* Watches of the program. ops/ counts them. */
    bool own_ephemerals;       /* The program may have ephemeral nodes in this session. Set by ops/. */
    uint32_t round;            /* The number of the latest round. */
    uint8_t visits;            /* The first number of visits of the next item. */
    struct zkl_checks *checks; /* The heartbeat that waits for its answer or for verifications; NULL: none does. */
    /* Number of these heartbeats, of a round's other requests in flight, and of the session's probes, which count here. */
    int32_t checks_flying;
    int32_t verifications_flying; /* reads of held nodes in flight, which follow the heartbeat */
    zoo_op_t witness;             /* the operation of the last request of a round, in flight */
    zoo_op_result_t witness_result;
} zkl_heartbeat;

/* `proved` is called with `owner`. */
void zkl_heartbeat_init(zkl_heartbeat *heartbeat, zkl_wire *wire, void (*proved)(void *owner, int64_t sent_at),
                        void *owner);
/* The item enters another state. In zeroed memory it is NONE. */
void zkl_heartbeat_enter(zkl_heartbeat *heartbeat, zkl_item *item, zkl_item_state state);

/* A connection is established. `fresh`: with a new session. */
void zkl_heartbeat_connected(zkl_heartbeat *heartbeat, bool fresh);
/* A connection is lost, or may be: what it guarded is guarded no more. */
void zkl_heartbeat_disconnected(zkl_heartbeat *heartbeat);
/* An item needs a lease for its grant. The next heartbeat is due at once. */
void zkl_heartbeat_want_lease(zkl_heartbeat *heartbeat);
/* Makes the next heartbeat due at once; after the usual time; then at the latest. */
void zkl_heartbeat_want(zkl_heartbeat *heartbeat);
void zkl_heartbeat_rest(zkl_heartbeat *heartbeat);
void zkl_heartbeat_want_soon(zkl_heartbeat *heartbeat);
/* A round that has ended is dated: the next one follows in time. To be called early in each turn. */
void zkl_heartbeat_date_round(zkl_heartbeat *heartbeat);
/* Returns when the next heartbeat is due; ZKL_NEVER: none is, or one is in flight. */
int64_t zkl_heartbeat_at(const zkl_heartbeat *heartbeat);
/* Begins a round of heartbeats. */
void zkl_heartbeat_begin(zkl_heartbeat *heartbeat);
/* Sends the verifications of nodes that are due, and evaluates the heartbeat once its answers are complete. */
void zkl_heartbeat_verify_next(zkl_heartbeat *heartbeat);

/* Returns whether a new session should be opened before an item gets its node: the present one may be about to end. */
bool zkl_heartbeat_wants_session(const zkl_heartbeat *heartbeat);
/*
 * Returns whether an item has needed a lease for so long that a new session should replace this one, so that
 * other clients do not wait for it.
 */
bool zkl_heartbeat_waits_in_vain(zkl_heartbeat *heartbeat);
/* Returns when a round must be dated, or the session may have to be replaced. */
int64_t zkl_heartbeat_decides_at(const zkl_heartbeat *heartbeat);
/* Returns whether no item should get its node now, since the session may be about to end. */
bool zkl_heartbeat_holds_back(const zkl_heartbeat *heartbeat);

#endif
