/*
 * sim_internal: what the parts of the simulated ZooKeeper share. Nobody else includes this.
 */
#ifndef ZKLOCK_SIM_INTERNAL_H
#define ZKLOCK_SIM_INTERNAL_H

#include <zookeeper/zookeeper.h>

#include "sim_zookeeper.h"

/* --- sim_core.c ---------------------------------------------------------------------------------------------------- */

/* Zeroed memory that lives until sim_end. */
void *sim_alloc(size_t size);
char *sim_copy(const char *text, size_t length);

/* Paths are small numbers inside. The root is 0. */
int sim_path(const char *text);
const char *sim_path_text(int path);
int sim_path_parent(int path);
/* Its last part. */
const char *sim_path_name(int path);

/* A hash of its text. */
uint64_t sim_path_hash(int path);
/* Of the events that count. */
uint64_t sim_events_hash(sim_counts_fn counts);

/* The clock, to the millisecond where worlds are run by hand: the steps between are only for order. */
int64_t sim_clock(void);

/* One message's delay: mostly near the usual one, seldom far longer. */
int64_t sim_delay(void);

/* --- sim_acl.c ----------------------------------------------------------------------------------------------------- */

/* Who a client is for a server, beside anyone. */
typedef struct sim_identity {
    const struct sim_identity *next;
    const char *scheme, *id;
} sim_identity;

typedef struct {
    int permissions;
    const char *scheme, *id;
} sim_acl_entry;

/* Never changed once it is made. NULL: anyone may do everything. */
typedef struct {
    int count;
    sim_acl_entry entries[];
} sim_acl;

/* Adds whom the credential stands for. False: the scheme is not known, and the connection must end. */
bool sim_add_identity(const sim_identity **identities, const char *scheme, const char *credential, size_t length);
/* A copy of what a client sends, in memory that lives until sim_end. */
const sim_acl *sim_keep_acl(const struct ACL_vector *from);
/* What is stored of it. ZOK or ZINVALIDACL. */
int sim_expand_acl(const sim_acl *sent, const sim_identity *identities, const sim_acl **out);
bool sim_acl_permits(const sim_acl *acl, int permission, const sim_identity *identities);
/* 0 of NULL. */
uint64_t sim_acl_hash(const sim_acl *acl);
uint64_t sim_identities_hash(const sim_identity *identities);

/* --- sim_tree.c ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int path;
    int parent;
    int64_t czxid, mzxid, pzxid;
    int64_t owner; /* session of an ephemeral */
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
    int64_t zxid; /* of the last transaction applied */
} sim_tree;

/* Makes it a tree of what servers begin with: the root, and the nodes of their own in worlds that have them. */
void sim_tree_plant(sim_tree *tree);
/* The same at the beginning of the world: forgets what sim_preset_counter has set. */
void sim_tree_clear(sim_tree *tree);
/* Whether the node is one that the servers have made themselves and that nobody can delete, other than the root. */
bool sim_tree_is_own(int path);
void sim_tree_copy(sim_tree *to, const sim_tree *from);
sim_node *sim_tree_find(const sim_tree *tree, int path);
int sim_tree_children(const sim_tree *tree, int parent);
void sim_tree_stat(const sim_tree *tree, const sim_node *node, struct Stat *stat);

typedef enum {
    SIM_CHANGE_NONE = 0, /* a check that succeeded, or an error */
    SIM_CHANGE_CREATE,
    SIM_CHANGE_DELETE,
    SIM_CHANGE_SET
} sim_change_kind;

typedef struct {
    sim_change_kind kind;
    int path;
    int err; /* of this operation */
    const char *data;
    int32_t length;
    int64_t owner;
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
    const sim_acl *acl; /* as the client has sent it */
} sim_operation;

struct sim_connection;
struct sim_session;

typedef struct sim_request {
    sim_type type;
    int32_t xid;
    struct sim_request *next; /* in a connection's queue at the server */
    struct sim_connection *connection;
    struct sim_session *session;
    int server;       /* that took it from the client */
    int owner_server; /* as the leader checks it; -1: an insider */
    bool unchecked;   /* an insider that no ACL stops */
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
    /* at the server */
    bool answered;
    bool throttled; /* answered with ZTHROTTLEDOP, and not done */
    int sync_until; /* a sync: log position to be applied before the reply; -1 unknown */
    struct sim_reply *reply;
} sim_request;

typedef struct sim_transaction {
    int64_t zxid;
    sim_request *request; /* NULL for what the leader does itself */
    int err;
    bool malformed; /* a multi that the servers could not read: no results, `err` is the whole answer */
    int change_count;
    sim_change *changes;
    struct sim_session *creates, *closes;
    const sim_tree *restores; /* all of the data are these from now on; NULL: no */
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
    const struct Stat *stats;  /* of each of them, at its own moment; only sets have one */
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

/* A one-way stream: keeps order, delays, can fall silent and go on later. */
typedef struct sim_channel {
    sim_message *head, *tail;
    int64_t last_at;
    int64_t extra; /* delay of each message beside the usual one */
    bool cut;
    bool by_hand; /* nothing arrives by itself */
    void (*deliver)(void *owner, sim_message *message);
    void *owner;
} sim_channel;

void sim_channel_send(sim_channel *channel, int kind, int64_t stamp, void *body);
void sim_channel_set_cut(sim_channel *channel, bool cut);
int sim_channel_length(const sim_channel *channel);
/* Keeps the first `keep` messages; returns how many were dropped. */
int sim_channel_drop(sim_channel *channel, int keep);

/* A link's state of one connection. */
typedef struct sim_passage sim_passage;

typedef struct sim_connection {
    struct sim_connection *next;
    int id;
    int caller;
    int ordinal; /* of the caller's */
    int server;
    struct sim_session *session; /* once the server knows it */
    sim_channel up, down;
    sim_passage *passage; /* through a link; NULL: the connection leads straight to its server */
    /* server's side */
    bool accepted;      /* open at the server */
    int32_t timeout_ms; /* negotiated */
    const sim_identity *identities;
    sim_request *queue, *queue_last;
    /* client's side */
    struct _zhandle *handle; /* NULL when the client has closed */
    int descriptor;
    bool established; /* TCP handshake is through */
    bool refused;
    bool waiting; /* by hand: to be established when the network is there again */
    bool reset;   /* nothing more will come, sends fail */
    bool fragile; /* the peer has closed: the next send goes nowhere, later ones fail */
    bool send_fails;
    sim_message *inbox, *inbox_last;
} sim_connection;

/* `link`: the number of the link that the connection leads through, whose server the link chooses. 0: none. */
sim_connection *sim_connect(struct _zhandle *handle, int caller, int server, int link);
sim_connection *sim_connections(void);
sim_connection *sim_connection_of(int descriptor);
/* Client's side. */
bool sim_connection_send(sim_connection *connection, sim_request *request);
void sim_connection_close(sim_connection *connection);
/* Server's side. */
void sim_connection_reply(sim_connection *connection, const sim_reply *reply);
void sim_connection_shut(sim_connection *connection); /* orderly, after what was sent */
void sim_connection_abort(sim_connection *connection, bool lose_replies);

/* The caller's side of it is gone. */
void sim_connection_tell(sim_connection *connection);

/* A request is at the server, or a reply at the client. */
void sim_connection_pass_up(sim_connection *connection, sim_request *request);
void sim_connection_pass_down(sim_connection *connection, const sim_reply *reply);

/* --- sim_links.c --------------------------------------------------------------------------------------------------- */

void sim_links_begin(void);

/* A host of a client's list. */
#define SIM_NOBODY (-1)
typedef struct {
    int server;       /* if `link` is 0 */
    int link;         /* SIM_NOBODY: nobody listens there */
    const char *name; /* with its port, as the list has it; NULL: names do not matter */
} sim_host;

/* Whether the names in this list decide where a client connects to. */
bool sim_hosts_matter(const char *list);
/* The hosts of such a list, in its order, without those that cannot be resolved; in memory that lives until sim_end. Returns how many,
 * -1: the list is malformed. */
int sim_find_hosts(const char *list, sim_host **out);

/* The connection will lead through the link of this number, to the server that the link tries first, as far as is known. */
void sim_link_attach(sim_connection *connection, int link);
/* The link accepts the connection, and chooses its server. False: it refuses it, or there is no such link. */
bool sim_link_accept(sim_connection *connection);
/* Whether a link has accepted the connection and has not ended it since. */
bool sim_link_has(const sim_connection *connection);

/* --- sim_choices.c -------------------------------------------------------------------------------------------------- */

uint64_t sim_hash_request(const sim_request *request);
uint64_t sim_hash_reply(const sim_reply *reply);
/* Which connection it is, whatever its address. */
uint64_t sim_hash_connection(const sim_connection *connection);

/* --- sim_prepare.c ------------------------------------------------------------------------------------------------- */

void sim_prepare_begin(void);
/* Whether the node's ACL gives a permission to who asks, and sim_deny did not take it away. */
bool sim_permits(const sim_node *node, int permission, const sim_request *request);
/* Whether sim_hide_nodes keeps clients from looking at this node. */
bool sim_hidden(const sim_node *node);
/* What an operation would do to a tree, or its error, which it also returns. */
int sim_prepare_operation(const sim_tree *tree, const sim_operation *operation, const sim_request *request,
                          sim_change *change);
/* Makes the changes and error of a multi, and applies them to the tree if there is none. `session_error`: what is wrong with
 * the session, ZOK if nothing. */
void sim_prepare_multi(sim_tree *tree, sim_transaction *transaction, const sim_request *request, int session_error,
                       int64_t zxid);

/* --- sim_server_watches.c ------------------------------------------------------------------------------------------ */

typedef struct {
    int path;
    bool children;
    sim_connection *connection;
} sim_watch;

/* One server's. */
typedef struct {
    int server;
    const sim_tree *tree;
    sim_watch *watches;
    int count, capacity;
} sim_watch_table;

void sim_watch_add(sim_watch_table *table, sim_connection *connection, int path, bool children);
/* Fires the watches on a path, once a connection; `data` and `children` say which kinds the event reaches. */
void sim_watch_fire(sim_watch_table *table, int path, int type, bool data, bool children);
/* Forgets a connection's watches of that type on a path, -1: on all; returns how many there were. */
int sim_watch_remove(sim_watch_table *table, const sim_connection *connection, int path, ZooWatcherType type);
/* Takes over what a client watched elsewhere; fires at once what it has missed since request->last_zxid. */
void sim_watch_restore(sim_watch_table *table, const sim_request *request);

/* --- sim_ensemble.c ------------------------------------------------------------------------------------------------ */

typedef struct sim_session {
    struct sim_session *next;
    int64_t id;
    int64_t password;
    int32_t timeout_ms;        /* as it was negotiated when the session was created */
    int32_t present_ms;        /* that the leader's timer runs with */
    int32_t told_ms;           /* the shortest that its client was told of */
    int caller;                /* -1: a foreigner, who never expires by himself */
    int created_at, closed_at; /* log positions, 0: not yet */
    bool polled;               /* taken out of the tracker's queue, and about to end */
    bool closing;
    bool doomed;                      /* a foreigner that has crashed: expires whatever happens to the leader */
    int owner;                        /* server, -1 unknown */
    int64_t touched;                  /* when the leader last heard of it, */
    int64_t restarted;                /* and that was to any effect */
    bool touched_at[SIM_MAX_SERVERS]; /* not yet told to the leader */
    bool missed_at[SIM_MAX_SERVERS];  /* its latest request there will not be told */
    bool backed_up;
} sim_session;

void sim_ensemble_begin(void);
void sim_ensemble_end(void);
uint64_t sim_ensemble_hash(void);
/* A message from a client arrived at its server. */
void sim_server_receive(sim_connection *connection, sim_request *request);
/* The same for one that got stuck between the servers: it is carried out so much later, for a connection that is lost. */
void sim_server_delay(sim_connection *connection, sim_request *request, int64_t after);
/* The client has heard which timeout its session has at its new server. */
void sim_session_told(int64_t id, int32_t timeout_ms);
/* The server's side of a connection is gone. */
void sim_server_forget(sim_connection *connection);
bool sim_server_accepts(int server);

/* --- sim_client.c -------------------------------------------------------------------------------------------------- */

void sim_clients_begin(void);
void sim_clients_end(void);
/* Of what handles know of zxids. */
uint64_t sim_handles_hash(void);

/* --- shared state --------------------------------------------------------------------------------------------------- */

typedef struct {
    sim_options options;
    sim_hooks hooks;
    int64_t now;
    int caller;
    bool network_down[SIM_MAX_CALLERS][SIM_MAX_SERVERS];
    bool link_down[SIM_MAX_SERVERS][SIM_MAX_SERVERS]; /* from, to */
    int32_t least_timeout_ms[SIM_MAX_SERVERS], most_timeout_ms[SIM_MAX_SERVERS];
    int64_t slow[SIM_MAX_CALLERS]; /* extra delay of each message on new connections */
    bool names_fail[SIM_MAX_CALLERS];
    bool send_fails[SIM_MAX_CALLERS];
    bool write_lost[SIM_MAX_CALLERS];     /* the next create or delete of a node takes its connection with it */
    int64_t write_after[SIM_MAX_CALLERS]; /* and is carried out so much later */
    unsigned throttles[SIM_MAX_CALLERS];  /* requests of these types, 1 << sim_type */
    int64_t library_skip[SIM_MAX_CALLERS];
    sim_statistics statistics;
    sim_connection *connections;
    int last_connection;
    int connections_of[SIM_MAX_CALLERS];
    uint64_t inputs[SIM_MAX_CALLERS]; /* hash of what each client was given */
    const sim_reply *delivering;      /* a list, inside its completion */
    int delivering_path;
} sim_state;
extern sim_state sim;

#endif
