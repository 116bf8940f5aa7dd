/*
 * watch: one watcher object per watched node.
 *
 * The C client identifies a watcher by its function and context, and delivers every session event to all watchers. It
 * keeps the context's address until the watch has fired, has been removed, or the handle is closed. So there is one
 * object per node and queue. Entries share it, and it is freed only when the C client cannot know it any more.
 *
 * A watch is armed by get and not by exists, because an exists-watch on a missing node stays behind as a creation
 * watch. A node that may not be read (ZNOAUTH) cannot be watched. An exists would arm a watch, but servers with the fix
 * of CVE-2024-23944 do not report events on a node that the client may not read. An entry that waits for such a node
 * looks again now and then.
 *
 * The uses:
 * - A contender watches the node before its own.
 * - A holder watches its own node (`owner`) to learn whether the release of the lock is requested: a request changes
 *   the node's data.
 * - The head of a semaphore's queue watches the directory of the permits (`children`), by the list that it needs
 *   anyway.
 * - A granted entry watches its directory (`children`) while it lingers, or while many acquisitions share it (share.c).
 */
#include <string.h>

#include "engine_private.h"

static void free_watch(zkl_watch *watch)
{
    LIST_REMOVE(watch, in_queue);
    if (watch->unwanted) {
        watch->engine->cleaning--;
    }
    watch->engine->stats.watches--;
    zkl_queue *queue = watch->queue;
    zkl_free(watch->node);
    zkl_free(watch);
    zkl_queue_drop(queue);
}

/* Returns the watch on the node `name`, or, if `name` is NULL, on the children of the queue's directory. NULL: none. */
static zkl_watch *find(zkl_queue *queue, const char *name)
{
    zkl_watch *watch;
    LIST_FOREACH(watch, &queue->watches, in_queue)
    {
        if (watch->children ? name == NULL : name != NULL && strcmp(watch->node + strlen(queue->path) + 1, name) == 0) {
            return watch;
        }
    }
    return NULL;
}

static zkl_watch *new_watch(zkl_queue *queue, const char *name)
{
    zkl_watch *watch = zkl_alloc(sizeof *watch);
    char *node = name != NULL ? zkl_child_path(queue->path, name) : zkl_copy(queue->path, strlen(queue->path));
    if (watch == NULL || node == NULL) {
        zkl_free(watch);
        zkl_free(node);
        return NULL;
    }
    watch->engine = queue->engine;
    watch->queue = queue;
    watch->node = node;
    watch->children = name == NULL;
    LIST_INIT(&watch->entries);
    LIST_INSERT_HEAD(&queue->watches, watch, in_queue);
    queue->uses++;
    queue->engine->stats.watches++;
    return watch;
}

/* Marks a watch that is armed, or may be, and that is not needed any more. It is counted until its removal is confirmed. */
static void set_unwanted(zkl_watch *watch, bool unwanted)
{
    if (watch->unwanted != unwanted) {
        watch->unwanted = unwanted;
        watch->engine->cleaning += unwanted ? 1 : -1;
    }
}

static bool is_wanted(const zkl_watch *watch)
{
    return !LIST_EMPTY(&watch->entries) || watch->owner != NULL;
}

/* Frees the watch when its address is not known any more: by no entry, by no request, and not by the C client. */
static void free_if_unused(zkl_watch *watch)
{
    if (watch->state == ZKL_WATCH_IDLE && watch->flying == 0 && !watch->pinned && !is_wanted(watch)) {
        free_watch(watch);
    }
}

/* Sends the request that arms the watch. Returns false if that is not possible now. */
static bool arm(zkl_watch *watch)
{
    bool sent = zkl_session_usable(watch->engine) && zkl_send_watch(watch);
    watch->flying += sent;
    watch->state = sent ? ZKL_WATCH_ARMING : ZKL_WATCH_IDLE;
    return sent;
}

/*
 * Removes an armed watch that is not needed any more: now, or when requests may go out again (zkl_watches_resume). The
 * removal would take the program's own watch on the node too (user_watch.c). If there is one, both are removed with
 * that one.
 */
static void disarm(zkl_watch *watch)
{
    if (zkl_user_watch_wanted(watch->engine, watch->node, watch->children)) {
        set_unwanted(watch, false);
        return;
    }
    set_unwanted(watch, true);
    if (!zkl_session_usable(watch->engine)) {
        return;
    }
    if (zkl_send_unwatch(watch)) {
        watch->flying++;
        watch->state = ZKL_WATCH_REMOVING;
    } else {
        zkl_try_later(watch->engine);
    }
}

/* Detaches all entries from this watch, and calls `what` for each. Some of them may choose the watch again at once. */
static void tell(zkl_watch *watch, void (*what)(zkl_entry *))
{
    struct zkl_watcher_list told = LIST_HEAD_INITIALIZER(told);
    zkl_entry *entry;
    while ((entry = LIST_FIRST(&watch->entries)) != NULL) {
        LIST_REMOVE(entry, in_watch);
        LIST_INSERT_HEAD(&told, entry, in_watch);
    }
    watch->pinned = true;
    while ((entry = LIST_FIRST(&told)) != NULL) {
        LIST_REMOVE(entry, in_watch);
        entry->watch = NULL;
        what(entry);
    }
    watch->pinned = false;
}

/* The watch could not be armed. If there is a connection, the entry waits: the cause will not pass at once. */
static void look_on(zkl_entry *entry)
{
    if (entry->state == ZKL_ENTRY_QUEUED && zkl_session_usable(entry->engine)) {
        zkl_entry_look_later(entry); /* no memory, or a name that no node can have */
    } else {
        zkl_entry_look_again(entry);
    }
}

/* The C client does not know the watch any more (IDLE): arms it again if it is needed, or frees it. */
static void rearm_or_free(zkl_watch *watch)
{
    if (is_wanted(watch) && !arm(watch)) {
        tell(watch, look_on);
    }
    free_if_unused(watch);
}

/*
 * Returns the watch on a node, or on the children of the queue's directory. Makes it if there is none. NULL when memory
 * is short.
 */
static zkl_watch *take_watch(zkl_queue *queue, const char *name)
{
    zkl_watch *watch = find(queue, name);
    if (watch == NULL) {
        watch = new_watch(queue, name);
    }
    if (watch != NULL) {
        set_unwanted(watch, false);
    }
    return watch;
}

/* Attaches the entry to the watch. NULL: there was no memory for a watch. */
static void join(zkl_entry *entry, zkl_watch *watch)
{
    if (watch == NULL) {
        look_on(entry);
        return;
    }
    entry->watch = watch;
    LIST_INSERT_HEAD(&watch->entries, entry, in_watch);
    if (watch->state == ZKL_WATCH_ARMED) {
        zkl_entry_prediction_answered(entry, true);
    } else if (watch->state == ZKL_WATCH_IDLE && !watch->pinned) {
        rearm_or_free(watch);
    }
}

void zkl_watch_node(zkl_entry *entry, const char *name)
{
    zkl_queue_remove_if_stray(entry->queue, name); /* else the entry would wait for it until the session ends */
    join(entry, take_watch(entry->queue, name));
}

bool zkl_watch_children(zkl_entry *queue_entry, zkl_queue *queue)
{
    zkl_watch *watch = take_watch(queue, NULL);
    bool armed = watch != NULL && watch->state == ZKL_WATCH_ARMED;
    join(queue_entry, watch);
    return queue_entry->watch != NULL && !armed;
}

/* Returns the bytes that the watch takes in the packet that arms all watches again after a reconnect. */
static int64_t bytes_of(const zkl_engine *engine, const char *node)
{
    return engine->chroot_length + (int64_t)strlen(node) + ZKL_WATCH_OVERHEAD;
}

void zkl_watch_own(zkl_entry *entry)
{
    zkl_engine *engine = entry->engine;
    if (engine->own_bytes + bytes_of(engine, entry->node) > ZKL_MAX_OWN_BYTES) {
        zkl_log(engine, ZOO_LOG_LEVEL_WARN, "too many locks are held to hear who asks for '%s' to be released",
                entry->node);
        return;
    }
    zkl_watch *watch = take_watch(entry->queue, zkl_entry_name(entry));
    if (watch == NULL) {
        return; /* no request to release will be noticed: not worth losing the lock for */
    }
    watch->owner = entry;
    entry->own = watch;
    engine->own_bytes += bytes_of(engine, watch->node);
    if (watch->state == ZKL_WATCH_ARMED && watch->asked) {
        zkl_entry_revoked(entry); /* a waiter's read has shown it, and the node is not read again before it changes */
    }
    if (watch->state == ZKL_WATCH_IDLE && !watch->pinned) {
        arm(watch); /* if that is not possible now, zkl_watches_resume does it */
    }
}

void zkl_watch_leave(zkl_entry *entry)
{
    zkl_watch *watch = entry->watch;
    if (watch == NULL) {
        return;
    }
    LIST_REMOVE(entry, in_watch);
    entry->watch = NULL;
    if (is_wanted(watch)) {
        return;
    }
    if (watch->state == ZKL_WATCH_ARMED && !ZKL_BROKEN(ZKL_BREAK_WATCH)) {
        disarm(watch);
    } else if (watch->state == ZKL_WATCH_ARMING || watch->state == ZKL_WATCH_REMOVING) {
        set_unwanted(watch, true); /* the reply decides */
    }
    free_if_unused(watch);
}

/*
 * Leaves a watch on something that we are about to change, which fires the watch. If it does not, zkl_watches_resume
 * removes it.
 */
static void leave_to_fire(zkl_watch *watch)
{
    if (!is_wanted(watch)) {
        set_unwanted(watch, watch->state != ZKL_WATCH_IDLE);
        free_if_unused(watch);
    }
}

/*
 * Detaches the watch from the owner of the node, which is not told of requests to release any more. Returns the owner,
 * or NULL.
 */
static zkl_entry *part_from_owner(zkl_watch *watch)
{
    zkl_entry *owner = watch->owner;
    if (owner != NULL) {
        owner->own = NULL;
        watch->owner = NULL;
        watch->engine->own_bytes -= bytes_of(watch->engine, watch->node);
    }
    return owner;
}

void zkl_watch_leave_own(zkl_entry *entry)
{
    zkl_watch *watch = entry->own;
    if (watch != NULL) {
        part_from_owner(watch);
        leave_to_fire(watch);
    }
}

void zkl_watch_leave_directory(zkl_entry *entry)
{
    zkl_watch *watch = entry->watch;
    if (watch != NULL) {
        LIST_REMOVE(entry, in_watch);
        entry->watch = NULL;
        leave_to_fire(watch);
    }
}

/* Returns the entry whose own node is watched, unless that entry has requested the deletion. */
static zkl_entry *owner_of(zkl_watch *watch)
{
    zkl_entry *entry = part_from_owner(watch);
    if (entry == NULL) {
        TAILQ_FOREACH(entry, &watch->queue->entries, in_queue)
        {
            bool stands = entry->state == ZKL_ENTRY_QUEUED || entry->state == ZKL_ENTRY_CONFIRMING ||
                          entry->state == ZKL_ENTRY_GRANTED;
            if (stands && strcmp(entry->node, watch->node) == 0) {
                break;
            }
        }
    }
    return entry;
}

static bool is_revocation(const char *data, int length)
{
    return length == (int)sizeof ZKL_REVOKE - 1 && memcmp(data, ZKL_REVOKE, sizeof ZKL_REVOKE - 1) == 0;
}

/* Tells the entries whether the node is there: some have only predicted its name. */
static void tell_of_look(const zkl_watch *watch, bool there)
{
    zkl_entry *entry;
    LIST_FOREACH(entry, &watch->entries, in_watch)
    {
        zkl_entry_prediction_answered(entry, there);
    }
}

/* Handles the reply to the request that arms the watch. */
void zkl_watch_armed(zkl_request *request, int rc, const char *data, int length)
{
    zkl_watch *watch = request->about.watch;
    watch->flying--;
    watch->asked = rc == ZOK && is_revocation(data, length);
    if (watch->asked && watch->owner != NULL) {
        zkl_entry_revoked(watch->owner);
    }
    tell_of_look(watch, rc == ZOK);
    if (rc == ZOK || ZKL_BROKEN(ZKL_BREAK_REARM)) {
        watch->state = ZKL_WATCH_ARMED;
        if (!is_wanted(watch)) {
            disarm(watch);
        }
        return;
    }
    watch->state = ZKL_WATCH_IDLE;
    if (rc == ZNOAUTH || rc == ZNONODE) {
        part_from_owner(watch); /* the node may not be read, or is gone, as the heartbeat will tell */
    }
    if (rc == ZNOAUTH || rc == ZTHROTTLEDOP) {
        tell(watch, zkl_entry_look_later);
    } else {
        tell(watch, rc == ZNONODE ? zkl_entry_blocker_gone : zkl_entry_look_again);
    }
    if (rc == ZTHROTTLEDOP && is_wanted(watch)) {
        zkl_try_later(watch->engine); /* zkl_watches_resume arms it for its owner */
    } else {
        rearm_or_free(watch);
    }
}

/* Handles the list that arms the watch on the children of a queue's directory. */
void zkl_watch_listed(zkl_request *request, int rc, const struct String_vector *names, const struct Stat *stat)
{
    zkl_watch *watch = request->about.watch;
    watch->flying--;
    watch->state = rc == ZOK ? ZKL_WATCH_ARMED : ZKL_WATCH_IDLE;
    rc = rc == ZOK && !zkl_list_is_sound(names) ? ZMARSHALLINGERROR : rc; /* armed all the same */
    request->purpose = ZKL_LIST_LOOK;
    watch->pinned = true;
    zkl_entry *entry, *next;
    for (entry = LIST_FIRST(&watch->entries); entry != NULL; entry = next) {
        next = LIST_NEXT(entry, in_watch);
        if (rc != ZOK) {
            LIST_REMOVE(entry, in_watch);
            entry->watch = NULL;
        }
        if (entry->role == ZKL_ROLE_QUEUE_ENTRY) {
            zkl_permits_listed(entry->acquisition, request, rc, names, stat);
        } else {
            zkl_share_listed(entry, rc, names);
        }
    }
    watch->pinned = false;
    if (watch->state == ZKL_WATCH_IDLE) {
        rearm_or_free(watch);
    } else if (watch->state == ZKL_WATCH_ARMED && !is_wanted(watch)) {
        disarm(watch);
    }
}

/* The watch could not be removed, and is still armed. Its entries have counted on the list that arms it again. */
static void keep_watch(zkl_watch *watch, int rc)
{
    if (!zkl_outcome_unknown(rc)) {
        zkl_try_later(watch->engine); /* after a lost connection it is tried again anyway */
    }
    zkl_entry *entry, *next;
    for (entry = watch->children ? LIST_FIRST(&watch->entries) : NULL; entry != NULL; entry = next) {
        next = LIST_NEXT(entry, in_watch);
        if (entry->role == ZKL_ROLE_QUEUE_ENTRY) {
            zkl_permits_look_again(entry->acquisition);
        } else {
            zkl_share_contested(entry); /* another contender may have come */
        }
    }
}

void zkl_watch_removed(zkl_request *request, int rc)
{
    zkl_watch *watch = request->about.watch;
    watch->flying--;
    if (watch->state == ZKL_WATCH_REMOVING) {
        watch->state = rc == ZOK ? ZKL_WATCH_IDLE : ZKL_WATCH_ARMED;
        if (rc == ZOK) {
            zkl_user_watches_forgotten(watch->engine, watch->node, watch->children);
            rearm_or_free(watch);
        } else if (rc == ZNOWATCHER) {
            zkl_session_unwatched(watch->engine); /* the C client removes it with ZOK only (deactivateWatcher) */
        } else {
            keep_watch(watch, rc);
        }
    } else {
        free_if_unused(watch); /* it fired meanwhile, and may have been armed again */
    }
}

void zkl_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    (void)path;
    zkl_watch *watch = context;
    if (type == ZOO_SESSION_EVENT) {
        return; /* the watch stays armed */
    }
    watch->engine->stats.notifications++;
    watch->state = ZKL_WATCH_IDLE; /* the C client has forgotten it */
    zkl_entry *owner = type == ZOO_DELETED_EVENT && !watch->children ? owner_of(watch) : NULL;
    if (owner != NULL) {
        watch->pinned = true; /* its entries, which are told below, may leave together with its owner */
        zkl_entry_deleted_externally(owner);
        watch->pinned = false;
    }
    if (type == (watch->children ? ZOO_CHILD_EVENT : ZOO_DELETED_EVENT)) {
        tell(watch, zkl_entry_blocker_gone);
    } else if (watch->children) {
        tell(watch, zkl_entry_look_again);
    } else if (ZKL_BROKEN(ZKL_BREAK_REARM)) {
        return;
    }
    rearm_or_free(watch); /* its data changed, or an entry has chosen it again */
}

void zkl_watches_resume(zkl_engine *engine)
{
    for (uint32_t slot = 0; slot < engine->queue_slots; slot++) {
        zkl_queue *queue;
        LIST_FOREACH(queue, &engine->queues[slot], hash)
        {
            zkl_watch *watch;
            LIST_FOREACH(watch, &queue->watches, in_queue)
            {
                if (watch->state == ZKL_WATCH_ARMED && !is_wanted(watch)) {
                    disarm(watch);
                } else if (watch->state == ZKL_WATCH_IDLE && watch->owner != NULL) {
                    arm(watch);
                }
            }
        }
    }
}

void zkl_watches_look_again(zkl_engine *engine)
{
    zkl_entry *entry;
    TAILQ_FOREACH(entry, &engine->entries, all)
    {
        bool waits =
            entry->role == ZKL_ROLE_QUEUE_ENTRY && entry->state == ZKL_ENTRY_CONFIRMING && entry->watch != NULL;
        if (waits && entry->watch->state == ZKL_WATCH_ARMED && !ZKL_BROKEN(ZKL_BREAK_OUTLIVED)) {
            zkl_permits_look_again(entry->acquisition);
        }
    }
}

void zkl_watches_closed(zkl_engine *engine)
{
    for (uint32_t slot = 0; slot < engine->queue_slots; slot++) {
        zkl_queue *queue = LIST_FIRST(&engine->queues[slot]);
        while (queue != NULL) {
            queue->uses++; /* stays until its successor is known */
            zkl_watch *watch;
            while ((watch = LIST_FIRST(&queue->watches)) != NULL) {
                zkl_entry *entry;
                while ((entry = LIST_FIRST(&watch->entries)) != NULL) {
                    LIST_REMOVE(entry, in_watch);
                    entry->watch = NULL;
                }
                part_from_owner(watch);
                free_watch(watch);
            }
            zkl_queue *next = LIST_NEXT(queue, hash);
            zkl_queue_drop(queue);
            queue = next;
        }
    }
}

/* Returns the watch on the node with this full path, or on its children; NULL if there is none. */
static zkl_watch *find_by_path(const zkl_engine *engine, const char *path, bool children)
{
    const char *slash = strrchr(path, '/');
    size_t directory = children ? strlen(path) : (size_t)(slash - path);
    zkl_queue *queue = zkl_queue_find(engine, path, directory);
    return queue != NULL ? find(queue, children ? NULL : slash + 1) : NULL;
}

bool zkl_watch_wanted(const zkl_engine *engine, const char *path, bool children)
{
    const zkl_watch *watch = find_by_path(engine, path, children);
    return watch != NULL && is_wanted(watch);
}

void zkl_watch_forgotten(const zkl_engine *engine, const char *path, bool children)
{
    zkl_watch *watch = find_by_path(engine, path, children);
    if (watch == NULL) {
        return;
    }
    /*
     * A watch whose own removal is in flight was removed with the others. The answer to its removal says so, and does
     * not count any more.
     */
    if (watch->state == ZKL_WATCH_REMOVING || (watch->state == ZKL_WATCH_ARMED && !is_wanted(watch))) {
        watch->state = ZKL_WATCH_IDLE;
        rearm_or_free(watch);
    }
}
