/*
 * sim_zookeeper: a simulated ZooKeeper, for programs that are linked against it instead of libzookeeper_st.
 *
 * Implements the functions of zookeeper.h that the lock engine uses, over an ensemble of one or three simulated servers, a
 * simulated network and a simulated clock. Everything follows from one seed: no system time, no rand, no addresses, no hash
 * order. The same seed and the same calls give the same trace.
 *
 * There is one world at a time (sim_begin … sim_end). Its time moves only in sim_step, which runs the next event. The caller
 * of the C client's functions is named by sim_set_caller, so that faults can be aimed at one client's machine.
 *
 * Parts: sim_core.c (clock, events, random numbers, trace), sim_tree.c (znodes and transactions), sim_acl.c, sim_ensemble.c
 * (servers, leader, sessions), sim_prepare.c (what a request comes to), sim_server_watches.c, sim_network.c (channels and connections),
 * sim_links.c (proxies that break connections), sim_client.c (the C client's handles), sim_client_watchers.c, sim_requests.c and
 * sim_multi.c (its requests).
 */
#ifndef ZKLOCK_SIM_ZOOKEEPER_H
#define ZKLOCK_SIM_ZOOKEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_SERVERS 3
/* A build may have more. */
#ifndef SIM_MAX_CALLERS
#define SIM_MAX_CALLERS 8
#endif

#define SIM_MICROSECOND INT64_C(1000)
#define SIM_MILLISECOND INT64_C(1000000)
#define SIM_SECOND INT64_C(1000000000)

typedef struct {
    uint64_t seed;
    int servers;                    /* 1 or 3 */
    int32_t min_session_timeout_ms; /* the bounds within which the servers negotiate */
    int32_t max_session_timeout_ms;
    int32_t
        tick_ms; /* tickTime: followers report their clients to the leader every half tick, sessions end at whole ticks */
    int64_t last_zxid; /* of what the servers take for done at the beginning; only of a single server */
    int64_t delay;     /* usual delay of one message, nanoseconds; the tail is far longer */
    bool containers;   /* false: an old server that answers ZUNIMPLEMENTED to ZOO_CONTAINER */
    bool auth_fails;   /* every zoo_add_auth is refused */
    bool auth_lasts;   /* no server refuses credentials that another one has accepted */
    bool own_nodes;    /* the servers have the nodes of their own below /zookeeper */
    bool in_order; /* a single server carries out requests of all clients in the order of arrival, as real ones do */
    bool trace;    /* print the trace to stdout */
    bool even;     /* every message takes just that long */
    bool untraced; /* make no hash of the trace either, which takes a fifth of the time */
    bool named;    /* the host names in every client's list matter, as they do in a list with a link: see "Links" */
    /*
     * Nothing is random and nothing takes time: what a client and its server send each other stays under way until
     * sim_deliver, everything else happens at once, or when a clock says so (sim_run_until).
     */
    bool by_hand;
} sim_options;

/* What a child is in the queue of its directory. */
typedef enum {
    SIM_NO_PART = 0,
    SIM_EXCLUSIVE,
    SIM_SHARED
} sim_part;

/* What happened in the world, for whoever checks it. Called from inside sim_step or a C client function; must not call back
 * into the C client. Any may be NULL. */
typedef struct {
    void *context;
    /* A client's socket has something, or its connection is gone: it should take its turn. */
    void (*readable)(void *context, int caller);
    /* A znode was created or deleted by a committed transaction. `session` is the owner for ephemerals, else 0; `by` is the
     * session whose request it was, 0 for an expiry, a reaped container or an administrator. */
    void (*created)(void *context, const char *path, int64_t session, int64_t zxid);
    void (*deleted)(void *context, const char *path, int64_t session, int64_t by, int64_t zxid);
    /* Its data were set by a committed transaction. */
    void (*changed)(void *context, const char *path, int64_t by);
    /* A server sends a watch event to a client's session. `successor`: a node of that session waited for the deleted one alone
     * or for others too, but for none between the two; `later`: it has one there that comes later. */
    void (*notified)(void *context, int caller, const char *path, int type, bool successor, bool later);
    /* How a child's name takes part in the queue of its directory, and its number. NULL: all that end in ten digits are
     * exclusive. */
    sim_part (*contender)(const char *name, int32_t *number);
    /* One operation of a multi of `caller` was answered with `err`; its reply is being processed. */
    void (*multi_answered)(void *context, int caller, const char *path, int err);
    /* An exists of `caller` was answered with `err` and, if there is such a node, its czxid; likewise. */
    void (*looked)(void *context, int caller, const char *path, int err, int64_t czxid);
    /* `caller` handed in a create request. */
    void (*create_requested)(void *context, int caller, const char *path);
    /* A request of `caller` was throttled. `probe`: an exists or a sync. `path`: the path of a get without a watch, else NULL. */
    void (*throttled)(void *context, int caller, bool probe, const char *path);
    /* The leader declared a client's session expired, or a server refused its credentials, which ends it for the client. */
    void (*expired)(void *context, int caller, int64_t session);
} sim_hooks;

typedef void (*sim_event_fn)(void *context, int64_t argument);

/* The world: one at a time. sim_end frees all of it; open handles must be closed before. */
void sim_begin(const sim_options *options, const sim_hooks *hooks);
void sim_end(void);

/* Time and events. Events at the same instant run in the order of their scheduling. */
int64_t sim_now(void);
void sim_schedule(int64_t at, sim_event_fn run, void *context, int64_t argument);
/* Runs the next event; false if there is none. */
bool sim_step(void);

/* --- worlds that are run by hand (sim_choices.c) --- */

/* Runs what is due until that instant, which it is then. */
void sim_run_until(int64_t at);
/* The instant of the next event that `counts`, INT64_MAX if there is none. */
typedef bool (*sim_counts_fn)(sim_event_fn run, const void *context, int64_t argument);
int64_t sim_next_event(sim_counts_fn counts);

/* A message under way: the first in its direction of its connection. */
typedef struct {
    int caller;
    int ordinal;   /* which of the caller's connections, from 1 */
    bool up;       /* from the client to its server */
    bool given_up; /* the client has closed the connection since */
} sim_delivery;
/* Those that could arrive next, in an order that depends on nothing but what they are; returns how many. */
int sim_deliveries(sim_delivery *out, int most);
void sim_deliver(const sim_delivery *delivery);
/* What it is, for a person. */
void sim_describe(const sim_delivery *delivery, char *out, size_t size);
/* Whether the caller has a connection that could be lost. */
bool sim_can_lose_connection(int caller);
/* The client loses its connection. `arrives`: what it has sent is still under way and may be executed; else it is lost, and
 * the server knows of it too. */
void sim_lose_connection(int caller, bool arrives);
/* Something that a client's state depends on has been given to it. */
void sim_note(int caller, uint64_t what);
/* Of all that the rest of the world depends on, but for the clients, of whom there is a hash of what was given to them. */
uint64_t sim_hash(sim_counts_fn counts);
uint64_t sim_mix(uint64_t hash, uint64_t value);
uint64_t sim_hash_text(const char *text);

/* Random numbers from the seed. */
uint64_t sim_random(void);
/* Below `bound`, which is positive. */
int64_t sim_below(int64_t bound);
/* True `numerator` out of `denominator` times. */
bool sim_chance(int64_t numerator, int64_t denominator);

/* The trace: one line per call, hashed always and printed when asked for. */
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t sim_trace_hash(void);

/* Clients. */
void sim_set_caller(int caller);
/* What a poll of the descriptor would find: POLLIN, POLLOUT, POLLERR, POLLHUP. */
short sim_poll(int descriptor, short events);
/* As shutdown(2) of both directions. */
void sim_shut_down(int descriptor);
/* Watchers that live in the handles of this caller, pending registrations not counted. */
int sim_client_watches(int caller);
/* Completions that have not been called yet. */
int sim_client_pending(int caller);
int64_t sim_client_session(int caller);
/* The server that the caller is connected to, -1 if none. */
int sim_client_server(int caller);

/* Faults. `caller` -1: every client. Servers count from 0. */
void sim_reset_connections(int caller);
/* What a client sends is held back on its way, what servers send to it is not; ended by this or by sim_set_network. */
void sim_stall_requests(int caller, bool stall);
void sim_set_network(int caller, int server, bool up); /* server -1: all; down: silence, nothing is lost yet */
void sim_fail_next_send(int caller);
/*
 * The next create or delete of an ephemeral node that the client sends reaches its server and takes the connection with it: the
 * client never hears what became of it. The servers carry it out after so long, 0: at once; unless its session is over then, or
 * there is no leader.
 */
void sim_lose_next_write(int caller, int64_t after);
/* How many such requests are still to be carried out. */
int sim_delayed_writes(void);
/* Servers throttle one type of requests of a client, which one is drawn, until this or sim_heal ends it. */
void sim_throttle(int caller, bool throttle);
/* The same, of deletes. */
void sim_throttle_deletes(int caller);
/* Each message of the caller's connections from now on takes so much longer. */
void sim_slow_down(int caller, int64_t extra);
void sim_set_names(int caller, bool resolvable);
/* The client library's clock stands still for so long, as in a suspended machine (its clock is CLOCK_MONOTONIC_RAW). */
void sim_skip_library_clock(int caller, int64_t nanoseconds);
void sim_crash_server(int server);
void sim_restart_server(int server);
bool sim_server_up(int server);
void sim_set_link(int one, int other, bool up);
/* One direction of it: what `from` sends to `to` is held back, what `to` sends arrives. */
void sim_set_way(int from, int to, bool up);
/* One server negotiates within other bounds than the rest. */
void sim_set_limits(int server, int32_t least_ms, int32_t most_ms);
void sim_set_lag(int server, int64_t until);
/*
 * The servers' data are replaced while all of them are down, which ends every connection; they stay down until
 * sim_restart_server. SIM_WIPED: nothing is left but the node `keep`, "" for none, and zxids begin anew. SIM_RESTORED: what
 * sim_back_up has kept is there again, its sessions too, and zxids go on from there.
 * SIM_RESTORED_LIVE: the same with servers that go on serving, as an administrator's command does it since ZooKeeper 3.9
 * (ZooKeeperServer.restoreFromSnapshot): connections stay but for those whose sessions are not in the backup, zxids go on from where
 * they were, and the servers forget all watches. False: there is no leader, or no backup.
 * Sessions of foreigners do not survive any of them for long.
 */
typedef enum {
    SIM_WIPED = 0,
    SIM_RESTORED,
    SIM_RESTORED_LIVE
} sim_replacement;
bool sim_replace_data(sim_replacement how, const char *keep);
/* Keeps what is committed now. */
void sim_back_up(void);
bool sim_has_backup(void);
/* No server is still to take data that were restored live. */
bool sim_restored_everywhere(void);
/* Inside a hook: the nodes are told of because the data are being replaced, not one by one. */
bool sim_replacing(void);
bool sim_session_lives(int64_t session);
int sim_leader(void);       /* -1 while there is none */
void sim_drop_leader(void); /* it gives up leadership, as after an internal error */
void sim_heal(void);        /* ends every fault above */
/* Directories in which some operations are not allowed; ZOO_PERM_* bits. */
void sim_deny(const char *directory, int permissions);
/* To look whether a node exists takes the permission to read it, as since 3.8.4, and no client may read nodes that have an owner. */
void sim_hide_nodes(void);
/* The counter that a directory starts with when it is first created. Made anew it starts with 0, as all others do. */
void sim_preset_counter(const char *directory, int32_t counter);
void sim_reap_containers(void);

/*
 * Links: proxies between clients and servers that break connections at chosen moments. Each command does what the command of that name
 * of tools/faultproxy.lua does. A command that returns a text returns NULL if it was done, and an error message otherwise.
 *
 * A client connects to link N by the host "link<N>:2181". In a list with a link, and in every list if the option `named` is set,
 * "h<N>:2181" is server N - 1, nobody listens at another port or at an IP address, and other names cannot be resolved. Without both, the
 * list does not matter and stands for all servers. No link can be made in a world that is run by hand.
 */

/* Begins a link to these servers; each connection goes to the next one that accepts. Returns the link's number, from 1. */
int sim_link_begin(const int *servers, int count);
/* Ends the link and all its connections. The number is not used again in this world. */
void sim_link_end(int link);
/* how: "rst" or "fin"; NULL is "rst". */
const char *sim_link_cut(int link, const char *how);
void sim_link_refuse(int link, bool refuses); /* false: accept */
/* which: "up", "down", "both" or "ends". */
const char *sim_link_stall(int link, const char *which);
void sim_link_resume(int link);
/* which: "up", "down" or "both"; NULL is "both". */
const char *sim_link_delay(int link, int64_t milliseconds, const char *which);
/* side: "client" or "server". */
const char *sim_link_half_close(int link, const char *side);
void sim_link_target(int link, const int *servers, int count);
const char *sim_link_arm(int link, const char *kind, const char *when, int skip, const char *how);
void sim_link_disarm(int link);
/* The request that the trap has caught, "create path=/a", with the server's path, without a chroot. NULL: the trap has not sprung, or there
 * is none. Valid until sim_end. */
const char *sim_link_caught(int link);
/* times -1: always. */
const char *sim_link_deny(int link, const char *kind, int code, int times);
/* The simulated client ignores an event's zxid, as the real client does (C:3493). */
void sim_link_stamp(int link, int64_t zxid);
/* The names of what is counted, index from 0; NULL: there are no more. */
const char *sim_link_counted(int index);
/* The count since the link's beginning or the last reset; -1: there is no such name. bytes_up and bytes_down are always 0. */
int64_t sim_link_count(int link, const char *name);
void sim_link_reset_counts(int link);

typedef struct {
    int64_t id;
    char password[16]; /* as in clientid_t */
    int32_t timeout_ms;
} sim_link_session;
/* The last session that a server confirmed through the link, id 0: it has refused one. False: there was none. */
bool sim_link_last_session(int link, sim_link_session *out);

typedef struct {
    int connections;
    bool listening;
    const char *stalled; /* "no", "up", "down", "both" or "ends" */
    const char *trap;    /* "none", "armed", "pending" or "sprung" */
} sim_link_status;
sim_link_status sim_link_state(int link);

/* Administrators and foreign clients: requests that reach the leader directly. False if there is no leader just now. */
int64_t sim_foreign_session(void);
bool sim_foreign_create(int64_t session, const char *path, const char *data, int mode);
bool sim_foreign_delete(int64_t session, const char *path);
bool sim_foreign_set(int64_t session, const char *path, const char *data);
/* True also if it is over already. */
bool sim_foreign_expire(int64_t session);

/* The committed state, as an omniscient observer sees it. */
bool sim_exists(const char *path);
/* On every server. */
bool sim_exists_everywhere(const char *path);
int64_t sim_owner(const char *path);
int64_t sim_czxid(const char *path);
/* Its data, which need not end in a NUL; NULL if there is no such node. Valid until sim_end. */
const char *sim_data(const char *path, int *length);
int sim_child_count(const char *directory);
/* Name of the index-th child, in the order of creation. Valid until sim_end. */
const char *sim_child(const char *directory, int index);
/* Nodes with an owner other than the sessions of sim_foreign_session. Writes one path for a message if there is any. */
int sim_client_nodes(const char **example);
int sim_server_watches(const char **example);
/* The nth watch at a server, from 0: what it watches, whether the children, and for which session. False: there are fewer. */
typedef struct {
    const char *path;
    bool children;
    int64_t session;
} sim_watch_entry;
bool sim_watch_at(int server, int nth, sim_watch_entry *out);
int64_t sim_last_zxid(void);
/* A list is being delivered to its completion just now, of the directory of `node`, and `node` is not in it. */
bool sim_list_lacks(const char *node);
/* Of the caller's session, in ms; 0 without one. */
int32_t sim_session_timeout(int caller);
/*
 * When the leader last restarted the timer of the caller's session, to any effect, and the shortest timeout that the timer of this or
 * of the next leader may run with. False if there is no such session.
 */
bool sim_session_timer(int caller, int64_t *restarted_at, int32_t *timeout_ms);

/* What happened, for the statistics at the end of a run. */
typedef struct {
    int64_t events;
    int64_t transactions;
    int64_t connections;
    int64_t lost_requests;              /* dropped before a server saw them */
    int64_t lost_replies;               /* executed, but the answer was dropped */
    int64_t lost_creates, lost_deletes; /* by sim_lose_next_write */
    int64_t late_creates;               /* of those, what was created when nobody waited for an answer any more */
    int64_t expiries;
    int64_t elections;
    int64_t truncated; /* transactions that a new leader did not know */
    int64_t moved;     /* requests refused because their session had moved */
    int64_t send_failures;
    int64_t inconsistencies; /* ZRUNTIMEINCONSISTENCY: replies that did not match */
    int64_t name_failures;
    int64_t stale_refusals; /* connections refused because the server was behind */
    int64_t refusals;       /* of credentials that were accepted before */
    int64_t reaped;
    int64_t notifications;
    int64_t deposed_reads;                  /* answered by a server that was cut off from the leader */
    int64_t wiped, restored, restored_live; /* by sim_replace_data */
    int64_t revived;                        /* nodes that had been deleted since the backup */
} sim_statistics;
sim_statistics sim_stats(void);

#endif
