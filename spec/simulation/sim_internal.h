/* sim_internal: what the parts of the simulated ZooKeeper share. Only these parts include it. */
#ifndef ZKLOCK_SIM_INTERNAL_H
#define ZKLOCK_SIM_INTERNAL_H

#include <zookeeper/zookeeper.h>

#include "sim_zookeeper.h"

/* --- sim_core.c ---------------------------------------------------------------------------------------------------- */

/* Memory filled with zeros. It is freed by sim_end. */
void *sim_alloc(size_t size);
char *sim_copy(const char *text, size_t length);

/* Paths are represented by small numbers. The root is 0. */
int sim_path(const char *text);
const char *sim_path_text(int path);
int sim_path_parent(int path);
/* Returns the last component of the path. */
const char *sim_path_name(int path);

/* Hashes the path's text. */
uint64_t sim_path_hash(int path);
/* Hashes the events that count. */
uint64_t sim_events_hash(sim_counts_fn counts);

/* Returns the clock. In worlds that are run by hand it has a resolution of 1 ms: smaller steps only order events. */
int64_t sim_clock(void);

/* Returns the delay of one message: mostly near the usual delay, seldom far longer. */
int64_t sim_delay(void);

/* --- sim_acl.c ----------------------------------------------------------------------------------------------------- */

/* An identity that a server knows of a client, in addition to "anyone". */
typedef struct sim_identity {
    const struct sim_identity *next;
    const char *scheme, *id;
} sim_identity;

typedef struct {
    int permissions;
    const char *scheme, *id;
} sim_acl_entry;

/* Immutable. NULL: anyone may do everything. */
typedef struct {
    int count;
    sim_acl_entry entries[];
} sim_acl;

/*
 * Adds the identity that the credential proves. Returns false if the scheme is unknown; the connection must end then.
 */
bool sim_add_identity(const sim_identity **identities, const char *scheme, const char *credential, size_t length);
/* Copies the ACL that a client sends. The memory is freed by sim_end. */
const sim_acl *sim_keep_acl(const struct ACL_vector *from);
/* Stores the ACL that the server keeps for `sent`. Returns ZOK or ZINVALIDACL. */
int sim_expand_acl(const sim_acl *sent, const sim_identity *identities, const sim_acl **out);
bool sim_acl_permits(const sim_acl *acl, int permission, const sim_identity *identities);
/* The hash of NULL is 0. */
uint64_t sim_acl_hash(const sim_acl *acl);
uint64_t sim_identities_hash(const sim_identity *identities);

/* --- sim_tree.c ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int path;
    int parent;
    int64_t czxid, mzxid, pzxid;
    int64_t ctime, mtime; /* milliseconds by the servers' clock; the engine does not see them, so no hash has them */
    int64_t owner;        /* session of an ephemeral node */
    int32_t version;
    int32_t counter; /* number of the next sequential child */
    bool container;
    bool used; /* has had a child; only such containers are reaped */
    const sim_acl *acl;
    const char *data;
    int32_t length;
} sim_node;

typedef struct {
    sim_node *nodes;
    int count, capacity;
    int64_t zxid; /* zxid of the last transaction applied */
} sim_tree;

/* Makes the tree that servers begin with: the root, and the servers' own nodes in worlds that have them. */
void sim_tree_plant(sim_tree *tree);
/* As sim_tree_plant, at the beginning of the world. Forgets the settings of sim_preset_counter. */
void sim_tree_clear(sim_tree *tree);
/* Returns whether the servers have made the node themselves, so that it cannot be deleted. False for the root. */
bool sim_tree_is_own(int path);
void sim_tree_copy(sim_tree *to, const sim_tree *from);
sim_node *sim_tree_find(const sim_tree *tree, int path);
int sim_tree_children(const sim_tree *tree, int parent);
void sim_tree_stat(const sim_tree *tree, const sim_node *node, struct Stat *stat);

typedef enum {
    SIM_CHANGE_NONE = 0, /* a check that succeeded, or an operation with an error */
    SIM_CHANGE_CREATE,
    SIM_CHANGE_DELETE,
    SIM_CHANGE_SET
} sim_change_kind;

typedef struct {
    sim_change_kind kind;
    int path;
    int err; /* result of this operation */
    const char *data;
    int32_t length;
    int64_t owner;
    int64_t time; /* of the servers' clock, as sim_node.mtime */
    bool container;
    const sim_acl *acl;
} sim_change;

void sim_tree_apply(sim_tree *tree, const sim_change *change, int64_t zxid);
uint64_t sim_tree_hash(const sim_tree *tree);

/* --- requests and replies ------------------------------------------------------------------------------------------ */

typedef enum {
    SIM_CONNECT = 0,
    SIM_PING,
    SIM_AUTH,
    SIM_SET_WATCHES,
    SIM_CREATE,
    SIM_CREATE2,
    SIM_DELETE,
    SIM_SET,
    SIM_MULTI,
    SIM_GET,
    SIM_EXISTS,
    SIM_CHILDREN,
    SIM_CHILDREN2,
    SIM_REMOVE_WATCHES,
    SIM_SYNC,
    SIM_CLOSE,
    SIM_CREATE_SESSION, /* from a server to the leader */
    SIM_FIN             /* the client closed its socket */
} sim_type;

typedef struct {
    int type; /* ZOO_CREATE_OP … as in the header */
    int path;
    int mode;
    int version;
    const char *data;
    int32_t length; /* -1: null */
    bool no_acl;
    const sim_acl *acl; /* as the client sent it */
} sim_operation;

struct sim_connection;
struct sim_session;

typedef struct sim_request {
    sim_type type;
    int32_t xid;
    struct sim_request *next; /* in a connection's queue at the server */
    struct sim_connection *connection;
    struct sim_session *session;
    int server; /* the server that received it from the client */
    /* The server that the leader checks against the session's owner; -1: it did not come from a client. */
    int owner_server;
    bool unchecked; /* no ACL applies to it */
    const sim_identity *identities;
    sim_operation operation;
    int operation_count; /* of a multi */
    sim_operation *operations;
    bool watch;
    ZooWatcherType watch_type; /* SIM_REMOVE_WATCHES */
    /* SIM_CONNECT */
    int64_t session_id, password, last_zxid;
    int32_t timeout_ms;
    /* SIM_SET_WATCHES */
    int *paths[3];
    int path_count[3];
    /* SIM_AUTH */
    const char *scheme, *credential;
    size_t credential_length;
    /* state at the server */
    bool answered;
    bool throttled; /* answered with ZTHROTTLEDOP, and not executed */
    int lacks;      /* it makes a container, and is answered in this way: sim_options.no_containers */
    int sync_until; /* of a sync: this log position must be applied before the reply; -1: not known yet */
    struct sim_reply *reply;
} sim_request;

typedef struct sim_transaction {
    int64_t zxid;
    sim_request *request; /* NULL for transactions of the leader's own */
    int err;
    bool malformed; /* a multi that the servers could not parse: it has no results, `err` is the whole answer */
    int change_count;
    sim_change *changes;
    struct sim_session *creates, *closes;
    const sim_tree *restores; /* if not NULL, this tree replaces all data */
} sim_transaction;

typedef struct sim_reply {
    int32_t xid; /* -1 event, -2 ping, -4 auth, -8 set watches, as on the wire; 0 for the connect reply */
    int64_t zxid;
    int err;
    int path; /* -1: none */
    struct Stat stat;
    const char *data;
    int32_t length;
    int child_count;
    int *children; /* paths */
    int change_count;
    const sim_change *changes; /* of a multi */
    const struct Stat *stats;  /* the Stat of each change right after it; only sets have one */
    /* connect */
    bool connect;
    int64_t session_id, password;
    int32_t timeout_ms;
    /* event */
    int event_type;
    bool eof; /* the server closed the connection */
} sim_reply;

#define SIM_XID_EVENT (-1)
#define SIM_XID_PING (-2)
#define SIM_XID_AUTH (-4)
#define SIM_XID_SET_WATCHES (-8)

/* --- sim_network.c ------------------------------------------------------------------------------------------------- */

typedef struct sim_message {
    struct sim_message *next;
    int64_t at;
    int64_t stamp;
    void *body;
    int kind;
} sim_message;

/* A one-way stream. It keeps the order and delays messages. It can stop delivering, and continue later. */
typedef struct sim_channel {
    sim_message *head, *tail;
    int64_t last_at;
    int64_t extra; /* delay of each message in addition to the usual delay */
    bool cut;
    bool by_hand; /* messages arrive only by sim_deliver */
    void (*deliver)(void *owner, sim_message *message);
    void *owner;
} sim_channel;

void sim_channel_send(sim_channel *channel, int kind, int64_t stamp, void *body);
void sim_channel_set_cut(sim_channel *channel, bool cut);
int sim_channel_length(const sim_channel *channel);
/* Keeps the first `keep` messages. Returns the number of messages that were dropped. */
int sim_channel_drop(sim_channel *channel, int keep);

/* The state of one connection in a link. */
typedef struct sim_passage sim_passage;

typedef struct sim_connection {
    struct sim_connection *next;
    int id;
    int caller;
    int ordinal; /* number among the caller's connections */
    int server;
    struct sim_session *session; /* NULL until the server knows it */
    sim_channel up, down;
    sim_passage *passage; /* the way through a link; NULL: the connection leads straight to its server */
    /* the server's side */
    bool accepted;      /* open at the server */
    int32_t timeout_ms; /* as negotiated */
    const sim_identity *identities;
    sim_request *queue, *queue_last;
    /* the client's side */
    struct _zhandle *handle; /* NULL after the client has closed the connection */
    int descriptor;
    bool established; /* the TCP handshake is complete */
    bool refused;
    bool waiting; /* by hand: will be established when the network is up again */
    bool reset;   /* nothing more arrives, and sends fail */
    bool fragile; /* the peer has closed: the next send is lost, later sends fail */
    bool send_fails;
    sim_message *inbox, *inbox_last;
} sim_connection;

/* `link`: the number of the link that the connection leads through; the link chooses the server. 0: no link. */
sim_connection *sim_connect(struct _zhandle *handle, int caller, int server, int link);
sim_connection *sim_connections(void);
sim_connection *sim_connection_of(int descriptor);
/* The client's side. */
bool sim_connection_send(sim_connection *connection, sim_request *request);
void sim_connection_close(sim_connection *connection);
/* The server's side. */
void sim_connection_reply(sim_connection *connection, const sim_reply *reply);
void sim_connection_shut(sim_connection *connection); /* orderly: after everything that was sent */
void sim_connection_abort(sim_connection *connection, bool lose_replies);

/* Returns the connection that the caller has handed over to the C client (sim_hand_over), for its next connection; NULL: none. */
sim_connection *sim_handed_over(int caller);

/* The caller's side of the connection is gone: lets the client take its turn. */
void sim_connection_tell(sim_connection *connection);

/* Deliver a request at the server, and a reply at the client. */
void sim_connection_pass_up(sim_connection *connection, sim_request *request);
void sim_connection_pass_down(sim_connection *connection, const sim_reply *reply);

/* --- sim_links.c --------------------------------------------------------------------------------------------------- */

void sim_links_begin(void);

/* A host in a client's list. */
#define SIM_NOBODY (-1)
typedef struct {
    int server;       /* if `link` is 0 */
    int link;         /* SIM_NOBODY: no server listens there */
    const char *name; /* with its port, as in the list; NULL: names do not matter */
} sim_host;

/* Returns whether the names in this list decide where a client connects to. */
bool sim_hosts_matter(const char *list);
/*
 * Stores the hosts of such a list in its order, without those that cannot be resolved. The memory is freed by sim_end.
 * Returns their number, -1 if the list is malformed.
 */
int sim_find_hosts(const char *list, sim_host **out);

/* Marks the connection as one through this link. Its server is the one that the link would try first now. */
void sim_link_attach(sim_connection *connection, int link);
/* The link accepts the connection and chooses its server. Returns false if the link refuses it or does not exist. */
bool sim_link_accept(sim_connection *connection);
/* Returns whether a link has accepted the connection and has not ended it since. */
bool sim_link_has(const sim_connection *connection);

/* --- sim_choices.c -------------------------------------------------------------------------------------------------- */

uint64_t sim_hash_request(const sim_request *request);
uint64_t sim_hash_reply(const sim_reply *reply);
/* Hashes the identity of the connection, independent of its address in memory. */
uint64_t sim_hash_connection(const sim_connection *connection);

/* --- sim_prepare.c ------------------------------------------------------------------------------------------------- */

void sim_prepare_begin(void);
/* Returns whether the node's ACL gives the permission to the request, and no sim_deny takes it away. */
bool sim_permits(const sim_node *node, int permission, const sim_request *request);
/* Returns whether sim_hide_nodes prevents clients from reading this node. */
bool sim_hidden(const sim_node *node);
/* Stores the change that an operation would make to a tree, or its error. Returns the error. */
int sim_prepare_operation(const sim_tree *tree, const sim_operation *operation, const sim_request *request,
                          sim_change *change);
/*
 * Makes the changes and the error of a multi, and applies the changes to the tree if there is no error.
 * `session_error`: what is wrong with the session, ZOK if nothing.
 */
void sim_prepare_multi(sim_tree *tree, sim_transaction *transaction, const sim_request *request, int session_error,
                       int64_t zxid);

/* --- sim_server_watches.c ------------------------------------------------------------------------------------------ */

typedef struct {
    int path;
    bool children;
    sim_connection *connection;
} sim_watch;

/* The watches at one server. */
typedef struct {
    int server;
    const sim_tree *tree;
    sim_watch *watches;
    int count, capacity;
} sim_watch_table;

void sim_watch_add(sim_watch_table *table, sim_connection *connection, int path, bool children);
/*
 * Fires the watches on a path. Each connection gets one event, or none if `acl`, the list of the node, does not permit it to read
 * (events_need_read). `data`, `children`: which kinds of watches the event fires.
 */
void sim_watch_fire(sim_watch_table *table, int path, const sim_acl *acl, int type, bool data, bool children);
/* Removes a connection's watches of that type on a path, -1: on all paths. Returns how many there were. */
int sim_watch_remove(sim_watch_table *table, const sim_connection *connection, int path, ZooWatcherType type);
/*
 * Takes over the watches that a client had at another server. Fires at once those for which a change after
 * request->last_zxid was missed.
 */
void sim_watch_restore(sim_watch_table *table, const sim_request *request);

/* --- sim_ensemble.c ------------------------------------------------------------------------------------------------ */

typedef struct sim_session {
    struct sim_session *next;
    int64_t id;
    int64_t password;
    int32_t timeout_ms;        /* as it was negotiated when the session was created */
    int32_t present_ms;        /* the timeout of the leader's timer */
    int32_t told_ms;           /* the shortest timeout that was told to the client */
    int caller;                /* -1: a foreigner, whose session never expires by itself */
    int created_at, closed_at; /* log positions, 0: not yet */
    bool polled;               /* the tracker has taken it out of its queue, and is about to end it */
    bool closing;
    bool doomed;                      /* a foreigner that has crashed: the session expires even if the leader changes */
    int owner;                        /* server, -1 unknown */
    int64_t touched;                  /* when the leader was last told that the session is alive */
    int64_t restarted;                /* when that last restarted the timer */
    bool touched_at[SIM_MAX_SERVERS]; /* to be reported to the leader */
    bool missed_at[SIM_MAX_SERVERS];  /* its latest request there will not be reported */
    bool backed_up;
} sim_session;

void sim_ensemble_begin(void);
void sim_ensemble_end(void);
uint64_t sim_ensemble_hash(void);
/* A message from a client has arrived at its server. */
void sim_server_receive(sim_connection *connection, sim_request *request);
/*
 * As above, for a message that got stuck between the servers. It is executed `after` nanoseconds later, for a
 * connection that is lost.
 */
void sim_server_delay(sim_connection *connection, sim_request *request, int64_t after);
/* Notes which timeout the client's new server has told it for its session. */
void sim_session_told(int64_t id, int32_t timeout_ms);
/* Forgets the server's side of a connection. */
void sim_server_forget(sim_connection *connection);
bool sim_server_accepts(int server);

/* --- sim_client.c -------------------------------------------------------------------------------------------------- */

void sim_clients_begin(void);
void sim_clients_end(void);
/* Hashes the zxids that handles know. */
uint64_t sim_handles_hash(void);

/* --- shared state --------------------------------------------------------------------------------------------------- */

typedef struct {
    sim_options options;
    bool exists_needs_read, events_need_read, failed_send_closes; /* see spec/support/versions.c */
    sim_hooks hooks;
    int64_t now;
    int caller;
    bool network_down[SIM_MAX_CALLERS][SIM_MAX_SERVERS];
    bool hangs[SIM_MAX_SERVERS];                      /* accepts connections all the same */
    bool link_down[SIM_MAX_SERVERS][SIM_MAX_SERVERS]; /* from, to */
    int32_t least_timeout_ms[SIM_MAX_SERVERS], most_timeout_ms[SIM_MAX_SERVERS];
    int64_t slow[SIM_MAX_CALLERS]; /* extra delay of each message on new connections */
    bool names_fail[SIM_MAX_CALLERS];
    bool name_silent[SIM_MAX_CALLERS][SIM_MAX_SERVERS];
    bool names_answered[SIM_MAX_CALLERS]; /* one that was silent; the caller has not looked yet */
    bool send_fails[SIM_MAX_CALLERS];
    sim_connection *handed_over[SIM_MAX_CALLERS]; /* for the C client's next connection */
    bool write_lost[SIM_MAX_CALLERS];     /* the next create or delete of an ephemeral node breaks its connection */
    int64_t write_after[SIM_MAX_CALLERS]; /* and is executed so much later */
    unsigned throttles[SIM_MAX_CALLERS];  /* types of requests that are throttled, as bits 1 << sim_type */
    int64_t library_skip[SIM_MAX_CALLERS];
    sim_statistics statistics;
    sim_connection *connections;
    int last_connection;
    int connections_of[SIM_MAX_CALLERS];
    uint64_t inputs[SIM_MAX_CALLERS]; /* hash of the inputs of each client */
    const sim_reply *delivering;      /* the list whose completion is being called; else NULL */
    int delivering_path;
} sim_state;
extern sim_state sim;

#endif
