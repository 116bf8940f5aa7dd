/*
 * heartbeat: the requests that keep the session alive and its lease valid, and what of value the session has.
 */
#ifndef ZKLOCK_HEARTBEAT_H
#define ZKLOCK_HEARTBEAT_H

#include "wire.h"

/* The state of an item, as heartbeats see it. */
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
} zkl_heartbeat_items;

TAILQ_HEAD(zkl_checks_list, zkl_checks);

typedef struct {
    zkl_wire *wire;
    const zkl_heartbeat_items *items;
    void *items_owner;
    /* A quorum write has been acknowledged that was sent at this instant: what zkl_lease_prove has to be told. */
    void (*proved)(void *owner, int64_t sent_at);
    void *proved_owner;
    int64_t check_at;    /* Next round, or the next probe. */
    int64_t round_began; /* Start of the latest round of requests. */
    bool round_over;     /* a round has ended, and its end is not dated yet; the next round may have begun meanwhile */
    bool no_witness;     /* "/" may not be read, or does not exist. */
    /* What is lost with the session; see zkl_heartbeat_count. */
    int32_t nodes;                 /* Items that have a node on the server, as far as known. */
    int32_t program_watches;       /* Watches of the program. */
    bool own_ephemerals;           /* The program may have ephemeral nodes in this session. */
    struct zkl_checks_list checks; /* heartbeats that wait for an answer or for verifications */
    /* Number of these heartbeats, of a round's other requests in flight, and of the session's probes, which count here. */
    int32_t checks_flying;
    int32_t verifications_flying; /* verifications of held nodes in flight, which follow heartbeats */
    zoo_op_t witness;             /* the operation of the last request of a round, in flight */
    zoo_op_result_t witness_result;
} zkl_heartbeat;

/* `proved` is called with `owner`. */
void zkl_heartbeat_init(zkl_heartbeat *heartbeat, zkl_wire *wire, void (*proved)(void *owner, int64_t sent_at),
                        void *owner);
/* Names the items that heartbeats check. Their owner is passed to `next`. To be called once, before the first turn. */
void zkl_heartbeat_use_items(zkl_heartbeat *heartbeat, const zkl_heartbeat_items *items, void *owner);
/* Something has appeared that is lost with the session, or has gone: so many nodes of items, and watches of the program. */
void zkl_heartbeat_count(zkl_heartbeat *heartbeat, int32_t nodes, int32_t program_watches);
/* The program may have made an ephemeral node. */
void zkl_heartbeat_note_ephemeral(zkl_heartbeat *heartbeat);

/* A connection is established. `fresh`: with a new session. */
void zkl_heartbeat_connected(zkl_heartbeat *heartbeat, bool fresh);
/* The session is over. */
void zkl_heartbeat_end(zkl_heartbeat *heartbeat);
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
/* Sends the verifications of nodes that are due, and evaluates the heartbeats whose answers are complete. */
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
