/*
 * names: what the names of a lock's children mean.
 *
 * Pure functions over the strings that ZooKeeper returns for a lock's directory. They tell which names belong to a lock
 * recipe, in which order they were created, and which node must wait for which. No I/O, no allocation, no state. Any
 * thread.
 *
 * The order is that of the signed decimal numbers at the end of the names (ZooKeeper's sequence numbers). The part
 * before the number only tells the recipe and the mode of the node.
 */
#ifndef ZKLOCK_NAMES_H
#define ZKLOCK_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of children that a lock's directory may have. */
typedef enum {
    ZKL_NODE_STRANGER = 0, /* not a name of a lock recipe: never blocks, is never waited for */
    ZKL_NODE_EXCLUSIVE,    /* a mutex contender or a writer */
    ZKL_NODE_SHARED,       /* a reader */
    ZKL_NODE_LEASE         /* a permit of a semaphore: counts against the limit, blocks no lock */
} zkl_node_kind;

/* A child's name, parsed. `sequence` is meaningless for strangers. */
typedef struct {
    zkl_node_kind kind;
    int32_t sequence;
} zkl_node;

/* Length of a uuid in text, 8-4-4-4-12, without the terminating NUL. */
#define ZKL_UUID_LENGTH 36

/*
 * The uuids of the nodes of one acquisition of a semaphore differ in so many digits at their end only: their serial numbers are of one
 * block, which begins with a multiple of its size.
 */
#define ZKL_SERIAL_DIGITS 3
#define ZKL_SERIAL_BLOCK (UINT64_C(1) << (4 * ZKL_SERIAL_DIGITS))

/* The name of the directory of a lock's flags begins with this, and the end of the lock's path follows: see zkl_queue_flag. */
#define ZKL_FLAGS "_flags_"

/* The child of a semaphore's "leases" that says that the limit was changed, and counts whatever number clients name. */
#define ZKL_RESIZED "resized"

/* Room for any name that zkl_node_prefix makes, ZooKeeper's ten digits, a sign and the NUL. */
#define ZKL_NODE_NAME_SIZE 72

/* From this number on there is a warning in the log: half of the directory's numbers are used (ZOOKEEPER-4706). */
#define ZKL_SEQUENCE_WARN (INT32_C(1) << 30)

/*
 * From this number on, and for negative numbers, no lock is granted any more. At 2^31-1 every create returns the same
 * number, so the order is lost (ZOOKEEPER-3249). The distance to that leaves room for contenders that are given numbers
 * before their clients know that the end is near.
 */
#define ZKL_SEQUENCE_LIMIT (INT32_MAX - INT32_C(65536))

/*
 * Parses one child's name. Known are the names of zklock, Curator (`-lock-`, `-__READ__`, `-__WRIT__`, `-lease-`),
 * go-zookeeper (`-lock-`), kazoo (`__lock__`, `__rlock__`), zk-ruby (`ex`, `sh`) and the C and Java recipes
 * (`x-<session>-`). The number must be written as ZooKeeper writes it, `%010d`. Any other name is a stranger, also a
 * lock's name whose number is missing, has another width, or does not fit into 32 bits.
 */
zkl_node zkl_node_parse(const char *name);

/*
 * Writes the name for a create request, to which ZooKeeper appends the number: `_c_<uuid>-lock-`, `_c_<uuid>-__READ__`,
 * … `kind` selects the marker. For ZKL_NODE_EXCLUSIVE it is `-lock-`, or `-__WRIT__` if `readwrite`. `kind` must not be
 * ZKL_NODE_STRANGER. `uuid` has ZKL_UUID_LENGTH characters. `name` has room for ZKL_NODE_NAME_SIZE. Returns the length
 * written.
 */
size_t zkl_node_prefix(char *name, zkl_node_kind kind, bool readwrite, const char *uuid);

/* Whether `name` was created under `uuid`, which means that it starts with `_c_<uuid>-`. */
bool zkl_node_has_uuid(const char *name, const char *uuid);
/*
 * Returns what the names of the nodes of one acquisition of a semaphore have in common, if zklock has made them: *length characters of
 * `name`. NULL: the name has no uuid.
 */
const char *zkl_node_acquisition(const char *name, size_t *length);

/*
 * Whether the client that made a node with this name may pass its lock on: a mutex's node of a zklock that knows how. Their uuids are of
 * version 8, and those of Curator and of older zklocks of version 4.
 */
bool zkl_node_may_pass(const char *name);

/*
 * Whether a contender of kind `mine` must wait for an earlier contender of kind `other`. Exclusive and shared
 * contenders must, except shared for shared. Leases and strangers never wait and are never waited for.
 */
bool zkl_kind_conflicts(zkl_node_kind mine, zkl_node_kind other);

/* The position of a contender among the children of its directory. */
typedef struct {
    bool listed;      /* its own name is among them */
    bool tied;        /* another lock node has its number: the order is lost, never grant */
    int32_t blocking; /* number of earlier (or tied) nodes that it conflicts with */
    int32_t nearest;  /* index of the latest of those, the node to watch; -1: none */
    int32_t earlier;  /* number of earlier (or tied) nodes, conflicting or not */
} zkl_standing;

/*
 * Finds the position of `own` (a name, not a path) of kind `mine` among the `count` names of a directory, in any order.
 * Reads each name once: linear in `count`. If `own` is not listed, `blocking` counts every node that `mine` conflicts
 * with, as for a contender that joins now.
 */
zkl_standing zkl_names_standing(char *const *names, int32_t count, const char *own, zkl_node_kind mine);

#define ZKL_LATCH_NAME_SIZE (ZKL_UUID_LENGTH + 6)      /* the name of a latch's gate, and a NUL */
#define ZKL_LATCH_DATA_SIZE (ZKL_LATCH_NAME_SIZE + 24) /* "<left>/<count> <gate>", with two numbers of 32 bits */

/*
 * Stores what the data of a latch's node say, and the data as text. Returns false unless the data are, to the last character,
 * what a latch of this `count` writes.
 */
bool zkl_latch_parse(const char *data, int length, long count, char text[ZKL_LATCH_DATA_SIZE],
                     char gate[ZKL_LATCH_NAME_SIZE], long *left);

#endif
