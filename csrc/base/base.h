/*
 * base: what all layers stand on. Memory, instants, the codes of failures, paths, access control lists, tables, sorted
 * lists, and the switches of the simulation. Knows nothing of sessions, locks and threads. Any thread, unless a comment says otherwise.
 */
#ifndef ZKLOCK_BASE_H
#define ZKLOCK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <zookeeper/zookeeper.h>

/* Ubuntu 22.04 has 3.4, where container nodes and more are missing. */
#ifndef ZOO_VERSION
#error "zklock needs the ZooKeeper C client 3.7 or later; this one is older than 3.6"
#endif

/*
 * 3.5 and 3.6 lack this function. So that the module can be loaded with such a library, and say so (luaopen_zklock_core).
 */
#pragma weak zoo_set_servers_resolution_delay

/* --- instants ------------------------------------------------------------------------------------------------------ */

/* Instants and durations are nanoseconds. */
#define ZKL_SECOND INT64_C(1000000000)
#define ZKL_NEVER INT64_MAX

static inline int64_t zkl_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- codes --------------------------------------------------------------------------------------------------------- */

/* The reason for a failure, a refusal or a loss. zkl_code_name returns the name that Lua sees. */
typedef enum {
    ZKL_OK = 0,
    ZKL_TIMEOUT,
    ZKL_DISCONNECTED,
    ZKL_LOST,
    ZKL_NOT_HELD,
    ZKL_DEADLOCK,
    ZKL_CANCELLED,
    ZKL_CLOSED,
    ZKL_NO_AUTH,
    ZKL_AUTH_FAILED,
    ZKL_EXHAUSTED,
    ZKL_FORKED,
    ZKL_PHASE,
    ZKL_UNSUPPORTED,
    ZKL_NO_NODE,  /* the chroot of the connection string, or the node that an operation needs, does not exist */
    ZKL_FAILED,   /* any other error of ZooKeeper or of the system */
    ZKL_MISMATCH, /* the semaphore, or the latch, was made for another number */
    ZKL_MAX_HOLD, /* the grant lasted for its max_hold */
    ZKL_NODE_EXISTS,
    ZKL_BAD_VERSION,
    ZKL_NOT_EMPTY,
    ZKL_TLS_FAILED /* the TLS handshake, a certificate, or the option tls */
} zkl_code;

const char *zkl_code_name(zkl_code code);

/* Room for any message that comes with a code. */
#define ZKL_MESSAGE_SIZE 512

/* Replaces a message for which there was no memory. */
#define ZKL_UNSAID "there was no memory to say why"

/* Returns whether the outcome of a request that ended with `rc` is unknown: it may have been executed or not. */
bool zkl_outcome_unknown(int rc);
/* Returns whether no server has answered: the outcome is unknown, the session is over, or the handle is closed. */
bool zkl_not_answered(int rc);
/* Returns the reason that ZooKeeper's `rc` means. */
zkl_code zkl_code_of(int rc);
/* Returns the meaning of `rc` in words: zerror, or our own words for a code that the C client does not know. */
const char *zkl_words_of(int rc);

/* --- memory -------------------------------------------------------------------------------------------------------- */

/*
 * The only access to the heap for everything under csrc/ but the Lua binding, whose objects belong to Lua. It counts the
 * bytes in use, so that client:stats() and the benchmarks can show the cost of a client and of an acquisition. Tests can
 * make the n-th allocation fail.
 */

/* Returns `size` zeroed bytes, or NULL. */
void *zkl_alloc(size_t size);

/* Returns a copy of `length` bytes of `text` with a NUL behind, or NULL. */
char *zkl_copy(const char *text, size_t length);

/* Frees memory of zkl_alloc or zkl_copy. NULL is allowed. */
void zkl_free(void *memory);

/* The same, but overwrites the memory first, so that nothing of it stays behind in the heap: for credentials. */
void zkl_free_secret(void *memory);

/* Returns the bytes in use now, as requested, over all threads. */
int64_t zkl_memory_in_use(void);

/*
 * Tests only: the next `successes` allocations of the process succeed and all later ones fail, until the next call. -1
 * (the default): none fails.
 */
void zkl_memory_fail_after(int64_t successes);

/* Tests only: the same, but only `failures` allocations fail, and all after those succeed. */
void zkl_memory_fail_some(int64_t successes, int64_t failures);

/* Tests only: from now on no allocation fails; zkl_memory_attempts goes on counting. */
void zkl_memory_recover(void);

/* Tests only: returns how many allocations were requested since zkl_memory_fail_after or zkl_memory_fail_some. */
int64_t zkl_memory_attempts(void);

/* --- paths and access control lists -------------------------------------------------------------------------------- */

/*
 * The most bytes of a path. A server closes the connection at a packet of more than jute.maxbuffer, 1 MB by default. A
 * lock's path and a chroot occur several times in one packet. The request that turns a writer into a reader has both of
 * them twice, with the nodes' names, identity and acl. The request that sets watches again after a reconnect has those
 * of all waiters. A path that the program itself reads or writes is in its request once, behind the chroot.
 */
#define ZKL_LONGEST_LOCK_PATH 32768
#define ZKL_LONGEST_PATH 900000

/* Returns NULL if `path` (of `length` bytes) can name a lock's directory or a chroot; else the problem, for a person. */
const char *zkl_path_problem(const char *path, size_t length);
/* The same for a path that may name any node, "/" and nodes below "/zookeeper" included. */
const char *zkl_node_path_problem(const char *path, size_t length);

/* Returns "<directory>/<name>", to be freed by zkl_free; NULL when memory is short. */
char *zkl_child_path(const char *directory, const char *name);

/* Makes a deep copy. Returns false when memory is short; zkl_acl_free is needed even then. Any thread. */
bool zkl_acl_copy(struct ACL_vector *copy, const struct ACL_vector *acl);
/* Frees the memory of zkl_acl_copy, and leaves `acl` empty. Any thread. */
void zkl_acl_free(struct ACL_vector *acl);
/*
 * Returns a server's list as text, to be compared and shown: "digest:user:hash:rwcda", and a comma before each further
 * entry. Missing text counts as empty. NULL when memory is short; free it with zkl_free. Any thread.
 */
char *zkl_acl_text(const struct ACL_vector *acl, int32_t *length);

/* --- hash tables --------------------------------------------------------------------------------------------------- */

/* What links an element into a table. Part of a larger object. */
typedef struct zkl_link {
    LIST_ENTRY(zkl_link) in_chain;
    uint32_t hash;
} zkl_link;

LIST_HEAD(zkl_chain_list, zkl_link);

/* Elements by the hash of a key. The caller compares the keys. */
typedef struct {
    struct zkl_chain_list *chains;
    uint32_t size; /* how many chains, a power of two */
    uint32_t count;
    size_t offset; /* of the link in an element */
} zkl_table;

uint32_t zkl_hash_text(const char *text, size_t length);
uint32_t zkl_hash_number(uint64_t number);

/* Makes an empty table, for elements with a zkl_link at this offset. False: memory is short; zkl_table_free is allowed even then. */
bool zkl_table_init(zkl_table *table, size_t offset);
/* Frees the table, not its elements. */
void zkl_table_free(zkl_table *table);
void zkl_table_add(zkl_table *table, void *element, uint32_t hash);
void zkl_table_remove(zkl_table *table, void *element);
/* Returns the first element with this hash; the next one with the same as `element`; NULL: none. */
void *zkl_table_find(const zkl_table *table, uint32_t hash);
void *zkl_table_find_next(const zkl_table *table, const void *element);
/* Returns the element behind `element`, in no certain order; the first one if that is NULL; NULL: none. Nothing may be added meanwhile. */
void *zkl_table_after(const zkl_table *table, const void *element);

/* --- sorted lists -------------------------------------------------------------------------------------------------- */

/*
 * Inserts `element` into `list`, a TAILQ of the type `head` that is linked by `link` and sorted by the field `by`. Its place is
 * behind equal elements. Searches from the end: a new element is usually one of the last. The arguments have no side effects.
 */
#define ZKL_INSERT_SORTED(list, head, element, by, link)                                                               \
    do {                                                                                                               \
        __typeof__(element) before_ = TAILQ_LAST(list, head);                                                          \
        while (before_ != NULL && before_->by > (element)->by) {                                                       \
            before_ = TAILQ_PREV(before_, head, link);                                                                 \
        }                                                                                                              \
        if (before_ != NULL) {                                                                                         \
            TAILQ_INSERT_AFTER(list, before_, element, link);                                                          \
        } else {                                                                                                       \
            TAILQ_INSERT_HEAD(list, element, link);                                                                    \
        }                                                                                                              \
    } while (0)

/* --- the simulation's switches ------------------------------------------------------------------------------------- */

#ifdef ZKL_BREAKABLE
/* Each one breaks one rule of the protocol, to show that the checks notice it. */
typedef enum {
    ZKL_BREAK_LEASE = 0,   /* grant and hold regardless of the lease */
    ZKL_BREAK_AHEAD,       /* trust one deletion: grant when the watched node is deleted */
    ZKL_BREAK_RECOVERY,    /* after a lost reply create again without looking */
    ZKL_BREAK_PAIRING,     /* use a list even if its create failed or ran on another connection */
    ZKL_BREAK_CLEANUP,     /* do not retry a delete whose outcome is unknown */
    ZKL_BREAK_OWNER,       /* keep a grant over the end of its session */
    ZKL_BREAK_WATCH,       /* leave the watch behind when a waiter leaves */
    ZKL_BREAK_REARM,       /* do not look again after a reconnect or a changed node */
    ZKL_BREAK_TOKEN,       /* make tokens from the sequence number */
    ZKL_BREAK_LISTED,      /* grant although our own node is not listed */
    ZKL_BREAK_RESTART,     /* assume that a quorum write restarts the session's timer */
    ZKL_BREAK_TRY,         /* try by joining the queue */
    ZKL_BREAK_LAPSE,       /* keep a grant under a lease that began anew */
    ZKL_BREAK_ARRIVAL,     /* assume that the follower received a request when it was sent */
    ZKL_BREAK_TWICE,       /* assume that the follower's report contains a request that it may miss */
    ZKL_BREAK_PINGED,      /* assume that the leader has pinged the follower once the follower has received a request */
    ZKL_BREAK_REPORTED,    /* assume that a report answered a ping though nothing shows that the follower received it */
    ZKL_BREAK_REACHED,     /* assume that a report that was sent has arrived */
    ZKL_BREAK_CHAIN,       /* assume that a report took effect though the session's time may have been over before */
    ZKL_BREAK_ENDED,       /* after a break of the chain trust the next quorum write at once */
    ZKL_BREAK_THROTTLED,   /* take the answer to a throttled request for an answer of the leader */
    ZKL_BREAK_LEAST,       /* take the present connection's session timeout for the leader's */
    ZKL_BREAK_READERS,     /* let a writer pass readers */
    ZKL_BREAK_DOWNGRADE,   /* downgrade by a node at the end of the queue */
    ZKL_BREAK_WRITER,      /* downgrade without checking that the writer's node is there */
    ZKL_BREAK_PERMITS,     /* grant permits by a list from before they were taken */
    ZKL_BREAK_TURN,        /* keep permits that were taken while another contender was ahead */
    ZKL_BREAK_LIMIT,       /* do not check for how many permits the semaphore was made */
    ZKL_BREAK_HOLD,        /* hold beyond max_hold */
    ZKL_BREAK_SHARE,       /* let all acquisitions of an entry hold together */
    ZKL_BREAK_RELEASED,    /* hand over a grant that was not released */
    ZKL_BREAK_LINGER,      /* linger although another contender has come */
    ZKL_BREAK_HANDOFF,     /* hand over without a bound */
    ZKL_BREAK_ALONE,       /* hand over as if alone although another contender has come */
    ZKL_BREAK_GRANTS,      /* let a node serve more grants than a token can count */
    ZKL_BREAK_ADJACENT,    /* take an adjacent sequence number for proof, whatever happened in between */
    ZKL_BREAK_IMPOSTOR,    /* take any node of the same name for our own */
    ZKL_BREAK_STRAYS,      /* leave nodes of ours alone that no acquisition knows */
    ZKL_BREAK_SEARCH,      /* look for permits that no acquisition knows only at the head of the queue */
    ZKL_BREAK_ONCE,        /* try once to delete a node that no acquisition knows, and forget it then */
    ZKL_BREAK_LOST_WRITER, /* grant a downgraded reader though another node has its writer's name */
    ZKL_BREAK_LEFTOVERS,   /* use the requests that a silently lost connection has left */
    ZKL_BREAK_PREDICTED,   /* take the predicted predecessor for the only one */
    ZKL_BREAK_BETWEEN,     /* take our entry before for the predecessor though another node may be in between */
    ZKL_BREAK_REPEATED,    /* take the answer to a repeated delete for proof that the node was deleted externally */
    ZKL_BREAK_EVICTED,     /* take a heartbeat for proof though the node was deleted externally, and hold on */
    ZKL_BREAK_TOGETHER,    /* let readers that come later share the turn of readers that waited together */
    ZKL_BREAK_REFUSAL,     /* treat the refusal of credentials that were accepted before as final */
    ZKL_BREAK_UNREADABLE,  /* go on looking at a node that may not be read */
    ZKL_BREAK_OUTLIVED, /* keep conclusions about a directory, or a node's data, over the end of connection and session */
    ZKL_BREAK_AGE,      /* use conclusions about a directory at any age */
    ZKL_BREAK_COUNTED,   /* repeat a count-down of a latch under another name */
    ZKL_BREAK_GATE,      /* leave the gate of a latch when it opens */
    ZKL_BREAK_OPENED,    /* take a latch for open when its gate is missing */
    ZKL_BREAK_UNCHECKED, /* count down behind a gate that may be gone */
    ZKL_BREAK_GUARD,     /* take nodes for guarded that were not read */
    ZKL_BREAK_GUARDS,    /* take guards of a lost connection for good */
    ZKL_BREAK_NEWEST,    /* let heartbeats check nodes in turn only, not always the one that was created last */
    ZKL_BREAK_PASS,      /* pass a lock on though another node is ahead */
    ZKL_BREAK_RESIZED,   /* grant permits by the limit that was known, though a resize has changed it */
    ZKL_BREAK_RACE       /* try no other address while a connection is under way */
} zkl_broken_rule;
/* The set of broken rules, one bit (1 << rule) for each. */
extern uint64_t zkl_broken_rules;
#define ZKL_BROKEN(rule) ((zkl_broken_rules >> (rule)&1) != 0)
#else
#define ZKL_BROKEN(rule) false
#endif

#endif
