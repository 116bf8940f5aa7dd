/*
 * schedule: one simulated run. Clients with engines, what they do, what goes wrong, and what must hold all the while.
 *
 *   schedule.c    the clients' machines: clocks, turns, callbacks of the engine; a run from beginning to end
 *   paths.c       what is locked: names, directories, limits
 *   workload.c    claims of every kind, releases, cancellations, downgrades, closed clients
 *   sets.c        several locks taken together
 *   foreigners.c  foreign contenders
 *   faults.c      what goes wrong, and when it is over
 *   checks.c      the invariants, and
 *   limits.c        those of semaphores
 *   strays.c        nodes that no claim knows any more
 *   rules.c       what can be broken on purpose
 *   simulate.c    the program: many runs, numbers, broken rules
 *   explore.c     another one: small worlds, in every order
 *
 * There is one run at a time; its state is `run`.
 */
#ifndef ZKLOCK_SCHEDULE_H
#define ZKLOCK_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "sim_zookeeper.h"

#define MAX_CLIENTS 6
#define MAX_LOCKS 3
#define MAX_SEMAPHORES 2
#define MAX_PATHS (MAX_LOCKS + MAX_SEMAPHORES)
#define MAX_FOREIGNERS 2
#define MOST_PERMITS 4 /* usually */
#define MANY_PERMITS 20
#define MOST_BLOCKERS 8
#define MOST_LOCKS_OF_A_SET 3

typedef enum {
    FAULT_RESET = 0,
    FAULT_RESET_ALL,
    FAULT_CLIENT_SILENCE,
    FAULT_SERVER_SILENCE,
    FAULT_STALL,
    FAULT_CRASH,
    FAULT_DROP_LEADER,
    FAULT_CUT_FOLLOWER,
    FAULT_ONE_WAY,
    FAULT_CUT_LEADER,
    FAULT_LAG,
    FAULT_NO_QUORUM,
    FAULT_PAUSE,
    FAULT_SUSPEND,
    FAULT_NAMES,
    FAULT_SEND,
    FAULT_REPLY,
    FAULT_ADMIN_DELETE,
    FAULT_IMPOSTOR,
    FAULT_ADMIN_SET,
    FAULT_REAP,
    FAULT_STRANGER,
    FAULT_FOREIGN_CRASH,
    FAULT_KILL_CLIENT,
    FAULT_CLOSE_CLIENT,
    FAULT_THROTTLE,
    FAULT_WIPE,
    FAULT_RESTORE,
    FAULT_RESTORE_LIVE,
    FAULT_KINDS
} fault_kind;
extern const char *const fault_names[FAULT_KINDS];

/* A contender's node, or a permit. Claims of one client may hold by the same one, one after the other or together. */
#define MOST_HAND_OVERS 8
typedef struct node_record {
    struct node_record *next;
    char path[160];
    char identity[32]; /* its data, as it was made */
    int64_t czxid;     /* tells it from an impostor of the same name */
    int client;        /* whose it is; -1: a foreigner's */
    int lock;          /* on which path */
    zkl_node_kind kind;
    int32_t number;
    int64_t made_at;
    bool gone;
    bool outlived;          /* it was there when the servers' data had been replaced */
    bool revived;           /* it had been deleted before */
    int64_t replaced_until; /* an impostor's node of its name was there until then */
    bool misleads;          /* when it was made, its client relied on a number from before a live restore */
    int64_t misled_since;   /* that number was given back then, by the client's clock; or the one that led to it */
    bool taken;             /* it was deleted, and not by its client */
    bool asked;             /* somebody has asked by it for the lock */
    int64_t asked_since;    /* its data say so since then; 0: they do not */
    bool told;              /* one of those who held by it heard of that */
    bool overheard;         /* one who wants to hear of that has held by it */
    bool lost;              /* one who held by it has lost it, other than by a release */
    bool lingered;          /* it was granted again when nobody had held by it for a while */
    int64_t lingered_since; /* it has watched who comes since then, if it lingered */
    int64_t idle_since;     /* nobody holds by it any more; 0: somebody does, or never did */
    int64_t linger;         /* for how long it may stay then */
    int64_t hand_overs[MOST_HAND_OVERS]; /* ring: when another turn began */
    int64_t grants, turns;               /* readers that have waited for the same turn share it */
    int64_t readers_at;                  /* the latest such turn has begun then, */
    int readers_to;                      /* when the latest claim had this number */
    struct claim_record *visitor;        /* by which its client has queued there since it forgot the node, and */
    int64_t visited_at;                  /* when */
    int64_t
        shared_since; /* another claim of its client may wait for it, and it may have begun to watch who comes; 0: none */
} node_record;

typedef struct lock_set lock_set;

typedef struct claim_record {
    struct claim_record *next;
    int number;
    int client, path;
    zkl_mode mode;
    int32_t limit, count; /* of a semaphore's permits */
    bool try_only, hasty, revocable;
    int32_t handoff;
    int64_t linger; /* nanoseconds */
    char identity[32];
    int64_t max_hold;
    struct claim_record *writer;     /* a reader's, which it was to join beside */
    struct claim_record *reader;     /* a writer's */
    bool hands_over;                 /* the writer is not ended before its reader's fate is known */
    lock_set *set;                   /* it was made for, or NULL */
    int64_t turns_left;              /* its client wants the lock again so often, this claim included */
    node_record *held[MANY_PERMITS]; /* what it was granted by: one node, or as many as it has permits */
    int32_t held_count;
    zkl_claim *claim; /* NULL once forgotten, or freed with its engine */
    zkl_claim_phase phase;
    bool settled;
    int64_t settled_at;
    bool ended; /* the workload has ended it */
    zkl_code end_code;
    int64_t asked_at, granted_at;
    int64_t hold_until;  /* of its client's clock */
    int32_t revocations; /* that it was told of */
    bool comparable;     /* its grant was good: its token counts */
    int64_t session;     /* under which it was granted */
    char token[ZKL_TOKEN_SIZE];
    char node[160]; /* as the server names it; of the present or last seat */
    /* An administrator has deleted the node; see checks.c for how long that excuses a second holder. */
    bool excused;
    bool wiped;  /* by a wipe, which ends the session too */
    bool misled; /* granted on data that were replaced: see checks.c */
    int64_t excused_since;
    int64_t lease_began; /* the present one of its client, if it began after the claim was made */
    bool excuse_ending;
    /* A try on a path that was certainly taken: must not write. What stood in the way, on every server. */
    char blockers[MOST_BLOCKERS][160];
    int blocker_count;
    int64_t creates_before;
} claim_record;

typedef struct {
    int index;
    zkl_engine *engine;
    int64_t offset; /* of its clock */
    int64_t drift;  /* parts in a million */
    int64_t last_read;
    int64_t valid_until; /* of its clock */
    zkl_state state;
    zkl_poll poll;
    int64_t turn_at;
    int64_t turn_stamp;
    int64_t paused_until;
    bool closing;
    bool killed; /* nobody is left to hear the engine */
    int64_t close_patience;
    int64_t creates[MAX_PATHS]; /* requested so far */
    int64_t disturbed_at;       /* when last a claim ended or the connection changed: watches may be about to go */
    int64_t spin_at, spins;
    int64_t throttled_at, throttled, throttled_probes; /* since then, so many of its requests, and of its heartbeats' */
    int32_t throttled_nodes;                           /* the most nodes that it has had in this time */
    bool expired;                                      /* the server gave up its session, which it may not know yet */
    int64_t unheard_until;                             /* up to this instant it was paused or not connected */
} client;

/* Locks that are taken one after the other, in the order of their paths, and given up together. */
struct lock_set {
    lock_set *next;
    int client;
    int count;
    int paths[MOST_LOCKS_OF_A_SET];
    claim_record *claims[MOST_LOCKS_OF_A_SET];
    int made;
    bool holding, over;
};

typedef enum {
    FOREIGNER_IDLE = 0,
    FOREIGNER_JOINING,
    FOREIGNER_WAITING,
    FOREIGNER_TAKING,  /* a permit: its node was asked for */
    FOREIGNER_NO_ROOM, /* and is there */
    FOREIGNER_HOLDING,
    FOREIGNER_DOWNGRADING,
    FOREIGNER_LEAVING
} foreigner_state;

typedef struct {
    int index;
    foreigner_state state;
    int64_t session;
    int path;
    zkl_mode mode;
    int serial;
    char node[160];
    char
        other[160]; /* its place in a semaphore's line, or what it changes its node into or from; "" if there is none */
    int64_t hold_until;
} foreigner;

typedef struct {
    uint64_t seed;
    sim_options options;
    int64_t timeout;           /* the session timeout that is negotiated, in ns */
    int64_t started, quiet_at; /* faults and new claims end at the latter */
    int64_t longest_linger;    /* of a claim that was made */
    int64_t replaced_live_at;  /* the latest time that the servers' data were replaced while they served; 0: never */
    bool trace;
    bool keen;     /* the first client wants the first lock all the time, several times at once */
    bool in_turns; /* all clients want the first lock again and again */
    bool calm;     /* without faults */
    bool draining;
    bool leases;
    bool mismatch; /* now and then somebody asks for another limit */
    bool denied, exhausting;
    /* Each client may watch a few nodes only. Then no client wants a second lock while it holds one: other claims of the same client,
     * which wait for the first lock, may have taken all the room. */
    bool few_watches;
    bool unreadable; /* the first directory cannot be listed: whether a lost create was executed can never be known */
    bool short_of_memory; /* some allocations of the engines fail */
    bool short_for_long; /* so many that it must be over when all is to come to an end: they are not tried that often */
    int client_count, path_count, foreigner_count, claim_count;
    client clients[MAX_CLIENTS];
    foreigner foreigners[MAX_FOREIGNERS];
    const char *prefix;             /* chroot, "" or "/app" */
    char paths[MAX_PATHS][32];      /* as the clients name them: in the order in which sets take them */
    int32_t limits[MAX_PATHS];      /* of semaphores; 0: a lock */
    int64_t limit_since[MAX_PATHS]; /* when a semaphore's directory was last made, reaped or written to */
    int32_t handoff;                /* of most claims, 0 of the others: these have a node of their own */
    int most_open;                  /* claims that a client has at one time, about */
    int weights[3];                 /* how often a lock is claimed as a mutex, to read and to write */
    lock_set *sets;
    uint32_t fault_mask;
    int64_t fault_pause; /* mean time between faults */
    claim_record *claims;
    int64_t memory_before;
    node_record *nodes;
    /* the first thing that was found wrong */
    bool failed;
    char check[32];
    char problem[400];
} run_state;
extern run_state run;

/* Of all runs. */
typedef struct {
    int64_t schedules, steps, turns;
    int64_t claims, tries, grants, contended_grants, losses, robbed, refused_tries, cancelled;
    int64_t foreign_grants, contenders, kills, closes;
    int64_t modes[4], grants_by_mode[4]; /* by zkl_mode */
    int64_t downgrades, handed_over, mismatches, held_too_long, asked_to_let_go, told, sets, whole_sets;
    int64_t shared, lingered, inherited, overheard, beyond;
    int64_t refused_for_memory;
    int64_t strays, visits;
    int64_t starved; /* turns after which a seat had no room for its watch, summed up */
    int64_t misled;
    int64_t excused_overlaps, wasted_wakes, checked_tries, final_checks;
    int64_t faults[FAULT_KINDS];
    zkl_stats engines; /* sums */
    sim_statistics world;
} totals_state;
extern totals_state totals;

/* rules.c. The last one's name is NULL. */
typedef struct {
    zkl_broken_rule rule;
    /* Faults that have to meet for that to be noticed: it is looked for where nothing else goes wrong. 0: in any schedule. */
    uint32_t fault_mask;
    const char *name;
    bool one_lock; /* and where three servers have one lock to keep */
    uint64_t seed; /* the first schedule that is tried: one that has noticed it, since schedules that do are rare */
} broken_rule;
extern const broken_rule broken_rules[];
/* Breaks this rule and no other; NULL: none. */
void break_rule(const broken_rule *rule);
/* What goes wrong in all runs from now on, whatever their seeds say; 0: that. */
extern uint32_t forced_faults;
/* The traces of the runs from now on are not hashed. */
extern bool untraced;
/* Three servers keep one lock in all runs from now on. */
extern bool one_lock;

/* schedule.c. Runs one seed; true if every check held. */
bool run_schedule(uint64_t seed, bool trace);
/* The same in steps: a world without clients; and what is left when it is over. */
void begin_run(const sim_options *options);
bool end_run(void);
/* No node, watch or seat of a client is left. */
bool nothing_left(void);
/* Whether something will come of an event. */
bool event_counts(sim_event_fn fn, const void *context, int64_t argument);
/*
 * The same; of the engines' allocations, after the first `successes`, so many fail. What the engines then cannot do is excused,
 * what they must do all the same is checked as ever.
 */
bool run_short_of_memory(uint64_t seed, bool trace, int64_t successes, int64_t failures, int64_t *attempts);
int64_t client_clock(const client *of, int64_t at);
/* The clock as the client's thread reads it for its next call: sometimes a while ago. */
int64_t read_clock(client *of);
void begin_call(client *of);
void end_call(client *of);
void wake_client(client *of, int64_t at);
void open_client(client *of);
/* Frees the engine; its claims are over. `kill`: the goodbye is lost. */
void drop_client(client *of, bool kill);

/* paths.c */
void choose_paths(void);
void server_path_of(const char *client_path, char *out, size_t size);
/* Which lock a node of the server belongs to, -1 if none. */
int path_index(const char *server_path);
/* An impostor's node is there, or was not long ago. */
bool meddled_with(int lock);
/* The directory where contenders queue: the lock's own, or a semaphore's line. As the server names it. */
#define MAX_DIRECTORY 64
void queue_directory(int path, char *out);
/* The directory of a semaphore's permits. */
void lease_directory(int path, char *out);
/* Any of the directories. */
void some_directory(char *out);
/* What the data of a semaphore's directory say; 0: nothing. */
int32_t written_limit(int path);
sim_part contender_name(const char *name, int32_t *number);
zkl_node_kind kind_of(zkl_mode mode);

/* workload.c */
void start_workload(void);
void start_rush(void);
/* The client asks for something after so long. */
void want_soon(client *of, int64_t after);
/* The client lists some lock's contenders after so long: reads. */
void look_soon(client *of, int64_t after);
bool client_ready(const client *of);
zkl_mode random_mode(int path);
claim_record *new_record(client *of, int path);
void submit_claim(claim_record *record);
void claim_granted(claim_record *record);
void claim_over(claim_record *record);
void end_claim(claim_record *record);
/* The node of some granted writer, which soon wants to be a reader; false if there is none. */
bool disown_writer(char *path, size_t size);

/* sets.c */
void make_set(client *of);
void set_changed(lock_set *set);
void free_sets(void);

/* foreigners.c */
void start_foreigners(void);
void foreign_crash(void);
/* Whether one of them has, or waits for, a node of this path. */
bool foreigners_know(const char *path);
bool foreigner_holds(const foreigner *who);
bool foreigner_busy(const foreigner *who);
/* Something still waits, holds, or has left something behind. */
bool workload_busy(const char **what, const claim_record **who);

/* faults.c */
void start_faults(void);
void end_faults(void);
/* For a moment the servers have no time for the client's deletes. */
void throttle_deletes(client *of);

/* checks.c */
void fail(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_claim_changed(claim_record *record, zkl_claim *claim);
void check_lease_changed(client *of, int64_t valid_until);
void check_exclusion(void);
void check_foreign_grant(const foreigner *who);
void check_quiet(void);
void check_after_call(client *of);
void check_asked(claim_record *record);
/* Somebody has deleted nodes, and without heartbeats their owners do not hear of it. */
bool deletions_unheard(void);
void note_admin_delete(const char *server_path);
/* The servers' data are about to be replaced, and then they have been. */
void note_replacing(sim_replacement how);
void note_replaced(sim_replacement how);
bool grant_valid(const claim_record *record);
bool excused(const claim_record *record);
void note_forgotten(const claim_record *record);
bool nodes_exist(const claim_record *record);
/* Of a client, and not an impostor's. */
bool is_clients_node(const char *path);
/* After a call that granted so many claims, `revocable` of them such as want to hear who asks, by nodes that were there. */
void check_no_requests(const client *of, const char *what, int64_t before, int64_t revocable);
void install_hooks(sim_hooks *hooks);
void reset_checks(void);
/* Of all that they remember, for worlds that are run by hand. */
uint64_t hash_checks(void);

/* strays.c. When all is to come to an end: who has left a node behind that he does not know any more queues there again. */
void visit_strays(void);
/* There is such a node, or may come to be. Writes one path for a message. */
bool strays_left(const char **example);

/* limits.c */
void check_limit(int path);
void check_permits_granted(const claim_record *record);
bool mismatch_explained(const claim_record *record);
bool semaphore_is_taken(const claim_record *record);
void note_lease_blockers(claim_record *record);
void check_child_event(int caller, const char *server_path);
void note_limit_change(const char *server_path);

#endif
