/* explore: small worlds that are run in every order. */
#ifndef ZKLOCK_EXPLORE_H
#define ZKLOCK_EXPLORE_H

#include "schedule.h"

#define WORLD_CLIENTS 3
#define WORLD_STEPS 8
#define WORLD_ACQUISITIONS 4

typedef enum {
    STEP_END = 0,
    STEP_ACQUISITION,
    STEP_DOWNGRADE, /* an acquisition that downgrades from `writer`, which is granted */
    STEP_RELEASE,   /* waits until the acquisition is decided, then releases */
    STEP_CANCEL,    /* at any time */
    STEP_WAIT,      /* until the acquisition is decided */
    STEP_RESIZE     /* the semaphore gets `permits` permits */
} step_kind;

typedef struct {
    step_kind kind;
    int acquisition; /* number among the client's acquisitions */
    zkl_mode mode;
    int writer;
    int32_t permits, count; /* permits of the semaphore (0: all of the world's), and of this acquisition */
    int32_t linger, hold;   /* in ticks */
    bool try_only, optimistic;
} script_step;

/* Faults that may happen, as a set. */
enum {
    MAY_LOSE_ALL = 1 << 0,     /* a connection is lost with everything that is under way */
    MAY_LOSE_ANSWERS = 1 << 1, /* as above, but what the client sent may be executed later */
    MAY_PAUSE = 1 << 2,        /* a client is paused for a while */
    MAY_CUT = 1 << 3,          /* a client is cut off from its server for a while */
    MAY_STALL = 1 << 4,        /* what a client sends is held back for a while */
    MAY_SEND = 1 << 5,         /* a client's next send fails */
    MAY_DELETE = 1 << 6,       /* a contender's node is deleted externally */
    MAY_REAP = 1 << 7,         /* an empty directory is reaped */
    MAY_KILL = 1 << 8,         /* a client is killed */
    MAY_ISOLATE = 1 << 9,      /* a client's server is cut off from the others for a while */
    MAY_DROP_LEADER = 1 << 10  /* the leader steps down */
};
#define FAULT_BITS 11

/* How far a world is explored: for moments, or for minutes. */
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
    bool latch;      /* a latch instead, which `permits` count-downs open */
    bool mismatch;
    bool resizes;
    bool no_directory;
    bool no_lease;         /* clients trust the server's word alone */
    bool first_only;       /* faults happen to the first client only */
    bool symmetric;        /* all clients have the same script, so a single fault always hits the first client */
    bool ticks_in_silence; /* ticks pass only while a client is paused, or its messages are held back */
    int32_t handoff;
    script_step scripts[WORLD_CLIENTS][WORLD_STEPS];
} world;
/* The name of the last world is NULL. */
extern const world worlds[];

/* The world that notices that a rule is broken. NULL: none does, for the given reason. */
typedef struct {
    const char *rule, *world, *reason;
} rule_fit;
extern const rule_fit rule_fits[];

#endif
