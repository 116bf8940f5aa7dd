/*
 * explore: small worlds, gone through in every order.
 */
#ifndef ZKLOCK_EXPLORE_H
#define ZKLOCK_EXPLORE_H

#include "schedule.h"

#define WORLD_CLIENTS 3
#define WORLD_STEPS 8
#define WORLD_CLAIMS 4

typedef enum {
    STEP_END = 0,
    STEP_CLAIM,
    STEP_DOWNGRADE, /* a claim beside `writer`, which is granted */
    STEP_RELEASE,   /* once it is decided */
    STEP_CANCEL,    /* at any time */
    STEP_WAIT       /* until it is decided */
} step_kind;

typedef struct {
    step_kind kind;
    int claim; /* which of the client's */
    zkl_mode mode;
    int writer;
    int32_t permits, count; /* of a semaphore; permits 0: as many as it has */
    int32_t linger, hold;   /* in ticks */
    bool try_only, hasty;
} script_step;

/* What may go wrong, as a set. */
enum {
    MAY_LOSE_ALL = 1 << 0,     /* a connection is lost with all that is under way */
    MAY_LOSE_ANSWERS = 1 << 1, /* the same, but what was sent may be executed later */
    MAY_PAUSE = 1 << 2,        /* a client stands still for a while */
    MAY_CUT = 1 << 3,          /* a client is cut off from its server for a while */
    MAY_STALL = 1 << 4,        /* what a client sends is held back for a while */
    MAY_SEND = 1 << 5,         /* a client's next send fails */
    MAY_DELETE = 1 << 6,       /* somebody deletes a contender's node */
    MAY_REAP = 1 << 7,         /* an empty directory is reaped */
    MAY_KILL = 1 << 8,         /* a client dies */
    MAY_ISOLATE = 1 << 9,      /* a client's server is cut off from the others for a while */
    MAY_DROP_LEADER = 1 << 10  /* the leader steps down */
};
#define FAULT_BITS 11

/* How far a world is gone through: in moments, or in minutes. */
enum {
    NEAR = 0,
    FAR,
    REACHES
};

typedef struct {
    const char *name;
    const char *what;
    int clients;
    int servers; /* 0: one */
    unsigned faults;
    int fault_count[REACHES];
    int ticks[REACHES];
    int tick_length; /* in fifths of the session timeout; 0: one */
    int32_t permits; /* 0: a lock */
    bool mismatch;
    bool no_directory;
    bool no_lease;         /* clients trust the server's word alone */
    bool first_only;       /* nothing happens to the other clients */
    bool symmetric;        /* all do the same: if one fault happens, it may as well be to the first */
    bool ticks_in_silence; /* only while somebody stands still, or is not heard */
    int32_t handoff;
    script_step scripts[WORLD_CLIENTS][WORLD_STEPS];
} world;
/* The last one's name is NULL. */
extern const world worlds[];

/* Which world notices that a rule is broken; NULL: none does, for this reason. */
typedef struct {
    const char *rule, *world, *reason;
} rule_fit;
extern const rule_fit rule_fits[];

#endif
