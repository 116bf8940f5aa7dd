/*
 * kind: what distinguishes one kind of lock from another.
 *
 * A kind is a constant table. Its lock spec chooses it by the mode; an acquisition has the kind of its spec, and an entry
 * has a kind too. All files but those of the kinds treat all kinds alike: where kinds differ, they read the table or call
 * a function of it.
 *
 * All functions run in the driver's thread, within a turn. Those that may be NULL have nothing to do then.
 *
 * How to write a kind (docs/contributing.md, "Adding a kind of lock", has the steps outside of C):
 *
 * `node` says how its nodes are called, and for which other nodes they wait. If no kind of node fits, add a new
 * zkl_node_kind with its marker, and change zkl_kind_conflicts (names.h, names.c). The loops over kinds of nodes in
 * spec/unit/test_names.c and fuzz_names.c end with the last one.
 *
 * `queues`, `needs_lease`, `shares` and the other flags say which parts of the common way it takes. A kind whose
 * acquisitions share entries begins with ZKL_SHARED_KIND (share.h). It needs no functions of its own: see kind_mutex.c
 * and kind_rwlock.c. kind_semaphore.c is a kind with functions. A kind whose entries make no node has the function
 * `asks`: see kind_latch.c.
 *
 * `ready` grants, or does what is left to do. The three functions of directories are called for the watch on a
 * directory, if the kind sets one. `begin` and `end` make and free what an acquisition of this kind has in addition
 * (acquisition->part).
 *
 * Its mode is a constant of zkl_mode (lock.h) and a line in ZKL_KINDS below. Elsewhere in C only the message of a wait
 * that timed out names a mode (csrc/client/handle.c).
 *
 * Its names for Lua are in csrc/lua. lua_lock_spec.c has check_mode, and below it the least number of permits.
 * lua_core.c has the names of the kinds of nodes.
 *
 * Its file goes into CMakeLists.txt and rockspec/zklock-scm-1.rockspec. Then `lua5.4 tools/version.lua write` makes the
 * rockspec of the release again.
 */
#ifndef ZKLOCK_KIND_H
#define ZKLOCK_KIND_H

#include "lock.h"

/* Why what was known of an entry's node does not count any more. */
typedef enum {
    ZKL_LOSS_NODE,   /* the node is gone, or was not made */
    ZKL_LOSS_REPLY,  /* it is not known whether the node was made */
    ZKL_LOSS_SESSION /* the session is over, and all nodes are gone */
} zkl_loss;

struct zkl_kind {
    /* --- what it is --- */

    /* What its nodes are called, and for which other nodes they wait (zkl_node_prefix, zkl_kind_conflicts). */
    zkl_node_kind node;
    bool readwrite; /* with ZKL_NODE_EXCLUSIVE: its nodes have the name of a read/write lock's writer */
    /*
     * Its nodes have a place in a queue: the queue is listed, and the node before is watched. Of a kind that `asks`: its
     * entries watch a node. An entry of another kind, unless it `asks`, is a part of an acquisition whose queue entry makes
     * it: when its session is over it is gone, and is not made again.
     */
    bool queues;
    /*
     * An entry in CONFIRMING waits for a lease before `ready` is called, and is not stepped: `ready` must grant. Without
     * this flag `ready` is called at each step, and must ask for the lease itself before it grants.
     */
    bool needs_lease;
    bool predictable; /* its nodes have the names that predict.c can predict */
    bool passes;      /* its releases pass the lock on (leave.c); no node takes over the number of one of its nodes */
    bool shares;      /* several acquisitions of this client may use one entry (share.c) */
    bool together;    /* with `shares`: they may hold at the same time */
    /*
     * An entry of this kind serves acquisitions of that kind too, and a holder may become one of that kind; or NULL. Only
     * with `readwrite`: contenders see by the node's name that such a node may be followed by one with the same number.
     */
    const zkl_kind *weaker;

    /* --- an acquisition --- */

    /*
     * Returns the directories of a lock at `path`, each ended by a NUL, in memory of zkl_alloc; NULL when memory is
     * short. The first one is the queue. Any thread. If it is NULL: `path` itself is the queue.
     */
    char *(*directories)(const char *path);
    /* The acquisition begins, and has its queue. Returns false when memory is short; `end` is called then. May be NULL. */
    bool (*begin)(zkl_acquisition *acquisition, const zkl_acquisition_request *request);
    /*
     * The acquisition has ended: its entries pass to other acquisitions, or their nodes are deleted. Also called for an
     * acquisition that never held or has no entry, and more than once. May free the acquisition.
     */
    void (*released)(zkl_acquisition *acquisition);
    /* The acquisition is freed, and after it its part, which is NULL if `begin` was not called. May be NULL. */
    void (*end)(zkl_acquisition *acquisition);
    /* As zkl_acquisition_nodes, of a granted acquisition. May be NULL: it holds by one node. */
    char *(*nodes)(const zkl_acquisition *acquisition);

    /* --- an entry, in the order of its states --- */

    /*
     * Returns the data with which the entry's directory is made. `data` has room for ZKL_DIRECTORY_DATA_SIZE characters.
     * May be NULL: no data.
     */
    const char *(*directory_data)(const zkl_entry *entry, char *data);
    /*
     * The entry makes no node: it asks whether its acquisition can be granted. Moves it to LOOKING, and back to PARKED to
     * ask again. If it watches a node of its directory then, `directory_changed` tells that the node is gone. NULL: the
     * entry makes a node.
     */
    void (*asks)(zkl_entry *entry);
    /*
     * A try's list is in flight. Sends what else must be known before the first write; the kind then calls zkl_entry_join
     * itself. Returns false if that could not be sent. May be NULL.
     */
    bool (*look)(zkl_entry *entry);
    /* The create of the entry's node is in flight, and its list. May be NULL. */
    void (*joining)(zkl_entry *entry);
    /* The entry has its node, is in QUEUED, and is stepped. Must neither free the entry nor change its state. May be NULL. */
    void (*queued)(zkl_entry *entry);
    /* A list has shown a node ahead for which the entry must wait. May be NULL. */
    void (*blocked)(zkl_entry *entry);
    /* Nothing conflicts ahead: grants, or does what is left to do. See `needs_lease`. */
    void (*ready)(zkl_entry *entry);
    /* See zkl_loss. The entry is in PARKED, or RECOVERING (ZKL_LOSS_REPLY). May be NULL. */
    void (*node_lost)(zkl_entry *entry, zkl_loss loss);
    /*
     * The next three may be NULL if no entry of this kind watches a directory (zkl_entry_watch_children).
     *
     * The list that armed the entry's watch on a directory.
     */
    void (*directory_listed)(zkl_entry *entry, int rc, const zkl_reply *reply);
    /* The watched directory has changed. The entry is in CONFIRMING, GRANTED or LINGERING; or in LOOKING, see `asks`. */
    void (*directory_changed)(zkl_entry *entry);
    /* The same, but the watch is still armed: it may have missed a change. */
    void (*directory_doubted)(zkl_entry *entry);
    /* The entry serves no more acquisitions: those that wait in it get others. May be NULL: none waits in it. */
    void (*closed)(zkl_entry *entry);
};

#define ZKL_DIRECTORY_DATA_SIZE 12

/* The table of kinds: each mode, and the kind that its lock specs choose. A new kind is a new line. */
#define ZKL_KINDS(KIND)                                                                                                \
    KIND(ZKL_MODE_MUTEX, zkl_mutex_kind)                                                                               \
    KIND(ZKL_MODE_READ, zkl_reader_kind)                                                                               \
    KIND(ZKL_MODE_WRITE, zkl_writer_kind)                                                                              \
    KIND(ZKL_MODE_PERMITS, zkl_semaphore_kind)                                                                         \
    KIND(ZKL_MODE_LATCH, zkl_latch_kind)                                                                               \
    KIND(ZKL_MODE_COUNT, zkl_count_kind)

#define ZKL_DECLARE_KIND(mode, kind) extern const zkl_kind kind;
ZKL_KINDS(ZKL_DECLARE_KIND)
#undef ZKL_DECLARE_KIND

#endif
