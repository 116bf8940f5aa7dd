/*
 * schedule: one simulated run. Clients with engines make acquisitions, faults happen, and checks must hold all the time.
 *
 *   schedule.c    the clients' machines (clocks, turns, callbacks of the engine), and a run from beginning to end
 *   paths.c       what is locked: names, directories, limits
 *   workload.c    acquisitions of every kind, releases, cancellations, downgrades, closed clients
 *   sets.c        several locks taken together
 *   foreigners.c  contenders that are no zklock clients
 *   faults.c      the faults, and their end
 *   checks.c      the invariants
 *   limits.c      the invariants of semaphores
 *   latches.c     countdown latches, and their invariants
 *   strays.c      nodes that no acquisition knows any more
 *
 *   rules.c       the rules that can be broken on purpose
 *   simulate.c    the program that makes many runs, with statistics and broken rules
 *   explore.c     the program that runs small worlds in every order
 *
 * There is one run at a time. Its state is `run`.
 */
#ifndef ZKLOCK_SCHEDULE_H
#define ZKLOCK_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "net/connector.h"
#include "sim_zookeeper.h"

#define MAX_CLIENTS 6
#define MAX_LOCKS 3
#define MAX_SEMAPHORES 2
#define MAX_LATCHES 2
#define MAX_PATHS (MAX_LOCKS + MAX_SEMAPHORES + MAX_LATCHES)
#define MAX_FOREIGNERS 2
#define MOST_PERMITS 4 /* the usual number */
#define MANY_PERMITS 20
#define MOST_BLOCKERS 8
#define MOST_LOCKS_OF_A_SET 3

typedef enum {
    FAULT_RESET = 0,
    FAULT_RESET_ALL,
    FAULT_CLIENT_SILENCE,
    FAULT_SERVER_SILENCE,
    FAULT_HANG,
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

/*
 * A contender's node, or a lease node. Acquisitions of one client may hold by the same node, one after the other or
 * together.
 */
#define MOST_HAND_OVERS 8
typedef struct node_record {
    struct node_record *next;
    char path[160];
    char identity[32]; /* The node's data when it was created. */
    int64_t czxid;     /* Distinguishes the node from an impostor of the same name. */
    int client;        /* The client that created the node. -1: a foreigner. */
    int lock;          /* Index of the lock's path. */
    zkl_node_kind kind;
    int32_t number;
    int64_t made_at;
    bool gone;
    bool outlived;          /* The node existed after a replacement of the servers' data. */
    bool revived;           /* The node had been deleted, and a restore brought it back. */
    int64_t replaced_until; /* Until then the node of an impostor had this name, or the node existed again. */
    bool misleads;          /* When the node was created, its client relied on a number from before a live restore. */
    /* When the client gave that number back (or the number that led to it), on the client's clock. */
    int64_t misled_since;
    bool taken;             /* The node was deleted, and not by its client. */
    bool asked;             /* A revocation was requested by this node. */
    int64_t asked_since;    /* When its data began to request a revocation. 0: they do not. */
    bool told;              /* An acquisition that held by the node was notified of the revocation. */
    bool overheard;         /* An acquisition with on_revoke has held by the node. */
    bool lost;              /* An acquisition that held by the node has lost its grant, other than by a release. */
    bool lingered;          /* The node was granted again after a time in which no acquisition held by it. */
    int64_t lingered_since; /* If the node lingered: its client has watched the directory since then. */
    /* No acquisition holds by the node since then. 0: an acquisition holds by it, or none ever did. */
    int64_t idle_since;
    int64_t linger;                      /* How long the node may linger. */
    int64_t hand_overs[MOST_HAND_OVERS]; /* Ring of the instants at which another turn began. */
    int64_t grants, turns;               /* Readers that have waited for the same turn count as one turn. */
    int64_t readers_at;                  /* When the latest turn of readers began. 0: it was no turn of readers. */
    int readers_to; /* Number of the latest acquisition at that instant. Those up to it belong to the turn. */
    struct acquisition_record
        *visitor;       /* The acquisition by which its client queued there after it had forgotten the node. */
    int64_t visited_at; /* When it did. */
    /*
     * Since then another acquisition of the client may wait for the node, and the client may watch the directory.
     * 0: none does.
     */
    int64_t shared_since;
} node_record;

typedef struct lock_set lock_set;

typedef struct acquisition_record {
    struct acquisition_record *next;
    int number;
    int client, path;
    zkl_mode mode;
    int32_t limit, count; /* Permits of a semaphore: in all, and for this acquisition. A latch: its count, and 1. */
    bool try_only, optimistic, revocable;
    int32_t handoff;
    int64_t linger; /* nanoseconds */
    char identity[32];
    int64_t max_hold;
    struct acquisition_record *writer; /* Of a reader: the writer from which it was going to downgrade. */
    struct acquisition_record *reader; /* Of a writer: its reader. */
    bool hands_over;                   /* The writer does not end before its reader is granted or refused. */
    lock_set *set;                     /* The set that it belongs to, or NULL. */
    int64_t turns_left;                /* How often the client wants the lock again, this acquisition included. */
    node_record *held[MANY_PERMITS];   /* The nodes by which it was granted: one node, or one for each permit. */
    int32_t held_count;
    zkl_acquisition *acquisition; /* NULL after it was forgotten, or freed with its engine. */
    zkl_acquisition_phase phase;
    bool settled;
    int64_t settled_at;
    bool ended; /* The workload has ended it. */
    zkl_code end_code;
    int64_t asked_at, granted_at;
    int64_t hold_until;  /* On its client's clock. */
    int32_t revocations; /* Of how many revocations it was notified. */
    bool comparable;     /* Its grant was valid, so its token counts. */
    int64_t session;     /* The session under which it was granted. */
    char token[ZKL_TOKEN_SIZE];
    char node[160]; /* The node of the present or the last entry, as the server names it. */
    /* An administrator has deleted the node. checks.c says how long that excuses a second holder. */
    bool excused;
    bool wiped;  /* The node was deleted by a wipe, which ends the session too. */
    bool misled; /* It was granted on data that were replaced: see checks.c. */
    int64_t excused_since;
    int64_t lease_began; /* When the client's present lease began, if that was after the acquisition was made. */
    bool excuse_ending;
    /*
     * For a try on a path that was certainly taken, and which must not write: the nodes in its way that exist on every
     * server.
     */
    char blockers[MOST_BLOCKERS][160];
    int64_t blocker_czxids[MOST_BLOCKERS]; /* A peer may put another node of that name in its place. */
    int blocker_count;
    int64_t creates_before;
    bool counted;         /* A node has shown that this count-down has counted. */
    bool open_when_asked; /* Of a wait that asks once: the latch was open on all servers. */
} acquisition_record;

typedef struct {
    int index;
    zkl_engine *engine;
    zkl_connector *connector; /* NULL: the C client connects by itself. */
    bool connecting;          /* The connector has no server yet. */
    int64_t offset;           /* Offset of its clock. */
    int64_t drift;            /* Drift of its clock, in parts per million. */
    int64_t last_read;
    int64_t valid_until; /* End of its lease, on its clock. */
    zkl_state state;
    zkl_poll poll;
    int64_t turn_at;
    int64_t turn_stamp;
    int64_t paused_until;
    bool closing;
    bool killed; /* The client was killed: its program gets no callbacks of the engine any more. */
    int64_t close_patience;
    int64_t creates[MAX_PATHS]; /* Create requests so far. */
    /* When an acquisition last ended or the connection last changed. Watches may be removed soon after that. */
    int64_t disturbed_at;
    int64_t spin_at, spins;
    /* Since throttled_at so many of its requests were throttled, and so many of those of its heartbeats. */
    int64_t throttled_at, throttled, throttled_probes;
    int64_t throttled_entries;             /* The largest number of entries that it had in this time. */
    int32_t throttled_nodes;               /* The same of nodes by which it held. */
    bool expired;                          /* The server ended its session, which the client may not know yet. */
    int64_t serves_since[SIM_MAX_SERVERS]; /* Since then each server would have given it a session. */
    int64_t unheard_until;                 /* Until this instant it was paused or not connected. */
} client;

/* Locks that are acquired one after the other, in the order of their paths, and released together. */
struct lock_set {
    lock_set *next;
    int client;
    int count;
    int paths[MOST_LOCKS_OF_A_SET];
    acquisition_record *acquisitions[MOST_LOCKS_OF_A_SET];
    int made;
    bool holding, over;
};

typedef struct {
    int32_t count;       /* How many count-downs open it. */
    int round;           /* How many latches were in its place before. */
    int64_t open_at;     /* When it was last open. */
    int64_t gone_at;     /* When its directory, or the gate of one that was not open, was last deleted. */
    int64_t outdated_at; /* When a server last showed a directory that was deleted. */
    bool broken;         /* That gate is missing. */
    bool ends_open;      /* It says that it is open while it is being deleted. */
    bool replaced;       /* The servers have forgotten nodes of it, or have them again. */
} latch_state;

typedef enum {
    FOREIGNER_IDLE = 0,
    FOREIGNER_JOINING,
    FOREIGNER_WAITING,
    FOREIGNER_TAKING,  /* Its lease node was requested. */
    FOREIGNER_NO_ROOM, /* Its lease node exists, but there are too many. */
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
    /* Its node in the semaphore's queue, or the node that it downgrades to or from; "" if there is none. */
    char other[160];
    int64_t hold_until;
} foreigner;

typedef struct {
    uint64_t seed;
    sim_options options;
    int64_t timeout;           /* The negotiated session timeout, in nanoseconds. */
    int64_t started, quiet_at; /* Faults and new acquisitions end at quiet_at. */
    int64_t longest_linger;    /* The longest linger of all acquisitions. */
    int64_t replaced_live_at;  /* When the servers' data were last replaced while they served. 0: never. */
    bool trace;
    bool keen;     /* The first client wants the first lock all the time, several times at once. */
    bool in_turns; /* All clients want the first lock again and again. */
    bool calm;     /* No faults happen. */
    bool draining;
    bool leases;
    bool connectors; /* Clients have a connector, as those of csrc/client have. */
    bool mismatch;   /* Now and then a client asks for another limit. */
    bool resizes;    /* Now and then a semaphore gets another limit. */
    bool denied, exhausting;
    /*
     * Each client may watch a few nodes only. Then no client wants a second lock while it holds one, because other
     * acquisitions of the same client that wait for the first lock may have taken all the room.
     */
    bool few_watches;
    bool unreadable; /* The first directory cannot be listed, so the outcome of a lost create can never be known. */
    bool short_of_memory; /* Some allocations of the engines fail. */
    /*
     * So many allocations fail that the shortage must end when the drain begins: the drain does not repeat its requests
     * that often.
     */
    bool short_for_long;
    int client_count, path_count, foreigner_count, acquisition_count;
    int latch_count; /* Their paths are behind the path_count locks and semaphores. */
    latch_state latches[MAX_LATCHES];
    client clients[MAX_CLIENTS];
    foreigner foreigners[MAX_FOREIGNERS];
    const char *prefix;           /* The chroot: "" or "/app". */
    char paths[MAX_PATHS][32];    /* As the clients name them, in the order in which sets acquire them. */
    int32_t limits[MAX_PATHS];    /* Permits of a semaphore. 0: a lock. */
    int32_t limit_now[MAX_PATHS]; /* What is written in a semaphore's directory. 0: nothing. */
    int64_t limit_until[MAX_PATHS][MANY_PERMITS + 1]; /* Until when another limit was written there. 0: never. */
    int64_t limit_since[MAX_PATHS]; /* When a semaphore's directory was last created, reaped or written to. */
    int32_t handoff;                /* The handoff of most acquisitions. The others have 0, so that each has a node. */
    int most_open;                  /* About how many acquisitions a client has at one time. */
    int weights[3];                 /* Relative frequency of mutexes, readers and writers. */
    lock_set *sets;
    uint32_t fault_mask;
    int64_t fault_pause; /* Mean time between faults. */
    acquisition_record *acquisitions;
    int64_t memory_before;
    node_record *nodes;
    /* The first check that failed. */
    bool failed;
    char check[32];
    char problem[400];
} run_state;
extern run_state run;

/* Clients read on as zkl_client_read does: packet after packet, without a poll in between. Applies to all runs. */
extern bool reads_on;

/* Sums over all runs. */
typedef struct {
    int64_t schedules, steps, turns;
    int64_t read_on; /* turns without a poll before them */
    int64_t acquisitions, tries, grants, contended_grants, losses, deleted_externally, refused_tries, cancelled;
    int64_t foreign_grants, listings, kills, closes;
    int64_t modes[6], grants_by_mode[6]; /* by zkl_mode */
    int64_t downgrades, handed_over, mismatches, held_too_long, asked_to_let_go, told, sets, whole_sets, resizes;
    int64_t shared, lingered, inherited, overheard, beyond;
    int64_t refused_for_memory;
    int64_t strays, visits;
    int64_t over_watch_budget; /* sum over all turns: entries that were over the watch budget after the turn */
    int64_t misled;
    int64_t
        longest_reach; /* The longest time without a connection in which one server could be reached all the time. */
    int64_t excused_overlaps, wasted_wakes, checked_tries, final_checks;
    int64_t faults[FAULT_KINDS];
    zkl_stats engines; /* sums */
    sim_statistics world;
} totals_state;
extern totals_state totals;

/* rules.c. The name of the last rule is NULL. */
typedef struct {
    zkl_broken_rule rule;
    /*
     * The faults that must coincide for the rule to be noticed. It is then tried without other faults. 0: any schedule
     * will do.
     */
    uint32_t fault_mask;
    const char *name;
    bool one_lock; /* and in worlds where three servers have only one lock */
    /* The first schedule to try. This one noticed the rule; schedules that do are rare. 0: none is known that does; scenes.c has one. */
    uint64_t seed;
} broken_rule;
extern const broken_rule broken_rules[];
/* Breaks this rule and no other. NULL: breaks none. */
void break_rule(const broken_rule *rule);
/* The faults of all runs from now on, instead of those that the seed chooses. 0: the seed chooses. */
extern uint32_t forced_faults;
/* The traces of the runs from now on are not hashed. */
extern bool untraced;
/* All runs from now on have three servers and one lock. */
extern bool one_lock;
extern bool few_checks; /* heartbeats check one node or two in every world */

/* schedule.c. Runs one seed. Returns true if every check held. */
bool run_schedule(uint64_t seed, bool trace);
/*
 * The same in steps. begin_run makes a world without clients. end_run ends it, checks that no memory is left, and
 * returns true if every check held.
 */
void begin_run(const sim_options *options);
bool end_run(void);
/* Returns whether no node, watch or entry of a client is left. */
bool nothing_left(void);
/* Returns whether an event will have an effect. */
bool event_counts(sim_event_fn fn, const void *context, int64_t argument);
/*
 * As run_schedule, but after the first `successes` allocations of the engines the next `failures` fail. The checks
 * excuse failures that this causes, but not failures of operations that must work without memory.
 */
bool run_short_of_memory(uint64_t seed, bool trace, int64_t successes, int64_t failures, int64_t *attempts);
int64_t client_clock(const client *of, int64_t at);
/* Returns the clock as the client's thread reads it for its next call. Sometimes the reading is a while old. */
int64_t read_clock(client *of);
void begin_call(client *of);
void end_call(client *of);
void wake_client(client *of, int64_t at);
void open_client(client *of);
/* Frees the engine and ends its acquisitions. `kill`: the request to close the session is lost. */
void drop_client(client *of, bool kill);

/* paths.c */
void choose_paths(void);
void server_path_of(const char *client_path, char *out, size_t size);
/* Returns the index of the lock to which a server's node belongs, -1 if there is none. */
int path_index(const char *server_path);
/* Returns whether an impostor's node exists in this lock, or existed a short time ago. */
bool meddled_with(int lock);
/* The directory in which contenders queue, as the server names it: the lock's own, or a semaphore's queue. */
#define MAX_DIRECTORY 64
void queue_directory(int path, char *out);
/* The directory of a semaphore's lease nodes. */
void lease_directory(int path, char *out);
/* One of all directories, drawn at random. */
void some_directory(char *out);
/* Returns the limit in the data of a semaphore's directory, 0 if there is none. */
int32_t written_limit(int path);
/* Returns whether a semaphore was resized: its limit counts, whatever limit its clients name. */
bool is_resized(int path);
sim_part contender_name(const char *name, int32_t *number);
zkl_node_kind kind_of(zkl_mode mode);

/* workload.c */
void start_workload(void);
void start_rush(void);
/* The client asks for something `after` nanoseconds from now. */
void want_soon(client *of, int64_t after);
/* Forgets the lists of directories that the client has got, or all of them if they are gone with its engine. */
void forget_listings(client *of, bool are_gone);
/* The client lists a random directory `after` nanoseconds from now. */
void look_soon(client *of, int64_t after);
bool client_ready(const client *of);
zkl_mode random_mode(int path);
acquisition_record *new_record(client *of, int path);
void submit_acquisition(acquisition_record *record);
void acquisition_granted(acquisition_record *record);
void acquisition_over(acquisition_record *record);
void end_acquisition(acquisition_record *record);
/* Stores the node of a granted writer that will soon downgrade. Returns false if there is none. */
bool disown_writer(char *path, size_t size);

/* sets.c */
void make_set(client *of);
void set_changed(lock_set *set);
void free_sets(void);

/* foreigners.c */
void start_foreigners(void);
void foreign_crash(void);
/* Returns whether a foreigner has, or waits for, the node of this path. */
bool foreigners_know(const char *path);
bool foreigner_holds(const foreigner *who);
bool foreigner_busy(const foreigner *who);
/* Returns whether any participant still waits, holds, or has left something behind. */
bool workload_busy(const char **what, const acquisition_record **who);

/* faults.c */
void start_faults(void);
void end_faults(void);
/* For a moment the servers throttle the client's deletes. */
void throttle_deletes(client *of);

/* checks.c */
void fail(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_acquisition_changed(acquisition_record *record, zkl_acquisition *acquisition);
void check_lease_changed(client *of, int64_t valid_until);
void check_exclusion(void);
void check_foreign_grant(const foreigner *who);
void check_quiet(void);
/* Notes since when each server can be reached. Follows each step. */
void note_servers(void);
void check_after_call(client *of);
void check_asked(acquisition_record *record);
/*
 * Returns whether nodes were deleted externally while leases are off. Without heartbeats their owners do not learn of
 * it.
 */
bool deletions_unheard(void);
void note_admin_delete(const char *server_path);
/* Called before and after the servers' data are replaced. */
void note_replacing(sim_replacement how);
void note_replaced(sim_replacement how);
bool grant_valid(const acquisition_record *record);
bool excused(const acquisition_record *record);
void note_forgotten(const acquisition_record *record);
bool nodes_exist(const acquisition_record *record);
/* Returns whether the node belongs to a client, and not to an impostor. */
bool is_clients_node(const char *path);
/*
 * Checks a call that granted acquisitions by existing nodes. It must not send more requests than `revocable`, the
 * number of those with on_revoke. `before`: the engine's number of requests before the call.
 */
/* Returns the record of a contender's node with this path, NULL: there was none. */
node_record *find_node(const char *path);
void check_no_requests(const client *of, const char *what, int64_t before, int64_t revocable);
void install_hooks(sim_hooks *hooks);
void reset_checks(void);
/* Hashes everything that the checks remember, for worlds that are run by hand. */
uint64_t hash_checks(void);

/* strays.c. In the drain, each client that has left a node which it does not know any more queues there again. */
void visit_strays(void);
/* Returns whether there is such a node, or may be one soon. Stores one path for a message. */
bool strays_left(const char **example);

/*
 * Longer than a server lags, longer than a request is held back, and longer than the C client needs to notice a dead
 * connection.
 */
#define HEARS_WITHIN (4 * run.timeout)

/* limits.c */
void check_limit(int path);
/* A semaphore gets this limit, if its directory exists. */
void resize(int path, int32_t limit);
void start_resizes(void);
void check_permits_granted(const acquisition_record *record);
/* Returns the greatest limit that the acquisition's semaphore can have had. */
int32_t most_permits(const acquisition_record *record);
uint64_t hash_limits(int path);
bool mismatch_explained(const acquisition_record *record);
bool semaphore_is_taken(const acquisition_record *record);
void note_lease_blockers(acquisition_record *record);
/* Returns whether a node in the way of a try is still there, and is the same node. */
bool still_blocks(const acquisition_record *record, int blocker);
void check_child_event(int caller, const char *server_path);
void note_limit_change(const char *server_path);

/* latches.c */
void choose_latches(void);
/* An administrator deletes a latch, or only its gate. Returns false if there is none. */
bool delete_latch(void);
/* `path` is the index of a path, `server_path` a path as the server names it. */
bool is_latch(int path);
/* Returns whether the path is a latch's directory, or a node in one. */
bool is_of_latch(const char *server_path);
/* Sets what distinguishes an acquisition of a latch from one of a lock. */
void describe_latch_record(acquisition_record *record);
/* The client waits for a latch, or counts down. */
void use_latch(client *of);
/* Counts down, if an acquisition waits for a latch and none counts down. To be called now and then in the drain. */
void finish_latches(void);
void note_latch_created(const char *server_path);
void note_latch_deleted(const char *server_path);
void note_latch_asked(acquisition_record *record);
/* Checks what must hold at each instant. */
void check_latches(void);
void check_latch_granted(const acquisition_record *record);
void check_latch_try(const acquisition_record *record, zkl_code code);
bool latch_refusal_explained(const acquisition_record *record, zkl_code code);
uint64_t hash_latches(void);

#endif
