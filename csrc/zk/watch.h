/*
 * watch: one watcher object per watched node.
 */
#ifndef ZKLOCK_WATCH_H
#define ZKLOCK_WATCH_H

#include <sys/queue.h>

#include "base/base.h"
#include "request.h"

/* See ZKL_MAX_WATCHED_BYTES. */
#define ZKL_USUAL_WATCHED_BYTES (INT64_C(700) * 1024)

/*
 * The most bytes of watched paths per ZooKeeper handle, chroots included. After a reconnect the C client sends all of
 * them in one SetWatches packet. The server drops a packet above jute.maxbuffer (1 MB by default), connection after
 * connection.
 */
#ifdef ZKL_BREAKABLE
#define ZKL_MAX_WATCHED_BYTES zkl_most_watched_bytes
/* The value of ZKL_MAX_WATCHED_BYTES, so that the simulation can reach it. */
extern int64_t zkl_most_watched_bytes;
#else
#define ZKL_MAX_WATCHED_BYTES ZKL_USUAL_WATCHED_BYTES
#endif
/* The same limit for the watches of holders on their own nodes. It is separate, so that waiters do not wait for holders. */
#define ZKL_MAX_OWN_BYTES (INT64_C(200) * 1024)
/* The bytes that a path takes there besides its own. */
#define ZKL_WATCH_OVERHEAD 4

/* Other watches of this session on the same nodes: the server removes all at once. */
typedef struct {
    bool (*wanted)(const void *owner, const char *path, bool children);
    void (*removed)(void *owner, const char *path, bool children);
} zkl_other_watches;

/* The watches of a session. */
typedef struct {
    zkl_wire *wire;
    zkl_table table; /* by the full paths of nodes and directories */
    const zkl_other_watches *others;
    void *others_owner;
    const zkl_watch *flagged; /* The latest event was that the flag of this node was made. NULL: another one was. */
    int64_t flagged_at;
    int64_t watched_bytes; /* of ZKL_MAX_WATCHED_BYTES */
    int64_t own_bytes;     /* of ZKL_MAX_OWN_BYTES: paths that are watched by their own owners */
} zkl_watches;

/* Begins without watches. Returns false when memory is short; zkl_watches_free is allowed even then. */
bool zkl_watches_init(zkl_watches *watches, zkl_wire *wire);
/* The handle must be closed. */
void zkl_watches_free(zkl_watches *watches);
/*
 * The layers above reserve bytes of ZKL_MAX_WATCHED_BYTES for what they watch, or may have to. `bytes` below 0 gives them back.
 */
bool zkl_watches_have_room(const zkl_watches *watches, int64_t bytes);
void zkl_watches_reserve(zkl_watches *watches, int64_t bytes);
/* Names the other watches of the session, with their owner. To be called once, before the first turn. */
void zkl_watches_use_others(zkl_watches *watches, const zkl_other_watches *others, void *owner);

/* The state of a watch, of the lock protocol or of the program. */
typedef enum {
    ZKL_WATCH_IDLE,   /* Set by an event, a refusal, a removal or the close: the C client does not hold its address. */
    ZKL_WATCH_ARMING, /* Set when the read that arms it is sent. */
    ZKL_WATCH_ARMED, /* Set by the read's reply: the C client holds its address until the event, the removal or the close. */
    ZKL_WATCH_REMOVING /* Set by disarm_watch: the removal is in flight. */
} zkl_watch_state;

/* Watches the node `name` in the directory. `gone`, `look_again` and the like tell the watcher of events. */
void zkl_watch_node(zkl_watches *watches, zkl_item *watcher, const char *directory, const char *name);
/*
 * Watches for the flag of the node that the watcher watches: a node with this full path that is made, and deleted again, by the
 * transaction that deletes that node. `passed` is then called in place of `gone`. Flags are watched on one connection only.
 */
void zkl_watch_flag(zkl_watches *watches, zkl_item *watcher, const char *path);
/* The connection is lost: no flag is watched any more. */
void zkl_watches_disconnected(zkl_watches *watches);
/*
 * Watches the children of the directory. Returns true if the list that arms the watch is in flight: `listed` will get it.
 * False: the watch is armed already, or cannot be armed now.
 */
bool zkl_watch_children(zkl_watches *watches, zkl_item *watcher, const char *directory);
/* Watches the own node of `owner`, with this full path. `revoked` tells of requests in its data. */
void zkl_watch_own(zkl_watches *watches, zkl_item *owner, const char *node);
/* The watcher does not need its watch on a node or a directory any more. */
void zkl_watch_leave(zkl_item *watcher);
/* The same for its own node, and for its directory, when its node is about to be deleted. */
void zkl_watch_leave_own(zkl_item *owner);
void zkl_watch_leave_directory(zkl_item *watcher);
/* Returns whether the watcher has an armed watch. */
bool zkl_watch_is_armed(const zkl_item *watcher);
/* Returns the full path of the node that the watcher watches; NULL for a directory, or no watch. */
const char *zkl_watch_node_of(const zkl_item *watcher);
/*
 * Requests may go out again: removes watches that could not be removed, and arms those of owners on their own nodes. On a new
 * connection it reads the data of these nodes once more.
 */
void zkl_watches_resume(zkl_watches *watches);
/* The handle is closed: no watcher is called any more. */
void zkl_watches_closed(zkl_watches *watches);
/* Returns whether a watcher, or a guard, needs a watch on the node with this full path, or on its children. */
bool zkl_watch_wanted(const zkl_watches *watches, const char *path, bool children);
/* All watches of that kind on a node were removed, and with them one that no watcher needs any more. */
void zkl_watch_forgotten(zkl_watches *watches, const char *path, bool children);

#endif
