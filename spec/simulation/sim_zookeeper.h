/*
 * sim_zookeeper: a simulated ZooKeeper, for programs that are linked against it instead of libzookeeper_st.
 *
 * It implements the functions of zookeeper.h that the lock engine uses, over one or three simulated servers, a
 * simulated network and a simulated clock. One seed decides everything: the simulation uses no system time, no rand, no
 * addresses and no hash order. The same seed and the same calls give the same trace.
 *
 * There is one world at a time, from sim_begin to sim_end. Time moves only in sim_step, which runs the next event.
 * sim_set_caller says which client calls the C client's functions from then on, so that faults can be aimed at the
 * machine of one client.
 *
 * Parts:
 * - sim_core.c: clock, events, random numbers, trace
 * - sim_tree.c: znodes and transactions
 * - sim_acl.c: access control lists
 * - sim_ensemble.c: servers, leader, sessions
 * - sim_prepare.c: the result of a request
 * - sim_server_watches.c: watches at a server
 * - sim_network.c: channels and connections
 * - sim_links.c: proxies that break connections
 * - sim_client.c, sim_client_watchers.c: the handles of the C client
 * - sim_requests.c, sim_multi.c: the requests of the C client
 * - sim_choices.c: worlds that are run by hand
 */
#ifndef ZKLOCK_SIM_ZOOKEEPER_H
#define ZKLOCK_SIM_ZOOKEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_SERVERS 3
#define SIM_MAX_CALLERS 320
/* Their states are hashed one by one. */
#define SIM_MAX_CALLERS_BY_HAND 8

#define SIM_MICROSECOND INT64_C(1000)
#define SIM_MILLISECOND INT64_C(1000000)
#define SIM_SECOND INT64_C(1000000000)

typedef struct {
    uint64_t seed;
    int servers;                    /* 1 or 3 */
    int32_t min_session_timeout_ms; /* the servers negotiate between these two bounds */
    int32_t max_session_timeout_ms;
    /* tickTime. Followers report their clients to the leader every half tick. Sessions end at whole ticks. */
    int32_t tick_ms;
    int64_t last_zxid; /* the last zxid that the servers have executed at the beginning; with a single server only */
    int64_t delay;     /* usual delay of one message in nanoseconds; seldom far longer */
    /*
     * The answer of servers without containers to a request with ZOO_CONTAINER: ZUNIMPLEMENTED or ZBADARGUMENTS; or
     * ZCONNECTIONLOSS: they close the connection. 0: they have containers.
     */
    int no_containers;
    bool auth_fails; /* every credential (zoo_add_auth) is refused */
    bool auth_lasts; /* no server refuses a credential that another server has accepted */
    bool own_nodes;  /* the servers have their own nodes below /zookeeper */
    /*
     * As which releases the servers and the C client behave (spec/support/versions.c). NULL: as ZKLOCK_SIMULATED_VERSION and
     * ZKLOCK_SIMULATED_CLIENT in the environment say, or else as 3.8.0.
     */
    const char *server_version, *client_version;
    /* a single server executes the requests of all clients in the order of arrival, as real servers do */
    bool in_order;
    bool trace;    /* print the trace to stdout */
    bool even;     /* every message takes exactly `delay` */
    bool untraced; /* do not hash the trace either; hashing takes a fifth of the time */
    bool named;    /* the host names in the list of every client matter, as in a list with a link: see "Links" */
    /*
     * Nothing is random and nothing takes time. A message between a client and its server is under way until
     * sim_deliver. Everything else happens at once, or at its instant (sim_run_until).
     */
    bool by_hand;
} sim_options;

/* The role of a child in the queue of its directory. */
typedef enum {
    SIM_NO_PART = 0,
    SIM_EXCLUSIVE,
    SIM_SHARED
} sim_part;

/*
 * Hooks that tell the checks what happened in the world. They are called inside sim_step or inside a function of the C
 * client, and must not call the C client. Each may be NULL.
 */
typedef struct {
    void *context;
    /* A client's socket has something to read, or its connection is gone. The client should take its turn. */
    void (*readable)(void *context, int caller);
    /*
     * A committed transaction created or deleted a znode. `session`: the owner of an ephemeral node, else 0. `by`: the
     * session that sent the request; 0 for an expiry, a reaped container or an administrator.
     */
    void (*created)(void *context, const char *path, int64_t session, int64_t zxid);
    void (*deleted)(void *context, const char *path, int64_t session, int64_t by, int64_t zxid);
    /* A committed transaction set the data of a node. */
    void (*changed)(void *context, const char *path, int64_t by);
    /*
     * A server sends a watch event to a client's session. `successor`: that session has a node that waited for the
     * deleted one, and no other node that it waits for is between the two. `later`: that session has a node behind the
     * deleted one.
     */
    void (*notified)(void *context, int caller, const char *path, int type, bool successor, bool later);
    /*
     * Returns the role of a child in the queue of its directory, and stores the number of its name. NULL: every child
     * whose name ends in ten digits is exclusive.
     */
    sim_part (*contender)(const char *name, int32_t *number);
    /* One operation in a multi of `caller` was answered with `err`. The client is processing the reply. */
    void (*multi_answered)(void *context, int caller, const char *path, int err);
    /*
     * An exists of `caller` was answered with `err`, and with the node's czxid if the node exists. The client is
     * processing the reply.
     */
    void (*looked)(void *context, int caller, const char *path, int err, int64_t czxid);
    /* `caller` sends a create request. */
    void (*create_requested)(void *context, int caller, const char *path);
    /*
     * A request of `caller` was throttled. `probe`: it is an exists or a sync. `path`: the path if it is a get without
     * a watch, else NULL.
     */
    void (*throttled)(void *context, int caller, bool probe, const char *path);
    /*
     * The leader expired a client's session. Or a server refused the session's credentials, which ends it for the
     * client.
     */
    void (*expired)(void *context, int caller, int64_t session);
} sim_hooks;

typedef void (*sim_event_fn)(void *context, int64_t argument);

/*
 * Begins and ends the world. There is one world at a time. All handles must be closed before sim_end, which frees all
 * memory of the world.
 */
void sim_begin(const sim_options *options, const sim_hooks *hooks);
/* As which releases the servers and the C client of this world behave. */
const char *sim_server_version(void);
const char *sim_client_version(void);
void sim_end(void);

/*
 * The clock, in nanoseconds, and its events. Events at the same instant run in the order in which they were scheduled.
 */
int64_t sim_now(void);
void sim_schedule(int64_t at, sim_event_fn run, void *context, int64_t argument);
/* Runs the next event. Returns false if there is none. */
bool sim_step(void);

/* --- worlds that are run by hand (sim_choices.c) --- */

/* Runs all events that are due until `at`, and sets the clock to `at`. */
void sim_run_until(int64_t at);
/* Returns the instant of the next event that `counts`, INT64_MAX if there is none. */
typedef bool (*sim_counts_fn)(sim_event_fn run, const void *context, int64_t argument);
int64_t sim_next_event(sim_counts_fn counts);

/* A message under way: the first message in one direction of a connection. */
typedef struct {
    int caller;
    int ordinal;   /* number of the connection among the caller's connections, from 1 */
    bool up;       /* from the client to its server */
    bool given_up; /* the client has closed the connection since */
} sim_delivery;
/*
 * Stores up to `most` messages that could arrive next, and returns how many. Their order depends only on the messages
 * themselves.
 */
int sim_deliveries(sim_delivery *out, int most);
void sim_deliver(const sim_delivery *delivery);
/* Describes the message in words, for a person. */
void sim_describe(const sim_delivery *delivery, char *out, size_t size);
/* Whether the caller has a connection that could be lost. */
bool sim_can_lose_connection(int caller);
/*
 * The client loses its connection. `arrives`: the messages that the client has sent are still under way and may be
 * executed. Otherwise they are lost, and the server closes the connection too.
 */
void sim_lose_connection(int caller, bool arrives);
/* Notes an input on which the client's state depends. */
void sim_note(int caller, uint64_t what);
/* Hashes the state of the world outside the clients. A client is represented by the hash of its inputs (sim_note). */
uint64_t sim_hash(sim_counts_fn counts);
uint64_t sim_mix(uint64_t hash, uint64_t value);
uint64_t sim_hash_text(const char *text);

/* Returns a random number from the seed. */
uint64_t sim_random(void);
/* Returns a random number from 0 to `bound` - 1. `bound` must be positive. */
int64_t sim_below(int64_t bound);
/* Returns true `numerator` out of `denominator` times. */
bool sim_chance(int64_t numerator, int64_t denominator);

/*
 * Adds one line to the trace, which is hashed and, if `trace` is set, printed. Without `trace`, worlds with `by_hand` or
 * `untraced` have no trace.
 */
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t sim_trace_hash(void);

/* Clients. */
void sim_set_caller(int caller);

/*
 * Connections that the present caller makes by itself, one of which the C client then uses (csrc/net/connector.h). A host is "h1:2181",
 * "link1:2181", or an address, at which nobody listens. sim_poll of sim_dials_descriptor tells whether one is no longer pending.
 */
typedef enum {
    SIM_DIAL_PENDING,
    SIM_DIAL_CONNECTED,
    SIM_DIAL_FAILED
} sim_dialed;
typedef enum {
    SIM_NAME_PENDING, /* sim_poll of sim_dials_descriptor tells when it is no longer */
    SIM_NAME_FOUND,
    SIM_NAME_UNKNOWN
} sim_name;
sim_name sim_resolve(const char *host);
/* The caller has looked at its names: sim_poll tells nothing more about those that are answered. */
void sim_note_answers(void);
int sim_dial(const char *host); /* its name must resolve; returns the connection's descriptor */
sim_dialed sim_dial_state(int descriptor);
/* Whether the connection is one of those of the caller for which sim_dials_descriptor returned `dials`. */
bool sim_dial_is_of(int descriptor, int dials);
void sim_hang_up(int descriptor); /* also after sim_hand_over, as long as the C client does not have it */
/* The C client's next zookeeper_interest without a connection uses this one. */
void sim_hand_over(int descriptor);
int sim_dials_descriptor(void);
/* Returns what poll(2) would report for the descriptor: POLLIN, POLLOUT, POLLERR, POLLHUP. */
short sim_poll(int descriptor, short events);
/* Does what shutdown(2) of both directions does. */
void sim_shut_down(int descriptor);
/* Returns the number of watchers in the handles of this caller, without pending registrations. */
int sim_client_watches(int caller);
/* Returns the number of completions that have not been called yet. */
int sim_client_pending(int caller);
int64_t sim_client_session(int caller);
/* Returns the latest zxid that the caller has seen: servers that are behind refuse it. */
int64_t sim_client_zxid(int caller);
/* Returns the server that the caller is connected to, -1 if there is none. */
int sim_client_server(int caller);

/* Faults. `caller` -1 means every client. Servers are numbered from 0. */
void sim_reset_connections(int caller);
/*
 * Holds back what a client sends to its server, but not what the server sends. Ended by a call with false, or by
 * sim_set_network.
 */
void sim_stall_requests(int caller, bool stall);
/* Server -1 means all servers. While the network is down nothing arrives, but nothing is lost yet. */
void sim_set_network(int caller, int server, bool up);
/* While a server hangs, it answers no client, and nothing that they send is lost yet. Its kernel accepts their connections. */
void sim_hang_server(int server, bool hangs);
/* Returns the servers that follow the leader, as bits 1 << server, if they are a majority; else 0. */
unsigned sim_serving(void);
/* Whether such a server would give the caller a session: it is not behind the caller, and the network between them is up. */
bool sim_would_serve(int caller, int server);
void sim_fail_next_send(int caller);
/*
 * The client's next create or delete of an ephemeral node reaches its server, and then the connection breaks. The
 * client never receives the result. The servers execute the request `after` nanoseconds later (0: at once), unless its
 * session is over then or there is no leader.
 */
void sim_lose_next_write(int caller, int64_t after);
/* Returns the number of such requests that are not executed yet. */
int sim_delayed_writes(void);
/*
 * Servers throttle one type of requests of a client, until this function or sim_heal ends it. The type is drawn at
 * random.
 */
void sim_throttle(int caller, bool throttle);
/* Servers throttle the deletes of a client, until sim_throttle or sim_heal ends it. */
void sim_throttle_deletes(int caller);
/* From now on each message on the caller's connections takes `extra` nanoseconds longer. */
void sim_slow_down(int caller, int64_t extra);
void sim_set_names(int caller, bool resolvable);
/* The name server of one server's name does not answer this caller, or does again. */
void sim_silence_name(int caller, int server, bool silent);
/* Stops the client library's clock (CLOCK_MONOTONIC_RAW) for so many nanoseconds, as in a suspended machine. */
void sim_skip_library_clock(int caller, int64_t nanoseconds);
void sim_crash_server(int server);
void sim_restart_server(int server);
bool sim_server_up(int server);
void sim_set_link(int one, int other, bool up);
/*
 * One direction of the link between two servers. Down: messages from `from` to `to` are held back, messages from `to`
 * to `from` arrive.
 */
void sim_set_way(int from, int to, bool up);
/* This server negotiates session timeouts within other bounds than the other servers. */
void sim_set_limits(int server, int32_t least_ms, int32_t most_ms);
void sim_set_lag(int server, int64_t until);
/*
 * Replaces the servers' data. Returns false if there is no leader or no backup.
 * - SIM_WIPED: all servers are down meanwhile, which ends every connection. They stay down until sim_restart_server.
 *   Only the node `keep` is left ("" for none). zxids begin anew.
 * - SIM_RESTORED: as above, but the servers have the data and sessions of sim_back_up again. zxids go on from the
 *   backup's.
 * - SIM_RESTORED_LIVE: the same data, but the servers go on serving, as with an administrator's command since ZooKeeper
 *   3.9 (ZooKeeperServer.restoreFromSnapshot). Connections stay, except those whose sessions are not in the backup.
 *   zxids go on from the present ones. The servers forget all watches.
 *
 * In all three cases the sessions of foreigners end soon.
 */
typedef enum {
    SIM_WIPED = 0,
    SIM_RESTORED,
    SIM_RESTORED_LIVE
} sim_replacement;
bool sim_replace_data(sim_replacement how, const char *keep);
/* Makes a backup of what is committed now. */
void sim_back_up(void);
bool sim_has_backup(void);
/* Returns whether every server has taken over the data of the last live restore. */
bool sim_restored_everywhere(void);
/* Inside a hook: true if a replacement of the data created or deleted the node, false if a single request did. */
bool sim_replacing(void);
bool sim_session_lives(int64_t session);
int sim_leader(void);       /* -1 while there is no leader */
void sim_drop_leader(void); /* the leader gives up leadership, as after an internal error */
void sim_heal(void);        /* ends every fault above */
/* Forbids some operations in a directory: bits of ZOO_PERM_*. */
void sim_deny(const char *directory, int permissions);
/* From now on no client may read a node that has an owner, and exists requires READ permission for it. */
void sim_hide_nodes(void);
/*
 * Sets the counter that a directory has when it is created for the first time. When it is created again its counter is
 * 0, as in all other directories.
 */
void sim_preset_counter(const char *directory, int32_t counter);
void sim_reap_containers(void);

/*
 * Links: proxies between clients and servers that break connections at chosen moments. Each command does what the
 * command of the same name in tools/faultproxy.lua does. A command that returns a text returns NULL on success, else an
 * error message.
 *
 * A client connects to link N by the host "link<N>:2181". In a list that names a link, and in every list if the option
 * `named` is set, "h<N>:2181" is server N - 1. There no server listens at another port or at an IP address, and other
 * names cannot be resolved. In other lists the names do not matter: the list stands for all servers. Worlds that are
 * run by hand cannot have links.
 */

/*
 * Creates a link to these servers and returns its number, from 1. Each connection goes to the next server that accepts
 * it.
 */
int sim_link_begin(const int *servers, int count);
/* Ends the link and all its connections. Its number is not used again in this world. */
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
/*
 * Returns the request that the trap has caught, for example "create path=/a". The path is the server's: it includes the
 * chroot. Returns NULL if there is no trap or the trap has not sprung. Valid until sim_end.
 */
const char *sim_link_caught(int link);
/* From now on the link answers as servers that have no containers: sim_options.no_containers. */
void sim_link_lack_containers(int link, int answer);
/* `times` -1: always. */
const char *sim_link_deny(int link, const char *kind, int code, int times);
/* The simulated client ignores an event's zxid, as the real client does (C:3493). */
void sim_link_stamp(int link, int64_t zxid);
/* Returns the name of a counter, from index 0; NULL after the last one. */
const char *sim_link_counted(int index);
/*
 * Returns the counter's value since the link was created or its counters were reset, -1 if there is no such counter.
 * bytes_up and bytes_down are always 0.
 */
int64_t sim_link_count(int link, const char *name);
void sim_link_reset_counts(int link);

typedef struct {
    int64_t id;
    char password[16]; /* as in clientid_t */
    int32_t timeout_ms;
} sim_link_session;
/*
 * Stores the last session that a server confirmed through the link. Its id is 0 if the server refused a session.
 * Returns false if there was none.
 */
bool sim_link_last_session(int link, sim_link_session *out);

typedef struct {
    int connections;
    bool listening;
    const char *stalled; /* "no", "up", "down", "both" or "ends" */
    const char *trap;    /* "none", "armed", "pending" or "sprung" */
} sim_link_status;
sim_link_status sim_link_state(int link);

/*
 * Requests of administrators and foreign clients. They reach the leader directly. They return false if there is no
 * leader at the moment.
 */
int64_t sim_foreign_session(void);
bool sim_foreign_create(int64_t session, const char *path, const char *data, int mode);
bool sim_foreign_delete(int64_t session, const char *path);
bool sim_foreign_set(int64_t session, const char *path, const char *data);
/*
 * Sets the directory's data, and creates its child `mark` (anew if it exists), in one transaction, which fails as a whole if the
 * directory does not exist.
 */
bool sim_foreign_resize(const char *directory, const char *data, const char *mark);
/* Returns true also if the session is already over. */
bool sim_foreign_expire(int64_t session);

/* The committed state, independent of what each server or client knows. */
bool sim_exists(const char *path);
/* Returns whether every server has the committed node. A server that lags may have an earlier node of that name. */
bool sim_exists_everywhere(const char *path);
/*
 * Returns whether a server shows, or may show before it has caught up, a node that is deleted, and perhaps created again since; with
 * `in_data` also other data of it.
 */
bool sim_is_outdated_somewhere(const char *path, bool in_data);
int64_t sim_owner(const char *path);
int64_t sim_czxid(const char *path);
/* Returns the node's data, which need not end in a NUL; NULL if there is no such node. Valid until sim_end. */
const char *sim_data(const char *path, int *length);
int sim_child_count(const char *directory);
/* Returns the name of a child, in the order of creation, from index 0. Valid until sim_end. */
const char *sim_child(const char *directory, int index);
/*
 * Count the ephemeral nodes of clients (not those of sim_foreign_session), and the watches at servers. If there is any,
 * they store one path for a message.
 */
int sim_client_nodes(const char **example);
int sim_server_watches(const char **example);
/*
 * The nth watch at a server, from 0: its path, whether it is a watch on the children, and its session. Returns false if
 * there are fewer.
 */
typedef struct {
    const char *path;
    bool children;
    int64_t session;
} sim_watch_entry;
bool sim_watch_at(int server, int nth, sim_watch_entry *out);
int64_t sim_last_zxid(void);
/*
 * Returns true if a list of the directory of `node` is being delivered to its completion at this moment, and `node` is
 * not in that list.
 */
bool sim_list_lacks(const char *node);
/* Returns the timeout of the caller's session in ms, 0 if there is no session. */
int32_t sim_session_timeout(int caller);
/*
 * Stores when the leader last restarted the timer of the caller's session with an effect. Stores also the shortest
 * timeout with which the timer may run, at this or the next leader. Returns false if there is no such session.
 */
bool sim_session_timer(int caller, int64_t *restarted_at, int32_t *timeout_ms);

/* Counters for the statistics at the end of a run. */
typedef struct {
    int64_t events;
    int64_t transactions;
    int64_t connections;
    int64_t lost_requests;              /* dropped before a server saw them */
    int64_t lost_replies;               /* executed, but the answer was dropped */
    int64_t lost_creates, lost_deletes; /* by sim_lose_next_write */
    int64_t late_creates; /* creates among those that were executed when no client waited for the answer any more */
    int64_t expiries;
    int64_t elections;
    int64_t truncated; /* transactions that a new leader did not know */
    int64_t moved;     /* requests that were refused because their session had moved */
    int64_t send_failures;
    int64_t inconsistencies; /* ZRUNTIMEINCONSISTENCY: replies that did not match */
    int64_t name_failures;
    int64_t stale_refusals; /* connections refused because the server was behind */
    int64_t refusals;       /* refusals of credentials that were accepted before */
    int64_t reaped;
    int64_t notifications;
    int64_t deposed_reads;                  /* reads answered by a server that was cut off from the leader */
    int64_t wiped, restored, restored_live; /* by sim_replace_data */
    int64_t revived;                        /* nodes that had been deleted since the backup */
} sim_statistics;
sim_statistics sim_stats(void);

#endif
