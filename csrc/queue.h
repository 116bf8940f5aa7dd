/*
 * queue: what the names of a lock's children mean.
 *
 * Pure functions over the strings that ZooKeeper returns for a lock's directory: which names belong to a lock recipe, in
 * which order they were created, and who must wait for whom. No I/O, no allocation, no state; any thread.
 *
 * Order is the signed decimal number at the end of the name (ZooKeeper's sequence number), compared as a number. What stands
 * before it only says which recipe and which mode the node belongs to.
 */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a child of a lock's directory is. */
typedef enum {
    ZKL_NODE_STRANGER = 0, /* no lock recipe's name: never blocks, is never waited for */
    ZKL_NODE_EXCLUSIVE,    /* a mutex contender or a writer */
    ZKL_NODE_SHARED,       /* a reader */
    ZKL_NODE_LEASE         /* a permit of a semaphore: counts against the limit, blocks no lock */
} zkl_node_kind;

/* A child's name, understood. `sequence` is meaningless for strangers. */
typedef struct {
    zkl_node_kind kind;
    int32_t sequence;
} zkl_node;

/* Length of a uuid in text, 8-4-4-4-12, without the terminating NUL. */
#define ZKL_UUID_LENGTH 36

/* Room for any name that zkl_node_prefix makes, plus ZooKeeper's ten digits, a sign and the NUL. */
#define ZKL_NODE_NAME_SIZE 72

/*
 * From this number on a directory's sequence is worth a warning: half of its numbers are used (ZOOKEEPER-4706).
 */
#define ZKL_SEQUENCE_WARN (INT32_C(1) << 30)

/*
 * From this number on, and for negative ones, no lock is granted any more: at 2^31-1 every create returns the same number, so
 * that order is lost (ZOOKEEPER-3249). The distance leaves room for contenders that take numbers while others learn of it.
 */
#define ZKL_SEQUENCE_LIMIT (INT32_MAX - INT32_C(65536))

/*
 * Understands one child's name: those of zklock, Curator (`-lock-`, `-__READ__`, `-__WRIT__`, `-lease-`), go-zookeeper
 * (`-lock-`), kazoo (`__lock__`, `__rlock__`), zk-ruby (`ex`, `sh`) and the C and Java recipes (`x-<session>-`).
 * The number must be written as ZooKeeper writes it, `%010d`. Anything else, also a lock name whose number is missing, has
 * another width or is beyond 32 bits, is a stranger.
 */
zkl_node zkl_node_parse(const char *name);

/*
 * Writes the name that a create request carries, to which ZooKeeper appends the number: `_c_<uuid>-lock-`,
 * `_c_<uuid>-__READ__`, … `kind` says which marker; ZKL_NODE_EXCLUSIVE gives `-lock-` unless `readwrite`, then `-__WRIT__`.
 * `uuid` has ZKL_UUID_LENGTH characters. `name` has room for ZKL_NODE_NAME_SIZE. Returns the length written.
 */
size_t zkl_node_prefix(char *name, zkl_node_kind kind, bool readwrite, const char *uuid);

/* Whether `name` was created under `uuid`, i.e. starts with `_c_<uuid>-`. */
bool zkl_node_has_uuid(const char *name, const char *uuid);

/* Whether a contender of kind `mine` must wait for an earlier one of kind `other`: all pairs but shared with shared. */
bool zkl_kind_conflicts(zkl_node_kind mine, zkl_node_kind other);

/* Where a contender stands among the children of its directory. */
typedef struct {
    bool listed;      /* its own name is among them */
    bool tied;        /* another lock node carries its number: order is lost, never grant */
    int32_t blocking; /* how many earlier (or tied) nodes it conflicts with */
    int32_t nearest;  /* index of the latest of those, the one to watch; -1 when there is none */
    int32_t earlier;  /* how many earlier (or tied) nodes there are, whether it conflicts with them or not */
} zkl_standing;

/*
 * Finds the standing of `own` (a name, not a path) of kind `mine` among the `count` names of a directory, in any order.
 * Reads each name once: linear in `count`. When `own` is not listed, blocking counts every node that `mine` conflicts with,
 * as for somebody who would join now.
 */
zkl_standing zkl_queue_standing(char *const *names, int32_t count, const char *own, zkl_node_kind mine);

#endif
